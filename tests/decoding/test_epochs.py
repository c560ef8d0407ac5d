"""Epochs in, a time course out: the same numbers as the plain functions give.

The epochs are synthetic, in the units that MNE-Python stores: volts, tesla, tesla per
metre. Classes differ from time zero on.
"""

from pathlib import Path

import mne
import numpy as np
import pandas as pd
import pytest
from mne.decoding import SlidingEstimator, cross_val_multiscore
from numpy.testing import assert_allclose, assert_array_equal
from sklearn import model_selection as ms
from sklearn.metrics.pairwise import laplacian_kernel

from mvpa_kfda import (
    RBF,
    KernelFDA,
    Polynomial,
    Ridge,
    TimeResult,
    cross_validate,
    decode_epochs,
    generalize_epochs,
    load_result,
    methods_text,
)
from mvpa_kfda.data.epochs import data_channels
from tests import build
from tests.build import NAMES

EEG = ("eeg",) * 5
MIXED = ("mag", "mag", "grad", "grad", "eeg", "eeg")


def make_epochs(n=48, types=EEG, n_times=6, seed=0, snr=1.0):
    """Return epochs whose three classes differ from time zero on."""
    rng, onset = np.random.default_rng(seed), n_times // 2
    codes = rng.permutation(np.arange(n) % 3)
    patterns = snr * rng.standard_normal((3, len(types)))
    X = rng.standard_normal((n, len(types), n_times))
    X[:, :, onset:] += patterns[codes][:, :, np.newaxis]
    return build.epochs(X, codes, types, tmin=-onset / 100, number=codes + 10)


def replaced(epochs, data):
    """Return the same epochs with other data."""
    other = epochs.copy()
    other._data = data
    return other


@pytest.fixture(scope="module")
def epochs():
    return make_epochs()


@pytest.fixture(scope="module")
def mixed():
    return make_epochs(types=MIXED)


def labels(epochs):
    return NAMES[epochs.events[:, 2] - 1]


def features_of(epochs):
    return np.moveaxis(epochs.get_data(), 2, 0)


def same(one, other):
    """Assert that two time results hold the same numbers."""
    assert_array_equal(one.times, other.times)
    assert_array_equal(one.predicted, other.predicted)
    for name in one.metrics:
        assert_array_equal(one.metrics[name], other.metrics[name])
    for name in one.nulls:
        assert_array_equal(one.nulls[name], other.nulls[name])


def assert_equals_arrays(result, features, y, **options):
    """Assert that every time point is cross_validate of its features."""
    assert len(result.times) == len(features)
    for i, X in enumerate(features):
        one = cross_validate(X, y, **options)
        assert_array_equal(result.predictions[i], one.predictions)
        for name, score in one.metrics.items():
            assert_allclose(result.metrics[name][i], score, rtol=0, atol=1e-12)
        for name, null in one.nulls.items():
            assert_allclose(result.nulls[name][:, i], null, rtol=0, atol=1e-12)
        assert_array_equal(result.null[:, i], one.null)


OPTIONS = {
    "cv": 4,
    "n_permutations": 20,
    "random_state": 4,
    "scoring": ["accuracy", "roc_auc", "confusion_matrix"],
}

# ------------------------------------------------------------ equal to cross_validate


def test_classes_are_decoded_where_they_differ():
    epochs = make_epochs(snr=10.0)
    result = decode_epochs(epochs, n_permutations=99, random_state=0)
    assert_array_equal(result.scores[result.times >= 0], 1.0)
    assert (result.scores[result.times < 0] < 0.6).all()
    p = result.pvalues("max")
    assert_array_equal(p <= 0.01, result.times >= 0)
    assert_array_equal(result.predictions[-1], labels(epochs))


@pytest.mark.parametrize(
    "kernel", ["polynomial", Polynomial(2), RBF(gamma=None)], ids=str
)
def test_kernels_for_unit_variance_get_it(epochs, kernel):
    """Volts to the third power are nothing next to the constant 1."""
    result = decode_epochs(epochs, kernel=kernel, **OPTIONS)
    data = epochs.get_data() / epochs.get_data().std()
    features = [data[:, :, t] for t in range(6)]
    assert_equals_arrays(result, features, labels(epochs), kernel=kernel, **OPTIONS)
    assert result.scores[-1] > 0.6
    microvolts = replaced(epochs, epochs.get_data() * 1e6)
    same(result, decode_epochs(microvolts, kernel=kernel, **OPTIONS))


def test_absolute_penalty_equals_the_estimator_in_mne_and_sklearn(epochs):
    """On volts: a single type of channel stays in its unit."""
    penalty, cv = Ridge(2e-11), ms.StratifiedKFold(6)
    result = decode_epochs(epochs, reg=penalty, cv=cv)
    sliding = SlidingEstimator(
        KernelFDA(reg=penalty), scoring="accuracy", verbose=False
    )
    X, y = epochs.get_data(), labels(epochs)
    scores = cross_val_multiscore(sliding, X, y, cv=cv, verbose=False)
    assert_allclose(result.scores, scores.mean(axis=0), rtol=1e-12, atol=0)
    predictions = ms.cross_val_predict(
        sliding, X, epochs.events[:, 2] - 1, cv=cv, method="predict"
    )
    assert_array_equal(result.predicted, predictions.T)
    other = decode_epochs(epochs, reg=Ridge(1e-9), cv=cv)
    assert (other.predicted != result.predicted).any()


def test_relative_penalty_does_not_see_the_unit(epochs):
    result = decode_epochs(epochs, **OPTIONS)
    for factor in (1e6, 1e-6):
        other = replaced(epochs, epochs.get_data() * factor)
        same(result, decode_epochs(other, **OPTIONS))
        same(result, decode_epochs(other, scale=None, **OPTIONS))


# --------------------------------------------------------------------- labels, groups


def test_labels_from_everywhere_are_the_same(epochs):
    epochs = epochs.copy()
    epochs.event_id["never"] = 9
    expected = decode_epochs(epochs, **OPTIONS)
    assert_array_equal(expected.classes, NAMES[:3])
    assert_array_equal(expected.classes[expected.y], labels(epochs))
    words = epochs.metadata["word"]
    epochs.metadata["cat"] = pd.Categorical(words, categories=NAMES[2::-1])
    epochs.metadata["text"] = pd.array(words, dtype="string")
    for y in (
        *("word", "cat", "text"),
        words,
        words.sample(frac=1, random_state=0).sort_index().set_axis(range(100, 148)),
        words.astype("category"),
        words.to_numpy(),
        tuple(words),
    ):
        result = decode_epochs(epochs, y, **OPTIONS)
        assert_array_equal(result.classes, NAMES[:3])
        same(result, expected)


def test_numbers_as_labels(epochs):
    expected, epochs = decode_epochs(epochs, **OPTIONS), epochs.copy()
    numbers = epochs.metadata["number"]
    epochs.metadata["whole"] = numbers.astype("Int64")
    for y in ("number", "whole", numbers, epochs.events[:, 2] + 9):
        result = decode_epochs(epochs, y, **OPTIONS)
        assert_array_equal(result.classes, [10, 11, 12])
        same(result, expected)
    two = decode_epochs(epochs, numbers > 10, **OPTIONS)
    assert_array_equal(two.classes, [False, True])
    assert two.chance == 0.5


def test_events_without_a_name_are_refused(epochs):
    epochs = epochs.copy()
    epochs.events[[3, 5], 2] = [77, 78]
    match = r"event_id has no name for the event codes \[77, 78\].*or pass y"
    with pytest.raises(ValueError, match=match):
        decode_epochs(epochs)
    decode_epochs(epochs, "word")


def test_groups_by_column_or_array(epochs):
    options = {"n_permutations": 20, "random_state": 1}
    result = decode_epochs(epochs, groups="run", **options)
    runs = epochs.metadata["run"].to_numpy()
    assert [set(runs[test]) for _, test in result.folds] == [{0}, {1}, {2}, {3}]
    assert_array_equal(result.groups, runs)
    assert result.parameters["cv"] == {"name": "LeaveOneGroupOut"}
    for groups in (runs, epochs.metadata["run"], [f"r{r}" for r in runs]):
        same(result, decode_epochs(epochs, groups=groups, **options))
    y = labels(epochs)
    assert_equals_arrays(result, features_of(epochs), y, groups=runs, **options)


# ------------------------------------------------------------------------------ picks

ALL_TYPES = ("eeg", "eeg", "eog", "stim", "misc", "mag", "grad", "eeg")


@pytest.mark.parametrize(
    ("picks", "names"),
    [
        (None, ["EEG0", "MAG5", "GRAD6", "EEG7"]),
        ("data", ["EEG0", "MAG5", "GRAD6", "EEG7"]),
        ("eeg", ["EEG0", "EEG7"]),
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
    epochs = make_epochs(types=ALL_TYPES, n_times=2)
    epochs.info["bads"] = ["EEG1"]
    data = epochs.get_data()
    data[:, 1] = np.nan  # bad indeed
    epochs = replaced(epochs, data)
    options = {"scale": None, "cv": 4}
    result = decode_epochs(epochs, picks=picks, **options)
    assert result.parameters["ch_names"] == names
    index = [epochs.ch_names.index(name) for name in names]
    features = [data[:, index, t] for t in range(2)]
    assert_equals_arrays(result, features, labels(epochs), cv=4)


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
    epochs = make_epochs(types=ALL_TYPES, n_times=2)
    epochs.info["bads"] = ["EEG1"]
    with pytest.raises((ValueError, TypeError), match=match):
        decode_epochs(epochs, picks=picks)


def test_no_data_channels_says_what_there_is():
    epochs = make_epochs(types=("misc", "misc", "stim"))
    match = "picks=None; the channel types are: misc, stim; bad .*e.g. picks='misc'"
    with pytest.raises(ValueError, match=match):
        decode_epochs(epochs)
    picked = decode_epochs(epochs, picks="misc").parameters["ch_names"]
    assert picked == ["MISC0", "MISC1"]
    epochs = make_epochs()
    epochs.info["bads"] = epochs.ch_names
    with pytest.raises(ValueError, match=r"No good channels for picks=None.*'EEG4'"):
        decode_epochs(epochs)


WITH_REFERENCES = ("mag", "mag", "ref_meg", "ref_meg", "eeg", "mag")


@pytest.mark.parametrize("picks", [None, "data", ["data"]])
@pytest.mark.parametrize("function", [decode_epochs, generalize_epochs])
def test_reference_channels_are_decoded_only_if_picked(function, picks):
    epochs = make_epochs(types=WITH_REFERENCES, n_times=2)
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


def test_references_alone_are_no_data():
    epochs = make_epochs(types=WITH_REFERENCES, n_times=2)
    assert data_channels(epochs.info) == [0, 1, 4, 5]
    assert data_channels(make_epochs(types=("ref_meg", "misc")).info) == []
    with pytest.raises(ValueError, match=r"picks=None; the channel types are: ref_meg"):
        decode_epochs(make_epochs(types=("ref_meg", "ref_meg")))


# ------------------------------------------------------------------------------ scale


def by_type(data):
    """Divide every type of MIXED by its standard deviation."""
    data = data.copy()
    for kind in set(MIXED):
        rows = np.flatnonzero(np.array(MIXED) == kind)
        data[:, rows] /= data[:, rows].std()
    return data


def by_channel(data):
    return data / data.std(axis=(0, 2), keepdims=True)


@pytest.mark.parametrize(
    ("scale", "scaled"),
    [("auto", by_type), ("channel", by_channel), (None, lambda data: data)],
    ids=build.words,
)
def test_scales_equal_those_by_hand(mixed, scale, scaled):
    """With an absolute penalty, so that every factor shows."""
    data = scaled(mixed.get_data())
    reg = Ridge(20 * data.std() ** 2)
    result = decode_epochs(mixed, scale=scale, reg=reg, **OPTIONS)
    features = np.moveaxis(data, 2, 0)
    assert_equals_arrays(result, features, labels(mixed), reg=reg, **OPTIONS)
    assert result.parameters["scale"] == scale


@pytest.mark.parametrize("kernel", ["linear", "rbf", "polynomial"])
@pytest.mark.parametrize("kind", ["mag", "grad", "eeg"])
def test_auto_scale_does_not_see_the_unit_of_a_type(mixed, kernel, kind):
    result = decode_epochs(mixed, kernel=kernel, **OPTIONS)
    data = mixed.get_data()
    data[:, np.array(MIXED) == kind] *= 1e6
    other = replaced(mixed, data)
    same(result, decode_epochs(other, kernel=kernel, **OPTIONS))


def test_auto_scale_uses_all_types():
    """EEG in volts would drown MEG in tesla."""
    only_meg = make_epochs(types=("mag", "mag", "eeg", "eeg"), snr=8.0)
    data = only_meg.get_data()
    data[:, 2:] = make_epochs(types=("eeg",) * 2, seed=5, snr=0.0).get_data()
    only_meg = replaced(only_meg, data)
    assert decode_epochs(only_meg).scores[-1] > 0.8
    assert decode_epochs(only_meg, scale=None).scores[-1] < 0.6


def test_one_type_stays_in_its_unit(epochs):
    result = decode_epochs(epochs, reg=Ridge(2e-11), **OPTIONS)
    same(result, decode_epochs(epochs, reg=Ridge(2e-11), scale=None, **OPTIONS))


@pytest.mark.parametrize("scale", ["auto", "channel"])
@pytest.mark.parametrize("kernel", ["linear", RBF(gamma=0.1)], ids=str)
@pytest.mark.parametrize("value", [0.0, 0.1, 1e-7])
def test_flat_channels_are_no_obstacle(scale, kernel, value):
    """A reference is all zeros; a constant has a standard deviation of rounding."""
    epochs = make_epochs(types=("eeg", "eeg", "mag", "mag"), n_times=4)
    data = epochs.get_data()
    data[:, 2:] = value
    options = {"kernel": kernel, "scale": scale, **OPTIONS}
    flat = decode_epochs(replaced(epochs, data), **options)
    if scale == "auto":  # for one type alone auto would not scale at all
        data[:, :2] /= data[:, :2].std()
    good = decode_epochs(replaced(epochs, data), picks="eeg", **options)
    assert_array_equal(flat.predicted, good.predicted)
    assert_array_equal(flat.null, good.null)


NO_REFERENCE = pytest.mark.filterwarnings(
    "ignore:No average EEG reference:RuntimeWarning"
)


@NO_REFERENCE
def test_covariance_whitens(mixed):
    """Whitened trials have the inner products X C^-1 X'."""
    rng = np.random.default_rng(0)
    sizes = np.array([build.UNITS[kind] for kind in MIXED])
    A = np.eye(6) + 0.3 * rng.standard_normal((6, 6))
    A[:4, 4:] = A[4:, :4] = 0  # MNE-Python whitens MEG and EEG apart
    C = sizes[:, None] * (A @ A.T) * sizes
    order = rng.permutation(6)
    names = [mixed.ch_names[i] for i in order]
    covariance = mne.Covariance(C[np.ix_(order, order)], names, [], [], 1000)
    whitener = np.linalg.inv(np.linalg.cholesky(C / np.outer(sizes, sizes))) / sizes
    result = decode_epochs(mixed, scale=covariance, reg=Ridge(15.0), **OPTIONS)
    features = [X @ whitener.T for X in np.moveaxis(mixed.get_data(), 2, 0)]
    assert_equals_arrays(result, features, labels(mixed), reg=Ridge(15.0), **OPTIONS)
    assert result.parameters["scale"] == "covariance"
    picked = decode_epochs(mixed, scale=covariance, picks=["GRAD3", "MAG0"], cv=4)
    assert picked.parameters["ch_names"] == ["GRAD3", "MAG0"]


def test_covariance_must_cover_the_channels(mixed):
    few = mne.make_ad_hoc_cov(mne.pick_info(mixed.info, [0, 2, 4]), verbose=False)
    with pytest.raises(ValueError, match=r"lacks 3 of the 6 channels, e.g. 'MAG1'"):
        decode_epochs(mixed, scale=few)
    epochs = make_epochs(types=("eeg", "eeg", "misc"))
    every = mne.Covariance(np.eye(3), epochs.ch_names, [], [], 100)
    with pytest.raises(ValueError, match=r"data channels only, not MISC2\. Leave them"):
        decode_epochs(epochs, scale=every, picks=["EEG0", "EEG1", "MISC2"])


# ---------------------------------------------------------------------------- windows


@pytest.mark.parametrize(
    ("window", "step", "width", "starts"),
    [
        (None, None, 1, range(12)),
        (0.03, None, 3, range(10)),
        (0.03, 0.02, 3, range(0, 10, 2)),
        (0.024, 0.034, 2, range(0, 11, 3)),
        (0.026, 0.019, 3, range(0, 10, 2)),
        (0.001, 0.001, 1, range(12)),
        (0.12, 0.01, 12, [0]),
        (None, 0.05, 1, [0, 5, 10]),
        (0.02, 10.0, 2, [0]),
    ],
)
def test_window_times_are_centres(window, step, width, starts):
    epochs = make_epochs(n_times=12)
    result = decode_epochs(epochs, window=window, step=step, cv=4)
    expected = [epochs.times[s : s + width].mean() for s in starts]
    assert_allclose(result.times, expected, rtol=0, atol=1e-12)
    assert result.scores.shape == (len(expected),)
    assert result.predictions.shape == (len(expected), 48)
    assert result.parameters["window"] == pytest.approx(width / 100, rel=1e-12)
    assert result.parameters["window_mode"] == "mean"


def test_mean_windows_equal_averages_by_hand():
    epochs = make_epochs(n_times=8)
    result = decode_epochs(epochs, window=0.03, step=0.02, **OPTIONS)
    data = epochs.get_data()
    features = [data[:, :, t : t + 3].mean(axis=2) for t in (0, 2, 4)]
    assert_equals_arrays(result, features, labels(epochs), **OPTIONS)


@pytest.mark.some(6)
@pytest.mark.parametrize(
    ("kernel", "n_channels"),
    [
        ("linear", 3),  # 12 features for 48 trials: from the features
        ("linear", 9),  # from sums of kernels
        ("rbf", 9),
        (RBF(gamma=1e9), 9),
        (Polynomial(2, gamma=1e9), 9),
        (laplacian_kernel, 3),
    ],
    ids=build.words,
)
@pytest.mark.parametrize(("step", "starts"), [(0.01, range(7)), (0.03, (0, 3, 6))])
def test_concatenated_windows_equal_long_features(kernel, n_channels, step, starts):
    epochs = make_epochs(types=("eeg",) * n_channels, n_times=10)
    options = {"kernel": kernel, **OPTIONS}
    result = decode_epochs(
        epochs, window=0.04, step=step, window_mode="concatenate", **options
    )
    data = epochs.get_data()
    features = [data[:, :, t : t + 4].reshape(48, -1) for t in starts]
    assert_equals_arrays(result, features, labels(epochs), **options)
    assert result.parameters["window_mode"] == "concatenate"


@pytest.mark.parametrize("kernel", ["polynomial", RBF(gamma=None)], ids=str)
def test_concatenated_windows_count_their_features(epochs, kernel):
    """gamma=None is one over the features of a window, not of a sample."""
    options = {"kernel": kernel, **OPTIONS}
    result = decode_epochs(epochs, window=0.04, window_mode="concatenate", **options)
    data = epochs.get_data() / epochs.get_data().std()
    features = [data[:, :, t : t + 4].reshape(48, -1) for t in range(3)]
    assert_equals_arrays(result, features, labels(epochs), **options)


def test_windows_of_one_sample_are_samples(epochs):
    result = decode_epochs(epochs, **OPTIONS)
    for mode in ("mean", "concatenate"):
        same(result, decode_epochs(epochs, window=0.01, window_mode=mode, **OPTIONS))


# ----------------------------------------------------------------- workers, precision


@pytest.mark.some(1)
@pytest.mark.parametrize("size", ["counts", "large"])
def test_result_does_not_depend_on_n_jobs(size):
    if size == "large":  # memory-mapped by joblib
        data = make_epochs(types=("eeg",) * 64, n_times=50)
        options = {"window": 0.05, "window_mode": "concatenate"}
        assert data.get_data().nbytes > 2**20
    else:  # small counts, and every trial twice: many exact ties
        data, options = make_epochs(n_times=14), {"scoring": "roc_auc"}
        counts = np.random.default_rng(1).poisson(1.0, (24, 5, 14)).astype(float)
        data = replaced(data, np.concatenate([counts, counts]))
    options |= {"n_permutations": 30, "random_state": 0, "cv": 6}
    expected = decode_epochs(data, n_jobs=1, **options)
    same(decode_epochs(data, n_jobs=2, **options), expected)
    assert len(np.unique(expected.null)) > 3


# ---------------------------------------------------------------- epochs of all kinds


@pytest.mark.parametrize(("types", "n_times"), [(EEG, 6), (MIXED, 6), (("eeg",), 1)])
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"scale": "channel"},
        {"kernel": "polynomial"},
        {"picks": [0]},
        {"n_permutations": 5, "groups": "run"},
    ],
    ids=str,
)
def test_epochs_are_not_changed(types, n_times, options):
    epochs = make_epochs(types=types, n_times=n_times)
    if len(types) > 1:
        epochs.info["bads"] = [epochs.ch_names[-1]]
    before = epochs.copy()
    y = labels(epochs)
    decode_epochs(epochs, y, **options)
    assert_array_equal(epochs.get_data(), before.get_data())
    assert_array_equal(epochs.events, before.events)
    assert epochs.info["bads"] == before.info["bads"]
    assert epochs.ch_names == before.ch_names
    assert epochs.preload
    assert epochs.metadata.equals(before.metadata)
    assert epochs.info.keys() == before.info.keys()
    assert_array_equal(y, labels(before))


def test_epochs_read_lazily(tmp_path, epochs):
    path = tmp_path / "lazy-epo.fif"
    epochs = epochs.copy()
    epochs.info["bads"] = ["EEG2"]
    epochs.save(path, fmt="double", verbose=False)
    expected = decode_epochs(epochs, **OPTIONS)
    lazy = mne.read_epochs(path, preload=False, verbose=False)
    same(decode_epochs(lazy, **OPTIONS), expected)
    same(decode_epochs(lazy, "word", **OPTIONS), expected)
    assert not lazy.preload
    assert lazy.info["bads"] == ["EEG2"]

    keep = np.setdiff1d(np.arange(48), [0, 3, 17])
    lazy.drop([0, 3, 17], verbose=False)
    expected = decode_epochs(epochs[keep], **OPTIONS)
    assert expected.predictions.shape == (6, 45)
    same(decode_epochs(lazy, **OPTIONS), expected)
    assert not lazy.preload
    match = r"y must hold one value per trial, shape \(45,\); got shape \(48,\)"
    with pytest.raises(ValueError, match=match):
        decode_epochs(lazy, labels(epochs))


def test_epochs_cut_lazily_from_a_recording():
    """Bad segments and amplitudes are dropped when the data are read, not before."""
    rng = np.random.default_rng(0)
    data = 1e-6 * rng.standard_normal((3, 6000))
    info = mne.create_info(3, 100.0, "eeg")
    codes = rng.permutation(np.arange(50) % 2)
    onsets = 100 + 110 * np.arange(50)
    for onset, code in zip(onsets, codes, strict=True):
        data[0, onset : onset + 10] += 4e-6 * code
    data[1, onsets[7] + 3] = 1.0  # an artefact
    raw = mne.io.RawArray(data, info, verbose=False)
    raw.set_annotations(mne.Annotations([onsets[20] / 100], [0.05], ["BAD_jump"]))
    events = np.column_stack([onsets, np.zeros(50, int), codes + 1])
    epochs = mne.Epochs(
        raw,
        events,
        {"left": 1, "right": 2},
        tmin=0.0,
        tmax=0.1,
        baseline=None,
        reject={"eeg": 1e-3},
        preload=False,
        verbose=False,
    )
    result = decode_epochs(epochs, cv=4)
    assert not epochs.preload
    assert result.predictions.shape == (11, 48)
    kept = np.setdiff1d(np.arange(50), [7, 20])
    assert_array_equal(result.y, codes[kept])
    assert result.scores[:10].min() > 0.8
    same(result, decode_epochs(epochs.copy().load_data(), cv=4))


def test_one_sample_and_one_channel():
    one = make_epochs(n_times=1)
    result = decode_epochs(one, **OPTIONS)
    assert result.scores.shape == (1,)
    assert result.null.shape == (20, 1)
    assert_equals_arrays(result, features_of(one), labels(one), **OPTIONS)
    single = make_epochs(types=("eeg",))
    result = decode_epochs(single, **OPTIONS)
    assert_equals_arrays(result, features_of(single), labels(single), **OPTIONS)


def test_equalized_and_subset_epochs(epochs):
    """Selections of epochs keep labels and data together."""
    subset = epochs[["ant", "cat"]][::-1]
    result = decode_epochs(subset, **OPTIONS)
    assert_array_equal(result.classes, ["ant", "cat"])
    assert_equals_arrays(result, features_of(subset), labels(subset), **OPTIONS)


# ----------------------------------------------------------------------------- result


def test_result_holds_what_redoes_it(tmp_path, epochs):
    options = {"scoring": ["roc_auc", "accuracy", "f1"], "n_permutations": 30}
    odd = {"window": np.float32(0.02), "step": np.float64(0.02), "cv": 6}
    odd["random_state"] = np.random.default_rng(0)
    result = decode_epochs(epochs, "word", picks=["EEG0", "EEG3"], **odd, **options)
    assert type(result) is TimeResult
    assert result.scoring == ["roc_auc", "accuracy", "f1"]
    assert_array_equal(result.scores, result.metrics["roc_auc"])
    assert_array_equal(result.null, result.nulls["roc_auc"])
    assert result.chance == 0.5
    assert result.chances["accuracy"] == 1 / 3
    parameters = result.parameters
    said = {
        "kernel": {"name": "Linear"},
        "reg": "auto",
        "scale": "auto",
        "sfreq": 100.0,
    }
    said |= {"permute": "free", "ch_names": ["EEG0", "EEG3"]}
    assert {name: parameters[name] for name in said} == said
    result.save(tmp_path / "result.h5")
    assert load_result(tmp_path / "result.h5") == result
    names = ("random_state", "permute", "window", "step")
    options |= {name: parameters[name] for name in names} | {"cv": result.folds}
    again = decode_epochs(epochs, "word", picks=parameters["ch_names"], **options)
    same(again, result)


def test_progress_only_when_asked(epochs, capfd):
    for verbose in (False, np.False_, None, "WARNING", "error", 30):
        decode_epochs(epochs, cv=4, verbose=verbose)
        assert capfd.readouterr() == ("", "")
    for verbose in (True, np.True_, "INFO", "debug", 20):
        decode_epochs(epochs, cv=4, verbose=verbose)
        assert "6 of 6 positions in" in capfd.readouterr().err


# -------------------------------------------------------------------------- bad input


def spoiled(where, value):
    """Return a change of epochs: some of their data have another value."""

    def change(epochs):
        data = epochs.get_data()
        data[where] = value
        return replaced(epochs, data)

    return change


def without_metadata(epochs):
    epochs.metadata = None
    return epochs


def with_missing(name):
    def change(epochs):
        column = epochs.metadata[name].astype(object)
        epochs.metadata[name] = column.where(epochs.metadata["run"] > 0)
        return epochs

    return change


def with_one_ant(epochs):
    ants = np.flatnonzero(labels(epochs) == "ant")
    return epochs.drop(ants[1:], verbose=False)


NOT_EPOCHS = "an mne.Epochs or EpochsTFR object; got"


@pytest.mark.parametrize(
    ("change", "match"),
    [
        (spoiled((3, 0, 2), np.nan), r"1 NaN or infinite .*1 of 48 trials \(first: 3"),
        (spoiled((slice(4), 0, 2), np.inf), "4 NaN or infinite .*in 4 of 48 trials"),
        (lambda e: replaced(e, e.get_data() * 1j), "data of epochs holds complex data"),
        (spoiled((..., 2), 5e-6), r"At -0\.010 s: The trials do not differ.*flat data"),
        (spoiled(..., 0.0), r"At -0\.030 s: The trials do not differ"),
        (lambda e: e["ant"], r"y holds one class only \('ant'\)"),
        (with_one_ant, "Class 'ant' has 1 trial to train on"),
        (lambda e: e[:0], "epochs is empty.*drop_log"),
        (lambda e: e.drop(range(48), verbose=False), "epochs is empty"),
        (lambda e: e.get_data(), f"{NOT_EPOCHS} ndarray.*decode_arrays"),
        (lambda e: "a-epo.fif", "got str. Read the file with mne.read_epochs first"),
        (lambda e: Path("a-epo.fif"), "Path. Read the file with mne"),
        (lambda e: e.average(), f"{NOT_EPOCHS} Evoked"),
        (lambda e: [e], f"{NOT_EPOCHS} list"),
        (lambda e: None, f"{NOT_EPOCHS} NoneType"),
    ],
)
def test_bad_data(change, match):
    with pytest.raises((ValueError, TypeError), match=match):
        decode_epochs(change(make_epochs()))


@pytest.mark.parametrize(
    ("change", "options", "match"),
    [
        (None, {"y": "foo"}, "y='foo' is not a metadata column. .*'word', 'run'"),
        (None, {"groups": "foo"}, "groups='foo' is not a metadata column.*'run'"),
        (without_metadata, {"y": "word"}, "y='word' names a metadata .* no "),
        (without_metadata, {"groups": "run"}, "groups='run' names a metad"),
        (with_missing("word"), {"y": "word"}, r"y is missing .* 12 of 48 trials"),
        (with_missing("run"), {"groups": "run"}, "groups is missing .* 12 of 48"),
        (None, {"y": np.arange(47) % 2}, r"y must hold .*\(48,\); got shape \(47,"),
        (None, {"y": np.arange(48)}, "a different label for each of the 48"),
        (None, {"groups": "run", "cv": ms.GroupKFold(5)}, "at least 5 groups; got"),
        (None, {"cv": 49}, "more folds than there are trials, 48"),
        (None, {"kernel": "precomputed"}, "'precomputed'. The data hold"),
        (None, {"kernel": "rbf", "reg": 1e-14}, r"At -0\.030 s: lambda = .* too sm"),
        (None, {"scale": "foo"}, "'scale': 'foo'. Allowed: 'auto', 'channel', No"),
        (None, {"scale": "a noise covariance"}, "Invalid value for 'scale'"),
        (None, {"scale": np.eye(5)}, "Invalid value for 'scale': array"),
        (None, {"window_mode": "foo"}, "'window_mode': 'foo'. Allowed: 'mean', 'co"),
        (None, {"window": 0.07}, "window=0.07 s is 7 samples at 100 Hz, longer th"),
        (None, {"window": 0}, "'window': 0. Allowed: .* above zero. It is in sec"),
        (None, {"window": np.nan}, "Invalid value for 'window': nan"),
        (None, {"window": "0.1"}, "'window': '0.1' of type str.*in seconds"),
        (None, {"step": 0.0}, r"Invalid value for 'step': 0\.0"),
        (None, {"step": True}, "Invalid value for 'step': True"),
        (None, {"n_jobs": 0}, "'n_jobs': 0. Allowed: None, or a whole number"),
        (None, {"verbose": "foo"}, "Invalid value for 'verbose': .* 'WARNING'"),
    ],
)
def test_bad_arguments(change, options, match):
    epochs = make_epochs() if change is None else change(make_epochs())
    with pytest.raises((ValueError, TypeError), match=match):
        decode_epochs(epochs, **options)


def test_flat_times_are_found_before_anything_is_computed(monkeypatch):
    data = np.random.default_rng(0).standard_normal((20, 3, 9))
    data[:, :, 7:] = 0.5
    epochs = mne.EpochsArray(data, mne.create_info(3, 10.0, "eeg"), verbose=False)
    y = np.arange(20) % 2

    def compute(*_, **__):
        raise AssertionError("computed something")

    monkeypatch.setattr("mvpa_kfda.decoding.analysis.run", compute)
    with pytest.raises(
        ValueError, match=r"At 0\.700 s: The trials do not differ.*crop"
    ):
        decode_epochs(epochs, y, cv=5)
    with pytest.raises(AssertionError, match="computed something"):
        decode_epochs(epochs, y, cv=5, window=0.3)  # each window has other samples too


def test_lengths_of_windows_are_recorded_in_seconds():
    epochs = build.epochs(build.trials((6, 6), 3, 20)[0], np.repeat([0, 1], 6))
    options = {"cv": 2, "window": 0.05, "step": 0.02}  # 5 and 2 samples at 100 Hz
    known = decode_epochs(epochs, **options).parameters
    assert (known["window"], known["step"], known["sfreq"]) == (0.05, 0.02, 100.0)
