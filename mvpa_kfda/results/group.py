"""Results of tests: of groups of subjects, and between two results of a subject.

What a group says of people, how many have an effect and how large its mean is, comes
first.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field
from numbers import Real
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..inference.corrections import (
    ADJUSTMENTS,
    CORRECTIONS,
    CorrectionName,
    CorrectionNames,
    adjust,
    check_correction,
    names_in,
    smallest_p_value,
)
from ..inference.discoveries import Calibration
from ..inference.exchange import (
    FEWEST_SUBJECTS,
    interval_of_difference,
    interval_of_mean,
)
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
from ..metrics.pairs import TABLES
from ..metrics.scores import mean_of_permuted
from ..utils.checks import check_flag, check_option, check_share, counted, quoted
from ..utils.problems import word_told
from ..utils.rounding import rounded
from ..viz.group import plot_group, plot_null_max, plot_shares
from ..viz.interactive import view_map
from ..viz.style import DEFAULT_NAMES, DEFAULT_RESULTS
from .base import ScoreMap
from .clusters import cluster_table, levels_of, of_sides, refuse_single
from .dissimilarity import MatricesMixin
from .fields import figure_method, plain, record, result_kind
from .finding import Finding
from .images import peak_table
from .places import Placed, Places, unpack_places
from .procedure import OptionsMixin
from .views import OF_P, make_image, make_source_estimate, map_of

if TYPE_CHECKING:
    from mne import Info
    from pandas import DataFrame

    from ..viz.interactive import Colormap


# ---------------------------------------------------------- what is said of people


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


# ---------------------------------------------------------------------- tested maps


@record
class TestedMap(Placed, ScoreMap):
    """A map of scores with their p-values, independent of the null distribution.

    A subclass has the `scores`, says in `metrics` what else it has a map of, and in
    `description` in a few words what they were computed from.

    Parameters
    ----------
    metric : str
        The metric of the scores.
    method : str
        The method of the test.
    correction : tuple of str
        The requested corrections; the first is the default of `pvalues`.
    alternative : str
        "greater", "less" or "two-sided".
    alpha : float
        Significance level of the figures.
    places : Places
        The positions: `kind`, `axes`, `coordinates` and, in a brain, `geometry`.
    chance : float
        Chance level of the scores; 0 for differences.
    score_chance : float
        Chance level of what the differences are between.
    statistic : array, shape (positions...)
        What was tested.
    p_maps : dict of str -> array, shape (positions...)
        Correction -> p-values.
    observed_max : float
        The most extreme statistic across positions: the largest, the largest of its
        negative ("less"), or the largest distance from its centre ("two-sided").
    null_max : array, shape (P,)
        The same for each permutation; empty if none were needed.
    n_permutations : int
        Number of permutations P.
    parameters : dict
        The arguments of the analysis.
    versions : dict of str -> str
        Versions of the packages that made the result.
    cluster_scores : array, shape (positions...), or None
        The map that clusters are formed from: the statistic if it is t or a normal
        deviate, else the statistic in standard deviations over permutations; if two
        tests have to reject, the one nearer to zero. None if not needed.
    cluster_height : float
        Cluster-forming threshold of `cluster_scores`.
    ranks : array of int, shape (T, positions...)
        For true discoveries: the number of rows (the observed map and those of the
        permutations) that reach the observed one, in each of the T tests that have to
        reject; 0 where a test does not apply. For maps of many positions, only the
        first rows, at least a thousand. T is 0 if no permutations were needed.
    rank_statistics : array, shape (T, n_rows)
        The statistic of the ranks of each row, the observed one first.
    """

    #: What gives this result, in error messages.
    made_by: ClassVar[str]

    #: Mean scores of permuted labels (S, positions...) that were tested against.
    permuted_means = None

    def _permuted_mean(self, metric):
        """The mean score of permuted labels where it is not the chance level."""
        known = self.parameters.get("permuted_mean")
        of_scores = metric == self.metric and not self.is_difference
        return float(known[0]) if known and of_scores else np.nan

    def null_level(self, metric: str) -> Any:
        """Return where scores are without an effect.

        Parameters
        ----------
        metric : str
            Name of the metric.

        Returns
        -------
        level : float or array, shape (positions...)
            The mean of permuted labels where it is not the chance level, or chance.
        """
        if metric == self.metric and self.permuted_means is not None:
            return self.permuted_means.mean(axis=0)
        return super().null_level(metric)

    @property
    def worded_level(self) -> str:
        """What scores without an effect are at, as the end of a sentence."""
        at_chance = self.permuted_means is None and np.isnan(self.permuted_mean())
        return "chance" if at_chance else f"the {mean_of_permuted(self.metric)}"

    #: pytest takes any class of this name for tests.
    __test__: ClassVar[bool] = False

    metric: str
    method: str
    correction: tuple[str, ...]
    alternative: str
    alpha: float
    places: Places
    chance: float
    score_chance: float
    statistic: NDArray
    p_maps: dict[str, NDArray]
    observed_max: float
    null_max: NDArray
    n_permutations: int
    parameters: dict[str, Any]
    versions: dict[str, str]
    cluster_scores: NDArray | None = None
    cluster_height: float = np.nan
    ranks: NDArray = field(default_factory=lambda: np.empty(0))
    rank_statistics: NDArray = field(default_factory=lambda: np.empty(0))

    def __post_init__(self):
        """Normalize the values, which may come from a file, and check the shapes."""
        self._convert(unpack_places, "places")
        super().__post_init__()
        wrong = [name for name, p in self.p_maps.items() if p.shape != self.shape]
        if "none" not in self.p_maps or wrong or self.statistic.shape != self.shape:
            raise ValueError(
                f"A {type(self).__name__} with positions {self.shape} needs p-values "
                "and a statistic of that shape, the uncorrected p-values among them; "
                f"got {list(self.p_maps)}, of other shapes: {wrong}."
            )

    def _content(self):
        """Map the names of the fields to plain values."""
        return super()._content() | {"places": self.places.pack()}

    @property
    def axes(self) -> dict[str, str]:
        """Fields of the coordinates, and the names of their table columns."""
        return self.places.axes

    @property
    def metrics(self) -> dict[str, Any]:
        """All maps by name: the scores first, then the statistic."""
        return {self.metric: self.scores, "statistic": self.statistic}

    @property
    def chances(self) -> dict[str, float]:
        """Centre of the colormap of each map, NaN if it has none."""
        middle = np.nan if self._skewed else 0.0
        return {self.metric: self.chance, "statistic": middle}

    #: Whether the statistic has no value of its own for "no effect".
    _skewed: ClassVar[bool] = False

    @property
    def _maps(self):
        """The columns of a table with all maps."""
        return self.metrics

    @property
    def counted(self) -> NDArray:
        """Whether a position has scores, a boolean array of the shape of the map."""
        return ~np.isnan(self.p_maps["none"])

    @property
    def decoded(self) -> NDArray:
        """Whether a position has scores; the name that brain figures use."""
        return self.counted

    @property
    def info(self) -> Info | None:
        """The channels, an `mne.Info`; None where none were kept."""
        return self.places.info

    @property
    def sources(self) -> dict[str, Any] | None:
        """The components of the map's source estimates; None for other maps."""
        return self.places.sources

    @property
    def adjacency(self) -> NDArray | None:
        """Pairs of neighbouring sensors, sources or brain positions, (2, n)."""
        return self.places.pairs

    def pvalues(self, correction: CorrectionName | None = None) -> Any:
        """Return p-values.

        Parameters
        ----------
        correction : str or None
            Correction for testing many positions, see
            `mvpa_kfda.inference.corrections`. None takes the first requested one.
            "none", "bonferroni", "holm", "fdr" and "fdr-by" are always available;
            others if they were requested.

        Returns
        -------
        p : float or array, of the shape of the map
            NaN where there are no scores.

        Raises
        ------
        ValueError
            If the correction is unknown or was not requested.
        """
        return plain(self._corrected(self.correction_name(correction)))

    def correction_name(self, name: str | None) -> str:
        """Return the name of a correction, the default one if None.

        Parameters
        ----------
        name : str or None
            Name of a correction; None takes the one requested in the call, if any.

        Returns
        -------
        name : str
            The name as the package spells it.

        Raises
        ------
        ValueError
            If the correction is not known.
        """
        if name is None:
            return self.correction[0]
        if not isinstance(name, str):
            return check_correction(name)
        # Large letters and underscores, as when asked for.
        name = name.lower().replace("_", "-")
        return name if name in self.p_maps else check_correction(name)

    def _corrected(self, name):
        """Return p-values by the name of the correction."""
        if name in self.p_maps:
            return self.p_maps[name].copy()
        if name in ADJUSTMENTS:
            return self._filled(adjust(self.p_maps["none"][self.counted], name))
        kept = ", ".join(map(repr, self.p_maps))
        raise ValueError(
            f"The correction {name!r} was not requested, and the permutations are not "
            f"kept. Available: {kept}. Run {self.made_by} again with "
            f"correction={[*self.correction, name]}."
        )

    def p_of_map(self, correction: str, metric: str, **options: Any) -> NDArray:
        """Return the p-values marked in figures: those of the test that was made.

        Parameters
        ----------
        correction : str
            Correction for testing many positions.
        metric : str
            Name of the metric.
        **options
            What else `pvalues` takes.

        Returns
        -------
        p : array, shape (positions...)
            The p-values.
        """
        return np.asarray(self.pvalues(correction))

    def to_dataframe(self, corrections: CorrectionNames | None = None) -> DataFrame:
        """Return a table with one row per position.

        Parameters
        ----------
        corrections : str, sequence of str, or None
            Corrections to add as columns ``p_<correction>``. None takes the requested
            ones. Omitted for a single position.

        Returns
        -------
        table : pandas.DataFrame
            The position, all maps, ``p`` (uncorrected) and one column per correction.
        """
        if corrections is None:
            corrections = self.correction
        names = [
            self.correction_name(name) for name in names_in(corrections, "corrections")
        ]
        return self._frame(self._maps, [name for name in names if name != "none"])

    def clusters(
        self, correction: CorrectionName | None = None, *, alpha: float | None = None
    ) -> DataFrame:
        """Return a table of the clusters of neighbouring positions.

        With "cluster" and "cluster-size" these are all clusters that were tested,
        whatever their p; with "cluster-fdr" those with p < 1. Such a p refers to the
        cluster as a whole. With any other correction, clusters are connected positions
        with p <= alpha.

        Parameters
        ----------
        correction : str or None
            Correction for testing many positions, as in `pvalues`. None takes the
            requested one.
        alpha : float or None
            Significance level of positions, for the other corrections. None takes
            `alpha` of the result.

        Returns
        -------
        table : pandas.DataFrame
            As returned by :meth:`TimeResult.clusters`. ``mass`` sums the statistic if
            it is t or a normal deviate, else of the statistic in standard deviations
            over permutations; NaN unless "cluster", "cluster-size" or "tfce" is among
            the requested corrections. ``peak`` is that of the scores.
            ``n_true`` and ``share_true`` are omitted without
            permutations.

        Raises
        ------
        ValueError
            If `alpha` is not between 0 and 1, if there is only one position, or as in
            `pvalues`.
        """
        name = self.correction_name(correction)
        alpha = check_share("alpha", self.alpha if alpha is None else alpha)
        refuse_single(self)
        p, strength = np.asarray(self.pvalues(name)), self.cluster_scores
        # That of the bootstrap has a height of its own at every position.
        known = name in CORRECTIONS
        return cluster_table(
            places=self.places,
            scores=np.asarray(self.scores),
            chance=self.null_level(self.metric),
            strength=np.full(p.shape, np.nan) if strength is None else strength,
            height=self.cluster_height if known else np.nan,
            p=p,
            alpha=alpha,
            alternative=self.alternative,
            of_clusters=CORRECTIONS[name].of_clusters if known else True,
            levels=levels_of(self.calibrations(), alpha) if len(self.ranks) else None,
        )

    def calibrations(
        self, metric: str | None = None, alternative: str | None = None
    ) -> list[Calibration]:
        """Return what true-discovery bounds need, for each test that has to reject.

        Parameters
        ----------
        metric : str or None
            The metric of the scores, also for None.
        alternative : str or None
            The alternative of the test, also for None.

        Returns
        -------
        calibrations : list of Calibration
            Ranks of the observed map, (positions,) in C order, and the statistics of
            the rows.

        Raises
        ------
        ValueError
            If the metric or alternative is not the tested one, or if the test used no
            permutations.
        """
        for name, asked in (("metric", metric), ("alternative", alternative)):
            made = getattr(self, name)
            if asked is not None and not (isinstance(asked, str) and asked == made):
                raise ValueError(
                    f"This result was made with {name}={made!r}, and the permutations "
                    f"are not kept. Run {self.made_by} again with {name}={asked!r}."
                )
        if len(self.ranks) == 0:
            raise ValueError(self._no_ranks)
        return [
            Calibration(ranks.ravel(), statistics)
            for ranks, statistics in zip(self.ranks, self.rank_statistics, strict=True)
        ]

    #: Why there are no ranks, and what to do.
    _no_ranks: ClassVar[str] = (
        "There are no true discoveries of a comparison between two results. Take those "
        "of a group that compares two conditions, group_inference(first, 'sign-flip', "
        "other=second, paired=True), or pvalues()."
    )

    def _heights(self, metric, alternative):
        """The maps (positions...) in which regions are where they are high."""
        heights = self.cluster_scores
        if heights is None:
            heights = self.scores - self.null_level(self.metric)
        return of_sides(heights, self.alternative)

    def peak(self, correction: CorrectionName | None = None) -> dict[str, Any]:
        """Return the score that favours the alternative most, and its position.

        That is the highest one for "greater", the lowest for "less", and for
        "two-sided" the one furthest from chance, or the largest difference.

        Parameters
        ----------
        correction : str or None
            Correction for testing many positions, as in `pvalues`. None takes the
            requested one.

        Returns
        -------
        peak : dict
            The position, as in `to_dataframe`, the score or difference under the name
            of its metric, ``p`` (uncorrected) and ``p_<correction>``. Ties are resolved
            in favour of the first position.

        Raises
        ------
        ValueError
            If no position has a score, or as in `pvalues`.
        """
        return self._peak_of(self.metric, self.correction_name(correction))

    def _filled(self, values):
        """Put values (C,) of the positions that count into a map, NaN elsewhere."""
        filled = np.full(self.shape, np.nan)
        filled[self.counted] = values
        return filled[()]

    def _interval(self, mean, ends, asked):
        """An interval with low and high ends (C,) at the positions that count."""
        low, high = (plain(self._filled(end)) for end in ends)
        where = {"places": self.places, "metric": self.metric}
        return MeanInterval(mean=mean, low=low, high=high, **where, **asked)

    def to_img(
        self,
        name: str | None = None,
        *,
        correction: CorrectionName | None = None,
        **options: Any,
    ) -> Any:
        """Return an image of one of the maps, or of p-values.

        Parameters
        ----------
        name : str or None
            The map to show. None: the scores. A name of `scoring`: that map. "p":
            p-values. "neglog10p": their -log10. "z": the normal deviates that p is the
            upper tail of.
        correction : str or None
            Correction of the p-values, as in `pvalues`.
        **options
            Further options of `pvalues`: `hypothesis` for a prevalence test.

        Returns
        -------
        img : nibabel.Nifti1Image, nilearn.surface.SurfaceImage or nibabel.Cifti2Image
            On the grid, the meshes or the columns of the maps: 0 outside the mask (1
            for "p"), and NaN where there are no scores.

        Raises
        ------
        ValueError
            If there is no such map, if the positions have no brain coordinates, or as
            in `pvalues`.
        """
        if self.geometry is None:
            raise ValueError(
                f"There is no image of {self.places.describe()}. Images are for "
                "results of searchlights and regions; use to_dataframe() or plot()."
            )
        tested = {"correction": correction, **options}
        return make_image(self, *map_of(self, name, "to_img", OF_P, **tested))

    def to_stc(
        self,
        name: str | None = None,
        *,
        correction: CorrectionName | None = None,
        **options: Any,
    ) -> Any:
        """Return a source estimate of one of the maps, or of p-values.

        ``result.to_stc().plot()`` draws MNE-Python's three-dimensional figure.

        Parameters
        ----------
        name : str or None
            The map to return. None: the scores. A name of `scoring`: that map. "p":
            p-values. "neglog10p": their -log10. "z": the normal deviates that p is the
            upper tail of.
        correction : str or None
            Correction of the p-values, as in `pvalues`.
        **options
            Further options of `pvalues`: `hypothesis` for a prevalence test.

        Returns
        -------
        stc : mne.SourceEstimate or of another kind
            Of the same kind, vertices and subject as the decoded estimates.

        Raises
        ------
        ValueError
            If there is no such map, if the result is not from a searchlight in source
            space, or as in `pvalues`.
        """
        if "vertices" not in self.axes:
            raise ValueError(
                f"There is no source estimate of {self.places.describe()}: it takes "
                "results of decode_sources with src and radius. Use to_dataframe() or "
                "plot()."
            )
        _, values = map_of(self, name, "to_stc", OF_P, correction=correction, **options)
        return make_source_estimate(self, values)

    def view(
        self,
        name: str | None = None,
        *,
        correction: CorrectionName | None = None,
        alpha: float | None = None,
        min_score: float | None = None,
        kind: Literal["stat_map", "surface"] | None = None,
        hemi: Literal["left", "right", "both"] = "both",
        cut_coords: Sequence[float] | None = None,
        bg_img: Any = None,
        vlim: tuple[float, float] | None = None,
        cmap: str | Colormap | None = None,
        **options: Any,
    ) -> Any:
        """View a map in the brain interactively.

        Click to move through a volume; drag to rotate a surface. The view is from
        Nilearn: it is displayed in notebooks, ``.open_in_browser()`` opens it, and
        ``.save_as_html("view.html")`` writes a self-contained page.

        Parameters
        ----------
        name : str or None
            The map to show, as in `to_img`; None: the scores.
        correction : str or None
            Correction of the p-values, as in `pvalues`.
        alpha : float or None
            Show only positions with p <= alpha; None shows all.
        min_score : float or None
            Show positions with at least this score, instead of p <= alpha.
        kind : {"stat_map", "surface"} or None
            "stat_map": slices through voxels. "surface": meshes. None takes what is
            available, and the surface for CIFTI files with meshes.
        hemi : {"left", "right", "both"}
            Hemispheres of a surface to show.
        cut_coords : sequence of float or None
            Initial position of the slices, (x, y, z) in mm. None cuts through the
            highest value shown, or the smallest p-value.
        bg_img : image or None
            Background image, as in `VolumeResult.plot`.
        vlim : tuple of float or None
            Limits of the colormap. None makes them symmetric about chance, or about
            zero for z-values and differences; for p-values they are 0 and 1, or 0 and
            `alpha`.
        cmap : str, matplotlib Colormap, or None
            The colormap. None takes that of `plot`.
        **options
            Further options of `pvalues`, for a map of p-values: `hypothesis` for a
            prevalence test.

        Returns
        -------
        view : nilearn.plotting.html_stat_map.StatMapView or SurfaceView
            The view.

        Raises
        ------
        ValueError
            As in `to_img`, and if an argument is not valid or positions have no brain
            coordinates.
        ImportError
            For a surface, if plotly is not installed, which Nilearn 0.14 and later
            require.
        """
        if self.geometry is None:
            raise ValueError(
                f"There is no view of {self.places.describe()}. Views are for results "
                "of searchlights and regions; use plot()."
            )
        shown = map_of(self, name, "view", OF_P, correction=correction, **options)
        tested = self.metric, self.correction_name(correction), alpha, min_score, {}
        look = (vlim, cmap), kind, hemi, cut_coords, bg_img
        return view_map(self, *shown, *tested, *look)

    @property
    def significance_level(self) -> float:
        """The level that was tested at."""
        return self.alpha

    @property
    def default_correction(self) -> str:
        """The correction of the figures."""
        return self.correction[0]

    plot = figure_method(plot_group)
    plot_null = figure_method(plot_null_max)

    def _words(self):
        """Parts of a line: best score, positions, and what was tested how."""
        where = [self.places.describe()] if self.axes else []
        return [Finding(self).headline, *where, *self.description()]

    def side_of(self, metric: str) -> str:
        """Return the alternative that a map is tested for.

        Parameters
        ----------
        metric : str
            Name of the metric.

        Returns
        -------
        alternative : {"greater", "less", "two-sided"}
            The alternative, unless another one is requested.
        """
        tested = metric in (self.metric, "statistic")
        return self.alternative if tested else "greater"


#: Corrections in whose place Holm's is taken for a share of the population.
BY_HOLM = ("max", "max-step-down")


class _TestWords(NamedTuple):
    """What a method of `group_inference` is called in figures, and what it tests."""

    test: str
    of_two_groups: str
    statistic: str
    #: Whether it tests against the subjects' permuted labels.
    by_labels: bool = False


#: Method of a group -> its words. A prevalence test and a bootstrap have one group.
GROUP_TESTS = {
    "prevalence": _TestWords(
        "Prevalence test", "", "{score}, lowest of all subjects", by_labels=True
    ),
    "i-test": _TestWords(
        "i-test", "", "{score}, subject number i from the lowest", by_labels=True
    ),
    "bootstrap": _TestWords(
        "Bootstrap of permuted means", "", "{score}, mean over subjects", by_labels=True
    ),
    "sign-flip": _TestWords(
        "Sign-flip test", "Permutation test of two groups", "t over subjects"
    ),
    "t": _TestWords("t-test", "t-test of two groups", "t over subjects"),
    "wilcoxon": _TestWords(
        "Signed-rank test", "Rank-sum test of two groups", "z of Wilcoxon's test"
    ),
}


@result_kind
class GroupResult(OptionsMixin, MatricesMixin, TestedMap):
    """Group inference across subjects, see :func:`group_inference`.

    Parameters
    ----------
    subjects : array of str, shape (S,)
        Names of the subjects.
    subject_scores : array, shape (S, positions...)
        Scores of each subject. The coordinates of the map are attributes named as in
        the subjects' results, e.g. `times`; see `places`.
    other_subjects, other_scores : array or None
        The same for the second group or condition.
    paired : bool
        Whether the second list contains the same subjects.
    labels : tuple of two str
        Names of the two groups or conditions, if there are two.
    subject_warnings : dict of str -> list of str
        Warnings of the subjects' analyses: text -> names of the subjects concerned;
        numbers in a text are those of the first of them. `warnings` holds these, with
        counts, in addition to those of the group inference itself.
    mean_matrices : dict of str -> array, shape (positions..., c (c - 1) / 2)
        "crossnobis" or "accuracy" -> mean across subjects for each pair of classes, see
        `rdm`; for metrics that all subjects have in `scoring`, and one group only.
    classes : array, shape (c,), or None
        The class labels of `mean_matrices`.
    permuted_means : array, shape (S, positions...), or None
        The mean score of each subject under permuted labels, where "sign-flip", "t" or
        "wilcoxon" test against it; None where they test against chance.
    method : str
        "prevalence", "i-test", "bootstrap", "sign-flip", "t" or "wilcoxon".
    alpha : float
        Significance level of the figures and of the prevalence bound.
    score_chance : float
        Chance level of the subjects' scores, also where differences were tested.
    statistic : array, shape (positions...)
        What was tested: the minimum across subjects ("prevalence"), the i-th lowest
        score ("i-test"), their mean ("bootstrap"), Student's t ("sign-flip", "t") or
        the standardised rank sum ("wilcoxon").
    p_maps : dict of str -> array, shape (positions...)
        Correction -> p-values; for "prevalence" of the global null hypothesis, for
        "i-test" of the requested prevalence null hypothesis.
    p_of_minimum : array, shape (S, positions...), or None
        The p-value of each subject for the minimum across subjects ("prevalence") or
        for the i-th lowest score ("i-test"): the proportion of the subject's observed
        and permuted maps that reach it; the larger one of two tests. None treats all
        subjects as alike, with the N-th root of the uncorrected p-value, as in the
        paper.
    subject_p : array, shape (S, positions...), or None
        The p-value of each subject from its own label permutations, for scores above
        those of permuted labels; None if the method needs no permutations.
    subject_sizes : array, shape (S, positions...), or None
        Probability of a p-value of at most `alpha` without an effect: the proportion of
        the subject's maps that would be significant in place of the observed one.
    null_max : array, shape (P,)
        The same for each second-level permutation; empty if none were needed.
    n_permutations : int
        Number of second-level permutations P.
    parameters : dict
        The arguments of the analysis; the number of positions where scores are so
        similar that t was computed with a larger variance ("n_alike"), the number of
        tests that had to reject ("n_tests"), for "i-test" the "order" and the
        prevalence of its null "hypothesis", each subject's smallest corrected p-value
        and the size of that test ("anywhere"), how the subjects were analysed
        ("first_level"), and how some of them differ from the first
        ("first_level_differences": field -> other value -> their names).
    inputs : dict of str -> str or list of str
        The ``"function"`` that returned the result, the ``"files"`` of the subjects by
        name and size, and the checksum of each subject's result (``"results"``, and
        ``"other"`` of the second list), by which :func:`~mvpa_kfda.verify` recognises
        different ones. With `min_trials`, who was left out (``"left_out"``,
        ``"left_out_results"``). Ignored in comparisons of results.

    Examples
    --------
    >>> import numpy as np
    >>> from mvpa_kfda import decode_arrays, group_inference
    >>> rng = np.random.default_rng(0)
    >>> y = rng.permutation(["face", "house"] * 20)
    >>> results = []
    >>> for subject in range(8):
    ...     X = rng.normal(size=(40, 4, 3))  # trials, channels, times
    ...     X[y == "house", :, 2] += 2
    ...     results.append(decode_arrays(X, y, n_permutations=20, random_state=0))
    >>> group = group_inference(results, random_state=0)
    >>> group.subject_scores.shape
    (8, 3)
    >>> group.pvalues("max") <= 0.05
    array([False, False,  True])
    >>> group.gamma_0.round(2)  # lower bound on the prevalence
    array([ nan,  nan, 0.58])
    """

    made_by: ClassVar[str] = "group_inference"
    has_subjects: ClassVar[bool] = True
    _no_ranks: ClassVar[str] = (
        "This test drew no permutations that true discoveries could be counted by: its "
        "p-values are those of a distribution, or its scores are diagonals of time "
        "generalization. Run group_inference again with correction='max' among others, "
        "or with results of decode_epochs."
    )

    subjects: NDArray
    subject_scores: NDArray
    other_subjects: NDArray | None = None
    other_scores: NDArray | None = None
    paired: bool = False
    labels: tuple[str, str] = DEFAULT_NAMES
    subject_warnings: dict[str, list[str]] = field(default_factory=dict)
    p_of_minimum: NDArray | None = None
    subject_p: NDArray | None = None
    subject_sizes: NDArray | None = None
    mean_matrices: dict[str, NDArray] = field(default_factory=dict)
    classes: NDArray | None = None
    permuted_means: NDArray | None = None

    def __post_init__(self):
        """Normalize the arrays and check that their shapes belong together."""
        super().__post_init__()
        of_first = self.p_of_minimum, self.subject_p, self.subject_sizes
        pairs = [(self.other_subjects, self.other_scores)]
        for each in (self.subject_scores, *of_first, self.permuted_means):
            pairs.append((self.subjects, each))
        for names, scores in pairs:
            if scores is not None and scores.shape != (len(names), *self.shape):
                raise ValueError(
                    f"{len(names)} subjects with positions {self.shape} need scores of "
                    f"shape {(len(names), *self.shape)}; got {scores.shape}."
                )

    @property
    def matrices(self) -> dict[str, NDArray]:
        """Means across subjects of tables of pairs (positions..., pairs) by kind."""
        return self.mean_matrices

    def _advise(self, kind):
        """Say how to have a table of pairs."""
        wanted = TABLES[kind]
        if self.other_subjects is not None:
            return (
                "This result compares two groups or conditions, and has no mean table "
                "of pairs of classes. Pass one of them to group_inference."
            )
        return (
            "This result has no such mean table of pairs of classes. All subjects need "
            f"{wanted!r} in scoring, and the same classes; chosen pairs "
            "(select_pairs) have no table any more."
        )

    @property
    def n_subjects(self) -> int:
        """Number of subjects in the first list."""
        return len(self.subjects)

    @property
    def worded_subject_warnings(self) -> list[str]:
        """Warnings of the subjects' analyses, each with the number of subjects."""
        others = () if self.other_subjects is None else self.other_subjects
        return word_told(self.subject_warnings, self.n_subjects + len(others))

    @property
    def scores(self) -> NDArray:
        """Mean across subjects, or the difference between the two means."""
        mean = self.subject_scores.mean(axis=0)
        if self.other_scores is None:
            return mean
        return mean - self.other_scores.mean(axis=0)

    @property
    def metrics(self) -> dict[str, Any]:
        """All maps by name: scores, statistic, and the prevalence bound."""
        maps = super().metrics
        if self.is_prevalence:
            maps["gamma_0"] = self.gamma_0
        return maps

    @property
    def chances(self) -> dict[str, float]:
        """Centre of the colormap of each map, NaN if it has none."""
        chances = super().chances
        if self.is_prevalence:
            chances["gamma_0"] = np.nan
        return chances

    @property
    def _skewed(self):
        """Whether the statistic has no value of its own for "no effect"."""
        return GROUP_TESTS[self.method].by_labels

    def pvalues(
        self,
        correction: CorrectionName | None = None,
        *,
        hypothesis: Literal["global", "majority"] | float | None = None,
    ) -> Any:
        r"""Return p-values.

        Parameters
        ----------
        correction : str or None
            Correction for testing many positions, see
            `mvpa_kfda.inference.corrections`. None takes the first requested one.
            "none", "bonferroni", "holm", "fdr" and "fdr-by" are always available;
            others if they were requested. For a null hypothesis about the prevalence,
            "max" and "max-step-down" use Holm's method [2]_, because the distribution
            of the largest minimum is unknown if some people have an effect.
        hypothesis : {"global", "majority"}, float or None
            The null hypothesis; for "prevalence" only: nobody in the population has an
            effect ("global"), at most half of the people do ("majority"), or at most
            that proportion. None is "global" or, for "i-test", the tested one. For a
            proportion :math:`\gamma`, uncorrected:

            .. math:: p_\gamma = \prod_{k=1}^{N} (\gamma + (1 - \gamma) p_k)

            where :math:`p_k = (1 + b_k) / (1 + P_k)`, and :math:`b_k` of the
            :math:`P_k` permuted scores of subject k reach the minimum across the N
            subjects. If these are equal, it is Eq. 19 of [1]_.

        Returns
        -------
        p : float or array, shape (positions...)
            NaN where not all subjects have scores.

        Raises
        ------
        ValueError
            If the correction is unknown or was not requested, or if the null hypothesis
            is not available for this method.

        Notes
        -----
        The paper corrects for multiple positions with :math:`p_c + (1 - p_c) p_\gamma`
        (Eq. 21), with the corrected p-value :math:`p_c` of the global null hypothesis.
        This is valid if nobody has an effect at the other positions, but not if some
        people do, though not a majority: in half of the simulated groups of 8, a
        majority was declared at one or more of 30 such positions. It is therefore not
        used.

        References
        ----------
        .. [1] Allefeld, C., Goergen, K., & Haynes, J.-D. (2016). Valid population
           inference for information-based imaging: From the second-level t-test to
           prevalence inference. NeuroImage, 141, 378-392.
        .. [2] Holm, S. (1979). A simple sequentially rejective multiple test procedure.
           Scandinavian Journal of Statistics, 6(2), 65-70.
        """
        if self.order is not None:
            return self._p_of_order(correction, hypothesis)
        gamma = 0.0 if hypothesis is None else share_of(hypothesis)
        if gamma == 0:
            return super().pvalues(correction)
        if not self.is_prevalence:
            raise ValueError(
                f"The method {self.method!r} has no null hypothesis about a share of "
                'the population; use group_inference(results, method="prevalence").'
            )
        name = self.correction_name(correction)
        name = "holm" if name in BY_HOLM else name
        if name not in ("none", *ADJUSTMENTS):
            raise ValueError(
                f"The correction {name!r} tests the global null hypothesis only. For a "
                "share of the population use 'max', which takes Holm's method, 'none', "
                "'bonferroni', 'holm', 'fdr' or 'fdr-by', or hypothesis='global'."
            )
        p = prevalence_p(self._p_by_subject, gamma)
        return plain(self._filled(p if name == "none" else adjust(p, name)))

    def _p_of_order(self, correction, hypothesis):
        """The p-values of an i-test; refuse what it has none of."""
        share = self.parameters["hypothesis"]
        if hypothesis is not None and share_of(hypothesis) != share:
            raise ValueError(
                f"This i-test has the null hypothesis of a share of {share:g}, chosen "
                f"beforehand; got {hypothesis!r}. Run group_inference again with "
                f"hypothesis={hypothesis!r} if it was settled before scores were seen."
            )
        name = self.correction_name(correction)
        if name not in ("none", *ADJUSTMENTS):
            raise ValueError(
                f"The i-test has no correction {name!r}, which corrects where nobody "
                "has an effect, and not where a few have one. Use 'holm', 'none', "
                "'bonferroni', 'fdr' or 'fdr-by'."
            )
        return plain(self._corrected(name))

    @property
    def order(self) -> int | None:
        """Rank of the subject tested by an i-test, from the lowest, else None."""
        return self.parameters.get("order")

    @property
    def null_words(self) -> str:
        """Name of the null hypothesis, if there are several."""
        if self.order is None:
            return "global null" if self.is_prevalence else ""
        share = self.parameters["hypothesis"]
        named = {value: f"{name} null" for name, value in NULLS.items()}
        return named.get(share, f"null of a share of {share:g}")

    def _p_columns(self, correction, column, metric):
        """The columns of a table with p-values under a correction."""
        columns = super()._p_columns(correction, column, metric)
        majority = correction in ("none", *BY_HOLM, *ADJUSTMENTS)
        if self.is_prevalence and majority:
            name = column.replace("p", "p_majority", 1)
            name = "p_majority_holm" if correction in BY_HOLM else name
            columns[name] = self.pvalues(correction, hypothesis="majority")
        return columns

    @property
    def _maps(self):
        """The columns of a table with all maps, and of both lists their own."""
        if self.other_scores is None:
            return self.metrics
        name, maps = self.metric, self.metrics
        return {
            f"{name}_difference": maps.pop(name),
            f"{name}_first": self.subject_scores.mean(axis=0),
            f"{name}_second": self.other_scores.mean(axis=0),
            **maps,
        }

    def peaks(
        self,
        correction: CorrectionName | None = None,
        *,
        alpha: float | None = None,
        min_distance: float = 8.0,
    ) -> DataFrame:
        """Return a table of peaks among the significant positions of a brain map.

        Parameters
        ----------
        correction : str or None
            Correction of the p-values; None takes the first requested one.
        alpha : float or None
            Positions with p <= alpha are significant; None takes `alpha`.
        min_distance : float
            Minimum distance between peaks of one cluster, in mm.

        Returns
        -------
        table : pandas.DataFrame
            As returned by :meth:`VolumeResult.peaks`: one row per peak of the scores,
            with "less" of the lowest ones, with "two-sided" of those furthest from
            chance.

        Raises
        ------
        ValueError
            If the positions have no brain coordinates, or as in `pvalues`.
        """
        if self.geometry is None:
            raise ValueError(
                f"There are no peaks in a table for {self.places.describe()}; use "
                "to_dataframe(), or bootstrap_latency for the peak of a time course."
            )
        name = self.correction_name(correction)
        alpha = self.alpha if alpha is None else alpha
        return peak_table(self, name, alpha, self.metric, min_distance, None)

    @property
    def is_prevalence(self) -> bool:
        """Whether the prevalence of an effect in the population was tested."""
        return self.method == "prevalence"

    @property
    def is_difference(self) -> bool:
        """Whether the scores are differences."""
        return self.other_scores is not None

    @property
    def statistic_label(self) -> str:
        """Label of the tested statistic, with placeholders for score and difference."""
        label = GROUP_TESTS[self.method].statistic
        return label.replace("number i", f"number {self.order}")

    @property
    def draw_noun(self) -> str:
        """Name of one draw of the null distribution."""
        two_groups = self.is_difference and not self.paired
        combined = GROUP_TESTS[self.method].by_labels
        return "permutation" if two_groups or combined else "sign flip"

    def title_parts(self) -> list[str]:
        """Return the parts of a figure's title: the test, the subjects, and the draws.

        Returns
        -------
        parts : list of str
            Parts of a title, to be joined by commas.
        """
        words, n = GROUP_TESTS[self.method], self.n_subjects
        parts = [words.test, f"{n} subjects"]
        if self.order is not None:
            parts[0] += f" of order {self.order}"
        if self.is_difference and self.paired:
            parts = [words.test, f"{n} subjects in two conditions"]
        elif self.is_difference:
            n_others = len(self.other_scores)
            parts = [words.of_two_groups, f"{n} and {n_others} subjects"]
        if self.n_permutations:
            parts.append(counted(self.n_permutations, self.draw_noun, ","))
        return parts

    def description(self) -> list[str]:
        """Return the parts of a line describing the data of the scores.

        Returns
        -------
        parts : list of str
            Parts of a line, to be joined by commas.
        """
        parts = [f"{self.n_subjects} subjects"]
        if self.other_scores is not None:
            what = "in two conditions" if self.paired else "against"
            more = "" if self.paired else f" {len(self.other_subjects)} others"
            parts = [f"{parts[0]} {what}{more}"]
        if left_out := self.inputs.get("left_out"):
            parts[0] += f" ({len(left_out)} left out, with too few trials)"
        parts.append(f"method {self.method!r}")
        if self.permuted_means is not None:
            mean = rounded(np.nanmean(self.permuted_means))
            parts[-1] += f" against {self.worded_level} ({mean})"
        if self.order is not None:
            parts.append(f"order {self.order}")
        if self.n_permutations:
            drawn = counted(self.n_permutations, "second-level permutation", ",")
            parts.append(drawn)
        return parts

    # -------------------------------------------------------------- of the population

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
        check_option("where", where, ("each", "anywhere"))
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
        return find_prevalence(found, sizes, confidence, places, self.alpha)

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
        if not self.is_prevalence:
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
        product = self.is_prevalence and self.p_of_minimum is not None
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


#: Metrics whose scores vary most without an effect.
WIDEST_AT_CHANCE = ("accuracy", "balanced_accuracy", "roc_auc", "pearsonr")


@result_kind
class ComparisonResult(TestedMap):
    """The difference between two results of one subject, see :func:`compare`.

    Parameters
    ----------
    scores_a, scores_b : float or array, shape (positions...)
        The scores that are compared. `scores` is their difference, a minus b; the
        coordinates of the map are attributes named as in the results, e.g. `times`.
    labels : tuple of two str
        Names of the two results, for figures and texts; ("a", "b") unless given.
    metric : str
        Name of the difference: the metric of the scores and "_difference".
    method : str
        "permutation".
    alternative : str
        "two-sided", "greater" (a is better) or "less".
    chance : float
        0, the difference between equal scores.
    score_chance : float
        Chance level of the scores that are compared.
    statistic : array, shape (positions...)
        What was tested: the difference.
    p_maps : dict of str -> array, shape (positions...)
        Correction -> p-values.
    null_max : array, shape (P,)
        The same under every permutation of labels.
    n_permutations : int
        Number of permutations P.
    null_differences : array, shape (P, positions...), or None
        The difference under every permutation of labels; None of more than 32 million.
    parameters : dict
        The arguments of the comparison, the number of trials in words ("trials") and
        of tests that had to find the difference ("n_tests"), and the arguments of the
        analyses ("a" and "b").

    Examples
    --------
    >>> import numpy as np
    >>> from mvpa_kfda import compare, decode_arrays
    >>> rng = np.random.default_rng(0)
    >>> y = rng.permutation(["face", "house"] * 30)
    >>> X = rng.normal(size=(60, 6, 4))  # trials, channels, times
    >>> X[y == "house", :3, 2:] += 2
    >>> options = {"n_permutations": 99, "random_state": 0}
    >>> front = decode_arrays(X[:, :3], y, **options)
    >>> back = decode_arrays(X[:, 3:], y, **options)
    >>> result = compare(front, back)
    >>> (result.pvalues() <= 0.05) & (result.scores > 0)
    array([False, False,  True,  True])
    >>> list(result.to_dataframe().columns)[:3]
    ['time', 'accuracy_difference', 'accuracy_a']
    """

    made_by: ClassVar[str] = "compare"
    is_difference: ClassVar[bool] = True

    scores_a: NDArray
    scores_b: NDArray
    labels: tuple[str, str] = DEFAULT_RESULTS
    null_differences: NDArray | None = None

    def __post_init__(self):
        """Normalize the arrays and check that their shapes belong together."""
        super().__post_init__()
        for name in ("scores_a", "scores_b"):
            value = np.asarray(getattr(self, name), dtype=float)
            if value.shape != self.shape:
                raise ValueError(
                    f"A ComparisonResult with positions {self.shape} got {name} of "
                    f"shape {value.shape}."
                )
            object.__setattr__(self, name, value if self.shape else float(value))

    @property
    def scores(self) -> Any:
        """The difference of the scores, a minus b; NaN where either has none."""
        return self.scores_a - self.scores_b

    @property
    def metrics(self) -> dict[str, Any]:
        """All maps by name: the difference, both scores, and the tested statistic."""
        name = self.metric.removesuffix("_difference")
        maps = {f"{name}_a": self.scores_a, f"{name}_b": self.scores_b}
        return {self.metric: self.scores, **maps, "statistic": self.statistic}

    @property
    def chances(self) -> dict[str, float]:
        """Where the colors of each map have their middle, NaN where it has none."""
        return {
            name: 0.0 if name in (self.metric, "statistic") else self.score_chance
            for name in self.metrics
        }

    def interval(
        self,
        confidence: float = 0.95,
        *,
        alternative: Alternative = "two-sided",
        simultaneous: bool = False,
    ) -> MeanInterval:
        r"""Return an interval of the difference, from permuted labels.

        Parameters
        ----------
        confidence : float
            Confidence of the interval.
        alternative : {"two-sided", "greater", "less"}
            "two-sided": both limits. "greater": only a lower bound; "less": only an
            upper one.
        simultaneous : bool
            Whether the intervals of all positions hold simultaneously, with this
            confidence.

        Returns
        -------
        interval : MeanInterval
            With ``low``, ``high`` and ``mean``, the difference, each of the shape of
            the map, in units of the metric.

        Raises
        ------
        ValueError
            For metrics other than accuracy, balanced accuracy, AUC and correlation, if
            the permuted differences were not kept, if there are too few for this
            confidence, or if an argument is not valid.

        Notes
        -----
        The interval contains all differences :math:`\delta` for which :math:`T -
        \delta` is not among the most extreme of the permuted differences, less their
        mean. It assumes that scores spread no more than those of permuted labels. For
        these metrics, scores spread most at chance, so intervals tend to be too wide:
        in 11 simulations of 40 and 160 trials, 95 % intervals contained the true
        difference in 94 to 100 % of data sets.

        **What it does not say.** It is about these analyses of this subject, with other
        trials; for statements about people, compare conditions of a group, see
        :meth:`GroupResult.interval`.
        """
        asked = check_interval(confidence, alternative, simultaneous)
        name = self.metric.removesuffix("_difference")
        if name not in WIDEST_AT_CHANCE:
            raise ValueError(
                f"There are no intervals for differences in {name!r}, whose scores may "
                "spread more with an effect than without one. Use one of "
                f"{quoted(WIDEST_AT_CHANCE)} in compare(metric=...)."
            )
        if self.null_differences is None:
            raise ValueError(
                "The permuted differences of so many positions were not kept, so there "
                "are no intervals. Compare single positions or regions."
            )
        where = np.ravel(self.counted)
        null = np.reshape(self.null_differences, (-1, where.size))[:, where]
        observed = np.ravel(self.scores)[where]
        ends = interval_of_difference(observed, null.astype(float), **asked)
        return self._interval(self.scores, ends, asked)

    @property
    def statistic_label(self) -> str:
        """What was tested, with a place for the label of the difference."""
        return "{difference}"

    @property
    def draw_noun(self) -> str:
        """What one draw of the null distribution is called."""
        return "permutation"

    def title_parts(self) -> list[str]:
        """Return parts of a figure's title: the test, the trials, and the draws.

        Returns
        -------
        parts : list of str
            Parts of a title, which commas join.
        """
        trials, draws = self._trials_and_draws
        return ["Permutation test of a difference", *trials, draws]

    def description(self) -> list[str]:
        """Return parts of a line: the trials, the method, and the draws.

        Returns
        -------
        parts : list of str
            Parts of a line, which commas join.
        """
        trials, draws = self._trials_and_draws
        return [*trials, f"method {self.method!r}", draws]

    @property
    def _trials_and_draws(self):
        """The words for the trials, if there are any, and for the permutations."""
        trials = self.parameters.get("trials")
        draws = counted(self.n_permutations, "permutation", ",")
        return [trials] if trials else [], draws
