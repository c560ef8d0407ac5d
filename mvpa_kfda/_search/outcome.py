"""What a run yields: the cells of a map, gathered block by block."""

import tempfile
from dataclasses import dataclass

import numpy as np

from .._inference.null import FullNull
from .._inference.null_summary import NullSummary, summarize_null


@dataclass(frozen=True)
class Outcome:
    """Scores and predictions over a map.

    Positions that the source leaves out are NaN, and -1 in `predicted`; summaries are
    of the others.

    Attributes
    ----------
    metrics : dict of str to ndarray
        The observed scores, (*shape,) or (*shape, c, c).
    nulls : dict of str to ndarray
        Scores of the permuted labels, (P, *shape), of the single-number metrics.
    summaries : dict of str to NullSummary
        What is left of the nulls that were not kept.
    second_nulls, second_summaries : dict
        The same of the scores against the task's second labels.
    predicted : ndarray of int, shape (*shape, n)
        Predicted classes of the observed labels, -1 for trials never tested.
    class_scores : ndarray, shape (*shape, n, c) | None
        Class scores of the observed labels, averaged over the folds that test a trial;
        NaN for trials never tested. None unless the task keeps them.
    patterns : dict of str to ndarray
        Activation patterns, (*shape, ., n_features), by kind; empty unless wanted.
    penalty : dict of str to ndarray
        What is recorded of the penalties, (*shape, ...), by name.
    """

    metrics: dict
    nulls: dict
    summaries: dict
    second_nulls: dict
    second_summaries: dict
    predicted: np.ndarray
    class_scores: np.ndarray | None
    patterns: dict
    penalty: dict


def reduce_null(kind, observed, null):
    """Return what :class:`NullStore` keeps of some cells' scores.

    Parameters
    ----------
    kind : str
        What is kept.
    observed : ndarray, shape (cells,)
        Scores of the observed labels.
    null : ndarray, shape (P, cells)
        Scores of permuted labels.

    Returns
    -------
    kept : dict of str to ndarray
        ``null``, or ``exceedances`` (cells,) and ``maximum`` (P,).
    """
    if kind == "max":
        kept = FullNull(observed, null)
        return {"exceedances": kept.exceedances, "maximum": kept.maximum}
    return {"null": null.astype(np.float64 if kind == "all" else np.float32)}


class NullStore:
    """What is kept of the scores under permuted labels, filled part by part.

    Parameters
    ----------
    kind : str
        "all": every score, in double precision. "full": the same in single precision.
        "max": of every permutation the largest score, of every cell how many
        permutations reach the observed score. "stream": as "max" and the largest
        cluster and TFCE score too, by way of a temporary file of all scores.
    n_permutations : int
        P.
    adjacency : sparse matrix, shape (n_run, n_run) | None
        Which of the cells that are run are neighbours, for "stream"; None: those next
        to each other on the map.
    shape : tuple of int
        The map's.
    run : ndarray of int
        The numbers of the cells that are run, in ascending order. Scores of the others
        are NaN, and summaries leave them out.
    """

    def __init__(self, kind, n_permutations, adjacency, shape, run):
        self._kind, self._adjacency, self._run = kind, adjacency, run
        n_cells = int(np.prod(shape))
        self._shape = shape
        # Of a map without gaps a summary has its shape, else one axis of the cells run.
        self._summarised = shape if len(run) == n_cells else run.shape
        self._observed = np.empty(len(run))
        if kind == "max":
            self._exceedances = np.zeros(len(run), np.int64)
            self._maximum = np.full(n_permutations, -np.inf)
        elif kind == "stream":
            self._file = tempfile.TemporaryFile(prefix="mvpa_kfda")
            shape = n_permutations, len(run)
            self._null = np.memmap(self._file, np.float32, "w+", shape=shape)
        else:
            dtype = np.float64 if kind == "all" else np.float32
            self._null = np.empty((n_permutations, n_cells), dtype)
            if len(run) < n_cells:
                self._null[:] = np.nan

    def add(self, cells, observed, kept):
        """Take in cells' observed scores and what `reduce_null` kept of the others."""
        at = np.searchsorted(self._run, cells)
        self._observed[at] = observed
        if self._kind == "max":
            self._exceedances[at] = kept["exceedances"]
            np.maximum(self._maximum, kept["maximum"], out=self._maximum)
        else:
            self._null[:, at if self._kind == "stream" else cells] = kept["null"]

    def result(self):
        """Return the whole null or None, and its summary or None."""
        if self._kind in ("all", "full"):
            return self._null.reshape((len(self._null), *self._shape)), None
        shape = self._summarised
        if self._kind == "max":
            exceedances = self._exceedances.reshape(shape)
            return None, NullSummary(len(self._maximum), exceedances, self._maximum)
        with self._file:
            return None, summarize_null(
                self._observed.reshape(shape),
                self._null.reshape((-1, *shape)),
                with_clusters=True,
                adjacency=self._adjacency,
            )


class Gathered:
    """The cells of a map, filled block by block in any order.

    Parameters
    ----------
    shape, row : tuple of int
        The map's positions, and the cells that each of them fills, () for one.
    blocks : list of sequence of int
        The positions that are run.
    null : str
        What is kept of the null, see :class:`NullStore`.
    n_permutations : int
        P.
    adjacency : sparse matrix | None
        See :class:`NullStore`.
    """

    def __init__(self, shape, row, blocks, null, n_permutations, adjacency=None):
        self._positions, self._shape = shape, (*shape, *row)
        self._width, self._n_cells = int(np.prod(row)), int(np.prod(self._shape))
        self._null = null, n_permutations, adjacency
        run = np.concatenate([np.asarray(block) for block in blocks])
        self._run = np.sort(self._cells(run))
        self._arrays, self._nulls = {}, {}

    def _cells(self, block):
        """Return the numbers of the cells of some positions."""
        block = np.asarray(block)
        if self._width == 1:
            return block
        return (block[:, None] * self._width + np.arange(self._width)).ravel()

    def add(self, block, part):
        """Take in the part of some positions, see :mod:`mvpa_kfda.search`."""
        cells, nulls = self._cells(block), {}
        for key, values in part.items():
            kind, _, name = key.partition("/")
            if kind in ("nulls", "second"):
                name, _, what = name.partition("/")
                nulls.setdefault((kind, name), {})[what] = values
            elif kind in ("patterns", "penalty"):
                positions = int(np.prod(self._positions))
                self._array(key, values, positions)[block] = values
            else:
                self._array(key, values, self._n_cells)[cells] = values
        for (kind, name), kept in nulls.items():
            if (kind, name) not in self._nulls:
                store = NullStore(*self._null, self._shape, self._run)
                self._nulls[kind, name] = store
            observed = part[f"metrics/{name}"]
            self._nulls[kind, name].add(cells, observed, kept)

    def _array(self, key, values, length):
        """Return the array of all cells for some cells' values, made if need be."""
        if key not in self._arrays:
            empty = np.nan if values.dtype.kind == "f" else -1
            self._arrays[key] = np.full(
                (length, *values.shape[1:]), empty, values.dtype
            )
        return self._arrays[key]

    def outcome(self):
        """Return the map."""
        packed = {key: null.result() for key, null in self._nulls.items()}
        found = {"metrics": {}, "patterns": {}, "penalty": {}}
        for key, values in self._arrays.items():
            kind, _, name = key.partition("/")
            each = kind in ("patterns", "penalty")
            shape = self._positions if each else self._shape
            values = values.reshape((*shape, *values.shape[1:]))
            if name:
                found[kind][name] = values
            else:
                found[kind] = values

        def pick(kind, part):
            both = {
                name: value[part] for (k, name), value in packed.items() if k == kind
            }
            return {name: value for name, value in both.items() if value is not None}

        return Outcome(
            metrics=found["metrics"],
            nulls=pick("nulls", 0),
            summaries=pick("nulls", 1),
            second_nulls=pick("second", 0),
            second_summaries=pick("second", 1),
            predicted=found["predicted"],
            class_scores=found.get("class_scores"),
            patterns=found["patterns"],
            penalty=found["penalty"],
        )
