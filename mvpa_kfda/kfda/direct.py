r"""Direct cross-validation: every fold's out-of-sample prediction without retraining.

Every position of a map is given the same label vectors. Their contrasts, the class
counts of the folds and what the scoring rule makes of these are worked out once.

What a fold's model is for the scoring rule are the out-of-sample residuals of its test
rows and its training cross-product (:mod:`mvpa_kfda.kfda.direct`). Both follow from the
in-sample residuals of all rows and :math:`(I - G_{te,te})^{-1}`.

Prepare once per hat matrix and set of folds, then apply to any number of label
vectors. With the residual maker :math:`I - G` (:mod:`mvpa_kfda.kfda.hat`),
contrast-coded labels :math:`T = YQ` (Q has orthonormal columns that sum to zero) and
the in-sample residuals :math:`R = (I - G) T`, a fold with test rows te has the
out-of-sample residuals and regression scores

.. math:: E_{te} = (I - G_{te,te})^{-1} R_{te}, \qquad \hat T_{te} = T_{te} - E_{te}

and, of the *same* fold's model, the training cross-product

.. math:: A = T_{tr}^\top (T_{tr} - \hat T_{tr}) = T^\top R - R_{te}^\top E_{te},

which needs no training row. With :math:`q_k` the k-th row of Q, :math:`N_k` the
training trials of class k, :math:`N = \sum_k N_k`, :math:`\bar t = \sum_k N_k q_k / N`
and :math:`d_k = q_k - \bar t`, the linear discriminant score of class k is

.. math::

    s_k(x) = (x - \mu)^\top (S_w + \lambda I)^{-1} (\mu_k - \mu)
             - \tfrac12 \lVert \mu_k - \mu \rVert^2_{(S_w + \lambda I)^{-1}}
           = \hat t(x)^\top A^{-1} d_k - \tfrac12 (q_k + \bar t)^\top A^{-1} d_k
             + \tfrac12 (1/N_k - 1/N),

and its argmax is the nearest class centroid in discriminant space. Optimal scoring is
due to Hastie, Buja & Tibshirani (1995), the direct multi-class step to Treder (2018);
the cross-product and the scoring rule are derived in the documentation.
"""

from dataclasses import dataclass

import numpy as np

from .folds import FoldBatch, Layout, lay_out
from .hat import Hat, invert_blocks
from .rules import RuleTerms, best_classes, best_of_two, class_rule, contrasts


@dataclass(frozen=True)
class FoldTargets:
    """The label vectors of one batch of folds.

    Attributes
    ----------
    codes : ndarray of int, shape (k, m, B)
        The labels the test rows carry.
    T : ndarray, shape (q, k, m, B)
        Their contrasts.
    terms : RuleTerms
        Of the training rows.
    """

    codes: np.ndarray
    T: np.ndarray
    terms: RuleTerms


@dataclass(frozen=True)
class Targets:
    """B label vectors, in a layout's order of rows.

    Attributes
    ----------
    codes : ndarray of int, shape (n, B)
        Class codes.
    T : ndarray, shape (q, n, B)
        Their q = c - 1 contrasts.
    terms : RuleTerms
        Of all rows, with k = 1.
    folds : tuple of FoldTargets
        Of the layout's batches.
    """

    codes: np.ndarray
    T: np.ndarray
    terms: RuleTerms
    folds: tuple

    @property
    def n_classes(self):
        """The number of classes c."""
        return len(self.terms.counts)

    @property
    def n_labels(self):
        """The number of label vectors B."""
        return self.codes.shape[1]


def make_targets(labels, n_classes, layout, dtype, rank=None):
    """Return the targets of labels.

    Parameters
    ----------
    labels : ndarray of int, shape (B, n)
        Class codes 0..c-1, one row per label vector.
    n_classes : int
        The number of classes c.
    layout : Layout
        From :mod:`mvpa_kfda.kfda.folds`.
    dtype : dtype
        The precision in which labels are processed.
    rank : int | None
        How many discriminants to classify by, the first ones of every fold and label
        vector; None for all c - 1.

    Returns
    -------
    targets : Targets
        For every position that has these folds.
    """
    Q = contrasts(n_classes).astype(dtype)
    small = np.int8 if n_classes < 128 else np.int16
    codes = np.ascontiguousarray(labels.T[layout.order], dtype=small)
    T = np.stack([Q[:, i].take(codes) for i in range(n_classes - 1)])
    totals = count_classes(codes[None], n_classes, dtype)
    folds = []
    for batch in layout.batches:
        tested = codes[batch.take].reshape(batch.k, batch.m, -1)
        terms = RuleTerms(totals - count_classes(tested, n_classes, dtype), Q, rank)
        folds.append(FoldTargets(tested, batch.of(T), terms))
    return Targets(codes, T, RuleTerms(totals, Q, rank), tuple(folds))


def count_classes(codes, n_classes, dtype):
    """Count the classes over rows, (k, m, B) to (c, k, B)."""
    return np.stack(
        [(codes == j).sum(axis=1, dtype=np.int32) for j in range(n_classes)]
    ).astype(dtype)


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
        return fold_models(self, targets, regress_folds(self, targets))

    def all_models(self, targets):
        """Return A (q, q, 1, B) of models of all trials, and that none was chosen."""
        return regress_folds(self, targets).A, None


def regress_folds(plan, targets):
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


#: The largest lambda, in units of trace(K_c)/n, that leaves about eight digits of the
#: scores in double precision and three in single.
_LARGEST = {"float64": 1e6, "float32": 1e3}
#: What is wrong with a penalty out of these bounds.
_TOO_LARGE = (
    "lambda = {:.3g} is too large: it is {:.1g} times trace(K_c)/n = {:.3g}, so that "
    "rounding would decide the predictions. Use a smaller reg; a float is relative to "
    "trace(K_c)/n, whatever the unit of the data."
)
_TOO_SMALL = (
    "lambda = {:.3g} is too small: the model fits left-out trials exactly (I - G_te,te "
    "is singular), so that cross-validated predictions are not defined in double "
    "precision. Use a larger reg."
)
#: Bytes of one (trials, contrasts, permutations) array: small enough for the cache, but
#: with columns enough for the matrix product, and never large in memory.
_CACHE_BYTES, _MEMORY_BYTES = 2**20, 2**25


@dataclass(frozen=True)
class Plan(OfLayout, Regressing):
    """Everything about a hat matrix and its folds that does not depend on labels.

    Attributes
    ----------
    hat : Hat
        The residual maker with its trials in the layout's order, in the computing
        precision.
    layout : Layout
        The folds, and the order of trials that makes them views where possible.
    inverses : tuple of DenseInverse | LowRankInverse
        (I - G_te,te)^-1 of every fold, by batches of the layout.
    rank : int | None
        How many discriminants to use; None: all.
    exact_hat : Hat | None
        The residual maker in double precision, where a computing precision is set.
    """

    hat: Hat
    layout: Layout
    inverses: tuple
    rank: int | None = None
    exact_hat: Hat | None = None

    @property
    def dtype(self):
        """The precision in which labels are processed."""
        return self.hat.dtype

    def block_size(self, n_classes, want_scores=False):
        """Return how many label vectors to process at a time, for speed and memory."""
        # A label vector takes n values per contrast, and every fold a small matrix.
        rows = max(len(self.rows), len(self.order))
        n_folds = sum(batch.k for batch in self.batches)
        values = (rows + n_folds * n_classes) * (n_classes - 1)
        bytes_each = values * self.dtype.itemsize
        fast = np.clip(_CACHE_BYTES // bytes_each, 128, 512)
        return int(max(1, min(fast, _MEMORY_BYTES // bytes_each)))

    def predict(self, labels, n_classes, want_scores=False):
        """Yield the predictions, all in one piece, see :func:`apply`."""
        yield apply(self, labels, n_classes, want_scores)

    def residuals(self, T):
        """Return the in-sample residuals of contrasts T, (q, n, B) both."""
        return self.hat.residuals(T)

    def solve(self, number, R):
        """Return the out-of-sample residuals of a batch of folds, (q, k, m, B) both."""
        return self.inverses[number].solve(R)

    def plain(self, codes, n_classes):
        """Return the plan of all trials and those of the folds: itself."""
        return self, [self]

    def penalty(self, labels, n_classes):
        """Return what is to be recorded of the penalty, arrays (1,)."""
        return {
            "lambda": np.array([self.hat.lam]),
            "degrees_of_freedom": np.array([self.hat.degrees_of_freedom]),
        }


@dataclass(frozen=True)
class Scored:
    """Cross-validated predictions for B label vectors.

    Attributes
    ----------
    true : ndarray of int, shape (n_test, B)
        The labels the test rows carried.
    predicted : ndarray of int, shape (n_test, B)
        The predicted classes.
    class_scores : ndarray, shape (n_test, c, B) | None
        Discriminant scores per class; -inf for a class absent from the training fold.
    """

    true: np.ndarray
    predicted: np.ndarray
    class_scores: np.ndarray | None


def prepare(hat, folds, dtype="float64", rank=None):
    """Factor what every label vector shares.

    Parameters
    ----------
    hat : Hat
        From :mod:`mvpa_kfda.kfda.hat`.
    folds : Folds | None
        From :func:`mvpa_kfda.kfda.folds.make_folds`; None for one model of all trials.
    dtype : str | dtype
        The precision in which labels are processed; the factors are always computed
        in double precision.
    rank : int | None
        How many discriminants to use; None: all.

    Returns
    -------
    plan : Plan
        To be handed to :func:`apply`.

    Raises
    ------
    ValueError
        If lambda is so small that some I - G_te,te is singular, or so large that
        rounding would decide the predictions.
    """
    layout = lay_out(folds, hat.n)
    if not layout.is_sorted:
        hat = hat.reordered(layout.order)
    return prepare_sorted([hat], layout, dtype, rank)[0]


def prepare_sorted(hats, layout, dtype, rank=None):
    """Return the plans of hats whose trials are in the layout's order already."""
    dtype = np.dtype(dtype)
    for hat in hats:
        if is_too_large(hat.lam, hat.scale, dtype):
            raise ValueError(_TOO_LARGE.format(hat.lam, hat.lam / hat.scale, hat.scale))
    inverses = []
    for batch in layout.batches:
        found, ok = invert_folds(hats, batch)
        for hat, fine in zip(hats, ok.all(axis=1), strict=True):
            if not fine:
                raise ValueError(_TOO_SMALL.format(hat.lam))
        inverses.append([each.astype(dtype) for each in found])
    return [
        Plan(hat.astype(dtype), layout, tuple(solvers), rank, hat)
        for hat, *solvers in zip(hats, *inverses, strict=True)
    ]


def is_too_large(lam, scale, dtype):
    """Tell a penalty beside which the data vanish."""
    return lam > _LARGEST[dtype.name] * scale


def apply(plan, labels, n_classes, want_scores=False):
    """Predict every test row for every label vector.

    Parameters
    ----------
    plan : Plan
        From :func:`prepare`.
    labels : ndarray of int, shape (B, n)
        Class codes 0..c-1, one row per permutation.
    n_classes : int
        The number of classes c.
    want_scores : bool
        Whether to return the class scores too.

    Returns
    -------
    scored : Scored
        Predictions in the order of ``plan.rows``.

    Notes
    -----
    Near ties (within rounding of the scores) go to the class that sorts first, so that
    the prediction does not depend on the order of floating-point operations.
    """
    targets = make_targets(
        np.asarray(labels), n_classes, plan.layout, plan.dtype, rank=plan.rank
    )
    return apply_targets(plan, targets, want_scores)


def apply_targets(plan, targets, want_scores=False):
    """Do as :func:`apply` with label vectors that are targets already.

    `plan` may stand for several positions, whose results then take the place of the
    label vectors' (:class:`mvpa_kfda.kfda.models.Stack`); the true labels are one
    column.
    """
    n_classes, n_test = targets.n_classes, len(plan.rows)
    small = np.int8 if n_classes < 128 else np.int16
    true = np.empty((n_test, targets.n_labels), small)
    predicted = scores = None
    for model in plan.fold_models(targets):
        batch, some = model.batch, model.targets
        n_columns = model.residuals.shape[3]
        if predicted is None:
            predicted = np.empty((n_test, n_columns), small)
        if want_scores and scores is None:
            scores = np.empty((n_test, n_classes, n_columns), plan.dtype)
        if n_classes == 2 and not want_scores:
            best = best_of_two(model.residuals, some.T, model.A, some.terms)
        else:
            W, b = class_rule(model.A, some.terms)
            part = None
            if want_scores:
                part = scores[batch.rows].reshape(batch.k, batch.m, n_classes, -1)
            fitted = np.subtract(some.T, model.residuals, out=model.residuals)
            best = best_classes(fitted, W, b, part)
        predicted[batch.rows] = best.reshape(-1, n_columns)
        true[batch.rows] = some.codes.reshape(-1, targets.n_labels)
    return Scored(true, predicted, scores)
