"""How the clusters of maps merge as a threshold falls, for all thresholds at once.

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

import numpy as np
from scipy import sparse

_NEVER = np.iinfo(np.int32).max


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
        """Return the sizes (n,) of clusters once each node is there, sums of ones."""
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
        """Return how far values (n,) fall from each node to the next of its cluster."""
        # Of the last one they fall to 0.
        values = np.append(values[self.order], 0.0)
        following = values[1:].copy()
        following[self._stops - 1] = values[self._onward]
        return values[:-1] - following

    def sums_to_the_end(self, gains):
        """Return sums (n,) over all later changes of a node's cluster, and its own."""
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
    """Return the order of whole numbers below n_keys; equal ones stay in theirs."""
    n = len(keys)
    entries = np.ones(n, dtype=bool), (keys, np.arange(n, dtype=np.int32))
    return sparse.csr_array(entries, shape=(n_keys, n)).indices  # counts in C


def _merge(n_names, ranks, one, other):
    """Return at which rank each name ends, in which it goes on, and in which round.

    Of pairs of the names, each with the rank from which on it is there.
    """
    ends = np.full(n_names, _NEVER, dtype=np.int32)
    heirs, rounds = np.arange(n_names, dtype=np.int32), np.zeros(n_names, np.int32)
    apart = np.flatnonzero(one != other)
    if len(apart):
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
