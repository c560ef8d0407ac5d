"""KernelFDA: against textbook formulas, scikit-learn, and the direct functions."""

import os
import subprocess
import sys

import mne
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.metrics.pairwise import linear_kernel, polynomial_kernel, rbf_kernel
from sklearn.model_selection import (
    GridSearchCV,
    KFold,
    LeaveOneGroupOut,
    LeaveOneOut,
    StratifiedKFold,
    cross_val_predict,
    cross_val_score,
)
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from mvpa_kfda import RBF, KernelFDA, Linear, Polynomial, Ridge, cross_validate
from mvpa_kfda.kfda.kernels import Precomputed
from tests import reference
from tests.build import with_new

SIZES = {
    "2 classes": (20, 20),
    "3 classes, unbalanced": (40, 8, 6),
    "4 classes": (12, 12, 12, 12),
    "6 classes, unbalanced": (14, 3, 9, 5, 11, 8),
}


def primal_scores(X, y, X_new, lam):
    """Class scores straight from feature space, (n_new, c)."""
    penalized = reference.scatters(X, y)[1] + lam * np.eye(X.shape[1])
    mu = X.mean(axis=0)
    offsets = np.array([X[y == k].mean(axis=0) - mu for k in np.unique(y)])
    weights = np.linalg.solve(penalized, offsets.T)
    return (X_new - mu) @ weights - 0.5 * np.sum(offsets.T * weights, axis=0)


def scores_of(model, X):
    """Class scores (n, c) less those of the first class, whatever the class count."""
    scores = model.decision_function(X)
    if scores.ndim == 1:
        return np.column_stack([np.zeros(len(scores)), scores])
    return scores - scores[:, :1]


# --- scikit-learn's own checks -------------------------------------------------

#: Checks that hand a precomputed kernel something that is none.
NOT_A_KERNEL = {
    "check_estimators_dtypes": "casts the kernel to int, after which it is indefinite",
    "check_decision_proba_consistency": "gives features, not a square kernel",
}


@parametrize_with_checks(
    [KernelFDA(kernel) for kernel in ("linear", "rbf", "polynomial", "precomputed")],
    expected_failed_checks=lambda model: (
        NOT_A_KERNEL if model.kernel == "precomputed" else {}
    ),
)
def test_sklearn_checks(estimator, check):
    check(estimator)


def test_sklearn_checks_with_array_api_dispatch():
    """The one check that runs only with a variable set before SciPy is imported."""
    code = (
        "from sklearn.utils.estimator_checks import check_estimator\n"
        "from mvpa_kfda import KernelFDA\n"
        "for result in check_estimator(KernelFDA(), on_skip=None):\n"
        "    assert result['status'] == 'passed', result\n"
    )
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code],
        env={**os.environ, "SCIPY_ARRAY_API": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr


# --- against LinearDiscriminantAnalysis ----------------------------------------


def matched_lda(model, **options):
    """LDA whose covariance is (S_w + lambda I) / N."""
    ridge = model.lambda_ / len(model.dual_coef_)
    covariance = reference.PenalizedClassCovariance(ridge=ridge)
    return LinearDiscriminantAnalysis(
        "eigen", covariance_estimator=covariance, **options
    )


@pytest.mark.parametrize("p", [5, 90])
@pytest.mark.parametrize("n_classes", [2, 3, 4, 5, 6])
def test_equals_lda_on_balanced_classes(n_classes, p):
    X, y, X_new = with_new([12] * n_classes, p)
    model = KernelFDA().fit(X, y)
    lda = matched_lda(model).fit(X, y)
    assert_array_equal(model.predict(X_new), lda.predict(X_new))
    assert_allclose(
        model.predict_proba(X_new), lda.predict_proba(X_new), rtol=1e-8, atol=1e-14
    )
    Z, Z_lda = model.transform(X_new), lda.transform(X_new)
    width = n_classes - 1
    assert Z.shape == (25, width)
    # LDA scales by the covariance, not the scatter, and centres nothing.
    Z_lda = (Z_lda - lda.transform(X).mean(axis=0))[:, :width] / np.sqrt(len(X))
    signs = np.sign(np.sum(Z * Z_lda, axis=0))
    assert_allclose(Z, signs * Z_lda, rtol=1e-7, atol=1e-9)
    assert_allclose(
        model.explained_variance_ratio_,
        lda.explained_variance_ratio_,
        rtol=1e-7,
        atol=1e-10,
    )


@pytest.mark.parametrize("sizes", SIZES.values(), ids=SIZES)
@pytest.mark.parametrize("p", [7, 80])
def test_equals_lda_with_empirical_priors(sizes, p):
    X, y, X_new = with_new(sizes, p, seed=1)
    model = KernelFDA(reg=0.1, priors="empirical").fit(X, y)
    lda = matched_lda(model).fit(X, y)
    assert_allclose(model.priors_, lda.priors_, rtol=1e-14, atol=0)
    p = lda.predict_proba(X_new)
    assert_allclose(model.predict_proba(X_new), p, rtol=1e-8, atol=1e-14)
    assert_array_equal(model.predict(X_new), lda.predict(X_new))


# --- against the formulas ------------------------------------------------------


@pytest.mark.parametrize("sizes", SIZES.values(), ids=SIZES)
@pytest.mark.parametrize("p", [6, 100])
@pytest.mark.parametrize("reg", [1e-3, 0.3, 1e4])
def test_class_scores_and_normalisation(sizes, p, reg):
    X, y, X_new = with_new(sizes, p)
    model = KernelFDA(reg=reg).fit(X, y)
    centred = X - X.mean(axis=0)
    assert_allclose(
        model.lambda_, reg * np.square(centred).sum() / len(X), rtol=1e-12, atol=0
    )
    scores = primal_scores(X, y, X_new, model.lambda_)
    scores -= scores[:, :1]
    assert_allclose(
        scores_of(model, X_new), scores, rtol=1e-8, atol=1e-9 * np.abs(scores).max()
    )
    between, within = reference.scatters(X, y)
    W = centred.T @ model.dual_coef_
    c = len(sizes)
    assert_allclose(
        W.T @ (within + model.lambda_ * np.eye(p)) @ W,
        np.eye(c - 1),
        rtol=0,
        atol=1e-10,
    )
    ratio = W.T @ between @ W
    assert_allclose(ratio, np.diag(np.diag(ratio)), rtol=0, atol=1e-8 * ratio.max())
    assert np.all(np.diff(np.diag(ratio)) <= 0)
    assert_allclose(
        model.explained_variance_ratio_,
        np.diag(ratio) / np.trace(ratio),
        rtol=1e-7,
        atol=1e-9,
    )
    Z = model.transform(X)
    assert_allclose(Z.mean(axis=0), 0, rtol=0, atol=1e-10 * np.abs(Z).max())
    means = np.array([Z[y == k].mean(axis=0) for k in range(c)])
    assert_allclose(model.means_, means, rtol=1e-8, atol=1e-10 * np.abs(means).max())
    # The sign convention.
    if c == 2:
        assert means[1] > 0 > means[0]
    else:
        assert np.all(means.max(axis=0) > -means.min(axis=0))


@pytest.mark.parametrize(
    ("kernel", "gram"),
    [
        (RBF(gamma=0.02), lambda X, Y=None: rbf_kernel(X, Y, gamma=0.02)),
        (
            Polynomial(degree=2, gamma=0.1, coef0=0.5),
            lambda X, Y=None: polynomial_kernel(X, Y, degree=2, gamma=0.1, coef0=0.5),
        ),
        (linear_kernel, linear_kernel),
    ],
    ids=["rbf", "polynomial", "callable"],
)
@pytest.mark.parametrize("sizes", SIZES.values(), ids=SIZES)
def test_equals_the_textbook_in_kernel_space(kernel, gram, sizes):
    X, y, X_new = with_new(sizes, 9)
    c = len(sizes)
    model = KernelFDA(kernel, reg=0.05).fit(X, y)
    oracle = reference.fit(gram(X), y, model.lambda_, c)
    scores = oracle.class_scores(gram(X_new, X))
    scores -= scores[:, :1]
    assert_allclose(
        scores_of(model, X_new), scores, rtol=1e-8, atol=1e-9 * np.abs(scores).max()
    )
    assert_array_equal(model.predict(X_new), oracle.predict(gram(X_new, X)))
    assert_allclose(
        model.predict_proba(X_new),
        oracle.posterior(gram(X_new, X)),
        rtol=1e-7,
        atol=1e-14,
    )


# --- components, priors, ties --------------------------------------------------


@pytest.mark.parametrize("n_components", [1, 2, 3])
def test_reduced_rank(n_components):
    X, y, X_new = with_new((12, 12, 12, 12), 8, separation=0.4)
    full = KernelFDA().fit(X, y)
    model = KernelFDA(n_components=n_components).fit(X, y)
    Z = model.transform(X_new)
    assert_allclose(Z, full.transform(X_new)[:, :n_components], rtol=1e-12, atol=1e-14)
    assert_allclose(
        model.explained_variance_ratio_,
        full.explained_variance_ratio_[:n_components],
        rtol=1e-14,
        atol=0,
    )
    assert_allclose(model.means_, full.means_[:, :n_components], rtol=1e-12, atol=1e-14)
    distances = np.square(Z[:, None] - model.means_[None]).sum(axis=2)
    assert_array_equal(model.predict(X_new), distances.argmin(axis=1))
    scores = 0.5 * (np.square(Z).sum(axis=1, keepdims=True) - distances)
    assert_allclose(model.decision_function(X_new), scores, rtol=1e-9, atol=1e-10)
    assert list(model.get_feature_names_out()) == [
        f"kernelfda{i}" for i in range(n_components)
    ]
    names = model.set_output(transform="pandas").transform(X_new).columns
    assert len(names) == n_components


@pytest.mark.parametrize("sizes", [(30, 9), (30, 9, 12)])
def test_priors(sizes):
    X, y, X_new = with_new(sizes, 6, separation=0.3)
    n, c = len(X), len(sizes)
    equal = KernelFDA().fit(X, y)
    given = np.array([0.7, 0.3] if c == 2 else [0.2, 0.7, 0.1])
    expected = {"equal": np.full(c, 1 / c), "empirical": np.array(sizes) / n}
    log_equal = equal.predict_log_proba(X_new)
    for priors, values in [*expected.items(), (list(given), given)]:
        model = KernelFDA(priors=priors).fit(X, y)
        assert_allclose(model.priors_, values, rtol=1e-14, atol=0)
        weighted = np.exp(log_equal) * values
        weighted /= weighted.sum(axis=1, keepdims=True)
        assert_allclose(model.predict_proba(X_new), weighted, rtol=1e-9, atol=1e-15)
        assert_array_equal(model.predict(X_new), weighted.argmax(axis=1))
        log_odds = np.log(weighted[:, 1] / weighted[:, 0])
        odds = n * scores_of(model, X_new)[:, 1]
        assert_allclose(odds, log_odds, rtol=1e-8, atol=1e-9)


def test_equal_priors_add_nothing():
    """The decision values are the class scores themselves, not just up to a shift."""
    X, y, X_new = with_new((40, 8, 6), 10)
    model = KernelFDA().fit(X, y)
    scores = primal_scores(X, y, X_new, model.lambda_)
    assert_allclose(
        model.decision_function(X_new), scores, rtol=1e-9, atol=1e-10 * scores.max()
    )


def test_log_probabilities_stay_finite():
    X = np.array([[0.0], [0.1], [10.0], [10.1]])
    model = KernelFDA(reg=1e-6).fit(X, [0, 0, 1, 1])
    log_p = model.predict_log_proba([[-5.0], [15.0]])
    assert np.all(np.isfinite(log_p))
    assert log_p.min() < -1000
    assert_allclose(model.predict_proba([[-5.0], [15.0]]), np.eye(2), rtol=0, atol=0)


@pytest.mark.parametrize("labels", [["a", "b"], ["b", "a"]])
def test_tie_goes_to_the_class_that_sorts_first(labels):
    X = np.array([[-1.0, 0.3], [-1.1, -0.2], [1.0, 0.3], [1.1, -0.2]])
    model = KernelFDA().fit(X, np.repeat(labels, 2))
    middle = np.array([[0.0, y] for y in np.linspace(-1, 1, 41)])
    assert_array_equal(model.predict(middle), "a")
    assert np.all(model.decision_function(middle) <= 0)


def test_components_without_class_difference_are_zero():
    X, y, X_new = with_new((9, 9, 9, 9), 1)
    model = KernelFDA().fit(X, y)
    Z = model.transform(X_new)
    assert Z.shape == (25, 3)
    assert_array_equal(Z[:, 1:], 0.0)
    assert_array_equal(model.explained_variance_ratio_, [1.0, 0.0, 0.0])
    nearest = np.abs(X_new - [X[y == k].mean() for k in range(4)]).argmin(axis=1)
    assert_array_equal(model.predict(X_new), nearest)


def test_equal_class_means_predict_the_first_class():
    X = np.array([[1.0, 1.0], [-1.0, -1.0], [1.0, -1.0], [-1.0, 1.0]] * 3)
    y = np.tile([0, 0, 1, 1], 3)
    model = KernelFDA().fit(X, y)
    assert_array_equal(model.predict(X), 0)
    assert_array_equal(model.transform(X), 0.0)
    assert_array_equal(model.explained_variance_ratio_, [0.0])
    assert_allclose(model.predict_proba(X), 0.5, rtol=1e-12, atol=0)
    # A kernel that sees the interaction separates what a line cannot.
    assert KernelFDA(Polynomial(degree=2)).fit(X, y).score(X, y) == 1.0


@pytest.mark.parametrize("kernel", ["linear", "rbf", "polynomial"])
def test_class_means_equal_up_to_rounding(kernel):
    rows = np.random.default_rng(0).standard_normal((15, 4))
    X, y = np.concatenate([rows, rows[::-1], rows]), np.repeat([0, 1, 2], 15)
    model = KernelFDA(kernel).fit(X, y)
    assert_array_equal(model.transform(X), 0.0)
    assert_array_equal(model.predict(X), 0)


# --- kernels and units ---------------------------------------------------------


@pytest.mark.parametrize("kernel", [RBF(gamma=0.03), Polynomial(degree=2), "linear"])
def test_precomputed_is_the_same(kernel):
    X, y, X_new = with_new((40, 8, 6), 9)
    model = KernelFDA(kernel).fit(X, y)
    gram = {
        "RBF": lambda X, Y: rbf_kernel(X, Y, gamma=0.03),
        "Polynomial": lambda X, Y: polynomial_kernel(X, Y, degree=2),
        "Linear": linear_kernel,
    }[type(model.kernel_).__name__]
    other = KernelFDA("precomputed").fit(gram(X, X), y)
    assert other.X_fit_ is None
    assert other.n_features_in_ == len(X)
    assert_allclose(other.lambda_, model.lambda_, rtol=1e-10, atol=0)
    assert_allclose(
        other.decision_function(gram(X_new, X)),
        model.decision_function(X_new),
        rtol=1e-8,
        atol=1e-9,
    )
    assert_allclose(
        other.transform(gram(X_new, X)), model.transform(X_new), rtol=1e-8, atol=1e-9
    )


def test_names_and_objects_agree():
    X, y, X_new = with_new((10, 10, 10), 5)
    for name, kernel in [
        ("linear", Linear()),
        ("rbf", RBF()),
        ("polynomial", Polynomial()),
    ]:
        a, b = KernelFDA(name).fit(X, y), KernelFDA(kernel).fit(X, y)
        assert_array_equal(a.transform(X_new), b.transform(X_new))
    assert KernelFDA("precomputed").__sklearn_tags__().input_tags.pairwise
    assert KernelFDA(Precomputed()).__sklearn_tags__().input_tags.pairwise
    assert not KernelFDA("rbf").__sklearn_tags__().input_tags.pairwise


@pytest.mark.parametrize("kernel", ["linear", "rbf"])
def test_units_and_offsets_do_not_matter(kernel):
    X, y, X_new = with_new((20, 20, 20), 12)
    model = KernelFDA(kernel).fit(X, y)
    expected = model.predict_log_proba(X_new)
    volts = KernelFDA(kernel).fit(1e-6 * X, y).predict_log_proba(1e-6 * X_new)
    assert_allclose(volts, expected, rtol=1e-8, atol=1e-9)
    shifted = KernelFDA(kernel).fit(1e5 + X, y).predict_log_proba(1e5 + X_new)
    assert_allclose(shifted, expected, rtol=1e-7, atol=1e-7)


def test_offset_of_a_callable_kernel_costs_few_digits():
    X, y, X_new = with_new((20, 20, 20), 12)
    expected = KernelFDA().fit(X, y).decision_function(X_new)
    model = KernelFDA(linear_kernel).fit(100 + X, y)
    assert_allclose(
        model.decision_function(100 + X_new), expected, rtol=1e-7, atol=1e-9
    )


def test_the_model_keeps_its_own_copy():
    X, y, X_new = with_new((10, 10), 5)
    for kernel in ("linear", "polynomial"):
        rows = X.copy()
        model = KernelFDA(kernel).fit(rows, y)
        expected = model.transform(X_new)
        rows[:] = 0
        assert_array_equal(model.transform(X_new), expected)


# --- inside other tools --------------------------------------------------------


def test_pipeline_and_grid_search():
    X, y, X_new = with_new((15, 15, 15), 6, separation=1.5)
    pipeline = make_pipeline(StandardScaler(), KernelFDA())
    grid = {
        "kernelfda__kernel": ["linear", RBF(), Polynomial(degree=2)],
        "kernelfda__reg": [0.03, 0.3, Ridge(1.0)],
    }
    search = GridSearchCV(pipeline, grid, cv=3, error_score="raise").fit(X, y)
    assert search.best_score_ > 0.8
    assert len(np.unique(search.cv_results_["mean_test_score"])) > 1
    assert search.predict(X_new).shape == (25,)
    reduced = make_pipeline(KernelFDA(n_components=2), StandardScaler())
    assert reduced.fit_transform(X, y).shape == (45, 2)


def test_precomputed_kernel_is_cut_on_both_axes():
    X, y, _ = with_new((15, 15, 15), 6)
    reg = Ridge(4.0)
    expected = cross_val_score(KernelFDA(reg=reg), X, y, cv=5)
    K = linear_kernel(X)
    assert_array_equal(
        cross_val_score(KernelFDA("precomputed", reg), K, y, cv=5), expected
    )
    search = GridSearchCV(KernelFDA("precomputed"), {"reg": [0.1, 1.0]}, cv=3)
    assert search.fit(K, y).predict(K).shape == (45,)


@pytest.mark.parametrize("scoring", ["accuracy", "roc_auc_ovr"])
def test_sliding_estimator(scoring):
    X, y, _ = with_new((14, 14, 14), 8, separation=0.0)
    epochs = np.stack([X, X, X], axis=2)  # (n, channels, times)
    epochs[:, 0, 1] += 5.0 * y
    sliding = mne.decoding.SlidingEstimator(KernelFDA(), scoring=scoring, verbose=False)
    scores = mne.decoding.cross_val_multiscore(sliding, epochs, y, cv=4)
    assert scores.shape == (4, 3)
    assert_array_equal(scores[:, 0], scores[:, 2])
    assert scores[:, 1].mean() > 0.85 > scores[:, 0].mean()
    sliding.fit(epochs, y)
    assert sliding.predict(epochs).shape == (42, 3)
    assert sliding.predict_proba(epochs).shape == (42, 3, 3)
    assert sliding.transform(epochs).shape == (42, 3, 2)
    assert_array_equal(
        sliding.predict(epochs)[:, 1],
        KernelFDA().fit(epochs[..., 1], y).predict(epochs[..., 1]),
    )


# --- against the direct functions ----------------------------------------------


@pytest.mark.some(18)
@pytest.mark.parametrize("sizes", SIZES.values(), ids=SIZES)
@pytest.mark.parametrize("p", [6, 25, 90])
@pytest.mark.parametrize(
    "kernel", ["linear", RBF(gamma=0.02), Polynomial(degree=2, gamma=0.05)], ids=repr
)
def test_equals_direct_cross_validation(sizes, p, kernel):
    X, y, _ = with_new(sizes, p, seed=4)
    reg = Ridge(4.0 if kernel == "linear" else 0.1)
    assert_same_as_direct(KernelFDA(kernel, reg), X, y, StratifiedKFold(3))


@pytest.mark.parametrize(
    "cv", [LeaveOneOut(), KFold(4, shuffle=True, random_state=0), LeaveOneGroupOut()]
)
def test_equals_direct_for_any_folds(cv):
    X, y, _ = with_new((14, 14, 14), 10, seed=5)
    groups = np.arange(42) % 5 if isinstance(cv, LeaveOneGroupOut) else None
    for reg in (Ridge(0.5), Ridge(50.0)):
        assert_same_as_direct(KernelFDA(reg=reg), X, y, cv, groups)


def assert_same_as_direct(model, X, y, cv, groups=None):
    """Compare predictions and class scores with those of cross_validate."""
    result = cross_validate(
        X, y, groups=groups, kernel=model.kernel, reg=model.reg, cv=cv
    )
    options = {"groups": groups, "cv": cv}
    predicted = cross_val_predict(model, X, y, **options)
    assert_array_equal(result.predictions, predicted)
    scores = cross_val_predict(model, X, y, method="decision_function", **options)
    direct = result.class_scores
    if scores.ndim == 1:
        direct = direct[:, 1] - direct[:, 0]
    assert_allclose(scores, direct, rtol=1e-8, atol=1e-9 * np.abs(direct).max())


# --- bad input -----------------------------------------------------------------


def broken(X, where, value):
    X = X.astype(np.result_type(X, type(value)))
    X[where] = value
    return X


@pytest.mark.parametrize(
    ("change", "match"),
    [
        (lambda X, y: (broken(X, (0, 0), np.nan), y), "contains NaN"),
        (lambda X, y: (broken(X, (0, 0), np.inf), y), "infinity"),
        (lambda X, y: (X + 1j, y), "Complex data not supported"),
        (lambda X, y: (X, np.zeros(len(y))), "one class only"),
        (lambda X, y: (X[:1], y[:1]), "1 sample"),
        (lambda X, y: (X, y[:-1]), "inconsistent numbers of samples"),
        (lambda X, y: (X, X[:, 0]), "continuous"),
        (lambda X, y: (np.full_like(X, 0.1), y), "trials do not differ"),
        (lambda X, y: (np.zeros_like(X), y), "trials do not differ"),
        (lambda X, y: (X[0], y), "Expected 2D array"),
    ],
)
def test_bad_data(change, match):
    X, y, _ = with_new((10, 10, 10), 5)
    for reg in (0.3, Ridge(1.0)):
        with pytest.raises(ValueError, match=match):
            KernelFDA(reg=reg).fit(*change(X, y))


@pytest.mark.parametrize(
    ("params", "error", "match"),
    [
        ({"reg": 0}, ValueError, "Invalid value for 'reg': 0.*above zero"),
        ({"reg": -0.3}, ValueError, "Invalid value for 'reg': -0.3.*above zero"),
        ({"reg": np.nan}, ValueError, "Invalid value for 'reg': nan"),
        ({"reg": "best"}, TypeError, "Invalid value for 'reg': 'best'"),
        ({"reg": 1e-18, "kernel": linear_kernel}, ValueError, "lambda = .* is too sma"),
        ({"penalty": "l2"}, ValueError, "'penalty': 'l2'. Allowed: 'rkhs', 'dual'"),
        ({"approx": 100}, TypeError, "'approx': 100. Allowed: None, or Nystrom"),
        ({"kernel": ["rbf", "linear"]}, ValueError, "2 kernels needs reg='tuned'"),
        ({"kernel": "rbf", "reg": "oas"}, ValueError, "needs a linear kernel"),
        ({"kernel": "cubic"}, ValueError, "Invalid value for 'kernel': 'cubic'"),
        ({"priors": "uniform"}, ValueError, "Invalid value for 'priors': 'uniform'"),
        ({"priors": "an array"}, ValueError, "Invalid value for 'priors'"),
        ({"priors": None}, ValueError, "Invalid value for 'priors': None"),
        ({"priors": [0.5, 0.5]}, ValueError, "3 numbers above zero, one per class"),
        ({"priors": [0.5, 0.5, 0.5]}, ValueError, "that sum to one"),
        ({"priors": [0.5, 0.5, 0.0]}, ValueError, "leave its trials out of fit"),
        ({"priors": [0.6, 0.6, -0.2]}, ValueError, "numbers above zero"),
        ({"priors": [np.nan, 0.5, 0.5]}, ValueError, "numbers above zero"),
        ({"priors": ["a", "b", "c"]}, ValueError, "3 numbers above zero"),
        ({"n_components": 3}, ValueError, "'n_components': 3. Allowed: at most 2"),
        ({"n_components": 0}, ValueError, "'n_components': 0.*at least 1"),
        ({"n_components": 1.5}, ValueError, "'n_components': 1.5.*whole number"),
        ({"kernel": lambda X, Y: X[:, :1] * 0 + 1}, ValueError, "one value per pair"),
        ({"kernel": lambda X, Y: X[:, :1] - Y[:, 0]}, ValueError, "symmetric"),
        ({"kernel": lambda X, Y: -X @ Y.T}, ValueError, "do not differ|definite"),
    ],
)
def test_bad_parameters(params, error, match):
    X, y, _ = with_new((10, 10, 10), 5)
    model = KernelFDA(**params)  # nothing is refused before fit
    with pytest.raises(error, match=match):
        model.fit(X, y)


def test_bad_precomputed_kernel():
    X, y, X_new = with_new((10, 10, 10), 5)
    K = linear_kernel(X)
    model = KernelFDA("precomputed")
    with pytest.raises(ValueError, match="must be square"):
        model.fit(K[:, :-1], y)
    with pytest.raises(ValueError, match="symmetric kernel matrix"):
        model.fit(np.triu(K), y)
    model.fit(K, y)
    with pytest.raises(ValueError, match="expecting 30 features"):
        model.predict(linear_kernel(X_new, X[:-1]))


def test_rounding_is_not_passed_off_as_a_result():
    X, y, X_new = with_new((100, 100, 100), 20)
    with pytest.raises(ValueError, match="lost to rounding"):
        KernelFDA(linear_kernel, reg=1e-12).fit(X, y)
    # From the features it is well determined, down to no penalty at all.
    model = KernelFDA(reg=1e-12).fit(X, y)
    lda = matched_lda(model).fit(X, y)
    assert_allclose(
        model.predict_proba(X_new), lda.predict_proba(X_new), rtol=1e-8, atol=1e-14
    )
    # Unless they are redundant.
    with pytest.raises(ValueError, match=r"lambda = .* is too small"):
        KernelFDA(reg=1e-20).fit(np.column_stack([X, X @ np.ones((20, 3))]), y)


def test_tiny_penalty_with_more_features_than_trials():
    """There the scores tend to 1 / lambda times a limit, and no digit is lost."""
    X, y, X_new = with_new((15, 15, 15), 100)
    limit, scores = (
        model.lambda_ * scores_of(model, X_new)
        for model in (KernelFDA(reg=reg).fit(X, y) for reg in (1e-8, 1e-12))
    )
    assert_allclose(scores, limit, rtol=1e-5, atol=1e-5 * np.abs(limit).max())
