"""Labels and groups from arrays or from the columns of tables."""

import os
from pathlib import Path

import numpy as np
import pandas as pd

from .._checks import check_per_trial, quoted

#: What parts the columns of a table, by the ending of its name.
_SEPARATORS = {".tsv": "\t", ".csv": ","}


def read_labels(y, groups=None):
    """Return labels and groups as plain arrays.

    Parameters
    ----------
    y : array_like, shape (n_images,) | tuple (table, column)
        Labels, or where they are: a pandas DataFrame, or the path of a ``.tsv`` or
        ``.csv`` file (also with ``.gz``), and the name of a column. The index of a
        Series or DataFrame plays no part; rows are taken in their order.
    groups : array_like, shape (n_images,) | tuple (table, column) | str | None
        The same. A string names another column of the table in `y`.

    Returns
    -------
    y : ndarray, shape (n_images,)
        Labels. A categorical column gives its values.
    groups : ndarray, shape (n_images,) | None
        Groups.

    Raises
    ------
    ValueError, TypeError
        If values are missing, a column does not exist, a table cannot be read, or
        there is no table to take a column of.
    FileNotFoundError
        If there is no such file.

    Examples
    --------
    >>> table = pd.DataFrame({"label": ["face", "house"], "run": [1, 2]})
    >>> y, runs = read_labels((table, "label"), "run")
    >>> y.tolist(), runs.tolist()
    (['face', 'house'], [1, 2])
    """
    table = None
    if _is_reference(y):
        table = read_table(y[0], "y")
        y = _column(table, y[1], "y")
    elif isinstance(y, str | os.PathLike) or y is None:
        raise TypeError(
            f"y={y!r} holds no labels. Give an array with one label per image, or "
            "(table, column) with a DataFrame or the path of a .tsv or .csv file."
        )
    if isinstance(groups, str):
        if table is None:
            raise TypeError(
                f"groups={groups!r} names a column, but y is not (table, column). "
                "Give groups as an array, or as (table, column) too."
            )
        groups = _column(table, groups, "groups")
    elif _is_reference(groups):
        groups = _column(read_table(groups[0], "groups"), groups[1], "groups")
    y = _plain(y, "y")
    return y, None if groups is None else _plain(groups, "groups")


def _is_reference(value):
    """Tell whether a value is (table, column)."""
    kinds = (pd.DataFrame, str, os.PathLike)
    return isinstance(value, tuple) and len(value) == 2 and isinstance(value[0], kinds)


def read_table(table, name):
    """Return a DataFrame as it is, or read it from a file.

    Parameters
    ----------
    table : DataFrame | str | path
        The table, or a file whose name ends in .tsv or .csv, perhaps with .gz.
    name : str
        What the user calls the argument.

    Returns
    -------
    table : DataFrame
        With the names of the columns from the first line.

    Raises
    ------
    ValueError
        If the file is no table or has another ending.
    FileNotFoundError
        If there is no such file.
    """
    if isinstance(table, pd.DataFrame):
        return table
    path = Path(table).expanduser()
    ending = Path(path.stem if path.suffix == ".gz" else path.name).suffix.lower()
    if ending not in _SEPARATORS:
        raise ValueError(
            f"The table of {name} must be a DataFrame or a file whose name ends in "
            f".tsv or .csv, also with .gz; got {str(table)!r}."
        )
    if not path.is_file():
        raise FileNotFoundError(f"The table of {name}, {str(path)!r}, is no file.")
    try:
        return pd.read_csv(path, sep=_SEPARATORS[ending])
    # No text, no columns, lines of other lengths, or no gzip data after all.
    except (ValueError, OSError, EOFError) as error:
        raise ValueError(
            f"The table of {name}, {str(path)!r}, cannot be read: {error}"
        ) from error


def _column(table, column, name):
    """Return a column of a table, without missing values."""
    if column not in table.columns or isinstance(table[column], pd.DataFrame):
        what = "is not a" if column not in table.columns else "names more than one"
        raise ValueError(
            f"{column!r}, given for {name}, {what} column of the table. The columns "
            f"are: {quoted(table.columns.tolist())}."
        )
    missing = table[column].isna().to_numpy()
    if missing.any():
        raise ValueError(
            f"{name}: the column {column!r} is empty in {missing.sum()} of "
            f"{len(table)} rows (first: row {np.flatnonzero(missing)[0]}, counted from "
            "0). Drop these rows and their images, or fill in the values."
        )
    return table[column]


def _plain(values, name):
    """Return values of any 1-D container as an array of strings or numbers."""
    if isinstance(values, pd.DataFrame):
        raise TypeError(
            f"{name} is a DataFrame; give one column of it, {name}=table[column], or "
            f"{name}=(table, column)."
        )
    if not np.ma.isMaskedArray(values) and hasattr(values, "dtype"):
        values = np.asarray(values)  # a Series by position, categories as values
    try:
        n = len(values)
    except TypeError:
        raise TypeError(
            f"{name} must hold one value per image; got {values!r}."
        ) from None
    return check_per_trial(values, n, name)
