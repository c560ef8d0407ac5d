r"""In what share of the population is there an effect: prevalence and its posterior.

*Prevalence inference* [1]_, on arrays of p-values. The statistic is the minimum m over
N subjects. :math:`p_k` is the probability that subject k reaches m without an effect,
see `group.second_level`.

If a share of at most gamma of the population has an effect, a random subject reaches m
with a probability of at most :math:`\gamma + (1 - \gamma) p_k`: with an effect with
certainty at best, without one with :math:`p_k`. Subjects are independent, so

.. math:: p_\gamma = \prod_{k=1}^{N} (\gamma + (1 - \gamma) p_k)

is the probability that all of them reach m, at most. It falls with m, and so is a
p-value of this null hypothesis, and at :math:`\gamma = 0` of the global one. It takes
the permuted scores of a subject to be spread alike with an effect and without one.
Where all :math:`p_k` are equal, :math:`p_k = p^{1/N}`, it is Eq. 19 of the paper, which
takes the permuted scores of all subjects to be spread alike.

It is the p-value of one position. The paper's correction for testing many, :math:`p_c +
(1 - p_c) p_\gamma` with the p-value :math:`p_c` of the largest minimum of a map (Eq.
21), corrects for positions where nobody has an effect, and not for those where some
have one: in 30 positions where each of 8 subjects is a carrier with a probability of
0.5, it finds a majority somewhere in every second group. Results therefore correct
:math:`p_\gamma` itself.

*The i-test* [2]_ takes the i-th lowest of N subjects in the place of the lowest, so
that i - 1 subjects without an effect cannot undo what all others show. With a the i-th
lowest score and :math:`p_{0n}(a)` the probability that subject n reaches a without an
effect, a random subject of a population of which at most a share gamma has an effect
reaches a with a probability of at most :math:`P_n = \gamma + (1 - \gamma) p_{0n}(a)`.
That at most i - 1 of N independent subjects stay below has the probability

.. math:: p = \Pr\Big(\sum_{n=1}^{N} B_n \le i - 1\Big), \qquad
          B_n \sim \text{Bernoulli}(1 - P_n)

which is at i = 1 the product :math:`\prod_n P_n` of the minimum.

*The posterior* [3]_ starts from who is significant by permutations of their own. With
:math:`\alpha_n` the size of a subject's test and gamma the share of people with an
effect, all of whom are found, a random subject is significant with the probability
:math:`\theta_n = \alpha_n + (1 - \alpha_n) \gamma`: the share is that of effects which
this experiment detects. With a flat prior of gamma, k significant subjects (the set K)
and N - k others, the posterior density is in proportion to

.. math:: (1 - \gamma)^{N - k} \prod_{n \in K} \big(\gamma + \alpha_n (1 - \gamma)\big)
          = \sum_{j=0}^{k} e_{k-j}(\alpha_K) \, \gamma^j (1 - \gamma)^{N - j}

with the elementary symmetric polynomials e of the sizes of K. It is a mixture of Beta
distributions, :math:`\text{Beta}(j + 1, N - j + 1)` for j of the k who have an effect.
Where all sizes are equal, theta has the Beta(k + 1, N - k + 1) of the paper, truncated
to [alpha, 1]. Permutation tests of scores that come in steps have sizes below the
level, and not the same in all subjects.

References
----------
.. [1] Allefeld, C., Goergen, K., & Haynes, J.-D. (2016). Valid population inference
   for information-based imaging: From the second-level t-test to prevalence inference.
   NeuroImage, 141, 378-392.
.. [2] Hirose, S. (2021). Valid and powerful second-level group statistics for decoding
   accuracy: Information prevalence inference using the i-th order statistic (i-test).
   NeuroImage, 242, 118456.
.. [3] Ince, R. A. A., Paton, A. T., Kay, J. W., & Schyns, P. G. (2021). Bayesian
   inference of population prevalence. eLife, 10, e62461.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.special import betaln, comb
from scipy.stats import binom

from ..utils.checks import check_share

#: Newton's method doubles the correct digits in each step, once it is near.
_MOST_STEPS = 100
#: Steps that a search for a root takes at most, and how near it has to come.
_STEPS, _NEAR, _NEAR_OUT = 60, 1e-13, 1e-11
_ROUNDING = 1e-15


def order_p(p, order, gamma=0.5):
    """The p-values (...) of the i-test, by those of the subjects (N, ...).

    Examples
    --------
    >>> float(order_p([0.1, 0.2], 1, gamma=0.5).round(2))  # 0.55 times 0.6
    0.33
    >>> float(order_p([0.1, 0.2], 2, gamma=0.5).round(2))  # one may be below
    0.82
    """
    check_share("gamma", gamma, zero=True)
    reach = gamma + (1 - gamma) * np.asarray(p, dtype=float)
    # Probabilities of 0, ..., order - 1 subjects below, subject by subject.
    below = np.zeros((order, *reach.shape[1:]))
    below[0] = 1.0
    for each in reach:
        below[1:] = below[1:] * each + below[:-1] * (1 - each)
        below[0] *= each
    # The product of very many may be too small for a float, but no p-value is 0.
    return np.clip(below.sum(axis=0), np.finfo(float).tiny, 1.0)


def largest_order(n_subjects, gamma=0.5, alpha=0.05):
    """The largest order whose p-values can be below alpha; 0 for none.

    Examples
    --------
    >>> [largest_order(n) for n in (4, 5, 12, 20)]
    [0, 1, 3, 6]
    """
    least = binom.cdf(np.arange(n_subjects), n_subjects, 1 - gamma)
    return int(np.count_nonzero(least < alpha))


def prevalence_p(p_of_minimum, gamma=0.5):
    """The p-values (...) of a prevalence up to gamma, by those of subjects (N, ...).

    Examples
    --------
    >>> float(prevalence_p([0.1, 0.2], gamma=0.5).round(2))  # 0.55 times 0.6
    0.33
    """
    return order_p(p_of_minimum, 1, gamma)


def prevalence_bound(p_of_minimum, alpha=0.05):
    """The largest prevalence rejected at levels alpha (...), NaN without any.

    Examples
    --------
    >>> float(prevalence_bound([0.01, 0.01], alpha=0.25).round(4))  # 0.5 is 0.01 + 0.49
    0.4949
    """
    p = np.asarray(p_of_minimum, dtype=float)
    level = np.broadcast_to(np.asarray(alpha, dtype=float), p.shape[1:])
    rejected = prevalence_p(p, 0) <= level
    bound = np.full(level.shape, np.nan)
    p, log_level = p[:, rejected], np.log(level[rejected])
    # The log of the product is concave in gamma, so that Newton's method comes from
    # below and never passes the solution: the bound is never too large. It begins where
    # the product would be at the level if all p were as large as the largest.
    largest, root = p.max(axis=0), np.exp(log_level / len(p))
    gamma = np.zeros(len(log_level))
    np.divide(root - largest, 1 - largest, out=gamma, where=largest < root)
    for _ in range(_MOST_STEPS):
        term = gamma + (1 - gamma) * p
        slope = ((1 - p) / term).sum(axis=0)
        missing = log_level - np.log(term).sum(axis=0)
        step = np.divide(missing, slope, out=np.zeros_like(gamma), where=slope > 0)
        gamma += np.maximum(0, step)
        if (step <= 1e-15).all():
            break
    bound[rejected] = gamma
    return bound[()]


def symmetric_polynomials(values):
    """The elementary symmetric polynomials (N + 1, ...) of values (N, ...)."""
    found = np.zeros((len(values) + 1, *np.shape(values)[1:]))
    found[0] = 1.0
    for value in values:
        found[1:] += value * found[:-1]
    return found


@dataclass(frozen=True, eq=False)
class Share:
    """Posterior of the share of a population, at each of C positions."""

    #: Weights (N + 1, C) of Beta(j + 1, N - j + 1), their sums 1.
    weights: np.ndarray

    #: Where the share may be.
    ends = (0.0, 1.0)

    @classmethod
    def of(cls, found, sizes):
        """The posterior of who is found (N, C), by tests of sizes (N, C)."""
        n, k = len(found), np.count_nonzero(found, axis=0)
        # Of those who are not found, the size is the same in every term.
        e = symmetric_polynomials(np.where(found, sizes, 0.0))
        j = np.arange(n + 1)[:, np.newaxis]
        missing = k - j
        terms = np.take_along_axis(e, np.maximum(missing, 0), axis=0)
        terms = np.where(missing >= 0, terms, 0.0)
        terms = terms * np.exp(betaln(j + 1, n - j + 1) - betaln(1, n + 1))
        return cls(terms / terms.sum(axis=0))

    @property
    def n_positions(self):
        """Number of positions C."""
        return self.weights.shape[1]

    def distinct(self):
        """The different ones of the posteriors, and which is whose (C,)."""
        unique, back = np.unique(self.weights, axis=1, return_inverse=True)
        return Share(unique), back.reshape(-1)

    def density(self, share):
        """The density (..., C) at shares (..., C)."""
        return len(self.weights) * _bernstein(self.weights, share)

    def slope(self, share):
        """The slope (..., C) of the density."""
        n = len(self.weights)
        return n * (n - 1) * _bernstein(np.diff(self.weights, axis=0), share)

    def below(self, share):
        """The probability (..., C) of less than a share (..., C)."""
        return _bernstein(self._sums, share)

    @cached_property
    def _sums(self):
        """The distribution function's coefficients, of one degree more."""
        # I_x(j + 1, N - j + 1) is the chance of j + 1 or more of N + 1 at x.
        sums = np.cumsum(self.weights, axis=0)
        return np.concatenate([np.zeros((1, self.n_positions)), sums])


def _bernstein(coefficients, x):
    """The polynomials (..., C) with coefficients (n + 1, C) of Bernstein's at x."""
    n = len(coefficients) - 1
    shape = np.broadcast_shapes(np.shape(x), coefficients.shape[1:])
    x = np.broadcast_to(np.clip(x, 0.0, 1.0), shape)  # beyond them by rounding
    factors = comb(n, np.arange(n + 1))[:, np.newaxis] * coefficients
    # All terms are positive, so nothing cancels; powers are built up one by one.
    powers, rest = np.ones((2, n + 1, *shape))
    np.cumprod(np.broadcast_to(x, (n, *shape)), axis=0, out=powers[1:])
    np.cumprod(np.broadcast_to(1 - x, (n, *shape)), axis=0, out=rest[1:])
    return np.einsum("jc,j...c,j...c->...c", factors, powers, rest[::-1])


class ShareDifference:
    """Posterior of the difference of two independent shares, at C positions."""

    # The distribution of the difference is an integral of polynomials, which a rule of
    # Gauss with half as many nodes as their degree has without an error.

    ends = (-1.0, 1.0)

    def __init__(self, first, second):
        self.first, self.second = first, second
        self.n_positions = first.n_positions
        degree = len(first.weights) + len(second.weights)
        self._nodes, self._weights = np.polynomial.legendre.leggauss(degree // 2 + 1)

    def distinct(self):
        """The different ones of the posteriors, and which is whose (C,)."""
        n = len(self.first.weights)
        both = np.concatenate([self.first.weights, self.second.weights])
        unique, back = np.unique(both, axis=1, return_inverse=True)
        return ShareDifference(Share(unique[:n]), Share(unique[n:])), back.reshape(-1)

    def density(self, difference):
        """The density (C,) at differences (C,)."""
        return self._integral(self.first.density, difference)

    def slope(self, difference):
        """The slope (C,) of the density at differences (C,)."""
        # One share ends where the difference and the other one do.
        ended = np.where(
            difference > 0,
            -self.second.density(1 - difference) * self.first.density(1.0),
            self.second.density(-difference) * self.first.density(0.0),
        )
        return ended + self._integral(self.first.slope, difference)

    def below(self, difference):
        """The probability (C,) of less than a difference (C,)."""
        # Where the second share is above -difference, the first has to be lower than
        # their sum, and above 1 - difference it always is.
        inside = self._integral(self.first.below, difference)
        return inside + 1 - self.second.below(1 - difference)

    def _integral(self, of_first, difference):
        """The integral over the second share of what holds for the first."""
        low, high = np.maximum(0, -difference), np.minimum(1, 1 - difference)
        half = (high - low) / 2
        shares = low + half * (1 + self._nodes[:, np.newaxis])
        values = self.second.density(shares) * of_first(shares + difference)
        return half * (self._weights @ values)


# ------------------------------------------------ of any posterior with a single mode


def quantile(posterior, level):
    """The share (C,) below which the posterior has a probability of a level."""
    first, last = posterior.ends
    low, high = (np.full(posterior.n_positions, end) for end in posterior.ends)
    level = np.broadcast_to(level, low.shape)
    low, high = np.where(level >= 1, last, low), np.where(level <= 0, first, high)
    x = low + (high - low) * level
    for _ in range(_STEPS):
        missing = level - posterior.below(x)
        low, high = np.where(missing > 0, x, low), np.where(missing > 0, high, x)
        with np.errstate(divide="ignore", invalid="ignore"):
            new = x + missing / posterior.density(x)
        # Newton's step, or half of what is left where that leads away.
        inside = (new > low) & (new < high)
        new = np.where(inside, new, (low + high) / 2)
        # What is left of a probability is rounding.
        new = np.where(np.abs(missing) < _ROUNDING, x, new)
        done, x = np.abs(new - x).max(initial=0) < _NEAR, new
        if done:
            break
    return x


def mode(posterior):
    """The most probable share (C,)."""
    first, last = posterior.ends
    low, high = (np.full(posterior.n_positions, end) for end in posterior.ends)
    # The logarithm of the density is concave: the slope tells on which side its top is.
    for _ in range(_STEPS):
        x = (low + high) / 2
        rises = posterior.slope(x) > 0
        low, high = np.where(rises, x, low), np.where(rises, high, x)
    return np.where(low == first, first, np.where(high == last, last, (low + high) / 2))


def densest(posterior, confidence):
    """The ends (C,) of the shortest interval with so much probability."""

    def leaning(out):
        """How much denser the upper end is, with so much below the lower one."""
        ends = quantile(posterior, out), quantile(posterior, out + confidence)
        below, above = (posterior.density(end) for end in ends)
        return above - below

    # Both ends are as dense where the interval is shortest, unless it ends where shares
    # do. What is left out below is found by the regula falsi, Illinois' way.
    rest = 1 - confidence
    low, high = np.zeros(posterior.n_positions), np.full(posterior.n_positions, rest)
    at_low, at_high = leaning(low), leaning(high)
    first, last = at_low <= 0, at_high >= 0
    side = np.zeros(posterior.n_positions, dtype=int)
    out = np.where(first, low, high)
    for _ in range(_STEPS):
        with np.errstate(divide="ignore", invalid="ignore"):
            new = (low * at_high - high * at_low) / (at_high - at_low)
        new = np.where(np.isfinite(new), new, (low + high) / 2)
        new = np.where(first, 0.0, np.where(last, rest, new))
        done, out = np.abs(new - out).max(initial=0) < _NEAR_OUT, new
        if done:
            break
        at = leaning(out)
        up = at > 0
        # An end that stays twice counts half, or it would stay for ever.
        at_high = np.where(up & (side > 0), at_high / 2, np.where(up, at_high, at))
        at_low = np.where(~up & (side < 0), at_low / 2, np.where(up, at, at_low))
        low, high = np.where(up, out, low), np.where(up, high, out)
        side = np.where(up, 1, -1)
    return quantile(posterior, out), quantile(posterior, out + confidence)
