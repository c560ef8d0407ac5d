"""The positions of time generalization: train in one window, test in all others."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from . import transfer
from .direct import prepare
from .kernels import Linear
from .sources import WindowSource


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
        for position, hat in zip(block, self.train.hats(block), strict=True):
            yield self._transfer(position, hat, task)

    def _transfer(self, position, hat, task):
        """Return the transfer from one training window."""
        plan = prepare(hat, *task.settings)
        order = plan.order if plan.batches else np.arange(self.n_test)
        X = self.train.features(position)
        if self._uses_features(X, task):
            expansion = transfer.feature_expansion(X, hat)
            chunks = self._feature_chunks(order, plan)
        else:
            kernel = self.train.kernel
            shift = X.mean(axis=0) if kernel.shift_free else 0.0
            X = X - shift
            kernel = kernel.fit(X)
            expansion = transfer.kernel_expansion(kernel(X), hat)

            def rows(windows):
                features = self._test_features(windows, order) - shift
                values = kernel(features.reshape(-1, X.shape[1]), X) / hat.lam
                return values.reshape(*features.shape[:2], len(X))

            shape = self.n_test, len(X)
            chunks = _Chunks(rows, shape, self.width, len(plan.rows), plan.dtype)
        expansion = np.ascontiguousarray(expansion[:, plan.order], plan.dtype)
        return transfer.Transfer(plan, expansion, chunks, self.true, self.n_test)

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
    """

    #: Bytes of chunks that are kept for the next block of label vectors.
    _MOST = 2**28

    def __init__(self, rows, shape, n_windows, n_tested, dtype):
        self._rows, self._dtype, self._shape = rows, dtype, shape
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
