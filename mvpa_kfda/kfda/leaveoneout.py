r"""Trials left out one by one, for penalties that labels choose.

The training sets of leave-one-out are as many as trials, but each lacks one trial only,
so that one decomposition serves all of them. With the centred kernel matrix of all n
trials, :math:`U \mathrm{diag}(w) U^\top`, their residual maker for a lambda is

.. math:: R = I - \tfrac{1}{n} 11^\top
          - U\, \mathrm{diag}\frac{w}{w + \lambda}\, U^\top .

Without trial i it is the Schur complement :math:`R - R_{:i} R_{i:} / R_{ii}`, which is
zero in row and column i. With the labels' contrasts T, :math:`V = R T` and the
out-of-sample residual :math:`E_i = V_i / R_{ii}`, the training set of trial i has

.. math::

    A = T^\top V - V_i^\top E_i, \quad
    e_1 = \mathrm{tr}\, A, \quad
    e_2 = \lVert V \rVert^2 - 2 (R V)_i E_i^\top + (R^2)_{ii} \lVert E_i \rVert^2, \quad
    \varrho = \frac{\mathrm{tr} R - (R^2)_{ii} / R_{ii}}{n - 2},

by which :mod:`mvpa_kfda.kfda.automatic` chooses lambda. Its grid starts from the
largest eigenvalue of the training set, which is that of
:math:`\mathrm{diag}(w) - \tfrac{n}{n - 1} z z^\top`, :math:`z_j = \sqrt{w_j}\, U_{ij}`,
and the largest root of the secular equation [1]_.

References
----------
.. [1] Golub (1973). Some modified matrix eigenvalue problems. SIAM Review 15(2),
   318-334.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from .automatic import GRID, errors_left_out, index_of_largest, rounding_of
from .foldbases import axes_of_gram, principal_axes, squares_of
from .foldmaps import training_means
from .kernels import needs_gram

#: By how much one trial may add to the largest eigenvalue, lest digits are lost.
_MOST_LOST = 10
#: Halvings of an interval after which it is rounding.
_HALVINGS = 52
#: Bytes of what is handled at a time under all lambdas, of some trials left out.
_CACHE_BYTES = 2**20


@dataclass(frozen=True, eq=False)
class OneLeftOut:
    """All trials, in the layout's order, each of which is left out once.

    Attributes
    ----------
    layout : Layout
        The folds.
    w : ndarray, shape (r,)
        The positive eigenvalues of the trials' centred kernel, the largest first.
    U : ndarray, shape (n, r)
        Their eigenvectors.
    """

    layout: object
    w: np.ndarray
    U: np.ndarray

    @classmethod
    def of(cls, maker):
        """Return that of a `BasisMaker`; None if trials are too far from each other."""
        if needs_gram(maker.kernel):
            order = maker.layout.order
            w, U = axes_of_gram(maker.X[order[:, None], order])
        else:
            root, w, _, centred = principal_axes(maker.X[maker.layout.order])
            U = centred @ root
        found = cls(maker.layout, w, U)
        is_near = len(w) and w[0] <= _MOST_LOST * found.largest.min()
        return found if is_near else None

    @cached_property
    def largest(self):
        """The largest eigenvalue of every training set, (n,)."""
        n, w = len(self.U), self.w
        squares = np.square(self.U) * w * (n / (n - 1))
        low, high = np.full(n, w[1] if len(w) > 1 else 0.0), np.full(n, w[0])
        for _ in range(_HALVINGS):
            middle = (low + high) / 2
            with np.errstate(divide="ignore", invalid="ignore"):
                is_below = (squares / (w - middle[:, None])).sum(axis=1) < 1
            low, high = (
                np.where(is_below, middle, low),
                np.where(is_below, high, middle),
            )
        return (low + high) / 2

    @cached_property
    def beside(self):
        """What of every trial lies in no direction, (n,)."""
        n, rank = self.U.shape
        if rank == n - 1:
            return np.zeros(n)
        return np.maximum(1 - 1 / n - np.square(self.U).sum(axis=1), 0)

    @cached_property
    def _place(self):
        """Where every trial is in the layout's order."""
        return np.argsort(self.layout.order)

    def apply(self, T, targets=None):
        """Yield residuals, A and choices as `~.foldbases.apply_bases` does."""
        (batch,), n = self.layout.batches, len(self.U)
        if targets is not None:
            S = targets.folds[0].terms.scatter
        else:
            _, means = training_means(batch, T, T.sum(axis=1))
            S = squares_of(batch, T, means, n - 1)
        labels = _Labels.of(self, T)
        E, A = np.empty((len(T), n, 1, T.shape[2]), T.dtype), np.empty(S.shape, T.dtype)
        values = len(GRID) * (len(T) * T.shape[2] + len(self.w))
        step, choices = max(1, _CACHE_BYTES // (8 * values)), []
        for start in range(0, n, step):
            some = slice(start, min(start + step, n))
            tried = _Tried.of(self, some, labels)
            size = np.einsum("qqkb->kb", S[:, :, some])
            chosen = tried.choose(size, targets is not None)
            E[:, some, 0], A[:, :, some] = chosen.E, chosen.A
            if T.shape[2] == 1:
                choices.append(chosen)
        yield E, None if targets is None else A, choices

    def fitted(self, train, c):
        """Return the scores (q, n_train) of training trials, of c (q, r) explained.

        Less their mean.
        """
        scores = c @ self.U[self._place[train]].T
        return scores - scores.mean(axis=1, keepdims=True)


@dataclass(frozen=True)
class _Labels:
    """The contrasts of label vectors, in double precision."""

    #: In directions (q, r, B), and beside them (q, n, B); zeros (q, n, 1) if there is
    #: no direction beside.
    c: np.ndarray
    beside: np.ndarray

    @classmethod
    def of(cls, trials, T):
        """Return those of contrasts T (q, n, B) of all trials."""
        U, (q, n, _) = trials.U.astype(T.dtype, copy=False), T.shape
        T = T - T.mean(axis=1, keepdims=True)
        c = U.T @ T
        if U.shape[1] == n - 1:
            return cls(c.astype(float), np.zeros((q, n, 1)))
        beside = (T - U @ c).astype(float)
        size, rest = (np.square(each).sum(axis=(0, 1)) for each in (T, beside))
        return cls(c.astype(float), beside * (rest > rounding_of(T.dtype) * size))

    @cached_property
    def products(self):
        """Products (r, B) of contrasts i <= j, and their sums beside, by (i, j)."""
        c, beside, found = self.c, self.beside, {}
        for i, j in zip(*np.triu_indices(len(c)), strict=True):
            rest = np.einsum("nb,nb->b", beside[i], beside[j])
            found[i, j] = c[i] * c[j], rest
        return found


@dataclass(frozen=True, eq=False)
class _Tried:
    """Label vectors under every lambda of the grids of k training sets."""

    trials: OneLeftOut
    some: slice
    labels: _Labels
    #: The lambdas (k, L), and the shares l that they leave of directions (k, L, r).
    lambdas: np.ndarray
    left: np.ndarray
    #: R_ii and (R^2)_ii, (k, L), and the trace of R without trial i.
    own: np.ndarray
    own_squared: np.ndarray
    trace: np.ndarray

    @classmethod
    def of(cls, trials, some, labels):
        """Return those of some trials left out."""
        lambdas = trials.largest[some, None] * GRID
        left = lambdas[:, :, None] / (trials.w + lambdas[:, :, None])
        squares, beside = np.square(trials.U[some])[:, :, None], trials.beside[some]
        own = (left @ squares)[:, :, 0] + beside[:, None]
        own_squared = (np.square(left) @ squares)[:, :, 0] + beside[:, None]
        n, rank = trials.U.shape
        trace = left.sum(axis=2) + (n - 1 - rank) - own_squared / own
        return cls(trials, some, labels, lambdas, left, own, own_squared, trace)

    def choose(self, size, are_classes):
        """Return the :class:`_Chosen` of labels with sums of squares (k, B)."""
        n = len(self.trials.U)
        V = self._residuals(self.left)
        E = V / self.own[:, :, None]
        A = self._cross_products(V, E)
        sums = np.concatenate([np.einsum("qqklb->klb", A), self._squares(E)], axis=1)
        sums *= (1 / np.where(size > 0, size, 1))[:, None]
        share = self.trace[:, :, None] / (n - 2)
        errors = errors_left_out(sums, share, are_classes)
        index = index_of_largest(errors, n - 1, are_classes)
        at = index[:, None]
        E = np.take_along_axis(E, at[None], axis=2)[:, :, 0]
        A = np.take_along_axis(A, at[None, None], axis=3)[:, :, :, 0]
        return _Chosen(self, index, errors[..., 0], E, A)

    def _residuals(self, left):
        """Return R T (q, k, L, B) of the trials left out, of shares (k, L, r)."""
        rows = self.trials.U[self.some, None] * left
        return _product(rows, self.labels.c) + self.labels.beside[:, self.some, None]

    def _cross_products(self, V, E):
        """Return A (q, q, k, L, B)."""
        A = np.empty((len(V), *V.shape))
        for (i, j), (products, beside) in self.labels.products.items():
            A[i, j] = _product(self.left, products) + beside
            A[i, j] -= V[i] * E[j]
            A[j, i] = A[i, j]
        return A

    def _squares(self, E):
        """Return e_2 (k, L, B)."""
        own = [self.labels.products[i, i] for i in range(len(E))]
        products, beside = (sum(each) for each in zip(*own, strict=True))
        left = np.square(self.left)
        squares = _product(left, products) + beside
        squares += np.einsum("qklb,qklb->klb", E, E) * self.own_squared[:, :, None]
        squares -= 2 * np.einsum("qklb,qklb->klb", E, self._residuals(left))
        return squares


def _product(rows, columns):
    """Return rows (k, L, r) times columns (..., r, B), as (..., k, L, B)."""
    found = rows.reshape(-1, rows.shape[2]) @ columns
    return found.reshape(*columns.shape[:-2], *rows.shape[:2], columns.shape[-1])


@dataclass(frozen=True, eq=False)
class _Chosen:
    """What label vectors choose in k training sets."""

    tried: _Tried
    #: The number of lambda in the grid (k, B), and the first label vector's errors.
    index: np.ndarray
    errors: np.ndarray
    #: The out-of-sample residuals (q, k, B), and A (q, q, k, B).
    E: np.ndarray
    A: np.ndarray

    @cached_property
    def _first(self):
        """Where the lambdas of the first label vector are in arrays (k, L)."""
        return np.arange(len(self.index)), self.index[:, 0]

    @property
    def explained_of_first(self):
        """What is explained of c of the first label vector, (q, r) for each set."""
        tried = self.tried
        U, c = tried.trials.U[tried.some], tried.labels.c[:, :, 0]
        without = c - self.E[:, :, 0].T[:, :, None] * U[:, None]  # (k, q, r)
        return list(without * (1 - tried.left[self._first])[:, None])

    def record(self):
        """Return what the first label vector chose, lists over the training sets."""
        tried, first = self.tried, self._first
        w, n = tried.trials.w, len(tried.trials.U)
        lost = (np.square(tried.trials.U[tried.some]) * w).sum(axis=1) * n / (n - 1)
        return {
            "lambda": list(tried.lambdas[first]),
            "degrees_of_freedom": list(n - 1 - tried.trace[first]),
            "kernel": [0] * len(self.index),
            "grid": list(tried.lambdas[:, None]),
            "scale": list((w.sum() - lost)[:, None] / (n - 1)),
            "criterion": list(self.errors[:, None]),
        }
