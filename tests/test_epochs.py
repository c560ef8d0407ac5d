"""Epochs in, a time course out: the same numbers as the plain functions give.

The epochs are synthetic, in the units that MNE-Python stores: volts, tesla, tesla per
metre. Classes differ from time zero on.
"""

import warnings

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
    Linear,
    Polynomial,
    Ridge,
    TimeResult,
    cross_validate,
    decode_epochs,
    load_result,
)

NAMES = np.array(["face", "house", "tool"])
UNITS = {
    "eeg": 1e-6,
    "mag": 1e-13,
    "grad": 1e-12,
    "eog": 1e-4,
    "stim": 1.0,
    "misc": 3.0,
}
EEG = ("eeg",) * 5
MIXED = ("mag", "mag", "grad", "grad", "eeg", "eeg")


def make_epochs(n=48, types=EEG, n_times=6, n_classes=3, seed=0, snr=1.0):
    """Make epochs at 100 Hz with metadata and an event name that never occurs."""
    rng = np.random.default_rng(seed)
    codes = rng.permutation(np.arange(n) % n_classes)
    patterns = snr * rng.standard_normal((n_classes, len(types)))
    data = rng.standard_normal((n, len(types), n_times))
    onset = n_times // 2
    data[:, :, onset:] += patterns[codes][:, :, np.newaxis]
    data *= np.array([UNITS[kind] for kind in types])[:, np.newaxis]
    info = mne.create_info(
        [f"{k.upper()}{i}" for i, k in enumerate(types)], 100.0, types
    )
    metadata = {
        "word": NAMES[codes],
        "number": codes + 10,
        "run": np.arange(n) * 4 // n,
    }
    return mne.EpochsArray(
        data,
        info,
        np.column_stack([np.arange(n), np.zeros(n, int), codes + 1]),
        tmin=-onset / 100,
        event_id={**{name: i + 1 for i, name in enumerate(NAMES)}, "never": 9},
        metadata=pd.DataFrame(metadata),
        on_missing="ignore",
        verbose=False,
    )


def replaced(epochs, data):
    """Return the same epochs with other data."""
    return mne.EpochsArray(
        data,
        epochs.info,
        epochs.events,
        epochs.tmin,
        epochs.event_id,
        metadata=epochs.metadata,
        on_missing="ignore",
        verbose=False,
    )


@pytest.fixture(scope="module")
def epochs():
    return make_epochs()


@pytest.fixture(scope="module")
def mixed():
    return make_epochs(types=MIXED)


def labels(epochs):
    return NAMES[epochs.events[:, 2] - 1]


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
    "cv": ms.StratifiedKFold(6),
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
    "kernel",
    ["linear", "rbf", Linear(), Polynomial(2, gamma=1e11, coef0=0.5), laplacian_kernel],
    ids=str,
)
@pytest.mark.parametrize("n_channels", [5, 60])
def test_every_time_equals_cross_validate(kernel, n_channels):
    epochs = make_epochs(types=("eeg",) * n_channels, n_times=4)
    result = decode_epochs(epochs, kernel=kernel, **OPTIONS)
    data = epochs.get_data()
    features = [data[:, :, t] for t in range(4)]
    assert_equals_arrays(result, features, labels(epochs), kernel=kernel, **OPTIONS)


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
    expected = decode_epochs(epochs, **OPTIONS)
    assert_array_equal(expected.classes, NAMES)
    assert_array_equal(expected.classes[expected.y], labels(epochs))
    words = epochs.metadata["word"]
    for y in (
        "word",
        words,
        words.sample(frac=1, random_state=0).sort_index().set_axis(range(100, 148)),
        words.astype("category"),
        words.astype("string"),
        words.to_numpy(),
        words.to_list(),
        tuple(words),
    ):
        result = decode_epochs(epochs, y, **OPTIONS)
        assert_array_equal(result.classes, NAMES)
        same(result, expected)


def test_numbers_as_labels(epochs):
    expected = decode_epochs(epochs, **OPTIONS)
    for y in ("number", epochs.metadata["number"], epochs.events[:, 2] + 9):
        result = decode_epochs(epochs, y, **OPTIONS)
        assert_array_equal(result.classes, [10, 11, 12])
        same(result, expected)
    two = decode_epochs(epochs, epochs.metadata["number"] > 10, **OPTIONS)
    assert_array_equal(two.classes, [False, True])
    assert two.chance == 0.5


def test_a_metadata_column_may_have_any_type(epochs):
    epochs = epochs.copy()
    expected = decode_epochs(epochs, **OPTIONS)
    epochs.metadata["cat"] = pd.Categorical(labels(epochs), categories=NAMES[::-1])
    epochs.metadata["text"] = pd.array(labels(epochs), dtype="string")
    epochs.metadata["whole"] = pd.array(epochs.events[:, 2], dtype="Int64")
    for column in ("cat", "text", "whole"):
        same(decode_epochs(epochs, column, **OPTIONS), expected)


def test_events_without_a_name_are_refused(epochs):
    epochs = epochs.copy()
    epochs.events[[3, 5], 2] = [77, 78]
    match = r"event_id has no name for the event codes \[77, 78\].*or give y"
    with pytest.raises(ValueError, match=match):
        decode_epochs(epochs)
    decode_epochs(epochs, "word")


def test_groups_by_column_or_array(epochs):
    options = {"n_permutations": 20, "random_state": 1}
    result = decode_epochs(epochs, groups="run", **options)
    runs = epochs.metadata["run"].to_numpy()
    assert [set(runs[test]) for _, test in result.folds] == [{0}, {1}, {2}, {3}]
    assert_array_equal(result.groups, runs)
    assert "LeaveOneGroupOut" in result.parameters["cv"]
    for groups in (
        runs,
        runs.tolist(),
        epochs.metadata["run"],
        [f"r{r}" for r in runs],
    ):
        same(result, decode_epochs(epochs, groups=groups, **options))
    features = np.moveaxis(epochs.get_data(), 2, 0)
    assert_equals_arrays(result, features, labels(epochs), groups=runs, **options)


def test_int_cv_with_groups_warns_at_the_caller(epochs):
    with pytest.warns(
        UserWarning, match="stratified folds without regard to the groups"
    ):
        decode_epochs(epochs, groups="run", cv=5)
    with warnings.catch_warnings(record=True) as record:
        warnings.simplefilter("always")
        decode_epochs(epochs, groups="run", cv=5)
    ours = [w for w in record if "without regard" in str(w.message)]
    assert [w.filename for w in ours] == [__file__]


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
    ],
    ids=str,
)
def test_picks_that_select_nothing(picks, match):
    epochs = make_epochs(types=ALL_TYPES, n_times=2)
    epochs.info["bads"] = ["EEG1"]
    with pytest.raises(ValueError, match=match):
        decode_epochs(epochs, picks=picks)


def test_picks_of_a_wrong_type(epochs):
    with pytest.raises(TypeError, match="picks must be a list of int"):
        decode_epochs(epochs, picks=1.5)


def test_no_data_channels_says_what_there_is():
    epochs = make_epochs(types=("misc", "misc", "stim"))
    match = "picks=None; the channel types are: misc, stim; bad .*e.g. picks='misc'"
    with pytest.raises(ValueError, match=match):
        decode_epochs(epochs)
    assert decode_epochs(epochs, picks="misc").parameters["ch_names"] == [
        "MISC0",
        "MISC1",
    ]
    epochs = make_epochs()
    epochs.info["bads"] = epochs.ch_names
    with pytest.raises(ValueError, match=r"No good channels for picks=None.*'EEG4'"):
        decode_epochs(epochs)


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
    ids=str,
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
    sizes = np.array([UNITS[kind] for kind in MIXED])
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


@NO_REFERENCE
def test_ad_hoc_covariance_is_a_scale_per_type(mixed):
    covariance = mne.make_ad_hoc_cov(mixed.info, verbose=False)
    result = decode_epochs(mixed, scale=covariance, reg=Ridge(15.0), **OPTIONS)
    deviations = np.sqrt(np.ravel(covariance.data))
    features = np.moveaxis(mixed.get_data() / deviations[:, None], 2, 0)
    assert_equals_arrays(result, features, labels(mixed), reg=Ridge(15.0), **OPTIONS)


def test_covariance_must_cover_the_channels(mixed):
    few = mne.make_ad_hoc_cov(mne.pick_info(mixed.info, [0, 2, 4]), verbose=False)
    with pytest.raises(ValueError, match=r"lacks 3 of the 6 channels, e.g. 'MAG1'"):
        decode_epochs(mixed, scale=few)
    epochs = make_epochs(types=("eeg", "eeg", "misc"))
    every = mne.Covariance(np.eye(3), epochs.ch_names, [], [], 100)
    with pytest.raises(
        ValueError, match="data channels only; MISC2 in picks cannot be"
    ):
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
    ids=str,
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


def spikes(epochs):
    """Small counts, and every trial twice: many exact ties."""
    n, p, t = epochs.get_data().shape
    rng = np.random.default_rng(1)
    counts = rng.poisson(1.0, (n, p, t)).astype(float)
    counts[n // 2 :] = counts[: n // 2]
    return replaced(epochs, counts)


@pytest.mark.parametrize("n_jobs", [2, 3])
def test_result_does_not_depend_on_n_jobs(n_jobs):
    epochs = make_epochs(n_times=14)
    large = make_epochs(
        types=("eeg",) * 64, n_times=50, n=48
    )  # memory-mapped by joblib
    assert large.get_data().nbytes > 2**20
    for data, options in (
        (epochs, {"scoring": ["accuracy", "roc_auc"]}),
        (spikes(epochs), {"scoring": ["accuracy", "roc_auc"]}),
        (spikes(epochs), {"scoring": "roc_auc", "kernel": "rbf"}),
        (spikes(epochs), {"window": 0.05, "window_mode": "concatenate"}),
        (epochs, {"kernel": lambda X, Y: (X @ Y.T) * 1e12, "dtype": "float32"}),
        (large, {"window": 0.05, "window_mode": "concatenate"}),
    ):
        options = {"n_permutations": 30, "random_state": 0, "cv": 6, **options}
        expected = decode_epochs(data, n_jobs=1, **options)
        same(decode_epochs(data, n_jobs=n_jobs, **options), expected)
        assert len(np.unique(expected.null)) > 3


@pytest.mark.parametrize("kernel", ["linear", "rbf", "polynomial"])
@pytest.mark.parametrize("n_channels", [6, 60])
def test_float32_is_close(kernel, n_channels):
    """Measured over 6 seeds: no prediction differs, single null trials by one."""
    epochs = make_epochs(n=60, types=("eeg",) * n_channels, n_times=8, snr=0.5)
    options = {"kernel": kernel, "n_permutations": 100, "random_state": 0, "cv": 6}
    double = decode_epochs(epochs, **options)
    single = decode_epochs(epochs, dtype="float32", **options)
    assert np.mean(single.predicted == double.predicted) >= 0.99
    assert_allclose(single.null, double.null, rtol=0, atol=2 / 60 + 1e-9)
    assert np.mean(single.null == double.null) >= 0.98
    assert_allclose(single.scores, double.scores, rtol=0, atol=1 / 60 + 1e-9)
    assert single.parameters["dtype"] == "float32"
    assert double.parameters["dtype"] == "float64"


# ---------------------------------------------------------------- epochs of all kinds


@pytest.mark.parametrize("types", [EEG, MIXED, ("eeg",)], ids=len)
@pytest.mark.parametrize("n_times", [1, 6])
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
    assert_equals_arrays(result, [one.get_data()[:, :, 0]], labels(one), **OPTIONS)
    single = make_epochs(types=("eeg",))
    result = decode_epochs(single, **OPTIONS)
    features = np.moveaxis(single.get_data(), 2, 0)
    assert_equals_arrays(result, features, labels(single), **OPTIONS)


def test_equalized_and_subset_epochs(epochs):
    """Selections of epochs keep labels and data together."""
    subset = epochs[["face", "tool"]][::-1]
    result = decode_epochs(subset, **OPTIONS)
    assert_array_equal(result.classes, ["face", "tool"])
    features = np.moveaxis(subset.get_data(), 2, 0)
    assert_equals_arrays(result, features, labels(subset), **OPTIONS)


# ----------------------------------------------------------------------------- result


def test_result_holds_what_redoes_it(epochs):
    result = decode_epochs(
        epochs, "word", n_permutations=30, scoring=["roc_auc", "accuracy", "f1"], cv=6
    )
    assert type(result) is TimeResult
    assert_allclose(result.times, epochs.times, rtol=0, atol=1e-15)
    assert result.scoring == ["roc_auc", "accuracy", "f1"]
    assert_array_equal(result.scores, result.metrics["roc_auc"])
    assert_array_equal(result.null, result.nulls["roc_auc"])
    assert result.null.shape == (30, 6)
    assert result.chance == 0.5
    assert result.chances["accuracy"] == 1 / 3
    assert_array_equal(
        result.metrics["accuracy"], (result.predicted == result.y).mean(axis=1)
    )
    parameters = result.parameters
    assert parameters["kernel"] == "Linear()"
    assert parameters["reg"] == "0.3"
    assert parameters["scale"] == "auto"
    assert parameters["ch_names"] == epochs.ch_names
    assert parameters["sfreq"] == 100.0
    assert parameters["permute"] == "within_folds"
    assert type(parameters["random_state"]) is int
    again = decode_epochs(
        epochs,
        "word",
        n_permutations=30,
        scoring=parameters["scoring"],
        cv=result.folds,
        permute=parameters["permute"],
        random_state=parameters["random_state"],
    )
    same(again, result)
    other = decode_epochs(
        epochs, "word", n_permutations=30, scoring=["roc_auc", "accuracy", "f1"], cv=6
    )
    assert (other.null != result.null).any()


def test_the_permutations_are_the_same_at_all_times():
    """The same data at all times must have the same null at all times."""
    epochs = make_epochs()
    data = np.repeat(epochs.get_data()[:, :, -1:], 9, axis=2)
    result = decode_epochs(replaced(epochs, data), n_permutations=25, random_state=0)
    assert len(np.unique(result.null[:, 0])) > 3
    assert_array_equal(result.null, np.repeat(result.null[:, :1], 9, axis=1))
    assert_array_equal(result.predicted, np.repeat(result.predicted[:1], 9, axis=0))


def test_result_is_saved_drawn_and_tabulated(tmp_path, epochs):
    result = decode_epochs(
        epochs,
        groups="run",
        window=np.float32(0.02),
        step=np.float64(0.02),
        kernel=RBF(gamma=1e10),
        reg=Ridge(0.5),
        picks=["EEG0", "EEG3"],
        n_permutations=20,
        random_state=np.random.default_rng(0),
    )
    path = tmp_path / "result.h5"
    result.save(path)
    loaded = load_result(path)
    assert loaded == result
    assert loaded.parameters["kernel"] == "RBF(gamma=10000000000.0)"
    assert loaded.parameters["reg"] == "Ridge(lam=0.5)"
    table = loaded.to_dataframe()
    assert table.columns.tolist() == ["time", "accuracy", "p", "p_max"]
    assert_array_equal(table["time"], result.times)
    assert_array_equal(table["accuracy"], result.scores)
    plt = pytest.importorskip("matplotlib.pyplot")
    figure, ax = plt.subplots()
    assert loaded.plot(ax=ax) is ax
    drawn = [line.get_ydata() for line in ax.get_lines()]
    assert any(np.array_equal(y, result.scores) for y in drawn)
    plt.close(figure)


def test_progress_bar_only_when_asked(epochs, capfd):
    for verbose in (False, None, "WARNING", "error", 30):
        decode_epochs(epochs, cv=4, verbose=verbose)
        assert capfd.readouterr() == ("", "")
    for verbose in (True, "INFO", "debug", 20):
        decode_epochs(epochs, cv=4, verbose=verbose)
        assert "6/6" in capfd.readouterr().err


# -------------------------------------------------------------------------- bad input


def with_data(change):
    """Return a function that makes epochs with changed data."""

    def make():
        epochs = make_epochs()
        return replaced(epochs, change(epochs.get_data()))

    return make


def put(where, value):
    def change(data):
        data[where] = value
        return data

    return with_data(change)


def with_metadata(change):
    def make():
        epochs = make_epochs()
        epochs.metadata = change(epochs.metadata)
        return epochs

    return make


def missing_word(metadata):
    metadata.loc[5, "word"] = np.nan
    return metadata


def missing_run(metadata):
    metadata["run"] = pd.array(
        metadata["run"].where(metadata["run"] > 0), dtype="Int64"
    )
    return metadata


def rare_face():
    epochs = make_epochs()
    faces = np.flatnonzero(labels(epochs) == "face")
    return epochs.drop(faces[1:], verbose=False)


@pytest.mark.parametrize(
    ("make", "match"),
    [
        (
            put((3, 0, 2), np.nan),
            r"holds 1 NaN or infinite .*1 of 48 trials \(first: 3\)",
        ),
        (put((slice(4), 0, 2), np.inf), "holds 4 NaN or infinite .*in 4 of 48 trials"),
        (with_data(lambda x: x * 1j), "The data of epochs holds complex data"),
        (put((..., 2), 5e-6), r"At -0\.010 s: The trials do not differ.*flat data"),
        (put(..., 0.0), r"At -0\.030 s: The trials do not differ"),
        (lambda: make_epochs()["face"], r"y holds one class only \('face'\)"),
        (rare_face, "Class 'face' has 1 trial, fewer than the 10 folds"),
        (lambda: make_epochs()[:0], "epochs is empty.*drop_log"),
        (lambda: make_epochs().drop(range(48), verbose=False), "epochs is empty"),
    ],
)
def test_bad_data(make, match):
    with pytest.raises(ValueError, match=match):
        decode_epochs(make())


@pytest.mark.parametrize(
    ("make", "match"),
    [
        (
            lambda: make_epochs().get_data(),
            "an mne.Epochs or EpochsTFR object; got ndarray.*decode_arrays",
        ),
        (lambda: "sub-01-epo.fif", "got str. Read the file with mne.read_epochs first"),
        (
            lambda: __import__("pathlib").Path("a-epo.fif"),
            "Path. Read the file with mne",
        ),
        (
            lambda: make_epochs().average(),
            "mne.Epochs or EpochsTFR object; got Evoked",
        ),
        (lambda: [make_epochs()], "an mne.Epochs or EpochsTFR object; got list"),
        (lambda: None, "an mne.Epochs or EpochsTFR object; got NoneType"),
    ],
)
def test_not_epochs(make, match):
    with pytest.raises(TypeError, match=match):
        decode_epochs(make())


@pytest.mark.parametrize(
    ("make", "options", "match"),
    [
        (
            make_epochs,
            {"y": "foo"},
            "y='foo' is not a metadata column. .*'word', 'number'",
        ),
        (
            make_epochs,
            {"groups": "foo"},
            "groups='foo' is not a metadata column.*'run'",
        ),
        (
            with_metadata(lambda m: None),
            {"y": "word"},
            "y='word' names a metadata .* no ",
        ),
        (
            with_metadata(lambda m: None),
            {"groups": "run"},
            "groups='run' names a metad",
        ),
        (with_metadata(missing_word), {"y": "word"}, r"y is missing .* 1 of 48 trials"),
        (
            with_metadata(missing_run),
            {"groups": "run"},
            "groups is missing .* 12 of 48",
        ),
        (
            make_epochs,
            {"y": np.arange(47) % 2},
            r"y must hold .*\(48,\); got shape \(47,",
        ),
        (make_epochs, {"y": np.arange(48)}, "a different label for each of the 48"),
        (make_epochs, {"y": np.linspace(0, 1, 48)}, "y looks continuous"),
        (make_epochs, {"groups": [1, 2]}, r"groups must hold one value per trial"),
        (
            make_epochs,
            {"groups": "run", "cv": ms.GroupKFold(5)},
            "at least 5 groups; got",
        ),
        (make_epochs, {"cv": ms.TimeSeriesSplit(3)}, "TimeSeriesSplit.*use KernelFDA"),
        (make_epochs, {"cv": 17}, "has 16 trials, fewer than the 17 folds"),
        (make_epochs, {"kernel": "foo"}, "'kernel': 'foo'. Allowed: 'linear', 'rbf', "),
        (
            make_epochs,
            {"kernel": "precomputed"},
            "'precomputed'. The data hold",
        ),
        (make_epochs, {"reg": 0}, "Invalid value for 'reg': 0"),
        (make_epochs, {"reg": -0.3}, r"Invalid value for 'reg': -0\.3"),
        (
            make_epochs,
            {"kernel": "rbf", "reg": 1e-14},
            r"At -0\.030 s: lambda = .* too sm",
        ),
        (make_epochs, {"scoring": "foo"}, "'scoring': 'foo'. Allowed: 'accuracy', "),
        (make_epochs, {"permute": "foo"}, "'permute': 'foo'. Allowed: 'auto', "),
        (
            make_epochs,
            {"scale": "foo"},
            "'scale': 'foo'. Allowed: 'auto', 'channel', No",
        ),
        (make_epochs, {"scale": "a noise covariance"}, "Invalid value for 'scale'"),
        (make_epochs, {"scale": np.eye(5)}, "Invalid value for 'scale': array"),
        (
            make_epochs,
            {"window_mode": "foo"},
            "'window_mode': 'foo'. Allowed: 'mean', 'co",
        ),
        (
            make_epochs,
            {"window": 0.07},
            "window=0.07 s is 7 samples at 100 Hz, longer th",
        ),
        (
            make_epochs,
            {"window": 0},
            "'window': 0. Allowed: .* above zero. It is in sec",
        ),
        (make_epochs, {"window": -0.1}, r"Invalid value for 'window': -0\.1"),
        (make_epochs, {"window": np.nan}, "Invalid value for 'window': nan"),
        (make_epochs, {"step": 0.0}, r"Invalid value for 'step': 0\.0"),
        (
            make_epochs,
            {"dtype": "foo"},
            "'dtype': 'foo'. Allowed: 'float64', 'float32'",
        ),
        (make_epochs, {"n_jobs": 0}, "'n_jobs': 0. Allowed: None, or a whole number"),
        (make_epochs, {"n_jobs": "two"}, "Invalid value for 'n_jobs': 'two'"),
        (make_epochs, {"verbose": "foo"}, "Invalid value for 'verbose': .* 'WARNING'"),
        (make_epochs, {"n_permutations": -1}, "Invalid value for 'n_permutations': -1"),
    ],
)
def test_bad_arguments(make, options, match):
    with pytest.raises(ValueError, match=match):
        decode_epochs(make(), **options)


@pytest.mark.parametrize(
    ("options", "match"),
    [
        (
            {"window": "0.1"},
            "Invalid value for 'window': '0.1' of type str.*in seconds",
        ),
        ({"step": True}, "Invalid value for 'step': True"),
        ({"kernel": None}, "Invalid value for 'kernel': None"),
        ({"reg": "big"}, "Invalid value for 'reg': 'big'"),
        ({"random_state": "foo"}, "Invalid value for 'random_state'"),
        ({"cv": "foo"}, "Invalid value for 'cv': 'foo'"),
    ],
)
def test_arguments_of_a_wrong_type(epochs, options, match):
    with pytest.raises(TypeError, match=match):
        decode_epochs(epochs, **options)


def test_unknown_correction_lists_the_choices(epochs):
    result = decode_epochs(epochs, n_permutations=20, random_state=0)
    with pytest.raises(
        ValueError, match=r"'foo'\. Allowed: 'none', .*'cluster', 'cluster-size'"
    ):
        result.pvalues("foo")


def test_flat_data_is_named_by_workers_too():
    with pytest.raises(ValueError, match=r"^At -0\.010 s: The trials do not differ"):
        decode_epochs(put((..., 2), 5e-6)(), n_jobs=2)


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
