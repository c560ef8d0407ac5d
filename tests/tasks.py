"""What workers are given to do, in a module that they load quickly."""

import os
import platform
import signal
import threading
import time
from dataclasses import dataclass

import numpy as np
from scipy.sparse import csr_array


@dataclass(frozen=True)
class Data:
    """Arrays inside an object, as those of a source."""

    values: np.ndarray
    members: csr_array

    times_pickled = 0

    def __getstate__(self):
        Data.times_pickled += 1
        return self.__dict__


def make_data():
    rng = np.random.default_rng(0)
    members = csr_array(rng.random((100, 100)) < 0.9)
    return Data(rng.standard_normal((100, 500)), members)


#: What the sums of columns below are, doubled.
EXPECTED = [2 * float(make_data().values[:, item].sum()) for item in range(40)]


def column_sum(data, factor, item):
    time.sleep(0.3 if item == 0 else 0)  # the first is not the first to be there
    return factor * float(data.values[:, item].sum())


def sum_and_place(data, factor, item):
    return column_sum(data, factor, item), os.getpid()


def slow_sum(data, factor, item):
    time.sleep(0.05)
    return factor * float(data.values[:, item].sum())


def where(item):
    time.sleep(0.05)
    return os.getpid()


def begin(path, item):
    path.touch()
    time.sleep(0.05)


def worker(item):
    time.sleep(0.05)
    return threading.get_ident()


def page_faults(item):
    """Count the pages that 20 temporaries of 2 MB take from the system."""
    if platform.libc_ver()[0] != "glibc":
        return 0  # other systems have their own ways
    import resource

    before = resource.getrusage(resource.RUSAGE_THREAD).ru_minflt
    for _ in range(20):
        np.ones(250_000)  # from 4 MB on NumPy asks for huge pages, which are few
    return resource.getrusage(resource.RUSAGE_THREAD).ru_minflt - before


def fail(item):
    if item == 3:
        raise ValueError("Item 3 is flat.")
    return item


def die(item):
    if item == 3:
        time.sleep(0.5)
        os.kill(os.getpid(), signal.SIGKILL)
    return item


def die_once(path, item):
    if item == 3 and not path.exists():
        path.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return item


def large(item):
    """Return more than there is room for in a pipe that nobody reads."""
    return b" " * 2**20


def arrays_in_worker(data, item):
    found = [data.values, data.members.indices]
    return [(type(x).__name__, x.filename, x.flags.writeable) for x in found]


def wait_for_file(path, item):
    for _ in range(1000):
        if item < 30 or path.exists():
            return item
        time.sleep(0.01)
    return None


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
