"""The run loop: positions in, maps out, whoever computes them."""

import threading
from dataclasses import dataclass, replace

import joblib
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from threadpoolctl import threadpool_info, threadpool_limits

from mvpa_kfda import (
    RBF,
    Linear,
    Polynomial,
    cross_validate,
    decode_arrays,
    generalize_arrays,
    load_result,
    methods_text,
    searchlight,
)
from mvpa_kfda.decoding import run as search
from mvpa_kfda.decoding.positions import (
    FeaturePositions,
    Positions,
    WindowPositions,
    cut_windows,
)
from mvpa_kfda.decoding.run import Draw, Task, run
from mvpa_kfda.inference.null import centre_of, summarize_null
from mvpa_kfda.inference.permutation import permute_labels
from mvpa_kfda.kfda.direct import prepare
from mvpa_kfda.kfda.folds import make_folds
from mvpa_kfda.kfda.hat import make_hat
from mvpa_kfda.kfda.kernels import Callable
from mvpa_kfda.metrics.scores import METRICS
from mvpa_kfda.reports.sections import _best_of_metrics
from mvpa_kfda.utils import progress
from mvpa_kfda.utils.checkpoint import Checkpoint
from mvpa_kfda.utils.checks import word_bytes
from tests import build

N, P, T = 36, 6, 14
CODES = np.random.default_rng(9).permutation(np.arange(N) % 3)


def make_data(seed=0):
    """Samples first, (T, n, p); classes differ, samples differ in size and mean."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((T, N, P)) + rng.standard_normal((3, P))[CODES]
    return rng.uniform(0.5, 2.0, (T, 1, 1)) * (X + rng.uniform(0, 3, (T, 1, 1)))


def make_positions(width=1, kernel=None, data=None, reg=0.3):
    data = make_data() if data is None else data
    times = np.arange(len(data)) / 100
    windows = cut_windows(times, 100, width / 100, 0.01, "concatenate")
    return WindowPositions(data, windows, kernel or Linear(), reg)


def make_task(scoring=("accuracy", "roc_auc"), n_permutations=20, **options):
    folds = make_folds(5, CODES)
    labels = permute_labels(CODES, n_permutations, folds=folds, random_state=0).labels
    options = {"keep_class_scores": True} | options
    metrics = {name: METRICS[name] for name in scoring}
    return Task(labels, 3, folds, metrics, np.dtype("float64"), **options)


TASK = make_task()


# ------------------------------------------------------------------------- the run loop


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
    assert outcome.nulls.keys() == {"accuracy"}
    for i, cell in enumerate(np.ndindex(2, 3)):
        one = run(FeaturePositions(X[i], Linear(), 0.3), task, 1, False)
        assert one.metrics["accuracy"].shape == ()
        for ours, theirs in (
            (outcome.metrics["accuracy"], one.metrics["accuracy"]),
            (outcome.metrics["confusion_matrix"], one.metrics["confusion_matrix"]),
            (np.moveaxis(outcome.nulls["accuracy"], 0, -1), one.nulls["accuracy"]),
            (outcome.predicted, one.predicted),
            (outcome.class_scores, one.class_scores),
        ):
            assert_array_equal(ours[cell], theirs, strict=True)


# ------------------------------------------------------------------ workers and threads


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


# ------------------------------------------------------------------------------- errors


def half(X, Y):
    return (X @ Y.T)[:, : len(Y) // 2]


def changed(rows, value):
    """Return data of which some samples are blanked, as artefacts often are."""
    data = make_data()
    data[rows] = value
    return data


FLAT = "The trials do not differ"
WRONG = {
    "flat": ({"data": changed(9, 0.2)}, rf"0\.090 s: {FLAT}"),
    "small": ({"kernel": RBF(), "reg": 1e-14}, r"0\.000 s: lambda = .* is too small"),
    "function": ({"kernel": Callable(half)}, r"0\.000 s: kernel .*half.* must return"),
}
#: Windows of samples 6 to 9, 7 to 10 and 8 to 11; the first one's centre is 0.075 s.
#: Nothing of the samples before may seep in.
WRONG |= {
    f"blanked by {value}, {kernel!r}": (
        {"width": 4, "kernel": kernel, "data": changed(np.s_[6:12], value)},
        rf"0\.075 s: {FLAT}",
    )
    for value in (0.0, 0.1)
    for kernel in (Linear(), RBF(gamma=None), Polynomial())
}


@pytest.mark.parametrize("name", WRONG)
def test_errors_name_the_position(name):
    given, message = WRONG[name]
    with pytest.raises(ValueError, match=f"^At {message}") as info:
        run(make_positions(**given), TASK, n_jobs=1, verbose=False)
    assert type(info.value) is ValueError


def test_an_error_of_the_users_kernel_keeps_its_traceback():
    def broken(X, Y):
        raise ValueError("inside the kernel")

    X = np.random.default_rng(0).standard_normal((N, 4))
    positions = FeaturePositions(X, Callable(broken), 0.3)
    with pytest.raises(ValueError, match="inside the kernel") as caught:
        run(positions, TASK, verbose=False)
    assert isinstance(caught.value.__cause__, ValueError)


# ----------------------------------------------------------------------------- progress


def test_progress_counts_positions(capfd, monkeypatch):
    monkeypatch.setattr(progress._Speed, "_clock", lambda self: 7.0)
    with joblib.parallel_config("threading"):
        for n_jobs in (1, 2):
            run(make_positions(), TASK, n_jobs=n_jobs, verbose=True)
            assert capfd.readouterr() == ("", f"{T} of {T} positions in 0 s\n")
            run(make_positions(), TASK, n_jobs=n_jobs, verbose=None)
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
    err = capfd.readouterr().err
    assert "it takes less with fewer times (step=, crop or decimate).\n" in err


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


# ---------------------------------------------------------- the mean of permuted labels


PERMUTED = {"cv": 5, "n_permutations": 200, "random_state": 0}
ignored = pytest.mark.filterwarnings("ignore:Class .* always guessing")


def noise(*counts, shape=(4,)):
    y = build.codes_of(counts)
    return np.random.default_rng(2).normal(size=(len(y), *shape)), y


def decoded(*counts, **options):
    return decode_arrays(*noise(*counts, shape=(6, 3)), **PERMUTED | options)


@pytest.fixture(scope="module")
def unequal():
    # Of 199 permutations no mean is half of what is rounded.
    scoring = ["accuracy", "balanced_accuracy"]
    return decoded(100, 20, scoring=scoring, n_permutations=199)


@ignored
def test_it_stands_beside_chance_in_all_words(unequal, tmp_path):
    mean = unequal.null.mean()
    assert mean > 0.53
    assert_allclose(unequal.permuted_mean(), mean, rtol=1e-12, atol=0)
    words = f"chance 0.500; mean of permuted labels {mean:.3f}"
    assert f"({words})" in repr(unequal)
    assert f"({words})" in unequal.worded_peak("accuracy")
    assert words in unequal._repr_html_()
    level = f"accuracy (chance level 0.5; mean of permuted labels {mean:.3g})"
    assert level in methods_text(unequal)
    assert_allclose(unequal.to_xarray().accuracy.permuted_mean, mean, rtol=1e-9)
    table = _best_of_metrics(unequal)
    assert_allclose(table["mean of permuted labels"], [mean, np.nan], rtol=1e-9)
    unequal.save(tmp_path / "a.h5")
    assert load_result(tmp_path / "a.h5").permuted_mean() == unequal.permuted_mean()


@ignored
def test_it_is_drawn_beside_chance(unequal):
    single = cross_validate(*noise(100, 20), **PERMUTED)
    maps = generalize_arrays(*noise(100, 20, shape=(4, 2)), **PERMUTED)
    for result in (unequal, single, maps):
        mean = result.permuted_mean()
        assert f"mean of permuted labels ({mean:.3g})" in legend(result.plot())
    balanced = legend(unequal.plot(metric="balanced_accuracy"))
    assert "chance (0.5)" in balanced
    assert "mean of permuted" not in "".join(balanced)


def legend(ax):
    legends = [*ax.figure.legends, *filter(None, [ax.get_legend()])]
    return [text.get_text() for legend in legends for text in legend.get_texts()]


@ignored
def test_there_is_none_without_permutations_or_chance():
    assert np.isnan(decoded(100, 20, n_permutations=0).permuted_mean())
    assert np.isnan(decoded(100, 20, scoring=lambda y, p, s: 0.0).permuted_mean())
    # The permutations of this diagonal have the larger of two scores each.
    maps = generalize_arrays(*noise(30, 30, shape=(4, 3)), **PERMUTED)
    assert np.isnan(maps.diagonal().permuted_mean())


def test_summaries_of_nulls_know_it():
    null = np.random.default_rng(0).normal(0.6, 0.05, (50, 4))
    summary = summarize_null(np.full(4, 0.5), null)
    centre = centre_of(summary)
    assert_allclose(summary.permuted_moments[0], null.mean(axis=0), rtol=1e-12)
    assert_allclose(summary.permuted_moments[1], null.std(axis=0), rtol=1e-9)
    assert_allclose(centre.mean, centre_of(null).mean, rtol=1e-12)
    assert centre.is_off(0.5)
    assert not centre.is_off(0.6)
    # Without the rows, errors are those of positions that are all alike.
    assert centre.error > 1.5 * centre_of(null).error


@ignored
def test_images_whose_null_is_a_summary_know_it():
    X, y = noise(50, 10, shape=(3, 3, 2))
    given = {"radius": 4, "mask_img": build.mask(np.ones((3, 3, 2)))} | PERMUTED
    full, *others = (
        build.keep(null, searchlight, build.volume(X), y, **given)
        for null in ("full", "max", "stream")
    )
    assert full.permuted_mean() > 0.52
    for result in others:
        assert_allclose(result.permuted_mean(), full.permuted_mean(), rtol=1e-6)
    with pytest.warns(UserWarning, match=r"score minus chance, 0\.500, but the mean"):
        full.to_img("chance_difference")


def test_groups_of_several_sizes_are_all_averaged():
    data = np.array([[1.0], [3.0], [4.0], [8.0], [9.0]])
    sides = np.array([[0, 1]]), np.array([[2, 3, 4]])
    assert_array_equal(Draw(sides).apply(data), [[2.0], [7.0]])
    assert_array_equal(Draw(sides).apply(data.T, axis=1), [[2.0, 7.0]])
    assert_array_equal(Draw(sides[:1]).apply(data), [[2.0]])
