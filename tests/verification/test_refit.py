"""Refitted models are those of scikit-learn, and of the definitions."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis

from mvpa_kfda.verification.refit import (
    Known,
    Recipe,
    Sample,
    label_free,
    refit,
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
