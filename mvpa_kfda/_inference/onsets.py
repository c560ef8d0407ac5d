"""Onsets and peaks of resampled time courses: arrays in, latencies out."""

from dataclasses import dataclass

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from scipy.stats import t as student

from .clusters import batches

#: What a time course has to exceed from its onset on.
CRITERIA = ("peak-fraction", "t")

#: An onset that lasts at all has to last for so many samples.
FEWEST_SAMPLES = 3

#: Times that differ by less, in seconds, are the same.
_ROUNDING = 1e-6

#: Means that differ by less, as a part of the largest score, are the same.
_TIE = 1e-10

#: Windows this many times as far from 0 s as the times must be in another unit.
_OTHER_UNIT = 10


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
        How long an onset has to last, in seconds and `FEWEST_SAMPLES` at least; 0 for
        a single sample.
    window, baseline : tuple of float, or None
        First and last time to search in, and to measure heights from. Without a window
        all times from 0 s on are searched, or all if 0 s is not among them.
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
    early : ndarray of bool, shape (m,)
        Where noise may be the onset: the mean is above the level from the start of the
        window on or, with the criterion "peak-fraction", at times before the window
        and before 0 s.

    Raises
    ------
    ValueError
        If the window or the baseline has too few samples.
    """
    tie = _TIE * np.abs(scores).max()
    if rule.baseline is not None:  # of each subject, so that errors are those of both
        base = _within("baseline", times, rule.baseline)
        scores, chance = scores - scores[:, base].mean(axis=1, keepdims=True), 0.0
    window = _within("window", times, searched(times, rule))
    n_stay = _count_samples(times[window], rule.min_duration)
    before = slice(0, min(window.start, np.searchsorted(times, -_ROUNDING)))
    onsets, peaks = np.empty((2, len(counts)))
    early = np.zeros(len(counts), dtype=bool)
    for rows in batches(len(counts), len(times)):
        mean, error = _mean_and_error(scores, counts[rows])
        top = mean[:, window].max(axis=1, keepdims=True)
        excess = _excess(mean - chance, error, top - chance, tie, rule, len(scores))
        stays = _stays(excess[:, window] > tie, n_stay)
        onsets[rows] = _first_stay(excess[:, window], stays, times[window])
        peaks[rows] = times[window][(mean[:, window] >= top - tie).argmax(axis=1)]
        early[rows] = stays[:, 0]
        if rule.criterion == "peak-fraction":
            early[rows] |= _stays(excess[:, before] > tie, n_stay).any(axis=1)
    return onsets, peaks, early


def searched(times, rule):
    """Return the first and last time that are searched."""
    if rule.window is not None:
        return rule.window
    first = 0.0 if times[0] < 0 < times[-1] else float(times[0])
    return first, float(times[-1])


def _within(name, times, span):
    """Return a slice of the samples in a span of time."""
    far = [abs(end) for end in span if np.isfinite(end)]
    if max(far, default=0) > _OTHER_UNIT * max(1.0, np.abs(times).max()):
        raise ValueError(
            f"{name}={span} is far from the times, which are {times[0]:.3f} to "
            f"{times[-1]:.3f} s. Times are in seconds: 100 ms are 0.1."
        )
    ends = span[0] - _ROUNDING, span[1] + _ROUNDING
    first, last = np.searchsorted(times, ends)
    if first >= last:
        raise ValueError(
            f"No sample lies in {name}={span}; the times are {times[0]:.3f} to "
            f"{times[-1]:.3f} s. Times are in seconds: 100 ms are 0.1."
        )
    return slice(first, last)


def _count_samples(times, duration):
    """Return how many samples in a row last for a duration; each lasts one step."""
    step = np.median(np.diff(times)) if len(times) > 1 else np.inf
    least = FEWEST_SAMPLES if duration > 0 else 1
    n_stay = max(least, int(np.ceil(duration / step - _ROUNDING)))
    if n_stay > len(times):
        raise ValueError(
            f"min_duration={duration} s, here {n_stay} samples, is longer than the "
            f"time to search, {times[0]:.3f} to {times[-1]:.3f} s with {len(times)}."
        )
    return n_stay


def _mean_and_error(scores, counts):
    """Return means (m, T) over resampled subjects, and their standard errors."""
    n = len(scores)
    centre = scores.mean(axis=0)  # taken out, so that squares keep their digits
    mean = counts @ (scores - centre) / n
    variance = counts @ np.square(scores - centre) / n - mean**2
    return mean + centre, np.sqrt(np.maximum(0.0, variance) / (n - 1))


def _excess(height, error, top, tie, rule, n_subjects):
    """Return how far heights (m, T) are above what an onset takes."""
    if rule.criterion == "t":
        return height - student.isf(rule.level, n_subjects - 1) * error
    # A course that never rises above chance has no onset.
    return np.where(top > tie, height - rule.fraction * top, -1.0)


def _stays(above, n_stay):
    """Tell from which samples on courses (m, T) stay above for so many samples."""
    if above.shape[1] < n_stay:
        return np.zeros((len(above), 1), dtype=bool)
    return sliding_window_view(above, n_stay, axis=1).all(axis=2)


def _first_stay(excess, stays, times):
    """Return when courses (m, T) first rise above zero to stay, NaN if never.

    The crossing is interpolated between the last sample below and the first above.
    """
    first, rows = stays.argmax(axis=1), np.arange(len(excess))
    before = np.maximum(first - 1, 0)  # the same at the start of the window
    above, rise = excess[rows, first], excess[rows, first] - excess[rows, before]
    back = np.divide(above, rise, out=np.zeros(len(rows)), where=rise > 0)
    onset = times[first] - back * (times[first] - times[before])
    return np.where(stays.any(axis=1), onset, np.nan)
