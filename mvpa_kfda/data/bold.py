"""BOLD runs of volumes, surfaces or CIFTI files, and what is given for each of them.

A run is an image with one scan every `t_r` seconds. Each kind says in the same words
how long runs are, what their headers tell of time, where estimates are made, and what
an image of estimates is. Maskers are those of nilearn; CIFTI files need none.

Of the times of scans, what is given comes first, then the .json file of BIDS beside a
run, then its header. Where two of them say different things, there is a warning.

Events are tables with the columns of BIDS. Everything is given once for each run, in
the same order as the images. Regressors of no interest that fMRIPrep writes beside its
runs are read by nilearn.
"""

import inspect
import json
import re
from os import PathLike
from pathlib import Path

import nibabel
import numpy as np
import pandas as pd
from nibabel.cifti2 import SeriesAxis
from nilearn.interfaces.fmriprep import load_confounds
from nilearn.maskers import MultiNiftiMasker, NiftiMasker, SurfaceMasker
from nilearn.surface import SurfaceImage

from ..utils.advice import advice, described
from ..utils.checks import (
    all_items,
    check_count,
    check_positive,
    counted,
    name_items,
    plural,
    quoted,
    warn,
)
from . import volumes
from .cifti import cifti_space, load_ciftis
from .images import check_masker, is_masker, masked, read_table
from .space import cifti_image
from .tables import trimmed_table

#: Seconds in the units of a header.
_UNITS = {"sec": 1.0, "msec": 1e-3, "usec": 1e-6}
#: NIfTI-1, which images are saved as, counts volumes by 16 bits.
MOST_VOLUMES = 2**15 - 1
#: Fewer scans are no run.
_FEWEST = 3
#: Times and shares that differ by less are the same.
_SAME = 0.01
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


# ------------------------------------------------------------------------------- data


def open_runs(imgs):
    """Runs whose data are not yet read: volumes, surfaces or CIFTI files."""
    if isinstance(imgs, np.ndarray | pd.DataFrame):
        raise TypeError(
            "imgs must be the 4D image of a run, a list of these, or their paths; got "
            f"{described(imgs)}.{advice(imgs)}"
        )
    items = volumes.listed(imgs)
    return (CiftiRuns if volumes.is_cifti(items) else BoldRuns)(items)


class BoldRuns:
    """Runs of volumes or of surfaces, which maskers read; with a mask, a `space`."""

    def __init__(self, items):
        self._on_surface = volumes.is_surface(items)
        if self._on_surface:
            self.masker, self.most_images = SurfaceMasker, np.inf
            images, count = volumes.load_surfaces(items), volumes.n_maps
        else:
            self.masker, self.most_images = NiftiMasker, MOST_VOLUMES
            images, count = volumes.load_volumes(items), volumes.n_volumes
        self._keep(images, [*map(count, images)], 2 if self._on_surface else 4)

    def _keep(self, images, lengths, ndim=2):
        """Keep images, each of which must be scans."""
        self.names = name_items("imgs", images)
        for name, image, length in zip(self.names, images, lengths, strict=True):
            if len(image.shape) != ndim or length < _FEWEST:
                raise ValueError(
                    f"{name} has shape {image.shape}; a run must be a 4D image, or "
                    "2-D data, of scans. Join them by nilearn.image.concat_imgs."
                )
        self.images, self.lengths = images, lengths

    def header_t_r(self, number):
        """The seconds from scan to scan in a header, None if none are told."""
        header = getattr(self.images[number], "header", None)
        if not hasattr(header, "get_xyzt_units"):
            return None
        # Without a unit it is the 1 that a new image has.
        unit = _UNITS.get(header.get_xyzt_units()[1])
        value = float(header.get_zooms()[3])
        return round(unit * value, 6) if unit is not None and value > 0 else None

    def fit(self, mask_img, smoothing_fwhm):
        """Choose the positions: those of a mask, of a fitted masker, or all there are.

        Of volumes, all in the brain. A masker smooths by itself.
        """
        first, given = self.images[0], is_masker(mask_img)
        if given:
            check_masker(mask_img, self.masker)
        if smoothing_fwhm is not None and (given or self._on_surface):
            raise ValueError(
                "smoothing_fwhm is for volumes without a masker, which has one of its "
                "own; surfaces are smoothed before. Leave it out."
            )
        asked = {"standardize": None, "reports": False}
        if given:
            self._masker = mask_img
        elif self._on_surface:
            if mask_img is not None:
                mask = volumes.load_surface_mask(mask_img, first)
                mask_img = SurfaceImage(first.mesh, mask)
            self._masker = SurfaceMasker(mask_img, **asked).fit(first)
        else:
            if mask_img is None:  # where the masks of runs meet, as FirstLevelModel
                several = MultiNiftiMasker(mask_strategy="epi", **asked)
                mask_img = volumes.computed_mask(several, self.images)
            mask, _ = volumes.load_mask(mask_img, first)
            mask = volumes.on_grid(mask.astype(np.uint8), first)
            asked["smoothing_fwhm"] = smoothing_fwhm
            self._masker = NiftiMasker(mask, **asked).fit()
        self.mask_img = self._masker.mask_img_
        self.space = volumes.space_of_mask(self.mask_img)
        if not self._on_surface and not volumes.same_grid(self.mask_img, first):
            raise ValueError(
                "mask_img is a masker on another grid than imgs. Resample imgs first: "
                "nilearn.image.resample_to_img(imgs, mask_img.mask_img_)."
            )

    def read(self, number, kept, name):
        """Data (n_scans, n_positions) of a run, and which positions are finite."""
        image, mask = self.images[number], self.space.mask
        if self._on_surface:
            finite = self.check_finite(volumes.mask_surfaces([image], mask)[kept], name)
            filled = {p: volumes.finite(x) for p, x in image.data.parts.items()}
            image = SurfaceImage(image.mesh, filled)
        else:
            data = volumes.read(image, name)
            finite = self.check_finite(data[mask][:, kept].T, name)
            if data.dtype.kind == "f" and not np.isfinite(data).all():
                data = volumes.finite(data)  # as nilearn has it
            # The masker's affine: nilearn resamples where one was rounded otherwise.
            image = volumes.on_grid(data, self.mask_img)
        with volumes.nilearn_warnings():
            return self._masker.transform(image)[kept], finite

    def check_finite(self, values, name):
        """Which columns of scans (n_scans, n_positions) are finite, not none."""
        if not (finite := np.isfinite(values).all(axis=0)).any():
            raise ValueError(
                f"All {plural(self.space.noun)} of the mask hold NaN or infinite "
                f"values somewhere in {name}. Leave such scans or the run out."
            )
        return finite

    def to_imgs(self, values):
        """Estimates (n_trials, n_positions) as images."""
        with volumes.nilearn_warnings():
            image = self._masker.inverse_transform(values)
        if isinstance(image, nibabel.Nifti1Image):
            image.set_data_dtype(values.dtype)  # older nilearn would save as double
        return image


class CiftiRuns(BoldRuns):
    """Runs that are CIFTI files with the same columns, grayordinates or parcels."""

    most_images = np.inf

    def __init__(self, items):
        self._files = load_ciftis(items)
        lengths = [len(file.rows) for file in self._files]
        self._keep([file.image for file in self._files], lengths)
        for file, name in zip(self._files, self.names, strict=True):
            if not isinstance(file.rows, SeriesAxis):
                raise ValueError(
                    f"{name} is no time series; the rows of a run must be its scans, "
                    "as in .dtseries.nii and .ptseries.nii files."
                )

    def header_t_r(self, number):
        """The seconds from scan to scan in a header, None if none are told."""
        rows = self._files[number].rows
        return round(float(rows.step), 6) if rows.unit == "SECOND" else None

    def fit(self, mask_img, smoothing_fwhm):
        """Choose the columns: those of a mask, or all."""
        if smoothing_fwhm is not None:
            raise ValueError("smoothing_fwhm is for volumes; smooth CIFTI files first.")
        first, self.mask_img = self._files[0], None  # of parcels there are no masks
        space = cifti_space(first)
        self.space = space if mask_img is None else masked(space, mask_img)
        if self.space.kind != "parcels":
            row = self.space.mask[np.newaxis].astype(np.float32)
            self.mask_img = cifti_image(row, first.columns, ["mask"])

    def read(self, number, kept, name):
        """Data (n_scans, n_columns) of a run, and which columns are finite."""
        data = volumes.read(self.images[number], name)[kept][:, self.space.mask]
        data = data.astype(np.float64)
        return volumes.finite(data), self.check_finite(data, name)

    def to_imgs(self, values):
        """Estimates (n_trials, n_columns) as a CIFTI image of scalars."""
        data = np.zeros((len(values), len(self.space.mask)), values.dtype)
        data[:, self.space.mask] = values
        names = [f"trial {i + 1}" for i in range(len(data))]
        return cifti_image(data, self._files[0].columns, names)


# ------------------------------------------------------------------------------- time


def is_number(value):
    """Whether a value is a number, and neither true nor false."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def sidecar_beside(item):
    """What the .json file beside a run says, as `read_sidecar`."""
    if isinstance(item, str | PathLike):
        path = Path(item).expanduser()
        # Of CIFTI files both ..._bold.dtseries.json and ..._bold.json are in use.
        whole = re.sub(r"\.nii(\.gz)?$", "", path.name)
        for stem in (whole, path.name.partition(".")[0]):
            if (sidecar := path.with_name(f"{stem}.json")).is_file():
                return read_sidecar(sidecar)
    return None, None


def read_sidecar(path):
    """RepetitionTime and StartTime of a .json file in seconds, or None."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ValueError(f"{path} cannot be read ({error.strerror}).") from error
    except ValueError as error:  # also of bytes that are no text
        raise ValueError(f"{path} is no JSON file: {error}.") from error
    if not isinstance(content, dict):
        raise ValueError(f"{path} holds no names with values, as those of BIDS do.")
    names = "RepetitionTime", "StartTime"
    for name in names:
        value = content.get(name, 0.0)
        if not is_number(value) or not 0 <= value < float("inf"):
            word = repr(value) if isinstance(value, str) else json.dumps(value)
            raise ValueError(
                f"{path}: {name} is {word}, but must be a number of seconds. Correct "
                "it, or take it out of the file."
            )
    t_r, start = (float(content[n]) if n in content else None for n in names)
    if t_r == 0 or (t_r is not None and start is not None and start > t_r):
        told = "" if start is None else f", and StartTime within a scan {start:g} s"
        raise ValueError(f"{path}: RepetitionTime is {t_r:g} s{told}. Correct it.")
    return t_r, start


def find_timing(names, headers, sidecars, t_r=None, slice_time_ref=None):
    """The seconds from scan to scan of runs, their slice time, and who tells it.

    The slice time is when in a scan its slices are, from 0 to 1, as "given", by the
    "StartTime" of files, or by "default". `names` are those in messages, `headers` has
    the seconds from scan to scan of each run, or None, and `sidecars` what
    `read_sidecar` returns. What is given as `t_r` and `slice_time_ref` is taken in any
    case.
    """
    in_files, starts = zip(*sidecars, strict=True)
    t_r = _find_t_r(names, headers, in_files, t_r)
    known = [start / t_r for start in starts if start is not None]
    if slice_time_ref is not None:
        if other := [share for share in known if abs(share - slice_time_ref) > _SAME]:
            warn(
                f"slice_time_ref={slice_time_ref:g}, but by the StartTime in the .json "
                f"file of a run {other[0]:g}. The first is used."
            )
        return t_r, slice_time_ref, "given"
    if not known:
        warn(
            "slice_time_ref is not given, and no .json file of the runs has a "
            "StartTime: the start of each scan is taken as its time "
            "(slice_time_ref=0). If slice timing was corrected, pass the reference "
            "time as a fraction of a scan, by default 0.5 with fMRIPrep; if it was "
            "not, pass 0."
        )
        return t_r, 0.0, "default"
    if len(known) < len(starts) or max(known) - min(known) > _SAME or max(known) > 1:
        told = sorted({"none" if start is None else f"{start:g} s" for start in starts})
        raise ValueError(
            f"The .json files of the runs, of {t_r:g} s from scan to scan, agree on no "
            f"slice time: StartTime is {', '.join(told)}. Pass slice_time_ref."
        )
    return t_r, known[0], "StartTime"


def _find_t_r(names, headers, in_files, given):
    """The seconds from scan to scan; warn where somebody says another number."""
    if given is None:
        told = [y if x is None else x for x, y in zip(in_files, headers, strict=True)]
        if None in told:
            raise ValueError(
                "t_r is not given, and not all headers of imgs tell it in seconds, nor "
                ".json files beside them. Pass t_r, the seconds from scan to scan "
                "(RepetitionTime in the .json file of BIDS)."
            )
        if max(told) > 1.001 * min(told):
            raise ValueError(
                "The headers or .json files of imgs tell different times from scan to "
                f"scan, from {min(told):g} to {max(told):g} s. Use runs of one t_r."
            )
        given = told[0]
    for what, values in (("the .json file", in_files), ("the header", headers)):
        for name, value in zip(names, values, strict=True):
            if value is not None and abs(value - given) > _SAME * given:
                warn(f"t_r={given:g} is used, but {what} of {name} says {value:g} s.")
                return given
    return given


# --------------------------------------------------------------- what is given for runs


def given_of_runs(imgs, n, events, confounds, sample_masks):
    """Lists of what is given for n runs, each with what to call it in messages.

    Files must be of the run.
    """
    given = {"events": events, "confounds": confounds, "sample_masks": sample_masks}
    for name, value in given.items():
        items = value if isinstance(value, list | tuple) else [value]
        items = [None] * n if value is None else volumes.expand_paths(items, name)
        if len(items) != n:
            cut = " Cut a table of several runs: [t for _, t in events.groupby('run')]."
            raise ValueError(
                f"imgs holds {counted(n, 'run')} but {name} "
                f"{counted(len(items), 'item')}. Pass a list with one for each run, in "
                f"the same order.{cut if len(items) == 1 and name == 'events' else ''}"
            )
        for image, item in zip(volumes.listed(imgs), items, strict=True):
            _check_same_run(image, item, name)
        given[name] = list(zip(items, name_items(name, items), strict=True))
    return given


def _check_same_run(image, item, name):
    """Refuse files whose names, in the manner of BIDS, say that runs differ."""
    if not all(isinstance(value, str | PathLike) for value in (image, item)):
        return
    files = [Path(value).name for value in (image, item)]
    pattern = r"(?:^|_)([a-z]+)-([a-zA-Z0-9]+)"
    one, other = (dict(re.findall(pattern, file)) for file in files)
    for part in _ENTITIES:
        here, there = one.get(part), other.get(part)
        if here and there and here.lstrip("0") != there.lstrip("0"):
            raise ValueError(
                f"{files[0]} is of {part}-{here}, but {files[1]} of {part}-{there}. "
                f"List imgs and {name} in the same order."
            )


def read_events(item, name):
    """A table of events in the order of their onsets, checked."""
    if not isinstance(item, str | PathLike | pd.DataFrame):
        raise TypeError(
            f"{name} must be a DataFrame or a path; got {type(item).__name__}."
        )
    table = trimmed_table(read_table(item, "events")).reset_index(drop=True)
    missing = [column for column in COLUMNS if column not in table.columns]
    if missing or len(table) == 0:
        raise ValueError(
            f"{name} has no {f'column {quoted(missing)}' if missing else 'rows'}; it "
            f"has {quoted(table.columns)}. It needs {quoted(COLUMNS)}, in seconds."
        )
    if n := int(table["trial_type"].isna().sum()):
        without = f"{counted(n, 'event')} without a trial_type (n/a)"
        warn(f"{name}: {without} {'is' if n == 1 else 'are'} not modelled.")
        table = table.dropna(subset="trial_type")
    in_file = not isinstance(item, pd.DataFrame)
    for column in ("onset", "duration", *({"modulation"} & {*table.columns})):
        table = table.assign(**{column: _seconds(table[column], name, in_file)})
    table = table.sort_values("onset", kind="stable", ignore_index=True)
    types = table["trial_type"]
    if types.dtype.kind == "f" and (types == types.round()).all():
        table["trial_type"] = types.astype(int)  # whole numbers beside an n/a
    return table


def _seconds(column, name, in_file):
    """A column as numbers, by name; its index holds the numbers of rows.

    Durations must not be negative. Rows are counted as lines of a file, or from 0.
    """
    values = pd.to_numeric(column, errors="coerce").astype(float)
    wrong = ~np.isfinite(values) | ((values < 0) & (column.name == "duration"))
    if wrong.any():
        row, value = wrong.idxmax(), column[wrong].iloc[0]
        value = "n/a" if in_file and pd.isna(value) else str(value)
        place = f"line {row + 2}" if in_file else f"row {row} (counted from 0)"
        raise ValueError(
            f"{name}: {column.name} is {value!r} in {place}, and wrong in {sum(wrong)} "
            f"of {len(values)} rows. Fill in seconds, durations from 0, or drop rows."
        )
    return values


def check_lasting(table, name, length):
    """Refuse events that last longer than the whole run, as milliseconds would."""
    if len(long := table[table["duration"] > length]):
        first = long.iloc[0]
        raise ValueError(
            f"{name}: the event at {first['onset']:g} s lasts {first['duration']:g} s, "
            f"but the whole run {length:g} s ({counted(len(long), 'such event')} of "
            f"{len(table)}). Durations are in seconds; correct the table."
        )


def check_signal(data, name, scans):
    """Refuse a run with many scans (n_scans, n_places) of which all places are equal.

    `scans` are their numbers. Of few there is a warning.
    """
    empty = np.flatnonzero(data.max(axis=1) == data.min(axis=1))
    if data.shape[1] < 2 or len(empty) == 0:
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
    types = [table["trial_type"].astype(str) for table in tables]
    known = sorted(set().union(*types))
    if isinstance(conditions, str | int) or not np.iterable(conditions):
        conditions = known if conditions is None else [conditions]
    names = [str(name) for name in all_items("conditions", conditions)]
    unknown = [name for name in names if name not in known]
    if unknown or (known and not names):
        raise ValueError(
            f"conditions names {quoted(unknown) or 'nothing'}, which no trial_type is. "
            f"The types are: {quoted(known, 20)}."
        )
    return [each.isin(names).to_numpy() for each in types]


def check_trials(trials, name, length):
    """Refuse trials of a run that cannot be estimated."""
    if len(trials) == 0:
        raise ValueError(f"{name} holds no trials of interest. Leave the run out.")
    onsets = trials["onset"].to_numpy()
    if len(outside := onsets[(onsets < 0) | (onsets >= length)]):
        raise ValueError(
            f"{name} lasts from 0 to {length:g} s, and does not contain "
            f"{counted(len(outside), 'trial')} (the first: onset {outside[0]:g} s). "
            "Drop them from events, or from conditions."
        )
    if len(twice := onsets[trials.duplicated(["onset", "duration"])]):
        raise ValueError(
            f"{name}: two trials have the onset {twice[0]:g} s and the same duration "
            f"({counted(len(twice), 'such pair')}), and cannot be distinguished. Drop "
            "one, or name the types of interest as conditions."
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
            f"{counted(sum(zero), 'trial')} of {len(zero)} with a duration of 0: the "
            "estimate of an impulse has another unit. Use durations above 0, or only 0."
        )
    if zero.any():
        warn(
            "All trials have a duration of 0, and are modelled as impulses, as nilearn "
            "does. Their estimates are in a different unit."
        )
    ends = (trials["onset"] + trials["duration"]).groupby(trials["run"], sort=False)
    before = ends.shift().to_numpy()
    if n_early := np.count_nonzero(trials["onset"].to_numpy() < before - 1e-6):
        warn(
            f"{counted(n_early, 'trial')} of {len(trials)} began before the previous "
            "one had ended; their overlapping responses cannot be separated."
        )


def table_of_trials(tables, is_trial):
    """The table of all trials."""
    parts, first = [], ["run", *COLUMNS]
    for table, marked, name in zip(tables, is_trial, name_runs(tables), strict=True):
        trials = table[marked].drop(columns="run", errors="ignore").assign(run=name)
        parts.append(trials[[*first, *trials.columns.difference(first, sort=False)]])
    return pd.concat(parts, ignore_index=True)


def name_runs(tables):
    """What to call every run in the table: 1, 2, ... or the events' own name."""
    if not any("run" in table.columns for table in tables):
        return list(range(1, len(tables) + 1))
    names = [t["run"].unique().tolist() if "run" in t.columns else [] for t in tables]
    firsts = [name[0] for name in names if len(name) == 1]
    if len(set(firsts)) < len(tables):
        raise ValueError(
            "The column 'run' of events must have one value in each table, another in "
            f"each run; got {quoted(names)}. Or drop it."
        )
    return firsts


def read_bold_confounds(item, name, n_scans):
    """Regressors of no interest that are given for a run, or None."""
    if item is None:
        return None
    if isinstance(item, str | PathLike):
        item = read_table(item, "confounds")
    elif isinstance(item, np.ndarray) and item.ndim == 2:
        item = pd.DataFrame(item).add_prefix("confound_")
    if not isinstance(item, pd.DataFrame):
        raise TypeError(
            f"{name} must be a DataFrame, a 2-D array or the path of a .tsv or .csv "
            f"file; got {type(item).__name__}. Of what nilearn's load_confounds "
            "returns, pass the first as confounds and the second as sample_masks."
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
    if (broken := ~np.isfinite(values).all()).any():
        raise ValueError(
            f"{name} holds NaN or infinite values in {broken.sum()} of "
            f"{counted(len(broken), 'column')}: {quoted(values.columns[broken], 5)}. "
            "Fill the gaps, as nilearn's load_confounds does, or choose other columns."
        )
    return values.rename(columns=str).reset_index(drop=True)


def warn_of_drifts_twice(confounds, drift_model):
    """Warn of fMRIPrep's drifts among confounds, where drifts are modelled anyway."""
    names = {n for table in confounds if table is not None for n in table}
    cosines = sorted(name for name in names if name.startswith("cosine"))
    if cosines and drift_model is not None:
        warn(
            f"Drifts are modelled twice: by drift_model={drift_model!r} and confounds, "
            f"{quoted(cosines, 2)} of fMRIPrep. Pass drift_model=None, or drop these."
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
            f"{name} must hold the numbers of the scans to keep, rising, from 0 to "
            f"{n_scans - 1}; got {item!r}."
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
    """What is given to tune a strategy; refuse what is for parts that are not in it.

    The option `flag` gives the strategy.
    """
    tuned = {name: value for name, value in tuned.items() if value is not None}
    for name, value in tuned.items():
        if TUNES[name] not in strategy:
            raise ValueError(
                f"{name}={value!r} is for {flag} {TUNES[name]}: add that, or drop it."
            )
        if name == "n_compcor":
            check_count(name, value, 1)
        else:
            check_positive(name, value)
    return tuned


def read_fmriprep(paths, strategy, tuned, flag):
    """Regressors and the scans to keep (None: all) of each run.

    `tuned` are arguments of `load_confounds`, None for its defaults, and `flag` is the
    option by which the strategy was given.
    """
    tuned = check_tuned(strategy, tuned, flag)
    drifts = (_DRIFTS,) if models_drifts(strategy) and _DRIFTS not in strategy else ()
    complete, confounds, kept = (*strategy, *drifts), [], []
    for path in paths:
        # nilearn looks at the name alone, and knows that of compressed files that
        # fMRIPrep wrote. The same confounds are of what others made of these.
        name = str(path) + (".gz" if str(path).endswith("_bold.nii") else "")
        if "ica_aroma" not in strategy:  # which is of runs that AROMA has denoised
            name = re.sub(r"_desc-[a-zA-Z0-9]+(?=_bold\.nii)", "_desc-preproc", name)
        try:
            table, scans = load_confounds(name, complete, **tuned)
        except (KeyError, TypeError, ValueError, OSError) as error:
            words = " ".join(str(error).split())
            if isinstance(error, KeyError):
                words = f"they have no column {words}"
            elif isinstance(error, TypeError):  # of arithmetic with texts
                words = f"they hold a text where there must be a number: {words}"
            raise ValueError(
                f"{path.name}: nilearn finds no confounds {quoted(strategy)} of "
                f"fMRIPrep ({words}). Choose others with {flag}, or correct the table."
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
