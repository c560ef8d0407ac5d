"""Folds that differ: of repeats that draw them anew, and of labels that they see."""

from copy import copy
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ..kfda.folds import Folds, make_folds


@dataclass(frozen=True, eq=False)
class Shown:
    """A splitter that may look at labels, to be shown those of every permutation.

    Attributes
    ----------
    cv : splitter
        As it was given.
    folds : Folds
        Those of the observed classes.
    groups : ndarray, shape (n,) | None
        What the splitter is given as groups.
    classes : ndarray, shape (c,)
        The labels of the classes.
    """

    cv: object
    folds: Folds
    groups: np.ndarray | None
    classes: np.ndarray

    def shown(self, labels):
        """Return what gives the folds of any of labels (P + 1, n), by these.

        They are drawn here, once: the splitter may draw others the next time.
        """
        drawn = {labels[0].tobytes(): self.folds}
        for each in labels[1:]:
            key = each.tobytes()
            if key not in drawn:
                drawn[key] = make_folds(self.cv, each, self.groups, self.classes)
        return Drawn(drawn)


@dataclass(frozen=True, eq=False)
class Drawn:
    """Folds that were drawn for labels, the observed ones first, by their bytes."""

    folds: dict

    def __call__(self, labels):
        """Return the folds for labels (n,) of those."""
        return self.folds[labels.tobytes()]

    @cached_property
    def are_alike(self):
        """Whether all labels have the folds of the observed ones."""
        first, *others = self.folds.values()
        return all(each.is_same(first) for each in others)


def seeded_splitters(cv, folds, groups, n_repeats, seed):
    """Return a splitter with a seed of its own for every repeat."""
    if not hasattr(cv, "random_state") or hasattr(cv, "n_repeats"):
        advice = "Use a number of folds, KFold or ShuffleSplit"
        if groups is not None:  # a number of folds would part them
            advice = "Use GroupKFold or GroupShuffleSplit"
        raise ValueError(
            f"n_repeats={n_repeats} draws other folds in every repeat, and "
            f"{folds.name} has no random folds, or repeats them itself. {advice}; with "
            "average=k trials are regrouped within the same folds."
        )
    seeds = np.random.SeedSequence(seed, spawn_key=(3,)).generate_state(n_repeats)
    splitters = [copy(cv) for _ in seeds]
    for splitter, each in zip(splitters, seeds, strict=True):
        splitter.random_state = int(each)
        if hasattr(splitter, "shuffle"):
            splitter.shuffle = True
    return tuple(splitters)
