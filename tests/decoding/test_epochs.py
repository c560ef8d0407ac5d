"""Decoding over time: the same numbers as the plain functions and retraining give.

Epochs are in the units that MNE-Python stores: volts, tesla, tesla per metre.
"""

import pickle
import re
import shutil
import tempfile
from dataclasses import replace

import joblib
import mne
import numpy as np
import pandas as pd
import pytest
from mne.time_frequency import EpochsTFRArray
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from scipy.stats import false_discovery_control, kstest
from sklearn import model_selection as ms
from sklearn.metrics.pairwise import laplacian_kernel, linear_kernel

from mvpa_kfda import (
    RBF,
    Nystrom,
    Polynomial,
    Ridge,
    TimeResult,
    Tuned,
    cross_validate,
    decode_arrays,
    decode_epochs,
    generalize_arrays,
    generalize_epochs,
    load_result,
)
from mvpa_kfda.decoding import analysis
from mvpa_kfda.inference.corrections import corrected_p_values
from mvpa_kfda.inference.null import Null
from mvpa_kfda.inference.permutation import permute_labels
from mvpa_kfda.kfda.folds import make_folds
from mvpa_kfda.results.epochs import SensorTimeResult, TimeFrequencyResult
from mvpa_kfda.utils import memory
from tests import build, reference
from tests.build import NAMES

MIXED = ("mag", "mag", "grad", "grad", "eeg", "eeg")
CODES = build.codes_of((16, 16, 16))
OPTIONS = {
    # Stratified once and for all: a splitter would be shown every permutation.
    "cv": list(ms.StratifiedKFold(4).split(CODES, CODES)),
    "n_permutations": 20,
    "random_state": 4,
    "scoring": ["accuracy", "roc_auc", "confusion_matrix"],
}


def make_epochs(types=("eeg",) * 5, n_times=6, seed=0, snr=1.0):
    """Return epochs whose three classes differ from time zero on."""
    rng, onset = np.random.default_rng(seed), n_times // 2
    X = rng.standard_normal((48, len(types), n_times))
    X[:, :, onset:] += snr * rng.standard_normal((3, len(types)))[CODES][:, :, None]
    return build.epochs(X, CODES, types, tmin=-onset / 100)


def replaced(epochs, data):
    """Return the same epochs with other data."""
    other = epochs.copy()
    other._data = data
    return other


def same(one, other, **tolerances):
    """Assert that two results hold the same numbers."""
    assert_array_equal(one.predicted, other.predicted)
    tolerances = {"rtol": 0, "atol": 0} | tolerances
    kinds = ["metrics", "nulls", "second_scores", "second_nulls"]
    for kind in (kind for kind in kinds if hasattr(one, kind)):
        ours, theirs = getattr(one, kind), getattr(other, kind)
        assert ours.keys() == theirs.keys()
        for name in ours:
            assert_allclose(ours[name], theirs[name], **tolerances)


def assert_equals_arrays(result, features, y=NAMES[CODES], **options):
    """Assert that every time point is cross_validate of its features."""
    assert len(result.times) == len(features)
    for i, X in enumerate(features):
        one = cross_validate(X, y, **options)
        assert_array_equal(result.predictions[i], one.predictions)
        for name, score in one.metrics.items():
            assert_allclose(result.metrics[name][i], score, rtol=0, atol=1e-12)
        for name, null in one.nulls.items():
            assert_allclose(result.nulls[name][:, i], null, rtol=0, atol=1e-12)


# ------------------------------------------------------------------ times and windows


@pytest.mark.parametrize("kernel", [Polynomial(2), RBF(gamma=None)], ids=str)
def test_kernels_for_unit_variance_get_it(kernel):
    """Volts to the second power are nothing next to the constant 1.

    And gamma=None is one over the features of a window, not of a sample.
    """
    epochs, options = make_epochs(), {"kernel": kernel, **OPTIONS}
    result = decode_epochs(epochs, **options)
    data = epochs.get_data() / epochs.get_data().std()
    assert_equals_arrays(result, np.moveaxis(data, 2, 0), **options)
    assert result.scores[-1] > 0.6
    result = decode_epochs(epochs, window=0.04, window_mode="concatenate", **options)
    features = [data[:, :, t : t + 4].reshape(48, -1) for t in range(3)]
    assert_equals_arrays(result, features, **options)


@pytest.mark.some(7)
@pytest.mark.parametrize(
    ("mode", "kernel", "n_channels"),
    [
        ("mean", "linear", 3),
        ("concatenate", "linear", 3),  # 12 features for 48 trials: from the features
        ("concatenate", "linear", 9),  # from sums of kernels
        ("concatenate", "rbf", 9),
        ("concatenate", RBF(gamma=1e9), 9),
        ("concatenate", Polynomial(2, gamma=1e9), 9),
        ("concatenate", laplacian_kernel, 3),
    ],
    ids=build.words,
)
@pytest.mark.parametrize(("step", "starts"), [(0.01, range(7)), (0.03, (0, 3, 6))])
def test_windows_equal_averages_or_long_features(
    mode, kernel, n_channels, step, starts
):
    epochs = make_epochs(("eeg",) * n_channels, n_times=10)
    options = {"kernel": kernel, **OPTIONS}
    result = decode_epochs(epochs, window=0.04, step=step, window_mode=mode, **options)
    parts = [epochs.get_data()[:, :, t : t + 4] for t in starts]
    features = [
        part.mean(axis=2) if mode == "mean" else part.reshape(48, -1) for part in parts
    ]
    assert_equals_arrays(result, features, **options)
    known = {name: result.parameters[name] for name in ("window", "step", "sfreq")}
    assert known == {"window": 0.04, "step": step, "sfreq": 100.0}
    assert result.parameters["window_mode"] == mode


def test_windows_of_one_sample_are_samples():
    for epochs in (make_epochs(n_times=3), make_epochs(("eeg",), n_times=1)):
        result = decode_epochs(epochs, **OPTIONS)
        assert_equals_arrays(result, np.moveaxis(epochs.get_data(), 2, 0), **OPTIONS)
        for mode in ("mean", "concatenate"):
            windows = {"window": 0.01, "window_mode": mode}
            same(result, decode_epochs(epochs, **windows, **OPTIONS))


@pytest.mark.parametrize("window", [{}, {"window": 0.03}], ids=str)
def test_data_that_workers_share_are_not_written(window, monkeypatch):
    """Joblib maps large data into memory, where they cannot be written."""
    epochs, run, locked = make_epochs(), analysis.run, []

    def lock(positions, *arguments):
        for value in vars(positions).values():
            if isinstance(value, np.ndarray):
                value.flags.writeable = False
                locked.append(value)
        return run(positions, *arguments)

    monkeypatch.setattr(analysis, "run", lock)
    for kernel in ("linear", "rbf", Polynomial(2)):
        for mode in ("mean", "concatenate") if window else ("mean",):
            for decode in (decode_epochs, generalize_epochs):
                decode(epochs, kernel=kernel, window_mode=mode, **window, **OPTIONS)
    assert locked


# --------------------------------------------------------- power: frequencies and times

FREQS = np.array([4.0, 10.0, 22.5])


def make_tfr(types=("eeg",) * 4, n_times=6, sfreq=100.0, times=None):
    """Return power that falls with frequency; classes differ from 0 s on at 10 Hz."""
    rng = np.random.default_rng(0)
    power = rng.chisquare(4, (48, len(types), len(FREQS), n_times))
    gains = rng.uniform(0.3, 3, (3, len(types)))
    power[:, :, 1, n_times // 2 :] *= gains[CODES][..., np.newaxis]
    power *= np.array([build.UNITS[kind] for kind in types])[:, None, None] ** 2
    power /= FREQS[:, np.newaxis] ** 3
    times = (np.arange(n_times) - n_times // 2) / sfreq if times is None else times
    info = build.info_of(types, sfreq)
    return EpochsTFRArray(info, power, times, FREQS, **build.about(CODES))


def at_frequency(tfr, i):
    """Return the power of one frequency as if it were a signal."""
    events = {"events": tfr.events, "event_id": tfr.event_id, "metadata": tfr.metadata}
    X, tmin = tfr.data[:, :, i], tfr.times[0]
    return mne.EpochsArray(X, tfr.info, tmin=tmin, verbose=False, **events)


def assert_rows(result, rows, atol=0.0):
    """Assert that the rows of a map are these results over time."""
    assert len(rows) == result.shape[0]
    for i, row in enumerate(rows):
        assert_array_equal(result.times, row.times)
        assert_array_equal(result.predicted[i], row.predicted)
        for name, scores in row.metrics.items():
            assert_allclose(result.metrics[name][i], scores, rtol=0, atol=atol)
        for name, null in row.nulls.items():
            assert_allclose(result.nulls[name][:, i], null, rtol=0, atol=atol)
    assert len(np.unique(result.null)) > 3


NINE = ("eeg",) * 9
MEAN = {"window": 0.03, "step": 0.02}
LONG = {"window": 0.03, "window_mode": "concatenate"}


@pytest.mark.parametrize(
    ("types", "options"),
    [
        (NINE, {"kernel": "polynomial", "scale": "channel", **MEAN}),
        (NINE, {"kernel": RBF(gamma=None), "scale": "channel", **LONG}),
        (MIXED, {"scale": "auto"}),
        (NINE, {"scale": "auto", **LONG}),
        (NINE, {"kernel": Polynomial(2), "scale": "auto"}),
        (
            MIXED,
            {"kernel": Polynomial(2, gamma=1e26), "scale": None, "picks": ["EEG4"]},
        ),
    ],
    ids=build.words,
)
def test_every_frequency_equals_epochs_of_it(types, options):
    tfr, options = make_tfr(types), {**options, **OPTIONS}
    result = decode_epochs(tfr, **options)
    assert type(result) is TimeFrequencyResult
    rows = [decode_epochs(at_frequency(tfr, i), **options) for i in range(3)]
    assert_rows(result, rows)
    if options["scale"] is not None and "window" not in options:
        factors = np.array([1e8, 1.0, 1e-8])[:, np.newaxis]
        if types == MIXED or options["scale"] == "channel" or "kernel" in options:
            assert_rows(
                decode_epochs(replaced(tfr, tfr.data * factors), **options), rows, 1e-12
            )


@pytest.mark.parametrize("scale", ["auto", "channel", None])
def test_patterns_are_those_of_each_frequency_in_its_units(scale):
    tfr = make_tfr(MIXED)
    result = decode_epochs(tfr, scale=scale, cv=4)
    assert result.pattern_maps["class"].shape == (3, 6, 3, 6)
    for i in range(3):
        one = decode_epochs(at_frequency(tfr, i), scale=scale, cv=4)
        assert result.pattern_maps.keys() == one.pattern_maps.keys()
        for name, maps in one.pattern_maps.items():
            size = np.abs(maps).max(axis=(0, 1))
            found = result.pattern_maps[name][i]
            assert_allclose(found / size, maps / size, rtol=0, atol=1e-9)
    assert result.info["ch_names"] == tfr.ch_names
    assert decode_epochs(tfr, kernel="rbf", cv=4).pattern_maps == {}


def test_decomposition_by_mne():
    """Decimated, with a bad channel, picks, labels and groups of all kinds."""
    epochs = make_epochs(("eeg",) * 8, n_times=48)
    keywords = {"freqs": [20.0, 40.0], "n_cycles": 2, "verbose": False}
    tfr = epochs.compute_tfr("morlet", decim=4, **keywords)
    tfr.info["bads"] = ["EEG2"]
    result = decode_epochs(tfr, **OPTIONS)
    assert_array_equal(result.freqs, [20.0, 40.0])
    assert_allclose(result.times, epochs.times[::4], rtol=0, atol=1e-9)
    assert result.parameters["sfreq"] == 25.0
    assert "EEG2" not in result.parameters["ch_names"]
    rows = [decode_epochs(at_frequency(tfr, i), **OPTIONS) for i in range(2)]
    assert_rows(result, rows)
    for given in ("word", NAMES[CODES]):
        same(decode_epochs(tfr, given, **OPTIONS), result)
    some = tfr[["ant", "cat"]]
    options = {**OPTIONS, "groups": "run", "picks": ["EEG3", "EEG1"], "cv": None}
    result = decode_epochs(some, **options)
    assert_array_equal(result.classes, ["ant", "cat"])
    assert_array_equal(result.groups, some.metadata["run"])
    rows = [decode_epochs(at_frequency(some, i), **options) for i in range(2)]
    assert_rows(result, rows)


def test_the_times_tell_the_sampling_rate():
    """The info of decimated power may still be that of the recording."""
    times = 0.05 * np.arange(6) - 0.1
    result = decode_epochs(make_tfr(sfreq=1000.0, times=times), window=0.1, cv=4)
    assert result.parameters["sfreq"] == pytest.approx(20.0, rel=1e-9)
    assert result.parameters["window"] == pytest.approx(0.1, rel=1e-9)
    assert_allclose(result.times, times[:5] + 0.025, rtol=0, atol=1e-12)
    uneven = make_tfr(times=np.array([0, 1, 2, 4, 8, 16]) / 100)
    assert_array_equal(decode_epochs(uneven, cv=4).times, uneven.times)
    for options in ({"window": 0.02}, {"step": 0.02}):
        with pytest.raises(ValueError, match=r"not evenly spaced: 0\.01 to 0\.08 s"):
            decode_epochs(uneven, **options)
    assert decode_epochs(make_tfr(n_times=1), cv=4).shape == (3, 1)


# ------------------------------------------------------------------ sensors and times


#: Eight sensors, those of a row in another order.
NEAR = build.chain(8)[np.ix_(*[[3, 0, 6, 1, 5, 7, 2, 4]] * 2)]
OF_SENSORS = [np.flatnonzero(row).tolist() for row in NEAR | np.eye(8, dtype=bool)]


@pytest.mark.parametrize(
    ("options", "atol"),
    [
        ({"kernel": RBF(gamma=None), "scale": "channel", **MEAN}, 0.0),
        # A neighbourhood alone may take another, equally exact, route to its kernel.
        ({"kernel": "rbf", "step": 0.03, **LONG}, 1e-12),
        ({"kernel": laplacian_kernel, "step": 0.03, **LONG}, 1e-12),
        # Unit variance is that of all picked channels.
        ({"kernel": Polynomial(2)}, 0.0),
    ],
    ids=build.words,
)
def test_every_sensor_equals_epochs_of_its_neighbourhood(options, atol):
    epochs, options = make_epochs(("eeg",) * 8, n_times=6), {**options, **OPTIONS}
    result = decode_epochs(epochs, sensors=NEAR, **options)
    assert type(result) is SensorTimeResult
    assert result.ch_names.tolist() == epochs.ch_names
    if isinstance(options.get("kernel"), Polynomial):
        epochs = replaced(epochs, epochs.get_data() / epochs.get_data().std())
        options["scale"] = None
    rows = [decode_epochs(epochs, picks=p, **options) for p in OF_SENSORS]
    assert_rows(result, rows, atol)


@pytest.mark.parametrize("n_times", [1, 6])
def test_clusters_reach_over_neighbours_and_times(n_times):
    epochs = make_epochs(("eeg",) * 8, n_times, snr=0.3)
    result = decode_epochs(epochs, sensors=NEAR, **OPTIONS)
    lattice = mne.stats.combine_adjacency(sparse.csr_array(NEAR), n_times)
    expected = (lattice.toarray() > 0) & ~np.eye(8 * n_times, dtype=bool)
    assert_array_equal(result.places.adjacency().toarray() > 0, expected)
    for correction in ("cluster", "tfce"):
        p = corrected_p_values(
            result.scores, result.null, correction, adjacency=lattice
        )
        assert_array_equal(result.pvalues(correction), p)
    on_a_grid = corrected_p_values(result.scores, result.null, "tfce")
    assert n_times == 1 or (result.pvalues("tfce") != on_a_grid).any()
    fields = result._content()
    for wrong in (np.zeros((3, 2), int), np.full((2, 1), 8), np.zeros((2, 3))):
        with pytest.raises(ValueError, match=r"adjacency must have shape \(2, n_pairs"):
            SensorTimeResult(**{**fields, "adjacency": wrong})


# ---------------------------------------------------------------- epochs of all kinds


def pair_of_epochs(types):
    epochs, others = make_epochs(types), make_epochs(types, seed=1)
    epochs.info["bads"] = others.info["bads"] = [epochs.ch_names[-1]]
    return build.jittered(epochs), build.jittered(others, seed=1)


@pytest.mark.parametrize("scale", ["auto", "channel", None])
def test_epochs_are_not_changed(scale):
    types = MIXED
    both = epochs, others = pair_of_epochs(types)
    before = [
        (e.get_data().copy(), e.events.copy(), e.info.copy(), e.metadata.copy())
        for e in both
    ]
    tfr, y = make_tfr(types), NAMES[CODES]
    power = tfr.data.copy()
    for options in ({"kernel": "rbf"}, {"picks": [0], "groups": "run"}):
        decode_epochs(epochs, y, scale=scale, **options)
        generalize_epochs(epochs, scale=scale, test_epochs=others, **options)
        decode_epochs(tfr, scale=scale, **options)
    generalize_epochs(epochs, scale=scale, train_on="run == 1")
    for e, (data, events, info, metadata) in zip(both, before, strict=True):
        assert_array_equal(e.get_data(), data)
        assert_array_equal(e.events, events)
        assert mne.utils.object_diff(e.info, info) == ""
        pd.testing.assert_frame_equal(e.metadata, metadata)
    assert_array_equal(tfr.data, power)
    assert_array_equal(y, NAMES[CODES])


@pytest.mark.parametrize(
    ("n_times", "kernel"), [(1, "linear"), (3, "rbf"), (3, linear_kernel)]
)
def test_arrays_are_not_changed(n_times, kernel):
    X, codes = build.trials((8, 8, 8), 4, n_times)
    for given in (X, np.ascontiguousarray(X.transpose(2, 0, 1)).transpose(1, 2, 0)):
        X_test, y, y_test = given[::-1] + 1.0, codes.copy(), codes.copy()
        for array in (given, X_test, y, y_test):
            array.flags.writeable = False
        generalize_arrays(given, y, kernel=kernel, n_permutations=3)
        generalize_arrays(given, y, X_test, y_test=y_test, kernel=kernel)
        decode_arrays(given, y, kernel=kernel)


def test_epochs_read_lazily(tmp_path):
    epochs, others = pair_of_epochs(("eeg",) * 5)
    files = tmp_path / "a-epo.fif", tmp_path / "b-epo.fif"
    for each, path in zip((epochs, others), files, strict=True):
        each.save(path, fmt="double", verbose=False)
    expected = decode_epochs(epochs, **OPTIONS)
    lazy, lazy_test = (mne.read_epochs(f, preload=False, verbose=False) for f in files)
    same(decode_epochs(lazy, **OPTIONS), expected)
    same(decode_epochs(lazy, "word", **OPTIONS), expected)
    found = generalize_epochs(lazy, test_epochs=lazy_test)
    same(found, generalize_epochs(epochs, test_epochs=others))
    assert (lazy.preload, lazy_test.preload) == (False, False)
    assert lazy.info["bads"] == ["EEG4"]
    options = OPTIONS | {"cv": 4}
    lazy.drop([0, 3, 17], verbose=False)
    kept = np.setdiff1d(np.arange(48), [0, 3, 17])
    same(decode_epochs(lazy, **options), decode_epochs(epochs[kept], **options))
    assert not lazy.preload
    match = r"y must hold one value per trial, shape \(45,\); got shape \(48,\)"
    with pytest.raises(ValueError, match=match):
        decode_epochs(lazy, NAMES[CODES])


def test_epochs_cut_lazily_from_a_recording():
    """Bad segments and amplitudes are dropped when the data are read, not before."""
    rng = np.random.default_rng(0)
    data = 1e-6 * rng.standard_normal((3, 6000))
    codes, onsets = rng.permutation(np.arange(50) % 2), 100 + 110 * np.arange(50)
    for onset, code in zip(onsets, codes, strict=True):
        data[0, onset : onset + 10] += 4e-6 * code
    data[1, onsets[7] + 3] = 1.0  # an artefact
    raw = mne.io.RawArray(data, build.info_of(("eeg",) * 3), verbose=False)
    raw.set_annotations(mne.Annotations([onsets[20] / 100], [0.05], ["BAD_jump"]))
    events = np.column_stack([onsets, np.zeros(50, int), codes + 1])
    options = {"baseline": None, "reject": {"eeg": 1e-3}, "verbose": False}
    epochs = mne.Epochs(raw, events, {"left": 1, "right": 2}, 0.0, 0.1, **options)
    result = decode_epochs(epochs, cv=4)
    assert not epochs.preload
    assert result.predictions.shape == (11, 48)
    assert_array_equal(result.y, codes[np.setdiff1d(np.arange(50), [7, 20])])
    assert result.scores[:10].min() > 0.8
    same(result, decode_epochs(epochs.copy().load_data(), cv=4))


def test_a_selection_of_epochs_keeps_labels_and_data_together():
    subset, options = make_epochs()[["ant", "cat"]][::-1], OPTIONS | {"cv": 4}
    result = decode_epochs(subset, **options)
    assert_array_equal(result.classes, ["ant", "cat"])
    features = np.moveaxis(subset.get_data(), 2, 0)
    assert_equals_arrays(result, features, subset.metadata["word"], **options)


def test_progress_only_when_asked(capfd):
    epochs = make_epochs()
    for verbose in (np.False_, None, "WARNING", 30):
        decode_epochs(epochs, cv=4, verbose=verbose)
        assert capfd.readouterr() == ("", "")
    for verbose in (np.True_, "debug", 20):
        decode_epochs(epochs, cv=4, verbose=verbose)
        assert "6 of 6 positions in" in capfd.readouterr().err


# -------------------------------------------------------------------- what is refused


def put(where, value, make=make_epochs):
    """Return a maker of epochs or power that have another value somewhere."""

    def changed():
        epochs = make()
        epochs._data[where] = value
        return epochs

    return changed


def with_one_ant():
    ants = np.flatnonzero(CODES == 0)
    return make_epochs().drop(ants[1:], verbose=False)


def times_i(make):
    return lambda: replaced(make(), make()._data * 1j)


def with_tapers():
    keywords = {"freqs": [40.0], "n_cycles": 2, "output": "complex", "verbose": False}
    return make_epochs(n_times=60).compute_tfr("multitaper", **keywords)


NOT_EPOCHS = "an mne.Epochs or EpochsTFR object; got"
WHITENING = {"scale": mne.make_ad_hoc_cov(make_tfr().info, verbose=False)}
FLAT = "The trials do not differ"


@pytest.mark.parametrize(
    ("make", "options", "match"),
    [
        (put((3, 0, 2), np.nan), {}, r"1 NaN or infinite .*1 of 48 trials \(first: 3"),
        (put((slice(4), 0, 2), np.inf), {}, "4 NaN or infinite .*in 4 of 48 trials"),
        (times_i(make_epochs), {}, "data of epochs holds complex data"),
        (put((..., 2), 5e-6), {}, rf"At -0\.010 s: {FLAT}.*flat data.*crop"),
        (put(..., 0.0), {}, rf"At -0\.030 s: {FLAT}"),
        (with_one_ant, {}, "Class 'ant' has 1 trial to train on"),
        (lambda: make_epochs().get_data(), {}, f"{NOT_EPOCHS} ndarray.*decode_arrays"),
        (lambda: "a-epo.fif", {}, "got str. Read the file with mne.read_epochs first"),
        (
            lambda: make_epochs(n_times=60).compute_psd(verbose=False),
            {},
            f"{NOT_EPOCHS} Epochs.*no time axis.*decode_arrays",
        ),
        (lambda: make_tfr().average(), {}, "or EpochsTFR object; got AverageTFR"),
        (
            make_epochs,
            {"kernel": "rbf", "reg": 1e-14},
            r"At -0\.030 s: lambda = .* too",
        ),
        (make_epochs, {"scale": np.eye(5)}, "Invalid value for 'scale': array"),
        (make_epochs, {"window": 0.07}, "window=0.07 s is 7 samples at 100 Hz, longer"),
        (
            make_epochs,
            {"window": 0},
            "'window': 0. Allowed: .* above zero. It is in sec",
        ),
        (make_epochs, {"window": "0.1"}, "'window': '0.1' of type str.*in seconds"),
        (make_epochs, {"verbose": "foo"}, "Invalid value for 'verbose': .* 'WARNING'"),
        (times_i(make_tfr), {}, r"complex data.*output='power'"),
        (with_tapers, {}, r"epochs has an axis of tapers, shape \(48, 5, \d.*'power'"),
        (put((3, 0, 2, 1), np.nan, make_tfr), {}, r"epochs holds 1 NaN .*\(first: 3\)"),
        (put((..., 1, 2), 5e-16, make_tfr), {}, rf"^At 10 Hz, -0\.010 s: {FLAT}"),
        (
            put((..., 2, slice(None)), 0.0, make_tfr),
            {"window": 0.03},
            rf"^At 22\.5 Hz, -0\.020 s: {FLAT}: flat data",
        ),
        (make_tfr, {"sensors": "adjacency"}, "sensors works on mne.Epochs only"),
        (
            make_tfr,
            WHITENING,
            "noise covariance in scale whitens signals, not their po",
        ),
        (
            put((slice(None), 3, 4), 1e-6),
            {"sensors": np.eye(5)},
            rf"^At sensor EEG3, 0\.010 s: {FLAT}",
        ),
    ],
)
def test_what_cannot_be_decoded_is_refused_before_anything_is_computed(
    make, options, match, monkeypatch
):
    if not re.search("lambda|sensor EEG3", match):
        monkeypatch.setattr(analysis, "run", lambda *_: pytest.fail("it has started"))
    with pytest.raises((ValueError, TypeError), match=match):
        decode_epochs(make(), **options)


def test_a_window_with_a_sample_that_is_flat_has_others():
    epochs = put((..., 5), 5e-6)()
    assert decode_epochs(epochs, cv=4, window=0.03).shape == (4,)


def test_what_cannot_be_generalized_is_refused():
    info, times = build.info_of(["eeg"]), np.arange(5) / 100
    tfr = EpochsTFRArray(info, np.ones((30, 1, 2, 5)), times, [8.0, 9.0])
    epochs, others = pair_of_epochs(("eeg",) * 5)
    message = r"must be an mne\.Epochs object; got EpochsTFRArray\b"
    with pytest.raises(TypeError, match=f"^epochs {message}"):
        generalize_epochs(tfr)
    with pytest.raises(TypeError, match=f"^test_epochs {message}"):
        generalize_epochs(epochs, test_epochs=tfr)
    at, whole = r"^At 0\.010 s: The trials do not differ", np.s_[..., 4]
    flat, blank = (put(whole, x, e.copy)() for x, e in ((2e-6, epochs), (0.0, others)))
    bad = {"test_epochs": put((4, 1, 2), np.nan, others.copy)()}
    complex_ = {"test_epochs": times_i(others.copy)()}
    short = {"test_epochs": others.copy().crop(0.0, 0.01)}
    other, folds = {"test_epochs": others}, [(np.arange(20), np.arange(20, 30))]
    of_groups = {"permute": "groups", "groups": np.arange(48) // 10}
    no_folds, needs = "(?s)^cv has no meaning here: the model is", "'{}' needs groups"
    for data, options, message in (
        (flat, {}, at),
        (flat, other, at),
        (epochs, short | {"window": 0.03}, "3 samples at 100 Hz, longer .*: 2 samples"),
        (epochs, bad, "^The data of test_epochs holds 1 NaN .*first: 4"),
        (epochs, complex_, "^The data of test_epochs holds complex data"),
        *[(epochs, other | {"cv": cv}, no_folds) for cv in (5, "loo", folds)],
        (epochs, other | {"permute": "within_folds"}, "^permute='within_folds' needs "),
        (epochs, other | {"permute": "within_groups"}, needs.format("within_groups")),
        (epochs, other | {"permute": "groups"}, needs.format("groups")),
        (epochs, other | of_groups, "one label per group; group 0 holds several"),
        (
            epochs,
            {"train_on": "run == 1", "average": 2},
            "^average=2 .*with .*train_on",
        ),
    ):
        with pytest.raises(ValueError, match=message):
            generalize_epochs(data, n_permutations=10, **options)
    # Flat test data is a test result like any other.
    result = generalize_epochs(epochs, test_epochs=blank)
    assert (np.ptp(result.predicted[:, 4], axis=-1) == 0).all()


def test_arrays_and_labels_that_cannot_be_generalized_are_refused():
    X, codes = build.trials((10, 10, 10), 4, 5)
    y, groups, fold = NAMES[codes], codes // 2, (np.arange(15), np.arange(15, 30))
    known, other = {"y_test": y}, np.where(codes, codes, 0.5)
    # Each group has one label to train with; only those to be tested vary within.
    stay = {"permute": "within_groups", "groups": groups, "cv": [fold, fold[::-1]]}
    stay |= {"y_test": codes % 2, "n_permutations": 50}
    for labels, X_test, options, message in (
        (y, None, {"y_test": codes}, r"no training trial has: 0, 1, 2\. The .*: 'ant'"),
        (codes, None, known, r"no training trial has: 'ant', .*: 0, 1, 2\."),
        (codes, None, {"y_test": other}, r"no training trial has: 0\.5\. "),
        (codes, None, {"y_test": 100 + np.arange(30)}, r"has: 100, .*, 109, \.\.\."),
        (y, X + 1, {}, "^The test data are other .* for each of the 30 test trials"),
        (y, X + 1, known | {"cv": 5}, "(?s)^cv has no meaning here: the model is"),
        (y, X[0], known, "^X_test must have 3 dimensions"),
        (y, X / 0.0, {"same_trials": True}, r"^X_test holds 600 NaN or infinite valu"),
        (y, X * 1j, known, "^X_test holds complex data"),
        (y, X + 1, known | {"tmin_test": np.nan}, "'tmin_test'.*a finite number"),
        (y, X + 1, known | {"tmin_test": "a"}, "'tmin_test'.*a finite number"),
        (y, None, {"tmin_test": 3.0}, "no X_test is given"),
        (groups, None, stay, "'within_groups' leaves the training labels"),
    ):
        with pytest.raises((ValueError, TypeError), match=message):
            generalize_arrays(X, labels, X_test, **options)
    # Floats that are whole numbers are the same labels.
    options = {"cv": 5, "n_permutations": 3, "random_state": 0}
    for X_test, given in (
        (None, {"y_test": codes.astype(float)}),
        (X, {"same_trials": True}),
        (X.copy(), {"y_test": codes, "same_trials": True}),
    ):
        again = generalize_arrays(X, codes, X_test, **given, **options)
        assert again == generalize_arrays(X, codes, **options)
        assert again.parameters["mode"] == "plain"


# ---------------------------------------------------------- generalization: the numbers

METRICS = ["accuracy", "balanced_accuracy", "roc_auc", "f1_macro", "kappa"]
CORRECTIONS = ("none", "max", "fdr", "bonferroni", "cluster", "tfce")
CV = ms.KFold(5)


def make_arrays(n=40, p=5, n_times=6, n_classes=2, seed=0, snr=0.8):
    """Return X (n, p, n_times) with classes that differ from the middle on, and y."""
    rng = np.random.default_rng(seed)
    codes = rng.permutation(np.arange(n) % n_classes)
    means = snr * np.random.default_rng(99).standard_normal((n_classes, p))
    X = rng.standard_normal((n, p, n_times)) + rng.standard_normal((p, n_times))
    X[:, :, n_times // 2 :] += means[codes][:, :, None]
    return X, NAMES[codes]


def epochs_of(X, y, tmin=-0.03, seed=0, **metadata):
    """Return EEG epochs at 100 Hz with events named by class."""
    codes = np.searchsorted(NAMES, y)
    return build.jittered(build.epochs(X, codes, tmin=tmin, **metadata), seed)


@pytest.mark.parametrize(
    ("options", "n_classes"),
    [
        ({"kernel": RBF(), "window": 0.03, "step": 0.01}, 3),
        ({"window": 0.04, "step": 0.01, "window_mode": "concatenate"}, 2),
        ({"kernel": "polynomial", "scale": "channel"}, 3),
        ({"cv": ms.ShuffleSplit(4, random_state=0), "permute": "free"}, 2),
        ({"cv": ms.RepeatedKFold(n_splits=4, n_repeats=2, random_state=0)}, 3),
        ({"cv": None, "groups": "run", "y": "word", "picks": ["EEG3", "EEG0"]}, 2),
    ],
    ids=build.words,
)
def test_diagonal_equals_decoding_of_epochs(options, n_classes):
    epochs = epochs_of(*make_arrays(n_classes=n_classes))
    options = {"cv": CV, "n_permutations": 20, "random_state": 3} | options
    options["scoring"] = [*METRICS, "confusion_matrix"]
    result = generalize_epochs(epochs, **options)
    diagonal, expected = result.diagonal(), decode_epochs(epochs, **options)
    assert type(diagonal) is TimeResult
    for name in ("times", "predicted", "y", "groups"):
        assert_array_equal(getattr(diagonal, name), getattr(expected, name))
    assert diagonal.chances == expected.chances
    for name in expected.metrics:
        assert_array_equal(diagonal.metrics[name], expected.metrics[name])
    assert set(expected.nulls) == set(METRICS)
    for name, null in expected.nulls.items():
        assert_array_equal(diagonal.nulls[name], null.astype(np.float32), strict=True)
        for correction in ("none", "max"):  # scores that tie are still seen to tie
            p = diagonal.pvalues(correction, metric=name)
            assert_array_equal(p, expected.pvalues(correction, metric=name))
    assert result.parameters["mode"] == "plain"
    assert expected.parameters.items() <= result.parameters.items()
    assert_array_equal(np.concatenate(result.tests), np.concatenate(expected.tests))
    trace = np.einsum("tuii->tu", result.metrics["confusion_matrix"])
    assert_allclose(
        result.scores, trace / np.sum(result.metrics["confusion_matrix"][0, 0])
    )


def assert_both_tests(result, X, X_test, cv):
    """Assert the scores and nulls of models trained anew, in each test.

    The truth of the first moves along with the labels, that of the second stays. The
    penalty of the second is at most .3 times the mean square of centred trials. Two
    labellings of a trial move together.
    """
    folds, c = make_folds(cv, result.y), len(result.classes)
    used, pairs = np.unique(result.y * c + result.y_test, return_inverse=True)
    seed = result.parameters["random_state"]
    found = permute_labels(pairs, result.n_permutations, folds=folds, random_state=seed)
    assert result.parameters["permute"] == found.scheme
    labels = used[found.labels]
    # The folds are those of the labels that are trained with.
    assert_array_equal(np.concatenate(result.tests), np.concatenate(folds.tests))
    train, test = np.moveaxis(X, 2, 0), np.moveaxis(X_test, 2, 0)
    cross = [[B @ A.T for B in test] for A in train]
    given = [[A @ A.T for A in train], cross, result.y, folds.pairs]
    size = np.var(train, axis=1).sum(axis=1)  # by time
    assert (0.3 * size < 20.0).any()
    tests = (
        ([20.0] * len(train), labels % c, result.metrics, result.nulls),
        (
            np.minimum(0.3 * size, 20.0),
            result.y_test,
            result.second_scores,
            result.second_nulls,
        ),
    )
    for lam, truth, scores, nulls in tests:
        expected = reference.reference_generalize(*given, lam, labels // c)
        expected = expected.accuracy(truth)
        assert_allclose(scores["accuracy"], expected[0], rtol=1e-12, atol=0)
        assert_allclose(nulls["accuracy"], expected[1:], rtol=1e-6, atol=0)


def test_another_labelling_of_the_same_trials():
    cv = ms.ShuffleSplit(5, random_state=0)
    X, y = make_arrays(n_classes=3, n_times=3)
    y_test = np.where(np.arange(40) % 3 == 1, "cat", y)
    options = {"cv": cv, "n_permutations": 5, "random_state": 7}
    result = generalize_arrays(X, y, y_test=y_test, reg=Ridge(20.0), **options)
    assert result.parameters["mode"] == "other_labels"
    assert_array_equal(result.classes[result.y_test], y_test)
    assert_both_tests(result, X, X, cv)
    one = generalize_epochs(epochs_of(X, y, other=y_test), y_test="other", **options)
    same(one, generalize_arrays(X, y, y_test=y_test, **options))
    diagonal = result.diagonal()
    assert_array_equal(diagonal.y, result.y_test)
    assert_array_equal(diagonal.scores, np.diag(result.scores))


def test_response_locked_epochs_of_the_same_trials():
    """Cut around other events: cross-validated with the same folds."""
    X, y = make_arrays(n_times=4)
    X_test = make_arrays(n_times=5, seed=3)[0]
    X_test[:, :, 1:3] += 0.5 * X[:, :, 1:3]
    options = {"cv": CV, "n_permutations": 4, "random_state": 7, "same_trials": True}
    arrays = generalize_arrays(X, y, X_test, reg=Ridge(20.0), **options)
    assert arrays.shape == (4, 5)
    assert arrays.parameters["mode"] == "same_trials"
    assert_both_tests(arrays, X, X_test, CV)
    epochs, locked = epochs_of(X, y), epochs_of(X_test, y, tmin=-0.04)
    locked.events[:, 0] += 40
    for event_id in (locked.event_id, {"press": 5}):
        # Test epochs without names of their own are labelled as the training epochs.
        locked.event_id = event_id
        locked.events[:, 2] = 5 if "press" in event_id else locked.events[:, 2]
        options["reg"] = Ridge(2e-11)
        result = generalize_epochs(epochs, test_epochs=locked, **options)
        same(result, arrays, rtol=1e-6)
        assert_array_equal(result.train_times, epochs.times)
        assert_array_equal(result.test_times, locked.times)


@pytest.fixture(scope="module")
def two_sets():
    """Training trials, and other ones with more times and other class counts."""
    X, y = make_arrays(n_classes=3)
    X_test, y_test = make_arrays(n=25, n_times=8, n_classes=3, seed=5)
    return X, y, X_test, np.where(np.arange(25) < 5, "cat", y_test)


def test_chance_is_that_of_the_other_trials(two_sets):
    X, y, X_test, y_test = two_sets
    result = generalize_arrays(X, y, X_test, y_test=y_test, scoring="f1_macro")
    counts = np.bincount(result.y_test, minlength=3) / 25
    chance = np.mean(2 * counts / 3 / (counts + 1 / 3))
    assert result.chance == pytest.approx(chance, rel=1e-12)
    ((train, test),) = result.folds
    assert_array_equal(train, np.arange(40))
    assert_array_equal(test, np.arange(25))


def test_groups_of_training_trials(two_sets):
    X, y, X_test, y_test = two_sets
    options = {"n_permutations": 20, "random_state": 4, "y_test": y_test}
    runs = np.arange(40) // 10
    result = generalize_arrays(X, y, X_test, groups=runs, **options)
    given = {"folds": None, "groups": runs, "random_state": 4}
    labels = permute_labels(result.y, 20, **given).labels
    one, other = X[:, :, 2], X_test[:, :, 3]
    kernels = [one @ one.T], [[other @ one.T]]
    expected = reference.reference_transfer(
        *kernels, result.y, result.lambdas[2:3], labels
    ).accuracy(result.y_test)
    assert_allclose(result.null[:, 2, 3], expected[1:, 0, 0], rtol=1e-6, atol=0)
    assert result.parameters["permute"] == "within_groups"
    assert_array_equal(result.groups, runs)
    free = generalize_arrays(X, y, X_test, groups=runs, permute="free", **options)
    assert free.parameters["permute"] == "free"
    assert (free.null != result.null).any()
    subjects, options["y_test"] = np.arange(40) // 5, NAMES[np.arange(25) % 2]
    result = generalize_arrays(
        X, NAMES[subjects % 2], X_test, groups=subjects, **options
    )
    assert result.parameters["permute"] == "groups"


def test_patterns_equal_those_of_decoding():
    epochs = epochs_of(*make_arrays(n_classes=3))
    for options in ({"scale": "channel"}, {"window": 0.03, "step": 0.02}):
        result = generalize_epochs(epochs, cv=CV, **options)
        expected = decode_epochs(epochs, cv=CV, **options)
        assert set(result.pattern_maps) == {"class", "class_folds", "discriminant"}
        for kind, maps in expected.pattern_maps.items():
            atol = 1e-10 * np.abs(maps).max()
            assert_allclose(result.pattern_maps[kind], maps, rtol=1e-8, atol=atol)
        for name, evoked in expected.patterns().items():
            for found in (result.patterns()[name], result.diagonal().patterns()[name]):
                assert_allclose(found.data, evoked.data, rtol=1e-8, atol=1e-15)
                assert_allclose(found.times, evoked.times, rtol=0, atol=1e-12)
                assert found.nave == evoked.nave
    assert generalize_epochs(epochs, cv=CV, kernel="rbf").pattern_maps == {}
    y = epochs.metadata["word"].to_numpy()
    result = generalize_epochs(epochs, y_test=np.where(y == "cat", "ant", y))
    naves = [evoked.nave for evoked in result.patterns().values()]
    assert naves == [np.sum(y == name) for name in NAMES[:3]]
    with pytest.raises(ValueError, match=r"patterns of the whole result instead"):
        result.diagonal().patterns()
    result = generalize_epochs(epochs, train_on="run < 3")
    assert len(result.patterns()) == 3
    with pytest.raises(ValueError, match="no folds to average over"):
        result.patterns(average="folds")
    for each in (result, result.diagonal()):
        assert [len(rows) for rows in each.folds[0]] == [30, 10]


# ------------------------------------------------ generalization: what is kept of nulls


@pytest.fixture(scope="module")
def by_null():
    X, y = make_arrays(snr=0.6)
    options = {"cv": CV, "scoring": METRICS, "n_permutations": 60, "random_state": 1}
    return {
        null: build.keep(null, generalize_arrays, X, y, **options)
        for null in ("full", "max", "stream", "auto")
    }


def test_summaries_give_the_same_p_values(by_null, tmp_path):
    full = by_null["full"]
    assert (full.pvalues("cluster") <= 0.05).any()
    assert full.pvalues().min() == 1 / 61
    expected = full.null.reshape(60, 36).max(axis=1)
    assert_allclose(full.null_max, expected, rtol=1e-6, atol=0)
    for null in ("max", "stream"):
        result = by_null[null]
        assert_allclose(result.null_max, expected, rtol=1e-6, atol=0)
        for name in METRICS:
            for correction in CORRECTIONS if null == "stream" else CORRECTIONS[:4]:
                found = result.pvalues(correction, metric=name)
                assert_array_equal(found, full.pvalues(correction, metric=name))
        assert_array_equal(result.scores, full.scores)
        assert_array_equal(result.predicted, full.predicted)
        assert (result.n_permutations, result.nulls) == (60, {})
        assert result.parameters["null"] == null
        path = tmp_path / f"{null}.h5"
        result.save(path)
        for copy in (load_result(path), pickle.loads(pickle.dumps(result))):
            assert copy == result
            assert_array_equal(copy.pvalues("max"), result.pvalues("max"))
        assert result not in (full, replace(result, y_test=1 - result.y_test))
        assert repr(result) == (
            f"<GeneralizationResult: highest accuracy {result.scores.max():.3f} at "
            "training time 4 s and test time 5 s (chance 0.500) | 6 training times "
            "from 0.000 to 5.000 s x 6 test times from 0.000 to 5.000 s | "
            "40 trials, 2 classes, 5 folds, 60 permutations>"
        )


@pytest.mark.parametrize("null", ["max", "stream"])
def test_what_was_not_kept_is_refused_with_advice(by_null, null):
    result = by_null[null]
    with pytest.raises(ValueError, match=r"result\.null was not kept.*null='full'"):
        _ = result.null
    diagonal = result.diagonal()
    assert diagonal.n_permutations == 0
    assert_array_equal(diagonal.scores, np.diag(result.scores))
    with pytest.raises(ValueError, match=r"were not kept .*null='full'"):
        diagonal.pvalues()


@pytest.mark.parametrize("null", ["max", "stream"])
def test_outcome_does_not_depend_on_workers(null):
    X, y = make_arrays(n_classes=3)
    X = np.rint(X)  # many near ties
    X[1::2], y[1::2] = X[::2], y[::2]
    options = {"scoring": METRICS, "random_state": 0, "cv": 4, "n_permutations": 12}
    expected = build.keep(null, generalize_arrays, X, y, n_jobs=1, **options)
    with joblib.parallel_config(backend="threading", n_jobs=3):
        assert build.keep(null, generalize_arrays, X, y, **options) == expected


def test_auto_keeps_what_is_small(by_null, monkeypatch):
    same(by_null["auto"], by_null["full"])
    assert by_null["auto"].parameters["null"] == "full"
    X, y = make_arrays()
    options = {"cv": CV, "n_permutations": 60, "random_state": 1}
    full = 4 * 60 * 36 * 2  # two nulls
    for limit, kept in [(full, "full"), (full - 1, "stream")]:
        monkeypatch.setattr("mvpa_kfda.decoding.run.FULL_NULL_BYTES", limit)
        result = generalize_arrays(X, y, **options)
        assert result.parameters["null"] == kept
        assert bool(result.nulls) is (kept == "full")
        two = generalize_arrays(X, y, scoring=["accuracy", "kappa"], **options)
        assert two.parameters["null"] == "stream"
    assert generalize_arrays(X, y, cv=CV).parameters["null"] == "full"


def test_without_permutations():
    X, y = make_arrays(n_times=3)
    result = generalize_arrays(X, y, cv=CV, null="max", scoring=METRICS)
    assert result.n_permutations == result.diagonal().n_permutations == 0
    assert result.nulls == result.null_summaries == {}
    assert result.second_nulls == result.second_summaries == {}
    assert result.null.shape == (0, 3, 3)
    assert result.null_max.shape == (0,)
    with pytest.raises(ValueError, match="no label permutations"):
        result.pvalues()
    assert list(result.to_dataframe()) == ["train_time", "test_time", *METRICS]


def test_few_arrangements_are_listed():
    X, y = make_arrays(n=8, n_times=2)
    options = {"cv": ms.KFold(2), "permute": "free", "n_permutations": 500}
    for null in ("full", "max", "stream"):
        result = build.keep(null, generalize_arrays, X, y, **options)
        assert result.parameters["exact"]
        assert result.n_permutations == 69  # 8! / (4! 4!) - 1
        assert result.pvalues().min() >= 1 / 70


# --------------------------------------------------------- generalization: two nulls


def noise_with_effect(n=40, n_classes=2, p=6, n_times=5):
    """Return noise (n, p, .) with classes that differ from the third time on, and y."""
    rng, y = np.random.default_rng(0), np.arange(n) % n_classes
    X = rng.standard_normal((n, p, n_times))
    X[:, :, 2:] += rng.standard_normal((n_classes, p))[y][:, :, None]
    return X, y


def of_both_tests(result, correction):
    """Return the p-values of each test by itself."""
    assert (result.second_scores["accuracy"] != result.scores).any()
    tests = (result.metrics, result.nulls), (result.second_scores, result.second_nulls)
    return [
        corrected_p_values(scores["accuracy"], nulls["accuracy"], correction)
        for scores, nulls in tests
    ]


@pytest.fixture(scope="module")
def plain():
    return generalize_arrays(*noise_with_effect(), n_permutations=60, random_state=0)


#: How models are trained, with a penalty above .3 times the size of trials.
STRONG = {
    "more features": {"p": 60},
    "landmarks": {"approx": Nystrom(10, random_state=0)},
    "steps": {"preprocess": "zscore"},
    "averages": {"average": 2, "n_repeats": 2},
    "averages, steps": {"average": 2, "preprocess": "zscore"},
    "steps, by labels": {"preprocess": ["noise_scale"]},
    "repeats": {"n_repeats": 2},
    "other labels": {"y_test": np.arange(40) // 4 % 2},
    "chosen in folds": {"reg": "auto", "preprocess": "zscore"},
    "single precision": {"dtype": "float32", "scoring": "accuracy"},
}


@pytest.mark.parametrize("how", STRONG.values(), ids=STRONG)
def test_the_second_test_has_a_smaller_penalty(how):
    """It is that of reg=0.3; scores and the first test are as they are without it."""
    options = {"scoring": ["roc_auc", "accuracy"], "cv": ms.KFold(4)} | how
    options = {"reg": 2.0, "random_state": 0} | options
    X, y = noise_with_effect(p=options.pop("p", 6), n_times=3)
    result = generalize_arrays(X, y, n_permutations=5, **options)
    alone = generalize_arrays(X, y, **options)
    second = generalize_arrays(X, y, n_permutations=5, **options | {"reg": 0.3})
    assert alone.second_scores == second.second_scores == {}
    assert (np.ravel(result.lambdas) > np.ravel(second.lambdas)).any()
    for name in result.scoring:
        assert_array_equal(result.metrics[name], alone.metrics[name])
        scores, null = result.second_scores[name], result.second_nulls[name]
        assert_allclose(scores, second.metrics[name], rtol=1e-12, atol=0)
        assert_allclose(null, second.second_nulls[name], rtol=1e-6, atol=0)
        assert (result.nulls[name] != second.nulls[name]).any()


def test_times_with_a_smaller_penalty_are_tested_with_it():
    X, y = noise_with_effect(n_times=3)
    X[:, :, 1] *= 10
    options = {"n_permutations": 5, "random_state": 0, "cv": ms.KFold(4)}
    result, smaller = (
        generalize_arrays(X, y, reg=reg, **options) for reg in (Ridge(20.0), 0.3)
    )
    scores, null = result.second_scores["accuracy"], result.second_nulls["accuracy"]
    assert_array_equal(scores[1], result.scores[1])
    assert_array_equal(scores[::2], smaller.scores[::2])
    assert_array_equal(null[:, ::2], smaller.second_nulls["accuracy"][:, ::2])
    assert (null[:, 1] != smaller.second_nulls["accuracy"][:, 1]).any()
    for reg in (0.3, Ridge(1.0), Tuned([0.1, 10.0]), "tuned"):
        result = generalize_arrays(X, y, reg=reg, **options)
        assert result.second_scores == {}
        assert result.second_nulls


@pytest.mark.parametrize("correction", ["none", "max", "max-step-down", "bonferroni"])
def test_the_larger_p_value_counts_but_for_the_diagonal(plain, correction):
    first, second = of_both_tests(plain, correction)
    expected = np.maximum(first, second)
    np.fill_diagonal(expected, np.diag(first))
    assert_array_equal(plain.pvalues(correction), expected)
    assert (second > first).any()


def test_other_labels_pass_both_tests_on_the_diagonal_too():
    X, y = noise_with_effect(n_classes=3, n=42)
    y_test = np.where(np.arange(42) < 6, (y + 1) % 3, y)
    result = generalize_arrays(X, y, y_test=y_test, n_permutations=60, random_state=0)
    diagonal = result.diagonal()
    for correction in ("none", "max"):
        for each in (result, diagonal):
            first, second = of_both_tests(each, correction)
            assert_array_equal(each.pvalues(correction), np.maximum(first, second))
    for alternative in ("greater", "less", "two-sided"):
        p = result.pvalues(alternative=alternative)
        assert_array_equal(diagonal.pvalues(alternative=alternative), np.diag(p))


def test_the_false_discovery_rate_is_that_of_cells_that_pass_both(plain):
    options = {"n_permutations": 60, "random_state": 0, "null": "max"}
    for result in (plain, generalize_arrays(*noise_with_effect(), **options)):
        p = result.pvalues("none")
        expected = false_discovery_control(p.ravel()).reshape(p.shape)
        assert_allclose(result.pvalues("fdr"), expected, rtol=1e-14, atol=0)
    # Half of the cells pass one test only, the other half the other one.
    half = np.arange(25).reshape(5, 5) % 5 < 3
    low, high = np.zeros((60, 5, 5), np.float32), np.ones((60, 5, 5), np.float32)
    result = replace(
        plain,
        metrics={"accuracy": np.full((5, 5), 0.5)},
        nulls={"accuracy": np.where(half, low, high)},
        second_scores={},
        second_nulls={"accuracy": np.where(half, high, low)},
        parameters={**plain.parameters, "mode": "other_labels"},
    )
    assert_array_equal(result.pvalues("fdr"), np.ones((5, 5)))


def test_the_diagonal_counts_in_no_cluster_that_is_kept_of_the_second_null():
    X, y = noise_with_effect()
    options = {"n_permutations": 40, "random_state": 0}
    full, stream = (
        build.keep(null, generalize_arrays, X, y, **options)
        for null in ("full", "stream")
    )
    scores, null = full.second_scores["accuracy"], full.second_nulls["accuracy"]
    kept = stream.second_summaries["accuracy"]
    for name in ("cluster_maximum", "tfce_maximum"):
        of_all = getattr(Null(scores, null), name)
        beside = getattr(Null(scores, null, exempt=np.eye(5, dtype=bool)), name)
        assert_allclose(kept[name], beside, rtol=1e-6, atol=0)
        assert not np.allclose(of_all, beside)
    for name in ("cluster", "tfce"):
        assert_array_equal(stream.pvalues(name), full.pvalues(name))


# ---------------------------------------------------------------- memory, and the disk


def small_epochs(n=30, seed=0):
    X, codes = build.trials((n // 3,) * 3, 4, 5, seed)
    return build.jittered(build.epochs(X, codes), seed)


def test_maps_too_large_for_memory(monkeypatch):
    """The size, what is there and what to do, before anything is computed."""
    monkeypatch.setattr(analysis, "run", lambda *_: pytest.fail("it has started"))
    monkeypatch.setattr(memory, "usable_memory", lambda: 99_000)
    epochs = small_epochs()
    data = epochs.get_data(), epochs.metadata["word"]
    message = (
        r"^A map of 5 x 5 positions with 1000 permutations needs 100 kB; this machine "
        r"or job has 99 kB of memory\. Use fewer times .*, fewer permutations or "
        r"null='max' instead of 'full'\.$"
    )
    for function, given in ((generalize_epochs, (epochs,)), (generalize_arrays, data)):
        with pytest.raises(ValueError, match=message):
            function(*given, n_permutations=1000, null="full")
    monkeypatch.setattr(memory, "usable_memory", lambda: 1000)
    message = r"^A map of 5 x 5 times .* has 1 kB .* \(step=, crop or decimate\)\.$"
    with pytest.raises(ValueError, match=message):
        generalize_epochs(epochs, n_permutations=10, null="max")
    monkeypatch.setattr(memory, "usable_memory", lambda: 10**5)
    message = r"A map of 4 x 5 positions .* needs .* or fewer permutations\."
    with pytest.raises(ValueError, match=message):
        decode_epochs(epochs, sensors=np.eye(4), n_permutations=1000)


def test_what_fits_into_memory_is_computed(monkeypatch):
    epochs, others = small_epochs(), small_epochs(18, seed=1)
    options = {"n_permutations": 50, "null": "full", "random_state": 0}
    cell = 30 + 8 * (1 + 5)  # predictions, scores of all trials and of each fold
    needed = 4 * 2 * 50 * 25 + 25 * cell + 4 * 5 * 30 * 4  # null, map, test rows
    one_null = 4 * 50 * 25 + 25 * (18 + 8 + 8) + 4 * 5 * 18 * 4
    for given, size in (({"cv": 5}, needed), ({"test_epochs": others}, one_null)):
        monkeypatch.setattr(memory, "usable_memory", lambda: size)  # noqa: B023
        result = generalize_epochs(epochs, **given, **options)
        monkeypatch.setattr(memory, "usable_memory", lambda: size - 1)  # noqa: B023
        with pytest.raises(ValueError, match=r"^A map of 5 x 5 times .* needs"):
            generalize_epochs(epochs, **given, **options)
        generalize_epochs(epochs, **given, **(options | {"null": "max"}))
        monkeypatch.setattr(memory, "usable_memory", lambda: None)
        assert generalize_epochs(epochs, **given, **options) == result


def test_maps_too_large_for_the_disk_are_refused_and_others_leave_no_file(
    monkeypatch, tmp_path
):
    class Usage:
        free = 199_999

    epochs, options = small_epochs(), {"random_state": 0, "cv": 5}
    monkeypatch.setattr(shutil, "disk_usage", lambda folder: Usage)
    monkeypatch.setattr("mvpa_kfda.decoding.run.FULL_NULL_BYTES", 0)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    folder = re.escape(tempfile.gettempdir())
    message = (
        rf"^null='auto' writes 200 kB for 5 x 5 times and 1000 permutations into "
        rf"{folder}, which has 200 kB left\. Use fewer times .*TMPDIR.*null='max'"
    )
    with pytest.raises(ValueError, match=message):
        generalize_epochs(epochs, n_permutations=1000, **options)
    for n_permutations in (0, 999):
        generalize_epochs(epochs, n_permutations=n_permutations, **options)
        assert list(tmp_path.iterdir()) == []


# ------------------------------------------------------------------------ calibration


def noise(rng):
    """Noise that lasts, so that times resemble each other."""
    X = np.repeat(rng.standard_normal((30, 5, 1)), 2, axis=2)
    X += 0.3 * rng.standard_normal((30, 5, 2))
    return (X, np.arange(30) % 2), {"cv": CV}


def one_time(rng):
    """Noise, and at the second time classes that are plain to see."""
    (X, y), options = noise(rng)
    X[:, 0, 1] += 3 * y
    return (X, y), options


def other_epochs(rng):
    (X, y), options = noise(rng)
    X_test = X[:, :, ::-1] + 0.3 * rng.standard_normal((30, 5, 2))
    X_test[:, 0, 1] += 3 * y
    return (X, y, X_test), options | {"same_trials": True}


def other_labels(rng):
    """Labels to test that are plain to see; those to train with say nothing."""
    (X, y), _ = noise(rng)
    y_test = rng.permutation(y)
    X[:, 0] += 3 * y_test[:, None]
    return (X, y), {"y_test": y_test, "cv": ms.KFold(3)}


def alike_labels(rng):
    """Noise, whose two labellings are alike."""
    (X, y), options = noise(rng)
    return (X, y), options | {"y_test": np.where(rng.uniform(size=30) < 0.3, 1 - y, y)}


def other_trials(rng):
    """Test trials whose labels are plain to see; training trials are noise."""
    (X, y), _ = noise(rng)
    X_test, y_test = rng.standard_normal((30, 5, 2)), rng.permutation(y)
    X_test[:, 0] += 3 * y_test[:, None]
    return (X, y, X_test), {"y_test": y_test}


def noisy_tests(rng):
    """The other way round."""
    (X, y), _ = noise(rng)
    X_test, y_test = rng.standard_normal((30, 5, 2)), rng.permutation(y)
    X[:, 0] += 3 * y[:, None]
    return (X, y, X_test), {"y_test": y_test}


#: What makes the data; all cells are without an effect, but for the last of one.
ALL = [(0, 0), (0, 1), (1, 0), (1, 1)]
MODES = [
    *(noise, one_time, other_epochs, other_labels),
    *(alike_labels, other_trials, noisy_tests),
]


@pytest.mark.slow
@pytest.mark.parametrize("scoring", ["accuracy", "roc_auc"])
@pytest.mark.parametrize("mode", MODES)
def test_noise_is_rarely_significant(mode, scoring):
    """Cells without an effect pass no more often than their level."""
    p, smallest, n_data = [], [], 400
    cells = ALL[:3] if mode is one_time else ALL
    for seed in range(n_data):
        arguments, options = mode(np.random.default_rng(seed))
        options |= {"n_permutations": 39, "random_state": seed, "scoring": scoring}
        result = generalize_arrays(*arguments, **options)
        p.append([result.pvalues()[cell] for cell in cells])
        smallest.append(result.pvalues("max").min())
    samples = list(np.transpose(p))
    if cells is ALL:
        samples.append(np.array(smallest))
    for sample in samples:
        for alpha in (0.05, 0.1, 0.2, 0.5):
            margin = 3 * np.sqrt(alpha * (1 - alpha) / n_data)
            assert (sample <= alpha + 1e-9).mean() < alpha + margin


@pytest.mark.slow
@pytest.mark.parametrize("mode", [other_trials, noisy_tests])
def test_p_values_of_other_trials_are_uniform_on_noise(mode):
    rng, p = np.random.default_rng(0), []
    for seed in range(400):
        arguments, options = mode(np.random.default_rng(seed))
        options |= {"n_permutations": 39, "random_state": seed, "scoring": "roc_auc"}
        result = generalize_arrays(*arguments, **options)
        larger = (result.null[:, 0, 1] > result.scores[0, 1] + 1e-5).sum()
        tied = (abs(result.null[:, 0, 1] - result.scores[0, 1]) <= 1e-5).sum()
        p.append((larger + rng.uniform() * (1 + tied)) / 40)
    assert kstest(p, "uniform").pvalue > 0.01


@pytest.mark.slow
def test_effects_are_found_in_every_mode():
    """What the null of a mode is about is found when it is there.

    With few channels it would not be: a model of any direction would then sort strong
    classes by chance.
    """
    rng = np.random.default_rng(0)
    X, X_test = rng.standard_normal((2, 60, 40, 2))
    y, y_test = np.arange(60) % 2, rng.permutation(np.arange(60) % 2)
    X += 0.3 * (2 * y - 1)[:, None, None]
    X_test += 0.3 * (2 * y_test - 1)[:, None, None]
    options = {"n_permutations": 99, "random_state": 0}
    flipped = np.where(np.arange(60) % 10 == 0, 1 - y, y)
    for result in (
        generalize_arrays(X, y, **options),
        generalize_arrays(X, y, X_test, y_test=y_test, **options),
        generalize_arrays(X, y, y_test=flipped, **options),
    ):
        assert (result.pvalues("max") <= 0.05).all()
