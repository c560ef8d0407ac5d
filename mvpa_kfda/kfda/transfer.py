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
from copy import copy
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from scipy.linalg import cho_factor, cho_solve

from .direct import Plan, Predictions, make_targets
from .kernels import kernels_of
from .rules import class_rule, code_dtype
from .tuning import TunedPlan


def feature_expansion(X, hat):
    """Return L (p + 1, n) of a linear kernel, for test rows that are features.

    Parameters
    ----------
    X : ndarray, shape (n, p)
        The training position's features.
    hat : Hat
        Their hat.

    Returns
    -------
    expansion : ndarray, shape (p + 1, n)
        To be applied to rows (x, 1).
    """
    n, p = X.shape
    mean = X.mean(axis=0)
    Xc = X - mean
    if p <= n:
        scatter = Xc.T @ Xc
        scatter.flat[:: p + 1] += hat.lam
        weights = cho_solve(cho_factor(scatter, overwrite_a=True), Xc.T)
    else:
        weights = hat.residuals(Xc).T / hat.lam
    return np.vstack([weights, 1 / n - mean @ weights])


def kernel_expansion(K, hat):
    """Return L (n + 1, n) for test rows that are kernel values over lambda.

    Parameters
    ----------
    K : ndarray, shape (n, n)
        The training position's kernel matrix, not centred.
    hat : Hat
        Its hat.

    Returns
    -------
    expansion : ndarray, shape (n + 1, n)
        To be applied to rows (k(x, X) / lambda, 1).
    """
    n = len(K)
    residual = hat.residuals(np.eye(n)) if hat.residual is None else hat.residual
    return np.vstack([residual, 1 / n - K.mean(axis=0) @ residual / hat.lam])


class Expansions:
    """A training position's expansion for each candidate penalty, kept once made.

    And what makes the rows that they are applied to.
    """

    def __init__(self, plan, values, functions, are_features):
        # Kernel matrices (n, n) or features (n, r) of the training trials, one for each
        # kernel to choose from. Test rows have the columns of all, side by side.
        self._plan, self._values, self._functions = plan, values, functions
        self._are_features = are_features
        self._kept, self._tuned = {}, isinstance(plan, TunedPlan)
        # Kernel values are divided by lambda, or about the size of those of a kernel:
        # in a small unit they would leave the range of single precision.
        self._units = [1.0] * len(values)
        if self._tuned and not are_features:
            scales = [spectrum.moments.scale for spectrum in plan.spectra]
            self._units = [2.0 ** np.frexp(scale)[1] for scale in scales]
        elif not are_features:
            self._units = [plan.hat.lam]
        self.n_columns = sum(each.shape[1] for each in values)

    @classmethod
    def of_features(cls, plan, X):
        """Return those of a linear kernel, for rows that are features as X (n, p)."""
        return cls(plan, [X], [np.asarray], True)

    @classmethod
    def of_kernel(cls, plan, X, kernel):
        """Return those of any kernel, or choice of kernels, fitted on X (n, p)."""
        shift = X.mean(axis=0) if kernel.shift_free else 0.0
        X = X - shift
        kernels = [each.fit(X) for each in kernels_of(kernel)]
        if kernel.low_rank:
            functions = [each.features for each in kernels]
        else:
            functions = [partial(each, Y=X) for each in kernels]
        values = [each(X) for each in functions]
        shifted = [_Shifted(each, shift) for each in functions]
        return cls(plan, values, shifted, kernel.low_rank)

    def by(self, plan):
        """Return those of a plan with another penalty, for the same test rows."""
        other = copy(self)
        other._plan, other._kept = plan, {}
        return other

    def rows(self, X):
        """Return the rows (n, n_columns) of test trials X (n, p)."""
        maps = zip(self._functions, self._units, strict=True)
        return np.concatenate([each(X) / unit for each, unit in maps], axis=1)

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
            rows, mine = feature_expansion(values[order], hat), None
        else:
            gram = values[order[:, None], order]
            rows = kernel_expansion(gram, hat)
            rows[:-1] *= self._units[kernel] / hat.lam
            mine = order
        whole = np.zeros((self.n_columns + 1, len(order)))
        start = sum(each.shape[1] for each in self._values[:kernel])
        at = np.arange(values.shape[1]) if mine is None else mine
        whole[start + at] = rows[:-1]
        whole[-1] = rows[-1]
        return whole


@dataclass(frozen=True)
class _Shifted:
    """A map of features that are shifted first."""

    function: Callable
    shift: np.ndarray | float

    def __call__(self, X):
        return self.function(X - self.shift)


#: Numbers in the rows of the test positions that are scored together.
_CHUNK_VALUES = 2**21


def chunk_length(n_rows, n_columns):
    """Return how many test positions, n_rows x n_columns each, to hold in one array."""
    # With few columns it is the predictions, hundreds to a row, that take memory.
    return int(np.clip(_CHUNK_VALUES // (n_rows * max(n_columns, 64)), 1, 128))


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
    plan : Plan
        Of the training position; without folds (no batches) there is one model,
        trained on all trials, and the test rows are other trials.
    expansions : callable
        ``expansions(number) -> (r + 1, n)``: L of a candidate where the penalty is
        tuned, else for number None; its columns in the plan's order.
    chunks : iterable of ndarray, shape (n_rows, C, r + 1)
        The test positions, C = ``chunks.length`` at a time; the rows in the plan's
        order of trials, with ones behind.
    true : ndarray of int, shape (n_rows,) | None
        The labels to be predicted, in the order of the chunks' rows; None: those
        trained with.
    n_rows : int
        The number of test trials.
    second : Transfer | None
        The same with another penalty, for a second test; None: with its own.
    """

    plan: Plan | TunedPlan
    expansions: Callable
    chunks: Iterable
    true: np.ndarray | None
    n_rows: int
    second: "Transfer | None" = None

    #: Of one training position, however many it is tested at.
    n_positions = 1

    def split(self):
        """Return the models of its positions one by one: itself."""
        return [self]

    def by(self, plan):
        """Return the same models with the penalty of another plan."""
        return replace(self, plan=plan, expansions=self.expansions.by(plan))

    @property
    def rows(self):
        """The trial behind every test row."""
        return self.plan.rows if self.plan.batches else np.arange(self.n_rows)

    @property
    def shapes(self):
        """The (folds, test rows, training rows) of every batch of test sets."""
        return self.plan.shapes or ((1, self.n_rows, len(self.plan.order)),)

    def block_size(self, n_classes, want_scores=False):
        """Return how many label vectors to process at a time, for speed and memory."""
        item = self.plan.dtype.itemsize * (n_classes - 1)
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
        targets = make_targets(
            labels, n_classes, plan.layout, plan.dtype, rank=plan.rank
        )
        classifiers = list(self._classifiers(targets))
        if self.true is not None:
            true = self.true[plan.order] if plan.batches else self.true
            true = np.concatenate([true[c.take] for c in classifiers])[:, None, None]
        else:
            codes = [targets.codes[c.take] for c in classifiers]
            true = np.concatenate(codes)[:, None, :]
        step = self.chunks.length
        if want_scores:
            bytes_each = len(true) * n_classes * len(labels) * plan.dtype.itemsize
            step = int(np.clip(_SCORE_BYTES // bytes_each, 1, step))
        for Z in self.chunks:
            for start in range(0, Z.shape[1], step):
                part = Z[:, start : start + step]
                yield _score(part, classifiers, true, n_classes, want_scores)

    def _classifiers(self, targets):
        """Yield the classifiers of every batch of folds."""
        shared = {}
        if not self.plan.batches:
            A, choice = self.plan.all_models(targets)
            g = self.coefficients(targets.T, shared, choice)
            W, b = class_rule(A, targets.terms)
            yield _classifiers(slice(None), self.n_rows, g, W, b)
            return
        for model in self.plan.fold_models(targets):
            g = self.coefficients(targets.T, shared, model.choice, model)
            W, b = class_rule(model.A, model.targets.terms)
            yield _classifiers(model.batch.take, model.batch.m, g, W, b)

    def coefficients(self, T, shared, choice, model=None):
        """Return the coefficients (q, k, r + 1, B) of models of T (q, n, B).

        `shared` holds what batches of folds have in common. The models are those of all
        trials without `model`. `choice` (k, B) says which candidate each is of.
        """
        if choice is None:
            if None not in shared:
                shared[None] = self.expansions(None) @ T
            return self._without_tests(shared[None], None, model)
        g = None
        for number in np.unique(choice):
            mine = choice == number  # (k, B)
            columns = mine.any(axis=0)
            key = number, columns.tobytes()
            if key not in shared:
                shared[key] = self.expansions(number) @ T[:, :, columns]
            part = self._without_tests(shared[key], number, model, columns)
            if g is None:
                g = np.empty((*part.shape[:3], len(columns)), part.dtype)
            taken = mine[:, None, columns]  # (k, 1, some of B)
            g[..., columns] = np.where(taken, part, g[..., columns])
        return g

    def _without_tests(self, base, number, model, columns=slice(None)):
        """Take the test rows' part out of coefficients (q, r + 1, some of B)."""
        if model is None:
            return base[:, None]
        batch, residuals = model.batch, model.residuals[..., columns]
        tested = self.expansions(number)[:, batch.take].reshape(-1, batch.k, batch.m)
        return base[:, None] - tested.transpose(1, 0, 2) @ residuals


@dataclass(frozen=True)
class _Classifiers:
    """The models of k folds with m test rows: class scores as linear functions."""

    #: Their test rows, and how many there are in each fold.
    take: slice | np.ndarray
    m: int
    #: Scores relative to the first class, the constant last, (c - 1, k, r + 1, B).
    weights: np.ndarray
    #: The first class's score (k, 1, B): 0, or -inf where it is absent from training.
    first: np.ndarray | float
    #: Which of the other classes are absent from training, (c - 1, k, 1, B).
    missing: np.ndarray | None


def _classifiers(take, m, g, W, b):
    """Fold the scoring rule W (q, c, k, B), b (c, k, B) into g (q, k, r + 1, B)."""
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
        return _Classifiers(take, m, weights, g.dtype.type(0), None)
    first = np.where(absent[0], -np.inf, 0).astype(g.dtype)[:, None]
    return _Classifiers(take, m, weights, first, absent[1:, :, None])


def _score(Z, classifiers, true, n_classes, want_scores):
    """Predict the rows Z (n_rows, C, r + 1) of some test positions."""
    n_test, length = len(true), Z.shape[1]
    n_labels = classifiers[0].weights.shape[3]
    shape = (n_test, length, n_labels)
    predicted = np.empty(shape, code_dtype(n_classes))
    scores = np.empty((n_classes, *shape), Z.dtype) if want_scores else None
    start = 0
    for folds in classifiers:
        k = folds.weights.shape[1]
        out = slice(start, start + k * folds.m)
        start = out.stop
        flat = (k, folds.m * length, n_labels)
        rows = Z[folds.take].reshape(k, folds.m * length, -1)
        best = predicted[out].reshape(flat)  # a view, as whole rows are contiguous
        views = None if scores is None else [s[out].reshape(flat) for s in scores]
        for piece in _pieces(flat, n_classes, Z.itemsize):
            D, first = _product(rows, folds, piece)
            if views is not None:
                views[0][piece] = first
                for j, score in enumerate(D):
                    views[j + 1][piece] = score
            _best_classes(D, first, best[piece])
    if scores is not None:
        scores = scores.swapaxes(0, 1)
    return Predictions(true, predicted, scores)


def _pieces(shape, n_classes, itemsize):
    """Cut (folds, rows, columns) into pieces whose scores fit the cache."""
    k, n_rows, n_labels = shape
    step = n_rows
    if n_rows * n_labels * (n_classes - 1) * itemsize > _CACHE_BYTES:
        step = min(n_rows, _ROWS)
    folds = max(1, _CACHE_BYTES // (step * n_labels * (n_classes - 1) * itemsize))
    for fold in range(0, k, folds if step == n_rows else 1):
        for row in range(0, n_rows, step):
            stop = fold + (folds if step == n_rows else 1)
            yield slice(fold, stop), slice(row, row + step)


def _product(rows, classifiers, piece):
    """Return scores (c - 1, k, rows, B) relative to the first class, and its own."""
    folds = piece[0]
    rows, weights = rows[piece], classifiers.weights[:, folds]
    if weights.shape[3] == 1:  # the classes side by side: one pass over the rows
        D = np.moveaxis(rows @ np.moveaxis(weights[..., 0], 0, -1), -1, 0)[..., None]
    else:
        D = rows @ weights
    if classifiers.missing is None:
        return D, classifiers.first
    np.copyto(D, -np.inf, where=classifiers.missing[:, folds])
    return D, classifiers.first[folds]


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
