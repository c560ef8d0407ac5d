"""Clusters, enhanced scores and their tables are those of MNE and of plain loops."""

import itertools

import mne
import numpy as np
import pytest
from mne.stats.cluster_level import _find_clusters
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse, stats

from mvpa_kfda import compare, group_inference, searchlight
from mvpa_kfda.inference.clusters import find_clusters, tfce
from mvpa_kfda.results.epochs import (
    GeneralizationResult,
    SensorTimeResult,
    TimeFrequencyResult,
)
from mvpa_kfda.utils import memory
from tests import build
from tests.build import FREQS, SENSORS, TIMES, clustered, clustered_maps, connected_sets

pytestmark = pytest.mark.filterwarnings("ignore:With .* the smallest:RuntimeWarning")

# ----------------------------------------------------------- clusters and enhanced maps


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
    maps = build.smooth_maps(25, shape)
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


def integral(values, adjacency, e_power=0.5, h_power=2.0):
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
def test_tfce_is_the_integral_over_all_heights(
    shape, adjacency, options, decimals, monkeypatch
):
    maps = build.smooth_maps(5, shape, seed=1)
    maps = maps if decimals is None else maps.round(decimals)  # ties
    maps[3] = -9
    scores = tfce(maps, adjacency, **options)
    assert scores.shape == maps.shape
    assert (scores[3] == 0).all()
    assert (scores[0] > 0).any()
    for row, values in zip(scores, maps, strict=True):
        expected = integral(values, adjacency, **options)
        assert_allclose(row, expected, rtol=1e-12, atol=1e-12)
    for batch in (130, 1):  # a map does not depend on the others
        monkeypatch.setattr(memory, "_BATCH", batch)
        assert_array_equal(tfce(maps, adjacency, **options), scores)


def test_clusters_that_grow_in_a_row_and_clusters_that_merge_late():
    """Branches of all lengths: a ramp, a comb, and what merges in many rounds."""
    ramp = np.linspace(0.01, 3, 300)
    comb = np.tile([3.0, 0.1, 2.0, 0.2], 75) + np.linspace(0, 0.05, 300)
    falling = np.where(np.arange(300) % 2, np.linspace(2, 0.5, 300), 2.5)
    maps = np.stack([ramp, comb, falling, falling[::-1]])
    for row, values in zip(tfce(maps), maps, strict=True):
        assert_allclose(row, integral(values, None), rtol=1e-12, atol=0)


@pytest.mark.parametrize("adjacency", [None, random_graph(9, 0.2)])
def test_nothing_above_the_threshold(adjacency):
    maps = np.zeros((4, 9))
    labels, masses = find_clusters(maps, 0.0, adjacency)
    assert_array_equal(labels, np.zeros((4, 9)))
    assert masses.shape == (0,)
    assert_array_equal(tfce(maps, adjacency), np.zeros((4, 9)))
    assert_array_equal(tfce(maps - 1, adjacency), np.zeros((4, 9)))


def edges(*pairs):
    """Return a matrix (6, 6) with ones at some pairs."""
    matrix = np.eye(6)
    for i, j in pairs:
        matrix[i, j] = 1
    return matrix


@pytest.mark.parametrize("function", [lambda *a: find_clusters(a[0], 1, *a[1:]), tfce])
def test_maps_and_adjacency_are_checked(function):
    maps = build.smooth_maps(3, (6,))
    for given, message in (
        ([np.where(maps == maps[1, 2], np.nan, maps)], "maps must be finite"),
        ([maps[0]], r"shape \(m, \*positions\).*got \(6,\)"),
        ([maps[:0]], r"not be empty; got \(0, 6\)"),
        ([maps, np.eye(5)], r"\(6, 6\), one row .* got \(5, 5\)"),
        ([maps, edges((0, 1))], "adjacency must be symmetric"),
    ):
        with pytest.raises(ValueError, match=message):
            function(*given)
    with pytest.raises(TypeError, match=r"'adjacency': 'abc'. Allowed: None, or a ma"):
        function(maps, "abc")
    # Only the pattern counts, and a stored zero is no neighbour.
    stored = sparse.coo_array(([0.0, 2.0, 7.0], ([0, 3, 4], [1, 4, 3])), (6, 6))
    plain = edges((3, 4), (4, 3))
    assert_array_equal(function(maps, stored)[0], function(maps, plain)[0])


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda maps: find_clusters(maps, np.nan), r"'threshold': nan\. Allowed: a fi"),
        (lambda maps: tfce(maps, e_power=np.nan), "Invalid value for 'e_power': nan"),
        (lambda maps: tfce(maps, h_power=-1), "'h_power': -1.*above zero. Zero is all"),
    ],
)
def test_wrong_options_are_refused(call, message):
    with pytest.raises(ValueError, match=message):
        call(build.smooth_maps(3, (6,)))


# ---------------------------------------------------- tables of the clusters of results

COLUMNS = ["from", "to", "places", "mass", "size", "p", "peak"]
TRUE = ["n_true", "share_true"]  # which need the whole null


def standardised(observed, null):
    rows = np.concatenate([observed[np.newaxis], null]).astype(float)
    return (rows[0] - rows.mean(axis=0)) / rows.std(axis=0)


def nearest_to_zero(z, other, exempt):
    """Return what is nearer to zero of two tests, 0 where their signs differ."""
    nearer = np.where(np.abs(z) < np.abs(other), z, other)
    nearer[np.sign(z) != np.sign(other)] = 0
    return np.where(exempt, z, nearer)


def exempt_in(result):
    """Return where times are trained and tested with: the second test is not for it."""
    exempt = np.zeros(result.shape, bool)
    if result.parameters.get("mode") == "plain":
        np.fill_diagonal(exempt, True)
    return exempt


def z_of(result):
    """Return standardised scores; of two tests those nearer to zero."""
    z = standardised(result.scores, result.null)
    second = getattr(result, "second_nulls", {}).get("accuracy")
    if second is None:
        return z
    other = standardised(result.scores, second)
    return nearest_to_zero(z, other, exempt_in(result))


def rows_of(sides, are_neighbours, z, p, whole):
    """Return p, mass and size of every set, in an order that ties do not change."""
    rows = []
    for inside in sides:
        for members in connected_sets(inside, are_neighbours):
            mass, of_members = sum(z[m] for m in members), [p[m] for m in members]
            value = min(of_members)
            assert not whole or value == max(of_members)  # a p of all of it
            rows.append((value, round(mass, 6), len(members)))
    return sorted(rows)


def assert_rows(table, rows):
    assert list(table.columns) in (COLUMNS, COLUMNS + TRUE)
    assert table["p"].is_monotonic_increasing
    for _, same in table.groupby("p"):
        assert (same["mass"].abs().diff().dropna() <= 1e-9).all()
    table = table.assign(mass=table["mass"].round(6))
    found = sorted(zip(table["p"], table["mass"], table["size"], strict=True))
    assert len(found) == len(rows)
    if rows:
        assert_allclose(found, rows, rtol=1e-6, atol=2e-6)


@pytest.mark.some(40)
@clustered_maps
@pytest.mark.parametrize("alternative", ["greater", "less", "two-sided"])
@pytest.mark.parametrize("correction", ["cluster", "cluster-size", "max", "tfce"])
def test_clusters_of_a_subject_are_those_of_a_walk(kind, correction, alternative):
    result, found = clustered(kind), 0
    near, z = build.near_in(result), z_of(result)
    of_clusters = correction.startswith("cluster")
    for threshold in (0.05, 0.3):
        options = {"threshold": threshold, "alternative": alternative}
        p = result.pvalues(correction, **options)
        level = threshold / 2 if alternative == "two-sided" else threshold
        height = stats.norm.isf(level)
        sides = {"greater": [z > height], "less": [z < -height]}
        sides["two-sided"] = [z > height, z < -height]
        if not of_clusters:  # connected positions, each of them significant
            options["alpha"] = 0.4
            found_at = p <= 0.4
            sides["greater"] = sides["less"] = [found_at]
            sides["two-sided"] = [found_at & (z >= 0), found_at & (z < 0)]
        rows = rows_of(sides[alternative], near, z, p, whole=of_clusters)
        assert_rows(result.clusters(correction, **options), rows)
        outside = ~np.any(sides[alternative], axis=0)
        assert not of_clusters or (p[outside & np.isfinite(p)] == 1).all()
        found += len(rows)
    assert found > 1 or not of_clusters


def two_blobs(kind, blobs, **fields):
    """Return a result with high scores in the first blob and low ones in the second."""
    shape = tuple(len(fields[name]) for name in kind.axes)
    null = np.random.default_rng(0).normal(0.5, 0.01, (99, *shape))
    scores = np.full(shape, 0.5)
    for blob, score in zip(blobs, (0.9, 0.1), strict=False):
        for number, at in enumerate(blob):
            scores[at] = score + np.sign(score - 0.5) * 0.01 * number
    return build.made(kind, scores, null, **fields)


def test_bands_sensors_and_pairs_of_times_are_named():
    power = {"freqs": FREQS, "times": TIMES}
    near = {"adjacency": np.array([[4], [5]]), "info_fif": np.empty(0, np.uint8)}
    sensors = {"ch_names": SENSORS, "times": TIMES} | near
    pairs = {"train_times": TIMES, "test_times": TIMES, "y_test": np.arange(12) % 2}
    band, single, ends = [(1, 5), (2, 5)], [(1, 5)], [(0.0, 0.02), (0.01, 0.02)]
    places = [(5, 5), (4, 5), (4, 6)]
    for kind, blob, fields, expected in (
        (TimeFrequencyResult, band, power, [0.0, 0.0, "8 to 16 Hz", (16.0, 0.0)]),
        (TimeFrequencyResult, single, power, [0.0, 0.0, "8 Hz", (8.0, 0.0)]),
        (SensorTimeResult, places, sensors, [0.0, 0.01, "O1, O2", ("O1", 0.01)]),
        (
            GeneralizationResult,
            [(5, 7), (6, 7)],
            pairs,
            [*ends, "2 pairs of times", (0.01, 0.02)],
        ),
    ):
        table = two_blobs(kind, [blob], **fields).clusters("max")
        assert table.loc[0, ["from", "to", "places", "peak"]].tolist() == expected


def test_clusters_of_brains_have_millimetres():
    result = clustered("voxels")
    table = result.clusters("none", alpha=0.2)
    where = connected_sets(result.pvalues() <= 0.2, build.near_in(result))
    boxes = set()
    for members in where:
        points = result.geometry.points[[m[0] for m in members]]
        boxes.add((*points.min(axis=0), *points.max(axis=0), len(members)))
        best = points[np.argmax([result.scores[m] for m in members])]
        assert tuple(best) in set(table["peak"])
    rows = zip(table["from"], table["to"], table["size"], strict=True)
    assert boxes == {(*low, *high, size) for low, high, size in rows}
    assert table.loc[0, "places"] == f"{table.loc[0, 'size']} voxels"
    vertices = clustered("vertices").clusters(threshold=0.3)
    assert "vertices" in vertices["places"].sum()
    names = clustered("regions").clusters("none", alpha=0.2)
    assert all(text.startswith("Area ") for text in names["places"])
    assert [len(text.split(", ")) for text in names["places"]] == [*names["size"]]


def test_features_without_names_and_places_are_counted():
    X, codes = build.features((8, 8), 4, separation=3.0)
    options = {"adjacency": build.chain(4), "n_permutations": 39, "cv": 4}
    result = searchlight(X, codes, standardize=False, random_state=0, **options)
    table = result.clusters(alpha=0.1)
    assert table["from"].isna().all()
    assert table.loc[0, "places"] == f"{table.loc[0, 'size']} features"


def test_without_clusters_the_table_is_empty():
    for kind in ("times", "voxels"):
        result = clustered(kind)
        none = result.clusters("max", alpha=1e-6), result.clusters(threshold=1e-9)
        for table in none:
            assert list(table.columns) == COLUMNS + TRUE
            assert len(table) == 0
            assert table["p"].dtype == float


@pytest.mark.parametrize("kind", ["GeneralizationResult", "VolumeResult"])
def test_a_summary_gives_the_clusters_of_the_whole_null(kind):
    full, stream, least = (
        build.result(kind, n_permutations=39, null=null)
        for null in ("full", "stream", "max")
    )

    def in_order(table):
        without = table.drop(columns=["mass", *TRUE], errors="ignore")
        return without.sort_values("peak").reset_index(drop=True)

    for correction in ("cluster", "tfce", "max", "fdr"):
        expected = full.clusters(correction, alpha=0.3)
        table = stream.clusters(correction, alpha=0.3)
        assert_allclose(table["mass"], expected["mass"], rtol=1e-6, atol=0)
        assert in_order(table).equals(in_order(expected))
        assert len(table) > 0
    table = least.clusters("max", alpha=0.3)
    assert table["mass"].isna().all()
    assert in_order(table).equals(in_order(full.clusters("max", alpha=0.3)))
    with pytest.raises(ValueError, match="needs the whole null"):
        least.clusters()


@pytest.mark.parametrize(
    ("n_permutations", "options", "message"),
    [
        (0, {}, "has no label permutations, so no p-values"),
        (9, {"correction": "clusters"}, "Invalid value for 'correction'"),
        (9, {"correction": "max", "alpha": 5}, "Invalid value for 'alpha'"),
    ],
)
def test_what_has_no_table(n_permutations, options, message):
    with pytest.raises(ValueError, match=message):
        build.result(n_permutations=n_permutations).clusters(**options)


# -------------------------------------------------------- tables of groups, comparisons


def rows_of_group(group, correction, z, height, are_neighbours):
    """Return the rows of a group whose map of z, or of t, is known."""
    p, two = np.asarray(group.pvalues(correction)), group.alternative == "two-sided"
    if "cluster" in correction:
        sides = [z > height, z < -height] if two else [z > height]
    else:
        sides = [(p <= group.alpha) & (z >= 0)]
        sides += [(p <= group.alpha) & (z < 0)] if two else []
    return rows_of(sides, are_neighbours, z, p, whole="cluster" in correction)


@pytest.mark.some(9)
@clustered_maps
@pytest.mark.parametrize("method", ["sign-flip", "wilcoxon"])
def test_groups_have_clusters_of_their_statistic(kind, method):
    subjects = [clustered(kind, seed) for seed in range(7)]
    corrections = ["cluster", "cluster-size", "max", "tfce"]
    for alternative in ("greater", "two-sided"):
        options = {"alternative": alternative, "threshold": 0.2, "alpha": 0.2}
        group = group_inference(
            subjects, method, corrections, n_permutations=99, random_state=0, **options
        )
        level = 0.1 if alternative == "two-sided" else 0.2
        of = stats.t(6) if method == "sign-flip" else stats.norm
        near = build.near_in(subjects[0])
        for correction in corrections:
            args = correction, group.statistic, of.isf(level), near
            assert_rows(group.clusters(correction), rows_of_group(group, *args))
    assert len(group.clusters()) > 0


def test_clusters_of_the_bootstrap_by_false_discovery():
    subjects = [clustered("voxels", seed) for seed in range(4)]
    options = {"threshold": 0.2, "random_state": 3, "n_permutations": 99}
    group = group_inference(subjects, "bootstrap", "cluster-fdr", **options)
    p = group.pvalues()
    expected = connected_sets(p < 1, build.near_in(subjects[0]))
    table = group.clusters()
    assert sorted(table["size"]) == sorted(map(len, expected))
    assert sorted(table["p"]) == sorted(p[members[0]] for members in expected)
    assert len(table) > 0


@pytest.mark.parametrize(
    "kind", ["TimeFrequencyResult", "SensorTimeResult", "VolumeResult"]
)
def test_clusters_of_comparisons(kind):
    a, b = (build.result(kind, n_permutations=59, reg=reg) for reg in (0.01, 100.0))
    result = compare(a, b, correction=["cluster", "max"], threshold=0.4)
    z = standardised(a.scores - b.scores, a.null.astype(float) - b.null)
    near = build.near_in(a)
    rows = rows_of_group(result, "cluster", z, stats.norm.isf(0.2), near)
    assert_rows(result.clusters(), rows)
    assert len(rows) > 0


def test_groups_of_single_numbers_have_no_clusters():
    for result in (build.group("DecodingResult"), build.comparison("DecodingResult")):
        with pytest.raises(ValueError, match="a single position, which has no clust"):
            result.clusters()
        assert result.peak("max")["p"] == result.pvalues("none")
