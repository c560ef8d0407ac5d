"""The same function of many items: here, in workers of this machine, or on a cluster.

What the calls share may be large, so it reaches every worker once and not with every
call. Every call runs with one BLAS thread: the matrices of a position are too small to
share, and sums in another order would make the last digits depend on the workers.
"""

import ctypes
import os
import sys
import threading
import time
import warnings
from contextlib import closing, suppress
from functools import cache
from multiprocessing import parent_process

import numpy as np
from joblib import Parallel, cpu_count, delayed, effective_n_jobs
from joblib.externals.loky.process_executor import TerminatedWorkerError
from joblib.parallel import (
    LokyBackend,
    MultiprocessingBackend,
    ThreadingBackend,
    get_active_backend,
)
from threadpoolctl import ThreadpoolController

from .checks import warn

#: Backends whose workers are on this machine. Their subclasses may be clusters.
_LOCAL = (LokyBackend, MultiprocessingBackend, ThreadingBackend)

#: Bytes from which joblib hands an array over as a file in shared memory, written once.
_SHARED_FROM = 10_000

#: Calls per worker in one go, where a backend returns results only all at once.
_CALLS_AT_ONCE = 4

#: Seconds between two looks of a worker whether its parent is still there.
_LOOK_AFTER = 1

#: How often in a row a cluster may lose its work without finishing an item, and how
#: many seconds it has to start workers in the place of those that died.
_MAX_LOSSES, _PATIENCE = 3, 30

#: Parameters of glibc's mallopt, and their values in bytes: how much free memory at the
#: end of the heap a process keeps, and from what size an array has pages of its own,
#: which go back with it. The latter is the most that every glibc takes.
_MALLOC_OPTIONS = {-1: 2**30, -3: 2**25}

_NO_SCHEDULER = (
    "The connection to the scheduler of the Dask cluster was lost: the scheduler was "
    "killed or has ended (see its log), or the network broke. Start a cluster and its "
    "client anew, and make the same call again."
)
_ALL_KILLED = (
    "The workers of the Dask cluster died one after the other at the same work. Most "
    "often they are killed for using too much memory, or because their time is over: "
    "see their logs, and give them more of it."
)
_NONE_LEFT = (
    "All workers of the Dask cluster died, and no others took over in time. Start the "
    "cluster again; give its workers more memory if that is why they died, see their "
    "logs."
)
_TERMINATED = (
    "A worker process was killed, most often because the memory of the machine, or of "
    "the job, ran out. Use fewer workers (n_jobs), which need less memory together, or "
    "let each of them need less (dtype='float32', fewer permutations)."
)


class WorkersLostError(RuntimeError):
    """The workers of a run died; the run can be done again, nothing is wrong in it."""


class _LossError(Exception):
    """A cluster lost what it was working at; it may be sent again."""


@cache
def _thread_pools():
    """Return what controls the loaded BLAS; to look for it takes milliseconds."""
    return ThreadpoolController()


class _OneBlasThread:
    """A context in which BLAS has one thread; any number of threads may be inside."""

    # The threads of a process share its BLAS. If each restored the limit that it found,
    # the first one out would lift it for the others; here the last one out does.

    def __init__(self):
        self._lock = threading.Lock()
        self._inside = 0
        self._first = None

    def __enter__(self):
        with self._lock:
            # Set by everyone: a limit may hold for the thread that set it only.
            limits = _thread_pools().limit(limits=1, user_api="blas")
            if self._inside == 0:
                self._first = limits
            self._inside += 1

    def __exit__(self, *_):
        with self._lock:
            self._inside -= 1
            if self._inside == 0:
                self._first.restore_original_limits()


one_blas_thread = _OneBlasThread()


def run_in_parallel(function, shared, items, n_jobs=None):
    """Yield ``function(*shared, item)`` of every item, in the order of the items.

    Values do not depend on `n_jobs`, which is joblib's: None is 1 unless in a
    ``joblib.parallel_config``, and 1 is a plain loop. On this machine there are never
    more workers than processors; a warning says so. With the backend "dask" any number
    but 1 stands for all workers of the cluster, also those that join later. Workers
    that die, and that no others take over from, are a `WorkersLostError`. The function
    is one that workers can import; arrays in what is shared may be read-only ones.
    Closing the generator stops the workers; close it, with ``contextlib.closing``,
    where an error in the loop's body would keep it alive.

    Examples
    --------
    >>> from mvpa_kfda.utils.parallel import run_in_parallel
    >>> list(run_in_parallel(pow, (2,), [1, 2, 3]))
    [2, 4, 8]
    """
    items = list(items)
    backend, _ = get_active_backend()
    with one_blas_thread:
        if n_jobs != 1 and _is_cluster(backend):
            yield from _on_cluster(backend, function, shared, items)
        elif (n_workers := _n_workers(backend, n_jobs)) == 1:
            yield from (function(*shared, item) for item in items)
        else:
            parent = os.getpid() if type(backend) in _LOCAL else None
            args = [(parent, function, shared, item) for item in items]
            calls = [delayed(_call_in_worker)(*each) for each in args]
            yield from _in_workers(calls, n_workers)


def count_workers(n_jobs=None, here=False):
    """Return how many items are worked at together, or `here`, on this machine."""
    backend, _ = get_active_backend()
    local = type(backend) in _LOCAL
    if n_jobs == 1 or (here and not local):
        return 1
    if _is_cluster(backend):
        return max(1, _count_on_cluster(backend))
    n_workers = max(1, effective_n_jobs(n_jobs))
    return min(n_workers, cpu_count()) if local else n_workers


def _is_cluster(backend):
    """Tell the backend of a Dask cluster, which may not be installed."""
    return type(backend).__name__ == "DaskDistributedBackend"


def _n_workers(backend, n_jobs):
    """Return the number of workers; on this machine not more than processors."""
    # More would share the processors, and each is an interpreter that loads everything.
    n_workers = effective_n_jobs(n_jobs)
    if type(backend) not in _LOCAL or n_workers <= (most := cpu_count()):
        return n_workers
    if n_jobs is not None:  # a number in parallel_config is not for this call only
        warn(
            f"n_jobs={n_jobs} asks for more workers than there are processors for this "
            f"process, {most}, so {most} will work. Use {most} or less, or -1 for all "
            "processors.",
            UserWarning,
            of_result=False,  # the scores are the same with any number of workers
        )
    return most


def _call(function, shared, item):
    """Call the function in a worker."""
    with one_blas_thread:
        return function(*shared, item)


def _call_in_worker(parent, function, shared, item):
    """Call the function in a worker of this machine, which ends with its parent."""
    # Threads have the process of the caller, which may outlive its own parent.
    if parent_process() is not None and parent_process().pid == parent:
        _end_with_parent()
    return _call(function, shared, item)


@cache
def _end_with_parent():
    """Have this process end soon after its parent was killed; once is enough."""
    # A worker of loky holds both ends of its pipes, so it does not see that nobody
    # reads its results any more. It would wait forever for room in the pipe, and keep
    # what it shares in memory, and the output of the script, open.
    parent = parent_process()

    def wait():
        # Workers of loky know nothing of their parent but its number.
        while (
            os.getppid() == parent.pid if parent.sentinel is None else parent.is_alive()
        ):
            time.sleep(_LOOK_AFTER)
        os._exit(1)

    threading.Thread(target=wait, daemon=True).start()


def _in_workers(calls, n_workers):
    """Yield the results of joblib's workers, as they come where the backend can."""
    try:
        pool = Parallel(n_workers, max_nbytes=_SHARED_FROM, return_as="generator")
    except ValueError:  # this backend, multiprocessing for one, returns all at once
        with Parallel(n_workers, max_nbytes=_SHARED_FROM) as pool:
            step = _CALLS_AT_ONCE * n_workers
            for start in range(0, len(calls), step):
                yield from pool(calls[start : start + step])
        return
    results = pool(calls)
    try:
        # Not the results themselves: "yield from" would close them in its own way.
        yield from (result for result in results)
    except TerminatedWorkerError as error:
        raise WorkersLostError(_TERMINATED) from error
    finally:
        with warnings.catch_warnings():
            # joblib counts the results that are not wanted any more.
            warnings.simplefilter("ignore")
            results.close()


def _on_cluster(backend, function, shared, items):
    """Yield the results of a Dask cluster, whose workers may die and join any time."""
    # joblib's own dispatch to Dask is not used. It sends what hides in objects with
    # every call, and scatters each larger array to one worker only, so a run fails.
    job, ready, n_done, n_losses = (function, shared, items), {}, 0, 0
    with backend.retrieval_context():
        while n_done < len(items):
            missing = [i for i in range(n_done, len(items)) if i not in ready]
            try:
                time.sleep(n_losses)  # until the scheduler, too, knows who died
                _count_on_cluster(backend, _PATIENCE if n_losses else 0)
                with closing(_submit(backend, job, missing)) as results:
                    for number, result in results:
                        ready[number], n_losses = result, 0
                        while n_done in ready:
                            yield ready.pop(n_done)
                            n_done += 1
            except _LossError as error:
                _check_scheduler(backend.client, error.__cause__)
                # Most often the last worker that had the shared data died.
                n_losses += 1
                if n_losses > _MAX_LOSSES:
                    raise WorkersLostError(_ALL_KILLED) from error.__cause__


def _check_scheduler(client, cause=None):
    """Refuse a client without a scheduler, which may know it from the cause given."""
    # Its calls would wait for a new scheduler (distributed.comm.timeouts.connect, half
    # a minute unless configured), and what it submits meanwhile even for longer.
    if client.status != "running":
        raise WorkersLostError(_NO_SCHEDULER) from cause


def _count_on_cluster(backend, patience=0):
    """Return how many workers there are; wait for the first one.

    As long as joblib waits, or for so many seconds, for workers that are started anew.
    """
    from distributed import CancelledError, KilledWorker

    end = time.monotonic() + patience
    while True:
        _check_scheduler(backend.client)
        try:
            # Wakes an adaptive cluster; says with a TimeoutError that no worker comes.
            return backend.effective_n_jobs(-1)
        except (TimeoutError, CancelledError, KilledWorker) as error:
            _check_scheduler(backend.client, error)
            if time.monotonic() < end:
                continue
            if patience or not isinstance(error, TimeoutError):
                raise WorkersLostError(_NONE_LEFT) from error
            raise
        except OSError as error:  # of the connection, before the client knows of it
            raise WorkersLostError(_NO_SCHEDULER) from error


def _submit(backend, job, numbers):
    """Ship a job to a cluster; yield numbers of its items and results, any first.

    A `_LossError`, if it dies with the workers.
    """
    # A task is a reference to the job and a number. A worker that joins later gets the
    # job from another one.
    from distributed import CancelledError, KilledWorker, as_completed

    client = backend.client
    data = _spread(client, job)
    _check_scheduler(client)
    try:
        futures = client.map(
            _call_on_cluster, numbers, job=data, pure=False, **backend.submit_kwargs
        )
    except OSError as error:
        raise WorkersLostError(_NO_SCHEDULER) from error
    _check_scheduler(client)  # a loss from here on cancels the futures
    number_of = dict(zip(futures, numbers, strict=True))
    try:
        done = as_completed(futures, loop=client.loop)
        del futures  # a worker may forget a result that has come
        for batch in done.batches():
            for future in batch:
                if future.status == "error":
                    future.result()  # raises what the call raised
            try:
                results = client.gather(batch)
            except (OSError, CancelledError) as error:
                raise _LossError from error
            for future, (result,) in zip(batch, results, strict=True):
                yield number_of.pop(future), result
            del batch, future
    except KilledWorker as error:
        raise WorkersLostError(_ALL_KILLED) from error
    finally:
        # Without a scheduler there is nothing to cancel, and what has come is whole.
        if client.status == "running":
            with suppress(Exception):
                client.cancel(list(number_of))


def _spread(client, job):
    """Send the job to all workers; return the reference to it."""
    from distributed import CancelledError

    try:
        # A list, because scatter takes each of its elements for a piece of data.
        # Without hashes, which take as long as sending and mix up jobs of two runs.
        (data,) = client.scatter([job], hash=False)
    except (OSError, CancelledError, KeyError) as error:  # of workers that die now
        raise _LossError from error
    # Not scatter's own broadcast: it copies to the workers that there were when it
    # began until all of them have it, so if one of these dies it never ends. Where
    # copying fails, a worker gets the job from another one with its first task.
    _check_scheduler(client)
    with suppress(Exception):
        client.replicate([data])
    return data


def _call_on_cluster(number, job):
    """Return a list of one result, which cannot be mistaken for an error of Dask."""
    _set_malloc()
    function, shared, items = job
    return [_call(function, shared, items[number])]


@cache
def _set_malloc():
    """Let this process use the memory of dropped arrays again; once is enough."""
    # Dask starts its workers with MALLOC_TRIM_THRESHOLD_=65536, which also stops glibc
    # from learning that large arrays come and go. Every temporary array would be
    # unmapped when it is dropped, and the pages of the next one faulted in again, which
    # takes longer than the sums. Systems other than glibc's need no mallopt.
    if sys.platform != "linux":
        return
    with suppress(OSError, AttributeError):
        mallopt = ctypes.CDLL(None).mallopt
        for option, n_bytes in _MALLOC_OPTIONS.items():
            mallopt(option, n_bytes)


def keep_freed_memory():
    """Have the C library reuse memory instead of returning it after every step."""
    # The GNU allocator adapts to the largest array freed so far (up to 32 MiB). In a
    # new worker that is a small one, and half the time would go into handing the same
    # megabytes back and forth. The array is never touched, so it costs nothing.
    np.empty(2**24, np.uint8)
