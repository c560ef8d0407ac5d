"""Sign flips of a group give the p-values of MNE-Python and nilearn.

Where a library's flips are all that there are, its p-values are ours. Elsewhere its
statistic of each of our flips is, or its random flips are close.
"""

import itertools
import warnings
from dataclasses import replace
from functools import cache

import mne
import numpy as np
import pytest
from mne.stats import permutation_cluster_1samp_test
from nibabel import Nifti1Image
from nilearn.maskers import NiftiMasker
from nilearn.mass_univariate import permuted_ols
from numpy.testing import assert_allclose
from scipy import stats
from scipy.sparse import coo_array
from sklearn.feature_extraction.image import grid_to_graph

from mvpa_kfda import decode_arrays, generalize_arrays, group_inference, searchlight

ALTERNATIVES = ("greater", "less", "two-sided")
#: Before version 1.13.2 MNE-Python's TFCE did not weigh the heights.
OF_MNE = ("cluster", "tfce")[: 1 + mne.utils.check_version("mne", "1.13.2")]
LEVEL, EXACT = 0.1, {"rtol": 1e-12, "atol": 0}
#: MNE-Python's TFCE is a sum over heights, which turns some ranks of flips around.
STEP, OF_RANKS = 0.1, {"rtol": 0, "atol": 0.1}

Y = np.tile(["face", "house"], 4)
AFFINE = np.diag([3.0, 3.0, 3.0, 1.0])
MASK = np.ones((4, 4, 3), dtype=bool)
MASK[2, 2, 1] = MASK[0, 3, 0] = False
MASK_IMG = Nifti1Image(MASK.astype(np.uint8), AFFINE)


def near(n_permutations):
    """Four standard errors of the difference of two proportions."""
    return {"rtol": 0, "atol": 4 * np.sqrt(0.5 / n_permutations)}


def decode_line():
    return decode_arrays(np.random.default_rng(0).normal(size=(8, 2, 30)), Y, cv=2)


def decode_lattice():
    return generalize_arrays(np.random.default_rng(0).normal(size=(8, 2, 6)), Y, cv=2)


def decode_voxels():
    bold = Nifti1Image(np.random.default_rng(0).normal(size=(*MASK.shape, 8)), AFFINE)
    options = {"mask_img": MASK_IMG, "radius": 3.5, "cv": 2, "verbose": False}
    return searchlight(bold, Y, **options)


#: How to make a result of a kind of map, and which positions MNE-Python is to take for
#: neighbours; None is the lattice.
MAPS = {
    "line": (decode_line, None),
    "lattice": (decode_lattice, None),
    "voxels": (decode_voxels, coo_array(grid_to_graph(*MASK.shape, mask=MASK))),
}
over_maps = pytest.mark.parametrize("kind", MAPS)
over_sides = pytest.mark.parametrize("alternative", ALTERNATIVES)


def group_of(kind, n_subjects, mean=0.02, seed=4):
    """Return results of subjects, and how far they are above chance, (S, map...)."""
    result = MAPS[kind][0]()
    shape = (n_subjects, *result.scores.shape)
    scores = 0.5 + np.random.default_rng(seed).normal(mean, 0.1, shape).clip(-0.5, 0.5)
    return [replace(result, metrics={"accuracy": s}) for s in scores], scores - 0.5


def flip(differences):
    """Yield the differences (S, map...) under all sign flips, as they are first."""
    for signs in itertools.product([1, -1], repeat=len(differences)):
        yield np.reshape(signs, (-1, *[1] * (differences.ndim - 1))) * differences


def tolerance(correction):
    """Return how close p-values are to those of MNE-Python."""
    return OF_RANKS if correction == "tfce" else EXACT


def share_as_large(maxima, values):
    """Return p-values of values (V,) against all maxima (P + 1,), ties but rounding."""
    return np.mean(maxima >= values[..., np.newaxis] * (1 - 1e-9), axis=-1)


# ----------------------------------------------------------------------- MNE-Python


def by_mne(differences, kind, correction, alternative, **options):
    """Run MNE-Python; return its maps of values to compare, and all that it returns.

    The values are masses of clusters or TFCE scores, 0 where there is none.
    """
    two_sided = alternative == "two-sided"
    height = stats.t.isf(LEVEL / (2 if two_sided else 1), len(differences) - 1)
    returned = permutation_cluster_1samp_test(
        -differences if alternative == "less" else differences,
        threshold={"start": 0, "step": STEP} if correction == "tfce" else height,
        tail=0 if two_sided else 1,
        adjacency=MAPS[kind][1],
        out_type="indices",
        verbose=False,
        **options,
    )
    statistic, clusters = returned[:2]
    values = np.zeros(statistic.shape)
    for cluster in clusters:
        values[cluster] = np.abs(statistic[cluster].sum())
    return values, returned


@pytest.mark.some(2)
@over_maps
@pytest.mark.parametrize("correction", OF_MNE)
def test_two_sided_p_values_are_those_of_mne(kind, correction):
    results, differences = group_of(kind, 7)
    group = group_inference(
        results, "sign-flip", correction, alternative="two-sided", threshold=LEVEL
    )
    _, (_, clusters, cluster_p, _) = by_mne(
        differences, kind, correction, "two-sided", n_permutations=2**7
    )
    expected = np.ones(differences[0].shape)
    for cluster, p in zip(clusters, cluster_p, strict=True):
        expected[cluster] = p
    assert len(np.unique(expected)) > 3
    assert_allclose(group.pvalues(), expected, **tolerance(correction))


@pytest.mark.some(2)
@pytest.mark.filterwarnings("ignore:No clusters found:RuntimeWarning")
@over_maps
@pytest.mark.parametrize("correction", OF_MNE)
@pytest.mark.parametrize("alternative", ["greater", "less"])
def test_one_sided_p_values_are_those_of_mne_on_every_flip(
    kind, correction, alternative
):
    # For one side MNE-Python itself lists the data twice and the flip of all subjects
    # not at all.
    mean = -0.02 if alternative == "less" else 0.02
    results, differences = group_of(kind, 5, mean)
    options = {"alternative": alternative, "threshold": LEVEL}
    group = group_inference(results, "sign-flip", correction, **options)
    maps = [
        by_mne(flipped, kind, correction, alternative, n_permutations=1)[0]
        for flipped in flip(differences)
    ]
    maxima = np.array([values.max() for values in maps])
    expected = share_as_large(maxima, maps[0])
    assert len(np.unique(expected)) > 3
    assert_allclose(group.pvalues(), expected, **tolerance(correction))


@pytest.mark.some(2)
@pytest.mark.parametrize("alternative", ["greater", "less"])
@pytest.mark.parametrize("correction", OF_MNE)
def test_flips_that_mne_draws_give_close_p_values(correction, alternative):
    mean = -0.03 if alternative == "less" else 0.03
    results, differences = group_of("lattice", 22, mean, seed=1)
    options = {"n_permutations": 500, "alternative": alternative, "threshold": LEVEL}
    group = group_inference(results, "sign-flip", correction, random_state=0, **options)
    values, (*_, maxima) = by_mne(
        differences, "lattice", correction, alternative, n_permutations=501, seed=0
    )
    expected = share_as_large(np.abs(maxima), values)
    assert expected.min() < 0.05
    assert expected.max() > 0.3
    assert_allclose(group.pvalues(), expected, **near(500))


# -------------------------------------------------------------------------- nilearn


def by_nilearn(differences, alternative, **options):
    """Run nilearn; return its maps (V,) and maxima (P,) by name."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of a single flip, and of whole numbers
        return permuted_ols(
            np.ones((len(differences), 1)),
            -differences if alternative == "less" else differences,
            model_intercept=False,
            two_sided_test=alternative == "two-sided",
            masker=NiftiMasker(MASK_IMG, standardize=None, reports=False).fit(),
            output_type="dict",
            **options,
        )


@cache
def nilearn_on_every_flip(alternative):
    """Return subjects, and t, masses of t and sizes of clusters of each flip."""
    results, differences = group_of(
        "voxels", 6, -0.02 if alternative == "less" else 0.02
    )
    two_sided = alternative == "two-sided"
    height = stats.t.isf(LEVEL / (2 if two_sided else 1), 5)
    maps = {"max": [], "cluster": [], "cluster-size": []}
    for flipped in flip(differences):
        found = by_nilearn(flipped, alternative, n_perm=1, threshold=LEVEL)
        t, mass, size = (np.ravel(found[name]) for name in ("t", "mass", "size"))
        maps["max"].append(np.abs(t) if two_sided else t)
        # nilearn adds up what is above the threshold, we add up t.
        maps["cluster"].append(np.abs(mass) + height * np.abs(size))
        maps["cluster-size"].append(np.abs(size))
    return results, maps


@pytest.mark.some(5)
@over_sides
@pytest.mark.parametrize("correction", ["max", "cluster", "cluster-size"])
def test_p_values_are_those_of_nilearn_on_every_flip(correction, alternative):
    results, maps = nilearn_on_every_flip(alternative)
    maps = np.array(maps[correction])
    group = group_inference(
        results, "sign-flip", correction, alternative=alternative, threshold=LEVEL
    )
    shift = maps.min()  # t may be negative, and ties are a share of what is compared
    expected = share_as_large((maps - shift).max(axis=1), maps[0] - shift)
    assert len(np.unique(expected)) > 2
    assert_allclose(group.pvalues(), expected, **EXACT)
