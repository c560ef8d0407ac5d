"""Rearrangements of labels in blocks: how many there are, all of them, or some."""

import math
from dataclasses import dataclass

import numpy as np
from scipy.special import gammaln


@dataclass(frozen=True, eq=False)
class Units:
    """What changes places: `codes` (u,) of the units, inside `blocks` (u,).

    A unit is a trial or a whole group; `of_trial` (n,) says which unit holds a trial.
    """

    codes: np.ndarray
    blocks: np.ndarray
    of_trial: np.ndarray


def count_rearrangements(units):
    """Count the distinct rearrangements: an int, or inf when past a float's range."""
    n_classes = int(units.codes.max()) + 1
    cells = units.blocks * n_classes + units.codes
    # Counted by sorting: a table of blocks x classes may be as large as n x n.
    same = np.unique(cells, return_counts=True)[1]
    # Logarithms: the factorials themselves overflow at 171 trials.
    total = gammaln(np.bincount(units.blocks) + 1).sum()
    log_count = float(total - gammaln(same + 1).sum())
    return math.inf if log_count > 700 else round(math.exp(log_count))


def _members(blocks):
    """Return the unit indices of every block with two units or more."""
    order = np.argsort(blocks, kind="stable")
    parts = np.split(order, np.cumsum(np.bincount(blocks))[:-1])
    return [part for part in parts if len(part) > 1]


def draw(units, n_permutations, rng):
    """Draw permutations at random: (P + 1, u), observed first."""
    labels = np.tile(units.codes, (n_permutations + 1, 1))
    for unit in _members(units.blocks):
        labels[1:, unit] = rng.permuted(labels[1:, unit], axis=1)
    return labels


def list_all(units):
    """List every distinct rearrangement once: (W, u), observed first."""
    choices = []
    for unit in _members(units.blocks):
        rows = _arrangements(units.codes[unit])
        if len(rows) > 1:
            choices.append((unit, rows))
    sizes = [len(rows) for _, rows in choices]
    labels = np.tile(units.codes, (math.prod(sizes), 1))
    # Row r of the list takes arrangement index[b][r] of block b.
    index = np.unravel_index(np.arange(len(labels)), sizes)
    for (unit, rows), pick in zip(choices, index, strict=True):
        labels[:, unit] = rows[pick]
    return labels


def _arrangements(codes):
    """List the distinct orders of `codes`, (w, m), the given order first.

    Prefixes grow by one position at a time: each is continued with every class that
    still has labels left.
    """
    left = np.bincount(codes)[np.newaxis]  # (w, c)
    rows = np.empty((1, 0), dtype=codes.dtype)
    for _ in codes:
        prefix, chosen = np.nonzero(left)
        rows = np.column_stack([rows[prefix], chosen.astype(codes.dtype)])
        left = left[prefix]
        left[np.arange(len(left)), chosen] -= 1
    given = np.argmax((rows == codes).all(axis=1))
    return np.concatenate([rows[given : given + 1], np.delete(rows, given, axis=0)])
