"""A Dask cluster of processes on this machine."""

import logging
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
