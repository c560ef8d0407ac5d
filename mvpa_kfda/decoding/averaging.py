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
from .problems import number_groups


def average(data, members, axis=0):
    """The means of some entries of an axis, those of an average in each row."""
    total = np.take(data, members[:, 0], axis).astype(np.float64, copy=False)
    for each in members.T[1:]:
        total += np.take(data, each, axis)
    total /= members.shape[1]
    return total


@dataclass(frozen=True, eq=False)
class Draw:
    """What a procedure runs on once: rows that are means of trials, or trials.

    Attributes
    ----------
    sides : tuple of ndarray of int | None
        The trials in each row, arrays (m, k) of one k or of several; None: the trials.
    codes : ndarray of int, shape (m,) | None
        The classes of the rows.
    groups : ndarray, shape (m,) | None
        Their groups.
    folds : Folds | None
        Their test sets.
    """

    sides: tuple[np.ndarray, ...] | None
    codes: np.ndarray | None = None
    groups: np.ndarray | None = None
    folds: Folds | None = None

    @property
    def members(self):
        """Trials in each row (m, k), where all rows are averages of k trials."""
        return None if self.sides is None else self.sides[0]

    def apply(self, data, axis=0):
        """The data with the trials along an axis averaged, (..., m, ...)."""
        data = np.asarray(data)
        means = [average(data, members, axis) for members in self.sides]
        return means[0] if len(means) == 1 else np.concatenate(means, axis)

    def both(self, data, kernel, axis=0):
        """Data and kernel of averages.

        A linear kernel is given averaged features, others average their values.
        """
        if kernel.is_linear:
            return self.apply(data, axis), kernel
        if isinstance(kernel, KernelChoice):  # stays one, among averaged kernels
            return data, kernel.map(lambda each: AveragedKernel(each, self))
        return data, AveragedKernel(kernel, self)


@dataclass(frozen=True, eq=False, repr=False)
class AveragedKernel(Kernel):
    """A kernel between averages of trials, in feature space; it is given the trials."""

    kernel: Kernel
    draw: Draw

    def __post_init__(self):
        """Have the properties of the kernel that is averaged."""
        for name in ("shift_free", "assumes_unit_scale", "is_linear", "low_rank"):
            object.__setattr__(self, name, getattr(self.kernel, name))

    def fit(self, X):
        """The kernel with its numbers fixed by the single trials."""
        return replace(self, kernel=self.kernel.fit(X))

    def __call__(self, X, Y=None):
        """The matrix S K S' (m, m) of trials X and Y (or X).

        Y holds the same trials as X, as at another time.
        """
        return self.draw.apply(self.draw.apply(self.kernel(X, Y)), 1)

    def features(self, X):
        """The averaged columns (m, r)."""
        return self.draw.apply(self.kernel.features(X))

    def of_samples(self, X):
        """The kernel matrix of the averages of trials X."""
        return self.fit(X)(X), Precomputed()

    def take(self, columns):
        """The kernel for some columns of the features."""
        return replace(self, kernel=self.kernel.take(columns))

    def repeated(self, times):
        """The kernel for `times` blocks of the columns, side by side."""
        return replace(self, kernel=self.kernel.repeated(times))

    def __repr__(self):
        """Say what is averaged, not which trials."""
        each = " or ".join(str(side.shape[1]) for side in self.draw.sides)
        return f"AveragedKernel({self.kernel!r}, {each} trials each)"


@dataclass(frozen=True, eq=False)
class Cells:
    """The trials of each class where they may be averaged together."""

    #: The number of trials in an average.
    k: int
    #: The number of the test set (and group) of every trial, (n,).
    unit: np.ndarray
    #: Trials and averages of every class in every unit, (n_units, c).
    counts: np.ndarray
    n_averages: np.ndarray

    def slots(self):
        """Where averages (m, k) find their trials, sorted by unit and class."""
        counts, n_averages = self.counts.ravel(), self.n_averages.ravel()
        starts = np.cumsum(counts) - counts
        return np.concatenate(
            [
                start + np.arange(n * self.k).reshape(n, self.k)
                for start, n in zip(starts, n_averages, strict=True)
            ]
        )

    def of(self, codes):
        """The number of each trial's cell, its unit and class."""
        return self.unit * self.counts.shape[1] + codes

    def draw(self, codes, rng):
        """The trials (n,), sorted as `slots` wants, at random within cells."""
        cell = self.of(codes)
        return np.argsort(cell + rng.random(len(cell)))

    def group(self, codes, seed):
        """Averages (m, k) of random trials of one cell each, sorted by first trial."""
        rng = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(1,)))
        order = rng.permutation(len(codes))
        order = order[np.argsort(self.of(codes)[order], kind="stable")]
        members = np.sort(order[self.slots()], axis=1)
        return members[np.argsort(members[:, 0])]


def count_cells(
    k, folds, codes, groups=None, classes=None, equalize=False, average_test=True
):
    """The `Cells` of averages of k trials, "max" for as many as there can be.

    Refused are averages that leave a class or a fold without samples.
    """
    if isinstance(k, str) and k != "max":
        raise ValueError(
            f"Invalid value for 'average': {k!r}. Allowed: a whole number of at least "
            "1, or 'max' for the largest number that the smallest class allows."
        )
    if not isinstance(k, str):
        k = check_count("average", k, minimum=1)
    group, n_classes = number_groups(groups, len(codes)), int(codes.max()) + 1
    names = np.arange(n_classes) if classes is None else classes
    shared = "test set" if groups is None else "group in a test set"
    pairs, unit = np.unique([folds.blocks, group], axis=1, return_inverse=True)
    unit = unit.reshape(-1)
    counts = np.bincount(unit * n_classes + codes, minlength=len(pairs.T) * n_classes)
    counts = counts.reshape(-1, n_classes)

    def check_all_present(given):
        missing = np.argwhere(counts == 0)
        if len(missing):
            raise ValueError(
                f"{given} needs every class in every {shared}, and one of "
                f"{folds.name} has no trial of class {str(names[missing[0][1]])!r}. "
                "Use fewer, larger test sets (cv=5), random ones "
                "(cv=KFold(5, shuffle=True, random_state=0)) "
                "or groups that hold all classes, or leave it out."
            )

    def advice(most):
        fewer = f"average={most} or less, or " if most > 1 else ""
        such = ", e.g. cv=5" if len(folds.tests) > 5 else ""
        return f"Use {fewer}fewer, larger test sets{such}."

    if isinstance(k, str):
        check_all_present("average='max'")
        k = int(counts.min())
    largest = np.where(counts.any(axis=0), counts.max(axis=0), k)
    if largest.min() < k:
        code, most = largest.argmin(), largest.min()
        raise ValueError(
            f"average={k} leaves class {str(names[code])!r} without samples: an "
            f"average is made of {k} trials of one class and {shared}, and with "
            f"{folds.name} no {shared} holds more than {most} of the "
            f"{counts[:, code].sum()} trials of this class. {advice(most)}"
        )
    trains, tests = zip(*folds.pairs, strict=True)
    sets = [("test", tests)] if average_test else []
    for kind, each in [*sets, ("training", trains)]:
        for fold, rows in enumerate(each):
            most = counts[unit[rows]].max()
            if most < k:
                raise ValueError(
                    f"average={k} leaves fold {fold} of {folds.name} without samples: "
                    f"an average is made of {k} trials of one class and {shared}, and "
                    f"its {len(rows)} {kind} trials have at most {most} such trials. "
                    f"{advice(most)}"
                )
    n_averages = counts // k
    if equalize:
        check_all_present("equalize=True")
        n_averages = np.repeat(counts.min(axis=1, keepdims=True) // k, n_classes, 1)
    for code in _lost(folds, unit, counts, n_averages):
        text = (
            f"Some training set of {folds.name} has no average of class "
            f"{str(names[code])!r}, so that its model cannot learn the class. Use a "
            f"smaller average than {k}, or fewer, larger test sets."
        )
        Problem("absent", text, {"class": int(code)}).warn()
    return Cells(k, unit, counts, n_averages)


def _lost(folds, unit, counts, n_averages):
    """Classes that some model has no average of, although it has trials of it."""
    lost = np.zeros(counts.shape[1], bool)
    for train, _ in folds.pairs:
        units = np.unique(unit[train])
        lost |= counts[units].any(axis=0) & ~n_averages[units].any(axis=0)
    return np.flatnonzero(lost)


def average_trials(k, folds, codes, groups=None, seed=None, classes=None, **options):
    """The `Draw` of k trials of one class within test sets (and groups), by a seed."""
    codes = np.asarray(codes)
    check_disjoint(k, folds)
    cells = count_cells(k, folds, codes, groups, classes, **options)
    members, group = cells.group(codes, seed), number_groups(groups, len(codes))
    first = members[:, 0]
    constant = len(np.unique(group)) == len(np.unique([group, codes], axis=1)[0])
    label_free = cells.k == 1 or (groups is not None and constant)
    label_free &= not options.get("equalize")
    new = replace(
        folds_of_averages(folds, first),
        balanced=folds.balanced or not label_free,
        name=f"{folds.name} with average={cells.k}",
    )
    groups = None if groups is None else np.asarray(groups)[first]
    return Draw((members,), codes[first], groups, new)


def check_disjoint(k, folds):
    """Refuse test sets that overlap, where each fold trains on all other trials."""
    if folds.trains is None and np.bincount(np.concatenate(folds.tests)).max() > 1:
        raise ValueError(
            f"average={k!r} needs every trial in no more than one test set, since "
            f"trials are averaged within test sets; those of {folds.name} overlap. Use "
            "KFold, LeaveOneGroupOut or the like."
        )


def folds_of_averages(folds, first):
    """The folds of averages, of each of which one trial is given, (m,)."""

    def among(sets):
        return tuple(np.flatnonzero(np.isin(first, rows)) for rows in sets)

    trains = None if folds.trains is None else among(folds.trains)
    mask = None if folds.train_mask is None else folds.train_mask[first]
    sets = {"tests": among(folds.tests), "trains": trains, "train_mask": mask}
    return replace(folds, **sets, n=len(first), rule=None)


def find_left_out(cells, folds, groups, classes):
    """The `Problem` of a class too small somewhere to be averaged, or None."""
    few = np.argwhere((cells.counts > 0) & (cells.counts < cells.k))
    if not len(few):
        return None
    unit, code = few[0]
    trial = np.flatnonzero(cells.unit == unit)[0]
    tests = [str(f) for f, test in enumerate(folds.tests) if trial in test]
    where = f"what test sets {', '.join(tests)} of {folds.name} share"
    if len(tests) < 2:
        where = f"test set {tests[0]} of {folds.name}" if tests else ""
        where = where or f"the trials that {folds.name} never tests"
    if groups is not None:
        where = f"group {str(groups[trial])!r} in {where}"
    n = int(cells.counts[unit, code])
    text = (
        f"average={cells.k} leaves no average of class {str(classes[code])!r} in "
        f"{where}, with {n} of its trials: they are left out. Use "
        f"average={n}{' or less' * (n > 1)}, or average='max'."
    )
    return Problem("left_out", text, {"class": int(code), "n_trials": n})
