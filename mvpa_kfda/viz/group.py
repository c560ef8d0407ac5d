"""Figures of group results and of comparisons.

Maps are drawn by the functions that draw the maps of single subjects. Time courses and
single numbers show the subjects, too. Matplotlib is imported inside the functions.
"""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any

import numpy as np

from ..inference.corrections import CorrectionName
from ..inference.null import against_maximum
from ..utils.axes import AXES
from ..utils.checks import counted, plural
from ..utils.rounding import p_words, rounded, rounded_down
from . import style
from .brains import plot_volume
from .maps import (
    plot_generalization,
    plot_sensors,
    plot_sources,
    plot_time_frequency,
)
from .null import draw_null
from .time import (
    DOTTED,
    OTHER_COLOR,
    draw_bound,
    draw_differences,
    draw_dots,
    draw_group,
    draw_map_curve,
    draw_two,
    draw_two_dots,
    finish_times,
    map_color,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

#: Light where there is hardly a bound, as no bound is not drawn at all.
_BOUND_COLORS = {"vlim": (0, 1), "cmap": "YlGnBu"}


@style.draws_names
def plot_group(
    result,
    *,
    metric: str | None = None,
    correction: CorrectionName | None = None,
    alpha: float | None = None,
    show: bool = False,
    **options: Any,
) -> Any:
    r"""Plot the result of a group, or of a comparison.

    Over time, the subjects are thin lines, and their mean a thick one with its 95 %
    interval of Student's t, :math:`\bar x \pm t_{0.975, S-1} s / \sqrt S`, which is one
    of each time point alone and drawn as far as scores go: accuracies end at 1. Bars
    below mark where p <= alpha, of the global null hypothesis if the method is
    "prevalence" [1]_; a second panel then has the prevalence bound :math:`\gamma_0`,
    and a dotted line where the majority begins.

    Two lists of results have their means in the upper panel and their difference in the
    lower one, where bars mark that it is significant. Two conditions of the same
    subjects: the subjects' differences are thin lines, with the t interval of their
    mean. Two groups: the difference of the means, with its t interval of the pooled
    variance. Of a comparison, the panels have both time courses and their difference.

    Single numbers: one dot per subject, the mean and its t interval. Maps and
    brains are drawn by `plot_generalization`, `plot_time_frequency`, `plot_sensors`
    and `VolumeResult.plot`, with an outline around what is significant; of the
    prevalence bound, around the majority, in colors from 0 to 1.

    Parameters
    ----------
    result : GroupResult or ComparisonResult
        The result to draw.
    metric : str or None
        Name of the map, one of ``result.scoring``: the metric of the scores,
        "statistic" for what was tested or, of "prevalence", "gamma_0" for the
        prevalence bound. None takes the scores.
    correction : str or None
        Correction of the p-values for testing many positions; None takes the one that
        was asked for. The prevalence bound is always that of the result.
    alpha : float or None
        Positions with p <= alpha are marked; None takes ``result.alpha``.
    show : bool
        Show the figure at once.
    **options
        What else the figures of such maps take. ``legend`` (whether it is drawn): all
        of them. ``ax`` (Axes to draw into): single numbers, time, time generalization
        and time-frequency; over time, only the scores are drawn then, without a second
        panel, and several results can share Axes. ``color`` (of the curve and its bars)
        and ``label`` (of the curve in the legend): time, where there is one curve.
        ``vlim`` and ``cmap``: maps and brains. ``times`` of the topomaps: sensors.
        ``kind``, ``views``, ``cut_coords``, ``bg_img`` and ``min_score``: as in
        `VolumeResult.plot`.

    Returns
    -------
    drawn : matplotlib Axes or Figure
        The Axes, or the Figure if it has several: two panels, sensors, and brains.

    Raises
    ------
    ValueError
        If `alpha` is not between 0 and 1, if there is no such map or no such p-value,
        or if an option is not valid.
    TypeError
        If such figures do not take an option.

    References
    ----------
    .. [1] Allefeld, C., Goergen, K., & Haynes, J.-D. (2016). Valid population
       inference for information-based imaging: From the second-level t-test to
       prevalence inference. NeuroImage, 141, 378-392.

    Examples
    --------
    >>> import matplotlib
    >>> matplotlib.use("Agg")
    >>> import numpy as np
    >>> from mvpa_kfda import decode_arrays, group_inference
    >>> from mvpa_kfda.viz.group import plot_group
    >>> rng = np.random.default_rng(0)
    >>> y = rng.permutation(["face", "house"] * 10)
    >>> results = [
    ...     decode_arrays(rng.normal(size=(20, 4, 3)), y, n_permutations=20)
    ...     for subject in range(8)
    ... ]
    >>> group = group_inference(results, random_state=0)
    >>> [ax.get_ylabel() for ax in plot_group(group).axes]
    ['Accuracy', 'Bound γ₀']
    """
    draw = _DRAW[tuple(result.axes)]
    # What was tested is settled, unlike that of single subjects.
    settled = ("result", "threshold", "alternative")
    allowed = [x for x in inspect.signature(draw).parameters if x not in settled]
    unknown = sorted(set(options) - set(allowed))
    if unknown:
        raise TypeError(
            f"Figures of {result.places.describe()} do not take: {', '.join(unknown)}. "
            f"Allowed: {', '.join(allowed)}."
        )
    if isinstance(metric, str) and metric == style.BOUND and "vlim" in allowed:
        options = _BOUND_COLORS | options
    return draw(
        result,
        metric=metric,
        correction=result.correction_name(correction),
        alpha=result.alpha if alpha is None else alpha,
        show=show,
        **options,
    )


# ------------------------------------------------------------------------- time courses


def _plot_time(
    result,
    *,
    metric,
    correction,
    alpha,
    color=None,
    label=None,
    legend=True,
    ax=None,
    show=False,
):
    """Plot a time course, in two panels where there is more than the scores to show."""
    metric, correction = style.check_request(result, metric, correction, alpha)
    style.check_color(color)
    marks = style.marking(result, "time point", metric, correction, alpha)
    is_score = metric == result.metric
    two_panels = ax is None and is_score and result.is_difference
    two_groups = is_score and result.is_difference and result.has_subjects
    if (two_panels or two_groups) and (color, label) != (None, None):
        raise ValueError(
            "This figure has several curves, so it takes no color and no label. Pass "
            "labels= to group_inference, or plot another map, e.g. metric='statistic'."
        )
    first = map_color(result, metric)
    if two_panels or (ax is None and is_score and style.BOUND in result.metrics):
        return _plot_panels(result, marks, color or first, label, show, legend)
    ax = style.axes_or_new(ax, figsize=(7.0, 4.2))
    color = style.choose_color(ax, color, first)
    _draw_time(ax, result, metric, marks, color, label)
    finish_times([ax], result.times)
    return style.finish(ax, result, show, name=label, legend=legend)


def _draw_time(ax, result, metric, marks, color, label):
    """Draw one map over time with bars where it is significant."""
    if metric == style.BOUND:
        draw_bound(ax, result, color, label)
        return
    if metric != result.metric or not result.has_subjects:
        draw_map_curve(ax, result, metric, color, label)
        style.add_ylabel(
            ax, style.fit_label(style.label_of(result, metric), style.inches_of(ax)[1])
        )
    else:
        if result.is_difference:
            draw_two(ax, result)
        else:
            draw_group(ax, result, color, label)
        style.add_ylabel(ax, style.score_label(result))
    style.draw_bars(ax, result.times, *marks, color, label)


def _plot_panels(result, marks, color, label, show, legend):
    """Plot scores above the prevalence bound, or two courses above their difference."""
    figure = style.new_figure((7.0, 5.8), "constrained")
    heights = (1, 1) if result.is_difference else (2.4, 1)
    upper, lower = figure.subplots(2, sharex=True, height_ratios=heights)
    if not result.is_difference:
        _draw_time(upper, result, result.metric, marks, color, label)
        draw_bound(lower, result, color)
    else:
        upper.set_ylabel(style.score_label(result))
        draw_two(upper, result)
        if result.has_subjects:
            draw_differences(lower, result)
        else:
            draw_map_curve(lower, result, result.metric, color)
        lines = style.score_label(result), " - ".join(result.labels)
        inches = style.inches_of(lower)[1]
        lower.set_ylabel("\n".join(style.fit_label(line, inches) for line in lines))
        style.draw_bars(lower, result.times, *marks, color)
    finish_times(figure.axes, result.times)
    style.set_title(upper, result, name=label)
    if legend:
        style.add_figure_legend(figure)
    return style.maybe_show(figure, show)


# ----------------------------------------------------------------------- single numbers


def _plot_single(
    result, *, metric, correction, alpha, legend=True, ax=None, show=False
):
    """Plot the scores of the subjects at the only position there is."""
    metric, correction = style.check_request(result, metric, correction, alpha)
    if metric != result.metric:
        raise ValueError(
            f"There is only one position, so {metric!r} is a number and not a map: "
            f"{result.metrics[metric]:.3g}. Plots show the map {result.metric!r}."
        )
    ax = style.axes_or_new(ax, figsize=(5.0, 4.4))
    (draw_dots if result.has_subjects else draw_two_dots)(ax, result)
    words = p_words(float(result.p_of_map(correction, result.metric)))
    words = style.with_null(result, words)
    if result.is_difference:
        words = f"difference {rounded(result.scores, sign='+')}, {words}"
    ax.plot([], [], " ", label=words)
    if style.BOUND in result.metrics:
        bound = float(result.metrics[style.BOUND])
        words = f"none ({style.NO_BOUND})" if np.isnan(bound) else rounded_down(bound)
        ax.plot([], [], " ", label=f"{style.label_of(result, style.BOUND)}: {words}")
    return style.finish(ax, result, show, columns=1, legend=legend)


# --------------------------------------------------------------------- kinds of figures


#: How maps are drawn, by the fields of their axes.
_DRAW = {
    (): _plot_single,
    ("times",): _plot_time,
    ("train_times", "test_times"): plot_generalization,
    ("freqs", "times"): plot_time_frequency,
    ("ch_names", "times"): plot_sensors,
    ("vertices", "times"): plot_sources,
    ("positions",): plot_volume,
}


# ---------------------------------------------------------------- the null distribution


@style.draws_names
def plot_null_max(
    result,
    *,
    legend: bool = True,
    ax: Axes | None = None,
    show: bool = False,
    alpha: float | None = None,
) -> Axes:
    """Plot the largest statistic on the histogram of that of the permutations.

    Every second-level permutation counts with its most extreme statistic over all
    positions. Above the dashed line are the statistics with p <= alpha, corrected by
    the maximum over positions [1]_.

    Parameters
    ----------
    result : GroupResult or ComparisonResult
        The result to draw.
    legend : bool
        Draw the legend.
    ax : matplotlib Axes or None
        Where to draw; None makes a figure.
    show : bool
        Show the figure at once.
    alpha : float or None
        The level of the dashed line; None takes ``result.alpha``.

    Returns
    -------
    ax : matplotlib Axes
        The Axes drawn into.

    Raises
    ------
    ValueError
        If the test needed no permutations, or if `alpha` is not between 0 and 1.

    References
    ----------
    .. [1] Nichols, T. E., & Holmes, A. P. (2002). Nonparametric permutation tests for
       functional neuroimaging. Human Brain Mapping, 15(1), 1-25.

    Examples
    --------
    >>> import matplotlib
    >>> matplotlib.use("Agg")
    >>> import numpy as np
    >>> from mvpa_kfda import decode_arrays, group_inference
    >>> from mvpa_kfda.viz.group import plot_null_max
    >>> rng = np.random.default_rng(0)
    >>> y = rng.permutation(["face", "house"] * 10)
    >>> results = [decode_arrays(rng.normal(size=(20, 4, 3)), y) for _ in range(6)]
    >>> group = group_inference(results, "sign-flip", random_state=0)
    >>> plot_null_max(group).get_xlabel()
    't over subjects, maximum over positions'
    """
    alpha = result.alpha if alpha is None else alpha
    style.check_request(result, None, "none", alpha)
    null = result.null_max
    if len(null) == 0:
        advice = f". Run {result.made_by} again with correction='max', which needs them"
        raise ValueError(
            "There is no null distribution to plot: for this result no permutations "
            f"were drawn{'' if result.method == 'i-test' else advice}."
        )
    observed = result.observed_max
    p = float(against_maximum(observed, null, null.dtype))
    if "max" in result.p_maps:
        p = float(np.nanmin(result.p_maps["max"]))
    draws = plural(result.draw_noun)
    ax = style.axes_or_new(ax, figsize=(6.0, 4.0))

    def word(score):
        return style.with_null(result, f"{score:.3g}")

    if not draw_null(ax, null, draws, alpha, word):
        drawn = counted(len(null), result.draw_noun, ",")
        label = f"p ≤ {alpha:g} is not attainable with {drawn}"
        ax.plot([], [], " ", label=style.with_null(result, label))
    words = style.with_null(result, f"observed, {observed:.3g} ({p_words(p)})")
    ax.axvline(observed, color=style.SCORE_COLOR, lw=2.2, label=words)
    label = style.label_of(result, "statistic")
    if result.alternative == "less":
        label = f"minus {label}"
    elif result.alternative == "two-sided":
        label = f"|{label}|"
    over = ", maximum over positions" if result.places.n_positions > 1 else ""
    xlabel = style.fit_label(f"{label}{over}", style.inches_of(ax)[0])
    ax.set(xlabel=xlabel, ylabel=draws.capitalize())
    return style.finish(ax, result, show, legend=legend)


# ---------------------------------------------------------------------------- latencies


#: Colors of the bands of onset and peak, other than that of the course.
BANDS = {"onset": "#E69F00", "peak": "#CC79A7"}  # orange, reddish purple

OUTSIDE_COLOR = "#EEEEEE"  # of times that were not searched


@style.draws_names
def plot_latency(
    latency, *, legend: bool = True, ax: Axes | None = None, show: bool = False
) -> Axes:
    """Plot a mean over subjects, with the intervals of onset and peak.

    Onset and peak are marked on the course, and their intervals are bands. Times
    outside of the window that was searched are gray. A difference shows both courses,
    and below them the intervals of each as bars in its color; those of the difference
    are in the title.

    Parameters
    ----------
    latency : Latency
        What `bootstrap_latency` returns.
    legend : bool
        Draw the legend.
    ax : matplotlib Axes or None
        Where to draw; None makes a figure.
    show : bool
        Show the figure at once.

    Returns
    -------
    ax : matplotlib Axes
    """
    courses = latency.parts or (latency,)
    ax = style.axes_or_new(ax, figsize=(7.0, 4.6 if latency.parts else 4.2))
    if latency.parts:
        colors = style.SCORE_COLOR, OTHER_COLOR
        for course, color, name in zip(courses, colors, latency.labels, strict=True):
            _draw_course(ax, course, color, f"{name}, ")
        _draw_bars(ax, courses, colors)
    else:
        _draw_course(ax, latency, style.SCORE_COLOR)
        level = f"{100 * latency.confidence:g} % interval"
        for which, _, ends in _latencies(latency):
            # The edges show an interval of any width, also of none.
            shade, ls = BANDS[which], _MARKERS[which][1]
            band = {"fc": (shade, 0.2), "ec": shade, "ls": ls, "lw": 0.8}
            ax.axvspan(*ends, label=f"{which}, {level}", zorder=1.5, **band)
    style.draw_chance(ax, latency.chance, latency.metric)
    for course in courses:
        style.draw_permuted(ax, course.permuted_mean, latency.metric)
    edges = np.concatenate([style.sample_edges(course.times) for course in courses])
    ax.set_xlim(edges.min(), edges.max())
    if edges.min() <= 0 <= edges.max():
        ax.axvline(0, color="black", lw=0.8, zorder=1, label="0 s")
    _draw_window(ax, courses[0])
    ax.set(xlabel=AXES["times"].label, ylabel=style.metric_label(latency.metric))
    title = [" minus ".join(latency.labels)] if latency.parts else []
    title = "\n".join([*title, ", ".join(latency.worded())])
    ax.set_title(title, fontsize="medium", loc="left")
    ax.spines[["top", "right"]].set_visible(False)
    if legend:
        style.add_legend(ax)
    return style.maybe_show(ax, show)


#: Latency -> its marker, and the edge of its band.
_MARKERS = {"onset": ("o", "-"), "peak": ("D", "--")}


def _latencies(course):
    """Yield name, time, and both ends of the interval of the latencies there are."""
    for which in _MARKERS:
        time, ends = course.when(which)
        if not np.isnan(time):
            yield which, time, ends


def _draw_course(ax, course, color, name=""):
    """Draw a course with its latencies on it."""
    label = f"{name}mean of {course.n_subjects} subjects"
    ax.plot(course.times, course.mean, color=color, lw=1.8, label=label, zorder=3)
    for which, time, _ in _latencies(course):
        height = np.interp(time, course.times, course.mean)
        shade = color if name else BANDS[which]
        look = {"color": shade, "mec": "white", "ms": 7, "zorder": 4}
        ax.plot([time], [height], _MARKERS[which][0], **look)


#: Shares of the height: from row to row of intervals, and between two latencies.
_ROW, _GAP = 0.045, 0.03


def _draw_bars(ax, courses, colors):
    """Draw the intervals of two courses as bars, in rows below the courses."""
    share = 2 * len(courses) * _ROW + 2 * _GAP
    low, high = ax.get_ylim()
    ax.set_ylim(low - share / (1 - share) * (high - low), high)
    across = {"transform": ax.get_xaxis_transform(), "zorder": 3}
    first = dict(zip(_MARKERS, (share - _GAP, share / 2 - _GAP / 2), strict=True))
    label = f"{100 * courses[0].confidence:g} % interval of onset or peak"
    for row, (course, color) in enumerate(zip(courses, colors, strict=True)):
        for which, time, ends in _latencies(course):
            height = first[which] - row * _ROW
            look = {"color": color, "solid_capstyle": "butt", "lw": 6, "alpha": 0.4}
            ax.plot(ends, [height] * 2, **look, **across)
            ax.plot([time], [height], "|", color=color, ms=9, mew=1.8, **across)
    ax.plot([], [], color="black", lw=6, alpha=0.3, label=label)
    for which, height in first.items():
        place = {"transform": ax.transAxes, "va": "center", "fontsize": "small"}
        ax.text(0.01, height - _ROW / 2, which, **place)


def _draw_window(ax, course):
    """Gray out what was not searched."""
    if course.window is None:
        return
    (left, right), (first, last) = ax.get_xlim(), course.window
    label = f"not searched (window {first:g} to {last:g} s)"
    outside = (
        (left, first, first > course.times[0]),
        (last, right, last < course.times[-1]),
    )
    for start, end, holds_samples in outside:
        if holds_samples:
            ax.axvspan(start, end, fc=OUTSIDE_COLOR, lw=0, zorder=0.5, label=label)
            label = None  # once in the legend


# ------------------------------------------------------------- shares of a population


@style.draws_names
def plot_shares(
    shares, *, legend: bool = True, ax: Axes | None = None, show: bool = False
) -> Axes:
    """Plot shares of people with an effect, over time or a single one.

    A line is the most probable share, a band the interval of the highest density, and a
    dashed line the lower bound. A dotted line is where the majority begins; of a
    difference of two shares, where there is none. Each time point stands for itself.

    Parameters
    ----------
    shares : Prevalence or PrevalenceDifference
        The shares.
    legend : bool
        Draw the legend.
    ax : matplotlib Axes or None
        Where to draw; None makes a figure.
    show : bool
        Show the figure at once.

    Returns
    -------
    ax : matplotlib Axes
        The Axes drawn into.

    Raises
    ------
    ValueError
        If the shares are of a map other than a time course.
    """
    over_time = [*shares.places.axes] == ["times"]
    if shares.shape and not over_time:
        raise ValueError(
            f"Proportions at {shares.places.describe()} cannot be plotted, only time "
            "courses and single numbers. Use to_dataframe()."
        )
    ax = style.axes_or_new(ax, figsize=(7.0, 4.2) if over_time else (5.0, 4.2))
    edges = style.sample_edges(shares.times) if over_time else np.array([-0.5, 0.5])
    low, high, mode, bound = map(
        np.atleast_1d, (shares.low, shares.high, shares.mode, shares.bound)
    )
    percent = f"{100 * shares.confidence:g} %"
    words = "difference" if shares.is_difference else "proportion"
    band = {"baseline": low, "fill": True, "alpha": 0.3, "lw": 0}
    interval = f"{percent} interval"
    ax.stairs(high, edges, color=style.SCORE_COLOR, label=interval, zorder=2, **band)
    line = {"baseline": None, "color": style.SCORE_COLOR, "zorder": 3}
    ax.stairs(mode, edges, lw=1.8, label=f"most probable {words}", **line)
    ax.stairs(bound, edges, lw=1.2, ls="--", label=f"{percent} lower bound", **line)
    if shares.is_difference:
        style.draw_once(ax, 0.0, label="no difference", **DOTTED)
        ax.set(ylim=(-1, 1), ylabel="Difference in the proportion of people")
    else:
        style.draw_once(ax, 0.5, label="majority (0.5)", **DOTTED)
        ax.set(ylim=(0, 1), ylabel="Proportion of people with an effect")
    if over_time:
        finish_times([ax], shares.times)
    else:
        ax.set_xticks([])
        ax.spines[["top", "right"]].set_visible(False)
    if legend:
        style.add_legend(ax)
    return style.maybe_show(ax, show)
