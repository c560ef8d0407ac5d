r"""Folds with a hat matrix of their own: any training set, steps learned in the fold.

Where a fold trains on fewer rows than all the others, or on features that steps have
learned from its training rows, no matrix of all rows serves all folds. But each fold
still has one linear map from training labels to scores of test rows, whatever the
labels are, so that permutations stay columns of one product. A fold is a plan of its
training trials alone (:class:`Part`), which is tested on other trials
(:mod:`mvpa_kfda.kfda.transfer`); with a fixed penalty the map itself is worked out
(:mod:`mvpa_kfda.kfda.foldmaps`), at a fraction of that price.

Penalties that are relative, and widths of kernels, are those of the training trials.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property, partial

import numpy as np
from sklearn import config_context

from .direct import FoldModels, Plan, PlanMixin, Predictions, make_targets, prepare
from .foldmaps import MapMaker, apply_maps
from .folds import Folds, lay_out
from .hat import make_hat, spectrum_of
from .kernels import KernelChoice, Linear, Precomputed, kernels_of, needs_gram
from .penalties import Tuned, of_trials
from .preprocess import FoldPreprocessing
from .rules import contrasts
from .transfer import Expansions, Transfer
from .tuning import TunedPlan, tuned_plan

#: Bytes of matrices that are kept for the next label vectors.
_MOST = 2**28


@dataclass(frozen=True)
class Part:
    """One fold: the plan of its training trials, and its test trials."""

    #: Trials, in the order they were given.
    train: np.ndarray
    test: np.ndarray
    #: From rows as they are given to those after the steps.
    transform: object
    #: These of the training trials, (n_train, r), or their kernel matrix.
    X: np.ndarray
    kernel: object
    plan: Plan | TunedPlan

    @cached_property
    def expansions(self):
        """The expansions of the plan, see :mod:`mvpa_kfda.kfda.transfer`."""
        if isinstance(self.kernel, Linear) and self.X.shape[1] <= len(self.train):
            return Expansions.of_features(self.plan, self.X)
        return Expansions.of_kernel(self.plan, self.X, self.kernel)

    def rows(self, X):
        """Return rows for the expansions (n, r) of rows as they are given."""
        with config_context(assume_finite=True, skip_parameter_validation=True):
            return self.expansions.rows(self.transform(X))

    def models(self, X, targets, of_fold):
        """Return residuals (q, 1, m, B) of test rows X and A (q, q, 1, B).

        Of the contrasts `of_fold` (q, 1, m, B) of the test rows, by models of targets.
        """
        A, choice = self.plan.all_models(targets)
        return of_fold - self._fitted(X, targets.T, choice), A

    def residuals(self, X, T, of_fold):
        """Return residuals (q, 1, m, B) of values T (q, n_train, B), not of classes."""
        choice = None
        if isinstance(self.plan, TunedPlan):
            choice = self.plan.choose_of_all(T)
        return of_fold - self._fitted(X, T, choice)

    def _fitted(self, X, T, choice):
        """Return the regression scores (q, 1, m, B) of test rows."""
        transfer = Transfer(self.plan, self.expansions, (), None, len(X))
        g = transfer.coefficients(T, {}, choice)
        rows = np.column_stack([self.rows(X), np.ones(len(X))])
        return rows.astype(self.plan.dtype) @ g


def _columns(train, K):
    """Return the columns of kernel values that belong to training trials."""
    return K[:, train]


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
    inner : tuple of InnerFolds | None
        Where the penalty is tuned the folds within every training set, in the order of
        the user's folds, of which the last is within all trials.
    dtype : dtype
        The precision in which labels are processed.
    rank : int | None
        How many discriminants to use; None: all.
    """

    X: np.ndarray
    kernel: object
    reg: object
    learned: FoldPreprocessing
    folds: Folds | None
    inner: tuple | None
    dtype: np.dtype
    rank: int | None = None

    @property
    def layout(self):
        """The folds, as results come out."""
        return lay_out(self.folds, len(self.X))

    @cached_property
    def pairs(self):
        """The folds' (train, test) trials, in the order of the layout's batches."""
        trains = [train for train, _ in self.folds.pairs]
        tests = np.split(self.rows, np.cumsum(self._sizes)[:-1])
        return [
            (trains[i], test) for i, test in zip(self.folds.numbers, tests, strict=True)
        ]

    @property
    def n_bytes(self):
        """About what the matrices of all folds take."""
        (n, p), n_folds = self.X.shape, len(self.folds.tests)
        return 8 * n_folds * n * min(n, p)

    @property
    def _sizes(self):
        """The number of test trials of every fold."""
        return [batch.m for batch in self.batches for _ in range(batch.k)]

    def _learn(self, train):
        """Return what maps rows to those of features, learned from some trials."""
        if needs_gram(self.kernel):
            return partial(_columns, train)
        if not self.learned:
            return _Same(self.X.shape[1])
        return self.learned.fit(self.X[train])

    def _plan(self, Z, number):
        """Return the plan of training rows; of fold `number`, -1 for all trials."""
        if isinstance(self.reg, Tuned):
            spectra = [spectrum_of(Z, choice) for choice in kernels_of(self.kernel)]
            inner = self.inner[number]
            return tuned_plan(spectra, self.reg, inner, self.dtype, self.rank)
        rows = self._everything if number < 0 else self.folds.pairs[number][0]
        hat = make_hat(Z, self.kernel, of_trials(self.reg, rows))
        return prepare(hat, None, self.dtype, self.rank)

    @property
    def _everything(self):
        """The trials that the model of all of them trains on."""
        return np.arange(self.n_rows) if self.folds is None else self.folds.rows_of_all

    @property
    def parts(self):
        """Yield every fold's part, kept if memory allows."""
        make = partial(self._named, self._part)
        yield from self._each(make, self._parts, len(self.pairs))

    def _part(self, number):
        """Return the part of a fold."""
        train, test = self.pairs[number]
        with config_context(assume_finite=True, skip_parameter_validation=True):
            transform = self._learn(train)
            Z = transform(self.X[train])
            plan = self._plan(Z, self.folds.numbers[number])
        return Part(train, test, transform, Z, self.kernel, plan)

    @cached_property
    def whole(self):
        """The part that trains on all trials that are to be trained with."""
        everything = self._everything
        with config_context(assume_finite=True, skip_parameter_validation=True):
            transform = self._learn(everything)
            Z = transform(self.X[everything])
            plan = self._plan(Z, -1)
        return Part(everything, everything[:0], transform, Z, self.kernel, plan)

    def is_above(self, times):
        """Whether lambda is above so many times trace(K_c)/n, in any fold."""
        return any(part.plan.is_above(times) for part in self.parts)

    @property
    def _has_parts(self):
        """Whether parts are what is asked, since they are needed or there already."""
        return isinstance(self.reg, Tuned) or bool(self._parts)

    @cached_property
    def _parts(self):
        return {}

    @cached_property
    def _maps(self):
        return {}

    def _each(self, make, kept, count):
        """Yield make(number) for all numbers, from `kept` or kept there."""
        for number in range(count):
            value = kept.get(number)
            if value is None:
                value = make(number)
                if self.n_bytes <= _MOST:
                    kept[number] = value
            yield value

    def _named(self, function, number):
        """Call a function of a fold's number; errors say which fold it is."""
        try:
            return function(number)
        except ValueError as error:
            fold = self.folds.numbers[number]
            raise ValueError(
                f"In fold {fold} of {self.folds.name}, by its training trials: {error}"
            ) from error

    @property
    def maps(self):
        """Yield every fold's :class:`~mvpa_kfda.kfda.foldmaps.FoldMap`."""
        make = partial(self._named, self._map)
        yield from self._each(make, self._maps, len(self.pairs))

    def _map(self, number):
        """Return the map of a fold."""
        train, test = self.pairs[number]
        if not self.learned and isinstance(self.kernel, (Linear, Precomputed)):
            return self._maker(train, test, self._learn(train))
        with config_context(assume_finite=True, skip_parameter_validation=True):
            return self._maker(train, test, self._learn(train))

    @cached_property
    def _maker(self):
        """What makes maps of folds."""
        return MapMaker(self.X, self.kernel, self.reg, self.layout, self.dtype)

    def fold_models(self, targets):
        """Yield the :class:`FoldModels` of every batch of folds."""
        if isinstance(self.reg, Tuned):
            found = self._by_parts(targets.T, targets)
        else:
            found = apply_maps(self._maker, self.maps, targets.T, targets.folds)
        for batch, of_folds, (E, A) in zip(
            self.batches, targets.folds, found, strict=True
        ):
            yield FoldModels(batch, of_folds, E, A)

    def fold_residuals(self, T):
        """Yield the batches and out-of-sample residuals (q, k, m, B) of T (q, n, B)."""
        if isinstance(self.reg, Tuned):
            found = self._by_parts(T)
        else:
            found = apply_maps(self._maker, self.maps, T)
        for batch, (E, _) in zip(self.batches, found, strict=True):
            yield batch, E

    def _by_parts(self, T, targets=None):
        """Yield residuals (q, k, m, B) and A (q, q, k, B) of every batch of folds."""
        place, parts = np.argsort(self.order), iter(self.parts)
        for batch in self.batches:
            of_folds, found = batch.of(T), []
            for i in range(batch.k):
                part = next(parts)
                train, mine = place[part.train], of_folds[:, i : i + 1]
                X = self.X[part.test]
                if targets is None:
                    found.append((part.residuals(X, T[:, train], mine), None))
                    continue
                labels, rank = targets.codes[train].T, self.rank
                layout, dtype = part.plan.layout, self.dtype
                within = make_targets(labels, targets.n_classes, layout, dtype, rank)
                found.append(part.models(X, within, mine))
            E, A = zip(*found, strict=True)
            yield (
                np.concatenate(E, axis=1),
                None if targets is None else np.concatenate(A, axis=2),
            )

    def block_size(self, n_classes, want_scores=False):
        """Return how many label vectors to process at a time, for speed and memory."""
        values = (len(self.rows) + self.n_rows) * (n_classes - 1)
        return int(np.clip(2**21 // (values * self.dtype.itemsize), 1, 512))

    def fitted(self, codes, n_classes):
        """Yield every fold's training trials and their scores (q, n_train).

        Of the observed labels (n,), less their mean.
        """
        if self._has_parts:
            for part in self.parts:
                plan, _ = part.plan.plain(codes[part.train], n_classes)
                layout, labels = plan.layout, codes[None, part.train]
                T = make_targets(labels, n_classes, layout, self.dtype).T
                back = np.argsort(plan.order)
                yield part.train, (T - plan.residuals(T))[:, back, 0]
            return
        Q = contrasts(n_classes).astype(self.dtype)
        for (train, _), each in zip(self.pairs, self.maps, strict=True):
            T = Q[codes[train]]
            fitted = each.fitted(T - T.mean(axis=0), self.X[train])
            yield train, fitted.T

    def penalty(self, labels, n_classes):
        """Return what is to be recorded of the penalties, arrays (1, n_folds, ...)."""
        labels = np.asarray(labels)
        if self._has_parts:
            records = [
                p.plan.penalty(labels[:, p.train], n_classes) for p in self.parts
            ]
            found = {key: [record[key][0] for record in records] for key in records[0]}
            of_model = ("lambda", "degrees_of_freedom", "kernel", "criterion")
            for key in of_model if isinstance(self.reg, Tuned) else ():
                found[key] = [values[0] for values in found[key]]  # the only model
        else:
            maps = list(self.maps)
            found = {
                "lambda": [each.lam for each in maps],
                "degrees_of_freedom": [each.degrees_of_freedom for each in maps],
            }
        back = np.argsort(self.folds.numbers)
        return {key: np.array(values)[back][None] for key, values in found.items()}


def foldwise_plan(X, kernel, reg, task):
    """Return the plan of features (n, p), or of a kernel matrix, for a task."""
    learned, dtype = task.learned, np.dtype(task.dtype)
    if not isinstance(kernel, KernelChoice):
        X, kernel = kernel.of_samples(X)
    X = learned.augmented(X)
    return FoldwisePlan(
        X, kernel, reg, learned, task.folds, task.inner, dtype, task.rank
    )


@dataclass(frozen=True)
class _Same:
    """The transform of features that stay as they are."""

    n_features: int

    @property
    def matrix(self):
        """What rows are multiplied by, (p, p)."""
        return np.eye(self.n_features)

    def __call__(self, X):
        """Return the features."""
        return X


#: Bytes of the predictions for a block of label vectors.
_PREDICTED_BYTES = 2**26


@dataclass(frozen=True)
class FoldwiseTransfer:
    """The models of one training position, every fold tested at other positions.

    Attributes
    ----------
    plan : FoldwisePlan
        Of the training position.
    chunks_of : callable
        ``chunks_of(part)``: the test positions of a fold's test trials, as
        :class:`~mvpa_kfda.kfda.transfer.Transfer` takes them.
    n_cells : int
        The number of test positions.
    true : ndarray of int, shape (n,) | None
        The labels to be predicted; None: those trained with.
    second : FoldwiseTransfer | None
        The same with another penalty, for a second test; None: with its own.
    """

    plan: FoldwisePlan
    chunks_of: Callable
    n_cells: int
    true: np.ndarray | None
    second: "FoldwiseTransfer | None" = None

    #: Of one training position, however many it is tested at.
    n_positions = 1

    def split(self):
        """Return the models of its positions one by one: itself."""
        return [self]

    def by(self, plan):
        """Return the same models with the penalty of another plan."""
        return replace(self, plan=plan)

    @property
    def rows(self):
        """The trial behind every test row."""
        return self.plan.rows

    @property
    def n_rows(self):
        """The number of trials."""
        return self.plan.n_rows

    @property
    def shapes(self):
        """The (folds, test rows, training rows) of every batch of test sets."""
        return self.plan.shapes

    @cached_property
    def _kept(self):
        """The transfers of the folds, once made."""
        return {}

    @property
    def _transfers(self):
        """Yield the transfer of every fold, with its training and test trials."""
        for number, part in enumerate(self.plan.parts):
            if number not in self._kept:
                m = len(part.test)
                # Which labels are true is said below.
                made = Transfer(
                    part.plan, part.expansions, self.chunks_of(part), np.zeros(m), m
                )
                self._kept[number] = part, made
            yield self._kept[number]

    def block_size(self, n_classes, want_scores=False):
        """Return how many label vectors to process at a time, for memory."""
        bytes_each = len(self.rows) * self.n_cells
        if want_scores:
            bytes_each *= n_classes * self.plan.dtype.itemsize
        return int(np.clip(_PREDICTED_BYTES // bytes_each, 1, 512))

    def predict(self, labels, n_classes, want_scores=False):
        """Yield the predictions for labels (B, n), all in one piece."""
        true = labels if self.true is None else self.true[None]
        found = []
        for part, transfer in self._transfers:
            pieces = list(
                transfer.predict(labels[:, part.train], n_classes, want_scores)
            )
            found.append(
                [
                    np.concatenate([piece.predicted for piece in pieces], axis=1),
                    np.concatenate([piece.class_scores for piece in pieces], axis=2)
                    if want_scores
                    else None,
                ]
            )
        predicted, scores = zip(*found, strict=True)
        yield Predictions(
            true[:, self.rows].T[:, None, :],
            np.concatenate(predicted),
            np.concatenate(scores) if want_scores else None,
        )
