"""The test of a group, worked out again by NumPy and SciPy.

To be read in one sitting. Nothing is imported from the code that makes the results of
groups. S subjects have `scores` (S, V) at V positions, and subject s has `nulls[s]`
(P_s, V) under permuted labels. A second-level permutation makes one map of them all.
Rows of a null (P, V) are the permutations; the observed map counts as one more.

Numbers that differ by rounding only are ties, and a tie counts as "reaches". `near`
says up to which difference, as a share of the largest number at that position.
"""

import math
from dataclasses import dataclass
from itertools import combinations, product

import numpy as np
from scipy import stats

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

    def maps(self, rows, at=slice(None)):
        """Return the maps (len(rows), V) of some permutations, at some positions."""
        parts = []
        for s, null in enumerate(self.nulls):
            both = np.concatenate([self.scores[s : s + 1, at], null[:, at]])
            parts.append(both[self.draws[rows, s]])
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

    def maps(self, rows, at=slice(None)):
        """Return the maps (len(rows), V) of some permutations, at some positions."""
        return self._statistic(self.signs[rows])[:, at]

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

    def maps(self, rows, at=slice(None)):
        """Return the maps (len(rows), V) of some permutations, at some positions."""
        return self._statistic(self.labels[rows])[:, at]

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
        total = (
            labels @ values
        )  # of the first group; that of the second is its negative
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
