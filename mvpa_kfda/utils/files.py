"""Result files: a flat, fixed HDF5 layout, and the versions recorded in it.

h5io restores any Python object: on reading it imports the modules that a file names,
calls ``__setstate__`` of their classes, evaluates the text of a ``timezone`` entry and
unpickles pandas tables. So none of these types is ever written here, and
a file is walked before h5io sees it: anything but the layout below is refused. ::

    /mvpa_kfda                          dict
        key_format_version              int
        key_class_name                  unicode
        key_header                      unicode: all plain values, as JSON
        key_arrays                      dict
            key_<name>                  ndarray: numbers or booleans

JSON keeps what h5io loses: the order of dict keys, booleans, empty strings. The type of
an entry is its TITLE attribute, as h5io has it, but of fixed length.
"""

import json
import os
import platform
import re
import uuid
from functools import cache
from importlib.metadata import version
from pathlib import Path

import h5io
import h5py
import numpy as np

TITLE = "mvpa_kfda"
#: The layout as a whole; 2 has the arrays of penalties and of averaging.
FORMAT_VERSION = 2
SIGNATURE = b"\x89HDF\r\n\x1a\n"
TIME_TYPE = re.compile(r"[mM]8(\[\d*[a-zA-Z]{1,2}\])?")
HEADER_KEYS = ("format_version", "class_name", "header", "arrays")


class _RefusedError(ValueError):
    """A file that is not a result file; the text continues "<path> ..."."""


def write_result_file(path, class_name, fields, *, overwrite=False):
    """Write the fields of a result to an HDF5 file.

    The file is written beside its target under a temporary name and moved into place
    at the end, so a crash leaves neither half a file nor a destroyed old one.

    Parameters
    ----------
    path : str or path-like
        The file to write; ``.h5`` is the usual ending.
    class_name : str
        Name of the result's class.
    fields : dict
        Field name -> array, number, string, boolean, None, or a dict, list or tuple
        of these.
    overwrite : bool
        Replace an existing file.

    Raises
    ------
    FileExistsError
        If the file exists and `overwrite` is false.
    FileNotFoundError
        If the folder of the file does not exist.
    TypeError
        If a field holds anything else; nothing is written then.
    """
    # A link is followed, so that the link itself survives the move at the end.
    target = Path(os.path.realpath(path))
    if target.is_dir():
        raise IsADirectoryError(f"{path} is a folder; give the name of a file.")
    if target.exists() and not overwrite:
        raise FileExistsError(
            f"{path} exists already; pass overwrite=True to replace it, or choose "
            "another name."
        )
    if not target.parent.is_dir():
        raise FileNotFoundError(
            f"The folder {target.parent} does not exist; make it first, or save "
            "somewhere else."
        )
    header, arrays = _flatten(fields)
    content = {
        "format_version": FORMAT_VERSION,
        "class_name": class_name,
        "header": header,
        "arrays": arrays,
    }
    # Not tempfile: its files are readable by their owner only, and stay so when moved.
    draft = target.with_name(f".{target.name}.{uuid.uuid4().hex[:8]}.tmp")
    try:
        # The format of HDF5 1.10 has checksums, which find most damage on reading.
        with h5py.File(draft, "x", libver="v110") as file:
            # Uncompressed, so that a reader can check sizes before it allocates.
            h5io.write_hdf5(file, content, title=TITLE, compression=0)
            file.visititems(_fix_title_length)
        with draft.open("rb+") as file:
            os.fsync(file.fileno())
        os.replace(draft, target)
    finally:
        draft.unlink(missing_ok=True)


def read_result_file(path):
    """Read a file of `write_result_file`, without ever executing what it holds.

    Parameters
    ----------
    path : str or path-like
        The file to read.

    Returns
    -------
    class_name : str
        Name of the result's class.
    fields : dict
        The fields as they were written.

    Raises
    ------
    FileNotFoundError
        If there is no such file.
    ValueError
        If the file is not a result file, is damaged or cut short, comes from a newer
        version, or holds anything that a result file never holds.
    """
    path = Path(path)
    if not path.exists():
        raise FileNotFoundError(f"There is no file {path}.")
    try:
        _check_signature(path)
        with h5py.File(path, "r") as file:
            _check_layout(file)
            content = h5io.read_hdf5(file, title=TITLE)
        header = json.loads(content["header"])
        return content["class_name"], _decode(header, content["arrays"])
    except _RefusedError as error:
        raise ValueError(f"{path} {error}") from None
    except PermissionError:
        raise
    # What a broken file makes of h5py, JSON and UTF-8: all of it means "damaged".
    except (OSError, LookupError, RuntimeError, TypeError, ValueError) as error:
        raise ValueError(
            f"{path} is an HDF5 file but damaged or cut short; save it again or take "
            f"it from a backup ({error})."
        ) from error


def same_content(fields, others):
    """Tell whether two results would be written alike; NaN equals NaN."""
    (header, arrays), (other_header, other_arrays) = _flatten(fields), _flatten(others)
    # Equal headers name the same arrays. Unpickled ones may have another byte order.
    return header == other_header and all(
        array.dtype.newbyteorder("=") == other_arrays[name].dtype.newbyteorder("=")
        and np.array_equal(array, other_arrays[name], equal_nan=True)
        for name, array in arrays.items()
    )


def _flatten(fields):
    """Return the fields as JSON text, and the arrays that it refers to."""
    arrays = {}
    return json.dumps(_encode(fields, "", arrays)), arrays


def _fix_title_length(_, node):
    """Move a type's name out of the heap, where damage can hang the HDF5 library."""
    node.attrs["TITLE"] = np.bytes_(node.attrs["TITLE"])


def _check_signature(path):
    """Tell folders, empty files and files of other kinds apart."""
    if not path.is_file():
        raise _RefusedError("is not a file; give the name of a saved result.")
    with path.open("rb") as file:
        start = file.read(len(SIGNATURE))
    if not start:
        raise _RefusedError(
            "is empty, 0 bytes; it was never written or its copy failed."
        )
    if start != SIGNATURE:
        raise _RefusedError(
            "is not an HDF5 file; load_result reads files written by .save() of a "
            "result."
        )


def _check_layout(file):
    """Refuse everything that differs from what `write_result_file` makes."""
    root = _children(file, "/")
    if TITLE not in root:
        found = ", ".join(repr(name) for name in list(root)[:5]) or "nothing"
        raise _RefusedError(
            f"is an HDF5 file but holds no {TITLE} result; it holds {found}."
        )
    # The version comes before the rest: a newer layout may differ in all of it.
    top = _children(_check_node(root[TITLE], "dict"), TITLE)
    entries = {f"key_{name}" for name in HEADER_KEYS}
    if "key_format_version" not in top:
        raise _RefusedError(
            f"is an HDF5 file but its {TITLE} entry has no format version; it was "
            "not written by .save() of a result."
        )
    version = int(_check_node(top["key_format_version"], "int")[0])
    if version > FORMAT_VERSION:
        raise _RefusedError(
            f"was saved by a newer version of {TITLE} (file format {version}; this "
            f"one reads up to {FORMAT_VERSION}); update {TITLE} to read it."
        )
    if set(top) != entries or len(root) > 1:
        names = {f"/{name}" for name in root if name != TITLE} | (set(top) ^ entries)
        raise _RefusedError(
            f"does not have the entries of a {TITLE} result file; missing or not "
            f"allowed: {', '.join(sorted(names)[:5])}. It is refused."
        )
    _check_node(top["key_class_name"], "unicode")
    _check_node(top["key_header"], "unicode")
    for array in _children(_check_node(top["key_arrays"], "dict"), "arrays").values():
        _check_node(array, "ndarray")


def _children(group, where):
    """Map names to the nodes of a group, having refused links before following them."""
    nodes = {}
    for name in group:
        link = group.get(name, getlink=True)
        if not isinstance(link, h5py.HardLink):
            raise _RefusedError(
                f"holds a link out of its own data ({where}: {name}), which a result "
                "file never holds. It is refused."
            )
        nodes[name] = group[name]
    return nodes


def _check_node(node, kind):
    """Return a node if it is plain data of the one expected type."""
    title = None
    if "TITLE" in node.attrs:
        stored = node.attrs.get_id("TITLE")
        if stored.dtype.kind == "S" and stored.shape == ():
            title = node.attrs["TITLE"].decode()
    wanted = h5py.Group if kind == "dict" else h5py.Dataset
    if title != kind or not isinstance(node, wanted):
        raise _RefusedError(
            f"holds an entry of type {title!r} at {node.name}, where a result file "
            f"has {kind!r}. It is refused: loading it could run foreign code."
        )
    if kind != "dict":
        _check_dataset(node, {"int": "i", "unicode": "u"}.get(kind, "biuf"))
        if kind != "ndarray" and node.ndim != 1:
            raise _RefusedError(f"is damaged: {node.name} has the wrong shape.")
    return node


def _check_dataset(node, kinds):
    """Refuse datasets that are not plain numbers stored inside the file itself."""
    plain = (
        node.dtype.kind in kinds
        and node.dtype.subdtype is None
        and node.shape is not None
        and not node.external
        and not node.is_virtual
        # A filter may load a plugin, and lets a small file ask for endless memory.
        and node.id.get_create_plist().get_nfilters() == 0
    )
    if not plain:
        raise _RefusedError(
            f"holds data at {node.name} that is not plain numbers stored in the file "
            f"itself (type {node.dtype}). It is refused."
        )
    if node.id.get_storage_size() < node.size * node.dtype.itemsize:
        raise _RefusedError(
            f"is damaged: {node.name} claims more data than the file holds."
        )


def _encode(value, where, arrays):
    """Turn a value into JSON; arrays of numbers go to `arrays` under their name."""
    # NumPy first: np.float64 and np.str_ are also Python floats and strings.
    if isinstance(value, np.generic):
        return {"__scalar__": _encode(np.asarray(value), where, arrays)}
    if isinstance(value, np.ndarray):
        return _encode_array(value, where, arrays)
    if value is None or type(value) in (bool, int, float, str):
        return value
    if type(value) is list:
        return [_encode(v, f"{where}.{i}", arrays) for i, v in enumerate(value)]
    if type(value) is tuple and _are_rows(value):
        # Leave-one-out has thousands of test sets: two arrays instead of thousands.
        sizes = np.array([len(rows) for rows in value])
        joined = {"rows": np.concatenate(value), "sizes": sizes}
        return {"__rows__": _encode(joined, where, arrays)}
    if type(value) is tuple:
        return {"__tuple__": _encode(list(value), where, arrays)}
    if type(value) is dict:
        if all(type(k) is str and not k.startswith("__") for k in value):
            return {k: _encode(v, f"{where}.{k}", arrays) for k, v in value.items()}
        return {"__dict__": _encode([list(kv) for kv in value.items()], where, arrays)}
    raise TypeError(
        f"Cannot save {where.strip('.') or 'the result'}: {value!r} of type "
        f"{type(value).__name__}. Allowed: numbers, strings, booleans, None, arrays "
        "of these, and dicts, lists and tuples of them."
    )


def _are_rows(values):
    """Tell a tuple of index arrays, all of one type, from other tuples."""
    return (
        len(values) > 0
        and all(type(v) is np.ndarray and v.ndim == 1 for v in values)
        and len({v.dtype for v in values}) == 1
        and values[0].dtype.kind in "iu"
    )


def _encode_array(array, where, arrays):
    """Store numbers as an HDF5 dataset; h5py cannot store text, so JSON has it."""
    if type(array) is np.ndarray and array.dtype.kind in "biuf":
        # Letters, digits, underscore, dot: "/" would make a group of it.
        base = name = re.sub(r"[^\w.]", "_", where.strip(".")) or "array"
        count = 1
        while name in arrays:
            count += 1
            name = f"{base}_{count}"
        arrays[name] = array
        return {"__array__": name}
    if type(array) is np.ndarray and array.dtype.kind in "UO":
        items = array.ravel().tolist()
        # Not the width of the type, which may be that of strings left out before.
        width = max([1, *map(len, items)]) if array.dtype.kind == "U" else None
        return {
            "__text__": _encode(items, where, arrays),
            "shape": list(array.shape),
            "width": width,
        }
    if type(array) is np.ndarray and array.dtype.kind in "mM":  # e.g. session dates
        native = array.astype(array.dtype.newbyteorder("="))
        whole = _encode(native.view(np.int64), where, arrays)
        return {"__time__": native.dtype.str[1:], "count": whole}
    raise TypeError(
        f"Cannot save {where.strip('.') or 'the result'}: an array of type "
        f"{type(array).__name__} and dtype {array.dtype}. Allowed: plain arrays of "
        "numbers, booleans, strings or dates."
    )


def _decode(value, arrays):
    """Invert `_encode`."""
    if isinstance(value, list):
        return [_decode(v, arrays) for v in value]
    if not isinstance(value, dict):
        return value
    if "__array__" in value:
        return arrays[value["__array__"]]
    if "__text__" in value:
        width, items = value["width"], _decode(value["__text__"], arrays)
        # numpy's own text is never wider than four times its longest item.
        if width is not None and width > 4 * max(1, *map(len, items), 1):
            raise ValueError("its text is wider than its strings")
        array = np.empty(len(items), dtype=object if width is None else f"U{width:d}")
        for i, item in enumerate(items):  # one by one: an item may be a list itself
            array[i] = item
        return array.reshape(value["shape"])
    if "__time__" in value:
        # Only ever a type of time: memory must not be read as anything else.
        if not TIME_TYPE.fullmatch(value["__time__"]):
            raise ValueError(f"{value['__time__']!r} is no type of time")
        return arrays[value["count"]["__array__"]].view(value["__time__"])
    if "__scalar__" in value:
        return _decode(value["__scalar__"], arrays)[()]
    if "__rows__" in value:
        joined = _decode(value["__rows__"], arrays)
        return tuple(np.split(joined["rows"], np.cumsum(joined["sizes"])[:-1]))
    if "__tuple__" in value:
        return tuple(_decode(value["__tuple__"], arrays))
    if "__dict__" in value:
        return {key: item for key, item in _decode(value["__dict__"], arrays)}
    return {k: _decode(v, arrays) for k, v in value.items()}


#: What a result records the versions of; all of it bears on the numbers.
_PACKAGES = ("numpy", "scipy", "scikit-learn", "mne", "nilearn", "joblib")


def versions():
    """Return the versions of everything that bears on the numbers."""
    from .. import __version__

    return {
        "mvpa_kfda": __version__,
        "python": platform.python_version(),
        **{name: _version(name) for name in _PACKAGES},
    }


@cache
def _version(name):
    """Return a package's version; looking it up takes a millisecond or two."""
    return version(name)
