"""What is known of every trial beside its label: confounds, and whether to train on it.

Both are given as arrays, or by the columns of a table: an epoch's metadata, or the
table of the images' labels.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from ..utils.advice import COMPLEX
from ..utils.checks import check_per_trial, native, quoted, refuse_masked, trimmed
from .epochs import per_epoch
from .tables import evaluate_expression, trimmed_table

#: How users give confounds.
Confounds = ArrayLike | pd.DataFrame | str | Sequence[str] | None


@dataclass(frozen=True, eq=False)
class TrainOn:
    """Which trials to train with; the others are tested."""

    mask: np.ndarray  #: (n,)
    query: str | None  #: what chose them; None for a mask

    @property
    def given(self):
        """How messages begin."""
        return "train_on" if self.query is None else f"train_on={self.query!r}"

    @property
    def record(self):
        """How a result records it."""
        return "mask" if self.query is None else self.query

    def split(self, values, axis=0):
        """Return values of the trials to train with, and those of the others."""
        if values is None:
            return None, None
        if isinstance(values, ConfoundTable):
            return values[self.mask], values[~self.mask]
        parts = self.mask, ~self.mask
        return tuple(np.compress(part, values, axis) for part in parts)

    def split_labels(self, y):
        """Return labels to train with and those of the others, which hold no more."""
        labels, others = self.split(check_per_trial(y, len(self.mask), "y"))
        absent = np.setdiff1d(others, labels)
        if len(absent):
            raise ValueError(
                f"{self.given} selects no trial of class {str(absent[0])!r}, which is "
                "among the trials to be tested: no model can predict it. Leave these "
                "trials out, or select some to train with."
            )
        return labels, others

    def of(self, kept):
        """Return the same of some of the trials, once both kinds are among them."""
        return _check_both(replace(self, mask=self.mask[kept]))


#: How messages word which table is asked, that there is none, and what its rows are.
_NO_TABLE = "a table of the trials", "there is none here", "trials"
_OF_EPOCHS = "epochs.metadata", "these epochs have none", "epochs"
OF_IMAGES = "the table of y", "y is not given as (table, column)", "images"


def read_train_on(given, n, table=None, words=_NO_TABLE):
    """Return the `TrainOn` of n trials, chosen by a mask or a query; None for None."""
    if given is None:
        return None
    if isinstance(given, str):
        return _choose_by_query(given, n, table, *words)
    return _check_both(_read_mask(given, n))


def train_on_of_epochs(epochs, given, chosen):
    """Return the `TrainOn` of chosen epochs, of which queries ask the metadata.

    A mask holds one value for each of all `epochs`.
    """
    if given is None:
        return None
    if isinstance(given, str):
        table, n = chosen.epochs.metadata, len(chosen.epochs)
        return _choose_by_query(given, n, table, *_OF_EPOCHS)
    return _read_mask(given, len(epochs)).of(chosen.kept)


def _choose_by_query(query, n, table, owner, none, trials):
    """Return the `TrainOn` of the rows of a table for which a query is true."""
    if table is None:
        raise ValueError(
            f"train_on={query!r} asks {owner}, but {none}. Pass a mask instead: an "
            f"array with True for each of the {n} {trials} to train on, and False for "
            "the others."
        )
    columns = quoted(map(str, table.columns))
    no_query = f"train_on={query!r} is no query on the columns {columns}"
    try:
        table = trimmed_table(table.reset_index(drop=True))
        mask = evaluate_expression(table, query)
        if getattr(mask, "dtype", None) == "boolean":  # with missing values
            mask = mask.fillna(False)
        mask = np.asarray(mask)
    except ValueError as error:
        raise ValueError(f"{no_query}: {error}") from error
    if mask.shape != (n,) or mask.dtype != bool:
        raise ValueError(
            f"{no_query}: it is not true or false for each of the {n} {trials}."
        )
    hint = f" The columns are: {columns}."
    return _check_both(TrainOn(mask, query), trials, hint)


def _read_mask(given, n):
    """Return the `TrainOn` of an array with one boolean for each of n trials."""
    refuse_masked("train_on", given, n)
    try:
        mask = np.asarray(given)
    except ValueError as error:
        raise ValueError(f"train_on is no array of booleans: {error}") from error
    if mask.dtype == object and all(isinstance(x, bool | np.bool_) for x in mask.flat):
        mask = mask.astype(bool)
    if mask.dtype != bool:
        raise TypeError(
            "train_on must hold booleans, True for each trial to train with and False "
            f"for the others; got {type(given).__name__} with dtype {mask.dtype}. "
            "Compare to have them, e.g. train_on=(condition == 'seen')."
        )
    if mask.shape != (n,):
        raise ValueError(
            f"train_on has shape {mask.shape} for {n} trials. Pass one boolean for "
            "each trial."
        )
    return TrainOn(mask, None)


def _check_both(train_on, trials="trials", hint=""):
    """Refuse all trials, and none."""
    mask = train_on.mask
    if mask.all() or not mask.any():
        which = "all" if mask.any() else "none"
        raise ValueError(
            f"{train_on.given} selects {which} of the {len(mask)} {trials}; some have "
            f"to be left to train with and some to test on.{hint}"
        )
    return train_on


@dataclass(frozen=True, eq=False)
class Confound:
    """One confound, as the columns by which it is regressed out."""

    label: str | None  #: the name of its column; None in an array
    place: int | None  #: which column of an array it is; None if there is just one
    #: The numbers (n, 1), or an indicator of every category (n, categories).
    columns: np.ndarray
    categories: tuple = ()  #: what the indicators are of; empty for numbers

    @property
    def name(self):
        """What messages call it."""
        if self.label is not None:
            return f"the column {self.label!r}"
        return (
            "the array" if self.place is None else f"column {self.place} of the array"
        )

    @property
    def size(self):
        """How many directions of the trials it takes out."""
        return max(1, len(self.categories) - 1)

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
        numbers = np.repeat(
            [not one.categories for one in self.each],
            [one.columns.shape[1] for one in self.each],
        )
        centre = np.where(numbers, columns.mean(axis=0), 0.0)
        spread = np.abs(columns - centre).max(axis=0)
        return centre, np.where(spread > 0, spread, 1.0)

    @property
    def size(self):
        """How many directions of the trials they take out, but for collinear ones."""
        return sum(one.size for one in self.each)

    def __getitem__(self, rows):
        """Return the confounds of some trials."""
        return ConfoundTable(
            tuple(replace(one, columns=one.columns[rows]) for one in self.each)
        )

    def record(self):
        """Return what a result records of them: what each is called, and taken for."""
        return [{"name": one.label, "taken_as": one.taken_as} for one in self.each]


def read_confounds(given, n, column_of=None):
    """Return confounds as columns of numbers.

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
    columns = _columns(given, n, column_of)
    return ConfoundTable(tuple(_read_confound(*each, n) for each in columns))


def confounds_of_epochs(epochs, given):
    """Return the `ConfoundTable` of epochs, perhaps of columns of the metadata."""

    def column_of(name):
        per_epoch(epochs, name, "confounds")  # refuses what there is not
        return epochs.metadata[name]

    return read_confounds(given, len(epochs), column_of)


def _columns(given, n, column_of):
    """Return of every confound its name, its place in an array, and values (n,)."""
    if isinstance(given, str):
        given = [given]
    names = isinstance(given, list | tuple) and all(isinstance(x, str) for x in given)
    if names and len(given) and (len(given) != n or column_of is None):
        if column_of is None and len(given) != n:
            raise TypeError(
                f"confounds={given!r} names columns, but there is no table here. Pass "
                "an array with one value, or one row of values, for each trial."
            )
        if column_of is not None:
            return [(name, None, column_of(name)) for name in given]
    if isinstance(given, pd.DataFrame):
        names = map(str, given.columns)
        return [(name, None, given.iloc[:, i]) for i, name in enumerate(names)]
    values = given
    if not isinstance(getattr(given, "dtype", None), pd.CategoricalDtype):
        values = _as_array(given)
    if values.ndim not in (1, 2) or len(values) != n or values.size == 0:
        raise ValueError(
            f"confounds has shape {values.shape} for {n} trials. Pass one value, "
            f"shape ({n},), or one row of values, shape ({n}, k), for each trial."
        )
    if values.ndim == 1:
        return [(None, None, values)]
    return [(None, place, column) for place, column in enumerate(values.T)]


def _as_array(given):
    """Return values as an array, of objects where numbers are beside texts."""
    try:
        values = np.asarray(given)
        if values.ndim == 2 and values.dtype.kind in "US":
            values = np.asarray(given, object)  # numbers beside texts stay numbers
    except ValueError as error:
        raise ValueError(
            f"confounds has rows of different lengths: {error}. Pass one value, or one "
            "row of values, for each trial."
        ) from error
    return values


def _read_confound(label, place, values, n):
    """Return a column of values (n,) as a `Confound`: numbers, or categories."""
    confound = Confound(label, place, np.empty(0))
    categorical = isinstance(getattr(values, "dtype", None), pd.CategoricalDtype)
    column = pd.Series(trimmed(native(np.asarray(values)))).infer_objects()
    _check_column(column, n, confound.name)
    if column.dtype.kind in "iuf" and not categorical:
        return replace(confound, columns=column.to_numpy(np.float64)[:, np.newaxis])
    if column.nunique() == n:
        raise ValueError(
            f"confounds: {confound.name} has a category of its own for each of the {n} "
            f"trials ({quoted(map(str, column[:3]))}, ...), so that it would explain "
            "everything. Use numbers, or fewer categories."
        )
    # An indicator of every category, so that one which no training trial has is alike
    # to none of the others, see `RemoveConfounds`.
    table = pd.get_dummies(column.astype(str))
    return replace(
        confound, columns=table.to_numpy(np.float64), categories=tuple(table.columns)
    )


def _check_column(column, n, name):
    """Refuse columns of another length, with gaps, and those that never change."""
    if len(column) != n:
        raise ValueError(f"confounds: {name} has {len(column)} rows for {n} trials.")
    missing = np.array(column.isna())
    if column.dtype.kind in "fc":
        missing |= ~np.isfinite(column.to_numpy())
    if column.dtype.kind in "mM":
        raise TypeError(
            f"confounds: {name} holds dates or durations. Use numbers, such as the "
            "seconds since the first trial."
        )
    if missing.any():
        raise ValueError(
            f"confounds: {name} is missing or infinite for {missing.sum()} of {n} "
            f"trials (first: {np.flatnonzero(missing)[0]}). Fill in these values, or "
            "drop the trials first."
        )
    if column.nunique() == 1:
        raise ValueError(
            f"confounds: {name} is constant ({column.tolist()[0]!r} for all {n} "
            "trials), so that it explains nothing. Leave it out."
        )
    if column.dtype.kind == "c":
        raise TypeError(f"confounds: {name} is complex. Use real numbers. {COMPLEX}")
