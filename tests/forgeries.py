"""Results of which one number or text at a time is another one."""

from dataclasses import fields, is_dataclass, replace

import numpy as np
from scipy.sparse import issparse


def parts_of(value, path=(), without=()):
    """Yield the paths to all numbers, texts and arrays of them, in nested values."""
    if is_dataclass(value):
        value = {f.name: getattr(value, f.name) for f in fields(value) if f.init}
    if isinstance(value, dict):
        for name, each in value.items():
            if name not in without:
                yield from parts_of(each, (*path, name), without)
    elif isinstance(value, list | tuple) and value and not isinstance(value[0], str):
        for number, each in enumerate(value):
            yield from parts_of(each, (*path, number), without)
    elif not issparse(value) and np.size(value):
        if np.asarray(value).dtype.kind in "biufU":
            yield path


def changed(value, path, rng=None):
    """Return a copy in which a number or text at a path is another one.

    The last of an array, or one that is drawn.
    """
    if path:
        name, *rest = path
        if is_dataclass(value):
            return replace(value, **{name: changed(getattr(value, name), rest, rng)})
        keys = value.keys() if isinstance(value, dict) else range(len(value))
        items = {
            k: changed(value[k], rest, rng) if k == name else value[k] for k in keys
        }
        return items if isinstance(value, dict) else type(value)(items.values())
    if isinstance(value, list | tuple):
        return type(value)([*value[:-1], "another"])
    if not np.ndim(value):
        if isinstance(value, str):
            return f"{value} too"
        if isinstance(value, bool | np.bool_):
            return not value
        value = 0.5 if np.isnan(value) else value
        return value + 1 if isinstance(value, int) else value * 1.01 + 0.001
    values = np.array(value)
    at = -1 if rng is None else rng.integers(values.size)
    if values.dtype.kind == "U":
        values = values.astype(object)
        values.flat[at] = "another"
        return values.astype(str)
    if values.dtype.kind in "biu":
        values.flat[at] ^= 1
    else:
        here = values.flat[at]
        values.flat[at] = 0.4321 if np.isnan(here) else here + 0.02
    return values
