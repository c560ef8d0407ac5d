r"""The models of all folds, from the residuals of one regression.

What a fold's model is for the scoring rule are the out-of-sample residuals of its test
rows and its training cross-product (:mod:`mvpa_kfda.direct`). Both follow from the
in-sample residuals of all rows and :math:`(I - G_{te,te})^{-1}`.
"""

from dataclasses import dataclass

import numpy as np

from ..folds import FoldBatch
from ..hat import invert_blocks
from .targets import FoldTargets

#: The smallest eigenvalue of I - G_te,te that double precision still resolves well.
SINGULAR = 1e-10
#: Test rows from which the blocks of a low-rank hat are not formed.
_LARGE_FOLD = 256


@dataclass(frozen=True)
class Regression:
    """The regression of B label vectors on all trials, in the plan's order.

    Attributes
    ----------
    R : ndarray, shape (q, n, B)
        In-sample residuals of the q = c - 1 contrasts.
    A : ndarray, shape (q, q, 1, B)
        T'R over all trials.
    """

    R: np.ndarray
    A: np.ndarray


@dataclass(frozen=True)
class FoldModels:
    """The models of one batch of k folds with m test rows, for B label vectors.

    Attributes
    ----------
    batch : FoldBatch
        The folds.
    targets : FoldTargets
        The label vectors of these folds.
    residuals : ndarray, shape (q, k, m, B)
        The test rows' out-of-sample residuals; nobody else holds the array.
    A : ndarray, shape (q, q, k, B)
        The training cross-products.
    choice : ndarray of int, shape (k, B) | None
        Which candidate each model is of, where penalties are tuned.
    """

    batch: FoldBatch
    targets: FoldTargets
    residuals: np.ndarray
    A: np.ndarray
    choice: np.ndarray | None = None


class OfLayout:
    """What has a `layout` of folds."""

    @property
    def order(self):
        """The order in which trials are processed."""
        return self.layout.order

    @property
    def rows(self):
        """The trial behind every test row, in the order results come out."""
        return self.layout.rows

    @property
    def batches(self):
        """The folds, in batches of equal size."""
        return self.layout.batches

    @property
    def n_rows(self):
        """The number of trials."""
        return len(self.order)

    @property
    def shapes(self):
        """The (folds, test rows, training rows) of every batch."""
        return tuple((b.k, b.m, self.n_rows - b.m) for b in self.batches)


class Regressing:
    """What regresses labels on trials: has `batches`, `residuals(T)` and `solve`."""

    def fold_residuals(self, T):
        """Yield the batches and out-of-sample residuals (q, k, m, B) of T (q, n, B)."""
        R = self.residuals(T)
        for number, batch in enumerate(self.batches):
            yield batch, self.solve(number, batch.of(R))

    def fold_models(self, targets):
        """Yield the :class:`FoldModels` of every batch of folds."""
        return fold_models(self, targets, regress(self, targets))

    def all_models(self, targets):
        """Return A (q, q, 1, B) of models of all trials, and that none was chosen."""
        return regress(self, targets).A, None


def regress(plan, targets):
    """Regress the contrasts of all label vectors on all trials."""
    R = plan.residuals(targets.T)
    return Regression(R, cross_product(targets.T[:, None], R[:, None]))


def fold_models(plan, targets, regression):
    """Yield the :class:`FoldModels` of every batch of folds."""
    for number, batch in enumerate(plan.batches):
        R_te = batch.of(regression.R)
        E = plan.solve(number, R_te)
        A = regression.A - cross_product(R_te, E)
        yield FoldModels(batch, targets.folds[number], E, A)


def cross_product(left, right):
    """Return left' right over rows, (q, k, m, B) twice to (q, q, k, B), symmetric."""
    q, k, _, n_columns = right.shape
    product = np.empty((q, q, k, n_columns), right.dtype)
    for i in range(q):
        for j in range(i, q):
            if right.shape[2] == 1:
                np.multiply(left[i, :, 0], right[j, :, 0], out=product[i, j])
            else:
                np.einsum("kmb,kmb->kb", left[i], right[j], out=product[i, j])
            product[j, i] = product[i, j]
    return product


@dataclass(frozen=True)
class DenseInverse:
    """(I - G_te,te)^-1 of k folds.

    Attributes
    ----------
    matrix : ndarray, shape (k, m, m)
        The inverses.
    """

    matrix: np.ndarray

    def solve(self, R):
        """Return the inverses times R, (q, k, m, B) both."""
        return self.matrix * R if self.matrix.shape[1] == 1 else self.matrix @ R

    def of(self, folds):
        """Return the inverses of some folds."""
        return DenseInverse(self.matrix[folds])

    def clear(self, folds):
        """Make the inverses of folds that have none safe to use."""
        self.matrix[folds] = 0

    def astype(self, dtype):
        """Return the same in another precision."""
        return DenseInverse(self.matrix.astype(dtype, copy=False))


@dataclass(frozen=True)
class LowRankInverse:
    r"""The same for a hat G = UU' of low rank and large test sets.

    By Woodbury's identity no (m, m) matrix is needed:
    :math:`(I - U_{te} U_{te}^\top)^{-1}
    = I + U_{te} (I - U_{te}^\top U_{te})^{-1} U_{te}^\top`.

    Attributes
    ----------
    rows : ndarray, shape (k, m, r)
        U_te.
    core : ndarray, shape (k, r, r)
        (I - U_te' U_te)^-1.
    """

    rows: np.ndarray
    core: np.ndarray

    def solve(self, R):
        """Return the inverses times R, (q, k, m, B) both."""
        return R + self.rows @ (self.core @ (self.rows.transpose(0, 2, 1) @ R))

    def of(self, folds):
        """Return the inverses of some folds."""
        return LowRankInverse(self.rows[folds], self.core[folds])

    def clear(self, folds):
        """Make the inverses of folds that have none safe to use."""
        self.core[folds] = 0

    def astype(self, dtype):
        """Return the same in another precision."""
        rows, core = (each.astype(dtype, copy=False) for each in (self.rows, self.core))
        return LowRankInverse(rows, core)


def invert_folds(hats, batch):
    """Return the inverses of a batch's folds for hats of the same trials.

    Returns
    -------
    inverses : list of DenseInverse | LowRankInverse
        One for each hat.
    ok : ndarray of bool, shape (S, k)
        Whether I - G_te,te can be inverted; where not, the inverse means nothing.
    """
    rows = np.arange(hats[0].n)[batch.take].reshape(batch.k, batch.m)
    if any(is_low_rank(hat, batch.m) for hat in hats):
        found = [_invert_low_rank(hat, rows) for hat in hats]
        return [each for each, _ in found], np.stack([ok for _, ok in found])
    blocks = np.stack([hat.residual_blocks(rows) for hat in hats])
    inverses = invert_blocks(blocks)
    return [DenseInverse(each) for each in inverses], invertible(inverses)


def is_low_rank(hat, m):
    """Tell whether blocks of m test rows are better left unformed."""
    return hat.residual is None and m >= max(_LARGE_FOLD, 2 * hat.factor.shape[1])


def _invert_low_rank(hat, rows):
    """Return the inverse of one hat's folds, and which are in order."""
    U = hat.factor[rows]
    core, ok = invert_cores(U)
    return LowRankInverse(U, core), ok


def invert_cores(U):
    """Return (I - U'U)^-1 (k, r, r) of rows U (k, m, r), and which are in order."""
    blocks = np.eye(U.shape[2]) - U.transpose(0, 2, 1) @ U
    cores = invert_blocks(blocks[None])
    return cores[0], invertible(cores)[0]


def invertible(inverses):
    """Tell of which matrices (..., m, m) the inverses are good."""
    # No eigenvalue of the inverse exceeds its trace, nor is less than its diagonal.
    diagonal = np.abs(np.einsum("...mm->...m", inverses)).max(axis=-1)
    return diagonal < 1 / SINGULAR
