"""Loading results of all kinds from files."""

from __future__ import annotations

from os import PathLike
from typing import Any

from ..utils.files import read_result_file
from . import epochs, group, images, latency  # noqa: F401
from .fields import RESULTS


def load_result(path: str | PathLike[str]) -> Any:
    """Load a result from a file written by its ``save`` method.

    Nothing in the file is ever executed: files that contain anything but plain numbers
    and text are rejected.

    Parameters
    ----------
    path : str or path-like
        The file.

    Returns
    -------
    result : DecodingResult, TimeResult or another class of result
        Equal to the result that was saved.

    Raises
    ------
    FileNotFoundError
        If the file does not exist.
    ValueError
        If the file is not a result file, is damaged, or has another (older or newer)
        version of the file format.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> import numpy as np
    >>> from mvpa_kfda import cross_validate, load_result
    >>> rng = np.random.default_rng(0)
    >>> X, y = rng.normal(size=(40, 5)), rng.permutation(["cat", "dog"] * 20)
    >>> result = cross_validate(X, y)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     result.save(Path(folder) / "result.h5")
    ...     load_result(Path(folder) / "result.h5") == result
    True
    """
    name, content = read_result_file(path)
    if name not in RESULTS:
        raise ValueError(
            f"{path} holds a {name}, which this version does not know. Allowed: "
            f"{', '.join(sorted(RESULTS))}."
        )
    try:
        return RESULTS[name](**content)
    # What fields of other types or shapes make of the class.
    except Exception as error:
        raise ValueError(
            f"{path} is damaged: its entries do not make a {name} ({error})."
        ) from error
