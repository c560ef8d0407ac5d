"""BOLD runs and what is known of them, read and checked: events, confounds, scans.

A run is an image with one scan every `t_r` seconds; events are tables with the columns
of BIDS. Everything is given once for each run, in the same order. Maskers are those of
nilearn.
"""

import re
from os import PathLike, fspath
from pathlib import Path

import numpy as np
import pandas as pd
from nilearn.maskers import MultiNiftiMasker, NiftiMasker, SurfaceMasker
from nilearn.surface import SurfaceImage

from ..utils.advice import advice, described
from ..utils.checks import all_items, counted, expand_pattern, quoted, warn
from .images import check_masker, is_masker, read_table
from .volumes import (
    NilearnWarnings,
    is_surface,
    listed,
    load_mask,
    load_surface_mask,
    load_surfaces,
    load_volume,
    load_volumes,
    mask_surfaces,
    n_maps,
    n_volumes,
    on_grid,
    read,
    same_grid,
)

#: The columns that events must have.
COLUMNS = ("onset", "duration", "trial_type")

#: Parts of file names by which runs are told apart.
_ENTITIES = ("sub", "ses", "task", "acq", "run")
#: Seconds in the units of a header.
_UNITS = {"sec": 1.0, "msec": 1e-3, "usec": 1e-6}


def read_runs(imgs):
    """Return BOLD runs as images that are not yet read, and whether on surfaces."""
    if isinstance(imgs, np.ndarray | pd.DataFrame):
        raise TypeError(
            "imgs must be the 4D image of a run, a list of these, or their paths; got "
            f"{described(imgs)}.{advice(imgs)}"
        )
    items = listed(imgs)
    if is_surface(items):
        runs, ndim, length = load_surfaces(items), 2, n_maps
    else:
        runs = [load_volume(item, f"imgs[{i}]") for i, item in enumerate(items)]
        ndim, length = 4, n_volumes
    for number, run in enumerate(runs):
        if len(run.shape) != ndim or length(run) < 3:
            raise ValueError(
                f"imgs[{number}] has shape {run.shape}; a run must be a 4D image (on "
                "surfaces 2-D data) with a scan every t_r seconds. If imgs are the "
                "scans of one run, join them: nilearn.image.concat_imgs(imgs)."
            )
    if ndim == 4:
        load_volumes(runs)  # refuses other grids
    return runs, ndim == 2


def given_of_runs(imgs, images, events, confounds, sample_masks):
    """Return lists of what is given for every run, whose files must be of that run."""
    n = len(images)
    given = {"events": _as_runs(events, n, "events")}
    for name, value in (("confounds", confounds), ("sample_masks", sample_masks)):
        given[name] = [None] * n if value is None else _as_runs(value, n, name)
    items = listed(imgs)
    for name in ("events", "confounds"):
        for number, item in enumerate(given[name]):
            _check_same_run(items[number], item, number, name)
    return given


def _as_runs(given, n_runs, name):
    """Return a list with what is given for every run."""
    if isinstance(given, str | PathLike):
        given = expand_pattern(given, f" in {name}")
    elif not isinstance(given, list | tuple):
        given = [given]
    items = []
    for item in given:
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
            f"{counted(len(items), 'item')}. Give a list with one for each run, in the "
            f"same order.{hint}"
        )
    return items


def _check_same_run(image, item, number, name):
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
                f"imgs[{number}] is of {entity}-{values[0]} and {name}[{number}] of "
                f"{entity}-{values[1]}: {Path(image).name}, {Path(item).name}. Give "
                "both in the same order."
            )


def find_t_r(runs, t_r):
    """Return the seconds from scan to scan, which headers tell if nobody else."""
    told = {i: t for i, run in enumerate(runs) if (t := _header_t_r(run)) is not None}
    if t_r is None:
        if len(told) < len(runs):
            raise ValueError(
                "t_r is not given, and not all headers of imgs tell it in seconds. "
                "Give t_r, the seconds from scan to scan (RepetitionTime in the .json "
                "file of BIDS)."
            )
        if max(told.values()) > 1.001 * min(told.values()):
            raise ValueError(
                f"The headers of imgs tell different times from scan to scan, from "
                f"{min(told.values()):g} to {max(told.values()):g} s. Estimate runs of "
                "one t_r at a time."
            )
        return told[0]
    for number, value in told.items():
        if not 0.99 * t_r <= value <= 1.01 * t_r:
            warn(
                f"t_r={t_r:g}, but the header of imgs[{number}] says {value:g} s. The "
                "first is used."
            )
            break
    return t_r


def _header_t_r(run):
    """Return the seconds from scan to scan in a header, None if none are told."""
    header = getattr(run, "header", None)
    if not hasattr(header, "get_xyzt_units"):
        return None
    # Without a unit it is the 1 that a new image has.
    unit = _UNITS.get(header.get_xyzt_units()[1])
    value = float(header.get_zooms()[3])
    return round(unit * value, 6) if unit is not None and value > 0 else None


def read_events(item, number):
    """Return a table of events in the order of their onsets, and check it."""
    name = f"events[{number}]"
    if not isinstance(item, str | PathLike | pd.DataFrame):
        raise TypeError(
            f"{name} must be a DataFrame or the path of an events.tsv file; got "
            f"{type(item).__name__}."
        )
    table = read_table(item, name).reset_index(drop=True)
    missing = [column for column in COLUMNS if column not in table.columns]
    if missing or len(table) == 0:
        what = f"no column {quoted(missing)}" if missing else "no rows"
        raise ValueError(
            f"{name} has {what}. It needs the columns {quoted(COLUMNS)}, onsets and "
            f"durations in seconds; it has {quoted(table.columns.tolist())}."
        )
    unnamed = table["trial_type"].isna()
    if n := int(unnamed.sum()):
        verb = "is" if n == 1 else "are"
        warn(
            f"{name}: {counted(n, 'event')} without a trial_type (n/a) {verb} not "
            "modelled."
        )
        table = table[~unnamed].reset_index(drop=True)
    for column in ("onset", "duration", *({"modulation"} & {*table.columns})):
        values = pd.to_numeric(table[column], errors="coerce").astype(float)
        wrong = ~np.isfinite(values.to_numpy())
        if column == "duration":
            wrong |= values.to_numpy() < 0
        if wrong.any():
            row = int(np.flatnonzero(wrong)[0])
            raise ValueError(
                f"{name}: {column} is {str(table[column].iloc[row])!r} in row {row} "
                f"(counted from 0), and wrong in {wrong.sum()} of {len(table)} rows. "
                "It must be a number of seconds, durations not negative; drop these "
                "rows, or fill in the values."
            )
        table[column] = values
    table = table.sort_values("onset", kind="stable", ignore_index=True)
    types = table["trial_type"]
    if types.dtype.kind == "f" and (types == types.round()).all():
        table["trial_type"] = types.astype(int)  # whole numbers beside an n/a
    return table


def mark_trials(tables, conditions):
    """Return which events of every table are trials of interest."""
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
            f"{name} lasts from 0 to {length:g} s, and does not hold "
            f"{counted(int(outside.sum()), 'trial')} (the first: onset "
            f"{onsets[outside][0]:g} s). Drop them from events, or give them a "
            "trial_type that is not in conditions. Onsets are in seconds, from the "
            "first scan of the image."
        )
    twice = trials.duplicated(["onset", "duration"]).to_numpy()
    if twice.any():
        raise ValueError(
            f"{name}: two trials have the onset {onsets[twice][0]:g} s and the same "
            f"duration ({counted(int(twice.sum()), 'such pair')}), and cannot be told "
            "apart. Drop one, or name the types of interest as conditions."
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
            "another unit. Give all trials durations above 0, or 0 to all."
        )
    if zero.any():
        warn(
            "All trials have a duration of 0, and are modelled as impulses, as nilearn "
            "does. Their estimates have a unit of their own."
        )
    ends = (trials["onset"] + trials["duration"]).groupby(trials["run"], sort=False)
    before = ends.shift().to_numpy()
    n_early = np.count_nonzero(trials["onset"].to_numpy() < before - 1e-6)
    if n_early:
        warn(
            f"When {counted(n_early, 'trial')} of {len(trials)} began, the one before "
            "had not ended. What they share cannot be told apart."
        )


def table_of_trials(tables, is_trial):
    """Return the table of all trials."""
    parts = []
    for table, marked, name in zip(tables, is_trial, _name_runs(tables), strict=True):
        trials = table[marked].drop(columns="run", errors="ignore")
        rest = [column for column in trials.columns if column not in COLUMNS]
        trials = trials[[*COLUMNS, *rest]]
        trials.insert(0, "run", name)
        parts.append(trials)
    return pd.concat(parts, ignore_index=True)


def _name_runs(tables):
    """Return what to call every run in the table: 1, 2, ... or the events' own name."""
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


def read_bold_confounds(item, number, n_scans):
    """Return regressors of no interest that are given for a run, or None."""
    if item is None:
        return None
    name = f"confounds[{number}]"
    hint = (
        "What nilearn.interfaces.fmriprep.load_confounds returns are two things: give "
        "the first as confounds and the second as sample_masks."
    )
    if isinstance(item, str | PathLike):
        item = read_table(item, name)
    elif isinstance(item, np.ndarray) and item.ndim == 2:
        item = pd.DataFrame(
            item, columns=[f"confound_{i}" for i in range(item.shape[1])]
        )
    if not isinstance(item, pd.DataFrame):
        raise TypeError(
            f"{name} must be a DataFrame, a 2-D array or the path of a .tsv or .csv "
            f"file; got {type(item).__name__}. {hint}"
        )
    if len(item) != n_scans:
        raise ValueError(
            f"{name} has {counted(len(item), 'row')}, but the run has {n_scans} scans. "
            "Give one row for each scan."
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
            "Choose and fill columns; for those of fMRIPrep "
            "nilearn.interfaces.fmriprep.load_confounds does both."
        )
    return values.rename(columns=str).reset_index(drop=True)


def check_sample_mask(item, number, n_scans):
    """Return the scans that are kept, as an index."""
    if item is None:
        return slice(None)
    kept = np.asarray(item)
    if kept.dtype == bool and kept.shape == (n_scans,):
        kept = np.flatnonzero(kept)
    whole = kept.ndim == 1 and kept.dtype.kind in "iu" and len(kept) > 0
    if (
        not whole
        or kept.min() < 0
        or kept.max() >= n_scans
        or (np.diff(kept) <= 0).any()
    ):
        raise ValueError(
            f"sample_masks[{number}] must hold the numbers of the scans to keep, "
            f"rising, from 0 to {n_scans - 1}; got {item!r}."
        )
    return kept


def fit_masker(runs, surface, mask_img, smoothing_fwhm):
    """Return a fitted masker of nilearn: the one given, or one with its settings."""
    if is_masker(mask_img):
        check_masker(mask_img, SurfaceMasker if surface else NiftiMasker)
        if smoothing_fwhm is not None:
            raise ValueError(
                "smoothing_fwhm is given beside a masker, which has one of its own. "
                "Leave one out."
            )
        if not surface and not same_grid(mask_img.mask_img_, runs[0]):
            raise ValueError(
                "mask_img is a masker on another grid than imgs. Resample imgs first: "
                "nilearn.image.resample_to_img(imgs, mask_img.mask_img_)."
            )
        return mask_img
    if surface:
        if smoothing_fwhm is not None:
            raise ValueError(
                "smoothing_fwhm is for volumes; surfaces are smoothed before. Leave "
                "it out."
            )
        if mask_img is not None:
            mask = load_surface_mask(mask_img, runs[0])
            mask_img = SurfaceImage(runs[0].mesh, mask)
        return SurfaceMasker(mask_img, standardize=None, reports=False).fit(runs[0])
    if mask_img is None:
        # As FirstLevelModel: the intersection of the runs' masks.
        masker = MultiNiftiMasker(
            mask_strategy="epi", standardize=None, reports=False, verbose=0
        )
        try:
            with NilearnWarnings():
                mask_img = masker.fit(runs).mask_img_
        except ValueError as error:
            raise ValueError(
                f"nilearn finds no mask in imgs: {error} Give mask_img, a 3D image of "
                "the voxels to use."
            ) from error
    mask = load_mask(mask_img, runs[0])[0]
    return NiftiMasker(
        on_grid(mask.astype(np.uint8), runs[0]),
        smoothing_fwhm=smoothing_fwhm,
        standardize=None,
        reports=False,
    ).fit()


def read_bold(image, masker, kept, name):
    """Return data (n_scans, n_voxels) by the masker, and which voxels are finite."""
    if isinstance(image, SurfaceImage):
        parts = masker.mask_img_.data.parts
        mask = {part: np.asarray(data, bool).ravel() for part, data in parts.items()}
        finite = np.isfinite(mask_surfaces([image], mask)[kept]).all(axis=0)
        filled = {
            p: np.nan_to_num(x, posinf=0, neginf=0) for p, x in image.data.parts.items()
        }
        image = SurfaceImage(image.mesh, filled)
    else:
        mask = np.asarray(masker.mask_img_.dataobj) != 0
        data = read(image, name)
        finite = np.isfinite(data[mask][:, kept]).all(axis=1)
        if data.dtype.kind == "f" and not np.isfinite(data).all():
            data = np.nan_to_num(data, posinf=0, neginf=0)  # as nilearn has them
        image = on_grid(data, image)
    if not finite.any():
        raise ValueError(
            f"All voxels of the mask hold NaN or infinite values somewhere in "
            f"{name}. Look at its scans; sample_masks leaves some out."
        )
    with NilearnWarnings():
        return masker.transform(image)[kept], finite
