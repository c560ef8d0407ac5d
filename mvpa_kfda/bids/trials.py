"""The trials of a subject: their table, of which labels are made, and the runs.

Events are tables with one row per trial. All runs are read as one table, so that an
expression such as ``rt > 0.5`` is evaluated once.
"""

import ast
import re
from dataclasses import dataclass, field

import numpy as np
import pandas as pd

from ..data.tables import ExpressionError, evaluate_expression, read_text_table
from ..utils.checks import counted, quoted, some_of, word_bytes
from .fates import (
    DECODED,
    FATE,
    MARK,
    NO_COLUMN,
    NO_LABEL,
    NO_ONSET,
    NOT_CHOSEN,
    check_lost,
    count_fates,
    mark,
    word_fates,
)

#: Columns that trials are given here.
LABEL, RUN = "decoded_label", "run"
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
    groups: np.ndarray | None  #: the runs, None if there is one
    mask_img: object = None
    about: dict = field(default_factory=dict)  #: how they were made, for JSON
    notes: tuple = ()  #: what to say of them beside the result


def read_events_tsv(path, texts=()):
    """Return a table of events; the columns `texts` hold no numbers."""
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
    """Return the events of all runs in one table, with labels and the run of each."""
    tables = [_read_events(run.events).assign(**{RUN: run.label}) for run in runs]
    tables = [table for table in tables if len(table)]
    if not tables:
        raise ValueError(
            f"{runs[0].events} has no events"
            + (f", and none of the {len(runs)} runs has any." if runs[1:] else ".")
        )
    events = choose_events(tables, options)
    mark(events, events.index[events["onset"].isna()], NO_ONSET)
    return events


def check_losses(events, options):
    """Refuse trials of which more are lost than is allowed."""
    check_lost(count_fates(events, events[RUN]), options["max_dropped"])


def _read_events(path):
    """Return the table of events of a run, whose times are numbers."""
    table = read_events_tsv(path)
    lacking = [name for name in ("onset", "duration") if name not in table]
    if lacking:
        raise ValueError(
            f"{path} has no column {quoted(lacking)}. Its columns are: "
            f"{quoted(map(str, table.columns), 20)}."
        )
    for name in ("onset", "duration"):
        values = pd.to_numeric(table[name], errors="coerce").astype(float)
        wrong = ~np.isfinite(values) & table[name].notna()
        if name == "duration":
            wrong |= values < 0
        if wrong.any():
            line = np.flatnonzero(wrong)[0]
            least = ", not negative" if name == "duration" else ""
            raise ValueError(
                f"{path}: {name} is {str(table[name].iloc[line])!r} in line "
                f"{line + 2}. It must be a number of seconds{least}, or n/a."
            )
        table[name] = values
    return table.sort_values("onset", kind="stable", ignore_index=True)


def choose_events(tables, options):
    """Return the events of tables in one, with labels and why others are left out.

    What `options` have for them is evaluated on all tables together.
    """
    by, where = options["by"], options["where"]
    events = pd.concat(tables, ignore_index=True)
    events[FATE] = pd.Series(None, events.index, dtype=object)
    if "trial_type" in events:
        words = as_texts(events["trial_type"])
        no_events = [word.lower().startswith(_NO_EVENTS) for word in words]
        mark(events, events.index[no_events], MARK)
    start = 0
    for table in tables:
        rows = events.index[start : start + len(table)]
        start += len(table)
        for name in _columns_in(by, events) + _columns_in(where, events):
            if name not in table:
                mark(events, rows, NO_COLUMN.format(name))
    known = events[events[FATE].isna()]
    labels, chosen = label_events(known.drop(columns=FATE), by, where)
    events[LABEL] = labels.reindex(events.index).astype(object)
    events[LABEL] = events[LABEL].where(events[LABEL].notna(), None)
    mark(events, known.index[~chosen], NOT_CHOSEN)
    mark(events, events.index[events[LABEL].isna()], NO_LABEL)
    return events


def as_texts(column):
    """Return a column of texts, n/a for what is missing."""
    return column.astype(object).where(column.notna(), "n/a").map(str)


def _columns_in(expression, table):
    """Return the columns of a table that an expression names."""
    if expression is None or expression in table.columns:
        return [] if expression is None else [expression]
    names = re.findall("`([^`]*)`", expression)
    try:
        tree = ast.parse(re.sub("`[^`]*`", "_", expression).strip(), mode="eval")
        names += [node.id for node in ast.walk(tree) if isinstance(node, ast.Name)]
    except SyntaxError:  # which is said where it is evaluated
        pass
    return [name for name in dict.fromkeys(names) if name in table.columns]


def label_events(table, by, where):
    """Return the labels (n,) of events, None for n/a, and which `where` is true for."""
    labels = _evaluate(table, by, "--by")
    if len(labels) != len(table):
        raise ValueError(f"--by {by!r} is not one label for each event.")
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
    kept = ~labels.isna() & chosen
    if not kept.any():
        what = "--by" if where is None else "--where and --by"
        verb = "leaves" if where is None else "leave"
        named = _columns_in(by, table) + _columns_in(where, table)
        there = "; ".join(
            f"{name} is {quoted(sorted(set(as_texts(table[name]))), 10)}"
            for name in dict.fromkeys(named)
        )
        raise ValueError(
            f"{what} {verb} no event: all are n/a or not chosen."
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
    labels = pd.Series(
        [of_kept.get(i) if k else None for i, k in zip(table.index, kept, strict=True)],
        table.index,
        dtype=object,
    )
    return labels, chosen


def _evaluate(table, expression, flag):
    """Return a column of a table, or what an expression makes of its columns."""
    if expression in table.columns:
        return table[expression]
    try:
        values = evaluate_expression(table, expression)
    except ExpressionError as error:
        raise ValueError(
            f"{flag} {expression!r} is no column of the events, and no expression on "
            f"them: {error} The columns are: {quoted(map(str, table.columns), 30)}."
        ) from error
    if not isinstance(values, pd.Series):
        raise ValueError(f"{flag} {expression!r} is not one value for each event.")
    return values


def about_trials(table, events, runs=()):
    """Return what a JSON file says of the trials that are decoded, and notes.

    `events` are those that trials were made of, `runs` those that were read.
    """
    per_run = table[RUN].astype(str).value_counts(sort=False)
    labels = table[LABEL].astype(str).value_counts().sort_index()
    counts = count_fates(events, events[RUN])
    about = {
        "NumberOfTrials": len(table),
        "TrialsPerRun": per_run.to_dict(),
        "TrialsPerClass": labels.to_dict(),
        "Events": counts,
    }
    notes = filter(None, [word_fates(counts), _word_empty(counts, runs)])
    return about, tuple(notes)


def _word_empty(counts, runs):
    """Word which of several runs have no event, and note them; None if all have some.

    `counts` are those of `count_fates`, and take them up.
    """
    empty = [run.label for run in runs if run.label not in counts]
    if len(runs) < 2 or not empty:
        return None
    counts |= {label: {DECODED: 0} for label in empty}
    return f"{counted(len(empty), 'run')} without events left out: {some_of(empty)}"


def groups_of(runs):
    """Return runs as groups, None if there is one alone."""
    runs = np.asarray(runs)
    return runs.astype(str) if len(set(runs.tolist())) > 1 else None


def with_plain_labels(table):
    """Return a table of trials whose labels are of one plain type."""
    table = table.drop(columns=FATE, errors="ignore")
    return table.assign(**{LABEL: table[LABEL].infer_objects()})


def sources_of(runs, table):
    """Return the recordings of the runs that have trials in a table."""
    if len(runs) == 1:
        return (runs[0].path,)
    labels = set(table[RUN].astype(str))
    return tuple(run.path for run in runs if run.label in labels)
