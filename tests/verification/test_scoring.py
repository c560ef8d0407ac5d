"""Scores of refitted predictions are those of the package; edited ones are found."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose

from mvpa_kfda import cross_validate, decode_arrays, regress, verify
from mvpa_kfda.metrics.scores import METRICS, REGRESSION_METRICS
from mvpa_kfda.verification.scoring import PAIRS, is_covered, score
from tests import build
from tests.entries import DATA, NAMES
from tests.to_verify import RUNS, WHOLE, X, Y, decode

TABLES = [*PAIRS.values(), "confusion_matrix"]


def test_every_metric_is_covered_and_that_of_the_package():
    X, codes = build.features((9, 12, 15), 4)
    classes, n = [name for name in METRICS if name not in TABLES], 0
    for rare in (codes, np.minimum(codes, 1)):
        c = rare.max() + 1
        names = [each for each in classes if is_covered(each, c)]
        result = cross_validate(X, rare, cv=4, scoring=names)
        sets = [
            (rare[test], result.predicted[test], result.class_scores[test], len(train))
            for train, test in result.folds
        ]
        for name in names:
            found = score(name, sets, c, {})
            assert_allclose(found, result.metrics[name], rtol=1e-9, atol=1e-9)
            n += 1
    assert n == 2 * len(classes)
    values = build.values_of(X)
    result = regress(X, values, cv=4, scoring=list(REGRESSION_METRICS))
    sets = [(values[t], result.predicted[t], None, len(s)) for s, t in result.folds]
    for name in REGRESSION_METRICS:
        assert is_covered(name, None)
        assert_allclose(score(name, sets, None, {}), result.metrics[name], rtol=1e-9)


def test_what_is_not_defined_is_as_by_chance():
    scores = np.array([[0.3, 0.1], [0.2, 0.4]])
    single = [(np.array([0, 0]), np.array([0, 0]), scores, 8)]
    assert score("pairwise_accuracy", single, 2, {}) == 0.5
    assert score("crossnobis", single, 2, {}) == 0
    assert score("roc_auc", single, 2, {}) == 0.5
    never = [(np.array([0, 1]), np.array([0, 0]), scores, 8)]
    assert score("precision", never, 2, {}) == score("f1", never, 2, {}) == 0
    assert score("kappa", single, 2, {}) == 0


def test_areas_of_three_classes_hold():
    result = decode_arrays(DATA, NAMES, scoring="roc_auc", n_permutations=3, cv=3)
    found = verify(result, DATA, NAMES, n_cells=4)
    assert found.ok, found


@pytest.mark.parametrize("table", PAIRS.values())
def test_an_edited_table_of_pairs_is_found(table):
    result = decode(X, Y, scoring=["accuracy", table], n_permutations=0)
    assert verify(result, X, Y, groups=RUNS).ok
    forged = result.metrics[table].copy()
    forged[2] += 0.02 * (1 - np.eye(2))
    forged = replace(result, metrics=result.metrics | {table: forged})
    assert not verify(forged, X, Y, **WHOLE).ok


@pytest.mark.parametrize("options", [{}, {"average": 2, "n_repeats": 2}])
def test_confusion_matrices_are_counted_again(options):
    options = options | {"n_permutations": 2}
    result = decode(X, Y, scoring=["accuracy", "confusion_matrix"], **options)
    assert verify(result, X, Y, groups=RUNS, n_cells=4).ok
    forged = result.metrics["confusion_matrix"].copy()
    forged[1] += [[1, -1], [0, 0]]
    forged = replace(result, metrics=result.metrics | {"confusion_matrix": forged})
    found = verify(forged, X, Y, groups=RUNS, n_cells=4)
    assert not found.ok
    assert "metrics.confusion_matrix is " in str(found)
    assert " at 1, 0, 0, and " in str(found)
