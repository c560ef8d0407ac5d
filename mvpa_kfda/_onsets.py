"""Onsets and peaks of resampled time courses: arrays in, latencies out."""

from dataclasses import dataclass

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from scipy.stats import t as student

from ._clusters import batches

#: What a time course has to exceed from its onset on.
CRITERIA = ("peak-fraction", "t")

#: Times that differ by less, in seconds, are the same.
_ROUNDING = 1e-6


@dataclass(frozen=True)
class Rule:
    """What an onset is, and where to look for it.

    Attributes
    ----------
    criterion : "peak-fraction" | "t"
        See `mvpa_kfda.bootstrap_latency`.
    fraction, level : float
        Fraction of the peak's height, and p-level of the t-test.
    min_duration : float
        How long an onset has to last, in seconds.
    window, baseline : tuple of float, or None
        First and last time to search in, and to measure heights from.
    """

    criterion: str
    fraction: float
    level: float
    min_duration: float
    window: tuple | None
    baseline: tuple | None


def draw_subjects(rng, n_subjects, n_bootstraps):
    """Return how often every subject is in every resample, (n_bootstraps, S)."""
    shares = np.full(n_subjects, 1 / n_subjects)
    return rng.multinomial(n_subjects, shares, n_bootstraps)


def locate(times, scores, chance, counts, rule):
    """Find onsets and peaks of the means of resampled subjects.

    Parameters
    ----------
    times : ndarray, shape (T,)
        Time points in seconds.
    scores : ndarray, shape (S, T)
        Scores of every subject.
    chance : float
        What heights are measured from without a baseline.
    counts : ndarray of int, shape (m, S)
        How often every subject is in every resample.
    rule : Rule
        What an onset is.

    Returns
    -------
    onsets, peaks : ndarray, shape (m,)
        Latencies in seconds; NaN for a mean without an onset.

    Raises
    ------
    ValueError
        If the window or the baseline has too few samples.
    """
    window = _within("window", times, rule.window)
    base = _within("baseline", times, rule.baseline)
    n_stay = _count_samples(times[window], rule.min_duration)
    onsets, peaks = np.empty((2, len(counts)))
    for rows in batches(len(counts), len(times)):
        mean, error = _mean_and_error(scores, counts[rows])
        floor = np.full((len(mean), 1), chance)
        if rule.baseline is not None:
            floor = mean[:, base].mean(axis=1, keepdims=True)
        mean, error = mean[:, window], error[:, window]
        excess = _excess(mean, error, floor, rule, len(scores))
        onsets[rows] = _first_stay(excess, times[window], n_stay)
        peaks[rows] = times[window][mean.argmax(axis=1)]
    return onsets, peaks


def _within(name, times, span):
    """Return a slice of the samples in a span of time."""
    if span is None:
        return slice(None)
    ends = span[0] - _ROUNDING, span[1] + _ROUNDING
    first, last = np.searchsorted(times, ends)
    if first >= last:
        raise ValueError(
            f"No sample lies in {name}={span}; the times are {times[0]:.3f} to "
            f"{times[-1]:.3f} s."
        )
    return slice(first, last)


def _count_samples(times, duration):
    """Return how many samples in a row last for a duration; each lasts one step."""
    step = np.median(np.diff(times)) if len(times) > 1 else np.inf
    n_stay = max(1, int(np.ceil(duration / step - _ROUNDING)))
    if n_stay > len(times):
        raise ValueError(
            f"min_duration={duration} s is longer than the time to search, "
            f"{times[0]:.3f} to {times[-1]:.3f} s."
        )
    return n_stay


def _mean_and_error(scores, counts):
    """Return means (m, T) over resampled subjects, and their standard errors."""
    n = len(scores)
    centre = scores.mean(axis=0)  # taken out, so that squares keep their digits
    mean = counts @ (scores - centre) / n
    variance = counts @ np.square(scores - centre) / n - mean**2
    return mean + centre, np.sqrt(np.maximum(0.0, variance) / (n - 1))


def _excess(mean, error, floor, rule, n_subjects):
    """Return how far courses (m, T) are above what an onset takes."""
    if rule.criterion == "t":
        return mean - floor - student.isf(rule.level, n_subjects - 1) * error
    height = mean.max(axis=1, keepdims=True) - floor
    # A course that never rises above the floor has no onset.
    return np.where(height > 0, mean - floor - rule.fraction * height, -1.0)


def _first_stay(excess, times, n_stay):
    """Return when courses (m, T) first rise above zero for some samples, NaN if never.

    The crossing is interpolated between the last sample below and the first above.
    """
    stays = sliding_window_view(excess > 0, n_stay, axis=1).all(axis=2)
    first, rows = stays.argmax(axis=1), np.arange(len(excess))
    before = np.maximum(first - 1, 0)  # the same at the start of the window
    above, rise = excess[rows, first], excess[rows, first] - excess[rows, before]
    back = np.divide(above, rise, out=np.zeros(len(rows)), where=rise > 0)
    onset = times[first] - back * (times[first] - times[before])
    return np.where(stays.any(axis=1), onset, np.nan)
