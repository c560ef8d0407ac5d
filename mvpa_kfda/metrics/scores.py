r"""All metrics: of predicted classes and numbers, of users' functions, of chosen pairs.

A metric is an entry of :data:`METRICS`, or for numbers of :data:`REGRESSION_METRICS`:
all that the package knows of it stands there. All are the higher the better, and
computed for all label permutations at once. Metrics of predicted labels (accuracy,
recall, ...) are computed from counts pooled over all test sets, those of probabilities
(log loss, Brier score) are means over all tested trials, and areas under curves means
over test sets. Values agree with scikit-learn's functions on the same predictions.

d' is :math:`\Phi^{-1}(H) - \Phi^{-1}(F)`, with the rates of hits
:math:`H = (h + \frac12) / (n + 1)` and false alarms
:math:`F = (f + \frac12) / (m + 1)` of a class with n trials among n + m, h hits and f
false alarms (the log-linear correction [1]_); of more than two classes it is the mean
over classes, each against the rest.

Under exchanged labels all of them test whether classes have equal distributions, not
equal means. Metrics of predicted labels are sensitive to unequal variance; the area
under the ROC curve, which compares ranks, hardly is where classes are equally frequent.

With the true values :math:`y_i` of the n rows of all test sets, the predictions
:math:`\hat y_i` and means :math:`\bar y, m`, those of numbers are

.. math::

    R^2 = 1 - \frac{\sum_i (y_i - \hat y_i)^2}{\sum_i (y_i - \bar y)^2}, \qquad
    r = \frac{\sum_i (y_i - \bar y)(\hat y_i - m)}
             {\sqrt{\sum_i (y_i - \bar y)^2 \sum_i (\hat y_i - m)^2}}

and the mean squared error :math:`\sum_i (y_i - \hat y_i)^2 / n`, taken negative. Values
on a circle are compared as angles, by :math:`\sum_i \cos(y_i - \hat y_i) / n` and by
the mean of the smaller of the two arcs between them, taken negative.

References
----------
.. [1] Hautus (1995). Corrections for extreme proportions and their biasing effects on
   estimated values of d'. Behavior Research Methods, Instruments, & Computers 27(1),
   46-51.
"""

import inspect
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import combinations
from numbers import Real
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from ..utils.checks import check_scoring_names, quoted
from .auc import average_precision, divide, mean_areas, set_batches, total_in_order
from .pairs import (
    TABLES,
    crossnobis,
    crossnobis_distances,
    n_pairs,
    pairwise_accuracies,
    pairwise_accuracy,
)

#: The names of the metrics, in their order, for type checkers and editors.
ClassMetric = Literal[
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
    "matthews_corrcoef",
    "d_prime",
    "average_precision",
    "neg_log_loss",
    "neg_brier_score",
    "confusion_matrix",
    "pairwise_accuracy",
    "pairwise_accuracies",
    "crossnobis",
    "crossnobis_distances",
]
NumberMetric = Literal[
    "r2",
    "pearsonr",
    "neg_mean_squared_error",
    "mean_cosine",
    "neg_mean_absolute_error",
]
#: Pairs of classes by their labels, by the name of the mean over them.
NamedPairs = Mapping[str, Sequence[tuple[Any, Any]]]
#: What type checkers and editors know; any other string goes through here.
MetricName = ClassMetric | str
RegressionMetricName = NumberMetric | str
#: A function of the true labels, the predicted ones, and the class scores.
ScoringFunction = Callable[[NDArray, NDArray, Any], float]
Scoring = (
    MetricName
    | ScoringFunction
    | NamedPairs
    | Sequence[MetricName | ScoringFunction | NamedPairs]
)
RegressionScoring = (
    RegressionMetricName
    | ScoringFunction
    | Sequence[RegressionMetricName | ScoringFunction]
)


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


class Tested:
    """What test rows carry and what was predicted of them, for B label vectors.

    Metrics are (t, ..., B): of t labellings that the same predictions are compared
    with. What they need in common is worked out once, by the first that asks for it.

    Parameters
    ----------
    true : ndarray of int, shape (n_test, t, ..., B)
        The codes that the test rows carry, the axes in the middle and the last one
        perhaps of length one.
    predicted : ndarray of int, shape (n_test, ..., B)
        The predicted ones; kept with an axis of labellings, (n_test, 1, ..., B).
    class_scores : ndarray, shape (n_test, c, ..., B), or None
        Scores per class; kept as (n_test, c, 1, ..., B).
    shapes : sequence of (k, m, n_train)
        The test rows in order: k test sets of m rows each, predicted by models of
        n_train trials, batch after batch.
    n_classes : int
        The number of classes c.
    """

    def __init__(self, true, predicted, class_scores, shapes, n_classes):
        self.true, self.predicted = true, predicted[:, None]
        self.class_scores = None if class_scores is None else class_scores[:, :, None]
        self.shapes, self.n_classes = shapes, n_classes
        #: (n_test, t, ..., B).
        self.shape = np.broadcast_shapes(true.shape, self.predicted.shape)

    @cached_property
    def counts(self):
        """How often each class was predicted rightly, occurs, and was predicted.

        All (c, t, ..., B), the last two maybe with axes of length one.
        """
        found = []
        for number in range(self.n_classes):
            true, predicted = self.true == number, self.predicted == number
            found.append([_count(each) for each in (true & predicted, true, predicted)])
        return [np.stack(each) for each in zip(*found, strict=True)]

    @cached_property
    def log_probabilities(self):
        """Of the classes under equal priors, (c, n_test, 1, ..., B)."""
        n_train = np.concatenate([np.full(k * m, n) for k, m, n in self.shapes])
        log = np.moveaxis(self.class_scores, 1, 0).astype(float)
        log *= n_train.reshape(-1, *(1,) * (log.ndim - 2))
        log -= log.max(axis=0)
        return log - np.log(total_in_order(np.exp(log)))

    #: The accuracy, and the distance, of every pair of classes, (pairs, t, ..., B).
    pair_accuracies = cached_property(pairwise_accuracies)
    pair_distances = cached_property(crossnobis_distances)


def _count(flags):
    # Twice as fast as np.count_nonzero.
    return flags.sum(axis=0, dtype=np.int32).astype(np.intp)


def _recall(hits, true, predicted):
    return divide(hits, true)


def _precision(hits, true, predicted):
    return divide(hits, predicted)


def _f1(hits, true, predicted):
    return divide(2 * hits, true + predicted)


def _macro(rate, of_second=False):
    """A metric: a rate's mean over classes that occur or were predicted.

    Or `of_second`: of two classes the rate of the second one.
    """

    def metric(tested):
        hits, true, predicted = tested.counts
        rates, seen = rate(hits, true, predicted), (true + predicted) > 0
        if of_second and tested.n_classes == 2:
            return rates[1]
        return total_in_order(rates * seen) / seen.sum(axis=0)

    return metric


def _accuracy(tested):
    return _count(tested.true == tested.predicted) / len(tested.predicted)


def _balanced_accuracy(tested):
    present = tested.counts[1] > 0
    return total_in_order(_recall(*tested.counts) * present) / present.sum(axis=0)


def _kappa(tested):
    (hits, true, predicted), total = tested.counts, len(tested.predicted)
    expected = (predicted * true).sum(axis=0) / total
    return divide(hits.sum(axis=0) - expected, total - expected)


def _matthews(tested):
    (hits, true, predicted), total = tested.counts, len(tested.predicted)
    by_chance, of_true, of_predicted = (
        (one * other).sum(axis=0)
        for one, other in ((true, predicted), (true, true), (predicted, predicted))
    )
    scale = np.sqrt((total**2 - of_true) * (total**2 - of_predicted).astype(float))
    return divide(total * hits.sum(axis=0) - by_chance, scale)


def _d_prime(tested):
    """The mean over classes that occur beside others, each against the rest."""
    (hits, true, predicted), total = tested.counts, len(tested.predicted)
    # Rates are never 0 or 1.
    hit_rates = (hits + 0.5) / (true + 1)
    false_alarms = (predicted - hits + 0.5) / (total - true + 1)
    present = (true > 0) & (true < total)
    values = (ndtri(hit_rates) - ndtri(false_alarms)) * present
    return divide(total_in_order(values), present.sum(axis=0))


def _neg_log_loss(tested):
    log, eps = tested.log_probabilities, np.finfo(float).eps
    log = np.clip(log, np.log(eps), np.log1p(-eps))
    of_true = sum((tested.true == k) * log[k] for k in range(tested.n_classes))
    return total_in_order(of_true) / len(of_true)


def _neg_brier_score(tested):
    p = np.exp(tested.log_probabilities)
    # With two classes both are wrong by as much: counted is one.
    counted = [1] if tested.n_classes == 2 else range(tested.n_classes)
    error = sum((p[k] - (tested.true == k)) ** 2 for k in counted)
    return -total_in_order(error) / len(error)


def _confusion(tested):
    true, predicted = (
        np.broadcast_to(codes, tested.shape).reshape(len(codes), -1)
        for codes in (tested.true, tested.predicted)
    )
    confusion = confusion_matrix(true, predicted, tested.n_classes)
    return confusion.reshape(*confusion.shape[:2], *tested.shape[1:])


def mean_of_defined(values, axis):
    """The mean of what is not NaN; NaN of nothing."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        return np.nanmean(values, axis=axis)


def _chance_class(p):
    return 1 / len(p)


def _f1_of_guesses(p):
    return 2 * p / len(p) / (p + 1 / len(p))


def _second_or_mean(values):
    return values[1] if len(values) == 2 else values.mean()


def always(level):
    """A chance level that is the same whatever is guessed; NaN if it is not known."""
    return lambda p: level


@dataclass(frozen=True)
class Metric:
    """How to score predicted classes, or numbers."""

    #: ``f(tested) -> (t, ..., B)`` of what was :class:`Tested`; of numbers
    #: ``f(true (n_test, B), predicted (n_test, B)) -> (B,)``, in double precision.
    score: Callable
    #: ``f(proportions (c,)) -> float``, see `chance_level`; NaN where it depends on the
    #: data, or nobody knows.
    chance: Callable
    #: How to name it within a sentence; axes begin it with a capital letter.
    label: str
    #: How a text on methods calls it, with what it cites; None: as figures do.
    words: str | None = None
    #: The same in short.
    short: str | None = None
    #: The lowest and the highest value that is possible.
    lowest: float = 0.0
    highest: float = 1.0
    #: Whether with two classes it is about the second of them.
    of_one_class: bool = False
    #: The shape of its table for c classes; None: it is one number per label vector.
    table: Callable | None = None
    #: What is along the axes of this table.
    along: tuple = ()
    #: What the tables of repeats are joined by.
    join: Callable = np.sum
    #: The metric that is one number for such a table, its mean.
    summary: str | None = None
    needs_class_scores: bool = False
    #: Whether it is the mean over test sets, in each of which trials are ranked.
    of_ranks: bool = False
    #: Whether it is undefined for a test set of a single class.
    needs_two_classes: bool = False
    #: Whether it is undefined where the numbers to be predicted are all equal.
    needs_spread: bool = False
    #: Whether classes are compared within test sets alone.
    within_sets: bool = False
    #: Whether models that favour the largest class score elsewhere than at chance.
    of_frequencies: bool = False
    #: The power of the unit of numbers that the score has.
    power: int = 0
    #: What takes the place of NaN in ``score``, where it is undefined as a whole.
    fill: Callable = lambda values: values
    #: Of a function of the user's, its mean over test sets, by one label vector's rows
    #: ``f(true (n_test,), predicted, class_scores, shapes) -> float``.
    mean: Callable | None = None
    #: Of chosen pairs of classes, the metric that is their table, their numbers in the
    #: order of `scipy.spatial.distance.squareform`, and their labels (label, label).
    table_name: str | None = None
    numbers: Sequence = ()
    pairs: Sequence = ()

    @property
    def scalar(self):
        """Whether it is one number per label vector."""
        return self.table is None


#: Metrics of ranks, of scores of classes, tables of pairs, and distances, which have no
#: limits.
_OF_SCORES = {"needs_class_scores": True, "needs_two_classes": True}
_TABLE = {
    "table": lambda c: (n_pairs(c),),
    "along": ("pair",),
    "join": mean_of_defined,
    "needs_class_scores": True,
}
_DISTANCE = {"lowest": -np.inf, "highest": np.inf, "within_sets": True}

#: The metrics of classification known by name.
METRICS = {
    "accuracy": Metric(_accuracy, _chance_class, "accuracy", of_frequencies=True),
    "balanced_accuracy": Metric(_balanced_accuracy, _chance_class, "balanced accuracy"),
    "roc_auc": Metric(
        lambda tested: mean_areas(
            tested.true, tested.class_scores[:, :, 0], tested.shapes
        ),
        always(0.5),
        "ROC AUC",
        "the area under the receiver operating characteristic (ROC AUC) [@Forman2010]",
        of_ranks=True,
        **_OF_SCORES,
    ),
    "recall": Metric(
        _macro(_recall, of_second=True),
        _chance_class,
        "recall",
        of_one_class=True,
        of_frequencies=True,
    ),
    "precision": Metric(
        _macro(_precision, of_second=True),
        _second_or_mean,
        "precision",
        of_one_class=True,
    ),
    "f1": Metric(
        _macro(_f1, of_second=True),
        lambda p: _second_or_mean(_f1_of_guesses(p)),
        "F1",
        "the F1 score",
        "F1 score",
        of_one_class=True,
        of_frequencies=True,
    ),
    "recall_macro": Metric(
        _macro(_recall),
        _chance_class,
        "recall (macro)",
        "recall averaged over classes",
        "average recall",
    ),
    "precision_macro": Metric(
        _macro(_precision),
        np.mean,
        "precision (macro)",
        "precision averaged over classes",
        "mean precision",
    ),
    "f1_macro": Metric(
        _macro(_f1),
        lambda p: _f1_of_guesses(p).mean(),
        "F1 (macro)",
        "the F1 score averaged over classes",
        "average F1 score",
        of_frequencies=True,
    ),
    "kappa": Metric(_kappa, always(0.0), "Cohen's kappa", short="kappa", lowest=-1.0),
    "matthews_corrcoef": Metric(
        _matthews,
        always(0.0),
        "Matthews correlation",
        "the Matthews correlation coefficient",
        lowest=-1.0,
    ),
    "d_prime": Metric(
        _d_prime,
        always(0.0),
        "sensitivity d'",
        "the sensitivity index d' [@Hautus1995]",
        lowest=-np.inf,
        highest=np.inf,
        of_frequencies=True,
    ),
    "average_precision": Metric(
        lambda tested: mean_areas(
            tested.true, tested.class_scores[:, :, 0], tested.shapes, average_precision
        ),
        _second_or_mean,
        "average precision",
        "the average precision, which is the area under the precision-recall curve",
        of_one_class=True,
        of_ranks=True,
        **_OF_SCORES,
    ),
    "neg_log_loss": Metric(
        _neg_log_loss,
        lambda p: -np.log(len(p)),
        "negative log loss",
        "the log loss of class probabilities under equal priors, taken negative",
        lowest=-np.inf,
        highest=0.0,
        needs_class_scores=True,
    ),
    "neg_brier_score": Metric(
        _neg_brier_score,
        lambda p: -0.25 if len(p) == 2 else 1 / len(p) - 1,
        "negative Brier score",
        "the Brier score of class probabilities under equal priors, taken negative",
        lowest=-2.0,
        highest=0.0,
        needs_class_scores=True,
    ),
    "confusion_matrix": Metric(
        _confusion,
        always(np.nan),
        "confusion matrix",
        "the confusion matrix",
        highest=np.inf,
        table=lambda c: (c, c),
        along=("true_class", "predicted_class"),
    ),
    "pairwise_accuracy": Metric(
        pairwise_accuracy,
        always(0.5),
        "pairwise accuracy",
        "pairwise accuracy, the mean over pairs of classes of the share of trials "
        "whose class scored above the other one [@Guggenmos2018]",
        **_OF_SCORES,
    ),
    "pairwise_accuracies": Metric(
        lambda tested: tested.pair_accuracies,
        always(0.5),
        "accuracies of pairs",
        "the accuracy of every pair of classes",
        summary="pairwise_accuracy",
        **_TABLE,
    ),
    "crossnobis": Metric(
        crossnobis,
        always(0.0),
        "crossnobis distance",
        "the cross-validated squared Mahalanobis distance (crossnobis) in units of "
        "the variance within classes, the mean over pairs of classes [@Walther2016]",
        **_OF_SCORES,
        **_DISTANCE,
    ),
    "crossnobis_distances": Metric(
        lambda tested: tested.pair_distances,
        always(0.0),
        "crossnobis distances",
        "the crossnobis distance of every pair of classes",
        summary="crossnobis",
        **_TABLE,
        **_DISTANCE,
    ),
}


def chance_level(name, codes, n_classes=None):
    """The expected score of guessing every class equally often.

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
        E.g. 1 / n_classes for accuracy, 0.5 for the ROC AUC; NaN for a function.
    """
    proportions = np.bincount(codes, minlength=n_classes or 0) / len(codes)
    known = METRICS.get(name)  # None for a function of the user's
    return float(known.chance(proportions)) if known else np.nan


def depends_on_frequencies(name, n_classes):
    """Whether a metric leaves its chance level where classes are unequal.

    Of more than two classes, recall and F1 are means that weigh all of them alike.
    """
    metric = METRICS.get(name)
    known = metric is not None and metric.of_frequencies
    return known and not (metric.of_one_class and n_classes > 2)


def crowding(codes, n_classes):
    """How many times as frequent the largest class is as equal ones would be."""
    return float(np.bincount(codes).max() * n_classes / len(codes))


def evaluate_labellings(metrics, scored, trues, shapes, n_classes):
    """Compute several metrics of the same predictions, for labels given apart.

    Parameters
    ----------
    metrics : dict of str -> Metric
        The metrics by name.
    scored : Predictions
        From :func:`mvpa_kfda.kfda.direct.apply`.
    trues : list of ndarray of int, shape (n_test, ..., B)
        Labellings that the predictions are compared with.
    shapes : sequence of (k, m, n_train)
        The plan's ``shapes``.
    n_classes : int
        The number of classes c.

    Returns
    -------
    scores : list of dict of str to ndarray
        For each labelling, (B,) for each metric, (B, c, c) for the confusion matrix.
        With predictions at several positions, (n_test, ..., B), these follow: (B, ...)
        and (B, ..., c, c).
    """
    true = np.stack(np.broadcast_arrays(*trues), axis=1)
    tested = Tested(true, scored.predicted, scored.class_scores, shapes, n_classes)
    found = [{} for _ in trues]
    for name, metric in metrics.items():
        value = np.moveaxis(metric.fill(metric.score(tested)), -1, 0)
        n_axes = 0 if metric.scalar else len(metric.table(n_classes))
        value = np.moveaxis(value, range(1, 1 + n_axes), range(-n_axes, 0))
        for number, each in enumerate(found):
            each[name] = value[:, number]
    return found


def evaluate_sets(metrics, scored, shapes, n_classes):
    """Every test set's own scores (..., n_sets), by name, in order of shapes.

    For a single label vector, and metrics that are one number. NaN where a metric is
    undefined for a test set.
    """
    found = {name: [] for name, metric in metrics.items() if metric.scalar}
    for rows, (k, m, n_train) in set_batches(shapes):
        true, predicted, scores = (
            None
            if x is None  # the test sets in place of the label vectors
            else np.moveaxis(x[rows].reshape(k, m, *x.shape[1:-1]), 0, -1)
            for x in (scored.true, scored.predicted, scored.class_scores)
        )
        tested = Tested(true[:, None], predicted, scores, ((1, m, n_train),), n_classes)
        one_class = (true == true[:1]).all(axis=0)
        for name, values in found.items():
            metric = metrics[name]
            undefined = one_class & metric.needs_two_classes
            values.append(np.where(undefined, np.nan, metric.score(tested)[0]))
    return {name: np.concatenate(values, axis=-1) for name, values in found.items()}


# ----------------------------------------------------------------- of predicted numbers

#: A spread of predictions below this many units of rounding is none.
_ROUNDING = 64


def _sum_products(left, right):
    """The sums of products over rows, (n_test, B) twice to (B,)."""
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


#: The metrics of regression known by name.
REGRESSION_METRICS = {
    "r2": Metric(
        _r2,
        always(np.nan),
        "R²",
        "the coefficient of determination (R²)",
        lowest=-np.inf,
        needs_spread=True,
    ),
    "pearsonr": Metric(
        _pearsonr,
        always(0.0),
        "Pearson correlation",
        "the Pearson correlation",
        lowest=-1.0,
        needs_spread=True,
    ),
    "neg_mean_squared_error": Metric(
        _neg_mean_squared_error,
        always(np.nan),
        "negative mean squared error",
        "the negative mean squared error",
        lowest=-np.inf,
        highest=0.0,
        power=2,
    ),
}


# ----------------------------------------------------------------- of predicted angles


def _mean_cosine(true, predicted):
    return total_in_order(np.cos(true - predicted)) / len(true)


def _neg_mean_angle(true, predicted):
    turn = 2 * np.pi
    apart = np.abs((true - predicted + np.pi) % turn - np.pi)
    return -total_in_order(apart) / len(true)


#: The metrics of values on a circle, which are compared as angles in radians.
CIRCULAR_METRICS = {
    "mean_cosine": Metric(
        _mean_cosine,
        always(0.0),
        "cosine of the error",
        "the mean cosine of the error",
        lowest=-1.0,
    ),
    "neg_mean_absolute_error": Metric(
        _neg_mean_angle,
        always(-np.pi / 2),
        "negative mean absolute error",
        "the negative mean absolute error",
        lowest=-np.inf,
        highest=0.0,
        power=1,
    ),
}
#: All metrics of values.
NUMBER_METRICS = REGRESSION_METRICS | CIRCULAR_METRICS


# ------------------------------------------------------------------ what users ask for


def function_metric(function, name, classes=None):
    """A function of the user's as a metric: its mean over test sets.

    Of classes, the labels that codes stand for, it may be NaN for test sets that hold a
    single one, which are left out; None for numbers.
    """

    def value_of(true, predicted, class_scores):
        """The value of one test set, checked."""

        def error(what):
            return ValueError(
                f"scoring's function {name!r}, called with y_true="
                f"{quoted(true.tolist(), 4)} and y_pred="
                f"{quoted(predicted.tolist(), 4)}, {what}"
            )

        try:
            value = function(true, predicted, class_scores)
        except Exception as failure:
            hint = ""
            if "read-only" in str(failure):
                hint = ". Change a copy, np.array(values), of what it is given"
            raise error(f"failed: {failure}{hint}") from failure
        if isinstance(value, np.ndarray) and not value.ndim:
            value = value[()]
        if isinstance(value, Real | np.bool_) and not np.ma.is_masked(value):
            alike = classes is not None and (true == true[:1]).all()
            if np.isfinite(float(value)) or (alike and np.isnan(float(value))):
                return float(value)
        raise error(
            f"returned {value!r}. Allowed: one finite number for any labels of a test "
            "set, also permuted ones; NaN for one that holds a single class."
        )

    def mean(true, predicted, class_scores, shapes):
        # What is scored is nobody else's to write to.
        given = [true, predicted, class_scores]
        given = [None if x is None else np.broadcast_to(x, x.shape) for x in given]
        values = [
            value_of(*(None if each is None else each[i : i + m] for each in given))
            for rows, (_, m, _) in set_batches(shapes)
            for i in range(rows.start, rows.stop, m)
        ]
        defined = [value for value in values if not np.isnan(value)]
        return float(np.mean(defined)) if defined else np.nan

    def score(tested):
        true, predicted = (
            classes[np.broadcast_to(codes, tested.shape)]
            for codes in (tested.true, tested.predicted)
        )
        values = np.empty(tested.shape[1:])
        for at in np.ndindex(values.shape):
            rows = (slice(None), *at)
            scores = tested.class_scores[(slice(None), slice(None), 0, *at[1:])]
            values[at] = mean(true[rows], predicted[rows], scores, tested.shapes)
        return values

    def refuse_nan(values):
        if np.isnan(values).any():
            raise ValueError(
                f"scoring's function {name!r} returned NaN for every test set: all "
                "hold a single class. Use larger test sets, or return a number."
            )
        return values

    asked = {"needs_class_scores": True, "fill": refuse_nan, "mean": mean}
    return Metric(score, always(np.nan), name, **asked)


def pairs_metric(table_name, name, pairs, classes):
    """The mean over pairs (label, label) of classes of one of the tables."""
    (numbers,) = number_pairs({name: pairs}, classes).values()
    known = list(combinations(np.asarray(classes).tolist(), 2))
    table = METRICS[table_name]
    return Metric(
        # Of the pairs that are tested; chance where none is.
        lambda tested: mean_of_defined(table.score(tested)[numbers], axis=0),
        table.chance,
        name,
        **_OF_SCORES,
        within_sets=table.within_sets,
        fill=lambda values: np.where(np.isnan(values), table.chance(None), values),
        table_name=table_name,
        numbers=numbers,
        pairs=[known[number] for number in numbers],
    )


def read_scoring(scoring, of_numbers=None):
    """The names in `scoring`, and by name what makes metrics of functions and pairs.

    Of classes, or `of_numbers`, metrics by name. Makers take the classes, or None for
    numbers. The first metric of classes must be a single number; before a table of
    pairs comes its mean over these.
    """
    makers, names = {}, []
    several = isinstance(scoring, list | tuple)
    given = scoring if several else [scoring]
    known = {each for each in given if isinstance(each, str)}
    for each in given:
        if isinstance(each, Mapping):
            if not each or not all(isinstance(name, str) and name for name in each):
                raise ValueError(_pairs_message(each))
            # Of the distances, unless scoring has accuracies of pairs alone.
            of = TABLES.values()
            having = [table for table in of if {table, METRICS[table].summary} & known]
            make = partial(pairs_metric, [*having, TABLES["crossnobis"]][0])
            new = {name: partial(make, name, pairs) for name, pairs in each.items()}
        elif callable(each):
            name = _name_of(each)
            new = {name: partial(function_metric, each, name)}
        else:
            names.append(each)
            continue
        for name in new:
            if name in makers or find_metric(name):
                raise ValueError(
                    f"scoring has a function or pairs named {name!r}, which is the "
                    "name of another metric too. Use a different name."
                )
        makers.update(new)
        names += new
    names = names if several or len(names) > 1 else names[0]
    if of_numbers:
        for name, maker in makers.items():
            if maker.func is not function_metric:
                raise ValueError(
                    f"scoring has pairs of classes named {name!r}, and regression has "
                    f"no classes. Allowed: {quoted(of_numbers)}, or a function."
                )
        return check_scoring_names(names, (*of_numbers, *makers)), makers
    names = check_scoring_names(names, (*METRICS, *makers))
    first = METRICS.get(names[0])
    if first and first.summary:
        names = [first.summary, *(name for name in names if name != first.summary)]
    elif first and not first.scalar:
        raise ValueError(
            f"The first metric of scoring is the one that is tested and drawn; "
            f"{names[0]!r} is a table. Put a single-number metric first, e.g. "
            f"scoring=['accuracy', {names[0]!r}]."
        )
    return names, makers


def _name_of(function):
    """The name of a scoring function, which must take three arguments."""
    name = getattr(function, "__name__", type(function).__name__)
    try:
        if hasattr(function, "_score_func"):
            raise TypeError("a scorer of scikit-learn is shown the estimator")
        inspect.signature(function).bind(*"123")
    except (TypeError, ValueError):
        raise TypeError(
            f"Invalid value for 'scoring': {function!r}. Allowed: a metric's name, or "
            "a function of (y_true, y_pred, class_scores), for example "
            "scoring=lambda true, pred, scores: matthews_corrcoef(true, pred)."
        ) from None
    return "custom" if name == "<lambda>" else name


def find_metric(name):
    """The entry of a metric of classes or numbers; None where it is unknown."""
    return METRICS.get(name) or NUMBER_METRICS.get(name)


def is_of_one_class(name):
    """Whether a metric is that of the second class where there are two."""
    entry = find_metric(name)
    return entry is not None and entry.of_one_class


#: Words in the names of users' functions that are abbreviations, and how these look.
_ABBREVIATIONS = {
    "r2": "R²",
    **{word: word.upper() for word in ("ap", "auc", "f1", "f2", "mae", "mcc", "mi")},
    **{word: word.upper() for word in ("mse", "npv", "ppv", "pr", "rmse", "roc")},
}


def mean_of_permuted(name):
    """Name the mean score of permuted labels, or values.

    Parameters
    ----------
    name : str
        The metric.

    Returns
    -------
    words : str
        What it is called within a sentence.

    Examples
    --------
    >>> mean_of_permuted("accuracy"), mean_of_permuted("pearsonr")
    ('mean of permuted labels', 'mean of permuted values')
    """
    values = name in NUMBER_METRICS
    return f"mean of permuted {'values' if values else 'labels'}"


def metric_in_text(name):
    """Name a metric within a sentence.

    Parameters
    ----------
    name : str
        The metric; that of a user's function is taken apart at its underscores.

    Returns
    -------
    words : str
        Its name in plain words.

    Examples
    --------
    >>> metric_in_text("balanced_accuracy"), metric_in_text("mean_mcc")
    ('balanced accuracy', 'mean MCC')
    """
    if known := find_metric(name):
        return known.label
    if name.endswith("_difference"):
        return f"{metric_in_text(name.removesuffix('_difference'))} difference"
    words = name.split("_")
    return " ".join(_ABBREVIATIONS.get(word.lower(), word) for word in words).strip()


def metric_limits(name):
    """The lowest and the highest possible value; none for an unknown metric."""
    metric = find_metric(name)
    return (metric.lowest, metric.highest) if metric else (-np.inf, np.inf)


def record_pairs(metrics):
    """The record of those metrics, by name, that are chosen pairs."""
    chosen = {k: metric for k, metric in metrics.items() if metric.pairs}
    if not chosen:
        return {}
    (table,) = {metric.table_name for metric in chosen.values()}
    return {"pairs": {k: m.pairs for k, m in chosen.items()}, "pairs_of": table}


def name_pairs(pairs):
    """Pairs by name, each of a list by its labels."""
    if isinstance(pairs, Mapping):
        return pairs
    if isinstance(pairs, str) or not isinstance(pairs, Sequence):
        raise ValueError(_pairs_message(pairs))
    named = [(" / ".join(map(str, p)) if np.ndim(p) else str(p), p) for p in pairs]
    return {name: [pair] for name, pair in named}


def number_pairs(pairs, classes):
    """The numbers of pairs of classes by name, of labels of these by name."""
    classes = np.asarray(classes).tolist()
    known = {frozenset(pair): i for i, pair in enumerate(combinations(classes, 2))}
    words = {str(label): label for label in classes}  # those of a command line

    def as_set(pair):
        if isinstance(pair, str) or np.shape(pair) != (2,):
            return frozenset()
        return frozenset(x if x in classes else words.get(x, x) for x in pair)

    chosen = {}
    for name, some in pairs.items():
        if isinstance(some, str) or not isinstance(some, Sequence | np.ndarray):
            raise ValueError(_pairs_message({name: some}))
        for pair in some:
            if as_set(pair) not in known:
                raise ValueError(
                    f"Invalid value for 'pairs': {pair!r}. Allowed: two different "
                    f"classes of {quoted(classes, 20)}."
                )
        chosen[str(name)] = [known[as_set(pair)] for pair in some]
        if len(set(chosen[str(name)])) < len(some):
            raise ValueError(f"pairs names a pair twice: {list(some)!r}.")
    if not chosen or not all(chosen.values()):
        raise ValueError("pairs names no pair. Pass at least one, (label, label).")
    return chosen


def _pairs_message(given):
    """How pairs are given."""
    return (
        f"Invalid value for 'pairs': {given!r}. Allowed: pairs of classes by the name "
        'of the mean over them, such as {"between": [("face", "house"), ("hand", '
        '"house")]}.'
    )
