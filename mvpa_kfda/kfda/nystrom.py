r"""Low-rank kernels for many trials: no (n, n) matrix is ever made.

The Nystrom method lets a few landmarks Z speak for all trials,

.. math:: K \approx K_{XZ} K_{ZZ}^{+} K_{ZX} = \Phi \Phi^\top, \qquad
          \Phi = K_{XZ} U S^{-1/2}, \quad K_{ZZ} = U S U^\top ,

so that the columns of :math:`\Phi` (n, r) are features of a linear kernel, with the
low-rank hat matrix of one (:func:`mvpa_kfda.kfda.hat.hat_from_features`).
"""

import math
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import eigh
from sklearn.cluster import KMeans
from sklearn.exceptions import ConvergenceWarning
from threadpoolctl import threadpool_limits

from ..utils.checks import check_count, check_option, check_symmetric, counted
from ..utils.record import Recorded
from .arguments import KernelLike
from .kernels import Kernel, KernelChoice, check_kernel, kernel_words, needs_gram

#: Rows from which a kernel's own numbers are taken, such as the median distance.
_FIT_ROWS = 2000
#: Values of one block of rows against the landmarks.
_BLOCK_VALUES = 2**20
#: Steps of k-means. Later ones move the centres little.
_KMEANS_STEPS = 10
#: Negative eigenvalues that are no rounding, relative to the largest.
_NEGATIVE = 1e-8


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
    >>> from mvpa_kfda.kfda.nystrom import Nystrom
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
        number = check_count("n_components", self.n_components, minimum=1)
        object.__setattr__(self, "n_components", number)
        check_option("sampling", self.sampling, SAMPLING)
        if self.random_state is not None:
            check_count("random_state", self.random_state, most=math.inf)

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
        kernel = check_kernel(kernel)
        if isinstance(kernel, KernelChoice):
            return kernel.map(self.approximate)
        if needs_gram(kernel):
            raise ValueError(
                "approx=Nystrom(...) needs features to choose landmarks from; with "
                "kernel='precomputed' the (n, n) matrix is there already. Pass the "
                "features and their kernel, or leave out approx."
            )
        if kernel.low_rank:
            raise ValueError(
                f"{kernel!r} is an approximation already. Pass the kernel without its "
                "approximation, or leave out approx."
            )
        return LowRank(kernel, self)


def approximated(kernel, approx):
    """Return the approximation of a kernel object."""
    if not isinstance(approx, Nystrom):
        raise TypeError(
            f"Invalid value for 'approx': {approx!r}. Allowed: None, or "
            "Nystrom(n_components=...)."
        )
    return approx.approximate(kernel)


@dataclass(frozen=True)
class LowRank(Kernel):
    """The Nystrom approximation of a kernel, made by :meth:`Nystrom.approximate`."""

    #: What is approximated, and how.
    kernel: Kernel
    approx: Nystrom
    #: What is subtracted from all features (p,): their mean, if the kernel does not
    #: care. Distances from inner products would lose digits to it.
    offset: np.ndarray | None = field(default=None, repr=False, compare=False)
    #: The landmarks Z (r, p), less the offset; None before `fit`.
    landmarks: np.ndarray | None = field(default=None, repr=False, compare=False)
    #: The columns of U S^(-1/2) that are not null directions of Z, (r, rank).
    whitening: np.ndarray | None = field(default=None, repr=False, compare=False)
    low_rank: ClassVar[bool] = True

    @staticmethod
    def _words(given):
        approx = given["approx"]
        landmarks = counted(approx["n_components"], "landmark")
        chosen = SAMPLING[approx["sampling"]].words
        return (
            f"{kernel_words(given['kernel'])}, approximated by the Nyström method with "
            f"{landmarks} {chosen} [@Williams2001]"
        )

    @property
    def shift_free(self):
        """Whether centring the features first changes nothing but the rounding."""
        return self.kernel.shift_free

    @property
    def assumes_unit_scale(self):
        """Whether the numbers only make sense for features of about unit variance."""
        return self.kernel.assumes_unit_scale

    def fit(self, X):
        """Return the kernel with landmarks from the rows of X, (n, p)."""
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
        sample = SAMPLING[self.approx.sampling].draw
        Z = (X if r == n else sample(X, r, rng)) - offset
        whitening = _whitening(kernel(Z), kernel)
        return replace(
            self, kernel=kernel, offset=offset, landmarks=Z, whitening=whitening
        )

    def features(self, X):
        """Return columns (n, rank) whose inner products are the kernel's values."""
        X = np.asarray(X)
        if self.landmarks is None:
            return self.fit(X).features(X)
        features = np.empty((len(X), self.whitening.shape[1]))
        size = max(1, _BLOCK_VALUES // max(self.landmarks.shape))
        for start in range(0, len(X), size):
            rows = slice(start, start + size)
            values = self.kernel(X[rows] - self.offset, self.landmarks)
            np.matmul(values, self.whitening, out=features[rows])
        return features

    def weights_from_features(self, coef: NDArray) -> NDArray:
        """Return the weights (p, m) of a linear kernel's features, once fitted.

        For weights (rank, m) of the columns of `features`.
        """
        return self.kernel.weights_from_trials(self.landmarks, self.whitening @ coef)

    def __call__(self, X, Y=None):
        """Return the Gram matrix (n_x, n_y) between the rows of X and of Y (or X)."""
        if self.landmarks is None:
            return self.fit(np.asarray(X))(X, Y)
        features = self.features(X)
        return features @ (features if Y is None else self.features(Y)).T

    def take(self, columns):
        """Return the kernel for some columns of the features, to be fitted anew."""
        return LowRank(self.kernel.take(columns), self.approx)

    def repeated(self, times):
        """Return the kernel for `times` blocks of the columns, to be fitted anew."""
        return LowRank(self.kernel.repeated(times), self.approx)


def _whitening(K, kernel):
    """Return U S^(-1/2) of the landmarks' kernel matrix, without null directions."""
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


@dataclass(frozen=True)
class Sampling:
    """A way to choose landmarks."""

    draw: Callable  #: (X (n, p), r, rng) -> landmarks (r, p)
    words: str  #: for the methods section


def _kmeans(X, r, rng):
    """Return the centres (r, p) of clusters of the rows of X."""
    seed = int(rng.integers(2**31))
    model = KMeans(
        r, init="random", n_init=1, max_iter=_KMEANS_STEPS, random_state=seed
    )
    # One thread: sums in another order would make the last digits a matter of luck.
    # That few steps do not converge, or that some trials are equal, does no harm.
    with threadpool_limits(1, user_api="openmp"), warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return model.fit(X).cluster_centers_


def _uniform(X, r, rng):
    """Return r rows of X, drawn at random."""
    return X[rng.choice(len(X), r, replace=False)]


#: The ways to choose landmarks, by name.
SAMPLING = {
    "kmeans": Sampling(_kmeans, "chosen by k-means"),
    "uniform": Sampling(_uniform, "drawn at random"),
}
