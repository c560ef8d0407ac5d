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

from ._rules import best_classes, class_rule, contrasts, discriminant_axes
from .hat import Hat

#: The smallest eigenvalue of I - G_te,te that double precision still resolves well.
_SINGULAR = 1e-10
#: The largest lambda, in units of trace(K_c)/n, that leaves about eight digits of the
#: scores in double precision and three in single.
_LARGEST = {"float64": 1e6, "float32": 1e3}
#: Bytes of one (trials, contrasts, permutations) array: small enough for the cache, but
#: with columns enough for the matrix product, and never large in memory.
_CACHE_BYTES, _MEMORY_BYTES = 2**20, 2**25


@dataclass(frozen=True)
class FoldBatch:
    """Folds with equally large test sets, handled in one batch.

    Attributes
    ----------
    take : slice | ndarray
        The test rows in the plan's order, fold after fold.
    k, m : int
        The number of folds and of test rows in each.
    solve : ndarray, shape (k, m, m)
        (I - G_te,te)^-1 of every fold.
    """

    take: slice | np.ndarray
    k: int
    m: int
    solve: np.ndarray


@dataclass(frozen=True)
class Plan:
    """Everything about a hat matrix and its folds that does not depend on labels.

    Attributes
    ----------
    hat : Hat
        The residual maker with its trials in `order`, in the computing precision.
    order : ndarray of int, shape (n,)
        Trials sorted by fold where the folds are a partition, so that a fold is a view.
    batches : tuple of FoldBatch
        The folds.
    rows : ndarray of int, shape (n_test,)
        The trial behind every test row, in the order results come out.
    """

    hat: Hat
    order: np.ndarray
    batches: tuple
    rows: np.ndarray

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
    _check_not_too_large(hat, np.dtype(dtype).name)
    if folds is None:
        order = np.arange(hat.n)
        return Plan(hat.reordered(order, dtype), order, (), order[:0])
    sizes = np.array([len(test) for test in folds.tests])
    groups = [
        np.stack([folds.tests[i] for i in np.flatnonzero(sizes == size)])
        for size in np.unique(sizes)
    ]  # (k, m) each
    rows = np.concatenate([group.ravel() for group in groups])
    order = rows if folds.is_partition else np.arange(folds.n)
    batches, start = [], 0
    for group in groups:
        stop = start + group.size
        take = slice(start, stop) if folds.is_partition else group.ravel()
        solve = _invert(hat.residual_blocks(group), hat.lam).astype(dtype)
        batches.append(FoldBatch(take, *group.shape, solve))
        start = stop
    return Plan(hat.reordered(order, dtype), order, tuple(batches), rows)


def _check_not_too_large(hat, dtype):
    """Refuse a penalty beside which the data vanish."""
    if hat.lam > _LARGEST[dtype] * hat.scale:
        raise ValueError(
            f"lambda = {hat.lam:.3g} is too large: it is {hat.lam / hat.scale:.1g} "
            f"times trace(K_c)/n = {hat.scale:.3g}, so that in {dtype} rounding would "
            "decide the predictions. Use a smaller reg; a float is relative to "
            "trace(K_c)/n, whatever the unit of the data."
        )


def _invert(blocks, lam):
    """Invert I - G_te,te of every fold, (k, m, m), refusing singular ones."""
    message = (
        f"lambda = {lam:.3g} is too small: the model fits left-out trials exactly "
        "(I - G_te,te is singular), so that cross-validated predictions are not "
        "defined in double precision. Use a larger reg."
    )
    try:
        pivots = np.linalg.cholesky(blocks).diagonal(axis1=1, axis2=2) ** 2
    except np.linalg.LinAlgError:
        raise ValueError(message) from None
    if not pivots.min() > _SINGULAR:
        raise ValueError(message)
    return np.linalg.inv(blocks)


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
    regression = regress(plan, labels, n_classes)
    small = np.int8 if n_classes < 128 else np.int16
    n_test, n_labels = len(plan.rows), len(labels)
    true = np.empty((n_test, n_labels), small)
    predicted = np.empty((n_test, n_labels), small)
    scores = (
        np.empty((n_test, n_classes, n_labels), plan.dtype) if want_scores else None
    )
    for model in fold_models(plan, regression):
        T = regression.T[model.batch.take].reshape(model.residuals.shape)
        fitted = np.subtract(T, model.residuals, out=model.residuals)
        part = None if scores is None else scores[model.rows]
        best = best_classes(fitted, model.W, model.b, part)
        predicted[model.rows] = best.reshape(-1, n_labels)
        true[model.rows] = model.codes.reshape(-1, n_labels)
    return Scored(true, predicted, scores)


@dataclass(frozen=True)
class Regression:
    """The regression of B label vectors on all trials, in the plan's order.

    Attributes
    ----------
    codes : ndarray of int, shape (n, B)
        Class codes.
    T, R : ndarray, shape (n, q, B)
        The q = c - 1 contrasts of the labels, and their in-sample residuals.
    A : ndarray, shape (q, q, 1, B)
        T'R over all trials.
    counts : ndarray, shape (c, 1, B)
        Trials of each class.
    """

    codes: np.ndarray
    T: np.ndarray
    R: np.ndarray
    A: np.ndarray
    counts: np.ndarray


@dataclass(frozen=True)
class FoldModels:
    """The models of one batch of k folds with m test rows, for B label vectors.

    Attributes
    ----------
    batch : FoldBatch
        The folds.
    rows : slice
        Where their test rows are among all test rows.
    codes : ndarray of int, shape (k, m, B)
        The labels the test rows carry.
    residuals : ndarray, shape (k, m, q, B)
        The test rows' out-of-sample residuals; nobody else holds the array.
    W, b : ndarray, shape (q, c, k, B) and (c, k, B)
        Weights and offsets of the class scores.
    """

    batch: FoldBatch
    rows: slice
    codes: np.ndarray
    residuals: np.ndarray
    W: np.ndarray
    b: np.ndarray


def regress(plan, labels, n_classes):
    """Regress the contrasts of all label vectors (B, n) on all trials."""
    dtype = plan.dtype
    codes = np.ascontiguousarray(labels.T[plan.order])
    Q = contrasts(n_classes).astype(dtype)
    n, n_labels = codes.shape
    T = np.empty((n, n_classes - 1, n_labels), dtype)
    for i in range(n_classes - 1):
        T[:, i] = Q[:, i].take(codes)
    R = plan.hat.residuals(T.reshape(n, -1)).reshape(T.shape)
    A = _cross(T[None], R[None])
    return Regression(codes, T, R, A, _count(codes[None], n_classes, dtype))


def fold_models(plan, regression):
    """Yield the :class:`FoldModels` of every batch of folds."""
    n_classes = len(regression.counts)
    Q = contrasts(n_classes).astype(plan.dtype)
    start = 0
    for batch in plan.batches:
        rows = slice(start, start + batch.k * batch.m)
        start = rows.stop
        codes = regression.codes[batch.take].reshape(batch.k, batch.m, -1)
        E, A = _out_of_sample(batch, regression)
        counts = regression.counts - _count(codes, n_classes, plan.dtype)  # (c, k, B)
        yield FoldModels(batch, rows, codes, E, *class_rule(A, counts, Q))


def _cross(left, right):
    """Return left' right over rows, (k, m, q, B) twice to (q, q, k, B), symmetric."""
    q = left.shape[2]
    product = np.empty((q, q, left.shape[0], left.shape[3]), left.dtype)
    for i in range(q):
        for j in range(i, q):
            product[i, j] = np.einsum("kmb,kmb->kb", left[:, :, i], right[:, :, j])
            product[j, i] = product[i, j]
    return product


def _count(codes, n_classes, dtype):
    """Count the classes over rows, (k, m, B) to (c, k, B)."""
    return np.stack(
        [(codes == j).sum(axis=1, dtype=np.int32) for j in range(n_classes)]
    ).astype(dtype)


def _out_of_sample(batch, regression):
    """Return the test rows' residuals E (k, m, q, B) and each fold's A (q, q, k, B)."""
    shape = (batch.k, batch.m, *regression.R.shape[1:])
    R_te = regression.R[batch.take].reshape(shape)
    E = (batch.solve @ R_te.reshape(batch.k, batch.m, -1)).reshape(shape)
    return E, regression.A - _cross(R_te, E)


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
    regression = regress(plan, np.asarray(labels)[None], n_classes)
    totals = regression.counts[:, 0, 0]
    Q = contrasts(n_classes)
    found = []
    for batch in plan.batches:
        E, A = _out_of_sample(batch, regression)
        fitted = regression.T[batch.take].reshape(E.shape) - E
        codes = regression.codes[batch.take].reshape(batch.k, batch.m)
        for fold in range(batch.k):
            counts = totals - np.bincount(codes[fold], minlength=n_classes)
            axes = discriminant_axes(A[:, :, fold, 0], counts, Q)
            found.append((fitted[fold, ..., 0] - counts @ Q / counts.sum()) @ axes)
    return np.concatenate(found)
