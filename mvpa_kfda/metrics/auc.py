"""Areas under ROC and precision-recall curves, for many label vectors at once.

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
from types import SimpleNamespace
from typing import Any

import numpy as np
from scipy.special import expit
from scipy.stats import rankdata
from sklearn.metrics import auc, roc_curve

from ..utils.checks import check_option, quoted
from ..utils.memory import batches
from ..utils.rounding import rounded


def find_rare_class(tests, codes):
    """A class that most test sets, rows of codes (n,), lack beside another; or None.

    Its `code` and `n_trials`, the sets that hold it and another class, `n_sets` of
    `n_all`, and how much the mean area changes at most if two trials change their
    order, `step`. Where no set holds two classes, all trials are ranked together.
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
    return SimpleNamespace(
        code=int(present[k]),
        n_trials=n_trials,
        n_sets=int(n_sets[k]),
        n_all=len(tests),
        step=step,
    )


def divide(a, b):
    """A / b, and 0 where b is 0, as scikit-learn's zero_division=0 does."""
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


def mean_areas(true, class_scores, shapes, areas_of=None):
    """Do as :func:`roc_auc` with t labellings, which gives (t, ..., B).

    Of codes (n_test, t, ..., B), which may broadcast, and scores (n_test, c, ..., B).
    Under other curves than the ROC curve with another function in place of `_auc`.
    """
    areas_of = areas_of or _auc
    n_test, n_classes, *shape = class_scores.shape
    scores = class_scores.reshape(n_test, n_classes, -1)
    true = np.broadcast_to(true, (*true.shape[:2], *shape))
    true = true.reshape(n_test, -1, scores.shape[-1])
    wanted = [1] if n_classes == 2 else range(n_classes)
    total, count = np.zeros((2, len(wanted), *true.shape[1:]))
    for rows, (k, m, n_train) in set_batches(shapes):
        # Few enough at a time that they fit the cache with their keys and ranks.
        for part in batches(scores.shape[-1], 8 * k * m):
            some = scores[rows, :, part]
            if n_classes == 2:  # of the second class, up to a factor
                odds = (some[:, 1] - some[:, 0])[None]
            else:
                odds = log_odds(some, [(k, m, n_train)])
            odds = odds.reshape(-1, k, m, some.shape[-1])
            for j, number in enumerate(wanted):
                positive = true[rows, :, part] == number
                positive = positive.reshape(k, m, *positive.shape[1:])
                areas, defined = areas_of(odds[j], positive)
                total[j, :, part] += total_in_order(areas)
                count[j, :, part] += defined.sum(axis=0)
    means = total / np.maximum(count, 1)
    if len(undefined := np.flatnonzero((count == 0).any(axis=(0, 1)))):
        odds = log_odds(scores[..., undefined], shapes)[:, None]
        for j, number in enumerate(wanted):
            positive = true[..., undefined] == number
            [areas], [defined] = areas_of(odds[number], positive[None])
            empty = count[j][:, undefined] == 0
            means[j][:, undefined] = np.where(empty, areas, means[j][:, undefined])
            count[j][:, undefined] += empty & defined
    counted = count > 0
    total = total_in_order(means * counted)
    areas = total / np.maximum(counted.sum(axis=0), 1)
    return np.where(counted.any(axis=0), areas, 0.5).reshape(-1, *shape)


def set_batches(shapes):
    """Yield the test rows of every batch of test sets, and its shape."""
    start = 0
    for shape in shapes:
        rows = slice(start, start + shape[0] * shape[1])
        start = rows.stop
        yield rows, shape


def log_odds(class_scores, shapes):
    """Each class's log posterior odds, (c, n_test, B).

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
    if (certain := (odds > limit).any(axis=0)).any():
        log = log[:, certain]
        odds[:, certain] = log - _over_others(np.logaddexp, log)
    return odds


def _over_others(combine, values):
    """The sum of all other entries along the first axis, for each.

    From running totals from either end: nothing is subtracted, so no digit is lost.
    """
    before = list(accumulate(values[:-1], combine))
    after = list(accumulate(values[:0:-1], combine))[::-1]
    middle = map(combine, before[:-1], after[1:])
    return np.stack([after[0], *middle, before[-1]])


def _auc(scores, positive):
    """The areas of scores (k, m, B), 0 where undefined, and where defined.

    Both are (k, t, B), for flags (k, m, t, B) of t labellings. Scores that are alike
    are ranked, which is many times slower than sorting.
    """
    m, n_positive = scores.shape[1], positive.sum(axis=1)
    defined = (n_positive > 0) & (n_positive < m)
    if not defined.any():
        return np.zeros(defined.shape), defined
    totals, tied = _rank_sums(scores, positive)
    folds, columns = np.nonzero(tied)
    if len(folds):
        ranks = rankdata(merge_near_ties(scores)[folds, :, columns], axis=1)
        mine = positive[folds, :, :, columns]  # (., m, t)
        totals[folds, :, columns] = (ranks[..., None] * mine).sum(axis=1)
    areas = totals - n_positive * (n_positive + 1) / 2
    return divide(areas, n_positive * (m - n_positive)), defined


def average_precision(scores, positive):
    """The areas under precision-recall curves, and where defined, as by `_auc`.

    Steps, as in scikit-learn: the mean, over positive ones, of the precision among all
    that score at least as high.
    """
    m, n_positive = scores.shape[1], positive.sum(axis=1)
    defined = (n_positive > 0) & (n_positive < m)
    falling = -merge_near_ties(scores)
    order = np.argsort(falling, axis=1, kind="stable")
    falling = np.take_along_axis(falling, order, axis=1)
    # Of scores that are alike, the threshold is below the last one.
    last = np.full(falling.shape, m - 1)
    apart = falling[:, :-1] != falling[:, 1:]
    last[:, :-1] = np.where(apart, np.arange(m - 1)[:, None], m - 1)
    last = np.minimum.accumulate(last[:, ::-1], axis=1)[:, ::-1, None]
    mine = np.take_along_axis(positive, order[:, :, None], axis=1)
    found = np.take_along_axis(mine.cumsum(axis=1), last, axis=1)
    total = total_in_order(np.moveaxis(mine * found / (last + 1), 1, 0))
    return divide(total * defined, n_positive), defined


def _rank_sums(scores, positive):
    """The sums (k, t, B) of the positive ones' ranks, and which have ties.

    Labels take the place of a score's last bits, so that sorting plain numbers, many
    times faster than ranking, tells where the positive ones end up.
    """
    whole = np.int64 if scores.dtype == np.float64 else np.int32
    k, m, n_labellings, n_labels = positive.shape
    marked = scores.view(whole) & -(1 << n_labellings)
    for number in range(n_labellings):
        marked |= positive[:, :, number].astype(whole) << number
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
    """Which sorted keys (k, B, m) are alike or infinite somewhere, (k, B)."""
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
    """The steps from zero to the largest score that are more than rounding."""
    return 1e10 if dtype == np.float64 else 1e5


def merge_near_ties(scores):
    """Scores as whole numbers, alike where they differ by rounding only."""
    digits = _digits(scores.dtype)
    scale = np.maximum(scores.max(axis=1), -scores.min(axis=1))
    if not np.isfinite(scale).all():
        finite = np.where(np.isfinite(scores), scores, 0)
        scale = np.abs(finite).max(axis=1)
    factor = np.where(scale > 0, digits / np.where(scale > 0, scale, 1), 1)
    merged = np.rint(scores * factor[:, None].astype(scores.dtype))
    # Infinite ones beyond all others.
    return np.clip(merged, -2 * digits, 2 * digits, out=merged)


# ---------------------------------------------------------------- the curve of a result


@dataclass(frozen=True, eq=False, repr=False)
class Roc:
    """A receiver operating characteristic, see :meth:`DecodingResult.roc`.

    A trial is classified as positive if its score is at or above the threshold.

    Parameters
    ----------
    fpr : ndarray of shape (n_thresholds,)
        False positive rate: the proportion of other trials at or above each threshold.
    tpr : ndarray of shape (n_thresholds,)
        True positive rate: the same for trials of the positive class.
    thresholds : ndarray of shape (n_thresholds,)
        Decreasing thresholds, infinite first, as in scikit-learn. They apply to the
        difference of class scores with two classes, else to the posterior probability.
    auc : float
        The area under the curve.
    positive : object
        The label of the positive class.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from mvpa_kfda import cross_validate
    >>> X, y = load_iris(return_X_y=True)
    >>> cross_validate(X, y).roc(positive=1)
    <Roc: 1, AUC 0.999>
    """

    fpr: np.ndarray
    tpr: np.ndarray
    thresholds: np.ndarray
    auc: float
    positive: Any

    def __repr__(self):
        """Name the positive class and the area."""
        return f"<Roc: {self.positive}, AUC {rounded(self.auc)}>"


def make_roc(result, positive=None):
    """The ROC curve of one class against the rest.

    Parameters
    ----------
    result : DecodingResult
        With class scores.
    positive : label | None
        The positive class. None: the second of two classes.

    Returns
    -------
    roc : Roc
        Over all tested trials.

    Raises
    ------
    ValueError
        If `positive` is not a class, or is omitted with more than two classes, or if
        all or none of the tested trials belong to the positive class.
    """
    classes = result.classes.tolist()
    if positive is None and len(classes) > 2:
        raise ValueError(
            f"This result has {len(classes)} classes; say which one is positive, the "
            f"others being the rest: result.roc(positive=...), one of "
            f"{quoted(classes)}. plot_roc() draws them all."
        )
    label = classes[1] if positive is None else positive
    number = classes.index(check_option("positive", label, classes))
    tested = ~np.isnan(result.class_scores).any(axis=1)
    is_positive = result.y[tested] == number
    if is_positive.all() or not is_positive.any():
        raise ValueError(
            f"The ROC curve of {classes[number]!r} needs tested trials both of this "
            f"class and of others; of {tested.sum()} tested trials {is_positive.sum()} "
            "are of this class."
        )
    scores = result.class_scores[tested]
    if scores.shape[1] == 2:
        scores = scores[:, number] - scores[:, 1 - number]
    else:  # log odds, which order trials as probabilities do, and do not saturate
        n_train = count_trained(result, len(tested))[tested]
        scores = log_odds(scores[:, :, None], [(1, 1, size) for size in n_train])
        scores = scores[number, :, 0]
    # Ranks are alike where scores are up to rounding, and finite where the score of an
    # absent class is not.
    merged = merge_near_ties(scores[None, :, None])[0, :, 0]
    values, ranks = np.unique(merged, return_inverse=True)
    lowest = np.full(len(values), np.inf)
    np.minimum.at(lowest, ranks, scores)
    fpr, tpr, thresholds = roc_curve(is_positive, ranks)
    thresholds[1:] = lowest[thresholds[1:].astype(int)]
    if len(classes) > 2:
        thresholds[1:] = expit(thresholds[1:])
    return Roc(fpr, tpr, thresholds, float(auc(fpr, tpr)), classes[number])


def count_trained(result, n):
    """How many samples the models of each of n tested ones were trained with."""
    times, total = np.zeros((2, n))
    for train, test in result.folds:
        times[test] += 1
        total[test] += len(train)
    if not result.parameters.get("average_test", True):
        total /= result.parameters["average"]  # single trials are listed, all of them
    return total / np.maximum(times, 1)
