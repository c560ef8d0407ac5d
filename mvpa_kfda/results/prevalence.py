"""What a group says of shares of the population that have an effect."""

from functools import partial
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..inference.corrections import (
    ADJUSTMENTS,
    CORRECTIONS,
    CorrectionName,
    adjust,
    holm,
    smallest_p_value,
)
from ..inference.prevalence import order_p, prevalence_bound, prevalence_p
from ..utils.checks import check_option, check_share

#: Corrections in whose place Holm's is taken for a share of the population.
BY_HOLM = ("max", "max-step-down")

#: The share of the population that a null hypothesis grants to have an effect.
NULLS = {"global": 0.0, "majority": 0.5}


def share_of(hypothesis):
    """Return the share of the population that a null hypothesis is about."""
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


class PrevalenceMixin:
    """A result of subjects, with `method` and `p_of_minimum`; before `TestedMap`."""

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

    def _filled(self, values):
        """Put values (C,) of the positions that count into a map, NaN elsewhere."""
        filled = np.full(self.shape, np.nan)
        filled[self.counted] = values
        return filled[()]

    def _share(self, hypothesis):
        """Return the share of the population that the null hypothesis is about."""
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
        """Return the p-values of a share of the population above 0, by correction."""
        corrected = None
        if name in BY_HOLM:
            corrected = holm
        elif name in ADJUSTMENTS:
            corrected = partial(adjust, correction=name)
        elif name != "none":
            raise ValueError(
                f"The correction {name!r} tests the global null hypothesis only. For a "
                "share of the population use 'max', which takes Holm's method, 'none', "
                "'bonferroni', 'holm', 'fdr' or 'fdr-by', or hypothesis='global'."
            )
        p = prevalence_p(self._p_by_subject, gamma)
        return self._filled(p if corrected is None else corrected(p))
