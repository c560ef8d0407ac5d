r"""Prevalence inference: in what share of the population is there an effect.

After Allefeld, Goergen and Haynes (2016) [1]_, on arrays of p-values. The statistic is
the minimum m over N subjects. :math:`p_k` is the probability that subject k reaches m
without an effect, see `group.recombined`.

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

References
----------
.. [1] Allefeld, C., Goergen, K., & Haynes, J.-D. (2016). Valid population inference
   for information-based imaging: From the second-level t-test to prevalence inference.
   NeuroImage, 141, 378-392.
"""

import numpy as np

from ..utils.checks import check_share

#: Newton's method doubles the correct digits in each step, once it is near.
_MOST_STEPS = 100


def prevalence_p(p_of_minimum, gamma=0.5):
    """Return p-values (...) of a prevalence up to gamma, by those of subjects (N, ...).

    Examples
    --------
    >>> float(prevalence_p([0.1, 0.2], gamma=0.5).round(2))  # 0.55 times 0.6
    0.33
    """
    check_share("gamma", gamma, zero=True)
    p = np.asarray(p_of_minimum, dtype=float)
    # The product of very many may be too small for a float, but no p-value is 0.
    return np.maximum(np.prod(gamma + (1 - gamma) * p, axis=0), np.finfo(float).tiny)


def prevalence_bound(p_of_minimum, alpha=0.05):
    """Return the largest prevalence rejected at levels alpha (...), NaN without any.

    Examples
    --------
    >>> float(prevalence_bound([0.01, 0.01], alpha=0.25).round(4))  # 0.5 is 0.01 + 0.49
    0.4949
    """
    p = np.asarray(p_of_minimum, dtype=float)
    level = np.broadcast_to(np.asarray(alpha, dtype=float), p.shape[1:])
    rejected = prevalence_p(p, 0) <= level
    bound = np.full(level.shape, np.nan)
    bound[rejected] = _solve(p[:, rejected], np.log(level[rejected]))
    return bound[()]


def _solve(p, log_level):
    """Return the gamma (C,) at which the log of the product is that of the level."""
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
    return gamma
