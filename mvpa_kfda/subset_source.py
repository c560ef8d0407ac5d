"""Positions that are subsets of the columns of one array: spheres, regions, sensors."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from sklearn import config_context

from ._averaging import AveragedKernel
from ._search.stack import Stack
from .direct import prepare_sorted
from .folds import Folds, lay_out
from .hat import make_hat
from .models import plan_of_features
from .penalties import Tuned
from .sources import PositionError

#: Bytes that the matrices of a block of positions may take, and the longest block:
#: enough positions to make NumPy's calls worth their time.
_BLOCK_BYTES, _LONGEST = 2**26, 64
#: Positions in a block of those that take long by themselves.
_SHORT = 4


def _by_number(position):
    """Return what a position is called by default."""
    return f"position {position}"


@dataclass(frozen=True)
class SubsetSource:
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
    """

    data: np.ndarray
    indptr: np.ndarray
    indices: np.ndarray
    kernel: object
    reg: object
    name: Callable = _by_number
    folds: Folds | None = None

    @property
    def shape(self):
        """The shape of the map."""
        return (len(self.indptr) - 1,)

    @property
    def block_length(self):
        """Positions per block, by memory; never by the number of workers.

        A position takes I - G and the inverses of its fold blocks. Where the folds are
        a partition these have no more values than I - G; overlapping ones may have.
        Low-rank kernels have neither, and one position at a time.
        """
        if getattr(self.kernel, "low_rank", False):
            return _SHORT
        square = self.data.shape[1] ** 2
        tests = () if self.folds is None else self.folds.tests
        values = square + max(square, sum(len(test) ** 2 for test in tests))
        return int(np.clip(_BLOCK_BYTES // (8 * values), 1, _LONGEST))

    @cached_property
    def filled(self):
        """The positions that have features."""
        return np.flatnonzero(np.diff(self.indptr))

    def blocks(self):
        """Return the positions with features, cut into equally long blocks."""
        step = self.block_length
        return [self.filled[i : i + step] for i in range(0, len(self.filled), step)]

    def where(self, position):
        """Return how to begin a message about a position."""
        return f"At {self.name(position)}: "

    def models(self, block, task):
        """Yield the model of a block, a stack of all its positions."""
        alone = isinstance(self.reg, Tuned) or isinstance(self.kernel, AveragedKernel)
        if alone or self.kernel.low_rank:
            # With as many hats as candidates each, with more trials than labels, or
            # with landmarks, which depend on the order of the trials.
            for position in block:
                yield Stack((self._plan(position, task),))
        else:
            yield Stack(tuple(self._plans(block, task)))

    def _plan(self, position, task):
        """Return the plan of a single position."""
        X, kernel = self.data[self._columns(position)].T, self._kernel(position)
        with config_context(assume_finite=True, skip_parameter_validation=True):
            return plan_of_features(X, kernel, self.reg, task)

    def _kernel(self, position):
        """Return the kernel for a position's columns."""
        return self.kernel.take(self._columns(position))

    def _plans(self, positions, task):
        """Return the plans of some positions, and say where something is wrong."""
        layout = lay_out(task.folds, self.data.shape[1])
        try:
            # The adapters have checked the data; scikit-learn's kernels would check
            # them again at every position, which takes longer than the kernel.
            with config_context(assume_finite=True, skip_parameter_validation=True):
                hats = [
                    make_hat(
                        self._features(position, layout),
                        self._kernel(position),
                        self.reg,
                    )
                    for position in positions
                ]
            return prepare_sorted(hats, layout, task.dtype, task.rank)
        except ValueError as error:
            if len(positions) > 1:
                for position in positions:
                    self._plans([position], task)
            raise PositionError(f"{self.where(positions[0])}{error}") from error

    def _columns(self, position):
        """Return the columns of a position."""
        return self.indices[self.indptr[position] : self.indptr[position + 1]]

    def _features(self, position, layout):
        """Return the features of a position (n, p), in the layout's order of trials."""
        features = self.data[self._columns(position)]
        return (features if layout.is_sorted else features[:, layout.order]).T
