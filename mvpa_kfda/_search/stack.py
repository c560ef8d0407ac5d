"""The plans of many positions as one model, to call NumPy less often.

The observed labels are one vector, and at a single position its arrays are so small
that most of the time would go into calling NumPy. So they are predicted at all
positions of a stack together, with the positions in place of the label vectors.
Permuted labels are many, and are predicted position by position, from targets that are
worked out once for the whole stack.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from .._direct.fold_models import DenseInverse, Regressing
from .._direct.targets import make_targets
from ..direct import Plan, Scored, apply_targets


@dataclass(frozen=True)
class Stack:
    """Plans of S positions with the same folds; a row of the map.

    Attributes
    ----------
    plans : tuple of Plan
        One for each position.
    """

    plans: tuple[Plan, ...]

    @property
    def n_positions(self):
        """The number of positions S."""
        return len(self.plans)

    def split(self):
        """Return each position as a stack of its own."""
        return [Stack((plan,)) for plan in self.plans]

    @property
    def n_rows(self):
        """The number of trials."""
        return self.plans[0].n_rows

    @property
    def rows(self):
        """The trial behind every test row."""
        return self.plans[0].rows

    @property
    def shapes(self):
        """The (folds, test rows, training rows) of every batch."""
        return self.plans[0].shapes

    def penalty(self, labels, n_classes):
        """Return what is to be recorded of the penalties, arrays (positions, ...)."""
        found = [plan.penalty(labels, n_classes) for plan in self.plans]
        return {key: np.concatenate([each[key] for each in found]) for key in found[0]}

    def block_size(self, n_classes, want_scores=False):
        """Return how many label vectors to process at a time."""
        return self.plans[0].block_size(n_classes, want_scores)

    def predict(self, labels, n_classes, want_scores=False):
        """Yield the predictions for labels (B, n), some positions at a time.

        Yields
        ------
        scored : Scored
            ``true`` (n_test, 1, B), ``predicted`` (n_test, positions, B) and
            ``class_scores`` (n_test, c, positions, B) or None.
        """
        first = self.plans[0]
        targets = make_targets(
            labels, n_classes, first.layout, first.dtype, rank=first.rank
        )
        true = None
        if targets.n_labels == 1 and isinstance(first, Plan):
            scored = apply_targets(_Together(self.plans), targets, want_scores)
            yield _with_axis(scored, scored.true[:, None], -1)
            return
        for plan in self.plans:
            scored = apply_targets(plan, targets, want_scores)
            true = scored.true[:, None] if true is None else true
            yield _with_axis(scored, true, -2)


def _with_axis(scored, true, axis):
    """Return predictions with an axis of length one for the label vector or the row."""
    class_scores = scored.class_scores
    if class_scores is not None:
        class_scores = np.expand_dims(class_scores, axis)
    return Scored(true, np.expand_dims(scored.predicted, axis), class_scores)


@dataclass(frozen=True)
class _Together(Regressing):
    """What :func:`mvpa_kfda.direct.apply_targets` needs of a plan, for S plans at once.

    Arrays that end with the label vectors, B, end with the positions here.
    """

    plans: tuple[Plan, ...]

    @property
    def rows(self):
        return self.plans[0].rows

    @property
    def batches(self):
        return self.plans[0].batches

    @property
    def dtype(self):
        return self.plans[0].dtype

    def residuals(self, T):
        """Return the in-sample residuals of contrasts T (q, n, 1), as (q, n, S)."""
        columns = np.ascontiguousarray(T[:, :, 0].T)  # (n, q)
        R = np.empty((*T.shape[:2], len(self.plans)), self.dtype)
        for s, plan in enumerate(self.plans):
            R[:, :, s] = plan.hat.residuals(columns).T
        return R

    def solve(self, number, R):
        """Return the out-of-sample residuals of a batch of folds, (q, k, m, S) both."""
        if self._inverses[number] is None:
            each = [
                p.solve(number, R[..., i : i + 1]) for i, p in enumerate(self.plans)
            ]
            return np.concatenate(each, axis=3)
        E = self._inverses[number] @ R.transpose(3, 1, 2, 0)  # (S, k, m, q)
        return np.ascontiguousarray(E.transpose(3, 1, 2, 0))

    @cached_property
    def _inverses(self):
        """The inverses (S, k, m, m) by batches; None where they are not dense."""
        return [
            np.stack([one.matrix for one in each])
            if all(isinstance(one, DenseInverse) for one in each)
            else None
            for each in zip(*(p.inverses for p in self.plans), strict=True)
        ]
