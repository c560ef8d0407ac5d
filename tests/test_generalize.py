"""Time generalization and cross-decoding: the same numbers as retraining gives.

Cells are compared with classifiers that MNE-Python or a plain loop trains anew, the
diagonal with the functions that decode without generalizing, and nulls with classifiers
trained on exactly the permuted labels.
"""

import pickle
from dataclasses import replace

import joblib
import mne
import numpy as np
import pandas as pd
import pytest
from mne.decoding import GeneralizingEstimator, cross_val_multiscore
from numpy.testing import assert_allclose, assert_array_equal
from scipy.stats import kstest
from sklearn import model_selection as ms
from sklearn.metrics import f1_score
from sklearn.metrics.pairwise import laplacian_kernel

from mvpa_kfda import (
    RBF,
    GeneralizationResult,
    KernelFDA,
    Polynomial,
    Ridge,
    TimeResult,
    decode_arrays,
    decode_epochs,
    generalize_arrays,
    generalize_epochs,
    load_result,
)
from mvpa_kfda.decoding import run as memory
from mvpa_kfda.inference.permutation import permute_labels
from mvpa_kfda.kfda.folds import make_folds

NAMES = np.array(["face", "house", "tool"])
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
CV = ms.StratifiedKFold(5)


def make_arrays(n=40, p=5, n_times=6, n_classes=2, seed=0, snr=0.8):
    """Return X (n, p, n_times) with classes that differ from the middle on, and y."""
    rng = np.random.default_rng(seed)
    codes = rng.permutation(np.arange(n) % n_classes)
    means = snr * np.random.default_rng(99).standard_normal((n_classes, p))
    X = rng.standard_normal((n, p, n_times)) + rng.standard_normal((p, n_times))
    X[:, :, n_times // 2 :] += means[codes][:, :, None]
    return X, NAMES[codes]


def make_epochs(X, y, tmin=-0.03, unit=1e-6, first=0, **metadata):
    """Make EEG epochs at 100 Hz with events named by class."""
    codes = np.searchsorted(NAMES, y)
    info = mne.create_info([f"E{i}" for i in range(X.shape[1])], 100.0, "eeg")
    # Irregular, as in most experiments.
    samples = first + np.cumsum(
        np.random.default_rng(len(X)).integers(900, 1100, len(X))
    )
    return mne.EpochsArray(
        X * unit,
        info,
        np.column_stack([samples, np.zeros(len(X), int), codes + 1]),
        tmin=tmin,
        event_id={name: i + 1 for i, name in enumerate(NAMES)},
        metadata=pd.DataFrame({"word": y, **metadata}),
        on_missing="ignore",
        verbose=False,
    )


def same(one, other):
    """Assert that two maps hold the same numbers bit for bit."""
    assert_array_equal(one.predicted, other.predicted)
    assert one.metrics.keys() == other.metrics.keys()
    for name in one.metrics:
        assert_array_equal(one.metrics[name], other.metrics[name])
    for kind in ("nulls", "second_nulls"):
        nulls, others = getattr(one, kind), getattr(other, kind)
        assert nulls.keys() == others.keys()
        for name in nulls:
            assert_array_equal(nulls[name], others[name])


def retrained(X, X_test, trained, folds, kernel=None, lam=20.0):
    """Predict by training anew at every time and fold, (T, U, n_test)."""
    shape = X.shape[2], X_test.shape[2]
    predictions = np.full((*shape, len(X_test)), "", NAMES.dtype)
    for t in range(shape[0]):
        for train, test in folds:
            model = KernelFDA(kernel=kernel or "linear", reg=Ridge(lam))
            model.fit(X[train, :, t], trained[train])
            for u in range(shape[1]):
                predictions[t, u, test] = model.predict(X_test[test, :, u])
    return predictions


# --------------------------------------------------------------------- the plain case

KERNELS = ["linear", "rbf", Polynomial(2, gamma=0.1), RBF(gamma=None), laplacian_kernel]


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("p", [5, 60])
@pytest.mark.parametrize("kernel", KERNELS, ids=str)
def test_diagonal_equals_decoding(kernel, p, n_classes):
    X, y = make_arrays(p=p, n_classes=n_classes)
    options = {"cv": CV, "scoring": METRICS, "n_permutations": 30, "random_state": 3}
    options |= {"kernel": kernel, "sfreq": 100, "tmin": -0.03}
    result = generalize_arrays(X, y, **options)
    expected = decode_arrays(X, y, **options)
    diagonal = result.diagonal()
    assert type(diagonal) is TimeResult
    same_but_rounded(diagonal, expected)
    for name in METRICS:
        at = np.arange(6), np.arange(6)
        assert_array_equal(result.metrics[name][at], expected.metrics[name])
    assert result.nulls["accuracy"].dtype == np.float32
    assert_array_equal(result.train_times, expected.times)
    assert_array_equal(result.test_times, expected.times)


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
        {"y": "word", "picks": ["E3", "E0"]},
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


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize(
    "kernel", ["linear", RBF(gamma=0.05), Polynomial(2, gamma=0.1)], ids=str
)
def test_every_cell_equals_a_retrained_generalizing_estimator(kernel, n_classes):
    X, y = make_arrays(n_classes=n_classes)
    penalty = Ridge(20.0)
    scoring = ["accuracy", "roc_auc"] if n_classes == 2 else ["accuracy"]
    result = generalize_arrays(X, y, kernel=kernel, reg=penalty, cv=CV, scoring=scoring)
    for name in scoring:
        model = GeneralizingEstimator(
            KernelFDA(kernel=kernel, reg=penalty), scoring=name, verbose=False
        )
        codes = np.searchsorted(np.unique(y), y)
        scores = cross_val_multiscore(model, X, codes, cv=CV, verbose=False)
        # Equally large folds: the mean over folds is the pooled accuracy.
        assert_allclose(result.metrics[name], scores.mean(axis=0), rtol=1e-12, atol=0)
    assert np.ptp(result.scores) > 0.2
    predictions = retrained(X, X, y, result.folds, kernel)
    assert_array_equal(result.predictions, predictions)
    confusion = generalize_arrays(
        X, y, kernel=kernel, reg=penalty, cv=CV, scoring=["f1_macro"]
    )
    for cell in np.ndindex(6, 6):
        f1 = f1_score(y, predictions[cell], average="macro")
        assert confusion.scores[cell] == pytest.approx(f1, rel=1e-12)


def test_rows_are_training_times():
    """The code that is there early differs from the one that is there late."""
    X, y = make_arrays(snr=0.0, n=120)
    sign = np.where(y == "face", 1.0, -1.0)
    X[:, 0, :3] += 4 * sign[:, None]
    X[:, 1, 3:] += 4 * sign[:, None]
    X[:, 0, 3:] += 4 * sign[:, None]  # the early code is there late too
    X[:, 2, 3:] += np.random.default_rng(1).standard_normal((120, 3))
    scores = generalize_arrays(X, y).scores
    assert scores[:3, 3:].min() > 0.95
    X[:, 0, 3:] -= 4 * sign[:, None]
    X[:, 1, :3] += 4 * sign[:, None]
    scores = generalize_arrays(X, y, reg=1e-3).scores
    assert scores[3:, :3].min() > 0.95
    result = generalize_arrays(X[:, :, :4], y, X[:, :, 1:], tmin_test=1.0)
    assert result.shape == (4, 5)
    assert_array_equal(result.train_times, np.arange(4))
    assert_array_equal(result.test_times, np.arange(1, 6))


@pytest.mark.parametrize("cv", [CV, ms.KFold(7), ms.ShuffleSplit(5, random_state=0)])
@pytest.mark.parametrize("p", [5, 60])
def test_permuted_labels_are_trained_with(p, cv):
    """And tested, as in the first null, or tested as they were, as in the second."""
    X, y = make_arrays(p=p, n_times=3, n_classes=3)
    result = generalize_arrays(
        X, y, reg=Ridge(20.0), cv=cv, n_permutations=5, random_state=7
    )
    trained, moved, folds = drawn(result, cv)
    assert_array_equal(trained, moved)
    scores, second = by_retraining(X, X, result, trained, moved, folds)
    assert_allclose(result.scores, scores[0], rtol=1e-12, atol=0)
    assert_allclose(result.null, scores[1:], rtol=1e-6, atol=0)
    assert_allclose(result.second_nulls["accuracy"], second[1:], rtol=1e-6, atol=0)
    assert (result.null != result.second_nulls["accuracy"]).any()


def by_retraining(X, X_test, result, trained, moved, folds):
    """Score against labels that move and against those that stay, twice (P, T, U)."""
    shape = (len(trained), X.shape[2], X_test.shape[2])
    scores = np.zeros((2, *shape))
    for b, codes in enumerate(trained):
        for train, test in folds.pairs:
            predicted = retrained(X, X_test, result.classes[codes], [(train, test)])
            for kind, truth in enumerate((moved[b], result.y_test)):
                hits = predicted[:, :, test] == result.classes[truth[test]]
                scores[kind, b] += hits.sum(axis=2)
    return scores / sum(map(len, folds.tests))


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


def test_float32_is_close():
    X, y = make_arrays(n=120, n_classes=3)
    options = {"cv": CV, "n_permutations": 50, "random_state": 0}
    for kernel in ("linear", "rbf"):
        double = generalize_arrays(X, y, kernel=kernel, **options)
        single = generalize_arrays(X, y, kernel=kernel, dtype="float32", **options)
        assert single.parameters["dtype"] == "float32"
        assert (double.predicted == single.predicted).mean() > 0.999
        assert_allclose(single.null, double.null, rtol=0, atol=2 / 120)
        assert_allclose(single.scores, double.scores, rtol=0, atol=2 / 120)


# ----------------------------------------------------------------------------- workers


@pytest.mark.parametrize("kernel", ["linear", "rbf"])
def test_outcome_does_not_depend_on_workers(kernel):
    X, y = make_arrays(n=40, n_times=10, n_classes=3)
    X = np.rint(X)  # many near ties
    X[1::2], y[1::2] = X[::2], y[::2]
    options = {"kernel": kernel, "scoring": METRICS, "random_state": 0, "cv": 4}
    options |= {"n_permutations": 12, "verbose": False}
    expected = generalize_arrays(X, y, n_jobs=1, **options)
    same(expected, generalize_arrays(X, y, n_jobs=2, **options))
    for n_jobs in (2, 3):
        with joblib.parallel_config(backend="threading", n_jobs=n_jobs):
            same(expected, generalize_arrays(X, y, **options))
    for null in ("max", "stream"):
        kept = [
            generalize_arrays(X, y, n_jobs=n_jobs, null=null, **options)
            for n_jobs in (1, 2)
        ]
        assert kept[0] == kept[1]


# ------------------------------------------------------------- what is kept of the null


@pytest.fixture(scope="module")
def by_null():
    X, y = make_arrays(snr=0.6)
    options = {"cv": CV, "scoring": METRICS, "n_permutations": 60, "random_state": 1}
    return {
        null: generalize_arrays(X, y, null=null, **options)
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


def test_full_null_is_what_was_counted(by_null):
    """The larger p-value of two nulls, off the diagonal."""
    full = by_null["full"]
    observed, single, corrected = np.rint(full.scores * 40), [], []
    for null in (full.null, full.second_nulls["accuracy"]):
        assert null.shape == (60, 6, 6)
        assert null.dtype == np.float32
        # In whole hits, so that rounding to single precision does not matter.
        null = np.rint(null * 40)
        single.append((1 + (null >= observed).sum(axis=0)) / 61)
        maximum = null.reshape(60, -1).max(axis=1)
        corrected.append((1 + (maximum[:, None, None] >= observed).sum(axis=0)) / 61)
    assert (single[0] > single[1]).any()
    assert (single[0] < single[1]).any()
    for p, correction in ((single, "none"), (corrected, "max")):
        expected = np.where(np.eye(6, dtype=bool), p[0], np.maximum(*p))
        assert_array_equal(full.pvalues(correction), expected)
    diagonal = full.diagonal()
    assert_array_equal(np.diag(full.pvalues()), diagonal.pvalues())


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
            with pytest.raises(
                ValueError, match=r"null='full'.* or with null='stream'"
            ):
                result.pvalues(correction)
    else:
        with pytest.raises(ValueError, match=r"threshold"):
            result.pvalues("cluster", threshold=0.01)
    diagonal = result.diagonal()
    assert diagonal.n_permutations == 0
    assert_array_equal(diagonal.scores, np.diag(result.scores))
    with pytest.raises(ValueError, match=r"were not kept .*null='full'"):
        diagonal.pvalues()


def test_auto_keeps_what_is_small(by_null, monkeypatch):
    same(by_null["auto"], by_null["full"])
    assert by_null["auto"].parameters["null"] == "full"
    X, y = make_arrays()
    options = {"cv": CV, "n_permutations": 60, "random_state": 1}
    full = 4 * 60 * 36 * 2  # two nulls
    for limit, kept in [(full, "full"), (full - 1, "max")]:
        monkeypatch.setattr(memory, "FULL_NULL_BYTES", limit)
        result = generalize_arrays(X, y, **options)
        assert result.parameters["null"] == kept
        assert bool(result.nulls) is (kept == "full")
        two = generalize_arrays(X, y, scoring=["accuracy", "kappa"], **options)
        assert two.parameters["null"] == "max"
    assert generalize_arrays(X, y, cv=CV).parameters["null"] == "full"


@pytest.mark.parametrize("null", ["auto", "full", "max", "stream"])
def test_without_permutations(null):
    X, y = make_arrays(n_times=3)
    result = generalize_arrays(X, y, cv=CV, null=null, scoring=METRICS)
    assert result.n_permutations == 0
    assert result.nulls == result.null_summaries == {}
    assert result.second_nulls == result.second_summaries == {}
    assert result.null.shape == (0, 3, 3)
    with pytest.raises(ValueError, match="no label permutations"):
        result.pvalues()
    assert result.diagonal().n_permutations == 0
    assert list(result.to_dataframe()) == ["train_time", "test_time", *SCALAR]


def test_few_arrangements_are_listed():
    X, y = make_arrays(n=8, n_times=2)
    options = {"cv": ms.KFold(2), "permute": "free", "n_permutations": 500}
    for null in ("full", "max", "stream"):
        result = generalize_arrays(X, y, null=null, **options)
        assert result.parameters["exact"]
        assert result.n_permutations == 69  # 8! / (4! 4!) - 1
        assert result.pvalues().min() >= 1 / 70


# -------------------------------------------------------------------------- the result


def test_shapes_and_names():
    X, y = make_arrays(n_classes=3)
    result = generalize_arrays(
        X, y, sfreq=100, tmin=-0.03, scoring=METRICS, cv=CV, n_permutations=20
    )
    assert type(result) is GeneralizationResult
    assert result.shape == result.scores.shape == (6, 6)
    assert result.metrics["confusion_matrix"].shape == (6, 6, 3, 3)
    assert_array_equal(result.metrics["confusion_matrix"].sum(axis=(2, 3)), 40)
    trace = np.einsum("tuii->tu", result.metrics["confusion_matrix"])
    assert_allclose(result.scores, trace / 40, rtol=1e-12, atol=0)
    assert result.predictions.shape == (6, 6, 40)
    assert_array_equal((result.predictions == y).mean(axis=2), result.scores)
    assert result.predicted.dtype == np.int8
    assert_allclose(result.train_times, np.arange(-3, 3) / 100, rtol=0, atol=1e-12)
    assert result.chance == pytest.approx(1 / 3, rel=1e-12)
    assert_array_equal(result.classes, NAMES)
    assert_array_equal(result.classes[result.y], y)
    assert_array_equal(result.y_test, result.y)
    assert set(result.nulls) == set(SCALAR)
    for (train, test), (ours, tested) in zip(CV.split(X, y), result.folds, strict=True):
        assert_array_equal(train, ours)
        assert_array_equal(test, tested)


def test_table_is_long():
    X, y = make_arrays(n_times=4)
    result = generalize_arrays(
        X[:, :, :3],
        y,
        X[:, :, 1:],
        sfreq=100,
        tmin_test=0.01,
        cv=CV,
        scoring=METRICS,
        n_permutations=20,
        random_state=0,
    )
    table = result.to_dataframe(("max", "cluster"))
    assert list(table) == [
        "train_time",
        "test_time",
        *SCALAR,
        "p",
        "p_max",
        "p_cluster",
    ]
    assert len(table) == 9
    for i, j in np.ndindex(3, 3):
        row = table.iloc[3 * i + j]
        assert row["train_time"] == pytest.approx(i / 100, abs=1e-12)
        assert row["test_time"] == pytest.approx((j + 1) / 100, abs=1e-12)
        assert row["accuracy"] == result.scores[i, j]
        assert row["p_max"] == result.pvalues("max")[i, j]
    wide = table.pivot(index="train_time", columns="test_time", values="kappa")
    assert_array_equal(wide.to_numpy(), result.metrics["kappa"])


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


def test_the_same_seed_gives_the_same_result():
    X, y = make_arrays(n_times=3)
    draw = [
        generalize_arrays(X, y, n_permutations=30, random_state=seed, null=null)
        for seed in (0, 0, 1)
        for null in ("full", "stream")
    ]
    assert draw[0] == draw[2]
    assert draw[1] == draw[3]
    assert draw[0] != draw[4]
    assert (draw[0].null != draw[4].null).any()


def test_repr(by_null):
    for result in by_null.values():
        assert repr(result) == (
            f"<GeneralizationResult: accuracy peak {result.scores.max():.3f} (chance "
            "0.500) | 6 train times, 0.000 to 5.000 | 6 test times, 0.000 to 5.000 | "
            "40 trials, 2 classes, 5 folds, 60 permutations>"
        )


def test_diagonal_needs_common_times():
    X, y = make_arrays(n_times=4)
    apart = generalize_arrays(
        X[:, :, :2], y, X[:, :, 2:], tmin_test=10, same_trials=True
    )
    with pytest.raises(ValueError, match="no training time is also a test time"):
        apart.diagonal()
    partly = generalize_arrays(X[:, :, :3], y, X[:, :, 1:], tmin_test=1.0)
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
    assert list(patterns) == list(NAMES)
    assert_allclose(patterns["face"].times, epochs.times, rtol=0, atol=1e-12)
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
    y_test = np.where(np.arange(25) < 5, "tool", y_test)
    return X, y, X_test, y_test


@pytest.mark.parametrize(
    "kernel", ["linear", RBF(gamma=0.05), Polynomial(2, gamma=0.1)], ids=str
)
def test_other_trials_equal_a_model_trained_on_all(two_sets, kernel):
    X, y, X_test, y_test = two_sets
    options = {"kernel": kernel, "reg": Ridge(20.0), "scoring": METRICS}
    options |= {"n_permutations": 8, "random_state": 2}
    result = generalize_arrays(X, y, X_test, y_test=y_test, **options)
    everything = [(np.arange(40), np.arange(25))]
    predictions = retrained(X, X_test, y, everything, kernel)
    assert result.shape == (6, 8)
    assert_array_equal(result.predictions, predictions)
    assert_allclose(
        result.scores, (predictions == y_test).mean(axis=2), rtol=1e-12, atol=0
    )
    assert result.parameters["mode"] == "other_trials"
    assert_array_equal(result.classes[result.y_test], y_test)
    ((train, test),) = result.folds
    assert_array_equal(train, np.arange(40))
    assert_array_equal(test, np.arange(25))
    # Only the labels that are trained with change places.
    assert result.second_nulls == {}
    labels, _, _ = drawn(result)
    assert result.parameters["permute"] == "free"
    for b in range(8):
        predictions = retrained(X, X_test, NAMES[labels[b + 1]], everything, kernel)
        expected = (predictions == y_test).mean(axis=2)
        assert_allclose(result.null[b], expected, rtol=1e-6, atol=0)
    counts = np.bincount(result.y_test, minlength=3) / 25
    assert result.chances["f1_macro"] == pytest.approx(
        np.mean(2 * counts / 3 / (counts + 1 / 3)), rel=1e-12
    )


def test_other_trials_as_epochs(two_sets):
    """Channels in another order, more of them, bad ones, other names of events."""
    X, y, X_test, y_test = two_sets
    options = {"n_permutations": 10, "random_state": 2, "reg": Ridge(2e-11)}
    epochs = make_epochs(X, y)
    test = make_epochs(X_test, y_test, tmin=-0.05, first=7)
    result = generalize_epochs(epochs, test_epochs=test, **options)
    assert_array_equal(result.train_times, epochs.times)
    assert_array_equal(result.test_times, test.times)
    micro = generalize_arrays(
        X * 1e-6, y, X_test * 1e-6, y_test=y_test, sfreq=100, **options
    )
    same(result, micro)
    order = ["E4", "E1", "E0", "E3", "E2"]
    for other in (
        test.copy().reorder_channels(order),
        test.copy().add_channels([renamed(test)]),
        test.copy().rename_channels({"E0": "x"}).add_channels([test.copy().pick("E0")]),
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
    bad.info["bads"], bad_test.info["bads"] = ["E1"], ["E4"]
    found = generalize_epochs(bad, test_epochs=bad_test, **options)
    assert found.parameters["ch_names"] == ["E0", "E2", "E3"]
    same(found, few)
    picks = generalize_epochs(epochs, test_epochs=test, picks=["E3", "E2", "E0"])
    assert picks.parameters["ch_names"] == ["E0", "E2", "E3"] or set(
        picks.parameters["ch_names"]
    ) == {"E0", "E2", "E3"}


def renamed(epochs):
    """Return the channels of epochs, mirrored, under other names."""
    names = {name: f"{name} mirrored" for name in epochs.ch_names}
    return epochs.copy().rename_channels(names)


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
    by_column = generalize_epochs(
        epochs, "word", groups="run", train_on="position == 'upper'", **options
    )
    assert by_column.parameters["permute"] == "within_groups"
    assert_array_equal(by_column.groups, (np.arange(60) // 20)[upper])


# ----------------------------------------------------- other labels, other epochs


@pytest.mark.parametrize("cv", [CV, ms.ShuffleSplit(5, random_state=0)], ids=str)
def test_another_labelling_of_the_same_trials(cv):
    X, y = make_arrays(n_classes=3, n_times=3)
    y_test = np.where(np.arange(40) % 3 == 1, "tool", y)
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
    second, scores = by_retraining(X, X, result, trained, moved, folds)
    assert_allclose(result.scores, scores[0], rtol=1e-12, atol=0)
    assert_allclose(result.null, scores[1:], rtol=1e-6, atol=0)
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
        generalize_arrays(X, y, X, **options),
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
    locked = make_epochs(X_test, y, tmin=-0.04, first=40)
    options = {"cv": CV, "n_permutations": 4, "random_state": 7, "reg": Ridge(2e-11)}
    result = generalize_epochs(epochs, test_epochs=locked, same_trials=True, **options)
    assert result.shape == (4, 5)
    assert result.parameters["mode"] == "same_trials"
    trained, moved, folds = drawn(result, CV)
    scores, second = by_retraining(X, X_test, result, trained, moved, folds)
    assert_allclose(result.scores, scores[0], rtol=1e-12, atol=0)
    assert_allclose(result.null, scores[1:], rtol=1e-6, atol=0)
    assert_allclose(result.second_nulls["accuracy"], second[1:], rtol=1e-6, atol=0)
    assert_array_equal(result.predictions, retrained(X, X_test, y, folds.pairs))
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


@pytest.mark.parametrize("make", SAME.values(), ids=SAME)
def test_the_same_epochs_are_cross_validated(make):
    epochs = noise_epochs()
    result = generalize_epochs(epochs, test_epochs=make(epochs))
    plain = len(result.test_times) == 6
    assert result.parameters["mode"] == ("plain" if plain else "same_trials")
    assert result.scores.max() < 0.8
    expected = generalize_epochs(epochs)
    columns = np.isin(expected.test_times.round(6), result.test_times.round(6))
    assert_array_equal(result.scores, expected.scores[:, columns])


MIXED_UP = {
    "another order": lambda e: e[::-1],
    "a part": lambda e: e[:10],
    "a part by label": lambda e: e["face"],
    "a part, cropped": lambda e: e[5:30].crop(-0.01, 0.01),
    "with others": lambda e: with_others(e),
    "one of them": lambda e: e[17],
    "sampled twice": lambda e: e[[0, 0, 1, 1]],
}


def with_others(epochs):
    others = make_epochs(make_arrays(n=5, p=60, seed=4)[0], NAMES[[0, 1, 0, 1, 0]])
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
    same(generalize_arrays(X, y, X.copy()), expected)
    same(generalize_arrays(X, y, X.copy(), same_trials=True), expected)


def test_the_message_names_a_pair_of_trials():
    epochs = noise_epochs()
    with pytest.raises(
        ValueError, match=r"^3 of the 8 trials .*\(trial 5 is trial 0 t"
    ):
        generalize_epochs(epochs, test_epochs=with_others(epochs))


def test_trials_in_another_order_are_not_called_the_same():
    epochs = noise_epochs()
    with pytest.raises(ValueError, match="order"):
        generalize_epochs(epochs, test_epochs=epochs[::-1], same_trials=True)
    X, y = make_arrays()
    with pytest.raises(ValueError, match="order"):
        generalize_arrays(X, y, X[::-1], same_trials=True)


def test_saying_that_the_same_epochs_are_others_is_refused():
    epochs = noise_epochs()
    with pytest.raises(ValueError, match="holds exactly the trials of epochs"):
        generalize_epochs(epochs, test_epochs=epochs.copy(), same_trials=False)


def test_two_ends_of_the_same_epochs_are_asked_about():
    """Nothing in common to compare, but the same events."""
    epochs = noise_epochs()
    early, late = epochs.copy().crop(None, -0.01), epochs.copy().crop(0.0, None)
    with pytest.raises(ValueError, match=r"40 .*events and no time in common"):
        generalize_epochs(early, test_epochs=late)
    result = generalize_epochs(early, test_epochs=late, same_trials=True)
    assert_array_equal(result.scores, generalize_epochs(epochs).scores[:3, 3:])
    part = late[:20]
    with pytest.raises(ValueError, match=r"20 .*events and no time in common"):
        generalize_epochs(early, test_epochs=part)


def processed(epochs):
    """Return the same trials after a step that leaves no sample as it was."""
    other = epochs.copy()
    other._data -= other._data.mean(axis=2, keepdims=True)
    other._data += 1e-7 * np.random.default_rng(3).standard_normal(other._data.shape)
    return other


@pytest.mark.parametrize("shift", [0, 13])
def test_epochs_that_overlap_in_time_are_warned_about(shift):
    """The same trials, filtered or cut around the response, cannot be recognized."""
    epochs = make_epochs(*make_arrays(n=40, n_times=40), tmin=-0.1)
    other = processed(epochs)
    if shift:
        other.events[:, 0] += np.random.default_rng(0).integers(1, shift, 40)
    with pytest.warns(UserWarning, match="same_trials=True"):
        result = generalize_epochs(epochs, test_epochs=other)
    assert result.parameters["mode"] == "other_trials"
    for same_trials in (True, False):  # once said, nothing is asked
        generalize_epochs(epochs, test_epochs=other, same_trials=same_trials)


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
