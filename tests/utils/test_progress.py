"""What is told of a long run, by a clock that stands still unless it is moved."""

import io
import subprocess
import sys
import types

import pytest

from mvpa_kfda.utils import progress
from mvpa_kfda.utils.progress import Progress, word_seconds


@pytest.fixture(autouse=True)
def quiet_progress():
    """Nothing is quiet here."""


@pytest.fixture
def clock(monkeypatch):
    """Seconds that a test may change."""
    clock = types.SimpleNamespace(now=50.0)
    monkeypatch.setattr(progress._Speed, "_clock", lambda self: clock.now)
    return clock


@pytest.fixture
def follow(clock, capsys):
    """Run blocks of so many positions, and return the lines that appear."""

    def follow(lengths, seconds, ready=0, **options):
        with Progress(ready + sum(lengths), ready, **options) as shown:
            for length in lengths:
                clock.now += seconds
                shown.update(length)
        out, err = capsys.readouterr()
        assert out == ""
        return err.splitlines()

    return follow


class Terminal(io.StringIO):
    """A stream that someone looks at."""

    def isatty(self):
        return True


def fail(*_):
    pytest.fail("it was called")


# ----------------------------------------------------------------------------- a log


def test_a_log_gets_a_line_now_and_then(follow):
    lines = follow([4] * 58, 100)
    assert lines[0] == "4 of 232 positions, about 1.6 h left"
    assert lines[-1] == "232 of 232 positions in 1.6 h"
    assert 10 <= len(lines) <= 22
    assert lines[-2].startswith("2")  # the lines are spread over the run
    assert all(" of 232 positions, about " in line for line in lines[:-1])
    assert lines[-2].endswith((" min left", " s left"))
    # Short blocks do not fill it.
    assert len(follow([1] * 100_000, 0.01)) <= 22
    assert len(follow([1] * 1000, 0.1)) == 3  # after 5 s, a minute later, at the end
    assert follow([1], 120) == ["1 of 1 position in 2 min"]


def test_short_runs_are_silent_unless_asked(follow):
    short, long = ["8 of 8 positions in 4 s"], "4 of 8 positions, about 6 s left"
    for verbose in (True, 1, None):
        assert follow([4, 4], 2, verbose=verbose) == ([] if verbose is None else short)
        lines = follow([4, 4], 6, verbose=verbose)
        assert lines == [long, "8 of 8 positions in 12 s"]
    for verbose in (False, 0):
        assert follow([4, 4], 1e5, verbose=verbose, outlook=fail) == []


def test_what_earlier_runs_did_is_not_counted_as_speed(follow):
    lines = follow([4] * 8, 100, ready=200)
    assert lines[0] == "204 of 232 positions, about 12 min left"
    assert lines[-1] == "232 of 232 positions in 13 min"
    assert follow([], 0, ready=232, verbose=True) == ["232 of 232 positions in 0 s"]


@pytest.mark.parametrize("error", [KeyboardInterrupt, ValueError])
def test_a_run_that_stops_does_not_end(clock, capsys, error):
    with pytest.raises(error), Progress(8) as shown:  # noqa: PT012
        clock.now += 100
        shown.update(4)
        raise error
    err = capsys.readouterr().err
    assert err == "4 of 8 positions, about 1.7 min left\n"


def test_a_log_that_cannot_be_written_stops_no_run(clock, monkeypatch):
    class Full(io.StringIO):
        def write(self, text):
            raise OSError("No space left on device")

    closed = io.StringIO()
    closed.close()
    for stream in (Full(), closed, None):
        monkeypatch.setattr(sys, "stderr", stream)
        with Progress(8, verbose=True) as shown:
            clock.now += 100
            shown.update(4)


# ---------------------------------------------------------------------- the estimate


@pytest.mark.parametrize("n_workers", [1, 3, 8])
def test_blocks_of_several_workers_come_in_waves(clock, n_workers):
    speed, n_waves = progress._Speed(4 * n_workers * 5, n_workers), 5
    for wave in range(1, n_waves + 1):
        clock.now += 100
        for _ in range(n_workers):
            speed.add(4)
            assert speed.left() == pytest.approx(100 * (n_waves - wave))


def test_the_first_moments_are_no_estimate(clock):
    speed = progress._Speed(1000, 1)
    clock.now += 4.9
    speed.add(1)
    assert speed.left() is None
    clock.now += 0.1
    assert speed.left() == pytest.approx(5 * 999)
    # Workers take time to start.
    speed = progress._Speed(4 * 2 * 11, 2)
    clock.now += 20  # 2 seconds of work
    speed.add(4)
    speed.add(4)
    assert speed.left() is None
    for wave in range(2, 12):
        clock.now += 2
        for _ in range(2):
            speed.add(4)
            assert speed.left() == pytest.approx(2 * (11 - wave))
    # Last blocks may be short.
    speed = progress._Speed(10, 8)
    clock.now += 60
    speed.add(4)
    assert speed.left() == 0  # the others are at work too, and about to come


def test_long_runs_get_their_outlook_once(follow):
    told = []

    def outlook(seconds):
        told.append(seconds)
        return "Think it over."

    lines = follow([4] * 58, 100, outlook=outlook)
    assert lines[1] == "Think it over."
    assert lines.count("Think it over.") == 1
    assert told == [pytest.approx(5800)]
    follow([4, 4], 299, outlook=fail)  # not for a few minutes


def test_durations():
    for seconds, words in {
        0: "0 s",
        0.04: "0 s",
        9.94: "9.9 s",
        9.96: "10 s",
        89.9: "90 s",
        90: "1.5 min",
        600: "10 min",
        5399: "90 min",
        5400: "1.5 h",
        172_799: "48 h",
        172_800: "2 days",
        1e7: "116 days",
    }.items():
        assert word_seconds(seconds) == words


# ------------------------------------------------------------------------------ bars


def test_a_terminal_gets_a_bar(clock, monkeypatch):
    monkeypatch.setattr(sys, "stderr", Terminal())
    with Progress(8, 2, verbose=True, outlook=lambda seconds: "Think.") as shown:
        clock.now += 1000
        shown.update(3)
        shown.update(3)
    text = sys.stderr.getvalue()
    assert "2/8" in text
    assert "8/8" in text
    assert "Think.\n" in text
    assert "positions, about" not in text


@pytest.mark.parametrize("verbose", [None, False])
def test_a_bar_waits_or_stays_away(monkeypatch, verbose):
    monkeypatch.setattr(sys, "stderr", Terminal())
    monkeypatch.setattr(progress, "PATIENCE", 1e9)
    with Progress(8, verbose=verbose) as shown:
        shown.update(8)
    assert sys.stderr.getvalue() == ""


def test_a_notebook_gets_its_own_bar(monkeypatch, capsys):
    made = []

    class Bar:
        def __init__(self, **options):
            made.append(options)

        def update(self, n):
            made.append(n)

        def close(self):
            made.append("closed")

    shell = types.SimpleNamespace(kernel=None)
    ipython = types.SimpleNamespace(get_ipython=lambda: shell)
    monkeypatch.setitem(sys.modules, "IPython", ipython)
    monkeypatch.setitem(sys.modules, "tqdm.auto", types.SimpleNamespace(tqdm=Bar))
    with Progress(8, verbose=True) as shown:
        shown.update(8)
    options, *rest = made
    assert (options["total"], options["initial"], options["delay"]) == (8, 0, 0)
    assert rest == [8, "closed"]
    assert capsys.readouterr() == ("", "")


def test_a_notebook_without_widgets_gets_a_bar_of_text():
    """Where tqdm warns that ipywidgets are missing, which is no fault of the run."""
    code = """
import sys, types
class ZMQInteractiveShell:
    kernel = None
shell = ZMQInteractiveShell()
sys.modules["IPython"] = types.ModuleType("IPython")
sys.modules["IPython"].get_ipython = lambda: shell
sys.modules["ipykernel.zmqshell"] = types.ModuleType("zmqshell")
sys.modules["ipywidgets"] = None
from mvpa_kfda.utils.progress import Progress
with Progress(8, verbose=True) as shown:
    shown.update(8)
assert "tqdm.autonotebook" in sys.modules
"""
    command = [sys.executable, "-W", "always::Warning:mvpa_kfda", "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert "8/8" in done.stderr
    assert "IProgress" not in done.stderr
    assert "Warning" not in done.stderr
