import inspect
import os
import pickle
import stat
import zlib
from dataclasses import FrozenInstanceError, replace

import h5py
import numpy as np
import pytest
from numpy.testing import assert_array_equal

from mvpa_kfda.results.base import Result, SubjectResult
from mvpa_kfda.results.epochs import DecodingResult, TimeFrequencyResult, TimeResult
from mvpa_kfda.results.group import TestedMap
from mvpa_kfda.results.load import RESULTS, load_result
from mvpa_kfda.utils import files as hdf5
from mvpa_kfda.viz.time import plot_time
from tests import build

N, C, P = 12, 3, 19
PARAMETERS = {
    "kernel": "RBF(gamma='median')",
    "reg": 0.3,
    "tiny": 5e-324,
    "missing": float("nan"),
    "endless": -np.inf,
    "cv": None,
    "exact": False,
    "n_permutations": P,
    "seed": 2**80,
    "picks": ["Fz", "Oz", ""],
    "window": (0.1, -0.2, ("a", (), [None, True])),
    "event_id": {"visuel/gauche": 1, "Größe 大": 2, "": 3},
    "by code": {1: "one", (2, 3): "two"},
    "like a tag": {"__tuple__": [1]},
    "arrays": (np.arange(2), np.arange(3, dtype=np.uint8), np.ones(2)),
    "text": 'quotes "\\" and \n lines \ud800 \x00 and',
    "scalars": [
        np.float32(0.1),
        np.datetime64("2026-01-02"),
        np.int8(-3),
        np.bool_(True),
        np.str_("ü"),
    ],
    "weights": np.linspace(0, 1, 5, dtype=np.float32)[::2],
    "nested": {"deep": {"deeper": np.array([[True, False]])}},
}


def shared_fields(shape, *, n_permutations=P, classes=("cat", "dog", "größer")):
    rng = np.random.default_rng(0)
    y = np.arange(N) % C
    nulls = {
        "roc_auc": rng.random((n_permutations, *shape)),
        "accuracy": rng.random((n_permutations, *shape)),
    }
    return {
        # Not in alphabetical order: the first one is the one of .scores.
        "metrics": {
            "roc_auc": rng.random(shape),
            "accuracy": rng.random(shape),
            "confusion_matrix": rng.random((*shape, C, C)),
        },
        "nulls": nulls if n_permutations else {},
        "chances": {"roc_auc": 0.5, "accuracy": 1 / 3, "confusion_matrix": np.nan},
        "classes": np.array(classes),
        "y": y,
        "groups": None,
        "predicted": rng.integers(C, size=(*shape, N)),
        "tests": tuple(np.arange(N).reshape(4, 3)),
        "parameters": dict(PARAMETERS),
        "versions": {"numpy": "2.0", "mvpa_kfda": "0.1"},
    }


def decoding_result(**kwargs):
    scores = np.random.default_rng(1).normal(size=(N, C))
    return DecodingResult(**shared_fields((), **kwargs), class_scores=scores)


def time_result(n_times=5, **kwargs):
    times = -0.1 + 0.05 * np.arange(n_times)
    return TimeResult(**shared_fields((n_times,), **kwargs), times=times)


def with_missing(result):
    predicted = result.predicted.copy()
    predicted[..., [0, 4]] = -1
    return replace(result, predicted=predicted)


RESULTS_TO_SAVE = {
    "decoding": decoding_result(),
    "time": time_result(),
    "decoding, masked": with_missing(decoding_result()),
    "time, masked": with_missing(time_result()),
    "no permutations": time_result(n_permutations=0),
    "empty nulls": replace(
        decoding_result(),
        nulls={"roc_auc": np.empty((0,)), "accuracy": np.empty((0,))},
    ),
    "text groups": replace(time_result(), groups=np.array(["s1", "s22", ""] * 4)),
    "uneven, overlapping tests": replace(
        decoding_result(), tests=(np.array([5, 1]), np.array([1, 2, 3]), np.array([7]))
    ),
}


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


# ------------------------------------------------------------------------- the object


def test_scores_null_and_chance_are_the_first_metrics():
    one, many = decoding_result(), time_result()
    assert one.scoring == many.scoring == ["roc_auc", "accuracy", "confusion_matrix"]
    assert type(one.scores) is float
    assert one.scores == one.metrics["roc_auc"]
    assert many.scores is many.metrics["roc_auc"]
    assert one.null.shape == (P,)
    assert_array_equal(many.null, many.nulls["roc_auc"])
    assert one.chance == many.chance == 0.5
    assert one.n_permutations == many.n_permutations == P
    assert one.shape == ()
    assert many.shape == (5,)


def test_null_is_empty_without_permutations():
    assert decoding_result(n_permutations=0).null.shape == (0,)
    assert time_result(n_permutations=0).null.shape == (0, 5)
    assert time_result(n_permutations=0).n_permutations == 0


@pytest.mark.parametrize("make", [decoding_result, time_result])
def test_predictions_are_labels_masked_where_never_tested(make):
    result = make()
    assert type(result.predictions) is np.ndarray
    assert_array_equal(result.predictions, result.classes[result.predicted])
    masked = with_missing(result).predictions
    expected = np.zeros(result.predicted.shape, dtype=bool)
    expected[..., [0, 4]] = True
    assert_array_equal(masked.mask, expected)
    assert_array_equal(masked.data[~expected], result.predictions[~expected])


def test_folds_train_on_the_rows_that_are_not_tested():
    tests = (np.array([5, 1]), np.array([1, 2, 3]))
    folds = replace(decoding_result(), tests=tests).folds
    assert_array_equal(folds[0][0], [0, 2, 3, 4, 6, 7, 8, 9, 10, 11])
    assert_array_equal(folds[0][1], [5, 1])
    assert_array_equal(folds[1][0], [0, 4, 5, 6, 7, 8, 9, 10, 11])
    assert len(folds) == 2


@pytest.mark.parametrize("make", [decoding_result, time_result])
def test_p_values_say_what_is_wrong(make):
    with pytest.raises(ValueError, match=r"no label permutations.*n_permutations="):
        make(n_permutations=0).pvalues()
    with pytest.raises(ValueError, match=r"'metric': 'auc'\. Allowed: 'roc_auc', 'acc"):
        make().pvalues(metric="auc")
    with pytest.raises(ValueError, match="'confusion_matrix' is not one number"):
        make().pvalues(metric="confusion_matrix")
    with pytest.raises(ValueError, match=r"'correction': 'maximum'\. Allowed: 'none',"):
        make().pvalues("maximum")


def test_table_of_times():
    result = time_result()
    columns = ["time", "roc_auc", "accuracy", "p", "p_max"]
    assert list(result.to_dataframe().columns) == columns
    table = result.to_dataframe(["fdr", "tfce"], metric="accuracy")
    assert list(table.columns)[-3:] == ["p", "p_fdr", "p_tfce"]
    assert_array_equal(table["p_fdr"], result.pvalues("fdr", metric="accuracy"))


def test_table_without_permutations_has_no_p():
    table = time_result(n_permutations=0).to_dataframe()
    assert list(table.columns) == ["time", "roc_auc", "accuracy"]


def test_table_of_a_single_position_has_one_row():
    table = decoding_result().to_dataframe()
    assert table.shape == (1, 3)
    assert list(table.columns) == ["roc_auc", "accuracy", "p"]


def test_repr_is_one_informative_line():
    assert repr(decoding_result()) == (
        f"<DecodingResult: ROC AUC {decoding_result().scores:.3f} (chance 0.500) | "
        "12 trials, 3 classes, 4 folds, 19 permutations>"
    )
    text = repr(time_result())
    assert "\n" not in text
    assert (
        f"highest ROC AUC {time_result().scores.max():.3f} at 0.1 s (chance 0.500)"
        in text
    )
    assert "5 times from -0.100 to 0.100 s" in text
    words = "3 training times from 0.000 to 2.000 s x 3 test times from 0.000 to"
    assert words in repr(build.result("GeneralizationResult"))


def test_results_are_frozen():
    with pytest.raises(FrozenInstanceError, match="y"):
        decoding_result().y = np.zeros(N)


def test_results_are_compared_by_content():
    assert time_result() == time_result()
    assert decoding_result() != time_result()
    for field, value in {
        "y": np.zeros(N, dtype=int),
        "times": np.arange(5.0),
        "groups": np.zeros(N),
        "parameters": {},
        "versions": {"numpy": "3"},
        "chances": {"roc_auc": 0.5, "accuracy": 0.2, "confusion_matrix": np.nan},
        "tests": tuple(np.arange(N).reshape(3, 4)),
        "classes": np.array(["cat", "dog", "other"]),
    }.items():
        assert replace(time_result(), **{field: value}) != time_result(), field
    less = {name: null.astype(np.float32) for name, null in time_result().nulls.items()}
    more = {name: null.astype(np.float64) for name, null in less.items()}
    assert replace(time_result(), nulls=less) != replace(time_result(), nulls=more)
    reordered = dict(reversed(time_result().metrics.items()))
    assert replace(time_result(), metrics=reordered) != time_result()


@pytest.mark.parametrize("name", RESULTS_TO_SAVE)
def test_pickle_round_trip(name):
    result = RESULTS_TO_SAVE[name]
    assert pickle.loads(pickle.dumps(result)) == result


@pytest.mark.parametrize(
    ("field", "value", "match"),
    [
        ("metrics", {"accuracy": np.zeros(4)}, "metric 'accuracy'"),
        ("metrics", {}, "the metrics' names"),
        ("nulls", {"accuracy": np.zeros((P, 6))}, "null of 'accuracy'"),
        ("nulls", {"f1": np.zeros((P, 5))}, "the metrics' names"),
        ("predicted", np.zeros((5, N + 1), dtype=int), "predicted"),
        ("times", np.arange(6.0), r"positions \(6,\) and 12 trials got"),
    ],
)
def test_shapes_that_do_not_fit_are_refused(field, value, match):
    with pytest.raises(ValueError, match=match):
        replace(time_result(), **{field: value})


def test_class_scores_that_do_not_fit_are_refused():
    with pytest.raises(ValueError, match=r"\(12, 3\); got \(12, 2\)"):
        replace(decoding_result(), class_scores=np.zeros((N, 2)))


# --------------------------------------------------------------------- save and load


@pytest.mark.parametrize("name", RESULTS_TO_SAVE)
def test_save_and_load_restore_every_field(name, tmp_path):
    result = RESULTS_TO_SAVE[name]
    path = tmp_path / "résultat 1.h5"
    result.save(path)
    loaded = load_result(str(path))
    assert type(loaded) is type(result)
    for field in result._content():
        assert_identical(getattr(loaded, field), getattr(result, field))
    assert loaded == result
    assert_identical(loaded.predictions, result.predictions)
    assert os.listdir(tmp_path) == [path.name]


def test_any_ending_will_do(tmp_path):
    time_result().save(tmp_path / "result")
    assert load_result(tmp_path / "result") == time_result()


def test_names_that_clash_as_paths_stay_apart(tmp_path):
    arrays = {f"a{sep}b": np.array([i]) for i, sep in enumerate("/. _")}
    arrays["a"] = {"b": np.array([4])}
    result = replace(decoding_result(), parameters=arrays)
    result.save(tmp_path / "result.h5")
    assert_identical(load_result(tmp_path / "result.h5").parameters, arrays)


def test_an_existing_file_is_replaced_only_on_request(tmp_path):
    path = tmp_path / "result.h5"
    decoding_result().save(path)
    with pytest.raises(FileExistsError, match="overwrite=True"):
        time_result().save(path)
    assert load_result(path) == decoding_result()
    time_result().save(path, overwrite=True)
    assert load_result(path) == time_result()


def test_a_link_to_the_file_stays_a_link(tmp_path):
    (tmp_path / "link.h5").symlink_to(tmp_path / "real.h5")
    time_result().save(tmp_path / "link.h5")
    assert (tmp_path / "link.h5").is_symlink()
    assert load_result(tmp_path / "real.h5") == time_result()


def test_the_file_has_the_usual_permissions(tmp_path):
    time_result().save(tmp_path / "result.h5")
    (tmp_path / "other").touch()
    modes = {stat.S_IMODE(path.stat().st_mode) for path in tmp_path.iterdir()}
    assert len(modes) == 1


def test_places_that_cannot_be_written(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"folder .*none does not exist; make"):
        time_result().save(tmp_path / "none" / "result.h5")
    with pytest.raises(IsADirectoryError, match="is a folder; use the name of a file"):
        time_result().save(tmp_path, overwrite=True)


@pytest.mark.parametrize(
    ("value", "match"),
    [
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
    ],
)
def test_values_that_cannot_be_restored_are_not_saved(value, match, tmp_path):
    result = replace(decoding_result(), parameters={"bad": [value]})
    with pytest.raises(TypeError, match=f"Cannot save .*{match}"):
        result.save(tmp_path / "result.h5")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("error", [OSError, KeyboardInterrupt])
def test_a_crash_while_writing_leaves_the_old_file(error, tmp_path, monkeypatch):
    path = tmp_path / "result.h5"
    decoding_result().save(path)

    def fail(file, *args, **kwargs):
        file["half"] = np.ones(1000)
        raise error("disk full")

    monkeypatch.setattr(hdf5, "_write", fail)
    with pytest.raises(error, match=r"disk (is )?full"):
        time_result().save(path, overwrite=True)
    assert os.listdir(tmp_path) == ["result.h5"]
    assert load_result(path) == decoding_result()


# -------------------------------------------------------- files that are not results


@pytest.fixture
def saved(tmp_path, monkeypatch):
    """A good result file, to be spoiled by somebody who knows the lists' checksums."""
    monkeypatch.setattr(hdf5, "_check_list", lambda *_: np.uint32(0))
    path = tmp_path / "result.h5"
    time_result().save(path)
    return path


@pytest.fixture
def opened(saved):
    """The good result file, open to be spoiled; close it before loading."""
    with h5py.File(saved, "r+") as file:
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
    with h5py.File(tmp_path / "bare.h5", "w") as file:
        pass
    with pytest.raises(ValueError, match="holds no result of mvpa_kfda; it holds noth"):
        load_result(tmp_path / "bare.h5")
    with h5py.File(tmp_path / "foreign.h5", "w") as file:
        file.create_group("mnepython")
    with pytest.raises(ValueError, match="holds no result of mvpa_kfda; it holds 'mne"):
        load_result(tmp_path / "foreign.h5")


def test_truncated_files(saved):
    data = saved.read_bytes()
    for size in (8, 9, 96, 600, len(data) // 2, len(data) - 1):
        saved.write_bytes(data[:size])
        with pytest.raises(ValueError, match=r"result.h5 is damaged or cut short; sav"):
            load_result(saved)


def test_newer_files(opened):
    newer = hdf5.FORMAT_VERSION + 1
    opened.attrs["mvpa_kfda_format"] = newer
    opened["something new"] = h5py.SoftLink("/elsewhere")
    assert_refused(opened, rf"newer version .*\(file format {newer}; this one")


def test_older_files(tmp_path):
    with h5py.File(tmp_path / "result.h5", "w") as file:  # as formats 1 and 2 began
        file["mvpa_kfda/key_format_version"] = [2]
        assert_refused(file, r"older format \(1 or 2; .* no longer read; run the anal")


@pytest.mark.parametrize(
    ("spoil", "match"),
    [
        (lambda file: put(file, "y", np.arange(N) % C), None),
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
    ],
)
def test_damaged_entries(saved, opened, spoil, match):
    spoil(opened)
    if match is None:  # the tool of this test alone spoils nothing
        opened.close()
        assert load_result(saved) == time_result()
        return
    assert_refused(opened, match)


def test_numbers_that_changed_are_noticed(opened):
    opened["times"][0] = 7.0
    assert_refused(opened, "is damaged .*the checksum of times is wrong")


def test_bytes_that_are_no_text(opened):
    put(opened["parameters"], "kernel", "ab")
    opened["parameters/kernel"][()] = b"\xff\xfe"
    opened["parameters/kernel"].attrs["crc32"] = np.uint32(zlib.crc32(b"\xff\xfe"))
    assert_refused(opened, "is damaged .*invalid start byte")


# ------------------------------------------------------------------- malicious files

PLACES = ["y", "metrics", "metrics/accuracy", "parameters/nested", "new"]
REFUSED = "what no result file has.* refused"


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("kind", ["soft", "external"])
def test_links_are_not_followed(saved, opened, kind, place):
    other = saved.with_name("other.h5")
    time_result().save(other)
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
def test_data_that_is_not_plain_numbers_in_the_file_is_refused(saved, opened, spoil):
    secret = saved.with_name("secret")
    secret.write_bytes(bytes(8 * N))
    del opened["y"]
    spoil(opened, secret)
    opened["y"].attrs["kind"] = np.bytes_("array")
    assert_refused(opened, f"at /: y {REFUSED}")


@pytest.mark.parametrize("name", ["kind", "crc32"])
@pytest.mark.parametrize(
    "value", ["any length", np.array([b"array"]), np.bytes_("x" * 65), 1.5]
)
def test_attributes_of_another_type_are_refused(opened, name, value):
    opened["y"].attrs[name] = value
    assert_refused(opened, f"is damaged .*attribute {name} of /y is of another type")


def test_a_small_file_cannot_ask_for_endless_memory(opened):
    del opened["y"]
    opened.create_dataset("y", (10**13,), "f8").attrs["kind"] = np.bytes_("array")
    assert_refused(opened, "claims more data at 'y' than the file holds")


def test_data_that_were_never_written_are_not_zeros(opened):
    del opened["y"]
    opened.create_dataset("y", (N,), "i8").attrs["kind"] = np.bytes_("array")
    assert_refused(opened, "is damaged .*the data of y are not there")


def test_data_cannot_be_counted_twice(saved, opened):
    """Many names of one dataset would ask for more memory than the file has bytes."""
    opened["big"] = opened["nulls/accuracy"]
    size = saved.stat().st_size
    for k in range(size // opened["big"].nbytes + 1):
        opened[f"parameters/big{k}"] = opened["big"]
    assert_refused(opened, REFUSED)


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
        replace(time_result(), parameters=deep).save(tmp_path / "deep.h5")
    group = opened["parameters"]
    for _ in range(40):
        group = group.create_group("a")
        group.attrs["kind"] = np.bytes_("dict")
    assert_refused(opened, REFUSED)


def test_booleans_are_only_zero_and_one(saved, opened):
    """Other bytes would make NumPy count wrong."""
    stored = opened["parameters/nested/deep/deeper"]
    odd = np.array([[3, 0]], np.uint8).view(bool)
    stored.write_direct(odd)
    stored.attrs["crc32"] = np.uint32(zlib.crc32(odd))
    opened.close()
    loaded = load_result(saved).parameters["nested"]["deep"]["deeper"]
    assert_array_equal(loaded.view(np.uint8), [[1, 0]])


def test_every_public_result_can_be_loaded():
    maps = {"GeneralizationResult", "TimeFrequencyResult", "SensorTimeResult"}
    maps |= {"SourceResult", "SourceTimeResult"}
    others = {"DecodingResult", "TimeResult", "VolumeResult"}
    regressions = {"RegressionResult", "TimeRegressionResult"}
    tested = {"GroupResult", "ComparisonResult"}
    assert set(RESULTS) == others | maps | regressions | tested | {"Latency"}
    bases = dict.fromkeys(tested, TestedMap) | {"Latency": Result}
    for name, kind in RESULTS.items():
        assert kind.__name__ == name
        assert issubclass(kind, bases.get(name, SubjectResult))


# ---------------------------------------------------------------------- kinds


def test_docs_of_a_kind_have_the_inherited_fields_in_its_own_shapes():
    text = TimeFrequencyResult.__doc__
    assert "nulls : dict of str -> array, shape (P, n_freqs, n_times)\n" in text
    assert "predicted : array of int, shape (n_freqs, n_times, n)\n" in text
    assert text.count("\npattern_maps : ") == 1  # its own description stands
    assert "in units of the power" in text
    assert (
        text.index("\nfreqs : ") < text.index("\nmetrics : ") < text.index("Examples")
    )
    one_position = DecodingResult.__doc__
    assert "nulls : dict of str -> array, shape (P,)\n" in one_position
    maps = [
        kind for kind in RESULTS.values() if isinstance(vars(kind).get("axes"), dict)
    ]
    assert len(maps) == 7
    for kind in maps:
        assert "positions..." not in kind.__doc__
    # The places of a group's map are those of its subjects.
    assert "statistic : array, shape (positions...)\n" in RESULTS["GroupResult"].__doc__


def test_figures_of_a_result_are_methods_with_docs_of_their_own():
    assert TimeResult.plot.__qualname__ == "TimeResult.plot"
    assert TimeResult.plot.__module__ == TimeResult.__module__
    assert time_result().plot.__name__ == "plot"
    (first, *others) = inspect.signature(TimeResult.plot).parameters.values()
    (_, *expected) = inspect.signature(plot_time).parameters.values()
    assert first.name == "self"
    assert others == expected
    text = inspect.getdoc(TimeResult.plot)
    assert text.startswith("Plot decoding scores over time.")
    assert "Parameters\n----------\nmetric : str or None\n" in text
    assert "result : " not in text
    assert ">>>" not in text
    assert text.endswith("or there\n    are no repeats to be drawn.")


def test_figures_of_a_result_are_those_of_the_function():
    result = time_result()
    (ax, other) = result.plot(correction="fdr"), plot_time(result, correction="fdr")
    for line, expected in zip(ax.lines, other.lines, strict=True):
        assert_array_equal(line.get_xydata(), expected.get_xydata())
    with pytest.raises(TypeError, match="unexpected keyword argument 'colour'"):
        result.plot(colour="red")
