"""Where scores are without an effect: at chance, or at the mean of permuted labels."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..inference.null import centre_of
from ..metrics.names import mean_of_permuted
from ..utils.rounding import rounded


class ChanceMixin:
    """A result with a chance level, and perhaps scores of permuted labels."""

    def permuted_mean(self, metric: str | None = None) -> float:
        """Return the mean score of permuted labels where it is not the chance level.

        Without an effect scores are around it, not around chance: of unequal classes,
        models favour the largest.

        Parameters
        ----------
        metric : str or None
            Name of the metric; None takes the first.

        Returns
        -------
        mean : float
            The mean over permutations and positions. NaN if it differs from chance by
            less than four standard errors or a fifth of the standard deviation of a
            permuted score, and without permutations or a chance level.
        """
        return self._permuted_mean(self.scoring[0] if metric is None else metric)

    def _permuted_mean(self, metric):
        """Return the mean score of permuted labels where it is not the chance level."""
        tests = self.kept_tests(metric)
        centre = centre_of(tests[0].null) if tests else None
        off = centre is not None and centre.is_off(self.chances[metric])
        return centre.mean if off else np.nan

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
        permuted = self._permuted_mean(metric)
        return permuted if np.isfinite(permuted) else self.chances[metric]

    def worded_chance(
        self, metric: str | None = None, word: Callable[[float], str] = rounded
    ) -> str:
        """Describe the chance level and, if it differs, the mean of permuted labels.

        Parameters
        ----------
        metric : str or None
            Name of the metric; None takes the first.
        word : callable
            What words a number.

        Returns
        -------
        words : str
            E.g. "chance 0.500" or "chance 0.500; mean of permuted labels 0.785"; empty
            without a chance level.
        """
        metric = self.scoring[0] if metric is None else metric
        chance, permuted = self.chances[metric], self.permuted_mean(metric)
        words = f"chance {word(chance)}" if np.isfinite(chance) else ""
        if np.isfinite(permuted):
            words += f"; {mean_of_permuted(metric)} {word(permuted)}"
        return words


class TestedChanceMixin(ChanceMixin):
    """The same of a test, which records what its subjects' permutations say."""

    #: Mean scores of permuted labels (S, positions...) that were tested against.
    permuted_means: NDArray | None = None

    def _permuted_mean(self, metric):
        """Return the mean score of permuted labels where it is not the chance level."""
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
