"""Result files: a flat, fixed HDF5 layout.

A dict is a group, any other value a dataset of numbers or of text, under its own name.
The attribute `kind` says what Python makes of it. h5py, MATLAB and R read the values
without this package; doc/file_format.rst describes them all. ::

    /                     attributes mvpa_kfda_format (the version), class_name
        metrics           group, kind "dict"
            accuracy      dataset, kind "array", with its checksum `crc32`
        ...

The `crc32` of a group, and of the file, is that of the list of what belongs to it.

Nothing is of variable length: such data lie in a heap, where damage can hang the HDF5
library. Behind all that follows a seal, the checksum of the whole, which is looked at
before the HDF5 library opens the file: the older ones end Python on much damage.
"""

import errno
import json
import math
import os
import re
import stat
import struct
import time
import uuid
import zlib
from pathlib import Path

import h5py
import numpy as np

from .checks import check_path
from .plain import recorded

#: The attribute of the file that says it is a result file, and of which format.
VERSION_NAME = "mvpa_kfda_format"
#: The layout as a whole; 1 and 2 were trees of h5io around a text of JSON, in 3
#: groups had no checksums, in 4 kernels, penalties and splitters were text, in 5
#: nothing was said of the input, and in 6 not of which results a group was made.
FORMAT_VERSION = 7
#: Endings of files that hold brain images and never results.
_IMAGE_ENDINGS = (".nii", ".nii.gz", ".gii")
MAX_DEPTH = 32
#: Every group and dataset takes more than that, in bytes.
HEADER_SIZE = 64
#: Longest value of an attribute, in bytes; ours are short names and single numbers.
MAX_ATTRIBUTE = 64
#: A word, the size of what was saved, and its CRC-32; no HDF5 reader looks there.
SEAL = struct.Struct("<16sQI")
SEAL_WORD = b"mvpa_kfda sealed"
BLOCK = 2**20
#: The first bytes of HDF5 1.8 and newer: versions 2 and 3, with addresses of 8 bytes.
SUPERBLOCKS = (b"\x89HDF\r\n\x1a\n\x02\x08", b"\x89HDF\r\n\x1a\n\x03\x08")
PLAIN = {kind.__name__: kind for kind in (bool, int, float, str)}
TIME_TYPE = re.compile(r"[mM]8(\[\d*[a-zA-Z]{1,2}\])?")


#: Errors of disks without room, and what they mean.
_FULL = {
    errno.ENOSPC: "No space is left on the device",
    errno.EFBIG: "The file would be larger than files may be here",
    getattr(errno, "EDQUOT", None): "The quota of the disk is used up",
}
_FAILED = "The disk is full, or failed"
#: Seconds to wait before files that are open elsewhere are moved again; at last none.
_RETRIES = (0.05, 0.2, 0.5, 1, None)
#: So much of a name is in that of its draft, which may not be longer than names can be.
_KEPT = 50
#: Windows: access denied, and sharing violation.
_OPEN_ELSEWHERE = (5, 32)


class _RefusedError(ValueError):
    """A file that is not a result file; the text continues "<path> ..."."""


def refuse_image(path, advice=""):
    """Refuse endings of images, which other programs would fail to open."""
    path = os.fspath(check_path(path))
    if path.lower().endswith(_IMAGE_ENDINGS):
        raise ValueError(
            f"{path!r} has the ending of an image, but a result file is HDF5 (.h5); "
            f"{advice or 'use a path that ends in .h5'}."
        )


def write_result_file(path, class_name, fields, *, overwrite=False):
    """Write the fields of a result, by name, to an HDF5 file, whole or not at all.

    Fields are arrays, numbers, strings, booleans, None, or dicts, lists and tuples of
    these; anything else is a TypeError.
    """
    check_target(check_path(path))
    if os.path.exists(path) and not overwrite:
        raise FileExistsError(
            f"{path} exists already; pass overwrite=True to replace it, or choose "
            "another name."
        )

    def write(draft):
        _take_room(draft, _least_size(fields))
        # The format of HDF5 1.10 has checksums of the structure.
        with h5py.File(draft, "w", libver="v110") as file:
            file.attrs[VERSION_NAME] = FORMAT_VERSION
            file.attrs["class_name"] = np.bytes_(class_name)
            parts = [_write(file, name, value, name) for name, value in fields.items()]
            # HDF5 hands out the names of the root in alphabetical order.
            file.attrs["crc32"] = _check_list(class_name, sorted(parts))
        with draft.open("rb+") as file:
            seal = _seal(file, draft.stat().st_size)
            file.seek(0, os.SEEK_END)
            file.write(seal)
            file.flush()
            os.fsync(file.fileno())

    try:
        write_whole(path, write)
    except (OSError, RuntimeError) as error:
        if type(error) not in (OSError, RuntimeError):
            raise  # as of permissions, which say what is wrong
        number = getattr(error, "errno", None)
        why = _FULL.get(number, os.strerror(number)) if number else _FAILED
        words = f"{why}; nothing was saved, and what was there is as it was"
        raise OSError(number or errno.EIO, words, str(path)) from error


def _take_room(draft, size):
    """Make a file of some size where there is room; HDF5 may crash where there is none.

    Where systems cannot, it is an empty one.
    """
    with draft.open("xb") as file:
        if hasattr(os, "posix_fallocate"):
            try:
                os.posix_fallocate(file.fileno(), 0, max(size, 1))
            except OSError as error:
                if error.errno in _FULL:
                    raise


def _least_size(value):
    """How many bytes a value takes in a file, at least."""
    if isinstance(value, np.ndarray | np.generic):
        return value.nbytes // (4 if value.dtype.kind == "U" else 1)
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list | tuple):
        return sum(map(_least_size, value))
    return HEADER_SIZE


def check_target(path):
    """Refuse a path where no file can be written; nothing is opened.

    What is there, perhaps by links, must be a regular file: devices and pipes would be
    replaced, or wait for ever. A folder is an IsADirectoryError, the folder of a file
    that is missing a FileNotFoundError, everything else an OSError.

    Examples
    --------
    >>> from mvpa_kfda.utils.files import check_target
    >>> check_target(".")
    Traceback (most recent call last):
    ...
    IsADirectoryError: . is a folder; use the name of a file.
    """
    folder = Path(os.path.realpath(path)).parent
    if not folder.is_dir():
        raise FileNotFoundError(
            f"The folder {folder} does not exist; make it first, or save somewhere "
            "else."
        )
    try:
        mode = os.stat(path).st_mode
    except FileNotFoundError:
        return
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(f"{path} is a folder; use the name of a file.")
    if not stat.S_ISREG(mode):
        kinds = {stat.S_IFIFO: "a pipe", stat.S_IFSOCK: "a socket"}
        kind = kinds.get(stat.S_IFMT(mode), "a device")
        raise OSError(f"{path} is {kind}, not a file; use the name of a file.")


def write_whole(path, write, follow=True):
    """Let a function write a file under another name, and move it to its place.

    So there is never half a file, and what is not a file is left alone. If links are to
    be followed, a link survives, and its file is replaced.
    """
    check_target(path)
    target = Path(os.path.realpath(path) if follow else path)
    draft = draft_of(target)
    try:
        write(draft)
        move_into_place(draft, target)
    finally:
        draft.unlink(missing_ok=True)


def move_into_place(draft, target):
    """Move a finished file to its place, in one step, in place of what is there."""
    # Windows does not replace a file that is open, and scanners open new ones briefly.
    for seconds in _RETRIES:
        try:
            os.replace(draft, target)
            return
        except PermissionError as error:
            if getattr(error, "winerror", None) not in _OPEN_ELSEWHERE:
                raise
            if seconds is None:
                raise PermissionError(
                    f"{target} cannot be replaced, because another program has it "
                    "open. Close it there, or choose another name."
                ) from error
        time.sleep(seconds)


def draft_of(path):
    """Where to write a file before it is moved to its place."""
    # Not tempfile: its files are readable by their owner only, and stay so when moved.
    # With the ending of the file, by which many functions choose a format.
    return path.with_name(f".{uuid.uuid4().hex[:8]}_{path.name[-_KEPT:]}")


def write_text(path, text, follow=True):
    """Write text as it is on all systems: UTF-8, with one sign at the end of a line."""

    def write(draft):
        draft.write_text(text, encoding="utf-8", newline="\n")

    write_whole(path, write, follow)


def write_json(path, content, follow=True):
    """Write a JSON file of plain values, and of what `recorded` makes plain."""
    text = json.dumps(recorded(content), indent=2, ensure_ascii=False)
    write_text(path, f"{text}\n", follow)


def read_result_file(path):
    """The class name and the fields of a file, without executing any of it.

    A ValueError if the file is no result file of this format, or is damaged.
    """
    path = Path(check_path(path))
    if not path.exists():
        raise FileNotFoundError(f"There is no file {path}.")
    try:
        if os.access(path, os.R_OK) and not (path.is_file() and h5py.is_hdf5(path)):
            raise _RefusedError(
                "is not an HDF5 file (it is empty, a folder, or of another kind); "
                "load_result reads files that .save() of a result wrote."
            )
        _check_seal(path)
        with h5py.File(path, "r") as file:
            class_name = _check_root(file)
            return class_name, _Reader(path.stat().st_size).children(file, class_name)
    except _RefusedError as error:
        raise ValueError(f"{path} {error}") from None
    except (PermissionError, MemoryError):
        raise
    # What a broken file makes of h5py, NumPy and UTF-8: all of it means "damaged".
    except Exception as error:
        raise ValueError(
            f"{path} is damaged or cut short; save it again, or take it from a backup "
            f"({error})."
        ) from error


def same_content(value, other):
    """Whether two values would be written alike; NaN equals NaN."""
    (kind, content), (other_kind, others) = _encode(value), _encode(other)
    if kind != other_kind or type(content) is not type(others):
        return False
    if isinstance(content, dict):
        # The order counts: the first metric is the one that a result shows.
        return list(content) == list(others) and all(
            same_content(item, others[key]) for key, item in content.items()
        )
    # Unpickled arrays may have another byte order.
    types = {array.dtype.newbyteorder("=") for array in (content, others)}
    equal_nan = content.dtype.kind == "f"
    return len(types) == 1 and np.array_equal(content, others, equal_nan=equal_nan)


# ----------------------------------------------------------------------------- writing


def _write(group, name, value, where, depth=1):
    """Write a value under its name: a group with its parts, or a dataset.

    Returns what stands in the list of the group: name, kind and checksum.
    """
    try:
        kind, content = _encode(value)
        if depth > MAX_DEPTH:
            raise TypeError(f"nested more than {MAX_DEPTH} deep")
    except TypeError as error:
        raise TypeError(f"Cannot save {where}: {error}.") from None
    if isinstance(content, dict):
        node = group.create_group(name, track_order=True)
        parts = [
            _write(node, key, item, f"{where}.{key}", depth + 1)
            for key, item in content.items()
        ]
        check = _check_list(kind, parts)
    else:
        node = group.create_dataset(name, data=content)
        check = np.uint32(zlib.crc32(np.ascontiguousarray(content)))
    node.attrs["crc32"] = check
    node.attrs["kind"] = np.bytes_(kind)
    return name, kind, check


def _check_list(kind, parts):
    """The checksum of what belongs to a group, by names, kinds and checksums."""
    words = [kind, *(str(word) for part in parts for word in part)]
    return np.uint32(zlib.crc32("\0".join(words).encode("utf-8", "surrogatepass")))


def _seal(file, size):
    """What seals the first bytes of an open file, up to a size."""
    file.seek(0)
    check = 0
    for done in range(0, size, BLOCK):
        check = zlib.crc32(file.read(min(BLOCK, size - done)), check)
    return SEAL.pack(SEAL_WORD, size, check)


def _encode(value):
    """The kind of a value, and its array or a dict of its parts."""
    # NumPy first: np.float64 and np.str_ are also Python floats and strings.
    if isinstance(value, np.generic):
        return _encode_array("scalar", np.asarray(value))
    if type(value) is np.ndarray:
        return _encode_array("array", value)
    kind = type(value).__name__
    if value is None:
        return "none", np.empty(0)
    if type(value) in PLAIN.values():
        packed = _pack([value])
        if packed is None and type(value) is int:  # more than 64 bits are written out
            packed = _pack([str(value)])
        if packed is not None:
            return kind, packed.reshape(())
    if type(value) is tuple and _are_rows(value):
        # Leave-one-out has thousands of test sets: two arrays instead of thousands.
        sizes = np.array([len(rows) for rows in value])
        return "rows", {"rows": np.concatenate(value), "sizes": sizes}
    if type(value) in (list, tuple):
        packed = _pack(value)
        if packed is None:
            packed = {str(i): item for i, item in enumerate(value)}
        return kind, packed
    if type(value) is dict:
        if all(map(_is_name, value)):
            return "dict", value
        return "items", {"keys": list(value), "values": list(value.values())}
    raise TypeError(
        f"{value!r} of type {kind}. Allowed: numbers, texts that do not end in NUL, "
        "booleans, None, arrays of these, and dicts, lists and tuples of them"
    )


def _encode_array(kind, array):
    """The kind of an array or NumPy scalar, and what of it HDF5 can hold."""
    if array.dtype.kind in "biuf":
        return kind, array
    if array.dtype.kind == "U":
        return kind, _utf8(array)
    if array.dtype.kind in "mM":  # e.g. session dates
        native = array.astype(array.dtype.newbyteorder("="))
        counts = native.view(np.int64)
        counts = counts[()] if kind == "scalar" else counts
        return "time", {"counts": counts, "unit": native.dtype.str[1:]}
    if array.dtype.kind == "O":
        _, content = _encode(array.ravel().tolist())
        if not isinstance(content, dict):
            return "objects", content.reshape(array.shape)
        if array.ndim == 1:
            return "objects", content
    raise TypeError(
        f"an array of dtype {array.dtype}. Allowed: plain arrays of numbers, booleans, "
        "texts or dates, and of Python objects of one type or along one axis"
    )


def _pack(items):
    """One array of values that are all of one plain type, or None."""
    kinds = set(map(type, items))
    if len(kinds) > 1 or not kinds <= set(PLAIN.values()):
        return None
    array = np.array(items)
    if kinds == {str}:  # NumPy loses NUL at the end
        return _utf8(array) if array.tolist() == list(items) else None
    return None if kinds == {int} and array.dtype.kind not in "iu" else array


def _utf8(array):
    """Texts as UTF-8 of the fixed length that the longest of them has."""
    # surrogatepass: names of files may hold halves of characters.
    encoded = [text.encode("utf-8", "surrogatepass") for text in array.flat]
    dtype = h5py.string_dtype("utf-8", max([1, *map(len, encoded)]))
    return np.array(encoded, dtype).reshape(array.shape)


def _is_name(key):
    """Whether HDF5 takes a key of a dict for a name."""
    return type(key) is str and not re.search(r"^\.?$|[/\0\ud800-\udfff]", key)


def _are_rows(values):
    """Tell a tuple of index arrays, all of one type, from other tuples."""
    return (
        len(values) > 0
        and all(type(v) is np.ndarray and v.ndim == 1 for v in values)
        and len({v.dtype for v in values}) == 1
        and values[0].dtype.kind in "iu"
    )


# ----------------------------------------------------------------------------- reading


def _check_seal(path):
    """Refuse a file that is not what was saved, before HDF5 sees any of it."""
    size = path.stat().st_size
    with path.open("rb") as file:
        start = file.read(36)
        file.seek(max(0, size - SEAL.size))
        last = file.read()
        if last.startswith(SEAL_WORD):
            whole = last == _seal(file, size - SEAL.size)
        # HDF5 cuts the seal off when it opens a file to change it, and older files had
        # none: then nothing follows. Where something does, it was a seal.
        else:
            whole = size == _end_of_hdf5(start, size)
    if not whole:
        raise ValueError("its bytes are not those that were saved")


def _end_of_hdf5(start, size):
    """Where HDF5 ends, as a file begins; `size` if an older one did not say."""
    said = start.startswith(SUPERBLOCKS)
    return int.from_bytes(start[28:36], "little") if said else size


def _check_root(file):
    """Refuse files of others and of other versions; return the name of the class."""
    version = "1 or 2" if "mvpa_kfda" in file else None
    if VERSION_NAME in file.attrs:
        version = _attribute(file, VERSION_NAME, "i")
        if version == FORMAT_VERSION:
            return _attribute(file, "class_name", "S")
        if version > FORMAT_VERSION:
            raise _RefusedError(
                f"was saved by a newer version of mvpa_kfda (file format {version}; "
                f"this one reads {FORMAT_VERSION}); update mvpa_kfda to read it."
            )
    if version is None:
        names = ", ".join(map(repr, list(file)[:5])) or "nothing"
        raise _RefusedError(f"holds no result of mvpa_kfda; it holds {names}.")
    raise _RefusedError(
        f"is a result file of an older format ({version}; this version reads "
        f"{FORMAT_VERSION}), which is no longer read; run the analysis again, or load "
        "it with the version of mvpa_kfda that saved it."
    )


def _attribute(node, name, kind):
    """An attribute of one short value; never look into a heap for it."""
    stored = node.attrs.get_id(name)
    dtype = stored.dtype
    short = stored.shape == () and dtype.itemsize <= MAX_ATTRIBUTE
    if not short or dtype.kind != kind:
        raise ValueError(f"the attribute {name} of {node.name} is of another type")
    value = np.empty((), dtype)
    stored.read(value)  # `node.attrs[name]` would look at all that once more
    return value[()].decode() if kind == "S" else value[()]


class _Reader:
    """Reads the values in a file of some size, refusing what `_write` never writes."""

    def __init__(self, size):
        self._left = size

    def children(self, group, kind, depth=1):
        """Map the names in a group to their values, which must be all there were."""
        values, parts = {}, []
        for name in group:
            values[name], *words = self._value(group, name, depth)
            parts.append((name, *words))
        if _attribute(group, "crc32", "u") != _check_list(kind, parts):
            raise ValueError(f"{group.name} does not hold what was saved there")
        return values

    def _value(self, group, name, depth):
        """The value that a name in a group stands for, its kind and checksum."""
        self._spend(name, HEADER_SIZE)
        # A link to elsewhere is not even followed, and nothing has two names.
        own = isinstance(group.get(name, getlink=True), h5py.HardLink)
        node = group[name] if own else None
        if own and h5py.h5o.get_info(node.id).rc != 1:
            node = None
        is_group = isinstance(node, h5py.Group) and depth < MAX_DEPTH
        if not (is_group or _is_plain(node)):
            raise _RefusedError(
                f"has at {group.name}: {name} what no result file has, a link, deeply "
                "nested groups, or other data than plain numbers and text of its own. "
                "It is refused."
            )
        kind = _attribute(node, "kind", "S")
        if is_group:
            value = _join(kind, self.children(node, kind, depth + 1))
            return value, kind, _attribute(node, "crc32", "u")
        # Checked before memory is taken for it.
        n_bytes = math.prod(node.shape) * node.dtype.itemsize
        self._spend(name, n_bytes)
        if node.id.get_storage_size() < n_bytes:
            raise ValueError(f"the data of {name} are not there")
        array = node[...]
        check = _attribute(node, "crc32", "u")
        if check != zlib.crc32(np.ascontiguousarray(array)):
            raise ValueError(f"the checksum of {name} is wrong")
        return _restore(kind, array), kind, check

    def _spend(self, name, n_bytes):
        """Count what is read; circles of links, and lies, exceed what the file has."""
        self._left -= n_bytes
        if self._left < 0:
            raise _RefusedError(f"claims more data at {name!r} than the file holds.")


def _is_plain(node):
    """Tell datasets of numbers or text that lie in one piece in their own file."""
    if not isinstance(node, h5py.Dataset) or node.shape is None:
        return False
    plan = node.id.get_create_plist()
    # Neither virtual nor chunked, so without filters, which may load a plugin.
    in_one_piece = plan.get_layout() == h5py.h5d.CONTIGUOUS
    plain = node.dtype.kind in "biufS"
    return plain and in_one_piece and plan.get_external_count() == 0


def _restore(kind, array):
    """The value of a dataset; inverts what `_encode` makes an array of."""
    if array.dtype.kind == "S":
        texts = [text.decode("utf-8", "surrogatepass") for text in array.flat]
        array = np.array(texts, dtype=str).reshape(array.shape)
    elif array.dtype == bool:  # a byte that is neither 0 nor 1 would mislead NumPy
        array = array.view(np.uint8).astype(bool)
    restored = {
        "none": lambda: None,
        "array": lambda: array,
        "scalar": lambda: array[()],
        "objects": lambda: array.astype(object),
        "list": array.tolist,
        "tuple": lambda: tuple(array.tolist()),
        **{name: lambda: PLAIN[kind](array.item()) for name in PLAIN},
    }
    return restored[kind]()


def _join(kind, parts):
    """The value of a group; inverts what `_encode` makes a dict of."""
    if kind == "dict":
        return parts
    if kind == "items":
        return dict(zip(parts["keys"], parts["values"], strict=True))
    if kind == "rows":
        return tuple(np.split(parts["rows"], np.cumsum(parts["sizes"])[:-1]))
    if kind == "time":
        # Only ever a type of time: memory must not be read as anything else.
        if not TIME_TYPE.fullmatch(parts["unit"]):
            raise ValueError(f"{parts['unit']!r} is no type of time")
        return parts["counts"].view(parts["unit"])
    items = [parts[str(i)] for i in range(len(parts))]
    if kind == "objects":
        return np.fromiter(items, dtype=object)
    return {"list": list, "tuple": tuple}[kind](items)
