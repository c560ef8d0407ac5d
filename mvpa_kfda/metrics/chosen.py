"""Means over chosen pairs of classes, as metrics that have a null of their own."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from ..utils.checks import quoted
from .classes import METRICS, mean_of_defined
from .pairs import TABLES

#: Pairs of classes by their labels, by the name of the mean over them.
NamedPairs = Mapping[str, Sequence[tuple[Any, Any]]]


@dataclass(frozen=True)
class ChosenPairs:
    """What a user said: the mean over some pairs, (label, label), of a table."""

    table: str
    pairs: Any

    def metric(self, name, classes):
        """Return the metric for the labels of the classes (c,)."""
        (numbers,) = number_pairs({name: self.pairs}, classes).values()
        return PairsMetric(self.table, tuple(numbers), tuple(np.asarray(classes)))


@dataclass(frozen=True)
class PairsMetric:
    """The mean over some pairs of classes of one of the tables."""

    table_name: str
    #: Which pairs, in the order of `scipy.spatial.distance.squareform`.
    numbers: tuple
    #: The labels of the classes.
    classes: tuple

    scalar, table = True, None
    of_one_class = False
    needs_class_scores = needs_two_classes = True

    @property
    def within_sets(self):
        """Whether classes are compared within test sets alone."""
        return METRICS[self.table_name].within_sets

    @property
    def chance(self):
        """The chance level of each pair, and so of the mean."""
        return METRICS[self.table_name].chance(None)

    @cached_property
    def pairs(self):
        """The labels of the pairs, a list of (label, label)."""
        first, second = np.triu_indices(len(self.classes), 1)
        return [
            tuple(np.asarray(self.classes[of[i]]).item() for of in (first, second))
            for i in self.numbers
        ]

    def score(self, tested):
        """Return the mean (t, ..., B) over pairs that are tested; chance of none."""
        values = self.set_score(tested)
        return np.where(np.isnan(values), self.chance, values)

    def set_score(self, tested):
        """Return the mean (t, ..., B) over pairs that are tested; NaN of none."""
        values = METRICS[self.table_name].score(tested)
        return mean_of_defined(values[list(self.numbers)], axis=0)


def choose_pairs(given, names):
    """Return `ChosenPairs` by name, of what stands in scoring beside other names.

    They are of the distances, unless scoring has accuracies of pairs alone.
    """
    if not given or not all(isinstance(name, str) and name for name in given):
        raise ValueError(_message(given))
    having = [
        kind for kind, of in TABLES.items() if {of, METRICS[of].summary} & set(names)
    ]
    table = TABLES[having[0] if having else "crossnobis"]
    return {name: ChosenPairs(table, pairs) for name, pairs in given.items()}


def record_pairs(metrics):
    """Return what is recorded of metrics by name: those that are chosen pairs."""
    chosen = {
        name: metric
        for name, metric in metrics.items()
        if isinstance(metric, PairsMetric)
    }
    if not chosen:
        return {}
    (table,) = {metric.table_name for metric in chosen.values()}
    pairs = {name: metric.pairs for name, metric in chosen.items()}
    return {"pairs": pairs, "pairs_of": table}


def name_pairs(pairs):
    """Return pairs by name, each of a list by its labels."""
    if isinstance(pairs, Mapping):
        return pairs
    if isinstance(pairs, str) or not isinstance(pairs, Sequence):
        raise ValueError(_message(pairs))
    return {_in_words(pair): [pair] for pair in pairs}


def _in_words(pair):
    """Return the name of a pair."""
    return " / ".join(map(str, pair)) if np.ndim(pair) else str(pair)


def number_pairs(pairs, classes):
    """Return the numbers of pairs of classes by name, of labels of these by name."""
    classes = np.asarray(classes).tolist()
    first, second = np.triu_indices(len(classes), 1)
    known = {
        frozenset((classes[i], classes[j])): number
        for number, (i, j) in enumerate(zip(first, second, strict=True))
    }
    words = {str(label): label for label in classes}  # those of a command line

    def as_set(pair):
        if isinstance(pair, str) or np.shape(pair) != (2,):
            return frozenset()
        return frozenset(x if x in classes else words.get(x, x) for x in pair)

    chosen = {}
    for name, some in pairs.items():
        if isinstance(some, str) or not isinstance(some, Sequence | np.ndarray):
            raise ValueError(_message({name: some}))
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


def _message(given):
    """Say how pairs are given."""
    return (
        f"Invalid value for 'pairs': {given!r}. Allowed: pairs of classes by the name "
        'of the mean over them, such as {"between": [("face", "house"), ("hand", '
        '"house")]}.'
    )
