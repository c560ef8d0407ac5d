"""Onset and peak latencies of a group, and their bootstrap intervals."""

import warnings
from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import stats

from mvpa_kfda import (
    TimeResult,
    bootstrap_latency,
    decode_arrays,
    group_inference,
    methods_text,
)
from mvpa_kfda.group.latency import draw_subjects, locate
from mvpa_kfda.reports.summary import word_question
from tests import build

TIMES = np.arange(-0.1, 0.5, 0.01)
RULE = {
    "criterion": "peak-fraction",
    "fraction": 0.5,
    "level": 0.05,
    "min_duration": 0.0,
    "window": None,
    "baseline": None,
}


def a_result(scores, times=TIMES, metric="accuracy", chance=0.5):
    """Return a TimeResult with given scores."""
    fields = {"metrics": {metric: np.asarray(scores)}, "chances": {metric: chance}}
    return build.made(TimeResult, scores, n=4, times=times, **fields)


def bump(onset=0.1, peak=0.2, height=0.3, times=TIMES):
    """Return a triangle above chance: half of its height is halfway to its peak."""
    return 0.5 + height * np.clip(1 - np.abs(times - peak) / (peak - onset), 0, None)


def subjects(n=8, noise=0.02, seed=0, jitter=0.0, **options):
    """Return results with noise and with peaks that differ between subjects."""
    rng = np.random.default_rng(seed)
    results = []
    for _ in range(n):
        shift = jitter * rng.normal()
        course = bump(0.1 + shift, 0.2 + shift, **options)
        results.append(a_result(course + noise * rng.normal(size=len(TIMES))))
    return results


def find(scores, times, chance=0.5, counts=None, **changes):
    """Return onset and peak of the mean of the subjects, or of resamples."""
    scores = np.atleast_2d(scores)
    scores = scores.repeat(2, axis=0) if len(scores) == 1 else scores
    counts = np.ones((1, len(scores)), int) if counts is None else counts
    rule = {"window": (times[0], times[-1])} | changes
    found = locate(times, scores, chance, counts, RULE | rule)[:2]
    return found if len(counts) > 1 else (found[0][0], found[1][0])


# ------------------------------------------------------------------ one time course


def test_min_duration_passes_over_short_excursions():
    times = np.arange(8) / 10
    course = 0.5 + np.array([0, 0.3, 0, 0, 0.3, 0.3, 0.4, 0])
    assert_allclose(find(course, times)[0], 0.1 * 2 / 3, rtol=1e-12)
    for duration in (0.001, 0.2, 0.3):  # never fewer than three samples
        onset, _ = find(course, times, min_duration=duration)
        assert_allclose(onset, 0.3 + 0.1 * 2 / 3, rtol=1e-9)
    assert np.isnan(find(course, times, min_duration=0.4)[0])
    assert np.isnan(find(course, times, min_duration=0.31)[0])  # takes four of 0.1 s


def copies(course, times=TIMES, n=5):
    """Return results that differ by very little."""
    return [a_result(course + 1e-9 * i, times) for i in range(n)]


@pytest.mark.filterwarnings("ignore:Class .* always guessing")
def test_unequal_classes_are_measured_from_permuted_labels():
    rng, y = np.random.default_rng(0), np.repeat([0, 1], [60, 12])
    options = {"cv": 4, "sfreq": 40, "tmin": -0.2, "random_state": 0}
    course = 6 * (bump(times=np.arange(-8, 16) / 40) - 0.5)
    data = [rng.normal(size=(72, 6, 24)) for _ in range(5)]
    for X in data:
        X[y == 1, :3] += course
    order = rng.permutation(72)
    made = [
        [decode_arrays(X[order], y[order], n_permutations=n, **options) for X in data]
        for n in (40, 0)
    ]
    results, without = made
    asked = {"n_bootstraps": 200, "random_state": 0}
    latency = bootstrap_latency(results, **asked)
    means = [each.null.mean() for each in results]
    assert_allclose(latency.permuted_mean, np.mean(means), rtol=1e-12, atol=0)
    above = np.array([each.scores for each in results]) - np.array(means)[:, None]
    times = results[0].times
    search = {"window": (0.0, times[-1]), "min_duration": 0.05}
    onset, _ = find(above, times, 0.0, **search)
    assert_allclose(latency.onset, onset, rtol=0, atol=1e-9)
    group = group_inference(results, "t", random_state=0)
    assert bootstrap_latency(group, **asked).onset == latency.onset
    words = "the mean of permuted labels of each subject (mean 0.5"
    assert words in methods_text(latency)
    with pytest.raises(ValueError, match=r"5 of 5 subjects lack\. Or pass baseline="):
        bootstrap_latency(without, **asked)
    bootstrap_latency(without, baseline=(-0.2, 0), **asked)


def test_no_onset_without_a_peak_above_chance():
    onset, peak = find(0.4 + 0 * TIMES, TIMES)
    assert np.isnan(onset)
    assert peak == TIMES[0]


# ------------------------------------------------------------------- the resamples


def plain(scores, at, rule, chance=0.5):
    """Return onset and peak of the mean of scores (n, T), sample by sample."""
    if rule["baseline"] is not None:
        first, last = rule["baseline"]
        inside = (TIMES > first - 1e-6) & (TIMES < last + 1e-6)
        scores, chance = scores - scores[:, inside].mean(axis=1, keepdims=True), 0.0
    first, last = rule["window"]
    window = np.flatnonzero((at > first - 1e-6) & (at < last + 1e-6))
    mean, n = scores.mean(axis=0), len(scores)
    top = mean[window].max()
    limit = np.full(len(at), chance + rule["fraction"] * (top - chance))
    if rule["criterion"] == "t":
        error = scores.std(axis=0, ddof=1) / np.sqrt(n)
        limit = chance + stats.t.ppf(1 - rule["level"], n - 1) * error
    n_stay = max(3, round(rule["min_duration"] / 0.01))
    above, onset = mean > limit, np.nan
    for k in window[: len(window) - n_stay + 1]:
        if above[k : k + n_stay].all() and np.isnan(onset):
            onset = at[k]
            if k > window[0]:
                rise = (mean - limit)[k - 1 : k + 1]
                onset = np.interp(0, rise, at[k - 1 : k + 1])
    return onset, at[window][mean[window].argmax()]


@pytest.mark.parametrize("criterion", ["peak-fraction", "t"])
@pytest.mark.parametrize(
    "asked",
    [
        {},
        {"window": (0.0, 0.18), "fraction": 0.8, "level": 0.01},
        {"window": (0.13, 0.4), "min_duration": 0.07},
        {"baseline": (-0.1, 0.0), "level": 0.2},
    ],
)
def test_resamples_equal_a_loop_over_them(criterion, asked):
    scores = np.array([each.scores for each in subjects(6, noise=0.1, jitter=0.02)])
    # A subject's level does not count, neither in the mean nor in its error.
    shift = np.random.default_rng(2).uniform(-0.3, 0.3, (6, 1))
    scores = scores + shift if "baseline" in asked else scores
    rng = np.random.default_rng(1)
    chosen = rng.integers(6, size=(40, 6))
    counts = np.array([np.bincount(rows, minlength=6) for rows in chosen])
    changes = {"window": (TIMES[0], TIMES[-1]), "min_duration": 0.03}
    rule = RULE | changes | {"criterion": criterion} | asked
    onsets, peaks = find(scores, TIMES, counts=counts, **rule)
    expected = np.array([plain(scores[rows], TIMES, rule) for rows in chosen])
    assert_allclose(onsets, expected[:, 0], rtol=1e-9, atol=1e-12)
    assert_array_equal(peaks, expected[:, 1])
    assert len(np.unique(onsets[~np.isnan(onsets)])) > 5


def test_equal_scores_are_no_evidence_of_an_onset():
    scores = np.tile(bump(), (5, 1))
    onset, _ = find(scores, TIMES, criterion="t", window=(0.05, 0.5), min_duration=0.02)
    assert_allclose(onset, 0.1, rtol=0, atol=1e-9)  # t is finite
    times = np.arange(10) / 10
    scores = np.random.default_rng(0).normal(0.5, 0.1, (6, 10))
    scores[:, 5:] += 0.4
    scores[:, 2:5] = 0.501
    onset, _ = find(scores, times, criterion="t", min_duration=0.3)
    assert 0.4 < onset <= 0.5


def test_draws_are_with_replacement():
    drawn = draw_subjects(np.random.default_rng(0), 6, 5000)
    assert (drawn.sum(axis=1) == 6).all()
    assert_allclose(drawn.mean(axis=0), 1, rtol=0, atol=0.05)
    assert_allclose(drawn.var(axis=0), 5 / 6, rtol=0, atol=0.06)  # of Binomial(6, 1/6)


def test_result_is_made_of_the_resamples():
    results = subjects(jitter=0.02)
    latency = bootstrap_latency(results, n_bootstraps=500, random_state=3)
    scores = np.array([each.scores for each in results])
    drawn = draw_subjects(np.random.default_rng(3), 8, 500)
    options = {"min_duration": 0.05, "window": (0.0, 0.5)}
    onsets, peaks = find(scores, TIMES, counts=drawn, **options)
    assert_array_equal(latency.onsets, onsets)
    assert_array_equal(latency.peaks, peaks)
    assert latency.window == (0.0, TIMES[-1])
    assert_allclose(latency.onset, find(scores, TIMES, **options)[0], rtol=1e-12)
    half = stats.t.isf(0.025, 7) * onsets.std(ddof=0) * np.sqrt(8 / 7)
    assert_allclose(np.diff(latency.onset_interval), 2 * half, rtol=1e-12)
    assert_allclose(latency.onset_interval.mean(), latency.onset, rtol=1e-12)
    limits = np.quantile(peaks, [0.025, 0.975])
    assert_allclose(latency.peak_interval, limits, rtol=1e-12)
    for confidence in (0.5, 0.8):  # whose percentiles are other samples
        options = {"n_bootstraps": 500, "random_state": 3, "confidence": confidence}
        tail = (1 - confidence) / 2
        limits = np.quantile(peaks, [tail, 1 - tail])
        found = bootstrap_latency(results, **options).peak_interval
        assert_allclose(found, limits, rtol=1e-12)
    asked = RULE | {"min_duration": 0.05, "random_state": 3, "paired": False}
    assert latency.parameters == asked  # by default
    assert latency.n_without_onset == 0
    assert latency.onset_interval[0] < latency.onset < latency.onset_interval[1]
    again = bootstrap_latency(results, n_bootstraps=500, random_state=3)
    assert_array_equal(latency.onsets, again.onsets)


def test_onset_intervals_end_with_the_search():
    results = subjects(6, noise=0.03, jitter=0.04)
    options = {"n_bootstraps": 200, "random_state": 0}
    low, high = bootstrap_latency(results, **options).onset_interval
    onset = bootstrap_latency(results, **options).onset
    assert 0 < low < onset < high < TIMES[-1]
    window = (low + 0.01, TIMES[-1])
    cut = bootstrap_latency(results, window=window, **options).onset_interval
    assert cut[0] >= window[0]


@pytest.mark.slow
@pytest.mark.parametrize("n", [6, 20])
def test_intervals_cover_the_true_latencies(n):
    """About 95 % of the intervals hold the true latency, of few subjects too."""
    hits, n_repeats = 0, 300
    for seed in range(n_repeats):
        results = subjects(n, noise=0.01, seed=seed, jitter=0.02)
        latency = bootstrap_latency(results, n_bootstraps=400, random_state=seed)
        # Blurred over many subjects the half of the peak is reached a bit earlier.
        low, high = latency.onset_interval
        hits += low <= true_onset() <= high
    share = hits / n_repeats
    assert 0.9 < share < 0.99


def true_onset():
    """Return the onset of the mean over a large population."""
    shifts = 0.02 * stats.norm.ppf((np.arange(2000) + 0.5) / 2000)
    mean = np.mean([bump(0.1 + s, 0.2 + s) for s in shifts], axis=0)
    return find(mean, TIMES, min_duration=0.02)[0]


# -------------------------------------------------------------------- two lists


@pytest.mark.parametrize("paired", [True, False])
def test_difference_of_shifted_courses(paired):
    early = subjects(10, noise=0.01, jitter=0.03)
    late = [a_result(np.roll(each.scores, 5)) for each in early]
    options = {"paired": paired, "n_bootstraps": 400, "random_state": 0}
    latency = bootstrap_latency(late, other=early, **options)
    assert_allclose(latency.onset, 0.05, rtol=0, atol=1e-9)
    assert_allclose(latency.peak, 0.05, rtol=0, atol=1e-9)
    first, second = latency.parts
    assert_array_equal(latency.onsets, first.onsets - second.onsets)
    low, high = latency.onset_interval
    assert_allclose((low + high) / 2, latency.onset, rtol=0, atol=1e-12)
    if not paired:
        errors = [part.onsets.var() * 10 / 9 for part in (first, second)]
        dof = sum(errors) ** 2 / sum(e**2 / 9 for e in errors)
        half = stats.t.isf(0.025, dof) * np.sqrt(sum(errors))
        assert_allclose(high - low, 2 * half, rtol=1e-12)
    if paired:  # the same subjects are drawn, who differ by the shift and no more
        assert_allclose(latency.onset_interval, 0.05, rtol=0, atol=1e-9)
        assert latency.n_subjects == 10
    else:
        assert np.ptp(latency.onset_interval) > 0.01
        assert latency.n_subjects == 20


# ------------------------------------------------------------------------- inputs


def a_group(**options):
    """Return the group result of time courses."""
    return group_inference(subjects(), "t", "none", **options)


def test_files_and_groups_give_the_same(tmp_path):
    results = subjects()
    paths = build.saved_in(tmp_path, results)
    options = {"n_bootstraps": 100, "random_state": 0}
    wanted = bootstrap_latency(results, **options)
    group = a_group()
    group.save(tmp_path / "group.h5")
    for given in (paths, group, tmp_path / "group.h5"):
        assert_array_equal(bootstrap_latency(given, **options).onsets, wanted.onsets)
    other = {"other": str(tmp_path / "group.h5")}
    with pytest.raises(TypeError, match="other must be a list of results, not a Gro"):
        bootstrap_latency(results, **other)
    with pytest.raises(TypeError, match="must be a list with one result"):
        bootstrap_latency(paths[0])


def test_lists_that_are_refused():
    others, numbers = subjects(seed=1), build.subjects("DecodingResult", 5)
    late = [a_result(each.scores, TIMES + 0.3) for each in others]
    thirds = [a_result(each.scores, chance=1 / 3) for each in others]
    pairs = {"other": others[:7], "paired": True}
    for results, options, message in (
        (subjects(4), {}, r"over 4 subjects has too few .* 5 subjects"),
        (numbers, {}, r"Latencies are for scores over time .* Deco"),
        (a_group(other=others), {}, "compares two lists of subjects"),
        (a_group(), {"metric": "accuracy"}, "A GroupResult has its metric"),
        (a_group(), {"other": []}, "A GroupResult has its metric"),
        (subjects(), {"labels": ("a", "b")}, "labels name results and other; pass oth"),
        (subjects(), pairs, "results has 8 and other 7"),
        (subjects(), {"other": late}, r"from 0\.200 to 0\.790 s instead of 60 time"),
        (subjects(), {"other": thirds}, "another chance level of 'accuracy'"),
    ):
        with pytest.raises(ValueError, match=message):
            bootstrap_latency(results, **options)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"criterion": "max"}, "Invalid value for 'criterion'"),
        ({"fraction": 1.0}, "'fraction': 1.0. Allowed: a number above 0 and below 1"),
        ({"level": 0.5}, "'level': 0.5. Allowed: a number above 0 and below 0.5"),
        ({"min_duration": -1}, "'min_duration': -1. Allowed"),
        ({"min_duration": 5.0}, "min_duration=5.0 s, here 500 samples, is longer"),
        ({"window": 0.1}, "'window': 0.1. Allowed: None, or a tuple of first and last"),
        ({"window": (3.0, 4.0)}, "No sample lies in window=.*-0.100 to 0.490 s"),
        ({"window": (0, 400)}, r"window=\(0\.0, 400\.0\) is far .* Times are in secon"),
        ({"window": (50, 250)}, "-0.100 to 0.490 s. Times are in seconds: 100 ms are"),
        ({"baseline": (-1.0, -0.5)}, "No sample lies in baseline="),
        ({"window": (0.1, 0.11)}, "0.05 s, here 5 samples, is longer .* 0.110 s with"),
        ({"n_bootstraps": 10}, "'n_bootstraps': 10. Allowed: .* at least 100"),
        ({"confidence": 95}, "'confidence': 95. Allowed: a number above 0 and below"),
        ({"paired": True}, "paired=True compares with another list; pass other="),
    ],
)
def test_invalid_arguments(options, message):
    with pytest.raises(ValueError, match=message):
        bootstrap_latency(subjects(), **options)


def test_metric_without_chance_needs_a_baseline():
    results = [a_result(each.scores, metric="r2", chance=np.nan) for each in subjects()]
    with pytest.raises(ValueError, match=r"'r2' has no chance level .* Pass baseline="):
        bootstrap_latency(results)
    latency = bootstrap_latency(results, baseline=(-0.1, 0.0), n_bootstraps=100)
    assert_allclose(latency.onset, 0.15, rtol=0, atol=0.02)
    assert latency.plot().get_ylabel() == "R²"


# ------------------------------------------------------------ noise before the effect


def test_nothing_is_searched_before_0_s():
    early = bump() + 0.3 * ((TIMES > -0.085) & (TIMES < -0.025))
    with pytest.warns(RuntimeWarning, match="before 0 s"):
        latency = bootstrap_latency(copies(early), n_bootstraps=100)
    assert_allclose(latency.onset, 0.15, rtol=0, atol=1e-6)
    assert latency.window == (0.0, TIMES[-1])
    assert latency.parameters["window"] is None
    latency = bootstrap_latency(copies(early), window=(-0.1, 0.4), n_bootstraps=100)
    assert latency.onset < -0.08
    # Without times before 0 s all are searched, and so are they without later ones.
    for shift in (0.1, -0.5):
        moved = copies(bump(), TIMES + shift)
        latency = bootstrap_latency(moved, n_bootstraps=100)
        assert_allclose(latency.onset, 0.15 + shift, rtol=0, atol=1e-6)
        assert_allclose(latency.window, (TIMES + shift)[[0, -1]], rtol=0, atol=0)


def warnings_of(results, **options):
    """Return what the warnings say."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        bootstrap_latency(results, n_bootstraps=200, random_state=0, **options)
    return [str(each.message) for each in caught]


BEFORE = (TIMES > -0.095) & (TIMES < -0.035)


def test_noise_that_reaches_the_level_warns():
    results = copies(bump(height=0.2), n=6)
    results[0] = a_result(results[0].scores + 0.45 * BEFORE)
    (text,) = warnings_of(results)
    # The mean before 0 s is 0.075 k with k copies of the first, against 0.1.
    share = stats.binom.sf(1, 6, 1 / 6)
    found = int(text.split("In ")[1].split(" %")[0]) / 100
    assert_allclose(found, share, rtol=0, atol=0.1)
    assert "at the start of the window, 0.000 s, or before 0 s" in text
    assert "Use window=..., a longer min_duration, or a larger fraction." in text
    # Not where it is shorter than an onset, nor where this is what was asked for.
    assert warnings_of(results, min_duration=0.08) == []
    assert warnings_of(results, window=(-0.1, 0.4)) == []
    assert warnings_of(subjects()) == []
    # By a t-test a share of `level` of the times is above it without any effect.
    results = [a_result(each.scores + 0.2 * BEFORE) for each in subjects()]
    assert warnings_of(results, criterion="t", level=0.001) == []
    assert len(warnings_of(results)) == 1


def test_an_onset_at_the_start_of_the_window_warns():
    (text,) = warnings_of(subjects(), window=(0.18, 0.4))
    assert text.startswith("In 100 % of the resamples the mean is already above the l")
    assert "start of the window, 0.180 s" in text
    (text,) = warnings_of(subjects(), window=(0.18, 0.4), criterion="t")
    assert "smaller level" in text
    assert "before 0 s" not in text
    late = [a_result(np.roll(each.scores, 15)) for each in subjects(seed=1)]
    assert warnings_of(late, window=(0.18, 0.45)) == []
    for one, two in ((subjects(), late), (late, subjects())):
        (text,) = warnings_of(one, other=two, window=(0.18, 0.45))
        assert text.startswith("In 100 %")


def test_the_first_of_equal_peaks_is_the_peak():
    """Whatever rounding the mean over subjects has."""
    rng, times = np.random.default_rng(0), np.arange(12) / 100
    counts = np.zeros((200, 12), int)  # of resamples without the last one
    counts[:, :-1] = rng.multinomial(12, np.full(11, 1 / 11), 200)
    for _ in range(50):
        scores = rng.integers(20, 30, size=(12, 12)) / 97
        scores[:-1, 5] = scores[:-1, 9] = rng.integers(24, 54, 11) / 60
        scores[-1, [5, 9]] = rng.uniform(size=2)
        assert (find(scores, times, counts=counts)[1] == times[5]).all()


def test_levels_at_chance_are_no_onset():
    """Means of scores at chance are above it by rounding only."""
    times, scores = np.arange(40) / 100, np.tile([[0.1], [0.2], [0.9]], (1, 40))
    assert scores.mean(axis=0)[0] > 0.4
    assert np.isnan(find(scores, times, chance=0.4)[0])
    assert np.isnan(find(scores, times, chance=0.4, criterion="t", level=0.49)[0])
    flat, options = np.tile(0.1, (3, 40)), {"baseline": (0.0, 0.05), "criterion": "t"}
    assert (flat[:, :6].mean(axis=1) < 0.1).all()
    assert np.isnan(find(flat, times, **options)[0])


# ----------------------------------------------------------------- missing onsets


def test_mean_without_onset_warns():
    results = [a_result(0.4 + 0.01 * i + 0 * TIMES) for i in range(5)]
    with pytest.warns(RuntimeWarning, match="mean over subjects has no onset"):
        latency = bootstrap_latency(results, n_bootstraps=100)
    assert np.isnan(latency.onset)
    assert np.isnan(latency.onset_interval).all()
    assert latency.n_without_onset == 100
    assert "onset none" in repr(latency)
    assert len(latency.plot().get_lines()) == 4  # mean, peak, chance, 0 s


def test_resamples_without_onset_are_counted():
    flat = [a_result(np.full(len(TIMES), 0.5 - 0.002 * i)) for i in range(5)]
    with pytest.warns(RuntimeWarning, match="of 400 resamples have no onset and are"):
        latency = bootstrap_latency(
            [a_result(bump()), *flat[1:]], n_bootstraps=400, random_state=0
        )
    share = latency.n_without_onset / 400
    assert_allclose(share, (4 / 5) ** 5, rtol=0, atol=0.1)  # without the first subject
    found = latency.onsets[~np.isnan(latency.onsets)]
    half = stats.t.isf(0.025, 4) * found.std() * np.sqrt(5 / 4)
    low, high = latency.onset - half, latency.onset + half
    limits = np.maximum(low, 0), min(high, TIMES[-1])
    assert_allclose(latency.onset_interval, limits, rtol=0, atol=1e-12)
    assert latency.to_dataframe()["without"].tolist() == [latency.n_without_onset, 0]


@pytest.mark.parametrize(("n_with", "warned"), [(3, False), (2, True)])
def test_few_resamples_without_onset_do_not_warn(n_with, warned):
    """Without any subject with an effect is (1 - n_with / 5) ** 5: 1 % and 8 %."""
    courses = [bump()] * n_with + [0.499 + 0 * TIMES] * (5 - n_with)
    results = [a_result(course - 1e-4 * i) for i, course in enumerate(courses)]
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        latency = bootstrap_latency(results, n_bootstraps=1000, random_state=0)
    share = latency.n_without_onset / 1000
    assert_allclose(share, (1 - n_with / 5) ** 5, rtol=0, atol=0.025)
    assert latency.n_without_onset > 0
    assert any("have no onset" in str(w.message) for w in caught) == warned


# ------------------------------------------------------------- tables and figures


def bands(ax, words):
    """Return the ends of the bands that have these words in their label."""
    to_data = ax.transData.inverted()
    found = [each for each in ax.patches if words in str(each.get_label())]
    return [each.get_window_extent().transformed(to_data).intervalx for each in found]


def test_figure():
    latency = bootstrap_latency(subjects(), n_bootstraps=100, random_state=0)
    ax = latency.plot()
    mean, onset, peak, chance, zero = ax.get_lines()
    assert_array_equal(mean.get_ydata(), latency.mean)
    assert onset.get_xdata()[0] == latency.onset
    assert peak.get_xdata()[0] == latency.peak
    assert peak.get_ydata()[0] == latency.mean.max()
    assert_array_equal(chance.get_ydata(), [0.5, 0.5])
    assert_array_equal(zero.get_xdata(), [0, 0])
    intervals = latency.onset_interval, latency.peak_interval
    for which, interval in zip(("onset", "peak"), intervals, strict=True):
        (band,) = bands(ax, f"{which}, 95 % interval")
        assert_allclose(band, interval, rtol=0, atol=1e-9)
    assert "onset 0.1" in ax.get_title(loc="left")
    (left,) = bands(ax, "not searched (window 0 to 0.49 s)")
    assert_allclose(left, [ax.get_xlim()[0], 0.0], rtol=0, atol=1e-9)
    ax = replace(latency, window=(0.05, 0.3)).plot()
    left, right = ax.get_xlim()
    early, late = bands(ax, "")[-2:]
    assert_allclose([early, late], [[left, 0.05], [0.3, right]], rtol=0, atol=1e-9)
    assert len(bands(ax, "not searched (window 0.05 to 0.3 s)")) == 1  # in the legend
    ax = replace(latency, window=(-1, 0.3)).plot()
    assert_allclose(bands(ax, "not searched"), [[0.3, right]], rtol=0, atol=1e-9)


def test_figure_and_words_of_two_lists():
    options = {"n_bootstraps": 100, "labels": ("words", "pictures"), "random_state": 0}
    both = bootstrap_latency(subjects(), other=subjects(seed=1), **options)
    assert "differ between words and pictures?" in word_question(both)
    assert "difference in onset, words minus pictures, was" in methods_text(both)
    ax = both.plot()
    courses = [line.get_ydata() for line in ax.get_lines() if len(line.get_xdata()) > 2]
    assert_array_equal(courses, [part.mean for part in both.parts])
    assert ax.get_title(loc="left").startswith("words minus pictures\nonset ")
    assert "pictures, mean of 8 subjects" in ax.get_legend_handles_labels()[1]
    # Intervals are rows of their own below the curves.
    ax.figure.draw_without_rendering()
    across = ax.get_xaxis_transform()
    bars = [line for line in ax.lines if line.get_linewidth() == 6]
    bars = [line for line in bars if len(line.get_xdata())]
    expected = [x for of in both.parts for x in (of.onset_interval, of.peak_interval)]
    assert_allclose([bar.get_xdata() for bar in bars], expected, rtol=0, atol=1e-12)
    first, _, second, _ = colors = [bar.get_color() for bar in bars]
    assert colors == [first, first, second, second]
    assert first != second
    heights = [bar.get_ydata()[0] for bar in bars]
    assert len(set(heights)) == 4
    lowest = min(part.mean.min() for part in both.parts)
    top = across.transform((0, max(heights)))[1]
    assert top < ax.transData.transform((0, lowest))[1]  # no curve crosses them
