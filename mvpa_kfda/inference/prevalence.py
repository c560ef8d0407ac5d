"""Prevalence inference: in what share of the population is there an effect.

The formulas of Allefeld, Goergen and Haynes (2016) [1]_, on arrays of p-values. What
goes in is p(m), the p-value of the minimum statistic m over N subjects under the global
null hypothesis that no subject has an effect, see `group.recombined`.

The prevalence gamma is the proportion of the population that has an effect. A subject
with an effect is granted the best it can do, to reach m with certainty; one without
reaches it with probability p(m) ** (1 / N). So a prevalence of at most gamma gives
subjects who reach m with probability (1 - gamma) p(m) ** (1 / N) + gamma at most, and N
of them with the N-th power of that.

References
----------
.. [1] Allefeld, C., Goergen, K., & Haynes, J.-D. (2016). Valid population inference
   for information-based imaging: From the second-level t-test to prevalence inference.
   NeuroImage, 141, 378-392.
"""

import numpy as np

from ..utils.checks import check_share


def prevalence_p(p, n_subjects, gamma=0.5, corrected=None):
    """Return p-values of a prevalence up to gamma: Eq. 19; corrected, Eq. 21."""
    check_share("gamma", gamma, zero=True)
    p = ((1 - gamma) * np.asarray(p, dtype=float) ** (1 / n_subjects) + gamma) ** (
        n_subjects
    )
    if corrected is None:
        return p
    return corrected + (1 - np.asarray(corrected, dtype=float)) * p


def prevalence_bound(p, n_subjects, alpha=0.05, corrected=None):
    """Return the largest prevalence rejected, or NaN: Eq. 20; corrected, Eq. 23."""
    check_share("alpha", alpha)
    level = np.float64(alpha)
    if corrected is not None:
        corrected = np.asarray(corrected, dtype=float)
        with np.errstate(divide="ignore"):  # a p of 1 makes the level minus infinity
            level = (alpha - corrected) / (1 - corrected)
    p, level = np.broadcast_arrays(np.asarray(p, dtype=float), level)
    rejected = p <= level
    root = p[rejected] ** (1 / n_subjects)
    bound = np.full(p.shape, np.nan)
    bound[rejected] = (level[rejected] ** (1 / n_subjects) - root) / (1 - root)
    return bound[()]


def largest_bound(n_subjects, n_permutations, alpha=0.05):
    """Return the largest corrected bound that P permutations can show: Eq. 27."""
    smallest = 1 / (n_permutations + 1)
    return float(prevalence_bound(smallest, n_subjects, alpha, smallest))
