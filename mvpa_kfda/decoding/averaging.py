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


def average(data, members, axis=0):
    """Return the means of some entries of an axis, those of an average in each row."""
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
        means = [average(data, members, axis) for members in self.sides]
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


def count_cells(
    k, folds, codes, groups=None, classes=None, equalize=False, average_test=True
):
    """Return the `Cells` of averages of k trials, "max" for as many as there can be."""
    if isinstance(k, str) and k != "max":
        raise ValueError(
            f"Invalid value for 'average': {k!r}. Allowed: a whole number of at least "
            "1, or 'max' for the largest number that the smallest class allows."
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
    _check_classes(k, counts, folds, groups, classes)
    _check_folds(k, unit, counts, folds, groups, average_test)
    n_averages = counts // k
    if equalize:
        n_averages = _equal(k, counts, folds, groups, classes)
    cells = Cells(k, unit, counts, n_averages)
    for problem in _find_lost_classes(cells, folds, classes):
        problem.warn()
    return cells


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
            "test sets (cv=5), random ones (cv=KFold(5, shuffle=True, random_state=0)) "
            "or groups that hold all classes, or leave it out."
        )


def average_trials(k, folds, codes, groups=None, seed=None, classes=None, **options):
    """Average k trials of one class within test sets (and groups), drawn by a seed."""
    codes = np.asarray(codes)
    check_disjoint(k, folds)
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
        balanced=folds.balanced or not label_free,
        name=f"{folds.name} with average={k}",
    )
    groups = None if groups is None else np.asarray(groups)[first]
    return Averaging((members,), codes[first], groups, new)


def check_disjoint(k, folds):
    """Refuse test sets that overlap, where each fold trains on all other trials."""
    if folds.trains is None and np.bincount(np.concatenate(folds.tests)).max() > 1:
        raise ValueError(
            f"average={k!r} needs every trial in no more than one test set, since "
            f"trials are averaged within test sets; those of {folds.name} overlap. Use "
            "KFold, LeaveOneGroupOut or the like."
        )


def folds_of_averages(folds, first):
    """Return the folds of averages, of each of which one trial is given, (m,)."""

    def among(sets):
        return tuple(np.flatnonzero(np.isin(first, rows)) for rows in sets)

    trains = None if folds.trains is None else among(folds.trains)
    chosen = None if folds.chosen is None else folds.chosen[first]
    sets = {"tests": among(folds.tests), "trains": trains, "chosen": chosen}
    return replace(folds, **sets, n=len(first), rule=None)


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
    where = _word_place(folds, trial)
    if groups is not None:
        where = f"group {str(groups[trial])!r} in {where}"
    n = int(cells.counts[unit, code])
    text = (
        f"average={cells.k} leaves no average of class {str(classes[code])!r} in "
        f"{where}, with {n} of its trials: they are left out. Use "
        f"average={n}{' or less' * (n > 1)}, or average='max'."
    )
    return Problem("left_out", text, {"class": int(code), "n_trials": n})


def _word_place(folds, trial):
    """Word which trials are in the same sets as one of them."""
    tests = [str(f) for f, test in enumerate(folds.tests) if trial in test]
    if not tests:
        return f"the trials that {folds.name} never tests"
    if len(tests) == 1:
        return f"test set {tests[0]} of {folds.name}"
    return f"what test sets {', '.join(tests)} of {folds.name} share"


def _unit(groups):
    """Word what the trials of an average share."""
    return "test set" if groups is None else "group in a test set"


def _advice(largest, folds):
    """Word what can be done where no more than so many trials can be averaged."""
    fewer = f"average={largest} or less, or " if largest > 1 else ""
    such = ", e.g. cv=5" if len(folds.tests) > 5 else ""
    return f"Use {fewer}fewer, larger test sets{such}."


def _check_classes(k, counts, folds, groups, classes):
    """Refuse averages that leave a class without samples."""
    largest = np.where(counts.any(axis=0), counts.max(axis=0), k)
    if largest.min() >= k:
        return
    code, most = largest.argmin(), largest.min()
    label = code if classes is None else classes[code]
    raise ValueError(
        f"average={k} leaves class {str(label)!r} without samples: an average is made "
        f"of {k} trials of one class and {_unit(groups)}, and with {folds.name} no "
        f"{_unit(groups)} holds more than {most} of the {counts[:, code].sum()} trials "
        f"of this class. {_advice(most, folds)}"
    )


def _check_folds(k, unit, counts, folds, groups, average_test):
    """Refuse averages that leave a test set, or a training set, without samples."""
    trains, tests = zip(*folds.pairs, strict=True)
    sets = [("test", tests)] if average_test else []
    for kind, each in [*sets, ("training", trains)]:
        for fold, rows in enumerate(each):
            most = counts[unit[rows]].max()
            if most < k:
                raise ValueError(
                    f"average={k} leaves fold {fold} of {folds.name} without samples: "
                    f"an average is made of {k} trials of one class and "
                    f"{_unit(groups)}, and its {len(rows)} {kind} trials have at most "
                    f"{most} such trials. {_advice(most, folds)}"
                )


def _find_lost_classes(cells, folds, classes):
    """Yield a `Problem` for each class that some model has no average of.

    Although it has single trials of it.
    """
    lost = np.zeros(cells.counts.shape[1], bool)
    for train, _ in folds.pairs:
        units = np.unique(cells.unit[train])
        trained, averaged = (
            each[units].any(axis=0) for each in (cells.counts, cells.n_averages)
        )
        lost |= trained & ~averaged
    for code in np.flatnonzero(lost):
        label = code if classes is None else classes[code]
        text = (
            f"Some training set of {folds.name} has no average of class "
            f"{str(label)!r}, so that its model cannot learn the class. Use a smaller "
            f"average than {cells.k}, or fewer, larger test sets."
        )
        yield Problem("absent", text, {"class": int(code)})
