"""Decoding plain features: what goes in and out, folds, values, trials to train with.

That the numbers equal a model retrained on every fold is shown by the contract; here is
what else a user meets.
"""

import inspect
import tracemalloc
import warnings
from dataclasses import replace
from functools import cache

import numpy as np
import pandas as pd
import pytest
import sklearn.linear_model
from numpy.testing import assert_allclose, assert_array_equal
from scipy.sparse import csr_array
from scipy.spatial.distance import pdist, squareform
from scipy.stats import kstest, pearsonr
from sklearn import model_selection as ms
from sklearn.decomposition import PCA
from sklearn.metrics import accuracy_score, mean_squared_error, r2_score, roc_auc_score
from sklearn.metrics.pairwise import linear_kernel, rbf_kernel
from sklearn.model_selection import KFold, ShuffleSplit
from sklearn.preprocessing import StandardScaler

from mvpa_kfda import (
    RBF,
    KernelFDA,
    Linear,
    Nystrom,
    Ridge,
    Tuned,
    compare,
    cross_validate,
    decode_arrays,
    decode_epochs,
    decode_regions,
    generalize_arrays,
    generalize_epochs,
    group_inference,
    load_result,
    regress,
    searchlight,
    simulate_epochs,
    verify,
)
from mvpa_kfda.data.trials import Trials, read_train_on
from mvpa_kfda.decoding.analysis import make_analysis
from mvpa_kfda.decoding.procedure import Procedure
from mvpa_kfda.inference.permutation import permute_labels
from mvpa_kfda.kfda.folds import Folds
from mvpa_kfda.metrics.scores import METRICS, REGRESSION_METRICS
from mvpa_kfda.utils.plain import recorded
from tests import build, reference
from tests.entries import ENTRIES
from tests.reference import reference_cross_validate, reference_generalize

FEATURES, KINDS = build.features(build.balanced(60, 3), 5, separation=1.0)
GRAM, ROWS, SIX = FEATURES @ FEATURES.T, np.arange(60), np.repeat(np.arange(6), 10)


def same(one, other):
    """Assert that two results hold the same numbers, whatever the labels' type."""
    assert_array_equal(one.predicted, other.predicted)
    assert_array_equal(one.class_scores, other.class_scores)
    assert_array_equal(one.null, other.null)
    assert one.scores == other.scores


# ----------------------------------------------------------------- what goes in and out


def test_result_has_the_documented_shapes_and_types():
    scoring, y = ["accuracy", "roc_auc", "confusion_matrix"], build.NAMES[KINDS]
    options = {"kernel": RBF(gamma=0.5), "reg": Ridge(2.0), "random_state": 3}
    result = cross_validate(FEATURES, y, scoring=scoring, n_permutations=25, **options)
    assert type(result.scores) is type(result.metrics["roc_auc"]) is float
    confusion = result.metrics["confusion_matrix"]
    assert_array_equal(confusion.sum(axis=1), [20, 20, 20])
    assert result.scores == pytest.approx(np.trace(confusion) / 60, rel=1e-15)
    assert result.scores == accuracy_score(y, result.predictions)
    assert result.predictions.dtype == y.dtype
    best = result.classes[result.class_scores.argmax(axis=1)]
    assert_array_equal(result.predictions, best)
    assert result.nulls["roc_auc"].shape == result.null.shape == (25,)
    assert result.null.dtype == np.float64
    assert "confusion_matrix" not in result.nulls
    assert result.chance == 1 / 3
    said = {"n_features": 5, "kernel": {"name": "RBF", "gamma": 0.5}}
    said["reg"] = {"name": "Ridge", "lam": 2.0}
    assert {name: result.parameters[name] for name in said} == said
    assert set(result.versions) >= {"mvpa_kfda", "numpy", "scipy", "scikit-learn"}
    without = cross_validate(FEATURES, y, n_permutations=0, **options)
    assert_array_equal(without.class_scores, result.class_scores)
    assert without.null.shape == (0,)
    assert without.nulls == {}
    with pytest.raises(ValueError, match=r"has no label permutations.*n_permutations="):
        without.pvalues()


THREE = ["ant", "bee", "cat"]
WORDS, TWO = build.NAMES[KINDS], KINDS == 1
#: Labels, the same as whole numbers, and the classes.
LABELS = [
    (KINDS * 5 - 3, KINDS, [-3, 2, 7]),
    (pd.Series(WORDS, index=KINDS), KINDS, THREE),
    (pd.Categorical(WORDS), KINDS, THREE),
    (pd.Series(KINDS, dtype="Int64"), KINDS, [0, 1, 2]),
    # True and 1 are one class.
    (np.where(ROWS % 2, TWO.astype("O"), 1 * TWO), 1 * TWO, [False, True]),
]


@pytest.mark.parametrize(("labels", "codes", "classes"), LABELS)
def test_labels_of_many_types_name_the_same_classes(labels, codes, classes):
    options = {"n_permutations": 5, "random_state": 0}
    result = cross_validate(FEATURES, labels, **options)
    assert result.classes.tolist() == classes
    same(result, cross_validate(FEATURES, codes, **options))


@pytest.mark.parametrize(
    "convert",
    [
        np.ndarray.tolist,
        pd.DataFrame,
        np.asfortranarray,
        lambda X: pd.DataFrame(X).astype(object),
        lambda X: np.repeat(X, 2, axis=1)[:, ::2],
        lambda X: X.astype(np.int16),
        lambda X: X.astype(np.float32),
    ],
)
def test_features_of_many_types_give_the_same(convert):
    X = np.rint(3 * FEATURES)
    before = X.copy()
    result = cross_validate(convert(X), KINDS, n_permutations=5, random_state=0)
    expected = cross_validate(X, KINDS, n_permutations=5, random_state=0)
    assert_array_equal(result.predicted, expected.predicted)
    assert_allclose(result.class_scores, expected.class_scores, rtol=1e-10, atol=0)
    assert_array_equal(result.null, expected.null)
    assert_array_equal(X, before)


def test_batch_size_never_changes_anything(monkeypatch):
    X, codes = build.features(build.balanced(108, 9), 5, separation=1.0)
    options = {"n_permutations": 66, "random_state": 0, "scoring": "roc_auc"}
    double = cross_validate(X, codes, **options).class_scores
    expected = cross_validate(X, codes, dtype=np.float32, **options)
    difference = np.abs(expected.class_scores - double).max()
    assert 0 < difference < 1e-3 * np.abs(double).max()
    assert len(np.unique(expected.null)) > 3
    for batch_size in (1, 7, 64):
        build.in_batches(batch_size, monkeypatch)
        same(cross_validate(X, codes, dtype="float32", **options), expected)


def test_random_states_repeat():
    def null(random_state):
        options = {"n_permutations": 40, "random_state": random_state}
        result = cross_validate(FEATURES, KINDS, **options)
        assert type(result.parameters["random_state"]) is int
        return result.null

    np.random.seed(0)  # noqa: NPY002 - the legacy state is what must not move
    before = np.random.get_state()[1].copy()  # noqa: NPY002
    assert_array_equal(null(5), null(np.int64(5)))
    for kind in (np.random.default_rng, np.random.RandomState):
        assert_array_equal(null(kind(5)), null(kind(5)))
        assert not np.array_equal(null(kind(5)), null(kind(6)))
    generator = np.random.default_rng(5)
    assert not np.array_equal(null(generator), null(generator))
    assert not np.array_equal(null(None), null(None))
    assert_array_equal(before, np.random.get_state()[1])  # noqa: NPY002


# -------------------------------------------------------------------------------- folds


class NamedSplitter:
    """A splitter of the user's own that tests every third trial."""

    def split(self, X, y=None, groups=None):
        """Yield three folds."""
        for k in range(3):
            test = np.arange(len(X)) % 3 == k
            yield np.flatnonzero(~test), np.flatnonzero(test)

    def __repr__(self):
        return "NamedSplitter()"


def test_a_splitter_of_ones_own_and_groups_with_names():
    result = cross_validate(FEATURES, KINDS, cv=NamedSplitter(), n_permutations=10)
    assert result.parameters["cv"] == {"name": "NamedSplitter"}
    assert result.parameters["permute"] == "free"  # it was shown every labelling
    assert len(result.folds) == 3
    named = cross_validate(FEATURES, KINDS, groups=[f"run {g}" for g in SIX])
    same(cross_validate(FEATURES, KINDS, groups=SIX), named)


#: Folds, what is said of them, and groups.
BAD_FOLDS = [
    ([(ROWS, ROWS[:5])], "Fold 0 of the given cv iterable trains on some of its"),
    ([(ROWS[5:], ROWS[:5]), (ROWS[5:], ROWS[:6])], "Fold 1 .*some of its own test"),
    ([(ROWS[5:], [])], "test set of fold 0 .*must be a non-empty array"),
    ([([], ROWS)], "training set of fold 0 .*must be a non-empty array"),
    ([(ROWS[5:], ROWS[:5] - 1)], r"test set .*indices outside 0\.\.59"),
    ([(ROWS[5:] + 1, ROWS[:5])], r"training set .*indices outside 0\.\.59"),
    ([(ROWS[5:], [0, 1, 2, 3, 3])], "names a trial twice"),
    ([(ROWS[5:], ROWS[:5] / 2)], "row indices or a boolean mask of length 60"),
    ([(ROWS[5:] > 9, ROWS < 5)], r"boolean mask of length 60; got shape \(55,\)"),
    ((ROWS[5:], ROWS[:5]), r"Fold 0 .*is not a pair \(train, test\)"),
    (ms.KFold, "'cv': <class .*KFold'>"),
    (61, "more folds than there are trials, 60. Use cv=60"),
    (ms.KFold(61), "cv=KFold.* cannot split these 60 trials"),
    (ms.LeaveOneGroupOut(), "LeaveOneGroupOut.* cannot split .*groups"),
    (ms.GroupKFold(7), r"GroupKFold.* needs at least 7 groups; got 6 groups", SIX),
    (ms.StratifiedGroupKFold(7), "needs at least 7 groups; got 6", SIX),
    (None, "Leaving one group out needs at least 2 groups; got 1", 0 * SIX),
    (ms.LeaveOneGroupOut(), "needs at least 2 groups; got 1 group", 0 * SIX),
    (ms.LeavePGroupsOut(6), "LeavePGroupsOut.* cannot split", SIX),
    (None, r"groups must hold .*got shape \(60, 2\)", np.c_[SIX, SIX]),
    (None, "groups is missing .*for 1 of 60", [*SIX[:59], None]),
    (None, "groups holds values of type int", [*SIX[:59], "x"]),
]


@pytest.mark.parametrize("row", BAD_FOLDS)
def test_folds_that_do_not_work_are_refused_by_name(row):
    cv, match, groups = (*row, None)[:3]
    with pytest.raises((ValueError, TypeError), match=match):
        cross_validate(FEATURES, KINDS, cv=cv, groups=groups)


def test_a_class_too_small_for_the_folds_is_named():
    y = np.where(ROWS < 4, "rare", WORDS)
    with pytest.raises(
        ValueError,
        match=r"Class 'rare' has 4 trials, fewer than the 10 folds. Use at m",
    ):
        cross_validate(FEATURES, y, cv=ms.StratifiedKFold(10))
    with pytest.warns(UserWarning, match=r"cv=10 leaves .* 20 folds are used"):
        assert cross_validate(FEATURES, y).parameters["n_folds"] == 20
    y[:3] = "cat"
    with pytest.raises(ValueError, match=r"Class 'rare' has 1 trial to train on"):
        cross_validate(FEATURES, y)
    with pytest.raises(ValueError, match="Class 'rare' has 1 trial, "):
        cross_validate(FEATURES, y, cv=ms.RepeatedStratifiedKFold(n_splits=5))
    assert cross_validate(FEATURES, y, cv=ms.KFold(5)).scores > 0


# ---------------------------------------------------------------------------- bad input


FLAT = np.full((60, 5), 0.1)
BAD_KERNELS = [
    (GRAM[:, :50], r"kernel='precomputed', X must be square.*got \(60, 50\)"),
    (GRAM + np.triu(np.full((60, 60), 0.1)), "must be a symmetric kernel matrix"),
    (GRAM - 9 * np.eye(60), "not positive semi-definite"),
    (squareform(pdist(FEATURES, "sqeuclidean")), "not positive semi-definite"),
    (np.ones((60, 60)), "The trials do not differ"),
]
BAD_OPTIONS = [
    ({"kernel": lambda X, Y: X[:, :3]}, r"shape \(60, 60\); got \(60, 3"),
    ({"kernel": lambda X, Y: X @ Y.T * np.nan}, "NaN or infinite"),
    ({"kernel": lambda X: X @ X.T}, "kernel .* failed when called"),
    ({"kernel": lambda X, Y: 1 / 0}, "kernel .* failed when called"),
    ({"kernel": "rbf", "reg": 1e-13}, "lambda = .* is too small.*larger"),
    ({"scoring": accuracy_score}, "Invalid value for 'scoring'"),
    ({"scoring": "confusion_matrix"}, "Put a single-number metric first"),
    ({"n_permutations": 1e6}, r"This one is a float: write int\(1e\+06\)\.$"),
    ({"X": FLAT, "scoring": "foo"}, "'scoring': 'foo'. Allowed: 'accuracy', 'bal"),
    ({"X": FLAT, "kernel": "polynomial"}, r"(do not|that) differ.*data"),
    ({"X": FLAT}, "The trials do not differ.*Check for flat data"),
    ({"X": csr_array(FEATURES)}, r"sparse matrix.*X\.toarray"),
    ({"y": np.where(KINDS, 1.0, np.inf)}, "y looks continuous"),
    ({"y": KINDS + 1j}, "y looks continuous"),
    ({"y": {"a", "b"}}, "y must hold one value per trial"),
]
BAD_OPTIONS += [({"X": K, "kernel": "precomputed"}, m) for K, m in BAD_KERNELS]


@pytest.mark.parametrize(("options", "match"), BAD_OPTIONS)
def test_wrong_arguments_are_refused(options, match):
    with pytest.raises((ValueError, TypeError), match=match):
        cross_validate(**{"X": FEATURES, "y": KINDS} | options)


def test_exact_kernels_of_many_trials_are_warned_of(monkeypatch):
    monkeypatch.setattr("mvpa_kfda.decoding.analysis._MANY", 59)
    several = [Linear(), RBF(0.1)]
    for options in ({"kernel": "rbf"}, {"kernel": several, "reg": Tuned([1.0])}):
        with pytest.warns(UserWarning, match=r"60 trials takes 28\.8 kB.*Nystrom\(n_c"):
            cross_validate(FEATURES, KINDS, **options)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        cross_validate(FEATURES, KINDS)
        cross_validate(FEATURES, KINDS, kernel="rbf", approx=Nystrom(9, random_state=0))
        cross_validate(GRAM, KINDS, kernel="precomputed")
        monkeypatch.setattr("mvpa_kfda.decoding.analysis._MANY", 60)
        cross_validate(FEATURES, KINDS, kernel="rbf")


@pytest.mark.parametrize(
    ("y", "cv", "permute"),
    [
        (["a"] * 38 + ["c"] + ["b"], ms.LeaveOneOut(), "free"),
        (["a"] * 39 + ["b"], ms.LeaveOneOut(), "free"),
        (["a"] * 39 + ["b"], ms.KFold(2), "free"),
        (["a"] * 20 + ["b"] * 20, ms.KFold(2), "free"),
        (["a"] * 37 + ["b", "b", "c"], ms.ShuffleSplit(5, random_state=0), "free"),
        (["a"] * 20 + ["b"] * 20, [([0, 1], np.arange(2, 40))], "free"),
        (["a", "b"] * 20, [([0, 39], np.arange(1, 39))], "within_folds"),
    ],
)
@pytest.mark.parametrize("p", [3, 50])
def test_no_score_is_ever_nan(y, cv, permute, p):
    """Classes missing from training or test sets, observed and permuted.

    What compares them within test sets is refused then.
    """
    X, _ = build.features(build.balanced(40, 3), p, separation=1.0)
    result = cross_validate(
        X,
        y,
        cv=cv,
        scoring=[k for k, m in METRICS.items() if m.scalar and not m.within_sets],
        n_permutations=60,
        permute=permute,
        random_state=0,
    )
    for name, score in result.metrics.items():
        assert np.isfinite(score), name
        assert np.isfinite(result.nulls[name]).all(), name
    tested = np.unique(np.concatenate([test for _, test in result.folds]))
    assert not np.isnan(result.class_scores[tested]).any()
    assert_array_equal(result.predicted[tested] >= 0, True)


# ----------------------------------------- trials to train with: folds and permutations


N, P, T, LAM = 72, 5, 3, 4.0
X, CODES = build.trials((24, 24, 24), P, T, separation=1.0)
NAMES = build.NAMES[CODES]
RUNS = build.groups_of(N)

CHOSEN = np.random.default_rng(3).permuted(np.arange(N).reshape(4, 18) % 2, axis=1)
CHOSEN = CHOSEN.ravel() == 1
ONE = X[:, :, 0]
PERMUTED = {"n_permutations": 12, "random_state": 5}


#: Arguments, and the pairs that they mean before trials are chosen.
SHUFFLE = ms.ShuffleSplit(5, test_size=0.3, train_size=0.5, random_state=0)


ALL = (np.arange(N), np.arange(N))


LAYOUTS = {
    "one model": ({}, [ALL]),
    "runs": ({"groups": RUNS}, list(ms.LeaveOneGroupOut().split(X, CODES, RUNS))),
    "neighbours": ({"cv": 5}, list(ms.KFold(5).split(X))),
    "blind": ({"cv": ms.KFold(4)}, list(ms.KFold(4).split(X))),
    "overlapping": ({"cv": SHUFFLE}, list(SHUFFLE.split(X))),
    "in time": ({"cv": ms.TimeSeriesSplit(3)}, list(ms.TimeSeriesSplit(3).split(X))),
    "by hand": (
        {"cv": [(RUNS < 2, RUNS > 1)], "groups": RUNS},
        [(np.arange(36), np.arange(36, N))],
    ),
}


def chosen_of(pairs, chosen=CHOSEN):
    """Return the folds that train on chosen rows, and test the others, by hand."""
    return [(train[chosen[train]], test[~chosen[test]]) for train, test in pairs]


@cache
def labels_of(name):
    """Return the labels of a layout's permutations, by an analysis of chosen trials."""
    given, _ = LAYOUTS[name]
    analysis = make(NAMES, **given)
    return analysis.task.labels, analysis


def make(y, **given):
    """Return the analysis of a call with `train_on`."""

    options = {"reg": Ridge(LAM)} | PERMUTED | given
    groups, chosen = options.pop("groups", None), read_train_on(CHOSEN, len(y))
    trials = Trials(y=y, n=len(y), groups=groups, train_on=chosen)
    return make_analysis(trials, Procedure.of(options))


#: Layouts, schemes as they are asked for, and those that are used.
ASKED = [
    ("one model", "auto", "free"),
    ("runs", "auto", "within_groups"),
    ("runs", "within_folds", "within_folds"),
    ("neighbours", "auto", "free"),
    ("neighbours", "within_folds", "within_folds"),
    ("blind", "auto", "free"),
    ("by hand", "auto", "within_folds"),
]


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize(("name", "permute", "scheme"), ASKED)
def test_only_the_labels_trained_with_are_permuted(name, permute, scheme):
    analysis = make(NAMES, permute=permute, **LAYOUTS[name][0])
    assert analysis.parameters["permute"] == scheme
    labels, blocks = analysis.task.labels, np.zeros(N, int)
    assert_array_equal(labels[:, ~CHOSEN], np.tile(CODES[~CHOSEN], (13, 1)))
    assert (labels[1:, CHOSEN] != CODES[CHOSEN]).any(axis=1).all()
    if analysis.samples.groups is not None:
        blocks = RUNS
    for block in np.unique(blocks):
        mine = np.sort(labels[:, CHOSEN & (blocks == block)], axis=1)
        assert_array_equal(mine, np.tile(mine[0], (13, 1)))
    # Labels that are constant within runs move with these.
    groups = np.arange(N) // 9
    analysis = make(groups % 2, groups=groups)
    assert analysis.parameters["permute"] == "groups"
    labels = analysis.task.labels
    assert (labels[:, ~CHOSEN] == groups[~CHOSEN] % 2).all()
    for run in range(8):
        mine = labels[:, CHOSEN & (groups == run)]
        assert (mine == mine[:, :1]).all()


def test_all_arrangements_of_few_chosen_labels():
    X, chosen = np.random.default_rng(0).normal(size=(10, 3)), np.arange(10) < 6
    result = cross_validate(X, np.arange(10) % 2, train_on=chosen, n_permutations=100)
    assert result.parameters["exact"]
    assert result.n_permutations == 19  # of 3 among 6 trials, the observed one aside
    # Classes that change their names have another score, since tested labels stay.
    X, groups = np.random.default_rng(0).normal(size=(12, 3)), np.arange(12) // 6
    options = {"train_on": np.arange(12) % 6 < 4, "n_permutations": 100}
    result = cross_validate(X, np.arange(12) % 2, groups=groups, **options)
    assert result.n_permutations == 35
    assert result.parameters["renamings"] == 1


# ------------------------------------------------------------------- equal to refitting


@pytest.mark.some(19)
@pytest.mark.parametrize("wide", [0, 100])
@pytest.mark.parametrize("kernel", ["linear", RBF(0.1)], ids=str)
@pytest.mark.parametrize("name", LAYOUTS)
def test_one_set_of_features(name, kernel, wide):
    given, pairs = LAYOUTS[name]
    noise = np.random.default_rng(1).normal(size=(N, wide))
    data = np.hstack([ONE, 0.1 * noise])
    K = data @ data.T if kernel == "linear" else rbf_kernel(data, gamma=0.1)
    options = {"kernel": kernel, "reg": Ridge(LAM), "train_on": CHOSEN}
    result = cross_validate(data, NAMES, **options, **given, **PERMUTED)
    labels, _ = labels_of(name)
    expected = reference_cross_validate(K, CODES, chosen_of(pairs), LAM, labels)
    accuracy = (expected.predictions == CODES[expected.rows]).mean(axis=1)
    assert_allclose(result.scores, accuracy[0], rtol=1e-12)
    assert_allclose(result.null, accuracy[1:], rtol=1e-12)
    assert result.null.std() > 0
    scores = expected.mean_class_scores()
    assert_allclose(result.class_scores, scores, rtol=0, atol=1e-8)
    for found, fold in zip(result.folds, chosen_of(pairs), strict=True):
        assert_array_equal(found[0], fold[0])
        assert_array_equal(found[1], fold[1])
    never = np.isnan(scores).any(axis=1)
    assert_array_equal(np.ma.getmaskarray(result.predictions), never)
    assert never[CHOSEN].all()


@pytest.mark.parametrize("name", ["runs", "neighbours"])
def test_time_generalization(name):
    given, pairs = LAYOUTS[name]
    options = {"reg": Ridge(LAM), "train_on": CHOSEN, **given, **PERMUTED}
    result = generalize_arrays(X, NAMES, keep_class_scores=True, **options)
    labels, _ = labels_of(name)
    grams = [[X[:, :, u] @ X[:, :, t].T for u in range(T)] for t in range(T)]
    expected = reference_generalize(
        [grams[t][t] for t in range(T)],
        grams,
        CODES,
        chosen_of(pairs),
        [LAM] * T,
        labels,
    )
    accuracy = expected.accuracy(CODES)
    assert_allclose(result.scores, accuracy[0], rtol=1e-6)
    assert_allclose(result.null, accuracy[1:], rtol=1e-6)
    assert_array_equal(result.predicted[:, :, expected.rows], expected.predictions[0])
    assert result.second_nulls == {}
    assert result.parameters["mode"] == "cross_decoding"
    larger = (accuracy[1:] >= accuracy[0] - 1e-9).sum(axis=0)
    assert_allclose(result.pvalues(), (1 + larger) / 13, rtol=1e-12)
    decoded, diagonal = decode_arrays(X, NAMES, **options), result.diagonal()
    assert_array_equal(diagonal.predicted, decoded.predicted)
    assert_allclose(diagonal.null, decoded.null, rtol=1e-6)
    assert_array_equal(diagonal.pvalues("max"), decoded.pvalues("max"))


def clean(data, confounds, train):
    """Return data without what confounds explain in the training rows."""
    C, D = confounds[:, None], data[train]
    rows = C[train] - C[train].mean()
    slope = np.linalg.lstsq(rows, D - D.mean(axis=0), rcond=None)[0]
    return data - (C - C[train].mean()) @ slope


SPEED = np.random.default_rng(2).normal(size=N) + CODES
#: Options of the package, data (n, p), and the step of scikit-learn.
REFITTED = {
    "zscore": ({"preprocess": "zscore"}, ONE * np.arange(1, P + 1), StandardScaler),
    "pca": ({"preprocess": PCA(3)}, ONE * np.arange(1, P + 1), lambda: PCA(3)),
    "confounds": ({"confounds": SPEED}, ONE + SPEED[:, None], None),
    "tuned": ({"reg": "tuned"}, ONE, None),
    "grid": ({"reg": Tuned([0.1, 1.0])}, ONE, None),
    # The others may be on quite another scale, as of another session.
    "share": ({"reg": 0.5}, np.where(CHOSEN[:, None], ONE, 100 * ONE), None),
}


@pytest.mark.parametrize("what", REFITTED)
@pytest.mark.parametrize("name", ["one model", "runs"])
def test_all_is_learned_from_the_chosen_trials(name, what):
    given, pairs = LAYOUTS[name]
    options, data, step = REFITTED[what]
    if what == "share" and name == "runs":
        return  # a share is one of all chosen trials
    options = {"reg": Ridge(LAM), "train_on": CHOSEN} | options | given
    confounds, groups = options.get("confounds"), given.get("groups")
    result = cross_validate(data, NAMES, **options, **PERMUTED)
    maps = generalize_arrays(data[:, :, None], NAMES, **options)
    labels = labels_of(name)[0] if step else CODES[None]
    for b, labelling in enumerate(labels):
        predicted = np.full(N, -1)
        for train, test in chosen_of(pairs):
            Z = data if confounds is None else clean(data, confounds, train)
            if step:
                Z = step().fit(Z[train]).transform(Z)
            more = {} if groups is None else {"groups": groups[train]}
            model = KernelFDA(reg=options["reg"])
            model.fit(Z[train], labelling[train], **more)
            predicted[test] = model.predict(Z[test])
        tested = predicted >= 0
        right = np.mean(predicted[tested] == CODES[tested])
        found = result.null[b - 1] if b else result.scores
        assert found == pytest.approx(right, rel=1e-12)
        if b == 0:
            assert_array_equal(result.predicted, predicted)
            assert_allclose(maps.scores, right, rtol=1e-12)


@pytest.mark.parametrize("preprocess", [None, "zscore"])
def test_other_trials_of_training_runs_do_not_matter(preprocess):
    rng = np.random.default_rng(0)

    def predicted(rows=slice(0), names=NAMES):
        data = ONE.copy()
        data[rows] += 100 * rng.normal(size=data[rows].shape)
        options = {"groups": RUNS, "train_on": CHOSEN, "preprocess": preprocess}
        return cross_validate(data, names, reg=Ridge(LAM), **options).predicted

    expected, first = predicted(), ~CHOSEN & (RUNS == 0)
    found = predicted(first)
    assert_array_equal(found[~first], expected[~first])
    assert (found[first] != expected[first]).any()
    # Nor do chosen trials of the tested run.
    found = predicted(CHOSEN & (RUNS == 0))
    assert_array_equal(found[RUNS == 0], expected[RUNS == 0])
    assert (found[RUNS == 1] != expected[RUNS == 1]).any()
    # Nor do the labels of tested trials, for any prediction.
    others = NAMES.copy()
    others[~CHOSEN] = rng.permutation(others[~CHOSEN])
    assert_array_equal(predicted(names=others), expected)


# ----------------------------------------------------------- the same in every function


QUERY = "kind == 'seen'"
KNOWN = {"run": RUNS, "kind": np.where(CHOSEN, "seen", "heard")}


@pytest.mark.parametrize("given", [{}, {"groups": "run"}], ids=["all", "runs"])
def test_epochs_and_power_are_decoded_as_arrays(given):
    epochs, power = build.epochs(X, CODES, units={}, **KNOWN), build.power(X, CODES)
    power.metadata = epochs.metadata
    bands, near = power.data[:, :, 0], {"sensors": build.chain(P)}
    for function, data, on_arrays, values, at, more in (
        (decode_epochs, epochs, decode_arrays, X, np.s_[:], {}),
        (generalize_epochs, epochs, generalize_arrays, X, np.s_[:], {}),
        (decode_epochs, power, decode_arrays, bands, 0, {}),
        (decode_epochs, epochs, decode_arrays, X[:, :2], 0, near),
    ):
        options = {"groups": RUNS} if given else {}
        options |= {"train_on": CHOSEN, "reg": 0.5} | PERMUTED
        expected = on_arrays(values, NAMES, **options)
        for train_on, name in ((QUERY, QUERY), (CHOSEN, "mask")):
            found = function(data, **options | given | more | {"train_on": train_on})
            assert_array_equal(found.predicted[at], expected.predicted)
            assert_array_equal(found.null[:, at], expected.null)
            assert found.parameters["train_on"] == name


def test_scales_are_those_of_the_trials_to_train_with():
    types = ("eeg", "eeg", "mag", "mag", "mag")
    data = np.where(CHOSEN[:, None, None], X, 7 * X)
    data[:, :2] *= 30
    epochs = build.epochs(data, CODES, types)
    size = [data[CHOSEN][:, part].std() for part in (slice(2), slice(2, 5))]
    divided = data / np.repeat(size, (2, 3))[:, None]
    for given in ({}, {"groups": RUNS}):
        options = {"train_on": CHOSEN, "reg": Ridge(5.0), **given}
        for function, on_arrays in (
            (decode_epochs, decode_arrays),
            (generalize_epochs, generalize_arrays),
        ):
            found = function(epochs, **options)
            expected = on_arrays(divided, NAMES, **options)
            assert_array_equal(found.predicted, expected.predicted)


def test_volumes_are_z_scored_within_runs_over_both_kinds():
    cube = np.moveaxis(X, 2, 1).reshape(N, 3, 5, 1)
    in_mask = {"mask_img": build.mask(np.ones((3, 5, 1)))}
    found = searchlight(
        build.volume(cube), NAMES, groups=RUNS, train_on=CHOSEN, radius=50, **in_mask
    )
    z = cube.reshape(4, 18, 15)
    z = (z - z.mean(axis=1, keepdims=True)) / z.std(axis=1, ddof=1, keepdims=True)
    expected = cross_validate(
        z.reshape(N, 15), NAMES, groups=RUNS, train_on=CHOSEN
    ).predicted
    assert_array_equal(found.predicted, np.tile(expected, (15, 1)))


OF_CLASSES = {
    name: entry
    for name, entry in ENTRIES.items()
    if entry.predicts == "classes" and not entry.tests_others
}


@pytest.mark.some(3)
@pytest.mark.parametrize("name", OF_CLASSES)
def test_batches_and_files_change_nothing(name, tmp_path, monkeypatch):
    entry = OF_CLASSES[name]
    chosen = np.random.default_rng(1).permutation(np.arange(36) % 2 == 0)
    options = {"train_on": chosen, "n_permutations": 9, "random_state": 0}
    options |= {"scoring": ["accuracy", "roc_auc"]}
    result = entry(**options)
    build.in_batches(2, monkeypatch)
    assert entry(**options) == result
    result.save(tmp_path / "result.h5")
    assert load_result(tmp_path / "result.h5") == result
    words = "trained on 18 trials, tested on 18 others"
    assert words in repr(result)
    assert words in ", ".join(result.title_parts())


# --------------------------------------------------------------------- what results say


def test_scores_and_chance_are_of_the_tested_trials():
    # All of one class are to be trained with, so that two are tested.
    chosen, scoring = CHOSEN | (CODES == 2), ["accuracy", "f1_macro"]
    scoring += ["confusion_matrix"]
    result = cross_validate(ONE, NAMES, train_on=chosen, scoring=scoring)
    whole = generalize_arrays(
        X[chosen],
        NAMES[chosen],
        X[~chosen],
        y_test=NAMES[~chosen],
        same_trials=False,
        scoring=scoring,
    )
    assert result.chances == whole.chances
    tested = ~np.ma.getmaskarray(result.predictions)
    assert_array_equal(tested, ~chosen)
    counts = np.zeros((3, 3))
    np.add.at(counts, (CODES[~chosen], result.predicted[~chosen]), 1)
    assert_array_equal(result.metrics["confusion_matrix"], counts)
    assert result.scores == pytest.approx(np.trace(counts) / tested.sum(), rel=1e-12)
    area = roc_auc_score(CODES[~chosen] == 0, result.probabilities()[~chosen, 0])
    assert result.roc("ant").auc == pytest.approx(area, rel=1e-12)


@pytest.mark.parametrize("reg", [0.3, Tuned([0.1, 1.0])], ids=str)
def test_patterns_of_all_are_those_of_all_chosen_trials(reg):
    epochs = simulate_epochs(n_trials=80, n_classes=2, random_state=0)
    chosen, runs = np.arange(80) < 50, np.arange(80) % 4
    options = {"reg": reg, "step": 0.3}
    result = decode_epochs(epochs, train_on=chosen, groups=runs, **options)
    alone = decode_epochs(epochs[chosen], groups=runs[chosen], **options)
    for name, maps in alone.pattern_maps.items():
        if name != "class_folds":  # one by one, with penalties of their own
            scale = np.abs(maps).max()
            assert_allclose(
                result.pattern_maps[name], maps, rtol=1e-6, atol=1e-9 * scale
            )


def test_patterns_are_those_of_the_models_of_chosen_trials():
    epochs = simulate_epochs(n_trials=80, n_classes=2, random_state=0)
    chosen = np.arange(80) % 2 == 0
    runs = np.repeat(np.arange(4), 20)
    options = {"groups": runs, "step": 0.1, "reg": 0.3}
    result = decode_epochs(epochs, train_on=chosen, **options)
    for evoked in result.patterns().values():
        assert evoked.nave == 20
    # The mean over the models of folds, each of its own training trials.
    maps = []
    for run in range(4):
        part = epochs[chosen & (runs != run)]
        maps.append(decode_epochs(part, cv=4, step=0.1, reg=0.3).pattern_maps["class"])
    assert_allclose(
        result.pattern_maps["class_folds"], np.mean(maps, axis=0), rtol=1e-6, atol=1e-12
    )
    general = generalize_epochs(epochs, train_on=chosen, **options)
    assert_allclose(
        general.pattern_maps["class"], result.pattern_maps["class"], rtol=1e-9
    )
    for name, evoked in general.patterns().items():
        assert evoked.nave == result.patterns()[name].nave
    general.diagonal().patterns(average="folds")


def test_class_sizes_are_those_of_the_tested_trials():
    # Of 24, 24 and 24 trials, 12, 12 and 4 are tested.
    order = np.argsort(np.argsort(CODES, kind="stable"))
    chosen = order % 24 < np.array([12, 12, 20])[CODES]
    options = {"train_on": chosen, "n_permutations": 9, "random_state": 0}
    noise = np.random.default_rng(0).normal(size=(3, *X.shape))
    results = [decode_arrays(X + each, NAMES, **options) for each in noise]
    # The largest class is 12 / 28 of three, 1.29 times as much as a third.
    group = group_inference(results, "t")
    means = np.stack([each.null.mean(axis=0) for each in results])
    assert_allclose(group.permuted_means, means, rtol=1e-12, atol=0)
    without = [replace(each, nulls={}) for each in results]
    with pytest.raises(ValueError, match=r"1\.29 times as frequent as equal ones"):
        group_inference(without, "t")


def test_comparisons_know_what_was_trained_with():
    options = {"groups": RUNS, **PERMUTED}
    one = decode_arrays(X, NAMES, train_on=CHOSEN, **options)
    other = decode_arrays(X, NAMES, train_on=CHOSEN, reg=10.0, **options)
    assert compare(one, other).shape == (T,)
    # With another choice other labels move, though the same trials may be tested.
    pairs = chosen_of(LAYOUTS["runs"][1])
    fewer = CHOSEN & (np.arange(N) % 9 > 0)
    left = [(train[fewer[train]], test) for train, test in pairs]
    another = decode_arrays(X, NAMES, train_on=fewer, cv=left, **options)
    with pytest.raises(ValueError, match=r"trials to train with \(train_on\)"):
        compare(one, another)
    reverse = decode_arrays(X, NAMES, train_on=~CHOSEN, **options)
    with pytest.raises(ValueError, match=r"but they have no tested trial in common\."):
        compare(one, reverse)


def test_checkpoints_know_what_was_trained_with(tmp_path):
    near = build.chain(P) | np.eye(P, dtype=bool)
    options = {"adjacency": near, "groups": RUNS, "checkpoint": tmp_path / "run.db"}
    options |= PERMUTED
    result = searchlight(ONE, NAMES, train_on=CHOSEN, **options)
    assert searchlight(ONE, NAMES, train_on=CHOSEN, **options) == result
    other = CHOSEN.copy()
    other[[0, 1]] = ~other[[0, 1]]
    for train_on in (None, other):
        with pytest.raises(ValueError, match=r"\bother\b|another"):
            searchlight(ONE, NAMES, train_on=train_on, **options)


# ------------------------------------------------------------------------------ refused


BEFORE = (np.arange(N) < 30) & (RUNS == 1)
ONLY = (np.arange(N) % 7 > 0) & ((RUNS == 1) | ((RUNS == 2) & (CODES == 0)))
UNKNOWN, IN_RUNS = pd.array([None, *CHOSEN[1:]], dtype="boolean"), {"groups": RUNS}
WITHIN = {"permute": "within_folds", "n_permutations": 9}
#: Which trials, what is said, and further arguments.
REFUSED = [
    (UNKNOWN, r"^train_on is masked for 1 of 72 trials; drop these trials first\."),
    ("run == 1", r"^train_on='run == 1' asks a table .* a mask"),
    (CODES != 1, "^train_on selects no trial of class 'bee', which is among the tri"),
    (CHOSEN & (CODES != 1), "^train_on selects no trial of class 'bee'", IN_RUNS),
    (
        CHOSEN | (RUNS == 1),
        r"^train_on leaves no trial to test in fold 1 of cv=LeaveOneGroupOut\(\) "
        r"\(group 1\): all 18 trials of its test set are selected for training\.",
        IN_RUNS,
    ),
    (RUNS == 0, r"to test in fold 0 of cv=KFold\(", {"cv": ms.KFold(4)}),
    (BEFORE, r"no trial to train on in fold 1 of cv=.* \(group 1\); a model", IN_RUNS),
    (ONLY, "leaves trials of class 'ant' only to train on in fold 1 of", IN_RUNS),
    (CHOSEN, "permute='within_folds' needs folds", WITHIN),
]


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("row", REFUSED, ids=[row[1][:40] for row in REFUSED])
def test_trials_that_cannot_be_trained_with_are_refused(row):
    train_on, match, options = (*row, {})[:3]
    for function, data in ((cross_validate, ONE), (generalize_arrays, X)):
        with pytest.raises(ValueError, match=match) as caught:
            function(data, NAMES, train_on=train_on, **options)
        assert type(caught.value) is ValueError


def test_what_is_no_mask_or_does_not_go_together_is_refused():
    with pytest.raises(TypeError, match=r"train_on must hold booleans.* dtype"):
        cross_validate(ONE, NAMES, train_on=np.flatnonzero(CHOSEN))
    values = build.values_of(X)
    with pytest.raises(ValueError, match=r"^task='regression' has no train_on\. Leave"):
        decode_arrays(X, values, task="regression", train_on=CHOSEN)
    with pytest.raises(ValueError, match=r"^n_repeats=2 without .* train_on"):
        cross_validate(ONE, NAMES, train_on=CHOSEN, n_repeats=2)
    with pytest.raises(TypeError, match="train_on"):
        regress(ONE, values, train_on=CHOSEN)
    for more in ({"X_test": X}, {"y_test": NAMES}):
        message = "^train_on splits X into .* it cannot be combined with X_test or y_te"
        with pytest.raises(ValueError, match=message):
            generalize_arrays(X, NAMES, train_on=CHOSEN, **more)
    epochs = build.epochs(X, CODES)
    with pytest.raises(ValueError, match=r"^train_on=\"word != 'bee'\" selects no tri"):
        generalize_epochs(epochs, train_on="word != 'bee'")
    epochs.metadata = None
    for function in (decode_epochs, generalize_epochs):
        with pytest.raises(ValueError, match=r"asks epochs\.metadata, but these epoch"):
            function(epochs, train_on=QUERY)


def test_queries_of_images_ask_the_table_of_labels():
    table = pd.DataFrame({"label": NAMES, "run": RUNS}, index=np.arange(N)[::-1])
    options = {"labels_img": [1] * P}
    found = decode_regions(ONE, (table, "label"), train_on="run < 2", **options)
    assert_array_equal(found.folds[0][0], np.arange(36))
    with pytest.raises(ValueError, match=r"selects none of the 72 images; .* 'label"):
        decode_regions(ONE, (table, "label"), train_on="run > 5", **options)


def test_runs_of_one_kind_of_trials_are_trained_with_or_tested():
    # What the refusal of runs without trials to test advises.
    cv = [(np.flatnonzero(RUNS < 2), np.flatnonzero(RUNS > 1))]
    options = {"cv": cv, "train_on": RUNS < 2, "groups": RUNS, **PERMUTED}
    result = cross_validate(ONE, NAMES, **options)
    assert result.parameters["permute"] == "within_groups"
    assert_array_equal(result.folds[0][1], np.arange(36, N))
    chosen = CHOSEN & (RUNS != 2)
    result = cross_validate(ONE, NAMES, train_on=chosen, groups=RUNS)
    assert_array_equal(result.folds[2][1], np.flatnonzero(RUNS == 2))
    assert_array_equal(result.folds[2][0], np.flatnonzero(chosen))
    lacking = CHOSEN & ((RUNS == 3) | (CODES != 2))
    with pytest.warns(UserWarning, match=r"No trial of class 'cat' is in the training"):
        cross_validate(ONE, NAMES, train_on=lacking, groups=RUNS)


# --------------------------------------------------------------------------- calibrated


def noise_that_is_decodable(seed, between_runs=2.0):
    """Return trials of which only those to be tested hold their classes, and bunched.

    Tested trials fall into two tight bunches by class, so that a model that knows
    nothing names whole bunches. Runs differ from each other, each with both classes.
    """
    rng = np.random.default_rng(seed)
    runs = np.repeat(np.arange(4), 16)
    y = np.concatenate([rng.permutation(np.tile([0, 1], 8)) for _ in range(4)])
    chosen = np.concatenate([rng.permutation(np.arange(16) % 2 == 0) for _ in range(4)])
    data = rng.normal(size=(64, 4)) + between_runs * rng.normal(size=(4, 4))[runs]
    data[~chosen] += 6 * rng.normal(size=4) * (y[~chosen, None] - 0.5)
    return data, y, runs, chosen


def p_without_ties(results):
    """Return p-values with ties broken at random: uniform if the test is right."""
    rng, p = np.random.default_rng(0), []
    for result in results:
        larger = (result.null > result.scores + 1e-9).sum()
        tied = (abs(result.null - result.scores) <= 1e-9).sum()
        p.append((larger + rng.uniform() * (1 + tied)) / (1 + len(result.null)))
    return np.array(p)


CALIBRATED = {
    "one model": {"groups": False},
    "runs": {},
    "runs, z-scored": {"preprocess": "zscore"},
    "neighbours": {"groups": False, "cv": 4},
    "overlapping": {"groups": False, "cv": ms.ShuffleSplit(6, test_size=0.3)},
}


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("given", CALIBRATED.values(), ids=CALIBRATED)
@pytest.mark.parametrize("scoring", ["accuracy", "roc_auc"])
def test_p_values_are_uniform_where_tested_trials_are_decodable(given, scoring):
    results, grouped = [], "groups" not in given
    options = {"scoring": scoring, "n_permutations": 99, **given}
    for seed in range(300):
        # Classes are balanced within runs. If runs differ, that is lost where labels
        # are shuffled across them, and p-values are too large.
        data, y, runs, chosen = noise_that_is_decodable(seed, 2.0 * grouped)
        options |= {"train_on": chosen, "groups": runs if grouped else None}
        results.append(cross_validate(data, y, random_state=seed, **options))
    assert np.std([result.scores for result in results]) > 0.1  # bunches
    assert kstest(p_without_ties(results), "uniform").pvalue > 0.01
    p = np.array([result.pvalues() for result in results])
    for alpha in (0.05, 0.1, 0.2, 0.5):
        margin = 3 * np.sqrt(alpha * (1 - alpha) / len(p))
        assert (p <= alpha).mean() < alpha + margin


SCORING = list(REGRESSION_METRICS)
SEED = 5
UNEVEN = np.random.default_rng(0).integers(5, size=33)


def make_data(n=40, p=6, seed=0, noise=1.0):
    X, _ = build.features((n,), p, seed, offset=2.0)
    return X, build.values_of(X, seed, noise)


def scores_of(true, predicted):
    """Return scores by scikit-learn and SciPy."""
    return {
        "r2": r2_score(true, predicted),
        "pearsonr": pearsonr(true, predicted).statistic,
        "neg_mean_squared_error": -mean_squared_error(true, predicted),
    }


def size_of(K):
    return np.trace(K - K.mean(axis=0)) / len(K)


def refit(K, y, folds, lam):
    """Return the rows of all test sets, and predictions of models of each fold."""
    predictions = [
        reference.regress(
            K[np.ix_(train, train)], K[np.ix_(test, train)], y[train, None], lam
        )
        for train, test in folds
    ]
    rows = np.concatenate([test for _, test in folds])
    return rows, np.concatenate(predictions)[:, 0]


def rearranged(y, n_permutations, **options):
    """Return values (P + 1, n) of an analysis, observed first."""
    levels, codes = np.unique(y, return_inverse=True)
    options = {"folds": None, "random_state": SEED} | options
    return levels[permute_labels(codes, n_permutations, **options).labels]


# ------------------------------------------------------------------------- the oracle

FOLDS = {
    "equal folds": ms.KFold(5),
    "unequal folds": ms.KFold(7, shuffle=True, random_state=0),
    "leave one out": ms.LeaveOneOut(),
    "overlapping and incomplete": ms.ShuffleSplit(4, test_size=0.3, random_state=0),
    "repeated": ms.RepeatedKFold(n_splits=3, n_repeats=2, random_state=0),
    "hold-out": ms.ShuffleSplit(1, test_size=0.4, random_state=0),
    "groups": ms.LeaveOneGroupOut(),
}


@pytest.mark.parametrize("cv", FOLDS.values(), ids=FOLDS)
@pytest.mark.parametrize(("p", "reg"), [(4, 0.3), (90, 0.02), (90, Ridge(30.0))])
def test_equals_refitting_on_any_folds(cv, p, reg):
    X, y = make_data(n=33, p=p)
    y = y if p == 4 else np.round(y / 4)  # few distinct values
    K = linear_kernel(X)
    lam = reg.lam if isinstance(reg, Ridge) else reg * size_of(K)
    groups = UNEVEN if isinstance(cv, ms.LeaveOneGroupOut) else None
    options = {"groups": groups, "permute": "free", "random_state": SEED}
    options |= {"scoring": SCORING, "n_permutations": 5, "reg": reg}
    result = regress(X, y, cv=cv, **options)
    folds, scores = list(cv.split(X, y, groups)), []
    for values in rearranged(y, 5, permute="free"):
        rows, predicted = refit(K, values, folds, lam)
        scores.append(scores_of(values[rows], predicted))
        if len(scores) == 1:
            table = pd.Series(predicted).groupby(rows).mean()  # over repeated tests
            expected = table.reindex(np.arange(33))  # NaN where never tested
            assert_allclose(result.predictions, expected, rtol=1e-9, atol=1e-9)
    for name in SCORING:
        expected = [each[name] for each in scores]
        assert_allclose(result.metrics[name], expected[0], rtol=1e-9, atol=1e-10)
        assert_allclose(result.nulls[name], expected[1:], rtol=1e-9, atol=1e-10)


def test_tuned_penalty_equals_a_nested_loop_over_groups():
    X, y = make_data(n=24, p=30, noise=3.0)
    groups, left_out = np.repeat(np.arange(5), [4, 6, 5, 4, 5]), ms.LeaveOneGroupOut()
    K, grid = linear_kernel(X), [10.0, 1.0, 0.1, 0.01]
    options = {"groups": groups, "random_state": SEED}
    tuned = Tuned(grid=grid)
    result = regress(X, y, reg=tuned, n_permutations=6, **options)
    options["permute"] = result.parameters["permute"]
    lambdas, scores, chosen = [np.multiply(grid, size_of(K))], [], []
    for values in rearranged(y, 6, **options):
        fitted, errors = np.empty(24), []
        for train, test in left_out.split(X, y, groups):
            splits = list(left_out.split(train, train, groups[train]))
            _, lam, found = reference.choose([K], lambdas, values, train, splits, None)
            fitted[test] = refit(K, values, [(train, test)], lam)[1]
            chosen.append(lam)
            errors.append(found[0])
        scores.append(r2_score(values, fitted))
        if len(scores) == 1:
            assert_allclose(result.predictions, fitted, rtol=1e-8, atol=0)
            assert_allclose(result.penalty["lambda"], chosen, rtol=1e-9, atol=0)
            found = result.penalty["criterion"][:, 0]
            assert_allclose(found, errors, rtol=1e-8, atol=0)
    assert len(set(chosen)) > 1  # else a fixed penalty would pass
    assert_allclose([result.scores, *result.null], scores, rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize("n_groups", [1, 2])
def test_in_a_training_set_of_one_group_trials_are_left_out(n_groups):
    rng = np.random.default_rng(0)
    X, groups = rng.standard_normal((36, 5)), np.arange(36) % n_groups
    y = X[:, 0] + 0.5 * rng.standard_normal(36)
    options = {"groups": groups, "cv": ms.KFold(4) if n_groups == 1 else None}
    result = regress(X, y, **options)
    grid = Tuned([0.01, 0.1, 1.0, 10.0])
    tuned = regress(X, y, **options, reg=grid)
    exact = regress(X, y, cv=list(result.folds), reg=grid)
    assert_array_equal(tuned.lambdas, exact.lambdas)
    assert result.scores > 0
    assert verify(result, X, y, groups=groups)


# ---------------------------------------------------------------- units and precision


@pytest.mark.parametrize(
    ("factor", "offset"), [(1e-12, 0.0), (1e-3, 4e4), (-1e150, 0.0), (1e-200, 0.0)]
)
def test_unit_of_the_values_does_not_matter(factor, offset):
    X, y = make_data()
    options = {"cv": 5, "n_permutations": 19, "random_state": 0}
    plain = regress(X, y, scoring=["r2", "pearsonr"], **options)
    other = regress(X, offset + factor * y, scoring=["r2", "pearsonr"], **options)
    expected = offset + factor * plain.predictions
    assert_allclose(other.predictions, expected, rtol=1e-9, atol=0)
    for name in plain.scoring:
        assert_allclose(other.metrics[name], plain.metrics[name], rtol=1e-9, atol=0)
    # A negative factor turns the order of the values, and so the permutations.
    if factor > 0:
        assert_allclose(other.null, plain.null, rtol=1e-9, atol=1e-9)


def test_single_precision_is_close_for_values_far_from_zero():
    (X, y), offset = make_data(n=60), 1e6
    options = {"scoring": SCORING, "n_permutations": 50, "random_state": 0}
    double = regress(X, offset + y, **options)
    single = regress(X, offset + y, dtype="float32", **options)
    error = np.abs(single.predictions - double.predictions).max()
    assert 0 < error < 1e-4 * y.std()
    for name in SCORING:
        assert_allclose(single.nulls[name], double.nulls[name], rtol=1e-4, atol=1e-4)


# ------------------------------------------------------------------ folds, permutations


@pytest.mark.parametrize(
    ("cv", "groups", "splitter", "scheme"),
    [
        (None, None, ms.KFold(10), "free"),
        (4, None, ms.KFold(4), "free"),
        (ms.LeaveOneOut(), None, ms.LeaveOneOut(), "free"),
        (None, np.arange(40) % 8, ms.LeaveOneGroupOut(), "within_groups"),
    ],
    ids=str,
)
def test_meaning_of_cv_and_choice_of_permutations(cv, groups, splitter, scheme):
    X, y = make_data()
    result = regress(X, y, cv=cv, groups=groups, n_permutations=9, random_state=0)
    expected = [test for _, test in splitter.split(X, y, groups)]
    for test, other in zip(result.tests, expected, strict=True):
        assert_array_equal(test, other)
    assert result.parameters["cv"] == recorded(splitter)
    assert result.parameters["n_folds"] == len(expected)
    assert result.parameters["permute"] == scheme
    assert result.n_permutations == 9


def test_splitters_do_not_see_the_values():
    class Watching(ms.KFold):
        def split(self, X, y=None, groups=None):
            assert len(np.unique(y)) == 1
            return super().split(X, y, groups)

    assert len(regress(*make_data(), cv=Watching(4)).tests) == 4


def test_distinct_values_need_no_table_of_trials_by_trials():
    n = 5000
    folds = Folds(tuple(np.arange(n)[:, None]), n, sees_labels=False)
    assert len(folds.blocks) == n
    tracemalloc.start()
    permuted = permute_labels(np.arange(n), 3, folds=folds)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert permuted.scheme == "free"
    assert peak < n**2


# --------------------------------------------------------------- what goes in and out


def test_signature_is_that_of_cross_validate():
    ours, theirs = (
        {name: each.default for name, each in inspect.signature(f).parameters.items()}
        for f in (regress, cross_validate)
    )
    assert (ours.pop("scoring"), ours.pop("approx")) == ("r2", None)
    assert (ours.pop("circular"), ours.pop("period")) == (False, None)
    assert ours.items() <= theirs.items()


def test_values_in_any_container():
    X, y = make_data()
    expected = regress(X, y, random_state=0)
    for given in (list(y), pd.Series(y), y.astype(object), pd.array(y, "Float64")):
        assert regress(X, given, random_state=0) == expected
    rated = np.round(y / 5).astype(int)
    result = regress(X, rated, random_state=0)
    assert result.y.dtype == result.predictions.dtype == float
    assert len(np.unique(result.predictions)) == 40
    assert result == regress(X, rated.astype(np.int8), random_state=0)


NUMBERS = np.arange(40.0)
STRATIFIED = (
    *(ms.StratifiedKFold(4), ms.RepeatedStratifiedKFold()),
    *(ms.StratifiedGroupKFold(4), ms.StratifiedShuffleSplit(4)),
)
REFUSED_NUMBERS = [
    ({"y": NUMBERS.astype(str)}, r"must hold numbers.*<U.*cross_validate"),
    ({"y": NUMBERS < 20}, r"must hold numbers .* got dtype bool"),
    ({"y": 1j * NUMBERS}, r"must hold numbers .* got dtype complex128"),
    ({"y": np.arange(40).astype("M8[s]")}, r"must hold numbers .* datetime64"),
    ({"y": [np.nan, *range(39)]}, r"y is missing \(None or NaN\) for 1 of 40"),
    ({"y": [*range(38), np.inf, -np.inf]}, r"infinite for 2 of 40 .*first: 38"),
    ({"y": np.full(40, 0.3)}, r"y is constant \(0.3 for all 40 trials\)"),
    ({"y": np.zeros(40)}, r"y is constant \(0 for all"),
    ({"y": 0.3 + 1e-16 * (np.arange(40) % 2)}, r"y is constant"),
    *[({"cv": cv}, r"(?s)Stratified.* needs classes.*Use KFold") for cv in STRATIFIED],
    ({"scoring": "accuracy"}, r"'accuracy'\. Allowed: 'r2', 'pears"),
    ({"scoring": []}, r"'scoring': \[\]\. Allowed: .* of r2, pearsonr"),
    ({"cv": 41}, r"cv=41 asks for more folds than .* trials, 40\."),
    ({"kernel": "rbf", "reg": 1e-14}, r"lambda = .* is too small"),
]


@pytest.mark.parametrize(("options", "message"), REFUSED_NUMBERS, ids=build.words)
def test_what_is_no_regression_is_refused(options, message):
    X, y = make_data()
    error = TypeError if options == {"scoring": []} else ValueError
    with pytest.raises(error, match=message):
        regress(X, **{"y": y} | options)


# ---------------------------------------------------------------------------- results


def one_result(**options):
    options = {"scoring": SCORING, "n_permutations": 30, "random_state": 0, **options}
    return regress(*make_data(), **options)


def test_results_know_no_classes_and_the_chance_of_correlations_only():
    result = one_result()
    text = repr(result)
    assert text.startswith("<RegressionResult: R² 0.")
    assert text.endswith("| 40 trials, 10 folds, 30 permutations>")
    assert list(result.chances) == SCORING
    assert result.chances.pop("pearsonr") == 0
    assert np.isnan(list(result.chances.values())).all()


def test_histogram_shows_the_null():
    result = one_result()
    ax = result.plot()
    assert sum(patch.get_height() for patch in ax.patches) == 30
    assert "classes" not in ax.get_title(loc="left")
    labels = [text.get_text() for text in ax.get_legend().get_texts()]
    assert labels[1:3] == ["permuted values", "as good as the mean (0)"]
    ax = result.plot(metric="pearsonr")
    assert ax.get_xlabel() == "Pearson correlation"
    labels = [text.get_text() for text in ax.get_legend().get_texts()]
    assert "no correlation" in labels


# ------------------------------------------------------------------------ calibration


def noise(seed, **options):
    """Regress noise on noise."""
    rng = np.random.default_rng(seed)
    X, y = rng.standard_normal((40, 20)), rng.standard_normal(40)
    return regress(X, y, n_permutations=99, random_state=seed, **options)


@pytest.mark.slow
@pytest.mark.parametrize("cv", [None, 2, ms.LeaveOneOut()], ids=str)
@pytest.mark.parametrize("scoring", SCORING)
def test_p_values_are_uniform_on_noise(cv, scoring):
    p = np.array([noise(i, cv=cv, scoring=scoring).pvalues() for i in range(400)])
    assert kstest(p, "uniform").pvalue > 0.01
    for alpha in (0.05, 0.1, 0.2, 0.5):
        assert (p <= alpha).mean() < alpha + 3 * np.sqrt(alpha * (1 - alpha) / 400)


@pytest.mark.slow
def test_p_values_are_uniform_on_noise_with_subjects():
    p = []
    for seed in range(400):
        rng = np.random.default_rng(seed)
        groups = np.repeat(np.arange(12), rng.integers(3, 6, 12))
        X = rng.standard_normal((12, 8))[groups] + rng.standard_normal((len(groups), 8))
        y = rng.standard_normal(12)[groups]
        options = {"groups": groups, "n_permutations": 99, "random_state": seed}
        p.append(regress(X, y, cv=ms.GroupKFold(4), **options).pvalues())
    assert kstest(p, "uniform").pvalue > 0.01


# ------------------------------------------------------------------ values on a circle


def orientations(n=48, seed=0):
    """Features (n, 8, 4) that follow orientations in degrees from the third time on."""
    rng = np.random.default_rng(seed)
    y = rng.uniform(-90, 90, n)
    X = rng.normal(size=(n, 8, 4))
    X[:, 0, 2:] += 2 * np.cos(np.pi * y / 90)[:, None]
    X[:, 1, 2:] += 2 * np.sin(np.pi * y / 90)[:, None]
    return X, y


def refitted_angles(X, X_test, angles, folds, lam):
    """Angles of sine and cosine, each predicted by scikit-learn's ridge regression."""
    found = np.empty(len(X_test))
    for train, test in folds:
        model = sklearn.linear_model.Ridge(alpha=lam).fit(
            X[train], np.column_stack([np.sin(angles), np.cos(angles)])[train]
        )
        found[test] = np.arctan2(*model.predict(X_test[test]).T)
    return found


CIRCLE = {"task": "regression", "circular": True, "period": 180, "reg": Ridge(7.0)}
BOTH = ["mean_cosine", "neg_mean_absolute_error"]


@pytest.mark.parametrize("preprocess", [None, "zscore"])
def test_angles_are_those_of_refitted_sines_and_cosines(preprocess):
    X, y = orientations()
    angles, folds = np.pi * y / 90, list(KFold(4).split(y))
    options = CIRCLE | {"cv": KFold(4), "scoring": BOTH, "preprocess": preprocess}
    options |= {"n_permutations": 19, "random_state": 0}
    result = generalize_arrays(X, y, **options)
    over_time = decode_arrays(X, y, **options)
    labels = build.permuted(np.unique(y, return_inverse=True)[1], 19, KFold(4), seed=0)
    for t, u in np.ndindex(4, 4):
        for number, permuted in [(None, angles), (3, np.sort(angles)[labels[4]])]:
            predicted = np.empty(len(y))
            for train, test in folds:
                Z, Z_test = X[train, :, t], X[test, :, u]
                if preprocess:
                    scaler = StandardScaler().fit(Z)
                    Z, Z_test = scaler.transform(Z), scaler.transform(Z_test)
                rows = np.arange(len(train)), np.arange(len(test))
                both = np.concatenate([Z, Z_test])
                found = refitted_angles(
                    both,
                    both[len(train) :],
                    permuted[np.concatenate([train, test])],
                    [rows],
                    7.0,
                )
                predicted[test] = found
            cosine = np.cos(predicted - permuted)
            arc = np.arccos(np.clip(cosine, -1, 1)) * 90 / np.pi
            if number is None:
                ours = np.pi * result.predicted[t, u] / 90
                assert_allclose(np.exp(1j * ours), np.exp(1j * predicted), rtol=1e-10)
                assert_allclose(result.scores[t, u], cosine.mean(), rtol=1e-10)
                found = result.metrics["neg_mean_absolute_error"][t, u]
                assert_allclose(found, -arc.mean(), rtol=1e-7)
            else:
                null = result.nulls["mean_cosine"][number, t, u]
                assert_allclose(null, cosine.mean(), rtol=1e-6, atol=1e-7)
    assert_allclose(np.diag(result.scores), over_time.scores, rtol=1e-10)
    assert ((result.predicted >= 0) & (result.predicted < 180)).all()
    assert over_time.chances == {BOTH[0]: 0.0, BOTH[1]: -45.0}
    assert_array_equal(over_time.pvalues("max") <= 0.05, [False, False, True, True])


def test_whole_turns_and_the_unit_of_angles_change_nothing():
    X, y = orientations()
    options = {"circular": True, "reg": [0.1, 1.0], "random_state": 0, "cv": 5}
    result = regress(X[:, :, 3], y, period=180, n_permutations=9, **options)
    turned = y + 180 * np.arange(-20, 28)
    again = regress(X[:, :, 3], turned, period=180, n_permutations=9, **options)
    radians = regress(X[:, :, 3], np.pi * y / 90, n_permutations=9, **options)
    for other in (again, radians):
        assert_allclose(other.scores, result.scores, rtol=1e-9)
        assert_allclose(np.sort(other.null), np.sort(result.null), rtol=1e-9)
        assert_array_equal(other.penalty["lambda"], result.penalty["lambda"])
    apart = np.exp(1j * radians.predicted) - np.exp(1j * np.pi * result.predicted / 90)
    assert_allclose(apart, 0, atol=1e-9)
    overlapping = regress(
        X[:, :, 3], np.pi * y / 90, cv=ShuffleSplit(30, random_state=0), circular=True
    )
    assert np.nanmean(np.cos(overlapping.predicted - np.pi * y / 90)) > 0.7


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"circular": True}, "task='regression'"),
        ({"task": "regression", "period": 180}, "Pass circular=True"),
        (CIRCLE | {"period": 0}, "'period': 0"),
        (CIRCLE | {"scoring": "r2"}, "Allowed: 'mean_cosine'"),
    ],
)
def test_circles_are_asked_for_in_whole(options, message):
    X, y = orientations()
    with pytest.raises(ValueError, match=message):
        decode_arrays(X, y, **options)


def test_all_values_at_one_angle_are_refused():
    X, _ = orientations()
    with pytest.raises(ValueError, match=r"equal|constant"):
        regress(X[:, :, 0], 30 + 180.0 * np.arange(48), circular=True, period=180)
