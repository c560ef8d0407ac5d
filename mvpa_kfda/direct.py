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

from ._direct.fold_models import OfLayout, Regressing, invert_folds
from ._direct.rules import (
    best_classes,
    best_of_two,
    class_rule,
    contrasts,
    discriminant_axes,
)
from ._direct.targets import make_targets
from .folds import Layout, lay_out
from .hat import Hat

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
        From :mod:`mvpa_kfda.hat`.
    folds : Folds | None
        From :func:`mvpa_kfda.folds.make_folds`; None for one model of all trials.
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
    label vectors' (:class:`mvpa_kfda._search.stack.Stack`); the true labels are one
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
    for model in plan.fold_models(targets):
        fitted = (model.targets.T - model.residuals)[..., 0].transpose(1, 2, 0)
        counts = model.targets.terms.counts[:, :, 0].T
        for fold in range(model.batch.k):
            axes = discriminant_axes(model.A[:, :, fold, 0], counts[fold], Q)
            mean = counts[fold] @ Q / counts[fold].sum()
            found.append((fitted[fold] - mean) @ axes)
    return np.concatenate(found)
