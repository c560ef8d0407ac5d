"""Cells that are refitted hold with any option, and forged ones do not."""

from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from sklearn.metrics.pairwise import laplacian_kernel
from sklearn.model_selection import KFold, StratifiedKFold

from mvpa_kfda import (
    EmpiricalMap,
    GraphSmooth,
    Nystrom,
    Penalty,
    Shrinkage,
    Tuned,
    cross_validate,
    decode_epochs,
    decode_regions,
    generalize_arrays,
    load_result,
    searchlight,
    verify,
)
from tests import build
from tests.entries import DATA, everywhere
from tests.random_options import random_call
from tests.to_verify import BLOCKS, FEW, FEW_Y, GIVEN, RUNS, X, Y, decode, edited

TUNED = Tuned([0.1, 10.0])


# ------------------------------------------------------------------------- all entries


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


# ------------------------------------------------------------------------- any option


ONE = FEW[:, :, :1]
NEXT = np.abs(np.subtract.outer(np.arange(6), np.arange(6))) == 1
LIST = list(KFold(4).split(FEW))
OWN = [(train[::2], test) for train, test in LIST]
#: What files hold only the name or the checksum of, and is passed to `verify` again.
AGAIN = {
    "a function": {"kernel": laplacian_kernel},
    "functions to choose from": {
        **{"kernel": ["linear", laplacian_kernel], "reg": TUNED, "n_permutations": 1}
    },
    "a map by a function": {"kernel": EmpiricalMap(laplacian_kernel)},
    "a graph": {"kernel": GraphSmooth(NEXT)},
    "a matrix": {"kernel": Penalty(2 * np.eye(6) + 0.1), "reg": "ledoit_wolf"},
    "averages by a list of folds": {"cv": LIST, "average": 2, "n_repeats": 2},
    "averages with training sets of their own": {"cv": OWN, "average": 2},
}
ANYTHING = {
    "averages of runs": {"average": 2, "n_repeats": 2, "groups": BLOCKS},
    "undersampling": {"average": 1, "equalize": True, "n_repeats": 2},
    "folds, three times": {"n_repeats": 3},
    "stratified": {"cv": StratifiedKFold(4)},
    "stratified, twice": {"cv": StratifiedKFold(4, shuffle=True), "n_repeats": 2},
    "steps of averages": {
        **{"average": 2, "n_repeats": 2, "preprocess": "zscore", "reg": 0.1}
    },
    "a grid made from the data": {"reg": Tuned("auto"), "n_permutations": 1},
    "a map": {"kernel": EmpiricalMap("rbf")},
    "landmarks": {"approx": Nystrom(9), "kernel": "rbf"},
    "directions": {"approx": Nystrom(4, sampling="uniform")},
    "single trials": {"average": 2, "average_test": False},
    "again, single trials": {
        **{"average": 2, "average_test": False, "n_repeats": 2},
        **{"reg": TUNED, "confounds": np.arange(20.0) % 7, "n_permutations": 1},
    },
    "averages by a kernel": {"average": 2, "kernel": "rbf", "n_repeats": 2},
    "single trials by a kernel": {"average": 2, "average_test": False, "kernel": "rbf"},
    "a list of folds": {"cv": LIST},
    "averages by kernels": {
        **{"average": 2, "kernel": ["rbf", "linear"], "reg": TUNED, "cv": 2},
        "n_permutations": 1,
    },
    "pairs": {"scoring": ["accuracy", {"both": [("cat", "dog")]}]},
    "distances": {"scoring": ["crossnobis", "crossnobis_distances"]},
    "pairs of pairs": {"scoring": ["pairwise_accuracy", "pairwise_accuracies"]},
}


@cache
def decode_anything(name):
    """Return a result with some options, and what is given to verify it whole."""
    options = (AGAIN | ANYTHING)[name]
    cv = None if "groups" in options else 4
    more = {"groups": None, "cv": cv, "n_permutations": 2} | options
    given = {name: options[name] for name in ("confounds", "groups") if name in options}
    return decode(ONE, FEW_Y, **more), {"n_cells": None} | given


@pytest.mark.parametrize("name", AGAIN | ANYTHING)
def test_any_option_holds_and_an_edited_number_is_found(name):
    result, given = decode_anything(name)
    found = verify(result, ONE, FEW_Y, **given)
    assert found.ok, found
    (metric, *_), null = result.scoring, edited(result.null, (0, 0), 0.05)
    forged = replace(result, nulls=result.nulls | {metric: null})
    assert not verify(forged, ONE, FEW_Y, **given | {"n_cells": 1}).ok


@pytest.mark.some(4)
@pytest.mark.parametrize("what", AGAIN)
def test_what_is_not_in_the_file_is_passed_again(what, tmp_path):
    result, given = decode_anything(what)
    result.save(tmp_path / "result.h5")
    name = "kernel" if "kernel" in AGAIN[what] else "cv"
    how = tmp_path / "result.h5", ONE, FEW_Y
    given = given | {"n_cells": 2}
    assert f"pass the same {name} again" in verify(*how, **given).verdict
    assert verify(*how, **given, **{name: AGAIN[what][name]}).ok
    others = {"kernel": GraphSmooth(NEXT, strength=2.0), "cv": LIST[::-1]}
    found = verify(*how, **given, **{name: others[name]})
    assert "cannot be verified because" in found.verdict


#: What sets a penalty: which trials, their groups, or labels within a training set.
PENALTIES = {
    "all trials": {},
    "runs": {"groups": RUNS},
    "trials that are trained with": {"cv": list(KFold(4).split(X))[:1]},
    "each training set": {"groups": RUNS, "preprocess": "zscore"},
    "each training set, by labels": {"groups": RUNS, "preprocess": "noise_scale"},
    "custom training sets": {"cv": [(a[::2], b) for a, b in KFold(4).split(X)]},
    "labels": {"reg": "tuned"},
    "labels, by runs": {"reg": "tuned", "groups": RUNS},
    "labels of trained trials": {"reg": "tuned", "cv": list(KFold(4).split(X))[:1]},
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
    if task == "regression" and options.get("preprocess") == "noise_scale":
        return  # values have no classes
    result, data, y, given = decode_correlated(n_features, task, **options)
    found = verify(result, data, y, **given, n_cells=5)
    assert found.ok, found
    assert found.cells["n_ties"].sum() < 5
    lambdas = np.array(result.penalty["lambda"]) * 1.001
    forged = replace(result, penalty=result.penalty | {"lambda": lambdas})
    assert not verify(forged, data, y, **given, n_cells=2).ok


# ------------------------------------------------------------------------- its places


POSITIONS = {
    "spheres": (searchlight, {"adjacency": NEXT | np.eye(6, dtype=bool)}),
    "regions": (decode_regions, {"labels_img": np.array([1, 1, 1, 2, 2, 2])}),
}


@pytest.mark.some(2)
@pytest.mark.parametrize("kernel", [GraphSmooth(NEXT), Penalty(np.diag(range(1, 7)))])
@pytest.mark.parametrize(("function", "places"), POSITIONS.values(), ids=POSITIONS)
def test_every_position_has_its_part_of_a_graph(function, places, kernel, tmp_path):
    options = {"kernel": kernel, "reg": 0.1, "n_permutations": 1, "random_state": 0}
    how = tmp_path / "map.h5", FEW[:, :, 0], FEW_Y
    function(*how[1:], **places, **options, cv=2).save(how[0])
    found = verify(*how, **places, kernel=kernel, n_cells=None)
    assert found.ok, found
    assert "pass the same kernel again" in verify(*how, **places).verdict
    result = load_result(how[0])
    forged = replace(result, options=result.options | {"reg": 0.2})
    forged = replace(forged, parameters=result.parameters | {"reg": 0.2})
    assert not verify(forged, *how[1:], **places, kernel=kernel, n_cells=None).ok


def test_a_graph_of_named_channels_is_cut_to_those_decoded(tmp_path):
    epochs = build.epochs(FEW)
    graph = GraphSmooth((NEXT, epochs.ch_names[::-1]))
    options = {"kernel": graph, "n_permutations": 3, "random_state": 0}
    result = decode_epochs(epochs, FEW_Y, picks=epochs.ch_names[1:5], **options)
    result.save(tmp_path / "result.h5")
    found = verify(tmp_path / "result.h5", epochs, FEW_Y, n_cells=4, kernel=graph)
    assert found.ok, found


# ---------------------------------------------------- the second test of generalization


def test_time_generalization_tests_other_averages_where_labels_stay():
    options = {"n_permutations": 2, "random_state": 0, "average": 2}
    halves = list(KFold(2).split(FEW))
    own = [(train[::2], test) for train, test in halves]
    for cv, n_repeats in ((own, 1), (halves, 2)):
        how = options | {"cv": cv, "n_repeats": n_repeats}
        result = generalize_arrays(FEW, FEW_Y, **how)
        found = verify(result, FEW, FEW_Y, n_cells=None)
        assert found.ok, found
        second = edited(result.second_nulls["accuracy"], (1, 1, 1), 0.05)
        forged = replace(result, second_nulls={"accuracy": second})
        assert not verify(forged, FEW, FEW_Y, n_cells=1).ok


@pytest.mark.some(2)
@pytest.mark.parametrize(
    "how",
    [
        *({"reg": 3.0, "null": null} for null in ("full", "max")),
        {"reg": 3.0, "y_test": np.where(np.arange(20) % 3, FEW_Y, FEW_Y[::-1])},
        {"reg": Shrinkage(0.9), "preprocess": "zscore"},
    ],
)
def test_observed_scores_of_the_second_test_are_refitted(how):
    options = {"n_permutations": 3, "random_state": 0, "groups": BLOCKS} | how
    result = generalize_arrays(FEW, FEW_Y, **options)
    given = {"n_cells": None, "groups": BLOCKS, "y_test": how.get("y_test")}
    assert verify(result, FEW, FEW_Y, **given).ok
    scores = edited(result.second_scores["accuracy"], (1, 0), 0.05)
    for forged in ({}, {"accuracy": scores}):
        found = verify(replace(result, second_scores=forged), FEW, FEW_Y, **given)
        assert "does NOT hold" in found.verdict


# ----------------------------------------------------------------------------- rounding


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


def test_ties_are_no_differences():
    # Two classes with the same trials: every score is a tie but for rounding.
    twice = np.repeat(X[:20, :, 0], 2, axis=0)
    y = np.tile(["a", "b"], 20)
    result = cross_validate(twice, y, cv=KFold(5), reg=0.1, n_permutations=0)
    found = verify(result, twice, y, n_cells=None)
    assert found.ok
    assert found.cells["n_ties"].sum() > 0


@pytest.mark.filterwarnings("ignore")
def test_training_sets_of_one_class_have_the_largest_penalty():
    features, y = X[:8, :, 0], np.array(["a", "a", "b", "b", "a", "b", "a", "b"])
    folds = [(np.array([0, 1]), np.arange(2, 8)), (np.arange(2, 8), np.array([0, 1]))]
    result = cross_validate(features, y, cv=folds, n_permutations=0)
    assert verify(result, features, y, n_cells=None, cv=folds).ok


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
