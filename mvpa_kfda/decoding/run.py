"""The run loop: the same decoding at every position of a map.

What to decode where is said by the map's positions
(:mod:`mvpa_kfda.decoding.positions`), and how label vectors are predicted there by
their models. The loop scores the observed labels and the permuted ones, block by block,
and gathers the results. A model stands for one position or for several of a block's,
and one that tests at other positions than its own fills a whole row of the map. The
cells of a map are numbered in C order.
"""

import tempfile
from contextlib import closing, nullcontext
from dataclasses import dataclass, field

import numpy as np

from ..inference.null import Null, NullSummary, summarize_null
from ..kfda.folds import Folds, InnerFolds
from ..kfda.patterns import pattern_weights, patterns_of
from ..kfda.penalties import AtMost, Auto, Tuned
from ..kfda.preprocess import FoldPreprocessing
from ..metrics.classes import METRICS, evaluate_labellings, evaluate_sets
from ..utils.parallel import count_workers, keep_freed_memory, run_in_parallel
from ..utils.progress import Progress
from ..utils.signals import ending_in_order
from .positions import PositionError
from .sizes import outlook


@dataclass(frozen=True)
class Task:
    """What is asked at every position, the same everywhere: to decode classes.

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
    functions : dict of str -> FunctionMetric
        Those of the metrics that are functions of the user's.
    learned : FoldPreprocessing
        What every fold learns from its training trials before the kernel.
    dtype : dtype
        The precision in which permutations are processed.
    batch_size : int | None
        Permutations per block; None chooses by cache size.
    keep_class_scores : bool
        Whether the outcome is to hold the class scores.
    null : str
        What is kept of the null: "all" (double precision), "full" (single precision),
        "max" or "stream", see `NullStore`.
    with_patterns : bool
        Whether to compute activation patterns.
    second : ndarray of int, shape (1 | P + 1, n) | None
        Of two tests: labels that stay (1, n), where those that predictions come with
        move along with the trained ones, or labels that move (P + 1, n), where those
        stay. The first test is against labels that move. None: one test.
    at_most : float | None
        Penalties are at most so many times trace(K_c)/n, unless labels choose them.
    rank : int | None
        How many discriminants to classify by; None: all.
    inner : InnerFolds | None
        The folds within the training sets, where the penalty is tuned.
    groups : ndarray, shape (n,) | None
        Each trial's group, which a penalty without labels may take into account.
    draws : Draws | None
        The averages or folds that are drawn for each labelling and repeat.
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
    at_most: float | None = None
    rank: int | None = None
    inner: InnerFolds | None = None
    groups: np.ndarray | None = None
    draws: object = None
    functions: dict = field(default_factory=dict)
    learned: FoldPreprocessing = field(default_factory=FoldPreprocessing)

    #: Bytes of the prediction of a trial.
    prediction_bytes = 1

    @property
    def kept_null(self):
        """What is kept of the null; all of one that is empty."""
        return self.null if len(self.labels) > 1 else "all"

    @property
    def is_foldwise(self):
        """Whether every fold needs a matrix of its own."""
        return is_foldwise(self.folds, self.learned)

    @property
    def n_folds(self):
        """The number of folds, in one repeat."""
        r = 1 if self.draws is None else self.draws.n_repeats
        return 0 if self.folds is None else len(self.folds.tests) // r

    @property
    def stacks(self):
        """Whether positions are stacked, to share what depends on labels only.

        Numbers are of single positions, and tuning takes long by itself.
        """
        return self.inner is None and self.n_classes is not None

    def penalty(self, reg):
        """Return a penalty for the trials of this task."""
        if isinstance(reg, Auto):
            trained = None if self.folds is None else self.folds.trained
            reg = Auto(trained, self.groups)
        if self.at_most is None or isinstance(reg, Tuned):
            return reg
        return AtMost(reg, self.at_most)

    @property
    def settings(self):
        """What a model needs to know before it sees labels."""
        return self.folds, self.dtype, self.rank

    @property
    def metrics(self):
        """The metrics by name."""
        known = METRICS | self.functions
        return {name: known[name] for name in self.scoring}

    @property
    def scalar_metrics(self):
        """Those that are one number in each cell, and so have a null."""
        return {name: m for name, m in self.metrics.items() if m.scalar}

    def decode(self, model):
        """Score and predict with one model; return parts as `_run_block` names them."""
        return _decode_classes(self, model)

    def run_block(self, positions, block):
        """Decode the positions of one block; return its part, with whole nulls."""
        if self.draws is not None:
            return self.draws.run_block(self, positions, block)
        parts, done = [], 0
        for model in models_of(positions, block, self):
            numbers = block[done : done + model.n_positions]
            parts.append(_run_model(model, positions, self, numbers))
            done += len(numbers)
        return {
            key: np.concatenate([part[key] for part in parts], axis=_axis(key))
            for key in parts[0]
        }


def is_foldwise(folds, learned):
    """Whether every fold needs a matrix of its own."""
    return bool(learned) or (folds is not None and folds.trains is not None)


def run(positions, task, n_jobs=None, verbose=None, checkpoint=None):
    """Decode at every position.

    Parameters
    ----------
    positions : Positions
        What is decoded where, see :mod:`mvpa_kfda.decoding.positions`.
    task : Task
        What to do at each.
    n_jobs : int | None
        Workers, as in joblib; None is 1 unless in a ``joblib.parallel_config``.
    verbose : bool | None
        True: tell how far the run is, by a bar, or in a log by a line now and then;
        False: do not; None: on runs of more than a few seconds.
    checkpoint : Checkpoint | None
        Where finished blocks are kept; those that are there already are not run again.

    Returns
    -------
    outcome : Outcome
        The map. It does not depend on n_jobs.

    Notes
    -----
    With workers SIGTERM and SIGHUP end the run as Ctrl-C does, and then the process,
    unless the caller handles or ignores these signals.
    """
    blocks = positions.blocks()
    store = MapStore(positions, blocks, task)
    finished = checkpoint.finished if checkpoint else ()
    for i in sorted(finished):
        store.add(blocks[i], checkpoint.load(i))
    waiting = [i for i in range(len(blocks)) if i not in finished]
    items = [blocks[i] for i in waiting]
    n_workers = count_workers(n_jobs) if items else 1
    parts = run_in_parallel(_run_block, (positions, task), items, n_jobs)
    with (
        # By default the signals that end a process would leave the workers behind.
        ending_in_order() if n_workers > 1 else nullcontext(),
        Progress(
            sum(map(len, blocks)),
            sum(len(blocks[i]) for i in finished),
            verbose,
            n_workers,
            lambda time: outlook(time, store.n_bytes, positions, task, n_workers),
        ) as progress,
        # Closed even where an error keeps the loop alive in its traceback.
        closing(parts),
    ):
        for i, part in zip(waiting, parts, strict=True):
            if checkpoint:
                checkpoint.save(i, part)
            store.add(blocks[i], part)
            progress.update(len(blocks[i]))
    return store.outcome()


def _run_block(positions, task, block):
    """Decode the positions of one block.

    The part is a dict of arrays: ``metrics/NAME`` (cells, ...), ``folds/NAME`` (cells,
    n_sets), ``repeats/NAME`` (cells, r) if there are any, ``nulls/NAME/...`` and
    ``second/NAME/...`` from `reduce_null`, ``second_scores/NAME`` (cells,) of the
    observed labels in the second test,
    ``predicted`` (cells, n), ``class_scores`` (positions, n, c) if they are kept,
    ``patterns/KIND`` (positions, ., n_features) if they are wanted, (features, .) where
    positions differ in their number, ``penalty/NAME`` (positions, ...).
    """
    keep_freed_memory()
    return _reduce(task.run_block(positions, block), task.kept_null)


def models_of(positions, block, task):
    """Yield the models of a block, and say where there is something wrong."""
    models, done = positions.models(block, task), 0
    while done < len(block):
        try:
            model = next(models)
        except PositionError as error:
            raise ValueError(str(error)) from error
        except ValueError as error:  # flat data, or an error of the user's own kernel
            raise ValueError(f"{positions.where(block[done])}{error}") from error
        yield model
        done += model.n_positions


def score_models(models, task):
    """Return scores (cells of all models,) of a task's one label vector, by name.

    A list of these, one for each test.
    """
    found = [_in_tests(model, task, slice(None)) for model in models]
    return [
        {
            name: np.concatenate([each[name][0].ravel() for each in kind])
            for name in kind[0]
        }
        for kind in zip(*found, strict=True)
    ]


def _run_model(model, positions, task, numbers):
    """Decode with one model, and say at which of its positions something is wrong."""
    try:
        part = task.decode(model)
        if positions.row and "class_scores" in part:
            of_row, same = part["class_scores"], positions.same(numbers[0])
            kept = np.full_like(of_row[0], np.nan) if same is None else of_row[same]
            part["class_scores"] = kept[np.newaxis]
        record = model.plan.penalty(task.labels[:1], task.n_classes)
        part |= {f"penalty/{name}": values for name, values in record.items()}
        if task.with_patterns:
            part |= _patterns(model, positions, task, numbers)
        return part
    except ValueError as error:  # a lambda too small
        if len(numbers) > 1:
            for single, number in zip(model.split(), numbers, strict=True):
                _run_model(single, positions, task, [number])
        raise ValueError(f"{positions.where(numbers[0])}{error}") from error


def _patterns(model, positions, task, numbers):
    """The patterns of the observed labels, ``patterns/KIND``."""
    plans, found = getattr(model, "plans", (model.plan,)), {}
    ragged = positions.pattern_rows(numbers) is not None
    weights = pattern_weights(plans, task.labels[0], task.n_classes)
    for each, number in zip(weights, numbers, strict=True):
        for kind, values in patterns_of(each, positions.signal(number)).items():
            values = values.T if ragged else values[np.newaxis]
            found.setdefault(f"patterns/{kind}", []).append(values)
    return {key: np.concatenate(values) for key, values in found.items()}


#: Nulls in a part -> the observed scores that they are of.
_OBSERVED = {"nulls": "metrics", "second": "second_scores"}


def _axis(key):
    """Which axis of a part's array counts cells or positions."""
    return int(key.partition("/")[0] in _OBSERVED)


def _reduce(part, kind):
    """Put what is to be kept of each null in the place of it."""
    reduced = {}
    for key, values in part.items():
        if not _axis(key):
            reduced[key] = values
            continue
        of, _, name = key.partition("/")
        kept = reduce_null(kind, part[f"{_OBSERVED[of]}/{name}"], values)
        reduced |= {f"{key}/{name}": values for name, values in kept.items()}
    return reduced


def _decode_classes(task, model):
    """Decode with one model; the observed labels have a block of their own."""
    once, metrics = np.bincount(model.rows).max() == 1, task.metrics
    want_scores = task.keep_class_scores or not once or _need_class_scores(metrics)
    observed = list(model.predict(task.labels[:1], task.n_classes, want_scores))
    (scores,) = _evaluate(metrics, observed, model, task)
    part = _of_folds(observed, model, task)
    for name, values in scores.items():
        table = metrics[name].table
        extra = () if table is None else table(task.n_classes)
        part[f"metrics/{name}"] = values[0].reshape(-1, *extra)
    if task.second is not None:
        if model.second is not None:
            (scores,) = _scores_of(model.second, task, slice(1))
        for name in task.scalar_metrics:
            part[f"second_scores/{name}"] = scores[name][0].ravel()
    part |= _nulls_of(model, task, len(part[f"metrics/{task.scoring[0]}"]))
    class_scores = None
    if task.keep_class_scores or not once:
        class_scores = np.concatenate([_per_trial(model, piece) for piece in observed])
    if once:
        predicted = [_tested_once(model, piece) for piece in observed]
        part["predicted"] = np.concatenate(predicted)
    else:
        part["predicted"] = _winners(class_scores)
    return part | ({"class_scores": class_scores} if task.keep_class_scores else {})


def _need_class_scores(metrics):
    """Whether some metric is computed from class scores."""
    return any(metric.needs_class_scores for metric in metrics.values())


def _of_folds(observed, model, task):
    """The scores of every test set, ``folds/NAME`` (cells, n_sets)."""
    pieces = [
        evaluate_sets(task.metrics, piece, model.shapes, task.n_classes)
        for piece in observed
    ]
    order = [0] if task.folds is None else np.argsort(task.folds.numbers)
    return {
        f"folds/{name}": np.concatenate(
            [piece[name].reshape(-1, len(order)) for piece in pieces]
        )[:, order]
        for name in pieces[0]
    }


def _nulls_of(model, task, n_cells):
    """The ``nulls/NAME`` and ``second/NAME`` (P, n_cells), of permuted labels."""
    metrics, P = task.scalar_metrics, len(task.labels) - 1
    if P == 0:
        return {f"nulls/{name}": np.empty((0, n_cells)) for name in metrics}
    size = task.batch_size or model.block_size(
        task.n_classes, _need_class_scores(metrics)
    )
    parts = [
        _in_tests(model, task, slice(start, start + size))
        for start in range(1, P + 1, size)
    ]
    return {
        f"{kind}/{name}": np.concatenate([x[name] for x in test]).reshape(P, n_cells)
        for kind, test in zip(_OBSERVED, zip(*parts, strict=True), strict=False)
        for name in metrics
    }


def _in_tests(model, task, block):
    """The scores (B, *row) of some label vectors by name, for each test."""
    second = task.second
    if second is None:
        return _scores_of(model, task, block)
    trues = [None, second]  # these stay
    if len(second) > 1:  # one for each permutation: these move
        trues = [second[block], None]
    if model.second is None:
        return _scores_of(model, task, block, trues)
    return [
        *_scores_of(model, task, block, trues[:1]),
        *_scores_of(model.second, task, block, trues[1:]),
    ]


def _scores_of(model, task, block, trues=(None,)):
    """The scores (B, *row) of some label vectors by name, a list as `trues`."""
    metrics = task.scalar_metrics
    want_scores = _need_class_scores(metrics)
    scored = model.predict(task.labels[block], task.n_classes, want_scores)
    return _evaluate(metrics, scored, model, task, trues)


def _evaluate(metrics, scored, model, task, trues=(None,)):
    """Score predictions that come in pieces of the model's row, (B, *row, ...).

    Against each of the given labels (B, n), or None: those they come with.
    """
    pieces = []
    for piece in scored:
        cells = (1,) * (piece.predicted.ndim - 2)
        each = [
            piece.true if x is None else x.T[model.rows].reshape(-1, *cells, len(x))
            for x in trues
        ]
        pieces.append(
            evaluate_labellings(metrics, piece, each, model.shapes, task.n_classes)
        )
    if len(pieces) == 1:
        return pieces[0]
    return [
        {name: np.concatenate([one[name] for one in test], axis=1) for name in metrics}
        for test in zip(*pieces, strict=True)
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
    """The best class of every trial (..., n), -1 for trials never tested."""
    tested = ~np.isnan(class_scores).any(axis=-1)
    small = np.int8 if class_scores.shape[-1] < 128 else np.int16
    return np.where(tested, class_scores.argmax(axis=-1), -1).astype(small)


@dataclass(frozen=True)
class Outcome:
    """Scores and predictions over a map.

    Positions that the source leaves out are NaN, and -1 in `predicted`; summaries are
    of the others.
    """

    #: The observed scores, (*shape,) or (*shape, c, c).
    metrics: dict
    #: Predicted classes of the observed labels (*shape, n), -1 for trials never tested.
    predicted: np.ndarray
    #: Class scores of the observed labels, averaged over the folds that test a trial;
    #: NaN for trials never tested. None unless the task keeps them, (*shape, n, c); of
    #: positions that fill a row of the map those of one cell, see `Positions.same`.
    class_scores: np.ndarray | None = None
    #: The scores of every test set, (*shape, n_sets), of the single-number metrics.
    folds: dict = field(default_factory=dict)
    #: Those of every repeat (*shape, r), where there are any.
    repeats: dict = field(default_factory=dict)
    #: Scores of the permuted labels, (P, *shape), of the single-number metrics.
    nulls: dict = field(default_factory=dict)
    #: What is left of the nulls that were not kept.
    summaries: dict = field(default_factory=dict)
    #: The same of the second test, and the observed scores (*shape,) that it is of.
    second_scores: dict = field(default_factory=dict)
    second_nulls: dict = field(default_factory=dict)
    second_summaries: dict = field(default_factory=dict)
    #: Activation patterns, (*shape, ., n_features), by kind; empty unless wanted. Of
    #: positions that differ in their features (features of all positions, .).
    patterns: dict = field(default_factory=dict)
    #: What is recorded of the penalties, (*shape, ...), by name.
    penalty: dict = field(default_factory=dict)


def reduce_null(kind, observed, null):
    """What `NullStore` keeps of scores (cells,) and permuted ones (P, cells).

    That is ``null``, or ``exceedances`` (cells,), ``maximum`` (P,) and
    ``permuted_moments`` (2, cells).
    """
    if kind == "max":
        kept = Null(observed, null)
        names = "exceedances", "maximum", "permuted_moments"
        return {name: getattr(kept, name) for name in names}
    return {"null": null.astype(np.float64 if kind == "all" else np.float32)}


class NullStore:
    """What is kept of the scores under permuted labels, filled part by part.

    "all" is every score in double precision, "full" in single precision; "max" of every
    permutation the largest score and of every cell how many permutations reach the
    observed one, their mean and standard deviation; "stream" the same and the largest
    cluster and TFCE score too, by way of a temporary file. Cells not in `run` are NaN,
    and summaries leave them out; cells that are `exempt` from the test count in no
    cluster, see `Null`.
    """

    def __init__(self, kind, n_permutations, adjacency, shape, run, exempt=None):
        self._kind, self._adjacency, self._run = kind, adjacency, run
        self._exempt = exempt
        n_cells = int(np.prod(shape))
        self._shape = shape
        # Of a map without gaps a summary has its shape, else one axis of the cells run.
        self._summarised = shape if len(run) == n_cells else run.shape
        self._observed = np.empty(len(run))
        if kind == "max":
            self._exceedances = np.zeros(len(run), np.int64)
            self._maximum = np.full(n_permutations, -np.inf)
            self._moments = np.empty((2, len(run)))
        elif kind == "stream":
            self._file = tempfile.TemporaryFile(prefix="mvpa_kfda")
            shape = n_permutations, len(run)
            self._null = np.memmap(self._file, np.float32, "w+", shape=shape)
        else:
            dtype = np.float64 if kind == "all" else np.float32
            self._null = np.empty((n_permutations, n_cells), dtype)
            if len(run) < n_cells:
                self._null[:] = np.nan

    @property
    def n_bytes(self):
        """What it takes of the memory."""
        if self._kind == "max":
            kept = self._exceedances, self._maximum, self._moments
            return sum(each.nbytes for each in kept)
        return 0 if self._kind == "stream" else self._null.nbytes

    def add(self, cells, observed, kept):
        """Take in cells' observed scores and what `reduce_null` kept of the others."""
        at = np.searchsorted(self._run, cells)
        self._observed[at] = observed
        if self._kind == "max":
            self._exceedances[at] = kept["exceedances"]
            np.maximum(self._maximum, kept["maximum"], out=self._maximum)
            self._moments[:, at] = kept["permuted_moments"]
        else:
            self._null[:, at if self._kind == "stream" else cells] = kept["null"]

    def result(self):
        """The whole null or None, and its summary or None."""
        if self._kind in ("all", "full"):
            return self._null.reshape((len(self._null), *self._shape)), None
        shape = self._summarised
        if self._kind == "max":
            return None, NullSummary(
                len(self._maximum),
                self._exceedances.reshape(shape),
                self._maximum,
                permuted_moments=self._moments.reshape(2, *shape),
            )
        with self._file:
            return None, summarize_null(
                self._observed.reshape(shape),
                self._null.reshape((-1, *shape)),
                with_clusters=True,
                adjacency=self._adjacency() if self._adjacency else None,
                exempt=self._exempt,
            )


#: What a part has once for each position, also where these fill rows of cells.
_OF_POSITIONS = ("class_scores", "patterns", "penalty")


class MapStore:
    """The cells of a map, filled block by block in any order."""

    def __init__(self, positions, blocks, task):
        self._positions = positions.shape
        self._pattern_rows = positions.pattern_rows
        self._shape = (*positions.shape, *positions.row)
        self._width = int(np.prod(positions.row))
        self._n_cells = int(np.prod(self._shape))
        self._null = task.kept_null, len(task.labels) - 1, positions.adjacency
        self._exempt = positions.exempt
        run = np.concatenate([np.asarray(block) for block in blocks])
        self._run = np.sort(self._cells(run))
        self._arrays, self._nulls = {}, {}

    def _cells(self, block):
        """The numbers of the cells of some positions."""
        block = np.asarray(block)
        if self._width == 1:
            return block
        return (block[:, None] * self._width + np.arange(self._width)).ravel()

    @property
    def n_bytes(self):
        """What the map takes of the memory, once a part has come."""
        return sum(values.nbytes for values in self._arrays.values()) + sum(
            null.n_bytes for null in self._nulls.values()
        )

    def add(self, block, part):
        """Take in the part of some positions, see `_run_block`."""
        cells, nulls = self._cells(block), {}
        for key, values in part.items():
            kind, _, name = key.partition("/")
            if kind in _OBSERVED:
                name, _, what = name.rpartition("/")  # "face / house" is a name
                nulls.setdefault((kind, name), {})[what] = values
            elif kind == "patterns" and self._pattern_rows(block) is not None:
                rows, length = self._pattern_rows(block)
                self._array(key, values, length)[rows] = values
            elif kind in _OF_POSITIONS:
                positions = int(np.prod(self._positions))
                self._array(key, values, positions)[block] = values
            else:
                self._array(key, values, self._n_cells)[cells] = values
        for (kind, name), kept in nulls.items():
            if (kind, name) not in self._nulls:
                exempt = self._exempt if kind == "second" else None
                store = NullStore(*self._null, self._shape, self._run, exempt)
                self._nulls[kind, name] = store
            observed = part[f"{_OBSERVED[kind]}/{name}"]
            self._nulls[kind, name].add(cells, observed, kept)

    def _array(self, key, values, length):
        """The array of all cells for some cells' values, made if need be."""
        if key not in self._arrays:
            empty = np.nan if values.dtype.kind == "f" else -1
            self._arrays[key] = np.full(
                (length, *values.shape[1:]), empty, values.dtype
            )
        return self._arrays[key]

    def outcome(self):
        """The map."""
        found = {}
        for key, values in self._arrays.items():
            kind, _, name = key.partition("/")
            shape = self._positions if kind in _OF_POSITIONS else self._shape
            if kind != "patterns" or self._pattern_rows(()) is None:
                values = values.reshape((*shape, *values.shape[1:]))
            if name:
                found.setdefault(kind, {})[name] = values
            else:
                found[kind] = values
        for (kind, name), store in self._nulls.items():
            first = "" if kind == "nulls" else "second_"
            for what, kept in zip(("nulls", "summaries"), store.result(), strict=True):
                if kept is not None:
                    found.setdefault(first + what, {})[name] = kept
        return Outcome(**found)
