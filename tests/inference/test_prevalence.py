"""Recombined first-level maps and prevalence inference, against plain loops."""

import itertools
import math

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import stats

from mvpa_kfda import TimeResult, group_inference
from mvpa_kfda.group.second_level import (
    RecombinedNull,
    draw_recombinations,
    p_of_scores,
)
from mvpa_kfda.inference.corrections import corrected_p_values
from mvpa_kfda.inference.prevalence import prevalence_bound, prevalence_p
from tests import build

ALPHA = 0.05


def subjects(n_permutations=(3, 3, 3), n_positions=4, seed=0, effect=0.3):
    """Return accuracies of ten trials, which often tie, and their nulls."""
    rng = np.random.default_rng(seed)
    nulls = [rng.integers(2, 8, (n, n_positions)) / 10 for n in n_permutations]
    scores = rng.integers(3, 8, (len(nulls), n_positions)) / 10
    scores[:, 0] += effect
    return scores, nulls


# -------------------------------------------------------------------- recombined maps


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize(("statistic", "reduce"), [("min", min), ("mean", math.fsum)])
def test_rows_equal_a_loop(statistic, reduce, dtype):
    scores, nulls = subjects((3, 1, 5), n_positions=6)
    nulls = [null.astype(dtype) for null in nulls]
    draws = draw_recombinations([4, 2, 6], 30, random_state=0)
    assert (draws == 0).any()
    null = RecombinedNull(scores, nulls, draws, statistic)
    rows = null[:]
    assert rows.dtype == null.dtype == dtype
    assert null.shape == rows.shape == (30, 6)
    assert (null.ndim, len(null)) == (2, 30)
    divisor = 3 if statistic == "mean" else 1
    tolerance = {"rtol": 1e-6 if dtype == np.float32 else 1e-13, "atol": 0}
    for i, v in np.ndindex(rows.shape):
        values = [
            scores[s, v] if j == 0 else nulls[s][j - 1, v]
            for s, j in enumerate(draws[i])
        ]
        assert_allclose(rows[i, v], reduce(values) / divisor, **tolerance)
    expected = [reduce(column) / divisor for column in scores.T]
    assert_allclose(null.observed, expected, **tolerance)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("statistic", ["min", "mean"])
def test_rows_do_not_depend_on_what_is_read_with_them(statistic, dtype, monkeypatch):
    rng = np.random.default_rng(1)
    nulls = [rng.normal(size=(7, 11)).astype(dtype) for _ in range(5)]
    draws = draw_recombinations([8] * 5, 40, random_state=1)
    null = RecombinedNull(rng.normal(size=(5, 11)), nulls, draws, statistic)
    whole = null[:]
    assert_array_equal(np.concatenate([null[:1], null[1:9], null[9:]]), whole)
    assert_array_equal(null[5:25, 3:8], whole[5:25, 3:8])
    assert_array_equal(null[40:], whole[40:])
    # two rows in each batch
    monkeypatch.setattr("mvpa_kfda.utils.memory._BATCH", 30)
    assert_array_equal(null[:], whole)


def test_observed_scores_are_as_precise_as_the_nulls():
    scores = np.array([[0.7], [0.7]])
    nulls = [np.array([[0.7]], dtype=np.float32), np.array([[0.7]])]
    for statistic in ("min", "mean"):
        null = RecombinedNull(scores, nulls, draw_recombinations([2, 2], 9), statistic)
        assert null.dtype == np.float32  # the least precise null decides what ties
        assert corrected_p_values(null.observed, null[:]) == 1
        assert_array_equal(null.observed, np.float32([0.7]).astype(float))


@pytest.mark.parametrize("statistic", ["min", "mean"])
def test_the_neutral_row_is_the_observed_one(statistic):
    rng = np.random.default_rng(2)
    scores = rng.random((7, 50))
    nulls = [rng.random((2, 50), dtype=np.float32) for _ in scores]
    null = RecombinedNull(scores, nulls, np.zeros((1, 7), dtype=int), statistic)
    assert_array_equal(null[:][0], null.observed)


def test_nulls_in_another_order_of_memory_and_of_bytes():
    scores, nulls = subjects()
    draws = draw_recombinations([4] * 3, 63)
    plain = RecombinedNull(scores, nulls, draws, "min")
    swapped = [np.asfortranarray(null).astype(">f8") for null in nulls]
    assert_array_equal(RecombinedNull(scores, swapped, draws, "min")[:], plain[:])


# ---------------------------------------------------------------------- combinations


def test_few_combinations_are_all_listed():
    expected = list(itertools.product(range(4), range(2), range(3)))[1:]
    for n_permutations in (23, 24, 1000):
        draws = draw_recombinations([4, 2, 3], n_permutations)
        assert [tuple(row) for row in draws.tolist()] == expected


def test_many_combinations_are_drawn():
    draws = draw_recombinations([4, 2, 3], 22, random_state=3)
    assert draws.shape == (22, 3)
    draws = draw_recombinations([101, 5, 11], 5000, random_state=3)
    assert draws.shape == (5000, 3)
    for column, n_maps in zip(draws.T, (101, 5, 11), strict=True):
        counts = np.bincount(column, minlength=n_maps)
        assert len(counts) == n_maps
        assert stats.chisquare(counts).pvalue > 1e-4
    assert len(draw_recombinations([1001] * 40, 10, random_state=0)) == 10
    with pytest.raises(ValueError, match="Invalid value for 'random_state': 'one'"):
        draw_recombinations([101] * 3, 10, "one")


# ------------------------------------------------------------------------- prevalence


def alike(p, n_subjects):
    """Return p-values of subjects (N, ...) whose product is p."""
    return np.tile(np.asarray(p) ** (1 / n_subjects), (n_subjects, *[1] * np.ndim(p)))


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_p_values_of_the_minimum_by_subject(dtype, monkeypatch):
    scores, nulls = subjects((3, 1, 5), n_positions=6)
    nulls = [null.astype(dtype) for null in nulls]
    draws = draw_recombinations([4, 2, 6], 47)
    null = RecombinedNull(scores, nulls, draws, "min")
    p = p_of_scores(null.observed, nulls)
    for s, v in np.ndindex(p.shape):
        reach = [x >= scores[:, v].min() - 1e-6 for x in nulls[s][:, v]]
        assert p[s, v] == (1 + sum(reach)) / (1 + len(reach))
    assert len({*p.ravel()}) > 6
    # The product is the share of all recombinations: here all are there.
    every = corrected_p_values(null.observed, null[:])
    assert_allclose(prevalence_p(p, 0.0), every, rtol=1e-12, atol=0)
    monkeypatch.setattr("mvpa_kfda.utils.memory._BATCH", 4)
    assert_array_equal(p_of_scores(null.observed, nulls), p)


def test_equal_subjects_have_the_formulas_of_the_paper():
    p = np.array([[1e-4, 1e-3], [0.01, 0.049]])
    for gamma in (0.0, 0.3, 0.5):
        expected = ((1 - gamma) * p ** (1 / 12) + gamma) ** 12  # Eq. 19
        assert_allclose(prevalence_p(alike(p, 12), gamma), expected, rtol=1e-12, atol=0)
    for alpha in (ALPHA, np.array([[0.05, 0.04], [0.03, 0.05]])):
        root, level = p ** (1 / 12), np.asarray(alpha) ** (1 / 12)
        expected = (level - root) / (1 - root)  # Eq. 20
        bound = prevalence_bound(alike(p, 12), alpha)
        assert bound.shape == (2, 2)
        assert_allclose(bound, expected, rtol=1e-10, atol=1e-14)


def test_bound_is_where_the_p_value_crosses_the_level():
    rng = np.random.default_rng(0)
    p = rng.uniform(0.001, 1, (5, 200)) ** rng.uniform(0.1, 2, 200)
    bound = prevalence_bound(p, ALPHA)
    found = np.isfinite(bound)
    assert_array_equal(found, prevalence_p(p, 0) <= ALPHA)
    assert 10 < found.sum() < 200
    assert np.ptp(bound[found]) > 0.3
    each = [prevalence_p(p[:, v], bound[v]) for v in np.flatnonzero(found)]
    assert_allclose(each, ALPHA, rtol=1e-10, atol=0)
    assert (bound[found] < prevalence_bound(p[:, found], 2 * ALPHA)).all()


def test_no_bound_where_the_global_null_stands():
    p = np.array([[0.1, 0.4, 0.5, 1.0], [0.4, 0.1, 0.2, 1.0]])
    bound = prevalence_bound(p, ALPHA)
    assert 0 < bound[0] == bound[1] < 1
    assert np.isnan(bound[2:]).all()
    assert 0 < prevalence_bound(p[:, 0], 0.0401) < 1e-3


def test_p_values_at_the_ends():
    assert prevalence_p(np.ones(7), 0.3) == 1
    assert_allclose(prevalence_p([0.2, 0.1], 0.0), 0.02, rtol=1e-14, atol=0)
    assert_allclose(prevalence_p([0.02], 0.5), 0.51, rtol=1e-14, atol=0)
    assert prevalence_p(np.full(200, 1e-4), 0.0) > 0  # 1e-800 is no float


def test_largest_bound():
    # Worked by hand for 2 subjects: (g + (1 - g) / 100)^2 = 0.05.
    hand = (math.sqrt(0.05) - 0.01) / 0.99
    assert_allclose(prevalence_bound([0.01] * 2, ALPHA), hand, rtol=1e-12, atol=0)
    assert math.isnan(prevalence_bound([0.25] * 2, ALPHA))
    # No data can give more: every subject's observed map stands out.
    p = p_of_scores(np.ones(2), [np.zeros((4, 2))] * 3)
    bound = prevalence_bound(p, ALPHA)
    assert_array_equal(bound, prevalence_bound([0.2] * 3, ALPHA))


@pytest.mark.parametrize("gamma", [-0.1, 1, np.nan])
def test_gamma_is_checked(gamma):
    with pytest.raises(ValueError, match=r"'gamma': .*Allowed: a"):
        prevalence_p([0.01, 0.02], gamma)


# ------------------------------------------------------------- how often they are wrong


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
    return p <= ALPHA, group.prevalence_bound("max") >= 0.5


@pytest.mark.filterwarnings("ignore:With .* permutations the smallest:RuntimeWarning")
def test_no_false_majority_at_any_position():
    # Half of the population has an effect at each of 30 positions, so that any majority
    # is a false one; by Eq. 21 some would be found in about every second group.
    n_groups, found = 120, np.zeros(2)
    for number in range(n_groups):
        rng = np.random.default_rng((1, number))
        carriers = rng.random((10, 30)) < 0.5
        results = of_group(rng, carriers, [60] * 10)
        found += [hits.any() for hits in majorities(results)]
    assert (found / n_groups <= 0.1).all()  # the 99.9 % quantile is 0.117
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
        found.append(group.pvalues("none", hypothesis="majority") <= ALPHA)
    # 25 times 40 positions: 3.0 to 7.2 % with a probability of 99.8 %.
    assert np.mean(found) <= 0.072
