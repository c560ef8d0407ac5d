"""Scores of predictions, computed for all label permutations at once.

A metric is an entry of :data:`METRICS`, of :data:`REGRESSION_METRICS` if it is of
predicted numbers: all that the package knows of it stands there. All are the higher the
better.

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

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any, Literal

import numpy as np
from scipy.special import expit
from scipy.stats import rankdata
from sklearn.metrics import auc, roc_curve

from .utils.checks import check_option, check_scoring_names, quoted


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


#: Bytes of flags that are made and counted at a time.
_CACHE_BYTES = 2**20


def count_equal(true, predicted):
    """Count equal entries of many columns, (n, ...) with (n, ...) to (...).

    Sums of at most 127 rows fit in a byte, and a few rows in the cache, which makes
    them many times faster.
    """
    counts = np.zeros(predicted.shape[1:], np.intp)
    rows = int(np.clip(_CACHE_BYTES // max(1, counts.size), 8, 127))
    for start in range(0, len(predicted), rows):
        block = slice(start, start + rows)
        equal = (true[block] == predicted[block]).view(np.int8)
        counts += equal.sum(axis=0, dtype=np.int8)
    return counts


def _divide(a, b):
    """Return a / b, and 0 where b is 0, as scikit-learn's zero_division=0 does."""
    return np.divide(a, b, out=np.zeros(np.broadcast(a, b).shape), where=b > 0)


def _total_in_order(values):
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
    return _total_in_order(values * seen) / seen.sum(axis=0)


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
    return _total_in_order(_rates(confusion)[0] * present) / present.sum(axis=0)


def _kappa(confusion):
    total = confusion.sum(axis=(0, 1))
    expected = (confusion.sum(axis=0) * confusion.sum(axis=1)).sum(axis=0) / total
    return _divide(np.einsum("kkb->b", confusion) - expected, total - expected)


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
    total = _total_in_order(aucs * counted)
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
        total = total + _total_in_order(auc)
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
    return _divide(total - n_positive * (n_positive + 1) / 2, pairs), defined


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


# What a guesser scores that names every class equally often, whatever the trial.
# `p` holds the class proportions; with two classes p[1] is the positive class's.


def _chance_class(p):
    return 1 / len(p)


def _chance_precision(p):
    return p[1] if len(p) == 2 else p.mean()


def _f1_of_guesses(p):
    return 2 * p / len(p) / (p + 1 / len(p))


def _chance_f1(p):
    f1 = _f1_of_guesses(p)
    return f1[1] if len(p) == 2 else f1.mean()


@dataclass(frozen=True)
class Metric:
    """How to score predicted classes."""

    #: ``f(confusion (c, c, B)) -> (B,)``, rows the true and columns the predicted
    #: class; with `needs_class_scores` ``f(true, class_scores, shapes)``, as `roc_auc`.
    score: Callable
    #: ``f(proportions (c,)) -> float``, see `chance_level`.
    chance: Callable
    #: How to name it on an axis.
    label: str
    #: The lowest and the highest value that is possible.
    lowest: float = 0.0
    highest: float = 1.0
    #: Whether it is one number per label vector.
    scalar: bool = True
    needs_class_scores: bool = False


#: The metrics of classification known by name.
METRICS = {
    "accuracy": Metric(_accuracy, _chance_class, "Accuracy"),
    "balanced_accuracy": Metric(_balanced_accuracy, _chance_class, "Balanced accuracy"),
    "roc_auc": Metric(roc_auc, lambda p: 0.5, "ROC AUC", needs_class_scores=True),
    "recall": Metric(_binary_or_macro(0), _chance_class, "Recall"),
    "precision": Metric(_binary_or_macro(1), _chance_precision, "Precision"),
    "f1": Metric(_binary_or_macro(2), _chance_f1, "F1"),
    "recall_macro": Metric(_macro(0), _chance_class, "Recall (macro)"),
    "precision_macro": Metric(_macro(1), np.mean, "Precision (macro)"),
    "f1_macro": Metric(_macro(2), lambda p: _f1_of_guesses(p).mean(), "F1 (macro)"),
    "kappa": Metric(_kappa, lambda p: 0.0, "Cohen's kappa", lowest=-1.0),
    "confusion_matrix": Metric(
        lambda confusion: confusion,
        lambda p: np.nan,
        "Confusion matrix",
        highest=np.inf,
        scalar=False,
    ),
}


#: The same names for type checkers and editors, which may complete them.
MetricName = (
    Literal[
        "accuracy",
        "balanced_accuracy",
        "roc_auc",
        "recall",
        "precision",
        "f1",
        "recall_macro",
        "precision_macro",
        "f1_macro",
        "kappa",
        "confusion_matrix",
    ]
    | str
)
Scoring = MetricName | Sequence[MetricName]


def check_scoring(scoring):
    """Return the list of metric names; the first one must be a single number."""
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
    return any(METRICS[name].needs_class_scores for name in scoring)


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


def evaluate(scoring, scored, shapes, n_classes):
    """Compute several metrics of the same predictions.

    Parameters
    ----------
    scoring : list of str
        Metric names.
    scored : Predictions
        From :func:`mvpa_kfda.kfda.direct.apply`.
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
        metric = METRICS[name]
        if metric.needs_class_scores:
            class_scores = scored.class_scores
            class_scores = class_scores.reshape(*class_scores.shape[:2], -1)
            value = metric.score(true, class_scores, shapes)
        else:
            value = metric.score(confusion)
        value = value.reshape(*value.shape[:-1], *positions)
        value = np.moveaxis(value, -1, 0)  # (B, c, c, ...) for the confusion matrix
        if not metric.scalar:
            value = np.moveaxis(value, (1, 2), (-2, -1))
        scores[name] = value
    return scores


#: A spread of predictions below this many units of rounding is none.
_ROUNDING = 64


def _sum_products(left, right):
    """Return the sums of products over rows, (n_test, B) twice to (B,)."""
    return np.einsum("nb,nb->b", left, right)


def _neg_mean_squared_error(true, predicted):
    error = true - predicted
    return -_sum_products(error, error) / len(true)


def _r2(true, predicted):
    error, spread = true - predicted, true - true.mean(axis=0)
    left, total = _sum_products(error, error), _sum_products(spread, spread)
    # Of equal numbers nothing is to be explained: 1 if they are hit exactly, else 0.
    flat = total == 0
    return np.where(flat, left == 0, 1 - left / np.where(flat, 1, total))


def _pearsonr(true, predicted):
    size = _sum_products(true, true) + _sum_products(predicted, predicted)
    true, predicted = true - true.mean(axis=0), predicted - predicted.mean(axis=0)
    variance, spread = _sum_products(true, true), _sum_products(predicted, predicted)
    smallest = (_ROUNDING * np.finfo(float).eps) ** 2 * size
    flat = (spread <= smallest) | (variance <= smallest)
    scale = np.sqrt(variance) * np.sqrt(spread)
    return np.where(flat, 0, _sum_products(true, predicted) / np.where(flat, 1, scale))


@dataclass(frozen=True)
class RegressionMetric:
    """How to score predicted numbers."""

    #: ``f(true (n_test, B), predicted (n_test, B)) -> (B,)``, in double precision.
    score: Callable
    #: Its value where nothing can be predicted; NaN where that depends on the data.
    chance: float
    #: How to name it on an axis.
    label: str
    #: The lowest and the highest value that is possible.
    lowest: float
    highest: float
    #: The power of the unit of y that the score has.
    power: int = 0


#: The metrics of regression known by name.
REGRESSION_METRICS = {
    "r2": RegressionMetric(_r2, np.nan, "R²", -np.inf, 1.0),
    "pearsonr": RegressionMetric(_pearsonr, 0.0, "Pearson correlation", -1.0, 1.0),
    "neg_mean_squared_error": RegressionMetric(
        _neg_mean_squared_error,
        np.nan,
        "Negative mean squared error",
        *(-np.inf, 0.0),
        power=2,
    ),
}


#: The same names for type checkers and editors.
RegressionMetricName = Literal["r2", "pearsonr", "neg_mean_squared_error"] | str
RegressionScoring = RegressionMetricName | Sequence[RegressionMetricName]


def find_metric(name):
    """Return the entry of a metric of classes or numbers; None where it is unknown."""
    return METRICS.get(name) or REGRESSION_METRICS.get(name)


def metric_limits(name):
    """Return the lowest and the highest possible value; none for an unknown metric."""
    metric = find_metric(name)
    return (metric.lowest, metric.highest) if metric else (-np.inf, np.inf)


def check_regression_scoring(scoring):
    """Return the list of names of regression metrics."""
    return check_scoring_names(scoring, REGRESSION_METRICS)


def evaluate_regression(scoring, true, predicted):
    r"""Compute several metrics of the same predictions.

    With the true values :math:`y_i` of the n rows of all test sets, the predictions
    :math:`\hat y_i` and means :math:`\bar y, m`:

    .. math::

        R^2 = 1 - \frac{\sum_i (y_i - \hat y_i)^2}{\sum_i (y_i - \bar y)^2}, \qquad
        r = \frac{\sum_i (y_i - \bar y)(\hat y_i - m)}
                 {\sqrt{\sum_i (y_i - \bar y)^2 \sum_i (\hat y_i - m)^2}}

    and the mean squared error :math:`\sum_i (y_i - \hat y_i)^2 / n`, taken negative.

    Parameters
    ----------
    scoring : list of str
        Metric names: "r2", "pearsonr", "neg_mean_squared_error".
    true, predicted : ndarray, shape (n_test, B)
        One column per permutation. Of about unit size: predictions that vary less
        than rounding would have them vary do not correlate with anything.

    Returns
    -------
    scores : dict of str to ndarray, shape (B,)
        Each metric, finite throughout. A constant prediction has a correlation of 0.
        True values that are all equal have the correlation 0 and, as in scikit-learn,
        :math:`R^2 = 1` if they are predicted exactly, else 0.

    Examples
    --------
    >>> import numpy as np
    >>> true = np.array([[1.0], [2.0], [3.0]])
    >>> evaluate_regression(["r2", "pearsonr"], true, true / 2)
    {'r2': array([-0.75]), 'pearsonr': array([1.])}
    """
    true, predicted = np.asarray(true, float), np.asarray(predicted, float)
    return {name: REGRESSION_METRICS[name].score(true, predicted) for name in scoring}


@dataclass(frozen=True, eq=False, repr=False)
class Roc:
    """A receiver operating characteristic, see :meth:`DecodingResult.roc`.

    A trial counts as positive if its score is at or above the threshold.

    Parameters
    ----------
    fpr : ndarray of shape (n_thresholds,)
        False positive rate: the share of other trials at or above each threshold.
    tpr : ndarray of shape (n_thresholds,)
        True positive rate: the share of the positive class's trials.
    thresholds : ndarray of shape (n_thresholds,)
        Decreasing thresholds, infinite first, as in scikit-learn. With two classes on
        the difference of their scores, else on the posterior probability.
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
    <Roc: 1, AUC 0.998>
    """

    fpr: np.ndarray
    tpr: np.ndarray
    thresholds: np.ndarray
    auc: float
    positive: Any

    def __repr__(self):
        """Name the positive class and the area."""
        return f"<Roc: {self.positive}, AUC {self.auc:.3f}>"


def make_roc(result, positive=None):
    """Return the ROC curve of one class against the rest.

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
        If `positive` is no class, or left out with more than two classes, or if the
        tested trials are all of the positive class or all of others.
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
    scores = _scores_of(result, number)[tested]
    ranks, lowest = _rank(scores)
    fpr, tpr, thresholds = roc_curve(is_positive, ranks)
    thresholds[1:] = lowest[thresholds[1:].astype(int)]
    if len(classes) > 2:
        thresholds[1:] = expit(thresholds[1:])
    return Roc(fpr, tpr, thresholds, float(auc(fpr, tpr)), classes[number])


def _scores_of(result, number):
    """Return every trial's score for one class: a difference, or its log odds.

    Log odds order trials as posterior probabilities do, and do not saturate.
    """
    scores = result.class_scores
    if scores.shape[1] == 2:
        return scores[:, number] - scores[:, 1 - number]
    n = len(scores)
    times, total = np.zeros((2, n))
    for test in result.tests:
        times[test] += 1
        total[test] += n - len(test)
    n_train = total / np.maximum(times, 1)
    odds = _log_odds(scores[:, :, None], [(1, 1, size) for size in n_train])
    return odds[number, :, 0]


def _rank(scores):
    """Return ranks of scores, alike where they are up to rounding, and their lowest.

    Ranks are finite where the score of an absent class is not.
    """
    merged = _merge_near_ties(scores[None, :, None])[0, :, 0]
    values, ranks = np.unique(merged, return_inverse=True)
    lowest = np.full(len(values), np.inf)
    np.minimum.at(lowest, ranks, scores)
    return ranks, lowest
