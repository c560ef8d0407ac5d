"""DrawnFolds and permuted labels, drawn anew from what a result says of them."""

import warnings
from dataclasses import dataclass, replace
from types import SimpleNamespace

import numpy as np
import pandas as pd

from ..inference.permutation import permute_labels
from ..results.procedure import SPLITTERS
from ..utils.plain import is_record
from .reading import NotCovered

#: Splitters may make so many splits for each trial.
_MOST_SPLITS = 1000
#: DrawnFolds where nobody says how many.
DEFAULT_FOLDS = 10


@dataclass(frozen=True)
class DrawnFolds:
    """Training and test sets, as they should be."""

    pairs: list  #: (train, test) arrays of trial numbers
    #: The contiguous folds that were asked for (n,), and whether there are so many.
    fold_of: np.ndarray | None = None
    as_asked: bool = True
    #: Which trials are trained with, (n,); None: any.
    chosen: np.ndarray | None = None

    def are_complements(self, n):
        """Tell whether every fold trains on all of n trials that it does not test."""
        return all(len(train) + len(test) == n for train, test in self.pairs)


def splitter_of(record):
    """Return the splitter that a record is of; None if scikit-learn has none such."""
    given = {name: value for name, value in record.items() if name != "name"}
    try:
        return SPLITTERS[record["name"]](**given)
    except (KeyError, TypeError, ValueError):
        return None


def redraw_folds(asked, codes, groups, numbers=None, trained=None, values=None):
    """Return the folds that a recorded ``cv`` stands for; None if it is not known.

    `numbers` are those of the trials in the recording, by which they are neighbours;
    `values` are the targets of a regression.
    """
    by_default = asked is None
    if asked is None:
        asked = {"name": "LeaveOneGroupOut"} if groups is not None else DEFAULT_FOLDS
    if isinstance(asked, int):
        order = np.arange(len(codes))
        if numbers is not None and len(set(numbers)) == len(codes):
            order = np.argsort(numbers, kind="stable")
        kinds = codes if values is None else values
        if trained is not None:
            kinds = np.unique([kinds, trained], axis=1, return_inverse=True)[1]
        kinds = pd.Series(np.ravel(kinds)[order])
        if not _are_sorted(kinds) or asked >= len(codes):
            return _contiguous(asked, codes, order, trained)
        least, rows = kinds.value_counts().min(), len(codes)
        if by_default:
            least, rows = least // 2, rows * 2 // 3
        asked = min(asked, max(2, least if values is None else rows // 2))
        of_kind = kinds.groupby(kinds)
        place = (of_kind.cumcount() + 0.5) / of_kind.transform("size")
        if values is not None:
            place = (kinds.rank(method="first") - 1) % asked
        order = order[np.argsort(place.to_numpy(), kind="stable")]
        return DrawnFolds(_contiguous(asked, codes, order, trained).pairs)
    if hasattr(asked, "split"):
        return _split(asked, codes, groups)
    if not is_record(asked):
        return None
    splitter = splitter_of(asked)
    is_random = getattr(splitter, "shuffle", True)  # ShuffleSplit always is
    if splitter is None or (
        is_random and "random_state" in asked and asked["random_state"] is None
    ):
        return None
    return _split(splitter, codes, groups)


def check_splits(splitter, codes, groups):
    """Refuse splitters with more splits than anybody means, which might never end."""
    n = len(codes)
    n_splits = splitter.get_n_splits(np.zeros((n, 1)), codes, groups)
    if n_splits > _MOST_SPLITS * n:
        raise NotCovered(f"{splitter} makes {n_splits:,} splits of {n} trials")


def _split(splitter, codes, groups):
    """Return the folds of a splitter."""
    check_splits(splitter, codes, groups)
    n = len(codes)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        pairs = list(splitter.split(np.zeros((n, 1)), codes, groups))
    if DrawnFolds(pairs).are_complements(n):  # in their own order, whatever was drawn
        pairs = [(np.setdiff1d(np.arange(n), test), test) for _, test in pairs]
    return DrawnFolds(pairs)


def _are_sorted(kinds):
    """Tell whether a Series is sorted, or has one block for each of its values."""
    counts = kinds.value_counts()
    blocks = (kinds.diff() != 0).sum() == len(counts) and counts.min() > 1
    ordered = kinds.is_monotonic_increasing or kinds.is_monotonic_decreasing
    return len(counts) > 1 and (blocks or ordered)


def _contiguous(k, codes, order, trained):
    """Return k folds of neighbours; more where some training set lacks a class."""
    n = len(codes)
    if k > n:
        raise NotCovered(f"cv={k} asks for more folds than there are trials, {n}")
    used = codes if trained is None else np.where(trained, codes, -1)
    tests, fold_of = np.array_split(order, k), np.empty(n, int)
    for number, test in enumerate(tests):
        fold_of[test] = number
    as_asked = has_every_class(used, fold_of)
    if not as_asked:
        smallest = np.unique(used[used >= 0], return_counts=True)[1].min()
        tests = np.array_split(order, -(-n // (smallest - 1)))
    pairs = [(np.setdiff1d(order, test), np.sort(test)) for test in tests]
    one_class = len(np.unique(used[used >= 0])) < 2
    return DrawnFolds(pairs, None if one_class else fold_of, as_asked)


def has_every_class(codes, fold_of):
    """Tell whether every training set has every class; -1 is none."""
    classes = np.unique(codes[codes >= 0])
    return all(
        np.isin(classes, codes[fold_of != fold]).all() for fold in np.unique(fold_of)
    )


def cut_folds(folds, chosen):
    """Return folds that train on chosen trials alone, and test the others alone."""
    rows = np.arange(len(chosen))
    pairs = [(rows, rows)] if folds is None else folds.pairs
    pairs = [(train[chosen[train]], test[~chosen[test]]) for train, test in pairs]
    if folds is None:
        return DrawnFolds(pairs, chosen=chosen)
    return replace(folds, pairs=pairs, chosen=chosen)


@dataclass(frozen=True)
class _Rule:
    """Which labels would have had the same number of contiguous folds."""

    fold_of: np.ndarray
    as_asked: bool

    def may_fail(self, codes):
        """Tell whether some order of the labels leaves a training set without one."""
        return np.bincount(codes).min() <= np.bincount(self.fold_of).max()

    def keeps(self, labels):
        """Tell for labels (B, n), (B,)."""
        found = [has_every_class(each, self.fold_of) for each in labels]
        return np.array(found, bool).reshape(-1) == self.as_asked


def redraw_labels(
    codes, parameters, n_permutations, folds, groups, tested=None, alike=True
):
    """Return the labels that are trained with and tested, (P + 1, n) each.

    By the seed and the scheme that the result records. Two labellings of a trial move
    together; `tested` None: they are the same. Classes that are `alike` may be renamed
    without changing a score.
    """
    alike = alike and (tested is None or np.array_equal(tested, codes))
    tested = codes if tested is None else tested
    if folds is not None and folds.chosen is not None:
        return _draw_chosen(codes, parameters, n_permutations, folds, groups)
    n_classes = int(max(codes.max(), tested.max())) + 1
    used, pairs = np.unique(codes * n_classes + tested, return_inverse=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        drawn = permute_labels(
            pairs,
            n_permutations,
            folds=None if folds is None else _stand_in(folds, len(codes)),
            groups=groups,
            permute=parameters["permute"],
            random_state=parameters["random_state"],
            classes=used // n_classes,
            alike=alike,
        )
    return np.divmod(used[drawn.labels], n_classes)


def _draw_chosen(codes, parameters, n_permutations, folds, groups):
    """Return labels of which those of the chosen trials alone move."""
    chosen, rows = folds.chosen, np.flatnonzero(folds.chosen)
    number = np.cumsum(chosen) - 1
    tests = [number[np.setdiff1d(rows, train)] for train, _ in folds.pairs]
    tests = [test for test in tests if len(test)]
    among = None
    if tests:
        of_rows = np.arange(len(rows))
        fold_of = None if folds.fold_of is None else folds.fold_of[rows]
        pairs = [(np.setdiff1d(of_rows, test), test) for test in tests]
        among = DrawnFolds(pairs, fold_of, folds.as_asked)
    groups = None if groups is None else groups[rows]
    drawn = codes[rows], parameters, n_permutations, among, groups
    moved, _ = redraw_labels(*drawn, alike=False)
    labels = np.tile(codes, (len(moved), 1))
    labels[:, rows] = moved
    return labels, np.tile(codes, (len(moved), 1))


def _stand_in(folds, n):
    """Return what `permute_labels` asks of folds."""
    rule = None if folds.fold_of is None else _Rule(folds.fold_of, folds.as_asked)
    blocks = trials_alike(folds, n)
    return SimpleNamespace(
        n=n, blocks=blocks, rule=rule, name="cv", sees_labels=False, balanced=False
    )


def trials_alike(folds, n):
    """Return numbers of trials (n,), alike for those that share all their sets."""
    sets = [set(test.tolist()) for _, test in folds.pairs]
    if folds.chosen is not None or not folds.are_complements(n):
        sets += [set(train.tolist()) for train, _ in folds.pairs]
    used_by = [tuple(i for i, s in enumerate(sets) if row in s) for row in range(n)]
    first = {key: number for number, key in enumerate(dict.fromkeys(used_by))}
    return np.array([first[key] for key in used_by])
