"""Results of groups of subjects, of comparisons, and of latencies."""

from dataclasses import field
from numbers import Real
from typing import ClassVar, NamedTuple

import numpy as np

from ..inference.corrections import ADJUSTMENTS, adjust, check_correction
from ..inference.prevalence import largest_bound, prevalence_bound, prevalence_p
from ..utils.checks import check_option
from ..viz.group import plot_group, plot_latency, plot_null_max
from .base import Result, ScoreMap, arrays, optional_array, plain
from .images import image_of_p, peak_table
from .kinds import figure_method, record, result_kind
from .places import Places, unpack_places


@record
class TestedMap(ScoreMap):
    """A map of scores and of their p-values, which no longer needs a null.

    A subclass has the `scores`, says in `metrics` what else it has a map of, and in
    `_description` in a few words what they were computed from.

    Parameters
    ----------
    metric : str
        The metric of the scores.
    method : str
        The method of the test.
    correction : tuple of str
        The corrections that were asked for; the first is the default of `pvalues`.
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
        The most extreme statistic over all positions: the largest, the largest of its
        negative ("less"), or the largest distance from its centre ("two-sided").
    null_max : array, shape (P,)
        The same under every permutation; empty if none were needed.
    n_permutations : int
        Number of permutations P.
    parameters : dict
        The arguments of the analysis.
    versions : dict of str -> str
        Versions of the packages that made the result.
    """

    #: What gives this result, in error messages.
    made_by: ClassVar[str]

    #: pytest takes any class of this name for tests.
    __test__: ClassVar[bool] = False

    metric: str
    method: str
    correction: tuple
    alternative: str
    alpha: float
    places: Places
    chance: float
    score_chance: float
    statistic: np.ndarray
    p_maps: dict
    observed_max: float
    null_max: np.ndarray
    n_permutations: int
    parameters: dict
    versions: dict

    def __post_init__(self):
        """Normalize the values, which may come from a file, and check the shapes."""
        self._convert(_unpacked, "places")
        self._convert(tuple, "correction")
        self._convert(float, "chance", "score_chance", "alpha", "observed_max")
        self._convert(int, "n_permutations")
        self._convert(np.asarray, "null_max", "statistic")
        self._convert(arrays, "p_maps")
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

    def __getattr__(self, name):
        """Return the coordinates along an axis of the map, e.g. `times`."""
        # Looked up in __dict__, because copy and pickle ask before there are fields.
        places = self.__dict__.get("places")
        if isinstance(places, Places) and name in places.coordinates:
            return places.coordinates[name]
        if isinstance(getattr(type(self), name, None), property):
            return getattr(type(self), name).fget(self)  # it says itself what is wrong
        raise AttributeError(f"{type(self).__name__!r} has no attribute {name!r}")

    @property
    def axes(self):
        """Fields of the coordinates, and what their columns of a table are called."""
        return self.places.axes

    @property
    def metrics(self):
        """All maps by name: the scores first, then the statistic."""
        return {self.metric: self.scores, "statistic": self.statistic}

    @property
    def chances(self):
        """Where the colors of each map have their middle, NaN where it has none."""
        middle = np.nan if self._skewed else 0.0
        return {self.metric: self.chance, "statistic": middle}

    #: Whether the statistic has no value of its own for "no effect".
    _skewed: ClassVar[bool] = False

    @property
    def counted(self):
        """Where there are scores, bool, of the shape of the map."""
        return ~np.isnan(self.p_maps["none"])

    @property
    def decoded(self):
        """Where there are scores; figures of brains ask for it by this name."""
        return self.counted

    @property
    def geometry(self):
        """Where the positions are in a brain; None for maps of epochs."""
        return self.places.geometry

    @property
    def info(self):
        """The channels, an `mne.Info`; None where none were kept."""
        return self.places.info

    @property
    def adjacency(self):
        """Pairs of neighbouring sensors or positions of a brain, (2, n_pairs)."""
        return self.places.pairs

    def pvalues(self, correction=None):
        """Return p-values.

        Parameters
        ----------
        correction : str or None
            Correction for testing many positions, see
            `mvpa_kfda.inference.corrections`. None takes the one that was asked for.
            "none", "bonferroni", "fdr" and "fdr-by" are always there; the others if
            they were asked for.

        Returns
        -------
        p : float or array, of the shape of the map
            NaN where there are no scores.

        Raises
        ------
        ValueError
            If the correction is not known, or if it was not asked for.
        """
        return plain(self._corrected(self._correction(correction)))

    def _correction(self, name):
        """Return the name of a correction, the default one if None."""
        if name is None:
            return self.correction[0]
        if isinstance(name, str):  # large letters and underscores, as when asked for
            name = name.lower().replace("_", "-")
        return name if name in self.p_maps else check_correction(name)

    def _corrected(self, name):
        """Return p-values by the name of the correction."""
        if name in self.p_maps:
            return self.p_maps[name].copy()
        if name in ADJUSTMENTS:
            return self._adjusted(name, self.p_maps["none"])
        kept = ", ".join(map(repr, self.p_maps))
        raise ValueError(
            f"The correction {name!r} was not asked for, and the permutations are not "
            f"kept. Kept are: {kept}. Run {self.made_by} again with "
            f"correction={[*self.correction, name]}."
        )

    def _adjusted(self, name, p):
        """Return p-values that a correction computes from uncorrected ones."""
        p, counted = p.copy(), self.counted
        p[counted] = adjust(p[counted], name)
        return p

    def _p_for_plot(self, correction, metric):
        """Return the p-values that figures mark; all maps have the same ones."""
        return np.asarray(self.pvalues(correction))

    def to_dataframe(self, corrections=None):
        """Make a table with one row per position.

        Parameters
        ----------
        corrections : str, sequence of str, or None
            Corrections to add as columns ``p_<correction>``. None takes those that
            were asked for. A result with a single position has none.

        Returns
        -------
        table : pandas.DataFrame
            The position, every map, ``p`` (uncorrected) and one column per correction.
        """
        if corrections is None:
            corrections = self.correction
        elif isinstance(corrections, str):
            corrections = [corrections]
        names = [self._correction(name) for name in corrections]
        return self._frame(self._table(), [name for name in names if name != "none"])

    def _columns(self):
        """Return the columns of a table that say where every position is."""
        return self.places.columns()

    def _table(self):
        """Return the columns of a table with all maps."""
        return self.metrics

    def to_img(self, name=None, *, correction=None, **options):
        """Make an image of one of the maps, or of p-values.

        Parameters
        ----------
        name : str or None
            What the image shows. None: the scores. A name of `scoring`: that map.
            "p": p-values. "neglog10p": their -log10. "z": the normal deviates that p
            is the upper tail of.
        correction : str or None
            Correction of the p-values, as in `pvalues`.
        **options
            What else `pvalues` takes: of a prevalence test its `null`.

        Returns
        -------
        img : nibabel.Nifti1Image or nilearn.surface.SurfaceImage
            On the grid or the meshes of the maps: 0 outside of the mask (1 for "p"),
            and NaN where it has no scores.

        Raises
        ------
        ValueError
            If there is no such map, if the positions have no place in a brain, or as
            in `pvalues`.
        """
        if self.geometry is None:
            raise ValueError(
                f"There is no image of {self.places.describe()}. Images are for "
                "results of searchlights and regions; use to_dataframe() or plot()."
            )
        name = self.metric if name is None else name
        if name in self.metrics:
            return self.geometry.to_img(self.metrics[name])
        check_option("name", name, (*self.scoring, "p", "neglog10p", "z"))
        p = np.asarray(self.pvalues(correction, **options))
        return image_of_p(self.geometry, name, p, self.n_permutations)

    plot = figure_method(plot_group)
    plot_null = figure_method(plot_null_max)

    def _words(self):
        """Return parts of a line: best score, positions, and what was tested how."""
        return [self._worded_best(), self.places.describe(), *self._description()]

    def _worded_best(self):
        """Word the highest score."""
        scores = np.asarray(self.scores)
        best = np.nanmax(scores) if np.isfinite(scores).any() else np.nan
        peak = "peak " if self.axes else ""
        return f"{self.metric} {peak}{best:.3f}"

    def _worded_difference(self, what):
        """Word the largest difference, of either sign."""
        scores = np.ravel(self.scores)
        best = scores[np.nanargmax(np.abs(scores))]
        return f"{what} {'peak ' if self.axes else ''}{best:+.3f}"


def _unpacked(places):
    """Return places, which a file holds as plain values."""
    return unpack_places(places) if isinstance(places, dict) else places


class _TestWords(NamedTuple):
    """What a method of `group_inference` is called in figures, and what it tests."""

    test: str
    of_two_groups: str
    statistic: str


#: Method of a group -> its words. A prevalence test and a bootstrap have one group.
GROUP_TESTS = {
    "prevalence": _TestWords("Prevalence test", "", "{score}, lowest of all subjects"),
    "bootstrap": _TestWords(
        "Bootstrap of permuted means", "", "{score}, mean over subjects"
    ),
    "sign-flip": _TestWords(
        "Sign-flip test", "Permutation test of two groups", "t over subjects"
    ),
    "t": _TestWords("t-test", "t-test of two groups", "t over subjects"),
    "wilcoxon": _TestWords(
        "Signed-rank test", "Rank-sum test of two groups", "z of Wilcoxon's test"
    ),
}

#: The share of the population that a null hypothesis grants to have an effect.
NULLS = {"global": 0.0, "majority": 0.5}


@result_kind
class GroupResult(TestedMap):
    """Inference over subjects, see :func:`group_inference`.

    Parameters
    ----------
    subjects : array of str, shape (S,)
        Names of the subjects.
    subject_scores : array, shape (S, positions...)
        Scores of every subject. The coordinates of the map are attributes named as in
        the subjects' results, e.g. `times`; see `places`.
    other_subjects, other_scores : array or None
        The same of the second group, or of the second condition.
    paired : bool
        Whether the second list is of the same subjects.
    labels : tuple of two str
        Names of the two groups or conditions, if there are two.
    method : str
        "prevalence", "bootstrap", "sign-flip", "t" or "wilcoxon".
    alpha : float
        Significance level of the figures and of the prevalence bound.
    score_chance : float
        Chance level of the subjects' scores, also where differences were tested.
    statistic : array, shape (positions...)
        What was tested: the minimum over subjects ("prevalence"), their mean
        ("bootstrap"), Student's t ("sign-flip", "t") or the standardised rank sum
        ("wilcoxon").
    p_maps : dict of str -> array, shape (positions...)
        Correction -> p-values; of the global null hypothesis, if "prevalence".
    null_max : array, shape (P,)
        The same under every second-level permutation; empty if none were needed.
    n_permutations : int
        Number of second-level permutations P.

    Examples
    --------
    >>> import numpy as np
    >>> from mvpa_kfda import decode_arrays, group_inference
    >>> rng = np.random.default_rng(0)
    >>> y = np.repeat(["face", "house"], 20)
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
    >>> group.gamma_0.round(2)  # at least so many of the population
    array([ nan,  nan, 0.62])
    """

    made_by: ClassVar[str] = "group_inference"
    _has_subjects: ClassVar[bool] = True

    subjects: np.ndarray
    subject_scores: np.ndarray
    other_subjects: np.ndarray | None = None
    other_scores: np.ndarray | None = None
    paired: bool = False
    labels: tuple = ("first", "second")

    def __post_init__(self):
        """Normalize the arrays and check that their shapes belong together."""
        self._convert(lambda labels: tuple(map(str, labels)), "labels")
        self._convert(np.asarray, "subjects", "subject_scores")
        self._convert(optional_array, "other_subjects", "other_scores")
        super().__post_init__()
        for names, scores in (
            (self.subjects, self.subject_scores),
            (self.other_subjects, self.other_scores),
        ):
            if scores is not None and scores.shape != (len(names), *self.shape):
                raise ValueError(
                    f"{len(names)} subjects with positions {self.shape} need scores of "
                    f"shape {(len(names), *self.shape)}; got {scores.shape}."
                )

    @property
    def n_subjects(self):
        """Number of subjects in the first list."""
        return len(self.subjects)

    @property
    def scores(self):
        """Mean over subjects, or the difference of the two means."""
        mean = self.subject_scores.mean(axis=0)
        if self.other_scores is None:
            return mean
        return mean - self.other_scores.mean(axis=0)

    @property
    def metrics(self):
        """All maps by name: scores, statistic, and the prevalence bound."""
        maps = super().metrics
        if self.method == "prevalence":
            maps["gamma_0"] = self.gamma_0
        return maps

    @property
    def chances(self):
        """Where the colors of each map have their middle, NaN where it has none."""
        chances = super().chances
        if self.method == "prevalence":
            chances["gamma_0"] = np.nan
        return chances

    @property
    def _skewed(self):
        """Whether the statistic has no value of its own for "no effect"."""
        return self.method in ("prevalence", "bootstrap")

    @property
    def gamma_0(self):
        """The prevalence bound at `alpha`, corrected unless the correction is "none".

        NaN where not even a prevalence of 0 is rejected, see `prevalence_bound`. Where
        it equals `largest_gamma_0`, the number of permutations is what limits it: more
        of them raise it.
        """
        return self.prevalence_bound()

    def prevalence_bound(self, correction=None, alpha=None):
        r"""Return the largest share of the population that is sure to have an effect.

        The lower bound of a one-sided confidence interval of the prevalence: every
        smaller share is rejected at `alpha` [1]_ (Eq. 20, with the correction Eq. 23):

        .. math::
            \gamma_0 = \frac{\alpha_*^{1/N} - p^{1/N}}{1 - p^{1/N}}, \qquad
            \alpha_* = \frac{\alpha - p_c}{1 - p_c}

        for N subjects, with the p-value p of the global null hypothesis at that
        position, uncorrected, and :math:`p_c`, corrected by the maximum over
        positions; uncorrected, :math:`\alpha_* = \alpha`.

        Parameters
        ----------
        correction : str or None
            "none": without a correction for testing many positions. None takes the one
            that was asked for. Any other: that of the paper, by the maximum.
        alpha : float or None
            Significance level, None takes the one that was asked for.

        Returns
        -------
        bound : array, shape (positions...)
            Between 0 and 1; NaN where not even a prevalence of 0 is rejected. With the
            correction that takes :math:`p_c + (1 - p_c) p \leq \alpha` (Eq. 21), a
            little more than :math:`p_c \leq \alpha`, which rejects the global null.

        Raises
        ------
        AttributeError
            If the method is not "prevalence".
        ValueError
            If `alpha` is not between 0 and 1, or the correction is not known.

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
        alpha = self.alpha if alpha is None else alpha
        corrected = None
        if self._correction(correction) != "none":
            corrected = self.p_maps["max"]
        p = self.p_maps["none"]
        return prevalence_bound(p, self.n_subjects, alpha, corrected)

    @property
    def largest_gamma_0(self):
        """The largest prevalence bound that so many permutations can give."""
        return largest_bound(self.n_subjects, self.n_permutations, self.alpha)

    def pvalues(self, correction=None, *, null="global"):
        r"""Return p-values.

        Parameters
        ----------
        correction : str or None
            Correction for testing many positions, see
            `mvpa_kfda.inference.corrections`. None takes the one that was asked for.
            "none", "bonferroni", "fdr" and "fdr-by" are always there; the others if
            they were asked for.
        null : {"global", "majority"} or float
            For "prevalence" only, the null hypothesis: that no subject of the
            population has an effect ("global"), at most half of them ("majority"), or
            at most that share. Of share :math:`\gamma`, with N subjects [1]_ (Eq. 19
            and 21):

            .. math::
                p_\gamma = ((1 - \gamma) p^{1/N} + \gamma)^N, \qquad
                p_{\gamma,c} = p_c + (1 - p_c) p_\gamma

        Returns
        -------
        p : float or array, shape (positions...)
            NaN where not all subjects have scores.

        Raises
        ------
        ValueError
            If the correction is not known or was not asked for, or if the null
            hypothesis is not one of this method.

        References
        ----------
        .. [1] Allefeld, C., Goergen, K., & Haynes, J.-D. (2016). Valid population
           inference for information-based imaging: From the second-level t-test to
           prevalence inference. NeuroImage, 141, 378-392.
        """
        gamma = self._share(null)
        if gamma == 0:
            return super().pvalues(correction)
        name = self._correction(correction)
        n, uncorrected = self.n_subjects, self.p_maps["none"]
        if name == "max":
            return prevalence_p(uncorrected, n, gamma, self.p_maps["max"])
        p = prevalence_p(uncorrected, n, gamma)
        if name == "none":
            return p
        if name in ADJUSTMENTS:
            return self._adjusted(name, p)
        raise ValueError(
            f"The correction {name!r} tests the global null hypothesis only. For a "
            "share of the population use 'max', 'none', 'bonferroni', 'fdr' or "
            "'fdr-by', or null='global'."
        )

    def _share(self, null):
        """Return the share of the population that the null hypothesis is about."""
        if isinstance(null, str):
            share = NULLS[check_option("null", null, NULLS, ("a share from 0 to 1",))]
        else:
            real = isinstance(null, Real) and not isinstance(null, bool)
            if not real or not 0 <= null < 1:
                raise ValueError(
                    f"Invalid value for 'null': {null!r}. Allowed: 'global', "
                    "'majority', or a share of the population, at least 0 and below 1."
                )
            share = float(null)
        if share and self.method != "prevalence":
            raise ValueError(
                f"The method {self.method!r} has no null hypothesis about a share of "
                'the population; use group_inference(results, method="prevalence").'
            )
        return share

    def _p_columns(self, correction, column, metric):
        """Return the columns of a table with p-values under a correction."""
        columns = super()._p_columns(correction, column, metric)
        majority = correction in ("none", "max") or correction in ADJUSTMENTS
        if self.method == "prevalence" and majority:
            name = column.replace("p", "p_majority", 1)
            columns[name] = self.pvalues(correction, null="majority")
        return columns

    def _table(self):
        """Return the columns of a table with all maps, and of both lists their own."""
        if self.other_scores is None:
            return self.metrics
        name, maps = self.metric, self.metrics
        return {
            f"{name}_difference": maps.pop(name),
            f"{name}_first": self.subject_scores.mean(axis=0),
            f"{name}_second": self.other_scores.mean(axis=0),
            **maps,
        }

    def peaks(self, correction=None, *, alpha=None, min_distance=8.0):
        """Make a table of the peaks of the significant positions of a brain.

        Parameters
        ----------
        correction : str or None
            Correction of the p-values; None takes the one that was asked for.
        alpha : float or None
            Positions with p <= alpha are significant; None takes `alpha`.
        min_distance : float
            Peaks of one cluster are further apart than this, in mm.

        Returns
        -------
        table : pandas.DataFrame
            As of :meth:`VolumeResult.peaks`: one row per peak of the scores.

        Raises
        ------
        ValueError
            If the positions have no place in a brain, or as in `pvalues`.
        """
        if self.geometry is None:
            raise ValueError(
                f"There are no peaks in a table for {self.places.describe()}; use "
                "to_dataframe(), or bootstrap_latency for the peak of a time course."
            )
        name = self._correction(correction)
        alpha = self.alpha if alpha is None else alpha
        return peak_table(self, name, alpha, self.metric, min_distance, None)

    def _worded_best(self):
        """Word the highest score, or the largest difference of either sign."""
        if self.other_scores is None:
            return super()._worded_best()
        return self._worded_difference(f"{self.metric} difference")

    @property
    def _is_difference(self):
        """Whether the scores are differences."""
        return self.other_scores is not None

    @property
    def _compared(self):
        """The names of what a difference is between."""
        return self.labels

    @property
    def _statistic_label(self):
        """What was tested, with places for the labels of score and difference."""
        return GROUP_TESTS[self.method].statistic

    @property
    def _draws(self):
        """What is drawn for the null distribution."""
        two_groups = self._is_difference and not self.paired
        combined = self.method in ("prevalence", "bootstrap")
        return "permutations" if two_groups or combined else "sign flips"

    def _title(self):
        """Return parts of a figure's title: the test, the subjects, and the draws."""
        words, n = GROUP_TESTS[self.method], self.n_subjects
        parts = [words.test, f"{n} subjects"]
        if self._is_difference and self.paired:
            parts = [words.test, f"{n} subjects in two conditions"]
        elif self._is_difference:
            n_others = len(self.other_scores)
            parts = [words.of_two_groups, f"{n} and {n_others} subjects"]
        if self.n_permutations:
            parts.append(f"{self.n_permutations:,} {self._draws}")
        return parts

    def _description(self):
        """Return parts of a line: what the scores were computed from."""
        parts = [f"{self.n_subjects} subjects"]
        if self.other_scores is not None:
            what = "in two conditions" if self.paired else "against"
            more = "" if self.paired else f" {len(self.other_subjects)} others"
            parts = [f"{parts[0]} {what}{more}"]
        parts.append(f"method {self.method!r}")
        if self.n_permutations:
            parts.append(f"{self.n_permutations:,} second-level permutations")
        return parts


#: Method of a comparison -> what it is called in figures.
COMPARISON_TESTS = {
    "permutation": "Permutation test of a difference",
    "sign-flip": "Sign-flip test of a difference",
    "both": "Permutation and sign-flip tests of a difference",
}


@result_kind
class ComparisonResult(TestedMap):
    """The difference between two results of one subject, see :func:`compare`.

    Parameters
    ----------
    scores_a, scores_b : float or array, shape (positions...)
        The scores that are compared. `scores` is their difference, a minus b; the
        coordinates of the map are attributes named as in the results, e.g. `times`.
    metric : str
        Name of the difference: the metric of the scores and "_difference".
    method : str
        "permutation", "sign-flip" or "both".
    alternative : str
        "two-sided", "greater" (a is better) or "less".
    chance : float
        0, the difference between equal scores.
    score_chance : float
        Chance level of the scores that are compared.
    statistic : array, shape (positions...)
        What was tested: the difference ("permutation", "both"), or the difference in
        units of its standard deviation under random flips ("sign-flip").
    p_maps : dict of str -> array, shape (positions...)
        Correction -> p-values; the larger of the two tests', if "both".
    null_max : array, shape (P,)
        The same under every permutation of labels ("permutation", "both") or flip.
    n_permutations : int
        Number of permutations or, if "sign-flip", of sign flips P.
    parameters : dict
        The arguments of the comparison, the number of trials in words ("trials") and
        of sign flips ("n_flips"), and the arguments of the analyses ("a" and "b").

    Examples
    --------
    >>> import numpy as np
    >>> from mvpa_kfda import compare, decode_arrays
    >>> rng = np.random.default_rng(0)
    >>> y = np.repeat(["face", "house"], 30)
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
    _is_difference: ClassVar[bool] = True
    _compared: ClassVar[tuple] = ("a", "b")

    scores_a: np.ndarray
    scores_b: np.ndarray

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
    def scores(self):
        """The difference of the scores, a minus b; NaN where either has none."""
        return self.scores_a - self.scores_b

    @property
    def metrics(self):
        """All maps by name: the difference, both scores, and the tested statistic."""
        name = self.metric.removesuffix("_difference")
        maps = {f"{name}_a": self.scores_a, f"{name}_b": self.scores_b}
        return {self.metric: self.scores, **maps, "statistic": self.statistic}

    @property
    def chances(self):
        """Where the colors of each map have their middle, NaN where it has none."""
        return {
            name: 0.0 if name in (self.metric, "statistic") else self.score_chance
            for name in self.metrics
        }

    @property
    def _statistic_label(self):
        """What was tested, with a place for the label of the difference."""
        flips = self.method == "sign-flip"
        return "{difference}, in standard deviations" if flips else "{difference}"

    @property
    def _draws(self):
        """What is drawn for the null distribution."""
        return "sign flips" if self.method == "sign-flip" else "permutations"

    def _title(self):
        """Return parts of a figure's title: the test, the trials, and the draws."""
        test = COMPARISON_TESTS[self.method]
        return [test, *self._trials(), *self._worded_draws()]

    def _description(self):
        """Return parts of a line: the trials, the method, and the draws."""
        if self.method == "both":
            method = "methods 'permutation' and 'sign-flip'"
        else:
            method = f"method {self.method!r}"
        return [*self._trials(), method, *self._worded_draws()]

    def _trials(self):
        """Return the words for the trials, if there are any."""
        trials = self.parameters.get("trials")
        return [trials] if trials else []

    def _worded_draws(self):
        """Return the words for how often labels were permuted and signs flipped."""
        parts = []
        if self.method != "sign-flip":
            parts.append(f"{self.n_permutations:,} permutations")
        if self.method != "permutation":
            n_flips = self.parameters.get("n_flips") or self.n_permutations
            parts.append(f"{n_flips:,} sign flips")
        return parts

    def _worded_best(self):
        """Word the largest difference, of either sign."""
        return self._worded_difference(self.metric)


@result_kind
class Latency(Result):
    """Onset and peak of a group's time course, see :func:`bootstrap_latency`.

    Parameters
    ----------
    onset, peak : float
        Latencies in seconds of the mean over subjects; the onset is NaN if there is
        none. Of two groups or conditions: the first minus the second.
    onset_interval, peak_interval : array, shape (2,)
        Bootstrap intervals in seconds.
    onsets, peaks : array, shape (n_bootstraps,)
        Latencies of the resamples, NaN where there is no onset.
    confidence : float
        Confidence of the intervals.
    metric : str
        The metric of the scores.
    chance : float
        Its chance level, NaN where it has none.
    times : array, shape (n_times,)
        Time points in seconds; empty for a difference.
    mean : array, shape (n_times,)
        Mean over subjects; empty for a difference.
    n_subjects : int
        Number of subjects, in both groups if they are different ones.
    parts : tuple of Latency
        For a difference: the latencies that it is between.
    window : tuple of float or None
        First and last time in seconds that were searched; None: all.
    parameters : dict
        What was asked for: "criterion", "fraction", "level", "min_duration", "window",
        "baseline", "paired", and the seed of the resamples, "random_state".
    versions : dict of str -> str
        Versions of the packages that made the result.

    Examples
    --------
    >>> import numpy as np
    >>> empty = np.empty(0)
    >>> Latency(
    ...     onset=0.1,
    ...     peak=0.2,
    ...     onset_interval=np.array([0.08, 0.13]),
    ...     peak_interval=np.array([0.18, 0.21]),
    ...     onsets=empty,
    ...     peaks=empty,
    ...     confidence=0.95,
    ...     metric="accuracy",
    ...     chance=0.5,
    ...     times=empty,
    ...     mean=empty,
    ...     n_subjects=12,
    ... )
    <Latency: onset 0.100 s [0.080, 0.130] | peak 0.200 s [0.180, 0.210] | 12 subjects>
    """

    onset: float
    peak: float
    onset_interval: np.ndarray
    peak_interval: np.ndarray
    onsets: np.ndarray
    peaks: np.ndarray
    confidence: float
    metric: str
    chance: float
    times: np.ndarray
    mean: np.ndarray
    n_subjects: int
    parts: tuple = ()
    window: tuple | None = None
    parameters: dict = field(default_factory=dict)
    versions: dict = field(default_factory=dict)

    def __post_init__(self):
        """Make latencies of the parts, which a file holds as plain values."""
        parts = (Latency(**p) if isinstance(p, dict) else p for p in self.parts)
        object.__setattr__(self, "parts", tuple(parts))

    def _content(self):
        """Map the names of the fields to plain values."""
        parts = tuple(part._content() for part in self.parts)
        return super()._content() | {"parts": parts}

    @property
    def n_without_onset(self):
        """Number of resamples that have no onset."""
        return int(np.count_nonzero(np.isnan(self.onsets)))

    def to_dataframe(self):
        """Make a table of the latencies.

        Returns
        -------
        table : pandas.DataFrame
            One row per latency: its name (``latency``), ``time`` and ends of the
            interval, ``low`` and ``high``, in seconds, and the number of resamples
            ``without`` it. For a difference, ``of`` tells "difference", "first" and
            "second".
        """
        import pandas as pd  # slow to import, and only tables need it

        named = {"": self}
        if self.parts:
            first, second = self.parts
            named = {"difference": self, "first": first, "second": second}
        rows = []
        for of, latency in named.items():
            missing = {"onset": latency.n_without_onset, "peak": 0}
            for name, without in missing.items():
                low, high = getattr(latency, f"{name}_interval")
                row = {"of": of} if of else {}
                row |= {"latency": name, "time": getattr(latency, name)}
                rows.append(row | {"low": low, "high": high, "without": without})
        return pd.DataFrame(rows)

    plot = figure_method(plot_latency)

    def _worded(self):
        """Word the latencies and their intervals."""
        parts = []
        for which in ("onset", "peak"):
            time, (low, high) = getattr(self, which), getattr(self, f"{which}_interval")
            none = np.isnan(time)
            words = "none" if none else f"{time:.3f} s [{low:.3f}, {high:.3f}]"
            parts.append(f"{which} {words}")
        return parts

    def __repr__(self):
        """Describe the latencies in one line."""
        parts = [*self._worded(), f"{self.n_subjects} subjects"]
        return f"<{'Difference in ' * bool(self.parts)}Latency: {' | '.join(parts)}>"
