"""Figures of searchlights in source space, which need no display.

The vertices of a map are rows and dots here; in three dimensions they are drawn by
MNE-Python, ``result.to_stc().plot()``.
"""

from __future__ import annotations

from dataclasses import replace
from numbers import Real
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ..inference.corrections import CorrectionName
from ..inference.null import Alternative
from ..utils.axes import AXES
from ..utils.rounding import nearest
from . import style
from .maps import LINE_COLOR, draw_map, draw_onset, finish_rows, make_picture

if TYPE_CHECKING:
    from matplotlib.colors import Colormap
    from matplotlib.figure import Figure


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
    >>> from mvpa_kfda.viz.sources import plot_sources
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
    sizes = [np.subtract(*_limits(points, view)) for view in _VIEWS]
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


def _limits(points, view):
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
    low, high = _limits(points, view)
    across = (high[0], low[0]) if view.mirrored else (low[0], high[0])
    ax.set(xlim=across, ylim=(low[1], high[1]), aspect="equal", yticks=[])
    ax.set_xticks([across[0], across[1]], view.ends, fontsize="x-small")
    ax.tick_params(axis="x", length=0)
