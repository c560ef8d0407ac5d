"""Figures of activation patterns in the brain: a row of brains for every class."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from ..utils.checks import check_option
from . import style
from .brains import draw_hemisphere, flat_axis, has_template, slices_in
from .maps import check_colors

if TYPE_CHECKING:
    from matplotlib.colors import Colormap
    from matplotlib.figure import Figure

#: Slices in a row; where rows are (left, bottom, width), and where the colorbar is.
_N_SLICES = 7
_ROWS = (0.01, 0.03, 0.85)
_COLORBAR = (0.875, 0.25, 0.018, 0.5)
#: Height of a row and of the title, in inches.
_ROW_HEIGHT, _TITLE_HEIGHT = 1.6, 0.5


@style.draws_names
def plot_patterns(
    result,
    kind: Literal["class", "discriminant"] = "class",
    *,
    average: Literal["full", "folds"] = "full",
    region: str | int | None = None,
    views: str | Sequence[str] | None = None,
    cut_coords: int | Sequence[float] | None = None,
    bg_img: Any = None,
    vlim: tuple[float, float] | None = None,
    cmap: str | Colormap = "RdBu_r",
    show: bool = False,
) -> Figure:
    """Plot the activation patterns of regions, a row of brains for each.

    Parameters
    ----------
    result : VolumeResult
        The result to draw, of :func:`decode_regions`. Of CIFTI files the cortex is
        drawn if meshes were given, else the voxels.
    kind : {"class", "discriminant"}
        As in `patterns`.
    average : {"full", "folds"}
        As in `patterns`.
    region : str, int or None
        One region, by its name or its number in the atlas; None: all of them.
    views : str, sequence of str, or None
        Along which axis slices are cut, "x", "y" or "z" (None: "z"), and the views of a
        surface (None: "lateral" and "medial").
    cut_coords : int, sequence of float, or None
        Where to cut slices, in mm, or how many. None cuts where patterns are large.
    bg_img : image or None
        What is drawn behind the patterns: an image of the brain, or a surface image of
        the depth of its folds. None takes nilearn's MNI template where the voxels fit
        it, else the shape of the regions; on a surface, its folds.
    vlim : tuple of float or None
        Values at the two ends of the colors; None makes them symmetric about zero, the
        same in all rows.
    cmap : str
        A color map of matplotlib.
    show : bool
        Show the figure at once.

    Returns
    -------
    figure : matplotlib Figure
        The colorbar is last. Save it with ``figure.savefig("patterns.png")``.

    Raises
    ------
    ValueError
        As `patterns`; if the result is of an array, whose columns have no place.
    """
    labels, maps = result.pattern_values(kind, average, region)
    space, positions = part_to_draw(result.geometry.base)
    if space is None:
        raise ValueError(
            "There is no figure of these patterns: they are patterns of "
            f"{result.geometry.base.noun}s, which have no location in a brain. Use "
            "result.patterns()."
        )
    maps = maps[positions]
    most = np.nanmax(np.abs(maps))
    low, high = check_colors(vlim, cmap) or (-most, most)
    height = _ROW_HEIGHT * len(labels) + _TITLE_HEIGHT
    figure = style.new_figure((8.5, height))
    top = 1 - _TITLE_HEIGHT / height
    step = (top - _ROWS[1]) / len(labels)
    boxes = [
        (_ROWS[0], top - (row + 1) * step, _ROWS[2], step * 0.86)
        for row in range(len(labels))
    ]
    colors = {"vmin": low, "vmax": high, "cmap": cmap}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what nilearn thinks of its own defaults
        draw = _ROWS_OF[space.kind]
        draw(figure, boxes, space, maps, views, cut_coords, bg_img, colors)
    for box, label in zip(boxes, labels, strict=True):
        figure.text(0.02, box[1] + box[3], label, va="bottom")
    _finish(figure, result, region, colors)
    return style.maybe_show(figure, show)


def part_to_draw(space):
    """The surfaces or voxels that patterns are drawn on, and their positions."""
    if space.kind == "grayordinates":
        parts = (part for part in space.pieces() if len(part[1]))
        cortex = next((part for part in parts if part[0].kind == "surface"), None)
        return cortex or space.volume
    return (space if space.kind in _ROWS_OF else None), slice(None)


def _finish(figure, result, region, colors):
    """Add the colorbar and the title."""
    from matplotlib.cm import ScalarMappable
    from matplotlib.colors import Normalize

    norm = Normalize(colors["vmin"], colors["vmax"])
    bar = figure.colorbar(
        ScalarMappable(norm, colors["cmap"]), cax=figure.add_axes(_COLORBAR)
    )
    bar.set_label("Pattern (unit of the data)")
    where = ""
    if region is not None:
        where = f"region {result.geometry.names[result.geometry.find(region)]}, "
    style.title_figure(figure, where + style.describe(result), y=0.99, va="top")


def _draw_slices(figure, boxes, volume, maps, views, cut_coords, bg_img, colors):
    """Draw rows of slices, all cut at the same places."""
    from nilearn.plotting import plot_stat_map

    largest = np.nan_to_num(np.abs(maps).max(axis=1))
    flat = flat_axis(volume)
    views = "z" if views is None else views
    views = check_option("views", flat or views, ("x", "y", "z"))
    if flat:
        cut_coords = [float(volume.points[0, "xyz".index(flat)])]
    elif cut_coords is None or isinstance(cut_coords, int):
        n = _N_SLICES if cut_coords is None else cut_coords
        cut_coords = _cuts(volume.points[:, "xyz".index(views)], largest**2, n)
    if bg_img is None and not has_template(volume):
        bg_img = volume.to_img(np.ones(len(maps)))
    background = {} if bg_img is None else {"bg_img": bg_img}
    for box, values in zip(boxes, maps.T, strict=True):
        place = slices_in(figure, box, views, cut_coords)
        look = background | colors | {"resampling_interpolation": "nearest"}
        plot_stat_map(volume.to_img(np.nan_to_num(values)), **place, **look)


def _cuts(places, weights, n):
    """Up to n places along an axis with about as much weight between them."""
    # nilearn's find_cut_slices spreads cuts of a small region over the whole brain.
    order = np.argsort(places)
    share = np.cumsum(weights[order]) / weights.sum()
    at = np.searchsorted(share, (np.arange(n) + 0.5) / n).clip(max=len(places) - 1)
    return np.unique(places[order][at]).tolist()


def _draw_surfaces(figure, boxes, surface, maps, views, cut_coords, bg_img, colors):
    """Draw rows of hemispheres, each from every side."""
    if cut_coords is not None:
        raise ValueError("A surface has no cuts; leave out cut_coords, or pass views.")
    views = ("lateral", "medial") if views is None else np.atleast_1d(views)
    sides = [(part, str(view)) for part in surface.coordinates for view in views]
    for box, values in zip(boxes, maps.T, strict=True):
        data = surface.to_img(values, outside=np.nan).data.parts
        width = box[2] / len(sides)
        for column, (part, view) in enumerate(sides):
            place = box[0] + column * width, box[1], width, box[3]
            draw_hemisphere(
                figure, place, surface, part, view, data[part], bg_img, colors
            )


#: What draws the rows, by the kind of space.
_ROWS_OF = {"volume": _draw_slices, "surface": _draw_surfaces}
