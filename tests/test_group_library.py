"""Sign flips through MNE-Python and nilearn give what this package's own give."""

import contextlib

import mne
import numpy as np
import pytest
from mne.stats import (
    combine_adjacency,
    permutation_cluster_1samp_test,
    permutation_t_test,
)
from nibabel import Nifti1Image
from nilearn.glm.second_level import non_parametric_inference
from numpy.testing import assert_allclose, assert_array_equal
from pandas import DataFrame
from scipy import ndimage, stats
from sklearn.feature_extraction.image import grid_to_graph

from mvpa_kfda.data.space import VolumeSpace
from mvpa_kfda.group import library
from mvpa_kfda.group.library import flip_with_mne, flip_with_nilearn
from mvpa_kfda.group.statistics import flip_here
from mvpa_kfda.inference.null import ALTERNATIVES

CORRECTIONS = ("max", "cluster", "tfce")


def real(n_subjects, n_positions, seed=0):
    return np.random.default_rng(seed).normal(0.5, 1.0, (n_subjects, n_positions))


def accuracies(n_subjects, n_positions, seed=0):
    rng = np.random.default_rng(seed)
    return rng.binomial(20, 0.6, (n_subjects, n_positions)) / 20 - 0.5


def sensors_by_times():
    """A graph of 6 sensors at 5 times."""
    pairs = np.zeros((6, 6))
    for i, j in [(0, 1), (1, 2), (2, 3), (3, 4), (1, 4), (4, 5)]:
        pairs[i, j] = pairs[j, i] = 1
    return combine_adjacency(pairs, 5)


NEIGHBOURS = {"line": (30,), "lattice": (5, 6), "graph": sensors_by_times()}


@pytest.mark.parametrize("data", [real, accuracies])
@pytest.mark.parametrize("alternative", ALTERNATIVES)
@pytest.mark.parametrize("correction", CORRECTIONS)
@pytest.mark.parametrize("neighbours", NEIGHBOURS.values(), ids=NEIGHBOURS)
def test_mne_equals_our_own_flips_when_all_are_listed(
    neighbours, correction, alternative, data
):
    differences = data(6, 30, seed=4)
    options = {"alternative": alternative, "threshold": 0.2, "n_permutations": 63}
    p, null_max = flip_with_mne(differences, neighbours, correction, **options)
    own, own_max = flip_here(differences, neighbours, correction, **options)
    assert alternative == "less" or len(set(own)) > 1
    assert_allclose(p, own, rtol=1e-12, atol=0)
    if len(null_max) < len(own_max):
        # MNE-Python lists one flip of each mirrored pair; our last mirrors the data.
        null_max = np.concatenate([null_max, null_max, own_max[-1:]])
    assert_allclose(np.sort(null_max), np.sort(own_max), rtol=1e-9, atol=0)


def test_mne_splits_no_ties_at_the_heights_of_tfce():
    # t of few trials is often a multiple of 0.2, where TFCE has its steps.
    options = {"alternative": "two-sided", "n_permutations": 63}
    for seed in (1, 9, 10, 11, 12):
        differences = accuracies(6, 30, seed)
        p, _ = flip_with_mne(differences, (5, 6), "tfce", **options)
        own, _ = flip_here(differences, (5, 6), "tfce", **options)
        assert_allclose(p, own, rtol=1e-12, atol=0)


@pytest.mark.parametrize("n_subjects", [14, 20, 21])
def test_data_is_not_drawn_as_a_flip_of_one_side(n_subjects, monkeypatch):
    def own(*_, **__):
        raise AssertionError("own flips")

    monkeypatch.setattr(library, "flip_here", own)
    listed = pytest.raises(AssertionError, match="own flips")
    if n_subjects > 20 and mne.utils.check_version("mne", "1.13.2"):
        listed = contextlib.nullcontext()
    with listed:
        differences = real(n_subjects, 4)
        flip_with_mne(differences, (4,), "cluster", n_permutations=50)


@pytest.mark.parametrize("alternative", ["greater", "less"])
@pytest.mark.parametrize("correction", CORRECTIONS)
def test_mne_draws_flips_like_ours_when_they_are_many(correction, alternative):
    differences = real(22, 30, seed=1) - 0.2
    if alternative == "less":
        differences = -differences
    options = {
        "alternative": alternative,
        "threshold": 0.1,
        "n_permutations": 500,
        "random_state": 0,
    }
    p, null_max = flip_with_mne(differences, (5, 6), correction, **options)
    own, _ = flip_here(differences, (5, 6), correction, **options)
    assert null_max.shape == (500,)
    assert p.min() < 0.05
    # Four standard errors of the difference of two proportions.
    assert_allclose(p, own, rtol=0, atol=4 * np.sqrt(0.5 / 500))


def test_mne_flips_do_not_depend_on_the_workers():
    options = {"threshold": 0.1, "n_permutations": 200, "random_state": 0}
    differences = real(14, 30, seed=1)
    p, null_max = flip_with_mne(differences, (5, 6), "cluster", **options)
    again = flip_with_mne(differences, (5, 6), "cluster", **options, n_jobs=2)
    assert_array_equal(again[0], p)
    assert_array_equal(again[1], null_max)


def test_the_libraries_are_asked_where_they_are_right(monkeypatch):
    def refuse(*_, **__):
        raise AssertionError("own flips")

    monkeypatch.setattr(library, "flip_here", refuse)
    differences = real(22, 8)
    right = CORRECTIONS if mne.utils.check_version("mne", "1.13.2") else ()
    for correction in right:
        flip_with_mne(differences, (8,), correction, n_permutations=20)
    space, counted = VolumeSpace(np.ones((2, 2, 2)), np.eye(4)), np.ones(8, dtype=bool)
    for correction in ("max", "cluster", "cluster-size"):
        flip_with_nilearn(differences, space, counted, correction, n_permutations=20)
    with pytest.raises(AssertionError, match="own flips"):
        flip_with_mne(differences[:4], (8,), "max", n_permutations=20)
    with pytest.raises(AssertionError, match="own flips"):
        flip_with_mne(np.zeros((14, 8)), (8,), "cluster", n_permutations=20)
    with pytest.raises(AssertionError, match="own flips"):
        flip_with_nilearn(differences, space, counted, "tfce", n_permutations=20)
    differences[:, 0] = 0.1
    with pytest.raises(AssertionError, match="own flips"):
        flip_with_nilearn(differences, space, counted, "max", n_permutations=20)


def test_max_and_cluster_are_those_of_mne_itself():
    differences = real(7, 30, seed=2)
    p, _ = flip_with_mne(
        differences, (5, 6), "max", alternative="two-sided", n_permutations=127
    )
    _, expected, _ = permutation_t_test(differences, n_permutations=128, verbose=False)
    assert_allclose(p, expected, rtol=1e-12, atol=0)
    p, _ = flip_with_mne(
        differences, (5, 6), "cluster", alternative="two-sided", n_permutations=127
    )
    _, clusters, expected, _ = permutation_cluster_1samp_test(
        differences.reshape(7, 5, 6), n_permutations=128, verbose=False
    )
    for cluster, value in zip(clusters, expected, strict=True):
        assert_allclose(p.reshape(5, 6)[cluster], value, rtol=1e-12, atol=0)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("correction", CORRECTIONS)
def test_mne_takes_zeros_and_equal_differences(correction):
    differences = real(12, 9)
    differences[:, 3], differences[:, 4] = 0.0, 0.3
    p, null_max = flip_with_mne(
        differences, (9,), correction, alternative="two-sided", n_permutations=200
    )
    assert np.isfinite(null_max).all()
    assert p[3] > 0.5
    assert p[4] < 0.05
    p, null_max = flip_with_mne(np.zeros((5, 4)), (4,), correction, n_permutations=20)
    assert_array_equal(p, 1)
    assert len(null_max) == 20


# -------------------------------------------------------------------------- nilearn


@pytest.fixture
def volume():
    """Fourteen subjects, a mask with a hole, two voxels that do not count."""
    mask = np.ones((4, 4, 3), dtype=bool)
    mask[2, 2, 1] = mask[0, 3, 0] = False
    space = VolumeSpace(mask, np.diag([3.0, 3.0, 3.0, 1.0]))
    counted = np.ones(space.n_positions, dtype=bool)
    counted[[5, 20]] = False
    differences = real(14, counted.sum(), seed=6) - 0.2
    differences[:, 6] += 1
    differences[:, 30] -= 1
    kept = mask.copy()
    kept[mask] = counted
    return differences, space, counted, kept


@pytest.mark.parametrize("alternative", ALTERNATIVES)
@pytest.mark.parametrize("correction", ["max", "cluster-size"])
def test_nilearn_equals_our_own_flips(volume, correction, alternative):
    differences, space, counted, kept = volume
    if alternative == "less":
        differences = -differences
    options = {
        "threshold": 0.1,
        "alternative": alternative,
        "n_permutations": 1000,
        "random_state": 0,
    }
    p, null_max = flip_with_nilearn(differences, space, counted, correction, **options)
    graph = grid_to_graph(*kept.shape, mask=kept)
    own, _ = flip_here(differences, graph, correction, **options)
    assert null_max.shape == (1000,)
    assert p.min() < 0.1
    assert_allclose(p, own, rtol=0, atol=4 * np.sqrt(0.5 / 1000))


def test_nilearn_mass_is_what_is_above_the_threshold(volume):
    differences, space, counted, kept = volume
    p, null_max = flip_with_nilearn(
        differences, space, counted, "cluster", n_permutations=300, random_state=0
    )
    height = stats.t.isf(0.05, 13)
    t = np.zeros(kept.shape)
    t[kept] = stats.ttest_1samp(differences, 0).statistic
    labels, n_clusters = ndimage.label(t > height)
    assert n_clusters > 0
    masses = ndimage.sum(t - height, labels, np.arange(n_clusters + 1))
    masses[0] = 0
    expected = (1 + (null_max >= masses[:, np.newaxis] - 1e-9).sum(axis=1)) / 301
    assert_allclose(p, expected[labels[kept]], rtol=1e-12, atol=0)


def test_nilearn_max_is_that_of_its_second_level_function(volume):
    differences, space, counted, kept = volume
    p, _ = flip_with_nilearn(
        differences,
        space,
        counted,
        "max",
        alternative="two-sided",
        n_permutations=1000,
        random_state=0,
    )
    maps = np.zeros((*kept.shape, 14))
    maps[kept] = differences.T
    found = non_parametric_inference(
        [Nifti1Image(maps[..., i], space.affine) for i in range(14)],
        design_matrix=DataFrame({"intercept": np.ones(14)}),
        mask=Nifti1Image(kept.astype(np.uint8), space.affine),
        model_intercept=False,
        n_perm=1000,
        two_sided_test=True,
        random_state=0,
    )
    expected = 10 ** -found.get_fdata()[kept]
    assert_allclose(p, expected, rtol=0, atol=4 * np.sqrt(0.5 / 1000))


def test_nilearn_seeds_do_not_depend_on_the_workers(volume):
    differences, space, counted, _ = volume
    options = {"n_permutations": 201, "random_state": 3}
    p, null_max = flip_with_nilearn(differences, space, counted, "max", **options)
    again = flip_with_nilearn(differences, space, counted, "max", **options, n_jobs=2)
    assert_array_equal(again[0], p)
    assert_array_equal(again[1], null_max)
    single, null_max = flip_with_nilearn(
        differences, space, counted, "max", n_permutations=1
    )
    assert null_max.shape == (1,)
    assert set(single) <= {0.5, 1.0}


def test_nilearn_ties_of_few_trials_are_counted(volume):
    # Thirteen subjects: all flips are listed by ours, and drawn by nilearn.
    _, space, counted, kept = volume
    differences = accuracies(13, counted.sum(), seed=1)
    graph = grid_to_graph(*kept.shape, mask=kept)
    exact, _ = flip_here(differences, graph, "max", n_permutations=2**13)
    p, _ = flip_with_nilearn(
        differences, space, counted, "max", n_permutations=2000, random_state=0
    )
    assert_allclose(p, exact, rtol=0, atol=4 * np.sqrt(0.25 / 2000))


@pytest.mark.filterwarnings("error::RuntimeWarning")
@pytest.mark.parametrize("correction", ["max", "cluster", "cluster-size", "tfce"])
def test_nilearn_takes_zeros_and_equal_differences(volume, correction):
    differences, space, counted, _ = volume
    differences[:, 7] = 0.0
    options = {"n_permutations": 100, "random_state": 0}
    p, null_max = flip_with_nilearn(differences, space, counted, correction, **options)
    assert np.isfinite(null_max).all()
    assert p[7] > 0.9
    differences[:, 8] = 0.4
    p, null_max = flip_with_nilearn(differences, space, counted, correction, **options)
    assert np.isfinite(null_max).all()
    assert p[8] < 0.05 or correction == "cluster-size"


def test_what_is_not_valid_is_refused(volume):
    differences, space, counted, _ = volume
    for flip, where in (
        (flip_here, ((44,),)),
        (flip_with_mne, ((44,),)),
        (flip_with_nilearn, (space, counted)),
    ):
        with pytest.raises(ValueError, match="Invalid value for 'correction': 'fdr'"):
            flip(differences, *where, "fdr")
        with pytest.raises(ValueError, match="Invalid value for 'alternative': 'up'"):
            flip(differences, *where, "max", alternative="up", n_permutations=9)
        with pytest.raises(ValueError, match="Invalid value for 'threshold'"):
            flip(differences, *where, "cluster", threshold=0.7, n_permutations=9)
