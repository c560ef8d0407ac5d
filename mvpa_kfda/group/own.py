"""Each subject's own test against the permutations of that subject alone.

A subject is significant at a position if p <= alpha there, and *anywhere* if the
smallest p-value corrected by the maximum over positions is. Scores come in steps, so
that a test of level alpha may reject less often without an effect. How often it does is
its attained size: the share of a subject's maps, the observed one among them, that
would be significant if they were the observed one.
"""

from dataclasses import dataclass

import numpy as np

from ..inference.null import as_precise_as, as_scores, count_p, tie_bound
from ..utils.memory import batches


@dataclass(frozen=True, eq=False)
class OwnTests:
    """p-values and attained sizes of S subjects at C positions, and anywhere (S,)."""

    p: np.ndarray
    sizes: np.ndarray
    p_anywhere: np.ndarray
    sizes_anywhere: np.ndarray


def own_tests(subjects, alpha):
    """Return the `OwnTests` of subjects at a level.

    Where two tests have to reject, the larger p-value counts, and the larger size.
    """
    n, n_positions = subjects.scores.shape
    p, sizes = np.zeros((2, n, n_positions))
    corrected, sizes_anywhere = np.zeros((n, n_positions)), np.zeros(n)
    for scores, nulls, exempt in subjects.tests:
        counted = ~exempt
        for s, null in enumerate(nulls):
            null = as_scores(null)
            observed = as_precise_as(null.dtype, scores[s])
            rows = np.concatenate([observed[np.newaxis].astype(null.dtype), null])
            for part in batches(n_positions, len(rows)):
                here = counted[part]
                p_here, size_here = _tested(rows[:, part], alpha)
                p[s, part] = np.maximum(p[s, part], np.where(here, p_here, 0.0))
                sizes[s, part] = np.maximum(sizes[s, part], size_here * here)
            if not counted.any():
                continue
            largest = rows[:, counted].max(axis=1)[:, np.newaxis]
            reached = _reached(largest[1:], observed)
            p_here = np.where(counted, count_p(reached, len(null)), 0.0)
            corrected[s] = np.maximum(corrected[s], p_here)
            size_here = _tested(largest, alpha)[1][0]
            sizes_anywhere[s] = max(sizes_anywhere[s], size_here)
    return OwnTests(p, sizes, corrected.min(axis=1), sizes_anywhere)


def _reached(null, observed):
    """Return how many rows (P, C) reach the observed scores (C,)."""
    size = np.maximum(np.abs(observed), np.abs(null).max(axis=0))
    return np.count_nonzero(null >= tie_bound(observed, size, null.dtype), axis=0)


def _tested(rows, alpha):
    """Return p-values and attained sizes (C,) of maps (P + 1, C), observed first."""
    p = count_p(_reached(rows[1:], rows[0].astype(float)), len(rows) - 1)
    # A row is significant if no more than so many rows reach it, itself among them: if
    # it is above the first that is too many.
    n_most = min(int(alpha * len(rows) * (1 + 1e-12)), len(rows) - 1)
    if n_most < 1:
        return p, np.zeros(rows.shape[1])
    too_many = np.partition(rows, len(rows) - 1 - n_most, axis=0)[-1 - n_most]
    size = np.abs(rows).max(axis=0)
    significant = tie_bound(rows.astype(float), size, rows.dtype) > too_many
    return p, np.count_nonzero(significant, axis=0) / len(rows)
