"""Nulls in float32, on disk, in batches or summarized give the p-values of float64."""

import tracemalloc

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse

from mvpa_kfda.inference.corrections import (
    CORRECTIONS,
    corrected_p_values,
    p_values,
)
from mvpa_kfda.inference.null import Null, NullSummary, summarize_null
from mvpa_kfda.utils import memory

#: What a summary can tell, if it has clusters.
ON_MAPS = [name for name, known in CORRECTIONS.items() if not known.of_courses]
KEPT = [name for name in ON_MAPS if name not in ("max-step-down", "cluster-size")]

SHAPES = [(), (1,), (9,), (4, 5), (2, 3, 4)]
shapes = pytest.mark.parametrize("shape", SHAPES, ids=str)


def accuracies(shape, n_permutations=60, n_trials=90, seed=0):
    """Return observed and permuted accuracies k / n, the observed ones with effect."""
    rng = np.random.default_rng(seed)
    rows = rng.binomial(n_trials, 0.5, (n_permutations + 1, *shape)) / n_trials
    rows[0].flat[: rows[0].size // 2] += 9 / n_trials
    return rows[0], rows[1:]


def fold_means(shape, n_permutations=60, seed=0):
    """Return means over ten folds of the AUC of 6 against 5 trials, ties halved."""
    rng = np.random.default_rng(seed)
    pairs = rng.integers(0, 61, (10, n_permutations + 1, *shape))
    rows = np.mean(pairs / 60, axis=0)
    return rows[0], rows[1:]


def with_a_flat_position(shape, n_permutations=39, seed=0):
    """Return numbers of which one position has no spread."""
    rows = np.random.default_rng(seed).normal(size=(n_permutations + 1, *shape))
    rows.reshape(len(rows), -1)[:, -1] = 0.3
    return rows[0], rows[1:]


def neighbours(n_positions, seed=0):
    graph = np.random.default_rng(seed).random((n_positions, n_positions)) < 0.2
    return sparse.csr_array(graph | graph.T)


def on_disk(null, path):
    """Return the null as float32, memory-mapped."""
    np.save(path, null.astype(np.float32))
    return np.load(path, mmap_mode="r")


@pytest.fixture
def small_batches(monkeypatch):
    monkeypatch.setattr(memory, "_BATCH", 500)


# --------------------------------------------------------- all ways to the p-values


@pytest.mark.some(10)
@shapes
@pytest.mark.parametrize("scores", [accuracies, fold_means, with_a_flat_position])
@pytest.mark.parametrize("graph", [False, True])
def test_every_kind_of_null_gives_the_same_p_values(
    shape, scores, graph, tmp_path, small_batches
):
    for seed in range(3):
        observed, null = scores(shape, seed=seed)
        adjacency = neighbours(observed.size, seed) if graph else None
        options = {"adjacency": adjacency, "threshold": 0.2}
        if scores is with_a_flat_position:  # whose last digits single precision lacks
            observed, null = np.float32(observed), np.float32(null)
        mapped = on_disk(null, tmp_path / f"{seed}.npy")
        summaries = [
            summarize_null(observed, rows, with_clusters=True, **options)
            for rows in (null, mapped)
        ]
        for correction in ON_MAPS:
            p = corrected_p_values(observed, null, correction, **options)
            for rows in (null.astype(np.float32), mapped, np.asfortranarray(mapped)):
                same = corrected_p_values(observed, rows, correction, **options)
                assert_array_equal(same, p)
            for summary in summaries if correction in KEPT else ():
                same = corrected_p_values(observed, summary, correction, **options)
                assert_array_equal(same, p)
                assert type(same) is type(p)


# ---------------------------------------------------------------------- ties, float32


def test_equal_ratios_of_counts_tie_in_float32():
    for n in range(1, 2001):
        hits = np.arange(n + 1.0)
        # Three ways to compute a ratio, which differ by rounding.
        ratio, product, rest = hits / n, hits * (1 / n), 1 - (n - hits) / n
        null = np.stack([product, rest, ratio - 1 / n, ratio + 1 / n])
        for rows in (null, null.astype(np.float32)):
            assert_array_equal(Null(ratio, rows).exceedances, np.full(n + 1, 3))


def test_differences_above_the_precision_are_no_ties_in_float32():
    null = np.array([0.5 - 2e-6, 0.5 + 2e-6, 0.25], dtype=np.float32)
    assert p_values(0.5, null) == 2 / 4
    null = np.array([0.5 - 1e-7, 0.5 + 2e-6, 0.25], dtype=np.float32)
    assert p_values(0.5, null) == 3 / 4
    # What is a tie is a matter of size, not of unit.
    assert p_values(0.5e-20, null * np.float32(1e-20)) == 3 / 4
    assert p_values(0.0, np.array([-1e-8, -0.5, 0.2], dtype=np.float32)) == 3 / 4


def test_other_dtypes_are_taken_as_float64():
    observed, null = 0.5, np.array([0.5 - 2.0**-11, 0.25, 0.75])
    for dtype in (np.float16, np.longdouble, ">f8"):
        scores = Null(observed, null.astype(dtype))
        assert scores.null.dtype == np.float64
        assert scores.exceedances == 1
    assert Null(observed, null.astype(">f4")).null.dtype == np.float32
    assert p_values(1, [0, 1, 2]) == 3 / 4


# ------------------------------------------------------------------- batches, memory


@shapes
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_batches_change_nothing(shape, dtype, monkeypatch):
    rows = np.random.default_rng(0).normal(0.5, 0.03, (71, *shape)).astype(dtype)
    whole = summarize_null(rows[0], rows[1:], with_clusters=True)
    exact = rows.astype(float)
    assert_allclose(whole.moments[0], exact.mean(axis=0), rtol=1e-12, atol=0)
    assert_allclose(whole.moments[1], exact.std(axis=0), rtol=1e-12, atol=0)
    for batch in (1, 50, 333):
        monkeypatch.setattr(memory, "_BATCH", batch)
        parts = summarize_null(rows[0], rows[1:], with_clusters=True)
        assert_array_equal(parts.exceedances, whole.exceedances)
        assert_array_equal(parts.maximum, whole.maximum)
        # A single position is added up pairwise, so only there rounding may differ.
        rtol = 1e-12 if whole.exceedances.size == 1 else 0
        for name in ("moments", "cluster_maximum", "tfce_maximum"):
            value, expected = getattr(parts, name), getattr(whole, name)
            assert_allclose(value, expected, rtol=rtol, atol=rtol)


@pytest.mark.some(10)
@pytest.mark.parametrize("correction", ON_MAPS)
@pytest.mark.parametrize("kind", ["float64", "float32", "memmap"])
def test_no_temporary_is_as_large_as_the_null(correction, kind, tmp_path, monkeypatch):
    monkeypatch.setattr(memory, "_BATCH", 2_000)
    rows = np.random.default_rng(0).normal(size=(525, 24, 25)).astype(np.float32)
    null = on_disk(rows, tmp_path / "null.npy") if kind == "memmap" else rows
    null = null.astype(np.float64) if kind == "float64" else null
    corrected_p_values(rows[0], null[:9], correction)  # what is loaded once is loaded
    tracemalloc.start()
    corrected_p_values(rows[0], null, correction)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    # As booleans alone, the null would take 315 kB.
    assert peak < 300_000


# ------------------------------------------------------------------ kept in a file


def test_arrays_of_a_summary_are_checked():
    arrays = summarize_null(*accuracies((3, 4)), with_clusters=True).to_arrays()
    with pytest.raises(ValueError, match="missing or not known are 'maximum', 'sums'"):
        NullSummary.from_arrays(
            {**{k: v for k, v in arrays.items() if k != "maximum"}, "sums": 1}
        )
    for name in ("maximum", "moments", "cluster_maximum", "tfce_maximum"):
        with pytest.raises(ValueError, match=rf"needs {name} of shape \("):
            NullSummary.from_arrays({**arrays, name: arrays[name][:1]})
    with pytest.raises(ValueError, match="Invalid value for 'threshold'"):
        NullSummary.from_arrays({**arrays, "threshold": 0.7})


# ------------------------------------------------------------------------- refusals


def test_summary_without_clusters_says_what_to_do():
    observed, null = accuracies((40, 50), 25)
    summary = summarize_null(observed, null)
    for correction in ("cluster", "tfce"):
        with pytest.raises(
            ValueError,
            match=rf"'{correction}' needs the whole null.*null='full', which keeps 25 "
            r"permutations of positions \(40, 50\) in 200 kB.*null='auto'",
        ):
            corrected_p_values(observed, summary, correction)
    # What clusters and enhanced scores would not give either.
    whole = summarize_null(observed, null, with_clusters=True)
    for correction in ("max-step-down", "cluster-size"):
        for kept in (summary, whole):
            with pytest.raises(
                ValueError,
                match=rf"'{correction}' needs the .*null='full', .*200 kB\.$",
            ):
                corrected_p_values(observed, kept, correction)


OBSERVED, NULL = accuracies((3, 4))
BROKEN = [np.where(NULL == NULL[7, 1, 2], bad, NULL) for bad in (np.nan, np.inf)]
KEPT_AT = summarize_null(OBSERVED, NULL, with_clusters=True, threshold=0.1)


def p_of(observed, null, *correction, **options):
    return lambda: corrected_p_values(observed, null, *correction, **options)


def summary_of(null, **options):
    return lambda: summarize_null(OBSERVED, null, **options)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (p_of(OBSERVED, KEPT_AT, "cluster"), r"threshold=0.1, and only.*got 0.05.*='f"),
        (p_of(OBSERVED, KEPT_AT, "cluster", threshold=0.6), r"'threshold': 0\.6"),
        (p_of(OBSERVED.T, KEPT_AT), r"positions \(3, 4\), observed has shape \(4"),
        (p_of(OBSERVED, KEPT_AT, "sidak"), r"'correction': 'sidak'\. Allowed: 'none'"),
        (p_of(OBSERVED, KEPT_AT, alternative="less"), "'less' needs .*null='full'"),
        (p_of(OBSERVED, KEPT_AT, alternative="up"), "'up'. Allowed: 'greater', 'less'"),
        (p_of(OBSERVED * np.nan, KEPT_AT), "NaN or infinite"),
        (summary_of(NULL, threshold=-1), "Invalid value for 'threshold': -1"),
        (summary_of(NULL[:0]), "There are no permutations"),
        (summary_of(BROKEN[0]), "NaN or infinite"),
        (summary_of(np.float32(BROKEN[1])), "NaN or infinite"),
        (summary_of(-BROKEN[1]), "NaN or infinite"),
        (summary_of(NULL, exempt=np.ones(3, bool)), "Invalid value for 'exempt'"),
        (p_of(1e300, np.ones(3, dtype=np.float32)), "NaN or infinite"),
    ],
)
def test_what_a_summary_does_not_tell(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_other_corrections_do_not_ask_for_the_threshold():
    p = corrected_p_values(OBSERVED, KEPT_AT, "tfce")
    assert_array_equal(p, corrected_p_values(OBSERVED, NULL, "tfce"))
