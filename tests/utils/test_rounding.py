"""Numbers are rounded as people do it, everywhere where they are shown."""

import numpy as np
import pytest

from mvpa_kfda import TimeResult, cross_validate, methods_text
from mvpa_kfda.reports.html import SCORES, table_html, worded
from mvpa_kfda.reports.summary import word_answer
from mvpa_kfda.results.epochs import DecodingResult
from mvpa_kfda.utils.rounding import number, p_words, percent, rounded, rounded_down
from tests import build


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
    for n in range(1, 201):
        for k in range(n + 1):
            # In whole numbers: half a unit more, rounded down.
            assert percent(k / n) == f"{(200 * k + n) // (2 * n)} %"
            assert rounded(k / n) == f"{(2000 * k + n) // (2 * n) / 1000:.3f}"


@pytest.mark.parametrize("bound", [0.5999, 0.6, 0.29, 0.1 + 0.2, 1.0, 0.004])
def test_bounds_are_never_rounded_up(bound):
    shown = float(rounded_down(bound))
    assert shown <= bound + 1e-12
    assert bound - shown < 0.01


def test_signs_and_decimals():
    assert rounded(0.25, 1, "+") == "+0.3"
    assert rounded(-0.25, 1, "+") == "-0.3"
    assert percent(0.12345, 1) == "12.3 %"
    assert percent(1) == "100 %"


def thirteen_of_16(kind=DecodingResult, scores=13 / 16, **fields):
    """Return a result whose score lies halfway between two thousandths."""
    return build.made(kind, scores, n=16, **fields)


def test_all_that_shows_a_score_rounds_it_alike():
    result = thirteen_of_16(null=np.array([0.5, 0.4375, 0.5625]))
    assert "accuracy 0.813" in repr(result)
    assert result._facts()["Accuracy"].startswith("0.813 ")
    assert word_answer(result).startswith("The accuracy is 0.813 ")
    labels = result.plot().get_legend_handles_labels()[1]
    assert any(label.startswith("observed, 0.813") for label in labels)
    over_time = {"times": np.arange(2.0), "scores": np.full(2, 13 / 16)}
    assert "highest accuracy 0.813" in repr(thirteen_of_16(TimeResult, **over_time))


def test_papers_round_scores_alike():
    result = cross_validate(*sixteen(), cv=4, n_permutations=19, random_state=0)
    assert result.scores == 13 / 16
    text = methods_text(result)
    assert "The accuracy was 0.813 " in text


def sixteen():
    """Return data of 16 trials, of which 13 are predicted rightly."""
    y = np.tile(["a", "b"], 8)
    X = np.where(y == "a", 1.0, -1.0)
    X[:3] *= -1
    return X[:, np.newaxis], y


def test_tables_and_methods_round_alike():
    table = result_table(13 / 16)
    assert "0.813" in table_html(table)
    assert worded(13 / 16) == "0.813"
    assert worded([0.0625, 61 / 80]) == "0.063, 0.763"
    assert number(13 / 16) == "0.813"
    assert number(2.5, 1) == "3"
    assert p_words(0.0125, "*p*") == "*p* = 0.013"


def result_table(score):
    """Return a table with a score, as pages have them."""
    import pandas as pd

    return pd.DataFrame({name: [score] for name in SCORES})


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
