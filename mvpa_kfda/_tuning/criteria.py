"""What a penalty is chosen by: how well left-out training trials are predicted."""

from dataclasses import dataclass

import numpy as np
from scipy.special import logsumexp

from .._direct.fold_models import fold_models
from .._direct.rules import RuleTerms, best_classes, class_rule, contrasts
from .._direct.targets import FoldTargets, count_classes

#: The smallest logarithm of a posterior probability.
_LEAST = float(np.log(np.finfo(np.float64).eps))


def evaluate(criterion, inner, within, targets):
    """Return the criterion of a candidate within one training set, the less the better.

    Parameters
    ----------
    criterion : str
        One of :data:`mvpa_kfda.penalties.CRITERIA`.
    inner : Plan
        For the folds within the training set.
    within : Regression
        Of the label vectors on the training set; A is needed for predictions only.
    targets : InnerTargets | None
        The label vectors, needed for predictions only.

    Returns
    -------
    values : ndarray, shape (B,)
        The mean over left-out trials.
    """
    total = 0.0
    if criterion == "squared_error":
        for number, batch in enumerate(inner.batches):
            E = inner.solve(number, batch.of(within.R))
            total = total + np.einsum("qkmb,qkmb->b", E, E)
    else:
        measure = {"accuracy": _errors, "log_loss": _log_loss}[criterion]
        for model in fold_models(inner, targets, within):
            total = total + measure(model)
    return total / sum(batch.k * batch.m for batch in inner.batches)


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
