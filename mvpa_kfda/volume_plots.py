"""Figures of volume results: on slices, on a glass brain, on a surface, and as bars.

Matplotlib is imported inside the functions, so that decoding never loads it. Red is
above chance and blue below it; what is significant is outlined, or has another color.
"""

import textwrap
import warnings
from dataclasses import dataclass

import numpy as np

from ._checks import check_option
from ._figures import common
from ._figures.brains import plot_glass_brain, plot_slices, plot_surface
from ._figures.common import NULL_COLOR, SCORE_COLOR, SIGNIFICANT_COLOR
from ._figures.curves import INTERVAL_LABEL, mean_interval
from ._figures.labels import (
    BOUND,
    describe,
    is_difference,
    label_of,
    level_of,
    limits_of,
)
from ._figures.maps import colors_for
from ._peaks import find_marked
from ._results.volume_images import shown_metric

#: The kinds of figures, by the kind of space, and of the space that regions are in.
KINDS = {
    "volume": ("stat_map", "glass_brain"),
    "surface": ("surface",),
    "regions": ("bar",),
    "features": ("bar",),
}

#: The function that draws each kind of brain.
BRAINS = {
    "stat_map": plot_slices,
    "glass_brain": plot_glass_brain,
    "surface": plot_surface,
}

#: Above so many positions there is a curve instead of bars with names.
MOST_BARS = 40

BAND_LABEL = "95 % of the permutations (2.5 to 97.5 %)"

# Which ends of the colorbar are pointed: those that scores lie beyond.
EXTEND = {(0, 0): "neither", (1, 0): "min", (0, 1): "max", (1, 1): "both"}

# Where the colorbar is in a figure of brains: left, bottom, width, height.
_COLORBAR = (0.9, 0.22, 0.018, 0.56)


@dataclass(frozen=True)
class _Drawn:
    """What is drawn, all of it checked before there is a figure."""

    metric: str
    name: str  # of the metric, as the scale of the colors shows it
    values: np.ndarray
    chance: float
    level: str  # what chance is called
    marked: np.ndarray | None  # None without permutations or threshold
    label: str  # of what is outlined
    norm: object
    cmap: object


def plot_volume(
    result,
    kind=None,
    *,
    metric=None,
    correction="max",
    alpha=0.05,
    threshold=None,
    views=None,
    cut_coords=None,
    bg_img=None,
    vlim=None,
    cmap=None,
    show=False,
):
    """Plot the scores of a volume result.

    Parameters
    ----------
    result : VolumeResult
        The result to draw.
    kind, metric, correction, alpha, threshold : str or float or None
        As in `VolumeResult.plot`.
    views, cut_coords, bg_img, vlim, cmap : str or sequence or image or None
        As in `VolumeResult.plot`.
    show : bool
        Show the figure at once.

    Returns
    -------
    figure : matplotlib Figure
        Brains first, the colorbar last; or one Axes with bars or a curve.

    Raises
    ------
    ValueError
        If an argument is not valid, if nothing was decoded, or if the correction
        needs permutations that were not kept.
    """
    space = result.geometry
    kinds = KINDS[space.kind]
    if space.kind == "regions":
        kinds += KINDS[space.base.kind]
    kind = kinds[0] if kind is None else check_option("kind", kind, kinds)
    drawn = _prepare(result, metric, correction, alpha, threshold, vlim, cmap)
    if kind == "bar":
        figure = _plot_bars(result, drawn)
    else:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # what nilearn thinks of its own defaults
            figure = BRAINS[kind](result, drawn, views, cut_coords, bg_img)
        _finish_brains(figure, result, drawn, outlined=kind != "glass_brain")
    if show:
        import matplotlib.pyplot as plt

        plt.show()
    return figure


def _prepare(result, metric, correction, alpha, threshold, vlim, cmap):
    """Check the arguments and collect what is to be drawn."""
    metric = shown_metric(result, metric)
    metric, correction = common.check_request(result, metric, correction, alpha)
    values, chance = result.metrics[metric], result.chances[metric]
    decoded = result.decoded
    if not decoded.any():
        raise ValueError("There is nothing to plot: no position could be decoded.")
    name, noun = label_of(result, metric), result.geometry.noun
    if threshold is None:
        marked, label = common.marking(result, metric, correction, alpha, noun)
    else:
        marked, _ = find_marked(result, metric, correction, alpha, threshold)
        label = f"{name} ≥ {threshold:g}"
        label = label if marked.any() else f"no {noun} with {label}"
    norm, cmap = colors_for(values[decoded], chance, vlim, cmap)
    level = level_of(result, metric)
    return _Drawn(metric, name, values, chance, level, marked, label, norm, cmap)


def _finish_brains(figure, result, drawn, outlined):
    """Add the colorbar, the title, and the legend of an outline or of what is shown."""
    from matplotlib.cm import ScalarMappable
    from matplotlib.lines import Line2D

    low, high = drawn.norm.vmin, drawn.norm.vmax
    beyond = (drawn.values < low).any(), (drawn.values > high).any()
    bar = figure.colorbar(
        ScalarMappable(drawn.norm, drawn.cmap),
        cax=figure.add_axes(_COLORBAR),
        label=drawn.name,
        extend=EXTEND[beyond],
    )
    if low <= drawn.chance <= high:
        common.draw_chance(bar.ax.axhline, drawn.chance, level=drawn.level)
    handles = bar.ax.get_legend_handles_labels()[0]
    if drawn.marked is not None:
        style, label = {"ls": ""}, drawn.label
        if drawn.marked.any() and outlined:
            style = {"color": "black", "lw": 1.2}
        elif drawn.marked.any():
            label = f"shown: {label}"
        handles.insert(0, Line2D([], [], label=label, **style))
    if handles:
        figure.legend(handles=handles, loc="lower center", ncols=2, **common.LEGEND)
    width = int(common.TITLE_DENSITY * figure.get_figwidth())
    title = textwrap.fill(describe(result), width, break_on_hyphens=False)
    figure.suptitle(title, x=0.02, ha="left", fontsize="medium")


# --------------------------------------------------------------- regions and features


def _plot_bars(result, drawn):
    """Draw one line per position, or a curve of many, with the permutations behind."""
    from matplotlib.pyplot import subplots

    many = len(drawn.values) > MOST_BARS
    size = (7.5, 4.2) if many else (7.0, 1.7 + 0.26 * len(drawn.values))
    figure, ax = subplots(figsize=size, layout="constrained")
    band = _subjects_band if hasattr(result, "subject_scores") else _null_band
    (_draw_curve if many else _draw_rows)(ax, result, drawn, *band(result, drawn))
    if drawn.metric == BOUND:
        ax.set(**{"ylim" if many else "xlim": (0, 1)})
    figure.draw_without_rendering()  # lays out the names, so that the title fits
    common.set_title(ax, result)
    ax.spines[["top", "right"]].set_visible(False)
    figure.legend(loc="outside lower center", ncols=2, **common.LEGEND)
    return figure


def _null_band(result, drawn):
    """Return where the middle 95 % of the permutations are, NaN if there are none."""
    low, high = np.full((2, len(drawn.values)), np.nan)
    null = getattr(result, "nulls", {}).get(drawn.metric, ())
    for i in np.flatnonzero(result.decoded) if len(null) else ():
        # One by one, so that the null is not copied.
        low[i], high[i] = np.percentile(null[:, i], [2.5, 97.5])
    return low, high, BAND_LABEL


def _subjects_band(result, drawn):
    """Return the interval of the mean over subjects, as far as scores go."""
    if drawn.metric != result.metric or is_difference(result):
        return _null_band(result, drawn)
    low, high = np.clip(mean_interval(result.subject_scores)[1:], *limits_of(result))
    return low, high, INTERVAL_LABEL


def _draw_rows(ax, result, drawn, low, high, band):
    """Draw a map as dots in rows with names, that with the highest score on top."""
    names = next(iter(result.geometry.columns().values()))
    # One order for all maps of a result: they can be compared row by row.
    order = np.argsort(np.nan_to_num(result.scores, nan=-np.inf), kind="stable")
    rows, values = np.arange(len(order)), drawn.values[order]
    ax.use_sticky_edges = False  # keeps the bands off the border
    if np.isfinite(low).any():
        ax.barh(
            rows,
            (high - low)[order],
            left=low[order],
            height=0.62,
            color=NULL_COLOR,
            alpha=0.55,
            lw=0,
            label=band,
        )
    start = 0.0 if drawn.metric == BOUND else drawn.chance
    if np.isfinite(start):
        ax.hlines(rows, start, values, color=SCORE_COLOR, lw=1.5)
    label = drawn.name
    ax.plot(values, rows, "o", color=SCORE_COLOR, ms=6, label=label)
    if drawn.marked is not None:
        marked = drawn.marked[order]
        _draw_marks(ax, values[marked], rows[marked], drawn.label, ms=7)
    common.draw_chance(ax.axvline, drawn.chance, level=drawn.level)
    texts = [
        str(names[i]) if result.decoded[i] else f"{names[i]} (not decoded)"
        for i in order
    ]
    ax.set_yticks(rows, texts)
    noun = result.geometry.noun.capitalize()
    ax.set(xlabel=label, ylabel=noun, ylim=(-0.7, len(rows) - 0.3))


def _draw_curve(ax, result, drawn, low, high, band):
    """Draw the scores as a curve over the positions, in their own order."""
    x, label = np.arange(len(drawn.values)), drawn.name
    # Single bounds between places without one would be lines of no length.
    shown = np.nan_to_num(drawn.values) if drawn.metric == BOUND else drawn.values
    ax.plot(x, shown, color=SCORE_COLOR, lw=1.2, zorder=3, label=label)
    common.draw_chance(ax.axhline, drawn.chance, level=drawn.level)
    if np.isfinite(low).any():
        ax.fill_between(
            x,
            low,
            high,
            step="mid",
            color=NULL_COLOR,
            alpha=0.55,
            lw=0,
            label=band,
        )
    if drawn.marked is not None:
        x_marked = x[drawn.marked]
        _draw_marks(ax, x_marked, drawn.values[drawn.marked], drawn.label, ms=4)
    noun = result.geometry.noun.capitalize()
    ax.set(xlabel=f"{noun} (index)", ylabel=label, xlim=(-0.5, len(x) - 0.5))


def _draw_marks(ax, x, y, label, ms):
    """Draw dots on what is marked; without any, the label says so."""
    marker = "o" if len(x) else " "
    ax.plot(x, y, marker, color=SIGNIFICANT_COLOR, ms=ms, zorder=4, label=label)
