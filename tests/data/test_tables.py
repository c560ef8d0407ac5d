"""Tables in text files, and expressions on columns: equal to pandas, never run else."""

import gzip
import time

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pandas.testing import assert_series_equal

from mvpa_kfda.bids.events import label_events
from mvpa_kfda.data.tables import (
    evaluate_expression,
    read_text_table,
    trimmed_table,
)
from mvpa_kfda.data.trials import read_train_on

TABLE = pd.DataFrame(
    {
        "n": [3, 1, -2, 0, 7, 7],
        "rt": [0.5, np.nan, 1.25, -3.0, 0.0, 2.0],
        "kind": ["face/a", "house/b", None, "face/b", "a & b | c", "`"],
        "seen": [True, False, True, True, False, False],
        "first run": [1, 1, 2, 2, 3, 3],
    }
)
COLUMNS = ["n", "rt", "`first run`"]
NUMBERS = st.sampled_from([*COLUMNS, "2", "0.5", "-3.0"])
LEAVES = st.one_of(
    st.just("seen"),
    st.tuples(
        st.sampled_from(COLUMNS), st.sampled_from("< <= > >= == !=".split()), NUMBERS
    ).map(" ".join),
    st.tuples(NUMBERS, st.sampled_from(COLUMNS), NUMBERS).map(
        "{0[0]} < {0[1]} <= {0[2]}".format
    ),
    st.sampled_from(
        [
            "kind in ['face/a', 'A']",
            "kind == 'face/a'",
            "kind != 'a & b | c'",
            "kind not in ('face/b', 'a & b | c')",
            "kind.isna()",
            "rt.notna()",
            "kind.isin(['@#`', 'face/b'])",
            "`first run`.isin((1, 3))",
            "kind.str.startswith('face') == True",
            "kind.str.endswith('b') == True",
        ]
    ),
    NUMBERS.map("n.isin([1, 7]) and rt == {}".format),
)
TRUTHS = st.recursive(
    LEAVES,
    lambda parts: st.one_of(
        st.tuples(parts, st.sampled_from(["and", "or", "&", "|"]), parts).map(
            lambda p: "({} {} {})".format(*p)
        ),
        st.tuples(parts, st.sampled_from(["and", "|"]), parts).map(" ".join),
        parts.map("not ({})".format),
        parts.map("~({})".format),
    ),
    max_leaves=4,
)


@settings(max_examples=70, deadline=None)
@given(TRUTHS)
def test_expressions_mean_what_they_mean_to_pandas(text):
    try:
        expected = TABLE.eval(text, engine="python")
    except Exception:  # what pandas cannot do is not compared
        return
    if not isinstance(expected, pd.Series):
        return
    found = evaluate_expression(TABLE, text)
    assert_series_equal(found, expected, check_names=False)


USEFUL = {
    "`first run` == 1 and\n n > 0": [True, True],
    "rt": [0.5, pytest.approx(np.nan, nan_ok=True)],
    "seen or kind.str.startswith('house')": [True, True],
    "not kind.str.endswith('a')": [False, True],
    r"kind == 'face\x2fa'": [True, False],
}


def test_what_users_need_is_there():
    for text, first in USEFUL.items():
        assert evaluate_expression(TABLE, text).tolist()[:2] == first
    # As in pandas with nullable types: unknown or true is true.
    table = pd.DataFrame({"said": [True, None, False], "all": True}, dtype=object)
    assert evaluate_expression(table, "not said").tolist() == [False, pd.NA, True]
    assert evaluate_expression(table, "said or all").tolist() == [True] * 3


#: What may be run or written if pandas is asked, and what is no part of the grammar.
REFUSED = [
    "kind.to_csv('victim')",
    "__import__('os').system('touch victim')",
    "kind.str.__class__",
    "n.__class__.__init__.__globals__",
    "n.pipe(kind.to_csv)",
    "open('victim', 'w')",
    "(lambda: 1)()",
    "[x for x in n]",
    "f'{n}'",
    "(m := n)",
    "n[0]",
    "n.values.tofile('victim')",
    "n.isin(**{'values': n})",
    "n.isin(values=[3])",
    "n.isna(1)",
    "(n > 1).isna()",
    "kind.str.startswith(kind)",
    "kind.str.startswith('a', na=False)",
    "kind.startswith('a')",
    "kind.str.contains('(a|b)+c')",
    "kind == None",
    "n is 1",
    "n << 70",
    "n + 1 > 2",
    "n > 9**9**9",
    "rt > rt.median()",
    "n # 1",
    "kind == b'1'",
    "n > 1j",
]
#: The same in other words.
WRONG = {
    "kind + @pd.io.common.os.popen('touch victim').read()": "'@' is not allowed",
    "n = 5": "cannot be read",
    "nothing > 1": "There is no column 'nothing'",
    "n and rt": "Compare, e.g. rt > 0",
    "n.isin(3)": "in has a column before it",
    "3 in [3]": "in has a column before it",
    "[n, 1] in n": "single values",
    "kind == ['a', 'b']": "for lists use in",
    "kind > 3": "not supported between",
    "kind == 'a": "cannot be read",
    "\x00": "cannot be read",
    "(" * 300 + "n" + ")" * 300: "cannot be read",
    "not " * 4000 + "n": "recursion|cannot be read",
    "n < 1" + " " * 20_000: "20005 characters",
    "9" * 5000 + " > n": "cannot be read|is not allowed|too large|int",
}


def test_nothing_else_is_run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    table, started = TABLE.copy(), time.process_time()
    for text in [*REFUSED, *WRONG]:
        match = WRONG.get(text, "is not allowed. Allowed are columns .*notna")
        with pytest.raises(ValueError, match=match):
            evaluate_expression(table, text)
    assert list(tmp_path.iterdir()) == []
    pd.testing.assert_frame_equal(table, TABLE)
    assert time.process_time() - started < 20
    table = pd.concat([TABLE, TABLE[["n"]]], axis=1)
    with pytest.raises(ValueError, match="There are several columns 'n'"):
        evaluate_expression(table, "n > 1")


# -------------------------------------------------------------------------------- files


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.tsv", b"word\tn\n cat \t1\ndog\t 2\n"),
        ("a.csv", b"word,n \ncat,1\ndog ,2\n"),
        ("a.tsv", b"\xef\xbb\xbfword \t n\r\ncat\t1\r\ndog\t2\r\n"),
        ("a.tsv", "word\tn\ncat\t1\ndog\t2\n".encode("utf-16")),
        ("a.tsv.gz", gzip.compress(b"word\tn\ncat\t1\ndog\t2\n")),
    ],
    ids=["blanks", "commas", "marks", "UTF-16", "zipped"],
)
def test_blanks_marks_and_encodings_mean_nothing(tmp_path, name, content):
    (tmp_path / name).write_bytes(content)
    separator = "," if "csv" in name else "\t"
    found = read_text_table(tmp_path / name, separator)
    expected = pd.DataFrame({"word": ["cat", "dog"], "n": [1, 2]})
    pd.testing.assert_frame_equal(found, expected, check_dtype=False)


def test_files_that_are_odd_or_none(tmp_path):
    path = tmp_path / "a.tsv"
    path.write_bytes("word\tn\ncaf\xe9\t1\n".encode("latin-1"))
    with pytest.warns(RuntimeWarning, match=r"a\.tsv is not in UTF-8 and was read"):
        assert read_text_table(path, "\t")["word"].tolist() == ["caf\xe9"]
    for content, match in (
        (b"word,n\ncat,1\n", "separated by commas or semicolons"),
        (b"word\tn\n\0\t1\n", "it is no text"),
    ):
        path.write_bytes(content)
        with pytest.raises(ValueError, match=match):
            read_text_table(path, "\t")
    table = pd.DataFrame({" a ": [" x", 3.0], 5: [1, 2]})
    trimmed = trimmed_table(table)
    assert trimmed.columns.tolist() == ["a", 5]
    assert trimmed["a"].tolist() == ["x", 3.0]
    assert table.columns.tolist() == [" a ", 5]


@pytest.mark.parametrize("entry", ["by", "where", "train_on"])
def test_entries_run_nothing(entry, tmp_path, monkeypatch):
    """What settings and commands hand on goes the same way."""
    monkeypatch.chdir(tmp_path)
    text = REFUSED[0]
    call = {
        "by": lambda: label_events(TABLE, text, None),
        "where": lambda: label_events(TABLE, "n", text),
        "train_on": lambda: read_train_on(text, len(TABLE), TABLE),
    }[entry]
    with pytest.raises(ValueError, match="is not allowed"):
        call()
    assert list(tmp_path.iterdir()) == []
