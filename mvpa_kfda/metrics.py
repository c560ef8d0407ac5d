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

import numpy as np

from ._checks import check_scoring_names
from ._roc import divide, roc_auc, total_in_order


def _rates(confusion):
    """Return per-class recall, precision and F1, (c, B), from (c, c, B) counts."""
    hits = np.einsum("kkb->kb", confusion)
    true, predicted = confusion.sum(axis=1), confusion.sum(axis=0)
    recall, precision = divide(hits, true), divide(hits, predicted)
    return recall, precision, divide(2 * hits, true + predicted)


def _seen_mean(values, confusion):
    """Average over the classes that occur, as labels or as predictions."""
    seen = (confusion.sum(axis=1) + confusion.sum(axis=0)) > 0
    return total_in_order(values * seen) / seen.sum(axis=0)


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
    return total_in_order(_rates(confusion)[0] * present) / present.sum(axis=0)


def _kappa(confusion):
    total = confusion.sum(axis=(0, 1))
    expected = (confusion.sum(axis=0) * confusion.sum(axis=1)).sum(axis=0) / total
    return divide(np.einsum("kkb->b", confusion) - expected, total - expected)


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


#: Bytes of flags that are made and counted at a time.
_CACHE_BYTES = 2**20

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
    names = check_scoring_names(scoring, METRICS)
    if not METRICS[names[0]].scalar:
        raise ValueError(
            f"The first metric of scoring is the one that is tested and drawn; "
            f"{names[0]!r} is a table. Put a single-number metric first, e.g. "
            f"scoring=['accuracy', {names[0]!r}]."
        )
    return names


def needs_class_scores(scoring):
    """Return whether some metric of the list is computed from class scores."""
    return any(METRICS[name].from_confusion is None for name in scoring)


def chance_level(name, codes, n_classes=None):
    """Return the expected score of guessing every class equally often.

    Parameters
    ----------
    name : str
        A metric.
    codes : ndarray of int, shape (n,)
        Class codes of the trials.
    n_classes : int | None
        The number of classes that may be guessed; None: those up to the last one.

    Returns
    -------
    chance : float
        E.g. 1 / n_classes for accuracy, 0.5 for the ROC AUC.
    """
    counts = np.bincount(codes, minlength=n_classes or 0)
    return float(METRICS[name].chance(counts / len(codes)))


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
        (B,) for each metric, (B, c, c) for the confusion matrix. With predictions at
        several positions, (n_test, ..., B), these follow: (B, ...) and (B, ..., c, c).
    """
    predicted = scored.predicted
    if scoring == ["accuracy"]:  # the common case needs no table
        hits = count_equal(scored.true, predicted)
        return {"accuracy": np.moveaxis(hits / len(predicted), -1, 0)}
    positions = predicted.shape[1:]
    true, predicted = (
        np.broadcast_to(codes, predicted.shape).reshape(len(codes), -1)
        for codes in (scored.true, predicted)
    )
    confusion = confusion_matrix(true, predicted, n_classes)
    scores = {}
    for name in scoring:
        if METRICS[name].from_confusion is None:
            class_scores = scored.class_scores
            class_scores = class_scores.reshape(*class_scores.shape[:2], -1)
            value = roc_auc(true, class_scores, shapes)
        else:
            value = METRICS[name].from_confusion(confusion)
        value = value.reshape(*value.shape[:-1], *positions)
        value = np.moveaxis(value, -1, 0)  # (B, c, c, ...) for the confusion matrix
        if not METRICS[name].scalar:
            value = np.moveaxis(value, (1, 2), (-2, -1))
        scores[name] = value
    return scores


def count_equal(true, predicted):
    """Count equal entries of many columns, (n, ...) with (n, ...) to (...).

    Sums of at most 127 rows fit in a byte, and a few rows in the cache, which makes
    them many times faster.
    """
    counts = np.zeros(predicted.shape[1:], np.intp)
    rows = int(np.clip(_CACHE_BYTES // max(1, counts.size), 8, 127))
    for start in range(0, len(predicted), rows):
        some = slice(start, start + rows)
        equal = (true[some] == predicted[some]).view(np.int8)
        counts += equal.sum(axis=0, dtype=np.int8)
    return counts
