"""What is known of BOLD runs, read and checked: events, confounds, scans to keep.

Events are tables with the columns of BIDS. Everything is given once for each run, in
the same order as the images. Regressors of no interest that fMRIPrep writes beside its
runs are read by nilearn.
"""

import inspect
import re
from os import PathLike, fspath
from pathlib import Path

import nibabel
import numpy as np
import pandas as pd
from nilearn.interfaces.fmriprep import load_confounds

from ..utils.checks import (
    all_items,
    check_count,
    check_positive,
    counted,
    expand_pattern,
    name_items,
    quoted,
    warn,
)
from ..utils.memory import check_memory
from .images import read_table
from .tables import trimmed_table
from .volumes import listed

#: The columns that events must have.
COLUMNS = ("onset", "duration", "trial_type")

#: From this share of scans without any signal on a run is refused.
_MANY_EMPTY = 0.05

#: Parts of file names by which runs are told apart.
_ENTITIES = ("sub", "ses", "task", "acq", "run")

#: The strategy that takes fMRIPrep's cosines, and the one that needs them: components
#: are computed from data without drifts, so that they do not span the drifts.
_DRIFTS, _COMPONENTS = "high_pass", "compcor"
#: What tunes a strategy of confounds -> that strategy.
TUNES = {
    "fd_threshold": "scrub",
    "std_dvars_threshold": "scrub",
    "n_compcor": _COMPONENTS,
}


def given_of_runs(imgs, n, events, confounds, sample_masks):
    """Return lists of what is given for n runs, with what to call it in messages.

    Files must be of the run.
    """
    given = {"events": events, "confounds": confounds, "sample_masks": sample_masks}
    for name, value in given.items():
        items = [None] * n if value is None else _as_runs(value, n, name)
        for image, item in zip(listed(imgs), items, strict=True):
            _check_same_run(image, item, name)
        given[name] = list(zip(items, name_items(name, items), strict=True))
    return given


def _as_runs(given, n_runs, name):
    """A list with what is given for every run."""
    items = []
    for item in given if isinstance(given, list | tuple) else [given]:
        path = isinstance(item, str | PathLike)
        items += expand_pattern(item, f" in {name}") if path else [item]
    if len(items) != n_runs:
        hint = ""
        if len(items) == 1 and name == "events":
            hint = (
                " Cut a table of several runs into a list, e.g. [table for _, table in "
                "events.groupby('run')]."
            )
        raise ValueError(
            f"imgs holds {counted(n_runs, 'run')} but {name} "
            f"{counted(len(items), 'item')}. Pass a list with one for each run, in the "
            f"same order.{hint}"
        )
    return items


def _check_same_run(image, item, name):
    """Refuse files whose names, in the manner of BIDS, say that runs differ."""
    if not all(isinstance(value, str | PathLike) for value in (image, item)):
        return
    stated = [
        dict(re.findall(r"(?:^|_)([a-z]+)-([a-zA-Z0-9]+)", Path(fspath(value)).name))
        for value in (image, item)
    ]
    for entity in _ENTITIES:
        values = [parts.get(entity) for parts in stated]
        if None not in values and values[0].lstrip("0") != values[1].lstrip("0"):
            raise ValueError(
                f"{Path(image).name} is of {entity}-{values[0]}, but {Path(item).name} "
                f"of {entity}-{values[1]}. List imgs and {name} in the same order."
            )


def read_events(item, name):
    """Return a table of events in the order of their onsets, and check it."""
    if not isinstance(item, str | PathLike | pd.DataFrame):
        raise TypeError(
            f"{name} must be a DataFrame or the path of an events.tsv file; got "
            f"{type(item).__name__}."
        )
    table = trimmed_table(read_table(item, "events")).reset_index(drop=True)
    missing = [column for column in COLUMNS if column not in table.columns]
    if missing or len(table) == 0:
        what = f"no column {quoted(missing)}" if missing else "no rows"
        raise ValueError(
            f"{name} has {what}. It needs the columns {quoted(COLUMNS)}, onsets and "
            f"durations in seconds; it has {quoted(table.columns.tolist())}."
        )
    unnamed = table["trial_type"].isna()
    if n := int(unnamed.sum()):
        warn(
            f"{name}: {counted(n, 'event')} without a trial_type (n/a) "
            f"{'is' if n == 1 else 'are'} not modelled."
        )
        table = table[~unnamed]
    in_file = not isinstance(item, pd.DataFrame)
    for column in ("onset", "duration", *({"modulation"} & {*table.columns})):
        table = table.assign(**{column: seconds(table[column], name, in_file)})
    table = table.sort_values("onset", kind="stable", ignore_index=True)
    types = table["trial_type"]
    if types.dtype.kind == "f" and (types == types.round()).all():
        table["trial_type"] = types.astype(int)  # whole numbers beside an n/a
    return table


def seconds(column, name, in_file):
    """A column as numbers, by name; its index holds the numbers of rows.

    Durations must not be negative. Rows are counted as lines of a file, or from 0.
    """
    values = pd.to_numeric(column, errors="coerce").astype(float)
    wrong = ~np.isfinite(values.to_numpy())
    if column.name == "duration":
        wrong |= values.to_numpy() < 0
    if wrong.any():
        first = np.flatnonzero(wrong)[0]
        row, value = column.index[first], column.iloc[first]
        value = "n/a" if in_file and pd.isna(value) else str(value)
        place = f"line {row + 2}" if in_file else f"row {row} (counted from 0)"
        raise ValueError(
            f"{name}: {column.name} is {value!r} in {place}, and wrong in "
            f"{wrong.sum()} of {len(values)} rows. It must be a number of seconds, "
            "durations not negative; drop these rows, or fill in the values."
        )
    return values


def check_lasting(table, name, length):
    """Refuse events that last longer than the whole run, as milliseconds would."""
    long = (table["duration"] > length).to_numpy()
    if long.any():
        first = table.iloc[np.flatnonzero(long)[0]]
        raise ValueError(
            f"{name}: the event at {first['onset']:g} s lasts {first['duration']:g} s, "
            f"but the whole run {length:g} s ({counted(int(long.sum()), 'such event')} "
            f"of {len(table)}). Durations are in seconds; correct the table."
        )


def check_signal(data, name, scans):
    """Refuse a run with many scans (n_scans, n_places) of which all places are equal.

    `scans` are their numbers. Of few there is a warning.
    """
    if data.shape[1] < 2:
        return
    empty = np.flatnonzero(data.max(axis=1) == data.min(axis=1))
    if len(empty) == 0:
        return
    text = (
        f"{name} has {counted(len(empty), 'scan')} of {len(data)} without any signal, "
        f"with one value everywhere in the mask (the first: scan {scans[empty[0]]}, "
        "counted from 0)."
    )
    if len(empty) > _MANY_EMPTY * len(data):
        raise ValueError(f"{text} Leave these scans out, or the whole run.")
    warn(f"{text} Estimates of trials at such scans are of no use.")


def mark_trials(tables, conditions):
    """Which events of every table are trials of interest."""
    if conditions is None:
        return [np.ones(len(table), bool) for table in tables]
    if isinstance(conditions, str | int) or not np.iterable(conditions):
        conditions = [conditions]
    names = [str(name) for name in all_items("conditions", conditions)]
    known = sorted({str(name) for table in tables for name in table["trial_type"]})
    unknown = [name for name in names if name not in known]
    if unknown or not names:
        raise ValueError(
            f"conditions names {quoted(unknown) or 'nothing'}, which no trial_type is. "
            f"The types are: {quoted(known, 20)}."
        )
    return [table["trial_type"].astype(str).isin(names).to_numpy() for table in tables]


def check_trials(trials, name, length):
    """Refuse trials of a run that cannot be estimated."""
    if len(trials) == 0:
        raise ValueError(f"{name} holds no trials of interest. Leave the run out.")
    onsets = trials["onset"].to_numpy()
    outside = (onsets < 0) | (onsets >= length)
    if outside.any():
        raise ValueError(
            f"{name} lasts from 0 to {length:g} s, and does not contain "
            f"{counted(int(outside.sum()), 'trial')} (the first: onset "
            f"{onsets[outside][0]:g} s). Drop them from events, or give them a "
            "trial_type that is not in conditions. Onsets are in seconds, from the "
            "first scan of the image."
        )
    twice = trials.duplicated(["onset", "duration"]).to_numpy()
    if twice.any():
        raise ValueError(
            f"{name}: two trials have the onset {onsets[twice][0]:g} s and the same "
            f"duration ({counted(int(twice.sum()), 'such pair')}), and cannot be "
            "distinguished. Drop one, or name the types of interest as conditions."
        )
    if "modulation" in trials and (trials["modulation"] != 1).any():
        raise ValueError(
            f"{name}: trials of interest have a modulation other than 1, which would "
            "only divide their estimates. Rename the column to keep it in the table."
        )


def check_durations(trials):
    """Refuse, or warn of, durations of all trials of interest together."""
    zero = (trials["duration"] == 0).to_numpy()
    if zero.any() and not zero.all():
        raise ValueError(
            f"{counted(int(zero.sum()), 'trial')} of {len(zero)} with a duration of 0: "
            "the response to an impulse is so much smaller that its estimate has "
            "another unit. Use durations above 0 for all trials, or 0 for all."
        )
    if zero.any():
        warn(
            "All trials have a duration of 0, and are modelled as impulses, as nilearn "
            "does. Their estimates are in a different unit."
        )
    ends = (trials["onset"] + trials["duration"]).groupby(trials["run"], sort=False)
    before = ends.shift().to_numpy()
    n_early = np.count_nonzero(trials["onset"].to_numpy() < before - 1e-6)
    if n_early:
        warn(
            f"{counted(n_early, 'trial')} of {len(trials)} began before the previous "
            "one had ended; their overlapping responses cannot be separated."
        )


def check_number(n_trials, most, n_values):
    """Refuse more trials than an image, or the memory, can hold.

    Each trial takes some values for its regressors.
    """
    if n_trials > most:
        raise ValueError(
            f"{n_trials:,} trials are more than the {most:,} volumes that a NIfTI "
            "image can hold. Name the types of interest as conditions, or estimate "
            "fewer runs at a time."
        )
    check_memory(
        3 * 8 * n_trials * n_values,
        f"To model {counted(n_trials, 'trial', ',')}, with {n_values:,} values of "
        "regressors each,",
        "fewer conditions or runs at a time",
    )


def table_of_trials(tables, is_trial):
    """The table of all trials."""
    parts = []
    for table, marked, name in zip(tables, is_trial, name_runs(tables), strict=True):
        trials = table[marked].drop(columns="run", errors="ignore").assign(run=name)
        first = ["run", *COLUMNS]
        parts.append(trials[[*first, *trials.columns.difference(first, sort=False)]])
    return pd.concat(parts, ignore_index=True)


def name_runs(tables):
    """What to call every run in the table: 1, 2, ... or the events' own name."""
    having = ["run" in table.columns for table in tables]
    if not any(having):
        return list(range(1, len(tables) + 1))
    names = [t["run"].unique().tolist() if "run" in t.columns else [] for t in tables]
    firsts = [name[0] for name in names if len(name) == 1]
    if len(firsts) < len(tables) or len(set(firsts)) < len(firsts):
        raise ValueError(
            "The column 'run' of events must have one value in each table, another one "
            f"in each run; got {quoted(names)}. Drop or rename it: runs are numbered "
            "then."
        )
    return firsts


def read_bold_confounds(item, name, n_scans):
    """Return regressors of no interest that are given for a run, or None."""
    if item is None:
        return None
    if isinstance(item, str | PathLike):
        item = read_table(item, "confounds")
    elif isinstance(item, np.ndarray) and item.ndim == 2:
        item = pd.DataFrame(item).add_prefix("confound_")
    if not isinstance(item, pd.DataFrame):
        raise TypeError(
            f"{name} must be a DataFrame, a 2-D array or the path of a .tsv or .csv "
            f"file; got {type(item).__name__}. "
            "nilearn.interfaces.fmriprep.load_confounds returns two things: pass the "
            "first as confounds and the second as sample_masks."
        )
    if len(item) != n_scans:
        raise ValueError(
            f"{name} has {counted(len(item), 'row')}, but the run has {n_scans} scans. "
            "One row is needed for each scan."
        )
    try:
        values = item.astype(float)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{name} must hold numbers only: {error}.") from None
    broken = ~np.isfinite(values).all()
    if broken.any():
        raise ValueError(
            f"{name} holds NaN or infinite values in {broken.sum()} of "
            f"{counted(len(broken), 'column')}: {quoted(values.columns[broken], 5)}. "
            "Correct the table, or choose other columns; for those of fMRIPrep "
            "nilearn.interfaces.fmriprep.load_confounds fills gaps."
        )
    return values.rename(columns=str).reset_index(drop=True)


def warn_of_drifts_twice(confounds, drift_model):
    """Warn of fMRIPrep's drifts among confounds, where drifts are modelled anyway."""
    names = [n for table in confounds if table is not None for n in table]
    cosines = sorted({name for name in names if name.startswith("cosine")})
    if cosines and drift_model is not None:
        warn(
            f"Drifts are modelled twice: confounds hold {quoted(cosines, 2)} of "
            f"fMRIPrep, and drift_model={drift_model!r} adds others. Pass "
            "drift_model=None, or leave these confounds out."
        )


def read_sample_mask(item, name, n_scans):
    """The scans that are kept, as an index."""
    if item is None:
        return slice(None)
    kept = np.asarray(item)
    if kept.dtype == bool and kept.shape == (n_scans,):
        kept = np.flatnonzero(kept)
    whole = kept.ndim == 1 and kept.dtype.kind in "iu" and len(kept) > 0
    # That is, 0 or more, rising, and below n_scans.
    if not whole or (np.diff(kept, prepend=-1, append=n_scans) <= 0).any():
        raise ValueError(
            f"{name} must hold the numbers of the scans to keep, "
            f"rising, from 0 to {n_scans - 1}; got {item!r}."
        )
    return kept


# ---------------------------------------------------------------- confounds of fMRIPrep


def models_drifts(strategy):
    """Whether a strategy models drifts, so that no other model of them is due."""
    return _DRIFTS in strategy or _COMPONENTS in strategy


def tuning_of(strategy, given):
    """What tunes the parts of a strategy, as given or by default."""
    defaults = inspect.signature(load_confounds).parameters
    return {
        name: defaults[name].default if given[name] is None else given[name]
        for name, part in TUNES.items()
        if part in strategy
    }


def check_tuned(strategy, tuned, flag):
    """Refuse to tune what is not in a strategy, which the option `flag` gives."""
    for name, value in tuned.items():
        if value is None:
            continue
        if TUNES[name] not in strategy:
            raise ValueError(
                f"{name}={value!r} is for {flag} {TUNES[name]}. Add that, or leave it "
                "out."
            )
        if name == "n_compcor":
            check_count(name, value, 1)
        else:
            check_positive(name, value)


def read_fmriprep(paths, strategy, tuned, flag):
    """Return regressors and the scans to keep (None: all) for each run.

    `tuned` are arguments of `load_confounds`, None for its defaults, and `flag` is the
    option by which the strategy was given.
    """
    check_tuned(strategy, tuned, flag)
    tuned = {name: value for name, value in tuned.items() if value is not None}
    complete = tuple(strategy)
    if _COMPONENTS in strategy and _DRIFTS not in strategy:
        complete += (_DRIFTS,)
    confounds, kept = [], []
    for path in paths:
        # nilearn looks at the name alone, and knows that of compressed files that
        # fMRIPrep wrote. The same confounds are of what others made of these.
        name = str(path) + (".gz" if str(path).endswith("_bold.nii") else "")
        name = re.sub(r"_desc-[a-zA-Z0-9]+(?=_bold\.nii)", "_desc-preproc", name)
        try:
            table, scans = load_confounds(name, complete, **tuned)
        except KeyError as error:
            raise ValueError(
                f"{path.name}: the confounds of fMRIPrep have no column {error}, which "
                f"{flag} {' '.join(strategy)} needs."
            ) from error
        except TypeError as error:  # of arithmetic with texts
            raise ValueError(
                f"{path.name}: the confounds of fMRIPrep hold a text where there must "
                f"be a number ({error}). Correct the table beside it, or choose others "
                f"with {flag}."
            ) from error
        except (ValueError, OSError) as error:
            raise ValueError(
                f"{path.name}: nilearn finds no confounds {quoted(strategy)} of "
                f"fMRIPrep ({' '.join(str(error).split())}). Choose others with {flag}."
            ) from error
        if scans is not None and len(scans) == 0:
            raise ValueError(
                f"{path.name}: {flag} {' '.join(strategy)} leaves no scan. Raise "
                "fd_threshold and std_dvars_threshold, or leave the run out."
            )
        table = table if table is not None and table.shape[1] else None
        image, owner = nibabel.load(path), f"the fMRIPrep table of {path.name}"
        n_scans = image.shape[0 if isinstance(image, nibabel.Cifti2Image) else -1]
        confounds.append(read_bold_confounds(table, owner, n_scans))
        kept.append(scans)
    return confounds, kept
