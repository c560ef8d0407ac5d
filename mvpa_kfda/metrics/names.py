"""From what a user says in `scoring`, names, functions and pairs, to metrics."""

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import combinations
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..utils.checks import check_scoring_names, quoted
from .auc import set_batches
from .classes import METRICS, Metric, always, mean_of_defined
from .listed import ClassMetric, NumberMetric
from .pairs import TABLES
from .regression import REGRESSION_METRICS

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


@dataclass(frozen=True)
class FunctionMetric:
    """A function of the user's as a metric: its mean over test sets.

    Of classes it may be NaN for test sets that hold a single one, which are left out.
    """

    #: ``f(y_true (m,), y_pred (m,), class_scores (m, c) | None) -> float``.
    function: Callable
    #: What results call it.
    name: str
    #: The labels that class codes stand for, (c,); None for numbers.
    classes: np.ndarray | None = None

    scalar = needs_class_scores = True
    table = None
    of_one_class = needs_two_classes = needs_spread = within_sets = False
    chance = staticmethod(always(np.nan))

    def score(self, tested):
        """The values (t, ..., B), NaN where none of the test sets has one."""
        true, predicted = (
            self.classes[np.broadcast_to(codes, tested.shape)]
            for codes in (tested.true, tested.predicted)
        )
        values = np.empty(tested.shape[1:])
        for at in np.ndindex(values.shape):
            rows = (slice(None), *at)
            scores = tested.class_scores[(slice(None), slice(None), 0, *at[1:])]
            values[at] = self.mean(true[rows], predicted[rows], scores, tested.shapes)
        return values

    def fill(self, values):
        """Refuse NaN."""
        if np.isnan(values).any():
            raise ValueError(
                f"scoring's function {self.name!r} returned NaN for every test set: "
                "all hold a single class. Use larger test sets, or return a number."
            )
        return values

    def mean(self, true, predicted, class_scores, shapes):
        """The mean over test sets, of one label vector's rows (n_test,)."""
        # What is scored is nobody else's to write to.
        given = [true, predicted, class_scores]
        given = [None if x is None else np.broadcast_to(x, x.shape) for x in given]
        values = [
            self._call(*(None if each is None else each[i : i + m] for each in given))
            for rows, (_, m, _) in set_batches(shapes)
            for i in range(rows.start, rows.stop, m)
        ]
        defined = [value for value in values if not np.isnan(value)]
        return float(np.mean(defined)) if defined else np.nan

    def _call(self, true, predicted, class_scores):
        """Call the function for one test set, and check what it returns."""

        def error(what):
            return ValueError(
                f"scoring's function {self.name!r}, called with y_true="
                f"{quoted(true.tolist(), 4)} and y_pred="
                f"{quoted(predicted.tolist(), 4)}, {what}"
            )

        try:
            value = self.function(true, predicted, class_scores)
        except Exception as failure:
            hint = ""
            if "read-only" in str(failure):
                hint = ". Change a copy, np.array(values), of what it is given"
            raise error(f"failed: {failure}{hint}") from failure
        if isinstance(value, np.ndarray) and not value.ndim:
            value = value[()]
        if isinstance(value, Real | np.bool_) and not np.ma.is_masked(value):
            alike = self.classes is not None and (true == true[:1]).all()
            if np.isfinite(float(value)) or (alike and np.isnan(float(value))):
                return float(value)
        raise error(
            f"returned {value!r}. Allowed: one finite number for any labels of a test "
            "set, also permuted ones; NaN for one that holds a single class."
        )


def name_functions(scoring):
    """The names in `scoring`, and by name what makes metrics of functions and pairs.

    Makers take the classes, or None for numbers.
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
            make = partial(PairsMetric.of, [*having, TABLES["crossnobis"]][0])
            new = {name: partial(make, name, pairs) for name, pairs in each.items()}
        elif callable(each):
            name = _name_of(each)
            new = {name: partial(FunctionMetric, each, name)}
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
    return names if several or len(names) > 1 else names[0], makers


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


def check_scoring(scoring, makers=()):
    """The list of metric names; the first one must be a single number.

    Before a table of pairs comes its mean over these.
    """
    names = check_scoring_names(scoring, (*METRICS, *makers))
    first = METRICS.get(names[0])
    if first and first.summary:
        names = [first.summary, *(name for name in names if name != first.summary)]
    elif first and not first.scalar:
        raise ValueError(
            f"The first metric of scoring is the one that is tested and drawn; "
            f"{names[0]!r} is a table. Put a single-number metric first, e.g. "
            f"scoring=['accuracy', {names[0]!r}]."
        )
    return names


def check_regression_scoring(scoring, makers=()):
    """The list of names of regression metrics."""
    for name, maker in dict(makers).items():
        if maker.func is not FunctionMetric:
            raise ValueError(
                f"scoring has pairs of classes named {name!r}, and regression has no "
                f"classes. Allowed: {quoted(REGRESSION_METRICS)}, or a function."
            )
    return check_scoring_names(scoring, (*REGRESSION_METRICS, *makers))


def find_metric(name):
    """The entry of a metric of classes or numbers; None where it is unknown."""
    return METRICS.get(name) or REGRESSION_METRICS.get(name)


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
    values = name in REGRESSION_METRICS
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


# ------------------------------------------------------------- means over chosen pairs


@dataclass(frozen=True, kw_only=True)
class PairsMetric(Metric):
    """The mean over some pairs of classes of one of the tables."""

    table_name: str
    #: Which pairs, in the order of `scipy.spatial.distance.squareform`.
    numbers: list
    #: The labels of the pairs, a list of (label, label).
    pairs: list

    @classmethod
    def of(cls, table_name, name, pairs, classes):
        """The metric of pairs (label, label) of classes, by its name."""
        (numbers,) = number_pairs({name: pairs}, classes).values()
        known = list(combinations(np.asarray(classes).tolist(), 2))
        table = METRICS[table_name]
        return cls(
            # Of the pairs that are tested; chance where none is.
            lambda tested: mean_of_defined(table.score(tested)[numbers], axis=0),
            table.chance,
            name,
            needs_class_scores=True,
            needs_two_classes=True,
            within_sets=table.within_sets,
            fill=lambda values: np.where(np.isnan(values), table.chance(None), values),
            table_name=table_name,
            numbers=numbers,
            pairs=[known[number] for number in numbers],
        )


def record_pairs(metrics):
    """The record of those metrics, by name, that are chosen pairs."""
    chosen = {k: metric for k, metric in metrics.items() if type(metric) is PairsMetric}
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
