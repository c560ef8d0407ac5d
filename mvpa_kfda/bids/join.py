"""Epochs of several runs as one: what differs harmlessly is made alike, all else named.

MNE-Python joins epochs only if channels stand in the same order and events of one name
have one number, neither of which matters here.
"""

from hashlib import sha256

import mne
import numpy as np

from ..data.epochs import picked_channels
from ..utils.checks import counted, quoted, some_of

#: Files and channels that a message lists.
_LISTED = 4
#: Seconds by which times may miss each other and be the same.
_SAME_TIME = 1e-6


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
    there = set.intersection(*(set(part.ch_names) for part in parts))
    order = [name for name in parts[0].ch_names if name in there]
    for part in parts:
        if part.ch_names != order:
            part.reorder_channels(order)
        part.info["bads"] = sorted(bads & there)


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
