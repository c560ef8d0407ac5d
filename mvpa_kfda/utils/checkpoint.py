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
import re
import reprlib
import sqlite3
import uuid
from contextlib import closing
from pathlib import Path

import numpy as np

#: What marks a database as ours: a number in its header, at bytes 68 to 72.
_APPLICATION = int.from_bytes(b"mKFD", "big")
_VERSION = 1
_SIGNATURE = b"SQLite format 3\0"
_TABLES = (
    "CREATE TABLE description (content BLOB, checksum BLOB)",
    "CREATE TABLE parts (number INTEGER PRIMARY KEY, content BLOB, checksum BLOB)",
)
#: Large pages, since parts are large; the log is merged every 1000 pages.
_PAGE_SIZE = 32768
_DIGEST = re.compile(r"digest:[0-9a-f]{40}")
_SHOWN = reprlib.Repr()
_SHOWN.maxstring, _SHOWN.maxlist, _SHOWN.maxdict = 200, 20, 20


class Checkpoint:
    """The finished parts of a run, in a file; a context manager that closes it.

    Parameters
    ----------
    path : str or path-like
        The file, made if it does not exist; ``~`` is the home folder.

    Attributes
    ----------
    path : Path
        The file, links followed.

    Raises
    ------
    ValueError
        If the file is not a checkpoint, or of a newer version, or damaged; it is left
        as it is.
    OSError
        If the path is no place for a file, may not be written, or the disk fails.
    RuntimeError
        If another run has the file open.

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
        self.path = Path(os.path.realpath(Path(path).expanduser()))
        _check_place(self.path)
        if not self.path.exists():
            _create(self.path)
        _check_header(self.path)
        self._checked, self._started = None, False
        self._database = sqlite3.connect(self.path, timeout=0, isolation_level=None)
        self._database.text_factory = bytes  # damaged text is no text
        try:
            self._open()
        except BaseException:
            self._database.close()
            raise

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        """Close the file; it is then a single one."""
        self._database.close()

    @property
    def description(self):
        """What an earlier run was started with (dict), or None if there was none."""
        rows = self._execute("SELECT content, checksum FROM description").fetchall()
        if not rows:
            return None
        content, checksum = rows[0]
        if len(rows) > 1 or not _is_sound("description", content, checksum):
            raise self._damaged("the description of its run")
        return json.loads(content)

    def start(self, description):
        """Record what the run is, or make sure that an earlier run was the same.

        Parameters
        ----------
        description : dict of str to plain value
            Whatever changes the parts: parameters by their names, and digests of data.

        Raises
        ------
        ValueError
            If the file holds the parts of another run. The message names what differs.
        """
        content = json.dumps(description, default=np.generic.item).encode()
        given, known = json.loads(content), self.description
        if known is None:
            row = (content, _checksum("description", content))
            self._execute("INSERT INTO description VALUES (?, ?)", row)
        elif differences := _differences(known, given):
            raise ValueError(
                f"{self.path} is the checkpoint of another run: "
                f"{'; '.join(differences)}. Give another path, or delete the file to "
                "start anew."
            )
        self._started = True

    @property
    def finished(self):
        """The numbers of the parts that are there and undamaged (set of int).

        The first look reads all parts, to see whether they are what was saved.
        """
        if self._checked is None:
            rows = self._execute("SELECT number, content, checksum FROM parts")
            try:
                self._checked = {row[0] for row in rows if _is_sound(*row)}
            except sqlite3.DatabaseError as error:
                raise self._damaged(error) from error
        return set(self._checked)

    def load(self, number):
        """Return the arrays of a finished part, as they were saved.

        Nested if they were, and None where None was saved. A part that is missing or
        damaged is a ValueError.
        """
        query = "SELECT number, content, checksum FROM parts WHERE number = ?"
        row = self._execute(query, (int(number),)).fetchone()
        if row is None or not _is_sound(*row):
            raise self._damaged(f"part {number} is missing or not what was saved")
        return _unpack(row[1])

    def save(self, number, arrays):
        """Keep a part; once this returns, the end of the process cannot take it.

        Parameters
        ----------
        number : int
            The part's number. A part of this number is replaced.
        arrays : dict of str to ndarray
            Its arrays, numbers or None, and dicts of them; a TypeError if others.
        """
        if not self._started:
            raise ValueError("Call start(description) before saving parts.")
        number, content = int(number), _pack(arrays)
        self._execute(
            "INSERT OR REPLACE INTO parts VALUES (?, ?, ?)",
            (number, content, _checksum(number, content)),
        )
        if self._checked is not None:
            self._checked.add(number)

    def _open(self):
        """Lock the file for this process and see whether its tables are ours."""
        # Exclusive also means that the log needs no shared memory, which network
        # filesystems do not have. The lock ends with the process, however it ends.
        self._execute("PRAGMA locking_mode = EXCLUSIVE")
        self._execute("PRAGMA journal_mode = WAL")
        self._execute("PRAGMA synchronous = NORMAL")
        schema = self._execute("SELECT sql FROM sqlite_master ORDER BY name").fetchall()
        if [sql for (sql,) in schema] != [table.encode() for table in _TABLES]:
            raise self._damaged("its tables are not those of a checkpoint")

    def _execute(self, command, values=()):
        """Execute a command of SQL; say what its errors mean for the file."""
        try:
            return self._database.execute(command, values)
        except sqlite3.OperationalError as error:
            if "locked" in str(error):
                raise RuntimeError(
                    f"{self.path} is in use by another run. Wait for its end, or give "
                    "another path."
                ) from error
            raise OSError(
                f"SQLite cannot work with {self.path}: {error}. Is the disk full, or "
                "the folder read-only? Parts that were saved before are kept."
            ) from error
        except sqlite3.DatabaseError as error:
            raise self._damaged(error) from error

    def _damaged(self, why):
        """Return the error of a file that cannot be trusted."""
        return ValueError(
            f"{self.path} is a damaged checkpoint ({why}). Give another path, or "
            "delete the file to start anew."
        )


def _check_place(path):
    """Refuse paths where no file can be."""
    if path.is_dir():
        raise IsADirectoryError(f"{path} is a folder; give the name of a file.")
    if not path.parent.is_dir():
        raise FileNotFoundError(
            f"The folder {path.parent} does not exist; make it first, or choose "
            "another one."
        )
    # The folder too: the log is written there.
    for place in (path, path.parent):
        if place.exists() and not os.access(place, os.R_OK | os.W_OK):
            raise PermissionError(
                f"{place} cannot be read and written; change its permissions, or give "
                "another path."
            )


def _create(path):
    """Make an empty checkpoint, whole or not at all, unless another process does."""
    for side in ("-wal", "-journal"):
        left_over = path.with_name(path.name + side)
        # SQLite would put what is left of a deleted database into the new one.
        if left_over.exists() and not path.exists():
            left_over.unlink()
    draft = path.with_name(f".{path.name}.{uuid.uuid4().hex[:8]}.tmp")
    try:
        with closing(sqlite3.connect(draft)) as database:
            database.execute(f"PRAGMA page_size = {_PAGE_SIZE}")
            database.execute(f"PRAGMA application_id = {_APPLICATION}")
            database.execute(f"PRAGMA user_version = {_VERSION}")
            for table in _TABLES:
                database.execute(table)
        os.link(draft, path)
    except FileExistsError:
        pass  # another process was faster, and one of the two will get it
    except sqlite3.Error as error:
        raise OSError(f"SQLite cannot make {path}: {error}.") from error
    except OSError:  # a filesystem without links
        os.replace(draft, path)
    finally:
        draft.unlink(missing_ok=True)


def _check_header(path):
    """Refuse files of other kinds before SQLite, which may change them, opens them."""
    with path.open("rb") as file:
        header = file.read(100)
    application = int.from_bytes(header[68:72], "big")
    if header[: len(_SIGNATURE)] != _SIGNATURE or application != _APPLICATION:
        raise ValueError(
            f"{path} is not a checkpoint; it is left as it is. Give another path, or "
            "move the file away."
        )
    if int.from_bytes(header[60:64], "big") > _VERSION:
        raise ValueError(
            f"{path} is the checkpoint of a newer version of mvpa_kfda; update it, or "
            "give another path."
        )


def _checksum(name, content):
    """Return a checksum of bytes and of the name they go by."""
    return hashlib.blake2b(content, digest_size=16, key=str(name).encode()).digest()


def _is_sound(name, content, checksum):
    """Tell whether something is what was saved under its name."""
    return isinstance(content, bytes) and _checksum(name, content) == checksum


def _pack(arrays):
    """Turn a dict of arrays into bytes: a line of JSON, then arrays in npy format."""
    buffer, found = io.BytesIO(), []
    buffer.write(json.dumps(_outline(arrays, "arrays", found)).encode() + b"\n")
    for array in found:
        np.lib.format.write_array(buffer, array, allow_pickle=False)
    return buffer.getvalue()


def _outline(value, where, found):
    """Return the names, with True for every array, and add the arrays to `found`."""
    if isinstance(value, dict) and all(type(name) is str for name in value):
        return {k: _outline(v, f"{where}[{k!r}]", found) for k, v in value.items()}
    if value is None:
        return None
    allowed = isinstance(value, np.ndarray | np.generic | int | float)
    if not allowed or np.asarray(value).dtype.hasobject:
        raise TypeError(
            f"A checkpoint cannot keep {where}, of type {type(value).__name__}. "
            "Allowed: arrays of numbers, booleans or text, None, and dicts of these "
            "by names (str)."
        )
    found.append(np.asarray(value))
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
    found = []
    for name in {**known, **given}:
        # As text, so that NaN equals NaN, and 1 is neither 1.0 nor True.
        texts = [
            json.dumps(values[name], sort_keys=True) if name in values else ""
            for values in (known, given)
        ]
        if _DIGEST.search(texts[0] + texts[1]) and texts[0] != texts[1]:
            found.append(f"the data of {name} differ")
        elif texts[0] != texts[1]:
            was, now = (_SHOWN.repr(json.loads(t)) if t else "unset" for t in texts)
            found.append(f"{name} was {was} and is {now}")
    return found


def digest(*values):
    """Return a name (str) for values, the same whenever they are.

    Values may be arrays, which go by type, shape and elements, not by their order in
    memory; strings, numbers and None; and lists and dicts of these. Others are a
    TypeError. The bytes are hashed with BLAKE2b (RFC 7693).

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
    state = hashlib.blake2b(digest_size=20)
    _feed(state, values)
    return f"digest:{state.hexdigest()}"


def _feed(state, value):
    """Add a value to a hash; the lengths keep neighbours apart."""
    if isinstance(value, np.generic) and value.dtype.kind in "biufcSU":
        value = value.item()
    if isinstance(value, np.ndarray | np.generic) and not value.dtype.hasobject:
        _feed(state, ["array", str(value.dtype), list(value.shape)])
        # In blocks, so that a large array in another order is not copied whole.
        flags = (["external_loop", "buffered", "zerosize_ok"], [["readonly", "contig"]])
        for block in np.nditer(value, *flags, order="C", buffersize=2**16):
            state.update(block.tobytes())
    elif isinstance(value, np.ndarray):
        _feed(state, ["objects", list(value.shape), value.ravel().tolist()])
    elif isinstance(value, list | tuple):
        state.update(f"list {len(value)}\n".encode())
        for item in value:
            _feed(state, item)
    elif isinstance(value, dict):
        _feed(state, ["dict", *sorted(value.items(), key=lambda kv: str(kv[0]))])
    elif value is None or isinstance(value, bool | int | float | complex | str | bytes):
        text = value if isinstance(value, bytes) else str(value).encode()
        state.update(f"{type(value).__name__} {len(text)}\n".encode() + text)
    else:
        raise TypeError(
            f"Cannot digest a value of type {type(value).__name__}. Allowed: arrays, "
            "strings, numbers, None, and lists and dicts of these."
        )
