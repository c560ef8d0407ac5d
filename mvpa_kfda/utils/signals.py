"""Signals that end a process, SIGTERM and SIGHUP: an end in order, as by Ctrl-C.

By themselves they end a process at once. Its workers would go on for a while, and the
files in memory that they share would be left behind. Schedulers of clusters send
SIGTERM when the time of a job is over, and terminals SIGHUP when they are closed.
"""

import os
import signal
import sys
import threading
from contextlib import contextmanager

#: SIGHUP is unknown to Windows.
_NAMES = ("SIGTERM", "SIGHUP")


@contextmanager
def interrupting_signals():
    """Let SIGTERM and SIGHUP raise a KeyboardInterrupt, as Ctrl-C does.

    Gives a list, to which the number of the signal is added. Only where they would end
    the process at once: signals that are ignored (by ``nohup``) or handled by the
    caller stay so. In other threads than the main one nothing changes, because Python
    handles signals in that one only.

    Examples
    --------
    >>> import signal
    >>> from mvpa_kfda.utils.signals import interrupting_signals
    >>> try:
    ...     with interrupting_signals() as caught:
    ...         signal.raise_signal(signal.SIGTERM)
    ... except KeyboardInterrupt:
    ...     print(128 + caught[0])
    143
    """
    caught, owner = [], os.getpid()

    def interrupt(number, frame):
        if os.getpid() != owner:  # a worker forked inside: of no concern to it
            signal.signal(number, signal.SIG_DFL)
            signal.raise_signal(number)
        caught.append(number)
        if len(caught) == 1:  # others must not disturb the end
            raise KeyboardInterrupt

    numbers = [getattr(signal, name) for name in _NAMES if hasattr(signal, name)]
    if threading.current_thread() is not threading.main_thread():
        numbers = []
    numbers = [n for n in numbers if signal.getsignal(n) is signal.SIG_DFL]
    try:
        for number in numbers:
            signal.signal(number, interrupt)
        yield caught
    finally:
        for number in numbers:
            signal.signal(number, signal.SIG_DFL)


@contextmanager
def ending_in_order():
    """Let SIGTERM and SIGHUP end what is inside as Ctrl-C does, then the process.

    The process ends by the signal itself, so that whoever sent it sees the status that
    it expects (143 and 129 in a shell), and a notebook's kernel does not survive.

    Examples
    --------
    >>> from mvpa_kfda.utils.signals import ending_in_order
    >>> with ending_in_order():
    ...     total = sum(range(10))
    """
    caught = []
    try:
        with interrupting_signals() as caught:
            yield
    finally:
        if caught:
            for stream in (sys.stdout, sys.stderr):
                stream.flush()
            # The first process of a container cannot be ended by it: the
            # KeyboardInterrupt goes on.
            signal.raise_signal(caught[0])
