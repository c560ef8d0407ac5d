"""Brains: slices, glass brains and surfaces, rows of regions, and patterns."""

from dataclasses import replace
from types import SimpleNamespace

import matplotlib.pyplot as plt
import numpy as np
import pytest
from matplotlib.collections import PolyCollection
from matplotlib.colors import to_rgba
from nilearn import datasets, plotting
from nilearn.plotting.displays import OrthoSlicer
from numpy.testing import assert_allclose, assert_array_equal

from mvpa_kfda.data.space import FeatureSpace, SurfaceSpace
from mvpa_kfda.viz import brains
from mvpa_kfda.viz.brains import MOST_BARS
from mvpa_kfda.viz.style import SIGNIFICANT_COLOR
from tests import build
from tests.build import MNI, artist, legend, region_space, surface_space, volume_space

P, CHANCE = 99, 0.25
MAX = "p ≤ 0.05 (max-statistic correction)"
INSIDE = (slice(1, -1),) * 3
#: Warnings of nilearn are not for the reader.
pytestmark = pytest.mark.filterwarnings("error")


def make(space=None, good=(3,), **fields):
    space = volume_space() if space is None else space
    return build.brain_map(space, good, chance=CHANCE, height=0.35, **fields)


@pytest.fixture
def overlays(monkeypatch):
    """Record what is drawn on slices and glass brains, and where they are cut."""
    seen = {"overlay": [], "contours": [], "anat": []}

    def record(owner, method, kind):
        original = getattr(owner, method)

        def wrapper(*args, **options):
            drawn = {"img": args[1]} if kind != "anat" else {}
            seen[kind].append(SimpleNamespace(arguments=options, **drawn))
            return original(*args, **options)

        monkeypatch.setattr(owner, method, wrapper)

    base = next(c for c in OrthoSlicer.__mro__ if "add_overlay" in vars(c))
    record(base, "add_overlay", "overlay")
    record(base, "add_contours", "contours")
    record(plotting, "plot_anat", "anat")
    return seen


def marked(overlays, result):
    """Return which positions are outlined, in the last figure."""
    given = overlays["contours"][-1].img.get_fdata()[INSIDE]
    return given[result.geometry.mask] > 0


# --------------------------------------------------------------------------- slices


def test_slices_show_the_scores_around_chance(overlays):
    result = make()
    result.scores[7] = CHANCE
    figure = result.plot()
    drawn = overlays["overlay"][-1]  # the first one is the background
    given, mask = drawn.img.get_fdata(), result.geometry.mask
    expected = np.nan_to_num(result.scores - CHANCE)
    assert_allclose(given[mask], expected, rtol=1e-5, atol=1e-6)
    assert given[mask][7] > drawn.arguments["threshold"] > 0  # chance itself is drawn
    assert given[mask][1] == 0  # not decoded
    assert (given[~mask] == 0).all()
    low, high = drawn.arguments["vmin"], drawn.arguments["vmax"]
    assert_allclose([low, high], [-CHANCE, 0.35], rtol=1e-6, atol=0)
    bar = figure.axes[-1]
    assert_allclose(bar.get_ylim(), [0, 0.6], rtol=1e-6, atol=1e-9)
    assert not bar.patches
    (line,) = bar.lines
    assert_array_equal(line.get_ydata(), [CHANCE, CHANCE])
    assert bar.get_ylabel() == "Accuracy"
    title = "12 trials, 2 classes (face, house), 4 folds, 99 permutations"
    assert figure._suptitle.get_text() == title
    # Colors fade towards chance.
    at = (np.array([low, 0.0, 0.1, 0.2, high]) - low) / (high - low)
    alpha = drawn.arguments["cmap"](at)
    assert alpha[1, 3] < 0.02
    assert alpha[2, 3] == pytest.approx(0.1 / 0.175, abs=0.02)
    assert_array_equal(alpha[[0, 3, 4], 3], 1)
    assert alpha[4, 0] > alpha[4, 2]  # red above chance
    assert alpha[0, 2] > alpha[0, 0]  # blue below it
    how = {"views": "z", "cut_coords": 1}
    bar = make().plot(vlim=(0.22, 0.4), cmap="PuOr", **how).axes[-1]
    assert_allclose(bar.get_ylim(), [0.22, 0.4], rtol=1e-9, atol=0)
    assert len(bar.patches) == 2  # a point at either end


def test_significant_voxels_are_outlined(overlays):
    result = make(good=(3, 200))
    figure = result.plot()
    (drawn,) = overlays["contours"]
    # A rim of zeros closes outlines at the border; the voxels stay where they are.
    here, there = drawn.img.affine @ [1, 1, 1, 1], result.geometry.affine @ [0, 0, 0, 1]
    assert_array_equal(here, there)
    assert np.flatnonzero(marked(overlays, result)).tolist() == [3, 200]
    assert drawn.arguments["levels"] == [0.5]
    assert legend(figure) == [MAX, "chance (0.25)"]
    (cut,) = overlays["anat"]  # through the best of them
    assert cut.arguments["display_mode"] == "ortho"
    best = result.coordinates[200]
    assert_allclose(cut.arguments["cut_coords"], best, rtol=0, atol=1e-9)
    assert "anat_img" not in cut.arguments  # nilearn's MNI template
    without = make(n_permutations=0, good=(3, 4))
    figure = without.plot(min_score=0.605, views="z", cut_coords=1)
    assert np.flatnonzero(marked(overlays, without)).tolist() == [4]
    assert legend(figure)[0] == "Accuracy ≥ 0.605"


@pytest.mark.parametrize(
    ("n_permutations", "options", "words"),
    [
        (P, {"alpha": 0.001}, "p ≤ 0.001 (max-statistic correction) is not attainable"),
        (0, {"min_score": 0.9}, "no voxel with Accuracy ≥ 0.9"),
    ],
)
def test_nothing_is_outlined_without_reason(overlays, n_permutations, options, words):
    result = make(n_permutations=n_permutations)
    first, _ = legend(result.plot(views="z", cut_coords=1, **options))
    assert overlays["contours"] == []
    assert first.startswith(words)


def test_without_permutations_there_is_no_word_of_them(overlays):
    assert len(legend(make(n_permutations=0).plot(views="z", cut_coords=1))) == 1
    assert overlays["contours"] == []


def test_outlines_follow_the_threshold_and_the_alternative(overlays):
    result = make(good=range(3, 9))
    nearest = np.arange(len(result.positions) - 1) + np.array([[0], [1]])
    result = replace(result, adjacency=nearest)
    for options in (
        {"correction": "none", "alternative": "less"},
        {"correction": "cluster", "threshold": 0.3},
    ):
        p, usual = result.pvalues(**options), result.pvalues(options["correction"])
        assert ((p <= 0.4) != (usual <= 0.4)).any()
        result.plot(alpha=0.4, views="z", cut_coords=1, **options)
        assert_array_equal(marked(overlays, result), p <= 0.4)


def test_cuts_go_through_the_best_and_stay_in_the_brain(overlays):
    def cuts(result, **options):
        result.plot(**options)
        return overlays["anat"][-1].arguments

    regions = make(region_space())
    found = cuts(regions, kind="stat_map")["cut_coords"]
    own = regions.geometry.base.points[regions.geometry.labels == 4]
    assert (np.abs(own - found).max(axis=1) < 1e-9).any()
    along = volume_space().points[:, 2]
    for best in (503, int(along.argmax())):
        found = np.asarray(cuts(make(good=(best,)), views="z")["cut_coords"])
        assert along[best] in found
        assert ((along.min() <= found) & (found <= along.max())).all()
        assert len(np.unique(found)) == len(found)
    slab = volume_space((40, 20, 1), np.diag([3.1, 3.75, 3.75, 1.0]))
    result = make(slab)  # one slice, as some measure it
    seen = cuts(result)
    assert (seen["display_mode"], list(seen["cut_coords"])) == ("z", [0.0])
    background = seen["anat_img"].get_fdata()
    assert_array_equal(background[result.geometry.mask] > 0, result.decoded)
    given = overlays["overlay"][-1].img.get_fdata()[result.geometry.mask]
    assert given[3] == pytest.approx(0.6 - CHANCE, rel=1e-6)
    # The background is the template only where it fits.
    assert brains.in_template(volume_space())
    far = MNI.copy()
    far[:3, 3] += 60
    assert "anat_img" in cuts(make(volume_space(affine=far)))
    mine = volume_space().to_img(np.arange(volume_space().n_positions))
    assert cuts(make(), bg_img=mine)["anat_img"] is mine


# ------------------------------------------------------------------------ glass brain


def test_glass_brain_shows_what_is_significant_or_above_chance(overlays):
    result = make(good=(3, 200))
    figure = result.plot("glass_brain", views="z")
    (drawn,) = overlays["overlay"]
    given = drawn.img.get_fdata()[result.geometry.mask]
    assert np.flatnonzero(given).tolist() == [3, 200]
    assert given[200] == pytest.approx(0.61 - CHANCE, rel=1e-6)
    assert legend(figure)[0].startswith("shown: p ≤ 0.05")
    figure = make(good=()).plot("glass_brain", views="z")
    assert len(overlays["overlay"]) == 1
    assert legend(figure)[0].startswith("no voxel at p ≤ 0.05")
    without = make(n_permutations=0)
    no_level = replace(without, chances={"accuracy": np.nan})
    for each, shown in [
        (without, without.scores > CHANCE),
        (no_level, without.decoded),
    ]:
        each.plot("glass_brain", views="z")
        given = overlays["overlay"][-1].img.get_fdata()[result.geometry.mask]
        assert_array_equal(given > 0, shown)


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


@pytest.mark.parametrize("good", [[27], [27, 28, 35, 36], []])
def test_surface_outlines_run_around_significant_vertices(good):
    result = make(surface_space(), good=good)
    left, right = blackened(result.plot(views="lateral"))
    assert len(right) == 0
    if not good:
        assert len(left) == 0
        return
    vertices = result.geometry.columns()["vertex"][good]
    touched = np.isin(result.geometry.faces["left"][left], vertices)
    assert len(left) > 6
    assert not touched.any()
    far = np.abs(np.subtract.outer(left // 14, vertices // 8)).min(axis=1)
    assert far.max() <= 3


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


def test_regions_are_rows_the_best_on_top():
    result = make(region_space(), undecoded=(1,))
    figure = result.plot()
    (ax,) = figure.axes
    names = [text.get_text() for text in ax.get_yticklabels()]
    order = np.argsort(result.scores)[:-1]  # NaN is last
    assert names == ["Area 1 (not decoded)", *(f"Area {i}" for i in order)]
    dots = artist(ax, "Accuracy")
    assert_array_equal(dots.get_xdata()[1:], result.scores[order])
    marked = artist(ax, "p ≤ 0.05")
    assert marked.get_xdata().tolist() == [0.6]
    assert marked.get_ydata().tolist() == [5]
    assert marked.get_color() == SIGNIFICANT_COLOR
    assert artist(ax, "chance").get_xdata() == [CHANCE, CHANCE]
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
    assert_array_equal(artist(ax, "Accuracy").get_ydata(), result.scores)
    assert artist(ax, "p ≤ 0.05").get_xdata().tolist() == [7, 9]
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
    assert len(artist(ax, "no region at p").get_xdata()) == 0


def test_patterns_of_regions_are_drawn_where_they_are_large(monkeypatch):
    result, shown = build.result("regions"), []
    with monkeypatch.context() as patch:
        patch.setattr(plotting, "plot_stat_map", lambda *a, **k: shown.append((a, k)))
        figure = result.plot_patterns(region=2, cut_coords=1)
    expected = list(result.patterns(region=2).values())
    most = max(np.nanmax(np.abs(image.get_fdata())) for image in expected)
    for ((image,), options), pattern in zip(shown, expected, strict=True):
        assert_array_equal(image.get_fdata(), np.nan_to_num(pattern.get_fdata()))
        assert options["vmax"] == -options["vmin"] == pytest.approx(most, rel=1e-6)
        assert len(options["cut_coords"]) == 1
    assert [text.get_text() for text in figure.texts[:2]] == list(result.patterns())
    assert figure.axes[-1].get_ylabel() == "Pattern (unit of the data)"
    places = np.repeat(np.arange(10.0), 3)[::-1]
    at_two = np.where(np.isin(places, [2, 7]), 1.0, 0.0)
    assert brains._cuts(places, at_two, 7) == [2, 7]
    assert brains._cuts(places, np.ones(30), 5) == [0, 2, 4, 6, 8]
    assert brains._cuts(places, at_two, 1) == [2]


# ------------------------------------------------------------------------- arguments


def test_wrong_arguments_leave_no_figure():
    nothing = make(region_space(), good=(), undecoded=range(6))
    glass = {"kind": "glass_brain", "cut_coords": [1]}
    for result, options, message in [
        (make(), {"kind": "bar"}, "'kind': 'bar'. Allowed: 'stat_map', 'glass_brain'"),
        (make(region_space()), {"kind": "surface"}, "Allowed: 'bar', 'stat_map', 'gl"),
        (make(surface_space()), {"cut_coords": [1]}, "A surface has no cuts"),
        (make(), glass, "neither cuts nor a back"),
        (nothing, {}, "nothing to plot: no position could be"),
    ]:
        with pytest.raises(ValueError, match=message):
            result.plot(**options)
    assert plt.get_fignums() == []
