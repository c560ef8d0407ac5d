"""Kernels against scikit-learn's pairwise functions."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.metrics import pairwise

from mvpa_kfda import RBF, Linear, Polynomial
from mvpa_kfda.kernels import KERNELS, Callable, Precomputed, check_kernel


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


@pytest.mark.parametrize(
    "kernel", [Linear(), RBF(), RBF(0.3), RBF(None), Polynomial(), Polynomial(2, 0.1)]
)
def test_kernels_from_inner_products(kernel, X):
    assert_allclose(
        kernel.from_inner(X @ X.T, X.shape[1]),
        kernel.fit(X)(X),
        rtol=1e-10,
        atol=1e-12,
    )


def test_names_objects_and_functions(X):
    for name, kind in KERNELS.items():
        assert isinstance(check_kernel(name), kind)
    assert check_kernel(RBF(2.0)) == RBF(2.0)
    kernel = check_kernel(pairwise.laplacian_kernel)
    assert isinstance(kernel, Callable)
    assert_allclose(kernel(X), pairwise.laplacian_kernel(X), rtol=1e-12)
    assert isinstance(check_kernel("precomputed"), Precomputed)


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
