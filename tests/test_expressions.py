"""Expressions on columns: equal to pandas where they are allowed, never run else."""

import time

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pandas.testing import assert_series_equal

from mvpa_kfda.bids.trials import label_events
from mvpa_kfda.data.expressions import ExpressionError, evaluate_expression
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
NUMBERS = st.recursive(
    st.sampled_from(
        [
            "n",
            "rt",
            "`first run`",
            "2",
            "0.5",
            "n.abs()",
            "rt.median()",
            "n.shift(1)",
            "sqrt(rt)",
            "kind.str.len()",
            "n.clip(0, 2)",
            "rt.fillna(0.1)",
            "rt.rank()",
        ]
    ),
    lambda parts: st.one_of(
        st.tuples(parts, st.sampled_from(["+", "-", "*", "/", "//", "%"]), parts).map(
            lambda p: "({} {} {})".format(*p)
        ),
        parts.map("(-{})".format),
    ),
    max_leaves=4,
)
TEXTS = st.sampled_from(
    [
        "kind",
        "kind.str.split('/').str[0]",
        "kind.str.upper()",
        "kind.str[:2]",
        "kind.str.replace('a', '|')",
        "kind.fillna('&')",
        "(kind + '@#`')",
    ]
)
LEAVES = st.one_of(
    st.just("seen"),
    st.tuples(NUMBERS, st.sampled_from("< <= > >= == !=".split()), NUMBERS).map(
        " ".join
    ),
    st.tuples(NUMBERS, NUMBERS, NUMBERS).map("{0[0]} < {0[1]} <= {0[2]}".format),
    st.tuples(TEXTS, st.sampled_from(["in ['face', 'A']", "== 'face'"])).map(" ".join),
    st.tuples(TEXTS, st.sampled_from(["!= 'a'", "not in ('face', 'a & b | c')"])).map(
        " ".join
    ),
    TEXTS.map("{}.isna()".format),
    TEXTS.map("{}.str.contains('a', na=False)".format),
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


@settings(max_examples=100, deadline=None)
@given(st.one_of(NUMBERS, TEXTS, TRUTHS))
def test_expressions_mean_what_they_mean_to_pandas(text):
    with np.errstate(all="ignore"):
        try:
            expected = TABLE.eval(text, engine="python")
        except Exception:  # what pandas cannot do is not compared
            return
    if not isinstance(expected, pd.Series):
        return
    found = evaluate_expression(TABLE, text)
    assert_series_equal(found, expected, check_names=False, rtol=1e-12, atol=0)


USEFUL = {
    "kind.map({'face/a': 'face', 'house/b': 'house'})": ["face", "house"],
    "`first run` == 1 and\n n > 0": [True, True],
    r"kind.str.extract('^(\w+)/', expand=False)": ["face", "house"],
    "n.astype('str') + kind.str[-1]": ["3a", "1b"],
    "n ** 2": [9, 1],
    "kind.replace('face/a', 'x').str.zfill(8)": ["0000000x", "0house/b"],
    "n.between(1, 2, inclusive='left')": [False, True],
    "seen or kind.str.match('face|house')": [True, True],
}


@pytest.mark.parametrize("text", USEFUL)
def test_what_users_need_is_there(text):
    assert evaluate_expression(TABLE, text).tolist()[:2] == USEFUL[text]


def test_missing_truth_values_stay_missing():
    """As in pandas with nullable types: unknown or true is true."""
    table = pd.DataFrame({"said": [True, None, False], "all": True}, dtype=object)
    assert evaluate_expression(table, "not said").tolist() == [False, pd.NA, True]
    assert evaluate_expression(table, "said or all").tolist() == [True] * 3


#: What may be run or written if pandas is asked, and how it is refused.
ATTACKS = {
    "kind + @pd.io.common.os.popen('touch victim').read()": "'@' is not",
    "kind.to_csv('victim')": "'.to_csv' is not",
    "`kind`.to_pickle('victim')": "'.to_pickle' is not",
    "kind.str.__class__": "'.__class__' is not",
    "n.__class__.__init__.__globals__": "'.__globals__' is not",
    "n.pipe(kind.to_csv)": "'.to_csv' is not",
    "n.apply('to_csv', path='victim')": "'.apply' is not",
    "n.fillna(0, inplace=True)": r"'.fillna\(inplace=\)' is not",
    "n.replace(3, value=4, inplace=True)": r"'.replace\(inplace=\)' is not",
    "n = 5": "cannot be read",
    "open('victim', 'w')": r"'open\(\)' is not",
    "__import__('os').system('touch victim')": "'.system' is not",
    "(lambda: 1)()": "is not allowed",
    "[x for x in n]": "'for ... in' is not",
    "f'{n}'": "is not allowed",
    "(m := n)": "':=' is not",
    "n if seen else rt": "'if ... else' is not",
    "n[0]": "'[...]' is not".replace("[", r"\["),
    "n.values.tofile('victim')": "'.tofile' is not",
    "n.isin(**{'values': n})": r"'\*\*' is not",
    "kind.str.cat(kind)": "'.str.cat' is not",
    "kind == None": "isna",
    "n is 1": "'is' is not",
    "n << 70": "'n << 70' is not",
    "n.T": "'.T' is not",
    "kind.str.len().abs.__self__": "'.__self__' is not",
    "n # 1": "'#' is not",
    "nothing > 1": "There is no column 'nothing'",
    "n and rt": "Compare, e.g. rt > 0",
    "kind * 2": "arithmetic needs numbers",
    "kind.mean()": "arithmetic needs numbers; got a column",
    "[n, 1]": "single values",
    "b'1'": "is not allowed",
    "1j * n": "is not allowed",
    "kind.str.len('x')": "fewer arguments",
    "n.astype('category')": "takes one of 'str'",
    "kind.str.extract('(a)')": "expand=False",
    "kind == 'a": "cannot be read",
    "\x00": "cannot be read",
}
#: What would take for ever, or all memory.
COSTLY = {
    "9**9**9": "64 bits",
    "n**10**9": "64 bits",
    "n**99": "64 bits",
    "'a' * 10**10": "arithmetic needs numbers",
    "kind.str.repeat(10**9)": "'.str.repeat' is not",
    "kind.str.zfill(10**9)": "characters of text",
    "kind.str.rjust(10**9)": "'.str.rjust' is not",
    "kind" + ".str.replace('', 'aaaaaaaaaaaaaaaaaaaa')" * 9: "characters of text",
    "kind" + ".str.join('aaaaaaaaaaaaaaaaaaaaaaaaa')" * 9: "characters of text",
    "(" * 300 + "n" + ")" * 300: "cannot be read",
    "-" * 5000 + "n": "nested|cannot be read",
    "n" + ".abs()" * 1000: "nested",
    "n + " * 1000 + "n": "nested",
    "n + 1" + " " * 20_000: "20005 characters",
    "9" * 5000 + " > n": "64 bits|cannot be read",
    "kind.str.replace('', 'b').str.match('(a|b)+c')": "repeats a group",
    "kind.str.contains('(a?)(a?)' + '(?x)')": r"without \(\?x\)",
    "kind.str.count('" + "a*" * 20 + "c')": "too many steps",
    "kind.str.split('" + "(a|a)" * 40 + "')": "too many steps",
    "kind.str.findall('" + "a?" * 40 + "')": "too many steps",
}


@pytest.mark.parametrize("text", [*ATTACKS, *COSTLY])
def test_nothing_else_is_run(text, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    table, started = TABLE.copy(), time.process_time()
    with pytest.raises(ExpressionError, match={**ATTACKS, **COSTLY}[text]):
        evaluate_expression(table, text)
    assert list(tmp_path.iterdir()) == []
    pd.testing.assert_frame_equal(table, TABLE)
    assert time.process_time() - started < 2


@pytest.mark.parametrize("text", list(ATTACKS)[:3])
@pytest.mark.parametrize("entry", ["by", "where", "train_on"])
def test_entries_run_nothing(entry, text, tmp_path, monkeypatch):
    """What settings and commands hand on goes the same way."""
    monkeypatch.chdir(tmp_path)
    call = {
        "by": lambda: label_events(TABLE, text, None),
        "where": lambda: label_events(TABLE, "n", text),
        "train_on": lambda: read_train_on(text, len(TABLE), TABLE),
    }[entry]
    with pytest.raises(ValueError, match="is not allowed"):
        call()
    assert list(tmp_path.iterdir()) == []
