"""What a penalty is chosen by: how well left-out training trials are predicted.

Candidates are judged by the squared error of training trials that are left out, within
one training set at a time (:func:`error_within`), but of trials left out one at a time
in all training sets at once (:func:`squared_errors`). The residual of trial i left out
of a training set is :math:`(R_f)_i / (M_f)_{ii}`, see :mod:`mvpa_kfda.kfda.tuning`, so
that all this takes is the diagonal of :math:`M_f`. Generalized cross-validation takes
its trace alone (:class:`TrainingSquares`).
"""

from dataclasses import dataclass

import numpy as np

from .direct import SINGULAR, LowRankInverse
from .rules import usable

#: Numbers in an array over folds and trials that is handled at a time.
_PIECE = 2**20


def left_out_weights(hat, tests, solver):
    """Return 1 / (M_f)_ii (k, n) of all trials, 0 for the outer test rows (k, m).

    And whether no training trial is fitted exactly when it is left out, (k,). The
    solver is that of the test rows.
    """
    k, n = len(tests), hat.n
    weights = np.empty((k, n))
    for folds in _slices(k, n * max(tests.shape[1], 1)):
        inverse = solver.of(folds)
        if hat.residual is None:
            weights[folds] = _low_rank_diagonal(hat.factor, tests[folds], inverse)
        else:
            cross = hat.residual[tests[folds]].transpose(0, 2, 1)  # (k, n, m)
            fitted = np.einsum("knm,knm->kn", cross @ inverse.matrix, cross)
            weights[folds] = np.diag(hat.residual) - fitted
    np.put_along_axis(weights, tests, 1.0, axis=1)
    stable = (weights > SINGULAR).all(axis=1)
    with np.errstate(divide="ignore"):
        np.divide(1, weights, out=weights)
    np.put_along_axis(weights, tests, 0.0, axis=1)
    return weights, stable


def _low_rank_diagonal(U, tests, solver):
    """Return the diagonals (k, n) of M_f = I - U (I - U_te' U_te)^-1 U'."""
    cores, ok = solver.cores(U, tests)
    # Safe to use; the fold is known not to be stable.
    cores = np.where(ok[:, None, None], cores, 0)
    diagonals = np.empty((len(cores), len(U)))
    for rows in _slices(len(U), U.shape[1]):
        block = U[rows]
        for core, diagonal in zip(cores, diagonals, strict=True):
            diagonal[rows] = 1 - np.einsum("nr,nr->n", block @ core, block)
    return diagonals


def squared_errors(hat, tests, R, E, weights):
    """Return the mean squared left-out residuals within every training set, (k, B).

    Of outer test rows (k, m), in-sample residuals R (q, n, B) of all trials,
    out-of-sample residuals E (q, k, m, B) of the test rows, and `left_out_weights`.
    """
    k, m = tests.shape
    errors = np.empty((k, R.shape[2]), R.dtype)
    for folds in _slices(k, R.size):
        within = R[:, None] - hat.spread(tests[folds], E[:, folds])
        within *= weights[folds, :, None]
        np.einsum("qknb,qknb->kb", within, within, out=errors[folds])
    return errors / (R.shape[1] - m)


@dataclass(frozen=True)
class TrainingSquares:
    r"""What generalized cross-validation needs of every training set.

    With M = I - G, the residuals :math:`R = MT` of all trials and E of the test rows,
    the squared residuals of a training set, and the trace of its residual maker, are

    .. math::

        \lVert R \rVert^2 - 2\, E^\top (MR)_{te} + E^\top (M^2)_{te,te} E, \qquad
        \mathrm{tr}\, M - \mathrm{tr}\, M_{te,te}^{-1} (M^2)_{te,te} .
    """

    #: Of the test rows of k folds: the blocks of M^2 (k, m, m), or where they are not
    #: formed U_te (k, m, r) and B (r, r) of M^2 = I - U B U'.
    blocks: np.ndarray | None
    rows: np.ndarray | None
    inner: np.ndarray | None
    #: The traces (k,), as shares of the training trials, and how many these are.
    traces: np.ndarray
    n: int

    @classmethod
    def of(cls, hat, tests, inverse):
        """Return those of a hat, for test rows (k, m) and their inverse."""
        trace, U = hat.n - hat.degrees_of_freedom, hat.factor
        n = hat.n - tests.shape[1]
        if U is None:
            maker = hat.residual[tests]
            blocks = maker @ maker.transpose(0, 2, 1)
        else:
            inner, rows = 2 * np.eye(U.shape[1]) - U.T @ U, U[tests]
            if isinstance(inverse, LowRankInverse):
                own = rows.transpose(0, 2, 1) @ rows
                lost = (inverse.core - inner - inverse.core @ own @ inner) * own
                traces = trace - tests.shape[1] - lost.sum(axis=(1, 2))
                return cls(None, rows, inner, traces / n, n)
            blocks = np.eye(tests.shape[1]) - rows @ inner @ rows.transpose(0, 2, 1)
        traces = trace - np.einsum("kij,kji->k", inverse.matrix, blocks)
        return cls(blocks, None, None, traces / n, n)

    def errors(self, R, MR, E):
        """Return the estimated errors (k, B), of R (q, n, B), MR and E (q, k, m, B)."""
        squares = np.einsum("qnb,qnb->b", R, R) - 2 * np.einsum("qkmb,qkmb->kb", E, MR)
        if self.blocks is not None:
            squares += np.einsum("qkmb,qkmb->kb", E, self.blocks.astype(E.dtype) @ E)
        else:
            Z = self.rows.transpose(0, 2, 1).astype(E.dtype) @ E
            lost = np.einsum("qkrb,qkrb->kb", Z, self.inner.astype(E.dtype) @ Z)
            squares += np.einsum("qkmb,qkmb->kb", E, E) - lost
        traces = self.traces[:, None].astype(E.dtype)
        return np.maximum(squares, 0) / self.n / np.square(traces)


def _slices(n, size_each):
    """Cut n items into slices of about equally many numbers."""
    step = max(1, _PIECE // max(1, size_each))
    return [slice(i, min(i + step, n)) for i in range(0, n, step)]


def error_within(plan, R):
    """Return the mean squared error (B,) of trials left out within a training set.

    Of the plan of the folds within it, and the residuals R (q, n, B) of its model.
    """
    total = 0.0
    for number, batch in enumerate(plan.batches):
        E = plan.solve(number, batch.of(R))
        total = total + np.einsum("qkmb,qkmb->b", E, E)
    return total / sum(batch.k * batch.m for batch in plan.batches)


def of_usable(values, A, terms):
    """Return criteria (k, B), NaN for models that cannot tell the classes apart.

    Of training cross-products A and the rule's terms; None where there are no classes.
    """
    return values if terms is None else np.where(usable(A, terms), values, np.nan)
