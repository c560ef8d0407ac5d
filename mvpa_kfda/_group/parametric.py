"""Tests over subjects that take the null distribution from theory."""

import numpy as np
from scipy import stats

from .._checks import check_option
from .._inference.null import ALTERNATIVES, FullNull, count_p
from .exchange import STATISTICS, LabelExchange, SignFlips, draw_signs, tidied

#: Up to so many subjects the signed-rank test is exact: without ties by its known
#: distribution, with ties by listing the signs. SciPy's bounds.
_EXACT, _LISTED = 50, 13

#: The rank-sum test without ties is exact if one group is not larger. SciPy's bound.
_EXACT_GROUP = 8


def parametric_p(first, second=None, statistic="t", alternative="greater"):
    """Return p-values of a test at every position, one by one.

    Parameters
    ----------
    first : array, shape (S, C)
        Differences of subjects from 0, or the values of the first group.
    second : array, shape (S2, C), or None, default=None
        The values of the second group.
    statistic : {"t", "wilcoxon"}, default="t"
        Student's t-test for one group or, with equal variances, for two; or Wilcoxon's
        signed-rank test for one group and the rank-sum test of Mann and Whitney for
        two.
    alternative : {"greater", "less", "two-sided"}, default="greater"
        Whether the differences are above 0, or the first group above the second.

    Returns
    -------
    p : array, shape (C,)
        p-values, not corrected for the number of positions; 1 where all differences
        are 0, or all values the same.

    Raises
    ------
    ValueError
        If the statistic or the alternative is not known.

    Notes
    -----
    The signed-rank test leaves zeros out. It is exact up to 50 subjects without ties
    and zeros, up to 13 with them, and else by the normal approximation. The rank-sum
    test is exact without ties if a group has at most 8 subjects, and else by the normal
    approximation with continuity correction. These are the choices of
    :func:`scipy.stats.wilcoxon` and :func:`scipy.stats.mannwhitneyu`, made for each
    position by itself. t is finite where all differences are the same, see
    :class:`SignFlips`.

    Examples
    --------
    >>> import numpy as np
    >>> parametric_p(np.array([[0.1, 0.0], [0.3, 0.0], [0.2, 0.0]])).round(4)
    array([0.0371, 1.    ])
    """
    check_option("statistic", statistic, STATISTICS)
    check_option("alternative", alternative, ALTERNATIVES)
    n, values = len(first), first
    if second is not None:
        values = np.concatenate([first, second])
    values = tidied(values)
    spread = values if second is None else values - values[0]
    varied = np.flatnonzero(spread.any(axis=0))
    p = np.ones(values.shape[1])
    if len(varied):
        test = _one_group if second is None else _two_groups
        p[varied] = test(values[:, varied], n, statistic, alternative)
    return p


def _one_group(values, n, statistic, alternative):
    flips = SignFlips(values, np.ones((1, n)), statistic)
    if statistic == "t":
        return _tail(flips.observed, stats.t(n - 1), alternative)
    p = _tail(flips.observed, stats.norm(), alternative)
    tied = _tied(np.abs(values)) | (values == 0).any(axis=0)
    if n <= _EXACT and not tied.all():
        p[~tied] = stats.wilcoxon(
            values[:, ~tied], alternative=alternative, method="exact", axis=0
        ).pvalue
    if n <= _LISTED and tied.any():
        flips = SignFlips(values[:, tied], draw_signs(n, 2**n), statistic)
        null = FullNull(flips.observed, flips, alternative=alternative, height=1.0)
        p[tied] = count_p(null.exceedances, null.n_permutations)
    return p


def _two_groups(values, n, statistic, alternative):
    if statistic == "t":
        labels = np.arange(len(values))[np.newaxis] < n
        t = LabelExchange(values, labels).observed
        return _tail(t, stats.t(len(values) - 2), alternative)
    p = np.empty(values.shape[1])
    approximate = _tied(values) | (min(n, len(values) - n) > _EXACT_GROUP)
    for method, chosen in (("exact", ~approximate), ("asymptotic", approximate)):
        if chosen.any():
            first, second = np.split(values[:, chosen], [n])
            p[chosen] = stats.mannwhitneyu(
                first, second, alternative=alternative, method=method, axis=0
            ).pvalue
    return p


def _tail(statistic, distribution, alternative):
    """Return the probability of a value that is at least as extreme."""
    if alternative == "two-sided":
        return 2 * distribution.sf(np.abs(statistic))
    return distribution.sf(-statistic if alternative == "less" else statistic)


def _tied(values):
    """Tell which columns hold a value twice."""
    return (np.diff(np.sort(values, axis=0), axis=0) == 0).any(axis=0)
