"""What is taken for what: confusion matrices anywhere in a map, recall over time.

Both are counted from the predictions of single trials. Matplotlib is imported by the
helpers only, so that decoding never loads it.
"""

from __future__ import annotations

import textwrap
from dataclasses import dataclass
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any

import numpy as np

from ..metrics.classes import chance_level
from ..metrics.classes import confusion_matrix as count_confusions
from ..utils.checks import quoted
from .common import (
    COLORS,
    CURVE,
    TITLE_DENSITY,
    axes_or_new,
    draw_chance,
    draws_names,
    finish,
    label_times,
    maybe_show,
    metric_label,
    sample_edges,
    set_title,
    short_name,
)
from .diagnostics import STYLES

if TYPE_CHECKING:
    from matplotlib.axes import Axes

#: Classes whose cells hold numbers, and which have curves of their own.
_WRITTEN = 14
#: Inches of a cell, by the number of classes from which on it is so small.
_CELLS = ((0, 0.85), (4, 0.72), (6, 0.6), (9, 0.5), (15, 0.22), (31, 0.12))

#: How axes are named and measured in words and messages.
_AXES = {
    "times": ("a time", " s"),
    "train_times": ("a training time", " s"),
    "test_times": ("a test time", " s"),
    "freqs": ("a frequency", " Hz"),
    "ch_names": ("a sensor by name", ""),
    "vertices": ("a vertex by name", ""),
}
_NOUNS = {
    "times": "times",
    "train_times": "training times",
    "test_times": "test times",
    "freqs": "frequencies",
    "ch_names": "sensors",
    "vertices": "vertices",
}
_SINGULAR = {"frequencies": "frequency", "vertices": "vertex"}


@dataclass(frozen=True, eq=False)
class Confusion:
    """How often trials of each class were taken for each class."""

    #: True classes in rows, predicted ones in columns, (c, c).
    counts: np.ndarray
    #: Where it was counted, in words; "" for a result of one position.
    where: str

    @property
    def rates(self):
        """The share of each true class, (c, c); NaN for a class that was not tested."""
        with np.errstate(invalid="ignore"):
            return self.counts / self.counts.sum(axis=1, keepdims=True)

    @property
    def recall(self):
        """The share of each class that was recognised, (c,)."""
        return self.rates.diagonal()


def find_confusion(result, at="peak"):
    """Return the `Confusion` of a result at some place, as `plot_confusion` takes it.

    Parameters
    ----------
    result : result of one subject
        Of classification.
    at : "peak" | float | str | tuple
        Where, see `plot_confusion`.

    Returns
    -------
    confusion : Confusion
        ``.counts`` (c, c), ``.rates``, ``.recall`` (c,) and ``.where`` in words.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from mvpa_kfda import cross_validate
    >>> from mvpa_kfda.viz.confusion import find_confusion
    >>> X, y = load_iris(return_X_y=True)
    >>> find_confusion(cross_validate(X, y, cv=5)).counts.sum(axis=1)
    array([50, 50, 50])
    """
    _check_predicted(result)
    mask, where = _places(result, at)
    predicted = result.predicted[mask]  # (n_places, n)
    if (predicted < 0).all():
        raise ValueError(
            f"Invalid value for 'at': {at!r}. Nothing could be decoded there; choose "
            "another place."
        )
    return Confusion(_count(result, predicted), where)


@draws_names
def plot_confusion(
    result, at: Any = "peak", *, ax: Axes | None = None, show: bool = False
) -> Axes:
    """Plot which classes are taken for which.

    True classes are in rows, predicted ones in columns. The color is the share of the
    true class, which is written above the number of trials; at the right is the recall
    of each class, the share that was recognised. Each trial counts once, by its mean
    class scores if several test sets hold it, and with repeats once in every repeat.

    Parameters
    ----------
    result : TimeResult
        The result to draw, or any other of classes with trials of its own.
    at : "peak" | float | str | tuple
        Where in the map. "peak": where the first metric is highest; it was chosen for
        that, so new data would score lower. A time in seconds, or (start, stop), whose
        times are pooled. Of maps with two axes a pair of these, in their order:
        (training time, test time), (frequency, time), (sensor, time), with sensors by
        name. Of brains and features the name of a region or feature, the number of a
        region in its atlas, or of a feature counted from 0, (x, y, z) in mm for the
        nearest voxel, or (hemisphere, vertex). Results of one position take "peak".
    ax : matplotlib Axes or None
        Where to draw; None makes a figure.
    show : bool
        Show the figure at once.

    Returns
    -------
    ax : matplotlib Axes
        The Axes drawn into.

    Raises
    ------
    TypeError
        If the result has no predictions of single trials, as that of a group, or no
        classes.
    ValueError
        If there is no such place.

    Examples
    --------
    >>> import matplotlib
    >>> matplotlib.use("Agg")
    >>> from mvpa_kfda import decode_epochs, simulate_epochs
    >>> from mvpa_kfda.viz.confusion import plot_confusion
    >>> result = decode_epochs(simulate_epochs(n_trials=30), step=0.1, cv=5)
    >>> plot_confusion(result, at=0.2).get_ylabel()
    'True class'
    """
    confusion = find_confusion(result, at)
    c = len(confusion.counts)
    size = c * [inches for least, inches in _CELLS if c >= least][-1]
    own = ax is None
    longest = max(len(short_name(name)) for name in result.classes)
    room = 0.085 * longest + 0.6
    figsize = (max(size + room + 1.9, 4.2), size + 0.7 * room + 1.1)
    ax = axes_or_new(ax, figsize)
    rates = confusion.rates
    top = np.nanmax(rates)
    image = ax.imshow(np.ma.masked_invalid(rates), cmap="Blues", vmin=0, vmax=top)
    if c <= _WRITTEN:
        _write(ax, confusion, top)
    else:
        bar = ax.figure.colorbar(image, ax=ax, shrink=0.7, pad=0.12)
        bar.set_label("Share of the true class")
        bar.outline.set_visible(False)
    _name_classes(ax, result, confusion)
    width = max(30, int(TITLE_DENSITY * size))
    note = textwrap.wrap(confusion.where, width) if own else [confusion.where]
    set_title(ax, result, note="\n".join(note))
    if own:
        for _ in range(3):  # the layout of square Axes settles step by step
            ax.figure.draw_without_rendering()
    return maybe_show(ax, show)


@draws_names
def plot_recall(result, *, ax: Axes | None = None, show: bool = False) -> Axes:
    """Plot over time which share of every class is recognised.

    Accuracy may come from one class alone: here each has a curve, its recall. Each
    trial counts once, by its mean class scores if several test sets hold it.

    Parameters
    ----------
    result : TimeResult
        The result to draw.
    ax : matplotlib Axes or None
        Where to draw; None makes a figure.
    show : bool
        Show the figure at once.

    Returns
    -------
    ax : matplotlib Axes
        The Axes drawn into.

    Raises
    ------
    TypeError
        If the result has no predictions of single trials, as that of a group, or no
        classes.
    ValueError
        If the result is not one over time alone.

    Examples
    --------
    >>> import matplotlib
    >>> matplotlib.use("Agg")
    >>> from mvpa_kfda import decode_epochs, simulate_epochs
    >>> from mvpa_kfda.viz.confusion import plot_recall
    >>> result = decode_epochs(simulate_epochs(n_trials=30), step=0.1, cv=5)
    >>> plot_recall(result).get_ylabel()
    'Recall'
    """
    _check_predicted(result)
    if list(result.axes) != ["times"]:
        raise ValueError(
            f"plot_recall draws curves over time, and a {type(result).__name__} is not "
            "one over time alone. Use plot_confusion(result, at=...), which shows the "
            "recall of each class at one place."
        )
    times = result.times
    counts = (_count(result, each[np.newaxis]) for each in result.predicted)
    recall = np.stack([Confusion(each, "").recall for each in counts])
    ax = axes_or_new(ax, figsize=(7.0, 4.2))
    _draw_recall(ax, times, recall, result.classes)
    tested = _true(result)[(result.predicted >= 0).any(axis=0)]
    draw_chance(ax, chance_level("recall_macro", tested, len(result.classes)))
    label_times(ax, times)
    ax.set_ylabel("Recall")
    return finish(ax, result, show, columns=3)


def _draw_recall(ax, times, recall, classes):
    """Draw the recall (n_times, c) of every class; of many without their names."""
    style = {"zorder": 3, "marker": "o" if len(times) == 1 else None}
    if len(classes) > _WRITTEN:
        thin = {"color": "0.6", "lw": 0.8, "alpha": 0.6, "marker": style["marker"]}
        ax.plot(times, recall, **thin)
        ax.plot([], [], label=f"each of {len(classes)} classes", **thin)
        style |= {"color": COLORS[0], "lw": 2.2, "gid": CURVE}
        ax.plot(times, np.nanmean(recall, axis=1), label="mean of the classes", **style)
        return
    for k, name in enumerate(classes):
        style["color"] = COLORS[k % len(COLORS)]
        style["ls"] = STYLES[k // len(COLORS) % len(STYLES)]
        label = short_name(name)
        ax.plot(times, recall[:, k], lw=1.6, label=label, gid=CURVE, **style)


# ---------------------------------------------------------------------------- counting


def _check_predicted(result):
    """Refuse results without predictions of single trials, or without classes."""
    kind = type(result).__name__
    if not hasattr(result, "predicted"):
        raise TypeError(
            f"A {kind} has no predictions of single trials, so that nothing can be "
            "counted. Give a result of one subject, or add up their matrices: "
            'scoring=["accuracy", "confusion_matrix"].'
        )
    if not len(result.classes):
        raise TypeError(
            f"A {kind} predicts numbers and has no classes; use plot_predictions."
        )


def _true(result):
    """Return the classes of the trials that predictions are about, (n,)."""
    return getattr(result, "y_test", result.y)


def _count(result, predicted):
    """Return how often (c, c) classes were predicted (n_places, n) for others."""
    true = np.broadcast_to(_true(result), predicted.shape)
    there = predicted >= 0
    pairs = true[there][:, np.newaxis], predicted[there][:, np.newaxis]
    return count_confusions(*pairs, len(result.classes))[:, :, 0]


# -------------------------------------------------------------------------- some places


def _places(result, at):
    """Return which positions of a map (shape) are meant, and words for them."""
    axes = list(result.axes)
    if not axes:
        if not (isinstance(at, str) and at == "peak"):
            raise ValueError(
                f"Invalid value for 'at': {at!r}. This result has one position; leave "
                "at out."
            )
        return (), ""
    mask = np.zeros(result.shape, bool)
    if isinstance(at, str) and at == "peak":
        place, words = _peak(result)
        mask.flat[place] = True
        return mask, words
    if axes == ["positions"]:
        place = _position(result, at)
        mask[place] = True
        return mask, f"At {result._worded_place(place)}"
    parts = [at]
    if len(axes) > 1:
        if not isinstance(at, list | tuple) or len(at) != len(axes):
            raise ValueError(_wanted(result, at))
        parts = at
    chosen = [
        _along(result, name, part, at) for name, part in zip(axes, parts, strict=True)
    ]
    mask[np.ix_(*chosen)] = True
    if mask.sum() == 1:
        return mask, f"At {result._worded_place(int(np.flatnonzero(mask)[0]))}"
    words = [
        _worded_range(result, name, part, along)
        for name, part, along in zip(axes, parts, chosen, strict=True)
    ]
    return mask, f"{', '.join(words)}, pooled".capitalize()


def _peak(result):
    """Return the position where the first metric is highest, and words for it."""
    scores = np.ravel(result.scores)
    if not np.isfinite(scores).any():
        raise ValueError("This result has no scores, so no peak.")
    place = int(np.nanargmax(scores))
    label = metric_label(result.scoring[0])
    label = label if label[:2].isupper() else label[:1].lower() + label[1:]
    return place, f"At {result._worded_place(place)}, where {label} is highest"


def _words_of(result):
    """Word what `at` may be for a result."""
    axes = list(result.axes)
    if axes == ["positions"]:
        return {
            "volume": "at=(x, y, z) in mm",
            "surface": "at=(hemisphere, vertex)",
            "regions": "at= the name or the number of a region",
            "features": "at= the name of a feature, or its number from 0",
        }[result.geometry.kind]
    if axes == ["times"]:
        return "at= a time in seconds, or (start, stop)"
    words = ", ".join(_AXES[name][0] for name in axes)
    return f"at=({words}), each a number or (start, stop)"


def _wanted(result, at):
    """Word that `at` is nothing that this result has."""
    return f"Invalid value for 'at': {at!r}. Allowed: \"peak\", or {_words_of(result)}."


def _along(result, name, part, at):
    """Return which coordinates (n,) along an axis a part of `at` means."""
    values = getattr(result, name)
    if values.dtype.kind in "US":
        if not isinstance(part, str):
            raise ValueError(_wanted(result, at))
        if part not in values:
            noun = _NOUNS[name]
            raise ValueError(
                f"Invalid value for 'at': no {_SINGULAR.get(noun, noun[:-1])} is named "
                f"{part!r}. The {noun} are: {quoted(values.tolist(), 20)}."
            )
        return values == part
    ends = part if isinstance(part, list | tuple) else (part, part)
    numbers = [isinstance(x, Real) and -np.inf < x < np.inf for x in ends]
    if len(ends) != 2 or not all(numbers) or ends[0] > ends[1]:
        raise ValueError(_wanted(result, at))
    edges = sample_edges(values)
    noun, unit = _NOUNS[name], _AXES[name][1]
    span = f"the {noun} go from {values[0]:g} to {values[-1]:g}{unit}"
    if isinstance(part, list | tuple):
        inside = (values >= ends[0] - 1e-9) & (values <= ends[1] + 1e-9)
        if not inside.any():
            raise ValueError(
                f"Invalid value for 'at': {at!r}. None of the {noun} is between "
                f"{ends[0]:g} and {ends[1]:g}{unit}; {span}."
            )
        return inside
    if not edges[0] - 1e-9 <= part <= edges[-1] + 1e-9:
        raise ValueError(f"Invalid value for 'at': {at!r}. {span.capitalize()}.")
    return np.arange(len(values)) == np.abs(values - part).argmin()


def _worded_range(result, name, part, along):
    """Word the coordinates that were chosen along an axis."""
    values, (_, unit) = getattr(result, name)[along], _AXES[name]
    if len(values) == 1:
        value = values[0] if isinstance(values[0], str) else f"{values[0]:.3g}{unit}"
        noun = _NOUNS[name]
        return f"{_SINGULAR.get(noun, noun[:-1])} {value}"
    noun = _NOUNS[name]
    return f"{len(values)} {noun} from {values[0]:.3g} to {values[-1]:.3g}{unit}"


def _position(result, at):
    """Return the position of a brain or of features that `at` means."""
    space = result.geometry
    columns = space.columns()
    found = _FINDERS[space.kind](space, columns, at)
    if found is None:
        raise ValueError(_wanted(result, at))
    return found


def _find_voxel(space, columns, at):
    """Return the voxel nearest to (x, y, z) in mm; None if `at` is no place."""
    if not _is_numbers(at, 3):
        return None
    if not len(space.points):
        return None
    distance = np.linalg.norm(space.points - np.asarray(at, float), axis=1)
    nearest = int(distance.argmin())
    if distance[nearest] > np.linalg.norm(space.voxel_size):
        raise ValueError(
            f"Invalid value for 'at': {at!r}. The nearest voxel of the mask is "
            f"{distance[nearest]:.0f} mm away. Give a place inside of it."
        )
    return nearest


def _find_vertex(space, columns, at):
    """Return the position of (hemisphere, vertex); None if there is none."""
    if not isinstance(at, list | tuple) or len(at) != 2:
        return None
    there = np.flatnonzero(
        (columns["hemisphere"] == str(at[0])) & (columns["vertex"] == at[1])
    )
    return int(there[0]) if len(there) else None


def _find_region(space, columns, at):
    """Return the position of a region by its name or number; None if there is none."""
    return _find_named(space.names, at, space.ids, "regions")


def _find_feature(space, columns, at):
    """Return the position of a feature by its name or number; None if there is none."""
    return _find_named(space.names, at, np.arange(space.n), "features")


def _find_named(names, at, numbers, noun):
    """Return the place of a name or of a number; None if `at` is neither."""
    if isinstance(at, str) and names is not None:
        there = np.flatnonzero(names == at)
        if not len(there):
            raise ValueError(
                f"Invalid value for 'at': there is no {at!r} among the {noun}: "
                f"{quoted(names.tolist(), 20)}."
            )
        if len(there) > 1:
            raise ValueError(
                f"Invalid value for 'at': {len(there)} {noun} are named {at!r}. Give "
                f"the number of one: {quoted(numbers[there].tolist(), 20)}."
            )
        return int(there[0])
    if isinstance(at, Integral) and not isinstance(at, bool):
        there = np.flatnonzero(numbers == at)
        return int(there[0]) if len(there) else None
    return None


def _is_numbers(at, n):
    """Tell whether something is n finite numbers."""
    if isinstance(at, np.ndarray):
        at = at.tolist()  # of no dimension it has no length
    several = isinstance(at, list | tuple) and len(at) == n
    return several and all(isinstance(x, Real) and -np.inf < x < np.inf for x in at)


#: How a place is found, by the kind of space.
_FINDERS = {
    "volume": _find_voxel,
    "surface": _find_vertex,
    "regions": _find_region,
    "features": _find_feature,
}


# --------------------------------------------------------------------------- in figures


def _write(ax, confusion, top):
    """Write shares, and numbers of trials where there is room, into the cells."""
    c, rates = len(confusion.counts), confusion.rates
    for (i, j), rate in np.ndenumerate(rates):
        if np.isnan(rate):
            continue
        words = f"{100 * rate:.0f} %\n{confusion.counts[i, j]}" if rate else "0"
        color = "white" if rate > 0.6 * top else "black" if rate else "0.6"
        style = {"color": color, "fontsize": 9 if c <= 5 else 8 if c <= 8 else 7}
        style["fontweight"] = "bold" if i == j else "normal"
        ax.text(j, i, words, ha="center", va="center", linespacing=1.1, **style)


def _name_classes(ax, result, confusion):
    """Name rows and columns, and write the recall of each class at the right."""
    c = len(result.classes)
    step = -(-c // 30)
    shown = np.arange(0, c, step)
    names = [short_name(result.classes[k]) for k in shown]
    turned = max(map(len, names)) > (6 if c < 9 else 3)
    style = {"rotation": 45, "ha": "right", "rotation_mode": "anchor"} if turned else {}
    ax.set_xticks(shown, names, **style)
    ax.set_yticks(shown, names)
    ax.set(xlabel="Predicted class", ylabel="True class")
    ax.tick_params(length=0, labelsize="medium" if c <= 8 else "small")
    ax.spines[:].set_visible(False)
    totals = confusion.counts.sum(axis=1)
    words = [
        f"{100 * confusion.recall[k]:.0f} % of {totals[k]}"
        if totals[k]
        else "not tested"
        for k in shown
    ]
    beside = ax.secondary_yaxis("right")
    beside.set_yticks(shown, words)
    beside.set_ylabel("Recall")
    beside.tick_params(length=0, labelsize="medium" if c <= 8 else "small")
    beside.spines[:].set_visible(False)
