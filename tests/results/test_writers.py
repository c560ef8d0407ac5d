"""Whatever is there and is not a regular file is refused by every writer."""

import ast
import os
import re
import socket
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from nibabel import Nifti1Image

import mvpa_kfda
from mvpa_kfda import decode_arrays, report
from mvpa_kfda.bids.write import write_table
from mvpa_kfda.cli.command import check_out
from mvpa_kfda.cli.output import save_figure, save_table
from mvpa_kfda.utils.checkpoint import Checkpoint
from mvpa_kfda.utils.files import write_json, write_whole
from tests import build

X, CODES = build.trials((6, 6), 3, 2)


@pytest.fixture(scope="module")
def result():
    return decode_arrays(X, CODES, sfreq=10, tmin=0, cv=3)


@pytest.fixture
def places(tmp_path):
    """Return a function that makes what is no file, by its kind, under a name."""
    stack = []

    def make(kind, name):
        path = tmp_path / name
        if kind == "pipe":
            os.mkfifo(path)
            stack.append(open(os.open(path, os.O_RDWR), "r+b", buffering=0))
            stack[-1].write(bytes(100))  # a reader would not wait for ever
        elif kind == "socket":
            stack.append(socket.socket(socket.AF_UNIX))
            here = os.getcwd()
            os.chdir(tmp_path)  # names of sockets are short
            stack[-1].bind(name)
            os.chdir(here)
        else:
            for number in os.openpty():
                stack.append(open(number, "r+b", buffering=0))
            path.symlink_to(os.ttyname(stack[-1].fileno()))
        return path

    yield make
    for each in stack:
        each.close()


WRITERS = {
    "save": ("x.h5", lambda path, result: result.save(path, overwrite=True)),
    "report": ("x.html", lambda path, result: report(result, path, overwrite=True)),
    "checkpoint": ("x.checkpoint", lambda path, _: Checkpoint(path)),
    "log": ("x-wal", lambda path, _: Checkpoint(path.with_name("x"))),
    "table": ("x.csv", lambda path, _: save_table(pd.DataFrame({"a": [1]}), path)),
    "figure": ("x.png", lambda path, result: save_figure(path, result.plot)),
    "image": (
        "x.nii.gz",
        lambda path, _: write_whole(
            path, Nifti1Image(np.zeros((2, 2, 2)), np.eye(4)).to_filename
        ),
    ),
    "bids": ("x.toml", lambda path, _: write_json(path, {}, follow=False)),
    "command": ("group_t.png", lambda path, _: check_out(path.parent, "group_t")),
}


@pytest.mark.skipif(sys.platform == "win32", reason="no such files on Windows")
@pytest.mark.parametrize("kind", ["pipe", "socket", "device"])
@pytest.mark.parametrize("writer", WRITERS)
def test_what_is_no_file_is_left_alone(writer, kind, places, result, tmp_path):
    name, write = WRITERS[writer]
    path = places(kind, name)
    before = os.lstat(path)
    with pytest.raises(
        OSError, match=f"({name}|/dev/pts/[0-9]+) is a {kind}, not a file"
    ):
        write(path, result)
    assert os.lstat(path).st_ino == before.st_ino
    assert os.listdir(tmp_path) == [name]


@pytest.mark.parametrize("writer", [name for name in WRITERS if name != "command"])
def test_a_folder_is_left_alone(writer, result, tmp_path):
    name, write = WRITERS[writer]
    (tmp_path / name).mkdir()
    with pytest.raises(IsADirectoryError, match="is a folder; use the name of a file"):
        write(tmp_path / name, result)
    assert os.listdir(tmp_path) == [name]


def test_links_to_files_stay_links(tmp_path):
    """Pages, tables and figures are written where a link leads."""
    (tmp_path / "real.csv").touch()
    (tmp_path / "link.csv").symlink_to("real.csv")
    save_table(pd.DataFrame({"a": [1]}), tmp_path / "link.csv")
    assert (tmp_path / "link.csv").is_symlink()
    assert (tmp_path / "real.csv").read_text() == "a\n1\n"


@pytest.mark.parametrize("number", [5, 32])
def test_a_file_that_is_open_elsewhere_is_replaced_when_it_is_closed(
    number, tmp_path, monkeypatch
):
    """As on Windows, where such a file cannot be replaced."""
    replace, tried = os.replace, []

    def refuse(draft, target):
        tried.append(target)
        if len(tried) <= n_times:
            error = PermissionError(13, "Permission denied")
            error.winerror = number
            raise error
        replace(draft, target)

    monkeypatch.setattr(os, "replace", refuse)
    monkeypatch.setattr("mvpa_kfda.utils.files.time.sleep", lambda seconds: None)
    path, table = tmp_path / "x.csv", pd.DataFrame({"a": [1]})
    n_times = 3
    save_table(table, path)
    assert path.read_bytes() == b"a\n1\n"
    for write in (save_table, write_table):
        tried.clear()
        n_times = 100
        match = r"x\.csv cannot be replaced, because another program has it open"
        with pytest.raises(PermissionError, match=match):
            write(table * 2, path)
        assert len(tried) == 5
        assert path.read_bytes() == b"a\n1\n"
        assert os.listdir(tmp_path) == ["x.csv"]


def test_other_refusals_are_not_waited_for(tmp_path, monkeypatch):
    def refuse(draft, target):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(os, "replace", refuse)
    monkeypatch.setattr("mvpa_kfda.utils.files.time.sleep", pytest.fail)
    with pytest.raises(PermissionError, match="Permission denied"):
        save_table(pd.DataFrame({"a": [1]}), tmp_path / "x.csv")
    assert os.listdir(tmp_path) == []


def test_lines_end_alike_on_all_systems(result, tmp_path, monkeypatch):
    monkeypatch.setattr(os, "linesep", "\r\n")
    table = pd.DataFrame({"a": [1, 2]})
    save_table(table, tmp_path / "x.csv", sep="\t")
    write_table(table, tmp_path / "x.tsv")
    for name in ("x.csv", "x.tsv"):
        assert (tmp_path / name).read_bytes() == b"a\n1\n2\n"


#: Calls that open text, and what says that it is none.
_OPENED = re.compile(r"(^|\.)(open|read_text|write_text|fdopen)$")
_BINARY = re.compile(r"'[rwax]b\+?'|'[rwax]\+?b'")


def test_text_is_read_and_written_by_a_stated_encoding():
    """The one of the system is another one on Windows, as are ends of lines."""
    for path in Path(mvpa_kfda.__file__).parent.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if not isinstance(node, ast.Call):
                continue
            named, place = {each.arg for each in node.keywords}, f"{path}:{node.lineno}"
            if isinstance(node.func, ast.Attribute) and node.func.attr == "to_csv":
                assert "lineterminator" in named or None in named, place
            elif _OPENED.search(ast.unparse(node.func)):
                words = ast.unparse(node)
                if _BINARY.search(words):
                    continue
                stated = "encoding" in named or _name(node.func) == "write_text"
                if isinstance(node.func, ast.Attribute) and "write_text" in words:
                    stated = {"encoding", "newline"} <= named
                # Pages of a browser, and files of other packages, are not ours.
                assert stated or "webbrowser" in words, f"{place} {words}"


def test_a_page_can_be_saved_again(result, tmp_path):
    page = report(result, tmp_path / "page.html")
    assert os.listdir(tmp_path) == ["page.html"]
    page.save(tmp_path / "again.html", open_browser=False, verbose="error")
    assert sorted(os.listdir(tmp_path)) == ["again.html", "page.html"]


#: What writes a file by its name, and what checks the name before.
_WRITE = {"to_csv", "to_filename", "savefig", "write_text", "write_bytes"}
_CHECKED = {"write_whole"}


def _is_method(node):
    """Whether a node calls a method, not a function that checks by itself."""
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)


def test_no_writer_goes_around_the_check():
    """Every call that writes a file is handed to a function that looks first."""
    for path in Path(mvpa_kfda.__file__).parent.rglob("*.py"):
        text = path.read_text("utf-8")
        if not any(name in text for name in _WRITE):
            continue
        tree = ast.parse(text)
        covered = set()
        for node in ast.walk(tree):
            handed = isinstance(node, ast.Call) and _name(node.func) in _CHECKED
            named = isinstance(node, ast.FunctionDef) and node.name in (
                *("write", "write_text"),
            )
            if handed or named:
                covered |= set(ast.walk(node))
        for node in set(ast.walk(tree)) - covered:
            if _is_method(node) and _name(node.func) in _WRITE:
                into_memory = node.args and _name(node.args[0]) == "content"
                assert into_memory, f"{path}:{node.lineno} {ast.unparse(node)}"


def _name(node):
    """Return the last name of what is called or given."""
    return getattr(node, "attr", getattr(node, "id", None))
