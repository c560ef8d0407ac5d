"""The result of looking for latencies: onset and peak of a group's time course."""

from dataclasses import dataclass

import numpy as np

from .plots import (
    SCORE_COLOR,
    SIGNIFICANT_COLOR,
    axes_or_new,
    draw_chance,
    metric_label,
)


@dataclass(frozen=True, eq=False)
class Latency:
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
        """Plot the mean over subjects, with the intervals as horizontal bars.

        The bar of the onset is drawn at the height of the course at the onset, that of
        the peak at the peak. A difference shows both courses and is in the title.

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
        if self.parts:
            first, second = self.parts
            first._draw(ax, SCORE_COLOR, "first: ")
            second._draw(ax, SIGNIFICANT_COLOR, "second: ")
        else:
            self._draw(ax, SCORE_COLOR, "")
        draw_chance(ax.axhline, self.chance, self.metric)
        ax.set(xlabel="Time (s)", ylabel=metric_label(self.metric))
        what = "Difference: " if self.parts else ""
        ax.set_title(what + ", ".join(self._worded()), fontsize="medium", loc="left")
        ax.legend(frameon=False, fontsize="small")
        if show:
            import matplotlib.pyplot as plt

            plt.show()
        return ax

    def _draw(self, ax, color, name):
        """Draw the course, and the intervals where the latencies are on it."""
        label = f"{name}mean of {self.n_subjects} subjects"
        ax.plot(self.times, self.mean, color=color, lw=1.8, label=label)
        level = f"{100 * self.confidence:g} % interval"
        for which, marker in (("onset", "o"), ("peak", "D")):
            time, ends = getattr(self, which), getattr(self, f"{which}_interval")
            if np.isnan(time):
                continue
            height = np.interp(time, self.times, self.mean)
            ax.hlines(height, *ends, color=color, lw=8, alpha=0.45, zorder=3)
            label = f"{name}{which}, {level}"
            style = {"color": color, "ms": 4, "zorder": 4, "label": label}
            ax.plot([time], [height], marker, **style)

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
