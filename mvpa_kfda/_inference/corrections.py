"""The corrections for the number of positions, by name, on one null.

Each takes a null: a `FullNull`, or a `SummarisedNull`, which has the same attributes as
far as they were kept.
"""

from dataclasses import dataclass

import numpy as np
from scipy.stats import false_discovery_control

from .._checks import check_option
from .clusters import find_clusters, tfce_of_graph
from .null import against_maximum, count_p, tie_bound

#: False discovery rates: the correction's name, and what SciPy calls the method.
FALSE_DISCOVERY = {"fdr": "bh", "fdr-by": "by"}

#: The corrections that need no more than the uncorrected p-values.
ADJUSTMENTS = ("bonferroni", *FALSE_DISCOVERY)

#: Other names of corrections.
ALIASES = {"fdr-bh": "fdr", "cluster-mass": "cluster", "step-down": "max-step-down"}


@dataclass(frozen=True, eq=False)
class Cluster:
    """A cluster of neighbouring positions with large scores.

    Attributes
    ----------
    mask : array of bool, shape (positions...)
        True where the cluster is.
    mass : float
        Sum of the standardised scores in the cluster; negative for one of small scores,
        which the alternatives "less" and "two-sided" find.
    p_value : float
        Family-wise p-value of the cluster's mass.
    """

    mask: np.ndarray
    mass: float
    p_value: float


def _none(null):
    return count_p(null.exceedances, null.n_permutations)


def _max(null):
    return against_maximum(null.values, null.maximum, null.dtype, null.maximum_size)


def _max_step_down(null):
    order = np.argsort(-null.values, axis=None, kind="stable")
    bound = tie_bound(null.values, null.maximum_size, null.dtype).ravel()[order]
    count = np.zeros(len(order), dtype=np.int64)
    for _, scores in null.rows():
        rest = null.turned(scores).reshape(len(scores), -1)[:, order]
        # Of each position the maximum over itself and those with smaller scores.
        np.maximum.accumulate(rest[:, ::-1], axis=1, out=rest[:, ::-1])
        count += np.count_nonzero(rest >= bound, axis=0)
    p = np.empty(len(order))
    p[order] = np.maximum.accumulate(count_p(count, null.n_permutations))
    return p.reshape(null.values.shape)


def adjust(p, correction):
    """Adjust uncorrected p-values, by one of the `ADJUSTMENTS`."""
    if correction == "bonferroni":
        return np.minimum(1.0, p * np.size(p))
    method = FALSE_DISCOVERY[correction]
    return false_discovery_control(np.ravel(p), method=method).reshape(np.shape(p))


def _bonferroni(null):
    return adjust(_none(null), "bonferroni")


def _fdr(null):
    return adjust(_none(null), "fdr")


def _fdr_by(null):
    return adjust(_none(null), "fdr-by")


def _cluster(null):
    labels, masses, _ = _observed_clusters(null)
    return np.concatenate([[1.0], _p_of(masses, null.cluster_maximum, null)])[labels]


def _cluster_size(null):
    labels, _, sizes = _observed_clusters(null)
    p = _p_of(sizes, null.cluster_size_maximum, null)
    return np.concatenate([[1.0], p])[labels]


def _tfce(null):
    maps = null.maps(null.observed[np.newaxis])
    # Of two sides each position is on one, and 0 in the other.
    scores = tfce_of_graph(maps, null.graph).max(axis=0)
    return _p_of(scores.reshape(null.observed.shape), null.tfce_maximum, null)


#: The corrections for the number of positions, by name.
CORRECTIONS = {
    "none": _none,
    "max": _max,
    "max-step-down": _max_step_down,
    "bonferroni": _bonferroni,
    "fdr": _fdr,
    "fdr-by": _fdr_by,
    "cluster": _cluster,
    "cluster-size": _cluster_size,
    "tfce": _tfce,
}


def check_correction(name, argument="correction"):
    """Return the name of a correction as it stands in `CORRECTIONS`.

    Parameters
    ----------
    name : str or None
        A name, or another spelling of one: None is "none", underscores count as
        hyphens, "fdr-bh" is "fdr", "cluster-mass" is "cluster", and "step-down" is
        "max-step-down".
    argument : str, default="correction"
        What the caller's argument is called, for the message.

    Returns
    -------
    name : str
        The name.

    Raises
    ------
    ValueError
        If there is no such correction.

    Examples
    --------
    >>> check_correction("cluster_mass"), check_correction(None)
    ('cluster', 'none')
    """
    known = "none" if name is None else name
    if isinstance(known, str):
        known = known.replace("_", "-")
        known = ALIASES.get(known, known)
    if not isinstance(known, str) or known not in CORRECTIONS:
        check_option(argument, name, CORRECTIONS)
    return known


def correct(null, correction="none"):
    """Return the p-values of a null.

    Parameters
    ----------
    null : FullNull
        Observed and permuted scores, and how they are compared.
    correction : str or None, default="none"
        As in :func:`corrected_p_values`.

    Returns
    -------
    p : array, shape (positions...)
        Corrected p-values.

    Raises
    ------
    ValueError
        If the correction is not known.

    Examples
    --------
    >>> import numpy as np
    >>> from mvpa_kfda._inference.null import FullNull
    >>> null = np.random.default_rng(0).normal(size=(99, 3))
    >>> correct(FullNull(np.array([0.1, -4.0, 0.3]), null, alternative="less"), "max")
    array([0.92, 0.01, 0.94])
    """
    return CORRECTIONS[check_correction(correction)](null)


def smallest_p_value(n_permutations, n_positions=1, correction="none"):
    """Return the smallest p-value that so many permutations can give.

    Parameters
    ----------
    n_permutations : int
        Number of permutations P.
    n_positions : int, default=1
        Number of positions m that are tested.
    correction : str or None, default="none"
        As in :func:`corrected_p_values`.

    Returns
    -------
    p : float
        1 / (P + 1), for "bonferroni" times m. The false discovery rates multiply the
        k-th smallest p-value by m / k, so they come lowest where all m positions have
        the smallest one: 1 / (P + 1) for "fdr", and times 1 + 1/2 + ... + 1/m for
        "fdr-by". A single such position among others gets m times as much. Never
        above 1.

    Raises
    ------
    ValueError
        If the correction is not known.

    Examples
    --------
    >>> smallest_p_value(999)
    0.001
    >>> smallest_p_value(999, 3, "bonferroni")
    0.003
    """
    correction = check_correction(correction)
    factor = 1.0
    if correction == "bonferroni":
        factor = n_positions
    elif correction == "fdr-by":
        factor = (1 / np.arange(1, n_positions + 1)).sum()
    return float(min(1.0, factor / (n_permutations + 1)))


def list_clusters(null):
    """Return the observed clusters, see :func:`mvpa_kfda.inference.clusters`."""
    labels, masses, _ = _observed_clusters(null)
    p = _p_of(masses, null.cluster_maximum, null)
    z = null.maps(null.observed[np.newaxis])[0].reshape(labels.shape)
    z = -z if null.alternative == "less" else z
    found = []
    for k in np.argsort(-masses, kind="stable"):
        mask = labels == k + 1
        mass = float(np.copysign(masses[k], z[mask].sum()))
        found.append(Cluster(mask, mass, float(p[k])))
    return found


def _observed_clusters(null):
    """Return the labels of the observed clusters, their masses and sizes."""
    maps = null.maps(null.observed[np.newaxis])
    labels, masses = find_clusters(maps, null.height, null.adjacency)
    sizes = np.bincount(labels.ravel(), minlength=len(masses) + 1)[1:]
    # Positive and negative clusters hold different positions, so the sum is either.
    return labels.sum(axis=0).reshape(null.observed.shape), masses, sizes


def _p_of(values, maximum, null):
    """Return the p-values of what was worked out from the scores."""
    return against_maximum(values, maximum, null.dtype)
