r"""Leaving out one training trial at a time, inside all training sets at once.

The residual of trial i left out of a training set is :math:`(R_f)_i / (M_f)_{ii}`, see
:mod:`mvpa_kfda.tuning`, so that all it takes is the diagonal of :math:`M_f`.
"""

import numpy as np

from .._direct.fold_models import SINGULAR, invert_cores

#: Numbers in an array over folds and trials that is handled at a time.
_PIECE = 2**20


def left_out_weights(hat, tests, solver):
    """Return 1 / (M_f)_ii of every trial in every training set.

    Parameters
    ----------
    hat : Hat
        Of all trials.
    tests : ndarray of int, shape (k, m)
        The outer test rows.
    solver : DenseInverse | LowRankInverse
        Of the outer test rows.

    Returns
    -------
    weights : ndarray, shape (k, n)
        Zero for test rows.
    stable : ndarray of bool, shape (k,)
        Whether no training trial is fitted exactly when it is left out.
    """
    k, n = len(tests), hat.n
    weights = np.empty((k, n))
    for folds in _pieces(k, n * max(tests.shape[1], 1)):
        if hat.residual is None:
            weights[folds] = _low_rank_diagonal(hat.factor, tests[folds], solver, folds)
        else:
            cross = hat.residual[tests[folds]].transpose(0, 2, 1)  # (k, n, m)
            fitted = np.einsum("knm,knm->kn", cross @ solver.matrix[folds], cross)
            weights[folds] = np.diag(hat.residual) - fitted
    np.put_along_axis(weights, tests, 1.0, axis=1)
    stable = (weights > SINGULAR).all(axis=1)
    with np.errstate(divide="ignore"):
        np.divide(1, weights, out=weights)
    np.put_along_axis(weights, tests, 0.0, axis=1)
    return weights, stable


def _low_rank_diagonal(U, tests, solver, folds):
    """Return the diagonals (k, n) of M_f = I - U (I - U_te' U_te)^-1 U'."""
    cores = getattr(solver, "core", None)
    if cores is None:
        cores, ok = invert_cores(U[tests])
        cores[~ok] = 0  # safe to use; the fold is known not to be stable
    else:
        cores = cores[folds]
    diagonals = np.empty((len(cores), len(U)))
    for rows in _pieces(len(U), U.shape[1]):
        some = U[rows]
        for core, diagonal in zip(cores, diagonals, strict=True):
            diagonal[rows] = 1 - np.einsum("nr,nr->n", some @ core, some)
    return diagonals


def squared_errors(hat, tests, R, E, weights):
    """Return the mean squared left-out residuals within every training set, (k, B).

    Parameters
    ----------
    hat : Hat
        Of all trials.
    tests : ndarray of int, shape (k, m)
        The outer test rows.
    R : ndarray, shape (q, n, B)
        In-sample residuals.
    E : ndarray, shape (q, k, m, B)
        Out-of-sample residuals of the outer test rows.
    weights : ndarray, shape (k, n)
        From :func:`left_out_weights`.
    """
    k, m = tests.shape
    found = np.empty((k, R.shape[2]), R.dtype)
    for folds in _pieces(k, R.size):
        within = R[:, None] - hat.spread(tests[folds], E[:, folds])
        within *= weights[folds, :, None]
        np.einsum("qknb,qknb->kb", within, within, out=found[folds])
    return found / (R.shape[1] - m)


def _pieces(n, size_each):
    """Cut n items into slices of about equally many numbers."""
    step = max(1, _PIECE // max(1, size_each))
    return [slice(i, min(i + step, n)) for i in range(0, n, step)]
