"""Trials of EEG and MEG: epochs on file, or raw recordings that are cut into epochs."""

from contextlib import contextmanager

import mne
import numpy as np
import pandas as pd

from ..utils.checks import check_positive
from .trials import (
    LABEL,
    RUN,
    Trials,
    about_trials,
    events_of_runs,
    groups_of,
    label_events,
    with_plain_labels,
)


@contextmanager
def _naming(path):
    """Name the file in whatever goes wrong with it."""
    try:
        yield
    except Exception as error:  # MNE-Python raises many kinds
        text = " ".join(str(error).split()) or type(error).__name__
        text = text if path.name in text else f"{path.name}: {text}"
        raise ValueError(text) from error


def read_epochs(unit, options):
    """Read epochs that were cut before."""
    for name in ("high_pass", "low_pass", "baseline", "reject"):
        if options[name] is not None:
            raise ValueError(
                f"--{name.replace('_', '-')} is for raw recordings, and these are "
                "epochs already. Leave it out."
            )
    parts, tables = [], []
    for label, each in zip(unit.runs, unit.recordings, strict=True):
        epochs = _load_epochs(each.path)
        with _naming(each.path):
            table = _table_of(epochs)
            if options["tmin"] is not None or options["tmax"] is not None:
                epochs.load_data().crop(options["tmin"], options["tmax"])
            _resample(epochs, options["resample"])
        if len(unit.recordings) > 1 or RUN not in table:
            table[RUN] = label
        epochs.metadata = None  # of other columns, perhaps, than the next run's
        parts.append(epochs)
        tables.append(table)
    epochs = _joined(parts)
    table = pd.concat(tables, ignore_index=True)
    table[LABEL] = label_events(table, options["by"], options["where"])
    kept = np.flatnonzero(table[LABEL].notna())
    return _as_trials(epochs[kept], table.iloc[kept])


def _load_epochs(path):
    """Read a file of epochs, with one kind of error for all that is wrong with it."""
    try:
        return mne.read_epochs(path, verbose="error")
    except Exception as error:  # a reader of foreign bytes fails in many ways
        raise ValueError(
            f"{path} is not a file of epochs that MNE-Python can read ({error})."
        ) from error


def _table_of(epochs):
    """Return the metadata of epochs, with the names of their events."""
    names = {number: name for name, number in epochs.event_id.items()}
    table = epochs.metadata
    table = pd.DataFrame(index=range(len(epochs))) if table is None else table
    table = table.reset_index(drop=True)
    if "trial_type" not in table:
        table["trial_type"] = [names[number] for number in epochs.events[:, 2]]
    return table


def _resample(epochs, sfreq):
    """Bring epochs to another sampling rate: epochs, lest events move by a sample."""
    if sfreq is None:
        return
    sfreq, known = check_positive("resample", sfreq, " In Hz."), epochs.info["sfreq"]
    if sfreq > known:
        raise ValueError(
            f"--resample {sfreq:g} is above the {known:g} Hz of the recording, which "
            "holds nothing more. Give a lower rate, or leave it out."
        )
    epochs.load_data().resample(sfreq, verbose="error")


def _as_trials(epochs, table):
    """Return the `Trials` of epochs and their table."""
    table = with_plain_labels(table.reset_index(drop=True))
    epochs.metadata = table
    about = about_trials(table) | {
        "SamplingFrequency": float(epochs.info["sfreq"]),
        "FirstSample": float(epochs.times[0]),
        "LastSample": float(epochs.times[-1]),
    }
    return Trials(epochs, table, groups_of(table[RUN]), about=about)


def _joined(parts):
    """Return the epochs of all runs; a channel that is bad in one is bad."""
    if len(parts) == 1:
        return parts[0]
    bads = sorted({name for part in parts for name in part.info["bads"]})
    for part in parts:
        part.load_data()
        part.info["bads"] = [name for name in bads if name in part.ch_names]
    return mne.concatenate_epochs(parts, on_mismatch="warn", verbose="error")


def read_raw(unit, options):
    """Cut raw recordings into epochs around the events to decode."""
    read_raw_bids, path_of = import_mne_bids()
    baseline, reject = _baseline(options["baseline"]), _rejection(options["reject"])
    events = events_of_runs(unit, options)
    types = events.get("trial_type", events[LABEL]).astype(str)
    numbers = {name: i for i, name in enumerate(sorted(types.unique()), 1)}
    parts, tables = [], []
    for label, each in zip(unit.runs, unit.recordings, strict=True):
        of_run = events[(events[RUN] == label) & events[LABEL].notna()]
        if len(of_run) == 0:
            continue
        with _naming(each.path):
            raw = read_raw_bids(path_of(each.path, check=False), verbose="error")
            raw.load_data()
            if options["high_pass"] is not None or options["low_pass"] is not None:
                raw.filter(options["high_pass"], options["low_pass"], verbose="error")
            cut = {"baseline": baseline, "reject": reject}
            cut |= {name: options[name] for name in ("tmin", "tmax")}
            epochs = _cut(raw, of_run, types[of_run.index], numbers, cut)
            if len(epochs) > 0:
                _resample(epochs, options["resample"])
                parts.append(epochs)
                tables.append(of_run.iloc[epochs.selection])
    if not parts:
        names = ", ".join(each.path.name for each in unit.recordings)
        raise ValueError(
            f"No epoch is left of {names}: all are rejected, or outside of the "
            "recordings. See --reject, --tmin and --tmax."
        )
    return _as_trials(_joined(parts), pd.concat(tables))


def _cut(raw, table, types, numbers, options):
    """Return the epochs of a run around its events."""
    samples = raw.time_as_index(table["onset"].to_numpy(float), use_rounding=True)
    codes = types.map(numbers).to_numpy()
    events = np.column_stack([samples + raw.first_samp, np.zeros_like(codes), codes])
    twice = pd.Series(samples).duplicated()
    if twice.any():
        onset = table["onset"].to_numpy()[twice][0]
        raise ValueError(
            f"Run {table[RUN].iloc[0]} has two events to decode at {onset:g} s. Leave "
            "one of them out by --where."
        )
    tmin, tmax = options["tmin"], options["tmax"]
    return mne.Epochs(
        raw,
        events,
        {name: numbers[name] for name in sorted(types.unique())},
        -0.2 if tmin is None else tmin,
        0.5 if tmax is None else tmax,
        baseline=options["baseline"],
        reject=options["reject"],
        preload=True,
        verbose="error",
    )


def _baseline(given):
    """Return the baseline as MNE-Python takes it."""
    if given is None:
        return (None, 0)
    words = [str(word) for word in given]
    if words == ["none"]:
        return None
    try:
        first, last = (None if word == "none" else float(word) for word in words)
    except ValueError:
        raise ValueError(
            f"--baseline {' '.join(words)}: give two numbers of seconds, none for the "
            "first or last sample, or one word none for no baseline."
        ) from None
    return first, last


def _rejection(given):
    """Return peak-to-peak limits by channel type, in MNE-Python's units."""
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
    """Return what reads raw recordings."""
    try:
        from mne_bids import get_bids_path_from_fname, read_raw_bids
    except ImportError:
        raise ValueError(
            "Raw recordings are read by MNE-BIDS, which is not installed: "
            'pip install "mvpa-kfda[bids]"'
        ) from None
    return read_raw_bids, get_bids_path_from_fname
