"""Files are written whole or not at all, and nothing else is written over."""

import errno
import json
import os
import stat

import numpy as np
import pytest

from mvpa_kfda.utils import files
from mvpa_kfda.utils.files import (
    check_target,
    read_result_file,
    refuse_image,
    same_content,
    write_json,
    write_result_file,
    write_text,
    write_whole,
)


def test_fields_come_back_as_they_were(tmp_path):
    path = tmp_path / "result.h5"
    fields = {"table": {"b": np.ones((2, 3)), "a": (np.arange(2), "ä")}, "list": [1]}
    write_result_file(path, "Kind", fields)
    name, found = read_result_file(path)
    assert name == "Kind"
    assert same_content({name: found[name] for name in fields}, fields)
    assert list(found["table"]) == ["b", "a"]
    with pytest.raises(FileExistsError, match="overwrite=True"):
        write_result_file(path, "Kind", {})
    with pytest.raises(TypeError, match=r"Cannot save table\.c: "):
        write_result_file(path, "Kind", {"table": {"c": {1, 2}}}, overwrite=True)
    content = path.read_bytes()
    for size in (0, 10, len(content) - 1):
        path.write_bytes(content[:size])
        with pytest.raises(ValueError, match=r"damaged or cut|not an HDF5 file"):
            read_result_file(path)


def test_contents_are_the_same_by_value_type_and_order():
    x = np.array([1.0, np.nan])
    assert same_content({"a": x}, {"a": x.astype(">f8")})
    for other in (x[:1], x.astype(np.float32), [1.0, np.nan], np.array([1.0, 2.0])):
        assert not same_content({"a": x}, {"a": other})
    assert not same_content({"a": 1, "b": 2}, {"b": 2, "a": 1})
    assert not same_content({"a": 1}, {"a": 1, "b": 1})


def test_a_file_that_cannot_be_finished_leaves_what_was_there(tmp_path, monkeypatch):
    path = tmp_path / "a.txt"
    write_text(path, "one\n")

    def fail(draft):
        draft.write_text("half")
        raise OSError(errno.ENOSPC, "full")

    with pytest.raises(OSError, match="full"):
        write_whole(path, fail)
    assert path.read_bytes() == b"one\n"

    def full(*_):
        raise OSError(errno.ENOSPC, "full")

    monkeypatch.setattr("os.posix_fallocate", full, raising=False)
    with pytest.raises(OSError, match=r"No space is left .*; nothing was") as error:
        write_result_file(path, "Kind", {}, overwrite=True)
    assert (error.value.errno, error.value.filename) == (errno.ENOSPC, str(path))
    assert path.read_bytes() == b"one\n"
    assert os.listdir(tmp_path) == ["a.txt"]
    write_json(path, {"ä": np.float64(1)})
    assert json.loads(path.read_text("utf-8")) == {"ä": 1.0}
    assert "ä" in path.read_text("utf-8")


def test_links_are_followed_or_replaced_and_nothing_but_files_is_written(tmp_path):
    target, link = tmp_path / "target", tmp_path / "link"
    target.write_text("old")
    link.symlink_to(target)
    write_text(link, "new")
    assert (target.read_text(), link.is_symlink()) == ("new", True)
    write_text(link, "other", follow=False)
    assert (target.read_text(), link.is_symlink()) == ("new", False)
    with pytest.raises(IsADirectoryError, match="is a folder"):
        check_target(tmp_path)
    with pytest.raises(FileNotFoundError, match="none does not exist; make it"):
        check_target(tmp_path / "none" / "a.txt")
    if hasattr(os, "mkfifo"):
        os.mkfifo(tmp_path / "pipe")
        with pytest.raises(OSError, match="is a pipe, not a file"):
            write_text(tmp_path / "pipe", "")
        assert stat.S_ISFIFO(os.stat(tmp_path / "pipe").st_mode)
        with pytest.raises(OSError, match="is a device, not a file"):
            check_target(os.devnull)
    for name in ("a.nii", "A.NII.GZ", "a.gii"):
        with pytest.raises(ValueError, match="has the ending of an image"):
            refuse_image(name)


@pytest.mark.parametrize(("n_failures", "number"), [(2, 5), (9, 32), (9, None)])
def test_files_that_are_open_elsewhere_are_tried_again(
    tmp_path, monkeypatch, n_failures, number
):
    """As Windows has them for a moment, or for long."""
    replace, failed, waited = os.replace, [], []

    def refuse(*paths):
        if len(failed) < n_failures:
            failed.append(PermissionError("open"))
            failed[-1].winerror = number
            raise failed[-1]
        replace(*paths)

    monkeypatch.setattr(os, "replace", refuse)
    monkeypatch.setattr(files.time, "sleep", waited.append)
    if n_failures == 2:
        write_text(tmp_path / "a", "x")
        assert waited == [0.05, 0.2]
        assert (tmp_path / "a").read_text() == "x"
    else:
        words = "another program has it open" if number else "^open$"
        with pytest.raises(PermissionError, match=words):
            write_text(tmp_path / "a", "x")
        assert len(failed) == (5 if number else 1)
        assert os.listdir(tmp_path) == []
