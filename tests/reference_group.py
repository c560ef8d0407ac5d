"""The test of a group, by NumPy, SciPy and loops over permutations.

Nothing here is shared with the code that makes the results of groups. S subjects have
`scores` (S, V) at V positions, and subject s has `nulls[s]` (P_s, V) under permuted
labels. A second-level permutation makes one map of them all. Rows of a null (P, V) are
the permutations; the observed map counts as one more.

Numbers that differ by rounding only are ties, and a tie counts as "reaches". `near`
says up to which difference, as a share of the largest number at that position.
"""

import math
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import combinations, product

import numpy as np
from scipy import stats
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from mvpa_kfda.data.volumes import nearest_voxels, take_voxels

#: Shares for double precision, and for single precision.
NEAR, NEAR_OF_SINGLE = 1e-10, 4 * float(np.finfo(np.float32).eps)
#: No variance over subjects counts as less than this part of the largest of the map.
LEAST_VARIANCE = 1e-3
#: Nor as less than this part of the mean square.
LEAST_REST = 1e-5

# ------------------------------------------------------------ second-level permutations


def recombinations(n_maps, n_permutations, seed):
    """Draw which map of each subject is taken, (P, S); 0 is the observed one."""
    n_others = math.prod(int(n) for n in n_maps) - 1
    if n_others <= n_permutations:  # all there are
        return np.array(list(product(*map(range, n_maps))))[1:]
    rng = np.random.default_rng(seed)
    return rng.integers(0, n_maps, (n_permutations, len(n_maps)), np.int32)


def sign_flips(n_subjects, n_permutations, seed):
    """Draw the signs of all subjects, (P, S)."""
    observed = np.ones(n_subjects, int)
    if 2**n_subjects - 1 <= n_permutations:  # all there are
        numbers = np.arange(1, 2**n_subjects)[:, np.newaxis]
        return 1 - 2 * (numbers >> np.arange(n_subjects) & 1)
    rng, coin = np.random.default_rng(seed), np.array([1, -1])
    return _distinct(lambda: rng.choice(coin, n_subjects), n_permutations, observed)


def exchanges(n_first, n_second, n_permutations, seed):
    """Draw who is in the first of two groups, (P, S)."""
    n = n_first + n_second
    observed = np.arange(n) < n_first
    if math.comb(n, n_first) - 1 <= n_permutations:  # all there are
        others = list(combinations(range(n), n_first))[1:]
        return np.array([np.isin(np.arange(n), each) for each in others])
    rng, one = np.random.default_rng(seed), observed[np.newaxis]
    return _distinct(lambda: rng.permuted(one, axis=1)[0], n_permutations, observed)


def _distinct(draw, n_rows, observed):
    """Draw rows until so many differ from each other and from the observed one."""
    seen, rows = {tuple(observed)}, []
    while len(rows) < n_rows:
        row = draw()
        if tuple(row) not in seen:
            seen.add(tuple(row))
            rows.append(row)
    return np.array(rows)


# ------------------------------------------------------------- maps of the permutations


@dataclass
class Recombined:
    """The smallest or the mean score over subjects, of one map of each."""

    scores: np.ndarray
    nulls: list
    draws: np.ndarray
    of_subjects: object  #: np.min or np.mean

    def maps(self):
        """Return the maps (P, V) of the permutations."""
        pairs = zip(self.scores, self.nulls, self.draws.T, strict=True)
        parts = [np.vstack([scores, null])[draws] for scores, null, draws in pairs]
        return self.of_subjects(np.array(parts, float), axis=0)

    def observed(self):
        """Return the map (V,) of the observed scores."""
        return self.of_subjects(self.scores, axis=0)


@dataclass
class Flipped:
    """The mean of differences (S, V) whose signs are flipped, as t or by ranks."""

    values: np.ndarray
    signs: np.ndarray
    by_ranks: bool

    def maps(self):
        """Return the maps (P, V) of the permutations."""
        return self._statistic(self.signs)

    def observed(self):
        """Return the map (V,) of the differences as they are."""
        return self._statistic(np.ones((1, len(self.values))))[0]

    def _statistic(self, signs):
        """Return t, or the standardised sum of signed ranks, of rows of signs."""
        n, square = len(self.values), np.mean(self.values**2, axis=0)
        mean = signs @ self.values / n
        if self.by_ranks:
            return _divided(mean * np.sqrt(n), np.sqrt(square))
        variance = _not_less(square - mean**2, square)
        return _divided(mean * np.sqrt(n - 1), np.sqrt(variance))


@dataclass
class Exchanged:
    """The difference between two groups in values (S, V), as t or by ranks."""

    values: np.ndarray
    labels: np.ndarray
    n_first: int
    by_ranks: bool

    def maps(self):
        """Return the maps (P, V) of the permutations."""
        return self._statistic(self.labels)

    def observed(self):
        """Return the map (V,) of the groups as they are."""
        labels = np.arange(len(self.values)) < self.n_first
        return self._statistic(labels[np.newaxis])[0]

    def _statistic(self, labels):
        """Return t of equal variances, or the standardised sum of ranks, of rows."""
        n, n_first = len(self.values), self.n_first
        values = self.values - self.values.mean(axis=0)
        values[:, np.ptp(self.values, axis=0) == 0] = 0.0
        square, n_second = np.sum(values**2, axis=0), n - n_first
        total = labels @ values  # of the first group; the other one has its negative
        if self.by_ranks:
            spread = n_first * n_second / n * square / (n - 1)
            return _divided(total, np.sqrt(spread))
        difference = total / n_first + total / n_second
        within = square - n_first * n_second / n * difference**2
        variance = _not_less(within, square) / (n - 2)
        return _divided(difference, np.sqrt(variance * (1 / n_first + 1 / n_second)))


def _not_less(variance, square):
    """Return variances (m, V) that are not too small to be divided by."""
    largest = variance.max(axis=1, keepdims=True)
    return np.maximum(
        np.maximum(variance, LEAST_VARIANCE * largest), LEAST_REST * square
    )


def _divided(x, y):
    """Return x / y, 0 where y is 0."""
    return np.divide(
        x, y, out=np.zeros(np.shape(x)), where=np.broadcast_to(y > 0, x.shape)
    )


def whole_numbers(values):
    """Return values as whole numbers up to 10^12, of which equal ones are equal."""
    largest = np.abs(values).max(initial=0)
    return np.rint(values / largest * 1e12) if largest else values


def signed_ranks(values):
    """Return the signed ranks (S, V) of the sizes of what is not 0."""
    ranks = stats.rankdata(np.abs(values), axis=0) - (values == 0).sum(axis=0)
    return np.sign(values) * ranks


# --------------------------------------------------------------------- uncorrected p


def p_of_subjects(nulls, tested, near):
    """Return the share (S, V) of each subject's own maps that reach a map (V,)."""
    return np.array([p_uncorrected(tested, null, near) for null in nulls])


def p_uncorrected(observed, null, near, size=None):
    """Return p (V,) of observed numbers against the null (P, V) of each position."""
    if size is None:
        size = np.maximum(np.abs(observed), np.abs(null).max(axis=0))
    return (1 + np.sum(null >= observed - near * size, axis=0)) / (1 + len(null))


def p_of_order(p, order, share):
    """Return p (V,) that no more than order - 1 of the subjects (S, V) are below.

    Where a `share` of the population reaches the score for certain, and all others
    with their own p.
    """
    found = np.empty(p.shape[1])
    for v, each in enumerate((share + (1 - share) * p).T):
        below = np.ones(1)  # the probabilities of 0, 1, ... subjects below
        for reach in each:
            below = np.convolve(below, [reach, 1 - reach])
        found[v] = below[:order].sum()
    return np.clip(found, np.finfo(float).tiny, 1)


def p_of_distribution(first, second, statistic, by_ranks, alternative):
    """Return p of one position by theory: values (S,), and those of another group.

    The `statistic` is that of the position, on which variances of others may bear.
    """
    values = first if second is None else np.concatenate([first, second])
    if not np.ptp(values) and (second is not None or values[0] == 0):
        return 1.0
    dof = len(values) - (1 if second is None else 2)
    theory = stats.norm() if by_ranks else stats.t(dof)
    if by_ranks and second is not None:
        tied = len(set(values)) < len(values)
        exact = not tied and min(len(first), len(second)) <= 8
        how = {"alternative": alternative, "method": "exact" if exact else "asymptotic"}
        return stats.mannwhitneyu(first, second, **how).pvalue
    if by_ranks:
        tied = len({*np.abs(values)}) < len(values) or (values == 0).any()
        if not tied and len(values) <= 50:
            return stats.wilcoxon(
                values, alternative=alternative, method="exact"
            ).pvalue
        if tied and len(values) <= 13:  # all signs, one by one
            ranks = signed_ranks(values)
            sums = np.array(list(product([1, -1], repeat=len(values)))) @ ranks
            reached = {
                "greater": sums >= ranks.sum() - 1e-9,
                "less": sums <= ranks.sum() + 1e-9,
                "two-sided": np.abs(sums) >= abs(ranks.sum()) - 1e-9,
            }
            return reached[alternative].mean()
    if alternative == "two-sided":
        return 2 * theory.sf(abs(statistic))
    return theory.sf(-statistic if alternative == "less" else statistic)


# ----------------------------------------------------------- each subject's own test


def attained_size(scores, null, alpha, near):
    """Return the share (V,) of a subject's maps that are significant at `alpha`.

    If a map of permuted labels were the observed one.
    """
    rows = np.vstack([scores, null])
    bounds = rows - near * np.abs(rows).max(axis=0)
    reached = np.empty(rows.shape)  # how many rows reach each row, itself among them
    for v, column in enumerate(np.sort(rows, axis=0).T):
        reached[:, v] = len(rows) - np.searchsorted(column, bounds[:, v])
    return np.mean(reached <= alpha * len(rows) * (1 + 1e-12), axis=0)


# ---------------------------------------------------------------------- corrections


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


def bonferroni(p):
    """Return p-values (V,) times their number."""
    return np.minimum(1, len(p) * p)


def holm(p):
    """Return p-values times the number of those that are no smaller, in steps."""
    times = np.array([each * np.sum(p >= each) for each in p])
    return np.array([min(1, times[p <= each].max()) for each in p])


def false_discovery(p, factor=1):
    """Return p-values of false discovery rates, by how many are no larger."""
    ranked = np.array([factor * len(p) * each / np.sum(p <= each) for each in p])
    return np.array([min(1, ranked[p >= each].min()) for each in p])


def false_discovery_under_any_dependence(p):
    """Return those of Benjamini and Yekutieli."""
    return false_discovery(p, sum(1 / k for k in range(1, len(p) + 1)))


#: Corrections of uncorrected p-values (V,), which results work out when asked.
ADJUSTED = {
    "bonferroni": bonferroni,
    "holm": holm,
    "fdr": false_discovery,
    "fdr-by": false_discovery_under_any_dependence,
}


# ------------------------------------------------------------ nulls of arrays, any map


def edges_of(shape, adjacency=None):
    """Return pairs (2, n) of neighbours, by a matrix or on a lattice."""
    if adjacency is not None:
        found = coo_array(adjacency)
        return np.array([found.row, found.col])[:, found.row < found.col]
    numbers, pairs = np.arange(math.prod(shape)).reshape(shape), [np.empty((2, 0), int)]
    for axis in range(numbers.ndim):
        along = np.moveaxis(numbers, axis, 0)
        pairs.append(np.stack([along[:-1].ravel(), along[1:].ravel()]))
    return np.concatenate(pairs, axis=1)


def null_of(rows, alternative="greater", level=0.05, height=None, **more):
    """Return the `Null` of rows (P + 1, positions...), the observed one first.

    `more` may have the `adjacency` of positions, and which of them are `exempt`.
    """
    shape, exempt = np.shape(rows)[1:], more.pop("exempt", None)
    exempt = np.zeros(shape, bool) if exempt is None else exempt
    flat = np.reshape(rows, (len(rows), -1)).astype(float)
    return Null(
        observed=flat[0],
        null=flat[1:],
        alternative=alternative,
        near=NEAR_OF_SINGLE if rows.dtype == np.float32 else NEAR,
        standard=height is not None,
        level=level,
        height=height,
        edges=edges_of(shape, **more),
        exempt=np.ravel(exempt),
    )


def p_values(nulls, name):
    """Return the p-values (V,) of nulls that all have to be rejected."""
    if name in ADJUSTED:
        return ADJUSTED[name](uncorrected(nulls))
    return CORRECTIONS[name](nulls)


# ------------------------------------------------------------------------ the group


#: The methods that compare with permuted labels, and with theory.
BY_LABELS, BY_THEORY = ("prevalence", "i-test", "bootstrap"), ("t", "wilcoxon")


@dataclass
class Anew:
    """What a group's file should say, at the positions (C,) that count."""

    options: dict
    places: object
    #: `Member` of the first list, then of the second.
    members: list
    n_first: int
    #: Whether scores are compared with those of permuted labels in place of chance.
    against_permuted: bool = False

    # ----------------------------------------------------------- what there is to test

    @cached_property
    def counted(self):
        """Where every subject has a score (V,)."""
        return ~np.isnan([each.scores for each in self.members]).any(axis=0)

    @cached_property
    def scores(self):
        """The scores of the subjects (S, C)."""
        return np.array([each.scores[self.counted] for each in self.members])

    @cached_property
    def tested(self):
        """The scores of the subjects (S, C) in each test by permuted labels."""
        return [
            np.array([each.tested[k][self.counted] for each in self.members])
            for k in range(self.n_tests)
        ]

    @cached_property
    def nulls(self):
        """The scores under permuted labels, of each test and subject (P, C)."""
        if self.n_tests == 0:
            raise ValueError("a subject's result has no scores under permuted labels")
        return [
            [each.nulls[k][:, self.counted] for each in self.members]
            for k in range(self.n_tests)
        ]

    @property
    def n_tests(self):
        """How many nulls the subjects have, all of which are to be rejected."""
        return min(len(each.nulls) for each in self.members)

    @cached_property
    def exempt(self):
        """Where each test does not count, (C,) each."""
        first = np.zeros(self.counted.sum(), bool)
        return [first, self.members[0].exempt[self.counted]]

    @cached_property
    def near(self):
        """Up to which share of the largest number others are ties."""
        return NEAR_OF_SINGLE if self._is_single else NEAR

    @property
    def _is_single(self):
        """Whether scores are in single precision."""
        if self.options["method"] not in BY_LABELS:
            return False
        return any(null.dtype == np.float32 for each in self.nulls for null in each)

    @cached_property
    def _values(self):
        """What is compared with 0, or between two groups, as whole numbers (S, C)."""
        values, n = self.scores, self.n_first
        if self.options["paired"]:
            values = values[:n] - values[n:]
        elif self.has_one_list:
            against = self.permuted_means if self.against_permuted else None
            values = values - (self.members[0].chance if against is None else against)
        return whole_numbers(values)

    @cached_property
    def permuted_means(self):
        """The mean scores of the subjects under permuted labels (S, C)."""
        if any(each.means is None for each in self.members):
            raise ValueError("a subject's result has no scores under permuted labels")
        return np.array([each.means[self.counted] for each in self.members])

    @property
    def has_one_list(self):
        """Whether there are no other subjects, and no other condition."""
        return self.n_first == len(self.members)

    @property
    def _has_two_groups(self):
        return not self.has_one_list and not self.options["paired"]

    # ----------------------------------------------------------------- the permutations

    @cached_property
    def draws(self):
        """The second-level permutations, (P, S)."""
        drawn = self.options["n_permutations"], self.options["random_state"]
        n = len(self.members)
        if self.options["method"] in BY_LABELS:
            n_maps = [1 + len(null) for null in self.nulls[0]]
            return recombinations(n_maps, *drawn)
        if self._has_two_groups:
            return exchanges(self.n_first, n - self.n_first, *drawn)
        return sign_flips(self.n_first, *drawn)

    @cached_property
    def tests(self):
        """What makes maps of permutations, one for each test that has to reject."""
        method, draws = self.options["method"], self.draws
        by_ranks = method == "wilcoxon"
        if method in BY_LABELS:
            over = np.min if method == "prevalence" else np.mean
            kind = np.float32 if self._is_single else float
            return [
                Recombined(scores.astype(kind), each, draws, over)
                for scores, each in zip(self.tested, self.nulls, strict=True)
            ]
        if self._has_two_groups:
            values = self._values
            values = stats.rankdata(values, axis=0) if by_ranks else values
            return [Exchanged(values, draws, self.n_first, by_ranks)]
        values = signed_ranks(self._values) if by_ranks else self._values
        return [Flipped(values, draws, by_ranks)]

    @property
    def is_drawn(self):
        """Whether any p-value takes second-level permutations."""
        method = self.options["method"]
        if method in BY_THEORY:
            return bool(self.corrections - {"none"})
        return method != "i-test"

    @cached_property
    def corrections(self):
        """The p-values that the file should have."""
        always = {"prevalence": {"none", "max"}, "bootstrap": {"none", "max"}}
        asked = {each for each in self.options["correction"] if each not in ADJUSTED}
        return asked | always.get(self.options["method"], {"none"})

    # ---------------------------------------------------------------------- the numbers

    @cached_property
    def statistic(self):
        """The observed statistic (C,)."""
        if self.options["method"] == "i-test":
            return self._in_order(self.scores)
        return self.tests[0].observed().astype(float)

    def _in_order(self, scores):
        """Return the scores (C,) of the subject that is as low as the i-test says."""
        scores = np.sort(scores, axis=0)[self.options["order"] - 1]
        return scores.astype(np.float32).astype(float) if self._is_single else scores

    @cached_property
    def p_of_minimum(self):
        """Each subject's own p (S, C) of the statistic; the larger one of two tests."""
        if self.options["method"] == "i-test":
            observed = map(self._in_order, self.tested)
        else:
            observed = [test.observed().astype(float) for test in self.tests]
        tests = zip(self.nulls, observed, self.exempt, strict=False)
        return np.max(
            [
                np.where(exempt, 0.0, p_of_subjects(nulls, each, self.near))
                for nulls, each, exempt in tests
            ],
            axis=0,
        )

    def p_of_position(self, i):
        """Return the uncorrected p of one position, but by permutations of subjects."""
        options, n = self.options, self.n_first
        if options["method"] == "prevalence":
            p = np.prod(self.p_of_minimum[:, i])
            return max(p, np.finfo(float).tiny)
        if options["method"] == "i-test":
            p = self.p_of_minimum[:, [i]]
            return p_of_order(p, options["order"], options["hypothesis"])[0]
        first, second = self._values[:n, i], None
        if self._has_two_groups:
            second = self._values[n:, i]
        how = options["method"] == "wilcoxon", options["alternative"]
        return p_of_distribution(first, second, self.statistic[i], *how)

    @property
    def is_by_position(self):
        """Whether uncorrected p-values take no permutations of subjects."""
        return self.options["method"] in ("prevalence", "i-test", *BY_THEORY)

    @cached_property
    def whole_nulls(self):
        """The `Null` of each test, of all permutations."""
        pairs = zip(self.tests, self.exempt, strict=False)
        return [self._null(test, exempt) for test, exempt in pairs]

    def _null(self, test, exempt):
        return Null(
            observed=test.observed().astype(float),
            null=test.maps(),
            alternative=self.options["alternative"],
            near=self.near,
            standard=self.options["method"] not in BY_LABELS,
            level=self.options["threshold"],
            height=self.height,
            edges=edges_of(self.places.shape, self.places.adjacency(self.counted)),
            exempt=exempt,
        )

    @property
    def height(self):
        """The t, or the normal deviate, above which clusters are."""
        level, dof = self.options["threshold"], self.n_first - 1
        if self.options["alternative"] == "two-sided":
            level = level / 2
        if self._has_two_groups:
            dof = len(self.members) - 2
        theory = stats.norm if self.options["method"] == "wilcoxon" else stats.t(dof)
        return float(theory.isf(level))

    def p_values(self, name):
        """Return the p-values (C,) of a correction, from all permutations."""
        if name == "none" and self.is_by_position:
            positions = range(len(self.statistic))
            return np.array([self.p_of_position(i) for i in positions])
        p = CORRECTIONS[name](self.whole_nulls)
        if self.options["method"] == "prevalence" and name in ("max", "max-step-down"):
            return np.maximum(p, self.p_values("none"))
        return p

    @property
    def largest(self):
        """The most extreme statistic of each permutation, (P,)."""
        return np.max([null.largest for null in self.whole_nulls], axis=0)

    @property
    def cluster_scores(self):
        """What clusters are formed of: of several tests, what is nearest to 0."""
        signs = {"greater": [0, None], "less": [None, 0], "two-sided": [0, 1]}
        high, low = (
            np.min([self._side(null, side) for null in self.whole_nulls], axis=0)
            for side in signs[self.options["alternative"]]
        )
        return np.where(high > 0, high, np.minimum(0.0, -low))

    @staticmethod
    def _side(null, side):
        """Return a side of the observed map, or the other side of the only one."""
        z = -null.maps[0, 0] if side is None else null.maps[side, 0]
        return np.where(null.exempt, np.inf, z)

    def ranks(self):
        """Return ranks (T, C) and statistics (T, rows) for true discoveries."""
        ranks, statistics = np.zeros((len(self.tests), self.scores.shape[1])), []
        for k, null in enumerate(self.whole_nulls):
            part = ~null.exempt
            some = replace(null, observed=null.observed[part], null=null.null[:, part])
            of_rows, found = ranks_of_rows(some)
            ranks[k, part] = of_rows[0]
            statistics.append(found)
        return ranks, np.array(statistics)

    # ----------------------------------------------------------------- subjects alone

    def own(self):
        """Return subjects' p and sizes (S, C), and those of anywhere (S,)."""
        alpha, shape = self.options["alpha"], self.scores.shape
        p, sizes, anywhere = np.zeros((3, *shape))
        size_anywhere = np.zeros(len(self.members))
        tests = zip(self.tested, self.nulls, self.exempt, strict=False)
        for tested, nulls, exempt in tests:
            counted = ~exempt
            for s, null in enumerate(nulls):
                near = NEAR_OF_SINGLE if null.dtype == np.float32 else NEAR
                scores = tested[s].astype(null.dtype).astype(float)
                of_test = p_uncorrected(scores, null, near) * counted
                p[s] = np.maximum(p[s], of_test)
                size = attained_size(scores, null, alpha, near) * counted
                sizes[s] = np.maximum(sizes[s], size)
                if not counted.any():
                    continue
                largest = null[:, counted].max(axis=1)[:, np.newaxis]
                reached = p_uncorrected(scores, np.tile(largest, shape[1]), near)
                anywhere[s] = np.maximum(anywhere[s], reached * counted)
                top = scores[counted].max(keepdims=True)
                size = attained_size(top, largest, alpha, near)
                size_anywhere[s] = max(size_anywhere[s], size[0])
        return p, sizes, anywhere.min(axis=1), size_anywhere


@dataclass
class Member:
    """What a group takes of the result of one subject, at the group's positions."""

    scores: np.ndarray  #: (V,)
    tested: list  #: the scores (V,) of each test by permuted labels
    nulls: list  #: of each test, (P, V)
    exempt: np.ndarray  #: where the last of two tests does not count (V,)
    chance: float
    means: np.ndarray | None  #: mean score under permuted labels (V,)


def read_member(result, group, places):
    """Return the `Member` that a result is, at the places of a group."""
    scores = np.ravel(result.metrics[group.metric]).astype(float)
    kept = result.kept_tests(group.metric)
    tests = [x for x in kept if isinstance(x.null, np.ndarray)]
    tested = [np.ravel(x.scores).astype(float) for x in tests]
    nulls = [x.null.reshape(len(x.null), -1) for x in tests]
    means = np.mean(nulls[0], axis=0, dtype=float) if nulls else None
    if kept and not nulls and kept[0].null.permuted_moments is not None:
        means = np.full(scores.shape, np.nan)
        means[~np.isnan(scores)] = np.ravel(kept[0].null.permuted_moments[0])
    exempt = np.zeros(result.shape, bool)
    if len(tests) > 1 and tests[1].exempt is not None:
        exempt = np.asarray(tests[1].exempt)
    if result.places.difference(places, within_sample=True) and places.in_voxels:
        nearest = nearest_voxels(result.places.geometry, places.geometry)
        scores, exempt = take_voxels(scores, nearest), np.zeros(len(nearest), bool)
        tested = [take_voxels(each, nearest) for each in tested]
        nulls = [take_voxels(null, nearest) for null in nulls]
        means = None if means is None else take_voxels(means, nearest)
    chance = result.chances[group.metric]
    return Member(scores, tested, nulls, exempt.ravel(), chance, means)


def assert_equal(group, results):
    """Compare a group's result with what is worked out from those of its subjects."""
    members = [read_member(result, group, group.places) for result in results]
    against = group.permuted_means is not None
    anew = Anew(group.options, group.places, members, len(group.subjects), against)
    near = {"rtol": 1e-5 if anew.near > NEAR else 1e-6, "atol": 1e-12}

    def stored(values):
        shape = group.shape
        leading = np.shape(values)[: np.ndim(values) - len(shape)]
        return np.reshape(values, (*leading, -1))[..., anew.counted]

    np.testing.assert_array_equal(np.ravel(group.counted), anew.counted)
    np.testing.assert_allclose(stored(group.statistic), anew.statistic, **near)
    assert {*group.p_maps} == anew.corrections
    for name, p in group.p_maps.items():
        again = anew.p_values(name)
        np.testing.assert_allclose(stored(p), again, **near, err_msg=name)
    if group.p_of_minimum is not None:
        again = anew.p_of_minimum
        np.testing.assert_allclose(stored(group.p_of_minimum), again, **near)
    if anew.options["method"] in BY_LABELS:
        own = anew.own()
        anywhere = group.parameters["anywhere"]
        kept = [stored(group.subject_p), stored(group.subject_sizes)]
        for one, two in zip((*kept, anywhere["p"], anywhere["size"]), own, strict=True):
            np.testing.assert_allclose(one, two, **near)
    if not anew.is_drawn:
        return
    np.testing.assert_allclose(group.null_max, anew.largest, **near)
    most = np.max([null.sided(null.observed).max() for null in anew.whole_nulls])
    np.testing.assert_allclose(group.observed_max, most, **near)
    np.testing.assert_allclose(group.cluster_height, anew.whole_nulls[0].cut, **near)
    if group.cluster_scores is not None:
        again = anew.cluster_scores  # which may be 0 but for rounding
        near_zero = near | {"atol": 1e-5 if anew.near > NEAR else 1e-9}
        np.testing.assert_allclose(stored(group.cluster_scores), again, **near_zero)
    if len(group.ranks):
        ranks, statistics = anew.ranks()
        np.testing.assert_allclose(stored(group.ranks), ranks, **near)
        np.testing.assert_allclose(group.rank_statistics, statistics, **near)
