"""What holds for the figures of all results alike."""

import inspect
import io
import re
from base64 import b64decode
from dataclasses import replace
from functools import cache
from html import unescape
from importlib import import_module
from pathlib import Path

import matplotlib.pyplot as plt
import mne
import numpy as np
import pytest
from matplotlib.figure import Figure
from matplotlib.legend import Legend
from matplotlib.text import Text

from mvpa_kfda import DecodingResult, TimeResult, check_design, viz
from mvpa_kfda.viz.style import short_name, short_names
from tests import build

#: Kinds of results, as `build` makes them, and the methods that draw them.
FIGURES = [
    *[
        ("DecodingResult", name)
        for name in ("plot", "plot_roc", "plot_tuning", "plot_confusion")
    ],
    *[("RegressionResult", name) for name in ("plot", "plot_predictions")],
    *[("TimeResult", name) for name in ("plot", "plot_tuning", "plot_recall")],
    *[(kind, "plot_null") for kind in ("DecodingResult", "TimeResult", "regions")],
    ("TimeResult", "plot_confusion"),
    ("regions", "plot_confusion"),
    ("TimeRegressionResult", "plot"),
    ("TimeFrequencyResult", "plot"),
    ("SensorTimeResult", "plot"),
    *[("SourceResult", name) for name in ("plot", "plot_tuning")],
    ("SourceTimeResult", "plot"),
    ("GeneralizationResult", "plot"),
    ("VolumeResult", "plot"),
    ("regions", "plot"),
    *[("group", name) for name in ("plot", "plot_null")],
    *[("comparison", name) for name in ("plot", "plot_null")],
    ("latency", "plot"),
]
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


@figures_with("ax")
def test_the_given_axes_are_used(kind, name):
    _, axes = plt.subplots(1, 2)
    assert getattr(result_of(kind), name)(ax=axes[1]) is axes[1]
    assert len(axes[0].get_children()) == len(plt.figure().subplots().get_children())
    assert len(plt.get_fignums()) == 2


def options_of(kind, name):
    """Yield the options of a figure's tests: none, and those that make words long."""
    known = inspect.signature(getattr(result_of(kind, reg=0.3), name)).parameters
    yield {}
    # Words about what is out of reach.
    options = {"alpha": 1e-5} if "alpha" in known else {}
    tested = {"correction": "cluster", "threshold": 0.01}
    options |= tested if "threshold" in known else {}
    if options:
        yield options


@pytest.mark.some(11)
@pytest.mark.parametrize(
    ("kind", "name", "options"),
    [(*figure, options) for figure in FIGURES for options in options_of(*figure)],
)
def test_nothing_is_cut_off(kind, name, options):
    drawn = getattr(result_of(kind), name)(**options)
    figure = drawn if isinstance(drawn, plt.Figure) else drawn.figure
    figure.canvas.draw()
    inside = figure.bbox.padded(1)
    box = figure.get_tightbbox(figure.canvas.get_renderer())
    box = box.transformed(figure.dpi_scale_trans)
    assert inside.x0 <= box.x0
    assert inside.y0 <= box.y0
    assert box.x1 <= inside.x1
    assert box.y1 <= inside.y1


def legends(figure):
    """Return all legends of a figure."""
    return [x for x in figure.findobj(Legend) if x.get_visible()]


@pytest.mark.some(7)
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


@pytest.mark.some(4)
@pytest.mark.parametrize(
    ("kind", "name"),
    [
        ("DecodingResult", "plot_roc"),
        ("DecodingResult", "plot_confusion"),
        ("TimeResult", "plot"),
        ("TimeResult", "plot_recall"),
        ("GeneralizationResult", "plot"),
        ("group", "plot"),
        ("latency", "plot"),
    ],
)
def test_one_of_four_axes_is_a_figure_and_not_a_legend(kind, name):
    figure, axes = plt.subplots(2, 2)
    for ax in axes.flat:
        getattr(result_of(kind), name)(ax=ax)
    for _ in range(2):  # the layout of square Axes settles step by step
        figure.draw_without_rendering()
    cell = figure.bbox.height / 2
    for ax in axes.flat:
        assert ax.bbox.height > 0.3 * cell
        for legend in legends(ax):
            assert legend.get_window_extent().height < 0.3 * cell
            assert figure.bbox.padded(1).containsx(legend.get_window_extent().x0)
            assert figure.bbox.padded(1).containsx(legend.get_window_extent().x1)


def test_designs_of_many_classes_with_long_names_fit():
    y = [f"the category of objects {k}" for k in range(12)] * 5
    design = check_design(y, np.repeat(np.arange(5), 12))
    figure = design.plot()
    figure.draw_without_rendering()
    (drawn,) = legends(figure)
    box = drawn.get_window_extent()
    assert figure.bbox.padded(1).fully_containsx(box.x1)
    assert all(ax.bbox.y0 > box.y1 and ax.bbox.height > 40 for ax in figure.axes)
    assert not legends(design.plot(legend=False))


@cache
def group_of_time():
    """Return a group of time courses."""
    return build.group()


@pytest.mark.parametrize("n_permutations", [1, 2, 4, 8, 2000])
def test_counts_have_each_number_once_on_their_axis(n_permutations):
    null = np.random.default_rng(0).normal(0.5, 0.1, n_permutations)
    single = build.made(DecodingResult, 0.7, null)
    group = replace(group_of_time(), null_max=null, n_permutations=n_permutations)
    for ax in (single.plot(), group.plot_null()):
        ax.figure.draw_without_rendering()
        labels = [text.get_text() for text in ax.get_yticklabels()]
        assert len(set(labels)) == len(labels) >= 2
        assert [int(label.replace(",", "")) for label in labels] == list(
            ax.get_yticks()
        )


@pytest.mark.parametrize(
    ("name", "short"),
    [
        ("faces", "faces"),
        ("a name of 22 character", "a name of 22 character"),
        ("object category number 12", "object categ…number 12"),
        ("object category number 13", "object categ…number 13"),
    ],
)
def test_long_names_keep_their_ends(name, short):
    assert short_name(name) == short


def test_short_names_are_told_apart():
    names = ["words, high frequency", "words, low frequency", "words"]
    assert len(set(short_names(names, 11))) == 3
    assert short_names(names, 11)[2] == "words"
    assert max(map(len, short_names(["a" * 50, "b" * 50], 11))) == 11
    same_ends = ["a" * 20 + x + "b" * 20 for x in "xyz"]
    assert len(set(short_names(same_ends, 11))) == 3
    assert short_names(["a" * 30] * 2) == [short_name("a" * 30)] * 2


MISTAKES = [
    ("metric", "auc", "'metric': 'auc'"),
    ("metric", "confusion_matrix", "'confusion_matrix' is not one number|'metric': "),
    ("correction", "maximum", "'correction': 'maximum'"),
    ("alpha", 0, "'alpha': 0"),
    ("alpha", 1.0, r"'alpha': 1\.0"),
    ("threshold", 0.6, r"'threshold': 0\.6"),
    ("alternative", "more", "'alternative': 'more'"),
    ("color", "no_color", "'color': 'no_color'"),
    ("repeats", True, "repeats=True draws .* again with n_repeats="),
    ("vlim", 0.5, r"'vlim': 0\.5"),
    ("vlim", (0.5, 0.4), r"'vlim': \(0\.5, 0\.4\)"),
    ("vlim", (0.5, 0.5), r"'vlim': \(0\.5, 0\.5\)"),
    ("vlim", (0, np.inf), r"'vlim': \(0, inf\)"),
    ("vlim", (None, 1), r"'vlim': \(None, 1\)"),
    ("vlim", (0, 0.5, 1), r"'vlim': \(0, 0\.5, 1\)"),
    ("cmap", "no_colors", "no_colors"),
]


@pytest.mark.parametrize("n_permutations", [0, 39])
@figures_with("metric")
def test_bad_options_are_refused_and_leave_no_figure(kind, name, n_permutations):
    plot = getattr(result_of(kind, n_permutations), name)
    for argument, value, match in MISTAKES:
        if argument in inspect.signature(plot).parameters:
            with pytest.raises(ValueError, match=match):
                plot(**{argument: value})
    assert not plt.get_fignums()


@pytest.mark.parametrize("kind", ["GeneralizationResult", "VolumeResult"])
def test_a_null_that_was_not_kept_leaves_no_figure(kind):
    result = build.result(kind, null="max")
    with pytest.raises(ValueError, match="'cluster' needs the whole null"):
        result.plot(correction="cluster")
    assert not plt.get_fignums()


# ---------------------------------------------------------- figures apart from pyplot


KINDS = sorted(dict(FIGURES))


@pytest.fixture(scope="module")
def report():
    return mne.Report(verbose="error")


@pytest.mark.some(4)
@pytest.mark.parametrize("kind", KINDS)
def test_reports_take_figures_that_pyplot_does_not_know(kind, report):
    result, known = result_of(kind), plt.get_fignums()
    figure = result.figure()
    assert isinstance(figure, Figure)
    assert plt.get_fignums() == known
    before = len(report.html)
    report.add_figure(figure, title=kind)
    assert "<img" in report.html[-1]
    assert len(report.html) == before + 1
    assert not plt.get_fignums()
    drawn = result_of(kind).plot()
    assert len(figure.axes) == len(drawn.figure.axes)
    assert plt.get_fignums() == [drawn.figure.number]


def on_a_mesh(score):
    """Return a result that has the same score at all vertices."""
    space = build.surface_space()
    return build.made_of_images(space, np.full(space.n_positions, score))


@pytest.mark.parametrize("options", [{"kind": "glass_brain"}, {"views": "z"}, None])
def test_figures_of_nilearn_are_apart_from_pyplot(options):
    if options is None:
        figure = on_a_mesh(0.6).figure()
    else:
        figure = result_of("VolumeResult").figure(**options)
    figure.savefig(io.BytesIO())
    assert not plt.get_fignums()


def test_figures_take_what_plots_take():
    result = result_of("TimeResult")
    (ax,) = result.figure(color="C1", label="faces").axes
    assert ax.lines[0].get_color() == "C1"
    for wrong in ({"ax": ax}, {"show": True}, {"colour": "C1"}):
        with pytest.raises(TypeError, match=next(iter(wrong))):
            result.figure(**wrong)
    result.plot()  # pyplot is asked again, also after an error
    assert len(plt.get_fignums()) == 1


# ----------------------------------------------------------------------- in notebooks


def image_in(html):
    """Return the pixels of the only image."""
    (data,) = re.findall(r'src="data:image/png;base64,([^"]*)"', html)
    return plt.imread(io.BytesIO(b64decode(data, validate=True)))


@pytest.mark.some(6)
@pytest.mark.parametrize(
    ("kind", "n_permutations"),
    [
        *[(kind, 39) for kind in KINDS],
        *[(kind, 0) for kind in ("DecodingResult", "RegressionResult", "TimeResult")],
    ],
)
def test_notebooks_show_facts_and_a_figure(kind, n_permutations):
    result = result_of(kind, n_permutations)
    html = result._repr_html_()
    assert not plt.get_fignums()
    assert f"<strong>{type(result).__name__}</strong>" in html
    assert not re.search("<script|<style|<link|http", html)
    if kind == "VolumeResult" or (kind, n_permutations) in NO_HISTOGRAM:
        assert "<img" not in html  # brains take too long
    else:
        assert image_in(html).std() > 0
        alternative = re.search('alt="([^"]*)"', html)[1]
        assert unescape(alternative) == repr(result)
        assert not set("<>") & set(alternative)


#: Single scores are drawn on the permutations, if there are any.
NO_HISTOGRAM = [("DecodingResult", 0), ("RegressionResult", 0)]


def facts_in(html):
    """Return the rows of the table."""
    rows = re.findall(r"<tr><th[^>]*>(.*?)</th><td[^>]*>(.*?)</td></tr>", html)
    return {name: unescape(words) for name, words in rows}


def test_notebooks_say_where_the_best_score_is():
    result = result_of("GeneralizationResult")
    facts = facts_in(result._repr_html_())
    i, j = np.unravel_index(result.scores.argmax(), result.shape)
    train, test = result.train_times[i], result.test_times[j]
    place = f"training time {train:g} s and test time {test:g} s"
    best = f"{result.scores.max():.3f} at {place} (chance {result.chance:.3f})"
    assert facts["Highest accuracy"] == best
    test = f"max-statistic correction; smallest p = {result.pvalues('max').min():.3f}"
    assert test in facts["Test"]
    words = "16 trials, 2 classes (ant, bee), 4 folds, 39 permutations"
    assert facts["Computed from"] == words


def test_notebooks_say_the_largest_difference_and_the_p_of_its_test():
    result = build.comparison(correction="fdr")
    best = np.abs(result.scores).argmax()
    facts = facts_in(result._repr_html_())
    expected = f"{result.scores[best]:+.3f} at {result.times[best]:g} s"
    assert facts["Largest difference in accuracy"] == expected
    test = f"FDR correction; smallest p = {result.pvalues('fdr').min():.3f}"
    assert test in facts["Test"]


def test_notebooks_say_where_in_a_brain_a_group_scores_best():
    group = build.group("VolumeResult")
    facts, peak = facts_in(group._repr_html_()), group.peak()
    assert facts["Positions"] == "12 voxels"
    place = ", ".join(f"{peak[name]:g}" for name in "xyz")
    assert f" at x, y, z = {place} mm (" in facts["Highest mean accuracy"]


def test_labels_are_text_and_not_html():
    result = result_of("TimeResult")
    classes = np.array(["<b>", '"&'])
    html = replace(result, classes=classes)._repr_html_()
    assert "2 classes (&lt;b&gt;, &#34;&amp;)" in html
    assert "<b>" not in html


def test_notebooks_never_fail():
    tables, times = {"confusion_matrix": np.zeros((3, 2, 2))}, np.arange(3.0)
    chances = {"confusion_matrix": np.nan}
    html = build.made(
        TimeResult, np.zeros(3), metrics=tables, chances=chances, times=times
    )._repr_html_()
    assert "Highest" not in html  # no number, no curve
    assert "<img" not in html
    assert "12 trials" in html
    assert facts_in(on_a_mesh(np.nan)._repr_html_())["Highest accuracy"] == "none"
    result = build.result("TimeResult")
    broken = np.full_like(result.null, np.nan)
    html = replace(result, nulls={"accuracy": broken})._repr_html_()
    assert "Smallest p" not in html
    named = replace(result, classes=np.array(["$\\frac$", "b"]))
    assert "<img" in named._repr_html_()


def test_many_permutations_are_not_tested_for_a_glance(monkeypatch):
    monkeypatch.setattr("mvpa_kfda.results.base._MANY_SCORES", 27)
    html = build.result("TimeResult", n_permutations=9)._repr_html_()
    assert "Smallest p" not in html
    assert "<img" not in html


# ------------------------------------------------------------- names as they are

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
        ("TimeResult", "plot_recall"),
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


def test_a_design_has_names_as_they_are():
    y = np.repeat(_NAMES, 8)
    figure = check_design(y, groups=np.tile(np.arange(4), 6)).plot()
    figure.canvas.draw()
    assert any(_NAMES[0] in text.get_text() for text in figure.findobj(Text))


def test_powers_on_log_axes_are_formulas():
    ax = build.result("TimeResult", reg="tuned").plot_tuning()
    if ax.get_xscale() != "log":
        ax = build.result("DecodingResult", reg="tuned").plot_tuning()
    ax.figure.canvas.draw()
    ticks = [tick for tick in ax.get_xticklabels() if "mathdefault" in tick.get_text()]
    assert ticks
    assert all(tick.get_parse_math() for tick in ticks)


def test_every_figure_takes_names_as_they_are():
    for path in Path(viz.__file__).parent.glob("*.py"):
        module = import_module(f"mvpa_kfda.viz.{path.stem}")
        for name, function in vars(module).items():
            if (
                name.startswith("plot_")
                and "show" in inspect.signature(function).parameters
            ):
                assert hasattr(function, "__wrapped__"), name
