"""The direct step: batches, class scores, precision, ties, models for the run loop."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.model_selection import KFold, LeaveOneOut, ShuffleSplit

from mvpa_kfda.kfda import direct
from mvpa_kfda.kfda.folds import InnerFolds, make_folds
from mvpa_kfda.kfda.hat import hat_from_gram, make_hat, spectrum_of
from mvpa_kfda.kfda.kernels import Linear
from mvpa_kfda.kfda.models import Model, PenaltyRecord, RegressionModel, Stack
from mvpa_kfda.kfda.penalties import Ridge, Tuned
from mvpa_kfda.kfda.transfer import Transfer
from mvpa_kfda.kfda.tuning import tuned_plan


def problem(n=61, p=8, c=4, seed=0):
    """Return features, unbalanced codes and permuted label vectors, observed first."""
    rng = np.random.default_rng(seed)
    codes = np.minimum(rng.geometric(0.5, n) - 1, c - 1)
    codes[:c] = np.arange(c)
    X = rng.standard_normal((n, p)) + 2 * rng.standard_normal((c, p))[codes]
    labels = np.stack([codes, *(rng.permutation(codes) for _ in range(4))])
    return X, codes, labels


def refit_scores(X, codes, train, test, lam, c):
    """Return class scores of the test rows by refitting in feature space."""
    scores = np.full((len(test), c), -np.inf)
    mean = X[train].mean(axis=0)
    present = np.unique(codes[train])
    means = {k: X[train][codes[train] == k].mean(axis=0) for k in present}
    centred = X[train] - np.array([means[k] for k in codes[train]])
    penalised = centred.T @ centred + lam * np.eye(X.shape[1])
    for k in present:
        w = np.linalg.solve(penalised, means[k] - mean)
        scores[:, k] = (X[test] - mean) @ w - 0.5 * (means[k] - mean) @ w
    return scores


@pytest.mark.parametrize(
    "cv",
    [KFold(7), LeaveOneOut(), ShuffleSplit(4, test_size=0.3, random_state=0)],
    ids=lambda cv: type(cv).__name__,
)
@pytest.mark.parametrize("c", [2, 3, 6, 15])
def test_class_scores_are_those_of_refitted_models(cv, c):
    X, _, labels = problem(c=c)
    folds = make_folds(cv, labels[0])
    plan = direct.prepare(make_hat(X, Linear(), Ridge(3.0)), folds)
    scored = direct.apply(plan, labels, c, want_scores=True)
    by_size = sorted(folds.pairs, key=lambda pair: len(pair[1]))
    np.testing.assert_array_equal(plan.rows, np.concatenate([t for _, t in by_size]))
    for b, codes in enumerate(labels):
        expected = np.concatenate(
            [refit_scores(X, codes, train, test, 3.0, c) for train, test in by_size]
        )
        scale = np.abs(expected[np.isfinite(expected)]).max()
        assert_allclose(
            scored.class_scores[:, :, b], expected, rtol=1e-8, atol=1e-8 * scale
        )
        np.testing.assert_array_equal(scored.predicted[:, b], expected.argmax(axis=1))
        np.testing.assert_array_equal(scored.true[:, b], codes[plan.rows])


def test_absent_classes_are_never_predicted():
    X, _, _ = problem(n=12, c=3)
    codes = np.repeat([0, 1, 2], [5, 5, 2])
    folds = make_folds([(np.arange(10), [10, 11]), (np.arange(2, 12), [0, 1])], codes)
    plan = direct.prepare(make_hat(X, Linear(), 0.3), folds)
    two_left = direct.apply(plan, codes[None], 3, want_scores=True)
    assert np.isneginf(two_left.class_scores[:2, 2, 0]).all()
    assert np.isfinite(two_left.class_scores[2:]).all()
    expected = refit_scores(X, codes, *folds.pairs[0], float(plan.hat.lam), 3)
    assert_allclose(two_left.class_scores[:2, :2, 0], expected[:, :2], rtol=1e-8)
    one_left = direct.apply(plan, np.repeat([0, 1], [10, 2])[None], 3, True)
    np.testing.assert_array_equal(one_left.predicted[:2], 0)
    assert np.isfinite(one_left.class_scores[:2, 0]).all()


@pytest.mark.parametrize("c", [2, 3, 5])
def test_the_nearest_centroid_in_discriminant_space_wins(c):
    X, codes, _ = problem(c=c)
    lam = 3.0
    folds = make_folds(KFold(5), codes)
    plan = direct.prepare(make_hat(X, Linear(), Ridge(lam)), folds)
    predicted = direct.apply(plan, codes[None], c).predicted[:, 0]
    start = 0
    for train, test in sorted(folds.pairs, key=lambda pair: len(pair[1])):
        rows = slice(start, start + len(test))
        start = rows.stop
        mean = X[train].mean(axis=0)
        means = np.array([X[train][codes[train] == k].mean(axis=0) for k in range(c)])
        centred = X[train] - means[codes[train]]
        inverse = np.linalg.inv(centred.T @ centred + lam * np.eye(X.shape[1]))
        basis = inverse @ (means - mean).T  # spans the discriminants
        U = np.linalg.svd(basis, full_matrices=False)[0][:, : c - 1]
        W = U @ np.linalg.cholesky(
            np.linalg.inv(U.T @ np.linalg.inv(inverse) @ U)
        )  # any basis with W'(S_w + lambda I)W = I: equal up to a rotation
        distances = (((X[test] - mean) @ W)[:, None] - (means - mean) @ W) ** 2
        np.testing.assert_array_equal(
            predicted[rows], distances.sum(axis=2).argmin(axis=1)
        )


def test_blocks_of_labels_do_not_matter():
    X, _, labels = problem()
    folds = make_folds(KFold(7), labels[0])
    plan = direct.prepare(hat_from_gram(rbf_kernel(X), 0.3), folds)
    together = direct.apply(plan, labels, 4, True)
    for b in range(len(labels)):
        alone = direct.apply(plan, labels[b : b + 1], 4, True)
        np.testing.assert_array_equal(alone.predicted[:, 0], together.predicted[:, b])
        assert_allclose(
            alone.class_scores[:, :, 0],
            together.class_scores[:, :, b],
            rtol=1e-9,
            atol=1e-12,
        )


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


def test_models_have_every_part_that_the_run_loop_asks_for():
    X, codes, _ = problem()
    folds = make_folds(KFold(5), codes)
    plan = direct.prepare(make_hat(X, Linear(), 0.3), folds)
    inner = InnerFolds(None, len(X), codes, None, folds)
    tuned = tuned_plan([spectrum_of(X, Linear())], Tuned(), inner, "float64")
    transfer = Transfer(plan, None, (), None, len(X))
    for model in (plan, tuned, Stack((plan, plan)), transfer):
        assert isinstance(model, Model), model
        assert isinstance(model.plan, PenaltyRecord), model
        assert len(model.split()) == model.n_positions
    for model in (plan, tuned):
        assert isinstance(model, RegressionModel), model
        assert model.plan is model
    assert transfer.plan is plan
    assert len(Stack((plan, plan)).plan.penalty(codes[None], 4)["lambda"]) == 2
