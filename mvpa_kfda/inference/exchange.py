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

*Intervals* of means and of differences are of all values that a test does not reject.
A sign flip tests whether values :math:`x_i - \mu` have sums as extreme as those with
other signs. The sum with signs s is at least the sum as it is if and only if the
:math:`x_i` whose signs are turned have a mean of at most mu. So each flip has one mu
from which on it counts against "the mean is above mu", the mean over those it turns,
and

.. math:: p(\mu) = \frac{1 + \#\{s : \bar x_{-s} \le \mu\}}{1 + P}

crosses a level where mu is one of these means: the ends of the interval are the K-th
smallest and the K-th largest of them, K being the level times P + 1, rounded down. They
are the *typical values* of Hartigan [1]_; the same holds for two groups of which one is
shifted, with differences of means for every exchange of labels [2]_.

Many positions at once have the interval :math:`\bar x \pm q s / \sqrt N`: q is the
quantile of the largest t over positions when the residuals :math:`x_i - \bar x` have
their signs flipped, or change groups.

Between two analyses of the same trials, a difference T has the interval of all delta
for which T - delta is no further out than permuted differences are from their mean, as
if an effect moved T and changed nothing else.

References
----------
.. [1] Hartigan, J. A. (1969). Using subsample values as typical values. Journal of the
   American Statistical Association, 64(328), 1303-1317.
.. [2] Garthwaite, P. H. (1996). Confidence intervals from randomization tests.
   Biometrics, 52(4), 1387-1393.
"""

import math
from functools import cached_property
from itertools import chain, combinations

import numpy as np
from scipy.stats import rankdata

from ..utils.checks import check_count, check_option, counted, generator
from ..utils.memory import LazyRows, batches, check_permutations

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

#: Fewer subjects have too few flips for an interval.
FEWEST_SUBJECTS = 6
#: Flips, or exchanges, that are drawn where there are more.
N_DRAWN = 10_000
#: Bytes of what a row is known by among those drawn, beside what it holds.
_PER_ROW = 150


class Exchange(LazyRows):
    """Statistics (P, C) of values (S, C) under exchanges (P, S), signs or labels.

    Signs change those of differences, which are tested against 0. Labels, bool, are
    True for who is in the first group, which comes first in `values`; all rows have as
    many, and statistics are large where the first group has the larger values.
    """

    def __init__(self, values, exchanges, statistic="t"):
        check_option("statistic", statistic, STATISTICS)
        self.statistic, ranked = statistic, statistic == "wilcoxon"
        values, exchanges = tidied(values), np.asarray(exchanges)
        # The correlation of weights and values is the weighted sum minus the centre
        # (C,), divided by the norm (C,); the degrees of freedom are those of t.
        n = len(values)
        if exchanges.dtype == bool:
            n_first = np.count_nonzero(exchanges[0])
            if ranked:
                values = rankdata(values, axis=0)
            mean = values.mean(axis=0)
            spread = np.square(values - mean).sum(axis=0)
            # Equal values have no spread, whatever rounding their mean has.
            spread[(values == values[0]).all(axis=0)] = 0.0
            norm = np.sqrt(n_first * (n - n_first) / n * spread)
            self._dof, centre = n - 2, n_first * mean
            self._as_is = np.arange(n) < n_first
        else:
            if ranked:  # of the sizes among those that are not 0, with the signs
                ranks = rankdata(np.abs(values), axis=0)
                ranks -= np.count_nonzero(values == 0, axis=0)
                values = np.sign(values) * ranks
            norm = np.sqrt(n * np.square(values).sum(axis=0))
            self._dof, centre = n - 1, 0.0
            self._as_is = np.ones(n)
        self._flat = flat = norm == 0  # where the statistic is 0
        self._values = np.where(flat, 0.0, values)
        self._centre = np.where(flat, 0.0, centre)
        self._norm = np.where(flat, 1.0, norm)
        self._total = np.square(self._norm)
        observed = self._statistics(self._as_is)
        super().__init__(
            len(exchanges),
            observed.shape,
            np.float64,
            lambda rows: self._statistics(exchanges[rows]),
            observed,
        )

    def _statistics(self, weights):
        """The statistics (m, C) of weights (m, S)."""
        x = self._sums(weights)
        if self.statistic == "wilcoxon":
            return x / self._norm * math.sqrt(self._dof + 1)
        # Variances over subjects in proportion: t squared is dof x^2 / rest.
        rest = np.square(x)
        np.subtract(self._total, rest, out=rest)
        least = LEAST_VARIANCE * rest.max(axis=-1, keepdims=True, initial=0.0)
        np.maximum(rest, least, out=rest)
        np.maximum(rest, LEAST_REST * self._total, out=rest)
        np.divide(self._dof, rest, out=rest)
        x *= np.sqrt(rest, out=rest)
        return x

    def _sums(self, weights):
        """The numerators x (m, C) of r."""
        x = np.asarray(weights, dtype=float) @ self._values
        x -= self._centre
        return x

    @cached_property
    def alike(self):
        """Where subjects score alike (C,): their variance is less than what counts."""
        if self.statistic == "wilcoxon":
            return np.zeros(self.shape[1], dtype=bool)
        rest = self._total - np.square(self._sums(self._as_is))
        largest = rest.max(initial=0.0, where=~self._flat)
        # Without any variance no more than rounding may be left of it.
        least = np.maximum(LEAST_VARIANCE * largest, LEAST_REST * self._total)
        return ~self._flat & (rest < least)

    @property
    def all_alike(self):
        """Whether subjects score alike wherever they do not all score at chance."""
        return bool(self.alike.any() and (self.alike | self._flat).all())


def tidied(values):
    """Values as whole numbers, the largest 10^12."""
    # Equal ones are then equal, and sums of some thousand of them exact: in any order,
    # in any batch, and with any number of threads.
    values = np.asarray(values, dtype=float)
    largest = np.abs(values).max(initial=0)
    return np.rint(values / largest * _UNITS) if largest > 0 else values


# --------------------------------------------------------------- which exchanges


def draw_signs(n_subjects, n_permutations, random_state=None):
    """P different signs (P, S), none the data's, or all there are if fewer."""
    n = check_count("n_subjects", n_subjects, minimum=1)
    n_permutations = check_count("n_permutations", n_permutations, minimum=1)
    check_permutations(min(n_permutations, 2**n - 1), 2 * n + _PER_ROW)
    if 2**n - 1 <= n_permutations:
        codes = np.arange(1, 2**n)[:, np.newaxis]
        return (1 - 2 * (codes >> np.arange(n) & 1)).astype(np.int8)
    rng, coin = generator(random_state), np.array([1, -1], dtype=np.int8)
    as_is = np.ones(n, dtype=np.int8)
    return _distinct(lambda m: rng.choice(coin, (m, n)), n_permutations, as_is)


def draw_labels(n_first, n_second, n_permutations, random_state=None):
    """P different groups (P, S), True for the first, or all if fewer."""
    n_first = check_count("n_first", n_first, minimum=1)
    n = n_first + check_count("n_second", n_second, minimum=1)
    n_permutations = check_count("n_permutations", n_permutations, minimum=1)
    observed = np.arange(n) < n_first
    n_others = math.comb(n, n_first) - 1
    check_permutations(min(n_permutations, n_others), 2 * n + _PER_ROW)
    if n_others <= n_permutations:
        first = chain.from_iterable(combinations(range(n), n_first))
        first = np.fromiter(first, np.intp).reshape(-1, n_first)
        labels = np.zeros((len(first), n), dtype=bool)
        np.put_along_axis(labels, first, True, axis=1)
        return labels[1:]
    rng = generator(random_state)

    def draw(m):
        return rng.permuted(np.tile(observed, (m, 1)), axis=1)

    return _distinct(draw, n_permutations, observed)


def _distinct(draw, n_rows, observed):
    """The first rows that differ from each other and from the observed one."""
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


# ---------------------------------------------------------------------- intervals


def interval_of_mean(
    values, others=None, *, confidence, alternative, simultaneous, random_state
):
    """Both ends (C,) for the mean of values (S, C), or for a difference.

    With `others` (S2, C) it is the mean of the values minus theirs. "greater" has no
    upper end, and "less" no lower one: inf.
    """
    n_first = len(values)
    if others is None:
        exchanges = draw_signs(n_first, N_DRAWN, random_state)
    else:
        exchanges = draw_labels(n_first, len(others), N_DRAWN, random_state)
        values = np.concatenate([values, others])
    # The largest |t| of all positions has both sides in it.
    halved = alternative == "two-sided" and not simultaneous
    share = (1 - confidence) / (2 if halved else 1)
    # A product that should be whole may fall short of it by a rounding error.
    if (n_outside := int(share * (len(exchanges) + 1) * (1 + 1e-12))) < 1:
        raise ValueError(
            f"{counted(len(exchanges) + 1, 'arrangement', ',')} of these subjects are "
            f"too few for an interval with confidence={confidence:g}: it would have no "
            f"end. Take more subjects, or a confidence of {1 - 1 / len(exchanges):.2g} "
            "at most."
        )
    find = _at_once if simultaneous else _at_each
    low, high = find(values, n_first, exchanges, n_outside, alternative)
    return _open(low, high, alternative)


def interval_of_difference(difference, null, *, confidence, alternative, simultaneous):
    """Both ends (C,) around differences (C,), from permuted ones (P, C)."""
    if (n_outside := int((1 - confidence) * (len(null) + 1) * (1 + 1e-12))) < 1:
        raise ValueError(
            f"{counted(len(null), 'permutation', ',')} are too few for an interval "
            f"with confidence={confidence:g}: it would have no end. Run both analyses "
            "with more permutations."
        )
    rest = null - null.mean(axis=0)
    # From a lower bound on, an upper one, or both: how far T may be from delta.
    spread = {"greater": rest, "less": -rest}.get(alternative, np.abs(rest))
    unit = np.ones(len(difference))
    if simultaneous:
        variance = np.square(rest).mean(axis=0)
        least = LEAST_VARIANCE * variance.max(initial=0.0)
        unit = np.sqrt(np.maximum(variance, least))
        spread = (spread / np.where(unit == 0, 1, unit)).max(axis=1)[:, np.newaxis]
    last = len(spread) - n_outside
    far = np.partition(spread, last, axis=0)[last] * unit
    return _open(difference - far, difference + far, alternative)


def _open(low, high, alternative):
    """Both ends, one of them open if the alternative has one side."""
    low = np.where(alternative == "less", -np.inf, low)
    return low, np.where(alternative == "greater", np.inf, high)


def _at_each(values, n_first, exchanges, n_outside, _):
    """The ends at every position for itself, from typical values."""
    if exchanges.dtype != bool:
        weights = (exchanges < 0).astype(float)
    else:  # who leaves the first group, and who comes instead; as many
        first = np.arange(exchanges.shape[1]) < n_first
        weights = (first & ~exchanges).astype(float) - (exchanges & ~first)
    weights /= (weights > 0).sum(axis=1, keepdims=True)
    low, high = np.empty((2, values.shape[1]))
    last = len(weights) - n_outside
    for part in batches(values.shape[1], len(weights)):
        typical = weights @ values[:, part]
        typical.partition((n_outside - 1, last), axis=0)
        low[part], high[part] = typical[n_outside - 1], typical[last]
    return low, high


def _at_once(values, n_first, exchanges, n_outside, alternative):
    """The ends that hold at all positions at once, from the largest t."""
    n, flips = len(values), exchanges.dtype != bool
    groups = [values] if flips else [values[:n_first], values[n_first:]]
    means = [each.mean(axis=0) for each in groups]
    centred = [each - mean for each, mean in zip(groups, means, strict=True)]
    rest = np.concatenate(centred)
    variance = np.square(rest).sum(axis=0) / (n - len(groups))
    # As in the test, so that few subjects who score alike do not decide all.
    variance = np.maximum(variance, LEAST_VARIANCE * variance.max(initial=0.0))
    error = np.sqrt(variance * sum(1 / len(each) for each in groups))
    null = Exchange(rest, exchanges)
    largest, last = np.empty(len(null)), len(null) - n_outside
    for rows in batches(*null.shape):
        t = null[rows]  # an upper end is as far as t falls below
        t = {"two-sided": np.abs(t), "less": -t}.get(alternative, t)
        largest[rows] = t.max(axis=1)
    far = np.partition(largest, last)[last]
    difference = means[0] if flips else means[0] - means[1]
    return difference - far * error, difference + far * error
