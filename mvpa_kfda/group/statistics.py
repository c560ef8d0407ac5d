"""Statistics over subjects by theory, and what any null says of a map.

Their exchanges are in `inference.exchange`.
"""

from dataclasses import dataclass
from functools import reduce

import numpy as np
from scipy import stats

from ..inference.corrections import CORRECTIONS, correct, nearest_to_zero
from ..inference.discoveries import calibrate
from ..inference.exchange import (
    STATISTICS,
    Exchange,
    draw_signs,
    tidied,
)
from ..inference.null import ALTERNATIVES, Null, count_p
from ..utils.checks import check_option

#: Up to so many subjects the signed-rank test is exact: without ties by its known
#: distribution, with ties by listing the signs. SciPy's bounds.
_EXACT, _LISTED = 50, 13

#: The rank-sum test without ties is exact if one group is not larger. SciPy's bound.
_EXACT_GROUP = 8


def parametric_p(first, second=None, statistic="t", alternative="greater"):
    """Return p-values (C,) of values (S, C), against 0 or (S2, C), by distribution."""
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
    """The p-values (C,) of n subjects against 0."""
    flips = Exchange(values, np.ones((1, n)), statistic)
    if statistic == "t":
        return _tail(flips.observed, stats.t(n - 1), alternative)
    p = _tail(flips.observed, stats.norm(), alternative)
    tied = _tied(np.abs(values)) | (values == 0).any(axis=0)
    if n <= _EXACT and not tied.all():
        p[~tied] = stats.wilcoxon(
            values[:, ~tied], alternative=alternative, method="exact", axis=0
        ).pvalue
    if n <= _LISTED and tied.any():
        flips = Exchange(values[:, tied], draw_signs(n, 2**n), statistic)
        null = Null(flips.observed, flips, alternative=alternative, height=1.0)
        p[tied] = count_p(null.exceedances, null.n_permutations)
    return p


def _two_groups(values, n, statistic, alternative):
    """The p-values (C,) of the first n subjects against the others."""
    if statistic == "t":
        labels = np.arange(len(values))[np.newaxis] < n
        t = Exchange(values, labels).observed
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
    """The probability of a value that is at least as extreme."""
    if alternative == "two-sided":
        return 2 * distribution.sf(np.abs(statistic))
    return distribution.sf(-statistic if alternative == "less" else statistic)


def _tied(values):
    """Tell which columns hold a value twice."""
    return (np.diff(np.sort(values, axis=0), axis=0) == 0).any(axis=0)


# ----------------------------------------------------------------- what a null says


#: Scores that a group ranks for true discoveries, about: those of as many permutations
#: as there are, or of the first ones, but of a thousand at least.
_RANKED, _LEAST_RANKED = 2**25, 1000


def calibrate_rows(null):
    """The `Calibration` of a `Null`, by its first rows where it is large.

    Second-level permutations are many more than a bound of many positions needs, and to
    rank all of them may take longer than all else. Which rows are taken depends on the
    number of positions alone, and so leaves them exchangeable.
    """
    n = max(_LEAST_RANKED, _RANKED // max(1, null.observed.size))
    return calibrate(null if n >= null.n_permutations else null.first(n))


@dataclass(frozen=True)
class MapTest:
    """A map of C positions, tested: p-values by correction, and the P maxima."""

    statistic: np.ndarray
    p: dict
    #: The most extreme statistic of each permutation, turned as the alternative says.
    null_max: np.ndarray
    observed_max: float
    #: The map that clusters are formed of, and at which height; None if not needed.
    cluster_scores: np.ndarray | None = None
    cluster_height: float = np.nan
    #: At how many positions subjects score so much alike that t has a larger variance.
    n_alike: int = 0
    #: How many tests had to reject.
    n_tests: int = 1
    #: Of the minimum: the p-values (S, C) of the subjects, the larger of two tests.
    p_of_minimum: np.ndarray | None = None
    #: What bounds of true discoveries need of each null, see `calibrate_rows`.
    calibrations: tuple = ()
    #: Mean scores of permuted labels (S, C) that were tested against; None: chance.
    permuted_means: np.ndarray | None = None

    def fields(self, expand):
        """What results record of it; `expand` makes maps of values (..., C)."""
        of_clusters = self.cluster_scores
        return {
            "statistic": expand(self.statistic),
            "p_maps": {name: expand(p) for name, p in self.p.items()},
            "observed_max": self.observed_max,
            "null_max": self.null_max,
            "n_permutations": len(self.null_max),
            "cluster_scores": None if of_clusters is None else expand(of_clusters),
            "cluster_height": self.cluster_height,
        }

    @classmethod
    def of(cls, nulls, corrections):
        """Test the observed maps of nulls, which all have to pass, by corrections."""
        first, scores = nulls[0], None
        needed = any(CORRECTIONS[name].standardised for name in corrections)
        # Standardised ones take another reading of the null, which only these make.
        if needed or not first.standardised:
            scores = nearest_to_zero(nulls).ravel()
        return cls(
            first.observed.ravel(),
            {name: np.ravel(correct(nulls, name)) for name in sorted(corrections)},
            reduce(np.maximum, [null.maximum for null in nulls]),
            max(float(null.values.max()) for null in nulls),
            scores,
            first.height,
            n_tests=len(nulls),
        )
