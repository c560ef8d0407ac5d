"""The public array entry equals a discriminant retrained on every fold.

Every test runs ``cross_validate`` and the oracle of ``reference.py`` on the
same data, folds, penalty and labellings. Gram matrices for the oracle come from
scikit-learn's pairwise functions, folds from scikit-learn's splitters.
"""

from functools import partial

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.spatial.distance import pdist
from sklearn import model_selection as ms
from sklearn.metrics.pairwise import (
    laplacian_kernel,
    linear_kernel,
    polynomial_kernel,
    rbf_kernel,
)

import mvpa_kfda
from tests import build, reference

SEED = 11


def penalty(reg, K):
    """Absolute lambda: relative numbers refer to trace(JKJ) / n of all rows."""
    if isinstance(reg, mvpa_kfda.Ridge):
        return reg.lam
    n = len(K)
    J = np.eye(n) - 1 / n
    return reg * np.trace(J @ K @ J) / n


def explicit_folds(cv, X, codes, groups):
    """(train, test) row numbers, straight from scikit-learn."""
    return list(ms.check_cv(cv, codes, classifier=True).split(X, codes, groups))


def assert_equals_oracle(
    X,
    codes,
    cv,
    *,
    meant=None,
    kernel="linear",
    gram=linear_kernel,
    reg=0.3,
    groups=None,
    permute="auto",
    n_permutations=6,
    **options,
):
    """Run both, compare everything, return the result and the oracle's run.

    ``meant`` is the splitter that ``cv`` stands for, where it is not one itself.
    """
    K = gram(X)
    n, c = len(X), int(codes.max()) + 1
    folds = explicit_folds(meant or cv, X, codes, groups)
    shared = {"groups": groups, "permute": permute, "random_state": SEED}
    result = mvpa_kfda.cross_validate(
        K if isinstance(kernel, str) and kernel == "precomputed" else X,
        codes,
        kernel=kernel,
        reg=reg,
        cv=cv,
        n_permutations=n_permutations,
        **shared,
        **options,
    )
    for pair, (train, test) in zip(result.folds, folds, strict=True):
        assert_array_equal(np.sort(pair[0]), np.sort(train))
        assert_array_equal(np.sort(pair[1]), np.sort(test))
    labels = build.permuted(codes, n_permutations, meant or cv, groups, SEED, permute)
    assert_array_equal(labels[0], codes)
    assert len(labels) > 1
    run = reference.reference_cross_validate(K, codes, folds, penalty(reg, K), labels)

    expected = run.mean_class_scores()
    largest = np.abs(expected[np.isfinite(expected)]).max()
    assert result.class_scores.shape == (n, c)
    assert_allclose(result.class_scores, expected, rtol=1e-8, atol=1e-10 * largest)

    tested = np.isin(np.arange(n), run.rows)
    predicted = expected[tested].argmax(axis=1)
    if len(run.rows) == len(np.unique(run.rows)):
        # Rows tested once: the oracle predicts by another rule, nearest centroid.
        assert_array_equal(predicted, run.predictions[0][np.argsort(run.rows)])
    assert result.predictions.shape == (n,)
    assert_array_equal(np.ma.getmaskarray(result.predictions), ~tested)
    assert_array_equal(np.asarray(result.predictions)[tested], predicted)
    assert_array_equal(result.predicted[~tested], -1)

    accuracy = run.accuracy()
    if "Stratified" in type(cv).__name__:  # it is shown every labelling
        for b, each in enumerate(labels[1:], 1):
            own = explicit_folds(cv, X, each, groups)
            refitted = reference.reference_cross_validate(
                K, codes, own, penalty(reg, K), each[np.newaxis]
            )
            accuracy[b] = refitted.accuracy()[0]
    assert_allclose(result.scores, accuracy[0], rtol=1e-12, atol=0)
    assert result.null.shape == (len(labels) - 1,)
    assert_allclose(result.null, accuracy[1:], rtol=1e-12, atol=0)
    return result, run


def rbf_median(X):
    """Gaussian kernel, gamma = 1 / median squared distance over pairs."""
    return rbf_kernel(X, gamma=1 / np.median(pdist(X, "sqeuclidean")))


KERNELS = {
    "linear": ("linear", linear_kernel),
    "Linear()": (mvpa_kfda.Linear(), linear_kernel),
    "rbf": ("rbf", rbf_median),
    "RBF()": (mvpa_kfda.RBF(), rbf_median),
    "RBF(0.04)": (mvpa_kfda.RBF(gamma=0.04), partial(rbf_kernel, gamma=0.04)),
    "polynomial": ("polynomial", partial(polynomial_kernel, degree=3)),
    "Polynomial(2, 0.1, 3)": (
        mvpa_kfda.Polynomial(degree=2, gamma=0.1, coef0=3.0),
        partial(polynomial_kernel, degree=2, gamma=0.1, coef0=3.0),
    ),
    "precomputed": ("precomputed", laplacian_kernel),
    "callable": (laplacian_kernel, laplacian_kernel),
}


@pytest.mark.parametrize("p", [4, 80])
@pytest.mark.parametrize("name", KERNELS)
def test_kernels(name, p):
    """Every kernel, fewer and more features than trials."""
    X, codes = build.features((15, 12, 10), p)
    kernel, gram = KERNELS[name]
    cv = ms.KFold(4, shuffle=True, random_state=0)
    assert_equals_oracle(X, codes, cv, kernel=kernel, gram=gram)


@pytest.mark.parametrize("reg", [0.3, mvpa_kfda.Ridge(5.0)], ids=["relative", "Ridge"])
@pytest.mark.parametrize("p", [1, 2, 15, 16, 17, 18, 19, 33, 35, 36, 37, 300])
def test_feature_counts(p, reg):
    """Linear kernel of 36 trials around every size where a shortcut may switch."""
    X, codes = build.features((12, 14, 10), p)
    assert_equals_oracle(X, codes, ms.StratifiedKFold(4), reg=reg)


@pytest.mark.parametrize("p", [4, 90])
@pytest.mark.parametrize("c", range(2, 11))
def test_class_counts(c, p):
    """Two to ten classes, also more classes than features."""
    X, codes = build.features([6] * c, p)
    cv = ms.StratifiedKFold(3, shuffle=True, random_state=0)
    assert_equals_oracle(X, codes, cv)
    assert_equals_oracle(X, codes, cv, kernel="rbf", gram=rbf_median)


@pytest.mark.parametrize("p", [5, 100])
@pytest.mark.parametrize(
    "counts", [(60, 8, 6), (6, 60, 8), (60, 4), (40, 3, 3, 20, 5, 4)]
)
@pytest.mark.parametrize("cv", [ms.StratifiedKFold(3), ms.KFold(3)], ids=repr)
def test_unbalanced_classes(cv, counts, p):
    """Class sizes far apart, in any order."""
    X, codes = build.features(counts, p)
    assert_equals_oracle(X, codes, cv)
    assert_equals_oracle(X, codes, cv, kernel="rbf", gram=rbf_median)


N = 37
GROUPS = np.random.default_rng(3).permutation(
    np.repeat([4, 9, 2, 7, 5], [13, 8, 7, 5, 4])
)
SPLITTERS = {
    "KFold, unequal sizes": ms.KFold(5),
    "KFold, two halves": ms.KFold(2, shuffle=True, random_state=1),
    "StratifiedKFold": ms.StratifiedKFold(5, shuffle=True, random_state=1),
    "LeaveOneOut": ms.LeaveOneOut(),
    "RepeatedKFold": ms.RepeatedKFold(n_splits=4, n_repeats=3, random_state=1),
    "ShuffleSplit": ms.ShuffleSplit(4, test_size=0.25, random_state=1),
    "LeaveOneGroupOut": ms.LeaveOneGroupOut(),
    "LeavePGroupsOut": ms.LeavePGroupsOut(2),
    "GroupKFold": ms.GroupKFold(3),
    "GroupShuffleSplit": ms.GroupShuffleSplit(3, test_size=2, random_state=0),
    "StratifiedGroupKFold": ms.StratifiedGroupKFold(3),
    "a list of folds": list(ms.KFold(4, shuffle=True, random_state=5).split(np.eye(N))),
    "PredefinedSplit, misses rows": ms.PredefinedSplit(np.arange(N) % 5 - 1),
    "hold-out, first rows": [(np.arange(12, N), np.arange(12))],
    "hold-out, last rows in reverse": [(np.arange(30), np.arange(N - 1, 29, -1))],
    "hold-out, one row": [(np.arange(1, N), np.array([0]))],
}
SETTINGS = {
    "linear, n > p": ({}, 6),
    "linear, n < p": ({}, 70),
    "rbf": ({"kernel": "rbf", "gram": rbf_median}, 6),
}
settings = pytest.mark.parametrize(("kernel", "p"), SETTINGS.values(), ids=SETTINGS)


@settings
@pytest.mark.parametrize("name", SPLITTERS)
def test_splitters(name, kernel, p):
    """scikit-learn's splitters with permutations by the default scheme."""
    X, codes = build.features((15, 12, 10), p)
    groups = GROUPS if "Group" in name else None
    options = {"permute": "free"} if "hold-out" in name else {"groups": groups}
    _, run = assert_equals_oracle(X, codes, SPLITTERS[name], **options, **kernel)
    if name == "ShuffleSplit":  # the case is meant to overlap and to miss rows
        assert len(run.rows) > len(np.unique(run.rows))
        assert len(np.unique(run.rows)) < N


STRATIFIED = {
    "repeated": ms.RepeatedStratifiedKFold(n_splits=3, n_repeats=2, random_state=1),
    "shuffled": ms.StratifiedShuffleSplit(3, test_size=9, random_state=1),
}


@settings
@pytest.mark.parametrize("name", STRATIFIED)
def test_stratified_overlapping_splitters(name, kernel, p):
    """Of every labelling, and the user is told the price."""
    X, codes = build.features((15, 12, 10), p)
    with pytest.warns(UserWarning, match="a model each"):
        assert_equals_oracle(X, codes, STRATIFIED[name], **kernel)


@settings
def test_leave_p_out(kernel, p):
    """All 91 pairs of 14 trials: each row is tested 13 times."""
    X, codes = build.features((6, 4, 4), p)
    _, run = assert_equals_oracle(X, codes, ms.LeavePOut(2), n_permutations=3, **kernel)
    assert len(run.rows) == 182


@settings
def test_default_and_integer_cv(kernel, p):
    """Without cv: ten folds of neighbours, or groups one by one; an int: so many."""
    X, codes = build.features((15, 12, 10), p)
    assert_equals_oracle(X, codes, None, meant=ms.KFold(10), **kernel)
    assert_equals_oracle(X, codes, 4, meant=ms.KFold(4), **kernel)
    meant = ms.LeaveOneGroupOut()
    assert_equals_oracle(X, codes, None, meant=meant, groups=GROUPS, **kernel)


PENALTIES = [0.01, 1.0, 30.0, *map(mvpa_kfda.Ridge, (0.05, 3.0, 400.0))]


@settings
@pytest.mark.parametrize("reg", PENALTIES, ids=repr)
def test_penalties(reg, kernel, p):
    """A number is relative to all centred rows, Ridge(lam) is lambda itself."""
    X, codes = build.features((12, 11, 13), p)
    assert_equals_oracle(X, codes, ms.KFold(4), reg=reg, **kernel)


@pytest.mark.parametrize("unit", [1e-6, 1e-13, 1e5])
@pytest.mark.parametrize("p", [6, 70])
def test_units(p, unit):
    """Volts, tesla and large numbers: no absolute threshold is hidden anywhere."""
    X, codes = build.features((12, 11, 13), p)
    assert_equals_oracle(unit * X, codes, ms.KFold(4))


@settings
@pytest.mark.parametrize(
    "permute", ["within_folds", "within_groups", "free", "transitions", "trend"]
)
def test_permutation_schemes(permute, kernel, p):
    """The null of every scheme that moves single trials."""
    X, codes = build.features((15, 12, 10), p)
    groups = None if permute in ("within_folds", "free") else GROUPS
    cv = ms.KFold(3) if groups is None else ms.LeaveOneGroupOut()
    options = {"groups": groups, "permute": permute, "n_permutations": 12}
    assert_equals_oracle(X, codes, cv, **options, **kernel)


@settings
def test_permuted_groups(kernel, p):
    """A factor between groups: whole groups change label."""
    groups = np.repeat(np.arange(9), [3, 4, 5, 3, 4, 6, 3, 5, 4])
    codes = np.repeat([0, 1, 2, 0, 1, 2, 0, 1, 2], [3, 4, 5, 3, 4, 6, 3, 5, 4])
    X = build.features((N,), p)[0] + 0.3 * codes[:, np.newaxis]
    options = {"groups": groups, "permute": "groups", "n_permutations": 12}
    assert_equals_oracle(X, codes, ms.GroupKFold(3), **options, **kernel)


def training_class_counts(run, folds):
    """Number of classes present in each labelling's training folds, (P, k)."""
    return np.array(
        [[len(np.unique(row[train])) for train, _ in folds] for row in run.labels]
    )


@settings
@pytest.mark.parametrize("cv", [ms.KFold(3), ms.KFold(2), ms.LeaveOneOut()], ids=repr)
def test_permutation_without_a_class_in_training(cv, kernel, p):
    """Rare classes drop out of training folds; they are never predicted there."""
    X, codes = build.features((9, 1, 2, 3), p, seed=4)
    options = {"permute": "free", "n_permutations": 40}
    _, run = assert_equals_oracle(X, codes, cv, **options, **kernel)
    counts = training_class_counts(run, explicit_folds(cv, X, codes, None))
    assert counts.min() < 4 == counts.max()


@settings
def test_permutation_with_one_class_in_training(kernel, p):
    """A training fold of one class: that class is predicted."""
    X, _ = build.features((8,), p)
    codes = np.array([0, 1, 0, 0, 0, 0, 1, 0])
    options = {"permute": "free", "n_permutations": 25}
    cv = ms.KFold(2)
    _, run = assert_equals_oracle(X, codes, cv, **options, **kernel)
    counts = training_class_counts(run, explicit_folds(cv, X, codes, None))
    assert counts.min() == 1
    assert counts[0].min() == 2


@settings
def test_overlapping_folds_without_a_class_in_training(kernel, p):
    """Means over folds of which some cannot score a class."""
    X, codes = build.features((10, 2, 3), p, seed=2)
    cv = ms.ShuffleSplit(12, test_size=0.4, random_state=0)
    options = {"permute": "free", "n_permutations": 20}
    _, run = assert_equals_oracle(X, codes, cv, **options, **kernel)
    assert training_class_counts(run, explicit_folds(cv, X, codes, None)).min() < 3


@settings
def test_class_of_one_group(kernel, p):
    """Observed labels: a class that only the left-out group has."""
    X, codes = build.features((15, 16, 6), p)
    codes = np.where(GROUPS == 5, 2, codes % 2)
    options = {"groups": GROUPS, "permute": "within_groups"}
    result, _ = assert_equals_oracle(
        X, codes, ms.LeaveOneGroupOut(), **options, **kernel
    )
    assert np.all(np.isneginf(result.class_scores[GROUPS == 5, 2]))
