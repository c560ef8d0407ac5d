r"""Discriminants of one training set, by optimal scoring.

With the N training rows, the centred kernel :math:`K_c = JKJ` and contrast-coded labels
:math:`T = YQ` centred to :math:`T_c`, ridge regression in the kernel's feature space
gives

.. math:: B = (K_c + \lambda I)^{-1} T_c, \quad
          P = T_c^\top K_c B, \quad A = \lambda T_c^\top B, \quad P + A = T_c^\top T_c.

Optimal scoring turns the regression into discriminants. Its eigenproblem
:math:`P v = \alpha^2 (P + A) v` has the same vectors as

.. math:: P v = \rho A v, \qquad \rho = \alpha^2 / (1 - \alpha^2),

where :math:`\rho` is the ratio of between-class to penalised within-class scatter. With
:math:`v^\top A v = 1`, the dual coefficients :math:`B v / \alpha` are scaled so that
:math:`W^\top (S_w + \lambda I) W = I`. No step subtracts nearly equal numbers, and
:math:`P + A = T_c^\top T_c` fails only where rounding has spoiled the inverse.

Where columns F (N, r) stand for the kernel, :math:`K = F F^\top`, their weights
:math:`\beta = (F_c^\top F_c + \lambda I)^{-1} F_c^\top T_c` do the same without any
(N, N) matrix: with :math:`R = T_c - F_c \beta`, :math:`B = R / \lambda`,
:math:`A = R^\top R + \lambda \beta^\top \beta`.
"""

from dataclasses import dataclass, replace

import numpy as np
from scipy.linalg import LinAlgError, cho_factor, cho_solve, eigh

from ._direct.rules import contrasts


@dataclass(frozen=True)
class Discriminants:
    """All c - 1 discriminants; one without any class difference is zero throughout.

    Attributes
    ----------
    dual : ndarray, shape (N, c - 1)
        Weights of the training rows.
    coef : ndarray, shape (r, c - 1) | None
        Weights of the columns that stand for the kernel.
    means : ndarray, shape (c, c - 1)
        Class centroids.
    shares : ndarray, shape (c - 1,)
        Of the between-class over the penalised within-class scatter, the largest first.
    """

    dual: np.ndarray
    coef: np.ndarray | None
    means: np.ndarray
    shares: np.ndarray

    def first(self, n_components):
        """Return the first discriminants only."""
        coef = None if self.coef is None else self.coef[:, :n_components]
        return replace(
            self,
            dual=self.dual[:, :n_components],
            coef=coef,
            means=self.means[:, :n_components],
            shares=self.shares[:n_components],
        )


def discriminants_of_kernel(K, hat, codes, n_classes):
    """Return the discriminants of a kernel.

    Parameters
    ----------
    K : ndarray, shape (N, N)
        The kernel matrix less its column means.
    hat : Hat
        Its dense residual maker.
    codes : ndarray of int, shape (N,)
        Class codes 0..c-1, all present.
    n_classes : int
        The number of classes c.

    Returns
    -------
    discriminants : Discriminants
        Without `coef`.
    """
    Y, T = _targets(codes, n_classes)
    B = hat.residuals(T) / hat.lam
    # The columns of B sum to zero; what the inverse leaves of a sum is rounding, which
    # an uncentred kernel would magnify.
    B -= B.mean(axis=0)
    fitted = K @ B
    P, A = T.T @ fitted, hat.lam * (T.T @ B)
    _check_rounding(P + A - T.T @ T, T, hat.lam)
    axes, means, shares = _axes(P, A, Y, fitted, hat)
    return Discriminants(B @ axes, None, means, shares)


def discriminants_of_features(F, hat, codes, n_classes):
    """Return the discriminants of columns that stand for the kernel.

    Parameters
    ----------
    F : ndarray, shape (N, r)
        The columns, each less its mean.
    hat : Hat
        Their hat.
    codes : ndarray of int, shape (N,)
        Class codes 0..c-1, all present.
    n_classes : int
        The number of classes c.

    Returns
    -------
    discriminants : Discriminants
        With `coef`.
    """
    Y, T = _targets(codes, n_classes)
    penalised = F.T @ F
    penalised.flat[:: len(penalised) + 1] += hat.lam
    try:
        beta = cho_solve(cho_factor(penalised), F.T @ T)
    except LinAlgError:
        raise _too_small(hat.lam) from None
    fitted = F @ beta
    R = T - fitted
    shrunk = hat.lam * (beta.T @ beta)
    P, A = fitted.T @ fitted + shrunk, R.T @ R + shrunk
    _check_rounding(P + A - T.T @ T, T, hat.lam)
    axes, means, shares = _axes(P, A, Y, fitted, hat)
    return Discriminants(R @ axes / hat.lam, beta @ axes, means, shares)


def _targets(codes, n_classes):
    """Return the indicators (N, c) and the centred contrasts (N, c - 1)."""
    Y = np.eye(n_classes)[codes]
    T = Y @ contrasts(n_classes)
    return Y, T - T.mean(axis=0)


def _check_rounding(difference, T, lam):
    """Raise a ValueError where P + A is not T'T."""
    if not np.abs(difference).max() < 1e-6 * np.square(T).sum(axis=0).max():
        raise _too_small(lam)


def _too_small(lam):
    """Return the error of an inverse that is nothing but rounding."""
    return ValueError(
        f"lambda = {lam:.3g} is too small for this kernel: in double precision "
        "the inverse of K_c + lambda I is lost to rounding. Use a larger reg."
    )


def _axes(P, A, Y, fitted, hat):
    """Return the scaled eigenvectors (q, q), class centroids (c, q), shares (q,)."""
    n, n_classes = Y.shape
    ratio, axes = eigh((P + P.T) / 2, (A + A.T) / 2)
    ratio, axes = ratio[::-1], axes[:, ::-1]
    # Where the classes differ by rounding only, there is no direction to scale.
    possible = max(ratio[0], (hat.degrees_of_freedom - 1) / n)
    useful = ratio > n * np.finfo(float).eps * possible
    ratio = np.where(useful, ratio, 0.0)
    axes[:, ~useful] = 0.0
    axes[:, useful] *= np.sqrt((1 + ratio[useful]) / ratio[useful])
    means = Y.T @ fitted @ axes / Y.sum(axis=0)[:, None]
    leading = 1 if n_classes == 2 else np.abs(means).argmax(axis=0)
    signs = np.where(means[leading, np.arange(n_classes - 1)] < 0, -1.0, 1.0)
    shares = ratio / ratio.sum() if ratio.any() else ratio
    return axes * signs, means * signs, shares
