"""What a penalty is chosen by: how well left-out training trials are predicted.

Candidates are judged within one training set at a time (:class:`Criterion`), but by
the squared error of trials left out one at a time they are so in all training sets at
once (:func:`squared_errors`). The residual of trial i left out of a training set is
:math:`(R_f)_i / (M_f)_{ii}`, see :mod:`mvpa_kfda.kfda.tuning`, so that all this takes
is the diagonal of :math:`M_f`.
"""

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from scipy.special import logsumexp

from .direct import SINGULAR, LowRankInverse, Targets, fold_models
from .folds import InnerFolds
from .rules import usable

#: Numbers in an array over folds and trials that is handled at a time.
_PIECE = 2**20


def left_out_weights(hat, tests, solver):
    """Return 1 / (M_f)_ii (k, n) of all trials, 0 for the outer test rows (k, m).

    And whether no training trial is fitted exactly when it is left out, (k,). The
    solver is that of the test rows.
    """
    k, n = len(tests), hat.n
    weights = np.empty((k, n))
    for folds in _slices(k, n * max(tests.shape[1], 1)):
        inverse = solver.of(folds)
        if hat.residual is None:
            weights[folds] = _low_rank_diagonal(hat.factor, tests[folds], inverse)
        else:
            cross = hat.residual[tests[folds]].transpose(0, 2, 1)  # (k, n, m)
            fitted = np.einsum("knm,knm->kn", cross @ inverse.matrix, cross)
            weights[folds] = np.diag(hat.residual) - fitted
    np.put_along_axis(weights, tests, 1.0, axis=1)
    stable = (weights > SINGULAR).all(axis=1)
    with np.errstate(divide="ignore"):
        np.divide(1, weights, out=weights)
    np.put_along_axis(weights, tests, 0.0, axis=1)
    return weights, stable


def _low_rank_diagonal(U, tests, solver):
    """Return the diagonals (k, n) of M_f = I - U (I - U_te' U_te)^-1 U'."""
    cores, ok = solver.cores(U, tests)
    # Safe to use; the fold is known not to be stable.
    cores = np.where(ok[:, None, None], cores, 0)
    diagonals = np.empty((len(cores), len(U)))
    for rows in _slices(len(U), U.shape[1]):
        block = U[rows]
        for core, diagonal in zip(cores, diagonals, strict=True):
            diagonal[rows] = 1 - np.einsum("nr,nr->n", block @ core, block)
    return diagonals


def squared_errors(hat, tests, R, E, weights):
    """Return the mean squared left-out residuals within every training set, (k, B).

    Of outer test rows (k, m), in-sample residuals R (q, n, B) of all trials,
    out-of-sample residuals E (q, k, m, B) of the test rows, and `left_out_weights`.
    """
    k, m = tests.shape
    errors = np.empty((k, R.shape[2]), R.dtype)
    for folds in _slices(k, R.size):
        within = R[:, None] - hat.spread(tests[folds], E[:, folds])
        within *= weights[folds, :, None]
        np.einsum("qknb,qknb->kb", within, within, out=errors[folds])
    return errors / (R.shape[1] - m)


@dataclass(frozen=True)
class TrainingSquares:
    r"""What generalized cross-validation needs of every training set.

    With M = I - G, the residuals :math:`R = MT` of all trials and E of the test rows,
    the squared residuals of a training set, and the trace of its residual maker, are

    .. math::

        \lVert R \rVert^2 - 2\, E^\top (MR)_{te} + E^\top (M^2)_{te,te} E, \qquad
        \mathrm{tr}\, M - \mathrm{tr}\, M_{te,te}^{-1} (M^2)_{te,te} .
    """

    #: Of the test rows of k folds: the blocks of M^2 (k, m, m), or where they are not
    #: formed U_te (k, m, r) and B (r, r) of M^2 = I - U B U'.
    blocks: np.ndarray | None
    rows: np.ndarray | None
    inner: np.ndarray | None
    #: The traces, (k,).
    traces: np.ndarray

    @classmethod
    def of(cls, hat, tests, inverse):
        """Return those of a hat, for test rows (k, m) and their inverse."""
        trace, U = hat.n - hat.degrees_of_freedom, hat.factor
        if U is None:
            maker = hat.residual[tests]
            blocks = maker @ maker.transpose(0, 2, 1)
        else:
            inner, rows = 2 * np.eye(U.shape[1]) - U.T @ U, U[tests]
            if isinstance(inverse, LowRankInverse):
                own = rows.transpose(0, 2, 1) @ rows
                lost = (inverse.core - inner - inverse.core @ own @ inner) * own
                traces = trace - tests.shape[1] - lost.sum(axis=(1, 2))
                return cls(None, rows, inner, traces)
            blocks = np.eye(tests.shape[1]) - rows @ inner @ rows.transpose(0, 2, 1)
        traces = trace - np.einsum("kij,kji->k", inverse.matrix, blocks)
        return cls(blocks, None, None, traces)

    def errors(self, R, MR, E):
        """Return the estimated errors (k, B), of R (q, n, B), MR and E (q, k, m, B)."""
        squares = np.einsum("qnb,qnb->b", R, R) - 2 * np.einsum("qkmb,qkmb->kb", E, MR)
        if self.blocks is not None:
            squares += np.einsum("qkmb,qkmb->kb", E, self.blocks.astype(E.dtype) @ E)
        else:
            Z = self.rows.transpose(0, 2, 1).astype(E.dtype) @ E
            lost = np.einsum("qkrb,qkrb->kb", Z, self.inner.astype(E.dtype) @ Z)
            squares += np.einsum("qkmb,qkmb->kb", E, E) - lost
        return np.maximum(squares, 0) / np.square(self.traces[:, None]).astype(E.dtype)


def _slices(n, size_each):
    """Cut n items into slices of about equally many numbers."""
    step = max(1, _PIECE // max(1, size_each))
    return [slice(i, min(i + step, n)) for i in range(0, n, step)]


@dataclass(frozen=True)
class Criterion:
    """What candidates are judged by, the less the better."""

    #: One of :data:`mvpa_kfda.kfda.penalties.CRITERIA`.
    name: str
    #: The folds within the training sets.
    inner: InnerFolds
    #: The label vectors, needed for predictions only.
    targets: Targets | None
    #: How many bytes to keep for the next candidate.
    most: int

    def __call__(self, plan, within, counts, key):
        """Return the mean over left-out trials (B,); NaN where a model is of no use.

        Of a candidate's plan for the folds within one training set, and the regression
        `within` it. Predictions need its class counts (c, 1, B) too. The key is the
        training set's.
        """
        total = 0.0
        if self.name == "squared_error":
            for number, batch in enumerate(plan.batches):
                E = plan.solve(number, batch.of(within.R))
                total = total + np.einsum("qkmb,qkmb->b", E, E)
        else:
            targets = self._targets_within(plan.batches, counts, key)
            for model in fold_models(plan, targets, within):
                total = total + _of_usable_models(MEASURES[self.name], model)
        return total / sum(batch.k * batch.m for batch in plan.batches)

    def _targets_within(self, batches, counts, key):
        """Return the label vectors of the folds within a training set."""
        if key in self._kept:
            return self._kept[key]
        targets = self.targets.of_batches(batches, counts)
        if self._may_keep:
            self._kept[key] = targets
        return targets

    @cached_property
    def _kept(self):
        """The label vectors by training set: all candidates are judged by the same."""
        return {}

    @cached_property
    def _may_keep(self):
        """Whether there is memory for the label vectors of all training sets."""
        rows, folds = self.inner.sizes
        q, _, n_labels = self.targets.T.shape
        values = rows * (q + 1) + folds * (2 * q + 6) * (q + 1)  # and class counts
        return values * n_labels * self.targets.T.itemsize <= self.most


def of_usable(values, A, terms):
    """Return criteria (k, B), NaN for models that cannot tell the classes apart.

    Of training cross-products A and the rule's terms; None where there are no classes.
    """
    return values if terms is None else np.where(usable(A, terms), values, np.nan)


def _of_usable_models(measure, model):
    """Return what a measure makes of folds (B,); NaN where one cannot be used."""
    terms = model.targets.terms
    ok = usable(model.A, terms)
    if ok.all():
        return measure(model)
    safe = terms.scatter.astype(model.A.dtype)
    values = measure(replace(model, A=np.where(ok, model.A, safe)))
    return np.where(ok.all(axis=0), values, np.nan)


def _errors(model):
    """Return how many test rows are predicted wrongly, (B,)."""
    wrong = model.classify() != model.targets.codes
    return wrong.sum(axis=(0, 1)).astype(model.A.dtype)


#: The smallest logarithm of a posterior probability.
_LEAST = float(np.log(np.finfo(np.float64).eps))


def _log_loss(model):
    """Return the summed negative log posteriors of the true classes, (B,)."""
    (_, k, m, n_labels), terms = model.residuals.shape, model.targets.terms
    logits = np.empty((k, m, len(terms.counts), n_labels), model.residuals.dtype)
    model.classify(logits)
    logits *= terms.n_train[:, None, None]
    true = model.targets.codes[:, :, None].astype(np.intp)
    logits -= logsumexp(logits, axis=2, keepdims=True)
    posterior = np.take_along_axis(logits, true, axis=2)
    # A class that was not trained with has probability zero: as in scikit-learn, no
    # less than the precision, the same for float32, which has the logarithms anyway.
    return -np.maximum(posterior, _LEAST).sum(axis=(0, 1, 2))


#: Criteria of predictions, summed over the test rows of fold models: those named in
#: :data:`mvpa_kfda.kfda.penalties.CRITERIA` beside the squared error.
MEASURES = {"accuracy": _errors, "log_loss": _log_loss}
