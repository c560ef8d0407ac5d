"""Kernels: names, maps, landmarks, and quadratic penalties on the weights."""

import copy
import pickle
import warnings

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn.feature_extraction.image import grid_to_graph
from sklearn.metrics import pairwise
from sklearn.metrics.pairwise import rbf_kernel

from mvpa_kfda import (
    RBF,
    EmpiricalMap,
    Linear,
    Polynomial,
    cross_validate,
)
from mvpa_kfda.kfda import kernels
from mvpa_kfda.kfda.kernels import (
    KERNELS,
    SAMPLING,
    Callable,
    GraphSmooth,
    Kernel,
    KernelChoice,
    Nystrom,
    Penalty,
    Precomputed,
    approximated,
    check_feature_kernel,
    check_kernel,
)
from tests import build


@pytest.fixture
def X():
    """Return features with an offset, (12, 5)."""
    return np.random.default_rng(0).standard_normal((12, 5)) + 3.0


def test_gram_matrices_are_scikit_learns(X):
    Y = X[:4] * 0.5
    assert_allclose(Linear()(X, Y), X @ Y.T, rtol=1e-12, atol=0)
    assert_allclose(
        RBF(0.2)(X, Y), pairwise.rbf_kernel(X, Y, gamma=0.2), rtol=1e-12, atol=0
    )
    assert_allclose(
        RBF(None).fit(X)(X, Y), pairwise.rbf_kernel(X, Y), rtol=1e-12, atol=0
    )
    expected = pairwise.polynomial_kernel(X, Y)
    assert_allclose(Polynomial()(X, Y), expected, rtol=1e-12, atol=0)
    assert_allclose(Polynomial().fit(X)(X, Y), expected, rtol=1e-12, atol=0)
    expected = pairwise.polynomial_kernel(X, Y, degree=2, gamma=0.5, coef0=0.1)
    assert_allclose(Polynomial(2, 0.5, 0.1)(X, Y), expected, rtol=1e-12, atol=0)


def test_median_width(X):
    distances = pairwise.euclidean_distances(X, squared=True)
    median = np.median(distances[np.triu_indices(len(X), 1)])
    assert_allclose(RBF().fit(X).gamma, 1 / median, rtol=1e-10)
    # The width is of the rows it was fitted on, whatever it is applied to.
    fitted = RBF().fit(X)
    assert_allclose(
        fitted(X[:3], X), pairwise.rbf_kernel(X[:3], X, 1 / median), rtol=1e-10
    )


def test_names_objects_and_functions(X):
    for name, kind in KERNELS.items():
        assert isinstance(check_kernel(name), kind)
    assert check_kernel(RBF(2.0)) == RBF(2.0)
    kernel = check_kernel(pairwise.laplacian_kernel)
    assert isinstance(kernel, Callable)
    assert_allclose(kernel(X), pairwise.laplacian_kernel(X), rtol=1e-12)
    assert isinstance(check_kernel("precomputed"), Precomputed)


def test_what_a_kernel_says_of_itself(X):
    said = ("shift_free", "assumes_unit_scale", "is_linear", "low_rank")
    expected = {
        Linear(): (True, False, True, False),
        RBF(): (True, False, False, False),
        RBF(None): (True, True, False, False),
        Polynomial(): (False, True, False, False),
        Polynomial(gamma=1.0): (False, False, False, False),
        Precomputed(): (False, False, False, False),
        Callable(np.dot): (False, False, False, False),
        Kernel(): (False, False, False, False),
    }
    for kernel, values in expected.items():
        assert tuple(getattr(kernel, name) for name in said) == values
        assert kernel.take([0, 1]) is kernel
        assert kernel.repeated(3) is kernel
    assert_allclose(Linear().features(X), X, rtol=0, atol=0)
    with pytest.raises(TypeError, match=r"RBF\(gamma=1\) has no columns"):
        RBF(1).features(X)


def test_ones_own_kernel(X):
    class Tripled(Kernel):
        def __call__(self, X, Y=None):
            return 3 * Linear()(X, Y)

    kernel = Tripled()
    assert check_feature_kernel(kernel) is kernel
    assert kernel.fit(X) is kernel


@pytest.mark.parametrize(
    ("make", "match"),
    [
        (lambda X: RBF(-1), "'gamma': -1"),
        (lambda X: RBF("scott"), "'gamma': 'scott'.*'median'"),
        (lambda X: RBF("a number"), "'gamma': 'a number'.*'median'"),
        (lambda X: Polynomial(gamma="median"), "'gamma': 'median'"),
        (lambda X: Polynomial(0), "'degree': 0"),
        (lambda X: Polynomial(coef0=-1), "'coef0': -1"),
        (lambda X: RBF().fit(X[:1] * np.ones((4, 1))), "trials that diff"),
        (lambda X: Callable(lambda A, B: A)(X), r"12\); got \(12, 5\)"),
        (lambda X: check_kernel(["rbf", ["rbf", "rbf"]]), "list within a "),
        (lambda X: check_kernel(["rbf", "precomputed"]), "within a list"),
        (lambda X: check_kernel(["rbf", EmpiricalMap("precomputed")]), "within a list"),
        (lambda X: check_kernel(["rbf", "cubic"]), "'kernel': 'cubic'"),
        (lambda X: EmpiricalMap("cubic"), "'kernel': 'cubic'"),
        (lambda X: EmpiricalMap(["rbf", "rbf"]), "a list of maps instead"),
        (lambda X: EmpiricalMap("precomputed").fit(X), "must be square"),
        (lambda X: check_feature_kernel(EmpiricalMap("precomputed")), "data hold feat"),
    ],
)
def test_bad_kernels(make, match, X):
    with pytest.raises((ValueError, TypeError), match=match):
        make(X)


# ------------------------------------------------- a choice of kernels, empirical maps


def test_choice(X):
    choice = check_kernel(["linear", RBF(0.5), pairwise.laplacian_kernel])
    assert isinstance(choice, KernelChoice)
    assert choice.kernels[:2] == (Linear(), RBF(0.5))
    assert isinstance(choice.kernels[2], Callable)
    assert check_kernel(choice) is choice
    assert check_feature_kernel((RBF(), Polynomial())).kernels == (RBF(), Polynomial())
    assert check_kernel([RBF(), RBF(None)]).shift_free
    assert not choice.shift_free
    assert not choice.is_linear
    assert check_kernel([Linear(), Linear()]).is_linear
    assert check_kernel([RBF(), RBF(None)]).assumes_unit_scale
    assert not check_kernel([RBF(), Linear()]).assumes_unit_scale
    assert not choice.low_rank
    fitted = check_kernel([RBF(), Linear()]).map(lambda each: each.fit(X))
    assert fitted.kernels == (RBF().fit(X), Linear())
    mapped = check_kernel([EmpiricalMap().fit(X), Linear()])
    assert mapped.take([0, 2]).kernels[0].basis.shape == (12, 2)
    assert mapped.repeated(2).kernels[0].basis is None
    assert not callable(choice)


@pytest.mark.parametrize("kernel", ["linear", RBF(0.1), RBF(), Polynomial(2)])
def test_empirical_map(kernel, X):
    inner = check_kernel(kernel).fit(X)
    fitted = EmpiricalMap(kernel).fit(X)
    Y = X[:4] * 0.5
    assert fitted.kernel == inner
    assert_allclose(fitted.features(Y), inner(Y, X), rtol=1e-12, atol=0)
    assert_allclose(fitted(Y, X), inner(Y, X) @ inner(X, X), rtol=1e-12, atol=0)
    assert_allclose(fitted(X), inner(X) @ inner(X).T, rtol=1e-12, atol=0)
    # The basis stays that of the fit, whatever the map is applied to.
    assert_allclose(fitted(Y), inner(Y, X) @ inner(X, Y), rtol=1e-12, atol=0)
    assert_allclose(EmpiricalMap(kernel)(X, Y), fitted(X, Y), rtol=1e-12, atol=0)


def test_only_distances_survive_a_shift(X):
    for kernel in (RBF(0.1), Linear(), Polynomial(2, 0.1)):
        mapped = EmpiricalMap(kernel)
        K, shifted = (mapped(each) for each in (X, X + 2.0))
        J = np.eye(12) - 1 / 12
        same = np.allclose(J @ K @ J, J @ shifted @ J, rtol=1e-6, atol=1e-8)
        assert mapped.shift_free == same
    assert EmpiricalMap(RBF(None)).assumes_unit_scale
    assert not EmpiricalMap(RBF()).assumes_unit_scale
    assert not EmpiricalMap().low_rank
    assert not EmpiricalMap("linear").is_linear


def test_empirical_map_of_a_matrix(X):
    K = pairwise.rbf_kernel(X, gamma=0.1)
    fitted = EmpiricalMap("precomputed").fit(K)
    assert_allclose(fitted(K), K @ K, rtol=1e-12, atol=0)
    assert_allclose(fitted(K[:3], K), K[:3] @ K, rtol=1e-12, atol=0)


def test_empirical_map_of_some_columns(X):
    part = EmpiricalMap(RBF(0.1)).fit(X).take([0, 3])
    expected = EmpiricalMap(RBF(0.1)).fit(X[:, [0, 3]])
    assert_allclose(part(X[:, [0, 3]]), expected(X[:, [0, 3]]), rtol=1e-12, atol=0)
    assert EmpiricalMap().take([0]) == EmpiricalMap()
    assert EmpiricalMap("linear").repeated(2) == EmpiricalMap("linear")
    assert repr(EmpiricalMap(RBF(0.1)).fit(X)) == "EmpiricalMap(kernel=RBF(gamma=0.1))"
    assert hash(EmpiricalMap().take([0])) == hash(EmpiricalMap())


# --------------------------------------------------------------------------- landmarks


every_sampling = pytest.mark.parametrize("sampling", SAMPLING)


def curved(n=150, p=5, seed=0):
    """Return features on a curved sheet, with an offset, and three classes."""
    rng = np.random.default_rng(seed)
    where = rng.normal(size=(n, 2))
    X = np.tanh(where @ rng.normal(size=(2, p))) + 0.1 * rng.normal(size=(n, p)) + 3.0
    radius = np.hypot(*where.T)
    return X, np.digitize(radius, np.quantile(radius, [1 / 3, 2 / 3]))


def gaussian_function(X, Y):
    """Return a kernel matrix as a user's own function does."""
    return rbf_kernel(X, Y, gamma=0.2)


@every_sampling
@pytest.mark.parametrize(
    "kernel", [Linear(), RBF(), RBF(None), Polynomial(2), gaussian_function]
)
def test_as_many_landmarks_as_trials_are_exact(kernel, sampling):
    X, _ = curved()
    kernel = check_kernel(kernel)
    low_rank = Nystrom(len(X), sampling).approximate(kernel).fit(X)
    assert_allclose(low_rank.basis + low_rank.offset, X, rtol=0, atol=1e-12)
    K = kernel.fit(X)(X)
    if kernel != Linear():  # which is of the centred features
        assert_allclose(low_rank(X), K, rtol=0, atol=1e-10 * K.max())


@every_sampling
def test_formula(sampling):
    X, _ = curved()
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
    X, _ = curved()
    expected = Nystrom(12, sampling).approximate("rbf").features(X)
    monkeypatch.setattr(kernels, "_BLOCK_VALUES", 12 * 7)  # seven rows, then three
    features = Nystrom(12, sampling).approximate("rbf").features(X)
    assert_allclose(features, expected, rtol=0, atol=1e-10)


def test_random_landmarks_are_different_trials():
    X, _ = curved()
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


@every_sampling
def test_seed(sampling):
    X, _ = curved()

    def features(seed):
        return Nystrom(10, sampling, seed).approximate("rbf").features(X)

    assert_array_equal(features(3), features(3))
    first = features(3)
    assert first.shape != features(4).shape or not np.allclose(first, features(4))
    assert not np.allclose(features(None), features(None))


@every_sampling
def test_offset_of_the_features_costs_no_digits(sampling):
    X, _ = curved()
    kernel = Nystrom(10, sampling).approximate("rbf")
    expected = kernel.fit(X)(X)
    # The offset itself costs the data some digits.
    assert_allclose(kernel.fit(X + 1e5)(X + 1e5), expected, rtol=0, atol=1e-6)
    assert kernel.shift_free
    assert not Nystrom(10).approximate("polynomial").shift_free


def test_median_distance_is_that_of_all_trials_or_of_2000():
    X, _ = curved(n=2000)
    fitted = Nystrom(5).approximate(RBF()).fit(X).kernel
    assert_allclose(fitted.gamma, RBF().fit(X).gamma, rtol=1e-10)
    X, _ = curved(n=2500)
    fitted = Nystrom(5).approximate(RBF()).fit(X).kernel
    exact = RBF().fit(X).gamma
    assert fitted.gamma != pytest.approx(exact, rel=1e-10)
    assert fitted.gamma == pytest.approx(exact, rel=0.05)


def test_null_directions_are_dropped():
    X, _ = curved()
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


def test_memory_of_landmarks(monkeypatch):
    X, y = curved(n=10_000)
    kernel = Nystrom(50).approximate(RBF())
    # 2000 trials have their distances taken.
    assert build.peak_bytes(kernel.features, X) < 0.12 * 8 * len(X) ** 2
    X, y = X[:4000], y[:4000]
    for sampling in SAMPLING:
        options = {"kernel": RBF(0.5), "approx": Nystrom(50, sampling), "cv": 5}
        peak = build.peak_bytes(lambda: cross_validate(X, y, **options))  # noqa: B023
        assert peak < 0.2 * 8 * len(X) ** 2
    kernel = Nystrom(100, "uniform").approximate(RBF(0.5)).fit(X)
    monkeypatch.setattr(kernels, "_BLOCK_VALUES", 2**14)
    size = 8 * 4000 * 100
    assert size <= build.peak_bytes(kernel.features, X) < 1.3 * size


def test_landmarks_of_several_kernels_and_of_columns():
    approx = Nystrom(10, "uniform")
    choice = approx.approximate([RBF(0.1), "linear", Polynomial(2)])
    assert isinstance(choice, KernelChoice)
    of = [kernel.kernel for kernel in choice.kernels]
    assert of == [RBF(0.1), Linear(), Polynomial(2)]
    assert choice.low_rank
    assert all(kernel.approx == approx for kernel in choice.kernels)
    X, _ = curved()
    fresh = Nystrom(10).approximate(RBF(0.1))
    fitted, twice = fresh.fit(X), np.hstack([X, X])
    # Of columns they are fitted anew.
    assert_array_equal(fitted.take([0, 2])(X[:, [0, 2]]), fresh(X[:, [0, 2]]))
    assert_array_equal(fitted.repeated(2)(twice), fresh(twice))


def test_fitted_kernel_is_fixed():
    X, _ = curved()
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


def minus_distance(X, Y):
    """Return similarities that are no kernel."""
    return -np.abs(X[:, np.newaxis] - Y).sum(axis=2)


def lopsided(X, Y):
    """Return values that depend on the order of their arguments."""
    return X @ Y.T + X[:, :1]


@pytest.mark.parametrize(
    ("make", "match"),
    [
        (lambda X: Nystrom(0), "'n_components': 0. Allowed: a whole numb"),
        (lambda X: Nystrom(2.5), "'n_components': 2.5. Allowed: a whole "),
        (lambda X: Nystrom(5, "random"), "'random'. Allowed: 'kmeans', 'u"),
        (lambda X: Nystrom(5, random_state=-1), "'random_state': -1. All"),
        (lambda X: Nystrom(5).approximate("precomputed"), "needs features to"),
        (lambda X: Nystrom(5).approximate(Nystrom(9).approximate("rbf")), "already"),
        (lambda X: Nystrom(5).approximate(3), "Invalid value for 'kernel'"),
        (lambda X: approximated(RBF(0.1), 100), "Invalid value for 'appro"),
        (lambda X: approximated(RBF(), Nystrom), "Invalid value for 'appr"),
        (lambda X: Nystrom(10).approximate(minus_distance).fit(X), "not positive semi"),
        (lambda X: Nystrom(10).approximate(lopsided).fit(X), "a symmetric kernel"),
        (lambda X: Nystrom(10).approximate(Polynomial(200, 1e9)).fit(X), "overflows"),
    ],
)
@pytest.mark.filterwarnings("ignore:overflow:RuntimeWarning")
def test_what_cannot_be_approximated(make, match):
    with pytest.raises((ValueError, TypeError), match=match):
        make(curved()[0])


@every_sampling
def test_trials_that_do_not_differ_have_no_landmarks(sampling):
    for kernel in ("linear", RBF(0.1)):
        with pytest.raises(ValueError, match="The trials do not differ"):
            cross_validate(
                np.ones((30, 4)),
                np.arange(30) % 2,
                kernel=kernel,
                approx=Nystrom(10, sampling),
            )


def test_numbers_are_fixed_by_trials_from_anywhere(monkeypatch):
    # Trials often come class by class: the first ones may be much closer together.
    monkeypatch.setattr(kernels, "_FIT_ROWS", 40)
    X = np.random.default_rng(0).standard_normal((400, 3))
    X[:40] *= 1e-3
    gamma = approximated(RBF(), Nystrom(10, "uniform")).fit(X).kernel.gamma
    assert_allclose(gamma, RBF().fit(X).gamma, rtol=0.5)


# ------------------------------------------------- quadratic penalties on the weights


def definite(p, seed=1):
    """A positive definite matrix that is far from a multiple of the identity."""
    A = np.random.default_rng(seed).standard_normal((p, p))
    return A @ A.T + 0.1 * np.eye(p)


def lattice(side):
    """Return the weights of the edges of a square lattice."""
    A = grid_to_graph(side, side).toarray().astype(float)
    return A - np.diag(A.diagonal())


@pytest.fixture(params=["dense", "sparse"])
def factored(request, monkeypatch):
    """Factor small sparse matrices as large ones are, or not."""
    if request.param == "sparse":
        monkeypatch.setattr("mvpa_kfda.kfda.kernels._LARGE", 2)
    return request.param


def assert_inverse(kernel, X, inverse):
    """Assert what a kernel of X inverse X' gives, its features and its weights."""
    close = {"rtol": 1e-9, "atol": 1e-9}
    n, p = X.shape
    assert_allclose(kernel(X), X @ inverse @ X.T, **close)
    assert_allclose(kernel(X[:5], X), X[:5] @ inverse @ X.T, **close)
    F = kernel.features(X)
    assert_allclose(F @ F.T, X @ inverse @ X.T, **close)
    rng = np.random.default_rng(3)
    dual, coef = rng.standard_normal((n, 2)), rng.standard_normal((p, 2))
    weights = kernel.weights_from_trials(X, dual)
    assert_allclose(weights, inverse @ X.T @ dual, **close)
    assert_allclose(X @ kernel.weights_from_features(coef), F @ coef, **close)
    assert kernel.n_features == p


@pytest.mark.parametrize("make", [np.asarray, sparse.csr_array, sparse.coo_matrix])
def test_penalty_is_the_kernel_of_the_inverse(make, factored):
    X, _ = build.features(build.balanced(40, 3), 9, separation=1.0)
    kernel = Penalty(make(definite(9)))
    assert_inverse(kernel, X, np.linalg.inv(definite(9)))
    said = ("shift_free", "assumes_unit_scale", "is_linear", "low_rank")
    assert [getattr(kernel, name) for name in said] == [True, False, True, False]
    # Repeated it is block-diagonal; columns are counted through all blocks.
    X, _ = build.features(build.balanced(40, 3), 12, separation=1.0)
    one, blocks = Penalty(make(definite(4))), np.kron(np.eye(3), definite(4))
    three, inverse = one.repeated(3), np.linalg.inv(blocks)
    assert_inverse(three, X, inverse)
    close = {"rtol": 1e-9, "atol": 1e-9}
    assert_allclose(three.fit(X).repeated(1)(X), X @ inverse @ X.T, **close)
    index = [1, 4, 5, 11]
    part = np.linalg.inv(blocks[np.ix_(index, index)])
    found, X = three.take(index)(X[:, index]), X[:, index]
    assert_allclose(found, X @ part @ X.T, **close)
    assert one.n_features == 4


def test_a_large_sparse_penalty_is_never_dense(monkeypatch):
    graph = grid_to_graph(56, 56)
    X = np.random.default_rng(0).standard_normal((6, 3136))
    kernel = GraphSmooth(graph, strength=2.0, eps=0.5)
    monkeypatch.setattr(type(kernel.Omega), "toarray", None)
    K = kernel(X)
    monkeypatch.undo()
    expected = X @ np.linalg.solve(kernel.Omega.toarray(), X.T)
    assert_allclose(K, expected, rtol=1e-9, atol=1e-9)


def test_graph_smooth_penalises_differences():
    A = lattice(4) * np.random.default_rng(0).uniform(0.5, 2.0)
    A[0, 1] = A[1, 0] = 3.0
    kernel = GraphSmooth(A, strength=1.5, eps=0.2)
    w = np.random.default_rng(1).standard_normal(16)
    differences = sum(A[i, j] * (w[i] - w[j]) ** 2 for i in range(16) for j in range(i))
    assert_allclose(
        w @ (kernel.Omega @ w), 1.5 * differences + 0.2 * w @ w, rtol=1e-12, atol=0
    )
    # The diagonal does not matter, and zeros that are stored are no edges.
    looped = sparse.csr_array(A + 5 * np.eye(16))
    looped.data[looped.data == 3.0] = 0.0
    A[0, 1] = A[1, 0] = 0.0
    assert GraphSmooth(looped) == GraphSmooth(A)


def test_adjacencies_of_all_kinds():
    A = lattice(5)
    expected = GraphSmooth(A).Omega.toarray()
    for other in (
        A > 0,
        A.astype(int),
        A.tolist(),
        sparse.coo_matrix(A),
        sparse.csc_array(A > 0),
        grid_to_graph(5, 5),
        (A, [f"EEG {i}" for i in range(25)]),
    ):
        assert_allclose(GraphSmooth(other).Omega.toarray(), expected, rtol=0, atol=0)


def test_take():
    X = build.features(build.balanced(40, 3), 16, separation=1.0)[0]
    Omega, index = definite(16), np.array([3, 0, 7, 8])
    part = Penalty(Omega).take(index)
    assert_allclose(part.Omega, Omega[np.ix_(index, index)], rtol=0, atol=0)
    # Of a graph, the edges that leave the subset are cut.
    graph = GraphSmooth(lattice(4), strength=2.0, eps=0.3)
    expected = GraphSmooth(lattice(4)[np.ix_(index, index)], 2.0, 0.3)
    assert graph.take(index) == expected
    ones = graph.take(index).Omega.toarray() @ np.ones(4)
    assert_allclose(ones, 0.3, rtol=1e-12, atol=0)
    mask = np.isin(np.arange(16), index)
    assert graph.take(mask) == graph.take(np.sort(index))
    assert graph.take(slice(None)) == graph
    # One voxel has no neighbours, and that is no error; nor is no strength.
    assert_allclose(graph.take([5]).Omega.toarray(), [[0.3]], rtol=1e-15, atol=0)
    ridge = GraphSmooth(lattice(4), strength=0.0, eps=2.0)
    assert_allclose(ridge(X), X @ X.T / 2, rtol=1e-12, atol=0)
    # Repeated, too.
    both = graph.repeated(2).take([1, 2, 17])
    assert_array_equal(both.adjacency.toarray() > 0, [[0, 1, 0], [1, 0, 0], [0, 0, 0]])


def test_channels_by_name():
    adjacency = np.triu(np.random.default_rng(0).uniform(size=(32, 32)) < 0.2, k=1)
    adjacency, names = adjacency | adjacency.T, [f"EEG{i}" for i in range(32)]
    kernel = GraphSmooth((adjacency, names), strength=3.0)
    assert kernel.names == tuple(names)
    index = [17, 3, 29, 5, 8, 11]
    wanted = [names[i] for i in index]
    part = kernel.for_channels(wanted)
    assert (part.names, part.strength) == (tuple(wanted), 3.0)
    expected = np.triu(adjacency[np.ix_(index, index)], k=1)
    assert_array_equal(np.triu(part.adjacency.toarray()), expected)
    assert expected.any()
    assert kernel.repeated(2).take([31, 32]).names == (names[31], names[0])
    with pytest.raises(ValueError, match=r"lacks 1 of the 2 channels.*: T99\."):
        kernel.for_channels(["EEG3", "T99"])
    with pytest.raises(ValueError, match=r"lacks 6 of the 6.*: x0, .*x4, \.\.\."):
        kernel.for_channels([f"x{i}" for i in range(6)])
    with pytest.raises(ValueError, match="came without channel names"):
        GraphSmooth(adjacency).for_channels(["EEG3"])


def test_representation_and_equality():
    A = lattice(3)
    kernel = GraphSmooth(A, strength=2.0)
    shown = "GraphSmooth(9 features, 12 edges, strength=2, eps=0.1, "
    assert repr(kernel).startswith(shown)
    assert len(repr(GraphSmooth(grid_to_graph(40, 40)))) < 80
    assert kernel == GraphSmooth(sparse.csr_array(A), strength=2.0)
    assert hash(kernel) == hash(GraphSmooth(A, strength=2.0))
    # Another edge, an equal number of them.
    B = A.copy()
    B[0, 1] = B[1, 0] = 0.0
    B[0, 8] = B[8, 0] = 1.0
    for other in (
        GraphSmooth(A, strength=1.0),
        GraphSmooth(A, 2.0, eps=0.2),
        GraphSmooth(B, 2.0),
        kernel.repeated(2),
        Penalty(kernel.Omega),
    ):
        assert kernel != other
        assert repr(kernel) != repr(other)
    assert repr(Penalty(definite(3))) != repr(Penalty(definite(3, seed=2)))
    assert repr(Penalty(definite(3))).startswith("Penalty(3 features, ")
    assert repr(Penalty(definite(3)).repeated(2)).endswith(").repeated(2)")


def test_copies_and_pickles(factored):
    X, _ = build.features(build.balanced(40, 3), 9, separation=1.0)
    for kernel in (GraphSmooth(lattice(3)), Penalty(sparse.csr_array(definite(9)))):
        K = kernel(X)  # its factors are there now
        for other in (pickle.loads(pickle.dumps(kernel)), copy.deepcopy(kernel)):
            assert other == kernel
            assert_array_equal(other(X), K)


@pytest.mark.parametrize(
    ("matrix", "error", "match"),
    [
        (np.ones((3, 4)), ValueError, r"Omega must be square.*got \(3, 4\)"),
        (np.ones(4), ValueError, r"must be square.*got \(4,\)"),
        (np.ones((0, 0)), ValueError, r"must be square.*got \(0, 0\)"),
        (np.triu(np.ones((3, 3))), ValueError, r"symmetric.*difference.* is 1\."),
        ([[1, 1e-6], [0, 1]], ValueError, r"symmetric.*difference.* is 1e-06\."),
        (np.full((2, 2), np.nan), ValueError, "NaN or infinite"),
        (sparse.csr_array([[np.inf]]), ValueError, "NaN or infinite"),
        (np.array([["a"]]), ValueError, "Omega must be numeric; got dtype <U1"),
        (1j * np.eye(2), ValueError, "Omega holds complex data"),
    ],
)
def test_bad_matrices(matrix, error, match):
    with pytest.raises(error, match=match):
        Penalty(matrix)


@pytest.mark.parametrize("make", [np.asarray, sparse.csr_array])
@pytest.mark.parametrize(
    "Omega",
    [
        np.diag([1.0, 1.0, -1.0]),
        np.diag([1.0, 0.0, 1.0]),
        np.diag([-1.0, -1.0, -1.0]),
        [[1.0, 2.0, 0.0], [2.0, 1.0, 0.0], [0.0, 0.0, 1.0]],
    ],
)
def test_not_positive_definite(make, Omega, factored):
    with pytest.raises(ValueError, match="Omega is not positive definite"):
        Penalty(make(np.array(Omega)))(np.ones((4, 3)))


@pytest.mark.parametrize(
    ("params", "error", "match"),
    [
        ({"adjacency": np.ones((3, 4))}, ValueError, "adjacency must be square"),
        ({"adjacency": np.tri(3)}, ValueError, "adjacency must be symmetric"),
        ({"adjacency": -lattice(3)}, ValueError, "negative weights, down to -1"),
        ({"adjacency": np.full((2, 2), np.inf)}, ValueError, "NaN or infinite"),
        ({"adjacency": np.eye(5)}, ValueError, "no edges"),
        ({"adjacency": (lattice(2),)}, TypeError, "the pair"),
        ({"adjacency": (lattice(2), "abcd")}, TypeError, "the pair"),
        ({"adjacency": "foo"}, TypeError, "'foo'. Allowed: a matrix, or the pair"),
        ({"adjacency": (lattice(2), ["a", "b"])}, ValueError, "2 different names"),
        ({"adjacency": (lattice(2), ["a"] * 4)}, ValueError, "1 different names"),
        ({"adjacency": (3.0, ["a"])}, ValueError, "1 different names"),
        ({"strength": -1.0}, ValueError, "'strength': -1.0. Allowed: 0 or more"),
        ({"strength": np.nan}, ValueError, "'strength': nan"),
        ({"strength": [1, 10]}, ValueError, r"\[1, 10\].*several.*kernel=\[GraphSm"),
        ({"eps": 0}, ValueError, "'eps': 0. Allowed: .*above zero"),
        ({"eps": "small"}, TypeError, "'eps': 'small'"),
    ],
)
def test_bad_graphs(params, error, match):
    with pytest.raises(error, match=match):
        GraphSmooth(**{"adjacency": lattice(3), **params})


def test_wrong_size():
    kernel = GraphSmooth(lattice(3))
    for wrong in (np.ones((40, 10)), np.ones((40, 8))):
        for call in (kernel, kernel.fit, kernel.features):
            with pytest.raises(ValueError, match=f"9 features, .* {wrong.shape[1]}"):
                call(wrong)
    with pytest.raises(ValueError, match=r"9 features in each of 2 blocks, .* 10"):
        kernel.repeated(2).fit(np.ones((40, 10)))
