"""A Dask cluster of processes on this machine.

As a script, one that prints the address of its scheduler, and ends when it is killed.
"""

import logging
import os
import subprocess
import sys
from contextlib import contextmanager, suppress

from distributed import Client, LocalCluster, TimeoutError


def start_cluster(n_workers):
    return LocalCluster(
        n_workers=n_workers,
        threads_per_worker=1,
        processes=True,
        host="127.0.0.1",
        dashboard_address="127.0.0.1:0",
        silence_logs=logging.CRITICAL,
    )


@contextmanager
def two_workers():
    """Yield the client of a new cluster, when both of its workers are there.

    A test that kills workers needs its own: Dask does not always replace them.
    """
    cluster = start_cluster(2)
    client = Client(cluster)
    try:
        client.wait_for_workers(2, timeout=120)
        yield client
    finally:
        # On a busy machine workers that were killed are slow to end, too.
        with suppress(TimeoutError):
            client.close()
            cluster.close()


@contextmanager
def cluster_script():
    """Yield a new process which is the scheduler of two workers, and its address."""
    command = [sys.executable, __file__]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    path = {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}  # of what they call
    with subprocess.Popen(command, **pipes, env=os.environ | path) as process:
        try:
            yield process, process.stdout.readline().strip()
        finally:
            process.kill()


if __name__ == "__main__":
    with start_cluster(2) as script_cluster:
        print(script_cluster.scheduler_address, flush=True)
        sys.stdin.read()
