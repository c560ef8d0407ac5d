"""Results of latencies: onsets and peaks of groups, with intervals."""

from __future__ import annotations

from dataclasses import field
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from ..viz.group import plot_latency
from ..viz.style import DEFAULT_NAMES
from .base import Result
from .fields import figure_method, result_kind

if TYPE_CHECKING:
    from pandas import DataFrame


@result_kind
class Latency(Result):
    """Onset and peak of a group's time course, see :func:`bootstrap_latency`.

    Parameters
    ----------
    onset, peak : float
        Latencies in seconds of the mean across subjects; the onset is NaN if there is
        none. For two groups or conditions: the first minus the second.
    onset_interval, peak_interval : array, shape (2,)
        Bootstrap intervals in seconds: from the standard error for an onset, from
        percentiles for a peak.
    onsets, peaks : array, shape (n_bootstraps,)
        Latencies of the resamples, NaN where there is no onset.
    confidence : float
        Confidence of the intervals.
    metric : str
        The metric of the scores.
    chance : float
        Its chance level, NaN if it has none.
    times : array, shape (n_times,)
        Time points in seconds; empty for a difference.
    mean : array, shape (n_times,)
        Mean across subjects; empty for a difference.
    n_subjects : int
        Number of subjects, in both groups together if these differ.
    parts : tuple of Latency
        For a difference: the two latencies it is computed from.
    labels : tuple of two str
        Names of the two compared lists, for figures and texts.
    window : tuple of float or None
        First and last time searched, in seconds; None: all.
    permuted_mean : float
        Mean score of permuted labels, where heights were measured from that of each
        subject in place of chance; else NaN.
    parameters : dict
        The arguments of the call: "criterion", "fraction", "level", "min_duration",
        "window", "baseline", "paired", and the seed of the resamples, "random_state".
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
    onset_interval: NDArray
    peak_interval: NDArray
    onsets: NDArray
    peaks: NDArray
    confidence: float
    metric: str
    chance: float
    times: NDArray
    mean: NDArray
    n_subjects: int
    parts: tuple[Latency, ...] = ()
    labels: tuple[str, str] = DEFAULT_NAMES
    window: tuple[float, float] | None = None
    permuted_mean: float = np.nan
    parameters: dict[str, Any] = field(default_factory=dict)
    versions: dict[str, str] = field(default_factory=dict)

    #: There is no map.
    places: ClassVar[None] = None

    def __post_init__(self):
        """Make latencies of the parts, which a file holds as plain values."""
        parts = (Latency(**p) if isinstance(p, dict) else p for p in self.parts)
        object.__setattr__(self, "parts", tuple(parts))
        self._convert(lambda labels: tuple(map(str, labels)), "labels")

    def _content(self):
        """Map the names of the fields to plain values."""
        parts = tuple(part._content() for part in self.parts)
        return super()._content() | {"parts": parts}

    @property
    def n_without_onset(self) -> int:
        """Number of resamples without an onset."""
        return int(np.count_nonzero(np.isnan(self.onsets)))

    def when(self, which: Literal["onset", "peak"]) -> tuple[float, NDArray]:
        """Return one of the latencies.

        Parameters
        ----------
        which : {"onset", "peak"}
            Its name.

        Returns
        -------
        time : float
            In seconds, NaN if there is none.
        interval : array, shape (2,)
            Its interval.
        """
        interval = {"onset": self.onset_interval, "peak": self.peak_interval}
        return {"onset": self.onset, "peak": self.peak}[which], interval[which]

    def to_dataframe(self) -> DataFrame:
        """Return a table of the latencies.

        Returns
        -------
        table : pandas.DataFrame
            One row per latency: its name (``latency``), ``time`` and the interval
            limits ``low`` and ``high`` in seconds, and the number of resamples
            ``without`` it. For a difference, ``of`` is "difference", "first" or
            "second".
        """
        import pandas as pd  # slow to import, and only tables need it

        named = {"": self}
        if self.parts:
            first, second = self.parts
            named = {"difference": self, "first": first, "second": second}
        rows = []
        for of, latency in named.items():
            missing = {"onset": latency.n_without_onset, "peak": 0}
            for name, without in missing.items():
                time, (low, high) = latency.when(name)
                row = {"of": of} if of else {}
                row |= {"latency": name, "time": time}
                rows.append(row | {"low": low, "high": high, "without": without})
        return pd.DataFrame(rows)

    plot = figure_method(plot_latency)

    def _facts(self):
        """What a notebook's table shows: name -> words."""
        onset, peak = (words.partition(" ")[2] for words in self.worded())
        kind = {"Latencies": "differences"} if self.parts else {}
        facts = {"Onset": onset, "Peak": peak, "Subjects": str(self.n_subjects)}
        return kind | facts | {"Metric": self.metric}

    def worded(self) -> list[str]:
        """Describe the latencies and their intervals.

        Returns
        -------
        parts : list of str
            One text for the onset and one for the peak.
        """
        parts = []
        for which in ("onset", "peak"):
            time, (low, high) = self.when(which)
            none = np.isnan(time)
            words = "none" if none else f"{time:.3f} s [{low:.3f}, {high:.3f}]"
            parts.append(f"{which} {words}")
        return parts

    def __repr__(self):
        """Describe the latencies in one line."""
        parts = [*self.worded(), f"{self.n_subjects} subjects"]
        return f"<{'Difference in ' * bool(self.parts)}Latency: {' | '.join(parts)}>"
