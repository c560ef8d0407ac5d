"""Two results field by field: what a file says, and what was computed."""

import re
from dataclasses import dataclass, fields, is_dataclass

import numpy as np
from scipy.sparse import coo_array, issparse

from ..results.patterns import unpack_info

#: Fields that other versions, other names of files and other words change.
_NOT_COMPARED = ("versions", "inputs", "options")
#: Fields of texts, in which every version has words of its own.
_TEXTS = ("warnings", "subject_warnings")
#: How nearly numbers must agree, by the precision of the run.
TOLERANCES = {"float64": 1e-6, "float32": 1e-3}
#: How nearly scores must agree that are kept in single precision.
OF_SINGLE = 2e-6


@dataclass
class Difference:
    """What differs in a field."""

    #: The field, and the names or numbers inside of it.
    path: tuple
    stored: object
    again: object
    #: Where arrays of one shape differ, (n, axes).
    where: np.ndarray | None = None

    def word(self):
        """Say it."""
        stored, again, at = self.stored, self.again, ""
        if self.where is not None:
            first = tuple(self.where[0])
            stored, again = (np.asarray(x)[first] for x in (stored, again))
            at = f" at {', '.join(map(str, first))}" if first else ""
        name = ".".join(map(str, self.path))
        return f"{name} is {_word(stored)}{at}, and {_word(again)} when computed again"


def _word(value):
    """A value of a field in few words."""
    if isinstance(value, np.ndarray) and value.ndim:
        if value.size > 5:
            return f"an array of {' x '.join(map(str, value.shape))}"
        value = value.tolist()
    value = value.item() if isinstance(value, np.generic | np.ndarray) else value
    if isinstance(value, float):
        return f"{value:.6g}"
    text = repr(value)
    return text if len(text) < 80 else f"{text[:76]} ..."


def _version_of(result):
    """The version of the package that made a result."""
    return dict(result.versions).get("mvpa_kfda")


def notes_on_words(result, other):
    """Which texts are not compared, as they are those of another version."""
    version = _version_of(result)
    if version == _version_of(other):
        return []
    return [f"Warnings, in the words of mvpa_kfda {version}, were not compared."]


def differences(result, other, tolerance, rounded=False):
    """Yield every `Difference` of two results.

    In `rounded` ones warnings may have other numbers.
    """
    if type(result) is not type(other):
        yield Difference(("type",), type(result).__name__, type(other).__name__)
        return
    left_out = _NOT_COMPARED
    if _version_of(result) != _version_of(other):
        left_out += _TEXTS
    for name in (each.name for each in fields(result) if each.name not in left_out):
        pair = [getattr(each, name) for each in (result, other)]
        if name == "parameters":  # of a dataset, of which a function knows nothing
            pair = [{k: v for k, v in x.items() if k != "recordings"} for x in pair]
        if name == "warnings":
            pair = [_texts(x, rounded) for x in pair]
        if name == "info_fif" and not np.array_equal(*pair):
            pair = [_sensors(x) for x in pair]
        yield from compared(*pair, (name,), tolerance)


def _texts(texts, rounded):
    """Warnings in any order, perhaps without their numbers."""
    return sorted(re.sub(r"[\d.]+", "#", text) if rounded else text for text in texts)


def _sensors(info_fif):
    """Names, types and places of sensors."""
    if info_fif is None:
        return None
    try:
        info = unpack_info(info_fif)
        places = np.array([each["loc"] for each in info["chs"]])
        return {
            "names": info["ch_names"],
            "types": info.get_channel_types(),
            "at": places,
        }
    except Exception:  # MNE's own, of a file that was edited
        return "what nobody can read"


def _plain(value):
    """What an object is made of: arrays, texts, numbers, dicts and lists."""
    if issparse(value):
        value = coo_array(value).tocsr()
        value.sort_indices()
        return {n: getattr(value, n) for n in ("shape", "indptr", "indices", "data")}
    if is_dataclass(value) and not isinstance(value, type):
        return {f.name: getattr(value, f.name) for f in fields(value) if f.compare}
    return value


def compared(stored, again, path, tolerance):
    """Yield the differences of two values."""
    stored, again = map(_plain, (stored, again))
    if isinstance(stored, dict) and isinstance(again, dict):
        # The order counts: the first metric is the one that a result shows.
        if list(map(str, stored)) != list(map(str, again)):
            yield Difference(path, list(stored), list(again))
            return
        for name, value in stored.items():
            yield from compared(value, again[name], (*path, name), tolerance)
        return
    kinds = (list, tuple)
    if isinstance(stored, kinds) and isinstance(again, kinds):
        if len(stored) != len(again):
            yield Difference((*path, "length"), len(stored), len(again))
            return
        for i, values in enumerate(zip(stored, again, strict=True)):
            yield from compared(*values, (*path, i), tolerance)
        return
    if (stored is None) != (again is None):
        yield Difference(path, stored, again)
        return
    one, two = map(np.asarray, (stored, again))
    if one.shape != two.shape or {one.dtype.kind, two.dtype.kind} & {*"OUSmM"}:
        if not np.array_equal(one.astype(str), two.astype(str)):
            yield Difference(path, stored, again)
        return
    where = np.argwhere(~_alike(one, two, tolerance))
    if len(where):
        yield Difference(path, stored, again, where)


def _alike(stored, again, tolerance):
    """Where two arrays of numbers are the same but for rounding."""
    if {stored.dtype.kind, again.dtype.kind} <= {*"biu"}:
        return stored == again
    stored, again = stored.astype(float), again.astype(float)
    finite = np.abs(again[np.isfinite(again)])
    # Small numbers beside large ones of a map have their rounding.
    size = np.maximum(np.abs(again), 1e-2 * finite.max(initial=0))
    with np.errstate(invalid="ignore"):
        near = np.abs(stored - again) <= tolerance * size
    return near | (stored == again) | (np.isnan(stored) & np.isnan(again))
