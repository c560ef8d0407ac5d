"""Names from files reach terminals and tables as text, and steer nothing."""

import ast
import io
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import mvpa_kfda
from mvpa_kfda import decode_arrays
from mvpa_kfda.bids.write import write_table as write_tsv
from mvpa_kfda.cli.main import main
from mvpa_kfda.cli.output import save_table
from mvpa_kfda.utils.text import plain_cells, plain_text, tell, templates
from tests import build

#: Clears the screen, renames the window, hides text, turns it round, forges a line.
NAMES = ["\x1b[2Jface", "a\x9b31m", "b\u202etxt", "c\rWrote", "d\nWrote all", "e\udc80"]


STEERS = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


def test_names_are_written_out():
    for name in NAMES:
        assert plain_text(name).isprintable()
    assert plain_text("d\ne\x1b") == r"d\ne\x1b"
    for name in ["Größe", "脳 = 🧠", "a\u200db", r"\x1b", "left/right: -1"]:
        assert plain_text(name) == name


def test_commands_print_names_as_text(tmp_path, capsys, monkeypatch, undrawn):
    """Names of classes in a result, of files, and of columns in messages."""
    monkeypatch.chdir(tmp_path)
    X, codes = build.trials((6, 6), 3, 2)
    classes = np.array([NAMES[0], NAMES[4]])[codes]
    result = decode_arrays(X, classes, sfreq=10, tmin=0, cv=3)
    result.save("result\x1b[2J\n.h5")
    assert main(["methods", "result\x1b[2J\n.h5"]) == 0
    assert main(["methods", "none\x1b[2J\n.h5"]) == 2
    assert main(["report", "result\x1b[2J\n.h5", "--fname", "\x9b.htm"]) == 0
    assert main(["epochs", "x", "--y", "\x1b"]) == 2
    said = capsys.readouterr()
    assert r"\x1b" in said.err
    assert not STEERS.search(said.out + said.err)
    assert r"Wrote \x9b.htm" in said.out
    assert len(said.err.splitlines()) == 2


FORMULAS = ["=cmd|' /C calc'!A0", "+SUM(A1)", "-2+3+cmd|' /C calc'!A0", "@SUM(1)"]


FORMULAS += ["\t=HYPERLINK(1)", "\uff1dWEBSERVICE(1)", "=IMPORTXML(CONCAT(1))"]


@pytest.mark.parametrize(("write", "sep"), [(save_table, ","), (write_tsv, "\t")])
def test_tables_hold_no_formulas(write, sep, tmp_path):
    rows = [*FORMULAS, "V1", "-1", "+ face", "=", "a\tb", *NAMES]
    table = pd.DataFrame({"region": rows, "score": -0.5, FORMULAS[0]: rows[0]})
    given = table.copy()
    write(table, tmp_path / "table")
    pd.testing.assert_frame_equal(table, given)
    text = (tmp_path / "table").read_text("utf-8")
    assert not STEERS.search(text.replace("\t", "") if sep == "\t" else text)
    back = pd.read_csv(tmp_path / "table", sep=sep)
    assert len(back) == len(table)
    assert back.score.tolist() == [-0.5] * len(table)
    n = len(FORMULAS)
    assert all(name.startswith("'") for name in [*back.region[:n], back.columns[2]])
    assert back.region[n : n + 5].tolist() == ["V1", "-1", "+ face", "=", r"a\tb"]


def test_cells_of_categories_and_missing_ones():
    kinds = pd.Series(["=f(1)", None, "V1"], dtype="category")
    cells = plain_cells(pd.DataFrame({"a": kinds, "b": [1, "x\x1b", None]}))
    assert cells.a.astype(object).tolist()[::2] == ["'=f(1)", "V1"]
    assert cells.a.isna().tolist() == [False, True, False]
    assert cells.b.tolist()[:2] == [1, r"x\x1b"]


def test_no_text_goes_around():
    """Nothing else prints, and every table that is written has plain cells."""
    for path in Path(mvpa_kfda.__file__).parent.rglob("*.py"):
        text = path.read_text("utf-8")
        if path.name == "text.py" or not re.search(r"print\(|to_csv|std\w+\.wr", text):
            continue
        for node in ast.walk(tree := ast.parse(text)):
            if isinstance(node, ast.Call):
                words = ast.unparse(node.func)
                place = f"{path}:{node.lineno} {words}"
                assert words not in ("print", "sys.stdout.write"), place
                assert words != "sys.stderr.write", place
                if words.endswith(".to_csv") and words != "plain_cells(table).to_csv":
                    assert "table = plain_cells(table)" in ast.unparse(tree), place


def test_signs_that_a_stream_has_not_are_written_out():
    """A pipe on Windows, for one; a run of hours must not end there."""
    stream = io.TextIOWrapper(io.BytesIO(), encoding="cp1252", newline="\n")
    tell("\u03b3 = 0.3, caf\u00e9", file=stream)
    assert stream.buffer.getvalue() == b"\\u03b3 = 0.3, caf\xe9\n"


def test_templates_escape_values_in_pages_alone(tmp_path):
    for name in ("page.html", "text.txt"):
        (tmp_path / name).write_text("{{ word | loud }} {{ loud('b') }}")
    made = templates(tmp_path, loud=str.upper)
    assert made.get_template("page.html").render(word="<a>") == "&lt;A&gt; B"
    assert made.get_template("text.txt").render(word="<a>") == "<A> B"
