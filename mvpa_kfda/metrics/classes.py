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
from typing import NamedTuple

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


class Counts(NamedTuple):
    """How often each of c classes occurs, was predicted, and was so rightly."""

    #: All (c, ...), the other two maybe with axes of length one.
    hits: np.ndarray
    true: np.ndarray
    predicted: np.ndarray


@dataclass(frozen=True)
class Tested:
    """What test rows carry and what was predicted of them, for B label vectors.

    Metrics are (t, ..., B): of t labellings that the same predictions are compared
    with. What they need in common is worked out once, by the first that asks for it.
    """

    #: The codes that the test rows carry, (n_test, t, ..., B), the axes in the middle
    #: and the last one perhaps of length one.
    true: np.ndarray
    #: The predicted ones, (n_test, 1, ..., B).
    predicted: np.ndarray
    #: Scores per class (n_test, c, 1, ..., B), or None.
    class_scores: np.ndarray | None
    #: The test rows in order: k test sets of m rows each, predicted by models of
    #: n_train trials, batch after batch: (k, m, n_train) each.
    shapes: tuple
    #: The number of classes c.
    n_classes: int

    @classmethod
    def of(cls, true, predicted, class_scores, *rest):
        """Add the axis of labellings to predictions and scores, (n_test, ..., B)."""
        scores = None if class_scores is None else class_scores[:, :, None]
        return cls(true, predicted[:, None], scores, *rest)

    @property
    def shape(self):
        """The axes (..., B) that metrics have after that of the labellings."""
        return np.broadcast_shapes(self.true.shape, self.predicted.shape)[2:]

    @cached_property
    def counts(self):
        """How often classes occur, were predicted, and rightly so."""
        found = []
        for number in range(self.n_classes):
            true, predicted = self.true == number, self.predicted == number
            found.append([_count(each) for each in (true & predicted, true, predicted)])
        return Counts(*map(np.stack, zip(*found, strict=True)))

    @cached_property
    def pair_accuracies(self):
        """The accuracy of every pair of classes, (pairs, t, ..., B)."""
        return pairs.pairwise_accuracies(self)

    @cached_property
    def pair_distances(self):
        """The distance of every pair of classes, (pairs, t, ..., B)."""
        return pairs.crossnobis_distances(self)

    @cached_property
    def confusion(self):
        """The confusion matrices, (c, c, t, ..., B)."""
        shape = np.broadcast_shapes(self.true.shape, self.predicted.shape)
        true, predicted = (
            np.broadcast_to(codes, shape).reshape(len(codes), -1)
            for codes in (self.true, self.predicted)
        )
        confusion = confusion_matrix(true, predicted, self.n_classes)
        return confusion.reshape(*confusion.shape[:2], *shape[1:])


def _count(flags):
    # Twice as fast as np.count_nonzero.
    return flags.sum(axis=0, dtype=np.int32).astype(np.intp)


def _recall(counts):
    return divide(counts.hits, counts.true)


def _precision(counts):
    return divide(counts.hits, counts.predicted)


def _f1(counts):
    return divide(2 * counts.hits, counts.true + counts.predicted)


def _macro(rate):
    """A metric: a rate's mean over classes that occur or were predicted."""

    def metric(tested):
        counts = tested.counts
        seen = (counts.true + counts.predicted) > 0
        return total_in_order(rate(counts) * seen) / seen.sum(axis=0)

    return metric


def _binary_or_macro(rate):
    """A metric: the second class's rate for two classes, else the macro mean."""

    def metric(tested):
        if tested.n_classes == 2:
            return rate(tested.counts)[1]
        return _macro(rate)(tested)

    return metric


def _accuracy(tested):
    return _count(tested.true == tested.predicted) / len(tested.predicted)


def _balanced_accuracy(tested):
    present = tested.counts.true > 0
    return total_in_order(_recall(tested.counts) * present) / present.sum(axis=0)


def _kappa(tested):
    counts, total = tested.counts, len(tested.predicted)
    expected = (counts.predicted * counts.true).sum(axis=0) / total
    return divide(counts.hits.sum(axis=0) - expected, total - expected)


def _roc_auc(tested):
    """The areas (t, ..., B) of what was tested."""
    return mean_areas(tested.true, tested.class_scores[:, :, 0], tested.shapes)


def mean_of_defined(values, axis):
    """The mean of what is not NaN; NaN of nothing."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        return np.nanmean(values, axis=axis)


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

    #: ``f(tested) -> (t, ..., B)`` of what was :class:`Tested`.
    score: Callable
    #: ``f(proportions (c,)) -> float``, see `chance_level`.
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
    #: Whether classes are compared within test sets alone.
    within_sets: bool = False
    #: Whether models that favour the largest class score elsewhere than at chance.
    of_frequencies: bool = False

    @property
    def scalar(self):
        """Whether it is one number per label vector."""
        return self.table is None


#: The metrics of classification known by name.
METRICS = {
    "accuracy": Metric(_accuracy, _chance_class, "accuracy", of_frequencies=True),
    "balanced_accuracy": Metric(_balanced_accuracy, _chance_class, "balanced accuracy"),
    "roc_auc": Metric(
        _roc_auc,
        lambda p: 0.5,
        "ROC AUC",
        "the area under the receiver operating characteristic (ROC AUC) [@Forman2010]",
        needs_class_scores=True,
        needs_two_classes=True,
    ),
    "recall": Metric(
        _binary_or_macro(_recall),
        _chance_class,
        "recall",
        of_one_class=True,
        of_frequencies=True,
    ),
    "precision": Metric(
        _binary_or_macro(_precision), _chance_precision, "precision", of_one_class=True
    ),
    "f1": Metric(
        _binary_or_macro(_f1),
        _chance_f1,
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
    "kappa": Metric(_kappa, lambda p: 0.0, "Cohen's kappa", short="kappa", lowest=-1.0),
    "confusion_matrix": Metric(
        lambda tested: tested.confusion,
        lambda p: np.nan,
        "confusion matrix",
        "the confusion matrix",
        highest=np.inf,
        table=lambda c: (c, c),
        along=("true_class", "predicted_class"),
    ),
    "pairwise_accuracy": Metric(
        pairs.pairwise_accuracy,
        lambda p: 0.5,
        "pairwise accuracy",
        words=(
            "pairwise accuracy, the mean over pairs of classes of the share of trials "
            "whose class scored above the other one [@Guggenmos2018]"
        ),
        needs_class_scores=True,
        needs_two_classes=True,
    ),
    "pairwise_accuracies": Metric(
        lambda tested: tested.pair_accuracies,
        lambda p: 0.5,
        "accuracies of pairs",
        words="the accuracy of every pair of classes",
        table=lambda c: (pairs.n_pairs(c),),
        along=("pair",),
        join=mean_of_defined,
        summary="pairwise_accuracy",
        needs_class_scores=True,
    ),
    "crossnobis": Metric(
        pairs.crossnobis,
        lambda p: 0.0,
        "crossnobis distance",
        lowest=-np.inf,
        highest=np.inf,
        words=(
            "the cross-validated squared Mahalanobis distance (crossnobis) in units of "
            "the variance within classes, the mean over pairs of classes [@Walther2016]"
        ),
        needs_class_scores=True,
        needs_two_classes=True,
        within_sets=True,
    ),
    "crossnobis_distances": Metric(
        lambda tested: tested.pair_distances,
        lambda p: 0.0,
        "crossnobis distances",
        lowest=-np.inf,
        highest=np.inf,
        words="the crossnobis distance of every pair of classes",
        table=lambda c: (pairs.n_pairs(c),),
        along=("pair",),
        join=mean_of_defined,
        summary="crossnobis",
        needs_class_scores=True,
        within_sets=True,
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
    counts = np.bincount(codes, minlength=n_classes or 0)
    if name not in METRICS:  # a function of the user's
        return np.nan
    return float(METRICS[name].chance(counts / len(codes)))


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
    tested = Tested.of(true, scored.predicted, scored.class_scores, shapes, n_classes)
    found = [{} for _ in trues]
    for name, metric in metrics.items():
        value = np.moveaxis(metric.score(tested), -1, 0)
        if not metric.scalar:  # (B, *table, t, ...)
            axes = range(1, 1 + len(metric.table(n_classes)))
            value = np.moveaxis(value, axes, [axis - 1 - len(axes) for axis in axes])
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
            if values is None  # the test sets in place of the label vectors
            else np.moveaxis(values[rows].reshape(k, m, *values.shape[1:-1]), 0, -1)
            for values in (scored.true, scored.predicted, scored.class_scores)
        )
        shape = ((1, m, n_train),)
        tested = Tested.of(true[:, None], predicted, scores, shape, n_classes)
        one_class = (true == true[:1]).all(axis=0)
        for name, values in found.items():
            metric = metrics[name]
            value = getattr(metric, "set_score", metric.score)(tested)[0]
            if metric.needs_two_classes:
                value = np.where(one_class, np.nan, value)
            values.append(value)
    return {name: np.concatenate(values, axis=-1) for name, values in found.items()}
