r"""From a penalty to the number lambda, by a few numbers of the kernel.

These :class:`Moments` are of the centred kernel matrix :math:`K_c` of n trials, or for
features of the scatter matrix :math:`X_c^\top X_c`, which has the same positive
eigenvalues. No label is used.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.linalg import eigvalsh
from scipy.optimize import brentq

from .penalties import DegreesOfFreedom, Ridge, Shrinkage

#: The bounds of an estimated lambda, in units of trace(K_c)/n: without noise or
#: without structure the estimates are 0 or infinite.
_SMALLEST, _LARGEST = 1e-8, 1e3


@dataclass(frozen=True)
class Moments:
    """What penalties need to know of a kernel.

    Attributes
    ----------
    matrix : ndarray, shape (n, n) | (p, p)
        The centred kernel matrix, or the scatter matrix of features.
    diagonal : ndarray, shape (n,)
        The diagonal of the centred kernel matrix.
    n_features : int | None
        p, None where the kernel is not linear.
    known : ndarray, shape (n,) | (p,) | None
        The eigenvalues in ascending order, where they are known already.
    """

    matrix: np.ndarray
    diagonal: np.ndarray
    n_features: int | None = None
    known: np.ndarray | None = None

    @property
    def n(self):
        """The number of trials."""
        return len(self.diagonal)

    @property
    def scale(self):
        """trace(K_c) / n, the mean squared norm of a centred trial."""
        return self.diagonal.sum() / self.n

    @cached_property
    def eigenvalues(self):
        """Eigenvalues of the matrix, in ascending order."""
        if self.known is not None:
            return self.known
        return eigvalsh(self.matrix, check_finite=False)

    @property
    def noise(self):
        """The size of eigenvalues that are zero but for rounding."""
        return self.n * np.finfo(float).eps * self.eigenvalues[-1]


def resolve_penalty(reg, moments):
    """Return lambda for a penalty that does not depend on labels.

    Parameters
    ----------
    reg : float | Ridge | Shrinkage | DegreesOfFreedom | "ledoit_wolf" | "oas"
        A float is relative: lambda = reg * trace(K_c) / n.
    moments : Moments
        Of the kernel.

    Returns
    -------
    lam : float
        The penalty, above zero.
    """
    if isinstance(reg, Ridge):
        return float(reg.lam)
    if isinstance(reg, DegreesOfFreedom):
        return _solve_df(reg.df, moments)
    if isinstance(reg, Shrinkage):
        return _shrunk(reg.gamma, moments)
    if isinstance(reg, str):
        lam = _shrunk(_SHRINKAGE[reg](moments), moments)
        return float(np.clip(lam, _SMALLEST * moments.scale, _LARGEST * moments.scale))
    return float(reg) * moments.scale


def _shrunk(gamma, moments):
    """Return the lambda that shrinks the total covariance by gamma."""
    with np.errstate(divide="ignore"):
        ratio = np.divide(gamma, 1 - gamma)
    return float(ratio * moments.scale * moments.n / (moments.n_features or moments.n))


def _ledoit_wolf(moments):
    """Return the shrinkage of Ledoit & Wolf (2004), as scikit-learn computes it."""
    n, p = moments.n, moments.n_features
    trace = moments.scale
    squares = np.square(moments.matrix).sum() / n**2
    beta = (np.square(moments.diagonal).sum() / n - squares) / (n * p)
    delta = (squares - trace**2 / p) / p
    return 0.0 if p == 1 or not min(beta, delta) > 0 else min(beta, delta) / delta


def _oas(moments):
    """Return the oracle approximating shrinkage of Chen et al. (2010), likewise."""
    n, p = moments.n, moments.n_features
    if p == 1:
        return 0.0  # there is nothing to shrink towards
    mean = moments.scale / p
    alpha = np.square(moments.matrix).sum() / n**2 / p**2
    below = (n + 1) * (alpha - mean**2 / p)
    return 1.0 if not below > 0 else min((alpha + mean**2) / below, 1.0)


_SHRINKAGE = {"ledoit_wolf": _ledoit_wolf, "oas": _oas}


def _solve_df(df, moments):
    """Return the lambda for which 1 + sum s / (s + lambda) = df."""
    values = moments.eigenvalues
    values = values[values > moments.noise]
    if not df < 1 + len(values):
        raise ValueError(
            f"df={df:g} is too large: the {moments.n} trials have {len(values)} "
            "independent directions here, so the degrees of freedom are between 1 and "
            f"{1 + len(values)}, both excluded. Use a smaller df."
        )

    def excess(log_lam):
        return 1 + (values / (values + np.exp(log_lam))).sum() - df

    # s / (s + lam) lies between 1 - lam / s and s / lam.
    low = np.log((1 + len(values) - df) / (1 / values).sum())
    high = np.log(values.sum() / (df - 1))
    return float(np.exp(brentq(excess, low - 1, high + 1, xtol=1e-14, rtol=1e-14)))


def candidates(tuned, moments):
    """Return the lambdas (n_lambdas,) of a tuned penalty's grid, the largest first.

    Parameters
    ----------
    tuned : Tuned
        With the grid.
    moments : Moments
        Of the kernel.

    Returns
    -------
    lambdas : ndarray
        In descending order.
    """
    if tuned.grid == "auto":
        values = moments.eigenvalues
        # The smallest eigenvalue still halves its direction: a strong effect there
        # wants a smaller lambda.
        low = 1e-3 * values[values > moments.noise].min()
        return np.geomspace(values.max(), max(low, 1e-7 * values.max()), 20)
    lambdas = [resolve_penalty(each, moments) for each in tuned.grid]
    return np.array(sorted(lambdas, reverse=True))
