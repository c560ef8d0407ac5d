"""What decoding of regions takes in: images, an atlas, and the names of its regions.

An atlas on another grid is resampled to that of the images (to the mask's, with a
fitted masker): labels from the nearest voxel, maps of probabilities by linear
interpolation, with a warning. Regions that have no voxel left are kept, and named in a
warning.
"""

import os
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
from nilearn.image import resample_to_img
from nilearn.image.resampling import BoundingBoxError
from nilearn.surface import SurfaceImage
from scipy import sparse

from ..utils.checks import check_per_trial, check_positive, quoted, warn
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
    read_images,
    read_masker,
    read_table,
    surface_space,
)
from .maps import check_maps, decide
from .space import FeatureSpace, ParcelSpace, RegionSpace, VolumeSpace
from .volumes import (
    NilearnWarnings,
    grid_words,
    is_surface,
    load_mask,
    load_surface_mask,
    load_surfaces,
    load_volume,
    load_volumes,
    mask_surfaces,
    mask_volumes,
    n_maps,
    n_volumes,
    on_grid,
    on_mesh,
    read,
    same_grid,
    scaling_step,
    split_parts,
    usable_columns,
    whole_numbers,
)

#: Names in an array of labels that stand for no region.
_NO_REGION = ("", "background")


@dataclass(frozen=True)
class Parcels:
    """Which region of an atlas every place is in."""

    #: Number of the region, 0 for none; of any shape.
    labels: np.ndarray
    #: Numbers of all regions of the atlas.
    ids: np.ndarray
    #: Where maps reach a threshold, (n_regions, n_places); None: as the labels say.
    members: sparse.csr_array | None = None
    #: Whether regions are maps, which have no other numbers than 1, 2, ...
    are_maps: bool = False

    def within(self, mask):
        """Return the parcels of the places of a mask."""
        return replace(self, labels=np.where(mask, self.labels, 0))

    def pairs(self, chosen):
        """Return regions and chosen places of all members, (2, n), or None."""
        if self.members is None:
            return None
        return np.stack(self.members[:, np.flatnonzero(chosen)].nonzero())


def read_regions(imgs, labels_img, mask_img=None, lut=None, threshold=None, mesh=None):
    """Return the `Images` of all voxels in regions, and the `RegionSpace`."""
    if threshold is not None:
        threshold = check_positive("atlas_threshold", threshold)
    if labels_img is None:
        return _read_whole(imgs, mask_img, lut, threshold, mesh)
    labels_img, lut, listed = _unpack(labels_img, lut, threshold)
    _check_given(imgs, labels_img)
    names, of_cifti = None, not is_table(imgs) and is_cifti(imgs)
    if not of_cifti:
        check_no_mesh(mesh)
    if of_cifti:
        if threshold is not None:
            raise _no_maps()
        images, chosen, parcels, own = _from_ciftis(imgs, labels_img, mask_img, mesh)
        lut = own if lut is None else lut
    elif is_table(imgs):
        if np.ma.is_masked(labels_img):
            raise ValueError(
                f"labels_img is masked for {np.ma.count_masked(labels_img)} columns. "
                "Fill in 0, which is no region: labels_img.filled(0)."
            )
        labels_img, names = _numbered(labels_img)
        images, chosen, parcels = _from_array(imgs, labels_img, mask_img, threshold)
    elif is_surface(imgs):
        images, chosen, parcels = _from_surfaces(imgs, labels_img, mask_img, threshold)
    else:
        images, chosen, parcels = _from_volumes(imgs, labels_img, mask_img, threshold)
    check_usable(images)
    if names is None:
        names = _names_listed(parcels, listed) if lut is None else _names(parcels, lut)
    regions = RegionSpace(
        names,
        parcels.ids,
        images.space,
        parcels.labels[chosen],
        parcels.pairs(chosen),
    )
    _warn_of_empty(regions)
    return images, regions


def _read_whole(imgs, mask_img, lut, threshold, mesh):
    """Return images, and all that is in their mask as one region."""
    for what, value in (
        ("lut is for the names", lut),
        ("atlas_threshold is for maps of probabilities", threshold),
    ):
        if value is not None:
            raise TypeError(
                f"{what} of an atlas, and there is no labels_img: the whole mask is "
                f"one region. Pass labels_img, or leave {what.partition(' ')[0]} out."
            )
    images = read_images(imgs, mask_img, mesh)
    name = "all features" if images.space.kind == "features" else "whole mask"
    labels = np.ones(images.space.n_positions, int)
    return images, RegionSpace([name], [1], images.space, labels)


def _unpack(labels_img, lut, threshold):
    """Return image, table and list of names of an atlas that nilearn fetched."""
    names = None
    if isinstance(labels_img, dict):  # such as a Bunch
        names, known = labels_img.get("labels"), _known_table(labels_img)
        lut = known if lut is None else lut
        if threshold is not None and labels_img.get("atlas_type") == "deterministic":
            raise _no_maps()
        labels_img = _image_of(labels_img)
    if lut is not None and not isinstance(lut, pd.DataFrame | str | os.PathLike):
        raise TypeError(
            "lut must be a DataFrame or the path of a table with columns index and "
            f"name; got {type(lut).__name__}."
        )
    return labels_img, lut, names


def _image_of(atlas):
    """Return the image of an atlas; its hemispheres, where it is without meshes."""
    if "maps" in atlas:
        return atlas["maps"]
    if set(atlas) <= {"left", "right"}:
        return dict(atlas)
    if "map_left" in atlas and "map_right" in atlas:
        return {"left": atlas["map_left"], "right": atlas["map_right"]}
    raise ValueError(
        "labels_img is no atlas with an image called 'maps'; it holds "
        f"{quoted(list(atlas), 8)}. Pass the image itself as labels_img."
    )


def _known_table(atlas):
    """Return the table of names that comes with an atlas, None without one."""
    numbers, names = atlas.get("indices"), atlas.get("labels")
    if numbers is not None and names is not None and len(numbers) == len(names):
        # In the order of one file, which nilearn's table sorts by number.
        return pd.DataFrame({"index": [int(i) for i in numbers], "name": list(names)})
    return atlas.get("lut")


def _check_given(imgs, labels_img):
    """Refuse maskers, and images that are their own atlas."""
    if is_masker(labels_img):
        raise TypeError(
            f"labels_img is a {type(labels_img).__name__}. Pass its labels_img_ (or "
            "maps_img_) as labels_img and its lut_ as lut."
        )
    if is_masker(imgs):
        raise TypeError(
            f"imgs is a {type(imgs).__name__}; a masker holds no data. Pass the images "
            "as imgs."
        )
    paths = isinstance(imgs, str | os.PathLike) and isinstance(labels_img, type(imgs))
    if labels_img is imgs or (paths and imgs == labels_img):
        raise ValueError("labels_img is imgs. Pass an atlas image as labels_img.")


def _no_maps():
    """Return the error for a threshold without maps."""
    return ValueError(
        "atlas_threshold is for maps of probabilities: a 4D image, or surfaces of "
        "shape (n_vertices, n_maps), with a map for each region. labels_img holds the "
        "number of each voxel's region: leave atlas_threshold out."
    )


def _from_volumes(imgs, labels_img, mask_img, threshold):
    """Return images, the voxels in regions, and the parcels of all voxels."""
    within = is_masker(mask_img)
    if within:
        images, grid = read_masker(imgs, mask_img), mask_img.mask_img_
        mask = images.space.mask
    else:
        volumes = load_volumes(imgs)
        grid, mask = volumes[0], True
        if mask_img is not None:
            mask, _ = load_mask(mask_img, grid)
    parcels = _volume_parcels(_load_atlas(labels_img), grid, threshold).within(mask)
    chosen = _check_any(parcels.labels != 0)
    space = VolumeSpace(chosen, grid.affine)
    if within:
        images = _take_columns(images, space, chosen[mask])
    else:
        X = mask_volumes(volumes, chosen)
        images = Images(X, space, usable_columns(X))
    return images, chosen, parcels


def _load_atlas(labels_img):
    """Return a 3D image of labels, or a 4D one of maps."""
    if isinstance(labels_img, SurfaceImage | np.ndarray | list | tuple | dict):
        kind = type(labels_img).__name__
        raise TypeError(
            f"labels_img is a {'surface' if kind == 'dict' else kind} but imgs are "
            "volumes; pass a 3D image of whole numbers, a 4D image of maps, or the "
            "path of one."
        )
    return load_volume(labels_img, "labels_img")


def _volume_parcels(image, grid, threshold):
    """Return the parcels (x, y, z) of a grid."""
    like = on_grid(np.zeros(grid.shape[:3], np.uint8), grid)
    data = read(image, "labels_img")
    labels, maps = _labels_or_maps(data, 3, threshold, scaling_step(image))
    if maps is None:
        ids = np.unique(labels)
        return Parcels(_labels_on(labels, image, like), ids[ids != 0])
    check_maps(list(np.moveaxis(maps, 3, 0)), threshold)
    ids = np.arange(1, n_volumes(image) + 1)
    labels, members = decide(
        _maps_on(maps, image, like), np.prod(like.shape), threshold
    )
    if not same_grid(image, like):
        _tell_of_grid(labels.any(), image, like, "linear interpolation of each map")
    return Parcels(labels.reshape(like.shape), ids, members, are_maps=True)


def _labels_or_maps(data, n_axes, threshold, step=None):
    """Return the labels of an atlas as whole numbers, or its maps; None for the other.

    A single image of whole numbers on a further axis holds labels.
    """
    if data.ndim == n_axes:
        if threshold is not None:
            raise _no_maps()
        return _whole(data, step), None
    whole = whole_numbers(data, "labels_img", step)
    if whole is not None and data.shape[-1] == 1 and threshold is None:
        return whole[..., 0].astype(np.int64), None
    return None, _finite(data) if whole is None else whole


def _finite(data):
    """Return data in which what is not finite is 0."""
    if data.dtype.kind != "f" or np.isfinite(data).all():
        return data
    return np.nan_to_num(data, nan=0.0, posinf=0.0, neginf=0.0)


def _maps_on(data, image, like):
    """Yield the values of every map (x, y, z, n_maps) on a grid, flat."""
    same = same_grid(image, like)
    for number in range(data.shape[3]):  # one at a time: maps can be many
        values = data[..., number]
        if not same:
            values = _resampled(values, image, like, "linear")
        yield np.ravel(values)


def _labels_on(labels, image, like):
    """Return labels (x, y, z) on a grid, as NiftiLabelsMasker resamples them."""
    if same_grid(image, like):
        return labels
    resampled = _whole(_resampled(labels, image, like, "nearest"))
    if labels.any():
        _tell_of_grid(resampled.any(), image, like, "each voxel from the nearest one")
    return resampled


def _resampled(values, image, like, interpolation):
    """Return values (x, y, z) of an image's grid on another grid."""
    # As floats: nilearn makes integers smaller.
    moved = on_grid(values.astype(float), image)
    try:
        with NilearnWarnings():
            moved = resample_to_img(moved, like, interpolation=interpolation)
        return np.asanyarray(moved.dataobj)
    except BoundingBoxError:  # of an atlas that is beyond the first voxels only
        return np.zeros(like.shape)


def _tell_of_grid(overlap, image, like, how):
    """Warn that an atlas was resampled; refuse one that lies elsewhere."""
    if not overlap:
        raise ValueError(
            "No voxel of labels_img lies in the images: their affines place them apart "
            f"({grid_words(image)}, against {grid_words(like)}). Align them first."
        )
    warn(
        f"labels_img, {grid_words(image)}, is on another grid than the images, "
        f"{grid_words(like)}, and was resampled to theirs, {how}. Look at the regions, "
        "or resample labels_img yourself.",
        UserWarning,
    )


def _from_surfaces(imgs, labels_img, mask_img, threshold):
    """Return images, the vertices in regions, and the parcels of all vertices."""
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
    parcels = _surface_parcels(labels_img, like, threshold).within(mask)
    chosen = _check_any(parcels.labels != 0)
    parts = split_parts(chosen, like)
    if within:
        space = replace(images.space, mask=parts)
        images = _take_columns(images, space, chosen[mask])
    else:
        X = mask_surfaces(surfaces, parts)
        images = Images(X, surface_space(like.mesh, parts), usable_columns(X))
    return images, chosen, parcels


def _surface_parcels(image, like, threshold):
    """Return the parcels of the vertices of a mesh, part after part."""
    image = on_mesh(image, like, "labels_img")
    values = np.concatenate(list(image.data.parts.values()))
    labels, maps = _labels_or_maps(values, 1, threshold)
    if maps is None:
        ids = np.unique(labels)
        return Parcels(labels, ids[ids != 0])
    check_maps(list(maps.T), threshold)
    labels, members = decide(maps.T, len(maps), threshold)
    ids = np.arange(1, n_maps(image) + 1)
    return Parcels(labels, ids, members, are_maps=True)


def _from_ciftis(imgs, labels_img, mask_img, mesh):
    """Return images, which columns are in regions, their parcels, and their names."""
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
    present = np.unique(_whole(atlas))
    labels = np.rint(_finite(labels)).astype(np.int64)
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
    parcels = Parcels(labels, present[present != 0])
    return images, chosen, parcels, table if names else None


def _numbered(labels):
    """Return numbers for the names of regions, and the names if they were given."""
    try:
        is_flat = np.ndim(labels) == 1
    except ValueError:  # lists of other lengths
        is_flat = False
    if not is_flat:
        raise TypeError(
            f"labels_img is a {type(labels).__name__} but imgs is an array; pass a 1-D "
            "array with the region of every column."
        )
    labels = check_per_trial(labels, np.size(labels), "labels_img")
    if labels.dtype.kind != "U":
        return labels, None
    names = [x for x in np.unique(labels).tolist() if x.lower() not in _NO_REGION]
    return np.array([names.index(x) + 1 if x in names else 0 for x in labels]), names


def _from_array(imgs, labels, mask_img, threshold):
    """Return images, the columns in regions, and the parcels of all columns."""
    if threshold is not None:
        raise _no_maps()
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
    if names is None and not chosen.all():
        names = np.arange(len(chosen))  # which column is which
    space = FeatureSpace(None if names is None else names[chosen], chosen.sum())
    ids = np.unique(labels[chosen])
    return _take_columns(images, space, chosen), chosen, Parcels(labels, ids)


def _take_columns(images, space, chosen):
    """Return some of the columns."""
    return Images(images.X[:, chosen].copy(order="F"), space, images.usable[chosen])


def _whole(data, step=None):
    """Return whole numbers; NaN counts as 0, and files may have changed them a bit."""
    labels = whole_numbers(data, "labels_img", step)
    if labels is None:
        data = _finite(data)
        raise ValueError(
            "labels_img must hold whole numbers, one per region and 0 for none; got "
            f"e.g. {data[data != np.rint(data)][0]:g}. Maps of probabilities are a 4D "
            "image with one for each region, a single one too; labels that were "
            "resampled or saved in 8 bits may have to be rounded first: np.rint."
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


def _names_listed(parcels, listed):
    """Return the names in the list of an atlas, or numbers where it is not clear."""
    # Some lists begin with the background, some leave it out, and of some atlases the
    # numbers have gaps. A list is taken only where it can be read in one way.
    ids, numbers = parcels.ids, parcels.ids.astype(str)
    if listed is None or len(listed) == 0:
        return numbers
    names = _column_of_names(listed)
    first = bool(names) and names[0].lower() == "background"
    if first and ids.tolist() == [*range(1, len(names))]:
        return names[1:]
    if parcels.are_maps and not first and len(names) == len(ids):
        return names
    first_words = f", the first {names[0]!r}," if names else ""
    warn(
        f"The atlas has {len(names)} names{first_words} "
        f"and {len(ids)} regions ({quoted(ids.tolist(), 5)}); which name is whose is "
        "not certain, so names are the numbers. Pass lut, a table with columns index "
        "and name.",
        UserWarning,
    )
    return numbers


def _column_of_names(listed):
    """Return the names of a list, or of the one column of a table that has names."""
    if isinstance(listed, pd.DataFrame | np.recarray):
        table = pd.DataFrame(listed)
        columns = [name for name in table.columns if "name" in str(name).lower()]
        if "name" not in columns and len(columns) != 1:
            return []  # none that is certain
        listed = table["name" if "name" in columns else columns[0]]
    return [x.decode() if isinstance(x, bytes) else str(x) for x in listed]


def _names(parcels, lut):
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
    if parcels.are_maps:
        _check_counted_from_1(table)
    ids = parcels.ids
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


def _check_counted_from_1(table):
    """Refuse a table that numbers maps from 0, by which each had another's name."""
    first = table["name"][table["index"] == 0].astype(str).str.lower()
    if not first.isin(_NO_REGION).all():
        raise ValueError(
            f"lut names the map 0, {first.iloc[0]!r}; maps count from 1, and 0 is the "
            "background. Add 1 to its column index."
        )


def _warn_of_empty(regions):
    """Name the regions without a voxel."""
    empty = regions.names[np.diff(regions.membership.indptr) == 0].tolist()
    if empty:
        warn(
            f"{len(empty)} of {len(regions.ids)} regions hold no voxel of the images "
            f"and of mask_img: {quoted(empty, 5)}. They cannot be decoded.",
            UserWarning,
        )
