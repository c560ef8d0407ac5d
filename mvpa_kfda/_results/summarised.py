"""Results of large maps, of whose permutations a summary may be all that is kept."""

from dataclasses import dataclass, field

import numpy as np

from ..inference import (
    NullCollector,
    NullSummary,
    corrected_p_values,
    p_values_from_summary,
)

#: Values of a null that are copied at a time if some of its positions do not count.
_CHUNK = 2**24


@dataclass(frozen=True, kw_only=True, repr=False, eq=False)
class WithSummaries:
    """A result whose null may be summarised; comes before `_Result` as a base."""

    null_summaries: dict = field(default_factory=dict)

    @property
    def n_permutations(self):
        """Number of label permutations, the observed labels not counted."""
        kept = [self._summary(name).n_permutations for name in self.null_summaries]
        return max([super().n_permutations, *kept])

    @property
    def null(self):
        """Scores of the first metric under permuted labels, (P, positions...)."""
        self._check_null_kept(self.scoring[0], "result.null")
        return super().null

    @property
    def null_max(self):
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
        """Return what was kept of a metric's null."""
        return NullSummary.from_arrays(self.null_summaries[metric])

    def _p_from(self, summaries, metric, **options):
        """Return the p-values of a null of which a summary was kept."""
        summary = NullSummary.from_arrays(summaries[metric])
        return p_values_from_summary(self.metrics[metric], summary, **options)

    def _check_null_kept(self, metric, what):
        """Refuse what needs the permutations' maps if they are gone."""
        if metric in self.null_summaries:
            raise ValueError(
                f"{what} was not kept, to save memory; result.null_max has the largest "
                "score of each permuted map, and result.pvalues() works. For all maps "
                "run the analysis again with null='full'."
            )


def p_values_where(counted, observed, null, correction, **options):
    """Compute p-values as if only some of the positions were there.

    Parameters
    ----------
    counted : array of bool, shape (V,)
        The positions that count.
    observed : array, shape (V,)
        Observed scores.
    null : array, shape (P, V), or NullSummary of the counted positions
        The null; what it has for the other positions is ignored.
    correction : str
        As in `mvpa_kfda.inference.corrected_p_values`.
    **options
        Further arguments of it; the adjacency is that of the counted positions.

    Returns
    -------
    p : array, shape (V,)
        p-values, NaN at the positions that do not count.
    """
    p, where = np.full(counted.shape, np.nan), np.flatnonzero(counted)
    if len(where) == 0:
        return p
    observed = observed[where]
    if isinstance(null, NullSummary):
        p[where] = p_values_from_summary(observed, null, correction, **options)
    elif correction in ("cluster", "tfce"):
        # These go through whole maps, several times; a copy is what that takes.
        p[where] = corrected_p_values(observed, null[:, where], correction, **options)
    else:
        collector = NullCollector(observed.shape, len(null))
        step = max(1, _CHUNK // len(null))
        for start in range(0, len(where), step):
            part = slice(start, min(start + step, len(where)))
            collector.add(part, observed[part], null[:, where[part]])
        p[where] = p_values_from_summary(observed, collector.summary(), correction)
    return p
