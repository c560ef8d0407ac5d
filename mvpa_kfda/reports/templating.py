"""What fills the templates of this room: prose, and HTML in which values are escaped.

The parts of a text stand between lines of four dashes; line breaks and indentation mean
no more than a space. Names that come from data pass through `name`.
"""

import re
from functools import cache
from pathlib import Path

import numpy as np

from ..utils.checks import (
    capital,
    counted,
    enumerated,
    plural,
    ranged,
    some_of,
    times_words,
)
from ..utils.plain import as_call
from ..utils.rounding import number, p_words
from ..utils.text import templates
from .citations import name

_FOLDER = Path(__file__).parent / "templates"
_PARTS = re.compile(r"^----$", re.MULTILINE)


class Record(dict):
    """The settings of a record; one that is not there is None."""

    def __missing__(self, field):
        return None


def all_of(values):
    """One number or those of several subjects, also of each run, in a flat list."""
    several = values if isinstance(values, list | tuple | np.ndarray) else [values or 0]
    return np.hstack(several).tolist()


def _is_finite(values):
    """Whether all numbers are there."""
    return bool(np.isfinite(values).all())


def _each(values, form):
    """Values put into a text, or given to a macro."""
    word = form if callable(form) else form.format
    return [" ".join(word(each).split()) for each in values]


def source(template):
    """The text of a template."""
    return (_FOLDER / template).read_text(encoding="utf-8")


@cache
def _environment():
    """The templates, compiled once."""
    words = (as_call, capital, counted, enumerated, name, number)
    words += (p_words, plural, ranged, some_of, times_words, zip)
    known = {each.__name__: each for each in words}
    known |= {"all": all_of, "each": _each, "is_finite": _is_finite}
    known["names"] = lambda values: [*map(name, values)]
    return templates(_FOLDER, **known)


def macro(template, name):
    """A macro of a template."""
    return getattr(_environment().get_template(template).module, name)


def written(template, **values):
    """The parts of a text, each in one line; those with nothing to say are left out."""
    parts = _PARTS.split(_environment().get_template(template).render(**values))
    return [words for part in parts if (words := " ".join(part.split()))]
