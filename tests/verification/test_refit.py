"""Refitted models are those of scikit-learn, and of the definitions."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.kernel_ridge import KernelRidge
from sklearn.metrics.pairwise import rbf_kernel

from mvpa_kfda.verification.refit import (
    Known,
    Recipe,
    Sample,
    label_free,
    refit,
    tuned,
)
from tests import build, reference
from tests.to_verify import X, Y, trials

CODES = (Y == "dog").astype(int)
TRAIN, TEST = X[:, :, 0], trials(seed=1)[0][:, :, 0]


@pytest.mark.parametrize("gamma", [0.01, 0.5])
def test_refits_are_linear_discriminants(gamma):
    lda = LinearDiscriminantAnalysis("lsqr", shrinkage=gamma).fit(TRAIN, Y)
    means = np.array([TRAIN[CODES == k].mean(axis=0) for k in (0, 1)])
    scatter = np.square(TRAIN - means[CODES]).sum()
    ridge = {"name": "Ridge", "lam": gamma / (1 - gamma) * scatter / TRAIN.shape[1]}
    recipe = Recipe(({"name": "Linear"},), ridge, 2)
    found = refit(Sample(TRAIN, CODES), Sample(TEST, CODES), recipe)
    assert_array_equal(lda.classes_[found.predicted], lda.predict(TEST))
    # The same in the feature space of a kernel, here of the same one.
    gram = np.vstack([TRAIN, TEST]) @ np.vstack([TRAIN, TEST]).T
    numbers = np.arange(80)[:, np.newaxis]
    recipe = replace(recipe, kernels=({"name": "Precomputed"},), gram=gram)
    again = refit(Sample(numbers[:40], CODES), Sample(numbers[40:], CODES), recipe)
    assert_allclose(again.scores, found.scores, rtol=1e-8, atol=1e-10)


def test_refits_of_values_are_kernel_ridge_regression():
    values, lam = build.values_of(TRAIN), 0.7
    recipe = Recipe(
        ({"name": "RBF", "gamma": 0.1},), {"name": "Ridge", "lam": lam}, None
    )
    found = refit(Sample(TRAIN, values), Sample(TEST, values), recipe)
    # A centred kernel: the offset is the mean of the values.
    K = rbf_kernel(TRAIN, gamma=0.1)
    K_test = rbf_kernel(TEST, TRAIN, gamma=0.1)
    K_test = K_test - K_test.mean(axis=1, keepdims=True) - K.mean(axis=0) + K.mean()
    K = K - K.mean(axis=0) - K.mean(axis=1, keepdims=True) + K.mean()
    ridge = KernelRidge(alpha=lam, kernel="precomputed").fit(K, values - values.mean())
    expected = ridge.predict(K_test) + values.mean()
    assert_allclose(found.predicted, expected, rtol=1e-8, atol=0)


@pytest.mark.parametrize("n_groups", [None, 4])
@pytest.mark.parametrize("p", [6, 60])
def test_penalties_without_labels_are_those_of_the_oracle(p, n_groups):
    features = np.random.default_rng(0).normal(size=(40, p)) * np.geomspace(1, 0.1, p)
    groups = None if n_groups is None else build.groups_of(40, n_groups)
    sample = Sample(features, None, groups)
    known = Known(sample, sample, features, None)
    expected = reference.label_free(features @ features.T, p, groups)
    found = label_free({"name": "Linear"}, known)
    assert_allclose(found, [expected.like_noise, expected.anywhere], rtol=1e-6, atol=0)


def test_the_kernel_and_penalty_that_lose_least_are_chosen():
    kernels = {"name": "Linear"}, {"name": "RBF", "gamma": 0.05}
    grid = [3.0, 0.3, 0.03]
    reg = {"name": "Tuned", "grid": grid}
    sample = Sample(TRAIN, CODES)
    known = Known(sample, sample, TRAIN, None)
    kernel, lam, unsure = tuned(sample, Recipe(kernels, reg, 2), known)
    grams = [TRAIN @ TRAIN.T, rbf_kernel(TRAIN, gamma=0.05)]
    scales = [np.trace(K - K.mean(axis=0)) / 40 for K in grams]
    lambdas = [[each * scale for each in grid] for scale in scales]
    splits = [(np.delete(np.arange(40), i), np.array([i])) for i in range(40)]
    number, expected, *_ = reference.choose(
        grams, lambdas, CODES, np.arange(40), splits, 2
    )
    assert kernel == kernels[number]
    assert_allclose(lam, expected, rtol=1e-9, atol=0)
    assert not unsure
