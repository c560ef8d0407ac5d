"""How much memory there is: what does not fit is refused, or made row by row.

Sizes are worked out before anything of that size is made.
"""

import os
from contextlib import suppress
from pathlib import Path

import numpy as np

from .checks import warn, word_bytes

#: Where Linux tells the control groups of this process, and the limits of all groups.
_OWN_GROUPS, _GROUPS = Path("/proc/self/cgroup"), Path("/sys/fs/cgroup")


#: Stacks of maps are worked on in batches of about this many values. They stay in the
#: processor's cache, and the temporaries stay small however many maps there are.
_BATCH = 500_000

#: Permutations that are enough for most p-values.
_ENOUGH = 10_000


def batches(n_maps, n_values):
    """Slices of `n_maps` maps of `n_values`: as many as fit a batch, or one."""
    # What is computed per batch must not depend on the batch.
    step = max(1, _BATCH // max(1, n_values))
    for first in range(0, n_maps, step):
        yield slice(first, min(first + step, n_maps))


class LazyRows:
    """An array (n, *shape) of which slices of rows are computed when they are read.

    Parameters
    ----------
    n : int
        Number of rows.
    shape : tuple of int
        Shape of a row.
    dtype : dtype
        Type of the values.
    rows : callable
        Computes the rows of a slice, an array of m rows; of any shape with as many
        values. The start and the stop of the slice are between 0 and n.
    observed : ndarray or None
        Of rows under permutations, that of the observed labels.

    Examples
    --------
    >>> squares = LazyRows(4, (), int, lambda rows: np.arange(4)[rows] ** 2)
    >>> squares.shape, squares[1:]
    ((4,), array([1, 4, 9]))
    """

    def __init__(self, n, shape, dtype, rows, observed=None):
        self.shape, self.dtype = (n, *shape), np.dtype(dtype)
        self.ndim = len(self.shape)
        self._rows, self.observed = rows, observed

    def __len__(self):
        """Number of rows."""
        return self.shape[0]

    def __getitem__(self, rows):
        """The rows of a slice."""
        rows = self._rows(slice(*rows.indices(len(self))))
        return rows.reshape(len(rows), *self.shape[1:])


def check_memory(needed, what, use):
    """Refuse what needs more bytes than there are; say what it is and what to use."""
    available = usable_memory()
    if available is not None and needed > available:
        raise ValueError(
            f"{what} needs {word_bytes(needed)}; this machine or job has "
            f"{word_bytes(available)} of memory. Use {use}."
        )


def check_many(number, usual, each, things, advice):
    """Refuse things of so many bytes each that do not fit; warn of very many.

    Very many are more than a hundred times as many as are usual.
    """
    check_memory(number * each, f"To draw {things}", advice)
    if number > 100 * usual:
        warn(
            f"To draw {things} needs {word_bytes(number * each)}, and takes long with "
            f"all that is done with each of them: {number / usual:,.0f} times as long "
            f"as with {usual:,}. Consider {advice}."
        )


def check_permutations(number, each, what=""):
    """Refuse permutations of so many bytes each that do not fit; warn of very many."""
    check_many(
        number,
        _ENOUGH,
        each,
        f"{number:,} permutations{what}",
        f"fewer permutations; {_ENOUGH:,} allow p-values down to {1 / _ENOUGH:g}",
    )


def usable_memory():
    """The memory that this process may have in bytes, None if none is told.

    That of the machine, or what a container or a batch system such as SLURM allows.
    """
    sizes = [*_group_limits()]
    with suppress(AttributeError, OSError, ValueError):
        sizes.append(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    return min(sizes, default=None)


def _group_limits():
    """The memory limits of this process's control groups, on Linux."""
    lines = []
    with suppress(OSError):
        lines = _OWN_GROUPS.read_text(encoding="utf-8").splitlines()
    for line in lines:
        _, controllers, path = line.split(":", 2)
        if not controllers:  # version 2, one tree for everything
            root, name = _GROUPS, "memory.max"
        elif "memory" in controllers.split(","):
            root, name = _GROUPS / "memory", "memory.limit_in_bytes"
        else:
            continue
        group = root / path.lstrip("/")
        # A group is limited by those above it; a container sees itself as the root.
        for folder in (group, *group.parents):
            if folder.is_relative_to(root):
                with suppress(OSError, ValueError):  # no such file, or "max"
                    yield int((folder / name).read_text(encoding="utf-8"))
