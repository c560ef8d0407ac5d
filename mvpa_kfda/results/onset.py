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
            "max", "max-step-down", "bonferroni", "cluster-depth"
        ] = "max",
        *,
        metric: str | None = None,
        alternative: Alternative = "greater",
        alpha: float = 0.05,
    ) -> float:
        """Return the first significant time.

        By then there is an effect, with an error of `alpha` for all times together. It
        is not when the effect begins: with more trials or a stronger effect earlier
        times become significant, and smoothing, filters and windows, whose time is
        their centre, move it. So it does not serve to compare conditions or people. Of
        several subjects, `bootstrap_latency` gives onsets with intervals.

        Parameters
        ----------
        correction : {"max", "max-step-down", "bonferroni", "cluster-depth"}
            The correction for testing many times. "cluster-depth" finds more of effects
            that last, and needs a time course whose clusters begin and end within the
            window [2]_. The others of `pvalues` are refused,
            as under them a time that is marked need not have an effect: a cluster is
            significant as a whole [1]_.
        metric : str or None
            Name of the metric; None takes the first.
        alternative : {"greater", "less", "two-sided"}
            Which scores are tested for: above those of permuted labels, below them, or
            further from their mean than they are. Decoding asks for "greater".
        alpha : float
            A time with p <= alpha is significant.

        Returns
        -------
        onset : float
            The first time at which the score, or that of any frequency or sensor, is
            significant, in seconds. NaN if there is none.

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
