"""Maps of voxels on one grid: which voxel of another grid lies at each position."""

import numpy as np
from nilearn.image import resample_to_img
from nilearn.image.resampling import BoundingBoxError

from .._images.volumes import NilearnWarnings
from .._results.brain_space import VolumeSpace


def nearest_voxels(space, onto):
    """Find the voxel of a space that is nearest to each voxel of another space.

    Parameters
    ----------
    space : VolumeSpace
        The voxels that have values, V of them.
    onto : VolumeSpace
        The voxels that are to get values, W of them.

    Returns
    -------
    nearest : array of int, shape (W,)
        Index of the voxel of `space` whose cell of the grid holds the voxel of `onto`;
        -1 where the grid of `space` ends, or where its mask is empty.

    Notes
    -----
    One image, of the voxels' numbers, is resampled to its nearest neighbours by
    :func:`nilearn.image.resample_to_img`. Taking the values of these voxels is the
    same as resampling every map.

    Examples
    --------
    >>> import numpy as np
    >>> space = VolumeSpace(np.ones((3, 1, 1)), np.diag([3.0, 3.0, 3.0, 1.0]))
    >>> shifted = np.diag([3.0, 3.0, 3.0, 1.0])
    >>> shifted[0, 3] = 4.0  # mm; the grids are one voxel and a third apart
    >>> nearest_voxels(space, VolumeSpace(np.ones((3, 1, 1)), shifted))
    array([ 1,  2, -1])
    """
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
    """Return the values at other voxels.

    Parameters
    ----------
    values : array of float, shape (..., V)
        Values of the voxels of a space.
    nearest : array of int, shape (W,)
        From :func:`nearest_voxels`.

    Returns
    -------
    taken : array, shape (..., W)
        Of the same type; NaN where there is no voxel.

    Examples
    --------
    >>> import numpy as np
    >>> take_voxels(np.array([[0.5, 0.7], [0.4, 0.6]]), np.array([1, -1]))
    array([[0.7, nan],
           [0.6, nan]])
    """
    taken = np.take(values, nearest, axis=-1, mode="wrap")
    taken[..., nearest < 0] = np.nan
    return taken
