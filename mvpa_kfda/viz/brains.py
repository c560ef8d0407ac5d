"""Figures of images: slices, a glass brain, hemispheres, bars, and patterns.

Red is above chance and blue below it, and the closer a score is to chance, the more of
the brain shows through. What is significant is outlined, or has another color. nilearn
and matplotlib are imported inside the functions, so that decoding never loads them.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import replace
from itertools import chain
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from ..inference.corrections import CorrectionName
from ..inference.null import Alternative
from ..utils.checks import check_flag, check_option
from . import style
from .maps import N_COLORS, add_colorbar, check_colors, make_picture
from .time import INTERVAL_LABEL, mean_interval

if TYPE_CHECKING:
    from matplotlib.colors import Colormap
    from matplotlib.figure import Figure

#: Where the brains are in the figure: left, bottom, width, height.
_BRAINS = (0.01, 0.12, 0.87, 0.76)

#: Where the colorbar is in a figure of brains: left, bottom, width, height.
_COLORBAR = (0.9, 0.22, 0.018, 0.56)

#: Where its label ends at the latest.
_RIGHTMOST = 0.985


@style.draws_names
def plot_volume(
    result,
    kind: Literal["stat_map", "glass_brain", "surface", "bar"] | None = None,
    *,
    metric: str | None = None,
    correction: CorrectionName = "max",
    alpha: float = 0.05,
    threshold: float = 0.05,
    alternative: Alternative = "greater",
    min_score: float | None = None,
    views: str | Sequence[str] | None = None,
    cut_coords: int | Sequence[float] | None = None,
    bg_img: Any = None,
    vlim: tuple[float, float] | None = None,
    cmap: str | Colormap | None = None,
    legend: bool = True,
    show: bool = False,
) -> Figure:
    """Plot the scores in the brain, or as bars.

    Parameters
    ----------
    result : VolumeResult
        The result to draw.
    kind : str or None
        "stat_map": slices of the brain. "glass_brain": what is significant, seen
        through the brain, which must be in MNI space; without permutations and
        `min_score`, all that is above chance. "surface": the meshes of the result.
        "bar": one row per region or feature, a curve if there are many. None
        takes "stat_map" in a volume, "surface" on a surface, else "bar". Results of
        CIFTI files have "surface" if meshes were given, which None takes first,
        "stat_map" and "glass_brain" for their voxels, and "bar".
    metric : str or None
        Name of the metric; None takes the first that is one number per position.
    correction : str
        Correction of the p-values for testing many positions.
    alpha : float
        Positions with p <= alpha are outlined or marked.
    threshold : float
        p-level that forms the clusters of "cluster" and "cluster-size".
    alternative : {"greater", "less", "two-sided"}
        Which scores are tested for, as in `pvalues`.
    min_score : float or None
        In place of p <= alpha, mark the positions that score as much.
    views : str, sequence of str, or None
        What nilearn calls `display_mode` on slices and on glass brains ("ortho",
        "z", "mosaic", "lyrz", ...), and the views of a surface. None chooses.
    cut_coords : int, sequence of float, or None
        Where to cut slices, in mm, or how many. None cuts through the highest
        score, that of a significant voxel if there is one.
    bg_img : image or None
        What is drawn behind the scores: an image of the brain, or a surface image
        of the depth of its folds. None takes nilearn's MNI template where the
        voxels fit it, else the shape of what was decoded; on a surface, its
        folds.
    vlim : tuple of float or None
        Scores at the two ends of the colors; None makes them symmetric about
        chance.
    cmap : str or None
        A color map of matplotlib.
    legend : bool
        Draw the legend.
    show : bool
        Show the figure at once.

    Returns
    -------
    figure : matplotlib Figure
        Brains first, the colorbar last; or one Axes with bars or a curve. Save it with
        ``figure.savefig("scores.png")``.

    Raises
    ------
    ValueError
        If an argument is not valid, if nothing was decoded, or if the correction
        needs permutations that were not kept.
    """
    kinds = kinds_of(result.geometry)
    kind = kinds[0] if kind is None else check_option("kind", kind, kinds)
    _check_views(views, kind)
    check_flag("legend", legend)
    metric = style.shown_metric(result, metric)
    style.check_request(result, metric, correction, alpha)
    if not result.decoded.any():
        raise ValueError("There is nothing to plot: no position could be decoded.")
    tested = metric, correction, alpha, threshold, alternative
    noun = result.geometry.noun
    picture = make_picture(result, noun, tested, (vlim, cmap), min_score)
    if kind == "bar":
        figure = _plot_bars(result, picture, legend)
    else:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # what nilearn thinks of its own defaults
            drawn = on_part(result, picture, kind)
            try:
                figure = BRAINS[kind](*drawn, views, cut_coords, bg_img)
            except (TypeError, RecursionError) as error:  # of what nilearn was given
                raise TypeError(
                    "nilearn cannot draw this with "
                    f"views={views!r}, cut_coords={cut_coords!r} and bg_img={bg_img!r}"
                    f": {error}"
                ) from error
        handles = _colors_and_marks(figure, picture, kind != "glass_brain")
        if handles and legend:
            style.add_figure_legend(figure, handles, "lower center")
        style.title_figure(figure, style.describe(result))
    return style.maybe_show(figure, show)


def kinds_of(space):
    """The kinds of figures that there are of a space, the usual one first."""
    if space.kind == "regions":
        return tuple(dict.fromkeys((*KINDS["regions"], *kinds_of(space.base))))
    if space.kind != "grayordinates":
        return KINDS[space.kind]
    # The space of the cortex comes before those of the voxels of each structure.
    filled = {part.kind for part, where in space.pieces() if len(where)}
    kinds = [KINDS[kind] for kind in ("surface", "volume") if kind in filled]
    return tuple(chain(*kinds, KINDS["grayordinates"]))


def fits_glass_brain(space):
    """Whether the voxels of a space fit the outline of a brain."""
    return has_template(space if space.kind == "volume" else space.volume[0])


def on_part(result, picture, kind):
    """The surfaces or the voxels of a CIFTI file, and what is drawn there.

    Of a result, figures of brains ask for no more than these fields.
    """
    space = result.geometry
    if space.base.kind != "grayordinates":
        return result, picture
    part, where = space.base.volume
    if kind == "surface":
        part, where = next(space.base.pieces())
    if space.kind == "regions":  # every voxel or vertex has its region's value
        where = space.index[where]

    def take(values, fill):  # which is what there is outside of all regions
        return None if values is None else np.append(values, fill)[where]

    decoded, scores = take(result.decoded, False), take(result.scores, np.nan)
    drawn = {
        "values": take(picture.values, np.nan),
        "marked": take(picture.marked, False),
        "favour": take(picture.favour, np.nan),
    }
    fields = {"decoded": decoded, "scores": scores, "shape": scores.shape}
    return SimpleNamespace(geometry=part, **fields), replace(picture, **drawn)


def _colors_and_marks(figure, picture, outlined):
    """Add the colorbar; return what the legend shows: an outline or what is shown."""
    from matplotlib.cm import ScalarMappable
    from matplotlib.lines import Line2D

    colors = ScalarMappable(picture.norm, picture.cmap)
    cax = figure.add_axes(_COLORBAR)
    handles = add_colorbar(figure, colors, picture, cax=cax)
    # To the left until its label is in the figure.
    beyond = cax.get_tightbbox().x1 / figure.bbox.width - _RIGHTMOST
    cax.set_position((_COLORBAR[0] - max(0.0, beyond), *_COLORBAR[1:]))
    if picture.marked is not None:
        look, label = {"ls": ""}, picture.label
        if picture.marked.any() and outlined:
            look = {"color": "black", "lw": 1.2}
        elif picture.marked.any():
            label = f"shown: {label}"
        handles.insert(0, Line2D([], [], label=label, **look))
    return handles


# --------------------------------------------------------------------------- in volumes


#: Slices in a row.
N_SLICES = 7


def plot_slices(result, picture, views, cut_coords, bg_img):
    """Draw slices, with an outline around what is marked."""
    from nibabel import Nifti1Image
    from nilearn.plotting import plot_anat

    space = result.geometry
    volume = volume_of(space)
    flat = flat_axis(volume)
    if views is None:
        views = flat or "ortho"
    if cut_coords is None:
        cut_coords = choose_cuts(
            result, picture, views, volume if views == flat else None
        )
    row = views in ("x", "y", "z") and not flat
    figure = style.new_figure((8.5, 2.6 if row else 3.8))
    place = slices_in(figure, _BRAINS, views, cut_coords)
    display = plot_anat(**_background(result, volume, bg_img), **place)
    _overlay(display, space, picture, picture.values)
    if picture.marked is not None and picture.marked.any():
        img = space.to_img(picture.marked.astype(np.float32))
        # A rim of zeros, so that outlines close at the border of the image.
        affine = img.affine.copy()
        affine[:3, 3] -= affine[:3, :3].sum(axis=1)
        img = Nifti1Image(np.pad(img.get_fdata(dtype=np.float32), 1), affine)
        display.add_contours(img, levels=[0.5], colors="black", linewidths=1.2)
    return figure


def slices_in(figure, axes, views, cut_coords):
    """Nilearn's arguments for slices in a part of a figure, on white."""
    plain = {"black_bg": False, "draw_cross": False, "colorbar": False}
    cuts = {"display_mode": views, "cut_coords": cut_coords}
    return {"figure": figure, "axes": axes} | cuts | plain


def plot_glass_brain(result, picture, views, cut_coords, bg_img):
    """Draw the outline of a brain; what is marked shines through."""
    from nilearn import plotting

    if cut_coords is not None or bg_img is not None:
        raise ValueError(
            "A glass brain has neither cuts nor a background; leave out cut_coords "
            "and bg_img, or use kind='stat_map'."
        )
    figure = style.new_figure((8.5, 3.4))
    place = {"figure": figure, "axes": _BRAINS, "display_mode": views or "lyrz"}
    display = plotting.plot_glass_brain(None, plot_abs=False, black_bg=False, **place)
    # All values at once would hide each other: without marks, those above chance.
    shown = picture.marked
    if shown is None:
        no_level = np.isnan(picture.chance)
        shown = np.isfinite(picture.values) & (
            no_level | (picture.values > picture.chance)
        )
    if shown.any():
        values = np.where(shown, picture.values, np.nan)
        _overlay(display, result.geometry, picture, values, fade=False)
    return figure


def _overlay(display, space, picture, values, fade=True):
    """Draw values over the brains of a nilearn display; NaN is not drawn."""
    low, high = picture.norm.vmin, picture.norm.vmax
    # nilearn takes zero for nothing, so the values are moved: zero is chance then, or
    # the lower end. What lies just there is moved a little further.
    nothing = 1e-6 * (high - low)
    zero = picture.chance if low <= picture.chance <= high else low - 2 * nothing
    moved = np.where(np.abs(values - zero) < nothing, nothing, values - zero)
    display.add_overlay(
        space.to_img(np.nan_to_num(moved)),
        threshold=nothing / 2,
        vmin=low - zero,
        vmax=high - zero,
        cmap=fading(picture) if fade else picture.cmap,
        resampling_interpolation="nearest",
    )


#: Scores this far from chance, relative to the end of the colors, hide the brain.
_OPAQUE = 0.5


def fading(picture):
    """The colors, the more transparent the closer they are to chance."""
    from matplotlib.colors import ListedColormap

    low, high, chance = picture.norm.vmin, picture.norm.vmax, picture.chance
    shades = picture.cmap(np.linspace(0, 1, N_COLORS))
    if low <= chance <= high:
        away = np.abs(np.linspace(low, high, N_COLORS) - chance)
        shades[:, 3] = np.minimum(1, away / (_OPAQUE * away.max()))
    return ListedColormap(shades)


def flat_axis(volume):
    """The axis of the brain along which the grid has one slice; None if none."""
    for k, n_slices in enumerate(volume.mask.shape):
        if n_slices == 1:
            return "xyz"[np.abs(volume.affine[:3, k]).argmax()]
    return None


def choose_cuts(result, picture, views, flat_volume):
    """Where to cut: at the only slice, or through what is tested for most."""
    from nilearn.plotting import find_cut_slices

    if flat_volume is not None:
        return [float(flat_volume.points[0, "xyz".index(views)])]
    if np.isnan(picture.values).all():  # no prevalence bound anywhere
        return None  # nilearn takes the middle of the background
    marked = np.zeros(result.shape, bool) if picture.marked is None else picture.marked
    favour = picture.favour
    values = np.where(marked, favour, np.nan) if marked.any() else favour
    if picture.metric == style.BOUND:  # many places share the largest
        values = np.where(values == np.nanmax(values), result.scores, np.nan)
    if views in ("ortho", "tiled"):
        return tuple(float(x) for x in _place(result.geometry, np.nanargmax(values)))
    if views not in ("x", "y", "z"):
        return None  # nilearn spreads them
    lowest = np.nanmin(result.scores if picture.metric == style.BOUND else favour)
    above = np.nan_to_num(values - lowest)
    cuts = find_cut_slices(result.geometry.to_img(above), views, N_SLICES)
    # nilearn spreads those of a small area until they leave the brain.
    along = volume_of(result.geometry).points[:, "xyz".index(views)]
    return np.unique(np.clip(cuts, along.min(), along.max()))


def volume_of(space):
    """The voxels of a space, or of its regions."""
    return space.base if space.kind == "regions" else space


def _place(space, position):
    """Where a position is in mm; of a region, a voxel near its middle."""
    if space.kind != "regions":
        return space.points[position]
    own = space.base.points[space.membership[[position]].indices]
    return own[np.linalg.norm(own - own.mean(axis=0), axis=1).argmin()]


def _check_views(views, kind):
    """Refuse what is no name of a view, or no list of names on a surface."""
    several = isinstance(views, Sequence) and kind == "surface"
    names = views if several and not isinstance(views, str) else [views]
    for name in names:
        if name is not None and (not isinstance(name, str) or not name):
            raise TypeError(
                f"Invalid value for 'views': {views!r}. Allowed: None, or a name as "
                "nilearn's display_mode, e.g. 'ortho', 'z' or 'mosaic' on slices and "
                "'lyrz' on glass brains; on a surface its views, e.g. ['lateral']."
            )


def _background(result, volume, bg_img):
    """Nilearn's arguments for the image behind the scores."""
    if bg_img is not None:
        return {"anat_img": bg_img}
    if has_template(volume):
        return {}  # its default is the MNI template
    silhouette = result.geometry.to_img(result.decoded)
    return {"anat_img": silhouette, "vmin": 0, "vmax": 1.15, "threshold": 0.5}


def has_template(volume):
    """Whether the MNI brain, of several slices, makes a good background."""
    return flat_axis(volume) is None and in_template(volume)


#: Share of the voxels that lie in the MNI brain if it makes a good background.
_IN_TEMPLATE = 0.9


def in_template(volume):
    """Whether the voxels lie within the MNI brain, most of them."""
    from nilearn.datasets import load_mni152_brain_mask

    brain = load_mni152_brain_mask(resolution=2)
    inside, n = np.asarray(brain.dataobj) > 0, volume.n_positions
    places = np.c_[volume.points, np.ones(n)] @ np.linalg.inv(brain.affine).T
    index = np.rint(places[:, :3]).astype(int)
    within = ((index >= 0) & (index < inside.shape)).all(axis=1)
    return np.count_nonzero(inside[tuple(index[within].T)]) >= _IN_TEMPLATE * n


# -------------------------------------------------------------------------- on surfaces


def plot_surface(result, picture, views, cut_coords, bg_img):
    """Draw the hemispheres, side by side, from each view."""
    if cut_coords is not None:
        raise ValueError("A surface has no cuts; leave out cut_coords, or pass views.")
    views = ("lateral", "medial") if views is None else np.atleast_1d(views)
    space = result.geometry
    surface = space.base if space.kind == "regions" else space
    parts = list(surface.coordinates)
    values = space.to_img(picture.values, outside=np.nan).data.parts
    marks = np.zeros(result.shape) if picture.marked is None else picture.marked
    marks = space.to_img(marks.astype(np.int32), dtype=np.int32).data.parts
    colors = {"vmin": picture.norm.vmin, "vmax": picture.norm.vmax}
    colors["cmap"] = fading(picture)
    figure = style.new_figure((0.6 + 3.6 * len(parts), 0.9 + 2.5 * len(views)))
    left, bottom, width, height = _BRAINS
    width, height = width / len(parts), height / len(views)
    for row, view in enumerate(reversed(views)):
        for column, part in enumerate(parts):
            box = left + column * width, bottom + row * height, width, height
            ax, mesh = draw_hemisphere(
                figure, box, surface, part, str(view), values[part], bg_img, colors
            )
            _outline_vertices(ax, mesh, part, marks[part])
    for column, part in enumerate(parts):
        middle = left + (column + 0.5) * width
        figure.text(middle, 0.89, part.capitalize(), ha="center")
    return figure


#: The share by which 3-D axes are larger than their box, as they keep wide margins.
_MARGIN = 0.12


def draw_hemisphere(figure, box, surface, part, view, values, bg_img, colors):
    """Draw one hemisphere from one side; return the Axes and the mesh."""
    from nilearn.plotting import plot_surf
    from nilearn.surface import InMemoryMesh

    left, bottom, width, height = box
    across, up = _MARGIN * width, _MARGIN * height
    grown = left - across, bottom - up, width + 2 * across, height + 2 * up
    ax = figure.add_axes(grown, projection="3d")
    ax.patch.set_visible(False)  # or it hides parts of its neighbours
    # Copies, because nilearn moves the coordinates it is given.
    mesh = InMemoryMesh(surface.coordinates[part].copy(), surface.faces[part].copy())
    plot_surf(
        mesh,
        values,
        bg_map=shading_of(surface, part, bg_img),
        hemi=part,
        view=view,
        colorbar=False,
        axes=ax,
        engine="matplotlib",
        **colors,
    )
    return ax, mesh


def _outline_vertices(ax, mesh, part, marks):
    """Draw a line around the marked vertices (n_vertices,) of a hemisphere."""
    from nilearn.plotting import plot_surf_contours

    if marks.any():
        # Around the marked vertices and not over them, so that they are seen, and so
        # that nilearn finds an area even where there is one vertex alone.
        around = marks.copy()
        around[mesh.faces[marks[mesh.faces].any(axis=1)]] = 1
        plot_surf_contours(
            mesh, around, hemi=part, levels=[1], colors=["black"], axes=ax
        )


def shading_of(surface, part, bg_img):
    """The gray behind the scores, (n_vertices,): folds, or what was given."""
    if bg_img is not None:
        return bg_img.data.parts[part]
    vertices, faces = surface.coordinates[part], surface.faces[part]
    corners = vertices[faces]
    normals = np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])
    outward, neighbors = np.zeros((2, *vertices.shape))
    for k in range(3):
        np.add.at(outward, faces[:, k], normals)
        np.add.at(neighbors, faces[:, k], corners.sum(axis=1) - corners[:, k])
    counts = 2 * np.bincount(faces.ravel(), minlength=len(vertices))
    middle = neighbors / np.maximum(counts, 1)[:, np.newaxis]
    # How far a vertex lies below its neighbors: the bottom of a fold is dark.
    length = np.linalg.norm(outward, axis=1)
    depth = ((middle - vertices) * outward).sum(axis=1) / np.where(length, length, 1)
    limit = np.percentile(np.abs(depth), 90) or 1.0
    return 0.45 + 0.2 * np.clip(depth / limit, -1, 1)


# ----------------------------------------------------------------- regions and features


#: Above so many positions there is a curve instead of bars with names.
MOST_BARS = 40


def _plot_bars(result, picture, legend):
    """Draw one line per position, or a curve of many, with the permutations behind."""
    many = len(picture.values) > MOST_BARS
    size = (7.5, 4.2) if many else (7.0, 1.7 + 0.26 * len(picture.values))
    figure = style.new_figure(size, "constrained")
    ax = figure.add_subplot()
    band = _subjects_band if result.has_subjects else _null_band
    low, high, label = band(result, picture)
    look = {"color": style.NULL_COLOR, "alpha": 0.55, "lw": 0, "label": label}
    (_draw_curve if many else _draw_rows)(ax, result, picture, low, high, look)
    if picture.metric == style.BOUND:
        ax.set(**{"ylim" if many else "xlim": (0, 1)})
    figure.draw_without_rendering()  # lays out the names, so that the title fits
    style.set_title(ax, result)
    ax.spines[["top", "right"]].set_visible(False)
    if legend:
        style.add_figure_legend(figure)
    return figure


def _null_band(result, picture):
    """Where the middle 95 % of the permutations are, NaN if there are none."""
    low, high = np.full((2, len(picture.values)), np.nan)
    null = result.null_of(picture.metric)
    for i in np.flatnonzero(result.decoded) if len(null) else ():
        # One by one, so that the null is not copied.
        low[i], high[i] = np.percentile(null[:, i], [2.5, 97.5])
    return low, high, style.NULL_BAND


def _subjects_band(result, picture):
    """The interval of the mean over subjects, as far as scores go."""
    if picture.metric != result.metric or result.is_difference:
        return _null_band(result, picture)
    low, high = np.clip(
        mean_interval(result.subject_scores)[1:], *style.limits_of(result)
    )
    return low, high, INTERVAL_LABEL


def _draw_rows(ax, result, picture, low, high, look):
    """Draw a map as dots in rows with names, that with the highest score on top."""
    names = next(iter(result.geometry.columns().values()))
    # One order for all maps of a result: they can be compared row by row.
    order = np.argsort(np.nan_to_num(result.scores, nan=-np.inf), kind="stable")
    rows, values = np.arange(len(order)), picture.values[order]
    ax.use_sticky_edges = False  # keeps the bands off the border
    if np.isfinite(low).any():
        ax.barh(rows, (high - low)[order], left=low[order], height=0.62, **look)
    start = 0.0 if picture.metric == style.BOUND else picture.chance
    if np.isfinite(start):
        ax.hlines(rows, start, values, color=style.SCORE_COLOR, lw=1.5)
    label = picture.name
    ax.plot(values, rows, "o", color=style.SCORE_COLOR, ms=6, label=label)
    if picture.marked is not None:
        marked = picture.marked[order]
        _draw_marks(ax, values[marked], rows[marked], picture.label, ms=7)
    style.draw_chance(ax, picture.chance, level=picture.level, upright=True)
    style.draw_permuted(ax, picture.permuted, picture.metric, upright=True)
    texts = [
        style.cut(str(names[i])) + ("" if result.decoded[i] else " (not decoded)")
        for i in order
    ]
    ax.set_yticks(rows, texts)
    noun = result.geometry.noun.capitalize()
    ax.set(xlabel=label, ylabel=noun, ylim=(-0.7, len(rows) - 0.3))


def _draw_curve(ax, result, picture, low, high, look):
    """Draw the scores as a curve over the positions, in their own order."""
    x, label = np.arange(len(picture.values)), picture.name
    # Single bounds between places without one would be lines of no length.
    is_bound = picture.metric == style.BOUND
    shown = np.nan_to_num(picture.values) if is_bound else picture.values
    ax.plot(x, shown, color=style.SCORE_COLOR, lw=1.2, zorder=3, label=label)
    style.draw_chance(ax, picture.chance, level=picture.level)
    style.draw_permuted(ax, picture.permuted, picture.metric)
    if np.isfinite(low).any():
        ax.fill_between(x, low, high, step="mid", **look)
    if picture.marked is not None:
        x_marked = x[picture.marked]
        _draw_marks(ax, x_marked, picture.values[picture.marked], picture.label, ms=4)
    noun = result.geometry.noun.capitalize()
    ax.set(xlabel=f"{noun} (index)", ylabel=label, xlim=(-0.5, len(x) - 0.5))


def _draw_marks(ax, x, y, label, ms):
    """Draw dots on what is marked; without any, the label says so."""
    marker = "o" if len(x) else " "
    ax.plot(x, y, marker, color=style.SIGNIFICANT_COLOR, ms=ms, zorder=4, label=label)


# --------------------------------------------------------------------- kinds of figures


#: The kinds of figures, by the kind of space; see `kinds_of` for those of two kinds.
KINDS = {
    "volume": ("stat_map", "glass_brain"),
    "surface": ("surface",),
    "grayordinates": ("bar",),
    "regions": ("bar",),
    "features": ("bar",),
    "parcels": ("bar",),
}

#: The function that draws each kind of brain.
BRAINS = {
    "stat_map": plot_slices,
    "glass_brain": plot_glass_brain,
    "surface": plot_surface,
}


# ------------------------------------------------------------------ activation patterns

#: Where rows are (left, bottom, width), and where their colorbar is.
_ROWS = (0.01, 0.03, 0.85)
_COLORBAR_OF_ROWS = (0.875, 0.25, 0.018, 0.5)
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
    from matplotlib.cm import ScalarMappable
    from matplotlib.colors import Normalize

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
    scale = ScalarMappable(Normalize(low, high), cmap)
    bar = figure.colorbar(scale, cax=figure.add_axes(_COLORBAR_OF_ROWS))
    bar.set_label("Pattern (unit of the data)")
    where = ""
    if region is not None:
        where = f"region {result.geometry.names[result.geometry.find(region)]}, "
    style.title_figure(figure, where + style.describe(result), y=0.99, va="top")
    return style.maybe_show(figure, show)


def part_to_draw(space):
    """The surfaces or voxels that patterns are drawn on, and their positions."""
    if space.kind == "grayordinates":
        parts = (part for part in space.pieces() if len(part[1]))
        cortex = next((part for part in parts if part[0].kind == "surface"), None)
        return cortex or space.volume
    return (space if space.kind in _ROWS_OF else None), slice(None)


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
        n = N_SLICES if cut_coords is None else cut_coords
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
