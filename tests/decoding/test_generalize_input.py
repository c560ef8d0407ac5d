"""What the functions for time generalization refuse, and what they leave alone."""

import re
import shutil
import tempfile
import warnings

import mne
import numpy as np
import pandas as pd
import pytest
from mne.time_frequency import EpochsTFRArray
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.metrics.pairwise import linear_kernel

from mvpa_kfda import Ridge, generalize_arrays, generalize_epochs
from mvpa_kfda.decoding import analysis
from mvpa_kfda.utils import memory
from tests import build
from tests.build import NAMES


def make_epochs(n=30, types="eeg", n_times=5, seed=0, sfreq=100.0):
    """Return epochs whose three classes differ, of other trials with another seed."""
    p = 4 if types == "eeg" else len(types)
    means = np.random.default_rng(7).standard_normal((3, p))
    rng = np.random.default_rng(seed)
    codes = rng.permutation(np.arange(n) % 3)
    X = means[codes][:, :, None] + rng.standard_normal((n, p, n_times))
    metadata = {"position": np.arange(n) % 2, "load": codes}
    return build.jittered(build.epochs(X, codes, types, sfreq, **metadata), seed)


def replaced(epochs, data):
    """Return the same epochs with other data."""
    other = epochs.copy()
    other._data = data
    return other


@pytest.fixture
def epochs():
    return make_epochs()


@pytest.fixture
def others():
    """Other trials of the same channels."""
    return make_epochs(n=20, seed=1)


@pytest.fixture
def arrays(epochs):
    return 1e6 * epochs.get_data(), epochs.metadata["word"].to_numpy()


def refused(message, *arguments, error=ValueError, **options):
    """Assert that both functions refuse, or the one that the arguments are for."""
    is_epochs = isinstance(arguments[0], mne.BaseEpochs)
    function = generalize_epochs if is_epochs else generalize_arrays
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(error, match=message) as caught:
            function(*arguments, **options)
    assert type(caught.value) is error


# ---------------------------------------------------------------------------- channels


def test_missing_channels_are_named(epochs, others):
    few = others.copy().drop_channels(["EEG1", "EEG3"])
    refused(
        r"^test_epochs lacks 2 of the 4 channels, e\.g\. EEG1, EEG3\. .* in picks\.$",
        epochs,
        test_epochs=few,
    )
    found = generalize_epochs(epochs, test_epochs=few, picks=["EEG0", "EEG2"])
    assert found.parameters["ch_names"] == ["EEG0", "EEG2"]
    # The other way round all is well: what is not trained with is not needed.
    found = generalize_epochs(epochs.copy().pick(["EEG2"]), test_epochs=others)
    assert found.parameters["ch_names"] == ["EEG2"]
    message = r"^No good channels for picks=\['EEG9'\]"
    refused(message, epochs, test_epochs=others, picks=["EEG9"])


def test_channels_of_other_types_are_named(epochs, others):
    others.set_channel_types({"EEG2": "eog"}, verbose=False)
    refused(
        r"^Channel 'EEG2' is of type eeg in epochs and eog in test_epochs\. .*picks\.$",
        epochs,
        test_epochs=others,
    )
    generalize_epochs(epochs, test_epochs=others, picks=["EEG0", "EEG1"])


def test_all_channels_bad_somewhere(epochs, others):
    epochs.info["bads"], others.info["bads"] = ["EEG0", "EEG1"], ["EEG2", "EEG3"]
    message = "^No channel is good in both epochs and test_epochs: EEG2, EEG3 are bad"
    refused(message, epochs, test_epochs=others)
    others.info["bads"] = ["EEG0", "EEG2"]
    found = generalize_epochs(epochs, test_epochs=others)
    assert found.parameters["ch_names"] == ["EEG3"]
    alone = generalize_epochs(
        epochs.copy().pick(["EEG3"]), test_epochs=others.copy().pick(["EEG3"])
    )
    assert_array_equal(found.predicted, alone.predicted)


def test_sampling_rates(epochs):
    other = make_epochs(sfreq=250.0, seed=2)
    message = r"^epochs has 100 samples per second and test_epochs 250\. Resample"
    refused(message, epochs, test_epochs=other)


# ------------------------------------------------------------------------------ labels


def test_labels_only_in_testing_are_named(epochs, others):
    known = epochs[["ant", "bee"]]
    message = (
        "^y_test holds labels that no training trial has: 'cat'. The classes of y "
        "are: 'ant', 'bee'. Drop these test trials, or rename"
    )
    refused(message, known, test_epochs=others)
    refused(message, known, "word", test_epochs=others)
    refused(message, known, test_epochs=others, y_test="word")
    lamp = np.where(np.arange(30) == 3, "lamp", "ant")
    refused(
        "^y_test holds labels that .* has: 'lamp'. .*: 'ant', 'be", epochs, y_test=lamp
    )
    where = epochs.metadata["word"] == "cat"
    epochs.metadata = epochs.metadata.assign(has=np.where(where, 1, 2))
    message = "^train_on='has == 2' selects no trial of class 'cat', which is among the"
    refused(message, epochs, train_on="has == 2")


def test_labels_of_another_kind_are_named(arrays):
    X, y = arrays
    codes = np.searchsorted(NAMES, y)
    refused(r"no training trial has: 0, 1, 2\. The .*: 'ant'", X, y, y_test=codes)
    refused(r"no training trial has: 'ant', .*: 0, 1, 2\.", X, codes, y_test=y)
    refused(r"no training trial has: 5\. ", X, codes, y_test=codes + 5 * (codes == 0))
    refused(
        r"no training trial has: 0\.5\. ", X, codes, y_test=codes + 0.5 * (codes < 1)
    )
    message = r"no training trial has: 100, .*, 109, \.\.\.\. "
    refused(message, X, codes, y_test=100 + np.arange(30))
    # Floats that are whole numbers are the same labels.
    same = generalize_arrays(X, codes, y_test=codes.astype(float))
    assert same.parameters["mode"] == "plain"


def test_labels_of_other_trials_are_needed(epochs, others, arrays):
    X, y = arrays
    message = (
        "^The test data are other trials than the training data, so their labels are "
        "needed: pass y_test, one for each of the 20 test trials"
    )
    refused(message, X, y, 1e6 * others.get_data())
    message = (
        "^test_epochs are other trials than epochs, so their labels are needed: pass "
        "y_test, one label for each of the 20 test epochs"
    )
    refused(message, epochs, y, test_epochs=others)
    others.metadata = None
    refused("names a metadata column", epochs, "word", test_epochs=others)
    message = "^y_test='word' names a metadata column"
    refused(message, epochs, test_epochs=others, y_test="word")
    others.event_id = {"ant": 1, "bee": 2}
    refused("has no name for the event codes", epochs, test_epochs=others)


@pytest.mark.parametrize("n", [0, 1, 19, 21])
def test_every_test_trial_has_a_label(epochs, others, n):
    labels = np.resize(NAMES[:3], n)
    message = (
        rf"^y_test must hold one value per trial, shape \(20,\); got shape \({n},\)"
    )
    refused(message, epochs, test_epochs=others, y_test=labels)
    refused(r"^y_test must .*shape \(30,\); got shape", epochs, y_test=labels)
    missing = ["ant"] * 18 + [None, float("nan")]
    message = r"^y_test is missing \(None or NaN\) for 2 of 20 trials"
    refused(message, epochs, test_epochs=others, y_test=missing)


def test_one_class_may_be_tested(epochs, others):
    """Generalization to one condition: nothing says that all have to be tested."""
    result = generalize_epochs(epochs, test_epochs=others["cat"])
    assert set(result.y_test.tolist()) == {2}
    assert result.metrics["accuracy"].mean() > 0.34


# --------------------------------------------------------------------------- train_on


QUERIES = {
    "position > 5": r"^train_on='position > 5' selects none of the 30 epochs; .* 'word",
    "position < 5": r"^train_on='position < 5' selects all of the 30 epochs; some",
    "place == 1": r"is no query on the columns 'word', ",
    "position ==": r"is no query on the columns",
    "": r"is no query on the columns",
    "position + 1": r"^train_on='position \+ 1' is no query",  # not rows 1 and 2
    "word": r"^train_on='word' is no query",
    "position.mean()": r"^train_on='position\.mean\(\)' is no query",
    "position": r"^train_on='position' is no query",
    "__import__('os')": r"is no query on the columns",
}


@pytest.mark.parametrize("query", QUERIES)
def test_queries(epochs, query):
    refused(QUERIES[query], epochs, train_on=query)


def test_queries_of_columns_that_may_hold_nothing(epochs):
    """Where a value is missing, the query is not true."""
    expected = generalize_epochs(epochs, train_on="position == 1")
    column = epochs.metadata["position"].astype("Int64")
    epochs.metadata = epochs.metadata.assign(some=column, more=column.replace(0, pd.NA))
    for name in ("some", "more"):
        found = generalize_epochs(epochs, train_on=f"{name} == 1")
        assert_array_equal(found.predicted, expected.predicted)


@pytest.mark.parametrize("query", [1, ["position == 1"], np.ones(30), lambda: 1])
def test_queries_are_text(epochs, query):
    message = r"^train_on must hold booleans, True for each trial to train on"
    refused(message, epochs, train_on=query, error=TypeError)


def test_queries_need_metadata(epochs):
    epochs.metadata = None
    refused(
        r"^train_on='position == 1' asks epochs\.metadata, but these epochs have none",
        epochs,
        train_on="position == 1",
    )


def test_a_query_stands_alone(epochs, others):
    query = {"train_on": "position == 1"}
    for more in ({"test_epochs": others}, {"y_test": "word"}):
        refused(
            "it cannot be combined with test_epochs or y_test", epochs, **query, **more
        )
    message = r"^average=2 .* cannot be combined with .*train_on"
    refused(message, epochs, average=2, **query)


# ----------------------------------------------------------------- the same trials, cv


@pytest.mark.parametrize("value", [2, "True"])
def test_same_trials_is_yes_or_no(epochs, others, arrays, value):
    message = r"^Invalid value for 'same_trials': .* Allowed: True, False or None\.$"
    X, y = arrays
    refused(message, epochs, test_epochs=others, same_trials=value, error=TypeError)
    refused(message, X, y, X + 1, same_trials=value, error=TypeError)


@pytest.mark.parametrize("value", [True, False])
def test_same_trials_is_about_two_sets(epochs, arrays, value):
    message = rf"^same_trials={value} is for {{}}, which is not given\. Drop it"
    refused(message.format("test_epochs"), epochs, same_trials=value)
    refused(message.format("X_test"), *arrays, same_trials=value)


def test_the_same_trials_are_as_many(epochs, others, arrays):
    X, y = arrays
    message = (
        "^same_trials=True needs the same trials in both, in the same order; epochs "
        r"has 30 and test_epochs has 20\.$"
    )
    refused(message, epochs, test_epochs=others, same_trials=True)
    refused(r"; X has 30 and X_test has 29\.$", X, y, X[1:] + 1, same_trials=True)
    refused(r"; trial 0 of X_test is trial 1 of X\.$", X, y, X[1:], same_trials=True)


def test_shared_trials_are_counted(epochs, arrays):
    X, y = arrays
    message = r"^7 of the 7 trials of X_test are also in X \(trial 0 is trial 2 there\)"
    refused(message, X, y, X[2:9], y_test=y[2:9])
    refused(
        r"^1 of the 21 trials of test_epochs are also in epochs \(trial 20 is trial 4",
        epochs,
        test_epochs=mne.concatenate_epochs(
            [make_epochs(n=20, seed=1), epochs[4]], verbose=False
        ),
    )


def test_blank_trials_are_not_called_shared(arrays):
    """Trials without any variation are alike by chance."""
    X, y = arrays
    X_test = make_epochs(n=20, seed=1).get_data() * 1e6
    X[0], X_test[5] = 0.0, 0.0
    result = generalize_arrays(X, y, X_test, y_test=np.resize(NAMES[:3], 20))
    assert result.parameters["mode"] == "other_trials"


@pytest.mark.parametrize("cv", [5, "loo", [(np.arange(20), np.arange(20, 30))]])
def test_other_trials_need_no_folds(epochs, others, arrays, cv):
    message = r"(?s)^cv has no meaning here: the model is trained on all trials"
    X, y = arrays
    labels = others.metadata["word"]
    refused(message, epochs, test_epochs=others, cv=cv)
    refused(message, X, y, 1e6 * others.get_data(), y_test=labels, cv=cv)


def test_other_trials_are_not_permuted_within_folds(epochs, others):
    options = {"test_epochs": others, "n_permutations": 10}
    refused(
        r"^permute='within_folds' needs folds, but the model is trained on all trials",
        epochs,
        permute="within_folds",
        **options,
    )
    for scheme in ("within_groups", "groups"):
        refused(rf"^permute='{scheme}' needs groups", epochs, permute=scheme, **options)
    refused(r"^Invalid value for 'permute': 'all'", epochs, permute="all", **options)
    groups = np.arange(30) // 10
    message = r"^permute='groups' needs one label per group; group 0 holds several"
    refused(message, epochs, permute="groups", groups=groups, **options)


# --------------------------------------------------------------------- times, windows


def test_windows_longer_than_the_epochs(epochs, others):
    refused(r"^window=0\.06 s is 6 samples at 100 Hz, longer", epochs, window=0.06)
    short = others.copy().crop(0.0, 0.02)
    refused(
        r"^window=0\.04 s is 4 samples at 100 Hz, longer than the epoch: 3 samples",
        epochs,
        test_epochs=short,
        window=0.04,
    )
    result = generalize_epochs(epochs, test_epochs=short, window=0.03)
    assert result.shape == (3, 1)


# -------------------------------------------------------------------------------- data


def test_flat_training_times_are_found_first(epochs, monkeypatch):
    monkeypatch.setattr(analysis, "run", lambda *_: pytest.fail("it has started"))
    flat = epochs.get_data()
    flat[:, :, 4] = 0.0
    refused(r"^At 0\.040 s: The trials do not differ", replaced(epochs, flat))


def test_flat_training_times(epochs, others, arrays):
    """A baseline of one sample: flat at one time."""
    flat = epochs.get_data()
    flat[:, :, 3] = 2e-6
    at = r"^At 0\.030 s: The trials do not differ"
    refused(at, replaced(epochs, flat))
    refused(at, replaced(epochs, flat), test_epochs=others)
    refused(r"^At 3\.000 s: The trials do not differ", 1e6 * flat, arrays[1])
    # Flat test data is a test result like any other.
    blank = others.get_data()
    blank[:, :, 1] = 0.0
    result = generalize_epochs(epochs, test_epochs=replaced(others, blank))
    assert (np.ptp(result.predicted[:, 1], axis=-1) == 0).all()


def test_values_that_are_no_numbers(epochs, others, arrays):
    X, y = arrays
    data = others.get_data()
    data[4, 1, 2] = np.nan
    message = (
        r"^The data of test_epochs holds 1 NaN or infinite values, in 1 of .*first: 4"
    )
    refused(message, epochs, test_epochs=replaced(others, data))
    bad = X.copy()
    bad[4, 1, 2] = np.inf
    refused(r"^X_test holds 1 NaN or infinite values", X, y, bad, same_trials=True)
    hilbert = replaced(others, others.get_data() * (1 + 1j))
    refused("^The data of test_epochs holds complex data", epochs, test_epochs=hilbert)
    refused("^X_test holds complex data", X, y, X * 1j, y_test=y)


def test_other_objects(epochs, others, arrays):
    X, y = arrays
    tfr = EpochsTFRArray(epochs.info, np.ones((30, 4, 2, 5)), epochs.times, [8.0, 9.0])
    for given in (
        tfr,
        epochs.average(),
        epochs.get_data(),
        "raw_epo.fif",
        None,
        [epochs],
    ):
        message = rf"must be an mne\.Epochs object; got {type(given).__name__}\b"
        with pytest.raises(TypeError, match=f"^epochs {message}"):
            generalize_epochs(given)
        if given is not None:
            with pytest.raises(TypeError, match=f"^test_epochs {message}"):
                generalize_epochs(epochs, test_epochs=given)
    refused("^test_epochs is empty", epochs, test_epochs=others[:0])
    refused("^epochs is empty", epochs[:0], test_epochs=others)
    refused("^X_test must have 3 dimensions", X, y, X[0], y_test=y)


# ------------------------------------------------------------------------------ memory


def test_maps_too_large_for_memory(epochs, arrays, monkeypatch):
    """The size, what is there and what to do, before anything is computed."""
    monkeypatch.setattr(analysis, "run", lambda *_: pytest.fail("it has started"))
    monkeypatch.setattr(memory, "usable_memory", lambda: 99_000)
    message = (
        r"^A map of 5 x 5 positions with 1000 permutations needs 100 kB; this machine "
        r"or job has 99 kB of memory\. Use fewer times .*, fewer permutations or "
        r"null='max' instead of 'full'\.$"
    )
    for data in ((epochs,), arrays):
        refused(message, *data, n_permutations=1000, null="full")
    monkeypatch.setattr(memory, "usable_memory", lambda: 1000)
    message = r"^A map of 5 x 5 times .* has 1 kB .* \(step=, crop or decimate\)\.$"
    refused(message, epochs, n_permutations=10, null="max")


def test_what_fits_into_memory_is_computed(epochs, monkeypatch):
    cell = 30 + 8 * (1 + 5)  # predictions, scores of all trials and of each fold
    needed = 4 * 2 * 50 * 25 + 25 * cell + 4 * 5 * 30 * 4  # null, map, test rows
    options = {"n_permutations": 50, "null": "full", "random_state": 0, "cv": 5}
    monkeypatch.setattr(memory, "usable_memory", lambda: needed)
    result = generalize_epochs(epochs, **options)
    monkeypatch.setattr(memory, "usable_memory", lambda: needed - 1)
    refused("^A map of 5 x 5 times .* needs", epochs, **options)
    generalize_epochs(epochs, **(options | {"null": "max"}))
    monkeypatch.setattr(memory, "usable_memory", lambda: None)
    assert generalize_epochs(epochs, **options) == result


def test_other_trials_have_one_null_only(epochs, others, monkeypatch):
    options = {"n_permutations": 50, "null": "full", "test_epochs": others}
    needed = 4 * 50 * 25 + 25 * (20 + 8 + 8) + 4 * 5 * 20 * 4
    monkeypatch.setattr(memory, "usable_memory", lambda: needed)
    assert generalize_epochs(epochs, **options).null.nbytes == 4 * 50 * 25
    monkeypatch.setattr(memory, "usable_memory", lambda: needed - 1)
    refused("^A map of 5 x 5 times .* needs", epochs, **options)


def test_maps_too_large_for_the_disk(epochs, monkeypatch):
    class Usage:
        free = 199_999

    monkeypatch.setattr(shutil, "disk_usage", lambda folder: Usage)
    monkeypatch.setattr("mvpa_kfda.decoding.run.FULL_NULL_BYTES", 0)
    options = {"random_state": 0, "cv": 5}
    folder = re.escape(tempfile.gettempdir())
    message = (
        rf"^null='auto' writes 200 kB for 5 x 5 times and 1000 permutations into "
        rf"{folder}, which has 200 kB left\. Use fewer times .*TMPDIR.*null='max'"
    )
    refused(message, epochs, n_permutations=1000, **options)
    generalize_epochs(epochs, n_permutations=999, **options)


def test_streams_leave_no_file(epochs, monkeypatch, tmp_path):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    for n_permutations in (0, 20):
        build.keep("stream", generalize_epochs, epochs, n_permutations=n_permutations)
        assert list(tmp_path.iterdir()) == []


# -------------------------------------------------------------------------- left alone


@pytest.mark.parametrize("scale", ["auto", "channel", None])
def test_epochs_are_not_changed(scale):
    types = ("eeg", "eeg", "mag", "mag", "misc")
    both = make_epochs(types=types), make_epochs(20, types, seed=1)
    before = [(e.get_data().copy(), e.info.copy(), e.metadata.copy()) for e in both]
    epochs, others = both
    for options in (
        {"test_epochs": others},
        {"train_on": "position == 1"},
        {"picks": epochs.ch_names, "kernel": "polynomial"},
    ):
        generalize_epochs(epochs, scale=scale, **options)
    for e, (data, info, metadata) in zip(both, before, strict=True):
        assert_array_equal(e.get_data(), data)
        assert mne.utils.object_diff(e.info, info) == ""
        pd.testing.assert_frame_equal(e.metadata, metadata)


@pytest.mark.some(4)
@pytest.mark.parametrize("n_times", [1, 5])
@pytest.mark.parametrize("kernel", ["linear", "rbf", "polynomial", linear_kernel])
def test_arrays_are_not_changed(arrays, n_times, kernel):
    X = arrays[0][:, :, :n_times].copy()
    codes = np.searchsorted(NAMES, arrays[1])
    for given in (X, np.ascontiguousarray(X.transpose(2, 0, 1)).transpose(1, 2, 0)):
        X_test, y, y_test = given[::-1] + 1.0, codes.copy(), codes.copy()
        for array in (given, X_test, y, y_test):
            array.flags.writeable = False
        generalize_arrays(given, y, kernel=kernel, n_permutations=3)
        generalize_arrays(given, y, X_test, y_test=y_test, kernel=kernel)
        given.flags.writeable = True


def test_epochs_that_are_not_loaded(tmp_path, epochs, others):
    epochs.save(tmp_path / "a_epo.fif", fmt="double", verbose=False)
    others.save(tmp_path / "b_epo.fif", fmt="double", verbose=False)
    one, two = (
        mne.read_epochs(tmp_path / f"{name}_epo.fif", preload=False, verbose=False)
        for name in "ab"
    )
    result = generalize_epochs(one, test_epochs=two)
    expected = generalize_epochs(epochs, test_epochs=others)
    assert_array_equal(result.predicted, expected.predicted)
    assert not one.preload
    assert not two.preload


# ------------------------------------------------------------------------------- scale


@pytest.mark.some(4)
@pytest.mark.filterwarnings("ignore:No average EEG reference")
@pytest.mark.filterwarnings("ignore:Epochs are not baseline corrected")
@pytest.mark.parametrize("mode", ["other trials", "same trials", "query"])
@pytest.mark.parametrize("scale", ["auto", "channel", "covariance"])
def test_the_scale_of_the_training_data_is_applied(scale, mode):
    """Test data of another size stay of another size."""
    types = ("eeg", "eeg", "eeg", "mag", "mag", "mag")
    epochs = make_epochs(40, types)
    other = make_epochs(40 if mode == "same trials" else 24, types, seed=1)
    other = replaced(other, 1.5 * other.get_data())
    data, data_test = epochs.get_data(), other.get_data()
    if scale == "auto":
        sizes = [data[:, part].std() for part in (slice(3), slice(3, 6))]
        divide = np.repeat(sizes, 3)[:, None]
    elif scale == "channel":
        divide = data.std(axis=(0, 2))[:, None]
    else:
        divide = 1.0
    whitener, given = np.eye(6), scale
    if scale == "covariance":
        given = mne.compute_covariance(epochs, method="empirical", verbose="ERROR")
        whitener = mne.cov.compute_whitener(given, epochs.info, verbose="ERROR")[0]
    X, X_test = whitener @ (data / divide), whitener @ (data_test / divide)
    options = {"reg": Ridge(5.0), "n_permutations": 5, "random_state": 0}
    y, y_test = (e.metadata["word"].to_numpy() for e in (epochs, other))
    if mode == "same trials":
        options |= {"same_trials": True, "cv": 5}
        found = generalize_epochs(epochs, test_epochs=other, scale=given, **options)
        expected = generalize_arrays(X, y, X_test, **options)
    elif mode == "other trials":
        found = generalize_epochs(epochs, test_epochs=other, scale=given, **options)
        expected = generalize_arrays(X, y, X_test, y_test=y_test, **options)
    else:
        both = mne.concatenate_epochs([epochs, other], verbose=False)
        both.metadata = both.metadata.assign(first=np.arange(64) < 40)
        found = generalize_epochs(both, train_on="first", scale=given, **options)
        expected = generalize_arrays(X, y, X_test, y_test=y_test, **options)
    assert_array_equal(found.predicted, expected.predicted)
    assert_array_equal(found.null, expected.null)
    assert found.parameters["scale"] == scale
    assert found.scores.max() > 0.4
    # And patterns come back in the channels' own units.
    scaled = generalize_epochs(epochs, scale=given).pattern_maps["class"]
    plain = epochs.copy()
    plain = replaced(plain, data / np.repeat([1e-6, 1e-13], 3)[:, None])
    size = np.repeat([1e-6, 1e-13], 3)
    assert_allclose(
        np.abs(scaled / size).mean(),
        np.abs(generalize_epochs(plain, scale=None).pattern_maps["class"]).mean(),
        rtol=0.2,
        atol=0,
    )
