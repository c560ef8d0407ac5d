"""The same results from every kind of workers, whatever happens to the workers."""

import contextlib
import gc
import os
import signal
import subprocess
import sys
import threading
import time
import warnings
from multiprocessing import get_all_start_methods, get_context

import pytest
from distributed import Client, KilledWorker
from distributed.comm import CommClosedError
from joblib import parallel_config
from joblib.externals.loky.process_executor import TerminatedWorkerError
from threadpoolctl import threadpool_info, threadpool_limits

from mvpa_kfda.utils import cluster
from mvpa_kfda.utils.cluster import _set_malloc
from mvpa_kfda.utils.parallel import (
    WorkersLostError,
    _call,
    count_workers,
    one_blas_thread,
    run_in_parallel,
)
from tests.dask_cluster import cluster_script, start_cluster, two_workers
from tests.tasks import (
    Data,
    arrays_in_worker,
    begin,
    column_sum,
    die,
    die_once,
    fail,
    large,
    make_data,
    page_faults,
    slow_sum,
    sum_and_place,
    wait_for_file,
    where,
    worker,
)

on_posix = pytest.mark.skipif(sys.platform == "win32", reason="signals of POSIX")
LOCAL = ["loky", "threading", "multiprocessing"]
LOST = "connection to the scheduler of .* was lost.* Start a cluster .* same call again"


EXPECTED = [2 * float(make_data().values[:, item].sum()) for item in range(40)]


def run_until_killed(backend):
    with parallel_config(backend=backend):
        results = run_in_parallel(large, (), range(100), 2)
        next(results)  # dropped, they would stop the workers
        os.kill(os.getpid(), signal.SIGKILL)


def blas_threads(item):
    time.sleep(0.01)
    return {x["num_threads"] for x in threadpool_info() if x["user_api"] == "blas"}


def run_in_worker(data):
    with parallel_config(backend="dask"):
        return list(run_in_parallel(column_sum, (data, 2), range(5)))


@pytest.fixture(scope="module")
def client():
    with two_workers() as client:
        yield client


@pytest.fixture
def dask(client):
    """Two workers, through joblib; nothing of a run is left behind on them."""
    with parallel_config(backend="dask"):
        yield client
    assert is_idle(client)


@pytest.fixture
def mortal_dask():
    """Two workers of this test only."""
    with two_workers() as client:
        with parallel_config(backend="dask"):
            yield client
        assert is_idle(client)


def is_idle(client):
    for _ in range(100):
        names = client.run_on_scheduler(lambda dask_scheduler: [*dask_scheduler.tasks])
        if not [name for name in names if "call_on_cluster" in str(name)]:
            return True
        time.sleep(0.1)
    return False


def kill_workers(client, n_workers):
    for pid in list(client.run(os.getpid).values())[:n_workers]:
        os.kill(pid, signal.SIGKILL)


def interrupt_when_there(path):
    """Interrupt this process when workers have begun and made a file."""
    # Processes that a shell starts in its background ignore the signal.
    signal.signal(signal.SIGINT, signal.default_int_handler)

    def interrupt():
        while not path.exists():
            time.sleep(0.05)
        time.sleep(0.3)
        os.kill(os.getpid(), signal.SIGINT)

    threading.Thread(target=interrupt, daemon=True).start()


@pytest.mark.some(2)
@pytest.mark.parametrize("backend", [None, *LOCAL])
def test_results_are_those_of_a_loop(backend):
    n_jobs = 1 if backend is None else 2
    with parallel_config(backend=backend or "loky"):
        results = run_in_parallel(column_sum, (make_data(), 2), range(40), n_jobs)
        assert list(results) == EXPECTED


@pytest.mark.parametrize(
    "method", [name for name in get_all_start_methods() if name != "fork"]
)
def test_workers_that_begin_anew_give_the_same(method, monkeypatch):
    """As on Windows and macOS (spawn), and with Python 3.14 on Linux (forkserver)."""
    context = get_context(method)
    monkeypatch.setattr("joblib.parallel.DEFAULT_MP_CONTEXT", context)
    with parallel_config(backend="multiprocessing"):
        results = run_in_parallel(sum_and_place, (make_data(), 2), range(40), 2)
        sums, places = zip(*results, strict=True)
    assert list(sums) == EXPECTED
    assert os.getpid() not in places


def test_the_number_of_workers():
    here = {os.getpid()}
    assert set(run_in_parallel(where, (), range(4))) == here
    assert not here & set(run_in_parallel(where, (), range(4), 2))
    with parallel_config(backend="loky", n_jobs=2):
        assert not here & set(run_in_parallel(where, (), range(4)))
        assert set(run_in_parallel(where, (), range(4), 1)) == here
    assert list(run_in_parallel(where, (), [], 2)) == []


@pytest.mark.some(2)
@pytest.mark.parametrize("backend", LOCAL)
def test_not_more_workers_than_processors(backend, monkeypatch):
    monkeypatch.setattr("mvpa_kfda.utils.parallel.cpu_count", lambda: 2)
    place = worker if backend == "threading" else where
    match = "n_jobs=5 asks for more workers than .* this process, 2, so 2 will work"
    with parallel_config(backend=backend):
        with pytest.warns(UserWarning, match=match) as caught:
            places = set(run_in_parallel(place, (), range(16), 5))
        # Python 3.12 and 3.13 warn of every fork where there are threads.
        ours = [each for each in caught if each.category is UserWarning]
        assert [each.filename for each in ours] == [__file__]
        assert len(places) == 2
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        with parallel_config(backend=backend, n_jobs=5):
            assert len(set(run_in_parallel(place, (), range(16)))) == 2
        with parallel_config(backend=backend):
            assert len(set(run_in_parallel(place, (), range(16), 2))) == 2


def test_one_processor_is_a_loop(monkeypatch):
    monkeypatch.setattr("mvpa_kfda.utils.parallel.cpu_count", lambda: 1)
    with pytest.warns(UserWarning, match="n_jobs=2 asks for more workers"):
        assert set(run_in_parallel(where, (), range(4), 2)) == {os.getpid()}


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


@pytest.mark.parametrize("backend", LOCAL)
def test_errors_of_the_function_arrive(backend):
    with parallel_config(backend=backend), pytest.raises(ValueError, match="3 is flat"):
        list(run_in_parallel(fail, (), range(30), 2))


@on_posix
def test_a_killed_worker_of_joblib():
    words = "A worker process was killed, most often because .* Use fewer workers .n_jo"
    with pytest.raises(WorkersLostError, match=words) as raised:
        list(run_in_parallel(die, (), range(10), 2))
    assert isinstance(raised.value.__cause__, TerminatedWorkerError)
    again = run_in_parallel(slow_sum, (make_data(), 2), range(10), 2)
    assert list(again) == EXPECTED[:10]


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
def test_closing_is_quiet_and_quick(backend):
    args = (slow_sum, (make_data(), 2), [0] * 10_000, 2)
    with parallel_config(backend=backend), warnings.catch_warnings():
        warnings.simplefilter("error")
        start = time.monotonic()
        with contextlib.closing(run_in_parallel(*args)) as results:
            assert next(results) == EXPECTED[0]
        assert time.monotonic() - start < 100  # 250 s of work were left
        again = run_in_parallel(slow_sum, (make_data(), 2), range(10), 2)
        assert list(again) == EXPECTED[:10]


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


@pytest.mark.parametrize("n_jobs", [1, 2])
@pytest.mark.parametrize("backend", LOCAL)
def test_one_blas_thread(backend, n_jobs):
    with threadpool_limits(2, user_api="blas"), parallel_config(backend=backend):
        assert blas_threads(0) == {2}
        results = run_in_parallel(blas_threads, (), range(8), n_jobs)
        assert list(results) == [{1}] * 8
        assert blas_threads(0) == {2}


def test_a_call_in_a_worker_hasone_blas_thread():
    with threadpool_limits(2, user_api="blas"):
        assert _call(blas_threads, (), 0) == {1}
        assert blas_threads(0) == {2}


def test_the_last_thread_out_restores_blas():
    with threadpool_limits(2, user_api="blas"), contextlib.ExitStack() as second:
        with one_blas_thread:
            second.enter_context(one_blas_thread)
        assert blas_threads(0) == {1}
        second.close()
        assert blas_threads(0) == {2}


def test_dask_results_are_those_of_a_loop(dask):
    data = make_data()
    Data.times_pickled = 0
    assert list(run_in_parallel(column_sum, (data, 2), range(40))) == EXPECTED
    assert Data.times_pickled == 1  # and not 40 times


def test_the_number_of_dask_workers(dask):
    workers = set(dask.run(os.getpid).values())
    assert set(run_in_parallel(where, (), range(20))) == workers
    assert set(run_in_parallel(where, (), range(20), 5)) == workers
    assert set(run_in_parallel(where, (), range(4), 1)) == {os.getpid()}


def test_dask_workers_use_memory_again(dask):
    """Pages of 4 kB: 500 of an array, 10,000 if each one takes them anew."""
    assert max(run_in_parallel(page_faults, (), range(10))) < 2_000


@pytest.mark.parametrize("broken", ["platform", "library", "function"])
def test_other_systems_know_no_mallopt(broken, monkeypatch):
    def load(name):
        assert broken != "platform"
        if broken == "library":
            raise OSError("no such library")
        return object()

    monkeypatch.setattr("ctypes.CDLL", load)
    if broken == "platform":
        monkeypatch.setattr("sys.platform", "win32")
    _set_malloc.__wrapped__()


def test_runs_inside_dask_tasks(dask):
    """Both workers wait for calls that only they can do."""
    futures = dask.map(run_in_worker, [make_data()] * 2, pure=False)
    for future in futures:
        assert future.result(timeout=60) == EXPECTED[:5]


@pytest.mark.slow
@pytest.mark.parametrize("n_workers", [1, 2])
def test_killed_dask_workers_lose_nothing(mortal_dask, n_workers):
    got = []
    for result in run_in_parallel(slow_sum, (make_data(), 2), range(40)):
        got.append(result)
        if len(got) == 5:
            kill_workers(mortal_dask, n_workers)
    assert got == EXPECTED


@pytest.mark.slow
def test_a_call_that_kills_its_dask_workers(mortal_dask):
    def allow_no_failures(dask_scheduler):
        dask_scheduler.allowed_failures = 0

    mortal_dask.run_on_scheduler(allow_no_failures)
    with pytest.raises(WorkersLostError, match="died one after the other") as raised:
        list(run_in_parallel(die, (), range(10)))
    assert isinstance(raised.value.__cause__, KilledWorker)


@pytest.mark.some(4)
@pytest.mark.parametrize(
    ("call", "is_known"),
    [
        ("ncores", False),
        ("ncores", True),
        ("scatter", True),
        ("map", False),
        ("map", True),
        ("gather", True),
    ],
)
def test_the_scheduler_is_lost_in_a_call(dask, monkeypatch, call, is_known):
    """The client knows it then, or milliseconds later."""

    def lose(*args, **kwargs):
        if is_known:
            monkeypatch.setattr(cluster, "_is_connected", lambda client: False)
        raise CommClosedError("Connection reset by peer")

    monkeypatch.setattr(dask, call, lose)
    with pytest.raises(WorkersLostError, match=LOST) as raised:
        list(run_in_parallel(column_sum, (make_data(), 2), range(5)))
    assert isinstance(raised.value.__cause__, CommClosedError)
    del raised
    gc.collect()  # the scheduler, which is there, forgets what was not cancelled


@pytest.mark.parametrize("call", ["replicate", "map"])
def test_the_scheduler_is_lost_before_calls_that_would_wait(dask, monkeypatch, call):
    right_call = getattr(dask, call)

    def lose(*args, **kwargs):
        monkeypatch.setattr(cluster, "_is_connected", lambda client: False)
        return right_call(*args, **kwargs)

    monkeypatch.setattr(dask, call, lose)
    wait = "distributed.as_completed"
    monkeypatch.setattr(wait, lambda *_, **__: pytest.fail("It waits."))
    with pytest.raises(WorkersLostError, match=LOST):
        list(run_in_parallel(column_sum, (make_data(), 2), range(5)))


def test_no_calls_without_a_scheduler(dask, monkeypatch):
    monkeypatch.setattr(dask, "status", "connecting")
    monkeypatch.setattr(dask, "ncores", pytest.fail)
    for run in (count_workers, lambda: list(run_in_parallel(where, (), [0]))):
        with pytest.raises(WorkersLostError, match=LOST):
            run()


def test_the_scheduler_is_lost_after_the_last_result(dask, monkeypatch):
    """Nothing is left to be cancelled, and errors of the function are not hidden."""
    cancel = dask.cancel

    def lose(futures):
        cancel(futures)  # the next test works there
        raise CommClosedError("Connection reset by peer")

    monkeypatch.setattr(dask, "cancel", lose)
    results = run_in_parallel(column_sum, (make_data(), 2), range(5))
    assert list(results) == EXPECTED[:5]
    with pytest.raises(ValueError, match="3 is flat"):
        list(run_in_parallel(fail, (), range(5)))


@pytest.mark.slow
@pytest.mark.parametrize("moment", ["before", 0.01, 0.02, 0.1, "at work"])
def test_a_killed_scheduler(moment):
    """Dask itself would wait half a minute for another one."""
    with cluster_script() as (script, address), Client(address) as client:
        client.wait_for_workers(2, timeout=120)
        with parallel_config(backend="dask"):
            results = run_in_parallel(slow_sum, (make_data(), 2), [*range(40)] * 5)
            if moment == "at work":
                assert next(results) == EXPECTED[0]
            if isinstance(moment, str):
                script.kill()
            else:
                threading.Timer(moment, script.kill).start()
            start = time.monotonic()
            with pytest.raises(WorkersLostError, match=LOST):
                list(results)
        assert time.monotonic() - start < 20


@pytest.mark.slow
def test_a_call_that_kills_the_only_dask_worker():
    """The shared data are lost with it, and shipped anew, but not forever."""
    with start_cluster(1) as cluster, Client(cluster), parallel_config(backend="dask"):
        # A worker that dies while it starts is not started again: no worker is left.
        words = "died one after the other|no others took over in time"
        with pytest.raises(WorkersLostError, match=words):
            list(run_in_parallel(die, (), range(10)))


@pytest.mark.slow
@pytest.mark.parametrize("seconds", [0.01, 1, 2, 4])
@pytest.mark.parametrize(("n_workers", "n_killed"), [(1, 1), (2, 1), (2, 2)])
def test_dask_workers_killed_at_any_time(n_workers, n_killed, seconds):
    """In a cluster that has just started; the next run works, too."""
    with start_cluster(n_workers) as cluster, Client(cluster) as client:
        client.wait_for_workers(n_workers, timeout=120)
        args = (client, n_killed)
        with parallel_config(backend="dask"):
            threading.Timer(seconds, kill_workers, args).start()
            results = run_in_parallel(slow_sum, (make_data(), 2), [*range(40)] * 3)
            assert list(results) == EXPECTED * 3
            assert count_workers() >= 1
            results = run_in_parallel(slow_sum, (make_data(), 2), range(40))
            assert list(results) == EXPECTED


@on_posix
@pytest.mark.slow
@pytest.mark.parametrize("number", [0, 1])
def test_a_dask_worker_that_dies_while_the_data_are_sent(number):
    """Dask's own broadcast would never end."""
    with two_workers() as client:
        pid = dict(sorted(client.run(os.getpid).items()))
        pid = list(pid.values())[number]
        os.kill(pid, signal.SIGSTOP)
        threading.Timer(1, os.kill, (pid, signal.SIGKILL)).start()
        with parallel_config(backend="dask"):
            results = run_in_parallel(column_sum, (make_data(), 2), range(40))
            assert list(results) == EXPECTED


@on_posix
@pytest.mark.slow
def test_dask_workers_that_keep_dying():
    with start_cluster(2) as cluster, Client(cluster), parallel_config(backend="dask"):
        over = threading.Event()

        def kill_some():
            for number in range(8):
                if over.wait(0.5):
                    return
                pids = [nanny.pid for nanny in cluster.workers.values() if nanny.pid]
                with contextlib.suppress(OSError):
                    os.kill(pids[number % len(pids)], signal.SIGKILL)

        thread = threading.Thread(target=kill_some)
        thread.start()
        try:
            results = run_in_parallel(slow_sum, (make_data(), 2), [*range(40)] * 2)
            assert list(results) == EXPECTED * 2
        finally:
            over.set()
            thread.join()


@pytest.mark.slow
def test_a_dask_worker_that_retires():
    with two_workers() as client:
        (address, _) = client.scheduler_info()["workers"]
        retire = threading.Timer(0.5, client.retire_workers, ([address],))
        with parallel_config(backend="dask"):
            retire.start()
            results = run_in_parallel(slow_sum, (make_data(), 2), [*range(40)] * 2)
            assert list(results) == EXPECTED * 2
        retire.join()


@pytest.mark.slow
def test_dask_workers_that_do_not_come_back(monkeypatch):
    monkeypatch.setattr("mvpa_kfda.utils.cluster._PATIENCE", 2)
    with start_cluster(1) as cluster, Client(cluster) as client:
        client.wait_for_workers(1, timeout=120)
        with parallel_config(backend="dask", wait_for_workers_timeout=1):
            results = run_in_parallel(slow_sum, (make_data(), 2), range(40))
            assert next(results) == EXPECTED[0]
            cluster.scale(0)
            words = "workers of the Dask cluster died, and no others took over in time"
            with pytest.raises(WorkersLostError, match=words):
                list(results)
            with pytest.raises(TimeoutError, match="no worker after 1 seconds"):
                count_workers()


@pytest.mark.slow
def test_a_call_that_kills_one_dask_worker(mortal_dask, tmp_path):
    results = run_in_parallel(die_once, (tmp_path / "died",), range(10))
    assert list(results) == list(range(10))
    assert (tmp_path / "died").exists()


def test_errors_of_the_function_arrive_from_dask(dask):
    with pytest.raises(ValueError, match="Item 3 is flat"):
        list(run_in_parallel(fail, (), range(10)))


def test_closing_with_dask(dask):
    args = (slow_sum, (make_data(), 2), [0] * 1000)
    with contextlib.closing(run_in_parallel(*args)) as results:
        assert next(results) == EXPECTED[0]
    assert is_idle(dask)


@pytest.mark.slow
def test_interrupting_with_dask(dask, tmp_path):
    path = tmp_path / "begun"
    interrupt_when_there(path)
    with pytest.raises(KeyboardInterrupt, match=r"^$"):
        list(run_in_parallel(begin, (path,), range(1000)))


@pytest.mark.slow
def test_a_dask_cluster_that_starts_empty_grows_and_closes():
    with start_cluster(0) as cluster, Client(cluster) as client:
        with parallel_config(backend="dask", wait_for_workers_timeout=1):
            with pytest.raises(TimeoutError, match="no worker after 1 seconds"):
                list(run_in_parallel(where, (), range(10)))
            cluster.scale(1)
            client.wait_for_workers(1, timeout=120)
            results = run_in_parallel(where, (), range(90))
            pids = {next(results)}
            cluster.scale(2)
            assert len(pids.union(results)) == 2
            results = run_in_parallel(where, (), range(300))
            next(results)
            cluster.close()
            words = "The connection to the scheduler"
            with pytest.raises(WorkersLostError, match=words):
                list(results)
