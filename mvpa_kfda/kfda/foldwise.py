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

from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import count, islice

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
from .kernels import KernelChoice, Linear, kernels_of, needs_gram
from .penalties import Auto, Tuned, candidates, of_trials, resolve_penalty
from .preprocess import FoldPreprocessing
from .training import Fit, Question, TrainingSet, choose, compare_rows

#: Bytes of matrices that are kept for the next label vectors.
_MOST = 2**28
#: Tested trials from which a training set is better by itself.
_MANY_TESTED = 256
#: The share of the largest eigenvalue below which training trials do not vary.
_UNSEEN = 1e-12
_NONE_LEFT = (
    "No lambda of the grid can be used, from {:.3g} to {:.3g}: with each of them "
    "left-out trials of some training set are fitted exactly, or rounding would decide "
    "the predictions. Use penalties nearer to trace(K_c)/n = {:.3g}."
)


@dataclass(frozen=True)
class Penalties:
    """The lambdas of a plan's kernels, which no label has a part in."""

    #: (n_kernels, n_lambdas), the largest first.
    grid: np.ndarray
    #: trace(K_c)/n of every kernel.
    scales: np.ndarray
    #: The grid with NaN where rounding would decide.
    usable: np.ndarray


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
    penalties: Penalties
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

    @property
    def n_columns(self):
        """The number of columns d."""
        return sum(each.root.shape[0] for each in self.sets)

    def chosen(self, fit):
        """The number of the kernel and the lambda of the first label vector."""
        grid = self.penalties.grid
        number = 0 if fit.number is None else fit.number[0]
        kernel, i = np.unravel_index(number, grid.shape)
        return kernel, grid[kernel, i]

    def fitted(self, fit, T):
        """The scores (q, n_train, 1) of training trials, less their mean.

        Of contrasts T (q, n, 1) in the layout's order.
        """
        kernel, lam = self.chosen(fit)
        T = T[:, self.places]
        T = T - T.mean(axis=1, keepdims=True)
        return T - self.sets[kernel].residuals(lam, T, fit.explained[kernel])

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
        sizes = [batch.m for batch in self.batches for _ in range(batch.k)]
        tests = np.split(self.rows, np.cumsum(sizes)[:-1])
        return [
            (pairs[i][0], test)
            for i, test in zip(self.folds.numbers, tests, strict=True)
        ]

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
    def _kept(self):
        return {}

    @cached_property
    def whole(self):
        """The fold that trains on all trials that are to be trained with."""
        rows = self.order if self.folds is None else self.folds.rows_of_all
        return self._fold(self.order if self.is_shared else rows, self.order[:0])

    def _fold(self, train, test):
        """The fold that trains on some trials and tests others."""
        with config_context(assume_finite=True, skip_parameter_validation=True):
            transform, among = np.asarray, (train, test)
            if self._compared:
                compared, penalties = self._compared, self._penalties
            else:
                if self.learned:
                    transform = self.learned.fit(self.X[train])
                rows = np.concatenate([train, test])
                X = self.X[rows][:, rows] if self._needs_gram else self.X[rows]
                among = np.split(np.arange(len(rows)), [len(train)])
                compared = self._compare(transform(X), among[0])
                penalties = self._resolve(compared, among[0], train)
            lam = None if self.is_tuned else penalties.grid[0, 0]
            sets = tuple(each.training_set(among[0], lam) for each in compared)
            tested = [
                of_kernel.tested(each, *among).astype(self._dtype_of_fits)
                for of_kernel, each in zip(compared, sets, strict=True)
            ]
        if self.is_tuned and len(test):
            usable = np.where(_fits_exactly(sets, tested, penalties.grid), np.nan, 1)
            penalties = replace(penalties, usable=penalties.usable * usable)
        if self._needs_gram:
            transform = _Columns(train)
        left_out = None
        if self.is_tuned and self.inner.leaves_one_out:
            left_out = "equal" if self.reg.grid == "auto" else "alone"
        elif self.is_tuned:
            left_out = self.inner.within(train)
        places = np.argsort(self.layout.order)[train]
        return Fold(
            *(self.X, train, places, test),
            *(transform, sets, tested, penalties, left_out),
        )

    @property
    def _dtype_of_fits(self):
        """The precision of models; what labels choose is always known in double."""
        return np.dtype("float64") if self.is_tuned else self.dtype

    @property
    def _needs_gram(self):
        return needs_gram(self.kernel)

    def _compare(self, Z, trained=slice(None)):
        """Trials under each kernel, whose numbers are those of the trained ones."""
        by_gram = 1 if self.is_tuned else 3 / 4  # with eigenvalues it costs more
        kernels = kernels_of(self.kernel)
        return [compare_rows(Z, kernel, by_gram, trained) for kernel in kernels]

    @cached_property
    def _compared(self):
        """All trials under each kernel; None where every fold has its own."""
        if not self.is_of_all:
            return None
        return self._compare(self.X)

    @cached_property
    def _penalties(self):
        """The penalties of all trials, for all folds."""
        everybody = np.arange(self.n_rows)
        return self._resolve(self._compared, everybody, everybody)

    def _resolve(self, compared, among, trials):
        """The :class:`Penalties` of some trials, and where these are among compared."""
        moments = [each.moments(among) for each in compared]
        scales = np.array([each.scale for each in moments])
        if not self.is_tuned:
            lam = resolve_penalty(of_trials(self.reg, trials), moments[0])
            refuse_too_large(lam, scales[0], self.dtype)
            grid = np.array([[lam]])
            return Penalties(grid, scales, grid)
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
        return Penalties(grid, scales, np.where(too_large, np.nan, grid))

    # ------------------------------------------------------------------ labels

    def _fit(self, fold, T, terms=None, number=0):
        """The :class:`~.training.Fit` of contrasts T (q, n, B), in the layout's order.

        Of classes by the terms of the rule, of fold `number` among theirs; else of
        values.
        """
        if self.is_tuned:
            nobody, left_out = np.empty((1, 0), np.intp), fold.left_out
            left_out = left_out if isinstance(left_out, str) else [left_out]
            terms = terms and terms.of(number)
            question = Question(T[:, fold.places], nobody, terms, left_out)
            return self._choose(question, fold).fit(0)
        (each,), lam = fold.sets, fold.penalties.grid[0, 0]
        c, A = self._project(fold, T), None
        if terms is None:
            return Fit([c], T[:, fold.places].mean(axis=1), A)
        A = each.left(lam, c, c, terms.scatter[:, :, number]).astype(T.dtype)
        return Fit([c], terms.mean[:, number], A)

    def _choose(self, question, fold):
        """What label vectors choose, once every one of them has chosen."""
        chosen = choose(question, fold.sets, fold.penalties.usable)
        if (chosen.number < 0).any():
            grid, scale = fold.penalties.grid, fold.penalties.scales[0]
            raise ValueError(_NONE_LEFT.format(grid.min(), grid.max(), scale))
        return chosen

    def _project(self, fold, T):
        """The coefficients (q, r, B) of contrasts T (q, n, B)."""
        wide = self._wide.get(id(fold))
        if wide is None:  # a product with zeros is cheaper than a copy of trials
            wide = np.zeros((fold.sets[0].U.shape[1], self.n_rows), self.dtype)
            wide[:, fold.places] = fold.sets[0].U.T
            if self._kept:
                self._wide[id(fold)] = wide
        return wide @ T

    @cached_property
    def _wide(self):
        return {}

    def _batches(self, T, fold_targets=None):
        """Every batch, residuals (q, k, m, B), A, and what makes each fold and its fit.

        Of contrasts T (q, n, B) in the layout's order, and of classes the targets.
        """
        if T.shape[2] > 1:
            return self._fits(T, fold_targets)
        # What is observed comes first, and is asked for again.
        key = T.tobytes()
        if key not in self._observed:
            self._observed.clear()
            self._observed[key] = list(self._fits(T, fold_targets))
        return self._observed[key]

    @cached_property
    def _observed(self):
        return {}

    def _fits(self, T, fold_targets):
        """Yield what `_batches` returns."""
        terms = [None] * len(self.batches)
        if fold_targets is not None:
            terms = [each.terms for each in fold_targets]
        numbers = count()
        for batch, of_batch in zip(self.batches, terms, strict=True):
            if self.is_shared:
                yield batch, *self._of_shared(batch, T, of_batch)
            else:
                some = islice(numbers, batch.k)
                yield batch, *self._of_folds(batch, some, T, of_batch)

    def _of_shared(self, batch, T, terms):
        """What `_batches` has of folds that are all trials but a few."""
        tests, left_out = batch.index(self.n_rows), self.whole.left_out
        if not isinstance(left_out, str):
            left_out = [self._left_out_within(te) for te in tests]
        chosen = self._choose(Question(T, tests, terms, left_out), self.whole)

        def fitted(i):
            return replace(self.whole, test=self.order[tests[i]]), chosen.fit(i)

        E, A = chosen.E.astype(self.dtype), chosen.A.astype(self.dtype)
        return E, A, [partial(fitted, i) for i in range(batch.k)]

    def _left_out_within(self, te):
        """Trials that are left out together, without those of a test set."""
        places = np.delete(np.arange(self.n_rows), te)
        inner = self.inner.within(self.order[places])
        return [places[index] for index in inner]

    def _of_folds(self, batch, numbers, T, terms):
        """What `_batches` has of folds that have a matrix of their own."""
        E, A, fits = batch.of(T).copy(), [], []
        for i, number in enumerate(numbers):
            fold, fit = found = self._fitted(number, T, terms, i)
            E[:, i] -= fit.mean[:, None]
            for tested, explained in zip(fold.tested, fit.explained, strict=True):
                E[:, i] -= tested @ explained
            A.append(fit.A)
            again = partial(self._fitted, number, T, terms, i)
            keep = number in self._kept and T.shape[2] == 1
            fits.append((lambda found=found: found) if keep else again)
        return E, None if terms is None else np.stack(A, axis=2, dtype=T.dtype), fits

    def _fitted(self, number, T, terms, i):
        """A fold and its fit, of the terms of fold i."""
        fold = self._numbered(number)
        return fold, self._fit(fold, T, terms, i)

    def models(self, targets):
        """Yield every fold, its fit, and the rule's terms; without folds of all."""
        if not self.batches:
            yield self.whole, self.of_all(targets), self._terms_of_all(targets)
        elif self.is_shared or targets.T.shape[2] == 1:
            batches = self._batches(targets.T, targets.folds)
            for (*_, fits), of_folds in zip(batches, targets.folds, strict=True):
                for i, fitted in enumerate(fits):
                    yield *fitted(), of_folds.terms.of(i)
        else:  # residuals are not asked for
            numbers = count()
            for batch, of_folds in zip(self.batches, targets.folds, strict=True):
                for i in range(batch.k):
                    found = self._fitted(next(numbers), targets.T, of_folds.terms, i)
                    yield *found, of_folds.terms.of(i)

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
        batches = self._batches(targets.T, targets.folds)
        for (batch, E, A, _), of_folds in zip(batches, targets.folds, strict=True):
            yield batch, of_folds, E.copy(), A  # E may be kept

    def fold_residuals(self, T):
        """Yield the batches and out-of-sample residuals (q, k, m, B) of T (q, n, B)."""
        for batch, E, *_ in self._batches(T):
            yield batch, E

    def targets(self, labels, n_classes):
        """The targets of labels (B, n)."""
        layout, labels = self.layout, np.asarray(labels)
        return make_targets(labels, n_classes, layout, self.dtype, rank=self.rank)

    def is_above(self, times):
        """Whether lambda is above so many times trace(K_c)/n; not if labels choose."""
        if self.is_tuned:
            return False
        folds = self.each if self.folds is not None else [self.whole]
        known = [fold.penalties for fold in folds]
        return any(each.grid[0, 0] > times * each.scales[0] for each in known)

    def penalty(self, labels, n_classes):
        """What is to be recorded of the penalties, arrays (1, n_folds, ...).

        Of the first label vector of (B, n); of values `n_classes` is None.
        """
        labels, back = np.asarray(labels)[:1], slice(None)
        if n_classes is None:
            T = labels.T[self.order][None].astype(self.dtype)
            found = (fitted() for *_, fits in self._batches(T) for fitted in fits)
        else:
            found = self.models(self.targets(labels, n_classes))
        if self.batches:
            back = np.argsort(self.folds.numbers)
        record = {"lambda": [], "degrees_of_freedom": []}
        if self.is_tuned:
            record |= {"kernel": [], "grid": [], "scale": [], "criterion": []}
        for fold, fit, *_ in found:
            kernel, lam = fold.chosen(fit)
            record["lambda"].append(lam)
            freedom = fold.sets[kernel].degrees_of_freedom(lam)
            record["degrees_of_freedom"].append(freedom)
            if self.is_tuned:
                record["kernel"].append(kernel)
                record["grid"].append(fold.penalties.grid)
                record["scale"].append(fold.penalties.scales)
                record["criterion"].append(fit.criterion)
        record = {key: np.array(values)[back][None] for key, values in record.items()}
        if self.is_of_all:  # all folds have the same
            record |= {
                key: record[key][:, 0] for key in ("grid", "scale") if key in record
            }
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


@dataclass(frozen=True)
class _Columns:
    """The columns of kernel values that belong to training trials."""

    train: np.ndarray

    def __call__(self, K):
        return K[:, self.train]


def foldwise_plan(X, kernel, reg, task):
    """The plan of features (n, p), or of a kernel matrix, for a task."""
    learned = task.learned
    dtype = np.dtype(task.dtype)
    if not isinstance(kernel, KernelChoice):
        X, kernel = kernel.of_samples(X)
    X = learned.augmented(X)
    return FoldwisePlan(
        X, kernel, reg, learned, task.folds, task.inner, dtype, task.rank
    )
