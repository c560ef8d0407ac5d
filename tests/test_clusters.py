"""Clusters and TFCE equal those of MNE, on lattices and on graphs."""

import mne
import numpy as np
import pytest
from mne.stats.cluster_level import _find_clusters
from mne.utils import check_version
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse

from mvpa_kfda.inference import clusters as _clusters
from mvpa_kfda.inference.clusters import find_clusters, tfce


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
    for batch in (_clusters._BATCH, 300, 1):  # maps of a graph go in batches
        monkeypatch.setattr(_clusters, "_BATCH", batch)
        labels, masses = find_clusters(maps, threshold, adjacency)
        assert labels.shape == maps.shape
        assert sorted(np.unique(labels[labels > 0])) == list(range(1, len(masses) + 1))
        assert len(masses) == sum(map(len, expected))
        for row, sets in zip(labels, expected, strict=True):
            for members, mass in sets.items():
                number = row.flat[min(members)]
                assert members == set(np.flatnonzero(row == number).tolist())
                assert masses[number - 1] == pytest.approx(mass, rel=1e-10, abs=1e-12)


def tfce_from_mne_clusters(values, adjacency, start, step, e_power, h_power):
    """Sum extent^E height^H step over MNE's clusters, height by height."""
    scores = np.zeros(values.size)
    height, below = start, 0.0
    for height in np.arange(start, values.max(), step):
        for members in mne_clusters(values, height, adjacency):
            gain = len(members) ** e_power * height**h_power * (height - below)
            scores[list(members)] += gain
        below = height
    return scores.reshape(values.shape)


@geometries
@pytest.mark.parametrize(
    "options",
    [{}, {"start": 0.3, "step": 0.1}, {"e_power": 1.0, "h_power": 1.5, "step": 0.5}],
)
def test_tfce_equals_mne(shape, adjacency, options):
    maps = smooth_maps(8, shape, seed=1)
    maps[3] = -9
    scores = tfce(maps, adjacency, **options)
    filled = {"start": 0.0, "step": 0.2, "e_power": 0.5, "h_power": 2.0, **options}
    assert scores.shape == maps.shape
    assert (scores[3] == 0).all()
    assert (scores[0] > 0).any()
    graph = None if adjacency is None else sparse.coo_array(adjacency)
    for row, values in zip(scores, maps, strict=True):
        expected = tfce_from_mne_clusters(values, adjacency, **filled)
        assert_allclose(row, expected, rtol=1e-10, atol=1e-12)
        # Before 1.13, MNE took the step for the height and one for a 1-D extent.
        if check_version("mne", "1.13") and values.max() > filled["start"]:
            flat = values if graph is None else values.ravel()
            direct = _find_clusters(flat, filled, tail=1, adjacency=graph)[1]
            assert_allclose(row.ravel(), direct.ravel(), rtol=1e-10, atol=1e-12)


def test_tfce_by_hand():
    # Heights 0, 1, 2 (0 adds nothing): 1^2 * sqrt(3) and 2^2 * sqrt(1).
    scores = tfce(np.array([[1.5, 2.5, 1.5, 0.5, -3.0]]), step=1.0)
    side, peak = np.sqrt(3), np.sqrt(3) + 4
    assert_allclose(scores, [[side, peak, side, 0, 0]], rtol=1e-12, atol=0)
    # What is as high as a height is not above it.
    scores = tfce(np.array([[2.0, 3.0, 2.0, 1.0, 0.0]]), step=1.0)
    assert_allclose(scores, [[side, peak, side, 0, 0]], rtol=1e-12, atol=0)


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
    with pytest.raises(ValueError, match="Invalid value for 'step': 0"):
        tfce(maps, step=0)
    with pytest.raises(
        ValueError, match=r"'start': -1.*above zero. Zero is allowed too"
    ):
        tfce(maps, start=-1)


# ------------------------------------------------------- their p-values
