"""Maps over times, frequencies and sensors: cells, colors, outlines and topomaps."""

from dataclasses import replace
from functools import cache, partial

import matplotlib.pyplot as plt
import mne
import numpy as np
import pytest
from matplotlib.collections import LineCollection
from matplotlib.colors import to_hex
from numpy.testing import assert_allclose, assert_array_equal

from mvpa_kfda import GeneralizationResult, SensorTimeResult, TimeFrequencyResult
from mvpa_kfda.results.patterns import pack_info
from mvpa_kfda.viz.maps import (
    colors_for,
    extent_of,
    frequency_edges,
    is_geometric,
    outline,
    plot_generalization,
    plot_sensors,
    plot_time_frequency,
)
from tests import build
from tests.build import artist, legend

N = 40
CHANCE = 0.4
TRAIN = np.linspace(-0.1, 0.4, 6)
TEST = np.array([-0.2, 0.0, 0.1, 0.5])  # uneven
TIMES = np.linspace(-0.1, 0.3, 9)
FREQS = np.array([4.0, 8.0, 16.0, 32.0, 64.0])
MAX = "p ≤ 0.05 (max-statistic correction)"


def make(kind, n_permutations=99, marked=((1, 2),), **fields):
    """Make a result whose `marked` cells are significant and no others."""
    shape = tuple(len(fields[name]) for name in kind.axes)
    rng = np.random.default_rng(0)
    accuracy = rng.uniform(CHANCE - 0.1, CHANCE + 0.1, shape)
    null = rng.uniform(CHANCE - 0.15, CHANCE + 0.15, (n_permutations, *shape))
    for cell in marked:
        accuracy[cell] = 0.7 + 0.01 * cell[0]
    metrics = {"accuracy": accuracy, "kappa": accuracy - CHANCE, "other": accuracy}
    return build.made(
        kind,
        accuracy,
        n=N,
        metrics=metrics,
        nulls={"accuracy": null, "kappa": null - CHANCE} if n_permutations else {},
        chances={"accuracy": CHANCE, "kappa": 0.0, "other": np.nan},
        **fields,
    )


def generalization(*args, train=TRAIN, test=TEST, **kwargs):
    times = {"train_times": train, "test_times": test}
    return make(GeneralizationResult, *args, **times, y_test=np.arange(N) % 2, **kwargs)


def time_frequency(*args, freqs=FREQS, times=TIMES, **kwargs):
    return make(TimeFrequencyResult, *args, freqs=freqs, times=times, **kwargs)


@cache
def biosemi():
    montage = mne.channels.make_standard_montage("biosemi16")
    return mne.create_info(montage.ch_names, 100.0, "eeg").set_montage(montage)


def sensor_time(*args, info=None, times=TIMES, **kwargs):
    info = biosemi() if info is None else info
    names = np.array(kwargs.pop("ch_names", info["ch_names"]))
    kwargs |= {"info_fif": pack_info(info), "adjacency": np.empty((2, 0), int)}
    return make(SensorTimeResult, *args, ch_names=names, times=times, **kwargs)


PLOTS = [
    (plot_generalization, generalization),
    (plot_time_frequency, time_frequency),
    (partial(plot_sensors, times=0.0), sensor_time),
]
all_maps = pytest.mark.parametrize(("plot", "result"), PLOTS)


def map_axes(drawn):
    """Return the Axes of the map, from an Axes or a Figure."""
    return drawn.figure.axes[0]


def mesh(drawn):
    return map_axes(drawn).collections[0]


def colorbar(drawn):
    return mesh(drawn).colorbar


def outlined(drawn):
    """Return the segments of the outline, sorted."""
    (lines,) = (c for c in map_axes(drawn).collections if isinstance(c, LineCollection))
    return in_order(lines.get_segments())


def in_order(segments):
    """Sort segments, rounded so that the order does not hang on the last digit."""
    return np.array(sorted(np.round(segments, 9).tolist()))


def assert_outlined(drawn, marked):
    edges = mesh(drawn).get_coordinates()
    expected = outline(edges[0, :, 0], edges[:, 0, 1], marked)
    assert_allclose(outlined(drawn), in_order(expected), rtol=0, atol=1e-9)


# -------------------------------------------------------------------------- outlines


def test_outline_is_made_of_the_sides_that_only_one_marked_cell_has():
    rng = np.random.default_rng(0)
    x, y = np.cumsum(rng.uniform(1, 2, 8)), np.cumsum(rng.uniform(1, 2, 6))
    mask = rng.random((5, 7)) < 0.5
    sides = []
    for i, j in np.argwhere(mask):
        left, right, low, high = x[j], x[j + 1], y[i], y[i + 1]
        sides += [(left, low, right, low), (left, high, right, high)]
        sides += [(left, low, left, high), (right, low, right, high)]
    expected = sorted(side for side in sides if sides.count(side) == 1)
    found = sorted(map(tuple, outline(x, y, mask).reshape(-1, 4).tolist()))
    assert_array_equal(found, expected)


TESTS = [
    ({"correction": "fdr"}, "(FDR correction)"),
    ({"correction": "none", "metric": "kappa"}, "(uncorrected)"),
    ({"correction": "none", "alternative": "less"}, "(uncorrected, lower scores)"),
    ({"correction": "none", "alternative": "two-sided"}, "(uncorrected, two-sided)"),
    (
        {"correction": "cluster", "threshold": 0.3},
        "(cluster correction, clusters at p ≤ 0.3)",
    ),
]


@all_maps
def test_what_is_significant_is_outlined(plot, result):
    for marked in (((0, 0), (2, 3)), ((1, 1), (1, 2))):
        made = result(marked=marked)
        p = made.pvalues("max")
        assert (p <= 0.05).sum() == len(marked)
        drawn = plot(made)
        assert_outlined(drawn, p <= 0.05)
        assert MAX in legend(drawn)


@pytest.mark.parametrize(("options", "words"), TESTS)
def test_outlines_are_of_the_test_that_is_asked_for(options, words):
    result = generalization()
    p = result.pvalues(**options)
    alpha = np.quantile(p[p < 1], 0.4)
    drawn = plot_generalization(result, alpha=alpha, **options)
    assert_outlined(drawn, p <= alpha)
    assert f"p ≤ {alpha:g} {words}" in legend(drawn)


@pytest.mark.parametrize(
    ("plot", "result", "position"),
    [(*PLOTS[0], "cell"), (*PLOTS[1], "cell"), (*PLOTS[2], "sensor or time")],
)
def test_that_nothing_is_significant_is_said(plot, result, position):
    drawn = plot(result(marked=()))
    assert f"no {position} at {MAX}" in legend(drawn)
    assert len(map_axes(drawn).collections) == 1
    words = (
        "p ≤ 0.001 (max-statistic correction) is not attainable with 99 permutations"
    )
    assert words in legend(plot(result(), alpha=0.001))
    without = result(n_permutations=0)
    drawn = plot(without)
    assert len(map_axes(drawn).collections) == 1
    assert_array_equal(mesh(drawn).get_array(), without.scores)
    assert not any("p ≤" in text for text in legend(drawn))
    assert "permutations" not in map_axes(drawn).get_title(loc="left")


# ---------------------------------------------------------------------------- colors


@pytest.mark.some(4)
@pytest.mark.parametrize("vlim", [None, (0.35, 0.6), (CHANCE, 0.9), (0.0, 0.5)])
@all_maps
def test_colors_are_symmetric_about_chance(plot, result, vlim):
    result = result()
    drawn = plot(result, vlim=vlim)
    colors, top = mesh(drawn), result.scores.max()
    low, high = vlim or (2 * CHANCE - top, top)
    assert_allclose([colors.norm.vmin, colors.norm.vmax], [low, high], rtol=1e-12)
    reach = max(high - CHANCE, CHANCE - low)
    scores = np.linspace(low, high, 21)
    expected = plt.get_cmap("RdBu_r")(0.5 + (scores - CHANCE) / (2 * reach))
    assert_allclose(colors.to_rgba(scores), expected, rtol=0, atol=0.02)
    assert colors.to_rgba(np.array([CHANCE]))[0, :3].min() > 0.95  # white
    beyond = low > result.scores.min(), high < top
    names = {(0, 0): "neither", (1, 0): "min", (0, 1): "max", (1, 1): "both"}
    assert colorbar(drawn).extend == names[beyond]
    assert f"chance ({CHANCE})" in legend(drawn)


def test_equal_scores_without_a_chance_level_have_a_color():
    for values in (np.array([0.4]), np.full((2, 3), -1.0)):
        norm, _ = colors_for(values, np.nan, None, None)
        assert_allclose([norm.vmin, norm.vmax], values.flat[0] + np.array([-0.1, 0.1]))


def test_a_scale_may_end_at_chance():
    """The colors of one side are left: at the other end lies the lightest."""
    values = np.array([-1.0, -0.5])
    for limits, light in (((-1.0, 0.0), -1), ((0.0, 1.0), 0)):
        norm, shades = colors_for(values, 0.0, limits, None)
        assert (norm.vmin, norm.vmax) == limits
        assert min(shades.colors[light][:3]) > 0.9
        assert min(shades.colors[-1 - light][:3]) < 0.5


def test_the_colorbar_names_the_metric_and_marks_chance():
    plot, result = plot_time_frequency, time_frequency(0)
    drawn = plot(result, metric="kappa")
    assert colorbar(drawn).ax.get_ylabel() == "Cohen's kappa"
    (line,) = colorbar(drawn).ax.lines
    assert set(line.get_ydata()) == {0.0}
    assert "chance (0)" in legend(drawn)
    # Without chance, or beyond the scale, there are other colors.
    scores, viridis = result.metrics["other"], plt.get_cmap("viridis")
    ends = scores.min(), scores.max()
    for options in ({"metric": "other"}, {"vlim": (0.5, 0.9)}):
        drawn = plot(result, **options)
        norm = mesh(drawn).norm
        assert (norm.vmin, norm.vmax) == options.get("vlim", ends)
        shades = mesh(drawn).to_rgba(np.array([norm.vmin, norm.vmax]))
        assert [to_hex(x) for x in shades] == [to_hex(viridis(x)) for x in (0.0, 1.0)]
        assert not any("chance" in text for text in legend(drawn))
        assert len(colorbar(drawn).ax.lines) == 0


@all_maps
def test_colormaps_can_be_chosen(plot, result):
    colors = mesh(plot(result(0), cmap=plt.get_cmap("PuOr_r")))
    top = colors.to_rgba(np.array([colors.norm.vmax]))[0]
    assert to_hex(top) == to_hex(plt.get_cmap("PuOr_r")(1.0))


def test_the_scale_does_not_go_below_zero_unless_the_scores_do():
    result = generalization(0)
    scores = {"accuracy": result.scores * 1.35}
    high = replace(result, metrics=scores)
    norm = mesh(plot_generalization(high)).norm
    assert_allclose([norm.vmin, norm.vmax], [0, high.scores.max()], rtol=1e-12)
    scores["accuracy"][2, 2] = -0.1
    norm = mesh(plot_generalization(high)).norm
    assert_allclose(norm.vmin, 2 * CHANCE - scores["accuracy"].max(), rtol=1e-12)
    flat = replace(result, metrics={"accuracy": np.full(result.shape, CHANCE)})
    drawn = mesh(plot_generalization(flat))
    assert drawn.norm.vmin < CHANCE < drawn.norm.vmax
    assert drawn.to_rgba(np.array([CHANCE]))[0, :3].min() > 0.95


# --------------------------------------------------------------- plot_generalization


def test_testing_times_go_across_and_training_times_up():
    result = generalization()
    ax = plot_generalization(result)
    assert_array_equal(mesh(ax).get_array(), result.scores)
    edges = mesh(ax).get_coordinates()
    assert_allclose(edges[0, :, 0], [-0.3, -0.1, 0.05, 0.3, 0.7], rtol=0, atol=1e-12)
    assert_allclose(edges[:, 0, 1], np.arange(7) / 10 - 0.15, rtol=0, atol=1e-12)
    assert_allclose(ax.get_xlim(), [-0.3, 0.7], rtol=0, atol=1e-12)
    assert_allclose(ax.get_ylim(), [-0.15, 0.45], rtol=0, atol=1e-12)
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("Test time (s)", "Training time (s)")
    title = "40 trials, 2 classes (face, house), 4 folds, 99 permutations"
    assert ax.get_title(loc="left").replace("\n", " ") == title
    diagonal = "training time = test time"
    assert legend(ax) == [MAX, diagonal, "onset (0 s)", "chance (0.4)"]
    line = artist(ax, diagonal)  # ends where the axes stop overlapping
    assert_allclose(line.get_xdata(), [-0.15, 0.45], rtol=0, atol=1e-12)
    assert_array_equal(line.get_xdata(), line.get_ydata())
    apart = plot_generalization(generalization(test=TEST + 2))
    assert not any("training time" in text for text in legend(apart))


@pytest.mark.parametrize("across", [True, False])
@pytest.mark.parametrize("up", [True, False])
def test_onsets_are_drawn_when_in_range(across, up):
    train, test = TRAIN + (not up), TEST + (not across)
    ax = plot_generalization(generalization(train=train, test=test))
    upright = [line for line in ax.lines if list(line.get_xdata()) == [0, 0]]
    flat = [line for line in ax.lines if list(line.get_ydata()) == [0, 0]]
    assert (len(upright), len(flat)) == (across, up)
    assert legend(ax).count("onset (0 s)") == (across or up)


def test_cells_are_square_big_maps_images_and_single_cells_outlined():
    later = generalization(test=TRAIN + 0.3)
    assert plot_generalization(later).get_aspect() == 1
    small = plot_generalization(generalization())
    assert small.get_aspect() == "auto"
    assert not mesh(small).get_rasterized()
    times = np.arange(51) / 100
    big = plot_generalization(generalization(5, train=times, test=times))
    assert mesh(big).get_rasterized()
    one = generalization(train=TRAIN[2:3], test=TRAIN[2:3], marked=((0, 0),))
    assert len(outlined(plot_generalization(one))) == 4


# --------------------------------------------------------------- plot_time_frequency


def test_frequencies_have_an_axis_of_their_spacing():
    result = time_frequency()
    ax = plot_time_frequency(result)
    assert ax.get_yscale() == "log"
    assert_array_equal(mesh(ax).get_array(), result.scores)
    edges = mesh(ax).get_coordinates()
    assert_allclose(edges[:, 0, 1], FREQS[0] * 2 ** (np.arange(6) - 0.5), rtol=1e-12)
    assert_allclose(edges[0, :, 0], np.arange(10) / 20 - 0.125, rtol=0, atol=1e-12)
    assert_allclose(ax.get_ylim(), edges[[0, -1], 0, 1], rtol=1e-12)
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("Time (s)", "Frequency (Hz)")
    assert "onset (0 s)" in legend(ax)
    ax = plot_time_frequency(time_frequency(freqs=np.arange(4.0, 31.0, 2.0)))
    assert ax.get_yscale() == "linear"
    edges = mesh(ax).get_coordinates()
    assert_allclose(edges[:, 0, 1], np.arange(3.0, 32.0, 2.0), rtol=1e-12)
    assert_array_equal(frequency_edges([10.0]), [9.5, 10.5])
    result = time_frequency(freqs=np.array([10.0]), marked=((0, 2),))
    assert plot_time_frequency(result).get_ylim() == (9.5, 10.5)
    for freqs in ([4, 8, 16], [4, 6, 9, 14, 21]):  # rounded
        assert is_geometric(freqs)
    for freqs in ([4, 8, 12], [4, 8], [10], [0, 1, 4], [4, 7, 9, 12, 14]):
        assert not is_geometric(freqs)


@pytest.mark.parametrize(
    ("freqs", "expected"),
    [
        (np.geomspace(4, 60, 12), ["5", "10", "20", "50"]),
        (np.geomspace(8, 14, 6), ["8", "10", "12", "14"]),
        (np.geomspace(0.4, 3, 6), ["0.5", "1", "2"]),
    ],
)
def test_logarithmic_axes_have_readable_ticks(freqs, expected):
    ax = plot_time_frequency(time_frequency(freqs=freqs))
    ax.figure.canvas.draw()
    low, high = ax.get_ylim()
    shown = [
        label.get_text()
        for label, at in zip(ax.get_yticklabels(), ax.get_yticks(), strict=True)
        if low <= at <= high
    ]
    assert shown == expected
    assert len(ax.yaxis.get_minorticklocs()) == 0


# ---------------------------------------------------------------------- plot_sensors


@pytest.fixture
def topomaps(monkeypatch):
    """Record what is drawn on heads instead of drawing it."""
    calls = []

    def record(values, info, **options):
        calls.append({"values": values, "info": info, **options})
        return None, None

    monkeypatch.setattr(mne.viz, "plot_topomap", record)
    return calls


def test_sensors_are_rows_with_the_first_on_top():
    result = sensor_time()
    ax = plot_sensors(result).axes[0]
    assert_array_equal(mesh(ax).get_array(), result.scores)
    assert ax.get_ylim() == (15.5, -0.5)
    assert [text.get_text() for text in ax.get_yticklabels()] == list(result.ch_names)
    assert_array_equal(ax.get_yticks(), np.arange(16))
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("Time (s)", "Sensor")
    names = [f"E{i}" for i in range(70)]  # some are named
    ax = plot_sensors(sensor_time(info=mne.create_info(names, 100.0, "misc"))).axes[0]
    assert [text.get_text() for text in ax.get_yticklabels()] == names[::3]
    assert_array_equal(ax.get_yticks(), np.arange(0, 70, 3))


def test_topomaps_show_the_scores_at_their_times(topomaps):
    result = sensor_time(marked=((1, 2), (4, 2), (3, 6)))
    figure = plot_sensors(result, times=[0.21, -0.1, 0.0])
    assert len(topomaps) == 3
    significant = result.pvalues("max") <= 0.05
    for call, sample in zip(topomaps, (0, 2, 6), strict=True):
        names = call["info"]["ch_names"]
        rows = [list(result.ch_names).index(name) for name in names]
        assert sorted(names) == sorted(result.ch_names)
        assert_array_equal(call["values"], result.scores[rows, sample])
        assert_array_equal(call["mask"], significant[rows, sample])
        assert call["cnorm"] is mesh(figure).norm
        assert call["cmap"] is mesh(figure).cmap
    assert [ax.get_title() for ax in figure.axes[1:4]] == ["-0.1 s", "0 s", "0.2 s"]
    times = artist(figure.axes[0], "times of the topomaps").get_xdata()
    assert_allclose(times, [-0.1, 0.0, 0.2], rtol=0, atol=1e-12)
    assert "significant sensors at that time" in legend(figure)
    figure = plot_sensors(sensor_time(), times=0.2)
    assert MAX in legend(figure)
    assert "significant sensors at that time" not in legend(figure)
    assert not topomaps[3]["mask"].any()
    plot_sensors(sensor_time(0))
    assert topomaps[-1]["mask"] is None


def test_sensors_are_found_by_name(topomaps):
    result = sensor_time()
    backwards = sensor_time(info=result.info, ch_names=result.ch_names[10:3:-1])
    plot_sensors(backwards, times=0.1)
    (call,) = topomaps
    names = call["info"]["ch_names"]
    rows = [list(backwards.ch_names).index(name) for name in names]
    assert len(rows) == 7
    assert_array_equal(call["values"], backwards.scores[rows, 4])
    where = {ch["ch_name"]: ch["loc"][:3] for ch in result.info["chs"]}
    for ch in call["info"]["chs"]:
        assert_array_equal(ch["loc"][:3], where[ch["ch_name"]])


def test_pairs_of_gradiometers_show_the_better_one(topomaps):
    info = mne.create_info([f"MEG{i}" for i in range(12)], 100.0, "grad")
    places = np.random.default_rng(0).uniform(-0.1, 0.1, (6, 3))
    for i, ch in enumerate(info["chs"]):
        ch["loc"][:3] = places[i // 2]
    result = sensor_time(info=info, marked=((1, 2), (6, 2)))
    plot_sensors(result, times=result.times[2])
    (call,) = topomaps
    pairs = [int(name[3:]) // 2 for name in call["info"]["ch_names"]]
    assert sorted(pairs) == list(range(6))
    best = result.scores[:, 2].reshape(6, 2).max(axis=1)
    assert_array_equal(call["values"], best[pairs])
    assert_array_equal(call["mask"], np.isin(pairs, [0, 3]))
    assert set(result.info.get_channel_types()) == {"grad"}  # as it was


def test_topomaps_of_gradiometers_are_drawn():
    info = mne.create_info([f"MEG{i}" for i in range(12)], 100.0, "grad")
    places = np.random.default_rng(0).uniform(-0.1, 0.1, (6, 3))
    for i, ch in enumerate(info["chs"]):
        ch["loc"][:3] = places[i // 2]
    assert len(plot_sensors(sensor_time(info=info), times=0.0).axes[1].images) == 1


@pytest.mark.parametrize("best", [0, 7])
def test_six_times_with_the_best_one_are_chosen(topomaps, best):
    result = sensor_time(times=np.arange(20) / 100, marked=((5, best),))
    figure = plot_sensors(result)
    chosen = artist(figure.axes[0], "times of the topomaps").get_xdata() * 100
    # Evenly from 0 to 19, but for the one that is nearest to the best.
    expected = {0: [0, 4, 8, 11, 15, 19], 7: [0, 4, 7, 11, 15, 19]}
    assert_allclose(chosen, expected.get(best, expected[0]), rtol=0, atol=1e-9)
    assert len(topomaps) == 6


def of_type(*types):
    return mne.create_info(len(types) * 2, 100.0, types * 2)


@pytest.mark.parametrize(
    ("info", "note"),
    [
        (of_type("eeg"), ": sensors without positions"),
        (of_type("mag"), ": sensors without positions"),
        (of_type("misc"), " of misc channels"),
        (of_type("seeg"), " of sEEG channels"),
        (of_type("eeg", "mag"), " of several types of channels (EEG, magnetometer)"),
    ],
)
def test_why_there_are_no_topomaps_is_said(topomaps, info, note):
    if info.get_channel_types() == ["mag", "mag"]:
        for ch in info["chs"]:
            ch["loc"][:] = 0  # on one spot
    figure = plot_sensors(sensor_time(info=info, marked=()))
    title = figure.axes[0].get_title(loc="left")
    assert title.endswith(f"permutations\nno topomaps{note}")
    assert not topomaps
    assert len(figure.axes) == 2  # the map and the colorbar
    assert not any("topomap" in text for text in legend(figure))


OCCIPITAL = ["O1", "O2", "Oz", "PO3", "PO4", "PO7", "PO8", "POz"]
TEN_TWENTY = [
    *("Fp1", "Fp2", "F7", "F3", "Fz", "F4", "F8", "T7", "C3", "Cz"),
    *("C4", "T8", "P7", "P3", "Pz", "P4", "P8", "O1", "O2"),
]


def on_head(names, kind="eeg"):
    """Return the Info of EEG channels at their places."""
    info = mne.create_info(list(names), 100.0, "eeg")
    info.set_montage("standard_1005")
    if kind != "eeg":
        info.set_channel_types(dict.fromkeys(names, kind), verbose=False)
    return info


def test_maps_reach_as_far_as_sensors_tell(topomaps):
    for names, extent in (
        (TEN_TWENTY, "head"),
        (["AF7", "AF8", "TP9", "TP10"], "head"),
        (OCCIPITAL, "local"),
        (["F7", "F3", "T7", "C3", "P7", "P3", "O1"], "local"),  # one side
        (["C3", "C4", "Oz"], None),
        (["Fz", "FCz", "Cz", "CPz", "Pz"], None),
    ):
        assert extent_of(on_head(names)) == extent
    for names, extent in ((TEN_TWENTY, "head"), (OCCIPITAL, "local")):
        info = on_head(names, "hbo")
        assert extent_of(info) == extent
        plot_sensors(sensor_time(info=info), times=0.1)
        assert topomaps[-1]["extrapolate"] == extent


def test_few_sensors_are_dots_and_a_single_one_has_no_topomap():
    result = sensor_time(info=on_head(["C3", "Cz", "C4"]), marked=((1, 2),))
    figure = plot_sensors(result, times=TIMES[2])
    empty, dots = figure.axes[1].collections
    assert len(empty.get_offsets()) == 0
    assert_allclose(np.sort(dots.get_array()), np.sort(result.scores[:, 2]), rtol=1e-12)
    figure = plot_sensors(sensor_time(info=on_head(["Cz"]), marked=()))
    assert "no topomaps of a single sensor" in figure.axes[0].get_title(loc="left")


@pytest.mark.parametrize(
    "times", [[], [0.1, 0.9], -0.2, np.nan, np.linspace(0, 0.3, 13)]
)
def test_impossible_times_are_refused(times):
    words = r"1 to 12 times .* between -0.1 and 0.3|times go from -0.1 to 0.3 s"
    with pytest.raises(ValueError, match=words):
        plot_sensors(sensor_time(), times=times)
    assert not plt.get_fignums()


# ---------------------------------------------------------------------- plot_sources


def test_sources_are_rows_and_the_best_time_is_shown_from_two_sides():
    result = build.result("SourceTimeResult")
    figure = result.plot()
    rows, *views = figure.axes
    drawn = rows.collections[0].get_array().reshape(result.shape)
    assert_allclose(np.sort(drawn, axis=None), np.sort(result.scores, axis=None))
    best = result.scores[:, result.scores.max(axis=0).argmax()]
    dots = [np.asarray(c.get_array()) for ax in views for c in ax.collections]
    dots = [each for each in dots if each.shape == best.shape]
    assert len(dots) >= 2
    for each in dots:
        assert_allclose(np.sort(each), np.sort(best), rtol=1e-12)
