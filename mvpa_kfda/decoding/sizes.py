"""What a run will take, worked out before it starts, and how it would take less."""

import math
import shutil
import tempfile
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
from joblib import cpu_count

from ..kfda.hat import prefers_features
from ..utils.checks import quoted, word_bytes
from ..utils.memory import check_memory
from ..utils.parallel import count_workers
from ..utils.progress import word_seconds

#: With null="auto", permutations' maps up to this many bytes are kept in full, and
#: larger ones are written to a temporary file, of which a summary is kept ("stream").
FULL_NULL_BYTES = 2**30
#: Bytes of draws that are kept, so that they are not drawn again in every block.
DRAWN_BYTES = 2**25
#: Bytes that the matrices of several draws may take, to be handled together.
MATRIX_BYTES = 2**24

#: What may be kept of the permutations.
KeptNull = Literal["auto", "full", "max"]
NULLS = get_args(KeptNull)

#: What is kept of a null in memory, in units of all its scores in single precision.
_TIMES_KEPT = {"all": 2, "full": 1}


@dataclass(frozen=True)
class NullBudget:
    """What the permutations' maps take, as far as is known before labels are drawn."""

    #: What is kept of them, and their shape.
    null: str
    shape: tuple
    #: What makes them smaller.
    fewer: str

    def check(self, n_scalar, n_permutations):
        """Refuse more permutations of so many metrics than can be kept."""
        full = 4 * n_scalar * n_permutations * math.prod(self.shape)
        check_memory(
            _TIMES_KEPT.get(self.null, 0) * full,
            f"A map of {' x '.join(map(str, self.shape))} positions with "
            f"{n_permutations} permutations",
            _either(_smaller(self.null, self.fewer)),
        )


def check_null(null, task, positions, n_tested, n_jobs=1):
    """What to keep of the permutations' maps; what cannot be held is refused.

    "auto" becomes "full" or "stream"; "all", in double precision, is for maps that are
    never reduced. `n_tested` trials are predicted in every cell.
    """
    n_permutations, size = len(task.labels) - 1, positions.describe()
    n_cells = math.prod((*positions.shape, *positions.row))
    n_nulls = (1 + (task.second is not None)) * len(task.scalar_metrics)
    full = 4 * n_nulls * n_permutations * n_cells  # in single precision
    if null == "auto":
        null = "full" if full <= FULL_NULL_BYTES else "stream"
    what = f"A map of {size} with {n_permutations} permutations"
    less = _smaller(null, positions.fewer)
    n_workers = min(count_workers(n_jobs, here=True), len(positions.blocks()))
    if n_workers > 1:
        what += f" and {n_workers} workers"
        less.append("fewer workers (n_jobs)")
    needed = _TIMES_KEPT.get(null, 0) * full + n_workers * positions.worker_bytes
    needed += n_cells * _cell_bytes(task, n_tested)
    if task.keep_class_scores:
        needed += math.prod(positions.shape) * 8 * n_tested * task.n_classes
    if task.with_patterns and (rows := positions.pattern_rows(())) is not None:
        needed += 8 * (3 * task.n_classes - 1) * rows[1]
    check_memory(needed, what, _either(less))
    if null == "stream":
        folder = tempfile.gettempdir()
        free = shutil.disk_usage(folder).free
        if full > free:
            raise ValueError(
                f"null='auto' writes {word_bytes(full)} for {size} and "
                f"{n_permutations} permutations into {folder}, which has "
                f"{word_bytes(free)} left. Use {positions.fewer}, fewer permutations, "
                "another folder (the environment variable TMPDIR), or null='max'."
            )
    return null


def matrix_bytes(kernel, n, p):
    """Bytes of a matrix (n, n), 0 if n trials with p features need none."""
    small = kernel.low_rank or (kernel.is_linear and prefers_features(n, p))
    return 0 if small else 8 * n**2


def _cell_bytes(task, n_tested):
    """Bytes of the predictions and scores of a cell."""
    n_sets = 1 if task.folds is None else len(task.folds.tests)
    scores = len(task.scalar_metrics) * (1 + n_sets)
    tables = task.metrics.keys() - task.scalar_metrics.keys()
    for name in tables:
        scores += math.prod(task.metrics[name].table(task.n_classes))
    return task.prediction_bytes * n_tested + 8 * scores


def _smaller(null, fewer):
    """What makes a map and its null smaller."""
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


def outlook(seconds, n_bytes, positions, task, n_workers):
    """Say what a long run takes, and what would make it shorter, in one sentence."""
    less = [positions.fewer]
    if len(task.labels) > 1:
        less.append("fewer permutations")
        if task.dtype != np.float32:
            less.append("dtype='float32'")
        slow = [name for name, m in task.metrics.items() if m.needs_class_scores]
        less += [f"scoring without {quoted(slow)}"] if slow else []
    if n_workers < cpu_count():
        less.append("n_jobs=-1")
    return (
        f"This run takes about {word_seconds(seconds)} and its result "
        f"{word_bytes(n_bytes)} of memory; it takes less with {_either(less)}."
    )
