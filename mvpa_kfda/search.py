"""The run loop: the same decoding at every position of a map.

A position is a time point, a window, later a sphere or a region. What an adapter makes
of its data is a *source*: it knows the map's shape, cuts the positions into blocks
that never depend on how many workers there are, and yields each position's hat. The
loop knows nothing else about positions.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from joblib import Parallel, delayed, effective_n_jobs
from threadpoolctl import threadpool_limits
from tqdm import tqdm

from . import direct, metrics
from .folds import Folds
from .hat import hat_from_gram, make_hat
from .kernels import Linear

#: Seconds after which a run that was not told to be quiet shows a progress bar.
_PATIENCE = 5.0


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

    def hats(self, block):
        """Yield the hat of every position in a block."""
        for _ in block:
            yield make_hat(self.X, self.kernel, self.reg)

    def where(self, position):
        """Return how to begin a message about a position."""
        return ""


@dataclass(frozen=True)
class WindowSource:
    """Windows of consecutive samples, (n_samples, n_trials, n_channels) data.

    Attributes
    ----------
    data : ndarray, shape (n_samples, n_trials, n_channels)
        Samples first, so that a sample is contiguous.
    starts : ndarray of int, shape (n_positions,)
        The first sample of every window.
    width : int
        Samples per window.
    mode : "mean" | "concatenate"
        Average the window's samples, or use all of them as features.
    times : ndarray, shape (n_positions,)
        The windows' centres in seconds.
    kernel, reg
        Resolved kernel and regularisation.
    """

    data: np.ndarray
    starts: np.ndarray
    width: int
    mode: str
    times: np.ndarray
    kernel: object
    reg: object

    #: Positions per task: long enough to outweigh sending it, fixed so that sums over
    #: neighbouring windows are formed alike whatever the number of workers.
    block_length = 4

    @property
    def shape(self):
        """The shape of the map."""
        return (len(self.starts),)

    def blocks(self):
        """Return the positions cut into ranges."""
        n, step = len(self.starts), self.block_length
        return [range(i, min(i + step, n)) for i in range(0, n, step)]

    def where(self, position):
        """Return how to begin a message about a position."""
        return f"At {self.times[position]:.3f} s: "

    def hats(self, block):
        """Yield the hat of every window in a block."""
        if self._sums_kernels:
            for inner in self._running_inner(block):
                n_features = self.data.shape[2] * self.width
                gram = self.kernel.from_inner(inner, n_features)
                yield hat_from_gram(gram, self.reg)
        else:
            for position in block:
                yield make_hat(self._features(position), self.kernel, self.reg)

    def _features(self, position):
        """Return the features of a window, (n, p) or (n, width * p)."""
        start = self.starts[position]
        samples = self.data[start : start + self.width]
        if self.mode == "mean":
            return samples.mean(axis=0)
        return np.concatenate(samples, axis=1)

    @cached_property
    def _sums_kernels(self):
        """Whether windows are cheaper as sums of their samples' inner products."""
        if self.mode == "mean" or self.width == 1:
            return False
        if not hasattr(self.kernel, "from_inner"):
            return False
        n, p = self.data.shape[1:]
        if isinstance(self.kernel, Linear) and 2 * (p * self.width + 1) < n:
            return False  # the primal route is cheaper still
        if len(self.starts) < 2:
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
        starts = self.starts[block.start : block.stop]
        last, stop = starts[-1], starts[0] + self.width
        shared = sum(self._sample_inner(t) for t in range(last, stop))
        for start in starts:
            for t in range(stop, start + self.width):
                shared += self._sample_inner(t)
            stop = start + self.width
            early = (self._sample_inner(t) for t in range(start, last))
            yield sum(early, start=shared)  # a new array in all but the last window

    def _sample_inner(self, t):
        """Return the inner products (n, n) of one sample's features."""
        X = self.data[t]
        if self.kernel.shift_free:
            X = X - X.mean(axis=0)
        return X @ X.T


@dataclass(frozen=True)
class Task:
    """What is asked at every position, the same everywhere.

    Attributes
    ----------
    labels : ndarray of int, shape (P + 1, n)
        Label vectors, the observed one first.
    n_classes : int
        The number of classes c.
    folds : Folds
        The test sets.
    scoring : list of str
        Metric names.
    dtype : dtype
        The precision in which permutations are processed.
    batch_size : int | None
        Permutations per block; None chooses by cache size.
    keep_class_scores : bool
        Whether the outcome is to hold the class scores.
    """

    labels: np.ndarray
    n_classes: int
    folds: Folds
    scoring: list
    dtype: np.dtype
    batch_size: int | None = None
    keep_class_scores: bool = False


@dataclass(frozen=True)
class Outcome:
    """Scores and predictions over a map.

    Attributes
    ----------
    metrics : dict of str to ndarray
        The observed scores, (*shape,) or (*shape, c, c).
    nulls : dict of str to ndarray
        Scores of the permuted labels, (P, *shape), of the single-number metrics.
    predicted : ndarray of int, shape (*shape, n)
        Predicted classes of the observed labels, -1 for trials never tested.
    class_scores : ndarray, shape (*shape, n, c) | None
        Class scores of the observed labels, averaged over the folds that test a trial;
        NaN for trials never tested. None unless the task keeps them.
    """

    metrics: dict
    nulls: dict
    predicted: np.ndarray
    class_scores: np.ndarray | None


def run(source, task, n_jobs=None, verbose=None):
    """Decode at every position.

    Parameters
    ----------
    source : source
        The positions, see the module's docstring.
    task : Task
        What to do at each.
    n_jobs : int | None
        Workers, as in joblib; None is 1 unless in a ``joblib.parallel_config``.
    verbose : bool | None
        True: progress bar; False: none; None: one on runs of more than a few seconds.

    Returns
    -------
    outcome : Outcome
        The map. It does not depend on n_jobs.
    """
    blocks = source.blocks()
    # One BLAS thread: the matrices of a position are too small to share, and sums in
    # another order would make the last digits depend on n_jobs. The limit is set here
    # too, because workers that are threads of this process share its BLAS, and the
    # first one to finish a block would lift it for the others.
    with threadpool_limits(limits=1, user_api="blas"):
        if effective_n_jobs(n_jobs) == 1:
            parts = (_run_block(source, block, task) for block in blocks)
            return _collect(_progress(parts, blocks, verbose), source.shape)
        parts = _parallel(n_jobs)(
            delayed(_run_block_alone)(source, block, task) for block in blocks
        )
        return _collect(_progress(parts, blocks, verbose), source.shape)


def _parallel(n_jobs):
    """Return joblib's workers, handing over blocks as they come where they can."""
    try:
        return Parallel(n_jobs=n_jobs, return_as="generator")
    except ValueError:  # this backend, multiprocessing for one, returns all at once
        return Parallel(n_jobs=n_jobs)


def _run_block_alone(source, block, task):
    """Run a block in a worker, where more than one BLAS thread would be in the way."""
    with threadpool_limits(limits=1, user_api="blas"):
        return _run_block(source, block, task)


def _run_block(source, block, task):
    """Decode the positions of one block."""
    _keep_freed_memory()
    hats, parts = source.hats(block), []
    for position in block:
        try:
            parts.append(_run_position(next(hats), task))
        except ValueError as error:
            # Flat data, a lambda too small, or an error of the user's own kernel.
            raise ValueError(f"{source.where(position)}{error}") from error
    return parts


def _keep_freed_memory():
    """Have the C library reuse memory instead of returning it after every step.

    The GNU allocator adapts to the largest array freed so far (up to 32 MiB). In a new
    worker that is a small one, and half the time would go into handing the same
    megabytes back and forth. The array is never touched, so it costs nothing.
    """
    np.empty(2**24, np.uint8)


def _run_position(hat, task):
    """Decode at one position; the observed labels have a block of their own."""
    plan = direct.prepare(hat, task.folds, task.dtype)
    observed = direct.apply(plan, task.labels[:1], task.n_classes, want_scores=True)
    scores = metrics.evaluate(task.scoring, observed, plan.shapes, task.n_classes)
    observed_scores = {name: value[0] for name, value in scores.items()}
    null_scoring = [name for name in task.scoring if metrics.METRICS[name].scalar]
    want_scores = metrics.needs_class_scores(null_scoring)
    size = task.batch_size or direct.block_size(plan, task.n_classes)
    nulls = {name: [np.empty(0)] for name in null_scoring}
    for start in range(1, len(task.labels), size):
        labels = task.labels[start : start + size]
        scored = direct.apply(plan, labels, task.n_classes, want_scores)
        values = metrics.evaluate(null_scoring, scored, plan.shapes, task.n_classes)
        for name in null_scoring:
            nulls[name].append(values[name])
    nulls = {name: np.concatenate(values) for name, values in nulls.items()}
    class_scores = _per_trial(plan, observed.class_scores[:, :, 0])
    kept = class_scores if task.keep_class_scores else None
    return observed_scores, nulls, _winners(class_scores), kept


def _per_trial(plan, class_scores):
    """Average class scores (n_test, c) over the folds that test a trial, to (n, c)."""
    n, n_classes = len(plan.order), class_scores.shape[1]
    times = np.bincount(plan.rows, minlength=n)
    total = np.zeros((n, n_classes))
    np.add.at(total, plan.rows, class_scores)
    with np.errstate(invalid="ignore"):
        return total / times[:, None]  # 0 / 0 is NaN: never tested


def _winners(class_scores):
    """Return the best class of every trial, -1 for trials never tested."""
    tested = ~np.isnan(class_scores).any(axis=1)
    return np.where(tested, class_scores.argmax(axis=1), -1).astype(np.int32)


def _progress(parts, blocks, verbose):
    """Pass on finished blocks, with a bar that counts positions."""
    n_positions = sum(len(block) for block in blocks)
    delay = _PATIENCE if verbose is None else 0
    with tqdm(
        total=n_positions, delay=delay, disable=verbose is False, unit="position"
    ) as bar:
        for part in parts:
            bar.update(len(part))
            yield part


def _collect(parts, shape):
    """Stack the positions' results into maps."""
    cells = [cell for part in parts for cell in part]
    observed, nulls, predicted, class_scores = zip(*cells, strict=True)

    def stack(values, axis):
        stacked = np.stack(values, axis=axis)
        return stacked.reshape(
            (*stacked.shape[:axis], *shape, *stacked.shape[axis + 1 :])
        )

    return Outcome(
        metrics={name: stack([o[name] for o in observed], 0) for name in observed[0]},
        nulls={name: stack([null[name] for null in nulls], 1) for name in nulls[0]},
        predicted=stack(predicted, 0),
        class_scores=None if class_scores[0] is None else stack(class_scores, 0),
    )
