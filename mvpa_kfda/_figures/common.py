"""What all figures share: colors, legends, checks, marks of significance.

Matplotlib is imported inside the functions, so that decoding never loads it. The
colors are Okabe and Ito's, which color-blind readers tell apart.
"""

import textwrap

import numpy as np

from .._checks import check_share
from ..inference import check_correction, smallest_p_value
from .edges import significant_spans
from .labels import BOUND, describe, with_null

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
