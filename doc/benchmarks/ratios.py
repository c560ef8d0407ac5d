"""Whether ratios of times and of memory are still what the documentation states.

Scripts with ``--check`` hand over some of their problems, small ones. Both sides run
in turn, each with one thread. What counts is the processor's time of the fastest run:
waiting for other work on the same machine is no part of it. A ratio that is a third
worse than the one in the table of results is measured again some times, and is a
failure if it stays so.
"""

import re
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass

from threadpoolctl import threadpool_limits

#: How much worse than stated a ratio may be.
SLACK = 4 / 3
#: How often one that is worse is measured again, as other work may have disturbed it.
MORE = 3
#: A side runs as often in its turn as it can in so many seconds, or once.
TURN = 0.2

CHECK_HELP = "compare some ratios with the stated ones, and write nothing"


def fastest(side):
    """Return the seconds of the fastest run of a side in its turn."""
    found, start = [], time.process_time()
    while sum(found) < TURN:
        side()
        found.append(time.process_time() - start - sum(found))
    return min(found)


def told(side):
    """Return what a side says it needs: it measures its memory itself."""
    return side()


@dataclass
class Case:
    """A ratio that a table of results states, and what is measured for it."""

    #: The first cell of its row.
    problem: str
    ours: Callable
    theirs: Callable
    #: How another cell of its row begins, where several rows have one problem.
    against: str = ""
    #: The head of its column.
    column: str = "Ratio"
    #: How many runs of theirs one stands for, where the table extrapolates.
    times: float = 1
    #: What is measured of a side.
    measured: Callable = fastest

    @property
    def words(self):
        """Where the ratio is stated."""
        cells = self.problem, self.against, self.column
        return " | ".join(cell for cell in cells if cell)


def read_tables(text):
    """Return the list-tables of a reStructuredText as lists of rows of cells."""
    tables = []
    for part in text.split(".. list-table::")[1:]:
        tables.append([])
        for mark, cell in re.findall(r"(?m)^   ([* ]) - ?(.*)$", part):
            if mark == "*":
                tables[-1].append([])
            tables[-1][-1].append(cell)
    return tables


def read_stated(path, case):
    """Return ours over theirs, as one of the tables of results in ``path`` states it.

    Heads or cells that speak of what is fast or faster state theirs over ours.
    """
    found = [
        row[heads.index(case.column)]
        for heads, *rows in read_tables(path.read_text("utf-8"))
        for row in rows
        if case.column in heads
        and row[0] == case.problem
        and any(cell.startswith(case.against) for cell in row[1:])
    ]
    if len(found) != 1:
        raise ValueError(
            f"{path.name} has {len(found)} rows of {case.words!r}. One row has to "
            "state the ratio."
        )
    number = re.match(r"[\d.,]+(e[+-]\d+)?", found[0])
    if number is None:
        raise ValueError(f"{path.name} states no ratio for {case.words!r}.")
    stated = float(number.group().replace(",", ""))
    is_speed = re.search("fast", f"{case.column} {found[0]}", re.IGNORECASE)
    return 1 / stated if is_speed else stated


def measure(case, n_turns):
    """Return the least of ours over the least of theirs, of both sides in turn."""
    found = {case.ours: [], case.theirs: []}
    for _ in range(n_turns):
        for side, values in found.items():
            values.append(case.measured(side))
    return min(found[case.ours]) / (min(found[case.theirs]) * case.times)


def fails(path, case, n_turns=2):
    """Compare a case with what the results state; say so, and whether it fails."""
    allowed = SLACK * read_stated(path, case)
    ratio = measure(case, n_turns)
    for _ in range(MORE):
        if ratio > allowed:
            ratio = min(ratio, measure(case, 2 * n_turns))
    print(
        f"{'FAILS' if ratio > allowed else 'holds'}: {case.words}: {ratio:.3g} of the "
        f"other side, stated {allowed / SLACK:.3g}, allowed {allowed:.3g}",
        flush=True,
    )
    return ratio > allowed


def check(path, cases):
    """Compare cases with what the results in ``path`` state; return how many fail."""
    with threadpool_limits(1):
        return sum(fails(path, case) for case in cases)


def end(failures):
    """End the script, with a message where ratios have failed."""
    sys.exit(
        f"Ratios that fail: {failures}. Find what became slow; or, where it had to be, "
        "run the script without --check and state the new ones."
        if failures
        else 0
    )
