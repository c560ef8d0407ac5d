"""Prevalence inference: in what share of the population is there an effect.

The formulas of Allefeld, Goergen and Haynes (2016) [1]_, on arrays of p-values. What
goes in is p(m), the p-value of the minimum statistic m over N subjects under the global
null hypothesis that no subject has an effect, see `_group.recombined`.

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
    r"""p-values of the null hypothesis that the prevalence is at most gamma.

    Parameters
    ----------
    p : float or array, shape (positions...)
        Uncorrected p-values of the minimum statistic under the global null.
    n_subjects : int
        Number of subjects N.
    gamma : float, default=0.5
        Prevalence of the null hypothesis, at least 0 and less than 1. 0 is the global
        null, 0.5 the majority null: at most half of the population has an effect.
    corrected : float or array, shape (positions...) or None, default=None
        p-values of the same statistic under the global null, corrected for the number
        of positions. With them the result is corrected too.

    Returns
    -------
    p : float or array, shape (positions...)
        p-values of the prevalence null.

    Raises
    ------
    ValueError
        If gamma is not at least 0 and less than 1.

    Notes
    -----
    Uncorrected, Eq. 19 of [1]_, from the uncorrected p of the global null, Eq. 24:

    .. math:: p(m \mid \gamma) = \left((1 - \gamma) \, p(m)^{1/N} + \gamma\right)^N

    Corrected, Eq. 21, with :math:`p^*(m)` the p-value of the global null corrected by
    the maximum of the minimum statistic over positions, Eq. 26:

    .. math:: p^*(m \mid \gamma) = p^*(m) + (1 - p^*(m)) \, p(m \mid \gamma)

    This is the probability of at least one of two independent events: that the largest
    minimum statistic of all positions reaches m without any effect, or that the one
    here does with the prevalence gamma. So it is a little larger than p* even if gamma
    is 0.

    The paper's defaults are a level of 0.05 and the majority null; its program draws a
    million second-level permutations.

    References
    ----------
    .. [1] Allefeld, C., Goergen, K., & Haynes, J.-D. (2016). Valid population
       inference for information-based imaging: From the second-level t-test to
       prevalence inference. NeuroImage, 141, 378-392.

    Examples
    --------
    >>> float(prevalence_p(0.0001, 4).round(4))
    0.0915
    >>> float(prevalence_p(0.0001, 12).round(4))
    0.0237
    """
    check_share("gamma", gamma, zero=True)
    p = ((1 - gamma) * np.asarray(p, dtype=float) ** (1 / n_subjects) + gamma) ** (
        n_subjects
    )
    if corrected is None:
        return p
    return corrected + (1 - np.asarray(corrected, dtype=float)) * p


def prevalence_bound(p, n_subjects, alpha=0.05, corrected=None):
    r"""Largest prevalence whose null hypothesis is rejected, position by position.

    With confidence 1 - alpha the prevalence is larger than this bound.

    Parameters
    ----------
    p : float or array, shape (positions...)
        Uncorrected p-values of the minimum statistic under the global null.
    n_subjects : int
        Number of subjects N.
    alpha : float, default=0.05
        Significance level, above 0 and below 1. The default is the paper's.
    corrected : float or array, shape (positions...) or None, default=None
        p-values of the same statistic under the global null, corrected for the number
        of positions. With them the bound is corrected too: it holds at all positions
        at once.

    Returns
    -------
    gamma_0 : float or array, shape (positions...)
        Lower bound of the prevalence; NaN where not even a prevalence of 0 is rejected.
        Corrected, this is a little stricter than p* <= alpha, see `prevalence_p`.

    Raises
    ------
    ValueError
        If alpha is not above 0 and below 1.

    Notes
    -----
    Uncorrected, Eq. 20 of [1]_, which solves Eq. 19 (see `prevalence_p`) for the gamma
    at which it equals alpha:

    .. math:: \gamma_0 = \frac{\alpha^{1/N} - p(m)^{1/N}}{1 - p(m)^{1/N}}

    Corrected, Eq. 23: the same with :math:`\alpha^*`, Eq. 22, in place of alpha, where
    :math:`p^*(m)` is the corrected p-value of the global null:

    .. math:: \alpha^* = \frac{\alpha - p^*(m)}{1 - p^*(m)}

    References
    ----------
    .. [1] Allefeld, C., Goergen, K., & Haynes, J.-D. (2016). Valid population
       inference for information-based imaging: From the second-level t-test to
       prevalence inference. NeuroImage, 141, 378-392.

    Examples
    --------
    >>> prevalence_bound([0.0001, 0.04, 0.06], 12).round(3)
    array([0.588, 0.061,   nan])
    >>> prevalence_bound([0.0001, 0.04, 0.06], 12, corrected=[0.01, 0.9, 1.0]).round(3)
    array([0.562,   nan,   nan])
    """
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
    r"""Return the largest corrected bound that can come out of so many permutations.

    Parameters
    ----------
    n_subjects : int
        Number of subjects N.
    n_permutations : int
        Number of second-level permutations P, the neutral one not among them.
    alpha : float, default=0.05
        Significance level, above 0 and below 1.

    Returns
    -------
    gamma_0 : float
        Eq. 27 of [1]_: the corrected bound of `prevalence_bound` at the smallest
        p-value, 1 / (P + 1), both uncorrected and corrected. The paper's
        :math:`P_2` is P + 1. NaN if not even this p-value rejects a prevalence of 0.

    Raises
    ------
    ValueError
        If alpha is not above 0 and below 1.

    References
    ----------
    .. [1] Allefeld, C., Goergen, K., & Haynes, J.-D. (2016). Valid population
       inference for information-based imaging: From the second-level t-test to
       prevalence inference. NeuroImage, 141, 378-392.

    Examples
    --------
    >>> round(largest_bound(12, 9999), 3)
    0.587
    """
    smallest = 1 / (n_permutations + 1)
    return float(prevalence_bound(smallest, n_subjects, alpha, smallest))
