"""Interactive views of brains: what nilearn is given, and what pages have of them."""

import base64
import gzip
import io
import re
from dataclasses import replace

import matplotlib.pyplot as plt
import nilearn.plotting
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from mvpa_kfda import report
from mvpa_kfda.data.space import FeatureSpace, VolumeSpace
from mvpa_kfda.reports import html
from mvpa_kfda.reports.sections import SECTIONS
from mvpa_kfda.results.views import map_of_p
from tests import build
from tests.html_pages import Blank, keep_sections

CHANCE = 0.5

#: Warnings of nilearn are not for the reader.
pytestmark = pytest.mark.filterwarnings("error")
SPACES = {
    "volume": build.volume_space,
    "regions": build.region_space,
    "surface": build.surface_space,
}


def make(space="volume", good=(3, 4)):
    space = SPACES[space]() if isinstance(space, str) else space
    return build.brain_map(space, good, n_permutations=19, chance=CHANCE)


class Seen(Blank):
    """What nilearn was asked for."""

    def colors(self, values):
        """Return the colors of values, red, green, blue and alpha."""
        low, high = self.options["vmin"], self.options["vmax"]
        return self.options["cmap"]((np.asarray(values) - low) / (high - low))

    def values(self, result):
        """Return what is drawn at each position, 0 where nothing is."""
        if self.positional:
            return self.positional[0].get_fdata()[result.geometry.base.mask]
        parts = self.options["surf_map"].data.parts
        mask = result.geometry.base.mask
        return np.concatenate([parts[part][mask[part]] for part in parts])


@pytest.fixture
def seen(monkeypatch):
    """Let nilearn only record what it is to draw."""
    monkeypatch.setattr(nilearn.plotting, "view_img", Seen)
    monkeypatch.setattr(nilearn.plotting, "view_surf", Seen)


def drawn(values, shown):
    """Return what is drawn of values where they are shown."""
    return np.where(shown, np.nan_to_num(values), 0)


@pytest.mark.parametrize("kind", ["volume", "surface"])
def test_scores_have_their_values_and_the_colors_of_figures(seen, kind):
    result = make(kind)
    view = result.view()
    assert_allclose(
        view.values(result), drawn(result.scores, result.decoded), rtol=1e-6
    )
    low, high = view.options["vmin"], view.options["vmax"]
    assert_allclose([low, high], [CHANCE - 0.31, CHANCE + 0.31], rtol=1e-6)
    assert view.options["symmetric_cmap"] is False
    white, red, blue = view.colors([CHANCE, high, low])
    assert white[3] < 0.05  # the brain shows through
    assert red[0] > 2 * red[2]
    assert red[3] == blue[3] == 1
    assert blue[2] > 2 * blue[0]
    # What is not drawn is below this, and the rest is not.
    assert 0 < view.options["threshold"] < np.abs(result.scores[0])
    assert result.view(vlim=(0, 1), cmap="viridis").options["vmax"] == 1


@pytest.mark.parametrize("name", ["p", "neglog10p", "z"])
def test_maps_of_p_values_are_those_of_images(seen, name):
    result = make()
    for correction in ("none", "max", "fdr"):
        view = result.view(name, correction=correction)
        p = result.pvalues(correction)
        expected = drawn(map_of_p(name, p, result.n_permutations), result.decoded)
        assert_allclose(view.values(result), expected, rtol=1e-5, atol=1e-5)
    if name == "p":
        small, large = view.colors([0, 1])
        assert small[0] > large[0]  # yellow, and not purple
        assert (view.options["vmin"], view.options["vmax"]) == (0, 1)


def test_what_is_significant_or_scores_as_much_is_shown_alone(seen):
    result = make()
    for correction in ("max", "none"):
        view = result.view(alpha=0.05, correction=correction)
        shown = result.pvalues(correction) <= 0.05
        assert shown[[3, 4]].all()
        assert_array_equal(view.values(result) != 0, shown)
    assert_array_equal(
        result.view(min_score=0.805).values(result) != 0, result.scores >= 0.805
    )
    clusters = {"correction": "cluster", "threshold": 0.2, "alpha": 0.5}
    expected = result.pvalues("cluster", threshold=0.2) <= 0.5
    assert not np.array_equal(expected, result.pvalues("cluster") <= 0.5)
    assert_array_equal(result.view(**clusters).values(result) != 0, expected)
    assert "nowhere p ≤ 0.001 (max-statistic" in result.view(alpha=0.001).html


def test_zero_is_drawn_and_nothing_is_not(seen):
    result = make()
    scores = np.where(np.arange(len(result.scores)) == 7, CHANCE, result.scores)
    result = replace(result, metrics={"accuracy": scores})
    view = result.view("chance_difference")
    assert 0 < view.values(result)[7] < 1e-5
    assert view.values(result)[7] > view.options["threshold"]
    assert view.values(result)[1] == 0  # where nothing was decoded
    assert_allclose(view.values(result)[3:5], result.scores[3:5] - CHANCE, rtol=1e-6)


def test_words_say_what_is_shown(seen):
    result = make()
    words = {
        "Accuracy": {},
        "Accuracy, where p ≤ 0.05 (max-statistic correction)": {"alpha": 0.05},
        "Accuracy, where accuracy ≥ 0.7": {"min_score": 0.7},
        "p (FDR correction)": {"name": "p", "correction": "fdr"},
        "Accuracy minus chance": {"name": "chance_difference"},
        "Number of features": {"name": "n_features"},
    }
    for text, options in words.items():
        assert f">{text}</p>" in result.view(**options).html
        assert make("surface").view(**options).options["title"] == text


def test_slices_go_through_the_best_voxel_that_is_shown(seen):
    result = make()
    places = result.geometry.points
    assert_allclose(result.view().options["cut_coords"], places[4], rtol=1e-6)
    view = result.view("p", correction="none")
    best = np.nanargmin(result.pvalues())
    assert_allclose(view.options["cut_coords"], places[best], rtol=1e-6)
    assert result.view(cut_coords=(1, 2, 3)).options["cut_coords"] == (1, 2, 3)
    regions = make("regions", good=(2,))
    inside = regions.geometry.membership[[2]].indices
    found = regions.view().options["cut_coords"]
    assert found in regions.geometry.base.points[inside].tolist() or tuple(found) in {
        tuple(x) for x in regions.geometry.base.points[inside]
    }


def test_hemispheres_lie_apart_and_can_be_chosen(seen):
    result = make("surface")
    mesh = result.view().options["surf_map"].mesh.parts
    assert set(mesh) == {"left", "right"}
    alone = result.view(hemi="right").options
    assert (alone["hemi"], set(alone["surf_map"].mesh.parts)) == ("right", {"right"})
    assert_allclose(
        alone["surf_map"].mesh.parts["right"].coordinates,
        result.geometry.coordinates["right"],
        rtol=1e-12,
    )
    # In each other, as inflated ones are.
    places = dict.fromkeys(("left", "right"), result.geometry.coordinates["left"])
    space = replace(result.geometry, coordinates=places)
    inflated = make(space).view().options["surf_map"].mesh.parts
    left, right = (inflated[part].coordinates[:, 0] for part in ("left", "right"))
    assert left.max() < right.min()
    assert result.geometry.coordinates["left"] is places["left"]


def test_regions_and_groups_are_viewed_alike(seen):
    regions = make("regions")
    image = regions.geometry.to_img(np.nan_to_num(regions.scores)).get_fdata()
    expected = image[regions.geometry.base.mask]
    assert_allclose(regions.view().values(regions), expected, rtol=1e-6)
    group = build.group("VolumeResult", correction=["max", "fdr"])
    view, mask, p = group.view(), group.decoded, group.pvalues("fdr")
    assert_allclose(view.values(group), drawn(group.scores, mask), rtol=1e-6)
    level = float(np.median(p))
    assert 0 < (p <= level).sum() < p.size
    view = group.view(alpha=level, correction="fdr")
    assert_array_equal(view.values(group) != 0, (p <= level) & mask)
    assert "(FDR correction)" in view.html
    assert "(max-statistic correction)" in group.view("p").html
    statistic = group.view("statistic")
    assert_allclose(statistic.values(group), drawn(group.statistic, mask), rtol=1e-6)
    with pytest.warns(RuntimeWarning, match="With 5 subjects"):
        bound = build.group("VolumeResult", 5, "prevalence", n_permutations=99)
    view = bound.view("gamma_0")
    assert (view.options["vmin"], view.options["vmax"]) == (0, 1)
    majority = bound.view("p", correction="none", hypothesis="majority")
    expected = bound.pvalues("none", hypothesis="majority")
    assert_allclose(majority.values(bound), drawn(expected, mask), rtol=1e-6)
    compared = build.comparison("VolumeResult")
    low, high = (compared.view().options[end] for end in ("vmin", "vmax"))
    assert_allclose(low, -high, rtol=1e-12)


@pytest.mark.parametrize(
    ("space", "options", "message"),
    [
        ("volume", {"name": "q"}, "'name': 'q'"),
        ("volume", {"correction": "q"}, "'correction': 'q'"),
        ("volume", {"alpha": 2}, "'alpha': 2"),
        ("volume", {"alpha": 0.05, "min_score": 0.6}, "pass only one of the two"),
        ("volume", {"kind": "surface"}, "'kind': 'surface'"),
        ("volume", {"hemi": "left"}, "hemi selects a hemisphere of surfaces"),
        ("volume", {"vlim": (1, 0)}, r"'vlim': \(1, 0\)"),
        ("surface", {"hemi": "top"}, "'hemi': 'top'"),
        ("surface", {"cut_coords": (1, 2, 3)}, "no cuts"),
        (FeatureSpace(None, 9), {}, "There is no view of 9 features"),
    ],
)
def test_wrong_arguments_are_refused(seen, space, options, message):
    with pytest.raises(ValueError, match=message):
        make(space).view(**options)


def test_results_without_a_brain_have_no_view():
    with pytest.raises(ValueError, match="There is no view of 3 times"):
        build.group().view()
    assert not hasattr(build.result("TimeResult"), "view")


# ------------------------------------------------------------- drawn, and in pages


def images_in(view):
    """Return the images of a view of slices by their names, as pixels."""
    found = re.findall(
        r'id="(\w+)-?\w*"\s+class="hidden"\s+src="data:image/png;base64,([^"]*)"',
        view.html,
    )
    return {name: plt.imread(io.BytesIO(base64.b64decode(x))) for name, x in found}


def test_nilearn_draws_the_voxels_that_are_shown():
    # Cubes far from the template, so that each of them is a pixel in each direction.
    space = VolumeSpace(np.ones((4, 5, 6), bool), np.diag([3.0, 3, 3, 1]) + 0.0)
    space.affine[:3, 3] = 500
    result = make(space)
    view = result.view(alpha=0.05)
    n = int((result.pvalues("max") <= 0.05).sum())
    pixels = images_in(view)
    assert np.count_nonzero(pixels["overlayImg"][..., 3] > 0) == n == 2
    assert pixels["spriteImg"].shape[:2] == pixels["overlayImg"].shape[:2]
    assert len(view.html) < 200_000


def test_surfaces_are_drawn_by_plotly_or_say_that_they_need_it(monkeypatch):
    result = make("surface")
    pytest.importorskip("plotly")
    assert "Accuracy, where p" in result.view(alpha=0.05).html
    assert "brainsprite" not in view_in(section_html(result))

    def fail(*_, **__):
        raise ImportError("Using engine='plotly' requires ...")

    monkeypatch.setattr(nilearn.plotting, "view_surf", fail)
    with pytest.raises(ImportError, match="needs plotly, which is not installed"):
        result.view()
    assert "pip install plotly" in section_html(result)


def section_html(result):
    """Return the section of a page that has the view."""
    (section,) = (each for each in SECTIONS if each.title == "Interactive view")
    return section.html(result, ())


def view_in(found):
    """Return the page of a view within a page, which asks no host for anything."""
    (data,) = re.findall(r"<script type=\"application/gzip\">([^<]*)</script>", found)
    text = gzip.decompress(base64.b64decode(data)).decode()
    assert not re.search(r'<(script|link|img)[^>]*(src|href)="http', text)
    assert f"({len(data) / 1e6:.1f} MB of this page)" in found
    return text


def test_pages_hold_the_view_and_say_its_size(monkeypatch, tmp_path):
    result, path = make(), tmp_path / "page.html"
    keep_sections(monkeypatch, "Interactive view")
    report(result, path)
    found = section_html(result)
    assert found in path.read_text("utf-8")  # the same each time
    assert ">Accuracy</p>" in view_in(found)
    assert "brainsprite" in view_in(found)
    assert path.stat().st_size < 3_000_000
    assert "async function openView" in path.read_text("utf-8")
    monkeypatch.setattr(html, "MOST_BYTES", 1000)
    words = section_html(result)
    assert re.search(r"interactive view of \d\.\d MB is left out of this page", words)
    assert "application/gzip" not in words
