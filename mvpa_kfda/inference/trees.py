"""How the clusters of a map merge when its threshold falls, for all thresholds at once.

Nodes are sorted by value, the highest first, so that a node's number is its rank. At
rank r the nodes 0 to r are there, and clusters are the connected sets of them. Of two
nodes that are neighbours the later one makes the pair complete.

A cluster has the name of one of its peaks, the nodes without an earlier neighbour, and
of two clusters that merge one keeps its name. Which of them does is free, and is chosen
so that names end in few rounds: in each, every cluster takes the first pair that leads
out of it; of the clusters that hang together by these pairs one keeps its name
[Boruvka, 1926]. Each round leaves half of the names at most, and its work is that of
NumPy on all maps together.
"""

from functools import cached_property

import numpy as np
from scipy import sparse


class MergeTree:
    """The clusters of n sorted nodes, at every rank, by pairs of neighbours (2, m)."""

    def __init__(self, n_nodes, pairs):
        later, earlier = np.maximum(*pairs), np.minimum(*pairs)
        highest = np.arange(n_nodes, dtype=np.int32)
        np.minimum.at(highest, later, earlier)
        self._peak_of = _roots(highest)
        peaks = np.flatnonzero(highest == np.arange(n_nodes))
        number = np.empty(n_nodes, dtype=np.int32)
        number[peaks] = np.arange(len(peaks), dtype=np.int32)
        self._peak_of = number[self._peak_of]
        self._end_names(len(peaks), later, self._peak_of[later], self._peak_of[earlier])
        self._arrange(n_nodes)

    def _end_names(self, n_names, rank, one, other):
        """Find at which rank each name ends (n_nodes if never), when, and in which."""
        # The names of both ends of pairs, and the rank at which the pair is complete.
        apart = one != other
        rank, one, other = rank[apart], one[apart], other[apart]
        order = _counting_order(rank)
        rank, one, other = rank[order], one[order], other[order]
        self._ends = np.full(n_names, np.iinfo(np.int32).max, dtype=np.int32)
        self._round = np.full(n_names, -1, dtype=np.int32)
        self._heir = np.arange(n_names, dtype=np.int32)
        first = np.empty(n_names, dtype=np.int32)
        k = 0
        while len(rank):
            steps = np.arange(len(rank), dtype=np.int32)
            first[:] = -1
            # The last one written is the first pair.
            both = np.concatenate([one[::-1], other[::-1]])
            back = np.concatenate([steps[::-1], steps[::-1]])
            order = None
            first_one = np.full(n_names, len(rank), dtype=np.int32)
            first_one[one[::-1]] = steps[::-1]
            first[:] = len(rank)
            first[other[::-1]] = steps[::-1]
            np.minimum(first, first_one, out=first)
            del both, back, order
            names = np.flatnonzero(first < len(rank))
            pair = first[names]
            to = one[pair] + other[pair] - names
            heir = np.arange(n_names, dtype=np.int32)
            heir[names] = to
            # Two that take the same pair: the first name stays.
            stays = names[(heir[to] == names) & (names < to)]
            heir[stays] = stays
            heir = _roots(heir)
            gone = names[heir[names] != names]
            self._ends[gone] = rank[first[gone]]
            self._heir[gone] = heir[gone]
            self._round[gone] = k
            one, other = heir[one], heir[other]
            apart = one != other
            rank, one, other = rank[apart], one[apart], other[apart]
            k += 1
        self._round[self._round < 0] = k
        self.n_rounds = k + 1
