"""What is known of trials beside their data: labels, groups, confounds, training mask.

Given as arrays, or by the columns of a table: an epoch's metadata, or the table of the
images' labels. A reader of each kind of data makes `Trials` of them, and nobody behind
it asks what they were given as.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from ..utils.advice import COMPLEX
from ..utils.checks import check_per_trial, native, quoted, refuse_masked, trimmed
from .tables import evaluate_expression, trimmed_table

#: How users give confounds.
Confounds = ArrayLike | pd.DataFrame | str | Sequence[str] | None


@dataclass(frozen=True, eq=False, kw_only=True)
class Trials:
    """What is known of trials beside their data.

    Parameters
    ----------
    y : array_like, shape (n_trials,)
        Class labels: strings, whole numbers or booleans; two or more classes.
    groups : array_like, shape (n_trials,) | None
        Runs, sessions or subjects: ``cv=None`` leaves out one at a time, they are
        passed to splitters that use groups, and `permute` respects them.
    confounds : array_like, shape (n_trials,) | (n_trials, n_confounds) | None
        Regressed out of the features before `preprocess`, with coefficients estimated
        on the training trials of each fold. Strings and pandas categoricals are
        categorical, all others continuous. Only linear effects are removed: add squares
        and products as columns, and pass angles as sine and cosine.
    train_on : array_like of bool, shape (n_trials,) | None
        Which trials to train on; all others are test trials (cross-decoding). With
        `groups` or `cv`, each fold trains on these trials of its training set and tests
        on the others of its test set, so that whole runs are left out. Without either,
        one model is trained on all of them and tested on all others. Only the training
        labels are permuted (within groups, depending on `permute`): the null hypothesis
        is that the training trials carry no information about the test trials, which
        may well be decodable themselves. A relative `reg` and the bandwidth of a kernel
        refer to each training set. Not for regression.
    n : int
        The number of trials.
    numbers : ndarray of int, shape (n,) | None
        Those of the trials in the recording, where they are known.
    y_test : array_like, shape (n_trials,) | None
        Another labelling of the same trials, to be predicted in cross-validation.
    test : Trials | None
        Other trials, which a model trained on all of these is tested on; their labels
        may be missing.
    """

    y: ArrayLike | None
    n: int
    groups: ArrayLike | None = None
    confounds: ConfoundTable | None = None
    train_on: TrainOn | None = None
    numbers: np.ndarray | None = None
    y_test: ArrayLike | None = None
    test: Trials | None = None

    @property
    def recorded_order(self):
        """The rows in the order of recording, (n,); None if that is known to be theirs.

        Or not known to be another one.
        """
        order = None if self.numbers is None else np.argsort(self.numbers)
        return None if order is None or (np.diff(order) > 0).all() else order

    def take(self, rows):
        """Some of the trials, by a mask or indices."""
        taken = {"n": len(np.arange(self.n)[rows])}
        for name in ("y", "groups", "y_test", "confounds", "numbers", "train_on"):
            if (values := getattr(self, name)) is not None:
                given = name in ("y", "groups", "y_test")  # as users give them
                values = check_per_trial(values, self.n, name) if given else values
                taken[name] = values[rows]
        return replace(self, **taken)

    def parted(self):
        """The trials to train on, with all others as their test set, without folds."""
        mask, whole = self.train_on.mask, replace(self, train_on=None)
        self.train_on.check_labels(check_per_trial(self.y, self.n, "y"))
        return replace(whole.take(mask), test=whole.take(~mask))


@dataclass(frozen=True, eq=False)
class TrainOn:
    """Which trials to train on, some but not all; the others are tested."""

    mask: np.ndarray  #: (n,)
    query: str | None = None  #: what chose them; None for a mask
    noun: str = "trials"  #: what a message calls them
    hint: str = ""  #: how a message about the choice goes on

    def __post_init__(self):
        """Refuse all trials, and none."""
        if self.mask.all() or not self.mask.any():
            which = "all" if self.mask.any() else "none"
            raise ValueError(
                f"{self.given} selects {which} of the {len(self.mask)} {self.noun}; "
                f"some have to be left to train on and some to test on.{self.hint}"
            )

    @property
    def given(self):
        """How messages begin."""
        return "train_on" if self.query is None else f"train_on={self.query!r}"

    @property
    def record(self):
        """How a result records it."""
        return "mask" if self.query is None else self.query

    def __getitem__(self, rows):
        """The same for some of the trials, once both kinds are among them."""
        return replace(self, mask=self.mask[rows])

    def check_labels(self, y):
        """Refuse classes (n,) of tested trials that no trial to train on has."""
        if len(absent := np.setdiff1d(y[~self.mask], y[self.mask])):
            raise ValueError(
                f"{self.given} selects no trial of class {str(absent[0])!r}, which is "
                "among the trials to be tested. Leave these out, or select some."
            )


#: How messages word which table is asked, that there is none, and what its rows are.
_NO_TABLE = "a table of the trials", "there is none here", "trials"
OF_EPOCHS = "epochs.metadata", "these epochs have none", "epochs"
OF_IMAGES = "the table of y", "y is not given as (table, column)", "images"


def make_trials(
    y, n, groups=None, confounds=None, train_on=None, *of_table, column_of=None
):
    """The `Trials` of values, or of columns of a table and words about this.

    `column_of` is what `read_confounds` takes.
    """
    confounds = read_confounds(confounds, n, column_of)
    train_on = read_train_on(train_on, n, *of_table)
    return Trials(y=y, n=n, groups=groups, confounds=confounds, train_on=train_on)


def read_train_on(given, n, table=None, words=_NO_TABLE):
    """The `TrainOn` of n trials, chosen by a mask or a query; None for None."""
    if given is None:
        return None
    if isinstance(given, str):
        owner, none, noun = words
        if table is None:
            raise ValueError(
                f"train_on={given!r} asks {owner}, but {none}. Pass a mask instead: an "
                f"array with True for each of the {n} {noun} to train on."
            )
        columns = quoted(map(str, table.columns))
        no_query = f"train_on={given!r} is no query on the columns {columns}"
        try:
            table = trimmed_table(table.reset_index(drop=True))
            mask = evaluate_expression(table, given)
            if getattr(mask, "dtype", None) == "boolean":  # with missing values
                mask = mask.fillna(False)
            mask = np.asarray(mask)
        except ValueError as error:
            raise ValueError(f"{no_query}: {error}") from error
        if mask.shape != (n,) or mask.dtype != bool:
            raise ValueError(f"{no_query}: it is not true or false for each.")
        return TrainOn(mask, given, noun, f" The columns are: {columns}.")
    refuse_masked("train_on", given, n)
    try:
        mask = np.asarray(given)
    except ValueError as error:
        raise ValueError(f"train_on is no array of booleans: {error}") from error
    if mask.dtype == object and all(isinstance(x, bool | np.bool_) for x in mask.flat):
        mask = mask.astype(bool)
    if mask.dtype != bool:
        raise TypeError(
            "train_on must hold booleans, True for each trial to train on; got "
            f"{type(given).__name__} with dtype {mask.dtype}. Use e.g. condition == 1."
        )
    if mask.shape != (n,):
        shape = f"train_on has shape {mask.shape} for {n} trials."
        raise ValueError(f"{shape} Pass one boolean for each trial.")
    return TrainOn(mask)


@dataclass(frozen=True, eq=False)
class Confound:
    """One confound, as the columns by which it is regressed out."""

    label: str | None  #: the name of its column; None in an array
    name: str  #: what messages call it
    #: The numbers (n, 1), or an indicator of every category (n, categories).
    columns: np.ndarray
    categories: tuple = ()  #: what the indicators are of; empty for numbers

    @property
    def taken_as(self):
        """How it is understood."""
        return f"{len(self.categories)} categories" if self.categories else "a number"


@dataclass(frozen=True, eq=False)
class ConfoundTable:
    """All confounds of some trials."""

    each: tuple

    @property
    def columns(self):
        """The columns of all, (n, k)."""
        return np.concatenate([one.columns for one in self.each], axis=1)

    @property
    def unit(self):
        """The mean (k,) of numbers, and their largest distance from it.

        Zero and one for categories, which stay as they are.
        """
        columns = self.columns
        # One column of each number, two or more of categories.
        n = [max(1, len(one.categories)) for one in self.each]
        numbers = np.repeat([not one.categories for one in self.each], n)
        centre = np.where(numbers, columns.mean(axis=0), 0.0)
        spread = np.abs(columns - centre).max(axis=0)
        return centre, np.where(spread > 0, spread, 1.0)

    @property
    def size(self):
        """How many directions of the trials they take out, but for collinear ones."""
        return sum(max(1, len(one.categories) - 1) for one in self.each)

    def __getitem__(self, rows):
        """The confounds of some trials."""
        taken = [replace(one, columns=one.columns[rows]) for one in self.each]
        return ConfoundTable(tuple(taken))

    def record(self):
        """What a result records of them: what each is called, and taken for."""
        return [{"name": one.label, "taken_as": one.taken_as} for one in self.each]


def read_confounds(given, n, column_of=None):
    """Confounds as columns of numbers.

    Parameters
    ----------
    given : array_like, shape (n,) or (n, k) | DataFrame | str | list of str | None
        As users give them: values, or names of columns. Texts, booleans and pandas'
        categories are categories, all others numbers.
    n : int
        The number of trials.
    column_of : callable or None, default=None
        Returns the column (n,) of a name, where there is a table.

    Returns
    -------
    confounds : ConfoundTable | None
        None for none.
    """
    if given is None:
        return None
    refuse_masked("confounds", given, n)
    read = []
    for label, name, values in _columns(given, n, column_of):
        categorical = isinstance(getattr(values, "dtype", None), pd.CategoricalDtype)
        column = pd.Series(trimmed(native(np.asarray(values)))).infer_objects()
        _check_column(column, n, name)
        if column.dtype.kind in "iuf" and not categorical:
            numbers = column.to_numpy(np.float64)[:, np.newaxis]
            read.append(Confound(label, name, numbers))
            continue
        if column.nunique() == n:
            raise ValueError(
                f"confounds: {name} has a category of its own for each of the {n} "
                f"trials ({quoted(map(str, column[:3]))}, ...). Use fewer, or numbers."
            )
        # An indicator of every category, so that one which no training trial has is
        # alike to none of the others, see `RemoveConfounds`.
        table = pd.get_dummies(column.astype(str))
        indicators = table.to_numpy(np.float64)
        read.append(Confound(label, name, indicators, tuple(table.columns)))
    return ConfoundTable(tuple(read))


def _columns(given, n, column_of):
    """Of every confound its label, what messages call it, and its values (n,)."""
    if isinstance(given, str):
        given = [given]
    if isinstance(given, pd.DataFrame):
        named = [(str(x), given.iloc[:, i]) for i, x in enumerate(given.columns)]
        return [(label, f"the column {label!r}", values) for label, values in named]
    names = isinstance(given, list | tuple) and all(isinstance(x, str) for x in given)
    needed = f"Pass one value, shape ({n},), or one row of values, ({n}, k), per trial."
    if names and len(given) not in (0, n):  # as many as trials are their categories
        if column_of is not None:
            return [(x, f"the column {x!r}", column_of(x)) for x in given]
        no_table = "names columns, but there is no table here"
        raise TypeError(f"confounds={given!r} {no_table}. {needed}")
    values = given
    if not isinstance(getattr(given, "dtype", None), pd.CategoricalDtype):
        try:
            values = np.asarray(given)
            if values.ndim == 2 and values.dtype.kind in "US":
                values = np.asarray(given, object)  # numbers beside texts stay numbers
        except ValueError as error:
            lengths = f"confounds has rows of different lengths: {error}"
            raise ValueError(f"{lengths}. {needed}") from error
    if values.ndim not in (1, 2) or len(values) != n or values.size == 0:
        shape = f"confounds has shape {values.shape} for {n} trials"
        raise ValueError(f"{shape}. {needed}")
    if values.ndim == 1:
        return [(None, "the array", values)]
    return [(None, f"column {i} of the array", x) for i, x in enumerate(values.T)]


def _check_column(column, n, name):
    """Refuse columns of another length, with gaps, and those that never change."""
    if len(column) != n:
        raise ValueError(f"confounds: {name} has {len(column)} rows for {n} trials.")
    missing = np.array(column.isna())
    if column.dtype.kind in "fc":
        missing |= ~np.isfinite(column.to_numpy())
    if column.dtype.kind in "mM":
        since = "Use numbers, such as the seconds since the first trial."
        raise TypeError(f"confounds: {name} holds dates or durations. {since}")
    if missing.any():
        raise ValueError(
            f"confounds: {name} is missing or infinite for {missing.sum()} of {n} "
            f"trials (first: {np.flatnonzero(missing)[0]}). Fill in these values, or "
            "drop the trials first."
        )
    if column.nunique() == 1:
        constant = f"{name} is constant ({column.tolist()[0]!r} for all {n} trials)"
        raise ValueError(f"confounds: {constant} and explains nothing. Leave it out.")
    if column.dtype.kind == "c":
        raise TypeError(f"confounds: {name} is complex. Use real numbers. {COMPLEX}")
