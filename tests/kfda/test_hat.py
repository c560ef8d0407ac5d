"""The hat matrix against its textbook formula."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from mvpa_kfda import RBF, Linear, Polynomial, Ridge
from mvpa_kfda.kfda.hat import hat_from_features, hat_from_gram, invert_blocks, make_hat
from mvpa_kfda.kfda.kernels import Callable


def textbook(K, lam):
    """Return G = 11'/n + K_c (K_c + lambda I)^-1."""
    n = len(K)
    J = np.eye(n) - 1 / n
    Kc = J @ K @ J
    return 1 / n + Kc @ np.linalg.inv(Kc + lam * np.eye(n))


@pytest.fixture
def X():
    """Return features, (30, 6)."""
    return np.random.default_rng(0).standard_normal((30, 6)) * [1, 2, 3, 4, 5, 6] + 7


@pytest.mark.parametrize("lam", [1e-3, 1.0, 1e4])
def test_both_routes_are_the_textbook_hat(X, lam):
    G = textbook(X @ X.T, lam)
    assert_allclose(hat_from_gram(X @ X.T, Ridge(lam)).matrix, G, rtol=0, atol=1e-8)
    assert_allclose(hat_from_features(X, Ridge(lam)).matrix, G, rtol=0, atol=1e-8)


def test_route_follows_the_shape(X):
    assert make_hat(X, Linear(), 0.3).factor.shape == (30, 7)
    assert make_hat(X[:14], Linear(), 0.3).factor is None
    assert make_hat(X, RBF(), 0.3).factor is None


def test_small_penalties_keep_their_digits():
    # 1 - G is tiny here: formed as I - G it would have lost nine digits.
    X = np.random.default_rng(0).standard_normal((10, 40))
    J = np.eye(10) - 0.1
    values, vectors = np.linalg.eigh(J @ X @ X.T @ J)
    values, vectors = values[1:], vectors[:, 1:]
    lam = 1e-8 * values.mean()
    residual = vectors * (lam / (values + lam)) @ vectors.T
    hat = hat_from_gram(X @ X.T, Ridge(lam))
    assert_allclose(hat.residual, residual, rtol=1e-6, atol=1e-15)


def test_an_offset_costs_no_more_digits_than_it_must(X):
    for kernel, n, offset, atol in (
        (RBF(), 30, 1e6, 1e-7),
        (Linear(), 30, 1e8, 1e-6),
        (Linear(), 12, 1e8, 1e-6),
    ):
        plain = make_hat(X[:n], kernel, 0.3).matrix
        shifted = make_hat(X[:n] + offset, kernel, 0.3).matrix
        assert_allclose(shifted, plain, rtol=0, atol=atol)


def test_bad_kernel_matrices(X):
    with pytest.raises(ValueError, match="trials do not differ"):
        hat_from_gram(np.ones((5, 5)), 0.3)
    with pytest.raises(ValueError, match="trials do not differ"):
        hat_from_features(np.full((5, 2), 0.1), 0.3)
    with pytest.raises(ValueError, match="too large for double precision"):
        hat_from_features(X * 1e200, 0.3)
    with pytest.raises(ValueError, match="trials do not differ"):
        make_hat(X * 1e-7, Polynomial(), 0.3)
    with pytest.raises(ValueError, match="not positive definite"):
        hat_from_gram(np.diag([3.0, 2.0, -4.0, 1.0, 6.0]), Ridge(0.1))
    with pytest.raises(ValueError, match="symmetric kernel matrix"):
        make_hat(X, Callable(lambda A, B: (A @ B.T) ** 2 + A[:, :1]), 0.3)


@pytest.mark.parametrize("kernel", [Linear(), RBF(), RBF(gamma=1.0)], ids=repr)
@pytest.mark.parametrize("p", [3, 50])
def test_rounding_errors_of_an_offset_are_no_data(kernel, p):
    noise = np.random.default_rng(0).standard_normal((20, p))
    make_hat(1e5 + 1e-3 * noise, kernel, 0.3)
    with pytest.raises(ValueError, match="The trials do not differ"):
        make_hat(1e5 + 1e-7 * noise, kernel, 0.3)


@pytest.mark.parametrize("m", [1, 3, 40])
def test_a_block_without_an_inverse_leaves_the_others_theirs(m):
    rows = np.random.default_rng(0).standard_normal((2, 3, m, m + 2))
    blocks = rows @ rows.transpose(0, 1, 3, 2)
    blocks[1, 0] = 0.0  # exactly singular
    expected = blocks.copy()
    expected[1, 0] = np.eye(m)
    expected = np.linalg.inv(expected)
    expected[1, 0] = np.inf
    assert_allclose(invert_blocks(blocks), expected, rtol=1e-7, atol=1e-9)


def test_a_negative_offset_hides_no_equal_trials():
    # After centring the values differ by a hundred times their rounding, and not more.
    K = np.diag(np.full(20, 5e-12)) - 5.0
    with pytest.raises(ValueError, match="The trials do not differ"):
        hat_from_gram(K, 0.3)
