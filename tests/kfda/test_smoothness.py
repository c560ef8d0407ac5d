"""Quadratic penalties on the weights: against the formulas, and inside the models."""

import copy
import pickle

import mne
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from scipy.linalg import eigh
from sklearn.feature_extraction.image import grid_to_graph
from sklearn.model_selection import StratifiedKFold, cross_val_predict

from mvpa_kfda import KernelFDA, Ridge, cross_validate
from mvpa_kfda.kfda.kernels import GraphSmooth, Penalty
from tests import build


def definite(p, seed=1):
    """A positive definite matrix that is far from a multiple of the identity."""
    A = np.random.default_rng(seed).standard_normal((p, p))
    return A @ A.T + 0.1 * np.eye(p)


def lattice(side):
    """The weights of the edges of a square lattice, by hand."""
    A = np.zeros((side * side, side * side))
    for row in range(side):
        for column in range(side):
            i = row * side + column
            if column + 1 < side:
                A[i, i + 1] = A[i + 1, i] = 1.0
            if row + 1 < side:
                A[i, i + side] = A[i + side, i] = 1.0
    return A


@pytest.fixture(params=["dense", "sparse"])
def factored(request, monkeypatch):
    """Factor small sparse matrices as large ones are, or not."""
    if request.param == "sparse":
        monkeypatch.setattr("mvpa_kfda.kfda.kernels._LARGE", 2)
    return request.param


# --- the kernel ------------------------------------------------------------------


@pytest.mark.parametrize("make", [np.asarray, sparse.csr_array, sparse.coo_matrix])
def test_penalty_is_the_kernel_of_the_inverse(make, factored):
    (X, _), Omega = (
        build.features(build.balanced(40, 3), 9, separation=1.0),
        definite(9),
    )
    kernel = Penalty(make(Omega))
    inverse = np.linalg.inv(Omega)
    tolerance = {"rtol": 1e-9, "atol": 1e-9}
    assert_allclose(kernel(X), X @ inverse @ X.T, **tolerance)
    assert_allclose(kernel(X[:5], X), X[:5] @ inverse @ X.T, **tolerance)
    F = kernel.features(X)
    assert F.shape == X.shape
    assert_allclose(F @ F.T, X @ inverse @ X.T, **tolerance)
    dual = np.random.default_rng(3).standard_normal((40, 2))
    weights = kernel.weights_from_trials(X, dual)
    assert_allclose(weights, inverse @ X.T @ dual, **tolerance)
    coef = np.random.default_rng(3).standard_normal((9, 2))
    weights = kernel.weights_from_features(coef)
    assert_allclose(X @ weights, F @ coef, **tolerance)
    assert kernel.is_linear
    assert kernel.shift_free
    assert not kernel.assumes_unit_scale
    assert not kernel.low_rank
    assert kernel.n_features == 9


@pytest.mark.parametrize("make", [np.asarray, sparse.csr_array])
def test_repeated_is_block_diagonal(make, factored):
    X, _ = build.features(build.balanced(40, 3), 12, separation=1.0)
    Omega = definite(4)
    blocks = np.kron(np.eye(3), Omega)
    one, three = Penalty(make(Omega)), Penalty(make(Omega)).repeated(3)
    expected = Penalty(blocks)
    tolerance = {"rtol": 1e-9, "atol": 1e-9}
    assert three.n_features == 12
    assert_allclose(three(X, X[:7]), expected(X, X[:7]), **tolerance)
    F = three.features(X)
    assert_allclose(F @ F.T, expected(X), **tolerance)
    dual = np.random.default_rng(3).standard_normal((40, 2))
    weights = three.weights_from_trials(X, dual)
    assert_allclose(weights, np.linalg.solve(blocks, X.T @ dual), **tolerance)
    coef = np.random.default_rng(3).standard_normal((12, 2))
    weights = three.weights_from_features(coef)
    assert_allclose(X @ weights, F @ coef, **tolerance)
    assert_allclose(three.fit(X).repeated(1)(X), expected(X), **tolerance)
    # Columns are counted through all blocks.
    index = [1, 4, 5, 11]
    part = np.linalg.inv(blocks[np.ix_(index, index)])
    assert_allclose(
        three.take(index)(X[:, index]), X[:, index] @ part @ X[:, index].T, **tolerance
    )
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


def test_without_strength_it_is_a_ridge():
    X, _ = build.features(build.balanced(40, 3), 9, separation=1.0)
    kernel = GraphSmooth(lattice(3), strength=0.0, eps=2.0)
    assert_allclose(kernel(X), X @ X.T / 2, rtol=1e-12, atol=0)


def test_take():
    X, Omega = (
        build.features(build.balanced(40, 3), 16, separation=1.0)[0],
        definite(16),
    )
    index = np.array([3, 0, 7, 8])
    part = Penalty(Omega).take(index)
    assert_allclose(part.Omega, Omega[np.ix_(index, index)], rtol=0, atol=0)
    assert_allclose(
        part(X[:, index]),
        X[:, index] @ np.linalg.inv(Omega[np.ix_(index, index)]) @ X[:, index].T,
        rtol=1e-9,
        atol=1e-9,
    )
    # Of a graph, the edges that leave the subset are cut.
    graph = GraphSmooth(lattice(4), strength=2.0, eps=0.3)
    expected = GraphSmooth(lattice(4)[np.ix_(index, index)], 2.0, 0.3)
    assert graph.take(index) == expected
    assert_allclose(
        graph.take(index).Omega.toarray() @ np.ones(4), 0.3, rtol=1e-12, atol=0
    )
    mask = np.isin(np.arange(16), index)
    assert graph.take(mask) == graph.take(np.sort(index))
    assert graph.take(slice(None)) == graph
    # One voxel has no neighbours, and that is no error.
    assert_allclose(graph.take([5]).Omega.toarray(), [[0.3]], rtol=1e-15, atol=0)
    # Repeated, too.
    both = graph.repeated(2).take([1, 2, 17])
    assert_array_equal(both.adjacency.toarray() > 0, [[0, 1, 0], [1, 0, 0], [0, 0, 0]])


def test_channels_by_name():
    montage = mne.channels.make_standard_montage("biosemi32")
    info = mne.create_info(montage.ch_names, 100.0, "eeg").set_montage(montage)
    adjacency, names = mne.channels.find_ch_adjacency(info, "eeg")
    kernel = GraphSmooth((adjacency, names), strength=3.0)
    assert kernel.names == tuple(names)
    assert kernel.n_features == 32
    wanted = ["Cz", "Pz", "Fz", "CP1"]
    index = [names.index(name) for name in wanted]
    part = kernel.for_channels(wanted)
    assert part.names == tuple(wanted)
    assert part.strength == 3.0
    expected = np.triu(adjacency.toarray()[np.ix_(index, index)], k=1)
    assert_array_equal(np.triu(part.adjacency.toarray()), expected)
    assert expected.any()
    assert kernel.repeated(2).take([31, 32]).names == (names[31], names[0])
    with pytest.raises(ValueError, match=r"lacks 1 of the 2 channels.*: T99\."):
        kernel.for_channels(["Cz", "T99"])
    with pytest.raises(ValueError, match=r"lacks 6 of the 6.*: x0, .*x4, \.\.\."):
        kernel.for_channels([f"x{i}" for i in range(6)])
    with pytest.raises(ValueError, match="came without channel names"):
        GraphSmooth(adjacency).for_channels(["Cz"])


def test_what_is_no_graph_and_no_strength_is_told_of_what_is():
    with pytest.raises(TypeError, match=r"'adjacency'\. Allowed: a matrix, or the pa"):
        GraphSmooth("adjacency")
    message = r"'strength': \[1, 10\].*choose among several.*kernel=\[GraphSmooth"
    with pytest.raises(ValueError, match=message):
        GraphSmooth(lattice(3), strength=[1, 10])


def test_representation_and_equality():
    A = lattice(3)
    kernel = GraphSmooth(A, strength=2.0)
    assert repr(kernel).startswith(
        "GraphSmooth(9 features, 12 edges, strength=2, eps=0.1, "
    )
    assert len(repr(GraphSmooth(grid_to_graph(40, 40)))) < 80
    assert kernel == GraphSmooth(sparse.csr_array(A), strength=2.0)
    assert hash(kernel) == hash(GraphSmooth(A, strength=2.0))
    # Another edge, an equal number of them.
    B = A.copy()
    B[0, 1] = B[1, 0] = 0.0
    B[0, 8] = B[8, 0] = 1.0
    different = [
        GraphSmooth(A, strength=1.0),
        GraphSmooth(A, 2.0, eps=0.2),
        GraphSmooth(B, 2.0),
        kernel.repeated(2),
        Penalty(kernel.Omega),
    ]
    assert all(kernel != other for other in different)
    assert all(repr(kernel) != repr(other) for other in different)
    assert repr(Penalty(definite(3))) != repr(Penalty(definite(3, seed=2)))
    ones = [np.eye(3, dtype=bool) for _ in range(2)]
    ones[0][[0, 1], [1, 0]] = ones[1][[1, 2], [2, 1]] = True
    first, second = (Penalty(sparse.csr_array(each)) for each in ones)
    assert first != second
    assert repr(Penalty(definite(3))).startswith("Penalty(3 features, ")
    assert repr(Penalty(definite(3)).repeated(2)).endswith(").repeated(2)")


def test_copies_and_pickles(factored):
    X, _ = build.features(build.balanced(40, 3), 9, separation=1.0)
    for kernel in (GraphSmooth(lattice(3)), Penalty(sparse.csr_array(definite(9)))):
        K = kernel(X)  # its factors are there now
        for other in (pickle.loads(pickle.dumps(kernel)), copy.deepcopy(kernel)):
            assert other == kernel
            assert_array_equal(other(X), K)


# --- penalised discriminant analysis ----------------------------------------------


def penalised_discriminants(X, y, Omega, lam):
    """Hastie's penalised discriminants, straight from the scatter matrices."""
    mu, within, between = X.mean(axis=0), 0.0, 0.0
    for k in np.unique(y):
        rows = X[y == k]
        centred = rows - rows.mean(axis=0)
        offset = rows.mean(axis=0) - mu
        within = within + centred.T @ centred
        between = between + len(rows) * np.outer(offset, offset)
    n_components = len(np.unique(y)) - 1
    _, vectors = eigh(between, within + lam * Omega)
    return vectors[:, ::-1][:, :n_components]  # W'(S_w + lam Omega) W = I


@pytest.mark.parametrize("p", [9, 64])
@pytest.mark.parametrize("kind", ["penalty", "graph"])
def test_discriminants_are_hasties(kind, p, factored):
    X, y = build.features(build.balanced(60, 4), p, separation=1.0)
    if kind == "penalty":
        kernel = Penalty(sparse.csr_array(definite(p)))
        Omega = definite(p)
    else:
        kernel = GraphSmooth(lattice(int(p**0.5)), strength=5.0)
        Omega = kernel.Omega.toarray()
    model = KernelFDA(kernel, reg=Ridge(2.0)).fit(X, y)
    W = penalised_discriminants(X, y, Omega, 2.0)
    W *= np.sign(np.sum(W * model.scalings_, axis=0))
    assert_allclose(model.scalings_, W, rtol=1e-6, atol=1e-8 * np.abs(W).max())
    X_new = X[:7] + 0.5
    assert_allclose(
        model.transform(X_new), (X_new - X.mean(axis=0)) @ W, rtol=1e-6, atol=1e-7
    )


@pytest.mark.parametrize("p", [9, 64])
def test_cross_validated_as_any_kernel(p):
    X, y = build.features(build.balanced(66, 3), p, separation=1.0)
    kernel = GraphSmooth(lattice(int(p**0.5)), strength=3.0)
    reg, cv = Ridge(1.5), StratifiedKFold(4)
    result = cross_validate(X, y, kernel=kernel, reg=reg, cv=cv)
    assert result.parameters["kernel"]["name"] == "GraphSmooth"
    model = KernelFDA(kernel, reg)
    scores = cross_val_predict(model, X, y, cv=cv, method="decision_function")
    assert_allclose(result.class_scores, scores, rtol=1e-8, atol=1e-9)
    assert_array_equal(result.predictions, cross_val_predict(model, X, y, cv=cv))
    # It is not the ridge.
    plain = cross_validate(X, y, reg=reg, cv=cv)
    assert np.abs(plain.class_scores - result.class_scores).max() > 1e-3


def test_weights_come_out_smooth():
    X, y = build.features(build.balanced(60, 3), 64, separation=1.0)
    A = lattice(8)
    laplacian = np.diag(A.sum(axis=1)) - A

    def roughness(strength):
        model = KernelFDA(GraphSmooth(A, strength), reg=0.3).fit(X, y)
        w = model.scalings_[:, 0]
        return w @ laplacian @ w / (w @ w)

    rough = [roughness(strength) for strength in (0.0, 0.1, 1.0, 10.0)]
    assert rough == sorted(rough, reverse=True)
    assert rough[0] > 2 * rough[-1]


# --- bad input -------------------------------------------------------------------


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
    "diagonal", [[1.0, 1.0, -1.0], [1.0, 0.0, 1.0], [-1.0, -1.0, -1.0]]
)
def test_not_positive_definite(make, diagonal, factored):
    with pytest.raises(ValueError, match="Omega is not positive definite"):
        Penalty(make(np.diag(diagonal)))(np.ones((4, 3)))


def test_indefinite_though_its_diagonal_is_positive(factored):
    Omega = np.array([[1.0, 2.0, 0.0], [2.0, 1.0, 0.0], [0.0, 0.0, 1.0]])
    with pytest.raises(ValueError, match="Omega is not positive definite"):
        Penalty(sparse.csr_array(Omega))(np.ones((4, 3)))


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
        ({"adjacency": (lattice(2), ["a", "b"])}, ValueError, "2 different names"),
        ({"adjacency": (lattice(2), ["a"] * 4)}, ValueError, "1 different names"),
        ({"adjacency": (3.0, ["a"])}, ValueError, "1 different names"),
        ({"strength": -1.0}, ValueError, "'strength': -1.0. Allowed: 0 or more"),
        ({"strength": np.nan}, ValueError, "'strength': nan"),
        ({"eps": 0}, ValueError, "'eps': 0. Allowed: .*above zero"),
        ({"eps": "small"}, TypeError, "'eps': 'small'"),
    ],
)
def test_bad_graphs(params, error, match):
    with pytest.raises(error, match=match):
        GraphSmooth(**{"adjacency": lattice(3), **params})


def test_wrong_size():
    X, y = build.features(build.balanced(40, 3), 10, separation=1.0)
    match = "is for 9 features, and the data have 10 (in all|that are decoded)"
    for call in (
        lambda kernel: kernel(X),
        lambda kernel: kernel(X[:, :9], X),
        lambda kernel: kernel.fit(X),
        lambda kernel: kernel.features(X),
        lambda kernel: KernelFDA(kernel).fit(X, y),
        lambda kernel: cross_validate(X, y, kernel=kernel),
    ):
        with pytest.raises(ValueError, match=match):
            call(GraphSmooth(lattice(3)))
    with pytest.raises(ValueError, match=r"9 features in each of 2 blocks, .* 10"):
        GraphSmooth(lattice(3)).repeated(2).fit(X)
