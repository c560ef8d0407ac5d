"""Splitters that look at labels: they are shown those of every permutation."""

import warnings

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.model_selection import KFold, StratifiedKFold

from mvpa_kfda import (
    check_design,
    cross_validate,
    decode_arrays,
    generalize_arrays,
)
from tests import build

X, CODES = build.trials((14, 12), 5, 3)
ASKED = {"n_permutations": 9, "random_state": 0}


class Blind(KFold):
    """A splitter that nobody knows."""


def test_an_unknown_splitter_that_looks_at_nothing_costs_no_more():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        unknown = decode_arrays(X, CODES, cv=Blind(4), **ASKED)
    known = decode_arrays(X, CODES, cv=KFold(4), **ASKED)
    assert unknown.parameters["permute"] == known.parameters["permute"] == "free"
    assert_array_equal(unknown.null, known.null)
    assert_array_equal(unknown.scores, known.scores)


def test_every_time_is_decoded_in_the_same_folds():
    cv = StratifiedKFold(4, shuffle=True, random_state=1)
    with pytest.warns(UserWarning, match=r"looks at the labels, .* a model each"):
        whole = decode_arrays(X, CODES, cv=cv, **ASKED)
    assert whole.repeats == {}
    assert whole.trains is None
    for t in range(3):
        one = cross_validate(X[:, :, t], CODES, cv=cv, **ASKED)
        assert_array_equal(whole.null[:, t], one.null)
        assert_array_equal(whole.predicted[t], one.predicted)
    for b, labels in enumerate(build.permuted(CODES, 9, None)[1:]):
        own = cross_validate(X[:, :, 0], labels, cv=list(cv.split(X, labels)))
        assert_allclose(whole.null[b, 0], own.scores, rtol=1e-12)


def test_workers_see_the_folds_that_were_drawn():
    class Drawn(StratifiedKFold):
        """Draws other folds every time."""

        calls = 0

        def split(self, *arguments):
            Drawn.calls += 1
            self.random_state = Drawn.calls
            return super().split(*arguments)

    def run(**options):
        Drawn.calls = 0
        cv = Drawn(3, shuffle=True, random_state=0)
        return decode_arrays(X, CODES, cv=cv, **ASKED, **options)

    one, two = run(), run(n_jobs=2)
    assert_array_equal(one.null, two.null)
    assert Drawn.calls <= 10  # the observed labels and each permutation, once


@pytest.mark.parametrize(
    ("function", "options", "given"),
    [
        (cross_validate, {"average": 2}, "average=2"),
        (cross_validate, {"train_on": np.arange(26) % 2 == 0}, "train_on"),
        (generalize_arrays, {"y_test": CODES[::-1]}, "y_test"),
    ],
)
def test_where_labels_cannot_be_shown_the_blind_splitter_is_named(
    function, options, given
):
    data = X if function is generalize_arrays else X[:, :, 0]
    message = rf"StratifiedKFold.* cannot be combined with {given}.*an integer, KFold"
    with pytest.raises(ValueError, match=message):
        function(data, CODES, cv=StratifiedKFold(3), **options, **ASKED)
    function(data, CODES, cv=StratifiedKFold(3), **options)
    with pytest.warns(RuntimeWarning, match="within_folds.*independent from trial"):
        function(
            data,
            CODES,
            cv=StratifiedKFold(3),
            permute="within_folds",
            **options,
            **ASKED,
        )


def test_the_price_is_a_problem_of_the_design():
    design = check_design(CODES, cv=StratifiedKFold(4))
    assert "price" in [problem.name for problem in design.problems]
    assert design.parameters["permute"] == "free"
    assert check_design(CODES, cv=Blind(4)).problems == check_design(CODES).problems


def precise(true, predicted, scores):
    """Return NaN of trials that are of one class."""
    return np.nan if np.ptp(true) == 0 else np.mean(true == predicted)


def test_a_function_may_be_undefined_for_test_sets_of_one_class():
    y = np.r_[np.zeros(10, int), np.tile([0, 1], 8)]
    result = cross_validate(X[:, :, 0], y, cv=4, scoring=precise, **ASKED)
    sets = [test for _, test in result.folds if np.ptp(y[test])]
    hits = [np.mean(result.predictions[test] == y[test]) for test in sets]
    assert 0 < len(sets) < 4
    assert_allclose(result.scores, np.mean(hits), rtol=1e-12)
    with pytest.raises(ValueError, match="NaN for every test set"):
        cross_validate(X[:, :, 0], y, cv=26, scoring=precise)
