"""The run loop and its positions: positions in, maps out, whoever computes them."""

import threading
from dataclasses import dataclass, replace

import joblib
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.metrics.pairwise import laplacian_kernel
from threadpoolctl import threadpool_info, threadpool_limits

from mvpa_kfda import RBF, Linear, Polynomial, Ridge, cross_validate
from mvpa_kfda.decoding import run as search
from mvpa_kfda.decoding.positions import (
    FeaturePositions,
    Positions,
    WindowPositions,
    cut_windows,
)
from mvpa_kfda.decoding.run import Task, run
from mvpa_kfda.inference.permutation import permute_labels
from mvpa_kfda.kfda.direct import prepare
from mvpa_kfda.kfda.folds import make_folds
from mvpa_kfda.kfda.hat import make_hat
from mvpa_kfda.kfda.kernels import Callable
from mvpa_kfda.metrics.scores import METRICS
from mvpa_kfda.utils import parallel, progress
from mvpa_kfda.utils.checkpoint import Checkpoint
from mvpa_kfda.utils.checks import word_bytes
from tests import build

N, P, T = 36, 6, 14
CODES = np.random.default_rng(9).permutation(np.arange(N) % 3)
KERNELS = [
    Linear(),
    RBF(),
    RBF(gamma=None),
    Polynomial(),
    Polynomial(2, gamma=0.1, coef0=0.0),
]


def make_data(seed=0, n=N, p=P):
    """Samples first, (T, n, p); classes differ, samples differ in size and mean."""
    rng = np.random.default_rng(seed)
    means = rng.standard_normal((3, p))[CODES] if n == N else 0
    size = rng.uniform(0.5, 2.0, (T, 1, 1))
    return size * (
        rng.standard_normal((T, n, p)) + means + rng.uniform(0, 3, (T, 1, 1))
    )


def make_positions(
    width=1, step=1, mode="concatenate", kernel=None, data=None, reg=0.3
):
    data = make_data() if data is None else data
    windows = cut_windows(
        np.arange(len(data)) / 100, 100, width / 100, step / 100, mode
    )
    return WindowPositions(data, windows, kernel or Linear(), reg)


def plans_of(positions, block):
    """The plans of a block, out of the stacks they come in."""
    return [plan for stack in positions.models(block, TASK) for plan in stack.plans]


def make_task(scoring=("accuracy", "roc_auc"), n_permutations=20, **options):
    folds = make_folds(5, CODES)
    labels = permute_labels(CODES, n_permutations, folds=folds, random_state=0).labels
    options = {"keep_class_scores": True} | options
    metrics = {name: METRICS[name] for name in scoring}
    return Task(labels, 3, folds, metrics, np.dtype("float64"), **options)


TASK = make_task()


def features(positions, position):
    """Features of a window, put together sample by sample."""
    start = positions.starts[position]
    samples = [positions.data[t] for t in range(start, start + positions.windows.width)]
    if positions.windows.mode == "mean":
        return sum(samples) / len(samples)
    return np.hstack(samples)


def same(one, other):
    """Assert that two outcomes are equal bit for bit."""
    assert one.metrics.keys() == other.metrics.keys()
    for name in one.metrics:
        assert_array_equal(one.metrics[name], other.metrics[name])
    assert one.nulls.keys() == other.nulls.keys()
    for name in one.nulls:
        assert_array_equal(one.nulls[name], other.nulls[name])
    assert_array_equal(one.predicted, other.predicted)
    assert_array_equal(one.class_scores, other.class_scores)


# -------------------------------------------------------------------------- positions


def test_features_are_one_position_without_axes():
    X = make_data()[0]
    positions = FeaturePositions(X, Linear(), 0.3)
    assert positions.shape == ()
    assert positions.blocks() == [range(1)]
    assert positions.where(0) == ""
    hat = next(positions.models(range(1), TASK)).hat
    order = TASK.folds.order
    expected = make_hat(X, Linear(), 0.3).reordered(order)
    assert_array_equal(hat.matrix, expected.matrix)
    outcome = run(positions, TASK, n_jobs=1, verbose=False)
    assert outcome.metrics["accuracy"].shape == ()
    assert outcome.nulls["accuracy"].shape == (20,)
    assert outcome.predicted.shape == (N,)
    assert outcome.class_scores.shape == (N, 3)


@pytest.mark.parametrize("n_positions", [1, 3, 4, 5, 8, 14])
def test_blocks_hold_every_position_once_in_order(n_positions):
    positions = make_positions(width=T + 1 - n_positions)
    assert positions.shape == (n_positions,)
    blocks = positions.blocks()
    assert [i for block in blocks for i in block] == list(range(n_positions))
    assert {len(block) for block in blocks[:-1]} <= {positions.block_length}
    assert 1 <= len(blocks[-1]) <= positions.block_length


def test_where_names_the_time():
    assert make_positions(width=4).where(2) == "At 0.035 s: "


@pytest.mark.some(30)
@pytest.mark.parametrize(
    "kernel", [*KERNELS, Callable(laplacian_kernel)], ids=build.words
)
@pytest.mark.parametrize("mode", ["mean", "concatenate"])
@pytest.mark.parametrize(
    ("width", "step"), [(1, 1), (3, 1), (4, 1), (9, 1), (7, 2), (10, 3)]
)
@pytest.mark.parametrize("reg", [0.3, Ridge(2.0)], ids=repr)
def test_hats_equal_those_of_the_windows_features(kernel, mode, width, step, reg):
    positions = make_positions(width, step, mode, kernel, reg=reg)
    for block in positions.blocks():
        plans = plans_of(positions, block)
        assert len(plans) == len(block)
        for position, plan in zip(block, plans, strict=True):
            hat, expected = (
                plan.hat,
                make_hat(features(positions, position), kernel, reg),
            )
            expected = expected.reordered(TASK.folds.order)
            assert_allclose(hat.matrix, expected.matrix, rtol=0, atol=1e-10)
            assert hat.lam == pytest.approx(expected.lam, rel=1e-10)


# ----------------------------------------------------------------------- the run loop


@dataclass(frozen=True)
class GridPositions(Positions):
    """A map of two axes, as a user may write one."""

    X: np.ndarray
    shape: tuple = (2, 3)

    def blocks(self):
        return [range(2), range(2, 3), range(3, 6)]

    def models(self, block, task):
        for position in block:
            hat = make_hat(self.X[position], Linear(), 0.3)
            yield prepare(hat, task.folds, task.dtype, task.rank)

    def where(self, position):
        return f"At cell {np.unravel_index(position, self.shape)}: "


def test_positions_may_have_any_axes():
    X = make_data()[:6]
    task = make_task(["accuracy", "confusion_matrix"])
    outcome = run(GridPositions(X), task, n_jobs=1, verbose=False)
    assert outcome.metrics["accuracy"].shape == (2, 3)
    assert outcome.metrics["confusion_matrix"].shape == (2, 3, 3, 3)
    assert outcome.nulls.keys() == {"accuracy"}
    assert outcome.nulls["accuracy"].shape == (20, 2, 3)
    assert outcome.predicted.shape == (2, 3, N)
    assert outcome.class_scores.shape == (2, 3, N, 3)
    for i, cell in enumerate(np.ndindex(2, 3)):
        one = run(FeaturePositions(X[i], Linear(), 0.3), task, 1, False)
        assert outcome.metrics["accuracy"][cell] == one.metrics["accuracy"]
        assert_array_equal(
            outcome.metrics["confusion_matrix"][cell], one.metrics["confusion_matrix"]
        )
        assert_array_equal(
            outcome.nulls["accuracy"][(..., *cell)], one.nulls["accuracy"]
        )
        assert_array_equal(outcome.predicted[cell], one.predicted)
        assert_array_equal(outcome.class_scores[cell], one.class_scores)


@pytest.mark.parametrize("kernel", [Linear(), RBF()], ids=repr)
def test_outcome_does_not_depend_on_workers(kernel):
    data = np.rint(2 * make_data())
    data[:, 1::2] = data[:, ::2]  # duplicated trials: many exact ties
    positions = make_positions(3, 1, kernel=kernel, data=data)
    expected = run(positions, TASK, n_jobs=1, verbose=False)
    same(run(positions, TASK, n_jobs=2, verbose=False), expected)
    for n_jobs in (2, 3, -1):
        with joblib.parallel_config(backend="threading", n_jobs=n_jobs):
            same(run(positions, TASK, verbose=False), expected)


# ---------------------------------------------------------------- workers and threads


def test_one_job_is_a_plain_loop(monkeypatch):
    def refuse(*args, **kwargs):
        raise AssertionError("joblib is not needed for one job")

    monkeypatch.setattr(parallel, "Parallel", refuse)
    run(make_positions(), TASK, n_jobs=1, verbose=False)
    run(make_positions(), TASK, n_jobs=None, verbose=False)
    with joblib.parallel_config(n_jobs=2, backend="threading"):
        with pytest.raises(AssertionError, match="joblib is not needed"):
            run(make_positions(), TASK, n_jobs=None, verbose=False)
        run(make_positions(), TASK, n_jobs=1, verbose=False)


def blas_threads():
    return [
        pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"
    ]


def test_parallel_config_is_respected_with_one_blas_thread_each(monkeypatch):
    seen, run_block = [], search._run_block
    both_at_work = threading.Barrier(2)

    def watch(*args):
        if threading.get_ident() not in {ident for ident, *_ in seen}:
            both_at_work.wait(timeout=60)
        seen.append((threading.get_ident(), *blas_threads()))
        return run_block(*args)

    monkeypatch.setattr(search, "_run_block", watch)
    with threadpool_limits(2, user_api="blas"):
        before = blas_threads()
        with joblib.parallel_config(n_jobs=2, backend="threading"):
            run(make_positions(), TASK, verbose=False)
        assert blas_threads() == before
    assert len(seen) == len(make_positions().blocks())
    workers = {ident for ident, *_ in seen}
    assert len(workers) == 2
    assert threading.get_ident() not in workers
    assert all(threads == [1] * len(before) for _, *threads in seen)


def test_outcome_does_not_depend_on_blas_threads():
    """Large enough that BLAS does split its work."""
    rng = np.random.default_rng(0)
    n = 360
    codes = np.arange(n) % 3
    counts = rng.poisson(3, (3, n, 40)) + (codes == 1)[:, None]
    counts[:, n // 2 :] = counts[:, : n // 2]
    positions = make_positions(data=counts.astype(float))
    folds = make_folds(10, codes)
    labels = permute_labels(codes, 200, folds=folds, random_state=0).labels
    task = replace(TASK, labels=labels, folds=folds)
    outcomes = []
    for limit in (1, 2):
        with threadpool_limits(limit, user_api="blas"):
            outcomes.append(run(positions, task, 1, False))
    one, two = outcomes
    assert_array_equal(one.predicted, two.predicted)
    assert_array_equal(one.nulls["accuracy"], two.nulls["accuracy"])
    assert_allclose(one.nulls["roc_auc"], two.nulls["roc_auc"], rtol=0, atol=1e-12)


# ----------------------------------------------------------------------------- errors


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_errors_name_the_position(n_jobs):
    data = make_data()
    data[9] = data[9, :1]  # all trials alike
    with pytest.raises(
        ValueError, match=r"^At 0\.090 s: The trials do not differ"
    ) as info:
        run(make_positions(data=data), TASK, n_jobs=n_jobs, verbose=False)
    assert type(info.value) is ValueError


def test_every_kind_of_error_names_the_position():
    positions = make_positions(kernel=RBF(), reg=1e-14)
    with pytest.raises(ValueError, match=r"^At 0\.000 s: lambda = .* is too small"):
        run(positions, TASK, n_jobs=1, verbose=False)
    with pytest.raises(ValueError, match=r"^At cell .*: The trials do not differ"):
        run(GridPositions(np.ones((6, N, 2))), TASK, n_jobs=1, verbose=False)


@pytest.mark.parametrize("kernel", [Linear(), RBF(gamma=None), Polynomial()], ids=repr)
@pytest.mark.parametrize("value", [0.0, 0.1])
def test_a_blanked_stretch_is_found_in_windows(kernel, value):
    """Artefacts are often blanked: nothing of the samples before may seep in."""
    data = make_data()
    data[6:12] = value
    positions = make_positions(4, 1, kernel=kernel, data=data)
    # Windows of samples 6 to 9, 7 to 10 and 8 to 11; the first one's centre is 0.075 s.
    with pytest.raises(ValueError, match=r"^At 0\.075 s: The trials do not differ"):
        run(positions, TASK, n_jobs=1, verbose=False)


def test_errors_of_a_kernel_function_name_the_position():
    def half(X, Y):
        return (X @ Y.T)[:, : len(Y) // 2]

    with pytest.raises(ValueError, match=r"^At 0\.000 s: kernel .*half.* must return"):
        run(make_positions(kernel=Callable(half)), TASK, n_jobs=1, verbose=False)


# --------------------------------------------------------------------------- progress


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_progress_counts_positions(capfd, monkeypatch, n_jobs):
    monkeypatch.setattr(progress._Speed, "_clock", lambda self: 7.0)
    run(make_positions(), TASK, n_jobs=n_jobs, verbose=True)
    assert capfd.readouterr() == ("", f"{T} of {T} positions in 0 s\n")
    for verbose in (False, None):
        run(make_positions(), TASK, n_jobs=n_jobs, verbose=verbose)
        assert capfd.readouterr() == ("", "")


@pytest.fixture
def slow_blocks(monkeypatch):
    """Every block takes 1000 s, on a clock of its own."""
    seconds, run_block = [0.0], search._run_block

    def slow(*arguments):
        seconds[0] += 1000
        return run_block(*arguments)

    monkeypatch.setattr(search, "_run_block", slow)
    monkeypatch.setattr(progress._Speed, "_clock", lambda self: seconds[0])
    monkeypatch.setattr(search, "cpu_count", lambda: 2)


def test_a_long_run_says_what_it_takes(capfd, slow_blocks):
    outcome = run(make_positions(), TASK)
    arrays = [*outcome.metrics.values(), *outcome.fold_metrics.values()]
    arrays += outcome.nulls.values()
    arrays += [outcome.predicted, outcome.class_scores, *outcome.penalty.values()]
    size = word_bytes(sum(values.nbytes for values in arrays))
    assert capfd.readouterr().err.splitlines() == [
        "4 of 14 positions, about 42 min left",
        f"This run takes about 58 min and its result {size} of memory; it takes less "
        "with fewer times (step=, crop or decimate), fewer permutations, "
        "dtype='float32', scoring without 'roc_auc' or n_jobs=-1.",
        "8 of 14 positions, about 25 min left",
        "12 of 14 positions, about 8.3 min left",
        "14 of 14 positions in 67 min",
    ]
    run(make_positions(), TASK, verbose=False)
    assert capfd.readouterr() == ("", "")


def test_only_what_would_help_is_advised(capfd, slow_blocks):
    task = replace(make_task(["accuracy"]), dtype=np.dtype("float32"))
    run(make_positions(), task)
    err = capfd.readouterr().err
    assert "decimate), fewer permutations or n_jobs=-1.\n" in err
    with joblib.parallel_config("threading", n_jobs=2):
        run(make_positions(), make_task(["accuracy"], n_permutations=0))
    assert "it takes less with fewer times (step=, crop or decimate).\n" in (
        capfd.readouterr().err
    )


@pytest.mark.parametrize("kind", ["max", "stream"])
def test_nulls_that_are_not_kept_take_little(capfd, slow_blocks, kind):
    """The larger the number of permutations, the smaller the share."""
    task = make_task(["accuracy"], n_permutations=999, null=kind)
    run(make_positions(), task)
    rest = T * (8 + 8 * len(task.folds.tests) + N + N * 3 * 8)
    sizes = {"max": rest + 8 * (3 * T + 999), "stream": rest}
    penalty = sum(v.nbytes for v in run(make_positions(), task, 1, 0).penalty.values())
    assert f"result {word_bytes(sizes[kind] + penalty)} of" in capfd.readouterr().err


def test_finished_blocks_say_nothing_about_speed(capfd, slow_blocks, tmp_path):
    with Checkpoint(tmp_path / "run.checkpoint") as checkpoint:
        checkpoint.start({})
        run(make_positions(), TASK, 1, False, checkpoint)
        checkpoint._execute("DELETE FROM parts WHERE number >= 1")
        run(make_positions(), TASK, 1, True, checkpoint)
        assert capfd.readouterr().err.splitlines()[0] == (
            "8 of 14 positions, about 25 min left"
        )
        run(make_positions(), TASK, 1, True, checkpoint)
        assert capfd.readouterr().err == "14 of 14 positions in 0 s\n"


def test_an_error_of_the_users_kernel_keeps_its_traceback():
    def broken(X, Y):
        raise ValueError("inside the kernel")

    X = np.random.default_rng(0).standard_normal((N, 4))
    positions = FeaturePositions(X, Callable(broken), 0.3)
    with pytest.raises(ValueError, match="inside the kernel") as caught:
        run(positions, TASK, verbose=False)
    assert isinstance(caught.value.__cause__, ValueError)


@pytest.mark.parametrize("order", [(0, 1, 2), (1, 2, 0), (2, 0, 1), (2, 1, 0)])
def test_scores_of_folds_are_in_the_order_of_the_folds(order):
    """However the test sets' sizes are sorted."""
    X, y = np.random.default_rng(0).normal(size=(N, 4)), CODES
    sets = np.split(np.random.default_rng(1).permutation(N), [7, 18])
    cv = [(np.setdiff1d(np.arange(N), sets[i]), sets[i]) for i in order]
    result = cross_validate(X, y, cv=cv)
    expected = [np.mean(result.predictions[test] == y[test]) for _, test in cv]
    assert len(set(expected)) == 3
    assert_allclose(result.fold_scores, expected, rtol=1e-12)
