"""Bounds of true discoveries are those of their definition, over all subsets."""

from fractions import Fraction
from itertools import combinations

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from scipy.ndimage import gaussian_filter1d
from scipy.stats import binom

from mvpa_kfda import decode_arrays, group_inference, load_result
from mvpa_kfda.inference import discoveries
from mvpa_kfda.inference.discoveries import Calibration, calibrate, n_true, rank
from mvpa_kfda.inference.null import ALTERNATIVES, Null
from mvpa_kfda.results.clusters import levels_of
from tests import build, reference_group
from tests.build import clustered, clustered_maps, connected_sets

ALPHAS = (0.05, 0.1, 0.25, 0.5)
TRUE = ["n_true", "share_true"]


# ------------------------------------------------------------ plain loops, in fractions


def slope_of(ranks, alpha):
    """Return lambda, a fraction, from the ranks of all rows."""
    smallest = [
        min(Fraction(int(r), k) for k, r in enumerate(sorted(row), start=1))
        for row in ranks
    ]
    return sorted(smallest)[int(alpha * len(ranks) + 1e-9)]


def all_sets(m):
    return [s for n in range(m + 1) for s in combinations(range(m), n)]


def bound_by_enumeration(ranks, slope, members):
    """Return |S| less the largest subset of S that may well be silent as a whole.

    A set may be if for no k it has k positions with ranks below lambda k.
    """
    most = 0
    for chosen in all_sets(len(members)):
        of_set = sorted(int(ranks[members[i]]) for i in chosen)
        silent = all(r >= slope * k for k, r in enumerate(of_set, start=1))
        most = max(most, len(chosen) if silent else 0)
    return len(members) - most


def rows_with_effect(seed, n_rows, m, steps):
    """Return scores in steps, of which the first row has an effect in some places."""
    rng = np.random.default_rng(seed)
    rows = rng.normal(size=(n_rows, m)) + rng.normal(size=(n_rows, 1))
    rows[0, : m // 2 + 1] += 3.0
    return np.rint(rows * steps) / steps if steps else rows


def calibrated(rows, alternative="greater"):
    return calibrate(Null(rows[0], rows[1:], alternative=alternative))


@pytest.mark.some(5)
@pytest.mark.parametrize("steps", [0, 1, 2])
@pytest.mark.parametrize("n_rows", [3, 20, 40])
def test_bounds_are_those_of_the_definition_over_all_subsets(n_rows, steps):
    m, found = 7, 0
    for seed in range(3):
        rows = rows_with_effect(seed, n_rows, m, steps)
        made = calibrated(rows)
        ranks, _ = reference_group.ranks_of_rows(reference_group.null_of(rows))
        assert_array_equal(made.ranks, ranks[0])
        for alpha in ALPHAS:
            slope, levels = slope_of(ranks, alpha), made.levels(alpha)
            for members in all_sets(m)[1:]:
                expected = bound_by_enumeration(ranks[0], slope, members)
                assert n_true(levels[list(members)]) == [expected]
                found += expected > 0
    assert found > 50 or n_rows == 3


@pytest.mark.some(4)
@pytest.mark.parametrize("alternative", ALTERNATIVES)
@pytest.mark.parametrize("steps", [0, 1, 3])
def test_so_many_rows_are_wrong_and_no_more(alternative, steps):
    # Any row may be the observed one. In silent positions at most a share of alpha of
    # them may show something in any set, whatever there is in the others.
    silent, wrong, n_rows, m = np.arange(12) >= 4, [], 40, 12
    for seed in range(5):
        rng = np.random.default_rng(seed)
        rows = rng.normal(size=(n_rows, m)) + rng.normal(size=(n_rows, 1))
        rows = np.rint(steps * rows) if steps else rows
        for effect in (0.0, 4.0):
            count = dict.fromkeys(ALPHAS, 0)
            for b in range(n_rows):
                shown = rows[[b, *range(b), *range(b + 1, n_rows)]]
                shown[0, ~silent] += effect
                made = calibrated(shown, alternative)
                for alpha in ALPHAS:
                    count[alpha] += int(n_true(made.levels(alpha)[silent])[0] > 0)
            for alpha, n in count.items():
                assert n <= alpha * n_rows
                wrong.append(n / (alpha * n_rows))
    # Without ties all that is allowed is used: a bound that is always 0 is right, too.
    assert max(wrong) == 1 if steps == 0 else max(wrong) > 0


@pytest.mark.parametrize("steps", [0, 1])
def test_two_tests_share_the_error(steps):
    # A position is silent if one of the hypotheses is true there: the first on the
    # left, the second on the right, and the second is not asked at some.
    n_rows, m, alpha = 100, 10, 0.4
    exempt = np.arange(m) >= 8
    left = np.arange(m) < 5
    rng = np.random.default_rng(3)
    first, second = rng.normal(size=(2, n_rows, m)) + rng.normal(size=(2, n_rows, 1))
    if steps:
        first, second = np.rint(5 * first), np.rint(5 * second)
    wrong = 0
    for b in range(n_rows):
        order = [b, *range(b), *range(b + 1, n_rows)]
        one, two = first[order], second[order]
        one[0, ~left] += 9.0
        two[0, left] += 9.0
        tests = [
            calibrated(one),
            calibrate(Null(two[0], two[1:], exempt=exempt)),
        ]
        levels = levels_of(tests, alpha)
        assert_array_equal(levels[1] == 0, exempt)
        wrong += int(n_true(levels[:, ~exempt])[0] > 0)
        # Where the second is not asked, the first alone decides.
        assert n_true(levels[:, exempt]) == n_true(levels[0, exempt])
    assert 0 < wrong <= alpha * n_rows


def test_bounds_of_several_sets_are_those_of_each():
    rng = np.random.default_rng(0)
    levels, sets = rng.integers(0, 9, (2, 60)), rng.integers(0, 5, 60)
    levels[0] += 1
    expected = [n_true(levels[:, sets == k])[0] for k in range(5)]
    assert_array_equal(n_true(levels, sets), expected)
    assert max(expected) > 0


def test_a_critical_rank_that_is_met_is_not_passed():
    # lambda is 3 / 7, which no float is; at k = 7 the critical rank is 3.
    statistics = np.r_[3 / 7, np.full(19, 9.0)]
    found = Calibration(np.array([3, 2, 4]), statistics).levels(0.01)
    assert_array_equal(found, [4, 4, 4])  # no more than m + 1
    ranks = np.r_[3, 2, 4, np.full(17, 20)]
    assert_array_equal(Calibration(ranks, statistics).levels(0.01)[:3], [8, 5, 10])


# --------------------------------------------------------------- ranks, memory and time


def test_ranks_count_ties_against_the_effect():
    values = np.array([[3.0, 1.0, 3.0, 2.0], [0.5, 0.5 + 1e-9, 0.1, 0.9]])
    assert_array_equal(rank(values), [[2, 4, 2, 3], [3, 2, 4, 1]])
    assert_array_equal(rank(values, 1e-8), [[2, 4, 2, 3], [3, 3, 4, 1]])


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("alternative", ALTERNATIVES)
def test_parts_and_counts_do_not_matter(monkeypatch, alternative, dtype):
    rng = np.random.default_rng(1)
    rows = np.rint(4 * rng.normal(size=(30, 101))).astype(dtype) / 7
    null = Null(rows[0], rows[1:], alternative=alternative)
    made = calibrate(null)
    for n_values, counting in ((1, True), (700, True), (700, False)):
        monkeypatch.setattr(discoveries, "_PART", n_values)
        monkeypatch.setattr(discoveries, "usable_memory", lambda: None)
        other = calibrate(null, counting)
        assert_array_equal(other.ranks, made.ranks)
        assert_array_equal(other.statistics, made.statistics)
    assert len(np.unique(made.statistics)) > 5


def test_what_does_not_fit_is_refused_beforehand(monkeypatch):
    rows = np.random.default_rng(0).normal(size=(20, 50))
    monkeypatch.setattr("mvpa_kfda.utils.memory.usable_memory", lambda: 100)
    with pytest.raises(ValueError, match=r"rank 20 maps of 50 positions needs .* kB"):
        calibrated(rows)


# ----------------------------------------------------------------------------- results


@clustered_maps
@pytest.mark.parametrize("alternative", ALTERNATIVES)
def test_ranks_are_p_values_and_rows_of_clusters_have_their_bounds(kind, alternative):
    result, how = clustered(kind), {"alternative": alternative}
    made = result.calibrations(**how)
    assert len(made) == (2 if "map" in kind else 1)
    ranks = np.max([each.ranks for each in made], axis=0)
    p = np.ravel(result.pvalues(**how))
    counted = np.isfinite(p)
    assert_array_equal(np.round(p[counted] * 60), ranks[counted])
    assert (ranks[~counted] == 0).all()
    result = clustered(kind)  # what is worked out is kept
    scores = result.metrics["accuracy"]
    scores[: len(scores) // 2] += 0.1
    table, found = result.clusters(threshold=0.4, alpha=0.3, **how), 0
    for _, row in table.iterrows():
        bound = result.true_discoveries(row, 0.3, **how)
        assert bound.n == row["size"]
        assert (bound.n_true, bound.share_true) == tuple(row[[*TRUE]])
        found += bound.n_true > 0
    assert found > 0 or alternative == "less"


def test_sets_may_be_given_in_many_ways(tmp_path):
    regions, voxels = clustered("regions"), clustered("voxels")
    inside = np.zeros((5, 6, 4))
    inside[2] = 1
    img = build.mask(inside, voxels.geometry.affine)
    img.to_filename(tmp_path / "mask.nii.gz")
    of_array = inside[voxels.geometry.mask] > 0
    vertices = clustered("vertices")
    chosen = np.arange(len(vertices.scores)) < 20
    n_voxels = np.isfinite(voxels.scores[of_array]).sum()
    n_vertices = np.isfinite(vertices.scores[chosen]).sum()
    times = clustered("times").times
    for kind, where, n in (
        ("times", None, 25),
        ("times", (0.0, 0.1), 11),
        ("times", times > 0.1, np.count_nonzero(times > 0.1)),
        ("sensors", "Oz", 25),
        ("sensors", ["Oz", "O1"], 50),
        ("sensors", (0.0, 0.02), 6 * 3),
        ("map", (0.0, 0.02), 9),
        ("regions", regions.geometry.names[1], 1),
        ("regions", int(regions.geometry.ids[1]), 1),
        ("voxels", img, n_voxels),
        ("voxels", of_array, n_voxels),
        ("voxels", str(tmp_path / "mask.nii.gz"), n_voxels),
        ("vertices", vertices.geometry.to_img(chosen.astype(float)), n_vertices),
        ("vertices", chosen, n_vertices),
    ):
        assert clustered(kind).true_discoveries(where).n == n, (kind, where)


@pytest.mark.parametrize(
    ("name", "where", "error", "words"),
    [
        ("times", (0.2, 0.1), ValueError, r"Allowed: None .* \(from, to\) in seconds"),
        ("times", (7.0, 9.0), ValueError, "None of the times is between 7 and 9 s"),
        ("times", "Oz", ValueError, "Allowed: None for the whole map"),
        ("times", 3, TypeError, "Allowed: None for the whole map"),
        ("times", np.ones(4, bool), ValueError, r"has the shape \(4,\), and the map"),
        ("times", np.zeros(25, bool), ValueError, "no position with a score"),
        ("sensors", "T7", ValueError, "Invalid value for 'where': 'T7'"),
        ("regions", "V9", ValueError, "There is no region of the name 'V9'"),
        ("voxels", (0.0, 1.0), ValueError, "an image that is 0 outside"),
    ],
)
def test_what_is_no_set(name, where, error, words):
    with pytest.raises(error, match=words):
        clustered(name).true_discoveries(where)


def test_rows_that_have_lost_their_positions():
    result, other = clustered("times"), clustered("power")
    table = result.clusters(threshold=0.4)
    for row in (table, table.loc[0].copy().rename("a"), table.iloc[0].to_frame()):
        with pytest.raises(ValueError, match="not a row of a table of clusters"):
            result.true_discoveries(row)
    with pytest.raises(ValueError, match=r"in a map of the shape \(25,\)"):
        other.true_discoveries(table.loc[0])


def test_only_whole_nulls_will_do():
    for null in ("max", "stream"):
        result = build.result("VolumeResult", n_permutations=39, null=null)
        with pytest.raises(ValueError, match=r"needs the whole null.*null='full'"):
            result.true_discoveries()
        assert TRUE[0] not in result.clusters("max", alpha=0.9)
    with pytest.raises(ValueError, match="no label permutations, so no true disc"):
        build.result(n_permutations=0).true_discoveries()


def test_largest_regions_are_those_of_a_walk():
    result, alpha, share, found = clustered("power"), 0.3, 0.4, 0
    heights = np.unique(result._heights(None, None)[0])
    expected = np.zeros(result.shape, int)
    z = result._heights(None, None)[0]
    for height in heights:
        for members in connected_sets(z >= height, build.near_in(result)):
            where = np.zeros(result.shape, bool)
            where[tuple(np.transpose(members))] = True
            bound = result.true_discoveries(where, alpha)
            if bound.share_true >= share:
                expected[where] = np.maximum(expected[where], bound.n)
                found += 1
    assert found > 2
    assert_array_equal(result.discovery_map(share, alpha), expected)
    assert (result.discovery_map(0.99, 1e-3) == 0).all()
    with pytest.raises(ValueError, match="Invalid value for 'share'"):
        result.discovery_map(2)


# ------------------------------------------------------------------------------ groups


@pytest.mark.some(4)
@pytest.mark.filterwarnings("ignore:With .* subjects")
@pytest.mark.parametrize("kind", ["TimeResult", "GeneralizationResult", "VolumeResult"])
@pytest.mark.parametrize("method", ["prevalence", "bootstrap", "sign-flip", "wilcoxon"])
def test_groups_have_bounds(tmp_path, method, kind):
    subjects = build.subjects(kind, 7, n_permutations=39)
    options = {"n_permutations": 199, "random_state": 0}
    group = group_inference(subjects, method, **options)
    found = [group.true_discoveries(alpha=a).n_true for a in (0.001, 0.05, 0.3)]
    assert found == sorted(found)
    by_labels = method in ("prevalence", "bootstrap")
    n_tests = 2 if kind == "GeneralizationResult" and by_labels else 1
    assert len(group.ranks) == n_tests
    table = group.clusters("max", alpha=0.3)
    for _, row in table.iterrows():
        bound = group.true_discoveries(row, 0.3)
        assert (bound.n, bound.n_true) == (row["size"], row[TRUE[0]])
    group.save(tmp_path / "group.h5")
    again = load_result(tmp_path / "group.h5")
    assert again == group
    assert repr(again.true_discoveries()) == repr(group.true_discoveries())


@pytest.mark.filterwarnings("ignore:With .* subjects")
def test_maps_of_many_positions_are_ranked_by_their_first_rows(monkeypatch):
    subjects = build.subjects(n=8, n_permutations=39)
    monkeypatch.setattr("mvpa_kfda.group.second_level._RANKED", 1)
    monkeypatch.setattr("mvpa_kfda.group.second_level._LEAST_RANKED", 99)
    first = group_inference(subjects, "sign-flip", random_state=0, n_permutations=199)
    assert first.n_permutations == 199
    assert first.rank_statistics.shape == (1, 100)
    assert (first.ranks <= 100).all()


def test_groups_without_ranks_say_why():
    subjects = build.subjects(n=6)
    group = group_inference(subjects, "t", "none", random_state=0)
    with pytest.raises(ValueError, match="Run group_inference again with"):
        group.true_discoveries()
    assert TRUE[0] not in group.clusters("none", alpha=0.9)
    group = group_inference(subjects, "sign-flip", random_state=0)
    with pytest.raises(ValueError, match="made with metric='accuracy'"):
        group.true_discoveries(metric="roc_auc")
    with pytest.raises(ValueError, match="again with alternative='less'"):
        group.true_discoveries(alternative="less")
    with pytest.raises(ValueError, match="no true discoveries of a comparison"):
        build.comparison().true_discoveries()


# ---------------------------------------------------------------------------- coverage


def coverage_of(shown, n):
    """Assert that at most so many of n data sets are wrong as chance allows at 5 %."""
    wrong = [shown(number) for number in range(n)]
    assert binom.sf(sum(wrong) - 1, n, 0.05) > 1e-3
    assert sum(wrong) > 0  # what claims nothing is never wrong


SILENT = np.arange(16) >= 5


def drawn_maps(rng, effect=1.2):
    """Return the result of 20 trials that differ in the first 5 of 16 positions."""
    y = rng.permutation(np.arange(20) % 2)
    X = gaussian_filter1d(rng.normal(size=(20, 2, 16)), 1.0, axis=2)
    X[y == 1] += effect * ~SILENT
    options = {"n_permutations": 99, "random_state": int(rng.integers(2**31))}
    return decode_arrays(X, y, cv=4, reg=0.3, scoring="roc_auc", **options)


@pytest.mark.slow
@pytest.mark.parametrize("alternative", ["greater", "two-sided"])
def test_bounds_cover_the_truth_in_subjects(alternative):
    def shown(number):
        result = drawn_maps(np.random.default_rng(number))
        return result.true_discoveries(SILENT, alternative=alternative).n_true > 0

    coverage_of(shown, 500)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:With 6 subjects")
@pytest.mark.parametrize("method", ["bootstrap", "sign-flip"])
def test_bounds_cover_the_truth_in_groups(method):
    def shown(number):
        rng = np.random.default_rng((7, number))
        subjects = [drawn_maps(rng) for _ in range(6)]
        options = {"n_permutations": 199, "random_state": number}
        group = group_inference(subjects, method, **options)
        return group.true_discoveries(SILENT).n_true > 0

    coverage_of(shown, 300)
