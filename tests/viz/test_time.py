"""Scores over time: the curve, its permutations, and when it is significant."""

from dataclasses import replace

import matplotlib.pyplot as plt
import numpy as np
import pytest
from matplotlib.collections import PolyCollection
from matplotlib.colors import to_hex
from numpy.testing import assert_allclose, assert_array_equal
from scipy import stats

from mvpa_kfda import TimeResult, decode_arrays, group_inference
from mvpa_kfda.viz.style import NULL_BAND, metric_label, significant_spans
from mvpa_kfda.viz.time import difference_interval, mean_interval, plot_time, spread
from tests import build
from tests.build import artist, bars, legend

TIMES = np.linspace(-0.1, 0.3, 9)
REPEATS = np.random.default_rng(1).uniform(0.4, 0.9, (len(TIMES), 7))


def time_result(n_permutations=199, times=TIMES, **fields):
    accuracy = np.array([0.5, 0.48, 0.5, 0.9, 0.9, 0.52, 0.5, 0.9, 0.5])[: len(times)]
    shape = n_permutations, len(times)
    null = np.random.default_rng(0).uniform(0.4, 0.6, shape)
    return build.made(
        TimeResult,
        accuracy,
        n=40,
        metrics={"accuracy": accuracy, "kappa": 2 * accuracy - 1},
        nulls={"accuracy": null, "kappa": 2 * null - 0.9} if len(null) else {},
        chances={"accuracy": 0.5, "kappa": 0.0},
        times=times,
        **fields,
    )


@pytest.mark.parametrize("metric", ["accuracy", "kappa"])
def test_the_curve_the_band_and_chance(metric):
    result = time_result()
    ax = plot_time(result, metric=metric)
    line = artist(ax, metric_label(metric))
    assert_array_equal(line.get_xdata(), TIMES)
    assert_array_equal(line.get_ydata(), result.metrics[metric])
    assert set(artist(ax, "chance").get_ydata()) == {result.chances[metric]}
    band = artist(ax, NULL_BAND)
    corners = band.get_paths()[0].vertices
    for t in range(len(TIMES)):
        here = corners[np.isclose(corners[:, 0], TIMES[t], rtol=0, atol=1e-9), 1]
        expected = np.percentile(result.nulls[metric][:, t], [2.5, 97.5])
        assert_allclose([here.min(), here.max()], expected, rtol=1e-12, atol=0)


def test_everything_is_named():
    ax = plot_time(time_result(), color="tab:purple", label="faces")
    title = "faces: 40 trials, 2 classes (face, house), 4 folds, 199 permutations"
    assert ax.get_title(loc="left") == title
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("Time (s)", "Accuracy")
    bar = "p ≤ 0.05 (max-statistic correction)"
    assert legend(ax) == ["faces", "chance (0.5)", NULL_BAND, bar, "onset (0 s)"]
    (color,) = artist(ax, "p ≤").get_facecolor()
    assert {to_hex(artist(ax, "faces").get_color()), to_hex(color)} == {"#9467bd"}
    assert plot_time(time_result(), metric="kappa").get_ylabel() == "Cohen's kappa"
    long = np.array(["a very long condition", "another one"])
    ax = plot_time(time_result(classes=long))
    assert ", 2 classes, 4 folds" in ax.get_title(loc="left")


def test_bars_reach_half_a_sample_beyond_the_significant_ones():
    result = time_result()
    ax = plot_time(result)
    # Samples 3, 4 and 7 of every 0.05 s from -0.1 s.
    expected = [[0.025, 0.125], [0.225, 0.275]]
    assert_allclose(bars(ax), expected, rtol=0, atol=1e-12)
    least = plot_time(result, alpha=result.pvalues("max").min())
    assert_allclose(bars(least), expected, rtol=0, atol=1e-12)  # p equal to alpha
    # They lie below the curve and the band.
    ax.figure.canvas.draw()
    path = artist(ax, "p ≤").get_paths()[0]
    box = ax.get_xaxis_transform().transform_path(path).get_extents()
    assert box.y0 > ax.bbox.y0
    lowest = min(result.null.min(), result.scores.min())
    assert box.y1 < ax.transData.transform((0, lowest))[1]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"correction": "fdr"}, "FDR correction)"),
        ({"correction": "none", "alternative": "less"}, "uncorrected, lower scores)"),
        ({"correction": "none", "alternative": "two-sided"}, "uncorrected, two-sided)"),
        ({"correction": "cluster", "threshold": 0.5}, "cluster correction, clusters"),
    ],
)
def test_bars_follow_correction_level_threshold_and_alternative(options, words):
    result = time_result()
    p = result.pvalues(**options)
    for alpha in (0.1, 0.75):
        ax = plot_time(result, alpha=alpha, **options)
        if not (p <= alpha).any():
            assert f"no time point at p ≤ {alpha:g} ({words}" in " ".join(legend(ax))
            continue
        expected = significant_spans(TIMES, p <= alpha)
        assert_allclose(bars(ax), expected, rtol=0, atol=1e-12)
        assert f"p ≤ {alpha:g} ({words}" in " ".join(legend(ax))
    assert "p ≤ 0.05 (uncorrected)" in legend(plot_time(result, correction=None))


def test_a_level_out_of_reach_is_said():
    result, label = time_result(), "(max-statistic correction)"
    words = f"p ≤ 0.001 {label} is not attainable with 199 permutations"
    assert words in legend(plot_time(result, alpha=0.001))
    nothing = replace(result, metrics=result.metrics | {"accuracy": result.null[0]})
    ax = plot_time(nothing, alpha=0.006)
    assert f"no time point at p ≤ 0.006 {label}" in legend(ax)
    # Only the band is left.
    assert sum(isinstance(part, PolyCollection) for part in ax.collections) == 1
    result = time_result(n_permutations=0)
    ax = plot_time(result)
    assert legend(ax) == ["Accuracy", "chance (0.5)", "onset (0 s)"]
    assert len(ax.collections) == 0
    assert "permutations" not in ax.get_title(loc="left")


def test_a_level_out_of_reach_by_classes_of_equal_numbers_is_said():
    # 3 against 3 subjects, decoded perfectly: 2 of 20 arrangements are perfect.
    y, people = np.arange(12) // 2 % 2, np.arange(12) // 2
    X = np.random.default_rng(0).normal(size=(12, 3, 2)) + 50 * y[:, None, None]
    words = r"accuracy and AUC, for which no p-value can be below 2/20 = 0\.1"
    options = {"groups": people, "n_permutations": 100}
    with pytest.warns(UserWarning, match=words):
        result = decode_arrays(X, y, scoring=["accuracy", "recall"], **options)
    assert_allclose(result.pvalues("none"), 0.1, rtol=1e-12)
    found = " ".join(legend(plot_time(result)))
    assert "is not attainable with 19 permutations" in found
    smallest = [result.smallest_p(metric=name) for name in result.scoring]
    assert_allclose(smallest, [0.1, 0.05], rtol=1e-12)
    lower = {k: v - 0.1 for k, v in result.metrics.items()}
    people = [result, replace(result, metrics=lower)]
    group = group_inference(people, correction="none", n_permutations=10)
    assert group.parameters["first_level_smallest_p"] == [0.1, 0.1]
    assert_allclose(group.pvalues(), 0.01, rtol=1e-9)


@pytest.mark.parametrize(("shift", "shown"), [(0.2, False), (-0.5, False), (0.1, True)])
def test_onset_is_drawn_when_in_range(shift, shown):
    times = TIMES + shift
    ax = plot_time(time_result(times=times))
    assert ("onset (0 s)" in legend(ax)) == shown
    if shown:
        assert set(artist(ax, "onset").get_xdata()) == {0}
    expected = [times[0] - 0.025, times[-1] + 0.025]
    assert_allclose(ax.get_xlim(), expected, rtol=0, atol=1e-12)


def test_a_single_time_point_is_visible():
    one = REPEATS[:1]
    result = time_result(times=TIMES[:1], repeats={"accuracy": one})
    ax = plot_time(result, repeats=True)
    assert artist(ax, "Accuracy").get_marker() == "o"
    dots = [line for line in ax.lines if line.get_alpha()]
    assert {line.get_marker() for line in dots} == {"."}
    assert_array_equal([y for line in dots for y in line.get_ydata()], one[0])
    band = artist(ax, "95 %").get_paths()[0].get_extents()
    low, high = np.percentile(result.null[:, 0], [2.5, 97.5])
    assert_allclose([band.y0, band.y1], [low, high], rtol=1e-12)
    assert band.width > 0
    assert artist(plot_time(time_result()), "Accuracy").get_marker() == "None"


def test_every_repeat_is_a_thin_line_behind_the_mean():
    both = {"accuracy": REPEATS, "kappa": 2 * REPEATS - 1}
    result = time_result(repeats=both)
    for metric, repeats in both.items():
        ax = plot_time(result, metric=metric, color="C3", repeats=True)
        mean = artist(ax, metric_label(metric))
        thin = [line for line in ax.lines if line.get_linewidth() == 0.7]
        assert_array_equal([line.get_ydata() for line in thin], repeats.T)
        assert all(line.get_zorder() < mean.get_zorder() for line in thin)
        assert {line.get_color() for line in thin} == {"C3"}
        assert legend(ax).count("7 repeats") == 1
    assert "7 repeats" not in legend(plot_time(result))
    before = plt.get_fignums()
    for repeats in ({}, {"accuracy": REPEATS}):  # of another metric
        with pytest.raises(ValueError, match=r"repeats=True draws .* with n_repeats="):
            plot_time(time_result(repeats=repeats), metric="kappa", repeats=True)
    assert plt.get_fignums() == before


# ----------------------------------------------------------------------- of subjects


def test_intervals_are_those_of_the_t_distribution():
    rng = np.random.default_rng(0)
    first, second = rng.normal(size=(9, 4)), rng.normal(size=(5, 4)) * 3
    for some in (first, first[:2]):
        wanted = stats.ttest_1samp(some, 0).confidence_interval(0.95)
        expected = some.mean(axis=0), wanted.low, wanted.high
        assert_allclose(mean_interval(some), expected, rtol=1e-10, atol=1e-12)
    wanted = stats.ttest_ind(first, second).confidence_interval(0.95)
    expected = first.mean(0) - second.mean(0), wanted.low, wanted.high
    assert_allclose(difference_interval(first, second), expected, rtol=1e-10, atol=0)
    assert np.isnan(mean_interval(first[:1])[1:]).all()
    assert np.isnan(difference_interval(first[:1], second[:1])[1:]).all()


def test_spread_dots_stay_apart_and_centred():
    for seed in range(3):
        values = np.random.default_rng(seed).integers(40, 80, 60) / 100
        offsets = spread(values)
        assert np.abs(offsets).max() <= 0.25
        for value in np.unique(values):
            same = offsets[values == value]
            assert len(np.unique(same.round(9))) == len(same)
        assert abs(offsets.sum()) < 1e-9
    assert_allclose(spread([0.5, 0.5, 0.5]), [-0.07, 0, 0.07], rtol=0, atol=1e-12)
    assert_allclose(np.ptp(spread(np.ones(101))), 0.5, rtol=0.01, atol=0)
