"""Regression equals a ridge regression refitted on every fold and permutation."""

import inspect
import tracemalloc
from functools import partial

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.stats import kstest, pearsonr
from sklearn import model_selection as ms
from sklearn.linear_model import Ridge as SklearnRidge
from sklearn.metrics import mean_squared_error, r2_score
from sklearn.metrics.pairwise import linear_kernel, polynomial_kernel, rbf_kernel

from mvpa_kfda import (
    RBF,
    Linear,
    Polynomial,
    Ridge,
    Tuned,
    cross_validate,
    decode_arrays,
    load_result,
    regress,
    verify,
)
from mvpa_kfda.inference.permutation import permute_labels
from mvpa_kfda.kfda.direct import Plan
from mvpa_kfda.kfda.folds import Folds
from mvpa_kfda.metrics.scores import REGRESSION_METRICS
from mvpa_kfda.utils.plain import recorded
from mvpa_kfda.viz.style import metric_label
from tests import build, reference

SCORING = list(REGRESSION_METRICS)
SEED = 5


def make_data(n=40, p=6, seed=0, noise=1.0):
    X, _ = build.features((n,), p, seed, offset=2.0)
    return X, build.values_of(X, seed, noise)


# ------------------------------------------------------------------------- the oracle


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


@pytest.mark.some(8)
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
    assert result.parameters["kernels"] == [recorded(kernel) for kernel in kernels]
    assert len(result.plot_tuning().lines) >= 2


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


def test_mean_squared_error_is_in_the_squared_unit():
    X, y = make_data()
    scores = [
        regress(X, factor * y, scoring="neg_mean_squared_error").scores
        for factor in (1, 1000)
    ]
    assert scores[0] < 0
    assert_allclose(scores[1], 1e6 * scores[0], rtol=1e-9, atol=0)


def test_single_precision_is_close():
    (X, y), offset = make_data(n=60), 1e6
    options = {"scoring": SCORING, "n_permutations": 50, "random_state": 0}
    double = regress(X, offset + y, **options)
    single = regress(X, offset + y, dtype="float32", **options)
    assert single.parameters["dtype"] == "float32"
    error = np.abs(single.predictions - double.predictions).max()
    assert 0 < error < 1e-4 * y.std()
    for name in SCORING:
        assert_allclose(single.nulls[name], double.nulls[name], rtol=1e-4, atol=1e-4)


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
    build.in_batches(4, monkeypatch)
    regress(X, y, reg=0.3, dtype=dtype, n_permutations=10)
    assert seen == [(dtype, (1, 40, size)) for size in (1, 4, 4, 2)]


# ---------------------------------------------------------------------------- metrics


def test_metrics_agree_with_scikit_learn_and_scipy():
    rng = np.random.default_rng(0)
    true = rng.standard_normal((25, 4))
    predicted = 0.5 * true + rng.standard_normal((25, 4))
    scores = {name: REGRESSION_METRICS[name].score(true, predicted) for name in SCORING}
    for column in range(4):
        expected = reference_scores(true[:, column], predicted[:, column])
        for name in SCORING:
            assert_allclose(scores[name][column], expected[name], rtol=1e-12, atol=0)


def test_constant_predictions_do_not_correlate():
    true = np.linspace(-1, 1, 30)[:, None]
    rounding = np.finfo(float).eps * np.arange(30)[:, None]
    for predicted in (0 * true, 0 * true + 0.1, 0.1 + rounding, rounding):
        assert REGRESSION_METRICS["pearsonr"].score(true, predicted) == 0
    small = REGRESSION_METRICS["pearsonr"].score(true, 1e-6 * true)
    assert_allclose(small, 1.0, rtol=1e-12, atol=0)


def test_equal_true_values_have_finite_scores():
    true, predicted = np.ones((5, 2)), np.ones((5, 2))
    predicted[0, 1] = 2.0
    scores = {name: REGRESSION_METRICS[name].score(true, predicted) for name in SCORING}
    assert_array_equal(scores["r2"], [1, 0])  # as scikit-learn has it
    assert_array_equal(scores["pearsonr"], [0, 0])
    assert_allclose(scores["neg_mean_squared_error"], [0, -0.2], rtol=1e-15, atol=0)


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
    assert result.parameters["cv"] == recorded(splitter)
    assert result.parameters["n_folds"] == len(expected)


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
        (2, None, "free"),
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
}


@pytest.mark.parametrize(("y", "message"), BAD.values(), ids=BAD)
def test_bad_values_are_refused(y, message):
    with pytest.raises(ValueError, match=message):
        regress(make_data()[0], y)


STRATIFIED = [
    ms.StratifiedKFold(4),
    ms.RepeatedStratifiedKFold(),
    ms.StratifiedGroupKFold(4),
    ms.StratifiedShuffleSplit(4),
]


@pytest.mark.parametrize("cv", STRATIFIED, ids=lambda cv: type(cv).__name__)
def test_stratified_folds_are_refused(cv):
    X, y = make_data()
    with pytest.raises(ValueError, match=r"(?s)Stratified.* needs classes.*Use KFold"):
        regress(X, y, cv=cv)


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"scoring": "accuracy"}, ValueError, r"'accuracy'\. Allowed: 'r2', 'pears"),
        ({"scoring": []}, TypeError, r"'scoring': \[\]\. Allowed: .* of r2, pearsonr"),
        ({"cv": 41}, ValueError, r"cv=41 asks for more folds than .* trials, 40\."),
        ({"kernel": "rbf", "reg": 1e-14}, ValueError, r"lambda = .* is too small"),
    ],
    ids=str,
)
def test_bad_arguments_are_refused(options, error, message):
    X, y = make_data()
    with pytest.raises(error, match=message):
        regress(X, y, **options)


# ----------------------------------------------------------------------- over windows


def over_time(n=40, **options):
    """Regress values that show at samples 3 and 4 of 6; return data and result."""
    X, y = make_data(n=n, p=5, noise=0.3)
    data = np.random.default_rng(1).standard_normal((n, 5, 6))
    data[:, :, 3:5] += 3 * X[:, :, None]
    return data, y, decode_arrays(data, y, task="regression", sfreq=10, **options)


@pytest.mark.parametrize("mode", ["mean", "concatenate"])
@pytest.mark.parametrize("kernel", ["linear", RBF(gamma=0.05)], ids=str)
def test_windows_equal_single_regressions(mode, kernel):
    options = {"scoring": SCORING, "cv": 4, "n_permutations": 12, "random_state": 0}
    options["kernel"] = kernel
    data, y, result = over_time(25, window=0.3, window_mode=mode, **options)
    assert result.parameters["task"] == "regression"
    assert result.predictions.shape == (4, 25)
    for i in range(4):
        X = data[:, :, i : i + 3]
        X = X.mean(axis=2) if mode == "mean" else X.reshape(25, -1)
        single = regress(X, y, **options)
        assert_allclose(result.predictions[i], single.predictions, rtol=1e-8, atol=1e-9)
        for name in SCORING:
            ours = result.metrics[name][i], *result.nulls[name][:, i]
            theirs = single.metrics[name], *single.nulls[name]
            assert_allclose(ours, theirs, rtol=1e-8, atol=1e-9)


def test_windows_find_when_values_show():
    _, _, result = over_time(n_permutations=199, random_state=0)
    assert_array_equal(np.flatnonzero(result.pvalues("max") <= 0.01), [3, 4])
    assert_array_equal(np.flatnonzero(result.scores > 0.5), [3, 4])


# ---------------------------------------------------------------------------- results


def one_result(**options):
    X, y = make_data()
    options = {"scoring": SCORING, "n_permutations": 30, "random_state": 0, **options}
    return regress(X, y, **options)


def time_result(**options):
    options = {"scoring": SCORING, "n_permutations": 30, "random_state": 0, **options}
    return over_time(**options)[2]


@pytest.mark.parametrize("make", [one_result, time_result])
def test_results_of_a_hold_out_survive_a_file(make, tmp_path):
    result = make(cv=FOLDS["hold-out"])
    result.save(tmp_path / "result.h5")
    assert load_result(tmp_path / "result.h5") == result


def test_repr_has_no_classes():
    text = repr(one_result())
    assert text.startswith("<RegressionResult: R² 0.")
    assert text.endswith("| 40 trials, 10 folds, 30 permutations>")
    text = repr(time_result())
    assert text.startswith("<TimeRegressionResult: highest R² 0.")
    assert "6 times from 0.000 to 0.500 s" in text


def test_histogram_shows_the_null():
    result = one_result()
    ax = result.plot()
    assert ax.get_xlabel() == "R²"
    assert sum(patch.get_height() for patch in ax.patches) == 30
    assert "classes" not in ax.get_title(loc="left")
    labels = [text.get_text() for text in ax.get_legend().get_texts()]
    assert labels[0].startswith("observed, ")
    assert labels[1:3] == ["permuted values", "as good as the mean (0)"]
    ax = result.plot(metric="pearsonr")
    assert ax.get_xlabel() == "Pearson correlation"
    labels = [text.get_text() for text in ax.get_legend().get_texts()]
    assert "no correlation" in labels
    assert not any("chance" in label for label in labels)


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


def test_scores_are_plotted_over_time():
    result = time_result()
    ax = result.plot(metric="pearsonr", correction="fdr")
    curve = next(line for line in ax.lines if len(line.get_xdata()) == 6)
    assert_array_equal(curve.get_xydata().T, [result.times, result.metrics["pearsonr"]])
    assert ax.get_ylabel() == "Pearson correlation"


@pytest.mark.parametrize("name", REGRESSION_METRICS)
def test_metrics_have_labels(name):
    words = REGRESSION_METRICS[name].label
    assert metric_label(name) == words[0].upper() + words[1:]


def test_scores_of_test_sets_are_in_the_order_of_the_folds():
    rng, rows = np.random.default_rng(0), np.arange(12)
    X, y = rng.standard_normal((12, 3)), rng.standard_normal(12)
    tests = [rows[:5], rows[5:8], rows[8:]]  # neither rising nor falling in size
    cv = [(np.setdiff1d(rows, test), test) for test in tests]
    result = regress(X, y, cv=cv, scoring=SCORING)
    by_sklearn = {
        "r2": r2_score,
        "pearsonr": lambda true, found: pearsonr(true, found)[0],
        "neg_mean_squared_error": lambda *pair: -mean_squared_error(*pair),
    }
    for name in SCORING:
        expected = [by_sklearn[name](y[t], result.predictions[t]) for t in tests]
        assert_allclose(result.fold_metrics[name], expected, rtol=1e-10)


def test_test_sets_of_equal_values_have_the_scores_that_need_no_spread():
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((12, 3)), np.repeat([1.0, 2.0, 4.0], 4)
    result = regress(X, y, cv=ms.KFold(3), scoring=SCORING)
    errors = (result.y - result.predictions).reshape(3, 4)
    expected = -np.mean(errors**2, axis=1)
    for name in SCORING:
        found = result.fold_metrics[name]
        if name == "neg_mean_squared_error":
            assert_allclose(found, expected, rtol=1e-12)
        else:
            assert np.isnan(found).all()


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
