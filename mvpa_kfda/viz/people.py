"""Figures of shares of a population. Matplotlib is imported inside the functions."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from .common import (
    SCORE_COLOR,
    add_legend,
    axes_or_new,
    draw_once,
    draws_names,
    maybe_show,
    sample_edges,
)
from .time import finish_times

if TYPE_CHECKING:
    from matplotlib.axes import Axes


@draws_names
def plot_shares(
    shares, *, legend: bool = True, ax: Axes | None = None, show: bool = False
) -> Axes:
    """Plot shares of people with an effect, over time or a single one.

    A line is the most probable share, a band the interval of the highest density, and a
    dashed line the lower bound. A dotted line is where the majority begins; of a
    difference of two shares, where there is none. Each time point stands for itself.

    Parameters
    ----------
    shares : Prevalence or PrevalenceDifference
        The shares.
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
    ValueError
        If the shares are of a map other than a time course.
    """
    over_time = [*shares.places.axes] == ["times"]
    if shares.shape and not over_time:
        raise ValueError(
            f"Proportions at {shares.places.describe()} cannot be plotted, only time "
            "courses and single numbers. Use to_dataframe()."
        )
    ax = axes_or_new(ax, figsize=(7.0, 4.2) if over_time else (5.0, 4.2))
    edges = sample_edges(shares.times) if over_time else np.array([-0.5, 0.5])
    low, high, mode, bound = map(
        np.atleast_1d, (shares.low, shares.high, shares.mode, shares.bound)
    )
    percent = f"{100 * shares.confidence:g} %"
    words = "difference" if shares.is_difference else "proportion"
    band = {"baseline": low, "fill": True, "alpha": 0.3, "lw": 0}
    interval = f"{percent} interval"
    ax.stairs(high, edges, color=SCORE_COLOR, label=interval, zorder=2, **band)
    line = {"baseline": None, "color": SCORE_COLOR, "zorder": 3}
    ax.stairs(mode, edges, lw=1.8, label=f"most probable {words}", **line)
    ax.stairs(bound, edges, lw=1.2, ls="--", label=f"{percent} lower bound", **line)
    dotted = {"color": "black", "lw": 0.9, "ls": ":", "zorder": 1.5}
    if shares.is_difference:
        draw_once(ax, 0.0, label="no difference", **dotted)
        ax.set(ylim=(-1, 1), ylabel="Difference in the proportion of people")
    else:
        draw_once(ax, 0.5, label="majority (0.5)", **dotted)
        ax.set(ylim=(0, 1), ylabel="Proportion of people with an effect")
    if over_time:
        finish_times([ax], shares.times)
    else:
        ax.set_xticks([])
        ax.spines[["top", "right"]].set_visible(False)
    if legend:
        add_legend(ax)
    return maybe_show(ax, show)
