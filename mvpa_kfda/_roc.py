"""The area under the ROC curve, for many label vectors at once."""

from itertools import accumulate

import numpy as np
from scipy.stats import rankdata


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
    odds = _log_odds(class_scores, shapes)  # per column: (n_test, B)
    wanted = [1] if len(odds) == 2 else range(len(odds))
    columns = [_mean_auc(odds[k], true == k, shapes) for k in wanted]
    aucs, counts = (np.array(values) for values in zip(*columns, strict=True))
    counted = counts > 0  # (columns, B)
    total = total_in_order(aucs * counted)
    return np.where(
        counted.any(axis=0), total / np.maximum(counted.sum(axis=0), 1), 0.5
    )


def _log_odds(class_scores, shapes):
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


def _mean_auc(scores, positive, shapes):
    """Return the mean AUC over test sets, and over how many, both (B,)."""
    total, count, start = 0.0, 0, 0
    for k, m, _ in shapes:
        rows = slice(start, start + k * m)
        start = rows.stop
        auc, defined = _auc(
            scores[rows].reshape(k, m, -1), positive[rows].reshape(k, m, -1)
        )
        total = total + total_in_order(auc)
        count = count + defined.sum(axis=0)
    pooled = np.flatnonzero(count == 0)
    mean = total / np.maximum(count, 1)
    if len(pooled):
        auc, defined = _auc(scores[None, :, pooled], positive[None, :, pooled])
        mean[pooled], count[pooled] = auc[0], defined[0]
    return mean, count


def _auc(scores, positive):
    """Return the AUC over axis 1, (k, m, B) to (k, B), 0 where undefined.

    The label goes into the last bit of a whole-numbered score, so that sorting plain
    numbers, many times faster than ranking, tells where the positive ones end up.
    """
    n_positive = positive.sum(axis=1)
    pairs = n_positive * (positive.shape[1] - n_positive)
    defined = pairs > 0
    if not defined.any():
        return np.zeros(pairs.shape), defined
    merged = _merge_near_ties(scores)
    keys = np.ascontiguousarray(np.moveaxis(2 * merged + positive, 1, 2))
    keys.sort(axis=2)
    half = np.floor(keys / 2)
    keys -= 2 * half  # now the labels, in the order of the scores
    ranks = np.arange(1, keys.shape[2] + 1, dtype=np.float64)
    total = keys.astype(np.float64, copy=False) @ ranks
    tied = (half[..., 1:] == half[..., :-1]) & (keys[..., 1:] != keys[..., :-1])
    folds, columns = np.nonzero(tied.any(axis=2))
    if len(folds):
        ranks = rankdata(merged[folds, :, columns], axis=1)
        total[folds, columns] = (ranks * positive[folds, :, columns]).sum(axis=1)
    return divide(total - n_positive * (n_positive + 1) / 2, pairs), defined


def _merge_near_ties(scores):
    """Return scores as whole numbers, alike where they differ by rounding only."""
    digits = 1e10 if scores.dtype == np.float64 else 1e5
    scale = np.maximum(scores.max(axis=1), -scores.min(axis=1))
    if not np.isfinite(scale).all():
        finite = np.where(np.isfinite(scores), scores, 0)
        scale = np.abs(finite).max(axis=1)
    factor = np.where(scale > 0, digits / np.where(scale > 0, scale, 1), 1)
    merged = np.rint(scores * factor[:, None].astype(scores.dtype))
    # Infinite ones beyond all others.
    return np.clip(merged, -2 * digits, 2 * digits, out=merged)
