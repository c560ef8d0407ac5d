"""What a run keeps of the scores under permuted labels."""

import tempfile

import numpy as np

from . import inference


class NullStore:
    """What is kept of the scores under permuted labels, filled position by position.

    Parameters
    ----------
    kind : str
        "all": every score, in double precision. "full": the same in single precision.
        "max": of every permutation the largest score, of every position how many
        permutations reach the observed score. "stream": as "max" and the largest
        cluster and TFCE score too, by way of a temporary file of all scores.
    n_permutations : int
        P.
    shape : tuple of int
        Positions first, then the axes of a row.
    """

    def __init__(self, kind, n_permutations, shape):
        self._kind = kind = kind if n_permutations else "all"
        self._observed = np.empty(shape)
        if kind == "max":
            self._collector = inference.NullCollector(shape, n_permutations)
            return
        shape = (n_permutations, *shape)
        if kind == "stream":
            self._file = tempfile.TemporaryFile(prefix="mvpa_kfda")
            self._null = np.memmap(self._file, np.float32, "w+", shape=shape)
        else:
            self._null = np.empty(shape, np.float64 if kind == "all" else np.float32)

    def add(self, position, observed, null):
        """Take in a position's scores (*row,) and those of its null (P, *row)."""
        self._observed[position] = observed
        if self._kind == "max":
            self._collector.add(position, observed, null)
        else:
            self._null[:, position] = null

    def summary(self, shape):
        """Return the whole null or None, and its summary or None, for a map's shape."""
        if self._kind in ("all", "full"):
            return self._null.reshape(len(self._null), *shape), None
        if self._kind == "max":
            return None, self._collector.summary()
        with self._file:
            null = self._null.reshape(len(self._null), *shape)
            observed = self._observed.reshape(shape)
            return None, inference.summarize_null(observed, null, with_clusters=True)
