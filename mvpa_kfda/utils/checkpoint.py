"""A file in which a long run keeps its finished parts, so that it can be continued.

The file is an SQLite database with a write-ahead log beside it, ``<path>-wal``, which
a clean end removes. Every part is a transaction of its own, handed to the operating
system at once: a killed process loses the part it was writing and nothing else. The
disk is waited for only when the log is merged, every 32 MB: after a power failure the
file is whole, but the last parts may be missing. Checksums find other damage.

Nothing in the file is ever executed. A part is a line of names and arrays in the npy
format, read without pickles; a database with triggers or views is refused.
"""

import hashlib
import io
import json
import os
import sqlite3
from contextlib import AbstractContextManager, closing, contextmanager
from pathlib import Path

import numpy as np

from .checks import check_path
from .files import check_target, draft_of, move_into_place
from .parallel import WorkersLostError
from .plain import as_call
from .signals import ending_in_order

#: What marks a database as ours: a number in its header, at bytes 68 to 72.
_APPLICATION = int.from_bytes(b"mKFD", "big")
_VERSION = 1
_SIGNATURE = b"SQLite format 3\0"
_TABLE = "CREATE TABLE parts (number INTEGER PRIMARY KEY, content BLOB, checksum BLOB)"
#: The number under which the description of the run is kept.
_DESCRIPTION = -1
#: Large pages, since parts are large; the log is merged every 1000 pages.
_PAGE_SIZE = 32768


class Checkpoint(AbstractContextManager):
    """The finished parts of a run, in a file; a context manager that closes it.

    The file at `path` is made if it does not exist; ``~`` is the home folder, and links
    are followed. A file that is not a checkpoint, or of a newer version, or damaged is
    a ValueError, and left as it is; a RuntimeError, if another run has it open; an
    OSError, if the path is no place for a file or the disk fails.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> import numpy as np
    >>> from mvpa_kfda.utils.checkpoint import Checkpoint, digest
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder) / "run.checkpoint"
    ...     for _ in range(2):  # a run, and one that continues it
    ...         with Checkpoint(path) as checkpoint:
    ...             checkpoint.start({"radius": 8.0, "imgs": digest(np.ones(9))})
    ...             print(checkpoint.finished)
    ...             checkpoint.save(3, {"scores": np.array([0.5])})
    set()
    {3}
    """

    def __init__(self, path):
        # A link is followed: SQLite names its log after the file itself.
        self.path = Path(
            os.path.realpath(Path(check_path(path, "checkpoint")).expanduser())
        )
        _check_place(self.path)
        if not self.path.exists():
            _create(self.path)
        _check_header(self.path)
        self._started = False
        self._database = sqlite3.connect(self.path, timeout=0, isolation_level=None)
        self._database.text_factory = bytes  # damaged text is no text
        try:
            # Exclusive also means that the log needs no shared memory, which network
            # filesystems do not have. The lock ends with the process, however it ends.
            self._execute("PRAGMA locking_mode = EXCLUSIVE")
            self._execute("PRAGMA journal_mode = WAL")
            self._execute("PRAGMA synchronous = NORMAL")
            if self._execute("SELECT sql FROM sqlite_master") != [(_TABLE.encode(),)]:
                raise self._damaged("its tables are not those of a checkpoint")
        except BaseException:
            self.close()
            raise

    def __exit__(self, *_):
        self.close()

    def close(self):
        """Close the file; it is then a single one."""
        self._database.close()

    @property
    def description(self):
        """What an earlier run was started with (dict), or None if there was none."""
        content = self._read(_DESCRIPTION)
        if content is None and self._numbers():
            raise self._damaged("the description of its run")
        return content and json.loads(content)

    def start(self, description):
        """Record what the run is (dict), or refuse a file with parts of another run.

        The description holds whatever changes the parts: parameters by their names, and
        digests of data. The ValueError of another run names what differs.
        """
        content = json.dumps(description, default=np.generic.item).encode()
        known = self.description
        if known is None:
            self._write(_DESCRIPTION, content)
        elif differences := _differences(known, json.loads(content)):
            raise ValueError(
                f"{self.path} is the checkpoint of another run: "
                f"{'; '.join(differences)}. Use another path, or delete the file to "
                "start again."
            )
        self._started = True

    @property
    def finished(self):
        """The numbers of the parts that are there and undamaged: reads them all."""
        parts = self._numbers() - {_DESCRIPTION}
        return {number for number in parts if self._read(number) is not None}

    def load(self, number):
        """The arrays of a finished part, nested, with None, as they were saved.

        A part that is missing or damaged is a ValueError.
        """
        content = self._read(int(number))
        if content is None:
            raise self._damaged(f"part {number} is missing or not what was saved")
        return _unpack(content)

    def save(self, number, arrays):
        """Keep a part, or replace it; the end of the process cannot take it any more.

        A part is a dict of arrays, numbers or None, and of dicts of them.
        """
        if not self._started:
            raise ValueError("Call start(description) before saving parts.")
        self._write(int(number), _pack(arrays))

    def _numbers(self):
        """The numbers of all parts and of the description (set)."""
        return {number for (number,) in self._execute("SELECT number FROM parts")}

    def _read(self, number):
        """The bytes saved under a number, None if missing or damaged."""
        query = "SELECT content, checksum FROM parts WHERE number = ?"
        for content, checksum in self._execute(query, number):
            if isinstance(content, bytes) and _checksum(number, content) == checksum:
                return content
        return None

    def _write(self, number, content):
        """Save bytes under a number."""
        row = number, content, _checksum(number, content)
        self._execute("INSERT OR REPLACE INTO parts VALUES (?, ?, ?)", *row)

    def _execute(self, command, *values):
        """The rows of an SQL command; say what its errors mean for the file."""
        try:
            return self._database.execute(command, values).fetchall()
        except sqlite3.OperationalError as error:
            if "locked" in str(error):
                raise RuntimeError(
                    f"{self.path} is in use by another run. Wait until it ends, or use "
                    "another path."
                ) from error
            raise OSError(
                f"SQLite cannot work with {self.path}: {error}. Is the disk full, or "
                "the folder read-only? Parts that were saved before are kept."
            ) from error
        except sqlite3.DatabaseError as error:
            raise self._damaged(error) from error

    def _damaged(self, why):
        """The error of a file that cannot be trusted."""
        return ValueError(
            f"{self.path} is a damaged checkpoint ({why}). Use another path, or delete "
            "the file to start again."
        )


@contextmanager
def open_checkpoint(path):
    """Open the checkpoint of a run, or none (None), and close it however the run ends.

    Signals that end the process close it too. If workers are lost, the error says what
    is kept, and how to go on.

    Examples
    --------
    >>> from mvpa_kfda.utils.checkpoint import open_checkpoint
    >>> with open_checkpoint(None) as checkpoint:
    ...     print(checkpoint)
    None
    """
    if path is None:
        try:
            yield None
        except WorkersLostError as error:
            raise WorkersLostError(
                f"{error} Nothing of this run is kept; with "
                "checkpoint='run.checkpoint' finished blocks are, and the same call "
                "goes on from there."
            ) from error
        return
    with ending_in_order(), Checkpoint(path) as checkpoint:
        try:
            yield checkpoint
        except WorkersLostError as error:
            raise WorkersLostError(
                f"{error} {checkpoint.path} keeps the finished blocks of this run "
                f"({len(checkpoint.finished)}); the same call, also with another "
                "n_jobs, goes on from there."
            ) from error


def _check_place(path):
    """Refuse paths where no file can be, and what may not be read and written."""
    for side in ("", "-wal", "-journal"):
        check_target(path.with_name(path.name + side))
    for place in (path, path.parent):  # where the log is written
        if place.exists() and not os.access(place, os.R_OK | os.W_OK):
            raise PermissionError(
                f"{place} cannot be read and written; change its permissions, or use "
                "another path."
            )


def _create(path):
    """Make an empty checkpoint, whole or not at all, unless another process does."""
    # SQLite would put what is left of a deleted database into the new one.
    for side in ("-wal", "-journal"):
        path.with_name(path.name + side).unlink(missing_ok=True)
    draft = draft_of(path)
    try:
        with closing(sqlite3.connect(draft)) as database:
            database.execute(f"PRAGMA page_size = {_PAGE_SIZE}")
            database.execute(f"PRAGMA application_id = {_APPLICATION}")
            database.execute(f"PRAGMA user_version = {_VERSION}")
            database.execute(_TABLE)
        os.link(draft, path)
    except FileExistsError:
        pass  # another process was faster, and one of the two will get it
    except sqlite3.Error as error:
        raise OSError(f"SQLite cannot make {path}: {error}.") from error
    except OSError:  # a filesystem without links
        move_into_place(draft, path)
    finally:
        draft.unlink(missing_ok=True)


def _check_header(path):
    """Refuse files of other kinds before SQLite, which may change them, opens them."""
    with path.open("rb") as file:
        header = file.read(72)
    version, application = (int.from_bytes(header[i:][:4], "big") for i in (60, 68))
    if not header.startswith(_SIGNATURE) or application != _APPLICATION:
        raise ValueError(
            f"{path} is not a checkpoint; it is left as it is. Use another path, or "
            "move the file away."
        )
    if version > _VERSION:
        raise ValueError(
            f"{path} is the checkpoint of a newer version of mvpa_kfda; update it, or "
            "use another path."
        )


def _checksum(number, content):
    """A checksum of bytes and of the number they go by."""
    return hashlib.blake2b(content, digest_size=16, key=b"%d" % number).digest()


def _pack(arrays):
    """Turn a dict of arrays into bytes: a line of JSON, then arrays in npy format."""
    leaves, buffer = [], io.BytesIO()
    buffer.write(json.dumps(_outline(arrays, "arrays", leaves)).encode() + b"\n")
    for array in leaves:
        np.lib.format.write_array(buffer, array, allow_pickle=False)
    return buffer.getvalue()


def _outline(value, where, leaves):
    """The names, with True for every array, and add the arrays to `leaves`."""
    if isinstance(value, dict) and all(type(name) is str for name in value):
        return {k: _outline(v, f"{where}[{k!r}]", leaves) for k, v in value.items()}
    if value is None:
        return None
    allowed = isinstance(value, np.ndarray | np.generic | int | float)
    if not allowed or np.asarray(value).dtype.hasobject:
        raise TypeError(
            f"A checkpoint cannot keep {where}, of type {type(value).__name__}. "
            "Allowed: arrays of numbers, booleans or text, None, and dicts of these "
            "by names (str)."
        )
    leaves.append(np.asarray(value))
    return True


def _unpack(content):
    """Invert `_pack`."""
    buffer = io.BytesIO(content)

    def fill(outline):
        if isinstance(outline, dict):
            return {name: fill(value) for name, value in outline.items()}
        return outline and np.lib.format.read_array(buffer, allow_pickle=False)

    return fill(json.loads(buffer.readline()))


def _differences(known, given):
    """Say in words what differs between two descriptions."""
    words = []
    for name in {**known, **given}:
        pair = [[values[name]] if name in values else [] for values in (known, given)]
        # As text, so that NaN equals NaN, and 1 is neither 1.0 nor True.
        was, now = (json.dumps(value, sort_keys=True) for value in pair)
        if was != now and '"digest:' in was + now:
            words.append(f"the data of {name} differ")
        elif was != now:
            was, now = (
                f"{as_call(value[0]):.200}" if value else "unset" for value in pair
            )
            words.append(f"{name} was {was} and is {now}")
    return words


def digest(*values):
    """A name (str) for values, the same whenever they are.

    Values may be arrays, which go by type, shape and elements, not by their order in
    memory; strings, numbers and None; and lists and dicts of these. Others are a
    TypeError. The name is a hash of them as JSON, with a hash in place of an array.

    Examples
    --------
    >>> import numpy as np
    >>> from mvpa_kfda.utils.checkpoint import digest
    >>> x = np.arange(6.0).reshape(2, 3)
    >>> digest(x) == digest(np.asfortranarray(x))
    True
    >>> digest(x) == digest(x.T)
    False
    """
    text = json.dumps(values, default=_summary, sort_keys=True)
    return f"digest:{hashlib.blake2b(text.encode(), digest_size=20).hexdigest()}"


def _summary(value):
    """What stands in the JSON of `digest` for a value that JSON has not."""
    if isinstance(value, np.generic) and value.dtype.kind in "biufcSU":
        return value.item()
    if isinstance(value, complex | bytes):
        return {type(value).__name__: repr(value)}
    if not isinstance(value, np.ndarray | np.generic):
        raise TypeError(
            f"Cannot digest a value of type {type(value).__name__}. Allowed: arrays, "
            "strings, numbers, None, and lists and dicts of these."
        )
    if value.dtype.hasobject:
        return {"objects": value.shape, "items": value.ravel().tolist()}
    state = hashlib.blake2b()
    # In blocks, so that a large array in another order is not copied whole.
    flags = (["external_loop", "buffered", "zerosize_ok"], [["readonly", "contig"]])
    for block in np.nditer(value, *flags, order="C", buffersize=2**16):
        state.update(block.tobytes())
    return {str(value.dtype): value.shape, "hash": state.hexdigest()}
