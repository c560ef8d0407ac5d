"""Exchanges of signs and labels equal the oracle, and intervals invert their tests."""

import itertools
import math

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import stats

from mvpa_kfda.inference.exchange import (
    LEAST_REST,
    STATISTICS,
    Exchange,
    draw_labels,
    draw_signs,
    interval_of_difference,
    interval_of_mean,
)
from tests import reference_group
from tests.reference_group import Exchanged, Flipped, signed_ranks, whole_numbers


def accuracies(n_subjects, n_positions, seed=0, n_trials=20):
    """Differences from chance of few trials: full of ties and zeros."""
    hits = np.random.default_rng(seed).binomial(
        n_trials, 0.6, (n_subjects, n_positions)
    )
    return hits / n_trials - 0.5


def real(n_subjects, n_positions, seed=0):
    return np.random.default_rng(seed).normal(0.4, 1.0, (n_subjects, n_positions))


def alike(n_subjects, n_positions, seed=0):
    """Differences of which the first are equal, and the second so but for the sign."""
    values = real(n_subjects, n_positions, seed)
    values[:, :2] = 0.25
    values[1, 1] = -0.25
    return values


data_of_subjects = pytest.mark.parametrize("data", [real, accuracies, alike])
statistics = pytest.mark.parametrize("statistic", STATISTICS)


# --------------------------------------------------------------------- the statistics


@data_of_subjects
@statistics
def test_statistics_under_exchanges_equal_the_oracle(statistic, data):
    values, by_ranks = data(7, 6, seed=3), statistic == "wilcoxon"
    whole = whole_numbers(values)
    signs, labels = draw_signs(7, 127), draw_labels(3, 4, 1000)
    ranked = signed_ranks(whole) if by_ranks else whole
    flipped = Flipped(ranked, signs, by_ranks)
    ranked = stats.rankdata(whole, axis=0) if by_ranks else whole
    exchanged = Exchanged(ranked, labels, 3, by_ranks)
    for exchanges, plain in ((signs, flipped), (labels, exchanged)):
        found = Exchange(values, exchanges, statistic)
        n = len(exchanges)
        assert (len(found), found.shape, found.ndim) == (n, (n, 6), 2)
        assert found.dtype == np.float64
        assert_allclose(found[0:n], plain.maps(), rtol=1e-9, atol=1e-11)
        assert_allclose(found.observed, plain.observed(), rtol=1e-9, atol=1e-11)
        is_alike = data is alike and exchanges is signs and not by_ranks
        assert_array_equal(found.alike, [is_alike, *[False] * 5])
        assert not found.all_alike


@statistics
def test_rows_do_not_depend_on_the_batch_to_the_last_bit(statistic):
    differences = accuracies(12, 501)
    for exchanges in (draw_signs(12, 300, 0), draw_labels(5, 7, 300, 0)):
        null = Exchange(differences, exchanges, statistic)
        for step in (1, 7, 128):
            parts = [null[i : i + step] for i in range(0, 300, step)]
            assert_array_equal(np.concatenate(parts), null[0:300])


@statistics
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
    assert flips.all_alike
    assert np.isfinite(flips[0:31]).all()
    assert_array_equal(flips[0:31][:, 0], 0)
    same = Exchange(np.full((5, 1), 0.7), draw_labels(2, 3, 100))
    assert_array_equal(same.observed, 0)
    apart = Exchange(np.array([[1.0], [1.0], [0.0]]), draw_labels(2, 1, 100))
    assert_allclose(apart.observed, math.sqrt(1 / LEAST_REST), rtol=1e-12, atol=0)


# --------------------------------------------------------------------------- the draws


def test_all_exchanges_are_listed_where_they_are_few():
    for n_permutations in (31, 1000):
        signs = draw_signs(5, n_permutations)
        expected = set(itertools.product([1, -1], repeat=5)) - {(1,) * 5}
        assert signs.shape == (31, 5)
        assert {tuple(row) for row in signs.tolist()} == expected
    labels = draw_labels(3, 2, 9)
    assert labels.dtype == bool
    found = {tuple(np.flatnonzero(row).tolist()) for row in labels}
    assert found == set(itertools.combinations(range(5), 3)) - {(0, 1, 2)}


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


def test_drawn_rows_are_those_of_the_oracle_and_fair():
    signs = draw_signs(30, 4000, 0)
    assert_array_equal(signs, reference_group.sign_flips(30, 4000, 0))
    assert_allclose(signs.mean(axis=0), 0, rtol=0, atol=5 / math.sqrt(4000))
    labels = draw_labels(12, 9, 50, 0)
    assert_array_equal(labels, reference_group.exchanges(12, 9, 50, 0))
    assert_array_equal(labels.sum(axis=1), 12)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: Exchange(np.ones((3, 1)), draw_signs(3, 7), "median"), "'statistic'"),
        (lambda: draw_signs(40, 10, "one"), "'random_state': 'one'"),
        (lambda: draw_labels(2, 2, 0), "'n_permutations': 0"),
        (lambda: draw_labels(0, 2, 9), "'n_first': 0"),
        (lambda: draw_labels(2, 0, 9), "'n_second': 0"),
        (lambda: draw_signs(0, 9), "'n_subjects': 0"),
    ],
)
def test_what_is_not_valid_is_refused(call, message):
    with pytest.raises(ValueError, match=f"Invalid value for {message}"):
        call()


# ----------------------------------------------------------------------- the intervals


def flips_reject(x, mu, side, level):
    """Tell whether a sign-flip test by plain loops rejects a mean."""
    d = side * (x - mu)
    sums = [np.dot(signs, d) for signs in itertools.product([1, -1], repeat=len(d))]
    return np.mean(np.array(sums) >= sums[0] - 1e-12) <= level + 1e-12


def labels_reject(x, y, mu, side, level):
    """Tell whether an exchange of labels, by plain loops, rejects a difference."""
    values = side * np.concatenate([x - mu, y])
    chosen = itertools.combinations(range(len(values)), len(x))
    sums = np.array([values[list(each)].sum() for each in chosen])
    return np.mean(sums >= values[: len(x)].sum() - 1e-12) <= level + 1e-12


sides = pytest.mark.parametrize("alternative", ["two-sided", "greater", "less"])


@pytest.mark.some(5)
@pytest.mark.parametrize("kind", ["real", "ties", "equal"])
@pytest.mark.parametrize("two_groups", [False, True])
@sides
def test_interval_holds_what_is_not_rejected(kind, two_groups, alternative):
    rng = np.random.default_rng(3)
    x, y = rng.normal(0.3, 1, (2, 7, 1))
    if kind == "ties":
        x, y = np.round(x), np.round(y)
    if kind == "equal":
        x, y = np.full((2, 7, 1), 0.6)
    how = {"confidence": 0.9, "alternative": alternative}
    how |= {"random_state": 0, "simultaneous": False}
    low, high = interval_of_mean(x, y if two_groups else None, **how)
    level = 0.05 if alternative == "two-sided" else 0.1
    edges = [low[0], high[0]] if kind != "equal" else [0.0 if two_groups else 0.6]
    grid = {*np.linspace(-2.5, 2.5, 41)} | {
        e + s for e in edges for s in (-1e-6, 0, 1e-6)
    }
    for mu in sorted(filter(math.isfinite, grid)):
        tested = {"greater": [1], "less": [-1]}.get(alternative, [1, -1])
        if two_groups:
            reject = any(labels_reject(x[:, 0], y[:, 0], mu, s, level) for s in tested)
        else:
            reject = any(flips_reject(x[:, 0], mu, s, level) for s in tested)
        inside = low[0] - 1e-12 <= mu <= high[0] + 1e-12
        assert inside == (not reject), mu
    assert (low[0] == -np.inf) == (alternative == "less")
    assert (high[0] == np.inf) == (alternative == "greater")


@pytest.mark.some(2)
@pytest.mark.parametrize("two_groups", [False, True])
@sides
def test_simultaneous_intervals_equal_a_loop(two_groups, alternative):
    rng = np.random.default_rng(4)
    x, y = rng.normal(1, 2, (2, 5, 4))
    how = {"confidence": 0.9, "alternative": alternative, "random_state": 0}
    others = y if two_groups else None
    low, high = interval_of_mean(x, others, simultaneous=True, **how)
    if two_groups:
        rest = np.concatenate([x - x.mean(axis=0), y - y.mean(axis=0)])
        labels = draw_labels(5, 5, 10_000, 0)
        t = [stats.ttest_ind(rest[row], rest[~row]).statistic for row in labels]
        mean = x.mean(axis=0) - y.mean(axis=0)
        error = np.sqrt((x.var(axis=0, ddof=1) + y.var(axis=0, ddof=1)) / 5)
    else:
        rest = x - x.mean(axis=0)
        signs = draw_signs(5, 10_000, 0)[:, :, np.newaxis]
        t = [stats.ttest_1samp(row * rest, 0).statistic for row in signs]
        mean, error = x.mean(axis=0), x.std(axis=0, ddof=1) / np.sqrt(5)
    t = {"two-sided": np.abs, "less": np.negative}.get(alternative, np.array)(t)
    far = sorted(t.max(axis=1))[-int(0.1 * (len(t) + 1))]
    expected = mean - far * error, mean + far * error
    for end, ours, value, open_for in zip(
        (-np.inf, np.inf), (low, high), expected, ("less", "greater"), strict=True
    ):
        if alternative == open_for:
            assert (ours == end).all()
        else:
            assert_allclose(ours, value, rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("simultaneous", [False, True])
@sides
def test_intervals_of_differences_equal_a_loop(alternative, simultaneous):
    # A tenth of 99 permuted differences are 9, not 10.
    rng = np.random.default_rng(0)
    difference, null = rng.normal(size=4), rng.normal(1, [1, 2, 3, 4], (98, 4))
    how = {"alternative": alternative, "simultaneous": simultaneous}
    low, high = interval_of_difference(difference, null, confidence=0.9, **how)
    turn = {"greater": lambda x: x, "less": lambda x: -x, "two-sided": abs}[alternative]
    rest = [[x - column.mean() for x in column] for column in null.T]
    sd = [np.sqrt(np.mean(np.square(column))) for column in rest]
    turned = [[turn(x) for x in column] for column in rest]
    for i, value in enumerate(difference):
        far = sorted(turned[i])[-9]
        if simultaneous:
            rows = zip(*turned, strict=True)
            scaled = [max(np.divide(row, sd)) for row in rows]
            far = sd[i] * sorted(scaled)[-9]
        ends = -np.inf if alternative == "less" else value - far
        assert_allclose(low[i], ends, rtol=1e-9, atol=0)
        ends = np.inf if alternative == "greater" else value + far
        assert_allclose(high[i], ends, rtol=1e-9, atol=0)
