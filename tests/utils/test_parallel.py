"""The same results from every kind of workers of this machine, whatever happens."""

import contextlib
import os
import signal
import subprocess
import sys
import time
import warnings
from multiprocessing import get_context

import pytest
from joblib import parallel_config
from joblib.externals.loky.process_executor import TerminatedWorkerError
from threadpoolctl import threadpool_info, threadpool_limits

from mvpa_kfda.utils.parallel import (
    WorkersLostError,
    _call,
    count_workers,
    one_blas_thread,
    run_in_parallel,
)
from tests.tasks import (
    EXPECTED,
    arrays_in_worker,
    begin,
    column_sum,
    die,
    fail,
    interrupt_when_there,
    large,
    make_data,
    slow_sum,
    sum_and_place,
    wait_for_file,
    where,
    worker,
)

on_posix = pytest.mark.skipif(sys.platform == "win32", reason="signals of POSIX")


LOCAL = ["loky", "threading", "multiprocessing"]


def run_until_killed(backend):
    with parallel_config(backend=backend):
        results = run_in_parallel(large, (), range(100), 2)
        next(results)  # dropped, they would stop the workers
        os.kill(os.getpid(), signal.SIGKILL)


def blas_threads(item):
    time.sleep(0.01)
    return {x["num_threads"] for x in threadpool_info() if x["user_api"] == "blas"}


def test_workers_that_begin_anew_give_the_same(monkeypatch):
    """As on Windows and macOS, and with Python 3.14 on Linux."""
    context = get_context("spawn")
    monkeypatch.setattr("joblib.parallel.DEFAULT_MP_CONTEXT", context)
    with parallel_config(backend="multiprocessing"):
        results = run_in_parallel(sum_and_place, (make_data(), 2), range(40), 2)
        sums, places = zip(*results, strict=True)
    assert list(sums) == EXPECTED
    assert os.getpid() not in places


def test_the_number_of_workers(monkeypatch):
    here = {os.getpid()}
    assert set(run_in_parallel(where, (), range(4))) == here
    assert not here & set(run_in_parallel(where, (), range(4), 2))
    with parallel_config(backend="loky", n_jobs=2):
        assert not here & set(run_in_parallel(where, (), range(4)))
        assert set(run_in_parallel(where, (), range(4), 1)) == here
        assert (count_workers(), count_workers(1)) == (2, 1)
    assert list(run_in_parallel(where, (), [], 2)) == []
    monkeypatch.setattr("mvpa_kfda.utils.parallel.cpu_count", lambda: 1)
    with pytest.warns(UserWarning, match="n_jobs=2 asks for more workers"):
        assert set(run_in_parallel(where, (), range(4), 2)) == here


def test_not_more_workers_than_processors(monkeypatch):
    monkeypatch.setattr("mvpa_kfda.utils.parallel.cpu_count", lambda: 2)
    match = "n_jobs=5 asks for more workers than .* this process, 2, so 2 will work"
    with parallel_config(backend="threading"):
        with pytest.warns(UserWarning, match=match) as caught:
            places = set(run_in_parallel(worker, (), range(8), 5))
        ours = [each for each in caught if each.category is UserWarning]
        assert [each.filename for each in ours] == [__file__]
        assert len(places) == 2
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        with parallel_config(backend="threading", n_jobs=5):
            assert len(set(run_in_parallel(worker, (), range(8)))) == 2
        with parallel_config(backend="threading"):
            assert len(set(run_in_parallel(worker, (), range(8), 2))) == 2


@pytest.mark.parametrize("backend", LOCAL)
def test_results_come_one_by_one(backend, tmp_path):
    path, got = tmp_path / "first", []
    with parallel_config(backend=backend):
        for result in run_in_parallel(wait_for_file, (path,), range(34), 2):
            path.touch()
            got.append(result)
    assert got == list(range(34))


@pytest.mark.parametrize("backend", ["loky", "multiprocessing"])
def test_local_workers_share_one_copy_of_the_data(backend):
    data = make_data()
    with parallel_config(backend=backend):
        found = list(run_in_parallel(arrays_in_worker, (data,), range(20), 2))
    for array in range(2):
        # One file for all calls, and nobody can write into it.
        kinds = {arrays[array] for arrays in found}
        assert len(kinds) == 1
        ((kind, _, writeable),) = kinds
        assert (kind, writeable) == ("memmap", False)


@pytest.mark.parametrize(
    ("backend", "n_jobs"), [("loky", 1), *((name, 2) for name in LOCAL)]
)
def test_one_blas_thread(backend, n_jobs):
    with threadpool_limits(2, user_api="blas"), parallel_config(backend=backend):
        assert blas_threads(0) == {2}
        results = run_in_parallel(blas_threads, (), range(8), n_jobs)
        assert list(results) == [{1}] * 8
        assert blas_threads(0) == {2}


@on_posix
def test_a_killed_worker_of_joblib():
    words = "A worker process was killed, most often because .* Use fewer workers .n_jo"
    with pytest.raises(WorkersLostError, match=words) as raised:
        list(run_in_parallel(die, (), range(10), 2))
    assert isinstance(raised.value.__cause__, TerminatedWorkerError)


@on_posix
@pytest.mark.slow
@pytest.mark.parametrize("backend", ["loky", "multiprocessing"])
def test_workers_end_with_a_killed_script(backend):
    """Its output is not at an end before."""
    module = "tests.utils.test_parallel"
    code = f"from {module} import run_until_killed as run; run({backend!r})"
    path = {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    command, env = [sys.executable, "-c", code], os.environ | path
    script = subprocess.run(command, env=env, capture_output=True, timeout=100)
    assert script.returncode == -signal.SIGKILL


@pytest.mark.parametrize("backend", LOCAL)
def test_closing_is_quiet_and_errors_arrive(backend):
    args = (slow_sum, (make_data(), 2), [0] * 10_000, 2)
    with parallel_config(backend=backend), warnings.catch_warnings():
        warnings.simplefilter("error")
        start = time.monotonic()
        with contextlib.closing(run_in_parallel(*args)) as results:
            assert next(results) == EXPECTED[0]
        assert time.monotonic() - start < 100  # 250 s of work were left
        again = run_in_parallel(column_sum, (make_data(), 2), range(40), 2)
        assert list(again) == EXPECTED
        with pytest.raises(ValueError, match="3 is flat"):
            list(run_in_parallel(fail, (), range(30), 2))


@on_posix
@pytest.mark.slow
@pytest.mark.parametrize("backend", LOCAL)
def test_interrupting_stops_the_workers(backend, tmp_path):
    path = tmp_path / "begun"
    with parallel_config(backend=backend):
        interrupt_when_there(path)
        with pytest.raises(KeyboardInterrupt, match=r"^$"):
            list(run_in_parallel(begin, (path,), range(10_000), 2))
        again = run_in_parallel(slow_sum, (make_data(), 2), range(10), 2)
        assert list(again) == EXPECTED[:10]


def test_the_last_thread_out_restores_blas():
    with threadpool_limits(2, user_api="blas"), contextlib.ExitStack() as second:
        assert _call(blas_threads, (), 0) == {1}
        assert blas_threads(0) == {2}
        with one_blas_thread:
            second.enter_context(one_blas_thread)
        assert blas_threads(0) == {1}
        second.close()
        assert blas_threads(0) == {2}
