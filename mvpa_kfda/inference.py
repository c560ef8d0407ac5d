"""From observed scores and their permutation null to p-values.

Every function takes the observed scores, shape (positions...), and the null, shape
(P, positions...): the scores of the same positions under P label permutations. The same
permutations must have been used at every position, otherwise the null of a maximum or
of a cluster means nothing.

Large scores are the interesting ones, unless another alternative is asked for. "less"
tests for small scores, as if all had their sign changed. "two-sided" tests for scores
far from the centre, abs(score - centre), where the centre of a position is its mean
over the observed and all permuted scores; positive and negative clusters stay apart.

The null of a map may be large. A float32 null is used as it is, in memory or
memory-mapped, and the observed scores are then compared at its precision; any other is
taken as float64. No copy of the null is made. A `NullSummary` can replace the null.
"""

import numpy as np

from ._inference.clusters import find_clusters, tfce
from ._inference.corrections import (
    CORRECTIONS,
    Cluster,
    check_correction,
    correct,
    list_clusters,
    smallest_p_value,
)
from ._inference.null import FullNull
from ._inference.null_summary import (
    NullCollector,
    NullSummary,
    SummarisedNull,
    summarize_null,
)

__all__ = [
    "CORRECTIONS",
    "Cluster",
    "NullCollector",
    "NullSummary",
    "check_correction",
    "clusters",
    "correct",
    "corrected_p_values",
    "find_clusters",
    "p_values",
    "p_values_from_summary",
    "smallest_p_value",
    "summarize_null",
    "tfce",
]


def p_values(observed, null, alternative="greater"):
    r"""Permutation p-values, one per position, not corrected for their number.

    Parameters
    ----------
    observed : float or array, shape (positions...)
        Observed scores.
    null : array or memmap, shape (P, positions...)
        Scores under P label permutations, the observed labels not among them.
    alternative : {"greater", "less", "two-sided"}, default="greater"
        Which scores are tested for: larger ones than under permuted labels, smaller
        ones, or ones further from the centre, the mean over all rows.

    Returns
    -------
    p : float or array, shape (positions...)
        p-values between 1 / (P + 1) and 1.

    Raises
    ------
    ValueError
        If there are no permutations, if the shapes do not fit, if a score is NaN or
        infinite, or if the alternative is not known.

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
    null = FullNull(observed, null, alternative=alternative)
    return _float_if_single(correct(null, "none"))


def corrected_p_values(
    observed,
    null,
    correction="none",
    *,
    adjacency=None,
    threshold=0.05,
    alternative="greater",
):
    r"""p-values corrected for the number of positions.

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
        "max-step-down": the same in steps, see the notes; family-wise error, with
        p-values that are never larger than those of "max" [2]_.
        "bonferroni": p times the number of positions; family-wise error.
        "fdr": Benjamini-Hochberg; false discovery rate, for positions that are
        independent or positively related [3]_.
        "fdr-by": Benjamini-Yekutieli; false discovery rate, however the positions are
        related. Its p-values are 1 + 1/2 + ... + 1/m times those of "fdr", for m
        positions [4]_.
        "cluster": mass of clusters of neighbouring positions; family-wise error of
        whole clusters, not of single positions [5]_. Positions outside of all clusters
        get p = 1.
        "cluster-size": the same with the number of positions in place of the mass.
        "tfce": threshold-free cluster enhancement, with the null of its maximum;
        family-wise error [6]_.
        Other spellings: "fdr-bh", "cluster-mass", "step-down", and underscores.
    adjacency : sparse matrix, shape (n_positions, n_positions) or None, default=None
        Which positions are neighbours, for clusters and "tfce"; the positions are
        counted in C order. None: neighbours on the lattice of `observed`.
    threshold : float, default=0.05
        p-level that a position passes to be in a cluster, for "cluster" and
        "cluster-size": of the one side that is tested, or of both together.
    alternative : {"greater", "less", "two-sided"}, default="greater"
        Which scores are tested for: larger ones than under permuted labels, smaller
        ones, or ones further from the centre, the mean over all rows.

    Returns
    -------
    p : float or array, shape (positions...)
        Corrected p-values.

    Raises
    ------
    ValueError
        If the correction or the alternative is not known, if there are no
        permutations, or if the scores, the adjacency or the threshold are not valid.

    Notes
    -----
    "max-step-down" sorts the m positions by their observed scores,
    :math:`s_{(1)} \ge \dots \ge s_{(m)}`. The k-th of them is compared with the maximum
    over the positions that score no more than it, as larger ones were rejected before:

    .. math:: p_{(k)} = \max\left(p_{(k-1)}, \frac{1 + \#\{\max_{j \ge k}
              \mathrm{null}_{(j)} \ge s_{(k)}\}}{1 + P}\right)

    Clusters and TFCE work on standardised scores, because raw scores have a chance
    level and a spread of their own at each position: z = (score - mean) / sd, with the
    mean and sd of that position over the observed and all permuted scores. As the
    observed row takes part like every other row, rows stay exchangeable. The threshold
    p-level becomes the normal quantile z, for two-sided tests that of half the level.
    A two-sided cluster has the mass of its scores without their sign, and so has a
    two-sided enhanced score; the maximum is taken over either side.

    References
    ----------
    .. [1] Nichols, T. E., & Holmes, A. P. (2002). Nonparametric permutation tests for
       functional neuroimaging. Human Brain Mapping, 15(1), 1-25.
    .. [2] Westfall, P. H., & Young, S. S. (1993). Resampling-based multiple testing:
       Examples and methods for p-value adjustment. Wiley.
    .. [3] Benjamini, Y., & Hochberg, Y. (1995). Controlling the false discovery rate.
       Journal of the Royal Statistical Society B, 57(1), 289-300.
    .. [4] Benjamini, Y., & Yekutieli, D. (2001). The control of the false discovery
       rate in multiple testing under dependency. Annals of Statistics, 29(4),
       1165-1188.
    .. [5] Maris, E., & Oostenveld, R. (2007). Nonparametric statistical testing of
       EEG- and MEG-data. Journal of Neuroscience Methods, 164(1), 177-190.
    .. [6] Smith, S. M., & Nichols, T. E. (2009). Threshold-free cluster enhancement.
       NeuroImage, 44(1), 83-98.

    Examples
    --------
    >>> import numpy as np
    >>> observed = np.array([0.5, 0.9, 0.9])
    >>> null = np.random.default_rng(0).uniform(0.4, 0.6, (99, 3))
    >>> corrected_p_values(observed, null, "max")
    array([0.92, 0.01, 0.01])
    >>> corrected_p_values(1.0 - observed, null, "max", alternative="less")
    array([0.9 , 0.01, 0.01])
    """
    correction = check_correction(correction)
    null = FullNull(observed, null, adjacency, threshold, alternative)
    return _float_if_single(correct(null, correction))


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
        As in :func:`corrected_p_values`, for scores that are large. "cluster" and
        "tfce" need a summary made with clusters. "max-step-down" and "cluster-size"
        need the whole null.
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
    correction = check_correction(correction)
    null = SummarisedNull(observed, summary, adjacency, threshold, correction)
    return _float_if_single(correct(null, correction))


def clusters(observed, null, *, adjacency=None, threshold=0.05, alternative="greater"):
    """Find clusters of neighbouring positions and test their mass.

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
    alternative : {"greater", "less", "two-sided"}, default="greater"
        As in :func:`corrected_p_values`.

    Returns
    -------
    clusters : list of Cluster
        All clusters of the observed scores, the one with the largest mass, without its
        sign, first.

    Raises
    ------
    ValueError
        If there are no permutations, or if the scores, the adjacency, the threshold or
        the alternative are not valid.

    Examples
    --------
    >>> import numpy as np
    >>> observed = np.array([0.5, 0.9, 0.9])
    >>> null = np.random.default_rng(0).uniform(0.4, 0.6, (99, 3))
    >>> [(found.mask, found.p_value) for found in clusters(observed, null)]
    [(array([False,  True,  True]), 0.01)]
    """
    return list_clusters(FullNull(observed, null, adjacency, threshold, alternative))


def _float_if_single(p):
    """Return a float for a single position, else the array."""
    return float(p) if np.ndim(p) == 0 else p
