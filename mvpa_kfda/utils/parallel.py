"""The same function of many items: here, in workers of this machine, or on a cluster.

What the calls share may be large, so it reaches every worker once and not with every
call. Every call runs with one BLAS thread: the matrices of a position are too small to
share, and sums in another order would make the last digits depend on the workers.
"""

import os
import threading
import time
import warnings
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
from .cluster import WorkersLostError, count_on_cluster, run_on_cluster

#: Backends whose workers are on this machine. Their subclasses may be clusters.
_LOCAL = (LokyBackend, MultiprocessingBackend, ThreadingBackend)

#: Bytes from which joblib hands an array over as a file in shared memory, written once.
_SHARED_FROM = 10_000

#: Calls per worker in one go, where a backend returns results only all at once.
_CALLS_AT_ONCE = 4

#: Seconds between two looks of a worker whether its parent is still there.
_LOOK_AFTER = 1

_TERMINATED = (
    "A worker process was killed, most often because the memory of the machine, or of "
    "the job, ran out. Use fewer workers (n_jobs), which need less memory together, or "
    "let each of them need less (dtype='float32', fewer permutations)."
)


@cache
def _thread_pools():
    """What controls the loaded BLAS; to look for it takes milliseconds."""
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
            yield from run_on_cluster(backend, _call, function, shared, items)
        elif (n_workers := _n_workers(backend, n_jobs)) == 1:
            yield from (function(*shared, item) for item in items)
        else:
            parent = os.getpid() if type(backend) in _LOCAL else None
            args = [(parent, function, shared, item) for item in items]
            calls = [delayed(_call_in_worker)(*each) for each in args]
            yield from _in_workers(calls, n_workers)


def count_workers(n_jobs=None, here=False):
    """How many items are worked at together, or `here`, on this machine."""
    backend, _ = get_active_backend()
    local = type(backend) in _LOCAL
    if n_jobs == 1 or (here and not local):
        return 1
    if _is_cluster(backend):
        return max(1, count_on_cluster(backend))
    n_workers = max(1, effective_n_jobs(n_jobs))
    return min(n_workers, cpu_count()) if local else n_workers


def _is_cluster(backend):
    """Tell the backend of a Dask cluster, which may not be installed."""
    return type(backend).__name__ == "DaskDistributedBackend"


def _n_workers(backend, n_jobs):
    """The number of workers; on this machine not more than processors."""
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
    """The results of joblib's workers, as they come where the backend can."""
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


def keep_freed_memory():
    """Have the C library reuse memory instead of returning it after every step."""
    # The GNU allocator adapts to the largest array freed so far (up to 32 MiB). In a
    # new worker that is a small one, and half the time would go into handing the same
    # megabytes back and forth. The array is never touched, so it costs nothing.
    np.empty(2**24, np.uint8)
