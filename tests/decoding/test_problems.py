"""What is said of classes, confounds and data that let something else be decoded."""

import warnings

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.model_selection import KFold, LeaveOneOut

from mvpa_kfda import (
    KernelFDA,
    Ridge,
    check_design,
    cross_validate,
    decode_arrays,
    generalize_arrays,
    regress,
    searchlight,
)
from mvpa_kfda.decoding.problems import find_spread, measure_confounds
from tests import build

RUNS = np.repeat(np.arange(6), 20)


def names(design):
    return [problem.name for problem in design.problems]


def problem_of(name, *args, **options):
    """Return the one problem that a design has, which is of this name."""
    (problem,) = check_design(*args, **options).problems
    assert problem.name == name
    return problem


# --------------------------------------------------------- names and numbers of classes


@pytest.mark.parametrize(
    ("classes", "said"),
    [
        (["Face", "face", "house"], "'Face' (40 trials) and 'face' (40 trials) differ"),
        (["face", "house", "resp/face"], "'face' (40 trials) is also a part of 'resp/"),
    ],
)
def test_classes_of_similar_names_are_said_with_a_way_to_merge_them(classes, said):
    y = np.array(classes)[build.mixed(n_groups=10, n=12, n_classes=3)]
    problem = problem_of("names", y, np.repeat(np.arange(10), 12))
    assert said in problem.text
    X = np.random.default_rng(0).normal(size=(len(y), 3))
    with pytest.warns(UserWarning, match="Some classes have similar names") as told:
        cross_validate(X, y, cv=3)
    assert problem.text in [each.message.args[0] for each in told]


@pytest.mark.parametrize(
    "classes", [["face/up", "face/down"], ["face", "faces"], [1, 2]]
)
def test_tags_that_all_classes_have_and_parts_of_words_are_no_similar_names(classes):
    y = np.array(classes)[build.mixed()]
    assert names(check_design(y, RUNS)) == []


def test_unequal_classes_are_found():
    rng = np.random.default_rng(0)
    y = np.concatenate([rng.permutation([0] * 14 + [1] * 6) for _ in range(6)])
    problem = problem_of("unequal", y, RUNS)
    assert problem.numbers == {"smallest": 36, "largest": 84}
    assert "always guessing '0' is right in 70%" in problem.text
    y = np.concatenate([rng.permutation([0] * 12 + [1] * 8) for _ in range(6)])
    assert names(check_design(y, RUNS)) == []  # not more than 1.5 times as many
    y[np.flatnonzero(y)[0]] = 0
    assert names(check_design(y, RUNS)) == ["unequal"]


@pytest.mark.parametrize(
    ("scoring", "counts", "told"),
    [
        ("accuracy", (80, 20), True),
        (["balanced_accuracy", "f1"], (80, 20), True),
        (["balanced_accuracy", "roc_auc", "kappa"], (80, 20), False),
        ("accuracy", (60, 40), False),
        ("accuracy", (50, 30, 20), True),
        ("recall", (50, 30, 20), False),  # a mean over classes
        ("accuracy", (44, 30, 30), False),
        ("accuracy", (15, 15, 15, 15, 15, 15, 5), False),  # the largest is hardly so
    ],
)
def test_unequal_classes_are_warned_of(scoring, counts, told):
    y = build.codes_of(counts)
    X = np.random.default_rng(1).normal(size=(len(y), 3))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        result = cross_validate(X, y, scoring=scoring, cv=5)
        if len(counts) == 2:
            equal = {"average": 1, "equalize": True, "n_repeats": 2, "random_state": 0}
            cross_validate(X, y, scoring=scoring, cv=5, **equal)
    words = [str(each.message) for each in caught if each.category is UserWarning]
    assert list(result.warnings) == words
    assert len(words) == told
    said = f"has {max(counts)} trials, '{len(counts) - 1}' {counts[-1]}: "
    assert all(said in each for each in words)


def test_classes_that_most_test_sets_lack_are_found():
    # Two of fourteen: in ten folds, one test set holds both classes.
    y = np.full(14, "often")
    y[[0, 10]] = "few"
    problem = next(x for x in check_design(y, cv=10).problems if x.name == "rare")
    assert problem.numbers == {"sets": 1, "trials": 2}
    assert problem.severity == "note"
    assert "Only 1 of 10 test sets hold class 'few' (2 trials)" in problem.text
    assert "in steps of up to 1 and" in problem.text
    assert "rare" not in names(check_design(y, cv=2))
    assert "rare" not in names(check_design(y, cv=LeaveOneOut()))  # ranked together
    X = np.random.default_rng(0).normal(size=(14, 3))
    for repeats in ({}, {"n_repeats": 3, "cv": KFold(10, shuffle=True)}):
        options = {"cv": 10, "random_state": 0} | repeats
        words = r"^Only \d of 10 test sets hold class 'few' \(2 trials\) .*'roc_auc'"
        with pytest.warns(UserWarning, match=words):
            cross_validate(X, y, scoring="roc_auc", **options)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        cross_validate(X, y, scoring="balanced_accuracy", cv=10)
        cross_validate(X, y, scoring="roc_auc", cv=2)
    assert not [each for each in told if "test sets hold" in str(each.message)]


def test_most_runs_have_to_be_short():
    runs = np.arange(24) // 2
    designs = [
        (np.tile([0, 0, 1, 1], 6), np.arange(24) // 4, False),  # four in each
        (runs % 2, runs, False),  # patients and controls
        (np.arange(24) % 2, None, False),
    ]
    for n_long, found in ((5, True), (6, False)):
        sizes = [2] * 5 + [8] * n_long
        y = np.concatenate([np.arange(size) % 2 for size in sizes])
        designs.append((y, np.repeat(np.arange(len(sizes)), sizes), found))
    for y, groups, found in designs:
        design = check_design(y, groups, n_permutations=0)
        assert ("short_runs" in names(design)) == found


# ---------------------------------------------------------------------------- confounds


def test_confounds_that_follow_classes_are_found():
    y, rng = build.mixed(), np.random.default_rng(0)
    table = pd.DataFrame(
        {
            "word": build.NAMES[y],
            "run": RUNS,
            "rt": rng.standard_normal(120),
            "slow": rng.standard_normal(120) + y,
            "hand": np.where(rng.random(120) < 0.2, 1 - y, y).astype(str),
        }
    )
    design = check_design((table, "word"), "run", confounds=["rt", "slow", "hand"])
    assert names(design) == ["confound", "confound"]
    found = design.confounds
    assert found.index.tolist() == [f"the column {x!r}" for x in ("rt", "slow", "hand")]
    # Eta squared of two classes is a squared correlation.
    for name in ("rt", "slow"):
        r = np.corrcoef(table[name], y)[0, 1]
        value = found.loc[f"the column {name!r}", "eta_squared"]
        assert_allclose(value, r**2, rtol=1e-10)
    r = np.corrcoef(table["hand"].astype(int), y)[0, 1]
    assert_allclose(found["eta_squared"].iloc[2], r**2, rtol=1e-10)
    assert found["p"].iloc[0] > 0.05
    assert found["p"].iloc[1] == 0.001
    assert "the column 'slow' covaries with the classes" in design.problems[0].text
    drift = RUNS + 0.01 * rng.standard_normal(120)  # of runs, not of classes
    assert names(check_design(y, RUNS, confounds=drift)) == []


def test_eta_squared_is_that_of_an_analysis_of_variance():
    rng, codes = np.random.default_rng(0), np.arange(60) % 3
    values = rng.standard_normal(60) + 0.3 * codes
    kinds = rng.integers(2, size=60) + codes
    columns = [values[:, None], np.eye(4)[kinds], np.eye(3)[codes]]
    shares, p = measure_confounds(columns, codes)
    means = np.array([values[codes == k].mean() for k in range(3)])
    between, total = 20 * ((means - values.mean()) ** 2).sum(), 60 * values.var()
    # Of categories, Goodman and Kruskal's tau: the share by which the class makes fewer
    # wrong guesses.
    each = pd.crosstab(codes, kinds).to_numpy() / 60
    wrong = 1 - (each.sum(axis=0) ** 2).sum()
    known = 1 - (each**2 / each.sum(axis=1, keepdims=True)).sum()
    expected = [between / total, 1 - known / wrong, 1]
    assert_allclose(shares, expected, rtol=1e-10)
    assert p[2] == 0.001


# ---------------------------------------------------------- classes of unequal variance


CLASSES = np.array(["quiet", "noisy"])


def unequal(rng, ratio, counts=(50, 50), shape=(10,)):
    """Return noise of equal means, and labels of which one varies more."""
    codes = rng.permutation(np.repeat([0, 1], counts))
    X = rng.standard_normal((len(codes), *shape))
    return X * np.where(codes == 1, ratio, 1).reshape(-1, *(1,) * len(shape)), codes


def test_the_ratio_is_that_of_standard_deviations_in_any_unit():
    X, codes = unequal(np.random.default_rng(0), 2, (600, 300), (3,))
    X[codes == 1] += 10
    problem = find_spread([X], codes, CLASSES)
    spread = [X[codes == k].std() for k in range(2)]
    ratio = spread[1] / spread[0]
    np.testing.assert_allclose(problem.numbers["ratio"], ratio, rtol=0.05)
    assert "class 'noisy' vary" in problem.text
    assert "test scoring='roc_auc'" in problem.text
    other = find_spread([X * [1, 1e6, 1e-12]], codes, CLASSES)
    np.testing.assert_allclose(
        other.numbers["ratio"], problem.numbers["ratio"], rtol=1e-10
    )


@pytest.mark.parametrize(
    ("ratio", "counts", "p"),
    [
        (1, (20, 20), 2),
        (1, (12, 6), 30),
        (1.2, (100, 100), 10),
        (1, (78, 2), 64),  # each is as far from the median as the other
        (1, (77, 3), 20),
    ],
)
def test_equal_spreads_and_small_differences_are_no_problem(ratio, counts, p):
    for seed in range(50):
        X, codes = unequal(np.random.default_rng(seed), ratio, counts, (p,))
        assert find_spread([X], codes, CLASSES) is None
    X, codes = unequal(np.random.default_rng(0), 1)
    X[np.flatnonzero(codes)[0]] = 100  # one trial far out
    assert find_spread([X], codes, CLASSES) is None


def test_decoding_warns_where_scores_of_predicted_labels_are_tested():
    X, y = unequal(np.random.default_rng(0), 2, shape=(4, 5))
    y, matrix = CLASSES[y], X[:, :, 0]
    options = {"cv": KFold(4), "n_permutations": 9}
    for decode in (
        lambda **more: cross_validate(matrix, y, **options | more),
        lambda **more: decode_arrays(X, y, **options | more),
        lambda **more: decode_arrays(X, y, average=2, n_repeats=2, **options | more),
        lambda **more: searchlight(matrix, y, adjacency=np.eye(4), **options | more),
    ):
        with pytest.warns(UserWarning, match="'noisy' vary .* as those of 'quiet'"):
            result = decode()
        assert any("unequal variance counts" in each for each in result.warnings)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            decode(scoring="roc_auc")
            decode(n_permutations=0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        cross_validate(matrix @ matrix.T, y, kernel="precomputed", **options)
        chosen = np.where(y == "noisy", np.abs(matrix[:, 0]) < 1.5, True)
        chosen &= np.arange(len(y)) % 2 == 0
        matrix[chosen] = np.random.default_rng(1).standard_normal((chosen.sum(), 4))
        options = {"n_permutations": 9, "permute": "free"}
        cross_validate(matrix, y, train_on=chosen, **options)  # others may vary


# --------------------------------------------------------------------- a trial far away


#: The trial that is far, and the fold that tests it.
FAR, FOLD = 17, 2


def data(p, n_times=1, times=1.0):
    """Return trials of two classes (40, p, n_times), of which one is far."""
    codes, rng = build.codes_of((20, 20)), np.random.default_rng(0)
    X = rng.normal(size=(40, p, n_times)) + 0.6 * codes[:, None, None]
    if times > 1:
        X[FAR] = times
    return X, codes


far_away = pytest.mark.filterwarnings("ignore:.*times as far from the mean")


@far_away
@pytest.mark.parametrize("grouped", [False, True])
@pytest.mark.parametrize("p", [6, 200])
def test_a_far_trial_does_not_set_the_penalty(p, grouped):
    X, codes = data(p)
    X = X[:, :, 0] * np.geomspace(3, 0.3, p)
    groups = build.groups_of(40, 5) if grouped else None
    others, cv = np.arange(40) != FAR, list(KFold(5).split(X))
    rest = groups[others] if grouped else None
    alone = KernelFDA().fit(X[others], codes[others], groups=rest)
    lambdas, (train, test) = [], cv[FOLD]
    test = test[test != FAR]
    for times in (1e2, 1e3, 1e4):
        Z = X.copy()
        Z[FAR] = times
        found = cross_validate(Z, codes, groups=groups, cv=cv)
        lambdas.append(found.lambdas)
        # A model that does not know it loses few digits.
        model = KernelFDA(reg=Ridge(found.lambdas)).fit(X[train], codes[train])
        exact = model.predict_proba(X[test])
        ours = found.probabilities()[test]
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


@far_away
@pytest.mark.parametrize("p", [6, 200])
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


def of_spheres(X, codes, **options):
    cube, voxels = X.reshape(len(X), -1, 2, 1)[:, :, :1], np.ones((X.shape[1], 1, 1))
    given = {"mask_img": build.mask(voxels), "radius": 30, "standardize": False}
    return searchlight(build.volume(cube), codes, **given, **options)


def of_matrix(X, codes, **options):
    K = X[:, :, 0] @ X[:, :, 0].T
    return cross_validate(K, codes, kernel="precomputed", **options)


@pytest.mark.parametrize(
    ("decode", "p"),
    [
        (lambda X, codes, **options: cross_validate(X[:, :, 0], codes, **options), 6),
        (lambda X, codes, **options: regress(X[:, :, 0], codes + 0.1, **options), 60),
        (decode_arrays, 60),
        (generalize_arrays, 6),
        (of_spheres, 60),
        (of_matrix, 6),
    ],
    ids=["features", "values", "times", "pairs of times", "spheres", "matrix"],
)
def test_a_far_trial_is_named(decode, p):
    options = {"reg": 0.3, "cv": KFold(5, shuffle=True, random_state=0)}
    far = rf"Trial {FAR} \(counted from 0\) is %s times as far from the mean"
    with pytest.warns(UserWarning, match=far % "1,000"):
        decode(*data(p, 2, 1e3), **options)
    with (
        pytest.warns(UserWarning, match=far % "10,000,000"),
        pytest.raises(ValueError, match=far % "10,000,000" + ".*nothing but rounding"),
    ):
        decode(*data(p, 2, 1e7), **options)


def test_trials_that_vary_or_a_kernel_with_bounds_are_no_reason_to_warn(recwarn):
    for times, kernel in ((50.0, "linear"), (1e6, "rbf")):
        X, codes = data(6, times=times)
        cross_validate(X[:, :, 0], codes, reg=0.3, kernel=kernel)
    assert not [each for each in recwarn if "as far from" in str(each.message)]
    # A far trial that is tested alone hides no others.
    X, codes = data(6, times=1e7)
    with pytest.warns(UserWarning, match="times as far from the mean"):
        cross_validate(X[:, :, 0], codes, reg=0.3, cv=LeaveOneOut())


# -------------------------------------------------------------------------------- units


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
    X, K = X[:, :, 0], X[:, :, 0] @ X[:, :, 0].T
    with pytest.raises(ValueError, match=said + r".*Divide the data by a constant"):
        cross_validate(X * unit, codes, **options)
    if not options:
        with pytest.raises(ValueError, match=said):
            KernelFDA().fit(X * unit, codes)
    with pytest.raises(ValueError, match="too small for double precision"):
        cross_validate(K * 1e-320, codes, kernel="precomputed", reg=0.3)
