"""Templates: parts between dashes, prose as it is, and HTML with escaped values."""

import numpy as np

from mvpa_kfda.reports.citations import name
from mvpa_kfda.reports.templating import Record, all_of, macro, source, written
from tests import build


def test_parts_with_nothing_to_say_are_left_out_and_spaces_are_single():
    shown = written(
        "exploratory.txt", first="", metric=None, tags=["max", "fdr"], is_other=False
    )
    words = "The first of 2 corrections was tested (max); results with others are"
    assert shown == [f"{words} exploratory."]
    nothing = {"first": "", "metric": None, "tags": [], "is_other": False}
    assert written("exploratory.txt", **nothing) == []
    r = Record(kind="epochs", n_runs=[4, 5], by="<b>")
    (text,) = written("recordings.txt", r=r, cosines=[])
    assert text.startswith("Epochs of 4 to 5 runs were taken from the derivatives.")
    assert name("<b>") in text  # prose is not escaped, but marked as a name


def test_values_in_html_are_escaped_and_html_is_not():
    paragraph = macro("page.html", "paragraph")
    assert paragraph("<b>") == "<p>&lt;b&gt;</p>"
    folded = macro("page.html", "folded")("<b>", paragraph("&"))
    assert "<summary>&lt;b&gt;</summary><p>&amp;</p>" in folded
    assert "{%" in source("page.html")


def test_what_a_record_does_not_hold_is_none():
    record = Record(reg=0.3)
    assert record["reg"] == 0.3
    assert record["kernel"] is None
    assert "kernel" not in record
    for values, flat in (
        (None, [0]),
        (3, [3]),
        ([1, 2], [1, 2]),
        ([[1, 2], [3]], [1, 2, 3]),
        (np.array([4]), [4]),
    ):
        assert all_of(values) == flat
    assert Record(build.result().parameters)["reg"] is not None
