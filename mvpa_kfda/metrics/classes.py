"""Scores of predicted classes, computed for all label permutations at once.

A metric is an entry of :data:`METRICS`: all that the package knows of it stands there.
All are the higher the better. Metrics of predicted labels (accuracy, recall, ...) are
computed from counts pooled over all test sets, and the area under the ROC curve is the
mean over test sets. Values agree with scikit-learn's functions on the same predictions.

Under exchanged labels all of them test whether classes have equal distributions, not
equal means. Metrics of predicted labels are sensitive to unequal variance; the area
under the ROC curve, which compares ranks, hardly is where classes are equally frequent.
"""

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from . import pairs
from .auc import divide, mean_areas, set_batches, total_in_order


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

    #: The accuracy, and the distance, of every pair of classes, (pairs, t, ..., B).
    pair_accuracies = cached_property(pairs.pairwise_accuracies)
    pair_distances = cached_property(pairs.crossnobis_distances)


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

    @property
    def scalar(self):
        """Whether it is one number per label vector."""
        return self.table is None


#: Metrics of scores of classes, tables of pairs, and distances, which have no limits.
_OF_SCORES = {"needs_class_scores": True, "needs_two_classes": True}
_TABLE = {
    "table": lambda c: (pairs.n_pairs(c),),
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
        "average precision",
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
        pairs.pairwise_accuracy,
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
        pairs.crossnobis,
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
    metrics = {name: METRICS[name] for name in scoring}
    return evaluate_labellings(metrics, scored, [scored.true], shapes, n_classes)[0]


def evaluate_labellings(metrics, scored, trues, shapes, n_classes):
    """Do as :func:`evaluate` for labels (n_test, ..., B) in place of those carried.

    There may be several such labellings, of which a list is returned. The metrics are
    given by name.
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
