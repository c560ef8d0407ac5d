r"""Intervals of means and of differences, from all values that a test does not reject.

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

import numpy as np

from ..utils.checks import counted
from ..utils.memory import batches
from .exchange import (
    LEAST_VARIANCE,
    LabelExchange,
    SignFlips,
    draw_labels,
    draw_signs,
)

#: Fewer subjects have too few flips for an interval.
FEWEST = 6
#: Flips, or exchanges, that are drawn where there are more.
N_DRAWN = 10_000


def interval_of_mean(
    values, others=None, *, confidence, alternative, simultaneous, random_state
):
    """Return both ends (C,) for the mean of values (S, C), or for a difference.

    With `others` (S2, C) it is the mean of the values minus theirs. "greater" has no
    upper end, and "less" no lower one: inf.
    """
    n_first = len(values)
    drawn = N_DRAWN, random_state
    if others is None:
        exchanges = draw_signs(n_first, *drawn)
    else:
        exchanges = draw_labels(n_first, len(others), *drawn)
        values = np.concatenate([values, others])
    # The largest |t| of all positions has both sides in it.
    halved = alternative == "two-sided" and not simultaneous
    share = (1 - confidence) / (2 if halved else 1)
    # A product that should be whole may fall short of it by a rounding error.
    n_outside = int(share * (len(exchanges) + 1) * (1 + 1e-12))
    if n_outside < 1:
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
    """Return both ends (C,) around differences (C,), from permuted ones (P, C)."""
    n_outside = int((1 - confidence) * (len(null) + 1) * (1 + 1e-12))
    if n_outside < 1:
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
    """Return both ends, one of them open if the alternative has one side."""
    if alternative == "greater":
        high = np.full_like(high, np.inf)
    elif alternative == "less":
        low = np.full_like(low, -np.inf)
    return low, high


def _at_each(values, n_first, exchanges, n_outside, _):
    """Return the ends at every position for itself, from typical values."""
    weights = _turned(exchanges, n_first)
    low, high = np.empty((2, values.shape[1]))
    last = len(weights) - n_outside
    for part in batches(values.shape[1], len(weights)):
        typical = weights @ values[:, part]
        typical.partition((n_outside - 1, last), axis=0)
        low[part], high[part] = typical[n_outside - 1], typical[last]
    return low, high


def _turned(exchanges, n_first):
    """Return weights (P, S) that make of values where each exchange begins to count."""
    if exchanges.dtype != bool:
        turned = (exchanges < 0).astype(float)
        return turned / turned.sum(axis=1, keepdims=True)
    # Who leaves the first group, and who comes instead; as many.
    first = np.arange(exchanges.shape[1]) < n_first
    moved = (first & ~exchanges).astype(float) - (exchanges & ~first)
    return moved / (moved > 0).sum(axis=1, keepdims=True)


def _at_once(values, n_first, exchanges, n_outside, alternative):
    """Return ends that hold at all positions at once, from the largest t."""
    n, flips = len(values), exchanges.dtype != bool
    groups = [values] if flips else [values[:n_first], values[n_first:]]
    means = [each.mean(axis=0) for each in groups]
    centred = [each - mean for each, mean in zip(groups, means, strict=True)]
    rest = np.concatenate(centred)
    variance = np.square(rest).sum(axis=0) / (n - len(groups))
    # As in the test, so that few subjects who score alike do not decide all.
    variance = np.maximum(variance, LEAST_VARIANCE * variance.max(initial=0.0))
    error = np.sqrt(variance * sum(1 / len(each) for each in groups))
    null = SignFlips(rest, exchanges) if flips else LabelExchange(rest, exchanges)
    largest = np.empty(len(null))
    for rows in batches(*null.shape):
        t = null[rows]
        t = np.abs(t) if alternative == "two-sided" else t
        largest[rows] = t.max(axis=1)
    far = np.partition(largest, len(largest) - n_outside)[len(largest) - n_outside]
    difference = means[0] if flips else means[0] - means[1]
    return difference - far * error, difference + far * error
