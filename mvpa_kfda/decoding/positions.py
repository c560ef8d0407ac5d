"""What is decoded where: the positions of every kind of map.

A position is a time point, a window, a sensor's neighbourhood in a window, a sphere, a
region. What a decoding function makes of its data are `Positions`: they know the map's
shape, are cut into blocks that never depend on how many workers there are, and yield
each position's model, which predicts any number of label vectors. The run loop
(:mod:`mvpa_kfda.decoding.run`) knows nothing else about them. A map of a new kind is a
class with these parts.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Protocol

import numpy as np
from sklearn import config_context

from ..kfda.direct import prepare_sorted
from ..kfda.folds import Folds, lay_out
from ..kfda.hat import make_hat, prefers_features
from ..kfda.models import (
    Stack,
    check_size,
    plan_of_features,
)
from ..kfda.penalties import Tuned, of_trials
from ..utils.checks import check_positive, counted, plural


class PositionError(ValueError):
    """An error whose message names the position already."""


class Positions(Protocol):
    """What the run loop, and what surrounds it, ask of the positions of a map.

    A map of a new kind is a subclass, which inherits what has a default.

    Attributes
    ----------
    shape : tuple of int
        Positions along every axis of the map; () for a single one.
    row : tuple of int
        The cells of the map that every position fills; () for one.
    adjacency : callable | None
        Returns which of the cells that are run touch, for nulls that form clusters;
        None: those next on the map.
    exempt : ndarray of bool | None
        Cells at which the scores against the task's second labels do not count.
    fewer : str
        What makes the map smaller, for messages.
    worker_bytes : int
        Memory that a worker takes at least, beside what all workers share.
    """

    shape: tuple
    row: tuple = ()
    adjacency: Callable | None = None
    exempt: np.ndarray | None = None
    fewer: str = "fewer positions"
    worker_bytes: int = 0

    def describe(self):
        """Word the size of the map."""
        number = " x ".join(map(str, self.shape)) or "1"
        return f"{number} {plural('position', math.prod(self.shape))}"

    def check(self):
        """Refuse data that cannot be decoded anywhere, before anything is computed."""

    def blocks(self):
        """The positions that are run, cut into sequences of numbers."""

    def models(self, block, task):
        """Yield the models of a block, each of one position or of several in a row."""

    def where(self, position):
        """How to begin a message about a position."""
        return ""

    def signal(self, position):
        """What activation patterns are patterns of, (n, p)."""
        return self.samples(position)[0]

    def pattern_rows(self, block):
        """Where a block's patterns go in an array of those of all positions.

        And the length of that array's first axis. None where every position has as many
        features: it has one row for each then, else one for each position's feature.
        """
        return None

    def same(self, position):
        """Which cell of its row tests a position on itself; None: none does."""

    def samples(self, position):
        """The features of a position (n, p), and the kernel for them."""

    def grouped(self, grouping, block):
        """The same positions of pseudo-trials, good for those of a block."""


@dataclass(frozen=True)
class Windows:
    """How windows are cut from an epoch."""

    #: Each window's first sample, (n_windows,).
    starts: np.ndarray
    #: Samples per window, and from one window to the next.
    width: int
    step: int
    #: The windows' centres in seconds, (n_windows,).
    times: np.ndarray
    #: Samples per second.
    sfreq: float
    #: Average a window's samples ("mean"), or use all of them as features.
    mode: str

    def record(self):
        """What a result records of them."""
        return {
            "window": self.width / self.sfreq,
            "step": self.step / self.sfreq,
            "window_mode": self.mode,
            "sfreq": float(self.sfreq),
        }


def cut_windows(times, sfreq, window=None, step=None, mode="mean"):
    """The `Windows`, given in seconds, that fit into sample times (n_times,)."""
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
    return Windows(starts, width, step, centres, sfreq, mode)


def matrix_bytes(kernel, n, p):
    """Bytes of a matrix (n, n), 0 if n trials with p features need none."""
    small = kernel.low_rank or (kernel.is_linear and prefers_features(n, p))
    return 0 if small else 8 * n**2


@dataclass(frozen=True)
class FeaturePositions(Positions):
    """One position: the features (n, p) themselves, or a precomputed kernel (n, n)."""

    X: np.ndarray
    kernel: object
    reg: object

    #: A map of no dimensions.
    shape = ()
    fewer = "fewer trials"

    @property
    def worker_bytes(self):
        """Memory for the matrix of all trials."""
        return matrix_bytes(self.kernel, *self.X.shape)

    def check(self):
        """Refuse a kernel for other features."""
        check_size(self.kernel, self.X.shape[1])

    def blocks(self):
        """The one block."""
        return [range(1)]

    def models(self, block, task):
        """Yield the model of every position in a block."""
        for _ in block:
            yield plan_of_features(self.X, self.kernel, self.reg, task)

    def samples(self, position):
        """The features (n, p), or a kernel matrix, and the kernel for them."""
        return self.X, self.kernel

    def grouped(self, grouping, block):
        """The same position of pseudo-trials."""
        X, kernel = grouping.both(self.X, self.kernel)
        return replace(self, X=X, kernel=kernel)


@dataclass(frozen=True)
class WindowPositions(Positions):
    """Windows of consecutive samples, one row of them or several.

    Several rows are the frequencies of a time-frequency decomposition, one behind the
    other along the samples, or neighbourhoods of channels. Positions count the windows
    of a row first.
    """

    #: Samples first, so that a sample is contiguous, (n_samples, n_trials, n_channels);
    #: in single precision too, of which every window is computed with in double.
    data: np.ndarray
    #: Those of one row.
    windows: Windows
    #: Resolved kernel and regularisation.
    kernel: object
    reg: object
    #: The first sample of every window of several rows, (n_rows, n_windows).
    rows: np.ndarray | None = None
    #: What a row is called in messages.
    names: Sequence = ()
    #: The channels of every row; None takes all in all rows.
    channels: Sequence | None = None
    #: Which of the positions touch; None: those next on the map.
    adjacency: Callable | None = None

    fewer = "fewer times (step=, crop or decimate)"

    @property
    def starts(self):
        """The first sample of every window, (n_windows,) | (n_rows, n_windows)."""
        return self.windows.starts if self.rows is None else self.rows

    @property
    def shape(self):
        """The shape of the map."""
        return self.starts.shape

    @property
    def n_windows(self):
        """The number of windows in a row."""
        return len(self.windows.starts)

    @property
    def worker_bytes(self):
        """Memory for the matrix of a window's trials."""
        _, n, p = self.data.shape
        return matrix_bytes(self.kernel, n, p)

    @property
    def block_length(self):
        """Positions per task: enough to outweigh sending them, never by the workers.

        Few of a single row, of which all workers are to have a part.
        """
        if self.channels is None:
            return _SHORT
        n_bytes = 8 * self.data.shape[1] ** 2
        return int(np.clip(_BLOCK_BYTES // n_bytes, _SHORT, _LONGEST))

    def describe(self):
        """Word the size of the map."""
        if self.starts.ndim == 1:
            return counted(self.n_windows, "time")
        return super().describe()

    def blocks(self):
        """The positions cut into ranges, none of them across rows."""
        n, step = self.n_windows, self.block_length
        return [
            range(row + i, row + min(i + step, n))
            for row in range(0, self.starts.size, n)
            for i in range(0, n, step)
        ]

    def where(self, position):
        """How to begin a message about a position."""
        row, window = divmod(position, self.n_windows)
        name = f"{self.names[row]}, " if len(self.names) else ""
        return f"At {name}{self.windows.times[window]:.3f} s: "

    def check(self):
        """Refuse a kernel for other channels, and windows in which trials are alike."""
        check_size(self.kernel, self.data.shape[2])
        flat = np.array([(sample == sample[:1]).all() for sample in self.data])
        for position, start in enumerate(self.starts.flat):
            if flat[start : start + self.windows.width].all():
                raise ValueError(
                    f"{self.where(position)}The trials do not differ: flat data, or a "
                    "baseline of one sample. Leave such times out, for epochs with "
                    "epochs.crop."
                )

    def models(self, block, task):
        """Yield the models of a block, of one window or of several."""
        return _in_stacks(self.plans(block, task), task)

    def plans(self, block, task):
        """Yield the plan of every window in a block."""
        for position in block:
            X, kernel = self.samples(position)
            yield plan_of_features(X, kernel, self.reg, task)

    def samples(self, position):
        """The features of a window (n, p), and the kernel for them."""
        return self.features(position), self.kernel_of(position)

    def grouped(self, grouping, block):
        """The windows of pseudo-trials, with the samples of a block's only."""
        starts = self.starts.ravel()[np.asarray(block)]
        first, stop = starts.min(), starts.max() + self.windows.width
        data, kernel = self.data[first:stop], self.kernel
        if self.channels is not None:  # all windows of a block are in one row
            row = block[0] // self.n_windows
            data, kernel = self._select(data, row), kernel.take(self.channels[row])
        data, kernel = grouping.both(data, kernel, axis=1)
        starts = self.starts - first
        return replace(self, data=data, rows=starts, kernel=kernel, channels=None)

    def kernel_of(self, position):
        """The kernel for a window's features."""
        kernel = self.kernel
        if self.channels is not None:
            kernel = kernel.take(self.channels[position // self.n_windows])
        is_long = self.windows.mode == "concatenate" and self.windows.width > 1
        return kernel.repeated(self.windows.width) if is_long else kernel

    def features(self, position):
        """The features of a window, (n, p) or (n, width * p)."""
        samples = self._samples(position)
        if self.windows.mode == "mean":
            return samples.mean(axis=0)
        return np.concatenate(samples, axis=1)

    def signal(self, position):
        """The channels' mean in a window, (n, p)."""
        return self._samples(position).mean(axis=0)

    def _samples(self, position):
        """The samples of a window, (width, n, p)."""
        start = self.starts.flat[position]
        samples = self.data[start : start + self.windows.width]
        return self._select(samples, position // self.n_windows)

    def _select(self, samples, row):
        """Return samples (..., p) of a row's channels, in double precision."""
        if self.channels is not None:  # contiguous, unlike [...]
            samples = np.take(samples, self.channels[row], axis=-1)
        return samples.astype(np.float64, copy=False)


@dataclass(frozen=True)
class RaggedIndices(Sequence):
    """Lists of indices of different lengths, as two arrays that workers can share."""

    #: The entries of row i are ``indices[indptr[i] : indptr[i + 1]]``.
    indptr: np.ndarray
    indices: np.ndarray

    def __len__(self):
        return len(self.indptr) - 1

    def __getitem__(self, row):
        if row >= len(self):
            raise IndexError(row)
        return self.indices[self.indptr[row] : self.indptr[row + 1]]


#: Bytes that the matrices of a block of positions may take, and the longest block:
#: enough positions to make NumPy's calls worth their time.
_BLOCK_BYTES, _LONGEST = 2**26, 64
#: Positions in a block of those that take long by themselves.
_SHORT = 4


def _in_stacks(plans, task):
    """Yield plans, in stacks where positions share what depends on labels only.

    As many as memory allows.
    """
    if not task.stacks:
        yield from plans
        return
    stack, n_bytes = [], 0
    try:
        for plan in plans:
            if stack and n_bytes + plan.n_bytes > _BLOCK_BYTES:
                yield Stack(tuple(stack))
                stack, n_bytes = [], 0
            stack.append(plan)
            n_bytes += plan.n_bytes
    except ValueError:
        if stack:  # before it comes what is in order, so that its place is known
            yield Stack(tuple(stack))
        raise
    yield Stack(tuple(stack))


@dataclass(frozen=True, eq=False)
class RunScaling:
    """What features were divided by in every run, so that it can be undone."""

    #: The deviations, (n_runs, n_features).
    deviations: np.ndarray
    #: The run of every trial, (n_trials,).
    run_of: np.ndarray

    def undo(self, data, columns):
        """Return data (p, n_trials) of some features in their own units, a copy."""
        data = data.copy()
        for run, deviations in enumerate(self.deviations):
            data[:, self.run_of == run] *= deviations[columns, np.newaxis]
        return data

    def grouped(self, grouping, columns=slice(None)):
        """The same for pseudo-trials, each of one run, and some features."""
        first = np.concatenate([members[:, 0] for members in grouping.sides])
        return RunScaling(self.deviations[:, columns], self.run_of[first])


def _by_number(position):
    """The name of a position that has none."""
    return f"position {position}"


@dataclass(frozen=True)
class SubsetPositions(Positions):
    """A map whose positions are decoded from some columns of one array each.

    Positions without any column are left out of the blocks, and so of the run.

    Attributes
    ----------
    data : ndarray, shape (n_features, n_trials)
        Features first, so that a feature's values are contiguous.
    indptr, indices : ndarray of int, shape (n_positions + 1,) and (n_members,)
        The features of position i are ``indices[indptr[i] : indptr[i + 1]]``.
    kernel, reg
        Resolved kernel and regularisation.
    name : callable
        ``name(position) -> str``, what a position is called in messages.
    folds : Folds | None
        The test sets of the run, whose blocks take memory; None: of a partition.
    adjacency : callable | None
        Returns which of the positions with features touch; None: those next on the map.
    words : str
        What the positions are, in messages.
    scaling : RunScaling | None
        What brings the data back to their own units.
    """

    data: np.ndarray
    indptr: np.ndarray
    indices: np.ndarray
    kernel: object
    reg: object
    name: Callable = _by_number
    folds: Folds | None = None
    adjacency: Callable | None = None
    words: str = "positions"
    scaling: RunScaling | None = None

    fewer = "a smaller mask or process_mask_img"

    @property
    def shape(self):
        """The shape of the map."""
        return (len(self.indptr) - 1,)

    def describe(self):
        """Word the size of the map."""
        return self.words

    def check(self):
        """Refuse a kernel for other features."""
        check_size(self.kernel, len(self.data))

    def signal(self, position):
        """The features of a position in their own units, (n, p)."""
        columns = self._columns(position)
        features = self._rows(columns)
        if self.scaling is not None:
            features = self.scaling.undo(features, columns)
        return features.T

    def pattern_rows(self, block):
        """Where the patterns of a block's features go, and how many there are.

        One row for each feature of each position: positions differ in their number.
        """
        ranges = [np.arange(*self.indptr[i : i + 2]) for i in block]
        return np.concatenate([[], *ranges]).astype(np.intp), len(self.indices)

    @property
    def block_length(self):
        """Positions per block, by memory; never by the number of workers.

        A position takes I - G and the inverses of its fold blocks. Where the folds are
        a partition these have no more values than I - G; overlapping ones may have.
        Low-rank kernels have neither, and one position at a time.
        """
        if getattr(self.kernel, "low_rank", False):
            return _SHORT
        return int(np.clip(_BLOCK_BYTES // self._position_bytes, 1, _LONGEST))

    @cached_property
    def _position_bytes(self):
        """Bytes of a position's matrices."""
        square = self.data.shape[1] ** 2
        tests = () if self.folds is None else self.folds.tests
        return 8 * (square + max(square, sum(len(test) ** 2 for test in tests)))

    @property
    def worker_bytes(self):
        """Memory for the matrices of a block."""
        if getattr(self.kernel, "low_rank", False):
            return 0
        return self._position_bytes * min(self.block_length, len(self.filled))

    @cached_property
    def filled(self):
        """The positions that have features."""
        return np.flatnonzero(np.diff(self.indptr))

    def blocks(self):
        """The positions with features, cut into equally long blocks."""
        step = self.block_length
        return [self.filled[i : i + step] for i in range(0, len(self.filled), step)]

    def where(self, position):
        """How to begin a message about a position."""
        return f"At {self.name(position)}: "

    def models(self, block, task):
        """Yield the model of a block, a stack of all its positions."""
        averaged = task.folds is not None and task.folds.n != self.data.shape[1]
        alone = averaged or isinstance(task.penalty(self.reg), Tuned)
        if task.is_foldwise:
            yield from _in_stacks((self._plan(i, task) for i in block), task)
        elif alone or self.kernel.low_rank:
            # With as many hats as candidates each, with kernels that average, or
            # with landmarks, which depend on the order of the trials.
            for position in block:
                yield Stack((self._plan(position, task),))
        else:
            yield Stack(tuple(self._plans(block, task)))

    def _plan(self, position, task):
        """The plan of a single position."""
        X, kernel = self.samples(position)
        with config_context(assume_finite=True, skip_parameter_validation=True):
            return plan_of_features(X, kernel, self.reg, task)

    def samples(self, position):
        """The features of a position (n, p), and the kernel for them."""
        columns = self._columns(position)
        return self._rows(columns).T, self.kernel.take(columns)

    def _plans(self, positions, task):
        """The plans of some positions, and say where something is wrong."""
        layout = lay_out(task.folds, self.data.shape[1])
        reg = of_trials(task.penalty(self.reg), layout.order)
        try:
            # The adapters have checked the data; scikit-learn's kernels would check
            # them again at every position, which takes longer than the kernel.
            with config_context(assume_finite=True, skip_parameter_validation=True):
                hats = []
                for columns in map(self._columns, positions):
                    features = self._rows(columns)
                    if not layout.is_sorted:
                        features = features[:, layout.order]
                    hats.append(make_hat(features.T, self.kernel.take(columns), reg))
            return prepare_sorted(hats, layout, task.dtype, task.rank)
        except ValueError as error:
            if len(positions) > 1:
                for position in positions:
                    self._plans([position], task)
            raise PositionError(f"{self.where(positions[0])}{error}") from error

    def grouped(self, grouping, block):
        """The positions of pseudo-trials, with a block's features only."""
        used = np.unique(np.concatenate([self._columns(each) for each in block]))
        kernel = self.kernel.take(used)
        data, kernel = grouping.both(self.data[used].T, kernel)
        indices = np.searchsorted(used, self.indices)
        new = replace(self, data=data.T, indices=indices, kernel=kernel)
        if self.scaling is None:
            return new
        return replace(new, scaling=self.scaling.grouped(grouping, used))

    def _columns(self, position):
        """The columns of a position."""
        return self.indices[self.indptr[position] : self.indptr[position + 1]]

    def _rows(self, columns):
        """Rows of the data; those next to each other are not copied."""
        first, last = columns[0], columns[-1]
        if last - first == len(columns) - 1 and (np.diff(columns) == 1).all():
            return self.data[first : last + 1]
        return self.data[columns]
