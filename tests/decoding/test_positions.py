"""Positions that are subsets of columns: against the oracle, and run in any blocks."""

from fractions import Fraction

import joblib
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn import model_selection as ms
from sklearn.metrics.pairwise import linear_kernel, polynomial_kernel, rbf_kernel

from mvpa_kfda import RBF, Linear, Polynomial, Ridge
from mvpa_kfda.decoding.positions import SubsetPositions, cut_windows
from mvpa_kfda.decoding.run import Task, run
from mvpa_kfda.inference import corrections as inference
from mvpa_kfda.inference.null import summarize_null
from mvpa_kfda.inference.permutation import permute_labels
from mvpa_kfda.kfda import direct
from mvpa_kfda.kfda.folds import Folds, make_folds
from mvpa_kfda.kfda.hat import make_hat
from mvpa_kfda.kfda.rules import best_of_two
from mvpa_kfda.metrics.scores import METRICS
from tests import reference

P = 7
LEAVE_ONE_OUT = ms.LeaveOneOut()


def make_problem(counts, n_features=40, seed=0, cv=4, permute="auto", **options):
    """Data (n_features, n), a task, and its folds; some features tell the classes."""
    rng = np.random.default_rng(seed)
    codes = rng.permutation(np.repeat(np.arange(len(counts)), counts))
    data = rng.standard_normal((n_features, len(codes))) + 3.0
    data[::3] += 0.7 * rng.standard_normal((len(data[::3]), len(counts)))[:, codes]
    folds = make_folds(cv, codes)
    labels = permute_labels(
        codes, P, folds=folds, permute=permute, random_state=seed
    ).labels
    options = {"scoring": ["accuracy"], "dtype": np.dtype("float64")} | options
    options["metrics"] = {name: METRICS[name] for name in options.pop("scoring")}
    return data, Task(labels, len(counts), folds, **options)


def make_subsets(n_features, sizes, seed=0):
    """Random subsets of these sizes, as CSR."""
    rng = np.random.default_rng(seed)
    rows = [np.sort(rng.choice(n_features, size, replace=False)) for size in sizes]
    indptr = np.concatenate([[0], np.cumsum(sizes)])
    return indptr, np.concatenate(rows).astype(int)


def make_positions(data, sizes, kernel=None, reg=0.3, **options):
    subsets = make_subsets(len(data), sizes)
    return SubsetPositions(data, *subsets, kernel or Linear(), reg, **options)


def features(positions, position):
    """The features of a position, (n, p)."""
    some = positions.indices[
        positions.indptr[position] : positions.indptr[position + 1]
    ]
    return positions.data[some].T


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
    if one.class_scores is not None:
        assert_array_equal(one.class_scores, other.class_scores)


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
    for position in range(len(sizes)):
        oracle = reference.reference_cross_validate(
            gram(features(positions, position)),
            task.labels[0],
            task.folds.pairs,
            2.0,
            task.labels,
        )
        accuracy = oracle.accuracy()
        assert outcome.metrics["accuracy"][position] == pytest.approx(accuracy[0])
        assert_allclose(
            outcome.nulls["accuracy"][:, position], accuracy[1:], rtol=1e-12, atol=0
        )
        if len(np.unique(oracle.rows)) == len(oracle.rows):
            predicted = outcome.predicted[position][oracle.rows]
            assert_array_equal(predicted, oracle.predictions[0])
        found |= set(accuracy)
    assert len(found) > 5


@pytest.mark.parametrize("counts", [(10, 9), (6, 9, 7)], ids=str)
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_class_scores_equal_the_oracle(counts, dtype):
    data, task = make_problem(
        counts, keep_class_scores=True, dtype=np.dtype(dtype), scoring=["roc_auc"]
    )
    positions = make_positions(data, [5, 30], reg=Ridge(2.0))
    outcome = run(positions, task, 1, False)
    for position in range(2):
        K = linear_kernel(features(positions, position))
        oracle = reference.reference_cross_validate(
            K, task.labels[0], task.folds.pairs, 2.0
        )
        scores = np.empty((len(K), len(counts)))
        scores[oracle.rows] = oracle.class_scores[0]
        got, wanted = (s - s[:, :1] for s in (outcome.class_scores[position], scores))
        rtol = {"float64": 1e-9, "float32": 1e-4}[dtype]
        assert_allclose(got, wanted, rtol=0, atol=rtol * np.abs(wanted).max())


# ------------------------------------------------- two classes without class scores


@pytest.mark.parametrize("counts", [(10, 10), (14, 7), (20, 2), (2, 20)], ids=str)
@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("cv", [LEAVE_ONE_OUT, ms.KFold(5), 2], ids=str)
@pytest.mark.parametrize("ties", [False, True])
def test_two_classes_need_no_scores(counts, dtype, cv, ties):
    rng = np.random.default_rng(3)
    codes = rng.permutation(np.repeat([0, 1], counts))
    X = rng.standard_normal((len(codes), 3))
    if ties:  # few distinct rows: scores that are equal but for rounding
        X = np.rint(X)
        X[:, 1:] = 0
    folds = make_folds(cv, codes)
    labels = np.array([rng.permutation(codes) for _ in range(300)])
    plan = direct.prepare(make_hat(X, Linear(), 0.3), folds, dtype)
    quick = direct.apply(plan, labels, 2)
    slow = direct.apply(plan, labels, 2, want_scores=True)
    assert quick.class_scores is None
    assert_array_equal(quick.predicted, slow.predicted)
    if 2 not in counts:
        assert 0.1 < quick.predicted.mean() < 0.9
    else:  # both trials of a class are left out at once by some folds
        assert np.isneginf(slow.class_scores).any() == (cv is not LEAVE_ONE_OUT)


@pytest.mark.parametrize("seed", range(40))
def test_two_classes_are_told_apart_alike_with_and_without_scores(seed):
    """Also where a class is absent from training, and where whole numbers tie."""
    rng = np.random.default_rng(seed)
    n = int(rng.integers(6, 24))
    X = rng.integers(-2, 3, (n, int(rng.integers(1, 4)))).astype(float)
    tests = [rng.choice(n, rng.integers(1, n // 2), replace=False) for _ in range(4)]
    labels = rng.integers(0, 2, (30, n))
    labels[0] = np.isin(np.arange(n), tests[0])  # its second class is never trained
    labels[1] = 1 - labels[0]
    plan = direct.prepare(make_hat(X, Linear(), 0.3), Folds(tuple(tests), n))
    quick = direct.apply(plan, labels, 2).predicted
    assert_array_equal(quick, direct.apply(plan, labels, 2, True).predicted)


def test_exactly_fitted_trials_are_refused():
    codes = np.repeat([0, 1], 6)
    plan = direct.prepare(make_hat(np.eye(12), Linear(), 1.0), make_folds(3, codes))
    targets = direct.make_targets(codes[None], 2, plan.folds, plan.dtype)
    terms = targets.folds[0].terms
    E = np.zeros_like(targets.folds[0].T)
    with pytest.raises(ValueError, match=r"lambda is too small.*fitted exactly"):
        best_of_two(E, targets.folds[0].T, np.zeros((1, 1, 3, 1)), terms)


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
        monkeypatch.setattr("mvpa_kfda.decoding.positions._LONGEST", length)
        assert len(positions.blocks()) == -(-9 // length)
        same(run(positions, task, 1, False), expected)
        with joblib.parallel_config(backend="threading", n_jobs=2):
            same(run(positions, task, None, False), expected)


@pytest.mark.parametrize("scoring", list(METRICS))
def test_a_stack_equals_its_plans(scoring):
    data, task = make_problem((9, 9, 9), scoring=[scoring])
    positions = make_positions(data, [3, 12, 1, 25])
    outcome = run(positions, task, 1, False)
    for position in range(4):
        own = positions.indices[
            positions.indptr[position] : positions.indptr[position + 1]
        ]
        one = SubsetPositions(data, np.array([0, len(own)]), own, Linear(), 0.3)
        alone = run(one, task, 1, False)
        for name, values in alone.metrics.items():
            assert_allclose(outcome.metrics[name][position], values[0], rtol=1e-12)
        for name, values in alone.nulls.items():
            assert_array_equal(outcome.nulls[name][:, position], values[:, 0])


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
    ring = sparse.csr_array(
        (np.ones(5), (np.arange(5), (np.arange(5) + 2) % 5)), (5, 5)
    )
    adjacency = (ring + ring.T).astype(bool)
    data, task = make_problem((12, 12), null="stream")
    positions = make_positions(data, [4, 9, 7, 20, 3], adjacency=lambda: adjacency)
    streamed = run(positions, task, 1, False)
    kept = run(positions, make_problem((12, 12), null="full")[1], 1, False)
    expected = summarize_null(
        kept.metrics["accuracy"],
        kept.nulls["accuracy"],
        with_clusters=True,
        adjacency=adjacency,
    )
    got = streamed.null_summaries["accuracy"]
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
    positions = make_positions(
        data, [4, 9, 7, 20]
    )  # the third has a factor of 8 columns
    apply_targets = direct.apply_targets

    def refuse(plan, *args):
        plans = getattr(plan, "plans", (plan,))
        if any(
            each.hat.factor is not None and each.hat.factor.shape[1] == 8
            for each in plans
        ):
            raise ValueError("lambda is too small.")
        return apply_targets(plan, *args)

    monkeypatch.setattr("mvpa_kfda.kfda.direct.apply_targets", refuse)
    with pytest.raises(ValueError, match=r"^At position 2: lambda is too small"):
        run(positions, task, 1, False)


def test_memory_of_a_block_is_bounded():
    for n in (50, 500, 5000):
        positions = SubsetPositions(np.zeros((1, n)), np.zeros(1000), None, None, None)
        assert 1 <= positions.block_length <= 64
        assert (
            positions.block_length == 1
            or positions.block_length * 2 * 8 * n**2 <= 2**26
        )


def test_overlapping_test_sets_make_blocks_shorter():
    n = 200
    overlapping = make_folds(ms.ShuffleSplit(40, test_size=0.5), np.arange(n) % 2)
    assert SubsetPositions(np.zeros((1, n)), *[None] * 4).block_length == 64
    positions = SubsetPositions(np.zeros((1, n)), *[None] * 4, folds=overlapping)
    assert positions.block_length == 2**26 // (8 * (n**2 + 40 * 100**2)) == 19


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
