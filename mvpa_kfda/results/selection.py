"""Part of a map, by the coordinates along its axes."""

from dataclasses import replace

import numpy as np

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
    """The result at some coordinates, ``{"times": slice(0.1, 0.3)}``."""
    allowed = [name for name in result.axes if name in AXES and AXES[name].unit]
    if not where or not set(where) <= set(allowed):
        kind, rows = type(result).__name__, "take rows of result.to_dataframe()"
        if not allowed:
            raise ValueError(f"A {kind} has no times or frequencies; {rows}.")
        example = f"result.sel({allowed[0]}=slice(0.1, 0.3))"
        raise ValueError(
            f"Invalid coordinates: {quoted(where) or 'none'}. This {kind} can be "
            f"selected by {enumerated(allowed, 'or')}, such as {example}. For other "
            f"positions {rows}."
        )
    kept = [
        name for name in ("null_summaries", "second_summaries") if _of(result, name)
    ]
    if kept:
        raise ValueError(
            "Of the permutations only what all positions together need was kept, which "
            "does not tell about some of them. Run the analysis again with null='full'."
        )
    chosen, words = {}, []
    for name, wanted in where.items():
        span = _span_of(wanted, result.along(name))
        hint = f"a number, or slice(start, stop), in {AXES[name].unit}"
        inside = result.places.find_along(name, span, name, hint)
        chosen[name] = np.flatnonzero(inside)
        ends = map(brief, result.along(name)[inside][[0, -1]])
        words.append(
            f"{plural(AXES[name].noun)} from {' to '.join(ends)}{AXES[name].end}"
        )

    def taken(values, lead=0, without=None):
        axes = [name for name in result.axes if name != without]
        for axis, name in enumerate(axes, start=lead):
            if name in chosen:
                values = np.take(values, chosen[name], axis)
        return values

    changed = {name: result.along(name)[rows] for name, rows in chosen.items()}
    changed["predicted"] = taken(result.predicted)
    for name, lead in _MAPS.items():
        if of_each := _of(result, name):
            changed[name] = {key: taken(x, lead) for key, x in of_each.items()}
    for name in _OF_POSITIONS:
        values = _of(result, name)
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
