"""Training rows under a kernel, and new rows projected by what was learned from them.

Three kinds of columns carry the discriminants to new rows: the features themselves for
a linear kernel, a finite number of features that stand for a kernel (a low-rank kernel,
an empirical map), and otherwise the kernel's values with the training rows.
"""

from dataclasses import dataclass

import numpy as np

from ._checks import check_gram, check_option, check_symmetric
from ._fisher import discriminants_of_features, discriminants_of_kernel
from .empirical_map import EmpiricalMap
from .hat import count_features, hat_from_features, hat_from_gram, prefers_features
from .kernels import Callable, Kernel, KernelChoice, Precomputed, check_kernel
from .lowrank import approximated
from .penalties import check_method, check_reg
from .spectrum import spectrum_of_features, spectrum_of_gram


@dataclass(frozen=True)
class Projection:
    """From rows to discriminant scores.

    Attributes
    ----------
    kernel : kernel object
        With data-dependent numbers fixed.
    shift : ndarray, shape (p,) | None
        What is subtracted from all features first.
    rows : ndarray, shape (N, p) | None
        The training rows, where the columns are the kernel's values with them.
    origin : ndarray, shape (r,)
        The mean of the columns over the training rows.
    coef : ndarray, shape (r, m)
        Weights of the columns.
    """

    kernel: Kernel
    shift: np.ndarray | None
    rows: np.ndarray | None
    origin: np.ndarray
    coef: np.ndarray

    def __call__(self, X):
        """Return the discriminant scores (n, m) of rows (n, p)."""
        if self.shift is not None:
            X = X - self.shift
        if self.rows is not None:
            X = self.kernel(X, self.rows)
        elif not (self.is_of_features or isinstance(self.kernel, Precomputed)):
            X = self.kernel.features(X)
        return (X - self.origin) @ self.coef

    @property
    def is_of_features(self):
        """Whether the columns are the features themselves."""
        return self.kernel.is_linear and not self.kernel.low_rank


@dataclass(frozen=True)
class Training:
    """Training rows under a kernel.

    Attributes
    ----------
    kernel : kernel object
        With data-dependent numbers fixed.
    shift : ndarray, shape (p,) | None
        The mean that was subtracted from the rows.
    rows : ndarray, shape (N, p) | None
        The rows, less the shift. None for a precomputed or a low-rank kernel.
    gram : ndarray, shape (N, N) | None
        The kernel matrix.
    features : ndarray, shape (N, r) | None
        The columns that stand for the kernel, where no (N, N) array may be made, or
        where it would cost more.
    n_features : int | None
        The number of features of a linear kernel, or one that stands for it.
    """

    kernel: Kernel
    shift: np.ndarray | None
    rows: np.ndarray | None
    gram: np.ndarray | None
    features: np.ndarray | None
    n_features: int | None

    def hat(self, reg):
        """Return the hat for a penalty."""
        if self.gram is None:
            return hat_from_features(self.features, reg, self.n_features)
        return hat_from_gram(self.gram, reg, n_features=self.n_features)

    def spectrum(self):
        """Return the eigendecomposition of the kernel."""
        if self.gram is None:
            return spectrum_of_features(self.features, self.n_features)
        return spectrum_of_gram(self.gram, self.n_features)

    def discriminants(self, hat, codes, n_classes):
        """Return all discriminants of the class codes (N,)."""
        if self.gram is None:
            centred = self.features - self.features.mean(axis=0)
            return discriminants_of_features(centred, hat, codes, n_classes)
        centred = self.gram - self.gram.mean(axis=0)
        return discriminants_of_kernel(centred, hat, codes, n_classes)

    def projection(self, found):
        """Return what projects new rows on discriminants."""
        kernel, rows = self.kernel, None
        if kernel.low_rank:
            origin, coef = self.features.mean(axis=0), found.coef
        elif kernel.is_linear:
            origin = self.rows.mean(axis=0)
            if found.coef is None:
                coef = kernel.weights_from_trials(self.rows, found.dual)
            else:
                coef = kernel.weights_from_features(found.coef)
        elif isinstance(kernel, EmpiricalMap):
            columns = kernel.features(self.rows)
            origin, coef = columns.mean(axis=0), columns.T @ found.dual
        else:
            rows, origin, coef = self.rows, self.gram.mean(axis=0), found.dual
        return Projection(kernel, self.shift, rows, origin, coef)


def train(X, kernel):
    """Return training rows (N, p) under a kernel, fitted to them."""
    if isinstance(kernel, Precomputed):
        return Training(kernel, None, None, check_gram(X), None, None)
    if kernel.low_rank:  # takes care of an offset itself
        fitted, n_features = kernel.fit(X), count_features(kernel, X.shape[1])
        return Training(fitted, None, None, None, fitted.features(X), n_features)
    n, p = X.shape
    # An offset common to all trials drops out, and the digits it costs with it.
    shift = X.mean(axis=0) if kernel.shift_free else None
    rows = X.copy() if shift is None else X - shift
    kernel = kernel.fit(rows)
    n_features = count_features(kernel, p)
    if kernel.is_linear and prefers_features(n, p):
        return Training(kernel, shift, rows, None, kernel.features(rows), n_features)
    K = kernel(rows)
    if isinstance(kernel, Callable):
        check_symmetric(K, f"The value of kernel {kernel.function!r}")
    return Training(kernel, shift, rows, K, None, n_features)


def check_model(kernel, reg, penalty, approx):
    """Return the kernel, or the choice of kernels, and the penalty of a model."""
    kernel, reg = check_kernel(kernel), check_reg(reg)
    if check_option("penalty", penalty, ("rkhs", "dual")) == "dual":
        if approx is not None:
            raise ValueError(
                "penalty='dual' has a coefficient for every training row, and "
                "approx=Nystrom(...) is there to do without. Leave out one of them."
            )
        if isinstance(kernel, KernelChoice):
            kernel = kernel.map(EmpiricalMap)
        else:
            kernel = EmpiricalMap(kernel)
    kernel = approximated(kernel, approx)
    check_method(kernel, reg)
    return kernel, reg
