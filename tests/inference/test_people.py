"""How many people have an effect, and how large its mean is, against plain loops."""

import itertools
import math
from importlib import import_module
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import integrate, stats

from mvpa_kfda import (
    Prevalence,
    TimeResult,
    VolumeResult,
    cross_validate,
    group_inference,
    load_result,
    methods_text,
)
from mvpa_kfda.inference import exchange, prevalence
from mvpa_kfda.inference.exchange import draw_labels, draw_signs
from mvpa_kfda.inference.prevalence import (
    Share,
    ShareDifference,
    densest,
    largest_order,
)
from tests import build

FOLDER = Path(__file__).parents[2] / "doc" / "benchmarks"
EXACT = {"rtol": 1e-12, "atol": 1e-14}


def accuracies(rng, shape, n_trials=20, p=0.5):
    return rng.binomial(n_trials, p, shape) / n_trials


def people(n=12, n_silent=2, n_positions=4, seed=0, n_permutations=39, **fields):
    """Return time courses of accuracies of 20 trials, some without an effect."""
    rng, results = np.random.default_rng(seed), []
    for subject in range(n):
        null = accuracies(rng, (n_permutations, n_positions))
        scores = accuracies(rng, n_positions, p=0.5 if subject < n_silent else 0.9)
        times = np.arange(n_positions) / 10
        results.append(build.made(TimeResult, scores, null, times=times, **fields))
    return results


# ------------------------------------------------------------------------ the i-test


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


def test_i_test_equals_a_loop():
    results = people()
    group = group_inference(results, "i-test", ["none", "holm"], order=3)
    expected = []
    for v in range(4):
        a = sorted(result.scores[v] for result in results)[2]
        assert group.statistic[v] == a
        below = []
        for result in results:
            reach = sum(score >= a - 1e-9 for score in result.null[:, v])
            below.append(0.5 * (1 - (1 + reach) / 40))
        expected.append(at_most(below, 2))
    assert_allclose(group.pvalues("none"), expected, rtol=1e-11, atol=0)
    assert len({*expected}) > 1
    stepped, so_far = [], 0.0
    for k, p in enumerate(sorted(expected)):
        so_far = max(so_far, min(1.0, (4 - k) * p))
        stepped.append(so_far)
    assert_allclose(sorted(group.pvalues("holm")), stepped, rtol=1e-11, atol=0)
    assert group.correction == ("none", "holm")
    assert group_inference(results, "i-test", order=3).correction == ("holm",)


@pytest.mark.parametrize("share", ["majority", 0.3, "global"])
def test_order_one_is_the_minimum(share):
    results = people(n_silent=0)
    one = group_inference(results, "i-test", ["none", "holm"], hypothesis=share)
    minimum = group_inference(results, "prevalence", n_permutations=99, random_state=0)
    for name in ("none", "holm", "bonferroni"):
        expected = minimum.pvalues(name, hypothesis=share)
        assert_allclose(one.pvalues(name), expected, **EXACT)
    assert (one.pvalues() < 1).all()
    assert_array_equal(one.statistic, minimum.statistic)


def test_both_tests_of_a_map_have_to_reject(tmp_path):
    results = [build.result("GeneralizationResult", seed) for seed in range(8)]
    group = group_inference(results, "i-test", "none", order=2, hypothesis="global")
    for at in np.ndindex(group.shape):
        lowest = [
            sorted(result.kept_tests("accuracy")[k].scores[at] for result in results)[1]
            for k in range(2)
        ]
        p = []
        for result in results:
            tests = result.kept_tests("accuracy")
            tests = tests[:1] if at[0] == at[1] else tests
            reach = [
                1 + np.sum(test.null[(slice(None), *at)] >= a - 1e-6)
                for test, a in zip(tests, lowest, strict=False)
            ]
            p.append(max(reach) / (1 + len(tests[0].null)))
        assert_allclose(group.pvalues()[at], at_most([1 - x for x in p], 1), rtol=1e-9)
    group.save(tmp_path / "group.h5")
    assert load_result(tmp_path / "group.h5") == group


def test_largest_order():
    for n, gamma, alpha in itertools.product(
        (3, 5, 12, 20, 30), (0.3, 0.5), (0.05, 0.01)
    ):
        possible = [
            i for i in range(1, n) if stats.binom.cdf(i - 1, n, 1 - gamma) < alpha
        ]
        assert largest_order(n, gamma, alpha) == max(possible, default=0)
    assert largest_order(12) == 3
    results = people()
    words = r"order=4 cannot reject a proportion of 0\.5 .* order possible is 3;"
    with pytest.raises(ValueError, match=words):
        group_inference(results, "i-test", order=4)
    with pytest.raises(ValueError, match=r"With 4 subjects no order .*portion of 0\.5"):
        group_inference(results[:4], "i-test")
    many = people(n_positions=60)
    with pytest.warns(RuntimeWarning, match=r"correction 'holm' .* a lower order\.$"):
        group_inference(many, "i-test", order=3)


@pytest.mark.parametrize(
    ("method", "options", "words"),
    [
        ("i-test", {"order": 0}, "Invalid value for 'order': 0"),
        ("i-test", {"order": 1.5}, "Invalid value for 'order'"),
        ("i-test", {"hypothesis": 1.0}, "Invalid value for 'hypothesis'"),
        ("i-test", {"correction": "max"}, "no correction 'max'.* Use 'holm'"),
        ("i-test", {"correction": ["holm", "tfce"]}, "no correction 'tfce'"),
        ("i-test", {"alternative": "less"}, "lowest subjects can only be tested"),
        ("prevalence", {"order": 2}, "order=2 is for method='i-test' only"),
        ("t", {"hypothesis": 0.5}, r"hypothesis=0\.5 is for method='i-test' only"),
    ],
)
def test_what_an_i_test_does_not_take(method, options, words):
    with pytest.raises(ValueError, match=words):
        group_inference(people(), method, **options)


def test_what_an_i_test_says(tmp_path):
    group = group_inference(people(), "i-test", order=2)
    assert "method 'i-test' | order 2" in repr(group)
    assert group.title_parts() == ["i-test of order 2", "12 subjects"]
    group.plot()
    labels = [text.get_text() for text in plt.gca().get_legend().get_texts()]
    assert any("majority null" in label for label in labels)
    plt.close("all")
    with pytest.raises(ValueError, match="no permutations were drawn"):
        group.plot_null()
    with pytest.raises(ValueError, match="has no correction 'max'"):
        group.pvalues("max")
    with pytest.raises(ValueError, match=r"null hypothesis of a share of 0\.5"):
        group.pvalues(hypothesis=0.7)
    assert_array_equal(group.pvalues(hypothesis="majority"), group.pvalues())
    with pytest.raises(AttributeError, match="gives no bound of the prevalence"):
        _ = group.gamma_0
    text = methods_text(group)
    assert "half of them or less in the population has an effect" in text
    assert "Hirose" in text


# ------------------------------------------------------------------------ own tests


def test_own_tests_equal_a_loop():
    results = people(n=5)
    group = group_inference(results, "bootstrap", n_permutations=9, alpha=0.12)
    for s, result in enumerate(results):
        rows = np.concatenate([result.scores[np.newaxis], result.null])
        for v in range(4):
            p = [np.mean(rows[:, v] >= row - 1e-9) for row in rows[:, v]]
            assert_allclose(group.subject_p[s, v], p[0], **EXACT)
            assert_allclose(
                group.subject_sizes[s, v], np.mean(np.array(p) <= 0.12 + 1e-9), **EXACT
            )
        largest = rows.max(axis=1)
        p = np.array([np.mean(largest >= row - 1e-9) for row in largest])
        own = group.parameters["anywhere"]
        assert_allclose(own["p"][s], p[0], **EXACT)
        assert_allclose(own["size"][s], np.mean(p <= 0.12 + 1e-9), **EXACT)
    assert (group.subject_sizes < 0.12).any()  # or ties would not matter


def test_without_ties_tests_have_the_level():
    rng, results = np.random.default_rng(0), []
    for _ in range(3):
        null = rng.random((99, 2)).astype(np.float32)
        results.append(build.made(TimeResult, rng.random(2), null, times=np.arange(2)))
    group = group_inference(results, n_permutations=9, random_state=0)
    assert_allclose(group.subject_sizes, 0.05, **EXACT)
    assert_allclose(group.parameters["anywhere"]["size"], 0.05, **EXACT)


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


def test_prevalence_of_a_group(tmp_path):
    group = group_inference(people(n_positions=5), random_state=0, n_permutations=99)
    group.save(tmp_path / "group.h5")
    for each in (group, load_result(tmp_path / "group.h5")):
        share = each.prevalence(0.9)
        assert isinstance(share, Prevalence)
        assert_array_equal(share.n_found, (each.subject_p <= 0.05).sum(axis=0))
        for v in range(5):
            density = numeric(share.found[:, v], each.subject_sizes[:, v])
            missed = integrate.quad(density, 0, share.bound[v])[0]
            assert_allclose(missed, 0.1, rtol=1e-6, atol=0)
        assert (share.low <= share.mode).all()
        assert (share.mode <= share.high).all()
        assert_array_equal(share.times, group.times)
    table = share.to_dataframe()
    assert list(table) == ["time", "mode", "low", "high", "bound"]
    anywhere = group.prevalence(where="anywhere")
    assert isinstance(anywhere.mode, float)
    assert anywhere.n_found >= 9
    assert "interval from" in repr(anywhere)
    same = share.difference(share)
    assert_allclose(same.mode, 0, rtol=0, atol=1e-6)
    assert_allclose(same.low, -same.high, rtol=0, atol=1e-8)
    for drawn in (share, same, anywhere):
        ax = drawn.plot()
        assert "proportion" in ax.get_ylabel().lower()
        plt.close("all")
    with pytest.raises(TypeError, match="takes what prevalence"):
        share.difference(group)
    with pytest.raises(ValueError, match="of the same positions, but the other"):
        share.difference(anywhere)


def test_positions_without_scores_have_no_prevalence():
    results = (
        [build.volume_result(seed) for seed in range(6)]
        if hasattr(build, "volume_result")
        else [build.result("VolumeResult", seed) for seed in range(6)]
    )
    assert isinstance(results[0], VolumeResult)
    group = group_inference(results, n_permutations=9, random_state=0, alpha=0.3)
    share, interval = group.prevalence(), group.interval(0.9)
    assert_array_equal(np.isnan(share.mode), ~group.counted)
    assert_array_equal(np.isnan(interval.low), ~group.counted)
    with pytest.raises(ValueError, match=r"Proportions at .* cannot be plotted"):
        share.plot()


@pytest.mark.parametrize(
    ("method", "options", "words"),
    [
        ("t", {}, "'t' does not test subjects by permutations of their own"),
        ("prevalence", {"confidence": 1.0}, "Invalid value for 'confidence'"),
        ("prevalence", {"where": "here"}, "Invalid value for 'where': 'here'"),
    ],
)
def test_what_has_no_prevalence(method, options, words):
    group = group_inference(people(), method, random_state=0)
    with pytest.raises(ValueError, match=words):
        group.prevalence(**options)


def test_too_few_permutations_have_no_prevalence():
    group = group_inference(people(n_permutations=9), random_state=0)
    with pytest.raises(ValueError, match=r"12 subjects of 12 cannot have p <= 0\.05"):
        group.prevalence()


# ----------------------------------------------------------------------- the interval


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


OPTIONS = {"random_state": 0, "simultaneous": False}


@pytest.mark.some(5)
@pytest.mark.parametrize("kind", ["real", "ties", "equal"])
@pytest.mark.parametrize("two_groups", [False, True])
@pytest.mark.parametrize("alternative", ["two-sided", "greater", "less"])
def test_interval_holds_what_is_not_rejected(kind, two_groups, alternative):
    rng = np.random.default_rng(3)
    x, y = rng.normal(0.3, 1, (2, 7, 1))
    if kind == "ties":
        x, y = np.round(x), np.round(y)
    if kind == "equal":
        x, y = np.full((2, 7, 1), 0.6)
    how = {"confidence": 0.9, "alternative": alternative, **OPTIONS}
    low, high = exchange.interval_of_mean(x, y if two_groups else None, **how)
    level = 0.05 if alternative == "two-sided" else 0.1
    edges = [low[0], high[0]] if kind != "equal" else [0.0 if two_groups else 0.6]
    grid = {*np.linspace(-2.5, 2.5, 41)} | {
        e + s for e in edges for s in (-1e-6, 0, 1e-6)
    }
    for mu in sorted(filter(math.isfinite, grid)):
        sides = {"greater": [1], "less": [-1]}.get(alternative, [1, -1])
        if two_groups:
            reject = any(labels_reject(x[:, 0], y[:, 0], mu, s, level) for s in sides)
        else:
            reject = any(flips_reject(x[:, 0], mu, s, level) for s in sides)
        inside = low[0] - 1e-12 <= mu <= high[0] + 1e-12
        assert inside == (not reject), mu
    assert (low[0] == -np.inf) == (alternative == "less")
    assert (high[0] == np.inf) == (alternative == "greater")


@pytest.mark.some(2)
@pytest.mark.parametrize("two_groups", [False, True])
@pytest.mark.parametrize("alternative", ["two-sided", "greater", "less"])
def test_simultaneous_intervals_equal_a_loop(two_groups, alternative):
    rng = np.random.default_rng(4)
    x, y = rng.normal(1, 2, (2, 7, 5))
    how = {"confidence": 0.9, "alternative": alternative, "random_state": 0}
    others = y if two_groups else None
    low, high = exchange.interval_of_mean(x, others, simultaneous=True, **how)
    largest, sign = [], {"less": -1}.get(alternative, 1)
    if two_groups:
        rest = np.concatenate([x - x.mean(axis=0), y - y.mean(axis=0)])
        for chosen in draw_labels(7, 7, 10_000, 0):
            t = sign * stats.ttest_ind(rest[chosen], rest[~chosen]).statistic
            largest.append(max(np.abs(t) if alternative == "two-sided" else t))
        mean = x.mean(axis=0) - y.mean(axis=0)
        error = np.sqrt((x.var(axis=0, ddof=1) + y.var(axis=0, ddof=1)) / 7)
        error *= np.sqrt(12 * 2 / 2 / 12)
    else:
        for signs in draw_signs(7, 10_000, 0):
            rest = signs[:, np.newaxis] * (x - x.mean(axis=0))
            t = sign * stats.ttest_1samp(rest, 0).statistic
            largest.append(max(np.abs(t) if alternative == "two-sided" else t))
        mean, error = x.mean(axis=0), x.std(axis=0, ddof=1) / np.sqrt(7)
    far = sorted(largest)[-int(0.1 * (len(largest) + 1))]
    near = {"rtol": 1e-9, "atol": 1e-11}
    ends = mean - far * error, mean + far * error
    if alternative != "less":
        assert_allclose(low, ends[0], **near)
    if alternative != "greater":
        assert_allclose(high, ends[1], **near)
    alone, _ = exchange.interval_of_mean(x, others, simultaneous=False, **how)
    assert alternative == "less" or (low <= alone + 0.3).all()


def test_interval_of_groups():
    first, second = people(9, 9), people(8, 3, seed=1)
    group = group_inference(first, "prevalence", n_permutations=9, random_state=5)
    interval = group.interval()
    scores = np.array([result.scores for result in first])
    how = {"confidence": 0.95, "alternative": "two-sided", **OPTIONS}
    ends = exchange.interval_of_mean(scores, **how)
    assert_array_equal((interval.low, interval.high), ends)
    assert_allclose(interval.mean, scores.mean(axis=0), **EXACT)
    assert list(interval.to_dataframe()) == ["time", "mean", "low", "high"]
    upper = group.interval(alternative="less")
    assert (upper.high < interval.high + 1e-12).all()
    assert np.isneginf(upper.low).all()
    at_once = group.interval(simultaneous=True)
    assert (at_once.high - at_once.low > interval.high - interval.low).any()
    assert "at all of them at once" in repr(at_once)
    others = np.array([result.scores for result in second])
    two = group_inference(first, "t", other=second).interval()
    ends = exchange.interval_of_mean(scores, others, **how | {"random_state": None})
    assert_allclose(two.mean, scores.mean(axis=0) - others.mean(axis=0), **EXACT)
    assert (two.low < two.mean).all()
    assert (two.mean < two.high).all()
    pairs = {"other": second, "paired": True, "random_state": 0}
    paired = group_inference(first[:8], "sign-flip", **pairs).interval()
    ends = exchange.interval_of_mean(scores[:8] - others, **how)
    assert_array_equal((paired.low, paired.high), ends)


def test_too_few_subjects_have_no_interval():
    results = people(7)
    group = group_inference(results[:5], "sign-flip", random_state=0, alpha=0.3)
    with pytest.raises(ValueError, match="takes 6 subjects or more; there are 5"):
        group.interval()
    group = group_inference(results, "sign-flip", random_state=0)
    with pytest.raises(ValueError, match=r"128 arrangements .* confidence=0\.99:"):
        group.interval(0.99)
    with pytest.raises(ValueError, match="Invalid value for 'alternative': 'below'"):
        group.interval(alternative="below")
    with pytest.raises(ValueError, match="Invalid value for 'confidence'"):
        group.interval(95)


def test_one_number_has_numbers():
    rng = np.random.default_rng(0)
    y = np.repeat(["ant", "bee"], 20)
    results = [
        cross_validate(rng.normal(size=(40, 3)), y, n_permutations=19, random_state=0)
        for _ in range(7)
    ]
    group = group_inference(results, n_permutations=9, random_state=0)
    assert isinstance(group.interval().low, float)
    assert isinstance(group.prevalence().bound, float)
    assert group.prevalence().n_found == (group.subject_p <= 0.05).sum()


# ------------------------------------------------------------ how often they are wrong


@pytest.fixture
def studies(monkeypatch):
    monkeypatch.syspath_prepend(FOLDER)
    return import_module("people_studies")


def test_majority_is_found_where_two_of_twenty_have_no_effect(studies):
    found = studies.power(80)
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
