"""Recombined first-level maps and prevalence inference, against plain loops."""

import itertools
import math

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import stats

from mvpa_kfda.group.recombined import RecombinedNull, draw_recombinations
from mvpa_kfda.inference.corrections import corrected_p_values
from mvpa_kfda.inference.prevalence import largest_bound, prevalence_bound, prevalence_p

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
    monkeypatch.setattr("mvpa_kfda.inference.clusters._BATCH", 30)
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


def test_unknown_statistic():
    scores, nulls = subjects()
    with pytest.raises(ValueError, match=r"'statistic': 'median'\. Allowed: 'min', 'm"):
        RecombinedNull(scores, nulls, draw_recombinations([4] * 3, 9), "median")


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


def test_bound_is_where_the_p_value_crosses_the_level():
    p = np.array([[1e-4, 1e-3], [0.01, 0.049]])
    bound = prevalence_bound(p, 12, ALPHA)
    assert bound.shape == (2, 2)
    for position in np.ndindex(bound.shape):
        at_bound = prevalence_p(p[position], 12, bound[position])
        assert_allclose(at_bound, ALPHA, rtol=1e-12, atol=0)
    corrected = np.array([[0.001, 0.02], [0.03, 0.006]])
    bound = prevalence_bound(p, 12, ALPHA, corrected)
    assert np.isfinite(bound).sum() == 3
    for position in zip(*np.nonzero(np.isfinite(bound)), strict=True):
        at_bound = prevalence_p(p[position], 12, bound[position], corrected[position])
        assert_allclose(at_bound, ALPHA, rtol=1e-12, atol=0)
    assert (
        bound[np.isfinite(bound)] < prevalence_bound(p, 12)[np.isfinite(bound)]
    ).all()


def test_no_bound_where_the_global_null_stands():
    assert prevalence_bound(ALPHA, 5, ALPHA) == 0
    assert np.isnan(prevalence_bound([0.0501, 0.5, 1.0], 5, ALPHA)).all()
    # p is below the level, but what the correction leaves of the level is not.
    assert np.isnan(prevalence_bound(0.04, 5, ALPHA, [0.045, ALPHA, 0.3, 1.0])).all()
    assert np.isnan(prevalence_bound(1.0, 5, ALPHA, 1.0))


def test_p_values_at_the_ends():
    assert prevalence_p(1.0, 7) == 1
    assert prevalence_p(1.0, 7, 0.3, corrected=1.0) == 1
    assert_allclose(prevalence_p(0.02, 7, 0.0), 0.02, rtol=1e-14, atol=0)
    assert_allclose(prevalence_p(0.02, 1, 0.5), 0.51, rtol=1e-14, atol=0)


def test_largest_bound():
    # Worked by hand for 2 subjects: roots 0.1 and sqrt(0.04 / 0.99).
    hand = (math.sqrt(0.04 / 0.99) - 0.1) / 0.9
    assert_allclose(largest_bound(2, 99, ALPHA), hand, rtol=1e-12, atol=0)
    assert math.isnan(largest_bound(12, 19, ALPHA))
    assert largest_bound(12, 10**6) > largest_bound(12, 10**4)
    # No data can give more: every subject's observed map stands out.
    null = RecombinedNull(
        np.ones((3, 2)), [np.zeros((4, 2))] * 3, [[0, 0, 1]] * 60, "min"
    )
    u = corrected_p_values(null.observed, null[:])
    c = corrected_p_values(null.observed, null[:], "max")
    best = largest_bound(3, 60)
    assert_allclose(prevalence_bound(u, 3, ALPHA, c), best, rtol=1e-12, atol=0)


@pytest.mark.parametrize("gamma", [-0.1, 1, np.nan])
def test_gamma_is_checked(gamma):
    with pytest.raises(ValueError, match=r"'gamma': .*Allowed: a"):
        prevalence_p(0.01, 5, gamma)


@pytest.mark.parametrize("alpha", [0, 1, -0.2])
def test_alpha_is_checked(alpha):
    with pytest.raises(ValueError, match=r"'alpha': .*above 0 and below 1"):
        prevalence_bound(0.01, 5, alpha)
    with pytest.raises(ValueError, match=r"'alpha': .*above 0 and below 1"):
        largest_bound(5, 99, alpha)
