"""The direct step: batches, discriminant scores, precision, ties."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.model_selection import KFold

from mvpa_kfda.kfda import direct
from mvpa_kfda.kfda.folds import make_folds
from mvpa_kfda.kfda.hat import hat_from_gram, make_hat
from mvpa_kfda.kfda.kernels import Linear
from mvpa_kfda.kfda.penalties import Ridge
from tests import reference


def problem(n=61, p=8, c=4, seed=0):
    """Return features, unbalanced codes and permuted label vectors, observed first."""
    rng = np.random.default_rng(seed)
    codes = np.minimum(rng.geometric(0.5, n) - 1, c - 1)
    codes[:c] = np.arange(c)
    X = rng.standard_normal((n, p)) + 2 * rng.standard_normal((c, p))[codes]
    labels = np.stack([codes, *(rng.permutation(codes) for _ in range(4))])
    return X, codes, labels


def refit_scores(X, codes, train, test, lam, c):
    """Return class scores of the test rows by a model of the training rows."""
    model = reference.fit(X[train] @ X[train].T, codes[train], lam, c)
    return model.class_scores(X[test] @ X[train].T)


def test_single_precision_deviates_by_its_rounding():
    X, _, labels = problem(n=200, p=50)
    folds = make_folds(KFold(10), labels[0])
    hat = make_hat(X, Linear(), 0.3)
    double = direct.apply(direct.prepare(hat, folds), labels, 4, True)
    single = direct.apply(direct.prepare(hat, folds, "float32"), labels, 4, True)
    assert single.class_scores.dtype == np.float32
    scale = np.abs(double.class_scores).max()
    assert_allclose(single.class_scores, double.class_scores, rtol=0, atol=1e-4 * scale)
    assert (single.predicted == double.predicted).mean() > 0.999


def test_ties_go_to_the_first_class():
    # Mirror images: the left-out trial at zero is exactly as far from both classes.
    X = np.array([[-2.0], [-1.0], [1.0], [2.0], [0.0]])
    folds = make_folds([([0, 1, 2, 3], [4])], np.array([0, 0, 1, 1, 0]))
    plan = direct.prepare(hat_from_gram(X @ X.T, Ridge(0.7)), folds)
    for codes in ([0, 0, 1, 1, 0], [1, 1, 0, 0, 0], [1, 1, 0, 0, 1]):
        scored = direct.apply(plan, np.array([codes]), 2, True)
        assert scored.predicted[0, 0] == 0
        difference = np.diff(scored.class_scores[0, :, 0])
        assert_allclose(difference, 0, rtol=0, atol=1e-10)


@pytest.mark.parametrize("p", [100, 8])
def test_a_penalty_too_small_is_refused(p):
    X, codes, _ = problem(n=40, p=p)
    folds = make_folds(KFold(2 if p == 100 else 4), codes)
    hat = hat_from_gram(X @ X.T if p == 100 else rbf_kernel(X), 1e-13)
    with pytest.raises(ValueError, match=r"lambda = .* too small.*Use a larger reg"):
        direct.prepare(hat, folds)


def test_block_size_is_bounded_by_memory():
    X, codes, _ = problem()
    plan = direct.prepare(make_hat(X, Linear(), 0.3), make_folds(KFold(5), codes))
    assert 128 <= plan.block_size(4) <= 512
    assert plan.block_size(100_000) == 1


@pytest.mark.parametrize(("dtype", "too_large"), [("float64", 1e7), ("float32", 1e4)])
def test_a_penalty_beside_which_the_data_vanish_is_refused(dtype, too_large):
    X, codes, _ = problem()
    folds = make_folds(KFold(5), codes)
    direct.prepare(make_hat(X, Linear(), too_large / 100), folds, dtype)
    with pytest.raises(ValueError, match=r"lambda = .* too large.*Use a smaller reg"):
        direct.prepare(make_hat(X, Linear(), too_large), folds, dtype)


def test_a_large_penalty_keeps_its_digits():
    X, codes, _ = problem(c=3)
    folds = make_folds(KFold(5), codes)
    hat = make_hat(X, Linear(), 1e4)
    scored = direct.apply(direct.prepare(hat, folds), codes[None], 3, True)
    expected = np.concatenate(
        [
            refit_scores(X, codes, train, test, hat.lam, 3)
            for train, test in sorted(folds.pairs, key=lambda pair: len(pair[1]))
        ]
    )
    scale = np.abs(expected).max()
    assert_allclose(scored.class_scores[:, :, 0], expected, rtol=0, atol=1e-9 * scale)


def test_more_classes_than_a_signed_byte_counts():
    # Every class has an axis of its own, far from all others.
    c, rng = 130, np.random.default_rng(0)
    codes = np.tile(np.arange(c), 2)
    X = 10 * np.eye(c)[codes] + 0.1 * rng.standard_normal((2 * c, c))
    plan = direct.prepare(make_hat(X, Linear(), 0.3), make_folds(KFold(2), codes))
    for want_scores in (False, True):
        scored = direct.apply(plan, codes[None], c, want_scores)
        np.testing.assert_array_equal(scored.true[:, 0], codes[plan.rows])
        np.testing.assert_array_equal(scored.predicted[:, 0], codes[plan.rows])


@pytest.mark.parametrize("c", [3, 5, 14])
def test_classes_too_far_apart_for_single_precision_are_told_apart_or_refused(c):
    # The spread within classes is a hundred-millionth of that between them.
    codes, rng = np.tile(np.arange(c), 20), np.random.default_rng(0)
    X = 1e4 * np.eye(c)[codes] + rng.standard_normal((len(codes), c))
    hat, folds = make_hat(X, Linear(), 1e-10), make_folds(KFold(5), codes)
    scored = direct.apply(direct.prepare(hat, folds), codes[None], c)
    np.testing.assert_array_equal(scored.predicted, scored.true)
    try:
        scored = direct.apply(direct.prepare(hat, folds, "float32"), codes[None], c)
    except ValueError as error:
        assert "fitted exactly, but for rounding" in str(error)  # noqa: PT017
    else:
        np.testing.assert_array_equal(scored.predicted, scored.true)
