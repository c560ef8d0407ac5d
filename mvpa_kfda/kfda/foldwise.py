r"""Folds with a matrix of their own: custom training sets, steps, penalties by labels.

Where a fold trains on fewer rows than all the others, on features that steps have
learned from its training rows, or with a penalty that its training labels choose, no
matrix of all rows serves all folds. But each fold still has one
:class:`~mvpa_kfda.kfda.training.TrainingSet`, whatever the labels are, so that
permutations stay columns of one product.

What no label has a part in, penalties that are relative, grids of them, and numbers of
kernels such as widths, is that of the trials that the matrix is made of: where folds
have matrices of their own, no test trial has a part in any of their numbers.
"""

from dataclasses import dataclass, field, replace
from functools import cached_property, partial

import numpy as np
from sklearn import config_context

from .direct import (
    SINGULAR,
    PlanMixin,
    count_classes,
    hides_others,
    is_too_large,
    make_targets,
    refuse_too_large,
)
from .folds import Folds, InnerFolds, lay_out
from .kernels import Linear, kernels_of, needs_gram
from .penalties import Auto, Tuned, candidates, of_trials, resolve_penalty
from .preprocess import FoldPreprocessing
from .training import Fit, TrainingSet, choose, compare_rows

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
    #: and in the layout's, and which are tested.
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

        Of contrasts T (q, n, 1) in the layout's order.
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
    folds : Folds | None
        The training and test sets.
    inner : InnerFolds | None
        Which training trials are left out to choose a penalty.
    dtype : dtype
        The precision in which labels are processed, but for what they choose.
    rank : int | None
        How many discriminants to use; None: all.
    """

    X: np.ndarray
    kernel: object
    reg: object
    learned: FoldPreprocessing
    folds: Folds | None
    inner: InnerFolds | None
    dtype: np.dtype
    rank: int | None = None
    #: By number the folds; the last contrasts and their products; and what there is of
    #: observed ones.
    _kept: dict = field(default_factory=dict, init=False)
    _products: dict = field(default_factory=dict, init=False)
    _observed: dict = field(default_factory=dict, init=False)

    @property
    def layout(self):
        """The folds, as results come out."""
        return lay_out(self.folds, len(self.X))

    @property
    def is_tuned(self):
        """Whether labels choose the penalty."""
        return isinstance(self.reg, Tuned)

    @cached_property
    def pairs(self):
        """The folds' (train, test) trials, in the order of the layout's batches."""
        pairs = self.folds.pairs
        return [pairs[number] for number in self.folds.numbers]

    def block_size(self, n_classes, want_scores=False):
        """How many label vectors to process at a time, for speed and memory."""
        values = (len(self.rows) + self.n_rows) * (n_classes - 1)
        return int(np.clip(2**21 // (values * self.dtype.itemsize), 1, 512))

    @property
    def is_of_all(self):
        """Whether folds are all trials but some, under the same kernels."""
        return not self.learned and (self.folds is None or self.folds.trains is None)

    @property
    def is_shared(self):
        """Whether what folds choose follows from all trials: they are without few."""
        tests = () if self.folds is None else self.folds.tests
        return self.is_of_all and max(map(len, tests), default=0) < _MANY_TESTED

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
        rows = self.order if self.folds is None else self.folds.rows_of_all
        return self._fold(self.order if self.is_shared else rows, self.order[:0])

    def _fold(self, train, test):
        """The fold that trains on some trials and tests others."""
        transform, precomputed = np.asarray, needs_gram(self.kernel)
        with config_context(assume_finite=True, skip_parameter_validation=True):
            if self.is_of_all:
                among, compared, penalties = (train, test), *self._of_all
                centred = [each.centred(train) for each in compared]
            else:
                if self.learned:
                    transform = self.learned.fit(self.X[train])
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
        return Fold(
            *trials, transform, tuple(sets), tested, *penalties, usable, left_out
        )

    @cached_property
    def _places(self):
        """Where every trial is in the layout's order."""
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
        trained = None if self.folds is None else self.folds.trained
        auto = of_trials(Auto(trained, self.inner.groups), trials)
        spectrum = self.inner.of_values or any(m.n_features is None for m in moments)
        grid = np.stack([candidates(self.reg, m, auto, spectrum) for m in moments])
        too_large = is_too_large(grid, scales[:, None], self.dtype)
        if self.is_shared and len(trials) == self.n_rows:
            for i, lam in np.ndenumerate(grid):
                squares = moments[i[0]].diagonal[self.order]
                if hides_others(lam, squares, self.layout, self.dtype):
                    too_large[i] = True
        return grid, scales, np.where(too_large, np.nan, grid)

    # ------------------------------------------------------------------ labels

    def _fit(self, fold, T, terms=None, number=0):
        """The :class:`~.training.Fit` of contrasts T (q, n, B), in the layout's order.

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
        """What label vectors choose, once every one of them has chosen."""
        chosen = choose(*question, fold.sets, fold.usable)
        if (chosen.number < 0).any():
            bounds = fold.grid.min(), fold.grid.max(), fold.scales[0]
            raise ValueError(_NONE_LEFT.format(*bounds))
        return chosen

    def _project(self, fold, T):
        """The coefficients (q, r, B) of contrasts T (q, n, B)."""
        if T.shape[2] > 1 and self._shares(fold):
            return self._project_together(fold, T)
        return fold.rows().T.astype(self.dtype, copy=False) @ T.take(
            fold.places, axis=1
        )

    def _shares(self, fold):
        """Whether a product with all trials, and small ones for folds, are cheaper.

        Folds have z-scores of their own, and are all trials but a few.
        """
        if self.is_tuned or self.folds is None or self.folds.trains is not None:
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
        """Yield every batch, the rule's terms, what is chosen, and makers of the fits.

        Of contrasts T (q, n, B) in the layout's order, and of classes the targets. A
        maker returns a fold and its fit. Choices are made at once where they follow
        from all trials.
        """
        terms = [None] * len(self.batches)
        if fold_targets is not None:
            terms = [each.terms for each in fold_targets]
        start, make = 0, self._fit_shared if self.is_shared else self._fit_numbered
        for batch, of_batch in zip(self.batches, terms, strict=True):
            chosen, arguments = None, (start, T, of_batch)
            if self.is_shared:
                choosing = partial(self._choose_shared, batch, T, of_batch)
                chosen = self._once(start, T, choosing)
                arguments = batch, chosen
            makers = [partial(make, *arguments, i) for i in range(batch.k)]
            yield batch, of_batch, chosen, makers
            start += batch.k

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

    def _fit_shared(self, batch, chosen, i):
        """Such a fold and its fit."""
        return replace(self.whole, test=self.order[chosen.tests[i]]), chosen.fit(i)

    def _fit_numbered(self, start, T, terms, i):
        """A fold with a matrix of its own, the i-th of a batch, and its fit."""
        number = start + i
        fold, make = self._numbered(number), partial(self._fit, terms=terms, number=i)
        if number not in self._kept:
            return fold, make(fold, T)
        fit = self._once(number, T, lambda: make(fold, T))
        if self._shares(fold):  # permuted labels do without its rows
            self._kept[number] = replace(fold, sets=(replace(fold.sets[0], U=None),))
        return fold, fit

    def models(self, targets):
        """Yield every fold, its fit, and the rule's terms; without folds of all."""
        if not self.batches:
            yield self.whole, self.of_all(targets), self._terms_of_all(targets)
        for _, terms, _, makers in self._batches(targets.T, targets.folds):
            for i, make in enumerate(makers):
                yield *make(), terms.of(i)

    def of_all(self, targets):
        """The fit of the model of all trials that are to be trained with."""
        return self._fit(self.whole, targets.T, self._terms_of_all(targets))

    def _terms_of_all(self, targets):
        """The rule's terms of that model."""
        codes, dtype = targets.codes[self.whole.places], targets.T.dtype
        counts = count_classes(codes[None], targets.n_classes, dtype)
        return replace(targets.terms, counts=counts)

    def fold_models(self, targets):
        """Yield the models of every batch of folds, as a plan does."""
        found = self._residuals(targets.T, targets.folds)
        for (batch, E, A), of_folds in zip(found, targets.folds, strict=True):
            yield batch, of_folds, E, A

    def fold_residuals(self, T):
        """Yield the batches and out-of-sample residuals (q, k, m, B) of T (q, n, B)."""
        for batch, E, _ in self._residuals(T):
            yield batch, E

    def _residuals(self, T, fold_targets=None):
        """Yield every batch, its out-of-sample residuals, and A or None."""
        for batch, terms, chosen, makers in self._batches(T, fold_targets):
            if chosen is not None:
                yield batch, *(x.astype(self.dtype) for x in (chosen.E, chosen.A))
                continue
            E, A = batch.of(T).copy(), []
            for i, make in enumerate(makers):
                fold, fit = make()
                E[:, i] -= fit.mean[:, None]
                for tested, explained in zip(fold.tested, fit.explained, strict=True):
                    E[:, i] -= tested @ explained
                A.append(fit.A)
            yield batch, E, None if terms is None else np.stack(A, 2, dtype=T.dtype)

    def targets(self, labels, n_classes):
        """The targets of labels (B, n)."""
        layout, labels = self.layout, np.asarray(labels)
        return make_targets(labels, n_classes, layout, self.dtype, rank=self.rank)

    def is_above(self, times):
        """Whether lambda is above so many times trace(K_c)/n; not if labels choose."""
        if self.is_tuned:
            return False
        folds = self.each if self.folds is not None else [self.whole]
        return any(fold.grid[0, 0] > times * fold.scales[0] for fold in folds)

    def penalty(self, labels, n_classes):
        """What is to be recorded of the penalties, arrays (1, n_folds, ...).

        Of the first label vector of (B, n); of values `n_classes` is None.
        """
        labels, back = np.asarray(labels)[:1], slice(None)
        if n_classes is None:
            T = labels.T[self.order][None].astype(self.dtype)
            found = (make() for *_, makers in self._batches(T) for make in makers)
        else:
            found = self.models(self.targets(labels, n_classes))
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
