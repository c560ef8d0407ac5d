"""Maps of voxels on the grid of another image, by the nearest voxel of each."""

import numpy as np
from nilearn.image import resample_to_img
from nilearn.image.resampling import BoundingBoxError

from .space import VolumeSpace
from .volumes import NilearnWarnings


def nearest_voxels(space, onto):
    """Return the voxel of `space` nearest to each voxel of `onto` (W,), -1 for none."""
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
        with NilearnWarnings():
            moved = resample_to_img(numbers, target, interpolation="nearest")
    except BoundingBoxError:  # the grids do not overlap
        return np.full(onto.n_positions, -1)
    return np.asarray(moved.dataobj)[onto.mask].astype(np.intp) - 1


def take_voxels(values, nearest):
    """Return values (..., V) at voxels `nearest` (W,), NaN where there is none."""
    taken = np.take(values, nearest, axis=-1, mode="wrap")
    taken[..., nearest < 0] = np.nan
    return taken
