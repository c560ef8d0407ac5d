"""What a penalty is chosen by: how well left-out training trials are predicted.

The residual of trial i left out of a training set is :math:`(R_f)_i / (M_f)_{ii}`, see
:mod:`mvpa_kfda.kfda.tuning`, so that all it takes is the diagonal of :math:`M_f`.
"""

from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
from scipy.special import logsumexp

from .direct import (
    SINGULAR,
    FoldTargets,
    Targets,
    count_classes,
    fold_models,
    invert_cores,
)
from .folds import InnerFolds
from .rules import RuleTerms, best_classes, class_rule, contrasts, usable

#: Numbers in an array over folds and trials that is handled at a time.
_PIECE = 2**20


def left_out_weights(hat, tests, solver):
    """Return 1 / (M_f)_ii of every trial in every training set.

    Parameters
    ----------
    hat : Hat
        Of all trials.
    tests : ndarray of int, shape (k, m)
        The outer test rows.
    solver : DenseInverse | LowRankInverse
        Of the outer test rows.

    Returns
    -------
    weights : ndarray, shape (k, n)
        Zero for test rows.
    stable : ndarray of bool, shape (k,)
        Whether no training trial is fitted exactly when it is left out.
    """
    k, n = len(tests), hat.n
    weights = np.empty((k, n))
    for folds in _pieces(k, n * max(tests.shape[1], 1)):
        if hat.residual is None:
            weights[folds] = _low_rank_diagonal(hat.factor, tests[folds], solver, folds)
        else:
            cross = hat.residual[tests[folds]].transpose(0, 2, 1)  # (k, n, m)
            fitted = np.einsum("knm,knm->kn", cross @ solver.matrix[folds], cross)
            weights[folds] = np.diag(hat.residual) - fitted
    np.put_along_axis(weights, tests, 1.0, axis=1)
    stable = (weights > SINGULAR).all(axis=1)
    with np.errstate(divide="ignore"):
        np.divide(1, weights, out=weights)
    np.put_along_axis(weights, tests, 0.0, axis=1)
    return weights, stable


def _low_rank_diagonal(U, tests, solver, folds):
    """Return the diagonals (k, n) of M_f = I - U (I - U_te' U_te)^-1 U'."""
    cores = getattr(solver, "core", None)
    if cores is None:
        cores, ok = invert_cores(U[tests])
        cores[~ok] = 0  # safe to use; the fold is known not to be stable
    else:
        cores = cores[folds]
    diagonals = np.empty((len(cores), len(U)))
    for rows in _pieces(len(U), U.shape[1]):
        some = U[rows]
        for core, diagonal in zip(cores, diagonals, strict=True):
            diagonal[rows] = 1 - np.einsum("nr,nr->n", some @ core, some)
    return diagonals


def squared_errors(hat, tests, R, E, weights):
    """Return the mean squared left-out residuals within every training set, (k, B).

    Parameters
    ----------
    hat : Hat
        Of all trials.
    tests : ndarray of int, shape (k, m)
        The outer test rows.
    R : ndarray, shape (q, n, B)
        In-sample residuals.
    E : ndarray, shape (q, k, m, B)
        Out-of-sample residuals of the outer test rows.
    weights : ndarray, shape (k, n)
        From :func:`left_out_weights`.
    """
    k, m = tests.shape
    found = np.empty((k, R.shape[2]), R.dtype)
    for folds in _pieces(k, R.size):
        within = R[:, None] - hat.spread(tests[folds], E[:, folds])
        within *= weights[folds, :, None]
        np.einsum("qknb,qknb->kb", within, within, out=found[folds])
    return found / (R.shape[1] - m)


def _pieces(n, size_each):
    """Cut n items into slices of about equally many numbers."""
    step = max(1, _PIECE // max(1, size_each))
    return [slice(i, min(i + step, n)) for i in range(0, n, step)]


#: The smallest logarithm of a posterior probability.
_LEAST = float(np.log(np.finfo(np.float64).eps))


@dataclass(frozen=True)
class Criterion:
    """What candidates are judged by, the less the better.

    Attributes
    ----------
    name : str
        One of :data:`mvpa_kfda.kfda.penalties.CRITERIA`.
    inner : InnerFolds
        The folds within the training sets.
    targets : Targets | None
        The label vectors, needed for predictions only.
    rank : int | None
        How many discriminants to use.
    most : int
        How many bytes to keep for the next candidate.
    kept : dict
        The label vectors of training sets.
    """

    name: str
    inner: InnerFolds
    targets: Targets | None
    rank: int | None
    most: int
    kept: dict = field(default_factory=dict, repr=False, compare=False)

    def __call__(self, plan, within, counts, key):
        """Return the criterion of a candidate within one training set.

        Parameters
        ----------
        plan : Plan
            For the folds within the training set.
        within : Regression
            Of the label vectors on the training set; A is needed for predictions only.
        counts : ndarray, shape (c, 1, B) | None
            Training trials of each class, likewise.
        key : hashable
            The training set's.

        Returns
        -------
        values : ndarray, shape (B,)
            The mean over left-out trials; NaN where some model cannot be used.
        """
        total = 0.0
        if self.name == "squared_error":
            for number, batch in enumerate(plan.batches):
                E = plan.solve(number, batch.of(within.R))
                total = total + np.einsum("qkmb,qkmb->b", E, E)
        else:
            measure = {"accuracy": _errors, "log_loss": _log_loss}[self.name]
            targets = self._targets_within(plan.batches, counts, key)
            for model in fold_models(plan, targets, within):
                total = total + _of_usable_models(measure, model)
        return total / sum(batch.k * batch.m for batch in plan.batches)

    def _targets_within(self, batches, counts, key):
        """Return the label vectors within a training set."""
        if key in self.kept:
            return self.kept[key]
        targets = InnerTargets.of(self.targets, counts, batches, self.rank)
        if self._may_keep:
            self.kept[key] = targets
        return targets

    @cached_property
    def _may_keep(self):
        """Whether there is memory for the label vectors of all training sets."""
        rows, folds = self.inner.sizes
        q, _, n_labels = self.targets.T.shape
        values = rows * (q + 1) + folds * (2 * q + 6) * (q + 1)  # and class counts
        return values * n_labels * self.targets.T.itemsize <= self.most


@dataclass(frozen=True)
class InnerTargets:
    """The label vectors of the folds within one training set, by batches."""

    folds: tuple[FoldTargets, ...]

    @classmethod
    def of(cls, targets, counts, batches, rank):
        """Return those of a training set with class counts (c, 1, B)."""
        n_classes, dtype = targets.n_classes, targets.T.dtype
        Q, folds = contrasts(n_classes).astype(dtype), []
        for batch in batches:
            tested = targets.codes[batch.take].reshape(batch.k, batch.m, -1)
            left = counts - count_classes(tested, n_classes, dtype)
            terms = RuleTerms(left, Q, rank)
            folds.append(FoldTargets(tested, batch.of(targets.T), terms))
        return cls(tuple(folds))


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


def _scores(model, want_scores):
    """Return the best classes (k, m, B), and the class scores (k, m, c, B)."""
    some = model.targets
    W, b = class_rule(model.A, some.terms)
    fitted = some.T - model.residuals
    scores = None
    if want_scores:
        scores = np.empty((*fitted.shape[1:3], len(b), fitted.shape[3]), fitted.dtype)
    return best_classes(fitted, W, b, scores), scores


def _errors(model):
    """Return how many test rows are predicted wrongly, (B,)."""
    best, _ = _scores(model, want_scores=False)
    return (best != model.targets.codes).sum(axis=(0, 1)).astype(model.A.dtype)


def _log_loss(model):
    """Return the summed negative log posteriors of the true classes, (B,)."""
    _, scores = _scores(model, want_scores=True)
    logits = model.targets.terms.n_train[:, None, None] * scores
    true = model.targets.codes[:, :, None].astype(np.intp)
    logits -= logsumexp(logits, axis=2, keepdims=True)
    posterior = np.take_along_axis(logits, true, axis=2)
    # A class that was not trained with has probability zero: as in scikit-learn, no
    # less than the precision, the same for float32, which has the logarithms anyway.
    return -np.maximum(posterior, _LEAST).sum(axis=(0, 1, 2))
