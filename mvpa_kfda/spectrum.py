r"""The eigendecomposition of a kernel, which serves every penalty.

With :math:`K_c = U S U^\top` the residual maker of the hat matrix is, for any lambda,

.. math:: I - G(\lambda) = U \,\mathrm{diag}\frac{\lambda}{s + \lambda}\, U^\top
          - 11^\top / n ,

where U holds all n eigenvectors, the constant one with s = 0 among them. With features
X and their scatter matrix :math:`X_c^\top X_c = V S V^\top`,

.. math:: G(\lambda) = 11^\top / n
          + X_c V \,\mathrm{diag}\frac{1}{s + \lambda}\, V^\top X_c^\top .
"""

from dataclasses import dataclass, replace

import numpy as np
from scipy.linalg import eigh

from .hat import Hat, centre_gram, primal_or_dual, scatter_moments
from .lambdas import Moments


@dataclass(frozen=True)
class Spectrum:
    """A decomposed kernel.

    Attributes
    ----------
    vectors : ndarray, shape (n, n) | (n, p)
        U, or X_c V.
    values : ndarray, shape (n,) | (p,)
        The eigenvalues, ascending; zeros are replaced so that the weights of the
        constant vector keep their digits.
    moments : Moments
        Of the kernel.
    is_primal : bool
        Whether features were decomposed.
    """

    vectors: np.ndarray
    values: np.ndarray
    moments: Moments
    is_primal: bool

    def hat(self, lam):
        """Return the hat for a lambda."""
        n, scale = self.moments.n, self.moments.scale
        if self.is_primal:
            factor = np.empty((n, 1 + len(self.values)))
            factor[:, 0] = n**-0.5
            np.divide(self.vectors, np.sqrt(self.values + lam), out=factor[:, 1:])
            return Hat(None, factor, lam, scale)
        weights = np.sqrt(lam / (self.values + lam))
        root = self.vectors * weights
        residual = root @ root.T
        residual -= lam / (lam + scale) / n  # the constant vector was lifted by `scale`
        return Hat(residual, None, lam, scale)

    def degrees_of_freedom(self, lam):
        """Return the trace of the hat matrix for a lambda."""
        values = self.moments.eigenvalues
        return float(1 + (values / (values + lam)).sum())

    def reordered(self, order):
        """Return the same with its trials in another order."""
        moments = replace(self.moments, diagonal=self.moments.diagonal[order])
        return replace(self, vectors=self.vectors[order], moments=moments)


def spectrum_of_gram(K, n_features=None):
    """Decompose a kernel matrix (n, n)."""
    Kc, moments = centre_gram(K, n_features=n_features)
    n = moments.n
    values, vectors = eigh(Kc + moments.scale / n, check_finite=False)
    values = np.maximum(values, 0.0)
    # The lifted constant vector is one of the vectors; the others are the kernel's.
    known = np.sort(_without_constant(values, vectors))
    return Spectrum(vectors, values, replace(moments, known=known), False)


def _without_constant(values, vectors):
    """Return the kernel's own eigenvalues: zero in place of the lifted constant."""
    constant = np.abs(vectors.sum(axis=0)).argmax()
    return np.where(np.arange(len(values)) == constant, 0.0, values)


def spectrum_of_features(X, n_features=None):
    """Decompose features (n, p) by their scatter matrix."""
    Xc, moments = scatter_moments(X, n_features)
    values, vectors = eigh(moments.matrix, check_finite=False)
    values = np.maximum(values, 0.0)
    return Spectrum(Xc @ vectors, values, replace(moments, known=values), True)


def spectrum_of(X, kernel):
    """Decompose the kernel of features, by the cheaper of the two ways.

    Parameters
    ----------
    X : ndarray, shape (n, p)
        Features, or the kernel matrix with the precomputed kernel.
    kernel : kernel object
        See :mod:`mvpa_kfda.kernels`.

    Returns
    -------
    spectrum : Spectrum
        Of the features' scatter matrix, where :func:`mvpa_kfda.hat.make_hat` would
        make a low-rank hat, else of the kernel matrix.
    """
    kind, values, n_features = primal_or_dual(X, kernel)
    if kind == "primal":
        return spectrum_of_features(values, n_features)
    return spectrum_of_gram(values, n_features)
