"""Second-level permutations: one first-level map of every subject, taken together.

The procedure of Stelzer, Chen and Turner (2013, NeuroImage 65), on n = P + 1 group
maps, the mean over subjects of one map each:

1. At every position v a height of its own: the largest score that more than
   `threshold` of the n maps reach. A position is in a cluster where its score is
   larger; hence no more than this share of the maps passes there.
2. With n_s clusters of size s in all n maps, a cluster of size S has the p-value
   sum(n_s for s >= S) / sum(n_s).
3. The p-values of the observed clusters are adjusted with the procedure of Benjamini
   and Hochberg.

In the paper group maps are made of permuted maps only. Here the observed map of a
subject is among its maps that are drawn, and the observed group map counts among the
group maps: without an effect it is a map like any other, also with few first-level
permutations, and no p-value is zero.
"""

import math
from dataclasses import dataclass
from functools import partial

import numpy as np
from scipy.stats import false_discovery_control

from ..inference.clusters import find_clusters
from ..inference.null import (
    TIES,
    as_precise_as,
    as_scores,
    check_finite_scores,
    check_level,
    count_p,
    tie_bound,
)
from ..inference.permutation import check_permutations
from ..utils.checks import check_option, generator
from ..utils.memory import batches


class RecombinedNull:
    """Group maps (P, C) of second-level permutations, worked out when they are read."""

    # Nothing of the size of all group maps is ever held: what is asked for is made of
    # the first-level maps, in parts that fit the processor's cache. Map 0 of subject s
    # is its row of `scores` (S, C), maps 1 to P_s are `nulls[s]` (P_s, C), and `draws`
    # (P, S) are those that go into each second-level permutation. The `statistic` over
    # subjects is "min", that of prevalence inference, or "mean". Subjects are taken one
    # after the other, so a row does not depend on which are read with it.

    ndim = 2

    def __init__(self, scores, nulls, draws, statistic):
        check_option("statistic", statistic, ("min", "mean"))
        # In one piece each, or every read would copy the whole null.
        self._nulls = [np.ascontiguousarray(as_scores(null)) for null in nulls]
        # The least precise null decides which scores are ties.
        single = any(null.dtype == np.float32 for null in self._nulls)
        self.dtype = np.dtype(np.float32 if single else np.float64)
        self._scores = as_precise_as(self.dtype, scores)
        self._draws, self._statistic = np.asarray(draws), statistic
        self.shape = len(self._draws), self._scores.shape[1]
        self.observed = self._over_subjects(self._scores).astype(float)

    def __len__(self):
        """Return the number of second-level permutations."""
        return len(self._draws)

    def __getitem__(self, key):
        """Return group maps (rows, positions) of one slice, or of two of them."""
        rows, part = key if isinstance(key, tuple) else (key, slice(None))
        draws = self._draws[rows]
        maps = np.empty((len(draws), self._scores[0, part].size), self.dtype)
        for batch in batches(*maps.shape):
            drawn = (
                self._drawn(s, index, part) for s, index in enumerate(draws[batch].T)
            )
            maps[batch] = self._over_subjects(drawn)
        return maps

    def p_by_subject(self):
        """Return each subject's own p-values (S, C) of the observed group map.

        That of subject s is (1 + b) / (1 + P_s), where b of its P_s permuted maps reach
        the observed one of the group. Of the minimum, which all observed maps reach,
        this is the share of the subject's maps, the observed one among them, that
        reach it, and the product over subjects the share of all recombinations.
        """
        return _p_of(self.observed, self._nulls, self.dtype)

    def _drawn(self, s, index, part):
        """Return the maps (m, part) of subject s with these numbers; 0 is observed."""
        index = index.astype(np.intp) - 1
        # Index -1 takes any row, the last one, and is put right.
        maps = self._nulls[s][:, part].take(index, axis=0)
        observed = np.flatnonzero(index < 0)
        maps[observed] = self._scores[s, part]
        return maps

    def _over_subjects(self, maps):
        """Return the statistic of maps that come one subject after the other."""
        maps = iter(maps)
        if self._statistic == "min":
            total = next(maps).astype(self.dtype)
            for part in maps:
                np.minimum(total, part, out=total)
            return total
        total, n_subjects = next(maps).astype(float), len(self._nulls)
        for part in maps:
            total += part
        return (total / n_subjects).astype(self.dtype)


def p_of_scores(scores, nulls):
    """Return the p-values (S, C) of one map of scores (C,) by each subject's null."""
    nulls = [as_scores(null) for null in nulls]
    # The least precise null decides which scores are ties.
    single = any(null.dtype == np.float32 for null in nulls)
    dtype = np.dtype(np.float32 if single else np.float64)
    return _p_of(as_precise_as(dtype, scores), nulls, dtype)


def _p_of(observed, nulls, dtype):
    """Return p-values (S, C) of one map (C,) by each subject's null."""
    p = np.empty((len(nulls), len(observed)))
    for s, null in enumerate(nulls):
        for part in batches(p.shape[1], len(null)):
            maps, here = null[:, part], observed[part]
            size = np.maximum(np.abs(here), np.abs(maps).max(axis=0))
            bound = tie_bound(here, size, dtype)
            p[s, part] = count_p(np.count_nonzero(maps >= bound, axis=0), len(null))
    return p


def draw_recombinations(n_maps, n_permutations, random_state=None):
    """Draw which of the `n_maps` (S,) of subjects go together, 0 observed: (P, S)."""
    # The observed map of a subject is one of those drawn: without an effect it is a map
    # like the others. Only the observed maps of all subjects together are left out.
    n_maps = [int(number) for number in n_maps]
    n_others = math.prod(n_maps) - 1
    shape = min(n_permutations, n_others), len(n_maps)
    check_permutations(shape[0], 4 * shape[1])
    rng, draws = generator(random_state), np.empty(shape, np.int32)
    for rows in batches(*shape):
        if n_others <= n_permutations:
            others = np.arange(rows.start, rows.stop) + 1
            draws[rows] = np.transpose(np.unravel_index(others, n_maps))
        else:
            draws[rows] = rng.integers(0, n_maps, draws[rows].shape, np.int32)
    return draws


@dataclass(frozen=True, eq=False)
class ClusterSizes:
    """Clusters of a group map and their p-values."""

    #: Of positions (C,), adjusted, and 1 outside of clusters.
    p_values: np.ndarray
    #: Of positions (C,): clusters count from 1, and 0 is none.
    labels: np.ndarray
    #: Numbers of positions (n_clusters,), and p-values that are not adjusted.
    sizes: np.ndarray
    cluster_p: np.ndarray
    #: Clusters of all group maps, the observed one included, of the first test.
    n_null_clusters: int


def cluster_size_p(
    nulls, threshold=0.001, adjacency=None, shape=None, exempt=(None, None)
):
    """Return `ClusterSizes` of nulls of means, with a height for each position.

    Where several tests have to reject, a cluster is where the means are above the
    heights of all, and has the largest of its p-values. Positions that are `exempt`
    from a test are above its heights, and count in no size there.
    """
    lattice = shape if adjacency is None and shape else (nulls[0].shape[1],)
    tests = [
        _SizeTest(null, mask, _heights(null, check_level(threshold)))
        for null, mask in zip(nulls, exempt, strict=False)
    ]
    find = partial(_labels, lattice=lattice, adjacency=adjacency)
    above = [test.above(test.null.observed[np.newaxis]) for test in tests]
    labels = find(np.all(above, axis=0)).ravel()
    as_large = [test.as_large(find) for test in tests]
    p, sizes, n_null = 0.0, np.bincount(labels)[1:], int(as_large[0][1])
    for test, count in zip(tests, as_large, strict=True):
        own = test.sizes(labels)  # 0 where all positions are exempt
        p = np.maximum(p, np.where(own > 0, count[own] / max(1, count[1]), 0.0))
    if not len(sizes):
        return ClusterSizes(np.ones(len(labels)), labels, sizes, p, n_null)
    p_values = np.concatenate([[1.0], false_discovery_control(p)])[labels]
    return ClusterSizes(p_values, labels, sizes, p, n_null)


def _labels(above, lattice, adjacency):
    """Return the number of the cluster of each position that is above (m, C), or 0."""
    maps = above.reshape(len(above), *lattice)
    return find_clusters(maps, 0.5, adjacency)[0].reshape(above.shape)


@dataclass(frozen=True, eq=False)
class _SizeTest:
    """A null of means, positions that are exempt from it or None, and its heights."""

    null: object
    exempt: np.ndarray | None
    heights: np.ndarray

    def above(self, maps):
        """Return where maps (m, C) are above the heights; exempt positions are."""
        above = maps > self.heights
        return above if self.exempt is None else above | self.exempt

    def sizes(self, labels):
        """Return the sizes (n_clusters,) of clusters by their labels (..., C)."""
        ones = None
        if self.exempt is not None:
            ones = np.broadcast_to(~self.exempt, labels.shape).ravel()
        return np.bincount(labels.ravel(), ones)[1:].astype(int)

    def as_large(self, find):
        """Return how many clusters of all maps have each size or more, (C + 1,)."""
        n_positions = self.null.shape[1]
        count = np.bincount(
            self.sizes(find(self.above(self.null.observed[np.newaxis]))),
            minlength=n_positions + 1,
        )
        for rows in batches(len(self.null), n_positions):
            sizes = self.sizes(find(self.above(self.null[rows])))
            count += np.bincount(sizes, minlength=n_positions + 1)
        return np.cumsum(count[::-1])[::-1]


def _heights(null, threshold):
    """Return the heights (C,) above which a score is in a cluster."""
    n_maps = len(null) + 1
    # A product that should be whole may fall short of it by a rounding error.
    allowed = int(threshold * n_maps * (1 + 1e-12))
    if allowed < 1:
        raise ValueError(
            f"No score can pass threshold={threshold:g} with {len(null)} second-level "
            "permutations. Take more of them (n_permutations="
            f"{int(np.ceil(1 / threshold)) - 1} or more), or a larger threshold."
        )
    row = n_maps - 1 - allowed  # in ascending order: the largest that too many reach
    heights = np.empty(null.shape[1])
    for part in batches(len(heights), n_maps):
        maps = np.concatenate([null.observed[np.newaxis, part], null[:, part]])
        size = np.abs(maps).max(axis=0)
        check_finite_scores(size)
        # What is larger by a rounding error is a tie, and does not pass.
        heights[part] = np.partition(maps, row, axis=0)[row]
        heights[part] += TIES[null.dtype] * size
    return heights
