"""How far a long run is, and how long it will take.

In a terminal or a notebook it is a bar. Elsewhere, as in the log of a batch job, a bar
would be written anew thousands of times, and a line now and then takes its place.
"""

import math
import sys
import time
import warnings
from contextlib import suppress
from numbers import Integral

import tqdm

from .checks import check_flag, counted
from .text import plain_text, tell

#: Seconds after which a run that was not told to be quiet is shown, and an estimate is
#: one: the first moments of a run are slower than the rest.
PATIENCE = 5.0

#: Seconds that workers may take to start, which the first of their blocks do then too.
_STARTING = 30.0

#: Seconds that are left of a run that should be thought over.
LONG = 300.0

#: Seconds between lines in a log, at least, and about how many there are at most.
_PAUSE, _MOST_LINES = 60.0, 20

#: From how many seconds on a unit is used, its seconds, and its name.
_UNITS = (172_800, 86_400, "days"), (5400, 3600, "h"), (90, 60, "min"), (0, 1, "s")


class Progress:
    """What is told of a run while its blocks come in; a context manager.

    Parameters
    ----------
    total : int
        The number of positions, or of what else is counted.
    ready : int
        How many of them were done by an earlier run, and say nothing about speed.
    verbose : bool | None
        True: show it; False: be quiet; None: show runs of more than a few seconds.
    n_workers : int
        How many blocks are worked at together.
    outlook : callable | None
        ``outlook(seconds) -> str``, what is said once of a long run, given the time
        that it takes in all.
    noun : str
        What is counted.

    Examples
    --------
    >>> from mvpa_kfda.utils.progress import Progress
    >>> with Progress(12, verbose=False) as progress:
    ...     for block in (range(8), range(8, 12)):
    ...         progress.update(len(block))
    """

    def __init__(
        self,
        total,
        ready=0,
        verbose=None,
        n_workers=1,
        outlook=None,
        noun="position",
    ):
        self._speed = _Speed(total - ready, n_workers)
        if isinstance(verbose, Integral):  # numbers are those of nilearn
            verbose = bool(verbose)
        # There may be no console at all.
        is_quiet = check_flag("verbose", verbose, (None,)) is False
        self._quiet = is_quiet or sys.stderr is None
        self._outlook = None if self._quiet else outlook
        self._total, self._done, self._noun = total, ready, noun
        self._next, self._least = PATIENCE, PATIENCE if verbose is None else 0.0
        self._bar = None
        if not self._quiet and (_is_terminal() or _is_notebook()):
            self._bar = _kind_of_bar()(
                total=total,
                initial=ready,
                unit=noun,
                delay=self._least,
                smoothing=0,  # the mean speed: blocks of several workers come in waves
            )

    def __enter__(self):
        return self

    def __exit__(self, error, *_):
        if self._bar is not None:
            self._bar.close()
        elif error is None and (elapsed := self._speed.elapsed()) >= self._least:
            self._say(f"{self._count()} in {word_seconds(elapsed)}")

    def update(self, n_positions):
        """Count the positions of a block that has come."""
        self._speed.add(n_positions)
        self._done += n_positions
        elapsed, left = self._speed.elapsed(), self._speed.left()
        if self._bar is not None:
            self._bar.update(n_positions)
        elif left is not None and elapsed >= self._next and self._done < self._total:
            self._next = elapsed + max(_PAUSE, (elapsed + left) / _MOST_LINES)
            self._say(f"{self._count()}, about {word_seconds(left)} left")
        if self._outlook and left is not None and left >= LONG:
            self._say(self._outlook(elapsed + left))
            self._outlook = None

    def _say(self, text):
        """Show a line of text, above the bar if there is one."""
        if self._bar is not None:
            self._bar.write(plain_text(text), file=sys.stderr)
        elif not self._quiet:
            # A full disk or a closed file stops no run.
            with suppress(OSError, ValueError):
                tell(text, file=sys.stderr)

    def _count(self):
        """Word how many positions are done."""
        return f"{self._done} of {counted(self._total, self._noun)}"


class _Speed:
    """The time that blocks took, and that those to come will take."""

    _clock = staticmethod(time.monotonic)

    def __init__(self, n_positions, n_workers):
        self._to_do, self._n_workers = n_positions, n_workers
        self._n_done, self._n_blocks, self._first = 0, 0, 0.0
        self._start = self._clock()

    def elapsed(self):
        """The seconds since the start."""
        return self._clock() - self._start

    def add(self, n_positions):
        """Count a block."""
        self._n_done += n_positions
        self._n_blocks += 1
        if self._n_blocks == 1:
            self._first = self.elapsed()

    def left(self):
        """The seconds that are left, None as long as nothing can be said."""
        seconds = self.elapsed()
        # Workers finish together: the first of 8 blocks tells of the other 7 too.
        waves = math.ceil(self._n_blocks / self._n_workers)
        wave_length = self._n_done / self._n_blocks * self._n_workers
        missing = max(0.0, self._to_do - waves * wave_length) / wave_length
        first_wave = waves == 1 and self._n_workers > 1
        if seconds < (_STARTING if first_wave else PATIENCE):
            return None
        if waves > 1 and self._n_workers > 1:
            seconds, waves = seconds - self._first, waves - 1
        return missing * seconds / waves


def _is_terminal():
    """Whether what is written to stderr is seen at once and may be erased."""
    with suppress(AttributeError, ValueError):  # stand-ins, and closed files
        return sys.stderr.isatty()
    return False


def _is_notebook():
    """Whether this process is the kernel of a notebook or of a like console."""
    get_shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)
    return hasattr(get_shell(), "kernel")


def _kind_of_bar():
    """Tqdm's class: the one for notebooks in those that have ipywidgets."""
    if not _is_notebook():
        return tqdm.tqdm
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of a notebook that has not
        from tqdm.auto import tqdm as kind
    return kind


def word_seconds(seconds):
    """Word a duration, to two digits.

    Examples
    --------
    >>> from mvpa_kfda.utils.progress import word_seconds
    >>> [word_seconds(seconds) for seconds in (4.21, 90, 5760, 259_200)]
    ['4.2 s', '1.5 min', '1.6 h', '3 days']
    """
    _, unit, name = next(row for row in _UNITS if seconds >= row[0])
    value = seconds / unit
    digits = 1 if value < 9.95 else 0
    return f"{value:.{digits}f}".removesuffix(".0") + f" {name}"
