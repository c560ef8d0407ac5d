"""Epochs and power as decoding takes them: against plain NumPy and MNE-Python."""

from itertools import pairwise

import mne
import numpy as np
import pytest
from mne.time_frequency import EpochsTFRArray
from numpy.testing import assert_allclose, assert_array_equal

from mvpa_kfda.data.epochs import (
    check_same_trials,
    data_channels,
    find_neighbours,
    fit_scaling,
    picked_channels,
    read_epoch_data,
    read_pairs,
    shared_trials,
)
from mvpa_kfda.kfda.kernels import RBF, Linear
from tests import build

X, CODES = build.trials((6, 8, 7), 4, 5)
N = len(CODES)
EPOCHS = build.epochs(X, CODES)


def given(codes=CODES, **more):
    return build.epochs(X, codes, **more)


def named(*names):
    """Return epochs whose events have other names."""
    epochs = given()
    epochs.event_id = dict(zip(names, (1, 2, 3), strict=True))
    return epochs


# ------------------------------------------------------------------- data and channels


def test_data_are_samples_of_the_good_channels():
    epochs = given(types=["eeg", "eog", "mag", "ref_meg"], units={}, sfreq=50.0)
    epochs.info["bads"] = ["EEG0"]
    data = read_epoch_data(epochs, np.arange(N) % 2)
    assert_array_equal(data.data, X[:, [2]].transpose(2, 0, 1))
    assert data.info["ch_names"] == ["MAG2"]
    assert_array_equal(data.times, epochs.times)
    assert (data.sfreq, data.freqs) == (50.0, None)
    assert data.record == {"channels_left_out": {"bad": 1, "reference": 1}}
    assert data_channels(epochs.info) == [2]
    assert picked_channels(epochs.info, "eeg") == ["EEG0"]
    assert picked_channels(epochs.info, "grad") == []
    data = read_epoch_data(epochs, np.arange(N) % 2, ["EOG1", "REF_MEG3"])
    assert_array_equal(data.data, X[:, [1, 3]].transpose(2, 0, 1))
    assert data.record == {}
    for picks in ("EEG0", "grad", ["nothing"]):
        with pytest.raises(
            ValueError, match=r"No good channels for picks=.*\['EEG0'\]"
        ):
            read_epoch_data(epochs, picks=picks)


def test_power_is_that_of_each_frequency_in_its_own_time():
    power = build.power(X, CODES)
    data = read_epoch_data(power, power=True)
    assert_array_equal(data.data, power.data.transpose(2, 3, 0, 1))
    assert_array_equal(data.freqs, power.freqs)
    times = np.arange(5) * 0.04  # other ones than the samples of its info
    made = EpochsTFRArray(power.info, power.data, times, power.freqs)
    data = read_epoch_data(made, np.arange(N) % 2, power=True)
    assert_allclose(data.sfreq, 25.0, rtol=1e-12)


def test_what_is_no_epochs_is_refused():
    for wrong in (X, "x-epo.fif", EPOCHS.average(), build.power(X, CODES)):
        with pytest.raises(TypeError, match=r"epochs must be an mne\.Epochs object; g"):
            read_epoch_data(wrong)
    with pytest.raises(ValueError, match="epochs is empty: no epoch is left"):
        read_epoch_data(EPOCHS[:0])
    epochs = given()
    del epochs.event_id["cat"]
    with pytest.raises(ValueError, match=r"event_id has no name for the .*codes \[3\]"):
        read_epoch_data(epochs)
    epochs = EPOCHS[EPOCHS.events[:, 2] != 3]
    epochs.event_id["cat"] = 3
    with pytest.raises(ValueError, match=r"names the class 'cat', but epochs has no"):
        read_epoch_data(epochs, ["ant", "cat"])


# ---------------------------------------------------------------------- labels, by name


def test_labels_are_events_tags_columns_or_what_is_given():
    assert_array_equal(read_epoch_data(EPOCHS).trials.y, build.NAMES[CODES])
    assert_array_equal(read_epoch_data(EPOCHS, "word").trials.y, build.NAMES[CODES])
    assert_array_equal(read_epoch_data(EPOCHS, CODES).trials.y, CODES)
    epochs = named("a/left", "b/left", "a/right")
    for y, classes in (
        (["a", "b"], [["a/left", "a/right"], ["b/left"]]),
        ({"a ": "right/a", "b": ["b"]}, [["a/right"], ["b/left"]]),
    ):
        data = read_epoch_data(epochs, y, groups="run")
        events = dict(zip("ab", classes, strict=True))
        names = np.array(["a/left", "b/left", "a/right"])[CODES]
        kept = np.flatnonzero(np.isin(names, np.concatenate(classes)))
        assert_array_equal(data.kept, kept)
        assert_array_equal(data.trials.y, [name[0] for name in names[kept]])
        assert_array_equal(data.trials.groups, build.groups_of(N)[kept])
        assert_array_equal(data.data, X[kept].transpose(2, 0, 1) * 1e-6)
        assert data.record["classes"] == events
        assert_array_equal(data.record["selected"], kept)


@pytest.mark.parametrize(
    ("y", "error", "match"),
    [
        (["ant", "owl"], ValueError, "y names 'owl', which is no event or tag of epo"),
        (["ant"], ValueError, "y names 1 class; decoding needs two or more"),
        (["ant", "ant "], ValueError, "y names 'ant' twice among 2 names, for 21 epo"),
        (
            {"x": "ant", "y": ["bee", "ant"]},
            ValueError,
            r"event .*'ant'.* in two classes",
        ),
        ({"x": "ant", "y": []}, TypeError, "names classes by a dict"),
        ({"x": "ant", " ": "bee"}, TypeError, "names classes by a dict"),
        ("colour", ValueError, "y='colour' is not a metadata column. The columns are"),
    ],
)
def test_labels_that_are_refused(y, error, match):
    with pytest.raises(error, match=match):
        read_epoch_data(EPOCHS, y)


# ----------------------------------------------------------------- order of recording


def in_time(samples, groups):
    """Return the order of recording by hand, None where it is not known.

    Groups that follow each other in time are parts of one recording; others are
    recordings of their own, in the order in which they are given.
    """
    rows = {g: np.flatnonzero(groups == g) for g in dict.fromkeys(groups.tolist())}
    rows = [of_one[np.argsort(samples[of_one])] for of_one in rows.values()]
    if any((np.diff(samples[of_one]) == 0).any() for of_one in rows):
        return None
    by_time = sorted(rows, key=lambda of_one: samples[of_one[0]])
    apart = all(samples[a[-1]] < samples[b[0]] for a, b in pairwise(by_time))
    return np.concatenate(by_time if apart else rows)


@pytest.mark.parametrize("seed", range(60))
def test_trials_know_the_order_of_recording(seed):
    rng = np.random.default_rng(seed)
    sizes = rng.integers(1, 5, rng.integers(1, 4))
    groups, n = np.repeat(np.arange(len(sizes)), sizes), sizes.sum()
    starts = rng.choice([0, 1000], len(sizes)) * np.arange(len(sizes))
    samples = np.concatenate(
        [
            s + np.cumsum(rng.integers(1, 300, m))
            for s, m in zip(starts, sizes, strict=True)
        ]
    )
    groups = rng.permutation(len(sizes))[groups]
    if seed % 3:  # put together by condition
        order = rng.permutation(n) if seed % 3 == 1 else np.lexsort((groups % 2,))
        samples, groups = samples[order], groups[order]
    epochs = build.epochs(X[:1].repeat(n, axis=0) + np.arange(n)[:, None, None])
    epochs.events[:, 0] = samples
    trials = read_epoch_data(epochs, np.arange(n) % 2, groups=groups).trials
    expected = in_time(samples, groups)
    steps = np.diff(samples)
    if expected is None or (steps == steps[:1]).all():
        assert trials.numbers is None
    elif (steps > 0).all():
        assert_array_equal(trials.numbers, np.arange(n))
    else:
        assert_array_equal(trials.numbers, np.argsort(expected))


def test_dropped_epochs_leave_gaps_in_the_order():
    epochs = build.jittered(given())
    kept = np.delete(np.arange(N), [2, 3, 9])
    assert_array_equal(read_epoch_data(epochs[kept]).trials.numbers, kept)


# ------------------------------------------------------------------------------- scales


def scaled(epochs, scale, kernel="linear", power=False):
    """Return data of one scale, and the channels' pattern of ones in their unit."""
    data = read_epoch_data(epochs, np.arange(N) % 2, power=power)
    kernel = {"linear": Linear(), "rbf": RBF(None)}[kernel]
    there, back = fit_scaling(data.info, data.data.copy(), scale, kernel)
    return there(data.data.copy()), back(np.ones(data.data.shape[-1]))


def test_channels_are_brought_to_one_scale():
    epochs = given(types=["eeg", "eeg", "mag", "mag"])
    raw = read_epoch_data(epochs).data
    stds = [raw[..., :2].std(), raw[..., 2:].std()]
    for scale, kernel, divisors in (
        ("auto", "linear", np.repeat(stds, 2)),
        ("channel", "linear", raw.std(axis=(0, 1))),
        (None, "linear", np.ones(4)),
    ):
        found, pattern = scaled(epochs, scale, kernel)
        assert_allclose(found, raw / divisors, rtol=1e-12)
        assert_allclose(pattern, divisors, rtol=1e-12)
    # Of one type, only kernels that have a width need it.
    raw = read_epoch_data(EPOCHS).data
    assert_array_equal(scaled(EPOCHS, "auto")[0], raw)
    assert_allclose(scaled(EPOCHS, "auto", "rbf")[0], raw / raw.std(), rtol=1e-12)
    # What is flat, even at zero, stays as it is.
    flat = X.copy()
    flat[:, 0], flat[:, 1] = 0.0, 7.0
    found, pattern = scaled(build.epochs(flat, CODES, units={}), "channel")
    assert_array_equal(found[..., :2], flat[:, :2].transpose(2, 0, 1))
    assert_allclose(found[..., 2:].std(axis=(0, 1)), 1, rtol=1e-12)
    assert_array_equal(pattern[:2], 1)
    # Power has a scale at each frequency.
    power = build.power(X, CODES, freqs=(8.0, 16.0, 32.0))
    raw = read_epoch_data(power, power=True).data
    found, _ = scaled(power, "channel", power=True)
    assert_allclose(found, raw / raw.std(axis=(1, 2), keepdims=True), rtol=1e-12)


def test_a_noise_covariance_whitens():
    covariance = mne.compute_covariance(EPOCHS, method="empirical", verbose=False)
    found, pattern = scaled(EPOCHS, covariance)
    whitener, _ = mne.cov.compute_whitener(covariance, EPOCHS.info, verbose=False)
    raw = read_epoch_data(EPOCHS).data
    assert_allclose(found, raw @ whitener.T, rtol=1e-9, atol=1e-12)
    assert_allclose(whitener @ pattern, np.ones(4), rtol=1e-9)
    lacking = covariance.copy().pick_channels(EPOCHS.ch_names[1:], verbose=False)
    with pytest.raises(ValueError, match=r"lacks 1 of the 4 channels, e\.g\. 'EEG0'"):
        scaled(EPOCHS, lacking)


# --------------------------------------------------------------------------- neighbours


def test_neighbours_are_those_of_a_matrix_or_of_mne():
    chain, names = build.chain(4), EPOCHS.ch_names
    pairs = [[0, 1, 2], [1, 2, 3]]
    assert_array_equal(find_neighbours(EPOCHS.info, chain), pairs)
    order = [2, 0, 3, 1]
    mixed = chain[np.ix_(order, order)], [names[i] for i in order]
    assert_array_equal(find_neighbours(EPOCHS.info, mixed), pairs)
    montage = mne.channels.make_standard_montage("biosemi32")
    info = mne.create_info(montage.ch_names, 100.0, "eeg").set_montage(montage)
    matrix, _ = mne.channels.find_ch_adjacency(info, "eeg")
    expected = np.triu(matrix.toarray(), k=1).nonzero()
    for sensors in ("adjacency", True):
        assert_array_equal(find_neighbours(info, sensors), expected)


@pytest.mark.parametrize(
    ("sensors", "match"),
    [
        ("adjacency", "finds no neighbours of the 4 eeg channels"),
        ("near", "'sensors': 'near'"),
        (np.eye(3), r"\(3, 3\)"),
        (2 * build.chain(4), "must hold zeros and ones; got values from 0 to 2"),
        (
            np.triu(build.chain(4)),
            r"must be symmetric; .* the pair \(0, 1\)",
        ),
        ((build.chain(4), list("abcd")), "lacks 4 of the 4 picked channels: 'EEG0'"),
    ],
)
def test_neighbours_that_are_refused(sensors, match):
    with pytest.raises((TypeError, ValueError), match=match):
        find_neighbours(EPOCHS.info, sensors)
    few = mne.pick_info(EPOCHS.info, [0, 1, 2])
    with pytest.raises(ValueError, match=r"four or more channels .* 3 of type eeg"):
        find_neighbours(few, "adjacency")


# ------------------------------------------------------------- training and test trials


def test_trials_that_are_in_both_are_found_and_asked_about():
    times = np.arange(5) / 100
    data = X.transpose(2, 0, 1)
    test, later = data[1:, [3, 8]], times[1:]
    assert shared_trials(data, times, test, later).tolist() == [[3, 0], [8, 1]]
    assert shared_trials(data, times, test, later + 1).shape == (0, 2)
    assert shared_trials(0 * data, times, 0 * test, later).shape == (0, 2)
    twice = data[:, [0, 1, 1]]
    assert shared_trials(twice, times, twice, times).tolist() == [
        [0, 0],
        [1, 1],
        [2, 2],
    ]

    def check(same_trials, test, names=("X", "X_test")):
        return check_same_trials(same_trials, data, times, test, times, names)

    new = build.trials((6, 8, 7), 4, 5, seed=1)[0].transpose(2, 0, 1)
    assert [check(said, new) for said in (None, False, True)] == [False, False, True]
    assert check(True, data)
    message = r"3 of the 3 trials of X_test are also in X \(trial 0 is trial 4 there\)"
    for said in (None, False):
        with pytest.raises(ValueError, match=message):
            check(said, data[:, 4:7])
    with pytest.raises(ValueError, match="X has 21 and X_test has 20"):
        check(True, new[:, 1:])
    with pytest.raises(ValueError, match="trial 0 of X_test is trial 20 of X"):
        check(True, data[:, ::-1])
    one = new.copy()
    one[:, 7] = data[:, 2]  # may be chance, if that is said
    with pytest.raises(ValueError, match="same_trials=False if they are equal by chan"):
        check(None, one)
    with pytest.warns(RuntimeWarning, match="1 of the 21 trials"):
        assert check(False, one) is False


def shifted(by, first=0):
    """Return other data with events that many samples later, by turns."""
    epochs = build.epochs(build.trials((6, 8, 7), 4, 5, seed=1)[0], CODES)
    epochs.events[:, 0] += np.resize(by, N) + first
    return epochs


@pytest.mark.parametrize(
    ("by", "alike"),
    [
        ([0, 0], True),  # the same events
        ([4, 3], True),  # epochs of 5 samples share one
        ([5, 3], False),
        ([-4, -3], True),
        ([-5, -3], False),
        ([3, 3], False),  # as another recording with the same timing
    ],
)
def test_epochs_that_overlap_one_by_one_are_asked_about(by, alike):
    test, said = shifted(by), None
    if alike:
        with pytest.raises(ValueError, match="Use same_trials=True if they are"):
            read_pairs(EPOCHS, None, None, test_epochs=test)
        said = False
    train, data, times = read_pairs(
        EPOCHS, None, None, test_epochs=test, same_trials=said
    )
    assert_array_equal(data, test.get_data().transpose(2, 0, 1))
    assert_array_equal(times, test.times)
    assert_array_equal(train.trials.test.y, build.NAMES[CODES])


def test_pairs_have_the_channels_and_classes_of_both():
    test = shifted([9, 70])
    test.info["bads"] = ["EEG1"]
    test.reorder_channels(["EEG3", "EEG1", "EEG0", "EEG2"])
    y, y_test = ["ant", "bee"], {"ant": "cat", "bee": "bee"}
    train, data, _ = read_pairs(EPOCHS, y, None, test_epochs=test, y_test=y_test)
    assert train.info["ch_names"] == ["EEG0", "EEG2", "EEG3"]
    kept = CODES > 0
    expected = test.get_data(picks=train.info["ch_names"])[kept]
    assert_array_equal(data, expected.transpose(2, 0, 1))
    words = np.where(CODES == 1, "bee", "ant")
    assert_array_equal(train.trials.test.y, words[kept])
    assert_array_equal(train.data, 1e-6 * X[CODES < 2][:, [0, 2, 3]].transpose(2, 0, 1))
    # The same trials by two labellings: those with a class in both.
    train, data, _ = read_pairs(EPOCHS, y, None, y_test={"x": "bee", "y": ["ant"]})
    assert data is train.data
    assert_array_equal(train.trials.y_test, np.where(CODES == 1, "x", "y")[CODES < 2])


# -------------------------------------------------------------------------------- files
