"""From `cv` to explicit folds, and to those within training sets by which one tunes.

The direct step gives the prediction of a model trained on *all rows outside* the test
set, so such a split is fully described by its test set. Where some split trains on
fewer rows, the training sets are kept too (:mod:`mvpa_kfda.kfda.foldwise`).
:class:`Folds` are drawn once by :func:`make_folds`; :class:`InnerFolds` are those
within each of their training sets.

A splitter of scikit-learn has an entry in `SPLITTERS`: whether it uses the labels, and
words for reports. Nothing is known of others.

They know the order in which rows are processed, and batches of folds with equally large
test sets, each of them handled by one call of NumPy.
"""

import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from numbers import Integral
from typing import Any, Protocol

import numpy as np
from scipy.sparse import issparse
from sklearn import model_selection as ms

from ..utils.checks import check_count, counted, plural, ranged, times_words, warn
from ..utils.memory import check_many
from ..utils.plain import recorded
from ..utils.problems import Problem


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
class FoldBatch:
    """Folds with equally large test sets, handled in one batch."""

    #: The test rows in the folds' order, fold after fold.
    take: slice | np.ndarray
    #: The number of folds and of test rows in each.
    k: int
    m: int
    #: Where these test rows are among those of all folds.
    rows: slice
    #: The training rows of every fold, (k, n_train); None: all others.
    trains: np.ndarray | None = None

    def of(self, values):
        """The test rows of values (q, n, B), as (q, k, m, B)."""
        taken = values[:, self.take]
        return taken.reshape(len(values), self.k, self.m, values.shape[2])

    def index(self, n):
        """Where the test rows are among n rows, (k, m)."""
        return np.arange(n)[self.take].reshape(self.k, self.m)


def batch_tests(tests, trains=None):
    """Return batches of test sets, arrays of row indices, the smallest sets first.

    Their training sets, where they are given, are of equal size within a batch too.
    """
    batches, start, sizes = [], 0, set_sizes(tests, trains)
    for size in sorted(set(sizes)):
        mine = [number for number, each in enumerate(sizes) if each == size]
        take = np.concatenate([tests[number] for number in mine])
        rows = slice(start, start + len(take))
        own = None if trains is None else np.stack([trains[number] for number in mine])
        batches.append(FoldBatch(take, len(mine), size[0], rows, own))
        start = rows.stop
    return tuple(batches)


def set_sizes(tests, trains=None):
    """The size of every test set, and of every training set that is given."""
    trains = () if trains is None else (trains,)
    return [tuple(map(len, sets)) for sets in zip(tests, *trains, strict=True)]


@dataclass(frozen=True, eq=False)
class Contiguous:
    """The rule by which a number of folds becomes test sets of neighbouring trials.

    There are as many as were asked for, unless some training set lacks a class: then
    there are so many that none does, whatever the order of the labels. So the folds
    depend on the labels by one thing alone, whether it `holds` for them; labels that
    are exchanged have to be alike in that.
    """

    #: The fold of each trial (n,), of as many as were asked for.
    fold_of: np.ndarray
    #: Whether there are as many.
    as_asked: bool

    def holds(self, labels):
        """Whether every training set has every class, of labels (B, n): (B,)."""
        parts = [self.fold_of == i for i in range(int(self.fold_of.max()) + 1)]
        lacks = np.zeros(len(labels), bool)
        for code in range(int(labels.max()) + 1):
            is_of_class = labels == code
            total = is_of_class.sum(axis=1)
            for part in parts:
                lacks |= (is_of_class[:, part].sum(axis=1) == total) & (total > 0)
        return ~lacks

    def may_fail(self, codes):
        """Whether it fails to hold for codes (n,) in some order."""
        counts = np.bincount(codes)
        return bool(counts[counts > 0].min() <= np.bincount(self.fold_of).max())

    def keeps(self, labels):
        """Tell for labels (B, n) whether they would have had these folds, (B,)."""
        return self.holds(labels) == self.as_asked

    def among(self, chosen):
        """The rule of chosen trials, of whose classes alone it is."""
        return replace(self, fold_of=self.fold_of[chosen])


@dataclass(frozen=True)
class Folds:
    """The test sets of a cross-validation.

    Attributes
    ----------
    tests : tuple of ndarray of int
        The row indices of each test set; training is on all other rows unless there are
        training sets. None for one model of all rows.
    n : int
        The number of rows (trials).
    sees_labels : bool | None
        Whether the splitter looked at the labels; None when that is unknown.
    name : str
        What the user called it, for messages.
    trains : tuple of ndarray of int | None
        The row indices of each training set, where some are not all other rows.
    train_mask : ndarray of bool, shape (n,) | None
        The rows to train with, which are never tested; None: any row may be.
    rule : Contiguous | None
        How test sets came from a number of folds.
    balanced : bool
        Whether the number of trials of each class in a test set depends on the labels
        in a way that permuted labels keep within folds only: averages, and parts of
        sorted rows.
    splitter : dict | "given" | None
        What a result records of the splitter: its class and arguments. None: there are
        no folds to leave out.
    """

    tests: tuple
    n: int
    sees_labels: bool | None = None
    name: str = "cv"
    trains: tuple | None = None
    train_mask: np.ndarray | None = None
    rule: Contiguous | None = None
    balanced: bool = False
    splitter: dict | str | None = None

    @property
    def pairs(self):
        """The folds as a list of (train, test) index arrays."""
        if self.trains is not None:
            return list(zip(self.trains, self.tests, strict=True))
        return [(np.delete(np.arange(self.n), test), test) for test in self.tests]

    @property
    def rows_of_all(self):
        """The rows of a model without folds: all that are trained with."""
        mask = self.train_mask
        return np.arange(self.n) if mask is None else np.flatnonzero(mask)

    def is_same(self, other):
        """Tell whether other folds have the same sets in the same order."""
        if self is other:
            return True
        own, theirs = ((*each.tests, *(each.trains or ())) for each in (self, other))
        return len(own) == len(theirs) and all(map(np.array_equal, own, theirs))

    @cached_property
    def trained(self):
        """The rows that some fold trains with; None: all of them."""
        if self.trains is not None:
            rows = np.unique(np.concatenate(self.trains))
        else:
            times = np.bincount(self.rows, minlength=self.n)
            rows = np.flatnonzero(times < max(1, len(self.tests)))
        return None if len(rows) == self.n else rows

    @cached_property
    def is_partition(self):
        """Whether every row is in exactly one test set."""
        return len(self.rows) == self.n == len(np.unique(self.rows))

    @cached_property
    def numbers(self):
        """The number of every fold of the batches among the test sets."""
        sizes = set_sizes(self.tests, self.trains)
        return sorted(range(len(sizes)), key=sizes.__getitem__)

    @cached_property
    def rows(self):
        """The row behind every test row (n_test,), in the order results come out."""
        tests = [self.tests[number] for number in self.numbers]
        return np.concatenate([*tests, np.arange(0)])

    @cached_property
    def order(self):
        """The rows (n,) as they are processed, so that a fold is a view if possible.

        Sorted by fold where the folds are a partition, else as they are.
        """
        views = self.trains is None and self.is_partition
        return self.rows if views else np.arange(self.n)

    @cached_property
    def batches(self):
        """The folds, in batches of equal size."""
        batches = batch_tests(self.tests, self.trains)
        if self.order is not self.rows:
            return batches
        return tuple(replace(batch, take=batch.rows) for batch in batches)

    @cached_property
    def blocks(self):
        """Number the rows (n,) so that rows sharing all their sets share it.

        For a partition this is the fold; for a hold-out there are two blocks. Labels
        exchanged within such blocks leave every fold's class counts as they were.
        """
        used_by = [[] for _ in range(self.n)]
        for number, rows in enumerate((*self.tests, *(self.trains or ()))):
            for row in rows:
                used_by[row].append(number)
        numbers = {}
        keys = map(tuple, used_by)
        return np.array([numbers.setdefault(key, len(numbers)) for key in keys])


def cross_folds(folds, train_mask):
    """Return folds that train on rows of a mask (n,) only, and test the others only.

    Of a fold's sets what is left may be empty. None: one fold of all rows.
    """
    mask, n = np.asarray(train_mask, bool), len(train_mask)
    if folds is None:
        folds = Folds((np.arange(n),), n, None, "train_on", (np.arange(n),))
    pairs = [(train[mask[train]], test[~mask[test]]) for train, test in folds.pairs]
    trains, tests = zip(*pairs, strict=True)
    return replace(folds, tests=tests, trains=trains, train_mask=mask)


def left_out_folds(folds):
    """Which chosen rows, numbered among themselves, folds leave out together.

    The test sets of a cross-validation of these rows alone; None where there are none.
    """
    number = np.cumsum(folds.train_mask) - 1
    rows = folds.rows_of_all
    tests = [number[np.setdiff1d(rows, train)] for train in folds.trains]
    tests = tuple(test for test in tests if len(test))
    rule = None if folds.rule is None else folds.rule.among(rows)
    left_out = replace(folds, tests=tests, n=len(rows), trains=None, train_mask=None)
    return replace(left_out, rule=rule) if tests else None


def folds_of(folds, n):
    """The folds; for None those of one model of all n rows."""
    return Folds((), n) if folds is None else folds


#: Trials that test sets may hold beyond those of a partition, as 1000 times 2000.
_MOST_TESTED = 2_000_000
#: Folds that are enough for most, where there are more than trials.
_USUAL = 100
#: Folds that there may be beyond one for each trial where nobody says how many.
_MOST_UNKNOWN = 10_000
#: Folds where nobody says how many.
DEFAULT_FOLDS = 10


def make_folds(
    cv, codes, groups=None, classes=None, numbers=None, trained=None, values=None
):
    """Return the explicit folds of a `cv` argument.

    Parameters
    ----------
    cv : None | int | splitter | iterable of (train, test)
        None: leave-one-group-out when groups are given, else 10 folds. An int is that
        many folds of neighbouring trials, as equal as can be, as those of KFold. Where
        some training set lacks a class there are more of them: so many that a test set
        is smaller than the smallest class. Where the order says nothing but the class
        (`is_sorted`), the i-th fold holds the i-th part of each class. Or any
        scikit-learn splitter, or index (or boolean) arrays for training and test.
    codes : ndarray of int, shape (n,)
        Class codes; splitters are given these and never the data.
    groups : ndarray, shape (n,) | None
        Groups for the splitters that use them.
    classes : sequence | None
        Names of the classes, for messages.
    numbers : ndarray of int, shape (n,) | None
        The numbers of trials in the recording, by which they are neighbours; None:
        they are in order.
    trained : ndarray of bool, shape (n,) | None
        Which trials may be trained with, if not all.
    values : ndarray, shape (n,) | None
        The targets of a regression, which only a number of folds looks at, and only
        whether they are sorted.

    Returns
    -------
    folds : Folds
        The test sets, and the training sets if some are not all other rows.

    Raises
    ------
    ValueError
        If a class or the groups are too few for the folds, if a split trains on some of
        its test rows, or if there is no end of them.

    Warns
    -----
    UserWarning
        If there are more folds than the int says.
    """
    by_default = cv is None
    cv = _check_cv(cv, groups)
    if isinstance(cv, Integral):
        order = np.arange(len(codes))
        if numbers is not None and len(np.unique(numbers)) == len(codes):
            order = np.argsort(numbers)
        kinds = codes if values is None else values
        if trained is not None:  # trials that are only tested are mixed by themselves
            kinds = 2 * kinds + trained
        kinds = np.asarray(kinds)[order]
        if not is_sorted(kinds) or cv >= len(codes):  # or each trial is left out
            return _make_contiguous(cv, codes, classes, order, trained)
        k, mixed = _mix(cv, kinds, values is not None, by_default)
        folds = _make_contiguous(k, codes, classes, order[mixed], trained)
        of = "class" if values is None else "target"
        splitter = {"name": PARTS, "n_splits": len(folds.tests), "of": of}
        name = f"cv={len(folds.tests)} (the i-th part of each {of})"
        return replace(folds, name=name, rule=None, balanced=True, splitter=splitter)
    n, name, splits = len(codes), "the given cv iterable", cv
    known = len(cv) if isinstance(cv, Sequence) else 0
    if callable(getattr(cv, "split", None)):
        name, known = f"cv={cv!r}", 0
        _check_counts(cv, codes, groups, classes)
        splits = _split(cv, name, codes, groups)
        with suppress(Exception):  # of anybody's splitter; its splits will say
            known = int(cv.get_n_splits(np.zeros((n, 1)), codes, groups))
        _refuse_tests(known, known, name, n)
        if known > n:
            many = f"{known:,} folds of {n} trials by {name}"
            check_many(known, _USUAL, 8 * n, many, "fewer folds")
    pairs = tuple(_pairs(splits, known, name, n))
    if not pairs:
        raise ValueError(f"{name} yields no folds.")
    trains, tests = zip(*pairs, strict=True)
    if all(len(train) + len(test) == n for train, test in pairs):
        trains = None  # to be worked out
    entry, rows = splitter_of(type(cv)), np.concatenate(tests)
    sees_labels = None if entry is None else entry.sees_labels
    if sees_labels is None and trains is None:
        if len(tests) == len(rows) == len(np.unique(rows)) == n:  # each by itself
            sees_labels = False
    splitter = recorded(cv) if hasattr(cv, "split") else GIVEN
    return Folds(tests, n, sees_labels, name, trains, splitter=splitter)


def is_sorted(values):
    """Whether an order (n,) says nothing but the value: sorted, or one block for each.

    The order of recording is then not known, or time and value cannot be told apart.
    """
    steps = np.diff(values)
    if not steps.any():
        return False
    counts = np.unique(values, return_counts=True)[1]
    blocks = np.count_nonzero(steps) == len(counts) - 1 and counts.min() > 1
    return bool(blocks or (steps >= 0).all() or (steps <= 0).all())


def _mix(k, kinds, numeric, by_default):
    """A number of folds, and an order (n,) that mixes sorted kinds.

    Neighbours are then the i-th of each kind; of numbers, every k-th row. There are so
    few folds that each has a trial of each class, or two rows, in which labels can be
    exchanged; by default twice as many, or three.
    """
    n, asked = len(kinds), k
    smallest = int(np.unique(kinds, return_counts=True)[1].min())
    most = n // (2 + by_default) if numeric else smallest // (1 + by_default)
    k = min(k, max(2, most))
    if k < asked and not by_default:
        each = "two trials" if numeric else "a trial of each class"
        warn(
            f"The rows are sorted, and cv={asked} would leave test sets without "
            f"{each}. {k} folds are used.",
            UserWarning,
        )
    if numeric:
        ranks = np.argsort(np.argsort(kinds, kind="stable"))
        return k, np.argsort(ranks % k, kind="stable")
    place = np.empty(n)
    for kind in np.unique(kinds):
        rows = np.flatnonzero(kinds == kind)
        place[rows] = (np.arange(len(rows)) + 0.5) / len(rows)
    return k, np.argsort(place, kind="stable")


def _make_contiguous(k, codes, classes, order, trained):
    """Return k folds of neighbouring trials, or more of them if some lack a class."""
    n = len(codes)
    if k > n:
        raise ValueError(
            f"cv={k} asks for more folds than there are trials, {n}. Use cv={n} to "
            "leave one trial out at a time, or fewer folds."
        )
    trained = np.ones(n, bool) if trained is None else trained
    fold_of = np.empty(n, np.intp)
    for fold, rows in enumerate(np.array_split(order, k)):
        fold_of[rows] = fold
    rule, used = None, codes[trained]
    if len(np.unique(used)) > 1:
        rule = Contiguous(fold_of, as_asked=True)
        if not rule.among(trained).holds(used[np.newaxis])[0]:
            rule, k = replace(rule, as_asked=False), _enough_folds(k, n, used, classes)
    tests = tuple(map(np.sort, np.array_split(order, k)))
    used = ms.KFold(k)
    return Folds(tests, n, False, f"cv={used!r}", rule=rule, splitter=recorded(used))


def _enough_folds(asked, n, codes, classes):
    """Return with how many folds no training set can lack a class, and say so."""
    code, count = min(Counter(codes.tolist()).items(), key=lambda item: item[1])
    label = repr(str(code if classes is None else classes[code]))
    if count == 1:
        raise ValueError(
            f"Class {label} has 1 trial to train on: the model that is tested on its "
            f"test set of cv={asked} has never seen the class. Leave the class out, or "
            "pass a splitter as cv, such as KFold."
        )
    k = -(-n // (count - 1))
    warn(
        f"cv={asked} leaves some training set without a class: all its trials are in "
        f"one of {asked} contiguous test sets. {k} folds are used, which are smaller "
        f"than the smallest class, {label} with {count} trials.",
        UserWarning,
    )
    return k


def find_cut_groups(cv, groups, made="folds", moved="label permutations"):
    """The `Problem` of a number of folds, which does not regard groups."""
    if groups is None or not isinstance(cv, Integral):
        return None
    text = (
        f"cv={cv} makes {made} without regard to the groups; they only restrict the "
        f"{moved}. To keep groups apart, use cv=None (leave one group out) or "
        f"cv=GroupKFold({cv})."
    )
    return Problem("leak", text)


def _check_cv(cv, groups):
    """A splitter object or the given iterable."""
    if cv is None:
        return ms.LeaveOneGroupOut() if groups is not None else DEFAULT_FOLDS
    if isinstance(cv, Integral):
        leak = find_cut_groups(cv, groups)
        if leak:
            leak.warn()
        return check_count("cv", cv, minimum=2)
    if callable(getattr(cv, "split", None)) and not isinstance(cv, str | bytes | type):
        return cv
    # An array of no dimension says it is iterable, and so do sparse ones.
    no_list = isinstance(cv, str | bytes | type) or issparse(cv)
    if no_list or not isinstance(cv, Iterable) or getattr(cv, "ndim", 1) == 0:
        raise TypeError(
            f"Invalid value for 'cv': {cv!r}. Allowed: None, a number of folds, a "
            "scikit-learn splitter, or an iterable of (train, test) index arrays."
        )
    return cv


def _check_counts(cv, codes, groups, classes):
    """Refuse more folds than the smallest class, or than the groups, can fill."""
    repeated = getattr(cv, "cvargs", {})
    n_splits = getattr(cv, "n_splits", None) or repeated.get("n_splits")
    if isinstance(cv, (ms.StratifiedKFold, ms.RepeatedStratifiedKFold)):
        code, count = min(Counter(codes.tolist()).items(), key=lambda item: item[1])
        if count < n_splits:
            label = code if classes is None else classes[code]
            fewer = f"at most cv={count}, " if count > 1 else ""
            raise ValueError(
                f"Class {str(label)!r} has {count} trial{'s' * (count != 1)}, fewer "
                f"than the {n_splits} folds. Use {fewer}a splitter that is not "
                "stratified, or leave the class out."
            )
    n_groups = None if groups is None else len(np.unique(groups))
    if isinstance(cv, (ms.GroupKFold, ms.StratifiedGroupKFold)):
        if n_groups is not None and n_groups < n_splits:
            raise ValueError(
                f"{cv!r} needs at least {n_splits} groups; got {n_groups} groups. Use "
                "fewer folds, or cv=None to leave one group out at a time."
            )
    if isinstance(cv, ms.LeaveOneGroupOut) and n_groups == 1:
        raise ValueError(
            "Leaving one group out needs at least 2 groups; got 1 group. Use other "
            "groups, or a number of folds as cv."
        )


def _split(cv, name, codes, groups):
    """Run a splitter on labels and groups alone."""
    with warnings.catch_warnings():
        # Groups may be there for the permutations only.
        warnings.filterwarnings("ignore", message="The groups parameter is ignored")
        try:
            yield from cv.split(np.zeros((len(codes), 1)), codes, groups)
        except Exception as error:  # of anybody's splitter
            kind = "" if isinstance(error, ValueError) else f"{type(error).__name__}: "
            raise ValueError(
                f"{name} cannot split these {len(codes)} trials. Its split(X, y, "
                f"groups) should yield pairs (train, test); it says: {kind}{error}"
            ) from error


def _pairs(splits, known, name, n):
    """Yield the checked training and test sets; refuse more than can be meant.

    The splitter said that there are `known` splits, 0 if it did not.
    """
    n_tested, most = 0, max(known, n + _MOST_UNKNOWN)
    for number, pair in enumerate(splits):
        fold, tested = f"fold {number} of {name}", np.zeros(n, bool)
        try:
            train, test = pair
        except (TypeError, ValueError):
            raise ValueError(
                f"F{fold[1:]} is not a pair (train, test) of index arrays."
            ) from None
        train = _check_rows(train, f"The training set of {fold}", n)
        test = _check_rows(test, f"The test set of {fold}", n)
        tested[test] = True
        if tested[train].any():
            raise ValueError(
                f"F{fold[1:]} trains on some of its own test trials; training and test "
                "sets must be disjoint."
            )
        n_folds, n_tested = number + 1, n_tested + len(test)
        _refuse_tests(n_tested + max(0, known - n_folds), max(known, n_folds), name, n)
        if n_folds > most:
            says = "does not say how many there will be"
            if known:
                says = f"said that there would be {known:,}"
            raise ValueError(
                f"{name} yields more than {most:,} folds of {n} trials and {says}; it "
                "may never end. Pass a list, or a splitter with get_n_splits."
            )
        yield train, test


def _refuse_tests(n_tested, n_folds, name, n):
    """Refuse folds that test more trials than can be meant, one or more in each."""
    most = n + _MOST_TESTED
    if n_tested > most:
        raise ValueError(
            f"{name} makes {n_folds:,} folds or more of {n} trials, which test more "
            f"than {most:,} trials in all, counted every time. Use fewer folds."
        )


def _check_rows(rows, subject, n):
    """Return distinct row indices below n."""
    if np.ma.is_masked(rows):
        raise ValueError(f"{subject} has masked values; leave these trials out of it.")
    rows = np.asarray(rows)
    if rows.dtype == bool and rows.shape == (n,):
        rows = np.flatnonzero(rows)
    if rows.ndim != 1 or rows.size == 0 or rows.dtype.kind not in "iu":
        raise ValueError(
            f"{subject} must be a non-empty array of row indices or a boolean mask of "
            f"length {n}; got shape {rows.shape}, dtype {rows.dtype}."
        )
    if rows.min() < 0 or rows.max() >= n:
        raise ValueError(f"{subject} has indices outside 0..{n - 1}.")
    if np.bincount(rows).max() > 1:
        raise ValueError(f"{subject} names a trial twice.")
    return rows.astype(np.intp)


@dataclass(frozen=True)
class InnerFolds:
    """Which training trials are left out together, where labels choose a penalty."""

    #: Each trial's group, (n,).
    groups: np.ndarray | None
    #: Whether values are predicted, and not classes.
    of_values: bool = False

    @property
    def leaves_one_out(self):
        """Whether trials are left out one by one."""
        return self.groups is None or len(np.unique(self.groups)) == len(self.groups)

    def within(self, rows):
        """Test sets (k, m) by their size, of numbers among training trials `rows`."""
        groups = None if self.groups is None else self.groups[rows]
        # Values choose by default, also in a training set of one group.
        alone = self.of_values and len(np.unique(groups)) == 1
        if self.leaves_one_out or alone:
            return [np.arange(len(rows))[:, None]]
        names, numbers = np.unique(groups, return_inverse=True)
        if len(names) < 2:
            raise ValueError(
                "Tuning leaves one group out at a time within every training set, but "
                "some training set holds a single group. Use three or more groups, or "
                "a penalty that looks at no label, such as reg='auto'."
            )
        tests = [np.flatnonzero(numbers == i) for i in range(len(names))]
        return [batch.index(len(rows)) for batch in batch_tests(tests)]


# -------------------------------------------------------------------------- splitters


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
    """The entry of a class of scikit-learn's, None of any other."""
    name = kind.__name__
    return SPLITTERS.get(name) if kind is getattr(ms, name, None) else None


def sees_labels(cv):
    """Whether a splitter is known to use the labels."""
    known = filter(None, map(splitter_of, type(cv).__mro__))
    return any(each.sees_labels for each in known)


def may_see_labels(cv):
    """Whether a splitter uses the labels, for all that is known of it.

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
