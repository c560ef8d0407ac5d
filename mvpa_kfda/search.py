"""The run loop: the same decoding at every position of a map.

What to decode at a position is its source's business (:mod:`mvpa_kfda.sources`), and
how label vectors are predicted there its model's. The loop scores the observed labels
and the permuted ones, block by block, and gathers the positions' results. A model that
tests at several other positions fills a whole row of the map.
"""

from dataclasses import dataclass, replace

import numpy as np
from joblib import Parallel, delayed, effective_n_jobs
from threadpoolctl import threadpool_limits
from tqdm import tqdm

from . import metrics
from ._null_store import NullStore
from .folds import Folds
from .patterns import class_patterns

#: Seconds after which a run that was not told to be quiet shows a progress bar.
_PATIENCE = 5.0


@dataclass(frozen=True)
class Task:
    """What is asked at every position, the same everywhere.

    Attributes
    ----------
    labels : ndarray of int, shape (P + 1, n)
        Label vectors, the observed one first.
    n_classes : int
        The number of classes c.
    folds : Folds | None
        The test sets; None to train on all trials and test on others.
    scoring : list of str
        Metric names.
    dtype : dtype
        The precision in which permutations are processed.
    batch_size : int | None
        Permutations per block; None chooses by cache size.
    keep_class_scores : bool
        Whether the outcome is to hold the class scores.
    null : str
        What is kept of the null: "all" (double precision), "full" (single precision),
        "max" or "stream", see :class:`mvpa_kfda._null_store.NullStore`.
    with_patterns : bool
        Whether to compute activation patterns.
    second : ndarray of int, shape (1 | P + 1, n) | None
        Labels that predictions are scored against a second time, for another null: one
        vector for all permutations or one for each.
    """

    labels: np.ndarray
    n_classes: int
    folds: Folds | None
    scoring: list
    dtype: np.dtype
    batch_size: int | None = None
    keep_class_scores: bool = False
    null: str = "all"
    with_patterns: bool = False
    second: np.ndarray | None = None

    @property
    def settings(self):
        """What a model needs to know before it sees labels."""
        return self.folds, self.dtype


@dataclass(frozen=True)
class Outcome:
    """Scores and predictions over a map.

    Attributes
    ----------
    metrics : dict of str to ndarray
        The observed scores, (*shape,) or (*shape, c, c).
    nulls : dict of str to ndarray
        Scores of the permuted labels, (P, *shape), of the single-number metrics.
    summaries : dict of str to NullSummary
        What is left of the nulls that were not kept.
    second_nulls, second_summaries : dict
        The same of the scores against the task's second labels.
    predicted : ndarray of int, shape (*shape, n)
        Predicted classes of the observed labels, -1 for trials never tested.
    class_scores : ndarray, shape (*shape, n, c) | None
        Class scores of the observed labels, averaged over the folds that test a trial;
        NaN for trials never tested. None unless the task keeps them.
    patterns : dict of str to ndarray
        Activation patterns, (*shape, ., n_features), by kind; empty unless wanted.
    """

    metrics: dict
    nulls: dict
    summaries: dict
    second_nulls: dict
    second_summaries: dict
    predicted: np.ndarray
    class_scores: np.ndarray | None
    patterns: dict


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
            return _collect(_progress(parts, blocks, verbose), source, task)
        parts = _parallel(n_jobs)(
            delayed(_run_block_alone)(source, block, task) for block in blocks
        )
        return _collect(_progress(parts, blocks, verbose), source, task)


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


@dataclass(frozen=True)
class _Part:
    """The results of one position; a model with a row of cells has the row's axis.

    Attributes
    ----------
    metrics : dict of str to ndarray
        Observed scores, (*row,) or (*row, c, c).
    nulls, second : dict of str to ndarray
        Scores of permuted labels, (P, *row), and those against the second labels.
    predicted : ndarray of int, shape (*row, n)
        Predicted classes.
    class_scores : ndarray, shape (*row, n, c) | None
        Class scores, if they are kept.
    patterns : dict of str to ndarray
        Activation patterns, if they are wanted.
    """

    metrics: dict
    nulls: dict
    second: dict
    predicted: np.ndarray
    class_scores: np.ndarray | None
    patterns: dict


def _run_block(source, block, task):
    """Decode the positions of one block."""
    _keep_freed_memory()
    models, parts = source.models(block, task), []
    for position in block:
        try:
            model = next(models)
            patterns = {}
            if task.with_patterns:
                plan = getattr(model, "plan", model)  # a transfer has one to train
                signal = source.signal(position)
                patterns = class_patterns(plan, task.labels[0], task.n_classes, signal)
            parts.append(_run_position(model, task, patterns))
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


def _run_position(model, task, patterns):
    """Decode at one position; the observed labels have a block of their own."""
    once = np.bincount(model.rows).max() == 1
    want_scores = task.keep_class_scores or not once
    want_scores |= metrics.needs_class_scores(task.scoring)
    observed = list(model.predict(task.labels[:1], task.n_classes, want_scores))
    (scores,) = _evaluate(task.scoring, observed, model, task)
    row = (*scores[task.scoring[0]].shape[1:], model.n_rows)
    nulls, second = _run_permutations(model, task, row[:-1])
    class_scores = None
    if once and not task.keep_class_scores:
        predicted = np.concatenate([_tested_once(model, piece) for piece in observed])
    else:
        pieces = [_per_trial(model, piece) for piece in observed]
        class_scores = np.concatenate(pieces).reshape(*row, task.n_classes)
        predicted = _winners(class_scores)
    return _Part(
        {name: value[0] for name, value in scores.items()},
        nulls,
        second,
        predicted.reshape(row),
        class_scores if task.keep_class_scores else None,
        patterns,
    )


def _run_permutations(model, task, row):
    """Return the scores (P, *row) of permuted labels, and those of the second kind."""
    scoring = [name for name in task.scoring if metrics.METRICS[name].scalar]
    if len(task.labels) == 1:
        return {name: np.empty((0, *row)) for name in scoring}, {}
    want_scores = metrics.needs_class_scores(scoring)
    size = task.batch_size or model.block_size(task.n_classes, want_scores)
    parts = []
    for start in range(1, len(task.labels), size):
        block = slice(start, start + size)
        scored = model.predict(task.labels[block], task.n_classes, want_scores)
        second = task.second
        if second is not None and len(second) > 1:
            second = second[block]
        parts.append(_evaluate(scoring, scored, model, task, second))
    return tuple(
        {name: np.concatenate([values[name] for values in kind]) for name in kind[0]}
        for kind in zip(*parts, strict=True)
    ) + ({},) * (task.second is None)


def _evaluate(scoring, scored, model, task, second=None):
    """Score predictions that come in pieces of the model's row, (B, *row, ...).

    Against the labels they come with and, if given, against the second ones (B, n).
    """
    pieces = []
    for piece in scored:
        both = [piece]
        if second is not None:
            true = second.T[model.rows]
            true = true.reshape(len(true), *(1,) * (piece.predicted.ndim - 2), -1)
            both.append(replace(piece, true=true))
        pieces.append(
            [
                metrics.evaluate(scoring, one, model.shapes, task.n_classes)
                for one in both
            ]
        )
    if len(pieces) == 1:
        return pieces[0]
    return [
        {name: np.concatenate([one[name] for one in kind], axis=1) for name in scoring}
        for kind in zip(*pieces, strict=True)
    ]


def _tested_once(model, scored):
    """Return predictions by trial, (cells of the row, n); -1 for trials never tested.

    From (n_test, *row, 1), with no trial in two test sets.
    """
    values = scored.predicted[..., 0].reshape(len(scored.predicted), -1)
    predicted = np.full((values.shape[1], model.n_rows), -1, values.dtype)
    predicted[:, model.rows] = values.T
    return predicted


def _per_trial(model, scored):
    """Average the observed labels' class scores over the folds that test a trial.

    From (n_test, c, *row, 1) to (cells of the row, n, c).
    """
    values = scored.class_scores[..., 0]
    n_test, n_classes = values.shape[:2]
    values = values.reshape(n_test, n_classes, -1).transpose(2, 0, 1)
    times = np.bincount(model.rows, minlength=model.n_rows)
    total = np.zeros((len(values), model.n_rows, n_classes))
    np.add.at(total, (slice(None), model.rows), values)
    with np.errstate(invalid="ignore"):
        return total / times[:, None]  # 0 / 0 is NaN: never tested


def _winners(class_scores):
    """Return the best class of every trial (..., n), -1 for trials never tested."""
    tested = ~np.isnan(class_scores).any(axis=-1)
    small = np.int8 if class_scores.shape[-1] < 128 else np.int16
    return np.where(tested, class_scores.argmax(axis=-1), -1).astype(small)


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


def _collect(parts, source, task):
    """Gather the positions' results into maps."""
    n_positions = int(np.prod(source.shape))
    cells, kept = [], {}
    for position, cell in enumerate(cell for part in parts for cell in part):
        shape = (n_positions, *cell.predicted.shape[:-1])
        for kind, nulls in (("nulls", cell.nulls), ("second", cell.second)):
            for name, null in nulls.items():
                if position == 0:
                    kept[kind, name] = NullStore(task.null, len(null), shape)
                kept[kind, name].add(position, cell.metrics[name], null)
        cells.append(replace(cell, nulls={}, second={}))  # not held twice
    shape = (*source.shape, *shape[1:])

    def stack(values):
        values = np.stack(values)
        return values.reshape((*source.shape, *values.shape[1:]))

    def pick(kind, part):
        found = {name: both[part] for (k, name), both in packed.items() if k == kind}
        return {name: value for name, value in found.items() if value is not None}

    first = cells[0]
    packed = {key: nulls.summary(shape) for key, nulls in kept.items()}
    return Outcome(
        metrics={m: stack([cell.metrics[m] for cell in cells]) for m in first.metrics},
        nulls=pick("nulls", 0),
        summaries=pick("nulls", 1),
        second_nulls=pick("second", 0),
        second_summaries=pick("second", 1),
        predicted=stack([cell.predicted for cell in cells]),
        class_scores=None
        if first.class_scores is None
        else stack([cell.class_scores for cell in cells]),
        patterns={k: stack([c.patterns[k] for c in cells]) for k in first.patterns},
    )
