"""Figures of maps: scores over two axes, topomaps of sensors, and dots of sources.

Color-blind readers tell the two colors of a map apart: red is above chance and blue
below it. What is significant is outlined. Matplotlib and MNE-Python are imported
inside the functions, so that decoding never loads them for its figures.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from numbers import Real
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from scipy.spatial import ConvexHull

from ..inference.corrections import CorrectionName
from ..inference.null import Alternative
from ..utils.axes import AXES
from ..utils.checks import check_flag, check_numbers, invalid
from ..utils.rounding import nearest
from . import style

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.colors import Colormap
    from matplotlib.figure import Figure

DIVERGING = "RdBu_r"  # where there is a chance level, in white
SEQUENTIAL = "viridis"  # where there is none
LINE_COLOR = "#555555"

#: Enough for steps that nobody sees, and odd: the one in the middle is white.
N_COLORS = 257


@style.draws_names
def plot_generalization(
    result,
    *,
    metric: str | None = None,
    correction: CorrectionName = "max",
    alpha: float = 0.05,
    threshold: float = 0.05,
    alternative: Alternative = "greater",
    vlim: tuple[float, float] | None = None,
    cmap: str | Colormap | None = None,
    legend: bool = True,
    ax: Axes | None = None,
    show: bool = False,
) -> Axes:
    """Plot decoding scores over training and test times.

    Shows the score of every pair of times as a color, white at chance, with an outline
    around the cells with p <= alpha, a dotted line where training and test time are
    the same, and the onset of the stimulus at 0 s.

    Parameters
    ----------
    result : GeneralizationResult
        The result to draw.
    metric : str or None
        Name of the metric; None takes the first.
    correction : str
        Correction of the p-values for testing many cells.
    alpha : float
        Cells with p <= alpha are outlined.
    threshold : float
        p-level that forms the clusters of "cluster" and "cluster-size".
    alternative : {"greater", "less", "two-sided"}
        Which scores are tested for, as in `pvalues`.
    vlim : tuple of float or None
        The scores at the two ends of the colors. None reaches equally far to both
        sides of chance (down to zero at most, if no score is negative), or takes the
        lowest and the highest score if the metric has no chance level. Scores equally
        far from chance have equally strong colors in any case.
    cmap : str, matplotlib Colormap, or None
        The colors. None takes red and blue around chance.
    legend : bool
        Draw the legend.
    ax : matplotlib Axes or None
        Where to draw; None makes a figure. A figure of your own without a layout gets
        "constrained", which makes room for the colorbar and the legend.
    show : bool
        Show the figure at once.

    Returns
    -------
    ax : matplotlib Axes
        The Axes drawn into: test times across, training times up, in seconds.

    Raises
    ------
    ValueError
        If `alpha` is not between 0 and 1, `vlim` is not a lower and a higher number,
        the metric, the correction, the alternative or the colors are unknown, the
        metric is not one number per cell, or the correction or the alternative needs
        permutations that were not kept.

    Examples
    --------
    >>> import matplotlib
    >>> matplotlib.use("Agg")
    >>> from mvpa_kfda import generalize_epochs, simulate_epochs
    >>> from mvpa_kfda.viz.maps import plot_generalization
    >>> result = generalize_epochs(simulate_epochs(n_trials=30), step=0.1, cv=5)
    >>> plot_generalization(result).get_xlabel()
    'Test time (s)'
    """
    tested = metric, correction, alpha, threshold, alternative
    picture = make_picture(result, "cell", tested, (vlim, cmap))
    across = style.sample_edges(result.test_times)
    up = style.sample_edges(result.train_times)
    ax = style.axes_or_new(ax, figsize=(6.4, 6.2))
    mesh = draw_map(ax, across, up, picture)
    start, end = max(across[0], up[0]), min(across[-1], up[-1])
    if start < end:
        look = {"color": LINE_COLOR, "lw": 1, "ls": ":"}
        same = "training time = test time"
        ax.plot([start, end], [start, end], label=same, **look)
    draw_onset(ax.axvline, across)
    draw_onset(ax.axhline, up, label=not across[0] <= 0 <= across[-1])
    same_span = np.isclose(np.ptp(across), np.ptp(up), rtol=1e-6, atol=0)
    ax.set(
        xlabel=AXES["test_times"].label,
        ylabel=AXES["train_times"].label,
        aspect="equal" if same_span else "auto",
    )
    return _finish(ax, mesh, picture, result, show, legend)


@style.draws_names
def plot_time_frequency(
    result,
    *,
    metric: str | None = None,
    correction: CorrectionName = "max",
    alpha: float = 0.05,
    threshold: float = 0.05,
    alternative: Alternative = "greater",
    vlim: tuple[float, float] | None = None,
    cmap: str | Colormap | None = None,
    legend: bool = True,
    ax: Axes | None = None,
    show: bool = False,
) -> Axes:
    """Plot decoding scores over times and frequencies.

    Shows the score of every cell as a color, white at chance, with an outline around
    the cells with p <= alpha, and the onset of the stimulus at 0 s. The axis of
    frequencies is logarithmic if their ratios vary less than their differences.

    Parameters
    ----------
    result : TimeFrequencyResult
        The result to draw.
    metric : str or None
        Name of the metric; None takes the first.
    correction : str
        Correction of the p-values for testing many cells.
    alpha : float
        Cells with p <= alpha are outlined.
    threshold : float
        p-level that forms the clusters of "cluster" and "cluster-size".
    alternative : {"greater", "less", "two-sided"}
        Which scores are tested for, as in `pvalues`.
    vlim : tuple of float or None
        The scores at the two ends of the colors. None reaches equally far to both
        sides of chance (down to zero at most, if no score is negative), or takes the
        lowest and the highest score if the metric has no chance level. Scores equally
        far from chance have equally strong colors in any case.
    cmap : str, matplotlib Colormap, or None
        The colors. None takes red and blue around chance.
    legend : bool
        Draw the legend.
    ax : matplotlib Axes or None
        Where to draw; None makes a figure. A figure of your own without a layout gets
        "constrained", which makes room for the colorbar and the legend.
    show : bool
        Show the figure at once.

    Returns
    -------
    ax : matplotlib Axes
        The Axes drawn into: times across in seconds, frequencies up in Hz.

    Raises
    ------
    ValueError
        As `plot_generalization`.

    Examples
    --------
    >>> import matplotlib
    >>> matplotlib.use("Agg")
    >>> from mvpa_kfda import decode_epochs, simulate_epochs
    >>> from mvpa_kfda.viz.maps import plot_time_frequency
    >>> tfr = simulate_epochs(n_trials=30).compute_tfr(
    ...     "morlet", freqs=[8, 16, 32], n_cycles=3, decim=10, verbose=False
    ... )
    >>> plot_time_frequency(decode_epochs(tfr, cv=5)).get_ylabel()
    'Frequency (Hz)'
    """
    tested = metric, correction, alpha, threshold, alternative
    picture = make_picture(result, "cell", tested, (vlim, cmap))
    across, up = style.sample_edges(result.times), frequency_edges(result.freqs)
    ax = style.axes_or_new(ax, figsize=(7.0, 4.6))
    if is_geometric(result.freqs):
        set_log_frequencies(ax.yaxis, up)
    mesh = draw_map(ax, across, up, picture)
    draw_onset(ax.axvline, across)
    ax.set(xlabel=AXES["times"].label, ylabel=AXES["freqs"].label)
    return _finish(ax, mesh, picture, result, show, legend)


#: Above so many channels only some of the names fit.
MOST_NAMES = 32


@style.draws_names
def plot_sensors(
    result,
    *,
    times: float | Sequence[float] | None = None,
    metric: str | None = None,
    correction: CorrectionName = "max",
    alpha: float = 0.05,
    threshold: float = 0.05,
    alternative: Alternative = "greater",
    vlim: tuple[float, float] | None = None,
    cmap: str | Colormap | None = None,
    legend: bool = True,
    show: bool = False,
) -> Figure:
    """Plot decoding scores over sensors and times.

    Shows the score of every sensor (rows, the first one on top) and time as a color,
    white at chance, with an outline around those with p <= alpha. Below, topomaps at
    some of the times, where dots mark the sensors with p <= alpha. The two
    gradiometers of a pair lie at the same place, which shows the higher score. Sensors
    that cover less than a third of the head are interpolated near them only, as MEG is.
    Where some sensors have no value, as for the prevalence bound of a group, nothing is
    known between sensors, and topomaps have the sensors alone, as colored dots; so do
    those of fewer than four sensors, or of sensors in a line.

    Parameters
    ----------
    result : SensorTimeResult
        The result to draw.
    times : float, sequence of float, or None
        Times of the topomaps in seconds, at most 12; the nearest sample is drawn.
        None spreads 6 times evenly from the first to the last and moves the one that
        is nearest to the highest score of the map to it.
    metric : str or None
        Name of the metric; None takes the first.
    correction : str
        Correction of the p-values for testing many sensors and times.
    alpha : float
        Sensors and times with p <= alpha are marked.
    threshold : float
        p-level that forms the clusters of "cluster" and "cluster-size".
    alternative : {"greater", "less", "two-sided"}
        Which scores are tested for, as in `pvalues`.
    vlim : tuple of float or None
        The scores at the two ends of the colors. None reaches equally far to both
        sides of chance (down to zero at most, if no score is negative), or takes the
        lowest and the highest score if the metric has no chance level. Scores equally
        far from chance have equally strong colors in any case.
    cmap : str, matplotlib Colormap, or None
        The colors. None takes red and blue around chance.
    legend : bool
        Draw the legend.
    show : bool
        Show the figure at once.

    Returns
    -------
    figure : matplotlib Figure
        Its first Axes has the map of sensors and times, the next ones the topomaps,
        the last one the colorbar. Without topomaps (no positions of the sensors,
        several types of channels, or channels that are not on the head) its title
        says why.

    Raises
    ------
    ValueError
        As `plot_generalization`, and for times out of range, none or too many.

    Examples
    --------
    >>> import matplotlib
    >>> matplotlib.use("Agg")
    >>> from mvpa_kfda import decode_epochs, simulate_epochs
    >>> from mvpa_kfda.viz.maps import plot_sensors
    >>> epochs = simulate_epochs(n_trials=30, n_channels=16)
    >>> result = decode_epochs(epochs, sensors="adjacency", step=0.1, cv=5)
    >>> plot_sensors(result, times=[0.1, 0.4]).axes[1].get_title()
    '0.1 s'
    """
    import mne

    tested = metric, correction, alpha, threshold, alternative
    picture = make_picture(result, "sensor or time", tested, (vlim, cmap))
    samples = topomap_samples(result.places, times, picture.favour)
    info, names = result.info, [str(name) for name in result.ch_names]
    info = mne.pick_info(info, [info["ch_names"].index(name) for name in names])
    missing = why_no_topomaps(info)
    size = (7.6, 4.2) if missing else (max(7.6, 1.25 * len(samples)), 5.6)
    figure = style.new_figure(size, "constrained")
    rows = 1 if missing else 2
    grid = figure.add_gridspec(rows, len(samples), height_ratios=[3, 1][:rows])
    ax = figure.add_subplot(grid[0, :])
    # One row per sensor, the first one on top.
    across, n = style.sample_edges(result.times), len(names)
    mesh = draw_map(ax, across, np.arange(n + 1) - 0.5, picture)
    draw_onset(ax.axvline, across)
    named = range(0, n, -(-n // MOST_NAMES))
    ax.set_yticks(named, [names[i] for i in named], fontsize=6)
    ax.set(xlabel=AXES["times"].label, ylabel=AXES["ch_names"].label)
    ax.invert_yaxis()
    style.set_title(ax, result, note=missing)
    if not missing:
        axes = [figure.add_subplot(grid[1, i]) for i in range(len(samples))]
        draw_topomaps(axes, result, picture, samples, info)
        explain_topomaps(ax, result, picture, samples, info)
    return finish_rows(ax, mesh, picture, show, legend)


def finish_rows(ax, mesh, picture, show, legend):
    """Add the colorbar and the legend of a map with more Axes below it."""
    figure, handles = ax.figure, ax.get_legend_handles_labels()[0]
    where = {"ax": figure.axes, "aspect": 40, "pad": 0.02, "panchor": False}
    handles += add_colorbar(figure, mesh, picture, **where)
    if check_flag("legend", legend):
        style.add_figure_legend(figure, handles)
    return style.maybe_show(figure, show)


def _finish(ax, mesh, picture, result, show, legend):
    """Add the colorbar, the title and the legend."""
    # An inset: as high as the map, whatever the shape of the figure.
    chance = add_colorbar(
        ax.figure, mesh, picture, cax=ax.inset_axes([1.03, 0, 0.035, 1])
    )
    handles = ax.get_legend_handles_labels()[0]
    return style.finish(ax, result, show, handles=handles + chance, legend=legend)


# ---------------------------------------------------------------------- a map in colors


@dataclass(frozen=True)
class Picture:
    """What is drawn of a map, all of it checked before there is a figure."""

    metric: str
    name: str  # of the metric, as the scale of the colors shows it
    chance: float
    level: str  # what chance is called
    values: np.ndarray
    marked: np.ndarray | None  # None without p-values or lowest score
    label: str  # of what is marked
    norm: object
    cmap: object
    favour: np.ndarray  # how far values go where they are tested for
    permuted: float = np.nan  # mean of permuted labels, where that is not chance

    @property
    def extend(self):
        """Which ends of the scale of the colors are pointed: scores lie beyond."""
        below = (self.values < self.norm.vmin).any()
        above = (self.values > self.norm.vmax).any()
        return [["neither", "max"], ["min", "both"]][int(below)][int(above)]


def make_picture(result, position, tested, colors, min_score=None):
    """Check the arguments and collect what is to be drawn.

    `tested` are the metric, the correction, alpha, the threshold of clusters and the
    alternative, `colors` are ``vlim`` and ``cmap``; `position` is what is marked.
    """
    metric, correction = style.check_request(result, *tested)
    values, chance = result.metrics[metric], result.chances[metric]
    name, level = style.label_of(result, metric), style.level_of(result, metric)
    tested = metric, correction, *tested[2:]
    if min_score is None:
        marked, label = style.marking(result, position, *tested)
    else:
        marked, _ = style.find_marked(result, *tested[:3], min_score)
        label = f"{name} ≥ {min_score:g}"
        label = label if marked.any() else f"no {position} with {label}"
    colors = colors_for(values, chance, *colors)
    favour = result.favour(metric, tested[-1])
    shown = metric, name, chance, level, values, marked, label, *colors, favour
    return Picture(*shown, result.permuted_mean(metric))


def colors_for(values, chance, vlim, cmap):
    """The scale of the colors and the colors."""
    from matplotlib.colors import ListedColormap, Normalize
    from matplotlib.pyplot import get_cmap

    low, high = check_colors(vlim, cmap) or _limits(values, chance)
    if not low <= chance <= high:
        return Normalize(low, high), get_cmap(cmap or SEQUENTIAL)
    # Scores equally far above and below chance are equally strong in color. Where one
    # end of the scale is closer to chance than the other, the colors end earlier there.
    reach = max(chance - low, high - chance)
    ends = 0.5 + np.array([low - chance, high - chance]) / (2 * reach)
    shades = get_cmap(cmap or DIVERGING)(np.linspace(*ends, N_COLORS))
    return Normalize(low, high), ListedColormap(shades)


def _limits(values, chance):
    """The two ends of the colors that fit the scores."""
    values = values[np.isfinite(values)]
    if not np.isfinite(chance):
        low, high = (values.min(), values.max()) if values.size else (0.0, 1.0)
        beyond = 0.1 * (low == high)  # or one value, or equal ones, had no color
        return low - beyond, high + beyond
    reach = np.abs(values - chance).max(initial=0) or 0.1  # all at chance: any will do
    low, high = chance - reach, chance + reach
    if low < 0 < chance and values.min(initial=0) >= 0:
        low = 0.0  # an accuracy below zero means nothing
    return low, high


def check_colors(vlim, cmap):
    """The two ends of the colors as floats, None if none are given; checks both."""
    from matplotlib import colormaps
    from matplotlib.colors import Colormap

    ends = None
    if vlim is not None:
        try:
            low, high = ends = tuple(float(end) for end in vlim)
        except (TypeError, ValueError):
            low = high = np.nan
        if not -np.inf < low < high < np.inf:
            allowed = (
                "None, or two finite numbers, the lower one first, e.g. (0.2, 0.8)"
            )
            raise invalid("vlim", vlim, allowed)
    known = isinstance(cmap, Colormap) or (isinstance(cmap, str) and cmap in colormaps)
    if cmap is not None and not known:
        allowed = "None, or a colormap of matplotlib, e.g. 'viridis' or 'RdBu_r'"
        raise invalid("cmap", cmap, allowed)
    return ends


#: Above so many cells a map is an image in files of vector graphics, too.
RASTER_CELLS = 2500


def draw_map(ax, across, up, picture, width=1.4):
    """Draw the scores and the outline of the significant ones, so many points wide."""
    colors = {"norm": picture.norm, "cmap": picture.cmap}
    is_image = picture.values.size > RASTER_CELLS
    mesh = ax.pcolormesh(across, up, picture.values, rasterized=is_image, **colors)
    if picture.metric == style.BOUND and np.isnan(picture.values).any():
        square = {"marker": "s", "color": "white", "markeredgecolor": LINE_COLOR}
        ax.plot([], [], ls="", label=f"no bound ({style.NO_BOUND})", **square)
    if picture.marked is not None:
        _draw_outline(ax, outline(across, up, picture.marked), picture.label, width)
    ax.set(xlim=across[[0, -1]], ylim=up[[0, -1]])
    return mesh


def _draw_outline(ax, segments, label, width):
    """Draw black lines with white ones beneath, which show on every color."""
    from matplotlib.collections import LineCollection
    from matplotlib.patheffects import Normal, Stroke

    if len(segments) == 0:
        ax.plot([], [], " ", label=label)
        return
    white = [Stroke(linewidth=2 * width, foreground="white"), Normal()]
    look = {"colors": "black", "linewidths": width, "path_effects": white}
    look["capstyle"] = "projecting"  # closes the corners
    lines = LineCollection(segments, zorder=3, label=label, **look)
    ax.add_collection(lines, autolim=False)


def outline(x_edges, y_edges, mask):
    """The borders (n_segments, 2 ends, x and y) of marked cells (n_y, n_x)."""
    # Every border follows the edge of a cell, so that single cells and cells at the rim
    # of the grid are outlined, too.
    x, y = np.asarray(x_edges), np.asarray(y_edges)
    padded = np.pad(np.asarray(mask, dtype=int), 1)
    row, column = np.nonzero(np.diff(padded[:, 1:-1], axis=0))
    flat = np.stack([x[column], y[row], x[column + 1], y[row]], axis=-1)
    row, column = np.nonzero(np.diff(padded[1:-1], axis=1))
    steep = np.stack([x[column], y[row], x[column], y[row + 1]], axis=-1)
    return np.concatenate([flat, steep]).reshape(-1, 2, 2)


def draw_onset(draw_line, edges, label=True):
    """Draw a line at 0 s, if that is in range."""
    if edges[0] <= 0 <= edges[-1]:
        name = "onset (0 s)" if label else None
        draw_line(0, color=LINE_COLOR, lw=0.8, zorder=2, label=name)


def add_colorbar(figure, colors, picture, **where):
    """Add the scale of the colors, with chance on it; return what its legend shows."""
    label = style.fit_label(picture.name, 0.9 * figure.get_figheight())
    bar = figure.colorbar(colors, label=label, extend=picture.extend, **where)
    if picture.norm.vmin <= picture.chance <= picture.norm.vmax:
        style.draw_chance(bar.ax, picture.chance, level=picture.level)
    if picture.norm.vmin <= picture.permuted <= picture.norm.vmax:
        style.draw_permuted(bar.ax, picture.permuted, picture.metric)
    return bar.ax.get_legend_handles_labels()[0]


# -------------------------------------------------------------------------- frequencies


def is_geometric(freqs):
    """Whether frequencies are spaced by ratios rather than by differences."""
    freqs = np.asarray(freqs, dtype=float)
    if len(freqs) < 3 or freqs[0] <= 0:
        return False
    ratios, differences = np.diff(np.log(freqs)), np.diff(freqs)
    return bool(ratios.std() / ratios.mean() < differences.std() / differences.mean())


def frequency_edges(freqs):
    """The n + 1 borders between frequencies, halfway on their scale."""
    freqs = np.asarray(freqs, dtype=float)
    if len(freqs) == 1:
        return freqs[0] + np.array([-0.5, 0.5])
    if is_geometric(freqs):
        return np.exp(style.sample_edges(np.log(freqs)))
    return style.sample_edges(freqs)


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


# ----------------------------------------------------------------------------- topomaps


#: Topomaps that are picture when no times are given, and at most.
N_TOPOMAPS, MOST_TOPOMAPS = 6, 12

#: Channel types with one value per place on the head.
TOPOMAP_TYPES = ("eeg", "mag", "grad", "csd", "hbo", "hbr")

#: Dots on the significant sensors of a topomap.
MARKED = {
    "marker": "o",
    "markerfacecolor": "white",
    "markeredgecolor": "black",
    "markeredgewidth": 0.8,
    "markersize": 4,
}

#: Rings around those of colored dots.
RING = MARKED | {
    "markerfacecolor": "none",
    "markeredgewidth": 1.4,
    "markersize": 5,
}

#: Sensors without a value.
EMPTY = {"color": "#BBBBBB", "s": 4, "linewidths": 0}


def topomap_samples(places, wanted, values):
    """The indices of the samples that get a topomap."""
    times = places.coordinates["times"]
    n = len(times)
    if wanted is None:
        samples = np.linspace(0, n - 1, min(N_TOPOMAPS, n)).round().astype(int)
        best = np.nan_to_num(values, nan=-np.inf).max(axis=0).argmax()
        samples[np.abs(samples - best).argmin()] = best
        return samples
    span = f"between {times[0]:g} and {times[-1]:g}"
    allowed = f"None, or 1 to {MOST_TOPOMAPS} times in seconds {span}"
    seconds = np.atleast_1d(check_numbers(wanted, "times")).ravel().tolist()
    if not 0 < len(seconds) <= MOST_TOPOMAPS:
        raise invalid("times", wanted, allowed)
    found = [places.find_along("times", each, "times", allowed) for each in seconds]
    return np.flatnonzero(np.any(found, axis=0))


def why_no_topomaps(info):
    """Word why the sensors cannot be picture on a head; "" if they can."""
    types = sorted(set(info.get_channel_types()))
    if len(types) > 1:
        names = ", ".join(map(style.channel_label, types))
        return f"no topomaps of several types of channels ({names})"
    if types[0] not in TOPOMAP_TYPES:
        return f"no topomaps of {style.channel_label(types[0])} channels"
    places = _places(info)
    if not (np.isfinite(places).all() and places.any(axis=1).all()):
        return "no topomaps: sensors without positions"
    if len(np.unique(places, axis=0)) == 1:
        return "no topomaps of a single sensor"
    return ""


def draw_topomaps(axes, result, picture, samples, info):
    """Draw the scores at some samples on the head."""
    import mne

    _, first, place = np.unique(
        _places(info), axis=0, return_index=True, return_inverse=True
    )
    members = [np.flatnonzero(place.ravel() == k) for k in range(len(first))]
    info = mne.pick_info(info, first)
    if "grad" in info.get_channel_types():
        # As magnetometers, because mne would merge pairs of gradiometers as fields.
        tesla = mne.create_info(1, 1.0, "mag")["chs"][0]["unit"]
        for ch in info["chs"]:
            ch["unit"] = tesla
    for ax, i in zip(axes, samples, strict=True):
        marked = None
        if picture.marked is not None:
            marked = np.array([picture.marked[rows, i].any() for rows in members])
        values = [np.fmax.reduce(picture.values[rows, i]) for rows in members]
        colors = {"norm": picture.norm, "cmap": picture.cmap}
        draw_topomap(ax, np.array(values), info, marked, _has_gaps(picture), **colors)
        ax.set_title(f"{nearest(result.times[i]):g} s", fontsize="small")


def explain_topomaps(ax, result, picture, samples, info):
    """Point at the times of the topomaps on top of the map, and say what dots mean."""
    above, look = np.ones(len(samples)), {"color": style.SCORE_COLOR, "ms": 6}
    look["transform"] = ax.get_xaxis_transform()  # seconds across, share of height up
    look |= {"clip_on": False, "label": "times of the topomaps"}
    ax.plot(result.times[samples], above, "v", **look)
    if picture.marked is None or not picture.marked[:, samples].any():
        return
    look = RING if _has_gaps(picture) or extent_of(info) is None else MARKED
    is_bound = picture.metric == style.BOUND
    what = "majority of people" if is_bound else "significant sensors"
    ax.plot([], [], **look, ls="", label=f"{what} at that time")


def _places(info):
    """The place of every sensor in meters, (n_sensors, 3), rounded to 0.1 mm."""
    return np.array([ch["loc"][:3] for ch in info["chs"]]).round(4)


def _has_gaps(picture):
    """Tell maps that have no value at some sensors; there is nothing to interpolate."""
    return picture.metric == style.BOUND or np.isnan(picture.values).any()


#: The share of the head that sensors lie around if values are drawn all over it.
_COVERED = 1 / 3


def extent_of(info):
    """Return how far values are drawn beyond the sensors (n_sensors,) of an Info.

    "head": all over it, which is MNE-Python's default for EEG. "local": hardly beyond
    them, where they cover a part of the head only, as its default for MEG is. None: not
    at all, of a few sensors or of sensors in a line, which have nothing between them.
    """
    directions = _places(info) / np.linalg.norm(_places(info), axis=1, keepdims=True)
    # As on topomaps: the distance from the middle is the angle from the top.
    angle = np.arccos(directions[:, 2].clip(-1, 1)) / (np.pi / 2)
    around = np.arctan2(directions[:, 1], directions[:, 0])
    flat = angle[:, np.newaxis] * np.stack([np.cos(around), np.sin(around)], axis=1)
    flat = np.unique(flat.round(4), axis=0)
    if len(flat) < 4 or np.linalg.matrix_rank(flat - flat.mean(axis=0), tol=1e-2) < 2:
        return None
    if info.get_channel_types()[0] in ("mag", "grad"):
        return "local"
    return "head" if ConvexHull(flat).volume / np.pi > _COVERED else "local"


def draw_topomap(ax, values, info, marked=None, dots=False, *, norm, cmap):
    """Draw values on the head, interpolated or as dots; return what has their colors.

    Parameters
    ----------
    ax : matplotlib Axes
        Where to draw.
    values : array, shape (n_sensors,)
        A value for every sensor, NaN for none.
    info : mne.Info
        The sensors.
    marked : array of bool, shape (n_sensors,), or None
        Which of them are marked.
    dots : bool
        Draw nothing between sensors, as it is where nothing can be interpolated.
    norm, cmap : matplotlib Normalize and Colormap
        The colors.

    Returns
    -------
    colors : matplotlib AxesImage or PathCollection
        For a colorbar.
    """
    import mne

    extent, plain = extent_of(info), {"contours": 0, "axes": ax, "show": False}
    if not dots and extent is not None:
        size = {"markersize": 2.5} if extent == "local" else {}
        marks = {"mask": marked, "mask_params": MARKED | size}
        look = {"cmap": cmap, "cnorm": norm, "extrapolate": extent}
        return mne.viz.plot_topomap(values, info, **marks, **look, **plain)[0]
    # A white surface, for the head; the sensors tell where mne projects them to. Values
    # are dots, gray without one; a ring marks some.
    places = {"mask": np.ones(len(values), bool), "sensors": False}
    places["mask_params"] = {"gid": "sensors", "marker": ""}
    white = {"cmap": "binary", "vlim": (0, 1)}
    mne.viz.plot_topomap(np.zeros(len(values)), info, **places, **white, **plain)
    (sensors,) = (line for line in ax.lines if line.get_gid() == "sensors")
    places, known = sensors.get_xydata(), np.isfinite(values)
    sensors.remove()
    edges = np.zeros(len(values), dtype=bool) if marked is None else marked
    ax.scatter(*places[~known].T, zorder=3, **EMPTY)
    return ax.scatter(
        *places[known].T,
        c=values[known],
        s=22,
        cmap=cmap,
        norm=norm,
        edgecolors=np.where(edges, "black", "#999999")[known],
        linewidths=np.where(edges, RING["markeredgewidth"], 0.4)[known],
        zorder=4,
    )


# ------------------------------------------------------------------------------ sources


#: With more rows than that, outlines are thin, or they would cover what they surround.
_MOST_OUTLINED = 60


class _View(NamedTuple):
    """A side from which vertices are seen."""

    name: str
    axes: list  # of the points, across and up
    ends: tuple  # what is left and what is right in the picture
    half: int  # which side of the head is shown: -1 left, 1 right, 0 both
    nearest: tuple  # the axis towards the viewer, and its direction
    mirrored: bool = False  # whether the axis across runs to the left


_VIEWS = (
    _View("left", [1, 2], ("front", "back"), -1, (0, -1), mirrored=True),
    _View("right", [1, 2], ("back", "front"), 1, (0, 1)),
    _View("from above", [0, 1], ("left", "right"), 0, (2, 1)),
    _View("from behind", [0, 2], ("left", "right"), 0, (1, -1)),
)


@style.draws_names
def plot_sources(
    result,
    *,
    time: float | None = None,
    metric: str | None = None,
    correction: CorrectionName = "max",
    alpha: float = 0.05,
    threshold: float = 0.05,
    alternative: Alternative = "greater",
    vlim: tuple[float, float] | None = None,
    cmap: str | Colormap | None = None,
    legend: bool = True,
    show: bool = False,
) -> Figure:
    """Plot decoding scores over sources and times.

    Shows the score of every vertex (rows) and time as a color, white at chance, with an
    outline around those with p <= alpha. The rows go through the structures one by one,
    in each from those that are significant first (top), and then from those with the
    highest score. Below, all vertices at one time as dots, seen from four
    sides; rings are around those with p <= alpha.

    Parameters
    ----------
    result : SourceTimeResult
        The result to draw.
    time : float or None
        Time of the lower row in seconds; the nearest sample is drawn. None takes the
        time of the highest score.
    metric : str or None
        Name of the metric; None takes the first.
    correction : str
        Correction of the p-values for testing many vertices and times.
    alpha : float
        Vertices and times with p <= alpha are marked.
    threshold : float
        p-level that forms the clusters of "cluster" and "cluster-size".
    alternative : {"greater", "less", "two-sided"}
        Which scores are tested for, as in `pvalues`.
    vlim : tuple of float or None
        The scores at the two ends of the colors. None reaches equally far to both
        sides of chance (down to zero at most, if no score is negative), or takes the
        lowest and the highest score if the metric has no chance level. Scores equally
        far from chance have equally strong colors in any case.
    cmap : str, matplotlib Colormap, or None
        The colors. None takes red and blue around chance.
    legend : bool
        Draw the legend.
    show : bool
        Show the figure at once.

    Returns
    -------
    figure : matplotlib Figure
        Its first Axes has the map of vertices and times, the next four the views, the
        last one the colorbar.

    Raises
    ------
    ValueError
        As `plot_generalization`, and for a time out of range.

    Examples
    --------
    >>> import matplotlib
    >>> matplotlib.use("Agg")
    >>> import mne
    >>> import numpy as np
    >>> from mvpa_kfda import decode_sources
    >>> from mvpa_kfda.viz.maps import plot_sources
    >>> sphere = {"sphere": (0, 0, 0, 0.09), "verbose": False}
    >>> src = mne.setup_volume_source_space(pos=40.0, **sphere)
    >>> vertices, rng = [src[0]["vertno"]], np.random.default_rng(0)
    >>> data = rng.normal(size=(20, len(vertices[0]), 3))
    >>> stcs = [mne.VolSourceEstimate(each, vertices, 0.0, 0.1) for each in data]
    >>> result = decode_sources(stcs, [0, 1] * 10, src=src, radius=40.0, cv=5)
    >>> plot_sources(result, time=0.1).axes[1].get_title()
    'left, 0.1 s'
    """
    tested = metric, correction, alpha, threshold, alternative
    picture = make_picture(result, "vertex or time", tested, (vlim, cmap))
    times = result.times
    # The sample that is seen from all sides.
    sample = np.nan_to_num(picture.favour, nan=-np.inf).max(axis=0).argmax()
    if time is not None:
        allowed = "None, or a time in seconds"
        wanted = time if isinstance(time, Real) else None
        sample = result.places.find_along("times", wanted, "time", allowed).argmax()
    figure = style.new_figure((8.4, 6.4), "constrained")
    points = result.sources["points"]
    # The views have one height.
    sizes = [np.subtract(*_ends_of(points, view)) for view in _VIEWS]
    widths = [across / up for across, up in sizes]
    ratios = {"height_ratios": [3, 1.6], "width_ratios": widths}
    grid = figure.add_gridspec(2, len(_VIEWS), **ratios)
    ax = figure.add_subplot(grid[0, :])
    mesh = _draw_rows(ax, result.sources, times, picture)
    ax.axvline(times[sample], color=style.SCORE_COLOR, lw=1, ls=":", label="time below")
    style.set_title(ax, result)
    for i, view in enumerate(_VIEWS):
        below = figure.add_subplot(grid[1, i])
        _draw_view(below, points, picture, sample, view)
        below.set_title(f"{view.name}, {nearest(times[sample]):g} s", fontsize="small")
    if picture.marked is not None and picture.marked[:, sample].any():
        ax.plot([], [], "o", mfc="none", mec="black", label="significant at that time")
    return finish_rows(ax, mesh, picture, show, legend)


def _draw_rows(ax, sources, times, picture):
    """Draw the map with one row per vertex, structure by structure, best ones first."""
    sizes = [len(vertices) for vertices in sources["vertices"]]
    structure = np.repeat(np.arange(len(sizes)), sizes)
    highest = np.nan_to_num(picture.favour, nan=-np.inf).max(axis=1)
    keys, marked = [-highest, structure], picture.marked
    if marked is not None:  # rows that are marked alike have no lines between them
        keys[1:1] = ~marked.T[::-1]
    order = np.lexsort(keys)
    marked = None if marked is None else marked[order]
    picture = replace(picture, values=picture.values[order], marked=marked)
    across = style.sample_edges(times)
    width = 1.4 if len(order) <= _MOST_OUTLINED else 0.9
    mesh = draw_map(ax, across, np.arange(len(order) + 1) - 0.5, picture, width)
    draw_onset(ax.axvline, across)
    ends = np.cumsum(sizes)
    for end in ends[:-1]:
        ax.axhline(end - 0.5, color=LINE_COLOR, lw=0.8)
    named = [i for i, size in enumerate(sizes) if size]
    names = [str(sources["structures"][i]) for i in named]
    ax.set_yticks([ends[i] - (sizes[i] + 1) / 2 for i in named], names)
    ax.tick_params(axis="y", length=0)
    ax.set(xlabel=AXES["times"].label, ylabel="Vertices")
    ax.invert_yaxis()
    return mesh


def _ends_of(points, view):
    """The lowest and the highest place across and up, with a margin."""
    low, high = (end(points[:, view.axes], axis=0) for end in (np.min, np.max))
    margin = 0.06 * max((high - low).max(), 1.0)
    return low - margin, high + margin


def _draw_view(ax, points, picture, sample, view):
    """Draw the vertices at one time as dots, seen from one side."""
    sides = np.sign(points[:, 0]) == view.half if view.half else np.ones(len(points))
    shown = np.flatnonzero(sides)
    axis, direction = view.nearest
    # The higher score lies on top of what it hides, which is what is looked for.
    values = picture.values[shown, sample]
    depth = direction * points[shown, axis]
    shown = shown[np.lexsort((depth, np.nan_to_num(values, nan=-np.inf)))]
    values = picture.values[shown, sample]
    marked = np.zeros(len(shown), bool)
    if picture.marked is not None:
        marked = picture.marked[shown, sample]
    ax.scatter(
        *points[shown][:, view.axes].T,
        c=values,
        s=float(np.clip(9000 / max(len(points), 1), 3, 40)),
        cmap=picture.cmap,
        norm=picture.norm,
        edgecolors=["black" if each else "#999999" for each in marked],
        linewidths=np.where(marked, 0.9, 0.2),
        plotnonfinite=False,
        rasterized=len(shown) > 2500,
    )
    low, high = _ends_of(points, view)
    across = (high[0], low[0]) if view.mirrored else (low[0], high[0])
    ax.set(xlim=across, ylim=(low[1], high[1]), aspect="equal", yticks=[])
    ax.set_xticks([across[0], across[1]], view.ends, fontsize="x-small")
    ax.tick_params(axis="x", length=0)
