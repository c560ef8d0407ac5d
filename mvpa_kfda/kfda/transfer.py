r"""Every fold's model applied to other data: other times, or other trials.

A model trained at time t predicts a row x by a kernel expansion. With
:math:`M = I - G_t` (:mod:`mvpa_kfda.kfda.hat`), a fold's test rows te and their
out-of-sample residuals E (:mod:`mvpa_kfda.kfda.direct`), the dual coefficients of that
fold's model are

.. math:: a = \tfrac1\lambda M \tilde T, \qquad
          \tilde T = T \text{ with } E_{te} \text{ subtracted from its test rows},

which are exactly zero at te and sum to zero, so that

.. math:: \hat t(x) = k(x, X_t)\, a - \bar k_t^\top a + \tfrac1n 1^\top \tilde T,

with the column means :math:`\bar k_t` of the training kernel. All of this is one linear
map of :math:`\tilde T`, the *expansion* L, here with the constant as its last row:
:math:`\hat t(x) = (z(x), 1)\, L \tilde T` where z(x) is the row of kernel values over
lambda, or for a linear kernel the features themselves, with
:math:`L = (X_c^\top X_c + \lambda I)^{-1} X_c^\top`. The scoring rule of the fold is
linear too, so it goes into the coefficients: one matrix product yields the class scores
of all label vectors, as differences to the first class.

The dual expansion is due to Cawley & Talbot (2003), Efficient leave-one-out
cross-validation of kernel Fisher discriminant classifiers, Pattern Recognition 36(11);
leaving out by residuals is derived in the documentation.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import islice

import numpy as np
from scipy.linalg import cho_factor, cho_solve

from .direct import Plan, Predictions
from .foldwise import FoldwisePlan
from .rules import class_rule, code_dtype


def kernel_columns(X, kernel, lam):
    """What makes columns (m, r) of test trials (m, p), and what `expand` has to know.

    Of a training position's features X (n, p): those columns of it, or its kernel
    matrix and what kernel values are divided by, lest they leave single precision.
    """
    shift = X.mean(axis=0) if kernel.shift_free else 0.0
    kernel, trained = kernel.fit(X - shift), X - shift
    if kernel.low_rank:
        return lambda Z: kernel.features(Z - shift), kernel.features(trained), None

    def values(Z):
        return kernel(Z - shift, trained)

    return lambda Z: values(Z) / lam, values(X), lam


def expand(plan, values, unit):
    """Return the expansion L of a plan.

    Parameters
    ----------
    plan : Plan
        Of the training position.
    values : ndarray, shape (n, r)
        Columns of the training trials, or their kernel matrix, not centred.
    unit : float | None
        What the kernel values of test rows are divided by; None where `values` are
        columns.

    Returns
    -------
    expansion : ndarray, shape (r + 1, n)
        To be applied to rows with a one behind, its columns in the plan's order.
    """
    hat, order = plan.exact_hat, plan.order
    values = values[order]
    n, r = values.shape
    mean = values.mean(axis=0)
    if unit is not None:
        L = hat.residuals(np.eye(n)) if hat.residual is None else hat.residual
        constant = 1 / n - mean[order] @ L / hat.lam
        # Rows are kernel values with trials as they were given.
        L = L[np.argsort(order)] * (unit / hat.lam)
    else:
        Xc = values - mean
        if r <= n:
            scatter = Xc.T @ Xc
            scatter.flat[:: r + 1] += hat.lam
            L = cho_solve(cho_factor(scatter, overwrite_a=True), Xc.T)
        else:
            L = hat.residuals(Xc).T / hat.lam
        constant = 1 / n - mean @ L
    return np.ascontiguousarray(np.vstack([L, constant]), plan.dtype)


#: Numbers in the rows of the test positions that are scored together.
_CHUNK_VALUES = 2**21


class Chunks:
    """Test rows (n, C, r + 1) of C test positions at a time, kept if memory allows.

    Behind them are ones. They have the precision of a plan.
    """

    #: Bytes of chunks that are kept for the next block of label vectors.
    MOST = 2**28

    def __init__(self, rows, shape, n_cells, plan):
        self._rows, self._dtype, self._shape = rows, plan.dtype, shape
        self._n_cells, self.n_columns = n_cells, shape[1] + 1
        # With few columns it is the predictions, hundreds to a row, that take memory.
        each = max(shape[0], len(plan.rows)) * max(self.n_columns, 64)
        self.length = min(n_cells, int(np.clip(_CHUNK_VALUES // each, 1, 128)))
        self._kept, self._bytes = {}, 0

    def __iter__(self):
        n, r = self._shape
        for start in range(0, self._n_cells, self.length):
            chunk = self._kept.get(start)
            if chunk is None:
                cells = range(start, min(start + self.length, self._n_cells))
                chunk = np.ones((n, len(cells), r + 1), self._dtype)
                chunk[:, :, :-1] = self._rows(cells).swapaxes(0, 1)
                if self._bytes + chunk.nbytes <= self.MOST:
                    self._kept[start] = chunk
                    self._bytes += chunk.nbytes
            yield chunk


#: Rows of one matrix product, and bytes of what it yields: these fit the cache.
_ROWS, _CACHE_BYTES = 256, 2**20
#: Bytes of the class scores of the test positions that are scored together.
_SCORE_BYTES = 2**21
#: Bytes that the coefficients or scores of a block of label vectors may take.
_MEMORY_BYTES = 2**26


@dataclass(frozen=True)
class Transfer:
    """The models of one training position, and the rows they are tested on.

    Attributes
    ----------
    plan : Plan | FoldwisePlan
        Of the training position; without folds (no batches) there is one model,
        trained on all trials, and the test rows are other trials.
    chunks : iterable of ndarray, shape (n_rows, C, r + 1) | callable
        The test positions, C = ``chunks.length`` at a time; the rows in the plan's
        order of trials, with ones behind. Where the rows of each fold are others,
        ``chunks(fold)``: those of its test trials.
    true : ndarray of int, shape (n_rows,) | None
        The labels to be predicted, in the order of trials; None: those trained with.
    n_rows, n_cells : int
        The numbers of test trials and of test positions.
    expansion : callable | None
        Where one hat matrix serves all folds, from a plan to L (r + 1, n).
    second : Transfer | None
        The same with another penalty, for a second test; None: with its own.
    """

    plan: Plan | FoldwisePlan
    chunks: Iterable | Callable
    true: np.ndarray | None
    n_rows: int
    n_cells: int
    expansion: Callable | None = None
    second: "Transfer | None" = None

    #: Of one training position, however many it is tested at.
    n_positions = 1

    @property
    def rows(self):
        """The trial behind every test row."""
        return self.plan.rows if self.plan.batches else np.arange(self.n_rows)

    @property
    def shapes(self):
        """The (folds, test rows, training rows) of every batch of test sets."""
        return self.plan.shapes or ((1, self.n_rows, len(self.plan.order)),)

    def block_size(self, n_classes, want_scores=False):
        """How many label vectors to process at a time, for speed and memory."""
        item = self.plan.dtype.itemsize
        if callable(self.chunks):  # all cells are predicted at once
            values = n_classes * item if want_scores else 1
            bytes_each = len(self.rows) * self.n_cells * values
            return int(np.clip(_MEMORY_BYTES // bytes_each, 1, 512))
        item *= n_classes - 1
        n_folds = sum(k for k, _, _ in self.shapes)
        fast = np.clip(_CACHE_BYTES // (_ROWS * item), 64, 512)
        values = self.chunks.n_columns * (n_folds + 2)
        if want_scores:
            values = max(values, 4 * len(self.rows) * self.chunks.length)
        return int(max(1, min(fast, _MEMORY_BYTES // (item * values))))

    def predict(self, labels, n_classes, want_scores=False):
        """Yield the predictions for labels (B, n), some test positions at a time.

        Yields
        ------
        predictions : Predictions
            ``true`` (n_test, 1, 1 or B), ``predicted`` (n_test, C, B) and
            ``class_scores`` (n_test, c, C, B) or None. Class scores are relative to
            the first class.
        """
        plan = self.plan
        targets = plan.targets(labels, n_classes)
        true = labels if self.true is None else self.true[None]
        true = true[:, self.rows].T[:, None].astype(targets.codes.dtype)
        bytes_each = len(true) * n_classes * len(labels) * plan.dtype.itemsize
        step = max(1, _SCORE_BYTES // bytes_each) if want_scores else None
        scored = partial(_scored, n_classes=n_classes, want=want_scores, step=step)
        if not callable(self.chunks):
            for parts in scored(self.chunks, list(self._classifiers(targets))):
                yield Predictions(true, *parts)
            return
        predicted, scores = [], []
        for fold, *rule in self._by_folds(targets):
            pieces = scored(self.chunks(fold), [_classifiers(slice(None), *rule)])
            of_fold, scores_of_fold = zip(*pieces, strict=True)
            predicted.append(np.concatenate(of_fold, axis=1))
            if want_scores:
                scores.append(np.concatenate(scores_of_fold, axis=2))
        scores = np.concatenate(scores) if want_scores else None
        yield Predictions(true, np.concatenate(predicted), scores)

    def fitted(self, T):
        """Yield the regressions (q, n_test, C, B) of T (q, n, B) on the test rows.

        Some test positions at a time.
        """
        plan = self.plan
        if callable(self.chunks):
            of_folds = []
            for fold, fit in plan.fits(T):
                weights = fold.weights(fit)[:, None]
                pieces = [_fitted(Z, slice(None), weights) for Z in self.chunks(fold)]
                of_folds.append(np.concatenate(pieces, axis=2))
            yield np.concatenate(of_folds, axis=1)
            return
        parts = list(self._regressions(T))
        for Z in self.chunks:
            yield np.concatenate([_fitted(Z, *part) for part in parts], axis=1)

    def _regressions(self, T):
        """Yield where the test rows of some folds are, and weights (q, k, r + 1, B)."""
        plan = self.plan
        if self.expansion is None:
            weights = (
                fold.weights(fit, plan.scores_features)[:, None]
                for fold, fit in plan.fits(T)
            )
            for batch in plan.batches:
                yield batch.take, np.concatenate([*islice(weights, batch.k)], axis=1)
            for each in weights:  # the model of all trials
                yield slice(None), each
            return
        L = self._expanded
        of_all = (L @ T)[:, None]
        if not plan.batches:
            yield slice(None), of_all
        for batch, residuals in plan.fold_residuals(T):
            tested = L[:, batch.take].reshape(-1, batch.k, batch.m)
            yield batch.take, of_all - tested.transpose(1, 0, 2) @ residuals

    def _classifiers(self, targets):
        """Yield the classifiers of every batch of folds."""
        plan = self.plan
        if self.expansion is None:
            of_folds = self._by_folds(targets, plan.scores_features)
            for batch in plan.batches:
                yield _classifiers(batch.take, batch.m, *_joined(of_folds, batch.k))
            for _, *rule in of_folds:  # the model of all trials
                yield _classifiers(slice(None), *rule)
            return
        L = self._expanded
        of_all = (L @ targets.T)[:, None]
        if not plan.batches:
            rule = class_rule(plan.fit_targets(targets)[1], targets.terms)
            yield _classifiers(slice(None), self.n_rows, of_all, *rule)
            return
        for batch, of_folds, E, A in plan.fold_models(targets):
            tested = L[:, batch.take].reshape(-1, batch.k, batch.m)
            g = of_all - tested.transpose(1, 0, 2) @ E
            yield _classifiers(batch.take, batch.m, g, *class_rule(A, of_folds.terms))

    @cached_property
    def _expanded(self):
        """The expansion L of the plan."""
        return self.expansion(self.plan)

    def _by_folds(self, targets, of_features=False):
        """Yield every fold that has a matrix of its own, and its test rows and rule.

        How many rows there are, the weights (q, 1, r + 1, B) for them, W, and b.
        """
        for fold, fit, terms in self.plan.models(targets):
            g = fold.weights(fit, of_features)[:, None]
            m = len(fold.test) if self.plan.batches else self.n_rows
            g = g.astype(self.plan.dtype, copy=False)
            yield fold, m, g, *class_rule(fit.A[:, :, None], terms)


def _classifiers(take, m, g, W, b):
    """Fold the scoring rule W (q, c, k, B), b (c, k, B) into g (q, k, r + 1, B).

    The models of k folds with m test rows each, which are at `take`: scores relative to
    the first class, the constant last, (c - 1, k, r + 1, B); the first class's score
    (k, 1, B), 0, or -inf where it is absent from training; and which of the others are
    absent, (c - 1, k, 1, B) or None.
    """
    q, k, r, n_labels = g.shape
    absent = np.isneginf(b)
    b = np.where(absent, 0, b)
    V = W[:, 1:] - W[:, :1]
    weights = np.empty((q, k, r, n_labels), g.dtype)
    term = np.empty((k, r, n_labels), g.dtype)
    for j in range(q):
        np.multiply(g[0], V[0, j][:, None], out=weights[j])
        for i in range(1, q):
            weights[j] += np.multiply(g[i], V[i, j][:, None], out=term)
        weights[j, :, -1] += b[j + 1] - b[0]
    if not absent.any():
        return take, m, weights, g.dtype.type(0), None
    first = np.where(absent[0], -np.inf, 0).astype(g.dtype)[:, None]
    return take, m, weights, first, absent[1:, :, None]


def _fitted(Z, take, weights):
    """The products (q, n_test, C, B) of rows Z (n_rows, C, r + 1) and weights."""
    q, k, r, n_labels = weights.shape
    rows = Z[take].reshape(k, -1, r)
    found = rows @ weights.astype(Z.dtype, copy=False)
    return found.reshape(q, -1, Z.shape[1], n_labels)


def _joined(of_folds, k):
    """The weights, W and b of the next k folds as those of a batch."""
    _, _, *parts = zip(*islice(of_folds, k), strict=True)
    return map(np.concatenate, parts, (1, 2, 1))


def _scored(chunks, classifiers, n_classes, want, step):
    """Yield predicted classes (n_test, C, B) and scores of some test positions.

    Of rows Z (n_rows, C, r + 1), `step` positions at a time; None: as they come.
    """
    for Z in chunks:
        length = step or Z.shape[1]
        for start in range(0, Z.shape[1], length):
            yield _score(Z[:, start : start + length], classifiers, n_classes, want)


def _score(Z, classifiers, n_classes, want_scores):
    """Predict the rows Z (n_rows, C, r + 1) of some test positions."""
    length, n_labels = Z.shape[1], classifiers[0][2].shape[3]
    n_test = sum(m * weights.shape[1] for _, m, weights, _, _ in classifiers)
    shape = (n_test, length, n_labels)
    predicted = np.empty(shape, code_dtype(n_classes))
    scores = np.empty((n_classes, *shape), Z.dtype) if want_scores else None
    start = 0
    for take, m, weights, first, missing in classifiers:
        k = weights.shape[1]
        out = slice(start, start + k * m)
        start, flat = out.stop, (k, m * length, n_labels)
        rows = Z[take].reshape(k, m * length, -1)
        best = predicted[out].reshape(flat)  # a view, as whole rows are contiguous
        if want_scores:
            views = scores[:, out].reshape(n_classes, *flat)
        for piece in _pieces(flat, n_classes, Z.itemsize):
            folds, top = piece[0], first
            D = _product(rows[piece], weights[:, folds])
            if missing is not None:
                np.copyto(D, -np.inf, where=missing[:, folds])
                top = first[folds]
            if want_scores:
                views[0][piece], views[(slice(1, None), *piece)] = top, D
            _best_classes(D, top, best[piece])
    return predicted, scores.swapaxes(0, 1) if want_scores else None


def _pieces(shape, n_classes, itemsize):
    """Cut (folds, rows, columns) into pieces whose scores fit the cache."""
    k, n_rows, n_labels = shape
    row_bytes, folds = n_labels * (n_classes - 1) * itemsize, 1
    step = n_rows if n_rows * row_bytes <= _CACHE_BYTES else min(n_rows, _ROWS)
    if step == n_rows:
        folds = max(1, _CACHE_BYTES // (step * row_bytes))
    for fold in range(0, k, folds):
        for row in range(0, n_rows, step):
            yield slice(fold, fold + folds), slice(row, row + step)


def _product(rows, weights):
    """The products (q, k, rows, B) of rows (k, rows, r) and weights (q, k, r, B)."""
    if weights.shape[3] > 1:
        return rows @ weights
    # The classes side by side: one pass over the rows.
    D = rows @ np.moveaxis(weights[..., 0], 0, -1)
    return np.moveaxis(D, -1, 0)[..., None]


def _best_classes(D, first, best):
    """Write the best class of scores D (c - 1, ...) into `best`; D is used up.

    The comparisons' truth values are one byte each, so that everything but the scores
    is arithmetic on bytes.
    """
    better = np.greater(D[0], first)
    best[:] = better
    top = D[0]
    for j in range(1, len(D)):
        np.maximum(top, D[j - 1] if j > 1 else first, out=top)
        np.greater(D[j], top, out=better)
        # A later class's number is larger than any before it.
        np.maximum(best, better.view(np.int8) * best.dtype.type(j + 1), out=best)
