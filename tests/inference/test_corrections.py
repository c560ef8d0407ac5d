"""Every correction gives the p-values of the plain oracle, whatever it is asked."""

import itertools
from contextlib import nullcontext
from types import SimpleNamespace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from scipy.ndimage import gaussian_filter1d

from mvpa_kfda import compare, decode_arrays, generalize_arrays
from mvpa_kfda.bids.analyses import ANALYSES
from mvpa_kfda.inference.clusters import tfce
from mvpa_kfda.inference.corrections import (
    CORRECTIONS,
    KeptTest,
    check_correction,
    correct,
    corrected_p_values,
    find_islands,
    nearest_to_zero,
    nulls_of,
    p_values,
    smallest_p_value,
)
from mvpa_kfda.inference.null import ALTERNATIVES, Null, summarize_null
from mvpa_kfda.utils import memory
from tests import build, reference_group

#: Those of maps with any number of dimensions.
ON_MAPS = [name for name, known in CORRECTIONS.items() if not known.of_courses]
on_maps = pytest.mark.parametrize("correction", ON_MAPS)
alternatives = pytest.mark.parametrize("alternative", ALTERNATIVES)
#: What a window cuts off is warned of, in tests where it does not matter, too.
cut = pytest.mark.filterwarnings("ignore:.* the first or the last time:RuntimeWarning")
CLOSE = {"rtol": 1e-12, "atol": 0}
#: Corrections by what several tests have in common.
ISLANDS = ["cluster", "cluster-size", "tfce"]


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


def p_by_oracle(rows, correction, *how, **more):
    """Return the oracle's p-values of rows (P + 1, positions...)."""
    p = reference_group.p_values(
        [reference_group.null_of(rows, *how, **more)], correction
    )
    return p.reshape(rows.shape[1:])


def tied_rows(n_rows=30, shape=(4, 3), seed=0):
    """Return rows of few different scores, the first with an effect both ways."""
    rows = np.random.default_rng(seed).binomial(6, 0.5, (n_rows, *shape)) / 7
    rows[0].flat[:2] = 6 / 7, 7 / 7
    rows[0].flat[-2:] = -1 / 7, 0
    return rows


def smooth_rows(seed, n_rows=40, n_times=30, width=1.0, effect=0.0):
    """Return time courses, the first with an effect."""
    rows = np.random.default_rng(seed).normal(size=(n_rows, n_times))
    rows = gaussian_filter1d(rows, width, axis=1) if width else rows
    rows /= rows.std()
    rows[0, n_times // 3 : n_times // 2] += effect
    return rows


def random_graph(n, seed=0):
    graph = np.random.default_rng(seed).random((n, n)) < 0.15
    return sparse.csr_array(graph | graph.T)


# ------------------------------------------------------------------------ the oracle


@on_maps
@alternatives
@pytest.mark.parametrize("height", [None, 0.4])
@pytest.mark.parametrize("graph", [False, True])
def test_every_correction_equals_the_oracle(
    correction, alternative, height, graph, monkeypatch
):
    monkeypatch.setattr(memory, "_BATCH", 100)
    seen = set()
    for seed in range(2):
        rows = tied_rows(60, seed=seed) - (0 if height is None else 0.43)
        adjacency = random_graph(12, seed) if graph else None
        null = Null(rows[0], rows[1:], adjacency, 0.4, alternative, height=height)
        p = correct(null, correction)
        how = alternative, 0.4, height
        expected = p_by_oracle(rows, correction, *how, adjacency=adjacency)
        assert p.shape == (4, 3)
        assert_allclose(p, expected, **CLOSE)
        seen.update(p.flat)
    assert len(seen) > 1


@cut
@alternatives
@pytest.mark.parametrize("height", [None, 0.8])
@pytest.mark.parametrize("decimals", [0, None])
def test_depths_equal_the_oracle(alternative, height, decimals, monkeypatch):
    monkeypatch.setattr(memory, "_BATCH", 200)
    seen, lengths = set(), set()
    for seed, (width, effect) in enumerate([(0, 0), (1, 2), (2, -2), (3, 3)]):
        rows = smooth_rows(seed, 30 if seed else 3, width=width, effect=effect)
        # Whole numbers tie within and between depths.
        rows = rows if decimals is None else (2 * rows).round(decimals) / 2
        null = Null(rows[0], rows[1:], None, 0.3, alternative, height=height)
        p = correct(null, "cluster-depth")
        expected = p_by_oracle(rows, "cluster-depth", alternative, 0.3, height)
        assert_allclose(p, expected, **CLOSE)
        seen.update(p)
        lengths.update(np.diff(np.flatnonzero(np.diff(p < 1))))
    assert len(seen) > 5
    assert max(lengths) > 2


@pytest.mark.parametrize(
    ("correction", "alternative", "dtype", "height"),
    build.every_pair(
        list(itertools.product(CORRECTIONS, ALTERNATIVES, ("f8", "f4"), (None, 0.1)))
    ),
)
@cut
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
        exact = p_by_oracle(rows[:, np.newaxis], "none", alternative)
        assert_allclose(p, exact[0], **CLOSE)


# ------------------------------------------------------------------- single properties


@on_maps
def test_the_smallest_p_value_is_reached_and_not_passed(correction):
    null = np.random.default_rng(0).normal(size=(49, 6))
    p = corrected_p_values(np.full(6, 99.0), null, correction)
    least = smallest_p_value(49, 6, correction)
    assert_allclose(p, np.full(6, least), **CLOSE)
    harmonic = 1 + 1 / 2 + 1 / 3 + 1 / 4 + 1 / 5 + 1 / 6
    factor = {"bonferroni": 6, "holm": 6, "fdr-by": harmonic}.get(correction, 1)
    assert least == pytest.approx(factor / 50, rel=1e-12)
    assert smallest_p_value(1, 100, "bonferroni") == 1.0
    assert isinstance(least, float)


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


def noise(shape=(20,), n_permutations=199, seed=0):
    """Return observed scores and a null of the same noise."""
    rows = np.random.default_rng(seed).normal(size=(n_permutations + 1, *shape))
    rows = 0.5 + 0.05 * rows
    return rows[0], rows[1:]


def test_without_a_cluster_nothing_is_claimed_and_nothing_warned(recwarn):
    null = np.random.default_rng(0).normal(size=(30, 8))
    observed = null.min(axis=0) - 1
    assert not find_islands([Null(observed, null)])[0].any()
    for name in [*ISLANDS, "cluster-depth"]:
        assert (corrected_p_values(observed, null, name) == 1).all()
    for name in CORRECTIONS:  # all are ties
        assert (corrected_p_values(np.zeros(3), np.zeros((4, 3)), name) == 1).all()
    assert not recwarn.list


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


@pytest.mark.parametrize("scale", [1 - 1e-12, 1 + 1e-12])
def test_tfce_of_equal_scores_is_not_split_by_rounding(scale):
    """Where few scores are possible, as with few trials."""
    rows = np.random.default_rng(0).integers(-15, 16, size=(200, 12)) / 5
    expected = correct(Null(rows[0], rows[1:], height=1.8), "tfce")
    found = correct(Null(rows[0] * scale, rows[1:] * scale, height=1.8), "tfce")
    assert_array_equal(found, expected)
    assert_allclose(tfce(rows * scale), tfce(rows), rtol=1e-10, atol=0)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_positions_without_spread_are_in_no_cluster(dtype):
    observed, null = noise((6,), 19)
    observed[2], null[:, 2] = 1 / 3, 1 / 3
    null = null.astype(dtype)
    null[4, 2] = np.nextafter(null[4, 2], dtype(1))  # equal but for rounding
    mean, sd = Null(observed, null).moments
    assert mean[2] == pytest.approx(1 / 3, rel=1e-7)
    assert sd[2] == 0
    assert (np.delete(sd, 2) > 0.01).all()
    for correction in ISLANDS:
        assert corrected_p_values(observed, null, correction)[2] == 1.0
    labels, *_ = find_islands([Null(observed, null, None, 0.5)])
    assert labels.any()
    assert labels[2] == 0


# ------------------------------------------- clusters that several tests have in common


def several(shape, seed, n_tests, n_permutations=24):
    """Return rows of tests, smooth, with effects in common."""
    effect = np.linspace(-2.5, 2.5, int(np.prod(shape))).reshape(shape)
    rows = [
        build.smooth_maps(n_permutations + 1, shape, [seed, k]) for k in range(n_tests)
    ]
    for each in rows:
        each[0] += effect
    return rows


def masks_of(shape, n_tests):
    """Return who is exempt from each test: nobody, the diagonal, and a corner."""
    diagonal, corner = np.zeros((2, *shape), dtype=bool)
    np.fill_diagonal(diagonal, True)
    corner[:2, -2:] = True
    return [None, diagonal, corner][:n_tests]


def p_of_both(rows, masks, correction, *how, **more):
    """Return the oracle's p-values of several tests, not flat."""
    pairs = zip(rows, masks, strict=True)
    nulls = [
        reference_group.null_of(each, *how, exempt=mask, **more) for each, mask in pairs
    ]
    return reference_group.p_values(nulls, correction).reshape(rows[0].shape[1:])


@pytest.mark.some(6)
@alternatives
@pytest.mark.parametrize("n_tests", [1, 2, 3])
@pytest.mark.parametrize("height", [None, 1.5])
def test_tests_that_all_have_to_reject_equal_the_oracle(n_tests, alternative, height):
    shape, found = (5, 6), 0
    for seed in range(2):
        rows, masks = several(shape, seed, n_tests), masks_of(shape, n_tests)
        nulls = [
            Null(each[0], each[1:], None, 0.3, alternative, height=height, exempt=mask)
            for each, mask in zip(rows, masks, strict=True)
        ]
        for name in ON_MAPS:
            p = correct(nulls, name)
            expected = p_of_both(rows, masks, name, alternative, 0.3, height)
            assert_allclose(p, expected, **CLOSE, err_msg=name)
            found += len(np.unique(p)) * (name in ISLANDS)
    assert found > 2 * len(ISLANDS)  # some p-value differs from others


def test_several_tests_on_a_graph_and_in_summaries():
    pairs = np.array([[0, 1, 2, 4, 5, 6, 9], [3, 5, 4, 8, 7, 9, 11]])
    graph = np.zeros((12, 12), dtype=bool)
    graph[tuple(pairs)] = graph[tuple(pairs[::-1])] = True
    masks = None, np.isin(np.arange(12), [4, 9])
    how = {"adjacency": graph, "threshold": 0.3}
    for seed in range(4):
        rows = several((12,), seed, 2)
        of_tests = [*zip(rows, masks, strict=True)]
        summaries = [
            summarize_null(each[0], each[1:], with_clusters=True, exempt=mask, **how)
            for each, mask in of_tests
        ]
        for name in ("none", "max", *ISLANDS):
            expected = p_of_both(rows, masks, name, "greater", 0.3, adjacency=graph)
            whole = [KeptTest(each[0], each[1:], mask) for each, mask in of_tests]
            kept = [
                KeptTest(each[0], summary, mask)
                for (each, mask), summary in zip(of_tests, summaries, strict=True)
            ]
            for tests in (whole, kept)[: 1 if name == "cluster-size" else 2]:
                p = correct(nulls_of(tests, **how), name)
                assert_allclose(p, expected, **CLOSE)


def test_two_tests_that_find_opposite_effects_find_nothing():
    observed = np.array([[3.0, 3.0, -2.0, 2.0], [-2.5, 1.0, -4.0, -9.0]])
    exempt = None, np.array([False, False, False, True])
    nulls = [
        Null(each, np.zeros((9, 4)), height=1.0, exempt=mask)
        for each, mask in zip(observed, exempt, strict=True)
    ]
    assert_array_equal(nearest_to_zero(nulls), [0, 1, -2, 2])


# ------------------------------------------------------------------- names and refusals


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
    rows = tied_rows()
    for given, name in [*other.items(), *zip(CORRECTIONS, CORRECTIONS, strict=True)]:
        assert check_correction(given) == name
    for given, name in other.items():
        found = corrected_p_values(rows[0], rows[1:], given)
        assert_array_equal(found, corrected_p_values(rows[0], rows[1:], name))
    for wrong in ("holms", "", 3, ["max"], np.array(["max"])):
        with pytest.raises(ValueError, match=r"for 'correction'.*'fdr-by', 'cluster'"):
            check_correction(wrong)
    with pytest.raises(ValueError, match="Invalid value for 'corrections': 'holms'"):
        check_correction("holms", "corrections")


OBSERVED, NULL = noise((4, 3), 29)
BROKEN = np.where(NULL == NULL[3, 1, 1], np.nan, NULL)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: p_values([0.5], np.empty((0, 1))), "n_permutations=1000"),
        (lambda: p_values([0.5, np.nan], np.ones((3, 2))), "NaN or infinite"),
        (lambda: p_values([0.5, 0.5], [[0.5, -np.inf]]), "NaN or infinite"),
        (lambda: p_values([0.5, 0.5], np.ones(3)), r"shape\); got null \(3,\)"),
        (lambda: p_values(0.5, 0.5), r"observed \(\)"),
        (lambda: p_values(OBSERVED, NULL, "both"), r"'both'. Allowed: 'greater', 'l"),
        (lambda: corrected_p_values(OBSERVED, NULL, "holms"), "'holms'. Allowed: 'no"),
        (lambda: corrected_p_values(OBSERVED, NULL[:0]), "There are no permutations"),
        (
            lambda: Null(OBSERVED[0], Lazy(NULL)),
            r"got null \(29, 4, 3\) and observed \(",
        ),
        (lambda: Null(OBSERVED, Lazy(BROKEN)), "NaN or infinite"),
        (lambda: smallest_p_value(-1), "Invalid value for 'n_permutations'"),
        (lambda: smallest_p_value(9, 0), "Invalid value for 'n_positions'"),
    ],
)
def test_what_has_no_p_value(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_thresholds_and_heights_are_checked():
    for threshold in (0, -1, 0.6, np.nan):
        with pytest.raises(ValueError, match="Invalid value for 'threshold'"):
            corrected_p_values(OBSERVED, NULL, "cluster", threshold=threshold)
    for height in (0, -1.0, np.nan):
        with pytest.raises(ValueError, match="Invalid value for 'height'"):
            Null(OBSERVED, NULL, height=height)


@pytest.mark.parametrize(
    ("shape", "adjacency", "what"),
    [
        ((4, 5), None, "a map of 4 x 5 positions"),
        ((), None, "a single position"),
        ((6,), np.eye(6, k=1) + np.eye(6, k=-1), "a list of 6 positions in space"),
    ],
)
def test_depths_are_for_time_courses(shape, adjacency, what):
    rows = np.random.default_rng(0).normal(size=(10, *shape))
    with pytest.raises(ValueError, match=f"for time courses.*this is {what}.*'max'"):
        corrected_p_values(rows[0], rows[1:], "cluster-depth", adjacency=adjacency)


@pytest.mark.parametrize(
    ("analysis", "sensors"),
    [("time", False), ("time", True), ("generalization", False)],
)
def test_depths_of_other_maps_are_refused_before_anything_is_decoded(analysis, sensors):
    unused = {name: (name, None, False) for name in ANALYSES[analysis].unused()}
    config = unused | {
        "correction": ("correction", ["max", "cluster-depth"], True),
        "sensors": ("sensors", sensors, sensors),
    }
    unit, allowed = SimpleNamespace(datatype="eeg"), analysis == "time" and not sensors
    message = "cluster-depth is for .*--analysis time"
    told = pytest.raises(ValueError, match=message) if not allowed else nullcontext()
    with told:
        ANALYSES[analysis].check(analysis, unit, config)


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
    return generalize_arrays(*data, n_permutations=40, random_state=0, null="full")


def rows_of(scores, null):
    """Return observed and permuted scores as the latter are, in single precision."""
    return np.concatenate([scores[np.newaxis].astype(null.dtype), null])


@cut
@alternatives
def test_results_have_the_p_values_of_the_oracle(result, alternative):
    (second,) = result.second_nulls.values()
    (scores,) = result.second_scores.values()
    course = result.diagonal()
    rows = rows_of(result.scores, result.null), rows_of(scores, second)
    of_course = [rows_of(course.scores, course.null)]
    how = {"threshold": 0.3, "alternative": alternative}
    for name in CORRECTIONS:
        p = course.pvalues(name, **how)
        expected = p_of_both(of_course, [None], name, alternative, 0.3)
        assert_allclose(p, expected, **CLOSE, err_msg=name)
        if name == "cluster-depth":
            with pytest.raises(ValueError, match="'cluster-depth' is for time courses"):
                result.pvalues(name)
            continue
        p = result.pvalues(name, **how)
        masks = None, np.eye(5, dtype=bool)
        expected = p_of_both(rows, masks, name, alternative, 0.3)
        assert_allclose(p, expected, **CLOSE, err_msg=name)


@cut
def test_depths_of_subjects_and_of_comparisons():
    rng = np.random.default_rng(0)
    y = rng.permutation(np.repeat(["face", "house"], 20))
    X = rng.normal(size=(40, 3, 24))
    X[y == "house", :, 9:15] += 2.0
    options = {"n_permutations": 60, "random_state": 0, "reg": 0.3, "cv": 4}
    one, other = (decode_arrays(X, y, kernel=k, **options) for k in ("linear", "rbf"))
    rows = one.clusters("cluster-depth")
    p = one.pvalues("cluster-depth")
    assert rows["size"].sum() == (p <= 0.05).sum() > 0
    result = compare(one, other, correction="cluster-depth", threshold=0.3)
    rows = np.vstack([one.scores - other.scores, one.null - other.null]).astype(float)
    expected = p_by_oracle(rows.round(9), "cluster-depth", "two-sided", 0.3)
    assert_allclose(result.pvalues(), expected, **CLOSE)


# ------------------------------------------------------------------------ false claims


@cut
@pytest.mark.slow
@pytest.mark.parametrize(
    ("width", "effect", "alternative"),
    list(itertools.product([0, 2, 5], [0, 3], ["greater", "two-sided"])),
)
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
