"""Results of which only a summary of the permuted labels' scores may be kept."""

from __future__ import annotations

from dataclasses import field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..inference.corrections import KeptTest
from ..inference.null import NullSummary
from .fields import record


@record
class SummariesMixin:
    """A result whose null may be summarised; comes before `SubjectResult` as a base.

    Parameters
    ----------
    nulls : dict of str -> array, shape (P, positions...)
        Name -> scores under permuted labels, in single precision. Empty if only a
        summary was kept.
    null_summaries : dict of str -> dict
        Name -> summary that was kept instead, see
        `mvpa_kfda.inference.null.NullSummary`.
    """

    null_summaries: dict[str, Any] = field(default_factory=dict)

    @property
    def n_permutations(self) -> int:
        """Number of label permutations, not counting the observed labels."""
        counts = [self._summary(k).n_permutations for k in self.null_summaries]
        return max([super().n_permutations, *counts])

    @property
    def null(self) -> NDArray:
        """Scores of the first metric under permuted labels, (P, positions...)."""
        self._check_null_kept(self.scoring[0], "result.null")
        return super().null

    @property
    def null_max(self) -> NDArray:
        """The largest score of the first metric in each permuted map, (P,)."""
        name = self.scoring[0]
        if not self.n_permutations:
            return np.empty(0)
        if name in self.null_summaries:
            return self._summary(name).maximum
        null = super().null
        # Ignores NaN as np.nanmax does, but needs no copy of the null.
        return np.fmax.reduce(null, axis=tuple(range(1, null.ndim)))

    def _summary(self, metric):
        """What was kept of a metric's null."""
        return NullSummary.from_arrays(self.null_summaries[metric])

    def _check_summaries(self):
        """Raise a ValueError unless the summaries fit the map."""
        for name in self.null_summaries:
            if self._summary(name).exceedances.shape != self.shape:
                raise ValueError(
                    f"The summary of {name!r} does not fit a map of {self.shape}."
                )

    def _kept_tests(self, metric):
        """What was kept of each test of a metric."""
        if metric in self.null_summaries:
            return [KeptTest(np.asarray(self.metrics[metric]), self._summary(metric))]
        return super()._kept_tests(metric)

    def _check_null_kept(self, metric, what):
        """Refuse what needs the permutations' maps if they are gone."""
        if metric in self.null_summaries:
            raise ValueError(
                f"{what} was not kept, to save memory; result.null_max has the largest "
                "score of each permuted map, and result.pvalues() works. For all maps "
                "run the analysis again with null='full'."
            )
