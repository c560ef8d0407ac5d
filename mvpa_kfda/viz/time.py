"""Figures of scores over time, and their curves.

The curves and dots of groups and comparisons are drawn into given Axes. Matplotlib is
imported by the helpers only, so that decoding never loads it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from scipy import stats

from ..inference.corrections import CorrectionName
from ..inference.null import Alternative
from ..utils.axes import AXES
from ..utils.checks import check_flag, check_text, counted
from ..utils.rounding import rounded
from . import style

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.typing import ColorType

OTHER_COLOR = "#009E73"  # bluish green: the second group, condition or result
DIFFERENCE_COLOR = "#882255"  # wine: neither of the two
SUBJECT_COLOR = "#999999"

#: The line of a majority, or of no difference of two shares.
DOTTED = {"color": "black", "lw": 0.9, "ls": ":", "zorder": 1.5}
INTERVAL_LABEL = "95 % t interval of the mean"

DIFFERENCE_INTERVAL_LABEL = "95 % t interval of the difference, pooled variance"


@style.draws_names
def plot_time(
    result,
    *,
    metric: str | None = None,
    correction: CorrectionName = "max",
    alpha: float = 0.05,
    threshold: float = 0.05,
    alternative: Alternative = "greater",
    repeats: bool = False,
    color: ColorType | None = None,
    label: str | None = None,
    legend: bool = True,
    ax: Axes | None = None,
    show: bool = False,
) -> Axes:
    """Plot decoding scores over time.

    Shows the score, chance level, the middle 95 % of the permutations at every time
    point, and bars under the time points with p <= alpha. A bar reaches half a sample
    beyond the first and the last significant sample.

    Parameters
    ----------
    result : TimeResult
        The result to draw.
    metric : str or None
        Name of the metric; None takes the first.
    correction : str
        Correction of the p-values for testing many time points.
    alpha : float
        Time points with p <= alpha are marked.
    threshold : float
        p-level that forms the clusters, for the corrections by clusters.
    alternative : {"greater", "less", "two-sided"}
        Which scores are tested for, as in `pvalues`.
    repeats : bool
        Draw the score of every repeat as a thin line, too.
    color : color of matplotlib or None
        Color of the curve and its bars; None takes one that the Axes do not have yet.
    label : str or None
        What the legend calls the curve; None takes the name of the metric.
    legend : bool
        Draw the legend.
    ax : matplotlib Axes or None
        Where to draw; None makes a figure. Axes may hold several results: each has a
        color of its own, and bars in this color. A figure of your own without a layout
        gets "constrained", which makes room for the legend.
    show : bool
        Show the figure at once.

    Returns
    -------
    ax : matplotlib Axes
        The Axes drawn into.

    Raises
    ------
    ValueError
        If `alpha` is not between 0 and 1, the metric, the correction, the alternative
        or the color is unknown, the metric is not one number per time point, or there
        are no repeats to be drawn.

    Examples
    --------
    >>> import matplotlib
    >>> matplotlib.use("Agg")
    >>> from mvpa_kfda import decode_epochs, simulate_epochs
    >>> from mvpa_kfda.viz.time import plot_time
    >>> result = decode_epochs(simulate_epochs(n_trials=30), step=0.1, cv=5)
    >>> plot_time(result).get_xlabel()
    'Time (s)'
    """
    tested = metric, correction, alpha, threshold, alternative
    metric, correction = style.check_request(result, *tested)
    style.check_color(color)
    times, shown = result.times, style.metric_label(metric)
    label = check_text("label", label)
    single = repeats_of(result, metric) if check_flag("repeats", repeats) else None
    # Before the figure is made, which an error would leave behind empty.
    tested = metric, correction, *tested[2:]
    marked, words = style.marking(result, "time point", *tested)
    ax = style.axes_or_new(ax, figsize=(7.0, 4.2))
    color = style.choose_color(ax, color)
    # In the order of the legend; zorder decides what lies on top.
    draw_curve(ax, times, result.metrics[metric], color, label or shown)
    if single is not None:
        _draw_singles(ax, times, single.T, color, word_repeats(single))
    style.draw_chance(ax, result.chances[metric], metric)
    style.draw_permuted(ax, result.permuted_mean(metric), metric)
    if marked is not None:
        shade = style.lighter(color)
        look = {"color": shade, "alpha": 0.55 if shade != color else 0.2}
        ends = np.percentile(result.nulls[metric], [2.5, 97.5], axis=0)
        _fill(ax, times, ends, label=style.NULL_BAND, **look)
    style.draw_bars(ax, times, marked, words, color, label)
    style.label_times(ax, times)
    style.add_ylabel(ax, shown)
    return style.finish(ax, result, show, name=label, legend=legend)


def repeats_of(result, metric):
    """The score of every repeat (positions..., r); refuse results without."""
    if metric not in result.repeats:
        raise ValueError(
            "repeats=True draws the score of each repeat, but this result was computed "
            "only once. Run the analysis again with n_repeats=20 or so, or leave "
            "repeats out."
        )
    return result.repeats[metric]


def word_repeats(single):
    """Word how many repeats there are, of scores (..., r)."""
    return counted(single.shape[-1], "repeat")


def _fill(ax, times, ends, **look):
    """Fill what is between two ends (2, n_times)."""
    if len(times) == 1:  # a band of its own width instead of none
        times, ends = style.sample_edges(times), [end.repeat(2) for end in ends]
    ax.fill_between(times, *ends, lw=0, **look)


# --------------------------------------------------------------- groups and their means


def samples_of(result):
    """The scores, the color and a name of every group, condition or compared result."""
    names, colors = style.names_of_two(result), (style.SCORE_COLOR, OTHER_COLOR)
    if not result.has_subjects:
        scores = [np.asarray(x)[np.newaxis] for x in (result.scores_a, result.scores_b)]
    elif result.other_scores is None:
        scores, names = [result.subject_scores], ["mean"]
    else:
        scores = [result.subject_scores, result.other_scores]
        names = [f"{name}, mean" for name in names]
    if result.has_subjects:
        pairs = zip(names, scores, strict=True)
        names = [f"{name} of {len(each)} subjects" for name, each in pairs]
    return list(zip(scores, colors, names, strict=False))


def mean_interval(scores):
    """The mean over subjects and the two ends of its 95 % t interval."""
    scores = np.asarray(scores, dtype=float)
    n = len(scores)
    error = scores.std(axis=0, ddof=1) / np.sqrt(n) if n > 1 else np.nan
    return _t_interval(scores.mean(axis=0), error, n - 1)


def difference_interval(scores, others):
    """The difference of two means and the two ends of its 95 % t interval."""
    # That of Student's t with the pooled variance, as in the test of two groups: it
    # leaves out 0 where the two-sided p-value of "t", uncorrected, is below 0.05.
    groups = [np.asarray(group, dtype=float) for group in (scores, others)]
    sizes = [len(group) for group in groups]
    difference = groups[0].mean(axis=0) - groups[1].mean(axis=0)
    free = sum(sizes) - 2
    squares = sum(len(group) * group.var(axis=0) for group in groups)
    variance = squares / free if free > 0 else np.nan
    error = np.sqrt(variance * sum(1 / n for n in sizes))
    return _t_interval(difference, error, free)


def _t_interval(middle, error, free):
    """A middle and the ends of its 95 % t interval; NaN without degrees of freedom."""
    half = stats.t.ppf(0.975, free) * error
    return middle, middle - half, middle + half


# ---------------------------------------------------------------------------- over time


def draw_two(ax, result):
    """Draw the means of two groups or conditions, or two results that are compared."""
    # How far two means are apart for sure is a matter of their difference; intervals
    # of the single means would mislead.
    for scores, color, name in samples_of(result):
        draw_curve(ax, result.times, scores.mean(axis=0), color, name)
    draw_level(ax, result)


def draw_group(ax, result, color, label=None):
    """Draw the mean of the subjects, its interval, and the subjects as thin lines."""
    ((scores, _, name),), times = samples_of(result), result.times
    draw_curve(ax, times, scores.mean(axis=0), color, label or name)
    _draw_band(ax, times, mean_interval(scores), style.limits_of(result), color)
    _draw_singles(ax, times, scores, style.lighter(color, SUBJECT_COLOR))
    draw_level(ax, result)


def draw_differences(ax, result):
    """Draw the difference of two means with its interval, and those of all pairs."""
    times, (low, high) = result.times, style.limits_of(result)
    limits = low - high, high - low
    if result.paired:
        differences = result.subject_scores - result.other_scores
        name = f"mean difference of {len(differences)} subjects"
        interval = mean_interval(differences)
    else:
        name = "difference of the means"
        interval = difference_interval(result.subject_scores, result.other_scores)
    draw_curve(ax, times, interval[0], DIFFERENCE_COLOR, name)
    label = INTERVAL_LABEL if result.paired else DIFFERENCE_INTERVAL_LABEL
    _draw_band(ax, times, interval, limits, DIFFERENCE_COLOR, label)
    if result.paired:
        _draw_singles(ax, times, differences)
    style.draw_chance(ax, 0.0, level=style.level_of(result, result.metric))


def map_color(result, metric):
    """The color of a map's curve, where none is asked for."""
    between = result.is_difference and metric == result.metric
    return DIFFERENCE_COLOR if between else style.SCORE_COLOR


def draw_map_curve(ax, result, metric, color, label=None):
    """Draw any map of a result as a curve over time."""
    name = label or style.label_of(result, metric)
    draw_curve(ax, result.times, result.metrics[metric], color, name)
    style.draw_chance(ax, result.chances[metric], level=style.level_of(result, metric))
    style.draw_permuted(ax, result.permuted_mean(metric), metric)


def draw_curve(ax, times, values, color, name, lw=1.8):
    """Draw a thick line over time; a single time point is a dot."""
    look = {"color": color, "lw": lw, "zorder": 3, "gid": style.CURVE}
    ax.plot(times, values, marker="o" if len(times) == 1 else None, label=name, **look)


def _draw_band(
    ax, times, interval, limits, color=style.SCORE_COLOR, label=INTERVAL_LABEL
):
    """Draw an interval over time, as far as scores go."""
    ends = [np.clip(end, *limits) for end in interval[1:]]
    _fill(ax, times, ends, label=label, color=color, alpha=0.25, zorder=2.5)


def _draw_singles(ax, times, scores, color=SUBJECT_COLOR, label="subjects"):
    """Draw every subject, or every repeat, as a thin line (n, n_times)."""
    look = {"color": color, "zorder": 1.2, "marker": "." if len(times) == 1 else None}
    # Many lines would hide each other, and the mean; the legend's is to be seen.
    alpha = float(np.clip(6 / len(scores), 0.12, 0.6))
    ax.plot(times, scores.T, lw=0.7, alpha=alpha, **look)
    ax.plot([], [], lw=1.0, alpha=0.6, label=label, **look)


def draw_level(ax, result):
    """Draw the chance level of the scores, also where their difference was tested."""
    if result.is_difference:
        style.draw_chance(ax, result.score_chance)
    else:
        style.draw_chance(ax, result.chance, result.metric)
    for mean in result.parameters.get("permuted_mean", ()):  # one or, of pairs, two
        style.draw_permuted(ax, mean, result.metric)


def draw_bound(ax, result, color, label=None):
    """Draw the prevalence bound as steps from 0 to 1, and where the majority begins."""
    edges, bound = style.sample_edges(result.times), result.metrics[style.BOUND]
    look = {"color": color, "zorder": 2}
    # Without a bound nothing is drawn: a step of no height, and no line.
    ax.stairs(np.nan_to_num(bound), edges, fill=True, alpha=0.3, lw=0, **look)
    look |= {"lw": 1.8, "label": label or style.label_of(result, style.BOUND)}
    ax.stairs(bound, edges, baseline=None, **look)
    style.draw_once(ax, 0.5, label="majority (0.5)", **DOTTED)
    if np.isnan(bound).all():
        words = f"no bound ({style.NO_BOUND})"
        ax.plot([], [], " ", label=f"{label}: {words}" if label else words)
    ax.set(ylim=(0, 1), yticks=[0, 0.5, 1], ylabel="Bound γ₀")


def finish_times(axes, times):
    """Draw the onset into Axes that share their times, and name the times below."""
    left, right = style.sample_edges(times)[[0, -1]]
    for ax in axes:
        if left <= 0 <= right:
            style.draw_onset_line(ax)
        style.span_times(ax, times)
        ax.spines[["top", "right"]].set_visible(False)
    axes[-1].set_xlabel(AXES["times"].label)


# ----------------------------------------------------------------------- single numbers


#: Most of the width of a column that dots are spread over, and their distance.
_WIDEST, _APART = 0.5, 0.07

#: How far beside the dots their mean is.
_BESIDE = 0.36

#: Dots that are nearer to each other than this share of the range lie side by side.
_NEAR = 1 / 30


def draw_dots(ax, result):
    """Draw every subject as a dot, beside the mean and its confidence interval."""
    samples = samples_of(result)
    paired = len(samples) == 2 and result.paired
    places = [column + spread(scores) for column, (scores, *_) in enumerate(samples)]
    for column, (scores, color, name) in enumerate(samples):
        mean, low, high = mean_interval(scores)
        # Outside of the lines between pairs.
        x = column + (-_BESIDE if paired and column == 0 else _BESIDE)
        label = f"{name}, {rounded(mean)}"
        if len(scores) > 1:
            label += f" (95 % t interval {rounded(low)} to {rounded(high)})"
        ends = np.clip([low, high], *style.limits_of(result))
        ax.vlines(x, *ends, color=color, lw=2.2, zorder=3)
        ax.plot(x, mean, "s", color=color, ms=7, zorder=3, label=label)
        dots = {"color": color, "ms": 5, "mew": 0, "alpha": 0.6, "zorder": 2}
        ax.plot(places[column], scores, "o", **dots)
    if paired:
        pairs = np.stack([scores for scores, *_ in samples])
        ax.plot(np.stack(places), pairs, color=SUBJECT_COLOR, lw=0.7, zorder=1)
    draw_level(ax, result)
    names = [f"{len(scores)} subjects" for scores, *_ in samples]
    if len(samples) == 2:
        names = style.names_of_two(result)
    ax.set_xticks(range(len(samples)), names)
    ax.set(xlim=(-0.6, len(samples) - 0.4), ylabel=style.score_label(result))


def spread(values):
    """How far (n,) dots are beside the middle, so that none hides another."""
    values = np.asarray(values, dtype=float)
    near = _NEAR * (np.ptp(values) or 1.0)
    row = np.round((values - values.min()) / near).astype(int)
    offsets = np.empty(len(values))
    for number in np.unique(row):
        members = np.flatnonzero(row == number)
        step = min(_APART, _WIDEST / len(members))
        offsets[members] = step * (np.arange(len(members)) - (len(members) - 1) / 2)
    return offsets


def draw_two_dots(ax, result):
    """Draw the two numbers whose difference was tested."""
    pair = samples_of(result)
    heights = [scores.item() for scores, *_ in pair]
    ax.plot([0, 1], heights, color=SUBJECT_COLOR, lw=1.2, zorder=1)
    for column, (_, color, name) in enumerate(pair):
        label = f"{name}, {rounded(heights[column])}"
        ax.plot(column, heights[column], "o", color=color, ms=8, label=label)
    draw_level(ax, result)
    ax.set_xticks([0, 1], [name for *_, name in pair])
    ax.set(xlim=(-0.6, 1.6), ylabel=style.score_label(result))
