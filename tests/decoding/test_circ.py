import numpy as np
import pytest
import sklearn.linear_model
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.model_selection import KFold, ShuffleSplit
from sklearn.preprocessing import StandardScaler

from mvpa_kfda import Ridge, decode_arrays, generalize_arrays, regress
from tests import build

# ------------------------------------------------------------------ values on a circle


def orientations(n=48, seed=0):
    """Features (n, 8, 4) that follow orientations in degrees from the third time on."""
    rng = np.random.default_rng(seed)
    y = rng.uniform(-90, 90, n)
    X = rng.normal(size=(n, 8, 4))
    X[:, 0, 2:] += 2 * np.cos(np.pi * y / 90)[:, None]
    X[:, 1, 2:] += 2 * np.sin(np.pi * y / 90)[:, None]
    return X, y


def refitted_angles(X, X_test, angles, folds, lam):
    """Angles of sine and cosine, each predicted by scikit-learn's ridge regression."""
    found = np.empty(len(X_test))
    for train, test in folds:
        model = sklearn.linear_model.Ridge(alpha=lam).fit(
            X[train], np.column_stack([np.sin(angles), np.cos(angles)])[train]
        )
        found[test] = np.arctan2(*model.predict(X_test[test]).T)
    return found


CIRCLE = {"task": "regression", "circular": True, "period": 180, "reg": Ridge(7.0)}
BOTH = ["mean_cosine", "neg_mean_absolute_error"]


@pytest.mark.parametrize("preprocess", [None, "zscore"])
def test_angles_are_those_of_refitted_sines_and_cosines(preprocess):
    X, y = orientations()
    angles, folds = np.pi * y / 90, list(KFold(4).split(y))
    options = CIRCLE | {"cv": KFold(4), "scoring": BOTH, "preprocess": preprocess}
    options |= {"n_permutations": 19, "random_state": 0}
    result = generalize_arrays(X, y, **options)
    over_time = decode_arrays(X, y, **options)
    labels = build.permuted(np.unique(y, return_inverse=True)[1], 19, KFold(4), seed=0)
    for t, u in np.ndindex(4, 4):
        for number, permuted in [(None, angles), (3, np.sort(angles)[labels[4]])]:
            predicted = np.empty(len(y))
            for train, test in folds:
                Z, Z_test = X[train, :, t], X[test, :, u]
                if preprocess:
                    scaler = StandardScaler().fit(Z)
                    Z, Z_test = scaler.transform(Z), scaler.transform(Z_test)
                rows = np.arange(len(train)), np.arange(len(test))
                both = np.concatenate([Z, Z_test])
                found = refitted_angles(
                    both,
                    both[len(train) :],
                    permuted[np.concatenate([train, test])],
                    [rows],
                    7.0,
                )
                predicted[test] = found
            cosine = np.cos(predicted - permuted)
            arc = np.arccos(np.clip(cosine, -1, 1)) * 90 / np.pi
            if number is None:
                ours = np.pi * result.predicted[t, u] / 90
                assert_allclose(np.exp(1j * ours), np.exp(1j * predicted), rtol=1e-10)
                assert_allclose(result.scores[t, u], cosine.mean(), rtol=1e-10)
                found = result.metrics["neg_mean_absolute_error"][t, u]
                assert_allclose(found, -arc.mean(), rtol=1e-7)
            else:
                null = result.nulls["mean_cosine"][number, t, u]
                assert_allclose(null, cosine.mean(), rtol=1e-6, atol=1e-7)
    assert_allclose(np.diag(result.scores), over_time.scores, rtol=1e-10)
    assert ((result.predicted >= 0) & (result.predicted < 180)).all()
    assert over_time.chances == {BOTH[0]: 0.0, BOTH[1]: -45.0}
    assert_array_equal(over_time.pvalues("max") <= 0.05, [False, False, True, True])


def test_whole_turns_and_the_unit_of_angles_change_nothing():
    X, y = orientations()
    options = {"circular": True, "reg": [0.1, 1.0], "random_state": 0, "cv": 5}
    result = regress(X[:, :, 3], y, period=180, n_permutations=9, **options)
    turned = y + 180 * np.arange(-20, 28)
    again = regress(X[:, :, 3], turned, period=180, n_permutations=9, **options)
    radians = regress(X[:, :, 3], np.pi * y / 90, n_permutations=9, **options)
    for other in (again, radians):
        assert_allclose(other.scores, result.scores, rtol=1e-9)
        assert_allclose(np.sort(other.null), np.sort(result.null), rtol=1e-9)
        assert_array_equal(other.penalty["lambda"], result.penalty["lambda"])
    apart = np.exp(1j * radians.predicted) - np.exp(1j * np.pi * result.predicted / 90)
    assert_allclose(apart, 0, atol=1e-9)
    overlapping = regress(
        X[:, :, 3], np.pi * y / 90, cv=ShuffleSplit(30, random_state=0), circular=True
    )
    assert np.nanmean(np.cos(overlapping.predicted - np.pi * y / 90)) > 0.7


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"circular": True}, "task='regression'"),
        ({"task": "regression", "period": 180}, "Pass circular=True"),
        (CIRCLE | {"period": 0}, "'period': 0"),
        (CIRCLE | {"scoring": "r2"}, "Allowed: 'mean_cosine'"),
    ],
)
def test_circles_are_asked_for_in_whole(options, message):
    X, y = orientations()
    with pytest.raises(ValueError, match=message):
        decode_arrays(X, y, **options)


def test_all_values_at_one_angle_are_refused():
    X, _ = orientations()
    with pytest.raises(ValueError, match=r"equal|constant"):
        regress(X[:, :, 0], 30 + 180.0 * np.arange(48), circular=True, period=180)
