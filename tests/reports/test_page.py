"""Pages about one or several results: their parts, their file, and the command."""

import re
import time
from dataclasses import replace
from html import escape

import numpy as np
import pytest

from mvpa_kfda import decode_arrays, load_result, report
from mvpa_kfda.cli.main import main
from mvpa_kfda.reports.summary import word_answer
from mvpa_kfda.utils.rounding import p_number
from tests import build
from tests.html_pages import (
    Reader,
    alternatives_in,
    draw_nothing,
    draw_words,
    keep_sections,
    read,
    result_of,
)

pytestmark = [
    # The latency of so few subjects of noise is not found in all resamples.
    pytest.mark.filterwarnings("ignore:.* resamples:RuntimeWarning"),
    pytest.mark.filterwarnings("ignore:With .* subjects and:RuntimeWarning"),
]


@pytest.fixture
def undrawn(monkeypatch):
    draw_nothing(monkeypatch)


# ------------------------------------------------------------------- several results


def test_several_results_have_a_table_and_a_part_each(undrawn):
    named = {"01": result_of("TimeResult"), "two": result_of("group")}
    told = {"warnings": ("Shared.", "Own.")}
    named["<b>"] = replace(result_of("latency"), **told)
    named["four"] = replace(result_of("TimeResult"), warnings=("Shared.",))
    page = report(named)
    assert page.title == "Decoding results"
    table = read(page, "All results")
    rows = table.rows[1:]
    assert [row[0] for row in rows] == list(named)
    assert [row[2] for row in rows] == [word_answer(x) for x in named.values()]
    first = named["01"].pvalues("max").min()
    smallest = [first, named["two"].pvalues().min(), np.nan, first]
    assert [row[3] for row in rows] == [p_number(p) for p in smallest]
    assert [row[4] for row in rows] == [str(len(x.warnings)) for x in named.values()]
    assert "<b> and four: Shared." in table.text
    assert read(page, "Warnings of the run").texts.count("Shared.") == 0
    assert "Own." in read(page, "Warnings of the run").texts
    assert [part.section for part in page._content if part.name == "Summary"] == [
        *("Result 01", "two", "Result <b>", "four"),
    ]
    # The page's script looks for its parts by these.
    ids = Reader("".join(page.html)).ids
    assert len(set(ids)) == len(ids)
    assert all(re.fullmatch(r"[A-Za-z_][\w-]*", each) for each in ids)


def test_many_results_have_no_interactive_views(monkeypatch):
    keep_sections(monkeypatch, "Interactive view")
    draw_words(monkeypatch)
    made = dict.fromkeys("abcd", result_of("DecodingResult"))
    for n_more, left_out in ((0, False), (1, True)):
        named = dict([*made.items()][: 3 + n_more])
        page = report(named | {"map": result_of("VolumeResult")})
        titles = {part.name for part in page._content}
        assert ("Interactive view" in titles) == (not left_out)
        words = read(page, "All results").text
        assert ("views are left out of pages about more than 4" in words) == left_out
    words = read(report(made | {"e": result_of("DecodingResult")}), "All results").text
    assert "left out" not in words


def test_a_list_is_numbered_and_has_the_correction_that_is_asked_for(monkeypatch):
    keep_sections(monkeypatch)
    result = result_of("TimeResult")
    page = report([result, result], correction="fdr")
    p = p_number(np.nanmin(result.pvalues("fdr")))
    rows = read(page, "All results").rows[1:]
    assert [row[0] for row in rows] == ["Result 1", "Result 2"]
    assert [row[3] for row in rows] == [p, p]
    assert page.title == "Decoding over time"


def test_a_loaded_result_gives_the_same_page(tmp_path, undrawn):
    group = result_of("group")
    group.save(tmp_path / "group.h5")
    assert report(load_result(tmp_path / "group.h5")).html == report(group).html
    of_file = report({"all": tmp_path / "group.h5"})
    assert "mvpa-kfda verify group.h5 DATA" in read(of_file, "Verification").texts


# ----------------------------------------------------------------------- names of data


HOSTILE = ["<b>x</b>", '"&<script>alert(1)</script>', "$\\frac$"]


def test_names_from_data_and_titles_are_text(tmp_path, undrawn):
    X, codes = build.trials((9, 9, 9), 4, 3)
    y = np.array(HOSTILE)[codes]
    result = decode_arrays(X, y, cv=3, n_permutations=19, random_state=0)
    for title in ("<i>Title</i>", 'a "b" & c'):
        report(result, tmp_path / "page.html", title, overwrite=True)
        reader = Reader((tmp_path / "page.html").read_text("utf-8"))
        assert "i" not in reader.kinds
        assert title in reader.text
    reader = read(report(result, title="<i>Title</i>"))
    assert not {"b", "script"} & reader.kinds
    for name in HOSTILE:
        assert name in reader.text


def test_names_as_long_as_books_take_no_time(monkeypatch):
    """Figures cut them: letter by letter they took minutes."""
    keep_sections(monkeypatch, "Summary", "Scores", "Confusion", "Methods")
    result = build.result("TimeResult")
    long = [name * 100_000 for name in "ab"]
    started = time.process_time()
    report(replace(result, classes=np.array(long)))
    assert time.process_time() - started < 10


# ---------------------------------------------------------------- files, and bad input


def test_files_are_not_replaced_unasked(tmp_path, undrawn):
    path = tmp_path / "page.html"
    path.write_text("mine")
    with pytest.raises(FileExistsError, match="overwrite=True"):
        report(result_of("latency"), path)
    assert path.read_text() == "mine"
    report(result_of("latency"), path, overwrite=True)
    assert "Latency" in path.read_text("utf-8")


ONE = "latency"
#: Results, options, and what is raised.
REFUSED = [
    ([], {}, ValueError, "There are no results"),
    (3, {}, TypeError, "got int"),
    ([1], {}, TypeError, "Result 1 is no result but of type int"),
    ("result.h5", {}, FileNotFoundError, "There is no file result.h5"),
    ({1: None}, {}, TypeError, "name must be text; got 1"),
    (ONE, {"title": 3}, TypeError, "'title': 3"),
    (ONE, {"fname": "page.pdf"}, ValueError, r"ends in \.html"),
    (ONE, {"fname": "no/page.html"}, FileNotFoundError, "does not exist"),
    (ONE, {"correction": "maximum"}, ValueError, "'correction'"),
]


@pytest.mark.parametrize(("results", "options", "error", "match"), REFUSED)
def test_what_makes_no_page_is_refused_before_anything_is_drawn(
    results, options, error, match, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    results = result_of(ONE) if results == ONE else results
    with pytest.raises(error, match=match):
        report(results, **{"fname": "a.html"} | options)
    assert not [*tmp_path.iterdir()]


def test_a_correction_that_needs_more_than_was_kept_is_refused():
    kept_too_little = {"mine": build.result("VolumeResult", null="max")}
    with pytest.raises(ValueError, match=r"mine: .*'cluster' needs the whole null"):
        report(kept_too_little, correction="cluster")


# ------------------------------------------------------------------------ the command


@pytest.fixture
def saved(tmp_path, monkeypatch):
    """Save two results in a folder to work in."""
    monkeypatch.chdir(tmp_path)
    result_of("latency").save("latency.h5")
    result_of("DecodingResult").save("single.h5")
    return tmp_path


def test_the_command_writes_the_page_that_python_makes(saved, capsys, monkeypatch):
    draw_words(monkeypatch)
    assert main(["report", "latency.h5", "--title", "Onsets & peaks"]) == 0
    assert capsys.readouterr().out == "Wrote latency.html\n"
    assert "Onsets &amp; peaks" in (saved / "latency.html").read_text("utf-8")
    assert main(["report", "latency.h5"]) == 2
    assert "pass overwrite=True to replace it" in capsys.readouterr().err
    assert main(["report", "latency.h5", "--overwrite"]) == 0
    keep_sections(monkeypatch, "Scores")
    result_of("TimeResult").save("time.h5")
    assert main(["report", "time.h5", "--correction", "fdr", "max"]) == 0
    text = (saved / "time.html").read_text("utf-8")
    expected = report(result_of("TimeResult"), correction=["fdr", "max"])
    alternatives = alternatives_in(read(expected, "Scores"))
    assert len(alternatives) == 2
    assert all(escape(each) in text for each in alternatives)


def test_the_command_names_results_by_their_files(saved, capsys, undrawn):
    assert main(["report", "*.h5", "--fname", "both.html"]) == 0
    assert capsys.readouterr().out == "Wrote both.html\n"
    reader = Reader((saved / "both.html").read_text("utf-8"))
    rows = [row for row in reader.rows if row[0] in ("latency", "single")]
    assert [row[1] for row in rows] == ["Latency", "Decoding"]
    (saved / "sub").mkdir()
    (saved / "sub" / "latency.h5").write_bytes((saved / "latency.h5").read_bytes())
    assert main(["report", "latency.h5", "sub/latency.h5"]) == 0
    text = Reader((saved / "report.html").read_text("utf-8")).text
    assert "sub/latency.h5" in text
