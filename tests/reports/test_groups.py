"""The paragraphs on groups of subjects, on comparisons, and on latencies."""

import math

import numpy as np
import pytest

from mvpa_kfda import (
    TimeResult,
    bootstrap_latency,
    group_inference,
    methods_text,
)
from mvpa_kfda.utils.rounding import number
from tests import build
from tests.texts import check_text, found_words

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning", "ignore::RuntimeWarning")


@pytest.fixture(scope="module")
def people():
    return build.subjects(n=6)


@pytest.fixture(scope="module")
def others():
    return [build.result("TimeResult", seed) for seed in range(6, 11)]


def furthest(scores, middle):
    """Return the score that is furthest from another."""
    return scores.flat[np.abs(scores - middle).argmax()]


# ----------------------------------------------------------------------------- groups


#: Method, its options, and which scores are tested for.
GROUPS = [
    ("prevalence", {"n_permutations": 99}, ""),
    ("prevalence", {"n_permutations": 1}, ""),
    ("i-test", {}, ""),
    ("i-test", {"order": 2, "hypothesis": 0.3}, ""),
    ("i-test", {"order": 5, "hypothesis": "global"}, ""),
    ("bootstrap", {"n_permutations": 99}, "(one-sided, for high scores)"),
    ("bootstrap", {"n_permutations": 99, "correction": ["cluster-fdr", "tfce"]}, ""),
    ("sign-flip", {"correction": ["cluster", "cluster-size"]}, "scores above chance)"),
    ("sign-flip", {"n_permutations": 20, "correction": "tfce"}, ""),
    ("t", {"correction": "fdr", "alternative": "less"}, "for scores below chance)"),
    ("t", {"correction": "max", "alternative": "two-sided"}, "(two-sided)"),
    ("wilcoxon", {"correction": "bonferroni"}, ""),
]


@pytest.mark.parametrize(("method", "options", "sides"), GROUPS)
def test_groups_are_told_of_in_good_english(people, method, options, sides):
    group = group_inference(people, method, random_state=0, **options)
    body = check_text(group)
    assert "6 subjects" in body
    assert "16 trials of the classes ant and bee" in body
    assert sides in body
    side = {"less": group.scores.min(), "two-sided": furthest(group.scores, 0.5)}
    assert f"was {side.get(group.alternative, group.scores.max()):.3f}, at" in body
    n = int((group.pvalues() <= group.alpha).sum())
    assert (found_words(n, 3, "time point") in body) == (n > 0)
    product = group.method == "prevalence" and group.correction[0] == "none"
    if len(group.null_max) and group.method not in ("t", "wilcoxon") and not product:
        assert f"P = {group.n_permutations:,}" in body
    if "All possible sign flips were used" in body:
        assert "exact if, without an effect, scores were distributed symm" in body
    if group.method == "i-test":
        assert "valid only if order and proportion were fixed before" in body
        assert "b of 9 label permutations of a subject" in body
        assert f"subject number {group.order} from the lowest" in body
        nobody = group.parameters["hypothesis"] == 0
        assert ("that nobody in the population has an effect" in body) == nobody
        with pytest.raises(ValueError, match="has no correction 'max-step-down'"):
            methods_text(group, correction="max-step-down")
        return
    by_labels = group.method in ("prevalence", "bootstrap")
    assert ("or one of 9 label permutations" in body) == by_labels
    if group.method == "prevalence" and np.isfinite(group.gamma_0).any():
        share = math.floor(100 * np.nanmax(group.gamma_0))  # not more than the bound
        assert f"effect was {share} %" in body
    with pytest.raises(ValueError, match="was not requested"):
        methods_text(group, correction="max-step-down")


@pytest.mark.parametrize("method", ["sign-flip", "t", "wilcoxon"])
@pytest.mark.parametrize("paired", [True, False])
def test_two_groups_are_told_of_in_good_english(people, others, method, paired):
    other = [*others, build.result(seed=11)] if paired else others
    labels = ["old <b>", "young"]
    group = group_inference(
        people, method, other=other, paired=paired, labels=labels, random_state=0
    )
    body = check_text(group)
    assert "old <b>" in body
    assert "old \\<b\\>" in methods_text(group, "markdown")
    assert f"was {furthest(group.scores, 0):+.3f}, at" in body
    assert ("in two conditions" in body) == paired
    for condition, holds in (
        ("differences were distributed symmetrically around zero", paired),
        ("scores had the same distribution in both groups", not paired),
    ):
        said = f"The test is exact if, without an effect, {condition}" in body
        assert not said or holds
        assert said or not holds or method != "sign-flip"
    assert ("(6)" in body and "(5)" in body) == (not paired)
    if method == "t" and not paired:
        for side, higher in (("greater", "higher"), ("less", "lower")):
            group = group_inference(people, "t", "none", other=other, alternative=side)
            words = f"(one-sided, for {higher} scores of first)"
            assert words in check_text(group)


@pytest.mark.parametrize("kind", ["DecodingResult", "VolumeResult", "regions"])
def test_groups_of_other_kinds_are_told_of_in_good_english(kind):
    people = build.subjects(kind, 5)
    how = {"random_state": 0, "n_permutations": 50}
    for method, correction in (("sign-flip", "fdr"), ("prevalence", "max")):
        check_text(group_inference(people, method, correction, **how))


@pytest.mark.parametrize(
    ("kind", "alternative"),
    [
        ("RegressionResult", "greater"),
        ("TimeRegressionResult", "less"),
        ("TimeRegressionResult", "two-sided"),
    ],
)
def test_groups_without_a_chance_level_are_told_of(kind, alternative):
    options = {"alternative": alternative, "n_permutations": 50}
    body = check_text(build.group(kind, n=5, method="bootstrap", **options))
    assert "R²" in body
    assert "chance" not in body
    assert "predicted using kernel ridge regression" in body


# ------------------------------------------------------------------------ comparisons


@pytest.mark.parametrize("alternative", ["two-sided", "greater"])
@pytest.mark.parametrize("kind", ["TimeResult", "DecodingResult", "VolumeResult"])
def test_comparisons_are_told_of_in_good_english(kind, alternative):
    body = check_text(build.comparison(kind, alternative=alternative))
    for words in ("0.3 times", "30 times", "16 trials", "P permutations were at least"):
        assert words in body
    one_sided = "higher scores in the first analysis" in body
    assert one_sided == (alternative == "greater")


# -------------------------------------------------------------------------- latencies


MORE = {"n_bootstraps": 100, "random_state": 0, "min_duration": 0.01}


def test_latencies_are_told_of_in_good_english(people, others):
    latency = bootstrap_latency(people, **MORE)
    body = check_text(latency)
    assert "100 times" in body
    assert "95 % confidence intervals are based on Student's t" in body
    low, high = map(number, latency.peak_interval)
    assert f"{number(latency.peak)} s (95 % interval {low} to {high} s)" in body
    first, last = latency.window
    assert f"times from {number(first)} to {number(last)} s were searched" in body
    body = check_text(bootstrap_latency(people, fraction=0.25, **MORE))
    assert "exceeded 25 % of its peak height above chance (0.5) for at least" in body
    body = check_text(bootstrap_latency(people, criterion="t", level=0.02, **MORE))
    assert "Student's t-test at a level of 0.02 for at least 0.01 s" in body
    body = check_text(bootstrap_latency(people, other=others, **MORE))
    assert "two groups of subjects (11 subjects in all)" in body


@pytest.mark.parametrize("shift", [-1, 1])
def test_a_difference_in_latency_says_both_and_which_is_later(shift):
    times = np.arange(10) / 10

    def made(starts, height):
        scores = [np.where(times >= start, height, 0.5) for start in starts]
        return [
            build.made(TimeResult, each + 0.001 * k, times=times)
            for k, each in enumerate(scores)
        ]

    how = {"n_bootstraps": 100, "min_duration": 0.1, "random_state": 0}
    lists = made([0.4] * 4 + [0.5], 0.9), made([0.6] * 4 + [0.5], 0.8)
    first, other = lists if shift > 0 else lists[::-1]
    latency = bootstrap_latency(first, other=other, labels=("faces", "words"), **how)
    text = check_text(latency)
    late, early = ("words", "faces") if shift > 0 else ("faces", "words")
    assert f"later in {late} than in {early}: at 0." in text
    both = [part.onset for part in latency.parts]
    assert f" s) in faces and at {both[1]:.3g} s" in text
    assert f"at {both[0]:.3g} s" in text
    assert "no order" not in text
    # Of two that differ less than subjects do, neither is called the later one.
    lists = made([0.4, 0.6] * 3, 0.9), made([0.6, 0.6, 0.4, 0.4, 0.6], 0.85)
    latency = bootstrap_latency(lists[0], other=lists[1], **how)
    low, high = latency.when("onset")[1]
    assert low < 0 < high
    text = check_text(latency)
    assert "later in" not in text
    assert "The interval includes 0: no order of the two onsets is shown." in text
