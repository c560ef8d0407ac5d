"""Two results of the same trials: what they share, and nulls of their difference.

The nulls are lazy: rows of differences, computed whenever they are asked for.
"""

import numpy as np
from scipy import sparse

from .._checks import quoted, warn
from .null import as_precise_as

#: The packages that draw the permutations.
_DRAWN_BY = ("mvpa_kfda", "numpy")

#: What label permutations depend on, of what results record in their parameters.
_RECORDED = ("mode", "permute", "n_permutations", "exact", "random_state")


def other_trials(a, b):
    """Word how the tested trials of two results differ; empty if they do not."""
    if len(a.classes) != len(b.classes):
        return f"{len(a.classes)} and {len(b.classes)} classes"
    for name in ("y", "y_test", "members"):
        one, two = getattr(a, name, None), getattr(b, name, None)
        if _same(one, two):
            continue
        if name == "members":
            return "other averages of trials, or averages in one only"
        if len(one) != len(two):
            return f"{name} of {len(one)} and {len(two)} trials"
        return f"another {name} for {np.count_nonzero(one != two)} of {len(one)} trials"
    return ""


def other_permutations(a, b):
    """Word what makes label permutations of the same trials differ, a list."""
    words = []
    if not _same(a.groups, b.groups):
        words.append("groups")
    same_folds = len(a.tests) == len(b.tests)
    if not (same_folds and all(map(np.array_equal, a.tests, b.tests))):
        words.append(f"folds (cv: {_worded_folds(a)} and {_worded_folds(b)})")
    one, two = ({"mode": "plain", **each.parameters} for each in (a, b))
    names = [*_RECORDED]
    if one.get("exact") and two.get("exact"):
        names.remove("random_state")  # all permutations there are, in the same order
    elif "random_state" not in one or "random_state" not in two:
        words.append("random_state (not recorded)")
    for name in names:
        if one.get(name) != two.get(name):
            words.append(f"{name} ({one.get(name)!r} and {two.get(name)!r})")
    return words


def _worded_folds(result):
    """Word the folds of a result."""
    return f"{result.parameters.get('cv')}, {len(result.tests)} folds"


def worded_trials(result):
    """Word how many trials were tested."""
    if result.parameters.get("mode") == "other_trials" and hasattr(result, "y_test"):
        return f"{len(result.y_test)} trials"
    return result._worded_trials()


def shared_metric(a, b, metric):
    """Return the name of a metric that both results have for every position."""
    shared = [name for name in a.scoring if name in b.scoring]
    if not shared:
        raise ValueError(
            f"The results have no metric in common: result_a has {quoted(a.scoring)}, "
            f"result_b {quoted(b.scoring)}. Run both analyses with the same scoring."
        )
    metric = a._scalar_metric(metric)
    if metric not in b.scoring:
        raise ValueError(
            f"result_b has no metric {metric!r}; both results have {quoted(shared)}. "
            "Choose one with metric=, or run the analyses with the same scoring."
        )
    return metric


def check_accuracy(a, b, metric, method):
    """Return "accuracy", which sign flips compare; refuse what has none."""
    if len(a.classes) == 0:
        raise ValueError(
            f"method={method!r} compares which trials are classified correctly, and "
            "these are results of regression. Use method='permutation'."
        )
    if metric not in (None, "accuracy"):
        raise ValueError(
            f"method={method!r} compares accuracies; got metric={metric!r}. Leave "
            "metric out, or use method='permutation'."
        )
    for name, result in (("result_a", a), ("result_b", b)):
        if method == "both" and "accuracy" not in result.scoring:
            raise ValueError(
                f"method='both' compares accuracies, and {name} has {result.scoring}. "
                "Run both analyses with 'accuracy' in scoring, or use "
                "method='permutation'."
            )
    return "accuracy"


def _same(values, others):
    """Tell whether two arrays are equal, or both are missing."""
    if values is None or others is None:
        return values is others
    return np.array_equal(values, others)


def where_both(scores):
    """Return where both maps have scores."""
    counted = np.isfinite(scores[0]) & np.isfinite(scores[1])
    if not counted.any():
        raise ValueError("There is no position at which both results have a score.")
    return counted


def null_differences(a, b, metric):
    """Return both maps of scores, and the nulls of their difference."""
    for name, result in (("result_a", a), ("result_b", b)):
        if result.parameters.get("larger_of_two"):
            raise ValueError(
                f"{name} is the diagonal of a map of time generalization, which holds "
                "the larger of two scores for each permutation, and so no difference "
                "of scores. Give the maps, or results of decode_epochs. Only "
                "method='sign-flip' does with diagonals."
            )
        if len(result.nulls.get(metric, ())) == 0:
            raise ValueError(
                f"{name} has no scores of permuted labels. Run both analyses again "
                "with n_permutations=1000 or so and random_state=0 (maps with "
                "null='full', which keeps them). Only method='sign-flip' does without."
            )
    differ = other_permutations(a, b)
    if differ:
        raise ValueError(
            "Both results need scores of the same label permutations, but they differ "
            f"in: {'; '.join(differ)}. Run both analyses with the same groups, cv, "
            "permute and n_permutations and with random_state=0. Only "
            "method='sign-flip' does without."
        )
    packages = [f"{n} {a.versions.get(n)} and {b.versions.get(n)}" for n in _DRAWN_BY]
    if any(a.versions.get(name) != b.versions.get(name) for name in _DRAWN_BY):
        warn(
            "The results come from different versions, which may have drawn different "
            f"permutations from the same seed ({', '.join(packages)}). If they did, "
            "the p-values are wrong; run both analyses with the same versions."
        )
    scores = np.asarray(a.metrics[metric]), np.asarray(b.metrics[metric])
    n = sum(map(len, a.tests)) if metric == "accuracy" else None
    counted = where_both(scores)
    nulls = [Differences(scores, (a.nulls[metric], b.nulls[metric]), counted, n)]
    second = [getattr(each, "second_nulls", {}).get(metric, ()) for each in (a, b)]
    if all(map(len, second)):
        nulls.append(Differences(scores, second, counted, n))
    return scores, nulls


class Differences:
    """Differences of two nulls from the same permutations, without a copy of either.

    Parameters
    ----------
    scores, nulls : pair of arrays, shape (positions...) and (P, positions...)
        Observed and permuted scores of both.
    counted : array of bool, shape (positions...)
        The positions that count.
    n_predictions : int or None
        Scores are counts divided by this number, which makes differences exact: 0.7
        minus 0.6 is then 0.5 minus 0.4, also in single precision. None for others.

    Attributes
    ----------
    observed : array, shape (positions...) or (C,)
        Differences of the observed scores, of the C positions that count if not all do.
    shape, ndim, dtype : tuple, int, dtype
        Those of the array (P, positions...) or (P, C) that the object stands for.
    """

    #: Differences of scores have no scale of their own.
    height = None

    def __init__(self, scores, nulls, counted, n_predictions):
        self._nulls, self._n = nulls, n_predictions
        self._where = None if np.all(counted) else np.flatnonzero(counted)
        single = any(null.dtype == np.float32 for null in nulls)
        exact = n_predictions is not None
        self.dtype = np.dtype(np.float32 if single and not exact else np.float64)
        # Observed scores with the digits of the permuted ones, so that ties stay ties.
        pairs = zip(nulls, scores, strict=True)
        self.observed = self._subtract(
            *(as_precise_as(null.dtype, score)[np.newaxis] for null, score in pairs)
        )[0]
        self.shape = (len(nulls[0]), *self.observed.shape)
        self.ndim = len(self.shape)

    def __len__(self):
        """Return the number of permutations."""
        return self.shape[0]

    def __getitem__(self, rows):
        """Return the differences of some permutations."""
        return self._subtract(*(null[rows] for null in self._nulls))

    def _subtract(self, first, second):
        """Return differences of scores (m, positions...)."""
        if self._where is not None:
            first, second = (
                np.reshape(each, (len(each), -1))[:, self._where]
                for each in (first, second)
            )
        first, second = (np.asarray(each, dtype=float) for each in (first, second))
        if self._n is None:
            return (first - second).astype(self.dtype)
        return (np.rint(first * self._n) - np.rint(second * self._n)) / self._n


class Flips:
    r"""Sums of differences with random signs, in units of their standard deviation.

    Parameters
    ----------
    differences : array, shape (U, C)
        Whole numbers: how many more trials of each unit the first result has right.
    signs : array, shape (P, U)
        1 or -1 for each unit in each flip.
    shape : tuple
        Of the maps, of C positions.
    height : float
        The normal deviate that a cluster's positions pass.

    Attributes
    ----------
    observed : array, shape (positions...)
        :math:`z = \sum_i d_i / \sqrt{\sum_i d_i^2}`; 0 where no unit differs.
    shape, ndim, dtype : tuple, int, dtype
        Those of the array (P, positions...) that the object stands for.
    """

    dtype = np.dtype(np.float64)

    def __init__(self, differences, signs, shape, height):
        # Sums of whole numbers are exact in single precision, however they are added.
        self._differences = np.asarray(differences, dtype=np.float32)
        self._signs, self.height = signs, height
        norm = np.sqrt(np.square(differences, dtype=float).sum(axis=0))
        self._norm = np.where(norm > 0, norm, 1.0)
        self.shape, self.ndim = (len(signs), *shape), 1 + len(shape)
        self.observed = self._rows(np.ones((1, signs.shape[1])))[0]

    def __len__(self):
        """Return the number of flips."""
        return self.shape[0]

    def __getitem__(self, rows):
        """Return the statistics of some flips."""
        return self._rows(self._signs[rows])

    def _rows(self, signs):
        """Return the statistics (m, positions...) of signs (m, U)."""
        sums = np.asarray(signs, dtype=np.float32) @ self._differences
        return (sums / self._norm).reshape(len(sums), *self.shape[1:])


def count_right(a, b, true):
    """Return for every prediction whether either result is right, (2, positions..., n).

    Parameters
    ----------
    a, b : array of int, shape (positions..., n)
        Predicted classes, -1 for none.
    true : array of int, shape (n,)
        The classes.

    Returns
    -------
    right : array of bool, shape (2, positions..., n)
        False where either has no prediction.
    n_both : array of int, shape (positions...)
        Number of trials that both have predictions for.
    """
    both = (a >= 0) & (b >= 0)
    return np.stack([(a == true) & both, (b == true) & both]), both.sum(axis=-1)


def groups_of_both(a, b):
    """Return the groups of the tested trials as numbers."""
    own = a.parameters.get("mode") != "other_trials"
    if a.groups is None or not own or not np.array_equal(a.groups, b.groups):
        raise ValueError(
            "flip='groups' needs results with the same groups of the tested trials; "
            "give groups= to both analyses, or use flip='trials'."
        )
    return np.unique(a.groups, return_inverse=True)[1].reshape(-1)


def sum_within(differences, units):
    """Sum differences (C, n) of trials within units (n,), numbers from 0: (U, C).

    Units without any difference are left out, as their sign changes nothing.
    """
    n = len(units)
    member = sparse.csr_array((np.ones(n, np.float32), (units, np.arange(n))))
    sums = member @ np.ascontiguousarray(differences.T, dtype=np.float32)
    differ = sums.any(axis=1)
    differ[0] |= not differ.any()  # one unit has to be left
    return sums[differ]
