"""From regression scores to classes: the scoring rule and the discriminant axes.

A fold's model is summed up by the training cross-product A and by the class counts, see
:mod:`mvpa_kfda.kfda.direct`; nothing here knows where they come from. What the counts
alone decide is worked out once for all positions of a map, as :class:`RuleTerms`.
Arrays end with one axis for folds and one for label vectors, written (k, B); in A and
in what follows from it the last axis may count positions instead, where B = 1.
"""

from dataclasses import dataclass, replace
from functools import cached_property, lru_cache

import numpy as np
from scipy.linalg import helmert


def code_dtype(n_classes):
    """The smallest type of class codes."""
    return np.int8 if n_classes < 128 else np.int16


@lru_cache(maxsize=4)
def contrasts(n_classes):
    """Return Q (c, c - 1): orthonormal columns that sum to zero."""
    Q = helmert(n_classes).T
    Q.flags.writeable = False
    return Q


@dataclass(frozen=True)
class RuleTerms:
    """The part of the scoring rule that depends on the class counts only."""

    #: Training trials of each class, (c, k, B).
    counts: np.ndarray
    #: The contrasts (c, q), in the computing precision.
    Q: np.ndarray
    #: How many discriminants to classify by; None for all q.
    rank: int | None = None

    def of(self, fold):
        """The same of a single fold."""
        return replace(self, counts=self.counts[:, fold : fold + 1])

    @cached_property
    def missing(self):
        """Classes absent from training (c, k, B); None if there are none."""
        missing = self.counts == 0
        return missing if missing.any() else None

    @cached_property
    def n_train(self):
        """Training trials, (k, B)."""
        return self.counts.sum(axis=0)

    @cached_property
    def mean(self):
        """The training trials' mean contrasts, (q, k, B)."""
        return np.einsum("cq,ckb->qkb", self.Q, self.counts) / self.n_train

    @cached_property
    def D(self):
        """The classes' contrasts less the mean, (q, c, k, B)."""
        return self.Q.T[:, :, None, None] - self.mean[:, None]

    @cached_property
    def fill(self):
        """What makes A invertible where classes are absent, (q, q, k, B).

        q_k of an absent class is a null direction of A and orthogonal to every other
        d_j: filling it changes no other score.
        """
        missing = self.missing.astype(self.Q.dtype)
        return np.einsum("ckb,ci,cj->ijkb", missing, self.Q, self.Q)

    @cached_property
    def shrink(self):
        """1/N_k - 1/N of every class, zero where it is absent, (c, k, B)."""
        with np.errstate(divide="ignore"):
            shrink = 1 / self.counts - 1 / self.n_train
        return shrink if self.missing is None else np.where(self.missing, 0, shrink)

    @property
    def is_reduced(self):
        """Whether fewer than all discriminants are to be used."""
        return self.rank is not None and self.rank < self.Q.shape[1]

    def filled(self, A):
        """Return A (q, q, k, B), invertible where classes are absent too."""
        return A if self.missing is None else A + self.fill

    @cached_property
    def scatter(self):
        """C, the labels' centred cross-product (q, q, k, B), in double precision."""
        counts, D = self.counts.astype(np.float64), self.D.astype(np.float64)
        return np.einsum("ckb,ickb,jckb->ijkb", counts, D, D, optimize=True)

    @cached_property
    def whitener(self):
        """L^-1 (k, B, q, q), with C = L L' the labels' centred cross-product.

        Always in double precision. C is filled as A is where classes are absent.
        """
        C = self.filled(self.scatter).transpose(2, 3, 0, 1)
        return np.linalg.inv(np.linalg.cholesky(C))

    @cached_property
    def two_class_bound(self):
        r"""Slope and offset (k, B) of the bound between two classes, see `best_of_two`.

        With two classes the quadratic terms of the scores cancel,
        :math:`s_1 - s_0 = \delta \hat t / A + \tfrac12 (1/N_1 - 1/N_0)` with
        :math:`\delta = q_1 - q_0 < 0`, and near ties go to the first class as in
        `class_rule`, whose head start times A is, with :math:`v = 2 N_0 N_1 / N \ge A`,
        :math:`(v - A) \epsilon^{3/4} \max(N_0/N_1, N_1/N_0)/N + 64 \epsilon \max d^2`.
        """
        first, second = np.where(self.counts == 0, 1, self.counts)
        n, eps = first + second, np.finfo(self.Q.dtype).eps
        near = eps**0.75 * np.maximum(first / second, second / first) / n
        slope = 0.5 * (1 / first - 1 / second) - near
        offset = near * (2 * first * second / n)
        offset += 128 * eps * (np.maximum(first, second) / n) ** 2
        if self.missing is not None:
            offset[self.missing[0]] = -np.inf
            offset[self.missing[1]] = np.inf
        delta = self.Q[1, 0] - self.Q[0, 0]
        return slope / delta, offset / delta


def class_rule(A, terms):
    """The weights W (q, c, k, B) and offsets b (c, k, B) of the class scores."""
    missing = terms.missing
    rule = _reduced if terms.is_reduced else _full
    W, spread, norms = rule(terms.filled(A), terms)
    b = -0.5 * norms - (terms.mean[:, None] * W).sum(axis=0)
    # A head start, far below the scores but above their rounding, settles near ties.
    eps = np.finfo(b.dtype).eps
    start = eps**0.75 * np.abs(norms).max(axis=0)
    start += 64 * eps * spread.max(axis=0)
    b -= np.arange(len(b), dtype=b.dtype)[:, None, None] * start
    if missing is not None:
        b[np.broadcast_to(missing, b.shape)] = -np.inf
    return W, b


def usable(A, terms):
    """Which models (k, B) of A (q, q, k, B) leave a spread within classes.

    The others are refused by the rules above and below: by the same pivots, or with a
    margin to spare.
    """
    A = np.array(terms.filled(A), dtype=np.float64 if terms.is_reduced else None)
    if terms.is_reduced:
        A -= 2 * _EXACT * np.finfo(terms.Q.dtype).eps * terms.filled(terms.scatter)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        return _eliminate(A)


def _eliminate(A, D=None):
    """Reduce A (q, q, k, B), and D (q, c, k, B) with it, to a triangle, in place.

    Which A are positive definite (k, B): those with positive pivots.
    """
    positive = np.ones(A.shape[2:], bool)
    for j in range(len(A)):
        positive &= A[j, j] > 0
        for i in range(j + 1, len(A)):
            factor = A[i, j] / A[j, j]
            A[i, j + 1 :] -= factor * A[j, j + 1 :]
            if D is not None:
                D[i] -= factor * D[j]
    return positive


def _full(A, terms):
    """Return W = A^-1 d_k, d_k' W_k and the centroids' squared norms, by one solve.

    The norms are in discriminant space and (c, k, B), as is d_k' W_k.
    """
    W = _solve(A, terms.D)
    spread = (terms.D * W).sum(axis=0)  # (c, k, B)
    if terms.missing is not None:
        spread = np.where(terms.missing, 0, spread)
    return W, spread, spread - terms.shrink


def _reduced(A, terms):
    r"""Do as `_full` with the first ``terms.rank`` discriminants only.

    They are the vectors v of :math:`C v = (1 + \rho) A v`, :math:`V^\top A V = I`, with
    the largest :math:`1 + \rho = 1 / (1 - \alpha^2)`. Since :math:`A^{-1} = V V^\top`,
    leaving out the others leaves (Hastie, Buja & Tibshirani 1995)

    .. math:: W_k = \sum_{j \le r} v_j v_j^\top d_k, \qquad
              \lVert m_k \rVert^2 = \sum_{j \le r} \alpha_j^2 (d_k^\top v_j)^2.
    """
    whitener, dtype = terms.whitener, A.dtype
    A = whitener @ A.transpose(2, 3, 0, 1) @ whitener.swapaxes(-2, -1)
    within, V = np.linalg.eigh(A)  # 1 - alpha^2 (k, B, q), the smallest first
    if not (within > _EXACT * np.finfo(dtype).eps).all():
        raise ValueError(FITTED_EXACTLY)
    within, V = within[..., None, : terms.rank], V[..., : terms.rank]
    V = whitener.swapaxes(-2, -1) @ V / np.sqrt(within)  # (k, B, q, r)
    along = terms.D.transpose(2, 3, 1, 0) @ V  # d_k'v_j: (k, B, c, r)
    if terms.missing is not None:
        along = np.where(terms.missing.transpose(1, 2, 0)[..., None], 0, along)
    W = V @ along.swapaxes(-2, -1)  # (k, B, q, c)
    squares = along**2
    sums = squares.sum(axis=-1), ((1 - within) * squares).sum(axis=-1)
    W = np.ascontiguousarray(W.transpose(2, 3, 0, 1), dtype)
    return W, *(values.transpose(2, 0, 1).astype(dtype) for values in sums)


#: A share of variance within classes that is nothing but rounding, in units of eps.
_EXACT = 64
#: What is wrong where A is singular.
FITTED_EXACTLY = (
    "lambda is too small: the training trials of some fold are fitted exactly, but for "
    "rounding. Use a larger reg, or dtype='float64' in place of 'float32'."
)


def _solve(A, D):
    """Solve A X = D for A (q, q, k, B) positive definite, D (q, c, k, B or 1).

    There is one tiny matrix for every fold and permutation: plain elimination over
    whole arrays is faster than one LAPACK call for each. An A that is not positive, by
    rounding, would turn the classes round.
    """
    A, D = A.copy(), np.broadcast_to(D, (*D.shape[:3], A.shape[3])).copy()
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        if not _eliminate(A, D).all():
            raise ValueError(FITTED_EXACTLY)
    for j in reversed(range(len(A))):
        for i in range(j + 1, len(A)):
            D[j] -= A[j, i] * D[i]
        D[j] /= A[j, j]
    return D


def best_classes(fitted, W, b, scores=None):
    """The best class (k, m, B) of regression scores (q, k, m, B), by W and b.

    The first one of several. The class scores go into `scores` (k, m, c, B), if that is
    given. The comparisons' truth values are one byte each, so that all but the scores
    is arithmetic on bytes.
    """
    q, *shape = fitted.shape
    best = np.zeros(shape, code_dtype(len(b)))
    top, score, term = (np.empty(shape, fitted.dtype) for _ in range(3))
    better = np.empty(shape, bool)
    for c in range(len(b)):
        out = score if c else top
        np.multiply(fitted[0], W[0, c][:, None], out=out)
        for i in range(1, q):
            out += np.multiply(fitted[i], W[i, c][:, None], out=term)
        out += b[c][:, None]
        if scores is not None:
            scores[:, :, c] = out
        if c:
            np.greater(score, top, out=better)
            np.maximum(top, score, out=top)
            # A later class's number is larger than any before it.
            np.maximum(best, better.view(np.int8) * best.dtype.type(c), out=best)
    return best


def best_of_two(residuals, T, A, terms):
    r"""The better of two classes (k, m, B), without any class scores.

    The second class is better where :math:`\hat t = t - e` is below a bound that is
    linear in A (``terms.two_class_bound``). Of the test rows' contrasts T and their
    residuals (1, k, m, B), which are used up, and of A (1, 1, k, B).
    """
    positive = A[0, 0] > 0
    if terms.missing is not None:  # where a class is absent there is no spread
        positive |= terms.missing.any(axis=0)
    if not positive.all():
        raise ValueError(FITTED_EXACTLY)
    slope, offset = terms.two_class_bound
    bound = A[0, 0] * slope
    bound += offset
    fitted = np.subtract(T[0], residuals[0], out=residuals[0])
    return (fitted < bound[:, None]).view(np.int8)


def discriminant_axes(A, counts, Q):
    """Return Theta D (S, q, q) of models with A (S, q, q) of the same labels.

    Rotation and scaling to discriminants.
    """
    terms = RuleTerms(np.asarray(counts)[:, None, None], Q)
    whitener, C = terms.whitener[0, 0], terms.scatter[:, :, 0, 0]
    fitted = C - (A + A.swapaxes(-2, -1)) / 2
    alpha2, axes = np.linalg.eigh(whitener @ fitted @ whitener.T)
    alpha2, axes = alpha2[:, ::-1], whitener.T @ axes[:, :, ::-1]
    # Here axes' C axes = I; W'(S_w + lambda I) W = I needs this on top.
    useful, within = alpha2 > 1e-12, 1 - alpha2
    if (within < _EXACT * np.finfo(np.float64).eps).any():
        raise ValueError(FITTED_EXACTLY)
    scale = np.zeros(alpha2.shape)
    scale[useful] = 1 / np.sqrt(alpha2[useful] * within[useful])
    return axes * scale[:, None]
