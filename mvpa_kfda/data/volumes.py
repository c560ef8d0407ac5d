"""Volumes and surfaces as nilearn knows them: loaded, compared, masked, z-scored.

Volumes and surfaces go the same way: from a list of images on one grid or mesh, and a
mask, to an array with one row per image. Then its columns are looked at: which can be
used, and their z-scores within runs. Values are never replaced: NaN stays NaN, so that
it can be told from a zero.

A mask on another grid is refused, as :class:`nilearn.decoding.SearchLight` and
:func:`nilearn.masking.apply_mask` do, and not resampled. z-scores are those of
:func:`nilearn.signal.clean`, with n - 1 in the denominator, without detrending and
filter.
"""

import os
import re
import zlib
from contextlib import contextmanager
from pathlib import Path
from warnings import catch_warnings, simplefilter

import nibabel
import numpy as np
from nibabel.cifti2 import Cifti2Image
from nibabel.gifti import GiftiImage
from nibabel.spatialimages import SpatialImage
from nilearn.image import new_img_like, resample_to_img
from nilearn.image.resampling import BoundingBoxError
from nilearn.maskers import NiftiMasker
from nilearn.signal import clean
from nilearn.surface import SurfaceImage, load_surf_data

from ..utils.advice import advice, described, is_foreign
from ..utils.checks import (
    all_items,
    expand_pattern,
    name_items,
    read_file,
    warn,
)
from .space import HEMISPHERES, SurfaceSpace, VolumeSpace, by_part, same_places

#: Values of whole images that are masked at once, so that copies stay small.
MASKED_AT_ONCE = 2**22
#: Values that are z-scored at once, so that nilearn's copies stay small.
SCORED_AT_ONCE = 2**21
#: How names of files tell the hemisphere, and how those of GIFTI files end.
_HEMISPHERE = re.compile(r"(?i)(?:^|[^a-z])(lh?|rh?|left|right)(?=[^a-z]|$)")
_GIFTI = (".gii", ".gii.gz")
#: How the names of CIFTI files end.
_CIFTI = re.compile(r"\.[dp](scalar|tseries|label|conn)(\.nii)?$", re.IGNORECASE)
#: What nilearn computes masks by.
_STRATEGIES = (
    *("background", "epi", "template"),
    *("whole-brain-template", "gm-template", "wm-template"),
)
#: How far numbers in single precision may be from what they stand for, relative to it,
#: and at most; how many steps a file of 16 bits has, and how long they may be.
_SINGLE, _MOST_SINGLE = 4 * np.finfo(np.float32).eps, 0.01
_CODES, _MOST_GUESSED = 2**16 - 1, 0.2


@contextmanager
def nilearn_warnings():
    """Hand nilearn's warnings about data on to the caller."""
    with catch_warnings(record=True) as caught:
        simplefilter("always")
        yield
    for message, kind in dict.fromkeys((str(w.message), w.category) for w in caught):
        # Not its news of later versions, nor what numbers do inside of it.
        if issubclass(kind, UserWarning) and not issubclass(kind, FutureWarning):
            warn(f"nilearn says: {message}", kind)


def listed(imgs):
    """Images as a list, one path for every file that a pattern stands for."""
    single = str | os.PathLike | SpatialImage | SurfaceImage | Cifti2Image | GiftiImage
    parts = isinstance(imgs, dict) and _by_hemisphere(imgs) is not None
    if parts or isinstance(imgs, single):
        imgs = [imgs]
    first = imgs[0] if isinstance(imgs, list | tuple) and imgs else imgs
    is_image = isinstance(first, SpatialImage | SurfaceImage)
    try:
        if not is_image and (is_foreign(imgs) or isinstance(imgs, dict)):
            raise TypeError
        items = expand_paths(all_items("imgs", imgs), "imgs")
    except TypeError:
        raise TypeError(
            "imgs must be a 4D image, a list of images, their paths, or a 2-D array; "
            f"got {described(imgs)}.{advice(imgs)}"
        ) from None
    if not items:
        raise ValueError("imgs is empty: it holds no image.")
    # Values of vertices without a mesh: say what to make of them.
    parts = _by_hemisphere(items[0] if isinstance(items[0], dict) else items)
    if parts is not None:
        files = {p: name_items("", [x])[0] or "..." for p, x in parts.items()}
        files = files or dict.fromkeys(HEMISPHERES, "...")
        mesh = {part: f"{part}.surf.gii" for part in files}
        raise TypeError(
            "imgs holds values of vertices, but not the mesh that these are of. For "
            f"each run pass nilearn.surface.SurfaceImage(mesh={mesh}, data={files})."
        )
    return items


def expand_paths(items, name):
    """Inputs, with one path for every file that a pattern stands for."""
    expanded = []
    for item in items:
        is_path = isinstance(item, str | os.PathLike)
        expanded += expand_pattern(item, f" in {name}") if is_path else [item]
    return expanded


def _by_hemisphere(values):
    """Values of vertices by hemisphere: a dict, or GIFTI files; else None.

    Of files, the first of a hemisphere, as their names tell; none if they do not.
    """
    if isinstance(values, dict):
        return values if values and set(values) <= {*HEMISPHERES} else None
    files = values if isinstance(values, list | tuple) else [values]
    parts = None
    for each in files:
        path = name_items("", [each])[0]
        if not isinstance(each, GiftiImage) and not path.lower().endswith(_GIFTI):
            return None
        parts, name = parts or {}, Path(path).name
        told = re.findall("hemi-([LR])", name) or _HEMISPHERE.findall(name)
        if len(letters := {word[0].upper() for word in told}) == 1:
            parts.setdefault("left" if letters == {"L"} else "right", each)
    return parts


def open_image(item, name, errors):
    """The image at a path, anything else as it is; say which file has errors."""
    if not isinstance(item, str | os.PathLike):
        return item
    return read_file(item, name, nibabel.load, "image", errors)


def load_volume(item, name):
    """An image with 3 or 4 dimensions, its data not yet read."""
    errors = nibabel.filebasedimages.ImageFileError, OSError, EOFError
    item = open_image(item, name, errors)
    if not isinstance(item, SpatialImage):
        raise TypeError(
            f"{name} must be a volume, or the path of one, e.g. a .nii.gz file; got "
            f"{described(item)}.{advice(item)}"
        )
    if len(item.shape) not in (3, 4) or 0 in item.shape:
        raise ValueError(f"{name} must be a 3D or 4D image; its shape is {item.shape}.")
    if (kind := np.dtype(item.dataobj.dtype).kind) not in "biuf":
        raise ValueError(
            f"{name} holds {'complex' if kind == 'c' else 'no real'} numbers, dtype "
            f"{item.dataobj.dtype}; kernels need real ones, such as the magnitude: "
            "nibabel.Nifti1Image(np.abs(np.asarray(img.dataobj)), img.affine)."
        )
    return item


def load_volumes(imgs):
    """A list of 3D and 4D images on one grid, two or more volumes in all."""
    items = listed(imgs)
    names = name_items("imgs", items)
    images = [load_volume(*each) for each in zip(items, names, strict=True)]
    images = on_one_grid(images, names)
    check_several(sum(map(n_volumes, images)), images[0].shape)
    return images


def check_several(n, shape):
    """Refuse a single image."""
    if n < 2:
        raise ValueError(
            f"imgs is a single image, shape {shape}; decoding needs one for each trial "
            "or block: a 4D image (2-D data on surfaces), or a list of images."
        )


def n_volumes(image):
    """The number of volumes in a 3D or 4D image."""
    return 1 if len(image.shape) == 3 else image.shape[3]


def same_grid(image, other):
    """Whether the voxels of two images are at the same places."""
    shape = image.shape[:3]
    return shape == other.shape[:3] and same_places(shape, image.affine, other.affine)


def check_grid(image, other, name, others, mend):
    """Refuse an image on another grid than another; `mend` says what to do about it."""
    if not same_grid(image, other):
        raise ValueError(
            f"{name} is on another grid than {others}: {grid_words(image)}, against "
            f"{grid_words(other)}. {mend}"
        )


def on_one_grid(
    images, names, mend="Resample it first: nilearn.image.resample_to_img."
):
    """Images with the affine of the first; refuse other grids, by their names."""
    for image, name in zip(images, names, strict=True):
        check_grid(image, images[0], name, names[0], mend)
    return [aligned(image, images[0]) for image in images]


def aligned(image, other):
    """An image of the same grid as another, with the very affine of that.

    nilearn takes affines for different that only were rounded differently.
    """
    if np.array_equal(image.affine, other.affine):
        return image
    parts = image.dataobj, other.affine, image.header
    return image.__class__(*parts, file_map=image.file_map)


def grid_words(image):
    """Shape and affine."""
    rows = np.array2string(image.affine[:3], precision=5, suppress_small=True)
    return f"shape {image.shape[:3]} and affine {' '.join(rows.split())}"


def on_grid(data, image):
    """An array as an image with the affine of another."""
    # The type is that of the file it will never be; some arrays need one named.
    return nibabel.Nifti1Image(data, image.affine, dtype=np.float64)


def load_mask(mask_img, image, name="mask_img"):
    """A mask (x, y, z) of booleans on the grid of an image, and its affine."""
    if isinstance(mask_img, SurfaceImage) or _by_hemisphere(mask_img):
        raise TypeError(f"{name} is a surface but imgs are volumes; use a 3D image.")
    if isinstance(mask_img, np.ndarray):
        raise TypeError(
            f"{name} is an array, which has no affine; pass an image: "
            f"nilearn.image.new_img_like(imgs, {name})."
        )
    if isinstance(mask_img, str) and mask_img in _STRATEGIES:
        raise ValueError(
            f"{name}={mask_img!r} is a mask_strategy of nilearn. Pass a fitted masker: "
            f"nilearn.maskers.NiftiMasker(mask_strategy={mask_img!r}).fit(imgs)."
        )
    mask_img = load_volume(mask_img, name)
    data = load_3d(mask_img, name)
    mend = f"Resample it first: nilearn.image.resample_to_img({name}, imgs, "
    check_grid(data, image, name, "the images", f"{mend}interpolation='nearest').")
    return as_mask(read(data, name), name, scaling_step(mask_img)), data.affine


def load_3d(item, name):
    """A 3D image; a 4D one that holds one volume will do."""
    if n_volumes(image := load_volume(item, name)) != 1:
        raise ValueError(f"{name} must be a 3D image; its shape is {image.shape}.")
    return image if len(image.shape) == 3 else on_grid(read(image, name)[..., 0], image)


def scaling_step(image):
    """By how much neighbouring values of an image's file differ; None: unknown.

    Files of whole numbers hold others as multiples of a step.
    """
    step = getattr(image.dataobj, "slope", None)
    return None if step in (None, 0, 1) else abs(float(step))


def finite(data):
    """Data in which what is not finite is 0."""
    return np.nan_to_num(data, nan=0.0, posinf=0.0, neginf=0.0)


def whole_numbers(data, name, step=None):
    """Data whose numbers are whole but for how they were saved, rounded.

    None if they are others. A file of 16 bits holds the numbers of an atlas that was
    saved again from ``get_fdata()`` as multiples of `step` (the 3 of seven regions as
    2.99995), which is not known of data that were copied from there. No two values
    become the same number.
    """
    if data.dtype.kind in "biu":
        return data
    data = finite(data)
    whole = np.rint(data)
    if not (apart := np.abs(data - whole)).any():
        return whole
    single = min(_SINGLE * max(1, np.abs(data).max()), _MOST_SINGLE)
    guessed = step is None
    if guessed:
        step = min(np.ptp(data) / _CODES, _MOST_GUESSED)
    if apart.max() > single + (step / 2 if step < 1 else 0) or not whole.any():
        return None
    values = np.unique(data)
    if (np.diff(values)[np.diff(np.rint(values)) == 0] > single).any():
        return None
    if guessed and apart.max() > single:
        warn(
            f"{name} holds numbers that are nearly whole, e.g. "
            f"{data.flat[apart.argmax()]:g}, and they are rounded.",
            UserWarning,
        )
    return whole


def as_mask(data, name, step=None):
    """Booleans for data of zeros and one other value; NaN counts as zero."""
    selected = finite(data)
    values = np.unique(selected[selected != 0])
    if len(values) > 1 and (whole := whole_numbers(selected, name, step)) is not None:
        selected, values = whole, np.unique(whole[whole != 0])
    if len(values) == 0:
        raise ValueError(f"{name} is empty: it selects nothing.")
    if len(values) > 1:
        raise ValueError(
            f"{name} must hold zeros and one other value; got {len(values)} others, "
            f"from {values[0]:g} to {values[-1]:g}. Make a mask of it: nilearn.image."
            f"math_img('img > 0', img={name})."
        )
    return selected != 0


def read(image, name):
    """The data of an image, without keeping them in it."""
    try:
        return np.asanyarray(image.dataobj)
    except (OSError, EOFError, ValueError, zlib.error) as error:
        raise ValueError(f"The data of {name} cannot be read: {error}") from error


def _volume_blocks(images):
    """Yield data (x, y, z, n) of some volumes at a time."""
    for image, name in zip(images, name_items("imgs", images), strict=True):
        data = read(image, name)
        data = data.reshape(*data.shape[:3], -1)
        step = max(1, MASKED_AT_ONCE // data[..., 0].size)
        for start in range(0, data.shape[3], step):
            yield data[..., start : start + step]


def stack_rows(blocks, shape):
    """An array of some shape of blocks of its rows, every column contiguous."""
    # As spheres take them. Beside it there is a single block.
    X, start = np.empty(shape[::-1]).T, 0
    for rows in blocks:
        X[start : start + len(rows)] = rows
        start += len(rows)
    return X


def mask_volumes(images, mask):
    """Data (n_volumes, n_voxels) of the True voxels of a mask, in C order."""
    shape = sum(map(n_volumes, images)), np.count_nonzero(mask)
    return stack_rows((block[mask].T for block in _volume_blocks(images)), shape)


def background_mask(images):
    """The mask (x, y, z) that a NiftiMasker computes by default."""
    # Not mean_img, which adds up 3D images of whole numbers in their own type.
    total = sum(block.sum(axis=3, dtype=float) for block in _volume_blocks(images))
    mean = on_grid(total / sum(map(n_volumes, images)), images[0])
    mask_img = computed_mask(NiftiMasker(standardize=None, reports=False), mean)
    return np.asarray(mask_img.dataobj) != 0


def computed_mask(masker, imgs):
    """The image of the mask that a masker computes."""
    try:
        with nilearn_warnings():
            mask_img = masker.fit(imgs).mask_img_
    except ValueError as error:
        raise ValueError(
            f"nilearn finds no mask in imgs: {error} Pass mask_img, a 3D image."
        ) from error
    if not np.any(mask_img.dataobj):
        raise ValueError(
            "nilearn finds no brain in imgs: the mask that it computes of them is "
            "empty. Look at the images, or pass mask_img."
        )
    return mask_img


def is_cifti(imgs):
    """Whether images are CIFTI files; refuse a mixture with others."""
    several = isinstance(imgs, list | tuple | np.ndarray) and getattr(imgs, "ndim", 1)
    items = list(imgs) if several and len(imgs) else [imgs]
    paths = [str(item) if isinstance(item, str | os.PathLike) else "" for item in items]
    pairs = zip(items, paths, strict=True)
    named = [isinstance(x, Cifti2Image) or bool(_CIFTI.search(p)) for x, p in pairs]
    first = named[0] or _holds_cifti(items[0])
    if any(named) and not first:
        other = items[0] if isinstance(items[0], str) else type(items[0]).__name__
        raise TypeError(
            f"imgs holds both CIFTI files and others ({other}); use images of one kind."
        )
    return first


def _holds_cifti(item):
    """Whether a file of another name holds a CIFTI image."""
    if not isinstance(item, str | os.PathLike):
        return False
    path = expand_pattern(item, " in imgs")[0]
    if not path.name.endswith((".nii", ".nii.gz")) or not path.is_file():
        return False
    try:
        return isinstance(nibabel.load(path), Cifti2Image)
    except (nibabel.filebasedimages.ImageFileError, OSError, EOFError, ValueError):
        return False  # others say what is wrong with it


def is_surface(imgs):
    """Whether images are surfaces; refuse a mixture with others."""
    items = [imgs] if isinstance(imgs, SurfaceImage) else imgs
    if not isinstance(items, list | tuple):
        return False
    surfaces = [isinstance(item, SurfaceImage) for item in items]
    if any(surfaces) and not all(surfaces):
        other = type(items[surfaces.index(False)]).__name__
        raise TypeError(
            f"imgs holds both surfaces and others ({other}); use images of one kind."
        )
    return any(surfaces)


def load_surfaces(imgs):
    """A list of surface images on one mesh, two or more maps in all."""
    images = listed(imgs)
    for image, name in zip(images, name_items("imgs", images), strict=True):
        check_mesh(image, images[0], name, "imgs[0]")
        for part, data in image.data.parts.items():
            if data.ndim not in (1, 2) or data.dtype.kind not in "biuf":
                raise ValueError(
                    f"{name} must hold real numbers, (n_vertices,) or (n_vertices, "
                    f"n_images); its {part} part is {data.shape} of {data.dtype}."
                )
    check_several(sum(map(n_maps, images)), images[0].shape)
    return images


def n_maps(image):
    """The number of maps in a surface image."""
    return 1 if len(image.shape) == 1 else image.shape[1]


def check_mesh(image, other, name, others="the images"):
    """Refuse an image whose vertices are not those of another."""
    # The same vertices have other places on an inflated surface than on the pial one.
    meshes, known = image.mesh.parts, other.mesh.parts
    same = set(meshes) == set(known) and all(
        np.array_equal(mesh.faces, known[part].faces)
        and len(mesh.coordinates) == len(known[part].coordinates)
        for part, mesh in meshes.items()
    )
    if not same:
        words = [
            ", ".join(f"{len(mesh.coordinates)} {p}" for p, mesh in parts.items())
            for parts in (meshes, known)
        ]
        raise ValueError(
            f"{name} is on another mesh than {others}: {words[0]} vertices against "
            f"{words[1]}, or other triangles. Use one mesh for all images."
        )


def on_mesh(values, image, name):
    """Values of vertices as a surface image with the mesh of another.

    Without a mesh, as GIFTI files and arrays by hemisphere are, they get that of the
    image. FreeSurfer's -1 is for vertices without a label, and becomes 0.
    """
    if isinstance(values, SurfaceImage):
        check_mesh(values, image, name)
        return values
    found, meshes, parts = _by_hemisphere(values), image.mesh.parts, {}
    if not found or (isinstance(values, list | tuple) and len(found) < len(values)):
        what = repr(values) if isinstance(values, str) else described(values)
        raise TypeError(
            f"{name} must be a nilearn SurfaceImage, or {{'left': ..., 'right': ...}} "
            f"of .gii files, as imgs are surfaces; got {what}."
        )
    if missing := set(meshes) - set(found):
        raise ValueError(
            f"{name} has no values of the {missing.pop()} hemisphere, which the images "
            "have. Pass {'left': ..., 'right': ...}."
        )
    for part, mesh in meshes.items():
        try:
            data = np.asarray(load_surf_data(found[part]))
        except Exception as error:  # what is raised depends on the kind of file
            what = f"the {part} hemisphere cannot be read"
            raise ValueError(f"{name}: {what}: {error}") from error
        if len(data) != len(mesh.coordinates):
            raise ValueError(
                f"{name} has {len(data)} vertices in its map of the {part} hemisphere, "
                f"but the images have {len(mesh.coordinates)}. Use one mesh."
            )
        parts[part] = np.where(data < 0, 0, data)
    return SurfaceImage(image.mesh, parts)


def load_surface_mask(mask_img, image, name="mask_img"):
    """A mask of booleans by part, for the mesh of an image."""
    if n_maps(mask_img := on_mesh(mask_img, image, name)) != 1:
        raise ValueError(f"{name} must hold one map; its shape is {mask_img.shape}.")
    parts = mask_img.data.parts
    chosen = as_mask(np.concatenate([data.ravel() for data in parts.values()]), name)
    return by_part(chosen, parts)


def mask_surfaces(images, mask):
    """Data (n_maps, n_vertices) of the True vertices of a mask."""

    def rows():
        for image in images:
            data = image.data.parts
            parts = [(x.reshape(len(x), -1), mask[p]) for p, x in data.items()]
            step = max(1, MASKED_AT_ONCE // image.shape[0])
            for start in range(0, n_maps(image), step):
                maps = slice(start, start + step)
                yield np.concatenate([x[inside, maps] for x, inside in parts]).T

    shape = sum(map(n_maps, images)), sum(map(np.count_nonzero, mask.values()))
    return stack_rows(rows(), shape)


def surface_space(mesh, mask=None):
    """The space of the True vertices of a mask on a mesh; None: of all."""
    coordinates = {part: each.coordinates for part, each in mesh.parts.items()}
    faces = {part: each.faces for part, each in mesh.parts.items()}
    if mask is None:
        mask = {part: np.ones(len(x), bool) for part, x in coordinates.items()}
    return SurfaceSpace(coordinates, faces, mask)


def space_of_mask(mask_img):
    """The space of the voxels or vertices in the mask of a masker."""
    if isinstance(mask_img, SurfaceImage):
        parts = mask_img.data.parts.items()
        mask = {part: np.asarray(x, bool).ravel() for part, x in parts}
        return surface_space(mask_img.mesh, mask)
    return VolumeSpace(np.asarray(mask_img.dataobj) != 0, mask_img.affine)


def transformed(imgs, masker):
    """What a fitted masker makes of images: data, their space, and usable columns."""
    like, space = masker.mask_img_, space_of_mask(masker.mask_img_)
    if is_surface(imgs):
        images = load_surfaces(imgs)
        check_mesh(like, images[0], "The mask of mask_img")
        space = surface_space(images[0].mesh, space.mask)
        sound = usable_columns(mask_surfaces(images, space.mask))
        parts = [image.data.parts for image in images]
        maps = {p: np.column_stack([each[p] for each in parts]) for p in parts[0]}
        image = SurfaceImage(images[0].mesh, maps)
    else:
        images = load_volumes(imgs)
        image = images[0]
        if len(images) > 1:  # not concat_imgs, which casts to the type of the first
            names = name_items("imgs", images)
            data = [read(*each) for each in zip(images, names, strict=True)]
            data = [x[..., np.newaxis] if x.ndim == 3 else x for x in data]
            image = new_img_like(image, np.concatenate(data, axis=3))
        sound = _sound_voxels(images, like)[space.mask]
        if same_grid(image, like):
            image = aligned(image, like)
    with nilearn_warnings():
        X = masker.transform(image)
    X = np.array(X, dtype=np.float64, order="F")
    return X, space, usable_columns(X) & sound


def _sound_voxels(images, like):
    """Which voxels of an image's grid are finite in all volumes and vary over them."""
    low, high = np.inf, -np.inf
    for block in _volume_blocks(images):
        low = np.minimum(low, block.min(axis=3))
        high = np.maximum(high, block.max(axis=3))
    sound = _varies(low, high)
    if same_grid(images[0], like):
        return sound
    with nilearn_warnings():
        resampled = on_grid(sound.astype(np.float32), images[0])
        resampled = resample_to_img(resampled, like, interpolation="nearest")
    return np.asarray(resampled.dataobj) > 0.5


def _varies(low, high):
    """Where the extremes are finite, and differ by more than rounding."""
    low, high = np.asarray(low, float), np.asarray(high, float)
    with np.errstate(invalid="ignore", over="ignore"):
        size = np.maximum(np.abs(low), np.abs(high))
        return high - low > 1e-12 * size  # never so where size is infinite or NaN


def usable_columns(X):
    """Which columns of X (n_images, n_features) are finite and vary."""
    # Z-scores within runs leave nothing of a column that differs between runs only: ask
    # again after `standardize`.
    return _varies(X.min(axis=0), X.max(axis=0))


def standardize(X, runs):
    """Z-score X (n_images, n_features) within the rows of each run, in place."""
    for rows in runs:
        for columns in _column_blocks(X, rows):
            X[rows, columns] = _zscores(X[rows, columns])
    return X


def deviations_within(X, runs):
    """What z-scores divide columns of X (n_images, n_features) by in each run.

    As an array (n_runs, n_features). Constant columns, whose z-scores are 0, may have
    any.
    """
    deviations = np.empty((len(runs), X.shape[1]))
    for run, rows in enumerate(runs):
        for columns in _column_blocks(X, rows):
            with np.errstate(invalid="ignore", over="ignore"):  # of what is no number
                deviations[run, columns] = X[rows, columns].std(axis=0, ddof=1)
    return deviations


def _column_blocks(X, rows):
    """Slices of columns of X that are z-scored at once."""
    step = max(1, SCORED_AT_ONCE // len(rows))
    return [slice(start, start + step) for start in range(0, X.shape[1], step)]


def find_runs(groups, codes):
    """The rows of every run within which to z-score."""
    names = [] if groups is None else np.unique(groups)
    runs = {name: np.flatnonzero(groups == name) for name in names}
    of_one = [name for name, rows in runs.items() if len(set(codes[rows])) == 1]
    if len(of_one) == len(runs):  # none, or patients and controls, say
        return [np.arange(len(codes))]
    if of_one:
        name = of_one[0].item() if isinstance(of_one[0], np.generic) else of_one[0]
        more = f" (and {len(of_one) - 1} more)" if len(of_one) > 1 else ""
        raise ValueError(
            f"The group {name!r}{more} holds images of a single class; z-scores within "
            "it lose what tells its class. Drop its images, or use standardize=False."
        )
    return list(runs.values())


def flat_within_runs(X, usable, runs):
    """Which usable columns of z-scores are constant within some run only."""
    flat = np.zeros(X.shape[1], dtype=bool)
    for rows in runs:
        here = usable & ~X[rows].any(axis=0)
        if np.array_equal(here, usable):
            group = f"the group of image {rows[0]} (from 0)"
            raise ValueError(f"Nothing varies in {group}. Drop it.")
        flat |= here
    return flat


def _zscores(data):
    """Z-scores (n_rows, n_features); 0 for constant and for NaN."""
    scores = np.zeros_like(data)
    if (varying := usable_columns(data)).any():
        data = data[:, varying]
        # nilearn takes a deviation below 2e-16 for none, whatever the unit.
        data /= np.abs(data).max(axis=0)
        with np.errstate(invalid="ignore"):  # its check for a mean of zero: 0 / 0
            asked = {"standardize": "zscore_sample", "detrend": False, "filter": False}
            scores[:, varying] = clean(data, **asked)
    return scores


def nearest_voxels(space, onto):
    """The voxel of `space` nearest to each voxel of `onto` (W,), -1 for none."""
    # One image, of the voxels' numbers, is resampled in place of every map.
    # SciPy, beneath nilearn, gives nothing for a place that is beyond the centre of the
    # grid's last voxel, be it by rounding only. An empty voxel all around mends that.
    affine = space.affine.copy()
    affine[:3, 3] -= space.affine[:3, :3].sum(axis=1)
    padded = VolumeSpace(np.pad(space.mask, 1), affine)
    # Numbers from 1, for 0 is outside; as floats, for nilearn makes integers smaller.
    numbers = padded.to_img(1.0 + np.arange(space.n_positions), dtype=np.float64)
    target = onto.to_img(np.zeros(onto.n_positions))
    try:
        with nilearn_warnings():
            moved = resample_to_img(numbers, target, interpolation="nearest")
    except BoundingBoxError:  # the grids do not overlap
        return np.full(onto.n_positions, -1)
    return np.asarray(moved.dataobj)[onto.mask].astype(np.intp) - 1


def take_voxels(values, nearest):
    """Values (..., V) at voxels `nearest` (W,), NaN where there is none."""
    taken = np.take(values, nearest, axis=-1, mode="wrap")
    taken[..., nearest < 0] = np.nan
    return taken
