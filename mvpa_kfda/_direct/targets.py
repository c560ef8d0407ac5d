"""Label vectors as regression targets: all that does not depend on the data.

Every position of a map is given the same label vectors. Their contrasts, the class
counts of the folds and what the scoring rule makes of these are worked out once.
"""

from dataclasses import dataclass

import numpy as np

from .rules import RuleTerms, contrasts


@dataclass(frozen=True)
class FoldTargets:
    """The label vectors of one batch of folds.

    Attributes
    ----------
    codes : ndarray of int, shape (k, m, B)
        The labels the test rows carry.
    T : ndarray, shape (q, k, m, B)
        Their contrasts.
    terms : RuleTerms
        Of the training rows.
    """

    codes: np.ndarray
    T: np.ndarray
    terms: RuleTerms


@dataclass(frozen=True)
class Targets:
    """B label vectors, in a layout's order of rows.

    Attributes
    ----------
    codes : ndarray of int, shape (n, B)
        Class codes.
    T : ndarray, shape (q, n, B)
        Their q = c - 1 contrasts.
    terms : RuleTerms
        Of all rows, with k = 1.
    folds : tuple of FoldTargets
        Of the layout's batches.
    """

    codes: np.ndarray
    T: np.ndarray
    terms: RuleTerms
    folds: tuple

    @property
    def n_classes(self):
        """The number of classes c."""
        return len(self.terms.counts)

    @property
    def n_labels(self):
        """The number of label vectors B."""
        return self.codes.shape[1]


def make_targets(labels, n_classes, layout, dtype, rank=None):
    """Return the targets of labels.

    Parameters
    ----------
    labels : ndarray of int, shape (B, n)
        Class codes 0..c-1, one row per label vector.
    n_classes : int
        The number of classes c.
    layout : Layout
        From :mod:`mvpa_kfda.folds`.
    dtype : dtype
        The precision in which labels are processed.
    rank : int | None
        How many discriminants to classify by, the first ones of every fold and label
        vector; None for all c - 1.

    Returns
    -------
    targets : Targets
        For every position that has these folds.
    """
    Q = contrasts(n_classes).astype(dtype)
    small = np.int8 if n_classes < 128 else np.int16
    codes = np.ascontiguousarray(labels.T[layout.order], dtype=small)
    T = np.stack([Q[:, i].take(codes) for i in range(n_classes - 1)])
    totals = count_classes(codes[None], n_classes, dtype)
    folds = []
    for batch in layout.batches:
        tested = codes[batch.take].reshape(batch.k, batch.m, -1)
        terms = RuleTerms(totals - count_classes(tested, n_classes, dtype), Q, rank)
        folds.append(FoldTargets(tested, batch.of(T), terms))
    return Targets(codes, T, RuleTerms(totals, Q, rank), tuple(folds))


def count_classes(codes, n_classes, dtype):
    """Count the classes over rows, (k, m, B) to (c, k, B)."""
    return np.stack(
        [(codes == j).sum(axis=1, dtype=np.int32) for j in range(n_classes)]
    ).astype(dtype)
