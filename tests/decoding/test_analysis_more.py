"""Regression equals a ridge regression refitted on every fold and permutation."""

import inspect
import tracemalloc

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.stats import kstest, pearsonr
from sklearn import model_selection as ms
from sklearn.metrics import mean_squared_error, r2_score
from sklearn.metrics.pairwise import linear_kernel

from mvpa_kfda import (
    Linear,
    Polynomial,
    Ridge,
    Tuned,
    check_design,
    cross_validate,
    load_result,
    regress,
    verify,
)
from mvpa_kfda.inference.permutation import permute_labels
from mvpa_kfda.kfda.direct import Plan
from mvpa_kfda.kfda.folds import Folds
from mvpa_kfda.metrics.scores import REGRESSION_METRICS
from mvpa_kfda.utils.plain import recorded
from tests import build, reference

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
    options["permute"] = result.parameters["permute"]
    lambdas, scores, chosen = [np.multiply(grid, size_of(K))], [], []
    for values in rearranged(y, 6, **options):
        fitted, errors = np.empty(24), []
        for train, test in outer.split(X, y, groups):
            within = None if groups is None else groups[train]
            splits = list(inner.split(X[train], y[train], within))
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


def test_kernel_is_tuned_too():
    X = np.random.default_rng(0).standard_normal((60, 2))
    y = 10 * np.sum(X**2, axis=1)
    kernels = [Linear(), Polynomial(degree=2, gamma=1.0, coef0=1.0)]
    result = regress(X, y, kernel=kernels, reg=Tuned(grid=[1e-5, 1e-3, 0.1]), cv=5)
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


def test_permutations_are_processed_in_blocks_of_the_right_precision(monkeypatch):
    seen, fold_residuals = [], Plan.fold_residuals

    def watch(plan, T):
        seen.append((T.dtype, T.shape))
        return fold_residuals(plan, T)

    monkeypatch.setattr(Plan, "fold_residuals", watch)
    build.in_batches(4, monkeypatch)
    for dtype in ("float64", "float32"):
        regress(*make_data(), reg=0.3, dtype=dtype, n_permutations=10)
        assert seen == [(dtype, (1, 40, size)) for size in (1, 4, 4, 2)]
        seen.clear()


# ------------------------------------------------------------- metrics (metrics/scores)


def test_metrics_of_constant_predictions_and_of_constant_values():
    correlation = REGRESSION_METRICS["pearsonr"].score
    true = np.linspace(-1, 1, 30)[:, None]
    rounding = np.finfo(float).eps * np.arange(30)[:, None]
    for predicted in (0 * true, 0 * true + 0.1, 0.1 + rounding, rounding):
        assert correlation(true, predicted) == 0
    assert_allclose(correlation(true, 1e-6 * true), 1.0, rtol=1e-12, atol=0)
    true, predicted = np.ones((5, 2)), np.ones((5, 2))
    predicted[0, 1] = 2.0
    scores = {name: REGRESSION_METRICS[name].score(true, predicted) for name in SCORING}
    assert_array_equal(scores["r2"], [1, 0])  # as scikit-learn has it
    assert_array_equal(scores["pearsonr"], [0, 0])
    assert_allclose(scores["neg_mean_squared_error"], [0, -0.2], rtol=1e-15, atol=0)


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
REFUSED = [
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


@pytest.mark.parametrize(("options", "message"), REFUSED, ids=build.words)
def test_what_is_no_regression_is_refused(options, message):
    X, y = make_data()
    error = TypeError if options == {"scoring": []} else ValueError
    with pytest.raises(error, match=message):
        regress(X, **{"y": y} | options)


# ---------------------------------------------------------------------------- results


def one_result(**options):
    options = {"scoring": SCORING, "n_permutations": 30, "random_state": 0, **options}
    return regress(*make_data(), **options)


def test_results_of_a_hold_out_survive_a_file(tmp_path):
    result = one_result(cv=FOLDS["hold-out"])
    result.save(tmp_path / "result.h5")
    assert load_result(tmp_path / "result.h5") == result


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


def test_scores_of_test_sets_are_in_the_order_of_the_folds():
    rng, rows = np.random.default_rng(0), np.arange(12)
    X, y = rng.standard_normal((12, 3)), rng.standard_normal(12)
    tests = [rows[:5], rows[5:8], rows[8:]]  # neither rising nor falling in size
    cv = [(np.setdiff1d(rows, test), test) for test in tests]
    result = regress(X, y, cv=cv, scoring=SCORING)
    expected = [scores_of(y[t], result.predictions[t]) for t in tests]
    for name in SCORING:
        by_hand = [each[name] for each in expected]
        assert_allclose(result.fold_metrics[name], by_hand, rtol=1e-10)
    # Of equal values only the error has a score, which needs no spread.
    y = np.repeat([1.0, 2.0, 4.0], 4)
    result = regress(X, y, cv=ms.KFold(3), scoring=SCORING)
    errors = (result.y - result.predictions).reshape(3, 4)
    found = result.fold_metrics.pop("neg_mean_squared_error")
    assert_allclose(found, -np.mean(errors**2, axis=1), rtol=1e-12)
    assert np.isnan(list(result.fold_metrics.values())).all()


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


# ------------------------------------------- runs of few images (decoding/problems.py)


def find_short(y, groups):
    """Return the problem of short runs that a design has, or None."""
    problems = check_design(y, groups, n_permutations=0).problems
    return next((each for each in problems if each.name == "short_runs"), None)


@pytest.mark.parametrize(
    ("y", "groups"),
    [
        (np.tile([0, 0, 1, 1], 6), np.arange(24) // 4),  # four in each
        (np.arange(24) // 2 % 2, np.arange(24) // 2),  # patients and controls
        (np.arange(24) % 2, np.r_[np.repeat([0, 1, 2], 2), np.full(18, 3)] // 3),
        (np.arange(24) % 2, None),
    ],
    ids=["four", "patients", "most are long", "no runs"],
)
def test_other_designs_have_no_short_runs(y, groups):
    assert find_short(y, groups) is None


def test_most_runs_have_to_be_short():
    for n_long, found in ((5, True), (6, False)):
        sizes = [2] * 5 + [8] * n_long
        groups = np.repeat(np.arange(len(sizes)), sizes)
        y = np.concatenate([np.arange(size) % 2 for size in sizes])
        assert (find_short(y, groups) is not None) == found
