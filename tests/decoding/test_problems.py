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
    y = np.random.default_rng(0).permutation(np.repeat(np.arange(len(counts)), counts))
    X = np.random.default_rng(1).normal(size=(len(y), 3))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        result = cross_validate(X, y, scoring=scoring, cv=5)
        if len(counts) == 2:
            equal = {"average": 1, "equalize": True, "n_repeats": 2, "random_state": 0}
            cross_validate(X, y, scoring=scoring, cv=5, **equal)
    words = [str(each.message) for each in caught if each.category is UserWarning]
    assert len(words) == told
    assert list(result.warnings) == words
    if told:
        assert (
            f"has {max(counts)} trials, '{len(counts) - 1}' {counts[-1]}: " in words[0]
        )


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


def test_eta_squared_is_that_of_an_analysis_of_variance():
    rng = np.random.default_rng(0)
    codes = np.arange(60) % 3
    columns = [rng.standard_normal((60, 1)) + 0.3 * codes[:, None], np.eye(3)[codes]]
    shares, p = measure_confounds(columns, codes)
    values = columns[0][:, 0]
    means = np.array([values[codes == k].mean() for k in range(3)])
    between = 20 * ((means - values.mean()) ** 2).sum()
    total = ((values - values.mean()) ** 2).sum()
    assert_allclose(shares, [between / total, 1], rtol=1e-10)
    assert p[1] == 0.001


def test_categories_that_follow_classes_are_counted_by_goodman_and_kruskals_tau():
    """The share by which the class makes fewer wrong guesses of the category."""
    rng, y = np.random.default_rng(0), np.arange(120) % 2
    kinds = np.array(["a", "b", "c", "d"])[rng.integers(2, size=120) + y]
    of_classes = pd.crosstab(y, kinds).to_numpy() / 120
    wrong = 1 - (of_classes.sum(axis=0) ** 2).sum()
    known = 1 - (of_classes**2 / of_classes.sum(axis=1, keepdims=True)).sum()
    found = check_design(y, confounds=kinds).confounds
    assert_allclose(found["eta_squared"], 1 - known / wrong, rtol=1e-10)


def test_a_confound_of_runs_is_none_of_classes():
    y = build.mixed()
    drift = RUNS + 0.01 * np.random.default_rng(0).standard_normal(120)
    assert names(check_design(y, RUNS, confounds=drift)) == []


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
    ("ratio", "counts", "shape"),
    [
        (1, (20, 20), (2,)),
        (1, (12, 6), (30,)),
        (1.2, (100, 100), (10,)),
        (1, (78, 2), (64,)),  # each is as far from the median as the other
        (1, (77, 3), (20,)),
    ],
)
def test_equal_spreads_and_small_differences_are_no_problem(ratio, counts, shape):
    for seed in range(100):
        X, codes = unequal(np.random.default_rng(seed), ratio, counts, shape)
        assert find_spread([X], codes, CLASSES) is None


def test_one_trial_far_out_is_no_class_that_varies():
    X, codes = unequal(np.random.default_rng(0), 1)
    X[np.flatnonzero(codes)[0]] = 100
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


@pytest.mark.slow
def test_a_rare_class_that_varies_is_found_by_accuracy_though_no_mean_differs():
    p = []
    names = ["accuracy", "balanced_accuracy", "roc_auc"]
    for seed in range(200):
        X, y = unequal(np.random.default_rng(seed), 2, (80, 20))
        options = {"cv": KFold(10), "permute": "free", "n_permutations": 99}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            result = cross_validate(X, y, scoring=names, random_state=seed, **options)
        p.append([result.pvalues(metric=name) for name in names])
    accuracy, balanced, area = (np.array(p) <= 0.05).mean(axis=0)
    assert accuracy > 0.3
    assert balanced > 0.1
    assert area < balanced


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
@pytest.mark.parametrize("p", [6, 60, 200])
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
