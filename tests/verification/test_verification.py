"""Results are checked by refitting: what holds passes, and what was forged is found."""

import re
from dataclasses import fields, replace
from functools import cache
from pathlib import Path

import mne
import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.stats import hypergeom
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.metrics.pairwise import laplacian_kernel
from sklearn.model_selection import KFold, StratifiedKFold
from sklearn.preprocessing import StandardScaler

from mvpa_kfda import (
    EmpiricalMap,
    GraphSmooth,
    Nystrom,
    Penalty,
    Shrinkage,
    Tuned,
    Verification,
    cross_validate,
    decode_arrays,
    decode_epochs,
    decode_regions,
    generalize_arrays,
    load_result,
    regress,
    searchlight,
    verify,
)
from mvpa_kfda.cli.main import main
from mvpa_kfda.decoding.positions import SubsetPositions
from mvpa_kfda.utils.fingerprints import fingerprint
from mvpa_kfda.verification import recompute
from mvpa_kfda.verification.refit import Recipe, Sample, refit
from mvpa_kfda.verification.verdict import largest_share
from tests import build
from tests.entries import DATA, ENTRIES, NAMES, everywhere
from tests.forgeries import changed, parts_of
from tests.random_options import random_call

#: What of an entry's options are data, which have to be given again.
GIVEN = (
    *("X_test", "y_test", "test_epochs", "same_trials", "mask_img", "labels_img"),
    *("adjacency", "sensors", "src", "mesh"),
)
RUNS, THREE = np.repeat(np.arange(4), 10), np.resize(["cat", "dog", "eel"], 40)


def trials(seed=0, offset=0.0):
    """Return data (n, p, n_times), labels in random order within runs, and runs."""
    rng = np.random.default_rng(seed)
    y = np.concatenate([rng.permutation(np.repeat(["cat", "dog"], 5)) for _ in "1234"])
    X = rng.normal(size=(40, 6, 3))
    X[:, :2] += 0.8 * (y == "dog")[:, np.newaxis, np.newaxis]
    return X + offset, y


def decode(X, y, **options):
    options = {"n_permutations": 19, "random_state": 0, "groups": RUNS} | options
    return decode_arrays(X, y, **options)


X, Y = trials()
X_OTHER = X[:, 0, 1]
WHOLE = {"n_cells": None, "groups": RUNS}
TUNED = Tuned([0.1, 10.0])
SPLITS = {"name": "ShuffleSplit", "n_splits": 10**8, "random_state": 0}


@pytest.fixture(scope="module")
def honest():
    result = decode(X, Y)
    assert verify(result, X, Y, **WHOLE).ok
    return result


@pytest.mark.some(6)
@everywhere
def test_every_entry_holds(entry, tmp_path):
    result = entry(n_permutations=7, random_state=0)
    result.save(tmp_path / "result.h5")
    given = {name: value for name, value in entry.options.items() if name in GIVEN}
    found = verify(
        tmp_path / "result.h5", entry.convert(DATA), entry.y, random_state=1, **given
    )
    assert found.ok, found
    assert (found.cells["permutation"] == 0).any()
    assert (found.cells["permutation"] > 0).any()


def test_areas_of_three_classes_hold():
    result = decode_arrays(DATA, NAMES, scoring="roc_auc", n_permutations=3, cv=3)
    found = verify(result, DATA, NAMES, n_cells=None)
    assert found.ok, found


@everywhere
def test_every_entry_knows_other_data(entry):
    result = entry(n_permutations=0)
    given = {name: value for name, value in entry.options.items() if name in GIVEN}
    other = DATA.copy()
    other[0] += 1
    found = verify(result, entry.convert(other), entry.y, **given)
    assert not found.ok
    assert any("other ones" in each for each in found.differences), found


def test_labels_that_are_not_given_are_asked_for():
    result = decode_arrays(DATA, NAMES, n_permutations=0, cv=3)
    with pytest.raises(ValueError, match="decode_arrays of data and labels: pass y"):
        verify(result, DATA)


REPEATED = {
    "averages": {"average": 2},
    "averages of runs, three times": {"average": 2, "n_repeats": 3, "groups": RUNS},
    "undersampling": {"average": 1, "equalize": True, "n_repeats": 2},
    "folds, three times": {"n_repeats": 3},
    "stratified": {"cv": StratifiedKFold(4)},
    "stratified, twice": {"cv": StratifiedKFold(4, shuffle=True), "n_repeats": 2},
    "steps": {"average": 2, "n_repeats": 2, "preprocess": "zscore", "reg": 0.1},
}


@pytest.mark.some(4)
@pytest.mark.parametrize("options", REPEATED.values(), ids=REPEATED)
def test_repeats_hold_and_their_frauds_are_found(options):
    options = {"groups": None, "cv": None if "groups" in options else 4} | options
    result = decode(X, Y, **options)
    given = {"groups": options["groups"], "random_state": 0}
    found = verify(result, X, Y, n_cells=30, **given)
    assert found.ok, found
    other = decode(X, Y, **options | {"random_state": 1})
    forged = replace(other, options=result.options, parameters=result.parameters)
    assert not verify(forged, X, Y, n_cells=30, **given).ok


NEXT = np.abs(np.subtract.outer(np.arange(6), np.arange(6))) == 1
LIST = list(KFold(4).split(X, Y))
OWN = [(train[::2], test) for train, test in LIST]
#: What files hold only the name or the checksum of, and is passed to `verify` again.
AGAIN = {
    "a function": {"kernel": laplacian_kernel},
    "functions to choose from": {"kernel": ["linear", laplacian_kernel], "reg": TUNED},
    "a map by a function": {"kernel": EmpiricalMap(laplacian_kernel)},
    "a graph": {"kernel": GraphSmooth(NEXT)},
    "a matrix": {"kernel": Penalty(2 * np.eye(6) + 0.1), "reg": "ledoit_wolf"},
    "averages by a list of folds": {"cv": LIST, "average": 2, "n_repeats": 2},
    "averages with training sets of their own": {"cv": OWN, "average": 2},
}
ANYTHING = {
    "a grid made from the data": {"reg": Tuned("auto"), "n_permutations": 1},
    "a map": {"kernel": EmpiricalMap("rbf")},
    "landmarks": {"approx": Nystrom(20), "kernel": "rbf"},
    "directions": {"approx": Nystrom(4, sampling="uniform")},
    "single trials": {"average": 2, "average_test": False},
    "again, single trials": {
        **{"average": 2, "average_test": False, "n_repeats": 2},
        **{"reg": TUNED, "confounds": np.arange(40.0) % 7},
    },
    "averages by a kernel": {"average": 2, "kernel": "rbf", "n_repeats": 2},
    "single trials by a kernel": {"average": 2, "average_test": False, "kernel": "rbf"},
    "a list of folds": {"cv": LIST},
    "averages by kernels": {"average": 2, "kernel": ["rbf", "linear"], "reg": TUNED},
    "pairs": {"scoring": ["accuracy", {"both": [("cat", "dog")]}]},
    "distances": {"scoring": ["crossnobis", "crossnobis_distances"]},
    "pairs of pairs": {"scoring": ["pairwise_accuracy", "pairwise_accuracies"]},
}


def decode_anything(options):
    options = {"groups": None, "cv": 4, "n_permutations": 2} | options
    given = {name: options[name] for name in ("confounds",) if name in options}
    return decode(X[:, :, :2], Y, **options), {"n_cells": None} | given


@pytest.mark.parametrize("options", (AGAIN | ANYTHING).values(), ids=AGAIN | ANYTHING)
def test_any_option_holds(options):
    result, given = decode_anything(options)
    found = verify(result, X[:, :, :2], Y, **given)
    assert found.ok, found


#: What sets a penalty: which trials, their groups, or labels within a training set.
PENALTIES = {
    "all trials": {},
    "runs": {"groups": RUNS},
    "trials that are trained with": {"cv": LIST[:1]},
    "each training set": {"groups": RUNS, "preprocess": "zscore"},
    "custom training sets": {"cv": OWN},
    "labels": {"reg": "tuned"},
    "labels, by runs": {"reg": "tuned", "groups": RUNS},
    "labels of trained trials": {"reg": "tuned", "cv": LIST[:1]},
    "labels, by the steps": {"reg": "tuned", "preprocess": "zscore"},
    "labels, of kernels": {"reg": "tuned", "kernel": ["linear", "rbf"]},
}


def decode_correlated(n_features, task, **options):
    """Return a result, and its data and labels, of features that share noise."""
    rng = np.random.default_rng(1)
    noise = rng.normal(size=(40, 50)) * np.geomspace(1, 0.1, 50)
    data = noise @ rng.normal(size=(50, n_features))
    data[:, 0] += Y == "dog"
    y = Y if task == "classification" else data[:, 0] + rng.normal(size=40)
    options = {"groups": None, "cv": None if "groups" in options else 4} | options
    data = data[:, :, np.newaxis]
    result = decode(data, y, task=task, **options | {"n_permutations": 2})
    return result, data, y, {"groups": options["groups"], "random_state": 0}


@pytest.mark.some(10)
@pytest.mark.parametrize("n_features", [6, 50])
@pytest.mark.parametrize("task", ["classification", "regression"])
@pytest.mark.parametrize("options", PENALTIES.values(), ids=PENALTIES)
def test_penalties_hold_and_others_do_not(options, task, n_features):
    result, data, y, given = decode_correlated(n_features, task, **options)
    found = verify(result, data, y, **given, n_cells=9)
    assert found.ok, found
    assert found.cells["n_ties"].sum() < 5
    lambdas = np.array(result.penalty["lambda"]) * 1.001
    forged = replace(result, penalty=result.penalty | {"lambda": lambdas})
    assert not verify(forged, data, y, **given).ok


@pytest.mark.some(2)
@pytest.mark.parametrize(
    "name", ["functions to choose from", "directions", "averages by a kernel", "pairs"]
)
def test_an_edited_number_is_found_with_any_option(name):
    result, given = decode_anything({**(AGAIN | ANYTHING)[name], "n_permutations": 3})
    (name, *_), null = result.scoring, result.null.copy()
    null[2, 1] += 0.025
    forged = replace(result, nulls=result.nulls | {name: null})
    assert not verify(forged, X[:, :, :2], Y, **given).ok


@pytest.mark.some(4)
@pytest.mark.parametrize("options", AGAIN.values(), ids=AGAIN)
def test_what_is_not_in_the_file_is_passed_again(options, tmp_path):
    result, given = decode_anything(options)
    result.save(tmp_path / "result.h5")
    name = "kernel" if "kernel" in options else "cv"
    how = tmp_path / "result.h5", X[:, :, :2], Y
    assert f"pass the same {name} again" in verify(*how, **given).verdict
    assert verify(*how, **given, **{name: options[name]}).ok
    others = {"kernel": GraphSmooth(NEXT, strength=2.0), "cv": LIST[::-1]}
    found = verify(*how, **given, **{name: others[name]})
    assert "cannot be verified because" in found.verdict


POSITIONS = {
    "spheres": (searchlight, {"adjacency": NEXT | np.eye(6, dtype=bool)}),
    "regions": (decode_regions, {"labels_img": np.array([1, 1, 1, 2, 2, 2])}),
}


@pytest.mark.some(2)
@pytest.mark.parametrize("kernel", [GraphSmooth(NEXT), Penalty(np.diag(range(1, 7)))])
@pytest.mark.parametrize(("function", "places"), POSITIONS.values(), ids=POSITIONS)
def test_every_position_has_its_part_of_a_graph(function, places, kernel, tmp_path):
    options = {"kernel": kernel, "reg": 0.1, "n_permutations": 1, "random_state": 0}
    options["cv"] = 2
    function(X[:, :, 0], Y, **places, **options).save(tmp_path / "map.h5")
    how = tmp_path / "map.h5", X[:, :, 0], Y
    found = verify(*how, **places, kernel=kernel, n_cells=None)
    assert found.ok, found
    assert "pass the same kernel again" in verify(*how, **places).verdict
    result = load_result(how[0])
    forged = replace(result, options=result.options | {"reg": 0.2})
    forged = replace(forged, parameters=result.parameters | {"reg": 0.2})
    assert not verify(forged, *how[1:], **places, kernel=kernel, n_cells=None).ok


def test_a_graph_of_named_channels_is_cut_to_those_decoded(tmp_path):
    epochs = build.epochs(X)
    graph = GraphSmooth((NEXT, epochs.ch_names[::-1]))
    options = {"kernel": graph, "n_permutations": 3, "random_state": 0}
    result = decode_epochs(epochs, Y, picks=epochs.ch_names[1:5], **options)
    result.save(tmp_path / "result.h5")
    found = verify(tmp_path / "result.h5", epochs, Y, n_cells=None, kernel=graph)
    assert found.ok, found


@pytest.mark.parametrize("table", ["pairwise_accuracies", "crossnobis_distances"])
def test_an_edited_table_of_pairs_is_found(table):
    result = decode(X, Y, scoring=["accuracy", table], n_permutations=0)
    assert verify(result, X, Y, groups=RUNS).ok
    forged = result.metrics[table].copy()
    forged[2] += 0.02 * (1 - np.eye(2))
    forged = replace(result, metrics=result.metrics | {table: forged})
    assert not verify(forged, X, Y, **WHOLE).ok


# ------------------------------------------------------------------- ten seeded frauds


def labels_shifted_by_one(result):
    # and all that is recorded of the labels is that of the true ones
    return replace(decode(X, np.roll(Y, 1)), inputs=result.inputs, y=result.y)


def one_edited_score(result):
    metrics = {"accuracy": result.metrics["accuracy"] + [0, 0.025, 0]}
    return replace(result, metrics=metrics)


def one_edited_null_value(result):
    null = result.nulls["accuracy"].copy()
    null[7, 1] -= 0.025
    return replace(result, nulls={"accuracy": null})


def a_leak_that_the_record_denies(result):
    # z-scores of all trials, where those of each training set are on record
    scored = StandardScaler().fit_transform(X.reshape(40, -1)).reshape(X.shape)
    leaked = decode(scored, Y)
    stepwise = decode(X, Y, preprocess="zscore")
    return replace(
        leaked,
        inputs=stepwise.inputs,
        options=stepwise.options,
        parameters=stepwise.parameters,
    )


def another_penalty_than_recorded(result):
    strong = decode(X, Y, reg=0.3)
    recorded = decode(X, Y, reg=0.32)
    return replace(strong, options=recorded.options, parameters=recorded.parameters)


def a_fold_more(result):
    tests = (*result.tests, result.tests[0])
    folds = {k: v[:, [0, 1, 2, 3, 0]] for k, v in result.fold_metrics.items()}
    return replace(result, tests=tests, fold_metrics=folds)


def a_class_renamed(result):
    return replace(result, classes=np.array(["cat", "house"]))


def two_subjects_files_swapped(result):
    return decode(*trials(seed=1))


def permutations_without_respect_of_runs(result):
    free = decode(X, Y, permute="free")
    return replace(free, options=result.options, parameters=result.parameters)


def the_draw_of_another_version(result):
    other = decode(X, Y, random_state=1)
    return replace(other, options=result.options, parameters=result.parameters)


def fewer_permutations(result):
    return replace(result, nulls={"accuracy": result.nulls["accuracy"][:-1]})


def a_score_that_is_no_number(result):
    null = result.nulls["accuracy"].copy()
    null[7] = np.nan
    return replace(result, nulls={"accuracy": null})


FRAUDS = {
    fewer_permutations: "the file has 18 scores under permuted labels, and the",
    a_score_that_is_no_number: "3 of 72 refitted cells differ",
    labels_shifted_by_one: "refitted cells differ",
    one_edited_score: "metrics.accuracy is 0.6 at 1, and 0.575 when computed again",
    one_edited_null_value: "1 of 72 refitted cells differ",
    a_leak_that_the_record_denies: "refitted cells differ",
    another_penalty_than_recorded: "refitted cells differ",
    a_fold_more: "tests.length is 5, and 4 when computed again",
    a_class_renamed: "classes is ['cat', 'house'], and ['cat', 'dog'] when",
    two_subjects_files_swapped: "the data are other ones",
    permutations_without_respect_of_runs: "refitted cells differ",
    the_draw_of_another_version: "refitted cells differ",
}


@pytest.mark.parametrize("forge", FRAUDS, ids=lambda forge: forge.__name__)
def test_frauds_are_found(honest, forge, tmp_path):
    forge(honest).save(tmp_path / "forged.h5")
    found = verify(tmp_path / "forged.h5", X, Y, **WHOLE)
    assert not found.ok
    assert FRAUDS[forge] in found.verdict


@pytest.mark.parametrize("options", [{}, {"average": 2, "n_repeats": 2}])
def test_confusion_matrices_are_counted_again(options):
    options = options | {"n_permutations": 2}
    result = decode(X, Y, scoring=["accuracy", "confusion_matrix"], **options)
    assert verify(result, X, Y, groups=RUNS).ok
    forged = result.metrics["confusion_matrix"].copy()
    forged[1] += [[1, -1], [0, 0]]
    forged = replace(result, metrics=result.metrics | {"confusion_matrix": forged})
    found = verify(forged, X, Y, groups=RUNS)
    assert not found.ok
    assert "metrics.confusion_matrix is " in str(found)
    assert " at 1, 0, 0, and " in str(found)


@pytest.mark.parametrize("name", ["labels", "draw", "runs"])
def test_frauds_of_labels_are_found_by_a_few_cells(honest, name):
    forge = {
        "labels": a_leak_that_the_record_denies,
        "draw": the_draw_of_another_version,
        "runs": permutations_without_respect_of_runs,
    }[name]
    assert not verify(forge(honest), X, Y, groups=RUNS, random_state=0).ok


# ------------------------------------------------------- any number, and any text


AS_IMAGE = np.stack([X[:, :4], np.zeros_like(X[:, :4])], axis=3)
IN_MASK = build.mask(np.stack([np.ones((4, 3)), np.zeros((4, 3))], axis=2))
ALL = {"scoring": ["accuracy", "roc_auc", "confusion_matrix"], "groups": RUNS}
SLOW = np.arange(40.0) % 7
#: Functions, their data, and their options, of which some are data.
FORGED = {
    "times": (decode_arrays, X, {"keep_class_scores": True}),
    "epochs": (
        decode_epochs,
        build.epochs(X),
        {"average": 2, "n_repeats": 2, "confounds": SLOW},
    ),
    "pairs of times": (generalize_arrays, X, {}),
    "spheres": (
        searchlight,
        build.volume(AS_IMAGE),
        {"mask_img": IN_MASK, "radius": 1.5, "reg": "tuned", "null": "full"},
    ),
    "maxima": (
        searchlight,
        build.volume(AS_IMAGE),
        {"mask_img": IN_MASK, "radius": 1.5, "null": "max"},
    ),
}


@cache
def to_be_forged(name):
    """Return a result, and a function that verifies others like it."""
    function, data, options = FORGED[name]
    result = function(data, Y, n_permutations=5, random_state=0, **ALL | options)
    given = {k: v for k, v in options.items() if k in (*GIVEN, "confounds")}

    def check(forged):
        return verify(forged, data, Y, n_cells=1, groups=RUNS, **given)

    return result, check


@pytest.mark.some(2)
@pytest.mark.parametrize("name", FORGED)
def test_every_number_and_text_is_checked(name):
    result, check = to_be_forged(name)
    assert check(result).ok
    # Of a file of measurement information the sensors count.
    left_out = "inputs", "options", "versions", "info_fif"
    paths = list(parts_of(result, without=left_out))
    drawn = {path[0] for path in paths} | {*left_out}
    for each in fields(result):
        assert each.name in drawn or not list(parts_of(getattr(result, each.name)))
    n_found, rng = 0, np.random.default_rng(0)
    for field, *rest in paths:
        try:
            forged = changed(getattr(result, field), rest, rng)
            forged = replace(result, **{field: forged})
        except (ValueError, OverflowError):  # which no file can hold
            continue
        assert not check(forged).ok, (field, *rest)
        n_found += 1
    assert n_found > 40


@pytest.mark.some(2)
@pytest.mark.parametrize("name", FORGED)
def test_fields_that_are_left_out_or_made_up_are_found(name):
    result, check = to_be_forged(name)
    for each in fields(result):
        if each.name in ("inputs", "options", "versions"):
            continue
        value = getattr(result, each.name)
        emptied = type(value)() if isinstance(value, dict | tuple) else None
        if value is None:
            emptied = np.arange(3)
        try:
            forged = replace(result, **{each.name: emptied})
            same = forged == result
        except (ValueError, TypeError, AttributeError, IndexError):  # no such file
            continue
        if same:
            continue
        assert not check(forged).ok, each.name


def without_a_time(result):
    """Cut the last position, wherever it is."""
    kept = {
        kind: {name: each[..., :-1] for name, each in getattr(result, kind).items()}
        for kind in ("nulls",)
    }
    for kind in ("metrics", "fold_metrics"):
        maps = getattr(result, kind)
        kept[kind] = {name: np.asarray(each)[:-1] for name, each in maps.items()}
    predicted, scores = result.predicted[:-1], result.class_scores[:-1]
    kept |= {"predicted": predicted, "class_scores": scores}
    penalty = {name: each[:-1] for name, each in result.penalty.items()}
    return kept | {"penalty": penalty, "times": result.times[:-1]}


def one_time_is_nan(result):
    return {"metrics": result.metrics | {"accuracy": [np.nan, *result.scores[1:]]}}


def the_top_is_lowered(result):
    null = result.null.copy()
    null[np.unravel_index(null.argmax(), null.shape)] -= 0.025
    return {"nulls": result.nulls | {"accuracy": null}}


def two_predictions_are_exchanged(result):
    predicted = result.predicted.copy()
    first, second = (np.flatnonzero(predicted[1] == k)[0] for k in (0, 1))
    predicted[1, [first, second]] = predicted[1, [second, first]]
    return {"predicted": predicted}


def all_scores_are_higher(result):
    scores = {"accuracy": result.scores + 0.025}
    folds = {"accuracy": result.fold_metrics["accuracy"] + 0.025}
    return {
        "metrics": result.metrics | scores,
        "fold_metrics": result.fold_metrics | folds,
    }


def times_are_later(result):
    return {"times": result.times + 0.1}


@pytest.mark.parametrize(
    "forge",
    [
        *(without_a_time, one_time_is_nan, the_top_is_lowered),
        *(two_predictions_are_exchanged, all_scores_are_higher, times_are_later),
    ],
)
def test_several_numbers_that_were_forged_are_found(forge):
    result, check = to_be_forged("times")
    assert check(replace(result, **forge(result))).differences


# ----------------------------------------------------------- what differs, and is said


OTHERS = {
    "the data are in another order": ({"data": X[::-1]}, {}),
    "the data are 39 x 6 x 3, and 40 x 6 x 3 are recorded": (
        {"data": X[1:], "y": Y[1:]},
        {"groups": RUNS[1:]},
    ),
    "the labels are in another order": ({"y": Y[::-1]}, {}),
    "the groups are other ones": ({}, {"groups": RUNS + 1}),
    "the groups are not given, and were when it was made": ({}, {"groups": None}),
    "the trials of train_on are given, and were not": (
        {},
        {"train_on": np.arange(40) < 20},
    ),
}


@pytest.mark.parametrize("words", OTHERS)
def test_other_inputs_are_named(honest, words):
    first, more = OTHERS[words]
    given = {"data": X, "y": Y, "groups": RUNS} | first | more
    found = verify(honest, **given)
    assert not found.ok
    assert len(found.cells) == 0
    assert words in found.verdict


def test_what_cannot_be_verified_is_never_fine(honest):
    unknown = replace(honest, inputs={}, options={})
    own = decode(
        X, Y, scoring=["accuracy", lambda true, said, _: np.mean(true == said)]
    )
    for result in (unknown, own):
        found = verify(result, X, Y, groups=None if result is unknown else RUNS)
        assert not found.ok
        assert "cannot be verified because" in str(found)


def test_words_of_another_version_do_not_accuse(honest):
    older = honest.versions | {"mvpa_kfda": "0.0.9"}
    words = {"warnings": ("An earlier version said so.",)}
    found = verify(replace(honest, **words), X, Y, groups=RUNS)
    assert "warnings.length is 1, and 0 when computed again" in found.verdict
    found = verify(replace(honest, **words, versions=older), X, Y, groups=RUNS)
    assert found.ok, found
    assert "Warnings, in the words of mvpa_kfda 0.0.9, were not" in repr(found)
    forged = replace(one_edited_score(honest), **words, versions=older)
    assert not verify(forged, X, Y, groups=RUNS).ok


@cache
def summarised(null):
    """Return a result that keeps a summary of its null, and how to verify it."""
    near = np.eye(6, dtype=bool)
    options = {"groups": RUNS, "adjacency": near}
    how = {"n_permutations": 5, "random_state": 0} | options
    result = build.keep(null, searchlight, X[:, :, 0], Y, **how)
    return result, {"data": X[:, :, 0], "y": Y, **options}


@pytest.mark.some(2)
@pytest.mark.parametrize("null", ["max", "stream"])
@pytest.mark.parametrize("n_cells", [8, None])
def test_what_is_kept_of_a_null_holds(null, n_cells):
    result, given = summarised(null)
    found = verify(result, **given, n_cells=n_cells)
    assert found.ok, found
    assert (found.cells["permutation"] > 0).sum() == (4 if n_cells else 30)


MOMENTS = "moments", "permuted_moments"


@pytest.mark.some(2)
@pytest.mark.parametrize(
    "name", ["maximum", "exceedances", "cluster_maximum", "tfce_maximum", *MOMENTS]
)
def test_an_edited_summary_of_a_null_is_found(name):
    result, given = summarised("stream")
    summary = result.null_summaries["accuracy"]
    edited = summary[name].copy()
    by = {"exceedances": 1} | dict.fromkeys(MOMENTS, 0.001)
    edited.flat[3] += by.get(name, 0.025)
    forged = {"accuracy": summary | {name: edited}}
    found = verify(replace(result, null_summaries=forged), **given)
    assert f"null_summaries.accuracy.{name} is" in found.verdict, found


# ------------------------------------------------------------------------- a large map


@pytest.fixture
def in_no_time(monkeypatch):
    """One position in every block, and time for the first block and another."""
    clock = iter(range(10**6))
    monkeypatch.setattr(recompute, "monotonic", lambda: next(clock))
    monkeypatch.setattr(SubsetPositions, "block_length", 1)
    return {"budget": 1.5}


def test_a_single_position_is_computed_whatever_the_budget():
    result = cross_validate(X[:, :, 0], Y, cv=4, n_permutations=3, random_state=0)
    found = verify(result, X[:, :, 0], Y, budget=1e-9)
    assert found.ok, found
    assert found.recomputed == (1, 1)
    with pytest.raises(ValueError, match="budget"):
        verify(result, X[:, :, 0], Y, budget=-1)


def test_of_large_maps_as_many_positions_as_there_is_time_for(in_no_time):
    for null in ("full", "max", "stream"):
        result, given = summarised(null)
        found = verify(result, **given, **in_no_time)
        assert found.recomputed == (2, 6)
        assert found.ok == (null == "full"), found
        peak, all_p = int(np.argmax(result.scores)), found.cells["position"]
        assert peak in set(all_p)
        assert len(set(all_p)) <= 2
        if null == "full":
            assert "where it was looked at: 2 of 6 positions recomputed" in str(found)
        else:
            assert "largest scores of the permutations" in str(found)
            assert "looked at holds: 2 of 6 positions recomputed, " in str(found)
            assert verify(result, **given, budget=None).ok


@pytest.mark.parametrize("null", ["full", "max"])
def test_frauds_at_the_peak_of_large_maps_are_found(null, in_no_time):
    result, given = summarised(null)
    peak = int(np.argmax(result.scores))
    scores = result.scores.copy()
    scores[peak] += 0.05
    forged = [
        {"metrics": {"accuracy": scores}},
        {"n_features": result.n_features + np.eye(6, dtype=int)[peak]},
        {"chances": {"accuracy": 0.4}},
        {"predicted": np.where(np.eye(6, 40)[peak], 1, result.predicted)},
    ]
    forged[-1]["predicted"] = result.predicted.copy()
    forged[-1]["predicted"][peak, 3] ^= 1
    if null == "full":
        nulls = result.nulls["accuracy"].copy()
        nulls[2, peak] -= 0.025
        forged.append({"nulls": {"accuracy": nulls}})
    else:
        for name in ("exceedances", "maximum"):
            summary = dict(result.null_summaries["accuracy"])
            edited = summary[name].copy()
            edited[peak if name == "exceedances" else 2] -= 1
            summary[name] = edited
            forged.append({"null_summaries": {"accuracy": summary}})
    for each in forged:
        found = verify(replace(result, **each), **given, **in_no_time)
        assert found.differences, each


def test_time_generalization_tests_other_averages_where_labels_stay():
    times, options = X[:, :, :2], {"n_permutations": 3, "random_state": 0, "average": 2}
    halves = list(KFold(2).split(X, Y))
    own = [(train[::2], test) for train, test in halves]
    for cv, n_repeats in ((own, 1), (halves, 2)):
        how = options | {"cv": cv, "n_repeats": n_repeats}
        result = generalize_arrays(times, Y, **how)
        found = verify(result, times, Y, n_cells=None)
        assert found.ok, found
        second = result.second_nulls["accuracy"].copy()
        second[2, 1, 1] += 0.025
        forged = replace(result, second_nulls={"accuracy": second})
        assert not verify(forged, times, Y, n_cells=None).ok


@pytest.mark.some(2)
@pytest.mark.parametrize(
    "how",
    [
        *({"reg": 3.0, "null": null} for null in ("full", "max")),
        {"reg": 3.0, "y_test": np.where(np.arange(40) % 3, Y, Y[::-1])},
        {"reg": Shrinkage(0.9), "preprocess": "zscore"},
    ],
)
def test_observed_scores_of_the_second_test_are_refitted(how):
    options = {"n_permutations": 3, "random_state": 0, "groups": RUNS} | how
    times = X[:, :, :2]
    result = generalize_arrays(times, Y, **options)
    given = {"n_cells": None, "groups": RUNS, "y_test": how.get("y_test")}
    assert verify(result, times, Y, **given).ok
    scores = result.second_scores["accuracy"].copy()
    scores[1, 0] += 0.025
    for forged in ({}, {"accuracy": scores}):
        found = verify(replace(result, second_scores=forged), times, Y, **given)
        assert "does NOT hold" in found.verdict


def test_wrong_data_are_refused(honest):
    with pytest.raises(ValueError, match="made by decode_arrays"):
        verify(honest, build.epochs(X), None)
    with pytest.raises(TypeError, match="got int"):
        verify(3, X, Y)


#: Ways by which trials are compared and penalties set, all of which an offset costs
#: digits that are not taken care of.
FAR = {
    "an area": {"scoring": "roc_auc"},
    "a tuned penalty": {"reg": TUNED},
    "shrinkage": {"reg": "ledoit_wolf"},
    "a Gaussian kernel": {"kernel": "rbf"},
    "averages": {"average": 2, "n_repeats": 2},
    "confounds": {"confounds": X[:, :1, 0]},
    "distances": {"scoring": "crossnobis"},
    "landmarks": {"approx": Nystrom(8)},
}


@pytest.mark.some(4)
@pytest.mark.parametrize("options", FAR.values(), ids=FAR)
def test_data_far_from_zero_hold(options):
    # More features than trials, so that kernel matrices are refitted.
    noise = np.random.default_rng(1).normal(size=(40, 45, 1))
    far = np.concatenate([X[:, :, :1], noise], axis=1)
    far += 1e6 * np.linspace(0.5, 1.5, far.shape[1])[:, np.newaxis]
    given = {"groups": RUNS} | {k: v for k, v in options.items() if k == "confounds"}
    how = {"n_cells": 10, "random_state": 0} | given
    found = verify(decode(far, Y, **options), far, Y, **how)
    assert found.ok, found
    assert found.cells["n_ties"].sum() < 5


@pytest.mark.parametrize("offset", [0.0, 1e3])
def test_data_saved_in_single_precision_hold_and_forged_ones_do_not(offset, tmp_path):
    epochs = build.epochs(X + offset)
    result = decode_epochs(epochs, Y, groups=RUNS, n_permutations=9, random_state=0)
    epochs.save(tmp_path / "pets-epo.fif", verbose=False)
    read = mne.read_epochs(tmp_path / "pets-epo.fif", verbose=False)
    how = {"groups": RUNS, "random_state": 0, "n_cells": 12}
    found = verify(result, read, Y, **how)
    assert found.ok, found
    assert "as after saving in single precision" in found.notes[0]
    assert found.cells["n_ties"].sum() < 10
    found = verify(one_edited_score(result), read, Y, **how)
    assert not found.ok
    other = build.epochs(trials(seed=1)[0] + offset)
    forged = decode_epochs(other, Y, groups=RUNS, n_permutations=9, random_state=0)
    for read_again in (epochs, read):
        found = verify(replace(forged, inputs=result.inputs), read_again, Y, **how)
        assert found.n_differ, found


FIVE = {"cv": 5, "random_state": 0}
#: Functions of features (40, p), and the labels that they are given.
DECODED = {
    "classes": (lambda X: cross_validate(X, Y, n_permutations=9, **FIVE), Y),
    "values": (lambda X: regress(X, X_OTHER, n_permutations=9, **FIVE), X_OTHER),
    "a matrix": (lambda K: cross_validate(K, Y, kernel="precomputed", **FIVE), Y),
    "tables of pairs": (
        lambda X: cross_validate(
            X, THREE, scoring=["pairwise_accuracy", "crossnobis"], **FIVE
        ),
        THREE,
    ),
}


@pytest.mark.parametrize("name", DECODED)
def test_how_much_data_differ_is_told(name):
    decoded, y = DECODED[name]
    data = X[:, :, 0] @ X[:, :, 0].T if name == "a matrix" else X[:, :, 0]
    result = decoded(data)
    for size in (1e-12, 1e-7):
        found = verify(result, data * (1 + size), y, n_cells=6, random_state=0)
        assert found.ok, found
        told = float(re.search(r"by about (\S+) of", found.notes[0])[1])
        assert size / 3 < told < 3 * size
    for other in (data[::-1, ::-1] * (1 + size), data * 1.001):
        assert "the data are other ones" in verify(result, other, y).verdict


def test_targets_may_have_lost_digits():
    target = X[:, 0, 0] + 1 / 3
    result = regress(X[:, :, 1], target, cv=5, n_permutations=9, random_state=0)
    found = verify(result, X[:, :, 1], target.round(6), n_cells=8)
    assert found.ok, found
    assert "The labels differ" in found.notes[0]
    assert (
        "labels are other ones" in verify(result, X[:, :, 1], target[::-1] * 2).verdict
    )


def test_files_of_before_do_not_say_how_much_data_differ(honest):
    kept = {k: v for k, v in honest.inputs.items() if k != "projections"}
    older = replace(honest, inputs=kept)
    assert verify(older, X, Y, groups=RUNS).ok
    found = verify(older, X * (1 + 1e-12), Y, groups=RUNS)
    assert "does not say by how much" in found.verdict
    assert found.cells["ok"].all(), found
    found = verify(older, trials(seed=1)[0], Y, groups=RUNS)
    assert "the data are other ones" in found.verdict


def test_ties_are_no_differences():
    # Two classes with the same trials: every score is a tie but for rounding.
    twice = np.repeat(X[:20, :, 0], 2, axis=0)
    y = np.tile(["a", "b"], 20)
    folds = KFold(5)
    result = cross_validate(twice, y, cv=folds, reg=0.1, n_permutations=0)
    found = verify(result, twice, y, n_cells=None)
    assert found.ok
    assert found.cells["n_ties"].sum() > 0


@pytest.mark.filterwarnings("ignore")
def test_training_sets_of_one_class_have_the_largest_penalty():
    features, y = X[:8, :, 0], np.array(["a", "a", "b", "b", "a", "b", "a", "b"])
    folds = [(np.array([0, 1]), np.arange(2, 8)), (np.arange(2, 8), np.array([0, 1]))]
    result = cross_validate(features, y, cv=folds, n_permutations=0)
    assert verify(result, features, y, n_cells=None, cv=folds).ok


@pytest.mark.parametrize("gamma", [0.01, 0.5])
def test_refits_are_linear_discriminants(gamma):
    train, y, test = X[:, :, 0], Y, trials(seed=1)[0][:, :, 0]
    lda = LinearDiscriminantAnalysis("lsqr", shrinkage=gamma).fit(train, y)
    codes = (y == "dog").astype(int)
    means = np.array([train[codes == k].mean(axis=0) for k in (0, 1)])
    scatter = np.square(train - means[codes]).sum()
    ridge = {"name": "Ridge", "lam": gamma / (1 - gamma) * scatter / train.shape[1]}
    recipe = Recipe(({"name": "Linear"},), ridge, 2)
    found = refit(Sample(train, codes), Sample(test, codes), recipe)
    assert_array_equal(lda.classes_[found.predicted], lda.predict(test))
    # The same in the feature space of a kernel, here of the same one.
    gram = np.vstack([train, test]) @ np.vstack([train, test]).T
    numbers = np.arange(80)[:, np.newaxis]
    recipe = replace(recipe, kernels=({"name": "Precomputed"},), gram=gram)
    again = refit(Sample(numbers[:40], codes), Sample(numbers[40:], codes), recipe)
    assert_allclose(again.scores, found.scores, rtol=1e-8, atol=1e-10)


# ---------------------------------------------------------------------- the fingerprint


def test_fingerprints_take_little_room_and_are_as_documented(tmp_path, honest):
    from hashlib import sha256

    rows = [sha256(np.ascontiguousarray(trial)).digest() for trial in X]
    expected = sha256(b"".join(rows)).hexdigest()
    assert honest.inputs["data"][:3] == ["float64", "40 x 6 x 3", expected]
    assert fingerprint(np.asfortranarray(X)) == fingerprint(X)
    sizes = []
    for result in (honest, replace(honest, inputs={})):
        result.save(tmp_path / "sized.h5", overwrite=True)
        sizes.append((tmp_path / "sized.h5").stat().st_size)
    assert sizes[0] - sizes[1] < 5120


def test_files_are_recorded_by_name_and_size(tmp_path):
    epochs = build.epochs(DATA)
    epochs.save(tmp_path / "some-epo.fif", verbose=False)
    read = mne.read_epochs(tmp_path / "some-epo.fif", verbose=False)
    result = decode_epochs(read, ENTRIES["epochs"].y)
    size = (tmp_path / "some-epo.fif").stat().st_size
    assert result.inputs["files"] == [f"some-epo.fif, {size} bytes"]


# ------------------------------------------------------------------------ the commands


@pytest.fixture
def saved(tmp_path, monkeypatch, honest):
    """A folder with a result, its data, and other data."""
    monkeypatch.chdir(tmp_path)
    honest.save("result.h5")
    np.savez("data.npz", X=X, y=Y, groups=RUNS)
    np.savez("other.npz", X=X + 1, y=Y, groups=RUNS)
    return tmp_path


def test_the_command_verifies(saved, capsys):
    assert main(["verify", "result.h5", "data.npz", "--n-cells", "3"]) == 0
    assert "cells of permuted labels refitted, all equal" in capsys.readouterr().out
    assert main(["verify", "result.h5", "other.npz"]) == 1
    out = capsys.readouterr().out
    assert "the data are other ones" in out
    assert "--y" not in out  # which say nothing about arrays
    assert main(["verify", "result.h5", "data.npz", "--n-cells", "0"]) == 2
    assert "n_cells" in capsys.readouterr().err
    assert main(["verify", "result.h5", "nothing.npz"]) == 2


def test_the_command_reads_epochs_and_images(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    epochs = build.epochs(X)
    epochs.metadata = pd.DataFrame({"pet": Y, "run": RUNS})
    epochs.save("pets-epo.fif", verbose=False)
    epochs = mne.read_epochs("pets-epo.fif", verbose=False)
    options = {"groups": "run", "n_permutations": 9}
    decode_epochs(epochs, "pet", **options).save("pets.h5")
    found = ["verify", "pets.h5", "pets-epo.fif", "--n-cells", "4"]
    assert main([*found, "--y", "pet"]) == 0
    assert "as they were for the result" not in capsys.readouterr().out
    assert main([*found, "--y", "run"]) == 1
    out = capsys.readouterr().out
    assert "the labels are other ones" in out
    assert "as they were for the result (--y, " in out
    image = build.volume(np.stack([X, np.zeros_like(X)], axis=3))
    image.to_filename("bold.nii.gz")
    epochs.metadata.to_csv("labels.tsv", sep="\t", index=False)
    mask = build.mask(np.stack([np.ones((6, 3)), np.zeros((6, 3))], axis=2))
    mask.to_filename("mask.nii.gz")
    table = pd.read_csv("labels.tsv", sep="\t")
    options |= {"mask_img": "mask.nii.gz", "radius": 3}
    searchlight("bold.nii.gz", (table, "pet"), **options).save("map.h5")
    places = ["--labels", "labels.tsv", "--label-column", "pet"]
    found = ["verify", "map.h5", "bold.nii.gz", "--n-cells", "4"]
    assert main([*found, *places, "--mask-img", "mask.nii.gz"]) == 0
    assert main(found) == 2
    assert "--labels TABLE" in capsys.readouterr().err


def test_the_command_runs_again(saved, capsys, honest):
    assert main(["rerun", "result.h5", "data.npz"]) == 0
    out = capsys.readouterr().out
    assert "All numbers are the same" in out
    assert "the same versions" in out
    assert load_result("result_rerun.h5") == honest
    assert main(["rerun", "result.h5", "other.npz", "--out", "new"]) == 1
    older = replace(honest, versions=honest.versions | {"numpy": "1.0"})
    older.save("result.h5", overwrite=True)
    assert main(["rerun", "result.h5", "data.npz"]) == 0
    assert "It was made with numpy 1.0 (now" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("drawn", "total"), [(10, 1194), (20, 21), (1, 2), (3, 60), (500, 10**6), (7, 7)]
)
def test_the_largest_share_that_may_differ_is_hypergeometric(drawn, total):
    n = round(largest_share(drawn, total) * total)
    missed, found = hypergeom.pmf(0, total, [n, n + 1], drawn)
    assert missed > 0.05
    assert found <= 0.05 or n == total
    if drawn == 500:  # of very many, as if drawn with replacement
        assert_allclose(n / total, 1 - 0.05 ** (1 / drawn), rtol=1e-3, atol=0)
    assert largest_share(0, total) == 1


def test_the_verdict_says_how_much_was_looked_at(honest):
    n, n_folds, n_permuted = 3, 4, 3 * 19
    found = verify(honest, X, Y, groups=RUNS, n_cells=6, random_state=0)
    assert found.samples == (
        ("cell of the observed labels", 3, n * n_folds),
        ("cell of permuted labels", 3, n_permuted),
    )
    assert f"3 of {n * n_folds} cells of the observed labels" in str(found)
    share = np.ceil(100 * largest_share(3, n_permuted))
    assert f"{share:g} %" in str(found)
    # The position whose folds were all refitted is not drawn again.
    cells = found.cells[found.cells["permutation"] == 0]
    whole = cells["position"][cells["fold"] == "all"]
    assert not set(cells["position"][cells["fold"] != "all"]) & set(whole)
    found = verify(honest, X, Y, **WHOLE)
    assert [drawn == total for _, drawn, total in found.samples] == [True, True]
    assert "confidence" not in str(found)


def test_a_file_decides_neither_what_is_run_nor_where(saved, honest, capsys):
    edited = {"checkpoint": "made_by_the_file", "n_jobs": 400}
    replace(honest, options=honest.options | edited).save("edited.h5")
    assert main(["rerun", "edited.h5", "data.npz"]) == 0
    assert not list(Path().glob("*made_by*"))
    for name in (
        "sys_info",
        "report",
        "load_result",
        "Nystrom",
        "cli",
        "group_inference",
    ):
        inputs = honest.inputs | {"function": name}
        replace(honest, inputs=inputs).save("edited.h5", overwrite=True)
        assert main(["rerun", "edited.h5", "data.npz"]) == 2
        assert f"was not computed by {name!r}" in capsys.readouterr().err
    # Classes of scikit-learn that are neither splitters nor steps, and wrong arguments.
    for option, name, given in (
        ("cv", "GridSearchCV", {"estimator": 1, "param_grid": 2}),
        ("cv", "train_test_split", {}),
        ("cv", "KFold", {"n_folds": 3}),
        ("preprocess", "scale", {"X": [[1.0]]}),
        ("kernel", "Callable", {"function": "eval"}),
        ("kernel", "Kernel", {}),
        ("reg", "_Rule", {}),
        ("y", "KFold", {}),
    ):
        options = honest.options | {option: {"name": name, **given}}
        replace(honest, options=options).save("edited.h5", overwrite=True)
        assert main(["rerun", "edited.h5", "data.npz"]) == 2
        assert option in capsys.readouterr().err
    parameters = honest.parameters | {"preprocess": [{"name": "scale", "X": [[1.0]]}]}
    found = verify(replace(honest, parameters=parameters), X, Y, groups=RUNS)
    assert "parameters.preprocess is" in found.verdict
    options = honest.options | {"cv": {"name": "train_test_split"}}
    found = verify(replace(honest, options=options), X, Y, groups=RUNS, n_cells=1)
    assert "the options do not say how" in " ".join(found.notes)


#: Counts of a file that it holds nothing for, in options, and what is said.
COUNTS = {
    "n_repeats": (10**8, "100000000 repeats are asked for"),
    "n_permutations": (10**8, "the options make 2000 or more"),
    "cv": (10**8, "asks for more folds than there are trials"),
    "random_state": ("text", "does not hold together (TypeError"),
}


@pytest.mark.parametrize("name", COUNTS)
def test_counts_of_a_file_are_bounded_by_what_it_holds(name, honest, monkeypatch):
    value, words = COUNTS[name]
    options = honest.options | {name: value}
    if name == "cv":
        options["groups"] = None
    monkeypatch.setattr(recompute, "_FEW_PERMUTATIONS", 1000)
    edited = replace(
        honest, options=options, parameters=honest.parameters | {name: value}
    )
    assert words in verify(edited, X, Y, groups=RUNS, n_cells=2).verdict
    if name == "cv":
        options = options | {"cv": SPLITS}
        found = verify(replace(honest, options=options), X, Y, groups=RUNS)
        assert "makes 100,000,000 splits" in found.verdict


@pytest.mark.filterwarnings("ignore")
def test_damaged_records_are_no_errors(honest):
    for where in ("parameters", "options", "inputs"):
        record = getattr(honest, where)
        for name in record:
            left = {key: each for key, each in record.items() if key != name}
            values = (None, [], -1, float("nan"), {"name": [1]})
            for edited in (left, *(record | {name: value} for value in values)):
                result = replace(honest, **{where: edited})
                try:
                    verify(result, X, Y, groups=RUNS, n_cells=1, random_state=0)
                except ValueError as error:
                    assert "Pass the same data" in str(error)  # noqa: PT017


def test_counts_of_a_file_bound_what_is_run_again(saved, honest, capsys, monkeypatch):
    edited = honest.options | {"n_repeats": 10**8}
    replace(honest, options=edited).save("edited.h5")
    assert main(["rerun", "edited.h5", "data.npz"]) == 2
    assert "100000000 repeats are asked for" in capsys.readouterr().err
    monkeypatch.setattr(recompute, "_FEW_PERMUTATIONS", 100)
    edited = honest.options | {"n_permutations": 10**8}
    replace(honest, options=edited).save("edited.h5", overwrite=True)
    assert main(["rerun", "edited.h5", "data.npz"]) == 1
    # All there are may be fewer than asked for, and some of them are left out.
    few = decode(X[:8], Y[:8], groups=None, cv=2, n_permutations=10**4)
    assert few.n_permutations == 67
    assert verify(few, X[:8], Y[:8], n_cells=4).ok
    few.save("few.h5")
    np.savez("few.npz", X=X[:8], y=Y[:8])
    assert main(["rerun", "few.h5", "few.npz"]) == 0
    again = load_result("few_rerun.h5")
    assert again.options["n_permutations"] == few.options["n_permutations"] == 10**4


def test_the_verdict_is_shown_in_notebooks(honest):
    found = verify(honest, X, Y, groups=RUNS, n_cells=2)
    assert isinstance(found, Verification)
    assert "<table" in found._repr_html_()
    assert "refitted" in repr(found)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_no_false_alarms_with_random_options():
    verified = forged = 0
    for seed in range(2200):
        function, arguments, data, options = random_call(seed)
        try:
            result = function(*arguments, **data, **options)
        except (ValueError, TypeError):  # options that do not go together
            continue
        found = verify(result, *arguments, **data, n_cells=6, random_state=seed)
        assert not found.differences, (seed, found)
        assert not found.n_differ, (seed, found)
        verified += found.ok
        if found.ok and result.nulls and seed % 10 == 0:
            name, null = result.scoring[0], result.null.copy()
            null[0] += 0.1
            other = replace(result, nulls=result.nulls | {name: null})
            found = verify(other, *arguments, **data, n_cells=None)
            # Ties may hide it, of which the cells and a note tell.
            hidden = found.notes or found.cells["n_ties"].any()
            assert not found.ok or hidden, (seed, found)
            forged += not found.ok
    assert verified >= 1000
    assert forged >= 50
