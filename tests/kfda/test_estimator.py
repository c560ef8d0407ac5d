"""KernelFDA: against textbook formulas, scikit-learn, and the direct functions."""

import pickle

import numpy as np
import pytest
from mne.decoding import LinearModel, get_coef
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.exceptions import NotFittedError
from sklearn.feature_selection import RFE
from sklearn.metrics.pairwise import linear_kernel, polynomial_kernel, rbf_kernel
from sklearn.model_selection import (
    GridSearchCV,
    LeaveOneGroupOut,
    LeaveOneOut,
)
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from mvpa_kfda import (
    RBF,
    EmpiricalMap,
    GraphSmooth,
    KernelFDA,
    Linear,
    Nystrom,
    Penalty,
    Polynomial,
    Ridge,
    Tuned,
    cross_validate,
)
from mvpa_kfda.kfda.kernels import Precomputed
from tests import build, reference
from tests.build import chain, with_new

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


#: Checks that hand a precomputed kernel something that is none.
NOT_A_KERNEL = {
    "check_estimators_dtypes": "casts the kernel to int, after which it is indefinite",
    "check_decision_proba_consistency": "gives features, not a square kernel",
}


def trace_of_hat(K, lam):
    """tr(G) by the definition."""
    n = len(K)
    J = np.eye(n) - 1 / n
    K = J @ K @ J
    return 1 + np.trace(K @ np.linalg.inv(K + lam * np.eye(n)))


# ---------------------------------------------------------- scikit-learn's own checks


@pytest.mark.some(270)
@parametrize_with_checks(
    [
        *map(KernelFDA, ("linear", "rbf", "polynomial", "precomputed")),
        KernelFDA("rbf", penalty="dual"),
        KernelFDA("rbf", approx=Nystrom(2, "uniform")),
        KernelFDA(["linear", "rbf"], reg="tuned"),
    ],
    expected_failed_checks=lambda model: (
        NOT_A_KERNEL if model.kernel == "precomputed" else {}
    ),
)
def test_sklearn_checks(estimator, check):
    check(estimator)


# ------------------------------------------------------------------------- by formulas


@pytest.mark.parametrize("sizes", [*SIZES.values(), (12,) * 5], ids=str)
@pytest.mark.parametrize("p", [5, 80])
def test_equals_discriminant_analysis(sizes, p):
    X, y, X_new = with_new(sizes, p, seed=1)
    n, c = len(X), len(sizes)
    model = KernelFDA(reg=0.1, priors="empirical").fit(X, y)
    covariance = reference.PenalizedClassCovariance(ridge=model.lambda_ / n)
    lda = LinearDiscriminantAnalysis("eigen", covariance_estimator=covariance)
    lda.fit(X, y)
    assert_allclose(model.priors_, lda.priors_, rtol=1e-14, atol=0)
    proba = lda.predict_proba(X_new)
    assert_allclose(model.predict_proba(X_new), proba, rtol=1e-8, atol=1e-14)
    assert_array_equal(model.predict(X_new), lda.predict(X_new))
    # The scores of several classes may have anything in common.
    for name in ("coef_", "intercept_"):
        found, expected = n * getattr(model, name), getattr(lda, name)
        assert found.shape == expected.shape
        free = 0 if c == 2 else 1
        found = found - free * found.mean(axis=0)
        expected = expected - free * expected.mean(axis=0)
        assert_allclose(found, expected, rtol=1e-6, atol=1e-6)
    if len(set(sizes)) == 1:  # as it weights classes by their priors
        # It scales by the covariance, not the scatter, and centres nothing.
        Z, Z_lda = model.transform(X_new), lda.transform(X_new)
        Z_lda = (Z_lda - lda.transform(X).mean(axis=0))[:, : c - 1] / np.sqrt(n)
        signs = np.sign(np.sum(Z * Z_lda, axis=0))
        assert_allclose(Z, signs * Z_lda, rtol=1e-7, atol=1e-9)
        shares = model.explained_variance_ratio_
        expected = lda.explained_variance_ratio_
        assert_allclose(shares, expected, rtol=1e-7, atol=1e-10)


@pytest.mark.parametrize("sizes", SIZES.values(), ids=SIZES)
@pytest.mark.parametrize("p", [6, 100])
@pytest.mark.parametrize("reg", [1e-3, 0.3, 1e4])
def test_class_scores_and_normalisation(sizes, p, reg):
    X, y, X_new = with_new(sizes, p)
    c, model = len(sizes), KernelFDA(reg=reg).fit(X, y)
    centred = X - X.mean(axis=0)
    expected = reg * np.square(centred).sum() / len(X)
    assert_allclose(model.lambda_, expected, rtol=1e-12, atol=0)
    # Decision values are the class scores themselves, not just up to a shift.
    scores = primal_scores(X, y, X_new, model.lambda_)
    found, scale = model.decision_function(X_new), np.abs(scores).max()
    scores = np.diff(scores)[:, 0] if c == 2 else scores
    assert_allclose(found, scores, rtol=1e-8, atol=1e-9 * scale)
    between, within = reference.scatters(X, y)
    W = centred.T @ model.dual_coef_
    whitened = W.T @ (within + model.lambda_ * np.eye(p)) @ W
    assert_allclose(whitened, np.eye(c - 1), rtol=0, atol=1e-10)
    ratio = W.T @ between @ W
    assert_allclose(ratio, np.diag(np.diag(ratio)), rtol=0, atol=1e-8 * ratio.max())
    assert np.all(np.diff(np.diag(ratio)) <= 0)
    shares = np.diag(ratio) / np.trace(ratio)
    assert_allclose(model.explained_variance_ratio_, shares, rtol=1e-7, atol=1e-9)
    Z = model.transform(X)
    assert_allclose(Z.mean(axis=0), 0, rtol=0, atol=1e-10 * np.abs(Z).max())
    means = np.array([Z[y == k].mean(axis=0) for k in range(c)])
    assert_allclose(model.means_, means, rtol=1e-8, atol=1e-10 * np.abs(means).max())
    # The sign convention.
    if c == 2:
        assert means[1] > 0 > means[0]
    else:
        assert np.all(means.max(axis=0) > -means.min(axis=0))


#: Kernels of nine features, and functions that make the oracle's matrices.
GRAMS = {
    "linear": ("linear", linear_kernel),
    "rbf": (RBF(0.05), lambda X, Y: rbf_kernel(X, Y, gamma=0.05)),
    "polynomial": (
        Polynomial(2, 0.1),
        lambda X, Y: polynomial_kernel(X, Y, degree=2, gamma=0.1),
    ),
    "function": (linear_kernel, linear_kernel),
    "graph": (GraphSmooth(chain(9)), GraphSmooth(chain(9))),
    "penalty": (
        Penalty(np.diag(np.arange(1.0, 10))),
        lambda X, Y: X / np.arange(1.0, 10) @ Y.T,
    ),
}


@pytest.mark.parametrize("name", GRAMS)
@pytest.mark.parametrize("sizes", SIZES.values(), ids=SIZES)
def test_equals_the_textbook_in_kernel_space(name, sizes):
    X, y, X_new = with_new(sizes, 9)
    kernel, gram = GRAMS[name]
    K, K_new = gram(X, X), gram(X_new, X)
    model = KernelFDA(kernel, reg=0.05).fit(X, y)
    oracle = reference.fit(K, y, model.lambda_, len(sizes))
    scores = oracle.class_scores(K_new)
    scores -= scores[:, :1]
    scale = np.abs(scores).max()
    found = scores_of(model, X_new)
    assert_allclose(found, scores, rtol=1e-8, atol=1e-9 * scale)
    assert_array_equal(model.predict(X_new), oracle.predict(K_new))
    proba = oracle.posterior(K_new)
    assert_allclose(model.predict_proba(X_new), proba, rtol=1e-7, atol=1e-14)
    df = trace_of_hat(K, model.lambda_)
    assert_allclose(model.degrees_of_freedom_, df, rtol=1e-7, atol=0)
    # A kernel matrix is as good, and weights of either kind carry the discriminants.
    other = KernelFDA("precomputed", reg=0.05).fit(K, y)
    assert other.X_fit_ is other.scalings_ is None
    assert other.n_features_in_ == len(X)
    close = {"rtol": 1e-7, "atol": 1e-8}
    names = "lambda_", "degrees_of_freedom_", "means_", "dual_coef_"
    for name in (*names, "explained_variance_ratio_"):
        assert_allclose(getattr(other, name), getattr(model, name), **close)
    Z = model.transform(X_new)
    assert_allclose(other.transform(K_new), Z, **close)
    assert_allclose((K_new - K.mean(axis=0)) @ model.dual_coef_, Z, **close)
    assert (model.scalings_ is None) == (kernel not in LINEAR)
    if model.scalings_ is not None:
        assert_allclose((X_new - X.mean(axis=0)) @ model.scalings_, Z, **close)


LINEAR = [GRAMS[name][0] for name in ("linear", "graph", "penalty")]


# ------------------------------------------------------------ components, priors, ties


@pytest.mark.parametrize("n_components", [1, 2, 3])
def test_reduced_rank(n_components):
    X, y, X_new = with_new((12, 12, 12, 12), 8, separation=0.4)
    full = KernelFDA().fit(X, y)
    model, close = KernelFDA(n_components=n_components).fit(X, y), {"rtol": 1e-12}
    Z, means = model.transform(X_new), model.means_
    assert_allclose(Z, full.transform(X_new)[:, :n_components], **close)
    assert_allclose(means, full.means_[:, :n_components], **close)
    shares = full.explained_variance_ratio_[:n_components]
    assert_allclose(model.explained_variance_ratio_, shares, **close)
    distances = np.square(Z[:, None] - means[None]).sum(axis=2)
    assert_array_equal(model.predict(X_new), distances.argmin(axis=1))
    scores = 0.5 * (np.square(Z).sum(axis=1, keepdims=True) - distances)
    assert_allclose(model.decision_function(X_new), scores, rtol=1e-9, atol=1e-10)
    names = model.set_output(transform="pandas").transform(X_new).columns
    assert list(names) == [f"kernelfda{i}" for i in range(n_components)]


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


# ------------------------------------------------------------------- kernels and units


def test_names_and_objects_agree():
    X, y, X_new = with_new((10, 10, 10), 5)
    for name, kernel in (("rbf", RBF()), ("polynomial", Polynomial())):
        a, b = KernelFDA(name).fit(X, y), KernelFDA(kernel).fit(X, y)
        assert_array_equal(a.transform(X_new), b.transform(X_new))
    matrices = "precomputed", Precomputed(), EmpiricalMap("precomputed")
    for kernel in (*matrices, "rbf", EmpiricalMap()):
        is_pairwise = KernelFDA(kernel).__sklearn_tags__().input_tags.pairwise
        assert is_pairwise == (kernel in matrices)


@pytest.mark.parametrize("kernel", ["linear", "rbf"])
def test_units_and_offsets_do_not_matter(kernel):
    X, y, X_new = with_new((20, 20, 20), 12)
    model = KernelFDA(kernel).fit(X, y)
    expected = model.predict_log_proba(X_new)
    volts = KernelFDA(kernel).fit(1e-6 * X, y).predict_log_proba(1e-6 * X_new)
    assert_allclose(volts, expected, rtol=1e-8, atol=1e-9)
    shifted = KernelFDA(kernel).fit(1e5 + X, y).predict_log_proba(1e5 + X_new)
    assert_allclose(shifted, expected, rtol=1e-7, atol=1e-7)


def test_the_model_keeps_its_own_copy():
    X, y, X_new = with_new((10, 10), 5)
    for kernel in ("linear", "polynomial"):
        rows = X.copy()
        model = KernelFDA(kernel).fit(rows, y)
        expected = model.transform(X_new)
        rows[:] = 0
        assert_array_equal(model.transform(X_new), expected)


@pytest.mark.parametrize(
    ("model", "share"),
    [
        (KernelFDA(), 10),
        (KernelFDA(RBF(0.2), 0.3, approx=Nystrom(12, "uniform")), 5),
        (KernelFDA(RBF(0.2), Tuned([0.1, 1.0]), approx=Nystrom(12, "uniform")), 2),
    ],
    ids=str,
)
def test_many_trials_make_no_square_array(model, share):
    X, y, X_new = with_new((2000, 2000), 3)
    model = clone(model)
    peak = build.peak_bytes(lambda: model.fit(X, y).predict(X_new))
    assert peak < 4000**2 * 8 / share
    assert len(pickle.dumps(model)) < 4000 * 30 * 8  # nor is one kept


# ------------------------------------------------ the penalty on the dual coefficients


@pytest.mark.parametrize("sizes", SIZES.values(), ids=SIZES)
@pytest.mark.parametrize("name", ["linear", "rbf", "polynomial"])
@pytest.mark.parametrize("mu", [0.1, 30.0])
def test_dual_penalty_is_that_of_columns_of_the_kernel_matrix(name, sizes, mu):
    X, y, X_new = with_new(sizes, 9)
    kernel, gram = GRAMS[name]
    K, K_new = gram(X, X), gram(X_new, X)
    model = KernelFDA(kernel, Ridge(mu), penalty="dual").fit(X, y)
    textbook, A = reference.fit(K @ K.T, y, mu, len(sizes)), model.dual_coef_
    N = reference.scatters(K, y)[1] + mu * np.eye(len(K))
    assert_allclose(A.T @ N @ A, np.eye(len(sizes) - 1), rtol=0, atol=1e-7)
    Z, expected = model.transform(X_new), textbook.transform(K_new @ K.T)
    signs, scale = np.sign(np.sum(expected * Z, axis=0)), np.abs(Z).max()
    assert_allclose(Z, expected * signs, rtol=1e-6, atol=1e-7 * scale)
    assert_allclose((K_new - K.mean(axis=0)) @ A, Z, rtol=1e-6, atol=1e-7 * scale)
    means = textbook.centroids * signs
    assert_allclose(model.means_, means, rtol=1e-6, atol=1e-7 * scale)
    assert_array_equal(model.predict(X_new), textbook.predict(K_new @ K.T))
    assert isinstance(model.kernel_, EmpiricalMap)
    assert_array_equal(model.X_fit_, X if name != "rbf" else X - X.mean(axis=0))
    assert model.scalings_ is None
    # It is not the penalty in feature space.
    other = KernelFDA(kernel, Ridge(mu)).fit(X, y).transform(X_new)
    assert np.abs(other - Z).max() > 1e-3 * scale


def test_dual_penalty_by_name_by_map_and_of_a_matrix():
    X, y, X_new = with_new((14, 14, 14), 9)
    by_name = KernelFDA("rbf", penalty="dual", n_components=1).fit(X, y)
    by_map = KernelFDA(EmpiricalMap("rbf"), n_components=1).fit(X, y)
    assert_array_equal(by_name.transform(X_new), by_map.transform(X_new))
    assert by_name.dual_coef_.shape == (42, 1)
    gamma = RBF().fit(X).gamma
    assert by_name.kernel_.kernel.gamma == pytest.approx(gamma, rel=1e-12)
    K, K_new = (polynomial_kernel(each, X) for each in (X, X_new))
    expected = KernelFDA("polynomial", penalty="dual").fit(X, y)
    model = KernelFDA("precomputed", penalty="dual").fit(K, y)
    assert_allclose(model.lambda_, expected.lambda_, rtol=1e-10, atol=0)
    found, expected = model.decision_function(K_new), expected.decision_function(X_new)
    assert_allclose(found, expected, rtol=1e-6, atol=1e-8)
    with pytest.raises(ValueError, match="must be square"):
        model.fit(X, y)


# --------------------------------------------------------------------------- landmarks


@pytest.mark.parametrize("kernel", [RBF(0.1), "linear", Polynomial(2, 0.1)])
def test_landmarks_stand_for_all_trials(kernel):
    X, y, X_new = with_new((30, 8, 22), 5)
    exact, errors = KernelFDA(kernel, reg=0.1).fit(X, y), []
    Z = exact.transform(X_new)
    for r in (4, 12, 60):
        model = KernelFDA(kernel, reg=0.1, approx=Nystrom(r)).fit(X, y)
        found = model.transform(X_new)
        errors.append(np.abs(found - Z).max())
        # What it says of itself holds for the approximate kernel.
        K, K_new = model.kernel_(X), model.kernel_(X_new, X)
        expected = (K_new - K.mean(axis=0)) @ model.dual_coef_
        assert_allclose(found, expected, rtol=1e-7, atol=1e-8)
        df = trace_of_hat(K, model.lambda_)
        assert_allclose(model.degrees_of_freedom_, df, rtol=1e-7)
        assert model.X_fit_ is model.scalings_ is None
    assert errors[0] > 1e-6 > errors[-1]
    assert_allclose(model.lambda_, exact.lambda_, rtol=1e-9, atol=0)


# ----------------------------------------------- penalties that are worked out, chosen


@pytest.mark.parametrize("p", [4, 40])
@pytest.mark.parametrize("grouped", [False, True])
def test_tuned_is_the_best_of_retrained_models(p, grouped):
    X, y, X_new = with_new((14, 13, 9), p, separation=0.4)
    groups = np.arange(36) % 5 if grouped else None
    cv = LeaveOneGroupOut() if grouped else LeaveOneOut()
    kernels = [Linear(), RBF(0.5 / p)]
    tuned = Tuned(grid=[0.01, 0.1, 1.0, Ridge(2.0)])
    model = KernelFDA(kernels, tuned).fit(X, y, groups=groups)
    choice, splits = model.tuning_, list(cv.split(X, y, groups))
    assert choice.lambdas.shape == (2, 4)
    number, lam, values = reference.choose(
        [k(X) for k in kernels], choice.lambdas, y, np.arange(36), splits, 3
    )
    assert_allclose(choice.criterion, values, rtol=1e-7, atol=1e-9)
    assert (choice.kernel, choice.lam) == (number, lam)
    assert model.lambda_ == choice.lam
    assert model.kernel_ == kernels[choice.kernel]
    plain = KernelFDA(kernels[choice.kernel], Ridge(choice.lam)).fit(X, y)
    decision = plain.decision_function(X_new)
    assert_allclose(model.decision_function(X_new), decision, rtol=1e-12, atol=0)
    assert plain.tuning_ is None


@pytest.mark.parametrize(
    "options",
    [
        {"kernel": ["rbf", RBF(0.1)], "penalty": "dual"},
        {"kernel": ["rbf", RBF(0.1)], "approx": Nystrom(15)},
        {"kernel": [GraphSmooth(chain(5)), "linear"], "n_components": 1},
        {"kernel": [Polynomial(2, 1.0), RBF()]},  # shifted by rules of their own
    ],
    ids=build.words,
)
def test_a_chosen_model_is_that_of_its_kernel_and_lambda(options):
    X, y, X_new = with_new((20, 20, 20, 20), 5)
    model = KernelFDA(reg=Tuned([0.03, 0.3, 3.0]), **options).fit(X, y)
    kernel = options["kernel"][model.tuning_.kernel]
    plain = KernelFDA(**options | {"kernel": kernel, "reg": Ridge(model.lambda_)})
    expected = plain.fit(X, y).decision_function(X_new)
    assert_allclose(model.decision_function(X_new), expected, rtol=1e-9, atol=1e-10)


def test_tuning_is_forgotten_by_the_next_fit():
    X, y, _ = with_new((10, 10), 4)
    model = KernelFDA(reg="tuned").fit(X, y)
    assert model.tuning_ is not None
    plain = model.set_params(reg=0.3).fit(X, y)
    assert plain.tuning_ is None
    # A penalty that looks at no label takes no account of groups.
    expected = plain.transform(X)
    assert_array_equal(plain.fit(X, y, groups=np.arange(20) % 2).transform(X), expected)


@pytest.mark.parametrize("reg", [Ridge(4.0), Tuned([Ridge(40.0), Ridge(4.0)])])
def test_cross_validating_the_estimator_gives_the_same(reg):
    X, y, _ = with_new((14, 14, 14), 10, seed=5)
    groups, cv, model = np.arange(42) % 5, LeaveOneGroupOut(), KernelFDA(reg=reg)
    result = cross_validate(X, y, groups=groups, reg=reg, cv=cv)
    for number, (train, test) in enumerate(cv.split(X, y, groups)):
        model.fit(X[train], y[train], groups=groups[train])
        assert_array_equal(result.predictions[test], model.predict(X[test]))
        found, direct = model.decision_function(X[test]), result.class_scores[test]
        assert_allclose(found, direct, rtol=1e-8, atol=1e-9 * np.abs(direct).max())
        lam = np.broadcast_to(result.lambdas, 5)[number]
        assert_allclose(model.lambda_, lam, rtol=1e-12, atol=0)


# --------------------------------------------------------- weights and decision values


FEW, MANY = 6, 90  # features, of 40 or so trials


def omega(p):
    factor = np.random.default_rng(3).normal(size=(p, p))
    return factor @ factor.T + np.eye(p)


def models(p):
    smooth = GraphSmooth(build.chain(p))
    return {
        "ridge": KernelFDA(),
        "weak": KernelFDA(reg=1e-3),
        "tuned": KernelFDA(reg="tuned"),
        "choice": KernelFDA(["linear", smooth], reg="tuned"),
        "priors": KernelFDA(priors="empirical"),
        "one component": KernelFDA(n_components=1),
        "graph": KernelFDA(smooth),
        "penalty": KernelFDA(Penalty(omega(p))),
        "dual": KernelFDA(penalty="dual"),
        "dual graph": KernelFDA(smooth, penalty="dual"),
        "map": KernelFDA(EmpiricalMap("linear")),
        "landmarks": KernelFDA(approx=Nystrom(9)),
        "landmarks of a graph": KernelFDA(smooth, approx=Nystrom(9)),
    }


@pytest.mark.some(30)
@pytest.mark.parametrize("counts", [(20, 20), (9, 25), (14, 9, 17), (7, 12, 10, 9)])
@pytest.mark.parametrize("p", [FEW, MANY])
@pytest.mark.parametrize("name", models(FEW))
def test_the_decision_function_is_affine_with_these_weights(counts, p, name):
    X, codes, X_new = with_new(counts, p)
    model = models(p)[name].fit(X, build.NAMES[codes])
    n_rows = 1 if len(counts) == 2 else len(counts)
    assert model.coef_.shape == (n_rows, p)
    assert model.intercept_.shape == (n_rows,)
    for rows in (X, X_new, np.zeros((1, p)), 100 * X_new):
        expected = model.decision_function(rows)
        found = rows @ model.coef_.T + model.intercept_
        found = found[:, 0] if n_rows == 1 else found
        assert_allclose(found, expected, rtol=1e-9, atol=1e-9 * np.abs(expected).max())
    assert np.abs(model.coef_).max() > 0


def test_other_kernels_have_no_weights():
    X, codes = build.features((20, 20), 2)
    radius = np.where(codes == 0, 0.1, 2.0)  # only the second kernel sees it
    X = radius[:, None] * X / np.linalg.norm(X, axis=1, keepdims=True)
    for options in (
        {"kernel": "rbf"},
        {"kernel": Polynomial(2)},
        {"kernel": "rbf", "penalty": "dual"},
        {"kernel": "rbf", "approx": Nystrom(9)},
        {"kernel": lambda X, Y: X @ Y.T},
        {"kernel": ["linear", RBF(1.0)], "reg": "tuned"},
    ):
        model = KernelFDA(**options).fit(X, codes)
        for name in ("coef_", "intercept_"):
            with pytest.raises(AttributeError, match="has no weights of feat"):
                getattr(model, name)
        again = model.set_params(kernel="linear", approx=None, reg=0.3).fit(X, codes)
        assert hasattr(again, "coef_")
    assert not hasattr(KernelFDA("precomputed").fit(X @ X.T, codes), "coef_")
    assert not hasattr(KernelFDA(), "coef_")
    with pytest.raises(NotFittedError, match="is not fitted yet"):
        KernelFDA().coef_  # noqa: B018


# ----------------------------------------------------------------- inside other tools


def test_pipelines_and_searches():
    X, y, X_new = with_new((15, 15, 15), 6, separation=1.5)
    pipeline = make_pipeline(StandardScaler(), KernelFDA())
    grid = {
        "kernelfda__kernel": ["linear", RBF(), Polynomial(degree=2)],
        "kernelfda__reg": [0.03, 0.3, Ridge(1.0)],
    }
    search = GridSearchCV(pipeline, grid, cv=3, error_score="raise").fit(X, y)
    assert search.best_score_ > 0.8
    assert len(np.unique(search.cv_results_["mean_test_score"])) > 1
    reduced = make_pipeline(KernelFDA(n_components=2), StandardScaler())
    assert reduced.fit_transform(X, y).shape == (45, 2)
    model = KernelFDA(GraphSmooth(chain(6)), "tuned").fit(X, y)
    assert clone(model).get_params() == model.get_params()
    loaded = pickle.loads(pickle.dumps(model))
    assert_array_equal(loaded.predict_proba(X_new), model.predict_proba(X_new))
    X[:, 2] += 9 * y
    assert RFE(KernelFDA(), n_features_to_select=1).fit(X, y).support_[2]


@pytest.mark.parametrize("counts", [(20, 20), (14, 9, 17)])
@pytest.mark.parametrize("penalty", ["rkhs", "dual"])
def test_mne_finds_filters_and_patterns(counts, penalty):
    X, codes = build.features(counts, FEW)
    X = X * np.arange(1, FEW + 1) + 5.0
    model = LinearModel(KernelFDA(penalty=penalty)).fit(X, codes)
    alone = KernelFDA(penalty=penalty).fit(X, codes)
    assert_allclose(get_coef(model, "filters_"), np.squeeze(alone.coef_), rtol=1e-12)
    pattern = np.cov(X.T) @ alone.coef_.T
    assert_allclose(get_coef(model, "patterns_"), np.squeeze(pattern.T), rtol=1e-9)
    assert_array_equal(model.predict(X), alone.predict(X))
    assert_array_equal(get_coef(alone, "coef_"), alone.coef_)


# --------------------------------------------------------------------------- bad input


def broken(X, where, value):
    X = X.astype(np.result_type(X, type(value)))
    X[where] = value
    return X


@pytest.mark.parametrize(
    ("change", "match"),
    [
        (lambda X, y: (broken(X, (0, 0), np.nan), y), "contains NaN"),
        (lambda X, y: (X + 1j, y), "Complex data not supported"),
        (lambda X, y: (X, np.zeros(len(y))), "one class only"),
        (lambda X, y: (X[:1], y[:1]), "1 sample"),
        (lambda X, y: (X, y[:-1]), "inconsistent numbers of samples"),
        (lambda X, y: (X, X[:, 0]), "continuous"),
        (lambda X, y: (np.full_like(X, 0.1), y), "trials do not differ"),
        (lambda X, y: (X[0], y), "Expected 2D array"),
    ],
)
def test_bad_data(change, match):
    X, y, _ = with_new((10, 10, 10), 5)
    with pytest.raises(ValueError, match=match):
        KernelFDA(reg=0.3).fit(*change(X, y))


@pytest.mark.parametrize(
    ("params", "error", "match"),
    [
        ({"reg": 0}, ValueError, "Invalid value for 'reg': 0.*above zero"),
        ({"reg": 1e-18, "kernel": linear_kernel}, ValueError, "lambda = .* is too sma"),
        ({"penalty": "l2"}, ValueError, "'penalty': 'l2'. Allowed: 'rkhs', 'dual'"),
        ({"approx": Nystrom(31), "kernel": "rbf"}, ValueError, "than the 30 trials"),
        ({"approx": Nystrom(4), "penalty": "dual"}, ValueError, "'dual' .* Leave out"),
        (
            {"approx": Nystrom(4), "kernel": "precomputed"},
            ValueError,
            "kernel='precomputed'",
        ),
        ({"kernel": ["rbf", "linear"]}, ValueError, "2 kernels needs reg='tuned'"),
        ({"kernel": "cubic"}, ValueError, "Invalid value for 'kernel': 'cubic'"),
        ({"priors": "uniform"}, ValueError, "Invalid value for 'priors': 'uniform'"),
        ({"priors": [0.5, 0.5]}, ValueError, "3 numbers above zero, one per class"),
        ({"priors": [0.5, 0.5, 0.5]}, ValueError, "that sum to one"),
        ({"priors": [0.5, 0.5, 0.0]}, ValueError, "leave its trials out of fit"),
        ({"priors": ["a", "b", "c"]}, ValueError, "3 numbers above zero"),
        ({"priors": [[0.5], [0.2, 0.3]]}, ValueError, "3 numbers above zero"),
        ({"n_components": 3}, ValueError, "'n_components': 3. Allowed: at most 2"),
    ],
)
def test_bad_parameters(params, error, match):
    X, y, _ = with_new((10, 10, 10), 5)
    model = KernelFDA(**params)  # nothing is refused before fit
    X = X @ X.T if params.get("kernel") == "precomputed" else X
    with pytest.raises(error, match=match):
        model.fit(X, y)


def test_bad_matrices_and_groups():
    X, y, X_new = with_new((10, 10, 10), 5)
    K, model = linear_kernel(X), KernelFDA("precomputed")
    with pytest.raises(ValueError, match="must be square"):
        model.fit(K[:, :-1], y)
    with pytest.raises(ValueError, match="symmetric kernel matrix"):
        model.fit(np.triu(K), y)
    model.fit(K, y)
    with pytest.raises(ValueError, match="expecting 30 features"):
        model.predict(linear_kernel(X_new, X[:-1]))
    with pytest.raises(ValueError, match="groups must hold one value per trial"):
        KernelFDA(reg="tuned").fit(X, y, groups=np.zeros(29))


def test_rounding_is_not_passed_off_as_a_result():
    X, y, X_new = with_new((100, 100, 100), 20)
    with pytest.raises(ValueError, match="lost to rounding"):
        KernelFDA(linear_kernel, reg=1e-12).fit(X, y)
    # From the features it is well determined, down to no penalty at all.
    model = KernelFDA(reg=1e-12).fit(X, y)
    scores = primal_scores(X, y, X_new, model.lambda_)
    found = model.decision_function(X_new)
    assert_allclose(found, scores, rtol=1e-8, atol=1e-9 * np.abs(scores).max())
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
