"""Figures of null distributions: of a single score, and of the largest one of a map.

Matplotlib is imported by the helpers only, so that decoding never loads it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ..inference.null import ALTERNATIVES, Alternative, NullSummary
from ..utils.checks import check_flag, check_option, check_share, check_text
from ..utils.rounding import p_words, rounded
from . import style
from .time import repeats_of, word_repeats

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.typing import ColorType


@style.draws_names
def plot_null(
    result,
    *,
    metric: str | None = None,
    alternative: Alternative = "greater",
    repeats: bool = False,
    color: ColorType | None = None,
    label: str | None = None,
    legend: bool = True,
    ax: Axes | None = None,
    show: bool = False,
) -> Axes:
    """Plot a score on the histogram of its label permutations.

    Parameters
    ----------
    result : DecodingResult
        The result to draw.
    metric : str or None
        Name of the metric; None takes the first.
    alternative : {"greater", "less", "two-sided"}
        Which scores are tested for, as in `pvalues`.
    repeats : bool
        Draw the score of every repeat as a short line, too.
    color : color of matplotlib or None
        Color of the line of the score; None takes one that the Axes do not have yet.
    label : str or None
        What the legend calls the score; None takes "observed".
    legend : bool
        Draw the legend.
    ax : matplotlib Axes or None
        Where to draw; None makes a figure. Axes may hold several results.
    show : bool
        Show the figure at once.

    Returns
    -------
    ax : matplotlib Axes
        The Axes drawn into.

    Raises
    ------
    ValueError
        If the result has no permutations, the metric is not one number, the
        alternative or the color is unknown, or there are no repeats to be drawn.

    Examples
    --------
    >>> import matplotlib
    >>> matplotlib.use("Agg")
    >>> import numpy as np
    >>> from mvpa_kfda import cross_validate
    >>> from mvpa_kfda.viz.null import plot_null
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(40, 5))
    >>> y = rng.permutation(["cat", "dog"] * 20)
    >>> ax = plot_null(cross_validate(X, y, n_permutations=99, random_state=0))
    >>> ax.get_xlabel()
    'Accuracy'
    """
    metric = result.check_metric(metric)
    check_option("alternative", alternative, ALTERNATIVES)
    style.check_color(color)
    label = check_text("label", label)
    single = repeats_of(result, metric) if check_flag("repeats", repeats) else None
    p = float(result.p_of_map("none", metric, alternative=alternative))
    observed, null = result.metrics[metric], result.nulls[metric]
    ax = style.axes_or_new(ax, figsize=(6.0, 4.0))
    color = style.choose_color(ax, color)
    permuted = "permuted labels" if len(result.classes) else "permuted values"
    style.draw_histogram(ax, null, permuted, color)
    style.draw_chance(ax, result.chances[metric], metric, upright=True)
    style.draw_permuted(ax, result.permuted_mean(metric), metric, upright=True)
    side = style.ALTERNATIVE_LABELS.get(alternative)
    words = f"{p_words(p)}, {side}" if side else p_words(p)
    named = f"{label or 'observed'}, {rounded(observed)} ({words})"
    ax.axvline(observed, color=color, lw=2.2, label=named, gid=style.CURVE)
    if single is not None:
        low, high = rounded(single.min()), rounded(single.max())
        label_of = f"{word_repeats(single)}, {low} to {high}"
        # Equal scores lie on each other, and more of them are darker.
        look = {"color": color, "lw": 1.2, "alpha": 0.45, "zorder": 4}
        look |= {"label": label_of, "transform": ax.get_xaxis_transform()}
        ax.vlines(single, 0, 0.08, **look)
    ax.set(xlabel=style.metric_label(metric), ylabel="Permutations")
    return style.finish(ax, result, show, name=label, legend=legend)


@style.draws_names
def plot_map_null(
    result,
    *,
    metric: str | None = None,
    alpha: float = 0.05,
    legend: bool = True,
    ax: Axes | None = None,
    show: bool = False,
) -> Axes:
    """Plot the highest score of a map on the histogram of that of permuted maps.

    Every permutation counts with its highest score over all positions. Above the dashed
    line are the scores with p <= alpha, corrected by the maximum over positions [1]_.
    Cells of time generalization off the diagonal are tested against two null
    hypotheses, and both are drawn, with the observed score of the second where that is
    another one. Of a single position, the score is on the histogram of its
    permutations.

    Parameters
    ----------
    result : TimeResult
        The result to draw, or another one with label permutations.
    metric : str or None
        Name of the metric; None takes the first.
    alpha : float
        The level of the dashed line.
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
        If the result has no permutations, if the metric is not one number per
        position, or if `alpha` is not between 0 and 1.

    References
    ----------
    .. [1] Nichols, T. E., & Holmes, A. P. (2002). Nonparametric permutation tests for
       functional neuroimaging. Human Brain Mapping, 15(1), 1-25.

    Examples
    --------
    >>> import matplotlib
    >>> matplotlib.use("Agg")
    >>> from mvpa_kfda import decode_epochs, simulate_epochs
    >>> from mvpa_kfda.viz.null import plot_map_null
    >>> epochs = simulate_epochs(n_trials=30)
    >>> result = decode_epochs(epochs, step=0.1, cv=5, n_permutations=99)
    >>> plot_map_null(result).get_xlabel()
    'Accuracy, maximum over positions'
    """
    metric = result.check_metric(metric)
    check_share("alpha", alpha)
    p = np.asarray(result.p_of_map("max", metric))
    if np.isnan(p).all():
        raise ValueError("There is nothing to plot: no position has a score.")
    observed = np.nanmax(result.metrics[metric])
    tests = result.kept_tests(metric)
    ax = style.axes_or_new(ax, figsize=(6.0, 4.0))
    permuted = "permuted labels" if len(result.classes) else "permuted values"
    names = [permuted, "permuted labels of the training trials alone"]
    of_second = style.COLORS[4]
    shades = (style.SCORE_COLOR, style.SIGNIFICANT_COLOR), (of_second, of_second)
    for test, name, colors in zip(tests, names, shades, strict=False):
        draw_null(ax, largest_scores(test.null), name, alpha, rounded, *colors)
    label = f"observed, {rounded(observed)} ({p_words(np.nanmin(p))})"
    ax.axvline(observed, color=style.SCORE_COLOR, lw=2.2, label=label)
    if len(tests) > 1 and not np.array_equal(tests[1].scores, tests[0].scores):
        second = np.nanmax(tests[1].scores)
        label = f"observed in the second test, {rounded(second)}"
        ax.axvline(second, color=of_second, lw=2.2, label=label)
    over = ", maximum over positions" if result.places.n_positions > 1 else ""
    ax.set(xlabel=f"{style.metric_label(metric)}{over}", ylabel="Permutations")
    return style.finish(ax, result, show, legend=legend)


def draw_null(
    ax, null, name, alpha, word, color=style.SCORE_COLOR, line=style.SIGNIFICANT_COLOR
):
    """Draw a null (P,) and from where on p <= alpha; whether that is in reach."""
    style.draw_histogram(ax, null, name, color)
    bound = quantile_of(null, alpha)
    if bound is not None:
        label = f"p ≤ {alpha:g} above {word(bound)}"
        ax.axvline(bound, label=label, color=line, lw=1.4, ls="--")
    return bound is not None


def largest_scores(null):
    """The largest score of every permuted map, (P,)."""
    if isinstance(null, NullSummary):
        return null.maximum
    # Ignores NaN as np.nanmax does, but needs no copy of the null.
    return np.fmax.reduce(null, axis=tuple(range(1, null.ndim)))


def quantile_of(null, alpha):
    """What a score must surpass for p <= alpha; None if that is out of reach."""
    # p = (1 + b) / (1 + P) <= alpha, if no more than b of the null are as large.
    b = min(int(np.floor(alpha * (len(null) + 1) + 1e-9)), len(null)) - 1
    return None if b < 0 else float(np.sort(null)[::-1][b])
