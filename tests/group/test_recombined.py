"""Cluster sizes with a threshold per position, against plain loops."""

import itertools

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from scipy.stats import false_discovery_control

from mvpa_kfda.group.second_level import (
    RecombinedNull,
    _heights,
    cluster_size_p,
    draw_recombinations,
)
from mvpa_kfda.inference.corrections import correct
from mvpa_kfda.inference.null import Null
from tests import islands


def group(n_positions, n_permutations=199, seed=0, effect=(), dtype=float, trials=None):
    """Return group means of five subjects with ten maps each; an effect at positions.

    With `trials`, scores are accuracies of that number of trials, which often tie.
    """
    rng = np.random.default_rng(seed)
    maps = rng.normal(0.5, 0.05, (5, 10, n_positions))
    if trials is not None:
        maps = rng.binomial(trials, 0.5, (5, 10, n_positions)) / trials
    maps[:, 0, list(effect)] += 0.3
    draws = draw_recombinations([10] * 5, n_permutations, rng)
    return RecombinedNull(maps[:, 0], maps[:, 1:].astype(dtype), draws, "mean")


def plain_clusters(above, neighbours):
    """Walk through the neighbours of each position above: a list of sets."""
    left, found = {v for v in range(len(above)) if above[v]}, []
    while left:
        cluster, border = set(), {min(left)}
        while border:
            cluster |= border
            left -= border
            border = {w for v in border for w in neighbours[v] if w in left}
        found.append(cluster)
    return found


def plain_stelzer(null, threshold, neighbours):
    """Follow the procedure map by map and position by position."""
    maps = np.concatenate([null.observed[np.newaxis], null[:]]).astype(float)
    n_maps, n_positions = maps.shape
    tie = (5e-7 if null.dtype == np.float32 else 1e-10) * np.abs(maps).max()
    above = np.zeros(maps.shape, dtype=bool)
    for i, v in np.ndindex(maps.shape):
        # A map passes if few enough of them are as high, ties included.
        as_high = sum(other >= maps[i, v] - tie for other in maps[:, v])
        above[i, v] = as_high / n_maps <= threshold + 1e-12
    clusters = [plain_clusters(row, neighbours) for row in above]
    sizes = [len(cluster) for row in clusters for cluster in row]
    p = [
        sum(size >= len(cluster) for size in sizes) / len(sizes)
        for cluster in clusters[0]
    ]
    p_values = np.ones(n_positions)
    for cluster, adjusted in zip(
        clusters[0], false_discovery_control(p) if p else [], strict=True
    ):
        p_values[list(cluster)] = adjusted
    return p_values, [len(cluster) for cluster in clusters[0]]


def line(n_positions):
    return [[v - 1, v + 1] for v in range(n_positions)]


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("trials", [None, 12])
@pytest.mark.parametrize("threshold", [0.01, 0.05])
def test_equals_a_loop_on_a_line(threshold, trials, dtype):
    null = group(12, effect=(2, 3, 4, 9), trials=trials, dtype=dtype)
    found = cluster_size_p([null], threshold)
    p_values, sizes = plain_stelzer(null, threshold, line(12))
    assert max(sizes) >= 3
    assert_allclose(found, p_values, rtol=1e-12, atol=0)


def grid_neighbours(shape):
    """Return the neighbours of the positions of a grid, one step along an axis."""
    places = list(itertools.product(*map(range, shape)))
    return [
        [
            w
            for w, other in enumerate(places)
            if sum(abs(a - b) for a, b in zip(place, other, strict=True)) == 1
        ]
        for place in places
    ]


def test_grid_and_graph_agree_with_the_loop():
    shape = (4, 5)
    null = group(20, effect=(1, 6, 7, 18), seed=3)
    neighbours = grid_neighbours(shape)
    pairs = [(v, w) for v, near in enumerate(neighbours) for w in near]
    marks = np.ones(len(pairs), dtype=bool)
    adjacency = sparse.csr_array((marks, tuple(zip(*pairs, strict=True))), (20, 20))
    p_values, _ = plain_stelzer(null, 0.05, neighbours)
    lattice = cluster_size_p([null], 0.05, shape=shape)
    graph = cluster_size_p([null], 0.05, adjacency)
    for found in (lattice, graph):
        assert_allclose(found, p_values, rtol=1e-12, atol=0)
    assert (lattice != cluster_size_p([null], 0.05)).any()


def test_no_position_passes_in_more_maps_than_allowed():
    # Eleven distinct scores among 1000 maps: many ties at every height.
    null = group(6, 999, trials=2)
    assert (null[:] > _heights(null, 0.001)).sum(axis=0).max() <= 1


def test_nothing_observed():
    null = group(8, seed=1)
    null.observed[:] = 0
    assert_array_equal(cluster_size_p([null], 0.01), np.ones(8))


def test_a_single_position_is_a_line():
    null = group(1, effect=(0,))
    found = cluster_size_p([null], 0.05, shape=())
    assert_array_equal(found, cluster_size_p([null], 0.05))


def test_batches_do_not_matter(monkeypatch):
    null = group(12, effect=(2, 3, 4))
    whole = cluster_size_p([null], 0.02)
    monkeypatch.setattr("mvpa_kfda.utils.memory._BATCH", 14)
    parts = cluster_size_p([null], 0.02)
    assert_array_equal(parts, whole)


def test_too_few_maps_for_the_threshold():
    with pytest.raises(ValueError, match=r"0.001 with 199 .*n_permutations=999 or mor"):
        cluster_size_p([group(5)], 0.001)
    cluster_size_p([group(5, 999)], 0.001)  # one map of a thousand may pass


def test_share_of_maps_is_not_cut_by_rounding():
    null = group(12, 99)
    assert 0.29 * 100 < 29
    found, same = (cluster_size_p([null], level) for level in (0.29, 0.2901))
    assert_array_equal(found, same)


def test_threshold_is_checked():
    with pytest.raises(ValueError, match=r"'threshold': 0\.7. Allowed: a p-level"):
        cluster_size_p([group(5)], 0.7)


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_scores_must_be_finite(bad):
    null = group(5)
    null.observed[2] = bad
    with pytest.raises(ValueError, match="Scores must be finite"):
        cluster_size_p([null], 0.05)


# --------------------------------------------------------------- minima of the scores


def minima(kind, dtype=float, n_draws=1200):
    """Return scores (5, 7), nulls (10, 7) and draws of five subjects, by kind."""
    rng = np.random.default_rng(3)
    shape, trials = (5, 11, 7), np.array([40, 40, 41, 60, 400])[:, None, None]
    if kind == "many levels":
        maps = rng.normal(0.5, 0.05, shape)
    else:
        maps = rng.binomial(trials, 0.5, shape) / trials
    maps[:, 0, 2] += 0.2
    maps -= 0.7  # so that sizes are those of low scores
    if kind == "not finite":
        maps[1, 4, 3] = np.nan
    nulls = [each.astype(dtype) for each in maps[:, 1:]]
    return maps[:, 0], nulls, draw_recombinations([11] * 5, n_draws, 0)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("kind", ["few", "many levels"])
def test_minima_are_those_of_scores(kind, dtype, monkeypatch):
    given = minima(kind, dtype)
    null = RecombinedNull(*given, "min")
    scores, nulls, draws = given
    first = [
        np.vstack([o.astype(dtype), n]) for o, n in zip(scores, nulls, strict=True)
    ]
    expected = np.min([m[d] for m, d in zip(first, draws.T, strict=True)], axis=0)
    assert null.dtype == null[:].dtype == dtype
    assert_array_equal(null[:], expected)
    assert_array_equal(null[50:60, 2:4], expected[50:60, 2:4])
    lazy, whole = Null(null.observed, null), Null(null.observed, expected)
    reached = (expected >= null.observed.astype(dtype)).sum(axis=0)
    assert len(np.unique(reached)) > 5
    assert reached.max() > 255
    assert_array_equal(lazy.exceedances, reached)
    assert_array_equal(whole.exceedances, reached)
    assert_array_equal(lazy.maximum, expected.max(axis=1))
    low = Null(null.observed, null, alternative="less")
    assert_array_equal(low.maximum, -expected.min(axis=1))
    size = np.abs(np.vstack([null.observed, expected])).max(axis=0)
    assert_array_equal(whole.size, size)
    with monkeypatch.context() as patch:
        patch.setattr("mvpa_kfda.utils.memory._BATCH", 14)
        assert_array_equal(Null(null.observed, null).size, size)
    for correction in ("max-step-down", "cluster"):
        assert_array_equal(correct(lazy, correction), correct(whole, correction))
    two = {"alternative": "two-sided"}
    lazy, whole = (Null(null.observed, each, **two) for each in (null, expected))
    assert_array_equal(lazy.exceedances, whole.exceedances)


def test_minima_must_be_finite():
    null = RecombinedNull(*minima("not finite"), "min")
    with pytest.raises(ValueError, match="must be finite"):
        Null(null.observed, null)


# ----------------------------------------------------------- clusters of two tests


def plain_fdr(tests, heights, masks, shape):
    """Return p-values of islands by size and false discovery rate, by plain loops."""
    near = islands.lattice(shape)

    def sets(which):
        return islands.components(which, near)

    def above(maps, height, mask):
        return {c for c in np.ndindex(shape) if maps[c] > height[c] or c in mask}

    found, pools = [], []
    for rows, height, mask in zip(tests, heights, masks, strict=True):
        sizes = [len(set(s) - mask) for m in rows for s in sets(above(m, height, mask))]
        pools.append([size for size in sizes if size])
    triples = [*zip(tests, heights, masks, strict=True)]
    common = set.intersection(*(above(rows[0], h, mask) for rows, h, mask in triples))
    for members in sets(common):
        p = []
        for pool, mask in zip(pools, masks, strict=True):
            if size := len(set(members) - mask):
                p.append(np.mean(np.array(pool) >= size))
        found.append((members, max(p)))
    p = np.ones(shape)
    adjusted = false_discovery_control([each for _, each in found]) if found else []
    for (members, _), value in zip(found, adjusted, strict=True):
        for cell in members:
            p[cell] = value
    return p


@pytest.mark.parametrize("exempt", [False, True])
def test_clusters_of_two_tests_are_those_of_plain_loops(exempt):
    shape, n, found = (5, 6), 40, set()
    mask = np.zeros(shape, bool)
    np.fill_diagonal(mask, exempt)
    cells = set(), set(map(tuple, np.argwhere(mask).tolist()))
    for seed in range(6):
        rng, tests = np.random.default_rng(seed), []
        effect = 2.0 * rng.normal(size=shape)
        effect = effect + np.roll(effect, 1, 0) + np.roll(effect, 1, 1)
        for _ in range(2):
            rows = rng.normal(size=(n, *shape))
            rows = rows + np.roll(rows, 1, 1) + np.roll(rows, 1, 2)
            rows[0] += effect
            tests.append(rows)
        heights = [np.sort(rows, axis=0)[n - 1 - 12] for rows in tests]
        expected = plain_fdr(tests, heights, cells, shape)
        nulls = [Rows(rows.reshape(n, -1)) for rows in tests]
        masks = None, mask.ravel()
        p = cluster_size_p(nulls, 0.3, shape=shape, exempt=masks)
        assert_allclose(p.reshape(shape), expected, rtol=1e-12, atol=0)
        found |= set(p)
    assert len(found) > 4


class Rows:
    """Group maps as a null of them is read, the observed one first."""

    dtype = np.dtype(np.float64)

    def __init__(self, rows):
        self.observed, self._null = rows[0], rows[1:]
        self.shape = self._null.shape

    def __len__(self):
        return len(self._null)

    def __getitem__(self, key):
        return self._null[key]
