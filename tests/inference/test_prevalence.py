"""Prevalence equals sums over all subsets of subjects, and its posterior integrals."""

import itertools
import math
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import integrate, stats

from mvpa_kfda.inference import prevalence
from mvpa_kfda.inference.prevalence import (
    Share,
    ShareDifference,
    densest,
    largest_order,
    prevalence_bound,
    prevalence_p,
)

ALPHA = 0.05
FOLDER = Path(__file__).parents[2] / "doc" / "benchmarks"

# ----------------------------------------------------------------- p-values, the i-test


def at_most(below, most):
    """Return the probability of `most` or fewer of independent events, by subsets."""
    total = 0.0
    for chosen in itertools.product([False, True], repeat=len(below)):
        if sum(chosen) <= most:
            pairs = zip(chosen, below, strict=True)
            total += math.prod(q if event else 1 - q for event, q in pairs)
    return total


@pytest.mark.parametrize("gamma", [0.0, 0.3, 0.5])
@pytest.mark.parametrize("order", [1, 2, 4, 8])
def test_p_of_an_order_equals_all_subsets(order, gamma):
    p = np.random.default_rng(order).uniform(0, 1, (8, 3, 2)) ** 2
    found = prevalence.order_p(p, order, gamma)
    assert found.shape == (3, 2)
    for at in np.ndindex(3, 2):
        below = [1 - (gamma + (1 - gamma) * each) for each in p[(slice(None), *at)]]
        assert_allclose(found[at], at_most(below, order - 1), rtol=1e-11, atol=0)


def test_the_largest_order_that_can_be_significant():
    for n, gamma, alpha in itertools.product(
        (3, 5, 12, 20, 30), (0.3, 0.5), (0.05, 0.01)
    ):
        binomial = stats.binom(n, 1 - gamma)
        possible = [i for i in range(1, n) if binomial.cdf(i - 1) < alpha]
        assert largest_order(n, gamma, alpha) == max(possible, default=0)
    assert largest_order(12) == 3


def alike(p, n_subjects):
    """Return p-values of subjects (N, ...) whose product is p."""
    return np.tile(np.asarray(p) ** (1 / n_subjects), (n_subjects, *[1] * np.ndim(p)))


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


def test_p_values_and_bounds_at_the_ends():
    assert prevalence_p(np.ones(7), 0.3) == 1
    assert prevalence_p(np.full(200, 1e-4), 0.0) > 0  # 1e-800 is no float
    # Worked by hand for 2 subjects: (g + (1 - g) / 100)^2 = 0.05.
    hand = (math.sqrt(0.05) - 0.01) / 0.99
    assert_allclose(prevalence_bound([0.01] * 2, ALPHA), hand, rtol=1e-12, atol=0)
    assert math.isnan(prevalence_bound([0.25] * 2, ALPHA))


@pytest.mark.parametrize("gamma", [-0.1, 1, np.nan])
def test_gamma_is_checked(gamma):
    with pytest.raises(ValueError, match=r"'gamma': .*Allowed: a"):
        prevalence_p([0.01, 0.02], gamma)


# ----------------------------------------------------------------------- the posterior


def numeric(found, sizes):
    """Return a density by its definition, as a function of one share."""
    theta = [lambda g, a=a: a + (1 - a) * g for a in sizes]

    def density(g):
        return math.prod(
            t(g) if hit else 1 - t(g) for t, hit in zip(theta, found, strict=True)
        )

    total = integrate.quad(density, 0, 1, epsabs=1e-13)[0]
    return lambda g: density(g) / total


CASES = {
    "nobody": (0, [0.05] * 9),
    "some": (4, [0.03] * 9),
    "all": (9, [0.05] * 9),
    "unequal": (5, [0.05, 0.01, 0.0, 0.04, 0.02, 0.05, 0.03, 0.0, 0.01]),
    "one of many": (1, [0.05] * 30),
}


@pytest.mark.parametrize(("k", "sizes"), CASES.values(), ids=CASES)
def test_posterior_equals_its_definition(k, sizes):
    found = np.arange(len(sizes)) < k
    posterior = Share.of(found[:, np.newaxis], np.array(sizes)[:, np.newaxis])
    density = numeric(found, sizes)
    for g in (0.01, 0.3, 0.7, 0.99):
        at = np.array([g])
        assert_allclose(posterior.density(at)[0], density(g), rtol=1e-9, atol=1e-12)
        below = integrate.quad(density, 0, g, epsabs=1e-13)[0]
        assert_allclose(posterior.below(at)[0], below, rtol=1e-8, atol=1e-12)
        slope = (density(g + 1e-6) - density(g - 1e-6)) / 2e-6
        assert_allclose(posterior.slope(at)[0], slope, rtol=1e-4, atol=1e-5)
    bound = prevalence.quantile(posterior, 0.05)[0]
    assert_allclose(integrate.quad(density, 0, bound)[0], 0.05, rtol=1e-7, atol=0)
    low, high = (end[0] for end in densest(posterior, 0.9))
    assert_allclose(integrate.quad(density, low, high)[0], 0.9, rtol=1e-7, atol=0)
    inside = density(low), density(high)
    assert low == 0 or density(low * 0.999) < min(inside) * (1 + 1e-6)
    assert high == 1 or density(high + 0.001 * (1 - high)) < min(inside) * (1 + 1e-6)
    if 0 < low and high < 1:
        assert_allclose(*inside, rtol=1e-5, atol=0)
    top = prevalence.mode(posterior)[0]
    grid = np.linspace(0, 1, 2001)
    assert abs(top - grid[np.argmax([density(g) for g in grid])]) < 1e-3


@pytest.mark.parametrize("k", [0, 1, 7, 20])
def test_equal_sizes_have_the_truncated_beta_of_the_paper(k):
    n, alpha = 20, 0.04
    found, sizes = (np.arange(n) < k)[:, np.newaxis], np.full((n, 1), alpha)
    posterior, beta = Share.of(found, sizes), stats.beta(k + 1, n - k + 1)
    theta = beta.ppf(beta.cdf(alpha) + 0.05 * beta.sf(alpha))
    bound = prevalence.quantile(posterior, 0.05)[0]
    assert_allclose(bound, (theta - alpha) / (1 - alpha), rtol=1e-8, atol=1e-10)
    most = max(0, (k / n - alpha) / (1 - alpha))
    assert_allclose(prevalence.mode(posterior)[0], most, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize(("k", "other"), [(3, 7), (0, 6), (9, 9), (5, 0)])
def test_difference_of_shares_equals_numeric_integrals(k, other):
    sizes = CASES["unequal"][1]
    found = [np.arange(9) < k, np.arange(12) < other]
    sizes = [np.array(sizes), np.full(12, 0.05)]
    parts = [
        Share.of(f[:, None], s[:, None]) for f, s in zip(found, sizes, strict=True)
    ]
    difference = ShareDifference(*parts)
    first, second = (numeric(f, s) for f, s in zip(found, sizes, strict=True))

    def density(d):
        ends = max(0, -d), min(1, 1 - d)
        return integrate.quad(lambda g: second(g) * first(g + d), *ends)[0]

    for d in (-0.8, -0.2, 0.1, 0.6):
        at = np.array([d])
        assert_allclose(difference.density(at)[0], density(d), rtol=1e-7, atol=1e-9)
        below = integrate.quad(
            density, -1, d, epsabs=1e-9, points=[0] if d > 0 else None
        )
        assert_allclose(difference.below(at)[0], below[0], rtol=1e-5, atol=1e-7)
        slope = (density(d + 1e-5) - density(d - 1e-5)) / 2e-5
        assert_allclose(difference.slope(at)[0], slope, rtol=1e-3, atol=1e-4)
    top = prevalence.mode(difference)[0]
    grid = np.linspace(-0.999, 0.999, 400)
    assert abs(top - grid[np.argmax(difference.density(grid))]) < 0.01
    low, high = (end[0] for end in densest(difference, 0.95))
    span = difference.below(np.array([high]))[0] - difference.below(np.array([low]))[0]
    assert_allclose(span, 0.95, rtol=1e-8, atol=0)
    assert low < top < high


# ------------------------------------------------------------ how often they are wrong


@pytest.fixture
def studies(monkeypatch):
    monkeypatch.syspath_prepend(FOLDER)
    return import_module("people_studies")


def test_majority_is_found_where_two_of_twenty_have_no_effect(studies):
    found = studies.power(40)
    assert np.mean(found[3][1]) >= 0.8
    assert np.mean(found[1][1]) < 0.3
    assert np.mean(found[3][0]) >= 0.8


@pytest.mark.slow
def test_claims_are_seldom_wrong(studies):
    n = 60
    for words, cases in studies.false_majorities(n).items():
        for case, (at_each, at_any) in cases.items():
            assert np.mean(at_any) <= stats.binom.isf(1e-5, n, 0.05) / n, (words, case)
            error = np.std(at_each) / np.sqrt(n)
            assert np.mean(at_each) <= 0.05 + 5 * error, (words, case)
    for words, found in studies.posteriors(400).items():
        assert np.mean(found[None][0]) >= stats.binom.ppf(1e-5, 400, 0.95) / 400, words
    for words in ("normal", "differences of skewed scores"):
        missed = studies.intervals(60)[words]
        for rates in missed.values():
            assert rates[:, :2].mean(axis=0).sum() <= 0.075
            assert rates[:, 2].mean() <= stats.binom.isf(1e-5, 60, 0.06) / 60
