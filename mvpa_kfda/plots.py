"""Figures of results. Each function draws into one Axes and returns it.

Matplotlib is imported inside the functions, so that decoding never loads it. The
colors are Okabe and Ito's, which color-blind readers tell apart.
"""

import textwrap

import numpy as np

from ._checks import check_share
from ._edges import histogram_edges, sample_edges, significant_spans
from ._labels import BOUND, describe, metric_label, with_null
from .inference import check_correction, smallest_p_value

SCORE_COLOR = "#0072B2"  # blue
SIGNIFICANT_COLOR = "#D55E00"  # vermilion
NULL_COLOR = "#BBBBBB"

CORRECTION_LABELS = {
    "none": "uncorrected",
    "max": "max-statistic correction",
    "max-step-down": "step-down max correction",
    "bonferroni": "Bonferroni correction",
    "fdr": "FDR correction",
    "fdr-by": "FDR correction (BY)",
    "cluster": "cluster correction",
    "cluster-size": "cluster-size correction",
    "tfce": "TFCE correction",
}

# Of results of groups only.
GROUP_LABELS = {"cluster-fdr": "FDR correction of clusters"}

# Share of the height that is kept free below the curve for the bars of significance.
BAR_ROOM = 0.12

LEGEND = {"frameon": False, "fontsize": "small"}

# Characters of the title that fit on an inch.
TITLE_DENSITY = 15

# Inches of width that two columns of the legend need.
TWO_COLUMNS = 3.0


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


def check_request(result, metric, correction, alpha):
    """Check what is to be drawn; return the names of the metric and the correction."""
    check_share("alpha", alpha)
    # Results of groups have corrections of their own.
    known = getattr(result, "_correction", check_correction)
    return result._scalar_metric(metric), known(correction)


def axes_or_new(ax, figsize):
    """Return the Axes to draw into, those of a new figure if none are given."""
    if ax is not None:
        return ax
    import matplotlib.pyplot as plt

    return plt.subplots(figsize=figsize, layout="constrained")[1]


def draw_chance(draw_line, chance, metric=None, level="chance"):
    """Draw the chance level where the metric has one, and zero for R²."""
    if metric == "r2":
        label = "as good as the mean (0)"
        draw_line(0, color="black", lw=0.8, ls=":", zorder=1.5, label=label)
    if np.isfinite(chance):
        named = f"{level} ({chance:.3g})"
        draw_line(
            chance,
            color="black",
            lw=1.1,
            ls=(0, (5, 3)),
            zorder=2,
            label="no correlation" if metric == "pearsonr" else named,
        )


def draw_bars(ax, times, marked, label):
    """Draw bars under the marked samples, below everything else."""
    spans = significant_spans(times, marked)
    low, high = ax.get_ylim()
    ax.set_ylim(low - BAR_ROOM * (high - low), high)
    if len(spans) == 0:
        ax.plot([], [], " ", label=label)
        return
    ax.broken_barh(
        np.column_stack([spans[:, 0], np.diff(spans)[:, 0]]),
        (0.035, 0.03),
        transform=ax.get_xaxis_transform(),  # seconds across, share of the height up
        color=SIGNIFICANT_COLOR,
        lw=0,
        label=label,
    )


def marking(result, metric, correction, alpha, position):
    """Return where a map is marked, None without p-values, and the words for it."""
    if metric == BOUND:
        marked, label = result.metrics[metric] >= 0.5, "majority of people (γ₀ ≥ 0.5)"
        return marked, label if marked.any() else f"no {position} with a {label}"
    n = result.n_permutations
    if not result._has_p:
        return None, ""
    p = result._p_for_plot(correction, metric)
    counted = p[~np.isnan(p)]
    label = significance_label(counted, alpha, correction, n, position)
    return p <= alpha, with_null(result, label)


def significance_label(p, alpha, correction, n_permutations, position):
    """Word which p-values are marked, or why none is; `position` is what has one."""
    label = f"p ≤ {alpha:g} ({(CORRECTION_LABELS | GROUP_LABELS)[correction]})"
    if (p <= alpha).any():
        return label
    # Without permutations, p is that of a distribution, and can be as small as any.
    reachable = smallest_p_value(n_permutations, p.size, correction)
    if n_permutations and reachable > alpha:
        return f"{label} is out of reach with {n_permutations:,} permutations"
    return f"no {position} at {label}"


def set_title(ax, result, note=""):
    """Write what the scores were computed from above the Axes, and a note below it.

    Lines are as long as the Axes is wide, and break at commas only.
    """
    glued = describe(result).replace(" ", "\xa0").replace(",\xa0", ", ")
    width = max(30, int(TITLE_DENSITY * _width(ax)))
    lines = textwrap.wrap(glued, width, break_on_hyphens=False)
    title = "\n".join([*lines, note]).replace("\xa0", " ").strip()
    ax.set_title(title, loc="left", fontsize="medium")


def _width(ax):
    """Return the width of an Axes in inches."""
    figure = ax.figure
    return ax.get_position().width * figure.bbox.width / figure.dpi


def finish(ax, result, show, handles=None, note="", columns=2):
    """Add the title and the legend, and show the figure if asked to.

    The legend has the artists of the Axes that have a label, or those given, in so many
    columns if these fit. The note is the last line of the title.
    """
    set_title(ax, result, note)
    ax.spines[["top", "right"]].set_visible(False)
    ax.legend(
        handles=handles,
        loc="upper center",
        bbox_to_anchor=(0.5, 0),  # below the Axes, where it hides nothing ...
        borderaxespad=4.5,  # ... and below the axis label, in units of the font size
        ncols=columns if _width(ax) > TWO_COLUMNS else 1,
        **LEGEND,
    )
    return shown(ax, show)


def shown(ax, show):
    """Show the figure if asked to; return the Axes."""
    if show:
        import matplotlib.pyplot as plt

        plt.show()
    return ax
