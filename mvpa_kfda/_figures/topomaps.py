"""Topomaps: the scores of sensors at some times, on a head seen from above.

MNE-Python and matplotlib are imported inside the functions, so that decoding never
loads them for its figures.
"""

import numpy as np

from . import common
from .edges import sample_edges
from .labels import BOUND

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

# Rings around those of colored dots.
RING = MARKED | {
    "markerfacecolor": "none",
    "markeredgewidth": 1.4,
    "markersize": 5,
}

# Sensors without a value.
EMPTY = {"color": "#BBBBBB", "s": 4, "linewidths": 0}


def topomap_samples(times, wanted, values):
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


def sensor_info(result):
    """Return the mne.Info of the sensors, in their order."""
    import mne

    info = result.info
    return mne.pick_info(info, [info["ch_names"].index(x) for x in result.ch_names])


def why_no_topomaps(info):
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


def draw_topomaps(axes, result, drawn, samples, info):
    """Draw the scores at some samples on the head."""
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
    draw = _draw_dots if _has_gaps(drawn) else _draw_surface
    for ax, i in zip(axes, samples, strict=True):
        marked = None
        if drawn.significant is not None:
            marked = np.array([drawn.significant[rows, i].any() for rows in members])
        values = [np.fmax.reduce(drawn.values[rows, i]) for rows in members]
        draw(ax, np.array(values), info, marked, drawn)
        ax.set_title(f"{round(result.times[i], 3):g} s", fontsize="small")


def explain_topomaps(ax, result, drawn, samples):
    """Point at the times of the topomaps on top of the map, and say what dots mean."""
    ax.plot(
        result.times[samples],
        np.ones(len(samples)),
        "v",
        transform=ax.get_xaxis_transform(),  # seconds across, share of the height up
        color=common.SCORE_COLOR,
        ms=6,
        clip_on=False,
        label="times of the topomaps",
    )
    if drawn.significant is None or not drawn.significant[:, samples].any():
        return
    style = RING if _has_gaps(drawn) else MARKED
    what = "majority of people" if drawn.metric == BOUND else "significant sensors"
    ax.plot([], [], **style, ls="", label=f"{what} at that time")


def _places(info):
    """Return the place of every sensor in meters, (n_sensors, 3), rounded to 0.1 mm."""
    return np.array([ch["loc"][:3] for ch in info["chs"]]).round(4)


def _has_gaps(drawn):
    """Tell maps that have no value at some sensors; there is nothing to interpolate."""
    return drawn.metric == BOUND or np.isnan(drawn.values).any()


def _draw_surface(ax, values, info, marked, drawn):
    """Draw scores with what is interpolated between sensors, and mark some of them."""
    import mne

    mne.viz.plot_topomap(
        values,
        info,
        mask=marked,
        mask_params=MARKED,
        contours=0,
        cmap=drawn.cmap,
        cnorm=drawn.norm,
        axes=ax,
        show=False,
    )


def _draw_dots(ax, values, info, marked, drawn):
    """Draw scores as dots at the sensors, on a white head; a ring marks some of them.

    Sensors without a score are small gray dots.
    """
    import mne

    # A white surface, for the head; the sensors tell where mne projects them to.
    mne.viz.plot_topomap(
        np.zeros(len(values)),
        info,
        mask=np.ones(len(values), dtype=bool),
        mask_params={"gid": "sensors", "marker": ""},
        sensors=False,
        contours=0,
        cmap="binary",
        vlim=(0, 1),
        axes=ax,
        show=False,
    )
    (sensors,) = (line for line in ax.lines if line.get_gid() == "sensors")
    places, known = sensors.get_xydata(), np.isfinite(values)
    sensors.remove()
    edges = np.zeros(len(values), dtype=bool) if marked is None else marked
    ax.scatter(*places[~known].T, zorder=3, **EMPTY)
    ax.scatter(
        *places[known].T,
        c=values[known],
        s=22,
        cmap=drawn.cmap,
        norm=drawn.norm,
        edgecolors=np.where(edges, "black", "#999999")[known],
        linewidths=np.where(edges, RING["markeredgewidth"], 0.4)[known],
        zorder=4,
    )
