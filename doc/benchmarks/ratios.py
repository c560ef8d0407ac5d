"""Whether ratios of times are still what the documentation states.

Scripts with ``--check`` hand over some of their problems, small ones. Both sides run
in turn on the same machine, so that its speed and its other work hardly matter, and
the fastest runs count. A ratio that is a third worse than the one in the table of
results is measured again some times, and is a failure if it stays so.
"""

import re
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass

#: How much worse than stated a ratio may be.
SLACK = 4 / 3
#: How often one that is worse is measured again, as other work may have disturbed it.
MORE = 3

CHECK_HELP = "compare some ratios with the stated ones, and write nothing"


@dataclass
class Case:
    """A row of a table of results, and what was timed for it."""

    problem: str
    ours: Callable
    theirs: Callable
    #: How its third cell begins, where several rows have one problem.
    against: str = ""
    #: How many runs of theirs one stands for, where the table extrapolates.
    times: float = 1


def read_stated(path, case):
    """Return our time over theirs, as the table of results in ``path`` states it."""
    row = r"(?m)^   \* - (.*)\n     - .*\n     - (.*)\n     - (.*)$"
    rows = re.findall(row, path.read_text())
    ratios = [
        ratio
        for problem, against, ratio in rows
        if problem == case.problem and against.startswith(case.against)
    ]
    if len(ratios) != 1:
        raise ValueError(
            f"{path.name} has {len(ratios)} rows of {case.problem!r} against "
            f"{case.against!r}. One row has to state the ratio."
        )
    number = float(re.match(r"[\d.]+", ratios[0]).group())
    faster = "times faster" in ratios[0] or "times as fast" in ratios[0]
    return 1 / number if faster else number


def measure(case, n_runs):
    """Return our fastest time over their fastest one, of runs in turn."""
    seconds = {case.ours: [], case.theirs: []}
    for _ in range(n_runs):
        for function, found in seconds.items():
            start = time.perf_counter()
            function()
            found.append(time.perf_counter() - start)
    return min(seconds[case.ours]) / (min(seconds[case.theirs]) * case.times)


def check(path, cases, n_runs=2):
    """Compare cases with what the results in ``path`` state; return how many fail."""
    failures = 0
    for case in cases:
        stated = read_stated(path, case)
        ratio = measure(case, n_runs)
        for _ in range(MORE):
            if ratio > SLACK * stated:
                ratio = min(ratio, measure(case, 2 * n_runs))
        failed = ratio > SLACK * stated
        failures += failed
        words = "FAILS" if failed else "holds"
        print(
            f"{words}: {case.problem}: {ratio:.3g} of the time of the other side, "
            f"stated {stated:.3g}, allowed {SLACK * stated:.3g}",
            flush=True,
        )
    return failures


def end(failures):
    """End the script, with a message where ratios have failed."""
    sys.exit(
        f"Ratios that fail: {failures}. Find what became slow; or, where it had to be, "
        "run the script without --check and state the new ones."
        if failures
        else 0
    )
