"""Data in any unit, and a trial that is far from all others."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.model_selection import KFold, LeaveOneOut

from mvpa_kfda import (
    KernelFDA,
    Ridge,
    cross_validate,
    decode_arrays,
    generalize_arrays,
    regress,
    searchlight,
)
from tests import build

#: The trial that is far, the fold that tests it, and the others in that fold.
FAR, FOLD, WITH_IT = 17, 2, [16, 18, 19, 20, 21, 22, 23]


def data(p, n_times=1, times=1.0):
    """Return trials of two classes (40, p, n_times), of which one is far."""
    codes, rng = build.codes_of((20, 20)), np.random.default_rng(0)
    X = rng.normal(size=(40, p, n_times)) + 0.6 * codes[:, None, None]
    if times > 1:
        X[FAR] = times
    return X, codes


far_away = pytest.mark.filterwarnings("ignore:.*times as far from the mean")


# ------------------------------------------------------------------- a trial far away


@far_away
@pytest.mark.parametrize("n_groups", [None, 5])
@pytest.mark.parametrize("p", [6, 60, 200])
def test_a_far_trial_does_not_set_the_penalty(p, n_groups):
    X, codes = data(p)
    X = X[:, :, 0] * np.geomspace(3, 0.3, p)
    groups = None if n_groups is None else build.groups_of(40, n_groups)
    others, cv = np.arange(40) != FAR, list(KFold(5).split(X))
    alone = KernelFDA().fit(X[others], codes[others], groups=_of(groups, others))
    lambdas, (train, _) = [], cv[FOLD]
    for times in (1e2, 1e3, 1e4):
        Z = X.copy()
        Z[FAR] = times
        found = cross_validate(Z, codes, groups=groups, cv=cv)
        lambdas.append(found.lambdas)
        # A model that does not know it loses few digits.
        model = KernelFDA(reg=Ridge(found.lambdas)).fit(X[train], codes[train])
        exact = model.predict_proba(X[WITH_IT])
        ours = found.probabilities()[WITH_IT]
        assert_allclose(ours, exact, rtol=0, atol=1e-14 * times**2)
    assert 0.5 < lambdas[0] / alone.lambda_ < 2.5
    assert_allclose(lambdas, lambdas[0], rtol=0.02)


@far_away
@pytest.mark.parametrize("p", [6, 60])
def test_a_far_trial_hides_no_penalty_from_values(p):
    X = data(p)[0][:, :, 0] * np.geomspace(3, 0.3, p)
    values, others = build.values_of(X), np.arange(40) != FAR
    scores = []
    for times in (1.0, 1e2, 1e3, 1e4, 1e5):
        Z = X.copy()
        Z[FAR] *= times
        found = regress(Z, values, cv=KFold(5)).predicted
        scores.append(np.corrcoef(found[others], values[others])[0, 1])
    assert min(scores) > scores[0] - 0.15


def _of(groups, rows):
    return None if groups is None else groups[rows]


@far_away
@pytest.mark.parametrize("p", [6, 60, 200])
def test_what_is_fitted_exactly_is_named(p):
    X, codes = data(p, times=1e7)
    far = rf"^Trial {FAR} .* is 10,000,000 times as far"
    with pytest.raises(ValueError, match=far):
        cross_validate(X[:, :, 0], codes, cv=KFold(5))
    with (
        pytest.warns(UserWarning, match=far),
        pytest.raises(ValueError, match="No lambda of the grid can be used"),
    ):
        cross_validate(X[:, :, 0], codes, reg="tuned", cv=KFold(5))


@pytest.mark.parametrize("p", [6, 60])
@pytest.mark.parametrize(
    "entry",
    [
        lambda X, codes, **options: cross_validate(X[:, :, 0], codes, **options),
        lambda X, codes, **options: regress(X[:, :, 0], codes + 0.1, **options),
        decode_arrays,
        generalize_arrays,
        lambda X, codes, **options: searchlight(
            build.volume(X.reshape(len(X), -1, 2, 1)[:, :, :1]),
            codes,
            mask_img=build.mask(np.ones((X.shape[1], 1, 1))),
            radius=30,
            standardize=False,
            **options,
        ),
        lambda X, codes, **options: cross_validate(
            X[:, :, 0] @ X[:, :, 0].T, codes, kernel="precomputed", **options
        ),
    ],
    ids=["features", "values", "times", "pairs of times", "spheres", "matrix"],
)
def test_a_far_trial_is_named(entry, p):
    options = {"reg": 0.3, "cv": KFold(5, shuffle=True, random_state=0)}
    far = rf"Trial {FAR} \(counted from 0\) is %s times as far from the mean"
    with pytest.warns(UserWarning, match=far % "1,000"):
        entry(*data(p, 2, 1e3), **options)
    with (
        pytest.warns(UserWarning, match=far % "10,000,000"),
        pytest.raises(ValueError, match=far % "10,000,000" + ".*nothing but rounding"),
    ):
        entry(*data(p, 2, 1e7), **options)


@far_away
def test_a_far_trial_that_is_tested_alone_hides_no_others():
    X, codes = data(6, times=1e7)
    cross_validate(X[:, :, 0], codes, reg=0.3, cv=LeaveOneOut())


def test_trials_that_vary_or_a_kernel_with_bounds_are_no_reason_to_warn(recwarn):
    X, codes = data(6, times=50.0)
    cross_validate(X[:, :, 0], codes, reg=0.3)
    X, codes = data(6, times=1e6)
    cross_validate(X[:, :, 0], codes, reg=0.3, kernel="rbf")
    assert not [each for each in recwarn if "as far from" in str(each.message)]


# ----------------------------------------------------------------------------- units


@pytest.mark.parametrize("unit", [2.0**-300, 2.0**300])
@pytest.mark.parametrize("reg", ["ledoit_wolf", "oas"])
@pytest.mark.parametrize("p", [6, 60])
def test_shrinkage_is_estimated_in_any_unit(p, reg, unit):
    X, codes = data(p)
    expected = cross_validate(X[:, :, 0], codes, reg=reg)
    found = cross_validate(X[:, :, 0] * unit, codes, reg=reg)
    assert_array_equal(found.class_scores, expected.class_scores)


@pytest.mark.parametrize("reg", ["auto", 0.3, "tuned"], ids=str)
@pytest.mark.parametrize("steps", [None, "pca", "confounds"])
def test_single_precision_is_as_good_in_small_units(reg, steps):
    X, codes = data(60, 2)
    options = {"dtype": "float32", "reg": reg, "n_permutations": 5, "random_state": 0}
    options |= {"scoring": "roc_auc", "cv": KFold(5)}
    if steps == "confounds":
        options["confounds"] = np.random.default_rng(1).normal(size=40)
    else:
        options["preprocess"] = steps
    expected = generalize_arrays(X, codes, **options)
    found = generalize_arrays(X * 2.0**-86, codes, **options)  # 1e-26, power in T^2
    assert_allclose(found.scores, expected.scores, rtol=0, atol=1e-12)
    assert_allclose(found.null, expected.null, rtol=0, atol=1e-12)


def test_maps_of_folds_are_as_good_in_single_precision():
    X, codes = data(60)
    options = {"dtype": "float32", "reg": 0.3, "confounds": np.arange(40.0) % 7}
    expected = cross_validate(X[:, :, 0], codes, **options)
    found = cross_validate(X[:, :, 0] * 2.0**-86, codes, **options)
    assert_array_equal(found.class_scores, expected.class_scores)


@pytest.mark.parametrize(
    ("unit", "options", "said"),
    [
        (1e-160, {}, "too small for double precision"),
        (1e-160, {"kernel": "rbf"}, "too small for double precision"),
        (1e-170, {"reg": 0.3}, "too small for double precision"),
        (1e160, {}, "too large for double precision"),
        (1e160, {"kernel": "rbf"}, "too large for double precision"),
        (1e-31, {"dtype": "float32"}, "too small for dtype='float32'"),
    ],
)
def test_values_whose_squares_are_no_numbers(unit, options, said):
    X, codes = data(6)
    with pytest.raises(ValueError, match=said + r".*Divide the data by a constant"):
        cross_validate(X[:, :, 0] * unit, codes, **options)


def test_a_matrix_and_a_model_of_values_whose_squares_are_no_numbers():
    X, codes = data(6)
    X = X[:, :, 0]
    with pytest.raises(ValueError, match="too small for double precision"):
        cross_validate(X @ X.T * 1e-320, codes, kernel="precomputed", reg=0.3)
    for unit, size in ((1e-160, "small"), (1e160, "large")):
        with pytest.raises(ValueError, match=f"too {size} for double precision"):
            KernelFDA().fit(X * unit, codes)
