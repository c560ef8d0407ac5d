"""Brains with scores: slices, a glass brain, and hemispheres.

nilearn and matplotlib are imported inside the functions, so that decoding never loads
them for its figures. The closer a score is to chance, the more of the brain shows
through. Every function makes a figure and leaves room for the colorbar.
"""

import numpy as np

from .labels import BOUND
from .maps import N_COLORS

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
