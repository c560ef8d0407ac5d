"""Figures of maps: scores over two axes, e.g. training and testing time.

Matplotlib and MNE-Python are imported inside the functions, so that decoding never
loads them for its figures. Color-blind readers tell the two colors of a map apart: red
is above chance and blue below it. What is significant is outlined.
"""

import numpy as np

from . import plots
from ._drawing import (
    LINE_COLOR,
    add_colorbar,
    draw_map,
    draw_onset,
    frequency_edges,
    is_geometric,
    prepare,
    set_log_frequencies,
)
from ._edges import sample_edges

# Topomaps that are drawn when no times are given, and at most.
N_TOPOMAPS, MOST_TOPOMAPS = 6, 12

# Channel types with one value per place on the head.
TOPOMAP_TYPES = ("eeg", "mag", "grad", "csd", "hbo", "hbr")

# Dots on the significant sensors of a topomap.
MARKED = {
    "marker": "o",
    "markerfacecolor": "white",
    "markeredgecolor": "black",
    "markeredgewidth": 0.8,
    "markersize": 4,
}

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
    ax = plots.axes_or_new(ax, figsize=(6.4, 6.2))
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
    ax = plots.axes_or_new(ax, figsize=(7.0, 4.6))
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
    gradiometers of a pair lie at the same place, which shows the higher score.

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
    shown = _topomap_samples(result.times, times, drawn.values)
    info = _sensor_info(result)
    missing = _why_no_topomaps(info)
    size = (7.6, 4.2) if missing else (max(7.6, 1.25 * len(shown)), 5.6)
    figure = plt.figure(figsize=size, layout="constrained")
    rows = 1 if missing else 2
    grid = figure.add_gridspec(rows, len(shown), height_ratios=[3, 1][:rows])
    ax = figure.add_subplot(grid[0, :])
    mesh = _draw_sensor_rows(ax, result, drawn)
    plots.set_title(ax, result, note=missing)
    if not missing:
        axes = [figure.add_subplot(grid[1, i]) for i in range(len(shown))]
        _draw_topomaps(axes, result, drawn, shown, info)
        _explain_topomaps(ax, result, drawn, shown)
    handles = ax.get_legend_handles_labels()[0]
    handles += add_colorbar(
        mesh, drawn, ax=figure.axes, aspect=40, pad=0.02, panchor=False
    )
    figure.legend(handles=handles, loc="outside lower center", ncols=2, **plots.LEGEND)
    if show:
        plt.show()
    return figure


def _finish(ax, mesh, drawn, result, show):
    """Add the colorbar, the title and the legend."""
    # An inset: as high as the map, whatever the shape of the figure.
    chance = add_colorbar(mesh, drawn, cax=ax.inset_axes([1.03, 0, 0.035, 1]))
    handles = ax.get_legend_handles_labels()[0]
    return plots.finish(ax, result, show, handles=handles + chance)


def _topomap_samples(times, wanted, values):
    """Return the indices of the samples that get a topomap."""
    if wanted is None:
        count = min(N_TOPOMAPS, len(times))
        samples = np.linspace(0, len(times) - 1, count).round().astype(int)
        best = np.nan_to_num(values, nan=-np.inf).max(axis=0).argmax()
        samples[np.abs(samples - best).argmin()] = best
        return samples
    seconds = np.atleast_1d(np.asarray(wanted, dtype=float))
    start, end = sample_edges(times)[[0, -1]]
    in_range = (start <= seconds) & (seconds <= end)
    if not (in_range.all() and 0 < len(seconds) <= MOST_TOPOMAPS):
        raise ValueError(
            f"Invalid value for 'times': {wanted!r}. Allowed: None, or 1 to "
            f"{MOST_TOPOMAPS} times in seconds between {times[0]:g} and {times[-1]:g}."
        )
    return np.unique(np.abs(times[:, None] - seconds).argmin(axis=0))


def _sensor_info(result):
    """Return the mne.Info of the sensors, in their order."""
    import mne

    info = result.info
    return mne.pick_info(info, [info["ch_names"].index(x) for x in result.ch_names])


def _places(info):
    """Return the place of every sensor in meters, (n_sensors, 3), rounded to 0.1 mm."""
    return np.array([ch["loc"][:3] for ch in info["chs"]]).round(4)


def _why_no_topomaps(info):
    """Word why the sensors cannot be drawn on a head; "" if they can."""
    types = sorted(set(info.get_channel_types()))
    if len(types) > 1:
        return f"no topomaps of several types of channels ({', '.join(types)})"
    if types[0] not in TOPOMAP_TYPES:
        return f"no topomaps of {types[0]} channels"
    places = _places(info)
    if not (np.isfinite(places).all() and places.any(axis=1).all()):
        return "no topomaps: sensors without positions"
    return ""


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


def _draw_topomaps(axes, result, drawn, samples, info):
    """Draw the scores at some samples on the head; NaN, no bound, counts as zero."""
    import mne

    _, first, place = np.unique(
        _places(info), axis=0, return_index=True, return_inverse=True
    )
    members = [np.flatnonzero(place.ravel() == k) for k in range(len(first))]
    info = mne.pick_info(info, first)
    if "grad" in info.get_channel_types():
        # As magnetometers, because mne would merge pairs of gradiometers as fields.
        tesla = mne.create_info(1, 1.0, "mag")["chs"][0]["unit"]
        for ch in info["chs"]:
            ch["unit"] = tesla
    for ax, i in zip(axes, samples, strict=True):
        marked = None
        if drawn.significant is not None:
            marked = np.array([drawn.significant[rows, i].any() for rows in members])
        mne.viz.plot_topomap(
            np.array([np.nan_to_num(drawn.values[rows, i]).max() for rows in members]),
            info,
            mask=marked,
            mask_params=MARKED,
            contours=0,
            cmap=drawn.cmap,
            cnorm=drawn.norm,
            axes=ax,
            show=False,
        )
        ax.set_title(f"{round(result.times[i], 3):g} s", fontsize="small")


def _explain_topomaps(ax, result, drawn, samples):
    """Point at the times of the topomaps on top of the map, and say what dots mean."""
    ax.plot(
        result.times[samples],
        np.ones(len(samples)),
        "v",
        transform=ax.get_xaxis_transform(),  # seconds across, share of the height up
        color=plots.SCORE_COLOR,
        ms=6,
        clip_on=False,
        label="times of the topomaps",
    )
    if drawn.significant is not None and drawn.significant[:, samples].any():
        ax.plot([], [], **MARKED, ls="", label="significant sensors at that time")
