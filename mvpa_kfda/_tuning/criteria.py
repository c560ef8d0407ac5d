"""What a penalty is chosen by: how well left-out training trials are predicted."""

from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
from scipy.special import logsumexp

from .._direct.fold_models import fold_models
from .._direct.rules import RuleTerms, best_classes, class_rule, contrasts, usable
from .._direct.targets import FoldTargets, Targets, count_classes
from .inner_folds import InnerFolds

#: The smallest logarithm of a posterior probability.
_LEAST = float(np.log(np.finfo(np.float64).eps))


@dataclass(frozen=True)
class Criterion:
    """What candidates are judged by, the less the better.

    Attributes
    ----------
    name : str
        One of :data:`mvpa_kfda.penalties.CRITERIA`.
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
