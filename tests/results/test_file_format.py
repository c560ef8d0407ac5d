"""The page on the file format: its reader reads files, and it leaves nothing out."""

import errno
import os
import re
import textwrap
import time
import zlib
from contextlib import ExitStack
from dataclasses import fields, replace
from pathlib import Path
from tempfile import TemporaryDirectory

import h5py
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays
from numpy.testing import assert_array_equal

from mvpa_kfda.results.load import RESULTS, load_result
from mvpa_kfda.utils import files as hdf5
from tests import build
from tests.results.test_results import PARAMETERS, assert_identical

PAGE = Path(__file__).parents[2] / "doc" / "file_format.rst"
OF_EVERY_KIND = {**PARAMETERS, "objects": np.array(["a", 1], dtype=object)}
BLOCK = r"\.\. code-block:: python\n\n((?: {4}.*\n|\n)+)"


@pytest.fixture(scope="module")
def page():
    return PAGE.read_text("utf-8")


@pytest.fixture
def shown(page, tmp_path, monkeypatch):
    """Return a function that saves a result and runs the code of the page on it."""
    monkeypatch.chdir(tmp_path)
    reader, _ = codes(page)

    def run(result):
        result.save("result.h5")
        names = {}
        exec(reader, names)
        return names

    return run


def codes(page):
    """Return the two programs of the page: the reader, and the check of the seal."""
    return [textwrap.dedent(code) for code in re.findall(BLOCK, page)]


@pytest.fixture
def as_hdf5(tmp_path):
    """Return a function that saves a result and opens its file by h5py alone."""
    with ExitStack() as stack:

        def save(result):
            result.save(tmp_path / "result.h5")
            return stack.enter_context(h5py.File(tmp_path / "result.h5", "r"))

        yield save


def decode(**options):
    return build.result("TimeResult", **{"n_permutations": 7} | options)


def short():
    """Return a result with few records."""
    records = {"kernel": {"name": "linear"}, "reg": 0.1, "steps": ["zscore", None]}
    return replace(decode(), parameters=records, versions={"numpy": "2.0"})


def test_reader_on_time_course(shown):
    result = decode(scoring=["roc_auc", "accuracy"])
    names = shown(result)
    assert names["class_name"] == "TimeResult"
    assert names["metric"] == "roc_auc"  # the first that was asked for
    assert_array_equal(names["scores"], result.scores)
    assert_array_equal(names["null"], result.null)
    assert_array_equal(names["times"], result.times)
    assert_array_equal(names["p"], result.pvalues())
    assert names["kernel"] == result.parameters["kernel"]["name"]
    assert names["null"].shape == (7, 3)


def test_reader_without_permutations(as_hdf5):
    assert list(as_hdf5(decode(n_permutations=0))["nulls"]) == []


def test_reader_on_image(as_hdf5):
    result = build.result("VolumeResult")

    file = as_hdf5(result)

    assert file.attrs["class_name"] == b"VolumeResult"
    assert_array_equal(file["metrics/accuracy"], result.scores)
    assert_array_equal(file["nulls/accuracy"], result.null)
    assert file["nulls/accuracy"].dtype == np.float32
    assert file["classes"].asstr()[()].tolist() == list(result.classes)
    ends = np.cumsum(file["tests/sizes"])[:-1]
    for rows, test in zip(
        np.split(file["tests/rows"][()], ends), result.tests, strict=True
    ):
        assert_array_equal(rows, test)
    # As the page says: position k is the k-th true voxel of the mask.
    image = np.zeros(file["space/mask"].shape)
    image[file["space/mask"][()]] = file["metrics/accuracy"]
    assert_array_equal(np.float32(image), result.to_img().get_fdata())
    assert_array_equal(file["space/affine"], build.AFFINE)


def test_reader_on_group(as_hdf5):
    group = build.group(correction=["max", "cluster"])

    file = as_hdf5(group)

    assert file.attrs["class_name"] == b"GroupResult"
    assert file["correction"].asstr()[()].tolist() == ["max", "cluster"]
    assert file["subjects"].asstr()[()].tolist() == list(group.subjects)
    assert_array_equal(file["subject_scores"][()].mean(axis=0), group.scores)
    assert_array_equal(file["places/coordinates/times"], group.times)
    assert list(file["p_maps"]) == list(group.p_maps)
    for name, p in group.p_maps.items():
        assert_array_equal(file["p_maps"][name], p)
    assert_array_equal(file["null_max"], group.null_max)


@pytest.mark.parametrize("name", RESULTS)
def test_all_fields_are_described(page, name):
    described = set(re.findall(r"``(\w+)``|~mvpa_kfda\.(\w+)`", page))
    described = {code or link for code, link in described}
    missing = {name, *(field.name for field in fields(RESULTS[name]))} - described
    assert not missing


def test_layout_is_described(page, as_hdf5):
    file = as_hdf5(replace(decode(), parameters=OF_EVERY_KIND))
    nodes = []
    file.visititems(lambda name, node: nodes.append(node))
    kinds = {node.attrs["kind"].decode() for node in nodes}
    table = page.split("* - ``kind``")[1].split("\n\n")[0]
    rows = re.findall(r"\* - (.*)\n", table)
    assert kinds == set(re.findall(r'``"(\w+)"``', " ".join(rows)))
    assert hdf5.VERSION_NAME in page
    assert file.attrs[hdf5.VERSION_NAME] == hdf5.FORMAT_VERSION
    versions = page.split("\nVersions\n")[1].split("\nSecurity\n")[0]
    numbers = re.findall(r"\* - (\d+)\n", versions)
    assert numbers == [str(k + 1) for k in range(hdf5.FORMAT_VERSION)]
    for node in nodes:
        assert set(node.attrs) == {"kind", "crc32"}
        if isinstance(node, h5py.Dataset):
            assert node.chunks is None
            assert node.attrs["crc32"] == zlib.crc32(node[...].tobytes())
    # The list of the file, and of all groups, as the page says.
    for group in [file, *(node for node in nodes if isinstance(node, h5py.Group))]:
        words = [group.attrs["class_name" if group is file else "kind"].decode()]
        for name, node in group.items():
            words += [name, node.attrs["kind"].decode(), str(node.attrs["crc32"])]
        assert group.attrs["crc32"] == zlib.crc32("\0".join(words).encode())


# ------------------------------------------------------------------------- round trips

NUMBERS = arrays(
    dtype=st.sampled_from([bool, "i1", "i4", "u8", "f2", "<f4", ">f8"]),
    shape=array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=3),
)
TEXTS = st.text(max_size=5).filter(lambda value: not value.endswith("\0"))
SCALARS = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | TEXTS
    | st.floats().map(np.float64)
    | TEXTS.map(np.str_)
    | st.dates().map(lambda day: np.datetime64(day))
)
KEYS = TEXTS | st.integers() | st.booleans() | st.tuples(TEXTS, st.integers())
VALUES = st.recursive(
    SCALARS
    | NUMBERS
    | st.lists(TEXTS, max_size=4).map(lambda items: np.array(items, dtype=str))
    | st.lists(SCALARS, max_size=4).map(lambda items: np.fromiter(items, object)),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.lists(inner, max_size=3).map(tuple)
        | st.dictionaries(KEYS, inner, max_size=3)
    ),
    max_leaves=8,
)


@settings(derandomize=True, deadline=None, max_examples=100, database=None)
@given(value=VALUES)
def test_nested_values_survive_a_file(value):
    with TemporaryDirectory() as folder:
        path = Path(folder) / "values.h5"
        hdf5.write_result_file(path, "Values", {"value": value})
        class_name, restored = hdf5.read_result_file(path)
    assert class_name == "Values"
    assert list(restored) == ["value"]
    assert_identical(restored["value"], value)
    assert hdf5.same_content(restored["value"], value)


# ------------------------------------------------------------------------------ damage


@pytest.fixture
def saved(tmp_path):
    """A small result, and the file that it was saved to."""
    result = decode()
    result.save(tmp_path / "result.h5")
    return result, tmp_path / "result.h5"


def unseal(path):
    """Let HDF5 cut the seal off, which it does when it opens a file to change it."""
    with h5py.File(path, "r+"):
        pass


def spoil(data, seed):
    """Return bytes as accidents leave them: cut, with zeros or noise, or moved."""
    rng = np.random.default_rng(seed)
    spoiled = data.copy()
    start = rng.integers(len(data))
    stop = start + rng.integers(1, 1000)
    match seed % 5:
        case 0:
            return spoiled[: min(start, len(data) - 29)]  # not where the seal begins
        case 1:
            where = rng.integers(len(data), size=3)
            spoiled[where] ^= rng.integers(1, 256, size=3, dtype=np.uint8)
        case 2:
            spoiled[start:stop] = rng.integers(256, size=len(spoiled[start:stop]))
        case 3:  # the end was never written to the disk
            spoiled[start:] = 0
        case 4:
            noise = rng.integers(256, size=stop - start, dtype=np.uint8)
            return np.insert(spoiled, start, noise)
    return spoiled


@pytest.mark.skipif(not hasattr(os, "posix_fallocate"), reason="systems that cannot")
def test_a_disk_without_room_leaves_what_was_there(tmp_path, monkeypatch):
    path, result = tmp_path / "result.h5", build.result()
    result.save(path)
    before = path.read_bytes()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "posix_fallocate", full)
        with pytest.raises(OSError, match="No space is left on the device; nothing"):
            result.save(path, overwrite=True)
    # In words of HDF5, if something else took the room meanwhile.
    monkeypatch.setattr(hdf5.h5py.Group, "create_dataset", full)
    with pytest.raises(OSError, match="No space is left on the device; nothing"):
        result.save(path, overwrite=True)
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


def full(*_, **__):
    raise OSError(errno.ENOSPC, "Can't synchronously write data (buf = 0x55)")


@pytest.mark.parametrize("sealed", [True, False])
def test_the_seal_is_as_described(saved, sealed, page, monkeypatch):
    _, path = saved
    monkeypatch.chdir(path.parent)
    monkeypatch.setattr(hdf5, "BLOCK", 1000)  # more than one block, and a part of one
    decode().save(path, overwrite=True)
    if not sealed:
        unseal(path)
    names = {}
    exec(codes(page)[1], names)
    assert names["whole"] == sealed
    assert hdf5.SEAL.size == 28
    size = int.from_bytes(names["seal"][16:24], "little")
    assert (size == path.stat().st_size - 28) == sealed


@pytest.mark.parametrize("start", range(0, 200, 50))
def test_damage_never_reaches_hdf5(saved, start, monkeypatch):
    """Where libraries before 2.0 would end Python, the file is refused by its name."""
    _, path = saved
    data = np.fromfile(path, np.uint8)
    monkeypatch.setattr(hdf5.h5py, "File", lambda *_: pytest.fail("HDF5 opened it"))
    for seed in range(start, start + 50):
        spoil(data, seed).tofile(path)
        assert not np.array_equal(np.fromfile(path, np.uint8), data)
        with pytest.raises(ValueError, match=r"result\.h5 is (damaged|not an HDF5)"):
            load_result(path)


def test_every_flipped_bit_is_noticed(saved, monkeypatch):
    """Wherever it is; in the seal too, and in what says where it begins."""
    _, path = saved
    data = np.fromfile(path, np.uint8)
    monkeypatch.setattr(hdf5.h5py, "File", lambda *_: pytest.fail("HDF5 opened it"))
    rng = np.random.default_rng(0)
    anywhere = rng.choice(len(data), size=300, replace=False)
    for where in (*range(64), *anywhere, *range(len(data) - 28, len(data))):
        damaged = data.copy()
        damaged[where] ^= 1 << rng.integers(8)
        damaged.tofile(path)
        with pytest.raises(ValueError, match=r"result\.h5 is (damaged|not an HDF5)"):
            load_result(path)


def test_files_without_a_seal_are_read(saved):
    """They are of before there was one, or HDF5 cut it off."""
    result, path = saved
    data = path.read_bytes()
    path.write_bytes(data[:-28])
    assert load_result(path) == result
    path.write_bytes(data)
    unseal(path)
    assert path.read_bytes() == data[:-28]
    with h5py.File(path, "r+") as file:
        file.attrs["note"] = "of the first day"
    assert load_result(path) == result
    assert hdf5.SEAL_WORD not in path.read_bytes()
    load_result(path).save(path, overwrite=True)
    assert path.read_bytes()[-28:].startswith(hdf5.SEAL_WORD)
    assert load_result(path) == result


of_new_hdf5 = pytest.mark.skipif(
    h5py.version.hdf5_version_tuple < (2, 0),
    reason="HDF5 before 2.0 ends Python when it meets some kinds of damage",
)


@of_new_hdf5
def test_a_flipped_bit_is_noticed_without_a_seal(tmp_path):
    """Anywhere in the file: the same result, or a refusal that names the file."""
    result, path = short(), tmp_path / "result.h5"
    result.save(path)
    unseal(path)
    with h5py.File(path, "r") as file:
        sets = []
        file.visititems(lambda name, node: sets.append(node))
        places = {
            (node.id.get_offset(), node.id.get_storage_size())
            for node in sets
            if isinstance(node, h5py.Dataset) and node.size
        }
    data = np.fromfile(path, np.uint8)
    rng = np.random.default_rng(0)
    anywhere = rng.choice(len(data), size=50, replace=False)
    of_data = np.concatenate([start + np.arange(size) for start, size in places])
    inside = rng.choice(of_data, size=70, replace=False)
    for where in (*anywhere, *inside):
        damaged = data.copy()
        damaged[where] ^= 1 << rng.integers(8)
        damaged.tofile(path)
        try:
            assert load_result(path) == result
            # HDF5 leaves gaps between what it holds.
            assert where not in inside
        except ValueError as error:
            assert str(error).startswith(f"{path} is ")  # noqa: PT017


def test_kinds_that_do_not_fit_are_noticed(tmp_path, monkeypatch):
    """Whatever else a file says of a value, it is another value or refused.

    Also if somebody computed the checksums of the lists again.
    """
    monkeypatch.setattr(hdf5, "_check_list", lambda *_: np.uint32(0))
    path = tmp_path / "result.h5"
    result = replace(decode(), parameters=OF_EVERY_KIND)
    result.save(path)
    content = path.read_bytes()
    with h5py.File(path, "r") as file:
        names = []
        file.visit(names.append)
    kinds = (
        "none array scalar objects list tuple bool int float str dict items rows time"
    )
    rng = np.random.default_rng(0)
    refused = 0
    for name in names[::4]:
        path.write_bytes(content)
        with h5py.File(path, "r+") as file:
            file[name].attrs["kind"] = np.bytes_(rng.choice(kinds.split()))
        try:
            assert type(load_result(path)) is type(result)
        except ValueError as error:
            assert str(error).startswith(f"{path} ")  # noqa: PT017
            refused += 1
    assert 5 < refused < len(names[::4])


def test_nothing_can_be_taken_out(tmp_path):
    """Every dataset and group, and most attributes, each in its turn."""
    path = tmp_path / "result.h5"
    short().save(path)
    content = path.read_bytes()
    with h5py.File(path, "r") as file:
        nodes = ["/"]
        file.visit(nodes.append)
        attributes = [(node, name) for node in nodes for name in file[node].attrs]
    assert len(attributes) > 60
    loaded = []
    for node, attribute in [*((n, None) for n in nodes[1:]), *attributes[::8]]:
        path.write_bytes(content)
        with h5py.File(path, "r+") as file:
            if attribute is None:
                del file[node]
            else:
                del file[node].attrs[attribute]
        try:
            load_result(path)
        except ValueError as error:
            assert str(error).startswith(f"{path} ")  # noqa: PT017
        else:
            loaded.append((node, attribute))
    assert loaded == []


def test_nothing_can_be_renamed_or_moved(saved):
    """Names and their order are those that were saved."""
    _, path = saved
    content = path.read_bytes()
    for old, new in [("warnings", "remarks"), ("metrics/accuracy", "metrics/f1")]:
        path.write_bytes(content)
        with h5py.File(path, "r+") as file:
            file.move(old, new)
        with pytest.raises(ValueError, match="does not hold what was saved there"):
            load_result(path)


@pytest.mark.parametrize("version", [1, 3])
def test_older_formats_are_called_older(saved, version):
    _, path = saved
    with h5py.File(path, "r+") as file:
        file.attrs[hdf5.VERSION_NAME] = version
    with pytest.raises(ValueError, match=f"of an older format .{version}; this versio"):
        load_result(path)


def test_many_names_of_one_thing_take_no_time(saved):
    """Second names are refused at the first of them."""
    _, path = saved
    with h5py.File(path, "r+") as file:
        for i in range(5000):
            file["parameters"][f"again {i}"] = file["times"]
    started = time.process_time()
    with pytest.raises(ValueError, match="a link, deeply nested groups, or other data"):
        load_result(path)
    assert time.process_time() - started < 1
