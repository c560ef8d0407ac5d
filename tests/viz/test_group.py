"""Figures of groups and comparisons: courses, single numbers, maps, brains, nulls."""

from dataclasses import replace
from types import SimpleNamespace

import matplotlib.pyplot as plt
import mne
import numpy as np
import pytest
from matplotlib.collections import LineCollection
from matplotlib.colors import to_hex
from numpy.testing import assert_allclose, assert_array_equal
from scipy import stats

from mvpa_kfda.data.space import FeatureSpace
from mvpa_kfda.results.group import ComparisonResult, GroupResult
from mvpa_kfda.results.patterns import pack_info
from mvpa_kfda.results.places import Places
from mvpa_kfda.viz import brains
from mvpa_kfda.viz.group import plot_group, plot_null_max
from mvpa_kfda.viz.style import SCORE_COLOR, describe, label_of
from mvpa_kfda.viz.time import OTHER_COLOR, difference_interval, mean_interval, spread
from tests.build import (
    artist,
    bars,
    legend,
    region_space,
    surface_space,
    volume_space,
)

TIMES = np.linspace(-0.1, 0.4, 6)
FREQS = np.array([4.0, 8.0, 16.0])
S, P, CHANCE = 7, 99, 0.4
MAX = "p ≤ 0.05 (max-statistic correction)"

pytestmark = pytest.mark.filterwarnings("error")


def places(kind, pairs=None, space=None, info_fif=None, **coordinates):
    columns = {"ch_names": "sensor"}
    axes = {name: columns.get(name, name.removesuffix("s")) for name in coordinates}
    return Places(kind, axes, coordinates, pairs, space, info_fif)


def time(times=TIMES):
    return places("TimeResult", times=times)


def single():
    return places("DecodingResult")


def generalization():
    return places("GeneralizationResult", train_times=TIMES, test_times=TIMES[1:])


def time_frequency():
    return places("TimeFrequencyResult", freqs=FREQS, times=TIMES)


def sensors(times=TIMES):
    montage = mne.channels.make_standard_montage("biosemi16")
    info = mne.create_info(montage.ch_names, 100.0, "eeg").set_montage(montage)
    where = {"ch_names": np.array(info["ch_names"]), "times": times}
    none = np.empty((2, 0), int)
    return places("SensorTimeResult", none, info_fif=pack_info(info), **where)


def brain(space):
    positions, none = np.arange(space.n_positions), np.empty((2, 0), int)
    return places("VolumeResult", none, space.pack(), positions=positions)


def common(where, marked, smallest=0.01):
    """Return fields of a result that is significant in `marked` cells, nowhere else."""
    p = np.full(where.shape, 0.6)
    for cell in marked:
        p[cell] = smallest
    return {
        "correction": ("max",),
        "alpha": 0.05,
        "places": where,
        # Uncorrected p-values of 0.0001 allow for a bound.
        "p_maps": {"none": np.where(p < 0.6, smallest / 100, p), "max": p},
        "score_chance": CHANCE,
        "observed_max": 0.41,
        "null_max": np.linspace(0.2, 0.398, P),
        "n_permutations": P,
        "parameters": {},
        "versions": {},
    }


def group(where, marked=(), *, n=S, others=None, smallest=0.01, **fields):
    rng = np.random.default_rng(0)
    scores = rng.uniform(CHANCE - 0.1, CHANCE + 0.2, (n, *where.shape))
    values = common(where, marked, smallest) | {
        "metric": "accuracy",
        "method": "prevalence",
        "alternative": "greater",
        "chance": 0.0 if others else CHANCE,
        "statistic": scores.min(axis=0),
        "subjects": [f"sub-{k}" for k in range(n)],
        "subject_scores": scores,
    }
    if others:
        second = rng.uniform(CHANCE - 0.1, CHANCE + 0.1, (others, *where.shape))
        names = np.arange(others).astype(str)
        values |= {"other_scores": second, "other_subjects": names}
    return GroupResult(**values | fields)


def comparison(where, marked=(), **fields):
    a, b = group(where).subject_scores[:2]
    values = common(where, marked) | {
        "metric": "accuracy_difference",
        "method": "permutation",
        "alternative": "two-sided",
        "chance": 0.0,
        "statistic": a - b,
        "scores_a": a,
        "scores_b": b,
    }
    return ComparisonResult(**values | fields)


def level(ax, label):
    """Return where the horizontal line with a label is."""
    return artist(ax, label).get_ydata()[0]


def interval_in(ax):
    """Return the ends of the shaded interval at each time, and its label."""
    (band,) = [each for each in ax.collections if "interval" in each.get_label()]
    x, y = band.get_paths()[0].vertices.T
    return np.array([np.unique(y[x == when]) for when in TIMES]).T, band.get_label()


def thin(ax):
    return [each.get_ydata() for each in ax.lines if each.get_linewidth() == 0.7]


# ------------------------------------------------------------------------ time courses


def test_time_course_has_the_subjects_their_mean_and_its_interval():
    result = group(time(), marked=[2, 3], method="sign-flip")
    ax = plot_group(result)
    mean, scores = artist(ax, f"mean of {S} subjects"), result.subject_scores
    assert_allclose(mean.get_xdata(), TIMES, rtol=0, atol=0)
    assert_allclose(mean.get_ydata(), scores.mean(axis=0), rtol=1e-12, atol=0)
    assert to_hex(mean.get_color()) == SCORE_COLOR.lower()
    assert_array_equal(thin(ax), scores)
    assert_allclose(interval_in(ax)[0], mean_interval(scores)[1:], rtol=1e-10, atol=0)
    assert level(ax, f"chance ({CHANCE})") == CHANCE
    assert_allclose(bars(ax), [[0.05, 0.25]], rtol=0, atol=1e-12)
    words = [f"mean of {S} subjects", "95 % t interval of the mean", "subjects"]
    assert legend(ax) == [*words, f"chance ({CHANCE})", MAX, "onset (0 s)"]
    assert ax.get_xlim() == pytest.approx((-0.15, 0.45))
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("Time (s)", "Accuracy")
    assert ax.get_title("left").replace("\n", " ") == describe(result)
    ax = plot_group(result, color="C2", label="faces", ax=plt.subplots()[1])
    assert to_hex(artist(ax, "faces").get_color()) == "#2ca02c"


def test_prevalence_has_a_second_panel_with_the_bound():
    result = group(time(), marked=[1, 4])
    figure = plot_group(result)
    upper, lower = figure.axes
    fill, outline = lower.patches
    edges = np.linspace(-0.15, 0.45, 7)
    assert_allclose(fill.get_data().edges, edges, rtol=0, atol=1e-12)
    bound = result.gamma_0
    assert_array_equal(np.isfinite(bound), [0, 1, 0, 0, 1, 0])
    assert_array_equal(outline.get_data().values, bound)
    assert_array_equal(fill.get_data().values, np.nan_to_num(bound))
    assert level(lower, "majority (0.5)") == 0.5
    assert lower.get_ylim() == (0, 1)
    assert upper.get_xlim() == lower.get_xlim() == pytest.approx((-0.15, 0.45))
    assert (upper.get_xlabel(), lower.get_xlabel()) == ("", "Time (s)")
    assert_allclose(bars(upper), [[-0.05, 0.05], [0.25, 0.35]], rtol=0, atol=1e-12)
    assert "Prevalence bound γ₀" in legend(figure)
    assert legend(figure).count("onset (0 s)") == 1
    assert not any("no bound" in text for text in legend(figure))
    alone = plot_group(result, ax=plt.subplots()[1])
    assert len(alone.figure.axes) == 1
    none = plot_group(group(time()))
    assert np.isnan(none.axes[1].patches[1].get_data().values).all()
    assert f"no time point at {MAX}, global null" in legend(none)
    assert "no bound (a prevalence of 0 is not rejected)" in legend(none)


@pytest.mark.parametrize("paired", [False, True])
def test_two_lists_have_two_means_above_their_difference(paired):
    n, what = (S, "condition") if paired else (S + 2, "group")
    options = {"others": n, "paired": paired, "method": "t"}
    result = group(time(), marked=[0], **options)
    figure = plot_group(result)
    upper, lower = figure.axes
    samples = result.subject_scores, result.other_scores
    sizes = {"first": S, "second": n}
    names = [f"{x} {what}, mean of {size} subjects" for x, size in sizes.items()]
    colors = SCORE_COLOR, OTHER_COLOR
    for name, scores, color in zip(names, samples, colors, strict=True):
        drawn = artist(upper, name)
        assert_allclose(drawn.get_ydata(), scores.mean(axis=0), rtol=1e-12, atol=0)
        assert to_hex(drawn.get_color()) == color.lower()
    assert level(upper, f"chance ({CHANCE})") == CHANCE
    assert not upper.collections  # no intervals of single means, and no bars
    assert not thin(upper)
    name = f"mean difference of {S} subjects" if paired else "difference of the means"
    assert_allclose(artist(lower, name).get_ydata(), result.scores, rtol=1e-12, atol=0)
    ends, label = interval_in(lower)
    if paired:
        assert_array_equal(thin(lower), np.subtract(*samples))
        wanted = mean_interval(np.subtract(*samples))[1:]
    else:  # no subject of a group is anybody of the other one
        assert not thin(lower)
        wanted = difference_interval(*samples)[1:]
        assert label == "95 % t interval of the difference, pooled variance"
    assert_allclose(ends, wanted, rtol=1e-10, atol=0)
    assert level(lower, "no difference (0)") == 0
    labels = [each.get_ylabel() for each in figure.axes]
    assert labels == ["Accuracy", "Accuracy\nfirst - second"]
    assert_allclose(bars(lower), [[-0.15, -0.05]], rtol=0, atol=1e-12)
    ax = plot_group(result, ax=plt.subplots()[1])  # the means, and where they differ
    assert_allclose(bars(ax), [[-0.15, -0.05]], rtol=0, atol=1e-12)
    assert names[1] in legend(ax)
    # By their own names.
    labels = ("patients", "controls")
    figure = plot_group(group(time(), labels=labels, **options))
    assert [text.split(",")[0] for text in legend(figure)[:2]] == list(labels)
    assert figure.axes[1].get_ylabel() == "Accuracy\npatients - controls"
    name = label_of(group(generalization(), labels=labels, **options), "accuracy")
    assert name == "Accuracy, patients - controls"


def test_intervals_end_where_scores_do():
    result, scores = group(time(), method="t", n=3), np.array([1.0, 1.0, 0.7])
    result.subject_scores[...] = scores[:, None]
    low, high = stats.t.interval(0.95, 2, loc=0.9, scale=stats.sem(scores))
    assert high > 1.2
    ends, _ = interval_in(plot_group(result))
    assert_allclose(ends[:, 0], [low, 1], rtol=1e-10, atol=0)
    one = group(single(), method="t", n=3)
    one.subject_scores[...] = scores
    ax = plot_group(one)
    (interval,) = ax.collections
    assert_allclose(interval.get_segments()[0][:, 1], [low, 1], rtol=1e-10, atol=0)
    assert f"(95 % t interval {low:.3f} to {high:.3f})" in legend(ax)[0]
    regions = group(brain(region_space(5)), method="t", n=3)
    regions.subject_scores[...] = scores[:, None]
    patches = plot_group(regions).axes[0].patches
    ends = [patch.get_x() + patch.get_width() for patch in patches]
    assert_allclose(ends, 1, rtol=1e-12, atol=0)
    # The difference of two accuracies is from -1 to 1.
    far = group(time(), others=3, method="t", n=3)
    far.subject_scores[...] = result.subject_scores
    far.other_scores[...] = 0.3 - result.subject_scores / 4
    for paired in (False, True):
        lower = plot_group(replace(far, paired=paired)).axes[1]
        assert interval_in(lower)[0].max() == 1


def test_statistics_corrections_and_levels_that_are_asked_for():
    result = group(time(), marked=[2])
    name = "Accuracy, lowest of all subjects"
    ax = plot_group(result, metric="statistic")
    assert_array_equal(artist(ax, name).get_ydata(), result.statistic)
    assert ax.get_ylabel() == name
    assert not any("no effect" in text for text in legend(ax))  # it has no such level
    ax = plot_group(result, metric="gamma_0")
    assert_array_equal(ax.patches[1].get_data().values, result.gamma_0)
    t = group(time(), method="t", n_permutations=0, null_max=np.empty(0))
    assert level(plot_group(t, metric="statistic"), "no effect (0)") == 0
    # p-values of a distribution are never out of reach.
    assert f"no time point at {MAX}" in legend(plot_group(t))
    few = plot_group(group(time(), method="sign-flip", n_permutations=9))
    assert any("not attainable with 9 permutations" in text for text in legend(few))
    flips = group(time(), method="sign-flip")
    flips.p_maps["none"][[1, 2]] = 0.08
    ax = plot_group(flips, correction="none", alpha=0.1)
    assert_allclose(bars(ax), [[-0.05, 0.15]], rtol=0, atol=1e-12)
    assert "p ≤ 0.1 (uncorrected)" in legend(ax)
    dot = plot_group(group(time(TIMES[3:4]), marked=[0])).axes[0]
    assert artist(dot, f"mean of {S} subjects").get_marker() == "o"
    assert dot.get_xlim() == pytest.approx((0.195, 0.205))


@pytest.mark.parametrize("marked", [(), [(1, 2)]])
def test_clusters_of_the_bootstrap_are_drawn_whether_significant_or_not(marked):
    fields = {"method": "bootstrap", "correction": ("cluster-fdr",)}
    result = group(generalization(), marked=marked, **fields)
    result.p_maps["cluster-fdr"] = result.p_maps["max"]
    words = " ".join(legend(plot_group(result)))
    assert "p ≤ 0.05 (FDR correction of clusters)" in words
    assert "not attainable" not in words


def test_comparison_has_both_time_courses_and_their_difference():
    result = comparison(time(), marked=[5])
    upper, lower = plot_group(result).axes
    assert_array_equal(artist(upper, "result a").get_ydata(), result.scores_a)
    assert_array_equal(artist(upper, "result b").get_ydata(), result.scores_b)
    assert level(upper, f"chance ({CHANCE})") == CHANCE
    assert_array_equal(artist(lower, "Accuracy, a - b").get_ydata(), result.scores)
    assert level(lower, "no difference (0)") == 0
    assert_allclose(bars(lower), [[0.35, 0.45]], rtol=0, atol=1e-12)
    labels = [ax.get_ylabel() for ax in (upper, lower)]
    assert labels == ["Accuracy", "Accuracy\na - b"]
    ax = plot_group(result, ax=plt.subplots()[1], color="C2")
    assert_array_equal(artist(ax, "Accuracy, a - b").get_ydata(), result.scores)
    assert artist(ax, "Accuracy, a - b").get_color() == "C2"
    ax = plot_group(result, metric="accuracy_b")
    assert_array_equal(artist(ax, "Accuracy of b").get_ydata(), result.scores_b)
    assert level(ax, f"chance ({CHANCE})") == CHANCE


# --------------------------------------------------------------------- single numbers


def test_single_numbers_are_dots_beside_their_mean():
    result = group(single(), marked=[()])
    ax, scores = plot_group(result), result.subject_scores
    (dots,) = [each for each in ax.lines if each.get_alpha() == 0.6]
    assert_array_equal(dots.get_ydata(), scores)
    assert_allclose(dots.get_xdata(), spread(scores), rtol=0, atol=0)
    mean, low, high = mean_interval(scores)
    (square,) = [each for each in ax.lines if each.get_marker() == "s"]
    assert square.get_ydata() == [mean]
    (interval,) = ax.collections
    assert_allclose(interval.get_segments()[0][:, 1], [low, high], rtol=0, atol=0)
    assert level(ax, f"chance ({CHANCE})") == CHANCE
    assert legend(ax) == [
        f"mean of {S} subjects, {mean:.3f} (95 % t interval {low:.3f} to {high:.3f})",
        f"chance ({CHANCE})",
        "p = 0.010, global null",
        f"Prevalence bound γ₀: {float(result.gamma_0):.2f}",
    ]
    none = legend(plot_group(group(single())))
    assert "Prevalence bound γ₀: none (a prevalence of 0 is not rejected)" in none
    with pytest.raises(ValueError, match="only one position, so 'gamma_0' is a number"):
        plot_group(result, metric="gamma_0")
    compared = comparison(single(), marked=[()])
    ax = plot_group(compared)
    values = [artist(ax, text).get_ydata()[0] for text in legend(ax)[:2]]
    assert_allclose(values, [compared.scores_a, compared.scores_b], rtol=0, atol=0)
    assert f"difference {compared.scores:+.3f}, p = 0.010" in legend(ax)


@pytest.mark.parametrize("paired", [False, True])
def test_single_numbers_of_two_groups(paired):
    options = {"others": S if paired else S + 2, "paired": paired, "method": "t"}
    result = group(single(), labels=("patients", "controls"), **options)
    ax = plot_group(result)
    columns = [text.get_text() for text in ax.get_xticklabels()]
    assert columns == ["patients", "controls"]
    samples = result.subject_scores, result.other_scores
    dots = [each for each in ax.lines if each.get_alpha() == 0.6]
    for column, (drawn, scores) in enumerate(zip(dots, samples, strict=True)):
        assert_array_equal(drawn.get_ydata(), scores)
        assert np.abs(drawn.get_xdata() - column).max() < 0.3
    assert_array_equal(thin(ax), np.transpose(samples) if paired else [])
    difference = samples[0].mean() - samples[1].mean()
    assert f"difference {difference:+.3f}, p = 0.600" in legend(ax)
    assert f"chance ({CHANCE:.3g})" in legend(ax)
    one = group(single(), others=1, method="t")  # has no interval
    words = f"second group, mean of 1 subjects, {one.other_scores[0]:.3f}"
    assert words in legend(plot_group(one))


# ---------------------------------------------------------------------- maps and brains


def outlined(ax):
    found = [each for each in ax.collections if isinstance(each, LineCollection)]
    return found[0].get_segments() if found else []


@pytest.mark.parametrize("where", [generalization, time_frequency, sensors])
def test_maps_have_the_mean_or_the_bound_and_an_outline(where):
    result = group(where(), marked=[(1, 2)])
    drawn = plot_group(result)
    ax = drawn.figure.axes[0]
    mesh = ax.collections[0]
    assert_allclose(mesh.get_array().reshape(result.shape), result.scores, rtol=0)
    assert_allclose(mesh.cmap(mesh.norm(CHANCE))[:3], 1, rtol=0, atol=0.05)  # white
    assert len(outlined(ax)) == 4
    # Not of the majority: that is in the map of the bound.
    assert {f"{MAX}, global null", f"chance ({CHANCE})"} < set(legend(drawn))
    majority = "majority of people (γ₀ ≥ 0.5)"
    # So many subjects and so small a p that the majority has it, or more people than
    # nobody, or none.
    few = {"marked": [(1, 2)], "smallest": 0.04}
    many = {"marked": [(0, 1), (1, 1)], "n": 20, "smallest": 1e-30}
    for fields, n_sides in (
        (many, 6),
        *([(few, 0), ({}, 0)][: 1 + (where is sensors)]),
    ):
        result = group(where(), **fields)
        drawn = plot_group(result, metric="gamma_0")
        ax = drawn.figure.axes[0]
        mesh = ax.collections[0]
        assert (mesh.norm.vmin, mesh.norm.vmax) == (0, 1)
        bound = np.ma.filled(mesh.get_array(), np.nan).reshape(result.shape)
        assert_allclose(bound, result.gamma_0, rtol=0, atol=0)
        assert len(outlined(ax)) == n_sides
        assert "no bound (a prevalence of 0 is not rejected)" in legend(drawn)
        (words,) = (text for text in legend(drawn) if text.endswith(majority))
        assert (words == majority) == bool(n_sides)
        assert fields is not few or 0 < result.gamma_0[1, 2] < 0.5


def test_topomaps_of_the_bound():
    result = group(sensors(), marked=[(3, 1)], n=20, smallest=1e-30)
    figure = plot_group(result, metric="gamma_0", times=[TIMES[1], TIMES[4]])
    (mesh,) = (x for x in figure.axes[0].collections if x.get_array() is not None)
    for ax, number in zip(figure.axes[1:3], (1, 0), strict=True):
        (image,) = ax.images  # white: nothing is interpolated between sensors
        shades = image.cmap(image.norm(image.get_array()))
        assert_allclose(shades, 1, rtol=0, atol=0)
        empty, dots = ax.collections
        assert len(empty.get_offsets()) == 16 - number
        bound = [result.gamma_0[3, 1]] * number
        assert_allclose(dots.get_array(), bound, rtol=0, atol=0)
        assert dots.norm is mesh.norm
        assert dots.cmap is mesh.cmap
        assert not any(line.get_gid() == "sensors" for line in ax.lines)
    (ring,) = figure.axes[1].collections[1].get_edgecolor()
    assert to_hex(ring) == "#000000"  # the majority
    assert "majority of people at that time" in legend(figure)
    # At its place: that of the fourth sensor where mne marks only this one.
    plain = plot_group(replace(result, method="t"), times=TIMES[1])
    (there,) = [each for each in plain.axes[1].lines if each.get_marker() == "o"]
    at = figure.axes[1].collections[1].get_offsets()
    assert_allclose(at, there.get_xydata(), rtol=0, atol=1e-9)
    # Of many times, those are drawn that are near the best.
    result = group(sensors(np.arange(40) / 100), marked=[(3, 13)], smallest=1e-9)
    figure = plot_group(result, metric="gamma_0")
    assert "0.13 s" in [ax.get_title() for ax in figure.axes]


def test_nothing_is_drawn_where_nothing_was_tested():
    result = group(sensors(), marked=[(3, 1)], method="t")
    result.subject_scores[:, 5] = np.nan
    for p in result.p_maps.values():
        p[5] = np.nan
    figure = plot_group(result, times=TIMES[1])
    empty, dots = figure.axes[1].collections
    assert len(empty.get_offsets()) == 1
    scores, found = result.scores[:, 1], np.asarray(dots.get_array())
    assert_allclose(np.sort(found), np.sort(np.delete(scores, 5)), rtol=1e-12, atol=0)
    ringed = [to_hex(each) == "#000000" for each in dots.get_edgecolor()]
    assert_allclose(found[ringed], scores[3], rtol=1e-12, atol=0)
    assert "significant sensors at that time" in legend(figure)
    assert plot_group(group(sensors()), times=[0.1]).axes[1].get_title() == "0.1 s"


def test_differences_are_white_at_zero_and_colors_can_be_chosen():
    result = comparison(generalization(), marked=[(0, 0)])
    ax = plot_group(result)
    mesh = ax.collections[0]
    assert_allclose(mesh.get_array().reshape(result.shape), result.scores, rtol=0)
    assert mesh.norm.vmin == -mesh.norm.vmax
    assert_allclose(mesh.cmap(mesh.norm(0.0))[:3], 1, rtol=0, atol=0.05)
    assert "no difference (0)" in legend(ax)
    result = group(generalization(), marked=[(0, 0)])
    for options, limits in (
        ({"metric": "gamma_0", "vlim": (0, 0.5)}, (0, 0.5)),
        ({"vlim": (0.1, 0.9), "cmap": "PiYG"}, (0.1, 0.9)),
    ):
        norm = plot_group(result, **options).collections[0].norm
        assert (norm.vmin, norm.vmax) == limits


@pytest.mark.parametrize(
    ("kind", "metric"),
    [("stat_map", "accuracy"), ("glass_brain", "gamma_0"), ("surface", "statistic")],
)
def test_brains(kind, metric):
    space = surface_space() if kind == "surface" else volume_space()
    result = group(brain(space), marked=[5, 6], smallest=1e-9)
    result.subject_scores[:, 7] = np.nan
    for p in result.p_maps.values():
        p[7] = np.nan
    assert not result.decoded[7]
    figure = plot_group(result, kind=kind, metric=metric)
    bar = figure.axes[-1]
    assert bar.get_ylabel() == label_of(result, metric)
    assert figure._suptitle.get_text().replace("\n", " ") == describe(result)
    if metric == "gamma_0":
        assert bar.get_ylim() == (0, 1)
        assert any("majority" in text for text in legend(figure))
    else:
        assert any(f"{MAX}, global null" in text for text in legend(figure))


def test_brains_without_any_bound():
    figure = plot_group(group(brain(volume_space())), metric="gamma_0", views="z")
    assert "no voxel with a majority of people (γ₀ ≥ 0.5)" in legend(figure)
    assert len(figure.axes) > 2


def test_brains_are_cut_at_the_best_of_equal_bounds():
    space = volume_space()
    scores, bound = np.zeros(space.n_positions), np.full(space.n_positions, np.nan)
    scores[[3, 40, 50]], bound[[3, 40, 50]] = (0.6, 0.9, 1.0), (0.4, 0.4, 0.2)
    result = SimpleNamespace(shape=bound.shape, geometry=space, scores=scores)
    drawn = {"metric": "gamma_0", "values": bound, "favour": bound, "marked": None}
    found = brains.choose_cuts(result, SimpleNamespace(**drawn), "ortho", None)
    assert_allclose(found, space.points[40], rtol=0, atol=0)


@pytest.mark.parametrize("n", [5, 60])
def test_regions_and_features_have_the_interval_of_the_mean(n):
    where = brain(region_space(n) if n == 5 else FeatureSpace(None, n))
    result = group(where, marked=[1, 3])
    figure = plot_group(result)
    (ax,), order = figure.axes, np.argsort(result.scores)
    bounds = plot_group(result, metric="gamma_0").axes[0]
    assert "95 % t interval of the mean" in legend(figure)
    _, low, high = mean_interval(result.subject_scores)
    if n == 5:
        left = [patch.get_x() for patch in ax.patches]
        right = [patch.get_x() + patch.get_width() for patch in ax.patches]
        assert_allclose([left, right], [low[order], high[order]], rtol=1e-10, atol=0)
        for each in (ax, bounds):  # the same rows, whatever is drawn
            names = [text.get_text() for text in each.get_yticklabels()]
            assert names == [f"Area {i}" for i in order]
        assert bounds.get_ylabel() == "Region"
        assert bounds.get_xlim() == (0, 1)
        rows = [x for x in bounds.collections[0].get_segments() if len(x) == 2]
        found = [each[:, 0] for each in rows if np.isfinite(each).all()]
        bound = result.gamma_0[order][np.isfinite(result.gamma_0[order])]
        assert_array_equal(found, [[0, b] for b in bound])
    else:
        y = ax.collections[0].get_paths()[0].vertices[:, 1]
        assert_allclose([y.min(), y.max()], [low.min(), high.max()], rtol=1e-10, atol=0)
        drawn = artist(bounds, "Prevalence bound γ₀").get_ydata()
        assert_array_equal(drawn, np.nan_to_num(result.gamma_0))
        assert bounds.get_ylim() == (0, 1)
    for other in (comparison(where), group(where, others=3, method="t")):
        assert not any("interval" in text for text in legend(plot_group(other)))


# ------------------------------------------------------ the maximum of the permutations


def null_group(**fields):
    """Make a result whose null maxima are 1, 2, ..., 99 and whose maximum is 96.5."""
    values = {
        "statistic": np.array([0.5, 96.5, 3.0, 0, 0, 0]),
        "null_max": np.arange(1.0, 100.0),
        "method": "t",
        "observed_max": 96.5,
        "p_maps": {"none": np.full(6, 0.04)},
    }
    return group(time(), **values | fields)


@pytest.mark.parametrize("alpha", [0.01, 0.05, 0.29])
def test_null_max_has_the_observed_maximum_and_its_p_value(alpha):
    ax = plot_null_max(null_group(), alpha=alpha)
    assert sum(patch.get_height() for patch in ax.patches) == 99
    # 97, 98 and 99 are larger: p = 4 / 100.
    assert artist(ax, "observed, 96.5 (p = 0.040)").get_xdata()[0] == 96.5
    assert ax.get_xlabel() == "t over subjects, maximum over positions"
    assert ax.get_title("left") == f"t-test, {S} subjects, 99 sign flips"
    assert ax.get_ylabel() == "Sign flips"
    # What is above the dashed line is significant.
    bound = artist(ax, f"p ≤ {alpha:g} above {100 - 100 * alpha:g}").get_xdata()[0]
    null = np.arange(1.0, 100.0)
    assert (1 + np.sum(null >= bound + 0.5)) / 100 <= alpha + 1e-12
    assert (1 + np.sum(null >= bound)) / 100 > alpha


def test_null_max_of_other_alternatives_corrections_and_nulls():
    for alternative, start in {"less": "minus t over", "two-sided": "|t over "}.items():
        ax = plot_null_max(null_group(alternative=alternative))
        assert "observed, 96.5 (p = 0.040)" in legend(ax)
        assert ax.get_xlabel().startswith(start)
    p = {"none": np.full(6, 0.04), "max": np.linspace(0.3, 1, 6)}
    assert "observed, 96.5 (p = 0.300)" in legend(plot_null_max(null_group(p_maps=p)))
    ax = plot_null_max(group(single(), null_max=np.arange(9) / 10))
    words = "p ≤ 0.05 is not attainable with 9 permutations, global null"
    assert words in legend(ax)
    assert ax.get_xlabel() == "Accuracy, lowest of all subjects"
    axes = plt.subplots()[1]
    assert plot_null_max(comparison(time()), ax=axes) is axes
    # Many ties are not a single bar.
    null = np.repeat([0.35, 0.375, 0.4, 0.5], [3, 90, 5, 1]).astype(np.float32)
    ax = plot_null_max(null_group(null_max=null))
    heights = [patch.get_height() for patch in ax.patches]
    assert [height for height in heights if height] == [3, 90, 5, 1]


# ------------------------------------------------------- latencies, words and errors


def test_titles_of_groups():
    of_two = {"others": 4}
    for method, options, words in [
        ("prevalence", {}, "Prevalence test, 7 subjects, 10,000 permutations"),
        ("bootstrap", {}, "Bootstrap of permuted means, 7 subjects, 10,000 permut"),
        ("t", {"n_permutations": 0}, "t-test, 7 subjects"),
        ("wilcoxon", {"others": 7, "paired": True}, "Signed-rank test, 7 subjects in"),
        ("wilcoxon", of_two, "Rank-sum test of two groups, 7 and 4 subjects, 10"),
        ("sign-flip", of_two, "Permutation test of two groups, 7 and 4 subj"),
    ]:
        options = {"n_permutations": 10000} | options
        assert describe(group(time(), method=method, **options)).startswith(words)


def test_bounds_of_two_groups_are_told_apart():
    result, ax = group(time(), marked=[2]), None
    for name in ("faces", "words"):
        ax = result.plot(metric="gamma_0", ax=ax, label=name)
    steps = [patch for patch in ax.patches if patch.get_label() in ("faces", "words")]
    assert len({to_hex(patch.get_edgecolor()) for patch in steps}) == 2
    assert legend(ax).count("majority (0.5)") == 1


def test_wrong_arguments_leave_no_figure():
    two = group(time(), others=3, method="t")
    for result, options, message in [
        (group(time()), {"alpha": 0}, "Invalid value for 'alpha': 0"),
        (group(time()), {"metric": "kappa"}, "Invalid value for 'metric': 'kappa'"),
        (group(time()), {"correction": "tfce"}, "'tfce' was not requested"),
        (two, {"color": "C1"}, "several curves, so it takes no color"),
        (comparison(time()), {"label": "a"}, "several curves, so it takes no color"),
    ]:
        with pytest.raises(ValueError, match=message):
            plot_group(result, **options)
    for option in ("views", "threshold", "alternative"):
        with pytest.raises(TypeError, match=f"do not take: {option}"):
            group(time()).plot(**{option: 0.01})
    with pytest.raises(ValueError, match="Run group_inference again with correction="):
        plot_null_max(null_group(null_max=np.empty(0)))
    with pytest.raises(ValueError, match="Invalid value for 'alpha': 2"):
        plot_null_max(null_group(), alpha=2)
    assert not plt.get_fignums()
    assert plot_group(two, metric="statistic", color="C1").lines[0].get_color() == "C1"
