"""The oracle itself is right: by hand, by theory, and against scikit-learn."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.metrics.pairwise import polynomial_kernel, rbf_kernel
from sklearn.model_selection import KFold

from tests import reference
from tests.build import features, trials


def sklearn_lda(X, codes, lam):
    """Fit scikit-learn's eigen solver, equal priors, the matched penalty."""
    c = len(np.unique(codes))
    covariance = reference.PenalizedClassCovariance(
        scale=c / len(X), ridge=lam / len(X)
    )
    model = LinearDiscriminantAnalysis(
        solver="eigen", covariance_estimator=covariance, priors=np.full(c, 1 / c)
    )
    return model.fit(X, codes)


def halves(X, codes, n_test=12):
    """Train on all but the first ``n_test`` rows; linear Gram matrices."""
    train, test = np.arange(n_test, len(X)), np.arange(n_test)
    return X[train], codes[train], X[test], X[train] @ X[train].T, X[test] @ X[train].T


SHAPES = {
    "two classes, n > p": ((30, 30), 5),
    "three balanced, n > p": ((20, 20, 20), 6),
    "three unbalanced, n > p": ((50, 9, 8), 6),
    "four unbalanced, n < p": ((20, 12, 8, 6), 90),
    "more classes than features": ((12, 12, 12, 12, 12), 2),
}
shapes = pytest.mark.parametrize(("counts", "p"), SHAPES.values(), ids=SHAPES)


def test_by_hand():
    """One feature, classes {-1, 1}, {4}, {8}, lambda 2: all numbers on paper.

    Mean 3, class means relative to it -3, 1, 5; S_w = 2, S_w + lambda = 4;
    S_b = 2 * 9 + 1 + 25 = 44; w = 1 / 2.
    """
    x_train, codes = np.array([-1.0, 1.0, 4.0, 8.0]), np.array([0, 0, 1, 2])
    x_test = np.array([3.0, 7.0, 1.9])
    model = reference.fit(np.outer(x_train, x_train), codes, lam=2.0, n_classes=3)
    K_test = np.outer(x_test, x_train)
    expected = [[-9 / 8, -1 / 8, -25 / 8], [-33 / 8, 7 / 8, 15 / 8], [-0.3, -0.4, -4.5]]
    assert_allclose(model.class_scores(K_test), expected, rtol=1e-12, atol=1e-12)
    assert_array_equal(model.predict(K_test), [1, 2, 0])
    scores = model.transform(K_test)[:, 0]
    expected = np.array([0, 2, -0.55]) * np.sign(scores[1])
    assert_allclose(scores, expected, rtol=1e-12, atol=1e-12)
    odds = np.exp(4 * np.array([-9 / 8, -1 / 8, -25 / 8]))
    posterior = model.posterior(K_test)[0]
    assert_allclose(posterior, odds / odds.sum(), rtol=1e-12, atol=0)


def test_by_hand_two_features():
    """Orthogonal features: the noisy one is weighed down by its own scatter.

    Feature one has S_w = 4 * 1 and feature two S_w = 4 * 9; lambda is 4. The
    class means are (-2, -1) and (2, 1), the training mean is zero.
    """
    spread = np.array([[1.0, 3.0], [1.0, -3.0], [-1.0, 3.0], [-1.0, -3.0]])
    center = np.array([2.0, 1.0])
    X = np.concatenate([spread - center, spread + center])
    codes = np.repeat([0, 1], 4)
    model = reference.fit(X @ X.T, codes, lam=4.0, n_classes=2)
    # S_w + lambda I = diag(8 + 4, 72 + 4)
    x = np.array([[1.0, -2.0]])
    product, offset = 2 / 12 - 2 / 76, (4 / 12 + 1 / 76) / 2
    expected = [[-product - offset, product - offset]]
    assert_allclose(model.class_scores(x @ X.T), expected, rtol=1e-12, atol=0)
    # One direction, w proportional to (2/12, 1/76) and w'(S_w + lambda I) w = 1.
    length = np.sqrt(4 / 12 + 1 / 76)
    assert_allclose(np.abs(model.transform(x @ X.T)), product / length, rtol=1e-12)


@shapes
@pytest.mark.parametrize("lam", [0.1, 7.0])
def test_equals_sklearn_lda(counts, p, lam):
    """Linear kernel, matched penalty: predictions, scores and probabilities."""
    X, codes = features(counts, p)
    X_train, codes_train, X_test, K_train, K_test = halves(X, codes)
    lda = sklearn_lda(X_train, codes_train, lam)
    model = reference.fit(K_train, codes_train, lam, len(counts))
    assert_array_equal(model.predict(K_test), lda.predict(X_test))
    posterior = model.posterior(K_test)
    assert_allclose(posterior, lda.predict_proba(X_test), rtol=1e-7, atol=1e-12)


@shapes
def test_equals_sklearn_lda_when_balanced(counts, p):
    """With equal class sizes a ridge on the plain covariance is the match.

    Then scikit-learn's total covariance is right as well, and with it the
    discriminant directions.
    """
    X, codes = features([15] * len(counts), p)
    plain = reference.PenalizedClassCovariance(ridge=3.0 / len(X))
    lda = LinearDiscriminantAnalysis(solver="eigen", covariance_estimator=plain)
    lda.fit(X, codes)
    X_test = features(counts, p, seed=1)[0]
    model = reference.fit(X @ X.T, codes, 3.0, len(counts))
    assert_array_equal(model.predict(X_test @ X.T), lda.predict(X_test))
    posterior = model.posterior(X_test @ X.T)
    assert_allclose(posterior, lda.predict_proba(X_test), rtol=1e-7, atol=1e-12)
    # scikit-learn scales by the covariance, this file by the scatter.
    theirs = (X_test - X.mean(axis=0)) @ lda.scalings_ / np.sqrt(len(X))
    ours = model.transform(X_test @ X.T)
    for j in range(ours.shape[1]):
        sign = np.sign(ours[:, j] @ theirs[:, j])
        assert_allclose(ours[:, j], sign * theirs[:, j], rtol=0, atol=1e-9)


KERNELS = {
    "linear": lambda X, Y: X @ Y.T,
    "rbf": lambda X, Y: rbf_kernel(X, Y, gamma=0.05),
    "polynomial": lambda X, Y: polynomial_kernel(X, Y, degree=2),
}
kernels = pytest.mark.parametrize("kernel", KERNELS.values(), ids=KERNELS)


@shapes
@kernels
def test_centroid_rule_equals_score_rule(counts, p, kernel):
    """The nearest centroid is the largest class score."""
    X, codes = features(counts, p)
    model = reference.fit(kernel(X[12:], X[12:]), codes[12:], 1.0, len(counts))
    K_test = kernel(X[:12], X[12:])
    scores = model.class_scores(K_test)
    assert_array_equal(model.predict(K_test), scores.argmax(axis=1))
    # Squared distance plus twice the score is the same for all classes of a row.
    offsets = model.transform(K_test)[:, None] - model.centroids
    total = np.sum(offsets**2, axis=2) + 2 * scores
    expected = np.broadcast_to(total[:, :1], total.shape)
    assert_allclose(total, expected, rtol=0, atol=1e-8 * np.abs(scores).max())


@shapes
@kernels
def test_solves_the_dual_eigenproblem(counts, p, kernel):
    """The lecture-notes form: M a = alpha (N + lambda K_c) a on dual coefficients.

    M and N are written out from columns of the centred Gram matrix, and the
    between-class ratio of each direction is compared with the eigenvalue.
    """
    X, codes = features(counts, p)
    K, lam, n = kernel(X, X), 2.0, len(X)
    model = reference.fit(K, codes, lam, len(counts))
    d = min(len(counts) - 1, model.B.shape[1])
    assert model.W.shape == (model.B.shape[1], d)
    J = np.eye(n) - 1 / n
    K_c = J @ K @ J
    M, N = np.zeros((n, n)), np.zeros((n, n))
    for k, n_k in enumerate(counts):
        columns = K_c[:, codes == k]
        mean = columns.mean(axis=1)
        M += n_k * np.outer(mean, mean)
        N += columns @ (np.eye(n_k) - 1 / n_k) @ columns.T
    A = model.B @ model.W  # (n, d) dual coefficients
    normed = A.T @ (N + lam * K_c) @ A
    assert_allclose(normed, np.eye(d), rtol=0, atol=1e-8)
    left, right = M @ A, (N + lam * K_c) @ A
    values = np.diag(A.T @ M @ A)
    assert np.all(np.diff(values) <= 0)
    assert_allclose(left, right * values, rtol=0, atol=1e-8 * np.abs(left).max())


def test_scatters_add_up():
    """Between plus within is the scatter around the grand mean."""
    X, codes = features((9, 5, 4), 3)
    between, within = reference.scatters(X, codes)
    total = (X - X.mean(axis=0)).T @ (X - X.mean(axis=0))
    assert_allclose(between + within, total, rtol=1e-12, atol=1e-12)
    assert np.linalg.matrix_rank(between) == 2
    parts = [np.cov(X[codes == k].T, bias=True) * np.sum(codes == k) for k in range(3)]
    assert_allclose(within, sum(parts), rtol=1e-12, atol=1e-12)


def test_absent_class_is_never_predicted():
    """A class without training rows scores -inf; the others do not notice."""
    X, codes = features((15, 15, 15), 4)
    codes = codes * 2 % 5  # 0, 2, 4: classes 1 and 3 do not occur
    K = X @ X.T
    model = reference.fit(K, codes, 1.0, n_classes=6)
    dense = reference.fit(K, codes // 2, 1.0, n_classes=3)
    assert set(model.predict(K)) <= {0, 2, 4}
    assert_array_equal(model.predict(K), 2 * dense.predict(K))
    assert np.all(np.isneginf(model.class_scores(K)[:, [1, 3, 5]]))
    assert_array_equal(model.class_scores(K)[:, [0, 2, 4]], dense.class_scores(K))
    assert_array_equal(model.posterior(K)[:, [1, 3, 5]], np.zeros((45, 3)))
    assert_allclose(model.posterior(K).sum(axis=1), np.ones(45), rtol=1e-12, atol=0)


def test_only_class_is_always_predicted():
    """Training rows of one class: that class, score zero, no direction."""
    X, _ = features((6, 6), 3)
    codes = np.full(12, 1)
    model = reference.fit(X @ X.T, codes, 1.0, n_classes=2)
    assert model.transform(X @ X.T).shape == (12, 0)
    assert_array_equal(model.predict(X @ X.T), codes)
    scores = model.class_scores(X @ X.T)
    assert np.all(np.isneginf(scores[:, 0]))
    assert_allclose(scores[:, 1], np.zeros(12), rtol=0, atol=1e-12)


def test_first_class_wins_ties():
    """A row exactly between two centroids goes to the class with the lower code.

    The model is put together by hand, so that no rounding decides.
    """
    model = reference.Model(
        present=np.array([1, 3]),
        n_classes=4,
        K_train=np.zeros((2, 2)),
        B=np.array([[1.0], [-1.0]]),
        penalized=np.eye(1),
        W=np.eye(1),
        centroids=np.array([[2.0], [-2.0]]),
        weights=np.array([[2.0, -2.0], [-2.0, 2.0]]),
        offsets=np.array([2.0, 2.0]),
    )
    K_rows = np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0]])
    assert_array_equal(model.predict(K_rows), [1, 1, 3])


def test_cross_validation_keeps_train_and_test_apart():
    """Each instance equals a model trained by hand on that fold's rows only."""
    X, codes = features((14, 10, 8), 5)
    K = X @ X.T
    folds = list(KFold(4, shuffle=True, random_state=0).split(X))
    labels = np.array([codes, np.random.default_rng(1).permutation(codes)])
    run = reference.reference_cross_validate(K, codes, folds, 1.5, labels)
    assert run.predictions.shape == (2, 32)
    assert run.class_scores.shape == (2, 32, 3)
    for i, labelling in enumerate(labels):
        by_row = np.full(32, -1)
        for train, test in folds:
            lda = sklearn_lda(X[train], labelling[train], 1.5)
            by_row[test] = lda.predict(X[test])
        assert_array_equal(run.predictions[i], by_row[run.rows])
        expected = np.mean(by_row == labelling)
        assert_allclose(run.accuracy()[i], expected, rtol=1e-12, atol=0)
        means = run.mean_class_scores(i)
        assert_array_equal(means.argmax(axis=1), by_row)
        assert_array_equal(means[run.rows], run.class_scores[i])


def test_overlapping_and_missing_rows():
    """Averages per row, NaN for rows never tested, every instance counts once."""
    X, codes = features((10, 10), 3, separation=0.3)
    K = X @ X.T
    tests = [np.array([0, 1, 2]), np.array([2, 5])]
    folds = [(np.setdiff1d(np.arange(20), test), test) for test in tests]
    run = reference.reference_cross_validate(K, codes, folds, 1.0)
    assert_array_equal(run.rows, [0, 1, 2, 2, 5])
    means = run.mean_class_scores()
    expected = (run.class_scores[0, 2] + run.class_scores[0, 3]) / 2
    assert_allclose(means[2], expected, rtol=1e-12, atol=0)
    assert_array_equal(means[5], run.class_scores[0, 4])
    untested = np.setdiff1d(np.arange(20), [0, 1, 2, 5])
    assert np.all(np.isnan(means[untested]))
    hits = sum(run.predictions[0] == codes[run.rows])
    assert_allclose(run.accuracy(), [hits / 5], rtol=1e-12, atol=0)


def explicit_class_scores(X_train, codes, X_test, lam, n_classes):
    """Linear discriminant from features and p x p matrices, equal priors."""
    mean = X_train.mean(axis=0)
    S_w = np.zeros((X_train.shape[1], X_train.shape[1]))
    for k in np.unique(codes):
        spread = X_train[codes == k] - X_train[codes == k].mean(axis=0)
        S_w += spread.T @ spread
    scores = np.full((len(X_test), n_classes), -np.inf)
    for k in np.unique(codes):
        m = X_train[codes == k].mean(axis=0) - mean
        w = np.linalg.solve(S_w + lam * np.eye(len(m)), m)
        scores[:, k] = (X_test - mean) @ w - m @ w / 2
    return scores


def grams(X, X_test, kernel=KERNELS["linear"]):
    """Gram matrices of X's times, and between the times of X_test and of X."""
    train, test = np.moveaxis(X, 2, 0), np.moveaxis(X_test, 2, 0)
    cross = [[kernel(X_u, X_t) for X_u in test] for X_t in train]
    return [kernel(X_t, X_t) for X_t in train], cross


def test_generalization_by_hand():
    """Training time comes first: an offset at the second time decides the class.

    At time 0 the classes are at -1 and 1, at time 1 at 9 and 11. A model of time 0
    takes everything at time 1 for the upper class; a model of time 1 takes
    everything at time 0 for the lower class.
    """
    codes = np.array([0, 1, 0, 1])
    X = np.stack([2.0 * codes - 1, 2.0 * codes + 9], axis=1)[:, None]
    folds = [([2, 3], [0, 1]), ([0, 1], [3, 2])]
    run = reference.reference_generalize(*grams(X, X), codes, folds, [1.0, 2.0])
    assert_array_equal(run.rows, [0, 1, 3, 2])
    assert_array_equal(run.predictions[0, 0, 0], [0, 1, 1, 0])
    assert_array_equal(run.predictions[0, 0, 1], [1, 1, 1, 1])
    assert_array_equal(run.predictions[0, 1, 0], [0, 0, 0, 0])
    assert_array_equal(run.predictions[0, 1, 1], [0, 1, 1, 0])
    # S_w = 0, so a score is (x m - m m / 2) / lambda with class means m = -1 and 1.
    # Trials of time 1 are 9 and 11 above the mean of time 0; lambda is 1.
    expected = [[-9.5, 8.5], [-11.5, 10.5], [-11.5, 10.5], [-9.5, 8.5]]
    assert_allclose(run.class_scores[0, 0, 1], expected, rtol=1e-12, atol=0)
    # Trials of time 0 are 11 and 9 below the mean of time 1; lambda is 2.
    expected = [[5.25, -5.75], [4.25, -4.75], [4.25, -4.75], [5.25, -5.75]]
    assert_allclose(run.class_scores[0, 1, 0], expected, rtol=1e-12, atol=0)
    assert_array_equal(run.accuracy(codes)[0], [[1, 0.5], [0.5, 1]])
    # The second labelling trains in reverse: wrong by the codes, right by itself.
    run = reference.reference_generalize(
        *grams(X, X), codes, folds, [1.0, 2.0], labels=[codes, 1 - codes]
    )
    assert_array_equal(run.accuracy(codes)[:, 0, 0], [1, 0])
    assert_array_equal(run.accuracy([codes, 1 - codes])[:, 0, 0], [1, 1])


@pytest.mark.parametrize(("counts", "p"), [((13, 9, 8), 5), ((11, 12, 9), 40)])
def test_generalization_equals_explicit_features(counts, p):
    """Fold by fold and cell by cell, from features instead of kernels.

    The tested data are other epochs of the same trials. Both scikit-learn's
    discriminant and one written out here are trained on each fold's rows.
    """
    X, codes = trials(counts, p, 2)
    rng = np.random.default_rng(5)
    X_test = np.concatenate([X, X[..., :1]], axis=2)  # (n, p, 3)
    X_test += 0.5 * rng.standard_normal(X_test.shape)
    folds = list(KFold(3, shuffle=True, random_state=0).split(codes))
    labels, lam = np.array([codes, rng.permutation(codes)]), [0.7, 5.0]
    run = reference.reference_generalize(*grams(X, X_test), codes, folds, lam, labels)
    assert run.predictions.shape == (2, 2, 3, 30 if p == 5 else 32)
    for i, t, u in np.ndindex(2, 2, 3):
        start = 0
        for train, test in folds:
            cell = np.s_[i, t, u, start : start + len(test)]
            start += len(test)
            X_t, X_u, known = X[train, :, t], X_test[test, :, u], labels[i][train]
            assert_array_equal(run.rows[cell[-1]], test)
            expected = explicit_class_scores(X_t, known, X_u, lam[t], 3)
            assert_allclose(run.class_scores[cell], expected, rtol=1e-8, atol=1e-10)
            assert_array_equal(run.predictions[cell], expected.argmax(axis=1))
            lda = sklearn_lda(X_t, known, lam[t])
            assert_array_equal(run.predictions[cell], lda.predict(X_u))
        assert start == len(codes)


def test_test_rows_do_not_reach_the_models_of_any_time():
    """Only kernels among training rows, and of test with training rows, matter."""
    X, codes = trials((8, 8), 3, 2)
    K, K_cross = grams(X, X)
    train, test = np.arange(5, 16), np.arange(5)
    one = reference.reference_generalize(K, K_cross, codes, [(train, test)], [1.0, 2.0])
    for t in range(2):
        K[t][test], K[t][:, test] = np.nan, np.nan
        for u in range(2):
            K_cross[t][u][:, test], K_cross[t][u][train] = np.nan, np.nan
    labels = codes.copy()
    labels[test] = 1 - codes[test]
    other = reference.reference_generalize(
        K, K_cross, codes, [(train, test)], [1.0, 2.0], labels=[labels]
    )
    assert_array_equal(one.class_scores, other.class_scores)
    assert_array_equal(one.predictions, other.predictions)


@pytest.mark.parametrize("n_tested", [7, 35])
def test_transfer_equals_explicit_features(n_tested):
    """All trials train, all other trials are tested, fewer or more of them."""
    X, codes = trials((9, 6, 8), 5, 3)
    X_test = trials((20, 20, 20), 5, 2, seed=3)[0][:n_tested]
    truth = np.random.default_rng(2).integers(0, 3, n_tested)
    labels = np.array([codes, np.random.default_rng(1).permutation(codes)])
    lam = [0.7, 5.0, 1.5]
    run = reference.reference_transfer(*grams(X, X_test), codes, lam, labels)
    assert_array_equal(run.rows, np.arange(n_tested))
    assert run.predictions.shape == (2, 3, 2, n_tested)
    for i, t, u in np.ndindex(2, 3, 2):
        X_t, X_u = X[:, :, t], X_test[:, :, u]
        expected = explicit_class_scores(X_t, labels[i], X_u, lam[t], 3)
        scores = run.class_scores[i, t, u]
        assert_allclose(scores, expected, rtol=1e-8, atol=1e-10)
        lda = sklearn_lda(X_t, labels[i], lam[t])
        assert_array_equal(run.predictions[i, t, u], lda.predict(X_u))
        share = np.mean(lda.predict(X_u) == truth)
        assert_allclose(run.accuracy(truth)[i, t, u], share, rtol=1e-12, atol=0)
