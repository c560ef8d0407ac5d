"""Files of results: all comes back, as the page says, and spoiled ones are refused."""

import os
import pickle
import re
import stat
import textwrap
import time
import zlib
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

import mvpa_kfda
from mvpa_kfda.results.base import Result
from mvpa_kfda.results.epochs import DecodingResult, TimeResult
from mvpa_kfda.results.load import RESULTS, load_result
from mvpa_kfda.utils import files as hdf5
from tests import build

N = 12
#: Values of every kind that a file holds.
PARAMETERS = {
    "tiny": 5e-324,
    "missing": float("nan"),
    "cv": None,
    "exact": False,
    "seed": 2**80,
    "picks": ["Fz", ""],
    "window": (0.1, -np.inf, ("a", (), [None, True])),
    "event_id": {"visuel/gauche": 1, "Größe 大": 2, "": 3},
    "by code": {1: "one", (2, 3): "two"},
    "arrays": (np.arange(3, dtype=np.uint8), np.ones((2, 2))[:, ::2]),
    "objects": np.array(["a", 1], dtype=object),
    "kernel": 'quotes "\\" and \n lines \ud800 \x00 and',
    "scalars": [np.float32(0.1), np.datetime64("2026-01-02"), np.str_("ü")],
    "nested": {"deep": {"deeper": np.array([[True, False]])}},
}
#: Those that make a file of a few dozen parts.
FEW = {
    name: PARAMETERS[name] for name in ("cv", "window", "by code", "kernel", "nested")
}
PAGE = (Path(__file__).parents[2] / "doc" / "file_format.rst").read_text("utf-8")
#: The two programs of the page: the reader, and the check of the seal.
READER, SEAL = (
    textwrap.dedent(code)
    for code in re.findall(r"\.\. code-block:: python\n\n((?: {4}.*\n|\n)+)", PAGE)
)


def a_result(n_permutations=19, **fields):
    """Return a result with a few parameters."""
    rng = np.random.default_rng(0)
    return build.made(
        TimeResult,
        rng.random(5),
        rng.random((n_permutations, 5)),
        times=-0.1 + 0.05 * np.arange(5),
        **{"parameters": FEW, "versions": {"numpy": "2.0"}} | fields,
    )


def assert_identical(a, b):
    assert type(a) is type(b)
    if isinstance(a, np.ndarray):
        assert (a.dtype, a.shape) == (b.dtype, b.shape)
        assert_array_equal(a, b)
    elif isinstance(a, dict):
        assert_identical(list(a), list(b))  # the order too
        assert_identical(list(a.values()), list(b.values()))
    elif isinstance(a, (list, tuple)):
        assert len(a) == len(b)
        for x, y in zip(a, b, strict=True):
            assert_identical(x, y)
    else:
        assert a == b or (a != a and b != b)


# --------------------------------------------------------------- the page of the format


def test_the_reader_of_the_page_reads_a_time_course(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    result = build.result(n_permutations=7, scoring=["roc_auc", "accuracy"])
    result.save("result.h5")
    names = {}
    exec(READER, names)
    assert names["class_name"] == "TimeResult"
    assert names["metric"] == "roc_auc"  # the first that was asked for
    assert names["kernel"] == result.parameters["kernel"]["name"]
    assert names["null"].shape == (7, 3)
    for name, expected in {
        "scores": result.scores,
        "null": result.null,
        "times": result.times,
        "p": result.pvalues(),
    }.items():
        assert_array_equal(names[name], expected)


def test_images_and_groups_are_where_the_page_says(tmp_path):
    result = build.result("VolumeResult")
    result.save(tmp_path / "image.h5")
    with h5py.File(tmp_path / "image.h5") as file:
        assert file.attrs["class_name"] == b"VolumeResult"
        assert_array_equal(file["nulls/accuracy"], result.null)
        assert file["nulls/accuracy"].dtype == np.float32
        assert file["classes"].asstr()[()].tolist() == list(result.classes)
        rows = np.split(file["tests/rows"][()], np.cumsum(file["tests/sizes"])[:-1])
        assert_identical(tuple(rows), result.tests)
        # Position k is the k-th true voxel of the mask.
        image = np.zeros(file["space/mask"].shape)
        image[file["space/mask"][()]] = file["metrics/accuracy"]
        assert_array_equal(np.float32(image), result.to_img().get_fdata())
        assert_array_equal(file["space/affine"], build.AFFINE)
    group = build.group(correction=["max", "cluster"])
    group.save(tmp_path / "group.h5")
    with h5py.File(tmp_path / "group.h5") as file:
        assert file["correction"].asstr()[()].tolist() == ["max", "cluster"]
        assert sorted(file["p_maps"]) == sorted(group.p_maps)
        assert_array_equal(file["subject_scores"][()].mean(axis=0), group.scores)
        assert_array_equal(file["places/coordinates/times"], group.times)


def test_all_kinds_and_fields_are_described():
    public = {name: getattr(mvpa_kfda, name) for name in mvpa_kfda.__all__}
    kinds = {
        name
        for name, kind in public.items()
        if isinstance(kind, type) and issubclass(kind, Result)
    }
    assert set(RESULTS) == kinds
    described = set(re.findall(r"``(\w+)``|~mvpa_kfda\.(\w+)`", PAGE))
    described = {code or link for code, link in described}
    for name, kind in RESULTS.items():
        assert {name, *(field.name for field in fields(kind))} <= described, name


def test_layout_is_as_described(tmp_path):
    a_result(parameters=PARAMETERS).save(tmp_path / "result.h5")
    with h5py.File(tmp_path / "result.h5") as file:
        nodes = []
        file.visititems(lambda name, node: nodes.append(node))
        kinds = {node.attrs["kind"].decode() for node in nodes}
        rows = re.findall(
            r"\* - (.*)\n", PAGE.split("* - ``kind``")[1].split("\n\n")[0]
        )
        assert kinds == set(re.findall(r'``"(\w+)"``', " ".join(rows)))
        assert hdf5.VERSION_NAME in PAGE
        assert file.attrs[hdf5.VERSION_NAME] == hdf5.FORMAT_VERSION
        versions = PAGE.split("\nVersions\n")[1].split("\nSecurity\n")[0]
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


@pytest.mark.parametrize("sealed", [True, False])
def test_the_seal_is_as_described(saved, sealed, monkeypatch):
    _, path = saved
    monkeypatch.chdir(path.parent)
    monkeypatch.setattr(hdf5, "BLOCK", 1000)  # more than one block, and a part of one
    a_result().save(path, overwrite=True)
    if not sealed:
        unseal(path)
    names = {}
    exec(SEAL, names)
    assert names["whole"] == sealed
    assert hdf5.SEAL.size == 28
    size = int.from_bytes(names["seal"][16:24], "little")
    assert (size == path.stat().st_size - 28) == sealed


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


@settings(derandomize=True, deadline=None, max_examples=70, database=None)
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


def test_every_field_comes_back(tmp_path):
    path, tests = tmp_path / "résultat 1", ([5, 1], [1, 2, 3], [7])
    missing = np.where(np.arange(N) % 4, 1, -1)
    clashing = {f"a{sep}b": np.array([i]) for i, sep in enumerate("/. _")}
    result = a_result(
        tests=tuple(map(np.array, tests)),
        groups=np.array(["s1", "s22", ""] * 4),
        predicted=np.tile(missing, (5, 1)),
        metrics={"roc_auc": np.arange(5.0), "accuracy": np.ones(5)},  # not sorted
        chances={"roc_auc": 0.5, "accuracy": np.nan},
        parameters=PARAMETERS | clashing | {"a": {"b": np.array([4])}},
    )
    single = build.made(DecodingResult, 0.7, class_scores=np.ones((N, 2)))
    for each in (result, single, replace(single, nulls={"accuracy": np.empty(0)})):
        each.save(path, overwrite=True)
        loaded = load_result(str(path))
        assert type(loaded) is type(each)
        for field in each._content():
            assert_identical(getattr(loaded, field), getattr(each, field))
        assert loaded == each == pickle.loads(pickle.dumps(each))
    assert os.listdir(tmp_path) == [path.name]


# ----------------------------------------------------------------------------- writing


def test_an_existing_file_is_replaced_only_on_request(saved):
    result, path = saved
    with pytest.raises(FileExistsError, match="overwrite=True"):
        a_result(0).save(path)
    assert load_result(path) == result
    a_result(0).save(path, overwrite=True)
    assert load_result(path) == a_result(0)
    path.with_name("other").touch()
    modes = {stat.S_IMODE(each.stat().st_mode) for each in path.parent.iterdir()}
    assert len(modes) == 1  # the usual permissions
    with pytest.raises(ValueError, match=r"result\.to_img\(\.\.\.\)\.to_filename"):
        build.result("VolumeResult").save(path.with_name("map.nii.gz"))


def test_values_that_cannot_be_restored_are_not_saved(tmp_path):
    for value, match in [
        (object(), "parameters.bad.0: <object .* of type object"),
        (np.array([object()]), "parameters.bad.0.0: .* of type object"),
        (np.array([["a", 1]], object), "dtype object. .* along one axis"),
        (1j, "of type complex. Allowed: numbers"),
        (np.zeros(2, dtype=complex), "dtype complex128. Allowed: plain arrays"),
        (np.ma.masked_array([1, 2], [0, 1]), r"(?s:.*)of type MaskedArray"),
        ("a\0", "of type str. Allowed: .* texts that do not end in NUL"),
        (["a\0", "b"], r"parameters\.bad\.0\.0: .* of type str"),
        (np.array([b"ab"]), r"dtype \|S2"),
        (np.zeros(2, dtype=[("a", int)]), "dtype .*'a'"),
        (b"bytes", "of type bytes"),
    ]:
        with pytest.raises(TypeError, match=f"Cannot save .*{match}"):
            a_result(parameters={"bad": [value]}).save(tmp_path / "result.h5")
        assert not list(tmp_path.iterdir())


def interrupted(file, *_, **__):
    file["half"] = np.ones(1000)
    raise KeyboardInterrupt("stopped")


def test_a_crash_while_writing_leaves_the_old_file(saved, monkeypatch):
    result, path = saved
    monkeypatch.setattr(hdf5, "_write", interrupted)
    with pytest.raises(KeyboardInterrupt, match="stopped"):
        a_result(0).save(path, overwrite=True)
    assert os.listdir(path.parent) == [path.name]
    assert load_result(path) == result


# ------------------------------------------------------------------------------ damage


@pytest.fixture
def saved(tmp_path):
    """A small result, and the file that it was saved to."""
    result = a_result()
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


def test_damage_never_reaches_hdf5(saved, monkeypatch):
    """Where libraries before 2.0 would end Python, the file is refused by its name."""
    _, path = saved
    data = np.fromfile(path, np.uint8)
    monkeypatch.setattr(hdf5.h5py, "File", lambda *_: pytest.fail("HDF5 opened it"))
    rng, n = np.random.default_rng(0), len(data)
    for seed in range(150):
        spoiled = spoil(data, seed)
        assert not np.array_equal(spoiled, data)
        flipped = data.copy()
        # Anywhere; in the seal too, and in what says where it begins.
        where = [rng.integers(n), seed % 64, n - 1 - seed % 28][seed % 3]
        flipped[where] ^= 1 << rng.integers(8)
        for damaged in (spoiled, flipped):
            damaged.tofile(path)
            with pytest.raises(
                ValueError, match=r"result\.h5 is (damaged|not an HDF5)"
            ):
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


def refuses(path):
    """Whether a file is refused, by its name, and not loaded as something else."""
    try:
        assert type(load_result(path)) is TimeResult
    except ValueError as error:
        assert str(error).startswith(f"{path} ")  # noqa: PT017
        return True
    return False


@pytest.mark.skipif(
    h5py.version.hdf5_version_tuple < (2, 0),
    reason="HDF5 before 2.0 ends Python when it meets some kinds of damage",
)
def test_a_flipped_bit_is_noticed_without_a_seal(saved):
    """Anywhere in the file: the same result, or a refusal that names the file."""
    result, path = saved
    unseal(path)
    sets = []
    with h5py.File(path, "r") as file:
        file.visititems(lambda name, node: sets.append(node))
        sets = [x.id for x in sets if isinstance(x, h5py.Dataset) and x.size]
        starts = {each.get_offset(): each.get_storage_size() for each in sets}
    of_data = np.concatenate([k + np.arange(size) for k, size in starts.items()])
    data, rng = np.fromfile(path, np.uint8), np.random.default_rng(0)
    inside = rng.choice(of_data, size=40, replace=False)
    for where in (*rng.choice(len(data), size=30, replace=False), *inside):
        damaged = data.copy()
        damaged[where] ^= 1 << rng.integers(8)
        damaged.tofile(path)
        if not refuses(path):  # HDF5 leaves gaps between what it holds
            assert load_result(path) == result
            assert where not in inside


def test_nothing_can_be_taken_out_renamed_or_called_something_else(saved, monkeypatch):
    """Each dataset and group, and some attributes, in its turn."""
    _, path = saved
    content, names, rng = path.read_bytes(), [], np.random.default_rng(0)

    def refuses_after(change):
        path.write_bytes(content)
        with h5py.File(path, "r+") as file:
            change(file)
        return refuses(path)

    with h5py.File(path, "r") as file:
        file.visit(names.append)
        attributes = [
            (node, name) for node in ["/", *names] for name in file[node].attrs
        ]
    assert len(attributes) > 60
    for name in names[::2]:
        assert refuses_after(lambda file, name=name: file.pop(name)), name
    for name, attribute in attributes[::16]:
        assert refuses_after(lambda file: file[name].attrs.pop(attribute)), name  # noqa: B023
    for old, new in [("warnings", "remarks"), ("metrics/accuracy", "metrics/f1")]:
        assert refuses_after(lambda file: file.move(old, new)), new  # noqa: B023
    # Also if somebody computed the checksums of the lists again.
    monkeypatch.setattr(hdf5, "_check_list", lambda *_: np.uint32(0))
    a_result().save(path, overwrite=True)
    content = path.read_bytes()
    kinds = "none array scalar objects list tuple bool int float str dict items rows ti"
    refused = [
        refuses_after(lambda file: file[name].attrs.create("kind", np.bytes_(kind)))  # noqa: B023
        for name, kind in zip(names, rng.choice(kinds.split(), len(names)), strict=True)
    ]
    assert 5 < sum(refused) < len(refused)


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


# -------------------------------------------------------- files that are not results


@pytest.fixture
def opened(tmp_path, monkeypatch):
    """The good file, open to be spoiled by somebody who knows the lists' checksums."""
    monkeypatch.setattr(hdf5, "_check_list", lambda *_: np.uint32(0))
    a_result().save(tmp_path / "result.h5")
    with h5py.File(tmp_path / "result.h5", "r+") as file:
        yield file


def assert_refused(file, match):
    path = file.filename
    file.close()
    with pytest.raises(ValueError, match=rf"result\.h5 .*{match}"):
        load_result(path)


def put(group, name, value, kind=None):
    """Put a value in place of another one, as `save` would write it."""
    if name in group:
        del group[name]
    hdf5._write(group, name, value, name)
    if kind is not None:
        group[name].attrs["kind"] = np.bytes_(kind)


def put_time(file, unit):
    """Put whole numbers in place of the classes of trials, as times of some type."""
    put(file, "y", {"counts": np.arange(N), "unit": unit}, "time")


def set_class(file, name):
    file.attrs["class_name"] = np.bytes_(name)


def test_missing_and_foreign_files(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"There is no file .*result.h5"):
        load_result(tmp_path / "result.h5")
    contents = {"empty.h5": b"", "text.h5": b"time,p\n0.1,0.5\n", "short.h5": b"\x89HD"}
    for name, data in contents.items():
        (tmp_path / name).write_bytes(data)
    for path in (tmp_path, *(tmp_path / name for name in contents)):
        with pytest.raises(ValueError, match=f"{path.name} is not an HDF5 file .it is"):
            load_result(path)
    for group, match in {
        "": "no result of mvpa_kfda; it holds noth",
        "mnepython": "no result of mvpa_kfda; it holds 'mne",
        "mvpa_kfda/key_format_version": r"a result file of an older format .1 or 2;",
    }.items():
        with h5py.File(tmp_path / "foreign.h5", "w") as file:
            if group:
                file[group] = [2]
        with pytest.raises(ValueError, match=f"foreign.h5 (holds |is ){match}"):
            load_result(tmp_path / "foreign.h5")


@pytest.mark.parametrize(
    ("version", "match"),
    [
        (1, r"of an older format \(1; this version reads"),
        (hdf5.FORMAT_VERSION - 1, r"of an older format \(\d; this version reads"),
        (hdf5.FORMAT_VERSION + 1, r"newer version .*\(file format \d; this one"),
    ],
)
def test_other_formats_are_named(opened, version, match):
    opened.attrs[hdf5.VERSION_NAME] = version
    opened["something new"] = h5py.SoftLink("/elsewhere")
    assert_refused(opened, match)


@pytest.mark.parametrize(
    ("spoil", "match"),
    [
        (lambda file: put(file, "y", np.arange(N) % 2), None),
        (lambda file: set_class(file, "MoonResult"), "holds a MoonResult, which this"),
        (lambda file: set_class(file, "os.system"), "holds a os.system, which this"),
        (lambda file: set_class(file, "DecodingResult"), "do not make a DecodingResul"),
        (lambda file: file.attrs.__delitem__("class_name"), "is damaged"),
        (lambda file: file.__delitem__("y"), "do not make a TimeResult .*'y'"),
        (lambda file: put(file, "other", 1), "do not make a TimeResult .*'other'"),
        (lambda file: put(file, "metrics", 3), "do not make a TimeResult"),
        (lambda file: put(file, "tests", 5), "do not make a TimeResult"),
        (lambda file: put(file, "y", {"a": 1}, "tuple"), "is damaged .*'0'"),
        (lambda file: put(file, "y", {"rows": 3}, "rows"), "is damaged"),
        (
            lambda file: put(file, "y", {"keys": [[]], "values": [1]}, "items"),
            "damaged",
        ),
        (lambda file: put(file, "y", [1, 2], "int"), "is damaged"),
        (lambda file: put(file, "y", np.inf, "int"), "is damaged"),
        (lambda file: put(file, "y", "one", "int"), "is damaged .*'one'"),
        (lambda file: put(file, "y", 1, "os.system"), "is damaged .*'os.system'"),
        (lambda file: put(file, "y", {"a": 1}, "os.system"), "is damaged"),
        (lambda file: put_time(file, "O8"), "damaged .*'O8' is no type of time"),
        (lambda file: put_time(file, "M8[s],O"), "damaged .* no type of time"),
        (
            lambda file: file["times"].__setitem__(0, 7.0),
            "is damaged .*the checksum of times is wrong",
        ),
    ],
)
def test_damaged_entries(opened, spoil, match):
    spoil(opened)
    if match is None:  # the tool of this test alone spoils nothing
        path = opened.filename
        opened.close()
        assert load_result(path) == a_result()
        return
    assert_refused(opened, match)


def test_bytes_that_are_no_text(opened):
    put(opened["parameters"], "kernel", "ab")
    opened["parameters/kernel"][()] = b"\xff\xfe"
    opened["parameters/kernel"].attrs["crc32"] = np.uint32(zlib.crc32(b"\xff\xfe"))
    assert_refused(opened, "is damaged .*invalid start byte")


# ------------------------------------------------------------------- malicious files

PLACES = ["metrics", "metrics/accuracy", "new"]
REFUSED = "what no result file has.* refused"


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("kind", ["soft", "external"])
def test_links_are_not_followed(tmp_path, opened, kind, place):
    other = tmp_path / "other.h5"
    a_result().save(other)
    if place in opened:
        del opened[place]
    target = "/times" if place == "new" else f"/{place}"
    soft, external = h5py.SoftLink("/times"), h5py.ExternalLink(str(other), target)
    opened[place] = soft if kind == "soft" else external
    assert_refused(opened, f"{place.split('/')[-1]} {REFUSED}")


def virtual(secret):
    layout = h5py.VirtualLayout((N,), "i8")
    layout[:] = h5py.VirtualSource(str(secret), "y", (N,), "i8")
    return layout


ZEROS, TEXT = np.zeros(N, dtype=int), h5py.string_dtype()
#: What is not plain numbers in the file, put in it as y; other data are in `secret`.
SPOILED = {
    "external": lambda file, secret: file.create_dataset(
        "y", (N,), "i8", external=[(str(secret), 0, 8 * N)]
    ),
    "virtual": lambda file, secret: file.create_virtual_dataset("y", virtual(secret)),
    "filter": lambda file, _: file.create_dataset("y", data=ZEROS, compression="gzip"),
    "chunks": lambda file, _: file.create_dataset("y", data=ZEROS, chunks=(2,)),
    "object": lambda file, _: file.create_dataset("y", data=["a"] * N, dtype=TEXT),
    "reference": lambda file, _: file.create_dataset("y", (N,), dtype=h5py.ref_dtype),
    "records": lambda file, _: file.create_dataset("y", data=ZEROS.view([("a", "i8")])),
    "arrays": lambda file, _: file.create_dataset("y", (N,), np.dtype(("i8", (2,)))),
    "opaque": lambda file, _: file.create_dataset("y", data=np.zeros(N, dtype="V8")),
    "complex": lambda file, _: file.create_dataset("y", data=ZEROS + 0j),
    "null": lambda file, _: file.__setitem__("y", h5py.Empty("f8")),
    "type": lambda file, _: file.__setitem__("y", np.dtype("i8")),
}


@pytest.mark.parametrize("spoil", SPOILED.values(), ids=SPOILED)
def test_data_that_is_not_plain_numbers_is_refused(tmp_path, opened, spoil):
    secret = tmp_path / "secret"
    secret.write_bytes(bytes(8 * N))
    del opened["y"]
    spoil(opened, secret)
    opened["y"].attrs["kind"] = np.bytes_("array")
    assert_refused(opened, f"at /: y {REFUSED}")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("kind", "any length"),
        ("kind", np.array([b"array"])),
        ("kind", np.bytes_("x" * 65)),
        ("crc32", 1.5),
    ],
)
def test_attributes_of_another_type_are_refused(opened, name, value):
    opened["y"].attrs[name] = value
    assert_refused(opened, f"is damaged .*attribute {name} of /y is of another type")


@pytest.mark.parametrize(
    ("shape", "dtype", "match"),
    [
        ((10**13,), "f8", "claims more data at 'y' than the file holds"),
        ((N,), "i8", "is damaged .*the data of y are not there"),
    ],
)
def test_data_that_were_never_written_are_not_zeros(opened, shape, dtype, match):
    del opened["y"]
    opened.create_dataset("y", shape, dtype).attrs["kind"] = np.bytes_("array")
    assert_refused(opened, match)


@pytest.mark.parametrize("n_circles", [1, 2])
def test_a_group_inside_itself_does_not_hang(opened, n_circles):
    for k in range(n_circles):
        opened[f"parameters/circle {k}"] = opened["parameters"]
    assert_refused(opened, "(claims more data|what no result file has)")


def test_deep_nesting_is_refused_by_both_sides(opened, tmp_path):
    deep = 1
    for _ in range(40):
        deep = {"a": deep}
    with pytest.raises(TypeError, match=r"parameters\.a\.a.*nested more than 32 deep"):
        a_result(parameters=deep).save(tmp_path / "deep.h5")
    group = opened["parameters"]
    for _ in range(40):
        group = group.create_group("a")
        group.attrs["kind"] = np.bytes_("dict")
    assert_refused(opened, REFUSED)


def test_booleans_are_only_zero_and_one(opened):
    """Other bytes would make NumPy count wrong."""
    stored = opened["parameters/nested/deep/deeper"]
    odd = np.array([[3, 0]], np.uint8).view(bool)
    stored.write_direct(odd)
    stored.attrs["crc32"] = np.uint32(zlib.crc32(odd))
    path = opened.filename
    opened.close()
    loaded = load_result(path).parameters["nested"]["deep"]["deeper"]
    assert_array_equal(loaded.view(np.uint8), [[1, 0]])
