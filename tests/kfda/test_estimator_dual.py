"""KernelFDA: the penalty on dual coefficients, landmarks, and chosen penalties."""

import pickle
import tracemalloc

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.linalg import eigh
from sklearn.base import clone
from sklearn.metrics.pairwise import linear_kernel, polynomial_kernel, rbf_kernel
from sklearn.model_selection import (
    GridSearchCV,
    LeaveOneGroupOut,
    LeaveOneOut,
    StratifiedKFold,
    cross_val_predict,
)
from sklearn.utils.estimator_checks import parametrize_with_checks

from mvpa_kfda import (
    RBF,
    DegreesOfFreedom,
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
from tests import reference
from tests.build import chain, with_new

SIZES = {
    "2 classes": (20, 20),
    "3 classes, unbalanced": (30, 8, 6),
    "6 classes, unbalanced": (14, 3, 9, 5, 11, 8),
}
GRAMS = {
    "linear": ("linear", linear_kernel),
    "rbf": (RBF(0.05), lambda X, Y: rbf_kernel(X, Y, gamma=0.05)),
    "polynomial": (
        Polynomial(2, 0.1),
        lambda X, Y: polynomial_kernel(X, Y, degree=2, gamma=0.1),
    ),
}


@pytest.mark.some(46)
@parametrize_with_checks(
    [
        KernelFDA("rbf", penalty="dual"),
        KernelFDA("rbf", approx=Nystrom(2, "uniform")),
        KernelFDA(["linear", "rbf"], reg="tuned"),
    ]
)
def test_sklearn_checks(estimator, check):
    check(estimator)


# --- the penalty on the dual coefficients -----------------------------------------


class TextbookKFDA:
    """Multi-class kernel Fisher discriminants with the penalty mu I on N.

    Columns of the kernel matrix are the trials' coordinates. With their class means
    m_k, B = sum_k n_k (m_k - m)(m_k - m)' and N = sum of (k_i - m_k)(k_i - m_k)',
    B a = rho (N + mu I) a. A trial is projected by sum_j a_j k(x, x_j), and belongs
    to the nearest class mean.
    """

    def __init__(self, K, y, mu):
        self.classes = np.unique(y)
        self.mean = K.mean(axis=0)
        class_means = np.array([K[y == k].mean(axis=0) for k in self.classes])
        between, self.within = np.zeros_like(K), np.zeros_like(K)
        for k, mean in zip(self.classes, class_means, strict=True):
            offset = mean - self.mean
            between += np.sum(y == k) * np.outer(offset, offset)
            for row in K[y == k]:
                self.within += np.outer(row - mean, row - mean)
        self.penalised = self.within + mu * np.eye(len(K))
        values, vectors = eigh(between, self.penalised)
        n_components = len(self.classes) - 1
        self.ratio = values[::-1][:n_components]
        self.dual = vectors[:, ::-1][:, :n_components]
        self.means = self.project(class_means)

    def project(self, K_new):
        return (K_new - self.mean) @ self.dual

    def predict(self, K_new):
        Z = self.project(K_new)
        distances = np.square(Z[:, None] - self.means[None]).sum(axis=2)
        return self.classes[distances.argmin(axis=1)]


@pytest.mark.parametrize("sizes", SIZES.values(), ids=SIZES)
@pytest.mark.parametrize("name", GRAMS)
@pytest.mark.parametrize("mu", [0.1, 30.0])
def test_dual_penalty_is_the_textbook(name, sizes, mu):
    X, y, X_new = with_new(sizes, 12)
    kernel, gram = GRAMS[name]
    model = KernelFDA(kernel, Ridge(mu), penalty="dual").fit(X, y)
    textbook = TextbookKFDA(gram(X, X), y, mu)
    K_new = gram(X_new, X)
    signs = np.sign(np.sum(textbook.dual * model.dual_coef_, axis=0))
    assert_allclose(
        model.dual_coef_,
        textbook.dual * signs,
        rtol=1e-5,
        atol=1e-6 * np.abs(textbook.dual).max(),
    )
    Z = textbook.project(K_new) * signs
    scale = np.abs(Z).max()
    assert_allclose(model.transform(X_new), Z, rtol=1e-6, atol=1e-7 * scale)
    assert_allclose(model.means_, textbook.means * signs, rtol=1e-6, atol=1e-7 * scale)
    assert_array_equal(model.predict(X_new), textbook.predict(K_new))
    shares = textbook.ratio / textbook.ratio.sum()
    assert_allclose(model.explained_variance_ratio_, shares, rtol=1e-6, atol=1e-8)
    A = model.dual_coef_
    assert_allclose(
        A.T @ textbook.penalised @ A, np.eye(len(sizes) - 1), rtol=0, atol=1e-7
    )
    assert isinstance(model.kernel_, EmpiricalMap)
    assert_array_equal(model.X_fit_, X if name != "rbf" else X - X.mean(axis=0))
    assert model.scalings_ is None
    # It is not the penalty in feature space.
    other = KernelFDA(kernel, Ridge(mu)).fit(X, y).transform(X_new)
    assert np.abs(other - Z).max() > 1e-3 * scale


def test_dual_penalty_of_a_precomputed_kernel():
    X, y, X_new = with_new((14, 14, 14), 9)
    K, K_new = (polynomial_kernel(each, X) for each in (X, X_new))
    expected = KernelFDA("polynomial", penalty="dual").fit(X, y)
    model = KernelFDA("precomputed", penalty="dual").fit(K, y)
    assert_allclose(model.lambda_, expected.lambda_, rtol=1e-10, atol=0)
    assert_allclose(
        model.decision_function(K_new),
        expected.decision_function(X_new),
        rtol=1e-6,
        atol=1e-8,
    )
    assert model.__sklearn_tags__().input_tags.pairwise
    assert KernelFDA(EmpiricalMap("precomputed")).__sklearn_tags__().input_tags.pairwise
    assert not KernelFDA(EmpiricalMap()).__sklearn_tags__().input_tags.pairwise
    with pytest.raises(ValueError, match="must be square"):
        model.fit(X, y)


def test_dual_penalty_by_name_and_by_map():
    X, y, X_new = with_new((14, 14, 14), 9)
    by_name = KernelFDA("rbf", penalty="dual", n_components=1).fit(X, y)
    by_map = KernelFDA(EmpiricalMap("rbf"), n_components=1).fit(X, y)
    assert_array_equal(by_name.transform(X_new), by_map.transform(X_new))
    assert by_name.dual_coef_.shape == (42, 1)
    gamma = RBF().fit(X).gamma
    assert by_name.kernel_.kernel.gamma == pytest.approx(gamma, rel=1e-12)


def test_direct_functions_keep_the_left_out_trials_as_basis():
    """And are exact in all else."""
    X, y, _ = with_new((16, 16, 16), 6)
    kernel, reg, cv = RBF(0.1), Ridge(0.3), StratifiedKFold(4)
    result = cross_validate(X, y, kernel=EmpiricalMap(kernel), reg=reg, cv=cv)
    # Refitted on columns of the kernel matrix of all trials.
    columns = rbf_kernel(X, gamma=0.1)
    options = {"cv": cv, "method": "decision_function"}
    refitted = cross_val_predict(KernelFDA(reg=reg), columns, y, **options)
    assert_allclose(result.class_scores, refitted, rtol=1e-8, atol=1e-9)
    # Refitted with a basis of training trials only: close, and not the same.
    model = KernelFDA(kernel, reg, penalty="dual")
    smaller = cross_val_predict(model, X, y, **options)
    difference = np.abs(smaller - result.class_scores).max()
    assert 1e-6 < difference < 0.5 * np.abs(smaller).max()


# --- features instead of a kernel matrix -------------------------------------------


@pytest.mark.parametrize("sizes", SIZES.values(), ids=SIZES)
@pytest.mark.parametrize("p", [4, 12])
@pytest.mark.parametrize("kind", ["linear", "penalty", "graph"])
def test_features_do_as_the_kernel_matrix(kind, p, sizes):
    X, y, X_new = with_new(sizes, p)
    kernel = {
        "linear": Linear(),
        "penalty": Penalty(np.diag(np.arange(1.0, p + 1))),
        "graph": GraphSmooth(chain(p)),
    }[kind]
    model = KernelFDA(kernel, reg=0.1).fit(X, y)
    other = KernelFDA("precomputed", reg=0.1).fit(kernel(X), y)
    tolerance = {"rtol": 1e-8, "atol": 1e-9}
    assert_allclose(model.lambda_, other.lambda_, rtol=1e-10, atol=0)
    assert_allclose(
        model.degrees_of_freedom_, other.degrees_of_freedom_, rtol=1e-10, atol=0
    )
    assert_allclose(
        model.decision_function(X_new),
        other.decision_function(kernel(X_new, X)),
        **tolerance,
    )
    Z = model.transform(X_new)
    assert_allclose(Z, other.transform(kernel(X_new, X)), **tolerance)
    assert_allclose(model.means_, other.means_, **tolerance)
    assert_allclose(
        model.explained_variance_ratio_, other.explained_variance_ratio_, **tolerance
    )
    # Both kinds of weights carry the discriminants.
    assert_allclose((X_new - X.mean(axis=0)) @ model.scalings_, Z, **tolerance)
    centred = kernel(X_new, X) - kernel(X).mean(axis=0)
    assert_allclose(centred @ model.dual_coef_, Z, **tolerance)
    assert_allclose(model.dual_coef_, other.dual_coef_, rtol=1e-6, atol=1e-8)
    assert other.scalings_ is None


def test_features_are_used_where_they_are_cheaper(monkeypatch):
    """Many trials of a linear kernel: no array of (n, n)."""
    X, y, X_new = with_new((1500, 1500), 6)
    tracemalloc.start()
    model = KernelFDA().fit(X, y)
    model.predict(X_new)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 3000**2 * 8 / 10
    assert model.n_features_in_ == 6


def test_scalings_only_of_linear_kernels():
    X, y, _ = with_new((10, 10, 10), 5)
    assert KernelFDA(n_components=1).fit(X, y).scalings_.shape == (5, 1)
    wide = np.tile(X, 8) + np.random.default_rng(0).standard_normal((30, 40))
    assert KernelFDA(n_components=1).fit(wide, y).scalings_.shape == (40, 1)
    for model in (KernelFDA("rbf"), KernelFDA(linear_kernel)):
        assert model.fit(X, y).scalings_ is None


# --- landmarks -------------------------------------------------------------------


@pytest.mark.parametrize("sizes", SIZES.values(), ids=SIZES)
@pytest.mark.parametrize("kernel", [RBF(0.1), RBF(), "linear", Polynomial(2, 0.1)])
def test_all_landmarks_are_exact(kernel, sizes):
    X, y, X_new = with_new(sizes, 60)
    exact = KernelFDA(kernel, reg=0.1).fit(X, y)
    model = KernelFDA(kernel, reg=0.1, approx=Nystrom(len(X))).fit(X, y)
    tolerance = {"rtol": 1e-6, "atol": 1e-7}
    assert_allclose(model.lambda_, exact.lambda_, rtol=1e-9, atol=0)
    assert_allclose(
        model.degrees_of_freedom_, exact.degrees_of_freedom_, rtol=1e-8, atol=0
    )
    # The span of the training trials holds all that new ones are projected on.
    Z = exact.transform(X_new)
    assert_allclose(model.transform(X_new), Z, **tolerance)
    assert_array_equal(model.predict(X_new), exact.predict(X_new))
    assert_allclose(model.dual_coef_, exact.dual_coef_, rtol=1e-5, atol=1e-7)
    assert model.X_fit_ is None
    assert model.scalings_ is None


def test_few_landmarks():
    X, y, X_new = with_new((60, 60, 60), 5)
    exact = KernelFDA(RBF(0.1)).fit(X, y).decision_function(X_new)
    errors = []
    for r in (5, 20, 80, 180):
        model = KernelFDA(RBF(0.1), approx=Nystrom(r)).fit(X, y)
        errors.append(np.abs(model.decision_function(X_new) - exact).max())
        # What it says of itself holds for the approximate kernel.
        K = model.kernel_(X)
        assert_allclose(
            model.transform(X_new),
            (model.kernel_(X_new, X) - K.mean(axis=0)) @ model.dual_coef_,
            rtol=1e-7,
            atol=1e-8,
        )
    assert errors == sorted(errors, reverse=True)
    assert errors[-1] < 1e-6 * errors[0]


@pytest.mark.parametrize("reg", [0.3, Tuned(grid=[0.1, 1.0])], ids=repr)
def test_landmarks_make_no_square_array(reg):
    X, y, X_new = with_new((2000, 2000), 3)
    model = KernelFDA(RBF(0.2), reg, approx=Nystrom(12, "uniform"))
    tracemalloc.start()
    model.fit(X, y).predict(X_new)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 4000**2 * 8 / 5 if isinstance(reg, float) else 4000**2 * 8 / 2
    assert len(pickle.dumps(model)) < 4000 * 30 * 8  # nor is one kept


def test_landmarks_do_not_go_with_everything():
    X, y, _ = with_new((10, 10), 5)
    approx = Nystrom(4)
    with pytest.raises(ValueError, match=r"penalty='dual' .* Leave out one"):
        KernelFDA("rbf", penalty="dual", approx=approx).fit(X, y)
    with pytest.raises(ValueError, match="kernel='precomputed'"):
        KernelFDA("precomputed", approx=approx).fit(linear_kernel(X), y)
    with pytest.raises(ValueError, match="more landmarks than the 20 trials"):
        KernelFDA("rbf", approx=Nystrom(21)).fit(X, y)


# --- penalties that are worked out -------------------------------------------------


def trace_of_hat(K, lam):
    """tr(G) by the definition."""
    n = len(K)
    J = np.eye(n) - 1 / n
    K = J @ K @ J
    return 1 + np.trace(K @ np.linalg.inv(K + lam * np.eye(n)))


@pytest.mark.parametrize("p", [5, 60])
@pytest.mark.parametrize("kernel", [Linear(), RBF(0.05), GraphSmooth, EmpiricalMap()])
def test_degrees_of_freedom(kernel, p):
    X, y, _ = with_new((15, 15, 15), p)
    kernel = kernel(chain(p)) if kernel is GraphSmooth else kernel
    for reg in (0.01, 3.0, Ridge(2.0), DegreesOfFreedom(3.5)):
        model = KernelFDA(kernel, reg).fit(X, y)
        assert_allclose(
            model.degrees_of_freedom_,
            trace_of_hat(kernel(X), model.lambda_),
            rtol=1e-7,
            atol=0,
        )
    assert_allclose(model.degrees_of_freedom_, 3.5, rtol=1e-8, atol=0)


# --- penalties and kernels that are chosen -----------------------------------------


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


def test_each_kernel_of_a_list_is_shifted_by_its_own_rules():
    X, y, X_new = with_new((20, 20), 3)
    kernels = [Polynomial(2, 1.0), RBF()]
    model = KernelFDA(kernels, "tuned").fit(X, y)
    chosen = kernels[model.tuning_.kernel]
    plain = KernelFDA(chosen, Ridge(model.lambda_)).fit(X, y)
    assert_array_equal(model.transform(X_new), plain.transform(X_new))
    assert_array_equal(model.X_fit_, plain.X_fit_)


def test_tuned_with_the_other_options():
    X, y, X_new = with_new((20, 20, 20, 20), 5)
    tuned = Tuned(grid=[0.03, 0.3, 3.0])
    for options in (
        {"kernel": ["rbf", RBF(0.1)], "penalty": "dual"},
        {"kernel": ["rbf", RBF(0.1)], "approx": Nystrom(15)},
        {"kernel": GraphSmooth(chain(5)), "n_components": 1},
    ):
        model = KernelFDA(reg=tuned, **options).fit(X, y)
        kernel = options.pop("kernel")
        if isinstance(kernel, list):
            kernel = kernel[model.tuning_.kernel]
        plain = KernelFDA(kernel, Ridge(model.lambda_), **options).fit(X, y)
        assert_allclose(
            model.decision_function(X_new),
            plain.decision_function(X_new),
            rtol=1e-9,
            atol=1e-10,
        )


def test_tuning_is_forgotten_by_the_next_fit():
    X, y, _ = with_new((10, 10), 4)
    model = KernelFDA(reg="tuned").fit(X, y)
    assert model.tuning_ is not None
    assert model.set_params(reg=0.3).fit(X, y).tuning_ is None


def test_groups_are_checked():
    X, y, _ = with_new((10, 10), 4)
    with pytest.raises(ValueError, match="groups must hold one value per trial"):
        KernelFDA(reg="tuned").fit(X, y, groups=np.zeros(19))
    # Without tuning they change nothing.
    plain = KernelFDA().fit(X, y, groups=np.arange(20) % 2)
    assert_array_equal(plain.transform(X), KernelFDA().fit(X, y).transform(X))


def test_clone_pickle_and_search():
    X, y, X_new = with_new((15, 15, 15), 6, separation=1.5)
    model = KernelFDA(GraphSmooth(chain(6)), "tuned").fit(X, y)
    copy = clone(model)
    assert copy.get_params() == model.get_params()
    loaded = pickle.loads(pickle.dumps(model))
    assert_array_equal(loaded.predict_proba(X_new), model.predict_proba(X_new))
    grid = {
        "kernel": [GraphSmooth(chain(6)), RBF(), ["linear", "rbf"]],
        "penalty": ["rkhs", "dual"],
    }
    search = GridSearchCV(KernelFDA(reg="tuned"), grid, cv=3, error_score="raise")
    assert search.fit(X, y).best_score_ > 0.8
