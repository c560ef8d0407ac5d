"""Results are compared field by field: any number or text that differs is found."""

from collections import Counter
from dataclasses import fields, replace
from functools import cache

import numpy as np
import pytest

from mvpa_kfda import (
    Tuned,
    decode_arrays,
    decode_epochs,
    generalize_arrays,
    group_inference,
    searchlight,
    verify,
)
from mvpa_kfda.verification.compare import compared, differences
from tests import build
from tests.forgeries import changed, parts_of
from tests.to_verify import BLOCKS, FEW, FEW_Y, GIVEN, RUNS, X, Y, edited, honest

# ------------------------------------------------------------------------ two values


def test_values_differ_by_more_than_rounding_in_places_that_are_named():
    many, far = np.arange(9.0), {"a": [1.0, 2.0]}
    for one, other, words in (
        (many, edited(many, 8, 1e-9), None),
        (many, edited(many, 4, 0.5), "it is 4 at 4, and 4.5 when computed again"),
        (many, many[:-1], "it is an array of 9, and an array of 8 when"),
        (np.array([1.0, 1e9]), np.array([2.0, 1e9]), None),  # small beside large ones
        ([np.nan], [np.nan], None),
        ([np.inf], [np.inf], None),
        ([np.nan], [1.0], "it.0 is nan, and 1 when"),
        (far, {"a": [1.0, 2.5]}, "it.a.1 is 2, and 2.5 when"),
        (far, {"b": [1.0, 2.0]}, "it is ['a'], and ['b'] when"),
        ({"a": 1, "b": 2}, {"b": 2, "a": 1}, "it is ['a', 'b'], and ['b', 'a'] when"),
        ((1, 2), (1,), "it.length is 2, and 1 when"),
        (None, 0, "it is None, and 0 when"),
        ("cat", "dog", "it is 'cat', and 'dog' when"),
        ("x" * 90, "y", f"it is '{'x' * 75} ..., and 'y' when"),
        (1, 1 + 1e-9, None),
        (3, 4, "it is 3, and 4 when"),
        (build.chain(3), build.chain(3), None),
    ):
        said = [each.word() for each in compared(one, other, ("it",), 1e-6)]
        assert len(said) == (words is not None), words
        assert words is None or said[0].startswith(words)


def test_words_of_another_version_do_not_accuse():
    older = honest().versions | {"mvpa_kfda": "0.0.9"}
    words = {"warnings": ("An earlier version said so.",)}
    found = verify(replace(honest(), **words), X, Y, groups=RUNS)
    assert "warnings.length is 1, and 0 when computed again" in found.verdict
    found = verify(replace(honest(), **words, versions=older), X, Y, groups=RUNS)
    assert found.ok, found
    assert "Warnings, in the words of mvpa_kfda 0.0.9, were not" in repr(found)
    score = {"metrics": {"accuracy": edited(honest().scores, 1, 0.025)}}
    forged = replace(honest(), **words, **score, versions=older)
    assert not verify(forged, X, Y, groups=RUNS).ok
    # Numbers in warnings may differ where data do.
    one, other = (replace(honest(), warnings=(f"p = 0.{k}.",)) for k in (1, 2))
    assert [x.path for x in differences(one, other, 1e-6)] == [("warnings", 0)]
    assert list(differences(one, other, 1e-6, rounded=True)) == []
    (found,) = differences(one, build.group(n=3), 1e-6)
    assert found.word().startswith("type is 'TimeResult', and 'GroupResult'")


# ------------------------------------------------------- any number, and any text


AS_IMAGE = np.stack([FEW[:, :3], np.zeros_like(FEW[:, :3])], axis=3)
IN_MASK = build.mask(np.stack([np.ones((3, 2)), np.zeros((3, 2))], axis=2))
IMAGE = searchlight, build.volume(AS_IMAGE)
BALLS = {"mask_img": IN_MASK, "radius": 1.5}
ALL = {"scoring": ["accuracy", "roc_auc", "confusion_matrix"], "groups": BLOCKS}
#: Functions, their data, and their options, of which some are data.
FORGED = {
    "times": (decode_arrays, FEW, {"keep_class_scores": True}),
    "epochs": (
        decode_epochs,
        build.epochs(FEW),
        {"average": 2, "n_repeats": 2, "confounds": np.arange(20.0) % 7},
    ),
    "pairs of times": (generalize_arrays, FEW, {}),
    "spheres": (*IMAGE, BALLS | {"reg": Tuned([0.1, 10.0]), "null": "full"}),
    "maxima": (*IMAGE, BALLS | {"null": "max"}),
}


@cache
def to_be_forged(name):
    """Return a result, and a function that verifies others like it."""
    function, data, options = FORGED[name]
    result = function(data, FEW_Y, n_permutations=3, random_state=0, **ALL | options)
    given = {k: v for k, v in options.items() if k in GIVEN}

    def check(forged):
        return verify(forged, data, FEW_Y, n_cells=1, groups=BLOCKS, **given)

    return result, check


def find_every_change(result, paths, check):
    """Assert that a change at any path differs, and that some in each field are found.

    Returns how many changes there were.
    """
    rng, n_of_field = np.random.default_rng(0), Counter()
    for field, *rest in paths:
        try:
            forged = changed(getattr(result, field), rest, rng)
            forged = replace(result, **{field: forged})
        except (ValueError, OverflowError):  # which no file can hold
            continue
        assert list(differences(forged, result, 1e-6)), (field, *rest)
        if n_of_field[field] % 6 == 0:
            assert not check(forged).ok, (field, *rest)
        n_of_field[field] += 1
    return n_of_field.total()


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
    assert find_every_change(result, paths, check) > 40


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
        assert same or not check(forged).ok, each.name


def without_a_time(result):
    """Cut the last position, wherever it is."""
    kept = {"nulls": {name: each[..., :-1] for name, each in result.nulls.items()}}
    for kind in ("metrics", "fold_metrics", "penalty"):
        maps = getattr(result, kind)
        kept[kind] = {name: np.asarray(each)[:-1] for name, each in maps.items()}
    for kind in ("predicted", "class_scores", "times"):
        kept[kind] = getattr(result, kind)[:-1]
    return kept


def test_positions_that_were_left_out_everywhere_are_found():
    result, check = to_be_forged("times")
    assert check(replace(result, **without_a_time(result))).differences


# --------------------------------------------------------------------------- of groups


@cache
def subjects(kind, first=0):
    """Return results of five subjects; those over time are of arrays."""
    seeds = range(first, first + 5)
    if kind != "TimeResult":
        return [build.result(kind, seed) for seed in seeds]
    options = {"cv": 4, "n_permutations": 9, "random_state": 0}
    made = (build.trials((8, 8), 4, 3, seed) for seed in seeds)
    return [decode_arrays(data, codes, **options) for data, codes in made]


@pytest.mark.filterwarnings("ignore:With .* the smallest:RuntimeWarning")
@pytest.mark.filterwarnings("ignore:.*reach.* the first or:RuntimeWarning")
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
    options = {"n_permutations": 30, "random_state": 0, "alpha": 0.3, "threshold": 0.2}
    given = {"other": subjects(kind, 10)[:4]} if with_other else {}
    group = group_inference(subjects(kind), method, names, **given, **options)
    assert verify(group, subjects(kind), **given).ok
    names = "subjects", "other_subjects"  # are the user's
    left_out = "options", "inputs", "versions", *names
    paths = list(parts_of(group, without=left_out))
    assert ("statistic",) in paths
    assert ("subject_scores",) in paths
    find_every_change(group, paths, lambda x: verify(x, subjects(kind), **given))
