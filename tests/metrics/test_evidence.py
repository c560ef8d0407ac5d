"""Scores of single folds and trials, and metrics that users bring along."""

from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.metrics import (
    accuracy_score,
    hinge_loss,
    make_scorer,
    matthews_corrcoef,
    roc_auc_score,
    top_k_accuracy_score,
)
from sklearn.model_selection import RepeatedStratifiedKFold, ShuffleSplit

from mvpa_kfda import (
    cross_validate,
    decode_arrays,
    generalize_arrays,
    load_result,
    regress,
    searchlight,
)
from tests import build

DATA, CODES = build.trials((12, 15), 4, 3, separation=0.4)
X, Y = DATA[:, :, 0], np.array(["cat", "dog"])[CODES]
#: Runs of 12, 6 and 9 trials, the first of them by name being the largest.
RUNS = np.random.default_rng(7).permutation(np.repeat(["a", "b", "c"], (12, 6, 9)))


def auc(true, predicted, scores):
    return roc_auc_score(true == "dog", scores[:, 1] - scores[:, 0])


def test_folds_of_unequal_size_come_in_the_order_of_the_folds():
    result = cross_validate(X, Y, groups=RUNS, scoring=["accuracy", "roc_auc", auc])
    hits = result.predictions == Y
    expected = [hits[RUNS == run].mean() for run in "abc"]
    assert len(set(expected)) == 3
    assert_allclose(result.fold_scores, expected)
    values = result.decision_values()
    areas = [
        roc_auc_score(Y[RUNS == run] == "dog", values[RUNS == run]) for run in "abc"
    ]
    assert_allclose(result.fold_metrics["roc_auc"], areas)
    assert_allclose(result.fold_metrics["auc"], areas)
    assert result.metrics["auc"] == pytest.approx(np.mean(areas))
    assert result.scores != pytest.approx(np.mean(expected))  # of all trials together


def test_a_fold_of_one_class_has_no_area():
    runs = np.where(np.arange(27) == 3, "z", RUNS)
    result = cross_validate(X, Y, groups=runs, scoring=["roc_auc", "accuracy"])
    assert_array_equal(np.isnan(result.fold_scores), [False, False, False, True])
    assert result.scores == pytest.approx(np.nanmean(result.fold_scores))
    assert np.isfinite(result.fold_metrics["accuracy"]).all()


@pytest.mark.parametrize("metric", ["r2", "pearsonr"])
def test_a_single_value_has_no_correlation(metric):
    y = build.values_of(DATA)
    runs = np.where(np.arange(27) == 3, "z", RUNS)
    result = regress(X, y, groups=runs, scoring=[metric, "neg_mean_squared_error"])
    assert_array_equal(np.isnan(result.fold_scores), [False, False, False, True])
    error = result.fold_metrics["neg_mean_squared_error"]
    expected = [-np.mean((result.predictions - y)[runs == r] ** 2) for r in "abcz"]
    assert_allclose(error, expected)


def test_test_sets_that_overlap_have_scores_each():
    cv = RepeatedStratifiedKFold(n_splits=3, n_repeats=2, random_state=0)
    result = cross_validate(X, Y, cv=cv, scoring=["accuracy", auc])
    for k, (train, test) in enumerate(cv.split(X, Y)):
        alone = cross_validate(X, Y, cv=[(train, test)], scoring=["accuracy", auc])
        assert result.fold_scores[k] == alone.scores == alone.fold_scores[0]
        assert result.fold_metrics["auc"][k] == pytest.approx(alone.metrics["auc"])
    assert result.metrics["auc"] == pytest.approx(result.fold_metrics["auc"].mean())


def test_trials_in_no_test_set_have_no_evidence():
    cv = ShuffleSplit(1, test_size=5, random_state=0)
    result = decode_arrays(DATA, Y, cv=cv, keep_class_scores=True)
    untested = np.setdiff1d(np.arange(27), result.tests[0])
    for values in result.decision_values(), result.probabilities()[..., 0]:
        assert_array_equal(np.flatnonzero(np.isnan(values[0])), untested)


def test_decision_values_are_positive_where_the_second_class_is_predicted():
    result = decode_arrays(DATA, Y, cv=3, keep_class_scores=True)
    values = result.decision_values()
    assert_array_equal(result.classes[(values > 0).astype(int)], result.predictions)
    p = result.probabilities()
    assert_allclose(p.sum(axis=-1), 1)
    assert_array_equal(p[..., 1] > 0.5, values > 0)


def test_evidence_is_saved_and_read(tmp_path):
    result = decode_arrays(
        DATA, Y, cv=3, keep_class_scores=True, scoring=[auc, "accuracy"]
    )
    result.save(tmp_path / "result.h5")
    same = load_result(tmp_path / "result.h5")
    assert same == result
    assert_array_equal(same.class_scores, result.class_scores)
    assert_array_equal(same.fold_scores, result.fold_scores)


def test_the_diagonal_has_the_evidence_of_decoding():
    options = {"cv": 3, "keep_class_scores": True}
    result = decode_arrays(DATA, Y, **options)
    of_map = generalize_arrays(DATA, Y, **options)
    for map_or_diagonal in of_map, of_map.diagonal():
        assert_allclose(map_or_diagonal.decision_values(), result.decision_values())
    assert_array_equal(of_map.diagonal().fold_scores, result.fold_scores)


def test_times_that_are_not_tested_have_no_evidence():
    result = generalize_arrays(
        DATA,
        Y,
        DATA[:, :, :2],
        tmin_test=1.0,
        same_trials=True,
        cv=3,
        keep_class_scores=True,
    )
    assert_array_equal(np.isnan(result.class_scores).all(axis=(1, 2)), [1, 0, 0])
    assert result.diagonal().class_scores.shape == (2, 27, 2)


def test_what_was_not_kept_is_said():
    result = decode_arrays(DATA, Y)
    for method in result.decision_values, result.probabilities:
        with pytest.raises(ValueError, match="keep_class_scores=True"):
            method()
    data, codes = build.trials((9, 9, 9))
    result = decode_arrays(data, codes, cv=3, keep_class_scores=True)
    with pytest.raises(ValueError, match="for two classes; this result has 3"):
        result.decision_values()
    table = cross_validate(X, Y, scoring=["accuracy", "confusion_matrix"])
    assert set(table.fold_metrics) == {"accuracy"}


def none_of_it(true, predicted, scores):
    return np.nan if len(set(true)) == 2 else 0.0


def fails(true, predicted, scores):
    raise KeyError("nothing here")


def accuracy(true, predicted, scores):
    return np.mean(true == predicted)


def returns(value):
    """Return a function that returns this for all labels."""

    def returns(true, predicted, scores):
        return value

    return returns


#: What is no score, and how messages word it.
RETURNED = [
    (None, "returned None"),
    ({}, r"returned \{\}"),
    ("0.5", r"returned '0\.5'"),
    (1j, "returned 1j"),
    ([0.5], r"returned \[0\.5\]"),
    ([[1], [2, 3]], r"returned \[\[1\]"),
    (np.ma.masked, "returned masked"),
    (np.datetime64("2020-01-01"), "returned .*2020"),
    (pd.NA, "returned <NA>"),
    (np.inf, "returned inf"),
]


@pytest.mark.parametrize(
    "value", [1, True, np.float32(0.5), np.array(0.5), np.bool_(False), Fraction(1, 2)]
)
def test_any_single_number_is_a_score(value):
    result = cross_validate(X, Y, scoring=returns(value))
    assert result.scores == float(value)


def spoils(which):
    """Return a function that changes one of the arrays it is given in place."""

    def spoils(*arrays):
        arrays[which][...] = arrays[which][::-1]
        return 0.0

    return spoils


@pytest.mark.parametrize("which", [0, 1, 2])
@pytest.mark.parametrize("function", [cross_validate, decode_arrays, regress])
def test_functions_cannot_change_what_is_scored(function, which):
    data, y = DATA if function is decode_arrays else X, Y
    if function is regress:
        y, which = np.arange(len(Y)) / 3, which % 2  # there are no class scores
    with pytest.raises(ValueError, match=r"'spoils'.*read-only.*Change a copy"):
        function(data, y, scoring=spoils(which))


def test_functions_of_scikit_learn_take_what_is_read_only():
    def several(true, predicted, scores):
        hinge = hinge_loss(true, scores[:, 1] - scores[:, 0])
        mean = top_k_accuracy_score(true, scores[:, 1], k=1)
        return (
            auc(true, predicted, scores)
            + matthews_corrcoef(true, predicted)
            + (mean - hinge)
        )

    result = cross_validate(X, Y, cv=3, scoring=several, n_permutations=3)
    assert np.isfinite(result.null).all()


@pytest.mark.parametrize(
    ("scoring", "error", "message"),
    [
        (accuracy_score, TypeError, "a function of .y_true, y_pred, class_scores."),
        (make_scorer(accuracy_score), TypeError, "a function of .y_true"),
        (none_of_it, ValueError, "'none_of_it', called with y_true='.*returned nan"),
        (lambda t, p, s: s, ValueError, "(?s)'custom'.*one finite number"),
        *[
            (
                returns(value),
                ValueError,
                f"'returns', called.*{said}.*one finite number",
            )
            for value, said in RETURNED
        ],
        (fails, ValueError, "'fails'.*failed: 'nothing here'"),
        (accuracy, ValueError, "named 'accuracy', which is the name of another"),
        ([auc, "accuracy", auc], ValueError, "named 'auc'"),
        (["accuracy", 3], ValueError, "'scoring': 3"),
    ],
)
def test_functions_that_are_no_scores_are_refused(scoring, error, message):
    with pytest.raises(error, match=message):
        cross_validate(X, Y, scoring=scoring)


def test_a_figure_and_a_table_of_a_function():
    result = decode_arrays(DATA, Y, cv=3, scoring=auc, n_permutations=5)
    assert result.plot().get_ylabel() == "AUC"
    assert "auc" in result.to_dataframe().columns
    assert repr(result).startswith("<TimeResult: highest AUC ")


def test_a_checkpoint_knows_functions_by_what_they_return(tmp_path):
    def score(weight):
        def own(true, predicted, scores):
            return weight * np.mean(true == predicted)

        return own

    options = {"adjacency": np.eye(4), "standardize": False, "cv": 3}
    options |= {"checkpoint": tmp_path / "run.ckpt", "random_state": 0}
    first = searchlight(X, Y, scoring=score(1), **options)
    again = searchlight(X, Y, scoring=score(1), **options)
    assert_array_equal(again.scores, first.scores)
    with pytest.raises(ValueError, match="scoring's own"):
        searchlight(X, Y, scoring=score(2), **options)
