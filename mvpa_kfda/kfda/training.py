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
from scipy.linalg import blas, lapack

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

    #: The rows on directions, each of which sums to zero, (n, r); None: not kept.
    U: np.ndarray | None
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
    #: The features (n, d) that stand for the kernel, or its matrix (n, n).
    values: np.ndarray
    is_dual: bool
    #: The number of features of a linear kernel, or of one that stands for it.
    n_features: int | None

    def centred(self, trials=slice(None)):
        """Some trials' centred values, :class:`~.penalties.Moments`, and what is taken.

        The latter is the mean of the features, or of every column of the matrix.
        """
        if self.is_dual:
            values = block_of(self.values, trials, trials)
            centred = centre_gram(values, n_features=self.n_features)
        else:
            values = self.values[trials]
            centred = scatter_moments(values, self.n_features)
        return *centred, values.mean(axis=0)

    def training_set(self, centred, lam=None):
        """The :class:`TrainingSet` of `centred` trials; with lambda for that alone."""
        (values, moments, offset), unit = centred, 1.0
        n, matrix, scale = moments.n, moments.matrix, moments.scale
        if self.is_dual:
            # Values of data in a small unit would leave the range of single precision.
            unit = 2.0 ** np.frexp(scale)[1]
            matrix, scale = matrix / unit, scale / unit
        known = {"kernel": self.kernel, "shift": self.shift, "offset": offset / unit}
        known |= {"is_dual": self.is_dual, "unit": unit}
        if lam is None:
            w, V = np.linalg.eigh(matrix)
            if self.is_dual:
                V -= V.mean(axis=0)
            U = V if self.is_dual else values @ V
            return TrainingSet(U=U, root=V, w=np.maximum(w, 0), **known)
        if self.is_dual:
            # The constant vector, which is taken out again, is lifted to ordinary size.
            matrix = matrix + scale / n
        penalised = matrix + lam / unit * np.eye(len(matrix))
        L, failed = lapack.dpotrf(penalised, lower=1, clean=1, overwrite_a=1)
        if failed and self.is_dual:
            raise ValueError(NOT_POSITIVE.format(lam))
        if failed:
            raise ValueError(SINGULAR_SCATTER.format(lam, len(matrix)))
        inverse, lam = lapack.dtrtri(L, lower=1)[0], lam / unit
        missing = lam * np.square(inverse).sum()
        if self.is_dual:
            freedom = n - missing + lam / (scale + lam)
            inverse -= inverse.mean(axis=1, keepdims=True)
            U = root = np.ascontiguousarray(inverse.T)
        else:
            freedom, root = 1 + len(inverse) - missing, inverse.T
            U = blas.dtrsm(1.0, L, values.T, lower=1).T
        return TrainingSet(U=U, root=root, freedom=freedom, **known)

    def tested(self, each, train, test):
        """Tested trials on the directions of a training set, (m, r)."""
        if self.is_dual:
            rows = block_of(self.values, test, train) / each.unit
        else:
            rows = self.values[test]
        return (rows - each.offset) @ each.root


def block_of(K, rows, columns):
    """Some rows and columns of a matrix, by slices or by numbers."""
    sliced = isinstance(rows, slice)
    return K[rows, columns] if sliced else K[np.ix_(rows, columns)]


def compare_rows(Z, kernel, by_gram, trained=slice(None)):
    """All trials (n, p), or a kernel matrix (n, n), :class:`Compared` by a kernel.

    Its data-dependent numbers are those of the rows that are trained with; of all where
    the kernel averages some. Without eigenvalues a matrix is needed less often:
    `by_gram` says from which share of features to rows.
    """
    n_features = count_features(kernel, Z.shape[1])
    if isinstance(kernel, Precomputed):
        return Compared(kernel, 0.0, Z, True, n_features)
    if needs_gram(kernel):  # a map, whose features are the values with these trials
        Z = Z[:, trained]
    # An offset common to all trials drops out, and the digits it costs with it.
    moves = kernel.shift_free and not kernel.low_rank  # which takes care of it itself
    shift = Z[trained].mean(axis=0) if moves else 0.0
    Z = Z - shift
    few = kernel.is_linear and Z.shape[1] < by_gram * len(Z[trained])
    kernel = kernel.fit(Z[trained])
    few = few or kernel.low_rank
    values = kernel.features(Z) if few else gram_of(Z, kernel)
    return Compared(kernel, shift, values, not few, n_features)


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
class Chosen:
    """What label vectors choose, and the models that they choose."""

    #: Contrasts (q, n, B) as given, and less their means; the tests (k, m).
    T: np.ndarray
    centred: np.ndarray
    tests: np.ndarray
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
        te, E, explained = self.tests[i], self.E[:, i], []
        chosen, at = np.divmod(self.number[i], self.lambdas.shape[1])
        for kernel, each in enumerate(self.sets):
            c = each.U.T @ self.centred - each.U[te].T @ E
            gains = np.stack([each.gain(lam) for lam in self.lambdas[kernel]], axis=1)
            explained.append(gains[:, at] * c * (chosen == kernel))
        mean = (self.T.sum(axis=1) - E.sum(axis=1)) / self.T.shape[1]
        return Fit(explained, mean, self.A[:, :, i], self.number[i], self.criterion[i])


def choose(T, tests, terms, left_out, sets, lambdas):
    """What label vectors choose by squared left-out errors, :class:`Chosen`.

    Parameters
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
    sets : tuple of TrainingSet
        All trials under each kernel.
    lambdas : ndarray, shape (n_kernels, n_lambdas)
        The candidates; NaN are not to be used.
    """
    given, T = T, T.astype(np.float64)
    T = T - T.mean(axis=1, keepdims=True)
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
        if left_out == "equal":
            errors = _errors_of_equals(tests, each, lam, explained, R, E, inverses)
        elif left_out == "alone":
            errors = _errors_alone(tests, each, lam, R, E, inverses)
        else:
            errors = _errors_together(tests, left_out, each, lam, R, E, inverses)
        errors[~ok] = np.nan
        if terms is not None:
            errors = np.where(usable(A, terms), errors, np.nan)
        criterion[(slice(None), *i)] = errors[:, 0]
        better = errors < best * (1 - _BETTER)
        np.copyto(best, errors, where=better)
        np.copyto(best_E, E, where=better[:, None])
        np.copyto(best_A, A, where=better)
        number[better] = np.ravel_multi_index(i, lambdas.shape)
    return Chosen(given, T, tests, sets, lambdas, best_E, best_A, number, criterion)


def _errors_of_equals(tests, each, lam, explained, R, E, inverses):
    r"""Estimated squared errors (k, B) of new trials.

    The squared residuals of a training set over the squared share of the trace of what
    makes them, from those of all trials:

    .. math::

        \lVert R \rVert^2 - 2\, E^\top (MR)_{te} + E^\top (M^2)_{te,te} E, \qquad
        \mathrm{tr}\, M - \mathrm{tr}\, M_{te,te}^{-1} (M^2)_{te,te} .
    """
    n = len(each.U) - tests.shape[1]
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


def _errors_alone(tests, each, lam, R, E, inverses):
    """Squared errors (k, B) of trials that are left out one by one, as below."""
    _, n, n_labels = R.shape
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


def _errors_together(tests, left_out, each, lam, R, E, inverses):
    r"""Squared errors (k, B) of left-out trials; NaN where some are fitted exactly.

    A training set has the residuals :math:`R - M_{\cdot,te} E` and their maker
    :math:`M - M_{\cdot,te} M_{te,te}^{-1} M_{te,\cdot}`.
    """
    errors = np.zeros((len(tests), R.shape[2]))
    for i, blocks_out in enumerate(left_out):
        cross = each.cross(lam, tests[i : i + 1])[0]
        within = R - cross @ E[:, i]
        for index in blocks_out:
            part = cross[index]
            fitted = part @ inverses[i] @ part.swapaxes(1, 2)
            blocks = invert_blocks((each.makers(lam, index) - fitted)[None])[0]
            if not invertible(blocks).all():
                errors[i] = np.nan
                break
            left = blocks @ within[:, index]
            errors[i] += np.einsum("qkmb,qkmb->b", left, left)
        errors[i] /= sum(index.size for index in blocks_out)
    return errors
