"""Activation patterns of models with and without folds are those of refitted ones."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from mvpa_kfda.kfda import patterns as patterns_module
from mvpa_kfda.kfda.direct import prepare
from mvpa_kfda.kfda.folds import make_folds
from mvpa_kfda.kfda.foldwise import FoldwisePlan
from mvpa_kfda.kfda.hat import hat_from_features, hat_from_gram, make_hat
from mvpa_kfda.kfda.kernels import Linear
from mvpa_kfda.kfda.patterns import class_patterns, pattern_weights, patterns_of
from mvpa_kfda.kfda.penalties import Ridge
from mvpa_kfda.kfda.preprocess import FoldPreprocessing, NoiseScaler
from tests.reference import NoiseScaling
from tests.reference import fit as reference_fit

UNBALANCED = {2: (25, 11), 4: (15, 8, 9, 12)}


def make_data(n_classes, n_features, seed=0, offset=0.0):
    """Unbalanced classes in mixed order, features in other units than 1."""
    rng = np.random.default_rng(seed)
    codes = rng.permutation(np.repeat(np.arange(n_classes), UNBALANCED[n_classes]))
    mixing = rng.normal(size=(n_features, n_features))
    means = rng.normal(size=(n_classes, n_features))
    X = rng.normal(size=(len(codes), n_features)) @ mixing + means[codes]
    return 3e-6 * (X + offset), codes


def make_tests(name, n):
    """Return the test sets of a way to split n trials."""
    rng = np.random.default_rng(1)
    return {
        "partition": np.array_split(rng.permutation(n), 5),  # of two sizes
        "leave-one-out": list(np.arange(n)[:, None]),
        "overlapping": [rng.permutation(n)[: 6 + i % 2] for i in range(7)],
    }[name]


def split(tests, codes):
    """Return the package's folds for given test sets."""
    rows = np.arange(len(codes))
    pairs = [(np.setdiff1d(rows, test), test) for test in tests]
    return make_folds(pairs, codes, None, np.unique(codes))


def forward_model(scores, signal):
    """Cov(x, s) Cov(s)^-1 (p, q) of Haufe et al. (2014), by the book."""
    joint = np.cov(signal, scores, rowvar=False)
    p = signal.shape[1]
    return joint[:p, p:] @ np.linalg.inv(joint[p:, p:])


def refit(K, codes, lam, signal, train):
    """Class patterns (c, p) and discriminant patterns (q, p) of a textbook KFDA.

    Its discriminant scores stand for s: another basis than the package uses.
    """
    K_train, codes, signal = K[np.ix_(train, train)], codes[train], signal[train]
    scores = reference_fit(K_train, codes, lam, codes.max() + 1).transform(K_train)
    A = forward_model(scores, signal)
    mean = scores.mean(axis=0)
    means = [scores[codes == k].mean(axis=0) - mean for k in np.unique(codes)]
    return np.array(means) @ A.T, A.T


def assert_close(got, expected, rtol=1e-8):
    """Compare patterns relative to their largest value."""
    assert_allclose(got, expected, rtol=0, atol=rtol * np.abs(expected).max())


def cross_validated(X, codes, splitting="partition", dtype="float64", reg=0.3):
    """Return a plan of a linear kernel with folds, and its test sets."""
    tests = make_tests(splitting, len(codes))
    folds = split(tests, codes)
    return prepare(make_hat(X, Linear(), reg), folds, dtype), tests


@pytest.mark.parametrize("splitting", ["partition", "leave-one-out", "overlapping"])
@pytest.mark.parametrize("n_features", [7, 60])
@pytest.mark.parametrize("n_classes", [2, 4])
def test_patterns_are_those_of_models_fitted_anew(n_classes, n_features, splitting):
    X, codes = make_data(n_classes, n_features)
    K, n = X @ X.T, len(codes)
    tests = make_tests(splitting, n)
    hat = make_hat(X, Linear(), 0.3)
    assert (hat.residual is None) == (n_features == 7)
    got = class_patterns(prepare(hat, split(tests, codes)), codes, n_classes, X)
    full, discriminant = refit(K, codes, hat.lam, X, np.arange(n))
    assert_close(got["class"], full)
    rows = np.arange(n)
    each = [refit(K, codes, hat.lam, X, np.setdiff1d(rows, te))[0] for te in tests]
    assert_close(got["class_folds"], np.mean(each, axis=0))
    assert np.abs(got["class_folds"] - got["class"]).max() > 1e-4 * np.abs(full).max()
    for i, pattern in enumerate(discriminant):
        sign = np.sign(pattern[np.abs(pattern).argmax()])
        assert_close(got["discriminant"][i], sign * pattern)


def test_patterns_of_features_scaled_by_labels():
    X, codes = make_data(4, 7)
    tests, rows = make_tests("partition", len(codes)), np.arange(len(codes))
    learned = FoldPreprocessing((NoiseScaler(),))
    folds = split(tests, codes)
    plan = FoldwisePlan(X, Linear(), 0.3, learned, folds, None, np.dtype(float))
    got = class_patterns(plan, codes, 4, X)

    def expected(train):
        Z = NoiseScaling().fit(X[train], codes[train]).transform(X)
        lam = 0.3 * np.var(Z[train], axis=0).sum()
        return refit(Z @ Z.T, codes, lam, X, train)[0]

    assert_close(got["class"], expected(rows))
    each = [expected(np.setdiff1d(rows, test)) for test in tests]
    assert_close(got["class_folds"], np.mean(each, axis=0))


@pytest.mark.parametrize("n_features", [7, 60])
def test_the_signal_need_not_be_what_the_model_saw(n_features):
    X, codes = make_data(4, n_features)
    K = X @ X.T
    signal = np.random.default_rng(5).normal(size=(len(X), 3)) + codes[:, None] + 1e9
    tests = make_tests("partition", len(codes))
    hat = hat_from_gram(K, 0.3)
    got = class_patterns(prepare(hat, split(tests, codes)), codes, 4, signal)
    rows = np.arange(len(codes))
    each = [refit(K, codes, hat.lam, signal, np.setdiff1d(rows, te))[0] for te in tests]
    assert_close(got["class"], refit(K, codes, hat.lam, signal, rows)[0])
    assert_close(got["class_folds"], np.mean(each, axis=0))


@pytest.mark.parametrize("reg", [3.0, 1e3])
def test_weak_discriminants_have_patterns(reg):
    # A large penalty leaves them little of the variance between classes.
    X, codes = make_data(4, 7)
    hat = make_hat(X, Linear(), reg)
    alone = class_patterns(prepare(hat, None), codes, 4, X)
    _, expected = refit(X @ X.T, codes, hat.lam, X, np.arange(len(codes)))
    for mine, pattern in zip(alone["discriminant"], expected, strict=True):
        sign = np.sign(pattern[np.abs(pattern).argmax()])
        assert_close(mine, sign * pattern, rtol=1e-6)
    # Without folds the mean over folds is the full model, which folds do not change.
    assert_array_equal(alone["class_folds"], alone["class"])
    cross = class_patterns(cross_validated(X, codes, reg=reg)[0], codes, 4, X)
    for kind in ("class", "discriminant"):
        assert_close(cross[kind], alone[kind], rtol=1e-9)


def test_a_class_that_is_absent_adds_no_discriminant():
    X, codes = make_data(4, 7)
    X, codes = X[codes != 1], codes[codes != 1]
    plan = prepare(make_hat(X, Linear(), 0.3), None)
    got = class_patterns(plan, codes, 4, X)
    alone = class_patterns(plan, np.unique(codes, return_inverse=True)[1], 3, X)
    assert_close(got["discriminant"][:2], alone["discriminant"])
    assert_array_equal(got["discriminant"][2], 0)
    assert_close(got["class"][[0, 2, 3]], alone["class"])


@pytest.mark.parametrize("reg", [1e-6, 0.3, 1e5])
@pytest.mark.parametrize("n_features", [7, 60])
def test_both_routes_any_penalty_and_precision(n_features, reg):
    X, codes = make_data(4, n_features)
    before = X.copy(), codes.copy()
    folds = split(make_tests("partition", len(codes)), codes)
    Xc = X - X.mean(axis=0)
    hats = hat_from_features(X, reg), hat_from_gram(Xc @ Xc.T, reg)
    one, two = (class_patterns(prepare(hat, folds), codes, 4, X) for hat in hats)
    for kind in one:
        assert_close(one[kind], two[kind], rtol=1e-6)
    if reg == 0.3:
        plan = prepare(hats[n_features > 7], folds, "float32")
        single = class_patterns(plan, codes, 4, X)
        for kind in one:
            assert single[kind].dtype == np.float64
            assert_close(single[kind], one[kind], rtol=1e-3)
    # Nothing given is changed.
    assert_array_equal(X, before[0])
    assert_array_equal(codes, before[1])


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("n_features", [7, 60])
def test_a_fold_without_a_class_is_left_out_of_its_mean(n_features, dtype):
    X, codes = make_data(4, n_features)
    rows = np.arange(len(codes))
    tests = [np.flatnonzero(codes == 1), np.flatnonzero(codes != 1)[::3]]
    hat = make_hat(X, Linear(), 0.3)
    plan = prepare(hat, split(tests, codes), dtype)
    got = class_patterns(plan, codes, 4, X)["class_folds"]
    rtol = 1e-8 if dtype == "float64" else 1e-3
    without, with_all = (
        refit(X @ X.T, codes, hat.lam, X, np.setdiff1d(rows, te))[0] for te in tests
    )
    expected = with_all.copy()
    others = [0, 2, 3]
    expected[others] = (with_all[others] + without) / 2
    assert_close(got, expected, rtol)
    alone = prepare(hat, split(tests[:1], codes), dtype)
    got = class_patterns(alone, codes, 4, X)
    assert np.isnan(got["class_folds"][1]).all()
    assert_close(got["class_folds"][others], without, rtol)
    assert np.isfinite(got["class"]).all()


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_fewer_channels_than_contrasts(dtype):
    """Scores of one channel have rank one; patterns are the channel's class means."""
    X, codes = make_data(4, 1)
    plan, _ = cross_validated(X, codes, dtype=dtype)
    got = class_patterns(plan, codes, 4, X)
    means = np.array([X[codes == k].mean(axis=0) for k in range(4)]) - X.mean(axis=0)
    rtol = 1e-10 if dtype == "float64" else 1e-3
    assert_close(got["class"], means, rtol)
    assert np.isfinite(got["class_folds"]).all()
    first, *others = got["discriminant"]
    assert first > 0
    assert_allclose(others, 0, rtol=0, atol=rtol * first[0])


@pytest.mark.parametrize("tests", ["partition", "leave-one-out"])
def test_several_positions_have_the_patterns_of_each(tests, monkeypatch):
    X, codes = make_data(4, 60)
    folds = split(make_tests(tests, len(codes)), codes)
    parts = X, X[:, :7], X[:, 20:60], X[:, 5:9]  # hats of both kinds
    plans = [prepare(make_hat(part, Linear(), 0.3), folds) for part in parts]
    expected = [
        class_patterns(plan, codes, 4, part)
        for plan, part in zip(plans, parts, strict=True)
    ]
    # Some folds and some channels at a time.
    monkeypatch.setattr(patterns_module, "_CACHE_BYTES", 8 * 20 * len(codes) * 9)
    together = pattern_weights(plans, codes, 4)
    for part, weights, alone in zip(parts, together, expected, strict=True):
        for kind, patterns in patterns_of(weights, part).items():
            assert_close(patterns, alone[kind], rtol=1e-9)


def test_an_exact_fit_is_refused():
    rng = np.random.default_rng(0)
    X, codes = rng.normal(size=(30, 60)), np.arange(30) % 5
    plans = [prepare(make_hat(X, Linear(), Ridge(lam)), None) for lam in (1e-14, 1e-9)]
    with pytest.raises(ValueError, match=r"too small: .* fitted exactly.*larger reg"):
        class_patterns(plans[0], codes, 5, X)
    assert np.isfinite(class_patterns(plans[1], codes, 5, X)["discriminant"]).all()
