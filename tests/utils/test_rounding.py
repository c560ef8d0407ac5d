"""Numbers are rounded as people do it, everywhere where they are shown."""

import numpy as np
import pandas as pd
import pytest

from mvpa_kfda import TimeResult, cross_validate, methods_text
from mvpa_kfda.reports.html import SCORES, table_html, worded
from mvpa_kfda.reports.summary import word_answer
from mvpa_kfda.results.epochs import DecodingResult
from mvpa_kfda.utils.rounding import (
    brief,
    number,
    p_words,
    percent,
    rounded,
    rounded_down,
    to_digits,
)
from tests import build

TIMES = "\N{MULTIPLICATION SIGN}"


@pytest.mark.parametrize(
    ("value", "decimals", "words"),
    [
        (13 / 16, 3, "0.813"),  # exactly between two
        (61 / 80, 3, "0.763"),  # a little less in binary
        (np.mean([0.8, 0.85, 0.825]), 2, "0.83"),
        (np.float32(0.8125), 3, "0.813"),
        (-13 / 16, 3, "-0.813"),
        (-0.0004, 3, "0.000"),
        (0.99951, 3, "1.000"),
        (2.5, 0, "3"),
        (1e-9, 3, "0.000"),
        (123456.7895, 3, "123456.790"),
        (np.nan, 3, "nan"),
        (np.inf, 3, "inf"),
    ],
)
def test_halves_are_rounded_up(value, decimals, words):
    assert rounded(value, decimals) == words


def test_shares_are_rounded_as_fractions():
    for n in range(1, 121):
        for k in range(n + 1):
            # In whole numbers: half a unit more, rounded down.
            assert percent(k / n) == f"{(200 * k + n) // (2 * n)} %"
            assert rounded(k / n) == f"{(2000 * k + n) // (2 * n) / 1000:.3f}"


def test_other_words_of_numbers():
    for bound in (0.5999, 0.6, 0.29, 0.1 + 0.2, 1.0, 0.004):
        assert 0 <= bound + 1e-12 - float(rounded_down(bound)) < 0.01
    assert (rounded(0.25, 1, "+"), rounded(-0.25, 1, "+")) == ("+0.3", "-0.3")
    assert (percent(0.12345, 1), percent(1)) == ("12.3 %", "100 %")
    assert (brief(1.2345), brief(10)) == ("1.235", "10")
    assert [to_digits(x) for x in (1234.5, 0.00012345, 0, np.inf)] == [
        *(1230.0, 0.000123, 0.0, np.inf)
    ]
    found = [number(x) for x in (13 / 16, 99.96, 1234.5, 1e-5, 2.5e7, 0, 1e-4)]
    assert found == [
        "0.813",
        "100",
        "1235",
        f"1 {TIMES} 10^-5",
        f"2.5 {TIMES} 10^7",
        "0",
        "0.0001",
    ]
    found = [p_words(x) for x in (0.05, 0.0125, 0.00999, 5e-5, 4.9e-5, np.nan)]
    assert found == [
        *(
            "p = 0.050",
            "p = 0.013",
            "p = 0.0100",
            "p = 0.0001",
            "p < 0.0001",
            "p = \N{EN DASH}",
        )
    ]
    assert p_words(0.0125, "*p*") == "*p* = 0.013"


def test_all_that_shows_a_score_rounds_it_alike():
    null = np.array([0.5, 0.4375, 0.5625])
    result = build.made(DecodingResult, 13 / 16, n=16, null=null)
    assert "accuracy 0.813" in repr(result)
    assert result._facts()["Accuracy"].startswith("0.813 ")
    assert word_answer(result).startswith("The accuracy is 0.813 ")
    labels = result.plot().get_legend_handles_labels()[1]
    assert any(label.startswith("observed, 0.813") for label in labels)
    over_time = build.made(TimeResult, np.full(2, 13 / 16), n=16, times=np.arange(2.0))
    assert "highest accuracy 0.813" in repr(over_time)
    assert "0.813" in table_html(pd.DataFrame({name: [13 / 16] for name in SCORES}))
    assert worded([0.0625, 61 / 80]) == "0.063, 0.763"
    # 13 of 16 are predicted rightly.
    y = np.tile(["a", "b"], 8)
    X = np.where(y == "a", 1.0, -1.0)
    X[:3] *= -1
    result = cross_validate(
        X[:, np.newaxis], y, cv=4, n_permutations=19, random_state=0
    )
    assert "The accuracy was 0.813 " in methods_text(result)


def test_confusions_are_percent_of_whole_numbers():
    # 33 of 40 are right.
    y = np.repeat(["a", "b"], 40)
    X = np.where(y == "a", 1.0, -1.0)
    X[:7] *= -1
    result = cross_validate(X[:, np.newaxis], y, cv=10)
    ax = result.plot_confusion()
    assert "83 %\n33" in [text.get_text() for text in ax.texts]
    (beside,) = ax.child_axes
    assert beside.get_yticklabels()[0].get_text() == "83 % of 40"
