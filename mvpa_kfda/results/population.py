"""What a group says of people: how many have an effect, and how large its mean is."""

from __future__ import annotations

from numbers import Real
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from ..inference.corrections import (
    ADJUSTMENTS,
    CORRECTIONS,
    CorrectionName,
    adjust,
    smallest_p_value,
)
from ..inference.exchange import FEWEST_SUBJECTS, interval_of_mean
from ..inference.null import ALTERNATIVES, Alternative
from ..inference.prevalence import (
    Share,
    ShareDifference,
    densest,
    mode,
    order_p,
    prevalence_bound,
    prevalence_p,
    quantile,
)
from ..utils.checks import check_flag, check_option, check_share, counted
from ..utils.rounding import rounded
from ..viz.group import plot_shares
from .fields import figure_method, plain, record
from .places import Placed, Places

if TYPE_CHECKING:
    from pandas import DataFrame

#: Where a prevalence is asked for: at each position, or at any of them.
WHERE = ("each", "anywhere")

#: Corrections in whose place Holm's is taken for a share of the population.
BY_HOLM = ("max", "max-step-down")

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


class PopulationMixin:
    """A result of subjects, with their scores and own p-values; before `TestedMap`."""

    def prevalence(
        self, confidence: float = 0.95, *, where: Literal["each", "anywhere"] = "each"
    ) -> Prevalence:
        r"""Return the posterior of the proportion of people with an effect.

        Each of the N subjects is tested separately for scores above those of permuted
        labels; k of them are significant, with p <= `alpha` of this result [1]_. The
        posterior is that of the proportion in the population.

        Parameters
        ----------
        confidence : float
            Probability of the interval, and of the lower bound.
        where : {"each", "anywhere"}
            "each": the proportion at each position separately. "anywhere": one
            proportion of people with an effect at any position, from each subject's
            smallest p-value corrected with the maximum over positions.

        Returns
        -------
        prevalence : Prevalence
            With ``mode``, ``low``, ``high`` and ``bound``, each of the shape of the map
            (a number for "anywhere"), ``plot()``, ``to_dataframe()`` and
            ``difference(other)``.

        Raises
        ------
        ValueError
            If the method does not keep the subject-level tests, if a subject has too
            few permutations for p <= `alpha`, or if `confidence` is not between 0 and
            1.

        Notes
        -----
        A subject's test rejects with probability :math:`\theta = \alpha + (1 - \alpha)
        \gamma`, if gamma is the proportion of people with an effect and all of these
        are detected. With a flat prior, theta has the distribution Beta(k + 1, N - k +
        1), truncated to [alpha, 1]. alpha is the *attained* size: scores are discrete,
        so a test at 0.05 may reject in 2 to 4% of cases without an effect. It is the
        proportion of a subject's observed and permuted maps that would be significant
        in place of the observed one. Sizes differ between subjects and positions, so
        each enters separately in the density proportional to :math:`(1 - \gamma)^{N -
        k} \prod_{n \in K} (\alpha_n + (1 - \alpha_n) \gamma)` over the significant
        subjects K; with equal sizes this is the distribution above. The interval is the
        highest-density interval, as in the paper.

        **Limitations.** The proportion refers to effects that *this experiment detects*
        in one person: with few trials it is small, and more trials raise it. The bound
        does not test whether anybody has an effect: with this prior it is above 0 even
        if nobody is significant. It holds for one position chosen beforehand, or
        "anywhere"; it is not corrected for multiple positions, so the largest bound of
        a map is too large. And it is a posterior probability under a flat prior, not a
        p-value: to test for a majority, use ``method="i-test"`` or "prevalence".

        References
        ----------
        .. [1] Ince, R. A. A., Paton, A. T., Kay, J. W., & Schyns, P. G. (2021).
           Bayesian inference of population prevalence. eLife, 10, e62461.
        """
        check_share("confidence", confidence)
        check_option("where", where, WHERE)
        if self.subject_p is None:
            raise ValueError(
                f"The method {self.method!r} does not test subjects by permutations of "
                "their own. Use group_inference(results, method='i-test'), or "
                "'prevalence' or 'bootstrap', with results that have permutations."
            )
        coarse = self.smallest_p_by_subject > self.alpha * (1 + 1e-12)
        if np.any(coarse):
            n = int(np.count_nonzero(coarse))
            raise ValueError(
                f"{counted(n, 'subject')} of {self.n_subjects} cannot have p <= "
                f"{self.alpha:g} with so few label permutations (first "
                f"{self.subjects[np.argmax(coarse)]!r}). Decode again with "
                "n_permutations=100 or more."
            )
        p, sizes, places = self.subject_p, self.subject_sizes, self.places
        if where == "anywhere":
            own = self.parameters["anywhere"]
            p, sizes = np.asarray(own["p"]), np.asarray(own["size"])
            places = Places(places.kind, {}, {})
        found = p <= self.alpha * (1 + 1e-12)
        counted_at = ~np.isnan(sizes).any(axis=0)
        posterior = Share.of(found[:, counted_at], sizes[:, counted_at])
        return Prevalence(
            **_summary(posterior, confidence, counted_at),
            confidence=confidence,
            places=places,
            found=found,
            sizes=sizes,
            alpha=self.alpha,
        )

    def interval(
        self,
        confidence: float = 0.95,
        *,
        alternative: Alternative = "two-sided",
        simultaneous: bool = False,
    ) -> MeanInterval:
        r"""Return an interval for the mean across subjects, by inverting sign flips.

        Parameters
        ----------
        confidence : float
            Confidence of the interval.
        alternative : {"two-sided", "greater", "less"}
            "two-sided": both limits. "greater": only a lower bound; "less": only an
            upper one, such as "below 0.53 with 95% confidence".
        simultaneous : bool
            Whether the intervals of all positions hold simultaneously, with this
            confidence.

        Returns
        -------
        interval : MeanInterval
            With ``low``, ``high`` and ``mean``, each of the shape of the map, in units
            of the metric; for two groups or conditions, of the difference.

        Raises
        ------
        ValueError
            If there are fewer than 6 subjects, or too few for this confidence; or if an
            argument is not valid.

        Notes
        -----
        At each position separately, the interval contains every mu for which a
        sign-flip test of :math:`x_i - \mu` does not reject, with the same flips for
        each mu: all of them if there are at most 10,000, else 10,000 drawn from the
        seed of this result. The limits are exact: each flip begins to count at one mu,
        the mean of the subjects whose sign it flips [1]_. For two groups of people,
        group labels are permuted after shifting one group by mu [2]_; for two
        conditions, differences are flipped.

        `simultaneous` intervals are :math:`\bar x \pm q s / \sqrt N` with the quantile
        q of the largest t over positions when the signs of :math:`x_i - \bar x` are
        flipped, or their group labels permuted.

        An upper bound limits how large the mean can be. Equivalence (the mean is within
        given limits, at level alpha) needs no other test: the two-sided interval with
        confidence 1 - 2 alpha has to lie within these limits.

        **Assumptions and limitations.** Values must be distributed symmetrically about
        mu, or equally in two groups except for mu. Scores of a population in which few
        people have an effect are not symmetric: with 15% having an effect of 4 standard
        deviations, 95% intervals covered the mean in 91 to 94% of simulations, with an
        effect of 10 standard deviations in 76% (6 people), 81% (10) and 90% (20), since
        a sample may contain nobody who has it. Where they missed the mean, it was
        nearly always above. **At 30 positions simultaneously, all of them held in only
        65 to 85%, and in half of the samples or fewer if those with an effect are that
        far out.** The interval is best suited to differences
        between conditions, which are symmetric. It concerns the *mean* of the
        population: the effect in one person may be far outside. And a mean accuracy is
        specific to the number of trials; it is not the highest accuracy attainable.

        References
        ----------
        .. [1] Hartigan, J. A. (1969). Using subsample values as typical values. Journal
           of the American Statistical Association, 64(328), 1303-1317.
        .. [2] Garthwaite, P. H. (1996). Confidence intervals from randomization tests.
           Biometrics, 52(4), 1387-1393.
        """
        asked = check_interval(confidence, alternative, simultaneous)
        others = None if self.paired else self.other_scores
        n = self.n_subjects + (0 if others is None else len(others))
        if n < FEWEST_SUBJECTS:
            raise ValueError(
                f"An interval takes {FEWEST_SUBJECTS} subjects or more; there are {n}."
            )
        counted_at = self.counted
        values = self.subject_scores[:, counted_at]
        if self.paired and self.other_scores is not None:
            values = values - self.other_scores[:, counted_at]
        ends = interval_of_mean(
            values,
            None if others is None else others[:, counted_at],
            **asked,
            random_state=self.parameters["random_state"],
        )
        mean = plain(np.where(counted_at, self.scores, np.nan))
        return self._interval(mean, ends, asked)

    @property
    def gamma_0(self) -> NDArray:
        """The prevalence bound at `alpha`, for all positions unless uncorrected.

        NaN where not even a prevalence of 0 is rejected, see `prevalence_bound`. It
        never exceeds `largest_gamma_0`.
        """
        return self.prevalence_bound()

    def prevalence_bound(
        self, correction: CorrectionName | None = None, alpha: float | None = None
    ) -> NDArray:
        r"""Return a lower confidence bound on the prevalence of an effect.

        The lower limit of a one-sided confidence interval for the prevalence
        :math:`\gamma`: every smaller proportion is rejected. It is the :math:`\gamma`
        at which the uncorrected p-value of `pvalues`, :math:`p_\gamma`, equals
        :math:`\alpha_*`; if all :math:`p_k` are equal, :math:`p_k = p^{1/N}`, it is Eq.
        20 of [1]_:

        .. math::
            \prod_{k=1}^{N} (\gamma_0 + (1 - \gamma_0) p_k) = \alpha_*, \qquad
            \gamma_0 = \frac{\alpha_*^{1/N} - p^{1/N}}{1 - p^{1/N}}

        For one position, :math:`\alpha_* = \alpha`. For all V positions simultaneously,
        :math:`\alpha_* = \alpha / V`: each bound exceeds the true prevalence with a
        probability of at most :math:`\alpha / V`, hence any of them does with a
        probability of at most :math:`\alpha`, whatever the prevalences and the
        dependence between positions. Holm's method, which tests one proportion at all
        positions, does not provide such bounds; `pvalues` may therefore reject the
        majority null where the bound is slightly below 0.5.

        Parameters
        ----------
        correction : str or None
            "none": a separate bound for each position, valid for one chosen beforehand.
            None takes the requested correction. Any other: bounds that hold at all
            positions simultaneously.
        alpha : float or None
            Significance level; None takes that of the result.

        Returns
        -------
        bound : array, shape (positions...)
            Between 0 and 1; NaN where not even a prevalence of 0 is rejected.

        Raises
        ------
        AttributeError
            If the method is not "prevalence".
        ValueError
            If `alpha` is not between 0 and 1, or the correction is unknown.

        References
        ----------
        .. [1] Allefeld, C., Goergen, K., & Haynes, J.-D. (2016). Valid population
           inference for information-based imaging: From the second-level t-test to
           prevalence inference. NeuroImage, 141, 378-392.
        """
        if self.method != "prevalence":
            raise AttributeError(
                f"The method {self.method!r} gives no bound of the prevalence; use "
                'group_inference(results, method="prevalence").'
            )
        alpha = check_share("alpha", self.alpha if alpha is None else alpha)
        level = alpha / self.n_positions_tested(correction)
        return self._filled(prevalence_bound(self._p_by_subject, level))

    @property
    def largest_gamma_0(self) -> float:
        """The largest prevalence bound attainable with these subjects at `alpha`.

        It is reached if all subjects exceed all of their permutations. More subjects or
        fewer positions raise it; more permutations per subject raise it slightly.
        """
        level = self.alpha / self.n_positions_tested()
        return float(prevalence_bound(self.smallest_p_by_subject, level))

    def smallest_p(
        self, correction: str = "none", n_positions: int = 1, metric: str | None = None
    ) -> float:
        """Return the smallest p-value attainable with the permutations; 0 if unknown.

        Parameters
        ----------
        correction : str
            Correction for testing many positions.
        n_positions : int
            Number of positions that are tested.
        metric : str or None
            Name of the metric; some have fewer distinct permutations.

        Returns
        -------
        p : float
            The smallest attainable p-value.
        """
        if correction not in CORRECTIONS:  # the clusters of the bootstrap
            return 0.0
        ordered = self.order is not None
        product = self.method == "prevalence" and self.p_of_minimum is not None
        computed = correction in ("none", *ADJUSTMENTS)
        if not (product or ordered) or not computed:
            return super().smallest_p(correction, n_positions, metric)
        least = float(prevalence_p(self.smallest_p_by_subject, 0.0))
        if ordered:
            share = self.parameters["hypothesis"]
            least = float(order_p(self.smallest_p_by_subject, self.order, share))
        return smallest_p_value(1 / least - 1, n_positions, correction)

    @property
    def smallest_p_by_subject(self) -> Any:
        """The smallest p-values (S,) attainable with the subjects' permutations."""
        least = self.parameters.get("first_level_smallest_p")
        return np.zeros(self.n_subjects) if least is None else np.asarray(least)

    def n_positions_tested(self, correction: str | None = None) -> int:
        """Return the number of positions at which the prevalence bound holds.

        Parameters
        ----------
        correction : str or None
            Correction of the p-values.

        Returns
        -------
        n : int
            Number of positions.
        """
        if self.correction_name(correction) == "none":
            return 1
        return max(1, int(np.count_nonzero(self.counted)))

    @property
    def _p_by_subject(self):
        """The p-values (N, C) of the minimum, at the positions that count."""
        n, counted = self.n_subjects, self.counted
        if self.p_of_minimum is not None:
            return self.p_of_minimum[:, counted]
        return np.tile(self.p_maps["none"][counted] ** (1 / n), (n, 1))

    def _share(self, hypothesis):
        """The share of the population that the null hypothesis is about."""
        if hypothesis is None:
            return 0.0
        share = share_of(hypothesis)
        if share and self.method != "prevalence":
            raise ValueError(
                f"The method {self.method!r} has no null hypothesis about a share of "
                'the population; use group_inference(results, method="prevalence").'
            )
        return share

    def _p_of_share(self, gamma, name):
        """The p-values of a share of the population above 0, by correction."""
        name = "holm" if name in BY_HOLM else name
        if name not in ("none", *ADJUSTMENTS):
            raise ValueError(
                f"The correction {name!r} tests the global null hypothesis only. For a "
                "share of the population use 'max', which takes Holm's method, 'none', "
                "'bonferroni', 'holm', 'fdr' or 'fdr-by', or hypothesis='global'."
            )
        p = prevalence_p(self._p_by_subject, gamma)
        return self._filled(p if name == "none" else adjust(p, name))
