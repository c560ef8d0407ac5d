"""Results of large maps, of whose permutations a summary may be all that is kept."""

from dataclasses import dataclass, field

import numpy as np

from .._checks import check_option
from .._inference.null import ALTERNATIVES
from ..inference import NullSummary, corrected_p_values, p_values_from_summary


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

    def _p_from(self, summaries, metric, alternative, **options):
        """Return the p-values of a null of which a summary was kept."""
        _check_greater(alternative)
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


def p_values_where(counted, observed, null, correction, alternative, **options):
    """Compute p-values as if only some of the positions were there.

    Parameters
    ----------
    counted : array of bool, shape (V,)
        The positions that count.
    observed : array, shape (V,)
        Observed scores.
    null : array, shape (P, V), or NullSummary of the counted positions
        The null; what it has for the other positions is ignored.
    correction, alternative : str
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
    if isinstance(null, NullSummary):
        _check_greater(alternative)
        p[where] = p_values_from_summary(observed[where], null, correction, **options)
    else:
        options["alternative"] = alternative
        null = _Columns(null, where)
        p[where] = corrected_p_values(observed[where], null, correction, **options)
    return p


class _Columns:
    """Some positions of a null (P, V), copied only for the rows that are asked for."""

    ndim = 2

    def __init__(self, null, where):
        self._null, self._where = null, where
        self.shape, self.dtype = (len(null), len(where)), null.dtype

    def __len__(self):
        return len(self._null)

    def __getitem__(self, rows):
        return self._null[rows][:, self._where]


def _check_greater(alternative):
    """Refuse other alternatives where a summary is all that was kept."""
    if alternative != "greater":
        check_option("alternative", alternative, ALTERNATIVES)
        raise ValueError(
            f"alternative={alternative!r} needs the scores of the permutations, and "
            "only what alternative='greater' needs was kept for this result "
            "(null='max' or 'stream'). Run the analysis again with null='full'."
        )
