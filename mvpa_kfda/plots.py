"""Figures of results. Each function draws into one Axes and returns it."""

import numpy as np

from ._figures.common import (
    NULL_COLOR,
    SCORE_COLOR,
    axes_or_new,
    check_request,
    draw_bars,
    draw_chance,
    finish,
    significance_label,
)
from ._figures.edges import histogram_edges, sample_edges
from ._figures.labels import metric_label


def plot_time(
    result, *, metric=None, correction="max", alpha=0.05, ax=None, show=False
):
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
    >>> from mvpa_kfda.plots import plot_time
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
        label = "95 % of the permutations (2.5 to 97.5 %)"
        across = times
        if len(times) == 1:  # a band of its own width instead of none
            across, low, high = sample_edges(times), low.repeat(2), high.repeat(2)
        ax.fill_between(
            across, low, high, color=NULL_COLOR, alpha=0.55, lw=0, label=label
        )
        label = significance_label(p, alpha, correction, len(null), "time point")
        draw_bars(ax, times, p <= alpha, label)
    if times[0] <= 0 <= times[-1]:
        ax.axvline(0, color="black", lw=0.8, zorder=1, label="onset (0 s)")
    left, right = sample_edges(times)[[0, -1]]
    ax.set(xlabel="Time (s)", ylabel=metric_label(metric), xlim=(left, right))
    return finish(ax, result, show)


def plot_null(result, *, metric=None, ax=None, show=False):
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
    >>> from mvpa_kfda.plots import plot_null
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
    ax.hist(
        null,
        bins=histogram_edges(null),
        color=NULL_COLOR,
        edgecolor="white",
        lw=0.4,
        label="permuted labels" if len(result.classes) else "permuted values",
    )
    draw_chance(ax.axvline, result.chances[metric], metric)
    ax.axvline(
        observed,
        color=SCORE_COLOR,
        lw=2.2,
        label=f"observed, {observed:.3f} (p = {p:.2g})",
    )
    ax.set(xlabel=metric_label(metric), ylabel="Permutations")
    return finish(ax, result, show)
