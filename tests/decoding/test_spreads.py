"""Classes of unequal variance: found, warned of where it matters, and in p-values."""

import warnings

import numpy as np
import pytest
from sklearn.model_selection import KFold

from mvpa_kfda import cross_validate, decode_arrays, searchlight
from mvpa_kfda.decoding.problems import find_spread

CLASSES = np.array(["quiet", "noisy"])


def unequal(rng, ratio, counts=(50, 50), shape=(10,)):
    """Return noise of equal means, and labels of which one varies more."""
    codes = rng.permutation(np.repeat([0, 1], counts))
    X = rng.standard_normal((len(codes), *shape))
    return X * np.where(codes == 1, ratio, 1).reshape(-1, *(1,) * len(shape)), codes


def test_the_ratio_is_that_of_standard_deviations_in_any_unit():
    X, codes = unequal(np.random.default_rng(0), 2, (600, 300), (3,))
    X[codes == 1] += 10
    problem = find_spread([X], codes, CLASSES)
    spread = [X[codes == k].std() for k in range(2)]
    ratio = spread[1] / spread[0]
    np.testing.assert_allclose(problem.numbers["ratio"], ratio, rtol=0.05)
    assert "class 'noisy' vary" in problem.text
    assert "test scoring='roc_auc'" in problem.text
    other = find_spread([X * [1, 1e6, 1e-12]], codes, CLASSES)
    np.testing.assert_allclose(
        other.numbers["ratio"], problem.numbers["ratio"], rtol=1e-10
    )


@pytest.mark.parametrize(
    ("ratio", "counts", "shape"),
    [
        (1, (20, 20), (2,)),
        (1, (12, 6), (30,)),
        (1.2, (100, 100), (10,)),
        (1, (78, 2), (64,)),  # each is as far from the median as the other
        (1, (77, 3), (20,)),
    ],
)
def test_equal_spreads_and_small_differences_are_no_problem(ratio, counts, shape):
    for seed in range(100):
        X, codes = unequal(np.random.default_rng(seed), ratio, counts, shape)
        assert find_spread([X], codes, CLASSES) is None


def test_one_trial_far_out_is_no_class_that_varies():
    X, codes = unequal(np.random.default_rng(0), 1)
    X[np.flatnonzero(codes)[0]] = 100
    assert find_spread([X], codes, CLASSES) is None


def test_decoding_warns_where_scores_of_predicted_labels_are_tested():
    X, y = unequal(np.random.default_rng(0), 2, shape=(4, 5))
    y, matrix = CLASSES[y], X[:, :, 0]
    options = {"cv": KFold(4), "n_permutations": 9}
    for decode in (
        lambda **more: cross_validate(matrix, y, **options | more),
        lambda **more: decode_arrays(X, y, **options | more),
        lambda **more: decode_arrays(X, y, average=2, n_repeats=2, **options | more),
        lambda **more: searchlight(matrix, y, adjacency=np.eye(4), **options | more),
    ):
        with pytest.warns(UserWarning, match="'noisy' vary .* as those of 'quiet'"):
            result = decode()
        assert any("unequal variance counts" in each for each in result.warnings)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            decode(scoring="roc_auc")
            decode(n_permutations=0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        cross_validate(matrix @ matrix.T, y, kernel="precomputed", **options)
        chosen = np.where(y == "noisy", np.abs(matrix[:, 0]) < 1.5, True)
        chosen &= np.arange(len(y)) % 2 == 0
        matrix[chosen] = np.random.default_rng(1).standard_normal((chosen.sum(), 4))
        options = {"n_permutations": 9, "permute": "free"}
        cross_validate(matrix, y, train_on=chosen, **options)  # others may vary


@pytest.mark.slow
def test_a_rare_class_that_varies_is_found_by_accuracy_though_no_mean_differs():
    p = []
    names = ["accuracy", "balanced_accuracy", "roc_auc"]
    for seed in range(200):
        X, y = unequal(np.random.default_rng(seed), 2, (80, 20))
        options = {"cv": KFold(10), "permute": "free", "n_permutations": 99}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            result = cross_validate(X, y, scoring=names, random_state=seed, **options)
        p.append([result.pvalues(metric=name) for name in names])
    accuracy, balanced, area = (np.array(p) <= 0.05).mean(axis=0)
    assert accuracy > 0.3
    assert balanced > 0.1
    assert area < balanced
