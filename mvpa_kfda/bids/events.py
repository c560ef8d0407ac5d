"""The events of a subject: their labels, and what becomes of each of them.

Events are tables with one row per trial. All runs are read as one table, so that an
expression such as ``rt > 0.5`` is evaluated once. A column of it says why an event is
left out, and is empty where it is decoded. Reasons that nobody asked for are losses, of
which a run or a subject may have few only.
"""

import ast
import re
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field

import numpy as np
import pandas as pd

from ..data.tables import evaluate_expression, read_text_table
from ..utils.checks import counted, quoted, some_of, word_bytes

#: Columns of tables of events: the label, the run, why the event is left out.
LABEL, RUN, FATE = "decoded_label", "run", "left_out_because"


class Fate:
    """What becomes of an event: decoded, or why not."""

    DECODED = "decoded"
    # Not to be decoded at all.
    MARK = "marked as BAD or EDGE"
    NO_LABEL = "n/a in --by"
    NOT_CHOSEN = "not chosen by --where"
    # Asked for, by options or by whoever marked the data.
    REJECTED = "above the limits of --reject"
    ANNOTATED = "in stretches marked as BAD"
    SCRUBBED = "without a scan that --confounds scrub leaves"
    # Lost.
    NO_ONSET = "without an onset"
    BEFORE = "before the start of the recording"
    BEYOND = "beyond the end of the recording"
    FLAT = "without any signal"
    NO_COLUMN = "in tables without the column {}"


_UNWANTED = (Fate.MARK, Fate.NO_LABEL, Fate.NOT_CHOSEN)
_NO_LOSS = (Fate.DECODED, *_UNWANTED, Fate.REJECTED, Fate.ANNOTATED, Fate.SCRUBBED)
#: Of a run there must not be lost more than that, however many runs there are.
_MOST_OF_RUN = 0.5
#: Events that MNE-Python takes for no events either.
_NO_EVENTS = ("bad", "edge")
_MISSING = ["n/a", "", "nan", "NaN"]
#: Bytes of the largest table: millions of events.
_LARGEST = 2**28


@dataclass(frozen=True)
class TrialInputs:
    """The trials of a unit."""

    data: object  #: mne.Epochs, or a 4D image
    table: pd.DataFrame  #: one row per trial, the labels in the column `LABEL`
    mask_img: object = None
    about: dict = field(default_factory=dict)  #: how they were made, for JSON
    notes: tuple = ()  #: what to say of them beside the result

    @property
    def groups(self):
        """The runs of the trials (n,), None if there is one alone."""
        runs = self.table[RUN].to_numpy()
        return runs.astype(str) if len(set(runs.tolist())) > 1 else None

    @classmethod
    def of(cls, data, table, events, runs, about, notes=(), mask_img=None):
        """Data with a table of trials, of all `events` of the `runs` that were read.

        `about` and `notes` are added to what becomes of the events.
        """
        counts = count_fates(events)
        lost = events.loc[events[FATE].notna() & events[LABEL].notna(), LABEL]
        if events.attrs["of_values"]:
            ends = table[LABEL].min(), table[LABEL].max()
            of_labels = {"ValuesFromTo": list(map(float, ends))}
        else:
            of_labels = {
                name: column.astype(str).value_counts().sort_index().to_dict()
                for name, column in (
                    ("TrialsPerClass", table[LABEL]),
                    ("LeftOutPerClass", lost),
                )
            }
        facts = {
            "NumberOfTrials": len(table),
            "TrialsPerRun": table[RUN].astype(str).value_counts(sort=False).to_dict(),
            **of_labels,
            "Events": counts,
        }
        of_events, sums = [], sum(map(Counter, counts.values()), Counter())
        total, decoded = sums.total(), sums.pop(Fate.DECODED, 0)
        if sums:
            words = ", ".join(f"{n} {fate}" for fate, n in sums.items())
            told = f"{decoded} of {counted(total, 'event')} decoded: {words}"
            of_events.append(told)
        empty = [run.label for run in runs if run.label not in counts]
        if empty and len(runs) > 1:
            counts |= {label: {Fate.DECODED: 0} for label in empty}
            named = f"{counted(len(empty), 'run')} without events left out"
            of_events.append(f"{named}: {some_of(empty)}")
        table = table.reset_index(drop=True).drop(columns=FATE, errors="ignore")
        table = table.assign(**{LABEL: table[LABEL].infer_objects()})
        return cls(data, table, mask_img, facts | about, (*of_events, *notes))


# --------------------------------------------------------------------------- the tables


def read_events_tsv(path, texts=()):
    """A table of events; the columns `texts` hold no numbers."""
    try:
        if (size := path.stat().st_size) > _LARGEST:
            raise ValueError(f"{word_bytes(size)} are no table of events")
        # Unlike pandas by itself, a condition may be called "None" or "NA".
        table = read_text_table(
            path,
            "\t",
            keep_default_na=False,
            na_values=_MISSING,
            dtype=dict.fromkeys(texts, str),
        )
    except (ValueError, OSError) as error:
        raise ValueError(f"{path} cannot be read as a table: {error}") from error
    return table.reset_index(drop=True)


def events_of_runs(runs, options):
    """The events of all runs in one table, with labels and the run of each."""
    tables = [_read_timed(run.events).assign(**{RUN: run.label}) for run in runs]
    tables = [table for table in tables if len(table)]
    if not tables:
        raise ValueError(
            f"{runs[0].events} has no events"
            + (f", and none of the {len(runs)} runs has any." if runs[1:] else ".")
        )
    events = choose_events(tables, options)
    mark(events, events["onset"].isna(), Fate.NO_ONSET)
    return events


def _read_timed(path):
    """The table of events of a run, whose times are numbers."""
    table = read_events_tsv(path)
    lacking = [name for name in ("onset", "duration") if name not in table]
    if lacking:
        raise ValueError(
            f"{path} has no column {quoted(lacking)}. Its columns are: "
            f"{quoted(map(str, table.columns), 20)}."
        )
    for name, least in (("onset", ""), ("duration", ", not negative")):
        values = pd.to_numeric(table[name], errors="coerce").astype(float)
        wrong = ~np.isfinite(values) & table[name].notna()
        if least:
            wrong |= values < 0
        if wrong.any():
            line = np.flatnonzero(wrong)[0]
            raise ValueError(
                f"{path}: {name} is {str(table[name].iloc[line])!r} in line "
                f"{line + 2}. It must be a number of seconds{least}, or n/a."
            )
        table[name] = values
    return table.sort_values("onset", kind="stable", ignore_index=True)


def events_of_data(tables, runs, flat, options):
    """The events of tables beside data of runs, which say what is without signal."""
    for run, table in zip(runs, tables, strict=True):
        if len(runs) > 1 or RUN not in table:
            table[RUN] = run.label
    events = choose_events(tables, options)
    mark(events, flat, Fate.FLAT)
    check_losses(events, options)
    return events


def choose_events(tables, options):
    """The events of tables in one, with labels and why others are left out.

    What `options` have for them is evaluated on all tables together.
    """
    by, where = options["by"], options["where"]
    events = pd.concat(tables, ignore_index=True)
    events.attrs["of_values"] = options["regression"]
    events[FATE] = pd.Series(None, events.index, dtype=object)
    if "trial_type" in events:
        words = as_texts(events["trial_type"])
        mark(events, [word.lower().startswith(_NO_EVENTS) for word in words], Fate.MARK)
    number = np.repeat(range(len(tables)), list(map(len, tables)))
    for i, table in enumerate(tables):
        for name in _columns_in(events, by, where):
            if name not in table:
                mark(events, number == i, Fate.NO_COLUMN.format(name))
    known = wanted(events)
    labels, chosen = label_events(known.drop(columns=FATE), by, where)
    if options["regression"]:
        numbers = pd.to_numeric(labels, errors="coerce")
        if (wrong := labels[numbers.isna() & labels.notna()]).size:
            raise ValueError(
                f"--regression predicts numbers, and --by {by!r} gives "
                f"{quoted(sorted(set(map(str, wrong))), 5)}. Name a column of numbers, "
                "or leave --regression out."
            )
        labels = numbers
    events[LABEL] = labels.reindex(events.index).astype(object)
    events[LABEL] = events[LABEL].where(events[LABEL].notna(), None)
    mark(events, known.index[~chosen], Fate.NOT_CHOSEN)
    mark(events, events[LABEL].isna(), Fate.NO_LABEL)
    return events


def as_texts(column):
    """A column of texts, n/a for what is missing."""
    return column.astype(object).where(column.notna(), "n/a").map(str)


# --------------------------------------------------------------------------- the labels


def label_events(table, by, where):
    """The labels (n,) of events, None for n/a, and which `where` is true for."""
    labels = _evaluate(table, by, "--by")
    chosen = pd.Series(True, table.index)
    if where is not None:
        chosen = _evaluate(table, where, "--where")
        if chosen.dtype != bool:
            chosen = chosen.where(chosen.notna(), False)
            if not chosen.isin([True, False]).all():
                raise ValueError(
                    f"--where {where!r} is not true or false for each event. Compare, "
                    "e.g. \"response == 'correct'\"."
                )
            chosen = chosen.astype(bool)
    kept = labels.notna() & chosen
    if not kept.any():
        what = "--by leaves" if where is None else "--where and --by leave"
        there = "; ".join(
            f"{name} is {quoted(sorted(set(as_texts(table[name]))), 10)}"
            for name in _columns_in(table, by, where)
        )
        raise ValueError(
            f"{what} no event: all are n/a or not chosen."
            + (f" In the events, {there}." if there else "")
        )
    of_kept = labels[kept].infer_objects()
    if of_kept.dtype.kind == "f" and (of_kept == of_kept.round()).all():
        of_kept = of_kept.astype(int)  # whole numbers beside an n/a
    if of_kept.nunique() < 2:
        raise ValueError(
            f"--by {by!r} gives all events one label, {of_kept.iloc[0]!r}. There must "
            "be two or more."
        )
    labels = pd.Series(None, table.index, dtype=object)
    labels[kept] = of_kept.astype(object)
    return labels, chosen


def _evaluate(table, expression, flag):
    """A column of a table, or what an expression makes of its columns."""
    if expression in table.columns:
        return table[expression]
    try:
        values = evaluate_expression(table, expression)
    except ValueError as error:
        raise ValueError(
            f"{flag} {expression!r} is no column of the events, and no expression on "
            f"them: {error} The columns are: {quoted(map(str, table.columns), 30)}."
        ) from error
    if not isinstance(values, pd.Series):
        raise ValueError(f"{flag} {expression!r} is not one value for each event.")
    return values


def _columns_in(table, *expressions):
    """The columns of a table that expressions, if given, name."""
    names = []
    for text in filter(None, expressions):
        if text in table.columns:
            names.append(text)
            continue
        names += re.findall("`([^`]*)`", text)
        with suppress(SyntaxError):  # which is said where it is evaluated
            tree = ast.parse(re.sub("`[^`]*`", "_", text).strip(), mode="eval")
            names += [node.id for node in ast.walk(tree) if isinstance(node, ast.Name)]
    return [name for name in dict.fromkeys(names) if name in table.columns]


# ---------------------------------------------------------------------------- the fates


def mark(events, rows, reason):
    """Set the reason of rows, by a mask or their index, that have none yet."""
    fates = events.loc[rows, FATE]
    events.loc[fates.index[fates.isna()], FATE] = reason


def wanted(events):
    """The events that are not left out."""
    return events[events[FATE].isna()]


def count_fates(events):
    """By run, how many events have which fate, the decoded ones first."""
    fates = events[FATE].fillna(Fate.DECODED)
    counts = {}
    for run, of_run in fates.groupby(events[RUN].astype(str), sort=False):
        numbers = of_run.value_counts().to_dict()
        counts[run] = {Fate.DECODED: numbers.pop(Fate.DECODED, 0), **numbers}
    return counts


def check_losses(events, options):
    """Refuse losses of more than ``--max-dropped`` percent of the events to decode."""
    most = options["max_dropped"] / 100
    counts = pd.DataFrame(count_fates(events)).fillna(0).astype(int)  # (fates, runs)
    losses = counts.drop(index=[*_NO_LOSS], errors="ignore")
    to_decode = counts.drop(index=[*_UNWANTED], errors="ignore").sum()
    lost, n = losses.sum(), to_decode.sum()
    worst = max(most, _MOST_OF_RUN)
    if lost.sum() <= most * n and (lost <= worst * to_decode).all():
        return
    words = "; ".join(
        f"{by_run.sum()} {fate} (run {', '.join(by_run.index[by_run > 0])})"
        for fate, by_run in losses.iterrows()
    )
    shares = lost / to_decode.clip(lower=1)
    share = max([lost.sum() / max(n, 1), *shares[shares > _MOST_OF_RUN]])
    raise ValueError(
        f"{lost.sum()} of {n} events to decode are lost: {words}. Look at the "
        "recordings and the events; to go on without these, use --max-dropped "
        f"{min(100, int(100 * share) + 1)}, in percent."
    )


def word_runs(counts):
    """Word what became of the events of every run: run 1: 7 decoded, 1 n/a in --by."""
    return "; ".join(
        f"run {run}: {', '.join(f'{n} {fate}' for fate, n in fates.items())}"
        for run, fates in counts.items()
    )
