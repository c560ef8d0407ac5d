"""What is taken for what: confusion matrices anywhere in a map, recall over time.

Both are counted from the predictions of single trials. Matplotlib is imported by the
helpers only, so that decoding never loads it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ..metrics.scores import chance_level, metric_in_text
from ..metrics.scores import confusion_matrix as count_confusions
from ..utils.axes import AXES
from ..utils.checks import capital, plural
from ..utils.rounding import percent
from . import style
from .diagnostics import MOST_CURVES, nth_style
from .maps import colors_for

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.colors import Colormap

#: Classes whose cells hold numbers, at most.
_WRITTEN = 14
#: Characters of names; in small Axes half of it.
_LONGEST = 22
#: The share of Axes that is left when names and title have got their room.
_LEFT = 0.6
#: Inches of a cell, by the number of classes from which on it is so small.
_CELLS = ((0, 0.85), (4, 0.72), (6, 0.6), (9, 0.5), (15, 0.22), (31, 0.12))


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
    mask, where = find_places(result, at)
    predicted = result.predicted[mask]  # (n_places, n)
    if (predicted < 0).all():
        raise ValueError(
            f"Invalid value for 'at': {at!r}. Nothing could be decoded there; choose "
            "another position."
        )
    return Confusion(_count(result, predicted), where)


@style.draws_names
def plot_confusion(
    result,
    at: Any = "peak",
    *,
    vlim: tuple[float, float] | None = None,
    cmap: str | Colormap | None = None,
    ax: Axes | None = None,
    show: bool = False,
) -> Axes:
    """Plot which classes are taken for which.

    True classes are in rows, predicted ones in columns. The color is the share of the
    true class, white at chance, which is one over the number of classes; red cells are
    above and blue ones below it. The colorbar marks chance. In the cells, as far as
    there is room, are the share and the number of trials; at the right is the recall
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
    vlim : tuple of float or None
        The shares at the two ends of the colors, e.g. (0, 1) for figures that are to
        be compared. None takes zero and the largest share, or twice the chance level
        if that is more.
    cmap : str, matplotlib Colormap, or None
        The colors. None takes red and blue around chance.
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
        If there is no such place, or if the limits or the colors are not valid.

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
    c, rates = len(confusion.counts), confusion.rates
    # Of two classes near chance, a scale that fits would be all there is to see.
    vlim = (0, max(2 / c, np.nanmax(rates))) if vlim is None else vlim
    norm, colors = colors_for(rates, 1 / c, vlim, cmap)
    size = c * [inches for least, inches in _CELLS if c >= least][-1]
    longest = max(map(len, style.short_names(result.classes, _LONGEST)))
    room = 0.085 * longest + 0.6
    own, figsize = ax is None, (max(size + room + 2.6, 4.9), size + 0.7 * room + 1.1)
    ax = style.axes_or_new(ax, figsize)
    style.make_room(ax)  # before there is a colorbar, whose place depends on the layout
    image = ax.imshow(np.ma.masked_invalid(rates), cmap=colors, norm=norm)
    # How high names and title leave it in Axes of one's own, as far as one can tell.
    height = size if own else _LEFT * style.inches_of(ax).min()
    _name_classes(ax, result, confusion, height)
    bar = ax.figure.colorbar(image, ax=ax, shrink=0.8, aspect=25, pad=0.03)
    scale, label = style.word_scale(ax), "Proportion of the true class"
    if norm.vmin <= 1 / c <= norm.vmax:
        style.draw_chance(bar.ax, 1 / c)
        label += f"\n(dashed: chance, {1 / c:.3g})"
    bar.set_label(label, fontsize=10 * scale)
    bar.ax.tick_params(labelsize=10 * scale)
    bar.outline.set_visible(False)
    style.set_title(ax, result, note=confusion.where)
    _write(ax, confusion, image, height)
    if own:
        for _ in range(3):  # the layout of square Axes settles step by step
            ax.figure.draw_without_rendering()
    return style.maybe_show(ax, show)


@style.draws_names
def plot_recall(
    result, *, legend: bool = True, ax: Axes | None = None, show: bool = False
) -> Axes:
    """Plot over time which share of every class is recognised.

    Accuracy may come from one class alone: here each has a curve, its recall. Each
    trial counts once, by its mean class scores if several test sets hold it.

    Parameters
    ----------
    result : TimeResult
        The result to draw.
    legend : bool
        Draw the legend.
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
            "a time course. Use plot_confusion(result, at=...), which shows the recall "
            "of each class at one position."
        )
    times = result.times
    counts = (_count(result, each[np.newaxis]) for each in result.predicted)
    recall = np.stack([Confusion(each, "").recall for each in counts])
    ax = style.axes_or_new(ax, figsize=(7.0, 4.2))
    _draw_recall(ax, times, recall, result.classes)
    tested = result.y_tested[(result.predicted >= 0).any(axis=0)]
    style.draw_chance(ax, chance_level("recall_macro", tested, len(result.classes)))
    style.label_times(ax, times)
    ax.set_ylabel("Recall")
    return style.finish(ax, result, show, columns=3, legend=legend)


def _draw_recall(ax, times, recall, classes):
    """Draw the recall (n_times, c) of every class; of many without their names."""
    look = {"zorder": 3, "marker": "o" if len(times) == 1 else None}
    if len(classes) > MOST_CURVES:
        thin = {"color": "0.6", "lw": 0.8, "alpha": 0.6, "marker": look["marker"]}
        ax.plot(times, recall, **thin)
        ax.plot([], [], label=f"each of {len(classes)} classes", **thin)
        look |= {"color": style.COLORS[0], "lw": 2.2, "gid": style.CURVE}
        ax.plot(times, np.nanmean(recall, axis=1), label="mean of the classes", **look)
        return
    for k, label in enumerate(style.short_names(classes)):
        look |= nth_style(k) | {"lw": 1.6, "label": label, "gid": style.CURVE}
        ax.plot(times, recall[:, k], **look)


# ---------------------------------------------------------------------------- counting


def _check_predicted(result):
    """Refuse results without predictions of single trials, or without classes."""
    kind = type(result).__name__
    if not result.has_predictions:
        raise TypeError(
            f"A {kind} has no predictions for single trials, so there is nothing "
            "to count. Pass a result of one subject, or add up their matrices: "
            'scoring=["accuracy", "confusion_matrix"].'
        )
    if not len(result.classes):
        raise TypeError(
            f"A {kind} predicts continuous values and has no classes; use "
            "plot_predictions."
        )


def _count(result, predicted):
    """How often (c, c) classes were predicted (n_places, n) for others."""
    true = np.broadcast_to(result.y_tested, predicted.shape)
    there = predicted >= 0
    pairs = true[there][:, np.newaxis], predicted[there][:, np.newaxis]
    return count_confusions(*pairs, len(result.classes))[:, :, 0]


# -------------------------------------------------------------------------- some places


def find_places(result, at):
    """Which positions of a map (shape) are meant, and words for them."""
    axes, label = list(result.axes), ""
    if isinstance(at, str) and at == "peak":
        scores, mask = np.ravel(result.scores), np.zeros(result.shape, bool)
        if axes and not np.isfinite(scores).any():
            raise ValueError("This result has no scores, and so no peak.")
        mask.flat[int(np.nanargmax(scores)) if axes else 0] = True
        label = f", where {metric_in_text(result.scoring[0])} is highest"
    else:
        mask = result.places.find(at, "at", one=True)
    if not axes:
        return mask, ""
    if mask.sum() == 1:
        return mask, capital(result.places.at(int(mask.argmax()))) + label
    words = []
    for k, name in enumerate(axes):
        others = tuple(i for i in range(mask.ndim) if i != k)
        values, axis = result.along(name)[mask.any(axis=others)], AXES[name]
        first, last = (x if isinstance(x, str) else f"{x:.3g}" for x in values[[0, -1]])
        span = f"{axis.noun} {first}{axis.end}"
        if len(values) > 1:
            nouns = plural(axis.noun)
            span = f"{len(values)} {nouns} from {first} to {last}{axis.end}"
        words.append(span)
    return mask, f"{', '.join(words)}, pooled".capitalize()


# --------------------------------------------------------------------------- in figures


#: Points of the letters in cells, by the number of classes from which on they are that
#: small, of the smallest ones, and on an inch of a cell: "100 %" is to fit in.
_LETTERS, _SMALLEST, _PER_INCH = ((0, 9), (6, 8), (9, 7)), 5.0, 20.0


def _write(ax, confusion, image, height):
    """Write shares and numbers of trials into the cells if there is room."""
    c, rates = len(confusion.counts), confusion.rates
    points = [points for least, points in _LETTERS if c >= least][-1]
    points = min(points, _PER_INCH * height / c)
    if c > _WRITTEN or points < _SMALLEST:
        return
    dark = image.cmap(image.norm(rates))[..., :3] @ _LUMINANCE < 0.5
    for (i, j), rate in np.ndenumerate(rates):
        if np.isnan(rate):
            continue
        words = f"{percent(rate)}\n{confusion.counts[i, j]}" if rate else "0"
        look = {"color": "white" if dark[i, j] else "black", "fontsize": points}
        look["fontweight"] = "bold" if i == j else "normal"
        ax.text(j, i, words, ha="center", va="center", linespacing=1.1, **look)


#: How bright red, green and blue are for the eye.
_LUMINANCE = np.array([0.299, 0.587, 0.114])


def _name_classes(ax, result, confusion, height):
    """Name rows and columns, and write the recall of each class at the right.

    On so many inches, letters of all names would be too high if there are many.
    """
    c, scale = len(result.classes), style.word_scale(ax)
    points = (10 if c <= 8 else 8.3) * scale
    step = max(1, int(np.ceil(c * 1.15 * points / 72 / height)))
    shown = np.arange(0, c, step)
    longest = _LONGEST if scale == 1 else _LONGEST // 2
    names = np.array(style.short_names(result.classes, longest))[shown].tolist()
    turned = max(map(len, names)) > (6 if c < 9 else 3)
    look = {"rotation": 45, "ha": "right", "rotation_mode": "anchor"} if turned else {}
    ax.set_xticks(shown, names, **look)
    ax.set_yticks(shown, names)
    ax.set_xlabel("Predicted class", fontsize=10 * scale)
    ax.set_ylabel("True class", fontsize=10 * scale)
    ax.tick_params(length=0, labelsize=points)
    ax.spines[:].set_visible(False)
    totals = confusion.counts.sum(axis=1)
    words = [
        f"{percent(confusion.recall[k])} of {totals[k]}" if totals[k] else "not tested"
        for k in shown
    ]
    beside = ax.secondary_yaxis("right")
    beside.set_yticks(shown, words)
    beside.set_ylabel("Recall", fontsize=10 * scale)
    beside.tick_params(length=0, labelsize=points)
    beside.spines[:].set_visible(False)
