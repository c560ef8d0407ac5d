"""The result of looking for latencies: onset and peak of a group's time course."""

from dataclasses import dataclass, field

import numpy as np

from ._figures.common import (
    LEGEND,
    SCORE_COLOR,
    SIGNIFICANT_COLOR,
    axes_or_new,
    draw_chance,
)
from ._figures.edges import sample_edges
from ._figures.labels import metric_label
from ._results.saved import Saved

#: Colors of the bands of onset and peak, other than that of the course.
BANDS = {"onset": "#E69F00", "peak": "#CC79A7"}  # orange, reddish purple

OUTSIDE_COLOR = "#EEEEEE"  # of times that were not searched


@dataclass(frozen=True, kw_only=True, repr=False, eq=False)
class Latency(Saved):
    """Onset and peak of a group's time course, see `bootstrap_latency`.

    Parameters
    ----------
    onset, peak : float
        Latencies in seconds of the mean over subjects; the onset is NaN if there is
        none. Of two groups or conditions: the first minus the second.
    onset_interval, peak_interval : array, shape (2,)
        Bootstrap intervals in seconds.
    onsets, peaks : array, shape (n_bootstraps,)
        Latencies of the resamples, NaN where there is no onset.
    confidence : float
        Confidence of the intervals.
    metric : str
        The metric of the scores.
    chance : float
        Its chance level, NaN where it has none.
    times : array, shape (n_times,)
        Time points in seconds; empty for a difference.
    mean : array, shape (n_times,)
        Mean over subjects; empty for a difference.
    n_subjects : int
        Number of subjects, in both groups if they are different ones.
    parts : tuple of Latency
        For a difference: the latencies that it is between.
    window : tuple of float or None
        First and last time in seconds that were searched; None: all.
    parameters : dict
        What was asked for: "criterion", "fraction", "level", "min_duration", "window",
        "baseline", "paired", and the seed of the resamples, "random_state".
    versions : dict of str -> str
        Versions of the packages that made the result.

    Examples
    --------
    >>> import numpy as np
    >>> empty = np.empty(0)
    >>> Latency(
    ...     onset=0.1,
    ...     peak=0.2,
    ...     onset_interval=np.array([0.08, 0.13]),
    ...     peak_interval=np.array([0.18, 0.21]),
    ...     onsets=empty,
    ...     peaks=empty,
    ...     confidence=0.95,
    ...     metric="accuracy",
    ...     chance=0.5,
    ...     times=empty,
    ...     mean=empty,
    ...     n_subjects=12,
    ... )
    <Latency: onset 0.100 s [0.080, 0.130] | peak 0.200 s [0.180, 0.210] | 12 subjects>
    """

    onset: float
    peak: float
    onset_interval: np.ndarray
    peak_interval: np.ndarray
    onsets: np.ndarray
    peaks: np.ndarray
    confidence: float
    metric: str
    chance: float
    times: np.ndarray
    mean: np.ndarray
    n_subjects: int
    parts: tuple = ()
    window: tuple | None = None
    parameters: dict = field(default_factory=dict)
    versions: dict = field(default_factory=dict)

    def __post_init__(self):
        """Make latencies of the parts, which a file holds as plain values."""
        parts = (Latency(**p) if isinstance(p, dict) else p for p in self.parts)
        object.__setattr__(self, "parts", tuple(parts))

    def _content(self):
        """Map the names of the fields to plain values."""
        parts = tuple(part._content() for part in self.parts)
        return super()._content() | {"parts": parts}

    @property
    def n_without_onset(self):
        """Number of resamples that have no onset."""
        return int(np.count_nonzero(np.isnan(self.onsets)))

    def to_dataframe(self):
        """Make a table of the latencies.

        Returns
        -------
        table : pandas.DataFrame
            One row per latency: its name (``latency``), ``time`` and ends of the
            interval, ``low`` and ``high``, in seconds, and the number of resamples
            ``without`` it. For a difference, ``of`` tells "difference", "first" and
            "second".
        """
        import pandas as pd  # slow to import, and only tables need it

        named = {"": self}
        if self.parts:
            first, second = self.parts
            named = {"difference": self, "first": first, "second": second}
        rows = []
        for of, each in named.items():
            missing = {"onset": each.n_without_onset, "peak": 0}
            for name, without in missing.items():
                low, high = getattr(each, f"{name}_interval")
                row = {"of": of} if of else {}
                row |= {"latency": name, "time": getattr(each, name)}
                rows.append(row | {"low": low, "high": high, "without": without})
        return pd.DataFrame(rows)

    def plot(self, *, ax=None, show=False):
        """Plot the mean over subjects, with the intervals as vertical bands.

        Onset and peak are marked on the course. Times outside of the window that was
        searched are gray. A difference shows both courses with the intervals of each
        in its color; its own are in the title.

        Parameters
        ----------
        ax : matplotlib Axes or None
            Where to draw; None makes a figure.
        show : bool
            Show the figure at once.

        Returns
        -------
        ax : matplotlib Axes
        """
        ax = axes_or_new(ax, figsize=(7.0, 4.2))
        courses = self.parts or (self,)
        if self.parts:
            for course, color, name in zip(
                courses,
                (SCORE_COLOR, SIGNIFICANT_COLOR),
                ("first: ", "second: "),
                strict=True,
            ):
                course._draw(ax, color, dict.fromkeys(BANDS, color), name)
        else:
            self._draw(ax, SCORE_COLOR, BANDS, "")
        draw_chance(ax.axhline, self.chance, self.metric)
        edges = np.concatenate([sample_edges(course.times) for course in courses])
        ax.set_xlim(edges.min(), edges.max())
        if edges.min() <= 0 <= edges.max():
            ax.axvline(0, color="black", lw=0.8, zorder=1, label="0 s")
        courses[0]._draw_window(ax)
        ax.set(xlabel="Time (s)", ylabel=metric_label(self.metric))
        what = "Difference: " if self.parts else ""
        ax.set_title(what + ", ".join(self._worded()), fontsize="medium", loc="left")
        ax.spines[["top", "right"]].set_visible(False)
        below = {"bbox_to_anchor": (0.5, 0), "borderaxespad": 4.5}
        ax.legend(loc="upper center", ncols=2, **below, **LEGEND)
        if show:
            import matplotlib.pyplot as plt

            plt.show()
        return ax

    def _draw(self, ax, color, bands, name):
        """Draw the course, its latencies, and bands over their intervals."""
        label = f"{name}mean of {self.n_subjects} subjects"
        ax.plot(self.times, self.mean, color=color, lw=1.8, label=label, zorder=3)
        level = f"{100 * self.confidence:g} % interval"
        for which, marker, edge in (("onset", "o", "-"), ("peak", "D", "--")):
            time, (low, high) = getattr(self, which), getattr(self, f"{which}_interval")
            if np.isnan(time):
                continue
            height = np.interp(time, self.times, self.mean)
            shade = bands[which]
            style = {"color": shade, "mec": "white", "ms": 7, "zorder": 4}
            ax.plot([time], [height], marker, **style)
            # The edges show an interval of any width, also of none.
            band = {"fc": (shade, 0.2), "ec": shade, "ls": edge, "lw": 0.8}
            ax.axvspan(low, high, label=f"{name}{which}, {level}", zorder=1.5, **band)

    def _draw_window(self, ax):
        """Gray out what was not searched."""
        if self.window is None:
            return
        (left, right), (first, last) = ax.get_xlim(), self.window
        label = f"not searched (window {first:g} to {last:g} s)"
        outside = (
            (left, first, first > self.times[0]),
            (last, right, last < self.times[-1]),
        )
        for start, end, holds_samples in outside:
            if holds_samples:
                ax.axvspan(start, end, fc=OUTSIDE_COLOR, lw=0, zorder=0.5, label=label)
                label = None  # once in the legend

    def _worded(self):
        """Word the latencies and their intervals."""
        parts = []
        for which in ("onset", "peak"):
            time, (low, high) = getattr(self, which), getattr(self, f"{which}_interval")
            none = np.isnan(time)
            found = "none" if none else f"{time:.3f} s [{low:.3f}, {high:.3f}]"
            parts.append(f"{which} {found}")
        return parts

    def __repr__(self):
        """Describe the latencies in one line."""
        parts = [*self._worded(), f"{self.n_subjects} subjects"]
        return f"<{'Difference in ' * bool(self.parts)}Latency: {' | '.join(parts)}>"
