"""Sign flips, exchanged labels and tests from theory, against loops over SciPy."""

import math
import warnings
from dataclasses import replace
from itertools import combinations, product

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import stats

from mvpa_kfda import group_inference, methods_text
from mvpa_kfda.group.latency import locate
from mvpa_kfda.group.second_level import parametric_p
from mvpa_kfda.inference.exchange import (
    LEAST_REST,
    STATISTICS,
    Exchange,
    draw_labels,
    draw_signs,
)
from mvpa_kfda.inference.null import ALTERNATIVES
from tests import build


def accuracies(n_subjects, n_positions, seed=0, n_trials=20):
    """Differences from chance of few trials: full of ties and zeros."""
    hits = np.random.default_rng(seed).binomial(
        n_trials, 0.6, (n_subjects, n_positions)
    )
    return hits / n_trials - 0.5


def real(n_subjects, n_positions, seed=0):
    return np.random.default_rng(seed).normal(0.4, 1.0, (n_subjects, n_positions))


def signed_rank_z(x):
    """As the formula has it: rank sum without zeros, its mean, its sd with ties."""
    x = np.round(x, 12)
    x = x[x != 0]
    n, ranks = len(x), stats.rankdata(np.abs(x))
    counts = np.unique(ranks, return_counts=True)[1]
    variance = n * (n + 1) * (2 * n + 1) / 24 - (counts**3 - counts).sum() / 48
    return (ranks[x > 0].sum() - n * (n + 1) / 4) / np.sqrt(variance) if n else 0.0


def tail(z, alternative):
    """p of a normal deviate."""
    if alternative == "two-sided":
        return 2 * stats.norm.sf(abs(z))
    return stats.norm.sf(-z if alternative == "less" else z)


def rank_sum_z(x, y):
    """As the formula has it: rank sum, its mean, its sd with ties."""
    ranks = stats.rankdata(np.round(np.concatenate([x, y]), 12))
    n, n_x = len(ranks), len(x)
    counts = np.unique(ranks, return_counts=True)[1]
    ties = (counts**3 - counts).sum() / (n * (n - 1))
    sd = np.sqrt(n_x * (n - n_x) / 12 * (n + 1 - ties))
    return (ranks[:n_x].sum() - n_x * (n + 1) / 2) / sd if sd > 0 else 0.0


def pooled_t(x, y):
    """Of few trials all values of a group may be the same, which SciPy warns of."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Precision loss")
        return stats.ttest_ind(x, y).statistic


ONE_SAMPLE = {
    "t": lambda x: stats.ttest_1samp(x, 0).statistic,
    "wilcoxon": signed_rank_z,
}
TWO_SAMPLES = {
    "t": pooled_t,
    "wilcoxon": rank_sum_z,
}


@pytest.mark.parametrize("data", [real, accuracies])
@pytest.mark.parametrize("statistic", STATISTICS)
def test_sign_flips_are_those_of_scipy(statistic, data):
    differences = data(5, 7, seed=3)
    signs = draw_signs(5, 31)
    flips = Exchange(differences, signs, statistic)
    expected = [
        [ONE_SAMPLE[statistic](row[:, 0]) for row in np.split(flipped, 7, axis=1)]
        for flipped in signs[:, :, np.newaxis] * differences
    ]
    assert (len(flips), flips.shape, flips.ndim) == (31, (31, 7), 2)
    assert flips.dtype == np.float64
    assert_allclose(flips[0:31], expected, rtol=1e-9, atol=1e-11)
    observed = [ONE_SAMPLE[statistic](x) for x in differences.T]
    assert_allclose(flips.observed, observed, rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("data", [real, accuracies])
@pytest.mark.parametrize("statistic", STATISTICS)
def test_label_exchange_is_that_of_scipy(statistic, data):
    values = data(7, 6, seed=1)
    labels = draw_labels(3, 4, 1000)
    exchange = Exchange(values, labels, statistic)
    assert exchange.shape == (math.comb(7, 3) - 1, 6)
    compare = TWO_SAMPLES[statistic]
    expected = [[compare(x[row], x[~row]) for x in values.T] for row in labels]
    assert_allclose(exchange[0 : len(labels)], expected, rtol=1e-9, atol=1e-11)
    observed = [compare(x[:3], x[3:]) for x in values.T]
    assert_allclose(exchange.observed, observed, rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("statistic", STATISTICS)
def test_rows_do_not_depend_on_the_batch_to_the_last_bit(statistic):
    differences = accuracies(12, 501)
    flips = Exchange(differences, draw_signs(12, 300, 0), statistic)
    labels = Exchange(differences, draw_labels(5, 7, 300, 0), statistic)
    for null in (flips, labels):
        whole = null[0:300]
        for step in (1, 7, 128):
            parts = [null[i : i + step] for i in range(0, 300, step)]
            assert_array_equal(np.concatenate(parts), whole)


@pytest.mark.parametrize("statistic", STATISTICS)
def test_equal_sums_are_ties_however_they_come_about(statistic):
    # 0.6 - 0.5 and 0.5 - 0.4 differ in the last bit, as sums in another order do.
    scores = np.array([0.6, 0.7, 0.4, 0.3, 0.8, 0.6])
    differences = (scores - 0.5)[:, np.newaxis]
    null = Exchange(differences, draw_signs(6, 63), statistic)
    whole = np.array([1, 2, -1, -2, 3, 1])[:, np.newaxis]
    expected = Exchange(whole, draw_signs(6, 63), statistic)
    assert_array_equal(null[0:63], expected[0:63])


def test_t_is_finite_for_equal_differences_and_zero_for_none():
    differences = np.zeros((5, 3))
    differences[:, 1] = 0.1
    differences[:, 2] = -0.3
    differences[0, 0] = 1e-17  # rounding of a score that is at chance
    flips = Exchange(differences, draw_signs(5, 31))
    largest = math.sqrt(4 / LEAST_REST)
    assert_allclose(flips.observed, [0, largest, -largest], rtol=1e-12, atol=0)
    assert np.isfinite(flips[0:31]).all()
    assert_array_equal(flips[0:31][:, 0], 0)
    same = Exchange(np.full((5, 1), 0.7), draw_labels(2, 3, 100))
    assert_array_equal(same.observed, 0)
    apart = Exchange(np.array([[1.0], [1.0], [0.0]]), draw_labels(2, 1, 100))
    assert_allclose(apart.observed, math.sqrt(1 / LEAST_REST), rtol=1e-12, atol=0)


def brute_force_p(rows, observed, alternative):
    """p at each position and p of the maximum, over all rows, the data's included."""
    turned = {"greater": rows, "less": -rows, "two-sided": np.abs(rows)}[alternative]
    value = turned[0]
    assert_allclose(rows[0], observed, rtol=1e-9, atol=1e-11)
    bound = value - 1e-9
    single = (turned >= bound).mean(axis=0)
    return single, (turned.max(axis=1, keepdims=True) >= bound).mean(axis=0)


@pytest.mark.parametrize("n_permutations", [31, 1000])
def test_all_signs_are_listed_where_they_are_few(n_permutations):
    signs = draw_signs(5, n_permutations)
    expected = set(product([1, -1], repeat=5)) - {(1,) * 5}
    assert signs.shape == (31, 5)
    assert {tuple(row) for row in signs.tolist()} == expected


@pytest.mark.parametrize(
    ("draw", "observed"),
    [
        (lambda seed: draw_signs(5, 30, seed), np.ones(5)),
        (lambda seed: draw_signs(70, 200, seed), np.ones(70)),
        (lambda seed: draw_labels(2, 5, 19, seed), np.arange(7) < 2),
        (lambda seed: draw_labels(20, 30, 200, seed), np.arange(50) < 20),
    ],
)
def test_drawn_rows_are_distinct_and_never_the_data(draw, observed):
    rows = draw(0)
    assert len({row.tobytes() for row in rows}) == len(rows)
    assert not (rows == observed).all(axis=1).any()
    assert_array_equal(rows, draw(0))
    assert (rows != draw(1)).any()


def test_all_labels_are_listed_where_they_are_few():
    labels = draw_labels(3, 2, 9)
    assert labels.dtype == bool
    found = {tuple(np.flatnonzero(row).tolist()) for row in labels}
    assert found == set(combinations(range(5), 3)) - {(0, 1, 2)}
    assert_array_equal(draw_labels(12, 9, 50, 0).sum(axis=1), 12)


def test_drawn_signs_are_fair():
    signs = draw_signs(30, 4000, 0)
    assert_allclose(signs.mean(axis=0), 0, rtol=0, atol=5 / math.sqrt(4000))


def test_what_is_not_valid_is_refused():
    with pytest.raises(ValueError, match="Invalid value for 'statistic': 'median'"):
        Exchange(np.ones((3, 1)), draw_signs(3, 7), "median")
    with pytest.raises(ValueError, match="Invalid value for 'statistic': 'median'"):
        Exchange(np.ones((3, 1)), draw_labels(1, 2, 7), "median")
    with pytest.raises(ValueError, match="Invalid value for 'random_state': 'one'"):
        draw_signs(40, 10, "one")
    with pytest.raises(ValueError, match="'n_permutations': 0"):
        draw_labels(2, 2, 0)


# ---------------------------------------------------------------- tests from theory


@pytest.mark.parametrize("alternative", ALTERNATIVES)
def test_t_tests_are_those_of_scipy(alternative):
    first, second = real(9, 20), real(6, 20, seed=1)
    p = parametric_p(first, alternative=alternative)
    expected = stats.ttest_1samp(first, 0, alternative=alternative).pvalue
    assert_allclose(p, expected, rtol=1e-9, atol=0)
    p = parametric_p(first, second, alternative=alternative)
    expected = stats.ttest_ind(first, second, alternative=alternative).pvalue
    assert_allclose(p, expected, rtol=1e-9, atol=0)


@pytest.mark.parametrize("alternative", ALTERNATIVES)
@pytest.mark.parametrize("n_subjects", [6, 14, 55])
@pytest.mark.parametrize("data", [real, accuracies])
def test_signed_rank_tests_are_those_of_scipy(data, n_subjects, alternative):
    differences = data(n_subjects, 6, seed=5)
    signs = np.array(list(product([1, -1], repeat=min(n_subjects, 6))))
    found = parametric_p(differences, statistic="wilcoxon", alternative=alternative)
    for x, p in zip(np.round(differences, 12).T, found, strict=True):
        if n_subjects > 50 or (n_subjects > 13 and data is accuracies):
            expected = tail(signed_rank_z(x), alternative)
        elif data is accuracies:
            ranks = stats.rankdata(np.abs(x)) - np.count_nonzero(x == 0)
            sums = signs @ (np.sign(x) * ranks)
            expected = brute_force_p(sums[:, np.newaxis], sums[0], alternative)[0][0]
        else:
            expected = stats.wilcoxon(x, method="exact", alternative=alternative).pvalue
        assert_allclose(p, expected, rtol=1e-9, atol=0)


def test_signed_ranks_with_a_zero_are_those_of_the_others():
    differences = np.array([0.0, 1.0, 2.0, 3.0, -4.0, 5.0, 6.0])[:, np.newaxis]
    p = parametric_p(differences, statistic="wilcoxon")
    expected = parametric_p(differences[1:], statistic="wilcoxon")
    assert_allclose(p, expected, rtol=1e-12, atol=0)
    # Above 13 subjects by the normal approximation, exact or not without the zero.
    differences = np.append(np.arange(2.0, 17.0), [-1.0, 0.0])[:, np.newaxis]
    p = parametric_p(differences, statistic="wilcoxon")
    expected = tail(signed_rank_z(differences[:, 0]), "greater")
    assert_allclose(p, expected, rtol=1e-9, atol=0)


@pytest.mark.parametrize("alternative", ALTERNATIVES)
@pytest.mark.parametrize(("n_first", "n_second"), [(5, 12), (10, 9)])
@pytest.mark.parametrize("data", [real, accuracies])
def test_rank_sum_tests_are_those_of_scipy(data, n_first, n_second, alternative):
    first, second = data(n_first, 6), data(n_second, 6, seed=1)
    p = parametric_p(first, second, "wilcoxon", alternative)
    for x, y, one in zip(np.round(first, 12).T, np.round(second, 12).T, p, strict=True):
        expected = stats.mannwhitneyu(x, y, alternative=alternative).pvalue
        assert_allclose(one, expected, rtol=1e-9, atol=0)


def test_a_position_does_not_change_the_p_values_of_another():
    differences = np.column_stack([real(8, 1), accuracies(8, 3)])
    others = np.column_stack([real(6, 1, seed=2), accuracies(6, 3, seed=2)])
    alone = parametric_p(differences[:, :1], statistic="wilcoxon")
    assert_array_equal(parametric_p(differences, statistic="wilcoxon")[:1], alone)
    alone = parametric_p(differences[:, :1], others[:, :1], "wilcoxon")
    assert_array_equal(parametric_p(differences, others, "wilcoxon")[:1], alone)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("alternative", ALTERNATIVES)
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


# ------------------------------------------------------------ subjects that score alike


def t_of(values, others=None):
    """t of each column, whose variance is a thousandth of the largest at least."""
    if others is None:
        variance = values.var(axis=0, ddof=1)
        mean, n = values.mean(axis=0), 1 / len(values)
    else:
        sizes = len(values), len(others)
        squares = sum(
            n * x.var(axis=0) for n, x in zip(sizes, (values, others), strict=True)
        )
        variance, n = squares / (sum(sizes) - 2), sum(1 / size for size in sizes)
        mean = values.mean(axis=0) - others.mean(axis=0)
    return mean / np.sqrt(np.maximum(variance, variance.max() / 1000) * n)


def alike(n_subjects, n_positions=6, seed=0):
    """Differences of which the first are equal, and the second so but for the sign."""
    values = real(n_subjects, n_positions, seed)
    values[:, :2] = 0.25
    values[1, 1] = -0.25
    return values


def test_no_variance_counts_as_less_than_a_thousandth_of_the_largest():
    values, signs = alike(4), draw_signs(4, 15)
    flips = Exchange(values, signs)
    expected = [t_of(row[:, np.newaxis] * values) for row in signs]
    assert_allclose(flips[0:15], expected, rtol=1e-9, atol=1e-11)
    assert_allclose(flips.observed, t_of(values), rtol=1e-9, atol=1e-11)
    assert_array_equal(flips.alike, [True] + 5 * [False])
    assert flips.observed[0] < 50 < math.sqrt(3 / LEAST_REST)
    p = parametric_p(values)
    assert_allclose(p, stats.t.sf(t_of(values), 3), rtol=1e-9, atol=0)


def test_no_pooled_variance_counts_as_less():
    values, labels = alike(5), draw_labels(2, 3, 100)
    values[:2, 0] += 1.0
    exchange = Exchange(values, labels)
    expected = [t_of(values[row], values[~row]) for row in labels]
    assert_allclose(exchange[0 : len(labels)], expected, rtol=1e-9, atol=1e-11)
    assert_allclose(exchange.observed, t_of(values[:2], values[2:]), rtol=1e-9, atol=0)
    assert_array_equal(exchange.alike, [True] + 5 * [False])


def test_the_least_variance_is_that_of_each_flipped_map():
    """However the data came to be flipped, all maps together are the same ones."""
    values, signs = alike(5), draw_signs(5, 31)

    def all_maps(values):
        flips = Exchange(values, signs)
        maps = np.concatenate([flips.observed[np.newaxis], flips[0:31]])
        return maps[np.lexsort(maps.T)]

    expected = all_maps(values)
    for row in signs[::5]:
        found = all_maps(row[:, np.newaxis] * values)
        assert_allclose(found, expected, rtol=1e-9, atol=1e-11)


def test_scores_in_steps_do_not_rule_the_maximum():
    """Six subjects with a clear effect, and a place where all are one trial off."""
    values = np.array([[1, -1, 1, 1, -1, 1], [9, 6, 8, 7, 5, 9]]).T / 20
    values = np.column_stack([values, accuracies(6, 10, 1, 20) - 0.1])
    flips = Exchange(values, draw_signs(6, 63))
    assert (flips[0:63].max(axis=1) >= flips.observed[1] - 1e-9).sum() == 0


def test_few_subjects_of_noise_have_no_tiny_p_values():
    rng = np.random.default_rng(0)
    noise = rng.binomial(40, 0.5, (200, 3, 50)) / 40 - 0.5
    p = np.concatenate([parametric_p(values) for values in noise])
    assert 0.04 < (p <= 0.05).mean() < 0.06
    assert (p <= 1e-4).mean() < 1e-3


def scoring(*scores):
    """Results over time of subjects with these accuracies (S, 3)."""
    kept = [build.result("TimeResult", seed) for seed in range(len(scores))]
    return [
        replace(one, metrics={"accuracy": np.array(each)})
        for one, each in zip(kept, scores, strict=True)
    ]


def test_a_group_tells_where_its_subjects_score_alike():
    results = scoring([0.6, 0.5, 0.7], [0.6, 0.7, 0.4], [0.6, 0.4, 0.5])
    options = {"random_state": 0, "alpha": 0.3}
    for method in ("sign-flip", "t"):
        group = group_inference(results, method, **options)
        assert group.parameters["n_alike"] == 1
        differences = group.subject_scores - 0.5
        assert_allclose(group.statistic, t_of(differences), rtol=1e-9, atol=0)
        sentence = "largest one, here at 1 time point, were raised to that (Ridgway"
        assert sentence in methods_text(group)
    differing = scoring([0.6, 0.5, 0.7], [0.7, 0.7, 0.4], [0.6, 0.4, 0.5])
    for method in ("sign-flip", "wilcoxon", "prevalence"):
        group = group_inference(differing, method, **options)
        assert group.parameters["n_alike"] == 0
        assert "Ridgway" not in methods_text(group)


def test_t_needs_a_variance():
    equal = scoring([0.6, 0.5, 0.7], [0.6, 0.5, 0.7], [0.6, 0.5, 0.7])
    with pytest.raises(ValueError, match="All 3 subjects have the same scores, which"):
        group_inference(equal, "t")
    others = scoring(*[[0.5, 0.5, 0.6]] * 5)[3:]
    with pytest.raises(ValueError, match="All 5 subjects have the same scores, which"):
        group_inference(equal, "t", other=others)
    group = group_inference(equal, "sign-flip", random_state=0, alpha=0.3)
    assert_allclose(group.pvalues("none"), [1 / 8, 1, 1 / 8], rtol=1e-12, atol=0)


def test_an_onset_by_t_takes_no_equal_scores_for_evidence():
    times = np.arange(10) / 10
    scores = np.random.default_rng(0).normal(0.5, 0.1, (6, 10))
    scores[:, 5:] += 0.4
    scores[:, 2:5] = 0.501
    rule = {"criterion": "t", "fraction": 0.5, "level": 0.05, "min_duration": 0.3}
    rule |= {"window": (0.0, 0.9), "baseline": None}
    onset = locate(times, scores, 0.5, np.ones((1, 6), int), rule)[0]
    assert 0.4 < onset[0] <= 0.5
