"""Nystrom approximations against the kernels that they stand for."""

import pickle
import tracemalloc
import warnings

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.cluster import KMeans
from sklearn.metrics.pairwise import euclidean_distances, rbf_kernel

from mvpa_kfda import RBF, Linear, Polynomial, cross_validate
from mvpa_kfda.kfda import kernels
from mvpa_kfda.kfda.direct import apply, prepare
from mvpa_kfda.kfda.folds import make_folds
from mvpa_kfda.kfda.hat import hat_from_features, make_hat
from mvpa_kfda.kfda.kernels import (
    SAMPLING,
    KernelChoice,
    Nystrom,
    approximated,
    check_kernel,
)

every_sampling = pytest.mark.parametrize("sampling", SAMPLING)


def make_data(n=150, p=5, seed=0):
    """Return features on a curved sheet, with an offset, and three classes."""
    rng = np.random.default_rng(seed)
    where = rng.normal(size=(n, 2))
    X = np.tanh(where @ rng.normal(size=(2, p))) + 0.1 * rng.normal(size=(n, p)) + 3.0
    radius = np.hypot(*where.T)
    return X, np.digitize(radius, np.quantile(radius, [1 / 3, 2 / 3]))


def predict(hat, y):
    """Return cross-validated predictions and class scores, three label vectors."""
    rng = np.random.default_rng(1)
    labels = np.stack([y, rng.permutation(y), rng.permutation(y)])
    folds = make_folds(5, y)
    return apply(prepare(hat, folds), labels, 3, want_scores=True)


def relative_error(sampling, r, X, K, seed=0):
    """Return the Frobenius norm of the error of an approximation, relative to K."""
    kernel = Nystrom(r, sampling, seed).approximate(RBF()).fit(X)
    return np.linalg.norm(kernel(X) - K) / np.linalg.norm(K)


def gaussian_function(X, Y):
    """Return a kernel matrix as a user's own function does."""
    return rbf_kernel(X, Y, gamma=0.2)


@every_sampling
@pytest.mark.parametrize(
    "kernel", [Linear(), RBF(), RBF(None), Polynomial(2), gaussian_function]
)
def test_full_rank_is_exact(kernel, sampling):
    X, y = make_data()
    kernel = check_kernel(kernel)
    exact = predict(make_hat(X, kernel, 0.3), y)
    low_rank = Nystrom(len(X), sampling).approximate(kernel).fit(X)
    landmarks = low_rank.basis + low_rank.offset
    assert_allclose(landmarks, X, rtol=0, atol=1e-12)
    direct = predict(hat_from_features(low_rank.features(X), 0.3), y)
    assert_allclose(direct.class_scores, exact.class_scores, rtol=0, atol=1e-8)
    assert_array_equal(direct.predicted, exact.predicted)
    K = kernel.fit(X)(X)
    if kernel != Linear():  # which is of the centred features
        assert_allclose(low_rank(X), K, rtol=0, atol=1e-10 * K.max())


def test_folds_of_any_size_are_those_of_the_approximated_matrix():
    X, y = make_data(n=1000)
    kernel = Nystrom(20).approximate(RBF())
    options = {"reg": 0.01, "n_permutations": 3, "random_state": 0}
    K = kernel(X)
    for cv in (2, 200):  # by their features, and by their blocks of the matrix
        found = cross_validate(X, y, kernel=RBF(), approx=Nystrom(20), cv=cv, **options)
        exact = cross_validate(K, y, kernel="precomputed", cv=cv, **options)
        assert_allclose(found.class_scores, exact.class_scores, rtol=0, atol=1e-6)
        assert_allclose(found.null, exact.null, rtol=0, atol=1e-3)


@every_sampling
def test_error_falls_with_rank(sampling):
    X, y = make_data()
    K = RBF().fit(X)(X)
    exact = predict(make_hat(X, RBF(), 0.3), y).class_scores
    of_kernel, of_scores = [], []
    for r in (5, 20, 80, 149):
        of_kernel.append(relative_error(sampling, r, X, K))
        features = Nystrom(r, sampling).approximate(RBF()).features(X)
        scores = predict(hat_from_features(features, 0.3), y).class_scores
        of_scores.append(np.abs(scores - exact).max() / np.abs(exact).max())
    for errors in (of_kernel, of_scores):
        # Each is at most half of the one before.
        assert (np.array(errors[1:]) < 0.5 * np.array(errors[:-1])).all(), errors
    assert of_kernel[2] < 0.01


@every_sampling
def test_formula(sampling):
    X, _ = make_data()
    kernel = Nystrom(12, sampling).approximate(RBF(0.4)).fit(X)
    Z = kernel.basis + kernel.offset
    assert Z.shape == (12, 5)
    new = X[:7] + 0.1

    def cross(A, B):
        return rbf_kernel(A, B, gamma=0.4)

    expected = cross(new, Z) @ np.linalg.solve(cross(Z, Z), cross(Z, X))
    assert_allclose(kernel(new, X), expected, rtol=0, atol=1e-9)
    expected = cross(X, Z) @ np.linalg.solve(cross(Z, Z), cross(Z, X))
    assert_allclose(kernel(X), expected, rtol=0, atol=1e-9)
    features = kernel.features(X)
    assert_allclose(features @ features.T, expected, rtol=0, atol=1e-9)


@every_sampling
def test_size_of_blocks_changes_nothing(sampling, monkeypatch):
    X, _ = make_data()
    expected = Nystrom(12, sampling).approximate("rbf").features(X)
    monkeypatch.setattr(kernels, "_BLOCK_VALUES", 12 * 7)  # seven rows, then three
    features = Nystrom(12, sampling).approximate("rbf").features(X)
    assert_allclose(features, expected, rtol=0, atol=1e-10)


def test_random_landmarks_are_different_trials():
    X, _ = make_data()
    kernel = Nystrom(100, "uniform").approximate("rbf").fit(X)
    Z = kernel.basis + kernel.offset
    distances = np.abs(Z[:, np.newaxis] - X).max(axis=2)
    assert distances.min(axis=1).max() < 1e-12
    assert len(np.unique(distances.argmin(axis=1))) == 100


def test_landmarks_are_centres_of_clusters():
    rng = np.random.default_rng(0)
    X = np.repeat([[0.0, 0.0], [9.0, 0.0]], 30, axis=0) + 0.1 * rng.normal(size=(60, 2))
    kernel = Nystrom(2).approximate(RBF(0.1)).fit(X)
    Z = kernel.basis + kernel.offset
    expected = [X[:30].mean(axis=0), X[30:].mean(axis=0)]
    assert_allclose(Z[np.argsort(Z[:, 0])], expected, rtol=0, atol=1e-12)


def test_few_steps_of_clustering_are_enough():
    X, _ = make_data(n=1000)
    kernel = Nystrom(20).approximate("rbf").fit(X)
    distances = euclidean_distances(X, kernel.basis + kernel.offset, squared=True)
    converged = KMeans(20, n_init=1, random_state=0).fit(X)
    assert distances.min(axis=1).sum() < 1.05 * converged.inertia_


def test_clusters_are_better_landmarks_than_random_trials():
    X, _ = make_data(n=400)
    K = RBF().fit(X)(X)
    errors = {
        sampling: [relative_error(sampling, 20, X, K, seed) for seed in range(5)]
        for sampling in ("kmeans", "uniform")
    }
    assert max(errors["kmeans"]) < min(errors["uniform"])


@every_sampling
def test_seed(sampling):
    X, _ = make_data()

    def features(seed):
        return Nystrom(10, sampling, seed).approximate("rbf").features(X)

    assert_array_equal(features(3), features(3))
    first = features(3)
    assert first.shape != features(4).shape or not np.allclose(first, features(4))
    assert not np.allclose(features(None), features(None))


@every_sampling
def test_offset_of_the_features_costs_no_digits(sampling):
    X, _ = make_data()
    kernel = Nystrom(10, sampling).approximate("rbf")
    expected = kernel.fit(X)(X)
    # The offset itself costs the data some digits.
    assert_allclose(kernel.fit(X + 1e5)(X + 1e5), expected, rtol=0, atol=1e-6)
    assert kernel.shift_free
    assert not Nystrom(10).approximate("polynomial").shift_free


def test_median_distance_is_that_of_all_trials_or_of_2000():
    X, _ = make_data(n=2000)
    fitted = Nystrom(5).approximate(RBF()).fit(X).kernel
    assert_allclose(fitted.gamma, RBF().fit(X).gamma, rtol=1e-10)
    X, _ = make_data(n=2500)
    fitted = Nystrom(5).approximate(RBF()).fit(X).kernel
    exact = RBF().fit(X).gamma
    assert fitted.gamma != pytest.approx(exact, rel=1e-10)
    assert fitted.gamma == pytest.approx(exact, rel=0.05)


def test_null_directions_are_dropped():
    X, _ = make_data()
    assert Nystrom(40).approximate("linear").features(X).shape == (150, 5)
    twice = np.repeat(X[:20], 2, axis=0)
    kernel = Nystrom(40).approximate(RBF(0.5)).fit(twice)
    features = kernel.features(twice)
    assert features.shape[1] <= 20
    assert_allclose(kernel(twice), RBF(0.5)(twice), rtol=0, atol=1e-10)
    # As many clusters as there are different trials, and more.
    few = np.repeat(X[:5], 8, axis=0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        kernel = Nystrom(12).approximate(RBF(0.5)).fit(few)
    assert_allclose(kernel(few), RBF(0.5)(few), rtol=0, atol=1e-10)


def peak_bytes(function, *args):
    """Return what a function allocates at its peak."""
    tracemalloc.start()
    try:
        function(*args)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_memory_of_features():
    X, _ = make_data(n=20_000)
    kernel = Nystrom(50).approximate(RBF())
    peak = peak_bytes(kernel.features, X)
    assert peak < 0.06 * 8 * len(X) ** 2  # 2000 trials have their distances taken


def test_memory_of_blocks(monkeypatch):
    X, _ = make_data(n=5000)
    kernel = Nystrom(100, "uniform").approximate(RBF(0.5)).fit(X)
    monkeypatch.setattr(kernels, "_BLOCK_VALUES", 2**14)
    size = 8 * 5000 * 100
    assert size <= peak_bytes(kernel.features, X) < 1.3 * size


@every_sampling
def test_memory_of_decoding(sampling):
    X, y = make_data(n=4000)

    def decode():
        approx = Nystrom(50, sampling)
        cross_validate(X, y, kernel=RBF(0.5), approx=approx, cv=5)

    assert peak_bytes(decode) < 0.2 * 8 * len(X) ** 2


def test_several_kernels():
    approx = Nystrom(10, "uniform")
    choice = approx.approximate([RBF(0.1), "linear", Polynomial(2)])
    assert isinstance(choice, KernelChoice)
    assert [kernel.kernel for kernel in choice.kernels] == [
        RBF(0.1),
        Linear(),
        Polynomial(2),
    ]
    assert choice.low_rank
    assert all(kernel.approx == approx for kernel in choice.kernels)


def test_kernel_of_columns_is_fitted_anew():
    X, _ = make_data()
    fitted = Nystrom(10).approximate(RBF(0.1)).fit(X)
    fresh = Nystrom(10).approximate(RBF(0.1))
    assert_array_equal(fitted.take([0, 2])(X[:, [0, 2]]), fresh(X[:, [0, 2]]))
    twice = np.hstack([X, X])
    assert_array_equal(fitted.repeated(2)(twice), fresh(twice))


def test_fitted_kernel_is_fixed():
    X, _ = make_data()
    kernel = Nystrom(10).approximate("rbf")
    fitted = kernel.fit(X)
    assert kernel.basis is None
    assert kernel.low_rank
    assert not kernel.is_linear
    # Of 30 rows as of all of them: the landmarks stay.
    assert_allclose(fitted(X[:30]), fitted(X)[:30, :30], rtol=0, atol=1e-12)
    assert_array_equal(pickle.loads(pickle.dumps(fitted))(X), fitted(X))
    expected = (
        "LowRank(kernel=RBF(gamma='median'), approx=Nystrom(n_components=10, "
        "sampling='kmeans', random_state=0))"
    )
    assert repr(kernel) == expected


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"n_components": 0}, "'n_components': 0. Allowed: a whole number"),
        ({"n_components": 2.5}, "'n_components': 2.5. Allowed: a whole number"),
        ({"sampling": "random"}, "'sampling': 'random'. Allowed: 'kmeans', 'uniform'"),
        ({"random_state": -1}, "'random_state': -1. Allowed: a whole number"),
    ],
)
def test_bad_parameters(arguments, message):
    with pytest.raises(ValueError, match=message):
        Nystrom(**{"n_components": 5, **arguments})


def test_what_cannot_be_approximated():
    with pytest.raises(ValueError, match="needs features to choose landmarks from"):
        Nystrom(5).approximate("precomputed")
    with pytest.raises(ValueError, match="is an approximation already"):
        Nystrom(5).approximate(Nystrom(9).approximate("rbf"))
    with pytest.raises(TypeError, match="Invalid value for 'kernel': 3"):
        Nystrom(5).approximate(3)


def test_approximation_if_wanted():
    assert approximated(RBF(0.1), Nystrom(5)) == Nystrom(5).approximate(RBF(0.1))
    for wrong in (100, "nystrom", Nystrom):
        with pytest.raises(TypeError, match="Invalid value for 'approx'"):
            approximated(RBF(0.1), wrong)


def minus_distance(X, Y):
    """Return similarities that are no kernel."""
    return -np.abs(X[:, np.newaxis] - Y).sum(axis=2)


def lopsided(X, Y):
    """Return values that depend on the order of their arguments."""
    return X @ Y.T + X[:, :1]


def test_matrices_that_are_no_kernel():
    X, _ = make_data()
    with pytest.raises(ValueError, match="not positive semi-definite: its matrix of"):
        Nystrom(10).approximate(minus_distance).fit(X)
    with pytest.raises(ValueError, match="must be a symmetric kernel matrix"):
        Nystrom(10).approximate(lopsided).fit(X)
    with (
        pytest.raises(ValueError, match="overflows double precision"),
        np.errstate(over="ignore"),
    ):
        Nystrom(10).approximate(Polynomial(200, 1e9)).fit(X)


@every_sampling
def test_trials_that_do_not_differ(sampling):
    X = np.ones((30, 4))
    for kernel in ("linear", RBF(0.1)):
        features = Nystrom(10, sampling).approximate(kernel).features(X)
        with pytest.raises(ValueError, match="The trials do not differ"):
            hat_from_features(features, 0.3)


def test_numbers_are_fixed_by_trials_from_anywhere(monkeypatch):
    # Trials often come class by class: the first ones may be much closer together.
    monkeypatch.setattr(kernels, "_FIT_ROWS", 40)
    X = np.random.default_rng(0).standard_normal((400, 3))
    X[:40] *= 1e-3
    gamma = approximated(RBF(), Nystrom(10, "uniform")).fit(X).kernel.gamma
    assert_allclose(gamma, RBF().fit(X).gamma, rtol=0.5)
