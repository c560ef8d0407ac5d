"""Volumes as nilearn knows them: loaded, compared, masked.

Values are never replaced: NaN stays NaN, so that it can be told from a zero.
"""

import glob
import itertools
import os
import zlib
from pathlib import Path
from warnings import catch_warnings, simplefilter

import nibabel
import numpy as np
from nibabel.spatialimages import SpatialImage
from nilearn.image import new_img_like
from nilearn.masking import apply_mask
from nilearn.surface import SurfaceImage

from .._checks import warn
from .columns import varies

#: Values of whole images that are masked at once, so that copies stay small.
BLOCK = 2**22
#: Grids are one if their corners are closer than this part of a voxel.
_TOLERANCE = 0.01


class NilearnWarnings(catch_warnings):
    """Hand nilearn's warnings on to the caller.

    But not its news of later versions, nor what numbers do inside of it.
    """

    def __init__(self):
        super().__init__(record=True)

    def __enter__(self):
        self._caught = super().__enter__()
        simplefilter("always")

    def __exit__(self, *error):
        super().__exit__(*error)
        for message, kind in dict.fromkeys(
            (str(w.message), w.category) for w in self._caught
        ):
            ours = issubclass(kind, UserWarning) and not issubclass(kind, FutureWarning)
            if ours and error[0] is None:
                warn(f"nilearn says: {message}", kind)


def listed(imgs):
    """Return images as a list, one path for every file that a pattern stands for."""
    if isinstance(imgs, str | os.PathLike | SpatialImage | SurfaceImage):
        imgs = [imgs]
    try:
        items = [found for item in imgs for found in _expand(item)]
    except TypeError:
        raise TypeError(
            "imgs must be a 4D image, a list of images, their paths, or a 2-D array; "
            f"got {type(imgs).__name__}."
        ) from None
    if not items:
        raise ValueError("imgs is empty: it holds no image.")
    return items


def _expand(item):
    """Return a list of an image, or of the paths that a pattern stands for."""
    if not isinstance(item, str | os.PathLike):
        return [item]
    path = Path(item).expanduser()
    if path.exists() or not glob.has_magic(str(path)):
        return [path]
    found = sorted(glob.glob(str(path)))
    if not found:
        raise FileNotFoundError(f"No file matches the pattern {str(item)!r} in imgs.")
    return found


def load_volume(item, name):
    """Return an image with 3 or 4 dimensions, its data not yet read."""
    if isinstance(item, str | os.PathLike):
        path = Path(item).expanduser()
        if not path.is_file():
            raise FileNotFoundError(f"{name}: {str(path)!r} is no file.")
        try:
            item = nibabel.load(path)
        except (nibabel.filebasedimages.ImageFileError, OSError, EOFError) as error:
            raise ValueError(f"{name}: {str(path)!r} is no image: {error}") from error
    if not isinstance(item, SpatialImage):
        raise TypeError(
            f"{name} must be a volume, or the path of one, e.g. a .nii.gz file; got "
            f"{type(item).__name__}."
        )
    if len(item.shape) not in (3, 4) or 0 in item.shape:
        raise ValueError(f"{name} must be a 3D or 4D image; its shape is {item.shape}.")
    kind = np.dtype(item.dataobj.dtype).kind
    if kind not in "biuf":
        raise ValueError(
            f"{name} holds {'complex' if kind == 'c' else 'no real'} numbers, dtype "
            f"{item.dataobj.dtype}; the kernels need real ones. Decode a part of them, "
            "e.g. the magnitude."
        )
    return item


def load_volumes(imgs):
    """Return a list of 3D and 4D images on one grid, two or more volumes in all."""
    items = listed(imgs)
    images = []
    for number, item in enumerate(items):
        name = f"imgs[{number}]" if len(items) > 1 else "imgs"
        images.append(load_volume(item, name))
        if not same_grid(images[number], images[0]):
            raise ValueError(
                f"{name} is on another grid than imgs[0]: "
                f"{grid_words(images[number])}, against {grid_words(images[0])}. "
                "Resample it first: "
                f"nilearn.image.resample_to_img({name}, imgs[0])."
            )
    check_several(sum(map(n_volumes, images)), images[0].shape)
    return images


def check_several(n, shape):
    """Refuse a single image."""
    if n < 2:
        raise ValueError(
            f"imgs is a single image, shape {shape}; decoding needs one for each trial "
            "or block. Give a 4D image (2-D data on surfaces), or a list of images."
        )


def n_volumes(image):
    """Return the number of volumes in a 3D or 4D image."""
    return 1 if len(image.shape) == 3 else image.shape[3]


def same_grid(image, other):
    """Tell whether the voxels of two images are at the same places.

    Programs round affines differently, so a hundredth of a voxel is let pass.
    """
    shape = image.shape[:3]
    if shape != other.shape[:3]:
        return False
    corners = np.array(list(itertools.product(*[(0, length) for length in shape])))
    apply = nibabel.affines.apply_affine
    moved = np.abs(apply(image.affine, corners) - apply(other.affine, corners)).max()
    return bool(moved <= _TOLERANCE * nibabel.affines.voxel_sizes(other.affine).min())


def grid_words(image):
    """Word shape and affine."""
    rows = np.array2string(image.affine[:3], precision=5, suppress_small=True)
    return f"shape {image.shape[:3]} and affine {' '.join(rows.split())}"


def on_grid(data, image):
    """Return an array as an image with the affine of another."""
    # The type is that of the file it will never be; some arrays need one named.
    return nibabel.Nifti1Image(data, image.affine, dtype=np.float64)


def load_mask(mask_img, image, name="mask_img"):
    """Return a mask (x, y, z) of booleans on the grid of an image, and its affine.

    Other grids are refused, as :class:`nilearn.decoding.SearchLight` and
    :func:`nilearn.masking.apply_mask` do, and not resampled.
    """
    if isinstance(mask_img, SurfaceImage):
        raise TypeError(f"{name} is a surface but imgs are volumes; give a 3D image.")
    if isinstance(mask_img, np.ndarray):
        raise TypeError(
            f"{name} is an array, which has no affine; give an image: "
            f"nilearn.image.new_img_like(imgs, {name})."
        )
    data = load_3d(mask_img, name)
    if not same_grid(data, image):
        raise ValueError(
            f"{name} is on another grid than the images: {grid_words(data)}, against "
            f"{grid_words(image)}. Resample it first: nilearn.image.resample_to_img("
            f"{name}, imgs, interpolation='nearest')."
        )
    return as_mask(read(data, name), name), data.affine


def load_3d(item, name):
    """Return a 3D image; a 4D one that holds one volume will do."""
    image = load_volume(item, name)
    if n_volumes(image) != 1:
        raise ValueError(
            f"{name} must be a 3D image, or a 4D one of a single volume; its shape is "
            f"{image.shape}."
        )
    if len(image.shape) == 3:
        return image
    return on_grid(read(image, name)[..., 0], image)


def as_mask(data, name):
    """Return booleans for data of zeros and one other value; NaN counts as zero."""
    selected = np.nan_to_num(data, nan=0.0, posinf=0.0, neginf=0.0)
    values = np.unique(selected[selected != 0])
    if len(values) == 0:
        raise ValueError(f"{name} is empty: it selects nothing.")
    if len(values) > 1:
        raise ValueError(
            f"{name} must hold zeros and one other value; got {len(values)} others, "
            f"from {values[0]:g} to {values[-1]:g}. Make a mask of it: "
            f"nilearn.image.math_img('img > 0', img={name})."
        )
    return selected != 0


def read(image, name):
    """Return the data of an image, without keeping them in it."""
    try:
        return np.asanyarray(image.dataobj)
    except (OSError, EOFError, ValueError, zlib.error) as error:
        raise ValueError(f"The data of {name} cannot be read: {error}") from error


def joined(images):
    """Return one image of all volumes."""
    if len(images) == 1:
        return images[0]
    data = [read(image, f"imgs[{i}]") for i, image in enumerate(images)]
    data = [x[..., np.newaxis] if x.ndim == 3 else x for x in data]
    # Not concat_imgs, which casts all images to the type of the first.
    return new_img_like(images[0], np.concatenate(data, axis=3))


def _blocks(images):
    """Yield 4D images of some volumes each."""
    for number, image in enumerate(images):
        data = read(image, f"imgs[{number}]" if len(images) > 1 else "imgs")
        data = data.reshape(*data.shape[:3], -1)
        step = max(1, BLOCK // data[..., 0].size)
        for start in range(0, data.shape[3], step):
            yield on_grid(data[..., start : start + step], image)


def mask_volumes(images, mask):
    """Return data (n_volumes, n_voxels) of the True voxels of a mask, in C order.

    As :func:`nilearn.masking.apply_mask` gives them, in double precision. Beside the
    result there are only the data of one file, and copies of some volumes.
    """
    # Every voxel contiguous, as spheres take them.
    X = np.empty((np.count_nonzero(mask), sum(map(n_volumes, images)))).T
    mask, start = mask.astype(np.uint8), 0
    for block in _blocks(images):
        rows = apply_mask(
            block, on_grid(mask, block), dtype=np.float64, ensure_finite=False
        )
        X[start : start + len(rows)] = rows
        start += len(rows)
    return X


def mean_volume(images):
    """Return the mean over all volumes, a 3D image.

    Not mean_img, which adds up 3D images of whole numbers in their own type.
    """
    total = sum(
        np.asanyarray(x.dataobj).sum(axis=3, dtype=float) for x in _blocks(images)
    )
    return on_grid(total / sum(map(n_volumes, images)), images[0])


def sound_voxels(images):
    """Mark voxels (x, y, z) that are finite in all volumes and vary over them."""
    low = high = None
    for block in _blocks(images):
        data = np.asanyarray(block.dataobj)
        lows, highs = data.min(axis=3), data.max(axis=3)
        low = lows if low is None else np.minimum(low, lows)
        high = highs if high is None else np.maximum(high, highs)
    return varies(low, high)
