"""What confounds are taken for, what is said of it, and categories that are new."""

import warnings

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose
from sklearn.linear_model import LinearRegression
from sklearn.model_selection import KFold

from mvpa_kfda import (
    check_design,
    cross_validate,
    decode_epochs,
    generalize_arrays,
    regress,
    searchlight,
)
from mvpa_kfda.kfda.preprocess import RemoveConfounds
from mvpa_kfda.utils.checks import angle_unit
from tests import build

N = 48
RNG = np.random.default_rng(0)
RUNS = np.repeat(np.arange(1, 7), 8)
Y = np.concatenate([RNG.permutation(["cat", "dog"] * 4) for _ in range(6)])
X = RNG.normal(size=(N, 6)) + 0.5 * (Y == "cat")[:, None] + RUNS[:, None]
RATING = RNG.integers(1, 8, size=N)
RT = 400 + 100 * RNG.normal(size=N)
PHASE = RNG.uniform(-np.pi, np.pi, size=N)


def problems(confounds, groups=RUNS):
    """Return what a design says of how confounds are taken."""
    found = check_design(Y, groups, confounds=confounds).problems
    return [each for each in found if each.name in ("numbered", "angles", "unseen")]


def names(*args):
    return [problem.name for problem in problems(*args)]


def warned(function, *args, **options):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        function(*args, **options)
    return [str(each.message) for each in caught]


# ---------------------------------------------------------- numbers that stand for runs


@pytest.mark.parametrize(
    ("values", "found"),
    [
        (RUNS, True),
        (RUNS - 1, True),
        (RUNS.astype(float), True),  # as of a .mat file
        (np.repeat([1, 2, 4, 5, 6, 7], 8), True),  # a run is missing
        (np.repeat([3, 1, 2], 16), True),  # in another order
        (RUNS % 3, False),  # neither in a row nor the groups
        (RATING, False),
        (np.arange(N), False),  # the number of the trial, a trend
        (RUNS - RUNS.mean(), False),  # a trend, as the advice has it
        (RUNS > 3, False),
        (np.where(RUNS > 3, 1, 2), False),  # two numbers are two categories
        (RUNS.astype(str), False),
        (np.repeat([23, 31, 45, 52, 60, 38], 8), False),  # ages of subjects
    ],
)
def test_numbers_that_seem_to_number_runs_are_warned_of(values, found):
    assert ("numbered" in names(values, None)) == found
    assert ("numbered" in names(values)) == found


def test_numbers_of_the_groups_need_no_stretches():
    rows = RNG.permutation(N)
    design = check_design(Y[rows], RUNS[rows], confounds=RUNS[rows])
    (numbered,) = (each for each in design.problems if each.name == "numbered")
    assert "whole numbers 1 to 6, one for each group" in numbered.text
    assert numbered.numbers == {"values": 6}
    design = check_design(Y[rows], confounds=RUNS[rows])
    assert "numbered" not in [each.name for each in design.problems]


def test_every_decoding_function_warns_in_the_words_of_the_list():
    table = pd.DataFrame({"label": Y, "run": RUNS})
    design = check_design((table, "label"), confounds="run")
    (problem,) = (each for each in design.problems if each.name == "numbered")
    assert problem.severity == "warning"
    assert problem.text.startswith(
        "Confounds: the column 'run' holds the whole numbers 1 to 6, each in one "
    )
    options = {"confounds": "run", "standardize": False, "adjacency": np.eye(6)}
    assert problem.text in warned(searchlight, X, (table, "label"), **options)
    epochs = build.epochs(X[:, :, None], (Y == "cat").astype(int), run=RUNS)
    assert problem.text in warned(decode_epochs, epochs, Y, confounds="run")
    text = problem.text.replace("the column 'run'", "the array")
    assert text in warned(cross_validate, X, Y, confounds=RUNS)
    assert text in warned(regress, X, RT, confounds=RUNS)


@pytest.mark.parametrize(
    "categories",
    [
        pd.Categorical(RUNS),
        pd.Series(RUNS, dtype="category"),
        pd.DataFrame({"run": pd.Categorical(RUNS)}),
        RUNS.astype(str),
        np.array([f"run{k}" for k in RUNS], dtype=object),
    ],
    ids=["Categorical", "Series", "frame", "texts", "objects"],
)
def test_categories_are_taken_out_as_such(categories):
    cv = KFold(4, shuffle=True, random_state=0)  # with all runs in all training sets
    result = cross_validate(X, Y, cv=cv, confounds=categories)
    indicators = (RUNS[:, None] == np.arange(2, 7)).astype(float)
    expected = cross_validate(X, Y, cv=cv, confounds=indicators)
    assert_allclose(result.class_scores, expected.class_scores, rtol=0, atol=1e-10)
    assert result.parameters["n_confounds"] == 5
    (record,) = result.parameters["confounds"]
    assert record["taken_as"] == "6 categories"


def test_columns_of_metadata_and_tables_may_be_categories():
    table = pd.DataFrame({"label": Y, "run": pd.Categorical(RUNS)})
    epochs = build.epochs(X[:, :, None], (Y == "cat").astype(int), run=table["run"])
    options = {"confounds": "run", "cv": KFold(4, shuffle=True, random_state=0)}
    for result in (
        decode_epochs(epochs, Y, **options),
        searchlight(
            X, (table, "label"), standardize=False, adjacency=np.eye(6), **options
        ),
    ):
        expected = [{"name": "run", "taken_as": "6 categories"}]
        assert result.parameters["confounds"] == expected


def test_a_design_says_what_confounds_are_taken_for():
    confounds = pd.DataFrame({"rt": RT, "run": RUNS.astype(str)})
    design = check_design(Y, RUNS, confounds=confounds)
    assert design.confounds["taken_as"].tolist() == ["a number", "6 categories"]
    assert "Confound, the column 'run': 6 categories, eta squared" in str(design)


# -------------------------------------------------------------------------------- units


@pytest.mark.parametrize("unit", [1e-13, 1e13])
def test_the_units_of_confounds_do_not_matter(unit):
    signal = RNG.normal(size=N)
    data = X + 2 * signal[:, None] + RT[:, None] / 50
    expected, result = (
        cross_validate(data, Y, cv=4, confounds=np.column_stack([RT, scale * signal]))
        for scale in (1.0, unit)
    )
    assert_allclose(result.class_scores, expected.class_scores, rtol=0, atol=1e-10)


# ------------------------------------------------------------------------------- angles


@pytest.mark.parametrize(
    ("values", "name", "unit"),
    [
        (PHASE, "", "radians"),
        (PHASE + np.pi, "", "radians"),
        (np.rad2deg(PHASE), "", None),
        (np.rad2deg(PHASE), "phase_deg", "degrees"),
        (np.rad2deg(PHASE) + 180, "Angle", "degrees"),
        (np.arange(N) % 8 * 45.0, "direction", "degrees"),
        (np.arange(N) % 8 * 22.5, "orientation", "degrees"),
        (np.arange(N) % 8 * 45.0, "position", None),
        (np.arange(360), "", None),
        (np.arange(N) % 7, "", None),  # ratings from 0 to 6
        (RNG.normal(size=500).clip(-np.pi, np.pi), "", None),
        (RNG.uniform(0, 6, size=500), "", None),
        (RNG.uniform(0, 1, size=500), "phase", None),
        (RT, "rt", None),
        (PHASE[:10], "", None),
        (RNG.uniform(-np.pi, np.pi, size=(100, 30)).astype("f4"), "", "radians"),
        (RNG.uniform(0, 2 * np.pi, size=(100, 30)).round(3), "", "radians"),
        # Features that fill about as much, of which some random ones always do.
        (RNG.uniform(-np.pi, np.pi, size=(20, 8)), "", None),
        (RNG.uniform(-3.12, 3.12, size=(200, 50)), "", None),
        (RNG.triangular(-np.pi, 0, np.pi, size=(200, 50)), "", None),
    ],
)
def test_angles_are_known_by_their_range(values, name, unit):
    assert angle_unit(values, name) == unit


def test_angles_among_confounds_are_warned_of():
    (problem,) = problems(np.column_stack([RT, PHASE]))
    assert problem.name == "angles"
    assert "column 1 of the array looks like angles in radians" in problem.text
    assert "np.column_stack([np.sin(angle), np.cos(angle)])" in problem.text
    assert problem.text in warned(
        cross_validate, X, Y, confounds=np.column_stack([RT, PHASE])
    )
    parts = np.column_stack([np.sin(PHASE), np.cos(PHASE)])
    assert problems(parts) == []


def test_angles_to_be_predicted_are_warned_of():
    (text,) = warned(regress, X, PHASE)
    assert text.startswith("y looks like angles in radians")
    assert "np.sin(" in text
    assert warned(regress, X, np.sin(PHASE)) == []


@pytest.mark.parametrize("function", [cross_validate, decode_epochs, generalize_arrays])
def test_angles_as_features_are_warned_of(function):
    rng = np.random.default_rng(0)  # of its own: the order of tests must not matter
    angles = rng.uniform(-np.pi, np.pi, size=(N, 60, 2))
    data = angles[:, :, 0] if function is cross_validate else angles
    if function is decode_epochs:
        data = build.power(np.exp(1j * angles).real)
        data._data = np.broadcast_to(angles[:, :, None], data.data.shape).copy()
    texts = warned(function, data, Y, cv=4)
    assert sum("looks like angles in radians" in text for text in texts) == 1
    assert any("np.concatenate([np.sin(" in text for text in texts)


# ---------------------------------------------------- categories no training set has


def without(confounds, train):
    """Return features less the effects of categories, of new ones their mean effect."""
    levels = np.unique(confounds)
    seen = [level for level in levels if (confounds[train] == level).any()]
    means = {level: X[train][confounds[train] == level].mean(axis=0) for level in seen}
    effect = np.stack(
        [means.get(each, np.mean(list(means.values()), axis=0)) for each in confounds]
    )
    return X - effect + X[train].mean(axis=0)


@pytest.mark.parametrize("new", ["run1", "run3", "run6"])
@pytest.mark.parametrize("more", [False, True], ids=["alone", "beside a number"])
def test_a_new_category_has_the_mean_effect_of_the_others(new, more):
    runs = np.array([f"run{k}" for k in RUNS])
    drop = np.isin(np.arange(N), [0, 1, 2, 9, 30])  # so that there are unequal numbers
    train = (runs != new) & ~drop
    indicators = (runs[:, None] == np.unique(runs)).astype(float)
    augmented, expected = np.hstack([X, indicators]), without(runs, train)
    if more:
        model = LinearRegression().fit(
            np.column_stack([indicators, RT])[train], X[train]
        )
        coef = model.coef_[:, :-1].T
        of_new = coef[np.unique(runs) != new].mean(axis=0)
        effect = indicators @ coef
        effect[runs == new] = of_new
        effect += np.outer(RT, model.coef_[:, -1])
        expected = X - effect + effect[train].mean(axis=0)
        augmented = np.column_stack([augmented, RT / 100])
    step = RemoveConfounds(augmented.shape[1] - X.shape[1]).fit(augmented[train])
    assert_allclose(step.transform(augmented), expected, rtol=0, atol=1e-10)


def test_results_do_not_depend_on_the_names_of_categories():
    runs = np.array(list("abcdef"))[RUNS - 1]
    other = np.array(list("fbdcea"))[RUNS - 1]
    options = {"groups": RUNS}
    with pytest.warns(UserWarning, match="is tested, but is not among the training"):
        one, two = (cross_validate(X, Y, confounds=x, **options) for x in (runs, other))
    assert_allclose(one.class_scores, two.class_scores, rtol=0, atol=1e-12)


def test_new_categories_are_warned_of():
    runs = np.array([f"run{k}" for k in RUNS])
    (problem,) = problems(runs)
    assert problem.name == "unseen"
    assert problem.numbers == {"cases": 6, "category": "run1"}
    assert problem.text.startswith(
        "Confounds: category 'run1' of the array is tested, but is not among the "
        "training trials of fold 0 of cv=LeaveOneGroupOut() (and so in 5 more cases)."
    )
    for function, y in ((cross_validate, Y), (regress, RT)):
        assert problem.text in warned(function, X, y, groups=RUNS, confounds=runs)
    hands = np.where(RNG.random(N) < 0.5, "left", "right")
    assert problems(hands) == []
    assert problems(runs, None) == []
    once = np.where(np.arange(N) == 20, "odd", hands)
    (problem,) = problems(once)
    assert problem.numbers == {"cases": 1, "category": "odd"}
    assert "(and so" not in problem.text


def test_categories_of_trials_tested_without_folds_are_warned_of():
    seen = np.arange(N) % 4 < 2
    kinds = np.where(seen, "a", np.where(np.arange(N) % 3, "a", "b"))
    kinds[0] = "c"
    data = np.stack([X, X], axis=2)
    texts = warned(generalize_arrays, data, Y, train_on=seen, confounds=kinds)
    (text,) = (each for each in texts if "Confounds" in each)
    assert "category 'b' of the array is tested, but is not among the train" in text


# ------------------------------------------------------------------------ what is given


@pytest.mark.parametrize(
    ("confounds", "message"),
    [
        (np.arange(N).astype("M8[s]"), "holds dates or durations. Use numbers"),
        (1j * np.arange(N), r"is complex\. Use real numbers\. .*np\.abs\(z\)"),
        ([np.ma.masked] + [1.0] * (N - 1), "masked|missing"),
        (pd.array([1, None] * (N // 2), dtype="Int64"), "is masked for 24 of 48"),
    ],
)
def test_values_that_are_refused(confounds, message):
    with pytest.raises((TypeError, ValueError), match=rf"confounds.*{message}"):
        check_design(Y, confounds=confounds)


@pytest.mark.parametrize("dtype", [">f8", ">i2", "f2", "u1", "g", object])
def test_numbers_of_any_type(dtype):
    values = np.arange(N) % 30
    result = check_design(Y, confounds=values.astype(dtype)).confounds
    expected = check_design(Y, confounds=values).confounds
    pd.testing.assert_frame_equal(result, expected)
