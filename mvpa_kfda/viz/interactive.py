"""Brains to click through: nilearn's interactive views of maps, which need no network.

Colors and what they mean are those of the figures. nilearn is imported inside the
functions, so that decoding never loads it.
"""

from __future__ import annotations

import re
import warnings
from typing import TYPE_CHECKING, Any

import numpy as np

from ..metrics.scores import metric_in_text
from ..utils.checks import check_finite, check_option, check_share
from . import style
from .brains import (
    choose_cuts,
    fading,
    has_template,
    kinds_of,
    on_part,
    shading_of,
    volume_of,
)
from .maps import Picture, colors_for
from .notebook import html_of

if TYPE_CHECKING:
    from matplotlib.colors import Colormap as Colormap

#: Names of maps that are of p-values -> their words; the test follows in brackets.
_OF_P = {"p": "p", "neglog10p": "-log10 p", "z": "z"}

#: Names of other maps -> their words.
_WORDS = {
    "n_features": "Number of features",
    "lambda": "Penalty λ",
    "degrees_of_freedom": "Degrees of freedom",
}

#: The value of a map at which there is nothing, where it is no metric's.
_LEVELS = {"z": 0.0, "chance_difference": 0.0}

#: Millimeters between hemispheres that would lie in each other, such as inflated ones.
_GAP = 4.0

#: How light a silhouette is, from black to white, and pixels of height of a caption.
_GRAY, _CAPTION = 0.8, 40

_BODY = re.compile("<body[^>]*>")


@style.draws_names
def view_map(
    result, name, values, metric, correction, alpha, min_score, options, colors, *where
) -> Any:
    """Return nilearn's interactive view of a map.

    Parameters
    ----------
    result : VolumeResult or TestedMap
        The result, whose positions are in a brain.
    name : str
        Name of the map.
    values : array, shape (n_positions,)
        Its values, NaN where there are none.
    metric : str or None
        The metric of the p-values.
    correction, alpha, min_score
        As in `VolumeResult.view`.
    options : dict
        Further options of the p-values that are shown.
    colors : tuple
        ``vlim`` and ``cmap`` of `VolumeResult.view`.
    *where
        Its ``kind``, ``hemi``, ``cut_coords`` and ``bg_img``.

    Returns
    -------
    view : nilearn.plotting.html_stat_map.StatMapView or SurfaceView
        The view.
    """
    (kind, *where), kinds = where, views_of(result.geometry)
    if not kinds:
        raise ValueError(
            f"There is no view of {result.geometry.describe()}, which have no location "
            "in a brain. Use to_dataframe() or plot()."
        )
    kind = kinds[0] if kind is None else check_option("kind", kind, kinds)
    if np.isnan(values).all():
        raise ValueError(f"There is nothing to view: no position has a {name}.")
    shown, words = _shown(result, metric, correction, alpha, min_score, options)
    level = result.chances.get(name, _LEVELS.get(name, np.nan))
    if name in result.metrics:
        label = style.label_of(result, name)
    elif name in _OF_P:
        label = f"{_OF_P[name]} ({style.CORRECTION_LABELS[correction]})"
    else:
        label = _WORDS.get(name) or f"{style.metric_label(metric)} minus chance"
    norm, cmap = _colors(name, values, level, alpha, *colors)
    favour = result.favour(name) if name in result.metrics else values
    favour = -values if name == "p" else favour
    parts = name, label, level, "", values, shown, words, norm, cmap, favour
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what nilearn thinks of its own defaults
        return _VIEWS[kind](*on_part(result, Picture(*parts), kind), *where)


def views_of(space):
    """The kinds of views that there are of a space, the usual one first."""
    return [kind for kind in kinds_of(space) if kind in _VIEWS]


def _shown(result, metric, correction, alpha, min_score, options):
    """Which positions are shown (n_positions,), None for all, and words."""
    if min_score is not None:
        if alpha is not None:
            raise ValueError(
                "alpha and min_score both say which positions are shown; pass only one "
                "of the two."
            )
        shown = result.metrics[metric] >= check_finite("min_score", min_score)
        return shown, f"{metric_in_text(metric)} ≥ {min_score:g}"
    if alpha is None:
        return None, ""
    check_share("alpha", alpha)
    p = result.p_of_map(correction, metric, **options)
    return p <= alpha, f"p ≤ {alpha:g} ({style.CORRECTION_LABELS[correction]})"


def _colors(name, values, level, alpha, vlim, cmap):
    """The scale of the colors and the colors of a map."""
    if name == "p":  # small ones are what is looked for
        vlim, cmap = vlim or (0, alpha or 1), cmap or "viridis_r"
    elif name == style.BOUND:
        vlim, cmap, level = vlim or (0, 1), cmap or "YlGnBu", np.nan
    elif name == "neglog10p":
        vlim = vlim or (0, np.nanmax(values) or 1.0)
    elif vlim is None and np.isnan(level) and np.nanmin(values) == np.nanmax(values):
        vlim = np.nanmin(values) - 0.5, np.nanmin(values) + 0.5
    return colors_for(values, level, vlim, cmap)


def _title(picture):
    """Word what is shown, and where."""
    if picture.marked is None:
        return picture.name
    found = picture.marked.any()
    return f"{picture.name}, {'where' if found else 'nowhere'} {picture.label}"


def _drawn(picture):
    """Return values, 0 where nothing is drawn, and what is too small to be drawn."""
    nothing = 1e-6 * (picture.norm.vmax - picture.norm.vmin)
    values = np.asarray(picture.values, dtype=float)
    # nilearn takes zero for nothing; what is zero is moved a little.
    values = np.where(np.abs(values) < nothing, nothing, values)
    shown = np.isfinite(values)
    if picture.marked is not None:
        shown &= picture.marked
    return np.where(shown, values, 0.0), nothing / 2


def _shared(picture):
    """The arguments that both of nilearn's views take."""
    return {
        "vmin": picture.norm.vmin,
        "vmax": picture.norm.vmax,
        "cmap": fading(picture),
        "symmetric_cmap": False,
        "black_bg": False,
    }


# --------------------------------------------------------------------------- in volumes


def _view_volume(result, picture, hemi, cut_coords, bg_img):
    """Return slices to click through."""
    from nilearn.plotting import view_img

    if hemi != "both":
        raise ValueError("hemi selects a hemisphere of surfaces, not of voxels.")
    space = result.geometry
    if cut_coords is None:
        cut_coords = choose_cuts(result, picture, "ortho", None)
    if bg_img is None:
        known = has_template(volume_of(space))
        bg_img = "MNI152" if known else _silhouette(result, space)
    values, threshold = _drawn(picture)
    view = view_img(
        space.to_img(values),
        bg_img=bg_img,
        cut_coords=cut_coords,
        threshold=threshold,
        resampling_interpolation="nearest",
        **_shared(picture),
    )
    return _with_caption(view, _title(picture))


def _silhouette(result, space):
    """An image of what was decoded, gray on white, as nilearn needs no more."""
    from nibabel import Nifti1Image
    from nilearn.image import resample_img

    inside = space.to_img(np.where(result.decoded, 1.0, 0.0))
    size = np.abs(np.linalg.norm(inside.affine[:3, :3], axis=0)).min()
    # Of cubes along the axes, or nilearn resamples it, and what is around is black.
    inside = resample_img(inside, np.diag([size] * 3), interpolation="nearest")
    shades = np.where(inside.get_fdata() > 0.5, _GRAY, 1.0)
    return Nifti1Image(shades.astype(np.float32), inside.affine)


def _with_caption(view, words):
    """A view of nilearn with words above it: its title has room for a few."""
    caption = html_of("caption.html", words=words)
    view.html = _BODY.sub(lambda body: body[0] + caption, view.html, count=1)
    return view.resize(view.width, view.height + _CAPTION)


# -------------------------------------------------------------------------- on surfaces


def _view_surface(result, picture, hemi, cut_coords, bg_img):
    """Return hemispheres to turn."""
    from nilearn.plotting import view_surf
    from nilearn.surface import InMemoryMesh, PolyMesh, SurfaceImage

    if cut_coords is not None:
        raise ValueError("A surface has no cuts; leave out cut_coords.")
    space = result.geometry
    surface = space.base if space.kind == "regions" else space
    parts = list(surface.coordinates)
    hemi = check_option("hemi", hemi, (*parts, "both"))
    parts = parts if hemi == "both" else [hemi]
    values, threshold = _drawn(picture)
    data = space.to_img(values).data.parts
    places = _apart({part: surface.coordinates[part] for part in parts})
    mesh = PolyMesh(
        **{part: InMemoryMesh(places[part], surface.faces[part]) for part in parts}
    )
    folds = {part: shading_of(surface, part, bg_img) for part in parts}
    try:
        return view_surf(
            surf_map=SurfaceImage(mesh, {part: data[part] for part in parts}),
            bg_map=SurfaceImage(mesh, folds),
            hemi="both" if len(parts) == 2 else parts[0],
            threshold=threshold,
            title=_title(picture),
            title_fontsize=16,
            colorbar_fontsize=16,
            **_shared(picture),
        )
    except ImportError:
        raise ImportError(
            "The interactive view of a surface needs plotly, which is not installed. "
            "Install it with pip install plotly; result.view() then works."
        ) from None


def _apart(places):
    """Places of hemispheres, moved apart where they would lie in each other."""
    if len(places) < 2:
        return places
    left, right = places["left"], places["right"]
    overlap = left[:, 0].max() - right[:, 0].min() + _GAP
    if overlap <= _GAP:
        return places
    step = np.array([overlap / 2, 0, 0])
    return {"left": left - step, "right": right + step}


#: What makes the view, by the kind of figure that shows the same.
_VIEWS = {"stat_map": _view_volume, "surface": _view_surface}
