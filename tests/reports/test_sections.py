"""The sections of pages: what is drawn, counted and said of every kind of result."""

import re
from dataclasses import replace

import matplotlib.pyplot as plt
import numpy as np
import pytest
from sklearn.metrics import recall_score

from mvpa_kfda import cross_validate, group_inference, report
from mvpa_kfda.reports.sections import SECTIONS
from mvpa_kfda.reports.summary import HEADINGS, word_answer, word_question
from mvpa_kfda.results.fields import RESULTS
from mvpa_kfda.utils.rounding import p_number, percent, rounded
from mvpa_kfda.viz.style import CORRECTION_LABELS
from tests import build
from tests.html_pages import (
    alternatives_in,
    assert_asks_no_host,
    draw_nothing,
    draw_words,
    images_in,
    keep_sections,
    read,
    read_section,
    result_of,
)

pytestmark = [
    # The latency of so few subjects of noise is not found in all resamples.
    pytest.mark.filterwarnings("ignore:.* resamples:RuntimeWarning"),
    pytest.mark.filterwarnings("ignore:With .* subjects and:RuntimeWarning"),
]

#: What every page has, those of single subjects, and those of groups.
ALWAYS = {"Summary", "Scores", "Peaks", "Methods", "Parameters and versions"}
OF_TRIALS = ALWAYS | {"Design", "Verification"}
OF_NUMBERS = OF_TRIALS | {"Null distribution"}
OF_MAPS = OF_NUMBERS | {"Confusion"}
OF_GROUPS = ALWAYS | {"Null distribution", "Subjects", "Verification"}

#: Kind of result -> the sections of its page.
PAGES = {
    "DecodingResult": OF_TRIALS | {"Confusion", "Predictions"},
    "RegressionResult": OF_TRIALS | {"Penalty", "Predictions"},
    "TimeResult": OF_MAPS | {"Activation patterns"},
    "TimeRegressionResult": OF_NUMBERS | {"Penalty"},
    "TimeFrequencyResult": OF_MAPS | {"Activation patterns"},
    "SensorTimeResult": OF_MAPS,
    "SourceResult": OF_MAPS,
    "SourceTimeResult": OF_MAPS,
    "GeneralizationResult": OF_MAPS,
    "VolumeResult": OF_MAPS | {"Interactive view"},
    "regions": OF_MAPS | {"Interactive view", "Activation patterns"},
    "group": OF_GROUPS | {"Statistic"},
    "group of numbers": OF_GROUPS,
    "group of volumes": OF_GROUPS | {"Interactive view", "Statistic"},
    "prevalence": OF_GROUPS | {"Statistic"},
    "comparison": ALWAYS | {"Null distribution", "Statistic"},
    "latency": ALWAYS,
}
TOLD = "Warnings of the run"


def assert_worded(page):
    """Check that values are in words, but for parameters and BibTeX."""
    told = ("Parameters and versions", TOLD)
    titles = [section.title for section in SECTIONS if section.title not in told]
    texts = [read(page, title).texts for title in titles]
    # BibTeX has braces of its own, and warnings quote what was given.
    words = " ".join(text for part in texts for text in part if "@" not in text)
    assert not re.search(r"\bnan\b|\bNone\b(?! of)|\binf\b|[{}]", words)


# ------------------------------------------------------------------ what is on a page


def test_every_kind_of_result_has_a_page():
    assert set(HEADINGS) == set(RESULTS)
    assert {type(result_of(kind)).__name__ for kind in PAGES} == set(RESULTS)
    assert len({section.title for section in SECTIONS}) == len(SECTIONS)
    assert set.union(*PAGES.values()) | {TOLD} == {s.title for s in SECTIONS}


#: Kinds whose figures are drawn; those of others are tested beside their plots.
DRAWN = ("TimeResult", "RegressionResult", "group", "group of numbers", "latency")


@pytest.mark.parametrize("kind", PAGES)
def test_a_page_has_its_sections_with_figures_and_words(kind, monkeypatch):
    result, is_drawn = result_of(kind), kind in DRAWN
    if not is_drawn:
        draw_words(monkeypatch)
    page = report(result)
    titles = [part.name for part in page._content]
    assert set(titles) == PAGES[kind] | ({TOLD} if result.warnings else set())
    order = [section.title for section in SECTIONS]
    assert titles == sorted(titles, key=order.index)
    # All figures differ, show something, and say it to those who do not see them.
    reader = read(page)
    if is_drawn:
        assert all(image.std() > 0.01 for image in images_in(reader)[0])
    alternatives = alternatives_in(reader)
    assert len(alternatives) >= 1
    assert all(len(text) > 20 and "None" not in text for text in alternatives)
    assert len(set(alternatives)) == len(alternatives)
    assert "could not be drawn" not in "".join(page.html)
    assert not plt.get_fignums()
    assert_worded(page)
    assert_asks_no_host(reader)
    text = read(page, "Summary").text
    for words in (word_question(result), word_answer(result)):
        assert words in text
        assert words[0].isupper()
        assert not re.search(r"\s[,.;?]|\(\)|\b1 (times|voxels|permutations)\b", words)


@pytest.mark.parametrize("kind", ["DecodingResult", "TimeResult", "regions"])
def test_results_without_permutations_have_pages(kind, monkeypatch):
    draw_words(monkeypatch)
    page = report(result_of(kind, 0))
    titles = {part.name for part in page._content}
    assert {"Summary", "Peaks", "Methods"} <= titles
    assert "Null distribution" not in titles
    assert ("Scores" in titles) == (kind != "DecodingResult")
    assert not re.search(r"p [=<] |\(p ", word_answer(result_of(kind, 0)))


@pytest.mark.parametrize(
    "make",
    [
        lambda: build.result(average=2, n_repeats=3, n_permutations=19),
        lambda: build.result("VolumeResult", null="max", n_permutations=19),
        lambda: build.result("GeneralizationResult", null="stream", n_permutations=19),
        lambda: build.result("GeneralizationResult").diagonal(),
        lambda: build.comparison("DecodingResult"),
    ],
    ids=["repeats", "max", "stream", "diagonal", "two numbers"],
)
def test_uncommon_results_have_pages(make, monkeypatch):
    draw_words(monkeypatch)
    page = report(make())
    assert {"Summary", "Methods"} <= {part.name for part in page._content}
    assert_worded(page)


def test_a_brain_without_anything_decoded_has_a_page():
    space = build.volume_space()
    empty = build.made_of_images(space, np.full(space.n_positions, np.nan))
    parameters = result_of("VolumeResult").parameters
    page = report(replace(empty, parameters=parameters))
    assert "Nothing could be decoded." in read(page, "Summary").text


@pytest.mark.filterwarnings("ignore")
def test_a_summary_says_what_can_be_claimed():
    reader = read_section(build.group(correction="cluster", n=8), "Summary")
    assert re.search("What can be claimed.*In one cluster.*cannot be cl", reader.text)
    assert ["95 %"] in [row[2:3] for row in reader.rows]
    assert "no single time is shown" in reader.text


# --------------------------------------------------------------------- corrections


@pytest.mark.parametrize("kind", ["TimeResult", "regions"])
def test_every_correction_has_a_figure_a_table_and_its_words(kind, monkeypatch):
    keep_sections(monkeypatch, "Summary", "Scores", "Peaks", "Methods")
    draw_words(monkeypatch)
    page = report(result_of(kind), correction=["fdr", "max"])
    alternatives = alternatives_in(read(page, "Scores"))
    n_views = len(alternatives) // 2
    assert n_views == (3 if kind == "regions" else 1)
    labels = ["FDR correction"] * n_views + ["max-statistic correction"] * n_views
    for text, label in zip(alternatives, labels, strict=True):
        assert label in text
    assert alternatives[0] != alternatives[-1]
    for label in labels:
        assert f"({label})" in read(page, "Peaks").text
    assert "FDR correction" in read(page, "Summary").text
    assert "max-statistic" not in read(page, "Summary").text
    assert "Benjamini" in read(page, "Methods").text


def test_groups_have_a_figure_for_every_correction():
    group = build.group(correction=["max", "fdr"])
    pixels, alternatives = images_in(read_section(group, "Scores"))
    for text, name in zip(alternatives, group.correction, strict=True):
        assert CORRECTION_LABELS[name] in text
    assert not np.array_equal(pixels[0], pixels[1])


def test_the_null_that_is_shown_is_that_of_the_p_values(monkeypatch):
    draw_nothing(monkeypatch, "drawn")
    (section,) = (each for each in SECTIONS if each.title == "Null distribution")
    for asked, drawn in (
        (("max",), "drawn"),
        (("max-step-down",), "drawn"),
        (("tfce", "max"), "drawn"),
        (("tfce",), ""),
        (("cluster", "fdr"), ""),
    ):
        for kind in ("TimeResult", "group"):
            assert section.html(result_of(kind), asked) == drawn
    assert section.html(result_of("DecodingResult"), ("none",)) == ""


# ------------------------------------------------------------------------------ tables


def test_a_single_region_is_compared_with_its_own_null():
    region = result_of("regions").sel(place="2")
    _, (words,) = images_in(read_section(region, "Null distribution"))
    assert words.startswith("Histogram of Accuracy, one for each permutation")
    text = read_section(region, "Summary").text
    assert "The accuracy is" in text
    assert "In region 2, accuracy is above that of permuted labels (p = 0.0" in text
    assert "corrected for testing" not in read_section(region, "Methods").text


def test_tables_of_peaks_have_the_numbers_of_the_result():
    result = build.result(scoring=["accuracy", "roc_auc"], n_permutations=39)
    rows = read_section(result, "Peaks").rows
    assert rows[0] == ["Metric", "Score", "Chance", "Time (s)", "p", "p (max)"]
    for row, name in zip(rows[1:3], ("accuracy", "roc_auc"), strict=True):
        peak = result.peak(metric=name)
        p = p_number(peak["p"]), p_number(peak["p_max"])
        assert row[1:] == [f"{peak[name]:.3f}", "0.500", f"{peak['time']:g}", *p]
    clusters = result.clusters("max")
    assert rows[3][:3] == ["From (s)", "To (s)", "Places"]
    assert [float(row[0]) for row in rows[4:]] == list(clusters["from"])
    at = rows[3].index("p")
    assert [row[at] for row in rows[4:]] == [p_number(p) for p in clusters["p"]]
    # The R² of numbers has no chance level, and no column of it.
    rows = read_section(result_of("TimeRegressionResult"), "Peaks").rows
    assert rows[0] == ["Metric", "Score", "Time (s)", "p", "p (max)"]
    result = result_of("VolumeResult")
    rows = read_section(result, "Peaks").rows
    place = [f"{result.peak()[axis]:g}" for axis in "xyz"]
    assert rows[0][3:6] == ["x (mm)", "y (mm)", "z (mm)"]
    assert rows[1][3:6] == place
    assert rows[2][:3] == ["x (mm)", "y (mm)", "z (mm)"]
    assert len(rows) == 3 + len(result.peaks())


def test_problems_of_a_design_are_told_once(monkeypatch):
    draw_words(monkeypatch)
    X, codes = build.features((8, 8), 4)
    order, words = np.argsort(codes, kind="stable"), "The rows are sorted by class"
    with pytest.warns(UserWarning, match=words):
        result = cross_validate(X[order], codes[order], cv=4)
    assert words not in read_section(result, "Design").text
    assert words in read_section(replace(result, warnings=()), "Design").text


def test_subjects_are_shown_where_the_group_is_best():
    group = result_of("group")
    rows = read_section(group, "Subjects").rows
    best = group.scores.argmax()
    scores = map(rounded, group.subject_scores[:, best])
    shown = [row[:2] for row in rows[1:]]
    assert shown == [[*each] for each in zip(group.subjects, scores, strict=True)]
    numbers = dict(zip(*rows[:2], strict=True))
    assert (numbers["Trials"], numbers["Folds"]) == ("16", "4")
    people, options = build.subjects(n=10), {"labels": ("young", "old")}
    options |= {"other": people[5:], "paired": True, "random_state": 0}
    pairs = group_inference(people[:5], "sign-flip", **options)
    rows = read_section(pairs, "Subjects").rows[1:]
    best = pairs.best_position(pairs.metric)
    both = [*pairs.subject_scores, *pairs.other_scores]
    assert [row[0] for row in rows] == ["young"] * 5 + ["old"] * 5
    assert [row[2] for row in rows] == [rounded(scores[best]) for scores in both]


def test_parameters_and_versions_are_all_there():
    result = result_of("TimeResult")

    def shown_of(result):
        rows = read_section(result, "Parameters and versions").rows
        return dict(row for row in rows if len(row) == 2)

    shown = shown_of(result)
    assert set(result.parameters) | set(result.versions) <= set(shown)
    assert shown["n_permutations"] == "39"
    assert shown["scoring"] == "accuracy"
    assert shown["preprocess"] == "\N{EN DASH}"
    assert shown["numpy"] == result.versions["numpy"]
    shown = shown_of(result_of("comparison"))
    assert (shown["a: reg"], shown["b: reg"]) == ("0.3", "30")


# ----------------------------------------------------------------------------- figures


def test_recall_is_worded_for_those_who_do_not_see_it(monkeypatch):
    draw_words(monkeypatch)
    result = result_of("TimeResult")
    best = result.scores.argmax()
    recall = recall_score(result.y, result.predicted[best], average=None)
    confusion, over_time = alternatives_in(read_section(result, "Confusion"))
    assert confusion.startswith("Confusion matrix at ")
    shares = [percent(share) for share in recall]
    assert f"Recall: ant {shares[0]}, bee {shares[1]}." in confusion
    assert "Recall of each class over time" in over_time


def test_the_choice_of_a_penalty_is_shown_where_there_was_one(monkeypatch):
    draw_words(monkeypatch)
    result = build.result("TimeResult", reg="tuned", n_permutations=0)
    assert len(alternatives_in(read_section(result, "Penalty"))) == 1


def test_a_figure_that_fails_is_said_to(monkeypatch):
    def fail(*_, **__):
        raise RuntimeError("no <b>font</b>")

    monkeypatch.setattr("mvpa_kfda.reports.figures.best_place", fail)
    reader = read_section(result_of("TimeResult"), "Activation patterns")
    assert "This figure could not be drawn: no <b>font</b>" in reader.text
    assert "b" not in reader.kinds


def test_names_and_warnings_are_text():
    result, group = result_of("regions"), result_of("group")
    space = {**result.space, "names": ["<u>a</u>", "<u>b", "<u>c"]}
    subjects = np.array([f"<u>{name}</u>" for name in group.subjects])
    for title, each in (
        ("Peaks", replace(result, space=space)),
        ("Subjects", replace(group, subjects=subjects)),
        (TOLD, replace(result, warnings=("Mind <u>the</u> gap.", "Two."))),
    ):
        reader = read_section(each, title)
        assert "u" not in reader.kinds
        assert "<u>" in reader.text
