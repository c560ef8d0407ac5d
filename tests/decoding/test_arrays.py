"""The array entry from outside: arguments, shapes, folds, refusals.

That the numbers equal a discriminant retrained on every fold is shown for many designs
in ``test_oracle.py``; here is what else a user meets.
"""

import warnings

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.sparse import csr_array
from scipy.spatial.distance import pdist, squareform
from sklearn import model_selection as ms
from sklearn.metrics import accuracy_score
from sklearn.metrics.pairwise import rbf_kernel

from mvpa_kfda import RBF, Linear, Nystrom, Ridge, Tuned, cross_validate
from mvpa_kfda.metrics.scores import METRICS
from tests import build

NAMES = np.array(["cat", "dog", "house"])


@pytest.fixture(scope="module")
def data():
    return build.features(build.balanced(60, 3), 5, separation=1.0)


def same(one, other):
    """Assert that two results hold the same numbers, whatever the labels' type."""
    assert_array_equal(one.predicted, other.predicted)
    assert_array_equal(one.class_scores, other.class_scores)
    assert_array_equal(one.null, other.null)
    assert one.scores == other.scores


# --------------------------------------------------------------- what goes in and out


def test_result_has_the_documented_shapes_and_types(data):
    X, codes = data
    scoring = ["accuracy", "roc_auc", "confusion_matrix"]
    options = {"kernel": RBF(gamma=0.5), "reg": Ridge(2.0), "random_state": 3}
    y = NAMES[codes]
    result = cross_validate(X, y, scoring=scoring, n_permutations=25, **options)
    assert type(result.scores) is type(result.metrics["roc_auc"]) is float
    confusion = result.metrics["confusion_matrix"]
    assert_array_equal(confusion.sum(axis=1), [20, 20, 20])
    assert result.scores == pytest.approx(np.trace(confusion) / 60, rel=1e-15)
    assert result.scores == accuracy_score(y, result.predictions)
    assert type(result.predictions) is np.ndarray
    assert result.predictions.dtype == NAMES.dtype
    assert_array_equal(result.classes, NAMES)
    assert_array_equal(result.predictions, NAMES[result.class_scores.argmax(axis=1)])
    assert result.nulls["roc_auc"].shape == result.null.shape == (25,)
    assert result.null.dtype == np.float64
    assert "confusion_matrix" not in result.nulls
    assert result.chance == 1 / 3
    said = {"n_features": 5, "kernel": {"name": "RBF", "gamma": 0.5}}
    said["reg"] = {"name": "Ridge", "lam": 2.0}
    assert {name: result.parameters[name] for name in said} == said
    assert set(result.versions) >= {"mvpa_kfda", "numpy", "scipy", "scikit-learn"}


def test_offset_and_unit_of_a_given_kernel_do_not_matter(data):
    K = rbf_kernel(data[0], gamma=0.2)
    options = {"kernel": "precomputed", "n_permutations": 9, "random_state": 0}
    result = cross_validate(K, data[1], **options)
    shifted = cross_validate(1e3 * (K + 1), data[1], **options)
    assert_array_equal(result.predicted, shifted.predicted)
    assert_array_equal(result.null, shifted.null)
    assert result.parameters["n_features"] == 60
    assert result.parameters["kernel"] == {"name": "Precomputed"}


@pytest.mark.parametrize(
    ("labels", "classes"),
    [
        (lambda codes: NAMES[codes], ["cat", "dog", "house"]),
        (lambda codes: codes * 5 - 3, [-3, 2, 7]),
        (lambda codes: codes.astype(np.int8), [0, 1, 2]),
        (lambda codes: codes.astype(float), [0.0, 1.0, 2.0]),
        (lambda codes: NAMES[codes].tolist(), ["cat", "dog", "house"]),
        (lambda codes: tuple(codes.tolist()), [0, 1, 2]),
        (lambda codes: NAMES[codes].astype(object), ["cat", "dog", "house"]),
        (lambda codes: list(NAMES[codes].astype(bytes)), ["cat", "dog", "house"]),
        (lambda codes: pd.Series(NAMES[codes], index=codes), ["cat", "dog", "house"]),
        (lambda codes: pd.Categorical(NAMES[codes]), ["cat", "dog", "house"]),
        (lambda codes: pd.Series(codes, dtype="Int64"), [0, 1, 2]),
    ],
)
def test_labels_of_many_types_name_the_same_classes(data, labels, classes):
    X, codes = data
    options = {"n_permutations": 5, "random_state": 0}
    result = cross_validate(X, labels(codes), **options)
    assert result.classes.tolist() == classes
    same(result, cross_validate(X, codes, **options))


def test_boolean_labels_are_two_classes():
    X, codes = build.features(build.balanced(60, 2), 5, separation=1.0)
    result = cross_validate(X, codes == 1)
    assert result.classes.tolist() == [False, True]
    assert result.predictions.dtype == bool
    same(result, cross_validate(X, codes))
    same(result, cross_validate(X, (codes == 1).tolist()))
    same(result, cross_validate(X, list(codes == 1)))
    mixed = np.array([bool(c) if i % 2 else int(c) for i, c in enumerate(codes)], "O")
    same(result, cross_validate(X, mixed))  # True and 1 are one class


@pytest.mark.parametrize(
    "convert",
    [
        np.ndarray.tolist,
        pd.DataFrame,
        np.asfortranarray,
        lambda X: pd.DataFrame(X).astype(object),
        lambda X: np.repeat(X, 2, axis=1)[:, ::2],
    ],
)
def test_features_of_many_types_give_the_same(data, convert):
    X, codes = data
    before = X.copy()
    result = cross_validate(convert(X), codes, n_permutations=5, random_state=0)
    expected = cross_validate(X, codes, n_permutations=5, random_state=0)
    assert_array_equal(result.predicted, expected.predicted)
    assert_allclose(result.class_scores, expected.class_scores, rtol=1e-10, atol=0)
    assert_array_equal(result.null, expected.null)
    assert_array_equal(X, before)


def test_whole_numbers_and_float32_features(data):
    X, codes = data
    counts = np.rint(X * 3)
    expected = cross_validate(counts, codes)
    same(expected, cross_validate(counts.astype(np.int16), codes))
    same(expected, cross_validate(counts.astype(np.float32), codes))


# ----------------------------------------------------------------- kernel, reg, dtype


def test_a_tiny_penalty_is_fine_where_the_features_allow_it(data):
    """With few features lambda = 0 would do; it is the limit of small ones."""
    X, codes = data
    tiny = cross_validate(X, codes, reg=Ridge(1e-300))
    small = cross_validate(X, codes, reg=Ridge(1e-9))
    assert_allclose(tiny.class_scores, small.class_scores, rtol=1e-6, atol=1e-9)
    with pytest.raises(ValueError, match=r"lambda = 1e-300 is too small.*larger reg"):
        cross_validate(np.hstack([X] * 12), codes, reg=Ridge(1e-300))


@pytest.mark.some(5)
@pytest.mark.parametrize("scoring", ["accuracy", "roc_auc", "f1"])
@pytest.mark.parametrize("n_classes", [2, 3, 9])
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_batch_size_never_changes_anything(scoring, n_classes, dtype, monkeypatch):
    X, codes = build.features(build.balanced(108, n_classes), 5, separation=1.0)
    options = {"n_permutations": 66, "random_state": 0, "scoring": scoring}
    options["dtype"] = dtype
    expected = cross_validate(X, codes, **options)
    assert len(np.unique(expected.null)) > 3
    for batch_size in (1, 7, 64, 1000):
        build.in_batches(batch_size, monkeypatch)
        same(cross_validate(X, codes, **options), expected)


@pytest.mark.parametrize("kernel", ["linear", "rbf", "polynomial"])
@pytest.mark.parametrize("p", [5, 90])
def test_float32_is_close(kernel, p):
    """Measured over 8 seeds: scores within 3e-5 of the largest, one null trial off."""
    X, codes = build.features(build.balanced(90, 3), p, separation=1.0)
    options = {"n_permutations": 100, "random_state": 0, "kernel": kernel}
    double = cross_validate(X, codes, **options)
    single = cross_validate(X, codes, dtype="float32", **options)
    largest = np.abs(double.class_scores).max()
    difference = np.abs(single.class_scores - double.class_scores).max()
    assert 0 < difference < 1e-4 * largest
    assert np.mean(single.predicted == double.predicted) >= 0.99
    assert_allclose(single.null, double.null, rtol=0, atol=1 / 90 + 1e-9)
    same(single, cross_validate(X, codes, dtype=np.float32, **options))
    assert single.parameters["dtype"] == "float32"


# ------------------------------------------------------------------------------ folds


RUNS = np.repeat(np.arange(6), 10)


def test_groups_may_have_names(data):
    X, codes = data
    named = cross_validate(X, codes, groups=[f"run {g}" for g in RUNS])
    same(cross_validate(X, codes, groups=RUNS), named)


class NamedSplitter:
    """A splitter of the user's own that leaves every third trial out."""

    def split(self, X, y=None, groups=None):
        """Yield three folds."""
        for k in range(3):
            test = np.arange(len(X)) % 3 == k
            yield np.flatnonzero(~test), np.flatnonzero(test)

    def __repr__(self):
        return "NamedSplitter()"


def test_a_splitter_of_ones_own(data):
    X, codes = data
    result = cross_validate(X, codes, cv=NamedSplitter(), n_permutations=10)
    assert result.parameters["cv"] == {"name": "NamedSplitter"}
    assert result.parameters["permute"] == "free"  # it was shown every labelling
    assert len(result.folds) == 3


ROWS = np.arange(60)


@pytest.mark.parametrize(
    ("cv", "match"),
    [
        ([(ROWS, ROWS[:5])], "Fold 0 of the given cv iterable trains on some of its"),
        ([(ROWS[5:], ROWS[:5]), (ROWS[5:], ROWS[:6])], "Fold 1 .*some of its own test"),
        ([(ROWS[3:40], ROWS[:5])], "Fold 0 .*some of its own test"),
        ([(ROWS[5:], [])], "test set of fold 0 .*must be a non-empty array"),
        ([([], ROWS)], "training set of fold 0 .*must be a non-empty array"),
        ([([], ROWS[:5])], "training set of fold 0 .*must be a non-empty array"),
        ([(ROWS[5:], ROWS[:5] - 1)], r"test set .*indices outside 0\.\.59"),
        ([(ROWS[5:] + 1, ROWS[:5])], r"training set .*indices outside 0\.\.59"),
        ([(ROWS[5:], [0, 1, 2, 3, 3])], "names a trial twice"),
        ([(ROWS[5:], ROWS[:5] / 2)], "row indices or a boolean mask of length 60"),
        ([(ROWS[5:] > 9, ROWS < 5)], r"boolean mask of length 60; got shape \(55,\)"),
        ((ROWS[5:], ROWS[:5]), r"Fold 0 .*is not a pair \(train, test\)"),
        ([3], r"Fold 0 .*is not a pair \(train, test\)"),
        ([], "yields no folds"),
        (ms.KFold, "'cv': <class .*KFold'>"),
        (1, "Invalid value for 'cv': 1. Allowed: a whole number of at least 2"),
        (True, "Invalid value for 'cv': True"),
        (-5, "Invalid value for 'cv': -5"),
        (61, "more folds than there are trials, 60. Use cv=60"),
        (2.5, r"Invalid value for 'cv': 2\.5. Allowed: None, a number of folds"),
        ("kfold", "Invalid value for 'cv': 'kfold'"),
        (ms.KFold(61), "cv=KFold.* cannot split these 60 trials"),
        (ms.LeaveOneGroupOut(), "LeaveOneGroupOut.* cannot split .*groups"),
        (ms.GroupKFold(3), "GroupKFold.* cannot split .*groups"),
    ],
)
def test_folds_that_do_not_work_are_refused_by_name(data, cv, match):
    X, codes = data
    with pytest.raises((ValueError, TypeError), match=match):
        cross_validate(X, codes, cv=cv)


def test_a_class_too_small_for_the_folds_is_named(data):
    X, codes = data
    y = np.where(np.arange(60) < 4, "rare", NAMES[codes])
    with pytest.raises(
        ValueError,
        match=r"Class 'rare' has 4 trials, fewer than the 10 folds. Use at m",
    ):
        cross_validate(X, y, cv=ms.StratifiedKFold(10))
    with pytest.warns(UserWarning, match=r"cv=10 leaves .* 20 folds are used"):
        assert cross_validate(X, y).parameters["n_folds"] == 20
    y[:3] = "cat"
    with pytest.raises(ValueError, match=r"Class 'rare' has 1 trial to train on"):
        cross_validate(X, y)
    cv = ms.RepeatedStratifiedKFold(n_splits=5)
    with pytest.raises(ValueError, match="Class 'rare' has 1 trial, "):
        cross_validate(X, y, cv=cv)
    assert cross_validate(X, y, cv=ms.KFold(5)).scores > 0


@pytest.mark.parametrize(
    ("groups", "cv", "match"),
    [
        (RUNS, ms.GroupKFold(7), r"GroupKFold.* needs at least 7 groups; got 6 groups"),
        (RUNS, ms.StratifiedGroupKFold(7), "needs at least 7 groups; got 6"),
        (np.zeros(60), None, "Leaving one group out needs at least 2 groups; got 1"),
        (np.zeros(60), ms.LeaveOneGroupOut(), "needs at least 2 groups; got 1 group"),
        (RUNS, ms.LeavePGroupsOut(6), "LeavePGroupsOut.* cannot split"),
        ("run", None, r"groups must hold one value per trial.*got shape \(\)"),
        (np.c_[RUNS, RUNS], None, r"groups must hold .*got shape \(60, 2\)"),
        ([*RUNS[:59], None], None, "groups is missing .*for 1 of 60"),
        ([*RUNS[:59], "x"], None, "groups holds values of type int"),
    ],
)
def test_groups_that_do_not_work(data, groups, cv, match):
    X, codes = data
    with pytest.raises(ValueError, match=match):
        cross_validate(X, codes, groups=groups, cv=cv)


# ----------------------------------------------------------------------- permutations


def test_without_permutations(data):
    X, codes = data
    result = cross_validate(X, codes, n_permutations=0)
    assert result.null.shape == (0,)
    assert result.nulls == {}
    with pytest.raises(ValueError, match=r"has no label permutations.*n_permutations="):
        result.pvalues()
    with_null = cross_validate(X, codes, n_permutations=3)
    assert_array_equal(result.class_scores, with_null.class_scores)


def test_random_states_repeat(data):
    def null(random_state):
        options = {"n_permutations": 40, "random_state": random_state}
        result = cross_validate(*data, **options)
        assert type(result.parameters["random_state"]) is int
        return result.null

    assert_array_equal(null(5), null(np.int64(5)))
    for kind in (np.random.default_rng, np.random.RandomState):
        assert_array_equal(null(kind(5)), null(kind(5)))
        assert not np.array_equal(null(kind(5)), null(kind(6)))
    generator = np.random.default_rng(5)
    assert not np.array_equal(null(generator), null(generator))
    assert not np.array_equal(null(None), null(None))


def test_global_random_state_is_left_alone(data):
    X, codes = data
    np.random.seed(0)  # noqa: NPY002 - the legacy state is what must not move
    before = np.random.get_state()[1].copy()  # noqa: NPY002
    cross_validate(X, codes, n_permutations=5)
    assert_array_equal(before, np.random.get_state()[1])  # noqa: NPY002


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


# -------------------------------------------------------------------------- bad input

GOOD_X, GOOD_Y = build.features(build.balanced(60, 3), 5, separation=1.0)
GRAM = GOOD_X @ GOOD_X.T


def with_value(array, value, dtype=None):
    """Return a copy with one other value, in row 7."""
    array = np.array(array, dtype=dtype or np.asarray(array).dtype)
    array[(7,) * array.ndim if array.shape[-1] > 7 else (7, 0)] = value
    return array


@pytest.mark.parametrize(
    ("X", "match"),
    [
        (with_value(GOOD_X, np.nan), r"X holds 1 NaN.*in 1 of 60 trials \(first: 7\)"),
        (GOOD_X * (1 + 0j), "X holds complex data.*np.abs"),
        (GOOD_X[:, 0], r"X must have 2 dimensions, trials first; got 1, shape \(60,\)"),
        (3.0, "X must have 2 dimensions"),
        (np.empty((60, 0)), r"X is empty: shape \(60, 0\)"),
        (with_value(GOOD_X, "a", object), "X must be numeric; got dtype object"),
        (np.full((60, 5), "a"), "X must be numeric; got dtype <U1"),
        (None, "X must (be numeric|have 2 dimensions)"),
        (np.full((60, 5), 0.1), "The trials do not differ.*Check for flat data"),
        (np.full((60, 100), 0.1), "The trials do not differ"),
        (csr_array(GOOD_X), r"sparse matrix.*X\.toarray"),
        (np.ma.masked_greater(GOOD_X, 1.0), "X is a masked array"),
        ([[1.0, 2.0], [3.0]] * 30, "rows differ in length"),
    ],
)
def test_bad_features(X, match):
    with pytest.raises((ValueError, TypeError), match=match):
        cross_validate(X, GOOD_Y)


@pytest.mark.parametrize("kernel", ["rbf", "polynomial", RBF(gamma=2.0)])
def test_features_that_do_not_differ_under_any_kernel(kernel):
    with pytest.raises(ValueError, match=r"(do not|that) differ.*data"):
        cross_validate(np.full((60, 5), 0.1), GOOD_Y, kernel=kernel)


@pytest.mark.parametrize(
    ("y", "match"),
    [
        (np.zeros(60), r"y holds one class only \(0\.0\); decoding needs two"),
        (["a"] * 60, r"y holds one class only \('a'\)"),
        (np.arange(60), "y holds a different label for each of the 60 trials"),
        (GOOD_X[:, 0], r"y looks continuous \(60 distinct values\); class labels are"),
        (GOOD_X[GOOD_Y, 0], r"y looks continuous \(3 distinct"),
        (np.where(GOOD_Y, 1.0, np.inf), "y looks continuous"),
        (GOOD_Y + 1j, "y looks continuous"),
        (with_value(GOOD_Y, None, object), "y is missing .*drop these trials"),
        (["a", np.nan] * 30, "y is missing .*for 30 of 60"),
        (pd.Series(["a", pd.NA] * 30, dtype="string"), "y is missing .*for 30 of 60"),
        (pd.Series([1, pd.NA, 0] * 20, dtype="Int64"), "y is missing .*for 20 of 60"),
        (pd.Categorical(["a", None, "b"] * 20), "y is missing .*for 20 of 60"),
        (["1", 1] * 30, "y holds values of type int, str, .*all strings or all nu"),
        ([("a", 1), ("b", 2)] * 30, r"y must hold one value per trial.*\(60, 2\)"),
        (pd.DataFrame({"y": GOOD_Y}), r"y must hold .*got shape \(60, 1\)"),
        ("word", r"y must hold one value per trial.*got shape \(\)"),
        (None, r"y must hold one value per trial.*got shape \(\)"),
        ({"a", "b"}, "y must hold one value per trial"),
    ],
)
def test_bad_labels(y, match):
    with pytest.raises(ValueError, match=match):
        cross_validate(GOOD_X, y)


@pytest.mark.parametrize(
    ("K", "match"),
    [
        (GRAM[:, :50], r"kernel='precomputed', X must be square.*got \(60, 50\)"),
        (GOOD_X, r"X must be square, \(n_trials, n_trials\); got \(60, 5\)"),
        (GRAM + np.triu(np.full((60, 60), 0.1)), "must be a symmetric kernel matrix"),
        (with_value(GRAM, np.nan), "X holds 1 NaN or infinite"),
        (GRAM - 9 * np.eye(60), "not positive semi-definite"),
        (-GRAM, "not positive semi-definite"),
        (squareform(pdist(GOOD_X, "sqeuclidean")), "not positive semi-definite"),
        (np.ones((60, 60)), "The trials do not differ"),
        (np.zeros((60, 60)), "The trials do not differ"),
        (GRAM * 1j, "X holds complex data"),
        (GRAM[None], "X must have 2 dimensions"),
    ],
)
def test_bad_precomputed_kernel(K, match):
    with pytest.raises(ValueError, match=match):
        cross_validate(K, GOOD_Y, kernel="precomputed")


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"kernel": "foo"}, "'kernel': 'foo'. Allowed: 'linear', 'rbf', 'po"),
        ({"kernel": int}, r"the class int\. Pass an instance"),
        ({"kernel": lambda X, Y: X[:, :3]}, r"shape \(60, 60\); got \(60, 3"),
        ({"kernel": lambda X, Y: X @ Y.T * np.nan}, "NaN or infinite"),
        ({"kernel": lambda X, Y: np.arange(3600.0).reshape(60, 60)}, "symm"),
        ({"reg": 0}, r"Invalid value for 'reg': 0\. Allowed: .*above zero"),
        ({"kernel": "rbf", "reg": 1e-13}, "lambda = .* is too small.*larger"),
        ({"scoring": "foo"}, "'scoring': 'foo'. Allowed: 'accuracy', 'bal"),
        ({"scoring": ["accuracy", "foo"]}, "Invalid value for 'scoring'"),
        ({"scoring": accuracy_score}, "Invalid value for 'scoring'"),
        ({"scoring": "confusion_matrix"}, "Put a single-number metric first"),
        ({"permute": "foo"}, "'permute': 'foo'. Allowed: 'auto', 'within_f"),
        ({"permute": np.arange(2)}, "Invalid value for 'permute': array"),
        ({"n_permutations": 1e6}, r"This one is a float: write int\(1e\+06\)\.$"),
        ({"n_permutations": 1234567.0}, r"write int\(1234567\.0\)\.$"),
        ({"n_permutations": 0.5}, r"'n_permutations': 0.5\. .* at least 0\.$"),
        ({"n_permutations": -1.0}, r"'n_permutations': -1.0\. .* at least 0\.$"),
        ({"dtype": "float16"}, "'dtype': 'float16'. Allowed: 'float64', 'fl"),
        ({"dtype": "foo"}, "Invalid value for 'dtype': 'foo'"),
    ],
)
def test_bad_options(options, match):
    with pytest.raises((ValueError, TypeError), match=match):
        cross_validate(GOOD_X, GOOD_Y, **options)


def test_bad_options_are_found_without_looking_at_the_data():
    """A typo in a long call is told before hours of computing."""
    X = np.broadcast_to(np.float64(1.0), (60, 10))  # flat: would fail in the loop
    with pytest.raises(ValueError, match="'scoring'"):
        cross_validate(X, GOOD_Y, scoring="foo")
    with pytest.raises(ValueError, match="'kernel'"):
        cross_validate(X, GOOD_Y, kernel="foo")


def test_exact_kernels_of_many_trials_are_warned_of(monkeypatch):
    monkeypatch.setattr("mvpa_kfda.decoding.analysis._MANY", 59)
    several = [Linear(), RBF(0.1)]
    for options in ({"kernel": "rbf"}, {"kernel": several, "reg": Tuned([1.0])}):
        with pytest.warns(UserWarning, match=r"60 trials takes 28\.8 kB.*Nystrom\(n_c"):
            cross_validate(GOOD_X, GOOD_Y, **options)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        cross_validate(GOOD_X, GOOD_Y)
        cross_validate(GOOD_X, GOOD_Y, kernel="rbf", approx=Nystrom(9, random_state=0))
        cross_validate(GOOD_X @ GOOD_X.T, GOOD_Y, kernel="precomputed")
        monkeypatch.setattr("mvpa_kfda.decoding.analysis._MANY", 60)
        cross_validate(GOOD_X, GOOD_Y, kernel="rbf")


def test_averages_are_called_so():
    result = cross_validate(GOOD_X, GOOD_Y, cv=4, average=2, random_state=0)
    n = len(result.y)
    assert f"| {n} averages of 2 trials ({2 * n}), 3 classes, 4 folds" in repr(result)
    ax = result.plot_roc(positive=result.classes[0])
    assert ax.get_title(loc="left").startswith(f"{n} averages of 2 trials ({2 * n}),")
    single = cross_validate(GOOD_X, GOOD_Y, cv=4, average=1, random_state=0)
    assert "| 60 trials, 3 classes" in repr(single)
