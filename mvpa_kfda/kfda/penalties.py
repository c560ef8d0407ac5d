r"""How strongly a model is penalised, as users say it, and as the number lambda.

In this package the penalty is the number :math:`\lambda`, and ``reg`` the rule that
sets it: a number relative to the kernel, a name, or an object such as :class:`Ridge`.
*What* lambda multiplies is up to the kernel: :class:`mvpa_kfda.Penalty` is a kernel
with another norm of the weights.

All rules but :class:`Tuned` take lambda from the kernel alone, without labels, so that
one inverse still serves every label permutation. Such a rule is a class whose
``_lambda`` is given the :class:`Moments` of the kernel, or an entry of
:data:`ESTIMATED`. Moments are those of the centred kernel matrix :math:`K_c` of n
trials, or for features of the scatter matrix :math:`X_c^\top X_c`, which has the same
positive eigenvalues.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from numbers import Real
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.linalg import eigvalsh
from scipy.optimize import brentq

from ..utils.checks import all_items, check_positive
from ..utils.plain import Recorded, is_record, known
from ..utils.rounding import number
from .automatic import Unseen
from .kernels import KernelChoice


@dataclass(frozen=True)
class Moments:
    """What penalties need to know of a kernel.

    Attributes
    ----------
    given : ndarray, shape (n, n) | (p, p) | None
        The centred kernel matrix, or the scatter matrix of features; None: of these.
    diagonal : ndarray, shape (n,)
        The diagonal of the centred kernel matrix.
    n_features : int | None
        p, None where the kernel is not linear.
    features : ndarray, shape (n, p) | None
        The centred features of which it is the scatter matrix.
    """

    given: np.ndarray | None
    diagonal: np.ndarray
    n_features: int | None = None
    features: np.ndarray | None = None

    @property
    def n(self):
        """The number of trials."""
        return len(self.diagonal)

    @cached_property
    def matrix(self):
        """The centred kernel matrix, or the scatter matrix of features."""
        return self.features.T @ self.features if self.given is None else self.given

    @cached_property
    def scale(self):
        """trace(K_c) / n, the mean squared norm of a centred trial."""
        return self.diagonal.sum() / self.n

    @cached_property
    def eigenvalues(self):
        """Eigenvalues of the matrix, in ascending order."""
        return eigvalsh(self.matrix, check_finite=False)

    @property
    def axes(self):
        """Eigenvalues in ascending order, and the trials' scores (n, r) on their axes.

        The squared scores of an axis sum to its eigenvalue.
        """
        values, vectors = np.linalg.eigh(self.matrix)
        if self.features is not None:
            return values, self.features @ vectors
        return values, vectors * np.sqrt(np.maximum(values, 0))

    def of(self, rows):
        """The moments of some of the trials."""
        if self.features is not None:
            X = self.features[rows]
            X = X - X.mean(axis=0)
            diagonal = np.einsum("np,np->n", X, X)
            return Moments(None, diagonal, self.n_features, features=X)
        K = self.matrix[np.ix_(rows, rows)]
        means = K.mean(axis=0)
        K = K - means[:, None] - means + means.mean()
        return Moments(K, K.diagonal(), self.n_features)

    @property
    def noise(self):
        """The size of eigenvalues that are zero but for rounding."""
        return self.rounding * self.eigenvalues[-1]

    @property
    def rounding(self):
        """The size of such eigenvalues, relative to the largest one."""
        return 10 * self.n * np.finfo(float).eps

    def near_one(self):
        """The same with a scale near one, lest squares leave the floats' range.

        Divided by a power of two, which costs no digit.
        """
        exponent = -int(np.frexp(self.scale)[1])
        matrix, diagonal = (np.ldexp(x, exponent) for x in (self.matrix, self.diagonal))
        return Moments(matrix, diagonal, self.n_features)


@dataclass(frozen=True)
class Farthest:
    """The trial that is farthest from the others."""

    #: Its number, and the mean squared norm of the others, centred by themselves.
    trial: int
    rest: float
    #: How many times as far it is from their mean as they are: root mean squares.
    times: float

    @classmethod
    def of(cls, squares):
        """That of the squared norms (n,) of trials that all are centred by."""
        n, trial = len(squares), int(squares.argmax())
        far = squares[trial]
        if n < 3 or not 0 < far < np.inf:
            return cls(trial, far, 1.0)
        # The mean of the others is that of all, less the share of this one.
        rest = (squares.sum() - far - far / (n - 1)) / (n - 1)
        rest = max(rest, np.finfo(float).eps * far, np.finfo(float).tiny)
        return cls(trial, rest, np.sqrt(far / rest) * n / (n - 1))

    def words(self, trial):
        """Word how far it is, by its number among the trials as they were given."""
        times = float(f"{self.times:.1g}")
        return (
            f"Trial {trial} (counted from 0) is {times:,.0f} times as far from the "
            "mean of the other trials as they are on average"
        )


class _Rule(Recorded):
    """What takes lambda from the kernel alone, as its `_lambda(moments)`."""

    @staticmethod
    def _words(given):
        return "a custom penalty"


@dataclass(frozen=True)
class Ridge(_Rule):
    """An absolute ridge penalty in the kernel's feature space.

    Parameters
    ----------
    lam : float
        The penalty lambda, above zero; for a linear kernel, in the squared unit of the
        features.

    Raises
    ------
    ValueError
        If lam is not a finite number above zero.

    Examples
    --------
    >>> from mvpa_kfda import Ridge
    >>> Ridge(2.5)
    Ridge(lam=2.5)
    """

    lam: float

    def __post_init__(self):
        """Check the penalty."""
        check_positive("lambda", self.lam)

    def _lambda(self, moments):
        return float(self.lam)

    @staticmethod
    def _words(given):
        return f"a ridge penalty of λ = {given['lam']}"


@dataclass(frozen=True)
class Shrinkage(_Rule):
    r"""Shrinkage of the covariance towards a multiple of the identity.

    .. math:: (1 - \gamma)\, C + \gamma\, \frac{\mathrm{tr}\, C}{p}\, I

    is, up to a factor, :math:`C + \lambda' I` with :math:`\lambda' = \frac{\gamma}{1 -
    \gamma} \frac{\mathrm{tr}\, C}{p}`. Here C is the *total* covariance of the p
    features, computed without labels, so that for a linear kernel :math:`\lambda =
    \frac{\gamma}{1 - \gamma}\, \mathrm{tr}(K_c) / p`. For other kernels, which have no
    number of features, the number of trials n replaces p.

    Parameters
    ----------
    gamma : float
        Between 0 and 1, exclusive.

    Raises
    ------
    ValueError
        If gamma is not a number between 0 and 1.

    Notes
    -----
    ``shrinkage`` of :class:`~sklearn.discriminant_analysis.LinearDiscriminantAnalysis`
    and ``lambda`` of MVPA-Light's LDA shrink the covariance *within* classes in the
    same way; their gamma' gives the same lambda if

    .. math:: \frac{\gamma'}{1 - \gamma'} \mathrm{tr}\, S_w
              = \frac{\gamma}{1 - \gamma} \mathrm{tr}\, S_t ,

    with the within-class and total scatter of the same trials. With weak effects
    :math:`S_w \approx S_t` and the values are nearly the same; with strong effects this
    gamma penalises more. A within-class trace would require the labels, and another
    inverse for each permutation. In cross-validation the scatter is that of all trials
    here, that of each training set there. MVPA-Light's kernel FDA shrinks the matrix N
    of dual coefficients instead, which is a different penalty (:class:`EmpiricalMap`).

    ``reg="ledoit_wolf"`` and ``reg="oas"`` estimate gamma for the total covariance,
    assuming independent trials. scikit-learn's ``shrinkage="auto"`` estimates it for
    each class separately, from fewer trials, so it is larger. On single EEG trials both
    decode about equally well. For the scans of a block design, which are numerous and
    similar, gamma is too small: for 864 scans of eight categories (z-scored within
    runs, leaving runs out) it was 0.06, with an accuracy of 0.67, compared with 0.29
    and 0.73 for scikit-learn, and 0.71 with ``reg="tuned"``. For the 96 block means,
    z-scored within runs too, they differ by no more than three blocks: the accuracies
    were 0.865 (``"ledoit_wolf"``), 0.885 (scikit-learn) and 0.854 (``"tuned"``).

    Examples
    --------
    >>> from mvpa_kfda import Shrinkage
    >>> Shrinkage(0.1)
    Shrinkage(gamma=0.1)
    """

    gamma: float

    def __post_init__(self):
        """Check the share."""
        _check_between("gamma", self.gamma, 0, 1, "between 0 and 1, both excluded")

    def _lambda(self, moments):
        return _shrunk(self.gamma, moments)

    @staticmethod
    def _words(given):
        return f"shrinkage by {given['gamma']} {_TOWARDS}"


@dataclass(frozen=True)
class DegreesOfFreedom(_Rule):
    r"""A penalty that gives the model a certain number of degrees of freedom.

    Lambda solves :math:`\mathrm{tr}\, G(\lambda) = 1 + \sum_i s_i / (s_i + \lambda) =
    df` [1]_, with the eigenvalues :math:`s_i` of the centred kernel of all rows the
    model is given (in the direct functions all trials, without labels).

    Parameters
    ----------
    df : float
        Above 1 (the intercept) and below the number of trials n. It must also be below
        1 + the rank of the centred kernel matrix, which for a linear kernel is at most
        the number of features.

    Raises
    ------
    ValueError
        If df is not a finite number above 1, or, in use, if it is too large.

    References
    ----------
    .. [1] Hastie, Buja & Tibshirani (1995). Penalized discriminant analysis. Annals of
       Statistics 23(1), 73-102.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from mvpa_kfda import DegreesOfFreedom, cross_validate
    >>> X, y = load_iris(return_X_y=True)
    >>> result = cross_validate(X, y, reg=DegreesOfFreedom(3))
    >>> round(result.degrees_of_freedom, 6)
    3.0
    """

    df: float

    def __post_init__(self):
        """Check the number."""
        allowed = (
            "of more than 1, which the intercept takes, and less than the number of "
            "trials"
        )
        _check_between("df", self.df, 1, np.inf, allowed)

    def _lambda(self, moments):
        """The lambda for which 1 + sum s / (s + lambda) = df."""
        values = moments.eigenvalues
        values = values[values > moments.noise]
        if not self.df < 1 + len(values):
            raise ValueError(
                f"df={self.df:g} is too large: the {moments.n} trials have "
                f"{len(values)} independent directions here, so the degrees of freedom "
                f"are between 1 and {1 + len(values)}, both excluded. Use a smaller df."
            )

        def excess(log_lam):
            return 1 + (values / (values + np.exp(log_lam))).sum() - self.df

        # s / (s + lam) lies between 1 - lam / s and s / lam.
        low = np.log((1 + len(values) - self.df) / (1 / values).sum())
        high = np.log(values.sum() / (self.df - 1))
        return float(np.exp(brentq(excess, low - 1, high + 1, xtol=1e-14, rtol=1e-14)))

    @staticmethod
    def _words(given):
        return (
            f"a ridge penalty that leaves {given['df']} effective degrees of freedom "
            "[@Hastie1995]"
        )


@dataclass(frozen=True)
class Tuned(Recorded):
    r"""A penalty that labels select within each training set.

    For each training set and each label permutation, the penalty (and the kernel, from
    a list of kernels) is selected that best predicts the training trials when they are
    left out in turn, with the smallest squared error of the class indicators; of
    equally good ones the largest. No retraining is needed: the hat matrix of a training
    fold is :math:`G_{tr,tr} + G_{tr,te}(I - G_{te,te})^{-1} G_{te,tr}`, and the
    residual of a left-out trial :math:`(y_i - \hat y_i) / (1 - G_{ii})` [1]_. Test
    trials are not used for the selection, so cross-validated scores and p-values remain
    valid.

    Parameters
    ----------
    grid : "auto" | array_like, shape (n_lambdas,)
        The candidate penalties: floats are relative to trace(K_c)/n as in `reg`,
        :class:`Ridge` objects absolute. ``reg=[0.1, 1]`` is short for ``Tuned([0.1,
        1])``. ``"auto"``: for classes the two penalties that the features suggest for
        effects that lie where noise lies (``reg="auto"``), and for effects in any
        direction; for numbers, and with kernels that are not linear, 13 logarithmically
        spaced values over the spectrum of the centred kernel. They are those of all
        rows, without labels.

    Raises
    ------
    ValueError, TypeError
        If the grid is empty or has values not above zero.

    Notes
    -----
    Training trials are left out one at a time, or one group at a time if there are
    groups: trials of a group may be correlated, and leaving out one at a time then
    selects too small a penalty. With the default grid and without groups, the error of
    left-out trials is estimated by generalized cross-validation [2]_, the squared
    training residuals over the squared trace of I - G, which is robust to single trials
    that only they themselves predict. In all other cases trials are left out exactly.

    A lambda for which some left-out trials are fitted exactly (an eigenvalue of their
    block of I - G below 1e-10) is skipped.

    The default takes two to eight times as long as a fixed penalty, in searchlights
    with groups up to 27 times; a grid about two to three times as long per value.

    References
    ----------
    .. [1] Cawley & Talbot (2003). Efficient leave-one-out cross-validation of kernel
       Fisher discriminant classifiers. Pattern Recognition 36(11), 2585-2592.
    .. [2] Golub, Heath & Wahba (1979). Generalized cross-validation as a method for
       choosing a good ridge parameter. Technometrics 21(2), 215-223.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from mvpa_kfda import RBF, Tuned, cross_validate
    >>> X, y = load_iris(return_X_y=True)
    >>> result = cross_validate(X, y, reg=Tuned(grid=[0.01, 0.1, 1.0]), cv=5)
    >>> result.lambdas.shape
    (5,)
    >>> result = cross_validate(X, y, kernel=["linear", RBF(0.1)], reg="tuned", cv=5)
    >>> result.scores > 0.9
    True
    """

    grid: Literal["auto"] | ArrayLike | Sequence[float | Ridge] = "auto"

    def __post_init__(self):
        """Check the grid; keep it as a tuple."""
        grid = self.grid
        if isinstance(grid, str) and grid == "auto":
            return
        # An array of a single number is no list.
        listed = np.iterable(grid) and not isinstance(grid, str)
        values = all_items("grid", grid) if listed else ()
        if not values:
            raise ValueError(
                f"Invalid value for 'grid' of Tuned: {grid!r}. Allowed: 'auto', or a "
                "list of numbers above zero, relative to trace(K_c)/n, or of Ridge "
                "objects, e.g. Tuned([0.1, 1, Ridge(5)])."
            )
        hint = " Or a Ridge object, but no other penalty."
        each_once = dict.fromkeys(
            value if isinstance(value, Ridge) else check_positive("grid", value, hint)
            for value in values
        )
        object.__setattr__(self, "grid", tuple(each_once))


@dataclass(frozen=True, eq=False)
class Auto(_Rule):
    """A penalty that looks at no label: ``reg="auto"``.

    See :mod:`mvpa_kfda.kfda.automatic`.
    """

    #: The trials that are trained with; None: all. And each trial's group, (n,).
    rows: np.ndarray | None = None
    groups: np.ndarray | None = None

    def __repr__(self):
        """Say how it is asked for."""
        return "'auto'"

    def _lambda(self, moments):
        return self.unseen(moments).like_noise()

    def unseen(self, moments):
        """The :class:`~.automatic.Unseen` of the trials to train with."""
        groups = self.groups
        if self.rows is not None:
            moments = moments.of(self.rows)
            groups = None if groups is None else groups[self.rows]
        return Unseen.of(moments, groups)


#: The largest penalty of the second test of time generalization, in units of
#: trace(K_c)/n. Stronger ones leave of a model the difference of class means, and that
#: of permuted labels lies where trials vary most, along a strong effect: it tells the
#: true classes apart by chance, in either direction, and the second null gets wide.
MOST_OF_SECOND = 0.3


@dataclass(frozen=True, eq=False)
class AtMost(_Rule):
    """Another penalty, but no more than so many times trace(K_c)/n; inside only."""

    reg: object
    times: float

    def _lambda(self, moments):
        return min(resolve_penalty(self.reg, moments), self.times * moments.scale)


def of_trials(reg, trials):
    """A penalty for trials in another order, or for some of them."""
    if isinstance(reg, AtMost):
        return AtMost(of_trials(reg.reg, trials), reg.times)
    if not isinstance(reg, Auto):
        return reg
    rows = None if reg.rows is None else np.flatnonzero(np.isin(trials, reg.rows))
    return Auto(rows, None if reg.groups is None else reg.groups[trials])


def _check_between(name, value, low, high, allowed):
    """Raise unless a number is between two others."""
    given = f"Invalid value for {name!r}: {value!r}"
    if isinstance(value, bool) or not isinstance(value, Real):
        given += f" of type {type(value).__name__}"
        raise TypeError(f"{given}. Allowed: a number {allowed}.")
    if not low < value < high:
        raise ValueError(f"{given}. Allowed: a number {allowed}.")


def _shrunk(gamma, moments):
    """The lambda that shrinks the total covariance by gamma."""
    with np.errstate(divide="ignore"):
        ratio = np.divide(gamma, 1 - gamma)
    return float(ratio * moments.scale * moments.n / (moments.n_features or moments.n))


#: The bounds of an estimated lambda, in units of trace(K_c)/n: without noise or
#: without structure the estimates are 0 or infinite.
_SMALLEST, _LARGEST = 1e-8, 1e3


#: Below this share of its squares, a covariance differs from the identity by rounding.
_WHITE = 1e-12


def _ledoit_wolf(moments):
    """The shrinkage of Ledoit & Wolf (2004), as scikit-learn computes it."""
    n, p = moments.n, moments.n_features
    squares = np.square(moments.matrix).sum() / n**2
    beta = (np.square(moments.diagonal).sum() / n - squares) / (n * p)
    delta = (squares - moments.scale**2 / p) / p
    # Of features that are white already, rounding would decide: as for oas, all of it.
    return min(beta / delta, 1.0) if delta > _WHITE * squares / p else 1.0


def _oas(moments):
    """The oracle approximating shrinkage of Chen et al. (2010), likewise."""
    n, p = moments.n, moments.n_features
    mean = moments.scale / p
    alpha = np.square(moments.matrix).sum() / n**2 / p**2
    below = (n + 1) * (alpha - mean**2 / p)
    return 1.0 if not below > 0 else min((alpha + mean**2) / below, 1.0)


_TOWARDS = "of the total covariance matrix towards a multiple of the identity matrix"


#: Rules by name that estimate the shrinkage of the covariance: what gives gamma of
#: moments, and the words of the methods section.
ESTIMATED = {
    "ledoit_wolf": (
        _ledoit_wolf,
        "shrinkage of the total covariance matrix with the Ledoit-Wolf estimate "
        "[@Ledoit2004]",
    ),
    "oas": (
        _oas,
        "shrinkage of the total covariance matrix with the oracle approximating "
        "shrinkage estimate [@Chen2010]",
    ),
}


def penalty_words(recorded):
    """Word a penalty as it is recorded, but for one that labels choose."""
    if isinstance(recorded, str) and recorded in ESTIMATED:
        return ESTIMATED[recorded][1]
    if not isinstance(recorded, int | float):
        of_record = is_record(recorded) and known(recorded, _Rule)
        return (of_record or _Rule)._words(recorded)
    return (
        f"a ridge penalty of {number(recorded)} times the mean squared norm of the "
        "centred trials in the feature space of the kernel"
    )


_REG_HINT = (
    " A float is relative to trace(K_c)/n; use Ridge(lam) for an absolute penalty. "
    "Also allowed: Shrinkage(gamma), DegreesOfFreedom(df), 'auto', 'tuned', "
    "'ledoit_wolf', 'oas', and a list of penalties to choose from."
)
PenaltyName = Literal["auto", "tuned", "ledoit_wolf", "oas"]
OnePenalty = float | PenaltyName | str | Ridge | Shrinkage | DegreesOfFreedom | Tuned
PenaltyLike = OnePenalty | Sequence[float | Ridge] | NDArray[Any]

#: Rules that are objects, by name.
_NAMED = {"auto": Auto, "tuned": Tuned}


def check_reg(reg):
    """Return `reg` if it is a positive number or another rule; some as an object."""
    if isinstance(reg, str) and reg in _NAMED:
        return _NAMED[reg]()
    if isinstance(reg, _Rule | Tuned) or (isinstance(reg, str) and reg in ESTIMATED):
        return reg
    if np.iterable(reg) and not isinstance(reg, str):
        return Tuned(reg)
    return check_positive("reg", reg, hint=_REG_HINT)


def name_of_rule(reg):
    """A checked `reg` as users write it."""
    if isinstance(reg, Auto):
        return "auto"
    return float(reg) if isinstance(reg, Real) else reg


def check_method(kernel, reg):
    """Refuse a checked `reg` that does not go with the kernel."""
    if isinstance(kernel, KernelChoice) and not isinstance(reg, Tuned):
        raise ValueError(
            f"A list of {len(kernel.kernels)} kernels needs reg='tuned' or Tuned(...), "
            f"by which one of them is chosen; got reg={reg!r}."
        )
    if isinstance(reg, str) and not kernel.is_linear:
        raise ValueError(
            f"reg={reg!r} estimates the covariance of features, so it needs a linear "
            f"kernel; got {kernel!r}. Use a float, 'auto', DegreesOfFreedom or Tuned."
        )


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
    if isinstance(reg, _Rule):
        return reg._lambda(moments)
    if isinstance(reg, str):
        gamma = 0.0  # of one feature: there is nothing to shrink towards
        if moments.n_features != 1:
            gamma = ESTIMATED[reg][0](moments.near_one())
        lam = _shrunk(gamma, moments)
        return float(np.clip(lam, _SMALLEST * moments.scale, _LARGEST * moments.scale))
    return float(reg) * moments.scale


#: Lambdas from which one is chosen for values, whose size tells how much to shrink, and
#: with kernels that are not linear, whose features are no directions of the data.
N_OVER_SPECTRUM = 13


def candidates(tuned, moments, auto, over_spectrum):
    """The lambdas (n_lambdas,) of a tuned penalty's grid, the largest first.

    Of all grids "auto" is that of what the features suggest, by an :class:`Auto` for
    the trials, or over the spectrum.
    """
    if tuned.grid != "auto":
        lambdas = [resolve_penalty(reg, moments) for reg in tuned.grid]
    elif over_spectrum:
        values = moments.eigenvalues
        # The smallest eigenvalue still halves its direction: a strong effect there
        # wants a smaller lambda.
        low = 1e-3 * values[values > moments.noise].min()
        # One trial that is far away has the largest alone.
        bounds = values[-1], max(low, 1e-7 * values[-2:][0])
        lambdas = np.geomspace(*bounds, N_OVER_SPECTRUM)
    else:
        unseen = auto.unseen(moments)
        lambdas = unseen.like_noise(), unseen.anywhere()
    return np.array(sorted(lambdas, reverse=True))
