"""Maps and permutations that fit into memory, or are refused before they start."""

import os
import shutil
import tempfile

from .._checks import check_option, word_bytes
from ..metrics import METRICS

#: With null="auto", permutations' maps up to this many bytes are kept in full.
FULL_NULL_BYTES = 2**30

#: What may be kept of the permutations.
NULLS = ("auto", "full", "max", "stream")


def check_null(null, analysis, n_cells, *, size, fewer, n_nulls=1):
    """Return what to keep of the permutations' maps; refuse what cannot be held.

    Parameters
    ----------
    null : "auto" | "full" | "max" | "stream"
        What the user wants to keep.
    analysis : Analysis
        What is computed in each cell of the map.
    n_cells, n_nulls : int
        The number of cells, and of nulls of each.
    size, fewer : str
        How to word the size of the map, and what makes it smaller.

    Returns
    -------
    null : "full" | "max" | "stream"
        What is kept.

    Raises
    ------
    ValueError
        If the map or its permutations do not fit into memory, or on disk.
    """
    check_option("null", null, NULLS)
    n_permutations = analysis.permutations.n_permutations
    scalar = sum(METRICS[name].scalar for name in analysis.task.scoring)
    full = 4 * n_nulls * scalar * n_permutations * n_cells
    if null == "auto":
        null = "full" if full <= FULL_NULL_BYTES else "max"
    less = fewer
    if null == "full":
        less += ", fewer permutations or null='max' instead of 'full'"
    check_memory(analysis, n_cells, full if null == "full" else 0, size, less)
    if null == "stream":
        folder = tempfile.gettempdir()
        free = shutil.disk_usage(folder).free
        if full > free:
            raise ValueError(
                f"null='stream' writes {word_bytes(full)} for {size} and "
                f"{n_permutations} permutations into {folder}, which has "
                f"{word_bytes(free)} left. Use {fewer}, fewer permutations, another "
                "folder (the environment variable TMPDIR), or null='max'."
            )
    return null


def check_memory(analysis, n_cells, null_bytes, size, less):
    """Refuse a map that does not fit into memory, before anything is computed.

    Parameters
    ----------
    analysis : Analysis
        What is computed in each of the `n_cells` cells.
    n_cells, null_bytes : int
        The number of cells, and the bytes of all that is kept of the null.
    size, less : str
        How to word the size of the map, and what makes it smaller.
    """
    task = analysis.task
    cell = len(analysis.tested) + 8 * len(task.scoring)
    if "confusion_matrix" in task.scoring:
        cell += 8 * task.n_classes**2
    needed, available = n_cells * cell + null_bytes, physical_memory()
    if available is not None and needed > available:
        raise ValueError(
            f"A map of {size} needs {word_bytes(needed)} with {len(task.labels) - 1} "
            f"permutations; this machine has {word_bytes(available)} of memory. Use "
            f"{less}."
        )


def physical_memory():
    """Return the machine's memory in bytes, None where it does not tell."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, OSError, ValueError):
        return None
