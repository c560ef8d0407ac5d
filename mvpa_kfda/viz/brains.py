"""Figures of images: slices, a glass brain, hemispheres, and bars of regions.

nilearn and matplotlib are imported inside the functions, so that decoding never loads
them for its figures. The closer a score is to chance, the more of the brain shows
through. Every function makes a figure and leaves room for the colorbar.

Matplotlib is imported inside the functions, so that decoding never loads it. Red is
above chance and blue below it; what is significant is outlined, or has another color.
"""

import textwrap
import warnings
from dataclasses import dataclass

import numpy as np

from ..utils.checks import check_option
from .common import (
    BOUND,
    LEGEND,
    NULL_COLOR,
    SCORE_COLOR,
    SIGNIFICANT_COLOR,
    TITLE_DENSITY,
    check_request,
    describe,
    draw_chance,
    find_marked,
    is_difference,
    label_of,
    level_of,
    limits_of,
    marking,
    set_title,
    shown_metric,
)
from .maps import N_COLORS, colors_for
from .time import INTERVAL_LABEL, mean_interval

#: Share of the voxels that lie in the MNI brain if it makes a good background.
_IN_TEMPLATE = 0.9

#: Scores this far from chance, relative to the end of the colors, hide the brain.
_OPAQUE = 0.5

#: Slices in a row.
N_SLICES = 7

# Where the brains are in the figure: left, bottom, width, height.
_BRAINS = (0.01, 0.12, 0.87, 0.76)


# ------------------------------------------------------------------------- in volumes


def plot_slices(result, drawn, views, cut_coords, bg_img):
    """Draw slices, with an outline around what is marked."""
    from matplotlib.pyplot import figure as new_figure
    from nilearn.plotting import plot_anat

    space = result.geometry
    volume = space.base if space.kind == "regions" else space
    flat = _flat_axis(volume)
    if views is None:
        views = flat or "ortho"
    if cut_coords is None:
        cut_coords = _cuts(result, drawn, views, volume if views == flat else None)
    row = views in ("x", "y", "z") and not flat
    figure = new_figure(figsize=(8.5, 2.6 if row else 3.8))
    display = plot_anat(
        **_background(result, volume, bg_img, flat),
        figure=figure,
        axes=_BRAINS,
        display_mode=views,
        cut_coords=cut_coords,
        black_bg=False,
        draw_cross=False,
        colorbar=False,
    )
    _overlay(display, space, drawn, drawn.values)
    if drawn.marked is not None and drawn.marked.any():
        img = _padded(space.to_img(drawn.marked.astype(np.float32)))
        display.add_contours(img, levels=[0.5], colors="black", linewidths=1.2)
    return figure


def _padded(img):
    """Return an image with a rim of zeros, so that outlines close at its border."""
    from nibabel import Nifti1Image

    affine = img.affine.copy()
    affine[:3, 3] -= affine[:3, :3].sum(axis=1)
    return Nifti1Image(np.pad(img.get_fdata(dtype=np.float32), 1), affine)


def plot_glass_brain(result, drawn, views, cut_coords, bg_img):
    """Draw the outline of a brain; what is marked shines through."""
    from matplotlib.pyplot import figure as new_figure
    from nilearn import plotting

    if cut_coords is not None or bg_img is not None:
        raise ValueError(
            "A glass brain has neither cuts nor a background; leave out cut_coords "
            "and bg_img, or use kind='stat_map'."
        )
    figure = new_figure(figsize=(8.5, 3.4))
    display = plotting.plot_glass_brain(
        None,
        figure=figure,
        axes=_BRAINS,
        display_mode=views or "lyrz",
        plot_abs=False,
        black_bg=False,
    )
    # All values at once would hide each other: without marks, those above chance.
    shown = drawn.marked
    if shown is None:
        no_level = np.isnan(drawn.chance)
        shown = np.isfinite(drawn.values) & (no_level | (drawn.values > drawn.chance))
    if shown.any():
        values = np.where(shown, drawn.values, np.nan)
        _overlay(display, result.geometry, drawn, values, fade=False)
    return figure


def _overlay(display, space, drawn, values, fade=True):
    """Draw values over the brains of a nilearn display; NaN is not drawn."""
    low, high = drawn.norm.vmin, drawn.norm.vmax
    # nilearn takes zero for nothing, so the values are moved: zero is chance then, or
    # the lower end. What lies just there is moved a little further.
    nothing = 1e-6 * (high - low)
    zero = drawn.chance if low <= drawn.chance <= high else low - 2 * nothing
    moved = np.where(np.abs(values - zero) < nothing, nothing, values - zero)
    display.add_overlay(
        space.to_img(np.nan_to_num(moved)),
        threshold=nothing / 2,
        vmin=low - zero,
        vmax=high - zero,
        cmap=_fading(drawn) if fade else drawn.cmap,
        resampling_interpolation="nearest",
    )


def _fading(drawn):
    """Return the colors, the more transparent the closer they are to chance."""
    from matplotlib.colors import ListedColormap

    low, high, chance = drawn.norm.vmin, drawn.norm.vmax, drawn.chance
    shades = drawn.cmap(np.linspace(0, 1, N_COLORS))
    if low <= chance <= high:
        away = np.abs(np.linspace(low, high, N_COLORS) - chance)
        shades[:, 3] = np.minimum(1, away / (_OPAQUE * away.max()))
    return ListedColormap(shades)


def _flat_axis(volume):
    """Return the axis of the brain along which the grid has one slice; None if none."""
    for k, n_slices in enumerate(volume.mask.shape):
        if n_slices == 1:
            return "xyz"[np.abs(volume.affine[:3, k]).argmax()]
    return None


def _cuts(result, drawn, views, flat_volume):
    """Return where to cut: at the only slice, or through the highest scores."""
    from nilearn.plotting import find_cut_slices

    if flat_volume is not None:
        return [float(flat_volume.points[0, "xyz".index(views)])]
    if np.isnan(drawn.values).all():  # no prevalence bound anywhere
        return None  # nilearn takes the middle of the background
    marked = np.zeros(result.shape, bool) if drawn.marked is None else drawn.marked
    values = np.where(marked, drawn.values, np.nan) if marked.any() else drawn.values
    if drawn.metric == BOUND:  # many places share the largest
        values = np.where(values == np.nanmax(values), result.scores, np.nan)
    if views in ("ortho", "tiled"):
        return tuple(float(x) for x in _place(result.geometry, np.nanargmax(values)))
    if views not in ("x", "y", "z"):
        return None  # nilearn spreads them
    lowest = np.nanmin(result.scores if drawn.metric == BOUND else drawn.values)
    above = np.nan_to_num(values - lowest)
    return find_cut_slices(result.geometry.to_img(above), views, N_SLICES)


def _place(space, position):
    """Return where a position is in mm; of a region, a voxel near its middle."""
    if space.kind != "regions":
        return space.points[position]
    own = space.base.points[space.index == position]
    return own[np.linalg.norm(own - own.mean(axis=0), axis=1).argmin()]


def _background(result, volume, bg_img, flat):
    """Return nilearn's arguments for the image behind the scores."""
    if bg_img is not None:
        return {"anat_img": bg_img}
    if not flat and _in_template(volume):
        return {}  # its default is the MNI template
    silhouette = result.geometry.to_img(result.decoded)
    return {"anat_img": silhouette, "vmin": 0, "vmax": 1.15, "threshold": 0.5}


def _in_template(volume):
    """Tell whether the voxels lie within the MNI brain, most of them."""
    from nilearn.datasets import load_mni152_brain_mask

    brain = load_mni152_brain_mask(resolution=2)
    inside, n = np.asarray(brain.dataobj) > 0, volume.n_positions
    places = np.c_[volume.points, np.ones(n)] @ np.linalg.inv(brain.affine).T
    index = np.rint(places[:, :3]).astype(int)
    within = ((index >= 0) & (index < inside.shape)).all(axis=1)
    return np.count_nonzero(inside[tuple(index[within].T)]) >= _IN_TEMPLATE * n


# ----------------------------------------------------------------------- on surfaces


def plot_surface(result, drawn, views, cut_coords, bg_img):
    """Draw the hemispheres, side by side, from each view."""
    from matplotlib.pyplot import figure as new_figure

    if cut_coords is not None:
        raise ValueError("A surface has no cuts; leave out cut_coords, or give views.")
    views = ("lateral", "medial") if views is None else np.atleast_1d(views)
    space = result.geometry
    surface = space.base if space.kind == "regions" else space
    parts = list(surface.coordinates)
    values = space.to_img(drawn.values, outside=np.nan).data.parts
    marks = np.zeros(result.shape) if drawn.marked is None else drawn.marked
    marks = space.to_img(marks.astype(np.int32), dtype=np.int32).data.parts
    figure = new_figure(figsize=(0.6 + 3.6 * len(parts), 0.9 + 2.5 * len(views)))
    left, bottom, width, height = _BRAINS
    width, height = width / len(parts), height / len(views)
    for row, view in enumerate(reversed(views)):
        for column, part in enumerate(parts):
            corner = left + column * width, bottom + row * height
            ax = figure.add_axes(_grown(*corner, width, height), projection="3d")
            ax.patch.set_visible(False)  # or it hides parts of its neighbours
            background = _shading(surface, part, bg_img)
            _draw_hemisphere(
                ax,
                surface,
                part,
                str(view),
                values[part],
                marks[part],
                drawn,
                background,
            )
    for column, part in enumerate(parts):
        middle = left + (column + 0.5) * width
        figure.text(middle, 0.89, part.capitalize(), ha="center")
    return figure


def _grown(left, bottom, width, height, by=0.12):
    """Return a box that is larger to all sides: 3-D axes keep wide margins."""
    rim = by * width, by * height
    return left - rim[0], bottom - rim[1], width + 2 * rim[0], height + 2 * rim[1]


def _draw_hemisphere(ax, surface, part, view, values, marks, drawn, background):
    """Draw one hemisphere from one side."""
    from nilearn.plotting import plot_surf, plot_surf_contours
    from nilearn.surface import InMemoryMesh

    # Copies, because nilearn moves the coordinates it is given.
    mesh = InMemoryMesh(surface.coordinates[part].copy(), surface.faces[part].copy())
    plot_surf(
        mesh,
        values,
        bg_map=background,
        hemi=part,
        view=view,
        cmap=_fading(drawn),
        vmin=drawn.norm.vmin,
        vmax=drawn.norm.vmax,
        colorbar=False,
        axes=ax,
        engine="matplotlib",
    )
    if marks.any():
        # Around the marked vertices and not over them, so that they are seen, and so
        # that nilearn finds an area even where there is one vertex alone.
        around = marks.copy()
        around[mesh.faces[marks[mesh.faces].any(axis=1)]] = 1
        plot_surf_contours(
            mesh, around, hemi=part, levels=[1], colors=["black"], axes=ax
        )


def _shading(surface, part, bg_img):
    """Return the gray behind the scores, (n_vertices,): folds, or what was given."""
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
    """Plot the scores in the brain, or as bars.

    Parameters
    ----------
    result : VolumeResult
        The result to draw.
    kind : str or None
        "stat_map": slices of the brain. "glass_brain": what is significant, seen
        through the brain, which must be in MNI space; without permutations and
        threshold, all that is above chance. "surface": the meshes of the result.
        "bar": one row per region or feature, a curve if there are many. None
        takes "stat_map" in a volume, "surface" on a surface, else "bar".
    metric : str or None
        Name of the metric; None takes the first that is one number per position.
    correction : str
        Correction of the p-values for testing many positions.
    alpha : float
        Positions with p <= alpha are outlined or marked.
    threshold : float or None
        In place of that, mark the positions that score as much.
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
    metric, correction = check_request(result, metric, correction, alpha)
    values, chance = result.metrics[metric], result.chances[metric]
    decoded = result.decoded
    if not decoded.any():
        raise ValueError("There is nothing to plot: no position could be decoded.")
    name, noun = label_of(result, metric), result.geometry.noun
    if threshold is None:
        marked, label = marking(result, metric, correction, alpha, noun)
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
        draw_chance(bar.ax.axhline, drawn.chance, level=drawn.level)
    handles = bar.ax.get_legend_handles_labels()[0]
    if drawn.marked is not None:
        style, label = {"ls": ""}, drawn.label
        if drawn.marked.any() and outlined:
            style = {"color": "black", "lw": 1.2}
        elif drawn.marked.any():
            label = f"shown: {label}"
        handles.insert(0, Line2D([], [], label=label, **style))
    if handles:
        figure.legend(handles=handles, loc="lower center", ncols=2, **LEGEND)
    width = int(TITLE_DENSITY * figure.get_figwidth())
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
    set_title(ax, result)
    ax.spines[["top", "right"]].set_visible(False)
    figure.legend(loc="outside lower center", ncols=2, **LEGEND)
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
    draw_chance(ax.axvline, drawn.chance, level=drawn.level)
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
    draw_chance(ax.axhline, drawn.chance, level=drawn.level)
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
