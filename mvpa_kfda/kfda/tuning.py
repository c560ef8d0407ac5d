r"""The penalty, and the kernel, chosen inside every training fold.

A fold's model, retrained, is ridge regression on the training rows, with the residual
maker

.. math:: M_f = M_{tr,tr} - M_{tr,te} M_{te,te}^{-1} M_{te,tr}, \qquad M = I - G,

and the residuals :math:`R_f = R_{tr} - M_{tr,te} E_{te}` of the labels, where
:math:`E_{te} = M_{te,te}^{-1} R_{te}` are the residuals that cross-validation needs
anyway. So an inner test set I within the training rows has the residuals
:math:`(M_f)_{I,I}^{-1} (R_f)_I`, and its models the cross-product
:math:`A_f - (R_f)_I^\top (M_f)_{I,I}^{-1} (R_f)_I`, both exactly those of a model that
was trained without te and I. Nothing is retrained: per lambda, the labels cost two
matrix products. The best candidate of every fold and label vector is kept as they pass.

The closed form of leaving one out is due to Cawley & Talbot (2003), Pattern Recognition
36(11), 2585-2592; that of leaving out within a training set is derived in the
documentation.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from .criteria import (
    TrainingSquares,
    error_within,
    left_out_weights,
    of_usable,
    squared_errors,
)
from .direct import (
    SINGULAR,
    DenseInverse,
    FoldModels,
    Plan,
    PlanMixin,
    Regression,
    cross_product,
    hides_others,
    invert_folds,
    invert_low_rank,
    invertible,
    is_low_rank,
    is_too_large,
    make_targets,
    regress_targets,
)
from .folds import InnerFolds, Layout, batch_tests, lay_out
from .hat import Hat, Spectrum, invert_blocks
from .penalties import Tuned, candidates


@dataclass(frozen=True)
class Candidate:
    """A kernel and a lambda, prepared."""

    #: In double precision.
    hat: Hat
    #: (I - G_te,te)^-1 of the outer folds by batches, in double precision.
    solvers: list
    #: Which of them mean something, (k,) each.
    usable: list
    #: For the outer folds, in the computing precision.
    plan: Plan
    #: The folds, and those within their training sets.
    inner: InnerFolds
    #: For leaving out one trial at a time, (k, n) and (k,) by batches, see
    #: `left_out_weights`; empty if that is not wanted.
    weights: list
    stable: list
    #: For generalized cross-validation, by batches.
    squares: list
    #: Whether plans within training sets are kept for the next label vectors.
    keeps: bool

    def within(self, i, fold):
        """Return the plan of the folds within a fold of batch i; None if unstable."""
        if not self.usable[i][fold]:
            return None
        if (i, fold) in self._inner_plans:
            return self._inner_plans[i, fold]
        te, layout = self.inner.tests[i][fold], self.inner.of_folds[i][fold]
        solver, plan = self.solvers[i].of([fold]), self.plan
        within = inner_plan(self.hat, te, solver, layout, plan.dtype)
        if self.keeps:
            self._inner_plans[i, fold] = within
        return within

    @cached_property
    def _inner_plans(self):
        return {}


def prepare_candidate(hat, inner, dtype, rank, left_out=None, keep=True):
    """Return the candidate of a hat in the layout's order, for folds and inner folds.

    With `left_out`, only for squared residuals of trials left out by themselves:
    "exact", or "equal" for generalized cross-validation.
    """
    solvers, usable, weights, stable, squares = [], [], [], [], []
    for batch, tests in zip(inner.layout.batches, inner.tests, strict=True):
        (solver,), (ok,) = invert_folds([hat], batch)
        solver.clear(~ok)
        solvers.append(solver)
        usable.append(ok)
        if left_out == "equal":
            squares.append(TrainingSquares.of(hat, tests, solver))
            stable.append(ok & (squares[-1].traces > SINGULAR))
        elif left_out:
            values, is_stable = left_out_weights(hat, tests, solver)
            weights.append(values.astype(dtype, copy=False))
            stable.append(is_stable & ok)
    inverses = tuple(solver.astype(dtype) for solver in solvers)
    plan = Plan(hat.astype(dtype), inner.layout, inverses, rank)
    return Candidate(hat, solvers, usable, plan, inner, weights, stable, squares, keep)


def count_bytes(hat, inner, dtype, left_out):
    """Return how many bytes a candidate takes with all that it keeps."""
    layout, size = inner.layout, dtype.itemsize
    # Of single precision there is a copy beside the double one.
    sizes = 8 if size == 8 else 8 + size
    rank = None if hat.residual is not None else hat.factor.shape[1]
    total = hat.n * (rank or hat.n) * sizes
    of_folds = _count_values(hat, layout.batches)
    total += of_folds * sizes
    if left_out == "equal":
        return total + 8 * of_folds  # no less than `TrainingSquares` has
    if left_out:
        return total + size * hat.n * sum(batch.k for batch in layout.batches)
    within = (layout for of_batch in inner.of_folds for layout in of_batch)
    return total + size * sum(_count_values(hat, each.batches) for each in within)


def _count_values(hat, batches):
    """Return how many numbers the inverses of folds are."""
    total = 0
    for batch in batches:
        k, m = batch.k, batch.m
        r = hat.factor.shape[1] if is_low_rank(hat, m) else None
        total += k * m * m if r is None else k * (m + r) * r
    return total


def inner_plan(hat, te, solver, layout, dtype):
    """Return the plan of the folds within a training set; None if it is unstable.

    Of the hat of all trials, the outer test rows te (n_te,), None if all trials are
    trained with, and their solver, with k = 1.
    """
    inverses = []
    for batch in layout.batches:
        index = batch.index(hat.n)
        size = 1.0
        if is_low_rank(hat, batch.m):
            inverse, ok = invert_low_rank(hat, index, te)
            inverted = inverse.core
        else:
            blocks = _inner_blocks(hat, te, solver, index)
            size = _largest_diagonal(blocks)
            (inverted,) = invert_blocks(blocks[None])
            inverse, ok = DenseInverse(inverted), invertible(inverted)
        condition = size * _largest_diagonal(inverted)
        if not ok.all() or (condition > _CONDITION[np.dtype(dtype).name]).any():
            return None
        inverses.append(inverse.astype(dtype))
    return Plan(None, layout, tuple(inverses))


#: What residuals of a precision can be multiplied with: inverses are exact to more.
_CONDITION = {"float64": np.inf, "float32": 1e5}


def _largest_diagonal(matrices):
    """Return the largest entries (k,) of the diagonals of positive matrices."""
    return np.einsum("kmm->km", matrices).max(axis=1)


def _inner_blocks(hat, te, solver, index):
    """Return blocks (k, m, m) of a training set's residual maker, at index (k, m)."""
    if te is None:
        return hat.residual_blocks(index)
    if hat.residual is None:  # G_f = U (I - U_te' U_te)^-1 U'
        U = hat.factor[index.ravel()]
        (core,), _ = solver.cores(hat.factor, te[None])
        return np.eye(index.shape[1]) - _products(U @ core, U, index.shape)
    cross = hat.cross(index.ravel(), te)
    blocks = hat.residual_blocks(index)
    return blocks - _products(cross @ solver.matrix[0], cross, index.shape)


def _products(left, right, shape):
    """Return left right' within blocks of rows, (k * m, r) twice to (k, m, m)."""
    k, m = shape
    if m == 1:
        return np.einsum("kr,kr->k", left, right)[:, None, None]
    return left.reshape(k, m, -1) @ right.reshape(k, m, -1).transpose(0, 2, 1)


#: A candidate is better only by more than rounding: a share of the best so far.
_BETTER = {"float64": 1e-9, "float32": 1e-6}


@dataclass(frozen=True)
class BestCandidates:
    """The best candidate for every model of k folds, found one after the other."""

    #: The test rows' out-of-sample residuals, (q, k, m, B).
    E: np.ndarray
    #: The training cross-products (q, q, k, B), where there are classes.
    A: np.ndarray | None
    #: The smallest criterion, (k, B).
    best: np.ndarray
    #: The candidate's number (k, B); -1 for none yet.
    choice: np.ndarray
    #: Of the first label vector (candidates, k); NaN where skipped.
    criteria: np.ndarray

    @classmethod
    def none_yet(cls, T, k, m, n_candidates, with_A):
        """Return those of k folds with m test rows before any is offered."""
        q, _, n_labels = T.shape
        return cls(
            np.zeros((q, k, m, n_labels), T.dtype),
            np.zeros((q, q, k, n_labels), T.dtype) if with_A else None,
            np.full((k, n_labels), np.inf, T.dtype),
            np.full((k, n_labels), -1),
            np.full((n_candidates, k), np.nan),
        )

    def offer(self, number, criterion, E, A):
        """Take a candidate where its criterion (k, B) is better; NaN never is."""
        self.criteria[number] = criterion[:, 0]
        margin = _BETTER[self.best.dtype.name]
        better = criterion < self.best * (1 - margin)
        np.copyto(self.best, criterion, where=better)
        np.copyto(self.choice, number, where=better)
        np.copyto(self.E, E, where=better[:, None])
        if A is not None:
            np.copyto(self.A, A, where=better)


#: Bytes of prepared candidates that are kept for the next label vectors.
_MOST = 2**28
_NONE_LEFT = (
    "No lambda of the grid can be used, from {:.3g} to {:.3g}: with each of them "
    "left-out trials of some training set are fitted exactly, or rounding would decide "
    "the predictions. Use penalties nearer to trace(K_c)/n = {:.3g}."
)


@dataclass(frozen=True)
class Choice:
    """What was chosen for one label vector on all its trials.

    Attributes
    ----------
    kernel : int
        The number of the kernel.
    lam : float
        Lambda.
    lambdas : ndarray, shape (n_kernels, n_lambdas)
        The candidates.
    criterion : ndarray, shape (n_kernels, n_lambdas)
        What was minimised; NaN where a candidate was skipped.
    """

    kernel: int
    lam: float
    lambdas: np.ndarray
    criterion: np.ndarray


@dataclass(frozen=True)
class TunedPlan(PlanMixin):
    """A plan whose penalty is chosen for every fold and label vector.

    Attributes
    ----------
    spectra : tuple of Spectrum
        One for each kernel, with trials in the layout's order.
    lambdas : ndarray, shape (n_kernels, n_lambdas)
        What to choose from, the largest first.
    tuned : Tuned
        How.
    inner : InnerFolds
        The folds within the training sets.
    dtype : dtype
        The precision in which labels are processed.
    rank : int | None
        How many discriminants to use; None: all.
    """

    spectra: tuple[Spectrum, ...]
    lambdas: np.ndarray
    tuned: Tuned
    inner: InnerFolds
    dtype: np.dtype
    rank: int | None = None

    @property
    def layout(self):
        """The layout of the outer folds."""
        return self.inner.layout

    @property
    def _left_out(self):
        """How trials are left out one at a time.

        "equal": by generalized cross-validation, "exact", or None: otherwise.
        """
        if not self.inner.leaves_one_out:
            return None
        return "equal" if self.tuned.grid == "auto" else "exact"

    def block_size(self, n_classes, want_scores=False):
        """Return how many label vectors to process at a time."""
        values = (len(self.rows) + self.n_rows) * (n_classes - 1)
        return int(np.clip(2**23 // (values * self.dtype.itemsize), 1, 256))

    def _place(self, number):
        """Return the numbers of a candidate's kernel and lambda, or of several's."""
        return np.divmod(number, self.lambdas.shape[1])

    def kernel_of(self, number):
        """Return the number of a candidate's kernel."""
        return self._place(number)[0]

    def hat(self, number):
        """Return the hat of a candidate, in double precision."""
        kernel, i = self._place(number)
        return self.spectra[kernel].hat(self.lambdas[kernel, i])

    def fold_models(self, targets):
        """Yield the :class:`FoldModels` of every batch of folds, penalties chosen."""
        choices = self._choose(targets.T, targets)
        for batch, of_folds, best in zip(
            self.batches, targets.folds, choices, strict=True
        ):
            E = best.E.copy()  # may be kept for the next question
            yield FoldModels(batch, of_folds, E, best.A, best.choice)

    def fold_residuals(self, T):
        """Yield the batches and out-of-sample residuals (q, k, m, B) of T (q, n, B).

        The residuals may be kept for the next question: do not change them.
        """
        for batch, best in zip(self.batches, self._choose(T), strict=True):
            yield batch, best.E

    def all_models(self, targets):
        """Return A (q, q, 1, B) and the choice (1, B) of models of all trials."""
        best = self._choose_all(targets.T, targets)
        return best.A, best.choice

    def choose_of_all(self, T):
        """Return the choice (1, B) for values T (q, n, B) that are no classes."""
        return self._choose_all(T).choice

    def choose_all(self, targets):
        """Return the :class:`Choice` for the first label vector on all trials."""
        best = self._choose_all(targets.T, targets)
        kernel, i = map(int, self._place(best.choice[0, 0]))
        criterion = best.criteria[:, 0].reshape(self.lambdas.shape)
        return Choice(kernel, float(self.lambdas[kernel, i]), self.lambdas, criterion)

    def plain(self, codes, n_classes):
        """Return plans with the penalties that one label vector chooses.

        Returns
        -------
        full : Plan
            Of all trials, without folds.
        parts : list of Plan
            One for each candidate that some folds choose, with these folds.
        """
        targets = self._targets(np.asarray(codes)[None], n_classes)
        number = int(self._choose_all(targets.T, targets).choice[0, 0])
        layout = Layout.of_all(self.order)
        full = Plan(self.hat(number).astype(self.dtype), layout, (), self.rank)
        choices = [best.choice[:, 0] for best in self._choose(targets.T, targets)]
        used = np.unique(np.concatenate(choices)) if choices else ()
        return full, [self._part(number, choices) for number in used]

    def penalty(self, labels, n_classes):
        """Return what is to be recorded of the penalties, arrays (1, n_folds, ...).

        For label vectors (1, n); of float targets, n_classes is None.
        """
        targets = None
        if n_classes is None:
            T = np.asarray(labels, self.dtype)[:, self.order].T[None]
        else:
            targets = self._targets(labels, n_classes)
            T = targets.T
        if self.batches:
            choices, numbers = self._choose(T, targets), self.inner.numbers
        else:
            choices, numbers = [self._choose_all(T, targets)], np.arange(1)
        back = np.argsort(numbers)
        choice = np.concatenate([best.choice[:, 0] for best in choices])[back]
        criteria = np.concatenate([best.criteria for best in choices], axis=1).T[back]
        kernel, i = self._place(choice)
        lambdas = self.lambdas[kernel, i]
        df = [
            self.spectra[j].degrees_of_freedom(lam)
            for j, lam in zip(kernel, lambdas, strict=True)
        ]
        return {
            "lambda": lambdas[None],
            "degrees_of_freedom": np.array(df)[None],
            "kernel": kernel[None],
            "grid": self.lambdas[None],
            "scale": np.array([[s.moments.scale for s in self.spectra]]),
            "criterion": criteria.reshape(1, -1, *self.lambdas.shape),
        }

    def _targets(self, labels, n_classes):
        """Return targets of labels (B, n)."""
        labels = np.asarray(labels)
        return make_targets(labels, n_classes, self.layout, self.dtype, rank=self.rank)

    def _part(self, number, choices):
        """Return the plan of a candidate for the folds that choose it."""
        plan, tests, inverses = self._prepared(number).plan, [], []
        for i, choice in enumerate(choices):
            mine = np.flatnonzero(choice == number)
            if len(mine):
                tests += list(self.inner.tests[i][mine])
                inverses.append(plan.inverses[i].of(mine))
        nobody = np.empty(sum(map(len, tests)), int)
        layout = Layout(self.order, nobody, batch_tests(tests))
        return Plan(plan.hat, layout, tuple(inverses), self.rank)

    @cached_property
    def _candidates(self):
        """The prepared candidates, by number."""
        return {}

    @cached_property
    def _observed(self):
        """What the first single label vector chose: its bytes, and the best candidates.

        With classes and without.
        """
        return {}

    def _prepared(self, number):
        """Return a candidate, kept if memory allows."""
        if number in self._candidates:
            return self._candidates[number]
        kernel, i = self._place(number)
        spectrum, lam = self.spectra[kernel], self.lambdas[kernel, i]
        moments = spectrum.moments
        if is_too_large(lam, moments.scale, self.dtype):
            return None
        if hides_others(lam, moments.diagonal, self.layout, self.dtype):
            return None
        hat = spectrum.hat(lam)
        n_bytes = count_bytes(hat, self.inner, self.dtype, self._left_out)
        keep = self.lambdas.size * n_bytes <= _MOST
        candidate = prepare_candidate(
            hat, self.inner, self.dtype, self.rank, self._left_out, keep
        )
        if keep:
            self._candidates[number] = candidate
        return candidate

    def _regressed(self, T, targets):
        """Yield the candidates that can be used: number, candidate, regression of T."""
        for number in range(self.lambdas.size):
            candidate = self._prepared(number)
            if candidate is not None:
                yield number, candidate, _regress(candidate.plan, T, targets)

    def _choose(self, T, targets=None):
        """Return the :class:`BestCandidates` of every batch of folds."""
        if T.shape[2] > 1:
            return self._choose_anew(T, targets)
        # The observed ones come first, and are asked for again.
        key, has_classes = T.tobytes(), targets is not None
        known, choices = self._observed.get(has_classes, (None, None))
        if known != key:
            choices = self._choose_anew(T, targets)
            self._observed.setdefault(has_classes, (key, choices))
        return choices

    def _choose_anew(self, T, targets):
        """Do as `_choose`, whatever may have been kept."""
        with_A, size = targets is not None, self.lambdas.size
        choices = [
            BestCandidates.none_yet(T, batch.k, batch.m, size, with_A)
            for batch in self.batches
        ]
        for number, candidate, regression in self._regressed(T, targets):
            MR = None
            if self._left_out == "equal":
                MR = candidate.plan.hat.residuals(regression.R)
            for i, best in enumerate(choices):
                self._offer(best, number, i, candidate, regression, MR, targets)
        self._check(choices)
        return choices

    def _offer(self, best, number, i, candidate, regression, MR, targets):
        """Offer a candidate to all folds of batch i; MR are residuals of residuals."""
        plan, batch = candidate.plan, self.batches[i]
        R_te = batch.of(regression.R)
        E, A, terms = plan.solve(i, R_te), None, None
        if targets is not None:
            A = regression.A - cross_product(R_te, E)
            terms = targets.folds[i].terms
        tests = self.inner.tests[i]
        if MR is not None:
            values = candidate.squares[i].errors(regression.R, batch.of(MR), E)
            values[~candidate.stable[i]] = np.nan
            best.offer(number, of_usable(values, A, terms), E, A)
            return
        if self._left_out:
            weights = candidate.weights[i]
            values = squared_errors(plan.hat, tests, regression.R, E, weights)
            values[~candidate.stable[i]] = np.nan
            best.offer(number, of_usable(values, A, terms), E, A)
            return
        values = np.full(best.best.shape, np.nan, self.dtype)
        for fold in range(batch.k):
            inner = candidate.within(i, fold)
            if inner is None:
                continue
            spread = plan.hat.spread(tests[fold : fold + 1], E[:, fold : fold + 1])
            values[fold] = error_within(inner, regression.R - spread[:, 0])
        best.offer(number, of_usable(values, A, terms), E, A)

    def _choose_all(self, T, targets=None):
        """Return the :class:`BestCandidates` of all trials, as one fold."""
        with_A, size = targets is not None, self.lambdas.size
        best = BestCandidates.none_yet(T, 1, 0, size, with_A)
        nothing = np.empty((len(T), 1, 0, T.shape[2]), T.dtype)
        terms = None if targets is None else targets.terms
        for number, _, regression in self._regressed(T, targets):
            hat = self.hat(number)
            if self._left_out == "equal":
                left = 1 - hat.degrees_of_freedom / hat.n
                errors = np.einsum("qnb,qnb->b", regression.R, regression.R)[None]
                values = errors / hat.n / left**2
            else:
                of_all = inner_plan(hat, None, None, self.inner.of_all, self.dtype)
                if of_all is None:
                    continue
                values = error_within(of_all, regression.R)[None]
            values = of_usable(values, regression.A, terms)
            best.offer(number, values, nothing, regression.A)
        self._check([best])
        return best

    def _check(self, choices):
        """Raise unless every fold has a candidate."""
        if any((best.choice < 0).any() for best in choices):
            scale = self.spectra[0].moments.scale
            bounds = self.lambdas.min(), self.lambdas.max()
            raise ValueError(_NONE_LEFT.format(*bounds, scale))


def _regress(plan, T, targets):
    """Return the regression of T (q, n, B); A only where there are targets."""
    if targets is None:
        return Regression(plan.residuals(T), None)
    return regress_targets(plan, targets)


def tuned_plan(spectra, tuned, inner, dtype, rank=None):
    """Return the plan of decomposed kernels, one for each kernel to choose from."""
    layout = inner.layout
    moments = [each.moments for each in spectra]
    are_linear = all(each.n_features is not None for each in moments)
    lambdas = np.stack([candidates(tuned, each, inner, are_linear) for each in moments])
    if not layout.is_sorted:
        spectra = [spectrum.reordered(layout.order) for spectrum in spectra]
    return TunedPlan(tuple(spectra), lambdas, tuned, inner, np.dtype(dtype), rank)


def tune_spectra(spectra, tuned, codes, n_classes, groups=None):
    """Choose kernel and penalty on all trials.

    Parameters
    ----------
    spectra : list of Spectrum
        One for each candidate kernel.
    tuned : Tuned
        What to choose from, and how.
    codes : ndarray of int, shape (n,)
        Class codes 0..c-1.
    n_classes : int
        The number of classes c.
    groups : ndarray, shape (n,) | None
        Groups, to be left out one at a time.

    Returns
    -------
    choice : Choice
        The best candidate.
    """
    inner = InnerFolds(len(codes), codes, groups, None)
    plan = tuned_plan(spectra, tuned, inner, "float64")
    layout = lay_out(None, len(codes))
    targets = make_targets(np.asarray(codes)[None], n_classes, layout, plan.dtype)
    return plan.choose_all(targets)
