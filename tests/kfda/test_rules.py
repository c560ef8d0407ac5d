"""The scoring rule: all discriminants and the first ones, ties, exact fits."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.linalg import eigh

from mvpa_kfda import (
    Ridge,
)
from mvpa_kfda.kfda.hat import make_hat
from mvpa_kfda.kfda.kernels import Linear
from mvpa_kfda.kfda.rules import (
    FITTED_EXACTLY,
    RuleTerms,
    best_of_two,
    class_rule,
    contrasts,
    usable,
)

LAM = 3.0


def problem(c, p, n=47, n_permutations=3, seed=0):
    """Return features, and unbalanced label vectors, the observed ones first."""
    rng = np.random.default_rng(seed)
    codes = np.minimum(rng.geometric(0.4, n) - 1, c - 1)
    codes[: 2 * c] = np.tile(np.arange(c), 2)
    X = rng.standard_normal((n, p)) + 1.5 * rng.standard_normal((c, p))[codes]
    shuffled = (rng.permutation(codes) for _ in range(n_permutations))
    return X, np.stack([codes, *shuffled])


@pytest.mark.parametrize("absent", [False, True])
@pytest.mark.parametrize("c", [2, 3, 5])
def test_discriminants_are_those_of_the_definition(c, absent):
    """V'AV = I and V'CV diagonal; W and norms are sums over the first of them."""
    X, labels = problem(c + absent, 8)
    codes = labels[0]
    if absent:
        X, codes = X[codes != 1], codes[codes != 1]
    counts = np.bincount(codes, minlength=c + absent).astype(float)[:, None, None]
    present, Q = np.flatnonzero(counts), contrasts(c + absent)
    T = Q[codes]
    A = T.T @ make_hat(X, Linear(), Ridge(LAM)).residuals(T)
    whole = RuleTerms(counts, Q)
    d, Tc = whole.D[:, present, 0, 0], T - T.mean(axis=0)
    basis = np.linalg.svd(d)[0][:, : c - 1]  # where absent classes have no part
    C, A_in = basis.T @ Tc.T @ Tc @ basis, basis.T @ A @ basis
    values, V = eigh(C, A_in)
    V, alpha2 = basis @ V[:, ::-1], 1 - 1 / values[::-1]
    for rank in [*range(1, c), None]:
        terms = RuleTerms(counts, Q, rank)
        W, b = class_rule(A[:, :, None, None], terms)
        expected = V[:, :rank] @ V[:, :rank].T @ d
        assert_allclose(W[:, present, 0, 0], expected, rtol=1e-9, atol=1e-10)
        norms = alpha2[:rank] @ (V[:, :rank].T @ d) ** 2
        b0 = -norms / 2 - terms.mean[:, 0, 0] @ expected
        assert_allclose(b[present, 0, 0], b0, rtol=1e-8, atol=1e-9)
        assert np.isneginf(b[:, 0, 0]).sum() == absent


@pytest.mark.parametrize("rank", [3, None])
def test_absent_classes_do_not_widen_near_ties(rank):
    counts = np.array([12, 0, 9, 0, 15], np.float32)[:, None, None]
    terms = RuleTerms(counts, contrasts(5).astype(np.float32), rank)
    centred = terms.D[:, :, 0, 0] * np.sqrt(counts[:, 0, 0])
    A = (0.5 * centred @ centred.T)[:, :, None, None]  # alpha^2 is a half
    W, b = class_rule(A, terms)
    at_mean = (b + (terms.mean[:, None] * W).sum(axis=0))[[0, 2, 4], 0, 0]
    norms = 1 / counts[[0, 2, 4], 0, 0] - 1 / counts.sum()
    assert_allclose(at_mean, -norms / 2, rtol=0, atol=1.5e-5)


@pytest.mark.parametrize(
    ("c", "rank", "share"),
    [(4, 2, 0.0), (4, 2, 30.0), (4, None, 0.0), (4, None, -30.0), (14, None, -30.0)],
)
def test_an_exact_fit_is_refused(c, rank, share):
    # Of the spread within classes nothing is left but units of rounding.
    terms = RuleTerms(np.full((c, 1, 1), 6.0), contrasts(c), rank)
    A = (share * np.finfo(np.float64).eps) * terms.scatter
    with pytest.raises(ValueError, match=FITTED_EXACTLY.split(":")[0]):
        class_rule(A, terms)
    assert not usable(A, terms).any()


def test_an_exact_fit_of_two_classes_is_refused():
    terms = RuleTerms(np.full((2, 1, 1), 6.0), contrasts(2))
    T = contrasts(2)[[0, 1]].T[:, None, :, None]
    best_of_two(np.zeros((1, 1, 2, 1)), T, np.full((1, 1, 1, 1), 1e-9), terms)
    with pytest.raises(ValueError, match=FITTED_EXACTLY.split(":")[0]):
        best_of_two(np.zeros((1, 1, 2, 1)), T, np.zeros((1, 1, 1, 1)), terms)


def test_models_that_cannot_be_used():
    rng = np.random.default_rng(0)
    for c, rank in ((2, None), (3, None), (3, 1), (4, 2)):
        counts = rng.integers(1, 9, (c, 1, 2)).astype(float)
        terms = RuleTerms(counts, contrasts(c), rank)
        share = np.array([1.0, 1e-3])
        fine = terms.scatter * share
        assert usable(fine, terms).all()
        v = rng.standard_normal(c - 1)
        C = terms.scatter[:, :, 0, 0]
        for left in (0.0, -1e-3):  # of the spread along one direction
            w = C @ v
            A = C - (1 - left) * np.outer(w, w) / (v @ w)
            A = np.stack([C, A], axis=2)[:, :, None]
            found = usable(A - 1e-13 * terms.scatter, terms)
            assert_array_equal(found, [[True, False]])
    absent = RuleTerms(np.array([[[3.0]], [[0.0]], [[4.0]]]), contrasts(3))
    assert usable(0.5 * absent.scatter, absent).all()
