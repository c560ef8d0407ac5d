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
from ..kfda.kernels import Kernel, KernelChoice, Precomputed
from ..utils.checks import check_count
from ..utils.problems import Problem


def _mean(data, members, axis):
    """Average entries of an axis, as many at a time as there are averages."""
    total = np.take(data, members[:, 0], axis).astype(np.float64, copy=False)
    for each in members.T[1:]:
        total += np.take(data, each, axis)
    total /= members.shape[1]
    return total


@dataclass(frozen=True, eq=False)
class Grouping:
    """Which trials make up every pseudo-trial, and what becomes of data by it."""

    #: The trials in each pseudo-trial, arrays (n_new, k) of one k or of several.
    sides: tuple[np.ndarray, ...]

    def apply(self, data, axis=0):
        """Return data with the trials along an axis averaged, (..., n_new, ...)."""
        data = np.asarray(data)
        means = [_mean(data, members, axis) for members in self.sides]
        return means[0] if len(means) == 1 else np.concatenate(means, axis)

    def kernel(self, kernel):
        """Return the kernel between pseudo-trials, to be given single trials.

        A choice stays a choice, among averaged kernels.
        """
        if isinstance(kernel, KernelChoice):
            return kernel.map(self.kernel)
        return AveragedKernel(kernel, self)

    def both(self, data, kernel, axis=0):
        """Return data and kernel of pseudo-trials.

        A linear kernel is given averaged features, others average their values.
        """
        if kernel.is_linear:
            return self.apply(data, axis), kernel
        return data, self.kernel(kernel)


@dataclass(frozen=True, eq=False)
class Averaging(Grouping):
    """One grouping, and what is known of its pseudo-trials."""

    #: The pseudo-trials' classes, (n_new,).
    codes: np.ndarray
    #: Their groups, (n_new,).
    groups: np.ndarray | None
    #: Their test sets.
    folds: Folds

    @property
    def members(self):
        """The trials in each pseudo-trial, (n_new, k)."""
        return self.sides[0]

    @property
    def k(self):
        """How many trials make a pseudo-trial."""
        return self.members.shape[1]


@dataclass(frozen=True, eq=False, repr=False)
class AveragedKernel(Kernel):
    """A kernel between averages of trials, by a grouping, in feature space."""

    kernel: Kernel
    grouping: Grouping

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
        return self.grouping.apply(self.kernel.features(X))

    def of_samples(self, X):
        """Return the kernel matrix of the averages of single trials X."""
        return self.fit(X)(X), Precomputed()

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
        return self.grouping.apply(self.grouping.apply(K), 1)

    def __repr__(self):
        """Say what is averaged, not which trials."""
        each = " or ".join(str(side.shape[1]) for side in self.grouping.sides)
        return f"AveragedKernel({self.kernel!r}, {each} trials each)"


@dataclass(frozen=True, eq=False)
class Cells:
    """How many trials of each class there are where they may be averaged together."""

    #: How many trials make an average.
    k: int
    #: The number of the test set (and group) of every trial, (n,).
    unit: np.ndarray
    #: Trials and averages of every class in every unit, (n_units, c).
    counts: np.ndarray
    n_averages: np.ndarray

    def slots(self):
        """Return where averages (m, k) find their trials, sorted by unit and class."""
        counts, n_averages = self.counts.ravel(), self.n_averages.ravel()
        starts = np.cumsum(counts) - counts
        return np.concatenate(
            [
                start + np.arange(n * self.k).reshape(n, self.k)
                for start, n in zip(starts, n_averages, strict=True)
            ]
        )

    def draw(self, codes, rng):
        """Return trials (n,), sorted as `slots` wants, at random within classes."""
        cell = self.unit * self.counts.shape[1] + codes
        return np.argsort(cell + rng.random(len(cell)))


def count_cells(k, folds, codes, groups=None, classes=None, equalize=False):
    """Return the `Cells` of averages of k trials, "max" for as many as there can be."""
    if isinstance(k, str) and k != "max":
        raise ValueError(
            f"Invalid value for 'average': {k!r}. Allowed: a whole number of at least "
            "1, or 'max' for as many as the smallest class allows."
        )
    if not isinstance(k, str):
        k = check_count("average", k, minimum=1)
    group = np.zeros(len(codes), int)
    if groups is not None:
        group = np.unique(groups, return_inverse=True)[1].reshape(-1)
    pairs, unit = np.unique([folds.blocks, group], axis=1, return_inverse=True)
    unit, n_classes = unit.reshape(-1), int(codes.max()) + 1
    counts = np.bincount(unit * n_classes + codes, minlength=len(pairs.T) * n_classes)
    counts = counts.reshape(-1, n_classes)
    if isinstance(k, str):
        k = _most(counts, folds, groups, classes)
    fold_of, class_of = _sets_of(folds, unit), np.arange(n_classes)
    cells = np.broadcast_arrays(fold_of[:, np.newaxis], class_of, counts)
    fold_of, class_of, flat = (each[counts > 0] for each in cells)
    _check_classes(k, class_of, flat, folds, groups, classes)
    _check_folds(k, fold_of, flat, folds, groups)
    n_averages = counts // k
    if equalize:
        n_averages = _equal(k, counts, folds, groups, classes)
    n_flat = n_averages[counts > 0]
    for problem in _find_single_folds(k, fold_of, class_of, n_flat, folds, classes):
        problem.warn()
    return Cells(k, unit, counts, n_averages)


def _sets_of(folds, unit):
    """Return the first test set that holds each unit, (n_units,)."""
    number = np.zeros(folds.n, int)
    for f, test in reversed(list(enumerate(folds.tests))):
        number[test] = f
    first = np.unique(unit, return_index=True)[1]
    return number[first]


def _most(counts, folds, groups, classes):
    """Return how many trials of every class each unit has at least."""
    _check_all_present(counts, "average='max'", folds, groups, classes)
    return int(counts.min())


def _equal(k, counts, folds, groups, classes):
    """Return as many averages of every class as the smallest has in each unit."""
    _check_all_present(counts, "equalize=True", folds, groups, classes)
    return np.repeat(counts.min(axis=1, keepdims=True) // k, counts.shape[1], axis=1)


def _check_all_present(counts, given, folds, groups, classes):
    """Refuse units without a trial of some class."""
    missing = np.argwhere(counts == 0)
    if len(missing):
        code = missing[0][1]
        label = code if classes is None else classes[code]
        raise ValueError(
            f"{given} needs every class in every {_unit(groups)}, and one of "
            f"{folds.name} has no trial of class {str(label)!r}. Use fewer, larger "
            "test sets (cv=StratifiedKFold(5)) or groups that hold all classes, or "
            "leave it out."
        )


def average_trials(k, folds, codes, groups=None, seed=None, classes=None, **options):
    """Average k trials of one class within test sets (and groups), drawn by a seed."""
    codes = np.asarray(codes)
    if not folds.is_partition:
        raise ValueError(
            f"average={k!r} needs every trial in exactly one test set, since trials "
            f"are averaged within test sets; those of {folds.name} overlap or leave "
            "trials out. Use KFold, StratifiedKFold, LeaveOneGroupOut or the like."
        )
    cells = count_cells(k, folds, codes, groups, classes, **options)
    k = cells.k
    members = _group(cells, codes, seed)
    first = members[:, 0]
    group = np.zeros(len(codes), int)
    if groups is not None:
        group = np.unique(groups, return_inverse=True)[1].reshape(-1)
    constant = len(np.unique(group)) == len(np.unique([group, codes], axis=1)[0])
    label_free = k == 1 or (groups is not None and constant)
    label_free &= not options.get("equalize")
    new = folds_of_averages(folds, first)
    new = replace(
        new,
        sees_labels=folds.sees_labels if label_free else True,
        name=f"{folds.name} with average={k}",
    )
    groups = None if groups is None else np.asarray(groups)[first]
    return Averaging((members,), codes[first], groups, new)


def folds_of_averages(folds, first):
    """Return the folds of averages, of each of which one trial is given, (m,)."""

    def among(sets):
        return tuple(np.flatnonzero(np.isin(first, rows)) for rows in sets)

    trains = None if folds.trains is None else among(folds.trains)
    chosen = None if folds.chosen is None else folds.chosen[first]
    return replace(
        folds, tests=among(folds.tests), n=len(first), trains=trains, chosen=chosen
    )


def _group(cells, codes, seed):
    """Return k random trials of the same cell in every row, each trial at most once."""
    rng = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(1,)))
    cell = cells.unit * cells.counts.shape[1] + codes
    order = rng.permutation(len(cell))
    order = order[np.argsort(cell[order], kind="stable")]
    members = np.sort(order[cells.slots()], axis=1)
    return members[np.argsort(members[:, 0])]


def find_left_out(cells, folds, groups, classes):
    """Return the `Problem` of a class too small somewhere to be averaged, or None."""
    few = np.argwhere((cells.counts > 0) & (cells.counts < cells.k))
    if not len(few):
        return None
    unit, code = few[0]
    trial = np.flatnonzero(cells.unit == unit)[0]
    where = f"test set {_sets_of(folds, cells.unit)[unit]} of {folds.name}"
    if groups is not None:
        where = f"group {str(groups[trial])!r} in {where}"
    n = cells.counts[unit, code]
    text = (
        f"average={cells.k} leaves no average of class {str(classes[code])!r} in "
        f"{where}, which holds {n} of its trials: they are left out. Use average={n} "
        "or less, or average='max'."
    )
    return Problem("left_out", text, {"class": int(code), "n_trials": int(n)})


def _unit(groups):
    """Word what the trials of an average share."""
    return "test set" if groups is None else "group in a test set"


def _advice(largest, folds):
    """Word what can be done where no more than so many trials can be averaged."""
    fewer = f"average={largest} or less, or " if largest > 1 else ""
    such = ", e.g. cv=5" if len(folds.tests) > 5 else ""
    return f"Use {fewer}fewer, larger test sets{such}."


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
        f"{counts[class_of == code].sum()} trials of this class. "
        f"{_advice(most, folds)}"
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
        f"{_advice(most, folds)}"
    )


def _find_single_folds(k, fold_of, class_of, n_averages, folds, classes):
    """Yield a `Problem` for each class that some model has no average of."""
    for c in np.unique(class_of):
        here = (class_of == c) & (n_averages > 0)
        trained = len(np.unique(fold_of[class_of == c])) > 1  # on single trials
        if trained and len(np.unique(fold_of[here])) == 1:
            label = c if classes is None else classes[c]
            text = (
                f"All averages of class {str(label)!r} are in one test set of "
                f"{folds.name}, whose model has none to learn the class from. Use a "
                f"smaller average than {k}, or fewer, larger test sets."
            )
            yield Problem("absent", text, {"class": int(c)})
