"""Results of comparisons between two results of one subject."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from ..inference.exchange import interval_of_difference
from ..inference.null import Alternative
from ..utils.checks import counted, quoted
from ..viz.style import DEFAULT_RESULTS
from .fields import result_kind
from .group import TestedMap
from .population import MeanInterval, check_interval

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
