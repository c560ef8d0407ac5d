"""Texts say what was found, how it was corrected, and what was tested first."""

import numpy as np
import pytest

from mvpa_kfda import compare, decode_arrays, group_inference, methods_text
from mvpa_kfda.inference.corrections import CORRECTIONS, NAMED
from mvpa_kfda.reports.findings import positions_of, software_of
from mvpa_kfda.reports.vocabulary import metric_words
from tests import build
from tests.html_pages import read_section
from tests.texts import check_text, found_words

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning", "ignore::RuntimeWarning")


@pytest.fixture(scope="module")
def in_time():
    """Return results of classes and of values over time."""
    X, codes = build.trials((10, 10), 4, 3)
    options = {"cv": 4, "n_permutations": 19, "random_state": 0}
    y = build.values_of(X)
    return (
        decode_arrays(X, build.NAMES[codes], **options),
        decode_arrays(X, y, task="regression", **options),
    )


@pytest.mark.parametrize("correction", CORRECTIONS)
def test_what_is_significant_by_each_correction(in_time, correction):
    result = in_time[0]
    body = check_text(result, correction=correction, alpha=0.1)
    p = result.pvalues(correction)
    n = int((p <= 0.1).sum())
    assert "level was 0.1" in body
    assert "(p ≤ 0.1" in body
    assert (found_words(n, 3, "time point") in body) == (n > 0)
    assert NAMED[correction].tag in body


@pytest.mark.parametrize("alternative", ["greater", "less", "two-sided"])
@pytest.mark.parametrize("threshold", [0.05, 0.3])
def test_the_test_that_is_reported(in_time, alternative, threshold):
    how = {"threshold": threshold, "alternative": alternative}
    for result in in_time:
        body = check_text(result, correction="cluster", **how)
        marked = int((result.pvalues("cluster", **how) <= 0.05).sum())
        assert (found_words(marked, 3, "time point") in body) == (marked > 0)
        assert f"threshold (p = {threshold})" in body
        words = {"less": "at least as low", "greater": "at least as high"}
        assert words.get(alternative, "at least as far") in body
        lowest = f"was {result.scores.min():.3f}, at"
        assert lowest in body or alternative != "less"
        assert lowest not in body or alternative != "greater"


ACROSS, SUM = "across all time points of each", "the sum of"
#: Maker, method, correction, and what was compared with what.
COMPARED = [
    (build.group, "sign-flip", "max", f"most extreme statistic {ACROSS} sign flip"),
    (build.group, "bootstrap", "max", "comparing each statistic with the null"),
    (build.group, "sign-flip", "cluster", f"{SUM} the statistic over its time points"),
    (build.group, "wilcoxon", "cluster", f"{SUM} the statistic over its time points"),
    (build.group, "bootstrap", "cluster", f"{SUM} standardised statistics over its"),
    (build.comparison, "permutation", "max", f"difference {ACROSS} permutation"),
    (build.comparison, "permutation", "cluster", f"{SUM} standardised differences"),
]


@pytest.mark.parametrize(("make", "method", "correction", "words"), COMPARED)
def test_what_corrections_compare(make, method, correction, words):
    more = {"threshold": 0.25} if correction == "cluster" else {}
    more |= {"n_permutations": 99} if make is build.group else {}
    body = check_text(make(method=method, correction=correction, **more))
    assert words in body
    assert ("threshold (p = 0.25)" in body) == (correction == "cluster")


def test_clusters_of_several_tests_are_told():
    both = "Clusters were formed where all tests exceeded the threshold, and their "
    map_of = build.result("GeneralizationResult")
    assert f"{both}mass was compared in" in methods_text(map_of, correction="cluster")
    text = methods_text(map_of, correction="cluster-size")
    assert f"{both}size was compared in each test." in text
    assert "over which all tests exceeded" in methods_text(map_of, correction="tfce")
    assert "all tests" not in methods_text(map_of)
    assert "all tests" not in methods_text(build.result(), correction="cluster")
    names, few = ["cluster-fdr", "cluster"], {"n_permutations": 99}
    group = build.group("GeneralizationResult", 5, "bootstrap", correction=names, **few)
    assert group.parameters["n_tests"] == 2
    text = methods_text(group)
    assert f"{both}size was compared" in text
    assert "Scores were tested twice" in text
    for result in (map_of, group):
        assert "and a penalty of at most 0.3 times the mean" in methods_text(result)
    tuned = build.result("GeneralizationResult", reg="tuned")
    assert "a penalty of at most" not in methods_text(tuned)
    flips = build.group("GeneralizationResult", 5, correction="cluster")
    assert "all tests" not in methods_text(flips)
    assert "tested twice" not in methods_text(flips)


def test_what_was_not_tested_first_is_exploratory():
    metrics = ["roc_auc", "accuracy"]
    people = [build.result(scoring=metrics, seed=k) for k in range(5)]
    auc = metric_words("roc_auc")[1]
    first = f"The first metric, {auc}, was tested; tests of others"
    assert methods_text(people[0]).count("exploratory") == 1
    assert first in methods_text(people[0])
    assert first in read_section(people[0], "Summary").text
    options = {"random_state": 0, "method": "sign-flip"}
    one = group_inference(people, correction="max", **options)
    assert first in methods_text(one)
    options |= {"correction": ["max", "fdr"], "metric": "accuracy"}
    another = group_inference(people, **options)
    text = methods_text(another)
    assert f"was {auc}; tests of accuracy are exploratory" in text
    assert "The first of 2 corrections was tested (corrected by the maximum" in text
    text = methods_text(another, correction="fdr")
    assert "correction named first was another (corrected by the maximum" in text
    assert "exploratory" not in methods_text(build.group(correction="max"))
    assert "exploratory" not in methods_text(build.result())
    other = build.result(scoring=metrics, reg=30.0)
    compared = compare(people[0], other, "permutation", metric="accuracy")
    assert "tests of accuracy are exploratory" in methods_text(compared)


def test_positions_and_programs_are_named():
    for kind, words in (
        ("TimeFrequencyResult", "each of 2 frequencies from 8 to 16 Hz and 3 time"),
        ("SensorTimeResult", "each of 4 sensors and 3 time points from 0 to 0.02 s"),
        ("VolumeResult", "each of 12 voxels"),
    ):
        result = build.result(kind)
        assert positions_of(result.places).startswith(words)
        text = software_of(result.versions, result)
        assert ("MNE-Python" in text) == (kind != "VolumeResult")
        assert ("Nilearn" in text) == (kind == "VolumeResult")
        assert f"NumPy {np.__version__} [@Harris2020]" in text
        assert software_of({}, result) == ""
