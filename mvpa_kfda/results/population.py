"""What a group says of people: how many have an effect, and how large its mean is."""

from __future__ import annotations

from numbers import Real
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from ..inference.null import ALTERNATIVES
from ..inference.prevalence import (
    Share,
    ShareDifference,
    densest,
    mode,
    quantile,
)
from ..utils.checks import check_flag, check_option, check_share
from ..utils.rounding import rounded
from ..viz.group import plot_shares
from .fields import figure_method, plain, record
from .places import Placed, Places

if TYPE_CHECKING:
    from pandas import DataFrame

#: The share of the population that a null hypothesis grants to have an effect.
NULLS = {"global": 0.0, "majority": 0.5}


@record
class _Bounds(Placed):
    """Low and high ends (positions...) at places, with a confidence."""

    low: Any
    high: Any
    confidence: float
    places: Places

    #: Columns of a table.
    _columns: ClassVar[tuple[str, ...]] = ("low", "high")

    def to_dataframe(self) -> DataFrame:
        """Return a table with one row per position.

        Returns
        -------
        table : pandas.DataFrame
            The position, and one column per map.
        """
        import pandas as pd  # slow to import, and only tables need it

        maps = {name: np.ravel(getattr(self, name)) for name in self._columns}
        return pd.DataFrame(self.places.columns() | maps)

    def _worded(self, low, high):
        """Word one interval, or at how many positions there are some."""
        share = f"{100 * self.confidence:g} %"
        if self.shape:
            return f"{share} intervals at {self.places.describe()}"
        return f"{share} interval from {rounded(low)} to {rounded(high)}"


@record
class _Shares(_Bounds):
    """Posterior of a share of a population, or of a difference of two."""

    mode: Any
    bound: Any

    _columns: ClassVar[tuple[str, ...]] = ("mode", "low", "high", "bound")

    plot = figure_method(plot_shares)

    def __repr__(self):
        """Describe the posterior in one line."""
        most = "" if self.shape else f"mode {rounded(self.mode)} | "
        return f"<{type(self).__name__}: {most}{self._worded(self.low, self.high)}>"


@record
class Prevalence(_Shares):
    r"""Posterior of the proportion of people with an effect, at each position.

    Made by :meth:`GroupResult.prevalence`.

    Parameters
    ----------
    mode : float or array, shape (positions...)
        The most probable proportion.
    low, high : float or array, shape (positions...)
        Limits of the highest-density interval, the shortest one that contains the
        proportion with probability `confidence`.
    bound : float or array, shape (positions...)
        A larger proportion has an effect with probability `confidence`.
    confidence : float
        The probability.
    places : Places
        The positions.
    found : array of bool, shape (S, positions...)
        Whether each subject is significant in their own permutation test.
    sizes : array, shape (S, positions...)
        Attained size of each subject's test: its rejection rate without an effect.
    alpha : float
        The level of these tests.

    Examples
    --------
    >>> import numpy as np
    >>> from mvpa_kfda import cross_validate, group_inference
    >>> rng = np.random.default_rng(0)
    >>> y = rng.permutation(["face", "house"] * 20)
    >>> results = [
    ...     cross_validate(
    ...         rng.normal(size=(40, 5)) + (y == "house")[:, None],
    ...         y,
    ...         n_permutations=99,
    ...         random_state=0,
    ...     )
    ...     for subject in range(10)
    ... ]
    >>> group_inference(results, random_state=0).prevalence()
    <Prevalence: mode 1.000 | 95 % interval from 0.752 to 1.000>
    """

    found: NDArray
    sizes: NDArray
    alpha: float

    is_difference: ClassVar[bool] = False

    @property
    def n_subjects(self) -> int:
        """Number of subjects N."""
        return len(self.found)

    @property
    def n_found(self) -> Any:
        """Number of significant subjects at each position."""
        return plain(self.found.sum(axis=0))

    def difference(self, other: Prevalence) -> PrevalenceDifference:
        r"""Return the posterior of the difference from the proportion of another group.

        The two groups must be independent samples of different people.

        Parameters
        ----------
        other : Prevalence
            The posterior of the other group, at the same positions.

        Returns
        -------
        difference : PrevalenceDifference
            This proportion minus the other one, with the confidence of this one.

        Raises
        ------
        TypeError
            If `other` is not a `Prevalence`.
        ValueError
            If its positions differ.

        Notes
        -----
        :math:`\Pr(\gamma_1 - \gamma_2 < d) = \int f_2(g) F_1(g + d) \, dg` is an
        integral of polynomials, computed exactly by Gaussian quadrature, without
        sampling.
        """
        if not isinstance(other, Prevalence):
            raise TypeError(
                "difference() takes what prevalence() of another group returns; got a "
                f"{type(other).__name__}."
            )
        if self.places.axes != other.places.axes:
            apart = other.places.describe()
        else:
            apart = self.places.difference(other.places)
        if apart:
            raise ValueError(
                f"Both shares must be of the same positions, but the other has {apart}."
            )
        both = self._counted & other._counted
        posterior = ShareDifference(self._at(both), other._at(both))
        return PrevalenceDifference(
            **_summary(posterior, self.confidence, both),
            confidence=self.confidence,
            places=self.places,
        )

    @property
    def _counted(self):
        """Where there are scores, bool like the map."""
        return ~np.isnan(self.sizes).any(axis=0)

    def _at(self, counted):
        """The posterior where positions count."""
        return Share.of(self.found[:, counted], self.sizes[:, counted])


@record
class PrevalenceDifference(_Shares):
    """Posterior of a difference of two proportions, see `Prevalence.difference`.

    Parameters
    ----------
    mode : float or array, shape (positions...)
        The most probable difference, from -1 to 1.
    low, high : float or array, shape (positions...)
        Limits of the shortest interval that contains it with probability `confidence`.
    bound : float or array, shape (positions...)
        The difference is larger with probability `confidence`.
    confidence : float
        The probability.
    places : Places
        The positions.

    Examples
    --------
    >>> import numpy as np
    >>> from mvpa_kfda import cross_validate, group_inference
    >>> rng = np.random.default_rng(0)
    >>> y = rng.permutation(["face", "house"] * 20)
    >>> shares = []
    >>> for effect in (1, 0):
    ...     results = [
    ...         cross_validate(
    ...             rng.normal(size=(40, 5)) + effect * (y == "house")[:, None],
    ...             y,
    ...             n_permutations=99,
    ...             random_state=0,
    ...         )
    ...         for subject in range(10)
    ...     ]
    ...     group = group_inference(results, random_state=0)
    ...     shares.append(group.prevalence())
    >>> difference = shares[0].difference(shares[1])
    >>> difference.low > 0.3
    True
    """

    is_difference: ClassVar[bool] = True


def find_prevalence(found, sizes, confidence, places, alpha):
    """The prevalence from tests (S, positions...) of each subject, and their sizes."""
    counted = ~np.isnan(sizes).any(axis=0)
    posterior = Share.of(found[:, counted], sizes[:, counted])
    maps = _summary(posterior, confidence, counted)
    shared = {"confidence": confidence, "places": places, "alpha": alpha}
    return Prevalence(**maps, found=found, sizes=sizes, **shared)


def _summary(posterior, confidence, counted):
    """Return mode, interval and bound as maps, NaN where nothing counts."""
    # Most positions of a map have the posterior of another one.
    unique, back = posterior.distinct()
    low, high = densest(unique, confidence)
    maps = {"low": low, "high": high, "mode": mode(unique)}
    maps["bound"] = quantile(unique, 1 - confidence)
    filled = {}
    for name, values in maps.items():
        filled[name] = np.full(np.shape(counted), np.nan)
        filled[name][counted] = values[back]
    return {name: plain(values) for name, values in filled.items()}


@record
class MeanInterval(_Bounds):
    """Interval for the mean across subjects, or for a difference, at each position.

    Made by :meth:`GroupResult.interval`.

    Parameters
    ----------
    mean : float or array, shape (positions...)
        The mean of these subjects, in units of the metric, or the difference.
    low, high : float or array, shape (positions...)
        Limits of the interval; infinite where it is open.
    confidence : float
        Its confidence.
    places : Places
        The positions.
    metric : str
        The metric.
    alternative : str
        "two-sided", "greater" (a lower bound) or "less" (an upper bound).
    simultaneous : bool
        Whether all intervals hold simultaneously.

    Examples
    --------
    >>> import numpy as np
    >>> from mvpa_kfda import cross_validate, group_inference
    >>> rng = np.random.default_rng(0)
    >>> y = rng.permutation(["face", "house"] * 20)
    >>> results = [cross_validate(rng.normal(size=(40, 5)), y) for subject in range(10)]
    >>> group = group_inference(results, "sign-flip", random_state=0)
    >>> bool(group.interval(alternative="less").high < 0.6)
    True
    """

    mean: Any
    metric: str
    alternative: str
    simultaneous: bool

    _columns: ClassVar[tuple[str, ...]] = ("mean", "low", "high")

    def __repr__(self):
        """Describe the interval in one line."""
        words = self._worded(self.low, self.high)
        mean = "" if self.shape else f"mean {self.metric} {rounded(self.mean)} | "
        at_once = " | at all of them at once" if self.simultaneous else ""
        return f"<MeanInterval: {mean}{words}{at_once}>"


def check_interval(confidence, alternative, simultaneous):
    """Check what is asked of an interval; return it by name."""
    check_share("confidence", confidence)
    check_option("alternative", alternative, ALTERNATIVES)
    return {
        "confidence": confidence,
        "alternative": alternative,
        "simultaneous": bool(check_flag("simultaneous", simultaneous)),
    }


def share_of(hypothesis):
    """The share of the population that a null hypothesis is about."""
    if isinstance(hypothesis, str):
        also = ("a share from 0 to 1",)
        return NULLS[check_option("hypothesis", hypothesis, NULLS, also)]
    real = isinstance(hypothesis, Real) and not isinstance(hypothesis, bool)
    if not real or not 0 <= hypothesis < 1:
        raise ValueError(
            f"Invalid value for 'hypothesis': {hypothesis!r}. Allowed: 'global', "
            "'majority', or a share of the population, at least 0 and below 1."
        )
    return float(hypothesis)
