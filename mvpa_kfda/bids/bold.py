"""Trials of fMRI: one image for every trial of BOLD runs as fMRIPrep writes them."""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
from nilearn.image import clean_img, load_img, smooth_img

from ..data.betas import single_trial_betas
from ..data.fmriprep import TUNES, check_tuned, models_drifts, read_fmriprep
from ..data.runs import open_runs
from ..data.timing import Timing, find_timing, read_sidecar
from ..data.volumes import n_volumes, on_grid
from ..utils.checks import check_positive, counted
from .find import find_beside, stem_of_file
from .masks import Mask, mask_of_runs
from .trials import (
    LABEL,
    RUN,
    Trials,
    about_trials,
    events_of_runs,
    groups_of,
    with_plain_labels,
)

#: Drifts are slower, in Hz, as in nilearn.
_HIGH_PASS = 0.01
#: Seconds by which onsets may miss each other and be the same.
_SAME_TIME = 1e-6


@dataclass(frozen=True)
class _Runs:
    """The BOLD runs of a unit, with what is known of their scans."""

    unit: object
    images: list
    timing: Timing
    confounds: list  #: regressors of no interest for each run, or None
    kept: list  #: the scans to keep of each run, None for all
    high_pass: float | None  #: None where confounds model the drifts
    mask: Mask


@dataclass(frozen=True)
class Estimate:
    """A way to make one image of each trial, which ``--estimate`` names."""

    make: Callable  #: (runs, events, options) -> images, table, facts, notes
    own: tuple = ()  #: options that not all of them have a use for


def read_bold(unit, options):
    """Estimate an image for every trial of preprocessed BOLD runs."""
    estimate = ESTIMATES[options["estimate"]]
    events = events_of_runs(unit, options)
    events, unit = _without_empty_runs(events, unit)
    runs = _open(unit, options)
    data, table, about, notes = estimate.make(runs, events, options)
    table = with_plain_labels(table.reset_index(drop=True))
    left_out = {
        label: n_volumes(image) - len(kept)
        for label, image, kept in zip(unit.runs, runs.images, runs.kept, strict=True)
        if kept is not None
    }
    names = [n for each in runs.confounds if each is not None for n in each.columns]
    about = {
        **about_trials(table),
        "Estimate": options["estimate"],
        **about,
        "RepetitionTime": runs.timing.t_r,
        "SliceTimeRef": runs.timing.slice_time_ref,
        "SliceTimeRefFrom": runs.timing.told_by,
        "HighPass": runs.high_pass or "by the cosines among the confounds",
        "Confounds": [*dict.fromkeys(names)],
        "ScansLeftOut": left_out,
        "SmoothingFWHM": options["smoothing_fwhm"],
        **runs.mask.about,
    }
    notes += runs.mask.notes
    if n := sum(left_out.values()):
        notes += (f"{counted(n, 'scan')} left out",)
    groups = groups_of(table[RUN])
    return Trials(data, table, groups, runs.mask.image, about, notes)


def _without_empty_runs(events, unit):
    """Return events and unit without the runs of which nothing is decoded."""
    runs = events.loc[events[LABEL].notna(), RUN].unique()
    recordings = [
        each
        for label, each in zip(unit.runs, unit.recordings, strict=True)
        if label in runs
    ]
    return events[events[RUN].isin(runs)], replace(unit, recordings=tuple(recordings))


# ---------------------------------------------------------------------------- the runs


def _open(unit, options):
    """Return the `_Runs` of a unit, their data not yet read."""
    images = [load_img(each.path) for each in unit.recordings]
    names = [each.path.name for each in unit.recordings]
    opened = open_runs(images)
    headers = [opened.header_t_r(number) for number in range(len(images))]
    sidecars = [_sidecar(each) for each in unit.recordings]
    timing = find_timing(
        names, headers, sidecars, slice_time_ref=options["slice_time_ref"]
    )
    confounds, kept, drifts = _confounds(unit, options)
    high_pass = None if drifts else options["high_pass"] or _HIGH_PASS
    mask = mask_of_runs(unit, images, options["mask_img"])
    return _Runs(unit, images, timing, confounds, kept, high_pass, mask)


def _sidecar(recording):
    """Return what the .json file of a run says; None if there is none."""
    path = recording.path.with_name(f"{stem_of_file(recording.path)}.json")
    if not path.is_file():
        path = find_beside(
            recording, recording.root, "bold.json", [("desc", "preproc")]
        )
    return None if path is None else read_sidecar(path)


def _confounds(unit, options):
    """Return regressors and the scans to keep of each run, and if they model drifts."""
    strategy = _strategy(options)
    paths = [each.path for each in unit.recordings]
    if not strategy:
        return [None] * len(paths), [None] * len(paths), False
    tuned = {name: options[name] for name in TUNES}
    confounds, kept = read_fmriprep(paths, strategy, tuned, "--confounds")
    return confounds, kept, models_drifts(strategy)


def _strategy(options):
    """Return what confounds of fMRIPrep to take, [] for none."""
    strategy = options["confounds"] or ["motion"]
    return [] if strategy == ["none"] else strategy


# --------------------------------------------------------------------- models of trials


def _single_trials(runs, events, options):
    """Return estimates of single trials, their table, facts and notes."""
    of_interest = events[LABEL].notna()
    types = events.get("trial_type", events[LABEL])
    # Without a type they are not modelled, as in nilearn, unless they are decoded.
    types = types.astype(object).where(types.notna() | ~of_interest, "n/a")
    types = types.where(types.isna(), types.astype(str))
    # Of a type that is decoded here and left out there, the latter need another name.
    both = types.isin(set(types[of_interest])) & ~of_interest
    events = events.assign(trial_type=types.where(~both, types + " (left out)"))
    drifts = {} if runs.high_pass is None else {"high_pass": runs.high_pass}
    betas = single_trial_betas(
        runs.images,
        [table for _, table in events.groupby(RUN, sort=False)],
        method=options["estimate"],
        conditions=sorted(set(types[of_interest])),
        t_r=runs.timing.t_r,
        slice_time_ref=runs.timing.slice_time_ref,
        drift_model="cosine" if drifts else None,
        **drifts,
        confounds=runs.confounds,
        sample_masks=runs.kept,
        mask_img=runs.mask.image,
        smoothing_fwhm=options["smoothing_fwhm"],
    )
    return betas.imgs, betas.table, {"HrfModel": betas.parameters["hrf_model"]}, ()


# ------------------------------------------------------------------------------- blocks


def _block_means(runs, events, options):
    """Return the mean of the scans of every block, their table, facts and notes.

    Drifts and confounds are taken out of a run first, its mean is kept.
    """
    delay, gap = options["delay"], options["block_gap"]
    if gap is not None:
        gap = check_positive("block_gap", gap, " In seconds.", zero=True)
    means, tables = [], []
    of_runs = [table for _, table in events.groupby(RUN, sort=False)]
    for number, table in enumerate(of_runs):
        values = _cleaned(runs, number, options["smoothing_fwhm"])
        n = values.shape[3]
        times = (np.arange(n) + runs.timing.slice_time_ref) * runs.timing.t_r
        kept = runs.kept[number]
        there = np.isin(np.arange(n), np.arange(n) if kept is None else kept)
        table = join_events(table[table[LABEL].notna()], gap)
        for row in table.itertuples():
            inside = (times >= row.onset + delay) & there
            inside &= times < row.onset + row.duration + delay
            if not inside.any():
                raise ValueError(_word_no_scan(table, row, delay, gap))
            means.append(values[..., inside].mean(axis=3))
        tables.append(table)
    table, n_events = pd.concat(tables), int(events[LABEL].notna().sum())
    about = {"Delay": delay, "BlockGap": gap, "NumberOfEvents": n_events}
    notes = () if gap is None else (f"{len(table)} blocks of {n_events} events",)
    return on_grid(np.stack(means, axis=3), runs.images[0]), table, about, notes


def _cleaned(runs, number, smoothing_fwhm):
    """Return the data of a run (x, y, z, n_scans) without drifts and confounds."""
    image = runs.images[number]
    if smoothing_fwhm is not None:
        image = smooth_img(image, smoothing_fwhm)
    average = np.asarray(image.dataobj, dtype=float).mean(axis=3, keepdims=True)
    cleaned = clean_img(
        image,
        detrend=True,
        standardize=None,
        confounds=runs.confounds[number],
        high_pass=runs.high_pass,
        t_r=runs.timing.t_r,
        mask_img=runs.mask.image,
    )
    return np.asarray(cleaned.dataobj) + average


def join_events(table, gap):
    """Return blocks: events of one label that begin at most `gap` s after the last.

    Columns whose values differ within a block are n/a there. None joins nothing.
    """
    table = table.sort_values("onset", kind="stable")
    if gap is None:
        return table
    ends = table["onset"] + table["duration"]
    new = (table[LABEL] != table[LABEL].shift()) | (
        table["onset"] > ends.cummax().shift() + gap + _SAME_TIME
    )
    rows = []
    for _, block in table.groupby(new.cumsum().to_numpy(), sort=False):
        row = block.iloc[0].copy()
        several = [name for name in block if block[name].nunique(dropna=False) > 1]
        row[[n for n in several if n not in ("onset", LABEL)]] = np.nan
        row["duration"] = ends[block.index].max() - row["onset"]
        rows.append(row)
    joined = pd.DataFrame(rows).infer_objects()
    sizes = table.groupby(new.cumsum().to_numpy(), sort=False).size()
    return joined.assign(n_events=sizes.to_numpy())


def _word_no_scan(table, row, delay, gap):
    """Say that a block holds no scan, and how events become blocks."""
    text = (
        f"The block at {row.onset:g} s of run {getattr(row, RUN)}, {row.duration:g} s "
        f"long, holds no scan, {delay:g} s later."
    )
    pauses = (table["onset"] - (table["onset"] + table["duration"]).shift())[
        table[LABEL] == table[LABEL].shift()
    ]
    if gap is None and len(pauses):
        usual = pauses.median()
        return (
            f"{text} Events of one class follow each other there after pauses of "
            f"{usual:g} s: --block-gap {math.ceil(usual)} joins them to blocks."
        )
    return f"{text} See --delay and --block-gap, and the durations in its events.tsv."


def unused_by(estimate):
    """Return the options that a way to make images of trials has no use for."""
    own = ESTIMATES[estimate].own if estimate in ESTIMATES else ()
    return {n for each in ESTIMATES.values() for n in each.own} - {*own}


def check_estimate(options, given):
    """Refuse options that do not go with a way to make images of trials.

    `given` maps the options that were given to what they are called.
    """
    name = options["estimate"]
    of_others = unused_by(name)
    for option in sorted(of_others & {*given}):
        fitting = [n for n, each in ESTIMATES.items() if option in each.own]
        raise ValueError(
            f"--{given[option]} is for --estimate {' or '.join(fitting)}, and not for "
            f"{name}. Leave it out."
        )
    if "confounds" in of_others:
        return
    strategy, tuned = _strategy(options), {n: options[n] for n in TUNES}
    check_tuned(strategy, tuned, "--confounds")
    if models_drifts(strategy) and options["high_pass"] is not None:
        raise ValueError(
            f"--confounds {' '.join(strategy)} takes the cosines by which fMRIPrep "
            "models drifts, so that --high-pass would model them twice. Leave it out."
        )


_OF_SCANS = (
    *("confounds", *TUNES, "high_pass", "smoothing_fwhm", "slice_time_ref"),
    "keep_betas",
)
#: Ways to make images of trials; those that are there already are none of them.
ESTIMATES = {
    "lss": Estimate(_single_trials, _OF_SCANS),
    "lsa": Estimate(_single_trials, _OF_SCANS),
    "blocks": Estimate(_block_means, (*_OF_SCANS, "delay", "block_gap")),
}
