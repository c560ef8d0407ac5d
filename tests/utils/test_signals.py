"""Signals that end a process end its workers too, and close its files."""

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from mvpa_kfda.utils.checkpoint import Checkpoint
from mvpa_kfda.utils.signals import ending_in_order, interrupting_signals

pytestmark = pytest.mark.usefixtures("heard")

SIGNALS = [
    pytest.param(
        getattr(signal, name, None),
        id=name,
        marks=pytest.mark.skipif(not hasattr(signal, name), reason="not on Windows"),
    )
    for name in ("SIGTERM", "SIGHUP")
]


#: A searchlight of some 60 s with two workers, which say who they are.
SEARCHLIGHT = """
import os
import time

import numpy as np

from mvpa_kfda import searchlight
from mvpa_kfda.decoding import positions

FOLDER = os.environ["FOLDER"]


def kernel(A, B):
    if os.getpid() != int(os.environ["SCRIPT"]):  # which tries the kernel, too
        open(os.path.join(FOLDER, f"{os.getpid()}.worker"), "w").close()
        time.sleep(0.1)
    return A @ B.T


if __name__ == "__main__":
    positions._LONGEST = 2
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(60, 600)), np.tile([0, 1, 2], 20)
    near = np.abs(np.subtract.outer(np.arange(600), np.arange(600))) < 20
    os.environ["SCRIPT"] = str(os.getpid())
    searchlight(
        X,
        y,
        adjacency=near,
        kernel=kernel,
        n_permutations=5,
        random_state=0,
        n_jobs=2,
        checkpoint=os.path.join(FOLDER, "run.checkpoint"),
    )
"""


@pytest.fixture
def start(tmp_path):
    """Return a function that starts a script and waits for its two workers."""
    processes = []

    def start(script):
        path = tmp_path / "script.py"
        path.write_text(script)
        environment = os.environ | {
            "JOBLIB_TEMP_FOLDER": str(tmp_path),
            "FOLDER": str(tmp_path),
        }
        process = subprocess.Popen(
            [sys.executable, path],
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        processes.append(process)
        wait_until(lambda: process.poll() is not None or len(workers(tmp_path)) == 2)
        assert process.poll() is None, process.stderr.read()
        return process

    yield start
    for process in processes:
        process.kill()
        process.communicate()


def workers(folder):
    return [int(path.stem) for path in folder.glob("*.worker")]


def wait_until(is_so, seconds=60):
    end = time.monotonic() + seconds
    while not is_so() and time.monotonic() < end:
        time.sleep(0.02)
    return is_so()


def is_alive(pid):
    try:
        status = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False
    return status.rpartition(")")[2].split()[0] != "Z"


def assert_all_gone(folder):
    pids = workers(folder)
    assert len(pids) == 2
    # Left alone, they live for another six seconds or more.
    assert wait_until(lambda: not any(map(is_alive, pids)), seconds=3)
    assert wait_until(lambda: not [*folder.glob("joblib_memmapping*")], seconds=3)


@pytest.mark.parametrize("number", SIGNALS)
def test_the_first_signal_interrupts(number):
    with interrupting_signals() as caught:
        with pytest.raises(KeyboardInterrupt, match=r"^$"):
            signal.raise_signal(number)
        signal.raise_signal(number)
    assert caught == [number] * 2
    assert signal.getsignal(number) is signal.SIG_DFL


def test_signals_that_are_handled_or_ignored_stay_so():
    seen = []
    before = signal.signal(signal.SIGTERM, lambda *args: seen.append(args[0]))
    try:
        with ending_in_order(), interrupting_signals() as caught:
            signal.raise_signal(signal.SIGTERM)
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        with ending_in_order():
            signal.raise_signal(signal.SIGTERM)
        assert signal.getsignal(signal.SIGTERM) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGTERM, before)
    assert (seen, caught) == ([signal.SIGTERM], [])


def test_other_threads_change_nothing():
    found = []

    def look():
        with ending_in_order():
            found.append(signal.getsignal(signal.SIGTERM))

    thread = threading.Thread(target=look)
    thread.start()
    thread.join()
    assert found == [signal.SIG_DFL]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="not on Windows")
def test_forked_processes_end_as_ever():
    with interrupting_signals() as caught:
        if (pid := os.fork()) == 0:
            signal.raise_signal(signal.SIGTERM)
            os._exit(1)
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == -signal.SIGTERM
    assert caught == []


@pytest.mark.parametrize("number", SIGNALS)
def test_the_process_ends_by_the_signal_after_its_cleaning_up(number):
    script = (
        "import signal, sys\n"
        "from mvpa_kfda.utils.signals import ending_in_order\n"
        "with ending_in_order():\n"
        "    try:\n"
        "        signal.raise_signal(int(sys.argv[1]))\n"
        "    finally:\n"
        "        print('cleaned up')\n"
        "print('went on')\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, str(int(number))],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.stdout, done.stderr) == ("cleaned up\n", "")
    assert done.returncode == -number


@pytest.mark.slow
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="looks into /proc")
@pytest.mark.parametrize("number", SIGNALS)
def test_a_searchlight_ends_in_order(start, tmp_path, number):
    path = tmp_path / "run.checkpoint"
    process = start(SEARCHLIGHT)
    assert wait_until(lambda: Path(f"{path}-wal").exists())
    process.send_signal(number)
    assert process.wait(timeout=60) == -number
    assert_all_gone(tmp_path)
    assert not Path(f"{path}-wal").exists()
    with Checkpoint(path) as checkpoint:
        assert checkpoint.description is not None
