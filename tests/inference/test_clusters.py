"""Clusters and TFCE equal those of MNE, on lattices and on graphs."""

import itertools

import mne
import numpy as np
import pytest
from mne.stats.cluster_level import _find_clusters
from mne.utils import check_version
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse

from mvpa_kfda.inference.clusters import find_clusters, tfce
from mvpa_kfda.utils import memory


def smooth_maps(m, shape, seed=0):
    """Return maps whose neighbours resemble each other, so that clusters form."""
    maps = np.random.default_rng(seed).normal(size=(m, *shape))
    for axis in range(1, maps.ndim):
        maps = maps + np.roll(maps, 1, axis)
    return maps


def sensors():
    montage = mne.channels.make_standard_montage("biosemi32")
    info = mne.create_info(montage.ch_names, 100.0, "eeg").set_montage(montage)
    return mne.channels.find_ch_adjacency(info, "eeg")[0]


def random_graph(n=30, density=0.05):
    graph = np.random.default_rng(1).random((n, n)) < density
    return sparse.csr_array(graph | graph.T)


GEOMETRIES = {
    "times": ((60,), None),
    "lattice": ((8, 11), None),
    "volume": ((4, 5, 6), None),
    "sensors": ((32,), sensors()),
    "graph": ((30,), random_graph()),
    "sensors x times": ((32, 5), mne.stats.combine_adjacency(sensors(), 5)),
}
geometries = pytest.mark.parametrize(
    ("shape", "adjacency"), GEOMETRIES.values(), ids=GEOMETRIES
)


def mne_clusters(values, threshold, adjacency):
    """Return MNE's clusters of one map as flat index sets, and their masses."""
    if adjacency is not None:
        values = values.ravel()
        adjacency = sparse.coo_array(adjacency)
    found, masses = _find_clusters(values, threshold, tail=1, adjacency=adjacency)
    positions = np.arange(values.size).reshape(values.shape)
    sets = []
    for cluster in found:
        flat = getattr(cluster, "dtype", None) is not None
        where = positions.ravel()[cluster] if flat else positions[cluster]
        sets.append(frozenset(where.ravel().tolist()))
    return dict(zip(sets, masses, strict=True))


@geometries
@pytest.mark.parametrize("threshold", [-0.5, 0.4, 1.5])
def test_find_clusters_equals_mne(shape, adjacency, threshold, monkeypatch):
    maps = smooth_maps(25, shape)
    maps[3] = -9
    expected = [mne_clusters(row, threshold, adjacency) for row in maps]
    for batch in (memory._BATCH, 300, 1):  # maps of a graph go in batches
        monkeypatch.setattr(memory, "_BATCH", batch)
        labels, masses = find_clusters(maps, threshold, adjacency)
        assert labels.shape == maps.shape
        assert sorted(np.unique(labels[labels > 0])) == list(range(1, len(masses) + 1))
        assert len(masses) == sum(map(len, expected))
        for row, sets in zip(labels, expected, strict=True):
            for members, mass in sets.items():
                number = row.flat[min(members)]
                assert members == set(np.flatnonzero(row == number).tolist())
                assert masses[number - 1] == pytest.approx(mass, rel=1e-10, abs=1e-12)


def integral(values, adjacency, e_power, h_power):
    """Integrate extent^E height^H between all heights that there are, one by one."""
    scores = np.zeros(values.size)
    heights = np.unique(np.append(values[values > 0], 0.0))
    for low, high in itertools.pairwise(heights):
        slab = (high ** (h_power + 1) - low ** (h_power + 1)) / (h_power + 1)
        for members in mne_clusters(values, low, adjacency):
            scores[list(members)] += len(members) ** e_power * slab
    return scores.reshape(values.shape)


POWERS = [{}, {"e_power": 1.0, "h_power": 1.5}, {"e_power": 0.0, "h_power": 0.0}]


@pytest.mark.some(20)
@geometries
@pytest.mark.parametrize("options", POWERS)
@pytest.mark.parametrize("decimals", [0, 1, None])
def test_tfce_is_the_integral_over_all_heights(shape, adjacency, options, decimals):
    maps = smooth_maps(5, shape, seed=1)
    maps = maps if decimals is None else maps.round(decimals)  # ties
    maps[3] = -9
    scores = tfce(maps, adjacency, **options)
    powers = {"e_power": 0.5, "h_power": 2.0, **options}
    assert scores.shape == maps.shape
    assert (scores[3] == 0).all()
    assert (scores[0] > 0).any()
    for row, values in zip(scores, maps, strict=True):
        expected = integral(values, adjacency, **powers)
        assert_allclose(row, expected, rtol=1e-12, atol=1e-12)


@pytest.mark.skipif(
    not check_version("mne", "1.13"),
    reason="before, MNE took the step for the height and one for a 1-D extent",
)
@geometries
def test_tfce_is_the_limit_of_mne(shape, adjacency):
    values = smooth_maps(1, shape, seed=2)[0]
    exact = tfce(values[np.newaxis], adjacency)[0]
    graph = None if adjacency is None else sparse.coo_array(adjacency)
    flat = values if graph is None else values.ravel()
    largest = []
    for step in (0.2, 0.01):
        how = {"start": 0, "step": step, "e_power": 0.5, "h_power": 2.0}
        summed = _find_clusters(flat, how, tail=1, adjacency=graph)[1]
        largest.append(np.abs(summed.reshape(shape) - exact).max() / exact.max())
    # The error of a sum of slabs is in proportion to their height.
    assert largest[1] < 0.01
    assert largest[1] < largest[0] / 5


def test_tfce_by_hand():
    # Three positions up to 1.5, of which one goes on to 2.5; four of them up to 0.5.
    scores = tfce(np.array([[1.5, 2.5, 1.5, 0.5, -3.0]]))
    low, middle, high = 0.5**3 / 3, 1.5**3 / 3, 2.5**3 / 3
    foot = 2 * low
    side = foot + np.sqrt(3) * (middle - low)
    peak = side + high - middle
    assert_allclose(scores, [[side, peak, side, foot, 0]], rtol=1e-12, atol=0)


@pytest.mark.parametrize("adjacency", [None, random_graph(60)])
def test_tfce_of_a_map_does_not_depend_on_the_others(adjacency, monkeypatch):
    maps = smooth_maps(20, (60,), seed=3).round(1)
    expected = [tfce(row[np.newaxis], adjacency)[0] for row in maps]
    for batch in (memory._BATCH, 130, 1):
        monkeypatch.setattr(memory, "_BATCH", batch)
        assert_array_equal(tfce(maps, adjacency), expected)


def test_clusters_that_grow_in_a_row_and_clusters_that_merge_late():
    """Branches of all lengths: a ramp, a comb, and what merges in many rounds."""
    ramp = np.linspace(0.01, 3, 300)
    comb = np.tile([3.0, 0.1, 2.0, 0.2], 75) + np.linspace(0, 0.05, 300)
    falling = np.where(np.arange(300) % 2, np.linspace(2, 0.5, 300), 2.5)
    maps = np.stack([ramp, comb, falling, falling[::-1]])
    for row, values in zip(tfce(maps), maps, strict=True):
        assert_allclose(row, integral(values, None, 0.5, 2.0), rtol=1e-12, atol=0)


def test_a_lattice_equals_its_graph():
    maps = smooth_maps(6, (4, 7))
    neighbours = abs(np.subtract.outer(np.arange(7), np.arange(7))) == 1
    rows = abs(np.subtract.outer(np.arange(4), np.arange(4))) == 1
    graph = np.kron(np.eye(4), neighbours) + np.kron(rows, np.eye(7)) + np.eye(28)
    labels, masses = find_clusters(maps, 0.2)
    same_labels, same_masses = find_clusters(maps, 0.2, graph)
    assert_array_equal(labels > 0, same_labels > 0)
    assert_allclose(np.sort(masses), np.sort(same_masses), rtol=1e-12, atol=0)
    assert_allclose(tfce(maps, graph), tfce(maps), rtol=1e-12, atol=0)


@pytest.mark.parametrize("adjacency", [None, random_graph(9, 0.2)])
def test_nothing_above_the_threshold(adjacency):
    maps = np.zeros((4, 9))
    labels, masses = find_clusters(maps, 0.0, adjacency)
    assert_array_equal(labels, np.zeros((4, 9)))
    assert masses.shape == (0,)
    assert_array_equal(tfce(maps, adjacency), np.zeros((4, 9)))
    assert_array_equal(tfce(maps - 1, adjacency), np.zeros((4, 9)))


@pytest.mark.parametrize("function", [lambda *a: find_clusters(a[0], 1, *a[1:]), tfce])
def test_maps_and_adjacency_are_checked(function):
    maps = smooth_maps(3, (6,))
    broken = maps.copy()
    broken[1, 2] = np.nan
    with pytest.raises(ValueError, match="maps must be finite"):
        function(broken)
    with pytest.raises(ValueError, match=r"shape \(m, \*positions\).*got \(6,\)"):
        function(maps[0])
    with pytest.raises(ValueError, match=r"\(6, 6\), one row .* got \(5, 5\)"):
        function(maps, np.eye(5))
    one_way = np.eye(6)
    one_way[0, 1] = 1
    with pytest.raises(ValueError, match="adjacency must be symmetric"):
        function(maps, one_way)
    # Only the pattern counts, and a stored zero is no neighbour.
    stored = sparse.coo_array(([0.0, 2.0, 7.0], ([0, 3, 4], [1, 4, 3])), (6, 6))
    plain = np.zeros((6, 6), bool)
    plain[3, 4] = plain[4, 3] = True
    assert_array_equal(function(maps, stored)[0], function(maps, plain)[0])


def test_options_are_checked():
    maps = smooth_maps(3, (6,))
    with pytest.raises(ValueError, match=r"'threshold': nan\. Allowed: a finite"):
        find_clusters(maps, np.nan)
    with pytest.raises(ValueError, match="Invalid value for 'e_power': nan"):
        tfce(maps, e_power=np.nan)
    with pytest.raises(
        ValueError, match=r"'h_power': -1.*above zero. Zero is allowed too"
    ):
        tfce(maps, h_power=-1)


# ------------------------------------------------------- their p-values
