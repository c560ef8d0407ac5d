r"""Direct cross-validation: every fold's out-of-sample prediction without retraining.

Prepare once per hat matrix and set of folds, then apply to any number of label
vectors. With the residual maker :math:`I - G` (:mod:`mvpa_kfda.hat`), contrast-coded
labels :math:`T = YQ` (Q has orthonormal columns that sum to zero) and the in-sample
residuals :math:`R = (I - G) T`, a fold with test rows te has the out-of-sample
residuals and regression scores

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

from ._rules import (
    best_classes,
    best_of_two,
    class_rule,
    contrasts,
    discriminant_axes,
)
from ._targets import FoldTargets, make_targets
from .folds import FoldBatch, Layout, lay_out
from .hat import Hat, invert_blocks

#: The smallest eigenvalue of I - G_te,te that double precision still resolves well.
_SINGULAR = 1e-10
#: The largest lambda, in units of trace(K_c)/n, that leaves about eight digits of the
#: scores in double precision and three in single.
_LARGEST = {"float64": 1e6, "float32": 1e3}
#: Bytes of one (trials, contrasts, permutations) array: small enough for the cache, but
#: with columns enough for the matrix product, and never large in memory.
_CACHE_BYTES, _MEMORY_BYTES = 2**20, 2**25


@dataclass(frozen=True)
class Plan:
    """Everything about a hat matrix and its folds that does not depend on labels.

    Attributes
    ----------
    hat : Hat
        The residual maker with its trials in the layout's order, in the computing
        precision.
    layout : Layout
        The folds, and the order of trials that makes them views where possible.
    inverses : tuple of ndarray, shape (k, m, m)
        (I - G_te,te)^-1 of every fold, by batches of the layout.
    """

    hat: Hat
    layout: Layout
    inverses: tuple

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
    def dtype(self):
        """The precision in which labels are processed."""
        return self.hat.dtype

    @property
    def shapes(self):
        """The (folds, test rows, training rows) of every batch."""
        return tuple((b.k, b.m, self.n_rows - b.m) for b in self.batches)

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
        inverse = self.inverses[number]
        return inverse * R if inverse.shape[1] == 1 else inverse @ R


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


def prepare(hat, folds, dtype="float64"):
    """Factor what every label vector shares.

    Parameters
    ----------
    hat : Hat
        From :mod:`mvpa_kfda.hat`.
    folds : Folds | None
        From :func:`mvpa_kfda.folds.make_folds`; None for one model of all trials.
    dtype : str | dtype
        The precision in which labels are processed; the factors are always computed
        in double precision.

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
    return prepare_sorted([hat], layout, dtype)[0]


def prepare_sorted(hats, layout, dtype):
    """Return the plans of hats whose trials are in the layout's order already."""
    dtype = np.dtype(dtype)
    for hat in hats:
        _check_not_too_large(hat, dtype.name)
    inverses = [
        _invert(np.stack([_blocks(hat, batch) for hat in hats]), hats)
        for batch in layout.batches
    ]
    return [
        Plan(hat.astype(dtype), layout, tuple(each.astype(dtype) for each in solve))
        for hat, *solve in zip(hats, *inverses, strict=True)
    ]


def _blocks(hat, batch):
    """Return I - G_te,te of the folds of a batch, (k, m, m)."""
    rows = np.arange(hat.n)[batch.take]
    return hat.residual_blocks(rows.reshape(batch.k, batch.m))


def _check_not_too_large(hat, dtype):
    """Refuse a penalty beside which the data vanish."""
    if hat.lam > _LARGEST[dtype] * hat.scale:
        raise ValueError(
            f"lambda = {hat.lam:.3g} is too large: it is {hat.lam / hat.scale:.1g} "
            f"times trace(K_c)/n = {hat.scale:.3g}, so that in {dtype} rounding would "
            "decide the predictions. Use a smaller reg; a float is relative to "
            "trace(K_c)/n, whatever the unit of the data."
        )


def _invert(blocks, hats):
    """Invert I - G_te,te of every hat's folds, (S, k, m, m), refusing singular ones."""
    inverses = invert_blocks(blocks)
    # No eigenvalue of the inverse exceeds its trace, nor is less than its diagonal.
    diagonal = np.abs(np.einsum("skmm->skm", inverses)).max(axis=(1, 2))
    for hat, largest in zip(hats, diagonal, strict=True):
        if not largest < 1 / _SINGULAR:
            raise ValueError(
                f"lambda = {hat.lam:.3g} is too small: the model fits left-out trials "
                "exactly (I - G_te,te is singular), so that cross-validated "
                "predictions are not defined in double precision. Use a larger reg."
            )
    return inverses


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
    targets = make_targets(np.asarray(labels), n_classes, plan.layout, plan.dtype)
    return apply_targets(plan, targets, want_scores)


def apply_targets(plan, targets, want_scores=False):
    """Do as :func:`apply` with label vectors that are targets already.

    `plan` may stand for several positions, whose results then take the place of the
    label vectors' (:class:`mvpa_kfda._stack.Stack`); the true labels are one column.
    """
    n_classes, n_test = targets.n_classes, len(plan.rows)
    regression = regress(plan, targets)
    n_columns = regression.R.shape[2]
    small = np.int8 if n_classes < 128 else np.int16
    true = np.empty((n_test, targets.n_labels), small)
    predicted = np.empty((n_test, n_columns), small)
    scores = None
    if want_scores:
        scores = np.empty((n_test, n_classes, n_columns), plan.dtype)
    for model in fold_models(plan, targets, regression):
        batch, some = model.batch, model.targets
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
    """

    batch: FoldBatch
    targets: FoldTargets
    residuals: np.ndarray
    A: np.ndarray


def regress(plan, targets):
    """Regress the contrasts of all label vectors on all trials."""
    R = plan.residuals(targets.T)
    return Regression(R, _cross(targets.T[:, None], R[:, None]))


def fold_models(plan, targets, regression):
    """Yield the :class:`FoldModels` of every batch of folds."""
    for number, batch in enumerate(plan.batches):
        R_te = batch.of(regression.R)
        E = plan.solve(number, R_te)
        A = regression.A - _cross(R_te, E)
        yield FoldModels(batch, targets.folds[number], E, A)


def _cross(left, right):
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


def discriminant_scores(plan, labels, n_classes):
    r"""Return the discriminant scores of every test row for one label vector.

    Optimal scoring turns regression scores into discriminant scores by the generalised
    eigenproblem :math:`M \theta = \alpha^2 D_\pi \theta` of each fold, here in contrast
    space, where the trivial pair is gone:
    :math:`(C - A) v = \alpha^2 C v`, with C the centred cross-product of the training
    labels. Columns are scaled so that :math:`W^\top (S_w + \lambda I) W = I`.

    Parameters
    ----------
    plan : Plan
        From :func:`prepare`.
    labels : ndarray of int, shape (n,)
        Class codes 0..c-1.
    n_classes : int
        The number of classes c.

    Returns
    -------
    scores : ndarray, shape (n_test, c - 1)
        In the order of ``plan.rows``; the most discriminant column first. Each fold
        has axes of its own, up to their sign. Columns without any class difference
        (as when a class is absent from the training fold) are zero.

    References
    ----------
    .. [1] Hastie, Buja & Tibshirani (1995). Penalized discriminant analysis. Annals of
       Statistics 23(1), 73-102.
    .. [2] Treder (2018). Direct calculation of out-of-sample predictions in multi-class
       kernel FDA. ESANN. Its scaling D and its training scores are misprinted.
    """
    targets = make_targets(np.asarray(labels)[None], n_classes, plan.layout, plan.dtype)
    Q, found = contrasts(n_classes), []
    for model in fold_models(plan, targets, regress(plan, targets)):
        fitted = (model.targets.T - model.residuals)[..., 0].transpose(1, 2, 0)
        counts = model.targets.terms.counts[:, :, 0].T
        for fold in range(model.batch.k):
            axes = discriminant_axes(model.A[:, :, fold, 0], counts[fold], Q)
            mean = counts[fold] @ Q / counts[fold].sum()
            found.append((fitted[fold] - mean) @ axes)
    return np.concatenate(found)
