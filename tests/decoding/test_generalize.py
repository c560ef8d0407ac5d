"""Time generalization and cross-decoding: the same numbers as retraining gives.

Cells are compared with classifiers that MNE-Python or a plain loop trains anew, the
diagonal with the functions that decode without generalizing, and nulls with classifiers
trained on exactly the permuted labels.
"""

import pickle
from dataclasses import replace
from functools import cache

import joblib
import mne
import numpy as np
import pytest
from mne.decoding import GeneralizingEstimator, cross_val_multiscore
from numpy.testing import assert_allclose, assert_array_equal
from scipy.stats import kstest
from sklearn import model_selection as ms

from mvpa_kfda import (
    RBF,
    GeneralizationResult,
    KernelFDA,
    Ridge,
    TimeResult,
    decode_arrays,
    decode_epochs,
    generalize_arrays,
    generalize_epochs,
    load_result,
)
from mvpa_kfda.decoding import positions
from mvpa_kfda.inference.permutation import permute_labels
from mvpa_kfda.kfda.folds import make_folds
from tests import build, reference
from tests.build import NAMES

METRICS = [
    "accuracy",
    "balanced_accuracy",
    "roc_auc",
    "f1_macro",
    "kappa",
    "confusion_matrix",
]
SCALAR = METRICS[:-1]
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


def make_epochs(X, y, tmin=-0.03, seed=0, **metadata):
    """Return EEG epochs at 100 Hz with events named by class."""
    codes = np.searchsorted(NAMES, y)
    epochs = build.epochs(X, codes, tmin=tmin, **metadata)
    return build.jittered(epochs, seed)


def same(one, other):
    """Assert that two maps hold the same numbers bit for bit."""
    assert_array_equal(one.predicted, other.predicted)
    assert one.metrics.keys() == other.metrics.keys()
    for name in one.metrics:
        assert_array_equal(one.metrics[name], other.metrics[name])
    for kind in ("nulls", "second_scores", "second_nulls"):
        nulls, others = getattr(one, kind), getattr(other, kind)
        assert nulls.keys() == others.keys()
        for name in nulls:
            assert_array_equal(nulls[name], others[name])


# --------------------------------------------------------------------- the plain case


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("kernel", ["linear", "rbf"])
def test_diagonal_equals_decoding(kernel, n_classes):
    X, y = make_arrays(n_classes=n_classes)
    options = {"cv": CV, "scoring": METRICS, "n_permutations": 30, "random_state": 3}
    options |= {"kernel": kernel, "sfreq": 100, "tmin": -0.03}
    result, expected = (
        generalize_arrays(X, y, **options),
        decode_arrays(X, y, **options),
    )
    assert type(result.diagonal()) is TimeResult
    same_but_rounded(result.diagonal(), expected)
    assert result.nulls["accuracy"].dtype == np.float32
    for times in (result.train_times, result.test_times):
        assert_allclose(times, np.arange(-3, 3) / 100, rtol=0, atol=1e-12)


def same_but_rounded(diagonal, expected):
    """Assert that a diagonal is a time course, whose null was kept as float32."""
    assert_array_equal(diagonal.times, expected.times)
    assert_array_equal(diagonal.predicted, expected.predicted)
    assert_array_equal(diagonal.y, expected.y)
    assert diagonal.scoring == expected.scoring
    assert diagonal.chances == expected.chances
    for name in expected.metrics:
        assert_array_equal(diagonal.metrics[name], expected.metrics[name])
    assert diagonal.nulls.keys() == expected.nulls.keys()
    for name, null in expected.nulls.items():
        assert_array_equal(diagonal.nulls[name], null.astype(np.float32))
        for correction in ("none", "max"):  # scores that tie are still seen to tie
            p = diagonal.pvalues(correction, metric=name)
            assert_array_equal(p, expected.pvalues(correction, metric=name))


@pytest.mark.some(5)
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"kernel": RBF(), "window": 0.03, "step": 0.01},
        {"window": 0.04, "step": 0.01, "window_mode": "concatenate"},
        {"kernel": "rbf", "window": 0.05, "window_mode": "concatenate"},
        {"kernel": "polynomial"},
        {"scale": "channel"},
        {"reg": Ridge(1e-11)},
        {"cv": ms.LeaveOneOut()},
        {"cv": ms.ShuffleSplit(4, random_state=0), "permute": "free"},
        {"cv": ms.RepeatedKFold(n_splits=4, n_repeats=2, random_state=0)},
        {"groups": "run"},
        {"y": "word", "picks": ["EEG3", "EEG0"]},
    ],
    ids=str,
)
def test_diagonal_equals_decoding_of_epochs(options):
    X, y = make_arrays(n_classes=3)
    epochs = make_epochs(X, y, run=np.arange(40) % 4)
    options = {"cv": CV, "n_permutations": 20, "random_state": 3} | options
    if "groups" in options:
        options["cv"] = None
    result = generalize_epochs(epochs, scoring=METRICS, **options)
    expected = decode_epochs(epochs, scoring=METRICS, **options)
    same_but_rounded(result.diagonal(), expected)
    assert result.parameters["permute"] == expected.parameters["permute"]
    assert result.parameters["mode"] == "plain"
    assert_array_equal(np.concatenate(result.tests), np.concatenate(expected.tests))
    if result.groups is not None:
        assert_array_equal(result.groups, expected.groups)
    for name, value in expected.parameters.items():
        assert result.parameters[name] == value


@pytest.mark.some(2)
@pytest.mark.parametrize("kernel", ["linear", RBF(gamma=0.05)], ids=str)
@pytest.mark.parametrize("scoring", ["accuracy", "roc_auc"])
def test_every_cell_equals_a_retrained_generalizing_estimator(kernel, scoring):
    X, y = make_arrays()
    options = {"kernel": kernel, "reg": Ridge(20.0)}
    result = generalize_arrays(X, y, cv=CV, scoring=scoring, **options)
    model = GeneralizingEstimator(KernelFDA(**options), scoring=scoring, verbose=False)
    codes = np.searchsorted(np.unique(y), y)
    scores = cross_val_multiscore(model, X, codes, cv=CV, verbose=False)
    # Equally large folds: the mean over folds is the pooled accuracy.
    assert_allclose(result.scores, scores.mean(axis=0), rtol=1e-12, atol=0)
    assert np.ptp(result.scores) > 0.2


def accuracies(X, X_test, labels, folds, *truths):
    """Return the accuracy (P, T, U) of models trained anew, in each test.

    The truth of the first moves along with the labels, that of the second stays. The
    penalty of the second is at most .3 times the mean square of centred trials.
    """
    train, test = np.moveaxis(X, 2, 0), np.moveaxis(X_test, 2, 0)
    cross = [[B @ A.T for B in test] for A in train]
    options = [[A @ A.T for A in train], cross, labels[0], folds.pairs]
    size = np.var(train, axis=1).sum(axis=1)  # by time
    assert (0.3 * size < 20.0).any()
    found = []
    for lam, truth in zip(([20.0] * len(train), 0.3 * size), truths, strict=True):
        lam = np.minimum(lam, 20.0)
        run = reference.reference_generalize(*options, lam, labels)
        found.append(run.accuracy(truth))
    return found


def drawn(result, cv=None, groups=None, permute="auto"):
    """Return the labels that were trained with, those that move along, and folds.

    Two labellings of a trial move together.
    """
    folds, pairs, c = None, result.y, len(result.classes)
    if result.parameters["mode"] != "other_trials":
        folds, pairs = make_folds(cv, result.y, groups), result.y * c + result.y_test
    used, pairs = np.unique(pairs, return_inverse=True)
    found = permute_labels(
        pairs,
        result.n_permutations,
        folds=folds,
        groups=groups,
        permute=permute,
        random_state=result.parameters["random_state"],
    )
    assert result.parameters["permute"] == found.scheme
    labels = used[found.labels]
    return (labels, None, None) if folds is None else (labels // c, labels % c, folds)


# ----------------------------------------------------------------------------- workers


@pytest.mark.some(2)
@pytest.mark.parametrize("null", ["full", "max", "stream"])
def test_outcome_does_not_depend_on_workers(null):
    X, y = make_arrays(n=40, n_times=6, n_classes=3)
    X = np.rint(X)  # many near ties
    X[1::2], y[1::2] = X[::2], y[::2]
    options = {"scoring": METRICS, "random_state": 0, "cv": 4, "n_permutations": 12}
    expected = build.keep(null, generalize_arrays, X, y, n_jobs=1, **options)
    for n_jobs in (2, 3):
        with joblib.parallel_config(backend="threading", n_jobs=n_jobs):
            found = build.keep(null, generalize_arrays, X, y, **options)
            assert found == expected


# ------------------------------------------------------------- what is kept of the null


@pytest.fixture(scope="module")
def by_null():
    X, y = make_arrays(snr=0.6)
    options = {"cv": CV, "scoring": METRICS, "n_permutations": 60, "random_state": 1}
    return {
        null: build.keep(null, generalize_arrays, X, y, **options)
        for null in ("full", "max", "stream", "auto")
    }


def test_summaries_give_the_same_p_values(by_null):
    full = by_null["full"]
    assert (full.pvalues("cluster") <= 0.05).any()
    assert full.pvalues().min() == 1 / 61
    for name in SCALAR:
        for correction in CORRECTIONS:
            expected = full.pvalues(correction, metric=name)
            found = by_null["stream"].pvalues(correction, metric=name)
            assert_array_equal(found, expected)
            if correction not in ("cluster", "tfce"):
                found = by_null["max"].pvalues(correction, metric=name)
                assert_array_equal(found, expected)
    for null in ("max", "stream"):
        assert_array_equal(by_null[null].scores, full.scores)
        assert_array_equal(by_null[null].predicted, full.predicted)
        assert by_null[null].n_permutations == 60
        assert by_null[null].nulls == {}
        assert by_null[null].parameters["null"] == null


def test_null_max(by_null):
    expected = by_null["full"].null.reshape(60, 36).max(axis=1)
    for null, result in by_null.items():
        assert result.null_max.shape == (60,)
        assert_allclose(result.null_max, expected, rtol=1e-6, atol=0, err_msg=null)


@pytest.mark.parametrize("null", ["max", "stream"])
def test_what_was_not_kept_is_refused_with_advice(by_null, null):
    result = by_null[null]
    with pytest.raises(ValueError, match=r"result\.null was not kept.*null='full'"):
        _ = result.null
    if null == "max":
        for correction in ("cluster", "tfce"):
            with pytest.raises(ValueError, match=r"null='full'.* or with null='auto'"):
                result.pvalues(correction)
    else:
        with pytest.raises(ValueError, match=r"threshold"):
            result.pvalues("cluster", threshold=0.01)
    diagonal = result.diagonal()
    assert diagonal.n_permutations == 0
    assert_array_equal(diagonal.scores, np.diag(result.scores))
    with pytest.raises(ValueError, match=r"were not kept .*null='full'"):
        diagonal.pvalues()


def test_test_features_are_kept_for_all_folds_up_to_a_limit(monkeypatch):
    X, codes = build.trials((9, 9, 9), 5, 3)
    gathered, results = [], []
    gather = positions.GeneralizationPositions._test_features

    def spy(self, windows, order):
        gathered.append(isinstance(order, slice))
        return gather(self, windows, order)

    monkeypatch.setattr(positions.GeneralizationPositions, "_test_features", spy)
    for limit in (8 * X.size, 8 * X.size - 1):
        monkeypatch.setattr(positions.Chunks, "MOST", limit)
        options = {"cv": 3, "preprocess": "zscore", "reg": 0.3}
        results.append(generalize_arrays(X, codes, **options))
        assert any(gathered) == (limit == 8 * X.size)
        gathered.clear()
    assert_array_equal(results[0].predicted, results[1].predicted)


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


@pytest.mark.parametrize("null", ["auto", "full", "max"])
def test_without_permutations(null):
    X, y = make_arrays(n_times=3)
    result = generalize_arrays(X, y, cv=CV, null=null, scoring=METRICS)
    assert result.n_permutations == 0
    assert result.nulls == result.null_summaries == {}
    assert result.second_nulls == result.second_summaries == {}
    assert result.null.shape == (0, 3, 3)
    assert result.null_max.shape == (0,)
    with pytest.raises(ValueError, match="no label permutations"):
        result.pvalues()
    assert result.diagonal().n_permutations == 0
    assert list(result.to_dataframe()) == ["train_time", "test_time", *SCALAR]


def test_few_arrangements_are_listed():
    X, y = make_arrays(n=8, n_times=2)
    options = {"cv": ms.KFold(2), "permute": "free", "n_permutations": 500}
    for null in ("full", "max", "stream"):
        result = build.keep(null, generalize_arrays, X, y, **options)
        assert result.parameters["exact"]
        assert result.n_permutations == 69  # 8! / (4! 4!) - 1
        assert result.pvalues().min() >= 1 / 70


# -------------------------------------------------------------------------- the result


def test_shapes_and_names():
    X, y = make_arrays(n_classes=3)
    result = generalize_arrays(X, y, scoring=METRICS, cv=CV, n_permutations=20)
    assert type(result) is GeneralizationResult
    assert result.shape == result.scores.shape == (6, 6)
    assert result.metrics["confusion_matrix"].shape == (6, 6, 3, 3)
    assert_array_equal(result.metrics["confusion_matrix"].sum(axis=(2, 3)), 40)
    trace = np.einsum("tuii->tu", result.metrics["confusion_matrix"])
    assert_allclose(result.scores, trace / 40, rtol=1e-12, atol=0)
    assert result.predictions.shape == (6, 6, 40)
    assert_array_equal((result.predictions == y).mean(axis=2), result.scores)
    assert result.predicted.dtype == np.int8
    assert result.chance == pytest.approx(1 / 3, rel=1e-12)
    assert_array_equal(result.classes[result.y], y)
    assert_array_equal(result.y_test, result.y)
    assert set(result.nulls) == set(SCALAR)


def test_table_is_long():
    X, y = make_arrays(n_times=4)
    options = {"sfreq": 100, "tmin_test": 0.01, "cv": CV, "scoring": METRICS}
    options["same_trials"] = True
    result = generalize_arrays(X[:, :, :3], y, X[:, :, 1:], **options)
    table = result.to_dataframe()
    assert list(table) == ["train_time", "test_time", *SCALAR]
    for i, j in np.ndindex(3, 3):
        row = table.iloc[3 * i + j]
        assert row["train_time"] == pytest.approx(i / 100, abs=1e-12)
        assert row["test_time"] == pytest.approx((j + 1) / 100, abs=1e-12)
        assert row["kappa"] == result.metrics["kappa"][i, j]


@pytest.mark.parametrize("null", ["full", "max", "stream"])
def test_results_survive_files_and_pickles(tmp_path, by_null, null):
    result = by_null[null]
    path = result.save(tmp_path / "map.h5") or tmp_path / "map.h5"
    for copy in (load_result(path), pickle.loads(pickle.dumps(result))):
        assert type(copy) is GeneralizationResult
        assert copy == result
        for correction in ("none", "max"):
            assert_array_equal(copy.pvalues(correction), result.pvalues(correction))
        assert_array_equal(copy.null_max, result.null_max)
        assert copy.n_permutations == 60
    assert result != replace(result, y_test=1 - result.y_test)
    others = {"full", "max", "stream"} - {null}
    assert all(result != by_null[other] for other in others)


def test_repr(by_null):
    for result in by_null.values():
        assert repr(result) == (
            f"<GeneralizationResult: highest accuracy {result.scores.max():.3f} at "
            "training time 4 s and test time 5 s (chance 0.500) | 6 training times "
            "from 0.000 to 5.000 s x 6 test times from 0.000 to 5.000 s | "
            "40 trials, 2 classes, 5 folds, 60 permutations>"
        )


def test_diagonal_needs_common_times():
    X, y = make_arrays(n_times=4)
    apart = generalize_arrays(
        X[:, :, :2], y, X[:, :, 2:], tmin_test=10, same_trials=True
    )
    with pytest.raises(ValueError, match="no training time is also a test time"):
        apart.diagonal()
    partly = generalize_arrays(
        X[:, :, :3], y, X[:, :, 1:], tmin_test=1.0, same_trials=True
    )
    diagonal = partly.diagonal()
    assert_array_equal(diagonal.times, [1.0, 2.0])
    assert_array_equal(diagonal.scores, partly.scores[[1, 2], [0, 1]])
    assert_array_equal(diagonal.predicted, partly.predicted[[1, 2], [0, 1]])


def test_patterns_equal_those_of_decoding():
    X, y = make_arrays(n_classes=3)
    epochs = make_epochs(X, y)
    result = generalize_epochs(epochs, cv=CV)
    expected = decode_epochs(epochs, cv=CV)
    assert set(result.pattern_maps) == {"class", "class_folds", "discriminant"}
    for kind, maps in expected.pattern_maps.items():
        largest = np.abs(maps).max()
        assert_allclose(
            result.pattern_maps[kind], maps, rtol=1e-8, atol=1e-10 * largest
        )
    patterns = result.patterns()
    assert list(patterns) == list(NAMES[:3])
    assert_allclose(patterns["ant"].times, epochs.times, rtol=0, atol=1e-12)
    assert result.info["ch_names"] == epochs.ch_names
    for options in ({"scale": "channel"}, {"window": 0.03, "step": 0.02}):
        maps = decode_epochs(epochs, cv=CV, **options).pattern_maps["class"]
        found = generalize_epochs(epochs, cv=CV, **options).pattern_maps["class"]
        assert_allclose(found, maps, rtol=1e-8, atol=1e-10 * np.abs(maps).max())
    assert generalize_epochs(epochs, cv=CV, kernel="rbf").pattern_maps == {}


# --------------------------------------------------------------------- other trials


@pytest.fixture(scope="module")
def two_sets():
    """Training trials, and other ones with more times and other class counts."""
    X, y = make_arrays(n_classes=3)
    X_test, y_test = make_arrays(n=25, n_times=8, n_classes=3, seed=5)
    y_test = np.where(np.arange(25) < 5, "cat", y_test)
    return X, y, X_test, y_test


def test_chance_is_that_of_the_other_trials(two_sets):
    X, y, X_test, y_test = two_sets
    result = generalize_arrays(X, y, X_test, y_test=y_test, scoring="f1_macro")
    counts = np.bincount(result.y_test, minlength=3) / 25
    chance = np.mean(2 * counts / 3 / (counts + 1 / 3))
    assert result.chance == pytest.approx(chance, rel=1e-12)
    ((train, test),) = result.folds
    assert_array_equal(train, np.arange(40))
    assert_array_equal(test, np.arange(25))


def test_other_trials_as_epochs(two_sets):
    """Channels in another order, more of them, bad ones, other names of events."""
    X, y, X_test, y_test = two_sets
    options = {"n_permutations": 10, "random_state": 2, "reg": Ridge(2e-11)}
    epochs = make_epochs(X, y)
    test = make_epochs(X_test, y_test, tmin=-0.05, seed=7)
    result = generalize_epochs(epochs, test_epochs=test, **options)
    assert_array_equal(result.train_times, epochs.times)
    assert_array_equal(result.test_times, test.times)
    micro = generalize_arrays(
        X * 1e-6, y, X_test * 1e-6, y_test=y_test, sfreq=100, **options
    )
    same(result, micro)
    order = ["EEG4", "EEG1", "EEG0", "EEG3", "EEG2"]
    mirrored = test.copy().rename_channels(lambda name: f"{name} mirrored")
    for other in (
        test.copy().reorder_channels(order),
        test.copy().add_channels([mirrored]),
        test.copy()
        .rename_channels({"EEG0": "x"})
        .add_channels([test.copy().pick("EEG0")]),
    ):
        same(generalize_epochs(epochs, test_epochs=other, **options), result)
    same(generalize_epochs(epochs, test_epochs=test, y_test=y_test, **options), result)
    same(generalize_epochs(epochs, "word", test_epochs=test, **options), result)
    same(
        generalize_epochs(epochs, y, test_epochs=test, y_test="word", **options), result
    )
    picked = [0, 2, 3]
    few = generalize_arrays(
        X[:, picked] * 1e-6, y, X_test[:, picked] * 1e-6, y_test=y_test, **options
    )
    bad, bad_test = epochs.copy(), test.copy().reorder_channels(order)
    bad.info["bads"], bad_test.info["bads"] = ["EEG1"], ["EEG4"]
    found = generalize_epochs(bad, test_epochs=bad_test, **options)
    assert found.parameters["ch_names"] == ["EEG0", "EEG2", "EEG3"]
    same(found, few)
    picks = generalize_epochs(epochs, test_epochs=test, picks=["EEG3", "EEG2", "EEG0"])
    assert sorted(picks.parameters["ch_names"]) == ["EEG0", "EEG2", "EEG3"]


def test_the_rest_of_a_query_is_tested():
    X, y = make_arrays(n=60, n_classes=3)
    where = np.array(["upper", "lower"])[np.arange(60) % 5 % 2]
    epochs = make_epochs(X, y, position=where, run=np.arange(60) // 20)
    options = {"n_permutations": 10, "random_state": 2}
    upper = where == "upper"
    result = generalize_epochs(epochs, train_on="position == 'upper'", **options)
    assert result.parameters["train_on"] == "position == 'upper'"
    assert result.parameters["mode"] == "other_trials"
    assert_array_equal(result.classes[result.y], y[upper])
    assert_array_equal(result.classes[result.y_test], y[~upper])
    X = X * 1e-6
    expected = generalize_arrays(
        X[upper], y[upper], X[~upper], y_test=y[~upper], **options
    )
    same(result, expected)
    kept = epochs[[i for i in range(60) if i % 7]]  # the index of metadata has gaps
    kept = kept[::-1]
    found = generalize_epochs(kept, train_on="position == 'upper' and run < 2")
    train = ((kept.metadata["position"] == "upper") & (kept.metadata["run"] < 2)).values
    data, names = kept.get_data(), kept.metadata["word"].to_numpy()
    same(
        found,
        generalize_arrays(
            data[train], names[train], data[~train], y_test=names[~train]
        ),
    )
    masked = generalize_epochs(epochs, train_on=upper, **options)
    same(masked, expected)
    assert masked.parameters["train_on"] == "mask"
    same(generalize_arrays(X, y, train_on=upper, **options), expected)


# ----------------------------------------------------- other labels, other epochs


@pytest.mark.parametrize("cv", [CV, ms.ShuffleSplit(5, random_state=0)], ids=str)
def test_another_labelling_of_the_same_trials(cv):
    X, y = make_arrays(n_classes=3, n_times=3)
    y_test = np.where(np.arange(40) % 3 == 1, "cat", y)
    epochs = make_epochs(X, y, other=y_test)
    result = generalize_arrays(
        X,
        y,
        y_test=y_test,
        reg=Ridge(20.0),
        cv=cv,
        n_permutations=5,
        random_state=7,
        scoring=["accuracy", "kappa"],
    )
    assert result.parameters["mode"] == "other_labels"
    assert_array_equal(result.classes[result.y_test], y_test)
    trained, moved, folds = drawn(result, cv)
    assert (trained != moved).any()
    # The folds are those of the labels that are trained with.
    assert_array_equal(np.concatenate(result.tests), np.concatenate(folds.tests))
    scores, second = accuracies(X, X, trained, folds, moved, result.y_test)
    assert_allclose(result.scores, scores[0], rtol=1e-12, atol=0)
    assert_allclose(result.null, scores[1:], rtol=1e-6, atol=0)
    assert_allclose(result.second_scores["accuracy"], second[0], rtol=1e-12, atol=0)
    assert_allclose(result.second_nulls["accuracy"], second[1:], rtol=1e-6, atol=0)
    options = {"cv": cv, "n_permutations": 5, "random_state": 7}
    one = generalize_epochs(epochs, y_test="other", **options)
    same(one, generalize_arrays(X, y, y_test=y_test, **options))
    diagonal = result.diagonal()
    assert_array_equal(diagonal.y, result.y_test)
    assert_array_equal(diagonal.scores, np.diag(result.scores))


def test_the_same_labels_again_are_the_plain_case():
    X, y = make_arrays(n_times=3)
    options = {"cv": CV, "n_permutations": 10, "random_state": 0}
    plain = generalize_arrays(X, y, **options)
    for again in (
        generalize_arrays(X, y, y_test=y, **options),
        generalize_arrays(X, y, y_test=y.tolist(), **options),
        generalize_arrays(X, y, X, same_trials=True, **options),
        generalize_arrays(X, y, X.copy(), y_test=y, same_trials=True, **options),
    ):
        assert again == plain
        assert again.parameters["mode"] == "plain"


def test_response_locked_epochs_of_the_same_trials():
    """Cut around other events: cross-validated with the same folds."""
    X, y = make_arrays(n_classes=3, n_times=4)
    X_test = make_arrays(n_classes=3, n_times=5, seed=3)[0]
    X_test[:, :, 1:3] += 0.5 * X[:, :, 1:3]
    epochs = make_epochs(X, y)
    locked = make_epochs(X_test, y, tmin=-0.04)
    locked.events[:, 0] += 40
    options = {"cv": CV, "n_permutations": 4, "random_state": 7, "reg": Ridge(2e-11)}
    result = generalize_epochs(epochs, test_epochs=locked, same_trials=True, **options)
    assert result.shape == (4, 5)
    assert result.parameters["mode"] == "same_trials"
    trained, moved, folds = drawn(result, CV)
    scores, second = accuracies(X, X_test, trained, folds, moved, result.y_test)
    assert_allclose(result.scores, scores[0], rtol=1e-12, atol=0)
    assert_allclose(result.null, scores[1:], rtol=1e-6, atol=0)
    assert_allclose(result.second_scores["accuracy"], second[0], rtol=1e-12, atol=0)
    assert_allclose(result.second_nulls["accuracy"], second[1:], rtol=1e-6, atol=0)
    arrays = generalize_arrays(
        X * 1e-6, y, X_test * 1e-6, same_trials=True, sfreq=100, **options
    )
    same(result, arrays)
    # Test epochs without names of their own are labelled as the training epochs.
    locked.event_id, locked.events[:, 2] = {"press": 5}, 5
    same(
        generalize_epochs(epochs, test_epochs=locked, same_trials=True, **options),
        result,
    )


# ---------------------------------------------------- nobody is trained on and tested


NOISE = make_arrays(n=40, n_times=6, snr=0.0, seed=11)


def noise_epochs():
    """Noise that is constant over time: trained and tested on, it is at ceiling."""
    X, y = NOISE
    X = np.repeat(make_arrays(n=40, p=60, n_times=1, snr=0.0)[0], 6, axis=2)
    X = X + 1e-3 * np.random.default_rng(0).standard_normal(X.shape)
    return make_epochs(X, y, half=np.arange(40) % 2)


SAME = {
    "itself": lambda e: e,
    "a copy": lambda e: e.copy(),
    "a crop": lambda e: e.copy().crop(0.0, 0.02),
    "channels reordered": lambda e: e.copy().reorder_channels(e.ch_names[::-1]),
    "other event names": lambda e: renumbered(e),
}


def renumbered(epochs):
    other = epochs.copy()
    other.events[:, 0] += 300
    return other


@cache
def of_noise():
    return generalize_epochs(noise_epochs())


@pytest.mark.parametrize("make", SAME.values(), ids=SAME)
def test_the_same_epochs_are_cross_validated_if_they_are_said_to_be(make):
    epochs = noise_epochs()
    result = generalize_epochs(epochs, test_epochs=make(epochs), same_trials=True)
    plain = len(result.test_times) == 6
    assert result.parameters["mode"] == ("plain" if plain else "same_trials")
    assert result.scores.max() < 0.8
    expected = of_noise()
    columns = np.isin(expected.test_times.round(6), result.test_times.round(6))
    assert_array_equal(result.scores, expected.scores[:, columns])


MIXED_UP = {
    "another order": lambda e: e[::-1],
    "a part": lambda e: e[:10],
    "a part by label": lambda e: e["ant"],
    "a part, cropped": lambda e: e[5:30].crop(-0.01, 0.01),
    "with others": lambda e: with_others(e),
    "one of them": lambda e: e[17],
    "sampled twice": lambda e: e[[0, 0, 1, 1]],
}


def with_others(epochs):
    X = make_arrays(n=5, p=60, seed=4)[0]
    others = make_epochs(X, NAMES[[0, 1, 0, 1, 0]], seed=9)
    return mne.concatenate_epochs([others, epochs[:3]], verbose=False)


@pytest.mark.parametrize("make", MIXED_UP.values(), ids=MIXED_UP)
@pytest.mark.parametrize("same_trials", [None, False])
def test_shared_trials_are_refused(make, same_trials):
    epochs = noise_epochs()
    other = make(epochs)
    with pytest.raises(ValueError, match=r"of test_epochs are also in epochs \(trial"):
        generalize_epochs(epochs, test_epochs=other, same_trials=same_trials)
    X, y = epochs.get_data(), epochs.metadata["word"].to_numpy()
    if len(other.times) == 6:
        with pytest.raises(ValueError, match=r"of X_test are also in X \(trial"):
            generalize_arrays(
                X,
                y,
                other.get_data(),
                y_test=other.metadata["word"],
                same_trials=same_trials,
            )


def test_trials_that_are_there_twice_are_themselves_in_a_copy():
    """As after sampling with replacement: a copy is cross-validated, as the data."""
    X, y = make_arrays(n=40)
    X, y = X[np.arange(40) % 35], y[np.arange(40) % 35]
    expected = generalize_arrays(X, y)
    same(generalize_arrays(X, y, X.copy(), same_trials=True), expected)


def test_trials_in_another_order_are_not_called_the_same():
    epochs = noise_epochs()
    with pytest.raises(ValueError, match="order"):
        generalize_epochs(epochs, test_epochs=epochs[::-1], same_trials=True)
    X, y = make_arrays()
    with pytest.raises(ValueError, match="order"):
        generalize_arrays(X, y, X[::-1], same_trials=True)


@pytest.mark.parametrize("make", SAME.values(), ids=SAME)
@pytest.mark.parametrize("same_trials", [None, False])
def test_copies_are_refused_unless_they_are_said_to_be_the_same(make, same_trials):
    epochs = noise_epochs()
    match = "40 of the 40 trials of test_epochs are also in .* use same_trials=True if"
    with pytest.raises(ValueError, match=match):
        generalize_epochs(epochs, test_epochs=make(epochs), same_trials=same_trials)
    X, y = make_arrays(n=40)
    with pytest.raises(ValueError, match="40 of the 40 trials of X_test are also in X"):
        generalize_arrays(X, y, X, y_test=y, same_trials=same_trials)


def test_two_ends_of_the_same_epochs_are_asked_about():
    """Nothing in common to compare, but the same events."""
    epochs = noise_epochs()
    early, late = epochs.copy().crop(None, -0.01), epochs.copy().crop(0.0, None)
    with pytest.raises(ValueError, match=r"40 of the events .* Use same_trials=True"):
        generalize_epochs(early, test_epochs=late)
    result = generalize_epochs(early, test_epochs=late, same_trials=True)
    assert_array_equal(result.scores, generalize_epochs(epochs).scores[:3, 3:])
    part = late[:20]
    with pytest.raises(ValueError, match=r"20 of the events .* Use same_trials=True"):
        generalize_epochs(early, test_epochs=part)


def processed(epochs):
    """Return the same trials after a step that leaves no sample as it was."""
    other = epochs.copy()
    other._data -= other._data.mean(axis=2, keepdims=True)
    other._data += 1e-7 * np.random.default_rng(3).standard_normal(other._data.shape)
    return other


@pytest.mark.parametrize("shift", [0, 13])
def test_epochs_that_overlap_in_time_are_asked_about(shift):
    """The same trials, filtered or cut around the response, cannot be recognized."""
    epochs = make_epochs(*make_arrays(n=40, n_times=20), tmin=-0.1)
    other = processed(epochs)
    if shift:
        other.events[:, 0] += np.random.default_rng(0).integers(1, shift, 40)
    with pytest.raises(ValueError, match=r"as if the same trials .* same_trials=True"):
        generalize_epochs(epochs, test_epochs=other)
    for same_trials, mode in ((True, "same_trials"), (False, "other_trials")):
        result = generalize_epochs(epochs, test_epochs=other, same_trials=same_trials)
        assert result.parameters["mode"] == mode


@pytest.mark.parametrize("apart", [0, 1])
def test_epochs_overlap_down_to_one_common_sample(apart):
    epochs = make_epochs(*make_arrays(n=40, n_times=40), tmin=-0.1)
    other = processed(epochs)
    other.events[:, 0] += 39 + apart
    other.events[0, 0] -= 1 + apart  # the shifts differ
    if apart:
        generalize_epochs(epochs, test_epochs=other)
    else:
        with pytest.raises(ValueError, match="overlap with them"):
            generalize_epochs(epochs, test_epochs=other)


def test_another_recording_with_the_same_timing_is_not_asked_about():
    epochs = make_epochs(*make_arrays(n=40, n_times=40), tmin=-0.1)
    other = processed(epochs)
    other.events[:, 0] += 7  # all of them
    result = generalize_epochs(epochs, test_epochs=other)
    assert result.parameters["mode"] == "other_trials"


# ------------------------------------------------------------------------ permutations


def test_groups_of_training_trials(two_sets):
    X, y, X_test, y_test = two_sets
    options = {"n_permutations": 20, "random_state": 4, "y_test": y_test}
    runs = np.arange(40) // 10
    result = generalize_arrays(X, y, X_test, groups=runs, **options)
    labels, _, _ = drawn(result, groups=runs)
    assert result.parameters["permute"] == "within_groups"
    assert_array_equal(result.groups, runs)
    for run in range(4):
        counts = [np.bincount(row[runs == run], minlength=3) for row in labels]
        assert_array_equal(counts, [counts[0]] * 21)
    free = generalize_arrays(X, y, X_test, groups=runs, permute="free", **options)
    assert free.parameters["permute"] == "free"
    assert (free.null != result.null).any()
    subjects = np.arange(40) // 5
    between = NAMES[subjects % 2]
    result = generalize_arrays(
        X, between, X_test, y_test=NAMES[np.arange(25) % 2], groups=subjects,
        n_permutations=20, random_state=4,
    )  # fmt: skip
    assert result.parameters["permute"] == "groups"


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


#: Name -> what makes the data, and the cells without an effect.
ALL = [(0, 0), (0, 1), (1, 0), (1, 1)]
MODES = {
    "noise": (noise, ALL),
    "one time": (one_time, ALL[:3]),
    "other epochs": (other_epochs, ALL),
    "other labels": (other_labels, ALL),
    "alike labels": (alike_labels, ALL),
    "other trials": (other_trials, ALL),
    "noisy tests": (noisy_tests, ALL),
}


@pytest.mark.slow
@pytest.mark.parametrize("scoring", ["accuracy", "roc_auc"])
@pytest.mark.parametrize(("mode", "cells"), MODES.values(), ids=MODES)
def test_noise_is_rarely_significant(mode, cells, scoring):
    """Cells without an effect pass no more often than their level."""
    p, smallest, n_data = [], [], 400
    for seed in range(n_data):
        arguments, options = mode(np.random.default_rng(seed))
        options |= {"n_permutations": 39, "random_state": seed, "scoring": scoring}
        result = generalize_arrays(*arguments, **options)
        p.append([result.pvalues()[cell] for cell in cells])
        smallest.append(result.pvalues("max").min())
    samples = list(np.transpose(p))
    if cells == ALL:
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
