"""Lines of which a break of one token was seen by no other test."""

import types
from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import stats
from sklearn.model_selection import KFold

from mvpa_kfda.data.volumes import check_mesh
from mvpa_kfda.group.comparison import _other_permutations
from mvpa_kfda.group.second_level import parametric_p
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


# --------------------------------------------------------------- folds of regression


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
