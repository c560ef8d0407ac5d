"""Regression equals a ridge regression refitted on every fold and permutation."""

import inspect
import tracemalloc
from functools import partial

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.stats import kstest, pearsonr
from sklearn import model_selection as ms
from sklearn.linear_model import Ridge as SklearnRidge
from sklearn.metrics import mean_squared_error, r2_score
from sklearn.metrics.pairwise import linear_kernel, polynomial_kernel, rbf_kernel

from mvpa_kfda import RBF, Linear, Polynomial, Ridge, Tuned, cross_validate, load_result
from mvpa_kfda.decoding.analysis import decode
from mvpa_kfda.decoding.positions import WindowPositions
from mvpa_kfda.decoding.regression import TASKS, regress
from mvpa_kfda.decoding.run import run
from mvpa_kfda.inference.permutation import permute_labels
from mvpa_kfda.kfda.direct import Plan
from mvpa_kfda.kfda.folds import Folds
from mvpa_kfda.kfda.nystrom import Nystrom
from mvpa_kfda.metrics import REGRESSION_METRICS, evaluate_regression
from mvpa_kfda.viz.common import metric_label

mpl.use("Agg")

SCORING = list(REGRESSION_METRICS)
SEED = 5


def make_data(n=40, p=6, seed=0, noise=1.0):
    """Features away from the origin, and values in a unit of their own."""
    rng = np.random.default_rng(seed)
    X = 2.0 + rng.standard_normal((n, p))
    return X, 7.0 + 3.0 * (X[:, 0] + noise * rng.standard_normal(n))


# ------------------------------------------------------------------------- the oracle


def refit(K, y, folds, lam):
    """Fit ridge regression anew on every fold, with an intercept it does not penalise.

    Centring the values and the kernel on the training rows leaves no intercept to fit.
    Returns the rows of all test sets and their predictions.
    """
    rows, predictions = [], []
    for train, test in folds:
        K_train, K_test = K[np.ix_(train, train)], K[np.ix_(test, train)]
        means = K_train.mean(axis=0)
        K_c = K_train - means - means[:, None] + means.mean()
        K_c += lam * np.eye(len(train))
        dual = np.linalg.solve(K_c, y[train] - y[train].mean())
        K_test_c = K_test - K_test.mean(axis=1)[:, None] - means + means.mean()
        rows.append(test)
        predictions.append(y[train].mean() + K_test_c @ dual)
    return np.concatenate(rows), np.concatenate(predictions)


def reference_scores(true, predicted):
    """Scores by scikit-learn and SciPy."""
    return {
        "r2": r2_score(true, predicted),
        "pearsonr": pearsonr(true, predicted).statistic,
        "neg_mean_squared_error": -mean_squared_error(true, predicted),
    }


def penalty(reg, K):
    """Absolute lambda: numbers refer to trace(K_c) / n of all rows."""
    J = np.eye(len(K)) - 1 / len(K)
    return reg.lam if isinstance(reg, Ridge) else reg * np.trace(J @ K @ J) / len(K)


def assert_equals_refitting(
    X, y, cv, *, kernel="linear", gram=linear_kernel, reg=0.3, groups=None
):
    """Compare predictions, scores and nulls with refitting; return the result."""
    K = gram(X)
    result = regress(
        K if kernel == "precomputed" else X,
        y,
        groups=groups,
        kernel=kernel,
        reg=reg,
        cv=cv,
        scoring=SCORING,
        n_permutations=5,
        permute="free",
        random_state=SEED,
    )
    levels, codes = np.unique(y, return_inverse=True)
    permuted = permute_labels(
        codes, 5, folds=None, permute="free", random_state=SEED
    ).labels
    assert len(permuted) == 6
    folds, scores = list(cv.split(X, y, groups)), []
    for values in levels[permuted]:
        rows, predicted = refit(K, values, folds, penalty(reg, K))
        scores.append(reference_scores(values[rows], predicted))
        if len(scores) == 1:
            assert_array_equal(values, y)
            table = pd.Series(predicted).groupby(rows).mean()  # over repeated tests
            expected = table.reindex(np.arange(len(y)))  # NaN where never tested
            assert_allclose(result.predictions, expected, rtol=1e-9, atol=1e-9)
    for name in SCORING:
        expected = [each[name] for each in scores]
        assert_allclose(result.metrics[name], expected[0], rtol=1e-9, atol=1e-10)
        assert_allclose(result.nulls[name], expected[1:], rtol=1e-9, atol=1e-10)
    return result


FOLDS = {
    "equal folds": ms.KFold(5),
    "unequal folds": ms.KFold(7, shuffle=True, random_state=0),
    "leave one out": ms.LeaveOneOut(),
    "overlapping and incomplete": ms.ShuffleSplit(4, test_size=0.3, random_state=0),
    "repeated": ms.RepeatedKFold(n_splits=3, n_repeats=2, random_state=0),
    "hold-out": ms.ShuffleSplit(1, test_size=0.4, random_state=0),
}
KERNELS = {
    "linear": ("linear", linear_kernel),
    "rbf": (RBF(gamma=0.05), partial(rbf_kernel, gamma=0.05)),
    "polynomial": (
        Polynomial(degree=2, gamma=0.1, coef0=1.0),
        partial(polynomial_kernel, degree=2, gamma=0.1, coef0=1.0),
    ),
    "precomputed": ("precomputed", partial(rbf_kernel, gamma=0.02)),
}


@pytest.mark.parametrize("cv", FOLDS.values(), ids=FOLDS)
@pytest.mark.parametrize("p", [4, 90])
def test_equals_refitting_on_any_folds(cv, p):
    X, y = make_data(n=33, p=p)
    result = assert_equals_refitting(X, y, cv)
    never = np.setdiff1d(np.arange(33), np.concatenate(result.tests))
    assert_array_equal(np.flatnonzero(np.isnan(result.predictions)), never)


@pytest.mark.parametrize("reg", [0.02, Ridge(30.0)])
@pytest.mark.parametrize("p", [4, 90])
@pytest.mark.parametrize(("kernel", "gram"), KERNELS.values(), ids=KERNELS)
def test_equals_refitting_with_any_kernel(kernel, gram, p, reg):
    X, y = make_data(n=33, p=p)
    assert_equals_refitting(X, y, FOLDS["unequal folds"], kernel=kernel, gram=gram)
    assert_equals_refitting(
        X, y, FOLDS["leave one out"], kernel=kernel, gram=gram, reg=reg
    )


def test_equals_refitting_on_groups_of_unequal_size():
    X, y = make_data(n=33)
    groups = np.random.default_rng(0).integers(5, size=33)
    assert_equals_refitting(X, y, ms.LeaveOneGroupOut(), groups=groups)


def test_equals_refitting_with_few_distinct_values():
    X, y = make_data(n=33)
    assert_equals_refitting(X, np.clip(np.round(y / 4), 0, 3), ms.KFold(4))


@pytest.mark.parametrize("p", [5, 70])
@pytest.mark.parametrize("cv", [ms.KFold(6), ms.LeaveOneOut()], ids=str)
def test_equals_ridge_of_scikit_learn(cv, p):
    X, y = make_data(p=p)
    expected = ms.cross_val_predict(SklearnRidge(alpha=12.5), X, y, cv=cv)
    result = regress(X, y, reg=Ridge(12.5), cv=cv, scoring=SCORING)
    assert_allclose(result.predictions, expected, rtol=1e-9, atol=0)
    for name, score in reference_scores(y, expected).items():
        assert_allclose(result.metrics[name], score, rtol=1e-9, atol=0)


RUNS = np.repeat(np.arange(5), [4, 6, 5, 4, 5])


@pytest.mark.parametrize(
    ("groups", "outer", "inner"),
    [
        (None, ms.KFold(4), ms.LeaveOneOut()),
        (RUNS, ms.LeaveOneGroupOut(), ms.LeaveOneGroupOut()),
    ],
    ids=["trials", "groups"],
)
def test_tuned_penalty_equals_a_nested_loop(groups, outer, inner):
    X, y = make_data(n=24, p=30, noise=3.0)
    K, grid = linear_kernel(X), [10.0, 1.0, 0.1, 0.01]
    options = {"groups": groups, "random_state": SEED}
    tuned = Tuned(grid=grid)
    result = regress(X, y, reg=tuned, cv=outer, n_permutations=6, **options)
    levels, codes = np.unique(y, return_inverse=True)
    options["permute"] = result.parameters["permute"]
    permuted = permute_labels(codes, 6, folds=None, **options).labels
    scores, chosen = [], []
    for values in levels[permuted]:
        fitted, errors = np.empty(24), []
        for train, test in outer.split(X, y, groups):
            within = None if groups is None else groups[train]
            splits = list(inner.split(X[train], y[train], within))
            K_train, y_train = K[np.ix_(train, train)], values[train]
            errors.append([])
            for reg in grid:
                rows, out = refit(K_train, y_train, splits, penalty(reg, K))
                errors[-1].append(mean_squared_error(y_train[rows], out))
            chosen.append(penalty(grid[np.argmin(errors[-1])], K))
            fitted[test] = refit(K, values, [(train, test)], chosen[-1])[1]
        scores.append(r2_score(values, fitted))
        if len(scores) == 1:
            assert_allclose(result.predictions, fitted, rtol=1e-8, atol=0)
            assert_allclose(result.penalty["lambda"], chosen, rtol=1e-9, atol=0)
            found = result.penalty["criterion"][:, 0]
            assert_allclose(found, errors, rtol=1e-8, atol=0)
    assert len(set(chosen)) > 1  # else a fixed penalty would pass
    assert_allclose([result.scores, *result.null], scores, rtol=1e-8, atol=1e-10)


def test_kernel_is_tuned_too():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((60, 2))
    y = 10 * np.sum(X**2, axis=1)
    kernels = [Linear(), Polynomial(degree=2, gamma=1.0, coef0=1.0)]
    tuned = Tuned(grid=[1e-5, 1e-3, 0.1])
    result = regress(X, y, kernel=kernels, reg=tuned, cv=5)
    assert_array_equal(result.penalty["kernel"], np.ones(5))
    assert result.scores > 0.99
    assert result.parameters["kernels"] == [repr(kernel) for kernel in kernels]
    assert result.parameters["criterion"] == "squared_error"
    ax = result.plot_tuning()
    assert len(ax.lines) >= 2
    plt.close("all")
    y, source = make_windows(reg=Tuned(grid=[0.1, 1.0]))
    over_time = regress_windows(source, y, 40, cv=5)
    assert over_time.penalty["lambda"].shape == (6, 5)
    assert over_time.penalty["criterion"].shape == (6, 5, 1, 2)


def test_fixed_penalty_is_recorded():
    X, y = make_data()
    result = regress(X, y, reg=Ridge(3.0))
    assert_allclose(result.penalty["lambda"], 3.0, rtol=1e-12, atol=0)
    Xc = X - X.mean(axis=0)
    fit = Xc @ np.linalg.solve(Xc.T @ Xc + 3.0 * np.eye(6), Xc.T)
    df = result.penalty["degrees_of_freedom"]
    assert_allclose(df, 1 + np.trace(fit), rtol=1e-9, atol=0)
    assert "criterion" not in result.penalty
    assert "kernels" not in result.parameters


def test_landmarks_for_all_trials_are_exact():
    X, y = make_data(n=60, p=3)
    options = {"kernel": RBF(0.2), "n_permutations": 9, "random_state": 0}
    exact = regress(X, y, **options)
    same = regress(X, y, approx=Nystrom(60, sampling="uniform"), **options)
    assert_allclose(same.predictions, exact.predictions, rtol=1e-6, atol=0)
    few = regress(X, y, approx=Nystrom(15, sampling="uniform"), **options)
    assert np.abs(few.predictions - exact.predictions).max() > 1e-3
    assert few.scores > 0.2


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
        assert_allclose(other.null, plain.null, rtol=1e-9, atol=1e-10)


def test_mean_squared_error_is_in_the_squared_unit():
    X, y = make_data()
    scores = [
        regress(X, factor * y, scoring="neg_mean_squared_error").scores
        for factor in (1, 1000)
    ]
    assert scores[0] < 0
    assert_allclose(scores[1], 1e6 * scores[0], rtol=1e-9, atol=0)


@pytest.mark.parametrize("offset", [0.0, 1e6])
def test_single_precision_is_close(offset):
    X, y = make_data(n=60)
    options = {"scoring": SCORING, "n_permutations": 50, "random_state": 0}
    double = regress(X, offset + y, **options)
    single = regress(X, offset + y, dtype="float32", **options)
    assert single.parameters["dtype"] == "float32"
    error = np.abs(single.predictions - double.predictions).max()
    assert 0 < error < 1e-4 * y.std()
    for name in SCORING:
        assert_allclose(single.nulls[name], double.nulls[name], rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("batch_size", [1, 7, 1000])
def test_batch_size_does_not_matter(batch_size):
    X, y = make_data()
    options = {"scoring": SCORING, "n_permutations": 30, "random_state": 0}
    plain = regress(X, y, **options)
    batched = regress(X, y, batch_size=batch_size, **options)
    for name in SCORING:
        assert_allclose(batched.nulls[name], plain.nulls[name], rtol=1e-11, atol=1e-12)


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_permutations_are_processed_in_blocks_of_the_right_precision(
    monkeypatch, dtype
):
    seen, fold_residuals = [], Plan.fold_residuals

    def watch(plan, T):
        seen.append((T.dtype, T.shape))
        return fold_residuals(plan, T)

    monkeypatch.setattr(Plan, "fold_residuals", watch)
    X, y = make_data()
    regress(X, y, dtype=dtype, batch_size=4, n_permutations=10)
    assert seen == [(dtype, (1, 40, size)) for size in (1, 4, 4, 2)]


# ---------------------------------------------------------------------------- metrics


def test_metrics_agree_with_scikit_learn_and_scipy():
    rng = np.random.default_rng(0)
    true = rng.standard_normal((25, 4))
    predicted = 0.5 * true + rng.standard_normal((25, 4))
    scores = evaluate_regression(SCORING, true, predicted)
    for column in range(4):
        expected = reference_scores(true[:, column], predicted[:, column])
        for name in SCORING:
            assert_allclose(scores[name][column], expected[name], rtol=1e-12, atol=0)


def test_constant_predictions_do_not_correlate():
    true = np.linspace(-1, 1, 30)[:, None]
    rounding = np.finfo(float).eps * np.arange(30)[:, None]
    for predicted in (0 * true, 0 * true + 0.1, 0.1 + rounding, rounding):
        assert evaluate_regression(["pearsonr"], true, predicted)["pearsonr"] == 0
    small = evaluate_regression(["pearsonr"], true, 1e-6 * true)["pearsonr"]
    assert_allclose(small, 1.0, rtol=1e-12, atol=0)


def test_equal_true_values_have_finite_scores():
    true, predicted = np.ones((5, 2)), np.ones((5, 2))
    predicted[0, 1] = 2.0
    scores = evaluate_regression(SCORING, true, predicted)
    assert_array_equal(scores["r2"], [1, 0])  # as scikit-learn has it
    assert_array_equal(scores["pearsonr"], [0, 0])
    assert_allclose(scores["neg_mean_squared_error"], [0, -0.2], rtol=1e-15, atol=0)


def test_scores_are_higher_for_better_predictions():
    X, _ = make_data(n=200)
    y = X[:, 0] + np.random.default_rng(9).standard_normal((3, 200)) * [[0.1], [1], [9]]
    for name in SCORING:
        scores = [regress(X, each / each.std(), scoring=name).scores for each in y]
        assert scores[0] > scores[1] > scores[2]


def test_chance_levels():
    X, y = make_data()
    chances = regress(X, y, scoring=SCORING).chances
    assert list(chances) == SCORING
    assert chances["pearsonr"] == 0
    assert np.isnan([chances["r2"], chances["neg_mean_squared_error"]]).all()


# --------------------------------------------------------------- what goes in and out


def test_signature_is_that_of_cross_validate():
    ours, theirs = (
        {name: each.default for name, each in inspect.signature(f).parameters.items()}
        for f in (regress, cross_validate)
    )
    assert ours["scoring"] == "r2"
    assert ours["approx"] is None
    for name in set(ours) - {"scoring", "approx"}:
        assert ours[name] == theirs[name]


@pytest.mark.parametrize(
    ("cv", "groups", "splitter"),
    [
        (None, None, ms.KFold(10)),
        (4, None, ms.KFold(4)),
        (None, np.arange(40) % 3, ms.LeaveOneGroupOut()),
    ],
)
def test_meaning_of_cv(cv, groups, splitter):
    X, y = make_data()
    result = regress(X, y, cv=cv, groups=groups)
    expected = [test for _, test in splitter.split(X, y, groups)]
    for test, other in zip(result.tests, expected, strict=True):
        assert_array_equal(test, other)
    assert result.parameters["cv"] == repr(splitter)
    assert result.parameters["n_folds"] == len(expected)


def test_int_cv_with_groups_warns():
    X, y = make_data()
    with pytest.warns(UserWarning, match=r"cv=4 makes folds without regard .*GroupK"):
        regress(X, y, cv=4, groups=np.arange(40) % 5)


def test_splitters_do_not_see_the_values():
    X, y = make_data()

    class Watching(ms.KFold):
        def split(self, X, y=None, groups=None):
            assert len(np.unique(y)) == 1
            return super().split(X, y, groups)

    assert len(regress(X, y, cv=Watching(4)).tests) == 4


@pytest.mark.parametrize(
    ("cv", "groups", "scheme"),
    [
        (None, None, "free"),
        (ms.LeaveOneOut(), None, "free"),
        (2, None, "within_folds"),
        (None, np.arange(40) % 8, "within_groups"),
    ],
    ids=str,
)
def test_choice_of_permutations(cv, groups, scheme):
    X, y = make_data()
    result = regress(X, y, cv=cv, groups=groups, n_permutations=9, random_state=0)
    assert result.parameters["permute"] == scheme
    assert result.n_permutations == 9


def test_a_value_of_each_subject_moves_with_the_subject():
    X, y = make_data()
    groups = np.repeat(np.arange(8), 5)
    result = regress(X, y[::5][groups], groups=groups, n_permutations=9)
    assert result.parameters["permute"] == "groups"


def test_few_trials_have_all_rearrangements():
    X, y = make_data(n=5, p=2)
    result = regress(X, y, cv=ms.LeaveOneOut(), n_permutations=1000)
    assert result.parameters["exact"]
    assert result.n_permutations == 119  # 5! without the observed one


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


def test_seed_makes_the_permutations():
    X, y = make_data()
    one, same, other = (
        regress(X, y, n_permutations=20, random_state=seed).null for seed in (1, 1, 2)
    )
    assert_array_equal(one, same)
    assert not np.array_equal(one, other)
    drawn = regress(X, y, n_permutations=20)
    seed = drawn.parameters["random_state"]
    again = regress(X, y, n_permutations=20, random_state=seed)
    assert_array_equal(again.null, drawn.null)


@pytest.mark.parametrize(
    "convert",
    [list, pd.Series, lambda y: y.astype(object), lambda y: pd.array(y, "Float64")],
)
def test_values_in_any_container(convert):
    X, y = make_data()
    assert regress(X, convert(y), random_state=0) == regress(X, y, random_state=0)


def test_whole_numbers_are_values():
    X, y = make_data()
    rated = np.round(y / 5).astype(int)
    result = regress(X, rated, random_state=0)
    assert result.y.dtype == result.predictions.dtype == float
    assert len(np.unique(result.predictions)) == 40
    assert result == regress(X, rated.astype(np.int8), random_state=0)


BAD = {
    "strings": ([str(i) for i in range(40)], r"must hold numbers.*<U2.*cross_validate"),
    "booleans": (np.arange(40) < 20, r"must hold numbers .* got dtype bool"),
    "complex": (1j * np.arange(40), r"must hold numbers .* got dtype complex128"),
    "dates": (np.arange(40).astype("M8[s]"), r"must hold numbers .* datetime64"),
    "NaN": ([np.nan, *range(39)], r"y is missing \(None or NaN\) for 1 of 40"),
    "infinite": ([*range(38), np.inf, -np.inf], r"infinite for 2 of 40 .*first: 38"),
    "constant": (np.full(40, 0.3), r"y is constant \(0.3 for all 40 trials\)"),
    "zero": (np.zeros(40), r"y is constant \(0 for all"),
    "rounding": (0.3 + 1e-16 * (np.arange(40) % 2), r"y is constant"),
    "too few": (np.arange(39.0), r"one value per trial, shape \(40,\); got .*39"),
    "a column": (np.arange(40.0)[:, None], r"one value per trial.*\(40, 1\)"),
}


@pytest.mark.parametrize(("y", "message"), BAD.values(), ids=BAD)
def test_bad_values_are_refused(y, message):
    with pytest.raises(ValueError, match=message):
        regress(make_data()[0], y)


@pytest.mark.parametrize(
    "cv",
    [
        ms.StratifiedKFold(4),
        ms.RepeatedStratifiedKFold(),
        ms.StratifiedGroupKFold(4),
        ms.StratifiedShuffleSplit(4),
    ],
    ids=lambda cv: type(cv).__name__,
)
def test_stratified_folds_are_refused(cv):
    X, y = make_data()
    with pytest.raises(ValueError, match=r"(?s)Stratified.* needs classes.*Use KFold"):
        regress(X, y, cv=cv)


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"scoring": "accuracy"}, ValueError, r"'accuracy'\. Allowed: 'r2', 'pears"),
        ({"scoring": ["r2", "r2"]}, ValueError, r"names a metric twice: \['r2', 'r2'"),
        ({"scoring": []}, TypeError, r"'scoring': \[\]\. Allowed: .* of r2, pearsonr"),
        ({"cv": 1}, ValueError, r"'cv': 1\. Allowed: a whole number of at least 2"),
        ({"cv": 41}, ValueError, r"KFold\(n_splits=41.* cannot split these 40 trials"),
        ({"cv": "loo"}, TypeError, r"Invalid value for 'cv': 'loo'"),
        ({"reg": 0}, ValueError, r"'reg': 0\. Allowed: a finite number above zero"),
        ({"reg": Tuned(criterion="accuracy")}, ValueError, r"'accuracy' scores the pr"),
        (
            {"reg": Tuned(cv=ms.StratifiedKFold(3))},
            ValueError,
            r"Tuned\(cv=StratifiedKFold.* needs classes",
        ),
        ({"kernel": ["linear", "rbf"]}, ValueError, r"needs reg='tuned'"),
        ({"groups": [1, 2]}, ValueError, r"groups must hold one value per trial"),
        ({"batch_size": 0}, ValueError, r"'batch_size': 0"),
        ({"n_permutations": -1}, ValueError, r"'n_permutations': -1"),
        ({"dtype": "int"}, ValueError, r"'dtype': 'int64'"),
        ({"permute": "all"}, ValueError, r"'permute': 'all'"),
        ({"approx": 50}, TypeError, r"'approx': 50"),
    ],
    ids=str,
)
def test_bad_arguments_are_refused(options, error, message):
    X, y = make_data()
    with pytest.raises(error, match=message):
        regress(X, y, **options)


def test_bad_features_are_refused():
    X, y = make_data()
    with pytest.raises(ValueError, match="trials do not differ"):
        regress(np.ones_like(X), y)
    with pytest.raises(ValueError, match="1 NaN or infinite"):
        regress(np.where(np.arange(X.size).reshape(X.shape) == 3, np.nan, X), y)
    with pytest.raises(ValueError, match=r"lambda = .* is too small"):
        regress(np.random.default_rng(0).normal(size=(40, 90)), y, reg=1e-13)


# ----------------------------------------------------------------------- over windows


def regress_windows(positions, y, n_trials, *, parameters=None, **options):
    """Predict numbers at every window, as the decoding functions do."""
    decoding = {name: options.pop(name, None) for name in ("n_jobs", "verbose")}
    asked = {
        **dict.fromkeys(("groups", "cv", "random_state")),
        **{"scoring": "r2", "n_permutations": 0, "permute": "auto"},
        **{"kernel": positions.kernel, "reg": positions.reg, "dtype": "float64"},
    }
    make, kind = TASKS["regression"]
    return decode(
        positions,
        make(y, n_trials, **(asked | options)),
        kind,
        parameters=parameters or {},
        times=positions.times,
        **decoding,
    )


def make_windows(width=1, mode="mean", kernel=None, reg=0.3, n=40):
    """Values that show at samples 3 and 4 of 6, and a source of such windows."""
    X, y = make_data(n=n, p=5, noise=0.3)
    data = np.random.default_rng(1).standard_normal((6, n, 5))
    data[3:5] += 3 * X
    starts = np.arange(0, 7 - width)
    times = 0.1 * starts
    return y, WindowPositions(data, starts, width, mode, times, kernel or Linear(), reg)


@pytest.mark.parametrize("mode", ["mean", "concatenate"])
@pytest.mark.parametrize("kernel", [Linear(), RBF(gamma=0.05)], ids=str)
def test_windows_equal_single_regressions(mode, kernel):
    y, source = make_windows(3, mode, kernel, n=25)
    options = {"scoring": SCORING, "cv": 4, "n_permutations": 12, "random_state": 0}
    result = regress_windows(source, y, 25, **options)
    assert_array_equal(result.times, source.times)
    assert result.predictions.shape == (4, 25)
    assert result.null.shape == (12, 4)
    for i in range(4):
        single = regress(source.features(i), y, kernel=kernel, **options)
        assert_allclose(result.predictions[i], single.predictions, rtol=1e-8, atol=1e-9)
        for name in SCORING:
            for ours, theirs in (
                (result.metrics[name][i], single.metrics[name]),
                (result.nulls[name][:, i], single.nulls[name]),
            ):
                assert_allclose(ours, theirs, rtol=1e-8, atol=1e-9)


def test_windows_find_when_values_show():
    y, source = make_windows()
    result = regress_windows(source, y, 40, n_permutations=199, random_state=0)
    assert_array_equal(np.flatnonzero(result.pvalues("max") <= 0.01), [3, 4])
    assert_array_equal(np.flatnonzero(result.scores > 0.5), [3, 4])


def test_workers_do_not_matter():
    y, source = make_windows()
    options = {"n_permutations": 20, "random_state": 0}
    one, two = (regress_windows(source, y, 40, n_jobs=n, **options) for n in (1, 2))
    assert one == two


def test_workers_and_progress_are_passed_on(monkeypatch):
    def watch(positions, task, n_jobs, verbose, checkpoint):
        assert (n_jobs, verbose, checkpoint) == (3, True, None)
        return run(positions, task, verbose=False)

    monkeypatch.setattr("mvpa_kfda.decoding.analysis.run", watch)
    y, source = make_windows()
    assert regress_windows(source, y, 40, n_jobs=3, verbose=True).shape == (6,)


def test_windows_record_what_they_are_told():
    y, source = make_windows()
    result = regress_windows(source, y, 40, parameters={"sfreq": 10.0})
    assert result.parameters["sfreq"] == 10.0
    assert result.parameters["task"] == "regression"
    assert result.parameters["kernel"] == "Linear()"


def test_windows_refuse_bad_input():
    y, source = make_windows()
    with pytest.raises(ValueError, match=r"shape \(40,\); got shape \(39,\)"):
        regress_windows(source, y[1:], 40)
    source.data[2] = 1.0
    with pytest.raises(ValueError, match=r"At 0\.200 s: .* differ: flat data, or"):
        regress_windows(source, y, 40)
    with pytest.raises(ValueError, match=r"'accuracy' scores the prediction"):
        regress_windows(make_windows(reg=Tuned(criterion="accuracy"))[1], y, 40)


def test_windows_that_do_not_fit_into_memory_are_refused(monkeypatch):
    y, source = make_windows()
    monkeypatch.setattr("mvpa_kfda.decoding.run.physical_memory", lambda: 6000)
    with pytest.raises(ValueError, match=r"6 times needs .*with 99 permut.*decimate"):
        regress_windows(source, y, 40, n_permutations=99)
    assert regress_windows(source, y, 40).shape == (6,)


# ---------------------------------------------------------------------------- results


def one_result(**options):
    X, y = make_data()
    options = {"scoring": SCORING, "n_permutations": 30, "random_state": 0, **options}
    return regress(X, y, **options)


def time_result(**options):
    y, source = make_windows()
    options = {"scoring": SCORING, "n_permutations": 30, "random_state": 0, **options}
    return regress_windows(source, y, 40, **options)


@pytest.mark.parametrize("make", [one_result, time_result])
@pytest.mark.parametrize("cv", [None, FOLDS["hold-out"]])
def test_results_survive_a_file(make, cv, tmp_path):
    result = make(cv=cv)
    result.save(tmp_path / "result.h5")
    loaded = load_result(tmp_path / "result.h5")
    assert type(loaded) is type(result)
    assert loaded == result
    assert_array_equal(loaded.predictions, result.predictions)
    assert loaded.pvalues(metric="pearsonr") == pytest.approx(
        result.pvalues(metric="pearsonr"), abs=0
    )


def test_results_are_the_same_when_redone():
    result = one_result(cv=5)
    again = regress(
        *make_data(),
        cv=5,
        **{
            name: result.parameters[name]
            for name in (
                "scoring",
                "n_permutations",
                "permute",
                "random_state",
                "dtype",
            )
        },
    )
    assert again == result


def test_repr_has_no_classes():
    text = repr(one_result())
    assert text.startswith("<RegressionResult: r2 0.")
    assert text.endswith("| 40 trials, 10 folds, 30 permutations>")
    text = repr(time_result())
    assert text.startswith("<TimeRegressionResult: r2 peak 0.")
    assert "6 times, 0.000 to 0.500" in text


def test_table_has_scores_and_p_values():
    table = one_result().to_dataframe()
    assert list(table) == [*SCORING, "p"]
    table = time_result().to_dataframe(["max", "fdr"], metric="pearsonr")
    assert list(table) == ["time", *SCORING, "p", "p_max", "p_fdr"]
    assert_allclose(table["time"], 0.1 * np.arange(6), rtol=0, atol=1e-12)


def test_histogram_shows_the_null():
    result = one_result()
    ax = result.plot()
    assert ax.get_xlabel() == "R²"
    assert sum(patch.get_height() for patch in ax.patches) == 30
    assert "classes" not in ax.get_title(loc="left")
    labels = [text.get_text() for text in ax.get_legend().get_texts()]
    assert labels[:2] == ["permuted values", "as good as the mean (0)"]
    ax = result.plot(metric="pearsonr")
    assert ax.get_xlabel() == "Pearson correlation"
    labels = [text.get_text() for text in ax.get_legend().get_texts()]
    assert "no correlation" in labels
    assert not any("chance" in label for label in labels)
    plt.close("all")


def test_predictions_are_plotted_against_the_values():
    result = one_result(cv=FOLDS["hold-out"])
    ax = result.plot_predictions()
    points = next(line for line in ax.lines if line.get_marker() == "o")
    tested = np.sort(result.tests[0])
    expected = np.column_stack([result.y, result.predictions])[tested]
    assert_array_equal(points.get_xydata(), expected)
    correlation = pearsonr(*expected.T).statistic
    assert points.get_label() == f"trials, correlation {correlation:.2f}"
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("Observed", "Predicted")
    plt.close("all")


def test_scores_are_plotted_over_time():
    result = time_result()
    ax = result.plot(metric="pearsonr", correction="fdr")
    curve = next(line for line in ax.lines if len(line.get_xdata()) == 6)
    assert_array_equal(curve.get_xydata().T, [result.times, result.metrics["pearsonr"]])
    assert ax.get_ylabel() == "Pearson correlation"
    plt.close("all")


@pytest.mark.parametrize("name", REGRESSION_METRICS)
def test_metrics_have_labels(name):
    assert metric_label(name) == REGRESSION_METRICS[name].label


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
