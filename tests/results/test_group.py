"""Results of groups and of comparisons: p-values, shares, intervals, tables, files."""

import copy
import pickle
from dataclasses import replace
from functools import cache
from itertools import product

import matplotlib.pyplot as plt
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import integrate, stats

from mvpa_kfda import (
    Prevalence,
    TimeResult,
    compare,
    group_inference,
    load_result,
    methods_text,
)
from mvpa_kfda.group.second_level import METHODS
from mvpa_kfda.inference.exchange import interval_of_difference, interval_of_mean
from mvpa_kfda.inference.prevalence import Share, order_p
from mvpa_kfda.reports import sections
from mvpa_kfda.reports.page import report
from mvpa_kfda.reports.summary import word_answer
from mvpa_kfda.utils.rounding import rounded
from mvpa_kfda.viz.maps import make_picture, topomap_samples
from tests import build, reference_group

pytestmark = [
    pytest.mark.filterwarnings("ignore:.* resamples:RuntimeWarning"),
    pytest.mark.filterwarnings("ignore:With .* the smallest:RuntimeWarning"),
    pytest.mark.filterwarnings("ignore:With .* prevalence bound:RuntimeWarning"),
]
EXACT = {"rtol": 1e-12, "atol": 1e-14}


@pytest.fixture(autouse=True)
def without_figures(monkeypatch):
    """Leave the figures of pages out."""
    monkeypatch.setattr(sections, "_draw", lambda *drawn, **options: "")


# ----------------------------------------------------------------- every kind of result

KINDS = [
    *("DecodingResult", "RegressionResult", "TimeResult", "TimeRegressionResult"),
    *("TimeFrequencyResult", "SensorTimeResult", "GeneralizationResult"),
    *("VolumeResult", "regions", "SourceResult", "SourceTimeResult"),
]
OPTIONS = {"n_permutations": 199, "random_state": 0, "alpha": 0.3}


result_of = cache(build.result)


def subjects(kind, first=0, n=5):
    """Return results of five subjects."""
    options = {"scoring": "pearsonr"} if "Regression" in kind else {}
    return [result_of(kind, seed, **options) for seed in range(first, first + n)]


def corrections_of(kind, method="sign-flip"):
    if METHODS[method].only:
        return [METHODS[method].only[0]]
    single = kind in ("DecodingResult", "RegressionResult")
    return ["max"] if single else ["max", "cluster", "tfce"]


def assert_survives(result, path):
    """Assert that a result is the same when it is loaded, copied or pickled."""
    result.save(path)
    for again in (load_result(path), pickle.loads(pickle.dumps(result))):
        assert again == result
        assert repr(again) == repr(result)
        assert again.to_dataframe().equals(result.to_dataframe())
    assert copy.deepcopy(result) == result


#: Every kind by two of the methods, every method by several kinds.
SOME = build.by_turns(KINDS, METHODS, len(METHODS) // 2)
#: Every kind once.
LISTS = build.by_turns(
    KINDS, list(product([False, True], ["sign-flip", "t", "wilcoxon"])), 6
)


@pytest.mark.some(3)
@pytest.mark.parametrize(("kind", "method"), SOME)
def test_every_kind_from_files_alone(kind, method, tmp_path):
    files, corrections = [], corrections_of(kind, method)
    for number, result in enumerate(subjects(kind), start=1):
        files.append(tmp_path / f"sub-{number:02d}" / "result.h5")
        files[-1].parent.mkdir()
        result.save(files[-1])
    group = group_inference(files, method, corrections, **OPTIONS)
    assert list(group.subjects) == [f"sub-0{k}" for k in range(1, 6)]
    first, mean = subjects(kind)[0], np.mean([r.scores for r in subjects(kind)], axis=0)
    assert_allclose(group.scores, mean, rtol=1e-6, atol=1e-9)
    for name in first.axes:
        assert_array_equal(getattr(group, name), getattr(first, name))
    assert_survives(group, tmp_path / "group.h5")
    table = group.to_dataframe()
    assert len(table) == mean.size
    assert {"statistic", "p", group.metric} <= set(table)
    assert ("p_tfce" in table) == ("tfce" in corrections)
    assert ("gamma_0" in table) == (method == "prevalence")
    assert f"5 subjects | method {method!r}" in repr(group)
    assert (group.subject_p is not None) == METHODS[method].by_labels
    of_objects = group_inference(subjects(kind), method, corrections, **OPTIONS)
    assert of_objects != group  # whose subjects have other names
    for name in ("none", *corrections):
        assert_array_equal(of_objects.pvalues(name), group.pvalues(name))


@pytest.mark.some(4)
@pytest.mark.parametrize(("kind", "how"), LISTS)
def test_two_lists_of_every_kind(kind, how, tmp_path):
    paired, method = how
    options = OPTIONS | {"other": subjects(kind, 10), "paired": paired}
    group = group_inference(subjects(kind), method, "max", **options)
    lists = subjects(kind), subjects(kind, 10)
    one, two = (np.mean([r.scores for r in each], axis=0) for each in lists)
    assert_allclose(group.scores, one - two, rtol=1e-9, atol=1e-12)
    assert_survives(group, tmp_path / "group.h5")
    table, name = group.to_dataframe(), group.metric
    for ours, values in (("first", one), ("second", two), ("difference", one - two)):
        assert_allclose(table[f"{name}_{ours}"], np.ravel(values), rtol=0, atol=1e-12)


@pytest.mark.parametrize("kind", ["DecodingResult", "GeneralizationResult", "regions"])
def test_comparisons_of_every_kind(kind, tmp_path):
    one, other = (result_of(kind, n_permutations=39, reg=reg) for reg in (0.3, 30.0))
    corrections = corrections_of(kind)
    result = compare(one, other, correction=corrections)
    assert_allclose(result.scores, one.scores - other.scores, rtol=0, atol=1e-12)
    assert_survives(result, tmp_path / "comparison.h5")
    one.save(tmp_path / "a.h5")
    other.save(tmp_path / "b.h5")
    files = [str(tmp_path / name) for name in ("a.h5", "b.h5")]
    again = compare(*files, correction=corrections)
    assert again == result


def test_latencies_survive(tmp_path):
    for latency in (
        build.latency(),
        build.latency(other=subjects("TimeResult", 10, 6)),
    ):
        assert_survives(latency, tmp_path / f"{len(latency.parts)}.h5")


# --------------------------------------------------------- shares of the population


def people(n=12, n_silent=2, n_positions=4, seed=0, n_permutations=39):
    """Return time courses of accuracies of 20 trials, some without an effect."""
    rng, results = np.random.default_rng(seed), []
    for subject in range(n):
        null = rng.binomial(20, 0.5, (n_permutations, n_positions)) / 20
        p = 0.5 if subject < n_silent else 0.9
        scores = rng.binomial(20, p, n_positions) / 20
        times = np.arange(n_positions) / 10
        results.append(build.made(TimeResult, scores, null, times=times))
    return results


def test_p_values_and_bounds_of_shares():
    group = group_inference(people(6), n_permutations=999, random_state=0)
    p = group.p_of_minimum
    for gamma in (0.25, 0.5):
        share = (gamma + (1 - gamma) * p).prod(axis=0)
        how = {"hypothesis": gamma}
        assert_allclose(group.pvalues("none", **how), share, **EXACT)
        for name in ("max", None):
            expected = reference_group.holm(share)
            assert_allclose(group.pvalues(name, **how), expected, **EXACT)
        bonferroni = group.pvalues("bonferroni", **how)
        assert_allclose(bonferroni, np.minimum(1, 4 * share), **EXACT)
    assert_array_equal(
        group.pvalues(hypothesis="majority"), group.pvalues(hypothesis=0.5)
    )
    assert list(group.to_dataframe())[-4:] == [
        *("p", "p_majority", "p_max", "p_majority_holm")
    ]


def test_bounds_are_shares_that_are_just_rejected():
    group = group_inference(people(9, 0), n_permutations=999, random_state=0)
    one, at_once = group.prevalence_bound("none"), group.gamma_0
    found = np.isfinite(at_once)
    assert found.any()
    assert (one[found] > at_once[found]).all()
    for v in np.flatnonzero(found):
        at = group.pvalues("none", hypothesis=one[v])[v]
        assert_allclose(at, 0.05, rtol=1e-9, atol=0)
        at = group.pvalues("bonferroni", hypothesis=at_once[v])[v]
        assert_allclose(at, 0.05, rtol=1e-9, atol=0)
    least = (1 / 40) ** np.ones(9)
    expected = replace(group, p_of_minimum=np.tile(least[:, None], 4)).gamma_0[0]
    assert_allclose(group.largest_gamma_0, expected, **EXACT)
    for correction in (["fdr", "max"], "cluster"):  # whatever is asked first
        asked = {"n_permutations": 999, "random_state": 0, "correction": correction}
        again = group_inference(people(9, 0), **asked)
        assert_array_equal(again.gamma_0, group.gamma_0)


def test_paper_where_no_permutations_of_subjects_are_known():
    group = group_inference(people(8), n_permutations=999, random_state=0)
    p = group.pvalues("none")
    alike = replace(group, p_of_minimum=None, parameters={})
    expected = (0.7 * p ** (1 / 8) + 0.3) ** 8  # Eq. 19
    assert_allclose(alike.pvalues("none", hypothesis=0.3), expected, **EXACT)
    assert_allclose(alike.largest_gamma_0, (0.05 / 4) ** (1 / 8), **EXACT)


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


def test_what_an_i_test_says():
    group = group_inference(people(), "i-test", ["none", "holm"], order=2)
    p = order_p(group.p_of_minimum, 2)
    assert_allclose(group.pvalues("none"), p, **EXACT)
    assert_allclose(group.pvalues("holm"), reference_group.holm(p), **EXACT)
    assert_array_equal(group.pvalues(hypothesis="majority"), group.pvalues())
    assert group.order == 2
    assert "method 'i-test' | order 2" in repr(group)
    assert group.title_parts() == ["i-test of order 2", "12 subjects"]
    group.plot()
    labels = [text.get_text() for text in plt.gca().get_legend().get_texts()]
    assert any("majority null" in label for label in labels)
    text = methods_text(group)
    assert "half of them or less in the population has an effect" in text
    assert "Hirose" in text


def test_prevalence_of_a_group(tmp_path):
    group = group_inference(people(n_positions=5), random_state=0, n_permutations=99)
    group.save(tmp_path / "group.h5")
    for each in (group, load_result(tmp_path / "group.h5")):
        share = each.prevalence(0.9)
        assert isinstance(share, Prevalence)
        assert_array_equal(share.n_found, (each.subject_p <= 0.05).sum(axis=0))
        posterior = Share.of(share.found, each.subject_sizes)
        for v in range(5):
            shares = np.linspace(0, share.bound[v], 2001)
            density = posterior.density(np.tile(shares, (5, 1)).T)[:, v]
            missed = integrate.simpson(density, x=shares)
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
        assert "proportion" in drawn.plot().get_ylabel().lower()
    with pytest.raises(TypeError, match="takes what prevalence"):
        share.difference(group)
    with pytest.raises(ValueError, match="of the same positions, but the other"):
        share.difference(anywhere)


def test_positions_without_scores_have_no_prevalence():
    results = [build.clustered("voxels", seed) for seed in range(6)]
    group = group_inference(results, n_permutations=9, random_state=0, alpha=0.3)
    share, interval = group.prevalence(), group.interval(0.9)
    assert 0 < np.isnan(share.mode).sum() < share.mode.size
    assert_array_equal(np.isnan(share.mode), ~group.counted)
    assert_array_equal(np.isnan(interval.low), ~group.counted)
    with pytest.raises(ValueError, match=r"Proportions at .* cannot be plotted"):
        share.plot()


# ----------------------------------------------------------------------- the intervals


def test_intervals_of_groups():
    first, second = people(9, 9), people(8, 3, seed=1)
    scores, others = (np.array([r.scores for r in each]) for each in (first, second))
    group = group_inference(first, "prevalence", n_permutations=9, random_state=5)
    interval = group.interval()
    how = {"confidence": 0.95, "alternative": "two-sided", "simultaneous": False}
    ends = interval_of_mean(scores, random_state=0, **how)  # all flips are listed
    assert_array_equal((interval.low, interval.high), ends)
    assert_allclose(interval.mean, scores.mean(axis=0), **EXACT)
    assert list(interval.to_dataframe()) == ["time", "mean", "low", "high"]
    upper = group.interval(alternative="less")
    assert (upper.high < interval.high + 1e-12).all()
    assert np.isneginf(upper.low).all()
    at_once = group.interval(simultaneous=True)
    assert (at_once.high - at_once.low > interval.high - interval.low).any()
    assert "at all of them at once" in repr(at_once)
    two = group_inference(first, "t", other=second, random_state=2)
    seed = two.parameters["random_state"]
    ends = interval_of_mean(scores, others, random_state=seed, **how)
    two = two.interval()
    assert_allclose((two.low, two.high), ends, rtol=0, atol=1e-12)
    assert_allclose(two.mean, scores.mean(axis=0) - others.mean(axis=0), **EXACT)
    pairs = {"other": second, "paired": True, "random_state": 0}
    paired = group_inference(first[:8], "sign-flip", **pairs).interval()
    ends = interval_of_mean(scores[:8] - others, random_state=0, **how)
    assert_array_equal((paired.low, paired.high), ends)


@pytest.mark.parametrize("simultaneous", [False, True])
@pytest.mark.parametrize("alternative", ["two-sided", "greater", "less"])
def test_intervals_of_comparisons(alternative, simultaneous, tmp_path):
    a, b = (result_of(n_permutations=98, reg=reg) for reg in (0.3, 30.0))
    how = {"alternative": alternative, "simultaneous": simultaneous}
    result = compare(a, b)
    result.save(tmp_path / "comparison.h5")
    for each in (result, load_result(tmp_path / "comparison.h5")):
        found = each.interval(0.9, **how)
        differences = a.scores - b.scores, a.null.astype(float) - b.null
        ends = interval_of_difference(*differences, confidence=0.9, **how)
        assert_allclose((found.low, found.high), ends, rtol=0, atol=1e-6)
        assert_allclose(found.mean, a.scores - b.scores, rtol=0, atol=1e-12)
        assert found.shape == (3,)


def test_one_number_has_numbers():
    results = build.subjects("DecodingResult", 7, n_permutations=19)
    group = group_inference(results, n_permutations=9, random_state=0)
    assert isinstance(group.interval().low, float)
    assert isinstance(group.prevalence().bound, float)
    assert group.prevalence().n_found == (group.subject_p <= 0.05).sum()
    options = {"n_permutations": 199, "random_state": 0, "threshold": 0.1}
    group = group_inference(results, "bootstrap", "cluster-fdr", **options)
    assert 0 < group.pvalues() <= 1


# --------------------------------------------------------------------------- refusals


@pytest.fixture(scope="module")
def made():
    """Return groups by method, and comparisons."""
    results, how = people(7), {"random_state": 0, "n_permutations": 200}
    clusters = group_inference(results, correction="cluster", **how)
    pairs = [
        [build.result(reg=reg, scoring=name, n_permutations=99) for reg in (0.3, 30.0)]
        for name in ("accuracy", "kappa")
    ]
    pair, kappa = pairs
    return {
        **{method: group_inference(results, method, **how) for method in METHODS},
        "clusters": clusters,
        "few": group_inference(people(n_permutations=9), **how),
        "five": group_inference(results[:5], "sign-flip", alpha=0.3, **how),
        "comparison": compare(*pair),
        "kappa": compare(*kappa),
        "not kept": replace(compare(*pair), null_differences=None),
    }


HALF = {"hypothesis": "majority"}


@pytest.mark.parametrize(
    ("name", "call", "message"),
    [
        ("prevalence", lambda g: g.pvalues("tfce"), r"correction=\['max', 'tfce'\]"),
        ("prevalence", lambda g: g.pvalues("sidak"), "Invalid value for 'correction'"),
        ("prevalence", lambda g: g.pvalues(5), "'correction': 5"),
        ("prevalence", lambda g: g.pvalues(hypothesis="half"), "'hypothesis': 'half'"),
        ("prevalence", lambda g: g.pvalues(hypothesis=1.5), r"'hypothesis': 1\.5"),
        ("prevalence", lambda g: g.pvalues(hypothesis=[0.5]), "'hypothesis'"),
        ("prevalence", lambda g: g.pvalues(hypothesis=True), "'hypothesis'"),
        ("prevalence", lambda g: g.prevalence_bound(alpha="x"), "'alpha': 'x'"),
        ("prevalence", lambda g: g.to_img(), "no image of 4 times"),
        ("prevalence", lambda g: g.peaks(), "no peaks in a table for 4 times"),
        ("prevalence", lambda g: g.train_times, "no attribute 'train_times'"),
        ("prevalence", lambda g: g.prevalence(1.0), "Invalid value for 'confidence'"),
        ("prevalence", lambda g: g.prevalence(where="here"), "'where': 'here'"),
        ("few", lambda g: g.prevalence(), r"12 subjects of 12 cannot have p <= 0\.05"),
        ("clusters", lambda g: g.pvalues(**HALF), "tests the global null hypothesi"),
        ("t", lambda g: g.gamma_0, "gives no bound of the prevalence"),
        ("t", lambda g: g.pvalues(**HALF), "no null hypothesis about a share"),
        ("t", lambda g: g.prevalence(), "'t' does not test subjects by permutations"),
        ("i-test", lambda g: g.plot_null(), "no permutations were drawn"),
        ("i-test", lambda g: g.pvalues("max"), "has no correction 'max'"),
        ("i-test", lambda g: g.pvalues(hypothesis=0.7), r"of a share of 0\.5"),
        ("i-test", lambda g: g.gamma_0, "gives no bound of the prevalence"),
        ("five", lambda g: g.interval(), "takes 6 subjects or more; there are 5"),
        ("sign-flip", lambda g: g.interval(0.99), "128 arrangements .* confidence=0"),
        ("sign-flip", lambda g: g.interval(alternative="up"), "'alternative': 'up'"),
        ("sign-flip", lambda g: g.interval(95), "Invalid value for 'confidence'"),
        ("comparison", lambda g: g.interval(0.995), "99 permutations are too few"),
        ("comparison", lambda g: g.pvalues("tfce"), "'tfce' was not requested, .* Run"),
        ("kappa", lambda g: g.interval(), "no intervals for differences in 'kappa'"),
        ("not kept", lambda g: g.interval(), "so many positions were not kept"),
    ],
)
def test_what_a_group_does_not_tell(made, name, call, message):
    with pytest.raises((ValueError, AttributeError), match=message):
        call(made[name])


def test_intervals_that_permutations_are_just_enough_for(made):
    assert np.isfinite(made["comparison"].interval(0.99).low).all()
    assert np.isfinite(made["sign-flip"].interval(1 - 2 / 128).low).all()


# ------------------------------------------------------------------ images and tables


def of_voxels(seed):
    """Return a searchlight of accuracies; one voxel and those next to it are high."""
    space = build.volume_space((4, 3, 3))
    rng, n = np.random.default_rng(seed), space.n_positions
    near = np.linalg.norm(space.points - space.points[20], axis=1) < 9
    scores = rng.binomial(20, np.where(near, 0.95, 0.5)) / 20
    null = rng.binomial(20, 0.5, (9, n)) / 20
    return build.made_of_images(space, scores, null, space.edges)


@pytest.fixture(scope="module")
def brains():
    return [of_voxels(seed) for seed in range(8)]


def test_images_and_peaks_of_a_group(brains):
    group = group_inference(brains, n_permutations=999, random_state=0)
    where = group.geometry.mask

    def shown(name, outside, **options):
        image = group.to_img(name, **options).get_fdata()
        assert (image[~where] == outside).all()
        return image[where]

    assert_allclose(shown("accuracy", 0), group.scores, rtol=1e-6, atol=0)
    assert_allclose(shown("gamma_0", 0), group.gamma_0, rtol=1e-6, atol=0)
    for how in ({}, HALF):
        p = group.pvalues("max", **how)
        asked = {"correction": "max", **how}
        assert_array_equal(shown("p", 1, **asked), p)
        z = stats.norm.isf(np.minimum(p, 0.999))
        assert_allclose(shown("z", 0, **asked), z, rtol=1e-5, atol=1e-6)
        log = shown("neglog10p", 0, **asked)
        assert_allclose(log, -np.log10(p), rtol=1e-5, atol=1e-6)
    assert (group.pvalues(**HALF) > group.pvalues()).any()
    peaks = group.peaks()
    distance = peaks[["x", "y", "z"]].to_numpy() - group.geometry.points[20]
    assert np.linalg.norm(distance[0]) < 9
    assert (peaks["p_max"] <= 0.05).all()
    with pytest.raises(ValueError, match="Allowed: 'accuracy'"):
        group.to_img("beta")


def test_peaks_without_permutations_and_clusters_of_sizes(brains):
    group = group_inference(brains, "t", "fdr", alpha=0.2)
    assert group.n_permutations == 0
    peaks = group.peaks()
    assert len(peaks) > 0
    assert (peaks["p_fdr"] <= 0.2).all()
    options = {"n_permutations": 999, "random_state": 0, "threshold": 0.01}
    group = group_inference(brains, "bootstrap", "cluster-fdr", **options)
    found = group.pvalues() <= 0.05
    assert found[20]
    assert not found.all()


def test_words_and_names_of_differences(tmp_path):
    first, second = people(4, 0), people(4, 4, seed=1)
    group = group_inference(first, "t", "none", other=second)
    assert group.labels == ("first", "second")
    largest = max(group.scores, key=abs)
    words = f"largest difference in accuracy {rounded(largest, sign='+')} at"
    assert words in repr(group)
    turned = group_inference(second, "t", "none", other=first)
    assert f"{rounded(-largest, sign='+')} at " in repr(turned)
    names = {"other": second, "labels": ["patients", "controls"]}
    named = group_inference(first, "t", "none", **names)
    assert named.labels == ("patients", "controls")
    named.save(tmp_path / "group.h5")
    assert load_result(tmp_path / "group.h5").labels == named.labels
    assert named != group


# ------------------------- the best position is the one that is tested for, everywhere

#: Means over subjects at three times: highest at the first, furthest off at the last.
MEANS = np.array([0.7, 0.5, 0.2])
BEST = {"greater": 0, "less": 2, "two-sided": 2}
#: What the best one is called in sentences, and the largest difference.
WORDS = {
    "greater": ("highest", "largest"),
    "less": ("lowest", "smallest"),
    "two-sided": ("furthest from chance", "largest"),
}
alternatives = pytest.mark.parametrize("alternative", WORDS)


def scoring(means=MEANS, kind="TimeResult", first=0):
    """Return results of six subjects with these means."""
    results = subjects(kind, first, 6)
    noise = np.random.default_rng(first).normal(scale=0.02, size=(6, 3))
    noise -= noise.mean(axis=0)
    return [
        replace(one, metrics={"accuracy": np.reshape(means + each, one.shape)})
        for one, each in zip(results, noise, strict=True)
    ]


def check(result, alternative, score):
    """Assert that all that is said of the best place is of one."""
    best = BEST[alternative]
    table, word = result.to_dataframe(), WORDS[alternative][result.is_difference]
    for column in ("time", result.metric):
        key = f"{result.metric}_difference" if column not in table else column
        assert result.peak()[column] == table[key].iloc[best]
    assert score in repr(result)
    assert any(score in fact for fact in result._facts().values())
    answer, sentences = word_answer(result), methods_text(result)
    assert word in answer
    assert f"is {score} {result.places.at(best)}" in answer
    assert f"was {score}, at {table['time'].iloc[best]:g} s" in sentences
    assert word in sentences


@alternatives
def test_the_best_position_of_lists(alternative):
    options = {"alternative": alternative, "random_state": 0}
    for other in (None, scoring(np.full(3, 0.5), first=10)):
        group = group_inference(scoring(), "sign-flip", other=other, **options)
        mean = MEANS[BEST[alternative]]
        score = f"{mean:.3f}" if other is None else f"{mean - 0.5:+.3f}"
        check(group, alternative, score)
    if alternative == "less":
        where = group.places.at(BEST[alternative])
        assert f"Scores of each subject {where}" in "".join(report(group).html)


@alternatives
def test_the_best_position_of_a_comparison(alternative):
    a, b = (result_of("TimeResult", n_permutations=39, reg=reg) for reg in (0.3, 9.0))
    a = replace(a, metrics={"accuracy": MEANS})
    b = replace(b, metrics={"accuracy": np.full(3, 0.5)})
    result = compare(a, b, alternative=alternative)
    check(result, alternative, f"{MEANS[BEST[alternative]] - 0.5:+.3f}")


def test_without_a_chance_level_two_sides_have_no_middle():
    results = [replace(one, chances={"accuracy": np.nan}) for one in scoring()]
    group = group_inference(results, "bootstrap", alternative="two-sided")
    assert group.peak()["accuracy"] == group.scores.max()
    assert "highest mean accuracy is 0.700" in word_answer(group)


@alternatives
def test_peaks_and_views_of_images(alternative):
    options = {"alternative": alternative, "random_state": 0}
    group = group_inference(scoring(kind="regions"), "sign-flip", **options)
    best = BEST[alternative]
    assert group.peaks("none", alpha=0.999)["score"].iloc[0] == group.scores[best]
    tested = None, "none", 0.05, 0.05, "greater"
    picture = make_picture(group, "region", tested, (None, None))
    assert np.argmax(picture.favour) == best


@alternatives
def test_topomaps_of_a_subject_follow_what_is_asked(alternative):
    result, best = build.result("SensorTimeResult"), BEST[alternative]
    scores = np.full(result.shape, 0.5)
    scores[1, 0], scores[2, 2] = 0.9, 0.0
    result = replace(result, metrics={"accuracy": scores})
    tested = None, "none", 0.05, 0.05, alternative
    picture = make_picture(result, "sensor", tested, (None, None))
    assert np.argmax(picture.favour.max(axis=0)) == best
    assert best in topomap_samples(result.places, None, picture.favour)


@pytest.mark.parametrize(
    "changed",
    [
        {"statistic": np.zeros(7)},
        {"p_maps": {"none": np.ones(7)}},
        {"p_maps": {"max": np.ones(3)}},
    ],
)
def test_group_results_need_maps_of_their_shape(changed):
    result = group_inference(subjects("TimeResult"), "sign-flip", random_state=0)
    replace(result)
    with pytest.raises(ValueError, match="needs p-values and a statistic of that"):
        replace(result, **changed)
