"""Position sources: what is decoded where.

A position is a time point, a window, a sensor's neighbourhood in a window. What an
adapter makes of its data is a source: it knows the map's shape, cuts the positions
into blocks that never depend on how many workers there are, and yields each position's
model, which predicts any number of label vectors. The run loop
(:mod:`mvpa_kfda.search`) knows nothing else about positions.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ._checks import check_positive
from .hat import prefers_features
from .kernels import Linear
from .models import kernels_of, plan_of_features, plan_of_inner


class PositionError(ValueError):
    """An error whose message names the position already."""


@dataclass(frozen=True)
class Windows:
    """How windows are cut from an epoch.

    Attributes
    ----------
    starts : ndarray of int, shape (n_windows,)
        Each window's first sample.
    width, step : int
        Samples per window, and from one window to the next.
    times : ndarray, shape (n_windows,)
        The windows' centres in seconds.
    """

    starts: np.ndarray
    width: int
    step: int
    times: np.ndarray


def cut_windows(times, sfreq, window, step):
    """Return the windows of an epoch with sample times (n_times,) in seconds.

    Parameters
    ----------
    times : ndarray, shape (n_times,)
        The samples' times.
    sfreq : float
        Samples per second.
    window, step : float | None
        In seconds; None is one sample.

    Returns
    -------
    windows : Windows
        All windows that fit in.

    Raises
    ------
    ValueError, TypeError
        If a length is no positive number or the window longer than the epoch.
    """
    n_times, lengths = len(times), {}
    for name, seconds in (("window", window), ("step", step)):
        if seconds is None:
            lengths[name] = 1
            continue
        check_positive(name, seconds, hint=" It is in seconds.")
        lengths[name] = max(1, int(seconds * sfreq + 0.5 + 1e-9))  # half goes up
    width, step = lengths["window"], lengths["step"]
    if width > n_times:
        raise ValueError(
            f"window={window} s is {width} samples at {sfreq:g} Hz, longer than the "
            f"epoch: {n_times} samples, {n_times / sfreq:g} s."
        )
    starts = np.arange(0, n_times - width + 1, step)
    centres = np.array([times[i : i + width].mean() for i in starts])
    return Windows(starts, width, step, centres)


@dataclass(frozen=True)
class FeatureSource:
    """One position: the features (n, p) themselves, or a precomputed kernel (n, n)."""

    X: np.ndarray
    kernel: object
    reg: object

    #: A map of no dimensions.
    shape = ()

    def blocks(self):
        """Return the one block."""
        return [range(1)]

    def models(self, block, task):
        """Yield the model of every position in a block."""
        for _ in block:
            yield plan_of_features(self.X, self.kernel, self.reg, task)

    def where(self, position):
        """Return how to begin a message about a position."""
        return ""


@dataclass(frozen=True)
class WindowSource:
    """Windows of consecutive samples, one row of them or several.

    Several rows are the frequencies of a time-frequency decomposition, one behind the
    other along the samples, or neighbourhoods of channels. Positions count the windows
    of a row first.

    Attributes
    ----------
    data : ndarray, shape (n_samples, n_trials, n_channels)
        Samples first, so that a sample is contiguous.
    starts : ndarray of int, shape (n_windows,) | (n_rows, n_windows)
        The first sample of every window.
    width : int
        Samples per window.
    mode : "mean" | "concatenate"
        Average the window's samples, or use all of them as features.
    times : ndarray, shape (n_windows,)
        The windows' centres in seconds.
    kernel, reg
        Resolved kernel and regularisation.
    names : tuple of str
        What a row is called in messages.
    channels : tuple of ndarray of int | None
        The channels of every row; None takes all in all rows.
    """

    data: np.ndarray
    starts: np.ndarray
    width: int
    mode: str
    times: np.ndarray
    kernel: object
    reg: object
    names: tuple = ()
    channels: tuple | None = None

    #: Positions per task: long enough to outweigh sending it, fixed so that sums over
    #: neighbouring windows are formed alike whatever the number of workers.
    block_length = 4

    @property
    def shape(self):
        """The shape of the map."""
        return self.starts.shape

    @property
    def n_windows(self):
        """The number of windows in a row."""
        return self.starts.shape[-1]

    def blocks(self):
        """Return the positions cut into ranges, none of them across rows."""
        n, step = self.n_windows, self.block_length
        return [
            range(row + i, row + min(i + step, n))
            for row in range(0, self.starts.size, n)
            for i in range(0, n, step)
        ]

    def where(self, position):
        """Return how to begin a message about a position."""
        row, window = divmod(position, self.n_windows)
        name = f"{self.names[row]}, " if self.names else ""
        return f"At {name}{self.times[window]:.3f} s: "

    def check_not_flat(self):
        """Refuse windows in which all trials are alike, before anything is computed."""
        flat = (self.data == self.data[:, :1]).all(axis=(1, 2))
        for position, start in enumerate(self.starts.flat):
            if flat[start : start + self.width].all():
                raise ValueError(
                    f"{self.where(position)}The trials do not differ: flat data, or a "
                    "baseline of one sample. Leave such times out, for epochs with "
                    "epochs.crop."
                )

    def models(self, block, task):
        """Yield the model of every window in a block."""
        if self._sums_kernels:
            row = block.start // self.n_windows
            for inner in self._running_inner(block):
                n_features = self._select(self.data[0], row).shape[1] * self.width
                yield plan_of_inner(inner, n_features, self.kernel, self.reg, task)
        else:
            for position in block:
                kernel = self.kernel_of(position)
                yield plan_of_features(self.features(position), kernel, self.reg, task)

    def kernel_of(self, position):
        """Return the kernel for a window's features."""
        kernel = self.kernel
        if self.channels is not None:
            kernel = kernel.take(self.channels[position // self.n_windows])
        is_long = self.mode == "concatenate" and self.width > 1
        return kernel.repeated(self.width) if is_long else kernel

    def features(self, position):
        """Return the features of a window, (n, p) or (n, width * p)."""
        samples = self._samples(position)
        if self.mode == "mean":
            return samples.mean(axis=0)
        return np.concatenate(samples, axis=1)

    def signal(self, position):
        """Return the channels' mean in a window, (n, p)."""
        return self._samples(position).mean(axis=0)

    def _samples(self, position):
        """Return the samples of a window, (width, n, p)."""
        start = self.starts.flat[position]
        samples = self.data[start : start + self.width]
        return self._select(samples, position // self.n_windows)

    def _select(self, samples, row):
        """Return samples (..., p) of a row's channels."""
        if self.channels is None:
            return samples
        return np.take(samples, self.channels[row], axis=-1)  # contiguous, unlike [...]

    @cached_property
    def _sums_kernels(self):
        """Whether windows are cheaper as sums of their samples' inner products."""
        if self.mode == "mean" or self.width == 1:
            return False
        if not all(hasattr(each, "from_inner") for each in kernels_of(self.kernel)):
            return False
        n, p = self.data.shape[1:]
        if self.channels is not None:
            p = min(len(channels) for channels in self.channels)
        if isinstance(self.kernel, Linear) and prefers_features(n, p * self.width):
            return False  # the primal route is cheaper still
        if self.n_windows < 2:
            return False
        # The windows of a block then have samples in common, and together take fewer
        # than 3 times the products of one of them.
        step = np.diff(self.starts).max()
        return bool((self.block_length - 1) * step < self.width)

    def _running_inner(self, block):
        """Yield the inner products (n, n) of each window, from what windows share.

        Samples are only ever added, never taken away again: a difference would leave
        the rounding errors of a large sample in the windows after it.
        """
        row = block.start // self.n_windows
        starts = self.starts.ravel()[block.start : block.stop]
        last, stop = starts[-1], starts[0] + self.width
        shared = sum(self._sample_inner(t, row) for t in range(last, stop))
        for start in starts:
            for t in range(stop, start + self.width):
                shared += self._sample_inner(t, row)
            stop = start + self.width
            early = (self._sample_inner(t, row) for t in range(start, last))
            yield sum(early, start=shared)  # a new array in all but the last window

    def _sample_inner(self, t, row):
        """Return the inner products (n, n) of one sample's features."""
        X = self._select(self.data[t], row)
        if self.kernel.shift_free:
            X = X - X.mean(axis=0)
        return X @ X.T


def window_source(data, windows, mode, kernel, reg):
    """Return the source of one row of windows of data (n_samples, n_trials, p)."""
    return WindowSource(
        data, windows.starts, windows.width, mode, windows.times, kernel, reg
    )
