"""The candidates among which a penalty is chosen, and the best of them so far.

See :mod:`mvpa_kfda.tuning` for how a training set's own hat matrix follows from that of
all trials.
"""

from dataclasses import dataclass

import numpy as np

from .._direct.fold_models import DenseInverse, invert_cores, invert_folds, invertible
from ..direct import Plan
from ..hat import invert_blocks
from .left_out import left_out_weights

#: A candidate is better only by more than rounding: a share of the best so far.
_BETTER = {"float64": 1e-9, "float32": 1e-4}


@dataclass(frozen=True)
class Candidate:
    """A kernel and a lambda, prepared.

    Attributes
    ----------
    plan : Plan
        For the outer folds.
    inner : list of list of Plan
        For the folds within each outer training set, by batches; None if unstable.
        None where one trial at a time is left out.
    weights, stable : list of ndarray, shape (k, n) and (k,)
        For leaving out one trial at a time, by batches, see
        :func:`mvpa_kfda._tuning.left_out.left_out_weights`; empty if that is not
        wanted.
    """

    plan: Plan
    inner: list
    weights: list
    stable: list


def prepare_candidate(hat, inner, dtype, rank, left_out=False):
    """Factor what a hat's candidate needs for the folds and those within them.

    Parameters
    ----------
    hat : Hat
        With its trials in the layout's order.
    inner : InnerFolds
        The folds, and those within their training sets.
    dtype : dtype
        The precision in which labels are processed.
    rank : int | None
        How many discriminants to use.
    left_out : bool
        Whether only squared residuals of trials left out by themselves are wanted.

    Returns
    -------
    candidate : Candidate
        The prepared candidate.
    """
    solvers, plans, weights, stable = [], [], [], []
    for i, batch in enumerate(inner.layout.batches):
        (found,), (ok,) = invert_folds([hat], batch)
        found.clear(~ok)
        solvers.append(found.astype(dtype))
        if left_out:
            values, fine = left_out_weights(hat, inner.tests[i], found)
            weights.append(values.astype(dtype, copy=False))
            stable.append(fine & ok)
            continue
        within = [None] * batch.k
        for fold in np.flatnonzero(ok):
            te, each = inner.tests[i][fold], inner.of_folds[i][fold]
            within[fold] = inner_plan(hat, te, found.of([fold]), each, dtype, rank)
        plans.append(within)
    plan = Plan(hat.astype(dtype), inner.layout, tuple(solvers), rank)
    return Candidate(plan, plans, weights, stable)


def inner_plan(hat, te, solver, layout, dtype, rank):
    """Return the plan of the folds within a training set; None if it is unstable."""
    inverses = []
    for batch in layout.batches:
        blocks = _inner_blocks(hat, te, solver, batch.take.reshape(-1, batch.m))
        inverse = invert_blocks(blocks[None])
        if not invertible(inverse).all():
            return None
        inverses.append(DenseInverse(inverse[0]).astype(dtype))
    return Plan(None, layout, tuple(inverses), rank)


def _inner_blocks(hat, te, solver, index):
    """Return blocks (k, m, m) of the residual maker of a training set.

    Parameters
    ----------
    hat : Hat
        Of all trials.
    te : ndarray of int, shape (n_te,) | None
        The outer test rows; None: all trials are trained with.
    solver : DenseInverse | LowRankInverse | None
        Of the outer test rows, with k = 1.
    index : ndarray of int, shape (k, m)
        The inner test rows.
    """
    if te is None:
        return hat.residual_blocks(index)
    if hat.residual is None:  # G_f = U (I - U_te' U_te)^-1 U'
        U = hat.factor[index.ravel()]
        core = getattr(solver, "core", None)
        if core is None:
            core, _ = invert_cores(hat.factor[te][None])
        return np.eye(index.shape[1]) - _products(U @ core[0], U, index.shape)
    cross = hat.cross(index.ravel(), te)
    blocks = hat.residual_blocks(index)
    return blocks - _products(cross @ solver.matrix[0], cross, index.shape)


def _products(left, right, shape):
    """Return left right' within blocks of rows, (k * m, r) twice to (k, m, m)."""
    k, m = shape
    if m == 1:
        return np.einsum("kr,kr->k", left, right)[:, None, None]
    return left.reshape(k, m, -1) @ right.reshape(k, m, -1).transpose(0, 2, 1)


@dataclass(frozen=True)
class Chosen:
    """The best candidate for every model of k folds, found one after the other.

    Attributes
    ----------
    E : ndarray, shape (q, k, m, B)
        The test rows' out-of-sample residuals.
    A : ndarray, shape (q, q, k, B) | None
        The training cross-products.
    best : ndarray, shape (k, B)
        The smallest criterion.
    choice : ndarray of int, shape (k, B)
        The candidate's number; -1 for none yet.
    criteria : ndarray, shape (candidates, k)
        Of the first label vector; NaN where skipped.
    """

    E: np.ndarray
    A: np.ndarray | None
    best: np.ndarray
    choice: np.ndarray
    criteria: np.ndarray

    def offer(self, number, criterion, E, A):
        """Take a candidate where its criterion (k, B) is better; NaN is never."""
        self.criteria[number] = criterion[:, 0]
        margin = _BETTER[self.best.dtype.name]
        better = criterion < self.best * (1 - margin)
        np.copyto(self.best, criterion, where=better)
        np.copyto(self.choice, number, where=better)
        np.copyto(self.E, E, where=better[:, None])
        if A is not None:
            np.copyto(self.A, A, where=better)


def nothing_chosen(T, k, m, n_candidates, with_A):
    """Return a :class:`Chosen` of k folds with m test rows to which none is offered."""
    q, _, n_labels = T.shape
    return Chosen(
        np.zeros((q, k, m, n_labels), T.dtype),
        np.zeros((q, q, k, n_labels), T.dtype) if with_A else None,
        np.full((k, n_labels), np.inf, T.dtype),
        np.full((k, n_labels), -1),
        np.full((n_candidates, k), np.nan),
    )
