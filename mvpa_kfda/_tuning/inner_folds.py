"""How the trials of every training set are left out in turn, to tune a penalty."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from sklearn.model_selection import KFold

from ..folds import FoldBatch, Folds, Layout, lay_out, make_folds


@dataclass(frozen=True)
class InnerFolds:
    """The folds within the training sets of folds.

    Attributes
    ----------
    cv : None | int | splitter
        As in :class:`mvpa_kfda.penalties.Tuned`.
    n : int
        The number of trials.
    codes : ndarray of int, shape (n,) | None
        The observed classes, for splitters that look at them.
    groups : ndarray, shape (n,) | None
        Each trial's group.
    folds : Folds | None
        The outer folds; None where there are none.
    """

    cv: object
    n: int
    codes: np.ndarray | None
    groups: np.ndarray | None
    folds: Folds | None

    @cached_property
    def layout(self):
        """The layout of the outer folds."""
        return lay_out(self.folds, self.n)

    @cached_property
    def of_all(self):
        """The layout of the folds among all trials."""
        return self._inner_layout(np.arange(self.n))

    @cached_property
    def of_folds(self):
        """The layouts within the training sets, a list for every outer batch."""
        return [
            [self._inner_layout(np.delete(np.arange(self.n), te)) for te in tests]
            for tests in self.tests
        ]

    @cached_property
    def tests(self):
        """Where the test rows are in the order of trials, (k, m) by outer batches."""
        positions = np.arange(self.n)
        return [
            positions[batch.take].reshape(batch.k, batch.m)
            for batch in self.layout.batches
        ]

    @property
    def leaves_one_out(self):
        """Whether every training trial is left out by itself."""
        return self.cv is None and self.groups is None

    @cached_property
    def sizes(self):
        """How many left-out trials, and how many folds, there are in training sets."""
        within = (each.batches for some in self.of_folds for each in some)
        batches = [batch for some in within for batch in some]
        return sum(batch.k * batch.m for batch in batches), sum(b.k for b in batches)

    @cached_property
    def numbers(self):
        """The number that each outer fold has for the user, batch by batch."""
        sizes = [len(test) for test in self.folds.tests]
        return np.argsort(sizes, kind="stable")

    def _inner_layout(self, positions):
        """Return the layout of the folds among the trials at some positions."""
        # Splitters are given the training trials in their own order.
        positions = positions[np.argsort(self.layout.order[positions])]
        tests = self._tests(self.layout.order[positions])
        batches, start = [], 0
        for m in sorted({len(test) for test in tests}):
            take = np.concatenate([positions[t] for t in tests if len(t) == m])
            stop = start + len(take)
            batches.append(FoldBatch(take, len(take) // m, m, slice(start, stop)))
            start = stop
        return Layout(self.layout.order, np.empty(0, int), tuple(batches))

    def _tests(self, rows):
        """Return the test sets within some rows, as indices into them."""
        if self.leaves_one_out:
            return list(np.arange(len(rows))[:, None])
        if self.cv is None:
            return _by_group(self.groups[rows])
        cv = self.cv
        if not hasattr(cv, "split"):
            _check_enough(cv, len(rows))
            # Not stratified: all label permutations share these folds.
            cv = KFold(cv, shuffle=True, random_state=0)
        codes = np.zeros(len(rows), int) if self.codes is None else self.codes[rows]
        groups = None if self.groups is None else self.groups[rows]
        try:
            return make_folds(cv, codes, groups, warn_absent=False).tests
        except ValueError as error:
            raise ValueError(f"Within a training set, for Tuned: {error}") from error


def _by_group(groups):
    """Return the rows of every group."""
    names, numbers = np.unique(groups, return_inverse=True)
    if len(names) < 2:
        raise ValueError(
            "Tuning leaves one group out at a time within every training set, but some "
            "training set holds a single group. Give three or more groups, or say how "
            "to leave trials out: Tuned(cv=5), Tuned(cv=LeaveOneOut())."
        )
    return [np.flatnonzero(numbers == i) for i in range(len(names))]


def _check_enough(cv, n):
    """Refuse more folds than training trials."""
    if cv > n:
        raise ValueError(
            f"Tuned(cv={cv}) asks for more folds than the {n} trials of a training "
            "set. Use fewer folds, or cv=None to leave one trial out at a time."
        )
