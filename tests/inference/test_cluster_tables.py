"""Tables of clusters, peaks and onsets say what plain loops find in the maps."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import ndimage, stats

from mvpa_kfda import compare, group_inference, searchlight
from mvpa_kfda.group.second_level import RecombinedNull, draw_recombinations
from mvpa_kfda.inference.corrections import nearest_to_zero
from mvpa_kfda.inference.null import Null
from mvpa_kfda.results.epochs import (
    GeneralizationResult,
    SensorTimeResult,
    TimeFrequencyResult,
    TimeRegressionResult,
    TimeResult,
)
from mvpa_kfda.utils.rounding import rounded
from tests import build, islands
from tests.entries import everywhere

pytestmark = [
    pytest.mark.filterwarnings("ignore:With .* the smallest:RuntimeWarning"),
]
COLUMNS = ["from", "to", "places", "mass", "size", "p", "peak"]
TRUE = ["n_true", "share_true"]  # which need the whole null
P = 59
TIMES, FREQS = np.arange(-5, 20) / 100, np.array([4.0, 8.0, 16.0, 32.0])
NAMES, REGIONS = np.array(["Fz", "Cz", "Pz", "Oz", "O1", "O2"]), 6


# ------------------------------------------------ maps with clusters, and plain loops


def smooth(shape, seed, n_maps=P + 1):
    """Return maps whose neighbours resemble each other; the first has more to it."""
    maps = np.random.default_rng(seed).normal(size=(n_maps, *shape))
    for axis in range(1, maps.ndim):
        maps = maps + np.roll(maps, 1, axis)
    maps[0] += np.linspace(-1.5, 2.0, maps[0].size).reshape(shape)
    return 0.5 + 0.02 * maps


def made(kind, shape, seed=0, **fields):
    maps = smooth(shape, seed)
    return build.made(kind, maps[0], maps[1:], **fields)


def brain(space, seed=0):
    """Return a result with neighbours as the space has them, not decoded in places."""
    maps = smooth((space.n_positions,), seed)
    maps[0, ::17] = np.nan
    return build.made_of_images(space, maps[0], maps[1:], space.edges)


def generalization(seed=0, mode="plain"):
    times = {"train_times": TIMES[:9], "test_times": TIMES[:11]}
    return made(
        GeneralizationResult,
        (9, 11),
        seed,
        **times,
        y_test=np.arange(12) % 2,
        second_nulls={"accuracy": smooth((9, 11), [seed, 1])[1:] + 0.01},
        parameters={"mode": mode},
    )


def sensors(seed=0):
    pairs = np.array([[0, 1, 2, 3, 3, 4], [1, 2, 3, 4, 5, 5]])
    info = build.info_of(["eeg"] * 6)
    more = {"adjacency": pairs, "info_fif": np.empty(0, np.uint8)}
    assert len(info.ch_names) == len(NAMES)
    return made(SensorTimeResult, (6, 25), seed, ch_names=NAMES, times=TIMES, **more)


MAPS = {
    "times": lambda seed=0: made(TimeResult, (25,), seed, times=TIMES),
    "values": lambda seed=0: made(
        TimeRegressionResult,
        (25,),
        seed,
        times=TIMES,
        classes=np.empty(0),
        predicted=np.zeros((25, 12)),
    ),
    "power": lambda seed=0: made(
        TimeFrequencyResult, (4, 25), seed, freqs=FREQS, times=TIMES
    ),
    "sensors": sensors,
    "map": generalization,
    "map of others": lambda seed=0: generalization(seed, "same_trials"),
    "voxels": lambda seed=0: brain(build.volume_space((5, 6, 4)), seed),
    "vertices": lambda seed=0: brain(build.surface_space(), seed),
    "regions": lambda seed=0: brain(build.region_space(30), seed),
}
maps = pytest.mark.parametrize("make", MAPS.values(), ids=MAPS)


def neighbours(result):
    """Return a function that tells whether positions, tuples, are neighbours."""
    pairs = getattr(result, "adjacency", None)
    near = set() if pairs is None else {tuple(pair) for pair in pairs.T.tolist()}
    near |= {(j, i) for i, j in near}

    def are_neighbours(one, other):
        apart = np.abs(np.subtract(one, other))
        if pairs is None:
            return apart.sum() == 1
        if len(one) == 1:
            return (one[0], other[0]) in near
        linked = (one[0], other[0]) in near and one[1] == other[1]
        return linked or (one[0] == other[0] and apart[1] == 1)

    return are_neighbours


def sets_of(inside, are_neighbours):
    """Return the connected sets of positions, each a list of tuples, by a walk."""
    waiting, found = set(map(tuple, np.argwhere(inside).tolist())), []
    while waiting:
        members = [waiting.pop()]
        for one in members:  # which grows on the way
            near = [other for other in waiting if are_neighbours(one, other)]
            waiting -= set(near)
            members += near
        found.append(members)
    return found


def standardised(observed, null):
    rows = np.concatenate([observed[np.newaxis], null]).astype(float)
    return (rows[0] - rows.mean(axis=0)) / rows.std(axis=0)


def z_of(result):
    """Return standardised scores; of two tests those nearer to zero."""
    z = standardised(result.scores, result.null)
    second = getattr(result, "second_nulls", {}).get("accuracy")
    if second is None:
        return z
    other, nearer = standardised(result.scores, second), z.copy()
    for cell in np.ndindex(z.shape):
        same_time = result.train_times[cell[0]] == result.test_times[cell[1]]
        if same_time and result.parameters["mode"] == "plain":
            continue
        if np.sign(z[cell]) != np.sign(other[cell]):
            nearer[cell] = 0
        elif abs(other[cell]) < abs(z[cell]):
            nearer[cell] = other[cell]
    return nearer


def rows_of(sides, are_neighbours, z, p, whole):
    """Return p, mass and size of every set, in an order that ties do not change."""
    rows = []
    for inside in sides:
        for members in sets_of(inside, are_neighbours):
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


# --------------------------------------------------------------- results of a subject


@pytest.mark.some(27)
@maps
@pytest.mark.parametrize("alternative", ["greater", "less", "two-sided"])
@pytest.mark.parametrize("correction", ["cluster", "cluster-size"])
def test_tested_clusters_are_those_of_a_walk(make, correction, alternative):
    result, found = make(), 0
    for threshold in (0.05, 0.3):
        options = {"threshold": threshold, "alternative": alternative}
        p, z = result.pvalues(correction, **options), z_of(result)
        two = alternative == "two-sided"
        height = stats.norm.isf(threshold / 2 if two else threshold)
        sides = [z > height, z < -height] if two else [z > height]
        sides = [-z > height] if alternative == "less" else sides
        rows = rows_of(sides, neighbours(result), z, p, whole=True)
        assert_rows(result.clusters(correction, **options), rows)
        inside = np.any(sides, axis=0)
        assert (p[~inside & np.isfinite(p)] == 1).all()
        found += len(rows)
    assert found > 1


@maps
@pytest.mark.parametrize("correction", ["none", "max", "fdr", "tfce"])
def test_significant_positions_that_are_connected(make, correction):
    result = make()
    p, z = result.pvalues(correction, alternative="two-sided"), z_of(result)
    sides = [(p <= 0.4) & (z >= 0), (p <= 0.4) & (z < 0)]
    rows = rows_of(sides, neighbours(result), z, p, whole=False)
    options = {"alternative": "two-sided", "alpha": 0.4}
    assert_rows(result.clusters(correction, **options), rows)


def test_lattices_are_labelled_as_by_scipy():
    result = MAPS["power"]()
    z, p = z_of(result), result.pvalues("cluster", threshold=0.2)
    labels, n = ndimage.label(z > stats.norm.isf(0.2))
    table = result.clusters(threshold=0.2)
    assert n == len(table) > 2
    index = np.arange(1, n + 1)
    expected = {
        "from": [TIMES[np.where(labels == k)[1]].min() for k in index],
        "to": [TIMES[np.where(labels == k)[1]].max() for k in index],
        "mass": ndimage.sum(z, labels, index),
        "size": ndimage.sum(labels > 0, labels, index),
        "p": ndimage.maximum(p, labels, index),
    }
    order = np.lexsort((-expected["mass"], expected["p"]))
    for name, values in expected.items():
        assert_allclose(table[name], np.array(values)[order], rtol=1e-9, atol=1e-12)
    for k, peak in zip(index[order], table["peak"], strict=True):
        best = np.argmax(np.where(labels == k, result.scores, -np.inf))
        at = np.unravel_index(best, labels.shape)
        assert peak == (FREQS[at[0]], TIMES[at[1]])


def two_blobs(kind, blobs, **fields):
    """Return a result with high scores in the first blob and low ones in the second."""
    shape = tuple(len(fields[name]) for name in kind.axes)
    null = np.random.default_rng(0).normal(0.5, 0.01, (99, *shape))
    scores = np.full(shape, 0.5)
    for blob, score in zip(blobs, (0.9, 0.1), strict=False):
        for number, at in enumerate(blob):
            scores[at] = score + np.sign(score - 0.5) * 0.01 * number
    return build.made(kind, scores, null, **fields)


def test_a_course_has_seconds():
    result = two_blobs(TimeResult, [(5, 6, 7), (8, 9)], times=TIMES)
    table = result.clusters(alternative="two-sided", threshold=0.01)
    assert len(table) == 2  # they touch, but are of two sides
    high, low = (row for _, row in table.iterrows())
    assert (high["from"], high["to"], high["peak"]) == (0.0, 0.02, 0.02)
    assert (high["places"], high["size"]) == ("3 times", 3)
    assert (low["from"], low["to"], low["peak"]) == (0.03, 0.04, 0.04)
    assert (low["places"], low["size"]) == ("2 times", 2)
    assert low["mass"] < 0 < high["mass"]
    less = result.clusters("max", alternative="less")
    assert list(less["from"]) == [0.03]
    single = two_blobs(TimeResult, [(5,)], times=TIMES).clusters("max")
    assert single.loc[0, "places"] == "1 time"


def test_two_tests_that_find_opposite_effects_find_nothing():
    observed = np.array([[3.0, 3.0, -2.0, 2.0], [-2.5, 1.0, -4.0, -9.0]])
    exempt = None, np.array([False, False, False, True])
    nulls = [
        Null(each, np.zeros((9, 4)), height=1.0, exempt=mask)
        for each, mask in zip(observed, exempt, strict=True)
    ]
    assert_array_equal(nearest_to_zero(nulls), [0, 1, -2, 2])


def test_bands_sensors_and_pairs_of_times_are_named():
    power = {"freqs": FREQS, "times": TIMES}
    table = two_blobs(TimeFrequencyResult, [[(1, 5), (2, 5)]], **power).clusters("max")
    expected = [0.0, 0.0, "8 to 16 Hz", (16.0, 0.0)]
    assert table.loc[0, ["from", "to", "places", "peak"]].tolist() == expected
    table = two_blobs(TimeFrequencyResult, [[(1, 5)]], **power).clusters("max")
    assert table.loc[0, "places"] == "8 Hz"
    more = {"adjacency": np.array([[4], [5]]), "info_fif": np.empty(0, np.uint8)}
    fields = {"ch_names": NAMES, "times": TIMES} | more
    table = two_blobs(SensorTimeResult, [[(5, 5), (4, 5), (4, 6)]], **fields)
    expected = [0.0, 0.01, "O1, O2", ("O1", 0.01)]
    found = table.clusters("max").loc[0, ["from", "to", "places", "peak"]]
    assert found.tolist() == expected
    fields = {"train_times": TIMES, "test_times": TIMES, "y_test": np.arange(12) % 2}
    table = two_blobs(GeneralizationResult, [[(5, 7), (6, 7)]], **fields)
    expected = [(0.0, 0.02), (0.01, 0.02), "2 pairs of times", (0.01, 0.02)]
    found = table.clusters("max").loc[0, ["from", "to", "places", "peak"]]
    assert found.tolist() == expected


def test_clusters_of_brains_have_millimetres():
    space = build.volume_space((5, 6, 4))
    result = brain(space)
    table = result.clusters("none", alpha=0.2)
    where = sets_of(result.pvalues() <= 0.2, neighbours(result))
    boxes = set()
    for members in where:
        points = space.points[[m[0] for m in members]]
        boxes.add((*points.min(axis=0), *points.max(axis=0), len(members)))
        best = points[np.argmax([result.scores[m] for m in members])]
        assert tuple(best) in set(table["peak"])
    rows = zip(table["from"], table["to"], table["size"], strict=True)
    assert boxes == {(*low, *high, size) for low, high, size in rows}
    n = table.loc[0, "size"]
    assert table.loc[0, "places"] == f"{n} voxels"
    assert "vertices" in MAPS["vertices"]().clusters(threshold=0.3)["places"].sum()
    names = MAPS["regions"]().clusters("none", alpha=0.2)
    assert all(text.startswith("Area ") for text in names["places"])
    assert [len(text.split(", ")) for text in names["places"]] == [*names["size"]]


def test_features_without_names_or_places_are_counted():
    X, codes = build.features((8, 8), 4, separation=3.0)
    options = {"adjacency": build.chain(4), "n_permutations": 39, "cv": 4}
    result = searchlight(X, codes, standardize=False, random_state=0, **options)
    table = result.clusters(alpha=0.1)
    assert table["from"].isna().all()
    assert table.loc[0, "places"] == f"{table.loc[0, 'size']} features"


def test_without_clusters_the_table_is_empty():
    for result in (MAPS["times"](), MAPS["voxels"]()):
        none = result.clusters("max", alpha=1e-6), result.clusters(threshold=1e-9)
        for table in none:
            assert list(table.columns) == COLUMNS + TRUE
            assert len(table) == 0
            assert table["p"].dtype == float


@everywhere
def test_every_entry_has_a_table_or_says_why_not(entry):
    result = entry(reg=0.3, n_permutations=29, random_state=0)
    if not result.axes:
        with pytest.raises(ValueError, match="a single position, which has no clust"):
            result.clusters()
        return
    if result.nulls:
        table = result.clusters(threshold=0.4)
    else:  # of images only a summary is kept
        with pytest.raises(ValueError, match="needs the whole null"):
            result.clusters()
        table = result.clusters("max", alpha=0.9)
        assert table["mass"].isna().all()
    assert list(table.columns) == COLUMNS + (TRUE if result.nulls else [])
    assert len(table) > 0
    assert table["p"].is_monotonic_increasing


@pytest.mark.parametrize("kind", ["GeneralizationResult", "VolumeResult"])
def test_a_summary_gives_the_clusters_of_the_whole_null(kind):
    full, stream, least = (
        build.result(kind, n_permutations=39, null=null)
        for null in ("full", "stream", "max")
    )
    for correction in ("cluster", "tfce", "max", "fdr"):
        expected = full.clusters(correction, alpha=0.3).drop(columns=TRUE)
        table = stream.clusters(correction, alpha=0.3)
        assert_allclose(table["mass"], expected["mass"], rtol=1e-6, atol=0)
        assert table.drop(columns="mass").equals(expected.drop(columns="mass"))
        assert len(table) > 0
    table = least.clusters("max", alpha=0.3)
    assert table["mass"].isna().all()
    expected = full.clusters("max", alpha=0.3).drop(columns=["mass", *TRUE])
    shown = table.drop(columns="mass").sort_values("peak").reset_index(drop=True)
    expected = expected.sort_values("peak").reset_index(drop=True)
    assert shown.equals(expected)
    with pytest.raises(ValueError, match="needs the whole null"):
        least.clusters()


def test_what_pvalues_refuse_and_wrong_levels():
    result = build.result(n_permutations=0)
    with pytest.raises(ValueError, match="has no label permutations, so no p-values"):
        result.clusters()
    result = build.result()
    with pytest.raises(ValueError, match="Invalid value for 'correction'"):
        result.clusters("clusters")
    with pytest.raises(ValueError, match="Invalid value for 'alpha'"):
        result.clusters("max", alpha=5)


# ------------------------------------------------------------------ groups, comparisons


def group_rows(group, correction, z, height, are_neighbours):
    """Return the rows of a group whose map of z, or of t, is known."""
    p, two = np.asarray(group.pvalues(correction)), group.alternative == "two-sided"
    if "cluster" in correction:
        sides = [z > height, z < -height] if two else [z > height]
    else:
        sides = [(p <= group.alpha) & (z >= 0)]
        sides += [(p <= group.alpha) & (z < 0)] if two else []
    return rows_of(sides, are_neighbours, z, p, whole="cluster" in correction)


@pytest.mark.some(12)
@maps
@pytest.mark.parametrize("method", ["sign-flip", "wilcoxon"])
def test_groups_have_clusters_of_their_statistic(make, method):
    subjects = [make(seed) for seed in range(7)]
    corrections = ["cluster", "cluster-size", "max", "tfce"]
    for alternative in ("greater", "two-sided"):
        options = {"alternative": alternative, "threshold": 0.2, "alpha": 0.2}
        group = group_inference(
            subjects, method, corrections, n_permutations=99, random_state=0, **options
        )
        level = 0.1 if alternative == "two-sided" else 0.2
        of = stats.t(6) if method == "sign-flip" else stats.norm
        height = of.isf(level)
        near, z = neighbours(subjects[0]), group.statistic
        for correction in corrections:
            rows = group_rows(group, correction, z, height, near)
            assert_rows(group.clusters(correction), rows)
    assert len(group.clusters()) > 0


@pytest.mark.some(2)
@pytest.mark.parametrize("kind", ["times", "voxels", "map of others", "map"])
@pytest.mark.parametrize("method", ["prevalence", "bootstrap"])
def test_clusters_of_recombined_maps_are_standardised(kind, method):
    subjects = [MAPS[kind](seed) for seed in range(4)]
    options = {"threshold": 0.2, "random_state": 3, "n_permutations": 99}
    group = group_inference(subjects, method, ["cluster", "tfce"], **options)
    draws = draw_recombinations([P + 1] * 4, 99, 3)
    statistic = {"prevalence": "min", "bootstrap": "mean"}[method]
    scores = np.array([one.scores for one in subjects]).reshape(4, -1)

    def drawn(nulls):
        null = RecombinedNull(
            scores, [one.reshape(P, -1) for one in nulls], draws, statistic
        )
        maps = np.concatenate([null.observed[np.newaxis], null[:]])
        return maps.reshape(-1, *group.statistic.shape)

    rows = drawn([one.null for one in subjects])
    z, tests = standardised(rows[0], rows[1:]), [islands.Test(rows[0], rows[1:])]
    if "map" in kind:
        rows = drawn([one.second_nulls["accuracy"] for one in subjects])
        exempt = np.zeros(z.shape, bool)
        np.fill_diagonal(exempt, kind == "map")
        cells = map(tuple, np.argwhere(exempt).tolist())
        tests.append(islands.Test(rows[0], rows[1:], cells))
        other = standardised(rows[0], rows[1:])
        nearer = np.where(np.abs(z) < np.abs(other), z, other)
        nearer[np.sign(z) != np.sign(other)] = 0
        z = np.where(exempt, z, nearer)
        for name in ("cluster", "tfce"):
            expected = islands.p_values(tests, name, "greater", 0.2)
            assert_allclose(group.pvalues(name), expected, rtol=1e-12, atol=0)
    rows = group_rows(group, "cluster", z, stats.norm.isf(0.2), neighbours(subjects[0]))
    assert_rows(group.clusters(), rows)
    assert len(rows) > 0
    without = group_inference(subjects, method, "max", **options)
    table = without.clusters(alpha=0.95)
    assert table["mass"].isna().all()
    assert len(table) > 0


def test_clusters_of_the_bootstrap_by_false_discovery():
    subjects = [MAPS["voxels"](seed) for seed in range(4)]
    options = {"threshold": 0.2, "random_state": 3, "n_permutations": 99}
    group = group_inference(subjects, "bootstrap", "cluster-fdr", **options)
    p = group.pvalues()
    expected = sets_of(p < 1, neighbours(subjects[0]))
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
    rows = group_rows(result, "cluster", z, stats.norm.isf(0.2), neighbours(a))
    assert_rows(result.clusters(), rows)
    assert len(rows) > 0


def test_groups_of_single_numbers_have_no_clusters():
    for result in (build.group("DecodingResult"), build.comparison("DecodingResult")):
        with pytest.raises(ValueError, match="a single position, which has no clust"):
            result.clusters()
        assert result.peak("max")["p"] == result.pvalues("none")


# ------------------------------------------------------------------- peaks and onsets


@maps
def test_the_peak_is_the_highest_score_and_its_row_of_the_table(make):
    result = make()
    table = result.to_dataframe(["max"])
    best = int(np.nanargmax(result.scores))
    assert result.peak() == table.iloc[[best]].to_dict("records")[0]
    assert result.peak("none")["accuracy"] == np.nanmax(result.scores)
    assert "p_none" not in result.peak("none")


def test_the_peak_of_a_group_and_of_a_difference():
    group = build.group("TimeResult", correction="max")
    best = int(np.argmax(group.scores))
    peak = group.peak()
    assert peak["time"] == group.times[best]
    assert peak["accuracy"] == group.scores[best]
    assert peak["p_max"] == group.pvalues("max")[best]
    comparison = build.comparison("VolumeResult")
    peak = comparison.peak()
    worst = np.abs(comparison.scores).max()
    assert abs(peak["accuracy_difference"]) == worst > 0


def test_the_peak_of_a_difference_may_be_below_zero():
    one, other = (
        build.result("VolumeResult", n_permutations=39, reg=reg) for reg in (0.3, 30.0)
    )
    found = []
    for pair in ((one, other), (other, one)):
        comparison = compare(*pair)
        best = np.nanargmax(np.abs(comparison.scores))
        found.append(comparison.peak("none")["accuracy_difference"])
        assert found[-1] == comparison.scores[best]
        assert f"{rounded(found[-1], 3, '+')} at " in comparison._repr_html_()
    assert found[0] == -found[1] != 0


def test_a_peak_needs_scores_but_no_permutations():
    result = build.result(n_permutations=0)
    assert set(result.peak()) == {"time", "accuracy"}
    space = build.volume_space((2, 2, 2))
    empty = build.made_of_images(space, np.full(space.n_positions, np.nan))
    with pytest.raises(ValueError, match="no scores, so no peak"):
        empty.peak()


@pytest.mark.parametrize("kind", ["times", "values", "power", "sensors"])
@pytest.mark.parametrize("correction", ["max", "max-step-down", "bonferroni"])
def test_the_onset_is_the_first_significant_time(kind, correction):
    result = MAPS[kind]()
    p = result.pvalues(correction).reshape(-1, len(TIMES)).min(axis=0)
    for alpha in (0.02, 0.2, 0.5, 0.9):
        first = [time for time, value in zip(TIMES, p, strict=True) if value <= alpha]
        expected = first[0] if first else np.nan
        assert_array_equal(result.onset(correction, alpha=alpha), expected)
    # So few permutations are enough for 25 positions only.
    assert (p <= 0.9).any() or (correction == "bonferroni" and len(result.axes) > 1)
    low = result.pvalues("max", alternative="less").reshape(-1, len(TIMES)).min(axis=0)
    onset = result.onset(alternative="less", alpha=low.min())
    assert onset == TIMES[np.argmin(low)]


@pytest.mark.parametrize("correction", ["none", "cluster", "tfce", "fdr"])
def test_marks_that_are_not_of_single_times_have_no_onset(correction):
    result = MAPS["times"]()
    with pytest.raises(ValueError, match="There is no onset with correction="):
        result.onset(correction)
    assert not hasattr(MAPS["map"](), "onset")
    assert not hasattr(MAPS["voxels"](), "onset")
