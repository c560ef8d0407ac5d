"""Figures that pages alone have: patterns on the head."""

import numpy as np

from ..utils.axes import AXES
from ..utils.checks import capital, plural
from ..viz.maps import draw_topomap, why_no_topomaps
from ..viz.style import (
    NULL_COLOR,
    SCORE_COLOR,
    channel_label,
    new_figure,
    short_names,
)

#: Channel type -> what its unit is divided by, and what is then called.
_UNITS = {
    **dict.fromkeys(("eeg", "eog", "ecog"), (1e-6, "µV")),
    "seeg": (1e-3, "mV"),
    "mag": (1e-15, "fT"),
    "grad": (1e-13, "fT/cm"),
    "csd": (1e-3, "mV/m²"),
    **dict.fromkeys(("hbo", "hbr"), (1e-6, "µM")),
}

#: Patterns of so many classes are drawn at most.
_MOST_PATTERNS = 8


# ---------------------------------------------------------------------------- patterns


def plot_channel_patterns(result):
    """Plot the pattern of every class on the head, or over time without positions."""
    averages = dict(list(result.patterns().items())[:_MOST_PATTERNS])
    types = dict.fromkeys(result.info.get_channel_types())
    figure = new_figure((2.2 * len(averages) + 1.2, 2.6 * len(types)), "constrained")
    axes = figure.subplots(len(types), len(averages), squeeze=False)
    place = best_place(result)
    for row, kind in zip(axes, types, strict=True):
        _draw_type(figure, row, averages, kind, place)
    for ax, name in zip(axes[0], short_names(averages), strict=True):
        ax.set_title(name, fontsize="medium")
    return figure


def _draw_type(figure, axes, averages, kind, place):
    """Draw the patterns of one type of channels."""
    import mne
    from matplotlib.colors import Normalize

    average = next(iter(averages.values()))
    types = np.array(average.info.get_channel_types())
    rows = np.flatnonzero(types == kind)
    info = mne.pick_info(average.info, rows)
    scale, unit = _UNITS.get(kind, (1.0, ""))
    if len(place) > 1:  # power, whose unit is not known
        scale, unit = 1.0, "power"
    over_time = place if why_no_topomaps(info) == "" else place[:-1]
    values = [_at(each.data[rows], over_time) / scale for each in averages.values()]
    largest = max(np.abs(value).max() for value in values) or 1.0
    label = channel_label(kind)
    if label.endswith("meter"):
        label = capital(plural(label))
    label += f" ({unit})" if unit else ""
    if len(over_time) < len(place):
        _draw_courses(axes, average.times, values, largest, label)
        return
    colors = {"norm": Normalize(-largest, largest), "cmap": "RdBu_r"}
    for ax, value in zip(axes, values, strict=True):
        image = draw_topomap(ax, value, info, **colors)
    figure.colorbar(image, ax=axes, shrink=0.7, label=label)


def _draw_courses(axes, times, values, largest, label):
    """Draw one line per channel."""
    for ax, value in zip(axes, values, strict=True):
        ax.plot(times, value.T, color=SCORE_COLOR, lw=0.8, alpha=0.6)
        ax.axhline(0, color=NULL_COLOR, lw=0.8)
        ax.set(ylim=(-1.1 * largest, 1.1 * largest), xlabel=AXES["times"].label)
        ax.spines[["top", "right"]].set_visible(False)
    axes[0].set_ylabel(label)


def _at(data, place):
    """Data (n_channels, [n_freqs,] n_times) at places (frequency, time)."""
    return data[(slice(None), *place)]


def best_place(result):
    """Where a result scores best, as an index of its patterns' positions."""
    scores = np.asarray(result.metrics[result.scalar_metrics[0]], dtype=float)
    best = np.unravel_index(np.nanargmax(scores), scores.shape)
    return best[: len(result.pattern_axes)]
