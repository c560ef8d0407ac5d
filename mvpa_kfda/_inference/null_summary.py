"""What is kept of a permutation null that is too large to keep."""

from dataclasses import dataclass, fields

import numpy as np

from .._checks import check_count, word_bytes
from .null import Compared, FullNull, as_scores, check_finite, check_level


@dataclass(frozen=True, eq=False)
class NullSummary:
    """What stays of a permutation null that is too large to keep.

    Made by :func:`summarize_null` or a :class:`NullCollector`, used by
    :func:`p_values_from_summary`. The last three arrays are needed for "cluster" and
    "tfce" only, and are None unless they were asked for.

    Attributes
    ----------
    n_permutations : int
        Number of permutations P.
    exceedances : array of int, shape (positions...)
        How many permutations scored as high as the observed labels, or higher.
    maximum : array, shape (P,)
        Largest score of each permutation over all positions; float32 if the scores
        were, so that ties are judged at their precision.
    moments : array, shape (2, positions...) or None
        Mean and standard deviation of each position over the observed and all permuted
        scores; a standard deviation of 0 where all of them tie.
    cluster_maximum : array, shape (P,) or None
        Largest cluster mass of each permutation, 0 without any cluster.
    tfce_maximum : array, shape (P,) or None
        Largest enhanced score of each permutation.
    threshold : float
        p-level that formed the clusters of `cluster_maximum`.

    Raises
    ------
    ValueError
        If the shapes do not belong together, or if the threshold is not a p-level.

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

    def __post_init__(self):
        """Normalize the values, which may come from a file, and check the shapes."""
        put = object.__setattr__  # the one way to set a field of a frozen object
        put(self, "n_permutations", int(self.n_permutations))
        put(self, "threshold", check_level(float(self.threshold)))
        put(self, "exceedances", np.asarray(self.exceedances))
        put(self, "maximum", as_scores(self.maximum))
        per_permutation = (self.n_permutations,)
        expected = {
            "maximum": per_permutation,
            "moments": (2, *self.exceedances.shape),
            "cluster_maximum": per_permutation,
            "tfce_maximum": per_permutation,
        }
        for name, shape in expected.items():
            got = np.shape(getattr(self, name))
            if getattr(self, name) is not None and got != shape:
                raise ValueError(
                    f"The summary of {self.n_permutations} permutations at positions "
                    f"{self.exceedances.shape} needs {name} of shape {shape}; got "
                    f"{got}."
                )

    def to_arrays(self):
        """Return the values by name, arrays and numbers only, for a file.

        Returns
        -------
        arrays : dict
            Field name -> array or number; fields that are None are left out.

        Examples
        --------
        >>> list(summarize_null(0.6, [0.5, 0.7]).to_arrays())
        ['n_permutations', 'exceedances', 'maximum', 'threshold']
        """
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        return {name: value for name, value in values.items() if value is not None}

    @classmethod
    def from_arrays(cls, arrays):
        """Make a summary of what :meth:`to_arrays` returned.

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
            If a name is missing or not known, or if the shapes do not fit.

        Examples
        --------
        >>> summary = summarize_null(0.6, [0.5, 0.7])
        >>> NullSummary.from_arrays(summary.to_arrays()).maximum
        array([0.5, 0.7])
        """
        known = {field.name for field in fields(cls)}
        needed = {"n_permutations", "exceedances", "maximum", "threshold"}
        wrong = sorted(needed - set(arrays)) + sorted(set(arrays) - known)
        if wrong:
            raise ValueError(
                "This is no summary of a null: missing or not known are "
                f"{', '.join(map(repr, wrong))}. Allowed: what to_arrays() returns."
            )
        return cls(**arrays)


class SummarisedNull(Compared):
    """A summary with its observed scores: what corrections take for a `FullNull`.

    Parameters
    ----------
    observed : float or array, shape (positions...)
        Observed scores, the same that the summary was made with.
    summary : NullSummary
        What was kept of the null.
    adjacency, threshold
        As in :func:`summarize_null`, the same that the summary was made with.
    correction : str
        What it is for; more than that needs may be missing.

    Raises
    ------
    ValueError
        If the scores are not finite or do not fit, or if the summary does not hold what
        the correction needs.
    """

    def __init__(self, observed, summary, adjacency, threshold, correction):
        dtype = summary.maximum.dtype
        super().__init__(observed, dtype, adjacency, threshold, "greater", None)
        check_finite(self.observed)
        if self.observed.shape != summary.exceedances.shape:
            raise ValueError(
                f"The summary is of positions {summary.exceedances.shape}, observed "
                f"has shape {self.observed.shape}; give the scores that the summary "
                "was made with."
            )
        _check_kept(summary, correction, threshold)
        for field in fields(summary):
            if field.name != "threshold":
                setattr(self, field.name, getattr(summary, field.name))


#: What a summary must hold for the corrections that need more than the rest, and
#: whether a run with null="stream" keeps it.
_KEPT = {
    "max-step-down": (None, False),
    "cluster": ("cluster_maximum", True),
    "cluster-size": (None, False),
    "tfce": ("tfce_maximum", True),
}


def _check_kept(summary, correction, threshold):
    """Refuse a correction for which too little was kept."""
    needed, streamed = _KEPT.get(correction, ("maximum", False))
    if needed is None or getattr(summary, needed) is None:
        n, shape = summary.n_permutations, summary.exceedances.shape
        size = word_bytes(n * summary.exceedances.size * 4)
        stream = (
            ", or with null='stream', which keeps the largest cluster of each "
            "permutation"
        )
        raise ValueError(
            f"The correction {correction!r} needs the whole null, which was not kept. "
            f"Run the analysis again with null='full', which keeps {n} permutations "
            f"of positions {shape} in {size}{stream if streamed else ''}."
        )
    if correction == "cluster" and check_level(threshold) != summary.threshold:
        raise ValueError(
            f"Clusters were formed at threshold={summary.threshold:g}, and only that "
            f"was kept; got {threshold:g}. Run the analysis again with null='full', "
            "which allows any threshold."
        )


def summarize_null(
    observed, null, *, with_clusters=False, adjacency=None, threshold=0.05
):
    """Keep of a null what p-values need, in place of the null.

    Parameters
    ----------
    observed : float or array, shape (positions...)
        Observed scores.
    null : array or memmap, shape (P, positions...)
        Scores under P label permutations, the same ones at every position. float32 is
        read as it is, everything else as float64.
    with_clusters : bool, default=False
        Also find the clusters and enhanced scores of every permutation, which
        "cluster" and "tfce" need.
    adjacency : sparse matrix, shape (n_positions, n_positions) or None, default=None
        As in :func:`corrected_p_values`.
    threshold : float, default=0.05
        As in :func:`corrected_p_values`.

    Returns
    -------
    summary : NullSummary
        Counts and maxima, and the moments if clusters were asked for.

    Raises
    ------
    ValueError
        If there are no permutations, or if the scores, the adjacency or the threshold
        are not valid.

    Examples
    --------
    >>> import numpy as np
    >>> null = np.random.default_rng(0).uniform(0.4, 0.6, (99, 3))
    >>> summary = summarize_null(np.array([0.5, 0.9, 0.9]), null)
    >>> summary.exceedances
    array([56,  0,  0])
    """
    null = FullNull(observed, null, adjacency, check_level(threshold))
    names = ("moments", "cluster_maximum", "tfce_maximum") if with_clusters else ()
    return NullSummary(
        null.n_permutations,
        null.exceedances,
        null.maximum,
        **{name: getattr(null, name) for name in names},
        threshold=threshold,
    )


class NullCollector:
    """Summarize a null whose positions come in parts, all permutations at once.

    Parameters
    ----------
    shape : tuple of int
        Shape of the map of positions.
    n_permutations : int
        Number of permutations P.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> collector = NullCollector((2, 3), 99)
    >>> for row in range(2):
    ...     collector.add(row, np.full(3, 0.5), rng.uniform(size=(99, 3)))
    >>> collector.summary().exceedances
    array([[56, 53, 53],
           [54, 55, 52]])
    """

    def __init__(self, shape, n_permutations):
        self.n_permutations = check_count("n_permutations", n_permutations, 1)
        self._exceedances = np.full(shape, -1)  # -1: not added yet
        self._maximum = None

    def add(self, index, observed, null):
        """Take in a part of the map.

        Parameters
        ----------
        index : int, slice or tuple of these
            Where in the map the part is.
        observed : array, shape (part...)
            Observed scores of the part.
        null : array, shape (P, part...)
            Its scores under the permutations, the same ones and in the same order for
            every part.

        Raises
        ------
        ValueError
            If the scores are not valid, do not fit the place or have another dtype
            than those before, or if a part of the place was added before.
        """
        part, place = FullNull(observed, null), self._exceedances[index]
        if part.null.shape != (self.n_permutations, *place.shape):
            raise ValueError(
                f"The null of part {index!r} must have shape "
                f"{(self.n_permutations, *place.shape)}; got {part.null.shape}."
            )
        if (place >= 0).any():
            raise ValueError(f"Scores of part {index!r} were added before.")
        if self._maximum is None:
            self._maximum = np.full(self.n_permutations, -np.inf, part.null.dtype)
        if self._maximum.dtype != part.null.dtype:
            raise ValueError(
                f"The null of part {index!r} is {part.null.dtype}, the parts before "
                f"were {self._maximum.dtype}. Give all parts as one dtype."
            )
        self._exceedances[index] = part.exceedances
        np.maximum(self._maximum, part.maximum, out=self._maximum)

    def summary(self):
        """Return the summary of the whole map, without clusters.

        Returns
        -------
        summary : NullSummary
            The same as :func:`summarize_null` gives for the whole null.

        Raises
        ------
        ValueError
            If parts of the map were not added yet.
        """
        missing = np.count_nonzero(self._exceedances < 0)
        if missing or self._maximum is None:
            raise ValueError(
                f"{missing} of {self._exceedances.size} positions were not added yet."
            )
        return NullSummary(
            self.n_permutations, self._exceedances.copy(), self._maximum.copy()
        )
