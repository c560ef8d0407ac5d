"""The first significant time of one subject's map, and what it does not say."""

from typing import Literal

import numpy as np

from ..inference.corrections import CORRECTIONS, check_correction
from ..inference.null import Alternative
from ..utils.checks import check_share, quoted

#: The corrections by which each significant time is shown to have an effect.
_ALLOWED = [name for name, known in CORRECTIONS.items() if known.of_positions]


class OnsetMixin:
    """A result with `times`; comes before `SubjectResult` as a base."""

    def onset(
        self,
        correction: Literal[
            "max", "max-step-down", "bonferroni", "holm", "cluster-depth"
        ] = "max",
        *,
        metric: str | None = None,
        alternative: Alternative = "greater",
        alpha: float = 0.05,
    ) -> float:
        """Return the first significant time.

        There is an effect by then, with an error rate of `alpha` across all times. This
        is not the time when the effect begins: with more trials or a stronger effect,
        earlier times become significant, and smoothing, filters and windows (whose time
        is their centre) shift it. It is therefore unsuitable for comparing conditions
        or people. For several subjects, `bootstrap_latency` estimates onsets with
        intervals.

        Parameters
        ----------
        correction : {"max", "max-step-down", "bonferroni", "holm", "cluster-depth"}
            The correction for testing many times. "cluster-depth" is more sensitive to
            sustained effects, and needs a time course whose clusters begin and end
            within the window [2]_. Other corrections of `pvalues` are not allowed,
            since time points they mark need not have an effect: a cluster is
            significant as a whole [1]_.
        metric : str or None
            Name of the metric; None takes the first.
        alternative : {"greater", "less", "two-sided"}
            Whether to test for scores above those of permuted labels, below them, or
            further from their mean. Decoding usually tests for "greater".
        alpha : float
            A time with p <= alpha is significant.

        Returns
        -------
        onset : float
            The first time, in seconds, at which the score (of any frequency or sensor)
            is significant. NaN if there is none.

        Raises
        ------
        ValueError
            If the correction is not one of these, if `alpha` is not between 0 and 1,
            or as in `pvalues`.

        References
        ----------
        .. [1] Sassenhagen, J., & Draschkow, D. (2019). Cluster-based permutation tests
           of MEG/EEG data do not establish significance of effect latency or location.
           Psychophysiology, 56(6), e13335.
        .. [2] Frossard, J., & Renaud, O. (2022). The cluster depth tests: Toward
           point-wise strong control of the family-wise error rate in massively
           univariate tests with application to M/EEG. NeuroImage, 247, 118824.
        """
        check_share("alpha", alpha)
        correction = check_correction(correction)
        if correction not in _ALLOWED:
            raise ValueError(
                f"There is no onset with correction={correction!r}: it does not show "
                "an effect at every single time that it marks, and the first one may "
                f"have none. Use one that does: {quoted(_ALLOWED)}."
            )
        p = self.pvalues(correction, metric=metric, alternative=alternative)
        others = tuple(k for k, name in enumerate(self.axes) if name != "times")
        times = self.times[(p <= alpha).any(axis=others)]
        return float(times.min()) if len(times) else np.nan
