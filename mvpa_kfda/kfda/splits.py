"""Splitters of scikit-learn: whether they use the labels, and words for reports.

A new splitter of scikit-learn is an entry of `SPLITTERS`. Others have none: it is not
known whether they use the labels.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Protocol

from sklearn import model_selection

from ..utils.checks import counted, plural, ranged, times_words


class Splitter(Protocol):
    """What makes folds, as the splitters of scikit-learn do."""

    def split(self, X: Any, y: Any, groups: Any, /) -> Iterable[Any]:
        """Yield (train, test) for every fold."""
        ...


CrossValidation = int | Splitter | Iterable[tuple[Any, Any]] | None

#: What is recorded of folds that were given one by one.
GIVEN = "given"
#: Folds of rows that are sorted by class or target: the i-th part of each.
PARTS = "Parts"


@dataclass(frozen=True)
class NamedSplitter:
    """What is known of a splitter."""

    #: For the methods section, of its recorded arguments and numbers of folds.
    words: Callable
    #: Whether it uses the labels; None: its test sets are given, by whatever rule.
    sees_labels: bool | None = False


def splitter_of(kind):
    """Return the entry of a class of scikit-learn's, None of any other."""
    name = kind.__name__
    return SPLITTERS.get(name) if kind is getattr(model_selection, name, None) else None


def sees_labels(cv):
    """Tell whether a splitter is known to use the labels."""
    known = filter(None, map(splitter_of, type(cv).__mro__))
    return any(each.sees_labels for each in known)


def may_see_labels(cv):
    """Tell whether a splitter uses the labels, for all that is known of it.

    Explicit sets use nothing any more, wherever they come from.
    """
    known = splitter_of(type(cv))
    blind = known is not None and not known.sees_labels
    return callable(getattr(cv, "split", None)) and not blind


# ----------------------------------------------------------------------------- words


def _fold(numbers):
    """Word "5-fold" of one number of folds, "3- to 5-fold" of several, or of none."""
    if not len(numbers):
        return "k-fold"
    low, high = min(numbers), max(numbers)
    return f"{low}-fold" if low == high else f"{low}- to {high}-fold"


def _k_fold(kind="", more=""):
    kind, more = kind and f"{kind} ", more and f" {more}"
    return lambda given, k: f"{kind}{_fold(k)} cross-validation{more}"


def _some(numbers, noun):
    """Word how many, or 3 to 5 of several numbers, or that it is not known."""
    return ranged(numbers, noun) if len(numbers) else plural(noun)


def _splits(kind, of=""):
    return lambda given, k: _some(k, f"{kind} split") + of


def _k_folds(given, k):
    """Word folds of neighbouring trials, as a number of folds makes them, or others."""
    if given["shuffle"]:
        return _k_fold()(given, k)
    return f"cross-validation in {_some(k, 'contiguous fold')}"


def _repeated(kind=""):
    """Word a splitter that repeats folds; k of them in all."""

    def words(given, k):
        r = given["n_repeats"]
        folds = _k_fold(kind)(given, [each // r for each in k])
        return f"{folds}, repeated {times_words(r)} with different random folds"

    return words


def _predefined(given, k):
    return "cross-validation in predefined folds"


def _given(given, k):
    """Word folds that were given one by one, or a single split."""
    return "a predefined split" if set(k) == {1} else _predefined(given, k)


def _parts(given, k):
    """Word folds of rows that are sorted."""
    kept = "the *i*-th part of each class"
    if given["of"] == "target":
        kept = "*i*-th of each {0} successive trials in the order of the target"
        kept = f"the {kept.format(given['n_splits'])}"
    return f"{_fold(k)} cross-validation, where the *i*-th fold held {kept}"


_WHOLE = "with groups kept intact"

#: The splitters by the names of their classes, and folds that were given.
SPLITTERS = {
    "KFold": NamedSplitter(_k_folds),
    "StratifiedKFold": NamedSplitter(_k_fold("stratified"), sees_labels=True),
    "GroupKFold": NamedSplitter(_k_fold(more=_WHOLE)),
    "StratifiedGroupKFold": NamedSplitter(
        _k_fold("stratified", _WHOLE), sees_labels=True
    ),
    "RepeatedKFold": NamedSplitter(_repeated()),
    "RepeatedStratifiedKFold": NamedSplitter(_repeated("stratified"), sees_labels=True),
    "LeaveOneOut": NamedSplitter(lambda given, k: "leave-one-out cross-validation"),
    "LeavePOut": NamedSplitter(
        lambda given, k: f"leave-{given['p']}-out cross-validation"
    ),
    "LeaveOneGroupOut": NamedSplitter(
        lambda given, k: "leave-one-group-out cross-validation"
    ),
    "LeavePGroupsOut": NamedSplitter(
        lambda given, k: (
            f"cross-validation that leaves {counted(given['n_groups'], 'group')} out "
            "at a time"
        )
    ),
    "ShuffleSplit": NamedSplitter(_splits("random")),
    "StratifiedShuffleSplit": NamedSplitter(
        _splits("stratified random"), sees_labels=True
    ),
    "GroupShuffleSplit": NamedSplitter(_splits("random", " of groups")),
    "TimeSeriesSplit": NamedSplitter(_splits("successive", " in time")),
    "PredefinedSplit": NamedSplitter(_predefined, sees_labels=None),
    PARTS: NamedSplitter(_parts),
    GIVEN: NamedSplitter(_given, sees_labels=None),
}
