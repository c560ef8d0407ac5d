r"""Kernels: from features to Gram matrices, and label-free maps of rows.

The pairwise kernels are scikit-learn's and so are the meanings of their parameters.
A kernel is a small immutable object. ``kernel.fit(X)`` returns one whose
data-dependent numbers (the median width) are fixed, and ``kernel(X, Y)`` the Gram
matrix. None of this looks at labels.

The values of other kernels are the inner products of rows that a map returns: ridge
regression with such a kernel is ridge regression on its `features`. Three kinds of
maps:

* The Nystrom method lets a few landmarks Z speak for all trials,

  .. math:: K \approx K_{XZ} K_{ZZ}^{+} K_{ZX} = \Phi \Phi^\top, \qquad
            \Phi = K_{XZ} U S^{-1/2}, \quad K_{ZZ} = U S U^\top ,

  so that no (n, n) matrix is ever made: the columns of :math:`\Phi` (n, r) are features
  of a linear kernel (:func:`mvpa_kfda.kfda.hat.hat_from_features`).
* The empirical map takes all rows as landmarks, and the kernel's values themselves as
  features: a ridge on their weights is one on dual coefficients.
* A quadratic penalty :math:`w^\top \Omega w` knows which weights belong together: with
  the Laplacian of a graph of neighbouring sensors, voxels or pixels it is the roughness
  of the weights, and the discriminants come out smooth. With :math:`\Omega = L L^\top`
  it is a ridge on the weights of :math:`X L^{-\top}`.

The direct functions fit a map on all rows, which are needed without labels only;
:class:`KernelFDA` and folds with steps or training sets of their own on training rows.
"""

from __future__ import annotations

import copy
import inspect
import math
import warnings
from collections.abc import Callable as _CallableType
from collections.abc import Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from hashlib import sha1
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse
from scipy.linalg import LinAlgError, cholesky, eigh, solve_triangular
from scipy.sparse.linalg import splu
from sklearn.cluster import KMeans
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics.pairwise import euclidean_distances, polynomial_kernel, rbf_kernel
from sklearn.utils import gen_batches
from threadpoolctl import threadpool_limits

from ..utils.checks import (
    check_array,
    check_count,
    check_finite,
    check_gram,
    check_numbers,
    check_option,
    check_positive,
    check_symmetric,
    invalid,
    quoted,
)
from ..utils.plain import Recorded

Matrix = ArrayLike | sparse.sparray | sparse.spmatrix
Adjacency = Matrix | tuple[Matrix, Sequence[str]]

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
        return rbf_kernel(X, Y, gamma=self.fit(np.asarray(X)).gamma)


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
            f"Invalid value for 'kernel': the estimator {type(kernel).__name__}. "
            "Transformers belong in preprocess=."
        )
    objects = "a kernel object such as RBF(gamma=0.1), a function of (X, Y)"
    allowed = f"{quoted(allowed)}, {objects}, or a list of these to choose from"
    raise invalid("kernel", kernel, allowed, TypeError)


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
    if any(map(needs_gram, kernels)):
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
    """Whether the data are a kernel matrix and not features, also by name."""
    kernel = getattr(kernel, "kernel", kernel)  # as an empirical map has one
    by_name = isinstance(kernel, str) and kernel == "precomputed"
    return by_name or isinstance(kernel, Precomputed)


def check_feature_kernel(kernel):
    """A kernel object that computes from features."""
    if needs_gram(kernel):
        raise ValueError(
            "Invalid value for 'kernel': 'precomputed'. The data hold features; pass a "
            "kernel to compute from them, or call cross_validate with your own matrix."
        )
    return check_kernel(kernel, [name for name in KERNELS if name != "precomputed"])


def for_channels(kernel, ch_names):
    """The kernel for some channels, where it knows channels by name."""

    def of_one(kernel):
        inner = getattr(kernel, "kernel", None)
        if isinstance(inner, Kernel):  # as approximations and empirical maps have one
            return replace(kernel, kernel=of_one(inner))
        named = getattr(kernel, "for_channels", None)
        return named(ch_names) if named and kernel.names is not None else kernel

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


# ------------------------------------------------------------------------ maps of rows

#: Rows from which a kernel's own numbers are taken, such as the median distance.
_FIT_ROWS = 2000
#: Values of one block of rows against the landmarks.
_BLOCK_VALUES = 2**20
#: Steps of k-means. Later ones move the centres little.
_KMEANS_STEPS = 10
#: The ways to choose landmarks.
SAMPLING = ("kmeans", "uniform")
#: Negative eigenvalues that are no rounding, relative to the largest.
_NEGATIVE = 1e-8
#: Features from which a sparse matrix is kept sparse when it is factored.
_LARGE = 3000
#: Of an attribute that `fit` sets.
_FITTED = {"default": None, "init": False, "repr": False, "compare": False}


@dataclass(frozen=True)
class KernelMap(Kernel):
    """A map of rows to features that are made of the values of another `kernel`."""

    #: The rows (r, p) that others are compared with, once fitted: of landmarks less the
    #: offset.
    #: (Written out, for type checkers.)
    basis: np.ndarray | None = field(
        default=None, init=False, repr=False, compare=False
    )

    @property
    def shift_free(self) -> bool:
        """Whether centring the features first changes nothing but the rounding."""
        return self.kernel.shift_free

    @property
    def assumes_unit_scale(self) -> bool:
        """Whether the kernel's numbers presume features of about unit variance."""
        return self.kernel.assumes_unit_scale

    def _with(self, kernel, **fitted):
        """The map of another kernel, with what has been fitted."""
        new = replace(self, kernel=kernel)
        for name, value in fitted.items():
            object.__setattr__(new, name, value)
        return new

    def __call__(self, X: ArrayLike, Y: ArrayLike | None = None) -> NDArray:
        """The Gram matrix (n_x, n_y) between the rows of X and of Y (or X)."""
        fitted = self if self.basis is not None else self.fit(X)
        return super(KernelMap, fitted).__call__(X, Y)

    def take(self, columns: NDArray) -> Kernel:
        """The map for some columns of the features, to be fitted again."""
        return self._with(self.kernel.take(columns))

    def repeated(self, times: int) -> Kernel:
        """The map for blocks of columns side by side, to be fitted again."""
        return self._with(self.kernel.repeated(times))


@dataclass(frozen=True)
class EmpiricalMap(KernelMap):
    r"""Empirical kernel map: the features of x are k(x, b_1), ..., k(x, b_m).

    The basis b consists of the rows given to `fit`. The values are therefore

    .. math:: \tilde k(x, y) = \sum_j k(x, b_j) \, k(y, b_j),

    and a ridge penalty on their weights is a penalty on the dual coefficients, the
    weights of the trials. With it, kernel Fisher discriminants have the within-class
    matrix :math:`N + \mu I` of [1]_; the classifier of [2]_ is the two-class case.
    Without this map, the penalty is on the weights in the feature space of the kernel.

    Parameters
    ----------
    kernel : str | kernel object | callable, default="rbf"
        The kernel k: ``"linear"``, ``"rbf"`` (Gaussian), ``"polynomial"``, an object
        such as ``RBF(gamma=0.1)``, or a function ``f(X, Y) -> (n_x, n_y)``. With
        ``"precomputed"``, the data are the kernel matrix and its columns the features.

    Raises
    ------
    TypeError, ValueError
        If `kernel` is not a kernel, or is a list.

    See Also
    --------
    KernelFDA : With ``penalty="dual"``, uses this map of the training rows.

    Notes
    -----
    In the direct functions all rows, without their labels, form the basis. The label of
    a left-out trial is thus not used to predict it, but the trial remains a basis
    function of the model that predicts it. This is the only difference between the
    closed-form leave-one-out and leaving the trial out entirely.

    Shifting the features changes the map of a linear kernel, since its basis is shifted
    too.

    References
    ----------
    .. [1] Mika, Ratsch, Weston, Scholkopf & Muller (1999). Fisher discriminant analysis
       with kernels. Neural Networks for Signal Processing IX, 41-48.
    .. [2] Cawley & Talbot (2003). Efficient leave-one-out cross-validation of kernel
       Fisher discriminant classifiers. Pattern Recognition 36(11), 2585-2592.

    Examples
    --------
    >>> from mvpa_kfda import EmpiricalMap
    >>> fitted = EmpiricalMap("linear").fit([[1.0], [2.0]])
    >>> fitted([[1.0]], [[3.0]])  # (1, 2) times (3, 6)
    array([[15.]])
    """

    kernel: Kernel | str | _CallableType = "rbf"

    def __post_init__(self):
        """Check the kernel."""
        kernel = check_kernel(self.kernel)
        if isinstance(kernel, KernelChoice):
            raise TypeError(
                "Invalid value for 'kernel' of EmpiricalMap: a list. Pass a list of "
                "maps instead, e.g. [EmpiricalMap(RBF(0.1)), EmpiricalMap(RBF(1.0))]."
            )
        object.__setattr__(self, "kernel", kernel)

    @property
    def shift_free(self) -> bool:
        """Whether the values of the kernel itself survive a shift, as of distances."""
        return self.kernel.shift_free and not self.kernel.is_linear

    def fit(self, X: ArrayLike) -> EmpiricalMap:
        """Return the map whose basis are the rows of X."""
        X = np.asarray(X)
        if isinstance(self.kernel, Precomputed):
            X = check_gram(X)
        return self._with(self.kernel.fit(X), basis=X)

    def features(self, X: ArrayLike) -> NDArray:
        """Return the kernel's values (n, n_basis) between rows and basis."""
        return self.kernel(X, self.basis)

    def weights_from_features(self, coef: NDArray) -> NDArray:
        """Return the weights (p, m) of a linear kernel's features, once fitted.

        For weights (n_basis, m) of the columns of `features`.
        """
        return self.kernel.weights_from_trials(self.basis, coef)

    def take(self, columns: NDArray) -> Kernel:
        """Return the map for some columns of the features."""
        basis = None if self.basis is None else self.basis[:, columns]
        return self._with(self.kernel.take(columns), basis=basis)


# -------------------------------------------------------------------------- landmarks


@dataclass(frozen=True)
class Nystrom(Recorded):
    r"""Approximate kernels with landmarks, if an (n, n) matrix would be too large.

    With landmarks Z, the kernel matrix of all trials becomes :math:`K_{XZ} K_{ZZ}^{+}
    K_{ZX}` [1]_. Time and memory grow linearly with n, rather than cubically and
    quadratically. With ``n_components`` equal to the number of trials, the kernel is
    exact.

    Parameters
    ----------
    n_components : int
        Number r of landmarks, at most the number of trials. Directions in which the
        landmarks do not differ are dropped.
    sampling : "kmeans" | "uniform"
        ``"kmeans"``: the centres of r clusters [2]_, more accurate. ``"uniform"``:
        trials drawn at random without replacement, which is faster.
    random_state : int | None
        The seed. ``None`` draws different landmarks each time.

    Raises
    ------
    ValueError
        If a parameter is not one of the values above.

    Notes
    -----
    Landmarks are taken from all trials in the direct functions, from the training
    trials in :class:`KernelFDA`. They never depend on labels, so cross-validated scores
    and p-values remain valid. Data-dependent kernel parameters, such as the median
    distance, are computed from 2000 random trials if there are more.

    A linear kernel with fewer features than half the number of trials needs no
    approximation: it is exact, also without an (n, n) matrix.

    References
    ----------
    .. [1] Williams & Seeger (2001). Using the Nystrom method to speed up kernel
       machines. NIPS 13.
    .. [2] Zhang, Tsang & Kwok (2008). Improved Nystrom low-rank approximation and error
       analysis. ICML.

    Examples
    --------
    >>> import numpy as np
    >>> from mvpa_kfda import Nystrom
    >>> X = np.random.default_rng(0).normal(size=(1000, 3))
    >>> kernel = Nystrom(n_components=50).approximate("rbf").fit(X)
    >>> kernel.features(X).shape
    (1000, 50)
    >>> bool(np.abs(kernel(X) - kernel.kernel(X)).mean() < 0.001)
    True
    """

    n_components: int
    sampling: Literal["kmeans", "uniform"] = "kmeans"
    random_state: int | None = 0

    def __post_init__(self):
        """Check the parameters."""
        n_components = check_count("n_components", self.n_components, minimum=1)
        object.__setattr__(self, "n_components", n_components)
        check_option("sampling", self.sampling, SAMPLING)
        if self.random_state is not None:
            check_count("random_state", self.random_state, most=math.inf)

    def _landmarks(self, X, rng):
        """Centres of clusters of the rows of X, or some rows, (r, p)."""
        r = self.n_components
        if self.sampling == "uniform":
            return X[rng.choice(len(X), r, replace=False)]
        seed = int(rng.integers(2**31))
        steps = {"n_init": 1, "max_iter": _KMEANS_STEPS, "random_state": seed}
        # One thread: sums in another order would make the last digits a matter of luck.
        # That few steps do not converge, or that some trials are equal, does no harm.
        with threadpool_limits(1, user_api="openmp"), warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            return KMeans(r, init="random", **steps).fit(X).cluster_centers_

    def approximate(self, kernel: KernelLike) -> Any:
        """Return the low-rank kernel of a kernel.

        Parameters
        ----------
        kernel : str | kernel object | callable | list of these
            The kernel to approximate, as in the decoding functions: ``"linear"``,
            ``"rbf"``, ``"polynomial"``, an object such as ``RBF(gamma=0.1)``, or a
            function ``f(X, Y) -> (n_x, n_y)``. Not a precomputed kernel.

        Returns
        -------
        kernel : LowRank | KernelChoice
            Kernels of a list are approximated one by one.

        Raises
        ------
        ValueError
            If the kernel is precomputed or already low-rank.
        """
        return check_kernel(kernel).map(partial(LowRank, approx=self))


def approximated(kernel, approx):
    """The approximation of a kernel object; without `approx` the kernel itself."""
    if approx is None:
        return kernel
    if not isinstance(approx, Nystrom):
        raise invalid("approx", approx, "None, or Nystrom(n_components=...)", TypeError)
    return approx.approximate(kernel)


@dataclass(frozen=True)
class LowRank(KernelMap):
    """The Nystrom approximation of a kernel, made by :meth:`Nystrom.approximate`."""

    #: What is approximated, and how.
    kernel: Kernel
    approx: Nystrom
    #: What is subtracted from all features (p,): their mean, if the kernel does not
    #: care. Distances from inner products would lose digits to it.
    offset: np.ndarray | None = field(**_FITTED)
    #: The columns of U S^(-1/2) that are not null directions of Z, (r, rank).
    whitening: np.ndarray | None = field(**_FITTED)
    low_rank: ClassVar[bool] = True

    def __post_init__(self):
        """Check that there is something to approximate."""
        if needs_gram(self.kernel):
            raise ValueError(
                "approx=Nystrom(...) needs features to choose landmarks from; with "
                "kernel='precomputed' the (n, n) matrix is there already. Pass the "
                "features and their kernel, or leave out approx."
            )
        if self.kernel.low_rank:
            raise ValueError(
                f"{self.kernel!r} is an approximation already. Pass the kernel without "
                "its approximation, or leave out approx."
            )

    @property
    def landmarks(self):
        """The landmarks (r, p), less the offset."""
        return self.basis

    def fit(self, X):
        """The kernel with landmarks from the rows of X, (n, p)."""
        X, r = np.asarray(X), self.approx.n_components
        n, p = X.shape
        if r > n:
            raise ValueError(
                f"Nystrom(n_components={r}) has more landmarks than the {n} trials to "
                f"take them from. Use an n_components of at most {n}; with so few "
                "trials nothing need be approximated: leave out approx."
            )
        rng = np.random.default_rng(self.approx.random_state)
        offset = X.mean(axis=0) if self.kernel.shift_free else np.zeros(p)
        rows = X if n <= _FIT_ROWS else X[rng.choice(n, _FIT_ROWS, replace=False)]
        kernel = self.kernel.fit(rows - offset)
        Z = (X if r == n else self.approx._landmarks(X, rng)) - offset
        return self._with(kernel, offset=offset, basis=Z, whitening=_root(kernel, Z))

    def features(self, X):
        """Return columns (n, rank) whose inner products are the kernel's values."""
        X = np.asarray(X)
        if self.basis is None:
            return self.fit(X).features(X)
        features = np.empty((len(X), self.whitening.shape[1]))
        size = max(1, _BLOCK_VALUES // max(self.basis.shape))
        for rows in gen_batches(len(X), size):
            values = self.kernel(X[rows] - self.offset, self.basis)
            np.matmul(values, self.whitening, out=features[rows])
        return features

    def weights_from_features(self, coef: NDArray) -> NDArray:
        """The weights (p, m) of a linear kernel's features, once fitted.

        For weights (rank, m) of the columns of `features`.
        """
        return self.kernel.weights_from_trials(self.basis, self.whitening @ coef)


def _root(kernel, Z):
    """U S^(-1/2) of the kernel matrix of landmarks Z, without null directions."""
    K = kernel(Z)
    if not np.isfinite(K).all():
        raise ValueError(
            "The kernel matrix overflows double precision. Rescale the features."
        )
    check_symmetric(K, f"The value of kernel {kernel!r}")
    values, vectors = eigh(K)
    if values[0] < -_NEGATIVE * np.abs(values).max():
        raise ValueError(
            f"The kernel {kernel!r} is not positive semi-definite: its matrix of "
            f"landmarks has eigenvalues from {values[0]:.3g} to {values[-1]:.3g}. Use "
            "similarities, which are largest between a trial and itself, not distances."
        )
    keep = values > len(K) * np.finfo(float).eps * values[-1]
    return vectors[:, keep] / np.sqrt(values[keep])


# -------------------------------------------------------------- penalties of weights


_solve_lower = partial(solve_triangular, lower=True, check_finite=False)


class DefiniteMatrix:
    """A symmetric positive definite matrix, factored once and only when needed."""

    def __init__(self, matrix, subject):
        self.matrix, self.subject = matrix, subject

    def __getstate__(self):
        # The factors are made again where they are needed: SuperLU's cannot be sent.
        return {"matrix": self.matrix, "subject": self.subject}

    @property
    def stays_sparse(self):
        """Whether the matrix is too large to be made dense for nothing."""
        return sparse.issparse(self.matrix) and self.matrix.shape[0] > _LARGE

    @cached_property
    def cholesky(self):
        """The lower factor L with L L' the matrix."""
        dense = self.matrix.toarray() if sparse.issparse(self.matrix) else self.matrix
        with self._checked():
            return cholesky(dense, lower=True, check_finite=False)

    @cached_property
    def lu(self):
        """The sparse factors, without pivoting, as suits a positive definite matrix."""
        options = {"diag_pivot_thresh": 0.0, "options": {"SymmetricMode": True}}
        with self._checked():
            lu = splu(self.matrix.tocsc(), permc_spec="MMD_AT_PLUS_A", **options)
            # Only then are the diagonal of U the pivots, all of them above zero.
            if np.any(lu.perm_r != lu.perm_c) or not np.all(lu.U.diagonal() > 0):
                raise LinAlgError
            return lu

    @contextmanager
    def _checked(self):
        """Say of a matrix that cannot be factored that it is not positive definite."""
        try:
            yield
        except (LinAlgError, RuntimeError):  # of SuperLU where it is exactly singular
            raise ValueError(
                f"{self.subject} is not positive definite, so that some weights would "
                "cost nothing. Add a small multiple of the identity to it."
            ) from None

    @cached_property
    def digest(self):
        """A few letters that tell apart matrices of the same size."""
        parts = [self.matrix]
        if sparse.issparse(self.matrix):
            where = self.matrix.indices, self.matrix.indptr
            parts = [self.matrix.data, *(index.astype(np.int64) for index in where)]
        return sha1(b"".join(part.tobytes() for part in parts)).hexdigest()[:8]

    def whiten(self, rows):
        """Return rows times L^-T, (m, p)."""
        return _solve_lower(self.cholesky, rows.T).T

    def unwhiten(self, columns):
        """Return L^-T times columns, (p, m)."""
        return _solve_lower(self.cholesky, columns, trans="T")

    def solve(self, columns):
        """The inverse times columns, (p, m)."""
        if self.stays_sparse:
            return self.lu.solve(np.ascontiguousarray(columns))
        return self.unwhiten(_solve_lower(self.cholesky, columns))


def _submatrix(matrix, columns, blocks):
    """The rows and columns of a matrix, of all its blocks if repeated."""
    if blocks > 1:
        matrix = sparse.kron(sparse.eye_array(blocks), matrix, format="csr")
    index = np.arange(matrix.shape[0])[columns]
    return matrix[index][:, index]


def _symmetric(matrix, name):
    """A symmetric matrix of finite numbers, sparse if it was."""
    is_sparse = sparse.issparse(matrix)
    if not is_sparse:
        matrix = check_numbers(matrix, name)
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1] or not matrix.shape[0]:
        raise ValueError(
            f"{name} must be square, (n_features, n_features); got {matrix.shape}."
        )
    if matrix.dtype.kind not in "biuf":
        raise TypeError(
            f"{name} must hold real numbers or booleans; got dtype {matrix.dtype}."
        )
    make = sparse.csr_array if is_sparse else np.asarray
    matrix = make(matrix, dtype=np.float64)
    if not np.isfinite(matrix.data if is_sparse else matrix).all():
        raise ValueError(f"{name} holds NaN or infinite values; it needs finite ones.")
    difference = abs(matrix - matrix.T).max()
    if difference > 1e-8 * abs(matrix).max():
        raise ValueError(
            f"{name} must be symmetric; the largest difference between it and its "
            f"transpose is {difference:.3g}. If one direction is enough, pass the mean "
            "of both: (A + A.T) / 2."
        )
    return (matrix + matrix.T) / 2  # throughout, not but for rounding


_PAIR = "the pair (adjacency, names) that mne.channels.find_ch_adjacency returns"
_STRENGTH_HINT = (
    " It is 0 or more. To choose among several, pass a list of kernels: "
    "kernel=[GraphSmooth(adjacency, s) for s in (1, 10)], reg='tuned'."
)


class Penalty(Kernel):
    r"""Quadratic penalty on the weights of the features, as a kernel.

    Ridge regression with the kernel :math:`K = X \Omega^{-1} X^\top` is regression on
    the features with the penalty :math:`\lambda\, w^\top \Omega w` on their weights w.
    With optimal scoring it becomes penalised discriminant analysis [1]_, in which

    .. math:: W^\top (S_w + \lambda \Omega) W = I.

    Parameters
    ----------
    Omega : array or sparse matrix of shape (n_features, n_features)
        Symmetric and positive definite. It is factorised once, on first use; sparse
        matrices larger than 3000 remain sparse.

    Attributes
    ----------
    Omega : ndarray or sparse array of shape (n_features, n_features)
        The matrix.
    n_features : int
        Number of features of the penalty.

    Raises
    ------
    TypeError, ValueError
        If Omega is not a matrix of finite numbers, or is not square or symmetric. In
        use: if it is not positive definite or does not match the data.

    See Also
    --------
    GraphSmooth : Penalty on differences between neighbouring weights.

    Notes
    -----
    A float for ``reg`` is relative to the kernel, so that the scale of Omega does not
    matter; with ``Ridge(lam)`` it does. For a subset of the features, as in a
    searchlight, the weights outside are zero and the penalty is the principal
    submatrix of Omega.

    References
    ----------
    .. [1] Hastie, Buja & Tibshirani (1995). Penalized discriminant analysis. Annals of
       Statistics 23(1), 73-102.

    Examples
    --------
    A penalty ten times as large on the second feature:

    >>> import numpy as np
    >>> from mvpa_kfda import Penalty
    >>> kernel = Penalty(np.diag([1.0, 10.0]))
    >>> kernel([[1.0, 0.0], [0.0, 1.0]])
    array([[1. , 0. ],
           [0. , 0.1]])
    """

    shift_free = True
    is_linear = True

    def __init__(self, Omega: Matrix):
        self.Omega = _symmetric(Omega, "Omega")
        self._blocks = 1
        self._factor = DefiniteMatrix(self.Omega, "Omega")

    @property
    def n_features(self) -> int:
        """Number of features of the penalty."""
        return self.Omega.shape[0] * self._blocks

    def _shown(self):
        """What stands between the parentheses of the representation."""
        return f"{self.Omega.shape[0]} features, {self._factor.digest}"

    def _recorded_arguments(self):
        """What a result records; digits stand for the matrix."""
        sizes = {"n_features": self.n_features, "blocks": self._blocks}
        return sizes | {"checksum": self._factor.digest}

    def __repr__(self):
        """A short line; its digits stand for the matrix."""
        times = f".repeated({self._blocks})" if self._blocks > 1 else ""
        return f"{type(self).__name__}({self._shown()}){times}"

    def __eq__(self, other):
        """Whether both are the same penalty."""
        return type(self) is type(other) and repr(self) == repr(other)

    def __hash__(self):
        """The hash of the representation."""
        return hash(repr(self))

    def fit(self, X: ArrayLike) -> Penalty:
        """Return the kernel itself, having checked the number of columns."""
        self._rows(X)
        return self

    def _rows(self, X):
        """Return X with its blocks one below the other, (n * blocks, p)."""
        X = np.asarray(X, dtype=np.float64)
        if X.shape[1] != self.n_features:
            blocks = f" in each of {self._blocks} blocks" if self._blocks > 1 else ""
            raise ValueError(
                f"The matrix of {self!r} is for {self.n_features // self._blocks} "
                f"features{blocks}, and the data have {X.shape[1]} in all. Pass one "
                "row and column per feature, in the order of the data."
            )
        return X.reshape(-1, X.shape[1] // self._blocks)

    def features(self, X: ArrayLike) -> NDArray:
        """Return the whitened features X L^-T, where L L' = Omega."""
        return self._factor.whiten(self._rows(X)).reshape(len(X), -1)

    def __call__(self, X: ArrayLike, Y: ArrayLike | None = None) -> NDArray:
        """The Gram matrix (n_x, n_y) between the rows of X and of Y (or X)."""
        if not self._factor.stays_sparse:
            return super().__call__(X, Y)
        self._rows(X)  # of the right number of columns
        X = np.asarray(X, dtype=np.float64)
        Y = X if Y is None else Y
        return X @ self._factor.solve(self._rows(Y).T).T.reshape(len(Y), -1).T

    def weights_from_trials(self, X: ArrayLike, dual: NDArray) -> NDArray:
        """Return Omega^-1 X' a, (n_features, m), for weights a (n, m) of trials."""
        return self._by_blocks(self._factor.solve, np.asarray(X).T @ dual)

    def weights_from_features(self, coef: NDArray) -> NDArray:
        """Return L^-T b, (n_features, m), for weights b of the whitened features."""
        return self._by_blocks(self._factor.unwhiten, coef)

    def _by_blocks(self, function, weights):
        """Apply a function of columns (p, m * blocks) to weights (p * blocks, m)."""
        columns = function(self._rows(weights.T).T)
        return columns.T.reshape(weights.shape[1], -1).T

    def repeated(self, times: int) -> Penalty:
        """Return the penalty of each of `times` blocks of the columns alike."""
        new = copy.copy(self)  # with the same factors
        new._blocks = self._blocks * times
        return new

    def take(self, columns: NDArray) -> Penalty:
        """Return the penalty of some columns, the other weights being zero."""
        return type(self)(_submatrix(self.Omega, columns, self._blocks))


class GraphSmooth(Penalty):
    r"""Penalty on differences between neighbouring weights, as a kernel.

    With the weights :math:`a_{ij}` of the edges of a graph whose nodes are the
    features,

    .. math:: w^\top \Omega w = s \sum_{i<j} a_{ij} (w_i - w_j)^2
              + \epsilon \sum_i w_i^2,

    that is :math:`\Omega = s (D - A) + \epsilon I` with the graph Laplacian
    :math:`D - A`. The discriminants are smooth over the graph [1]_.

    Parameters
    ----------
    adjacency : array or sparse matrix of shape (n_features, n_features), or tuple
        Symmetric: which features are neighbours, or non-negative edge weights. The
        diagonal is ignored. The tuple (adjacency, names) returned by
        :func:`mne.channels.find_ch_adjacency` can be passed directly. For voxels and
        pixels see :func:`sklearn.feature_extraction.image.grid_to_graph`, with its
        mask; time samples form a one-dimensional grid.
    strength : float, default=1.0
        Weight s of the differences, 0 or more. With 0 this is a ridge penalty.
    eps : float, default=0.1
        Weight of the squares, above zero.

    Attributes
    ----------
    adjacency : sparse array of shape (n_features, n_features)
        The edges, without the diagonal.
    names : tuple of str | None
        The channels, if they came with the adjacency.
    Omega : sparse array of shape (n_features, n_features)
        The matrix of the penalty.

    Raises
    ------
    TypeError, ValueError
        If the adjacency is not square or symmetric, has negative or infinite weights or
        no edges, if the names do not match it, or if strength is negative or eps not
        positive. In use: if its size does not match the data.

    See Also
    --------
    Penalty : Any other quadratic penalty.

    Notes
    -----
    A float for ``reg`` is relative to the kernel. Then only the ratio s / eps matters:
    it sets the smoothness, and ``reg`` the strength of the penalty. Features should
    share one unit; z-scoring each of them changes the meaning of their differences.

    For a subset of the features, as in a searchlight, the graph is cut: only edges
    within the subset are used.

    References
    ----------
    .. [1] Hastie, Buja & Tibshirani (1995). Penalized discriminant analysis. Annals of
       Statistics 23(1), 73-102.

    Examples
    --------
    Three features in a row; one trial activates only the first:

    >>> import numpy as np
    >>> from mvpa_kfda import GraphSmooth
    >>> chain = np.array([[0, 1, 0], [1, 0, 1], [0, 1, 0]])
    >>> kernel = GraphSmooth(chain, strength=1.0, eps=1.0)
    >>> kernel([[1.0, 0.0, 0.0]], np.eye(3))
    array([[0.625, 0.25 , 0.125]])
    """

    def __init__(self, adjacency: Adjacency, strength: float = 1.0, eps: float = 0.1):
        names = None
        if isinstance(adjacency, str):
            raise invalid("adjacency", adjacency, f"a matrix, or {_PAIR}", TypeError)
        if isinstance(adjacency, tuple):
            if len(adjacency) != 2 or isinstance(adjacency[1], str):
                allowed = f"Allowed: a matrix, or {_PAIR}."
                raise TypeError(f"Invalid value for 'adjacency': a tuple. {allowed}")
            adjacency, names = adjacency[0], tuple(map(str, adjacency[1]))
            n_names, shape = len(set(names)), np.shape(adjacency)
            if (len(names),) != shape[:1] or n_names != len(names):
                raise ValueError(
                    f"The adjacency is of shape {shape} and comes with {n_names} "
                    "different names; it needs one for each row."
                )
        adjacency = _symmetric(adjacency, "adjacency")
        if adjacency.min() < 0:
            raise ValueError(
                f"The adjacency holds negative weights, down to {adjacency.min():.3g}. "
                "An edge has a weight of zero or more."
            )
        if check_finite("strength", strength, hint=_STRENGTH_HINT) < 0:
            allowed = "0 or more; a negative one would favour rough weights"
            raise invalid("strength", strength, allowed)
        self.strength, self.eps = float(strength), float(check_positive("eps", eps))
        self._set(adjacency, names)
        if not self.adjacency.nnz:
            raise ValueError(
                "The adjacency has no edges, so that there is nothing to smooth over. "
                "Mark neighbours by True or by a weight above zero."
            )

    def _set(self, adjacency, names):
        """Set the graph, and the matrix of the penalty on it."""
        adjacency = sparse.coo_array(adjacency)
        apart = (adjacency.row != adjacency.col) & (adjacency.data != 0)
        edges = adjacency.data[apart], (adjacency.row[apart], adjacency.col[apart])
        self.adjacency = sparse.csr_array(edges, shape=adjacency.shape)
        self.names, self._blocks = names, 1
        diagonal = self.strength * self.adjacency.sum(axis=1) + self.eps
        omega = sparse.diags_array(diagonal) - self.strength * self.adjacency
        self.Omega = omega.tocsr()
        self._factor = DefiniteMatrix(self.Omega, "The penalty of the graph")

    def _shown(self):
        """What stands between the parentheses of the representation."""
        size = f"{self.Omega.shape[0]} features, {self.adjacency.nnz // 2} edges"
        numbers = f"strength={self.strength:g}, eps={self.eps:g}"
        return f"{size}, {numbers}, {self._factor.digest}"

    def _recorded_arguments(self):
        """What a result records; digits stand for the matrix."""
        numbers = {"strength": self.strength, "eps": self.eps}
        graph = {"n_edges": self.adjacency.nnz // 2, **numbers}
        return graph | super()._recorded_arguments()

    def take(self, columns: NDArray) -> Penalty:
        """Return the penalty of the graph between some of the columns."""
        new, names = copy.copy(self), self.names
        if names is not None:
            names = tuple(np.tile(names, self._blocks)[columns])
        new._set(_submatrix(self.adjacency, columns, self._blocks), names)
        return new

    def for_channels(self, ch_names: Sequence[str]) -> Penalty:
        """Return the penalty for the given channels, in this order.

        Parameters
        ----------
        ch_names : sequence of str
            Channels of the data; the adjacency may contain more.

        Returns
        -------
        kernel : GraphSmooth
            For the graph between these channels.

        Raises
        ------
        ValueError
            If the adjacency came without names, or lacks some of the channels.
        """
        if self.names is None:
            raise ValueError(f"The adjacency came without channel names. Pass {_PAIR}.")
        missing = [name for name in ch_names if name not in self.names]
        if missing:
            raise ValueError(
                f"The adjacency lacks {len(missing)} of the {len(ch_names)} channels "
                f"of the data: {', '.join(missing[:5])}{', ...' * (len(missing) > 5)}. "
                "Make it from the info of these data, or leave the channels out."
            )
        return self.take([self.names.index(name) for name in ch_names])
