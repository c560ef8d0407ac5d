"""Clusters of maps, and how many positions of a set have an effect."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from mvpa_kfda import DecodingResult, TimeResult
from mvpa_kfda.results.clusters import TrueDiscoveries, labels_above
from tests import build

TIMES = np.arange(9) / 10


def course():
    scores = np.array([0.5, 0.7, 0.8, 0.5, 0.2, 0.5, 0.9, 0.5, 0.5])
    null = np.random.default_rng(0).uniform(0.4, 0.6, (99, 9))
    return build.made(TimeResult, scores, null, times=TIMES)


def test_significant_positions_in_a_row_are_a_cluster():
    result = course()
    for alternative in ("greater", "two-sided"):
        table = result.clusters("none", alpha=0.02, alternative=alternative)
        two = alternative == "two-sided"
        assert table["size"].tolist() == ([2, 1, 1] if two else [2, 1])
        assert table["from"].tolist()[:2] == [0.1, 0.6]
        assert table["to"].tolist()[:2] == [0.2, 0.6]
        assert table["peak"].tolist() == ([0.2, 0.6, 0.4] if two else [0.2, 0.6])
        rows = np.vstack([result.scores, result.null])
        z = (result.scores - rows.mean(axis=0)) / rows.std(axis=0)
        if not two:
            assert_allclose(table["mass"], [z[1:3].sum(), z[6]], rtol=1e-6)
        assert (np.sign(table["mass"]) == [1, 1, -1][: len(table)]).all()
        assert table["places"].tolist()[0] == "2 times"
        assert_allclose(
            table["share_true"], table["n_true"] / table["size"], rtol=1e-12
        )
    with pytest.raises(ValueError, match="single position, which has no clusters"):
        build.made(DecodingResult, 0.7, class_scores=np.ones((12, 2))).clusters()


def test_true_discoveries_say_at_least_how_many():
    result = course()
    table = result.clusters("none", alpha=0.02)
    for k in range(len(table)):
        found = result.true_discoveries(table.loc[k])
        assert found.n == table.loc[k, "size"]
        assert found.n_true == table.loc[k, "n_true"]
        assert (found.alpha, found.noun) == (0.05, "time point")
    three = result.true_discoveries(np.isin(np.arange(9), [1, 2, 6]))
    assert (three.n, three.n_true) == (3, 2)
    for share, sizes in {0.2: [9] * 9, 0.5: [0, 2, 2, *[0] * 6], 1: [0] * 9}.items():
        assert result.discovery_map(share).tolist() == sizes
    text = str(TrueDiscoveries(n=1200, n_true=399, noun="voxel"))
    assert text.startswith(
        "At least 399 of 1,200 voxels (33 %) have an effect (95 % conf"
    )
    assert str(TrueDiscoveries(2, 0)).startswith("Of 2 positions none is shown to have")
    assert "(50 %) has an effect (99.9 %" in str(TrueDiscoveries(2, 1, 0.001))
    with pytest.raises(ValueError, match="'where' selects no position"):
        result.true_discoveries(np.zeros(9, bool))
    with pytest.raises(ValueError, match="'alpha': 0"):
        result.true_discoveries(alpha=0)


def test_regions_are_connected_positions_above_each_height():
    heights = np.array([1.0, 3, 2, -np.inf, 3, 3])
    found = [labels.tolist() for labels in labels_above(heights, None)]
    assert found == [[1, 1, 1, 0, 2, 2], [0, 1, 1, 0, 2, 2], [0, 1, 0, 0, 2, 2]]
    many = np.random.default_rng(0).random(1000)
    assert sum(1 for _ in labels_above(many, None)) == 200
    assert_array_equal(next(labels_above(many, None)) > 0, True)
