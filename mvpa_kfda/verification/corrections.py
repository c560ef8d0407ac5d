"""Corrections for many positions, worked out again by loops over permutations.

A `Null` has the observed map and those of all permutations. A correction takes one of
them, or several that all have to be rejected, and returns p-values (V,). Its name in
`CORRECTIONS` is that of results.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy import stats
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from .second_level import p_uncorrected


@dataclass
class Null:
    """An observed map (V,), the null (P, V), and how they are compared."""

    observed: np.ndarray
    null: np.ndarray
    alternative: str
    #: How near ties are, as a share of the largest number.
    near: float
    #: Whether it is t or a normal deviate, whose centre is 0 and which needs no unit.
    standard: bool
    #: The level that forms clusters, and the height, of t.
    level: float
    height: float
    #: Pairs (2, n) of neighbours.
    edges: np.ndarray
    #: Positions (V,) that this test is not for; they connect the others.
    exempt: np.ndarray

    @cached_property
    def rows(self):
        """The observed map and those of the permutations (P + 1, V)."""
        return np.vstack([self.observed, self.null])

    def sided(self, rows):
        """Return numbers of which the large ones are the interesting ones."""
        if self.alternative == "two-sided":
            return np.abs(rows - (0 if self.standard else self.rows.mean(axis=0)))
        return -rows if self.alternative == "less" else rows

    @cached_property
    def size(self):
        """The largest number (V,) of each position, by which ties are told."""
        return np.abs(self.rows).max(axis=0)

    @cached_property
    def largest(self):
        """The most interesting number (P,) of each permutation."""
        return self.sided(self.null).max(axis=1)

    @cached_property
    def bounds(self):
        """What reaches the observed numbers (V,) among the largest of permutations."""
        values = self.sided(self.observed)
        size = np.maximum(np.abs(values), np.abs(self.largest).max())
        if self.alternative == "two-sided":
            size = self.size.max()
        return values - self.near * size

    @cached_property
    def maps(self):
        """The maps (sides, P + 1, V) that clusters are large in, the observed first."""
        z = self.rows
        if not self.standard:
            deviation = z.std(axis=0)
            flat = deviation <= self.near * self.size
            z = np.where(flat, 0, (z - z.mean(axis=0)) / np.where(flat, 1, deviation))
        sides = {"greater": [z], "less": [-z], "two-sided": [z, -z]}
        return np.array(sides[self.alternative])

    @cached_property
    def joined(self):
        """The same maps, in which exempt positions are above every height."""
        return np.where(self.exempt, np.inf, self.maps)

    @cached_property
    def cut(self):
        """The height that clusters are above."""
        if self.standard:
            return self.height
        sides = 2 if self.alternative == "two-sided" else 1
        return stats.norm.isf(self.level / sides)

    def share(self, value, largest):
        """Return the share of permutations whose largest (P,) reaches a value."""
        size = max(abs(value), np.abs(largest).max())
        return (1 + np.sum(largest >= value - self.near * size)) / (1 + len(largest))


def clusters(above, edges):
    """Return lists of connected positions, of those that are `above` (V,)."""
    first, second = edges[:, above[edges[0]] & above[edges[1]]]
    pairs = coo_array((np.ones(len(first)), (first, second)), shape=(above.size,) * 2)
    labels = connected_components(pairs, directed=False)[1]
    where = np.flatnonzero(above)
    order = where[np.argsort(labels[where], kind="stable")]
    return np.split(order, 1 + np.flatnonzero(np.diff(labels[order])))[: len(order)]


def of_each(test):
    """Return a test of several nulls by a test of one: the largest p-value counts."""

    def largest(nulls):
        p = [np.where(null.exempt, 0.0, test(null)) for null in nulls]
        return np.max(p, axis=0)

    return largest


@of_each
def uncorrected(null):
    """Return p of each position for itself."""
    values, others = null.sided(null.observed), null.sided(null.null)
    return p_uncorrected(values, others, null.near, null.size)


@of_each
def maximum(null):
    """Return p by the largest number of each permutation."""
    reached = null.largest[:, np.newaxis] >= null.bounds
    return (1 + reached.sum(axis=0)) / (1 + len(null.null))


@of_each
def step_down(null):
    """Return p by the largest number over positions that are no higher."""
    order = np.argsort(-null.sided(null.observed), kind="stable")
    rest = null.sided(null.null)[:, order]
    largest = np.maximum.accumulate(rest[:, ::-1], axis=1)[:, ::-1]
    p = (1 + np.sum(largest >= null.bounds[order], axis=0)) / (1 + len(rest))
    found = np.empty(len(order))
    found[order] = np.maximum.accumulate(p)
    return found


def _by_clusters(nulls, measure):
    """Return p by the largest cluster, which a function of map and positions says.

    A cluster is where the observed maps of all tests are above their heights, and has
    the largest of its p-values.
    """
    edges, p = nulls[0].edges, np.ones(nulls[0].observed.size)
    largest = [_largest_clusters(null, measure) for null in nulls]
    for side in range(len(nulls[0].maps)):
        above = np.all([null.joined[side, 0] > null.cut for null in nulls], axis=0)
        for each in clusters(above, edges):
            p[each] = 0.0
            for null, of_null in zip(nulls, largest, strict=True):
                inside = each[~null.exempt[each]]
                if len(inside):
                    value = measure(null.maps[side, 0], inside)
                    p[each] = np.maximum(p[each], null.share(value, of_null))
    return p


def _largest_clusters(null, measure):
    """Return what the largest cluster of each permutation has (P,), 0 without any."""
    largest = np.zeros(len(null.null))
    for maps, joined in zip(null.maps, null.joined, strict=True):
        for row, (z, whole) in enumerate(zip(maps[1:], joined[1:], strict=True)):
            for each in clusters(whole > null.cut, null.edges):
                value = measure(z, each[~null.exempt[each]])
                largest[row] = max(largest[row], value)
    return largest


def cluster_mass(nulls):
    """Return p of clusters by the sum of the map over each."""
    return _by_clusters(nulls, lambda z, each: z[each].sum())


def cluster_size(nulls):
    """Return p of clusters by the number of positions in each."""
    return _by_clusters(nulls, lambda z, each: len(each))


def tfce(nulls):
    """Return p by threshold-free cluster enhancement, of all tests' lowest map."""
    near = [[] for _ in nulls[0].observed]
    for i, j in nulls[0].edges.T.tolist():
        near[i].append(j)
        near[j].append(i)
    lowest, p = np.min([null.joined[:, 0] for null in nulls], axis=0), []
    for null in nulls:
        observed = np.max([_enhanced(z, near, null.exempt) for z in lowest], axis=0)
        largest = [
            max(_enhanced(z, near, null.exempt).max() for z in sides)
            for sides in null.joined[:, 1:].swapaxes(0, 1)
        ]
        found = [null.share(value, np.array(largest)) for value in observed]
        p.append(np.where(null.exempt, 0.0, found))
    return np.max(p, axis=0)


def _enhanced(z, near, exempt):
    """Return the enhanced map: from the highest position down, one by one."""
    order = np.argsort(-z, kind="stable")[: np.sum(z > 0)]
    heights = np.append(z[order], 0.0)
    scores, cluster = np.zeros(z.size), np.full(z.size, -1)
    for k, i in enumerate(order):
        cluster[i] = i
        for j in near[i]:
            if cluster[j] >= 0:
                cluster[cluster == cluster[j]] = i
        above = order[: k + 1]
        above = above[~exempt[above]]
        extent = np.bincount(cluster[above], minlength=z.size)[cluster[above]]
        if len(above):
            cubes = heights[k] ** 3 - heights[k + 1] ** 3
            scores[above] += np.sqrt(extent) * cubes / 3
    return scores


@of_each
def cluster_depth(null):
    """Return p of times by their depth in a cluster, from its head and its tail."""
    heads, tails = (_largest_at_depths(null, side) for side in (1, -1))
    sides = []
    for z in null.maps[:, 0]:
        p = np.ones(z.size)
        for each in _whole_runs(z > null.cut):
            from_head = _by_depth(null, z[each], heads)
            from_tail = _by_depth(null, z[each[::-1]], tails)[::-1]
            p[each] = np.maximum(from_head, from_tail)
        sides.append(p)
    return np.min(sides, axis=0)


def _whole_runs(above):
    """Return the runs of times that no end of the course cuts off."""
    pairs = np.arange(len(above) - 1) + np.array([[0], [1]])
    last = len(above) - 1
    return [x for x in clusters(above, pairs) if x[0] > 0 and x[-1] < last]


def _largest_at_depths(null, side):
    """Return the largest height at each depth of a cluster (P, V), 0 without any."""
    largest = np.zeros(null.null.shape)
    for maps in null.maps[:, 1:]:
        for row, z in zip(largest, maps, strict=True):
            for each in _whole_runs(z > null.cut):
                here = row[: len(each)]
                np.maximum(here, z[each[::side]], out=here)
    return largest


def _by_depth(null, values, largest):
    """Return p of the heights (J,) of a cluster, in steps from the least rank."""
    largest = largest[:, : len(values)]
    slack = null.near * null.maps.max()
    observed = 1 + np.sum(largest >= values - slack, axis=0)
    ranks = np.array(largest)  # how many permutations reach each
    for column in ranks.T:
        column[:] = len(column) - np.searchsorted(np.sort(column), column - slack)
    ranks += values >= largest - slack
    order = np.argsort(observed, kind="stable")
    least = np.minimum.accumulate(ranks[:, order[::-1]], axis=1)[:, ::-1]
    p = (1 + np.sum(least <= observed[order], axis=0)) / (1 + len(largest))
    found = np.empty(len(values))
    found[order] = np.maximum.accumulate(p)
    return found


def cluster_size_fdr(nulls):
    """Return p of clusters by their size among those of all maps, adjusted.

    A position is in a cluster where its score is above one of its own, which no more
    than a share of the maps are above: the level.
    """
    edges, above = nulls[0].edges, [_above_own_heights(null) for null in nulls]
    found = clusters(np.all([each[0] for each in above], axis=0), edges)
    p = np.zeros(len(found))
    for null, rows in zip(nulls, above, strict=True):
        counted = ~null.exempt
        own = np.array([counted[each].sum() for each in found])
        sizes = [counted[each].sum() for row in rows for each in clusters(row, edges)]
        sizes = np.array([size for size in sizes if size])
        for k in np.flatnonzero(own):
            p[k] = max(p[k], np.mean(sizes >= own[k]))
    p_values = np.ones(nulls[0].observed.size)
    if found:
        adjusted = stats.false_discovery_control(p)
        for each, value in zip(found, adjusted, strict=True):
            p_values[each] = value
    return p_values


def _above_own_heights(null):
    """Return where all maps (P + 1, V) are above the height of each position."""
    n_above = int(null.level * len(null.rows) * (1 + 1e-12))
    heights = np.sort(null.rows, axis=0)[len(null.rows) - 1 - n_above]
    return (null.rows > heights + null.near * null.size) | null.exempt


def ranks_of_rows(null):
    """Return how many rows reach each one (P + 1, V), and the statistic of each row.

    That is the smallest quotient of a rank and its place among those of the row.
    """
    rows = null.sided(null.rows)
    order = np.argsort(rows, axis=0)
    ascending = np.take_along_axis(rows, order, axis=0)
    starts = np.diff(ascending, axis=0, prepend=-np.inf) > null.near * null.size
    numbers = np.arange(len(rows))[:, np.newaxis]
    first = np.maximum.accumulate(np.where(starts, numbers, 0), axis=0)
    ranks = np.empty(rows.shape, int)
    np.put_along_axis(ranks, order, len(rows) - first, axis=0)
    places = 1 + np.arange(rows.shape[1])
    return ranks, np.min(np.sort(ranks, axis=1) / places, axis=1)


#: Corrections by the names that results have, but for those of p-values alone.
CORRECTIONS = {
    "none": uncorrected,
    "max": maximum,
    "max-step-down": step_down,
    "cluster": cluster_mass,
    "cluster-size": cluster_size,
    "cluster-depth": cluster_depth,
    "tfce": tfce,
    "cluster-fdr": cluster_size_fdr,
}
