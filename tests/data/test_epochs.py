"""Epochs and power as decoding takes them: against plain NumPy and MNE-Python."""

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
    decode_arrays,
    decode_epochs,
    generalize_arrays,
    generalize_epochs,
    load_result,
    methods_text,
    verify,
)
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
from mvpa_kfda.kfda.kernels import RBF, Linear, Polynomial
from tests import build
from tests.build import NAMES

X, CODES = build.trials((6, 8, 7), 4, 5)
N = len(CODES)
EPOCHS = build.epochs(X, CODES)


def given(codes=CODES, **more):
    return build.epochs(X, codes, **more)


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
    text = methods_text(decode_epochs(epochs, CODES))
    assert "1 bad channel and 1 reference channel were left out." in text


ALL_TYPES = ("eeg", "eeg", "eog", "stim", "misc", "mag", "grad", "eeg", "ref_meg")
PICKS = [
    (None, ["EEG0", "MAG5", "GRAD6", "EEG7"]),
    ("data", ["EEG0", "MAG5", "GRAD6", "EEG7"]),
    (["data"], ["EEG0", "MAG5", "GRAD6", "EEG7"]),
    (["eeg", "mag"], ["EEG0", "MAG5", "EEG7"]),
    (["mag", "ref_meg"], ["MAG5", "REF_MEG8"]),
    (["MISC4", "EEG0"], ["MISC4", "EEG0"]),
    ("EEG7", ["EEG7"]),
    ([0, 4], ["EEG0", "MISC4"]),
    (np.array([7, 0]), ["EEG7", "EEG0"]),
    ([1, 0], ["EEG0"]),
    (slice(0, 3), ["EEG0", "EOG2"]),
    ("all", ["EEG0", "EOG2", "STIM3", "MISC4", "MAG5", "GRAD6", "EEG7", "REF_MEG8"]),
]


def with_bad_channel(types=ALL_TYPES):
    epochs = make_epochs(types, n_times=2)
    epochs.info["bads"] = ["EEG1"]
    epochs._data[:, 1] = np.nan  # bad indeed
    return epochs


def test_picks_follow_mne_and_leave_bad_channels_out():
    epochs = with_bad_channel()
    for picks, names in PICKS:
        found = read_epoch_data(epochs, picks=picks)
        assert found.info["ch_names"] == names
        index = [epochs.ch_names.index(name) for name in names]
        assert_array_equal(found.data, epochs.get_data()[:, index].transpose(2, 0, 1))


@pytest.mark.parametrize(
    ("picks", "match"),
    [
        ("EEG1", r"No good channels for picks='EEG1'; .*bad channels: \['EEG1'\]"),
        ("foo", "picks='foo'; the channel types are: eeg, eog, grad, mag, misc, ref_m"),
        (["EEG0", "foo"], r"picks=\['EEG0', 'foo'\].*MNE-Python says: .*foo"),
        ([], r"picks=\[\].*Name the channels or types"),
        ([99], r"picks=\[99\].*MNE-Python says: All picks must be < n_channels"),
        (1.5, "picks must be a list of int"),
        (None, r"picks=None; .*: eeg, misc, ref_meg; bad .*'EEG1'.*picks='eeg'"),
    ],
    ids=str,
)
def test_picks_that_select_nothing(picks, match):
    types = ("misc", "eeg", "ref_meg") if picks is None else ALL_TYPES
    with pytest.raises((ValueError, TypeError), match=match):
        read_epoch_data(with_bad_channel(types), picks=picks)


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


def test_trials_know_the_order_of_recording():
    for seed in range(45):
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
    kernel = {"linear": Linear(), "rbf": RBF(None), "poly": Polynomial(2)}[kernel]
    there, back = fit_scaling(data.info, data.data.copy(), scale, kernel)
    return there(data.data.copy()), back(np.ones(data.data.shape[-1]))


def test_channels_are_brought_to_one_scale():
    epochs = given(types=["eeg", "eeg", "mag", "mag"])
    raw = read_epoch_data(epochs).data
    stds = np.repeat([raw[..., :2].std(), raw[..., 2:].std()], 2)
    for scale, kernel, divisors in (
        ("auto", "linear", stds),
        ("auto", "rbf", stds),
        ("channel", "linear", raw.std(axis=(0, 1))),
        (None, "rbf", np.ones(4)),
    ):
        found, pattern = scaled(epochs, scale, kernel)
        assert_allclose(found, raw / divisors, rtol=1e-12)
        assert_allclose(pattern, divisors, rtol=1e-12)
    # Of one type, only kernels that have a width need it.
    raw = read_epoch_data(EPOCHS).data
    assert_array_equal(scaled(EPOCHS, "auto")[0], raw)
    for kernel in ("rbf", "poly"):
        assert_allclose(scaled(EPOCHS, "auto", kernel)[0], raw / raw.std(), rtol=1e-12)
    # What is flat, as a reference or up to rounding, stays as it is.
    for value in (0.0, 0.1, 1e-7, 7.0):
        flat = X.copy()
        flat[:, :2] = value
        epochs = build.epochs(flat, CODES, ["mag", "mag", "eeg", "eeg"], units={})
        for scale, axes in (("channel", (0, 1)), ("auto", None)):
            found, pattern = scaled(epochs, scale)
            assert_array_equal(found[..., :2], flat[:, :2].transpose(2, 0, 1))
            assert_allclose(found[..., 2:].std(axis=axes), 1, rtol=1e-12)
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


PLAIN, PLAIN_CODES = build.trials((16, 16, 16), 5, 4)
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


# ---------------------------------------------------------------------- labels, groups


def test_labels_and_groups_from_everywhere_are_the_same():
    epochs = make_epochs()
    epochs.event_id["never"] = 9
    words, numbers = epochs.metadata["word"], epochs.metadata["number"]
    epochs.metadata["cat"] = pd.Categorical(words, categories=NAMES[2::-1])
    epochs.metadata["text"] = pd.array(words, dtype="string")
    epochs.metadata["whole"] = numbers.astype("Int64")
    shuffled = words.sample(frac=1, random_state=0).sort_index()
    of_words = (None, "word", "cat", "text", words, words.astype("category"))
    of_words = (*of_words, tuple(words), words.tolist(), words.to_numpy())
    of_words = (*of_words, shuffled.set_axis(range(100, 148)))
    of_numbers = ("number", "whole", numbers, epochs.events[:, 2] + 9)
    for expected, labels in ((words, of_words), (numbers, of_numbers)):
        for y in labels:
            result = decode_epochs(epochs, y, cv=4)
            assert_array_equal(result.classes[result.y], expected)
    runs = epochs.metadata["run"]
    for groups in ("run", runs, runs.tolist()):
        assert_array_equal(decode_epochs(epochs, groups=groups).groups, runs)
    two = decode_epochs(epochs, numbers > 10, **OPTIONS)
    assert_array_equal(two.classes, [False, True])
    assert two.chance == 0.5
    epochs.events[[3, 5], 2] = [77, 78]
    match = r"event_id has no name for the event codes \[77, 78\].*or pass y"
    with pytest.raises(ValueError, match=match):
        decode_epochs(epochs)
    decode_epochs(epochs, "word")


def without_metadata(epochs):
    epochs.metadata = None
    return epochs


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"y": "foo"}, "y='foo' is not a metadata column. .*'word', 'run'"),
        ({"groups": "foo"}, "groups='foo' is not a metadata column.*'run'"),
        ({"y": "word", "metadata": None}, "y='word' names a metadata .* no "),
        ({"groups": "run", "metadata": None}, "groups='run' names a metad"),
        ({"train_on": "run == 1", "metadata": None}, "asks epochs.metadata, but these"),
        ({"y": "gaps"}, r"y is missing .* 12 of 48 trials"),
        ({"groups": "gaps"}, "groups is missing .* 12 of 48"),
        ({"y": np.arange(48)}, "a different label for each of the 48"),
        ({"groups": "run", "cv": GroupKFold(5)}, "at least 5 groups; got"),
    ],
)
def test_labels_and_groups_that_are_refused(options, match):
    epochs = make_epochs(gaps=np.where(np.arange(48) < 12, None, "a"))
    if "metadata" in options:
        epochs.metadata = options["metadata"]
    options = {name: each for name, each in options.items() if name != "metadata"}
    with pytest.raises(ValueError, match=match):
        decode_epochs(epochs, **options)


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
CHOICES = [
    (TWO, {"face": FACE, "house": HOUSE}),
    (
        ("right/face", "house/left", "body"),
        {"right/face": KINDS == 1, "house/left": KINDS == 2, "body": BODY},
    ),
    (
        {"animate": ["face", "body"], "inanimate": "house"},
        {"animate": FACE | BODY, "inanimate": HOUSE},
    ),
    (  # tags that share events
        {"any face": ["face", "face/left"], "other": ("house/left", "body")},
        {"any face": FACE, "other": (KINDS == 2) | BODY},
    ),
    # Blanks at the ends mean nothing.
    ({" face ": "face ", "house": [" house"]}, {"face": FACE, "house": HOUSE}),
    ([" face", "body\t"], {"face": FACE, "body": BODY}),
]


@pytest.mark.parametrize(("y", "masks"), CHOICES)
def test_classes_are_those_of_the_epochs_selected_by_hand(y, masks):
    labels = np.full(60, "", dtype="<U12")
    for name, mask in masks.items():
        labels[mask] = name
    kept = np.flatnonzero(labels != "")
    expected = read_epoch_data(NAMED[kept], labels[kept])
    chosen, query = np.arange(60) % 3 > 0, f"number not in {[*range(0, 60, 3)]}"
    for groups, train_on in (("run", chosen), (RUNS, query), (RUNS.tolist(), chosen)):
        data = read_epoch_data(NAMED, y, groups=groups, train_on=train_on)
        assert_array_equal(data.data, expected.data)
        assert_array_equal(data.trials.y, labels[kept])
        assert_array_equal(data.trials.groups, RUNS[kept])
        assert_array_equal(data.trials.train_on.mask, chosen[kept])
        assert_array_equal(data.trials.numbers, kept)
        assert_array_equal(data.kept, kept)
        assert_array_equal(data.record["selected"], kept)
    if y == TWO:
        assert_array_equal(kept, NAMED[TWO].metadata["number"])  # as MNE-Python selects
        assert data.record["classes"] == {
            "face": ["face/left", "face/right"],
            "house": ["house/right", "left/house"],
        }
    assert len(NAMED) == 60


@pytest.mark.parametrize("decode", [decode_epochs, generalize_epochs])
def test_results_know_which_epochs_have_a_class(decode, tmp_path):
    mask, options = np.arange(60) % 3 > 0, {"n_permutations": 9, "random_state": 0}
    for train_on in (None, mask):
        of_pair = None if train_on is None else mask[PAIR]
        result = decode(NAMED, TWO, groups=RUNS, train_on=train_on, **options)
        known = {"groups": RUNS[PAIR], "train_on": of_pair}
        same(result, decode(NAMED[PAIR], LABELS[PAIR], **known, **options))
        assert_array_equal(result.parameters["selected"], PAIR)
    result.save(tmp_path / "result.h5")
    assert load_result(tmp_path / "result.h5") == result


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
    "nothing": ({"a": "face", "b": []}, r"dict of name -> tag or event.*got 'b': \[\]"),
    "no name": (
        {"a": "body", " ": "house"},
        r"got ' ': \['house'\]. For example: \{",
    ),
    "blanks": ({"face": "left", "face ": "right"}, r"names 'face' twice .*Put the eve"),
    "texts of an array": (np.array(TWO), r"one value per trial.*\(60,\)"),
}


@pytest.mark.parametrize(("y", "message"), WRONG.values(), ids=WRONG)
def test_names_that_select_nothing_sensible(y, message):
    with pytest.raises((ValueError, TypeError), match=message):
        decode_epochs(NAMED, y)
    if not isinstance(y, np.ndarray):
        with pytest.raises((ValueError, TypeError), match=r"y_test names"):
            read_pairs(NAMED, TWO, None, y_test=y)


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


def padded(labels):
    """Return labels of which every fourth has a blank at its end."""
    return [f"{each} " if i % 4 == 0 else each for i, each in enumerate(labels)]


def test_blanks_at_the_ends_of_labels_and_names_mean_nothing():
    own, clean = NAMED.copy(), NAMED.copy()
    groups, kinds = RUNS.astype(str), np.where(RUNS < 2, "early", "late")
    clean.metadata = clean.metadata.assign(kind=kinds)
    own.metadata = own.metadata.assign(kind=padded(kinds), label=padded(LABELS))
    expected = decode_epochs(NAMED, LABELS, groups=groups)
    for y in (np.array(padded(LABELS), object), "label", padded(LABELS)):
        result = decode_epochs(own, y, groups=padded(groups))
        same(result, expected)
    assert verify(result, own, padded(LABELS), groups=padded(groups)).ok
    own.event_id = {f"{name} ": code for name, code in EVENT_ID.items()}
    for more in ({"train_on": "kind == 'early'"}, {"confounds": "kind"}):
        same(decode_epochs(own, TWO, **more), decode_epochs(clean, TWO, **more))
    own.event_id["button"] = own.event_id.pop("body ")  # twice but for a blank
    expected = np.where(BODY, "button", np.array([*EVENT_ID])[KINDS])
    result = decode_epochs(own)
    assert_array_equal(result.classes[result.y], expected)


@pytest.mark.filterwarnings("ignore:No average EEG reference")
@pytest.mark.filterwarnings("ignore:Epochs are not baseline corrected")
@pytest.mark.parametrize(
    ("scale", "mode"),
    [("auto", "same trials"), ("channel", "query"), ("covariance", "other trials")],
)
def test_the_scale_of_the_training_data_is_applied(scale, mode):
    """Test data of another size stay of another size."""
    mixed = ("mag", "mag", "grad", "grad", "eeg", "eeg")
    epochs = build.jittered(make_epochs(mixed))
    other = build.jittered(make_epochs(mixed, seed=1), seed=1)
    other = replaced(other, 1.5 * other.get_data())
    data, data_test, given = epochs.get_data(), other.get_data(), scale
    if scale == "covariance":
        given = mne.compute_covariance(epochs, method="empirical", verbose="ERROR")
        whitener = mne.cov.compute_whitener(given, epochs.info, verbose="ERROR")[0]
    else:
        stds = data.std(axis=(0, 2))
        if scale == "auto":
            stds = np.repeat([data[:, i : i + 2].std() for i in (0, 2, 4)], 2)
        whitener = np.diag(1 / stds)
    y, y_test = (e.metadata["word"].to_numpy() for e in (epochs, other))
    options, labels = {"reg": Ridge(5.0), "n_permutations": 5, "random_state": 0}, {}
    if mode == "same trials":
        options |= {"same_trials": True, "cv": 5}
    else:
        labels = {"y_test": y_test}
    known = {"test_epochs": other}
    plain = {"reg": Ridge(5.0), "cv": 5}
    whole = decode_epochs(epochs, scale=given, **plain)
    same(whole, decode_arrays(whitener @ data, y, **plain))
    assert whole.parameters["scale"] == scale
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
    info, matrix = epochs.info, pairs_of(epochs)
    expected = np.triu(matrix, 1).nonzero()
    other = np.random.default_rng(0).permutation(len(SITES))
    known = [SITES[k] for k in other]
    larger = np.ones((9, 9), int)
    larger[:8, :8] = matrix[np.ix_(other, other)]
    alone = matrix - np.eye(len(matrix), dtype=int)
    for sensors in (
        *("adjacency", True, matrix, matrix.tolist(), matrix > 0, alone),
        *(sparse.csr_array(matrix), sparse.coo_matrix(alone)),
        mne.channels.find_ch_adjacency(info, "eeg"),
        (larger, [*known, "AFz"]),
        (sparse.csc_array(larger), np.array([*known, "AFz"])),
    ):
        assert_array_equal(find_neighbours(info, sensors), expected)
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
    ({}, np.triu(build.chain(8)), r"must be symmetric; .* the pair \(0, 1\)"),
    (NO_CAP, True, "no neighbours of the 8 eeg channels: No digit.* epochs.set_montag"),
    (NO_CAP | {"ch_types": TWO_TYPES}, True, "one type, .* 8 of type eeg, mag. Pick"),
    ({"ch_types": "ecog"}, True, "no neighbours of the 8 ecog .*your own matrix as se"),
    (None, True, "no neighbours of the 8 eeg channels"),
    *[({}, each, WRONG_TYPE) for each in ({"Oz": ["O1"]}, [["Oz", "O1"]], 3)],
]


@pytest.mark.parametrize(("cap", "sensors", "match"), BAD_SENSORS, ids=build.words)
def test_sensors_that_are_refused(cap, sensors, match):
    epochs = in_one_place() if cap is None else on_a_cap(**cap)
    with pytest.raises((TypeError, ValueError), match=match):
        find_neighbours(epochs.info, sensors)
    few = mne.pick_info(epochs.info, [0, 1, 2])
    with pytest.raises(ValueError, match=r"four or more channels .* 3 of type"):
        find_neighbours(few, "adjacency")


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


def test_same_trials_is_about_two_sets():
    for given in (True, False):
        message = rf"^same_trials={given} is for {{}}, which is not given\. Drop it"
        with pytest.raises(ValueError, match=message.format("test_epochs")):
            generalize_epochs(ours(), same_trials=given)
        with pytest.raises(ValueError, match=message.format("X_test")):
            generalize_arrays(PLAIN, PLAIN_CODES, same_trials=given)
