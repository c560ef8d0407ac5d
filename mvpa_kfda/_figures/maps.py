"""What the figures of maps share: colors, outlines, axes of frequencies.

Matplotlib is imported inside the functions, so that decoding never loads it.
"""

from dataclasses import dataclass

import numpy as np

from . import common
from .edges import sample_edges
from .labels import BOUND, NO_BOUND, label_of, level_of

DIVERGING = "RdBu_r"  # where there is a chance level, in white
SEQUENTIAL = "viridis"  # where there is none
LINE_COLOR = "#555555"

# Enough for steps that nobody sees, and odd: the one in the middle is white.
N_COLORS = 257

# Above so many cells a map is an image in files of vector graphics, too.
RASTER_CELLS = 2500


@dataclass(frozen=True)
class Drawn:
    """What is drawn of a map, all of it checked before there is a figure."""

    metric: str
    name: str  # of the metric, as the scale of the colors shows it
    chance: float
    level: str  # what chance is called
    values: np.ndarray
    significant: np.ndarray | None  # None without permutations
    label: str  # of what is outlined
    norm: object
    cmap: object


def prepare(result, metric, correction, alpha, vlim, cmap, position="cell"):
    """Check the arguments and collect what is to be drawn."""
    metric, correction = common.check_request(result, metric, correction, alpha)
    values, chance = result.metrics[metric], result.chances[metric]
    marked, label = common.marking(result, metric, correction, alpha, position)
    norm, cmap = colors_for(values, chance, vlim, cmap)
    name, level = label_of(result, metric), level_of(result, metric)
    return Drawn(metric, name, chance, level, values, marked, label, norm, cmap)


def colors_for(values, chance, vlim, cmap):
    """Return the scale of the colors and the colors.

    Scores equally far above and below chance are equally strong in color. Where one
    end of the scale is closer to chance than the other, the colors end earlier there.
    """
    from matplotlib.colors import ListedColormap, Normalize
    from matplotlib.pyplot import get_cmap

    low, high = _limits(values, chance) if vlim is None else _check_vlim(vlim)
    if not low <= chance <= high:
        return Normalize(low, high), get_cmap(cmap or SEQUENTIAL)
    reach = max(chance - low, high - chance)
    ends = 0.5 + np.array([low - chance, high - chance]) / (2 * reach)
    shades = get_cmap(cmap or DIVERGING)(np.linspace(*ends, N_COLORS))
    return Normalize(low, high), ListedColormap(shades)


def _limits(values, chance):
    """Return the two ends of the colors that fit the scores."""
    values = values[np.isfinite(values)]
    if not np.isfinite(chance):
        return (values.min(), values.max()) if values.size else (0.0, 1.0)
    reach = np.abs(values - chance).max(initial=0) or 0.1  # all at chance: any will do
    low, high = chance - reach, chance + reach
    if low < 0 < chance and values.min(initial=0) >= 0:
        low = 0.0  # an accuracy below zero means nothing
    return low, high


def _check_vlim(vlim):
    """Return the two ends of the colors as floats."""
    try:
        low, high = (float(end) for end in vlim)
    except (TypeError, ValueError):
        low = high = np.nan
    if not -np.inf < low < high < np.inf:
        raise ValueError(
            f"Invalid value for 'vlim': {vlim!r}. Allowed: None, or two finite "
            "numbers, the lower one first, e.g. (0.2, 0.8)."
        )
    return low, high


def draw_map(ax, across, up, drawn):
    """Draw the scores and the outline of the significant ones."""
    mesh = ax.pcolormesh(
        across,
        up,
        drawn.values,
        norm=drawn.norm,
        cmap=drawn.cmap,
        rasterized=drawn.values.size > RASTER_CELLS,
    )
    if drawn.metric == BOUND and np.isnan(drawn.values).any():
        draw_missing(ax)
    if drawn.significant is not None:
        draw_outline(ax, outline(across, up, drawn.significant), drawn.label)
    ax.set(xlim=across[[0, -1]], ylim=up[[0, -1]])
    return mesh


def draw_missing(ax):
    """Say in the legend what it means that there is no bound; nothing is drawn."""
    square = {"marker": "s", "color": "white", "markeredgecolor": LINE_COLOR, "ls": ""}
    ax.plot([], [], label=f"no bound ({NO_BOUND})", **square)


def outline(x_edges, y_edges, mask):
    """Find the borders of the marked cells of a grid.

    Every border follows the edge of a cell, so that single cells and cells at the rim
    of the grid are outlined, too.

    Parameters
    ----------
    x_edges : array, shape (n_x + 1,)
        Edges of the columns of the grid.
    y_edges : array, shape (n_y + 1,)
        Edges of its rows.
    mask : array of bool, shape (n_y, n_x)
        The marked cells.

    Returns
    -------
    segments : array, shape (n_segments, 2, 2)
        Start and end, each (x, y), of the sides that marked cells share with other
        cells or with the rim; first the horizontal ones.

    Examples
    --------
    >>> outline([0, 1, 2], [0, 10], [[True, False]]).tolist()
    [[[0, 0], [1, 0]], [[0, 10], [1, 10]], [[0, 0], [0, 10]], [[1, 0], [1, 10]]]
    """
    x, y = np.asarray(x_edges), np.asarray(y_edges)
    padded = np.pad(np.asarray(mask, dtype=int), 1)
    row, column = np.nonzero(np.diff(padded[:, 1:-1], axis=0))
    flat = np.stack([x[column], y[row], x[column + 1], y[row]], axis=-1)
    row, column = np.nonzero(np.diff(padded[1:-1], axis=1))
    steep = np.stack([x[column], y[row], x[column], y[row + 1]], axis=-1)
    return np.concatenate([flat, steep]).reshape(-1, 2, 2)


def draw_outline(ax, segments, label):
    """Draw black lines with white ones beneath, which show on every color."""
    from matplotlib.collections import LineCollection
    from matplotlib.patheffects import Normal, Stroke

    if len(segments) == 0:
        ax.plot([], [], " ", label=label)
        return
    lines = LineCollection(
        segments,
        colors="black",
        linewidths=1.4,
        capstyle="projecting",  # closes the corners
        path_effects=[Stroke(linewidth=2.8, foreground="white"), Normal()],
        zorder=3,
        label=label,
    )
    ax.add_collection(lines, autolim=False)


def draw_onset(draw_line, edges, label=True):
    """Draw a line at 0 s, if that is in range."""
    if edges[0] <= 0 <= edges[-1]:
        name = "onset (0 s)" if label else None
        draw_line(0, color=LINE_COLOR, lw=0.8, zorder=2, label=name)


def add_colorbar(mesh, drawn, **where):
    """Add the scale of the colors, with chance on it; return what its legend shows."""
    low, high = drawn.norm.vmin, drawn.norm.vmax
    beyond = (drawn.values < low).any(), (drawn.values > high).any()
    extend = {(0, 0): "neither", (1, 0): "min", (0, 1): "max", (1, 1): "both"}
    bar = mesh.figure.colorbar(mesh, label=drawn.name, extend=extend[beyond], **where)
    if low <= drawn.chance <= high:
        common.draw_chance(bar.ax.axhline, drawn.chance, level=drawn.level)
    return bar.ax.get_legend_handles_labels()[0]


def is_geometric(freqs):
    """Tell whether frequencies are spaced by ratios rather than by differences.

    Parameters
    ----------
    freqs : array, shape (n_freqs,)
        Increasing frequencies in Hz.

    Returns
    -------
    geometric : bool
        True if the steps of the logarithm vary less, relative to their mean, than the
        steps of the frequency. False for fewer than three frequencies.

    Examples
    --------
    >>> is_geometric([4, 8, 16, 32]), is_geometric([4, 6, 8, 10])
    (True, False)
    """
    freqs = np.asarray(freqs, dtype=float)
    if len(freqs) < 3 or freqs[0] <= 0:
        return False
    ratios, differences = np.diff(np.log(freqs)), np.diff(freqs)
    return bool(ratios.std() / ratios.mean() < differences.std() / differences.mean())


def frequency_edges(freqs):
    """Return the n + 1 borders between frequencies, halfway on their scale.

    Parameters
    ----------
    freqs : array, shape (n_freqs,)
        Increasing frequencies in Hz.

    Returns
    -------
    edges : array, shape (n_freqs + 1,)
        Geometric means of neighbors if the spacing is geometric, else their means. A
        single frequency gets a row of 1 Hz.

    Examples
    --------
    >>> frequency_edges([10.0, 12.0, 14.0])
    array([ 9., 11., 13., 15.])
    """
    freqs = np.asarray(freqs, dtype=float)
    if len(freqs) == 1:
        return freqs[0] + np.array([-0.5, 0.5])
    if is_geometric(freqs):
        return np.exp(sample_edges(np.log(freqs)))
    return sample_edges(freqs)


def set_log_frequencies(axis, edges):
    """Make an axis logarithmic, with ticks at 1, 2, 5, 10, 20, 50 ... Hz."""
    from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullLocator

    axis.axes.set_yscale("log")
    wide = edges[-1] / edges[0] > 5  # else hardly any of these would be in range
    axis.set_major_locator(
        LogLocator(subs=(1, 2, 5)) if wide else MaxNLocator(6, steps=[1, 2, 5, 10])
    )
    axis.set_major_formatter(FuncFormatter(lambda freq, _: f"{freq:g}"))
    axis.set_minor_locator(NullLocator())
