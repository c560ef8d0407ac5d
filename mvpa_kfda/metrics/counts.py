"""Counts of predicted classes, for many label vectors at once."""

from dataclasses import dataclass

import numpy as np


def confusion_matrix(true, predicted, n_classes):
    """Count predictions for every label vector.

    Parameters
    ----------
    true, predicted : ndarray of int, shape (n_test, B)
        Class codes.
    n_classes : int
        The number of classes c.

    Returns
    -------
    confusion : ndarray, shape (c, c, B)
        Rows are true classes, columns predicted ones.
    """
    n_labels = true.shape[1]
    cells = true.astype(np.intp)
    cells *= n_classes
    cells += predicted
    cells *= n_labels
    cells += np.arange(n_labels)
    counts = np.bincount(cells.ravel(), minlength=n_classes**2 * n_labels)
    return counts.reshape(n_classes, n_classes, n_labels)


#: Bytes of flags that are made and counted at a time.
_CACHE_BYTES = 2**20


def _byte_blocks(n_rows, n_columns):
    """Yield blocks of rows: sums of 127 fit in a byte, and a few rows in the cache."""
    rows = int(np.clip(_CACHE_BYTES // max(1, n_columns), 8, 127))
    return (slice(start, start + rows) for start in range(0, n_rows, rows))


def _count(flags):
    """Count truths along the first axis of at most 127 rows, a byte each."""
    return flags.view(np.int8).sum(axis=0, dtype=np.int8)


def count_equal(true, predicted):
    """Count equal entries of many columns, (n, ...) with (n, ...) to (...).

    Bytes that stay in the cache make it many times faster than a plain sum.
    """
    shape = np.broadcast_shapes(true.shape, predicted.shape)
    counts = np.zeros(shape[1:], np.intp)
    for block in _byte_blocks(len(predicted), counts.size):
        counts += _count(true[block] == predicted[block])
    return counts


@dataclass(frozen=True)
class Counts:
    """How often each of c classes occurs, was predicted, and was so rightly."""

    #: All (c, ...), the other two maybe with axes of length one.
    hits: np.ndarray
    true: np.ndarray
    predicted: np.ndarray


def count_predictions(true, predicted, n_classes):
    """Return the :class:`Counts` of codes (n_test, ...), which may broadcast.

    Of the last class from the totals, so that two classes take hardly more than their
    hits do.
    """
    n_test, *shape = np.broadcast_shapes(true.shape, predicted.shape)
    hits, occurs, named = (
        np.zeros((n_classes, *each), np.intp)
        for each in (shape, true.shape[1:], predicted.shape[1:])
    )
    for block in _byte_blocks(n_test, hits[0].size):
        for k in range(n_classes - 1):
            carried, said = true[block] == k, predicted[block] == k
            occurs[k] += _count(carried)
            named[k] += _count(said)
            if n_classes > 2:
                hits[k] += _count(said & carried)
    for counts in occurs, named:
        counts[-1] = n_test - counts[:-1].sum(axis=0)
    right = count_equal(true, predicted)
    if n_classes == 2:  # hits and misses of one class: half of all sums it up
        hits[0] = (right + occurs[0] + named[0] - n_test) // 2
    hits[-1] = right - hits[:-1].sum(axis=0)
    return Counts(hits, occurs, named)


def divide(a, b):
    """Return a / b, and 0 where b is 0, as scikit-learn's zero_division=0 does."""
    return np.divide(a, b, out=np.zeros(np.broadcast(a, b).shape), where=b > 0)


def total_in_order(values):
    """Sum over the first axis in order, so that no digit depends on how many B are.

    A plain sum of a single column is formed in another order than that of several.
    """
    return np.add.accumulate(values, axis=0)[-1]
