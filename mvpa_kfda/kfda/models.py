"""From a position's features, or its kernel matrix, to what predicts label vectors.

What the run loop is given is a model, of one position of a map or of several
(`n_positions`). It predicts label vectors (B, n) in pieces that follow each other along
a row of the map (`predict`), as many at a time as suits speed and memory
(`block_size`); it knows the trial behind every test row (`rows`) and how many rows
train and are tested (`shapes`); its `plan` knows what the penalty is recorded of, and
it can be `split` into models of single positions, to find which one fails.

Where one matrix serves all folds that is a :class:`~mvpa_kfda.kfda.direct.Plan`, else a
:class:`~mvpa_kfda.kfda.foldwise.FoldwisePlan`; of either a :class:`Stack` holds
several, and a :class:`~mvpa_kfda.kfda.transfer.Transfer` applies it to other data.

The observed labels are one vector, and at a single position its arrays are so small
that most of the time would go into calling NumPy. So they are predicted at all
positions of a stack together, with the positions in place of the label vectors.
Permuted labels are many, and are predicted position by position, from targets that are
worked out once for the whole stack.
"""

from dataclasses import dataclass, replace

import numpy as np

from .direct import (
    Plan,
    PlanMixin,
    Predictions,
    apply_targets,
    make_targets,
    prepare,
)
from .foldwise import FoldwisePlan
from .hat import make_hat
from .kernels import (
    Kernel,
    KernelChoice,
    check_feature_kernel,
    check_kernel,
    innermost,
    kernels_of,
)
from .penalties import Tuned, check_method, check_reg
from .rowmaps import Nystrom, approximated


def resolve_method(kernel, reg, approx=None, precomputed=False):
    """The kernel and `reg` that a decoding function was given, checked.

    The kernel is of low rank if it is to be approximated. Only where the data may be a
    kernel matrix it may be precomputed.
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
    """The kernel for some channels, where it knows channels by name."""
    if isinstance(kernel, KernelChoice):
        return kernel.map(lambda choice: for_channels(choice, ch_names))
    inner = getattr(kernel, "kernel", None)
    if isinstance(inner, Kernel):  # as an approximation has one, or an empirical map
        return replace(kernel, kernel=for_channels(inner, ch_names))
    named = getattr(kernel, "for_channels", None)
    return named(ch_names) if named and kernel.names is not None else kernel


def check_size(kernel, n_features):
    """Refuse kernels that are for another number of features than there are in all."""
    for inner in map(innermost, kernels_of(kernel)):
        size = getattr(inner, "n_features", n_features)
        if size != n_features:
            raise ValueError(
                f"{inner!r} is for {size} features, and the data have {n_features} "
                "that are decoded: voxels in the mask and in regions, picked channels. "
                "Build it for these, in their order, e.g. with its method take."
            )


def plan_of_features(X, kernel, reg, task):
    """The plan of features (n, p), or of a precomputed kernel matrix (n, n).

    The task has the `folds`, the `inner` folds of a tuned penalty, the `dtype` and the
    `rank`. It makes a `penalty` one
    for its trials. Where folds have matrices of their own (`is_foldwise`), it has what
    is `learned` in each.
    """
    reg = task.penalty(reg)
    if task.is_foldwise or isinstance(reg, Tuned):
        if not isinstance(kernel, KernelChoice):
            X, kernel = kernel.of_samples(X)
        learned, trials = task.learned, (task.folds, task.inner)
        dtype = np.dtype(task.dtype)
        X = learned.augmented(X)
        return FoldwisePlan(X, kernel, reg, learned, *trials, dtype, task.rank)
    return prepare(make_hat(X, kernel, reg), task.folds, task.dtype, task.rank)


@dataclass(frozen=True)
class Stack(PlanMixin):
    """Plans of S positions with the same folds.

    Of a single label vector it is asked as a plan is, for all positions at once: arrays
    that end with the label vectors, B, then end with the positions.
    """

    plans: tuple[Plan | FoldwisePlan, ...]

    @property
    def n_positions(self):
        """The number of positions S."""
        return len(self.plans)

    @property
    def layout(self):
        """The layout of the folds."""
        return self.plans[0].layout

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
        targets = make_targets(
            labels, n_classes, first.layout, first.dtype, rank=first.rank
        )
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
