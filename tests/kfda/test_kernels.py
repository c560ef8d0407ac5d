"""Kernels against scikit-learn's pairwise functions."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.metrics import pairwise

from mvpa_kfda import RBF, EmpiricalMap, Linear, Polynomial
from mvpa_kfda.kfda.kernels import (
    KERNELS,
    Callable,
    Kernel,
    KernelChoice,
    Precomputed,
    check_feature_kernel,
    check_kernel,
)


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


# --- a choice of kernels ----------------------------------------------------------


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


@pytest.mark.parametrize(
    ("kernels", "match"),
    [
        ([], "two or more kernels"),
        (["rbf"], r"\['rbf'\]. A list is a choice, of two or more"),
        (["rbf", ["linear", "rbf"]], "a list within a list"),
        (["rbf", "precomputed"], "'precomputed' within a list"),
        (["rbf", EmpiricalMap("precomputed")], "'precomputed' within a list"),
        (["rbf", "cubic"], "'kernel': 'cubic'"),
    ],
)
def test_bad_choices(kernels, match):
    with pytest.raises(ValueError, match=match):
        check_kernel(kernels)


# --- the empirical map ------------------------------------------------------------


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
    with pytest.raises(ValueError, match="must be square"):
        EmpiricalMap("precomputed").fit(X)
    with pytest.raises(ValueError, match=r"'precomputed'\. The data hold features"):
        check_feature_kernel(EmpiricalMap("precomputed"))


def test_empirical_map_of_some_columns(X):
    part = EmpiricalMap(RBF(0.1)).fit(X).take([0, 3])
    expected = EmpiricalMap(RBF(0.1)).fit(X[:, [0, 3]])
    assert_allclose(part(X[:, [0, 3]]), expected(X[:, [0, 3]]), rtol=1e-12, atol=0)
    assert EmpiricalMap().take([0]) == EmpiricalMap()
    assert EmpiricalMap("linear").repeated(2) == EmpiricalMap("linear")
    assert repr(EmpiricalMap(RBF(0.1)).fit(X)) == "EmpiricalMap(kernel=RBF(gamma=0.1))"
    assert hash(EmpiricalMap().take([0])) == hash(EmpiricalMap())


def test_bad_empirical_maps():
    with pytest.raises(ValueError, match="'kernel': 'cubic'"):
        EmpiricalMap("cubic")
    with pytest.raises(TypeError, match="a list of maps instead"):
        EmpiricalMap(["rbf", "linear"])


def test_bad_kernels(X):
    with pytest.raises(ValueError, match=r"'kernel': 'foo'.*'linear', 'rbf'"):
        check_kernel("foo")
    with pytest.raises(TypeError, match=r"an instance, e\.g\. RBF\(\)"):
        check_kernel(RBF)
    with pytest.raises(TypeError, match="'kernel': 3"):
        check_kernel(3)
    with pytest.raises(ValueError, match="'gamma': -1"):
        RBF(-1)
    for name in ("scott", "a number"):
        with pytest.raises(TypeError, match=rf"'gamma': '{name}'.*'median'"):
            RBF(name)
    with pytest.raises(TypeError, match="'gamma': 'median'"):
        Polynomial(gamma="median")
    with pytest.raises(ValueError, match="'degree': 0"):
        Polynomial(0)
    with pytest.raises(ValueError, match="'coef0': -1"):
        Polynomial(coef0=-1)
    with pytest.raises(ValueError, match="needs trials that differ"):
        RBF().fit(np.ones((4, 3)))
    with pytest.raises(ValueError, match=r"shape \(12, 12\); got \(12, 5\)"):
        Callable(lambda A, B: A)(X)
