"""Columns of features: which can be used, and z-scores within runs."""

import numpy as np
from nilearn.signal import clean

from .._checks import check_option

#: Values that are z-scored at once, so that nilearn's copies stay small.
_BLOCK = 2**21


def varies(low, high):
    """Mark where the extremes are finite, and differ by more than rounding."""
    low, high = np.asarray(low, float), np.asarray(high, float)
    with np.errstate(invalid="ignore", over="ignore"):
        size = np.maximum(np.abs(low), np.abs(high))
        return high - low > 1e-12 * size  # never so where size is infinite or NaN


def usable_columns(X):
    """Mark columns of X that are finite and vary by more than rounding.

    Z-scoring within runs leaves nothing of a column that differs between runs only, so
    ask again after :func:`standardize`.

    Parameters
    ----------
    X : ndarray, shape (n_images, n_features)
        Data.

    Returns
    -------
    usable : ndarray of bool, shape (n_features,)
        False for columns with NaN or infinite values, and for constant ones.

    Examples
    --------
    >>> usable_columns(np.array([[1.0, 5.0, np.nan], [2.0, 5.0, 0.0]]))
    array([ True, False, False])
    """
    return varies(X.min(axis=0), X.max(axis=0))


def standardize(X, groups, codes, how="zscore_sample"):
    """Z-score every feature within each run, without labels.

    The rows of a run get mean 0 and standard deviation 1 (with n - 1 in the
    denominator), as :func:`nilearn.signal.clean` does it, and nothing else is done to
    them: no detrending and no filter. Features that are constant within a run become 0
    there, and features with NaN or infinite values there too.

    When every group holds a single class (patients and controls, say), z-scores are
    over all images, since those within groups would remove the difference between
    classes. Labels are used for this check only.

    Parameters
    ----------
    X : ndarray of float64, shape (n_images, n_features)
        Data. They are overwritten.
    groups : ndarray, shape (n_images,) | None
        Runs. None is one run.
    codes : ndarray of int, shape (n_images,)
        Classes.
    how : "zscore_sample" | None | False
        None and False leave the data alone.

    Returns
    -------
    X : ndarray, shape (n_images, n_features)
        The same memory.

    Raises
    ------
    ValueError
        If `how` is something else, or if some groups hold a single class and others
        do not: z-scores within such a group would remove what tells its class.

    Examples
    --------
    >>> X = np.array([[1.0], [3.0], [10.0], [14.0]])
    >>> standardize(X, np.array([1, 1, 2, 2]), np.array([0, 1, 0, 1])).round(2).ravel()
    array([-0.71,  0.71, -0.71,  0.71])
    """
    if not check_option("standardize", how, ("zscore_sample", False, None)):
        return X
    for rows in find_runs(groups, codes):
        step = max(1, _BLOCK // len(rows))
        for start in range(0, X.shape[1], step):
            columns = slice(start, start + step)
            X[rows, columns] = _zscores(X[rows, columns])
    return X


def find_runs(groups, codes):
    """Return the rows of every run within which to z-score."""
    everything = [np.arange(len(codes))]
    if groups is None:
        return everything
    runs = {name: np.flatnonzero(groups == name) for name in np.unique(groups)}
    single = [name for name, rows in runs.items() if len(set(codes[rows])) == 1]
    if len(single) == len(runs):
        return everything
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
    """Return which usable columns of z-scores are constant within some run only.

    Parameters
    ----------
    X : ndarray, shape (n_images, n_features)
        From :func:`standardize`.
    usable : ndarray of bool, shape (n_features,)
        The columns that vary at all.
    runs : list of ndarray of int
        The images of every run, from :func:`find_runs`.

    Returns
    -------
    flat : ndarray of bool, shape (n_features,)
        They tell nothing in that run, where they are zero.

    Raises
    ------
    ValueError
        If nothing varies in a run.
    """
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
