"""What a test trial is, however far from all others, no other prediction knows.

Neither steps nor confounds, widths of kernels or penalties may be learned from it, at
any entry point.
"""

import inspect
from functools import cache
from itertools import product

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.decomposition import PCA
from sklearn.model_selection import KFold
from sklearn.preprocessing import (
    FunctionTransformer,
    QuantileTransformer,
    StandardScaler,
)

from mvpa_kfda import Tuned, cross_validate
from tests import build
from tests.entries import CODES, DATA, ENTRIES, OTHERS, N, epochs

#: Folds with all others in training, and with every other one of them.
WHOLE = list(KFold(3).split(CODES))
THINNED = [(train[::2], test) for train, test in WHOLE]
FOLDS = {"thinned": THINNED, "whole": WHOLE}
#: A trial that the first fold tests and no thinned training set has, and one that the
#: two other training sets have.
NEVER, LATER = 3, 2
SPEED = DATA[:, 1, 0] + np.sin(np.arange(N))
METHODS = {
    "affine": {"preprocess": ["zscore", PCA(2, svd_solver="full")]},
    "quantiles": {"preprocess": QuantileTransformer(n_quantiles=9)},
    "rbf": {"preprocess": "zscore", "kernel": "rbf"},
    "tuned": {"preprocess": "zscore", "reg": Tuned([3.0, 0.3, 0.03])},
    "auto": {"reg": "auto"},
    "z-scores, auto": {"preprocess": "zscore", "reg": "auto"},
    "ledoit_wolf": {"preprocess": "pca", "reg": "ledoit_wolf"},
    "nothing": {"reg": 0.3},
}
every_method = pytest.mark.parametrize("method", METHODS)
FOLDED = {name: entry for name, entry in ENTRIES.items() if not entry.tests_others}
OTHER = {name: entry for name, entry in ENTRIES.items() if entry.tests_others}


def spoiled(X, trial):
    """Return the data with a trial far from all others, in a direction of its own."""
    X = X.copy()
    X[trial] = 1e6 * (1 + np.arange(X[trial].size).reshape(X[trial].shape) % 3) + X[0]
    return X


def run(entry, X, speed, cv, method):
    """Return predictions (..., n) and class scores (..., n, c), if there are any."""
    options = {"cv": cv, "confounds": speed} | METHODS[method]
    known = inspect.signature(entry.function).parameters
    if entry.has("keep_class_scores"):
        options["keep_class_scores"] = True
    if "standardize" in known:  # which is done to all images at once
        options["standardize"] = False
    result = entry(X, **options)
    scores = getattr(result, "class_scores", None)
    return result.predicted, scores


@cache
def unspoiled(entry, cv, method):
    """Return the same of the data as they are, computed once."""
    return run(entry, DATA, SPEED, FOLDS[cv], method)


def assert_unchanged(found, before, trials):
    """Assert that what is predicted of some trials is what it was."""
    if before[0].dtype.kind == "f":
        assert_allclose(found[0][..., trials], before[0][..., trials], rtol=1e-7)
    else:
        assert_array_equal(found[0][..., trials], before[0][..., trials])
    if before[1] is not None:
        assert_allclose(
            found[1][..., trials, :], before[1][..., trials, :], rtol=1e-9, atol=1e-8
        )


def changed(found, before, trials):
    """Tell whether any prediction or score of some trials is another."""
    (ours, scores), (theirs, expected) = found, before
    differ = (ours != theirs)[..., trials].any()
    return differ or (scores is not None and (scores != expected)[..., trials, :].any())


#: Every other pair of an entry and a method; the others follow below.
CHOSEN = build.by_turns(FOLDED, METHODS)


@pytest.mark.some(21)
@pytest.mark.parametrize(("name", "method"), CHOSEN)
def test_test_trials_change_no_prediction_but_their_own(name, method):
    entry = FOLDED[name]
    speed = spoiled(SPEED, NEVER)
    before = unspoiled(entry, "thinned", method)
    found = run(entry, spoiled(DATA, NEVER), speed, THINNED, method)
    assert_unchanged(found, before, np.arange(N) != NEVER)
    assert changed(found, before, [NEVER])


@pytest.mark.some(21)
@pytest.mark.parametrize(
    ("name", "cv", "method"),
    build.every_pair(
        [
            (name, cv, method)
            for name, cv, method in product(FOLDED, FOLDS, METHODS)
            if (name, method) not in CHOSEN
        ]
    ),
)
def test_trials_change_predictions_where_they_are_trained_with(name, cv, method):
    entry = FOLDED[name]
    before = unspoiled(entry, cv, method)
    speed = spoiled(SPEED, LATER)
    found = run(entry, spoiled(DATA, LATER), speed, FOLDS[cv], method)
    first = np.isin(np.arange(N), WHOLE[0][1])
    assert_unchanged(found, before, first & (np.arange(N) != LATER))
    assert changed(found, before, ~first)


@every_method
@pytest.mark.parametrize("entry", OTHER.values(), ids=OTHER)
def test_other_trials_are_tested_each_by_itself(entry, method):
    other = spoiled(OTHERS, 4)
    given = {"X_test": other} if "X_test" in entry.options else {}
    given = given or {"test_epochs": epochs(other)}
    before, found = (
        entry(**METHODS[method], **options).predicted for options in ({}, given)
    )
    others = np.arange(len(other)) != 4
    assert_array_equal(found[..., others], before[..., others])
    assert (found[..., 4] != before[..., 4]).any()


def test_the_data_of_a_test_trial_are_seen_at_its_own_prediction_alone():
    # What the tests above would find: steps learned from all trials.
    X = StandardScaler().fit_transform(DATA[:, :, 0])
    spoilt = StandardScaler().fit_transform(spoiled(DATA, NEVER)[:, :, 0])
    before, found = (cross_validate(Z, CODES, cv=THINNED) for Z in (X, spoilt))
    others = np.arange(N) != NEVER
    assert (found.class_scores[others] != before.class_scores[others]).mean() > 0.9


def test_steps_that_mix_the_trials_they_are_given_are_refused():
    rng = np.random.default_rng(0)
    mixing = {
        "means": lambda Z: Z - Z.mean(axis=0),
        "ranks": lambda Z: Z.argsort(axis=0).argsort(axis=0).astype(float),
        "one": lambda Z: np.hstack([Z, Z[-1:] + np.zeros_like(Z)]),
        "chance": lambda Z: Z + rng.normal(size=Z.shape),
    }
    for function in mixing.values():
        step = FunctionTransformer(function)
        for steps in (step, ["zscore", step], [step, "zscore"]):
            with pytest.raises(ValueError, match=r"the other trials .* or on chance"):
                cross_validate(DATA[:, :, 0], CODES, cv=4, preprocess=steps)
