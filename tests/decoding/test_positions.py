"""Positions: windows of samples, pairs of times, subsets of columns.

Subsets are compared with the oracle and run in any blocks.
"""

from fractions import Fraction

import joblib
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn import model_selection as ms
from sklearn.metrics.pairwise import linear_kernel, polynomial_kernel, rbf_kernel

from mvpa_kfda import RBF, Linear, Polynomial, Ridge, generalize_arrays
from mvpa_kfda.decoding import positions as module
from mvpa_kfda.decoding.positions import SubsetPositions, cut_windows
from mvpa_kfda.decoding.run import Task, run
from mvpa_kfda.inference import corrections as inference
from mvpa_kfda.inference.null import summarize_null
from mvpa_kfda.kfda import direct
from mvpa_kfda.kfda.folds import make_folds
from mvpa_kfda.metrics.scores import METRICS
from tests import build, reference

LEAVE_ONE_OUT = ms.LeaveOneOut()


def make_problem(counts, cv=4, permute="auto", **options):
    """Return data (40, n) and a task; some features tell the classes."""
    codes = build.codes_of(counts)
    rng = np.random.default_rng(0)
    data = rng.standard_normal((40, len(codes))) + 3.0
    data[::3] += 0.7 * rng.standard_normal((14, len(counts)))[:, codes]
    labels = build.permuted(codes, 7, cv, permute=permute)
    options = {"scoring": ["accuracy"], "dtype": np.dtype("float64")} | options
    options["metrics"] = {name: METRICS[name] for name in options.pop("scoring")}
    return data, Task(labels, len(counts), make_folds(cv, codes), **options)


def make_positions(data, sizes, kernel=None, reg=0.3, **options):
    """Return positions of so many random features each."""
    rng = np.random.default_rng(0)
    rows = [np.sort(rng.choice(len(data), size, replace=False)) for size in sizes]
    subsets = np.cumsum([0, *sizes]), np.concatenate(rows).astype(int)
    return SubsetPositions(data, *subsets, kernel or Linear(), reg, **options)


def columns(positions, i):
    return positions.indices[positions.indptr[i] : positions.indptr[i + 1]]


def same(one, other):
    """Assert that two outcomes are equal bit for bit."""
    for kind in ("metrics", "nulls"):
        a, b = getattr(one, kind), getattr(other, kind)
        assert a.keys() == b.keys()
        for name in a:
            assert_array_equal(a[name], b[name])
    assert one.null_summaries.keys() == other.null_summaries.keys()
    for name, summary in one.null_summaries.items():
        for key, values in summary.to_arrays().items():
            assert_array_equal(values, other.null_summaries[name].to_arrays()[key])
    assert_array_equal(one.predicted, other.predicted)


# ------------------------------------------------------------------ against the oracle

KERNELS = {
    "linear": (Linear(), linear_kernel),
    "rbf": (RBF(gamma=0.05), lambda X: rbf_kernel(X, gamma=0.05)),
    "polynomial": (
        Polynomial(2, gamma=0.1, coef0=1.0),
        lambda X: polynomial_kernel(X, degree=2, gamma=0.1, coef0=1.0),
    ),
}


@pytest.mark.some(6)
@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize(
    ("counts", "cv", "permute"),
    [
        ((9, 9), 4, "auto"),  # equal folds
        ((13, 6), 3, "auto"),  # unequal folds: two batches
        ((8, 7), LEAVE_ONE_OUT, "free"),
        ((12, 2), LEAVE_ONE_OUT, "free"),  # a class of one in training
        ((7, 6, 8), LEAVE_ONE_OUT, "free"),
        ((8, 12, 5, 9), 4, "auto"),
        ((4,) * 10, ms.KFold(4), "free"),
        ((9, 8), ms.ShuffleSplit(5, test_size=4, random_state=0), "free"),
    ],
    ids=str,
)
def test_equals_the_oracle(counts, cv, permute, kernel):
    data, task = make_problem(counts, cv=cv, permute=permute)
    ours, gram = KERNELS[kernel]
    sizes = [1, 2, 4, 8, 20, 40]  # n > p and n < p, primal and dual
    positions = make_positions(data, sizes, ours, Ridge(2.0))
    outcome = run(positions, task, 1, False)
    found = set()
    for i in range(len(sizes)):
        K = gram(data[columns(positions, i)].T)
        pairs = task.folds.pairs
        oracle = reference.reference_cross_validate(
            K, task.labels[0], pairs, 2.0, task.labels
        )
        accuracy = oracle.accuracy()
        assert outcome.metrics["accuracy"][i] == pytest.approx(accuracy[0])
        null = outcome.nulls["accuracy"][:, i]
        assert_allclose(null, accuracy[1:], rtol=1e-12, atol=0)
        if len(np.unique(oracle.rows)) == len(oracle.rows):
            predicted = outcome.predicted[i][oracle.rows]
            assert_array_equal(predicted, oracle.predictions[0])
        found |= set(accuracy)
    assert len(found) > 5


# --------------------------------------------------- one result, however it is reached


@pytest.mark.some(4)
@pytest.mark.parametrize("counts", [(12, 11), (8, 8, 7)], ids=str)
@pytest.mark.parametrize("null", ["all", "full", "max", "stream"])
def test_blocks_and_workers_change_nothing(monkeypatch, counts, null):
    scoring = ["accuracy", "roc_auc", "kappa"]
    data, task = make_problem(counts, scoring=scoring, null=null)
    data = np.rint(data)  # ties
    positions = make_positions(data, [3, 12, 1, 25, 6, 9, 30, 2, 17], RBF(gamma=0.05))
    expected = run(positions, task, 1, False)
    for length in (1, 2, 5):
        monkeypatch.setattr(module, "_LONGEST", length)
        assert len(positions.blocks()) == -(-9 // length)
        same(run(positions, task, 1, False), expected)
        with joblib.parallel_config(backend="threading", n_jobs=2):
            same(run(positions, task, None, False), expected)


def test_a_stack_equals_its_plans():
    for name in METRICS:
        data, task = make_problem((9, 9, 9), scoring=[name])
        positions = make_positions(data, [3, 12, 1, 25])
        outcome = run(positions, task, 1, False)
        for i in range(4):
            own = columns(positions, i)
            one = SubsetPositions(data, np.array([0, len(own)]), own, Linear(), 0.3)
            alone = run(one, task, 1, False)
            for name, values in alone.metrics.items():
                assert_allclose(outcome.metrics[name][i], values[0], rtol=1e-12)
            for name, values in alone.nulls.items():
                assert_array_equal(outcome.nulls[name][:, i], values[:, 0])


def test_observed_and_permuted_labels_take_the_same_way():
    """Labels that a permutation leaves as they are get the observed score."""
    data, task = make_problem((9, 8, 9), scoring=["accuracy", "roc_auc"])
    task.labels[3] = task.labels[0]
    outcome = run(make_positions(data, [3, 12, 30]), task, 1, False)
    for name in task.metrics:
        null = outcome.nulls[name][2]
        assert_allclose(null, outcome.metrics[name], rtol=1e-14, atol=0)


# ------------------------------------------------------------------- gaps, and errors


@pytest.mark.parametrize("null", ["full", "max", "stream"])
def test_positions_without_features_are_nan(null):
    data, task = make_problem((12, 12), null=null)
    sizes = [0, 4, 9, 0, 20, 3, 0]
    positions = make_positions(data, sizes)
    decoded = np.array(sizes) > 0
    outcome = run(positions, task, 1, False)
    assert_array_equal(np.isnan(outcome.metrics["accuracy"]), ~decoded)
    assert_array_equal((outcome.predicted == -1).all(axis=1), ~decoded)
    dense = run(make_positions(data, [4, 9, 20, 3]), task, 1, False)
    observed = outcome.metrics["accuracy"][decoded]
    assert_array_equal(observed, dense.metrics["accuracy"])
    if null == "full":
        kept = outcome.nulls["accuracy"]
        assert kept.dtype == np.float32
        assert np.isnan(kept[:, ~decoded]).all()
        assert_array_equal(kept[:, decoded], dense.nulls["accuracy"])
        return
    summary = outcome.null_summaries["accuracy"]
    assert summary.exceedances.shape == (4,)
    full = run(positions, make_problem((12, 12), null="full")[1], 1, False)
    kept = full.nulls["accuracy"][:, decoded]
    for correction in ("none", "max", "fdr"):
        assert_array_equal(
            inference.corrected_p_values(observed, summary, correction),
            inference.corrected_p_values(observed, kept, correction),
        )


def test_streamed_clusters_follow_the_adjacency():
    i = np.arange(5)
    ring = sparse.csr_array((np.ones(5), (i, (i + 2) % 5)), (5, 5))
    adjacency = (ring + ring.T).astype(bool)
    data, task = make_problem((12, 12), null="stream")
    positions = make_positions(data, [4, 9, 7, 20, 3], adjacency=lambda: adjacency)
    got = run(positions, task, 1, False).null_summaries["accuracy"]
    kept = run(positions, make_problem((12, 12), null="full")[1], 1, False)
    both = kept.metrics["accuracy"], kept.nulls["accuracy"]
    expected = summarize_null(*both, with_clusters=True, adjacency=adjacency)
    assert_array_equal(got.cluster_maximum, expected.cluster_maximum)
    assert_array_equal(got.tfce_maximum, expected.tfce_maximum)


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_an_error_names_its_position(n_jobs):
    data, task = make_problem((12, 12))
    data[7] = 1.0
    indptr, indices = np.array([0, 3, 5, 6, 9]), np.array([0, 1, 2, 3, 4, 7, 8, 9, 10])
    positions = SubsetPositions(
        data, indptr, indices, Linear(), 0.3, name="voxel ({}, 0, 0)".format
    )
    with joblib.parallel_config(backend="threading"):
        with pytest.raises(ValueError, match=r"^At voxel \(2, 0, 0\): The trials do"):
            run(positions, task, n_jobs, False)


def test_an_error_of_the_scoring_rule_names_its_position(monkeypatch):
    data, task = make_problem((12, 12))
    positions = make_positions(data, [4, 9, 7, 20])
    apply_targets = direct.apply_targets

    def refuse(plan, *args):
        # The third one has a factor of 8 columns.
        for each in getattr(plan, "plans", (plan,)):
            if each.hat.factor is not None and each.hat.factor.shape[1] == 8:
                raise ValueError("lambda is too small.")
        return apply_targets(plan, *args)

    monkeypatch.setattr(direct, "apply_targets", refuse)
    with pytest.raises(ValueError, match=r"^At position 2: lambda is too small"):
        run(positions, task, 1, False)


# --------------------------------------------------------------------- memory of blocks


def test_memory_of_a_block_is_bounded():
    for n, length in ((50, 64), (500, 16), (5000, 1)):
        positions = SubsetPositions(np.zeros((1, n)), np.zeros(1000), None, None, None)
        assert positions.block_length == length  # of 2**26 bytes, two matrices each
    n = 200
    overlapping = make_folds(ms.ShuffleSplit(40, test_size=0.5), np.arange(n) % 2)
    assert SubsetPositions(np.zeros((1, n)), *[None] * 4).block_length == 64
    positions = SubsetPositions(np.zeros((1, n)), *[None] * 4, folds=overlapping)
    assert positions.block_length == 2**26 // (8 * (n**2 + 40 * 100**2)) == 19


def test_test_features_are_kept_for_all_folds_up_to_a_limit(monkeypatch):
    X, codes = build.trials((9, 9, 9), 5, 3)
    gathered, results = [], []
    gather = module.GeneralizationPositions._test_features

    def spy(self, windows, order):
        gathered.append(isinstance(order, slice))
        return gather(self, windows, order)

    monkeypatch.setattr(module.GeneralizationPositions, "_test_features", spy)
    for limit in (8 * X.size, 8 * X.size - 1):
        monkeypatch.setattr(module.Chunks, "MOST", limit)
        options = {"cv": 3, "preprocess": "zscore", "reg": 0.3}
        results.append(generalize_arrays(X, codes, **options))
        assert any(gathered) == (limit == 8 * X.size)
        gathered.clear()
    assert_array_equal(results[0].predicted, results[1].predicted)


# ---------------------------------------------------------------------------- windows


@pytest.mark.parametrize(
    ("window", "step", "width", "starts"),
    [
        (None, None, 1, range(12)),
        (0.03, None, 3, range(10)),
        (0.03, 0.02, 3, range(0, 10, 2)),
        (0.024, 0.034, 2, range(0, 11, 3)),
        (0.026, 0.019, 3, range(0, 10, 2)),
        (0.001, 0.001, 1, range(12)),
        (0.12, 0.01, 12, [0]),
        (None, 0.05, 1, [0, 5, 10]),
        (0.02, 10.0, 2, [0]),
    ],
)
def test_window_times_are_centres(window, step, width, starts):
    times = np.arange(-6, 6) / 100
    windows = cut_windows(times, 100.0, window, step)
    assert_array_equal(windows.starts, starts)
    expected = [times[s : s + width].mean() for s in starts]
    assert_allclose(windows.times, expected, rtol=0, atol=1e-12)
    step = max(1, round(100 * (step or 0)))
    expected = {"window": width / 100, "step": step / 100}
    assert windows.record() == expected | {"window_mode": "mean", "sfreq": 100.0}


@pytest.mark.parametrize("sfreq", [100, 250, 600, 1000])
def test_half_a_sample_more_goes_up_whatever_the_rounding(sfreq):
    """0.145 s at 100 Hz, 14.499999999999998 samples in floats, are 15."""
    times = np.arange(200) / sfreq
    for n in range(1, 150):
        width = float(Fraction(2 * n + 1, 2 * sfreq))
        windows = cut_windows(times, float(sfreq), width, width)
        assert (windows.width, windows.step) == (n + 1, n + 1)
        short = cut_windows(times, float(sfreq), width - 0.01 / sfreq, None)
        assert (short.width, short.step) == (n, 1)
