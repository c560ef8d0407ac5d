r"""Folds with a hat matrix of their own: any training set, steps learned in the fold.

Where a fold trains on fewer rows than all the others, or on features that steps have
learned from its training rows, no matrix of all rows serves all folds. But of the rows
that a fold trains with or tests, the training rows are all that it does not test: with
the fold's own features and penalty it is a hold-out of the direct step
(:mod:`mvpa_kfda.kfda.direct`), exactly. Its matrix does not depend on labels, so that
permutations stay columns.

Penalties that are relative, and widths of kernels, are those of the training rows.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from sklearn import config_context

from .direct import Plan, PlanMixin, Predictions, apply, prepare
from .folds import FoldBatch, Folds
from .hat import (
    centre_gram,
    count_features,
    hat_from_features,
    hat_from_gram,
    prefers_features,
    scatter_moments,
)
from .kernels import gram_of, needs_gram
from .penalties import Ridge, resolve_penalty
from .steps import fit_steps

#: Bytes of matrices that are kept for the next label vectors.
_MOST = 2**28


@dataclass(frozen=True)
class FoldPart:
    """One fold: a hold-out among the rows that it trains with or tests."""

    #: These rows, those trained with first, (n,).
    rows: np.ndarray
    #: How many are tested.
    m: int
    plan: Plan

    @property
    def tested(self):
        """The test rows, in the order of predictions."""
        return self.rows[self.plan.rows]

    @property
    def degrees_of_freedom(self):
        """The trace of the hat matrix of the training rows."""
        hat, order = self.plan.exact_hat, self.plan.order
        te = np.flatnonzero(order >= len(self.rows) - self.m)
        tr = np.flatnonzero(order < len(self.rows) - self.m)
        if hat.residual is None:
            U, V = hat.factor[tr], hat.factor[te]
            core = np.linalg.inv(np.eye(V.shape[1]) - V.T @ V)
            return float(np.sum(core * (U.T @ U)))
        cross = hat.residual[np.ix_(te, tr)]
        inverse = np.linalg.inv(hat.residual[np.ix_(te, te)])
        left_out = np.sum((inverse @ cross) * cross)
        return float(len(tr) - np.trace(hat.residual[np.ix_(tr, tr)]) + left_out)


@dataclass(frozen=True)
class FoldwisePlan(PlanMixin):
    """What predicts label vectors at one position, every fold by a matrix of its own."""

    #: Features (n, p), or a precomputed kernel matrix (n, n).
    X: np.ndarray
    kernel: object
    reg: object
    steps: tuple
    folds: Folds
    dtype: np.dtype
    rank: int | None = None

    @property
    def n_rows(self):
        """The number of trials."""
        return len(self.X)

    @property
    def order(self):
        """The order in which trials are processed: as they are."""
        return np.arange(self.n_rows)

    @cached_property
    def pairs(self):
        """The folds as (train, test), in the order of the layout's batches."""
        pairs = self.folds.pairs
        return [pairs[number] for number in self.folds.numbers]

    @property
    def rows(self):
        """The trial behind every test row."""
        return np.concatenate([test for _, test in self.pairs])

    @property
    def shapes(self):
        """The (1, test rows, training rows) of every fold."""
        return tuple((1, len(test), len(train)) for train, test in self.pairs)

    @property
    def parts(self):
        """Yield every fold's part, kept if memory allows."""
        keep = len(self.pairs) * 8 * self.n_rows**2 <= _MOST
        for number in range(len(self.pairs)):
            part = self._kept.get(number)
            if part is None:
                part = self._make(number)
                if keep:
                    self._kept[number] = part
            yield part

    @cached_property
    def _kept(self):
        return {}

    def _make(self, number):
        """Return the part of a fold, and say of which one something is wrong."""
        try:
            return self._hold_out(*self.pairs[number])
        except ValueError as error:
            fold = self.folds.numbers[number]
            raise ValueError(
                f"In fold {fold} of {self.folds.name}, by its training trials: {error}"
            ) from error

    def _hold_out(self, train, test):
        """Return the part of a fold."""
        rows = np.concatenate([train, test])
        values, is_primal, n_features = self._values(rows, len(train))
        mine = slice(len(train))
        if is_primal:
            _, moments = scatter_moments(values[mine], n_features)
            reg = Ridge(resolve_penalty(self.reg, moments))
            hat = hat_from_features(values, reg, n_features)
        else:
            _, moments = centre_gram(values[mine, mine], n_features=n_features)
            reg = Ridge(resolve_penalty(self.reg, moments))
            hat = hat_from_gram(values, reg, n_features=n_features)
        left_out = Folds((np.arange(len(train), len(rows)),), len(rows))
        plan = prepare(hat, left_out, self.dtype, self.rank)
        return FoldPart(rows, len(test), plan)

    def _values(self, rows, n_train):
        """Return features (n, r) or a kernel matrix of rows, which, and p if linear.

        Everything is learned from the first `n_train` rows.
        """
        if needs_gram(self.kernel):
            return self.X[np.ix_(rows, rows)], False, None
        X = self.X[rows]
        with config_context(assume_finite=True, skip_parameter_validation=True):
            X = fit_steps(self.steps, X[:n_train])(X)
            if self.kernel.shift_free:
                X = X - X[:n_train].mean(axis=0)
            kernel = self.kernel.fit(X[:n_train])
            n_features = count_features(self.kernel, X.shape[1])
            few = kernel.is_linear and prefers_features(n_train, X.shape[1])
            if kernel.low_rank or few:
                return kernel.features(X), True, n_features
            return gram_of(X, kernel), False, n_features

    def block_size(self, n_classes, want_scores=False):
        """Return how many label vectors to process at a time."""
        return next(self.parts).plan.block_size(n_classes, want_scores)

    def predict(self, labels, n_classes, want_scores=False):
        """Yield the predictions for labels (B, n), all in one piece."""
        found = [
            apply(part.plan, labels[:, part.rows], n_classes, want_scores)
            for part in self.parts
        ]
        scores = [each.class_scores for each in found]
        yield Predictions(
            np.concatenate([each.true for each in found]),
            np.concatenate([each.predicted for each in found]),
            np.concatenate(scores) if want_scores else None,
        )

    def fold_residuals(self, T):
        """Yield the batches and out-of-sample residuals (q, 1, m, B) of T (q, n, B)."""
        start = 0
        for part in self.parts:
            mine = np.ascontiguousarray(T[:, part.rows[part.plan.order]])
            ((_, residuals),) = part.plan.fold_residuals(mine)
            rows = slice(start, start + part.m)
            start = rows.stop
            yield FoldBatch(part.tested, 1, part.m, rows), residuals

    def penalty(self, labels, n_classes):
        """Return what is to be recorded of the penalties, arrays (1, n_folds)."""
        back = np.argsort(self.folds.numbers)
        found = [(p.plan.hat.lam, p.degrees_of_freedom) for p in self.parts]
        lambdas, degrees = np.array(found)[back].T
        return {"lambda": lambdas[None], "degrees_of_freedom": degrees[None]}

    @property
    def full(self):
        """The plan of all trials, with steps learned from all of them."""
        everything = np.arange(self.n_rows)
        values, is_primal, n_features = self._values(everything, self.n_rows)
        make = hat_from_features if is_primal else hat_from_gram
        hat = make(values, self.reg, n_features=n_features)
        return prepare(hat, None, self.dtype, self.rank)
