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
from itertools import chain
from typing import NamedTuple

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
from ..utils.checks import generator
from ..utils.memory import LazyRows, batches


class RecombinedNull(LazyRows):
    """Group maps (P, C) of second-level permutations, computed when they are read."""

    # Nothing of the size of all group maps is ever held: what is asked for is made of
    # the first-level maps, in parts that fit the processor's cache. Map 0 of subject s
    # is its row of `scores` (S, C), maps 1 to P_s are `nulls[s]` (P_s, C), and `draws`
    # (P, S) are those that go into each second-level permutation. The `statistic` over
    # subjects is "min", that of prevalence inference, or "mean". Subjects are taken one
    # after the other, so a row does not depend on which are read with it.

    def __init__(self, scores, nulls, draws, statistic):
        # In one piece each, or every read would copy the whole null.
        self._nulls = [np.ascontiguousarray(as_scores(null)) for null in nulls]
        dtype = _least_precise(self._nulls)
        self._scores = as_precise_as(dtype, scores)
        self._draws, self._statistic = np.asarray(draws), statistic
        super().__init__(len(self._draws), self._scores.shape[1:], dtype, None)
        self.observed = self._over_subjects(self._scores).astype(float)

    def __getitem__(self, key):
        """Compute group maps (rows, positions) of one slice, or of two of them."""
        rows, part = key if isinstance(key, tuple) else (key, slice(None))
        draws = self._draws[rows]
        maps = np.empty((len(draws), self._scores[0, part].size), self.dtype)
        for batch in batches(*maps.shape):
            drawn = (
                self._drawn(s, index, part) for s, index in enumerate(draws[batch].T)
            )
            maps[batch] = self._over_subjects(drawn)
        return maps

    def _drawn(self, s, index, part):
        """Take the maps (m, part) of subject s with these numbers; 0 is observed."""
        index = index.astype(np.intp) - 1
        # Index -1 takes any row, the last one, and is put right.
        maps = self._nulls[s][:, part].take(index, axis=0)
        observed = np.flatnonzero(index < 0)
        maps[observed] = self._scores[s, part]
        return maps

    def _over_subjects(self, maps):
        """Compute the statistic of maps that come one subject after the other."""
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


def _least_precise(nulls):
    """Precision of the least precise null, which decides which scores are ties."""
    single = any(null.dtype == np.float32 for null in nulls)
    return np.dtype(np.float32 if single else np.float64)


# ------------------------------------------------- by the permutations of each subject


def p_of_scores(scores, nulls):
    """Compute the p-values (S, C) of one map of scores (C,) by each subject's null.

    That of subject s is (1 + b) / (1 + P_s), where b of its P_s permuted maps reach the
    scores. Of the minimum over subjects, which all observed maps reach, this is the
    share of the subject's maps, the observed one among them, that reach it, and the
    product over subjects the share of all recombinations.
    """
    nulls = [as_scores(null) for null in nulls]
    dtype = _least_precise(nulls)
    scores = as_precise_as(dtype, scores)
    p = np.empty((len(nulls), len(scores)))
    for s, null in enumerate(nulls):
        for part in batches(p.shape[1], len(null)):
            p[s, part] = _p_of(null[:, part], scores[part], dtype)
    return p


def _p_of(null, observed, dtype):
    """Compute the p-values (C,) of observed scores (C,) by permuted ones (P, C)."""
    size = np.maximum(np.abs(observed), np.abs(null).max(axis=0))
    reached = np.count_nonzero(null >= tie_bound(observed, size, dtype), axis=0)
    return count_p(reached, len(null))


class SubjectTests(NamedTuple):
    """Tests of S subjects, each against the permutations of that subject alone.

    A subject is significant at a position if p <= alpha there, and *anywhere* if the
    smallest p-value corrected by the maximum over positions is. Scores come in steps,
    so that a test of level alpha may reject less often without an effect. How often it
    does is its attained size: the share of a subject's maps, the observed one among
    them, that would be significant if they were the observed one.
    """

    #: At each position (S, C).
    p: np.ndarray
    sizes: np.ndarray
    #: Anywhere (S,).
    p_anywhere: np.ndarray
    sizes_anywhere: np.ndarray


def test_each_subject(subjects, alpha):
    """Compute the `SubjectTests` of subjects at a level.

    Where two tests have to reject, the larger p-value counts, and the larger size.
    """
    n, n_positions = subjects.scores.shape
    p, sizes, corrected = np.zeros((3, n, n_positions))
    sizes_anywhere = np.zeros(n)
    for scores, nulls, exempt in subjects.tests:
        counted = ~exempt
        for s, null in enumerate(nulls):
            null = as_scores(null)
            observed = as_precise_as(null.dtype, scores[s])
            rows = np.concatenate([observed[np.newaxis].astype(null.dtype), null])
            for part in batches(n_positions, len(rows)):
                here, maps = counted[part], rows[:, part]
                p_here = _p_of(maps[1:], maps[0].astype(float), null.dtype)
                p[s, part] = np.maximum(p[s, part], np.where(here, p_here, 0.0))
                sizes[s, part] = np.maximum(sizes[s, part], _size(maps, alpha) * here)
            if not counted.any():
                continue
            largest = rows[:, counted].max(axis=1)[:, np.newaxis]
            p_here = _p_of(largest[1:], observed, null.dtype)
            corrected[s] = np.maximum(corrected[s], np.where(counted, p_here, 0.0))
            sizes_anywhere[s] = max(sizes_anywhere[s], _size(largest, alpha)[0])
    return SubjectTests(p, sizes, corrected.min(axis=1), sizes_anywhere)


def _size(rows, alpha):
    """Compute the attained sizes (C,) of tests of maps (P + 1, C)."""
    # A row is significant if no more than so many rows reach it, itself among them: if
    # it is above the first that is too many.
    n_most = min(int(alpha * len(rows) * (1 + 1e-12)), len(rows) - 1)
    if n_most < 1:
        return np.zeros(rows.shape[1])
    too_many = np.partition(rows, len(rows) - 1 - n_most, axis=0)[-1 - n_most]
    size = np.abs(rows).max(axis=0)
    significant = tie_bound(rows.astype(float), size, rows.dtype) > too_many
    return np.count_nonzero(significant, axis=0) / len(rows)


# ------------------------------------------------------------ second-level permutations


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


def cluster_size_p(
    nulls, threshold=0.001, adjacency=None, shape=None, exempt=(None, None)
):
    """The p-values (C,) of nulls of means, with a height for each position.

    They are those of clusters, adjusted, and 1 outside of them. Where several tests
    have to reject, a cluster is where the means are above the heights of all, and has
    the largest of its p-values. Positions that are `exempt` from a test are above its
    heights, and count in no size there.
    """
    n_positions = nulls[0].shape[1]
    lattice = shape if adjacency is None and shape else (n_positions,)
    threshold = check_level(threshold)
    tests = [
        (null, _heights(null, threshold), mask)
        for null, mask in zip(nulls, exempt, strict=False)
    ]

    def above(maps, heights, mask):
        """Mark where maps (m, C) are above the heights; exempt positions are."""
        return maps > heights if mask is None else (maps > heights) | mask

    def labelled(high):
        """Label the clusters of positions that are above (m, C) from 1; 0 is none."""
        maps = high.reshape(len(high), *lattice)
        return find_clusters(maps, 0.5, adjacency)[0].reshape(high.shape)

    def sizes_of(labels, mask):
        """Count the positions of clusters by their labels (..., C)."""
        ones = None if mask is None else np.broadcast_to(~mask, labels.shape).ravel()
        return np.bincount(labels.ravel(), ones)[1:].astype(int)

    high = [above(test[0].observed[np.newaxis], *test[1:]) for test in tests]
    labels = labelled(np.all(high, axis=0)).ravel()
    p = 0.0
    for null, heights, mask in tests:
        count = np.zeros(n_positions + 1, int)
        rows = (null[part] for part in batches(*null.shape))
        for maps in chain([null.observed[np.newaxis]], rows):
            sizes = sizes_of(labelled(above(maps, heights, mask)), mask)
            count += np.bincount(sizes, minlength=n_positions + 1)
        as_large = np.cumsum(count[::-1])[::-1]  # clusters of each size or more
        sizes = sizes_of(labels, mask)  # 0 where all positions are exempt
        share = as_large[sizes] / max(1, int(as_large[1]))
        p = np.maximum(p, np.where(sizes > 0, share, 0.0))
    if not labels.any():
        return np.ones(n_positions)
    return np.concatenate([[1.0], false_discovery_control(p)])[labels]


def _heights(null, threshold):
    """Compute the heights (C,) above which a score is in a cluster."""
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
