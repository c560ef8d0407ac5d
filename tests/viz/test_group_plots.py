from dataclasses import replace
from types import SimpleNamespace

import matplotlib.pyplot as plt
import mne
import numpy as np
import pytest
from matplotlib.collections import LineCollection, PolyCollection
from matplotlib.colors import to_hex
from numpy.testing import assert_allclose, assert_array_equal
from scipy import stats

from mvpa_kfda.data.space import FeatureSpace
from mvpa_kfda.results.group import ComparisonResult, GroupResult
from mvpa_kfda.results.patterns import pack_info
from mvpa_kfda.results.places import Places
from mvpa_kfda.viz import brains
from mvpa_kfda.viz.group import plot_group, plot_null_max
from mvpa_kfda.viz.style import SCORE_COLOR, describe, label_of, level_of
from mvpa_kfda.viz.time import OTHER_COLOR, difference_interval, mean_interval, spread
from tests.build import region_space, surface_space, volume_space

TIMES = np.linspace(-0.1, 0.4, 6)
FREQS = np.array([4.0, 8.0, 16.0])
S, P, CHANCE = 7, 99, 0.4


pytestmark = pytest.mark.filterwarnings("error")


def places(kind, **coordinates):
    columns = {
        "times": "time",
        "train_times": "train_time",
        "test_times": "test_time",
        "freqs": "freq",
        "ch_names": "sensor",
        "positions": "position",
    }
    more = {k: coordinates.pop(k) for k in ("space", "info_fif") if k in coordinates}
    axes = {name: columns[name] for name in coordinates}
    pairs = np.empty((2, 0), int) if more else None
    return Places(kind, axes, coordinates, pairs, **more)


def time(times=TIMES):
    return places("TimeResult", times=times)


def single():
    return places("DecodingResult")


def generalization():
    return places("GeneralizationResult", train_times=TIMES, test_times=TIMES[1:])


def time_frequency():
    return places("TimeFrequencyResult", freqs=FREQS, times=TIMES)


def sensors():
    montage = mne.channels.make_standard_montage("biosemi16")
    info = mne.create_info(montage.ch_names, 100.0, "eeg").set_montage(montage)
    names = np.array(info["ch_names"])
    where = {"ch_names": names, "times": TIMES}
    return places("SensorTimeResult", **where, info_fif=pack_info(info))


def brain(space):
    packed = {"positions": np.arange(space.n_positions), "space": space.pack()}
    return places("VolumeResult", **packed)


def p_with(shape, marked, smallest=0.01):
    p = np.full(shape, 0.6)
    for cell in marked:
        p[cell] = smallest
    return p


def group(
    where, marked=(), *, method="prevalence", n=S, others=None, smallest=0.01, **fields
):
    """Make a result that is significant in the `marked` cells and nowhere else."""
    rng, shape = np.random.default_rng(0), where.shape
    scores = rng.uniform(CHANCE - 0.1, CHANCE + 0.2, (n, *shape))
    second = None
    if others:
        second = rng.uniform(CHANCE - 0.1, CHANCE + 0.1, (others, *shape))
    p = p_with(shape, marked, smallest)
    values = {
        "metric": "accuracy",
        "method": method,
        "correction": ("max",),
        "alternative": "greater",
        "alpha": 0.05,
        "places": where,
        "chance": 0.0 if others else CHANCE,
        "statistic": scores.min(axis=0),
        # Uncorrected p-values of 0.0001 allow for a bound.
        "p_maps": {"none": np.where(p < 0.6, smallest / 100, p), "max": p},
        "score_chance": CHANCE,
        "observed_max": 0.41,
        "null_max": np.linspace(0.2, 0.398, P),
        "n_permutations": P,
        "parameters": {},
        "versions": {},
        "subjects": [f"sub-{k}" for k in range(n)],
        "subject_scores": scores,
        "other_subjects": None if second is None else np.arange(others).astype(str),
        "other_scores": second,
    }
    return GroupResult(**values | fields)


def comparison(where, marked=(), **fields):
    made = group(where, marked, method="t")
    a, b = made.subject_scores[:2]
    values = {
        "metric": "accuracy_difference",
        "method": "permutation",
        "correction": ("max",),
        "alternative": "two-sided",
        "alpha": 0.05,
        "places": where,
        "chance": 0.0,
        "score_chance": CHANCE,
        "statistic": a - b,
        "scores_a": a,
        "scores_b": b,
        "p_maps": made.p_maps,
        "observed_max": 0.41,
        "null_max": made.null_max,
        "n_permutations": P,
        "parameters": {},
        "versions": {},
    }
    return ComparisonResult(**values | fields)


def texts(drawn):
    figure = isinstance(drawn, plt.Figure)
    owner = drawn.legends[0] if figure else drawn.get_legend()
    return [text.get_text() for text in owner.get_texts()]


def line(ax, label):
    """Return the only line with a label."""
    (found,) = [each for each in ax.lines if each.get_label() == label]
    return found


def level(ax, label):
    """Return where the horizontal line with a label is."""
    return line(ax, label).get_ydata()[0]


def bars(ax):
    """Return the start and the end of each bar of significance."""
    (found,) = [
        each
        for each in ax.collections
        if isinstance(each, PolyCollection) and "p ≤" in each.get_label()
    ]
    corners = [path.vertices[:, 0] for path in found.get_paths()]
    return np.array([[x.min(), x.max()] for x in corners])


# ------------------------------------------------------------------------ time courses


def test_time_course_has_the_subjects_their_mean_and_its_interval():
    result = group(time(), marked=[2, 3], method="sign-flip")
    ax = plot_group(result)
    assert isinstance(ax, plt.Axes)
    mean = line(ax, f"mean of {S} subjects")
    assert_allclose(mean.get_xdata(), TIMES, rtol=0, atol=0)
    scores = result.subject_scores
    assert_allclose(mean.get_ydata(), scores.mean(axis=0), rtol=1e-12, atol=0)
    assert to_hex(mean.get_color()) == SCORE_COLOR.lower()
    thin = [each for each in ax.lines if each.get_linewidth() == 0.7]
    assert_array_equal([each.get_ydata() for each in thin], scores)
    assert_allclose(interval_in(ax)[0], mean_interval(scores)[1:], rtol=1e-10, atol=0)
    assert level(ax, f"chance ({CHANCE})") == CHANCE
    assert_allclose(bars(ax), [[0.05, 0.25]], rtol=0, atol=1e-12)
    assert texts(ax) == [
        f"mean of {S} subjects",
        "95 % t interval of the mean",
        "subjects",
        f"chance ({CHANCE})",
        "p ≤ 0.05 (max-statistic correction)",
        "onset (0 s)",
    ]
    assert ax.get_xlim() == pytest.approx((-0.15, 0.45))
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("Time (s)", "Accuracy")
    assert ax.get_title("left").replace("\n", " ") == describe(result)


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
    assert "Prevalence bound γ₀" in texts(figure)
    assert texts(figure).count("onset (0 s)") == 1
    assert not any("no bound" in text for text in texts(figure))


def test_without_any_effect_the_legend_says_so():
    figure = plot_group(group(time()))
    assert np.isnan(figure.axes[1].patches[1].get_data().values).all()
    found = texts(figure)
    assert "no time point at p ≤ 0.05 (max-statistic correction), global null" in found
    assert "no bound (a prevalence of 0 is not rejected)" in found


def test_an_axes_of_ones_own_gets_the_scores_only():
    ax = plt.subplots()[1]
    assert plot_group(group(time(), marked=[1]), ax=ax) is ax
    assert len(ax.figure.axes) == 1
    assert ax.get_ylabel() == "Accuracy"


def interval_in(ax):
    """Return the ends of the shaded interval at each time, and its label."""
    (band,) = [each for each in ax.collections if "interval" in each.get_label()]
    x, y = band.get_paths()[0].vertices.T
    return np.array([np.unique(y[x == when]) for when in TIMES]).T, band.get_label()


@pytest.mark.parametrize("paired", [False, True])
def test_two_lists_have_two_means_above_their_difference(paired):
    n = S if paired else S + 2
    result = group(time(), marked=[0], others=n, paired=paired, method="t")
    figure = plot_group(result)
    upper, lower = figure.axes
    samples = result.subject_scores, result.other_scores
    what = "condition" if paired else "group"
    names = (
        f"first {what}, mean of {S} subjects",
        f"second {what}, mean of {n} subjects",
    )
    for name, scores, color in zip(
        names, samples, (SCORE_COLOR, OTHER_COLOR), strict=True
    ):
        drawn = line(upper, name)
        assert_allclose(drawn.get_ydata(), scores.mean(axis=0), rtol=1e-12, atol=0)
        assert to_hex(drawn.get_color()) == color.lower()
    assert level(upper, f"chance ({CHANCE})") == CHANCE
    assert not upper.collections  # no intervals of single means, and no bars
    assert not [each for each in upper.lines if each.get_linewidth() == 0.7]
    name = f"mean difference of {S} subjects" if paired else "difference of the means"
    drawn = line(lower, name).get_ydata()
    assert_allclose(drawn, result.scores, rtol=1e-12, atol=0)
    thin = [each.get_ydata() for each in lower.lines if each.get_linewidth() == 0.7]
    ends, label = interval_in(lower)
    if paired:
        differences = np.subtract(*samples)
        assert_array_equal(thin, differences)
        wanted = mean_interval(differences)[1:]
    else:  # no subject of a group is anybody of the other one
        assert not thin
        wanted = difference_interval(*samples)[1:]
        assert label == "95 % t interval of the difference, pooled variance"
        assert describe(
            result
        ) == f"t-test of two groups, {S} and {n} subjects, 99 " + ("permutations")
    assert_allclose(ends, wanted, rtol=1e-10, atol=0)
    assert level(lower, "no difference (0)") == 0
    labels = [each.get_ylabel() for each in figure.axes]
    assert labels == ["Accuracy", "Accuracy\nfirst - second"]
    assert_allclose(bars(lower), [[-0.15, -0.05]], rtol=0, atol=1e-12)
    ax = plot_group(result, ax=plt.subplots()[1])  # the means, and where they differ
    assert_allclose(bars(ax), [[-0.15, -0.05]], rtol=0, atol=1e-12)
    assert names[1] in texts(ax)
    assert plot_group(result, metric="statistic").get_ylabel() == "t over subjects"


@pytest.mark.parametrize("paired", [False, True])
def test_lists_are_called_by_their_names(paired):
    labels = ("patients", "controls")
    options = {"others": S, "paired": paired, "method": "t", "labels": labels}
    figure = plot_group(group(time(), **options))
    assert [f"{name}, mean of {S} subjects" for name in labels] == texts(figure)[:2]
    assert figure.axes[1].get_ylabel() == "Accuracy\npatients - controls"
    ax = plot_group(group(single(), **options))
    assert [text.get_text() for text in ax.get_xticklabels()] == list(labels)
    assert texts(ax)[0].startswith(f"patients, mean of {S} subjects, 0.")
    name = label_of(group(generalization(), **options), "accuracy")
    assert name == "Accuracy, patients - controls"


def test_intervals_end_where_scores_do():
    result = group(time(), method="t", n=3)
    result.subject_scores[...] = np.array([1.0, 1.0, 0.7])[:, None]
    low, high = stats.t.interval(
        0.95, 2, loc=0.9, scale=stats.sem(result.subject_scores[:, 0])
    )
    assert low > 0.4
    assert high > 1.2
    ends, _ = interval_in(plot_group(result))
    assert_allclose(ends[:, 0], [low, 1], rtol=1e-10, atol=0)
    one = group(single(), method="t", n=3)
    one.subject_scores[...] = [1.0, 1.0, 0.7]
    ax = plot_group(one)
    (interval,) = ax.collections
    assert_allclose(interval.get_segments()[0][:, 1], [low, 1], rtol=1e-10, atol=0)
    assert f"(95 % t interval {low:.3f} to {high:.3f})" in texts(ax)[0]
    bars_of_regions = group(brain(region_space(5)), method="t", n=3)
    bars_of_regions.subject_scores[...] = np.array([1.0, 1.0, 0.7])[:, None]
    ends = [
        p.get_x() + p.get_width() for p in plot_group(bars_of_regions).axes[0].patches
    ]
    assert_allclose(ends, 1, rtol=1e-12, atol=0)
    # The difference of two accuracies is from -1 to 1.
    far = group(time(), others=3, method="t", n=3)
    far.subject_scores[...] = result.subject_scores
    far.other_scores[...] = 0.3 - result.subject_scores / 4
    for paired in (False, True):
        lower = plot_group(replace(far, paired=paired)).axes[1]
        assert interval_in(lower)[0].max() == 1


def test_difference_interval_is_that_of_the_pooled_t_test():
    rng = np.random.default_rng(0)
    first, second = rng.normal(size=(9, 4)), rng.normal(size=(5, 4)) * 3
    difference, low, high = difference_interval(first, second)
    wanted = stats.ttest_ind(first, second).confidence_interval(0.95)
    assert_allclose(difference, first.mean(0) - second.mean(0), rtol=1e-12, atol=0)
    assert_allclose([low, high], [wanted.low, wanted.high], rtol=1e-10, atol=0)
    assert np.isnan(difference_interval(first[:1], second[:1])[1:]).all()


def test_the_statistic_and_the_bound_are_curves_of_their_own():
    result = group(time(), marked=[2])
    ax = plot_group(result, metric="statistic")
    name = "Accuracy, lowest of all subjects"
    assert_array_equal(line(ax, name).get_ydata(), result.statistic)
    assert ax.get_ylabel() == name
    assert not any("no effect" in text for text in texts(ax))  # it has no such level
    ax = plot_group(result, metric="gamma_0")
    assert_array_equal(ax.patches[1].get_data().values, result.gamma_0)
    t = group(time(), method="t")
    assert level(plot_group(t, metric="statistic"), "no effect (0)") == 0


def test_a_single_time_point_is_a_dot():
    figure = plot_group(group(time(TIMES[3:4]), marked=[0]))
    upper = figure.axes[0]
    assert line(upper, f"mean of {S} subjects").get_marker() == "o"
    assert upper.get_xlim() == pytest.approx((0.195, 0.205))


def test_corrections_and_levels_that_are_asked_for():
    result = group(time(), method="sign-flip")
    result.p_maps["none"][[1, 2]] = 0.08
    ax = plot_group(result, correction="none", alpha=0.1)
    assert_allclose(bars(ax), [[-0.05, 0.15]], rtol=0, atol=1e-12)
    assert "p ≤ 0.1 (uncorrected)" in texts(ax)


def test_the_correction_that_only_groups_have():
    result = group(time(), marked=[3], method="bootstrap", correction=["cluster-fdr"])
    result.p_maps["cluster-fdr"] = result.p_maps["max"]
    assert "p ≤ 0.05 (FDR correction of clusters)" in texts(plot_group(result))


def test_p_values_of_a_distribution_are_never_out_of_reach():
    result = group(time(), method="t", n_permutations=0, null_max=np.empty(0))
    found = texts(plot_group(result))
    assert "no time point at p ≤ 0.05 (max-statistic correction)" in found
    few = group(time(), method="sign-flip", n_permutations=9)
    assert any(
        "not attainable with 9 permutations" in x for x in texts(plot_group(few))
    )


def test_comparison_has_both_time_courses_and_their_difference():
    result = comparison(time(), marked=[5])
    figure = plot_group(result)
    upper, lower = figure.axes
    assert_array_equal(line(upper, "result a").get_ydata(), result.scores_a)
    assert_array_equal(line(upper, "result b").get_ydata(), result.scores_b)
    assert level(upper, f"chance ({CHANCE})") == CHANCE
    difference = line(lower, "Accuracy, a - b")
    assert_array_equal(difference.get_ydata(), result.scores_a - result.scores_b)
    assert level(lower, "no difference (0)") == 0
    assert_allclose(bars(lower), [[0.35, 0.45]], rtol=0, atol=1e-12)
    assert [ax.get_ylabel() for ax in (upper, lower)] == [
        "Accuracy",
        "Accuracy\na - b",
    ]
    ax = plot_group(result, ax=plt.subplots()[1])
    assert_array_equal(line(ax, "Accuracy, a - b").get_ydata(), result.scores)
    assert ax.get_ylabel() == "Accuracy, a - b"
    ax = plot_group(result, metric="accuracy_b")
    assert_array_equal(line(ax, "Accuracy of b").get_ydata(), result.scores_b)
    assert level(ax, f"chance ({CHANCE})") == CHANCE


# --------------------------------------------------------------------- single numbers


def test_single_numbers_are_dots_beside_their_mean():
    result = group(single(), marked=[()])
    ax = plot_group(result)
    scores = result.subject_scores
    (dots,) = [each for each in ax.lines if each.get_alpha() == 0.6]
    assert_array_equal(dots.get_ydata(), scores)
    assert_allclose(dots.get_xdata(), spread(scores), rtol=0, atol=0)
    mean, low, high = mean_interval(scores)
    (square,) = [each for each in ax.lines if each.get_marker() == "s"]
    assert square.get_ydata() == [mean]
    (interval,) = ax.collections
    assert_allclose(interval.get_segments()[0][:, 1], [low, high], rtol=0, atol=0)
    assert level(ax, f"chance ({CHANCE})") == CHANCE
    assert texts(ax) == [
        f"mean of {S} subjects, {mean:.3f} (95 % t interval {low:.3f} to {high:.3f})",
        f"chance ({CHANCE})",
        "p = 0.010, global null",
        f"Prevalence bound γ₀: {float(result.gamma_0):.2f}",
    ]
    none = texts(plot_group(group(single())))
    assert "Prevalence bound γ₀: none (a prevalence of 0 is not rejected)" in none


@pytest.mark.parametrize("paired", [False, True])
def test_single_numbers_of_two_groups(paired):
    n = S if paired else S + 2
    result = group(single(), others=n, paired=paired, method="t")
    ax = plot_group(result)
    samples = result.subject_scores, result.other_scores
    dots = [each for each in ax.lines if each.get_alpha() == 0.6]
    for column, (drawn, scores) in enumerate(zip(dots, samples, strict=True)):
        assert_array_equal(drawn.get_ydata(), scores)
        assert np.abs(drawn.get_xdata() - column).max() < 0.3
    pairs = [each.get_ydata() for each in ax.lines if each.get_linewidth() == 0.7]
    if paired:
        assert_array_equal(np.transpose(pairs), samples)
    assert len(pairs) == (S if paired else 0)
    difference = samples[0].mean() - samples[1].mean()
    assert f"difference {difference:+.3f}, p = 0.600" in texts(ax)
    assert f"chance ({CHANCE:.3g})" in texts(ax)


def test_a_group_of_one_has_no_interval():
    result = group(single(), others=1, method="t")
    words = f"second group, mean of 1 subjects, {result.other_scores[0]:.3f}"
    assert words in texts(plot_group(result))


def test_comparison_of_single_numbers():
    result = comparison(single(), marked=[()])
    ax = plot_group(result)
    values = [line(ax, text).get_ydata()[0] for text in texts(ax)[:2]]
    assert_allclose(values, [result.scores_a, result.scores_b], rtol=0, atol=0)
    assert f"difference {result.scores:+.3f}, p = 0.010" in texts(ax)


def test_single_numbers_have_no_other_map():
    with pytest.raises(ValueError, match="only one position, so 'gamma_0' is a number"):
        plot_group(group(single(), marked=[()]), metric="gamma_0")


@pytest.mark.parametrize("seed", range(3))
def test_spread_dots_stay_apart_and_centred(seed):
    values = np.random.default_rng(seed).integers(40, 80, 60) / 100
    offsets = spread(values)
    assert np.abs(offsets).max() <= 0.25
    for value in np.unique(values):
        same = offsets[values == value]
        assert len(np.unique(same.round(9))) == len(same)
    assert abs(offsets.sum()) < 1e-9


def test_spread_of_equal_values():
    assert_allclose(spread([0.5, 0.5, 0.5]), [-0.07, 0, 0.07], rtol=0, atol=1e-12)
    assert_allclose(np.ptp(spread(np.ones(101))), 0.5, rtol=0.01, atol=0)


def test_mean_interval_is_that_of_the_t_distribution():
    scores = np.random.default_rng(0).normal(size=(9, 4))
    mean, low, high = mean_interval(scores)
    wanted = stats.ttest_1samp(scores, 0).confidence_interval(0.95)
    assert_allclose(mean, scores.mean(axis=0), rtol=1e-12, atol=0)
    assert_allclose([low, high], [wanted.low, wanted.high], rtol=1e-10, atol=0)
    assert np.isnan(mean_interval(scores[:1])[1:]).all()


# ---------------------------------------------------------------------- maps and brains


def outlined(ax):
    found = [each for each in ax.collections if isinstance(each, LineCollection)]
    return found[0].get_segments() if found else []


@pytest.mark.parametrize("where", [generalization, time_frequency, sensors])
def test_maps_have_the_mean_and_an_outline(where):
    result = group(where(), marked=[(1, 2)])
    drawn = plot_group(result)
    ax = drawn.axes[0] if isinstance(drawn, plt.Figure) else drawn
    mesh = ax.collections[0]
    assert_allclose(mesh.get_array().reshape(result.shape), result.scores, rtol=0)
    middle = mesh.cmap(mesh.norm(CHANCE))
    assert_allclose(middle[:3], 1, rtol=0, atol=0.05)  # white at chance
    assert len(outlined(ax)) == 4
    # Not of the majority: that is in the map of the bound.
    outline = "p ≤ 0.05 (max-statistic correction), global null"
    assert {outline, f"chance ({CHANCE})"} < set(texts(drawn))
    of_others = plot_group(group(where(), marked=[(1, 2)], method="t"))
    assert "p ≤ 0.05 (max-statistic correction)" in texts(of_others)


@pytest.mark.parametrize("where", [generalization, time_frequency, sensors])
@pytest.mark.parametrize("marked", [[], [(0, 1), (1, 1)]])
def test_maps_of_the_bound_go_from_0_to_1(where, marked):
    # So many subjects and so small a p that the majority has it.
    result = group(where(), marked=marked, n=20, smallest=1e-30)
    drawn = plot_group(result, metric="gamma_0")
    ax = drawn.axes[0] if isinstance(drawn, plt.Figure) else drawn
    mesh = ax.collections[0]
    assert (mesh.norm.vmin, mesh.norm.vmax) == (0, 1)
    bound = np.ma.filled(mesh.get_array(), np.nan).reshape(result.shape)
    assert_allclose(bound, result.gamma_0, rtol=0, atol=0)
    assert len(outlined(ax)) == (6 if marked else 0)
    found = texts(drawn)
    assert "no bound (a prevalence of 0 is not rejected)" in found
    majority = "majority of people (γ₀ ≥ 0.5)"
    assert any(
        text == majority if marked else text.endswith(f"with a {majority}")
        for text in found
    )


def test_topomaps_of_the_bound():
    result = group(sensors(), marked=[(3, 1)], n=20, smallest=1e-30)
    figure = plot_group(result, metric="gamma_0", times=[TIMES[1], TIMES[4]])
    (mesh,) = (
        each for each in figure.axes[0].collections if each.get_array() is not None
    )
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
    assert "majority of people at that time" in texts(figure)
    # At its place: that of the fourth sensor where mne marks only this one.
    plain = plot_group(replace(result, method="t"), times=TIMES[1])
    (there,) = [each for each in plain.axes[1].lines if each.get_marker() == "o"]
    at = figure.axes[1].collections[1].get_offsets()
    assert_allclose(at, there.get_xydata(), rtol=0, atol=1e-9)
    # Of many times, those are drawn that are near the best.
    many = replace(
        sensors(),
        coordinates={
            "ch_names": sensors().coordinates["ch_names"],
            "times": np.arange(40) / 100,
        },
    )
    result = group(many, marked=[(3, 13)], smallest=1e-9)
    figure = plot_group(result, metric="gamma_0")
    assert "0.13 s" in [ax.get_title() for ax in figure.axes]


def test_nothing_is_drawn_between_sensors_without_scores():
    result = group(sensors(), marked=[(3, 1)], method="t")
    result.subject_scores[:, 5] = np.nan
    for p in result.p_maps.values():
        p[5] = np.nan
    figure = plot_group(result, times=TIMES[1])
    empty, dots = figure.axes[1].collections
    assert len(empty.get_offsets()) == 1
    scores = result.scores[:, 1]
    found = np.asarray(dots.get_array())
    assert_allclose(np.sort(found), np.sort(np.delete(scores, 5)), rtol=1e-12, atol=0)
    ringed = [to_hex(each) == "#000000" for each in dots.get_edgecolor()]
    assert_allclose(found[ringed], scores[3], rtol=1e-12, atol=0)
    assert "significant sensors at that time" in texts(figure)


def test_the_outline_of_the_bound_is_the_majority_and_not_the_level():
    result = group(generalization(), marked=[(1, 2)], smallest=0.04)
    assert 0 < result.gamma_0[1, 2] < 0.5
    assert not outlined(plot_group(result, metric="gamma_0"))
    assert outlined(plot_group(result))


def test_differences_are_white_at_zero():
    result = comparison(generalization(), marked=[(0, 0)])
    ax = plot_group(result)
    mesh = ax.collections[0]
    assert_allclose(mesh.get_array().reshape(result.shape), result.scores, rtol=0)
    assert mesh.norm.vmin == -mesh.norm.vmax
    assert_allclose(mesh.cmap(mesh.norm(0.0))[:3], 1, rtol=0, atol=0.05)
    assert "no difference (0)" in texts(ax)


def test_colors_and_limits_that_are_asked_for():
    result = group(generalization(), marked=[(0, 0)])
    mesh = plot_group(result, metric="gamma_0", vlim=(0, 0.5)).collections[0]
    assert mesh.norm.vmax == 0.5
    mesh = plot_group(result, vlim=(0.1, 0.9), cmap="PiYG").collections[0]
    assert (mesh.norm.vmin, mesh.norm.vmax) == (0.1, 0.9)
    assert plot_group(group(sensors()), times=[0.1]).axes[1].get_title() == "0.1 s"


def brain_title(figure):
    return figure._suptitle.get_text().replace("\n", " ")


@pytest.mark.some(4)
@pytest.mark.parametrize("metric", ["accuracy", "gamma_0", "statistic"])
@pytest.mark.parametrize("kind", ["stat_map", "glass_brain"])
def test_brains(metric, kind):
    result = group(brain(volume_space()), marked=[5, 6], smallest=1e-9)
    figure = plot_group(result, kind=kind, metric=metric)
    bar = figure.axes[-1]
    assert bar.get_ylabel() == label_of(result, metric)
    assert brain_title(figure) == describe(result)
    if metric == "gamma_0":
        assert bar.get_ylim() == (0, 1)
        assert any("majority" in text for text in texts(figure))


def test_brains_without_any_bound():
    for kind in ("stat_map", "glass_brain"):
        figure = plot_group(group(brain(volume_space())), kind=kind, metric="gamma_0")
        assert "no voxel with a majority of people (γ₀ ≥ 0.5)" in texts(figure)
    figure = plot_group(group(brain(volume_space())), views="z", metric="gamma_0")
    assert len(figure.axes) > 2


def test_positions_that_do_not_count_stay_empty():
    result = group(brain(volume_space()), marked=[5])
    result.subject_scores[:, 7] = np.nan
    for p in result.p_maps.values():
        p[7] = np.nan
    assert not result.decoded[7]
    figure = plot_group(result)
    assert "p ≤ 0.05 (max-statistic correction), global null" in texts(figure)


def test_brains_are_cut_at_the_best_of_equal_bounds():
    space = volume_space()
    scores = np.zeros(space.n_positions)
    scores[[3, 40, 50]] = 0.6, 0.9, 1.0
    bound = np.full(space.n_positions, np.nan)
    bound[[3, 40]], bound[50] = 0.4, 0.2
    result = SimpleNamespace(shape=bound.shape, geometry=space, scores=scores)
    drawn = {"metric": "gamma_0", "values": bound, "favour": bound, "marked": None}
    drawn = SimpleNamespace(**drawn)
    found = brains.choose_cuts(result, drawn, "ortho", None)
    assert_allclose(found, space.points[40], rtol=0, atol=0)


def test_surfaces():
    result = group(brain(surface_space()), marked=[3], smallest=1e-9)
    for metric in result.scoring:
        figure = plot_group(result, metric=metric)
        assert figure.axes[-1].get_ylabel() == label_of(result, metric)


@pytest.mark.parametrize("n", [5, 60])
def test_regions_and_features_have_the_interval_of_the_mean(n):
    where = region_space(n) if n == 5 else FeatureSpace(None, n)
    result = group(brain(where), marked=[1, 3])
    figure = plot_group(result)
    (ax,) = figure.axes
    assert "95 % t interval of the mean" in texts(figure)
    _, low, high = mean_interval(result.subject_scores)
    if n == 5:
        order = np.argsort(result.scores)
        left = [patch.get_x() for patch in ax.patches]
        right = [patch.get_x() + patch.get_width() for patch in ax.patches]
        assert_allclose([left, right], [low[order], high[order]], rtol=1e-10, atol=0)
    else:
        y = ax.collections[0].get_paths()[0].vertices[:, 1]
        assert_allclose([y.min(), y.max()], [low.min(), high.max()], rtol=1e-10, atol=0)
    names = [text.get_text() for text in ax.get_yticklabels()]
    ax = plot_group(result, metric="gamma_0").axes[0]
    if n == 5:  # the same rows, whatever is drawn
        assert [text.get_text() for text in ax.get_yticklabels()] == names
        assert names == [f"Area {i}" for i in order]
        assert ax.get_ylabel() == "Region"
    assert (ax.get_xlim() if n == 5 else ax.get_ylim()) == (0, 1)
    if n == 5:
        bars = [each for each in ax.collections[0].get_segments() if len(each) == 2]
        bound = result.gamma_0[order][np.isfinite(result.gamma_0[order])]
        found = [each[:, 0] for each in bars if np.isfinite(each).all()]
        assert_array_equal(found, [[0, b] for b in bound])
    else:
        drawn = line(ax, "Prevalence bound γ₀").get_ydata()
        assert_array_equal(drawn, np.nan_to_num(result.gamma_0))
    for other in (comparison(brain(where)), group(brain(where), others=3, method="t")):
        assert not any("interval" in text for text in texts(plot_group(other)))


# ------------------------------------------------------ the maximum of the permutations


def null_group(**fields):
    """Make a result whose null maxima are 1, 2, ..., 99 and whose maximum is 96.5."""
    statistic = np.array([0.5, 96.5, 3.0, 0, 0, 0])
    null = np.arange(1.0, 100.0)
    values = {"statistic": statistic, "null_max": null, "method": "t"}
    values["observed_max"] = 96.5
    values["p_maps"] = {"none": np.full(6, 0.04)}
    return group(time(), **values | fields)


def test_null_max_has_the_observed_maximum_and_its_p_value():
    ax = plot_null_max(null_group())
    assert sum(patch.get_height() for patch in ax.patches) == 99
    # 97, 98 and 99 are larger: p = 4 / 100.
    assert line(ax, "observed, 96.5 (p = 0.040)").get_xdata()[0] == 96.5
    # p <= 0.05 if 4 of the null are as large: above 95, for which there are 5.
    assert line(ax, "p ≤ 0.05 above 95").get_xdata()[0] == 95
    assert ax.get_xlabel() == "t over subjects, maximum over positions"
    assert ax.get_title("left") == f"t-test, {S} subjects, 99 sign flips"
    assert ax.get_ylabel() == "Sign flips"


@pytest.mark.parametrize("alpha", [0.01, 0.03, 0.2, 0.29])
def test_what_is_above_the_dashed_line_is_significant(alpha):
    ax = plot_null_max(null_group(), alpha=alpha)
    (dashed,) = [each for each in ax.lines if each.get_linestyle() == "--"]
    bound, null = dashed.get_xdata()[0], np.arange(1.0, 100.0)
    assert (1 + np.sum(null >= bound + 0.5)) / 100 <= alpha + 1e-12
    assert (1 + np.sum(null >= bound)) / 100 > alpha


def test_null_max_with_the_corrected_p_value_of_the_result():
    result = null_group(
        p_maps={"none": np.full(6, 0.04), "max": np.linspace(0.3, 1, 6)}
    )
    assert "observed, 96.5 (p = 0.300)" in texts(plot_null_max(result))


def test_null_max_of_other_alternatives():
    less = plot_null_max(null_group(alternative="less"))
    assert "observed, 96.5 (p = 0.040)" in texts(less)
    assert less.get_xlabel().startswith("minus t over subjects")
    both = plot_null_max(null_group(alternative="two-sided"))
    assert "observed, 96.5 (p = 0.040)" in texts(both)
    assert both.get_xlabel().startswith("|t over subjects|")


def test_null_max_out_of_reach_and_of_one_position():
    ax = plot_null_max(group(single(), null_max=np.arange(9) / 10))
    words = "p ≤ 0.05 is not attainable with 9 permutations, global null"
    assert words in texts(ax)
    assert ax.get_xlabel() == "Accuracy, lowest of all subjects"
    axes = plt.subplots()[1]
    assert plot_null_max(comparison(time()), ax=axes) is axes


def test_titles_of_comparisons():
    made = comparison(time(), parameters={"trials": "60 trials"})
    words = "Permutation test of a difference, 60 trials, 99 permutations"
    assert describe(made) == words


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({}, "Prevalence test, 7 subjects, 10,000 permutations"),
        (
            {"method": "bootstrap"},
            "Bootstrap of permuted means, 7 subjects, 10,000 permutations",
        ),
        ({"method": "sign-flip"}, "Sign-flip test, 7 subjects, 10,000 sign flips"),
        ({"method": "t", "n_permutations": 0}, "t-test, 7 subjects"),
        (
            {"method": "wilcoxon", "others": 7, "paired": True},
            "Signed-rank test, 7 subjects in two conditions, 10,000 sign flips",
        ),
        (
            {"method": "wilcoxon", "others": 4},
            "Rank-sum test of two groups, 7 and 4 subjects, 10,000 permutations",
        ),
        (
            {"method": "sign-flip", "others": 4},
            "Permutation test of two groups, 7 and 4 subjects, 10,000 permutations",
        ),
    ],
)
def test_titles_of_groups(options, words):
    assert describe(group(time(), **{"n_permutations": 10000} | options)) == words


def test_null_max_with_many_ties_is_not_a_single_bar():
    null = np.repeat([0.35, 0.375, 0.4, 0.5], [3, 90, 5, 1]).astype(np.float32)
    ax = plot_null_max(null_group(null_max=null))
    heights = [patch.get_height() for patch in ax.patches]
    assert [height for height in heights if height] == [3, 90, 5, 1]


def test_null_max_needs_a_null():
    with pytest.raises(ValueError, match="Run group_inference again with correction="):
        plot_null_max(null_group(null_max=np.empty(0)))
    with pytest.raises(ValueError, match="Invalid value for 'alpha': 2"):
        plot_null_max(null_group(), alpha=2)


# --------------------------------------------------------------------- words and errors


def test_wrong_arguments_leave_no_figure():
    result = group(time())
    with pytest.raises(TypeError, match="do not take: views"):
        plot_group(result, views="x")
    with pytest.raises(ValueError, match="Invalid value for 'alpha': 0"):
        plot_group(result, alpha=0)
    with pytest.raises(ValueError, match="Invalid value for 'metric': 'kappa'"):
        plot_group(result, metric="kappa")
    with pytest.raises(ValueError, match="'tfce' was not requested"):
        plot_group(result, correction="tfce")
    assert not plt.get_fignums()


@pytest.mark.parametrize("method", ["prevalence", "bootstrap", "t", "wilcoxon"])
def test_every_statistic_has_a_name(method):
    result = group(time(), method=method)
    assert (
        label_of(result, "statistic")
        == {
            "prevalence": "Accuracy, lowest of all subjects",
            "bootstrap": "Accuracy, mean over subjects",
            "t": "t over subjects",
            "wilcoxon": "z of Wilcoxon's test",
        }[method]
    )


def test_names_of_differences():
    result = comparison(time(), metric="roc_auc_difference")
    assert label_of(result, result.metric) == "ROC AUC, a - b"
    assert label_of(result, "roc_auc_a") == "ROC AUC of a"
    assert level_of(result, result.metric) == "no difference"
    assert level_of(result, "roc_auc_a") == "chance"
    assert label_of(result, "statistic") == "ROC AUC, a - b"
    assert label_of(group(time(), others=3), "accuracy") == "Accuracy, first - second"
    own = group(time(), others=3, metric="score_a")
    assert label_of(own, "score_a") == "Score a, first - second"


def test_titles_break_at_commas_only():
    result = comparison(
        single(), parameters={"trials": "160 trials in 8 runs"}, n_permutations=123456
    )
    title = plot_group(result).get_title("left")
    first, second = title.split("\n")
    assert first == "Permutation test of a difference, 160 trials in 8 runs,"
    assert second == "123,456 permutations"


# --------------------------------------------------------------- labels within figures

LONG = ("healthy controls of all ages", "patients with a lesion on the left")


def slices():
    return brain(volume_space())


@pytest.mark.some(3)
@pytest.mark.filterwarnings("default")  # nilearn's, of its own defaults
@pytest.mark.parametrize("make", [time, generalization, time_frequency, slices])
@pytest.mark.parametrize("labels", [("a", "b"), LONG], ids=["short", "long"])
def test_labels_end_within_the_figure(make, labels):
    options = {"others": S, "method": "t", "labels": labels, "metric": "recall_macro"}
    result = group(make(), **options)
    result.other_scores[...] = result.subject_scores + 0.02  # ticks of many digits
    figure = plot_group(result).figure
    figure.draw_without_rendering()
    for ax in figure.axes:
        for text in (ax.xaxis.label, ax.yaxis.label):
            box = text.get_window_extent()
            if text.get_text() and ax.get_visible():
                assert box.x0 >= 0, text.get_text()
                assert box.y0 >= 0, text.get_text()
                assert box.x1 <= figure.bbox.width, text.get_text()
                assert box.y1 <= figure.bbox.height, text.get_text()


@pytest.mark.parametrize("marked", [(), [(1, 2)]])
def test_clusters_of_the_bootstrap_are_drawn_whether_significant_or_not(marked):
    fields = {"method": "bootstrap", "correction": ("cluster-fdr",)}
    result = group(generalization(), marked=marked, **fields)
    result.p_maps["cluster-fdr"] = result.p_maps["max"]
    words = " ".join(texts(plot_group(result)))
    assert "FDR correction of clusters" in words
    assert "not attainable" not in words
