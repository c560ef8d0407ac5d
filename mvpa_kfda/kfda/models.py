"""From a position's features, or its kernel matrix, to what predicts label vectors.

Where the penalty is fixed that is a :class:`~mvpa_kfda.kfda.direct.Plan`, where it is
tuned a :class:`~mvpa_kfda.kfda.tuning.TunedPlan`; sources need not know the difference.

The observed labels are one vector, and at a single position its arrays are so small
that most of the time would go into calling NumPy. So they are predicted at all
positions of a stack together, with the positions in place of the label vectors.
Permuted labels are many, and are predicted position by position, from targets that are
worked out once for the whole stack.
"""

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from .direct import (
    DenseInverse,
    Plan,
    Regressing,
    Scored,
    apply_targets,
    make_targets,
    prepare,
)
from .hat import hat_from_gram, make_hat, spectrum_of, spectrum_of_gram
from .kernels import Kernel, KernelChoice, check_feature_kernel, check_kernel
from .nystrom import Nystrom, approximated
from .penalties import Tuned, check_method, check_reg
from .tuning import tuned_plan


def resolve_method(kernel, reg, approx=None, precomputed=False):
    """Return kernel and penalty objects for the arguments of a decoding function.

    Parameters
    ----------
    kernel, reg, approx
        As the user gave them.
    precomputed : bool
        Whether the data may be a kernel matrix.

    Returns
    -------
    kernel : kernel object
        Of low rank, if it is to be approximated.
    reg : float | str | penalty object
        The penalty.

    Raises
    ------
    ValueError, TypeError
        If one of them is not valid, or if they do not go together.
    """
    kernel = check_kernel(kernel) if precomputed else check_feature_kernel(kernel)
    reg = check_reg(reg)
    check_method(kernel, reg)
    if isinstance(approx, Nystrom) and approx.random_state is None:
        # The same landmarks whenever they are drawn.
        seed = int(np.random.default_rng().integers(2**31))
        approx = replace(approx, random_state=seed)
    if approx is not None:
        kernel = approximated(kernel, approx)
    check_method(kernel, reg)
    return kernel, reg


def for_channels(kernel, ch_names):
    """Return the kernel for some channels, where it knows channels by name."""
    if isinstance(kernel, KernelChoice):
        return kernel.map(lambda each: for_channels(each, ch_names))
    inner = getattr(kernel, "kernel", None)
    if isinstance(inner, Kernel):  # as an approximation has one, or an empirical map
        return replace(kernel, kernel=for_channels(inner, ch_names))
    named = getattr(kernel, "for_channels", None)
    return named(ch_names) if named and kernel.names is not None else kernel


def check_size(kernel, n_features):
    """Refuse a penalty on weights that is for another number of features.

    Parameters
    ----------
    kernel : kernel object
        Of which positions are given parts.
    n_features : int
        The number of features of all positions.
    """
    for each in kernels_of(kernel):
        while isinstance(getattr(each, "kernel", None), Kernel):
            each = each.kernel
        size = getattr(each, "n_features", n_features)
        if size != n_features:
            raise ValueError(
                f"{each!r} is for {size} features, and the data have {n_features} that "
                "are decoded: voxels in the mask and in regions, picked channels. Give "
                "it for these, in their order, as by its method take."
            )


def kernels_of(kernel):
    """Return the kernels to choose from, often a single one."""
    return kernel.kernels if isinstance(kernel, KernelChoice) else (kernel,)


def plan_of_features(X, kernel, reg, task):
    """Return the plan of features (n, p), or of a precomputed kernel matrix.

    Parameters
    ----------
    X : ndarray, shape (n, p) | (n, n)
        The features, or the kernel matrix.
    kernel, reg
        Resolved kernel and regularisation.
    task : Task
        Has the `folds`, the `inner` folds of a tuned penalty, the `dtype` and the
        `rank`.

    Returns
    -------
    plan : Plan | TunedPlan
        What predicts label vectors.
    """
    if isinstance(reg, Tuned):
        spectra = [spectrum_of(X, each) for each in kernels_of(kernel)]
        return tuned_plan(spectra, reg, task.inner, task.dtype, task.rank)
    return prepare(make_hat(X, kernel, reg), *task.settings)


def plan_of_inner(inner, n_features, kernel, reg, task):
    """Do as :func:`plan_of_features` with the inner products (n, n) of features."""
    kernels = kernels_of(kernel)
    grams = [(each.from_inner(inner, n_features), each.is_linear) for each in kernels]
    if isinstance(reg, Tuned):
        spectra = [spectrum_of_gram(K, n_features if p else None) for K, p in grams]
        return tuned_plan(spectra, reg, task.inner, task.dtype, task.rank)
    ((gram, is_linear),) = grams
    hat = hat_from_gram(gram, reg, n_features=n_features if is_linear else None)
    return prepare(hat, *task.settings)


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
    """What `apply_targets` needs of a plan, for S plans at once.

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
