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
from functools import cached_property

import numpy as np
from scipy.linalg import lapack

from .direct import SINGULAR, cross_product, invertible
from .hat import (
    NOT_POSITIVE,
    SINGULAR_SCATTER,
    centre_gram,
    count_features,
    invert_blocks,
    scatter_moments,
)
from .kernels import Precomputed, gram_of, needs_gram
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

        The latter with the training rows `trained`, less the shift already.
        """
        if not self.is_dual:
            return self.kernel.features(rows - self.shift)
        if not isinstance(self.kernel, Precomputed):
            rows = self.kernel(rows - self.shift, trained)
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

    def makers(self, lam, index, twice=False):
        """Blocks (k, m, m) of what makes residuals M, or of MM, at rows (k, m)."""
        U, gain = self.U[index], self._of_makers(lam, twice)
        if index.shape[1] == 1:
            blocks = (np.square(U[:, 0]) @ gain)[:, None, None]
        else:
            blocks = (U * gain) @ U.swapaxes(1, 2)
        if self.is_dual:
            return blocks
        return np.eye(index.shape[1]) - 1 / len(self.U) - blocks

    def cross(self, lam, index):
        """Of M, the columns of rows (k, m), but for these rows: (k, n, m)."""
        U = self.U[index] * self._of_makers(lam)
        products = self.U @ U.swapaxes(1, 2)
        return products if self.is_dual else -1 / len(self.U) - products

    def _of_makers(self, lam, twice=False):
        """What directions have in M, or MM, or are short of where there are others."""
        gain = self.gain(lam)
        if self.is_dual:
            return (gain * lam / self.unit) ** (1 + twice)
        return gain * (2 - self.w * gain) if twice else gain

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
    """Trials under one kernel: by features, or by a matrix."""

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


def compare_rows(Z, kernel, by_gram, trained=slice(None)):
    """All trials (n, p), or a kernel matrix (n, n), :class:`Compared` by a kernel.

    Its data-dependent numbers are those of the rows that are trained with; of all where
    the kernel averages some. Without eigenvalues a matrix is needed less often:
    `by_gram` says from which share of features to rows.
    """
    n_features = count_features(kernel, Z.shape[1])
    if isinstance(kernel, Precomputed):
        return Compared(kernel, 0.0, None, Z, n_features)
    if needs_gram(kernel):  # a map, whose features are the values with these trials
        Z = Z[:, trained]
    # An offset common to all trials drops out, and the digits it costs with it.
    moves = kernel.shift_free and not kernel.low_rank  # which takes care of it itself
    shift = Z[trained].mean(axis=0) if moves else 0.0
    Z = Z - shift
    few = kernel.is_linear and Z.shape[1] < by_gram * len(Z[trained])
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
        w, V = np.linalg.eigh(moments.matrix)
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
        w, U = np.linalg.eigh(Kc / unit)
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


#: Numbers in an array over folds and trials that is handled at a time.
_PIECE = 2**20
#: A candidate is better only by more than rounding: a share of the best so far.
_BETTER = 1e-9


@dataclass(frozen=True)
class Fit:
    """The models of B label vectors of one training set."""

    #: Coefficients times their gain for each kernel, (q, r, B).
    explained: list
    #: The mean contrasts, (q, B).
    mean: np.ndarray
    #: What models leave, (q, q, B); None where nothing is classified.
    A: np.ndarray | None
    #: Where labels choose: the candidates (B,), kernel by kernel the largest lambda
    #: first, and what the first label vector minimises (n_kernels, n_lambdas), NaN
    #: where a candidate cannot be used.
    number: np.ndarray | None = None
    criterion: np.ndarray | None = None


@dataclass(frozen=True)
class Question:
    """Label vectors that choose, in training sets that are all trials but a few.

    Attributes
    ----------
    T : ndarray, shape (q, n, B)
        Contrasts of classes, or values, of all trials.
    tests : ndarray of int, shape (k, m)
        The trials that each training set is without; m may be 0.
    terms : RuleTerms | None
        The scoring rule's, of models that have to tell classes apart.
    left_out : list of list of ndarray, shape (k_inner, m_inner) | "alone" | "equal"
        For each training set, trials that are left out together; or trials are left out
        alone, or taken as equal, as in generalized cross-validation.
    """

    T: np.ndarray
    tests: np.ndarray
    terms: object
    left_out: list | str

    @cached_property
    def centred(self):
        """The contrasts less their means, in double precision."""
        T = self.T.astype(np.float64)
        return T - T.mean(axis=1, keepdims=True)


@dataclass(frozen=True)
class Chosen:
    """What label vectors choose, and the models that they choose."""

    question: Question
    #: The same trials under each kernel, and the lambdas (n_kernels, n_lambdas).
    sets: tuple
    lambdas: np.ndarray
    #: The out-of-sample residuals of the tests (q, k, m, B), and A (q, q, k, B).
    E: np.ndarray
    A: np.ndarray
    #: The candidates (k, B); and the criteria (k, n_kernels, n_lambdas), see `Fit`.
    number: np.ndarray
    criterion: np.ndarray

    def fit(self, i):
        """The :class:`Fit` of a training set, also for rows that are no trials.

        Subtracting its residuals from the contrasts of trials that it is without makes
        these fitted exactly, so that they have no part in the model of all trials.
        """
        T, te, E = self.question.T, self.question.tests[i], self.E[:, i]
        explained, (chosen, at) = [], np.divmod(self.number[i], self.lambdas.shape[1])
        for kernel, each in enumerate(self.sets):
            c = each.U.T @ self.question.centred - each.U[te].T @ E
            gains = np.stack([each.gain(lam) for lam in self.lambdas[kernel]], axis=1)
            explained.append(gains[:, at] * c * (chosen == kernel))
        mean = (T.sum(axis=1) - E.sum(axis=1)) / T.shape[1]
        return Fit(explained, mean, self.A[:, :, i], self.number[i], self.criterion[i])


def choose(question, sets, lambdas):
    """What label vectors choose by squared left-out errors, :class:`Chosen`.

    From kernels and lambdas (n_kernels, n_lambdas), of which NaN are not to be used.
    """
    T, tests = question.centred, question.tests
    (k, m), (q, _, n_labels) = tests.shape, T.shape
    total = cross_product(T[:, None], T[:, None])[:, :, 0]
    coefficients = [each.U.T @ T for each in sets]
    best, number = np.full((k, n_labels), np.inf), np.full((k, n_labels), -1)
    best_E, best_A = np.zeros((q, k, m, n_labels)), np.zeros((q, q, k, n_labels))
    criterion = np.full((k, *lambdas.shape), np.nan)
    for i, lam in np.ndenumerate(lambdas):
        if np.isnan(lam):
            continue
        each, c = sets[i[0]], coefficients[i[0]]
        explained = each.gain(lam)[:, None] * c
        A = each.left(lam, c, explained, total)[:, :, None]
        R = each.residuals(lam, T, explained)
        inverses = invert_blocks(each.makers(lam, tests)[None])[0]
        ok = invertible(inverses) if m else np.ones(k, bool)
        inverses[~ok] = 0
        R_te = R[:, tests]
        E = inverses @ R_te
        A = A - cross_product(R_te, E)
        find = _errors_together
        if isinstance(question.left_out, str):
            find = _ERRORS[question.left_out]
        errors = find(question, each, lam, explained, R, E, inverses)
        errors[~ok] = np.nan
        if question.terms is not None:
            errors = np.where(usable(A, question.terms), errors, np.nan)
        criterion[(slice(None), *i)] = errors[:, 0]
        better = errors < best * (1 - _BETTER)
        np.copyto(best, errors, where=better)
        np.copyto(best_E, E, where=better[:, None])
        np.copyto(best_A, A, where=better)
        number[better] = np.ravel_multi_index(i, lambdas.shape)
    return Chosen(question, sets, lambdas, best_E, best_A, number, criterion)


def _errors_of_equals(question, each, lam, explained, R, E, inverses):
    r"""Estimated squared errors (k, B) of new trials.

    The squared residuals of a training set over the squared share of the trace of what
    makes them, from those of all trials:

    .. math::

        \lVert R \rVert^2 - 2\, E^\top (MR)_{te} + E^\top (M^2)_{te,te} E, \qquad
        \mathrm{tr}\, M - \mathrm{tr}\, M_{te,te}^{-1} (M^2)_{te,te} .
    """
    tests, n = question.tests, len(each.U) - question.tests.shape[1]
    squares = np.einsum("qnb,qnb->b", R, R)
    traces = len(each.U) - each.degrees_of_freedom(lam)
    if tests.shape[1]:
        of_R = (lam / each.unit) * each.gain(lam)[:, None] * explained
        MR = each.residuals(lam, R, of_R)
        twice = each.makers(lam, tests, twice=True)
        squares = squares - 2 * np.einsum("qkmb,qkmb->kb", E, MR[:, tests])
        squares = squares + np.einsum("qkmb,qkmb->kb", E, twice @ E)
        traces = traces - np.einsum("kij,kji->k", inverses, twice)
    shares = np.broadcast_to(traces / n, len(tests))
    with np.errstate(divide="ignore", invalid="ignore"):
        errors = np.maximum(squares, 0) / n / np.square(shares)[:, None]
    return np.where((shares > SINGULAR)[:, None], errors, np.nan)


def _errors_alone(question, each, lam, explained, R, E, inverses):
    """Squared errors (k, B) of trials that are left out one by one, as below."""
    tests, (_, n, n_labels) = question.tests, R.shape
    (k, m), errors = tests.shape, np.empty((len(tests), n_labels))
    of_all = each.makers(lam, np.arange(n)[:, None])[:, 0, 0]
    step = max(1, _PIECE // (n * max(m, n_labels)))
    for start in range(0, k, step):
        folds = slice(start, start + step)
        te, cross = tests[folds], each.cross(lam, tests[folds])
        left = of_all - np.einsum("knm,knm->kn", cross @ inverses[folds], cross)
        np.put_along_axis(left, te, np.inf, axis=1)
        weights = 1 / np.square(np.where(left > SINGULAR, left, np.nan))
        within = np.square(R[:, None] - cross @ E[:, folds]).sum(axis=0)
        errors[folds] = (weights[:, None] @ within)[:, 0]
    return errors / (n - m)


def _errors_together(question, each, lam, explained, R, E, inverses):
    r"""Squared errors (k, B) of left-out trials; NaN where some are fitted exactly.

    A training set has the residuals :math:`R - M_{\cdot,te} E` and their maker
    :math:`M - M_{\cdot,te} M_{te,te}^{-1} M_{te,\cdot}`.
    """
    errors = np.zeros((len(question.tests), R.shape[2]))
    for i, left_out in enumerate(question.left_out):
        cross = each.cross(lam, question.tests[i : i + 1])[0]
        within = R - cross @ E[:, i]
        for index in left_out:
            part = cross[index]
            fitted = part @ inverses[i] @ part.swapaxes(1, 2)
            blocks = invert_blocks((each.makers(lam, index) - fitted)[None])[0]
            if not invertible(blocks).all():
                errors[i] = np.nan
                break
            left = blocks @ within[:, index]
            errors[i] += np.einsum("qkmb,qkmb->b", left, left)
        errors[i] /= sum(index.size for index in left_out)
    return errors


#: What is taken of trials that are not left out together.
_ERRORS = {"equal": _errors_of_equals, "alone": _errors_alone}
