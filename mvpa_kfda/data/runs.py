"""BOLD runs of volumes, surfaces or CIFTI files: when scans were taken, and their data.

A run is an image with one scan every `t_r` seconds. Each kind says in the same words
how long runs are, what their headers tell of time, where estimates are made, and what
an image of estimates is. Maskers are those of nilearn; CIFTI files need none.

Of the times of scans, what is given comes first, then the .json file of BIDS beside a
run, then its header. Where two of them say different things, there is a warning.
"""

import json
import re
from dataclasses import dataclass
from os import PathLike
from pathlib import Path

import numpy as np
import pandas as pd
from nibabel.cifti2 import ParcelsAxis, SeriesAxis
from nilearn.maskers import MultiNiftiMasker, NiftiMasker, SurfaceMasker
from nilearn.surface import SurfaceImage

from ..utils.advice import advice, described
from ..utils.checks import name_items, plural, warn
from .cifti import is_cifti, load_cifti_mask, load_ciftis
from .images import check_masker, is_masker
from .space import cifti_image
from .volumes import (
    NilearnWarnings,
    is_surface,
    listed,
    load_mask,
    load_surface_mask,
    load_surfaces,
    load_volume,
    mask_surfaces,
    n_maps,
    n_volumes,
    on_grid,
    on_one_grid,
    read,
    same_grid,
)

#: Seconds in the units of a header.
_UNITS = {"sec": 1.0, "msec": 1e-3, "usec": 1e-6}
#: Fewer scans are no run.
_FEWEST = 3
#: Times and shares that differ by less are the same.
_SAME = 0.01


# ------------------------------------------------------------------------------- data


def open_runs(imgs):
    """Return runs whose data are not yet read: volumes, surfaces or CIFTI files."""
    if isinstance(imgs, np.ndarray | pd.DataFrame):
        raise TypeError(
            "imgs must be the 4D image of a run, a list of these, or their paths; got "
            f"{described(imgs)}.{advice(imgs)}"
        )
    items = listed(imgs)
    if is_cifti(items):
        return CiftiRuns(items)
    return (SurfaceRuns if is_surface(items) else VolumeRuns)(items)


class _Runs:
    """Runs with scans of one shape."""

    most_images = np.inf

    def __init__(self, images, lengths, ndim):
        names = name_items("imgs", images)
        for name, image, length in zip(names, images, lengths, strict=True):
            if len(image.shape) != ndim or length < _FEWEST:
                raise ValueError(
                    f"{name} has shape {image.shape}; a run must be a 4D "
                    "image (on surfaces and in CIFTI files 2-D data) with a scan every "
                    "t_r seconds. If imgs are the scans of one run, join them: "
                    "nilearn.image.concat_imgs(imgs)."
                )
        self.images, self.lengths = images, lengths

    def header_t_r(self, number):
        """The seconds from scan to scan in a header, None if none are told."""

    def check_finite(self, values, name):
        """Which columns of scans (n_scans, n_positions) are finite, not none."""
        finite = np.isfinite(values).all(axis=0)
        if not finite.any():
            raise ValueError(
                f"All {plural(self.noun)} of the mask hold NaN or infinite values "
                f"somewhere in {name}. Look at its scans, and leave such scans or the "
                "run out."
            )
        return finite

    def take_masker(self, masker, wanted, smoothing_fwhm):
        """Take a fitted masker, which smooths by itself."""
        check_masker(masker, wanted)
        if smoothing_fwhm is not None:
            raise ValueError(
                "smoothing_fwhm is given beside a masker, which has one of its own. "
                "Leave one out."
            )
        self._masker = masker

    def refuse_smoothing(self, smoothing_fwhm):
        """Refuse to smooth what is no volume."""
        if smoothing_fwhm is not None:
            raise ValueError(
                "smoothing_fwhm is for volumes; surfaces are smoothed before. Leave it "
                "out."
            )


class VolumeRuns(_Runs):
    """Runs that are 4D images on one grid."""

    noun = "voxel"
    #: NIfTI-1, which images are saved as, counts volumes by 16 bits.
    most_images = 2**15 - 1

    def __init__(self, items):
        names = name_items("imgs", items)
        images = [load_volume(*each) for each in zip(items, names, strict=True)]
        super().__init__(images, [n_volumes(image) for image in images], 4)
        mend = "Resample it first, by nilearn.image.resample_to_img."
        self.images = on_one_grid(images, names, mend)

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
        """Choose the voxels: those of a mask, of a fitted masker, or that it finds."""
        first = self.images[0]
        if is_masker(mask_img):
            self.take_masker(mask_img, NiftiMasker, smoothing_fwhm)
            if not same_grid(mask_img.mask_img_, first):
                raise ValueError(
                    "mask_img is a masker on another grid than imgs. Resample imgs "
                    "first: nilearn.image.resample_to_img(imgs, mask_img.mask_img_)."
                )
        else:
            mask, _ = load_mask(self._brain() if mask_img is None else mask_img, first)
            self._masker = NiftiMasker(
                on_grid(mask.astype(np.uint8), first),
                smoothing_fwhm=smoothing_fwhm,
                standardize=None,
                reports=False,
            ).fit()
        self.mask_img = self._masker.mask_img_
        self._mask = np.asarray(self.mask_img.dataobj) != 0
        self.n_positions, self.n_places = np.count_nonzero(self._mask), self._mask.size

    def _brain(self):
        """The intersection of the runs' masks, as a FirstLevelModel takes it."""
        masker = MultiNiftiMasker(
            mask_strategy="epi", standardize=None, reports=False, verbose=0
        )
        try:
            with NilearnWarnings():
                mask_img = masker.fit(self.images).mask_img_
        except ValueError as error:
            raise ValueError(
                f"nilearn finds no mask in imgs: {error} Pass mask_img, a 3D image of "
                "the voxels to use."
            ) from error
        if not np.any(mask_img.dataobj):
            raise ValueError(
                "nilearn finds no brain in imgs: the mask that it computes of them "
                "is empty. Look at the images, or pass mask_img."
            )
        return mask_img

    def read(self, number, kept, name):
        """Return data (n_scans, n_voxels) of a run, and which voxels are finite."""
        data = read(self.images[number], name)
        finite = self.check_finite(data[self._mask][:, kept].T, name)
        if data.dtype.kind == "f" and not np.isfinite(data).all():
            data = np.nan_to_num(data, posinf=0, neginf=0)  # as nilearn has them
        with NilearnWarnings():
            # The masker's affine: nilearn resamples where one was rounded otherwise.
            image = on_grid(data, self.mask_img)
            return self._masker.transform(image)[kept], finite

    def to_imgs(self, values):
        """Return estimates (n_trials, n_voxels) as a 4D image."""
        with NilearnWarnings():
            image = self._masker.inverse_transform(values)
        image.set_data_dtype(values.dtype)  # older nilearn would write single as double
        return image


class SurfaceRuns(_Runs):
    """Runs that are surface images on one mesh."""

    noun = "vertex"

    def __init__(self, items):
        images = load_surfaces(items)
        super().__init__(images, [n_maps(image) for image in images], 2)

    def fit(self, mask_img, smoothing_fwhm):
        """Choose the vertices: those of a mask, of a fitted masker, or all."""
        first = self.images[0]
        if is_masker(mask_img):
            self.take_masker(mask_img, SurfaceMasker, smoothing_fwhm)
        else:
            self.refuse_smoothing(smoothing_fwhm)
            if mask_img is not None:
                mask = load_surface_mask(mask_img, first)
                mask_img = SurfaceImage(first.mesh, mask)
            masker = SurfaceMasker(mask_img, standardize=None, reports=False)
            self._masker = masker.fit(first)
        self.mask_img = self._masker.mask_img_
        parts = self.mask_img.data.parts
        self._mask = {part: np.asarray(x, bool).ravel() for part, x in parts.items()}
        self.n_positions = sum(map(np.count_nonzero, self._mask.values()))
        self.n_places = sum(x.size for x in self._mask.values())

    def read(self, number, kept, name):
        """Return data (n_scans, n_vertices) of a run, and which vertices are finite."""
        image = self.images[number]
        finite = self.check_finite(mask_surfaces([image], self._mask)[kept], name)
        filled = {
            p: np.nan_to_num(x, posinf=0, neginf=0) for p, x in image.data.parts.items()
        }
        with NilearnWarnings():
            data = self._masker.transform(SurfaceImage(image.mesh, filled))
        return data[kept], finite

    def to_imgs(self, values):
        """Return estimates (n_trials, n_vertices) as a surface image."""
        with NilearnWarnings():
            return self._masker.inverse_transform(values)


class CiftiRuns(_Runs):
    """Runs that are CIFTI files with the same columns, grayordinates or parcels."""

    def __init__(self, items):
        self._files = load_ciftis(items)
        images = [file.image for file in self._files]
        names = name_items("imgs", images)
        for file, name in zip(self._files, names, strict=True):
            if not isinstance(file.rows, SeriesAxis):
                raise ValueError(
                    f"{name} is no time series; the rows of a run must be its "
                    "scans, as in .dtseries.nii and .ptseries.nii files."
                )
        super().__init__(images, [len(file.rows) for file in self._files], 2)
        self._parcels = isinstance(self._files[0].columns, ParcelsAxis)
        self.noun = "parcel" if self._parcels else "grayordinate"

    def header_t_r(self, number):
        """The seconds from scan to scan in a header, None if none are told."""
        rows = self._files[number].rows
        return round(float(rows.step), 6) if rows.unit == "SECOND" else None

    def fit(self, mask_img, smoothing_fwhm):
        """Choose the columns: those of a mask, or all."""
        if is_masker(mask_img):
            raise TypeError(
                f"mask_img is a {type(mask_img).__name__}, which knows no CIFTI files. "
                "Pass a .dscalar.nii of zeros and ones, or None."
            )
        self.refuse_smoothing(smoothing_fwhm)
        first = self._files[0]
        self._mask = np.ones(len(first.columns), bool)
        if mask_img is not None:
            self._mask = load_cifti_mask(mask_img, first.columns)
        self.mask_img = None  # of parcels there are no masks
        if not self._parcels:
            row = self._mask[np.newaxis].astype(np.float32)
            self.mask_img = cifti_image(row, first.columns, ["mask"])
        self.n_positions, self.n_places = np.count_nonzero(self._mask), self._mask.size

    def read(self, number, kept, name):
        """Return data (n_scans, n_columns) of a run, and which columns are finite."""
        data = read(self.images[number], name)[kept][:, self._mask].astype(np.float64)
        return np.nan_to_num(data, posinf=0, neginf=0), self.check_finite(data, name)

    def to_imgs(self, values):
        """Return estimates (n_trials, n_columns) as a CIFTI image of scalars."""
        data = np.zeros((len(values), len(self._mask)), values.dtype)
        data[:, self._mask] = values
        names = [f"trial {i + 1}" for i in range(len(data))]
        return cifti_image(data, self._files[0].columns, names)


# ------------------------------------------------------------------------------- time


@dataclass(frozen=True)
class Timing:
    """When the scans of all runs were taken."""

    t_r: float  #: seconds from scan to scan
    slice_time_ref: float  #: when in a scan its slices are, from 0 to 1
    told_by: str  #: who says the latter: "given", "StartTime" or "default"


def sidecar_beside(item):
    """What the .json file beside a run says, as `read_sidecar`."""
    if isinstance(item, str | PathLike):
        path = Path(item).expanduser()
        # Of CIFTI files both ..._bold.dtseries.json and ..._bold.json are in use.
        whole = re.sub(r"\.nii(\.gz)?$", "", path.name)
        for stem in (whole, path.name.partition(".")[0]):
            sidecar = path.with_name(f"{stem}.json")
            if sidecar.is_file():
                return read_sidecar(sidecar)
    return None, None


def read_sidecar(path):
    """Return RepetitionTime and StartTime of a .json file in seconds, or None."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ValueError(f"{path} cannot be read ({error.strerror}).") from error
    except ValueError as error:  # also of bytes that are no text
        raise ValueError(f"{path} is no JSON file: {error}.") from error
    if not isinstance(content, dict):
        raise ValueError(
            f"{path} holds no names with values, as the .json files of BIDS do."
        )
    times = []
    for name in ("RepetitionTime", "StartTime"):
        value = content.get(name, 0.0)
        number = isinstance(value, int | float) and not isinstance(value, bool)
        if not number or not 0 <= value < float("inf"):
            word = repr(value) if isinstance(value, str) else json.dumps(value)
            raise ValueError(
                f"{path}: {name} is {word}, but must be a number of seconds. "
                "Correct it, or take it out of the file."
            )
        times.append(float(value) if name in content else None)
    t_r, start = times
    if t_r == 0 or (t_r is not None and start is not None and start > t_r):
        raise ValueError(
            f"{path}: RepetitionTime is {t_r:g} s"
            + ("" if start is None else f" and StartTime {start:g} s")
            + ". The first is the time from scan to scan, the second the reference "
            "time of the slices within a scan; correct the file."
        )
    return t_r, start


def find_timing(names, headers, sidecars, t_r=None, slice_time_ref=None):
    """The `Timing` of runs.

    `names` are those in messages, `headers` has the seconds from scan to scan of each
    run, or None, and `sidecars` what `read_sidecar` returns. What is given as `t_r` and
    `slice_time_ref` is taken in any case.
    """
    in_files, starts = zip(*sidecars, strict=True)
    t_r = _find_t_r(names, headers, in_files, t_r)
    known = [start / t_r for start in starts if start is not None]
    if slice_time_ref is not None:
        other = [share for share in known if abs(share - slice_time_ref) > _SAME]
        if other:
            warn(
                f"slice_time_ref={slice_time_ref:g}, but by the StartTime in its .json "
                f"file a run has {other[0]:g}. The first is used."
            )
        return Timing(t_r, slice_time_ref, "given")
    if not known:
        warn(
            "slice_time_ref is not given, and no .json file of the runs has a "
            "StartTime: the start of each scan is taken as its time "
            "(slice_time_ref=0). If slice timing was corrected, pass the reference "
            "time as a fraction of a scan, by default 0.5 with fMRIPrep; if it "
            "was not, pass 0."
        )
        return Timing(t_r, 0.0, "default")
    if len(known) < len(starts) or max(known) - min(known) > _SAME or max(known) > 1:
        told = sorted({"none" if start is None else f"{start:g} s" for start in starts})
        raise ValueError(
            f"The .json files of the runs have no common reference time of "
            f"slices: with {t_r:g} s from scan to scan, StartTime is "
            f"{', '.join(told)}. Pass slice_time_ref, or use runs that agree."
        )
    return Timing(t_r, known[0], "StartTime")


def _find_t_r(names, headers, in_files, given):
    """Return the seconds from scan to scan; warn where somebody says another number."""
    if given is None:
        pairs = zip(in_files, headers, strict=True)
        told = [header if value is None else value for value, header in pairs]
        if None in told:
            raise ValueError(
                "t_r is not given, and not all headers of imgs tell it in seconds, nor "
                ".json files beside them. Pass t_r, the seconds from scan to scan "
                "(RepetitionTime in the .json file of BIDS)."
            )
        if max(told) > 1.001 * min(told):
            raise ValueError(
                "The headers or .json files of imgs tell different times from scan to "
                f"scan, from {min(told):g} to {max(told):g} s. Estimate runs of one "
                "t_r at a time."
            )
        given = told[0]
    for what, values in (("the .json file", in_files), ("the header", headers)):
        for name, value in zip(names, values, strict=True):
            if value is not None and abs(value - given) > _SAME * given:
                warn(
                    f"t_r={given:g}, but {what} of {name} says {value:g} s. The first "
                    "is used."
                )
                return given
    return given
