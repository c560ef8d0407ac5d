"""What was asked and what was found, in a sentence each."""

import re
from dataclasses import replace

import numpy as np
import pytest

from mvpa_kfda import compare, decode_arrays, generalize_arrays, group_inference
from mvpa_kfda.reports.summary import (
    HEADINGS,
    corrections_of,
    heading,
    two_names,
    word_answer,
    word_question,
)
from tests import build
from tests.html_pages import result_of

pytestmark = [
    pytest.mark.filterwarnings("ignore:.* resamples:RuntimeWarning"),
    pytest.mark.filterwarnings("ignore:With .* subjects and:RuntimeWarning"),
]


# Scores on a grid of sixteenths: no number here is rounded.
def test_answers_count_what_is_significant():
    result = result_of("TimeResult")
    p = result.pvalues("max")
    best = result.scores.argmax()
    assert (p <= 0.05).any()
    assert word_answer(result) == (
        f"The highest accuracy is {result.scores[best]:.3f} at {result.times[best]:g} s"
        f" (chance 0.500); significant at {(p <= 0.05).sum()} of 3 time points: 0.01 s "
        f"(p ≤ 0.05, max-statistic correction; smallest p = {p.min():.3f})."
    )
    few = word_answer(result_of("TimeResult", 9))
    assert "significant at none of 3 time points" in few
    assert few.endswith("; too few permutations to reach this level).")
    single = result_of("DecodingResult")
    assert word_answer(single) == (
        f"The accuracy is {single.scores:.3f} (chance 0.500); "
        f"p = {single.pvalues():.3f}."
    )


def test_clusters_are_not_said_to_be_significant_one_time_at_a_time():
    group, single = build.group(correction="cluster", n=8), result_of("TimeResult")
    for result, words in ((group, word_answer(group)), (single, "")):
        n = (result.pvalues("cluster") <= 0.05).sum()
        assert n
        words = words or word_answer(result, "cluster")
        assert f"; significant clusters cover {n} of 3 time points: " in words


@pytest.mark.parametrize("alpha", [0.05, 0.06, 0.08, 0.1, 0.2])
def test_share_of_the_population_is_never_rounded_up(alpha):
    group = replace(result_of("prevalence"), alpha=alpha)
    largest = np.nanmax(group.gamma_0)
    (share,) = re.findall(r"more than (\d+) %", word_answer(group))
    assert int(share) <= 100 * largest < int(share) + 1


def test_latencies_are_found_in_seconds():
    latency = result_of("latency")
    (low, high), share = latency.peak_interval, "95 % interval"
    words = f"the peak is at {latency.peak:.3f} s ({share} {low:.3f} to {high:.3f} s)"
    assert words in word_answer(latency).replace("The peak", "the peak")
    assert word_answer(replace(latency, onset=np.nan)).startswith("There is no onset")
    people = build.subjects(n=10)
    options = {"other": people[5:], "min_duration": 0.01, "random_state": 0}
    both = build.bootstrap_latency(people[:5], n_bootstraps=100, **options)
    assert re.match(r"The onsets are [+-]\S+ s apart \(95 %", word_answer(both))
    assert two_names(both) == ["the first", "the second"]
    assert "differ between the first and the second" in word_question(both)


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


def test_questions_name_what_was_compared():
    people, options = build.subjects(n=10), {"labels": ("young", "old")}
    options |= {"other": people[5:], "paired": True, "random_state": 0}
    groups = group_inference(people[:5], "sign-flip", **options)
    assert word_question(groups).startswith(
        "Does mean accuracy differ between young and old at 3 times from"
    )
    higher = group_inference(people[:5], "t", "none", alternative="greater", **options)
    assert word_question(higher).startswith("Is mean accuracy higher in young than old")
    below = group_inference(people, "t", "none", alternative="less")
    assert word_question(below).startswith(
        "Is mean accuracy over the population below chance at 3 times"
    )
    for kind, words in (
        ("DecodingResult", "Can ant and bee be discriminated? ("),
        ("RegressionResult", "Can values from "),
        ("GeneralizationResult", "Does a classifier of ant and bee trained at one"),
        ("regions", "Can ant and bee be discriminated in 3 regions"),
        ("latency", "When does mean accuracy rise, and when does it peak?"),
        ("prevalence", "Does anyone in the population have accuracy above chance at"),
    ):
        assert word_question(result_of(kind)).startswith(words)
    region = result_of("regions").sel(place="2")
    assert "be discriminated in region 2? (" in word_question(region)
    X, _ = build.trials((10,), 3, 4)
    angles = {"task": "regression", "circular": True, "period": 180}
    course = decode_arrays(X, 18.0 * (7 * np.arange(10) % 10), **angles)
    words = "Can circular values (period 180) be predicted at 4 times"
    assert word_question(course).startswith(words)
    assert heading(course) == "Regression over time"
    across = generalize_arrays(X, np.cos(9 * np.arange(10)), task="regression")
    assert word_question(across).startswith("Does a regression trained at one time gen")
    assert "4 folds, 39 permutations.)" in word_question(result_of("DecodingResult"))
    assert heading(result_of("latency")) == HEADINGS["Latency"] == "Latency"


def test_corrections_are_those_of_the_result_or_those_asked_for():
    for result, asked, expected in (
        (result_of("TimeResult"), None, ("max",)),
        (result_of("TimeResult"), ["fdr", "max"], ("fdr", "max")),
        (result_of("DecodingResult"), ["fdr"], ("none",)),
        (result_of("TimeResult", 0), ["fdr"], ()),
        (build.group(correction=["max", "fdr"]), ["tfce"], ("max", "fdr")),
        (result_of("latency"), ["fdr"], ()),
    ):
        assert tuple(corrections_of(result, asked)) == expected
