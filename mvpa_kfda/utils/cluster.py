"""The same function of many items on a Dask cluster, whose workers may die and join.

Dask is imported by whoever has made a cluster; nothing here needs it before.
"""

import ctypes
import sys
import time
from contextlib import closing, suppress
from functools import cache

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


class WorkersLostError(RuntimeError):
    """The workers of a run died; the run can be done again, nothing is wrong in it."""


class _LossError(Exception):
    """A cluster lost what it was working at; it may be sent again."""


def run_on_cluster(backend, call, function, shared, items):
    """The results of a Dask cluster, whose workers may die and join any time."""
    # joblib's own dispatch to Dask is not used. It sends what hides in objects with
    # every call, and scatters each larger array to one worker only, so a run fails.
    job, ready, n_done, n_losses = (call, function, shared, items), {}, 0, 0
    with backend.retrieval_context():
        while n_done < len(items):
            missing = [i for i in range(n_done, len(items)) if i not in ready]
            try:
                time.sleep(n_losses)  # until the scheduler, too, knows who died
                count_on_cluster(backend, _PATIENCE if n_losses else 0)
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


def _is_connected(client):
    """Whether a client has, as far as it knows, a scheduler."""
    return client.status == "running"


def _check_scheduler(client, cause=None):
    """Refuse a client without a scheduler, which may know it from the cause given."""
    # Its calls would wait for a new scheduler (distributed.comm.timeouts.connect, half
    # a minute unless configured), and what it submits meanwhile even for longer.
    if not _is_connected(client):
        raise WorkersLostError(_NO_SCHEDULER) from cause


def count_on_cluster(backend, patience=0):
    """How many workers there are; wait for the first one.

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
        if _is_connected(client):
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
    """A list of one result, which cannot be mistaken for an error of Dask."""
    _set_malloc()
    call, function, shared, items = job
    return [call(function, shared, items[number])]


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
