"""The weights of KernelFDA are those of its decision function, and others find them."""

import mne
import numpy as np
import pytest
from mne.decoding import LinearModel, SlidingEstimator, get_coef
from nilearn.maskers import NiftiMasker
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.exceptions import NotFittedError
from sklearn.feature_selection import RFE
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from mvpa_kfda import (
    RBF,
    EmpiricalMap,
    GraphSmooth,
    KernelFDA,
    Nystrom,
    Penalty,
    Polynomial,
    Ridge,
)
from tests import build

FEW, MANY = 6, 90  # features, of 40 or so trials


def omega(p):
    factor = np.random.default_rng(3).normal(size=(p, p))
    return factor @ factor.T + np.eye(p)


def models(p):
    smooth = GraphSmooth(build.chain(p))
    return {
        "ridge": KernelFDA(),
        "weak": KernelFDA(reg=1e-3),
        "tuned": KernelFDA(reg="tuned"),
        "choice": KernelFDA(["linear", smooth], reg="tuned"),
        "priors": KernelFDA(priors="empirical"),
        "one component": KernelFDA(n_components=1),
        "graph": KernelFDA(smooth),
        "penalty": KernelFDA(Penalty(omega(p))),
        "dual": KernelFDA(penalty="dual"),
        "dual graph": KernelFDA(smooth, penalty="dual"),
        "map": KernelFDA(EmpiricalMap("linear")),
        "landmarks": KernelFDA(approx=Nystrom(9)),
        "landmarks of a graph": KernelFDA(smooth, approx=Nystrom(9)),
    }


@pytest.mark.some(30)
@pytest.mark.parametrize("counts", [(20, 20), (9, 25), (14, 9, 17), (7, 12, 10, 9)])
@pytest.mark.parametrize("p", [FEW, MANY])
@pytest.mark.parametrize("name", models(FEW))
def test_the_decision_function_is_affine_with_these_weights(counts, p, name):
    X, codes, X_new = build.with_new(counts, p)
    model = models(p)[name].fit(X, build.NAMES[codes])
    n_rows = 1 if len(counts) == 2 else len(counts)
    assert model.coef_.shape == (n_rows, p)
    assert model.intercept_.shape == (n_rows,)
    for rows in (X, X_new, np.zeros((1, p)), 100 * X_new):
        expected = model.decision_function(rows)
        found = rows @ model.coef_.T + model.intercept_
        found = found[:, 0] if n_rows == 1 else found
        assert_allclose(found, expected, rtol=1e-9, atol=1e-9 * np.abs(expected).max())
    assert np.abs(model.coef_).max() > 0


@pytest.mark.parametrize("counts", [(20, 20), (9, 25), (14, 9, 17)])
def test_weights_are_those_of_discriminant_analysis(counts):
    X, codes = build.features(counts, FEW)
    model = KernelFDA(reg=Ridge(7.0), priors="empirical").fit(X, codes)

    means = np.array([X[codes == k].mean(axis=0) for k in range(len(counts))])
    centred = X - means[codes]
    within = (centred.T @ centred + 7.0 * np.eye(FEW)) / len(X)

    class Penalised:
        """The within-class covariance with the penalty of the model."""

        def fit(self, Z):
            self.covariance_ = within
            return self

    lda = LinearDiscriminantAnalysis("lsqr", covariance_estimator=Penalised())
    lda.fit(X, codes)
    assert model.coef_.shape == lda.coef_.shape
    # The scores of several classes may have anything in common.
    free = 0 if len(counts) == 2 else 1
    for name in ("coef_", "intercept_"):
        found, expected = len(X) * getattr(model, name), getattr(lda, name)
        found = found - free * found.mean(axis=0)
        expected = expected - free * expected.mean(axis=0)
        assert_allclose(found, expected, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize(
    "model",
    [
        KernelFDA("rbf"),
        KernelFDA(Polynomial(2)),
        KernelFDA("rbf", penalty="dual"),
        KernelFDA("rbf", approx=Nystrom(9)),
        KernelFDA(lambda X, Y: X @ Y.T),
        KernelFDA(["linear", RBF(1.0)], reg="tuned"),
    ],
    ids=build.words,
)
def test_other_kernels_have_no_weights(model):
    X, codes = build.features((20, 20), 2)
    radius = np.where(codes == 0, 0.1, 2.0)  # only the second kernel sees it
    X = radius[:, None] * X / np.linalg.norm(X, axis=1, keepdims=True)
    model = clone(model).fit(X, codes)
    for name in ("coef_", "intercept_"):
        assert not hasattr(model, name)
        with pytest.raises(AttributeError, match="has no weights of features, so th"):
            getattr(model, name)
    again = model.set_params(kernel="linear", approx=None, reg=0.3).fit(X, codes)
    assert hasattr(again, "coef_")


def test_without_features_or_a_fit_there_are_no_weights():
    X, codes = build.features((10, 10), 3)
    model = KernelFDA("precomputed").fit(X @ X.T, codes)
    assert not hasattr(model, "coef_")
    assert not hasattr(KernelFDA(), "coef_")
    with pytest.raises(NotFittedError, match="is not fitted yet"):
        KernelFDA().coef_  # noqa: B018


# --------------------------------------------------------------- what others make of it


@pytest.mark.parametrize("counts", [(20, 20), (14, 9, 17)])
@pytest.mark.parametrize("penalty", ["rkhs", "dual"])
def test_mne_finds_filters_and_patterns(counts, penalty):
    X, codes = build.features(counts, FEW)
    X = X * np.arange(1, FEW + 1) + 5.0
    model = LinearModel(KernelFDA(penalty=penalty)).fit(X, codes)
    alone = KernelFDA(penalty=penalty).fit(X, codes)
    assert_allclose(get_coef(model, "filters_"), np.squeeze(alone.coef_), rtol=1e-12)
    pattern = np.cov(X.T) @ alone.coef_.T
    assert_allclose(get_coef(model, "patterns_"), np.squeeze(pattern.T), rtol=1e-9)
    assert_array_equal(model.predict(X), alone.predict(X))
    assert_array_equal(get_coef(alone, "coef_"), alone.coef_)


def test_mne_goes_back_through_a_pipeline():
    X, codes = build.features((20, 20), FEW)
    X = X * np.arange(1, FEW + 1) + 5.0
    model = make_pipeline(StandardScaler(), LinearModel(KernelFDA())).fit(X, codes)
    scaler, _ = (step for _, step in model.steps)
    Z = scaler.transform(X)
    pattern = np.cov(Z.T) @ KernelFDA().fit(Z, codes).coef_[0]
    found = get_coef(model, "patterns_", inverse_transform=True)
    assert_allclose(found, scaler.inverse_transform([pattern])[0], rtol=1e-9)
    plain = make_pipeline(StandardScaler(), KernelFDA()).fit(X, codes)
    assert_array_equal(get_coef(plain, "coef_"), plain[-1].coef_)


def test_mne_finds_the_weights_of_every_time():
    X, codes = build.trials((12, 12), FEW, 4)
    steps = StandardScaler(), LinearModel(KernelFDA())
    with mne.use_log_level("error"):
        sliding = SlidingEstimator(make_pipeline(*steps)).fit(X, codes)
        patterns = get_coef(sliding, "patterns_", inverse_transform=True)
        filters = get_coef(sliding, "filters_")
    assert patterns.shape == filters.shape == (FEW, 4)
    for t in range(4):
        Z = StandardScaler().fit_transform(X[:, :, t])
        expected = KernelFDA().fit(Z, codes).coef_[0]
        assert_allclose(filters[:, t], expected, rtol=1e-9, atol=1e-12)


def test_scikit_learn_ranks_features_by_weights():
    X, codes = build.features((20, 20), FEW, separation=0.0)
    X[:, 2] += 4 * codes
    chosen = RFE(KernelFDA(), n_features_to_select=1).fit(X, codes)
    assert list(np.flatnonzero(chosen.support_)) == [2]
    grid = GridSearchCV(KernelFDA(), {"reg": [0.1, 1.0]}, cv=3)
    filters = LinearModel(grid).fit(X, codes).filters_
    assert np.argmax(np.abs(filters)) == 2


def test_weights_become_an_image():
    X, codes = build.features((20, 20), 12)
    where = np.ones((3, 2, 2), bool)
    masker = NiftiMasker(build.mask(where), standardize=None).fit()
    model = KernelFDA().fit(X, codes)
    image = masker.inverse_transform(model.coef_)
    assert_allclose(image.get_fdata()[where], model.coef_.T, rtol=1e-6)
