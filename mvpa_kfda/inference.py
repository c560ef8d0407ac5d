"""From observed scores and their permutation null to p-values.

Every function takes the observed scores, shape (positions...), and the null, shape
(P, positions...): the scores of the same positions under P label permutations. The same
permutations must have been used at every position, otherwise the null of a maximum or
of a cluster means nothing. Large scores are the interesting ones: all tests are
one-sided.

The null of a map may be large. A float32 null is used as it is, in memory or
memory-mapped, and the observed scores are then compared at its precision; any other is
taken as float64. No copy of the null is made. A `NullSummary` can replace the null.
"""

from dataclasses import dataclass

import numpy as np
from scipy.stats import false_discovery_control, norm

from ._checks import check_option, word_bytes
from ._clusters import find_clusters, tfce
from ._null import (
    FullNull,
    against_maximum,
    as_precise_as,
    check_finite,
    check_level,
    count_p,
    standardise,
)
from ._null_summary import NullCollector, NullSummary, summarize_null

__all__ = [
    "CORRECTIONS",
    "Cluster",
    "NullCollector",
    "NullSummary",
    "clusters",
    "corrected_p_values",
    "find_clusters",
    "p_values",
    "p_values_from_summary",
    "smallest_p_value",
    "summarize_null",
    "tfce",
]


def p_values(observed, null):
    r"""Permutation p-values, one per position, not corrected for their number.

    Parameters
    ----------
    observed : float or array, shape (positions...)
        Observed scores.
    null : array or memmap, shape (P, positions...)
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
    for an observed score of zero: to 1e-10 of it, with a float32 null to 5e-7.

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
    null = FullNull(observed, null)
    return _float_if_single(_none(null.observed, null))


def corrected_p_values(
    observed, null, correction="none", *, adjacency=None, threshold=0.05
):
    """p-values corrected for the number of positions.

    Parameters
    ----------
    observed : float or array, shape (positions...)
        Observed scores.
    null : array or memmap, shape (P, positions...)
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
    correct = _correction(correction)
    null = FullNull(observed, null, adjacency, threshold)
    return _float_if_single(correct(null.observed, null, adjacency, threshold))


def p_values_from_summary(
    observed, summary, correction="none", *, adjacency=None, threshold=0.05
):
    """Compute p-values as `corrected_p_values`, from a summary of the null.

    Parameters
    ----------
    observed : float or array, shape (positions...)
        Observed scores, the same that the summary was made with.
    summary : NullSummary
        What was kept of the null.
    correction : str or None, default="none"
        As in :func:`corrected_p_values`. "cluster" and "tfce" need a summary made with
        clusters.
    adjacency : sparse matrix, shape (n_positions, n_positions) or None, default=None
        As in :func:`corrected_p_values`, the same that the summary was made with.
    threshold : float, default=0.05
        As in :func:`corrected_p_values`, the same that the summary was made with.

    Returns
    -------
    p : float or array, shape (positions...)
        Corrected p-values, exactly those of the whole null.

    Raises
    ------
    ValueError
        If the correction is not known, if the summary does not hold what it needs, or
        if the scores, the adjacency or the threshold are not valid.

    Examples
    --------
    >>> import numpy as np
    >>> observed = np.array([0.5, 0.9, 0.9])
    >>> null = np.random.default_rng(0).uniform(0.4, 0.6, (99, 3))
    >>> p_values_from_summary(observed, summarize_null(observed, null), "max")
    array([0.92, 0.01, 0.01])
    """
    correct = _correction(correction)
    observed = as_precise_as(summary.maximum.dtype, observed)
    check_finite(observed)
    if observed.shape != summary.exceedances.shape:
        raise ValueError(
            f"The summary is of positions {summary.exceedances.shape}, observed has "
            f"shape {observed.shape}; give the scores that the summary was made with."
        )
    _check_kept(summary, correction, threshold)
    return _float_if_single(correct(observed, summary, adjacency, threshold))


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
    null : array or memmap, shape (P, positions...)
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
    null = FullNull(observed, null, adjacency, threshold)
    labels, masses, p = _test_clusters(null.observed, null, adjacency, threshold)
    order = np.argsort(-masses, kind="stable")
    return [Cluster(labels == k + 1, float(masses[k]), float(p[k])) for k in order]


# -------------------------------------------------------------- corrections, by name
# Each takes the observed scores and a FullNull or NullSummary, which have the same
# attributes.


def _none(observed, null, *_):
    return count_p(null.exceedances, null.n_permutations)


def _max(observed, null, *_):
    return against_maximum(observed, null.maximum, null.maximum.dtype)


def _bonferroni(observed, null, *_):
    return np.minimum(1.0, _none(observed, null) * observed.size)


def _fdr(observed, null, *_):
    p = _none(observed, null)
    return false_discovery_control(p.ravel()).reshape(p.shape)


def _cluster(observed, null, adjacency, threshold):
    labels, _, p = _test_clusters(observed, null, adjacency, threshold)
    return np.concatenate([[1.0], p])[labels]


def _tfce(observed, null, adjacency, _):
    z = standardise(observed[np.newaxis], null.moments)
    scores = tfce(z, adjacency).reshape(observed.shape)
    return against_maximum(scores, null.tfce_maximum, null.maximum.dtype)


#: The corrections for the number of positions, by name.
CORRECTIONS = {
    "none": _none,
    "max": _max,
    "fdr": _fdr,
    "bonferroni": _bonferroni,
    "cluster": _cluster,
    "tfce": _tfce,
}

#: What a summary must hold for the corrections that need more than the rest.
_KEPT = {"cluster": "cluster_maximum", "tfce": "tfce_maximum"}


def _correction(name):
    """Return the function of a correction."""
    name = "none" if name is None else name
    return CORRECTIONS[check_option("correction", name, CORRECTIONS)]


def _test_clusters(observed, null, adjacency, threshold):
    """Return the labels of the observed clusters, their masses and p-values."""
    height = norm.isf(check_level(threshold))
    z = standardise(observed[np.newaxis], null.moments)
    labels, masses = find_clusters(z, height, adjacency)
    p = against_maximum(masses, null.cluster_maximum, null.maximum.dtype)
    return labels.reshape(observed.shape), masses, p


def _float_if_single(p):
    return np.asarray(p) if np.ndim(p) else float(p)


def _check_kept(summary, correction, threshold):
    """Raise a ValueError unless the summary holds what a correction needs."""
    needed = _KEPT.get(correction)
    if needed is None:
        return
    if summary.moments is None or getattr(summary, needed) is None:
        n, shape = summary.n_permutations, summary.exceedances.shape
        size = n * summary.exceedances.size * 4
        raise ValueError(
            f"The correction {correction!r} needs the whole null, which was not kept. "
            f"Run the analysis again with null='full', which keeps {n} permutations "
            f"of positions {shape} in {word_bytes(size)}, or with null='stream', which "
            "keeps the largest cluster of each permutation."
        )
    if correction == "cluster" and check_level(threshold) != summary.threshold:
        raise ValueError(
            f"Clusters were formed at threshold={summary.threshold:g}, and only that "
            f"was kept; got {threshold:g}. Run the analysis again with null='full', "
            "which allows any threshold."
        )
