r"""Statistics of exchanges over subjects: flips of signs, exchanges of group labels.

Both are lazy nulls: rows of statistics (P, positions), computed when they are asked
for. Both come down to one matrix product, because what an exchange changes of the
statistic is a weighted sum over subjects, and the rest is the same in all exchanges.

A flip of signs changes the sum over S subjects and leaves the sum of squares as it is.
With :math:`r = \sum_i s_i d_i / \sqrt{S \sum_i d_i^2}`,

.. math:: t = r \sqrt{(S - 1) / (1 - r^2)}

It is 0 where all differences are. Between two groups, let :math:`r` be the correlation
of the values with the labels; then S - 2 in place of S - 1 makes it the t of equal
variances.

Scores of few trials come in steps, and few subjects may score equally by chance. Their
variance is then zero, and t would be the largest of the map whatever the others are. So
no variance counts as less than a thousandth of the largest one over positions, of the
observed map and of each exchanged one likewise. This follows Ridgway et al. (2012,
NeuroImage 59, 2131-2141), who add that much to all variances; as a floor it leaves all
other t as they are. Where no position has any variance, :math:`1 - r^2` is at least
1e-5, which keeps t finite.

The signed-rank statistic replaces d by its signed midrank, zeros left out. Its mean
over flips is 0 and its variance the sum of squared ranks, ties or not, so :math:`z = r
\sqrt S` [Wilcoxon, 1945]. Of two groups, :math:`z = r \sqrt{S - 1}` of midranks is the
rank sum minus its mean, divided by its standard deviation over all relabellings, ties
included [Mann and Whitney, 1947]. Values that agree to 12 digits of the largest one are
ties.
"""

import math
from functools import cached_property
from itertools import combinations, islice

import numpy as np
from scipy.stats import rankdata

from ..utils.checks import check_count, check_option, generator
from ..utils.memory import LazyRows, batches
from .permutation import check_permutations

#: Statistics over subjects: Student's t, or the standardised rank statistic.
STATISTICS = ("t", "wilcoxon")

#: No variance over subjects counts as less than this part of the largest one.
LEAST_VARIANCE = 1e-3

#: Least part of the variance that t leaves unexplained, 1 - r^2. It keeps t finite
#: where no position has a variance, and as exact as the ties between permutations need
#: it: the rounding error of t is that of r divided by 1 - r^2.
LEAST_REST = 1e-5

#: The largest value in units of the smallest difference that counts: a score minus its
#: chance level is exact to about 16 digits of the score, not of the difference.
_UNITS = 1e12

#: Bytes of what a row is known by among those drawn, beside what it holds.
_PER_ROW = 150


class Exchange(LazyRows):
    """A null whose row p is a function of the correlations of weights and values."""

    # `values` (S, C) are those of the subjects, as `tidied`, or their ranks; `weights`
    # (P, S) are those of the exchanges and `observed_weights` (S,) those of the data as
    # they are. The correlation is the weighted sum minus `centre` (C,), divided by
    # `norm` (C,). `dof` is that of t; `factor` makes a unit normal deviate of the
    # correlation of ranks.

    def __init__(
        self,
        values,
        weights,
        observed_weights,
        *,
        centre,
        norm,
        dof,
        factor,
        statistic,
    ):
        self._flat = flat = norm == 0  # where the statistic is 0
        self._values = np.where(flat, 0.0, values)
        self._centre = np.where(flat, 0.0, centre)
        self._observed_weights = observed_weights
        self._dof, self._factor, self.statistic = dof, factor, statistic
        self._norm = np.where(flat, 1.0, norm)
        self._total = np.square(self._norm)
        self.observed = self._statistics(observed_weights)
        super().__init__(
            len(weights),
            self.observed.shape,
            np.float64,
            lambda rows: self._statistics(weights[rows]),
        )

    def _statistics(self, weights):
        """Return the statistics (m, C) of weights (m, S)."""
        x = self._sums(weights)
        if self.statistic == "wilcoxon":
            return x / self._norm * self._factor
        rest = self._variances(x)
        least = LEAST_VARIANCE * rest.max(axis=-1, keepdims=True, initial=0.0)
        np.maximum(rest, least, out=rest)
        np.maximum(rest, LEAST_REST * self._total, out=rest)
        np.divide(self._dof, rest, out=rest)
        x *= np.sqrt(rest, out=rest)
        return x

    def _sums(self, weights):
        """Return the numerators x (m, C) of r."""
        x = np.asarray(weights, dtype=float) @ self._values
        x -= self._centre
        return x

    def _variances(self, x):
        """Return variances over subjects in proportion, t squared is dof x^2 / it."""
        rest = np.square(x)
        return np.subtract(self._total, rest, out=rest)

    @cached_property
    def alike(self):
        """Where subjects score alike (C,): their variance is less than what counts."""
        if self.statistic == "wilcoxon":
            return np.zeros(self.shape[1], dtype=bool)
        rest = self._variances(self._sums(self._observed_weights))
        largest = rest.max(initial=0.0, where=~self._flat)
        # Without any variance no more than rounding may be left of it.
        least = np.maximum(LEAST_VARIANCE * largest, LEAST_REST * self._total)
        return ~self._flat & (rest < least)

    @property
    def all_alike(self):
        """Whether subjects score alike wherever they do not all score at chance."""
        return bool(self.alike.any() and (self.alike | self._flat).all())


class SignFlips(Exchange):
    """One-sample statistics (P, C) of differences (S, C) that change signs (P, S)."""

    def __init__(self, differences, signs, statistic="t"):
        check_option("statistic", statistic, STATISTICS)
        values = tidied(differences)
        if statistic == "wilcoxon":
            values = signed_ranks(values)
        n = len(values)
        super().__init__(
            values,
            signs,
            np.ones(n),
            centre=0.0,
            norm=np.sqrt(n * np.square(values).sum(axis=0)),
            dof=n - 1,
            factor=math.sqrt(n),
            statistic=statistic,
        )


class LabelExchange(Exchange):
    """Two-sample statistics (P, C) when values (S, C) change labels (P, S)."""

    # Labels are True for who is in the first group, which comes first in `values`; all
    # rows have as many. Large where the first group has the larger values.

    def __init__(self, values, labels, statistic="t"):
        check_option("statistic", statistic, STATISTICS)
        values, labels = tidied(values), np.asarray(labels)
        n, n_first = len(values), np.count_nonzero(labels[0])
        if statistic == "wilcoxon":
            values = rankdata(values, axis=0)
        mean = values.mean(axis=0)
        spread = np.square(values - mean).sum(axis=0)
        # Equal values have no spread, whatever rounding their mean has.
        spread[(values == values[0]).all(axis=0)] = 0.0
        super().__init__(
            values,
            labels,
            np.arange(n) < n_first,
            centre=n_first * mean,
            norm=np.sqrt(n_first * (n - n_first) / n * spread),
            dof=n - 2,
            factor=math.sqrt(n - 1),
            statistic=statistic,
        )


def tidied(values):
    """Return values as whole numbers, the largest 10^12."""
    # Equal ones are then equal, and sums of some thousand of them exact: in any order,
    # in any batch, and with any number of threads.
    values = np.asarray(values, dtype=float)
    largest = np.abs(values).max(initial=0)
    return np.rint(values / largest * _UNITS) if largest > 0 else values


def signed_ranks(values):
    """Return the midranks of the sizes among those that are not 0, with the signs."""
    ranks = rankdata(np.abs(values), axis=0) - np.count_nonzero(values == 0, axis=0)
    return np.sign(values) * ranks


# --------------------------------------------------------------- which exchanges


def draw_signs(n_subjects, n_permutations, random_state=None):
    """Return P different signs (P, S), none the data's, or all there are if fewer."""
    n = check_count("n_subjects", n_subjects, minimum=1)
    n_permutations = check_count("n_permutations", n_permutations, minimum=1)
    check_permutations(min(n_permutations, 2**n - 1), 2 * n + _PER_ROW)
    if 2**n - 1 <= n_permutations:
        codes = np.arange(1, 2**n)[:, np.newaxis]
        return (1 - 2 * (codes >> np.arange(n) & 1)).astype(np.int8)
    rng = generator(random_state)
    identity = np.ones(n, dtype=np.int8)
    coin = np.array([1, -1], dtype=np.int8)
    return _distinct(lambda m: rng.choice(coin, (m, n)), n_permutations, identity)


def draw_labels(n_first, n_second, n_permutations, random_state=None):
    """Return P different groups (P, S), True for the first, or all if fewer."""
    n_first = check_count("n_first", n_first, minimum=1)
    n = n_first + check_count("n_second", n_second, minimum=1)
    n_permutations = check_count("n_permutations", n_permutations, minimum=1)
    observed = np.arange(n) < n_first
    n_others = math.comb(n, n_first) - 1
    check_permutations(min(n_permutations, n_others), 2 * n + _PER_ROW)
    if n_others <= n_permutations:
        labels = np.zeros((n_others, n), dtype=bool)
        others = islice(combinations(range(n), n_first), 1, None)
        for rows in batches(n_others, n):
            chosen = list(islice(others, rows.stop - rows.start))
            np.put_along_axis(labels[rows], np.array(chosen), True, axis=1)
        return labels
    rng = generator(random_state)
    return _distinct(
        lambda m: rng.permuted(np.tile(observed, (m, 1)), axis=1),
        n_permutations,
        observed,
    )


def _distinct(draw, n_rows, observed):
    """Return the first rows that differ from each other and from the observed one."""
    # Drawn without replacement, the observed row and the others are exchangeable.
    seen, n_found = {observed.tobytes()}, 0
    found = np.empty((n_rows, len(observed)), observed.dtype)
    while n_found < n_rows:
        for part in batches(n_rows, len(observed)):
            for row in draw(part.stop - part.start):
                key = row.tobytes()
                if key not in seen and n_found < n_rows:
                    seen.add(key)
                    found[n_found] = row
                    n_found += 1
    return found
