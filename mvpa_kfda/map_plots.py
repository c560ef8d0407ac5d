"""Figures of maps: scores over two axes, e.g. training and testing time.

Matplotlib and MNE-Python are imported inside the functions, so that decoding never
loads them for its figures. Color-blind readers tell the two colors of a map apart: red
is above chance and blue below it. What is significant is outlined.
"""

import numpy as np

from ._figures import common
from ._figures.edges import sample_edges
from ._figures.maps import (
    LINE_COLOR,
    add_colorbar,
    draw_map,
    draw_onset,
    frequency_edges,
    is_geometric,
    prepare,
    set_log_frequencies,
)
from ._figures.topomaps import (
    draw_topomaps,
    explain_topomaps,
    sensor_info,
    topomap_samples,
    why_no_topomaps,
)

# Above so many channels only some of the names fit.
MOST_NAMES = 32


def plot_generalization(
    result,
    *,
    metric=None,
    correction="max",
    alpha=0.05,
    vlim=None,
    cmap=None,
    ax=None,
    show=False,
):
    """Plot decoding scores over training and testing times.

    Shows the score of every pair of times as a color, white at chance, with an outline
    around the cells with p <= alpha, a dotted line where training and testing time are
    the same, and the onset of the stimulus at 0 s.

    Parameters
    ----------
    result : GeneralizationResult
        The result to draw.
    metric : str or None
        Name of the metric; None takes the first.
    correction : str
        Correction of the p-values for testing many cells.
    alpha : float
        Cells with p <= alpha are outlined.
    vlim : tuple of float or None
        The scores at the two ends of the colors. None reaches equally far to both
        sides of chance (down to zero at most, if no score is negative), or takes the
        lowest and the highest score if the metric has no chance level. Scores equally
        far from chance have equally strong colors in any case.
    cmap : str, matplotlib Colormap, or None
        The colors. None takes red and blue around chance.
    ax : matplotlib Axes or None
        Where to draw; None makes a figure. In a figure of your own, the layout
        "constrained" makes room for the colorbar and the legend.
    show : bool
        Show the figure at once.

    Returns
    -------
    ax : matplotlib Axes
        The Axes drawn into: testing times across, training times up, in seconds.

    Raises
    ------
    ValueError
        If `alpha` is not between 0 and 1, `vlim` is not a lower and a higher number,
        the metric, the correction or the colors are unknown, the metric is not one
        number per cell, or the correction needs permutations that were not kept.

    Examples
    --------
    >>> import matplotlib
    >>> matplotlib.use("Agg")
    >>> from mvpa_kfda import generalize_epochs, simulate_epochs
    >>> from mvpa_kfda.map_plots import plot_generalization
    >>> result = generalize_epochs(simulate_epochs(n_trials=30), step=0.1, cv=5)
    >>> plot_generalization(result).get_xlabel()
    'Testing time (s)'
    """
    drawn = prepare(result, metric, correction, alpha, vlim, cmap)
    across, up = sample_edges(result.test_times), sample_edges(result.train_times)
    ax = common.axes_or_new(ax, figsize=(6.4, 6.2))
    mesh = draw_map(ax, across, up, drawn)
    start, end = max(across[0], up[0]), min(across[-1], up[-1])
    if start < end:
        ax.plot(
            [start, end],
            [start, end],
            color=LINE_COLOR,
            lw=1,
            ls=":",
            label="training time = testing time",
        )
    draw_onset(ax.axvline, across)
    draw_onset(ax.axhline, up, label=not across[0] <= 0 <= across[-1])
    same_span = np.isclose(np.ptp(across), np.ptp(up), rtol=1e-6, atol=0)
    ax.set(
        xlabel="Testing time (s)",
        ylabel="Training time (s)",
        aspect="equal" if same_span else "auto",
    )
    return _finish(ax, mesh, drawn, result, show)


def plot_time_frequency(
    result,
    *,
    metric=None,
    correction="max",
    alpha=0.05,
    vlim=None,
    cmap=None,
    ax=None,
    show=False,
):
    """Plot decoding scores over times and frequencies.

    Shows the score of every cell as a color, white at chance, with an outline around
    the cells with p <= alpha, and the onset of the stimulus at 0 s. The axis of
    frequencies is logarithmic if their ratios vary less than their differences.

    Parameters
    ----------
    result : TimeFrequencyResult
        The result to draw.
    metric : str or None
        Name of the metric; None takes the first.
    correction : str
        Correction of the p-values for testing many cells.
    alpha : float
        Cells with p <= alpha are outlined.
    vlim : tuple of float or None
        The scores at the two ends of the colors, see `plot_generalization`.
    cmap : str, matplotlib Colormap, or None
        The colors. None takes red and blue around chance.
    ax : matplotlib Axes or None
        Where to draw; None makes a figure. In a figure of your own, the layout
        "constrained" makes room for the colorbar and the legend.
    show : bool
        Show the figure at once.

    Returns
    -------
    ax : matplotlib Axes
        The Axes drawn into: times across in seconds, frequencies up in Hz.

    Raises
    ------
    ValueError
        As `plot_generalization`.

    Examples
    --------
    >>> import matplotlib
    >>> matplotlib.use("Agg")
    >>> from mvpa_kfda import decode_epochs, simulate_epochs
    >>> from mvpa_kfda.map_plots import plot_time_frequency
    >>> tfr = simulate_epochs(n_trials=30).compute_tfr(
    ...     "morlet", freqs=[8, 16, 32], n_cycles=3, decim=10, verbose=False
    ... )
    >>> plot_time_frequency(decode_epochs(tfr, cv=5)).get_ylabel()
    'Frequency (Hz)'
    """
    drawn = prepare(result, metric, correction, alpha, vlim, cmap)
    across, up = sample_edges(result.times), frequency_edges(result.freqs)
    ax = common.axes_or_new(ax, figsize=(7.0, 4.6))
    if is_geometric(result.freqs):
        set_log_frequencies(ax.yaxis, up)
    mesh = draw_map(ax, across, up, drawn)
    draw_onset(ax.axvline, across)
    ax.set(xlabel="Time (s)", ylabel="Frequency (Hz)")
    return _finish(ax, mesh, drawn, result, show)


def plot_sensors(
    result,
    *,
    times=None,
    metric=None,
    correction="max",
    alpha=0.05,
    vlim=None,
    cmap=None,
    show=False,
):
    """Plot decoding scores over sensors and times.

    Shows the score of every sensor (rows, the first one on top) and time as a color,
    white at chance, with an outline around those with p <= alpha. Below, topomaps at
    some of the times, where dots mark the sensors with p <= alpha. The two
    gradiometers of a pair lie at the same place, which shows the higher score. Where
    some sensors have no value, as for the prevalence bound of a group, nothing is known
    between sensors, and topomaps have the sensors alone, as colored dots.

    Parameters
    ----------
    result : SensorTimeResult
        The result to draw.
    times : float, sequence of float, or None
        Times of the topomaps in seconds, at most 12; the nearest sample is drawn.
        None spreads 6 times evenly from the first to the last and moves the one that
        is nearest to the highest score of the map to it.
    metric : str or None
        Name of the metric; None takes the first.
    correction : str
        Correction of the p-values for testing many sensors and times.
    alpha : float
        Sensors and times with p <= alpha are marked.
    vlim : tuple of float or None
        The scores at the two ends of the colors, see `plot_generalization`.
    cmap : str, matplotlib Colormap, or None
        The colors. None takes red and blue around chance.
    show : bool
        Show the figure at once.

    Returns
    -------
    figure : matplotlib Figure
        Its first Axes has the map of sensors and times, the next ones the topomaps,
        the last one the colorbar. Without topomaps (no positions of the sensors,
        several types of channels, or channels that are not on the head) its title
        says why.

    Raises
    ------
    ValueError
        As `plot_generalization`, and for times out of range, none or too many.

    Examples
    --------
    >>> import matplotlib
    >>> matplotlib.use("Agg")
    >>> from mvpa_kfda import decode_epochs, simulate_epochs
    >>> from mvpa_kfda.map_plots import plot_sensors
    >>> epochs = simulate_epochs(n_trials=30, n_channels=16)
    >>> result = decode_epochs(epochs, sensors="adjacency", step=0.1, cv=5)
    >>> plot_sensors(result, times=[0.1, 0.4]).axes[1].get_title()
    '0.1 s'
    """
    import matplotlib.pyplot as plt

    drawn = prepare(result, metric, correction, alpha, vlim, cmap, "sensor or time")
    shown = topomap_samples(result.times, times, drawn.values)
    info = sensor_info(result)
    missing = why_no_topomaps(info)
    size = (7.6, 4.2) if missing else (max(7.6, 1.25 * len(shown)), 5.6)
    figure = plt.figure(figsize=size, layout="constrained")
    rows = 1 if missing else 2
    grid = figure.add_gridspec(rows, len(shown), height_ratios=[3, 1][:rows])
    ax = figure.add_subplot(grid[0, :])
    mesh = _draw_sensor_rows(ax, result, drawn)
    common.set_title(ax, result, note=missing)
    if not missing:
        axes = [figure.add_subplot(grid[1, i]) for i in range(len(shown))]
        draw_topomaps(axes, result, drawn, shown, info)
        explain_topomaps(ax, result, drawn, shown)
    handles = ax.get_legend_handles_labels()[0]
    handles += add_colorbar(
        mesh, drawn, ax=figure.axes, aspect=40, pad=0.02, panchor=False
    )
    figure.legend(handles=handles, loc="outside lower center", ncols=2, **common.LEGEND)
    if show:
        plt.show()
    return figure


def _finish(ax, mesh, drawn, result, show):
    """Add the colorbar, the title and the legend."""
    # An inset: as high as the map, whatever the shape of the figure.
    chance = add_colorbar(mesh, drawn, cax=ax.inset_axes([1.03, 0, 0.035, 1]))
    handles = ax.get_legend_handles_labels()[0]
    return common.finish(ax, result, show, handles=handles + chance)


def _draw_sensor_rows(ax, result, drawn):
    """Draw the map with one row per sensor, the first one on top."""
    across, n = sample_edges(result.times), len(result.ch_names)
    mesh = draw_map(ax, across, np.arange(n + 1) - 0.5, drawn)
    draw_onset(ax.axvline, across)
    named = range(0, n, -(-n // MOST_NAMES))
    ax.set_yticks(named, [str(result.ch_names[i]) for i in named], fontsize=6)
    ax.set(xlabel="Time (s)", ylabel="Sensor")
    ax.invert_yaxis()
    return mesh
