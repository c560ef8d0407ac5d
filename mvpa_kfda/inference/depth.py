"""The cluster depth test: single times of a cluster, by how deep they lie in it."""

import numpy as np

from ..utils.checks import counted, warn
from .null import count_p, tie_bound


def cluster_depth_p(null):
    r"""Return p-values (T,) of the times of clusters, by their depth in these.

    A time that is the j-th of its cluster is compared with the j-th ones of the
    clusters of each permutation, from the head of clusters and from their tail.

    Parameters
    ----------
    null : FullNull
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
    >>> import numpy as np
    >>> from mvpa_kfda.inference.null import FullNull
    >>> rows = np.random.default_rng(0).normal(size=(100, 8))
    >>> rows[0, 3:6] += 6
    >>> cluster_depth_p(FullNull(rows[0], rows[1:]))
    array([1.  , 1.  , 1.  , 0.01, 0.01, 0.01, 1.  , 1.  ])
    """
    _refuse_other_maps(null)
    observed = null.maps(null.observed[np.newaxis])
    nodes, run, depths, n_cut = _whole_clusters(observed > null.height)
    _warn_of_cut(n_cut)
    p = np.ones(observed.size)
    if len(nodes):
        values = observed.ravel()[nodes]
        sides = zip(depths, _largest_at_depths(null, 1 + depths.max()), strict=True)
        tested = [_step_down(values, run, *side, null.dtype) for side in sides]
        p[nodes] = np.maximum(*tested)
    # Of two sides each time is in a cluster of one, and has 1 in the other.
    return p.reshape(observed.shape).min(axis=0)


def _refuse_other_maps(null):
    """Refuse all but times that follow each other."""
    shape = null.observed.shape
    if len(shape) == 1 and null.adjacency is None:
        return
    what = f"a map of {' x '.join(map(str, shape))} positions"
    if len(shape) == 1:
        what = f"a list of {counted(shape[0], 'position')} in space"
    if not shape:
        what = "a single position"
    raise ValueError(
        "The correction 'cluster-depth' is for time courses, in which clusters have a "
        f"first and a last time; this is {what}. Of single positions 'max' and "
        "'max-step-down' make the same claim; 'cluster' and 'tfce' gain power from "
        "neighbours."
    )


def _warn_of_cut(n_cut):
    """Warn of clusters that the window cuts off."""
    if n_cut:
        reach = "reaches" if n_cut == 1 else "reach"
        warn(
            f"{counted(n_cut, 'cluster')} {reach} the first or the last time. The "
            "correction 'cluster-depth' leaves such clusters out (p = 1), as the "
            "window cuts them off. Take a longer window, or 'max-step-down'."
        )


def _whole_clusters(above):
    """Return nodes of clusters that no edge cuts, their runs and depths, and others.

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
    """Return the largest z at each depth, from head and tail, (2, P, n_depths)."""
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
    """Return the p-values of the values (n,) of clusters, against largest ones (P, J).

    `run` numbers the cluster of each, and `depth` is how deep it lies in this one.
    """
    size = max(values.max(), largest.max())
    n_permutations = len(largest)
    ascending = np.sort(largest, axis=0)
    bounds = tie_bound(largest, size, dtype)
    # How many permutations are as large as each, the same for all clusters.
    reached = np.stack(
        [
            n_permutations - np.searchsorted(each, bound)
            for each, bound in zip(ascending.T, bounds.T, strict=True)
        ],
        axis=1,
    )
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
