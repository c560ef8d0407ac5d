"""What all figures share: checks, words, marks of significance, axes and legends.

Matplotlib is imported inside the functions, so that decoding never loads it. The
colors are Okabe and Ito's, which color-blind readers tell apart.
"""

import textwrap

import numpy as np

from ..inference.corrections import CORRECTIONS, smallest_p_value
from ..metrics import find_metric, metric_limits
from ..utils.checks import check_finite, check_share, counted

SCORE_COLOR = "#0072B2"  # blue
SIGNIFICANT_COLOR = "#D55E00"  # vermilion
NULL_COLOR = "#BBBBBB"

LEGEND = {"frameon": False, "fontsize": "small"}


# -------------------------------------------------------------------- what is asked for


def check_request(result, metric, correction, alpha):
    """Check what is to be drawn; return the names of the metric and the correction."""
    check_share("alpha", alpha)
    return result._scalar_metric(metric), result._correction(correction)


def shown_metric(result, metric):
    """Return the name of a metric with one number per position, the first if None."""
    return result._scalar_metric(metric or (result._scalars or result.scoring)[0])


def find_marked(result, metric, correction, alpha, threshold):
    """Return what is significant, or what scores as much, and p-values that tell."""
    if threshold is not None:
        return result.metrics[metric] >= check_finite("threshold", threshold), None
    if not result._has_p:
        raise ValueError(
            "This result has no label permutations, so nothing is significant. Give "
            "the lowest score that counts, e.g. threshold=0.6, or run the analysis "
            "again with n_permutations=1000 or so."
        )
    p = result._p_for_plot(correction, metric)
    return p <= alpha, p


# -------------------------------------------------------------------------------- words


#: The map of the largest share of people that surely have the effect.
BOUND = "gamma_0"

#: Why there is none somewhere. Corrected, this is a little stricter than what rejects
#: the global null hypothesis.
NO_BOUND = "a prevalence of 0 is not rejected"

#: The names of two lists of results that nobody gave others.
DEFAULT_NAMES = ("first", "second")


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
    known = find_metric(metric)
    return known.label if known else metric.replace("_", " ").capitalize()


def label_of(result, metric):
    """Return the name of a result's map as an axis shows it."""
    if metric == BOUND:
        return "Prevalence bound γ₀"
    if metric == "statistic" and metric in result.metrics:
        labels = {"score": score_label(result), "difference": difference_label(result)}
        return result._statistic_label.format(**labels)
    if not result._is_difference:
        return metric_label(metric)
    for ending in ("_a", "_b"):
        if metric.endswith(ending) and metric != result.metric:
            return f"{metric_label(metric[:-2])} of {ending[1:]}"
    return difference_label(result)


def score_label(result):
    """Return the name of the scores, also where the result is of differences."""
    return metric_label(result.metric.removesuffix("_difference"))


def difference_label(result):
    """Return the name of differences, which says of what."""
    first, second = result._compared
    return f"{score_label(result)}, {first} - {second}"


def names_of_two(result):
    """Return what the two groups or conditions are called in legends."""
    if tuple(result.labels) != DEFAULT_NAMES:
        return tuple(result.labels)
    noun = "condition" if result.paired else "group"
    return tuple(f"{name} {noun}" for name in DEFAULT_NAMES)


def with_null(result, words):
    """Add the null hypothesis to words about p-values, where there are several."""
    several = getattr(result, "method", None) == "prevalence"
    return f"{words}, global null" if several else words


def limits_of(result):
    """Return the smallest and the largest value that scores can have."""
    return metric_limits(result.metric)


def level_of(result, metric):
    """Return what the level is called at which there is no effect."""
    if metric == "statistic":
        return "no effect"
    about_both = result._is_difference and metric == result.metric
    return "no difference" if about_both else "chance"


def describe(result):
    """Word what the scores were computed from."""
    return ", ".join(result._title())


# ------------------------------------------------------------------------- significance


#: What corrections are called; the last one is for results of groups only.
CORRECTION_LABELS = {
    **{name: correction.label for name, correction in CORRECTIONS.items()},
    "cluster-fdr": "FDR correction of clusters",
}


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
    label = f"p ≤ {alpha:g} ({CORRECTION_LABELS[correction]})"
    if (p <= alpha).any():
        return label
    # Without permutations, p is that of a distribution, and can be as small as any.
    reachable = smallest_p_value(n_permutations, p.size, correction)
    if n_permutations and reachable > alpha:
        drawn = counted(n_permutations, "permutation", ",")
        return f"{label} is out of reach with {drawn}"
    return f"no {position} at {label}"


# --------------------------------------------------------------------------------- Axes


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


#: What the band of the permutations' scores is called.
NULL_BAND = "95 % of the permutations (2.5 to 97.5 %)"


def draw_histogram(ax, null, label):
    """Draw how often each score came out of the permutations (P,)."""
    style = {"color": NULL_COLOR, "edgecolor": "white", "lw": 0.4}
    ax.hist(null, bins=histogram_edges(null), label=label, **style)


def histogram_edges(values):
    """Return edges (n_bins + 1,) of bins that hold equally many possible scores."""
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
        ax.axvline(0, color="black", lw=0.8, zorder=1, label="onset (0 s)")
    left, right = sample_edges(times)[[0, -1]]
    ax.set(xlabel="Time (s)", xlim=(left, right))


def sample_edges(times):
    """Return the n + 1 borders halfway between samples."""
    if len(times) == 1:  # no neighbor tells how long a sample is
        return times[0] + np.array([-0.005, 0.005])
    middle = (times[:-1] + times[1:]) / 2
    return np.concatenate(
        [[2 * times[0] - middle[0]], middle, [2 * times[-1] - middle[-1]]]
    )


#: Share of the height that is kept free below the curve for the bars of significance.
BAR_ROOM = 0.12


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


def significant_spans(times, significant):
    """Return start and end (n_spans, 2) of contiguous significant samples."""
    flags = np.concatenate([[0], np.asarray(significant, dtype=int), [0]])
    change = np.diff(flags)
    edges = sample_edges(np.asarray(times, dtype=float))
    return np.column_stack([edges[:-1][change[:-1] == 1], edges[change == -1]])


#: Characters of the title that fit on an inch.
TITLE_DENSITY = 15

#: Inches of width that two columns of the legend need.
TWO_COLUMNS = 3.0


def finish(ax, result, show, handles=None, note="", columns=2):
    """Add the title with a note and the legend of what has a label, or of handles."""
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
    return maybe_show(ax, show)


def set_title(ax, result, note=""):
    """Write above the Axes what the scores were computed from, and a note below it."""
    # Lines are as long as the Axes is wide, and break at commas only.
    glued = describe(result).replace(" ", "\xa0").replace(",\xa0", ", ")
    width = max(30, int(TITLE_DENSITY * _width(ax)))
    lines = textwrap.wrap(glued, width, break_on_hyphens=False)
    title = "\n".join([*lines, note]).replace("\xa0", " ").strip()
    ax.set_title(title, loc="left", fontsize="medium")


def _width(ax):
    """Return the width of an Axes in inches."""
    figure = ax.figure
    return ax.get_position().width * figure.bbox.width / figure.dpi


def maybe_show(drawn, show):
    """Show the figure if asked to; return what was drawn."""
    if show:
        import matplotlib.pyplot as plt

        plt.show()
    return drawn
