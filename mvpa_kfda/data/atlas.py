"""What decoding of regions takes in: images, an atlas, and the names of its regions.

An atlas on another grid is resampled to that of the images (to the mask's, with a
fitted masker), each voxel from the nearest one, with a warning. Regions that have no
voxel left are kept, and named in a warning.
"""

import os
from dataclasses import replace

import numpy as np
import pandas as pd
from nilearn.image import resample_to_img
from nilearn.image.resampling import BoundingBoxError
from nilearn.surface import SurfaceImage

from ..utils.checks import check_per_trial, quoted, warn
from .cifti import (
    cifti_space,
    is_cifti,
    load_cifti_labels,
    load_cifti_mask,
    load_ciftis,
    mask_ciftis,
)
from .images import (
    Images,
    check_no_mesh,
    check_usable,
    features,
    is_masker,
    is_table,
    read_masker,
    read_table,
    surface_space,
)
from .space import FeatureSpace, ParcelSpace, RegionSpace, VolumeSpace
from .volumes import (
    NilearnWarnings,
    check_mesh,
    grid_words,
    is_surface,
    load_3d,
    load_mask,
    load_surface_mask,
    load_surfaces,
    load_volumes,
    mask_surfaces,
    mask_volumes,
    on_grid,
    read,
    same_grid,
    split_parts,
    surface_map,
    usable_columns,
)

#: Names in an array of labels that stand for no region.
_NO_REGION = ("", "background")


def read_regions(imgs, labels_img, mask_img=None, lut=None, mesh=None):
    """Return the `Images` of all voxels in regions, and the `RegionSpace`."""
    labels_img, lut, listed = _unpack(labels_img, lut)
    if is_masker(labels_img):
        raise TypeError(
            f"labels_img is a {type(labels_img).__name__}. Give its labels_img_ as "
            "labels_img and its lut_ as lut."
        )
    if is_masker(imgs):
        raise TypeError(
            f"imgs is a {type(imgs).__name__}; a masker holds no data. Give the images "
            "as imgs."
        )
    names, of_cifti = None, not is_table(imgs) and is_cifti(imgs)
    if not of_cifti:
        check_no_mesh(mesh)
    if of_cifti:
        images, labels, present, own = _from_ciftis(imgs, labels_img, mask_img, mesh)
        lut = own if lut is None else lut
    elif is_table(imgs):
        labels_img, names = _numbered(labels_img)
        images, labels, present = _from_array(imgs, labels_img, mask_img)
    elif is_surface(imgs):
        images, labels, present = _from_surfaces(imgs, labels_img, mask_img)
    else:
        images, labels, present = _from_volumes(imgs, labels_img, mask_img)
    check_usable(images)
    ids = present[present != 0]
    if names is None:
        names = _names_listed(ids, listed) if lut is None else _names(ids, lut)
    regions = RegionSpace(names, ids, images.space, labels)
    _warn_of_empty(regions)
    return images, regions


def _unpack(labels_img, lut):
    """Return image, table and list of names of an atlas that nilearn fetched."""
    names = None
    if hasattr(labels_img, "maps"):
        names = getattr(labels_img, "labels", None)
        lut = getattr(labels_img, "lut", None) if lut is None else lut
        labels_img = labels_img.maps
    if lut is not None and not isinstance(lut, pd.DataFrame | str | os.PathLike):
        raise TypeError(
            "lut must be a DataFrame or the path of a table with columns index and "
            f"name; got {type(lut).__name__}."
        )
    return labels_img, lut, names


def _from_volumes(imgs, labels_img, mask_img):
    """Return images, the region of every column, and the regions of the atlas."""
    within = is_masker(mask_img)
    if within:
        images, grid = read_masker(imgs, mask_img), mask_img.mask_img_
        mask = images.space.mask
    else:
        volumes = load_volumes(imgs)
        grid, mask = volumes[0], True
        if mask_img is not None:
            mask, _ = load_mask(mask_img, grid)
    image = _load_labels(labels_img)
    present = np.unique(_whole(read(image, "labels_img")))
    labels = np.where(mask, _labels_on(image, grid), 0)
    chosen = _check_any(labels != 0)
    space = VolumeSpace(chosen, grid.affine)
    if within:
        images = _take_columns(images, space, chosen[mask])
    else:
        X = mask_volumes(volumes, chosen)
        images = Images(X, space, usable_columns(X))
    return images, labels[chosen], present


def _load_labels(labels_img):
    """Return a 3D image of labels."""
    if not isinstance(labels_img, SurfaceImage | np.ndarray | list | tuple):
        return load_3d(labels_img, "labels_img")
    raise TypeError(
        f"labels_img is a {type(labels_img).__name__} but imgs are volumes; give a 3D "
        "image of whole numbers, or its path."
    )


def _labels_on(image, grid):
    """Return labels (x, y, z) on a grid, as NiftiLabelsMasker resamples them."""
    labels = _whole(read(image, "labels_img"))
    like = on_grid(np.zeros(grid.shape[:3], np.uint8), grid)
    if same_grid(image, like):
        return labels
    try:
        with NilearnWarnings():
            # As floats: nilearn makes integers smaller.
            image = on_grid(labels.astype(float), image)
            moved = resample_to_img(image, like, interpolation="nearest")
        resampled = _whole(np.asanyarray(moved.dataobj))
    except BoundingBoxError:  # of an atlas that is beyond the first voxels only
        resampled = np.zeros(like.shape, np.int64)
    if labels.any() and not resampled.any():
        raise ValueError(
            "No voxel of labels_img lies in the images: their affines place them apart "
            f"({grid_words(image)}, against {grid_words(like)}). Align them first."
        )
    warn(
        f"labels_img, {grid_words(image)}, is on another grid than the images, "
        f"{grid_words(like)}, and was resampled to theirs, each voxel from the nearest "
        "one. Look at the regions, or resample labels_img yourself.",
        UserWarning,
    )
    return resampled


def _from_surfaces(imgs, labels_img, mask_img):
    """Return images, the region of every column, and the regions of the atlas."""
    if not isinstance(labels_img, SurfaceImage):
        raise TypeError(
            f"labels_img is a {type(labels_img).__name__} but imgs are surfaces; give "
            "a SurfaceImage of whole numbers."
        )
    within = is_masker(mask_img)
    if within:
        images, like = read_masker(imgs, mask_img), mask_img.mask_img_
        mask = np.concatenate(list(images.space.mask.values()))
    else:
        surfaces = load_surfaces(imgs)
        like, mask = surfaces[0], True
        if mask_img is not None:
            parts = load_surface_mask(mask_img, like)
            mask = np.concatenate(list(parts.values()))
    check_mesh(labels_img, like, "labels_img")
    atlas = _whole(surface_map(labels_img, "labels_img"))
    labels = np.where(mask, atlas, 0)
    chosen = _check_any(labels != 0)
    parts = split_parts(chosen, like)
    if within:
        space = replace(images.space, mask=parts)
        images = _take_columns(images, space, chosen[mask])
    else:
        X = mask_surfaces(surfaces, parts)
        images = Images(X, surface_space(like.mesh, parts), usable_columns(X))
    return images, labels[chosen], np.unique(atlas)


def _from_ciftis(imgs, labels_img, mask_img, mesh):
    """Return images, the region of every column, the atlas' regions, their names."""
    files = load_ciftis(imgs)
    axis, space = files[0].columns, cifti_space(files[0], mesh)
    if np.ndim(labels_img) == 1:
        atlas, texts = _numbered(labels_img)
        if atlas.shape != (len(axis),):
            raise ValueError(
                f"labels_img must hold the region of each of the {space.describe()}, "
                f"shape ({len(axis)},); got shape {atlas.shape}."
            )
        labels, names = atlas, dict(enumerate(texts or [], start=1))
    else:
        labels, atlas, names = load_cifti_labels(labels_img, axis)
    labels, present = _whole(labels), np.unique(_whole(atlas))
    if mask_img is not None:
        labels = np.where(load_cifti_mask(mask_img, axis), labels, 0)
    chosen = _check_any(labels != 0)
    if isinstance(space, ParcelSpace):
        chosen = np.ones(len(chosen), dtype=bool)  # images of them are of all
    else:
        space = replace(space, mask=chosen)
    X = mask_ciftis(files, chosen)
    if names:  # numbers that the file has no name for are names themselves
        names = {i: names.get(i, str(i)) for i in present.tolist()}
    table = pd.DataFrame({"index": list(names), "name": list(names.values())})
    images = Images(X, space, usable_columns(X))
    return images, labels[chosen], present, table if names else None


def _numbered(labels):
    """Return numbers for the names of regions, and the names if they were given."""
    if np.ndim(labels) != 1:
        raise TypeError(
            f"labels_img is a {type(labels).__name__} but imgs is an array; give a 1-D "
            "array with the region of every column."
        )
    labels = check_per_trial(labels, np.size(labels), "labels_img")
    if labels.dtype.kind != "U":
        return labels, None
    names = [x for x in np.unique(labels).tolist() if x.lower() not in _NO_REGION]
    return np.array([names.index(x) + 1 if x in names else 0 for x in labels]), names


def _from_array(imgs, labels, mask_img):
    """Return images, the region of every column, and the regions."""
    if mask_img is not None:
        raise TypeError(
            "mask_img is for images; imgs is an array. Leave columns out by giving "
            "them the label 0."
        )
    images = features(imgs)
    if labels.shape != images.usable.shape:
        raise ValueError(
            "With an array as imgs, labels_img must hold the region of every column, "
            f"shape {images.usable.shape}; got shape {labels.shape}."
        )
    labels = _whole(labels)
    chosen = _check_any(labels != 0)
    names = images.space.names
    space = FeatureSpace(None if names is None else names[chosen], chosen.sum())
    return _take_columns(images, space, chosen), labels[chosen], np.unique(labels)


def _take_columns(images, space, chosen):
    """Return some of the columns."""
    return Images(images.X[:, chosen].copy(order="F"), space, images.usable[chosen])


def _whole(data):
    """Return whole numbers; NaN counts as 0."""
    if data.dtype.kind in "biu":
        return data.astype(np.int64)
    data = np.nan_to_num(data, nan=0.0, posinf=0.0, neginf=0.0)
    labels = np.rint(data)
    if (labels != data).any():
        raise ValueError(
            "labels_img must hold whole numbers, one per region and 0 for none; got "
            f"e.g. {data[labels != data][0]:g}. Maps of probabilities need a threshold "
            "first."
        )
    return labels.astype(np.int64)


def _check_any(chosen):
    """Refuse labels that leave no voxel."""
    if not chosen.any():
        raise ValueError(
            "No region of labels_img holds a voxel of the images and of mask_img. Look "
            "whether they are aligned, and whether labels other than 0 are there."
        )
    return chosen


def _names_listed(ids, listed):
    """Return the names in the list of an atlas, or numbers where it is not clear."""
    # Some lists begin with the background, some leave it out, and of some atlases the
    # numbers have gaps. A list is taken only where it can be read in one way.
    numbers = ids.astype(str)
    if listed is None or len(listed) == 0:
        return numbers
    names = [x.decode() if isinstance(x, bytes) else str(x) for x in listed]
    if names[0].lower() == "background" and ids.tolist() == [*range(1, len(names))]:
        return names[1:]
    warn(
        f"The atlas has {len(names)} names, the first {names[0]!r}, and {len(ids)} "
        f"regions ({quoted(ids.tolist(), 5)}); which name is whose is not certain, so "
        "names are the numbers. Give lut, a table with columns index and name.",
        UserWarning,
    )
    return numbers


def _names(ids, lut):
    """Return the names of regions in a table."""
    table = read_table(lut, "lut")
    missing = [name for name in ("index", "name") if name not in table.columns]
    if missing:
        raise ValueError(
            f"lut needs the columns 'index' and 'name'; its columns are "
            f"{quoted(table.columns.tolist())}."
        )
    if table["index"].duplicated().any():
        twice = table["index"][table["index"].duplicated()].iloc[0]
        raise ValueError(
            f"lut names the region {twice} more than once; every index needs one row."
        )
    table, ids = table.dropna(subset=["index", "name"]), ids.tolist()
    known = dict(zip(table["index"].tolist(), table["name"].tolist(), strict=True))
    unknown = [i for i in ids if i not in known]
    if len(unknown) == len(ids):
        raise ValueError(
            f"no region of labels_img is in lut: ids {quoted(ids, 5)} against index "
            f"{quoted(list(known), 5)}: is it the table of another atlas?"
        )
    if unknown:
        warn(
            f"lut has no name for {len(unknown)} of {len(ids)} regions (ids "
            f"{quoted(unknown, 5)}); the first is called 'unknown {unknown[0]}' now.",
            UserWarning,
        )
    return [str(known.get(i, f"unknown {i}")) for i in ids]


def _warn_of_empty(regions):
    """Name the regions without a voxel."""
    empty = regions.names[~np.isin(regions.ids, regions.labels)].tolist()
    if empty:
        warn(
            f"{len(empty)} of {len(regions.ids)} regions hold no voxel of the images "
            f"and of mask_img: {quoted(empty, 5)}. They cannot be decoded.",
            UserWarning,
        )
