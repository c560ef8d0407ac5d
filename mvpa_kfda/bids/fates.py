"""What becomes of every event: it is decoded, or left out for a reason that is counted.

Tables of events have a column for it, empty where an event is decoded. Reasons that
nobody asked for are losses, of which a run or a subject may have few only.
"""

from ..utils.checks import counted

#: The column of tables of events.
FATE = "left_out_because"

#: Not to be decoded at all.
MARK = "marked as BAD or EDGE"
NO_LABEL = "n/a in --by"
NOT_CHOSEN = "not chosen by --where"
#: Asked for, by options or by whoever marked the data.
REJECTED = "above the limits of --reject"
ANNOTATED = "in stretches marked as BAD"
SCRUBBED = "without a scan that --confounds scrub leaves"
#: Lost.
NO_ONSET = "without an onset"
BEFORE = "before the start of the recording"
BEYOND = "beyond the end of the recording"
FLAT = "without any signal"
NO_COLUMN = "in tables without the column {}"

_UNWANTED = (MARK, NO_LABEL, NOT_CHOSEN)
_ASKED = (*_UNWANTED, REJECTED, ANNOTATED, SCRUBBED)
DECODED = "decoded"
#: Of a run there must not be lost more than that, however many runs there are.
_MOST_OF_RUN = 0.5


def mark(events, rows, reason):
    """Set the reason of rows, by their index, that have none yet."""
    rows = events.index.intersection(rows)
    open_rows = rows[events.loc[rows, FATE].isna()]
    events.loc[open_rows, FATE] = reason


def wanted(events):
    """Return the events that are not left out."""
    return events[events[FATE].isna()]


def count_fates(events, runs):
    """Return by run (a column's values) how many events have which fate."""
    fates = events[FATE].fillna(DECODED)
    counts = {}
    for run, own in fates.groupby(runs.astype(str), sort=False):
        numbers = own.value_counts().to_dict()
        counts[run] = {DECODED: numbers.pop(DECODED, 0), **numbers}
    return counts


def check_lost(counts, most):
    """Refuse losses of more than `most` percent of the events to decode.

    `counts` are those of `count_fates`.
    """
    lost = {run: _lost(fates) for run, fates in counts.items()}
    to_decode = {
        run: sum(n for fate, n in fates.items() if fate not in _UNWANTED)
        for run, fates in counts.items()
    }
    total, n = sum(map(sum, map(dict.values, lost.values()))), sum(to_decode.values())
    many = total > most / 100 * n
    worst = max(most / 100, _MOST_OF_RUN)
    few_left = [
        run for run in counts if sum(lost[run].values()) > worst * to_decode[run]
    ]
    if not many and not few_left:
        return
    reasons = {}
    for run, fates in lost.items():
        for fate, number in fates.items():
            reasons.setdefault(fate, {})[run] = number
    words = "; ".join(
        f"{sum(by_run.values())} {fate} (run {', '.join(map(str, by_run))})"
        for fate, by_run in reasons.items()
    )
    raise ValueError(
        f"{total} of {n} events to decode are lost: {words}. Look at the recordings "
        "and the events; to go on without these, use --max-dropped "
        f"{_percent(lost, to_decode, total, n)}, in percent."
    )


def _percent(lost, to_decode, total, n):
    """Return the percentage that would have to be allowed."""
    shares = [sum(lost[run].values()) / max(to_decode[run], 1) for run in lost]
    shares = [share for share in shares if share > _MOST_OF_RUN] + [total / max(n, 1)]
    return min(100, int(100 * max(shares)) + 1)


def _lost(fates):
    """Return the reasons that nobody asked for, with their numbers."""
    return {
        fate: n for fate, n in fates.items() if fate != DECODED and fate not in _ASKED
    }


def word_runs(counts):
    """Word what became of the events of every run: run 1: 7 decoded, 1 n/a in --by."""
    return "; ".join(
        f"run {run}: {', '.join(f'{n} {fate}' for fate, n in fates.items())}"
        for run, fates in counts.items()
    )


def word_fates(counts):
    """Word what became of events; None if all are decoded."""
    sums = {}
    for fates in counts.values():
        for fate, n in fates.items():
            sums[fate] = sums.get(fate, 0) + n
    decoded, total = sums.pop(DECODED, 0), sum(sums.values())
    if not total:
        return None
    words = ", ".join(f"{n} {fate}" for fate, n in sums.items())
    return f"{decoded} of {counted(decoded + total, 'event')} decoded: {words}"
