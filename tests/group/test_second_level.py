"""Group inference from results to p-values equals the plain oracle."""

import itertools
import math
import re
import warnings
from dataclasses import replace
from functools import cache
from importlib import import_module
from pathlib import Path

import mne
import numpy as np
import pytest
from mne.stats import permutation_cluster_1samp_test
from numpy.testing import assert_allclose, assert_array_equal
from scipy import stats
from scipy.stats import binom
from sklearn.linear_model import Ridge as SklearnRidge
from sklearn.model_selection import KFold, cross_val_predict

from mvpa_kfda import Ridge, TimeResult, decode_arrays, group_inference, methods_text
from mvpa_kfda.group.second_level import (
    METHODS,
    RecombinedNull,
    _heights,
    cluster_size_p,
    draw_recombinations,
    parametric_p,
)
from mvpa_kfda.inference.corrections import corrected_p_values
from mvpa_kfda.inference.exchange import STATISTICS
from mvpa_kfda.inference.null import ALTERNATIVES
from mvpa_kfda.results.epochs import TimeFrequencyResult
from tests import build, reference_group

EXACT = {"rtol": 1e-12, "atol": 0}
alternatives = pytest.mark.parametrize("alternative", ALTERNATIVES)

# ------------------------------------------------------- whole groups equal the oracle

#: Every correction that maps of a kind have.
CORRECTIONS = [
    *("none", "max", "max-step-down", "bonferroni", "holm", "fdr", "fdr-by"),
    *("cluster", "cluster-size", "tfce"),
]


@cache
def subject(kind, seed):
    """Return a result of few scores, which often tie, and few permutations."""
    made = build.clustered(kind, seed)
    kept = {}
    for name in ("metrics", "nulls", "second_nulls"):
        for metric, values in getattr(made, name, {}).items():
            rows = values if name == "metrics" else values[:4].astype(np.float32)
            kept[name] = {metric: rows.round(2)}
    return replace(made, **kept)


def cases():
    """Return methods, alternatives, kinds, lists, and whether all maps are listed."""
    rows = itertools.product(
        METHODS, ALTERNATIVES, ["one", "two", "pairs"], [200, 40], ["times", "map"]
    )
    rows = [
        (method, side, lists, *more)
        for method, side, lists, *more in rows
        if not (METHODS[method].by_labels and lists != "one")
        and not (METHODS[method].statistic in ("min", "order") and side != "greater")
    ]
    more = [
        ("prevalence", "greater", "one", 40, "voxels"),
        ("bootstrap", "greater", "one", 40, "map of others"),
        ("bootstrap", "greater", "one", 200, "map"),
        ("bootstrap", "greater", "one", 40, "voxels"),
        ("sign-flip", "two-sided", "one", 200, "voxels"),
        ("wilcoxon", "two-sided", "two", 40, "regions"),
    ]
    return [*build.every_pair(rows), *more]


@pytest.mark.filterwarnings("ignore:With .* the smallest:RuntimeWarning")
@pytest.mark.filterwarnings("ignore:With .* prevalence bound:RuntimeWarning")
@pytest.mark.filterwarnings("ignore:.* the first or the last time:RuntimeWarning")
@pytest.mark.parametrize(
    ("method", "alternative", "lists", "n_permutations", "kind"), cases()
)
def test_groups_equal_the_oracle(method, alternative, lists, n_permutations, kind):
    n = 3 if METHODS[method].by_labels and method != "i-test" else 6
    first, other = ([subject(kind, start + i) for i in range(n)] for start in (0, 10))
    other = {"two": other[:4], "pairs": other}.get(lists)
    names = list(METHODS[method].only) or [*CORRECTIONS]
    names += ["cluster-depth"] * (kind == "times" and method != "i-test")
    names += METHODS[method].corrections if alternative == "greater" else ()
    group = group_inference(
        first,
        method,
        names,
        alternative=alternative,
        other=other,
        paired=lists == "pairs",
        n_permutations=n_permutations,
        threshold=0.2,
        alpha=0.3,
        random_state=1,
    )
    if method != "i-test":
        n_all = {"one": 2**6, "two": math.comb(10, 6), "pairs": 2**6}[lists]
        n_all = 5**3 if METHODS[method].by_labels else n_all
        assert group.n_permutations == min(n_all - 1, n_permutations)
    reference_group.assert_equal(group, [*first, *(other or ())])
    plain = np.ravel(group.p_maps["none"])
    counted = np.isfinite(plain)
    for name, adjusted in reference_group.ADJUSTED.items():
        p = np.ravel(group.pvalues(name))
        expected = adjusted(plain[counted])
        assert_allclose(p[counted], expected, rtol=1e-12, atol=0, err_msg=name)
        assert np.isnan(p[~counted]).all()
    scores = np.array([each.scores for each in first])
    against = 0.0 if other is None else np.mean([each.scores for each in other], axis=0)
    assert_allclose(group.scores, scores.mean(axis=0) - against, rtol=0, atol=1e-12)


def test_groups_of_regression_are_those_of_refitted_ridges():
    n, P, cv, subjects, by_hand = 24, 39, KFold(4), [], []
    for seed in range(6):
        X, _ = build.trials((n,), 4, 3, seed)
        values = build.values_of(X[..., :1], seed, noise=3.0)
        options = {"cv": cv, "reg": Ridge(2.0), "scoring": "pearsonr"}
        options |= {"n_permutations": P, "random_state": seed, "task": "regression"}
        subjects.append(decode_arrays(X, values, **options))
        ranks = np.unique(values, return_inverse=True)[1]
        rows = np.sort(values)[build.permuted(ranks, P, cv, seed=seed)]
        predicted = [
            cross_val_predict(SklearnRidge(2.0), x, rows.T, cv=cv).T  # (P + 1, n)
            for x in np.moveaxis(X, 2, 0)
        ]
        pairs = [zip(rows, each, strict=True) for each in predicted]
        by_hand.append([[np.corrcoef(*pair)[0, 1] for pair in each] for each in pairs])
    by_hand = np.moveaxis(by_hand, 2, 1)  # (S, P + 1, T)
    scores, nulls = by_hand[:, 0], by_hand[:, 1:]
    for result, expected, null in zip(subjects, scores, nulls, strict=True):
        assert_allclose(result.scores, expected, rtol=1e-10)
        assert_allclose(result.null, null, rtol=1e-9, atol=1e-9)
    below = nulls.mean(axis=1)
    assert below.mean() < -0.1  # what is left out of a fold shifts its mean
    for alternative, level in (("greater", 0), ("less", below), ("two-sided", below)):
        group = group_inference(subjects, "t", "fdr", alternative=alternative)
        p = stats.ttest_1samp(scores - level, 0, alternative=alternative).pvalue
        assert_allclose(group.pvalues("none"), p, rtol=1e-9)
        assert_allclose(group.scores, scores.mean(axis=0), rtol=1e-10)
    options = {"n_permutations": 63, "random_state": 0, "alpha": 0.3}
    for method in ("sign-flip", "bootstrap", "prevalence"):
        group = group_inference(subjects, method, "max", **options)
        reference_group.assert_equal(group, subjects)
    assert group.subject_p.shape == (6, 3)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("correction", ["max", "cluster", "cluster-size", "tfce"])
def test_sign_flips_of_zeros_and_equal_differences(correction):
    results = courses(12, n_times=9)
    for result in results:
        result.scores[3:5] = 0.5, 0.8
    options = {"n_permutations": 200, "random_state": 0}
    group = group_inference(results, "sign-flip", correction, **options)
    assert np.isfinite(group.null_max).all()
    assert group.pvalues()[3] == 1
    assert group.pvalues()[4] < 0.05 or correction == "cluster-size"
    for number, result in enumerate(results):
        result.scores[:] = 0.5
        result.predicted[0] = -1 - number  # or they would be copies
    group = group_inference(results, "sign-flip", correction, **options)
    assert_array_equal(group.pvalues(), 1)
    assert_array_equal(group.null_max, 0)


def courses(n=6, n_permutations=9, n_times=4, seed=0, effect=0.0, n_trials=20):
    """Return made results over time, of accuracies; the last time has an effect."""
    rng, results = np.random.default_rng(seed), []
    for _ in range(n):
        null = rng.binomial(n_trials, 0.5, (n_permutations, n_times)) / n_trials
        scores = rng.binomial(n_trials, 0.5, n_times) / n_trials
        scores[-1] = min(1.0, scores[-1] + effect)
        times = np.arange(n_times) / 10
        results.append(build.made(TimeResult, scores, null, times=times))
    return results


def test_corrected_p_values_are_never_below_uncorrected_ones():
    results = courses(15, n_times=2, effect=0.1)
    corrections = ["max", "max-step-down"]
    options = {"n_permutations": 50, "alternative": "two-sided"}
    for seed in range(8):
        options["random_state"] = seed
        group = group_inference(results, "sign-flip", corrections, **options)
        for name in corrections:
            assert (group.pvalues(name) >= group.pvalues("none")).all()


def test_the_number_of_permutations_and_the_seed():
    results = courses(3, effect=0.4)
    with pytest.warns(RuntimeWarning, match="prevalence bound"):
        group = group_inference(results)
    assert group.n_permutations == 999  # all there are
    seed = group.parameters["random_state"]
    by_default = {"method": "prevalence", "correction": ["max"], "alpha": 0.05}
    by_default |= {"metric": "accuracy", "alternative": "greater", "threshold": 0.05}
    by_default |= {"n_permutations": 10_000, "random_state": seed, "paired": False}
    unused = dict.fromkeys(["labels", "order", "hypothesis", "min_trials"])
    assert group.options == by_default | unused | {"resample": False}
    brains = [build.clustered("voxels", seed) for seed in range(3)]
    assert group_inference(brains, "t", "none").options["threshold"] == 0.001
    for method in METHODS:
        n = 8 if method == "i-test" else 5
        results = courses(n)
        asked = {"n_permutations": 9, "alpha": 0.4}
        group = group_inference(results, method, **asked)
        seed = group.parameters["random_state"]
        again = group_inference(results, method, random_state=seed, **asked)
        assert again == group


@pytest.mark.filterwarnings("ignore:With .* the smallest:RuntimeWarning")
@pytest.mark.parametrize("method", METHODS)
def test_batches_change_nothing(method, monkeypatch):
    names = ["max", "max-step-down", "cluster", "cluster-size", "tfce"]
    names = list(METHODS[method].only) or names
    results = [subject("power", seed) for seed in range(5)]
    options = {"n_permutations": 199, "random_state": 0, "alpha": 0.3}
    before = group_inference(results, method, names, **options)
    monkeypatch.setattr("mvpa_kfda.utils.memory._BATCH", 130)
    after = group_inference(results, method, names, **options)
    for name in names:
        assert_allclose(after.pvalues(name), before.pvalues(name), **EXACT)
    if METHODS[method].by_labels:
        assert_array_equal(after.subject_p, before.subject_p)
        assert_array_equal(after.subject_sizes, before.subject_sizes)


def scoring(*scores):
    """Return results over time of subjects with these accuracies (S, 3)."""
    times = np.arange(3) / 10
    kept = [build.made(TimeResult, np.array(each), times=times) for each in scores]
    return [replace(one, predicted=one.predicted + k) for k, one in enumerate(kept)]


def test_a_group_tells_where_its_subjects_score_alike():
    results = scoring([0.6, 0.5, 0.7], [0.6, 0.7, 0.4], [0.6, 0.4, 0.5])
    differing = scoring([0.6, 0.5, 0.7], [0.7, 0.7, 0.4], [0.6, 0.4, 0.5])
    options = {"random_state": 0, "alpha": 0.3}
    for method, given, n_alike in (
        ("sign-flip", results, 1),
        ("t", results, 1),
        ("sign-flip", differing, 0),
        ("wilcoxon", results, 0),
    ):
        group = group_inference(given, method, **options)
        assert group.parameters["n_alike"] == n_alike
        sentence = "largest one, here at 1 time point, were raised to that (Ridgway"
        assert (sentence in methods_text(group)) == n_alike


def test_t_needs_a_variance():
    equal = scoring([0.6, 0.5, 0.7], [0.6, 0.5, 0.7], [0.6, 0.5, 0.7])
    with pytest.raises(ValueError, match="All 3 subjects have the same scores, which"):
        group_inference(equal, "t")
    others = scoring(*[[0.5, 0.5, 0.6]] * 5)[3:]
    with pytest.raises(ValueError, match="All 5 subjects have the same scores, which"):
        group_inference(equal, "t", other=others)
    group = group_inference(equal, "sign-flip", random_state=0, alpha=0.3)
    assert_allclose(group.pvalues("none"), [1 / 8, 1, 1 / 8], **EXACT)


# -------------------------------------------------------------- arguments and warnings


@pytest.fixture(scope="module")
def eight():
    return courses(8, effect=0.4)


I_TEST, BOOTSTRAP = {"method": "i-test"}, {"method": "bootstrap"}
OF_FDR = {"correction": "cluster-fdr"}


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"method": "anova"}, "Invalid value for 'method': 'anova'. Allowed: 'prev"),
        ({"correction": "sidak"}, "'correction': 'sidak'.* 'max' controls the family"),
        ({"correction": ["max", 5]}, "Invalid value for 'correction': 5"),
        (BOOTSTRAP | {"correction": "clusters"}, "'clusters'.*'tfce', 'cluster-fdr'"),
        ({"correction": []}, "correction is an empty list"),
        (OF_FDR, "is that of method='bootstrap'"),
        (BOOTSTRAP | OF_FDR | {"alternative": "less"}, "clusters of high scores only"),
        ({"alternative": "two-sided"}, "have alternative='greater'"),
        ({"alpha": 0}, "Invalid value for 'alpha': 0"),
        ({"alpha": 5}, r"'alpha': 5\. Allowed: .* below 1, such as 0\.05\."),
        ({"labels": ["a", "b"]}, "labels name results and other; pass other"),
        ({"labels": ["a", "a"]}, r"'labels': \['a', 'a'\]. Allowed: two different"),
        ({"threshold": 0.5, "method": "t"}, "'threshold': 0.5. Allowed: .* below 0.5"),
        ({"threshold": "0.1"}, "'threshold': '0.1'. Allowed: a p-level"),
        ({"threshold": 3.1, "method": "t"}, r"no t or z: t\(7\) = 3.1 is a p of 0.008"),
        ({"threshold": 3.1}, "no t or z: z = 3.1 is a p of 0.00097"),
        ({"n_permutations": 0}, "n_permutations"),
        ({"metric": "roc_auc"}, "roc_auc"),
        ({"paired": True}, "pass other="),
        ({"resample": np.array([1j, 2])}, "'resample': .* Allowed: True or False"),
        ({"subjects": ["a"]}, "subjects must name each of the 8 results"),
        (I_TEST | {"order": 0}, "Invalid value for 'order': 0"),
        (I_TEST | {"hypothesis": 1.0}, "Invalid value for 'hypothesis'"),
        (I_TEST | {"correction": "max"}, "no correction 'max'.* Use 'holm'"),
        (I_TEST | {"alternative": "less"}, "lowest subjects can only be tested"),
        (I_TEST | {"order": 4}, r"cannot reject a proportion of 0\.5 .*sible is 2;"),
        ({"order": 2}, "order=2 is for method='i-test' only"),
        ({"method": "t", "hypothesis": 0.5}, r"hypothesis=0\.5 is for method='i-test'"),
    ],
)
def test_wrong_arguments_are_explained(eight, options, match):
    with pytest.raises((ValueError, TypeError), match=match):
        group_inference(eight, **options)


@pytest.mark.parametrize(
    ("n", "other", "method", "paired", "match"),
    [
        (4, slice(4, 8), "prevalence", False, "takes no other group"),
        (5, slice(5, 8), "t", True, "results has 5 and other 3"),
        (5, slice(4, 8), "t", False, "are the same object"),
        (5, slice(5, 6), "t", False, "other holds a single subject"),
        (4, None, "i-test", False, r"With 4 subjects no order .*portion of 0\.5"),
    ],
)
def test_wrong_lists_are_explained(eight, n, other, method, paired, match):
    options = {} if other is None else {"other": eight[other], "paired": paired}
    with pytest.raises(ValueError, match=match):
        group_inference(eight[:n], method, **options)


def test_metric_without_chance_has_no_one_sample_test(eight):
    results = [replace(each, chances={"accuracy": np.nan}) for each in eight]
    with pytest.raises(ValueError, match="no chance level to test against"):
        group_inference(results, "t")
    group = group_inference(results, "bootstrap", n_permutations=99)
    assert np.isnan(group.chance)


def test_other_spellings_of_methods_and_corrections(eight):
    group = group_inference(eight, "sign_flip", ["FDR", "Max_Step_Down"])
    assert group.method == "sign-flip"
    assert group.correction == ("fdr", "max-step-down")
    assert_array_equal(group.pvalues("MAX_step_down"), group.pvalues("max-step-down"))
    assert group_inference(eight, "i-test").correction == ("holm",)


def told_by(*arguments, **options):
    """Return the warnings of an inference in words."""
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        group_inference(*arguments, **options)
    return " | ".join(str(each.message) for each in told)


TEN, FIFTY = {"n_permutations": 10}, {"n_permutations": 50}
FOUR = "^With 4 subjects the smallest p-value attainable with correction 'none'"
MORE = "More subjects make it smaller."


@pytest.mark.parametrize(
    ("n", "other", "method", "correction", "options", "words"),
    [
        (3, 0, "sign-flip", "max", {}, "3 subjects and 7 .* 'max' is 0.125"),
        (3, 0, "bootstrap", "max", {"n_permutations": 10}, "'max' is 0.0909.*=200"),
        (3, 0, "prevalence", "max", FIFTY | {"own": 3}, "no prevalence bound at 4 po"),
        (3, 0, "prevalence", "none", FIFTY, r"cannot exceed 0\.30, .* can show it\.$"),
        # That the bound is out of reach goes without saying.
        (3, 0, "prevalence", "max", TEN, "^[^|]* nothing can be significant[^|]*$"),
        (3, 0, "t", "none", {}, "^$"),
        (4, 0, "wilcoxon", "none", {}, f"{FOUR} is 0.0625, above alpha=0.05.*{MORE}$"),
        (4, 0, "wilcoxon", "fdr", {"alternative": "two-sided", "alpha": 0.1}, "0.125"),
        (5, 0, "wilcoxon", "bonferroni", {}, "is 0.125"),  # 4 times 1 of 32
        (5, 0, "wilcoxon", "none", {}, "^$"),
        (4, 0, "wilcoxon", "none", {"alpha": 0.0625}, "^$"),  # is just within reach
        (3, 2, "wilcoxon", "none", {}, "'none' is 0.0956,"),  # of ties; else 2 of 10
        (4, 4, "wilcoxon", "none", {}, "^$"),  # 2 of 70
        (4, 0, "t", "bonferroni", {}, "^$"),
        (12, 0, "i-test", "holm", {"order": 3}, "'holm' .* a lower order.$"),
    ],
)
def test_what_is_out_of_reach_is_told(n, other, method, correction, options, words):
    if other:
        options = options | {"other": courses(other, seed=9)}
    options, n_times = dict(options), 60 if method == "i-test" else 4
    results = courses(n, options.pop("own", 9), n_times, effect=0.4)
    told = told_by(results, method, correction, **options)
    assert re.search(words, told), told


def test_rank_sums_of_ties_may_go_below_their_exact_floor():
    results = courses(6)
    for number, result in enumerate(results):
        result.scores[...] = 0.4 + 0.2 * (number < 3)
    assert not told_by(results[:3], "wilcoxon", "none", other=results[3:])


# -------------------------------------------------------------------- recombined maps


def maps_of_subjects(kind="few", n_maps=(11, 11, 11, 11, 11), dtype=float, seed=3):
    """Return scores (S, 7), nulls (P, 7) and draws of subjects, few values or many."""
    rng, trials = np.random.default_rng(seed), [40, 40, 41, 60, 400]
    maps = [
        rng.normal(0.5, 0.05, (n, 7))
        if kind == "many"
        else rng.binomial(k, 0.5, (n, 7)) / k
        for n, k in zip(n_maps, trials, strict=False)
    ]
    for each in maps:
        each[0, 2] += 0.2
        each -= 0.7  # so that sizes are those of low scores
    nulls = [each[1:].astype(dtype) for each in maps]
    return np.array([each[0] for each in maps]), nulls


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("statistic", ["min", "mean"])
@pytest.mark.parametrize("kind", ["few", "many"])
def test_recombined_maps_equal_the_oracle(kind, statistic, dtype, monkeypatch):
    n_maps = [11, 5, 11, 8, 11]
    scores, nulls = maps_of_subjects(kind, n_maps, dtype)
    draws = draw_recombinations(n_maps, 1200, random_state=0)
    assert_array_equal(draws, reference_group.recombinations(n_maps, 1200, 0))
    null = RecombinedNull(scores, nulls, draws, statistic)
    whole = null[:]
    assert whole.dtype == null.dtype == dtype
    assert null.shape == whole.shape == (1200, 7)
    assert (null.ndim, len(null)) == (2, 1200)
    over = np.min if statistic == "min" else np.mean
    plain = reference_group.Recombined(scores.astype(dtype), nulls, draws, over)
    close = {"rtol": 1e-6 if dtype == np.float32 else 1e-13, "atol": 0}
    assert_allclose(whole, plain.maps(), **close)
    assert_allclose(null.observed, plain.observed(), **close)
    neutral = RecombinedNull(scores, nulls, np.zeros((1, 5), int), statistic)
    assert_array_equal(neutral[:][0], null.observed)
    # Rows do not depend on what is read with them, nor on the order of memory.
    assert_array_equal(np.concatenate([null[:1], null[1:9], null[9:]]), whole)
    assert_array_equal(null[5:25, 3:6], whole[5:25, 3:6])
    assert_array_equal(null[1200:], whole[1200:])
    monkeypatch.setattr("mvpa_kfda.utils.memory._BATCH", 30)
    order = ">f4" if dtype == np.float32 else ">f8"
    swapped = [np.asfortranarray(each).astype(order) for each in nulls]
    assert_array_equal(RecombinedNull(scores, swapped, draws, statistic)[:], whole)


@pytest.mark.parametrize("statistic", ["min", "mean"])
def test_observed_scores_are_as_precise_as_the_nulls(statistic):
    scores = np.array([[0.7], [0.7]])
    nulls = [np.array([[0.7]], dtype=np.float32), np.array([[0.7]])]
    null = RecombinedNull(scores, nulls, draw_recombinations([2, 2], 9), statistic)
    assert null.dtype == np.float32  # the least precise null decides what ties
    assert corrected_p_values(null.observed, null[:]) == 1
    assert_array_equal(null.observed, np.float32([0.7]).astype(float))


def test_few_combinations_are_all_listed_and_many_drawn():
    expected = list(itertools.product(range(4), range(2), range(3)))[1:]
    for n_permutations in (23, 24):
        draws = draw_recombinations([4, 2, 3], n_permutations)
        assert [tuple(row) for row in draws.tolist()] == expected
    assert draw_recombinations([4, 2, 3], 22, random_state=3).shape == (22, 3)
    assert len(draw_recombinations([1001] * 40, 10, random_state=0)) == 10
    with pytest.raises(ValueError, match="Invalid value for 'random_state': 'one'"):
        draw_recombinations([101] * 3, 10, "one")


# -------------------------------------------- clusters with a height for each position


class Rows:
    """Group maps as a null of them is read, the observed one first."""

    def __init__(self, rows):
        self.observed, self._null = rows[0].astype(float), rows[1:]
        self.shape, self.dtype = self._null.shape, rows.dtype

    def __len__(self):
        return len(self._null)

    def __getitem__(self, key):
        return self._null[key]


def means(n_positions, n_permutations=199, seed=0, dtype=float, trials=None):
    """Return rows (P + 1, V) of means, with an effect in the first at some positions.

    With `trials`, scores are accuracies of that number of trials, which often tie.
    """
    rng = np.random.default_rng(seed)
    rows = rng.normal(0.5, 0.05, (n_permutations + 1, n_positions))
    if trials is not None:
        rows = rng.binomial(trials, 0.5, rows.shape) / trials
    rows[0, [i for i in (2, 3, 4, 9) if i < n_positions]] += 0.6
    return rows.astype(dtype)


def test_heights_let_no_more_maps_pass_than_allowed():
    # Few distinct scores among 1000 maps: many ties at every height.
    rows = Rows(means(6, 999, trials=2))
    assert (rows[:] > _heights(rows, 0.001)).sum(axis=0).max() <= 1
    cluster_size_p([rows], 0.001)  # one map of a thousand may pass
    rows = Rows(means(8, seed=1))
    rows.observed[:] = 0
    assert_array_equal(cluster_size_p([rows], 0.01), np.ones(8))
    rows = [Rows(means(12, 99))]  # the share of maps is not cut by rounding
    assert 0.29 * 100 < 29
    found, same = (cluster_size_p(rows, level) for level in (0.29, 0.2901))
    assert_array_equal(found, same)
    single = [Rows(means(3)[:, 2:])]
    assert_array_equal(
        cluster_size_p(single, 0.05, shape=()), cluster_size_p(single, 0.05)
    )


@pytest.mark.parametrize(
    ("threshold", "observed", "message"),
    [
        (0.001, 0.5, r"0.001 with 199 .*n_permutations=999 or mor"),
        (0.05, np.nan, "Scores must be finite"),
        (0.05, np.inf, "Scores must be finite"),
    ],
)
def test_what_has_no_clusters_of_own_heights(threshold, observed, message):
    rows = Rows(means(5))
    rows.observed[2] = observed
    with pytest.raises(ValueError, match=message):
        cluster_size_p([rows], threshold)


# ---------------------------------------------------------------- tests from theory


def accuracies(n_subjects, n_positions, seed=0):
    """Differences from chance of few trials: full of ties and zeros."""
    hits = np.random.default_rng(seed).binomial(20, 0.6, (n_subjects, n_positions))
    return hits / 20 - 0.5


def real(n_subjects, n_positions, seed=0):
    return np.random.default_rng(seed).normal(0.4, 1.0, (n_subjects, n_positions))


@alternatives
@pytest.mark.parametrize("n_subjects", [6, 13, 14, 50, 51])
def test_signed_rank_tests_are_those_of_scipy(n_subjects, alternative):
    # Whether there are ties is looked at for each position.
    data = np.hstack([each(n_subjects, 4, seed=5) for each in (real, accuracies)])
    found = parametric_p(data, statistic="wilcoxon", alternative=alternative)
    assert_signed_rank_p(np.round(data, 12), found, alternative)


def assert_signed_rank_p(values, found, alternative="greater"):
    """Compare with SciPy, and where that is not exact with z of the signed ranks."""
    ranks = reference_group.signed_ranks(values)
    z = reference_group.Flipped(ranks, None, True).observed()
    for x, statistic, p in zip(values.T, z, found, strict=True):
        expected = reference_group.p_of_distribution(
            x, None, statistic, True, alternative
        )
        assert_allclose(p, expected, rtol=1e-9, atol=0)


def test_signed_ranks_with_a_zero_are_those_of_the_others():
    differences = np.array([0.0, 1.0, 2.0, 3.0, -4.0, 5.0, 6.0])[:, np.newaxis]
    p = parametric_p(differences, statistic="wilcoxon")
    expected = parametric_p(differences[1:], statistic="wilcoxon")
    assert_allclose(p, expected, **EXACT)
    # Above 13 subjects by the normal approximation, exact or not without the zero.
    differences = np.append(np.arange(2.0, 17.0), [-1.0, 0.0])[:, np.newaxis]
    assert_signed_rank_p(differences, parametric_p(differences, statistic="wilcoxon"))


@alternatives
@pytest.mark.parametrize(("n_first", "n_second"), [(5, 12), (8, 9), (10, 9)])
@pytest.mark.parametrize("data", [real, accuracies])
def test_rank_sum_tests_are_those_of_scipy(data, n_first, n_second, alternative):
    first, second = data(n_first, 6), data(n_second, 6, seed=1)
    p = parametric_p(first, second, "wilcoxon", alternative)
    for x, y, one in zip(np.round(first, 12).T, np.round(second, 12).T, p, strict=True):
        expected = stats.mannwhitneyu(x, y, alternative=alternative).pvalue
        assert_allclose(one, expected, rtol=1e-9, atol=0)


@pytest.mark.filterwarnings("error")
@alternatives
@pytest.mark.parametrize("statistic", STATISTICS)
def test_constant_differences_give_a_p_value_and_no_warning(statistic, alternative):
    differences = np.zeros((10, 3))
    differences[:, 1], differences[:, 2] = 0.2, -0.2
    p = parametric_p(differences, statistic=statistic, alternative=alternative)
    assert p[0] == 1
    small = {"greater": [1], "less": [2], "two-sided": [1, 2]}[alternative]
    assert (p[small] < 0.01).all()
    assert ((p > 0) & (p <= 1)).all()
    p = parametric_p(differences, differences[:4], statistic, alternative)
    assert_array_equal(p, 1)


def test_few_subjects_of_noise_have_no_tiny_p_values():
    rng = np.random.default_rng(0)
    noise = rng.binomial(40, 0.5, (200, 3, 50)) / 40 - 0.5
    p = np.concatenate([parametric_p(values) for values in noise])
    assert 0.04 < (p <= 0.05).mean() < 0.06
    assert (p <= 1e-4).mean() < 1e-3


# ----------------------------------------------- all sign flips are those of MNE-Python

#: Before version 1.13.2 MNE-Python's TFCE did not weigh the heights.
OF_MNE = ("cluster", "tfce")[: 1 + mne.utils.check_version("mne", "1.13.2")]
LEVEL = 0.1
#: MNE-Python's TFCE is a sum over heights, which turns some ranks of flips around.
STEP, OF_RANKS = 0.1, {"rtol": 0, "atol": 0.1}
MAPS = {
    TimeResult: {"times": np.arange(30) / 10},
    TimeFrequencyResult: {"freqs": 4.0 + np.arange(6), "times": np.arange(6) / 10},
}


@pytest.mark.parametrize("kind", MAPS)
@pytest.mark.parametrize("correction", OF_MNE)
def test_two_sided_p_values_are_those_of_mne(kind, correction):
    rng, shape = np.random.default_rng(4), [len(each) for each in MAPS[kind].values()]
    differences = rng.normal(0.02, 0.1, (7, *shape)).clip(-0.5, 0.5)
    results = [build.made(kind, 0.5 + each, **MAPS[kind]) for each in differences]
    options = {"alternative": "two-sided", "threshold": LEVEL}
    group = group_inference(results, "sign-flip", correction, **options)
    height = stats.t.isf(LEVEL / 2, 6)
    _, clusters, cluster_p, _ = permutation_cluster_1samp_test(
        differences,
        threshold={"start": 0, "step": STEP} if correction == "tfce" else height,
        out_type="indices",
        n_permutations=2**7,
        verbose=False,
    )
    expected = np.ones(differences[0].shape)
    for cluster, p in zip(clusters, cluster_p, strict=True):
        expected[cluster] = p
    assert len(np.unique(expected)) > 3
    close = OF_RANKS if correction == "tfce" else EXACT
    assert_allclose(group.pvalues(), expected, **close)


# ------------------------------------------------------- how often groups are wrong


def of_group(rng, carriers, n_trials, p_effect=0.95):
    """Return results (S,) with an effect where they are `carriers` (S, C)."""
    results = []
    for has, n in zip(carriers, n_trials, strict=True):
        null = rng.binomial(n, 0.5, (50, len(has))) / n
        scores = rng.binomial(n, np.where(has, p_effect, 0.5)) / n
        times = np.arange(len(has))
        results.append(build.made(TimeResult, scores, null, times=times))
    return results


def majorities(results):
    """Return where a group has a majority by p-values, and where by the bound."""
    group = group_inference(results, n_permutations=20, random_state=0)
    p = group.pvalues("max", hypothesis="majority")
    return p <= 0.05, group.prevalence_bound("max") >= 0.5


@pytest.mark.filterwarnings("ignore:With .* permutations the smallest:RuntimeWarning")
def test_no_false_majority_at_any_position():
    # Half of the population has an effect at each of 30 positions, so that any majority
    # is a false one; by Eq. 21 some would be found in about every second group.
    n_groups, found = 60, np.zeros(2)
    for number in range(n_groups):
        rng = np.random.default_rng((1, number))
        carriers = rng.random((10, 30)) < 0.5
        results = of_group(rng, carriers, [60] * 10)
        found += [hits.any() for hits in majorities(results)]
    assert (found / n_groups <= 0.15).all()  # the 99.9 % quantile
    # Of 20 subjects who all have it, most positions are found.
    results = of_group(rng, np.ones((20, 30)), [60] * 20)
    by_p, by_bound = majorities(results)
    assert by_p.all()
    assert by_bound.all()


@pytest.mark.filterwarnings("ignore:With .* permutation the smallest:RuntimeWarning")
def test_subjects_may_have_fewer_trials():
    # Half of them have a wide spread of permuted scores, and reach the minimum easily.
    n_groups, found = 25, []
    for number in range(n_groups):
        rng = np.random.default_rng((2, number))
        carriers = rng.random((12, 40)) < 0.5
        results = of_group(rng, carriers, [16, 400] * 6)
        group = group_inference(results, n_permutations=1, random_state=0)
        found.append(group.pvalues("none", hypothesis="majority") <= 0.05)
    # 25 times 40 positions: 3.0 to 7.2 % with a probability of 99.8 %.
    assert np.mean(found) <= 0.072


FOLDER = Path(__file__).parents[2] / "doc" / "benchmarks"
N_SINGLE, N_GROUPS, N_POWER, N_VOXELS, N_OTHER, N_MAPS = 600, 120, 30, 40, 150, 200

#: How often a calibrated test is outside of its bounds. With some two hundred of them
#: a correct package fails in less than one of ten thousand choices of the seeds.
RARE = 4e-7
#: The same as a number of standard errors of a mean.
FAR = 5.0


@pytest.fixture(scope="module")
def studies():
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(FOLDER)
        yield import_module("calibration_studies")


@pytest.fixture(scope="module")
def noise(studies):
    """Front and back results of subjects without an effect."""
    n = max(N_SINGLE, N_GROUPS * studies.N_SUBJECTS)
    return tuple(zip(*studies.both_sides(21, n, list(studies.METRICS)), strict=True))


@pytest.fixture(scope="module")
def power(studies, noise):
    """What is found in populations of which a share has a strong effect."""
    n = N_POWER * studies.N_SUBJECTS
    strong = [
        studies.decode(studies.draw(22, i, front=studies.STRONG)[0], i)
        for i in range(n)
    ]
    front, back = (side[:n] for side in noise)
    return {
        share: studies.group_power(strong, front, back, share)
        for share in studies.SHARES
    }


def most(n, rate=0.05):
    """Return the largest share of n data sets that a true rate may give."""
    return binom.isf(RARE, n, rate) / n


def least(n, rate):
    """Return the smallest share of n data sets that a true rate may give."""
    return binom.ppf(RARE, n, rate) / n


def check_level(found, n):
    """Assert that no test finds more in noise than it may."""
    for column, by_correction in found.items():
        for name, rates in by_correction.items():
            assert len(rates) == n
            if name != "none, any position":
                assert np.mean(rates) <= most(n), (column, name)


def check_exact(rates):
    """Assert that neither more nor less than 5 % of positions are found in noise."""
    error = np.std(rates) / np.sqrt(len(rates))
    assert error < 0.015
    assert abs(np.mean(rates) - 0.05) < FAR * error


@pytest.mark.slow
def test_single_subjects_of_noise(studies, noise):
    found = studies.first_level(noise[0][:N_SINGLE], list(studies.METRICS))
    assert len(found) == 4
    check_level(found, N_SINGLE)
    for side in studies.SIDES:
        rates = found[f"AUC, {side}"]
        assert np.mean(rates["none, any position"]) > 2 * most(N_SINGLE)
        check_exact(rates["none"])
        assert np.mean(rates["max"]) >= least(N_SINGLE, 0.05)


@pytest.mark.slow
def test_groups_of_noise(studies, noise):
    n = N_GROUPS * studies.N_SUBJECTS
    front, back = (side[:n] for side in noise)
    for metric in studies.METRICS:
        found = studies.group_noise(front, back, metric)
        check_level(found, N_GROUPS)
        for column in studies.TESTS:
            if metric == "roc_auc" and column not in studies.ONE_METRIC:
                check_exact(found[column]["none"])
                assert np.mean(found[column]["none, any position"]) > most(N_GROUPS)
        # Nobody has an effect, so that half of the population has one is far off; at
        # some of all positions, uncorrected, it may be found more often.
        for name, rates in found["majority null"].items():
            most_often = 0.05 if name == "none, any position" else 0.01
            assert np.mean(rates) < most_often, name


@pytest.mark.slow
def test_voxels_of_noise(studies):
    found = studies.voxel_noise(N_VOXELS)
    assert set(found) == {"prevalence", "majority null", "bootstrap", "sign-flip", "t"}
    check_level(found, N_VOXELS)
    for column in ("prevalence", "bootstrap", "sign-flip"):
        check_exact(found[column]["none"])


@pytest.mark.slow
def test_effects_in_all_subjects_are_found(power):
    found = power[1.0]
    for column, by_correction in found.items():
        for name, rates in by_correction.items():
            # p-values of the majority null are too large for other corrections.
            if column != "majority null":
                assert np.mean(rates) > 0.5, (column, name)
    assert np.mean(found["majority null"]["max"]) > 0.5


@pytest.mark.slow
def test_effects_in_a_quarter_of_subjects(power):
    found = power[0.25]
    # A mean above chance does not say that the effect is typical.
    for column in ("bootstrap", "sign-flip", "t", "wilcoxon"):
        assert np.mean(found[column]["none"]) > 0.1, column
    for rates in found["majority null"].values():
        assert np.mean(rates) < 0.03


@pytest.mark.slow
def test_majority_null_keeps_the_level_where_half_have_the_effect(power):
    for name, rates in power[0.5]["majority null"].items():
        assert np.mean(rates) <= most(N_POWER), name


@pytest.mark.slow
def test_comparisons_within_subjects(studies):
    equal, different = list(studies.PAIRS)[:2], list(studies.PAIRS)[2:]
    found = studies.comparisons(N_OTHER, equal)
    assert len(found) == 2
    check_level(found, N_OTHER)
    check_exact(found["permutation, neither decodes"]["none"])
    found = studies.comparisons(N_OTHER, different)
    for rates in found.values():
        assert np.mean(rates["none"]) > 0.4
        assert np.mean(rates["max"]) > 0.1


@pytest.mark.slow
def test_maps_of_noise_that_lasts(studies):
    """Whatever is found wholly without an effect is an error, of either hypothesis."""
    found = studies.generalization(N_MAPS)
    for words in studies.MAPS:
        for name, rates in found[words].items():
            assert name == "none" or np.mean(rates) <= most(N_MAPS), (words, name)
    assert np.mean(found["noise"]["max"]) >= least(N_MAPS, 0.05)
    for name, rates in found["silent training, found"].items():
        # Whoever learns from permuted labels gets by on a large penalty, which costs
        # the second test power.
        assert np.mean(rates) > {"max": 0.2, "tfce": 0.05}.get(name, 0.6), name
    check_exact(found["noise"]["none"])


@pytest.mark.slow
def test_groups_of_maps_of_noise_that_lasts(studies):
    found = {"bootstrap": studies.new()["x"], "prevalence": studies.new()["x"]}
    names = ("max", "cluster", "cluster-size", "tfce")
    options = {"n_permutations": 199, "random_state": 0}
    for first in range(0, 6 * N_GROUPS, 6):
        results = [studies.map_of(23, first + i, "noise") for i in range(6)]
        for method, rates in found.items():
            more = ("cluster-fdr",) if method == "bootstrap" else ()
            group = group_inference(
                results, method, [*names, *more], threshold=0.05, **options
            )
            for name in (*names, *more):
                rates[name].append((group.pvalues(name) <= 0.05 + 1e-9).any())
    for method, rates in found.items():
        for name, each in rates.items():
            assert np.mean(each) <= most(N_GROUPS), (method, name)
    assert np.mean(found["bootstrap"]["max"]) > 0


@pytest.mark.slow
def test_intervals_of_latencies_hold_the_latency(studies):
    for _, hits in studies.latency_coverage(N_OTHER).values():
        # Of 12 subjects they are too narrow where latencies differ, as documented.
        assert np.mean(hits) >= least(N_OTHER, 0.87)


@pytest.mark.slow
def test_free_shuffling_over_stratified_folds(studies):
    within, free = studies.shuffling(N_OTHER).values()
    n = len(within["null"])
    # The observed accuracies are the same ones; the nulls are means of 99 of them.
    assert within["observed"] == free["observed"]
    spread = np.std(within["observed"]) / np.sqrt(n)
    assert abs(np.mean(within["observed"]) - np.mean(within["null"])) < FAR * spread
    gap = np.mean(within["null"]) - np.mean(free["null"])
    assert gap == pytest.approx(0.006, rel=0, abs=0.002)
    for name in ("bootstrap", "prevalence"):
        assert np.mean(within[name]) <= most(N_OTHER)
        # A bias of 0.006 is a third of the standard error of the mean of 20 subjects.
        assert np.mean(free[name]) >= np.mean(within[name])
