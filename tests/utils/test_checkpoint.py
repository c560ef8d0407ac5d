"""What is saved is there again, whatever happened; what is not right is refused."""

import io
import json
import os
import random
import sqlite3
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pytest
from joblib import parallel_config
from numpy.testing import assert_array_equal

from mvpa_kfda.utils import checkpoint as _checkpoint
from mvpa_kfda.utils.checkpoint import Checkpoint, digest, open_checkpoint
from mvpa_kfda.utils.parallel import WorkersLostError, run_in_parallel

RUN = {"radius": 8.0, "kernel": "linear", "imgs": digest(np.arange(3.0))}


N_PARTS = 120


#: A run of N_PARTS parts that says which ones it has saved.
SCRIPT = f"""
import sys
import numpy as np
from mvpa_kfda.utils.checkpoint import Checkpoint

with Checkpoint(sys.argv[1]) as checkpoint:
    checkpoint.start({{"radius": 8.0}})
    print("open", flush=True)
    for number in sorted(set(range({N_PARTS})) - checkpoint.finished):
        values = np.random.default_rng(number).random(40_000)
        checkpoint.save(number, {{"values": values}})
        print(number, flush=True)
"""


def make_part(number=0):
    rng = np.random.default_rng(number)
    return {
        "metrics": {"accuracy": rng.random(5), "confusion": rng.random((5, 3, 3))},
        "nulls": {"accuracy": rng.random((20, 5)).astype(np.float32)},
        "second": {},
        "predicted": rng.integers(-1, 3, (5, 9)).astype(np.int8),
        "class_scores": None,
        "file": np.asfortranarray(rng.random((3, 4))),
        "names": np.array(["a", "böse"]),
        "found": np.array([True, False]),
        "count": np.int64(7),
        "nothing": np.empty((0, 3)),
    }


def assert_same_part(part, expected):
    assert list(part) == list(expected)
    for name, value in expected.items():
        if isinstance(value, dict):
            assert_same_part(part[name], value)
        elif value is None:
            assert part[name] is None
        else:
            assert part[name].dtype == value.dtype
            assert_array_equal(part[name], value, strict=True)


def make_checkpoint(path, n_parts=3):
    with Checkpoint(path) as checkpoint:
        checkpoint.start(RUN)
        for number in range(n_parts):
            checkpoint.save(number, make_part(number))
    return path


def start_script(path, end=""):
    """Start a run in a process of its own; `end` may keep it waiting."""
    return subprocess.Popen(
        [sys.executable, "-c", SCRIPT + end, str(path)],
        stdout=subprocess.PIPE,
        stdin=subprocess.PIPE,
        text=True,
    )


@pytest.fixture
def path(tmp_path):
    return tmp_path / "a run.checkpoint"


# ------------------------------------------------------------------ keeping and finding


def test_parts_come_back_as_they_were(path):
    with Checkpoint(path) as checkpoint:
        assert checkpoint.description is None
        checkpoint.start(RUN)
        assert checkpoint.finished == set()
        for number in (7, 0, 3):
            checkpoint.save(np.int64(number), make_part(number))
        assert checkpoint.finished == {0, 3, 7}
        checkpoint.save(3, make_part(30))
        assert_same_part(checkpoint.load(3), make_part(30))
    assert os.listdir(path.parent) == [path.name]
    with Checkpoint(path) as checkpoint:
        assert checkpoint.description == RUN
        checkpoint.start(RUN)
        assert checkpoint.finished == {0, 3, 7}
        assert_same_part(checkpoint.load(np.int64(7)), make_part(7))
        assert_same_part(checkpoint.load(3), make_part(30))
        part = checkpoint.load(0)
        part["predicted"][:] = 0  # the caller's own


def test_paths(monkeypatch, tmp_path):
    monkeypatch.setenv("HOME", str(tmp_path))
    with Checkpoint("~/x.checkpoint") as checkpoint:
        checkpoint.start(RUN)
    assert (tmp_path / "x.checkpoint").is_file()
    (tmp_path / "link").symlink_to(tmp_path / "x.checkpoint")
    with Checkpoint(str(tmp_path / "link")) as checkpoint:
        assert checkpoint.description == RUN
        assert checkpoint.path == Path(os.path.realpath(tmp_path / "x.checkpoint"))


def test_other_things_than_arrays_are_refused(path):
    with Checkpoint(path) as checkpoint:
        with pytest.raises(ValueError, match="Call start"):
            checkpoint.save(0, make_part())
        checkpoint.start(RUN)
        for part, where in (
            ({"a": np.array([object()])}, r"arrays\['a'\], of type ndarray"),
            ({"n": {"b": [1, 2]}}, r"arrays\['n'\]\['b'\], of type list"),
            ({"n": {1: np.ones(2)}}, r"arrays\['n'\], of type dict"),
        ):
            match = f"cannot keep {where}.*Allowed: arrays"
            with pytest.raises(TypeError, match=match):
                checkpoint.save(0, part)
        assert checkpoint.finished == set()


def test_the_same_run_is_told_by_values_not_by_types_of_containers(path):
    first = {"a": (1, 2), "b": {"x": 1, "y": None}, "c": np.float64(0.5), "d": np.nan}
    again = {"d": np.nan, "c": 0.5, "b": {"y": None, "x": 1}, "a": [1, 2]}
    with Checkpoint(path) as checkpoint:
        checkpoint.start(first | {"n": np.int64(3), "t": np.True_})
    with Checkpoint(path) as checkpoint:
        checkpoint.start(again | {"n": 3, "t": True})


def test_another_run_is_refused_by_name(path):
    content = make_checkpoint(path).read_bytes()
    unset = {key: value for key, value in RUN.items() if key != "radius"}
    for other, words in (
        (RUN | {"radius": 6.0}, "radius was 8.0 and is 6.0"),
        (RUN | {"radius": 8}, "radius was 8.0 and is 8"),
        (RUN | {"kernel": None}, "kernel was 'linear' and is None"),
        (RUN | {"imgs": digest(np.arange(4.0))}, "the data of imgs differ"),
        (RUN | {"imgs": None}, "the data of imgs differ"),
        (RUN | {"y": [1], "radius": 6.0}, r"radius .* 6.0; y was unset and is \[1\]"),
        (unset, "radius was 8.0 and is unset"),
    ):
        match = f"checkpoint of another run: {words}. Use another path"
        with Checkpoint(path) as checkpoint:
            with pytest.raises(ValueError, match=match):
                checkpoint.start(other)
            with pytest.raises(ValueError, match="Call start"):
                checkpoint.save(0, make_part(5))
        assert path.read_bytes() == content
    with Checkpoint(path) as checkpoint:
        assert_same_part(checkpoint.load(0), make_part(0))


# ------------------------------------------------------------- files that are not right


def execute(path, *commands):
    """Change a database behind the back of those who made it."""
    database = sqlite3.connect(path)
    for command in commands:
        database.execute(*command if isinstance(command, tuple) else (command,))
    database.commit()
    database.close()


@pytest.mark.parametrize(
    "make",
    [
        lambda path: path.touch(),
        lambda path: path.write_text("x was here\n" * 50),
        lambda path: path.write_bytes(b"SQLite format 3\0"),
        lambda path: execute(path, "CREATE TABLE parts (number INTEGER)"),
    ],
    ids=["empty", "text", "header", "database"],
)
def test_other_files_are_refused_and_left_untouched(path, make):
    make(path)
    journal = path.with_name(path.name + "-journal")
    journal.write_bytes(b"of somebody else")
    content = path.read_bytes()
    with pytest.raises(ValueError, match="is not a checkpoint; it is left as it is"):
        Checkpoint(path)
    assert path.read_bytes() == content
    assert journal.read_bytes() == b"of somebody else"
    assert len(os.listdir(path.parent)) == 2


@pytest.mark.skipif(sys.platform == "win32", reason="rights of POSIX")
def test_files_and_folders_that_are_read_only():
    """As another user, because the administrator may write everywhere."""
    script = (
        "import os, sys\n"
        "from mvpa_kfda.utils.checkpoint import Checkpoint\n"
        "if os.getuid() == 0:\n"
        "    os.setuid(65534)\n"
        "for path in sys.argv[1:]:\n"
        "    try:\n"
        "        Checkpoint(path)\n"
        "    except PermissionError as error:\n"
        "        print(error)\n"
    )
    with tempfile.TemporaryDirectory() as folder:
        file = make_checkpoint(Path(folder) / "read.checkpoint")
        file.chmod(0o444)
        Path(folder).chmod(0o555)
        new = Path(folder) / "new.checkpoint"
        command = [sys.executable, "-c", script, str(file), str(new)]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        assert os.listdir(folder) == ["read.checkpoint"]
        Path(folder).chmod(0o755)
    words = "cannot be read and written; change its permissions, or use another path."
    assert done.stdout.splitlines() == [f"{file} {words}", f"{folder} {words}"]


def test_a_newer_version_is_refused(path, monkeypatch):
    monkeypatch.setattr(_checkpoint, "_VERSION", 2)
    make_checkpoint(path)
    monkeypatch.undo()
    with pytest.raises(ValueError, match="of a newer version of mvpa_kfda; update it"):
        Checkpoint(path)


def test_a_damaged_part_counts_as_not_finished(path):
    content = bytearray(make_checkpoint(path).read_bytes())
    place = content.index(make_part(1)["nulls"]["accuracy"].tobytes()) + 13
    content[place] ^= 1
    path.write_bytes(content)
    with Checkpoint(path) as checkpoint:
        checkpoint.start(RUN)
        assert checkpoint.finished == {0, 2}
        with pytest.raises(ValueError, match=r"damaged checkpoint \(part 1 is missing"):
            checkpoint.load(1)
        checkpoint.save(1, make_part(1))
        assert checkpoint.finished == {0, 1, 2}
        assert_same_part(checkpoint.load(1), make_part(1))
    execute(path, "UPDATE parts SET number = 9 WHERE number = 2")
    with Checkpoint(path) as checkpoint:
        assert checkpoint.finished == {0, 1}


def test_damage_anywhere_is_never_taken_for_data(path):
    sound = make_checkpoint(path).read_bytes()
    random.seed(0)
    outcomes, messages = set(), set()
    for trial in range(100):
        content = bytearray(sound)
        if trial % 10 == 0:
            del content[random.randrange(len(content)) :]
        else:
            # Half of them where SQLite keeps its own numbers.
            low = random.choice([0, 2**15])
            place = low + random.randrange(120) if trial % 2 else None
            content[place or random.randrange(len(content))] = random.randrange(256)
        path.write_bytes(content)
        try:
            with Checkpoint(path) as checkpoint:
                checkpoint.start(RUN)
                for number in checkpoint.finished:
                    assert_same_part(checkpoint.load(number), make_part(number))
                outcomes.add(len(checkpoint.finished))
        except (ValueError, OSError) as error:
            outcomes.add(type(error))
            messages.add(str(error))
    assert {3, ValueError} <= outcomes
    assert all(str(path) in message for message in messages)


@pytest.mark.parametrize(
    "command",
    [
        "CREATE TRIGGER t AFTER INSERT ON parts BEGIN DELETE FROM parts; END",
        "CREATE VIEW v AS SELECT * FROM parts",
        "DROP TABLE parts",
    ],
)
def test_other_tables_are_refused(path, command):
    execute(make_checkpoint(path), command)
    with pytest.raises(ValueError, match="its tables are not those of a checkpoint"):
        Checkpoint(path)


def test_pickles_are_never_loaded(path):
    content = io.BytesIO()
    content.write(json.dumps({"a": True}).encode() + b"\n")
    np.save(content, np.array([print], dtype=object), allow_pickle=True)
    content = content.getvalue()
    row = (0, content, _checkpoint._checksum(0, content))
    command = "INSERT OR REPLACE INTO parts VALUES (?, ?, ?)"
    execute(make_checkpoint(path), (command, row))
    with Checkpoint(path) as checkpoint:
        with pytest.raises(ValueError, match="allow_pickle=False"):
            checkpoint.load(0)


# ------------------------------------------------------------ several processes, deaths


def test_one_run_at_a_time(path):
    with start_script(path, "    input()\n") as process:
        assert process.stdout.readline() == "open\n"
        start = time.monotonic()
        with pytest.raises(RuntimeError, match="is in use by another run"):
            Checkpoint(path)
        assert time.monotonic() - start < 5  # as long as a database would wait
        process.kill()
        process.wait()
    with Checkpoint(path) as checkpoint:  # the lock died with its process
        assert checkpoint.description == {"radius": 8.0}
        with pytest.raises(RuntimeError, match="is in use by another run"):
            Checkpoint(path)


@pytest.mark.slow
def test_a_run_killed_again_and_again_ends_with_all_parts(path):
    random.seed(1)
    saved, n_kills = set(), 0
    while len(saved) < N_PARTS:
        assert n_kills <= 12, "a run that was not killed did not end"
        with start_script(path) as process:
            if n_kills < 12:
                # In every phase: before the file is there, while parts are written.
                if n_kills % 3:
                    assert process.stdout.readline() == "open\n"
                    time.sleep(random.random() * 0.02)
                else:
                    time.sleep(random.random() * 0.3)
                process.kill()
            n_kills += 1
            words = process.stdout.read().split()
        # Nothing that a run had reported as saved is done once more.
        assert not saved & {int(word) for word in words if word.isdigit()}
        if path.exists():
            with Checkpoint(path) as checkpoint:
                assert saved <= checkpoint.finished
                saved |= checkpoint.finished
                assert {int(word) for word in words if word.isdigit()} <= saved
    assert n_kills >= 5
    with Checkpoint(path) as checkpoint:
        for number in range(N_PARTS):
            values = np.random.default_rng(number).random(40_000)
            assert_array_equal(checkpoint.load(number)["values"], values)


def test_the_log_of_a_deleted_file_is_not_used(path):
    with start_script(path, "    input()\n") as process:
        while process.stdout.readline() != f"{N_PARTS - 1}\n":
            pass
        process.kill()
    log = path.with_name(path.name + "-wal")
    assert log.stat().st_size > 1_000_000
    path.unlink()
    with Checkpoint(path) as checkpoint:
        assert checkpoint.description is None
        checkpoint.start(RUN)
        assert checkpoint.finished == set()


def test_a_full_disk_is_an_error_and_keeps_the_rest(path):
    with Checkpoint(path) as checkpoint:
        checkpoint.start(RUN)
        checkpoint.save(0, make_part(0))
        checkpoint._execute("PRAGMA max_page_count = 8")
        with pytest.raises(OSError, match=r"cannot work with .*: database or disk is"):
            checkpoint.save(1, {"values": np.ones(100_000)})
    with Checkpoint(path) as checkpoint:
        assert checkpoint.finished == {0}


def test_saving_while_workers_of_the_process_run(path):
    with parallel_config(backend="multiprocessing"), Checkpoint(path) as checkpoint:
        checkpoint.start(RUN)
        for number, part in enumerate(run_in_parallel(make_part, (), range(20), 2)):
            checkpoint.save(number, part)
    with Checkpoint(path) as checkpoint:
        for number in range(20):
            assert_same_part(checkpoint.load(number), make_part(number))


def test_lost_workers_are_told_what_is_kept(path):
    for given, words in (
        (None, "Nothing of this run is kept; with "),
        (path, "keeps the finished blocks of this run .0"),
    ):
        with pytest.raises(WorkersLostError, match=f"Two died. .*{words}"):
            with open_checkpoint(given):
                raise WorkersLostError("Two died.")


# ------------------------------------------------------------------------------ digests


def test_digests_of_equal_values_are_equal():
    x = np.random.default_rng(0).random((300, 1000))
    same = [x, np.asfortranarray(x), np.repeat(x, 2, axis=1)[:, ::2], x[::-1][::-1]]
    assert len({digest(one) for one in same}) == 1
    assert digest(x) == digest(x) != digest(x[:, :500], x[:, 500:])
    assert digest(1, "a") == digest(np.int64(1), np.str_("a"))
    assert digest([1.5, None]) == digest((np.float64(1.5), None))
    assert digest({"a": 1, "b": [2]}) == digest({"b": [2], "a": 1})
    assert digest(np.array(["a", "bc"], dtype=object)) == digest(
        np.array(["a", "bc"], dtype=object)
    )
    # The name of a value in the next version has to be the same.
    known = "digest:f1db3f2c36c40989f5057d93819731913386c37a"
    assert digest(np.arange(3.0), "run", 8, None, {"a": True}) == known


def test_digests_of_different_values_differ():
    values = [
        *(0, 0.0, -0.0, False, None, "", "0", b"0", 0j, np.nan),
        *([], [[]], [0], [0, 0], {}, {"a": 0}, {"b": 0}, ["a", 0]),
        *(np.zeros(2), np.zeros((2, 1)), np.zeros((1, 2)), np.zeros(2, np.float32)),
        *(np.array([0, 1.0]), np.array([1.0, 0]), np.zeros(0), np.zeros((0, 2))),
        *(np.array(["a"]), np.array(["a"], dtype=object), np.array(["b"], object)),
        *np.array([["2020-01-01"], ["2020-01-02"]], "M8[D]"),
    ]
    large = np.arange(200_000.0).reshape(2, -1)
    changed = large.copy()
    changed[-1, -1] += 1
    values += [large, changed, large.T]
    assert len({digest(value) for value in values}) == len(values)
    assert digest("ab", "c") != digest("a", "bc") != digest(["a", "bc"])
    with pytest.raises(TypeError, match="Cannot digest a value of type set"):
        digest({"a": [set()]})
