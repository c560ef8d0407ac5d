"""How a kind of result is made: a frozen record that is documented and registered.

A class of results describes its own fields only. The docs that users read have those
of its bases as well, with shapes of its own, and its figures are functions of `viz`.
Fields hold arrays, and floats where there is a single number.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from typing import TYPE_CHECKING, Any, Concatenate, Generic, ParamSpec, TypeVar

import numpy as np

from ..utils.checks import collected_warnings

if TYPE_CHECKING:
    from typing_extensions import dataclass_transform  # typing's from Python 3.11 on
else:

    def dataclass_transform(**_):
        """Tell type checkers that a decorator makes dataclasses."""
        return lambda decorator: decorator


Kind = TypeVar("Kind")
Options = ParamSpec("Options")
Drawn = TypeVar("Drawn")

#: Name -> class of results; a file says by name what it holds.
RESULTS: dict[str, type[Any]] = {}

_PARAMETERS = re.compile(r"(?ms)^Parameters\n-+\n(.*?)(?=\n\n\S[^\n]*\n---|\Z)")
_EXAMPLES = re.compile(r"(?ms)\n\nExamples\n-+\n.*?(?=\n\n\S[^\n]*\n---|\Z)")


@dataclass_transform(frozen_default=True, kw_only_default=True, eq_default=False)
def record(cls: type[Kind]) -> type[Kind]:
    """Make a class of frozen objects that are made of keywords."""
    return dataclass(frozen=True, kw_only=True, repr=False, eq=False)(cls)


@dataclass_transform(frozen_default=True, kw_only_default=True, eq_default=False)
def result_kind(cls: type[Kind]) -> type[Kind]:
    """Make a record, describe the fields that it inherits, and register it."""
    cls = record(cls)
    cls.__doc__ = _complete(cls)
    RESULTS[cls.__name__] = cls
    return cls


def _complete(cls):
    """The docs of a class with all fields: new ones first, then inherited."""
    doc = inspect.cleandoc(cls.__doc__)
    inherited, own = {}, _described(cls)
    for base in reversed(cls.__mro__[1:]):
        inherited |= _described(base)  # the nearest description, at the oldest's place
    new = {name: text for name, text in own.items() if name not in inherited}
    fields = new | inherited | own
    axes = getattr(cls, "axes", None)
    if own and isinstance(axes, dict):
        sizes = [re.search(r"shape \((\w+),\)", fields[name])[1] for name in axes]
        fields = {name: _with_sizes(text, sizes) for name, text in fields.items()}
    return _PARAMETERS.sub(
        lambda section: section[0].replace(section[1], "\n".join(fields.values())), doc
    )


def _described(cls):
    """Map the fields that a class itself describes to their texts."""
    section = _PARAMETERS.search(inspect.cleandoc(vars(cls).get("__doc__") or ""))
    texts = re.split(r"\n(?=\S)", section[1]) if section else ()
    return {text.partition(" : ")[0]: text for text in texts}


def _with_sizes(text, sizes):
    """Put the sizes along the axes of a map in the place of "positions..."."""

    def shape(match):
        parts = match[1].split(", ")
        at = parts.index("positions...")
        parts[at : at + 1] = sizes
        return f"({', '.join(parts)}{',' * (len(parts) == 1)})"

    return re.sub(r"\(([^()]*positions\.\.\.[^()]*)\)", shape, text)


def keeps_warnings(function: Callable[Options, Kind]) -> Callable[Options, Kind]:
    """Let the result of a public function keep the warnings that the call gave."""

    @wraps(function)
    def call(*args, **options):
        with collected_warnings() as texts:
            result = function(*args, **options)
        # The one way to set a field of a frozen object.
        object.__setattr__(result, "warnings", tuple(dict.fromkeys(texts)))
        return result

    return call


class figure_method(Generic[Options, Drawn]):
    """A figure of `viz` as a method: ``plot = figure_method(plot_time)`` in a class.

    It takes the name that it is given there. Its docs leave out the result, which is
    the object itself, and the examples, which call the function.
    """

    def __init__(self, function: Callable[Concatenate[Any, Options], Drawn]) -> None:
        self._function = function

    if TYPE_CHECKING:  # what it is in a class, for type checkers

        def __get__(self, result: Any, kind: Any) -> Callable[Options, Drawn]: ...

    def __set_name__(self, owner, name):
        """Put the method into the class, in the place of this object."""
        function = self._function

        @wraps(function)
        def call(self, *args, **options):
            return function(self, *args, **options)

        signature = inspect.signature(function)
        first, *others = signature.parameters.values()
        parameters = [first.replace(name="self"), *others]
        call.__signature__ = signature.replace(parameters=parameters)
        call.__name__, call.__qualname__ = name, f"{owner.__qualname__}.{name}"
        call.__module__ = owner.__module__
        call.__doc__ = _without_first(inspect.cleandoc(function.__doc__ or ""))
        setattr(owner, name, call)


def _without_first(doc):
    """The docs of a function without its first parameter and its examples."""
    doc = re.sub(r"(\nParameters\n-+\n)\S.*\n(?: .*\n)+", r"\1", doc, count=1)
    return _EXAMPLES.sub("", doc)


# ------------------------------------------------------------------ values of fields


def plain(value):
    """An array, or a Python float where there is a single number."""
    value = np.asarray(value)
    return float(value) if value.ndim == 0 else value


def plain_values(values):
    """A dict with arrays, or floats where there are single numbers."""
    return {name: plain(value) for name, value in values.items()}


def arrays(values):
    """A dict with arrays."""
    return {name: np.asarray(value) for name, value in values.items()}


def optional_array(value):
    """An array, or None."""
    return None if value is None else np.asarray(value)


#: Annotation of a field of a map -> what makes its value of one from a file.
CONVERTED = {
    "NDArray": optional_array,
    "NDArray | None": optional_array,
    "dict[str, NDArray]": arrays,
    "tuple[str, ...]": tuple,
    "tuple[str, str]": lambda names: tuple(map(str, names)),
    "float": float,
    "int": int,
}
