"""``reg="auto"``: one penalty from the features of all trials that are trained with.

The oracle (`reference.label_free`) is worked out from the centred kernel matrix and the
hat matrix. With the lambda that comes out results are those of this lambda given by
hand, to the last bit.
"""

from itertools import product

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.linalg import hadamard
from scipy.stats import special_ortho_group
from sklearn.base import clone
from sklearn.metrics.pairwise import linear_kernel, rbf_kernel
from sklearn.model_selection import (
    KFold,
    LeaveOneGroupOut,
    LeaveOneOut,
    PredefinedSplit,
    ShuffleSplit,
    StratifiedKFold,
    StratifiedShuffleSplit,
)

from mvpa_kfda import (
    RBF,
    KernelFDA,
    Nystrom,
    Penalty,
    Ridge,
    cross_validate,
    decode_arrays,
    decode_regions,
    generalize_arrays,
    regress,
)
from mvpa_kfda.kfda.automatic import Unseen
from mvpa_kfda.kfda.hat import centre_gram, scatter_moments
from mvpa_kfda.kfda.penalties import Auto
from tests import build, reference

SEED = 3
#: Runs of unequal size that are not in order, and single trials beside them.
RUNS = {
    "no": lambda n: None,
    "runs": lambda n: np.arange(n) * 6 // n,
    "unequal": lambda n: np.r_[0, 5, 0, np.arange(n - 3) ** 2 * 6 // n**2],
    "some alone": lambda n: np.where(np.arange(n) < 9, np.arange(n) % 3, np.arange(n)),
    "two": lambda n: np.arange(n) % 2,
    "alone": lambda n: np.arange(n)[::-1],
}


def spectrum(X):
    return X * np.geomspace(30, 0.3, X.shape[1])


def referenced(X):
    return X - X.mean(axis=1, keepdims=True)


def alike(X):
    X = X.copy()
    X[:, 1], X[5:8] = X[:, 0], X[4]
    return X


def constant(X):
    X = X.copy()
    X[:, 1], X[:9, 2] = 5.0, 7.0
    return X


def far(X):
    X = X.copy()
    X[3] *= 1e2
    return X


SPOILED = [np.asarray, spectrum, referenced, alike, constant, far]


# ------------------------------------------------------------------------- the numbers


@pytest.mark.some(40)
@pytest.mark.parametrize("n_groups", RUNS)
@pytest.mark.parametrize("spoil", SPOILED, ids=lambda each: each.__name__)
@pytest.mark.parametrize("p", [1, 4, 29, 30, 31, 90])
def test_lambdas_are_those_of_the_oracle(p, spoil, n_groups):
    X, _ = build.features((10, 10, 11), p, SEED)
    if p < 4 and spoil is not np.asarray:
        return
    X, groups = spoil(X), RUNS[n_groups](31)
    Xc = X - X.mean(axis=0)
    expected = reference.label_free(Xc @ Xc.T, p, groups)
    # Where more penalties are as good the choice between them is of fewer digits.
    for moments in (scatter_moments(X, p)[1], centre_gram(Xc @ Xc.T, False, p)[1]):
        found = Unseen.of(moments, groups)
        assert_allclose(found.lambdas, expected.grid, rtol=1e-9)
        assert_allclose(found.like_noise(), expected.like_noise, rtol=1e-5)
        assert_allclose(found.anywhere(), expected.anywhere, rtol=1e-4)
        some = np.flatnonzero(np.arange(31) % 4)
        part = Auto(some, groups)._lambda(moments)
        alone = reference.label_free(
            (Xc @ Xc.T)[np.ix_(some, some)], p, None if groups is None else groups[some]
        )
        assert_allclose(part, alone.like_noise, rtol=1e-5)


FOLDS = {
    "four": KFold(4),
    "overlapping": ShuffleSplit(4, test_size=9, random_state=0),
    "one": PredefinedSplit(9 * [0] + 31 * [-1]),
}


@pytest.mark.some(20)
@pytest.mark.filterwarnings("ignore:.*as far from the mean:UserWarning")
@pytest.mark.parametrize("kernel", ["linear", RBF(0.05), "precomputed"], ids=str)
@pytest.mark.parametrize("p", [1, 6, 30, 60])
@pytest.mark.parametrize("n_groups", RUNS)
@pytest.mark.parametrize("cv", FOLDS)
def test_folds_have_the_lambda_of_all_that_is_trained_with(cv, n_groups, p, kernel):
    X, y = build.features((20, 20), p, SEED)
    X, groups, cv = far(X), RUNS[n_groups](40), list(FOLDS[cv].split(X))
    K = X @ X.T if kernel != RBF(0.05) else rbf_kernel(X, gamma=0.05)
    trained = np.unique(np.concatenate([train for train, _ in cv]))
    part = None if groups is None else groups[trained]
    lam = reference.label_free(
        K[np.ix_(trained, trained)], p if kernel == "linear" else None, part
    ).like_noise
    data = K if kernel == "precomputed" else X
    result = cross_validate(data, y, groups=groups, kernel=kernel, cv=cv)
    assert_allclose(result.lambdas, lam, rtol=1e-6)
    s = np.linalg.eigvalsh(reference.center(K, K))
    df = 1 + (s / (s + lam)).sum()
    assert_allclose(result.degrees_of_freedom, df, rtol=1e-6)


# ------------------------------------------------------- as with this lambda by hand


#: Functions of features (n, p) that decode a single position, or alike positions.
ENTRIES = {
    "arrays": cross_validate,
    "times": lambda X, y, **options: decode_arrays(X[..., None], y, **options),
    "pairs": lambda X, y, **options: generalize_arrays(X[..., None], y, **options),
    "regions": lambda X, y, **options: decode_regions(
        X, y, labels_img=np.ones(X.shape[1]), standardize=False, **options
    ),
}
ROWS = np.arange(40)
ALSO = {
    "nothing": {},
    "runs": {"groups": ROWS * 7 % 40 // 8},
    "runs, float32": {"groups": ROWS // 8, "dtype": "float32"},
    "averages": {"average": 2, "cv": 4},
    "averages and singles": {"average": 2, "average_test": False, "cv": 4},
    "averages again": {"average": 2, "n_repeats": 2, "cv": 4},
    "averages in runs": {"average": 2, "groups": ROWS * 7 % 40 // 8},
    "folds again": {"cv": KFold(4), "n_repeats": 2},
    "shown": {"cv": StratifiedKFold(4)},
    "shown, parts": {"cv": StratifiedShuffleSplit(1, test_size=9, random_state=0)},
    "overlapping": {"cv": ShuffleSplit(3, test_size=9, random_state=0)},
    "one fold": {"cv": [(ROWS[9:], ROWS[:9])], "permute": "free"},
    "a part": {"cv": [(ROWS[9:30], ROWS[:9]), (ROWS[:20], ROWS[25:])]},
    "chosen": {"train_on": ROWS % 3 > 0, "cv": 4},
    "steps": {"preprocess": "zscore", "cv": 4},
    "steps in runs": {"preprocess": ["zscore", "pca"], "groups": ROWS // 8},
    "confounds": {"confounds": ROWS % 7, "cv": 4},
    "rbf": {"kernel": "rbf", "cv": 4},
    "landmarks": {"kernel": "rbf", "approx": Nystrom(9), "cv": 4},
    "smooth": {"kernel": Penalty(np.diag(np.linspace(1, 3, 12))), "cv": 4},
    "rank": {"n_components": 1, "cv": 4},
}
#: Where folds or repeats have penalties of their own.
SEVERAL = (
    *("averages again", "folds again", "averages and singles", "a part", "chosen"),
    *("steps", "steps in runs", "confounds"),
)


def assert_same_bits(found, expected, with_null=True):
    """Assert that two results are equal but for what was asked."""
    assert_array_equal(found.predicted, expected.predicted)
    pairs = [(found.metrics, expected.metrics), (found.nulls, expected.nulls)]
    pairs += [
        (found.fold_metrics, expected.fold_metrics),
        (vars(found), vars(expected)),
    ]
    names = "accuracy", "roc_auc", "class_scores"
    for (ours, theirs), name in product(pairs if with_null else pairs[::2], names):
        if ours.get(name) is not None:
            assert_array_equal(ours[name], theirs[name])
    assert_array_equal(found.degrees_of_freedom, expected.degrees_of_freedom)


@pytest.mark.some(36)
@pytest.mark.filterwarnings("ignore:.*class.*:UserWarning")
@pytest.mark.filterwarnings("ignore:.*average:UserWarning")
@pytest.mark.parametrize("p", [5, 45])
@pytest.mark.parametrize("also", ALSO)
@pytest.mark.parametrize("entry", ENTRIES)
def test_equals_the_same_lambda_by_hand(entry, also, p):
    """To the last bit; where folds or repeats have several, each of them by itself."""
    X, y = build.features((14, 14, 12), 12 if also == "smooth" else p, SEED)
    options = {"n_permutations": 3, "random_state": 0} | ALSO[also]
    options["scoring"] = ["accuracy", "roc_auc"]
    found = ENTRIES[entry](X, y, **options)
    lambdas = cross_validate(X, y, **options).lambdas
    assert_allclose(found.lambdas, np.broadcast_to(lambdas, np.shape(found.lambdas)))
    if also not in SEVERAL:
        (lam,) = np.unique(found.lambdas)
        expected = ENTRIES[entry](X, y, reg=Ridge(lam), **options)
        # Of labels that are shown to splitters other trials are trained with.
        assert_same_bits(found, expected, with_null=also != "shown, parts")
        return
    options["n_permutations"] = 0
    scores = found.fold_metrics["roc_auc"]
    of_folds = np.repeat(found.lambdas, scores.shape[-1] // found.lambdas.shape[-1], -1)
    of_folds = np.broadcast_to(of_folds, scores.shape)
    for lam in np.unique(of_folds):
        expected = ENTRIES[entry](X, y, reg=Ridge(lam), **options)
        mine, theirs = of_folds == lam, expected.fold_metrics["roc_auc"]
        assert_array_equal(scores[mine], theirs[mine])


def size_of_scores(true, predicted, scores):
    """Return a score that no two penalties share."""
    return np.abs(scores).mean()


def test_labels_that_are_shown_have_the_penalties_of_their_training_sets():
    X, y = build.features((14, 14, 12), 30, SEED)
    cv, groups = StratifiedShuffleSplit(1, test_size=9, random_state=0), ROWS // 8
    options = {"groups": groups, "scoring": size_of_scores}
    result = cross_validate(X, y, cv=cv, n_permutations=3, random_state=0, **options)
    labels = build.permuted(y, 3, None, groups)
    lambdas = []
    for each, score in zip(labels, np.append(result.scores, result.null), strict=True):
        once = cross_validate(X, each, cv=list(cv.split(X, each)), **options)
        assert_allclose(score, once.scores, rtol=1e-9)
        lambdas.append(once.lambdas)
    assert len(np.unique(lambdas)) == 4


@pytest.mark.parametrize(("entry", "p"), build.by_turns(ENTRIES, [5, 45]))
def test_labels_have_no_part_in_it(p, entry):
    X, y = build.features((20, 20), p, SEED, 3.0)
    others = np.random.default_rng(0).permutation(y)
    for options in ({}, {"groups": ROWS // 8}, {"preprocess": "zscore"}):
        one, two = (ENTRIES[entry](X, each, **options) for each in (y, others))
        assert_array_equal(one.lambdas, two.lambdas)
        assert (one.predicted != two.predicted).any()


@pytest.mark.parametrize(("entry", "p"), build.by_turns(ENTRIES, [45, 5]))
def test_trials_that_are_only_tested_have_no_part_in_it(p, entry):
    X, y = build.features((20, 20), p, SEED)
    other, chosen, groups = X.copy(), ROWS % 4 > 0, ROWS // 8
    other[~chosen] = 10 * X[~chosen] + 3
    fold = [(ROWS[chosen], ROWS[~chosen])]
    alone = KernelFDA().fit(X[chosen], y[chosen], groups=groups[chosen]).lambda_
    for options in ({"cv": fold}, {"cv": fold * 2}, {"train_on": chosen}):
        one, two = (
            ENTRIES[entry](each, y, groups=groups, **options) for each in (X, other)
        )
        assert_allclose(one.lambdas, two.lambdas, rtol=1e-9)
        if "cv" in options:  # else there is a fold for each group
            assert_allclose(one.lambdas, alone, rtol=1e-9)


@pytest.mark.parametrize("n_groups", ["no", "runs"])
@pytest.mark.parametrize("p", [5, 39, 60])
def test_rotations_and_units_do_not_matter(p, n_groups):
    X, y = build.features((14, 14, 12), p, SEED)
    X, groups = X * np.geomspace(3, 0.1, p), RUNS[n_groups](40)
    options = {"groups": groups, "n_permutations": 9, "random_state": 0}
    expected = cross_validate(X, y, **options)
    rotation = special_ortho_group(p, seed=0).rvs()
    for other, unit in ((X @ rotation, 1), (1e-13 * X, 1e-13), (1e6 * X + 3e7, 1e6)):
        found = cross_validate(other, y, **options)
        assert_allclose(found.lambdas, unit**2 * expected.lambdas, rtol=1e-6)
        assert_array_equal(found.predicted, expected.predicted)
        assert_array_equal(found.null, expected.null)
    assert_array_equal(
        cross_validate(2.0**40 * X, y, **options).class_scores, expected.class_scores
    )


def test_trials_that_tell_nothing():
    rng, runs = np.random.default_rng(0), np.arange(32) // 4
    # Trials of a group are the same.
    moments = scatter_moments(rng.standard_normal((8, 5))[runs], 5)[1]
    found, alone = (Unseen.of(moments, groups) for groups in (runs, None))
    assert_allclose(found.like_noise(), alone.like_noise(), rtol=1e-9)
    assert_allclose(found.anywhere(), alone.anywhere(), rtol=1e-6)
    # All directions are alike, or there are very few trials: shrink all that can be.
    for groups in (None, np.arange(16) // 4):
        found = Unseen.of(scatter_moments(hadamard(16)[:, 1:] / 3.0, 15)[1], groups)
        assert found.like_noise() == found.lambdas[0]
    for n in (2, 3):
        X = rng.standard_normal((n, 5))
        w = np.linalg.svd(X - X.mean(axis=0), compute_uv=False)[0] ** 2
        model = KernelFDA().fit(X, np.arange(n) % 2)
        assert_allclose(model.lambda_, 10 * w, rtol=1e-9)


# ------------------------------------------------------------------ the estimator, maps


@pytest.mark.parametrize("kernel", ["linear", "rbf", RBF(0.05)], ids=str)
@pytest.mark.parametrize("p", [5, 50])
def test_the_estimator_chooses_as_the_folds_do(kernel, p):
    X, y = build.features((12, 12, 12), p, SEED)
    groups = np.arange(36) // 6
    # Folds that train on a part learn all of their kernel from that part, too.
    cv = [(train[1:], test) for train, test in KFold(3).split(X)]
    for given in (None, groups):
        result = cross_validate(X, y, groups=given, cv=cv, kernel=kernel)
        for number, (train, test) in enumerate(cv):
            inside = None if given is None else given[train]
            model = KernelFDA(kernel).fit(X[train], y[train], groups=inside)
            assert_allclose(model.lambda_, result.lambdas[number], rtol=1e-8)
            assert_array_equal(model.predict(X[test]), result.predictions[test])
            assert model.tuning_ is None
    assert clone(KernelFDA()).reg == "auto"


def test_indefinite_kernels_are_refused():
    X, y = build.features((12, 12), 4, SEED)
    K = -(np.square(X[:, None] - X).sum(axis=2) ** 1.5) + 30 * linear_kernel(X)
    K[np.diag_indices(24)] += 40
    with pytest.raises(ValueError, match=r"not positive semi-definite.*eigenvalues"):
        cross_validate(K, y, kernel="precomputed")


# ------------------------------------------------------------------------------ numbers


@pytest.mark.parametrize("reg", ["auto", "tuned"])
@pytest.mark.parametrize(
    ("n_groups", "p"), build.by_turns(["no", "runs", "two", "alone"], [6, 60])
)
def test_numbers_are_predicted_as_by_refits(n_groups, p, reg):
    X, _ = build.features((20, 20), p, SEED)
    y, groups = build.values_of(X), RUNS[n_groups](40)
    cv = list(KFold(2 if reg == "auto" else 4).split(X))
    result = regress(X, y, groups=groups, cv=cv, reg=reg)
    K, splits = linear_kernel(X - X.mean(axis=0)), None
    lambdas = [reference.lambdas_over_spectrum(K)]
    for number, (train, test) in enumerate(cv):
        if n_groups in ("runs", "two"):
            splits = list(LeaveOneGroupOut().split(train, groups=groups[train]))
        _, lam, errors = reference.choose([K], lambdas, y, train, splits, None)
        assert_allclose(result.lambdas[number], lam, rtol=1e-6)
        assert_allclose(result.penalty["criterion"][number], errors, rtol=1e-6)
        inside, across = K[np.ix_(train, train)], K[np.ix_(test, train)]
        predicted = reference.regress(inside, across, y[train, None], lam)[:, 0]
        assert_allclose(result.predicted[test], predicted, rtol=1e-7)


def test_numbers_without_noise_are_predicted_without_error():
    X, _ = build.features((20, 20), 6, SEED)
    for dtype in ("float64", "float32"):
        result = regress(X, 3 * X[:, 0] + 7, cv=LeaveOneOut(), dtype=dtype)
        assert result.scores > 1 - 1e-6


# ---------------------------------------------------------------------- how good it is


def test_values_that_runs_do_not_predict():
    """Once R2 was -7 and -115 here: 100 features of 96 trials in six shifted runs."""
    runs, scores = np.arange(96) // 16, []
    for seed, shift in ((0, 1.0), (1, 5.0), (2, 1.0)):
        rng = np.random.default_rng(seed)
        X = rng.standard_normal((96, 100)) + shift * rng.standard_normal((6, 100))[runs]
        scores.append(regress(X, rng.standard_normal(96), groups=runs).scores)
    assert min(scores) > -0.2


@pytest.mark.slow
@pytest.mark.parametrize("n_groups", [None, 6])
def test_p_values_are_uniform_on_noise(n_groups):
    p = []
    for seed in range(300):
        rng = np.random.default_rng(seed)
        X, y = rng.standard_normal((48, 30)), rng.permutation(np.arange(48) % 2)
        groups = None
        if n_groups is not None:
            groups = build.groups_of(48, n_groups)
            X += rng.standard_normal((n_groups, 30))[groups]
        result = cross_validate(
            X, y, groups=groups, n_permutations=99, random_state=seed
        )
        p.append(result.pvalues())
    for alpha in (0.05, 0.1, 0.2, 0.5):
        margin = 3 * np.sqrt(alpha * (1 - alpha) / len(p))
        assert np.mean(np.array(p) <= alpha) < alpha + margin
