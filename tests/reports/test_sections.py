"""Pages about results: what is on them, and that they ask no host for anything."""

import base64
import io
import re
import time
import webbrowser
from dataclasses import replace
from functools import cache
from html import escape
from html.parser import HTMLParser

import matplotlib.pyplot as plt
import mne
import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import recall_score

import mvpa_kfda
from mvpa_kfda import (
    compare,
    decode_arrays,
    decode_epochs,
    generalize_arrays,
    group_inference,
    load_result,
    report,
    simulate_epochs,
)
from mvpa_kfda.cli.main import main
from mvpa_kfda.reports import sections
from mvpa_kfda.reports.figures import (
    best_place,
    plot_channel_patterns,
)
from mvpa_kfda.reports.html import (
    MOST_ROWS,
    column_label,
    facts_html,
    table_html,
    worded,
)
from mvpa_kfda.reports.sections import SECTIONS
from mvpa_kfda.reports.summary import (
    HEADINGS,
    corrections_of,
    word_answer,
    word_question,
)
from mvpa_kfda.results.fields import RESULTS
from mvpa_kfda.utils.rounding import p_number, percent, rounded
from mvpa_kfda.viz.null import plot_map_null, quantile_of
from mvpa_kfda.viz.style import CORRECTION_LABELS, draw_apart
from tests import build

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
    "latency": ALWAYS | {"Warnings of the run"},
}
GROUPS = {
    "group": build.group,
    "group of numbers": lambda: build.group("DecodingResult"),
    "group of volumes": lambda: build.group("VolumeResult"),
    "prevalence": lambda: build.group(method="prevalence", n_permutations=999),
    "comparison": build.comparison,
    "latency": build.latency,
}
of_every_kind = pytest.mark.parametrize("kind", PAGES)


@cache
def result_of(kind, n_permutations=39, **options):
    """Return a result of a kind, made once."""
    if kind in GROUPS:
        return GROUPS[kind]()
    return build.result(kind, n_permutations=n_permutations, **options)


@cache
def page_of(kind):
    """Return the page about a result, made once."""
    return report(result_of(kind))


class Reader(HTMLParser):
    """Reads what the tests ask a page for."""

    def __init__(self, html):
        super().__init__()
        self.tags, self.styles, self.ids, self.texts = [], [], [], []
        self.cells, self.rows, self.inside = [], [], []
        self.feed(html)

    def handle_starttag(self, tag, attributes):
        attributes = dict(attributes)
        self.tags.append((tag, attributes))
        self.ids += [attributes["id"]] if "id" in attributes else []
        if tag not in ("img", "meta", "input", "hr", "br", "link"):
            self.inside.append(tag)
        if tag == "tr":
            self.rows.append([])
        if tag in ("td", "th"):
            self.rows[-1].append("")

    def handle_endtag(self, tag):
        if tag in self.inside:
            while self.inside.pop() != tag:
                pass

    def handle_data(self, data):
        if {"style"} & set(self.inside):
            self.styles.append(data)
        elif "script" not in self.inside:
            self.texts.append(data)
            if {"td", "th"} & set(self.inside):
                self.rows[-1][-1] += data

    @property
    def text(self):
        return " ".join(" ".join(self.texts).split())


def read(page, title=None):
    """Read a page, or one of its parts."""
    parts = [each for each in page._content if title in (None, each.name)]
    return Reader("".join(each.html for each in parts))


def read_section(result, title):
    """Read one section about a result."""
    (section,) = (each for each in SECTIONS if each.title == title)
    return Reader(section.html(result, corrections_of(result)))


def images_in(reader):
    """Return the pixels of the figures of a page, and their alternative texts."""
    images = [attributes for tag, attributes in reader.tags if tag == "img"]
    pixels = []
    for image in images:
        data = image["src"].removeprefix("data:image/png;base64,")
        pixels.append(plt.imread(io.BytesIO(base64.b64decode(data))))
    return pixels, [image["alt"] for image in images]


def assert_worded(page):
    """Check that values are in words, but for parameters and BibTeX."""
    told = ("Parameters and versions", "Warnings of the run")
    titles = [section.title for section in SECTIONS if section.title not in told]
    texts = [read(page, title).texts for title in titles]
    # BibTeX has braces of its own, and warnings quote what was given.
    words = " ".join(text for part in texts for text in part if "@" not in text)
    assert not re.search(r"\bnan\b|\bNone\b(?! of)|\binf\b|[{}]", words)


@pytest.fixture
def few(monkeypatch):
    """Return a function that leaves out all but some sections."""

    def leave(*titles):
        kept = [section for section in SECTIONS if section.title in titles]
        monkeypatch.setattr("mvpa_kfda.reports.page.SECTIONS", kept)

    return leave


@pytest.fixture
def undrawn(monkeypatch):
    """Leave out the figures, for tests of what stands beside them."""
    monkeypatch.setattr(sections, "_draw", lambda *plot, **options: "")


# ------------------------------------------------------------------ what is on a page


def test_every_kind_of_result_has_a_page():
    assert set(HEADINGS) == set(RESULTS)
    assert {type(result_of(kind)).__name__ for kind in PAGES} == set(RESULTS)
    assert len({section.title for section in SECTIONS}) == len(SECTIONS)
    assert set.union(*PAGES.values()) == {s.title for s in SECTIONS}


@pytest.mark.some(3)
@of_every_kind
def test_page_has_its_sections(kind):
    titles = [part.name for part in page_of(kind)._content]
    assert set(titles) - {"Warnings of the run"} == PAGES[kind] - {
        "Warnings of the run"
    }
    order = [section.title for section in SECTIONS]
    assert titles == sorted(titles, key=order.index)
    assert ("Warnings of the run" in titles) == bool(result_of(kind).warnings)


@pytest.mark.some(2)
@of_every_kind
def test_figures_are_drawn_and_described(kind):
    pixels, alternatives = images_in(read(page_of(kind)))
    assert len(pixels) >= 1
    assert all(image.std() > 0.01 for image in pixels)
    assert all(len(text) > 20 and "None" not in text for text in alternatives)
    assert len(set(alternatives)) == len(alternatives)
    assert "could not be drawn" not in "".join(page_of(kind).html)
    assert not plt.get_fignums()


@pytest.mark.some(5)
@of_every_kind
def test_nothing_is_left_unworded(kind):
    assert_worded(page_of(kind))
    text = read(page_of(kind), "Summary").text
    question = word_question(result_of(kind))
    assert question in text
    assert word_answer(result_of(kind)) in text
    for words in (question, word_answer(result_of(kind))):
        assert words[0].isupper()
        assert not re.search(r"\s[,.;?]|\(\)|\b1 (times|voxels|permutations)\b", words)


@pytest.mark.some(2)
@pytest.mark.parametrize(
    "kind", ["DecodingResult", "TimeResult", "TimeRegressionResult", "regions"]
)
def test_results_without_permutations_have_pages(kind):
    page = report(result_of(kind, 0))
    titles = {part.name for part in page._content}
    assert {"Summary", "Peaks", "Methods"} <= titles
    assert "Null distribution" not in titles
    assert "could not be drawn" not in "".join(page.html)
    assert not re.search(r"p [=<] |\(p ", word_answer(result_of(kind, 0)))


# Scores on a grid of sixteenths: no number here is rounded.
def test_answer_counts_what_is_significant():
    result = result_of("TimeResult")
    p = result.pvalues("max")
    best = result.scores.argmax()
    expected = (
        f"The highest accuracy is {result.scores[best]:.3f} at {result.times[best]:g} s"
        f" (chance 0.500); significant at {(p <= 0.05).sum()} of 3 time points: 0.01 s "
        f"(p ≤ 0.05, max-statistic correction; smallest p = {p.min():.3f})."
    )
    assert word_answer(result) == expected
    assert (p <= 0.05).any()


def test_answer_says_where_too_few_permutations_decide():
    answer = word_answer(result_of("TimeResult", 9))
    assert "significant at none of 3 time points" in answer
    assert answer.endswith("; too few permutations to reach this level).")


def test_answer_of_a_single_number():
    result = result_of("DecodingResult")
    assert word_answer(result) == (
        f"The accuracy is {result.scores:.3f} (chance 0.500); "
        f"p = {result.pvalues():.3f}."
    )


@pytest.mark.parametrize("alpha", [0.05, 0.06, 0.08, 0.1, 0.2])
def test_share_of_the_population_is_never_rounded_up(alpha):
    group = replace(result_of("prevalence"), alpha=alpha)
    largest = np.nanmax(group.gamma_0)
    (share,) = re.findall(r"more than (\d+) %", word_answer(group))
    assert int(share) <= 100 * largest < int(share) + 1


def test_clusters_are_not_said_to_be_significant_one_time_at_a_time():
    group = build.group(correction="cluster", n=8)
    n = (group.pvalues("cluster") <= 0.05).sum()
    assert n
    expected = f"; significant clusters cover {n} of 3 time points: "
    assert expected in word_answer(group)
    single = result_of("TimeResult")
    n = (single.pvalues("cluster") <= 0.05).sum()
    expected = f"; significant clusters cover {n} of 3 time points: "
    assert expected in word_answer(single, "cluster")


@pytest.mark.parametrize(
    "kind", ["TimeResult", pytest.param("regions", marks=pytest.mark.slow)]
)
def test_every_correction_has_a_figure_a_table_and_its_words(kind, few):
    few("Summary", "Scores", "Peaks", "Methods")
    page = report(result_of(kind), correction=["fdr", "max"])
    (_, alternatives) = images_in(read(page, "Scores"))
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


def test_the_table_of_results_has_the_correction_that_is_asked_for(monkeypatch):
    monkeypatch.setattr("mvpa_kfda.reports.page.SECTIONS", [])
    result = result_of("TimeResult")
    page = report({"a": result, "b": result}, correction="fdr")
    p = p_number(np.nanmin(result.pvalues("fdr")))
    assert [row[3] for row in read(page, "All results").rows[1:]] == [p, p]


def test_groups_have_a_figure_for_every_correction(few):
    few("Scores")
    group = build.group(correction=["max", "fdr", "cluster"])
    page = report(group, correction="tfce")  # which is of subjects
    (_, alternatives) = images_in(read(page, "Scores"))
    for text, name in zip(alternatives, group.correction, strict=True):
        assert CORRECTION_LABELS[name] in text
    pixels = images_in(read(page, "Scores"))[0]
    assert not np.array_equal(pixels[0], pixels[1])


def test_unknown_corrections_are_refused_before_anything_is_drawn(tmp_path):
    for wrong, error in (("maximum", ValueError), (["max", 3], ValueError)):
        with pytest.raises(error, match="'correction'"):
            report(result_of("TimeResult"), tmp_path / "a.html", correction=wrong)
    assert not [*tmp_path.iterdir()]
    kept_too_little = {"mine": build.result("VolumeResult", null="max")}
    with pytest.raises(ValueError, match=r"mine: .*'cluster' needs the whole null"):
        report(kept_too_little, correction="cluster")


def test_metrics_keep_their_capitals_within_sentences():
    group = group_inference(build.subjects(n=5, scoring="roc_auc"), "sign-flip")
    assert word_question(group).startswith("Is mean ROC AUC over the population above")
    assert word_answer(group).startswith("The highest mean ROC AUC is ")
    options = {"n_permutations": 39, "scoring": "kappa"}
    compared = compare(*(build.result(reg=reg, **options) for reg in (0.3, 30.0)))
    assert word_answer(compared).startswith(
        "The largest difference in Cohen's kappa is "
    )
    assert word_question(compared).startswith(
        "Does Cohen's kappa differ between result a "
    )
    assert "Largest difference in Cohen's kappa" in compared._facts()


def test_questions_of_two_lists_name_both():
    subjects, options = build.subjects(n=10), {"labels": ("young", "old")}
    options |= {"other": subjects[5:], "paired": True, "random_state": 0}
    groups = group_inference(subjects[:5], "sign-flip", **options)
    assert word_question(groups).startswith(
        "Does mean accuracy differ between young and old at 3 times from"
    )
    table = read_section(groups, "Subjects").rows
    assert [row[0] for row in table[1:]] == ["young"] * 5 + ["old"] * 5


def test_table_of_peaks_has_the_numbers_of_the_result():
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


def test_peaks_of_brains_are_in_mm():
    result = result_of("VolumeResult")
    rows = read_section(result, "Peaks").rows
    place = [f"{result.peak()[axis]:g}" for axis in "xyz"]
    assert rows[0][3:6] == ["x (mm)", "y (mm)", "z (mm)"]
    assert rows[1][3:6] == place
    assert rows[2][:3] == ["x (mm)", "y (mm)", "z (mm)"]
    assert len(rows) == 3 + len(result.peaks())


def test_recall_is_worded_for_those_who_do_not_see_it():
    result = result_of("TimeResult")
    best = result.scores.argmax()
    recall = recall_score(result.y, result.predicted[best], average=None)
    confusion, over_time = images_in(read(page_of("TimeResult"), "Confusion"))[1]
    assert confusion.startswith("Confusion matrix at ")
    shares = [percent(share) for share in recall]
    assert f"Recall: ant {shares[0]}, bee {shares[1]}." in confusion
    assert "Recall of each class over time" in over_time


def test_subjects_are_shown_where_the_group_is_best():
    group = result_of("group")
    rows = read(page_of("group"), "Subjects").rows
    best = group.scores.argmax()
    assert [row[0] for row in rows[1:]] == list(group.subjects)
    assert [row[1] for row in rows[1:]] == [
        f"{score:.3f}" for score in group.subject_scores[:, best]
    ]


def facts_of(kind):
    """Return what the tables of a page with two columns say, name -> words."""
    rows = read(page_of(kind), "Parameters and versions").rows
    return dict(row for row in rows if len(row) == 2)


def test_parameters_and_versions_are_all_there():
    result = result_of("TimeResult")
    shown = {
        row[0]: row[1] for row in read(page_of("TimeResult")).rows if len(row) == 2
    }
    assert set(result.parameters) | set(result.versions) <= set(shown)
    assert shown["n_permutations"] == "39"
    assert shown["scoring"] == "accuracy"
    assert shown["preprocess"] == "\N{EN DASH}"
    assert shown["numpy"] == result.versions["numpy"]


def test_parameters_of_both_compared_results_are_there():
    shown = {
        row[0]: row[1] for row in read(page_of("comparison")).rows if len(row) == 2
    }
    assert (shown["a: reg"], shown["b: reg"]) == ("0.3", "30")


def test_warnings_are_shown_as_they_were_given():
    result = replace(result_of("TimeResult"), warnings=("Mind <b>the</b> gap.", "Two."))
    reader = read_section(result, "Warnings of the run")
    assert "Mind <b>the</b> gap." in reader.text
    assert "Two." in reader.text
    assert ("b", {}) not in reader.tags


def test_the_choice_of_a_penalty_is_shown_where_there_was_one():
    result = build.result("TimeResult", reg="tuned", n_permutations=0)
    assert len(images_in(read_section(result, "Penalty"))[0]) == 1


@pytest.mark.slow
@pytest.mark.parametrize(
    "make",
    [
        lambda: build.result(average=2, permute="within_folds", n_permutations=19),
        lambda: build.result(average=2, n_repeats=3, n_permutations=19),
        lambda: build.result(kernel="rbf", n_permutations=19),
        lambda: build.result(scoring=["accuracy", "confusion_matrix"]),
        lambda: build.result("VolumeResult", null="max", n_permutations=19),
        lambda: build.result("GeneralizationResult", null="stream", n_permutations=19),
        lambda: build.result("GeneralizationResult").diagonal(),
        lambda: other_trials(),
        lambda: build.comparison("DecodingResult"),
    ],
    ids=[
        *("averages", "repeats", "rbf", "table", "max", "stream", "diagonal"),
        *("others", "two numbers"),
    ],
)
def test_uncommon_results_have_pages(make):
    page = report(make())
    html = "".join(page.html)
    assert "could not be drawn" not in html
    assert {"Summary", "Methods"} <= {part.name for part in page._content}
    assert_worded(page)


def other_trials():
    """Decode trials of another session by models of the first."""
    X, codes = build.trials((8, 8), 4, 3)
    X_test, codes_test = build.trials((5, 5), 4, 3, seed=1)
    y, y_test = build.NAMES[codes], build.NAMES[codes_test]
    options = {"same_trials": False, "n_permutations": 19, "random_state": 0}
    return generalize_arrays(X, y, X_test=X_test, y_test=y_test, **options)


def test_a_brain_without_anything_decoded_has_a_page():
    space = build.volume_space()
    empty = build.made_of_images(space, np.full(space.n_positions, np.nan))
    parameters = result_of("VolumeResult").parameters
    page = report(replace(empty, parameters=parameters))
    assert "Nothing could be decoded." in read(page, "Summary").text


def test_many_channels_and_classes_have_patterns():
    epochs = simulate_epochs(n_classes=3, random_state=0)
    result = decode_epochs(epochs, step=0.1)
    (_, (alternative,)) = images_in(read_section(result, "Activation patterns"))
    assert "Activation pattern" in alternative
    assert best_place(result) == (result.scores.argmax(),)


@pytest.mark.parametrize(
    ("kind", "label"),
    [
        ("eeg", "EEG (µV)"),
        ("mag", "Magnetometers (fT)"),
        ("grad", "Gradiometers (fT/cm)"),
        ("seeg", "sEEG (mV)"),
    ],
)
def test_patterns_name_their_channels_and_units(kind, label):
    X, codes = build.trials((10, 10), 5, 3)
    result = decode_epochs(build.epochs(X, codes, kind), "word", cv=4)
    labels = {ax.get_ylabel() for ax in plot_channel_patterns(result).axes}
    assert label in labels
    places = {
        ch["ch_name"]: [0.07 * np.cos(i), 0.07 * np.sin(i), 0.06]
        for i, ch in enumerate(result.info["chs"])
    }
    if kind == "eeg":  # on a part of the head
        epochs = build.epochs(X, codes, kind)
        epochs.set_montage(mne.channels.make_dig_montage(places))
        figure = plot_channel_patterns(decode_epochs(epochs, "word", cv=4))
        (bar,) = (ax for ax in figure.axes if ax.get_label() == "<colorbar>")
        assert bar.get_ylabel() == label
        assert all(len(ax.images) == 1 for ax in figure.axes if ax is not bar)


# ------------------------------------------------------------- the null of a whole map


@pytest.mark.parametrize("kind", ["TimeResult", "group"])
@pytest.mark.parametrize(
    ("asked", "drawn"),
    [
        (["max"], True),
        (["max-step-down"], True),
        (["tfce", "max"], True),
        (["tfce"], False),
        (["cluster", "fdr"], False),
    ],
)
def test_a_page_shows_the_null_of_its_own_p_values(kind, asked, drawn):
    if kind == "group":
        result, options = build.group(correction=asked), {}
    else:
        result, options = result_of(kind), {"correction": asked}
    titles = {part.name for part in report(result, **options)._content}
    assert ("Null distribution" in titles) == drawn


@pytest.mark.parametrize("null", ["full", "max", "stream"])
def test_every_result_of_a_subject_has_its_null(null):
    volume = build.result("VolumeResult", 0, 39, null=null)
    maxima = volume.null_max
    ax = volume.plot_null(alpha=0.1)
    labels = ax.get_legend_handles_labels()[1]
    p = np.nanmin(volume.pvalues("max"))
    assert f"observed, {rounded(np.nanmax(volume.scores))} (p = {p:.2g})" in labels
    assert f"p ≤ 0.1 above {rounded(np.sort(maxima)[-4])}" in labels
    heights = [patch.get_height() for patch in ax.patches]
    assert sum(heights) == len(maxima) == 39


def test_the_null_of_a_single_number_and_of_another_metric():
    result = build.result(scoring=["accuracy", "roc_auc"], n_permutations=39)
    assert result.plot_null(metric="roc_auc").get_xlabel() == (
        "ROC AUC, maximum over positions"
    )
    single = result_of("DecodingResult")
    assert single.plot_null().get_xlabel() == "Accuracy"
    for kind in ("DecodingResult", "TimeResult"):
        with pytest.raises(ValueError, match="n_permutations"):
            result_of(kind, 0).plot_null()
    with pytest.raises(ValueError, match="'alpha': 2"):
        single.plot_null(alpha=2)


@settings(derandomize=True, deadline=None, max_examples=100, database=None)
@given(
    null=st.lists(st.integers(0, 12), min_size=1, max_size=60),
    alpha=st.sampled_from([0.01, 0.05, 0.1, 0.5]),
)
def test_what_is_above_the_line_is_significant(null, alpha):
    null = np.array(null) / 12
    bound = quantile_of(null, alpha)
    for score in np.arange(-1, 15) / 12:
        p = (1 + np.sum(null >= score)) / (1 + len(null))
        above = bound is not None and score > bound
        assert above == (p <= alpha + 1e-12)


def test_null_of_a_map_is_of_the_largest_scores():
    result = result_of("TimeResult")
    figure = draw_apart(plot_map_null, result)
    (ax,) = figure.axes
    counts = [patch.get_height() for patch in ax.patches]
    edges = [patch.get_x() for patch in ax.patches]
    edges.append(edges[-1] + ax.patches[-1].get_width())
    largest = result.null.max(axis=1)
    assert counts == np.histogram(largest, edges)[0].tolist()
    assert sum(counts) == 39
    (observed,) = [
        line.get_xdata()[0]
        for line in ax.lines
        if line.get_label().startswith("observed")
    ]
    assert observed == result.scores.max()


def test_both_nulls_of_a_map_of_generalization_are_drawn():
    ax = draw_apart(plot_map_null, result_of("GeneralizationResult")).axes[0]
    labels = ax.get_legend_handles_labels()[1]
    assert "permuted labels" in labels
    assert "permuted labels of the training trials alone" in labels
    second = result_of("GeneralizationResult").second_scores["accuracy"]
    (drawn,) = [line for line in ax.lines if "second test" in line.get_label()]
    assert drawn.get_xdata()[0] == second.max()


# ------------------------------------------------------------------- words and numbers


@pytest.mark.parametrize(
    ("p", "words"),
    [
        (1, "1.000"),
        (0.0249, "0.025"),
        (0.00999, "0.0100"),
        (0.0001, "0.0001"),
        (1e-6, "< 0.0001"),
    ],
)
def test_p_values_are_worded(p, words):
    assert p_number(p) == words


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (None, "\N{EN DASH}"),
        (np.nan, "\N{EN DASH}"),
        (True, "yes"),
        (np.False_, "no"),
        (12345, "12,345"),
        (-0.25, "-0.25"),
        (1e-7, "1e-07"),
        ([], "\N{EN DASH}"),
        (np.array(["a", "b"]), "a, b"),
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


def test_long_tables_say_that_they_go_on():
    rows = Reader(table_html(pd.DataFrame({"x": np.arange(MOST_ROWS + 3)})))
    assert len(rows.rows) == MOST_ROWS + 1
    assert "3 more rows are not shown." in rows.text


# ------------------------------------------------------------------- the page as a file


#: Attributes by which pages load something, without a click.
LOADING = {"src", "srcset", "data", "poster", "background", "action", "xlink:href"}


@pytest.mark.some(3)
@of_every_kind
def test_page_asks_no_host_for_anything(kind, tmp_path):
    page_of(kind).save(tmp_path / "page.html", open_browser=False, verbose="error")
    reader = Reader((tmp_path / "page.html").read_text("utf-8"))
    for tag, attributes in reader.tags:
        for name, value in attributes.items():
            assert name not in LOADING or value.startswith("data:"), (tag, name)
            assert "url(" not in (value or "") or name != "style"
            # Links in text wait for a click.
            assert name != "href" or tag == "a" or value.startswith("#"), tag
    style = "".join(reader.styles)
    assert "@import" not in style
    assert re.findall(r"url\((?!\s*[\"']?(?:data:|#)).{20}", style) == []
    assert ("meta", {"name": "viewport"}.items()) in [
        (tag, attributes.items() & {"name": "viewport"}.items())
        for tag, attributes in reader.tags
    ]


HOSTILE = ["<b>x</b>", '"&<script>alert(1)</script>', "$\\frac$"]


def test_pages_say_who_made_them(tmp_path, monkeypatch, undrawn):
    opened = []
    monkeypatch.setattr(webbrowser, "open_new_tab", opened.append)
    page = report(result_of("TimeResult"), tmp_path / "page.html")
    assert isinstance(page, mne.Report)
    page.add_html("<footer>mine</footer> stays", title="Added")
    page.save(tmp_path / "again.html")
    assert opened == [(tmp_path / "again.html").resolve().as_uri()]
    for name in ("page.html", "again.html"):
        text = (tmp_path / name).read_text(encoding="utf-8")
        assert not re.search(r'alt="MNE"|mne\.tools|class="[^"]*fixed-bottom', text)
        *_, foot = text.split("<footer")
        assert f"mvpa_kfda {mvpa_kfda.__version__}" in foot
        assert foot.rstrip().endswith("</html>")
        reader = Reader(text)
        assert reader.texts.count("MNE-Python") == 0
        assert reader.inside == []  # all that was opened is closed
        assert "&lt;script" not in text  # no code of the page is shown as text
    assert "<footer>mine</footer> stays" in text
    page.save(tmp_path / "page.html", overwrite=True, open_browser=False)
    assert len(opened) == 1


def test_names_from_data_are_text():
    X, codes = build.trials((9, 9, 9), 4, 3)
    y = np.array(HOSTILE)[codes]
    result = decode_arrays(X, y, cv=3, n_permutations=19, random_state=0)
    reader = read(report(result, title="<i>Title</i>"))
    assert not {"b", "script"} & {tag for tag, _ in reader.tags}
    for name in HOSTILE:
        assert name in reader.text


def test_a_figure_that_fails_is_said_to(monkeypatch):
    def fail(*_, **__):
        raise RuntimeError("no <b>font</b>")

    monkeypatch.setattr("mvpa_kfda.reports.figures.best_place", fail)
    reader = read_section(result_of("TimeResult"), "Activation patterns")
    assert "This figure could not be drawn: no <b>font</b>" in reader.text
    assert "b" not in {tag for tag, _ in reader.tags}


def test_names_of_regions_and_subjects_are_text():
    result = result_of("regions")
    space = {**result.space, "names": ["<u>a</u>", "<u>b", "<u>c"]}
    group = result_of("group")
    subjects = np.array([f"<u>{name}</u>" for name in group.subjects])
    parts = {
        "Peaks": replace(result, space=space),
        "Subjects": replace(group, subjects=subjects),
    }
    for title, each in parts.items():
        reader = read_section(each, title)
        assert "u" not in {tag for tag, _ in reader.tags}
        assert "<u>" in reader.text


def test_facts_are_text():
    html = facts_html({"<u>a": "<u>b", "c": ["<u>"]})
    assert "<u>" not in html
    assert html.count("&lt;u&gt;") == 3


@pytest.mark.parametrize("title", ["<i>Title</i>", 'a "b" & c'])
def test_titles_are_text(title, tmp_path, undrawn):
    report(result_of("latency"), tmp_path / "page.html", title)
    reader = Reader((tmp_path / "page.html").read_text("utf-8"))
    assert "i" not in {tag for tag, _ in reader.tags}
    assert title in reader.text


@pytest.mark.slow
def test_same_results_give_the_same_page():
    page, again = page_of("TimeResult"), report(result_of("TimeResult"))
    assert page.html == again.html


def test_a_loaded_result_gives_the_same_page(tmp_path, few):
    result_of("group").save(tmp_path / "group.h5")
    assert report(load_result(tmp_path / "group.h5")).html == page_of("group").html
    few("Verification")
    of_file = report({"all": tmp_path / "group.h5"})
    assert "mvpa-kfda verify group.h5 DATA" in read(of_file, "Verification").texts


def test_several_results_have_a_table_and_a_part_each(undrawn):
    kinds = ("TimeResult", "group", "latency")
    named = {"01": result_of(kinds[0]), "two": result_of(kinds[1])}
    named["<b>"] = result_of(kinds[2])
    page = report(named)
    assert page.title == "Decoding results"
    rows = read(page, "All results").rows
    assert [row[0] for row in rows[1:]] == list(named)
    assert [row[2] for row in rows[1:]] == [word_answer(x) for x in named.values()]
    smallest = [named["01"].pvalues("max").min(), named["two"].pvalues().min(), np.nan]
    assert [row[3] for row in rows[1:]] == [p_number(p) for p in smallest]
    assert [part.section for part in page._content if part.name == "Summary"] == [
        "Result 01",
        "two",
        "Result <b>",
    ]
    # The page's script looks for its parts by these.
    ids = Reader("".join(page.html)).ids
    assert len(set(ids)) == len(ids)
    assert all(re.fullmatch(r"[A-Za-z_][\w-]*", each) for each in ids)


def test_a_list_is_numbered(undrawn):
    page = report([result_of("latency"), result_of("latency")])
    assert [row[0] for row in read(page, "All results").rows[1:]] == [
        "Result 1",
        "Result 2",
    ]
    assert page.title == "Latency"


# ------------------------------------------------------------------------ what is wrong


def test_files_are_not_replaced_unasked(tmp_path, undrawn):
    path = tmp_path / "page.html"
    path.write_text("mine")
    with pytest.raises(FileExistsError, match="overwrite=True"):
        report(result_of("latency"), path)
    assert path.read_text() == "mine"
    report(result_of("latency"), path, overwrite=True)
    assert "Latency" in path.read_text("utf-8")


@pytest.mark.parametrize(
    ("results", "error", "match"),
    [
        ([], ValueError, "There are no results"),
        ({}, ValueError, "There are no results"),
        (3, TypeError, "got int"),
        ([1], TypeError, "Result 1 is no result but of type int"),
        ("result.h5", FileNotFoundError, "There is no file result.h5"),
        ({1: None}, TypeError, "name must be text; got 1"),
        ({" ": None}, TypeError, "name must be text"),
    ],
)
def test_what_is_no_result_is_refused(results, error, match):
    with pytest.raises(error, match=match):
        report(results)


def test_bad_titles_and_files_are_refused(tmp_path):
    result = result_of("latency")
    with pytest.raises(TypeError, match="'title': 3"):
        report(result, title=3)
    for name in ("page.pdf", "page", "page.h5"):
        with pytest.raises(ValueError, match=r"ends in \.html"):
            report(result, tmp_path / name)
    with pytest.raises(FileNotFoundError, match="does not exist"):
        report(result, tmp_path / "no" / "page.html")


# --------------------------------------------------------------------- from the shell


@pytest.fixture
def saved(tmp_path, monkeypatch):
    """Save two results in a folder to work in."""
    monkeypatch.chdir(tmp_path)
    result_of("latency").save("latency.h5")
    result_of("DecodingResult").save("single.h5")
    return tmp_path


def test_command_writes_a_page_beside_a_result(saved, capsys):
    assert main(["report", "latency.h5", "--title", "Onsets & peaks"]) == 0
    assert capsys.readouterr().out == "Wrote latency.html\n"
    assert "Onsets &amp; peaks" in (saved / "latency.html").read_text("utf-8")
    assert main(["report", "latency.h5"]) == 2
    assert "pass overwrite=True to replace it" in capsys.readouterr().err
    assert main(["report", "latency.h5", "--overwrite"]) == 0


def test_command_shows_the_corrections_that_it_is_given(saved, few):
    few("Scores")
    result_of("TimeResult").save("time.h5")
    assert main(["report", "time.h5", "--correction", "fdr", "max"]) == 0
    text = (saved / "time.html").read_text("utf-8")
    expected = report(result_of("TimeResult"), correction=["fdr", "max"])
    alternatives = images_in(read(expected, "Scores"))[1]
    assert len(alternatives) == 2
    assert all(escape(each) in text for each in alternatives)


def test_command_takes_patterns_and_names_results_by_their_files(
    saved, capsys, undrawn
):
    assert main(["report", "*.h5", "--fname", "both.html"]) == 0
    assert capsys.readouterr().out == "Wrote both.html\n"
    reader = Reader((saved / "both.html").read_text("utf-8"))
    rows = [row for row in reader.rows if row[0] in ("latency", "single")]
    assert [row[1] for row in rows] == ["Latency", "Decoding"]
    assert main(["report", "*.h5"]) == 0
    assert (saved / "report.html").exists()


@pytest.mark.parametrize(
    ("arguments", "match"),
    [
        (["none.h5"], "no such file: none.h5"),
        (["*.nii"], "No file matches"),
        (["single.h5", "--fname", "a.pdf"], "ends in .html"),
        (["single.h5", "./single.h5", "--fname", "a.html"], "listed twice"),
    ],
)
def test_command_refuses_in_one_line(saved, arguments, match, capsys):
    assert main(["report", *arguments]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert match in line


def test_command_tells_files_of_one_name_apart(saved, capsys, undrawn):
    (saved / "sub").mkdir()
    (saved / "sub" / "latency.h5").write_bytes((saved / "latency.h5").read_bytes())
    assert main(["report", "latency.h5", "sub/latency.h5"]) == 0
    text = Reader((saved / "report.html").read_text("utf-8")).text
    assert "sub/latency.h5" in text


def test_names_as_long_as_books_take_no_time():
    """Figures cut them: letter by letter they took minutes."""
    result = build.result("TimeResult")
    long = [name * 100_000 for name in "ab"]
    started = time.process_time()
    report(replace(result, classes=np.array(long)))
    assert time.process_time() - started < 10
