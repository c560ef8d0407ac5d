"""What all figures share: checks, words, marks of significance, axes and legends.

Matplotlib is imported inside the functions, so that decoding never loads it. The
colors are Okabe and Ito's, which color-blind readers tell apart.
"""

import re
import textwrap
from collections import Counter
from collections.abc import Callable
from contextvars import ContextVar
from functools import wraps
from typing import TYPE_CHECKING, ParamSpec, TypeVar

import numpy as np

from ..inference.corrections import NAMED
from ..inference.null import ALTERNATIVES, check_level
from ..metrics.scores import mean_of_permuted, metric_in_text, metric_limits
from ..utils.axes import AXES
from ..utils.checks import (
    capital,
    check_finite,
    check_flag,
    check_option,
    check_share,
    counted,
)
from ..utils.text import plain_text

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Figure

Options = ParamSpec("Options")
Drawn = TypeVar("Drawn")

SCORE_COLOR = "#0072B2"  # blue
SIGNIFICANT_COLOR = "#D55E00"  # vermilion
NULL_COLOR = "#BBBBBB"

#: The colors of curves, in the order in which Axes get them.
COLORS = (
    SCORE_COLOR,
    SIGNIFICANT_COLOR,
    "#009E73",
    "#CC79A7",
    "#E69F00",
    "#56B4E9",
    "#000000",
)

LEGEND = {"frameon": False, "fontsize": "small"}

#: The line of what is expected without an effect.
DASHED = {"color": "black", "lw": 1.1, "ls": (0, (5, 3))}


# -------------------------------------------------------------------- what is asked for


def check_request(
    result, metric, correction, alpha, threshold=0.05, alternative="greater"
):
    """Check what is to be drawn; return the names of the metric and the correction."""
    check_share("alpha", alpha)
    check_level(threshold)
    check_option("alternative", alternative, ALTERNATIVES)
    return result.check_metric(metric), result.correction_name(correction)


def shown_metric(result, metric):
    """The name of a metric with one number per position, the first if None."""
    first = (result.scalar_metrics or result.scoring)[0]
    return result.check_metric(first if metric is None else metric)


def find_marked(result, metric, correction, alpha, min_score):
    """What is significant, or what scores as much, and p-values that tell."""
    if min_score is not None:
        return result.metrics[metric] >= check_finite("min_score", min_score), None
    if not result.has_p:
        raise ValueError(
            "This result has no label permutations, so nothing is significant. Set the "
            "lowest score that counts, e.g. min_score=0.6, or run the analysis again "
            "with n_permutations=1000 or so."
        )
    p = result.p_of_map(correction, metric)
    return p <= alpha, p


# -------------------------------------------------------------------------------- words


#: The map of the largest share of people that surely have the effect.
BOUND = "gamma_0"

#: Why there is none somewhere. Corrected, this is a little stricter than what rejects
#: the global null hypothesis.
NO_BOUND = "a prevalence of 0 is not rejected"

#: The names of two lists of results, and of two results, that nobody gave others.
DEFAULT_NAMES = ("first", "second")
DEFAULT_RESULTS = ("a", "b")


def metric_label(metric):
    """Return the name of a metric as an axis shows it.

    Parameters
    ----------
    metric : str
        Name of the metric.

    Returns
    -------
    label : str
        Its name in plain words.

    Examples
    --------
    >>> metric_label("balanced_accuracy")
    'Balanced accuracy'
    """
    words = metric_in_text(metric)
    return capital(words)


#: Characters of a name that figures show, and the share of them that is its end.
_LONGEST_NAME, _END_OF_NAME = 22, 0.42
#: Characters of a whole title or label.
_LONGEST_TEXT = 1000


def short_name(name, longest=_LONGEST_NAME):
    """A name that is not too long."""
    name = plain_text(name)
    if len(name) > longest:  # names often differ at their ends: "object 12"
        end = int(_END_OF_NAME * longest)
        name = f"{name[: longest - end - 1].rstrip()}…{name[-end:].lstrip()}"
    return name


def cut(text, most=120):
    """A text of so many characters at most."""
    return text if len(text) <= most else f"{text[: most - 1]}…"


def cut_texts(figure):
    """Cut what no figure can hold, and would be drawn letter by letter for minutes."""
    from matplotlib.text import Text

    for text in figure.findobj(Text):
        if len(words := text.get_text()) > _LONGEST_TEXT:
            text.set_text(cut(words, _LONGEST_TEXT))


#: What matplotlib itself writes on logarithmic axes.
_POWER = re.compile(r"\$\\mathdefault\{[^$]*\}\$")


def draws_names(plot: Callable[Options, Drawn]) -> Callable[Options, Drawn]:
    """Let a function that plots take names as they are: ``$`` begins no formula."""

    @wraps(plot)
    def call(*args, **options):
        from matplotlib import rcParams

        # Texts ask for it when they are made, those of ticks and legends, too.
        before = rcParams["text.parse_math"]
        rcParams["text.parse_math"] = False
        try:
            return plot(*args, **options)
        finally:
            rcParams["text.parse_math"] = before

    return call


def _settle_texts(figure):
    """Cut what is too long, and let users write formulas where no name has a $.

    Logarithmic axes write their powers of ten so, too.
    """
    from matplotlib.text import Text

    cut_texts(figure)
    for text in figure.findobj(Text):
        words = text.get_text()
        if "$" not in words or _POWER.fullmatch(words):
            text.set_parse_math(True)


def short_names(names, longest=_LONGEST_NAME):
    """Names that are not too long, but long enough to be told apart."""
    names = list(map(str, names))
    most = max(map(len, names), default=0)
    for length in range(longest, max(longest, most) + 1):
        short = [short_name(name, length) for name in names]
        if len(set(short)) == len(set(names)):
            break
    return short


#: Types of channels -> what the field calls them; other abbreviations are capitals.
_CHANNELS = {
    "mag": "magnetometer",
    "grad": "gradiometer",
    "misc": "misc",
    "bio": "bio",
    "ecog": "ECoG",
    "seeg": "sEEG",
    "hbo": "HbO",
    "hbr": "HbR",
    "ref_meg": "reference MEG",
}


def channel_label(kind):
    """What a type of channels of MNE-Python is called within a sentence."""
    return _CHANNELS.get(kind, kind.upper().replace("_", " "))


def label_of(result, metric):
    """The name of a result's map as an axis shows it."""
    if metric == BOUND:
        return "Prevalence bound γ₀"
    if metric == "statistic" and metric in result.metrics:
        labels = {"score": score_label(result), "difference": difference_label(result)}
        return result.statistic_label.format(**labels)
    if not result.is_difference:
        return metric_label(metric)
    for ending, name in zip(("_a", "_b"), result.labels, strict=True):
        if metric.endswith(ending) and metric != result.metric:
            return f"{metric_label(metric[:-2])} of {name}"
    return difference_label(result)


def score_label(result):
    """The name of the scores, also where the result is of differences."""
    return capital(score_in_text(result))


def score_in_text(result):
    """Do as `score_label` for the middle of a sentence."""
    return metric_in_text(result.metric.removesuffix("_difference"))


def difference_label(result):
    """The name of differences, which says of what."""
    first, second = result.labels
    return f"{score_label(result)}, {first} - {second}"


#: Inches of a letter of a label of axes, about.
_LETTER = 0.075


def fit_label(label, inches):
    """A label in lines that are no longer than so many inches."""
    return textwrap.fill(label, max(16, int(inches / _LETTER)))


def names_of_two(result):
    """What the two groups, conditions or compared results are called in legends."""
    names = tuple(result.labels)
    if not result.has_subjects:
        before = "result " if names == DEFAULT_RESULTS else ""
        return tuple(before + name for name in names)
    if names != DEFAULT_NAMES:
        return names
    noun = "condition" if result.paired else "group"
    return tuple(f"{name} {noun}" for name in names)


def with_null(result, words):
    """Add the null hypothesis to words about p-values, where there are several."""
    return f"{words}, {result.null_words}" if result.null_words else words


def limits_of(result):
    """The smallest and the largest value that scores can have."""
    return metric_limits(result.metric)


def level_of(result, metric):
    """What the level is called at which there is no effect."""
    if metric == "statistic":
        return "no effect"
    about_both = result.is_difference and metric == result.metric
    return "no difference" if about_both else "chance"


def describe(result):
    """Word what the scores were computed from."""
    return ", ".join(result.title_parts())


# ------------------------------------------------------------------------- significance


#: What corrections are called, also that for results of groups only.
CORRECTION_LABELS = {name: correction.label for name, correction in NAMED.items()}


#: How legends word other alternatives than "greater".
ALTERNATIVE_LABELS = {"less": "lower scores", "two-sided": "two-sided"}


def marking(
    result, position, metric, correction, alpha, threshold=0.05, alternative="greater"
):
    """Where a map is marked, None without p-values, and the words for it."""
    if metric == BOUND:
        marked, label = result.metrics[metric] >= 0.5, "majority of people (γ₀ ≥ 0.5)"
        return marked, label if marked.any() else f"no {position} with a {label}"
    if not result.has_p:
        return None, ""
    options = {"threshold": threshold, "alternative": alternative}
    p = result.p_of_map(correction, metric, **options)
    words = [f"p ≤ {alpha:g} ({CORRECTION_LABELS[correction]}"]
    if correction.startswith("cluster") and threshold != 0.05:
        words.append(f"clusters at p ≤ {threshold:g}")
    if alternative != "greater":
        words.append(ALTERNATIVE_LABELS[alternative])
    label, marked, n = ", ".join(words) + ")", p <= alpha, result.n_permutations
    if not marked.any():
        n_tested = np.count_nonzero(~np.isnan(p))
        # Without permutations, p is that of a distribution, and can be as small as any.
        if n and result.smallest_p(correction, n_tested, metric) > alpha:
            label += f" is not attainable with {counted(n, 'permutation', ',')}"
        else:
            label = f"no {position} at {label}"
    return marked, with_null(result, label)


# --------------------------------------------------------------------------------- Axes


#: Whether figures are made without pyplot, which would keep and show them.
_APART = ContextVar("apart", default=False)


def make_figure(result, **options):
    """Draw what a result plots into a figure that pyplot does not know."""
    taken = sorted({"ax", "show"} & set(options))
    if taken:
        raise TypeError(
            "figure() creates a new figure without showing it, so it does not take "
            f"{' or '.join(taken)}; use plot() instead."
        )
    return draw_apart(result.plot, **options)


def draw_apart(plot, *args, **options):
    """Call a function that plots; return a figure that pyplot does not know."""
    before = _APART.set(True)
    try:
        drawn = plot(*args, **options)
    finally:
        _APART.reset(before)
    return drawn.figure  # which a Figure has of itself, too


def new_figure(figsize, layout=None):
    """A new figure, of pyplot unless `draw_apart` asks for it."""
    if not _APART.get():
        from matplotlib.pyplot import figure

        return figure(figsize=figsize, layout=layout)
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    apart = Figure(figsize=figsize, layout=layout)
    FigureCanvasAgg(apart)
    return apart


def axes_or_new(ax, figsize):
    """The Axes to draw into, those of a new figure if none are given."""
    from matplotlib.axes import Axes

    if ax is None:
        return new_figure(figsize, "constrained").add_subplot()
    if not isinstance(ax, Axes):
        raise TypeError(
            f"Invalid value for 'ax': {ax!r}. Allowed: None, or Axes of matplotlib to "
            "draw into, e.g. those of plt.subplots()."
        )
    return ax


def choose_color(ax, color, first=SCORE_COLOR):
    """The color of a curve: the one asked for, or one the Axes hardly have."""
    from matplotlib.colors import to_hex

    if color is not None:
        return color
    drawn = [line.get_color() for line in ax.lines]
    drawn += [patch.get_edgecolor() for patch in ax.patches]  # of steps
    used = Counter(map(to_hex, drawn))
    return min((first, *COLORS), key=lambda known: used[known.lower()])


def check_color(color):
    """Raise a ValueError unless it is None or a color of matplotlib."""
    from matplotlib.colors import is_color_like

    if color is not None and not is_color_like(color):
        raise ValueError(
            f"Invalid value for 'color': {color!r}. Allowed: None, or a color of "
            "matplotlib, e.g. 'C1', 'tab:orange' or '#0072B2'."
        )


def lighter(color, gray=NULL_COLOR):
    """The color of what stands behind a curve: gray behind the first."""
    return gray if color == SCORE_COLOR else color


def draw_once(ax, at, upright=False, **style):
    """Draw a line across Axes that do not have it from another result."""
    if style["label"] not in ax.get_legend_handles_labels()[1]:
        (ax.axvline if upright else ax.axhline)(at, **style)


def draw_chance(ax, chance, metric=None, level="chance", upright=False):
    """Draw the chance level where the metric has one, and zero for R²."""
    if metric == "r2":
        label = "as good as the mean (0)"
        style = {"color": "black", "lw": 0.8, "ls": ":", "zorder": 1.5}
        draw_once(ax, 0, upright, label=label, **style)
    if np.isfinite(chance):
        label = f"{level} ({chance:.3g})"
        label = "no correlation" if metric == "pearsonr" else label
        draw_once(ax, chance, upright, label=label, zorder=2, **DASHED)


def draw_permuted(ax, mean, metric=None, upright=False):
    """Draw the mean score of permuted labels, where it is not at chance (NaN if so)."""
    if np.isfinite(mean):
        label = f"{mean_of_permuted(metric)} ({mean:.3g})"
        style = {"color": "0.35", "lw": 1.3, "ls": (0, (1, 1.5)), "zorder": 2}
        draw_once(ax, mean, upright, label=label, **style)


#: What the band of the permutations' scores is called, from 2.5 to 97.5 %.
NULL_BAND = "central 95 % of permutations"


def draw_histogram(ax, null, label, color=SCORE_COLOR):
    """Draw how often each score came out of the permutations (P,)."""
    from matplotlib.ticker import MaxNLocator

    style = {"color": lighter(color), "edgecolor": "white", "lw": 0.4}
    if color != SCORE_COLOR:
        style["alpha"] = 0.5  # another one may lie behind it
    ax.hist(null, bins=histogram_edges(null), label=label, **style)
    # Ticks at whole numbers only, each of them once.
    ticks = MaxNLocator("auto", integer=True, steps=[1, 2, 5, 10])
    ax.yaxis.set_major_locator(ticks)
    ax.yaxis.set_major_formatter("{x:,.0f}")


def histogram_edges(values):
    """Edges (n_bins + 1,) of bins that hold equally many possible scores."""
    # Accuracies are multiples of 1/n. Bins that are no multiple of that hold now one of
    # them and now two, which draws a comb that the data does not have.
    values = np.asarray(values, dtype=float)
    levels = np.unique(values.round(12))
    if len(levels) == 1:
        return levels[0] + np.array([-0.5, 0.5]) * max(abs(levels[0]), 1) / 50
    automatic = np.histogram_bin_edges(values, "auto")
    step = np.diff(levels).min()
    steps = (levels - levels[0]) / step
    if np.abs(steps - steps.round()).max() > 1e-3:
        return automatic  # no grid
    width = step * max(1, np.ceil((automatic[1] - automatic[0]) / step - 1e-6))
    n_bins = int(np.ceil((levels[-1] - levels[0] + step) / width - 1e-6))
    return levels[0] - step / 2 + width * np.arange(n_bins + 1)


def label_times(ax, times):
    """Draw the onset into Axes over time, if it is in range, and set their limits."""
    if times[0] <= 0 <= times[-1]:
        draw_onset_line(ax)
    span_times(ax, times)
    ax.set_xlabel(AXES["times"].label)


def draw_onset_line(ax):
    """Draw a line at 0 s."""
    style = {"color": "black", "lw": 0.8, "zorder": 1}
    draw_once(ax, 0, upright=True, label="onset (0 s)", **style)


def span_times(ax, times):
    """Let Axes reach from the first sample to the last, and as far as they did."""
    left, right = sample_edges(times)[[0, -1]]
    if not ax.get_autoscalex_on():  # someone has set the limits: another result
        start, end = ax.get_xlim()
        left, right = min(left, start), max(right, end)
    ax.set_xlim(left, right)


def add_ylabel(ax, label):
    """Name the height of Axes; another result's name stays beside it."""
    before = ax.get_ylabel()
    if label not in before:
        ax.set_ylabel(f"{before}, {label}" if before else label)


def sample_edges(times):
    """The n + 1 borders halfway between samples."""
    if len(times) == 1:  # no neighbor tells how long a sample is
        return times[0] + np.array([-0.005, 0.005])
    middle = (times[:-1] + times[1:]) / 2
    return np.concatenate(
        [[2 * times[0] - middle[0]], middle, [2 * times[-1] - middle[-1]]]
    )


#: Shares of the height: the lower end of the first bars, how high bars are, how far the
#: next result's bars are above them, and what is kept free for the first ones.
_BAR_BOTTOM, _BAR_HEIGHT, _BAR_STEP, _BAR_ROOM = 0.035, 0.03, 0.04, 0.107

#: What bars, or words that there are none, are marked with in Axes.
_BARS = "mvpa_kfda bars"


def draw_bars(ax, times, marked, label, color, name=None):
    """Draw bars under the marked samples, below all curves and above earlier bars.

    Without any, the legend says so, of the named curve. Where nothing could be marked,
    None, Axes of several results are made high enough for all of them, and no more.
    """
    from matplotlib.collections import PolyCollection

    n_before = sum(part.get_gid() == _BARS for part in ax.get_children())
    if marked is not None:
        spans = significant_spans(times, marked)
        bottom = _BAR_BOTTOM + n_before * _BAR_STEP
        top = bottom + _BAR_HEIGHT
        if len(spans):
            corners = [
                [(start, bottom), (start, top), (end, top), (end, bottom)]
                for start, end in spans
            ]
            # Seconds across, share of the height up.
            style = {"transform": ax.get_xaxis_transform(), "color": color, "lw": 0}
            bars = PolyCollection(corners, label=label, gid=_BARS, **style)
            ax.add_collection(bars, autolim=False)
        else:
            label = f"{name}: {label}" if name else label
            ax.plot([], [], " ", color=color, label=label, gid=_BARS)
    _fit_height(ax, n_before, n_before + (marked is not None))


def _fit_height(ax, n_before, n_now):
    """Make the Axes hold all that is drawn, and so many rows of bars below."""
    if not n_now:
        return  # the Axes still fit themselves
    low, high = ax.get_ylim()
    if n_before:  # which set the limits, so that those of what came after do not count
        low += _share_of_bars(n_before) * (high - low)
        bottom, top = ax.dataLim.intervaly
        margin = ax.margins()[1] * (top - bottom)
        low, high = min(low, bottom - margin), max(high, top + margin)
    share = _share_of_bars(n_now)
    ax.set_ylim(low - share / (1 - share) * (high - low), high)


def _share_of_bars(n):
    """The share of the height that rows of bars take."""
    return _BAR_ROOM + (n - 1) * _BAR_STEP


def significant_spans(times, significant):
    """Start and end (n_spans, 2) of contiguous significant samples."""
    flags = np.concatenate([[0], np.asarray(significant, dtype=int), [0]])
    change = np.diff(flags)
    edges = sample_edges(np.asarray(times, dtype=float))
    return np.column_stack([edges[:-1][change[:-1] == 1], edges[change == -1]])


#: Characters of the title that fit on an inch.
TITLE_DENSITY = 15

#: Inches of width that two columns of the legend need.
TWO_COLUMNS = 3.0

#: Inches of width and height from which on Axes have words of the usual size, and how
#: small these are at least in smaller Axes, such as one of four.
_ROOMY, _SMALLEST = (3.4, 1.6), 0.7

#: Points from the Axes to their legend: room for the labels of the axis between them.
_TO_LEGEND = 37.0


#: What the curves of scores are marked with in Axes.
CURVE = "mvpa_kfda curve"


def finish(
    ax, result, show, handles=None, note="", columns=2, name=None, *, legend=True
):
    """Add the title with a note and the legend of what has a label, or of handles.

    The title has the name before what it was computed from, if there is one.
    """
    set_title(ax, result, note, name)
    ax.spines[["top", "right"]].set_visible(False)
    make_room(ax)
    if check_flag("legend", legend):
        add_legend(ax, handles, columns)
    return maybe_show(ax, show)


def make_room(ax):
    """Have the figure of Axes laid out such that all words have room."""
    figure = ax.figure.canvas.figure
    if figure.get_layout_engine() is None:
        figure.set_layout_engine("constrained")


def add_legend(ax, handles=None, columns=2):
    """Add a legend below Axes of what has a label, or of handles."""
    figure = ax.figure.canvas.figure
    make_room(ax)
    handles = ax.get_legend_handles_labels()[0] if handles is None else handles
    # Of several results, curves come first, and what is worded alike is one entry.
    curves = [line for line in ax.lines if line.get_gid() == CURVE]
    entries = {}
    for handle in sorted(handles, key=lambda handle: handle not in curves):
        entries.setdefault(handle.get_label(), []).append(handle)
    scale = word_scale(ax)
    style = LEGEND | {"fontsize": scale * _font_size(LEGEND["fontsize"])}
    if scale < 1:  # narrow lines
        style |= {"labelspacing": 0.2, "borderpad": 0.2}
        style |= {"handlelength": 1.5, "columnspacing": 1.2}
    width = inches_of(ax)[0]
    room = min(0.9 * figure.get_figwidth(), 1.3 * width)
    columns = columns if width / scale > TWO_COLUMNS else 1
    # Below the Axes, where it hides nothing, and below the axis label: the distance is
    # in units of the font size.
    style["borderaxespad"] = _TO_LEGEND / style["fontsize"]
    below = {"loc": "upper center", "bbox_to_anchor": (0.5, 0)}
    _fit_legend(ax.legend, entries, room, columns, **below, **style)


def add_figure_legend(figure, handles=None, loc="outside lower center", columns=2):
    """Add one legend of all Axes, or of handles, below them."""
    if handles is None:
        handles = [
            handle for ax in figure.axes for handle in ax.get_legend_handles_labels()[0]
        ]
    entries = {}
    for handle in handles:  # the onset, for example, is in several Axes
        entries.setdefault(handle.get_label(), [handle])
    room = 0.95 * figure.get_figwidth()
    _fit_legend(figure.legend, entries, room, columns, loc=loc, **LEGEND)


def word_scale(ax):
    """How large words are in Axes, 1 or in small ones less."""
    return float(np.clip((inches_of(ax) / _ROOMY).min(), _SMALLEST, 1))


def _font_size(name):
    """The size of a font in points by its name, e.g. "small"."""
    from matplotlib.font_manager import FontProperties

    return FontProperties(size=name).get_size_in_points()


def _fit_legend(draw, entries, room, columns=2, **style):
    """Draw a legend of labels -> handles that is no wider than so many inches."""
    from matplotlib.legend_handler import HandlerTuple

    def attempt(labels):
        handles = [tuple(x) if x[1:] else x[0] for x in entries.values()]
        beside = {"handler_map": {tuple: HandlerTuple(ndivide=None)}, "ncols": columns}
        legend = draw(handles, labels, **beside, **style)
        return legend, legend.get_window_extent().width / legend.figure.dpi

    legend, width = attempt(list(entries))
    while width > room and columns > 1:
        legend.remove()
        columns -= 1
        legend, width = attempt(list(entries))
    if width > room:
        legend.remove()
        longest = int(max(map(len, entries)) * room / width)
        attempt([textwrap.fill(label, longest) for label in entries])


def set_title(ax, result, note="", name=None):
    """Write above the Axes what the scores were computed from, and a note below it.

    What another result has written there stays.
    """
    # Lines are as long as the Axes is wide, and break at commas only.
    glued = describe(result).replace(" ", "\xa0").replace(",\xa0", ", ")
    glued = glued if name is None else f"{name}: {glued}"
    scale = word_scale(ax)
    width = max(30, int(TITLE_DENSITY * _drawn_width(ax) / scale))
    lines = textwrap.wrap(glued, width, break_on_hyphens=False)
    lines += textwrap.wrap(note, width, break_on_hyphens=False)
    title = "\n".join(lines).replace("\xa0", " ")
    before = ax.get_title(loc="left")
    if title not in before:
        title = f"{before}\n{title}".strip()
        ax.set_title(title, loc="left", fontsize=scale * _font_size("medium"))


def title_figure(figure, words, **place):
    """Write words above all Axes of a figure, in lines as long as it is wide."""
    width = int(TITLE_DENSITY * figure.get_figwidth())
    title = textwrap.fill(words, width, break_on_hyphens=False)
    figure.suptitle(title, x=0.02, ha="left", fontsize="medium", **place)


def inches_of(ax):
    """Width and height of Axes in inches, before room is made for words."""
    figure, cell = ax.figure, ax.get_subplotspec()
    # What they are given, whatever they make of it.
    box = ax.get_position() if cell is None else cell.get_position(figure)
    return np.array([box.width, box.height]) * figure.bbox.size / figure.dpi


def _drawn_width(ax):
    """The width in inches of Axes, as far as their layout is known."""
    width, height = inches_of(ax)
    laid_out = ax.get_position().width * ax.figure.bbox.width / ax.figure.dpi
    width = min(width, laid_out)
    if ax.get_aspect() == "auto" or ax.get_adjustable() != "box":
        return width
    return min(width, height / (ax.get_aspect() * ax.get_data_ratio()))


def maybe_show(drawn, show):
    """Show the figure if asked to; return what was drawn."""
    _settle_texts(drawn.figure)
    if check_flag("show", show):
        import matplotlib.pyplot as plt

        plt.show()
    return drawn
