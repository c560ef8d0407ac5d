"""Connected sets of positions in statistic maps, and threshold-free enhancement.

Maps come stacked, shape (m, positions...), one per permutation, and are labelled many
at once. Only large values form clusters.
"""

import math
from functools import cached_property

import numpy as np
from scipy import sparse
from scipy.sparse.csgraph import connected_components

from ..utils.checks import check_finite, check_numbers, check_positive

#: Stacks of maps are worked on in batches of about this many values. They stay in the
#: processor's cache, and the temporaries stay small however many maps there are.
_BATCH = 500_000

#: Values that are above a height of TFCE by less than this, relative to it, lie on it.
_ON_HEIGHT = 1e-9


def batches(n_maps, n_values):
    """Yield slices of `n_maps` maps of `n_values`: as many as fit a batch, or one."""
    # What is computed per batch must not depend on the batch.
    step = max(1, _BATCH // max(1, n_values))
    for first in range(0, n_maps, step):
        yield slice(first, min(first + step, n_maps))


class Graph:
    """Which positions of a map are neighbours; without adjacency, on its lattice."""

    def __init__(self, shape, adjacency=None):
        self.shape, self.adjacency = shape, adjacency

    @cached_property
    def upper(self):
        """Later neighbours, of i ``ends[start[i]:start[i + 1]]``: start, ends."""
        if self.adjacency is None:
            index = np.arange(math.prod(self.shape)).reshape(self.shape)
            axes = [np.moveaxis(index, axis, 0) for axis in range(index.ndim)]
            pairs = [(along[:-1].ravel(), along[1:].ravel()) for along in axes]
            i, j = np.concatenate(pairs, axis=1)
        else:
            i, j = sparse.triu(self.adjacency, k=1).nonzero()
        n = math.prod(self.shape)
        upper = sparse.csr_array((np.ones(len(i), dtype=bool), (i, j)), shape=(n, n))
        return upper.indptr.astype(np.intp), upper.indices.astype(np.intp)

    def pairs_among(self, nodes, n_nodes):
        """Return pairs of neighbours among nodes, indices into them (2, n_pairs)."""
        # Node number m V + i is position i of map m, of `n_nodes` in all.
        start, ends = self.upper
        position = nodes % (len(start) - 1)
        first, count = start[position], start[position + 1] - start[position]
        tail = np.repeat(np.arange(len(nodes), dtype=np.int32), count)
        # Where its neighbours are in `ends`: from `first` on, `count` of them.
        steps = np.arange(len(tail)) + (first + count - np.cumsum(count))[tail]
        number = np.full(n_nodes, -1, dtype=np.int32)
        number[nodes] = np.arange(len(nodes), dtype=np.int32)
        head = number[ends[steps] + (nodes - position)[tail]]
        among = head >= 0
        return np.stack([tail[among], head[among]])


def as_graph(adjacency, shape):
    """Check an adjacency matrix, see :func:`find_clusters`, and return the graph."""
    if adjacency is None:
        return Graph(shape)
    n_positions = math.prod(shape)
    try:
        matrix = sparse.csr_array(adjacency).astype(bool)
    except (TypeError, ValueError):
        raise TypeError(
            f"Invalid value for 'adjacency': {adjacency!r}. Allowed: None, or a matrix "
            f"({n_positions}, {n_positions}), sparse or not."
        ) from None
    if matrix.shape != (n_positions, n_positions):
        raise ValueError(
            f"adjacency must have shape ({n_positions}, {n_positions}), one row per "
            f"position of {shape}; got {matrix.shape}. For sensors x times, combine "
            "the sensors' adjacency with mne.stats.combine_adjacency."
        )
    if (matrix != matrix.T).nnz:
        raise ValueError(
            "adjacency must be symmetric: if position i is next to j, j is next to i."
        )
    return Graph(shape, matrix)


def find_clusters(maps, threshold, adjacency=None):
    """Find connected sets of positions above a threshold, in many maps at once.

    Parameters
    ----------
    maps : array, shape (m, positions...)
        Statistic maps. Clusters never reach from one map to another.
    threshold : float
        Positions with a larger value are in a cluster.
    adjacency : sparse matrix, shape (n_positions, n_positions) or None, default=None
        Which positions are neighbours; the positions are counted in C order, and only
        the pattern of non-zeros matters. None: neighbours on the lattice, one step
        along one axis.

    Returns
    -------
    labels : array of int, shape (m, positions...)
        Number of the cluster of each position, from 1 over all maps; 0 is no cluster.
    masses : array, shape (n_clusters,)
        Sum of the map over each cluster; cluster k is at index k - 1.

    Raises
    ------
    ValueError
        If a map holds NaN or infinite values, or if the adjacency has the wrong size
        or is not symmetric.

    Examples
    --------
    >>> import numpy as np
    >>> labels, masses = find_clusters(np.array([[0, 2, 3, 0, 4], [0, 0, 5, 0, 0]]), 1)
    >>> labels
    array([[0, 1, 1, 0, 2],
           [0, 0, 3, 0, 0]], dtype=int32)
    >>> masses
    array([5., 4., 5.])
    """
    maps = _check_maps(maps)
    threshold = check_finite("threshold", threshold)
    graph = as_graph(adjacency, maps.shape[1:])
    labels = np.zeros(maps.size, dtype=np.int32)
    masses = [np.empty(0)]
    for rows in batches(len(maps), maps[0].size):
        nodes, label, mass, _ = _clusters_above(maps[rows], threshold, graph)
        nodes += rows.start * maps[0].size
        labels[nodes] = label + 1 + sum(map(len, masses))
        masses.append(mass)
    return labels.reshape(maps.shape), np.concatenate(masses)


def largest_clusters(maps, threshold, graph, counted=None):
    """Return the largest mass and size of a cluster of each map (m, ...), (2, m).

    Positions that are not `counted` connect others, and are in no mass and no size.
    """
    nodes, label, *values = _clusters_above(maps, threshold, graph, counted)
    owner = np.empty(len(values[0]), dtype=np.intp)
    owner[label] = nodes // maps[0].size
    largest = np.zeros((2, len(maps)))
    for most, value in zip(largest, values, strict=True):
        np.maximum.at(most, owner, value)
    return largest


def _clusters_above(maps, threshold, graph, counted=None):
    """Return the nodes above a threshold, the cluster of each, masses and sizes."""
    nodes = np.flatnonzero(maps > threshold)
    label = components(len(nodes), graph.pairs_among(nodes, maps.size))
    values, ones = maps.ravel()[nodes], None
    if counted is not None:
        ones = _ones_of(counted, nodes)
        values = np.where(ones > 0, values, 0.0)
    return nodes, label, np.bincount(label, values), np.bincount(label, ones)


def _ones_of(counted, nodes):
    """Return 1 for nodes of stacked maps at counted positions, and 0 for others."""
    return np.ravel(counted)[nodes % np.size(counted)].astype(float)


def components(n_nodes, pairs):
    """Return the component of each node, (n_nodes,) from 0, by pairs (2, n_pairs)."""
    marks = np.ones(pairs.shape[1]), tuple(pairs)  # floats are what SciPy works with
    graph = sparse.coo_array(marks, shape=(n_nodes, n_nodes))
    return connected_components(graph, directed=False)[1]


def tfce(maps, adjacency=None, start=0.0, step=0.2, e_power=0.5, h_power=2.0):
    r"""Threshold-free cluster enhancement of the positive values of many maps.

    Parameters
    ----------
    maps : array, shape (m, positions...)
        Statistic maps, in units of about one standard deviation.
    adjacency : sparse matrix, shape (n_positions, n_positions) or None, default=None
        Which positions are neighbours; the positions are counted in C order, and only
        the pattern of non-zeros matters. None: neighbours on the lattice, one step
        along one axis.
    start : float, default=0.0
        First threshold.
    step : float, default=0.2
        Step between thresholds. Smaller steps cost more and change little.
    e_power : float, default=0.5
        Power E of the cluster's extent.
    h_power : float, default=2.0
        Power H of the height.

    Returns
    -------
    scores : array, shape (m, positions...)
        Enhanced maps; zero where a map is not above the lowest threshold.

    Raises
    ------
    ValueError
        If a map holds NaN or infinite values, if start or step are not valid, or if
        the adjacency has the wrong size or is not symmetric.

    Notes
    -----
    The score of position x is an integral over the heights h, done as a sum [1]_:

    .. math:: \mathrm{TFCE}(x) = \sum_h e_x(h)^E \, h^H \, \Delta h

    where :math:`e_x(h)` is the number of positions in the cluster that holds x when
    the map is cut at h.

    Clusters only grow and merge from one height to the next lower one. So the heights
    are gone through from the highest down: each adds its positions, and joins the
    clusters so far by those pairs of neighbours that are complete from here on. Every
    pair is looked at once, however many heights there are.

    References
    ----------
    .. [1] Smith, S. M., & Nichols, T. E. (2009). Threshold-free cluster enhancement.
       NeuroImage, 44(1), 83-98.

    Examples
    --------
    >>> import numpy as np
    >>> tfce(np.array([[0.0, 2.5, 1.5, 0.0]]), step=1.0).round(3)
    array([[0.   , 5.414, 1.414, 0.   ]])
    """
    maps = _check_maps(maps)
    check_positive("step", step)
    start = check_positive("start", start, zero=True)
    for name, power in (("e_power", e_power), ("h_power", h_power)):
        check_finite(name, power)
    graph = as_graph(adjacency, maps.shape[1:])
    return tfce_of_graph(maps, graph, (start, step), (e_power, h_power))


def tfce_of_graph(maps, graph, grid=(0.0, 0.2), powers=(0.5, 2.0), counted=None):
    """Do as `tfce`, for a :class:`Graph`, start and step, and the powers E and H.

    Positions that are not `counted` connect others, and are in no extent; infinite
    values are above all heights.
    """
    (start, step), (e_power, h_power) = grid, powers
    scores = np.zeros(maps.shape)
    for rows in batches(len(maps), maps[0].size):
        finite = np.isfinite(maps[rows]) if counted is not None else True
        highest = maps[rows].max(initial=start, where=finite)
        heights = np.arange(start, highest, step)
        # The first slice reaches down to zero, the others to the height before.
        weights = heights**h_power * np.diff(heights, prepend=0.0)
        above = weights > 0  # not height 0, which takes the longest to label
        if above.any():
            slices = heights[above], weights[above]
            scores[rows] = _enhance(maps[rows], graph, slices, e_power, counted)
    return scores


def _enhance(maps, graph, slices, e_power, counted=None):
    """Return the scores of a few maps, height by height from the highest."""
    heights, weights = slices
    nodes, n_nodes, pairs, n_pairs = _from_the_top(maps, graph, heights)
    ones = np.ones(len(nodes)) if counted is None else _ones_of(counted, nodes)
    cluster = np.empty(len(nodes), dtype=np.int32)  # of the nodes so far
    gained = np.zeros(len(nodes))
    extents = np.empty(0)  # of the clusters so far
    for k, weight in enumerate(weights[::-1]):
        n_new = n_nodes[k + 1] - n_nodes[k]
        cluster[n_nodes[k] : n_nodes[k + 1]] = len(extents) + np.arange(n_new)
        extents = np.concatenate([extents, ones[n_nodes[k] : n_nodes[k + 1]]])
        joined = components(
            len(extents), cluster[pairs[:, n_pairs[k] : n_pairs[k + 1]]]
        )
        extents = np.bincount(joined, extents)
        so_far = cluster[: n_nodes[k + 1]]
        so_far[:] = joined[so_far]
        gained[: n_nodes[k + 1]] += (weight * extents**e_power)[so_far]
    scores = np.zeros(maps.size)
    scores[nodes] = gained
    return scores.reshape(maps.shape)


def _from_the_top(maps, graph, heights):
    """Sort nodes and pairs by the highest height they are above, and count them."""
    # Nodes above the lowest height; how many of them are above the highest k heights,
    # for k = 0, 1, ...; the pairs (2, n_pairs), as indices into them; and how many of
    # these are above with both ends.
    flat, steps = maps.ravel(), np.arange(len(heights))
    # What lies on a height but for rounding is not above it. Scores of few trials often
    # do, as their t is a round number, and rounding may differ between equal scores.
    heights = heights * (1 + _ON_HEIGHT)
    nodes = np.flatnonzero(flat > heights[0])
    depth = len(heights) - np.searchsorted(heights, flat[nodes])
    depth = depth.astype(np.min_scalar_type(len(heights)))  # short ones sort quickly
    order = np.argsort(depth, kind="stable")
    nodes, depth = nodes[order], depth[order]
    pairs = graph.pairs_among(nodes, flat.size)
    pair_depth = depth[pairs.max(axis=0)]  # the later end is the lower one
    order = np.argsort(pair_depth, kind="stable")
    counts = (
        np.concatenate([[0], np.searchsorted(depths, steps, side="right")])
        for depths in (depth, pair_depth[order])
    )
    n_nodes, n_pairs = counts
    return nodes, n_nodes, pairs[:, order], n_pairs


def adjacency_among(pairs, n_positions, chosen):
    """Return the adjacency of the chosen positions by pairs (2, n_pairs) of all."""
    marks = np.ones(pairs.shape[1], dtype=bool), tuple(pairs)
    one_way = sparse.csr_array(marks, shape=(n_positions, n_positions))
    return (one_way + one_way.T)[chosen][:, chosen]


def _check_maps(maps):
    """Return maps (m, positions...) as floats; refuse others."""
    maps = check_numbers(maps, "maps").astype(float, copy=False)
    if maps.ndim < 2 or maps.size == 0:
        raise ValueError(
            f"maps must have shape (m, *positions) and not be empty; got {maps.shape}."
        )
    if not np.isfinite(maps).all():
        raise ValueError("maps must be finite; got NaN or infinite values.")
    return maps
