"""The run loop: the same decoding at every position of a map.

A :class:`Draw` says of which rows, trials or averages of these, and a :class:`Task`
what is asked.

What to decode where is said by the map's positions
(:mod:`mvpa_kfda.decoding.positions`), and how label vectors are predicted there by
their models. The loop scores the observed labels and the permuted ones, block by block,
and gathers the results. A model stands for one position or for several of a block's,
and one that tests at other positions than its own fills a whole row of the map. The
cells of a map are numbered in C order.
"""

import math
import shutil
import tempfile
from contextlib import closing, nullcontext
from dataclasses import dataclass, field, replace
from typing import Literal, get_args

import numpy as np
from joblib import cpu_count
from sklearn import config_context

from ..inference.null import Null, NullSummary, summarize_null
from ..kfda.direct import Predictions
from ..kfda.folds import Folds, InnerFolds
from ..kfda.kernels import Kernel, Precomputed
from ..kfda.patterns import pattern_weights, patterns_of
from ..kfda.penalties import AtMost, Auto, Tuned
from ..kfda.preprocess import FoldPreprocessing
from ..metrics.scores import evaluate_labellings, evaluate_sets
from ..utils.checks import quoted, word_bytes
from ..utils.memory import check_memory
from ..utils.parallel import count_workers, keep_freed_memory, run_in_parallel
from ..utils.progress import Progress, word_seconds
from ..utils.signals import ending_in_order
from .problems import refusal

#: With null="auto", permutations' maps up to this many bytes are kept in full, and
#: larger ones are written to a temporary file, of which a summary is kept ("stream").
FULL_NULL_BYTES = 2**30

#: What may be kept of the permutations.
KeptNull = Literal["auto", "full", "max"]
NULLS = get_args(KeptNull)

#: What is kept of a null in memory, in units of all its scores in single precision.
_TIMES_KEPT = {"all": 2, "full": 1}


def average(data, members, axis=0):
    """The means of some entries of an axis, those of an average in each row."""
    total = np.take(data, members[:, 0], axis).astype(np.float64, copy=False)
    for each in members.T[1:]:
        total += np.take(data, each, axis)
    total /= members.shape[1]
    return total


@dataclass(frozen=True, eq=False)
class Draw:
    """What a procedure runs on once: rows that are means of trials, or trials.

    Attributes
    ----------
    sides : tuple of ndarray of int | None
        The trials in each row, arrays (m, k) of one k or of several; None: the trials.
    codes : ndarray of int, shape (m,) | None
        The classes of the rows.
    groups : ndarray, shape (m,) | None
        Their groups.
    folds : Folds | None
        Their test sets.
    """

    sides: tuple[np.ndarray, ...] | None
    codes: np.ndarray | None = None
    groups: np.ndarray | None = None
    folds: Folds | None = None

    @property
    def members(self):
        """Trials in each row (m, k), where all rows are averages of k trials."""
        return None if self.sides is None else self.sides[0]

    @property
    def train_mask(self):
        """Which rows are trained with (m,), all others tested; None: any may be."""
        return None if self.folds is None else self.folds.train_mask

    def apply(self, data, axis=0):
        """The data with the trials along an axis averaged, (..., m, ...)."""
        data = np.asarray(data)
        means = [average(data, members, axis) for members in self.sides]
        return means[0] if len(means) == 1 else np.concatenate(means, axis)

    def both(self, data, kernel):
        """Data and kernel of the rows, of the data of all trials.

        A linear kernel is given averaged features, others average their values.
        """
        if kernel.is_linear:
            return self.apply(data), kernel
        return data, kernel.map(lambda each: AveragedKernel(each, self))


@dataclass(frozen=True, eq=False, repr=False)
class AveragedKernel(Kernel):
    """A kernel between averages of trials, in feature space; it is given the trials."""

    kernel: Kernel
    draw: Draw

    def __post_init__(self):
        """Have the properties of the kernel that is averaged."""
        for name in ("shift_free", "assumes_unit_scale", "is_linear", "low_rank"):
            object.__setattr__(self, name, getattr(self.kernel, name))

    def fit(self, X):
        """The kernel with its numbers fixed by the single trials."""
        return replace(self, kernel=self.kernel.fit(X))

    def __call__(self, X, Y=None):
        """The matrix S K S' (m, m) of trials X and Y (or X).

        Y holds the same trials as X, as at another time.
        """
        return self.draw.apply(self.draw.apply(self.kernel(X, Y)), 1)

    def features(self, X):
        """The averaged columns (m, r)."""
        return self.draw.apply(self.kernel.features(X))

    def of_samples(self, X):
        """The kernel matrix of the averages of trials X."""
        return self.fit(X)(X), Precomputed()

    def take(self, columns):
        """The kernel for some columns of the features."""
        return replace(self, kernel=self.kernel.take(columns))

    def repeated(self, times):
        """The kernel for `times` blocks of the columns, side by side."""
        return replace(self, kernel=self.kernel.repeated(times))

    def __repr__(self):
        """Say what is averaged, not which trials."""
        each = " or ".join(str(side.shape[1]) for side in self.draw.sides)
        return f"AveragedKernel({self.kernel!r}, {each} trials each)"


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
    metrics : dict of str -> Metric
        The metrics by name.
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
        "max" or "stream", see `MapStore`.
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
    metrics: dict
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
    learned: FoldPreprocessing = field(default_factory=FoldPreprocessing)

    #: Bytes of the prediction of a trial.
    prediction_bytes = 1

    @property
    def is_foldwise(self):
        """Whether every fold needs a matrix of its own."""
        trains = self.folds is not None and self.folds.trains is not None
        return bool(self.learned) or trains

    def penalty(self, reg):
        """A penalty for the trials of this task."""
        if isinstance(reg, Auto):
            trained = None if self.folds is None else self.folds.trained
            reg = Auto(trained, self.groups)
        if self.at_most is None or isinstance(reg, Tuned):
            return reg
        return AtMost(reg, self.at_most)

    @property
    def scalar_metrics(self):
        """Those that are one number in each cell, and so have a null."""
        return {name: m for name, m in self.metrics.items() if m.scalar}

    @property
    def n_columns(self):
        """How many columns are regressed for a label vector."""
        return self.n_classes - 1

    def predict(self, model, labels, want_scores=False):
        """Yield what a model predicts of labels (B, n), in pieces of its row."""
        return model.predict(labels, self.n_classes, want_scores)

    def blocks(self, model):
        """Yield slices of the permuted labels, to be predicted together."""
        want_scores = _need_class_scores(self.scalar_metrics)
        size = self.batch_size or model.block_size(self.n_classes, want_scores)
        if self.learned.sees_labels:  # models have nothing in common
            size = 1
        for start in range(1, len(self.labels), size):
            yield slice(start, start + size)

    def by_trial(self, model, observed):
        """The predictions of the observed labels in the order of trials, by name."""
        once, part = np.bincount(model.rows).max() == 1, {}
        if self.keep_class_scores or not once:
            found = [_per_trial(model, each.class_scores[..., 0]) for each in observed]
            class_scores = np.concatenate(found)
        if self.keep_class_scores:
            part["class_scores"] = class_scores
        if once:
            rows = [x.predicted.reshape(len(x.predicted), -1).T for x in observed]
            values = np.concatenate(rows)  # no trial is in two test sets
            predicted = np.full((len(values), model.n_rows), -1, values.dtype)
            predicted[:, model.rows] = values
            return part | {"predicted": predicted}
        tested = ~np.isnan(class_scores).any(axis=-1)
        small = np.int8 if self.n_classes < 128 else np.int16
        winners = np.where(tested, class_scores.argmax(axis=-1), -1).astype(small)
        return part | {"predicted": winners}

    def run_block(self, positions, block):
        """Decode the positions of one block; return its part, with whole nulls."""
        parts, done = [], 0
        # Data are checked by now; scikit-learn would check them again at every
        # position, which takes longer than the kernel.
        with config_context(assume_finite=True, skip_parameter_validation=True):
            if self.draws is not None:
                return self.draws.run_block(self, positions, block)
            for model in models_of(positions, block, self):
                numbers = block[done : done + model.n_positions]
                parts.append(_run_model(model, positions, self, numbers))
                done += len(numbers)
        axes = {key: int(key.partition("/")[0] in _OBSERVED) for key in parts[0]}
        return {
            key: np.concatenate([part[key] for part in parts], axis)
            for key, axis in axes.items()
        }


@dataclass(frozen=True, kw_only=True)
class RegressionTask(Task):
    r"""What is asked at every position: values, such as reaction times, for classes.

    Ridge regression with an unpenalised intercept in the feature space of a kernel has
    the hat matrix G of :mod:`mvpa_kfda.kfda.hat`, whatever is regressed. With values y
    in the place of coded classes, a fold with test rows te has the out-of-sample
    residuals and predictions

    .. math::

        E_{te} = (I - G_{te,te})^{-1} \left[(I - G) y\right]_{te}, \qquad
        \hat y_{te} = y_{te} - E_{te},

    those of a model refitted on the other rows. Permutations of y are further columns.
    """

    #: A value is mean + scale * standardised value.
    mean: float
    scale: float

    #: Bytes of the prediction of a trial, and columns for each vector of values.
    prediction_bytes = 8
    n_columns = 1

    def penalty(self, reg):
        """A penalty for values: their size tells how much to shrink."""
        return super().penalty(Tuned() if isinstance(reg, Auto) else reg)

    def standardised(self, values):
        """Values of other trials, as those of these trials are."""
        return (np.asarray(values) - self.mean) / self.scale

    def predict(self, model, labels, want_scores=False):
        """Yield the true and the predicted values, standardised, (n_test, ..., B)."""
        values, plan = labels.T, model.plan
        T = self.targets(values[plan.order]).astype(plan.dtype, copy=False)
        # Other trials have values of their own.
        others = getattr(model, "true", None)
        true = (values if others is None else others[:, None])[model.rows]
        for fitted in model.fitted(T):
            predicted = self.values(fitted)
            cells = (1,) * (predicted.ndim - 2)
            shaped = true.reshape(len(true), *cells, -1)
            yield Predictions(shaped, predicted, None)

    def targets(self, values):
        """What is regressed, (q, n, B) of values (n, B)."""
        return values[np.newaxis]

    def values(self, fitted):
        """The values (n_test, ..., B) that regressions (q, n_test, ..., B) predict."""
        return fitted[0].astype(float, copy=False)

    def blocks(self, model):
        """Yield slices of the permuted values; some may overlap.

        Never of one alone: products of vectors round unlike those of matrices.
        """
        # One column each, as of two classes, and as many predictions as scores.
        size = model.block_size(self.n_columns + 1, want_scores=True)
        size = self.batch_size or size
        for start in range(1, len(self.labels), size):
            first = max(1, min(start, len(self.labels) - 2))
            yield slice(first, max(start + size, first + 2))

    def by_trial(self, model, observed):
        """The predictions (1, n) of the observed values, in their unit.

        Averages over the folds that test a trial; NaN for trials never tested.
        """
        parts = [
            _per_trial(model, self.targets(each.predicted[..., 0]).swapaxes(0, 1))
            for each in observed
        ]
        found = self.values(np.moveaxis(np.concatenate(parts), -1, 0))
        return {"predicted": self.mean + self.scale * found}


@dataclass(frozen=True, kw_only=True)
class CircularTask(RegressionTask):
    """The same of values on a circle: angles, whose sine and cosine are regressed."""

    n_columns = 2

    def standardised(self, values):
        """Values of other trials as angles, from 0 to a turn."""
        return super().standardised(values) % (2 * np.pi)

    def targets(self, values):
        """Sine and cosine, (2, n, B)."""
        return np.stack([np.sin(values), np.cos(values)])

    def values(self, fitted):
        """The angles of sine and cosine, from 0 to a turn."""
        return np.arctan2(*fitted.astype(float, copy=False)) % (2 * np.pi)


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

    The part is a dict of arrays: ``metrics/NAME`` (cells, ...), ``fold_metrics/NAME``
    (cells, n_sets), ``repeats/NAME`` (cells, r) if there are any, ``nulls/NAME/...``
    and ``second/NAME/...`` from `reduce_part`, ``second_scores/NAME`` (cells,) of the
    observed labels in the second test, ``predicted`` (cells, n), ``class_scores``
    (positions, n, c) if they are kept, ``pattern_maps/KIND`` (positions, ., n_features)
    if they are wanted, (features, .) where positions differ in their number,
    ``penalty/NAME`` (positions, ...).
    """
    keep_freed_memory()
    return reduce_part(task.run_block(positions, block), task.null)


def models_of(positions, block, task):
    """Yield the models of a block, and say where there is something wrong."""
    models, done = positions.models(block, task), 0
    while done < len(block):
        try:
            model = next(models)
        except ValueError as error:  # flat data, or an error of the user's own kernel
            raise ValueError(f"{positions.where(block[done])}{error}") from error
        yield model
        done += model.n_positions


def score_models(models, task):
    """Scores (cells of all models,) of a task's one label vector, by name.

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
        part = _decode(task, model)
        if positions.row and "class_scores" in part:
            of_row, same = part["class_scores"], positions.same(numbers[0])
            kept = np.full_like(of_row[0], np.nan) if same is None else of_row[same]
            part["class_scores"] = kept[np.newaxis]
        asked = task.labels[:1]
        if task.n_classes is None:
            asked = task.targets(asked.T)
        record = model.plan.penalty(asked, task.n_classes)
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
    """The patterns of the observed labels, ``pattern_maps/KIND``."""
    plans, found = getattr(model, "plans", (model.plan,)), {}
    ragged = positions.pattern_rows(numbers) is not None
    weights = pattern_weights(plans, task.labels[0], task.n_classes)
    for each, number in zip(weights, numbers, strict=True):
        for kind, values in patterns_of(each, positions.signal(number)).items():
            values = values.T if ragged else values[np.newaxis]
            found.setdefault(f"pattern_maps/{kind}", []).append(values)
    return {key: np.concatenate(values) for key, values in found.items()}


#: Nulls in a part -> the observed scores that they are of.
_OBSERVED = {"nulls": "metrics", "second": "second_scores"}


def reduce_part(part, kind):
    """Put what `MapStore` keeps of each null (P, cells) in the place of it.

    That is ``null``, or ``exceedances`` (cells,), ``maximum`` (P,) and
    ``permuted_moments`` (2, cells).
    """
    reduced = {}
    for key, values in part.items():
        of, _, name = key.partition("/")
        if of not in _OBSERVED:
            reduced[key] = values
        elif kind == "max":
            null = Null(part[f"{_OBSERVED[of]}/{name}"], values)
            for what in ("exceedances", "maximum", "permuted_moments"):
                reduced[f"{key}/{what}"] = getattr(null, what)
        else:
            dtype = np.float64 if kind == "all" else np.float32
            reduced[f"{key}/null"] = values.astype(dtype)
    return reduced


def _decode(task, model):
    """Decode with one model; the observed labels have a block of their own."""
    once, metrics = np.bincount(model.rows).max() == 1, task.metrics
    want_scores = task.keep_class_scores or not once or _need_class_scores(metrics)
    observed = list(task.predict(model, task.labels[:1], want_scores))
    (scores,) = _evaluate(metrics, observed, model, task)
    n_classes, part = task.n_classes, {}
    sets = [evaluate_sets(metrics, each, model.shapes, n_classes) for each in observed]
    order = [0] if task.folds is None else np.argsort(task.folds.numbers)
    for name in task.scalar_metrics:
        values = np.concatenate([each[name].reshape(-1, len(order)) for each in sets])
        part[f"fold_metrics/{name}"] = values[:, order]
    for name, values in scores.items():
        table = metrics[name].table
        extra = () if table is None else table(n_classes)
        part[f"metrics/{name}"] = values[0].reshape(-1, *extra)
    if task.second is not None:
        if model.second is not None:
            observed_again = task.predict(model.second, task.labels[:1], want_scores)
            (scores,) = _evaluate(metrics, observed_again, model.second, task)
        for name in task.scalar_metrics:
            part[f"second_scores/{name}"] = scores[name][0].ravel()
    shape = len(task.labels) - 1, len(part[f"metrics/{next(iter(metrics))}"])
    for block in task.blocks(model):
        rows = slice(block.start - 1, block.stop - 1)
        tests = zip(_OBSERVED, _in_tests(model, task, block), strict=False)
        for kind, found in tests:
            for name, values in found.items():
                null = _array(part, f"{kind}/{name}", shape, values.dtype)
                null[rows] = values.reshape(-1, shape[1])
    return part | task.by_trial(model, observed)


def _need_class_scores(metrics):
    """Whether some metric is computed from class scores."""
    return any(metric.needs_class_scores for metric in metrics.values())


def _in_tests(model, task, block):
    """The scores (B, *row) of some label vectors by name, for each test."""
    second, trues = task.second, [None]
    if second is not None:  # labels that stay, or one for each permutation, that move
        trues = [None, second] if len(second) == 1 else [second[block], None]
    asked = [(model, trues)]
    if second is not None and model.second is not None:
        asked = [(model, trues[:1]), (model.second, trues[1:])]
    metrics, labels, found = task.scalar_metrics, task.labels[block], []
    for each, against in asked:
        scored = task.predict(each, labels, _need_class_scores(metrics))
        found += _evaluate(metrics, scored, each, task, against)
    return found


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


def _per_trial(model, values):
    """Average values of the observed labels over the folds that test a trial.

    From (n_test, c, *row) to (cells of the row, n, c).
    """
    values = values.reshape(*values.shape[:2], -1).transpose(2, 0, 1)
    times = np.bincount(model.rows, minlength=model.n_rows)
    total = np.zeros((len(values), model.n_rows, values.shape[2]))
    np.add.at(total, (slice(None), model.rows), values)
    with np.errstate(invalid="ignore"):
        return total / times[:, None]  # 0 / 0 is NaN: never tested


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
    fold_metrics: dict = field(default_factory=dict)
    #: Those of every repeat (*shape, r), where there are any.
    repeats: dict = field(default_factory=dict)
    #: Scores of the permuted labels, (P, *shape), of the single-number metrics.
    nulls: dict = field(default_factory=dict)
    #: What is left of the nulls that were not kept.
    null_summaries: dict = field(default_factory=dict)
    #: The same of the second test, and the observed scores (*shape,) that it is of.
    second_scores: dict = field(default_factory=dict)
    second_nulls: dict = field(default_factory=dict)
    second_summaries: dict = field(default_factory=dict)
    #: Activation patterns, (*shape, ., n_features), by kind; empty unless wanted. Of
    #: positions that differ in their features (features of all positions, .).
    pattern_maps: dict = field(default_factory=dict)
    #: What is recorded of the penalties, (*shape, ...), by name.
    penalty: dict = field(default_factory=dict)


#: What a part has once for each position, also where these fill rows of cells.
_OF_POSITIONS = ("class_scores", "pattern_maps", "penalty")


class MapStore:
    """The cells of a map, filled block by block in any order.

    Of the scores under permuted labels "all" is every score in double precision, "full"
    in single precision; "max" of every permutation the largest score and of every cell
    how many permutations reach the observed one, their mean and standard deviation;
    "stream" the same and the largest cluster and TFCE score too, by way of a temporary
    file. Cells that are not run are NaN, and summaries leave them out; in the second
    null cells that are exempt from the test count in no cluster, see `Null`.
    """

    def __init__(self, positions, blocks, task):
        self._source, self._kind = positions, task.null
        self._n_permutations = len(task.labels) - 1
        self._shape = (*positions.shape, *positions.row)
        self._n_cells = math.prod(self._shape)
        run = np.concatenate([np.asarray(block) for block in blocks])
        self._run = np.sort(self._cells(run))
        #: Arrays by their key in parts, those of nulls by kind, name and theirs.
        self._arrays, self._nulls = {}, {}

    def _cells(self, block):
        """The numbers of the cells of some positions."""
        width = math.prod(self._source.row)
        return (np.asarray(block)[:, None] * width + np.arange(width)).ravel()

    @property
    def n_bytes(self):
        """What the map takes of the memory, once a part has come."""
        kept = [self._arrays, *self._nulls.values()]
        arrays = [values for each in kept for values in each.values()]
        return sum(v.nbytes for v in arrays if not isinstance(v, np.memmap))

    def add(self, block, part):
        """Take in the part of some positions, see `_run_block`."""
        cells = self._cells(block)
        for key, values in part.items():
            kind, _, name = key.partition("/")
            if kind in _OBSERVED:
                name, _, what = name.rpartition("/")  # "face / house" is a name
                kept = self._nulls.setdefault((kind, name), {})
                self._add_null(kept, cells, what, values)
                continue
            where, length = cells, self._n_cells
            if kind == "pattern_maps" and self._source.pattern_rows(block) is not None:
                where, length = self._source.pattern_rows(block)
            elif kind in _OF_POSITIONS:
                where, length = block, math.prod(self._source.shape)
            shape = length, *values.shape[1:]
            _array(self._arrays, key, shape, values.dtype)[where] = values

    def _add_null(self, kept, cells, what, values):
        """Take in what `reduce_part` kept of some cells."""
        if what == "maximum":
            largest = _array(kept, what, values.shape)
            np.fmax(largest, values, out=largest)
        elif self._kind == "stream":
            if not kept:  # the file lasts as long as the array
                shape = self._n_permutations, len(self._run)
                with tempfile.TemporaryFile(prefix="mvpa_kfda") as file:
                    kept[what] = np.memmap(file, np.float32, "w+", shape=shape)
            kept[what][:, np.searchsorted(self._run, cells)] = values
        else:
            shape = *values.shape[:-1], self._n_cells
            _array(kept, what, shape, values.dtype)[..., cells] = values

    def outcome(self):
        """The map."""
        found = {}
        for key, values in self._arrays.items():
            kind, _, name = key.partition("/")
            shape = self._source.shape if kind in _OF_POSITIONS else self._shape
            if kind != "pattern_maps" or self._source.pattern_rows(()) is None:
                values = values.reshape((*shape, *values.shape[1:]))
            if name:
                found.setdefault(kind, {})[name] = values
            else:
                found[kind] = values
        for (kind, name), kept in self._nulls.items():
            if self._kind in _TIMES_KEPT:
                what = "nulls" if kind == "nulls" else "second_nulls"
                values = kept["null"].reshape(self._n_permutations, *self._shape)
            else:
                what = "null_summaries" if kind == "nulls" else "second_summaries"
                values = self._summary(kind, name, kept)
            found.setdefault(what, {})[name] = values
        return Outcome(**found)

    def _summary(self, kind, name, kept):
        """The summary of a null; of a map with gaps along one axis, the cells run."""
        run = self._run
        shape = self._shape if len(run) == self._n_cells else run.shape
        if self._kind == "max":
            return NullSummary(
                self._n_permutations,
                kept["exceedances"][run].reshape(shape),
                kept["maximum"],
                permuted_moments=kept["permuted_moments"][:, run].reshape(2, *shape),
            )
        adjacency = self._source.adjacency
        observed = self._arrays[f"{_OBSERVED[kind]}/{name}"][run]
        return summarize_null(
            observed.reshape(shape),
            kept["null"].reshape(-1, *shape),
            with_clusters=True,
            adjacency=adjacency() if adjacency else None,
            exempt=self._source.exempt if kind == "second" else None,
        )


def _array(arrays, key, shape, dtype=np.float64):
    """One of the arrays, made if need be: NaN, or -1 of whole numbers."""
    if key not in arrays:
        empty = np.nan if np.dtype(dtype).kind == "f" else -1
        arrays[key] = np.full(shape, empty, dtype)
    return arrays[key]


# ----------------------------------------------------- what a run takes, and takes less


def check_labellings(null, shape, fewer, n_scalar, n_permutations):
    """Refuse more permutations of a map's metrics than can be kept.

    Before labels are drawn; `fewer` is what makes the map smaller.
    """
    full = 4 * n_scalar * n_permutations * math.prod(shape)
    check_memory(
        _TIMES_KEPT.get(null, 0) * full,
        f"A map of {' x '.join(map(str, shape))} positions with {n_permutations} "
        "permutations",
        _either(_smaller(null, fewer)),
    )


def check_null(null, task, positions, n_tested, n_jobs=1):
    """What to keep of the permutations' maps; what cannot be held is refused.

    "auto" becomes "full" or "stream"; "all", in double precision, is for maps that are
    never reduced. `n_tested` trials are predicted in every cell.
    """
    n_permutations, size = len(task.labels) - 1, positions.describe()
    n_cells = math.prod((*positions.shape, *positions.row))
    n_sets = 1 if task.folds is None else len(task.folds.tests)
    n_nulls = (1 + (task.second is not None)) * len(task.scalar_metrics)
    full = 4 * n_nulls * n_permutations * n_cells  # in single precision
    if null == "auto":
        null = "full" if full <= FULL_NULL_BYTES else "stream"
    what = f"A map of {size} with {n_permutations} permutations"
    less = _smaller(null, positions.fewer)
    n_workers = min(count_workers(n_jobs, here=True), len(positions.blocks()))
    if n_workers > 1:
        what += f" and {n_workers} workers"
        less.append("fewer workers (n_jobs)")
    needed = _TIMES_KEPT.get(null, 0) * full + n_workers * positions.worker_bytes
    scores = (1 + n_sets) * len(task.scalar_metrics)
    for name in task.metrics.keys() - task.scalar_metrics.keys():
        scores += math.prod(task.metrics[name].table(task.n_classes))
    needed += n_cells * (task.prediction_bytes * n_tested + 8 * scores)
    if task.keep_class_scores:
        needed += math.prod(positions.shape) * 8 * n_tested * task.n_classes
    if task.with_patterns and (rows := positions.pattern_rows(())) is not None:
        needed += 8 * (3 * task.n_classes - 1) * rows[1]
    check_memory(needed, what, _either(less))
    if null == "stream":
        folder = tempfile.gettempdir()
        free = shutil.disk_usage(folder).free
        if full > free:
            words = {"size": size, "folder": folder, "fewer": positions.fewer}
            words |= {"needed": word_bytes(full), "free": word_bytes(free)}
            raise refusal("disk", n_permutations=n_permutations, **words)
    return null


def _smaller(null, fewer):
    """What makes a map and its null smaller."""
    ways = [fewer]
    if null in _TIMES_KEPT:
        ways.append("fewer permutations")
    if null == "full":
        ways.append("null='max' instead of 'full'")
    return ways


def _either(ways):
    """Join alternatives."""
    *most, last = ways
    return f"{', '.join(most)} or {last}" if most else last


def outlook(seconds, n_bytes, positions, task, n_workers):
    """Say what a long run takes, and what would make it shorter, in one sentence."""
    less = [positions.fewer]
    if len(task.labels) > 1:
        less.append("fewer permutations")
        if task.dtype != np.float32:
            less.append("dtype='float32'")
        slow = [name for name, m in task.metrics.items() if m.needs_class_scores]
        less += [f"scoring without {quoted(slow)}"] if slow else []
    if n_workers < cpu_count():
        less.append("n_jobs=-1")
    return (
        f"This run takes about {word_seconds(seconds)} and its result "
        f"{word_bytes(n_bytes)} of memory; it takes less with {_either(less)}."
    )
