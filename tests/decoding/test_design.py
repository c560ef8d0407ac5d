"""`check_design`: trials by run and class, folds, what is exchanged; clean designs."""

import warnings
from itertools import permutations
from math import comb

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_array_equal
from sklearn.model_selection import GroupKFold, KFold, StratifiedKFold

from mvpa_kfda import (
    check_design,
    compare,
    cross_validate,
    generalize_arrays,
    load_result,
    regress,
)
from mvpa_kfda.decoding.design import design_of
from tests import build

RUNS = np.repeat(np.arange(6), 20)
PERMUTED = {"n_permutations": 29, "random_state": 0}


def names(design):
    return [problem.name for problem in design.problems]


def problem_of(name, *args, **options):
    """Return the one problem that a design has, which is of this name."""
    (problem,) = check_design(*args, **options).problems
    assert problem.name == name
    return problem


# ------------------------------------------------------------------------ clean designs


def test_a_clean_design_has_no_problem_and_the_table_counts():
    y = build.NAMES[build.mixed()]
    design = check_design(y, RUNS)
    assert names(design) == []
    expected = pd.crosstab(RUNS, y)
    assert_array_equal(design.table[["ant", "bee"]], expected)
    assert design.table["trials"].tolist() == [20] * 6
    assert design.table["test_sets"].tolist() == list("012345")
    assert design.parameters["permute"] == "within_groups"
    assert design.parameters["arrangements"] == pytest.approx(comb(20, 10) ** 6, 1e-9)
    for (train, test), run in zip(design.folds, range(6), strict=True):
        assert_array_equal(test, np.flatnonzero(run == RUNS))
        assert_array_equal(train, np.flatnonzero(run != RUNS))
    # Labels stay in their run.
    assert len(set(zip(design.blocks, RUNS, strict=True))) == 6


@pytest.mark.parametrize(
    ("n_groups", "n_designs", "most"),
    [(4, 60, 2), pytest.param(8, 150, 4, marks=pytest.mark.slow)],
)
def test_random_balanced_designs_have_no_problem(n_groups, n_designs, most):
    false = 0
    for seed in range(n_designs):
        y = build.mixed(n_groups, 24, 2 + seed % 3, seed)
        rng = np.random.default_rng([seed, 1])
        confounds = rng.standard_normal((len(y), 2))
        groups = np.repeat(np.arange(n_groups), 24)
        false += bool(names(check_design(y, groups, confounds=confounds)))
    # At a level of 0.005, so many of 150 or more in 1 of 150 such tests.
    assert false <= most


# ---------------------------------------------------------------- one problem at a time


def test_a_class_missing_from_a_run_is_found():
    y = build.mixed()
    y[(RUNS == 2) & (y == 1)] = 0
    problem = problem_of("missing", build.NAMES[y], RUNS)
    assert "Group 2 has no trial of class 'bee'" in problem.text
    assert problem.severity == "note"
    # Patients and controls are groups of one class each.
    subjects = np.repeat(np.arange(20), 3)
    assert names(check_design(subjects % 2, subjects)) == []


def test_folds_that_cut_groups_are_found():
    y = build.mixed()
    assert "without regard to the groups" in problem_of("leak", y, RUNS, 5).text
    problem = problem_of("leak", y, RUNS, KFold(8))  # 15 trials each
    # Only where 15 k is a multiple of 20 does a fold begin or end with a group.
    assert problem.numbers["folds"] == 8
    one = [(np.arange(30, 120), np.arange(20))]
    assert check_design(y, RUNS, one).problems == []
    one = [(np.arange(19, 120), np.arange(19))]
    assert problem_of("leak", y, RUNS, one).numbers == {"folds": 1, "groups": 1}
    assert names(check_design(y, RUNS, GroupKFold(3))) == []


def test_a_class_that_a_model_never_sees_is_found():
    y = np.random.default_rng(0).permutation(np.arange(40) % 2)
    y = np.append(y, np.full(20, 2))
    cv = [(np.arange(40), np.arange(40, 60)), (np.arange(20, 60), np.arange(20))]
    design = check_design(y, cv=cv, n_permutations=0)
    (absent,) = (each for each in design.problems if each.name == "absent")
    assert absent.numbers == {"fold": 0, "class": 2}
    X = np.random.default_rng(0).normal(size=(60, 3))
    with pytest.warns(UserWarning, match="class '2' .* the test set of fold 0 of cv="):
        cross_validate(X, np.sort(y)[::-1], cv=KFold(3))


@pytest.mark.parametrize(
    ("n", "count", "severity"),
    [(2, 4, "warning"), (4, 36, "warning"), (6, 400, "note")],
)
def test_too_few_arrangements_are_counted(n, count, severity):
    y, groups = np.tile(np.arange(n) % 2, 2), np.repeat([0, 1], n)
    design = check_design(y, groups, permute="within_groups")
    (few,) = (each for each in design.problems if each.name == "few")
    listed = {p for p in permutations(y[:n])}
    assert few.numbers["arrangements"] == count == len(listed) ** 2
    assert few.severity == severity
    assert f"no p-value can be below 2/{count}" in few.text  # or 1 and 2 are called so
    fewer = check_design(y, groups, permute="within_groups", n_permutations=count - 2)
    assert ("few" in names(fewer)) == (severity == "warning")


HALVES, EIGHTS = np.repeat([0, 1], 4), np.repeat(np.arange(8), 3)
FIRST = {"groups": HALVES, "train_on": np.arange(8) < 4}
WITHIN = {"y": EIGHTS % 2, "groups": EIGHTS, "permute": "within_groups"}


@pytest.mark.parametrize(
    ("options", "name", "text"),
    [
        ({"cv": 9}, "folds", "more folds than there are trials"),
        (FIRST, "folds", "train_on leaves no trial to test in fold 0"),
        ({"y": HALVES, "groups": HALVES}, "folds", "No fold"),
        (WITHIN, "exchange", ""),
    ],
)
def test_what_decoding_would_refuse_is_an_error(options, name, text):
    design = check_design(**{"y": np.tile([0, 1], 4)} | options)
    first = design.problems[0]
    assert (first.name, first.severity) == (name, "error")
    assert text in first.text
    assert design.blocks is None
    assert (design.folds is None) == (name == "folds")
    design.plot()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"y": [0, 0, 0, 0]}, "one class only"),
        ({"y": build.epochs(np.zeros((4, 2, 3)))}, "y must hold labels; got EpochsArr"),
        ({"y": [0, 1] * 4, "groups": [1, 2]}, "groups has 2 values for 8 trials"),
        ({"y": [0, 1] * 4, "groups": "run"}, "y is not .table, column."),
        ({"y": [0, 1] * 4, "n_permutations": -1}, "n_permutations"),
        ({"y": [0, 1] * 4, "permute": "all"}, "permute"),
        ({"y": [0, 1] * 4, "cv": 1}, "'cv': 1. Allowed: a whole number of at"),
        ({"y": [0, 1] * 4, "cv": "five"}, "cv"),
        ({"y": [0, 1] * 4, "confounds": [1, 2]}, "confounds has shape"),
    ],
)
def test_wrong_arguments_are_refused(options, message):
    with pytest.raises((ValueError, TypeError), match=message):
        check_design(**options)


def pairs_of_trials(rng):
    """Return labels of pairs of trials, of which the first one is seen, and which."""
    return np.repeat(rng.permutation(np.arange(60) % 2), 2), np.arange(120) % 2 == 0


def test_warnings_of_decoding_are_the_words_of_the_list():
    rng = np.random.default_rng(0)
    pairs, seen = pairs_of_trials(rng)
    kinds = np.repeat(rng.permutation(np.arange(12) % 2), 12)
    runs = np.tile(np.repeat(np.arange(4), 3), 12)
    for y, options, number in (
        (np.tile(np.repeat([0, 1, 0, 1], 5), 6), {"groups": RUNS, "cv": 5}, 2),
        (pairs, {"train_on": seen}, 1),
        (kinds, {"groups": runs}, 1),
    ):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            listed = {each.text for each in check_design(y, **options).problems}
        X = rng.standard_normal((len(y), 3))
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            cross_validate(X, y, n_permutations=9, **options)
        assert {str(each.message) for each in caught} == listed
        assert len(listed) == number


# ------------------------------------------------------------------- words and pictures


def test_words_and_html():
    y = build.NAMES[np.tile(np.arange(20) % 2, 6)]
    y[y == "ant"] = "<b>"
    design = check_design(y, RUNS)
    said = str(design)
    assert "Trials: 120 trials, 2 classes (<b> 60, bee 60), 6 groups" in said
    assert "1 problem: order" in said
    assert "- order (warning): The order of the classes" in said
    html = design._repr_html_()
    assert "&lt;b&gt; 60" in html
    assert "<b>" not in html
    assert repr(design).endswith("1 problem: order>")
    chosen = check_design(build.mixed(), RUNS, train_on=np.arange(120) % 3 == 0)
    assert "6 groups, trained on 40, tested on the others" in str(chosen)
    assert "trained on" not in said


# ------------------------------------------------------------------- designs of results


def test_the_design_of_a_result_is_that_of_its_labels():
    y, X = build.mixed(), np.random.default_rng(0).standard_normal((120, 3))
    result = cross_validate(X, y, groups=RUNS, n_permutations=1000, random_state=0)
    design, before = design_of(result), check_design(y, RUNS)
    assert str(design) == str(before)
    assert_array_equal(design.blocks, before.blocks)
    pd.testing.assert_frame_equal(design.table, before.table)
    for mine, other in zip(design.folds, before.folds, strict=True):
        assert all(map(np.array_equal, mine, other))


X, Y = build.features((24, 24, 24))
HALF, EVEN = np.arange(72) % 2 == 0, list(StratifiedKFold(4).split(X, Y))
T, CODES = build.trials((12, 12, 12), 5, 3)
OTHERS = {"X_test": T[::-1] + 0.3, "y_test": CODES[::-1], "same_trials": False}
CHOSEN = {"train_on": HALF, "groups": build.groups_of(72)}
#: Calls, and how many rows and folds their designs have.
RESULTS = [
    (cross_validate, X, Y, {"cv": EVEN, "average": 2}, 36, 4),
    (cross_validate, X, Y, {"cv": EVEN, "average": 2, "n_repeats": 3}, 36, 4),
    (cross_validate, X, Y, {"cv": 4, "n_repeats": 3}, 72, 4),
    (cross_validate, X, Y, {"cv": 4, "average": 2, "average_test": False}, 72, 4),
    (cross_validate, X, Y, CHOSEN, 72, 4),
    (cross_validate, X, Y, {"train_on": HALF}, 72, 1),
    (regress, X, X[:, 0], {"cv": 4}, 72, 4),
    (generalize_arrays, T, CODES, {"cv": 4}, 36, 4),
    (generalize_arrays, T, CODES, OTHERS, 36, None),
    (generalize_arrays, T, CODES, {"y_test": np.roll(CODES, 1), "cv": 4}, 36, 4),
]


@pytest.mark.some(4)
@pytest.mark.parametrize("number", range(len(RESULTS)))
def test_every_result_has_a_design(number, tmp_path):
    decode, data, y, options, n, n_folds = RESULTS[number]
    result = decode(data, y, **options, **PERMUTED)
    design = design_of(result)
    assert len(design.y) == n
    assert (None if design.folds is None else len(design.folds)) == n_folds
    assert design.blocks.shape == (n,)
    if result.train_rows is not None:
        assert_array_equal(design.blocks == -1, ~design.chosen)
        assert design.chosen.sum() == 36
    result.save(tmp_path / "result.h5")
    assert str(design_of(load_result(tmp_path / "result.h5"))) == str(design)
    assert len(design.plot().axes) >= 2
    assert design.table["trials"].sum() == n


def test_two_labels_of_a_trial_are_exchanged_as_one():
    T, codes = build.trials((6, 6), 4, 3)
    other = np.arange(12) % 3 % 2
    options = {"y_test": other, "cv": KFold(3), "permute": "within_folds"}
    result = generalize_arrays(T, codes, **options, **PERMUTED)
    count = 1
    for test in result.tests:
        pairs = list(zip(codes[test], other[test], strict=True))
        count *= len(set(permutations(pairs)))
    assert design_of(result).parameters["arrangements"] == count


@pytest.mark.filterwarnings("ignore:.* arrangements")
def test_arrangements_that_were_all_used_count_the_observed_one():
    X, y = np.random.default_rng(0).standard_normal((8, 3)), np.repeat([0, 1], 4)
    options = {"cv": KFold(2), "permute": "free", "random_state": 0}
    result = cross_validate(X, y, n_permutations=1000, **options)
    assert result.n_permutations == comb(8, 4) - 1
    assert design_of(result).parameters["arrangements"] == comb(8, 4)


def test_a_comparison_has_no_design():
    both = (cross_validate(data, Y, cv=4, **PERMUTED) for data in (X, X[:, :2]))
    with pytest.raises(TypeError, match="ComparisonResult has no trials"):
        design_of(compare(*both))
