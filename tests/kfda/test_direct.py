"""Cross-validation without retraining equals a discriminant retrained on every fold.

Most tests run ``cross_validate`` and the oracle of ``reference.py`` on the same data,
folds, penalty and labellings. Gram matrices for the oracle come from scikit-learn's
pairwise functions, folds from scikit-learn's splitters.
"""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.spatial.distance import pdist
from sklearn import model_selection as ms
from sklearn.metrics.pairwise import (
    linear_kernel,
    rbf_kernel,
)
from sklearn.model_selection import KFold

import mvpa_kfda
from mvpa_kfda import Linear, Ridge, cross_validate
from mvpa_kfda.kfda import direct
from mvpa_kfda.kfda.folds import Folds, make_folds
from mvpa_kfda.kfda.hat import hat_from_gram, make_hat
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


def oracle(K, labels, folds, lam, n_classes, rank):
    """Return what models trained anew give, by some of the discriminants."""
    run = [
        [
            reference.predict_rows(K, each, train, test, lam, n_classes, rank)
            for train, test in folds
        ]
        for each in labels
    ]
    predictions, scores = (
        np.array([np.concatenate([pair[i] for pair in each]) for each in run])
        for i in (0, 1)
    )
    rows = np.concatenate([test for _, test in folds])
    return reference.CrossValidation(rows, labels, predictions, scores)


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
    rank=None,
):
    """Run both, compare everything, return the result and the oracle's run.

    ``meant`` is the splitter that ``cv`` stands for, where it is not one itself.
    """
    K, n, c = gram(X), len(X), int(codes.max()) + 1
    folds = explicit_folds(meant or cv, X, codes, groups)
    shared = {"groups": groups, "permute": permute, "random_state": SEED}
    options = {"kernel": kernel, "reg": reg, "cv": cv, "n_components": rank}
    options["n_permutations"] = n_permutations
    result = cross_validate(
        K if kernel == "precomputed" else X, codes, **options, **shared
    )
    for pair, (train, test) in zip(result.folds, folds, strict=True):
        assert_array_equal(np.sort(pair[0]), np.sort(train))
        assert_array_equal(np.sort(pair[1]), np.sort(test))
    labels = build.permuted(codes, n_permutations, meant or cv, groups, SEED, permute)
    assert_array_equal(labels[0], codes)
    assert len(labels) > 1
    run = oracle(K, labels, folds, penalty(reg, K), c, rank)

    expected = run.mean_class_scores()
    largest = np.abs(expected[np.isfinite(expected)]).max()
    assert result.class_scores.shape == (n, c)
    assert_allclose(result.class_scores, expected, rtol=1e-8, atol=1e-10 * largest)

    tested = np.isin(np.arange(n), run.rows)
    predicted = expected[tested].argmax(axis=1)
    if len(run.rows) == len(np.unique(run.rows)):
        # Rows tested once: the oracle predicts by another rule, nearest centroid.
        assert_array_equal(predicted, run.predictions[0][np.argsort(run.rows)])
    assert_array_equal(np.ma.getmaskarray(result.predictions), ~tested)
    assert_array_equal(np.asarray(result.predictions)[tested], predicted)
    assert_array_equal(result.predicted[~tested], -1)

    accuracy = run.accuracy()
    if "Stratified" in type(cv).__name__:  # it is shown every labelling
        for b, each in enumerate(labels[1:], 1):
            own = explicit_folds(cv, X, each, groups)
            refitted = oracle(K, each[np.newaxis], own, penalty(reg, K), c, rank)
            accuracy[b] = refitted.accuracy()[0]
    assert_allclose(result.scores, accuracy[0], rtol=1e-12, atol=0)
    assert result.null.shape == (len(labels) - 1,)
    assert_allclose(result.null, accuracy[1:], rtol=1e-12, atol=0)
    return result, run


def rbf_median(X):
    """Gaussian kernel, gamma = 1 / median squared distance over pairs."""
    return rbf_kernel(X, gamma=1 / np.median(pdist(X, "sqeuclidean")))


#: Trials of three classes, and features around every number where a shortcut may begin.
P = [1, 2, 15, 16, 17, 18, 19, 33, 35, 36, 37, 300]
DRAWN = {
    "p": P,
    "counts": [(12, 14, 10), (18, 18), (20, 6, 10), (26, 4, 3, 3), (6,) * 6, (4,) * 9],
    "reg": [0.3, 0.01, 30.0, *map(mvpa_kfda.Ridge, (0.05, 5.0, 400.0))],
    "unit": [1.0, 1e-6, 1e-13, 1e5],
    "kernel": ["linear", "linear", "rbf", "precomputed"],
    "rank": [None, None, 1, 2, 3],
}


@pytest.mark.parametrize(tuple(DRAWN), build.spread(36, *DRAWN.values()))
def test_any_classes_and_features(p, counts, reg, unit, kernel, rank):
    """No absolute threshold is hidden anywhere, and no number of features matters."""
    X, codes = build.features(counts, p)
    if isinstance(reg, mvpa_kfda.Ridge) and kernel != "rbf":
        reg = mvpa_kfda.Ridge(unit**2 * reg.lam)
    cv = ms.StratifiedKFold(3) if min(counts) > 3 else ms.KFold(3, shuffle=True)
    cv = list(cv.split(X, codes))
    gram = rbf_median if kernel == "rbf" else linear_kernel
    options = {"kernel": kernel, "gram": gram, "reg": reg, "permute": "free"}
    rank = None if rank is None or rank >= len(counts) else rank
    assert_equals_oracle(unit * X, codes, cv, rank=rank, **options)


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
MANY = {"n_permutations": 12}
#: Folds and options: splitters with the default scheme, and schemes of single trials.
CASES = {name: (cv, {}) for name, cv in SPLITTERS.items()} | {
    "within folds": (ms.KFold(3), MANY | {"permute": "within_folds"}),
    "free": (ms.KFold(3), MANY | {"permute": "free"}),
    **{
        f"{scheme}, Group": (ms.LeaveOneGroupOut(), MANY | {"permute": scheme})
        for scheme in ("within_groups", "transitions", "trend")
    },
}


@pytest.mark.parametrize(("name", "setting"), build.by_turns(CASES, SETTINGS))
def test_splitters_and_schemes(name, setting):
    (kernel, p), (cv, options) = SETTINGS[setting], CASES[name]
    X, codes = build.features((15, 12, 10), p)
    groups = GROUPS if "Group" in name else None
    if "hold-out" in name:
        options = {"permute": "free"}
    _, run = assert_equals_oracle(X, codes, cv, groups=groups, **options, **kernel)
    if name == "ShuffleSplit":  # the case is meant to overlap and to miss rows
        assert len(run.rows) > len(np.unique(run.rows))
        assert len(np.unique(run.rows)) < N


@settings
def test_stratified_overlapping_splitters(kernel, p):
    """Of every labelling, and the user is told the price."""
    X, codes = build.features((15, 12, 10), p)
    for cv in (
        ms.RepeatedStratifiedKFold(n_splits=3, n_repeats=2, random_state=1),
        ms.StratifiedShuffleSplit(3, test_size=9, random_state=1),
    ):
        with pytest.warns(UserWarning, match="a model each"):
            assert_equals_oracle(X, codes, cv, **kernel)


def test_leave_p_out():
    """All 91 pairs of 14 trials: each row is tested 13 times."""
    X, codes = build.features((6, 4, 4), 6)
    _, run = assert_equals_oracle(X, codes, ms.LeavePOut(2), n_permutations=2)
    assert len(run.rows) == 182


@settings
def test_default_and_integer_cv(kernel, p):
    """Without cv: ten folds of neighbours, or groups one by one; an int: so many."""
    X, codes = build.features((15, 12, 10), p)
    assert_equals_oracle(X, codes, None, meant=ms.KFold(10), **kernel)
    assert_equals_oracle(X, codes, 4, meant=ms.KFold(4), **kernel)
    meant = ms.LeaveOneGroupOut()
    assert_equals_oracle(X, codes, None, meant=meant, groups=GROUPS, **kernel)


@settings
def test_permuted_groups(kernel, p):
    """A factor between groups: whole groups change label."""
    groups = np.repeat(np.arange(9), [3, 4, 5, 3, 4, 6, 3, 5, 4])
    codes = np.repeat([0, 1, 2, 0, 1, 2, 0, 1, 2], [3, 4, 5, 3, 4, 6, 3, 5, 4])
    X = build.features((N,), p)[0] + 0.3 * codes[:, np.newaxis]
    options = {"groups": groups, "permute": "groups", "n_permutations": 12}
    assert_equals_oracle(X, codes, ms.GroupKFold(3), **options, **kernel)


ABSENT = {
    # Rare classes drop out of training folds; they are never predicted there.
    "rare": ((9, 1, 2, 3), ms.KFold(3), 25, None),
    "rare, halves": ((9, 1, 2, 3), ms.KFold(2), 25, None),
    "rare, one out": ((9, 1, 2, 3), ms.LeaveOneOut(), 15, None),
    "rare, reduced": ((9, 1, 2, 3), ms.KFold(3), 25, 2),
    # Means over folds of which some cannot score a class.
    "overlap": ((10, 2, 3), ms.ShuffleSplit(12, test_size=0.4, random_state=0), 20, 1),
}


@pytest.mark.parametrize(("name", "setting"), build.by_turns(ABSENT, SETTINGS))
def test_classes_absent_from_training(name, setting):
    (kernel, p), (counts, cv, n_permutations, rank) = SETTINGS[setting], ABSENT[name]
    X, codes = build.features(counts, p, seed=4)
    options = {"permute": "free", "n_permutations": n_permutations, "rank": rank}
    _, run = assert_equals_oracle(X, codes, cv, **options, **kernel)
    present = np.isfinite(run.class_scores).sum(axis=2)
    assert present.min() < len(counts) == present.max()


@settings
def test_one_class_in_training(kernel, p):
    """A training fold of one class: that class is predicted."""
    X, _ = build.features((8,), p)
    codes = np.array([0, 1, 0, 0, 0, 0, 1, 0])
    options = {"permute": "free", "n_permutations": 25}
    _, run = assert_equals_oracle(X, codes, ms.KFold(2), **options, **kernel)
    assert np.isfinite(run.class_scores).sum(axis=2).min() == 1


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


# ------------------------------------------------------------ precision, ties, memory


def rare_classes(n=61, p=8, c=4, seed=0):
    """Return features, unbalanced codes and permuted label vectors, observed first."""
    rng = np.random.default_rng(seed)
    codes = np.minimum(rng.geometric(0.5, n) - 1, c - 1)
    codes[:c] = np.arange(c)
    X = rng.standard_normal((n, p)) + 2 * rng.standard_normal((c, p))[codes]
    labels = np.stack([codes, *(rng.permutation(codes) for _ in range(4))])
    return X, codes, labels


def by_size(folds):
    """Return (train, test) in the order in which folds are processed."""
    return sorted(folds.pairs, key=lambda pair: len(pair[1]))


@pytest.mark.parametrize("rank", [None, 2])
def test_single_precision_deviates_by_its_rounding(rank):
    X, _, labels = rare_classes(n=200, p=50)
    folds = make_folds(KFold(10), labels[0])
    hat = make_hat(X, Linear(), 0.3)
    double, single = (
        direct.apply(direct.prepare(hat, folds, dtype, rank), labels, 4, True)
        for dtype in ("float64", "float32")
    )
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


@pytest.mark.parametrize("rank", [None, 2])
def test_classes_that_are_alike_are_ties(rank):
    rng = np.random.default_rng(0)
    X = np.tile(rng.standard_normal((15, 4)), (4, 1))
    codes, trial = np.repeat(np.arange(4), 15), np.tile(np.arange(15), 4)
    pairs = [
        (np.flatnonzero(trial % 5 != i), np.flatnonzero(trial % 5 == i))
        for i in range(5)
    ]
    plan = direct.prepare(
        make_hat(X, Linear(), Ridge(3.0)), make_folds(pairs, codes), rank=rank
    )
    assert_array_equal(direct.apply(plan, codes[None], 4).predicted, 0)


@pytest.mark.parametrize("p", [100, 8])
def test_a_penalty_too_small_is_refused(p):
    X, codes, _ = rare_classes(n=40, p=p)
    folds = make_folds(KFold(2 if p == 100 else 4), codes)
    hat = hat_from_gram(X @ X.T if p == 100 else rbf_kernel(X), 1e-13)
    with pytest.raises(ValueError, match=r"lambda = .* too small.*Use a larger reg"):
        direct.prepare(hat, folds)


def test_block_size_is_bounded_by_memory():
    X, codes, _ = rare_classes()
    plan = direct.prepare(make_hat(X, Linear(), 0.3), make_folds(KFold(5), codes))
    assert 128 <= plan.block_size(4) <= 512
    assert plan.block_size(100_000) == 1


@pytest.mark.parametrize(("dtype", "too_large"), [("float64", 1e7), ("float32", 1e4)])
def test_a_penalty_beside_which_the_data_vanish_is_refused(dtype, too_large):
    X, codes, _ = rare_classes(c=3)
    folds = make_folds(KFold(5), codes)
    hat = make_hat(X, Linear(), too_large / 100)
    plan = direct.prepare(hat, folds, dtype)
    with pytest.raises(ValueError, match=r"lambda = .* too large.*Use a smaller reg"):
        direct.prepare(make_hat(X, Linear(), too_large), folds, dtype)
    if dtype == "float64":  # as large as it may be it keeps its digits
        found = direct.apply(plan, codes[None], 3, True).class_scores[:, :, 0]
        run = oracle(X @ X.T, codes[None], by_size(folds), hat.lam, 3, None)
        scale = np.abs(found).max()
        assert_allclose(found, run.class_scores[0], rtol=0, atol=1e-9 * scale)


def test_more_classes_than_a_signed_byte_counts():
    # Every class has an axis of its own, far from all others.
    c, rng = 130, np.random.default_rng(0)
    codes = np.tile(np.arange(c), 2)
    X = 10 * np.eye(c)[codes] + 0.1 * rng.standard_normal((2 * c, c))
    plan = direct.prepare(make_hat(X, Linear(), 0.3), make_folds(KFold(2), codes))
    for want_scores in (False, True):
        scored = direct.apply(plan, codes[None], c, want_scores)
        np.testing.assert_array_equal(scored.true[:, 0], codes[plan.rows])
        np.testing.assert_array_equal(scored.predicted[:, 0], codes[plan.rows])


@pytest.mark.parametrize("c", [3, 5, 14])
def test_classes_too_far_apart_for_single_precision_are_told_apart_or_refused(c):
    # The spread within classes is a hundred-millionth of that between them.
    codes, rng = np.tile(np.arange(c), 20), np.random.default_rng(0)
    X = 1e4 * np.eye(c)[codes] + rng.standard_normal((len(codes), c))
    hat, folds = make_hat(X, Linear(), 1e-10), make_folds(KFold(5), codes)
    scored = direct.apply(direct.prepare(hat, folds), codes[None], c)
    np.testing.assert_array_equal(scored.predicted, scored.true)
    try:
        scored = direct.apply(direct.prepare(hat, folds, "float32"), codes[None], c)
    except ValueError as error:
        assert "fitted exactly, but for rounding" in str(error)  # noqa: PT017
    else:
        np.testing.assert_array_equal(scored.predicted, scored.true)


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_two_classes_are_told_apart_alike_with_and_without_scores(dtype):
    """Also where a class is absent from training, and where whole numbers tie."""
    for seed in range(80):
        rng = np.random.default_rng(seed)
        n, whole = int(rng.integers(6, 24)), seed % 2
        X = rng.uniform(-2.5, 2.5, (n, int(rng.integers(1, 4))))
        X = np.rint(X) if whole else X
        X[0] += 0.1 * (X == X[0]).all()  # trials that do not differ at all are refused
        tests = [rng.choice(n, rng.integers(1, n // 2), False) for _ in range(4)]
        labels = rng.integers(0, 2, (30, n))
        labels[0] = np.isin(np.arange(n), tests[0])  # its second class is not trained
        labels[1] = 1 - labels[0]
        plan = direct.prepare(make_hat(X, Linear(), 0.3), Folds(tuple(tests), n), dtype)
        quick = direct.apply(plan, labels, 2)
        slow = direct.apply(plan, labels, 2, want_scores=True)
        assert quick.class_scores is None
        assert np.isneginf(slow.class_scores).any()
        assert_array_equal(quick.predicted, slow.predicted)
