"""Figures of scores over time and of null distributions, and their curves.

The curves and dots of groups and comparisons are drawn into given Axes. Matplotlib is
imported by the helpers only, so that decoding never loads it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from scipy import stats

from ..inference.corrections import CorrectionName
from .common import (
    BOUND,
    NO_BOUND,
    NULL_BAND,
    NULL_COLOR,
    SCORE_COLOR,
    axes_or_new,
    check_request,
    draw_bars,
    draw_chance,
    draw_histogram,
    finish,
    label_of,
    label_times,
    level_of,
    limits_of,
    metric_label,
    names_of_two,
    sample_edges,
    score_label,
    significance_label,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

OTHER_COLOR = "#009E73"  # bluish green: the second group, condition or result
DIFFERENCE_COLOR = "#882255"  # wine: neither of the two
SUBJECT_COLOR = "#999999"

INTERVAL_LABEL = "95 % t interval of the mean"

DIFFERENCE_INTERVAL_LABEL = "95 % t interval of the difference, pooled variance"


def plot_time(
    result,
    *,
    metric: str | None = None,
    correction: CorrectionName = "max",
    alpha: float = 0.05,
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
        If `alpha` is not between 0 and 1, the metric or the correction is unknown,
        or the metric is not one number per time point.

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
    metric, correction = check_request(result, metric, correction, alpha)
    times, scores = result.times, result.metrics[metric]
    null = result.nulls.get(metric, ())
    # Before the figure is made, which an error would leave behind empty.
    p = result.pvalues(correction, metric=metric) if len(null) else None
    ax = axes_or_new(ax, figsize=(7.0, 4.2))
    # In the order of the legend; zorder decides what lies on top.
    ax.plot(
        times,
        scores,
        color=SCORE_COLOR,
        lw=1.8,
        zorder=3,
        label=metric_label(metric),
        marker="o" if len(times) == 1 else None,
    )
    draw_chance(ax.axhline, result.chances[metric], metric)
    if p is not None:
        low, high = np.percentile(null, [2.5, 97.5], axis=0)
        across = times
        if len(times) == 1:  # a band of its own width instead of none
            across, low, high = sample_edges(times), low.repeat(2), high.repeat(2)
        ax.fill_between(
            across, low, high, color=NULL_COLOR, alpha=0.55, lw=0, label=NULL_BAND
        )
        label = significance_label(p, alpha, correction, len(null), "time point")
        draw_bars(ax, times, p <= alpha, label)
    label_times(ax, times)
    ax.set_ylabel(metric_label(metric))
    return finish(ax, result, show)


def plot_null(
    result, *, metric: str | None = None, ax: Axes | None = None, show: bool = False
) -> Axes:
    """Plot a score on the histogram of its label permutations.

    Parameters
    ----------
    result : DecodingResult
        The result to draw.
    metric : str or None
        Name of the metric; None takes the first.
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
        If the result has no permutations, or the metric is not one number.

    Examples
    --------
    >>> import matplotlib
    >>> matplotlib.use("Agg")
    >>> import numpy as np
    >>> from mvpa_kfda import cross_validate
    >>> from mvpa_kfda.viz.time import plot_null
    >>> X = np.random.default_rng(0).normal(size=(40, 5))
    >>> y = np.repeat(["cat", "dog"], 20)
    >>> ax = plot_null(cross_validate(X, y, n_permutations=99, random_state=0))
    >>> ax.get_xlabel()
    'Accuracy'
    """
    metric = result._scalar_metric(metric)
    observed, p = result.metrics[metric], result.pvalues(metric=metric)
    null = result.nulls[metric]
    ax = axes_or_new(ax, figsize=(6.0, 4.0))
    permuted = "permuted labels" if len(result.classes) else "permuted values"
    draw_histogram(ax, null, permuted)
    draw_chance(ax.axvline, result.chances[metric], metric)
    ax.axvline(
        observed,
        color=SCORE_COLOR,
        lw=2.2,
        label=f"observed, {observed:.3f} (p = {p:.2g})",
    )
    ax.set(xlabel=metric_label(metric), ylabel="Permutations")
    return finish(ax, result, show)


# --------------------------------------------------------------- groups and their means


def samples_of(result):
    """Return the scores, the color and a name of every group or condition."""
    scores, n = result.subject_scores, len(result.subject_scores)
    if result.other_scores is None:
        return [(scores, SCORE_COLOR, f"mean of {n} subjects")]
    sizes = n, len(result.other_scores)
    names = [
        f"{name}, mean of {size} subjects"
        for name, size in zip(names_of_two(result), sizes, strict=True)
    ]
    both = (scores, result.other_scores), (SCORE_COLOR, OTHER_COLOR), names
    return list(zip(*both, strict=True))


def pair_of(result):
    """Return the scores, the color and the name of each of two compared results."""
    return [
        (result.scores_a, SCORE_COLOR, "result a"),
        (result.scores_b, OTHER_COLOR, "result b"),
    ]


def mean_interval(scores):
    """Return the mean over subjects and the two ends of its 95 % t interval."""
    scores = np.asarray(scores, dtype=float)
    n, mean = len(scores), scores.mean(axis=0)
    if n < 2:
        return mean, np.full_like(mean, np.nan), np.full_like(mean, np.nan)
    error = scores.std(axis=0, ddof=1) / np.sqrt(n)
    half = stats.t.ppf(0.975, n - 1) * error
    return mean, mean - half, mean + half


def difference_interval(scores, others):
    """Return the difference of two means and the two ends of its 95 % t interval."""
    # That of Student's t with the pooled variance, as in the test of two groups: it
    # leaves out 0 where the two-sided p-value of "t", uncorrected, is below 0.05.
    groups = [np.asarray(group, dtype=float) for group in (scores, others)]
    sizes = [len(group) for group in groups]
    difference = groups[0].mean(axis=0) - groups[1].mean(axis=0)
    free = sum(sizes) - 2
    if free < 1:
        nothing = np.full_like(difference, np.nan)
        return difference, nothing, nothing
    squares = sum(len(group) * group.var(axis=0) for group in groups)
    error = np.sqrt(squares / free * sum(1 / n for n in sizes))
    half = stats.t.ppf(0.975, free) * error
    return difference, difference - half, difference + half


# ---------------------------------------------------------------------------- over time


def draw_groups(ax, result):
    """Draw the mean of the subjects, its interval, and the subjects as thin lines."""
    samples, times = samples_of(result), result.times
    for scores, color, name in samples:
        draw_curve(ax, times, scores.mean(axis=0), color, name)
    # How far two means are apart for sure is a matter of their difference; intervals
    # of the single means would mislead.
    if not result._is_difference:
        _draw_band(ax, times, mean_interval(result.subject_scores), limits_of(result))
        _draw_subjects(ax, times, result.subject_scores)
    draw_level(ax.axhline, result)


def draw_differences(ax, result):
    """Draw the difference of two means with its interval, and those of all pairs."""
    times, (low, high) = result.times, limits_of(result)
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
        _draw_subjects(ax, times, differences)
    draw_chance(ax.axhline, 0.0, level=level_of(result, result.metric))


def draw_pair(ax, result):
    """Draw the two curves whose difference was tested."""
    for scores, color, name in pair_of(result):
        draw_curve(ax, result.times, scores, color, name)
    draw_level(ax.axhline, result)


def draw_map_curve(ax, result, metric):
    """Draw any map of a result as a curve over time."""
    name, between = label_of(result, metric), result._is_difference
    color = DIFFERENCE_COLOR if between and metric == result.metric else SCORE_COLOR
    draw_curve(ax, result.times, result.metrics[metric], color, name)
    level = level_of(result, metric)
    draw_chance(ax.axhline, result.chances[metric], level=level)


def draw_curve(ax, times, values, color, name, **style):
    """Draw a thick line over time; a single time point is a dot."""
    marker = "o" if len(times) == 1 else None
    style = {"color": color, "lw": 1.8, "zorder": 3, "marker": marker} | style
    ax.plot(times, values, label=name, **style)


def _draw_band(ax, times, interval, limits, color=SCORE_COLOR, label=INTERVAL_LABEL):
    """Draw an interval over time, as far as scores go."""
    low, high = (np.clip(end, *limits) for end in interval[1:])
    across = times
    if len(times) == 1:  # a band of its own width instead of none
        across, low, high = sample_edges(times), low.repeat(2), high.repeat(2)
    style = {"color": color, "alpha": 0.25, "lw": 0, "zorder": 2.5}
    ax.fill_between(across, low, high, label=label, **style)


def _draw_subjects(ax, times, scores):
    """Draw every subject as a thin line."""
    lines = ax.plot(
        times,
        scores.T,
        color=SUBJECT_COLOR,
        lw=0.7,
        # Many lines would hide each other, and the mean.
        alpha=float(np.clip(6 / len(scores), 0.12, 0.6)),
        zorder=1.2,
        marker="." if len(times) == 1 else None,
    )
    lines[0].set_label("subjects")


def draw_level(draw_line, result):
    """Draw the chance level of the scores, also where their difference was tested."""
    if result._is_difference:
        draw_chance(draw_line, result.score_chance)
    else:
        draw_chance(draw_line, result.chance, result.metric)


def draw_bound(ax, result):
    """Draw the prevalence bound as steps from 0 to 1, and where the majority begins."""
    edges, bound = sample_edges(result.times), result.metrics[BOUND]
    style = {"color": SCORE_COLOR, "zorder": 2}
    # Without a bound nothing is drawn: a step of no height, and no line.
    ax.stairs(np.nan_to_num(bound), edges, fill=True, alpha=0.3, lw=0, **style)
    ax.stairs(
        bound, edges, baseline=None, lw=1.8, label=label_of(result, BOUND), **style
    )
    ax.axhline(0.5, color="black", lw=0.9, ls=":", zorder=1.5, label="majority (0.5)")
    if np.isnan(bound).all():
        ax.plot([], [], " ", label=f"no bound ({NO_BOUND})")
    ax.set(ylim=(0, 1), yticks=[0, 0.5, 1], ylabel="Bound γ₀")


def finish_times(axes, times):
    """Draw the onset into Axes that share their times, and name the times below."""
    left, right = sample_edges(times)[[0, -1]]
    for ax in axes:
        if left <= 0 <= right:
            ax.axvline(0, color="black", lw=0.8, zorder=1)
        ax.set_xlim(left, right)
        ax.spines[["top", "right"]].set_visible(False)
    if left <= 0 <= right:
        axes[0].lines[-1].set_label("onset (0 s)")
    axes[-1].set_xlabel("Time (s)")


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
        label = f"{name}, {mean:.3f}"
        if len(scores) > 1:
            label += f" (95 % t interval {low:.3f} to {high:.3f})"
        ends = np.clip([low, high], *limits_of(result))
        ax.vlines(x, *ends, color=color, lw=2.2, zorder=3)
        ax.plot(x, mean, "s", color=color, ms=7, zorder=3, label=label)
        dots = {"color": color, "ms": 5, "mew": 0, "alpha": 0.6, "zorder": 2}
        ax.plot(places[column], scores, "o", **dots)
    if paired:
        pairs = np.stack([scores for scores, *_ in samples])
        ax.plot(np.stack(places), pairs, color=SUBJECT_COLOR, lw=0.7, zorder=1)
    draw_level(ax.axhline, result)
    names = [f"{len(scores)} subjects" for scores, *_ in samples]
    if len(samples) == 2:
        names = names_of_two(result)
    ax.set_xticks(range(len(samples)), names)
    ax.set(xlim=(-0.6, len(samples) - 0.4), ylabel=score_label(result))


def spread(values):
    """Return how far (n,) dots are beside the middle, so that none hides another."""
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
    pair = pair_of(result)
    heights = [float(scores) for scores, *_ in pair]
    ax.plot([0, 1], heights, color=SUBJECT_COLOR, lw=1.2, zorder=1)
    for column, (_, color, name) in enumerate(pair):
        label = f"{name}, {heights[column]:.3f}"
        ax.plot(column, heights[column], "o", color=color, ms=8, label=label)
    draw_level(ax.axhline, result)
    ax.set_xticks([0, 1], [name for *_, name in pair])
    ax.set(xlim=(-0.6, 1.6), ylabel=score_label(result))
