"""The positions of time generalization: train in one window, test in all others."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, partial

import numpy as np

from . import transfer
from .kernels import Linear
from .models import kernels_of
from .sources import WindowSource
from .tuning import TunedPlan


@dataclass(frozen=True)
class GeneralizationSource:
    """Training windows as positions, each tested in all windows of other data.

    Attributes
    ----------
    train : WindowSource
        One row of training windows.
    test : WindowSource
        One row of test windows; their kernel and penalty do not matter.
    true : ndarray of int, shape (n_test,) | None
        The labels to be predicted; None: those trained with.
    """

    train: WindowSource
    test: WindowSource
    true: np.ndarray | None = None

    @property
    def shape(self):
        """The shape of the leading part of the map: every position fills a row."""
        return self.train.shape

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
        """The number of test trials."""
        return self.test.data.shape[1]

    def blocks(self):
        """Return the training positions cut into ranges."""
        return self.train.blocks()

    def where(self, position):
        """Return how to begin a message about a training position."""
        return self.train.where(position)

    def signal(self, position):
        """Return the channels' mean in a training window, (n, p)."""
        return self.train.signal(position)

    def models(self, block, task):
        """Yield the transfer from every training window in a block."""
        for position, plan in zip(block, self.train.models(block, task), strict=True):
            yield self._transfer(position, plan, task)

    def _transfer(self, position, plan, task):
        """Return the transfer from one training window."""
        order = plan.order if plan.batches else np.arange(self.n_test)
        X = self.train.features(position)
        if self._uses_features(X, task):
            expansions = _Expansions(plan, [X], are_features=True)
            chunks = self._feature_chunks(order, plan)
        else:
            expansions, maps = self._map(position, plan, X)

            def rows(windows):
                features = self._test_features(windows, order)
                flat = features.reshape(-1, X.shape[1])
                values = np.concatenate([each(flat) for each in maps], axis=1)
                values /= expansions.unit
                return values.reshape(*features.shape[:2], -1)

            shape = self.n_test, expansions.n_columns
            chunks = _Chunks(rows, shape, self.width, len(plan.rows), plan.dtype)
        return transfer.Transfer(plan, expansions, chunks, self.true, self.n_test)

    def _map(self, position, plan, X):
        """Return a training window's expansions, and what maps features to its rows."""
        kernel = self.train.kernel_of(position)
        shift = X.mean(axis=0) if kernel.shift_free else 0.0
        X = X - shift
        kernels = [each.fit(X) for each in kernels_of(kernel)]
        if kernel.low_rank:
            maps = [each.features for each in kernels]
        else:
            maps = [partial(each, Y=X) for each in kernels]
        expansions = _Expansions(
            plan, [each(X) for each in maps], are_features=kernel.low_rank
        )
        return expansions, [_Shifted(each, shift) for each in maps]

    def _uses_features(self, X, task):
        """Tell whether weights on features are cheaper than kernels between times."""
        n, p = X.shape
        columns = (task.n_classes - 1) * len(task.labels)
        return isinstance(self.train.kernel, Linear) and (
            p * columns <= n * (columns + p)
        )

    def _feature_chunks(self, order, plan):
        """Return the test features, arranged once for all training windows."""
        key = order.tobytes(), len(plan.rows), plan.dtype.name
        chunks = self._arranged.get(key)
        if chunks is None:

            def rows(windows):
                return self._test_features(windows, order)

            shape = self.test.features(0).shape
            chunks = _Chunks(rows, shape, self.width, len(plan.rows), plan.dtype)
            self._arranged.clear()  # of another run
            self._arranged[key] = chunks
        return chunks

    def _test_features(self, windows, order):
        """Return the features of test trials in some windows, (C, n, p)."""
        return np.stack([self.test.features(window)[order] for window in windows])

    @cached_property
    def _arranged(self):
        return {}


@dataclass(frozen=True)
class _Shifted:
    """A map of features that are shifted first."""

    function: Callable
    shift: np.ndarray | float

    def __call__(self, X):
        return self.function(X - self.shift)


class _Expansions:
    """The expansion of a training window for each candidate penalty, kept once made.

    Parameters
    ----------
    plan : Plan | TunedPlan
        Of the window.
    values : list of ndarray, shape (n, n) | (n, r)
        Kernel matrices or features of the training trials, one for each kernel to
        choose from. Test rows have the columns of all of them, side by side.
    are_features : bool
        Whether the values are features.

    Attributes
    ----------
    n_columns : int
        Columns of test rows.
    unit : float
        What test rows are divided by: with kernel values and one lambda that, which
        keeps the digits of single precision.
    """

    def __init__(self, plan, values, are_features):
        self._plan, self._values, self._are_features = plan, values, are_features
        self._kept, self._tuned = {}, isinstance(plan, TunedPlan)
        self.unit = 1.0 if self._tuned or are_features else plan.hat.lam
        self.n_columns = sum(each.shape[1] for each in values)

    def __call__(self, number):
        """Return the expansion (r + 1, n) of a candidate, None for the only one."""
        if number not in self._kept:
            made = np.ascontiguousarray(self._make(number), self._plan.dtype)
            self._kept[number] = made
        return self._kept[number]

    def _make(self, number):
        """Return the expansion of a candidate, its columns in the plan's order."""
        plan, order, kernel = self._plan, self._plan.order, 0
        if self._tuned:
            hat, kernel = plan.hat(number), plan.kernel_of(number)
        else:
            hat = plan.exact_hat
        values = self._values[kernel]
        if self._are_features:
            rows, mine = transfer.feature_expansion(values[order], hat), None
        else:
            gram = values[order[:, None], order]
            rows = transfer.kernel_expansion(gram, hat)
            rows[:-1] *= self.unit / hat.lam
            mine = order
        whole = np.zeros((self.n_columns + 1, len(order)))
        start = sum(each.shape[1] for each in self._values[:kernel])
        at = np.arange(values.shape[1]) if mine is None else mine
        whole[start + at] = rows[:-1]
        whole[-1] = rows[-1]
        return whole


class _Chunks:
    """Test rows (n, C, r + 1) of some windows at a time, kept if memory allows.

    Parameters
    ----------
    rows : callable
        ``rows(windows) -> (C, n, r)``.
    shape : tuple of int
        (n, r), of a window's rows.
    n_windows : int
        The number of windows.
    n_tested : int
        Test rows over all folds; more than n where test sets overlap.
    dtype : dtype
        Of the chunks.

    Attributes
    ----------
    length : int
        The number of windows in a chunk.
    n_columns : int
        r + 1.
    """

    #: Bytes of chunks that are kept for the next block of label vectors.
    _MOST = 2**28

    def __init__(self, rows, shape, n_windows, n_tested, dtype):
        self._rows, self._dtype, self._shape = rows, dtype, shape
        self.n_columns = shape[1] + 1
        n_rows = max(shape[0], n_tested)
        self.length = min(n_windows, transfer.chunk_length(n_rows, shape[1] + 1))
        self._ranges = [
            range(start, min(start + self.length, n_windows))
            for start in range(0, n_windows, self.length)
        ]
        self._kept, self._bytes = {}, 0

    def __iter__(self):
        for i in range(len(self._ranges)):
            chunk = self._kept.get(i)
            if chunk is None:
                chunk = self._make(self._ranges[i])
                if self._bytes + chunk.nbytes <= self._MOST:
                    self._kept[i] = chunk
                    self._bytes += chunk.nbytes
            yield chunk

    def _make(self, windows):
        """Gather the rows of some windows, with ones behind."""
        n, r = self._shape
        chunk = np.ones((n, len(windows), r + 1), self._dtype)
        chunk[:, :, :-1] = self._rows(windows).swapaxes(0, 1)
        return chunk
