"""The candidates among which a penalty is chosen, and the best of them so far.

See :mod:`mvpa_kfda.tuning` for how a training set's own hat matrix follows from that of
all trials.
"""

from dataclasses import dataclass

import numpy as np

from .._direct.fold_models import (
    DenseInverse,
    LowRankInverse,
    invert_cores,
    invert_folds,
    invertible,
    is_low_rank,
)
from ..direct import Plan
from ..hat import Hat, invert_blocks
from .inner_folds import InnerFolds
from .left_out import left_out_weights

#: A candidate is better only by more than rounding: a share of the best so far.
_BETTER = {"float64": 1e-9, "float32": 1e-6}


@dataclass(frozen=True)
class Candidate:
    """A kernel and a lambda, prepared.

    Attributes
    ----------
    hat : Hat
        In double precision.
    solvers : list of DenseInverse | LowRankInverse
        (I - G_te,te)^-1 of the outer folds by batches, in double precision.
    usable : list of ndarray of bool, shape (k,)
        Which of them mean something.
    plan : Plan
        For the outer folds, in the computing precision.
    inner : InnerFolds
        The folds, and those within their training sets.
    weights, stable : list of ndarray, shape (k, n) and (k,)
        For leaving out one trial at a time, by batches, see
        :func:`mvpa_kfda._tuning.left_out.left_out_weights`; empty if that is not
        wanted.
    kept : dict | None
        The plans within training sets that were asked for; None: none is kept.
    """

    hat: Hat
    solvers: list
    usable: list
    plan: Plan
    inner: InnerFolds
    weights: list
    stable: list
    kept: dict | None

    def within(self, i, fold):
        """Return the plan of the folds within the training set of a fold of batch i.

        None if it is unstable.
        """
        if not self.usable[i][fold]:
            return None
        if self.kept is not None and (i, fold) in self.kept:
            return self.kept[i, fold]
        te, layout = self.inner.tests[i][fold], self.inner.of_folds[i][fold]
        solver, plan = self.solvers[i].of([fold]), self.plan
        found = inner_plan(self.hat, te, solver, layout, plan.dtype, plan.rank)
        if self.kept is not None:
            self.kept[i, fold] = found
        return found


def prepare_candidate(hat, inner, dtype, rank, left_out=False, keep=True):
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
    keep : bool
        Whether to keep what is made for the folds within training sets.

    Returns
    -------
    candidate : Candidate
        The prepared candidate.
    """
    solvers, usable, weights, stable = [], [], [], []
    for i, batch in enumerate(inner.layout.batches):
        (found,), (ok,) = invert_folds([hat], batch)
        found.clear(~ok)
        solvers.append(found)
        usable.append(ok)
        if left_out:
            values, fine = left_out_weights(hat, inner.tests[i], found)
            weights.append(values.astype(dtype, copy=False))
            stable.append(fine & ok)
    some = tuple(each.astype(dtype) for each in solvers)
    plan = Plan(hat.astype(dtype), inner.layout, some, rank)
    kept = {} if keep else None
    return Candidate(hat, solvers, usable, plan, inner, weights, stable, kept)


def count_bytes(hat, inner, dtype, left_out):
    """Return how many bytes a candidate takes with all that it keeps."""
    layout, size = inner.layout, dtype.itemsize
    # Of single precision there is a copy beside the double one.
    sizes = 8 if size == 8 else 8 + size
    rank = None if hat.residual is not None else hat.factor.shape[1]
    total = hat.n * (rank or hat.n) * sizes
    total += _count_values(hat, layout.batches) * sizes
    if left_out:
        return total + size * hat.n * sum(batch.k for batch in layout.batches)
    within = (each.batches for some in inner.of_folds for each in some)
    return total + size * sum(_count_values(hat, batches) for batches in within)


def _count_values(hat, batches):
    """Return how many numbers the inverses of folds are."""
    total = 0
    for k, m in ((batch.k, batch.m) for batch in batches):
        r = hat.factor.shape[1] if is_low_rank(hat, m) else None
        total += k * m * m if r is None else k * (m + r) * r
    return total


def inner_plan(hat, te, solver, layout, dtype, rank):
    """Return the plan of the folds within a training set; None if it is unstable.

    Parameters
    ----------
    hat : Hat
        Of all trials.
    te : ndarray of int, shape (n_te,) | None
        The outer test rows; None: all trials are trained with.
    solver : DenseInverse | LowRankInverse | None
        Of the outer test rows, with k = 1.
    layout : Layout
        Of the folds within the training set.
    dtype : dtype
        The precision in which labels are processed.
    rank : int | None
        How many discriminants to use.
    """
    inverses = []
    for batch in layout.batches:
        index = batch.take.reshape(batch.k, batch.m)
        if is_low_rank(hat, batch.m):
            inverse, ok = _invert_low_rank(hat, te, index)
        else:
            (blocks,) = invert_blocks(_inner_blocks(hat, te, solver, index)[None])
            inverse, ok = DenseInverse(blocks), invertible(blocks)
        if not ok.all():
            return None
        inverses.append(inverse.astype(dtype))
    return Plan(None, layout, tuple(inverses), rank)


def _invert_low_rank(hat, te, index):
    """Return the inverses of a training set's blocks, and which are in order.

    With G_f = U C U', C = (I - U_te' U_te)^-1, the inverse of I - U_I C U_I' is
    I + U_I (C^-1 - U_I' U_I)^-1 U_I'.
    """
    U = hat.factor[index]
    blocks = np.eye(U.shape[2]) - U.transpose(0, 2, 1) @ U
    if te is not None:
        blocks -= hat.factor[te].T @ hat.factor[te]
    (cores,) = invert_blocks(blocks[None])
    return LowRankInverse(U, cores), invertible(cores)


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
        """Take a candidate where its criterion (k, B) is better; NaN never is."""
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
