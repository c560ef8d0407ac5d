"""CIFTI files as nibabel knows them: opened, compared, masked, their atlases matched.

The columns of a file are vertices of surfaces and voxels of other structures, or
parcels of both; its rows are images or time points. Files of one analysis must have the
same columns. A mask or an atlas may have others on the same surfaces and the same grid:
each column of the images then has the value of the same vertex or voxel there, and none
where there is no such place. Nothing is resampled.
"""

import os
from copy import copy
from dataclasses import dataclass

import numpy as np
import pandas as pd
from nibabel.cifti2 import BrainModelAxis, Cifti2Image, LabelAxis, ParcelsAxis
from nilearn.surface import PolyMesh, load_surf_mesh

from ..utils.advice import advice, described
from ..utils.checks import name_items, quoted, read_file
from .space import GrayordinateSpace, ParcelSpace, cortex, same_places, short
from .volumes import as_mask, check_several, listed, open_image, read, stack_rows

#: What the kinds of columns are called.
_KINDS = {BrainModelAxis: "grayordinates", ParcelsAxis: "parcels"}
_PATH = str | os.PathLike
_ALLOWED = ".dscalar.nii, .dtseries.nii, .pscalar.nii or .ptseries.nii"


@dataclass(frozen=True, eq=False)
class Cifti:
    """A CIFTI file, its data not yet read."""

    image: Cifti2Image
    rows: object  #: axis of the images: a series, scalars or labels
    columns: object  #: axis of brain models or of parcels


def load_cifti(item, name):
    """The `Cifti` of an image or a path; refuse matrices of connections."""
    # Errors of nibabel: no image, a damaged header, or XML that is not CIFTI's.
    item = open_image(item, name, Exception)
    if not isinstance(item, Cifti2Image):
        raise TypeError(
            f"{name} must be a CIFTI image, or the path of one ({_ALLOWED}); got "
            f"{described(item)}.{advice(item)}"
        )
    axes = [item.header.get_axis(i) for i in range(item.ndim)]
    if [type(axis) in _KINDS for axis in axes] != [False, True]:
        words = " x ".join(type(axis).__name__.removesuffix("Axis") for axis in axes)
        raise ValueError(
            f"{name} is a CIFTI file of {words}. Allowed: rows of images or time "
            f"points, columns of grayordinates or parcels, {_ALLOWED}."
        )
    volume = item.header.get_index_map(1).volume
    if axes[1].affine is not None and volume is not None:
        # nibabel reads the numbers of an affine only, and not their unit.
        unit = volume.transformation_matrix_voxel_indices_ijk_to_xyz.meter_exponent
        affine = np.array(axes[1].affine, dtype=float)
        affine[:3] *= 10.0 ** (unit + 3)
        axes[1].affine = affine
    return Cifti(item, *axes)


def load_ciftis(imgs):
    """A list of `Cifti` with the same columns, two or more rows in all."""
    items, files = listed(imgs), []
    names = name_items("imgs", items)
    for item, name in zip(items, names, strict=True):
        if isinstance((file := load_cifti(item, name)).rows, LabelAxis):
            mend = "Pass it to decode_regions as labels_img."
            raise ValueError(f"{name} holds the labels of an atlas, no data. {mend}")
        files.append(file)
        axis, first = file.columns, files[0].columns
        if not _same_columns(axis, first):
            others = f"{len(axis)} {_KINDS[type(axis)]} against {len(first)}"
            others += ", other ones, or the same in another order"
            raise ValueError(
                f"{name} has other columns than {names[0]}: "
                f"{_misfit(axis, first) or others}. All images need the same ones."
            )
    check_several(sum(len(file.rows) for file in files), files[0].image.shape)
    return files


def _misfit(axis, other):
    """How the kind, surfaces or grid of two axes differ; "" if they do not."""
    if type(axis) is not type(other):
        return " against ".join(f"{len(x)} {_KINDS[type(x)]}" for x in (axis, other))
    for structure, n in axis.nvertices.items():
        if n != (expected := other.nvertices.get(structure, n)):
            return f"{n} vertices on {short(structure)} against {expected}"
    if not _same_grid(axis, other):
        shapes = f"shape {axis.volume_shape} against {other.volume_shape}"
        return f"voxels on another grid, {shapes}, or another affine"
    return ""


def _same_columns(axis, other):
    """Whether two axes are the same; their affines may be rounded differently."""
    if axis is other or axis == other:
        return True
    if type(axis) is not type(other) or not _same_grid(axis, other):
        return False
    aligned = copy(axis)
    aligned.affine = other.affine
    return aligned == other


def _same_grid(axis, other):
    """Whether the voxels of two axes are on one grid, if both have voxels."""
    if axis.affine is None or other.affine is None:
        return True
    shape = axis.volume_shape
    return shape == other.volume_shape and same_places(shape, axis.affine, other.affine)


def mask_ciftis(files, mask):
    """Data (n_rows, n_chosen) of the True columns of a mask."""
    names = name_items("imgs", [file.image for file in files])
    rows = (read(f.image, name)[:, mask] for f, name in zip(files, names, strict=True))
    return stack_rows(rows, (sum(len(f.rows) for f in files), np.count_nonzero(mask)))


# ------------------------------------------------------------------------------ spaces


def cifti_space(file, mesh=None):
    """The space of all columns of a file; the cortex lies on the meshes."""
    axis, meshes = file.columns, _load_meshes(mesh)
    sizes = {part: axis.nvertices.get(cortex(part)) for part in meshes}
    for part, each in meshes.items():
        if sizes[part] not in (None, n := len(each.coordinates)):
            raise ValueError(
                f"The {part} mesh has {n} vertices, but {short(cortex(part))} of imgs "
                f"has {sizes[part]}. Use the surface that the images were sampled on, "
                "e.g. of fsLR with 32k vertices the .32k_fs_LR.surf.gii."
            )
    if isinstance(axis, ParcelsAxis):
        return _parcel_space(axis)
    meshes = {part: each for part, each in meshes.items() if sizes[part] is not None}
    structure, structures = pd.factorize(axis.name)
    return GrayordinateSpace(
        structures,
        [axis.nvertices.get(name, 0) for name in structures],
        structure,
        np.where(axis.surface_mask, axis.vertex, -1),
        np.where(axis.surface_mask[:, np.newaxis], -1, axis.voxel),
        axis.volume_shape,
        axis.affine,
        np.ones(len(axis), dtype=bool),
        {part: each.coordinates for part, each in meshes.items()},
        {part: each.faces for part, each in meshes.items()},
    )


def _parcel_space(axis):
    """The space of an axis of parcels."""
    structures, none = list(axis.nvertices), np.full((0, 3), -1)
    # Parcel, structure (-1: voxels), vertices and voxels of each part of a parcel.
    parts = [(0, -1, none[:, 0], none)]
    for number, voxels in enumerate(axis.voxels):
        voxels = np.asarray(voxels, dtype=int).reshape(-1, 3)
        parts.append((number, -1, np.full(len(voxels), -1), voxels))
        for name, vertices in axis.vertices[number].items():
            nowhere = np.full((len(vertices), 3), -1)
            parts.append((number, structures.index(name), vertices, nowhere))
    parcel, structure, vertices, voxels = zip(*parts, strict=True)
    lengths = [*map(len, vertices)]
    return ParcelSpace(
        axis.name,
        len(axis),
        np.repeat(parcel, lengths),
        structures,
        [axis.nvertices[name] for name in structures],
        np.repeat(structure, lengths),
        np.concatenate(vertices),
        np.concatenate(voxels),
        axis.volume_shape,
        axis.affine,
    )


def _load_meshes(mesh):
    """The mesh of each hemisphere that there is one of, a dict."""
    parts = {} if mesh is None else mesh
    if isinstance(mesh, PolyMesh):
        parts = mesh.parts
    elif isinstance(mesh, list | tuple) and len(mesh) == 2:
        parts = {"left": mesh[0], "right": mesh[1]}
    if not isinstance(parts, dict):
        raise TypeError(
            f"Invalid value for 'mesh': {described(mesh)}. Allowed: a PolyMesh of "
            "nilearn, a dict {'left': ..., 'right': ...} or (left, right), of .surf.gii"
            " files or meshes."
        )
    if unknown := quoted(part for part in parts if part not in ("left", "right")):
        raise ValueError(f"Invalid parts of mesh: {unknown}. Allowed: 'left', 'right'.")
    given = {part: each for part, each in parts.items() if each is not None}
    return {part: _load_mesh(each, part) for part, each in given.items()}


def _load_mesh(mesh, part):
    """The mesh of a hemisphere with finite coordinates."""
    if isinstance(mesh, _PATH):
        return _load_mesh(read_file(mesh, "mesh", load_surf_mesh, "mesh"), part)
    try:
        loaded = load_surf_mesh(mesh)
    except Exception as error:  # what nilearn raises depends on what it is given
        what = f"{described(mesh)!r} ({part})"
        raise ValueError(f"mesh: {what} is no mesh: {error}") from error
    if not np.isfinite(loaded.coordinates).all():
        raise ValueError(f"mesh: the {part} one has coordinates that are not finite.")
    return loaded


# ------------------------------------------------------------------- masks and atlases


def load_cifti_mask(mask_img, axis, name="mask_img"):
    """A mask (n_columns,) of booleans for the columns of images."""
    if isinstance(axis, ParcelsAxis):
        raise TypeError(
            f"{name} is for grayordinates; imgs are parcels. Leave some out by the "
            "label 0 of decode_regions, or by rows of adjacency without neighbours."
        )
    values, mask = _only_row(mask_img, name)
    chosen = _at_columns(as_mask(values, name), mask.columns, axis, name)
    if not chosen.any():
        raise ValueError(f"{name} selects no grayordinate of the images.")
    return chosen


def load_cifti_labels(labels_img, axis):
    """Labels (n_columns,) for images, all labels, and names by label."""
    values, atlas = _only_row(labels_img, "labels_img")
    names = {}
    if isinstance(atlas.rows, LabelAxis):
        names = {key: label[0] for key, label in atlas.rows.label[0].items()}
    return _at_columns(values, atlas.columns, axis, "labels_img"), values, names


def _only_row(item, name):
    """The one row of a file, (n_columns,), and the `Cifti` itself."""
    if len((file := load_cifti(item, name)).rows) != 1:
        raise ValueError(
            f"{name} must hold one map; it holds {len(file.rows)}. Take one of them, "
            "e.g. with wb_command -cifti-merge -column."
        )
    return read(file.image, name)[0], file


def _at_columns(values, axis, other, name):
    """The values (n,) of the columns of an axis at those of another, else 0."""
    if _same_columns(axis, other):
        return values
    if (misfit := _misfit(axis, other)) or isinstance(axis, ParcelsAxis):
        what = misfit or "other parcels, or the same in another order"
        raise ValueError(
            f"{name} does not fit the images: it has {what}. Use their surfaces and "
            "their grid, or resample it with wb_command."
        )
    found = np.zeros(len(other), dtype=values.dtype)
    for structure in axis.nvertices.keys() & other.nvertices.keys():
        at = np.zeros(other.nvertices[structure], dtype=values.dtype)
        given, wanted = (each.name == structure for each in (axis, other))
        at[axis.vertex[given]] = values[given]
        found[wanted] = at[other.vertex[wanted]]
    if axis.affine is not None and other.affine is not None:
        at = np.zeros(axis.volume_shape, dtype=values.dtype)
        given, wanted = axis.volume_mask, other.volume_mask
        at[tuple(axis.voxel[given].T)] = values[given]
        found[wanted] = at[tuple(other.voxel[wanted].T)]
    return found
