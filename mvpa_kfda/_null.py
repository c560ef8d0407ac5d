"""What p-values need of a permutation null, worked out without a copy of the null.

A null has shape (P, positions...), float64 or float32, in memory or memory-mapped. It
is read in batches of permutations, and every temporary is as large as a batch or as one
map.
"""

from functools import cached_property

import numpy as np
from scipy.stats import norm

from ._checks import check_positive
from ._clusters import batches, find_clusters, tfce

#: Scores that differ by less than this, relative to their size, are ties. Rounding to
#: float32 leaves equal scores at most one unit, about 1.2e-7, apart.
TIES = {
    np.dtype(np.float64): 1e-10,
    np.dtype(np.float32): 4 * float(np.finfo(np.float32).eps),
}


class FullNull:
    """A null at hand: what a NullSummary keeps, worked out when it is asked for."""

    def __init__(self, observed, null, adjacency=None, threshold=0.05):
        self.null = null = as_scores(null)
        self.observed = as_precise_as(null.dtype, observed)
        self.adjacency, self.threshold = adjacency, threshold
        self.n_permutations = len(null) if null.ndim else 0
        if null.shape[1:] != self.observed.shape or null.ndim == 0:
            raise ValueError(
                "null must hold one row per permutation, shape (P, *observed.shape); "
                f"got null {null.shape} and observed {self.observed.shape}."
            )
        if len(null) == 0:
            raise ValueError(
                "There are no permutations to compare the scores with. Run the "
                "analysis again with n_permutations=1000 or another number above zero."
            )
        # NaN and infinity reach the extremes, so this needs no mask of the whole null.
        largest = np.maximum(null.max(axis=0), -null.min(axis=0))
        self.size = np.maximum(np.abs(self.observed), largest)
        check_finite(self.size)

    def _batches(self):
        return batches(self.n_permutations, self.observed.size)

    @cached_property
    def exceedances(self):
        bound = tie_bound(self.observed, self.size, self.null.dtype)
        count = np.zeros(bound.shape, dtype=np.int64)
        for rows in self._batches():
            count += np.count_nonzero(self.null[rows] >= bound, axis=0)
        return count

    @cached_property
    def maximum(self):
        return self.null.max(axis=tuple(range(1, self.null.ndim)))

    @cached_property
    def moments(self):
        n = self.n_permutations + 1
        mean = self._total(lambda rows: rows) / n
        rest = self._total(lambda rows: rows - mean) / n  # the rounding error of mean
        squares = self._total(lambda rows: np.square(rows - mean - rest))
        sd = np.sqrt(squares / n)
        flat = sd <= TIES[self.null.dtype] * self.size
        return np.stack([mean, np.where(flat, 0.0, sd)])

    def _total(self, values):
        """Add up the values of all rows, the observed one first.

        They are added one after the other, so batches cannot change the rounding.
        """
        total = values(self.observed)
        for rows in self._batches():
            part = values(np.asarray(self.null[rows], dtype=float))
            total = np.concatenate([total[np.newaxis], part]).sum(axis=0)
        return total

    @cached_property
    def cluster_maximum(self):
        height = norm.isf(check_level(self.threshold))

        def masses(maps):
            labels, mass = find_clusters(maps, height, self.adjacency)
            return np.concatenate([[0.0], mass])[labels]  # no cluster: a mass of zero

        return self._largest(masses)

    @cached_property
    def tfce_maximum(self):
        return self._largest(lambda maps: tfce(maps, self.adjacency))

    def _largest(self, statistic):
        """Return the largest value of a statistic of each standardised map."""
        largest = np.empty(self.n_permutations)
        for rows in self._batches():
            maps = standardise(self.null[rows], self.moments)
            largest[rows] = statistic(maps).reshape(len(maps), -1).max(axis=1)
        return largest


# ---------------------------------------------- shared by the null and its summary


def count_p(exceedances, n_permutations):
    """Return p-values; the observed labels are one of the permutations."""
    return (1 + exceedances) / (1 + n_permutations)


def against_maximum(values, maximum, dtype):
    """Return p-values of values against the maxima (P,) of scores of a dtype."""
    size = np.maximum(np.abs(values), np.abs(maximum).max())
    smaller = np.searchsorted(np.sort(maximum), tie_bound(values, size, dtype))
    return count_p(len(maximum) - smaller, len(maximum))


def tie_bound(values, size, dtype):
    """Return the smallest scores that count as equal to the values."""
    return np.asarray(values - TIES[dtype] * size).astype(dtype)


def standardise(rows, moments):
    """Return z-scores (m, positions...), 0 where all scores tie; one axis at least."""
    mean, sd = moments
    z = (np.asarray(rows, dtype=float) - mean) / np.where(sd > 0, sd, np.inf)
    return z.reshape(len(z), *(mean.shape or (1,)))


def as_scores(scores):
    """Return float32 as float32 and everything else as float64, not copied if so."""
    scores = np.asarray(scores)
    single = scores.dtype.type is np.float32  # in any byte order
    return scores.astype(np.float32 if single else np.float64, copy=False)


def as_precise_as(dtype, observed):
    """Round observed scores as their null was rounded, so that equal ones stay so."""
    with np.errstate(over="ignore"):  # too large becomes infinite, which is refused
        return np.asarray(np.asarray(observed, dtype=float).astype(dtype), dtype=float)


def check_finite(scores):
    """Raise a ValueError if any score is NaN or infinite."""
    if not np.isfinite(scores).all():
        raise ValueError(
            "Scores must be finite; observed or null holds NaN or infinite values."
        )


def check_level(threshold):
    """Return a p-level that forms clusters."""
    if check_positive("threshold", threshold) > 0.5:
        raise ValueError(
            f"Invalid value for 'threshold': {threshold!r}. Allowed: a p-level above 0 "
            "and up to 0.5, such as 0.05."
        )
    return float(threshold)
