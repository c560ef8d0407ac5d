"""What holds for all tests."""

import gc
import os
import random
import signal
import sys
from collections import defaultdict

import pytest

#: Read by type checkers, never run.
collect_ignore = ["typing"]
#: No display is needed, here and in processes that tests start.
os.environ["MPLBACKEND"] = "Agg"
if "PYTEST_XDIST_WORKER" in os.environ:
    # Read when BLAS is loaded. Its threads would keep a processor busy while they wait,
    # which the other process needs.
    os.environ.setdefault("OMP_NUM_THREADS", "1")


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config, log):
    """Keep files together in a process: what all tests of one need is made once."""
    from xdist.scheduler import WorkStealingScheduling

    return WorkStealingScheduling(config, log)


@pytest.hookimpl(tryfirst=True)  # slow tests are left out afterwards
def pytest_collection_modifyitems(items):
    """Make all but some cases of a test slow where ``some(n)`` says so."""
    cases = defaultdict(list)
    for item in items:
        if item.get_closest_marker("some"):
            cases[item.nodeid.partition("[")[0]].append(item)
    for name, of_test in cases.items():
        (number,) = of_test[0].get_closest_marker("some").args
        for item in left_out(of_test, number, random.Random(name)):
            item.add_marker("slow")


def left_out(cases, number, rng):
    """Return all but so many cases of a test: those whose parts others have as well.

    Parts are what their names are made of. Cases are asked in random order, the same
    one in every run, since neighbours are alike.
    """
    # As they are written, whatever order they are run in.
    cases = sorted(cases, key=lambda case: tuple(case.callspec.indices.values()))
    rest = rng.sample(cases, len(cases))
    parts = {case: set(enumerate(case.callspec.id.split("-"))) for case in rest}
    seen = set()
    for _ in range(min(number, len(rest))):
        case = max(rest, key=lambda case: len(parts[case] - seen))
        seen |= parts[case]
        rest.remove(case)
    return rest


def pytest_collection_finish():
    """Keep what stays anyway out of garbage collections: older nilearn makes many."""
    gc.freeze()


@pytest.fixture
def heard():
    """Hear the signals that a shell may have this process ignore, and its children."""
    names = ("SIGTERM", "SIGHUP")  # the second one is not there on Windows
    numbers = [getattr(signal, name) for name in names if hasattr(signal, name)]
    before = {number: signal.signal(number, signal.SIG_DFL) for number in numbers}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.fixture(autouse=True)
def quiet_progress(monkeypatch):
    """Say nothing of runs that take long because the machine is busy."""
    if "mvpa_kfda.utils.progress" in sys.modules:
        monkeypatch.setattr("mvpa_kfda.utils.progress.PATIENCE", 600)


@pytest.fixture(autouse=True)
def close_figures():
    """Close the figures of every test, and those of examples in docstrings before it.

    Matplotlib warns of many that are open, and some tests count them.
    """

    def close():
        if "matplotlib.pyplot" in sys.modules:
            sys.modules["matplotlib.pyplot"].close("all")

    close()
    yield
    close()


@pytest.fixture
def undrawn(monkeypatch):
    """Make figures, but leave their files empty, where tests look at other things."""

    def write(figure, file, **options):
        file.write(b"") if hasattr(file, "write") else open(file, "wb").close()

    monkeypatch.setattr("matplotlib.figure.Figure.savefig", write)
