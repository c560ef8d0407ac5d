"""Part of a map, by the coordinates along its axes or by places."""

from dataclasses import replace

import numpy as np

from ..data.sources import unpack_form
from ..data.space import numbered
from ..utils.axes import AXES
from ..utils.checks import enumerated, plural, quoted
from ..utils.rounding import brief

#: Fields of which every entry is an array with the map's axes -> how many axes are
#: before these.
_MAPS = {
    **dict.fromkeys(("metrics", "fold_metrics", "repeats", "second_scores"), 0),
    **dict.fromkeys(("nulls", "second_nulls"), 1),
}
#: Fields of positions; where cells of a map share a position, without their axis.
_OF_POSITIONS = ("class_scores", "pattern_maps", "penalty")
#: The axis that these are without.
_SHARED = "test_times"


def select(result, where):
    """The result at some coordinates, ``{"times": slice(0.1, 0.3)}``, or a place."""
    allowed = [name for name in result.axes if name in AXES and AXES[name].unit]
    ways = [f"{name}, as in result.sel({name}=slice(0.1, 0.3))" for name in allowed]
    if result.places.axis_of_places:
        allowed.append("place")
        ways.append(f"place: {result.places.allowed_places()}")
    if not where or not set(where) <= set(allowed):
        kind = type(result).__name__
        if not allowed:
            raise ValueError(f"A {kind} is of a single position, which has no parts.")
        raise ValueError(
            f"Invalid coordinates: {quoted(where) or 'none'}. This {kind} can be "
            f"selected by {'; by '.join(ways)}. For other positions take rows of "
            "result.to_dataframe()."
        )
    kept = [
        name for name in ("null_summaries", "second_summaries") if _of(result, name)
    ]
    if kept:
        raise ValueError(
            "Of the permutations only what all positions together need was kept, which "
            "does not tell about some of them. Take scores and uncorrected p-values of "
            "result.to_dataframe(), or run the analysis again with null='full'."
        )
    chosen, words, changed = {}, [], {}
    if "place" in (where := dict(where)):
        inside = result.places.find_place(where.pop("place"))
        chosen[result.places.axis_of_places] = np.flatnonzero(inside)
        words.append(result.places.name_some(inside))
        changed |= _of_places(result, inside)
    for name, wanted in where.items():
        span = _span_of(wanted, result.along(name))
        hint = f"a number, or slice(start, stop), in {AXES[name].unit}"
        inside = result.places.find_along(name, span, name, hint)
        chosen[name] = np.flatnonzero(inside)
        noun, n = AXES[name].noun, np.count_nonzero(inside)
        ends = [*map(brief, result.along(name)[inside][[0, -1]])]
        span = f"from {' to '.join(ends)}" if n > 1 else ends[0]
        words.append(f"{plural(noun, n)} {span}{AXES[name].end}")

    def taken(values, lead=0, without=None):
        axes = [name for name in result.axes if name != without]
        for axis, name in enumerate(axes, start=lead):
            if name in chosen:
                values = np.take(values, chosen[name], axis)
        return values

    changed = {name: result.along(name)[x] for name, x in chosen.items()} | changed
    changed["predicted"] = taken(result.predicted)
    for name, lead in _MAPS.items():
        if of_each := _of(result, name):
            changed[name] = {key: taken(x, lead) for key, x in of_each.items()}
    for name in _OF_POSITIONS:
        values = None if name in changed else _of(result, name)
        if isinstance(values, dict):
            parts = {key: taken(x, without=_SHARED) for key, x in values.items()}
            changed[name] = parts
        elif values is not None:
            changed[name] = taken(values, without=_SHARED)
    before = result.parameters.get("selection")
    words = "; ".join(filter(None, [before, enumerated(words)]))
    changed["parameters"] = result.parameters | {"selection": words}
    # It is no longer what a call with these options gives.
    return replace(result, options={}, inputs={}, **changed)


def _of_places(result, inside):
    """The fields that say where the positions are, at some places (n,) alone."""
    pairs = numbered(inside)[result.adjacency]
    changed = {"adjacency": pairs[:, (pairs >= 0).all(axis=0)]}
    if (sources := _of(result, "sources")) is not None:
        changed["sources"] = sources | unpack_form(sources).take(inside).pack()
    if result.geometry is None:
        return changed
    if not result.decoded[inside].any():
        raise ValueError("Nothing was decoded at the place that was asked for.")
    changed["positions"] = np.arange(np.count_nonzero(inside))
    changed["space"] = result.geometry.part(inside).pack()
    changed["n_features"] = result.n_features[inside]
    # Patterns have a row for each feature of each region.
    if maps := result.pattern_maps:
        rows = np.repeat(inside, result.n_features)
        changed["pattern_maps"] = {kind: values[rows] for kind, values in maps.items()}
        changed["pattern_features"] = result.pattern_features[rows]
    return changed


def _of(result, name):
    """A field of a result, None where it has no such field."""
    return vars(result).get(name)


def _span_of(wanted, coordinates):
    """The ends of a slice; anything else stays what it is."""
    if not isinstance(wanted, slice):
        return wanted
    if wanted.step is not None:
        raise ValueError(f"{wanted!r} has a step. Leave it out: slice(start, stop).")
    ends = coordinates.min(), coordinates.max()
    given = wanted.start, wanted.stop
    return tuple(
        float(end) if each is None else each
        for each, end in zip(given, ends, strict=True)
    )
