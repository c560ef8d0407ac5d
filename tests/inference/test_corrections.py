"""Every correction equals brute force, and MNE's tests of exact sign flips."""

import itertools

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from scipy.stats import false_discovery_control, norm

from mvpa_kfda import generalize_arrays
from mvpa_kfda.inference.clusters import tfce
from mvpa_kfda.inference.corrections import (
    CORRECTIONS,
    KeptTest,
    check_correction,
    correct,
    corrected_p_values,
    find_islands,
    nulls_of,
    p_values,
    smallest_p_value,
)
from mvpa_kfda.inference.null import ALTERNATIVES, Null, summarize_null
from mvpa_kfda.utils import memory
from mvpa_kfda.viz.style import check_request
from tests import islands

corrections = pytest.mark.parametrize("correction", CORRECTIONS)
#: Those of maps with any number of dimensions.
ON_MAPS = [name for name, known in CORRECTIONS.items() if not known.of_courses]
on_maps = pytest.mark.parametrize("correction", ON_MAPS)
alternatives = pytest.mark.parametrize("alternative", ALTERNATIVES)


class Lazy:
    """A null whose rows are worked out when they are asked for."""

    def __init__(self, null):
        self._null, self.dtype = null, null.dtype
        self.shape, self.ndim = null.shape, null.ndim
        self.most = 0

    def __len__(self):
        return len(self._null)

    def __getitem__(self, rows):
        assert isinstance(rows, slice)
        part = self._null[rows] * 1
        self.most = max(self.most, part.size)
        return part


def tied_rows(n_rows=30, shape=(4, 3), seed=0):
    """Return rows of few different scores, the first with an effect both ways."""
    rows = np.random.default_rng(seed).binomial(6, 0.5, (n_rows, *shape)) / 7
    rows[0].flat[:2] = 6 / 7, 7 / 7
    rows[0].flat[-2:] = -1 / 7, 0
    return rows


def random_graph(n, seed=0):
    graph = np.random.default_rng(seed).random((n, n)) < 0.15
    return sparse.csr_array(graph | graph.T)


# ------------------------------------------------------------------------ brute force


def neighbours_of(shape, adjacency):
    """Return the set of neighbours of every flat position."""
    n = int(np.prod(shape))
    if adjacency is not None:
        matrix = adjacency.toarray() != 0
        return [set(np.flatnonzero(matrix[i])) - {i} for i in range(n)]
    where = list(np.ndindex(*shape))
    return [
        {j for j in range(n) if np.abs(np.subtract(where[i], where[j])).sum() == 1}
        for i in range(n)
    ]


def connected_sets(above, neighbours):
    """Return the connected sets of the positions that are above."""
    left, found = set(np.flatnonzero(above)), []
    while left:
        waiting, members = [left.pop()], []
        while waiting:
            members.append(waiting.pop())
            more = neighbours[members[-1]] & left
            left -= more
            waiting += more
        found.append(members)
    return found


def enhance(row, neighbours):
    scores = np.zeros(len(row))
    heights = np.unique(np.append(row[row > 0], 0.0))
    for low, high in itertools.pairwise(heights):
        for members in connected_sets(row > low, neighbours):
            scores[members] += len(members) ** 0.5 * (high**3 - low**3) / 3
    return scores


def cluster_values(row, correction, height, neighbours):
    """Return every position's value of the cluster statistic, 0 in no cluster."""
    if correction == "tfce":
        return enhance(row, neighbours)
    values = np.zeros(len(row))
    for members in connected_sets(row > height, neighbours):
        size = correction == "cluster-size"
        values[members] = len(members) if size else row[members].sum()
    return values


def brute_force(rows, correction, alternative, neighbours, threshold, height):
    """Return p-values; the first row is the observed one. Close scores are ties."""
    rows = rows.reshape(len(rows), -1)
    m = rows.shape[1]
    sides = {"greater": [1], "less": [-1], "two-sided": [1, -1]}[alternative]
    mean = rows.mean(axis=0) if height is None else 0.0
    if correction in ("cluster", "cluster-size", "tfce"):
        maps = rows if height is not None else (rows - mean) / rows.std(axis=0)
        if height is None:
            height = norm.isf(threshold / len(sides))
        values = np.array(
            [
                np.max(
                    [
                        cluster_values(side * row, correction, height, neighbours)
                        for side in sides
                    ],
                    axis=0,
                )
                for row in maps
            ]
        )
        largest = values.max(axis=1)
        # Enhanced scores of heights near 0 are tiny.
        return np.array([np.mean(largest >= each * (1 - 1e-9)) for each in values[0]])
    turned = np.abs(rows - mean) if len(sides) == 2 else sides[0] * rows
    observed = turned[0]
    p = np.array([np.mean(turned[:, i] >= observed[i] - 1e-9) for i in range(m)])
    if correction == "max":
        return np.array([np.mean(turned.max(axis=1) >= o - 1e-9) for o in observed])
    if correction == "max-step-down":
        p, before = np.empty(m), 0.0
        for i in np.argsort(-observed, kind="stable"):
            smaller = turned[:, observed <= observed[i] + 1e-9]
            reach = smaller.max(axis=1) >= observed[i] - 1e-9
            before = p[i] = max(before, np.mean(reach))
        return p
    if correction == "bonferroni":
        return np.minimum(1, m * p)
    if correction == "holm":  # times the number of those that are no smaller
        times = np.array([each * (p >= each).sum() for each in p])
        return np.array([min(1, times[p <= each].max()) for each in p])
    if correction in ("fdr", "fdr-by"):
        factor = sum(1 / k for k in range(1, m + 1)) if correction == "fdr-by" else 1
        ranked = [factor * m * p[j] / (p <= p[j]).sum() for j in range(m)]
        return np.array([min(1, *(np.array(ranked)[p >= each])) for each in p])
    return p


@on_maps
@alternatives
@pytest.mark.parametrize("height", [None, 0.4])
@pytest.mark.parametrize("graph", [False, True])
def test_every_correction_equals_brute_force(
    correction, alternative, height, graph, monkeypatch
):
    monkeypatch.setattr(memory, "_BATCH", 100)
    seen = set()
    for seed in range(2):
        rows = tied_rows(60, seed=seed) - (0 if height is None else 0.43)
        adjacency = random_graph(12, seed) if graph else None
        null = Null(rows[0], rows[1:], adjacency, 0.4, alternative, height=height)
        p = correct(null, correction)
        neighbours = neighbours_of((4, 3), adjacency)
        expected = brute_force(rows, correction, alternative, neighbours, 0.4, height)
        assert p.shape == (4, 3)
        assert_allclose(p.ravel(), expected, rtol=1e-12, atol=0)
        seen.update(p.flat)
    assert len(seen) > 1


@corrections
@alternatives
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("height", [None, 0.1])
def test_a_lazy_null_equals_an_array(
    correction, alternative, dtype, height, monkeypatch
):
    monkeypatch.setattr(memory, "_BATCH", 60)
    of_courses = CORRECTIONS[correction].of_courses
    for shape in ((12,),) if of_courses else ((), (7,), (3, 5)):
        rows = np.random.default_rng(1).normal(size=(45, *shape)).astype(dtype)
        lazy = Lazy(rows[1:])
        options = {"threshold": 0.2, "alternative": alternative, "height": height}
        p = correct(Null(rows[0], lazy, **options), correction)
        expected = correct(Null(rows[0], rows[1:], **options), correction)
        assert_array_equal(p, expected)
        assert 0 < lazy.most <= 60


@alternatives
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_one_position_needs_no_correction(alternative, dtype):
    for seed in range(20):
        # Accuracies near 0.5 differ by little from their mean: ties must survive that.
        rows = 0.5 + np.random.default_rng(seed).integers(-2, 3, 50) / (600 + 7 * seed)
        if seed % 2:  # the same far above the mean as below
            rows = np.concatenate([rows, 1 - rows])
        null = rows[1:].astype(dtype)
        p = p_values(rows[0], null, alternative)
        for name in ("max", "max-step-down", "bonferroni", "fdr", "fdr-by"):
            assert p == corrected_p_values(rows[0], null, name, alternative=alternative)
        exact = brute_force(rows, "none", alternative, None, None, None)
        assert_allclose(p, exact[0], rtol=1e-12, atol=0)


# --------------------------------------------------------------- MNE's exact sign flips


# -------------------------------------------------------------------- each of them


def test_clusters_of_both_sides():
    rows = np.random.default_rng(2).normal(size=(60, 20))
    rows[0, 3:6] += 6
    rows[0, 6:9] -= 5
    null = Null(rows[0], rows[1:], None, 0.02, "two-sided")
    labels, [masses], [sizes] = find_islands([null])
    up, down = labels[3], labels[6]
    assert_array_equal(np.flatnonzero(labels == up), [3, 4, 5])
    assert_array_equal(np.flatnonzero(labels == down), [6, 7, 8])
    assert sizes[up - 1] == sizes[down - 1] == 3
    z = (rows[0] - rows.mean(axis=0)) / rows.std(axis=0)
    assert masses[up - 1] == pytest.approx(z[3:6].sum(), rel=1e-10)
    assert masses[down - 1] == pytest.approx(-z[6:9].sum(), rel=1e-10)
    p = corrected_p_values(
        rows[0], rows[1:], "cluster", threshold=0.02, alternative="two-sided"
    )
    assert p[3] == 1 / 60
    assert p[6] == (1 + (null.cluster_maximum >= masses[down - 1]).sum()) / 60
    less, [of_less], _ = find_islands([Null(rows[0], rows[1:], None, 0.01, "less")])
    assert_array_equal(np.flatnonzero(less == less[6]), [6, 7, 8])
    assert of_less[less[6] - 1] == pytest.approx(masses[down - 1], rel=1e-10)


@on_maps
def test_the_smallest_p_value_is_reached_and_not_passed(correction):
    null = np.random.default_rng(0).normal(size=(49, 6))
    p = corrected_p_values(np.full(6, 99.0), null, correction)
    least = smallest_p_value(49, 6, correction)
    assert_allclose(p, np.full(6, least), rtol=1e-12, atol=0)
    harmonic = 1 + 1 / 2 + 1 / 3 + 1 / 4 + 1 / 5 + 1 / 6
    factor = {"bonferroni": 6, "holm": 6, "fdr-by": harmonic}.get(correction, 1)
    assert least == pytest.approx(factor / 50, rel=1e-12)
    assert smallest_p_value(1, 100, "bonferroni") == 1.0
    assert isinstance(least, float)


# ------------------------------------------------------------------- single properties


def noise(shape=(20,), n_permutations=199, seed=0, effect=None):
    """Return observed scores and a null of the same noise; `effect` adds to a part."""
    rng = np.random.default_rng(seed)
    rows = 0.5 + 0.05 * rng.normal(size=(n_permutations + 1, *shape))
    if effect is not None:
        rows[0, effect] += 0.3
    return rows[0], rows[1:]


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
    labels, *_ = find_islands([Null(observed, null, None, 0.5)])
    assert labels.any()
    assert labels[2] == 0


def test_no_cluster_at_all():
    null = np.random.default_rng(0).normal(size=(30, 8))
    observed = null.min(axis=0) - 1
    assert not find_islands([Null(observed, null)])[0].any()
    for correction in ("cluster", "cluster-size", "tfce"):
        assert (corrected_p_values(observed, null, correction) == 1).all()


def test_corrections_refuse():
    observed, null = noise()
    with pytest.raises(
        ValueError, match=r"'correction': 'holms'. Allowed: 'none', 'ma"
    ):
        corrected_p_values(observed, null, "holms")
    with pytest.raises(ValueError, match="There are no permutations"):
        corrected_p_values(observed, null[:0], "max")
    for threshold in (0, -1, 0.6, np.nan):
        with pytest.raises(ValueError, match="Invalid value for 'threshold'"):
            corrected_p_values(observed, null, "cluster", threshold=threshold)


# --------------------------------------------------------------------------- names


def test_names_of_corrections():
    other = {
        None: "none",
        "fdr_by": "fdr-by",
        "fdr-bh": "fdr",
        "fdr_bh": "fdr",
        "cluster_mass": "cluster",
        "step-down": "max-step-down",
        "max_step_down": "max-step-down",
        "cluster_size": "cluster-size",
    }
    for given, name in other.items():
        assert check_correction(given) == name
        rows = tied_rows()
        assert_array_equal(
            corrected_p_values(rows[0], rows[1:], given),
            corrected_p_values(rows[0], rows[1:], name),
        )
    for name in CORRECTIONS:
        assert check_correction(name) == name
    for wrong in ("holms", "", 3, ["max"], np.array(["max"])):
        with pytest.raises(ValueError, match=r"for 'correction'.*'fdr-by', 'cluster'"):
            check_correction(wrong)
    with pytest.raises(ValueError, match="Invalid value for 'corrections': 'holms'"):
        check_correction("holms", "corrections")


def test_alternatives_and_heights_are_checked():
    rows = tied_rows()
    for function in (corrected_p_values, p_values):
        with pytest.raises(ValueError, match=r"'both'. Allowed: 'greater', 'less', 't"):
            function(rows[0], rows[1:], alternative="both")
    for height in (0, -1.0, np.nan):
        with pytest.raises(ValueError, match="Invalid value for 'height'"):
            Null(rows[0], rows[1:], height=height)
    with pytest.raises(ValueError, match=r"got null \(29, 4, 3\) and observed \(12,\)"):
        Null(rows[0].ravel(), Lazy(rows[1:]))
    rows[3, 1, 1] = np.nan
    with pytest.raises(ValueError, match="NaN or infinite"):
        Null(rows[0], Lazy(rows[1:]))


# ------------------------------------------------------------------------- in results


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    y = np.repeat(["face", "house"], 15)
    X = rng.normal(size=(30, 3, 5))
    X[y == "house", :, 2:] += 0.8
    return X, y


@pytest.fixture(scope="module")
def result(data):
    return generalize_arrays(*data, n_permutations=60, random_state=0, null="full")


@alternatives
def test_p_values_of_a_time_course(result, alternative):
    course = result.diagonal()
    for name in CORRECTIONS:
        p = course.pvalues(name, threshold=0.3, alternative=alternative)
        expected = corrected_p_values(
            course.scores, course.null, name, threshold=0.3, alternative=alternative
        )
        assert_array_equal(p, expected)
    assert_array_equal(course.pvalues("step_down"), course.pvalues("max-step-down"))


@alternatives
def test_p_values_of_time_generalization_are_those_of_both_tests(result, alternative):
    (second,) = result.second_nulls.values()
    (scores,) = result.second_scores.values()
    tests = (result.scores, result.null), (scores, second)
    diagonal = np.eye(5, dtype=bool)
    options = {"threshold": 0.3, "alternative": alternative}
    both = {}
    for name in {*ON_MAPS} - {*ISLANDS}:
        p = [corrected_p_values(*test, name, **options) for test in tests]
        both[name] = np.maximum(p[0], np.where(diagonal, 0, p[1]))
    flat = both["none"].ravel()
    both["fdr"] = false_discovery_control(flat).reshape(5, 5)
    both["fdr-by"] = false_discovery_control(flat, method="by").reshape(5, 5)
    cells = {(k, k) for k in range(5)}
    tests = [
        islands.Test(*test, exempt)
        for test, exempt in zip(tests, ((), cells), strict=True)
    ]
    for name in ISLANDS:
        both[name] = islands.p_values(tests, name, alternative, 0.3)
    for name, expected in both.items():
        p = result.pvalues(name, **options)
        assert_allclose(p, expected, rtol=1e-12, atol=0)


# ------------------------------------------- clusters that several tests have in common

ISLANDS = ["cluster", "cluster-size", "tfce"]


def several(shape, seed, n_tests, n_permutations=24):
    """Return observed maps and nulls of tests, smooth, with effects in common."""
    rng = np.random.default_rng(seed)
    effect = np.linspace(-2.5, 2.5, int(np.prod(shape))).reshape(shape)
    kept = []
    for _ in range(n_tests):
        rows = rng.normal(size=(n_permutations + 1, *shape))
        for axis in range(1, rows.ndim):
            rows = rows + np.roll(rows, 1, axis)
        rows[0] += effect
        kept.append((rows[0], rows[1:]))
    return kept


def masks_of(shape, n_tests):
    """Return who is exempt from each test: nobody, the diagonal, and a corner."""
    diagonal, corner = np.zeros((2, *shape), dtype=bool)
    np.fill_diagonal(diagonal, True)
    corner[:2, -2:] = True
    return [None, diagonal, corner][:n_tests]


@pytest.mark.some(6)
@alternatives
@pytest.mark.parametrize("n_tests", [1, 2, 3])
@pytest.mark.parametrize("height", [None, 1.5])
def test_islands_are_those_of_plain_loops(n_tests, alternative, height):
    shape, found = (5, 6), 0
    for seed in range(2):
        kept, masks = several(shape, seed, n_tests), masks_of(shape, n_tests)
        pairs = [*zip(kept, masks, strict=True)]
        nulls = [
            Null(*maps, None, 0.3, alternative, height=height, exempt=mask)
            for maps, mask in pairs
        ]
        plain = [
            islands.Test(
                *maps,
                () if mask is None else map(tuple, np.argwhere(mask).tolist()),
                standardise=height is None,
            )
            for maps, mask in pairs
        ]
        for name in ISLANDS:
            p = correct(nulls, name)
            expected = islands.p_values(plain, name, alternative, 0.3, height=height)
            assert_allclose(p, expected, rtol=1e-12, atol=0, err_msg=name)
            found += len(np.unique(p))
    assert found > 2 * len(ISLANDS)  # some p-value differs from others


def test_islands_on_a_graph_and_in_summaries():
    shape, pairs = (12,), np.array([[0, 1, 2, 4, 5, 6, 9], [3, 5, 4, 8, 7, 9, 11]])
    graph = np.zeros((12, 12), dtype=bool)
    graph[tuple(pairs)] = graph[tuple(pairs[::-1])] = True
    near = {(i,): [(int(j),) for j in np.flatnonzero(graph[i])] for i in range(12)}
    exempt = np.isin(np.arange(12), [4, 9])
    for seed in range(4):
        pairs, masks = several(shape, seed, 2), [None, exempt]
        tests = [
            islands.Test(*maps, () if mask is None else [(4,), (9,)])
            for maps, mask in zip(pairs, masks, strict=True)
        ]
        how = {"adjacency": graph, "threshold": 0.3}
        summaries = [
            summarize_null(*maps, with_clusters=True, exempt=mask, **how)
            for maps, mask in zip(pairs, masks, strict=True)
        ]
        for name in ISLANDS:
            expected = islands.p_values(tests, name, "greater", 0.3, near)
            for each in ([null for _, null in pairs], summaries):
                if each is summaries and name == "cluster-size":
                    continue
                kept = [
                    KeptTest(observed, null, mask)
                    for (observed, _), null, mask in zip(
                        pairs, each, masks, strict=True
                    )
                ]
                p = correct(nulls_of(kept, **how), name)
                assert_allclose(p, expected, rtol=1e-12, atol=0)


def test_a_cell_far_from_an_island_lends_it_no_mass():
    """What one test finds, and the other does not, carries no cell along."""
    z = np.zeros((2, 3, 7))
    z[0, 1], z[1, 1] = [3, 3, 3, 3, 3, 0, 3], [3, 0, 0, 0, 3, 0, 3]
    rng = np.random.default_rng(0)
    nulls = [Null(each, rng.normal(size=(99, 3, 7)), height=1.6) for each in z]
    p = correct(nulls, "cluster")
    alone = [correct(null, "cluster") for null in nulls]
    assert alone[0][1, 0] == alone[0][1, 4] < alone[0][1, 6]
    assert p[1, 0] == p[1, 4] == p[1, 6] > 5 * alone[0][1, 0]
    assert (p[1, 1:4] == 1).all()


def test_a_summary_says_what_it_lacks(data):
    kept = generalize_arrays(*data, n_permutations=60, random_state=0, null="max")
    for name in ("max-step-down", "cluster-size"):
        with pytest.raises(
            ValueError, match=rf"'{name}' needs the whole null.*'full', .* in 6 kB\.$"
        ):
            kept.pvalues(name)
    for alternative in ("less", "two-sided"):
        with pytest.raises(ValueError, match=rf"'{alternative}' needs .*null='full'"):
            kept.pvalues("max", alternative=alternative)
    with pytest.raises(ValueError, match=r"'up'. Allowed: 'greater', 'less', 'two-si"):
        kept.pvalues("max", alternative="up")


def test_p_values_in_tables_and_figures(result):
    table = result.to_dataframe(["fdr_by", "step-down", "max"])
    assert list(table.columns)[-4:] == ["p", "p_fdr_by", "p_max_step_down", "p_max"]
    assert_array_equal(table["p_fdr_by"], result.pvalues("fdr-by").ravel())
    assert_array_equal(table["p_max_step_down"], result.pvalues("step-down").ravel())
    assert "p_cluster_size" in result.to_dataframe("cluster-size")
    with pytest.raises(ValueError, match=r"'corrections': 'holms'. Allowed: 'none'"):
        result.to_dataframe(["holms"])
    assert check_request(result, None, "cluster_mass", 0.05)[1] == "cluster"
    with pytest.raises(ValueError, match=r"'correction': 'holms'. Allowed: 'none'"):
        check_request(result, None, "holms", 0.05)


@pytest.mark.parametrize("scale", [1 - 1e-12, 1 + 1e-12])
def test_tfce_of_equal_scores_is_not_split_by_rounding(scale):
    """Where few scores are possible, as with few trials."""
    rows = np.random.default_rng(0).integers(-15, 16, size=(200, 12)) / 5
    expected = correct(Null(rows[0], rows[1:], height=1.8), "tfce")
    found = correct(Null(rows[0] * scale, rows[1:] * scale, height=1.8), "tfce")
    assert_array_equal(found, expected)
    assert_allclose(tfce(rows * scale), tfce(rows), rtol=1e-10, atol=0)
