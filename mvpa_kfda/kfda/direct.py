r"""Direct cross-validation: every fold's out-of-sample prediction without retraining.

Prepare once per hat matrix and set of folds, then apply to any number of label
vectors. With the residual maker :math:`I - G` (:mod:`mvpa_kfda.kfda.hat`),
contrast-coded labels :math:`T = YQ` (Q has orthonormal columns that sum to zero) and
the in-sample residuals :math:`R = (I - G) T`, a fold with test rows te has the
out-of-sample residuals and regression scores

.. math:: E_{te} = (I - G_{te,te})^{-1} R_{te}, \qquad \hat T_{te} = T_{te} - E_{te}

and, of the *same* fold's model, the training cross-product

.. math:: A = T_{tr}^\top (T_{tr} - \hat T_{tr}) = T^\top R - R_{te}^\top E_{te},

which needs no training row. With :math:`q_k` the k-th row of Q, :math:`N_k` the
training trials of class k, :math:`N = \sum_k N_k`, :math:`\bar t = \sum_k N_k q_k / N`
and :math:`d_k = q_k - \bar t`, the linear discriminant score of class k is

.. math::

    s_k(x) = (x - \mu)^\top (S_w + \lambda I)^{-1} (\mu_k - \mu)
             - \tfrac12 \lVert \mu_k - \mu \rVert^2_{(S_w + \lambda I)^{-1}}
           = \hat t(x)^\top A^{-1} d_k - \tfrac12 (q_k + \bar t)^\top A^{-1} d_k
             + \tfrac12 (1/N_k - 1/N),

and its argmax is the nearest class centroid in discriminant space. So E and A are all
that the scoring rule (:mod:`mvpa_kfda.kfda.rules`) needs of a model. What depends on
labels only, such as the class counts of the folds, is worked out once for all positions
of a map (:class:`Targets`), what depends on data only once for all label vectors
(:class:`Plan`).

Optimal scoring is due to Hastie, Buja & Tibshirani (1995), the direct multi-class step
to Treder (2018); the cross-product and the scoring rule are derived in the
documentation.
"""

from dataclasses import dataclass, replace
from itertools import chain

import numpy as np

from .folds import Folds, folds_of
from .hat import Hat, invert_blocks
from .penalties import Farthest
from .rules import (
    RuleTerms,
    best_classes,
    best_of_two,
    class_rule,
    code_dtype,
    contrasts,
)


@dataclass(frozen=True)
class Targets:
    """B label vectors: on all rows, in the folds' order, or on a batch of test sets."""

    #: Class codes, (n, B) or (k, m, B).
    codes: np.ndarray
    #: Their q = c - 1 contrasts, (q, n, B) or (q, k, m, B).
    T: np.ndarray
    #: Of all rows, with k = 1, or of the rows that each fold trains with.
    terms: RuleTerms
    #: Those of the batches of test sets.
    folds: tuple = ()

    @property
    def n_classes(self):
        """The number of classes c."""
        return len(self.terms.counts)

    @property
    def n_labels(self):
        """The number of label vectors B."""
        return self.codes.shape[1]


def make_targets(labels, n_classes, folds, dtype, rank=None):
    """The targets of labels (B, n), for every position with these folds."""
    Q = contrasts(n_classes).astype(dtype)
    codes = np.ascontiguousarray(labels.T[folds.order], dtype=code_dtype(n_classes))
    T = np.stack([Q[:, i].take(codes) for i in range(n_classes - 1)])
    terms = RuleTerms(count_classes(codes[None], n_classes, dtype), Q, rank)
    of_batches = []
    for batch in folds.batches:
        tested = codes[batch.take].reshape(batch.k, batch.m, -1)
        if batch.trains is None:
            counts = terms.counts - count_classes(tested, n_classes, dtype)
        else:
            counts = count_classes(codes[batch.trains], n_classes, dtype)
        of_batches.append(Targets(tested, batch.of(T), replace(terms, counts=counts)))
    return Targets(codes, T, terms, tuple(of_batches))


def count_classes(codes, n_classes, dtype):
    """Count the classes over rows, (k, m, B) to (c, k, B)."""
    return np.stack(
        [(codes == j).sum(axis=1, dtype=np.int32) for j in range(n_classes)]
    ).astype(dtype)


#: The smallest eigenvalue of I - G_te,te that double precision still resolves well.
SINGULAR = 1e-10
#: Test rows from which the blocks of a low-rank hat are not formed.
_LARGE_FOLD = 256


@dataclass(frozen=True)
class FoldInverses:
    r"""(I - G_te,te)^-1 of k folds.

    For a hat G = UU' of low rank and large test sets no (m, m) matrix is needed, by
    Woodbury's identity:
    :math:`(I - U_{te} U_{te}^\top)^{-1}
    = I + U_{te} (I - U_{te}^\top U_{te})^{-1} U_{te}^\top`.
    """

    #: The inverses, (k, m, m); with U_te (I - U_te' U_te)^-1, (k, r, r).
    core: np.ndarray
    #: U_te, (k, m, r).
    rows: np.ndarray | None = None

    def solve(self, R):
        """The inverses times R, (q, k, m, B) both."""
        if self.rows is not None:
            return R + self.rows @ (self.core @ (self.rows.transpose(0, 2, 1) @ R))
        return self.core * R if self.core.shape[1] == 1 else self.core @ R

    def astype(self, dtype):
        """The same in another precision."""
        arrays = self.core, self.rows
        return FoldInverses(
            *(x if x is None else x.astype(dtype, copy=False) for x in arrays)
        )


def invert_folds(hats, batch):
    """The inverses of a batch's folds for each of S hats of the same trials.

    And whether I - G_te,te can be inverted, (S, k); where not, they mean nothing.
    """
    rows, factors = batch.index(hats[0].n), [None] * len(hats)
    if any(is_low_rank(hat, batch.m) for hat in hats):
        factors = [hat.factor[rows] for hat in hats]
        cores = [np.eye(U.shape[2]) - U.transpose(0, 2, 1) @ U for U in factors]
        cores = [invert_blocks(core[None])[0] for core in cores]
    else:
        cores = invert_blocks(np.stack([hat.residual_blocks(rows) for hat in hats]))
    ok = np.stack([invertible(core) for core in cores])
    return list(map(FoldInverses, cores, factors)), ok


def is_low_rank(hat, m):
    """Whether blocks of m test rows are better left unformed."""
    return hat.residual is None and m >= max(_LARGE_FOLD, 2 * hat.factor.shape[1])


def invertible(inverses):
    """Of which matrices (..., m, m) the inverses are good."""
    # No eigenvalue of the inverse exceeds its trace, nor is less than its diagonal.
    diagonal = np.abs(np.einsum("...mm->...m", inverses)).max(axis=-1)
    return diagonal < 1 / SINGULAR


def cross_product(left, right):
    """Return left' right over rows, (q, k, m, B) twice to (q, q, k, B), symmetric."""
    q, k, _, n_columns = right.shape
    product = np.empty((q, q, k, n_columns), right.dtype)
    for i in range(q):
        for j in range(i, q):
            if right.shape[2] == 1:
                np.multiply(left[i, :, 0], right[j, :, 0], out=product[i, j])
            else:
                np.einsum("kmb,kmb->kb", left[i], right[j], out=product[i, j])
            product[j, i] = product[i, j]
    return product


class PlanMixin:
    """What follows from `folds`, `residuals(T)` and `solve(number, R)`.

    It makes a plan of one position the run loop's model, which predicts label vectors
    (B, n) in pieces that follow each other along a row of the map (`predict`), as many
    at a time as suits speed and memory (`block_size`); it knows the trial behind every
    test row (`rows`) and how many rows train and are tested (`shapes`), and its `plan`
    what the penalty is recorded of. A model of several positions (:class:`Stack`) can
    be `split` into those of single ones, to find which one fails.
    """

    #: A plan is of one position.
    n_positions = 1

    @property
    def plan(self):
        """What the penalty and the patterns are recorded of: itself."""
        return self

    @property
    def order(self):
        """The order in which trials are processed."""
        return self.folds.order

    @property
    def rows(self):
        """The trial behind every test row, in the order results come out."""
        return self.folds.rows

    @property
    def batches(self):
        """The folds, in batches of equal size."""
        return self.folds.batches

    @property
    def n_rows(self):
        """The number of trials."""
        return len(self.order)

    @property
    def shapes(self):
        """The (folds, test rows, training rows) of every batch."""
        return tuple(
            (b.k, b.m, self.n_rows - b.m if b.trains is None else b.trains.shape[1])
            for b in self.batches
        )

    def targets(self, labels, n_classes):
        """The targets of labels (B, n)."""
        labels, known = np.asarray(labels), (self.folds, self.dtype, self.rank)
        return make_targets(labels, n_classes, *known)

    def predict(self, labels, n_classes, want_scores=False):
        """Yield the predictions, all in one piece, see :func:`apply`."""
        yield apply(self, labels, n_classes, want_scores)

    def fold_residuals(self, T):
        """Yield the batches and out-of-sample residuals (q, k, m, B) of T (q, n, B)."""
        R = self.residuals(T)
        for number, batch in enumerate(self.batches):
            yield batch, self.solve(number, batch.of(R))

    def fitted(self, T):
        """Yield the out-of-sample regressions (q, n_test, B) of T, all in one piece."""
        found = np.empty((len(T), len(self.rows), T.shape[2]))
        for batch, residuals in self.fold_residuals(T):
            of_batch = batch.of(T) - residuals
            found[:, batch.rows] = of_batch.reshape(len(T), -1, T.shape[2])
        yield found

    def fit_targets(self, targets):
        """The regression of all label vectors on all trials.

        In-sample residuals R (q, n, B), and T'R over all trials, (q, q, 1, B).
        """
        R = self.residuals(targets.T)
        return R, cross_product(targets.T[:, None], R[:, None])

    def fold_models(self, targets, fitted=None):
        """Yield the models of every batch of folds, perhaps by what `fit_targets` made.

        The batch of k folds with m test rows, its :class:`Targets`, out-of-sample
        residuals (q, k, m, B) of the test rows, which nobody else holds, and the
        training cross-products A (q, q, k, B).
        """
        R, A = fitted or self.fit_targets(targets)
        for number, batch in enumerate(self.batches):
            R_te = batch.of(R)
            E = self.solve(number, R_te)
            yield batch, targets.folds[number], E, A - cross_product(R_te, E)


#: Bytes of one (trials, contrasts, permutations) array: small enough for the cache, but
#: with columns enough for the matrix product, and never large in memory.
_CACHE_BYTES, _MEMORY_BYTES = 2**20, 2**25


@dataclass(frozen=True)
class Plan(PlanMixin):
    """Everything about a hat matrix and its folds that does not depend on labels.

    Attributes
    ----------
    hat : Hat
        The residual maker with its trials in the folds' order, in the computing
        precision.
    folds : Folds
        They know the order of trials that makes them views where possible.
    inverses : tuple of FoldInverses
        (I - G_te,te)^-1 of every fold, by their batches.
    rank : int | None
        How many discriminants to use; None: all.
    exact_hat : Hat | None
        The residual maker in double precision, where a computing precision is set.
    """

    hat: Hat
    folds: Folds
    inverses: tuple
    rank: int | None = None
    exact_hat: Hat | None = None

    @property
    def dtype(self):
        """The precision in which labels are processed."""
        return self.hat.dtype

    @property
    def n_bytes(self):
        """What its matrices take."""
        arrays = [vars(each).values() for each in (self.hat, *self.inverses)]
        return sum(getattr(values, "nbytes", 0) for values in chain(*arrays))

    def block_size(self, n_classes, want_scores=False):
        """Return how many label vectors to process at a time, for speed and memory."""
        # A label vector takes n values per contrast, and every fold a small matrix.
        rows = max(len(self.rows), len(self.order))
        n_folds = sum(batch.k for batch in self.batches)
        values = (rows + n_folds * n_classes) * (n_classes - 1)
        bytes_each = values * self.dtype.itemsize
        fast = np.clip(_CACHE_BYTES // bytes_each, 128, 512)
        return int(max(1, min(fast, _MEMORY_BYTES // bytes_each)))

    def residuals(self, T):
        """Return the in-sample residuals of contrasts T, (q, n, B) both."""
        return self.hat.residuals(T)

    def solve(self, number, R):
        """Return the out-of-sample residuals of a batch of folds, (q, k, m, B) both."""
        return self.inverses[number].solve(R)

    def is_above(self, times):
        """Whether lambda is above so many times trace(K_c)/n."""
        return self.hat.lam > times * self.hat.scale

    def penalty(self, labels, n_classes):
        """Return what is to be recorded of the penalty, arrays (1,)."""
        return {
            "lambda": np.array([self.hat.lam]),
            "degrees_of_freedom": np.array([self.hat.degrees_of_freedom]),
        }


#: The largest lambda, in units of trace(K_c)/n, that leaves about eight digits of the
#: scores in double precision and three in single.
_LARGEST = {np.dtype("float64"): 1e6, np.dtype("float32"): 1e3}
#: The same in units of what the trials but for the farthest one have, on average: more
#: leave less than three digits where that one is tested.
_LARGEST_OF_REST = {np.dtype("float64"): 1e10, np.dtype("float32"): 1e4}
#: What is wrong with a penalty out of these bounds.
_TOO_LARGE = (
    "lambda = {:.3g} is too large: it is {:.1g} times trace(K_c)/n = {:.3g}, so that "
    "rounding would decide the predictions. Use a smaller reg; a float is relative to "
    "trace(K_c)/n, whatever the unit of the data."
)
_TOO_SMALL = (
    "lambda = {:.3g} is too small: the model fits left-out trials exactly (I - G_te,te "
    "is singular), so that cross-validated predictions are not defined in double "
    "precision. Use a larger reg."
)


def prepare(hat, folds, dtype="float64", rank=None):
    """Factor what every label vector shares.

    Parameters
    ----------
    hat : Hat
        From :mod:`mvpa_kfda.kfda.hat`.
    folds : Folds | None
        From :func:`mvpa_kfda.kfda.folds.make_folds`; None for one model of all trials.
    dtype : str | dtype
        The precision in which labels are processed; the factors are always computed
        in double precision.
    rank : int | None
        How many discriminants to use; None: all.

    Returns
    -------
    plan : Plan
        To be handed to :func:`apply`.

    Raises
    ------
    ValueError
        If lambda is so small that some I - G_te,te is singular, or so large that
        rounding would decide the predictions.
    """
    folds = folds_of(folds, hat.n)
    if (np.diff(folds.order) < 0).any():
        hat = hat.reordered(folds.order)
    return prepare_sorted([hat], folds, dtype, rank)[0]


def prepare_sorted(hats, folds, dtype, rank=None):
    """The plans of several hats, with trials in the folds' order."""
    dtype = np.dtype(dtype)
    for hat in hats:
        refuse_too_large(hat.lam, hat.scale, dtype)
        _refuse_far(hat, folds, dtype)
    inverses = []
    for batch in folds.batches:
        of_hats, ok = invert_folds(hats, batch)
        for hat, all_ok in zip(hats, ok.all(axis=1), strict=True):
            if not all_ok:
                raise ValueError(_too_small(hat, folds))
        inverses.append([inverse.astype(dtype) for inverse in of_hats])
    return [
        Plan(hat.astype(dtype), folds, tuple(of_batches), rank, hat)
        for hat, *of_batches in zip(hats, *inverses, strict=True)
    ]


def refuse_too_large(lam, scale, dtype):
    """Refuse a penalty beside which the data vanish."""
    if is_too_large(lam, scale, dtype):
        raise ValueError(_TOO_LARGE.format(lam, lam / scale, scale))


def hides_others(lam, squares, folds, dtype):
    """The :class:`Farthest` trial if a penalty leaves nothing of others.

    Of those that are tested with it. Of squared norms (n,) of centred trials.
    """
    if squares.max() < squares.sum() / 2:
        return None  # it is not far, and the penalty not too large for any
    far = Farthest.of(squares)
    tested = [batch.index(len(squares)) for batch in folds.batches if batch.m > 1]
    is_tested = any((rows == far.trial).any() for rows in tested)
    return far if is_tested and lam > _LARGEST_OF_REST[dtype] * far.rest else None


def _refuse_far(hat, folds, dtype):
    """Refuse the penalty of a trial that hides others."""
    far = hides_others(hat.lam, hat.squares, folds, dtype)
    if far:
        more = " dtype='float64' keeps more digits." if dtype == np.float32 else ""
        raise ValueError(
            f"{far.words(folds.order[far.trial])}, so that it alone sets the penalty, "
            f"lambda = {hat.lam:.3g}. Where it is tested, this leaves nothing but "
            f"rounding of the others. {_MEND}{more}"
        )


#: What to do about a trial that is far from all others.
_MEND = "Check the trial for artefacts and for its unit; repair it, or leave it out."


def _too_small(hat, folds):
    """What is wrong with a penalty that fits test trials exactly."""
    far = Farthest.of(hat.squares)
    if hat.lam > SINGULAR * hat.n * far.rest:
        return (
            f"{far.words(folds.order[far.trial])}. With the penalty of the others, "
            f"lambda = {hat.lam:.3g}, it is fitted exactly, so that its prediction is "
            f"not defined in double precision. {_MEND}"
        )
    return _TOO_SMALL.format(hat.lam)


def is_too_large(lam, scale, dtype):
    """Whether it is a penalty beside which the data vanish."""
    return lam > _LARGEST[dtype] * scale


@dataclass(frozen=True)
class Predictions:
    """Cross-validated predictions for B label vectors.

    Attributes
    ----------
    true : ndarray of int, shape (n_test, B)
        The labels the test rows carried.
    predicted : ndarray of int, shape (n_test, B)
        The predicted classes.
    class_scores : ndarray, shape (n_test, c, B) | None
        Discriminant scores per class; -inf for a class absent from the training fold.
    """

    true: np.ndarray
    predicted: np.ndarray
    class_scores: np.ndarray | None


def apply(plan, labels, n_classes, want_scores=False):
    """Predict every test row for every label vector.

    Parameters
    ----------
    plan : Plan
        From :func:`prepare`.
    labels : ndarray of int, shape (B, n)
        Class codes 0..c-1, one row per permutation.
    n_classes : int
        The number of classes c.
    want_scores : bool
        Whether to return the class scores too.

    Returns
    -------
    predictions : Predictions
        Predictions in the order of ``plan.rows``.

    Notes
    -----
    Near ties (within rounding of the scores) go to the class that sorts first, so that
    the prediction does not depend on the order of floating-point operations.
    """
    return apply_targets(plan, plan.targets(labels, n_classes), want_scores)


def apply_targets(plan, targets, want_scores=False):
    """Do as :func:`apply` with label vectors that are targets already.

    `plan` may stand for several positions: their results then take the place of the
    label vectors' (:class:`Stack`); the true labels are one
    column.
    """
    n_classes, n_test = targets.n_classes, len(plan.rows)
    small, n_columns = code_dtype(n_classes), targets.n_labels * plan.n_positions
    true = np.empty((n_test, targets.n_labels), small)
    predicted, scores, part = np.empty((n_test, n_columns), small), None, None
    if want_scores:
        scores = np.empty((n_test, n_classes, n_columns), plan.dtype)
    for batch, of_folds, E, A in plan.fold_models(targets):
        if n_classes == 2 and not want_scores:
            best = best_of_two(E, of_folds.T, A, of_folds.terms)
        else:
            if want_scores:
                part = scores[batch.rows].reshape(batch.k, batch.m, n_classes, -1)
            fitted = np.subtract(of_folds.T, E, out=E)
            best = best_classes(fitted, *class_rule(A, of_folds.terms), part)
        predicted[batch.rows] = best.reshape(-1, n_columns)
        true[batch.rows] = of_folds.codes.reshape(-1, targets.n_labels)
    return Predictions(true, predicted, scores)


@dataclass(frozen=True)
class Stack(PlanMixin):
    """Plans of S positions with the same folds.

    The observed labels are one vector, and at a single position its arrays are so small
    that most of the time would go into calling NumPy. So they are predicted at all
    positions together, with the positions in place of the label vectors: arrays that
    end with the label vectors, B, then end with the positions. Permuted labels are
    many, and are predicted position by position, from targets that are worked out once.
    """

    plans: tuple

    @property
    def n_positions(self):
        """The number of positions S."""
        return len(self.plans)

    @property
    def folds(self):
        """The folds."""
        return self.plans[0].folds

    @property
    def dtype(self):
        """The precision in which labels are processed."""
        return self.plans[0].dtype

    def split(self):
        """Each position as a stack of its own."""
        return [Stack((plan,)) for plan in self.plans]

    def penalty(self, labels, n_classes):
        """What is to be recorded of the penalties, arrays (S, ...)."""
        records = [plan.penalty(labels, n_classes) for plan in self.plans]
        return {
            key: np.concatenate([record[key] for record in records])
            for key in records[0]
        }

    def block_size(self, n_classes, want_scores=False):
        """How many label vectors to process at a time."""
        return self.plans[0].block_size(n_classes, want_scores)

    def predict(self, labels, n_classes, want_scores=False):
        """Yield the predictions for labels (B, n), some positions at a time.

        They have `true` (n_test, 1, B), `predicted` (n_test, positions, B) and
        `class_scores` (n_test, c, positions, B) or None.
        """
        first = self.plans[0]
        targets = first.targets(labels, n_classes)
        joint = targets.n_labels == 1 and isinstance(first, Plan)
        true, axis = None, -1 if joint else -2
        for plan in [self] if joint else self.plans:
            made, scores = apply_targets(plan, targets, want_scores), None
            true = made.true[:, None] if true is None else true
            if want_scores:
                scores = np.expand_dims(made.class_scores, axis)
            yield Predictions(true, np.expand_dims(made.predicted, axis), scores)

    def residuals(self, T):
        """The in-sample residuals of contrasts T (q, n, 1), as (q, n, S)."""
        columns = np.ascontiguousarray(T[:, :, 0].T)  # (n, q)
        R = np.empty((*T.shape[:2], len(self.plans)), self.dtype)
        for s, plan in enumerate(self.plans):
            R[:, :, s] = plan.hat.residuals(columns).T
        return R

    def solve(self, number, R):
        """The out-of-sample residuals of a batch of folds, (q, k, m, S) both."""
        inverses = [plan.inverses[number] for plan in self.plans]
        if any(each.rows is not None for each in inverses):
            columns = [each.solve(R[..., [i]]) for i, each in enumerate(inverses)]
            return np.concatenate(columns, axis=3)
        matrices = np.stack([each.core for each in inverses])  # (S, k, m, m)
        E = matrices @ R.transpose(3, 1, 2, 0)  # (S, k, m, q)
        return np.ascontiguousarray(E.transpose(3, 1, 2, 0), R.dtype)
