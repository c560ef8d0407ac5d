"""What a result says of its input: checksums by which anybody can tell it again.

Every trial has a SHA-256. That of a table is the SHA-256 of its trials' in their order;
another one, of the same in sorted order, tells trials in another order from other
trials. Nothing of the data can be worked out from either::

    rows = [hashlib.sha256(numpy.ascontiguousarray(trial)).digest() for trial in data]
    hashlib.sha256(b"".join(rows)).hexdigest()

A trial of numbers is its values in C order, little-endian; a label, its text in UTF-8.

Checksums do not tell by how much data differ. One number for each trial does: the sum
of its values, half of which have their sign reversed (`projections`).
"""

import math
import os
from contextlib import contextmanager
from contextvars import ContextVar
from hashlib import sha256
from pathlib import Path

import numpy as np

#: What was read since `collected_inputs` began; None outside of it.
_INPUTS = ContextVar("inputs", default=None)
#: The same with the values themselves, since `kept_inputs` began.
_KEPT = ContextVar("kept", default=None)
#: Bytes of a file that are read at once.
_AT_ONCE = 2**20
#: Files that are listed one by one.
_LISTED = 20
#: The key under which results keep projections, by the names of inputs.
PROJECTIONS = "projections"


def fingerprint(values, dtype=None):
    """What is recorded of an array (n, ...), perhaps as of a type, or of labels.

    Four texts, which take little room in a file: the type, "text" for labels; the
    shape, "300 x 64 x 100"; the checksums of the trials in their order, and in sorted
    order.

    Examples
    --------
    >>> import numpy as np
    >>> from mvpa_kfda.utils.fingerprints import fingerprint
    >>> one, other = (fingerprint(np.array(x)) for x in ([1.0, 2.0], [2.0, 1.0]))
    >>> one[2] == other[2], one[3] == other[3]
    (False, True)
    """
    try:
        values = np.asarray(values)
    except ValueError:  # lists of unequal lengths, which are refused where needed
        values = np.asarray(values, dtype=object)
    shape = " x ".join(map(str, values.shape))
    if values.dtype.kind in "biuf" and values.ndim > 1:
        of_rows = np.dtype(dtype or values.dtype).newbyteorder("<")
        # Row by row, so that there is no second array of this size.
        rows = (np.ascontiguousarray(row, of_rows) for row in values)
        dtype = of_rows.name
    else:  # 1 and True are no other labels than "1" and "True"
        # A single value is no list, which is said where trials are counted.
        # Names of files may hold halves of characters.
        texts, how = map(str, np.atleast_1d(values).tolist()), "surrogatepass"
        dtype, rows = "text", (each.encode("utf-8", how) for each in texts)
    rows = [sha256(row).digest() for row in rows]
    joined = (sha256(b"".join(each)).hexdigest() for each in (rows, sorted(rows)))
    return [dtype, shape, *joined]


def projections(values):
    """The sum of each trial's values, some with their sign reversed, (n,).

    The signs are random and always the same, so that the squared difference of two
    sums is, on average, the sum of squared differences of the values. None for what
    is not an array (n, ...) of numbers.

    Examples
    --------
    >>> import numpy as np
    >>> from mvpa_kfda.utils.fingerprints import projections
    >>> X = np.random.default_rng(0).normal(size=(100, 50))
    >>> differences = projections(X + 1e-6 * X[::-1]) - projections(X)
    >>> bool(5e-7 < np.sqrt(np.mean(differences**2) / 50) < 2e-6)
    True
    """
    if not isinstance(values, np.ndarray):
        return None
    if values.ndim < 2 or values.dtype.kind not in "biuf":
        return None
    size = max(1, math.prod(values.shape[1:]))
    words = np.random.PCG64(0).random_raw(-(-size // 64)).astype("<u8")
    signs = 2.0 * np.unpackbits(words.view(np.uint8))[:size] - 1
    found, step = np.empty(len(values)), max(1, _AT_ONCE // (8 * size))
    with np.errstate(all="ignore"):  # what is not finite is refused elsewhere
        for start in range(0, len(values), step):
            rows = np.ascontiguousarray(values[start : start + step], dtype=float)
            found[start : start + step] = rows.reshape(-1, size) @ signs
    return found


def checksum_of(arrays, texts):
    """A SHA-256 of arrays and lists of texts by name, in order of the names.

    That of lines in UTF-8, each with a name and, of an array, its `fingerprint` as one
    of rows: what has fewer than two axes is one row.
    """
    words = [(n, fingerprint(np.atleast_2d(x))[:3]) for n, x in sorted(arrays.items())]
    words += sorted(texts.items())
    lines = [f"{name} {' '.join(several)}" for name, several in words]
    return sha256("\n".join(lines).encode()).hexdigest()


def file_checksum(path):
    """The SHA-256 of the content of a file."""
    found = sha256()
    with Path(path).open("rb") as file:
        while content := file.read(_AT_ONCE):
            found.update(content)
    return found.hexdigest()


def collected_inputs():
    """Collect the records of all that is read in what follows, by name."""
    return _collected(_INPUTS)


def kept_inputs():
    """Collect all that is read in what follows by name: the values and their record."""
    return _collected(_KEPT)


@contextmanager
def _collected(variable):
    """A dict that the calls in what follows find in a variable."""
    found = {}
    before = variable.set(found)
    try:
        yield found
    finally:
        variable.reset(before)


def note_input(name, values, dtype=None):
    """Let the result of the call in progress keep the fingerprint of an input.

    Values are (n_trials, ...), as they were read and before anything is done with them;
    with `dtype` as that type has them.
    """
    inputs = _INPUTS.get()
    if inputs is None or values is None:
        return
    inputs[name] = fingerprint(values, dtype)
    if (kept := _KEPT.get()) is not None:
        kept[name] = np.array(values), inputs[name]
    summed = projections(values)
    if summed is not None:
        inputs.setdefault(PROJECTIONS, {})[name] = summed


def files_of(arguments):
    """List "name, 123 bytes" of every file among arguments, as they were given."""
    paths = [path for value in arguments for path in _paths(value)]
    found = [f"{path.name}, {path.stat().st_size} bytes" for path in paths]
    if len(found) > _LISTED:
        more = f"and {len(found) - _LISTED} more files"
        return [*found[:_LISTED], more]
    return found


def _paths(value):
    """Yield the paths of files that an argument is, holds, or was read from."""
    if isinstance(value, list | tuple):
        for each in value[: 2 * _LISTED]:
            yield from _paths(each)
        return
    read_from = getattr(value, "get_filename", None) or getattr(value, "filename", None)
    value = read_from() if callable(read_from) else read_from or value
    if isinstance(value, str | os.PathLike):
        try:
            if Path(value).is_file():
                yield Path(value)
        except (OSError, ValueError):  # a text that no file can be called
            return
