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
from functools import cached_property, partial

import numpy as np

from ..kfda.direct import Stack, prepare, prepare_sorted
from ..kfda.folds import Folds, folds_of
from ..kfda.foldwise import FoldwisePlan
from ..kfda.hat import make_hat, prefers_features
from ..kfda.kernels import KernelChoice, Linear, check_size
from ..kfda.penalties import MOST_OF_SECOND, Tuned, of_trials
from ..kfda.transfer import Chunks, Transfer, expand, kernel_columns
from ..utils.checks import check_positive, counted, plural
from .problems import refusal

#: Bytes that the matrices of a block of positions may take, and the longest block:
#: enough positions to make NumPy's calls worth their time.
_BLOCK_BYTES, _LONGEST = 2**26, 64
#: Positions in a block of those that take long by themselves.
_SHORT = 4


class Positions:
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
    draw : Draw | None
        The averages of trials that are decoded; None: the trials.
    """

    shape: tuple
    row: tuple = ()
    adjacency: Callable | None = None
    exempt: np.ndarray | None = None
    fewer: str = "fewer positions"
    worker_bytes: int = 0
    draw: object = None

    def describe(self):
        """Word the size of the map."""
        number = " x ".join(map(str, self.shape)) or "1"
        return f"{number} {plural('position', math.prod(self.shape))}"

    def check(self):
        """Refuse data that cannot be decoded anywhere, before anything is computed."""

    def blocks(self):
        """The positions that are run, cut into sequences of numbers."""

    def where(self, position):
        """How to begin a message about a position."""
        return ""

    def features_of_trials(self, position):
        """The features of a position's trials (n, p), and the kernel for them."""

    def samples(self, position):
        """The same of the rows that are decoded."""
        data = self.features_of_trials(position)
        return data if self.draw is None else self.draw.both(*data)

    def of_draw(self, draw):
        """The same positions of averages of trials."""
        return replace(self, draw=draw)

    def plan(self, position, task):
        """What predicts label vectors at a position."""
        X, kernel = self.samples(position)
        reg = task.penalty(self.reg)
        if not (task.is_foldwise or isinstance(reg, Tuned)):
            return prepare(make_hat(X, kernel, reg), task.folds, task.dtype, task.rank)
        if not isinstance(kernel, KernelChoice):
            X, kernel = kernel.of_samples(X)
        X, folds = task.learned.augmented(X), folds_of(task.folds, len(X))
        trials = folds, task.inner, np.dtype(task.dtype), task.rank
        return FoldwisePlan(X, kernel, reg, task.learned, *trials)

    def models(self, block, task):
        """Yield the models of a block, each of one position or of several in a row.

        In stacks where positions share what depends on labels only, as many as memory
        allows.
        """
        plans = (self.plan(position, task) for position in block)
        if task.inner is not None or task.n_classes is None:
            yield from plans  # tuning takes long by itself, numbers are of one position
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

    def signal(self, position):
        """What activation patterns are patterns of, (n, p)."""
        return self.averaged(self.signal_of_trials(position))

    def averaged(self, features):
        """Features of trials (n, p), averaged where these are what is decoded."""
        if self.draw is None or not self.kernel.is_linear:
            return features
        return self.draw.apply(features)

    def signal_of_trials(self, position):
        """The same of trials."""
        return self.features_of_trials(position)[0]

    def pattern_rows(self, block):
        """Where a block's patterns go in an array of those of all positions.

        And the length of that array's first axis. None where every position has as many
        features: it has one row for each then, else one for each position's feature.
        """
        return None

    def same(self, position):
        """Which cell of its row tests a position on itself; None: none does."""


@dataclass(frozen=True)
class FeaturePositions(Positions):
    """One position: the features (n, p) themselves, or a precomputed kernel (n, n)."""

    X: np.ndarray
    kernel: object
    reg: object
    draw: object = None

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
        """Yield the one model."""
        yield self.plan(0, task)

    def features_of_trials(self, position):
        """The features (n, p), or a kernel matrix, and the kernel for them."""
        return self.X, self.kernel


# ----------------------------------------------------------------------------- windows


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
    n_times, lengths = len(times), {"window": 1, "step": 1}
    for name, seconds in (("window", window), ("step", step)):
        if seconds is not None:
            check_positive(name, seconds, hint=" It is in seconds.")
            lengths[name] = max(1, int(seconds * sfreq + 0.5 + 1e-9))  # half goes up
    width, step = lengths.values()
    if width > n_times:
        given = {"window": window, "width": width, "sfreq": sfreq}
        raise refusal("long window", n_times=n_times, s=n_times / sfreq, **given)
    starts = np.arange(0, n_times - width + 1, step)
    centres = np.array([times[i : i + width].mean() for i in starts])
    return Windows(starts, width, step, centres, sfreq, mode)


def matrix_bytes(kernel, n, p):
    """Bytes of a matrix (n, n), 0 if n trials with p features need none."""
    small = kernel.low_rank or (kernel.is_linear and prefers_features(n, p))
    return 0 if small else 8 * n**2


@dataclass(frozen=True)
class RaggedIndices(Sequence):
    """Lists of indices of different lengths, as two arrays that workers can share."""

    #: The entries of row i are ``indices[indptr[i] : indptr[i + 1]]``.
    indptr: np.ndarray
    indices: np.ndarray

    def __len__(self):
        return len(self.indptr) - 1

    def __getitem__(self, row):
        return self.indices[self.indptr[row] : self.indptr[row + 1]]


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
    #: The first sample of every row, (n_rows,); None: there is one row.
    first: np.ndarray | None = None
    #: What a row is called in messages.
    names: Sequence = ()
    #: The channels of every row; None takes all in all rows.
    channels: Sequence | None = None
    #: Which of the positions touch; None: those next on the map.
    adjacency: Callable | None = None
    draw: object = None

    fewer = "fewer times (step=, crop or decimate)"

    @cached_property
    def starts(self):
        """The first sample of every window, (n_windows,) | (n_rows, n_windows)."""
        first = 0 if self.first is None else self.first[:, np.newaxis]
        return first + self.windows.starts

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
        return matrix_bytes(self.kernel, *self.data.shape[1:])

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
        one_row = self.first is None
        return counted(self.n_windows, "time") if one_row else super().describe()

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
                raise refusal("flat window", where=self.where(position))

    def features_of_trials(self, position):
        """The features of a window, (n, p) or (n, width * p), and their kernel."""
        row, width = position // self.n_windows, self.windows.width
        kernel = self.kernel.take(self.channels[row]) if self.channels else self.kernel
        if self.windows.mode == "concatenate" and width > 1:
            kernel = kernel.repeated(width)
        return self._features(position), kernel

    def features(self, position):
        """The features of a window, (n, p) or (n, width * p)."""
        return self.averaged(self._features(position))

    def _features(self, position):
        """The same of trials."""
        samples, mode = self._samples(position), self.windows.mode
        return samples.mean(axis=0) if mode == "mean" else np.concatenate(samples, 1)

    def signal_of_trials(self, position):
        """The channels' mean in a window, (n, p)."""
        return self._samples(position).mean(axis=0)

    def _samples(self, position):
        """The samples of a window, (width, n, p), in double precision."""
        start = self.starts.flat[position]
        samples = self.data[start : start + self.windows.width]
        if self.channels:  # contiguous, unlike [...]
            channels = self.channels[position // self.n_windows]
            samples = np.take(samples, channels, axis=-1)
        return samples.astype(np.float64, copy=False)


@dataclass(frozen=True)
class GeneralizationPositions(WindowPositions):
    """Training windows as positions, each tested in all windows of other data."""

    #: One row of test windows; their kernel and penalty do not matter.
    test: WindowPositions = None
    #: The labels to be predicted; None: those trained with, (n_test,).
    test_labels: np.ndarray | None = None
    #: The cells that are tested against one null only (n_train_times, n_test_times).
    exempt: np.ndarray | None = None

    def describe(self):
        """Word the size of the map."""
        return f"{self.n_windows} x {self.width} times"

    @property
    def width(self):
        """Number of cells in each row of the map."""
        return self.test.n_windows

    @property
    def row(self):
        """The cells that every position fills."""
        return (self.width,)

    @property
    def n_test(self):
        """The number of test rows."""
        return len(self.test.features(0))

    @property
    def worker_bytes(self):
        """Memory for the matrix of a training window, and for test rows that stay."""
        if self.kernel.low_rank:
            return 0
        rows = 4 * self.width * self.n_test * min(self.data.shape[1:])
        return super().worker_bytes + min(rows, Chunks.MOST)

    def of_draw(self, draw, tested=None):
        """The same of averages of trials, perhaps of others in test windows."""
        return replace(self, draw=draw, test=self.test.of_draw(tested or draw))

    def same(self, position):
        """The cell of the same time; None where none is."""
        times, time = self.test.windows.times, self.windows.times[position]
        same = times.round(6) == time.round(6)
        return int(same.argmax()) if same.any() else None

    def models(self, block, task):
        """Yield the transfer from every training window in a block."""
        of_second = replace(task, at_most=MOST_OF_SECOND)
        for position in block:
            plan = self.plan(position, task)
            model = self._transfer(position, plan, task)
            if task.second is not None and plan.is_above(MOST_OF_SECOND):
                second = self.plan(position, of_second)
                model = replace(model, second=replace(model, plan=second))
            yield model

    def _transfer(self, position, plan, task):
        """The transfer from one training window."""
        order = plan.order if plan.batches else np.arange(self.n_test)
        tested = self.test_labels, self.n_test, self.width
        learned = task.learned if plan.batches else task.learned.of_others
        if isinstance(plan, FoldwisePlan):

            def of_fold(fold, order=None if plan.batches else order):
                order = fold.test if order is None else order
                columns = fold.columns, fold.n_columns
                return self._chunks(plan, order, *columns, learned)

            if plan.scores_features:
                chunks = self._feature_chunks(order, plan)
            elif plan.is_shared or not (plan.batches or learned.sees_labels):
                chunks = of_fold(plan.whole, order)
            else:
                chunks = of_fold
            return Transfer(plan, chunks, *tested)
        (values, kernel), unit = self.samples(position), None
        if self._uses_features(values, task):
            chunks = self._feature_chunks(order, plan)
        else:
            columns, values, unit = kernel_columns(values, kernel, plan.hat.lam)
            chunks = self._chunks(plan, order, columns, values.shape[1], learned)
        expansion = partial(expand, values=values, unit=unit)
        return Transfer(plan, chunks, *tested, expansion)

    def _chunks(self, plan, order, columns, n_columns, learned):
        """The test rows of some trials, by what makes columns of features."""

        def rows(windows):
            # Folds that have columns of their own ask for the same features.
            if isinstance(plan, FoldwisePlan) and self._test_windows is not None:
                features = self._test_windows[list(windows)][:, order]
            else:
                features = self._test_features(windows, order)
            features = learned.augmented(features, order)
            values = columns(features.reshape(-1, features.shape[2]))
            return values.reshape(*features.shape[:2], -1)

        return Chunks(rows, (len(order), n_columns), self.width, plan)

    def _uses_features(self, X, task):
        """Whether weights on features are cheaper than kernels between times."""
        (n, p), columns = X.shape, task.n_columns * len(task.labels)
        return isinstance(self.kernel, Linear) and p * columns <= n * (columns + p)

    def _feature_chunks(self, order, plan):
        """The test features, arranged once for all training windows."""
        key = order.tobytes(), len(plan.rows), plan.dtype.name
        if key not in self._arranged:
            rows = partial(self._test_features, order=order)
            self._arranged.clear()  # of another run
            shape = self.test.features(0).shape
            self._arranged[key] = Chunks(rows, shape, self.width, plan)
        return self._arranged[key]

    def _test_features(self, windows, order):
        """The features of test trials in some windows, (C, n, p)."""
        return np.stack([self.test.features(window)[order] for window in windows])

    @cached_property
    def _test_windows(self):
        """The features of all test trials in all windows, (windows, n, p).

        None where they take much memory.
        """
        shape = (self.width, *self.test.features(0).shape)
        if 8 * np.prod(shape) > Chunks.MOST:
            return None
        return self._test_features(range(self.width), slice(None))

    @cached_property
    def _arranged(self):
        return {}


# ----------------------------------------------------------------------------- columns


@dataclass(frozen=True, eq=False)
class RunScaling:
    """What features were divided by in every run, so that it can be undone."""

    #: The deviations, (n_runs, n_features).
    deviations: np.ndarray
    #: The run of every trial, (n_trials,).
    run_of: np.ndarray

    def undo(self, data, columns):
        """Data (p, n_trials) of some features in their own units."""
        return np.multiply(data, self.deviations[:, columns][self.run_of].T, order="C")


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
    name : callable | None
        ``name(position) -> str``, what a position is called in messages. None: by its
        number.
    folds : Folds | None
        The test sets of the run, whose blocks take memory; None: of a partition.
    adjacency : callable | None
        Returns which of the positions with features touch; None: those next on the map.
    words : str
        What the positions are, in messages.
    scaling : RunScaling | None
        What brings the data back to their own units.
    draw : Draw | None
        The averages of trials that are decoded; None: the trials.
    """

    data: np.ndarray
    indptr: np.ndarray
    indices: np.ndarray
    kernel: object
    reg: object
    name: Callable | None = None
    folds: Folds | None = None
    adjacency: Callable | None = None
    words: str = "positions"
    scaling: RunScaling | None = None
    draw: object = None

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

    def where(self, position):
        """How to begin a message about a position."""
        name = self.name(position) if self.name else f"position {position}"
        return f"At {name}: "

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
        if self.kernel.low_rank:
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

    def features_of_trials(self, position):
        """The features of a position (n, p), and the kernel for them."""
        columns = self._columns(position)
        return self._rows(columns).T, self.kernel.take(columns)

    def signal_of_trials(self, position):
        """The features of a position in their own units, (n, p)."""
        columns = self._columns(position)
        features = self._rows(columns)
        return (self.scaling.undo(features, columns) if self.scaling else features).T

    def pattern_rows(self, block):
        """Where the patterns of a block's features go, and how many there are.

        One row for each feature of each position: positions differ in their number.
        """
        ranges = [np.arange(*self.indptr[i : i + 2]) for i in block]
        return np.concatenate([[], *ranges]).astype(np.intp), len(self.indices)

    def models(self, block, task):
        """Yield the model of a block, a stack of all its positions."""
        averaged = self.draw is not None and not self.kernel.is_linear
        numbers = task.n_classes is None
        if (
            task.is_foldwise
            or task.inner
            or averaged
            or self.kernel.low_rank
            or numbers
        ):
            # With matrices of every fold, kernels that average, or landmarks, which
            # depend on the order of the trials; numbers are of one position.
            yield from super().models(block, task)
            return
        try:
            stacks = [self._plans(block, task)]
        except ValueError:  # alone each can say where it is
            stacks = (self._plans([position], task) for position in block)
        yield from map(Stack, stacks)

    def _plans(self, block, task):
        """The plans of some positions, with the trials in the order of the folds."""
        folds = folds_of(task.folds, self.data.shape[1])
        reg, hats = of_trials(task.penalty(self.reg), folds.order), []
        for X, kernel in map(self.samples, block):
            if (np.diff(folds.order) < 0).any():
                X = X.T[:, folds.order].T
            hats.append(make_hat(X, kernel, reg))
        return tuple(prepare_sorted(hats, folds, task.dtype, task.rank))

    def _columns(self, position):
        """The columns of a position."""
        return self.indices[self.indptr[position] : self.indptr[position + 1]]

    def _rows(self, columns):
        """Rows of the data; those next to each other are not copied."""
        first, last = columns[0], columns[-1]
        if last - first == len(columns) - 1 and (np.diff(columns) == 1).all():
            return self.data[first : last + 1]
        return self.data[columns]
