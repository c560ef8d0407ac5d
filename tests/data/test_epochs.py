"""Epochs and power as decoding takes them: against plain NumPy and MNE-Python."""

import re
from itertools import pairwise

import mne
import numpy as np
import pandas as pd
import pytest
from mne.time_frequency import EpochsTFRArray
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn.model_selection import GroupKFold, KFold

from mvpa_kfda import (
    Ridge,
    cross_validate,
    decode_epochs,
    generalize_arrays,
    generalize_epochs,
    load_result,
    methods_text,
    verify,
)
from mvpa_kfda.cli.main import main
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
from tests.build import NAMES

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

PLAIN, PLAIN_CODES = build.trials((16, 16, 16), 5, 4)
MIXED = ("mag", "mag", "grad", "grad", "eeg", "eeg")
OPTIONS = {"cv": KFold(5), "n_permutations": 9, "random_state": 0}


def replaced(epochs, data):
    """Return the same epochs with other data."""
    other = epochs.copy()
    other._data = data
    return other


def make_epochs(types="eeg", n_times=4, seed=0, **metadata):
    """Return epochs of three classes in random order."""
    p = 5 if types == "eeg" else len(types)
    X, codes = build.trials((16, 16, 16), p, n_times, seed)
    metadata = {"number": codes + 10} | metadata
    return build.epochs(X, codes, types, tmin=-0.02, **metadata)


def same(one, other):
    """Assert that two results have the same numbers and labels."""
    assert type(one) is type(other)
    for name in ("y", "predicted", "scores"):
        assert_array_equal(getattr(one, name), getattr(other, name))
    if one.n_permutations:
        assert_array_equal(one.null, other.null)


def assert_equals_arrays(result, features, y, **options):
    """Assert that every time is what `cross_validate` gives of its features."""
    assert len(result.times) == len(features)
    for i, X in enumerate(features):
        one = cross_validate(X, y, **options)
        assert_array_equal(result.predicted[i], one.predicted)
        assert_allclose(result.null[:, i], one.null, rtol=0, atol=1e-12)


# ---------------------------------------------------------------------- labels, groups


def test_labels_from_everywhere_are_the_same():
    epochs = make_epochs()
    epochs.event_id["never"] = 9
    expected = decode_epochs(epochs, **OPTIONS)
    words, numbers = epochs.metadata["word"], epochs.metadata["number"]
    assert_array_equal(expected.classes, NAMES[:3])
    assert_array_equal(expected.classes[expected.y], words)
    epochs.metadata["cat"] = pd.Categorical(words, categories=NAMES[2::-1])
    epochs.metadata["text"] = pd.array(words, dtype="string")
    epochs.metadata["whole"] = numbers.astype("Int64")
    shuffled = words.sample(frac=1, random_state=0).sort_index()
    of_words = ("word", "cat", "text", words, words.astype("category"), tuple(words))
    of_words = (*of_words, words.to_numpy(), shuffled.set_axis(range(100, 148)))
    of_numbers = ("number", "whole", numbers, epochs.events[:, 2] + 9)
    for classes, given in ((NAMES[:3], of_words), ([10, 11, 12], of_numbers)):
        for y in given:
            result = decode_epochs(epochs, y, **OPTIONS)
            assert_array_equal(result.classes, classes)
            same(result, expected)
    two = decode_epochs(epochs, numbers > 10, **OPTIONS)
    assert_array_equal(two.classes, [False, True])
    assert two.chance == 0.5
    epochs.events[[3, 5], 2] = [77, 78]
    match = r"event_id has no name for the event codes \[77, 78\].*or pass y"
    with pytest.raises(ValueError, match=match):
        decode_epochs(epochs)
    decode_epochs(epochs, "word")


def test_groups_by_column_or_array():
    epochs, options = make_epochs(), {"n_permutations": 20, "random_state": 1}
    result = decode_epochs(epochs, groups="run", **options)
    runs, words = epochs.metadata["run"].to_numpy(), epochs.metadata["word"]
    assert [set(runs[test]) for _, test in result.folds] == [{0}, {1}, {2}, {3}]
    assert_array_equal(result.groups, runs)
    assert result.parameters["cv"] == {"name": "LeaveOneGroupOut"}
    for groups in (runs, epochs.metadata["run"], [f"r{r}" for r in runs]):
        same(result, decode_epochs(epochs, groups=groups, **options))
    features = np.moveaxis(epochs.get_data(), 2, 0)
    assert_equals_arrays(result, features, words, groups=runs, **options)


def without_metadata(epochs):
    epochs.metadata = None
    return epochs


def with_missing(name):
    def change(epochs):
        column = epochs.metadata[name].astype(object)
        epochs.metadata[name] = column.where(epochs.metadata["run"] > 0)
        return epochs

    return change


def unchanged(epochs):
    return epochs


@pytest.mark.parametrize(
    ("change", "options", "match"),
    [
        (unchanged, {"y": "foo"}, "y='foo' is not a metadata column. .*'word', 'run'"),
        (unchanged, {"groups": "foo"}, "groups='foo' is not a metadata column.*'run'"),
        (without_metadata, {"y": "word"}, "y='word' names a metadata .* no "),
        (without_metadata, {"groups": "run"}, "groups='run' names a metad"),
        (with_missing("word"), {"y": "word"}, r"y is missing .* 12 of 48 trials"),
        (with_missing("run"), {"groups": "run"}, "groups is missing .* 12 of 48"),
        (unchanged, {"y": np.arange(48)}, "a different label for each of the 48"),
        (unchanged, {"groups": "run", "cv": GroupKFold(5)}, "at least 5 groups; got"),
        (lambda e: e["ant"], {}, r"y holds one class only \('ant'\)"),
    ],
)
def test_labels_and_groups_that_are_refused(change, options, match):
    with pytest.raises(ValueError, match=match):
        decode_epochs(change(make_epochs()), **options)


# ------------------------------------------------------ classes by the names of events

EVENT_ID = {"face/left": 1, "face/right": 2, "left/house": 3, "house/right": 4}
EVENT_ID |= {"body": 5, "button": 6}
KINDS = build.codes_of([10] * 6, seed=1)
FACE, HOUSE, BODY = (np.isin(KINDS, codes) for codes in ([0, 1], [2, 3], [4]))
RUNS = build.groups_of(60)
LABELS = np.where(FACE, "face", np.where(HOUSE, "house", "other"))
PAIR = np.flatnonzero(FACE | HOUSE)
TWO = ["face", "house"]
LEFT = {"face": "face/left", "house": "house/left"}
RIGHT = {"face": "face/right", "house": "house/right"}


def of_events(seed=0, shift=0.0):
    """Return epochs of six events with slashes in their names."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(60, 4, 3))
    X[:, 0] += 2 * FACE[:, np.newaxis]
    X[:, 1] += 2 * np.isin(KINDS, [0, 2])[:, np.newaxis]
    epochs = build.epochs(X, KINDS, tmin=shift, number=np.arange(60))
    epochs.event_id = EVENT_ID
    epochs.events[:, 0] = 10**6 * seed + np.cumsum(rng.integers(200, 300, 60))
    return epochs


NAMED = of_events()
CHOICES = {
    "tags": (TWO, {"face": FACE, "house": HOUSE}),
    "events in parts": (
        ("right/face", "house/left", "body"),
        {
            "right/face": KINDS == 1,
            "house/left": KINDS == 2,
            "body": BODY,
        },
    ),
    "a dict": (
        {"animate": ["face", "body"], "inanimate": "house"},
        {"animate": FACE | BODY, "inanimate": HOUSE},
    ),
    "tags that share events": (
        {"any face": ["face", "face/left"], "other": ("house/left", "body")},
        {"any face": FACE, "other": (KINDS == 2) | BODY},
    ),
}


@pytest.mark.parametrize(("y", "masks"), CHOICES.values(), ids=CHOICES)
@pytest.mark.parametrize("decode", [decode_epochs, generalize_epochs])
def test_classes_are_those_of_the_epochs_selected_by_hand(y, masks, decode, tmp_path):
    labels = np.full(60, "", dtype="<U12")
    for name, mask in masks.items():
        labels[mask] = name
    kept = np.flatnonzero(labels != "")
    expected = decode(NAMED[kept], labels[kept], groups=RUNS[kept], **OPTIONS)
    for groups in ("run", RUNS, RUNS.tolist()):
        result = decode(NAMED, y, groups=groups, **OPTIONS)
        same(result, expected)
        assert_array_equal(result.groups, RUNS[kept])
        assert_array_equal(result.classes, expected.classes)
    assert_array_equal(result.parameters["selected"], kept)
    if y == TWO:
        kept = NAMED[TWO]  # as MNE-Python selects
        assert_array_equal(result.parameters["selected"], kept.metadata["number"])
        assert result.parameters["classes"] == {
            "face": ["face/left", "face/right"],
            "house": ["house/right", "left/house"],
        }
    result.save(tmp_path / "result.h5")
    assert load_result(tmp_path / "result.h5") == result
    assert len(NAMED) == 60


def test_as_many_texts_as_epochs_are_labels():
    result = decode_epochs(NAMED, LABELS.tolist(), **OPTIONS)
    same(result, decode_epochs(NAMED, LABELS, **OPTIONS))
    assert "selected" not in result.parameters
    with pytest.raises(ValueError, match="a different label for each of the 6 trials"):
        decode_epochs(NAMED[:6], list(EVENT_ID))


WRONG = {
    "no event": (
        ["face", "hose"],
        r"y names 'hose', which is no event or tag of epochs\. The events are: "
        r"'face/left', .*'button'; tags in them: 'face', 'house', 'left', 'right'\. "
        r"If these are labels, pass one for each of the 60 epochs\.",
    ),
    "some epochs": (
        TWO * 29,
        r"names 'face' twice among 58 names, for 60.*for each ep",
    ),
    "no class": ({}, r"y names 0 classes; decoding needs two or more"),
    "an event twice": (["face", "left"], r"event 'face/left' in .*, 'face' and 'left'"),
    "number": ({"a": "face", "b": 3}, r"dict of name -> tag or event.*got 'b': 3"),
    "no name": ({"a": "face", "": "house"}, r"got '': \['house'\]\. For example: \{'a"),
    "blanks": ({"face": "left", "face ": "right"}, r"names 'face' twice .*Put the eve"),
    "texts of an array": (np.array(TWO), r"one value per trial.*\(60,\)"),
}


@pytest.mark.parametrize(("y", "message"), WRONG.values(), ids=WRONG)
def test_names_that_select_nothing_sensible(y, message):
    for decode in (decode_epochs, generalize_epochs):
        with pytest.raises((ValueError, TypeError), match=message):
            decode(NAMED, y)
    if not isinstance(y, np.ndarray):
        with pytest.raises((ValueError, TypeError), match=r"y_test names"):
            generalize_epochs(NAMED, TWO, y_test=y)


def test_classes_and_what_does_not_go_with_them():
    epochs = NAMED[np.flatnonzero(~BODY)].copy()
    epochs.event_id = EVENT_ID
    no_epoch = r"names the class 'body', but epochs has no epoch of its events 'body'"
    for data, y, options, message in (
        (epochs, ["face", "body"], {}, no_epoch),
        (
            NAMED,
            TWO,
            {"groups": RUNS[PAIR]},
            r"groups must hold one value .*\(60,\)",
        ),
        (
            NAMED,
            TWO,
            {"task": "regression"},
            "predicts numbers, and y names classes",
        ),
        (NAMED, TWO, {"train_on": BODY}, r"selects none of the 40 trials"),
    ):
        with pytest.raises(ValueError, match=message):
            decode_epochs(data, y, **options)


def test_two_labellings_of_the_epochs_that_both_name():
    sides = np.where(np.isin(KINDS, [0, 2]), "face", "house")
    by_name = {"face": "left", "house": "right"}
    expected = generalize_epochs(
        NAMED[PAIR], LABELS[PAIR], y_test=sides[PAIR], groups=RUNS[PAIR], **OPTIONS
    )
    for y_test in (by_name, sides):  # an array is for all epochs, whoever names classes
        result = generalize_epochs(NAMED, TWO, y_test=y_test, groups=RUNS, **OPTIONS)
        same(result, expected)
        assert_array_equal(result.y_test, expected.y_test)
        assert_array_equal(result.parameters["selected_test"], PAIR)
    with pytest.raises(ValueError, match="have no epoch in common"):
        generalize_epochs(NAMED, LEFT, y_test=RIGHT)
    some = {"face": "face", "house": "body"}
    with pytest.raises(ValueError, match="y names the class 'house', but its epochs"):
        generalize_epochs(NAMED, {"face": "face", "house": "house"}, y_test=some)


def test_other_epochs_are_selected_by_names_of_their_own():
    rows, tested = (np.flatnonzero(np.isin(KINDS, c)) for c in ([0, 2], [1, 3]))
    options = {"n_permutations": 9, "random_state": 0}
    given = {"test_epochs": NAMED, "y_test": RIGHT, "groups": RUNS}
    result = generalize_epochs(NAMED, LEFT, **given, **options)
    given = {"test_epochs": NAMED[tested], "y_test": LABELS[tested]}
    given["groups"] = RUNS[rows]
    same(result, generalize_epochs(NAMED[rows], LABELS[rows], **given, **options))
    assert_array_equal(result.classes[result.y_test], LABELS[tested])
    assert result.parameters["classes_test"]["face"] == ["face/right"]
    assert_array_equal(result.parameters["selected_test"], tested)
    others = of_events(seed=1)
    result = generalize_epochs(NAMED, TWO, test_epochs=others)
    given = {"test_epochs": others[PAIR], "y_test": LABELS[PAIR]}
    same(result, generalize_epochs(NAMED[PAIR], LABELS[PAIR], **given))
    assert result.parameters["mode"] == "other_trials"
    with pytest.raises(ValueError, match=r"y_test names 'face', .* tag of test_epochs"):
        generalize_epochs(NAMED, TWO, test_epochs=others[["body", "button"]])


def test_the_same_trials_are_selected_one_by_one():
    later = of_events(seed=2, shift=1.0)
    later.event_id = {"response": 1}  # cut around other events
    later.events[:, 2] = 1
    options = OPTIONS | {"same_trials": True}
    expected = generalize_epochs(
        NAMED[PAIR], LABELS[PAIR], test_epochs=later[PAIR], **options
    )
    for given in (later, later[PAIR]):
        same(generalize_epochs(NAMED, TWO, test_epochs=given, **options), expected)
    again = generalize_epochs(NAMED, TWO, test_epochs=NAMED.copy(), **options)
    assert again.parameters["mode"] == "plain"
    same(again, generalize_epochs(NAMED[PAIR], LABELS[PAIR], **OPTIONS))
    with pytest.raises(ValueError, match=r"epochs has 40 and test_epochs has 50"):
        generalize_epochs(NAMED, TWO, test_epochs=later[:50], same_trials=True)


@pytest.mark.parametrize("function", [decode_epochs, generalize_epochs])
def test_train_on_holds_the_epochs_that_are_left_out_too(function):
    mask = np.arange(60) % 3 > 0
    query = f"number not in {[*range(0, 200, 3)]}"
    options = {"n_permutations": 9, "random_state": 0}
    for train_on, part in ((mask, mask[PAIR]), (query, query)):
        for groups, own in ((None, None), (RUNS, RUNS[PAIR])):
            known = {"train_on": train_on, "groups": groups}
            result = function(NAMED, TWO, **known, **options)
            known = {"train_on": part, "groups": own}
            same(result, function(NAMED[PAIR], LABELS[PAIR], **known, **options))
            assert_array_equal(result.parameters["selected"], PAIR)


def test_commands_take_classes(tmp_path, monkeypatch, capsys, undrawn):
    NAMED.save(tmp_path / "words-epo.fif", verbose=False)
    of_events(seed=1).save(tmp_path / "new-epo.fif", verbose=False)
    monkeypatch.chdir(tmp_path)

    def call(text):
        return main(f"{text} --n-permutations 9".split())

    words = "{'animate':['face','body'],'inanimate':['house']}"
    for text, y in (("face house", TWO), (words, CHOICES["a dict"][0])):
        assert call(f"epochs words-epo.fif --groups run --y {text}") == 0
        assert capsys.readouterr().err == ""
        epochs = mne.read_epochs("words-epo.fif", verbose=False)
        options = {"n_permutations": 9, "random_state": 0}
        expected = decode_epochs(epochs, y, groups="run", **options)
        assert load_result("words.h5") == expected
    text = "generalize words-epo.fif --y face house --test-epochs new-epo.fif"
    assert call(text) == 0
    result = load_result("words_to_new_generalization.h5")
    assert result.n_tested == 40
    assert result.parameters["classes_test"]["face"] == ["face/left", "face/right"]
    capsys.readouterr()
    assert call("epochs words-epo.fif --y face hose") == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert re.search(r"error: y names 'hose', which .* 'right'", line)


def padded(labels):
    """Return labels of which every fourth has a blank at its end."""
    return [f"{each} " if i % 4 == 0 else each for i, each in enumerate(labels)]


PADDED = {
    "labels": padded(LABELS),
    "objects": np.array(padded(LABELS), object),
    "a column": "kind",
    "names": [" face", "house ", "body\t", "button"],
    "a dict": {" face ": "face ", "house": [" house"], "other": ["body", "button "]},
}


@pytest.mark.parametrize("given", PADDED)
def test_blanks_at_the_ends_of_labels_and_names_mean_nothing(given):
    own = NAMED.copy()
    own.metadata = own.metadata.assign(kind=padded(LABELS))
    clean = LABELS if given != "names" else ["face", "house", "body", "button"]
    groups = RUNS.astype(str)
    result = decode_epochs(own, PADDED[given], groups=padded(groups))
    same(result, decode_epochs(NAMED, clean, groups=groups))
    assert verify(result, own, PADDED[given], groups=padded(groups)).ok


def test_blanks_mean_nothing_in_queries_categories_and_events_either():
    own, clean = NAMED.copy(), NAMED.copy()
    kinds = np.where(RUNS < 2, "early", "late")
    clean.metadata = clean.metadata.assign(kind=kinds)
    own.metadata = own.metadata.assign(kind=padded(kinds))
    own.event_id = {f"{name} ": code for name, code in EVENT_ID.items()}
    for more in ({"train_on": "kind == 'early'"}, {"confounds": "kind"}):
        same(decode_epochs(own, TWO, **more), decode_epochs(clean, TWO, **more))
    own.event_id["button"] = own.event_id.pop("body ")  # twice but for a blank
    classes = {name: name for name in EVENT_ID if name != "body"}
    expected = decode_epochs(NAMED, classes | {"button": ["body", "button"]})
    same(decode_epochs(own), expected)


# --------------------------------------------------------------------------- channels

ALL_TYPES = ("eeg", "eeg", "eog", "stim", "misc", "mag", "grad", "eeg")


def with_bad_channel():
    epochs = make_epochs(ALL_TYPES, n_times=2)
    epochs.info["bads"] = ["EEG1"]
    epochs._data[:, 1] = np.nan  # bad indeed
    return epochs


@pytest.mark.parametrize(
    ("picks", "names"),
    [
        (None, ["EEG0", "MAG5", "GRAD6", "EEG7"]),
        ("data", ["EEG0", "MAG5", "GRAD6", "EEG7"]),
        ("meg", ["MAG5", "GRAD6"]),
        (["eeg", "mag"], ["EEG0", "MAG5", "EEG7"]),
        ("misc", ["MISC4"]),
        (["MISC4", "EEG0"], ["MISC4", "EEG0"]),
        ("EEG7", ["EEG7"]),
        ([0, 4], ["EEG0", "MISC4"]),
        (np.array([7, 0]), ["EEG7", "EEG0"]),
        (["EEG1", "EEG0"], ["EEG0"]),
        ([1, 0], ["EEG0"]),
        (slice(0, 3), ["EEG0", "EOG2"]),
        ("all", ["EEG0", "EOG2", "STIM3", "MISC4", "MAG5", "GRAD6", "EEG7"]),
    ],
    ids=str,
)
def test_picks_follow_mne_and_leave_bad_channels_out(picks, names):
    epochs = with_bad_channel()
    result = decode_epochs(epochs, picks=picks, scale=None, **OPTIONS)
    assert result.parameters["ch_names"] == names
    index = [epochs.ch_names.index(name) for name in names]
    features = np.moveaxis(epochs.get_data()[:, index], 2, 0)
    assert_equals_arrays(result, features, epochs.metadata["word"], **OPTIONS)


@pytest.mark.parametrize(
    ("picks", "match"),
    [
        ("EEG1", r"No good channels for picks='EEG1'; .*bad channels: \['EEG1'\]"),
        ("foo", "picks='foo'; the channel types are: eeg, eog, grad, mag, misc, stim"),
        (["EEG0", "foo"], r"picks=\['EEG0', 'foo'\].*MNE-Python says: .*foo"),
        ([], r"picks=\[\].*Name the channels or types"),
        ([99], r"picks=\[99\].*MNE-Python says: All picks must be < n_channels"),
        ("seeg", "picks='seeg'"),
        (1.5, "picks must be a list of int"),
    ],
    ids=str,
)
def test_picks_that_select_nothing(picks, match):
    with pytest.raises((ValueError, TypeError), match=match):
        decode_epochs(with_bad_channel(), picks=picks)


WITH_REFERENCES = ("mag", "mag", "ref_meg", "ref_meg", "eeg", "mag")


@pytest.mark.parametrize("picks", [None, "data", ["data"]])
@pytest.mark.parametrize("function", [decode_epochs, generalize_epochs])
def test_reference_channels_are_decoded_only_if_picked(function, picks):
    epochs = make_epochs(WITH_REFERENCES, n_times=2)
    epochs.info["bads"] = ["MAG5"]
    result = function(epochs, picks=picks, cv=4)
    expected = function(epochs, picks=["MAG0", "MAG1", "EEG4"], cv=4)
    assert_array_equal(result.scores, expected.scores)
    assert result.parameters["ch_names"] == ["MAG0", "MAG1", "EEG4"]
    assert result.parameters["channels_left_out"] == {"bad": 1, "reference": 2}
    said = "1 bad channel and 2 reference channels were left out."
    assert said in methods_text(result)
    assert "channels_left_out" not in expected.parameters
    picked = function(epochs, picks=["mag", "ref_meg"], cv=4).parameters["ch_names"]
    assert picked == ["MAG0", "MAG1", "REF_MEG2", "REF_MEG3"]


def test_without_data_channels_it_is_said_what_there_is():
    assert data_channels(make_epochs(WITH_REFERENCES).info) == [0, 1, 4, 5]
    assert data_channels(make_epochs(("ref_meg", "misc")).info) == []
    all_bad = make_epochs()
    all_bad.info["bads"] = all_bad.ch_names
    for epochs, match in (
        (make_epochs(("misc", "stim")), "types are: misc, stim; bad .*picks='misc'"),
        (make_epochs(("ref_meg",) * 2), "the channel types are: ref_meg"),
        (all_bad, "'EEG4'"),
    ):
        with pytest.raises(
            ValueError, match=f"No good channels for picks=None.*{match}"
        ):
            decode_epochs(epochs)


# ------------------------------------------------------------------------------ scale


def by_type(data):
    """Divide every type of MIXED by its standard deviation."""
    data = data.copy()
    for kind in set(MIXED):
        rows = np.flatnonzero(np.array(MIXED) == kind)
        data[:, rows] /= data[:, rows].std()
    return data


SCALES = {
    "auto": by_type,
    "channel": lambda data: data / data.std(axis=(0, 2), keepdims=True),
    None: lambda data: data,
}


@pytest.mark.parametrize("types", [MIXED, ("eeg",) * 5], ids=len)
@pytest.mark.parametrize("scale", SCALES, ids=build.words)
def test_scales_equal_those_by_hand(scale, types):
    """With an absolute penalty, so that every factor shows."""
    epochs = make_epochs(types)
    stays = scale == "auto" and types != MIXED  # one type stays in its unit
    data = SCALES[None if stays else scale](epochs.get_data())
    options = OPTIONS | {"reg": Ridge(20 * data.std() ** 2)}
    result = decode_epochs(epochs, scale=scale, **options)
    features, y = np.moveaxis(data, 2, 0), epochs.metadata["word"]
    assert_equals_arrays(result, features, y, **options)
    assert result.parameters["scale"] == scale


@pytest.mark.parametrize("kernel", ["linear", "rbf", "polynomial"])
def test_auto_scale_does_not_see_the_unit_of_a_type(kernel):
    options = OPTIONS | {"kernel": kernel}
    for types in (MIXED, ("eeg",) * 5):
        epochs = make_epochs(types)
        result = decode_epochs(epochs, **options)
        for kind in set(types):
            data = epochs.get_data()
            data[:, np.array(types) == kind] *= 1e6
            same(decode_epochs(replaced(epochs, data), **options), result)


@pytest.mark.parametrize("scale", ["auto", "channel"])
def test_flat_channels_are_no_obstacle(scale):
    """A reference is all zeros; a constant has a standard deviation of rounding."""
    epochs, options = make_epochs(("eeg", "eeg", "mag", "mag")), {"scale": scale}
    for value in (0.0, 0.1, 1e-7):
        data = epochs.get_data()
        data[:, 2:] = value
        flat = decode_epochs(replaced(epochs, data), **options, **OPTIONS)
        if scale == "auto":  # for one type alone auto would not scale at all
            data[:, :2] /= data[:, :2].std()
        good = replaced(epochs, data).pick("eeg")
        same(flat, decode_epochs(good, **options, **OPTIONS))


@pytest.mark.filterwarnings("ignore:No average EEG reference")
@pytest.mark.filterwarnings("ignore:Epochs are not baseline corrected")
@pytest.mark.parametrize(
    ("scale", "mode"),
    [("auto", "same trials"), ("channel", "query"), ("covariance", "other trials")],
)
def test_the_scale_of_the_training_data_is_applied(scale, mode):
    """Test data of another size stay of another size."""
    epochs = build.jittered(make_epochs(MIXED))
    other = build.jittered(make_epochs(MIXED, seed=1), seed=1)
    other = replaced(other, 1.5 * other.get_data())
    data, data_test, given = epochs.get_data(), other.get_data(), scale
    if scale == "covariance":
        given = mne.compute_covariance(epochs, method="empirical", verbose="ERROR")
        whitener = mne.cov.compute_whitener(given, epochs.info, verbose="ERROR")[0]
    else:
        whitener = np.diag((SCALES[scale](data) / data)[0, :, 0])
    y, y_test = (e.metadata["word"].to_numpy() for e in (epochs, other))
    options, labels = {"reg": Ridge(5.0), "n_permutations": 5, "random_state": 0}, {}
    if mode == "same trials":
        options |= {"same_trials": True, "cv": 5}
    else:
        labels = {"y_test": y_test}
    known = {"test_epochs": other}
    if mode == "query":
        epochs = mne.concatenate_epochs([epochs, other], verbose=False)
        epochs.metadata = epochs.metadata.assign(first=np.arange(96) < 48)
        known = {"train_on": "first"}
    found = generalize_epochs(epochs, scale=given, **known, **options)
    X, X_test = whitener @ data, whitener @ data_test
    same(found, generalize_arrays(X, y, X_test, **labels, **options))
    assert found.parameters["scale"] == scale
    assert found.scores.max() > 0.4


# ------------------------------------------------------------- neighbours of sensors

SITES = ["Fz", "Cz", "Pz", "Oz", "C3", "C4", "P3", "P4"]
CAP_OPTIONS = OPTIONS | {"n_permutations": 5}


def on_a_cap(ch_types="eeg", montage=True, n_times=2):
    """Return epochs on a cap of eight sites."""
    X, codes = build.trials((16, 16, 16), 8, n_times)
    epochs = build.epochs(X, codes)
    epochs.rename_channels(dict(zip(epochs.ch_names, SITES, strict=True)))
    types = [ch_types] * 8 if isinstance(ch_types, str) else ch_types
    kinds = dict(zip(SITES, types, strict=True))
    if set(types) != {"eeg"}:
        epochs = mne.EpochsArray(
            epochs.get_data(),
            mne.create_info(SITES, 100.0, list(kinds.values())),
            verbose=False,
            **build.about(codes),
        )
    return epochs.set_montage("biosemi32") if montage else epochs


def pairs_of(epochs):
    """Return MNE-Python's neighbours of good channels, dense, without their names."""
    info = mne.pick_info(epochs.info, mne.pick_types(epochs.info, eeg=True))
    return mne.channels.find_ch_adjacency(info, "eeg")[0].toarray()


def test_the_same_neighbours_given_in_all_ways():
    epochs = on_a_cap()
    expected = decode_epochs(epochs, sensors="adjacency", **CAP_OPTIONS)
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
        *(True, matrix, matrix.tolist(), matrix > 0, alone),
        *(sparse.csr_array(matrix), sparse.coo_matrix(alone)),
        mne.channels.find_ch_adjacency(epochs.info, "eeg"),
        (larger, [*known, "AFz"]),
        (sparse.csc_array(larger), np.array([*known, "AFz"])),
    ):
        result = decode_epochs(epochs, sensors=sensors, **CAP_OPTIONS)
        same(result, expected)
        assert_array_equal(result.adjacency, expected.adjacency)
    for sensors in (None, False):
        assert decode_epochs(epochs, sensors=sensors, cv=4).shape == (2,)


def test_neighbours_are_among_good_and_picked_channels():
    epochs = on_a_cap()
    whole = mne.channels.find_ch_adjacency(epochs.info, "eeg")
    epochs.info["bads"] = ["Pz"]
    good = [name for name in SITES if name != "Pz"]
    some = ["Fz", "Oz", "C3", "P3"]
    rows, names = whole[0].toarray() > 0, np.array(whole[1])
    of_good = pairs_of(epochs) > 0
    for picks, sensors, near in (
        (None, "adjacency", dict(zip(good, of_good, strict=True))),
        (some, whole, {n: rows[names == n][0][np.isin(names, some)] for n in some}),
        # One that has no neighbours stands for itself.
        (some, np.zeros((4, 4)), dict(zip(some, np.eye(4, dtype=bool), strict=True))),
    ):
        options = {"sensors": sensors, "picks": picks}
        result = decode_epochs(epochs, **options, **CAP_OPTIONS)
        used = good if picks is None else some
        assert result.ch_names.tolist() == used
        order = used if sensors is not whole else [n for n in names if n in some]
        for name, row in zip(result.ch_names, result.predicted, strict=True):
            picks = np.array(order)[near[name]].tolist()
            one = decode_epochs(epochs, picks=picks, **CAP_OPTIONS)
            assert_array_equal(row, one.predicted)
    assert result.adjacency.shape == (2, 0)


def test_sensors_of_several_types_with_a_matrix():
    """A place with its magnetometer and gradiometers may be a neighbourhood."""
    epochs = make_epochs(("mag", "grad", "grad", "mag"))
    matrix = np.kron(np.eye(2), np.ones((2, 2)))
    options = OPTIONS | {"scale": "channel"}
    result = decode_epochs(epochs, sensors=matrix, **options)
    for i, picks in ((0, [0, 1]), (1, [0, 1]), (2, [2, 3]), (3, [2, 3])):
        one = decode_epochs(epochs, picks=picks, **options)
        assert_array_equal(result.predicted[i], one.predicted)


def in_one_place():
    epochs = on_a_cap()
    for channel in epochs.info["chs"]:
        channel["loc"][:3] = 0.05
    return epochs


WITHOUT_OZ = np.eye(7), [name for name in SITES if name != "Oz"]
TWO_TYPES = ["eeg"] * 4 + ["mag"] * 4
NO_CAP, WRONG_TYPE = {"montage": False}, r"Invalid value for 'sensors': .*Allowed"
BAD_SENSORS = [
    ({}, "mag", "'sensors': 'mag'. Allowed: 'adjacency', Tr"),
    (
        {},
        (np.eye(8), SITES[:7]),
        r"one row per channel name, shape \(7, 7\); got \(8, ",
    ),
    ({}, WITHOUT_OZ, "lacks 1 of the 8 picked channels: 'Oz'. It has, for example, 'F"),
    # Older SciPy has no sparse arrays of one axis.
    ({}, np.ones(8), r"picked channel, shape \(8, 8\); got \(8,\)|a square matrix"),
    ({}, np.full((8, 8), 0.1), "zeros and ones; got values from 0.1 to 0.1. From dis"),
    ({}, np.full((8, 8), np.nan), "must hold zeros and ones"),
    (NO_CAP, True, "no neighbours of the 8 eeg channels: No digit.* epochs.set_montag"),
    (NO_CAP | {"ch_types": TWO_TYPES}, True, "one type, .* 8 of type eeg, mag. Pick"),
    (NO_CAP | {"ch_types": "mag"}, True, "lacks 8 of the 8 picked channels: 'Fz', .* "),
    ({"ch_types": "ecog"}, True, "no neighbours of the 8 ecog .*your own matrix as se"),
    (None, True, "no neighbours of the 8 eeg channels"),
    *[({}, each, WRONG_TYPE) for each in ({"Oz": ["O1"]}, [["Oz", "O1"]], object(), 3)],
]


@pytest.mark.parametrize(("cap", "sensors", "match"), BAD_SENSORS, ids=build.words)
def test_sensors_that_are_refused(cap, sensors, match):
    epochs = in_one_place() if cap is None else on_a_cap(**cap)
    with pytest.raises((TypeError, ValueError), match=match):
        decode_epochs(epochs, sensors=sensors)


def test_neighbourhoods_are_not_whitened():
    epochs = on_a_cap()
    whitening = mne.make_ad_hoc_cov(epochs.info, verbose=False)
    with pytest.raises(ValueError, match="covariance in scale mixes each sensor with"):
        decode_epochs(epochs, sensors=True, scale=whitening)


# ------------------------------------------------------- pairs: channels, labels, times


def others_of(n=48, seed=1, **metadata):
    """Return other trials of the same channels."""
    return build.jittered(make_epochs(seed=seed, **metadata), seed)[:n]


def ours(**metadata):
    return build.jittered(make_epochs(**metadata))


def test_labels_of_test_trials():
    epochs, others = ours(), others_of(20)
    given, words = {"test_epochs": others}, others.metadata["word"].to_numpy()
    expected = generalize_epochs(epochs, **given)
    assert_array_equal(expected.classes[expected.y_test], words)
    y = epochs.metadata["word"].to_numpy()
    for labels, labels_test in ((None, words), ("word", None), (y, "word")):
        same(generalize_epochs(epochs, labels, y_test=labels_test, **given), expected)
    # Nothing says that all classes have to be tested.
    one = generalize_epochs(epochs, test_epochs=others["cat"])
    assert set(one.y_test.tolist()) == {2}
    unknown = (
        "^y_test holds labels that no training trial has: 'cat'. The classes of y "
        "are: 'ant', 'bee'. Drop these test trials, or rename"
    )
    known, lamp = epochs[["ant", "bee"]], np.where(np.arange(48) == 3, "lamp", "ant")
    epochs.metadata["has"] = np.where(y == "cat", 1, 2)
    nameless = without_metadata(others.copy())
    nameless.event_id = {"ant": 1, "bee": 2}
    of_none = ["ant"] * 18 + [None, float("nan")]
    for data, options, message in (
        (known, given, unknown),
        (known, {"y": "word"} | given, unknown),
        (known, {"y_test": "word"} | given, unknown),
        (
            epochs,
            {"y_test": lamp},
            "^y_test holds labels that .* has: 'lamp'. .*: 'ant",
        ),
        (
            epochs,
            {"y": y} | given,
            "^test_epochs are other .* each of the 20 test epoch",
        ),
        (epochs, {"test_epochs": nameless}, "has no name for the event codes"),
        (epochs, {"y": "word", "test_epochs": nameless}, "names a metadata column"),
        (
            epochs,
            {"y_test": words[:-1]} | given,
            r"^y_test must .*\(20,\); got .*\(19,",
        ),
        (epochs, {"y_test": words}, r"^y_test must .*shape \(48,\); got shape"),
        (epochs, {"y_test": of_none} | given, r"^y_test is missing .* for 2 of 20"),
        (epochs, {"train_on": "has == 2"}, "^train_on='has == 2' selects no trial of"),
    ):
        with pytest.raises(ValueError, match=message):
            generalize_epochs(data, **options)


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("run > 5", r"^train_on='run > 5' selects none of the 48 epochs; .* 'word"),
        ("run < 5", r"^train_on='run < 5' selects all of the 48 epochs; some"),
        ("place == 1", r"is no query on the columns 'word', "),
        ("run ==", r"is no query on the columns"),
        ("", r"is no query on the columns"),
        ("run + 1", r"^train_on='run \+ 1' is no query"),  # not rows 1 and 2
        ("word", r"^train_on='word' is no query"),
        ("run.mean()", r"^train_on='run\.mean\(\)' is no query"),
        ("__import__('os')", r"is no query on the columns"),
        (1, "^train_on must hold booleans, True for each trial to train on"),
        (["run == 1"], "^train_on must hold booleans"),
        (np.ones(48), "^train_on must hold booleans"),
    ],
    ids=lambda x: str(x)[:20],
)
def test_queries_that_are_refused(query, message):
    error = ValueError if isinstance(query, str) else TypeError
    with pytest.raises(error, match=message):
        generalize_epochs(ours(), train_on=query)


def test_queries_need_metadata():
    message = r"^train_on='run == 1' asks epochs\.metadata, but these epochs have none"
    with pytest.raises(ValueError, match=message):
        generalize_epochs(without_metadata(ours()), train_on="run == 1")


def test_the_rest_of_a_query_is_tested():
    epochs = ours(place=np.array(["upper", "lower"])[np.arange(48) % 5 % 2])
    upper = (epochs.metadata["place"] == "upper").to_numpy()
    options = {"n_permutations": 9, "random_state": 2}
    X, y = epochs.get_data(), epochs.metadata["word"].to_numpy()
    labels = {"y_test": y[~upper]}
    expected = generalize_arrays(X[upper], y[upper], X[~upper], **labels, **options)
    for train_on, recorded in (
        ("place == 'upper'", "place == 'upper'"),
        (upper, "mask"),
    ):
        result = generalize_epochs(epochs, train_on=train_on, **options)
        same(result, expected)
        assert result.parameters["train_on"] == recorded
        assert result.parameters["mode"] == "other_trials"
        assert_array_equal(result.classes[result.y_test], y[~upper])
    same(generalize_arrays(X, y, train_on=upper, **options), expected)
    # The index of metadata has gaps; where a value is missing the query is not true.
    kept = epochs[[i for i in range(48) if i % 7]][::-1]
    column = kept.metadata["run"].astype("Int64").replace(3, pd.NA)
    kept.metadata = kept.metadata.assign(some=column)
    found = generalize_epochs(kept, train_on="place == 'upper' and some < 2")
    train = (kept.metadata["place"] == "upper") & (kept.metadata["run"] < 2)
    X, y, train = kept.get_data(), kept.metadata["word"].to_numpy(), train.to_numpy()
    same(found, generalize_arrays(X[train], y[train], X[~train], y_test=y[~train]))


# --------------------------------------------------- nobody is trained with and tested


def noise_epochs(n_times=6):
    """Noise that is constant over time: trained and tested on, it is at ceiling."""
    rng = np.random.default_rng(0)
    X = np.repeat(rng.standard_normal((40, 60, 1)), n_times, axis=2)
    X += 1e-3 * rng.standard_normal(X.shape)
    codes = rng.permutation(np.arange(40) % 2)
    return build.jittered(build.epochs(X, codes, tmin=-0.03))


def moved(epochs, by):
    """Return the epochs, whose events are so many samples later."""
    epochs.events[:, 0] += by
    return epochs


def processed(epochs):
    """Return the same trials after a step that leaves no sample as it was."""
    other, rng = epochs.copy(), np.random.default_rng(3)
    other._data -= other._data.mean(axis=2, keepdims=True)
    other._data += 1e-7 * rng.standard_normal(other._data.shape)
    return other


SAME = {
    "itself": lambda e: e,
    "a copy": lambda e: e.copy(),
    "a crop": lambda e: e.copy().crop(0.0, 0.02),
    "channels reordered": lambda e: e.copy().reorder_channels(e.ch_names[::-1]),
    "other event times": lambda e: moved(e.copy(), 9),
}


@pytest.mark.parametrize("make", SAME.values(), ids=SAME)
def test_the_same_epochs_are_cross_validated_if_they_are_said_to_be(make):
    epochs = noise_epochs()
    other = make(epochs)
    result = generalize_epochs(epochs, test_epochs=other, same_trials=True)
    plain = len(result.test_times) == 6
    assert result.parameters["mode"] == ("plain" if plain else "same_trials")
    assert result.scores.max() < 0.8
    expected = generalize_epochs(epochs)
    columns = np.isin(expected.test_times.round(6), result.test_times.round(6))
    assert_array_equal(result.scores, expected.scores[:, columns])
    match = "40 of the 40 trials of test_epochs are also in .* use same_trials=True if"
    for same_trials in (None, False):
        with pytest.raises(ValueError, match=match):
            generalize_epochs(epochs, test_epochs=other, same_trials=same_trials)


def with_others(epochs):
    others = moved(processed(epochs)[:20], 10**7)  # a few more may be chance
    return mne.concatenate_epochs([others, epochs[:3]], verbose=False)


MIXED_UP = {
    "another order": lambda e: e[::-1],
    "a part": lambda e: e[:10],
    "a part by label": lambda e: e["ant"],
    "a part, cropped": lambda e: e[5:30].crop(-0.01, 0.01),
    "with others": with_others,
    "one of them": lambda e: e[17],
    "sampled twice": lambda e: e[[0, 0, 1, 1]],
}


@pytest.mark.parametrize("make", MIXED_UP.values(), ids=MIXED_UP)
def test_shared_trials_are_refused(make):
    epochs = noise_epochs()
    other = make(epochs)
    X, y = epochs.get_data(), epochs.metadata["word"].to_numpy()
    X_test, y_test = other.get_data(), other.metadata["word"]
    for same_trials in (None, False):
        with pytest.raises(ValueError, match=r"of test_epochs are also in epochs \(tr"):
            generalize_epochs(epochs, test_epochs=other, same_trials=same_trials)
        if len(other.times) == 6:
            options = {"y_test": y_test, "same_trials": same_trials}
            with pytest.raises(ValueError, match=r"of X_test are also in X \(trial"):
                generalize_arrays(X, y, X_test, **options)
    if len(other) != 40:
        return
    for refused in (
        lambda: generalize_epochs(epochs, test_epochs=other, same_trials=True),
        lambda: generalize_arrays(X, y, X_test, same_trials=True),
    ):
        with pytest.raises(ValueError, match="order"):
            refused()


def test_trials_that_are_there_twice_are_themselves_in_a_copy():
    """As after sampling with replacement: a copy is cross-validated, as the data."""
    X, y = PLAIN[np.arange(48) % 35], NAMES[PLAIN_CODES][np.arange(48) % 35]
    expected = generalize_arrays(X, y)
    same(generalize_arrays(X, y, X.copy(), same_trials=True), expected)


def test_two_ends_of_the_same_epochs_are_asked_about():
    """Nothing in common to compare, but the same events."""
    epochs = noise_epochs()
    early, late = epochs.copy().crop(None, -0.01), epochs.copy().crop(0.0, None)
    for one, other, n in (
        (early, late, 40),
        (early, late[:20], 20),
        (epochs, processed(epochs)[:20], 20),
    ):
        match = rf"{n} of the events .* Use same_trials=True"
        with pytest.raises(ValueError, match=match):
            generalize_epochs(one, test_epochs=other)
    result = generalize_epochs(early, test_epochs=late, same_trials=True)
    assert_array_equal(result.scores, generalize_epochs(epochs).scores[:3, 3:])


def test_other_projections_are_warned_about():
    other = mne.set_eeg_reference(others_of(), projection=True, verbose=False)[0]
    other.apply_proj(verbose=False)
    with pytest.warns(UserWarning, match="Different projections have been applied"):
        generalize_epochs(ours(), test_epochs=other, same_trials=False)


@pytest.mark.parametrize("value", [2, "True"])
def test_same_trials_is_yes_or_no_about_two_sets(value):
    epochs, others, X = ours(), others_of(), PLAIN
    message = r"^Invalid value for 'same_trials': .* Allowed: True, False or None\.$"
    with pytest.raises(TypeError, match=message):
        generalize_epochs(epochs, test_epochs=others, same_trials=value)
    with pytest.raises(TypeError, match=message):
        generalize_arrays(X, PLAIN_CODES, X + 1, same_trials=value)
    for given in (True, False):
        message = rf"^same_trials={given} is for {{}}, which is not given\. Drop it"
        with pytest.raises(ValueError, match=message.format("test_epochs")):
            generalize_epochs(epochs, same_trials=given)
        with pytest.raises(ValueError, match=message.format("X_test")):
            generalize_arrays(X, PLAIN_CODES, same_trials=given)
