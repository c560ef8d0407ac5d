"""The result of comparing two results of one subject."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ._plotted import OfTest
from ._results.tested import TestedMap


@dataclass(frozen=True, kw_only=True, repr=False, eq=False)
class ComparisonResult(OfTest, TestedMap):
    """The difference between two results of one subject, see `compare`.

    Parameters
    ----------
    scores_a, scores_b : float or array, shape (positions...)
        The scores that are compared. `scores` is their difference, a minus b; the
        coordinates of the map are attributes named as in the results, e.g. `times`.
    metric : str
        Name of the difference: the metric of the scores and "_difference".
    method : str
        "permutation", "sign-flip" or "both".
    correction : tuple of str
        The corrections that were asked for; the first is the default of `pvalues`.
    alternative : str
        "two-sided", "greater" (a is better) or "less".
    alpha : float
        Significance level of the figures.
    places : Places
        The positions: `kind`, `axes`, `coordinates` and, in a brain, `geometry`.
    chance : float
        0, the difference between equal scores.
    score_chance : float
        Chance level of the scores that are compared.
    statistic : array, shape (positions...)
        What was tested: the difference ("permutation", "both"), or the difference in
        units of its standard deviation under random flips ("sign-flip").
    p_maps : dict of str -> array, shape (positions...)
        Correction -> p-values; the larger of the two tests', if "both".
    observed_max : float
        The most extreme statistic over all positions: the largest, the largest of its
        negative ("less"), or the largest distance from its centre ("two-sided").
    null_max : array, shape (P,)
        The same under every permutation of labels ("permutation", "both") or flip.
    n_permutations : int
        Number of permutations or, if "sign-flip", of sign flips P.
    parameters : dict
        The arguments of the comparison, the number of trials in words ("trials") and
        of sign flips ("n_flips"), and the arguments of the analyses ("a" and "b").
    versions : dict of str -> str
        Versions of the packages that made the result.

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

    def _description(self):
        """Return parts of a title: the trials, the method, and how often it drew."""
        trials, n_flips = (self.parameters.get(k) for k in ("trials", "n_flips"))
        parts = [trials] if trials else []
        if self.method == "both":
            parts.append("methods 'permutation' and 'sign-flip'")
        else:
            parts.append(f"method {self.method!r}")
        if self.method != "sign-flip":
            parts.append(f"{self.n_permutations:,} permutations")
        if self.method != "permutation":
            parts.append(f"{n_flips or self.n_permutations:,} sign flips")
        return parts

    def _worded_best(self):
        """Word the largest difference, of either sign."""
        return self._worded_difference(self.metric)
