"""Cases at the seams of two features, where one is easily taken for the other."""

from types import SimpleNamespace

import nibabel
import numpy as np
import pytest
from numpy.testing import assert_array_equal
from sklearn.model_selection import GroupKFold

from mvpa_kfda import (
    cross_validate,
    decode_arrays,
    generalize_arrays,
    searchlight,
)
from mvpa_kfda.viz.style import BOUND, marking

RNG = np.random.default_rng(3)
Y = RNG.permutation(np.arange(24) % 3)
X = RNG.normal(size=(24, 4, 3)) + 0.5 * np.eye(3)[Y][:, :1, None]


@pytest.mark.parametrize(
    ("of_groups", "permute"), [(True, "groups"), (False, "within_folds")]
)
def test_averages_are_made_without_labels_only_in_groups_of_one_class(
    of_groups, permute
):
    groups = np.repeat(np.arange(6), 4)
    y = groups % 2 if of_groups else np.tile([0, 1], 12)
    result = cross_validate(
        X[:, :, 0],
        y,
        groups=groups,
        cv=GroupKFold(3),
        average=2,
        n_permutations=5,
        random_state=0,
    )
    assert result.parameters["permute"] == permute


def test_the_diagonal_of_other_trials_has_no_groups_of_those_trained_with():
    groups = np.arange(24) // 8
    other = RNG.normal(size=(10, 4, 3))
    result = generalize_arrays(X, Y, other, y_test=np.arange(10) % 3, groups=groups)
    assert result.groups is not None
    assert result.diagonal().groups is None
    assert_array_equal(generalize_arrays(X, Y, groups=groups).diagonal().groups, groups)


def test_a_bound_of_one_half_is_a_majority():
    result = SimpleNamespace(metrics={BOUND: np.array([0.25, 0.5, np.nan])})
    marked, label = marking(result, "time", BOUND, "max", 0.05)
    assert_array_equal(marked, [False, True, False])
    assert label.startswith("majority")


@pytest.mark.parametrize(("shift", "fits"), [(0.005, True), (0.05, False)])
def test_grids_are_compared_to_the_shortest_edge_of_voxels(shift, fits):
    affine = np.diag([1.0, 1.0, 10.0, 1.0])
    bold = nibabel.Nifti1Image(RNG.normal(size=(3, 3, 3, 24)), affine)
    moved = affine.copy()
    moved[0, 3] = shift
    mask = nibabel.Nifti1Image(np.ones((3, 3, 3), np.uint8), moved)
    options = {"groups": np.arange(24) // 6, "mask_img": mask, "radius": 1.0}
    if fits:
        assert searchlight(bold, Y, **options).scores.shape == (27,)
    else:
        with pytest.raises(ValueError, match="grid"):
            searchlight(bold, Y, **options)


@pytest.mark.filterwarnings("ignore:All trials of class")
@pytest.mark.parametrize("absent", [0, 1])
def test_of_two_classes_the_one_that_was_trained_with_is_predicted(absent):
    y = np.repeat([0, 1], 12)
    noise = np.random.default_rng(3).normal(size=(24, 4, 3))
    data = noise + 3.0 * y[:, None, None]
    # The first fold holds all trials of one class, and some of the other.
    number = np.where(y == absent, 0, np.arange(24) % 3)
    cv = [(np.flatnonzero(number != k), np.flatnonzero(number == k)) for k in range(3)]
    result = decode_arrays(data, y, cv=cv)
    assert (result.predicted[:, number == 0] == 1 - absent).all()
    assert_array_equal(result.predicted[:, number > 0] == 1 - absent, True)
    for i in range(3):
        single = cross_validate(data[:, :, i], y, cv=cv)
        assert_array_equal(result.predicted[i], single.predicted)
