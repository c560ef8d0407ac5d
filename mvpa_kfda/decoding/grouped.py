"""Positions whose trials are averaged, or divided into test sets, again and again.

Every repeat of every permutation has averages or test sets of its own, and models of
its own with them. What these have in common is worked out once for a block of
positions: kernel matrices, where these are smaller than the features or cannot do
without (:class:`GramPositions`), and what hat matrices are made of
(:class:`BlockHats`).
"""

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from sklearn import config_context

from ..kfda.hat import make_hat
from ..kfda.kernels import InnerProducts, KernelChoice, Precomputed, gram_of, needs_gram
from ..kfda.models import plan_of_features
from ..kfda.penalties import Auto, of_trials
from .averaging import average
from .positions import Positions


@dataclass(frozen=True)
class GramPositions(Positions):
    """Some positions of a map by their kernel matrices, worked out once."""

    #: The matrices (n, n), and the kernels that say of what they are, by position.
    grams: dict
    reg: object
    #: The positions they are of.
    positions: Positions

    @classmethod
    def of(cls, positions, block, task, with_patterns=False):
        """Return those of a block's positions; themselves where features are better.

        They are with linear kernels of not more features than trials, and needed for
        steps and patterns.
        """
        kernel = getattr(positions, "kernel", None)
        if kernel is None or isinstance(kernel, KernelChoice) or kernel.low_rank:
            return positions
        if kernel.is_linear:
            sizes = [np.shape(positions.samples(each)[0]) for each in block]
            if task.learned or with_patterns or any(p <= n for n, p in sizes):
                return positions
        grams = {position: _gram(positions, position) for position in block}
        return cls(grams, positions.reg, positions)

    def where(self, position):
        """Return how to begin a message about a position."""
        return self.positions.where(position)

    def models(self, block, task):
        """Yield the model of every position in a block."""
        for position in block:
            yield plan_of_features(*self.grams[position], self.reg, task)

    def samples(self, position):
        """Return the matrix of a position, and the kernel that says of what it is."""
        return self.grams[position]

    def grouped(self, grouping, block):
        """Return the same positions of pseudo-trials."""
        grams = {}
        for position in block:
            K, kernel = self.grams[position]
            grams[position] = grouping.apply(grouping.apply(K), axis=1), kernel
        return replace(self, grams=grams)


def _gram(positions, position):
    """Return the kernel matrix of a position, and a kernel for it."""
    X, kernel = positions.samples(position)
    if kernel.shift_free:
        X = X - X.mean(axis=0)
    try:
        with config_context(assume_finite=True, skip_parameter_validation=True):
            K = gram_of(X, kernel.fit(X))
    except ValueError as error:  # of the user's own kernel
        raise ValueError(f"{positions.where(position)}{error}") from error
    return K, InnerProducts(X.shape[1]) if kernel.is_linear else Precomputed()


@dataclass(frozen=True)
class BlockHats:
    """The hats of a block's positions, where one each serves all folds."""

    #: Of every position features (n, p) or a kernel matrix, and the kernel for them.
    samples: tuple
    reg: object

    @classmethod
    def of(cls, positions, block, task):
        """Return those of a block; None where a position needs more than a hat."""
        if positions.row or task.is_foldwise or task.inner is not None:
            return None
        samples = tuple(positions.samples(position) for position in block)
        if any(kernel.low_rank for _, kernel in samples):
            return None
        return cls(samples, task.penalty(positions.reg))

    def serve(self, folds):
        """Tell whether they are those of other folds, too."""
        is_auto = isinstance(self.reg, Auto)
        return not is_auto or np.array_equal(self.reg.rows, folds.trained)

    def n_bytes(self, folds):
        """Return what the hats of all positions take, with blocks of folds, for each.

        Of one grouping of trials.
        """
        n, blocks = folds.n, sum(len(test) ** 2 for test in folds.tests)
        sizes = [n * min(n, np.shape(X)[1] + 1) + 2 * blocks for X, _ in self.samples]
        return 8 * sum(sizes)

    @cached_property
    def alone(self):
        """The hats of the trials as they are, by position."""
        return [make_hat(X, kernel, self.reg) for X, kernel in self.samples]

    def of_averages(self, members, order):
        """Return the hats of averages of trials (r, m, k), by grouping and position.

        Of averages in an order of their own.
        """
        members = members[:, order]
        (r, m, k), reg = members.shape, of_trials(self.reg, order)
        hats = []
        for X, kernel in self.samples:
            if needs_gram(kernel):
                data = (average(average(X, each), each, axis=1) for each in members)
            else:
                data = average(X, members.reshape(r * m, k)).reshape(r, m, -1)
            hats.append([make_hat(each, kernel, reg) for each in data])
        return [hat for of_grouping in zip(*hats, strict=True) for hat in of_grouping]
