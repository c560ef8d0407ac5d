from dataclasses import dataclass, replace

import matplotlib.pyplot as plt
import numpy as np
import pytest
from matplotlib.collections import PolyCollection
from matplotlib.colors import to_rgba
from nilearn import datasets
from numpy.testing import assert_allclose, assert_array_equal

from mvpa_kfda.data.space import FeatureSpace, SurfaceSpace
from mvpa_kfda.viz import brains
from mvpa_kfda.viz.brains import MOST_BARS
from mvpa_kfda.viz.style import SIGNIFICANT_COLOR
from tests import build
from tests.build import MNI, region_space, surface_space, volume_space

P, CHANCE = 99, 0.25

INSIDE = (slice(1, -1),) * 3


#: Warnings of nilearn are not for the reader.
pytestmark = pytest.mark.filterwarnings("error")


def slab():
    """One slice, as some measure it."""
    return volume_space((40, 20, 1), np.diag([3.1, 3.75, 3.75, 1.0]))


def make(space=None, good=(3,), undecoded=(1,), n_permutations=P):
    """Make a result in which the good positions are significant, no others."""
    space = volume_space() if space is None else space
    rng, n = np.random.default_rng(0), space.n_positions
    scores = rng.uniform(CHANCE - 0.05, CHANCE + 0.05, n)
    scores[list(good)] = 0.6 + 0.01 * np.arange(len(good))
    null = rng.uniform(CHANCE - 0.1, CHANCE + 0.1, (n_permutations, n))
    scores[list(undecoded)] = np.nan
    return build.made_of_images(space, scores, null, chance=CHANCE)


def legend(figure):
    return [text.get_text() for text in figure.legends[0].get_texts()]


def title(figure):
    return figure._suptitle.get_text()


@dataclass
class Overlay:
    """What was given to nilearn to draw."""

    img: object
    arguments: dict


@pytest.fixture
def overlays(monkeypatch):
    """Record what is drawn on slices and glass brains."""
    from nilearn.plotting.displays import OrthoSlicer, ZProjector, ZSlicer

    seen = {"overlay": [], "contours": []}

    def record(cls, method, kind):
        original = getattr(cls, method)

        def wrapper(self, img, *args, **kwargs):
            seen[kind].append(Overlay(img, kwargs))
            return original(self, img, *args, **kwargs)

        monkeypatch.setattr(cls, method, wrapper)

    base = next(c for c in OrthoSlicer.__mro__ if "add_overlay" in vars(c))
    assert base in ZSlicer.__mro__
    assert base in ZProjector.__mro__
    record(base, "add_overlay", "overlay")
    record(base, "add_contours", "contours")
    return seen


# --------------------------------------------------------------------------- slices


def test_slices_show_the_scores_around_chance(overlays):
    result = make()
    figure = result.plot()
    drawn = overlays["overlay"][-1]  # the first one is the background
    given, mask = drawn.img.get_fdata(), result.geometry.mask
    expected = np.nan_to_num(result.scores - CHANCE)
    assert_allclose(given[mask], expected, rtol=1e-5, atol=1e-6)
    assert (given[~mask] == 0).all()
    low, high = drawn.arguments["vmin"], drawn.arguments["vmax"]
    assert_allclose([low, high], [-CHANCE, 0.35], rtol=1e-6, atol=0)
    bar = figure.axes[-1]
    assert_allclose(bar.get_ylim(), [0, 0.6], rtol=1e-6, atol=1e-9)
    (line,) = bar.lines
    assert_array_equal(line.get_ydata(), [CHANCE, CHANCE])
    assert bar.get_ylabel() == "Accuracy"
    assert title(figure) == (
        "12 trials, 2 classes (face, house), 4 folds, 99 permutations"
    )


def test_chance_itself_is_drawn_and_nothing_is_not(overlays):
    result = make()
    scores = result.scores.copy()
    scores[7] = CHANCE
    replace(result, metrics={"accuracy": scores}).plot()
    given = overlays["overlay"][-1].img.get_fdata()[result.geometry.mask]
    threshold = overlays["overlay"][-1].arguments["threshold"]
    assert given[7] > threshold > 0
    assert given[1] == 0  # not decoded


def test_colors_fade_towards_chance(overlays):
    make().plot()
    arguments = overlays["overlay"][-1].arguments
    low, high = arguments["vmin"], arguments["vmax"]
    alpha = arguments["cmap"](
        (np.array([low, 0.0, 0.1, 0.2, high]) - low) / (high - low)
    )
    assert alpha[1, 3] < 0.02
    assert alpha[2, 3] == pytest.approx(0.1 / 0.175, abs=0.02)
    assert_array_equal(alpha[[0, 3, 4], 3], 1)
    assert alpha[4, 0] > alpha[4, 2]  # red above chance
    assert alpha[0, 2] > alpha[0, 0]  # blue below it


def test_significant_voxels_are_outlined(overlays):
    result = make(good=(3, 200))
    figure = result.plot()
    (drawn,) = overlays["contours"]
    marked = drawn.img.get_fdata()[INSIDE][result.geometry.mask]
    # A rim of zeros closes outlines at the border; the voxels stay where they are.
    assert_array_equal(
        drawn.img.affine @ [1, 1, 1, 1], result.geometry.affine @ [0, 0, 0, 1]
    )
    assert np.flatnonzero(marked).tolist() == [3, 200]
    assert drawn.arguments["levels"] == [0.5]
    assert legend(figure) == ["p ≤ 0.05 (max-statistic correction)", "chance (0.25)"]


@pytest.mark.some(1)
@pytest.mark.parametrize(
    ("n_permutations", "options", "label"),
    [
        (0, {}, []),
        (
            P,
            {"alpha": 0.001},
            ["p ≤ 0.001 (max-statistic correction) is not attainable"],
        ),
        (0, {"min_score": 0.9}, ["no voxel with Accuracy ≥ 0.9"]),
    ],
)
def test_nothing_is_outlined_without_reason(overlays, n_permutations, options, label):
    figure = make(n_permutations=n_permutations).plot(**options)
    assert overlays["contours"] == []
    texts = legend(figure)
    assert len(texts) == len(label) + 1
    assert all(
        text.startswith(start) for text, start in zip(texts, label, strict=False)
    )


@pytest.mark.parametrize(
    "options",
    [
        {"correction": "none", "alternative": "less"},
        {"correction": "cluster", "threshold": 0.3},
    ],
)
def test_outlines_follow_the_threshold_and_the_alternative(overlays, options):
    result, alpha = make(good=range(3, 9)), 0.4
    nearest = np.arange(len(result.positions) - 1) + np.array([[0], [1]])
    result = replace(result, adjacency=nearest)
    p, usual = result.pvalues(**options), result.pvalues(options["correction"])
    assert ((p <= alpha) != (usual <= alpha)).any()
    result.plot(alpha=alpha, **options)
    outlined = overlays["contours"][0].img.get_fdata()[INSIDE]
    assert_array_equal(outlined[result.geometry.mask], p <= alpha)


def test_a_lowest_score_replaces_significance(overlays):
    result = make(n_permutations=0, good=(3, 4))
    figure = result.plot(min_score=0.605)
    outlined = overlays["contours"][0].img.get_fdata()[INSIDE]
    marked = outlined[result.geometry.mask]
    assert np.flatnonzero(marked).tolist() == [4]
    assert legend(figure)[0] == "Accuracy ≥ 0.605"


def cuts(monkeypatch, result, **options):
    """Return the arguments of nilearn's plot_anat."""
    from nilearn import plotting

    seen = {}
    original = plotting.plot_anat

    def record(*args, **kwargs):
        seen.update(kwargs)
        return original(*args, **kwargs)

    monkeypatch.setattr(plotting, "plot_anat", record)
    result.plot(**options)
    return seen


def test_cuts_go_through_the_best_significant_voxel(monkeypatch):
    result = make(good=(3, 200))
    seen = cuts(monkeypatch, result)
    assert seen["display_mode"] == "ortho"
    assert_allclose(seen["cut_coords"], result.coordinates[200], rtol=0, atol=1e-9)
    assert "anat_img" not in seen  # nilearn's MNI template


def test_cuts_of_regions_go_through_a_voxel_of_the_best(monkeypatch):
    result = make(region_space())
    seen = cuts(monkeypatch, result, kind="stat_map")
    own = result.geometry.base.points[result.geometry.labels == 4]
    assert (np.abs(own - seen["cut_coords"]).max(axis=1) < 1e-9).any()


def test_slices_in_a_row_hold_the_best_voxel(monkeypatch):
    seen = cuts(monkeypatch, make(good=(503,)), views="z")
    assert make().coordinates[503, 2] in np.asarray(seen["cut_coords"])


def test_slices_in_a_row_stay_in_the_brain(monkeypatch):
    space = volume_space()
    along = space.points[:, 2]
    top = int(along.argmax())
    found = cuts(monkeypatch, make(space, good=(top,)), views="z")["cut_coords"]
    assert along.max() in found
    assert ((along.min() <= found) & (found <= along.max())).all()
    assert len(np.unique(found)) == len(found)


def test_one_slice_is_drawn_as_one(monkeypatch, overlays):
    result = make(slab())
    seen = cuts(monkeypatch, result)
    assert (seen["display_mode"], list(seen["cut_coords"])) == ("z", [0.0])
    background = seen["anat_img"].get_fdata()
    assert_array_equal(background[result.geometry.mask] > 0, result.decoded)
    given = overlays["overlay"][-1].img.get_fdata()[result.geometry.mask]
    assert given[3] == pytest.approx(0.6 - CHANCE, rel=1e-6)


def test_background_is_the_template_only_where_it_fits(monkeypatch):
    assert brains.in_template(volume_space())
    far = MNI.copy()
    far[:3, 3] += 60
    assert "anat_img" in cuts(monkeypatch, make(volume_space(affine=far)))
    mine = volume_space().to_img(np.arange(volume_space().n_positions))
    assert cuts(monkeypatch, make(), bg_img=mine)["anat_img"] is mine


# ------------------------------------------------------------------------ glass brain


def test_glass_brain_shows_what_is_significant(overlays):
    result = make(good=(3, 200))
    figure = result.plot("glass_brain", views="z")
    (drawn,) = overlays["overlay"]
    given = drawn.img.get_fdata()[result.geometry.mask]
    assert np.flatnonzero(given).tolist() == [3, 200]
    assert given[200] == pytest.approx(0.61 - CHANCE, rel=1e-6)
    assert legend(figure)[0].startswith("shown: p ≤ 0.05")


def test_glass_brain_without_permutations_shows_what_is_above_chance(overlays):
    result = make(n_permutations=0)
    result.plot("glass_brain", views="z")
    given = overlays["overlay"][0].img.get_fdata()[result.geometry.mask]
    assert_array_equal(given > 0, result.scores > CHANCE)
    replace(result, chances={"accuracy": np.nan}).plot("glass_brain", views="z")
    given = overlays["overlay"][1].img.get_fdata()[result.geometry.mask]
    assert_array_equal(given > 0, result.decoded)


def test_glass_brain_may_be_empty(overlays):
    figure = make(good=()).plot("glass_brain", views="z")
    assert overlays["overlay"] == []
    assert legend(figure)[0].startswith("no voxel at p ≤ 0.05")


# --------------------------------------------------------------------------- surfaces


def test_surface_is_drawn_from_both_sides():
    result = make(surface_space(), good=(0, 20))
    place = result.geometry.coordinates["left"].copy()
    figure = result.plot()
    *brains, bar = figure.axes
    assert len(brains) == 4
    assert {text.get_text() for text in figure.texts} >= {"Left", "Right"}
    assert bar.get_ylabel() == "Accuracy"
    assert_array_equal(result.geometry.coordinates["left"], place)  # nilearn moves it
    views = {(round(ax.elev), round(ax.azim)) for ax in brains}
    assert len(views) == 2
    assert len(make(surface_space()).plot(views="lateral").axes) == 3


def blackened(figure):
    """Return the faces of each hemisphere that are part of an outline."""
    found = []
    for ax in figure.axes[:2]:
        (mesh,) = (c for c in ax.collections if isinstance(c, PolyCollection))
        black = (mesh._facecolor3d == to_rgba("black")).all(axis=1)
        found.append(np.flatnonzero(black))
    return found


@pytest.mark.parametrize("good", [[27], [27, 28, 35, 36]], ids=["one", "four"])
def test_surface_outlines_run_around_significant_vertices(good):
    result = make(surface_space(), good=good)
    left, right = blackened(result.plot(views="lateral"))
    assert len(right) == 0
    vertices = result.geometry.columns()["vertex"][good]
    touched = np.isin(result.geometry.faces["left"][left], vertices)
    assert len(left) > 6
    assert not touched.any()
    far = np.abs(np.subtract.outer(left // 14, vertices // 8)).min(axis=1)
    assert far.max() <= 3


def test_surface_without_significance_has_no_outline():
    left, right = blackened(make(surface_space(), good=()).plot(views="lateral"))
    assert len(left) == len(right) == 0


def test_folds_are_darker_than_crowns():
    shade = brains.shading_of(surface_space(), "left", None)
    height = surface_space().coordinates["left"][:, 0]
    inner = np.zeros((9, 8), bool)
    inner[1:-1, 1:-1] = True
    inner = inner.ravel()
    slope = np.corrcoef(shade[inner], height[inner])[0, 1]
    assert abs(slope) > 0.8
    fsaverage = datasets.load_fsaverage("fsaverage5")["pial"].parts["left"]
    mesh = SurfaceSpace(
        {"left": fsaverage.coordinates},
        {"left": fsaverage.faces},
        {"left": np.ones(fsaverage.n_vertices)},
    )
    depth = datasets.load_fsaverage_data("fsaverage5", data_type="sulcal")
    shade = brains.shading_of(mesh, "left", None)
    assert np.corrcoef(shade, depth.data.parts["left"].ravel())[0, 1] > 0.3
    assert_array_equal(brains.shading_of(mesh, "left", depth), depth.data.parts["left"])


# ------------------------------------------------------------------ regions, features


def curve(ax, label):
    (found,) = (line for line in ax.lines if label in str(line.get_label()))
    return found


def test_regions_are_rows_the_best_on_top():
    result = make(region_space(), undecoded=(1,))
    figure = result.plot()
    (ax,) = figure.axes
    names = [text.get_text() for text in ax.get_yticklabels()]
    order = np.argsort(result.scores)[:-1]  # NaN is last
    assert names == ["Area 1 (not decoded)", *(f"Area {i}" for i in order)]
    dots = curve(ax, "Accuracy")
    assert_array_equal(dots.get_xdata()[1:], result.scores[order])
    marked = curve(ax, "p ≤ 0.05")
    assert marked.get_xdata().tolist() == [0.6]
    assert marked.get_ydata().tolist() == [5]
    assert marked.get_color() == SIGNIFICANT_COLOR
    assert curve(ax, "chance").get_xdata() == [CHANCE, CHANCE]
    (bands,) = ax.containers
    top = bands.patches[-1]
    low, high = np.percentile(result.null[:, 3], [2.5, 97.5])
    assert_allclose(
        [top.get_x(), top.get_width()], [low, high - low], rtol=1e-9, atol=0
    )


def test_many_features_are_a_curve():
    n = MOST_BARS + 1
    result = make(FeatureSpace(None, n), good=(7, 9))
    (ax,) = result.plot().axes
    assert_array_equal(curve(ax, "Accuracy").get_ydata(), result.scores)
    assert curve(ax, "p ≤ 0.05").get_xdata().tolist() == [7, 9]
    assert ax.get_xlabel() == "Feature (index)"
    (band,) = ax.collections
    ends = np.percentile(result.null[:, 20], [2.5, 97.5])
    x, y = np.concatenate([path.vertices for path in band.get_paths()]).T
    drawn = np.unique(y[(x >= 19.5) & (x <= 20.5)].round(12))
    assert set(ends.round(12)) <= set(drawn)


def test_bars_without_permutations_or_significance():
    (ax,) = (
        make(FeatureSpace(["a", "b", "c"], 3), good=(), n_permutations=0).plot().axes
    )
    assert ax.containers == []
    assert {str(line.get_label()) for line in ax.lines} == {"Accuracy", "chance (0.25)"}
    (ax,) = make(region_space(), good=()).plot().axes
    assert len(curve(ax, "no region at p").get_xdata()) == 0


# ------------------------------------------------------------------------- arguments


@pytest.mark.parametrize(
    ("space", "options", "message"),
    [
        (
            volume_space,
            {"kind": "bar"},
            "'kind': 'bar'. Allowed: 'stat_map', 'glass_brain'",
        ),
        (
            region_space,
            {"kind": "surface"},
            "Allowed: 'bar', 'stat_map', 'glass_brain'",
        ),
        (surface_space, {"cut_coords": [1]}, "A surface has no cuts"),
        (
            volume_space,
            {"kind": "glass_brain", "cut_coords": [1]},
            "neither cuts nor a back",
        ),
    ],
)
def test_wrong_arguments_leave_no_figure(space, options, message):
    with pytest.raises(ValueError, match=message):
        make(space()).plot(**options)
    assert plt.get_fignums() == []


def test_nothing_decoded_is_nothing_to_plot():
    result = make(region_space(), good=(), undecoded=range(6))
    with pytest.raises(ValueError, match="nothing to plot: no position could be"):
        result.plot()


def test_values_beyond_the_colors_are_told_by_the_colorbar():
    figure = make().plot(vlim=(0.22, 0.4), cmap="PuOr")
    bar = figure.axes[-1]
    assert_allclose(bar.get_ylim(), [0.22, 0.4], rtol=1e-9, atol=0)
    assert len(bar.patches) == 2  # a point at either end
    assert not make().plot().axes[-1].patches
