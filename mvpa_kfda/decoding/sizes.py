"""What a run will take, worked out before it starts, and how it would take less."""

import math
import shutil
import tempfile
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
from joblib import cpu_count

from ..kfda.hat import prefers_features
from ..utils.checks import check_option, quoted, word_bytes
from ..utils.memory import check_memory
from ..utils.parallel import count_workers
from ..utils.progress import word_seconds

#: With null="auto", permutations' maps up to this many bytes are kept in full.
FULL_NULL_BYTES = 2**30
#: Bytes of draws that are kept, so that they are not drawn again in every block.
DRAWN_BYTES = 2**25
#: Bytes that the matrices of several draws may take, to be handled together.
MATRIX_BYTES = 2**24

#: What may be kept of the permutations.
KeptNull = Literal["auto", "full", "max", "stream"]
NULLS = get_args(KeptNull)

#: What is kept of a null in memory, in units of all its scores in single precision.
_TIMES_KEPT = {"all": 2, "full": 1}


@dataclass(frozen=True)
class Maps:
    """The maps of permutations, as far as they are known before labels are drawn."""

    #: What is kept of them, and their shape.
    null: str
    shape: tuple
    #: What makes them smaller.
    fewer: str

    def check(self, n_scalar, n_permutations):
        """Refuse more permutations of so many metrics than can be kept."""
        full = 4 * n_scalar * n_permutations * math.prod(self.shape)
        what = f"{' x '.join(map(str, self.shape))} positions"
        check_memory(
            _TIMES_KEPT.get(self.null, 0) * full,
            f"A map of {what} with {n_permutations} permutations",
            _either(_smaller(self.null, self.fewer)),
        )


def check_null(null, task, positions, n_tested, n_jobs=1):
    """Return what to keep of the permutations' maps; refuse what cannot be held.

    "auto" is decided; "all", in double precision, is for maps that are never reduced.
    `n_tested` trials are predicted in every cell.
    """
    if null != "all":
        check_option("null", null, NULLS)
    n_permutations, size = len(task.labels) - 1, positions.describe()
    full = _full_null_bytes(task, positions)
    if null == "auto":
        null = "full" if full <= FULL_NULL_BYTES else "max"
    what = f"A map of {size} with {n_permutations} permutations"
    less = _smaller(null, positions.fewer)
    n_workers = min(count_workers(n_jobs, here=True), len(positions.blocks()))
    if n_workers > 1:
        what += f" and {n_workers} workers"
        less.append("fewer workers (n_jobs)")
    needed = _result_bytes(null, task, positions, n_tested)
    needed += n_workers * positions.worker_bytes
    check_memory(needed, what, _either(less))
    if null == "stream":
        _check_disk(full, f"{size} and {n_permutations} permutations", positions.fewer)
    return null


def matrix_bytes(kernel, n, p):
    """Return the bytes of a matrix (n, n), 0 if n trials with p features need none."""
    small = kernel.low_rank or (kernel.is_linear and prefers_features(n, p))
    return 0 if small else 8 * n**2


def _smaller(null, fewer):
    """Return what makes a map and its null smaller."""
    ways = [fewer]
    if null in _TIMES_KEPT:
        ways.append("fewer permutations")
    if null == "full":
        ways.append("null='max' instead of 'full'")
    return ways


def _either(ways):
    """Join alternatives."""
    *most, last = ways
    return f"{', '.join(most)} or {last}" if most else last


def _result_bytes(null, task, positions, n_tested):
    """Return the bytes of what a run keeps of all cells, and of all positions."""
    n_sets = 1 if task.folds is None else len(task.folds.tests)
    cell = task.prediction_bytes * n_tested + 8 * task.n_scalar() * (1 + n_sets)
    cell += 8 * task.n_in_tables()
    position = 8 * n_tested * task.n_classes if task.keep_class_scores else 0
    full = _full_null_bytes(task, positions)
    rows = positions.pattern_rows(()) if task.with_patterns else None
    patterns = 0 if rows is None else 8 * (3 * task.n_classes - 1) * rows[1]
    return (
        patterns
        + _n_cells(positions) * cell
        + math.prod(positions.shape) * position
        + _TIMES_KEPT.get(null, 0) * full
    )


def _n_cells(positions):
    """Return the number of cells of a map."""
    return math.prod((*positions.shape, *positions.row))


def _full_null_bytes(task, positions):
    """Return the bytes of the permutations' maps in single precision."""
    n_permutations, n_nulls = len(task.labels) - 1, 1 + (task.second is not None)
    return 4 * n_nulls * task.n_scalar() * n_permutations * _n_cells(positions)


def _check_disk(needed, what, fewer):
    """Refuse permutations' maps that do not fit on the disk."""
    folder = tempfile.gettempdir()
    free = shutil.disk_usage(folder).free
    if needed > free:
        raise ValueError(
            f"null='stream' writes {word_bytes(needed)} for {what} into {folder}, "
            f"which has {word_bytes(free)} left. Use {fewer}, fewer permutations, "
            "another folder (the environment variable TMPDIR), or null='max'."
        )


def outlook(seconds, n_bytes, positions, task, n_workers):
    """Say what a long run takes, and what would make it shorter, in one sentence."""
    less = _either(_shorter(positions, task, n_workers))
    return (
        f"This run takes about {word_seconds(seconds)} and its result "
        f"{word_bytes(n_bytes)} of memory; it takes less with {less}."
    )


def _shorter(positions, task, n_workers):
    """Return what would make a run shorter."""
    ways = [positions.fewer]
    if len(task.labels) > 1:
        ways.append("fewer permutations")
        if task.dtype != np.float32:
            ways.append("dtype='float32'")
        slow = [name for name, m in task.metrics.items() if m.needs_class_scores]
        ways += [f"scoring without {quoted(slow)}"] if slow else []
    if n_workers < cpu_count():
        ways.append("n_jobs=-1")
    return ways
