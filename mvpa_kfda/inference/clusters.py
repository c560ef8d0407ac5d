"""Connected sets of positions in statistic maps, and threshold-free enhancement.

Maps come stacked, shape (m, positions...), one per permutation, and are labelled many
at once. Only large values form clusters.

Threshold-free enhancement needs the clusters at all thresholds: a `MergeTree` says how
they merge as a threshold falls.
Nodes are sorted by value, the highest first, so that the number of a node is its rank.
At rank r the nodes 0 to r are there, and clusters are the connected sets of these. A
pair of neighbours is there from the later of the two on.

A cluster has the name of one of its peaks, nodes whose neighbours are all later. Where
clusters merge, one of the names goes on; which one is free. It is chosen so that few
rounds find them all: in each, every cluster takes the first pair that leads out of it,
and of clusters that hang together by such pairs one keeps its name [Boruvka, 1926].
Each round leaves half of the names at most, and works on all maps together.

A branch is the nodes with which a cluster of this name grew, in the order of their
ranks. It ends at the node with which its cluster became part of another branch, which
is one of that other branch.
"""

import math

import numpy as np
from scipy import sparse
from scipy.sparse.csgraph import connected_components

from ..utils.checks import check_finite, check_numbers, check_positive
from ..utils.memory import batches

_NEVER = np.iinfo(np.int32).max


class Graph:
    """Which positions of a map are neighbours; without adjacency, on its lattice."""

    def __init__(self, adjacency, shape):
        self.shape, self.adjacency = shape, adjacency
        if adjacency is None:
            return
        n = math.prod(shape)
        try:
            matrix = sparse.csr_array(adjacency).astype(bool)
        except (TypeError, ValueError):
            raise TypeError(
                f"Invalid value for 'adjacency': {adjacency!r}. Allowed: None, or a "
                f"matrix ({n}, {n}), sparse or not."
            ) from None
        if matrix.shape != (n, n):
            raise ValueError(
                f"adjacency must have shape ({n}, {n}), one row per position of "
                f"{shape}; got {matrix.shape}. For sensors x times, combine the "
                "sensors' adjacency with mne.stats.combine_adjacency."
            )
        if (matrix != matrix.T).nnz:
            raise ValueError(
                "adjacency must be symmetric: if position i is next to j, j is next to "
                "i."
            )
        i, j = sparse.triu(matrix, k=1).nonzero()
        upper = sparse.csr_array((np.ones(len(i), dtype=bool), (i, j)), shape=(n, n))
        #: Later neighbours, of i ``ends[start[i]:start[i + 1]]``: start, ends.
        self.upper = upper.indptr.astype(np.intp), upper.indices.astype(np.intp)

    def pairs_among(self, nodes, n_nodes):
        """Pairs of neighbours among nodes, indices into them (2, n_pairs)."""
        # Node number m V + i is position i of map m, of `n_nodes` in all.
        number = np.full(n_nodes, -1, dtype=np.int32)
        number[nodes] = np.arange(len(nodes), dtype=np.int32)
        if self.adjacency is None:
            return _lattice_pairs(number.reshape(-1, *self.shape))
        start, ends = self.upper
        position = nodes % (len(start) - 1)
        first, count = start[position], start[position + 1] - start[position]
        tail = np.repeat(np.arange(len(nodes), dtype=np.int32), count)
        # Where its neighbours are in `ends`: from `first` on, `count` of them.
        steps = np.arange(len(tail)) + (first + count - np.cumsum(count))[tail]
        head = number[ends[steps] + (nodes - position)[tail]]
        among = head >= 0
        return np.stack([tail[among], head[among]])


def _lattice_pairs(numbers):
    """Pairs (2, n_pairs) of numbers (m, lattice...) that are next to another.

    Negative ones do not count.
    """
    pairs, step = [np.empty((2, 0), dtype=numbers.dtype)], 1
    for length in numbers.shape[:0:-1]:
        rows = numbers.reshape(-1, length * step)
        one, other = rows[:, :-step], rows[:, step:]
        # Indices are several times faster than masks.
        both = np.flatnonzero((one >= 0) & (other >= 0))
        pairs.append(np.stack([np.take(one, both), np.take(other, both)]))
        step *= length
    return np.concatenate(pairs, axis=1)


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
    graph = Graph(adjacency, maps.shape[1:])
    labels = np.zeros(maps.size, dtype=np.int32)
    masses = [np.empty(0)]
    for rows in batches(len(maps), maps[0].size):
        nodes, label, mass, _ = _clusters_above(maps[rows], threshold, graph)
        nodes += rows.start * maps[0].size
        labels[nodes] = label + 1 + sum(map(len, masses))
        masses.append(mass)
    return labels.reshape(maps.shape), np.concatenate(masses)


def largest_clusters(maps, threshold, graph, counted=None):
    """The largest mass and size of a cluster of each map (m, ...), (2, m).

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
    """The nodes above a threshold, the cluster of each, masses and sizes."""
    nodes = np.flatnonzero(maps > threshold)
    label = components(len(nodes), graph.pairs_among(nodes, maps.size))
    values, ones = maps.ravel()[nodes], None
    if counted is not None:
        ones = _ones_of(counted, nodes)
        values = np.where(ones > 0, values, 0.0)
    return nodes, label, np.bincount(label, values), np.bincount(label, ones)


def _ones_of(counted, nodes):
    """1 for nodes of stacked maps at counted positions, and 0 for others."""
    return np.ravel(counted)[nodes % np.size(counted)].astype(float)


def components(n_nodes, pairs):
    """The component of each node, (n_nodes,) from 0, by pairs (2, n_pairs)."""
    marks = np.ones(pairs.shape[1]), tuple(pairs)  # floats are what SciPy works with
    graph = sparse.coo_array(marks, shape=(n_nodes, n_nodes))
    return connected_components(graph, directed=False)[1]


def tfce(maps, adjacency=None, e_power=0.5, h_power=2.0):
    r"""Threshold-free cluster enhancement of the positive values of many maps.

    Parameters
    ----------
    maps : array, shape (m, positions...)
        Statistic maps, in units of about one standard deviation.
    adjacency : sparse matrix, shape (n_positions, n_positions) or None, default=None
        Which positions are neighbours; the positions are counted in C order, and only
        the pattern of non-zeros matters. None: neighbours on the lattice, one step
        along one axis.
    e_power : float, default=0.5
        Power E of the cluster's extent.
    h_power : float, default=2.0
        Power H of the height, zero or more.

    Returns
    -------
    scores : array, shape (m, positions...)
        Enhanced maps; zero where a map is not positive.

    Raises
    ------
    ValueError
        If a map holds NaN or infinite values, if a power is not valid, or if the
        adjacency has the wrong size or is not symmetric.

    Notes
    -----
    The score of position x is an integral over the heights h [1]_:

    .. math:: \mathrm{TFCE}(x) = \int_0^{z(x)} e_x(h)^E \, h^H \, \mathrm{d}h

    where :math:`e_x(h)` is the number of positions in the cluster that holds x when
    the map z is cut at h. It is computed exactly, with no steps of h [2]_: between two
    heights :math:`h_1 < h_2` at which the cluster changes, the integral is
    :math:`e_x^E \, (h_2^{H + 1} - h_1^{H + 1}) / (H + 1)`. The cluster of a position
    only grows from one height to the next lower one, and changes where a position joins
    it, or another cluster. All these changes are found in one pass over the pairs of
    neighbours, from the highest one down.

    References
    ----------
    .. [1] Smith, S. M., & Nichols, T. E. (2009). Threshold-free cluster enhancement.
       NeuroImage, 44(1), 83-98.
    .. [2] Chen, X., Weeda, W. D., Nichols, T. E., & Goeman, J. J. (2026). eTFCE: Exact
       threshold-free cluster enhancement via fast cluster retrieval. arXiv:2603.03004.

    Examples
    --------
    >>> import numpy as np
    >>> tfce(np.array([[0.0, 2.5, 1.5, 0.0]])).round(3)
    array([[0.   , 5.674, 1.591, 0.   ]])
    """
    maps = _check_maps(maps)
    check_finite("e_power", e_power)
    check_positive("h_power", h_power, zero=True)
    graph = Graph(adjacency, maps.shape[1:])
    return tfce_of_graph(maps, graph, (e_power, h_power))


def tfce_of_graph(maps, graph, powers=(0.5, 2.0), counted=None):
    """Do as `tfce`, for a :class:`Graph`, and the powers E and H.

    Positions that are not `counted` connect others, and are in no extent; infinite
    values are above all heights.
    """
    (e_power, h_power), scores = powers, np.zeros(maps.shape)
    for rows in batches(len(maps), maps[0].size):
        flat, enhanced = maps[rows].ravel(), scores[rows].reshape(-1)
        nodes = np.flatnonzero(flat > 0)
        if counted is not None:
            # What is above all heights is as high as any that a score has.
            highest = flat.max(initial=0.0, where=np.isfinite(flat))
            flat = np.minimum(flat, highest)
        pairs = graph.pairs_among(nodes, flat.size)
        order = _from_the_top(flat[nodes])
        rank = np.empty(len(nodes), dtype=np.int32)
        rank[order] = np.arange(len(nodes), dtype=np.int32)
        nodes = nodes[order]
        tree = MergeTree(len(nodes), rank[pairs])
        ones = np.ones(len(nodes)) if counted is None else _ones_of(counted, nodes)
        values = flat[nodes]
        below = values**h_power * values / (h_power + 1)  # the integral up to each
        gains = tree.sizes(ones) ** e_power * tree.falls(below)
        enhanced[nodes[tree.order]] = tree.sums_to_the_end(gains)  # a view of scores
    return scores


def _from_the_top(values):
    """The order of positive values from the highest down, ties as they are."""
    # Values in 65,536 bins are sorted by counting. What is nearly sorted is done soon.
    scale = 65535 / values.max(initial=1e-300)
    bins = 65535 - np.minimum(values * scale, 65535).astype(np.uint16)
    order = np.argsort(bins, kind="stable")
    return order[np.argsort(-values[order], kind="stable")]


def adjacency_among(pairs, n_positions, chosen):
    """The adjacency of the chosen positions by pairs (2, n_pairs) of all."""
    marks = np.ones(pairs.shape[1], dtype=bool), tuple(pairs)
    one_way = sparse.csr_array(marks, shape=(n_positions, n_positions))
    return (one_way + one_way.T)[chosen][:, chosen]


def _check_maps(maps):
    """Maps (m, positions...) as floats; refuse others."""
    maps = check_numbers(maps, "maps").astype(float, copy=False)
    if maps.ndim < 2 or maps.size == 0:
        raise ValueError(
            f"maps must have shape (m, *positions) and not be empty; got {maps.shape}."
        )
    if not np.isfinite(maps).all():
        raise ValueError("maps must be finite; got NaN or infinite values.")
    return maps


# ------------------------------------- clusters at all thresholds


class MergeTree:
    """The clusters of n sorted nodes at all ranks, by pairs of neighbours (2, m)."""

    def __init__(self, n_nodes, pairs):
        later, earlier = np.maximum(*pairs), np.minimum(*pairs)
        uphill = np.arange(n_nodes, dtype=np.int32)
        np.minimum.at(uphill, later, earlier)
        peaks = np.flatnonzero(uphill == np.arange(n_nodes))
        numbers = np.empty(n_nodes, dtype=np.int32)
        numbers[peaks] = np.arange(len(peaks), dtype=np.int32)
        peak_of = numbers[_roots(uphill)]
        ends, heirs, rounds = _merge(
            len(peaks), later, peak_of[later], peak_of[earlier]
        )
        self._arrange(peak_of, ends, heirs, rounds)

    def _arrange(self, peak_of, ends, heirs, rounds):
        """Sort nodes by the round in which their branches end, by branch, by rank."""
        n_nodes = len(peak_of)
        branch, rank = peak_of, np.arange(n_nodes, dtype=np.int32)
        over = np.flatnonzero(ends[branch] <= rank)
        while len(over):
            branch[over] = heirs[branch[over]]
            over = over[ends[branch[over]] <= over]
        number = np.empty(len(ends), dtype=np.int32)
        by_round = np.argsort(rounds, kind="stable")
        number[by_round] = np.arange(len(ends), dtype=np.int32)
        #: The rank of each node in the order of branches.
        self.order = _sorting(number[branch], len(ends))
        lengths = np.bincount(number[branch], minlength=len(ends))
        self._stops = np.cumsum(lengths)
        self._starts = self._stops - lengths
        self._lengths = lengths
        ends = ends[by_round]
        place = np.empty(n_nodes + 1, dtype=np.int32)
        place[self.order] = np.arange(n_nodes, dtype=np.int32)
        place[n_nodes] = n_nodes
        #: Where each branch goes on, `n_nodes` where nowhere.
        self._onward = place[np.minimum(ends, n_nodes)]
        n_rounds = rounds.max(initial=-1) + 1
        self._rounds = np.searchsorted(rounds[by_round], np.arange(n_rounds + 1))

    def _branches(self):
        """Yield slices of the branches that end in a round, and of their nodes."""
        for first, last in zip(self._rounds[:-1], self._rounds[1:], strict=True):
            if first < last:
                nodes = slice(self._starts[first], self._stops[last - 1])
                yield slice(first, last), nodes

    def sizes(self, ones):
        """The sizes (n,) of clusters once each node is there, sums of ones."""
        # Whole numbers, so that differences of sums are exact.
        sizes = np.append(ones[self.order], 0.0)
        for branches, nodes in self._branches():
            np.cumsum(sizes[nodes], out=sizes[nodes])
            starts = self._starts[branches] - nodes.start
            lengths = self._lengths[branches]
            before = np.where(starts > 0, sizes[nodes][starts - 1], 0.0)
            sizes[nodes] -= np.repeat(before, lengths)
            np.add.at(sizes, self._onward[branches], sizes[self._stops[branches] - 1])
        return sizes[:-1]

    def falls(self, values):
        """How far values (n,) fall from each node to the next of its cluster."""
        # Of the last one they fall to 0.
        values = np.append(values[self.order], 0.0)
        following = values[1:].copy()
        following[self._stops - 1] = values[self._onward]
        return values[:-1] - following

    def sums_to_the_end(self, gains):
        """The sums (n,) over all later changes of a node's cluster, and its own."""
        sums = np.append(gains, 0.0)
        for branches, nodes in reversed([*self._branches()]):
            lengths = self._lengths[branches]
            # What follows the branch counts at its last node.
            sums[self._stops[branches] - 1] += sums[self._onward[branches]]
            left = np.repeat(self._stops[branches], lengths)
            left -= np.arange(nodes.start, nodes.stop)
            _add_up(sums[nodes], left, lengths.max())
        return sums[:-1]


def _add_up(sums, left, longest):
    """Make sums over the nodes of branches that are `left`, each with its own."""
    # Twice as many at a time. What is added up, and how, depends on the branch alone.
    reach = 1
    while reach < longest:
        more = sums[reach:] * (left[:-reach] > reach)
        sums[:-reach] += more
        reach *= 2


def _roots(pointers):
    """Follow pointers to where they end."""
    while True:
        further = pointers[pointers]
        if np.array_equal(further, pointers):
            return pointers
        pointers = further


def _sorting(keys, n_keys):
    """The order of whole numbers below n_keys; equal ones stay in theirs."""
    n = len(keys)
    entries = np.ones(n, dtype=bool), (keys, np.arange(n, dtype=np.int32))
    return sparse.csr_array(entries, shape=(n_keys, n)).indices  # counts in C


def _merge(n_names, ranks, one, other):
    """At which rank each name ends, in which it goes on, and in which round.

    Of pairs of the names, each with the rank from which on it is there.
    """
    ends = np.full(n_names, _NEVER, dtype=np.int32)
    heirs, rounds = np.arange(n_names, dtype=np.int32), np.zeros(n_names, np.int32)
    if len(apart := np.flatnonzero(one != other)):
        apart = apart[_sorting(ranks[apart], int(ranks.max()) + 1)]
    ranks, one, other = ranks[apart], one[apart], other[apart]
    left, k = np.arange(n_names, dtype=np.int32), 0
    while len(ranks):
        first = np.full(n_names, len(ranks), dtype=np.int32)
        steps = np.arange(len(ranks), dtype=np.int32)
        np.minimum.at(first, one, steps)
        np.minimum.at(first, other, steps)
        names = left[first[left] < len(ranks)]
        pairs = first[names]
        into = heirs.copy()
        into[names] = one[pairs] + other[pairs] - names
        # Of two that take the same pair, one goes on.
        stays = names[(into[into[names]] == names) & (names < into[names])]
        into[stays] = stays
        into = _roots(into)
        gone = names[into[names] != names]
        ends[gone], heirs[gone], rounds[gone] = ranks[first[gone]], into[gone], k
        one, other = into[one], into[other]
        apart = np.flatnonzero(one != other)
        ranks, one, other = ranks[apart], one[apart], other[apart]
        k += 1
        rounds[ends == _NEVER] = k
        left = names[into[names] == names]
    return ends, heirs, rounds
