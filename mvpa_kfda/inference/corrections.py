"""From observed scores and their permutation null to corrected p-values.

A correction is an entry of `CORRECTIONS`, with its words in ``corrections.txt`` and its
name in `listed`, which loads nothing; all else follows from these.

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

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial, reduce, wraps
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy.stats import false_discovery_control

from ..utils.checks import (
    check_count,
    check_finite,
    check_option,
    counted,
    invalid,
    quoted,
    warn,
    word_bytes,
)
from ..utils.problems import read_texts
from . import listed
from .clusters import find_clusters
from .null import (
    Null,
    NullSummary,
    against_maximum,
    at_positions,
    check_level,
    count_p,
    tie_bound,
)

#: What is said of corrections.
_TEXTS = read_texts(Path(__file__).with_suffix(".txt"))


def _of_each(test):
    """A test of several nulls by a test of one: the largest p-value counts."""

    @wraps(test)
    def largest(nulls):
        p = [test(null) for null in nulls]
        for each, null in zip(p, nulls, strict=True):
            if null.exempt is not None:
                each[null.exempt] = 0.0
        return reduce(np.maximum, p)

    return largest


@_of_each
def _none(null):
    """The p-values (positions...) of every position for itself."""
    return np.asarray(count_p(null.exceedances, null.n_permutations))


@_of_each
def _max(null):
    """The p-values against the largest score of each permutation."""
    p = against_maximum(null.values, null.maximum, null.dtype, null.maximum_size)
    return np.asarray(p)


@_of_each
def _max_step_down(null):
    """The p-values against the largest of the scores not yet rejected."""
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


def _bonferroni(p):
    """The p-values times their number."""
    return np.minimum(1.0, p * np.size(p))


def holm(p):
    """The p-values of Holm (1979), for the family-wise error under any dependence.

    The maximum statistic is more powerful. Holm's method is for hypotheses whose
    maximum has no known distribution.

    Examples
    --------
    >>> holm(np.array([0.01, 0.04, 0.03]))
    array([0.03, 0.06, 0.06])
    """
    order = np.argsort(p, axis=None)
    factors = np.arange(np.size(p), 0, -1)
    adjusted = np.empty(np.size(p))
    adjusted[order] = np.maximum.accumulate(factors * np.ravel(p)[order])
    return np.minimum(1.0, adjusted).reshape(np.shape(p))


def _fdr(p, method="bh"):
    """The p-values of Benjamini and Hochberg; "by": of Benjamini and Yekutieli."""
    return false_discovery_control(np.ravel(p), method=method).reshape(np.shape(p))


def _cluster(nulls, maximum="cluster_maximum"):
    """The p-values of the mass or size of the cluster that holds a position."""
    labels, masses, sizes = find_islands(nulls)
    values = masses if maximum == "cluster_maximum" else sizes
    of_each = zip(values, nulls, sizes, strict=True)
    p = [_p_of(value, getattr(null, maximum), null, n) for value, null, n in of_each]
    return np.concatenate([[1.0], reduce(np.maximum, p)])[labels]


def _tfce(nulls):
    """The p-values of enhanced scores against the largest ones."""
    # The cells around a position count as far as they are above a height in all tests.
    lowest = reduce(np.minimum, _observed_maps(nulls))
    p = []
    for null in nulls:
        # Of two sides each position is on one, and 0 in the other.
        scores = null.enhanced(lowest).max(axis=0).reshape(null.observed.shape)
        counted = True if null.counted is None else null.counted
        p.append(_p_of(scores, null.tfce_maximum, null, counted))
    return reduce(np.maximum, p)


def _observed_maps(nulls):
    """The observed maps of tests, in which exempt positions are infinite."""
    return [null.connected(null.maps(null.observed[np.newaxis])) for null in nulls]


def find_islands(nulls):
    r"""Find where all of several tests have clusters, and what these have in each.

    An island is a connected set of positions that are above the heights of all tests,
    with the same sign; a position counts as above the height of a test from which it is
    exempt. Its mass in a test is the sum of that test's map over the positions that are
    not exempt, and its size the number of these. With a single test, islands are its
    clusters.

    Each island lies in a cluster of each test, and its mass is no more than that of
    this cluster, so that :math:`P(\text{largest mass} \ge \text{mass of the island})`
    is a valid p-value of each hypothesis, corrected for all islands. Their maximum
    tests that one of them at least is true [Berger, 1982].
    """
    first, maps = nulls[0], _observed_maps(nulls)
    above = [each > null.height for each, null in zip(maps, nulls, strict=True)]
    labels, _ = find_clusters(np.all(above, axis=0), 0.5, first.adjacency)
    n, flat = labels.max(initial=0) + 1, labels.ravel()
    masses, sizes = [], []
    for each, null in zip(maps, nulls, strict=True):
        ones = np.ones(each.shape)
        if null.exempt is not None:
            ones, each = ones * null.counted, np.where(null.exempt, 0.0, each)
        masses.append(np.bincount(flat, each.ravel(), n)[1:])
        sizes.append(np.bincount(flat, ones.ravel(), n)[1:])
    # Positive and negative islands hold different positions, so the sum is either.
    return labels.sum(axis=0).reshape(first.observed.shape), masses, sizes


def _p_of(values, maximum, null, counted):
    """The p-values of what was worked out from the scores, 0 where none are."""
    p = against_maximum(values, maximum, null.dtype)
    return np.where(counted, p, 0.0)


def cluster_depth_p(null):
    r"""The p-values (T,) of the times of clusters, by their depth in these.

    A time that is the j-th of its cluster is compared with the j-th ones of the
    clusters of each permutation, from the head of clusters and from their tail.

    Parameters
    ----------
    null : Null
        Scores of a time course, shape (T,), and those of its permutations (P, T).

    Returns
    -------
    p : array, shape (T,)
        Family-wise p-values of single times; 1 outside of clusters, and in those that
        reach the first or the last time.

    Raises
    ------
    ValueError
        If the map is no time course.

    Warns
    -----
    RuntimeWarning
        If clusters of the observed scores reach the first or the last time.

    Notes
    -----
    Clusters are those of the correction "cluster": connected times at which z passes
    the threshold, of high and of low scores apart. With :math:`D_b(j)` the largest z at
    depth j from the head, over the clusters of permutation b, and 0 where all of them
    are shorter [1]_, a cluster of J times with :math:`z_1, \dots, z_J` has

    .. math:: q_0(j) = 1 + \#\{b: D_b(j) \ge z_j\}, \qquad
              q_b(j) = \#\{b': D_{b'}(j) \ge D_b(j)\} + [z_j \ge D_b(j)]

    and, with its depths in the order of :math:`q_0(j_1) \le \dots \le q_0(j_J)`, those
    of the step-down procedure of Troendle [2]_,

    .. math:: p(j_k) = \max\left(p(j_{k-1}), \frac{1 + \#\{b: \min_{l \ge k} q_b(j_l)
              \le q_0(j_k)\}}{1 + P}\right)

    The same is done from the tail, and the larger of both p-values counts. A cluster
    that the window cuts off has no known head, or no known tail, and is left out, of
    the observed scores and of permutations alike.

    References
    ----------
    .. [1] Frossard, J., & Renaud, O. (2022). The cluster depth tests: Toward point-wise
       strong control of the family-wise error rate in massively univariate tests with
       application to M/EEG. NeuroImage, 247, 118824.
    .. [2] Troendle, J. F. (1995). A stepwise resampling method of multiple hypothesis
       testing. Journal of the American Statistical Association, 90(429), 370-378.

    Examples
    --------
    >>> rows = np.random.default_rng(0).normal(size=(100, 8))
    >>> rows[0, 3:6] += 6
    >>> cluster_depth_p(Null(rows[0], rows[1:]))
    array([1.  , 1.  , 1.  , 0.01, 0.01, 0.01, 1.  , 1.  ])
    """
    shape = null.observed.shape
    if len(shape) != 1 or null.adjacency is not None:
        what = f"a map of {' x '.join(map(str, shape))} positions"
        if len(shape) == 1:
            what = f"a list of {counted(shape[0], 'position')} in space"
        what = what if shape else "a single position"
        raise ValueError(_TEXTS["no course"].format(what=what))
    observed = null.maps(null.observed[np.newaxis])
    nodes, run, depths, n_cut = _whole_clusters(observed > null.height)
    if n_cut:
        words = {"reach": "reaches" if n_cut == 1 else "reach"}
        warn(_TEXTS["cut off"].format(clusters=counted(n_cut, "cluster"), **words))
    p = np.ones(observed.size)
    if len(nodes):
        values = observed.ravel()[nodes]
        sides = zip(depths, _largest_at_depths(null, 1 + depths.max()), strict=True)
        tested = [_step_down(values, run, *side, null.dtype) for side in sides]
        p[nodes] = np.maximum(*tested)
    # Of two sides each time is in a cluster of one, and has 1 in the other.
    return p.reshape(observed.shape).min(axis=0)


def _whole_clusters(above):
    """The nodes of clusters that no edge cuts, their runs and depths, and others.

    Of maps (m, T) the nodes, in C order; the number of each node's cluster, from 0; how
    deep it lies from the head and from the tail (2, n), from 0; and how many clusters
    are left out.
    """
    n_times, nodes = above.shape[1], np.flatnonzero(above)
    follows = np.zeros(above.shape, dtype=bool)
    follows[:, 1:] = above[:, :-1]
    starts = ~follows.ravel()[nodes]
    run = np.cumsum(starts) - 1
    first, length = nodes[starts], np.bincount(run)
    cut = (first % n_times == 0) | ((first + length) % n_times == 0)
    head = nodes - first[run]
    kept = ~cut[run]
    depths = np.stack([head, length[run] - 1 - head])[:, kept]
    number = np.cumsum(~cut) - 1  # of clusters that are left
    return nodes[kept], number[run[kept]], depths, np.count_nonzero(cut)


def _largest_at_depths(null, n_depths):
    """The largest z at each depth, from head and tail, (2, P, n_depths)."""
    largest = np.zeros((2, null.n_permutations, n_depths))
    for part, scores in null.rows():
        maps = null.maps(scores)
        nodes, _, depths, _ = _whole_clusters(maps > null.height)
        values, row = maps.ravel()[nodes], nodes // maps.shape[1] % len(scores)
        for most, depth in zip(largest[:, part], depths, strict=True):
            near = depth < n_depths
            np.maximum.at(most, (row[near], depth[near]), values[near])
    return largest


def _step_down(values, run, depth, largest, dtype):
    """The p-values of the values (n,) of clusters, against largest ones (P, J).

    `run` numbers the cluster of each, and `depth` is how deep it lies in this one.
    """
    size = max(values.max(), largest.max())
    n_permutations = len(largest)
    ascending = np.sort(largest, axis=0)
    bounds = tie_bound(largest, size, dtype)
    # How many permutations are as large as each, the same for all clusters.
    columns = zip(ascending.T, bounds.T, strict=True)
    smaller = np.stack([np.searchsorted(*column) for column in columns], axis=1)
    reached = n_permutations - smaller
    p = np.empty(len(values))
    for cluster in range(run[-1] + 1):
        here = np.flatnonzero(run == cluster)
        at, z = depth[here], values[here]
        q_observed = 1 + (largest[:, at] >= tie_bound(z, size, dtype)).sum(axis=0)
        q = reached[:, at] + (z >= bounds[:, at])
        order = np.argsort(q_observed, kind="stable")
        # Of each depth the least over itself and those not yet rejected.
        q = np.minimum.accumulate(q[:, order[::-1]], axis=1)[:, ::-1]
        count = (q <= q_observed[order]).sum(axis=0)
        p[here[order]] = np.maximum.accumulate(count_p(count, n_permutations))
    return p


@dataclass(frozen=True)
class Correction:
    """A correction for the number of positions."""

    #: The p-values (positions...) of nulls, which all have to be rejected.
    test: Callable = _none
    #: How these are adjusted, if they are uncorrected.
    adjust: Callable | None = None
    false_discovery: bool = False
    #: Whether each significant position is shown to have an effect: no false one at
    #: all with p <= alpha in so many cases, wherever effects are.
    of_positions: bool = False
    #: Whether it compares scores with the largest one of each permutation.
    of_maximum: bool = False
    #: Whether scores are standardised, and whether it tests clusters above a threshold.
    standardised: bool = False
    of_clusters: bool = False
    #: Whether it is for time courses only.
    of_courses: bool = False
    #: Another name.
    alias: str | None = None
    #: What of a NullSummary it needs, which null="auto" keeps; None: the whole null.
    needs: str | None = "maximum"
    #: The smallest p-value at m positions, by that at a single one.
    factor: Callable = lambda m: 1.0


#: The corrections by name.
CORRECTIONS = {
    "none": Correction(),
    "max": Correction(_max, of_positions=True, of_maximum=True),
    "max-step-down": Correction(
        _max_step_down,
        of_positions=True,
        of_maximum=True,
        alias="step-down",
        needs=None,
    ),
    "bonferroni": Correction(adjust=_bonferroni, of_positions=True, factor=lambda m: m),
    "holm": Correction(adjust=holm, of_positions=True, factor=lambda m: m),
    "fdr": Correction(adjust=_fdr, false_discovery=True, alias="fdr-bh"),
    "fdr-by": Correction(
        adjust=partial(_fdr, method="by"),
        false_discovery=True,
        factor=lambda m: (1 / np.arange(1, m + 1)).sum(),
    ),
    "cluster": Correction(
        _cluster,
        standardised=True,
        of_clusters=True,
        alias="cluster-mass",
        needs="cluster_maximum",
    ),
    "cluster-size": Correction(
        partial(_cluster, maximum="cluster_size_maximum"),
        standardised=True,
        of_clusters=True,
        needs=None,
    ),
    "cluster-depth": Correction(
        _of_each(cluster_depth_p),
        of_positions=True,
        standardised=True,
        of_courses=True,
        needs=None,
    ),
    "tfce": Correction(_tfce, standardised=True, needs="tfce_maximum"),
}


class Wording(NamedTuple):
    """How a correction is worded."""

    #: What figures call it, and the words beside a p-value.
    label: str
    tag: str
    #: For the methods section, how *p* became what it is, and what is to be added where
    #: several tests have to reject.
    words: str
    shared: str


#: The words of these, and of that of a method of groups, which computes it.
NAMED = {
    name: Wording(*map(str.strip, _TEXTS[name].split("|")))
    for name in (*CORRECTIONS, listed.CLUSTER_FDR)
}

#: The same names for type checkers and editors, which may complete them.
CorrectionName = listed.CorrectionName | str
CorrectionNames = CorrectionName | Sequence[CorrectionName]

#: Those that need no more than the uncorrected p-values.
ADJUSTMENTS = tuple(name for name, known in CORRECTIONS.items() if known.adjust)

_ALIASES = {known.alias: name for name, known in CORRECTIONS.items() if known.alias}


def is_of_clusters(name):
    """Whether the p-values of a correction are of clusters as a whole."""
    # All that is not in the list is the correction of the bootstrap, by clusters, too.
    return name not in CORRECTIONS or CORRECTIONS[name].of_clusters


def is_of_maximum(name):
    """Whether p-values are by the largest score, whose null distribution is drawn.

    Others compare something else: enhanced scores, masses of clusters.
    """
    return name in CORRECTIONS and CORRECTIONS[name].of_maximum


def check_correction(name, argument="correction"):
    """Return the name of a correction as listed in `CORRECTIONS`.

    Parameters
    ----------
    name : str or None
        A name, or another spelling of one: None is "none", underscores count as
        hyphens, "fdr-bh" is "fdr", "cluster-mass" is "cluster", and "step-down" is
        "max-step-down".
    argument : str, default="correction"
        Name of the caller's argument, for the error message.

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
        known = _ALIASES.get(known, known)
    if not isinstance(known, str) or known not in CORRECTIONS:
        check_option(argument, name, CORRECTIONS)
    return known


def known_corrections(names, argument):
    """The names of corrections, of one or of several of them."""
    return [check_correction(name, argument) for name in names_in(names, argument)]


def names_in(names, argument):
    """One name or several as a list."""
    if isinstance(names, str):
        return [names]
    if not isinstance(names, list | tuple | set | frozenset):
        allowed = "the name of a correction or a list of names, of "
        raise invalid(argument, names, allowed + quoted(CORRECTIONS), TypeError)
    return [*names]


def correct(null, correction="none"):
    """Return the p-values of a null, or of several that all have to be rejected.

    Parameters
    ----------
    null : Null or list of Null
        Observed and permuted scores, and how they are compared. With several, each
        position has the largest p-value, and clusters are the intersections of the
        clusters of all tests, see Notes.
    correction : str or None, default="none"
        "none" (or None), "max", "max-step-down", "bonferroni", "holm", "fdr", "fdr-by",
        "cluster", "cluster-size", "cluster-depth" or "tfce";
        :func:`corrected_p_values` defines them.

    Returns
    -------
    p : array, shape (positions...)
        Corrected p-values.

    Raises
    ------
    ValueError
        If the correction is unknown.

    Notes
    -----
    If several hypotheses have to be rejected, the largest p-value of their tests is a
    p-value of their union [1]_. A cluster is then an island: connected positions above
    the thresholds of all tests, with the same sign. In each test its mass is compared
    with the largest mass of each permutation, and the largest p-value is taken. The
    island lies in a cluster of each test and has no larger mass, so its p-values are
    valid for each hypothesis. Sizes are treated in the same way. TFCE uses the lowest
    height of all tests at each position, and compares it with the largest enhanced
    score of each permutation in each test.

    A position that is exempt from a test is treated as above all its thresholds, and
    adds to none of its masses, sizes and extents, observed or permuted. Islands that
    are entirely exempt from a test are not subject to it.

    References
    ----------
    .. [1] Berger, R. L. (1982). Multiparameter hypothesis testing and acceptance
       sampling. Technometrics, 24(4), 295-300.

    Examples
    --------
    >>> import numpy as np
    >>> from mvpa_kfda.inference.null import Null
    >>> null = np.random.default_rng(0).normal(size=(99, 3))
    >>> correct(Null(np.array([0.1, -4.0, 0.3]), null, alternative="less"), "max")
    array([0.92, 0.01, 0.94])
    """
    correction = check_correction(correction)
    nulls = null if isinstance(null, list) else [null]
    known = CORRECTIONS[correction]
    for each in nulls:
        if each.summary is None:
            continue
        if known.needs is None or getattr(each.summary, known.needs) is None:
            also = _TEXTS["or auto"] if known.needs else ""
            what = f"The correction {correction!r} needs"
            raise not_whole(each.summary, what, also)
        kept, threshold = each.summary.threshold, each.threshold
        if known.needs == "cluster_maximum" and check_level(threshold) != kept:
            text = _TEXTS["other threshold"]
            raise ValueError(text.format(kept=kept, threshold=threshold))
    p = known.test(nulls)
    return known.adjust(p) if known.adjust else p


def adjust(p, correction):
    """Adjust uncorrected p-values, by one of the `ADJUSTMENTS`."""
    return CORRECTIONS[correction].adjust(p)


def smallest_p_value(n_permutations, n_positions=1, correction="none"):
    """Return the smallest p-value attainable with a number of permutations.

    Parameters
    ----------
    n_permutations : int
        Number of permutations P.
    n_positions : int, default=1
        Number of tested positions m.
    correction : str or None, default="none"
        "none" (or None), "max", "max-step-down", "bonferroni", "holm", "fdr", "fdr-by",
        "cluster", "cluster-size", "cluster-depth" or "tfce";
        :func:`corrected_p_values` defines them.

    Returns
    -------
    p : float
        1 / (P + 1), for "bonferroni" and "holm" times m. The false discovery rates
        multiply the k-th smallest p-value by m / k, so they are lowest if all m
        positions have the smallest one: 1 / (P + 1) for "fdr", and times 1 + 1/2 + ...
        + 1/m for "fdr-by". A single such position gets m times as much. Never above 1.

    Raises
    ------
    ValueError
        If the correction is unknown, or the numbers are not valid.

    Examples
    --------
    >>> smallest_p_value(999)
    0.001
    >>> smallest_p_value(999, 3, "bonferroni")
    0.003
    """
    # Any number above zero: sign flips and bootstraps give what would be one.
    if check_finite("n_permutations", n_permutations) < 0:
        raise invalid("n_permutations", n_permutations, "zero or more")
    n_positions = check_count("n_positions", n_positions, minimum=1)
    factor = CORRECTIONS[check_correction(correction)].factor(n_positions)
    return float(min(1.0, factor / (n_permutations + 1)))


def p_values(observed, null, alternative="greater"):
    r"""Compute permutation p-values, one per position, without correction.

    Parameters
    ----------
    observed : float or array, shape (positions...)
        Observed scores.
    null : array or memmap, shape (P, positions...)
        Scores under P label permutations, not including the observed labels.
    alternative : {"greater", "less", "two-sided"}, default="greater"
        Whether to test for scores larger than under permuted labels, smaller, or
        further from the centre, the mean over all rows.

    Returns
    -------
    p : float or array, shape (positions...)
        p-values between 1 / (P + 1) and 1.

    Raises
    ------
    ValueError
        If there are no permutations, if the shapes do not match, if a score is NaN or
        infinite, or if the alternative is unknown.

    Notes
    -----
    The observed labels are one of the possible permutations and count as one [1]_:

    .. math:: p = \frac{1 + \#\{\mathrm{null} \ge \mathrm{observed}\}}{1 + P}

    Scores that are equal up to rounding count as ties, hence as ">=". Equality is
    relative to the largest absolute score of that position, so that it also works for
    an observed score of zero: within 1e-10 of it, or 5e-7 with a float32 null.

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
    return corrected_p_values(observed, null, alternative=alternative)


def corrected_p_values(
    observed,
    null,
    correction="none",
    *,
    adjacency=None,
    threshold=0.05,
    alternative="greater",
):
    r"""Compute p-values corrected for the number of positions.

    Parameters
    ----------
    observed : float or array, shape (positions...)
        Observed scores.
    null : array or memmap, shape (P, positions...), or NullSummary
        Scores under P label permutations, the same ones at every position; or what was
        kept of them, which is for large scores. "cluster" and "tfce" need a summary
        made with clusters, adjacency and threshold as here, and "max-step-down",
        "cluster-size" and "cluster-depth" the whole null.
    correction : str or None, default="none"
        "none" (or None): uncorrected p-values.
        "max": the largest score of each permutation over all positions is the null;
        family-wise error [1]_.
        "max-step-down": the same in steps, see Notes; family-wise error, with
        p-values that are never larger than those of "max" [2]_.
        "bonferroni": p times the number of positions; family-wise error.
        "holm": the same in steps, the k-th smallest p of m times m - k + 1, none
        smaller than the one before; family-wise error [7]_.
        "fdr": Benjamini-Hochberg; false discovery rate, for positions that are
        independent or positively related [3]_.
        "fdr-by": Benjamini-Yekutieli; false discovery rate, under any dependence.
        Its p-values are 1 + 1/2 + ... + 1/m times those of "fdr", for m
        positions [4]_.
        "cluster": mass of clusters of neighbouring positions; family-wise error of
        whole clusters, not of single positions [5]_. Positions outside all clusters
        get p = 1.
        "cluster-size": the same with the number of positions in place of the mass.
        "cluster-depth": single times of a time course, by how deep they lie in their
        cluster; family-wise error of single times [8]_. Times outside of clusters, and
        in clusters that reach the first or the last time, get p = 1.
        "tfce": threshold-free cluster enhancement, with the null of its maximum;
        family-wise error [6]_.
        Other spellings: "fdr-bh", "cluster-mass", "step-down", and underscores.
    adjacency : sparse matrix, shape (n_positions, n_positions) or None, default=None
        Which positions are neighbours, for clusters and "tfce"; the positions are
        counted in C order. None: neighbours on the lattice of `observed`.
    threshold : float, default=0.05
        p-level that a position passes to be in a cluster, for the corrections by
        clusters: of the one side that is tested, or of both together.
    alternative : {"greater", "less", "two-sided"}, default="greater"
        Whether to test for scores larger than under permuted labels, smaller, or
        further from the centre, the mean over all rows.

    Returns
    -------
    p : float or array, shape (positions...)
        Corrected p-values.

    Raises
    ------
    ValueError
        If the correction or the alternative is unknown, if there are no permutations,
        or if the scores, the adjacency or the threshold are not valid.

    Notes
    -----
    "max-step-down" sorts the m positions by their observed scores,
    :math:`s_{(1)} \ge \dots \ge s_{(m)}`. The k-th of them is compared with the maximum
    over the positions that score no more than it, as larger ones were rejected before:

    .. math:: p_{(k)} = \max\left(p_{(k-1)}, \frac{1 + \#\{\max_{j \ge k}
              \mathrm{null}_{(j)} \ge s_{(k)}\}}{1 + P}\right)

    Clusters and TFCE use standardised scores, because raw scores have a different
    chance level and spread at each position (t across subjects does not, and is used
    directly): z = (score - mean) / sd, with the mean and sd of that position over the
    observed and all permuted scores. As the observed row is treated like every other
    row, rows remain exchangeable. The threshold is converted to the normal quantile z,
    for two-sided tests that of half the level. Two-sided cluster masses and enhanced
    scores use absolute values; the maximum is taken over both sides.

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
    .. [7] Holm, S. (1979). A simple sequentially rejective multiple test procedure.
       Scandinavian Journal of Statistics, 6(2), 65-70.
    .. [8] Frossard, J., & Renaud, O. (2022). The cluster depth tests: Toward point-wise
       strong control of the family-wise error rate in massively univariate tests with
       application to M/EEG. NeuroImage, 247, 118824.

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
    null = Null(observed, null, adjacency, threshold, alternative)
    p = correct(null, correction)
    return float(p) if np.ndim(p) == 0 else p


class KeptTest(NamedTuple):
    """What is kept of a test of all positions."""

    #: The observed scores (positions...).
    scores: Any
    #: The scores under permuted labels (P, positions...), or a `NullSummary` of them.
    null: Any
    #: The positions (positions...) that are exempt from the test; None: none.
    exempt: Any = None


def nulls_of(
    tests, where=None, *, adjacency=None, threshold=0.05, alternative="greater"
):
    """How the scores of tests are compared with what was kept of their nulls.

    A list for :func:`correct`, of a list of `KeptTest`, which all have to reject. Only
    the positions `where`, bool like the map, count, and the adjacency is of these.
    """
    nulls, how = [], (adjacency, threshold, alternative)
    for observed, kept, exempt in tests:
        if where is not None and not np.all(where):
            observed = np.asarray(observed)[where]
            exempt = None if exempt is None else exempt[where]
            if not isinstance(kept, NullSummary):  # which is of these positions
                kept = at_positions(kept, np.flatnonzero(where))
        nulls.append(Null(observed, kept, *how, exempt=exempt))
    return nulls


def not_whole(summary, what, also=""):
    """The error of what needs the whole null where a summary was kept."""
    n, shape = summary.n_permutations, summary.exceedances.shape
    size = word_bytes(n * summary.exceedances.size * 4)
    words = {"n": n, "shape": shape, "size": size, "also": also}
    return ValueError(_TEXTS["not whole"].format(what=what, **words))


def cluster_scores(where, tests, threshold, alternative):
    """The scores that clusters are formed from, like `where`, and at which height.

    Of several tests the score nearest to zero. NaN where `where` is false, and where
    what it takes was not kept.
    """
    scores = np.full(where.shape, np.nan)
    nulls = nulls_of(tests, where, threshold=threshold, alternative=alternative)
    if all(null.moments is not None for null in nulls):
        scores[where] = nearest_to_zero(nulls).ravel()
    return scores, nulls[0].height


def nearest_to_zero(nulls):
    """The scores of all tests nearest to zero, 0 where their signs differ."""
    maps = [(null, null.scaled(null.observed[np.newaxis])[0]) for null in nulls]
    high, low = (
        reduce(np.minimum, [null.connected(sign * each) for null, each in maps])
        for sign in (1, -1)
    )
    return np.where(high > 0, high, np.minimum(0.0, -low))
