"""Trials of EEG and MEG: epochs on file, or raw recordings that are cut into epochs."""

from contextlib import contextmanager
from pathlib import Path

import mne
import numpy as np
import pandas as pd

from ..data.epochs import data_channels, read_epochs_file
from ..data.tables import trimmed_table
from ..utils.checks import check_positive
from .events import (
    ANNOTATED,
    BEFORE,
    BEYOND,
    FLAT,
    LABEL,
    REJECTED,
    RUN,
    TrialInputs,
    as_texts,
    check_losses,
    events_of_data,
    events_of_runs,
    mark,
    wanted,
)
from .join import join_epochs

#: The baseline of epochs, from the first sample to 0 s, as it is given.
BASELINE = ("none", "0")


@contextmanager
def _naming(path):
    """Name the file in whatever goes wrong with it."""
    try:
        yield
    except Exception as error:  # MNE-Python raises many kinds
        text = " ".join(str(error).split()) or type(error).__name__
        if isinstance(error, FileNotFoundError) and error.filename:
            text = (
                f"there is no {Path(error.filename).name}, which it names. If files "
                "were renamed, correct the names inside of them, or copy BrainVision "
                "files with mne_bids.copyfiles.copyfile_brainvision."
            )
        elif isinstance(error, KeyError):
            text = (
                f"MNE-BIDS finds no column {text} in a table beside it. Columns need "
                "the names of BIDS and tabs between them, without blanks."
            )
        elif isinstance(error, UnicodeDecodeError):
            text = f"a table beside it is not in UTF-8. Save it as UTF-8 ({text})."
        text = text if path.name in text else f"{path.name}: {text}"
        raise ValueError(text) from error


def picks_of(options):
    """The names or types of channels to decode; None for all data channels."""
    picks = options["picks"]
    if picks is None:
        return None
    return [name.strip() for item in picks for name in item.split(",")]


def _as_trials(parts, runs, table, events, inputs, options):
    """The `TrialInputs` of the epochs of some runs, those in the table of trials."""
    names, resampled = [r.path.name for r in runs], options["resample"] is not None
    epochs, notes = join_epochs(parts, names, picks_of(options), resampled)
    if len(epochs) > len(table):
        epochs = epochs[table.index]
    about = {
        "SamplingFrequency": float(epochs.info["sfreq"]),
        "FirstSample": float(epochs.times[0]),
        "LastSample": float(epochs.times[-1]),
    }
    trials = TrialInputs.of(epochs, table, events, inputs.runs, about, notes)
    epochs.metadata = trials.table
    return trials


def _resample(epochs, sfreq):
    """Bring epochs to another sampling rate: epochs, lest events move by a sample."""
    if sfreq is None:
        return
    sfreq, known = check_positive("resample", sfreq, " In Hz."), epochs.info["sfreq"]
    if sfreq > known:
        raise ValueError(
            f"--resample {sfreq:g} is above the {known:g} Hz of the recording, which "
            "holds nothing more. Use a lower rate, or leave it out."
        )
    epochs.load_data().resample(sfreq, verbose="error")


# ----------------------------------------------------------------------------- on file


def read_epochs(inputs, options):
    """Read epochs that were cut before."""
    for name in ("high_pass", "low_pass", "baseline", "reject"):
        if options[name] is not None:
            raise ValueError(
                f"--{name.replace('_', '-')} is for raw recordings, and these are "
                "epochs already. Leave it out."
            )
    parts, tables, flat = [], [], []
    for run in inputs.runs:
        epochs = read_epochs_file(run.path)
        with _naming(run.path):
            table = epochs.metadata
            table = pd.DataFrame(index=range(len(epochs))) if table is None else table
            table = table.reset_index(drop=True)
            if "trial_type" not in table:
                names = {number: name for name, number in epochs.event_id.items()}
                table["trial_type"] = [names[code] for code in epochs.events[:, 2]]
            table = trimmed_table(table)
            flat.append(_are_flat(epochs))
            if options["tmin"] is not None or options["tmax"] is not None:
                epochs.load_data().crop(options["tmin"], options["tmax"])
            _resample(epochs, options["resample"])
        epochs.metadata = None  # of other columns, perhaps, than the next run's
        parts.append(epochs)
        tables.append(table)
    events = events_of_data(tables, inputs.runs, np.concatenate(flat), options)
    return _as_trials(parts, inputs.runs, wanted(events), events, inputs, options)


def _are_flat(epochs):
    """Mark epochs of which every channel holds one value, as where nothing was on."""
    picks = data_channels(epochs.info)
    if len(picks) == 0 or len(epochs) == 0:
        return np.zeros(len(epochs), bool)
    data = epochs.get_data(picks=picks, copy=False)
    if data.shape[2] == 1:  # of a single sample anything is one value
        return (data == 0).all(axis=(1, 2))
    return (data.max(axis=2) == data.min(axis=2)).all(axis=1)


# --------------------------------------------------------------------------------- raw


def read_raw(inputs, options):
    """Cut raw recordings into epochs around the events to decode."""
    read_raw_bids, path_of = import_mne_bids()
    cut = {
        "baseline": _baseline(options["baseline"]),
        "reject": _rejection(options["reject"]),
    }
    events = events_of_runs(inputs.runs, options)
    types = as_texts(events.get("trial_type", events[LABEL]))
    codes = {name: i for i, name in enumerate(sorted(types.unique()), 1)}
    parts, rows, runs = [], [], []
    for run in inputs.runs:
        of_run = wanted(events[events[RUN] == run.label])
        if len(of_run) == 0:
            continue
        with _naming(run.path):
            raw = read_raw_bids(path_of(run.path, check=False), verbose="error")
            raw.load_data()
            samples = raw.time_as_index(of_run["onset"].to_numpy(), use_rounding=True)
            inside = _mark_lost(raw, of_run, samples, events, options)
            of_run, samples = of_run[inside], samples[inside]
            if len(of_run) == 0:
                continue
            if options["high_pass"] is not None or options["low_pass"] is not None:
                raw.filter(options["high_pass"], options["low_pass"], verbose="error")
            twice = pd.Series(samples).duplicated()
            if twice.any():
                onset = of_run["onset"].to_numpy()[twice][0]
                raise ValueError(
                    f"Run {run.label} has two events to decode at {onset:g} s. Leave "
                    "one of them out by --where."
                )
            of_type = types[of_run.index]
            at = np.column_stack(
                [samples + raw.first_samp, 0 * samples, of_type.map(codes)]
            )
            ids = {name: codes[name] for name in sorted(of_type.unique())}
            times = window_of(options)
            epochs = mne.Epochs(
                raw, at, ids, *times, **cut, preload=True, verbose="error"
            )
            _mark_dropped(epochs, of_run, events)
            if len(epochs) > 0:
                _resample(epochs, options["resample"])
                parts.append(epochs)
                rows.append(of_run.iloc[epochs.selection])
                runs.append(run)
    check_losses(events, options)
    if not parts:
        names = ", ".join(run.path.name for run in inputs.runs)
        raise ValueError(
            f"No epoch is left of {names}: all are rejected, or outside of the "
            "recordings. See --reject, --tmin and --tmax."
        )
    return _as_trials(parts, runs, pd.concat(rows), events, inputs, options)


def window_of(options):
    """The first and the last second of epochs."""
    tmin, tmax = options["tmin"], options["tmax"]
    return -0.2 if tmin is None else tmin, 0.5 if tmax is None else tmax


def _mark_lost(raw, table, samples, events, options):
    """Which events of a run have signal in the recording; others are marked."""
    sfreq = raw.info["sfreq"]
    first, last = (samples + round(t * sfreq) for t in window_of(options))
    early, late = (samples < 0) | (first < 0), last >= raw.n_times
    mark(events, table.index[early], BEFORE)
    mark(events, table.index[late], BEYOND)
    changed = np.zeros(raw.n_times, bool)  # samples unlike those before
    for pick in data_channels(raw.info):
        changed[1:] |= np.diff(raw[pick][0][0]) != 0
    changes = np.cumsum(changed)
    start, stop = (np.clip(at, 0, raw.n_times - 1) for at in (first - 1, last + 1))
    flat = ~early & ~late & (changes[start] == changes[stop])
    mark(events, table.index[flat], FLAT)
    return ~(early | late | flat)


def _mark_dropped(epochs, table, events):
    """Mark the events that MNE-Python has dropped."""
    for row, reasons in zip(table.index, epochs.drop_log, strict=True):
        words = [word.lower() for word in reasons]
        if {"too_short", "no_data"} & {*words}:
            mark(events, [row], BEYOND)
        elif any(word.startswith(("bad", "edge")) for word in words):
            mark(events, [row], ANNOTATED)
        elif words:
            mark(events, [row], REJECTED)


def _baseline(given):
    """The baseline as MNE-Python takes it."""
    words = [str(word) for word in given or BASELINE]
    if words == ["none"]:
        return None
    try:
        first, last = (None if word == "none" else float(word) for word in words)
    except ValueError:
        raise ValueError(
            f"--baseline {' '.join(words)} is not a baseline. Use two numbers in "
            "seconds, with none for the first or last sample, or a single none for no "
            "baseline."
        ) from None
    return first, last


def _rejection(given):
    """Peak-to-peak limits by channel type, in MNE-Python's units."""
    limits = {}
    for item in given or ():
        kind, _, value = item.partition("=")
        try:
            limits[kind] = float(value)
        except ValueError:
            raise ValueError(
                f"--reject {item}: write TYPE=LIMIT, e.g. eeg=150e-6 for 150 "
                "microvolts from peak to peak."
            ) from None
    return limits or None


def import_mne_bids():
    """What reads raw recordings, and the names of their files."""
    try:
        from mne_bids import get_bids_path_from_fname, read_raw_bids
    except ImportError:
        raise ValueError(
            "Raw recordings are read by MNE-BIDS, which is not installed: "
            'pip install "mvpa-kfda[bids]"'
        ) from None
    return read_raw_bids, get_bids_path_from_fname
