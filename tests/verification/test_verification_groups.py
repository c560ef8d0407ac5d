"""Results of groups are worked out again from those of their subjects."""

import html
import json
from dataclasses import replace
from functools import cache
from itertools import product
from pathlib import Path

import numpy as np
import pytest

from mvpa_kfda import (
    __version__,
    decode_arrays,
    group_inference,
    load_result,
    report,
    verify,
)
from mvpa_kfda.cli.main import main
from mvpa_kfda.data.space import VolumeSpace
from mvpa_kfda.group.second_level import METHODS
from mvpa_kfda.inference.null import ALTERNATIVES
from mvpa_kfda.reports.verified import verification_html
from tests import build
from tests.forgeries import changed, parts_of
from tests.reference_group import assert_equal

pytestmark = [
    pytest.mark.filterwarnings("ignore:With .* the smallest:RuntimeWarning"),
    pytest.mark.filterwarnings("ignore:.*reach.* the first or:RuntimeWarning"),
]
KINDS = [
    *("DecodingResult", "RegressionResult", "TimeResult", "TimeRegressionResult"),
    *("TimeFrequencyResult", "SensorTimeResult", "GeneralizationResult"),
    *("VolumeResult", "regions", "SourceResult", "SourceTimeResult"),
]
COURSES = ("TimeResult", "TimeRegressionResult")
OPTIONS = {"n_permutations": 60, "random_state": 0, "alpha": 0.3}


@cache
def subjects(kind="TimeResult", first=0):
    """Return results of five subjects."""
    options = {"scoring": "pearsonr"} if "Regression" in kind else {}
    return [build.result(kind, seed, **options) for seed in range(first, first + 5)]


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
    options = OPTIONS | {"threshold": 0.1}
    only_high = method in ("prevalence", "i-test")
    for side in ("greater",) if only_high else ALTERNATIVES:
        names = corrections_of(kind, method, side)
        group = group_inference(
            subjects(kind), method, names, alternative=side, **options
        )
        found = verify(group, subjects(kind), random_state=0)
        assert found.ok, found
        assert_equal(group, subjects(kind))


def test_depths_in_long_clusters_hold():
    several = []
    for seed in range(6):
        rng = np.random.default_rng(seed)
        X, y = rng.standard_normal((24, 2, 10)), np.arange(24) % 2
        X[:, :, 3:8] += y[:, None, None] * np.array([0.4, 0.8, 1.6, 1.2, 0.8])
        several.append(decode_arrays(X, y, reg=0.1, n_permutations=30, random_state=0))
    options = OPTIONS | {"threshold": 0.2}
    group = group_inference(several, "sign-flip", "cluster-depth", **options)
    p = group.pvalues("cluster-depth")
    assert len(np.unique(p[3:8])) > 2  # they change with the depth
    assert verify(group, several).ok
    assert_equal(group, several)


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
    options = OPTIONS | {"other": other, "paired": paired, "threshold": 0.2}
    group = group_inference(subjects(kind), method, names, **options)
    found = verify(group, subjects(kind), other=other, random_state=0)
    assert found.ok, found
    assert_equal(group, [*subjects(kind), *other])


@pytest.mark.parametrize("labels", [None, ("old", "young")])
def test_subjects_of_a_second_list_have_its_name(saved, tmp_path, labels):
    (tmp_path / "more").mkdir()
    other = saved_in(tmp_path / "more", subjects(first=10))
    options = OPTIONS | {"other": other, "paired": True, "labels": labels}
    group = group_inference(saved, "sign-flip", "max", **options)
    ending = "other" if labels is None else "young"
    assert [*group.other_subjects] == [f"{name} ({ending})" for name in group.subjects]
    assert verify(group, saved[::-1], other=other[::-1]).ok
    assert f"sub-01 ({ending})" in "".join(report(group).html)


def test_the_table_shows_a_sample():
    group = group_inference(subjects(), "sign-flip", ["max", "none"], **OPTIONS)
    found = verify(group, subjects(), n_cells=4, random_state=0)
    assert found.ok, found
    assert found.samples == (("position", 3, 3), ("permutation", 31, 31))
    assert found.cells["position"].tolist()[2:] == ["largest"] * 2
    assert found.cells["p"].notna().tolist() == [True, True, False, False]
    assert "a random sample" in found.notes[0]


# ------------------------------------------------------------------------------- frauds


def saved_in(folder, results):
    """Return the files of subjects, each in a folder of its own."""
    files = []
    for number, result in enumerate(results, start=1):
        files.append(folder / f"sub-{number:02d}" / "result.h5")
        files[-1].parent.mkdir()
        result.save(files[-1])
    return files


@pytest.fixture
def saved(tmp_path):
    """Return the files of five subjects."""
    return saved_in(tmp_path, subjects())


def edited(values, index, by):
    """Return a copy of an array in which one number is another one."""
    values = np.array(values, float)
    values[index] += by
    return values


def one_edited_score(group):
    return replace(group, subject_scores=edited(group.subject_scores, (2, 1), 0.01))


def one_edited_statistic(group):
    return replace(group, statistic=edited(group.statistic, 1, 0.01))


def one_edited_null(group):
    return replace(group, null_max=edited(group.null_max, 7, 0.01))


def one_edited_p_value(group):
    p = group.p_maps | {"max": edited(group.p_maps["max"], 1, -0.01)}
    return replace(group, p_maps=p)


def one_edited_p_of_a_subject(group):
    return replace(group, subject_p=edited(group.subject_p, (0, 2), 0.01))


def another_seed_than_recorded(group):
    parameters = group.parameters | {"random_state": 1}
    options = group.options | {"random_state": 1}
    return replace(group, options=options, parameters=parameters)


def another_seed_in_its_words(group):
    return replace(group, parameters=group.parameters | {"random_state": 1})


def another_method_than_recorded(group):
    return replace(group, options=group.options | {"method": "prevalence"})


def one_permutation_less(group):
    return replace(group, null_max=group.null_max[:-1])


def p_values_that_are_not_there(group):
    return replace(group, p_maps={"none": group.p_maps["none"]})


FRAUDS = {
    one_edited_score: "subject_scores is",
    one_edited_statistic: "statistic is",
    one_edited_null: "null_max is",
    one_edited_p_value: "p_maps.max is",
    one_edited_p_of_a_subject: "subject_p is",
    another_seed_than_recorded: "recomputed cells differ",
    another_seed_in_its_words: "parameters.random_state is 1, and 0 when",
    another_method_than_recorded: "method is 'bootstrap', and 'prevalence' when",
    one_permutation_less: "null_max is an array of 59, and an array of 60 when",
    p_values_that_are_not_there: "p_maps is ['none'], and ['max', 'none'] when",
}


def test_an_honest_file_holds(saved, tmp_path):
    group = group_inference(saved, "bootstrap", "max", **OPTIONS)
    group.save(tmp_path / "group.h5")
    found = verify(tmp_path / "group.h5", saved, n_cells=None)
    assert found.ok, found
    assert found.samples == (("position", 3, 3), ("permutation", 60, 60))
    words = "all 3 positions and all 60 permutations recomputed, all equal."
    assert str(found) == f"The result holds: {words}"


@pytest.mark.parametrize("forge", FRAUDS, ids=lambda forge: forge.__name__)
def test_frauds_are_found(forge, saved, tmp_path):
    group = group_inference(saved, "bootstrap", "max", **OPTIONS)
    forge(group).save(tmp_path / "forged.h5")
    found = verify(tmp_path / "forged.h5", saved, n_cells=None)
    assert not found.ok
    assert FRAUDS[forge] in str(found)


def brain(mask, seed, undecoded=()):
    """Return a made result of a row of voxels, the first of them at one place."""
    affine = np.diag([3.0, 3.0, 3.0, 1.0])
    rng, n = np.random.default_rng(seed), int(np.sum(mask))
    scores, null = rng.normal(0.6, 0.1, n), rng.normal(0.5, 0.1, (9, n))
    scores[list(undecoded)] = np.nan
    pairs = np.stack([np.arange(n - 1), np.arange(1, n)])
    space = VolumeSpace(np.reshape(mask, (-1, 1, 1)) > 0, affine)
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


@pytest.mark.some(4)
@pytest.mark.parametrize(
    ("kind", "method", "names", "with_other"),
    [
        ("TimeResult", "prevalence", ["max", "cluster"], False),
        ("TimeResult", "bootstrap", ["cluster-size", "tfce"], False),
        ("GeneralizationResult", "bootstrap", ["cluster"], False),
        ("TimeResult", "i-test", ["none"], False),
        ("TimeResult", "sign-flip", ["tfce"], False),
        ("TimeResult", "sign-flip", ["max"], True),
        ("TimeResult", "t", ["cluster"], True),
        ("VolumeResult", "wilcoxon", ["none"], False),
    ],
)
def test_every_number_of_a_group_is_checked(kind, method, names, with_other):
    options = OPTIONS | {"threshold": 0.2}
    other = subjects(kind, 10)[:4] if with_other else None
    group = group_inference(subjects(kind), method, names, other=other, **options)
    given = {"other": other} if with_other else {}
    assert verify(group, subjects(kind), **given).ok
    names = "subjects", "other_subjects"  # are the user's
    left_out = "options", "inputs", "versions", *names
    paths = list(parts_of(group, without=left_out))
    assert ("statistic",) in paths
    assert ("subject_scores",) in paths
    rng = np.random.default_rng(0)
    for name, *rest in paths:
        try:
            forged = changed(getattr(group, name), rest, rng)
            forged = replace(group, **{name: forged})
        except ValueError:  # which no file can hold
            continue
        assert not verify(forged, subjects(kind), **given).ok, (name, *rest)


@pytest.mark.filterwarnings("ignore:Class .* always guessing")
@pytest.mark.parametrize("method", ["t", "sign-flip", "prevalence"])
def test_permuted_means_are_checked(method):
    rng, y = np.random.default_rng(0), np.repeat([0, 1], [60, 12])
    results = [
        decode_arrays(
            rng.normal(size=(72, 6, 2)), rng.permutation(y), n_permutations=40, cv=4
        )
        for _ in range(6)
    ]
    group = group_inference(results, method, **OPTIONS)
    assert verify(group, results).ok
    mean = group.parameters["permuted_mean"][0]
    forged = [
        replace(group, parameters=group.parameters | {"permuted_mean": [mean - 0.01]})
    ]
    if method != "prevalence":
        means = edited(group.permuted_means, (2, 1), 0.01)
        forged += [replace(group, permuted_means=each) for each in (means, None)]
    for each in forged:
        assert not verify(each, results).ok


def test_other_subjects_are_named(tmp_path):
    mine, others = (subjects("DecodingResult", first) for first in (0, 10))
    saved = saved_in(tmp_path, mine)
    group = group_inference(saved, "sign-flip", "max", **OPTIONS)
    assert verify(group, saved[::-1]).ok  # in any order, by their names
    assert verify(group, mine[::-1]).ok  # which have none
    one, two = (path.read_bytes() for path in saved[:2])
    saved[0].write_bytes(two)
    saved[1].write_bytes(one)
    found = str(verify(group, saved))
    assert "the results of sub-01 and sub-02 are swapped" in found
    saved[0].write_bytes(one)
    assert "the result given as sub-02 is that of sub-01" in str(verify(group, saved))
    saved[1].write_bytes(two)
    assert "the result of sub-04 is not given" in str(
        verify(group, [*saved[:3], saved[4]])
    )
    others[0].save(saved[4], overwrite=True)
    found = verify(group, saved)
    assert not found.ok
    assert len(found.cells) == 0
    assert "the result of sub-05 is another one than recorded" in str(found)
    found = [*mine[:4], others[0]]
    assert "the result of sub-05 is another one" in str(verify(group, found))
    found = str(verify(group, mine[:4]))
    assert "the result of sub-05 is not given" in found
    found = str(verify(group, [*mine, others[0]]))
    assert "number 6 is none of the results of the group" in found
    found = str(verify(group, mine, other=mine))
    assert "the results of the other list are given, and were not" in found


@pytest.mark.some(7)
@pytest.mark.parametrize("kind", KINDS)
def test_checksums_are_of_the_content(kind, tmp_path):
    first = subjects(kind)[0]
    first.save(tmp_path / "result.h5")
    assert load_result(tmp_path / "result.h5").checksum == first.checksum
    assert replace(first, versions={}).checksum == first.checksum
    predicted = edited(first.predicted, -1, 1).astype(first.predicted.dtype)
    metrics = {name: np.asarray(x) + 0.01 for name, x in first.metrics.items()}
    nulls = {name: edited(x, -1, 0.01) for name, x in first.nulls.items()}
    for forged in ({"predicted": predicted}, {"metrics": metrics}, {"nulls": nulls}):
        assert replace(first, **forged).checksum != first.checksum


def test_a_result_of_nobody_is_not_verified():
    group = group_inference(subjects(), "sign-flip", "max", **OPTIONS)
    found = verify(replace(group, inputs={}, options={}), subjects())
    assert not found.ok
    assert "cannot be verified because" in str(found)


def test_wrong_arguments_are_refused():
    group = group_inference(subjects(), "sign-flip", "max", **OPTIONS)
    with pytest.raises(TypeError, match="got y, groups"):
        verify(group, subjects(), ["a"], groups=[1])
    with pytest.raises(TypeError, match="must be a list of results or paths"):
        verify(group, subjects()[0])
    with pytest.raises(TypeError, match="got int among them"):
        verify(group, [*subjects()[:4], 3])


# ------------------------------------------------------------------------ the commands


def test_the_commands_take_groups(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    saved = saved_in(tmp_path, subjects("DecodingResult")[:4])
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
    for paired in (True, False):
        options = OPTIONS | {"other": saved[2:4], "paired": paired}
        names = ["a", "b"] if paired else None
        group = group_inference(saved[:2], "t", "none", subjects=names, **options)
        group.save("pairs.h5", overwrite=True)
        for command in ("verify", "rerun"):
            given = [command, "pairs.h5", *files[:2], "--other", *files[2:4]]
            assert main(given) == 0, capsys.readouterr()
