"""What p-values need of a permutation null: all of it, or a summary.

A null has shape (P, positions...), float64 or float32: an array, in memory or
memory-mapped, or `LazyRows`, which are computed when they are read. It is read in
batches of permutations, and every temporary is as large as a batch or as one map.
"""

from dataclasses import dataclass, fields
from functools import cached_property
from pathlib import Path
from typing import get_args

import numpy as np
from scipy.stats import norm

from ..utils.checks import check_flag, check_numbers, check_option, check_positive
from ..utils.memory import LazyRows, batches
from ..utils.problems import read_texts
from .clusters import Graph, largest_clusters, tfce_of_graph
from .listed import Alternative

#: What is said of nulls.
_TEXTS = read_texts(Path(__file__).with_suffix(".txt"))

#: Scores that differ by less than this, relative to their size, are ties. Rounding to
#: float32 leaves equal scores at most one unit, about 1.2e-7, apart.
TIES = {
    np.dtype(np.float64): 1e-10,
    np.dtype(np.float32): 4 * float(np.finfo(np.float32).eps),
}

#: Which scores are the interesting ones: large, small, or either.
ALTERNATIVES = get_args(Alternative)


class Null:
    """Observed scores (positions...) and how they are compared with permuted ones.

    The null is that of all permutations, shape (P, positions...), or the `NullSummary`
    of it, which was made with these observed scores: then `rows` are not at hand, and
    what was not kept is None.

    Clusters and TFCE work on z-scores over the observed and permuted scores, or, if
    there is a `height`, on the scores as they are: statistics such as t, with a scale
    of their own and the centre 0. Clusters are then formed at that height, and else at
    the normal deviate of `threshold`.

    Where several tests have to reject, one may not be for all positions: those that are
    `exempt` from it, bool like the map, count in no mass and no size of its clusters,
    observed or permuted, but connect others as if they were above every height.
    """

    def __init__(
        self,
        observed,
        null,
        adjacency=None,
        threshold=0.05,
        alternative="greater",
        *,
        height=None,
        exempt=None,
    ):
        self.exempt = exempt if np.any(exempt) else None
        self.counted = None if self.exempt is None else ~self.exempt
        self.adjacency, self.threshold = adjacency, threshold
        self.alternative = check_option("alternative", alternative, ALTERNATIVES)
        self.standardised = height is None
        self._height = None if height is None else check_positive("height", height)
        self.summary = null if isinstance(null, NullSummary) else None
        if self.summary is not None:
            self._take_summary(observed)
            return
        # Sparse matrices have a shape and are no arrays either, but are refused.
        lazy = isinstance(getattr(null, "shape", None), tuple) and not (
            hasattr(null, "__array__") or hasattr(null, "toarray")
        )
        self.null = null = null if lazy else as_scores(check_numbers(null, "null"))
        #: The precision of the permuted scores.
        self.dtype = precision_of(null.dtype)
        self.observed = as_precise_as(self.dtype, check_numbers(observed, "observed"))
        self.n_permutations = len(null) if null.ndim else 0
        if null.shape[1:] != self.observed.shape or null.ndim == 0:
            raise ValueError(_TEXTS["shape"].format(null=null, observed=self.observed))
        if len(null) == 0:
            raise ValueError(_TEXTS["none"])
        # NaN and infinity reach the extremes, so this needs no mask of the whole null.
        largest = np.maximum(self._extremes[0], -self._extremes[1])
        self.size = np.maximum(np.abs(self.observed), largest)
        check_finite_scores(self.size)

    def _take_summary(self, observed):
        """Take what was kept in the place of what all permutations would give."""
        if self.alternative != "greater":
            raise ValueError(_TEXTS["alternative"].format(alternative=self.alternative))
        kept = dict(vars(self.summary))
        del kept["threshold"]  # which may be another than that asked for
        vars(self).update(kept)
        self.dtype = self.maximum.dtype
        self.observed = as_precise_as(self.dtype, check_numbers(observed, "observed"))
        check_finite_scores(self.observed)
        if self.observed.shape != self.exceedances.shape:
            raise ValueError(_TEXTS["other scores"].format(**vars(self)))

    @cached_property
    def height(self):
        """Height of the maps at which clusters are formed."""
        if not self.standardised:
            return self._height
        return norm.isf(level_of_side(self.threshold, self.alternative))

    @cached_property
    def graph(self):
        """Neighbouring positions, checked once."""
        return Graph(self.adjacency, self.observed.shape or (1,))

    @cached_property
    def values(self):
        """Observed scores turned so that large ones are the interesting ones."""
        return np.asarray(self.turned(self.observed))

    def turned(self, rows):
        """Turn scores (..., positions...) so that large ones are interesting."""
        if self.alternative == "greater":
            return rows
        if self.alternative == "less":
            return -rows
        centre = self.moments[0] if self.standardised else 0.0
        return np.abs(np.asarray(rows, dtype=float) - centre)

    def scaled(self, rows):
        """Scores (m, positions...) in the unit that clusters are formed in."""
        maps = np.asarray(rows, dtype=float)
        if self.standardised:
            mean, sd = self.moments
            maps = (maps - mean) / np.where(sd > 0, sd, np.inf)  # 0 where all tie
        return maps.reshape(len(maps), *(self.observed.shape or (1,)))

    def maps(self, rows):
        """The maps of scores (m, positions...) in which clusters are large."""
        # Two-sided: (2 m, ...), as positive and negative clusters stay apart.
        maps = self.scaled(rows)
        if self.alternative == "two-sided":
            return np.concatenate([maps, -maps])
        return -maps if self.alternative == "less" else maps

    def connected(self, maps):
        """Maps in which exempt positions are above every height."""
        return maps if self.exempt is None else np.where(self.exempt, np.inf, maps)

    def enhanced(self, maps):
        """The TFCE scores of maps (m, ...), 0 at exempt positions."""
        scores = tfce_of_graph(maps, self.graph, counted=self.counted)
        return scores if self.exempt is None else np.where(self.exempt, 0.0, scores)

    @cached_property
    def maximum_size(self):
        """Size of the scores that `maximum` is of, by which its ties are judged."""
        if self.alternative == "two-sided":
            return self.size.max()  # a distance is as exact as the scores it is of
        return np.maximum(np.abs(self.values), np.abs(self.maximum).max())

    def first(self, n):
        """The null of the first permutations; itself if there are no more."""
        if n >= self.n_permutations:
            return self
        null = self.null
        rows = LazyRows(n, null.shape[1:], null.dtype, null.__getitem__)
        how = self.adjacency, self.threshold, self.alternative
        return Null(self.observed, rows, *how, height=self._height, exempt=self.exempt)

    def rows(self):
        """Yield slices of the permutations and their scores, batch by batch."""
        for part in batches(self.n_permutations, self.observed.size):
            yield part, np.asarray(self.null[part], dtype=self.dtype)

    @cached_property
    def _extremes(self):
        """Largest and smallest score of each position, then of each permutation."""
        # A lazy null is costly to read, so one reading serves all four.
        high = low = None
        highest, lowest = [], []
        for part, rows in self.rows():
            top, bottom = rows.max(axis=0), rows.min(axis=0)
            high = np.maximum(high, top) if part.start else top
            low = np.minimum(low, bottom) if part.start else bottom
            rows = rows.reshape(len(rows), -1)
            highest.append(rows.max(axis=1))
            lowest.append(rows.min(axis=1))
        highest, lowest = np.concatenate(highest), np.concatenate(lowest)
        return high.astype(float), low.astype(float), highest, lowest

    @cached_property
    def exceedances(self):
        """How many permuted scores reach the observed one, (positions...)."""
        bound = tie_bound(self.values, self.size, self.dtype)
        count = np.zeros(bound.shape, dtype=np.int64)
        for _, scores in self.rows():
            count += np.count_nonzero(self.turned(scores) >= bound, axis=0)
        return count

    @cached_property
    def maximum(self):
        """Largest turned score of each permutation, (P,)."""
        _, _, highest, lowest = self._extremes
        if self.alternative != "two-sided":
            return highest if self.alternative == "greater" else -lowest
        turned = (self.turned(scores) for _, scores in self.rows())
        return np.concatenate([x.reshape(len(x), -1).max(axis=1) for x in turned])

    @cached_property
    def moments(self):
        """Mean and sd of each position over all rows, (2, positions...)."""
        return self._moments_over(self.n_permutations + 1)

    @cached_property
    def permuted_moments(self):
        """The same over the permutations alone."""
        return self._moments_over(self.n_permutations)

    def _moments_over(self, n):
        """The mean and sd (2, positions...) over n rows; the observed one adds 0."""
        # From distances d to the observed row: sd² = mean(d²) - mean(d)². The observed
        # row is one of the n, thus at most sqrt(n) sd away from the mean, and the
        # difference keeps its digits.
        total, squares = self._distances
        sd = np.sqrt(np.maximum(0.0, squares / n - (total / n) ** 2))
        flat = sd <= TIES[self.dtype] * self.size
        return np.stack([self.observed + total / n, np.where(flat, 0.0, sd)])

    @cached_property
    def _distances(self):
        """Sums of distances to the observed row and of their squares."""
        # Rows are added one after the other, so that batches cannot change rounding.
        total, squares = np.zeros((2, *self.observed.shape))
        for _, scores in self.rows():
            # NumPy before 2 would take the difference from one number in float32.
            for distance in np.subtract(scores, self.observed, dtype=float):
                total += distance
                squares += distance * distance
        return total, squares

    @cached_property
    def _cluster_maxima(self):
        """Largest mass and largest size of the clusters of each permutation."""
        return self._largest(
            lambda maps: largest_clusters(maps, self.height, self.graph, self.counted)
        )

    @cached_property
    def cluster_maximum(self):
        """Largest cluster mass of each permutation, 0 without any cluster, (P,)."""
        return self._cluster_maxima[0]

    @cached_property
    def cluster_size_maximum(self):
        """Largest number of positions of a cluster of each permutation, (P,)."""
        return self._cluster_maxima[1]

    @cached_property
    def tfce_maximum(self):
        """Largest enhanced score of each permutation, (P,)."""
        return self._largest(
            lambda maps: self.enhanced(maps).reshape(1, len(maps), -1).max(axis=2)
        )[0]

    def _largest(self, statistics):
        """The largest values of statistics (k, m) of the maps, (k, P)."""
        largest = []
        for _, scores in self.rows():
            maps = self.connected(self.maps(scores))
            values = np.asarray(statistics(maps))  # (k, m or 2 m)
            largest.append(values.reshape(len(values), -1, len(scores)).max(axis=1))
        return np.concatenate(largest, axis=1)


def at_positions(null, where):
    """Some positions (P, n) of a null (P, positions...), without a copy of it."""

    def read(rows):
        rows = null[rows]
        return rows.reshape(len(rows), -1)[:, where]

    return LazyRows(len(null), (len(where),), null.dtype, read)


@dataclass(frozen=True, eq=False)
class NullSummary:
    """Summary of a permutation null that is too large to keep.

    Made by :func:`summarize_null`, used by
    :func:`~mvpa_kfda.inference.corrections.corrected_p_values`. `moments` and the
    maxima of clusters and TFCE are only needed for "cluster" and "tfce", and are None
    unless requested.

    Attributes
    ----------
    n_permutations : int
        Number of permutations P.
    exceedances : array of int, shape (positions...)
        Number of permutations that scored at least as high as the observed labels.
    maximum : array, shape (P,)
        Largest score of each permutation over all positions; float32 if the scores
        were, so that ties are determined at their precision.
    moments : array, shape (2, positions...) or None
        Mean and standard deviation of each position over the observed and all permuted
        scores; a standard deviation of 0 where all of them tie.
    cluster_maximum : array, shape (P,) or None
        Largest cluster mass of each permutation, 0 without any cluster.
    tfce_maximum : array, shape (P,) or None
        Largest enhanced score of each permutation.
    threshold : float
        p-level that formed the clusters of `cluster_maximum`.
    permuted_moments : array, shape (2, positions...) or None
        Mean and standard deviation of the scores under permuted labels alone; None from
        versions that did not keep them.

    Raises
    ------
    ValueError
        If the shapes do not match, or if the threshold is not a p-value.

    Examples
    --------
    >>> import numpy as np
    >>> null = np.array([[0.5, 0.7], [0.6, 0.4], [0.3, 0.8]])
    >>> summary = summarize_null(np.array([0.6, 0.9]), null)
    >>> summary.exceedances
    array([1, 0])
    >>> summary.maximum
    array([0.7, 0.6, 0.8])
    """

    n_permutations: int
    exceedances: np.ndarray
    maximum: np.ndarray
    moments: np.ndarray | None = None
    cluster_maximum: np.ndarray | None = None
    tfce_maximum: np.ndarray | None = None
    threshold: float = 0.05
    permuted_moments: np.ndarray | None = None

    def __post_init__(self):
        """Normalize the values, which may come from a file, and check the shapes."""
        put = object.__setattr__  # the one way to set a field of a frozen object
        put(self, "n_permutations", int(self.n_permutations))
        put(self, "threshold", check_level(float(self.threshold)))
        put(self, "exceedances", np.asarray(self.exceedances))
        put(self, "maximum", as_scores(self.maximum))
        n, positions = self.n_permutations, self.exceedances.shape
        needed = dict.fromkeys(("maximum", "cluster_maximum", "tfce_maximum"), (n,))
        needed |= dict.fromkeys(("moments", "permuted_moments"), (2, *positions))
        for name, shape in needed.items():
            got = np.shape(getattr(self, name))
            if getattr(self, name) is not None and got != shape:
                words = {"n": n, "positions": positions, "name": name, "shape": shape}
                raise ValueError(_TEXTS["summary: shape"].format(got=got, **words))

    def to_arrays(self):
        """Return the values by name, only arrays and numbers, for a file.

        Returns
        -------
        arrays : dict
            Field name -> array or number; fields that are None are omitted.

        Examples
        --------
        >>> list(summarize_null(0.6, [0.5, 0.7]).to_arrays())
        ['n_permutations', 'exceedances', 'maximum', 'threshold', 'permuted_moments']
        """
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        return {name: value for name, value in values.items() if value is not None}

    @classmethod
    def from_arrays(cls, arrays):
        """Create a summary from the output of :meth:`to_arrays`.

        Parameters
        ----------
        arrays : dict
            Field name -> array or number.

        Returns
        -------
        summary : NullSummary
            The same summary.

        Raises
        ------
        ValueError
            If a name is missing or unknown, or if the shapes do not match.

        Examples
        --------
        >>> summary = summarize_null(0.6, [0.5, 0.7])
        >>> NullSummary.from_arrays(summary.to_arrays()).maximum
        array([0.5, 0.7])
        """
        known = {field.name for field in fields(cls)}
        needed = {"n_permutations", "exceedances", "maximum", "threshold"}
        if wrong := sorted(needed - set(arrays)) + sorted(set(arrays) - known):
            raise ValueError(
                _TEXTS["summary: names"].format(names=", ".join(map(repr, wrong)))
            )
        return cls(**arrays)


def summarize_null(
    observed,
    null,
    *,
    with_clusters=False,
    adjacency=None,
    threshold=0.05,
    exempt=None,
):
    """Summarise a null distribution, keeping what p-values need.

    Parameters
    ----------
    observed : float or array, shape (positions...)
        Observed scores.
    null : array or memmap, shape (P, positions...)
        Scores under P label permutations, the same ones at each position. float32 is
        used directly, everything else is converted to float64.
    with_clusters : bool, default=False
        Also compute the clusters and enhanced scores of each permutation, needed for
        "cluster" and "tfce".
    adjacency : sparse matrix, shape (n_positions, n_positions) or None, default=None
        Which positions are neighbours, for clusters and "tfce"; the positions are
        counted in C order. None: neighbours on the lattice of `observed`.
    threshold : float, default=0.05
        p-level that a position passes to be in a cluster, for the corrections by
        clusters: of the one side that is tested, or of both together.
    exempt : array of bool, shape (positions...), or None, default=None
        Positions where only another test applies: they connect the positions of
        clusters, but add to no mass or extent.

    Returns
    -------
    summary : NullSummary
        Counts, maxima and moments of the permuted scores, and those with the observed
        ones with `with_clusters`.

    Raises
    ------
    ValueError
        If there are no permutations, or if the scores, the adjacency, the threshold or
        the exempt positions are not valid.

    Examples
    --------
    >>> import numpy as np
    >>> null = np.random.default_rng(0).uniform(0.4, 0.6, (99, 3))
    >>> summary = summarize_null(np.array([0.5, 0.9, 0.9]), null)
    >>> summary.exceedances
    array([56,  0,  0])
    """
    shape = np.shape(observed)
    if exempt is not None:
        mask = np.asarray(exempt if isinstance(exempt, np.ndarray | list) else None)
        if mask.dtype != bool or mask.shape != shape:
            raise ValueError(_TEXTS["exempt"].format(exempt=exempt, shape=shape))
        exempt = mask
    null = Null(observed, null, adjacency, check_level(threshold), exempt=exempt)
    names = ["n_permutations", "exceedances", "maximum"]
    if check_flag("with_clusters", with_clusters):
        names += ["moments", "cluster_maximum", "tfce_maximum"]
    kept = {name: getattr(null, name) for name in (*names, "permuted_moments")}
    return NullSummary(**kept, threshold=threshold)


# ------------------------------------------------------- where permuted scores lie

#: Permuted scores are not at chance if their mean is so many standard errors away, and
#: so large a part of the standard deviation of one of them.
_ERRORS, _MATTERS = 4.0, 0.2

#: Means that differ by less differ by rounding.
_ROUNDING = 1e-6

#: So many positions of a map say where its permuted scores lie.
_POSITIONS = 2000


@dataclass(frozen=True, eq=False)
class NullCentre:
    """Where permuted scores lie on the whole: scores without an effect lie there too.

    Chance is what guessing gives; a model that prefers large classes scores higher.
    """

    #: Mean over positions of each permutation (P,), which all positions share; None
    #: where it was not kept.
    rows: np.ndarray | None
    mean: float
    #: Standard deviation of a permuted score of one position, and the number P.
    spread: float
    n_permutations: int

    @property
    def error(self):
        """Standard error of the mean; the largest it can be if no rows were kept."""
        spread = self.spread if self.rows is None else self.rows.std(ddof=1)
        return spread / np.sqrt(self.n_permutations)

    @classmethod
    def pooled(cls, centres):
        """The centre of the mean of several subjects' scores."""
        n = min(each.n_permutations for each in centres)
        mean = float(np.mean([each.mean for each in centres]))
        spread, rows = float(np.mean([each.spread for each in centres])), None
        # Subjects may have been given the same permutations, which errors then share.
        if all(each.rows is not None for each in centres):
            rows = np.mean([each.rows[:n] for each in centres], axis=0)
        return cls(rows, mean, spread, n)

    def is_off(self, chance, n_scores=1):
        """Whether the mean differs from chance by more than sampling allows.

        And by enough to matter for a mean of `n_scores` scores.
        """
        shift = abs(self.mean - chance)  # NaN where there is no chance level
        allowed = max(_ERRORS * self.error, _ROUNDING)
        matters = _MATTERS * self.spread / np.sqrt(n_scores)
        return bool(shift > allowed and shift >= matters)


def centre_of(kept):
    """The `NullCentre` of a null (P, positions...) or summary; None without."""
    if isinstance(kept, NullSummary):
        moments = kept.permuted_moments
        if moments is None or not moments.size or kept.n_permutations < 2:
            return None
        mean, spread = moments.reshape(2, -1).mean(axis=1)
        return NullCentre(None, float(mean), float(spread), kept.n_permutations)
    null = np.reshape(kept, (len(kept), -1))
    null = null[:, :: max(1, null.shape[1] // _POSITIONS)]
    null = np.asarray(null[:, np.isfinite(null).all(axis=0)], float)
    if len(null) < 2 or not null.size:
        return None
    with np.errstate(over="ignore"):  # of damaged files, which are refused elsewhere
        rows, spread = null.mean(axis=1), null.std(axis=0, ddof=1).mean()
    return NullCentre(rows, float(rows.mean()), float(spread), len(null))


def permuted_means(kept):
    """The mean permuted score at each position; None if it was not kept."""
    if not isinstance(kept, NullSummary):
        with np.errstate(over="ignore"):
            return np.mean(kept, axis=0, dtype=float)
    return None if kept.permuted_moments is None else kept.permuted_moments[0]


# ------------------------------------------------------- p-values, ties and checks


def count_p(exceedances, n_permutations):
    """The p-values; the observed labels are one of the permutations."""
    return (1 + exceedances) / (1 + n_permutations)


def against_maximum(values, maximum, dtype, size=None):
    """The p-values of values against the maxima (P,) of scores of a dtype."""
    # `size` is that of the scores that they were worked out from; None: their own.
    if size is None:
        size = np.maximum(np.abs(values), np.abs(maximum).max())
    smaller = np.searchsorted(np.sort(maximum), tie_bound(values, size, dtype))
    return count_p(len(maximum) - smaller, len(maximum))


def tie_bound(values, size, dtype):
    """The smallest scores that count as equal to the values."""
    return np.asarray(values - TIES[dtype] * size).astype(dtype)


def precision_of(dtype):
    """Float32 for float32 in any byte order, else float64."""
    return np.dtype(np.float32 if np.dtype(dtype).type is np.float32 else np.float64)


def as_scores(scores):
    """Scores of float32 as float32 and everything else as float64, not copied if so."""
    scores = np.asarray(scores)
    return scores.astype(precision_of(scores.dtype), copy=False)


def as_precise_as(dtype, observed):
    """Round observed scores as their null was rounded, so that equal ones stay so."""
    with np.errstate(over="ignore"):  # too large becomes infinite, which is refused
        return np.asarray(np.asarray(observed, dtype=float).astype(dtype), dtype=float)


def check_finite_scores(scores):
    """Raise a ValueError if any score is NaN or infinite."""
    if not np.isfinite(scores).all():
        raise ValueError(_TEXTS["not finite"])


def level_of_side(threshold, alternative):
    """The p-level that forms clusters on each of the sides that are tested."""
    return check_level(threshold) / (2 if alternative == "two-sided" else 1)


def check_level(threshold):
    """A p-level that forms clusters."""
    if check_positive("threshold", threshold) > 0.5:
        raise ValueError(_TEXTS["threshold"].format(threshold=threshold))
    return float(threshold)
