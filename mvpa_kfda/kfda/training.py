r"""One training set: ridge regression by its directions, for any labels and test rows.

Where a matrix of all trials does not serve all folds, every training set has one of its
own, and for all labels the same. With F the centred features of n training rows and
:math:`F^\top F = V \,\mathrm{diag}(w)\, V^\top`, or with their centred kernel matrix
:math:`K = V \,\mathrm{diag}(w)\, V^\top`, the rows U on directions, the coefficients c
of centred contrasts T and their gain g are

.. math::

    U = F V \quad\text{or}\quad U = V, \qquad
    c = U^\top T, \qquad g = \frac{1}{w + \lambda},

a test row at u on the same directions has the score :math:`u^\top (g \circ c)` above
the mean of T, and with C the cross-product of T the training rows leave

.. math::

    R = T - U (g \circ c), \quad A = C - c^\top (g \circ c)
    \qquad\text{or}\qquad
    R = \lambda\, U (g \circ c), \quad A = \lambda\, c^\top (g \circ c).

For one lambda Cholesky's factors do, in a fraction of the time: with
:math:`F^\top F + \lambda I = L L^\top` or :math:`K + \lambda I = L L^\top` directions
are the columns of :math:`V = L^{-\top}`, with a gain of one. Penalties that labels
choose are judged by the residuals R alone (:func:`choose`): Golub, Heath & Wahba
(1979), Technometrics 21(2), for trials that are taken as equal; Cawley & Talbot (2003),
Pattern Recognition 36(11), for trials, or groups of them, that are left out exactly.
"""

from dataclasses import dataclass

import numpy as np
from scipy.linalg import eigh, lapack

from .direct import SINGULAR, cross_product, invertible
from .hat import (
    NOT_POSITIVE,
    SINGULAR_SCATTER,
    centre_gram,
    count_features,
    invert_blocks,
    scatter_moments,
)
from .kernels import gram_of, needs_gram
from .rules import usable


@dataclass(frozen=True, kw_only=True)
class TrainingSet:
    """The rows of a training set on their directions, under one kernel."""

    #: The rows on directions, each of which sums to zero, (n, r).
    U: np.ndarray
    #: With data-dependent numbers fixed, and what is subtracted from features first.
    kernel: object
    shift: np.ndarray | float
    #: Columns less the offset (d,), times the root (d, r), are on the directions.
    offset: np.ndarray
    root: np.ndarray
    #: The eigenvalues (r,); None where the directions are for one lambda.
    w: np.ndarray | None = None
    #: Whether directions are of a kernel matrix, and so all that there are.
    is_dual: bool = False
    #: What lambdas are divided by, a power of two.
    unit: float = 1.0
    #: The trace of the hat matrix, where directions are for one lambda.
    freedom: float | None = None

    def columns(self, rows, trained):
        """The columns (m, d) of test rows: features, or kernel values.

        The latter with the training rows `trained`.
        """
        if not self.is_dual:
            return self.kernel.features(rows - self.shift)
        if not needs_gram(self.kernel):
            rows = self.kernel(rows - self.shift, trained - self.shift)
        return rows / self.unit

    def gain(self, lam):
        """The gain (r,) of every direction; without eigenvalues it is one."""
        return 1.0 if self.w is None else 1 / (self.w + lam / self.unit)

    def degrees_of_freedom(self, lam):
        """The trace of the hat matrix, the intercept's included."""
        if self.w is None:
            return self.freedom
        return float(1 + (self.w * self.gain(lam)).sum())

    def left(self, lam, c, explained, total):
        """A (q, q, B) of coefficients, and of them times their gain, (q, r, B).

        `total` is C, the cross-product of the centred contrasts.
        """
        A = cross_product(c[:, None], explained[:, None])[:, :, 0]
        return (lam / self.unit) * A if self.is_dual else total - A

    def residuals(self, lam, T, explained):
        """The residuals R (q, n, B) of centred contrasts T."""
        fitted = self.U @ explained
        return (lam / self.unit) * fitted if self.is_dual else T - fitted

    def makers(self, lam, index):
        """Blocks (k, m, m) of what makes residuals of contrasts, at rows (k, m)."""
        U, gain = self.U[index], np.broadcast_to(self.gain(lam), self.U.shape[1])
        if self.is_dual:
            gain = gain * (lam / self.unit)
        blocks = np.einsum("kir,kjr->kij", U * gain, U, optimize=index.shape[1] > 1)
        if self.is_dual:
            return blocks
        return np.eye(index.shape[1]) - 1 / len(self.U) - blocks

    def weights(self, explained, of_features=False):
        """Weights (q, d + 1, B) of columns and of one, for scores less their mean.

        Of coefficients times their gain (q, r, B); or weights of features as given.
        """
        weights = self.root @ explained
        offset = self.offset + self.shift if of_features else self.offset
        constant = offset @ weights
        return np.concatenate([weights, -constant[:, None]], axis=1)


@dataclass(frozen=True)
class Compared:
    """All trials of a position under one kernel: by features, or by a matrix."""

    #: With data-dependent numbers fixed, and what is subtracted from features first.
    kernel: object
    shift: np.ndarray | float
    #: The features (n, d) that stand for the kernel, else its matrix (n, n).
    F: np.ndarray | None
    K: np.ndarray | None
    #: The number of features of a linear kernel, or of one that stands for it.
    n_features: int | None

    def moments(self, trials):
        """The :class:`~.penalties.Moments` of some trials."""
        if self.F is None:
            K = self.K[np.ix_(trials, trials)]
            return centre_gram(K, n_features=self.n_features)[1]
        return scatter_moments(self.F[trials], self.n_features)[1]

    def training_set(self, train, lam=None):
        """The :class:`TrainingSet` of some trials; with lambda for that alone."""
        return (_dual if self.F is None else _primal)(self, train, lam)

    def tested(self, each, train, test):
        """Tested trials on the directions of a training set, (m, r)."""
        if self.F is None:
            return (self.K[np.ix_(test, train)] / each.unit - each.offset) @ each.root
        return (self.F[test] - each.offset) @ each.root


def compare(Z, kernel, trained, shift, by_gram):
    """All trials (n, p), or a kernel matrix (n, n), :class:`Compared` by a kernel.

    Its data-dependent numbers are those of the trials that are trained with; a shift is
    subtracted where it changes nothing. Without eigenvalues a matrix is needed less
    often: `by_gram` says from which share of features to trials.
    """
    n_features = count_features(kernel, Z.shape[1])
    if needs_gram(kernel):
        return Compared(kernel, 0.0, None, Z, n_features)
    shift = shift if kernel.shift_free else 0.0
    Z = Z - shift
    few = kernel.is_linear and Z.shape[1] < by_gram * len(trained)
    kernel = kernel.fit(Z[trained])
    if kernel.low_rank or few:
        return Compared(kernel, shift, kernel.features(Z), None, n_features)
    return Compared(kernel, shift, None, gram_of(Z, kernel), n_features)


def _primal(compared, train, lam):
    """The training set of features (n, d) of some trials."""
    F, moments = scatter_moments(compared.F[train], compared.n_features)
    known = {
        "kernel": compared.kernel,
        "shift": compared.shift,
        "offset": compared.F[train].mean(axis=0),
    }
    if lam is None:
        w, V = eigh(moments.matrix, check_finite=False)
        return TrainingSet(U=F @ V, root=V, w=np.maximum(w, 0), **known)
    inverse = _inverse_root(moments.matrix, lam)
    if inverse is None:
        raise ValueError(SINGULAR_SCATTER.format(lam, F.shape[1]))
    freedom = 1 + len(inverse) - lam * np.square(inverse).sum()
    return TrainingSet(U=F @ inverse.T, root=inverse.T, freedom=freedom, **known)


def _dual(compared, train, lam):
    """The training set of a kernel matrix (n, n) of some trials."""
    K = compared.K[np.ix_(train, train)]
    Kc, moments = centre_gram(K, n_features=compared.n_features)
    n, scale = moments.n, moments.scale
    # Values of data in a small unit would leave the range of single precision.
    unit = 2.0 ** np.frexp(scale)[1]
    offset = K.mean(axis=0) / unit

    known = {"kernel": compared.kernel, "shift": compared.shift, "offset": offset}
    known |= {"is_dual": True, "unit": unit}
    if lam is None:
        w, U = eigh(Kc / unit, check_finite=False)
        U -= U.mean(axis=0)
        return TrainingSet(U=U, root=U, w=np.maximum(w, 0), **known)
    # The constant vector, which is taken out again, is lifted to ordinary size.
    inverse = _inverse_root((Kc + scale / n) / unit, lam / unit)
    if inverse is None:
        raise ValueError(NOT_POSITIVE.format(lam))
    lam, scale = lam / unit, scale / unit
    freedom = n - lam * np.square(inverse).sum() + lam / (scale + lam)
    U = np.ascontiguousarray((inverse - inverse.mean(axis=1, keepdims=True)).T)
    return TrainingSet(U=U, root=U, freedom=freedom, **known)


def _inverse_root(matrix, lam):
    """L^-1 of a matrix plus lambda; None where it is not positive."""
    penalised = matrix + lam * np.eye(len(matrix))
    L, failed = lapack.dpotrf(penalised, lower=1, clean=1, overwrite_a=1)
    return None if failed else lapack.dtrtri(L, lower=1)[0]


#: A candidate is better only by more than rounding: a share of the best so far.
_BETTER = 1e-9


@dataclass(frozen=True)
class Fit:
    """What B label vectors choose in one training set.

    Attributes
    ----------
    number : ndarray of int, shape (B,)
        The candidates: kernel by kernel, the largest lambda first.
    explained : list of ndarray, shape (q, r, B)
        Coefficients times their gain for each kernel, zero where another is chosen.
    A : ndarray, shape (q, q, B)
        What the chosen models leave.
    criterion : ndarray, shape (n_kernels, n_lambdas)
        What the first label vector minimises; NaN where a candidate cannot be used.
    """

    number: np.ndarray
    explained: list
    A: np.ndarray
    criterion: np.ndarray


def choose(sets, lambdas, T, terms, left_out):
    """The :class:`Fit` of contrasts T (q, n, B), by their squared left-out errors.

    Parameters
    ----------
    sets : sequence of TrainingSet
        The same rows under each kernel to choose from, decomposed.
    lambdas : ndarray, shape (n_kernels, n_lambdas)
        NaN: not to be used.
    T : ndarray, shape (q, n, B)
        Contrasts of classes, or values.
    terms : RuleTerms | None
        The scoring rule's, of models that have to tell classes apart.
    left_out : list of ndarray, shape (k, m) | None
        Rows that are left out together, by their number. None: all trials are taken as
        equal, as in generalized cross-validation.
    """
    T = T - T.mean(axis=1, keepdims=True)
    total = cross_product(T[:, None], T[:, None])[:, :, 0]
    coefficients = [each.U.T @ T for each in sets]
    best = np.full(T.shape[2], np.inf)
    number, A = np.full(len(best), -1), np.zeros_like(total)
    criterion = np.full(lambdas.shape, np.nan)
    for i, lam in np.ndenumerate(lambdas):
        if np.isnan(lam):
            continue
        each, c = sets[i[0]], coefficients[i[0]]
        explained = each.gain(lam)[:, None] * c
        remains = each.left(lam, c, explained, total)
        if left_out is None:
            error = _error_of_equals(each, lam, explained, remains)
        else:
            error = _error_left_out(each, lam, T, explained, left_out)
        if error is None:
            continue
        if terms is not None:
            error = np.where(usable(remains[:, :, None], terms)[0], error, np.nan)
        criterion[i] = error[0]
        better = error < best * (1 - _BETTER)
        np.copyto(best, error, where=better)
        np.copyto(A, remains, where=better)
        number[better] = np.ravel_multi_index(i, lambdas.shape)
    explained = []
    for kernel, (each, c) in enumerate(zip(sets, coefficients, strict=True)):
        chosen, at = np.divmod(number, lambdas.shape[1])
        gains = np.stack([each.gain(lam) for lam in lambdas[kernel]])
        explained.append(np.where(chosen == kernel, gains[at].T, 0) * c)
    return Fit(number, explained, A, criterion)


def _error_of_equals(each, lam, explained, remains):
    """Estimated squared errors (B,) of new trials; None if none can be known.

    The squared residuals over the squared share of the trace of what makes them.
    """
    n = len(each.U)
    share = (n - each.degrees_of_freedom(lam)) / n
    if not share > SINGULAR:
        return None
    of_weights, lam = np.square(explained).sum(axis=(0, 1)), lam / each.unit
    squares = np.einsum("iib->b", remains) - lam * of_weights
    if each.is_dual:
        squares = lam**2 * of_weights
    return np.maximum(squares, 0) / n / share**2


def _error_left_out(each, lam, T, explained, left_out):
    """Squared errors (B,) of left-out trials; None if some are fitted exactly."""
    R, total = each.residuals(lam, T, explained), 0.0
    for index in left_out:
        blocks = invert_blocks(each.makers(lam, index)[None])[0]
        if not invertible(blocks).all():
            return None
        E = blocks @ R[:, index]
        total = total + np.einsum("qkmb,qkmb->b", E, E)
    return total / sum(index.size for index in left_out)
