"""The cluster depth test equals plain loops, and claims no more than it may."""

import itertools
from types import SimpleNamespace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.ndimage import gaussian_filter1d
from scipy.stats import norm

from mvpa_kfda import compare, decode_arrays, generalize_arrays, group_inference
from mvpa_kfda.bids.analyses import ANALYSES
from mvpa_kfda.inference.corrections import correct, corrected_p_values
from mvpa_kfda.inference.null import ALTERNATIVES, Null
from mvpa_kfda.utils import memory

alternatives = pytest.mark.parametrize("alternative", ALTERNATIVES)
#: What a window cuts off is warned of, in tests where it does not matter, too.
cut = pytest.mark.filterwarnings("ignore:.* the first or the last time:RuntimeWarning")
CLOSE = {"rtol": 1e-12, "atol": 0}


# ------------------------------------------------------------------------- the oracle


def whole_clusters(row, height):
    """Return lists of the times of clusters, without those at either end."""
    found = []
    for inside, times in itertools.groupby(range(len(row)), lambda t: row[t] > height):
        times = list(times)
        if inside and times[0] > 0 and times[-1] < len(row) - 1:
            found.append(times)
    return found


def largest_at(rows, sides, height, depth, from_tail):
    """Return of each row the largest value at a depth of its clusters, or 0."""
    largest = []
    for row in rows:
        values = [0.0]
        for side in sides:
            for times in whole_clusters(side * row, height):
                times = times[::-1] if from_tail else times
                if len(times) > depth:
                    values.append(side * row[times[depth]])
        largest.append(max(values))
    return np.array(largest)


def step_down(table):
    """Return the p-values of Troendle of the first row of a table (P + 1, J)."""
    n_rows, n_depths = table.shape
    q = np.array(
        [
            [sum(table[:, j] >= table[b, j] - 1e-9) for j in range(n_depths)]
            for b in range(n_rows)
        ]
    )
    p, before = np.empty(n_depths), 0.0
    for j in sorted(range(n_depths), key=lambda j: q[0, j]):
        left = [i for i in range(n_depths) if q[0, i] >= q[0, j]]
        as_small = [min(q[b, left]) <= q[0, j] for b in range(n_rows)]
        before = p[j] = max(before, np.mean(as_small))
    return p


def oracle(rows, alternative, level, height=None):
    """Return p-values (T,) of the first row, by loops over all that there is."""
    sides = {"greater": [1], "less": [-1], "two-sided": [1, -1]}[alternative]
    if height is None:
        spread = rows.std(axis=0)
        rows = (rows - rows.mean(axis=0)) / np.where(spread > 1e-9, spread, np.inf)
        height = norm.isf(level / len(sides))
    p = np.ones(rows.shape[1])
    for side in sides:
        for times in whole_clusters(side * rows[0], height):
            both = []
            for from_tail in (False, True):
                ordered = times[::-1] if from_tail else times
                columns = [
                    largest_at(rows[1:], sides, height, depth, from_tail)
                    for depth in range(len(times))
                ]
                own = side * rows[0, ordered]
                found = step_down(np.vstack([own, np.transpose(columns)]))
                both.append(found[::-1] if from_tail else found)
            p[times] = np.max(both, axis=0)
    return p


def smooth_rows(seed, n_rows=40, n_times=30, width=1.0, effect=0.0):
    rows = np.random.default_rng(seed).normal(size=(n_rows, n_times))
    rows = gaussian_filter1d(rows, width, axis=1) if width else rows
    rows /= rows.std()
    rows[0, n_times // 3 : n_times // 2] += effect
    return rows


@cut
@alternatives
@pytest.mark.parametrize("height", [None, 0.8])
@pytest.mark.parametrize("decimals", [0, None])
def test_p_values_are_those_of_plain_loops(alternative, height, decimals, monkeypatch):
    monkeypatch.setattr(memory, "_BATCH", 200)
    seen, lengths = set(), set()
    for seed, (width, effect) in enumerate([(0, 0), (1, 0), (1, 2), (2, -2), (3, 3)]):
        rows = smooth_rows(seed, width=width, effect=effect)
        # Whole numbers tie within and between depths.
        rows = rows if decimals is None else (2 * rows).round(decimals) / 2
        null = Null(rows[0], rows[1:], None, 0.3, alternative, height=height)
        p = correct(null, "cluster-depth")
        assert_allclose(p, oracle(rows, alternative, 0.3, height), **CLOSE)
        seen.update(p)
        lengths.update(np.diff(np.flatnonzero(np.diff(p < 1))))
    assert len(seen) > 5
    assert max(lengths) > 2


@cut
@pytest.mark.parametrize("n_permutations", [1, 2, 19])
def test_few_permutations(n_permutations):
    for seed in range(5):
        rows = smooth_rows(seed, n_permutations + 1, effect=2)
        p = corrected_p_values(rows[0], rows[1:], "cluster-depth", threshold=0.4)
        assert_allclose(p, oracle(rows, "greater", 0.4), **CLOSE)
        assert (p >= 1 / (n_permutations + 1) - 1e-12).all()


def test_the_smallest_p_value_is_reached():
    rows = smooth_rows(0, 50)
    rows[0, 5:9] += 40
    p = corrected_p_values(rows[0], rows[1:], "cluster-depth")
    assert_allclose(p[5:9], np.full(4, 1 / 50), **CLOSE)


def test_a_time_deep_in_a_cluster_needs_less_than_one_at_its_end():
    """What is just above the threshold counts where no permutation gets."""
    rows = smooth_rows(1, 200, 60, 0.0)
    rows[0] = 0
    rows[0, 20:32] = 2.2
    p = corrected_p_values(rows[0], rows[1:], "cluster-depth")
    assert (p[24:28] <= 0.05).all()
    assert (np.diff(p[20:26]) <= 0).all()
    assert p[20] > 0.05
    assert (corrected_p_values(rows[0], rows[1:], "max") > 0.05).all()


# ------------------------------------------------------------- where there is no claim


@pytest.mark.parametrize("effect", [slice(0, 6), slice(25, 30), slice(0, 30)])
def test_clusters_that_the_window_cuts_are_left_out_and_counted(effect):
    rows = smooth_rows(2, 100)
    rows[0] = -0.5
    rows[0, effect] = 9
    with pytest.warns(RuntimeWarning, match=r"1 cluster reaches .* out \(p = 1\), as"):
        p = corrected_p_values(rows[0], rows[1:], "cluster-depth")
    assert_array_equal(p, np.ones(30))
    rows[0, [0, -1]] = 9
    rows[0, [1, -2, 14]] = -0.5, -0.5, 9
    with pytest.warns(RuntimeWarning, match="2 clusters reach the first or the last"):
        p = corrected_p_values(rows[0], rows[1:], "cluster-depth")
    assert p[0] == p[-1] == 1


def test_without_a_cluster_nothing_is_claimed_and_nothing_warned(recwarn):
    null = np.random.default_rng(0).normal(size=(30, 8))
    p = corrected_p_values(null.min(axis=0) - 1, null, "cluster-depth")
    assert_array_equal(p, np.ones(8))
    same = corrected_p_values(np.zeros(3), np.zeros((4, 3)), "cluster-depth")
    assert_array_equal(same, np.ones(3))
    assert not recwarn.list


@pytest.mark.parametrize(
    ("shape", "adjacency", "what"),
    [
        ((4, 5), None, "a map of 4 x 5 positions"),
        ((), None, "a single position"),
        ((6,), np.eye(6, k=1) + np.eye(6, k=-1), "a list of 6 positions in space"),
    ],
)
def test_other_maps_are_refused(shape, adjacency, what):
    rows = np.random.default_rng(0).normal(size=(10, *shape))
    with pytest.raises(ValueError, match=f"for time courses.*this is {what}.*'max'"):
        corrected_p_values(rows[0], rows[1:], "cluster-depth", adjacency=adjacency)


# ------------------------------------------------------------------------- in results


def decoded(seed=0, effect=1.5, **options):
    rng = np.random.default_rng(seed)
    y = rng.permutation(np.repeat(["face", "house"], 20))
    X = rng.normal(size=(40, 3, 24))
    X[y == "house", :, 9:15] += effect
    options = {"n_permutations": 60, "random_state": 0, "reg": 0.3} | options
    return decode_arrays(X, y, sfreq=10, cv=4, **options)


@cut
def test_results_of_subjects():
    result = decoded()
    p = result.pvalues("cluster_depth", threshold=0.1)
    expected = oracle(np.vstack([result.scores, result.null]), "greater", 0.1)
    assert_allclose(p, expected, **CLOSE)
    assert (p <= 0.05).any()
    table = result.to_dataframe(["cluster-depth"])
    assert_array_equal(table["p_cluster_depth"], result.pvalues("cluster-depth"))
    # Its clusters are of times that are significant one by one.
    rows = result.clusters("cluster-depth")
    assert rows["size"].sum() == (result.pvalues("cluster-depth") <= 0.05).sum()


@cut
def test_the_onset_is_the_first_time_that_is_claimed():
    result = decoded()
    p = result.pvalues("cluster-depth")
    assert result.onset("cluster-depth") == result.times[p <= 0.05].min()
    assert np.isnan(decoded(effect=0.0).onset("cluster-depth", alpha=0.001))
    with pytest.raises(ValueError, match=r"no onset with .*'max', .*'cluster-depth'"):
        result.onset("cluster")


@cut
@alternatives
def test_groups_of_subjects(alternative):
    results = [decoded(seed, n_permutations=0) for seed in range(7)]
    group = group_inference(
        results, "sign-flip", "cluster-depth", alternative=alternative
    )
    signs = np.array([*itertools.product([1, -1], repeat=7)])
    scores = np.array([each.scores - 0.5 for each in results])
    flipped = signs[:, :, np.newaxis] * scores
    t = flipped.mean(axis=1) / flipped.std(axis=1, ddof=1) * np.sqrt(7)
    assert_allclose(t[0], group.statistic, rtol=1e-9, atol=0)
    expected = oracle(t, alternative, None, group.cluster_height)
    assert_allclose(group.pvalues("cluster-depth"), expected, **CLOSE)
    assert (expected < 1).any()


@cut
def test_comparisons_equal_plain_loops():
    one, other = decoded(effect=2.5), decoded(effect=2.5, kernel="rbf")
    plain = compare(one, other, correction="cluster-depth", threshold=0.3)
    rows = np.vstack([one.scores - other.scores, one.null - other.null])
    assert_allclose(plain.pvalues(), oracle(rows, "two-sided", 0.3), rtol=1e-9, atol=0)


def test_maps_of_time_generalization_are_refused():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(24, 3, 5)), rng.permutation(24) % 2
    result = generalize_arrays(X, y, cv=2, n_permutations=9, random_state=0)
    with pytest.raises(ValueError, match="'cluster-depth' is for time courses"):
        result.pvalues("cluster-depth")


@pytest.mark.parametrize(
    ("analysis", "sensors", "allowed"),
    [("time", False, True), ("time", True, False), ("generalization", False, False)],
)
def test_the_bids_command_refuses_other_maps_before_it_decodes(
    analysis, sensors, allowed
):
    unused = {name: (name, None, False) for name in ANALYSES[analysis].unused()}
    config = unused | {
        "correction": ("correction", ["max", "cluster-depth"], True),
        "sensors": ("sensors", sensors, sensors),
    }
    unit = SimpleNamespace(datatype="eeg")
    if allowed:
        ANALYSES[analysis].check(analysis, unit, config)
        return
    with pytest.raises(ValueError, match=r"cluster-depth is for .*--analysis time"):
        ANALYSES[analysis].check(analysis, unit, config)


# ------------------------------------------------------------------------ false claims


@cut
@pytest.mark.slow
@pytest.mark.parametrize("width", [0, 2, 5])
@pytest.mark.parametrize("effect", [0, 3])
@pytest.mark.parametrize("alternative", ["greater", "two-sided"])
def test_silent_times_are_claimed_in_five_per_cent_at_most(width, effect, alternative):
    rng, n, false, found = np.random.default_rng(width), 500, 0, 0.0
    silent = np.ones(100, dtype=bool)
    silent[40:60] = not effect
    for _ in range(n):
        rows = rng.normal(size=(200, 140))
        rows = gaussian_filter1d(rows, width, axis=1) if width else rows
        rows = rows[:, 20:-20] / rows.std()
        rows[0, ~silent] += effect
        how = {"alternative": alternative}
        p = corrected_p_values(rows[0], rows[1:], "cluster-depth", **how)
        false += (p[silent] <= 0.05).any()
        found += (p <= 0.05).sum() / n
    # Four standard errors of 5 %.
    assert false / n <= 0.05 + 4 * np.sqrt(0.05 * 0.95 / n)
    assert found > (5 if effect else 0)
