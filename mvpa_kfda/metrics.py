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

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate

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


def _byte_blocks(n_rows, n_columns):
    """Yield blocks of rows: sums of 127 fit in a byte, and a few rows in the cache."""
    rows = int(np.clip(_CACHE_BYTES // max(1, n_columns), 8, 127))
    return (slice(start, start + rows) for start in range(0, n_rows, rows))


def _count(flags):
    """Count truths along the first axis of at most 127 rows, a byte each."""
    return flags.view(np.int8).sum(axis=0, dtype=np.int8)


def count_equal(true, predicted):
    """Count equal entries of many columns, (n, ...) with (n, ...) to (...).

    Bytes that stay in the cache make it many times faster than a plain sum.
    """
    shape = np.broadcast_shapes(true.shape, predicted.shape)
    counts = np.zeros(shape[1:], np.intp)
    for block in _byte_blocks(len(predicted), counts.size):
        counts += _count(true[block] == predicted[block])
    return counts


@dataclass(frozen=True)
class Counts:
    """How often each of c classes occurs, was predicted, and was so rightly."""

    #: All (c, ...), the other two maybe with axes of length one.
    hits: np.ndarray
    true: np.ndarray
    predicted: np.ndarray


def count_classes(true, predicted, n_classes):
    """Return the :class:`Counts` of codes (n_test, ...), which may broadcast.

    Of the last class from the totals, so that two classes take hardly more than their
    hits do.
    """
    n_test, *shape = np.broadcast_shapes(true.shape, predicted.shape)
    hits, occurs, named = (
        np.zeros((n_classes, *each), np.intp)
        for each in (shape, true.shape[1:], predicted.shape[1:])
    )
    for block in _byte_blocks(n_test, hits[0].size):
        for k in range(n_classes - 1):
            carried, said = true[block] == k, predicted[block] == k
            occurs[k] += _count(carried)
            named[k] += _count(said)
            if n_classes > 2:
                hits[k] += _count(said & carried)
    for counts in occurs, named:
        counts[-1] = n_test - counts[:-1].sum(axis=0)
    right = count_equal(true, predicted)
    if n_classes == 2:  # hits and misses of one class: half of all sums it up
        hits[0] = (right + occurs[0] + named[0] - n_test) // 2
    hits[-1] = right - hits[:-1].sum(axis=0)
    return Counts(hits, occurs, named)


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

    @cached_property
    def counts(self):
        """How often classes occur, were predicted, and rightly so."""
        return count_classes(self.true, self.predicted, self.n_classes)

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


def _divide(a, b):
    """Return a / b, and 0 where b is 0, as scikit-learn's zero_division=0 does."""
    return np.divide(a, b, out=np.zeros(np.broadcast(a, b).shape), where=b > 0)


def _total_in_order(values):
    """Sum over the first axis in order, so that no digit depends on how many B are.

    A plain sum of a single column is formed in another order than that of several.
    """
    return np.add.accumulate(values, axis=0)[-1]


def _recall(counts):
    return _divide(counts.hits, counts.true)


def _precision(counts):
    return _divide(counts.hits, counts.predicted)


def _f1(counts):
    return _divide(2 * counts.hits, counts.true + counts.predicted)


def _macro(rate):
    """Return a metric: a rate's mean over classes that occur or were predicted."""

    def metric(tested):
        counts = tested.counts
        seen = (counts.true + counts.predicted) > 0
        return _total_in_order(rate(counts) * seen) / seen.sum(axis=0)

    return metric


def _binary_or_macro(rate):
    """Return a metric: the second class's rate for two classes, else the macro mean."""

    def metric(tested):
        if tested.n_classes == 2:
            return rate(tested.counts)[1]
        return _macro(rate)(tested)

    return metric


def _accuracy(tested):
    return count_equal(tested.true, tested.predicted) / len(tested.predicted)


def _balanced_accuracy(tested):
    present = tested.counts.true > 0
    return _total_in_order(_recall(tested.counts) * present) / present.sum(axis=0)


def _kappa(tested):
    counts, total = tested.counts, len(tested.predicted)
    expected = (counts.predicted * counts.true).sum(axis=0) / total
    return _divide(counts.hits.sum(axis=0) - expected, total - expected)


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
    return _areas(true[:, None], class_scores, shapes)[0]


def _roc_auc(tested):
    """Return the areas (t, ..., B) of what was tested."""
    return _areas(tested.true, tested.class_scores[:, :, 0], tested.shapes)


def _areas(true, class_scores, shapes):
    """Do as :func:`roc_auc` with t labellings, which gives (t, ..., B).

    Of codes (n_test, t, ..., B), which may broadcast, and scores (n_test, c, ..., B).
    """
    n_classes, *shape = class_scores.shape[1:]
    wanted = [1] if n_classes == 2 else range(n_classes)
    flags = [true == number for number in wanted]
    flat = class_scores.reshape(len(true), n_classes, -1)
    total, count = 0.0, 0  # (classes, t, B)
    for rows, each in _batches(shapes):
        areas, defined = _fold_areas(flat[rows], [f[rows] for f in flags], shape, each)
        total = total + _total_in_order(areas)
        count = count + defined.sum(axis=0)
    means = total / np.maximum(count, 1)
    undefined = np.flatnonzero((count == 0).any(axis=(0, 1)))
    if len(undefined):
        odds = _log_odds(flat[..., undefined], shapes)[:, None]
        for j, number in enumerate(wanted):
            all_rows = _mark(flags[j], shape, 1, len(true)).take(columns=undefined)
            empty = count[j][:, undefined] == 0
            t, i = np.nonzero(empty)
            means[j, t, undefined[i]] = _auc(odds[number], all_rows)[0][empty]
            count[j, t, undefined[i]] = all_rows.defined[0][empty]
    counted = count > 0
    total = _total_in_order(means * counted)
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


def _batches(shapes):
    """Yield the test rows of every batch of test sets, and its shape."""
    start = 0
    for shape in shapes:
        rows = slice(start, start + shape[0] * shape[1])
        start = rows.stop
        yield rows, shape


#: Scores that are sorted at a time: with their keys and ranks they fit the cache.
_SORTED = 2**15


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
    odds = _log_odds(scores.reshape(k * m, n_classes, -1), [(k, m, n_train)])
    return odds.reshape(n_classes, k, m, n_labels)


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
        ranks = rankdata(_merge_near_ties(scores)[folds, :, columns], axis=1)
        for i in range(n_positive.shape[1]):
            mine = (marks.bits[folds, :, columns] >> i) & 1
            totals[folds, i, columns] = (ranks * mine).sum(axis=1)
    areas = totals - n_positive * (n_positive + 1) / 2
    return _divide(areas, n_positive * (n - n_positive))


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
    ranks = np.arange(1, m + 1, dtype=np.float64)
    sums = np.empty((k, n_labellings, n_labels))
    for number in range(n_labellings):
        sums[:, number] = (bits & 1).astype(np.float64) @ ranks
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


def _merge_near_ties(scores):
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

    #: ``f(tested) -> (t, ..., B)`` of what was :class:`Tested`.
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
    #: Whether it is undefined for a test set of a single class.
    needs_two_classes: bool = False


#: The metrics of classification known by name.
METRICS = {
    "accuracy": Metric(_accuracy, _chance_class, "Accuracy"),
    "balanced_accuracy": Metric(_balanced_accuracy, _chance_class, "Balanced accuracy"),
    "roc_auc": Metric(
        _roc_auc,
        lambda p: 0.5,
        "ROC AUC",
        needs_class_scores=True,
        needs_two_classes=True,
    ),
    "recall": Metric(_binary_or_macro(_recall), _chance_class, "Recall"),
    "precision": Metric(_binary_or_macro(_precision), _chance_precision, "Precision"),
    "f1": Metric(_binary_or_macro(_f1), _chance_f1, "F1"),
    "recall_macro": Metric(_macro(_recall), _chance_class, "Recall (macro)"),
    "precision_macro": Metric(_macro(_precision), np.mean, "Precision (macro)"),
    "f1_macro": Metric(_macro(_f1), lambda p: _f1_of_guesses(p).mean(), "F1 (macro)"),
    "kappa": Metric(_kappa, lambda p: 0.0, "Cohen's kappa", lowest=-1.0),
    "confusion_matrix": Metric(
        lambda tested: tested.confusion,
        lambda p: np.nan,
        "Confusion matrix",
        highest=np.inf,
        scalar=False,
    ),
}


@dataclass(frozen=True)
class FunctionMetric:
    """A function of the user's as a metric: its mean over test sets."""

    #: ``f(y_true (m,), y_pred (m,), class_scores (m, c) | None) -> float``.
    function: Callable
    #: What results call it.
    name: str
    #: The labels that class codes stand for, (c,); None for numbers.
    classes: np.ndarray | None = None

    scalar = True
    needs_class_scores = True
    needs_two_classes = needs_spread = False
    #: Nobody knows.
    chance = np.nan

    def score(self, tested):
        """Return the values (t, ..., B) of what was tested."""
        shape = np.broadcast_shapes(tested.true.shape, tested.predicted.shape)
        true, predicted = (
            self.classes[np.broadcast_to(codes, shape)]
            for codes in (tested.true, tested.predicted)
        )
        values = np.empty(shape[1:])
        for at in np.ndindex(values.shape):
            rows = (slice(None), *at)
            scores = tested.class_scores[(slice(None), slice(None), 0, *at[1:])]
            values[at] = self.mean(true[rows], predicted[rows], scores, tested.shapes)
        return values

    def mean(self, true, predicted, class_scores, shapes):
        """Return the mean over test sets, of one label vector's rows (n_test,)."""
        return float(np.mean(self.of_sets(true, predicted, class_scores, shapes)))

    def of_sets(self, true, predicted, class_scores, shapes):
        """Return the value of every test set."""
        sets = [
            slice(start, start + m)
            for rows, (_, m, _) in _batches(shapes)
            for start in range(rows.start, rows.stop, m)
        ]
        return [
            self._call(
                true[rows],
                predicted[rows],
                None if class_scores is None else class_scores[rows],
            )
            for rows in sets
        ]

    def _call(self, *arguments):
        """Call the function for one test set, and check what it returns."""
        true, predicted, _ = arguments
        what = (
            f"scoring's function {self.name!r}, called with y_true="
            f"{quoted(true.tolist(), 4)} and y_pred={quoted(predicted.tolist(), 4)},"
        )
        try:
            value = self.function(*arguments)
        except Exception as error:
            raise ValueError(f"{what} failed: {error}") from error
        if np.ndim(value) or not np.isreal(value) or not np.isfinite(value):
            raise ValueError(
                f"{what} returned {value!r}. Allowed: one finite number for any labels "
                "of a test set, also permuted ones."
            )
        return float(value)


def name_functions(scoring):
    """Return `scoring` with names in the place of functions, and these by name."""
    functions = {}

    def named(each):
        if not callable(each):
            return each
        name = _name_of(each)
        if name in functions or name in (*METRICS, *REGRESSION_METRICS):
            raise ValueError(
                f"scoring has a function named {name!r}, which is the name of another "
                "metric too. Give it a name of its own, by def."
            )
        functions[name] = each
        return name

    if isinstance(scoring, list | tuple):
        return [named(each) for each in scoring], functions
    return named(scoring), functions


def _name_of(function):
    """Return the name of a scoring function, which must take three arguments."""
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


def check_scoring(scoring, functions=()):
    """Return the list of metric names; the first one must be a single number."""
    names = check_scoring_names(scoring, (*METRICS, *functions))
    if names[0] in METRICS and not METRICS[names[0]].scalar:
        raise ValueError(
            f"The first metric of scoring is the one that is tested and drawn; "
            f"{names[0]!r} is a table. Put a single-number metric first, e.g. "
            f"scoring=['accuracy', {names[0]!r}]."
        )
    return names


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
    scores = scored.class_scores
    tested = Tested(
        np.stack(np.broadcast_arrays(*trues), axis=1),
        scored.predicted[:, None],
        None if scores is None else scores[:, :, None],
        shapes,
        n_classes,
    )
    found = [{} for _ in trues]
    for name, metric in metrics.items():
        value = np.moveaxis(metric.score(tested), -1, 0)
        if not metric.scalar:  # (B, c, c, t, ...)
            value = np.moveaxis(value, (1, 2), (-2, -1))
        for number, each in enumerate(found):
            each[name] = value[:, number]
    return found


def evaluate_sets(metrics, scored, shapes, n_classes):
    """Return every test set's own scores (..., n_sets), by name, in order of shapes.

    For a single label vector, and metrics that are one number. NaN where a metric is
    undefined for a test set.
    """
    found = {name: [] for name, metric in metrics.items() if metric.scalar}
    for rows, (k, m, n_train) in _batches(shapes):
        true, predicted, scores = (
            None
            if values is None  # the test sets in place of the label vectors
            else np.moveaxis(values[rows].reshape(k, m, *values.shape[1:-1]), 0, -1)
            for values in (scored.true, scored.predicted, scored.class_scores)
        )
        tested = Tested(
            true[:, None],
            predicted[:, None],
            None if scores is None else scores[:, :, None],
            ((1, m, n_train),),
            n_classes,
        )
        one_class = (true == true[:1]).all(axis=0)
        for name, values in found.items():
            value = metrics[name].score(tested)[0]
            if metrics[name].needs_two_classes:
                value = np.where(one_class, np.nan, value)
            values.append(value)
    return {name: np.concatenate(values, axis=-1) for name, values in found.items()}


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
    #: Whether it is undefined where the values to be predicted are all equal.
    needs_spread: bool = True


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
        needs_spread=False,
    ),
}


def find_metric(name):
    """Return the entry of a metric of classes or numbers; None where it is unknown."""
    return METRICS.get(name) or REGRESSION_METRICS.get(name)


def metric_limits(name):
    """Return the lowest and the highest possible value; none for an unknown metric."""
    metric = find_metric(name)
    return (metric.lowest, metric.highest) if metric else (-np.inf, np.inf)


def check_regression_scoring(scoring, functions=()):
    """Return the list of names of regression metrics."""
    return check_scoring_names(scoring, (*REGRESSION_METRICS, *functions))


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
    positive: object

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
