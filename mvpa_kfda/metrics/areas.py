"""Areas under the ROC curve, for many label vectors at once.

Of predicted classes all test sets are counted together, but of areas the mean is taken
over test sets: averaging ranks within the models that produced them is what keeps
either free of bias [1]_.

References
----------
.. [1] Forman & Scholz (2010). Apples-to-apples in cross-validation studies: pitfalls in
   classifier performance measurement. ACM SIGKDD Explorations 12(1), 49-57.
"""

from dataclasses import dataclass
from itertools import accumulate
from typing import NamedTuple

import numpy as np
from scipy.stats import rankdata


class RareClass(NamedTuple):
    """A class that most test sets do not hold beside another one."""

    code: int
    n_trials: int
    #: Test sets that hold it and another class, and all there are.
    n_sets: int
    n_all: int
    #: How much the mean area changes at most if two trials change their order.
    step: float


def find_rare_class(tests, codes):
    """Return the `RareClass` of test sets, rows of codes (n,), or None.

    Where no set holds a class beside another one, all trials are ranked together.
    """
    present, numbers = np.unique(codes, return_inverse=True)
    numbers, c = numbers.reshape(-1), len(present)
    counts = np.array([np.bincount(numbers[test], minlength=c) for test in tests])
    pairs = counts * (counts.sum(axis=1, keepdims=True) - counts)
    n_sets = np.count_nonzero(pairs, axis=0)
    of_any = np.where(n_sets > 0, n_sets, len(tests))
    k = int(np.lexsort((counts.sum(axis=0), of_any))[0])
    if 2 * of_any[k] >= len(tests):
        return None
    step = 1 / (n_sets[k] * pairs[pairs[:, k] > 0, k].min())
    n_trials = int(np.sum(numbers[np.unique(np.concatenate(tests))] == k))
    return RareClass(int(present[k]), n_trials, int(n_sets[k]), len(tests), step)


def divide(a, b):
    """Return a / b, and 0 where b is 0, as scikit-learn's zero_division=0 does."""
    return np.divide(a, b, out=np.zeros(np.broadcast(a, b).shape), where=b > 0)


def total_in_order(values):
    """Sum over the first axis in order, so that no digit depends on how many B are.

    A plain sum of a single column is formed in another order than that of several.
    """
    return np.add.accumulate(values, axis=0)[-1]


def roc_auc(true, class_scores, shapes):
    """Area under the ROC curve: of the second class, or one-vs-rest macro.

    With two classes the difference of their scores is ranked; with more, each class's
    posterior probability (as its log odds, which do not saturate), like
    scikit-learn's ``"roc_auc_ovr"`` on :meth:`KernelFDA.predict_proba`.

    Parameters
    ----------
    true : ndarray of int, shape (n_test, B)
        Class codes.
    class_scores : ndarray, shape (n_test, c, B)
        Scores per class.
    shapes : sequence of (k, m, n_train)
        The test rows in order: k test sets of m rows each, predicted by models of
        n_train trials, batch after batch.

    Returns
    -------
    auc : ndarray, shape (B,)
        The mean over the test sets that hold both trials of a class and of the rest,
        and over classes. Where no test set does (leave-one-out), all test rows are
        ranked together. 0.5 where even that is undefined.
    """
    return mean_areas(true[:, None], class_scores, shapes)[0]


def mean_areas(true, class_scores, shapes):
    """Do as :func:`roc_auc` with t labellings, which gives (t, ..., B).

    Of codes (n_test, t, ..., B), which may broadcast, and scores (n_test, c, ..., B).
    """
    n_classes, *shape = class_scores.shape[1:]
    wanted = [1] if n_classes == 2 else range(n_classes)
    flags = [true == number for number in wanted]
    flat = class_scores.reshape(len(true), n_classes, -1)
    total, count = 0.0, 0  # (classes, t, B)
    for rows, each in set_batches(shapes):
        areas, defined = _fold_areas(flat[rows], [f[rows] for f in flags], shape, each)
        total = total + total_in_order(areas)
        count = count + defined.sum(axis=0)
    means = total / np.maximum(count, 1)
    undefined = np.flatnonzero((count == 0).any(axis=(0, 1)))
    if len(undefined):
        odds = log_odds(flat[..., undefined], shapes)[:, None]
        for j, number in enumerate(wanted):
            all_rows = _mark(flags[j], shape, 1, len(true)).take(columns=undefined)
            empty = count[j][:, undefined] == 0
            t, i = np.nonzero(empty)
            means[j, t, undefined[i]] = _auc(odds[number], all_rows)[0][empty]
            count[j, t, undefined[i]] = all_rows.defined[0][empty]
    counted = count > 0
    total = total_in_order(means * counted)
    areas = total / np.maximum(counted.sum(axis=0), 1)
    return np.where(counted.any(axis=0), areas, 0.5).reshape(-1, *shape)


def _fold_areas(class_scores, flags, shape, batch):
    """Return the areas of a batch's test sets and where defined, (k, classes, t, B)."""
    k, m, n_train = batch
    scores = class_scores.reshape(k, m, *class_scores.shape[1:])
    marks = [_mark(each, shape, k, m) for each in flags]
    defined = np.stack([each.defined for each in marks], axis=1)
    areas = np.zeros(defined.shape)
    for folds, columns in _parts(k, m, scores.shape[3]):
        odds = _fold_odds(scores[folds, :, :, columns], n_train)
        for j, each in enumerate(marks):
            areas[folds, j, :, columns] = _auc(odds[j], each.take(folds, columns))
    return areas, defined


def set_batches(shapes):
    """Yield the test rows of every batch of test sets, and its shape."""
    start = 0
    for shape in shapes:
        rows = slice(start, start + shape[0] * shape[1])
        start = rows.stop
        yield rows, shape


#: Scores that are sorted at a time: with their keys and ranks they fit the cache.
_SORTED = 2**16


def _parts(k, m, n_labels):
    """Cut scores (k, m, B) into parts, by test sets and columns."""
    columns = int(np.clip(_SORTED // m, 1, n_labels))
    folds = max(1, _SORTED // (m * columns))
    for fold in range(0, k, folds):
        for column in range(0, n_labels, columns):
            yield slice(fold, fold + folds), slice(column, column + columns)


def _fold_odds(scores, n_train):
    """Return the log odds (., k, m, B) of scores (k, m, c, B) of test sets.

    Of each class; with two classes of the second alone, and up to a factor.
    """
    k, m, n_classes, n_labels = scores.shape
    if n_classes == 2:
        return (scores[:, :, 1] - scores[:, :, 0])[None]
    odds = log_odds(scores.reshape(k * m, n_classes, -1), [(k, m, n_train)])
    return odds.reshape(n_classes, k, m, n_labels)


def log_odds(class_scores, shapes):
    """Return each class's log posterior odds, (c, n_test, B).

    The log posterior is n_train times the class score, up to a constant.
    """
    n_train = np.concatenate([np.full(k * m, n) for k, m, n in shapes])
    log = class_scores.transpose(1, 0, 2) * n_train[:, None].astype(class_scores.dtype)
    if len(log) == 2:
        return np.stack([log[0] - log[1], log[1] - log[0]])
    log -= log.max(axis=0)
    with np.errstate(divide="ignore"):
        odds = log - np.log(_over_others(np.add, np.exp(log)))
    # Where a class is all but certain the others underflow: there, add up logarithms.
    limit = -0.9 * np.log(np.finfo(log.dtype).tiny)
    certain = (odds > limit).any(axis=0)
    if certain.any():
        log = log[:, certain]
        odds[:, certain] = log - _over_others(np.logaddexp, log)
    return odds


def _over_others(combine, values):
    """Return, for every entry along the first axis, the sum of all others.

    From running totals from either end: nothing is subtracted, so no digit is lost.
    """
    before = list(accumulate(values[:-1], combine))
    after = list(accumulate(values[:0:-1], combine))[::-1]
    middle = map(combine, before[:-1], after[1:])
    return np.stack([after[0], *middle, before[-1]])


@dataclass(frozen=True)
class _Marks:
    """Which test rows of k test sets are of a class, under t labellings."""

    #: By the i-th labelling if bit i is set, (k, m, B).
    bits: np.ndarray
    #: How many are (k, t, B), and whether the area is defined.
    n_positive: np.ndarray
    defined: np.ndarray

    def take(self, folds=slice(None), columns=slice(None)):
        """Return some test sets and columns."""
        return _Marks(
            self.bits[folds, :, columns],
            self.n_positive[folds, :, columns],
            self.defined[folds, :, columns],
        )


def _mark(flags, shape, k, m):
    """Return the marks of flags (k * m, t, ..., B), which broadcast to (..., B)."""
    flags = flags.reshape(k, m, *flags.shape[1:])
    bits = flags[:, :, 0].view(np.int8).copy()
    for number in range(1, flags.shape[2]):
        bits |= flags[:, :, number].view(np.int8) << number
    n_positive = flags.sum(axis=1)
    defined = (n_positive > 0) & (n_positive < m)
    return _Marks(
        *(
            np.broadcast_to(each, each.shape[:2] + tuple(shape)).reshape(
                *each.shape[:2], -1
            )
            for each in (bits, n_positive, defined)
        )
    )


def _auc(scores, marks):
    """Return the areas (k, t, B) of scores (k, m, B), 0 where they are undefined.

    Scores that are alike are ranked, which is many times slower than sorting.
    """
    if not marks.defined.any():
        return np.zeros(marks.defined.shape)
    n, n_positive = scores.shape[1], marks.n_positive
    totals, tied = _rank_sums(scores, marks.bits, n_positive.shape[1])
    folds, columns = np.nonzero(tied)
    if len(folds):
        ranks = rankdata(merge_near_ties(scores)[folds, :, columns], axis=1)
        for i in range(n_positive.shape[1]):
            mine = (marks.bits[folds, :, columns] >> i) & 1
            totals[folds, i, columns] = (ranks * mine).sum(axis=1)
    areas = totals - n_positive * (n_positive + 1) / 2
    return divide(areas, n_positive * (n - n_positive))


def _rank_sums(scores, marks, n_labellings):
    """Return the sums (k, t, B) of the positive ones' ranks, and which have ties.

    Labels take the place of a score's last bits, so that sorting plain numbers, many
    times faster than ranking, tells where the positive ones end up.
    """
    whole = np.int64 if scores.dtype == np.float64 else np.int32
    k, m, n_labels = scores.shape
    marked = scores.view(whole) & -(1 << n_labellings)
    marked |= marks
    bits = np.empty((k, n_labels, m), whole)
    bits[:] = marked.swapaxes(1, 2)
    keys = bits.view(scores.dtype)
    keys.sort(axis=2)
    tied = _tied(keys)  # before the keys are used up
    # Whole numbers below 2^24 are exact in single precision, at half the cost.
    exact = np.float32 if m * (m + 1) < 2**25 else np.float64
    ranks = np.arange(1, m + 1, dtype=exact)
    sums = np.empty((k, n_labellings, n_labels))
    for number in range(n_labellings):
        sums[:, number] = (bits & 1).astype(exact) @ ranks
        bits >>= 1
    return sums, tied


def _tied(keys):
    """Tell which sorted keys (k, B, m) are alike or infinite somewhere, (k, B)."""
    largest = np.maximum(keys[..., -1], -keys[..., 0])
    # With a margin for the bits that are labels, which are all there is to a zero.
    unit = np.maximum(1.5 * largest / _digits(keys.dtype), np.finfo(keys.dtype).tiny)
    flat = keys.ravel()
    with np.errstate(invalid="ignore"):
        steps = np.subtract(flat[1:], flat[:-1])  # in one go, across columns too
        if np.abs(steps, out=steps).min(initial=np.inf) > unit.max():
            return np.zeros(unit.shape, bool)
        return ~(np.diff(keys, axis=2) > unit[..., None]).all(axis=2)


def _digits(dtype):
    """Return the steps from zero to the largest score that are more than rounding."""
    return 1e10 if dtype == np.float64 else 1e5


def merge_near_ties(scores):
    """Return scores as whole numbers, alike where they differ by rounding only."""
    digits = _digits(scores.dtype)
    scale = np.maximum(scores.max(axis=1), -scores.min(axis=1))
    if not np.isfinite(scale).all():
        finite = np.where(np.isfinite(scores), scores, 0)
        scale = np.abs(finite).max(axis=1)
    factor = np.where(scale > 0, digits / np.where(scale > 0, scale, 1), 1)
    merged = np.rint(scores * factor[:, None].astype(scores.dtype))
    # Infinite ones beyond all others.
    return np.clip(merged, -2 * digits, 2 * digits, out=merged)
