"""What is known of every trial beside its label: confounds, and whether to train on it.

Both are given as arrays, or by the columns of a table: an epoch's metadata, or the
table of the images' labels.
"""

from collections.abc import Sequence

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from ..utils.checks import quoted
from .epochs import per_epoch

#: How users give confounds.
Confounds = ArrayLike | pd.DataFrame | str | Sequence[str] | None


def read_confounds(given, n, column_of=None):
    """Return confounds as columns of numbers (n, k); None for none.

    `column_of(name)` returns a column of the table at hand, (n,). Texts and booleans
    are categories: a column of zeros and ones for each but the first.
    """
    if given is None:
        return None
    columns = _columns(given, n, column_of)
    found = [_numbers(values, n, name) for name, values in columns.items()]
    return np.concatenate(found, axis=1)


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
