"""What holds for the figures of all results alike, and several results in one Axes."""

import inspect
from dataclasses import replace
from functools import cache
from importlib import import_module
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace

import matplotlib.pyplot as plt
import mne
import numpy as np
import pytest
from matplotlib.collections import PolyCollection
from matplotlib.colors import to_hex
from matplotlib.figure import Figure
from matplotlib.legend import Legend
from matplotlib.patches import Rectangle
from matplotlib.text import Text
from numpy.testing import assert_allclose, assert_array_equal

from mvpa_kfda import DecodingResult, TimeResult, group_inference, viz
from mvpa_kfda.inference.corrections import CORRECTIONS
from mvpa_kfda.metrics.scores import METRICS, metric_in_text
from mvpa_kfda.viz.style import (
    BOUND,
    COLORS,
    CORRECTION_LABELS,
    CURVE,
    describe,
    histogram_edges,
    label_of,
    level_of,
    marking,
    metric_label,
    short_name,
    short_names,
    significant_spans,
)
from tests import build
from tests.build import legend

#: Kinds of results, as `build` makes them, and the methods that draw them.
METHODS = {
    "DecodingResult": "plot plot_roc plot_tuning plot_confusion plot_null",
    "RegressionResult": "plot plot_predictions",
    "TimeResult": "plot plot_tuning plot_recall plot_null plot_confusion",
    "TimeRegressionResult": "plot",
    "TimeFrequencyResult": "plot",
    "SensorTimeResult": "plot",
    "SourceResult": "plot plot_tuning",
    "SourceTimeResult": "plot",
    "GeneralizationResult": "plot",
    "VolumeResult": "plot",
    "regions": "plot plot_null plot_confusion",
    "group": "plot plot_null",
    "comparison": "plot plot_null",
    "latency": "plot",
}
FIGURES = [(kind, name) for kind, names in METHODS.items() for name in names.split()]
#: The latency of so few subjects of noise is not found in all resamples.
pytestmark = pytest.mark.filterwarnings("ignore:.* resamples:RuntimeWarning")


@cache
def result_of(kind, n_permutations=39, reg="tuned"):
    """Return a result to be drawn, made once."""
    if kind in ("group", "comparison", "latency"):
        return getattr(build, kind)()
    scoring = "r2" if "Regression" in kind else ["accuracy", "confusion_matrix"]
    options = {"scoring": scoring, "reg": reg}
    return build.result(kind, n_permutations=n_permutations, **options)


def figures_with(*arguments):
    """Parametrise by the figures that have all of these arguments."""
    chosen = []
    for kind, name in FIGURES:
        known = inspect.signature(getattr(result_of(kind, reg=0.3), name)).parameters
        chosen += [(kind, name)] if set(arguments) <= set(known) else []
    return pytest.mark.parametrize(("kind", "name"), chosen)


def legends(figure):
    """Return all legends of a figure."""
    return [x for x in figure.findobj(Legend) if x.get_visible()]


def assert_nothing_is_cut_off(figure):
    figure.canvas.draw()
    box = figure.get_tightbbox(figure.canvas.get_renderer())
    corners = box.transformed(figure.dpi_scale_trans).corners()
    assert all(figure.bbox.padded(1).contains(*each) for each in corners)


# -------------------------------------------------------------------- figures of all


@pytest.mark.some(14)
@figures_with("ax")
def test_the_given_axes_are_used(kind, name):
    _, axes = plt.subplots(1, 2)
    plot = getattr(result_of(kind), name)
    assert plot(ax=axes[1]) is axes[1]
    assert len(axes[0].get_children()) == len(plt.figure().subplots().get_children())
    assert len(plt.get_fignums()) == 2
    with pytest.raises(TypeError, match="Invalid value for 'ax': 3"):
        plot(ax=3)


@pytest.mark.some(8)
@pytest.mark.parametrize("is_wordy", [False, True])
@pytest.mark.parametrize(("kind", "name"), FIGURES)
def test_nothing_is_cut_off(kind, name, is_wordy):
    plot = getattr(result_of(kind), name)
    # Words about what is out of reach.
    options = {"alpha": 1e-5, "correction": "cluster", "threshold": 0.01}
    if kind in ("group", "comparison"):
        options.pop("correction")
    known = inspect.signature(plot).parameters
    options = {k: v for k, v in options.items() if is_wordy and k in known}
    assert_nothing_is_cut_off(plot(**options).figure)


@pytest.mark.some(6)
@pytest.mark.parametrize(("kind", "name"), FIGURES)
def test_legends_and_windows_are_what_is_asked_for(kind, name, monkeypatch):
    shown = []
    monkeypatch.setattr(plt, "show", lambda: shown.append(True))
    plot = getattr(result_of(kind), name)
    without = {"show": True, "legend": False}
    if name == "plot_confusion":  # whose cells say all
        assert "legend" not in inspect.signature(plot).parameters
        del without["legend"]
    options = {"kind": "glass_brain"} if kind == "VolumeResult" else {}
    drawn = plot(**options)
    assert not shown
    assert legends(drawn.figure) or name == "plot_confusion"
    drawn = plot(**without, **options)
    assert shown == [True]
    assert not legends(drawn.figure)
    assert drawn.figure.get_layout_engine() is not None or kind == "VolumeResult"


@pytest.mark.parametrize("n_permutations", [1, 2, 4, 8, 2000])
def test_counts_have_each_number_once_on_their_axis(n_permutations):
    null = np.random.default_rng(0).normal(0.5, 0.1, n_permutations)
    ax = build.made(DecodingResult, 0.7, null).plot()
    ax.figure.draw_without_rendering()
    labels = [text.get_text() for text in ax.get_yticklabels()]
    assert len(set(labels)) == len(labels) >= 2
    assert [int(label.replace(",", "")) for label in labels] == list(ax.get_yticks())


MISTAKES = [
    ("metric", "auc", "'metric': 'auc'"),
    ("metric", "confusion_matrix", "'confusion_matrix' is not one number|'metric': "),
    ("correction", "maximum", "'correction': 'maximum'"),
    ("alpha", 0, "'alpha': 0"),
    ("threshold", 0.6, r"'threshold': 0\.6"),
    ("alternative", "more", "'alternative': 'more'"),
    ("color", "no_color", "'color': 'no_color'"),
    ("repeats", True, "repeats=True draws .* again with n_repeats="),
    ("vlim", 0.5, r"'vlim': 0\.5"),
    ("vlim", (0.5, 0.5), r"'vlim': \(0\.5, 0\.5\)"),
    ("vlim", (0, np.inf), r"'vlim': \(0, inf\)"),
    ("vlim", (None, 1), r"'vlim': \(None, 1\)"),
    ("vlim", (0, 0.5, 1), r"'vlim': \(0, 0\.5, 1\)"),
    ("cmap", "no_colors", "no_colors"),
]


@figures_with("metric")
def test_bad_options_are_refused_and_leave_no_figure(kind, name):
    plot = getattr(result_of(kind), name)
    for argument, value, match in MISTAKES:
        if argument in inspect.signature(plot).parameters:
            with pytest.raises(ValueError, match=match):
                plot(**{argument: value})
    assert not plt.get_fignums()


def test_reports_take_figures_that_pyplot_does_not_know():
    report = mne.Report(verbose="error")
    for kind in ("TimeResult", "SensorTimeResult", "group"):
        result, known = result_of(kind), plt.get_fignums()
        figure = result.figure()
        assert isinstance(figure, Figure)
        assert plt.get_fignums() == known
        drawn = result.plot()
        assert len(figure.axes) == len(drawn.figure.axes)
        assert plt.get_fignums() == [*known, drawn.figure.number]
    report.add_figure(figure, title="group")
    assert "<img" in report.html[-1]


def test_figures_take_what_plots_take():
    result = result_of("TimeResult")
    (ax,) = result.figure(color="C1", label="faces").axes
    assert ax.lines[0].get_color() == "C1"
    for wrong in ({"ax": ax}, {"show": True}, {"colour": "C1"}):
        with pytest.raises(TypeError, match=next(iter(wrong))):
            result.figure(**wrong)
    result.plot()  # pyplot is asked again, also after an error
    assert len(plt.get_fignums()) == 1


# ------------------------------------------------------------------------------- words


def test_short_names_are_told_apart_and_keep_their_ends():
    names = ["words, high frequency", "words, low frequency", "words"]
    assert len(set(short_names(names, 11))) == 3
    assert short_names(names, 11)[2] == "words"
    assert max(map(len, short_names(["a" * 50, "b" * 50], 11))) == 11
    same_ends = ["a" * 20 + x + "b" * 20 for x in "xyz"]
    assert len(set(short_names(same_ends, 11))) == 3
    assert short_names(["a" * 30] * 2) == [short_name("a" * 30)] * 2
    assert short_name("a name of 22 character") == "a name of 22 character"
    found = short_name("object category number 12")
    assert found == "object categ…number 12"


#: Formulas that cannot be read, and one that can.
_NAMES = ["$\\frac{1}{$", "b$", "$x$ and $y$"]


def _named(kind):
    """Return a result whose classes and regions have such names."""
    result = build.result(kind)
    changes = {"classes": np.array(_NAMES[: len(result.classes)])}
    if kind == "regions":
        changes["space"] = result.space | {"names": _NAMES[: len(result.scores)]}
    return replace(result, **changes)


@pytest.mark.parametrize(
    ("kind", "method"),
    [
        ("TimeResult", "plot_confusion"),
        ("DecodingResult", "plot_roc"),
        ("regions", "plot"),
    ],
)
def test_names_are_no_formulas(kind, method):
    figure = getattr(_named(kind), method)().figure
    figure.canvas.draw()
    words = [text.get_text() for text in figure.findobj(Text)]
    assert any(_NAMES[0] in text for text in words), words
    unnamed = [text for text in figure.findobj(Text) if "$" not in text.get_text()]
    assert all(text.get_parse_math() for text in unnamed)  # users may write formulas


def test_every_figure_takes_names_as_they_are_but_powers_are_formulas():
    for path in Path(viz.__file__).parent.glob("*.py"):
        for name, plot in vars(import_module(f"mvpa_kfda.viz.{path.stem}")).items():
            if (
                name.startswith("plot_")
                and "show" in inspect.signature(plot).parameters
            ):
                assert hasattr(plot, "__wrapped__"), name
    ax = build.result("DecodingResult", reg="tuned").plot_tuning()
    ax.figure.canvas.draw()
    ticks = [tick for tick in ax.get_xticklabels() if "mathdefault" in tick.get_text()]
    assert ticks
    assert all(tick.get_parse_math() for tick in ticks)


def test_every_metric_and_correction_has_a_name():
    assert set(CORRECTION_LABELS) == {*CORRECTIONS, "cluster-fdr"}
    for name, metric in METRICS.items():
        assert metric_in_text(name) == metric.label
        assert metric_label(name) == metric.label[0].upper() + metric.label[1:]
    for name, label, in_text in [
        ("weighted_f1", "Weighted F1", "weighted F1"),
        ("pr_auc", "PR AUC", "PR AUC"),
        ("dPrime", "DPrime", "dPrime"),
        ("recall_macro", "Recall (macro)", "recall (macro)"),
    ]:
        assert metric_label(name) == label
        assert metric_in_text(name) == in_text


@pytest.mark.filterwarnings("ignore:With .* the smallest:RuntimeWarning")
def test_differences_are_named_by_what_they_are_of():
    compared = build.comparison(metric="accuracy")
    assert label_of(compared, compared.metric) == "Accuracy, a - b"
    assert label_of(compared, "accuracy_a") == "Accuracy of a"
    assert level_of(compared, compared.metric) == "no difference"
    assert level_of(compared, "accuracy_a") == "chance"
    assert label_of(compared, "statistic") == "Accuracy, a - b"
    assert level_of(compared, "statistic") == "no effect"
    words = "Permutation test of a difference, 16 trials, 39 permutations"
    assert describe(compared) == words
    names = {
        "prevalence": "Accuracy, lowest of all subjects",
        "t": "t over subjects",
        "wilcoxon": "z of Wilcoxon's test",
    }
    for method, label in names.items():
        group = build.group(method=method, n_permutations=99)
        assert label_of(group, "statistic") == label
        assert label_of(group, "accuracy") == "Accuracy"


# ---------------------------------------------------------------------- small helpers


@pytest.mark.parametrize(
    ("significant", "expected"),
    [
        ([0, 0, 0, 0], np.empty((0, 2))),
        ([1, 1, 1, 1], [[-0.5, 7.5]]),
        ([1, 0, 0, 1], [[-0.5, 0.5], [4.5, 7.5]]),
        ([0, 1, 1, 0], [[0.5, 4.5]]),
    ],
)
def test_spans_of_uneven_samples_end_halfway(significant, expected):
    spans = significant_spans([0, 1, 3, 6], np.array(significant, dtype=bool))
    assert_allclose(spans, expected, rtol=0, atol=1e-12)
    one = significant_spans([0.2], [True])
    assert_allclose(one, [[0.195, 0.205]], rtol=0, atol=1e-12)


@pytest.mark.parametrize("n", [20, 100, 333])
def test_bins_hold_equally_many_possible_accuracies(n):
    null = np.random.default_rng(n).binomial(n, 0.4, 1000) / n
    edges = histogram_edges(null)
    assert edges[0] < null.min()
    assert edges[-1] > null.max()
    possible = np.arange(2 * n) / n
    counts = np.histogram(possible, edges)[0]
    assert set(counts) == {counts[0]}
    assert 5 < len(counts) < 60


def test_bins_of_continuous_and_of_constant_scores():
    scores = np.random.default_rng(0).normal(size=500)
    assert_array_equal(histogram_edges(scores), np.histogram_bin_edges(scores, "fd"))
    for constant in (0.0, 0.5, -3.0):
        edges = histogram_edges(np.full(10, constant))
        assert edges[0] < constant < edges[1]
        assert len(edges) == 2


# --------------------------------------------------------- several results in one Axes

TIMES = np.linspace(-0.1, 0.5, 13)


@cache
def over_time(seed=0, high=(4, 5, 6), n_permutations=199, height=0.9, level=0.5):
    """Return a result that is significant at some samples, far above the others."""
    rng = np.random.default_rng(seed)
    scores = rng.uniform(level - 0.05, level + 0.05, len(TIMES))
    scores[list(high)] = height
    null = rng.uniform(level - 0.2, level + 0.2, (n_permutations, len(TIMES)))
    return build.made(TimeResult, scores, null, chance=level, n=24, times=TIMES)


@cache
def group(seed=0, high=(4, 5, 6), level=0.5):
    """Return the test of seven such results."""
    subjects = [over_time(10 * seed + k, high, 0, level=level) for k in range(7)]
    return group_inference(subjects, "sign-flip", random_state=0)


BOTH = pytest.mark.parametrize("make", [over_time, group])
LEVEL = "p ≤ 0.05 (max-statistic correction)"


def curves(ax):
    return [line for line in ax.lines if line.get_gid() == CURVE]


def colors_of(ax):
    return [to_hex(line.get_color()) for line in curves(ax)]


def marks(ax):
    """Return the collections of bars of significance, in the order of their drawing."""
    parts = [part for part in ax.collections if isinstance(part, PolyCollection)]
    return [part for part in parts if "p ≤" in part.get_label()]


def two(make, ax=None, **options):
    """Draw two results into one Axes."""
    ax = make(0).plot(ax=ax, label="faces", **options)
    assert make(1, (7, 8)).plot(ax=ax, label="words", **options) is ax
    return ax


@BOTH
def test_results_are_told_apart_in_one_legend(make):
    ax = two(make)
    assert colors_of(ax) == [color.lower() for color in COLORS[:2]]
    found = [{to_hex(color) for color in part.get_facecolor()} for part in marks(ax)]
    assert found == [{color} for color in colors_of(ax)]
    assert sum(child is ax.get_legend() for child in ax.get_children()) == 1
    assert legend(ax)[:2] == ["faces", "words"]
    assert len(set(legend(ax))) == len(legend(ax))
    assert {LEVEL, "chance (0.5)", "onset (0 s)"} < set(legend(ax))
    for label in ("chance (0.5)", "onset (0 s)"):
        assert sum(line.get_label() == label for line in ax.lines) == 1
    shown = [patch.get_facecolor() for patch in ax.get_legend().findobj(Rectangle)]
    # Those of the permutations shine through.
    assert [to_hex(color) for color in shown if color[3] == 1][:2] == colors_of(ax)
    lines = ax.get_title(loc="left").split("\n")
    names = [line.partition(":")[0] for line in lines if ":" in line]
    assert names == ["faces", "words"]
    assert ax.get_ylabel() == "Accuracy"


@BOTH
def test_a_color_that_is_taken_is_not_given_again(make):
    ax = plt.subplots()[1]
    ax.plot(TIMES, TIMES, color=COLORS[1])
    for seed in range(4):
        make(seed).plot(ax=ax, color=COLORS[3] if seed == 1 else None)
    assert colors_of(ax) == [COLORS[i].lower() for i in (0, 3, 2, 4)]


def test_other_levels_metrics_and_the_same_words_share_axes():
    ax = over_time().plot()
    title = ax.get_title(loc="left")
    over_time(1).plot(ax=ax)
    assert ax.get_title(loc="left") == title  # the same words, once
    over_time(1, level=0.25).plot(ax=ax)
    levels = [line.get_ydata()[0] for line in ax.lines if "chance" in line.get_label()]
    assert levels == [0.5, 0.25]
    other = over_time(2)
    fields = ("metrics", "nulls", "chances")
    renamed = {name: {"kappa": getattr(other, name)["accuracy"]} for name in fields}
    replace(other, **renamed).plot(ax=ax)
    assert ax.get_ylabel() == "Accuracy, Cohen's kappa"


@BOTH
def test_bars_of_all_results_are_below_all_curves_and_beside_each_other(make):
    ax = plt.subplots()[1]
    for seed in range(6):
        make(seed, (seed + 3, seed + 4)).plot(ax=ax)
    ax.figure.canvas.draw()
    paths = [part.get_paths() for part in marks(ax)]
    rows = [np.concatenate([path.vertices[:, 1] for path in each]) for each in paths]
    assert len(rows) == 6
    assert rows[0].min() > 0
    assert all(low.max() < high.min() for low, high in pairwise(rows))
    lowest = min(line.get_ydata().min() for line in curves(ax))
    pixels = ax.transData.transform((0, min(lowest, ax.dataLim.y0)))
    assert rows[-1].max() < ax.transAxes.inverted().transform(pixels)[1]


def test_bars_stay_those_of_their_results():
    ax = two(over_time, correction="none", alternative="two-sided", alpha=0.1)
    results = over_time(0), over_time(1, (7, 8))
    for result, part in zip(results, marks(ax), strict=True):
        p = result.pvalues("none", alternative="two-sided")
        extents = [path.get_extents() for path in part.get_paths()]
        found = [[box.x0, box.x1] for box in extents]
        expected = significant_spans(TIMES, p <= 0.1)
        assert_allclose(found, expected, rtol=0, atol=1e-12)
    ax = over_time().plot(label="faces")
    over_time(1, ()).plot(ax=ax, label="words")
    assert f"words: no time point at {LEVEL}" in legend(ax)
    assert LEVEL in legend(ax)
    assert f"no time point at {LEVEL}" in legend(over_time(1, ()).plot())


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
    low, high = ax.get_ylim()
    assert (low < 0, high, ax.get_xlim()) == (True, 1, (-1, 1))


@pytest.mark.some(4)
@pytest.mark.parametrize("label", ["words", "words that are read aloud " * 6])
@pytest.mark.parametrize("n_permutations", [0, 9, 199])
@pytest.mark.parametrize("layout", [None, "constrained", "tight", "subfigures"])
def test_legends_and_titles_stay_in_the_figure(n_permutations, layout, label):
    if layout == "subfigures":
        figure = plt.figure(figsize=(12, 5))
        ax = next(part.subplots() for part in figure.subfigures(1, 2))
    else:
        figure, ax = plt.subplots(layout=layout)
    for seed, name in enumerate(["faces", label]):
        over_time(seed, (4, 5), n_permutations).plot(ax=ax, label=name, alpha=0.01)
    assert_nothing_is_cut_off(figure)
    assert legend(ax)[0] == "faces"
    assert ax.get_position().height * figure.get_figheight() > 1.2


def test_a_bound_of_one_half_is_a_majority():
    result = SimpleNamespace(metrics={BOUND: np.array([0.25, 0.5, np.nan])})
    marked, label = marking(result, "time", BOUND, "max", 0.05)
    assert_array_equal(marked, [False, True, False])
    assert label.startswith("majority")
