"""What is decoded in every repeat: averages that are grouped anew, or other folds."""

from copy import copy
from dataclasses import dataclass

import numpy as np

from .drawing import redraw_folds, splitter_of, trials_alike
from .reading import NotCovered


@dataclass(frozen=True)
class Round:
    """One repeat under one labelling."""

    #: The trials in each average (m, k); None: trials are not averaged.
    members: np.ndarray | None
    #: Training and test sets, of trials or of averages.
    pairs: list
    #: Whether models that are trained with averages are tested on single trials.
    tests_trials: bool = False

    def trained(self, values, in_feature_space=False):
        """Return values (n, ...) of trials, or their means over each average.

        Where means are those in the feature space of a kernel, the trials of each
        average, (m, k, ...), which the kernel is the mean over.
        """
        if self.members is None or values is None:
            return values
        each = values[self.members]
        return each if in_feature_space else each.mean(axis=1)

    def tested(self, values, in_feature_space=False):
        """Return the same of what is tested."""
        if not self.tests_trials:
            return self.trained(values, in_feature_space)
        return values[:, np.newaxis] if in_feature_space else values

    def first(self, values):
        """Return values (n, ...) of trials, or those of each average's first trial."""
        if self.members is None or values is None:
            return values
        return values[self.members[:, 0]]

    def first_tested(self, values):
        """Return the same of what is tested."""
        return values if self.tests_trials else self.first(values)

    def listed(self):
        """Return training and test sets as a file lists them."""
        if not self.tests_trials:
            return self.pairs
        return [(np.sort(self.members[a], axis=None), b) for a, b in self.pairs]

    def n_tested(self, n):
        """Return how many samples there are to test, of n trials."""
        return n if self.members is None or self.tests_trials else len(self.members)


def regrouped(parameters, codes, folds, groups, permutation, repeat):
    """Return the `Round` of trials that are grouped anew, by the seed in the file.

    Of so many trials of a class in a test set (and group) as make an average, in an
    order at random; what is left over is left out.
    """
    n, k, n_classes = len(codes), parameters["average"], int(codes.max()) + 1
    group = np.zeros(n, int)
    if groups is not None:
        group = np.unique(groups, return_inverse=True)[1]
    places = np.stack([trials_alike(folds, n), group])
    unit = np.unique(places, axis=1, return_inverse=True)[1].reshape(-1)
    cell = unit * n_classes + codes
    key = (2, permutation, repeat)
    seed = np.random.SeedSequence(parameters["random_state"], spawn_key=key)
    order = np.argsort(cell + np.random.default_rng(seed).random(n))
    members = []
    for each in range(unit.max() + 1):
        sizes = [np.sum(cell == each * n_classes + c) // k for c in range(n_classes)]
        if parameters["equalize"]:
            sizes = [min(sizes)] * n_classes
        for c, size in enumerate(sizes):
            mine = order[cell[order] == each * n_classes + c]
            members += mine[: size * k].reshape(size, k).tolist()
    members = np.array(members, int)
    sides = [
        tuple(np.flatnonzero(np.isin(members[:, 0], rows)) for rows in pair)
        for pair in folds.pairs
    ]
    if parameters["average_test"]:
        return Round(members, sides)
    tests = (test for _, test in folds.pairs)
    pairs = [(train, test) for (train, _), test in zip(sides, tests, strict=True)]
    return Round(members, pairs, tests_trials=True)


def reshuffled(asked, codes, groups, seed, n_repeats, repeat):
    """Return the `Round` of trials with folds that are drawn anew."""
    if asked is None and groups is None:
        asked = 10
    if isinstance(asked, int):
        asked = {"name": "KFold", "n_splits": asked}
    splitter = splitter_of(asked)
    if splitter is None:
        raise NotCovered("the splitter is not one of scikit-learn's")
    seeds = np.random.SeedSequence(seed, spawn_key=(3,)).generate_state(n_repeats)
    drawn = copy(splitter)
    if hasattr(drawn, "shuffle"):
        drawn.shuffle = True
    drawn.random_state = int(seeds[repeat])
    return Round(None, redraw_folds(drawn, codes, groups).pairs)
