"""Lines of which a break of one token was seen by no other test."""

import types
from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import stats
from sklearn.model_selection import KFold

from mvpa_kfda import regress
from mvpa_kfda.data.volumes import check_mesh
from mvpa_kfda.decoding.draws import average_trials
from mvpa_kfda.decoding.run import Draw
from mvpa_kfda.group.comparison import _other_permutations
from mvpa_kfda.group.second_level import parametric_p
from mvpa_kfda.kfda.folds import make_folds
from mvpa_kfda.metrics.scores import REGRESSION_METRICS
from tests import build

# --------------------------------------------------- the permutations of two results


def drawn(**changed):
    """Return what a comparison asks of a result."""
    fields = {
        "groups": np.arange(8) // 2,
        "folds": list(KFold(4).split(np.zeros(8))),
        "tests": range(4),
        "train_rows": None,
        "parameters": {"cv": "4", "n_permutations": 9, "random_state": 1},
    }
    return types.SimpleNamespace(**fields | changed)


def with_parameters(**changed):
    return drawn(parameters=drawn().parameters | changed)


def test_results_alike_have_the_same_permutations():
    assert _other_permutations(drawn(), drawn()) == []


@pytest.mark.parametrize(
    ("other", "word"),
    [
        (
            drawn(folds=list(KFold(4, shuffle=True, random_state=1).split(range(8)))),
            "folds",
        ),
        (drawn(folds=drawn().folds[:3]), "folds"),
        (drawn(groups=np.arange(8) // 4), "groups"),
        (drawn(groups=None), "groups"),
        (drawn(train_rows=np.arange(8) < 5), "train_on"),
        (with_parameters(random_state=2), "random_state"),
        (with_parameters(exact=True, random_state=2), "random_state"),
    ],
)
def test_other_permutations_are_told(other, word):
    assert word in " ".join(_other_permutations(drawn(), other))
    assert word in " ".join(_other_permutations(other, drawn()))


def test_all_rearrangements_there_are_need_no_seed():
    one, two = (with_parameters(exact=True, random_state=seed) for seed in (1, 2))
    assert _other_permutations(one, two) == []


# ------------------------------------------------------------- averages and labels


def test_averages_within_groups_of_one_class_do_not_look_at_labels():
    codes, groups = np.repeat([0, 1, 0, 1], 4), np.repeat(np.arange(4), 4)
    folds = make_folds(KFold(2), codes)
    assert folds.sees_labels is False

    def sees(k, groups):
        return average_trials(k, folds, codes, groups, seed=0).folds.balanced

    assert sees(2, groups) is False
    assert sees(2, None) is True  # classes are put together
    assert sees(2, groups // 2) is True  # groups of two classes
    assert sees(1, None) is False  # nothing is put together


def test_groups_of_several_sizes_are_all_averaged():
    data = np.array([[1.0], [3.0], [4.0], [8.0], [9.0]])
    sides = np.array([[0, 1]]), np.array([[2, 3, 4]])
    assert_array_equal(Draw(sides).apply(data), [[2.0], [7.0]])
    assert_array_equal(Draw(sides).apply(data.T, axis=1), [[2.0, 7.0]])
    assert_array_equal(Draw(sides[:1]).apply(data), [[2.0]])


# --------------------------------------------------------------- folds of regression


def test_numbers_without_cv_leave_groups_out_and_else_make_ten_folds():
    X = np.random.default_rng(0).normal(size=(24, 3))
    values, groups = X[:, 0], np.repeat(np.arange(3), 8)
    by_group = regress(X, values, groups=groups).tests
    assert [test.tolist() for test in by_group] == np.arange(24).reshape(3, 8).tolist()
    assert len(regress(X, values).tests) == 10
    assert len(regress(X, values, cv=4).tests) == 4


# ------------------------------------------------------------------- the R² of numbers


def test_r2_of_equal_numbers():
    r2 = REGRESSION_METRICS["r2"].score
    flat = np.full((3, 1), 2.0)
    assert_array_equal(r2(flat, flat), [1.0])
    assert_array_equal(r2(flat, flat + 1), [0.0])
    true, predicted = np.array([[1.0], [2], [6]]), np.array([[1.0], [3], [4]])
    # 1 - (0 + 1 + 4) / (4 + 1 + 9), by hand
    assert_allclose(r2(true, predicted), [1 - 5 / 14], rtol=1e-14)


# ------------------------------------------------------------------------------ meshes


def test_meshes_differ_in_triangles_in_vertices_or_in_parts():
    def image(**parts):
        return types.SimpleNamespace(mesh=types.SimpleNamespace(parts=parts))

    def part(n=4, faces=((0, 1, 2), (1, 2, 3))):
        return types.SimpleNamespace(coordinates=np.zeros((n, 3)), faces=faces)

    one = image(left=part(), right=part())
    check_mesh(image(left=part(), right=part()), one, "mask_img")
    for other in (
        image(left=part(), right=part(faces=((0, 1, 2), (0, 2, 3)))),
        image(left=part(), right=part(n=5)),
        image(left=part()),
    ):
        with pytest.raises(ValueError, match="mask_img is on another mesh"):
            check_mesh(other, one, "mask_img")


# ------------------------------------------------------------------------ signed ranks


def test_signed_ranks_with_ties_are_listed_for_few_subjects_alone():
    rng = np.random.default_rng(0)
    for n in (13, 14):
        values = rng.normal(0.4, 1, (n, 2))
        values[:4, 1] = [0.5, 0.5, -0.5, 0.5]  # ties in the second column alone
        p = parametric_p(values, statistic="wilcoxon")
        exact = stats.wilcoxon(values[:, 0], alternative="greater", method="exact")
        assert_allclose(p[0], exact.pvalue, rtol=1e-12)
        ranks = stats.rankdata(np.abs(values[:, 1]))
        if n == 13:  # all 2^n signs, by hand
            signs = 1 - 2 * ((np.arange(2**n)[:, None] >> np.arange(n)) & 1)
            sums = signs @ ranks
            expected = np.mean(sums >= ranks @ np.sign(values[:, 1]) - 1e-9)
        else:
            z = ranks @ np.sign(values[:, 1]) / np.sqrt(np.square(ranks).sum())
            expected = stats.norm.sf(z)
        assert_allclose(p[1], expected, rtol=1e-12)


# ------------------------------------------------------------------ results of groups


@pytest.mark.parametrize(
    "changed",
    [
        {"statistic": np.zeros(7)},
        {"p_maps": {"none": np.ones(7)}},
        {"p_maps": {"max": np.ones(3)}},
    ],
)
def test_group_results_need_maps_of_their_shape(changed):
    result = build.group(n=5)
    replace(result)
    with pytest.raises(ValueError, match="needs p-values and a statistic of that"):
        replace(result, **changed)
