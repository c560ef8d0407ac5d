"""Results of every kind as datasets of xarray, from their tables, axes and fields."""

import json
from dataclasses import fields
from numbers import Integral, Real

import numpy as np

from ..metrics.scores import METRICS
from ..utils.axes import AXES
from ..utils.plain import as_call, is_record

#: Coordinate -> its unit.
_UNITS = {axis.column: axis.unit for axis in AXES.values() if axis.unit}
_UNITS |= dict.fromkeys("xyz", "mm")
#: Field of arrays by position -> dimensions before and after those of the positions.
_FIELDS = {
    "predicted": ((), ("trial",)),
    "class_scores": ((), ("trial", "class")),
    "subject_scores": (("subject",), ()),
    "other_scores": (("other_subject",), ()),
}
#: Field of maps by metric -> the dimension after those of the positions.
_FIELDS_BY_METRIC = {"fold_metrics": "fold", "repeats": "repeat"}
#: Field -> the dimension that its values, one for each, are coordinates of.
_LABELS = {
    "classes": "class",
    "subjects": "subject",
    "other_subjects": "other_subject",
    "groups": "trial",
}
#: Dimensions of matrices of classes.
_CONFUSION = METRICS["confusion_matrix"].along
_LARGEST = 2**31 - 1  # integer in an attribute of a netCDF file of version 3


def make_dataset(result, table):
    """A dataset of a result, whose table has one row per position."""
    try:
        import xarray
    except ImportError:
        raise ImportError(
            "to_xarray needs the package xarray, which is not installed. Install it "
            "by: pip install xarray"
        ) from None
    places = result.places
    if places is None:  # no map
        dataset = _rows(table)
    else:
        dims = tuple(_dimensions(places).values())
        coords, variables = _coordinates(places), _maps(result, table, places, dims)
        variables |= _others(result, dims)
        used = {name for names, *_ in variables.values() for name in names}
        coords |= _labels(result, used, variables)
        dataset = xarray.Dataset(variables, coords)
    dataset.attrs = _attributes(result)
    return dataset


def _rows(table):
    """The rows of a table without positions, by its columns of text."""
    texts = [name for name in table if name not in table.select_dtypes("number")]
    dataset = table.astype(dict.fromkeys(texts, object)).set_index(texts).to_xarray()
    plain = {name: dataset[name].to_numpy().astype(str) for name in texts}
    return dataset.assign_coords(plain)


def _dimensions(places):
    """Map the axes of a map to the names of dimensions."""
    of_brain = {} if places.geometry is None else {"positions": places.geometry.noun}
    return {axis: of_brain.get(axis, name) for axis, name in places.axes.items()}


def _coordinates(places):
    """The coordinates along all axes of a map."""
    coords = {}
    for axis, dim in _dimensions(places).items():
        columns = {dim: places.coordinates[axis]}
        if places.geometry is not None and axis == "positions":
            columns = places.geometry.columns()
        for name, values in columns.items():
            unit = {"units": _UNITS[name]} if name in _UNITS else {}
            coords[name] = (dim,), _plain(values), unit
    return coords


def _maps(result, table, places, dims):
    """The columns of a table as maps, with chance levels as attributes."""
    maps = {}
    for name in table.columns.difference([*places.columns()], sort=False):
        values = table[name].to_numpy().reshape(places.shape)
        chance = result.chances.get(name, np.nan)
        known = name != "statistic" and np.isfinite(chance)
        levels = {"chance": float(chance)} if known else {}
        if known and np.isfinite(permuted := result.permuted_mean(name)):
            levels["permuted_mean"] = permuted
        maps[name] = dims, _plain(values), levels
    for name, values in result.metrics.items():
        if not result._is_scalar(name):
            is_matrix = np.ndim(values) == len(dims) + len(_CONFUSION)
            along = _CONFUSION if is_matrix else METRICS[name].along
            maps[name] = (*dims, *along), np.asarray(values)
    return maps


def _others(result, dims):
    """Fields that hold more than one value for each position."""
    others, known = {}, vars(result)
    for field, (before, after) in _FIELDS.items():
        values = known.get(field)
        names = (*before, *dims, *after)
        if values is not None and np.ndim(values) == len(names):
            others[field] = names, _plain(values)
    for field, dim in _FIELDS_BY_METRIC.items():
        for metric, values in known.get(field, {}).items():
            if np.ndim(values) == len(dims) + 1:
                others[f"{metric}_{dim}s"] = (*dims, dim), _plain(values)
    return others


def _labels(result, used, variables):
    """Names along dimensions that are no axes of the map."""
    sizes = {
        name: size
        for names, values, *_ in variables.values()
        for name, size in zip(names, np.shape(values), strict=True)
    }
    coords = {}
    for field, dim in _LABELS.items():
        values = vars(result).get(field)
        if values is None or len(values) == 0:
            continue
        if dim in used and sizes[dim] == len(values):
            name = "group" if field == "groups" else dim
            coords[name] = (dim,), _plain(values)
        if field == "classes":
            for name in (*_CONFUSION, "class"):
                if name in used or name == "class":
                    coords[name] = (name,), _plain(values)
    if "pair" in used:
        names = [" / ".join(map(str, pair)) for pair in result.pairs]
        coords["pair"] = ("pair",), _plain(names)
    return coords


def _plain(values):
    """An array of numbers or of text."""
    values = np.asarray(values)
    return values if values.dtype.kind in "biufU" else values.astype(str)


def _attributes(result):
    """What was asked for, and versions, as numbers and texts."""
    # Files have attributes of their own, such as "mode": no parameter may be one.
    named = {"result": type(result).__name__}
    for field in fields(result):
        value = vars(result)[field.name]
        texts = isinstance(value, tuple) and all(isinstance(x, str) for x in value)
        if isinstance(value, str | float | int) or (texts and value):
            named[field.name] = _attribute(value)
    for word, values in ("parameter", result.parameters), ("version", result.versions):
        named |= {f"{word}_{name}": _attribute(x) for name, x in values.items()}
    return named


def _attribute(value):
    """A value as an attribute of a netCDF file can be: a number or text."""
    if isinstance(value, np.generic):
        value = value.item()
    is_large = isinstance(value, Integral) and abs(value) > _LARGEST
    if isinstance(value, str | bool | None) or is_large:
        return str(value)
    if isinstance(value, Real):
        return value
    if isinstance(value, np.ndarray):
        value = value.tolist()
    if is_record(value):
        return as_call(value)
    return json.dumps(value, default=str)
