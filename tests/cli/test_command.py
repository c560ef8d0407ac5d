"""What is written on the command line: options, values, and how errors are told."""

import contextlib
import inspect
from pathlib import Path

import pytest

from mvpa_kfda import RBF, Ridge, Tuned
from mvpa_kfda.cli.command import (
    check_out,
    literal,
    made,
    one_line,
    options_in,
    options_of,
    single,
    with_nearest,
)
from tests.commands import BOLD, call

HOSTILE = "__import__('os').system('touch x')"


def test_values_are_read_as_python_writes_them():
    for word, value in {
        "1e-3": 0.001,
        "'1'": "1",
        "None": None,
        "[1, 2]": [1, 2],
        "block < 4": "block < 4",
        "Tuned([0.1, 1])": Tuned([0.1, 1]),
        "RBF(gamma=0.2)": RBF(gamma=0.2),
        "f(x)": "f(x)",
    }.items():
        assert made(literal(word)) == value
    assert made([literal("Ridge(4)"), 3]) == [Ridge(4), 3]
    assert (single([3]), single([3, 4]), single(3)) == (3, [3, 4], 3)
    for word, message in {
        "Tunned(3)": r"not known\. Did you mean Tuned\?",
        "Tuned(x)": "not written as in Python",
        "Tuned(3, 4, 5)": "cannot be made: .*arguments",
    }.items():
        with pytest.raises(ValueError, match=message):
            made(word)


def test_nothing_that_is_written_is_evaluated(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for text in (
        *(HOSTILE, "open('x', 'w')", "Tuned(open('x', 'w'))", "[open('x', 'w')]"),
        *("RBF.__init__(1)", "Ridge((lambda: open('x', 'w'))())", "(" * 9999),
    ):
        with contextlib.suppress(ValueError):
            assert made(literal(text)) == text
    assert list(tmp_path.iterdir()) == []


class Kinds:
    """Options of all kinds.

    Parameters
    ----------
    FILES : list of path
        what is read
    limit : float, default=5.0
        in seconds
    names : list of str, optional
        of trials
    level : {first, second}, optional
        of the analysis
    verbose : bool, default=False
        whether to talk
    """


def test_options_are_what_docstrings_say():
    files, *others = options_in(Kinds)
    assert (files.argument, files.type, files.several) == ("files", Path, True)
    assert (files.positional, files.default) == (True, inspect.Parameter.empty)
    found = {x.argument: (x.type, x.takes, x.several, x.default) for x in others}
    assert found == {
        "limit": (float, None, False, 5.0),
        "names": (str, None, True, None),
        "level": (str, ("first", "second"), False, None),
        "verbose": (bool, None, False, False),
    }
    assert [each.help for each in others][:2] == ["in seconds", "of trials"]
    of_function = {each.argument: each for each in options_of("searchlight", {"cv": 3})}
    assert {"imgs", "y", "verbose", "checkpoint"}.isdisjoint(of_function)
    assert of_function["cv"].default == 3
    assert of_function["standardize"].key == "standardize"
    assert [x.key for x in options_of("searchlight", {}, ["n_jobs"])] == ["n-jobs"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("", "required: COMMAND"),
        ("nonsense", "invalid choice: 'nonsense'"),
        ("epochs", "required: FILE"),
        ("searchlight", "required: IMAGES, --labels. Put files first, before"),
        ("searchlight --labels a.tsv bold.nii.gz", "required: IMAGES. Put files"),
        ("epochs a-epo.fif b-epo.fif", "unrecognized arguments: b-epo.fif"),
        ("epochs a-epo.fif --n-perms 9", "Did you mean --n-permutations?\n"),
        ("epochs a-epo.fif --n_jobs=2", "Did you mean --n-jobs?\n"),
        ("epochs a-epo.fif --n-permutations 9 8", "unrecognized arguments: 8\n"),
        ("epochs a-epo.fif --zzzz", "unrecognized arguments: --zzzz\n"),
        ("epochs a-epo.fif --correction clustre", "Did you mean cluster?\n"),
        ("regions a.nii --labels a.tsv --radius 3", "unrecognized arguments: --rad"),
        (f"{BOLD} --correction all", "invalid choice: 'all'"),
    ],
)
def test_what_is_not_understood_is_one_line_with_the_nearest(capsys, words, message):
    assert call(words) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.startswith("mvpa-kfda: error: ")
    assert message in printed.err
    assert printed.err.count("\n") == 1


def test_errors_become_one_line():
    assert one_line(ValueError("a\n   b")) == "a b"
    assert one_line(MemoryError()) == "MemoryError"
    assert one_line(OSError(2, "No such file", "x" * 999)) == (
        f"No such file: {'x' * 300}..."
    )
    text = "Invalid value for 'a': 'maxx'. Allowed: 'max', 'min'."
    assert with_nearest(text) == f"{text} Did you mean max?"
    assert with_nearest("No 'maxx'.") == "No 'maxx'."


def test_what_lies_in_the_output_must_be_files(tmp_path):
    folder = tmp_path / "a" / "b"
    check_out(folder, "x")
    (folder / "x.h5").mkdir()  # a folder is nobody's output
    check_out(folder, "x")
    (folder / "x.csv").symlink_to("/dev/null")
    check_out(folder, "y")
    with pytest.raises(OSError, match="is a device, not a file"):
        check_out(folder, "x")
