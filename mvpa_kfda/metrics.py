"""Scores of predictions, computed for all label permutations at once.

Metrics of predicted labels (accuracy, recall, ...) are computed from the confusion
matrix pooled over all test sets, and the area under the ROC curve as the mean over
test sets: pooling counts, but averaging ranks within the models that produced them, is
what keeps either free of bias [1]_. Values agree with scikit-learn's functions on the
same predictions.

References
----------
.. [1] Forman & Scholz (2010). Apples-to-apples in cross-validation studies: pitfalls in
   classifier performance measurement. ACM SIGKDD Explorations 12(1), 49-57.
"""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import accumulate

import numpy as np
from scipy.stats import rankdata

from ._checks import check_option


def _divide(a, b):
    """Return a / b, and 0 where b is 0, as scikit-learn's zero_division=0 does."""
    return np.divide(a, b, out=np.zeros(np.broadcast(a, b).shape), where=b > 0)


def _total(values):
    """Sum over the first axis in order, so that no digit depends on how many B are.

    A plain sum of a single column is formed in another order than that of several.
    """
    return np.add.accumulate(values, axis=0)[-1]


def _rates(confusion):
    """Return per-class recall, precision and F1, (c, B), from (c, c, B) counts."""
    hits = np.einsum("kkb->kb", confusion)
    true, predicted = confusion.sum(axis=1), confusion.sum(axis=0)
    recall, precision = _divide(hits, true), _divide(hits, predicted)
    return recall, precision, _divide(2 * hits, true + predicted)


def _seen_mean(values, confusion):
    """Average over the classes that occur, as labels or as predictions."""
    seen = (confusion.sum(axis=1) + confusion.sum(axis=0)) > 0
    return _total(values * seen) / seen.sum(axis=0)


def _macro(rate):
    """Return a metric: the mean over classes of rate 0 (recall), 1 or 2."""
    return lambda confusion: _seen_mean(_rates(confusion)[rate], confusion)


def _binary_or_macro(rate):
    """Return a metric: the second class's rate for two classes, else the macro mean."""

    def metric(confusion):
        if len(confusion) == 2:
            return _rates(confusion)[rate][1]
        return _macro(rate)(confusion)

    return metric


def _accuracy(confusion):
    return np.einsum("kkb->b", confusion) / confusion.sum(axis=(0, 1))


def _balanced_accuracy(confusion):
    present = confusion.sum(axis=1) > 0
    return _total(_rates(confusion)[0] * present) / present.sum(axis=0)


def _kappa(confusion):
    total = confusion.sum(axis=(0, 1))
    expected = (confusion.sum(axis=0) * confusion.sum(axis=1)).sum(axis=0) / total
    return _divide(np.einsum("kkb->b", confusion) - expected, total - expected)


def _confusion_matrix(confusion):
    return confusion


# What a guesser scores that names every class equally often, whatever the trial.
# `p` holds the class proportions; with two classes p[1] is the positive class's.


def _chance_class(p):
    return 1 / len(p)


def _chance_precision(p):
    return p[1] if len(p) == 2 else p.mean()


def _chance_f1(p):
    f1 = 2 * p / len(p) / (p + 1 / len(p))
    return f1[1] if len(p) == 2 else f1.mean()


@dataclass(frozen=True)
class Metric:
    """How to score predictions.

    Attributes
    ----------
    from_confusion : callable | None
        ``f(confusion (c, c, B)) -> (B,)``, rows the true and columns the predicted
        class; None for the ROC AUC, which needs class scores.
    chance : callable
        ``f(proportions (c,)) -> float``, see :func:`chance_level`.
    label : str
        How to name it on an axis.
    scalar : bool
        Whether it is one number per label vector.
    """

    from_confusion: Callable | None
    chance: Callable
    label: str
    scalar: bool = True


#: The metrics known by name.
METRICS = {
    "accuracy": Metric(_accuracy, _chance_class, "Accuracy"),
    "balanced_accuracy": Metric(_balanced_accuracy, _chance_class, "Balanced accuracy"),
    "roc_auc": Metric(None, lambda p: 0.5, "ROC AUC"),
    "recall": Metric(_binary_or_macro(0), _chance_class, "Recall"),
    "precision": Metric(_binary_or_macro(1), _chance_precision, "Precision"),
    "f1": Metric(_binary_or_macro(2), _chance_f1, "F1"),
    "recall_macro": Metric(_macro(0), _chance_class, "Recall (macro)"),
    "precision_macro": Metric(_macro(1), np.mean, "Precision (macro)"),
    "f1_macro": Metric(
        _macro(2), lambda p: np.mean(2 * p / len(p) / (p + 1 / len(p))), "F1 (macro)"
    ),
    "kappa": Metric(_kappa, lambda p: 0.0, "Cohen's kappa"),
    "confusion_matrix": Metric(
        _confusion_matrix, lambda p: np.nan, "Confusion matrix", scalar=False
    ),
}


def check_scoring(scoring):
    """Return the list of metric names; the first one must be a single number.

    Raises
    ------
    ValueError
        If a name is unknown, named twice, or if the first is the confusion matrix.
    """
    names = [scoring] if isinstance(scoring, str) else scoring
    if not isinstance(names, (list, tuple)) or not names:
        raise TypeError(
            f"Invalid value for 'scoring': {scoring!r}. Allowed: a metric's name or a "
            f"list of names, of {', '.join(METRICS)}."
        )
    for name in names:
        check_option("scoring", name, METRICS)
    if len(set(names)) < len(names):
        raise ValueError(f"scoring names a metric twice: {list(names)}.")
    if not METRICS[names[0]].scalar:
        raise ValueError(
            f"The first metric of scoring is the one that is tested and drawn; "
            f"{names[0]!r} is a table. Put a single-number metric first, e.g. "
            f"scoring=['accuracy', {names[0]!r}]."
        )
    return list(names)


def needs_class_scores(scoring):
    """Return whether some metric of the list is computed from class scores."""
    return any(METRICS[name].from_confusion is None for name in scoring)


def chance_level(name, codes):
    """Return the expected score of guessing every class equally often.

    Parameters
    ----------
    name : str
        A metric.
    codes : ndarray of int, shape (n,)
        Class codes of the trials.

    Returns
    -------
    chance : float
        E.g. 1 / n_classes for accuracy, 0.5 for the ROC AUC.
    """
    return float(METRICS[name].chance(np.bincount(codes) / len(codes)))


def confusion_matrix(true, predicted, n_classes):
    """Count predictions for every label vector.

    Parameters
    ----------
    true, predicted : ndarray of int, shape (n_test, B)
        Class codes.
    n_classes : int
        The number of classes c.

    Returns
    -------
    confusion : ndarray, shape (c, c, B)
        Rows are true classes, columns predicted ones.
    """
    n_labels = true.shape[1]
    cells = true.astype(np.intp)
    cells *= n_classes
    cells += predicted
    cells *= n_labels
    cells += np.arange(n_labels)
    counts = np.bincount(cells.ravel(), minlength=n_classes**2 * n_labels)
    return counts.reshape(n_classes, n_classes, n_labels)


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
    total = _total(aucs * counted)
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
        total = total + _total(auc)
        count = count + defined.sum(axis=0)
    pooled = np.flatnonzero(count == 0)
    mean = total / np.maximum(count, 1)
    if len(pooled):
        auc, defined = _auc(scores[None, :, pooled], positive[None, :, pooled])
        mean[pooled], count[pooled] = auc[0], defined[0]
    return mean, count


def _auc(scores, positive):
    """Return the AUC over axis 1, (k, m, B) to (k, B), 0 where undefined."""
    n_positive = positive.sum(axis=1)
    pairs = n_positive * (positive.shape[1] - n_positive)
    defined = pairs > 0
    if not defined.any():
        return np.zeros(pairs.shape), defined
    ranks = rankdata(_merge_near_ties(scores), axis=1)
    wins = (ranks * positive).sum(axis=1) - n_positive * (n_positive + 1) / 2
    return _divide(wins, pairs), defined


def _merge_near_ties(scores):
    """Round scores that differ by rounding only to the same number."""
    digits = 1e10 if scores.dtype == np.float64 else 1e5
    scale = np.maximum(scores.max(axis=1), -scores.min(axis=1))
    if not np.isfinite(scale).all():
        finite = np.where(np.isfinite(scores), scores, 0)
        scale = np.abs(finite).max(axis=1)
    factor = np.where(scale > 0, digits / np.where(scale > 0, scale, 1), 1)
    return np.rint(scores * factor[:, None].astype(scores.dtype))


def evaluate(scoring, scored, shapes, n_classes):
    """Compute several metrics of the same predictions.

    Parameters
    ----------
    scoring : list of str
        Metric names.
    scored : Scored
        From :func:`mvpa_kfda.direct.apply`.
    shapes : sequence of (k, m, n_train)
        The plan's ``shapes``.
    n_classes : int
        The number of classes c.

    Returns
    -------
    scores : dict of str to ndarray
        (B,) for each metric, (B, c, c) for the confusion matrix.
    """
    if scoring == ["accuracy"]:  # the common case needs no table
        return {"accuracy": (scored.true == scored.predicted).mean(axis=0)}
    confusion = confusion_matrix(scored.true, scored.predicted, n_classes)
    scores = {}
    for name in scoring:
        if METRICS[name].from_confusion is None:
            scores[name] = roc_auc(scored.true, scored.class_scores, shapes)
        else:
            value = METRICS[name].from_confusion(confusion)
            scores[name] = np.moveaxis(value, -1, 0)
    return scores
