"""p-values and corrections, compared with brute force and known cases."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from mvpa_kfda.inference.corrections import (
    CORRECTIONS,
    clusters,
    corrected_p_values,
    p_values,
)

FAMILY_WISE = (
    *("max", "max-step-down", "bonferroni", "cluster", "cluster-size", "tfce"),
)


def noise(shape=(20,), n_permutations=199, seed=0, effect=None):
    """Return observed scores and a null of the same noise; `effect` adds to a part."""
    rng = np.random.default_rng(seed)
    rows = 0.5 + 0.05 * rng.normal(size=(n_permutations + 1, *shape))
    if effect is not None:
        rows[0, effect] += 0.3
    return rows[0], rows[1:]


# ---------------------------------------------------------------------------- p-values


def test_near_ties_are_ties():
    third = 1 / 3
    null = np.array([third - 1e-14, third + 1e-14, 0.2, 0.1])
    assert p_values(third, null) == 3 / 5
    assert p_values(third + 1e-6, null) == 1 / 5
    # An observed score of zero: the spread of the null says what is rounding.
    assert p_values(0.0, np.array([-1e-17, -0.2, 0.1])) == 3 / 4
    assert p_values(1e-17, np.array([0.0, -0.2, 0.1])) == 3 / 4
    assert p_values(0.0, np.array([-1e-17, -0.2])) == 2 / 3
    assert p_values(0.0, np.zeros(4)) == 1.0
    assert p_values(-0.1, np.array([-0.1 - 1e-16, -0.2])) == 2 / 3
    # Ties do not depend on the unit of the score.
    assert p_values(3e-15, np.array([2e-15, 1e-15])) == 1 / 3
    assert p_values(3e15, np.array([3e15 - 1, 2e15])) == 2 / 3


def test_p_values_refuse():
    with pytest.raises(ValueError, match="n_permutations=1000"):
        p_values([0.5], np.empty((0, 1)))
    with pytest.raises(ValueError, match="NaN or infinite"):
        p_values([0.5, np.nan], np.ones((3, 2)))
    with pytest.raises(ValueError, match="NaN or infinite"):
        p_values([0.5, 0.5], [[0.5, -np.inf]])
    with pytest.raises(ValueError, match=r"\(P, \*observed.shape\); got null \(3,\)"):
        p_values([0.5, 0.5], np.ones(3))
    with pytest.raises(ValueError, match=r"observed \(\)"):
        p_values(0.5, 0.5)


# ------------------------------------------------------------------------- corrections


@pytest.mark.parametrize("correction", CORRECTIONS)
def test_every_correction_finds_a_strong_effect(correction):
    observed, null = noise(n_permutations=499, effect=slice(5, 9))
    p = corrected_p_values(observed, null, correction)
    assert (p[5:9] < 0.05).all()
    if correction in FAMILY_WISE:
        assert (np.delete(p, np.s_[4:10]) > 0.05).all()


@pytest.mark.parametrize("correction", CORRECTIONS)
def test_scores_that_are_all_zero_are_ties(correction):
    assert (corrected_p_values(np.zeros(3), np.zeros((4, 3)), correction) == 1).all()


def test_clusters_do_not_depend_on_unit_or_chance_level():
    observed, null = noise(effect=slice(5, 9))
    for correction in ("cluster", "cluster-size", "tfce"):
        p = corrected_p_values(observed, null, correction)
        shift, unit = np.linspace(-3, 3, 20), np.linspace(0.1, 9, 20)
        moved = corrected_p_values(
            observed * unit + shift, null * unit + shift, correction
        )
        assert_allclose(moved, p, rtol=1e-12, atol=0)


def test_observed_and_permuted_rows_are_exchangeable():
    # Each row in turn plays the observed one; the ranks must be those of one list.
    observed, null = noise((15,), 19, seed=5)
    rows = np.concatenate([observed[np.newaxis], null])
    for correction in ("max", "max-step-down", "cluster", "cluster-size", "tfce"):
        smallest = [
            corrected_p_values(
                row, np.delete(rows, i, 0), correction, threshold=0.2
            ).min()
            for i, row in enumerate(rows)
        ]
        ranks = np.arange(1, 21) / 20
        assert (np.sort(smallest) >= ranks - 1e-12).all()
        if correction in ("max", "max-step-down"):
            assert_allclose(np.sort(smallest), ranks, rtol=1e-12, atol=0)


def test_positions_without_spread_are_in_no_cluster():
    observed, null = noise((6,), 19)
    observed[2], null[:, 2] = 1 / 3, 1 / 3
    null[4, 2] += 1e-16
    for correction in ("cluster", "cluster-size", "tfce"):
        assert corrected_p_values(observed, null, correction)[2] == 1.0
    found = clusters(observed, null, threshold=0.5)
    assert found
    assert not any(cluster.mask[2] for cluster in found)


def test_no_cluster_at_all():
    null = np.random.default_rng(0).normal(size=(30, 8))
    observed = null.min(axis=0) - 1
    assert clusters(observed, null) == []
    for correction in ("cluster", "cluster-size", "tfce"):
        assert (corrected_p_values(observed, null, correction) == 1).all()


def test_corrections_refuse():
    observed, null = noise()
    with pytest.raises(ValueError, match=r"'correction': 'holm'. Allowed: 'none', 'ma"):
        corrected_p_values(observed, null, "holm")
    with pytest.raises(ValueError, match="There are no permutations"):
        corrected_p_values(observed, null[:0], "max")
    for threshold in (0, -1, 0.6, np.nan):
        with pytest.raises(ValueError, match="Invalid value for 'threshold'"):
            corrected_p_values(observed, null, "cluster", threshold=threshold)
        with pytest.raises(ValueError, match="Invalid value for 'threshold'"):
            clusters(observed, null, threshold=threshold)
