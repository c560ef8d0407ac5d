"""`check_design`: every problem planted is found, clean designs have none."""

import warnings
from itertools import permutations
from math import comb

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.model_selection import GroupKFold, KFold, LeaveOneOut, StratifiedKFold

from mvpa_kfda import (
    check_design,
    compare,
    cross_validate,
    generalize_arrays,
    load_result,
    regress,
)
from mvpa_kfda.decoding.design import design_of
from mvpa_kfda.decoding.problems import measure_confounds
from tests import build

RUNS = np.repeat(np.arange(6), 20)
FIRST_HALF = np.arange(24) < 12


def mixed(seed=0, n_groups=6, n=20, n_classes=2):
    """Return labels in random order in every group."""
    rng = np.random.default_rng(seed)
    return np.concatenate(
        [rng.permutation(np.arange(n) % n_classes) for _ in range(n_groups)]
    )


def names(design):
    return [problem.name for problem in design.problems]


def problem_of(name, *args, **options):
    """Return the one problem that a design has, which is of this name."""
    (problem,) = check_design(*args, **options).problems
    assert problem.name == name
    return problem


# ----------------------------------------------------------------------- similar names


@pytest.mark.parametrize(
    ("classes", "said"),
    [
        (["Face", "face", "house"], "'Face' (40 trials) and 'face' (40 trials) differ"),
        (["face", "house", "resp/face"], "'face' (40 trials) is also a part of 'resp/"),
    ],
)
def test_classes_of_similar_names_are_said_with_a_way_to_merge_them(classes, said):
    y = np.array(classes)[mixed(n_groups=10, n=12, n_classes=3)]
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
    y = np.array(classes)[mixed()]
    assert names(check_design(y, RUNS)) == []


# ----------------------------------------------------------------------- clean designs


def test_a_clean_design_has_no_problem_and_the_table_counts():
    y = build.NAMES[mixed()]
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


@pytest.mark.parametrize("n_groups", [4, pytest.param(8, marks=pytest.mark.slow)])
def test_random_balanced_designs_have_no_problem(n_groups):
    false = 0
    for seed in range(150):
        y = mixed(seed, n_groups, 24, 2 + seed % 3)
        rng = np.random.default_rng([seed, 1])
        confounds = rng.standard_normal((len(y), 2))
        groups = np.repeat(np.arange(n_groups), 24)
        false += bool(names(check_design(y, groups, confounds=confounds)))
    # Of 150, at a level of 0.005, four or more in 1 of 150 such tests.
    assert false <= 4


# --------------------------------------------------------------- one problem at a time


def test_a_class_missing_from_a_run_is_found():
    y = mixed()
    y[(RUNS == 2) & (y == 1)] = 0
    problem = problem_of("missing", build.NAMES[y], RUNS)
    assert "Group 2 has no trial of class 'bee'" in problem.text
    assert problem.severity == "note"
    # Patients and controls are groups of one class each.
    subjects = np.repeat(np.arange(20), 3)
    assert names(check_design(subjects % 2, subjects)) == []


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


def test_folds_that_cut_groups_are_found():
    y = mixed()
    assert "without regard to the groups" in problem_of("leak", y, RUNS, 5).text
    problem = problem_of("leak", y, RUNS, KFold(8))  # 15 trials each
    # Only where 15 k is a multiple of 20 does a fold begin or end with a group.
    assert problem.numbers["folds"] == 8
    one = [(np.arange(30, 120), np.arange(20))]
    assert check_design(y, RUNS, one).problems == []
    one = [(np.arange(19, 120), np.arange(19))]
    assert problem_of("leak", y, RUNS, one).numbers == {"folds": 1, "groups": 1}
    assert names(check_design(y, RUNS, GroupKFold(3))) == []


def test_the_same_order_and_blocks_are_found():
    order = np.random.default_rng(0).permutation(np.arange(20) % 2)
    assert problem_of("order", np.tile(order, 6), RUNS).severity == "warning"
    rng = np.random.default_rng(1)
    blocks = [np.repeat(rng.permutation([0, 0, 1, 1, 0, 1]), 4) for _ in range(6)]
    y, runs = np.concatenate(blocks), np.repeat(np.arange(6), 24)
    problem_of("lasting", y, runs)
    assert names(check_design(y, runs, n_permutations=0)) != ["lasting"]


def test_estimates_of_whole_runs_may_be_in_one_order():
    y, runs = np.tile(build.NAMES[:4], 6), np.repeat(np.arange(6), 4)
    assert problem_of("order", y, runs).severity == "note"
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        cross_validate(np.random.default_rng(0).normal(size=(24, 5)), y, groups=runs)
    assert problem_of(
        "order", np.tile(build.NAMES[[1, 3, 0, 2]], 6), runs
    ).severity == ("warning")


def test_a_class_that_a_model_never_sees_is_found():
    y = np.random.default_rng(0).permutation(np.arange(40) % 2)
    y = np.append(y, np.full(20, 2))
    cv = [(np.arange(40), np.arange(40, 60)), (np.arange(20, 60), np.arange(20))]
    design = check_design(y, cv=cv, n_permutations=0)
    (absent,) = (each for each in design.problems if each.name == "absent")
    assert absent.numbers == {"fold": 0, "class": 2}


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


def test_trials_to_train_with_that_leave_no_folds_are_a_problem():
    design = check_design(["a", "b"] * 12, np.arange(24) // 6, train_on=FIRST_HALF)
    (problem,) = design.problems
    assert (problem.name, problem.severity) == ("folds", "error")
    assert "train_on leaves no trial to test in fold 0" in problem.text
    assert design.folds is None
    assert "trained on 12, tested on the others" in str(design)


def test_confounds_that_follow_classes_are_found():
    y, rng = mixed(), np.random.default_rng(0)
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
    y = mixed()
    drift = RUNS + 0.01 * np.random.default_rng(0).standard_normal(120)
    assert names(check_design(y, RUNS, confounds=drift)) == []


# -------------------------------------------------------------------- what is no design


def test_what_is_refused_is_a_problem_of_its_own():
    y = np.tile([0, 1], 4)
    design = check_design(y, cv=9)
    assert design.folds is None
    assert design.problems[0].severity == "error"
    assert "more folds than there are trials" in design.problems[0].text
    runs = np.repeat([0, 1], 4)
    problem = check_design(runs, runs, permute="within_groups").problems[0]
    assert problem.severity == "error"
    assert "No fold" in problem.text
    subjects = np.repeat(np.arange(8), 3)
    design = check_design(subjects % 2, subjects, permute="within_groups")
    (problem,) = design.problems
    assert (problem.name, problem.severity) == ("exchange", "error")
    assert design.blocks is None
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


def test_warnings_of_decoding_are_the_words_of_the_list():
    order = np.repeat([0, 1, 0, 1], 5)
    y, X = np.tile(order, 6), np.random.default_rng(0).standard_normal((120, 3))
    options = {"groups": RUNS, "cv": 5}
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        cross_validate(X, y, n_permutations=9, **options)
    said = {str(each.message) for each in caught}
    listed = {each.text for each in check_design(y, **options).problems}
    assert said == listed
    assert len(said) == 2
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check_design(y, **options)


# --------------------------------------------------------------------- words, pictures


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


def test_the_words_tell_how_many_trials_are_trained_with():
    design = check_design(mixed(), RUNS, train_on=np.arange(120) % 3 == 0)
    said = "6 groups, trained on 40, tested on the others"
    assert said in str(design)
    assert said in repr(design)
    assert "trained on" not in str(check_design(mixed(), RUNS))


def cells(ax):
    """Return the values of a panel."""
    (mesh,) = ax.collections
    return np.ma.filled(mesh.get_array(), -1)


def test_the_picture_shows_trials_folds_and_blocks():
    y = mixed()
    figure = check_design(y, RUNS).plot()
    trials, folds, blocks = figure.axes
    assert_array_equal(cells(trials), y.reshape(6, 20))
    assert_array_equal(cells(folds), 1 + np.eye(6))
    assert_array_equal(cells(blocks), np.eye(6))
    labels = [text.get_text() for text in figure.legends[0].get_texts()]
    assert labels[:4] == ["0", "1", "trained", "tested"]
    plt.close("all")


def test_the_picture_shows_leaks_and_whole_groups():
    figure = check_design(mixed(), RUNS, KFold(3, shuffle=True, random_state=0)).plot()
    assert (cells(figure.axes[1]) == 3).all()
    assert "group in both training and test set" in [
        text.get_text() for text in figure.legends[0].get_texts()
    ]
    subjects = np.repeat(np.arange(12), 5)
    figure = check_design(subjects % 2, subjects).plot()
    assert_array_equal(cells(figure.axes[2]), np.ones((12, 1)))
    plt.close("all")


@pytest.mark.some(3)
@pytest.mark.parametrize("n_classes", [2, 12, 30])
@pytest.mark.parametrize("n", [60, 2000])
def test_pictures_of_any_size_are_drawn_within_the_figure(n, n_classes):
    y = [f"a rather long name of class {k} $x$" for k in np.arange(n) % n_classes]
    y = np.random.default_rng(0).permutation(y)
    cv = KFold(5) if n > 60 else LeaveOneOut()
    figure = check_design(y, cv=cv).plot()
    figure.draw_without_rendering()
    assert sum(np.ma.count(ax.collections[0].get_array()) for ax in figure.axes[:1])
    width, height = figure.get_size_inches()
    assert 3 < width < 12
    assert height < 9
    box, whole = figure._suptitle.get_window_extent(), figure.bbox
    assert box.x1 <= whole.x1
    plt.close("all")


# ------------------------------------------------------------------- designs of results


def test_the_design_of_a_result_is_that_of_its_labels():
    y, X = mixed(), np.random.default_rng(0).standard_normal((120, 3))
    result = cross_validate(X, y, groups=RUNS, n_permutations=1000, random_state=0)
    design, before = design_of(result), check_design(y, RUNS)
    assert str(design) == str(before)
    assert_array_equal(design.blocks, before.blocks)
    pd.testing.assert_frame_equal(design.table, before.table)
    for mine, other in zip(design.folds, before.folds, strict=True):
        assert all(map(np.array_equal, mine, other))


def results():
    """Yield results of all kinds of designs, and how many rows and folds each has."""
    X, y = build.features((24, 24, 24))
    half = np.arange(72) % 2 == 0
    even = list(StratifiedKFold(4).split(X, y))
    options = {"n_permutations": 29, "random_state": 0}
    for more, n, n_folds in (
        ({"cv": even, "average": 2}, 36, 4),
        ({"cv": even, "average": 2, "n_repeats": 3}, 36, 4),
        ({"cv": 4, "n_repeats": 3}, 72, 4),
        ({"cv": 4, "average": 2, "average_test": False}, 72, 4),
        ({"groups": build.groups_of(72), "train_on": half}, 72, 4),
        ({"train_on": half}, 72, 1),
    ):
        yield cross_validate(X, y, **more, **options), n, n_folds
    yield regress(X, X[:, 0], cv=4, **options), 72, 4
    T, codes = build.trials((12, 12, 12), 5, 3)
    yield generalize_arrays(T, codes, cv=4, **options), 36, 4
    other = {"X_test": T[::-1] + 0.3, "y_test": codes[::-1], "same_trials": False}
    yield generalize_arrays(T, codes, **other, **options), 36, None
    yield generalize_arrays(T, codes, y_test=np.roll(codes, 1), cv=4, **options), 36, 4


@pytest.mark.some(4)
@pytest.mark.parametrize("i", range(10))
def test_every_result_has_a_design(i, tmp_path):
    result, n, n_folds = list(results())[i]
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
    plt.close("all")


def test_two_labels_of_a_trial_are_exchanged_as_one():
    T, codes = build.trials((6, 6), 4, 3)
    other = np.arange(12) % 3 % 2
    options = {"y_test": other, "cv": KFold(3), "permute": "within_folds"}
    options |= {"n_permutations": 29, "random_state": 0}
    result = generalize_arrays(T, codes, **options)
    count = 1
    for test in result.tests:
        pairs = list(zip(codes[test], other[test], strict=True))
        count *= len(set(permutations(pairs)))
    assert design_of(result).parameters["arrangements"] == count
    assert (
        count
        > check_design(codes, cv=KFold(3), permute="within_folds").parameters[
            "arrangements"
        ]
    )


def test_arrangements_that_were_all_used_count_the_observed_one():
    X, y = np.random.default_rng(0).standard_normal((8, 3)), np.repeat([0, 1], 4)
    options = {"cv": KFold(2), "permute": "free", "random_state": 0}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of few arrangements
        result = cross_validate(X, y, n_permutations=1000, **options)
    assert result.n_permutations == comb(8, 4) - 1
    assert design_of(result).parameters["arrangements"] == comb(8, 4)


def test_a_comparison_has_no_design():
    X, y = build.features((24, 24, 24))
    options = {"cv": 4, "n_permutations": 29, "random_state": 0}
    both = cross_validate(X, y, **options), cross_validate(X[:, :2], y, **options)
    with pytest.raises(TypeError, match="ComparisonResult has no trials"):
        design_of(compare(*both))
