"""Results over time: first significant times, second tests, diagonals."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from mvpa_kfda import (
    SensorTimeResult,
    TimeResult,
    generalize_arrays,
)
from mvpa_kfda.inference.corrections import CORRECTIONS
from tests import build

TIMES = np.arange(-3, 6) / 10


def noisy(kind=TimeResult, **fields):
    """Return a result whose later times score high, and one of them low."""
    shape = [len(each) for each in ({"times": TIMES} | fields).values()]
    if kind is SensorTimeResult:
        shape = [2, len(TIMES)]
    rng = np.random.default_rng(0)
    scores, null = rng.uniform(0.4, 0.6, shape), rng.uniform(0.4, 0.6, (99, *shape))
    scores[..., 4:] += np.array([0.15, 0.3, -0.4, 0.3, 0.3])
    return build.made(kind, scores, null, times=TIMES, **fields)


def sensors():
    pairs = {"adjacency": np.array([[0], [1]]), "info_fif": np.empty(0, np.uint8)}
    return noisy(SensorTimeResult, ch_names=np.array(["Fz", "Cz"]), **pairs)


@pytest.mark.parametrize("alternative", ["greater", "less", "two-sided"])
@pytest.mark.parametrize("make", [noisy, sensors])
def test_the_onset_is_the_first_time_that_is_significant(make, alternative):
    result = make()
    for name, known in CORRECTIONS.items():
        if make is sensors and known.of_courses:
            continue
        if not known.of_positions:
            with pytest.raises(ValueError, match=f"no onset with correction='{name}'"):
                result.onset(name)
            continue
        p = result.pvalues(name, alternative=alternative)
        for alpha in (0.05, 0.2):
            marked = (p <= alpha).reshape(-1, len(TIMES)).any(axis=0)
            expected = TIMES[marked].min() if marked.any() else np.nan
            found = result.onset(name, alternative=alternative, alpha=alpha)
            assert_array_equal(found, expected)
    with pytest.raises(ValueError, match="'alpha': 5"):
        result.onset(alpha=5)


def test_a_diagonal_has_the_cells_of_equal_times():
    result = build.result("GeneralizationResult", scoring=["roc_auc", "accuracy"])
    later = replace(result, test_times=result.test_times + 1)
    (course, short), i = (result.diagonal(), later.diagonal()), np.arange(3)
    for name in result.scoring:
        assert_array_equal(course.metrics[name], result.metrics[name][i, i])
        assert_array_equal(course.nulls[name], result.nulls[name][:, i, i])
        folds = result.fold_metrics[name]
        assert_array_equal(course.fold_metrics[name], folds[i, i])
        assert_array_equal(short.metrics[name], result.metrics[name][[1, 2], [0, 1]])
    assert_array_equal(course.predicted, result.predicted[i, i])
    assert_array_equal(course.times, result.train_times)
    assert_array_equal(short.times, [1, 2])
    assert not course.is_tested_twice
    twice = replace(result, parameters=result.parameters | {"mode": "other_labels"})
    assert twice.diagonal().is_tested_twice == result.is_tested_twice
    apart = replace(result, test_times=result.test_times + 9)
    with pytest.raises(ValueError, match="no training time is also a test time"):
        apart.diagonal()


def test_the_second_test_is_not_made_of_cells_of_equal_times():
    result = build.result("GeneralizationResult")
    (first, second) = result.kept_tests("accuracy")
    assert first.exempt is None
    assert_array_equal(second.exempt, np.eye(3, dtype=bool))
    p = np.max(
        [(1 + (x.null >= x.scores).sum(axis=0)) / 10 for x in (first, second)], 0
    )
    diagonal = np.diag((1 + (first.null >= first.scores).sum(axis=0)) / 10)
    np.fill_diagonal(p, diagonal)
    assert_array_equal(result.pvalues(), p)
    for field, value in [
        ("second_nulls", {"accuracy": np.zeros((8, 3, 3))}),
        ("second_scores", {"kappa": np.zeros((3, 3))}),
    ]:
        with pytest.raises(
            ValueError, match="must have the names and shapes of the fi"
        ):
            replace(result, **{field: value})


def test_pairs_and_sources_that_do_not_fit_are_refused():
    with pytest.raises(ValueError, match="indices of the 2 sensors"):
        replace(sensors(), adjacency=np.array([[0], [2]]))
    result = build.result("SourceTimeResult")
    sources = result.sources | {"vertices": [result.sources["vertices"][0][1:]]}
    with pytest.raises(ValueError, match="4 vertices needs sources of as many"):
        replace(result, sources=sources | {"points": None})


def test_the_diagonal_of_other_trials_has_no_groups_of_those_trained_with():
    groups, rng = np.arange(24) // 8, np.random.default_rng(3)
    X, Y = rng.normal(size=(24, 4, 3)), rng.permutation(np.arange(24) % 3)
    other = rng.normal(size=(10, 4, 3))
    result = generalize_arrays(X, Y, other, y_test=np.arange(10) % 3, groups=groups)
    assert result.groups is not None
    assert result.diagonal().groups is None
    assert_array_equal(generalize_arrays(X, Y, groups=groups).diagonal().groups, groups)
