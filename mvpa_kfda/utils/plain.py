"""What results record: objects by class name and arguments, and versions of packages.

A kernel, penalty, splitter or step is ``{"name": "RBF", "gamma": "median"}``: a file,
a JSON text and a comparison of two runs need nothing more. A function is
``{"function": "my_kernel"}``. Nothing is parsed to read it.
"""

import inspect
import os
import platform
import zlib
from dataclasses import fields, is_dataclass
from functools import cache
from importlib.metadata import version
from typing import ClassVar

import numpy as np


class Recorded:
    """What results record by the name of its class, and reports word."""

    #: Name -> class, of all that this package has.
    _known: ClassVar[dict[str, type]] = {}

    def __init_subclass__(cls, **options):
        super().__init_subclass__(**options)
        if cls.__module__.partition(".")[0] == __package__.partition(".")[0]:
            Recorded._known[cls.__name__] = cls

    @staticmethod
    def _words(given):
        """Word it for the methods section, by the arguments that are recorded."""
        return None


def known(record, kind=Recorded):
    """The class of a recorded object, None if it is of no such kind here."""
    found = Recorded._known.get(record["name"])
    return found if found is not None and issubclass(found, kind) else None


def recorded(value):
    """A value as numbers, texts, None, and lists and dicts of these.

    Examples
    --------
    >>> from sklearn.model_selection import KFold
    >>> from mvpa_kfda.utils.plain import recorded
    >>> recorded(KFold(5))
    {'name': 'KFold', 'n_splits': 5, 'random_state': None, 'shuffle': False}
    """
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    if isinstance(value, list | tuple):
        return [recorded(each) for each in value]
    if type(value) is dict:
        return {str(name): recorded(each) for name, each in value.items()}
    if isinstance(value, np.ndarray):
        plain = value if value.dtype.kind in "biufcSUmM" else value.astype(str)
        check = f"{zlib.crc32(np.ascontiguousarray(plain)):08x}"
        return {"name": "array", "shape": list(value.shape), "checksum": check}
    if callable(value) and hasattr(value, "__name__"):  # a function, or a class
        return {"function": getattr(value, "__qualname__", value.__name__)}
    given = {name: recorded(each) for name, each in _arguments(value).items()}
    return {"name": type(value).__name__, **given}


def _arguments(value):
    """The arguments that make an object, as far as it still knows them."""
    own = getattr(value, "_recorded_arguments", None)
    if own is not None:
        return own()
    if is_dataclass(value):
        kept = [each.name for each in fields(value) if each.init and each.repr]
        return {name: getattr(value, name) for name in kept}
    if hasattr(value, "get_params"):  # an estimator
        return value.get_params(deep=False)
    names = sorted(inspect.signature(type(value).__init__).parameters)
    # Splitters that repeat another one keep its arguments apart.
    known = {**getattr(value, "cvargs", {}), **getattr(value, "__dict__", {})}
    return {name: known[name] for name in names if name in known}


def is_record(value):
    """Tell the record of an object from other values."""
    return isinstance(value, dict) and isinstance(value.get("name"), str)


def as_call(value):
    """Write what `recorded` returned as Python would write the object.

    Examples
    --------
    >>> from mvpa_kfda.utils.plain import as_call
    >>> as_call({"name": "RBF", "gamma": 0.1})
    'RBF(gamma=0.1)'
    """
    if is_record(value):
        given = {name: each for name, each in value.items() if name != "name"}
        inside = ", ".join(f"{name}={as_call(each)}" for name, each in given.items())
        return f"{value['name']}({inside})"
    if isinstance(value, dict) and list(value) == ["function"]:
        return value["function"]
    if isinstance(value, dict):
        inside = (f"{name!r}: {as_call(each)}" for name, each in value.items())
        return f"{{{', '.join(inside)}}}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(as_call, value))}]"
    return repr(value)


# ---------------------------------------------------------------------------- versions


def versions():
    """The versions of everything that bears on the numbers."""
    from .. import __version__

    python = platform.python_version()
    return {"mvpa_kfda": __version__, "python": python, **_of_packages()}


@cache
def _of_packages():
    """The versions of packages; looking one up takes a millisecond or two."""
    packages = ("numpy", "scipy", "scikit-learn", "mne", "nilearn", "joblib")
    return {name: version(name) for name in packages}
