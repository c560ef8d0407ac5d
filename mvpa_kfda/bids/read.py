"""What is decoded of one subject: its trials, their table, labels and runs.

Events are tables with one row per trial. All runs are read as one table, so that an
expression such as ``rt > rt.median()`` means the same in each.
"""

import json
from dataclasses import dataclass, replace
from pathlib import Path

import mne
import numpy as np
import pandas as pd
from nilearn.image import clean_img, concat_imgs, load_img
from nilearn.interfaces.fmriprep import load_confounds
from nilearn.masking import intersect_masks

from ..data.betas import single_trial_betas
from ..data.bold import find_t_r
from ..data.volumes import n_volumes, on_grid
from ..utils.checks import counted, quoted
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


def read_trials(unit, options):
    """Return the `Trials` of a unit."""
    return READERS[unit.kind](unit, options)


def files_of(unit, options):
    """Return all files that the trials of a unit are read from."""
    files = set()
    for each in unit.recordings:
        files.add(each.path)
        stem = each.path.name.rpartition("_")[0]
        if unit.kind == "bold":
            stem = stem.partition("_space-")[0].partition("_desc-")[0]
        elif unit.kind == "images":
            stem = each.path.name.removesuffix(".nii.gz")
        if unit.kind != "epochs":  # events, channels, masks, confounds, further parts
            files.update(each.path.parent.glob(f"{stem}_*"))
            files.update(each.path.parent.glob(f"{stem}.*"))
        else:
            files.update(each.path.parent.glob(f"{stem}*_epo-*.fif"))
        events = find_beside(each, options["bids_dir"], "events.tsv")
        files.update({events} - {None})
    return sorted(path for path in files if path.is_file())


# -------------------------------------------------------------------- labels of trials


def read_events_tsv(path):
    """Return a table of events."""
    try:
        # Unlike pandas by itself, a condition may be called "None" or "NA".
        table = pd.read_csv(path, sep="\t", keep_default_na=False, na_values=_MISSING)
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
        values = table.eval(expression, engine="python")
    except Exception as error:  # pandas, its parser and the expression raise anything
        raise ValueError(
            f"{flag} {expression!r} is no column of the events, and no expression that "
            f"pandas understands for them ({type(error).__name__}: {error}). The "
            f"columns are: {quoted(map(str, table.columns), 30)}."
        ) from error
    if not isinstance(values, pd.Series):
        raise ValueError(f"{flag} {expression!r} is not one value for each event.")
    return values


def _events_of_runs(unit, options):
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
        table = table[table["onset"].notna()]
        if "trial_type" in table:
            words = table["trial_type"].astype(str).str.lower()
            table = table[~words.str.startswith(_NO_EVENTS)]
        tables.append(table.assign(**{RUN: label}))
    table = pd.concat(tables, ignore_index=True)
    table[LABEL] = label_events(table, options["by"], options["where"])
    return table


def _groups(runs):
    """Return runs as groups, None if there is one alone."""
    runs = np.asarray(runs)
    return runs.astype(str) if len(set(runs.tolist())) > 1 else None


def _plain_labels(table):
    """Return a table whose labels are of one plain type."""
    return table.assign(**{LABEL: table[LABEL].infer_objects()})


# -------------------------------------------------------------------------- EEG and MEG


def _read_epochs(unit, options):
    """Read epochs that were cut before."""
    _refuse_options(
        options,
        ("high_pass", "low_pass", "baseline", "reject"),
        "is for raw recordings, and these are epochs already",
    )
    parts, tables = [], []
    for label, each in zip(unit.runs, unit.recordings, strict=True):
        epochs = _load_epochs(each.path)
        names = {number: name for name, number in epochs.event_id.items()}
        table = epochs.metadata
        table = pd.DataFrame(index=range(len(epochs))) if table is None else table
        table = table.reset_index(drop=True)
        if "trial_type" not in table:
            table["trial_type"] = [names[number] for number in epochs.events[:, 2]]
        if len(unit.recordings) > 1 or RUN not in table:
            table[RUN] = label
        epochs.metadata = None  # of other columns, perhaps, than the next run's
        parts.append(epochs)
        tables.append(table)
    epochs = _joined(parts)
    table = pd.concat(tables, ignore_index=True)
    table[LABEL] = label_events(table, options["by"], options["where"])
    kept = np.flatnonzero(table[LABEL].notna())
    epochs = epochs[kept]
    if options["tmin"] is not None or options["tmax"] is not None:
        epochs.load_data().crop(options["tmin"], options["tmax"])
    return _of_epochs(epochs, table.iloc[kept])


def _load_epochs(path):
    """Read a file of epochs, with one kind of error for all that is wrong with it."""
    try:
        return mne.read_epochs(path, verbose="error")
    except Exception as error:  # a reader of foreign bytes fails in many ways
        raise ValueError(
            f"{path} is not a file of epochs that MNE-Python can read ({error})."
        ) from error


def _of_epochs(epochs, table):
    """Return the `Trials` of epochs and their table."""
    table = _plain_labels(table.reset_index(drop=True))
    epochs.metadata = table
    return Trials(epochs, table, _groups(table[RUN]))


def _joined(parts):
    """Return the epochs of all runs; a channel that is bad in one is bad."""
    if len(parts) == 1:
        return parts[0]
    bads = sorted({name for part in parts for name in part.info["bads"]})
    for part in parts:
        part.load_data()
        part.info["bads"] = [name for name in bads if name in part.ch_names]
    return mne.concatenate_epochs(parts, on_mismatch="warn", verbose="error")


def _read_raw(unit, options):
    """Cut raw recordings into epochs around the events to decode."""
    read_raw_bids, path_of = _mne_bids()
    events = _events_of_runs(unit, options)
    types = events.get("trial_type", events[LABEL]).astype(str)
    numbers = {name: i for i, name in enumerate(sorted(types.unique()), 1)}
    parts, tables = [], []
    for label, each in zip(unit.runs, unit.recordings, strict=True):
        of_run = events[(events[RUN] == label) & events[LABEL].notna()]
        if len(of_run) == 0:
            continue
        raw = read_raw_bids(path_of(each.path, check=False), verbose="error")
        raw.load_data()
        if options["high_pass"] is not None or options["low_pass"] is not None:
            raw.filter(options["high_pass"], options["low_pass"], verbose="error")
        parts.append(_cut(raw, of_run, types[of_run.index], numbers, options))
        tables.append(of_run.iloc[parts[-1].selection])
        if len(parts[-1]) == 0:
            parts.pop(), tables.pop()
    if not parts:
        raise ValueError(
            "No epoch is left: all are rejected, or outside of the recordings. See "
            "--reject, --tmin and --tmax."
        )
    return _of_epochs(_joined(parts), pd.concat(tables))


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
    baseline = options["baseline"]
    return mne.Epochs(
        raw,
        events,
        {name: numbers[name] for name in sorted(types.unique())},
        -0.2 if tmin is None else tmin,
        0.5 if tmax is None else tmax,
        baseline=_baseline(baseline),
        reject=_rejection(options["reject"]),
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


def _mne_bids():
    """Return what reads raw recordings."""
    try:
        from mne_bids import get_bids_path_from_fname, read_raw_bids
    except ImportError:
        raise ValueError(
            "Raw recordings are read by MNE-BIDS, which is not installed: "
            'pip install "mvpa-kfda[bids]"'
        ) from None
    return read_raw_bids, get_bids_path_from_fname


def _refuse_options(options, names, why):
    """Refuse options that would have no effect."""
    for name in names:
        if options[name] is not None:
            raise ValueError(f"--{name.replace('_', '-')} {why}. Leave it out.")


# --------------------------------------------------------------------------------- fMRI


def _read_bold(unit, options):
    """Estimate an image for every trial of preprocessed BOLD runs."""
    events = _events_of_runs(unit, options)
    events, unit = _without_empty_runs(events, unit)
    images = [load_img(each.path) for each in unit.recordings]
    t_r, share = _timing(unit, images)
    confounds, kept = _confounds(unit, options["confounds"])
    mask = _mask(unit, options["mask_img"])
    estimate = _block_means if options["estimate"] == "blocks" else _single_trials
    data, table = estimate(images, events, t_r, share, confounds, kept, mask, options)
    table = _plain_labels(table.reset_index(drop=True))
    return Trials(data, table, _groups(table[RUN]), mask)


def _without_empty_runs(events, unit):
    """Return events and unit without the runs of which nothing is decoded."""
    runs = events.loc[events[LABEL].notna(), RUN].unique()
    recordings = [
        each
        for label, each in zip(unit.runs, unit.recordings, strict=True)
        if label in runs
    ]
    return events[events[RUN].isin(runs)], replace(unit, recordings=tuple(recordings))


def _single_trials(images, events, t_r, share, confounds, kept, mask, options):
    """Return estimates of single trials, and their table."""
    of_interest = events[LABEL].notna()
    types = events.get("trial_type", events[LABEL])
    # Without a type they are not modelled, as in nilearn, unless they are decoded.
    types = types.astype(object).where(types.notna() | ~of_interest, "n/a")
    types = types.where(types.isna(), types.astype(str))
    # Of a type that is decoded here and left out there, the latter need another name.
    both = types.isin(set(types[of_interest])) & ~of_interest
    events = events.assign(trial_type=types.where(~both, types + " (left out)"))
    runs = [table for _, table in events.groupby(RUN, sort=False)]
    betas = single_trial_betas(
        images,
        runs,
        method=options["estimate"],
        conditions=sorted(set(types[of_interest])),
        t_r=t_r,
        slice_time_ref=share,
        high_pass=0.01 if options["high_pass"] is None else options["high_pass"],
        confounds=confounds,
        sample_masks=kept,
        mask_img=mask,
        smoothing_fwhm=options["smoothing_fwhm"],
    )
    return betas.imgs, betas.table


def _block_means(images, events, t_r, share, confounds, kept, mask, options):
    """Return the mean of the scans of every block, and the table of blocks.

    Drifts and confounds are taken out of a run first, its mean is kept.
    """
    means, tables, delay = [], [], options["delay"]
    runs = events.groupby(RUN, sort=False)
    for image, (run, table), own, scans in zip(
        images, runs, confounds or [None] * len(images), kept, strict=True
    ):
        if options["smoothing_fwhm"] is not None:
            from nilearn.image import smooth_img

            image = smooth_img(image, options["smoothing_fwhm"])
        n = n_volumes(image)
        times = (np.arange(n) + share) * t_r
        average = np.asarray(image.dataobj, dtype=float).mean(axis=3, keepdims=True)
        cleaned = clean_img(
            image,
            detrend=True,
            standardize=None,
            confounds=own,
            high_pass=0.01 if options["high_pass"] is None else options["high_pass"],
            t_r=t_r,
            mask_img=mask,
        )
        values = np.asarray(cleaned.dataobj) + average
        there = np.isin(np.arange(n), np.arange(n) if scans is None else scans)
        table = table[table[LABEL].notna()].sort_values("onset", kind="stable")
        for row in table.itertuples():
            inside = (times >= row.onset + delay) & there
            inside &= times < row.onset + row.duration + delay
            if not inside.any():
                raise ValueError(
                    f"The block at {row.onset:g} s of run {run} holds no scan, "
                    f"{delay:g} s later. See --delay, and the durations in its "
                    "events.tsv."
                )
            means.append(values[..., inside].mean(axis=3))
        tables.append(table)
    return on_grid(np.stack(means, axis=3), images[0]), pd.concat(tables)


def _timing(unit, images):
    """Return the seconds from scan to scan, and where in a scan its slices are."""
    found = []
    for each, image in zip(unit.recordings, images, strict=True):
        sidecar = find_beside(each, each.root, "bold.json", [("desc", "preproc")])
        own = each.path.with_name(each.path.name.removesuffix(".nii.gz") + ".json")
        sidecar = own if own.is_file() else sidecar
        content = json.loads(sidecar.read_text()) if sidecar else {}
        t_r = content.get("RepetitionTime") or find_t_r([image], None)
        found.append((t_r, content.get("StartTime", 0.0) / t_r))
    if len(set(found)) > 1:
        raise ValueError(
            f"{unit.name}: runs differ in RepetitionTime or StartTime. Decode those "
            "that agree, chosen with --run or --session."
        )
    return found[0]


def _confounds(unit, strategy):
    """Return regressors of no interest and the scans to keep, for each run."""
    n = len(unit.recordings)
    strategy = ["motion"] if strategy is None else strategy
    if strategy == ["none"]:
        return None, [None] * n
    confounds, kept = [], []
    for each in unit.recordings:
        try:
            table, scans = load_confounds(str(each.path), strategy=tuple(strategy))
        except (ValueError, OSError, KeyError) as error:  # KeyError: a column
            raise ValueError(
                f"{each.path.name}: nilearn finds no confounds {quoted(strategy)} of "
                f"fMRIPrep ({' '.join(str(error).split())}). Choose others with "
                "--confounds, or --confounds none."
            ) from error
        confounds.append(table)
        kept.append(scans)
    return confounds, kept


def _mask(unit, given):
    """Return the voxels to decode: those given, else those in the brain in all runs."""
    if given is not None:
        return load_img(given)
    masks = []
    for each in unit.recordings:
        also = [("desc", "brain")]
        path = find_beside(each, each.root, "mask.nii.gz", also)
        if path is not None:
            masks.append(load_img(path))
    if not masks:
        return None
    return intersect_masks(masks, threshold=1, connected=False)


def _read_images(unit, options):
    """Read images that hold one volume per trial, with a table beside each."""
    images = [load_img(each.path) for each in unit.recordings]
    tables = []
    for label, each, image in zip(unit.runs, unit.recordings, images, strict=True):
        stem = each.path.name.removesuffix(".nii.gz")
        path = each.path.with_name(f"{stem}.tsv")
        if not path.is_file():
            path = find_beside(each, each.root, "events.tsv")
        if path is None:
            raise ValueError(
                f"{each.path.name} has no table of its volumes: there is no {stem}.tsv "
                "beside it."
            )
        table = read_events_tsv(path)
        if len(table) != n_volumes(image):
            raise ValueError(
                f"{path.name} has {counted(len(table), 'row')} for the "
                f"{counted(n_volumes(image), 'volume')} of {each.path.name}. There "
                "must be one row per volume."
            )
        if len(unit.recordings) > 1 or RUN not in table:
            table[RUN] = label
        tables.append(table)
    table = pd.concat(tables, ignore_index=True)
    table[LABEL] = label_events(table, options["by"], options["where"])
    kept = np.flatnonzero(table[LABEL].notna())
    data = concat_imgs(images) if len(images) > 1 else images[0]
    if len(kept) < len(table):
        data = on_grid(np.asarray(data.dataobj)[..., kept], data)
    table = _plain_labels(table.iloc[kept].reset_index(drop=True))
    return Trials(data, table, _groups(table[RUN]), _mask_beside(unit, options))


def _mask_beside(unit, options):
    """Return the mask of images of single trials, if there is one."""
    paths = [
        each.path.with_name(each.path.name.replace(".nii.gz", "_mask.nii.gz"))
        for each in unit.recordings
    ]
    if options["mask_img"] is None and all(map(Path.is_file, paths)):
        return intersect_masks([load_img(path) for path in paths], 1, False)
    return _mask(unit, options["mask_img"])


#: Kinds of recordings -> what reads their trials.
READERS = {
    "epochs": _read_epochs,
    "raw": _read_raw,
    "bold": _read_bold,
    "images": _read_images,
}
