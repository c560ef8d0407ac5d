"""Several results in one Axes: curves over time, of subjects and of groups."""

from dataclasses import replace
from functools import cache
from itertools import pairwise

import matplotlib.pyplot as plt
import numpy as np
import pytest
from matplotlib.collections import PolyCollection
from matplotlib.colors import to_hex
from matplotlib.patches import Rectangle
from numpy.testing import assert_allclose, assert_array_equal

from mvpa_kfda import TimeResult, group_inference
from mvpa_kfda.viz.style import COLORS, CURVE, significant_spans
from tests import build

TIMES = np.linspace(-0.1, 0.5, 13)
N = 24


@cache
def over_time(seed=0, high=(4, 5, 6), n_permutations=199, height=0.9, level=0.5):
    """Return a result that is significant at some samples, far above the others."""
    rng = np.random.default_rng(seed)
    scores = rng.uniform(level - 0.05, level + 0.05, len(TIMES))
    scores[list(high)] = height
    null = rng.uniform(level - 0.2, level + 0.2, (n_permutations, len(TIMES)))
    return build.made(TimeResult, scores, null, chance=level, n=N, times=TIMES)


@cache
def group(seed=0, high=(4, 5, 6), level=0.5):
    """Return the test of seven such results."""
    subjects = [over_time(10 * seed + k, high, 0, level=level) for k in range(7)]
    return group_inference(subjects, "sign-flip", random_state=0)


BOTH = pytest.mark.parametrize("make", [over_time, group])


def curves(ax):
    return [line for line in ax.lines if line.get_gid() == CURVE]


def bars(ax):
    """Return the collections of bars of significance, in the order of their drawing."""
    return [
        part
        for part in ax.collections
        if isinstance(part, PolyCollection) and "p ≤" in part.get_label()
    ]


def texts(ax):
    return [text.get_text() for text in ax.get_legend().get_texts()]


def with_label(ax, label):
    return [line for line in ax.lines if line.get_label() == label]


def two(make, ax=None, **options):
    """Draw two results into one Axes."""
    ax = make(0).plot(ax=ax, label="faces", **options)
    assert make(1, (7, 8)).plot(ax=ax, label="words", **options) is ax
    return ax


def heights(part):
    """Return the heights of the corners of bars, as shares of the Axes' height."""
    return np.concatenate([path.vertices[:, 1] for path in part.get_paths()])


@BOTH
def test_curves_and_their_bars_have_colors_of_their_own(make):
    ax = two(make)
    first, second = (to_hex(line.get_color()) for line in curves(ax))
    assert first != second
    assert [first, second] == [color.lower() for color in COLORS[:2]]
    found = [{to_hex(color) for color in part.get_facecolor()} for part in bars(ax)]
    assert found == [{first}, {second}]


@BOTH
def test_a_color_that_is_taken_is_not_given_again(make):
    ax = plt.subplots()[1]
    ax.plot(TIMES, TIMES, color=COLORS[1])
    for seed in range(4):
        make(seed).plot(ax=ax, color=COLORS[3] if seed == 1 else None)
    found = [to_hex(line.get_color()) for line in curves(ax)]
    assert found == [COLORS[i].lower() for i in (0, 3, 2, 4)]


@BOTH
def test_one_legend_has_both_curves_and_names_the_rest_once(make):
    ax = two(make)
    assert sum(child is ax.get_legend() for child in ax.get_children()) == 1
    shared = ["p ≤ 0.05 (max-statistic correction)", "chance (0.5)", "onset (0 s)"]
    assert texts(ax)[:2] == ["faces", "words"]
    assert len(set(texts(ax))) == len(texts(ax))
    assert set(shared) < set(texts(ax))
    assert len(with_label(ax, "chance (0.5)")) == 1
    assert len(with_label(ax, "onset (0 s)")) == 1


def test_the_legend_shows_the_bars_of_both():
    ax = two(over_time)
    patches = ax.get_legend().findobj(Rectangle)
    colors = [patch.get_facecolor() for patch in patches]
    # Those of the permutations shine through.
    found = [to_hex(color) for color in colors if color[3] == 1]
    assert found == [color.lower() for color in COLORS[:2]]


def test_another_chance_level_is_another_line():
    ax = over_time().plot()
    over_time(1, level=0.25).plot(ax=ax)
    levels = [line.get_ydata()[0] for line in ax.lines if "chance" in line.get_label()]
    assert levels == [0.5, 0.25]


@BOTH
def test_bars_of_all_results_are_below_all_curves_and_beside_each_other(make):
    ax = plt.subplots()[1]
    for seed in range(6):
        make(seed, (seed + 3, seed + 4)).plot(ax=ax)
    ax.figure.canvas.draw()
    rows = [heights(part) for part in bars(ax)]
    assert len(rows) == 6
    assert rows[0].min() > 0
    assert all(low.max() < high.min() for low, high in pairwise(rows))
    lowest = min(line.get_ydata().min() for line in curves(ax))
    pixels = ax.transData.transform((0, min(lowest, ax.dataLim.y0)))
    assert rows[-1].max() < ax.transAxes.inverted().transform(pixels)[1]


def test_bars_stay_those_of_their_results():
    ax = two(over_time, correction="none", alternative="two-sided", alpha=0.1)
    results = over_time(0), over_time(1, (7, 8))
    for result, part in zip(results, bars(ax), strict=True):
        p = result.pvalues("none", alternative="two-sided")
        extents = [path.get_extents() for path in part.get_paths()]
        found = [[box.x0, box.x1] for box in extents]
        expected = significant_spans(TIMES, p <= 0.1)
        assert_allclose(found, expected, rtol=0, atol=1e-12)


def test_who_has_no_significant_samples_is_said():
    ax = over_time().plot(label="faces")
    over_time(1, ()).plot(ax=ax, label="words")
    missing = "no time point at p ≤ 0.05 (max-statistic correction)"
    assert f"words: {missing}" in texts(ax)
    assert "p ≤ 0.05 (max-statistic correction)" in texts(ax)
    assert missing in texts(over_time(1, ()).plot())


@pytest.mark.parametrize("n_permutations", [0, 199])
def test_limits_reach_as_far_as_both_results(n_permutations):
    low = replace(over_time(level=0.2, height=0.3), times=TIMES - 0.2)
    for others in ([low, over_time(0, (4,), n_permutations)], [over_time(), low]):
        ax = plt.subplots()[1]
        for result in others:
            result.plot(ax=ax)
        step = TIMES[1] - TIMES[0]
        expected = [TIMES[0] - 0.2 - step / 2, TIMES[-1] + step / 2]
        assert_allclose(ax.get_xlim(), expected, rtol=0, atol=1e-12)
        bottom, top = ax.get_ylim()
        for result in others:
            assert bottom < result.scores.min()
            assert result.scores.max() < top
        assert bottom < min(result.null.min() for result in others if result.null.size)


def test_limits_of_the_user_are_widened_and_not_narrowed():
    ax = plt.subplots()[1]
    ax.set(ylim=(0, 1), xlim=(-1, 1))
    two(over_time, ax)
    assert ax.get_ylim()[0] < 0
    assert ax.get_ylim()[1] == 1
    assert ax.get_xlim() == (-1, 1)


def test_titles_and_names_of_axes_stay():
    ax = two(over_time)
    lines = ax.get_title(loc="left").split("\n")
    assert [line.partition(":")[0] for line in lines if ":" in line] == [
        "faces",
        "words",
    ]
    assert ax.get_ylabel() == "Accuracy"
    ax = over_time().plot()
    title = ax.get_title(loc="left")
    over_time(1).plot(ax=ax)
    assert ax.get_title(loc="left") == title  # the same words, once
    names = {"metrics": "kappa", "nulls": "kappa", "chances": "kappa"}
    result = over_time(2)
    fields = {f: {x: getattr(result, f)["accuracy"]} for f, x in names.items()}
    replace(result, **fields).plot(ax=ax)
    assert ax.get_ylabel() == "Accuracy, Cohen's kappa"


def assert_nothing_is_cut_off(figure):
    figure.canvas.draw()
    box = figure.get_tightbbox(figure.canvas.get_renderer())
    box, inside = box.transformed(figure.dpi_scale_trans), figure.bbox.padded(1)
    assert_array_equal(inside.x0 <= box.x0 and inside.y0 <= box.y0, True)
    assert_array_equal(box.x1 <= inside.x1 and box.y1 <= inside.y1, True)


@pytest.mark.some(6)
@pytest.mark.parametrize("label", ["words", "words that are read aloud " * 6])
@pytest.mark.parametrize("n_permutations", [0, 9, 199])
@pytest.mark.parametrize("layout", [None, "constrained", "tight"])
def test_legends_and_titles_stay_in_the_figure(n_permutations, layout, label):
    figure, ax = plt.subplots(layout=layout)
    for seed, name in enumerate(["faces", label]):
        over_time(seed, (4, 5), n_permutations).plot(ax=ax, label=name, alpha=0.01)
    assert_nothing_is_cut_off(figure)
    assert texts(ax)[0] == "faces"
    height = ax.get_position().height * figure.get_figheight()
    assert height > 1.2


def test_axes_of_a_subfigure():
    figure = plt.figure(figsize=(12, 5))
    left, right = figure.subfigures(1, 2)
    two(over_time, left.subplots())
    two(over_time, right.subplots())
    assert_nothing_is_cut_off(figure)


def test_two_scores_on_their_permutations():
    one, other = (build.result("DecodingResult", seed, 39) for seed in (0, 1))
    ax = one.plot(label="faces")
    other.plot(ax=ax, label="words")
    first, second = curves(ax)
    assert first.get_color() != second.get_color()
    assert [first.get_xdata()[0], second.get_xdata()[0]] == [one.scores, other.scores]
    assert [text.partition(",")[0] for text in texts(ax)[:2]] == ["faces", "words"]
    assert len(with_label(ax, "chance (0.5)")) == 1


def test_bounds_of_two_groups():
    subjects = [over_time(k, (4, 5, 6)) for k in range(7)]
    result = group_inference(subjects, "prevalence", random_state=0)
    ax = result.plot(metric="gamma_0", label="faces")
    result.plot(metric="gamma_0", ax=ax, label="words")
    steps = [patch for patch in ax.patches if patch.get_label() in ("faces", "words")]
    first, second = (to_hex(patch.get_edgecolor()) for patch in steps)
    assert first != second
    assert len(with_label(ax, "majority (0.5)")) == 1


def test_groups_of_one_curve_take_a_color_and_a_label():
    subjects = [over_time(k, (4, 5, 6)) for k in range(7)]
    figure = group_inference(subjects, random_state=0).plot(color="C2", label="faces")
    (curve,) = curves(figure.axes[0])
    assert (curve.get_color(), curve.get_label()) == ("C2", "faces")
    difference = build.comparison().plot(ax=plt.subplots()[1], color="C2", label="a")
    assert [line.get_color() for line in curves(difference)] == ["C2"]


@pytest.mark.parametrize("options", [{"color": "C1"}, {"label": "faces"}])
def test_figures_of_two_curves_take_neither(options):
    others = [over_time(k + 7, (7, 8), 0) for k in range(7)]
    subjects = [over_time(k, (4, 5, 6), 0) for k in range(7)]
    result = group_inference(subjects, "t", other=others, random_state=0)
    ax = plt.subplots()[1]
    for more in ({}, {"ax": ax}):
        with pytest.raises(ValueError, match="several curves, so it takes no color"):
            result.plot(**options, **more)
    with pytest.raises(ValueError, match="several curves, so it takes no color"):
        build.comparison().plot(**options)
    curve = result.plot(metric="statistic", **options).lines[0]
    for name, value in options.items():
        assert getattr(curve, f"get_{name}")() == value


def test_what_a_group_was_tested_for_is_settled():
    for option in ("threshold", "alternative"):
        with pytest.raises(TypeError, match=f"do not take: {option}"):
            group().plot(**{option: 0.01})
