"""The trials of a subject: their table, of which labels are made, and the runs.

Events are tables with one row per trial. All runs are read as one table, so that an
expression such as ``rt > rt.median()`` means the same in each.
"""

from dataclasses import dataclass, field

import numpy as np
import pandas as pd

from ..data.expressions import ExpressionError, evaluate_expression
from ..utils.checks import quoted
from .find import find_beside

#: Columns that trials are given here.
LABEL, RUN = "decoded_label", "run"
#: Events that MNE-Python takes for no events either.
_NO_EVENTS = ("bad", "edge")
_MISSING = ["n/a", "", "nan", "NaN"]


@dataclass(frozen=True)
class Trials:
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
        # Unlike pandas by itself, a condition may be called "None" or "NA".
        table = pd.read_csv(
            path,
            sep="\t",
            keep_default_na=False,
            na_values=_MISSING,
            dtype=dict.fromkeys(texts, str),
        )
    except (ValueError, OSError) as error:
        raise ValueError(f"{path} cannot be read as a table: {error}") from error
    return table.reset_index(drop=True)


def label_events(table, by, where):
    """Return the labels (n,) of events, None for those that are left out."""
    labels = _evaluate(table, by, "--by")
    if len(labels) != len(table):
        raise ValueError(f"--by {by!r} is not one label for each event.")
    kept = ~labels.isna()
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
        kept &= chosen
    if not kept.any():
        what = "--by" if where is None else "--where and --by"
        raise ValueError(f"{what} leave no event: all are n/a or not chosen.")
    of_kept = labels[kept].infer_objects()
    if of_kept.dtype.kind == "f" and (of_kept == of_kept.round()).all():
        of_kept = of_kept.astype(int)  # whole numbers beside an n/a
    if of_kept.nunique() < 2:
        raise ValueError(
            f"--by {by!r} gives all events one label, {of_kept.iloc[0]!r}. There must "
            "be two or more."
        )
    return pd.Series(
        [of_kept.get(i) if k else None for i, k in zip(table.index, kept, strict=True)],
        table.index,
        dtype=object,
    )


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


def events_of_runs(unit, options):
    """Return the events of all runs in one table, with labels, and the run of each."""
    tables = []
    for label, each in zip(unit.runs, unit.recordings, strict=True):
        path = find_beside(each, options["bids_dir"], "events.tsv")
        if path is None:
            raise ValueError(
                f"{each.path.name} has no events: there is no events.tsv for it in "
                f"{options['bids_dir']}."
            )
        table = read_events_tsv(path)
        lacking = [name for name in ("onset", "duration") if name not in table]
        if lacking or len(table) == 0:
            what = f"no column {quoted(lacking)}" if lacking else "no events"
            raise ValueError(f"{path} has {what}.")
        _check_times(table, path)
        table = table[table["onset"].notna()]
        if "trial_type" in table:
            words = table["trial_type"].astype(str).str.lower()
            table = table[~words.str.startswith(_NO_EVENTS)]
        tables.append(table.assign(**{RUN: label}))
    table = pd.concat(tables, ignore_index=True)
    table[LABEL] = label_events(table, options["by"], options["where"])
    return table


def _check_times(table, path):
    """Refuse onsets and durations that are no numbers, by the name of the file."""
    for name in ("onset", "duration"):
        values = pd.to_numeric(table[name], errors="coerce")
        wrong = np.flatnonzero(values.isna() & table[name].notna())
        if len(wrong):
            raise ValueError(
                f"{path}: {name} is {str(table[name].iloc[wrong[0]])!r} in line "
                f"{wrong[0] + 2}. It must be a number of seconds, or n/a."
            )


def about_trials(table):
    """Return what a JSON file says of the trials that are decoded."""
    runs = table[RUN].astype(str).value_counts(sort=False)
    labels = table[LABEL].astype(str).value_counts().sort_index()
    return {
        "NumberOfTrials": len(table),
        "TrialsPerRun": runs.to_dict(),
        "TrialsPerClass": labels.to_dict(),
    }


def groups_of(runs):
    """Return runs as groups, None if there is one alone."""
    runs = np.asarray(runs)
    return runs.astype(str) if len(set(runs.tolist())) > 1 else None


def with_plain_labels(table):
    """Return a table whose labels are of one plain type."""
    return table.assign(**{LABEL: table[LABEL].infer_objects()})
