"""Group inference: the results of many subjects, or their files, to one result.

A new method is an entry of `METHODS`, and its words in `results.group.GROUP_TESTS`.

Clusters of second-level permutations, of one first-level map of every subject, taken
together, are tested by the procedure of Stelzer, Chen and Turner (2013, NeuroImage 65),
on n = P + 1 group maps, the mean over subjects of one map each:

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

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from itertools import chain
from numbers import Real
from types import SimpleNamespace
from typing import Literal

import numpy as np
from scipy import stats

from ..inference import listed
from ..inference.clusters import find_clusters
from ..inference.corrections import (
    ADJUSTMENTS,
    CORRECTIONS,
    CorrectionNames,
    check_correction,
    correct,
    nearest_to_zero,
    smallest_p_value,
)
from ..inference.discoveries import calibrate
from ..inference.exchange import Exchange, draw_labels, draw_signs, tidied
from ..inference.listed import CLUSTER_FDR
from ..inference.null import (
    ALTERNATIVES,
    TIES,
    Alternative,
    Null,
    as_precise_as,
    as_scores,
    check_finite_scores,
    check_level,
    count_p,
    level_of_side,
    tie_bound,
)
from ..inference.prevalence import largest_order, order_p, prevalence_p
from ..results.fields import keeps_warnings
from ..results.group import NULLS, GroupResult, share_of
from ..utils.checks import (
    Seed,
    check_count,
    check_flag,
    check_option,
    check_share,
    counted,
    draw_seed,
    generator,
    quoted,
    warn,
)
from ..utils.fingerprints import files_of
from ..utils.memory import LazyRows, batches, check_permutations
from ..utils.plain import versions
from .subjects import (
    ResultOrPath,
    Subjects,
    check_list_names,
    join_lists,
    leave_out_small,
    level_to_test,
    off_chance,
)

#: Second-level permutations where no number is given.
N_PERMUTATIONS = 10_000
#: p-levels that form clusters where none is given: of images, and of everything else.
_LEVEL_OF_IMAGES, _LEVEL = 0.001, 0.05
#: For smaller levels there is no number of permutations that anybody would draw.
_LEAST_ALPHA = 1e-8

#: Up to so many subjects the signed-rank test is exact: without ties by its known
#: distribution, with ties by listing the signs. SciPy's bounds.
_EXACT, _LISTED = 50, 13

#: The rank-sum test without ties is exact if one group is not larger. SciPy's bound.
_EXACT_GROUP = 8

#: Scores that a group ranks for true discoveries, about: those of as many permutations
#: as there are, or of the first ones, but of a thousand at least.
_RANKED, _LEAST_RANKED = 2**25, 1000


# ------------------------------------------------ permuted maps of subjects, together


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
        """Group maps (rows, positions) of one slice, or of two of them."""
        rows, part = key if isinstance(key, tuple) else (key, slice(None))
        draws = self._draws[rows]
        maps = np.empty((len(draws), self._scores[0, part].size), self.dtype)
        for batch in batches(*maps.shape):
            of_each = enumerate(draws[batch].T)
            maps[batch] = self._over_subjects(self._drawn(*x, part) for x in of_each)
        return maps

    def _drawn(self, s, index, part):
        """The maps (m, part) of subject s with these numbers; 0 is observed."""
        index = index.astype(np.intp) - 1
        # Index -1 takes any row, the last one, and is put right.
        maps = self._nulls[s][:, part].take(index, axis=0)
        observed = np.flatnonzero(index < 0)
        maps[observed] = self._scores[s, part]
        return maps

    def _over_subjects(self, maps):
        """The statistic of maps that come one subject after the other."""
        maps, of_minimum = iter(maps), self._statistic == "min"
        join, dtype = (np.minimum, self.dtype) if of_minimum else (np.add, float)
        total = next(maps).astype(dtype)
        for part in maps:
            join(total, part, out=total)
        return total if of_minimum else (total / len(self._nulls)).astype(self.dtype)


def _least_precise(nulls):
    """Precision of the least precise null, which decides which scores are ties."""
    return min((null.dtype for null in nulls), key=lambda dtype: dtype.itemsize)


# ------------------------------------------------- by the permutations of each subject


def p_of_scores(scores, nulls):
    """The p-values (S, C) of one map of scores (C,) by each subject's null.

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
    """The p-values (C,) of observed scores (C,) by permuted ones (P, C)."""
    size = np.maximum(np.abs(observed), np.abs(null).max(axis=0))
    reached = np.count_nonzero(null >= tie_bound(observed, size, dtype), axis=0)
    return count_p(reached, len(null))


def test_each_subject(subjects, alpha):
    """Tests of S subjects, each against the permutations of that subject alone.

    A subject is significant at a position if p <= alpha there, and *anywhere* if the
    smallest p-value corrected by the maximum over positions is. Scores come in steps,
    so that a test of level alpha may reject less often without an effect. How often it
    does is its attained size: the share of a subject's maps, the observed one among
    them, that would be significant if they were the observed one. Where two tests have
    to reject, the larger p-value counts, and the larger size.

    Returns the maps (S, C) of p and of sizes, and anywhere "p" and "size" (S,).
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
    anywhere = {"p": corrected.min(axis=1), "size": sizes_anywhere}
    return {"subject_p": p, "subject_sizes": sizes}, anywhere


def _size(rows, alpha):
    """The attained sizes (C,) of tests of maps (P + 1, C)."""
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
    """Which of the `n_maps` (S,) of subjects go together, 0 observed: (P, S)."""
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
        (null, _heights(null, threshold), False if mask is None else mask)
        for null, mask in zip(nulls, exempt, strict=False)
    ]

    def labelled(high):
        """The clusters of positions that are above (m, C) from 1; 0 is none."""
        maps = high.reshape(len(high), *lattice)
        return find_clusters(maps, 0.5, adjacency)[0].reshape(high.shape)

    def sizes_of(labels, mask):
        """Count the positions of clusters by their labels (..., C)."""
        ones = np.broadcast_to(np.logical_not(mask), labels.shape)
        return np.bincount(labels.ravel(), ones.ravel())[1:].astype(int)

    high = [(null.observed > heights) | mask for null, heights, mask in tests]
    labels = labelled(np.all(high, axis=0)[np.newaxis]).ravel()
    p = 0.0
    for null, heights, mask in tests:
        count = np.zeros(n_positions + 1, int)
        rows = (null[part] for part in batches(*null.shape))
        for maps in chain([null.observed[np.newaxis]], rows):
            sizes = sizes_of(labelled((maps > heights) | mask), mask)
            count += np.bincount(sizes, minlength=n_positions + 1)
        as_large = np.cumsum(count[::-1])[::-1]  # clusters of each size or more
        sizes = sizes_of(labels, mask)  # 0 where all positions are exempt
        share = as_large[sizes] / max(1, int(as_large[1]))
        p = np.maximum(p, np.where(sizes > 0, share, 0.0))
    if not labels.any():
        return np.ones(n_positions)
    return np.concatenate([[1.0], stats.false_discovery_control(p)])[labels]


def _heights(null, threshold):
    """The heights (C,) above which a score is in a cluster."""
    n_maps = len(null) + 1
    # A product that should be whole may fall short of it by a rounding error.
    if (allowed := int(threshold * n_maps * (1 + 1e-12))) < 1:
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


# ------------------------------------------------------------------------ the methods


@dataclass(frozen=True)
class GroupMethod:
    """How subjects are put together, and what may be asked of it."""

    #: The test: of `Subjects` and of what was asked it makes a `MapTest`.
    test: Callable
    #: What is tested: "min" or "mean" over subjects, one of them from below ("order"),
    #: or one of `STATISTICS`.
    statistic: str
    #: For the methods section, the test of one list of scores, and of two groups.
    words: str
    words_of_two: str = ""
    #: Whether it tests against the subjects' permuted labels, and so no second list.
    by_labels: bool = False
    #: Whether uncorrected p-values come from a distribution.
    parametric: bool = False
    #: Corrections that no other method has.
    corrections: tuple = ()
    #: The only ones it has, the first by default; none: all, "max" by default.
    only: tuple = ()


@dataclass(frozen=True)
class MapTest:
    """A map of C positions, tested: p-values by correction, and the P maxima."""

    statistic: np.ndarray
    p: dict
    #: The most extreme statistic of each permutation, turned as the alternative says.
    null_max: np.ndarray
    observed_max: float
    #: The map that clusters are formed of, and at which height; None if not needed.
    cluster_scores: np.ndarray | None = None
    cluster_height: float = np.nan
    #: At how many positions subjects score so much alike that t has a larger variance.
    n_alike: int = 0
    #: How many tests had to reject.
    n_tests: int = 1
    #: The nulls, one for each test.
    nulls: tuple = ()
    #: Further maps (S, C): "p_of_minimum", the p-values of the subjects, the larger of
    #: two tests; "permuted_means", if scores were tested against these, not chance.
    maps: dict = field(default_factory=dict)

    def fields(self, expand):
        """What results record of it; `expand` makes maps of values (..., C)."""
        formed_of = self.cluster_scores
        return {
            "statistic": expand(self.statistic),
            "p_maps": {name: expand(p) for name, p in self.p.items()},
            "observed_max": self.observed_max,
            "null_max": self.null_max,
            "n_permutations": len(self.null_max),
            "cluster_scores": None if formed_of is None else expand(formed_of),
            "cluster_height": self.cluster_height,
        }

    @classmethod
    def of(
        cls, tests, corrections, places, counted, threshold, alternative, height=None
    ):
        """Test maps at the C positions that are `counted` (V,), by corrections.

        Of each test, which all have to pass, there is the null (P, C), with its
        `observed` scores, and where it does not count (C,), or None.
        """
        adjacency, shape = places.adjacency(counted), places.shape
        if adjacency is not None:
            shape = (np.count_nonzero(counted),)
        nulls = [
            Null(
                null.observed.reshape(shape),
                LazyRows(len(null), shape, null.dtype, null.__getitem__),
                adjacency,
                threshold,
                alternative,
                height=height,
                exempt=None if exempt is None else exempt.reshape(shape),
            )
            for null, exempt in tests
        ]
        first, scores = nulls[0], None
        needed = any(CORRECTIONS[name].standardised for name in corrections)
        # Standardised ones take another reading of the null, which only these make.
        if needed or not first.standardised:
            scores = nearest_to_zero(nulls).ravel()
        return cls(
            first.observed.ravel(),
            {name: np.ravel(correct(nulls, name)) for name in sorted(corrections)},
            reduce(np.maximum, [null.maximum for null in nulls]),
            max(float(null.values.max()) for null in nulls),
            scores,
            first.height,
            n_tests=len(nulls),
            nulls=tuple(nulls),
        )


def recombine(subjects, test):
    """Test the "min" or "mean" over subjects against recombined permutations."""
    n_maps = [1 + len(null) for null in subjects.nulls]
    draws = draw_recombinations(n_maps, test.n_permutations, test.random_state)
    nulls = [
        RecombinedNull(scores, permuted, draws, METHODS[test.method].statistic)
        for scores, permuted, _ in subjects.tests
    ]
    if METHODS[test.method].statistic == "mean":
        return _test(nulls, subjects, test, {"none", "max"})
    # All recombinations give these p-values of the minimum, so that none are drawn.
    p_of_minimum = _p_by_subject([null.observed for null in nulls], subjects)
    tested = _test(nulls, subjects, test, {"max"})
    p = tested.p | {"none": prevalence_p(p_of_minimum, 0.0)}
    # Of drawn recombinations a maximum may by chance have the smaller p-value.
    for name in p.keys() & {"max", "max-step-down"}:
        p[name] = np.maximum(p[name], p["none"])
    return replace(tested, p=p, maps={"p_of_minimum": p_of_minimum})


def take_in_order(subjects, test):
    """Test the i-th lowest subject, with a share of the population as the null."""
    # The same place in the order at every position, whoever is there.
    maps = [np.sort(s, axis=0)[test.order - 1] for s, *_ in subjects.tests]
    p_of_order = _p_by_subject(maps, subjects)
    p = {"none": order_p(p_of_order, test.order, test.hypothesis)}
    of_subjects = {"n_tests": len(maps), "maps": {"p_of_minimum": p_of_order}}
    return MapTest(maps[0], p, np.empty(0), np.nan, **of_subjects)


def _p_by_subject(maps, subjects):
    """The p-values (S, C) by each subject's null; the larger of two tests."""
    by_test = [
        np.where(exempt, 0.0, p_of_scores(scores, nulls))
        for scores, (_, nulls, exempt) in zip(maps, subjects.tests, strict=True)
    ]
    return reduce(np.maximum, by_test)


def exchange(subjects, test):
    """Test the mean of one list, or the difference of two, by signs or by labels."""
    method, n_first, scores = METHODS[test.method], subjects.n_first, subjects.scores
    statistic, first, others = method.statistic, scores[:n_first], scores[n_first:]
    drawn, maps = (test.n_permutations, test.random_state), {}
    if len(others) and not test.paired:
        samples, dof = (first, others), len(scores) - 2
        labels = draw_labels(n_first, len(others), *drawn)
        null = Exchange(scores, labels, statistic)
    else:
        base = others if test.paired else level_to_test(subjects, test.alternative)
        maps = {"permuted_means": base} if np.ndim(base) and not test.paired else {}
        samples, dof = (first - base,), n_first - 1
        null = Exchange(*samples, draw_signs(n_first, *drawn), statistic)
    level, p = level_of_side(test.threshold, test.alternative), {}
    if method.parametric:
        if null.all_alike:
            raise ValueError(
                f"All {len(scores)} subjects have the same scores, which leaves no "
                "variance that t could compare their mean with. Use method='wilcoxon' "
                "or 'sign-flip', whose p-values need none, or 'prevalence' or "
                "'bootstrap'."
            )
        asked = {"statistic": statistic, "alternative": test.alternative}
        p["none"] = parametric_p(*samples, **asked)
    height = (stats.t(dof) if statistic == "t" else stats.norm()).isf(level)
    tested = _test([null], subjects, test, {"none"}, float(height), p)
    return replace(tested, n_alike=int(np.count_nonzero(null.alike)), maps=maps)


def _test(nulls, subjects, test, always, height=None, p=()):
    """The `MapTest` of lazy nulls (P, C), of which some `p` may be known.

    Of two nulls the subjects' exempt positions are exempt from the second test.
    """
    places, counted, p = subjects.first.places, subjects.counted, dict(p)
    names = always | {name for name in test.correction if name not in ADJUSTMENTS}
    exempt = (None, subjects.tests[-1][2])[: len(nulls)]
    if CLUSTER_FDR in names:
        which = test.threshold, places.adjacency(counted), places.shape
        p[CLUSTER_FDR] = cluster_size_p(nulls, *which, exempt=exempt)
    names -= set(p)
    if not names:
        observed = nulls[0].observed
        return MapTest(observed, p, np.empty(0), np.nan, observed, height)
    asked = places, counted, test.threshold, test.alternative, height
    tested = MapTest.of([*zip(nulls, exempt, strict=True)], names, *asked)
    return replace(tested, p=p | tested.p)


def parametric_p(first, second=None, statistic="t", alternative="greater"):
    """The p-values (C,) of values (S, C), against 0 or (S2, C), by distribution."""
    alone = second is None
    values = tidied(first if alone else np.concatenate([first, second]))
    varied = (values if alone else values - values[0]).any(axis=0)
    p, test = np.ones(len(varied)), _one_group if alone else _two_groups
    if varied.any():
        p[varied] = test(values[:, varied], len(first), statistic, alternative)
    return p


def _one_group(values, n, statistic, alternative):
    """The p-values (C,) of n subjects against 0."""
    of_t, flips = statistic == "t", Exchange(values, np.ones((1, n)), statistic)
    p = _tail(flips.observed, stats.t(n - 1) if of_t else stats.norm(), alternative)
    if of_t:
        return p
    tied = _tied(np.abs(values)) | (values == 0).any(axis=0)
    if n <= _EXACT and not tied.all():
        asked = {"alternative": alternative, "method": "exact", "axis": 0}
        p[~tied] = stats.wilcoxon(values[:, ~tied], **asked).pvalue
    if n <= _LISTED and tied.any():
        flips = Exchange(values[:, tied], draw_signs(n, 2**n), statistic)
        null = Null(flips.observed, flips, alternative=alternative, height=1.0)
        p[tied] = count_p(null.exceedances, null.n_permutations)
    return p


def _two_groups(values, n, statistic, alternative):
    """The p-values (C,) of the first n subjects against the others."""
    if statistic == "t":
        t = Exchange(values, np.arange(len(values))[np.newaxis] < n).observed
        return _tail(t, stats.t(len(values) - 2), alternative)
    p = np.empty(values.shape[1])
    approximate = _tied(values) | (min(n, len(values) - n) > _EXACT_GROUP)
    for method, chosen in (("exact", ~approximate), ("asymptotic", approximate)):
        if chosen.any():
            asked = {"alternative": alternative, "method": method, "axis": 0}
            pair = np.split(values[:, chosen], [n])
            p[chosen] = stats.mannwhitneyu(*pair, **asked).pvalue
    return p


def _tail(statistic, distribution, alternative):
    """The probability of a value that is at least as extreme."""
    if alternative == "two-sided":
        return 2 * distribution.sf(np.abs(statistic))
    return distribution.sf(-statistic if alternative == "less" else statistic)


def _tied(values):
    """Which columns hold a value twice."""
    return (np.diff(np.sort(values, axis=0), axis=0) == 0).any(axis=0)


#: The methods by name: adding one is an entry here, and its words in GROUP_TESTS.
METHODS = {
    "prevalence": GroupMethod(
        recombine,
        "min",
        "Prevalence inference [@Allefeld2016] was based on the minimum {metric} across "
        "subjects. The global null hypothesis is that nobody in the population has an "
        "effect.",
        by_labels=True,
    ),
    "i-test": GroupMethod(
        take_in_order,
        "order",
        "The i-test [@Hirose2021] was based on the {metric} of subject number {order} "
        "from the lowest. The null hypothesis is that {share} in the population has an "
        "effect. The test is valid only if order and proportion were fixed before the "
        "scores were seen.",
        by_labels=True,
        only=("holm", "none", "bonferroni", "fdr", "fdr-by"),
    ),
    "bootstrap": GroupMethod(
        recombine,
        "mean",
        "The mean {metric} across subjects was compared ({side}) with means of "
        "label-permuted maps [@Stelzer2013].",
        by_labels=True,
        corrections=(CLUSTER_FDR,),
    ),
    "sign-flip": GroupMethod(
        exchange,
        "t",
        "{what} was tested ({side}) with Student's *t* across subjects, using a null "
        "distribution from sign flips [@Nichols2002].",
        "{what} was tested ({side}) with Student's *t*, using a null distribution from "
        "permutations of subjects between the groups [@Nichols2002].",
    ),
    "t": GroupMethod(
        exchange,
        "t",
        "{what} was tested ({side}) with Student's *t* across subjects.",
        "{what} was tested ({side}) with Student's *t* for two groups of equal "
        "variance.",
        parametric=True,
    ),
    "wilcoxon": GroupMethod(
        exchange,
        "wilcoxon",
        "{what} was tested ({side}) with Wilcoxon's signed-rank test across subjects "
        "[@Wilcoxon1945].",
        "{what} was tested ({side}) with Wilcoxon's rank-sum test [@Wilcoxon1945; "
        "@Mann1947].",
        parametric=True,
    ),
}


#: The names of the methods for type checkers and editors.
MethodName = listed.MethodName | str


@keeps_warnings
def group_inference(
    results: Sequence[ResultOrPath],
    method: MethodName = "prevalence",
    correction: CorrectionNames | None = None,
    *,
    order: int | None = None,
    hypothesis: Literal["global", "majority"] | float | None = None,
    other: Sequence[ResultOrPath] | None = None,
    paired: bool = False,
    labels: Sequence[str] | None = None,
    metric: str | None = None,
    alternative: Alternative | None = None,
    alpha: float = 0.05,
    n_permutations: int | None = None,
    threshold: float | None = None,
    subjects: Sequence[str] | None = None,
    resample: bool = False,
    min_trials: int | None = None,
    random_state: Seed = None,
) -> GroupResult:
    r"""Test the scores of a group of subjects at each position of their maps.

    Only the results of the subjects, or their saved files, are needed, not the data.

    Parameters
    ----------
    results : sequence of results or of paths
        One result per subject, or the file that its ``save`` wrote: of
        `cross_validate`, `decode_epochs`, `generalize_epochs`, `searchlight`,
        `decode_regions` or `regress`, all of one kind and with the same positions.
    method : {"prevalence", "i-test", "bootstrap", "sign-flip", "t", "wilcoxon"}
        How subjects are combined, see Notes. "prevalence", "i-test" and "bootstrap"
        need results with label permutations. Underscores count as hyphens.
    correction : str, sequence of str, or None
        Correction for testing many positions: "none", "max", "max-step-down",
        "bonferroni", "holm", "fdr", "fdr-by", "cluster" (mass), "cluster-size",
        "cluster-depth" (time courses only) or "tfce", described in
        `mvpa_kfda.inference.corrections`. The first is the default of the result. For
        "bootstrap" also "cluster-fdr"; "i-test" supports only "holm", "none",
        "bonferroni", "fdr" and "fdr-by". None is "max", or "holm" for "i-test".
    order : int or None
        For "i-test": rank of the subject whose score is tested, counted from the
        lowest. **Must be chosen before any score is seen.** None is 1.
    hypothesis : {"global", "majority"}, float or None
        For "i-test": the null hypothesis that at most this proportion of the population
        has an effect, chosen beforehand like the order. None is "majority", 0.5. (For
        "prevalence", it is an argument of `GroupResult.pvalues`.)
    other : sequence of results or of paths, or None
        Another group, or with ``paired=True`` the same subjects in another condition:
        the difference is tested then. Not for "prevalence" and "bootstrap".
    paired : bool
        Whether `other` has the same subjects in the same order. Two groups that share
        people, according to their names, are rejected.
    labels : sequence of two str, or None
        Names of the two sides of the comparison, for figures and texts. None is
        ("first", "second").
    metric : str or None
        Name of the metric; None takes the first.
    alternative : {"greater", "less", "two-sided"} or None
        Direction of the test. None is "greater" (than chance), and "two-sided" for
        differences. "prevalence" supports "greater" only.
    alpha : float
        Significance level of the figures. Also that of the prevalence bound.
    n_permutations : int or None
        Number of second-level permutations. If no more than that exist, all of them are
        used, and p-values are exact, with sign flips if scores are distributed
        symmetrically around chance without an effect. None is 10,000. Uncorrected
        p-values of "prevalence", and its claims about proportions of the population,
        need none.
    threshold : float or None
        Cluster-forming p-level, above 0 and below 0.5, for cluster corrections;
        one-sided unless the test is two-sided. None is 0.001 for images and 0.05 for
        everything else.
    subjects : sequence of str or None
        Names of the subjects. None takes them from the files' paths.
    resample : bool
        Resample other grids and masks to the grid of the first subject (nearest
        neighbour), and keep the voxels that all subjects have. Otherwise such results
        are rejected.
    min_trials : int or None
        Leave out subjects with fewer decoded trials in any class (with regression: in
        all), counted after all exclusions; with ``paired=True`` in both conditions. The
        methods text names them. Choose it before scores are seen. None keeps all.
    random_state : int, Generator, RandomState or None
        Seed of the second-level permutations. With None, p differs from call to call;
        set a number, such as 0, and report it.

    Returns
    -------
    group : GroupResult
        With `pvalues`, `plot`, `to_dataframe`, `save` and, for "prevalence", `gamma_0`.

    Raises
    ------
    ValueError
        If the results are incompatible (the message names the subject), lack required
        permutations, belong to a single subject, or include one result twice; if
        "sign-flip", "t" or "wilcoxon" test accuracy, two-class recall or F1 of classes
        that are too unequal (1.5 to 1) and some subject has no permutations; if they
        compare two lists whose permuted labels differ in such a metric; if method="t"
        has scores that do not differ between subjects at any position; or if an
        argument is invalid.
    FileNotFoundError
        If a file does not exist.

    Warns
    -----
    RuntimeWarning
        If there are too few subjects or permutations to reach p <= `alpha`; if the same
        is tested without permutations at ratios of 1.2 or more, see Notes; if permuted
        labels of two lists differ in another metric; or if an area under the ROC curve
        rests on fewer than half of a subject's test sets.

    Notes
    -----
    *prevalence* [1]_: The statistic is the minimum across the N subjects, :math:`m =
    \min_k a_k`. Each second-level permutation combines one randomly chosen map per
    subject, the observed one or that of one of its label permutations. With the
    observed maps as the first of :math:`P_2` such permutations,

    .. math::
        p = \frac{1}{P_2} \sum_{i=1}^{P_2} [m_1 \le m_i], \qquad
        p_c(v) = \frac{1}{P_2} \sum_{i=1}^{P_2} [m_1(v) \le \max_{v'} m_i(v')]

    are the p-values of the global null hypothesis, that nobody has an effect (Eq. 24
    and 26). Over all recombinations, of which the paper draws :math:`10^6`, p is the
    product :math:`\prod_k p_k` of the proportions of the maps of subject k that reach
    m, and is computed from these. If a proportion :math:`\gamma` of the population has
    an effect, it becomes :math:`\prod_k (\gamma + (1 - \gamma) p_k)`, which tests
    whether more than this proportion have one: ``pvalues(hypothesis="majority")``, at
    :math:`\gamma = 0.5`, and `GroupResult.gamma_0`. If permuted scores have the same
    distribution in all subjects, this is Eq. 19. At many positions these p-values are
    corrected with Holm's method, and the bound with Bonferroni's. The correction of the
    paper (Eq. 21) controls the error at positions where nobody has an effect, but not
    where a few have one, see
    :meth:`GroupResult.pvalues`.

    *i-test* [4]_: The statistic is the i-th lowest score, :math:`a`, with i given by
    `order`, so that i - 1 subjects without an effect (asleep, poor recording) do not
    determine the result. A proportion :math:`p_{0n}(a) = (1 + \#\{\ge a\}) / (1 + P_n)`
    of the :math:`P_n` permuted scores of subject n reaches a. Under the null hypothesis
    that at most a proportion :math:`\gamma_0` of the population has an effect, the
    subject's score reaches a with a probability of at most :math:`\gamma_0 + (1 -
    \gamma_0) p_{0n}(a)`. p is the probability that at most i - 1 subjects are below a,
    from the sum of independent, unequal Bernoulli variables (Poisson-binomial),
    computed exactly and without second-level permutations. With ``order=1`` this is
    "prevalence" with ``pvalues("none", hypothesis=...)``. Multiple positions are
    corrected with Holm's method. Order and proportion must be chosen **before scores
    are seen**: trying several orders and reporting the one that worked inflates the
    error rate. An order that cannot reach `alpha` with the given number of subjects
    raises an error: for the majority, the order can be at most 3 with 12 subjects and
    at most 6 with 20. A significant majority does not show which subjects it consists
    of, nor that all of them have an effect.

    *bootstrap* [2]_: The statistic is the mean across subjects, and second-level
    permutations are drawn in the same way. ``correction="cluster-fdr"`` is that of the
    paper: each voxel has its own threshold, the score reached by a proportion
    `threshold` of its permuted means; a cluster is compared with the sizes of all
    clusters of all permuted maps, and p-values control the false discovery rate over
    clusters. In contrast to the paper, the observed maps are among those drawn from,
    which keeps the test exact with few label permutations.

    *sign-flip*: Student's t across subjects of score minus chance, with a null
    distribution from random sign flips. It is exact if all flips are used and scores
    are distributed symmetrically around chance without an effect. All corrections share
    one set of flips.
    Clusters are formed where t exceeds the quantile of Student's distribution given by
    `threshold`, and the mass of a cluster is the sum of t over its positions, as in
    :func:`mne.stats.permutation_cluster_1samp_test`. It needs neither label
    permutations nor normally distributed scores, but, like the next two, it tests the
    mean. A few subjects may have equal scores by chance, since scores from few trials
    are discrete. To keep such positions from having the largest t, variances across
    subjects are limited to at least a thousandth of the largest one over positions, in
    the observed map and in each flipped one [3]_; ``parameters["n_alike"]`` is the
    number of positions concerned.

    *t*, *wilcoxon*: Student's t and Wilcoxon's signed-rank test across subjects, with
    the p-values of their theoretical distributions; if a correction needs a null
    distribution, it comes from random sign flips. Wilcoxon's p-values are exact where
    SciPy's are, see
    :func:`scipy.stats.wilcoxon`: for up to 50 subjects without ties and zeros, and up
    to 13 with them. Otherwise they are based on the normal distribution. **Limits of
    these tests and of "sign-flip"**: true accuracies are never below chance, so their
    mean is above chance if a single person in the population has an effect. A
    significant t-test on accuracies shows that some people have an effect, not that the
    effect is typical of the population [1]_. And these tests rely on the score that is
    expected without an effect. That is chance where classes are equal. Where they are
    not, accuracy exceeds chance without any effect, because classifiers favour the
    larger class: against chance, t has p <= 0.05 in 8 % of groups of 24 subjects with
    noise (200 trials, 30 channels) if the largest class is 1.22 times the smallest, in
    9 % at 1.33 and in 19 % at 1.5; with 40 trials, in 99 % at 3. From 1.2 on, each
    subject is therefore compared with the mean of its permuted labels, which is its
    expected score without an effect; likewise, with any metric, if permuted labels
    score beyond chance in the direction of the test, by more than sampling allows.
    ``permuted_means`` holds these means. Differences between lists cancel this if
    class sizes are the same in both; lists whose permuted labels differ are rejected.

    With `other`, the last three compare two lists. Paired: the differences are tested
    as above; flipping a sign is equivalent to swapping the two conditions of a subject.
    Two groups: Student's t with equal variances, or Wilcoxon's rank sum (exact without
    ties, if one group has at most 8 subjects); for the null distribution, group
    membership is permuted. With "sign-flip" all p-values come from these permutations,
    with "t" and "wilcoxon" uncorrected ones come from the theoretical distribution.

    For temporal generalization within one data set, with two hypotheses to reject (see
    :meth:`GeneralizationResult.pvalues`), "prevalence" and "bootstrap" report the
    larger p-value. Clusters, including those of "cluster-fdr", are areas in which both
    tests exceed the threshold, and are compared in both.

    References
    ----------
    .. [1] Allefeld, C., Goergen, K., & Haynes, J.-D. (2016). Valid population
       inference for information-based imaging: From the second-level t-test to
       prevalence inference. NeuroImage, 141, 378-392.
    .. [2] Stelzer, J., Chen, Y., & Turner, R. (2013). Statistical inference and
       multiple testing correction in classification-based multi-voxel pattern
       analysis (MVPA): Random permutations and cluster size control. NeuroImage, 65,
       69-82.
    .. [3] Ridgway, G. R., Litvak, V., Flandin, G., Friston, K. J., & Penny, W. D.
       (2012). The problem of low variance voxels in statistical parametric mapping; a
       new hat avoids a 'haircut'. NeuroImage, 59(3), 2131-2141.
    .. [4] Hirose, S. (2021). Valid and powerful second-level group statistics for
       decoding accuracy: Information prevalence inference using the i-th order
       statistic (i-test). NeuroImage, 242, 118456.

    Examples
    --------
    >>> import numpy as np
    >>> from mvpa_kfda import cross_validate, group_inference
    >>> rng = np.random.default_rng(0)
    >>> y = rng.permutation(["face", "house"] * 20)
    >>> results = [
    ...     cross_validate(
    ...         rng.normal(size=(40, 5)) + (y == "house")[:, None],
    ...         y,
    ...         n_permutations=50,
    ...         random_state=0,
    ...     )
    ...     for subject in range(6)
    ... ]
    >>> group = group_inference(results, n_permutations=1000, random_state=0)
    >>> group.pvalues()
    0.000999000999000999
    >>> group_inference(results, "t", "none").pvalues() < 0.001
    True
    """
    name = method.replace("_", "-") if isinstance(method, str) else method
    if not isinstance(name, str) or name not in METHODS:
        check_option("method", method, METHODS)
    method = METHODS[name]
    corrections = check_corrections(correction, name, method.corrections, method.only)
    if method.statistic == "order":
        hypothesis = share_of("majority" if hypothesis is None else hypothesis)
    if alternative is None:
        alternative = "greater" if other is None else "two-sided"
    else:
        _check_alternative(alternative, method, corrections)
    if other is not None and method.by_labels:
        raise ValueError(
            f"method={name!r} tests one group against permuted labels and takes no "
            "other group. For a comparison use method='sign-flip', 't' or 'wilcoxon'."
        )
    resample = check_flag("resample", resample)
    alpha = check_share("alpha", alpha, such_as=", such as 0.05")
    labels = check_list_names(labels, other)
    n_permutations = N_PERMUTATIONS if n_permutations is None else n_permutations
    n_permutations = check_count("n_permutations", n_permutations, minimum=1)
    entries, n_first, names = join_lists(results, other, subjects, paired, labels)
    left_out = {}
    if min_trials is not None:
        asked = entries, n_first, names, min_trials, paired
        entries, n_first, names, left_out = leave_out_small(*asked)
    if method.statistic == "order":
        order = _check_order(order, hypothesis, n_first, alpha)
    elif order is not None or hypothesis is not None:
        given = f"hypothesis={hypothesis!r}" if order is None else f"order={order!r}"
        raise ValueError(f"{given} is for method='i-test' only; leave it out.")
    if threshold is not None:
        dof = n_first - 1 if paired or other is None else len(names) - 2
        check_threshold(threshold, dof if method.statistic == "t" else None)
    asked = {"need_nulls": method.by_labels, "resample": resample}
    group = Subjects(entries, n_first, names, metric=metric, **asked)
    first, compared = group.first, other is not None
    if threshold is None:
        threshold = _LEVEL if first.places.geometry is None else _LEVEL_OF_IMAGES
    #: What was asked, as results record it. Of the i-test there is the subject from
    #: below, and the share of the null hypothesis.
    test = SimpleNamespace(
        method=name,
        correction=corrections,
        order=order,
        hypothesis=hypothesis,
        metric=first.metric,
        alternative=alternative,
        alpha=alpha,
        n_permutations=n_permutations,
        threshold=float(threshold),
        random_state=draw_seed(random_state),
        paired=bool(paired),
        resample=resample,
        min_trials=min_trials,
        labels=labels,
    )
    tested = method.test(group, test)

    parameters = {
        "n_permutations": n_permutations,
        "threshold": test.threshold,
        "random_state": test.random_state,
        "first_level_permutations": [len(null) for null in group.nulls],
        "scoring": first.scoring,
        "first_level_smallest_p": [one.smallest_p for one in group.members],
        "first_level": group.first_level,
        "first_level_differences": group.differences,
        "n_alike": tested.n_alike,
        "n_tests": tested.n_tests,
    }
    if method.statistic == "order":
        parameters |= {"order": order, "hypothesis": hypothesis}
    maps = tested.maps
    if method.by_labels:
        of_each, anywhere = test_each_subject(group, alpha)
        maps = maps | of_each
        parameters["anywhere"] = {name: list(of) for name, of in anywhere.items()}
    if off := off_chance(group, "permuted_means" in maps):
        parameters["permuted_mean"] = off
    sums = [one.checksum for one in group.members]
    inputs = {"function": "group_inference", "files": files_of(entries)}
    inputs |= {"results": sums[:n_first], **left_out}
    options = vars(test) | {"correction": list(corrections), "labels": None}
    scores, of_second = group.expand(group.scores), {}
    if compared:
        inputs["other"], options["labels"] = sums[n_first:], list(labels)
        of_second["other_subjects"] = np.array(group.names[n_first:])
        of_second["other_scores"] = scores[n_first:]
    else:
        of_second = {"mean_matrices": group.matrices, "classes": group.classes}
    # Second-level permutations are many more than a bound of many positions needs, and
    # to rank all of them may take longer than all else. Which rows are taken depends on
    # the number of positions alone, and so leaves them exchangeable.
    n = max(_LEAST_RANKED, _RANKED // max(1, tested.statistic.size))
    ranked = [calibrate(null.first(n)) for null in tested.nulls]
    kept = "method", "correction", "metric", "alternative", "alpha", "paired", "labels"
    result = GroupResult(
        **{name: vars(test)[name] for name in kept},
        places=first.places,
        chance=0.0 if compared else float(first.chance),
        score_chance=float(first.chance),
        **tested.fields(group.expand),
        subjects=np.array(group.names[:n_first]),
        subject_scores=scores[:n_first],
        **of_second,
        parameters=parameters,
        subject_warnings=group.warnings,
        ranks=[group.expand(each.ranks, 0) for each in ranked],
        rank_statistics=[each.statistics for each in ranked],
        versions=versions(),
        **{name: group.expand(values) for name, values in maps.items()},
        options=options,
        inputs=inputs,
    )
    _warn_if_out_of_reach(result)
    return result


def check_threshold(threshold, dof=None):
    """A p-level that forms clusters of t with `dof`, or of normal deviates."""
    real, hint = isinstance(threshold, Real) and not isinstance(threshold, bool), ""
    if real and 0 < threshold < 0.5:
        return float(threshold)
    if real and 1 < threshold < 1000:
        name, null = ("z", stats.norm) if dof is None else (f"t({dof})", stats.t(dof))
        what = f"{name} = {threshold:g} is a p of {null.sf(threshold):.2g}, one-sided"
        hint = f" It is no t or z: {what}."
    raise ValueError(
        f"Invalid value for 'threshold': {threshold!r}. Allowed: a p-level above 0 and "
        f"below 0.5, such as 0.001 or 0.05.{hint}"
    )


def check_corrections(correction, method, also=(), only=()):
    """The names of the corrections, each once; `also` are the method's own."""
    if correction is None:
        correction = only[0] if only else "max"
    several = isinstance(correction, list | tuple | set | frozenset)
    asked, names = [*correction] if several else [correction], {}
    if not asked:
        raise ValueError("correction is an empty list; pass 'max' or another one.")
    for given in asked:  # large letters count as small ones, underscores as hyphens
        text = isinstance(given, str)
        name = given.lower().replace("_", "-") if text else given
        if text and name == CLUSTER_FDR and name not in also:
            raise ValueError(
                f"The correction {CLUSTER_FDR!r} is that of method='bootstrap'; for "
                f"method={method!r} use 'cluster-size' or 'cluster'."
            )
        try:
            name = name if text and name in also else check_correction(name)
        except ValueError:
            raise ValueError(
                f"Invalid value for 'correction': {given!r}. Allowed: "
                f"{quoted((*CORRECTIONS, *also))}. 'max' controls the family-wise "
                "error."
            ) from None
        names[name] = None
    for name in names:
        if only and name not in only:
            raise ValueError(
                f"method={method!r} has no correction {name!r}: it would correct where "
                "nobody has an effect, and not where a few have one. Use "
                f"{only[0]!r}, or one of {quoted(only[1:])}."
            )
    return tuple(names)


def warn_if_above(alpha, least, correction, drawn, advice):
    """Warn if the least p-value of a correction is above alpha; tell whether it is."""
    if least > alpha:
        warn(
            f"With {drawn} the smallest p-value attainable with correction "
            f"{correction!r} is {least:.3g}, above alpha={alpha:g}: nothing can be "
            f"significant. {advice}"
        )
    return least > alpha


def _check_alternative(alternative, method, corrections):
    """Refuse an alternative that a method, or a correction, does not have."""
    check_option("alternative", alternative, ALTERNATIVES)
    if CLUSTER_FDR in corrections and alternative != "greater":
        raise ValueError(
            f"The correction {CLUSTER_FDR!r} finds clusters of high scores only; use "
            f"alternative='greater', or 'cluster-size' for {alternative!r}."
        )
    if method.statistic in ("min", "order") and alternative != "greater":
        raise ValueError(
            "The lowest subjects can only be tested for being above chance; methods "
            "'prevalence' and 'i-test' have alternative='greater', got "
            f"{alternative!r}."
        )


def _check_order(order, share, n_subjects, alpha):
    """The order of an i-test; refuse one that cannot reach alpha."""
    order = check_count("order", 1 if order is None else order, minimum=1)
    if (largest := largest_order(n_subjects, share, alpha)) < 1:
        raise ValueError(
            f"With {n_subjects} subjects no order of the i-test can reject a "
            f"proportion of {share:g} at alpha={alpha:g}. Use more subjects or a "
            "smaller proportion."
        )
    if order > largest:
        raise ValueError(
            f"With {n_subjects} subjects order={order} cannot reject a proportion of "
            f"{share:g} at alpha={alpha:g}, whatever the scores. The largest order "
            f"possible is {largest}; choose it before scores are seen."
        )
    return order


# -------------------------------------------------------------------- what can come out


def _warn_if_out_of_reach(result):
    """Warn if no p-value can be as small as alpha, whatever the scores."""
    n, alpha = result.n_permutations, result.alpha
    drawn, told = f"{result.n_subjects} subjects", False
    drawn += f" and {counted(n, 'second-level permutation')}" if n else ""
    for name in result.correction:
        advice = "Use a larger alpha."
        if alpha > _LEAST_ALPHA:
            advice = f"Use n_permutations={10 * int(np.ceil(1 / alpha))} or more."
        if n < result.parameters["n_permutations"]:
            advice = "These are all there are; more subjects have more."
        if METHODS[result.method].parametric and name in ("none", *ADJUSTMENTS):
            advice = "More subjects make it smaller."
        if result.order is not None:
            lower = ", and so does a lower order" if result.order > 1 else ""
            advice = f"More subjects make it smaller{lower}."
        told |= warn_if_above(alpha, _smallest_p(result, name), name, drawn, advice)
    if result.method != "prevalence" or told:
        return
    n_tested, at, advice = result.n_positions_tested(), "", "More subjects can show it"
    least = prevalence_p(result.smallest_p_by_subject, NULLS["majority"])
    if n_tested * least > alpha:
        if n_tested > 1:
            at = f" at {counted(n_tested, 'position', ',')} at once"
            advice += ", and so can fewer positions, chosen before scores are seen"
        bound = f"the prevalence bound cannot exceed {result.largest_gamma_0:.2f}"
        if np.isnan(result.largest_gamma_0):
            bound = "there can be no prevalence bound"
        warn(
            f"With {result.n_subjects} subjects {bound}{at}, so an effect in the "
            f"majority cannot be shown at alpha={alpha:g}. {advice}."
        )


def _smallest_p(result, correction):
    """The smallest p-value that a correction can give; 0 if that is open."""
    if correction == CLUSTER_FDR:
        return 0.0
    method, two_sided = METHODS[result.method], result.alternative == "two-sided"
    n_counted = int(np.count_nonzero(result.counted))
    two_groups = result.other_scores is not None and not result.paired
    n, n_others = result.n_subjects, len(result.other_subjects) if two_groups else 0
    n_exchanges = math.comb(n + n_others, n) if n_others else 2**n
    if method.parametric and correction in ("none", *ADJUSTMENTS):
        if method.statistic == "t":
            return 0.0
        least = max((2 if two_sided else 1) / n_exchanges, np.finfo(float).tiny)
        if n_others:
            # With ties the rank sum is tested by an approximation, which goes lowest
            # where all subjects of a group are equal.
            asked = "wilcoxon", "two-sided" if two_sided else "greater"
            p = parametric_p(np.ones((n, 1)), np.zeros((n_others, 1)), *asked)
            least = min(least, float(p[0]))
        return smallest_p_value(1 / least - 1, n_counted, correction)
    least = result.smallest_p(correction, n_counted)
    # Of all sign flips, and of all exchanges between equal groups, two are equally far
    # out: the observed one and its mirror image.
    mirrored = not method.by_labels and n_others in (0, n)
    exact = result.n_permutations < result.parameters["n_permutations"]
    return min(1.0, 2 * least) if mirrored and exact and two_sided else least
