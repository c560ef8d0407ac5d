"""From observed scores and their permutation null to p-values.

Every function takes the observed scores, shape (positions...), and the null, shape
(P, positions...): the scores of the same positions under P label permutations. The same
permutations must have been used at every position, otherwise the null of a maximum or
of a cluster means nothing. Large scores are the interesting ones: all tests are
one-sided.
"""

from dataclasses import dataclass

import numpy as np
from scipy.stats import false_discovery_control, norm

from ._checks import check_option, check_positive
from ._clusters import find_clusters, tfce

__all__ = [
    "CORRECTIONS",
    "Cluster",
    "clusters",
    "corrected_p_values",
    "find_clusters",
    "p_values",
    "smallest_p_value",
    "tfce",
]

#: Scores that differ by less than this, relative to their size, are ties.
TIE = 1e-10


def p_values(observed, null):
    r"""Permutation p-values, one per position, not corrected for their number.

    Parameters
    ----------
    observed : float or array, shape (positions...)
        Observed scores.
    null : array, shape (P, positions...)
        Scores under P label permutations, the observed labels not among them.

    Returns
    -------
    p : float or array, shape (positions...)
        p-values between 1 / (P + 1) and 1.

    Raises
    ------
    ValueError
        If there are no permutations, if the shapes do not fit, or if a score is NaN
        or infinite.

    Notes
    -----
    The observed labels are one of the possible permutations and count as one [1]_:

    .. math:: p = \frac{1 + \#\{\mathrm{null} \ge \mathrm{observed}\}}{1 + P}

    Scores that are equal but for rounding count as ties, hence as ">=". "Equal" is
    measured against the largest absolute score of that position, so that it also works
    for an observed score of zero.

    References
    ----------
    .. [1] Phipson, B., & Smyth, G. K. (2010). Permutation p-values should never be
       zero. Statistical Applications in Genetics and Molecular Biology, 9(1), 39.

    Examples
    --------
    >>> import numpy as np
    >>> p_values(0.7, np.array([0.5, 0.7, 0.4]))
    0.5
    """
    return _float_if_single(_p(*_check_scores(observed, null)))


def corrected_p_values(
    observed, null, correction="none", *, adjacency=None, threshold=0.05
):
    """p-values corrected for the number of positions.

    Parameters
    ----------
    observed : float or array, shape (positions...)
        Observed scores.
    null : array, shape (P, positions...)
        Scores under P label permutations, the same ones at every position.
    correction : str or None, default="none"
        "none" (or None): p-values as they are.
        "max": the largest score of each permutation over all positions is the null;
        family-wise error [1]_.
        "bonferroni": p times the number of positions; family-wise error.
        "fdr": Benjamini-Hochberg; false discovery rate, for positions that are
        independent or positively related [2]_.
        "cluster": mass of clusters of neighbouring positions; family-wise error of
        whole clusters, not of single positions [3]_. Positions outside of all clusters
        get p = 1.
        "tfce": threshold-free cluster enhancement, with the null of its maximum;
        family-wise error [4]_.
    adjacency : sparse matrix, shape (n_positions, n_positions) or None, default=None
        Which positions are neighbours, for "cluster" and "tfce"; the positions are
        counted in C order. None: neighbours on the lattice of `observed`.
    threshold : float, default=0.05
        p-level, one-sided, that a position passes to be in a cluster; for "cluster".

    Returns
    -------
    p : float or array, shape (positions...)
        Corrected p-values.

    Raises
    ------
    ValueError
        If the correction is not known, if there are no permutations, or if the
        scores, the adjacency or the threshold are not valid.

    Notes
    -----
    Clusters and TFCE work on standardised scores, because raw scores have a chance
    level and a spread of their own at each position: z = (score - mean) / sd, with the
    mean and sd of that position over the observed and all permuted scores. As the
    observed row takes part like every other row, rows stay exchangeable. The threshold
    p-level becomes the normal quantile z.

    References
    ----------
    .. [1] Nichols, T. E., & Holmes, A. P. (2002). Nonparametric permutation tests for
       functional neuroimaging. Human Brain Mapping, 15(1), 1-25.
    .. [2] Benjamini, Y., & Hochberg, Y. (1995). Controlling the false discovery rate.
       Journal of the Royal Statistical Society B, 57(1), 289-300.
    .. [3] Maris, E., & Oostenveld, R. (2007). Nonparametric statistical testing of
       EEG- and MEG-data. Journal of Neuroscience Methods, 164(1), 177-190.
    .. [4] Smith, S. M., & Nichols, T. E. (2009). Threshold-free cluster enhancement.
       NeuroImage, 44(1), 83-98.

    Examples
    --------
    >>> import numpy as np
    >>> observed = np.array([0.5, 0.9, 0.9])
    >>> null = np.random.default_rng(0).uniform(0.4, 0.6, (99, 3))
    >>> corrected_p_values(observed, null, "max")
    array([0.92, 0.01, 0.01])
    """
    correction = "none" if correction is None else correction
    check_option("correction", correction, CORRECTIONS)
    observed, null = _check_scores(observed, null)
    correct = CORRECTIONS[correction]
    p = correct(observed, null, adjacency=adjacency, threshold=threshold)
    return _float_if_single(p)


def smallest_p_value(n_permutations, n_positions=1, correction="none"):
    """Return the smallest p-value that so many permutations can give.

    Parameters
    ----------
    n_permutations : int
        Number of permutations P.
    n_positions : int, default=1
        Number of positions that are tested.
    correction : str, default="none"
        As in :func:`corrected_p_values`.

    Returns
    -------
    p : float
        1 / (P + 1), times the number of positions for "bonferroni".

    Examples
    --------
    >>> smallest_p_value(999)
    0.001
    """
    tests = n_positions if correction == "bonferroni" else 1
    return min(1.0, tests / (n_permutations + 1))


@dataclass(frozen=True, eq=False)
class Cluster:
    """A cluster of neighbouring positions with large scores.

    Attributes
    ----------
    mask : array of bool, shape (positions...)
        True where the cluster is.
    mass : float
        Sum of the standardised scores in the cluster.
    p_value : float
        Family-wise p-value of the cluster.
    """

    mask: np.ndarray
    mass: float
    p_value: float


def clusters(observed, null, *, adjacency=None, threshold=0.05):
    """Find clusters of large scores and test their mass.

    Parameters
    ----------
    observed : array, shape (positions...)
        Observed scores.
    null : array, shape (P, positions...)
        Scores under P label permutations, the same ones at every position.
    adjacency : sparse matrix, shape (n_positions, n_positions) or None, default=None
        As in :func:`corrected_p_values`.
    threshold : float, default=0.05
        As in :func:`corrected_p_values`.

    Returns
    -------
    clusters : list of Cluster
        All clusters of the observed scores, the one with the largest mass first.

    Raises
    ------
    ValueError
        If there are no permutations, or if the scores, the adjacency or the threshold
        are not valid.

    Examples
    --------
    >>> import numpy as np
    >>> observed = np.array([0.5, 0.9, 0.9])
    >>> null = np.random.default_rng(0).uniform(0.4, 0.6, (99, 3))
    >>> [(found.mask, found.p_value) for found in clusters(observed, null)]
    [(array([False,  True,  True]), 0.01)]
    """
    observed, null = _check_scores(observed, null)
    labels, masses, p = _test_clusters(observed, null, adjacency, threshold)
    order = np.argsort(-masses, kind="stable")
    return [Cluster(labels == k + 1, float(masses[k]), float(p[k])) for k in order]


# -------------------------------------------------------------- corrections, by name


def _none(observed, null, **_):
    return _p(observed, null)


def _max(observed, null, **_):
    return _against_maximum(observed, null)


def _bonferroni(observed, null, **_):
    return np.minimum(1.0, _p(observed, null) * observed.size)


def _fdr(observed, null, **_):
    p = _p(observed, null)
    return false_discovery_control(p.ravel()).reshape(p.shape)


def _cluster(observed, null, *, adjacency, threshold):
    labels, _, p = _test_clusters(observed, null, adjacency, threshold)
    return np.concatenate([[1.0], p])[labels]


def _tfce(observed, null, *, adjacency, **_):
    z, shape = _standardise(observed, null), observed.shape
    scores = tfce(z.reshape(len(z), *(shape or (1,))), adjacency).reshape(z.shape)
    return _against_maximum(scores[0], scores[1:])


#: The corrections for the number of positions, by name.
CORRECTIONS = {
    "none": _none,
    "max": _max,
    "fdr": _fdr,
    "bonferroni": _bonferroni,
    "cluster": _cluster,
    "tfce": _tfce,
}


def _p(observed, null):
    """Count the p-values of observed (positions...) in a null that fits or is (P, 1..).

    The largest score in sight sets the size of a tie; copies of the null are avoided.
    """
    as_large = null >= observed - TIE * _size(observed, null)
    return (1 + np.count_nonzero(as_large, axis=0)) / (1 + len(null))


def _size(observed, null):
    """Return the largest absolute score of each position."""
    largest = np.maximum(null.max(axis=0), -null.min(axis=0))
    return np.maximum(np.abs(observed), largest)


def _float_if_single(p):
    return np.asarray(p) if np.ndim(p) else float(p)


def _against_maximum(values, null):
    """Compare each value with the null of the maximum over all positions."""
    largest = null.reshape(len(null), -1).max(axis=1)
    return _p(values, largest.reshape(-1, *(1,) * values.ndim))


def _test_clusters(observed, null, adjacency, threshold):
    """Return the labels of the observed clusters, their masses and p-values."""
    if check_positive("threshold", threshold) > 0.5:
        raise ValueError(
            f"Invalid value for 'threshold': {threshold!r}. Allowed: a p-level above 0 "
            "and up to 0.5, such as 0.05."
        )
    z = _standardise(observed, null)
    maps = z.reshape(len(z), *(observed.shape or (1,)))
    height = norm.isf(threshold)
    labels, masses = find_clusters(maps[:1], height, adjacency)
    null_labels, null_masses = find_clusters(maps[1:], height, adjacency)
    # A permutation without any cluster has a largest mass of zero.
    null_mass = np.concatenate([[0.0], null_masses])[null_labels]
    p = _against_maximum(masses, null_mass)
    return labels[0].reshape(observed.shape), masses, p


def _standardise(observed, null):
    """Return z-scores (P + 1, positions...), observed first; 0 where all rows tie."""
    scores = np.concatenate([observed[np.newaxis], null])
    scores -= scores.mean(axis=0)
    sd = scores.std(axis=0)
    flat = sd <= TIE * _size(observed, null)
    return np.where(flat, 0.0, scores / np.where(flat, 1.0, sd))


# ------------------------------------------------------------------------------ checks


def _check_scores(observed, null):
    observed = np.asarray(observed, dtype=float)
    null = np.asarray(null, dtype=float)
    if null.shape[1:] != observed.shape or null.ndim == 0:
        raise ValueError(
            "null must hold one row per permutation, shape (P, *observed.shape); got "
            f"null {null.shape} and observed {observed.shape}."
        )
    if len(null) == 0:
        raise ValueError(
            "There are no permutations to compare the scores with. Run the analysis "
            "again with n_permutations=1000 or another number above zero."
        )
    if not (np.isfinite(observed).all() and np.isfinite(null).all()):
        raise ValueError(
            "Scores must be finite; observed or null holds NaN or infinite values."
        )
    return observed, null
