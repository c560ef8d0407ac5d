r"""Pseudo-trials: averages of k trials of one class within one test set.

Averaging k trials divides the variance of the noise by k and leaves the class means as
they are [1]_. Every average is made of trials of one test set (and of one group), so
that no average mixes trained and tested trials, and of equally many trials, so that all
have the same noise and their labels can be exchanged. A remainder of fewer than k
trials is left out.

With the averaging matrix S (m x n, each row 1/k at the members of an average), the
kernel between averages of the kernel's features is

.. math:: \bar K = S K S^\top,

for a linear kernel that of averaged features, for others that of the mean embeddings of
the k trials, which differs from a kernel of averaged features.

References
----------
.. [1] Isik, Meyers, Leibo & Poggio (2014). The dynamics of invariant object
   recognition in the human visual system. Journal of Neurophysiology 111(1), 91-102.
"""

from dataclasses import dataclass, replace

import numpy as np

from ..kfda.folds import Folds
from ..kfda.kernels import Kernel, KernelChoice
from ..utils.checks import check_count, warn


def _mean(data, members, axis):
    """Average entries of an axis, as many at a time as there are averages."""
    total = sum(np.take(data, each, axis).astype(np.float64) for each in members.T)
    return total / members.shape[1]


@dataclass(frozen=True, eq=False)
class Averaging:
    """Which trials make up every pseudo-trial."""

    #: The trials in each pseudo-trial, (n_new, k).
    members: np.ndarray
    #: The pseudo-trials' classes, (n_new,).
    codes: np.ndarray
    #: Their groups, (n_new,).
    groups: np.ndarray | None
    #: Their test sets.
    folds: Folds

    def apply(self, data, axis=0):
        """Return data with the trials along an axis averaged, (..., n_new, ...)."""
        return _mean(np.asarray(data), self.members, axis)

    def kernel(self, kernel):
        """Return the kernel between pseudo-trials, to be given single trials.

        A choice stays a choice, among averaged kernels.
        """
        if isinstance(kernel, KernelChoice):
            return kernel.map(self.kernel)
        return AveragedKernel(kernel, self.members)


@dataclass(frozen=True, eq=False, repr=False)
class AveragedKernel(Kernel):
    """A kernel between averages of trials, `members` (n_new, k), in feature space."""

    kernel: Kernel
    members: np.ndarray

    @property
    def shift_free(self):
        """Whether an offset common to all trials drops out."""
        return self.kernel.shift_free

    @property
    def assumes_unit_scale(self):
        """Whether the numbers presume features of about unit variance."""
        return self.kernel.assumes_unit_scale

    @property
    def is_linear(self):
        """Whether the values are inner products of averaged features."""
        return self.kernel.is_linear

    @property
    def low_rank(self):
        """Whether only `features` may be used."""
        return self.kernel.low_rank

    def fit(self, X):
        """Return the kernel with its numbers fixed by the single trials."""
        return replace(self, kernel=self.kernel.fit(X))

    def __call__(self, X, Y=None):
        """Return the kernel matrix (n_new, n_new) of single trials X and Y (or X).

        Y holds the same trials as X, as at another time.
        """
        return self._averaged(self.kernel(X, Y))

    def features(self, X):
        """Return the averaged columns (n_new, r)."""
        return _mean(self.kernel.features(X), self.members, 0)

    def take(self, columns):
        """Return the kernel for some columns of the features."""
        return replace(self, kernel=self.kernel.take(columns))

    def repeated(self, times):
        """Return the kernel for `times` blocks of the columns, side by side."""
        return replace(self, kernel=self.kernel.repeated(times))

    @property
    def from_inner(self):
        """The function of single trials' inner products, where the kernel has one."""
        from_inner = self.kernel.from_inner
        return lambda inner, n_features: self._averaged(from_inner(inner, n_features))

    def _averaged(self, K):
        """Return S K S'."""
        return _mean(_mean(K, self.members, 0), self.members, 1)

    def __repr__(self):
        """Say what is averaged, not which trials."""
        return f"AveragedKernel({self.kernel!r}, {self.members.shape[1]} trials each)"


def average_trials(k, folds, codes, groups=None, seed=None, classes=None):
    """Average k trials of one class within test sets (and groups), drawn by a seed."""
    k = check_count("average", k, minimum=1)
    if not folds.is_partition:
        raise ValueError(
            f"average={k} needs every trial in exactly one test set, since trials are "
            f"averaged within test sets; those of {folds.name} overlap or leave trials "
            "out. Use KFold, StratifiedKFold, LeaveOneGroupOut or the like."
        )
    group = np.zeros(len(codes), int)
    if groups is not None:
        group = np.unique(groups, return_inverse=True)[1]
    number = np.empty(folds.n, int)
    for f, test in enumerate(folds.tests):
        number[test] = f
    cells, cell, counts = np.unique(
        np.stack([number, group, codes]),
        axis=1,
        return_inverse=True,
        return_counts=True,
    )
    fold_of, group_of, class_of = cells
    _check_classes(k, class_of, counts, folds, groups, classes)
    _check_folds(k, fold_of, counts, folds, groups)
    _warn_of_single_folds(k, fold_of, class_of, counts // k, folds, classes)
    members = _group(k, cell.reshape(-1), counts, seed)
    first = members[:, 0]
    constant = len(np.unique(group)) == len(np.unique([group_of, class_of], axis=1)[0])
    label_free = k == 1 or (groups is not None and constant)
    new = Folds(
        tests=tuple(
            np.flatnonzero(number[first] == f) for f in range(len(folds.tests))
        ),
        n=len(members),
        sees_labels=folds.sees_labels if label_free else True,
        name=f"{folds.name} with average={k}",
    )
    groups = None if groups is None else np.asarray(groups)[first]
    return Averaging(members, np.asarray(codes)[first], groups, new)


def _group(k, cell, counts, seed):
    """Return k random trials of the same cell in every row, each trial at most once."""
    rng = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(1,)))
    order = rng.permutation(len(cell))
    order = order[np.argsort(cell[order], kind="stable")]
    within = np.concatenate([np.arange(count) for count in counts])
    used = within < np.repeat(counts // k * k, counts)
    members = np.sort(order[used].reshape(-1, k), axis=1)
    return members[np.argsort(members[:, 0])]


def _unit(groups):
    """Word what the trials of an average share."""
    return "test set" if groups is None else "group in a test set"


def _advice(largest):
    """Word what can be done where no more than so many trials can be averaged."""
    fewer = f"average={largest} or less, or " if largest > 1 else ""
    return f"Use {fewer}fewer, larger test sets, e.g. cv=5."


def _check_classes(k, class_of, counts, folds, groups, classes):
    """Refuse averages that leave a class without samples."""
    present = np.unique(class_of)
    largest = np.array([counts[class_of == c].max() for c in present])
    if largest.min() >= k:
        return
    code, most = present[largest.argmin()], largest.min()
    label = code if classes is None else classes[code]
    raise ValueError(
        f"average={k} leaves class {str(label)!r} without samples: an average is made "
        f"of {k} trials of one class and {_unit(groups)}, and with {folds.name} no "
        f"{_unit(groups)} holds more than {most} of the "
        f"{counts[class_of == code].sum()} trials of this class. {_advice(most)}"
    )


def _check_folds(k, fold_of, counts, folds, groups):
    """Refuse averages that leave a test set without samples."""
    largest = np.array([counts[fold_of == f].max() for f in np.unique(fold_of)])
    if largest.min() >= k:
        return
    fold, most = int(largest.argmin()), largest.min()
    raise ValueError(
        f"average={k} leaves fold {fold} of {folds.name} without samples: an average "
        f"is made of {k} trials of one class and {_unit(groups)}, and its "
        f"{len(folds.tests[fold])} test trials have at most {most} such trials. "
        f"{_advice(most)}"
    )


def _warn_of_single_folds(k, fold_of, class_of, n_averages, folds, classes):
    """Warn where a model has no average of a class to be trained with."""
    for c in np.unique(class_of):
        here = (class_of == c) & (n_averages > 0)
        trained = len(np.unique(fold_of[class_of == c])) > 1  # on single trials
        if trained and len(np.unique(fold_of[here])) == 1:
            label = c if classes is None else classes[c]
            warn(
                f"All averages of class {str(label)!r} are in one test set of "
                f"{folds.name}, whose model has none to learn the class from. Use a "
                f"smaller average than {k}, or fewer, larger test sets.",
                UserWarning,
            )
