"""Kernels: from features to Gram matrices.

The pairwise kernels are scikit-learn's and so are the meanings of their parameters.
A kernel is a small immutable object. ``kernel.fit(X)`` returns one whose
data-dependent numbers (the median width) are fixed, and ``kernel(X, Y)`` the Gram
matrix. None of this looks at labels.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable as _CallableType
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.metrics.pairwise import euclidean_distances, polynomial_kernel, rbf_kernel

from ..utils.checks import (
    check_array,
    check_count,
    check_option,
    check_positive,
    check_symmetric,
    quoted,
)
from ..utils.plain import Recorded

#: Squares below this, and above its inverse, have lost digits or are about to; and
#: those of values that are to be handled in single precision.
LEAST_SQUARE, LEAST_SQUARE_SINGLE = 1e-280, 1e-60


def check_range(X):
    """Refuse values whose squares are out of range; return the sum of squares."""
    size = np.vdot(X, X)
    if X.any() and not LEAST_SQUARE < size < 1 / LEAST_SQUARE:
        raise ValueError(out_of_range(size))
    return size


def out_of_range(square, precision="double precision"):
    """Word that squares of data are out of the range of floats."""
    size = "small" if square < 1 else "large"
    return (
        f"The values are too {size} for {precision}: their squares are out of its "
        "range. Divide the data by a constant, such as their largest absolute value."
    )


#: Properties of kernels, and whether a choice has those of all of its kernels, or any.
TRAITS = {
    "shift_free": all,
    "assumes_unit_scale": any,
    "is_linear": all,
    "low_rank": any,
}


class Kernel(Recorded):
    """Base class of kernels, with default behaviour."""

    #: Centring the features first changes nothing but the rounding.
    shift_free: ClassVar[bool] = False
    #: Whether the numbers only make sense for features of about unit variance.
    assumes_unit_scale: ClassVar[bool] = False
    #: Whether its values are inner products of a linear map of the features. Such a
    #: kernel has `weights_from_trials` and `weights_from_features`, as Linear has.
    is_linear: ClassVar[bool] = False
    #: Whether it stands for so many trials that only `features` may be used.
    low_rank: ClassVar[bool] = False

    def fit(self, X: ArrayLike) -> Kernel:
        """The kernel with its data-dependent numbers fixed: itself."""
        return self

    def features(self, X: ArrayLike) -> NDArray:
        """Return columns (n, r) whose inner products are the kernel's values."""
        raise TypeError(
            f"{self!r} has no columns of finite number to stand for the features; "
            "linear kernels and Nystrom approximations have."
        )

    def __call__(self, X: ArrayLike, Y: ArrayLike | None = None) -> NDArray:
        """The Gram matrix (n_x, n_y) between the rows of X and of Y (or X)."""
        mapped = self.features(X)
        return mapped @ (mapped if Y is None else self.features(Y)).T

    def of_samples(self, X: ArrayLike) -> tuple[NDArray, Kernel]:
        """What samples are compared by: their features, or a matrix of theirs.

        Samples may be made of several rows of X.
        """
        return X, self

    def map(self, function: _CallableType) -> Any:
        """A function's value for the kernel; a choice has one for each of several."""
        return function(self)

    def take(self, columns: NDArray) -> Kernel:
        """The kernel for some columns of the features."""
        return self

    def repeated(self, times: int) -> Kernel:
        """The kernel for `times` blocks of the columns, side by side."""
        return self


@dataclass(frozen=True)
class Linear(Kernel):
    """Linear kernel, k(x, y) = x'y.

    Examples
    --------
    >>> from mvpa_kfda import Linear
    >>> Linear()([[1.0, 2.0]], [[3.0, 4.0]])
    array([[11.]])
    """

    shift_free: ClassVar[bool] = True
    is_linear: ClassVar[bool] = True

    def features(self, X: ArrayLike) -> NDArray:
        """Return the features themselves."""
        return np.asarray(X)

    def weights_from_trials(self, X: ArrayLike, dual: NDArray) -> NDArray:
        """Return the weights (p, m) of the features for weights (n, m) of trials."""
        return X.T @ dual

    def weights_from_features(self, coef: NDArray) -> NDArray:
        """Return the weights (p, m) of the features for those of `features`."""
        return coef


class ScaledKernel(Kernel):
    """A kernel whose `gamma` is one over the number of features where it is None."""

    #: What gamma may be, beside a number and None.
    _named: ClassVar[tuple[str, ...]] = ()

    def __post_init__(self):
        """Check gamma."""
        gamma, names = self.gamma, self._named
        if gamma is not None and not (isinstance(gamma, str) and gamma in names):
            others = quoted((*names, None))
            check_positive("gamma", gamma, hint=f" Or one of {others}.")

    @property
    def assumes_unit_scale(self) -> bool:
        """Whether gamma presumes features of about unit variance."""
        return self.gamma is None

    def fit(self, X: ArrayLike) -> Kernel:
        """Return the kernel with its gamma as a number."""
        gamma = 1.0 / X.shape[1] if self.gamma is None else self.gamma
        return replace(self, gamma=float(gamma))


@dataclass(frozen=True)
class RBF(ScaledKernel):
    """Gaussian kernel, k(x, y) = exp(-gamma ||x - y||^2).

    Parameters
    ----------
    gamma : float | "median" | None
        The inverse squared bandwidth, in the inverse squared unit of the features.
        ``"median"`` is the inverse of the median squared distance between two trials,
        computed without labels (from all rows in the direct functions, from the
        training rows in :class:`KernelFDA`). ``None`` is 1 / n_features, as in
        scikit-learn.

    Raises
    ------
    ValueError
        If gamma is not positive or is an unknown name.

    Examples
    --------
    >>> from mvpa_kfda import RBF
    >>> RBF(gamma=0.5)([[0.0], [2.0]]).round(3)
    array([[1.   , 0.135],
           [0.135, 1.   ]])
    """

    gamma: float | str | None = "median"
    shift_free: ClassVar[bool] = True
    _named: ClassVar[tuple[str, ...]] = ("median",)

    def fit(self, X: ArrayLike) -> RBF:
        """Return the kernel with its width as a number."""
        if self.gamma != "median":
            return super().fit(X)
        # Centred, since distances from inner products lose digits to an offset.
        distances = euclidean_distances(X - X.mean(axis=0), squared=True)
        median = np.median(distances[np.triu_indices(len(distances), k=1)])
        if 0 < median < LEAST_SQUARE or not np.isfinite(median):
            raise ValueError(out_of_range(median))
        if not median > 0:
            raise ValueError(
                "gamma='median' needs trials that differ: the median squared distance "
                "between two trials is 0. Pass gamma as a number, or check the data."
            )
        return replace(self, gamma=float(1.0 / median))

    def __call__(self, X: ArrayLike, Y: ArrayLike | None = None) -> NDArray:
        """The Gram matrix (n_x, n_y) between the rows of X and of Y (or X)."""
        kernel = self if not isinstance(self.gamma, str) else self.fit(np.asarray(X))
        return rbf_kernel(X, Y, gamma=kernel.gamma)


@dataclass(frozen=True)
class Polynomial(ScaledKernel):
    """Polynomial kernel, k(x, y) = (gamma x'y + coef0)^degree.

    Parameters
    ----------
    degree : int
        The degree, 1 or more.
    gamma : float | None
        Scale of the inner product. ``None`` is 1 / n_features, as in scikit-learn,
        suitable for features of about unit variance.
    coef0 : float
        The constant, 0 or more.

    Raises
    ------
    ValueError
        If degree is below 1, gamma is not positive or coef0 is negative.

    Examples
    --------
    >>> from mvpa_kfda import Polynomial
    >>> Polynomial(degree=2, gamma=1.0)([[1.0, 2.0]], [[3.0, 4.0]])
    array([[144.]])
    """

    degree: int = 3
    gamma: float | None = None
    coef0: float = 1.0

    def __post_init__(self):
        """Check the parameters."""
        degree = check_count("degree", self.degree, minimum=1)
        object.__setattr__(self, "degree", degree)
        super().__post_init__()
        check_positive("coef0", self.coef0, zero=True)

    def __call__(self, X: ArrayLike, Y: ArrayLike | None = None) -> NDArray:
        """The Gram matrix (n_x, n_y) between the rows of X and of Y (or X)."""
        return polynomial_kernel(
            X, Y, degree=self.degree, gamma=self.gamma, coef0=self.coef0
        )


@dataclass(frozen=True)
class Precomputed(Kernel):
    """The features are already a Gram matrix; it is handed through."""

    def __call__(self, X, Y=None):
        """The given Gram matrix."""
        return np.asarray(X)


@dataclass(frozen=True)
class InnerProducts(Precomputed):
    """The features are already a linear kernel's matrix, of so many features."""

    n_features: int


@dataclass(frozen=True)
class Callable(Kernel):
    """Any function ``function(X, Y) -> (n_x, n_y)`` as a kernel."""

    function: _CallableType

    def __call__(self, X, Y=None):
        """The function's Gram matrix, checked for shape and finite values."""
        Y = X if Y is None else Y
        try:
            K = self.function(X, Y)
        except Exception as error:
            raise ValueError(
                f"kernel {self.function!r} failed when called as function(X, Y), with "
                f"arrays {np.shape(X)} and {np.shape(Y)}: {type(error).__name__}: "
                f"{error}"
            ) from error
        K = check_array(K, f"The value of kernel {self.function!r}")
        if K.shape != (len(X), len(Y)):
            raise ValueError(
                f"kernel {self.function!r} must return one value per pair of rows, "
                f"shape {(len(X), len(Y))}; got {K.shape}."
            )
        return K


@dataclass(frozen=True)
class KernelChoice:
    """Several kernels, two or more, one of which is chosen inside every fold."""

    kernels: tuple[Kernel, ...]

    def __post_init__(self):
        """Have a property of kernels if all of them have it, or any."""
        for name, over in TRAITS.items():
            among = over(getattr(kernel, name) for kernel in self.kernels)
            object.__setattr__(self, name, among)

    def map(self, function):
        """The choice among a function's values for the kernels."""
        return KernelChoice(tuple(function(kernel) for kernel in self.kernels))

    def take(self, columns):
        """The choice for some columns of the features."""
        return self.map(lambda kernel: kernel.take(columns))

    def repeated(self, times):
        """The choice for `times` blocks of the columns, side by side."""
        return self.map(lambda kernel: kernel.repeated(times))


KernelName = Literal["linear", "rbf", "polynomial", "precomputed"]
OneKernel = KernelName | str | Kernel | _CallableType[[Any, Any], Any]
KernelLike = OneKernel | Sequence[OneKernel]


def gram_of(X, kernel):
    """A fitted kernel's matrix (n, n); that of a user's function is checked."""
    K = kernel(X)
    if isinstance(kernel, Callable):
        check_symmetric(K, f"The value of kernel {kernel.function!r}")
    return K


def kernels_of(kernel):
    """The kernels to choose from, often a single one."""
    return kernel.kernels if isinstance(kernel, KernelChoice) else (kernel,)


#: The kernels known by name.
KERNELS = {
    "linear": Linear,
    "rbf": RBF,
    "polynomial": Polynomial,
    "precomputed": Precomputed,
}


def check_kernel(kernel, allowed=tuple(KERNELS)):
    """The kernel object for a name, a kernel object, a callable, or a list."""
    if isinstance(kernel, str):
        return KERNELS[check_option("kernel", kernel, allowed)]()
    if isinstance(kernel, type):
        needed, kind = [], inspect.Parameter.POSITIONAL_OR_KEYWORD
        with suppress(ValueError):  # of some built-in classes nothing is known
            given = inspect.signature(kernel).parameters.values()
            needed = [x.name for x in given if x.kind == kind and x.default is x.empty]
        raise TypeError(
            f"Invalid value for 'kernel': the class {kernel.__name__}. Pass an "
            f"instance, e.g. {kernel.__name__}({', '.join(needed)})."
        )
    if isinstance(kernel, (Kernel, KernelChoice)):
        return kernel
    if isinstance(kernel, (list, tuple)):
        return _check_choice(kernel, allowed)
    if callable(kernel):
        return Callable(kernel)
    if hasattr(kernel, "get_params"):
        raise TypeError(
            f"Invalid value for 'kernel': the estimator {type(kernel).__name__}. Steps "
            "that look at no labels belong in preprocess=. Others need refitting: put "
            "KernelFDA at the end of a pipeline, and use "
            "sklearn.model_selection.cross_val_score."
        )
    raise TypeError(
        f"Invalid value for 'kernel': {kernel!r}. Allowed: {quoted(allowed)}, a kernel "
        "object such as RBF(gamma=0.1), a function of (X, Y), or a list of these to "
        "choose from."
    )


def _check_choice(kernels, allowed):
    """The choice among a list of kernels."""
    if len(kernels) < 2:
        raise ValueError(
            f"Invalid value for 'kernel': {kernels!r}. A list is a choice, of two or "
            "more kernels; pass a single kernel without the list."
        )
    kernels = tuple(check_kernel(kernel, allowed) for kernel in kernels)
    if any(isinstance(kernel, KernelChoice) for kernel in kernels):
        raise ValueError(
            "Invalid value for 'kernel': a list within a list. Pass one flat list."
        )
    if any(needs_gram(kernel) for kernel in kernels):
        raise ValueError(
            "Invalid value for 'kernel': 'precomputed' within a list. There is one "
            "matrix only, so nothing is left to choose; pass kernels of features."
        )
    return KernelChoice(kernels)


def innermost(kernel):
    """The kernel of features that an approximation or a map is of."""
    while isinstance(getattr(kernel, "kernel", None), Kernel):
        kernel = kernel.kernel
    return kernel


def needs_gram(kernel):
    """Whether the data are a kernel matrix and not features."""
    kernel = getattr(kernel, "kernel", kernel)  # as an empirical map has one
    return isinstance(kernel, Precomputed)


def check_feature_kernel(kernel):
    """A kernel object that computes from features."""
    if isinstance(kernel, str) and kernel == "precomputed":
        kernel = Precomputed()
    kernel = check_kernel(kernel, [name for name in KERNELS if name != "precomputed"])
    if needs_gram(kernel):
        raise ValueError(
            "Invalid value for 'kernel': 'precomputed'. The data hold features; pass a "
            "kernel to compute from them, or call cross_validate with your own matrix."
        )
    return kernel


def for_channels(kernel, ch_names):
    """The kernel for some channels, where it knows channels by name."""

    def of_one(kernel):
        inner = getattr(kernel, "kernel", None)
        if isinstance(inner, Kernel):  # as approximations and empirical maps have one
            return replace(kernel, kernel=of_one(inner))
        named = getattr(kernel, "names", None) is not None
        return kernel.for_channels(ch_names) if named else kernel

    return kernel.map(of_one)


def check_size(kernel, n_features):
    """Refuse kernels that are for another number of features than there are in all."""
    for inner in map(innermost, kernels_of(kernel)):
        size = getattr(inner, "n_features", n_features)
        if size != n_features:
            raise ValueError(
                f"{inner!r} is for {size} features, and the data have {n_features} "
                "that are decoded: voxels in the mask and in regions, picked channels. "
                "Build it for these, in their order, e.g. with its method take."
            )
