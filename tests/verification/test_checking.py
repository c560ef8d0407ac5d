"""What holds passes, of subjects and of groups, and what was forged is found."""

from dataclasses import replace
from functools import cache
from itertools import product

import mne
import numpy as np
import pandas as pd
import pytest
from sklearn.preprocessing import FunctionTransformer, StandardScaler

from mvpa_kfda import (
    decode_arrays,
    decode_epochs,
    group_inference,
    load_result,
    searchlight,
    verify,
)
from mvpa_kfda.cli.main import main
from mvpa_kfda.group.second_level import METHODS
from mvpa_kfda.inference.null import ALTERNATIVES
from tests import build
from tests.reference_group import assert_equal
from tests.to_verify import KINDS, RUNS, WHOLE, X, Y, decode, edited, honest

pytestmark = [
    pytest.mark.filterwarnings("ignore:With .* the smallest:RuntimeWarning"),
    pytest.mark.filterwarnings("ignore:.*reach.* the first or:RuntimeWarning"),
]

# ----------------------------------------------------------------- frauds of a subject


def with_record_of(result, forged):
    return replace(forged, options=result.options, parameters=result.parameters)


def labels_shifted_by_one(result):
    # and all that is recorded of the labels is that of the true ones
    return replace(decode(X, np.roll(Y, 1)), inputs=result.inputs, y=result.y)


def one_edited_score(result):
    return replace(result, metrics={"accuracy": edited(result.scores, 1, 0.025)})


def one_edited_null_value(result):
    return replace(result, nulls={"accuracy": edited(result.null, (7, 1), -0.025)})


NOTHING = FunctionTransformer()


def a_leak_that_the_record_denies(result):
    # z-scores of all trials, where those of each training set are on record
    scored = StandardScaler().fit_transform(X.reshape(40, -1)).reshape(X.shape)
    stepwise = decode(X, Y, preprocess="zscore", reg=0.1)
    leaked = with_record_of(stepwise, decode(scored, Y, preprocess=NOTHING, reg=0.1))
    return replace(leaked, inputs=stepwise.inputs)


def another_penalty_than_recorded(result):
    return with_record_of(decode(X, Y, reg=0.32), decode(X, Y, reg=0.3))


def a_fold_more(result):
    tests = (*result.tests, result.tests[0])
    folds = {k: v[:, [0, 1, 2, 3, 0]] for k, v in result.fold_metrics.items()}
    return replace(result, tests=tests, fold_metrics=folds)


def permutations_without_respect_of_runs(result):
    return with_record_of(result, decode(X, Y, permute="free"))


def the_draw_of_another_version(result):
    return with_record_of(result, decode(X, Y, random_state=1))


def fewer_permutations(result):
    return replace(result, nulls={"accuracy": result.null[:-1]})


def a_score_that_is_no_number(result):
    return replace(result, nulls={"accuracy": edited(result.null, 7, np.nan)})


FRAUDS = {
    fewer_permutations: "the file has 8 scores under permuted labels, and the",
    a_score_that_is_no_number: "3 of 42 refitted cells differ",
    labels_shifted_by_one: "refitted cells differ",
    one_edited_score: "metrics.accuracy is 0.6 at 1, and 0.575 when computed again",
    one_edited_null_value: "1 of 42 refitted cells differ",
    a_leak_that_the_record_denies: "refitted cells differ",
    another_penalty_than_recorded: "refitted cells differ",
    a_fold_more: "tests.length is 5, and 4 when computed again",
    permutations_without_respect_of_runs: "refitted cells differ",
    the_draw_of_another_version: "refitted cells differ",
}
#: Those that a few cells find as well.
BY_FEW = {a_leak_that_the_record_denies, the_draw_of_another_version}
BY_FEW |= {permutations_without_respect_of_runs}


def test_an_honest_result_holds():
    found = verify(honest(), X, Y, **WHOLE)
    assert found.ok, found
    assert len(found.cells) == 3 * 5 + 3 * 9


@pytest.mark.parametrize("forge", FRAUDS, ids=lambda forge: forge.__name__)
def test_frauds_are_found(forge, tmp_path):
    forge(honest()).save(tmp_path / "forged.h5")
    found = verify(tmp_path / "forged.h5", X, Y, **WHOLE)
    assert not found.ok
    assert FRAUDS[forge] in found.verdict
    if forge in BY_FEW:
        few = verify(tmp_path / "forged.h5", X, Y, groups=RUNS, random_state=0)
        assert not few.ok


def test_what_cannot_be_verified_is_never_fine():
    unknown = replace(honest(), inputs={}, options={})
    own = decode(
        X, Y, scoring=["accuracy", lambda true, said, _: np.mean(true == said)]
    )
    for result in (unknown, own):
        found = verify(result, X, Y, groups=None if result is unknown else RUNS)
        assert not found.ok
        assert "cannot be verified because" in str(found)
    group = group_of("TimeResult", "sign-flip", "max")
    found = verify(replace(group, inputs={}, options={}), subjects())
    assert not found.ok
    assert "cannot be verified because" in str(found)


#: Results, arguments, and what is raised.
REFUSED = [
    (honest, (build.epochs(X), None), {}, "made by decode_arrays"),
    (honest, (X,), {}, "decode_arrays of data and labels: pass y"),
    (honest, (X, Y), {"budget": -1}, "budget"),
    (honest, (X, Y), {"n_cells": 0}, "n_cells"),
    (lambda: 3, (X, Y), {}, "got int"),
    (lambda: some_group(), (None, ["a"]), {"groups": [1]}, "got y, groups"),
    (lambda: some_group(), (3,), {}, "is not iterable|list of results or paths"),
    (
        *(lambda: some_group(), ("result.h5",), {}),
        "must be a list of results or paths",
    ),
    (lambda: some_group(), ([3] * 5,), {}, "got int among them"),
]


@pytest.mark.parametrize(("make", "arguments", "options", "match"), REFUSED)
def test_wrong_arguments_are_refused(make, arguments, options, match):
    with pytest.raises((TypeError, ValueError), match=match):
        verify(make(), *arguments, **options)


# ---------------------------------------------------------------------------- groups


COURSES = ("TimeResult", "TimeRegressionResult")
OPTIONS = {"n_permutations": 60, "random_state": 0, "alpha": 0.3}


@cache
def subjects(kind="TimeResult", first=0):
    """Return results of five subjects."""
    options = {"scoring": "pearsonr"} if "Regression" in kind else {}
    return [build.result(kind, seed, **options) for seed in range(first, first + 5)]


def group_of(kind, method, names, **options):
    return group_inference(subjects(kind), method, names, **OPTIONS | options)


def some_group():
    return group_of("TimeResult", "sign-flip", "max")


def corrections_of(kind, method, side):
    """Return all corrections that a method has for a kind of map."""
    if METHODS[method].only:
        return list(METHODS[method].only)
    names = ["none", "max", "max-step-down", "holm", "fdr"]
    if kind not in ("DecodingResult", "RegressionResult"):
        names += ["cluster", "cluster-size", "tfce"]
    if kind in COURSES:
        names.append("cluster-depth")
    return names + ["cluster-fdr"] * (method == "bootstrap" and side == "greater")


@pytest.mark.some(17)
@pytest.mark.parametrize(("kind", "method"), list(product(KINDS, METHODS)))
def test_every_kind_by_every_method_holds(kind, method):
    only_high = method in ("prevalence", "i-test")
    for side in ("greater",) if only_high else ALTERNATIVES:
        names = corrections_of(kind, method, side)
        group = group_of(kind, method, names, alternative=side, threshold=0.1)
        found = verify(group, subjects(kind), random_state=0)
        assert found.ok, found
        assert_equal(group, subjects(kind))


@pytest.mark.some(9)
@pytest.mark.parametrize(
    ("kind", "paired", "method"),
    build.every_pair(
        list(product(KINDS, [False, True], ["sign-flip", "t", "wilcoxon"]))
    ),
)
def test_two_lists_hold(kind, paired, method):
    other = subjects(kind, 10)
    names = corrections_of(kind, method, "two-sided")
    group = group_of(kind, method, names, other=other, paired=paired, threshold=0.2)
    found = verify(group, subjects(kind), other=other, random_state=0)
    assert found.ok, found
    assert_equal(group, [*subjects(kind), *other])


def brain(mask, seed, undecoded=()):
    """Return a made result of a row of voxels, the first of them at one place."""
    affine = np.diag([3.0, 3.0, 3.0, 1.0])
    rng, n = np.random.default_rng(seed), int(np.sum(mask))
    scores, null = rng.normal(0.6, 0.1, n), rng.normal(0.5, 0.1, (9, n))
    scores[list(undecoded)] = np.nan
    pairs = np.stack([np.arange(n - 1), np.arange(1, n)])
    space = build.VolumeSpace(np.reshape(mask, (-1, 1, 1)) > 0, affine)
    null = null.astype(np.float32)
    return build.made_of_images(space, scores, null, pairs)


def test_other_grids_hold():
    masks = [[1] * 9, [1] * 8 + [0], [0] + [1] * 9]
    results = [brain(mask, seed, [3]) for seed, mask in enumerate(masks)]
    names = ["max", "cluster", "cluster-size", "tfce"]
    options = OPTIONS | {"threshold": 0.2, "resample": True}
    for method in METHODS:
        asked = METHODS[method].only or names
        with pytest.warns(RuntimeWarning, match="different positions"):
            group = group_inference(results, method, asked, **options)
        found = verify(group, results)
        assert found.ok, found
        assert_equal(group, results)
    options = group.options | {"resample": False}
    found = verify(replace(group, options=options), results)
    assert "resample=True brings all maps onto the grid" in str(found)
    found = verify(replace(group, places=replace(group.places, pairs=None)), results)
    assert "places.pairs is None" in str(found)


def test_the_table_of_a_group_shows_a_sample():
    group = group_of("TimeResult", "sign-flip", ["max", "none"])
    found = verify(group, subjects(), n_cells=4, random_state=0)
    assert found.ok, found
    assert found.samples == (("position", 3, 3), ("permutation", 31, 31))
    assert found.cells["position"].tolist()[2:] == ["largest"] * 2
    assert found.cells["p"].notna().tolist() == [True, True, False, False]
    assert "a random sample" in found.notes[0]


#: What is forged in a group -> what is said of it.
OF_GROUPS = {
    "subject_scores is": lambda group: {
        "subject_scores": edited(group.subject_scores, (2, 1), 0.01)
    },
    "statistic is": lambda group: {"statistic": edited(group.statistic, 1, 0.01)},
    "null_max is": lambda group: {"null_max": edited(group.null_max, 7, 0.01)},
    "p_maps.max is": lambda group: {
        "p_maps": group.p_maps | {"max": edited(group.p_maps["max"], 1, -0.01)}
    },
    "subject_p is": lambda group: {"subject_p": edited(group.subject_p, (0, 2), 0.01)},
    "recomputed cells differ": lambda group: {
        "options": group.options | {"random_state": 1},
        "parameters": group.parameters | {"random_state": 1},
    },
    "parameters.random_state is 1, and 0 when": lambda group: {
        "parameters": group.parameters | {"random_state": 1}
    },
    "method is 'bootstrap', and 'prevalence' when": lambda group: {
        "options": group.options | {"method": "prevalence"}
    },
    "null_max is an array of 59, and an array of 60 when": lambda group: {
        "null_max": group.null_max[:-1]
    },
    "p_maps is ['none'], and ['max', 'none'] when": lambda group: {
        "p_maps": {"none": group.p_maps["none"]}
    },
}


def test_frauds_of_groups_are_found(tmp_path):
    group = group_of("TimeResult", "bootstrap", "max")
    group.save(tmp_path / "group.h5")
    found = verify(tmp_path / "group.h5", subjects(), n_cells=None)
    assert found.ok, found
    assert found.samples == (("position", 3, 3), ("permutation", 60, 60))
    words = "all 3 positions and all 60 permutations recomputed, all equal."
    assert str(found) == f"The result holds: {words}"
    for words, forge in OF_GROUPS.items():
        found = verify(replace(group, **forge(group)), subjects(), n_cells=None)
        assert not found.ok, words
        assert words in str(found)


@pytest.mark.filterwarnings("ignore:Class .* always guessing")
def test_permuted_means_are_checked():
    rng, y = np.random.default_rng(0), np.repeat([0, 1], [30, 6])
    options = {"n_permutations": 20, "cv": 3, "random_state": 0}
    results = [
        decode_arrays(rng.normal(size=(36, 6, 2)), rng.permutation(y), **options)
        for _ in range(6)
    ]
    for method in ("t", "sign-flip", "prevalence"):
        group = group_inference(results, method, **OPTIONS)
        assert verify(group, results).ok
        mean = {"permuted_mean": [group.parameters["permuted_mean"][0] - 0.01]}
        forged = [replace(group, parameters=group.parameters | mean)]
        if method != "prevalence":
            means = edited(group.permuted_means, (2, 1), 0.01)
            forged += [replace(group, permuted_means=each) for each in (means, None)]
        assert not [each for each in forged if verify(each, results).ok]


# ------------------------------------------------------------------------ the commands


def test_the_command_verifies_arrays_epochs_and_images(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    honest().save("result.h5")
    np.savez("data.npz", X=X, y=Y, groups=RUNS)
    np.savez("other.npz", X=X + 1, y=Y, groups=RUNS)
    assert main(["verify", "result.h5", "data.npz", "--n-cells", "3"]) == 0
    assert "cells of permuted labels refitted, all equal" in capsys.readouterr().out
    assert main(["verify", "result.h5", "other.npz"]) == 1
    out = capsys.readouterr().out
    assert "the data are other ones" in out
    assert "--y" not in out  # which say nothing about arrays
    assert main(["verify", "result.h5", "data.npz", "--n-cells", "0"]) == 2
    assert "n_cells" in capsys.readouterr().err
    assert main(["verify", "result.h5", "nothing.npz"]) == 2
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
    options |= {"mask_img": "mask.nii.gz", "radius": 3}
    searchlight("bold.nii.gz", (epochs.metadata, "pet"), **options).save("map.h5")
    found = ["verify", "map.h5", "bold.nii.gz", "--n-cells", "4"]
    places = ["--labels", "labels.tsv", "--label-column", "pet"]
    assert main([*found, *places, "--mask-img", "mask.nii.gz"]) == 0
    assert main(found) == 2
    assert "--labels TABLE" in capsys.readouterr().err


def test_the_commands_take_groups(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    saved = build.saved_in(tmp_path, subjects("DecodingResult")[:4])
    files = [str(path) for path in saved[:3]]
    group_inference(saved[:3], "sign-flip", "max", **OPTIONS).save("group.h5")
    assert main(["verify", "group.h5", *files, "--n-cells", "3"]) == 0
    assert "1 position and all 7 permutations recomputed" in capsys.readouterr().out
    assert main(["rerun", "group.h5", *files[::-1]]) == 0
    assert "All numbers are the same" in capsys.readouterr().out
    assert load_result("group_rerun.h5") == load_result("group.h5")
    assert main(["verify", "group.h5", *files[1:]]) == 1
    assert "the result of sub-01 is not given" in capsys.readouterr().out
    assert main(["rerun", "group.h5", *files[1:]]) == 2
    assert "the result of sub-01 is not given" in capsys.readouterr().err
    files = [str(path) for path in saved]
    single = ["verify", files[0], "data.npz"]
    np.savez("data.npz", X=[1], y=[1])
    assert main([*single, "--other", files[1]]) == 2
    assert "--other is for groups; result.h5 is of one" in capsys.readouterr().err
    assert main([*single, "--bids-dir", "."]) == 2
    assert "either DATA or --bids-dir" in capsys.readouterr().err
    for paired, command in ((True, "verify"), (False, "rerun")):
        options = OPTIONS | {"other": saved[2:4], "paired": paired}
        names = ["a", "b"] if paired else None
        group = group_inference(saved[:2], "t", "none", subjects=names, **options)
        group.save("pairs.h5", overwrite=True)
        given = [command, "pairs.h5", *files[:2], "--other", *files[2:4]]
        assert main(given) == 0, capsys.readouterr()
