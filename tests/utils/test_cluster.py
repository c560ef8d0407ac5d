"""The same results from a Dask cluster, whatever happens to its workers."""

import contextlib
import gc
import os
import signal
import sys
import threading
import time

import pytest
from distributed import Client, KilledWorker
from distributed.comm import CommClosedError
from joblib import parallel_config

from mvpa_kfda.utils import cluster
from mvpa_kfda.utils.cluster import _set_malloc
from mvpa_kfda.utils.parallel import WorkersLostError, count_workers, run_in_parallel
from tests.dask_cluster import cluster_script, start_cluster, two_workers
from tests.tasks import (
    EXPECTED,
    Data,
    begin,
    column_sum,
    die,
    die_once,
    fail,
    interrupt_when_there,
    make_data,
    page_faults,
    slow_sum,
    where,
)

on_posix = pytest.mark.skipif(sys.platform == "win32", reason="signals of POSIX")


LOST = "connection to the scheduler of .* was lost.* Start a cluster .* same call again"


def slow_sums(repeats=1):
    """Return what yields the sums of all columns, so often."""
    return run_in_parallel(slow_sum, (make_data(), 2), [*range(40)] * repeats)


def few_sums():
    return list(run_in_parallel(column_sum, (make_data(), 2), range(5)))


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


# ------------------------------------------------------------------- nothing goes wrong


def test_results_are_those_of_a_loop(dask):
    data = make_data()
    Data.times_pickled = 0
    assert list(run_in_parallel(column_sum, (data, 2), range(40))) == EXPECTED
    assert Data.times_pickled == 1  # and not 40 times
    with pytest.raises(ValueError, match="Item 3 is flat"):
        list(run_in_parallel(fail, (), range(10)))
    args = (slow_sum, (data, 2), [0] * 1000)
    with contextlib.closing(run_in_parallel(*args)) as results:
        assert next(results) == EXPECTED[0]
    assert is_idle(dask)


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
def test_interrupting(dask, tmp_path):
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


# ------------------------------------------------------------------------- workers die


@pytest.mark.slow
def test_a_call_that_kills_its_dask_workers(mortal_dask):
    def allow_no_failures(dask_scheduler):
        dask_scheduler.allowed_failures = 0

    mortal_dask.run_on_scheduler(allow_no_failures)
    with pytest.raises(WorkersLostError, match="died one after the other") as raised:
        list(run_in_parallel(die, (), range(10)))
    assert isinstance(raised.value.__cause__, KilledWorker)


@pytest.mark.slow
def test_a_call_that_kills_one_dask_worker(mortal_dask, tmp_path):
    results = run_in_parallel(die_once, (tmp_path / "died",), range(10))
    assert list(results) == list(range(10))
    assert (tmp_path / "died").exists()


@pytest.mark.slow
@pytest.mark.parametrize("seconds", [0.01, 1, 2, 4])
@pytest.mark.parametrize(("n_workers", "n_killed"), [(1, 1), (2, 1), (2, 2)])
def test_workers_killed_at_any_time(n_workers, n_killed, seconds):
    """In a cluster that has just started; the next run works, too."""
    with start_cluster(n_workers) as cluster, Client(cluster) as client:
        client.wait_for_workers(n_workers, timeout=120)
        with parallel_config(backend="dask"):
            threading.Timer(seconds, kill_workers, (client, n_killed)).start()
            assert list(slow_sums(3)) == EXPECTED * 3
            assert count_workers() >= 1
            assert list(slow_sums()) == EXPECTED


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
def test_workers_that_keep_dying():
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
            assert list(slow_sums(2)) == EXPECTED * 2
        finally:
            over.set()
            thread.join()


@pytest.mark.slow
def test_workers_that_do_not_come_back(monkeypatch):
    monkeypatch.setattr("mvpa_kfda.utils.cluster._PATIENCE", 2)
    with start_cluster(1) as cluster, Client(cluster) as client:
        client.wait_for_workers(1, timeout=120)
        with parallel_config(backend="dask", wait_for_workers_timeout=1):
            results = slow_sums()
            assert next(results) == EXPECTED[0]
            cluster.scale(0)
            words = "workers of the Dask cluster died, and no others took over in time"
            with pytest.raises(WorkersLostError, match=words):
                list(results)
            with pytest.raises(TimeoutError, match="no worker after 1 seconds"):
                count_workers()


# ---------------------------------------------------------------- the scheduler is lost


@pytest.mark.parametrize(
    ("call", "is_known"),
    [("ncores", False), ("scatter", True), ("map", False), ("gather", True)],
)
def test_the_scheduler_is_lost_in_a_call(dask, monkeypatch, call, is_known):
    """The client knows it then, or milliseconds later."""

    def lose(*args, **kwargs):
        if is_known:
            monkeypatch.setattr(cluster, "_is_connected", lambda client: False)
        raise CommClosedError("Connection reset by peer")

    monkeypatch.setattr(dask, call, lose)
    with pytest.raises(WorkersLostError, match=LOST) as raised:
        few_sums()
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
        few_sums()


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
    assert few_sums() == EXPECTED[:5]
    with pytest.raises(ValueError, match="3 is flat"):
        list(run_in_parallel(fail, (), range(5)))


@pytest.mark.slow
@pytest.mark.parametrize("moment", ["before", 0.01, 0.02, 0.1, "at work"])
def test_a_killed_scheduler(moment):
    """Dask itself would wait half a minute for another one."""
    with cluster_script() as (script, address), Client(address) as client:
        client.wait_for_workers(2, timeout=120)
        with parallel_config(backend="dask"):
            results = slow_sums(5)
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
