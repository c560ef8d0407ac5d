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

import itertools
import os
import zlib
from pathlib import Path
from warnings import catch_warnings, simplefilter

import nibabel
import numpy as np
from nibabel.cifti2 import Cifti2Image
from nibabel.spatialimages import SpatialImage
from nilearn.image import new_img_like
from nilearn.maskers import SurfaceMasker
from nilearn.masking import apply_mask
from nilearn.signal import clean
from nilearn.surface import SurfaceImage

from ..utils.advice import advice, described, is_foreign
from ..utils.checks import (
    all_items,
    check_option,
    expand_pattern,
    refuse_long_name,
    warn,
)

#: Values of whole images that are masked at once, so that copies stay small.
MASKED_AT_ONCE = 2**22
#: Values that are z-scored at once, so that nilearn's copies stay small.
SCORED_AT_ONCE = 2**21
#: Grids are one if their corners are closer than this part of a voxel: programs round
#: affines differently.
_TOLERANCE = 0.01


class NilearnWarnings(catch_warnings):
    """A context that hands nilearn's warnings about data on to the caller."""

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
            # Not its news of later versions, nor what numbers do inside of it.
            ours = issubclass(kind, UserWarning) and not issubclass(kind, FutureWarning)
            if ours and error[0] is None:
                warn(f"nilearn says: {message}", kind)


def listed(imgs):
    """Return images as a list, one path for every file that a pattern stands for."""
    if isinstance(imgs, str | os.PathLike | SpatialImage | SurfaceImage | Cifti2Image):
        imgs = [imgs]
    try:
        if not _may_be_images(imgs):
            raise TypeError
        items = [part for item in all_items("imgs", imgs) for part in _expand(item)]
    except TypeError:
        raise TypeError(
            "imgs must be a 4D image, a list of images, their paths, or a 2-D array; "
            f"got {described(imgs)}.{advice(imgs)}"
        ) from None
    if not items:
        raise ValueError("imgs is empty: it holds no image.")
    return items


def _may_be_images(imgs):
    """Tell whether something may hold images: no data of another kind."""
    several = isinstance(imgs, list | tuple) and len(imgs) > 0
    images = isinstance(imgs[0] if several else imgs, SpatialImage | SurfaceImage)
    return images or not (is_foreign(imgs) or isinstance(imgs, dict))


def _expand(item):
    """Return a list of an image, or of the paths that a pattern stands for."""
    if isinstance(item, str | os.PathLike):
        return expand_pattern(item, " in imgs")
    return [item]


def open_image(item, name, errors):
    """Return the image at a path, anything else as it is; say which file has errors."""
    if not isinstance(item, str | os.PathLike):
        return item
    path = Path(item).expanduser()
    refuse_long_name(path, name)
    if not path.is_file():
        raise FileNotFoundError(f"{name}: {str(path)!r} is no file.")
    try:
        return nibabel.load(path)
    except errors as error:
        raise ValueError(f"{name}: {str(path)!r} is no image: {error}") from error


def load_volume(item, name):
    """Return an image with 3 or 4 dimensions, its data not yet read."""
    errors = nibabel.filebasedimages.ImageFileError, OSError, EOFError
    item = open_image(item, name, errors)
    if not isinstance(item, SpatialImage):
        raise TypeError(
            f"{name} must be a volume, or the path of one, e.g. a .nii.gz file; got "
            f"{described(item)}.{advice(item)}"
        )
    if len(item.shape) not in (3, 4) or 0 in item.shape:
        raise ValueError(f"{name} must be a 3D or 4D image; its shape is {item.shape}.")
    kind = np.dtype(item.dataobj.dtype).kind
    if kind not in "biuf":
        raise ValueError(
            f"{name} holds {'complex' if kind == 'c' else 'no real'} numbers, dtype "
            f"{item.dataobj.dtype}; the kernels need real ones. Make an image of the "
            "magnitude: nibabel.Nifti1Image(np.abs(np.asarray(img.dataobj)), "
            "img.affine)."
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
            "or block. Pass a 4D image (2-D data on surfaces), or a list of images."
        )


def n_volumes(image):
    """Return the number of volumes in a 3D or 4D image."""
    return 1 if len(image.shape) == 3 else image.shape[3]


def same_grid(image, other):
    """Tell whether the voxels of two images are at the same places."""
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
    """Return a mask (x, y, z) of booleans on the grid of an image, and its affine."""
    if isinstance(mask_img, SurfaceImage):
        raise TypeError(f"{name} is a surface but imgs are volumes; use a 3D image.")
    if isinstance(mask_img, np.ndarray):
        raise TypeError(
            f"{name} is an array, which has no affine; pass an image: "
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


def _volume_blocks(images):
    """Yield 4D images of some volumes each."""
    for number, image in enumerate(images):
        data = read(image, f"imgs[{number}]" if len(images) > 1 else "imgs")
        data = data.reshape(*data.shape[:3], -1)
        step = max(1, MASKED_AT_ONCE // data[..., 0].size)
        for start in range(0, data.shape[3], step):
            yield on_grid(data[..., start : start + step], image)


def mask_volumes(images, mask):
    """Return data (n_volumes, n_voxels) of the True voxels of a mask, in C order."""
    # Every voxel contiguous, as spheres take them. Beside the result there are only the
    # data of one file, and copies of some volumes.
    X = np.empty((np.count_nonzero(mask), sum(map(n_volumes, images)))).T
    mask, start = mask.astype(np.uint8), 0
    for block in _volume_blocks(images):
        rows = apply_mask(
            block, on_grid(mask, block), dtype=np.float64, ensure_finite=False
        )
        X[start : start + len(rows)] = rows
        start += len(rows)
    return X


def mean_volume(images):
    """Return the mean over all volumes, a 3D image."""
    # Not mean_img, which adds up 3D images of whole numbers in their own type.
    total = sum(
        np.asanyarray(x.dataobj).sum(axis=3, dtype=float)
        for x in _volume_blocks(images)
    )
    return on_grid(total / sum(map(n_volumes, images)), images[0])


def sound_voxels(images):
    """Mark voxels (x, y, z) that are finite in all volumes and vary over them."""
    low = high = None
    for block in _volume_blocks(images):
        data = np.asanyarray(block.dataobj)
        lows, highs = data.min(axis=3), data.max(axis=3)
        low = lows if low is None else np.minimum(low, lows)
        high = highs if high is None else np.maximum(high, highs)
    return varies(low, high)


def is_surface(imgs):
    """Tell whether images are surfaces, and refuse a mixture with others."""
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
    """Return a list of surface images on one mesh, two or more maps in all."""
    images = listed(imgs)
    for number, image in enumerate(images):
        name = f"imgs[{number}]" if len(images) > 1 else "imgs"
        check_mesh(image, images[0], name, "imgs[0]")
        for part, data in image.data.parts.items():
            if data.ndim not in (1, 2) or data.dtype.kind not in "biuf":
                raise ValueError(
                    f"{name} must hold real numbers, of shape (n_vertices,) or "
                    f"(n_vertices, n_images); its {part} part has shape {data.shape} "
                    f"and dtype {data.dtype}."
                )
    check_several(sum(map(n_maps, images)), images[0].shape)
    return images


def n_maps(image):
    """Return the number of maps in a surface image."""
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
        words, others_words = (
            ", ".join(f"{len(mesh.coordinates)} {p}" for p, mesh in parts.items())
            for parts in (meshes, known)
        )
        raise ValueError(
            f"{name} is on another mesh than {others}: {words} vertices against "
            f"{others_words}, or other triangles. Use one mesh for all, e.g. "
            "nilearn.surface.SurfaceImage.from_volume with the same mesh."
        )


def load_surface_mask(mask_img, image, name="mask_img"):
    """Return a mask of booleans by part, for the mesh of an image."""
    if not isinstance(mask_img, SurfaceImage):
        raise TypeError(
            f"{name} must be a nilearn SurfaceImage, as imgs are surfaces; got "
            f"{type(mask_img).__name__}."
        )
    check_mesh(mask_img, image, name)
    return split_parts(as_mask(surface_map(mask_img, name), name), image)


def surface_map(image, name):
    """Return the one value of every vertex, part after part."""
    if n_maps(image) != 1:
        raise ValueError(
            f"{name} must hold one value for each vertex; its shape is {image.shape}."
        )
    return np.concatenate([data.ravel() for data in image.data.parts.values()])


def split_parts(values, image):
    """Return values of all vertices by part of a surface."""
    counts = [len(mesh.coordinates) for mesh in image.mesh.parts.values()]
    pieces = np.split(values, np.cumsum(counts)[:-1])
    return dict(zip(image.mesh.parts, pieces, strict=True))


def mask_surfaces(images, mask):
    """Return data (n_maps, n_vertices) of the True vertices of a mask."""
    # Every vertex contiguous, as neighbourhoods take them.
    n_vertices = sum(map(np.count_nonzero, mask.values()))
    X = np.empty((n_vertices, sum(map(n_maps, images)))).T
    start = 0
    for image in images:
        masker = SurfaceMasker(
            SurfaceImage(images[0].mesh, mask), standardize=None, reports=False
        ).fit()
        for block in _surface_blocks(image, images[0].mesh):
            rows = masker.transform(block)
            X[start : start + len(rows)] = rows
            start += len(rows)
    return X


def _surface_blocks(image, mesh):
    """Yield surface images of some maps each, on the given mesh."""
    parts = {p: x.reshape(len(x), -1) for p, x in image.data.parts.items()}
    step = max(1, MASKED_AT_ONCE // image.shape[0])
    for start in range(0, n_maps(image), step):
        cut = {part: data[:, start : start + step] for part, data in parts.items()}
        yield SurfaceImage(mesh, cut)


def joined_surfaces(images):
    """Return one surface image of all maps, on the mesh of the first."""
    parts = {
        part: np.concatenate(
            [x.data.parts[part].reshape(len(x.data.parts[part]), -1) for x in images],
            axis=1,
        )
        for part in images[0].data.parts
    }
    return SurfaceImage(images[0].mesh, parts)


def varies(low, high):
    """Mark where the extremes are finite, and differ by more than rounding."""
    low, high = np.asarray(low, float), np.asarray(high, float)
    with np.errstate(invalid="ignore", over="ignore"):
        size = np.maximum(np.abs(low), np.abs(high))
        return high - low > 1e-12 * size  # never so where size is infinite or NaN


def usable_columns(X):
    """Mark columns of X (n_images, n_features) that are finite and vary."""
    # Z-scores within runs leave nothing of a column that differs between runs only: ask
    # again after `standardize`.
    return varies(X.min(axis=0), X.max(axis=0))


def standardize(X, groups, codes, how="zscore_sample"):
    """Z-score X (n_images, n_features) within each run, in place; labels are codes."""
    if not check_option("standardize", how, ("zscore_sample", False, None)):
        return X
    for rows in find_runs(groups, codes):
        step = max(1, SCORED_AT_ONCE // len(rows))
        for start in range(0, X.shape[1], step):
            columns = slice(start, start + step)
            X[rows, columns] = _zscores(X[rows, columns])
    return X


def deviations_within(X, runs):
    """Return what z-scores divide columns of X (n_images, n_features) by in each run.

    As an array (n_runs, n_features). Constant columns, whose z-scores are 0, may have
    any.
    """
    deviations = np.empty((len(runs), X.shape[1]))
    for run, rows in enumerate(runs):
        step = max(1, SCORED_AT_ONCE // len(rows))
        for start in range(0, X.shape[1], step):
            columns = slice(start, start + step)
            with np.errstate(invalid="ignore", over="ignore"):  # of what is no number
                deviations[run, columns] = X[rows, columns].std(axis=0, ddof=1)
    return deviations


def find_runs(groups, codes):
    """Return the rows of every run within which to z-score."""
    everything = [np.arange(len(codes))]
    if groups is None:
        return everything
    runs = {name: np.flatnonzero(groups == name) for name in np.unique(groups)}
    single = [name for name, rows in runs.items() if len(set(codes[rows])) == 1]
    if len(single) == len(runs):
        return everything  # patients and controls, say, whose difference would go
    if single:
        name = single[0].item() if isinstance(single[0], np.generic) else single[0]
        more = f" (and {len(single) - 1} more)" if len(single) > 1 else ""
        raise ValueError(
            f"The group {name!r}{more} holds images of a single class. Z-scoring "
            "within it would remove what tells its class. Drop its images, or use "
            "standardize=False."
        )
    return list(runs.values())


def flat_within_runs(X, usable, runs):
    """Mark usable columns of z-scores that are constant within some run only."""
    flat = np.zeros(X.shape[1], dtype=bool)
    for rows in runs:
        here = usable & ~X[rows].any(axis=0)
        if np.array_equal(here, usable):
            raise ValueError(
                f"Nothing varies in the group of image {rows[0]} (counted from 0): "
                "every voxel is constant in its images. Drop them."
            )
        flat |= here
    return flat


def _zscores(data):
    """Return z-scores (n_rows, n_features); 0 for constant and for NaN."""
    scores = np.zeros_like(data)
    varying = usable_columns(data)
    if varying.any():
        data = data[:, varying]
        # nilearn takes a deviation below 2e-16 for none, whatever the unit.
        data /= np.abs(data).max(axis=0)
        with np.errstate(invalid="ignore"):  # its check for a mean of zero: 0 / 0
            scores[:, varying] = clean(
                data, detrend=False, standardize="zscore_sample", filter=False
            )
    return scores
