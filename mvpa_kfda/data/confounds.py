"""What is known of every trial beside its label: confounds, and whether to train on it.

Both are given as arrays, or by the columns of a table: an epoch's metadata, or the
table of the images' labels.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from ..utils.checks import check_per_trial, quoted
from .epochs import per_epoch

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
            f"train_on={query!r} asks {owner}, but {none}. Give a mask instead: an "
            f"array with True for each of the {n} {trials} to train with, and False "
            "for the others."
        )
    columns = quoted(map(str, table.columns))
    no_query = (
        f"train_on={query!r} is no query that pandas understands for the columns "
        f"{columns}"
    )
    try:
        mask = table.reset_index(drop=True).eval(query)
        if getattr(mask, "dtype", None) == "boolean":  # with missing values
            mask = mask.fillna(False)
        mask = np.asarray(mask)
    except Exception as error:  # pandas, its parser and the expression raise anything
        raise ValueError(f"{no_query}: {error}") from error
    if mask.shape != (n,) or mask.dtype != bool:
        raise ValueError(
            f"{no_query}: it is not true or false for each of the {n} {trials}."
        )
    hint = f" The columns are: {columns}."
    return _check_both(TrainOn(mask, query), trials, hint)


def _read_mask(given, n):
    """Return the `TrainOn` of an array with one boolean for each of n trials."""
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
            f"train_on has shape {mask.shape} for {n} trials. Give one boolean for "
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


def read_confounds(given, n, column_of=None):
    """Return confounds as columns of numbers.

    Parameters
    ----------
    given : array_like, shape (n,) or (n, k) | DataFrame | str | list of str | None
        As users give them: values, or names of columns. Texts and booleans are
        categories, and become a column of zeros and ones for each but the first.
    n : int
        The number of trials.
    column_of : callable or None, default=None
        Returns the column (n,) of a name, where there is a table.

    Returns
    -------
    confounds : ndarray, shape (n, k) | None
        None for none.
    """
    if given is None:
        return None
    return np.concatenate(list(read_each(given, n, column_of).values()), axis=1)


def read_each(given, n, column_of=None):
    """Return each confound's columns (n, m), by what it is called; {} for None."""
    columns = {} if given is None else _columns(given, n, column_of)
    return {name: _numbers(values, n, name) for name, values in columns.items()}


def confounds_of_epochs(epochs, given):
    """Return confounds (n_epochs, k), which may be columns of the metadata."""

    def column_of(name):
        return per_epoch(epochs, name, "confounds")

    return read_confounds(given, len(epochs), column_of)


def _columns(given, n, column_of):
    """Return columns of values (n,) by what they are called in messages."""
    if isinstance(given, str):
        given = [given]
    names = isinstance(given, list | tuple) and all(isinstance(x, str) for x in given)
    if names and len(given) and (len(given) != n or column_of is None):
        if column_of is None and len(given) != n:
            raise TypeError(
                f"confounds={given!r} names columns, but there is no table here. Give "
                "an array with one value, or one row of values, for each trial."
            )
        if column_of is not None:
            return {f"the column {name!r}": column_of(name) for name in given}
    if isinstance(given, pd.DataFrame):
        return {
            f"the column {name!r}": given.iloc[:, i].to_numpy()
            for i, name in enumerate(given.columns)
        }
    try:
        values = np.asarray(given)
        if values.ndim == 2 and values.dtype.kind in "US":
            values = np.asarray(given, object)  # numbers beside texts stay numbers
    except ValueError as error:
        raise ValueError(
            f"confounds has rows of different lengths: {error}. Give one value, or one "
            "row of values, for each trial."
        ) from error
    if values.ndim not in (1, 2) or len(values) != n or values.size == 0:
        raise ValueError(
            f"confounds has shape {values.shape} for {n} trials. Give one value, "
            f"shape ({n},), or one row of values, shape ({n}, k), for each trial."
        )
    if values.ndim == 1:
        return {"the array": values}
    return {f"column {i} of the array": column for i, column in enumerate(values.T)}


def _numbers(values, n, name):
    """Return a column as numbers (n, 1), or categories as (n, categories - 1)."""
    column = pd.Series(np.asarray(values)).infer_objects()
    if len(column) != n:
        raise ValueError(f"confounds: {name} has {len(column)} rows for {n} trials.")
    missing = np.array(column.isna())
    if column.dtype.kind in "fc":
        missing |= ~np.isfinite(column.to_numpy())
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
    if column.dtype.kind in "iuf":
        return column.to_numpy(np.float64)[:, np.newaxis]
    if column.dtype.kind == "c":
        raise TypeError(f"confounds: {name} is complex. Give real numbers.")
    if column.nunique() == n:
        raise ValueError(
            f"confounds: {name} has a category of its own for each of the {n} trials "
            f"({quoted(map(str, column[:3]))}, ...), so that it would explain "
            "everything. Give numbers, or fewer categories."
        )
    return pd.get_dummies(column.astype(str), drop_first=True).to_numpy(np.float64)
