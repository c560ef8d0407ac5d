"""Trials of EEG and MEG: epochs on file, or raw recordings that are cut into epochs."""

from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path

import mne
import numpy as np
import pandas as pd

from ..data.epochs import data_channels, picked_channels, read_epochs_file
from ..data.tables import trimmed_table
from ..utils.checks import check_positive, counted, quoted, some_of
from .events import (
    LABEL,
    RUN,
    Fate,
    TrialInputs,
    as_texts,
    check_losses,
    events_of_data,
    events_of_runs,
    mark,
    wanted,
)

#: The baseline of epochs, from the first sample to 0 s, as it is given.
BASELINE = ("none", "0")
#: Files and channels that a message lists.
_LISTED = 4
#: Seconds by which times may miss each other and be the same.
_SAME_TIME = 1e-6


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
    from mne_bids import get_bids_path_from_fname, read_raw_bids

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
            path = get_bids_path_from_fname(run.path, check=False)
            raw = read_raw_bids(path, verbose="error").load_data()
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
    mark(events, table.index[early], Fate.BEFORE)
    mark(events, table.index[late], Fate.BEYOND)
    changed = np.zeros(raw.n_times, bool)  # samples unlike those before
    for pick in data_channels(raw.info):
        changed[1:] |= np.diff(raw[pick][0][0]) != 0
    changes = np.cumsum(changed)
    start, stop = (np.clip(at, 0, raw.n_times - 1) for at in (first - 1, last + 1))
    flat = ~early & ~late & (changes[start] == changes[stop])
    mark(events, table.index[flat], Fate.FLAT)
    return ~(early | late | flat)


def _mark_dropped(epochs, table, events):
    """Mark the events that MNE-Python has dropped."""
    for row, reasons in zip(table.index, epochs.drop_log, strict=True):
        words = [word.lower() for word in reasons]
        if {"too_short", "no_data"} & {*words}:
            mark(events, [row], Fate.BEYOND)
        elif any(word.startswith(("bad", "edge")) for word in words):
            mark(events, [row], Fate.ANNOTATED)
        elif words:
            mark(events, [row], Fate.REJECTED)


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


# ------------------------------------------------------- the runs of a subject as one


def join_epochs(parts, names, picks=None, resampled=False):
    """The epochs of all runs as one, by the names of their files, and notes.

    A channel that is bad in one run is bad in all. The epochs given may be changed.
    """
    if len(parts) == 1:
        return parts[0], ()
    for part in parts:
        part.load_data()
    _align_channels(parts, names, picks)
    notes = _align_times(parts, names, resampled)
    _align_events(parts)
    _check_preprocessing(parts, names)
    with mne.use_log_level("error"):
        return mne.concatenate_epochs(parts, on_mismatch="warn"), notes


def _align_channels(parts, names, picks):
    """Bring channels into one order; refuse channels to decode that not all runs have.

    Other channels that not all runs have are left out.
    """
    bads = {name for part in parts for name in part.info["bads"]}
    by_name = not {name for part in parts for name in part.ch_names}.isdisjoint(
        picks or ()
    )
    picked = [
        (
            {*picks} & {*part.ch_names}
            if by_name
            else {*picked_channels(part.info, picks)}
        )
        - bads
        for part in parts
    ]
    everything, shared = set.union(*picked), set.intersection(*picked)
    lacking = {}
    for part, own, file in zip(parts, picked, names, strict=True):
        if missing := sorted(everything - own):
            there = {*missing} <= {*part.ch_names}
            verb = "has as another type" if there else "lacks"
            words = f"{verb} {quoted(missing, _LISTED)}"
            lacking.setdefault(f"{words} ({len(missing)} in all)", []).append(file)
    if lacking:
        told = "; ".join(f"{some_of(own)} {words}" for words, own in lacking.items())
        raise ValueError(
            f"The {len(parts)} runs differ in the channels to decode, of which all "
            f"have {len(shared)} of {len(everything)}: {told}. Name channels that all "
            "runs have with --picks, or leave runs out with --run."
        )
    mne.channels.equalize_channels(parts, copy=False, verbose="error")
    for part in parts:
        part.info["bads"] = sorted(bads & {*part.ch_names})


def _align_times(parts, names, resampled):
    """Bring times to those of the first run, at most half a sample away; return notes.

    Refuse those that differ more. Resampling may round to a sample more or less.
    """
    rates = [float(part.info["sfreq"]) for part in parts]
    hint = f"Use --resample {min(rates):g} to bring all runs to one rate."
    _check_alike("sampling rates", [f"{x:.17g} Hz" for x in rates], names, hint)
    starts = np.array([part.times[0] for part in parts])
    sizes, moved = [len(part.times) for part in parts], np.abs(starts - starts[0])
    if (moved > 0.5 / rates[0]).any() or np.ptp(sizes) > resampled:
        ends = [part.times[-1] for part in parts]
        spans = [f"{a:.9g} to {b:.9g} s" for a, b in zip(starts, ends, strict=True)]
        hint = f"Use --tmin {max(starts):.6g} --tmax {min(ends):.6g} to crop all runs."
        _check_alike("times", spans, names, hint)
    for part in parts:
        if len(part.times) > min(sizes):
            part.crop(tmax=part.times[min(sizes) - 1])
        if part.times[0] != starts[0]:
            part.shift_time(starts[0], relative=False)
    if moved.max() < _SAME_TIME:
        return ()
    most = f"{1000 * moved.max():.2g} ms, less than half a sample"
    return (f"times of runs moved by up to {most}, to have the same in all",)


def _align_events(parts):
    """Give events of one name the same number in all runs."""
    numbers = {}
    for part in parts:
        own = {code: name.strip() for name, code in part.event_id.items()}
        for code, name in own.items():
            free = code not in numbers.values()
            numbers.setdefault(name, code if free else max(numbers.values()) + 1)
        part.events[:, 2] = [numbers[own[code]] for code in part.events[:, 2]]
        part.event_id = {name: numbers[name] for name in own.values()}


def _check_preprocessing(parts, names):
    """Refuse runs with other baselines, and with other projectors."""
    hint = "Prepare all runs in the same way before epochs are saved."
    first, words = parts[0].baseline, []
    for part in parts:
        if None not in (first, part.baseline):  # rounded to the samples of each run
            tolerance = 0.5 / part.info["sfreq"]
            if np.allclose(part.baseline, first, rtol=0, atol=tolerance):
                part.baseline = first
        values = part.baseline or ()
        words.append(" to ".join(f"{x:g}" for x in values) + " s" if values else "none")
    _check_alike("baselines", words, names, hint)
    for with_values in (False, True):
        projectors = [_word_projectors(part, with_values) for part in parts]
        _check_alike("projectors", projectors, names, hint)


def _word_projectors(part, with_values):
    """Word the projectors of epochs, perhaps with checksums of their values."""
    texts = []
    for each in part.info["projs"]:
        data = each["data"]
        content = each["kind"], each["active"], data["col_names"], data["data"].tolist()
        checksum = sha256(repr(content).encode())
        values = f" (values {checksum.hexdigest()[:6]})" * with_values
        texts.append(f"{str(each['desc'])!r}{values}")
    return ", ".join(texts) or "none"


def _check_alike(what, words, names, hint):
    """Refuse runs that differ in something, worded for every run."""
    by_value = {}
    for value, name in zip(words, names, strict=True):
        by_value.setdefault(value, []).append(name)
    if len(by_value) > 1:
        told = "; ".join(
            f"{value} in {counted(len(own), 'run')} ({some_of(own)})"
            for value, own in by_value.items()
        )
        raise ValueError(
            f"The {len(words)} runs differ in their {what}: {told}. {hint} Or leave "
            "runs out with --run."
        )
