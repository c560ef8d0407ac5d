"""Maps of decoding: power at frequencies and times, neighbourhoods of sensors.

Every row of a map must be what decode_epochs gives for the epochs of that row alone:
one frequency's power, or the channels of one neighbourhood.
"""

import mne
import numpy as np
import pytest
from mne.time_frequency import EpochsTFRArray
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn import model_selection as ms
from sklearn.metrics.pairwise import laplacian_kernel

from mvpa_kfda import RBF, Polynomial, decode_epochs
from mvpa_kfda.inference.corrections import corrected_p_values
from mvpa_kfda.results.epochs import SensorTimeResult, TimeFrequencyResult
from tests import build

NAMES, CODES = build.NAMES, build.codes_of((16, 16, 16))
MIXED = ("mag", "mag", "grad", "grad", "eeg", "eeg")
SITES = ["Fz", "Cz", "Pz", "Oz", "C3", "C4", "P3", "P4"]
FREQS = np.array([4.0, 10.0, 22.5])
OPTIONS = {
    # Stratified once and for all: a splitter would be shown every permutation.
    "cv": list(ms.StratifiedKFold(6).split(CODES, CODES)),
    "n_permutations": 20,
    "random_state": 4,
    "scoring": ["accuracy", "roc_auc", "confusion_matrix"],
    "verbose": False,
}
KERNELS = ["linear", "rbf", "polynomial", RBF(gamma=None), laplacian_kernel]


def make_tfr(types=("eeg",) * 4, n_times=6, sfreq=100.0, times=None, seed=0):
    """Make power that falls with frequency; classes differ from 0 s on at 10 Hz."""
    rng, codes = np.random.default_rng(seed), CODES
    power = rng.chisquare(4, (len(codes), len(types), len(FREQS), n_times))
    gains = rng.uniform(0.3, 3, (3, len(types)))
    power[:, :, 1, n_times // 2 :] *= gains[codes][..., np.newaxis]
    units = {"eeg": 1e-12, "mag": 1e-26, "grad": 1e-24, "misc": 1.0}
    power *= np.array([units[kind] for kind in types])[:, np.newaxis, np.newaxis]
    power /= FREQS[:, np.newaxis] ** 3
    info = build.info_of(types, sfreq)
    times = (np.arange(n_times) - n_times // 2) / sfreq if times is None else times
    return EpochsTFRArray(info, power, times, FREQS, **build.about(codes))


def at_frequency(tfr, i):
    """Return the power of one frequency as if it were a signal."""
    return mne.EpochsArray(
        tfr.data[:, :, i],
        tfr.info,
        tfr.events,
        tfr.times[0],
        tfr.event_id,
        metadata=tfr.metadata,
        verbose=False,
    )


def make_epochs(sites=SITES, n_times=6, ch_types="eeg", montage=True, seed=0):
    """Make epochs on a cap; classes differ from 0 s on, most at Oz."""
    rng, codes = np.random.default_rng(seed), CODES
    data = rng.standard_normal((len(codes), len(sites), n_times))
    size = np.where(np.array(sites) == "Oz", 4.0, 0.3)
    patterns = rng.standard_normal((3, len(sites))) * size
    data[..., n_times // 2 :] += patterns[codes][..., np.newaxis]
    info = mne.create_info(list(sites), 100.0, ch_types)
    if montage:
        info.set_montage("biosemi32")
    tmin = -(n_times // 2) / 100
    return mne.EpochsArray(
        data * 1e-6, info, tmin=tmin, verbose=False, **build.about(codes)
    )


def pairs_of(epochs):
    """Return MNE-Python's neighbours of good channels, dense, without their names."""
    info = mne.pick_info(epochs.info, mne.pick_types(epochs.info, eeg=True))
    matrix, names = mne.channels.find_ch_adjacency(info, "eeg")
    assert names == info["ch_names"]
    return matrix.toarray()


def assert_rows(result, rows, atol=0):
    """Assert that the rows of a map are these results over time."""
    assert len(rows) == result.shape[0]
    for i, row in enumerate(rows):
        assert_array_equal(result.times, row.times)
        assert_array_equal(result.predicted[i], row.predicted)
        for name in row.metrics:
            assert_allclose(
                result.metrics[name][i], row.metrics[name], rtol=0, atol=atol
            )
        for name in row.nulls:
            assert_allclose(
                result.nulls[name][:, i], row.nulls[name], rtol=0, atol=atol
            )
    assert len(np.unique(result.null)) > 3


def same(one, other):
    """Assert that two maps hold the same numbers."""
    assert type(one) is type(other)
    assert_array_equal(one.predicted, other.predicted)
    for name in one.metrics:
        assert_array_equal(one.metrics[name], other.metrics[name])
    for name in one.nulls:
        assert_array_equal(one.nulls[name], other.nulls[name])


# -------------------------------------------------------------------- time-frequency


@pytest.mark.some(6)
@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize(
    "window",
    [
        {},
        {"window": 0.03, "step": 0.02},
        {"window": 0.03, "window_mode": "concatenate"},
    ],
    ids=str,
)
def test_every_frequency_equals_epochs_of_it(kernel, window):
    tfr = make_tfr(types=("eeg",) * 9)
    options = {"kernel": kernel, "scale": "channel", **window, **OPTIONS}
    result = decode_epochs(tfr, **options)
    assert type(result) is TimeFrequencyResult
    rows = [decode_epochs(at_frequency(tfr, i), **options) for i in range(3)]
    assert_rows(result, rows)


@pytest.mark.some(4)
@pytest.mark.parametrize("scale", ["auto", "channel", None])
@pytest.mark.parametrize("types", [("eeg",) * 4, MIXED], ids=len)
@pytest.mark.parametrize("kernel", ["linear", Polynomial(2)], ids=str)
def test_scales_are_those_of_each_frequency(scale, types, kernel):
    tfr = make_tfr(types)
    if scale is None and kernel != "linear":
        kernel = Polynomial(2, gamma=1e26)
    options = {"kernel": kernel, "scale": scale, **OPTIONS}
    result = decode_epochs(tfr, **options)
    rows = [decode_epochs(at_frequency(tfr, i), **options) for i in range(3)]
    assert_rows(result, rows)
    if scale is None or (scale == "auto" and types != MIXED and kernel == "linear"):
        return
    louder = tfr.copy()
    louder.data = tfr.data * np.array([1e8, 1.0, 1e-8])[:, np.newaxis]
    result = decode_epochs(louder, **options)
    assert_rows(result, rows, atol=1e-12)


@pytest.mark.parametrize("scale", ["auto", "channel", None])
def test_patterns_are_those_of_each_frequency_in_its_units(scale):
    tfr = make_tfr(MIXED)
    result = decode_epochs(tfr, scale=scale, cv=4)
    assert set(result.pattern_maps) >= {"class", "class_folds", "discriminant"}
    assert result.pattern_maps["class"].shape == (3, 6, 3, 6)
    for i in range(3):
        one = decode_epochs(at_frequency(tfr, i), scale=scale, cv=4)
        for name, maps in one.pattern_maps.items():
            size = np.abs(maps).max(axis=(0, 1))
            found = result.pattern_maps[name][i]
            assert_allclose(found / size, maps / size, rtol=0, atol=1e-9)
    assert result.info["ch_names"] == tfr.ch_names
    assert decode_epochs(tfr, kernel="rbf", cv=4).pattern_maps == {}


@pytest.mark.some(1)
@pytest.mark.parametrize("method", ["morlet", "multitaper"])
def test_decomposition_by_mne(method):
    """Decimated, with bad channels, picks, labels and groups of all kinds."""
    epochs = make_epochs(n_times=48)
    epochs.info["bads"] = ["Pz"]
    keywords = {"freqs": [20.0, 40.0], "n_cycles": 2, "verbose": False}
    tfr = epochs.compute_tfr(method, decim=4, picks=SITES, **keywords)
    tfr.info["bads"] = ["Pz"]
    result = decode_epochs(tfr, **OPTIONS)
    assert_array_equal(result.freqs, [20.0, 40.0])
    assert_allclose(result.times, epochs.times[::4], rtol=0, atol=1e-9)
    assert result.parameters["sfreq"] == 25.0
    assert result.parameters["ch_names"] == [name for name in SITES if name != "Pz"]
    rows = [decode_epochs(at_frequency(tfr, i), **OPTIONS) for i in range(2)]
    assert_rows(result, rows)
    for given in ("word", NAMES[CODES]):
        same(decode_epochs(tfr, given, **OPTIONS), result)
    some = tfr[["ant", "cat"]]
    options = {**OPTIONS, "groups": "run", "picks": ["Oz", "Cz"], "cv": None}
    result = decode_epochs(some, **options)
    assert_array_equal(result.classes, ["ant", "cat"])
    assert_array_equal(result.groups, some.metadata["run"])
    rows = [decode_epochs(at_frequency(some, i), **options) for i in range(2)]
    assert_rows(result, rows)
    windows = decode_epochs(tfr, window=0.2, step=0.1, cv=4)
    expected = [tfr.times[i : i + 5].mean() for i in range(0, 8, 3)]
    assert_allclose(windows.times, expected, rtol=0, atol=1e-12)


def test_the_times_tell_the_sampling_rate():
    """The info of decimated power may still be that of the recording."""
    times = 0.05 * np.arange(6) - 0.1
    tfr = make_tfr(sfreq=1000.0, times=times)
    result = decode_epochs(tfr, window=0.1, cv=4)
    assert result.parameters["sfreq"] == pytest.approx(20.0, rel=1e-9)
    assert result.parameters["window"] == pytest.approx(0.1, rel=1e-9)
    assert_allclose(result.times, times[:5] + 0.025, rtol=0, atol=1e-12)
    uneven = make_tfr(times=np.array([0, 1, 2, 4, 8, 16]) / 100)
    assert_array_equal(decode_epochs(uneven, cv=4).times, uneven.times)
    for options in ({"window": 0.02}, {"step": 0.02}):
        with pytest.raises(ValueError, match=r"not evenly spaced: 0\.01 to 0\.08 s"):
            decode_epochs(uneven, **options)
    single = make_tfr(n_times=1)
    assert decode_epochs(single, cv=4).shape == (3, 1)


def test_power_is_not_changed():
    tfr = make_tfr(MIXED)
    before = tfr.copy()
    decode_epochs(tfr, scale="channel", cv=4)
    decode_epochs(tfr, cv=4)
    assert_array_equal(tfr.data, before.data)
    assert tfr.info.keys() == before.info.keys()
    assert tfr.metadata.equals(before.metadata)


def test_misc_channels_of_power_when_picked():
    tfr = make_tfr(("eeg", "eeg", "misc"))
    result = decode_epochs(tfr, picks=["EEG1", "MISC2"], **OPTIONS)
    rows = [
        decode_epochs(at_frequency(tfr, i), picks=["EEG1", "MISC2"], **OPTIONS)
        for i in range(3)
    ]
    assert_rows(result, rows)
    assert decode_epochs(tfr, cv=4).parameters["ch_names"] == ["EEG0", "EEG1"]


def changed(change, **options):
    """Make power with other data."""
    tfr = make_tfr(**options)
    return EpochsTFRArray(
        tfr.info,
        change(tfr.data),
        tfr.times,
        tfr.freqs,
        **build.about(CODES),
    )


def put(where, value):
    def change(data):
        data[where] = value
        return data

    return lambda: changed(change)


def with_tapers():
    keywords = {"freqs": [40.0], "n_cycles": 2, "output": "complex", "verbose": False}
    return make_epochs(n_times=60).compute_tfr("multitaper", **keywords)


@pytest.mark.parametrize(
    ("make", "options", "match"),
    [
        (lambda: changed(lambda x: x * 1j), {}, r"complex data.*output='power'"),
        (with_tapers, {}, r"epochs has an axis of tapers, shape \(48, 8, \d.*'power'"),
        (put((3, 0, 2, 1), np.nan), {}, r"data of epochs holds 1 NaN .*\(first: 3\)"),
        (put((..., 1, 2), 5e-16), {}, r"^At 10 Hz, -0\.010 s: The trials do not diffe"),
        (
            put((..., 2, slice(None)), 0.0),
            {"window": 0.03},
            r"^At 22\.5 Hz, -0\.020 s: The trials do not differ: flat data",
        ),
        (make_tfr, {"sensors": "adjacency"}, "sensors works on mne.Epochs only"),
        (make_tfr, {"sensors": np.eye(4)}, "sensors works on mne.Epochs only"),
        (make_tfr, {"window": 0.07}, "window=0.07 s is 7 samples at 100 Hz, longer th"),
        (make_tfr, {"y": "foo"}, "y='foo' is not a metadata column.*'word', 'run'"),
        (
            make_tfr,
            {"scale": mne.make_ad_hoc_cov(make_tfr().info, verbose=False)},
            "noise covariance in scale whitens signals, not their power",
        ),
    ],
)
def test_bad_power(make, options, match):
    with pytest.raises(ValueError, match=match):
        decode_epochs(make(), **options)


def test_objects_that_are_no_epochs():
    spectrum = make_epochs(n_times=60).compute_psd(verbose=False)
    match = "an mne.Epochs or EpochsTFR object; got Epochs.*no time axis.*decode_arrays"
    with pytest.raises(TypeError, match=match):
        decode_epochs(spectrum)
    with pytest.raises(TypeError, match="or EpochsTFR object; got AverageTFR"):
        decode_epochs(make_tfr().average())


# ------------------------------------------------------------------ sensors and times


def neighbourhoods(epochs):
    """Return the channel names of every sensor's neighbourhood."""
    near = pairs_of(epochs) > 0
    names = np.array([n for n in epochs.ch_names if n not in epochs.info["bads"]])
    assert 1 < near.sum(axis=0).min() < near.sum(axis=0).max() < len(names)
    return [names[row].tolist() for row in near]


@pytest.mark.some(4)
@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("window", [{}, {"window": 0.03, "step": 0.02}], ids=str)
def test_every_sensor_equals_epochs_of_its_neighbourhood(kernel, window):
    epochs = make_epochs()
    options = {"kernel": kernel, "scale": "channel", **window, **OPTIONS}
    result = decode_epochs(epochs, sensors="adjacency", **options)
    assert type(result) is SensorTimeResult
    assert result.ch_names.tolist() == SITES
    rows = [
        decode_epochs(epochs, picks=picks, **options)
        for picks in neighbourhoods(epochs)
    ]
    assert_rows(result, rows)


@pytest.mark.some(2)
@pytest.mark.parametrize("kernel", ["linear", "rbf", laplacian_kernel])
@pytest.mark.parametrize("step", [0.01, 0.03])
def test_concatenated_windows_of_neighbourhoods(kernel, step):
    epochs = make_epochs(n_times=9)
    options = {"kernel": kernel, "window": 0.04, "step": step, **OPTIONS}
    options["window_mode"] = "concatenate"
    result = decode_epochs(epochs, sensors=True, **options)
    rows = [
        decode_epochs(epochs, picks=picks, **options)
        for picks in neighbourhoods(epochs)
    ]
    # A neighbourhood alone may take another, equally exact, route to its kernel.
    assert_rows(result, rows, atol=1e-12)


def test_unit_variance_is_that_of_all_picked_channels():
    epochs = make_epochs()
    result = decode_epochs(epochs, sensors=True, kernel=Polynomial(2), **OPTIONS)
    scaled = epochs.copy()
    scaled.apply_function(lambda x: x / epochs.get_data().std(), channel_wise=False)
    options = {"kernel": Polynomial(2), "scale": None, **OPTIONS}
    rows = [
        decode_epochs(scaled, picks=picks, **options)
        for picks in neighbourhoods(epochs)
    ]
    assert_rows(result, rows)


def test_the_same_neighbours_given_in_all_ways():
    epochs, options = make_epochs(n_times=2), OPTIONS | {"n_permutations": 5}
    expected = decode_epochs(epochs, sensors="adjacency", **options)
    matrix = pairs_of(epochs)
    i, j = expected.adjacency
    assert (i < j).all()
    assert len(i) == np.triu(matrix, 1).sum()
    assert matrix[i, j].all()
    other = np.random.default_rng(0).permutation(len(SITES))
    known = [SITES[k] for k in other]
    larger = np.ones((9, 9), int)
    larger[:8, :8] = matrix[np.ix_(other, other)]
    alone = matrix - np.eye(len(matrix), dtype=int)
    for sensors in (
        True,
        matrix,
        matrix.tolist(),
        matrix > 0,
        alone,
        sparse.csr_array(matrix),
        sparse.coo_matrix(alone),
        mne.channels.find_ch_adjacency(epochs.info, "eeg"),
        (larger, [*known, "AFz"]),
        (sparse.csc_array(larger), np.array([*known, "AFz"])),
    ):
        result = decode_epochs(epochs, sensors=sensors, **options)
        same(result, expected)
        assert_array_equal(result.adjacency, expected.adjacency)
    for sensors in (None, False):
        assert decode_epochs(epochs, sensors=sensors, cv=4).shape == (2,)


def test_bad_and_unpicked_channels_have_no_neighbours():
    epochs = make_epochs()
    epochs.info["bads"] = ["Pz"]
    result = decode_epochs(epochs, sensors="adjacency", **OPTIONS)
    assert result.ch_names.tolist() == [name for name in SITES if name != "Pz"]
    rows = [
        decode_epochs(epochs, picks=picks, **OPTIONS)
        for picks in neighbourhoods(epochs)
    ]
    assert_rows(result, rows)
    adjacency = mne.channels.find_ch_adjacency(make_epochs().info, "eeg")
    picks = ["Fz", "Oz", "C3", "P3"]
    result = decode_epochs(epochs, picks=picks, sensors=adjacency, **OPTIONS)
    assert result.ch_names.tolist() == picks
    matrix, names = adjacency
    for name, row in zip(result.ch_names, result.predicted, strict=True):
        near = matrix.toarray()[names.index(name)] > 0
        near = [other for other in np.array(names)[near] if other in picks]
        one = decode_epochs(epochs, picks=near, **OPTIONS)
        assert_array_equal(row, one.predicted)


def test_a_sensor_without_neighbours_stands_for_itself():
    epochs = make_epochs(montage=False)
    result = decode_epochs(epochs, sensors=np.zeros((8, 8)), **OPTIONS)
    rows = [decode_epochs(epochs, picks=[name], **OPTIONS) for name in SITES]
    assert_rows(result, rows)
    assert result.adjacency.shape == (2, 0)
    p = result.pvalues("cluster")
    alone = [corrected_p_values(row.scores, row.null, "none") for row in rows]
    assert p.shape == (8, 6)
    assert (p >= np.array(alone)).any()


def test_sensors_of_several_types_with_a_matrix():
    """A place with its magnetometer and gradiometers may be a neighbourhood."""
    epochs = make_epochs(
        sites=["a", "b", "c", "d"],
        ch_types=["mag", "grad", "grad", "mag"],
        montage=False,
    )
    matrix = np.kron(np.eye(2), np.ones((2, 2)))
    result = decode_epochs(epochs, sensors=matrix, scale="channel", **OPTIONS)
    for i, picks in ((0, [0, 1]), (1, [0, 1]), (2, [2, 3]), (3, [2, 3])):
        one = decode_epochs(epochs, picks=picks, scale="channel", **OPTIONS)
        assert_array_equal(result.predicted[i], one.predicted)


@pytest.mark.parametrize("n_times", [1, 6])
def test_clusters_reach_over_neighbours_and_times(n_times):
    epochs = make_epochs(n_times=n_times)
    result = decode_epochs(epochs, sensors=True, **OPTIONS)
    lattice = mne.stats.combine_adjacency(sparse.csr_array(pairs_of(epochs)), n_times)
    expected = (lattice.toarray() > 0) & ~np.eye(8 * n_times, dtype=bool)
    assert_array_equal(result.places.adjacency().toarray() > 0, expected)
    assert result.pvalues("cluster").min() < 0.06
    for correction in ("cluster", "tfce"):
        p = corrected_p_values(
            result.scores, result.null, correction, adjacency=lattice
        )
        assert_array_equal(result.pvalues(correction), p)
    on_a_grid = corrected_p_values(result.scores, result.null, "tfce")
    assert n_times == 1 or (result.pvalues("tfce") != on_a_grid).any()


def test_sensor_result_needs_an_adjacency_of_its_sensors():
    result = decode_epochs(make_epochs(), sensors=True, cv=4)
    fields = result._content()
    for wrong in (np.zeros((3, 2), int), np.full((2, 1), 8), np.zeros((2, 3))):
        with pytest.raises(ValueError, match=r"adjacency must have shape \(2, n_pairs"):
            SensorTimeResult(**{**fields, "adjacency": wrong})


def asymmetric():
    matrix = np.eye(8)
    matrix[2, 5] = 1
    return matrix


def without_oz():
    return np.eye(7), [name for name in SITES if name != "Oz"]


def in_one_place():
    epochs = make_epochs()
    for channel in epochs.info["chs"]:
        channel["loc"][:3] = 0.05
    return epochs


BAD_SENSORS = [
    ("mag", "'sensors': 'mag'. Allowed: 'adjacency', Tr"),
    (np.eye(7), r"one row per picked channel, shape \(8, 8\); got \(7, 7\)"),
    ((np.eye(8), SITES[:7]), r"one row per channel name, shape \(7, 7\); got \(8, 8\)"),
    (without_oz(), "lacks 1 of the 8 picked channels: 'Oz'. It has, for example, 'Fz'"),
    (np.ones(8), r"picked channel, shape \(8, 8\); got \(8,\)"),
    (asymmetric(), r"must be symmetric; it differs for the pair \(2, 5\)"),
    (np.full((8, 8), 0.1), "zeros and ones; got values from 0.1 to 0.1. From distance"),
    (np.full((8, 8), np.nan), "must hold zeros and ones"),
]
OTHER_CAPS = [
    ({"ch_types": ["eeg"] * 4 + ["mag"] * 4}, "one type, .* 8 of type eeg, mag. Pick"),
    ({}, "no neighbours of the 8 eeg channels: No digit.* epochs.set_montage"),
    ({"ch_types": "mag"}, "lacks 8 of the 8 picked channels: 'Fz', .* It has, for exa"),
]


@pytest.mark.parametrize(("sensors", "match"), BAD_SENSORS)
def test_bad_sensors(sensors, match):
    with pytest.raises(ValueError, match=match):
        decode_epochs(make_epochs(), sensors=sensors)


@pytest.mark.parametrize(("options", "match"), OTHER_CAPS)
def test_channels_without_neighbours(options, match):
    with pytest.raises(ValueError, match=match):
        decode_epochs(make_epochs(montage=False, **options), sensors="adjacency")


def test_sensors_that_have_no_neighbours():
    match = "no neighbours of the 8 ecog channels: .*your own matrix as sensors"
    with pytest.raises(ValueError, match=match):
        decode_epochs(make_epochs(ch_types="ecog"), sensors="adjacency")
    with pytest.raises(ValueError, match="no neighbours of the 8 eeg channels"):
        decode_epochs(in_one_place(), sensors=True)
    with pytest.raises(ValueError, match=r"four or more channels .* 2 of type eeg"):
        decode_epochs(make_epochs(), sensors="adjacency", picks=["Cz", "Oz"])
    whitening = mne.make_ad_hoc_cov(make_epochs().info, verbose=False)
    with pytest.raises(ValueError, match="covariance in scale mixes each sensor with"):
        decode_epochs(make_epochs(), sensors=True, scale=whitening)


@pytest.mark.parametrize("sensors", [{"Oz": ["O1"]}, [["Oz", "O1"]], object(), 3])
def test_sensors_of_a_wrong_type(sensors):
    with pytest.raises(TypeError, match=r"Invalid value for 'sensors': .*Allowed"):
        decode_epochs(make_epochs(), sensors=sensors)


def test_a_flat_neighbourhood_is_named():
    epochs = make_epochs()
    epochs._data[:, SITES.index("Oz"), 4] = 1e-6
    with pytest.raises(ValueError, match=r"^At sensor Oz, 0\.010 s: The trials do not"):
        decode_epochs(epochs, sensors=np.eye(8))
