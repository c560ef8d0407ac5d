"""Edges: of samples, of stretches of samples, of the bins of a histogram."""

import numpy as np


def sample_edges(times):
    """Return the n + 1 borders halfway between samples."""
    if len(times) == 1:  # no neighbor tells how long a sample is
        return times[0] + np.array([-0.005, 0.005])
    middle = (times[:-1] + times[1:]) / 2
    return np.concatenate(
        [[2 * times[0] - middle[0]], middle, [2 * times[-1] - middle[-1]]]
    )


def significant_spans(times, significant):
    """Find the stretches of contiguous significant samples.

    Parameters
    ----------
    times : array, shape (n_times,)
        Time points in seconds.
    significant : array of bool, shape (n_times,)
        Which of them are significant.

    Returns
    -------
    spans : array, shape (n_spans, 2)
        Start and end in seconds, half a sample before the first and after the last
        significant sample.

    Examples
    --------
    >>> significant_spans([0.0, 0.1, 0.2, 0.3], [False, True, True, False])
    array([[0.05, 0.25]])
    """
    flags = np.concatenate([[0], np.asarray(significant, dtype=int), [0]])
    change = np.diff(flags)
    edges = sample_edges(np.asarray(times, dtype=float))
    return np.column_stack([edges[:-1][change[:-1] == 1], edges[change == -1]])


def histogram_edges(values):
    """Choose bins that hold equally many of the possible scores each.

    Accuracies are multiples of 1/n. Bins that are no multiple of that hold now
    one of them and now two, which draws a comb that the data does not have.

    Parameters
    ----------
    values : array, shape (m,)
        The numbers to count.

    Returns
    -------
    edges : array, shape (n_bins + 1,)
        Increasing bin edges around all values.

    Examples
    --------
    >>> histogram_edges([0.25, 0.25, 0.5, 0.5, 0.5, 0.75])
    array([0.125, 0.375, 0.625, 0.875])
    """
    values = np.asarray(values, dtype=float)
    levels = np.unique(values.round(12))
    if len(levels) == 1:
        return levels[0] + np.array([-0.5, 0.5]) * max(abs(levels[0]), 1) / 50
    automatic = np.histogram_bin_edges(values, "auto")
    step = np.diff(levels).min()
    steps = (levels - levels[0]) / step
    if np.abs(steps - steps.round()).max() > 1e-3:
        return automatic  # no grid
    width = step * max(1, np.ceil((automatic[1] - automatic[0]) / step - 1e-6))
    n_bins = int(np.ceil((levels[-1] - levels[0] + step) / width - 1e-6))
    return levels[0] - step / 2 + width * np.arange(n_bins + 1)
