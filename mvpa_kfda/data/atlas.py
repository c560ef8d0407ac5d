"""What decoding of regions takes in: images, an atlas, and the names of its regions.

An atlas holds whole numbers, one for each region. On another grid it is resampled to
that of the images (to the mask's, with a fitted masker), each voxel from the nearest
one, with a warning. Regions that have no voxel left are kept, and named in a warning.
"""

import os

import numpy as np
import pandas as pd
from nilearn.image import resample_to_img
from nilearn.image.resampling import BoundingBoxError
from nilearn.surface import SurfaceImage

from ..utils.checks import check_per_trial, check_shape, counted, quoted, warn
from . import volumes
from .cifti import load_cifti_labels
from .images import is_masker, is_table, open_images, read_images, read_table
from .space import FeatureSpace, ParcelSpace, RegionSpace, SurfaceSpace, VolumeSpace

#: Names in an array of labels that stand for no region.
_NO_REGION = ("", "background")


def read_regions(imgs, labels_img, mask_img=None, lut=None, mesh=None):
    """The `Images` of all voxels in regions, and the `RegionSpace`."""
    if labels_img is None:
        if lut is not None:
            raise TypeError(
                "lut is for the names of an atlas, and there is no labels_img: the "
                "whole mask is one region. Pass labels_img, or leave lut out."
            )
        images = read_images(imgs, mask_img, mesh)
        name = "all features" if images.space.kind == "features" else "whole mask"
        labels = np.ones(images.space.n_positions, int)
        return images, RegionSpace([name], [1], images.space, labels)
    labels_img, lut, listed = _unpack(labels_img, lut)
    if is_masker(labels_img):
        raise TypeError(
            f"labels_img is a {type(labels_img).__name__}. Pass its labels_img_ as "
            "labels_img and its lut_ as lut."
        )
    paths = isinstance(imgs, str | os.PathLike) and isinstance(labels_img, type(imgs))
    if labels_img is imgs or (paths and imgs == labels_img):
        raise ValueError("labels_img is imgs. Pass an atlas image as labels_img.")
    space, read = open_images(imgs, mask_img, mesh, whole=True)
    labels, ids, names = _labels_on(space, labels_img)
    if lut is None or is_table(imgs):
        lut = names or lut
    if not (chosen := labels != 0).any():
        raise ValueError(
            "No region of labels_img holds a voxel of the images and of mask_img. Are "
            "they aligned, and are there labels other than 0?"
        )
    if isinstance(space, ParcelSpace):
        chosen[:] = True  # images of them are of all
    images, labels = read(chosen), labels[chosen]
    ids = ids[ids != 0]
    regions = RegionSpace(_names(ids, lut, listed), ids, images.space, labels)
    if empty := regions.names[~np.isin(ids, labels)].tolist():
        which = f"of the images and of mask_img: {quoted(empty, 5)}"
        what = f"{len(empty)} of {len(ids)} regions hold no voxel {which}"
        warn(f"{what}. They cannot be decoded.", UserWarning)
    return images, regions


# ---------------------------------------------------------------------- what is given


def _unpack(labels_img, lut):
    """Image, table and list of names of an atlas, as nilearn fetches them."""
    names = None
    if isinstance(labels_img, dict):  # such as a Bunch
        names, numbers = labels_img.get("labels"), labels_img.get("indices")
        numbered = names is not None and numbers is not None
        if lut is None and numbered and len(names) == len(numbers):
            # In the order of one file, which nilearn's table sorts by number.
            lut = pd.DataFrame({"index": map(int, numbers), "name": list(names)})
        lut = labels_img.get("lut") if lut is None else lut
        if "maps" in labels_img:
            labels_img = labels_img["maps"]
        elif "map_left" in labels_img and "map_right" in labels_img:
            labels_img = {p: labels_img[f"map_{p}"] for p in ("left", "right")}
        elif {*labels_img} <= {"left", "right"}:  # without meshes
            labels_img = dict(labels_img)
        else:
            raise ValueError(
                "labels_img is no atlas with an image called 'maps'; it holds "
                f"{quoted(labels_img, 8)}. Pass the image itself as labels_img."
            )
    if lut is not None and not isinstance(lut, pd.DataFrame | str | os.PathLike):
        raise TypeError(
            "lut must be a DataFrame or the path of a table with columns index and "
            f"name; got {type(lut).__name__}."
        )
    return labels_img, lut, names


# --------------------------------------------------------- labels of all positions


def _labels_on(space, labels_img):
    """The labels of the positions of a space, all labels of the atlas, and names."""
    if isinstance(space, VolumeSpace):
        if isinstance(labels_img, SurfaceImage | np.ndarray | list | tuple | dict):
            kind = type(labels_img).__name__
            raise TypeError(
                f"labels_img is a {'surface' if kind == 'dict' else kind} but imgs are "
                "volumes; pass a 3D image of whole numbers, or the path of one."
            )
        atlas = volumes.load_volume(labels_img, "labels_img")
        data = volumes.read(atlas, "labels_img")
        whole = _one_map(data, 3, volumes.scaling_step(atlas))
        return _on_grid_of(whole, atlas, space)[space.mask], np.unique(whole), None
    if isinstance(space, SurfaceSpace):
        like = space.to_img(np.zeros(space.n_positions))
        parts = volumes.on_mesh(labels_img, like, "labels_img").data.parts
        whole = _one_map(np.concatenate(list(parts.values())), 1)
        return whole[space.joined_mask], np.unique(whole), None
    is_array = type(space) is FeatureSpace
    try:
        is_flat = np.ndim(labels_img) == 1
    except ValueError:  # lists of other lengths
        is_flat = False
    if is_flat:
        labels, names = _labels_of_columns(space, labels_img)
        atlas = labels
    elif is_array:
        raise TypeError(
            f"labels_img is a {type(labels_img).__name__} but imgs is an array; pass a "
            "1-D array with the region of every column."
        )
    else:
        labels, atlas, names = load_cifti_labels(labels_img, space.axis())
        labels = np.rint(volumes.finite(labels)).astype(np.int64)
    ids = np.unique(_whole(atlas))
    if names:  # numbers that the file has no name for are names themselves
        names = {i: names.get(i, str(i)) for i in ids.tolist()}
    return labels if is_array else labels[space.mask], ids, names


def _labels_of_columns(space, labels):
    """Whole numbers for the regions of columns, and their names if these are given."""
    if np.ma.is_masked(labels):
        mend = "Fill in 0, which is no region: labels_img.filled(0)"
        n = np.ma.count_masked(labels)
        raise ValueError(f"labels_img is masked for {n} columns. {mend}.")
    labels, names = check_per_trial(labels, np.size(labels), "labels_img"), None
    n = space.n if isinstance(space, FeatureSpace) else len(space.mask)
    what = f"labels_img must hold the region of each of the {counted(n, space.noun)}"
    check_shape(labels, (n,), what)
    if labels.dtype.kind == "U":
        named = [x for x in np.unique(labels).tolist() if x.lower() not in _NO_REGION]
        names = dict(enumerate(named, start=1))
        labels = np.array([named.index(x) + 1 if x in named else 0 for x in labels])
    return _whole(labels), names


# ------------------------------------------------------------------------------ labels


def _one_map(data, n_axes, step=None):
    """The labels of an atlas of one map, which may have a last axis of one."""
    if data.ndim > n_axes and data.shape[-1] > 1:
        raise ValueError(
            f"labels_img holds {data.shape[-1]} maps; an atlas is one of whole numbers."
            " Of several, pass one: nilearn.image.index_img(labels_img, 0). Maps of "
            "probabilities must be thresholded first: many atlases have a version for "
            "that, e.g. fetch_atlas_harvard_oxford('cort-maxprob-thr25-2mm')."
        )
    return _whole(data.reshape(data.shape[:n_axes]), step)


def _whole(data, step=None):
    """Whole numbers; NaN counts as 0, and files may have changed them a bit."""
    if (labels := volumes.whole_numbers(data, "labels_img", step)) is None:
        data = volumes.finite(data)
        raise ValueError(
            "labels_img must hold whole numbers, one per region and 0 for none; got "
            f"e.g. {data[data != np.rint(data)][0]:g}. Maps of probabilities must be "
            "thresholded first; resampled or 8-bit labels, rounded first: np.rint."
        )
    return labels.astype(np.int64)


def _on_grid_of(labels, atlas, like):
    """Labels (x, y, z) on a grid, as NiftiLabelsMasker resamples them."""
    if volumes.same_grid(atlas, like):
        return labels
    try:
        with volumes.nilearn_warnings():
            # As floats: nilearn makes integers smaller.
            image = volumes.on_grid(labels.astype(float), atlas)
            grid = volumes.on_grid(np.zeros(like.shape[:3], np.uint8), like)
            moved = resample_to_img(image, grid, interpolation="nearest")
        resampled = _whole(np.asanyarray(moved.dataobj))
    except BoundingBoxError:  # of an atlas that is beyond the first voxels only
        resampled = np.zeros(like.shape[:3], np.int64)
    if not labels.any():
        return resampled
    here, there = volumes.grid_words(atlas), volumes.grid_words(like)
    if not resampled.any():
        raise ValueError(
            "No voxel of labels_img lies in the images: their affines place them apart "
            f"({here}, against {there}). Align them first."
        )
    warn(
        f"labels_img, {here}, is on another grid than the images, {there}, and was "
        "resampled to theirs, each voxel from the nearest one. Look at the regions, or "
        "resample labels_img yourself.",
        UserWarning,
    )
    return resampled


# ------------------------------------------------------------------------------- names


def _names(ids, lut, listed):
    """The names of regions: in a table, a dict, a list, or their numbers."""
    if lut is None and (listed is None or len(listed) == 0):
        return ids.astype(str)
    ids = ids.tolist()
    if lut is None:
        names = [x.decode() if isinstance(x, bytes) else str(x) for x in listed]
        # The list of an atlas begins with the background.
        if names[0].lower() == "background" and ids == [*range(1, len(names))]:
            return names[1:]
        raise ValueError(
            f"The atlas lists {len(names)} names, the first {names[0]!r}, and has "
            f"{len(ids)} regions ({quoted(ids, 5)}), so that names are not certain. "
            "Pass lut, a table with columns index and name, or the image alone."
        )
    known = lut
    if not isinstance(lut, dict):
        table = read_table(lut, "lut")
        if not {"index", "name"} <= {*table.columns}:
            there = f"it has {quoted(table.columns.tolist())}"
            raise ValueError(f"lut needs the columns 'index' and 'name'; {there}.")
        if len(again := table["index"][table["index"].duplicated()]):
            what = f"the region {again.iloc[0]} more than once"
            raise ValueError(f"lut names {what}; every index needs one row.")
        table = table.dropna(subset=["index", "name"])
        known = dict(zip(table["index"].tolist(), table["name"].tolist(), strict=True))
    unknown = [i for i in ids if i not in known]
    if len(unknown) == len(ids):
        raise ValueError(
            f"no region of labels_img is in lut: ids {quoted(ids, 5)} against index "
            f"{quoted(known, 5)}: is it the table of another atlas?"
        )
    if unknown:
        warn(
            f"lut has no name for {len(unknown)} of {len(ids)} regions (ids "
            f"{quoted(unknown, 5)}); the first is called 'unknown {unknown[0]}' now.",
            UserWarning,
        )
    return [str(known.get(i, f"unknown {i}")) for i in ids]
