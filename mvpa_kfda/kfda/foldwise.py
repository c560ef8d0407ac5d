r"""Folds with a matrix of their own: custom training sets, steps, penalties by labels.

Where a fold trains on fewer rows than all the others, on features that steps have
learned from its training rows, or with a penalty that its training labels choose, no
matrix of all rows serves all folds. But each fold still has one :class:`TrainingSet`,
whatever the labels are, so that permutations stay columns of one product. But for steps
that learn from labels: then each label vector has a plan of its own.

What no label has a part in, penalties that are relative, grids of them, and numbers of
kernels such as widths, is that of the trials that the matrix is made of: where folds
have matrices of their own, no test trial has a part in any of their numbers.

A training set is ridge regression by its directions, for any labels and test rows.
With F the centred features of n training rows and
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

from dataclasses import dataclass, field, replace
from functools import cached_property, partial

import numpy as np
from scipy.linalg import blas, lapack
from sklearn import config_context

from .direct import (
    SINGULAR,
    PlanMixin,
    count_classes,
    cross_product,
    hides_others,
    invertible,
    is_too_large,
    refuse_too_large,
)
from .folds import Folds, InnerFolds
from .hat import (
    NOT_POSITIVE,
    SINGULAR_SCATTER,
    centre_gram,
    count_features,
    invert_blocks,
    scatter_moments,
)
from .kernels import Linear, Precomputed, gram_of, kernels_of, needs_gram
from .penalties import Auto, Tuned, candidates, of_trials, resolve_penalty
from .preprocess import FoldPreprocessing
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


# ------------------------------------------------------------------------------- folds

#: Bytes of matrices that are kept for the next label vectors.
_MOST = 2**28
#: Tested trials from which a training set is better by itself.
_MANY_TESTED = 256
#: The share of the largest eigenvalue below which training trials do not vary.
_UNSEEN = 1e-12
#: How far from training trials, which are within one, tested ones may be on directions
#: lest others lose digits to them.
_FAR = 1e3
_NONE_LEFT = (
    "No lambda of the grid can be used, from {:.3g} to {:.3g}: with each of them "
    "left-out trials of some training set are fitted exactly, or rounding would decide "
    "the predictions. Use penalties nearer to trace(K_c)/n = {:.3g}."
)


@dataclass(frozen=True)
class Fold:
    """One fold: its training set under each kernel, and its test trials."""

    #: All trials as they were given, which of them train, in the order they were given
    #: and in the folds', and which are tested.
    X: np.ndarray
    train: np.ndarray
    places: np.ndarray
    test: np.ndarray
    #: From rows as they are given to those after the steps.
    transform: object
    sets: tuple[TrainingSet, ...]
    #: The test trials on the directions of each, (m, r).
    tested: list
    #: The lambdas of the kernels (n_kernels, n_lambdas), the largest first, which no
    #: label has a part in; trace(K_c)/n of every kernel; the lambdas with NaN where
    #: rounding would decide.
    grid: np.ndarray
    scales: np.ndarray
    usable: np.ndarray
    #: Where labels choose, numbers (k, m) of training trials left out together;
    #: or "alone", or "equal".
    left_out: list | str | None

    def columns(self, rows):
        """The columns (m, d) of test rows, those of all kernels side by side."""
        with config_context(assume_finite=True, skip_parameter_validation=True):
            rows, trained = self.transform(rows), None
            if any(each.is_dual for each in self.sets):
                trained = self.transform(self.X[self.train])
            found = [
                each.columns(rows, trained - each.shift if each.is_dual else None)
                for each in self.sets
            ]
        return np.concatenate(found, axis=1)

    @cached_property
    def is_near(self):
        """Whether test trials are not so far that others would lose digits to them."""
        return bool((np.abs(self.tested[0]) < _FAR).all())

    @property
    def n_columns(self):
        """The number of columns d."""
        return sum(each.root.shape[0] for each in self.sets)

    def chosen(self, fit):
        """The number of the kernel and the lambda of the first label vector."""
        number = 0 if fit.number is None else fit.number[0]
        kernel, i = np.unravel_index(number, self.grid.shape)
        return kernel, self.grid[kernel, i]

    def fitted(self, fit, T):
        """The scores (q, n_train, 1) of training trials, less their mean.

        Of contrasts T (q, n, 1) in the folds' order.
        """
        kernel, lam = self.chosen(fit)
        T = T[:, self.places]
        T = T - T.mean(axis=1, keepdims=True)
        each = replace(self.sets[kernel], U=self.rows(kernel))
        return T - each.residuals(lam, T, fit.explained[kernel])

    def rows(self, kernel=0):
        """The training trials on directions, made again where they are not kept."""
        each = self.sets[kernel]
        if each.U is not None:
            return each.U
        return (self.columns(self.X[self.train]) - each.offset) @ each.root

    def weights(self, fit, of_features=False):
        """Weights (q, d + 1, B) of columns and of one, for scores."""
        found = [
            each.weights(explained, of_features)
            for each, explained in zip(self.sets, fit.explained, strict=True)
        ]
        constant = fit.mean + sum(weights[:, -1] for weights in found)
        weights = [*(weights[:, :-1] for weights in found), constant[:, None]]
        return np.concatenate(weights, axis=1)


@dataclass(frozen=True)
class FoldwisePlan(PlanMixin):
    """What predicts label vectors at one position, every fold by a matrix of its own.

    Attributes
    ----------
    X : ndarray, shape (n, p) | (n, n)
        Features, or a precomputed kernel matrix.
    kernel, reg
        Resolved kernel and regularisation.
    learned : FoldPreprocessing
        What every fold learns from its training trials first.
    folds : Folds
        The training and test sets.
    inner : InnerFolds | None
        Which training trials are left out to choose a penalty.
    dtype : dtype
        The precision in which labels are processed, but for what they choose.
    rank : int | None
        How many discriminants to use; None: all.
    codes : ndarray of int, shape (n,) | None
        The label vector of steps that learn from labels.
    """

    X: np.ndarray
    kernel: object
    reg: object
    learned: FoldPreprocessing
    folds: Folds
    inner: InnerFolds | None
    dtype: np.dtype
    rank: int | None = None
    codes: np.ndarray | None = None
    #: By number the folds; the last contrasts and their products; and what there is of
    #: observed ones.
    _kept: dict = field(default_factory=dict, init=False)
    _products: dict = field(default_factory=dict, init=False)
    _observed: dict = field(default_factory=dict, init=False)

    @property
    def is_tuned(self):
        """Whether labels choose the penalty."""
        return isinstance(self.reg, Tuned)

    @cached_property
    def pairs(self):
        """The folds' (train, test) trials, in the order of the folds' batches."""
        pairs = self.folds.pairs
        return [pairs[number] for number in self.folds.numbers]

    def block_size(self, n_classes, want_scores=False):
        """How many label vectors to process at a time, for speed and memory."""
        values = (len(self.rows) + self.n_rows) * (n_classes - 1)
        return int(np.clip(2**21 // (values * self.dtype.itemsize), 1, 512))

    @property
    def is_of_all(self):
        """Whether folds are all trials but some, under the same kernels."""
        return not self.learned and self.folds.trains is None

    @property
    def is_shared(self):
        """Whether what folds choose follows from all trials: they are without few."""
        most = max(map(len, self.folds.tests), default=0)
        return self.is_of_all and most < _MANY_TESTED

    @property
    def scores_features(self):
        """Whether scores are linear in the features as they are given."""
        if self.learned or not isinstance(self.kernel, Linear):
            return False
        folds = [self.whole] if self.is_shared else self.each
        return not any(fold.sets[0].is_dual for fold in folds)

    # ------------------------------------------------------------------ training

    @property
    def n_bytes(self):
        """About what the matrices of all folds take."""
        (n, p), n_folds = self.X.shape, len(self.folds.tests)
        return 8 * n_folds * n * min(n, p)

    @property
    def each(self):
        """Every :class:`Fold`, one by one."""
        return map(self._numbered, range(len(self.pairs)))

    def _numbered(self, number):
        """One of the folds, kept if memory allows."""
        fold = self._kept.get(number)
        if fold is None:
            try:
                fold = self._fold(*self.pairs[number])
            except ValueError as error:
                name = f"fold {self.folds.numbers[number]} of {self.folds.name}"
                message = f"In {name}, by its training trials: {error}"
                raise ValueError(message) from error
            if self.n_bytes <= _MOST:
                self._kept[number] = fold
        return fold

    @cached_property
    def whole(self):
        """The fold that trains on all trials that are to be trained with."""
        rows = self.order if self.is_shared else self.folds.rows_of_all
        return self._fold(rows, self.order[:0])

    def _fold(self, train, test):
        """The fold that trains on some trials and tests others."""
        transform, precomputed = np.asarray, needs_gram(self.kernel)
        with config_context(assume_finite=True, skip_parameter_validation=True):
            if self.is_of_all:
                among, compared, penalties = (train, test), *self._of_all
                centred = [each.centred(train) for each in compared]
            else:
                if self.learned:
                    y = None if self.codes is None else self.codes[train]
                    transform = self.learned.fit(self.X[train], y)
                rows, n = np.concatenate([train, test]), len(train)
                among = slice(n), slice(n, len(rows))
                rows = np.ix_(rows, rows) if precomputed else rows
                compared = self._compare(transform(self.X[rows]), among[0])
                centred = [each.centred(among[0]) for each in compared]
                penalties = self._penalties([each[1] for each in centred], train)
        grid, _, usable = penalties
        lam, dtype = (None, float) if self.is_tuned else (grid[0, 0], self.dtype)
        sets = [
            each.training_set(values, lam)
            for each, values in zip(compared, centred, strict=True)
        ]
        tested = [
            of_kernel.tested(each, *among).astype(dtype)
            for of_kernel, each in zip(compared, sets, strict=True)
        ]
        left_out = None
        if self.is_tuned:
            if len(test):
                usable = np.where(_fits_exactly(sets, tested, grid), np.nan, usable)
            left_out = "equal" if self.reg.grid == "auto" else "alone"
            if not self.inner.leaves_one_out:
                left_out = self.inner.within(train)
        if precomputed:  # the columns that belong to training trials
            transform = partial(np.take, indices=train, axis=1)
        trials, penalties = (self.X, train, self._places[train], test), penalties[:2]
        sets = tuple(sets), tested
        fold = Fold(*trials, transform, *sets, *penalties, usable, left_out)
        if self._shares(fold):  # labels do without its rows
            return replace(fold, sets=(replace(fold.sets[0], U=None),))
        return fold

    @cached_property
    def _places(self):
        """Where every trial is in the folds' order."""
        return np.argsort(self.order)

    def _compare(self, Z, trained=slice(None)):
        """Trials under each kernel, whose numbers are those of the trained ones."""
        by_gram = 1 if self.is_tuned else 3 / 4  # with eigenvalues it costs more
        kernels = kernels_of(self.kernel)
        return [compare_rows(Z, kernel, by_gram, trained) for kernel in kernels]

    @cached_property
    def _of_all(self):
        """All trials under each kernel, and the penalties for all folds."""
        compared = self._compare(self.X)
        moments = [each.centred()[1] for each in compared]
        return compared, self._penalties(moments, np.arange(self.n_rows))

    def _penalties(self, moments, trials):
        """The grid, scales and usable lambdas by the moments of some trials."""
        scales = np.array([each.scale for each in moments])
        if not self.is_tuned:
            lam = resolve_penalty(of_trials(self.reg, trials), moments[0])
            refuse_too_large(lam, scales[0], self.dtype)
            grid = np.array([[lam]])
            return grid, scales, grid
        auto = of_trials(Auto(self.folds.trained, self.inner.groups), trials)
        spectrum = self.inner.of_values or any(m.n_features is None for m in moments)
        grid = np.stack([candidates(self.reg, m, auto, spectrum) for m in moments])
        too_large = is_too_large(grid, scales[:, None], self.dtype)
        if self.is_shared and len(trials) == self.n_rows:
            for i, lam in np.ndenumerate(grid):
                squares = moments[i[0]].diagonal[self.order]
                if hides_others(lam, squares, self.folds, self.dtype):
                    too_large[i] = True
        return grid, scales, np.where(too_large, np.nan, grid)

    # ------------------------------------------------------------------ labels

    def of_labels(self, targets):
        """The plan for targets: another one if steps learn from their one vector."""
        if not self.learned.sees_labels:
            return self
        (codes,) = targets.codes[self._places].T
        if self.codes is not None and np.array_equal(codes, self.codes):
            return self
        return replace(self, codes=codes)

    def _fit(self, fold, T, terms=None, number=0):
        """The :class:`Fit` of contrasts T (q, n, B), in the folds' order.

        Of classes by the terms of the rule, of fold `number` among theirs; else of
        values.
        """
        if self.is_tuned:
            nobody, left_out = np.empty((1, 0), np.intp), fold.left_out
            left_out = left_out if isinstance(left_out, str) else [left_out]
            terms, T = terms and terms.of(number), T[:, fold.places]
            return self._choose(fold, T, nobody, terms, left_out).fit(0)
        c, mean, A = self._project(fold, T), None, None
        if terms is None:
            mean = T[:, fold.places].mean(axis=1)
        else:
            mean, scatter = terms.mean[:, number], terms.scatter[:, :, number]
            A = fold.sets[0].left(fold.grid[0, 0], c, c, scatter).astype(T.dtype)
        return Fit([c], mean, A)

    def _choose(self, fold, *question):
        """What label vectors choose, if each of them can choose."""
        chosen = choose(*question, fold.sets, fold.usable)
        if (chosen.number < 0).any():
            bounds = fold.grid.min(), fold.grid.max(), fold.scales[0]
            raise ValueError(_NONE_LEFT.format(*bounds))
        return chosen

    def _project(self, fold, T):
        """The coefficients (q, r, B) of contrasts T (q, n, B)."""
        if self._shares(fold):
            return self._project_together(fold, T)
        return fold.rows().T.astype(self.dtype, copy=False) @ T.take(
            fold.places, axis=1
        )

    def _shares(self, fold):
        """Whether a product with all trials, and small ones for folds, are cheaper.

        Folds have z-scores of their own, and are all trials but a few.
        """
        if self.is_tuned or self.folds.trains is not None:
            return False
        (n, p), n_folds = self.X.shape, len(self.folds.tests)
        zscores = self.learned.is_zscores and isinstance(self.kernel, Linear)
        cheaper = zscores and n_folds * (n - p) > 2 * n
        return cheaper and fold.is_near and not fold.sets[0].is_dual

    def _project_together(self, fold, T):
        r"""The same from what all folds share, :math:`X^\top T` and :math:`1^\top T`.

        Directions of features x are :math:`u = W^\top (x - \mu)`, so that

        .. math:: U^\top T = W^\top (X^\top T - \mu\, 1^\top T) - U_{te}^\top T_{te}.
        """
        each, (scores,) = fold.sets[0], fold.transform.steps
        if self._products.get("T") is not T:
            self._products.update(T=T, of_all=self._columns @ T)
        W = each.root / scores.scale[:, None]
        mean = (scores.mean - self._mean) @ W + (each.shift + each.offset) @ each.root
        c = np.vstack([W, -mean]).T.astype(self.dtype) @ self._products["of_all"]
        c -= fold.tested[0].T @ T[:, self._places[fold.test]]
        return c

    @cached_property
    def _columns(self):
        """The features less their mean, and ones, of all trials, (p + 1, n)."""
        X = self.X[self.order] - self._mean
        return np.vstack([X.T, np.ones(len(X))]).astype(self.dtype)

    @cached_property
    def _mean(self):
        return self.X.mean(axis=0)

    def _batches(self, T, fold_targets=None):
        """Yield every batch, its targets, what is chosen, and folds and fits.

        Of contrasts T (q, n, B) in the folds' order, and of classes the targets.
        Choices are made at once where they follow from all trials, and fits as they
        are asked for.
        """
        start, chosen = 0, None
        fold_targets = fold_targets or [None] * len(self.batches)
        for batch, of_folds in zip(self.batches, fold_targets, strict=True):
            terms = of_folds and of_folds.terms
            if self.is_shared:
                choosing = partial(self._choose_shared, batch, T, terms)
                chosen = self._once(start, T, choosing)
            yield batch, of_folds, chosen, self._fits(batch, start, T, terms, chosen)
            start += batch.k

    def _fits(self, batch, start, T, terms, chosen):
        """Yield the folds of a batch, the first of number `start`, and their fits."""
        for i in range(batch.k):
            if chosen is not None:
                test = self.order[chosen.tests[i]]
                yield replace(self.whole, test=test), chosen.fit(i)
                continue
            fold = self._numbered(start + i)
            make = partial(self._fit, fold, T, terms, i)
            kept = start + i in self._kept
            yield fold, self._once(start + i, T, make) if kept else make()

    def _once(self, key, T, make):
        """What is made of contrasts; the observed ones, which come first, are kept."""
        if T.shape[2] > 1:
            return make()
        if self._observed.get("T") != T.tobytes():
            self._observed.clear()
            self._observed["T"] = T.tobytes()
        if key not in self._observed:
            self._observed[key] = make()
        return self._observed[key]

    def _choose_shared(self, batch, T, terms):
        """What folds choose that are all trials but a few."""
        tests, left_out = batch.index(self.n_rows), self.whole.left_out
        if not isinstance(left_out, str):
            left_out = []
            for te in tests:  # trials that are left out together, without these
                places = np.delete(np.arange(self.n_rows), te)
                inner = self.inner.within(self.order[places])
                left_out.append([places[index] for index in inner])
        return self._choose(self.whole, T, tests, terms, left_out)

    def models(self, targets):
        """Yield every fold, its fit, and the rule's terms; without folds of all."""
        plan = self.of_labels(targets)
        if not self.batches:
            yield plan.whole, plan.of_all(targets), plan._terms_of_all(targets)
        for _, of_folds, _, fits in plan._batches(targets.T, targets.folds):
            for i, (fold, fit) in enumerate(fits):
                yield fold, fit, of_folds.terms.of(i)

    def fits(self, T):
        """Yield every fold and its fit of values T (q, n, B); without folds of all."""
        if not self.batches:
            yield self.whole, self._fit(self.whole, T)
        for *_, fits in self._batches(T):
            yield from fits

    def of_all(self, targets):
        """The fit of the model of all trials that are to be trained with."""
        return self._fit(self.whole, targets.T, self._terms_of_all(targets))

    def _terms_of_all(self, targets):
        """The rule's terms of that model."""
        codes, dtype = targets.codes[self.whole.places], targets.T.dtype
        counts = count_classes(codes[None], targets.n_classes, dtype)
        return replace(targets.terms, counts=counts)

    def fold_models(self, targets):
        """The models of every batch of folds, as a plan yields them."""
        return self.of_labels(targets)._residuals(targets.T, targets.folds)

    def fold_residuals(self, T):
        """Yield the batches and out-of-sample residuals (q, k, m, B) of T (q, n, B)."""
        for batch, _, E, _ in self._residuals(T):
            yield batch, E

    def _residuals(self, T, fold_targets=None):
        """Yield every batch, its targets, out-of-sample residuals, and A or None."""
        for batch, of_folds, chosen, fits in self._batches(T, fold_targets):
            if chosen is not None:
                arrays = (x.astype(self.dtype) for x in (chosen.E, chosen.A))
                yield batch, of_folds, *arrays
                continue
            E, A = batch.of(T).copy(), []
            for i, (fold, fit) in enumerate(fits):
                E[:, i] -= fit.mean[:, None]
                for tested, explained in zip(fold.tested, fit.explained, strict=True):
                    E[:, i] -= tested @ explained
                A.append(fit.A)
            A = None if of_folds is None else np.stack(A, 2, dtype=T.dtype)
            yield batch, of_folds, E, A

    def is_above(self, times):
        """Whether lambda is above so many times trace(K_c)/n; not if labels choose it.

        It may be if steps learn from labels.
        """
        if self.is_tuned or self.learned.sees_labels:
            return not self.is_tuned
        folds = self.each if self.batches else [self.whole]
        return any(fold.grid[0, 0] > times * fold.scales[0] for fold in folds)

    def penalty(self, labels, n_classes):
        """What is to be recorded of the penalties, arrays (1, n_folds, ...).

        Of the first label vector of (B, n); of values, where `n_classes` is None, by
        what is regressed (q, n, 1).
        """
        labels, back = np.asarray(labels), slice(None)
        if n_classes is None:
            T = labels[:, self.order].astype(self.dtype)
            found = self.fits(T)
        else:
            found = self.models(self.targets(labels[:1], n_classes))
        if self.batches:
            back = np.argsort(self.folds.numbers)
        records = []
        for fold, fit, *_ in found:
            kernel, lam = fold.chosen(fit)
            freedom = fold.sets[kernel].degrees_of_freedom(lam)
            record = {"lambda": lam, "degrees_of_freedom": freedom}
            if self.is_tuned:
                record |= {"kernel": kernel, "grid": fold.grid, "scale": fold.scales}
                record["criterion"] = fit.criterion
            records.append(record)
        record = {
            key: np.array([each[key] for each in records])[back][None]
            for key in records[0]
        }
        if self.is_tuned and self.is_of_all:  # all folds have the same
            record |= {key: record[key][:, 0] for key in ("grid", "scale")}
        return record


def _fits_exactly(sets, tested, grid):
    """Whether all trials would fit some tested one, (n_kernels, n_lambdas).

    It varies where training trials do not, and rounding times 1/lambda is its score. A
    kernel's values with training trials have nothing of that.
    """
    found = np.zeros(grid.shape, bool)
    for i, lam in np.ndenumerate(grid):
        if not sets[i[0]].is_dual:
            w, rows = sets[i[0]].w, tested[i[0]]
            gain = sets[i[0]].gain(lam) * (w < _UNSEEN * w.max())
            found[i] = (np.square(rows) @ gain).max() > 1 / SINGULAR
    return found
