"""BOLD runs of volumes, surfaces or CIFTI files: opened, masked, and read run by run.

A run is an image with one scan every `t_r` seconds. Each kind says in the same words
how long runs are, what their headers tell of time, where estimates are made, and what
an image of estimates is. Maskers are those of nilearn; CIFTI files need none.
"""

import numpy as np
import pandas as pd
from nibabel.cifti2 import ParcelsAxis, SeriesAxis
from nilearn.maskers import MultiNiftiMasker, NiftiMasker, SurfaceMasker
from nilearn.surface import SurfaceImage

from ..utils.advice import advice, described
from ..utils.checks import name_items, plural
from .cifti import is_cifti, load_cifti_mask, load_ciftis, with_rows
from .images import check_masker, is_masker
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


class VolumeRuns:
    """Runs that are 4D images on one grid."""

    noun = "voxel"
    #: NIfTI-1, which images are saved as, counts volumes by 16 bits.
    most_images = 2**15 - 1

    def __init__(self, items):
        names = name_items("imgs", items)
        images = [load_volume(*each) for each in zip(items, names, strict=True)]
        self.lengths = [n_volumes(image) for image in images]
        _check_runs(images, self.lengths, 4)
        mend = "Resample it first, by nilearn.image.resample_to_img."
        self.images = on_one_grid(images, names, mend)

    def header_t_r(self, number):
        """Return the seconds from scan to scan in a header, None if none are told."""
        header = getattr(self.images[number], "header", None)
        if not hasattr(header, "get_xyzt_units"):
            return None
        # Without a unit it is the 1 that a new image has.
        unit = _UNITS.get(header.get_xyzt_units()[1])
        value = float(header.get_zooms()[3])
        return round(unit * value, 6) if unit is not None and value > 0 else None

    def fit(self, mask_img, smoothing_fwhm):
        """Choose the voxels: those of a mask, of a fitted masker, or that it finds."""
        self._masker = self._make_masker(mask_img, smoothing_fwhm)
        self.mask_img = self._masker.mask_img_
        self._mask = np.asarray(self.mask_img.dataobj) != 0
        self.n_positions = np.count_nonzero(self._mask)
        self.n_places = self._mask.size

    def _make_masker(self, mask_img, smoothing_fwhm):
        """Return a fitted masker of nilearn, the one given or another."""
        first = self.images[0]
        if is_masker(mask_img):
            check_masker(mask_img, NiftiMasker)
            _check_smoothed_once(smoothing_fwhm)
            if not same_grid(mask_img.mask_img_, first):
                raise ValueError(
                    "mask_img is a masker on another grid than imgs. Resample imgs "
                    "first: nilearn.image.resample_to_img(imgs, mask_img.mask_img_)."
                )
            return mask_img
        if mask_img is None:
            mask_img = self._brain()
            if not np.any(mask_img.dataobj):
                raise ValueError(
                    "nilearn finds no brain in imgs: the mask that it computes of them "
                    "is empty. Look at the images, or pass mask_img."
                )
        mask = load_mask(mask_img, first)[0]
        return NiftiMasker(
            on_grid(mask.astype(np.uint8), first),
            smoothing_fwhm=smoothing_fwhm,
            standardize=None,
            reports=False,
        ).fit()

    def _brain(self):
        """Return the intersection of the runs' masks, as a FirstLevelModel takes it."""
        masker = MultiNiftiMasker(
            mask_strategy="epi", standardize=None, reports=False, verbose=0
        )
        try:
            with NilearnWarnings():
                return masker.fit(self.images).mask_img_
        except ValueError as error:
            raise ValueError(
                f"nilearn finds no mask in imgs: {error} Pass mask_img, a 3D image of "
                "the voxels to use."
            ) from error

    def read(self, number, kept, name):
        """Return data (n_scans, n_voxels) of a run, and which voxels are finite."""
        image = self.images[number]
        data = read(image, name)
        finite = np.isfinite(data[self._mask][:, kept]).all(axis=1)
        if data.dtype.kind == "f" and not np.isfinite(data).all():
            data = np.nan_to_num(data, posinf=0, neginf=0)  # as nilearn has them
        _check_finite(finite, self.noun, name)
        with NilearnWarnings():
            # The masker's affine: nilearn resamples where one was rounded otherwise.
            image = on_grid(data, self.mask_img)
            return self._masker.transform(image)[kept], finite

    def to_imgs(self, values):
        """Return estimates (n_trials, n_voxels) as a 4D image."""
        with NilearnWarnings():
            made = self._masker.inverse_transform(values)
        made.set_data_dtype(values.dtype)  # older nilearn would write single as double
        return made


class SurfaceRuns:
    """Runs that are surface images on one mesh."""

    noun = "vertex"
    most_images = np.inf

    def __init__(self, items):
        self.images = load_surfaces(items)
        self.lengths = [n_maps(image) for image in self.images]
        _check_runs(self.images, self.lengths, 2)

    def header_t_r(self, number):
        """Return None: surface images tell nothing of time."""

    def fit(self, mask_img, smoothing_fwhm):
        """Choose the vertices: those of a mask, of a fitted masker, or all."""
        first = self.images[0]
        if is_masker(mask_img):
            check_masker(mask_img, SurfaceMasker)
            _check_smoothed_once(smoothing_fwhm)
            self._masker = mask_img
        else:
            _refuse_smoothing(smoothing_fwhm)
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
        finite = np.isfinite(mask_surfaces([image], self._mask)[kept]).all(axis=0)
        _check_finite(finite, self.noun, name)
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


class CiftiRuns:
    """Runs that are CIFTI files with the same columns, grayordinates or parcels."""

    most_images = np.inf

    def __init__(self, items):
        self._files = load_ciftis(items)
        self.images = [file.image for file in self._files]
        self.lengths = [len(file.rows) for file in self._files]
        names = name_items("imgs", self.images)
        for file, name in zip(self._files, names, strict=True):
            if not isinstance(file.rows, SeriesAxis):
                raise ValueError(
                    f"{name} is no time series; the rows of a run must be its "
                    "scans, as in .dtseries.nii and .ptseries.nii files."
                )
        _check_runs(self.images, self.lengths, 2)
        self._parcels = isinstance(self._files[0].columns, ParcelsAxis)
        self.noun = "parcel" if self._parcels else "grayordinate"

    def header_t_r(self, number):
        """Return the seconds from scan to scan in a header, None if none are told."""
        rows = self._files[number].rows
        return round(float(rows.step), 6) if rows.unit == "SECOND" else None

    def fit(self, mask_img, smoothing_fwhm):
        """Choose the columns: those of a mask, or all."""
        if is_masker(mask_img):
            raise TypeError(
                f"mask_img is a {type(mask_img).__name__}, which knows no CIFTI files. "
                "Pass a .dscalar.nii of zeros and ones, or None."
            )
        _refuse_smoothing(smoothing_fwhm)
        first = self._files[0]
        self._mask = np.ones(len(first.columns), bool)
        if mask_img is not None:
            self._mask = load_cifti_mask(mask_img, first.columns)
        self.mask_img = None  # of parcels there are no masks
        if not self._parcels:
            row = self._mask[np.newaxis].astype(np.float32)
            self.mask_img = with_rows(row, first, ["mask"])
        self.n_positions = np.count_nonzero(self._mask)
        self.n_places = self._mask.size

    def read(self, number, kept, name):
        """Return data (n_scans, n_columns) of a run, and which columns are finite."""
        data = read(self.images[number], name)[kept][:, self._mask].astype(np.float64)
        finite = np.isfinite(data).all(axis=0)
        _check_finite(finite, self.noun, name)
        return np.nan_to_num(data, posinf=0, neginf=0), finite

    def to_imgs(self, values):
        """Return estimates (n_trials, n_columns) as a CIFTI image of scalars."""
        data = np.zeros((len(values), len(self._mask)), values.dtype)
        data[:, self._mask] = values
        return with_rows(
            data, self._files[0], [f"trial {i + 1}" for i in range(len(data))]
        )


def _check_runs(images, lengths, ndim):
    """Refuse images that are no runs."""
    names = name_items("imgs", images)
    for name, image, length in zip(names, images, lengths, strict=True):
        if len(image.shape) != ndim or length < _FEWEST:
            raise ValueError(
                f"{name} has shape {image.shape}; a run must be a 4D "
                "image (on surfaces and in CIFTI files 2-D data) with a scan every t_r "
                "seconds. If imgs are the scans of one run, join them: "
                "nilearn.image.concat_imgs(imgs)."
            )


def _check_smoothed_once(smoothing_fwhm):
    """Refuse to smooth beside a masker."""
    if smoothing_fwhm is not None:
        raise ValueError(
            "smoothing_fwhm is given beside a masker, which has one of its own. "
            "Leave one out."
        )


def _refuse_smoothing(smoothing_fwhm):
    """Refuse to smooth what is no volume."""
    if smoothing_fwhm is not None:
        raise ValueError(
            "smoothing_fwhm is for volumes; surfaces are smoothed before. Leave it out."
        )


def _check_finite(finite, noun, name):
    """Refuse data of which nothing is finite."""
    if not finite.any():
        raise ValueError(
            f"All {plural(noun)} of the mask hold NaN or infinite values somewhere in "
            f"{name}. Look at its scans, and leave such scans or the run out."
        )
