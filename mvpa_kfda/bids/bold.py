"""Trials of fMRI: one image for every trial, of BOLD runs as fMRIPrep writes them.

Or images of trials that are there; of both the voxels of a mask, or in the brain in all
runs.
"""

import math
import warnings
from contextlib import suppress
from dataclasses import dataclass, field

import numpy as np
import pandas as pd
from nilearn.image import clean_img, concat_imgs, smooth_img
from nilearn.masking import compute_multi_epi_mask, intersect_masks

from ..data.betas import RESPONSE, single_trial_betas
from ..data.bold import (
    MOST_VOLUMES,
    TUNES,
    check_lasting,
    check_signal,
    check_tuned,
    find_timing,
    models_drifts,
    open_runs,
    read_fmriprep,
    read_sidecar,
)
from ..data.volumes import (
    check_grid,
    load_3d,
    load_mask,
    load_volume,
    n_volumes,
    on_grid,
    on_one_grid,
)
from ..utils.checks import check_positive, counted, warn
from .events import (
    FATE,
    LABEL,
    RUN,
    Fate,
    TrialInputs,
    check_losses,
    events_of_data,
    events_of_runs,
    mark,
    read_events_tsv,
    wanted,
)
from .find import PREPROCESSED, entities_of

#: Drifts are slower, in Hz, as in nilearn.
_HIGH_PASS = 0.01
#: What is left out and is no part of a model of a run either.
_NOT_MODELLED = (Fate.MARK, Fate.NO_ONSET, Fate.BEYOND, Fate.SCRUBBED)
#: Facts of trials -> what estimates record of their models.
OF_MODELS = {
    "HrfModel": "hrf_model",
    "NoiseModel": "noise_model",
    "SignalScaling": "signal_scaling",
}
#: Seconds by which onsets may miss each other and be the same.
_SAME_TIME = 1e-6
#: From this share of voxels on that not all masks have there is a warning.
_MANY = 0.1
#: Options of all that makes images of trials from scans, and of blocks only.
_OF_SCANS = (
    *("confounds", *TUNES, "high_pass", "smoothing_fwhm", "slice_time_ref"),
    "keep_betas",
)
_OF_BLOCKS = ("delay", "block_gap")
#: Options that some ways to make images of trials have a use for.
OF_ESTIMATES = (*_OF_SCANS, *_OF_BLOCKS)


def unused_by(estimate):
    """The options that a way to make images of trials has no use for."""
    return {"images": OF_ESTIMATES, "blocks": ()}.get(estimate, _OF_BLOCKS)


def check_estimate(options, given):
    """Refuse options that do not go with a way to make images of trials.

    `given` maps the options that were given to what they are called.
    """
    name = options["estimate"]
    for option in sorted({*unused_by(name)} & {*given}):
        fitting = "blocks" if option in _OF_BLOCKS else "lss or lsa or blocks"
        raise ValueError(
            f"--{given[option]} is for --estimate {fitting}, and not for {name}. Leave "
            "it out."
        )
    if name == "images":
        return
    strategy = _strategy(options)
    check_tuned(strategy, {name: options[name] for name in TUNES}, "--confounds")
    if models_drifts(strategy) and options["high_pass"] is not None:
        raise ValueError(
            f"--confounds {' '.join(strategy)} takes the cosines by which fMRIPrep "
            "models drifts, so that --high-pass would model them twice. Leave it out."
        )


def check_denoised(units, options):
    """Refuse to guess whether confounds are still in runs that fMRIPrep did not write.

    nilearn finds the confounds of the runs that these were made of.
    """
    names = {each.entities["desc"] for unit in units for each in unit.recordings}
    if options["confounds"] is None and (others := sorted(names - {PREPROCESSED})):
        raise ValueError(
            f"Runs are desc-{', desc-'.join(others)}, not desc-{PREPROCESSED} of "
            "fMRIPrep. If confounds were regressed out of them, use --confounds none: "
            "a second regression, on others, can bring them back. If not, name those "
            "to regress out, such as --confounds motion."
        )


def _strategy(options):
    """What confounds of fMRIPrep to take, [] for none."""
    strategy = options["confounds"] or ["motion"]
    return [] if strategy == ["none"] else strategy


# ---------------------------------------------------------------------------- the runs


@dataclass(frozen=True)
class Mask:
    """The voxels to decode, and what became of others."""

    image: object
    about: dict = field(default_factory=dict)  #: for the JSON file
    notes: tuple = ()  #: what to say beside the result


@dataclass(frozen=True)
class _Runs:
    """BOLD runs, with what is known of their scans."""

    runs: tuple
    images: list
    t_r: float
    slice_time_ref: float
    told_by: str  #: who says the latter
    confounds: list  #: regressors of no interest for each run, or None
    kept: list  #: the scans to keep of each run, None for all
    high_pass: float | None  #: None where confounds model the drifts
    mask: Mask

    def times(self, number):
        """When the scans of a run were taken, in seconds, and which are kept."""
        n, kept = n_volumes(self.images[number]), self.kept[number]
        times = (np.arange(n) + self.slice_time_ref) * self.t_r
        return times, np.isin(np.arange(n), np.arange(n) if kept is None else kept)


def read_bold(inputs, options):
    """Estimate an image for every trial of preprocessed BOLD runs."""
    events = events_of_runs(inputs.runs, options)
    runs = _open(_with_trials(inputs.runs, events), events, options)
    estimate = _block_means if options["estimate"] == "blocks" else _single_trials
    data, table, of_models, notes = estimate(runs, events, options)
    left_out = {
        run.label: n_volumes(image) - len(kept)
        for run, image, kept in zip(runs.runs, runs.images, runs.kept, strict=True)
        if kept is not None
    }
    echo = entities_of(runs.runs[0].path).get("echo")
    names = [n for each in runs.confounds if each is not None for n in each.columns]
    about = {
        "Estimate": options["estimate"],
        **of_models,
        "RepetitionTime": runs.t_r,
        "ScansPerRun": [n_volumes(image) for image in runs.images],
        "SliceTimeRef": runs.slice_time_ref,
        "SliceTimeRefFrom": runs.told_by,
        "HighPass": runs.high_pass or "by the cosines among the confounds",
        "Confounds": [*dict.fromkeys(names)],
        "ScansLeftOut": left_out,
        **({} if echo is None else {"Echo": echo}),
        "SmoothingFWHM": options["smoothing_fwhm"],
        **runs.mask.about,
    }
    notes = (*notes, *runs.mask.notes)
    if echo is not None:
        notes += (f"images of echo {echo} only, not combined with others",)
    if n := sum(left_out.values()):
        notes += (f"{counted(n, 'scan')} left out",)
    mask = runs.mask.image
    return TrialInputs.of(data, table, events, inputs.runs, about, notes, mask)


def count_bold(inputs, options):
    """The trials that `read_bold` would estimate images of, without these."""
    events = events_of_runs(inputs.runs, options)
    runs = _open(_with_trials(inputs.runs, events), events, options)
    if options["estimate"] == "blocks":
        blocks = _blocks(runs, events, options)
        tables = [table[np.any(scans, axis=1)] for _, table, scans in blocks]
        check_losses(events, options)
    else:
        _mark_without_scans(runs, events, options)
        kept = wanted(events)
        tables = [kept[kept[RUN] == run.label] for run in runs.runs]
    mask, table = runs.mask, pd.concat(tables)
    known = inputs.runs, mask.about, mask.notes, mask.image
    return TrialInputs.of(None, table, events, *known)


def _with_trials(runs, events):
    """The runs of which anything is to be decoded."""
    labels = set(wanted(events)[RUN])
    return tuple(run for run in runs if run.label in labels)


def _open(runs, events, options):
    """The `_Runs`, their data not yet read; events outside of them are marked."""
    images = load_runs(runs)
    opened = open_runs(images)
    headers = [opened.header_t_r(number) for number in range(len(images))]
    names, share = [run.path.name for run in runs], options["slice_time_ref"]
    told = list(map(_sidecar, runs))
    timing = t_r, *_ = find_timing(names, headers, told, slice_time_ref=share)
    for run, image in zip(runs, images, strict=True):
        onsets = events.loc[events[RUN] == run.label, "onset"]
        length = n_volumes(image) * t_r
        mark(events, onsets.index[onsets < 0], Fate.BEFORE)
        mark(events, onsets.index[onsets >= length], Fate.BEYOND)
        left = wanted(events.loc[onsets.index])
        missing = left["duration"].isna()
        if missing.any():
            n = counted(int(missing.sum()), "trial")
            raise ValueError(
                f"{run.events} has no duration of {n} to decode (the first at "
                f"{left.loc[missing, 'onset'].iloc[0]:g} s). Fill them in, or leave "
                "the trials out by --where."
            )
        check_lasting(left, run.events.name, length)
    check_losses(events, options)
    runs = _with_trials(every := runs, events)
    if len(runs) > 1 and "space" not in entities_of(runs[0].path):
        warn(
            "Runs are in the space of the scanner, where fMRIPrep aligns each of them "
            "to its own reference: a voxel may be at different places in the brain. "
            "Prefer images in another space, such as --space T1w."
        )
    images = [i for i, run in zip(images, every, strict=True) if run in runs]
    confounds = kept = [None] * len(runs)
    if strategy := _strategy(options):
        tuned = {name: options[name] for name in TUNES}
        paths = [run.path for run in runs]
        confounds, kept = read_fmriprep(paths, strategy, tuned, "--confounds")
    drifts = models_drifts(strategy)
    high_pass = None if drifts else options["high_pass"] or _HIGH_PASS
    mask = mask_of_runs(runs, "bold", images, options["mask_img"])
    return _Runs(runs, images, *timing, confounds, kept, high_pass, mask)


def _sidecar(run):
    """What the .json files of a run say, the nearest first, None for nothing."""
    told = [read_sidecar(path) for path in run.sidecars]
    return tuple(
        next((each[i] for each in told if each[i] is not None), None) for i in (0, 1)
    )


# --------------------------------------------------------------------- models of trials


def _single_trials(runs, events, options):
    """Estimates of single trials, their table, facts and notes."""
    _mark_without_scans(runs, events, options)
    labels = [run.label for run in runs.runs]
    events = events[events[RUN].isin(labels) & ~events[FATE].isin(_NOT_MODELLED)]
    of_interest = events[FATE].isna()
    types = events.get("trial_type", events[LABEL])
    # Without a type they are not modelled, as in nilearn, unless they are decoded.
    types = types.astype(object).where(types.notna() | ~of_interest, "n/a")
    types = types.where(types.isna(), types.astype(str))
    # Of a type that is decoded here and left out there, the latter need another name.
    both = types.isin(set(types[of_interest])) & ~of_interest
    events = events.assign(trial_type=types.where(~both, types + " (left out)"))
    drifts = {} if runs.high_pass is None else {"high_pass": runs.high_pass}
    tables = [table for _, table in events.drop(columns=FATE).groupby(RUN, sort=False)]
    for run, table in zip(runs.runs, tables, strict=True):
        table.attrs["file"] = run.events.name  # what messages call it
    betas = single_trial_betas(
        runs.images,
        tables,
        method=options["estimate"],
        conditions=sorted(set(types[of_interest])),
        t_r=runs.t_r,
        slice_time_ref=runs.slice_time_ref,
        drift_model="cosine" if drifts else None,
        **drifts,
        confounds=runs.confounds,
        sample_masks=runs.kept,
        mask_img=runs.mask.image,
        smoothing_fwhm=options["smoothing_fwhm"],
    )
    record = betas.record()
    about = {fact: record[x] for fact, x in OF_MODELS.items() if x in record}
    return betas.imgs, betas.table, about, ()


def _mark_without_scans(runs, events, options):
    """Mark events whose response no scan shows; refuse too many."""
    for number, run in enumerate(runs.runs):
        times, kept = runs.times(number)
        for row in wanted(events[events[RUN] == run.label]).itertuples():
            seen = times > row.onset
            seen &= times <= row.onset + row.duration + RESPONSE
            _mark_without(events, [row.Index], seen, kept)
    check_losses(events, options)


def _mark_without(events, rows, seen, kept):
    """Mark events without a scan.

    `seen` are the scans of their response, `kept` those that are not left out.
    """
    if not seen.any():
        mark(events, rows, Fate.BEYOND)
    elif not (seen & kept).any():
        mark(events, rows, Fate.SCRUBBED)


# ------------------------------------------------------------------------------- blocks


def _blocks(runs, events, options):
    """Yield the number of every run, its blocks, and which scans each one holds."""
    delay, gap = options["delay"], options["block_gap"]
    if gap is not None:
        gap = check_positive("block_gap", gap, " In seconds.", zero=True)
    if (n := len(wanted(events))) > MOST_VOLUMES:
        raise ValueError(
            f"{n:,} events to decode are more than the {MOST_VOLUMES:,} "
            "volumes that a NIfTI image can hold. Choose fewer by --where or --run."
        )
    for number, run in enumerate(runs.runs):
        own = wanted(events[events[RUN] == run.label])
        ends = own["onset"] + own["duration"]
        blocks, scans = join_events(own, gap), []
        times, kept = runs.times(number)
        for row in blocks.itertuples():
            start = row.onset + delay
            seen = (times >= start) & (times < start + row.duration)
            if not seen.any() and start <= times[-1]:
                raise ValueError(_word_no_scan(blocks, row, delay, gap))
            of_block = (own["onset"] >= row.onset) & (ends <= row.onset + row.duration)
            of_block &= own[LABEL] == getattr(row, LABEL)
            _mark_without(events, own.index[of_block], seen, kept)
            scans.append(seen & kept)
        yield number, blocks, scans


def _block_means(runs, events, options):
    """The mean of the scans of every block, their table, facts and notes.

    Drifts and confounds are taken out of a run first, its mean is kept.
    """
    delay, gap = options["delay"], options["block_gap"]
    means, tables = [], []
    for number, blocks, scans in _blocks(runs, events, options):
        values = _cleaned(runs, number, options["smoothing_fwhm"])
        means += [values[..., own].mean(axis=3) for own in scans if own.any()]
        tables.append(blocks[np.any(scans, axis=1)])
    check_losses(events, options)
    if not means:
        raise ValueError("No block is left. See --confounds and --delay.")
    table, n_events = pd.concat(tables), len(wanted(events))
    about = {"Delay": delay, "BlockGap": gap, "NumberOfEvents": n_events}
    notes = () if gap is None else (f"{len(table)} blocks of {n_events} events",)
    return on_grid(np.stack(means, axis=3), runs.images[0]), table, about, notes


def _cleaned(runs, number, smoothing_fwhm):
    """The data of a run (x, y, z, n_scans) without drifts and confounds."""
    image = runs.images[number]
    if smoothing_fwhm is not None:
        image = smooth_img(image, smoothing_fwhm)
    values, mask = np.asarray(image.dataobj, dtype=float), runs.mask.image
    there = np.asarray(mask.dataobj) != 0
    kept = np.flatnonzero(runs.times(number)[1])
    check_signal(values[there].T[kept], f"run {runs.runs[number].label}", kept)
    average = values.mean(axis=3, keepdims=True)
    cleaned = clean_img(
        image,
        detrend=True,
        standardize=None,
        confounds=runs.confounds[number],
        high_pass=runs.high_pass,
        t_r=runs.t_r,
        mask_img=mask,
    )
    return np.asarray(cleaned.dataobj) + average


def join_events(table, gap):
    """Blocks: events of one label that begin at most `gap` s after the last.

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


# ------------------------------------------------------------ images that are there


def read_series(inputs, options):
    """Read images that hold one volume per trial, with a table beside each."""
    images, tables = load_runs(inputs.runs), []
    for run, image in zip(inputs.runs, images, strict=True):
        table = read_events_tsv(run.events)
        if len(table) != n_volumes(image):
            raise ValueError(
                f"{run.events.name} has {counted(len(table), 'row')} for the "
                f"{counted(n_volumes(image), 'volume')} of {run.path.name}. There "
                "must be one row per volume."
            )
        tables.append(table)
    mask = mask_of_runs(inputs.runs, inputs.kind, images, options["mask_img"])
    data = concat_imgs(images) if len(images) > 1 else images[0]
    values = np.asarray(data.dataobj).reshape(-1, n_volumes(data))
    if mask.image is not None:
        values = values[np.asarray(mask.image.dataobj).ravel() != 0]
    flat = values.max(axis=0) == values.min(axis=0)
    events = events_of_data(tables, inputs.runs, flat, options)
    table = wanted(events)
    if "onset" in table:  # in time within each run, if it is known of all
        onsets = pd.to_numeric(table["onset"], errors="coerce")
        if not onsets.isna().any():
            table = table.iloc[np.lexsort([onsets, pd.factorize(table[RUN])[0]])]
    if not np.array_equal(table.index, range(len(events))):
        data = on_grid(np.asarray(data.dataobj)[..., table.index], data)
    about, runs = {"Estimate": "images", **mask.about}, inputs.runs
    return TrialInputs.of(data, table, events, runs, about, mask.notes, mask.image)


# ------------------------------------------------------------------------------- masks


def load_runs(runs):
    """The images of runs, which must be on one grid, their data not yet read."""
    names = [run.path.name for run in runs]
    images = [load_volume(run.path, run.path.name) for run in runs]
    mend = "Runs that are decoded together are on one grid; --run chooses some."
    return on_one_grid(images, names, mend)


def mask_of_runs(runs, kind, images, given):
    """The `Mask` of runs: the voxels given, else those in the brain in all."""
    if given is not None:
        image = _load(given, images[0])
        return Mask(image, {"MaskVoxels": _size(image), "MaskFrom": "--mask-img"})
    if not any(run.mask for run in runs):
        return _computed(runs, kind, images)
    if missing := [run.path.name for run in runs if run.mask is None]:
        warn(
            f"There is no brain mask of {', '.join(missing)}. The voxels are those in "
            "the masks of the other runs; use --mask-img to choose them."
        )
    masks = {run.label: _load(run.mask, images[0]) for run in runs if run.mask}
    return _intersection(masks, missing)


def _load(path, image):
    """A mask, and refuse one that is empty or on another grid, by name."""
    mask = load_3d(path, path.name)
    mend = "Set --mask-img to a mask on their grid."
    check_grid(mask, image, path.name, "the images", mend)
    if not (np.asarray(mask.dataobj) > 0).any():
        raise ValueError(
            f"{path} is empty: no voxel is in this mask. Set --mask-img to another one."
        )
    return on_grid(load_mask(mask, image, path.name)[0].astype(np.uint8), image)


def _size(mask):
    """The number of voxels in a mask."""
    return int(np.count_nonzero(np.asarray(mask.dataobj)))


def _computed(runs, kind, images):
    """The mask that nilearn computes of runs without any."""
    name = runs[0].path.name
    others = " and the other runs" if len(images) > 1 else ""
    warn(
        f"There is no brain mask of {name}{others}: nilearn computes one of the "
        "images. Use --mask-img to choose the voxels."
    )
    if kind == "images":  # of which a searchlight finds the background
        return Mask(None, {"MaskFrom": "computed by nilearn"})
    n = 0
    with warnings.catch_warnings(), suppress(ValueError):
        warnings.simplefilter("ignore")  # of empty masks, which are refused below
        image = compute_multi_epi_mask(images)
        n = _size(image)
    if n == 0:
        raise ValueError(
            f"nilearn finds no brain in {name}{others}. Use --mask-img to choose the "
            "voxels."
        )
    return Mask(image, {"MaskVoxels": n, "MaskFrom": "computed by nilearn"})


def _intersection(masks, missing):
    """The voxels that all masks have, and count those that only some have."""
    inside = [np.asarray(mask.dataobj) > 0 for mask in masks.values()]
    union = int(np.any(inside, axis=0).sum())
    image = intersect_masks([*masks.values()], threshold=1, connected=False)
    n = _size(image)
    if n == 0:
        raise ValueError(
            "No voxel is in the brain masks of all runs. Look at these masks; "
            "--mask-img or --run choose others."
        )
    lost = union - n
    sizes = {label: _size(mask) for label, mask in masks.items()}
    about = {"MaskVoxels": n, "MaskFrom": "brain masks of the runs"}
    about |= {"MaskVoxelsOfRuns": sizes, "MaskVoxelsNotInAllRuns": lost}
    if missing:
        about["RunsWithoutMask"] = missing
    if lost == 0:
        return Mask(image, about)
    share = lost / union
    if share > _MANY:
        smallest = min(sizes, key=sizes.get)
        warn(
            f"Only {n} of {union} voxels are in the brain masks of all runs; run "
            f"{smallest} has the smallest, of {sizes[smallest]}. The others "
            f"({share:.0%}) are left out. If that mask is wrong, leave the run out, or "
            "use --mask-img."
        )
    words = f"{lost} of {union} voxels left out, not in the masks of all runs"
    return Mask(image, about, (words,))
