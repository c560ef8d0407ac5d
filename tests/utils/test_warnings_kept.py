"""The warnings of a run are given as always, and kept in its result."""

import inspect
import re
import warnings

import numpy as np
import pytest

import mvpa_kfda
from mvpa_kfda import cross_validate, group_inference, load_result
from mvpa_kfda.results.fields import RESULTS
from mvpa_kfda.utils.checks import collected_warnings, warn
from tests import build
from tests.entries import ENTRIES, everywhere
from tests.test_package import PUBLIC


def given_by(function, *args, **options):
    """Return the result of a call and the texts of what it warned of."""
    with warnings.catch_warnings(record=True) as given:
        warnings.simplefilter("always")
        result = function(*args, **options)
    return result, [str(each.message) for each in given]


def two_classes_in_order(**options):
    """Decode trials of which one class came first, which is worth a warning."""
    X, codes = build.features((12, 12), seed=0)
    order = np.argsort(codes)
    return cross_validate(X[order], build.NAMES[codes[order]], **options)


@everywhere
def test_results_keep_what_was_warned_of(entry):
    result, given = given_by(entry, n_permutations=9, random_state=0)
    assert list(result.warnings) == list(dict.fromkeys(given))


def test_a_warning_survives_a_file(tmp_path):
    options = {"groups": np.tile([0, 1], 12), "n_permutations": 5, "random_state": 0}
    result, given = given_by(two_classes_in_order, **options)
    assert given
    assert list(result.warnings) == given
    result.save(tmp_path / "result.h5")
    assert load_result(tmp_path / "result.h5").warnings == result.warnings


def test_groups_keep_theirs_and_not_those_of_subjects():
    subjects, of_subjects = given_by(build.subjects, n=4)
    group, given = given_by(group_inference, subjects, "sign-flip", random_state=0)
    assert given
    assert list(group.warnings) == given
    assert set(group.warnings).isdisjoint(of_subjects)


def test_the_diagonal_keeps_those_of_the_map():
    result, _ = given_by(build.result, "GeneralizationResult", n_permutations=3)
    object.__setattr__(result, "warnings", ("Mind the gap.",))
    assert result.diagonal().warnings == ("Mind the gap.",)


def nested():
    """Warn inside and outside of a call within a call; return what each collected."""
    with collected_warnings() as outer:
        warn("before")
        with collected_warnings() as inner:
            warn("inside")
            warn("of the machine", of_result=False)
        warn("after")
    return inner, outer


def test_calls_within_calls_hand_theirs_on():
    (inner, outer), given = given_by(nested)
    assert given == ["before", "inside", "of the machine", "after"]
    assert inner == ["inside"]
    assert outer == ["before", "inside", "after"]


def test_nothing_is_kept_of_a_call_that_failed():
    with pytest.raises(ValueError, match="one class only"):
        cross_validate(np.zeros((4, 2)), ["a"] * 4)
    result, given = given_by(ENTRIES["arrays"], n_permutations=0)
    assert list(result.warnings) == given


def test_all_functions_that_make_a_result_keep_warnings():
    made = {entry.function for entry in ENTRIES.values()}
    for name in PUBLIC:
        public = getattr(mvpa_kfda, name)
        if inspect.isfunction(public):
            returned = str(inspect.signature(public).return_annotation)
            made |= (
                {public} if set(re.findall(r"\w+", returned)) & set(RESULTS) else set()
            )
    assert len(made) >= 11
    assert [each for each in made if not hasattr(each, "__wrapped__")] == []
