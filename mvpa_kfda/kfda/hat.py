r"""The hat matrix: ridge regression with an unpenalised intercept.

With the centred kernel :math:`K_c = J K J`, :math:`J = I - 11^\top/n`, and a penalty
:math:`\lambda` in the kernel's feature space,

.. math:: G = 11^\top / n + K_c (K_c + \lambda I)^{-1}

maps label columns to in-sample regression scores. Cross-validation needs only the
residual maker :math:`I - G`, so that is what a :class:`Hat` holds: formed directly, it
keeps its digits where subtracting G from I would lose them.

With :math:`K_c = U S U^\top` the residual maker of the hat matrix is, for any lambda,

.. math:: I - G(\lambda) = U \,\mathrm{diag}\frac{\lambda}{s + \lambda}\, U^\top
          - 11^\top / n ,

where U holds all n eigenvectors, the constant one with s = 0 among them. With features
X and their scatter matrix :math:`X_c^\top X_c = V S V^\top`,

.. math:: G(\lambda) = 11^\top / n
          + X_c V \,\mathrm{diag}\frac{1}{s + \lambda}\, V^\top X_c^\top .
"""

from contextlib import suppress
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
from scipy.linalg import blas, lapack

from .kernels import (
    LEAST_SQUARE,
    InnerProducts,
    Linear,
    check_range,
    gram_of,
    out_of_range,
)
from .penalties import Moments, resolve_penalty


@dataclass(frozen=True)
class Hat:
    """The residual maker I - G, dense or as I - U U'.

    Attributes
    ----------
    residual : ndarray, shape (n, n) | None
        I - G when it is held densely.
    factor : ndarray, shape (n, r) | None
        U with G = U U' when that is cheaper; its first column is the intercept.
    lam : float
        The penalty that was used.
    scale : float
        trace(K_c) / n, the mean squared norm of a centred trial.
    squares : ndarray, shape (n,)
        The squared norms of centred trials.
    """

    residual: np.ndarray | None
    factor: np.ndarray | None
    lam: float
    scale: float
    squares: np.ndarray

    @property
    def n(self):
        """The number of trials."""
        return len(self.factor if self.residual is None else self.residual)

    @property
    def dtype(self):
        """The precision of the matrices."""
        return (self.factor if self.residual is None else self.residual).dtype

    @property
    def matrix(self):
        """The hat matrix G, (n, n)."""
        if self.residual is None:
            return self.factor @ self.factor.T
        return np.eye(self.n) - self.residual

    @property
    def degrees_of_freedom(self):
        """The trace of G."""
        if self.residual is None:
            return float(np.square(self.factor).sum(dtype=float))
        return float(self.n - np.trace(self.residual, dtype=float))

    def residuals(self, T):
        """Return (I - G) T for columns T (n, m): one product, the cost floor."""
        if self.residual is None:
            return T - self.factor @ (self.factor.T @ T)
        return self.residual @ T

    def residual_blocks(self, index):
        """Return the blocks of I - G at rows and columns `index` (k, m): (k, m, m)."""
        if self.residual is None:
            rows = self.factor[index]  # (k, m, r)
            return np.eye(index.shape[1]) - rows @ rows.transpose(0, 2, 1)
        return self.residual[index[:, :, None], index[:, None, :]]

    def reordered(self, order):
        """Return the same hat with its trials in another order."""
        new = replace(self, squares=self.squares[order])
        if self.residual is None:
            return replace(new, factor=np.ascontiguousarray(self.factor[order]))
        return replace(new, residual=self.residual[order[:, None], order[None, :]])

    def astype(self, dtype):
        """Return the same hat in another precision; itself if that is its own."""
        if self.dtype == dtype:
            return self
        if self.residual is None:
            return replace(self, factor=self.factor.astype(dtype))
        return replace(self, residual=self.residual.astype(dtype))


#: How far kernel values must vary, relative to their size, to leave six digits.
_SMALLEST_SPREAD = 1e-10
#: What is wrong with trials that are equal up to rounding.
_ALL_ALIKE = (
    "The trials do not differ: the kernel matrix is constant up to rounding. Check for "
    "flat data. A polynomial or rbf kernel also needs a gamma that suits the unit of "
    "the features: gamma=None, 1 / n_features, presumes features of about unit "
    "variance; divide them by their standard deviation."
)


#: What is wrong with matrices that cannot be factored.
NOT_POSITIVE = (
    "The kernel matrix plus lambda is not positive definite: lambda = {:.3g} is too "
    "small for this kernel, or the kernel is not positive semi-definite. Use a larger "
    "reg or another kernel."
)
SINGULAR_SCATTER = (
    "lambda = {:.3g} is too small: the scatter matrix of the {} features is singular. "
    "Use a larger reg."
)


def _check_scale(scale, magnitude):
    """Refuse trials that do not differ beyond rounding, and negative kernels."""
    if not np.isfinite(scale):
        raise ValueError(
            "The kernel matrix overflows double precision. Rescale the features."
        )
    if 0 < scale < LEAST_SQUARE:
        raise ValueError(out_of_range(scale))
    if scale < -1e-13 * magnitude:
        raise ValueError(
            f"The kernel is not positive semi-definite: trace(K_c)/n = {scale:.3g}. "
            "Use similarities, which are largest between a trial and itself, not "
            "distances."
        )
    if not scale > _SMALLEST_SPREAD * magnitude:
        raise ValueError(_ALL_ALIKE)


def centred_features(X):
    """Return centred features; refuse those of which nothing but rounding is left.

    Squared differences are compared: an offset costs half as many digits before
    squaring as it would in a kernel matrix.
    """
    Xc = X - X.mean(axis=0)
    size, spread = check_range(X), np.vdot(Xc, Xc)
    if not spread > _SMALLEST_SPREAD**2 * size:
        raise ValueError(_ALL_ALIKE)
    return Xc


def hat_from_gram(K, reg, centred=False, n_features=None):
    """Return the dense hat of a kernel matrix.

    Parameters
    ----------
    K : ndarray, shape (n, n)
        A symmetric positive semi-definite kernel matrix; it is centred here.
    reg : float | penalty object
        See :func:`mvpa_kfda.kfda.penalties.resolve_penalty`.
    centred : bool, default=False
        K is centred already, as inner products of centred features are. It is then
        used up.
    n_features : int | None
        The number of features of a linear kernel; None for other kernels.

    Returns
    -------
    hat : Hat
        With the dense residual maker.

    Raises
    ------
    ValueError
        If the trials do not differ, or the kernel is not positive semi-definite.
    """
    Kc, moments = centre_gram(K, centred, n_features)
    n, scale = moments.n, moments.scale
    lam = resolve_penalty(reg, moments)
    # Kc has the constant vector as a null direction. Lifting it by `scale` keeps the
    # inverse of ordinary size there, so that lam * inverse loses no digits to it.
    Kc += scale / n
    np.einsum("nn->n", Kc)[...] += lam
    residual = invert_positive(Kc)
    if residual is None:
        raise ValueError(NOT_POSITIVE.format(lam))
    residual *= lam
    residual -= lam / (lam + scale) / n
    return Hat(residual, None, lam, scale, moments.diagonal)


def centre_gram(K, centred=False, n_features=None):
    """The centred kernel matrix and its :class:`Moments`, once it is in order.

    Moments read the matrix only when they are asked; do not change it before.
    """
    Kc = K
    if not centred:
        means = K.mean(axis=0)
        Kc = K - means[:, None] - means[None, :] + means.mean()
    moments = Moments(Kc, Kc.diagonal().copy(), n_features)
    _check_scale(moments.scale, np.abs(K.diagonal()).sum() / len(K))
    return Kc, moments


#: Rows from which a matrix is inverted by itself, not in a batch.
_LARGE_BLOCK = 32


def invert_positive(matrix):
    """The inverse of a symmetric matrix (n, n), or None if it is not positive.

    The matrix is used up. By way of Cholesky this takes half the time of a general
    inverse, for all but small matrices.
    """
    cholesky, failed = lapack.dpotrf(matrix.T, lower=1, overwrite_a=1)
    if failed:
        return None
    inverse, _ = lapack.dpotri(cholesky, lower=1, overwrite_c=1)
    np.copyto(inverse, inverse.T, where=_upper(len(inverse)))
    return inverse


def invert_blocks(blocks):
    """Invert symmetric matrices (S, k, m, m); infinite where there is no inverse.

    The matrices may be used up. Small ones are inverted in one call, if all can be.
    """
    if blocks.shape[2] < _LARGE_BLOCK:
        with suppress(np.linalg.LinAlgError):
            return np.linalg.inv(blocks)
    for stack in blocks:
        for i, block in enumerate(stack):
            inverse = invert_positive(block)
            stack[i] = np.inf if inverse is None else inverse
    return blocks


@lru_cache(maxsize=4)
def _upper(n):
    """Mark the entries above the diagonal of an (n, n) matrix."""
    return ~np.tri(n, dtype=bool)


def scatter_moments(X, n_features=None, centred=False):
    """Return centred features and their :class:`Moments`, once they are in order."""
    Xc = X if centred else centred_features(X)
    squares = np.einsum("np,np->n", Xc, Xc)
    moments = Moments(None, squares, n_features, features=Xc)
    _check_scale(moments.scale, 0.0)
    return Xc, moments


def hat_from_features(X, reg, n_features=None, centred=False):
    """Return the low-rank hat of a linear kernel, the primal route.

    Parameters
    ----------
    X : ndarray, shape (n, p)
        Features; cheaper than the kernel route when p + 1 < n / 2.
    reg : float | penalty object
        See :func:`mvpa_kfda.kfda.penalties.resolve_penalty`.
    n_features : int | None
        The number of features of a linear kernel; None where X only stands for
        another kernel.
    centred : bool, default=False
        X is centred already.

    Returns
    -------
    hat : Hat
        With the factor U (n, p + 1).

    Raises
    ------
    ValueError
        If the trials do not differ, or lambda is too small.
    """
    n, p = X.shape
    Xc, moments = scatter_moments(X, n_features, centred)
    scatter, scale = moments.matrix, moments.scale
    lam = resolve_penalty(reg, moments)
    scatter.flat[:: p + 1] += lam
    cholesky, failed = lapack.dpotrf(scatter, lower=1)
    if failed:
        raise ValueError(SINGULAR_SCATTER.format(lam, p))
    factor = np.empty((n, p + 1))
    factor[:, 0] = n**-0.5
    factor[:, 1:] = blas.dtrsm(1.0, cholesky, Xc, side=1, lower=1, trans_a=1)
    return Hat(None, factor, lam, scale, moments.diagonal)


def make_hat(X, kernel, reg):
    """Return the hat of features under a kernel by the cheaper route.

    Parameters
    ----------
    X : ndarray, shape (n, p)
        Features, or the kernel matrix with the precomputed kernel.
    kernel : kernel object
        See :mod:`mvpa_kfda.kfda.kernels`. Data-dependent widths are fixed here, on all
        rows and without labels.
    reg : float | penalty object
        See :func:`mvpa_kfda.kfda.penalties.resolve_penalty`.

    Returns
    -------
    hat : Hat
        Dense, or low-rank for a linear kernel with p + 1 < n / 2, and for kernels that
        are of low rank.
    """
    n, p = X.shape
    n_features, centred = count_features(kernel, p), isinstance(kernel, Linear)
    if kernel.shift_free:
        # An offset common to all trials drops out, and the digits it costs with it.
        X = centred_features(X)
    kernel = kernel.fit(X)
    if kernel.low_rank or (kernel.is_linear and prefers_features(n, p)):
        return hat_from_features(kernel.features(X), reg, n_features, centred)
    return hat_from_gram(gram_of(X, kernel), reg, centred, n_features)


def prefers_features(n, p):
    """Whether n trials are cheaper as p features than as a kernel matrix."""
    return 2 * (p + 1) < n


def count_features(kernel, p):
    """Return p where a kernel of p features is linear, or stands for one; else None."""
    while kernel.low_rank:
        kernel = kernel.kernel
    if isinstance(kernel, InnerProducts):
        return kernel.n_features
    return p if kernel.is_linear else None
