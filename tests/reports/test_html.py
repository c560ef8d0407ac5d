"""Words, numbers, tables and figures as HTML: rounded, escaped, and of one size."""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest

from mvpa_kfda.reports.html import (
    MOST_ROWS,
    column_label,
    facts_html,
    figure_html,
    folded,
    joined,
    paragraph,
    part,
    table_html,
    worded,
)
from mvpa_kfda.utils.rounding import number, p_number
from tests.html_pages import Reader, images_in


def test_p_values_and_numbers_are_worded():
    for p, words in ((0.0249, "0.025"), (0.00999, "0.0100"), (1e-6, "< 0.0001")):
        assert p_number(p) == words
    for value, words in (
        *((0.5, "0.5"), (1 / 3, "0.333"), (120, "120"), (1234.6, "1235"), (0, "0")),
        (1e-7, "1 \N{MULTIPLICATION SIGN} 10^-7"),
        (2.5e7, "2.5 \N{MULTIPLICATION SIGN} 10^7"),
    ):
        assert number(value) == words


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (None, "\N{EN DASH}"),
        (np.nan, "\N{EN DASH}"),
        (True, "yes"),
        (np.False_, "no"),
        (12345, "12,345"),
        (9999, "9999"),
        (-0.25, "-0.25"),
        (1e-7, "1e-07"),
        ([], "\N{EN DASH}"),
        (np.array(["a", "b"]), "a, b"),
        (list(range(12)), ", ".join(map(str, range(12)))),
        (list(range(100)), "100 values: 0, 1, …, 99"),
        ({"a": 1.5, "b": None}, "a: 1.5, b: \N{EN DASH}"),
    ],
)
def test_values_are_worded(value, words):
    assert worded(value) == words


def test_columns_are_named():
    names = {
        "p_max_step_down": "p (max-step-down)",
        "p_majority_holm": "p (majority, holm)",
        "cluster_size_mm3": "Cluster size (mm³)",
        "train_time": "Training time (s)",
        "kappa": "Cohen's kappa",
        "f1_macro": "F1 (macro)",
        "mcc": "MCC",
    }
    assert {name: column_label(name) for name in names} == names


def test_tables_round_numbers_and_say_that_they_go_on():
    table = pd.DataFrame({"score": [0.5, np.nan], "p": [0.0249, 1.0], "x": np.nan})
    rows = Reader(table_html(table)).rows
    assert rows[1:] == [["0.500", "0.025"], ["\N{EN DASH}", "1.000"]]
    assert rows[0] == [column_label("score"), "p"]
    for n_more, words in ((0, []), (3, ["3 more rows are not shown."])):
        reader = Reader(table_html(pd.DataFrame({"x": np.arange(MOST_ROWS + n_more)})))
        assert len(reader.rows) == MOST_ROWS + 1
        assert [text for text in reader.texts if "more rows" in text] == words


def test_whatever_is_no_html_is_text():
    table = pd.DataFrame({"<u>": ["<u>"]})
    for html, n in (
        (facts_html({"<u>a": "<u>b", "c": ["<u>"]}), 3),
        (table_html(table), 2),
        (paragraph("<u>", "<u>"), 2),
        (folded("<u>", paragraph("<u>")), 2),
        (joined([paragraph("<u>"), paragraph("<u>")]), 2),
        (part("code", "<u>"), 1),
    ):
        assert "<u>" not in html
        assert html.count("&lt;u&gt;") == n


def test_figures_are_pictures_with_a_text():
    figure, ax = plt.subplots(figsize=(4, 2))
    ax.plot([0, 1])
    reader = Reader(figure_html(figure, "What it <shows>", "A caption."))
    (pixels,), (alternative,) = images_in(reader)
    assert alternative == "What it <shows>"
    assert "A caption." in reader.text
    assert pixels.shape[:2] == (288, 576)
    (width,) = [a["width"] for tag, a in reader.tags if tag == "img"]
    assert int(width) == round(pixels.shape[1] * 2 / 3)
