"""Wherever a position is picked as the best, it is the one that is tested for.

Of high scores that is the highest, of low ones the lowest, of both sides the one
furthest from chance, in every table, line, page and figure.
"""

from dataclasses import replace

import numpy as np
import pytest

from mvpa_kfda import compare, group_inference, methods_text
from mvpa_kfda.reports import sections
from mvpa_kfda.reports.page import report
from mvpa_kfda.reports.summary import word_answer
from mvpa_kfda.viz.maps import make_picture, topomap_samples
from tests import build

pytestmark = [
    pytest.mark.filterwarnings("ignore:With .* the smallest:RuntimeWarning"),
]
#: Means over subjects at three times: highest at the first, furthest off at the last.
MEANS = np.array([0.7, 0.5, 0.2])
BEST = {"greater": 0, "less": 2, "two-sided": 2}
#: What the best one is called in sentences, and the largest difference.
WORDS = {
    "greater": ("highest", "largest"),
    "less": ("lowest", "smallest"),
    "two-sided": ("furthest from chance", "largest"),
}
alternatives = pytest.mark.parametrize("alternative", WORDS)


@pytest.fixture(autouse=True)
def without_figures(monkeypatch):
    monkeypatch.setattr(sections, "_draw", lambda *drawn, **options: "")


def subjects(means=MEANS, kind="TimeResult", first=0):
    """Return results of six subjects with these means."""
    results = [build.result(kind, first + seed) for seed in range(6)]
    noise = np.random.default_rng(first).normal(scale=0.02, size=(6, 3))
    noise -= noise.mean(axis=0)
    return [
        replace(one, metrics={"accuracy": np.reshape(means + each, one.shape)})
        for one, each in zip(results, noise, strict=True)
    ]


def check(result, alternative, score):
    """Assert that all that is said of the best place is of one; return the page."""
    best = BEST[alternative]
    table, word = result.to_dataframe(), WORDS[alternative][result.is_difference]
    for column in ("time", result.metric):
        key = f"{result.metric}_difference" if column not in table else column
        assert result.peak()[column] == table[key].iloc[best]
    assert score in repr(result)
    assert any(score in fact for fact in result._facts().values())
    answer, sentences = word_answer(result), methods_text(result)
    assert word in answer
    assert f"is {score} {result.places.at(best)}" in answer
    assert f"was {score}, at {table['time'].iloc[best]:g} s" in sentences
    assert word in sentences
    return "".join(report(result).html)


@alternatives
def test_of_one_list(alternative):
    options = {"alternative": alternative, "random_state": 0}
    group = group_inference(subjects(), "sign-flip", **options)
    html = check(group, alternative, f"{MEANS[BEST[alternative]]:.3f}")
    where = group.places.at(BEST[alternative])
    assert f"Scores of each subject {where}" in html


@alternatives
def test_of_two_lists(alternative):
    others = subjects(np.full(3, 0.5), first=10)
    options = {"alternative": alternative, "random_state": 0}
    group = group_inference(subjects(), "sign-flip", other=others, **options)
    html = check(group, alternative, f"{MEANS[BEST[alternative]] - 0.5:+.3f}")
    where = group.places.at(BEST[alternative])
    assert f"Scores of each subject {where}" in html


@alternatives
def test_of_a_comparison(alternative):
    a, b = (
        build.result("TimeResult", n_permutations=39, reg=reg) for reg in (0.3, 9.0)
    )
    a = replace(a, metrics={"accuracy": MEANS})
    b = replace(b, metrics={"accuracy": np.full(3, 0.5)})
    result = compare(a, b, alternative=alternative)
    check(result, alternative, f"{MEANS[BEST[alternative]] - 0.5:+.3f}")


def test_without_a_chance_level_two_sides_have_no_middle():
    results = [replace(one, chances={"accuracy": np.nan}) for one in subjects()]
    group = group_inference(results, "bootstrap", alternative="two-sided")
    assert group.peak()["accuracy"] == group.scores.max()
    assert "highest mean accuracy is 0.700" in word_answer(group)


@alternatives
def test_peaks_and_views_of_images(alternative):
    options = {"alternative": alternative, "random_state": 0}
    group = group_inference(subjects(kind="regions"), "sign-flip", **options)
    best = BEST[alternative]
    assert group.peaks("none", alpha=0.999)["score"].iloc[0] == group.scores[best]
    tested = None, "none", 0.05, 0.05, "greater"
    picture = make_picture(group, "region", tested, (None, None))
    assert np.argmax(picture.favour) == best


@alternatives
def test_topomaps_of_a_subject_follow_what_is_asked(alternative):
    result, best = build.result("SensorTimeResult"), BEST[alternative]
    scores = np.full(result.shape, 0.5)
    scores[1, 0], scores[2, 2] = 0.9, 0.0
    result = replace(result, metrics={"accuracy": scores})
    tested = None, "none", 0.05, 0.05, alternative
    picture = make_picture(result, "sensor", tested, (None, None))
    assert np.argmax(picture.favour.max(axis=0)) == best
    assert best in topomap_samples(result.places, None, picture.favour)
