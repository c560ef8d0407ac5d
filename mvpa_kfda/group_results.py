"""The result of a group: a score and p-values at every position, over subjects."""

from dataclasses import dataclass
from numbers import Real
from typing import ClassVar

import numpy as np

from ._checks import check_option
from ._inference.corrections import ADJUSTMENTS
from ._inference.prevalence import largest_bound, prevalence_bound, prevalence_p
from ._peaks import peak_table
from ._plotted import OfTest
from ._results.tested import TestedMap

#: The share of the population that a null hypothesis grants to have an effect.
NULLS = {"global": 0.0, "majority": 0.5}


@dataclass(frozen=True, kw_only=True, repr=False, eq=False)
class GroupResult(OfTest, TestedMap):
    """Inference over subjects, see `group_inference`.

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
    metric : str
        The metric of the scores.
    method : str
        "prevalence", "bootstrap", "sign-flip", "t" or "wilcoxon".
    correction : tuple of str
        The corrections that were asked for; the first is the default of `pvalues`.
    alternative : str
        "greater", "less" or "two-sided".
    alpha : float
        Significance level of the figures and of the prevalence bound.
    places : Places
        The positions: `kind`, `axes`, `coordinates` and, in a brain, `geometry`.
    chance : float
        Chance level of the scores; 0 for differences.
    score_chance : float
        Chance level of the subjects' scores, also where differences were tested.
    statistic : array, shape (positions...)
        What was tested: the minimum over subjects ("prevalence"), their mean
        ("bootstrap"), Student's t ("sign-flip", "t") or the standardised rank sum
        ("wilcoxon").
    p_maps : dict of str -> array, shape (positions...)
        Correction -> p-values; of the global null hypothesis, if "prevalence".
    observed_max : float
        The most extreme statistic over all positions: the largest, the largest of its
        negative ("less"), or the largest distance from its centre ("two-sided").
    null_max : array, shape (P,)
        The same under every second-level permutation; empty if none were needed.
    n_permutations : int
        Number of second-level permutations P.
    parameters : dict
        The arguments of the analysis.
    versions : dict of str -> str
        Versions of the packages that made the result.

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

    subjects: np.ndarray
    subject_scores: np.ndarray
    other_subjects: np.ndarray | None = None
    other_scores: np.ndarray | None = None
    paired: bool = False
    labels: tuple = ("first", "second")

    def __post_init__(self):
        """Normalize the arrays and check that their shapes belong together."""
        object.__setattr__(self, "labels", tuple(map(str, self.labels)))
        for name in ("subjects", "subject_scores", "other_subjects", "other_scores"):
            if getattr(self, name) is not None:
                object.__setattr__(self, name, np.asarray(getattr(self, name)))
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
            Correction for testing many positions, see `mvpa_kfda.inference`. None
            takes the one that was asked for. "none", "bonferroni", "fdr" and "fdr-by"
            are always there; the others if they were asked for.
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

    def _p_columns(self, correction, column):
        """Return the columns of a table with p-values under a correction."""
        columns = super()._p_columns(correction, column)
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

    def _description(self):
        """Return parts of a title: what the scores were computed from."""
        parts = [f"{self.n_subjects} subjects"]
        if self.other_scores is not None:
            what = "in two conditions" if self.paired else "against"
            more = "" if self.paired else f" {len(self.other_subjects)} others"
            parts = [f"{parts[0]} {what}{more}"]
        parts.append(f"method {self.method!r}")
        if self.n_permutations:
            parts.append(f"{self.n_permutations:,} second-level permutations")
        return parts
