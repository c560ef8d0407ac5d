"""Splitters of scikit-learn: whether they use the labels, and words for reports.

A new splitter of scikit-learn is an entry of `SPLITTERS`. Others have none: it is not
known whether they use the labels.
"""

from collections.abc import Callable, Iterable, Sequence
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

    #: For the methods section: a template of its recorded arguments, of ``{fold}``
    #: ("5-fold"), ``{k:noun}`` ("5 nouns") and ``{times}``. Or what makes one.
    template: str | Callable
    #: Whether it uses the labels; None: its test sets are given, by whatever rule.
    sees_labels: bool | None = False

    def words(self, given, k):
        """Word it, of its recorded arguments and numbers k of folds, maybe unknown."""
        template, r = self.template, given.get("n_repeats", 1)
        if callable(template):
            template = template(given, k)
        fold = "k-fold"
        if len(k):
            low, high = min(k) // r, max(k) // r
            fold = f"{low}-fold" if low == high else f"{low}- to {high}-fold"
        return template.format(**given, k=_Counted(k), fold=fold, times=times_words(r))


@dataclass(frozen=True)
class _Counted:
    """Numbers of something, which a format names: 3, 3 to 5, or an unknown number."""

    numbers: Sequence

    def __format__(self, noun):
        return ranged(self.numbers, noun) if len(self.numbers) else plural(noun)


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


def _k_fold(given, k):
    """Word folds of neighbouring trials, as a number of folds makes them, or others."""
    return _K_FOLD if given["shuffle"] else "cross-validation in {k:contiguous fold}"


def _parts(given, k):
    """Word folds of rows that are sorted."""
    of_target = "i*-th of each {n_splits} successive trials in the order of the target"
    part = of_target if given["of"] == "target" else "i*-th part of each class"
    return f"{_K_FOLD}, where the *i*-th fold held the *{part}"


def _given(given, k):
    """Word folds that were given one by one, or a single split."""
    return "a predefined split" if set(k) == {1} else _PREDEFINED


_K_FOLD = "{fold} cross-validation"
_WHOLE = "with groups kept intact"
_REPEATED = "repeated {times} with different random folds"
_PREDEFINED = "cross-validation in predefined folds"
_GROUPS_OUT = "cross-validation that leaves {n} out at a time"

#: The splitters by the names of their classes, and folds that were given.
SPLITTERS = {
    "KFold": NamedSplitter(_k_fold),
    "StratifiedKFold": NamedSplitter(f"stratified {_K_FOLD}", True),
    "GroupKFold": NamedSplitter(f"{_K_FOLD} {_WHOLE}"),
    "StratifiedGroupKFold": NamedSplitter(f"stratified {_K_FOLD} {_WHOLE}", True),
    "RepeatedKFold": NamedSplitter(f"{_K_FOLD}, {_REPEATED}"),
    "RepeatedStratifiedKFold": NamedSplitter(
        f"stratified {_K_FOLD}, {_REPEATED}", True
    ),
    "LeaveOneOut": NamedSplitter("leave-one-out cross-validation"),
    "LeavePOut": NamedSplitter("leave-{p}-out cross-validation"),
    "LeaveOneGroupOut": NamedSplitter("leave-one-group-out cross-validation"),
    "LeavePGroupsOut": NamedSplitter(
        lambda given, k: _GROUPS_OUT.format(n=counted(given["n_groups"], "group"))
    ),
    "ShuffleSplit": NamedSplitter("{k:random split}"),
    "StratifiedShuffleSplit": NamedSplitter("{k:stratified random split}", True),
    "GroupShuffleSplit": NamedSplitter("{k:random split} of groups"),
    "TimeSeriesSplit": NamedSplitter("{k:successive split} in time"),
    "PredefinedSplit": NamedSplitter(_PREDEFINED, None),
    PARTS: NamedSplitter(_parts),
    GIVEN: NamedSplitter(_given, None),
}
