"""What a group says of shares of the population that have an effect."""

from functools import partial
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..inference.carriers import order_p
from ..inference.corrections import (
    ADJUSTMENTS,
    CORRECTIONS,
    CorrectionName,
    adjust,
    holm,
    smallest_p_value,
)
from ..inference.prevalence import prevalence_bound, prevalence_p
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
        """The prevalence bound at `alpha`, for all positions unless "none" was asked.

        NaN where not even a prevalence of 0 is rejected, see `prevalence_bound`. It is
        never above `largest_gamma_0`.
        """
        return self.prevalence_bound()

    def prevalence_bound(
        self, correction: CorrectionName | None = None, alpha: float | None = None
    ) -> NDArray:
        r"""Return the largest share of the population that is sure to have an effect.

        The lower bound of a one-sided confidence interval of the prevalence
        :math:`\gamma`: every smaller share is rejected. It is the :math:`\gamma` at
        which the p-value of `pvalues` without a correction, :math:`p_\gamma`, is
        :math:`\alpha_*`; where all :math:`p_k` are equal, :math:`p_k = p^{1/N}`, it is
        Eq. 20 of [1]_:

        .. math::
            \prod_{k=1}^{N} (\gamma_0 + (1 - \gamma_0) p_k) = \alpha_*, \qquad
            \gamma_0 = \frac{\alpha_*^{1/N} - p^{1/N}}{1 - p^{1/N}}

        For one position, :math:`\alpha_* = \alpha`. At all V positions at once
        :math:`\alpha_* = \alpha / V`: each bound is above the true share with a
        probability of :math:`\alpha / V` at most, so that one or more of them are with
        a probability of :math:`\alpha` at most, whatever the shares are and however
        positions depend on each other. This cannot be had from Holm's method, which
        tests one share at all positions; therefore the majority null may be rejected
        by `pvalues` where the bound is a little below 0.5.

        Parameters
        ----------
        correction : str or None
            "none": the bound of each position for itself, good for one that was chosen
            beforehand. None takes the correction that was asked for. Any other: bounds
            that hold at all positions at once.
        alpha : float or None
            Significance level, None takes the one that was asked for.

        Returns
        -------
        bound : array, shape (positions...)
            Between 0 and 1; NaN where not even a prevalence of 0 is rejected.

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
        alpha = check_share("alpha", self.alpha if alpha is None else alpha)
        level = alpha / self.n_positions_tested(correction)
        return self._filled(prevalence_bound(self._p_by_subject, level))

    @property
    def largest_gamma_0(self) -> float:
        """The largest prevalence bound that these subjects can show at `alpha`.

        It takes all of them to exceed each of their permutations. More subjects raise
        it, or fewer positions; more permutations of the subjects a little.
        """
        level = self.alpha / self.n_positions_tested()
        return float(prevalence_bound(self.smallest_p_by_subject, level))

    def smallest_p(
        self, correction: str = "none", n_positions: int = 1, metric: str | None = None
    ) -> float:
        """Return the smallest p-value that the permutations can give; 0 if open.

        Parameters
        ----------
        correction : str
            Correction for testing many positions.
        n_positions : int
            Number of positions that are tested.
        metric : str or None
            Name of the metric; some have fewer different permutations.

        Returns
        -------
        p : float
            What no p-value of this result can be below.
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
        """The smallest p-values (S,) that the permutations of subjects can give."""
        least = self.parameters.get("first_level_smallest_p")
        return np.zeros(self.n_subjects) if least is None else np.asarray(least)

    def n_positions_tested(self, correction: str | None = None) -> int:
        """Return at how many positions the prevalence bound holds at once.

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
