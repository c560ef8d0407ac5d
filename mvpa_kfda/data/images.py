"""What searchlights take in: images or a table of features, labels and groups.

Loading and masking are nilearn's; CIFTI files are read by nibabel. Without a mask that
of a NiftiMasker is computed, or all vertices are taken. A mask must be on the grid of
the images, up to a hundredth of a voxel, or have their vertices. With a fitted masker
its ``transform`` makes the data, so that all of its settings are kept, and NaN are
replaced by zeros; otherwise values stay as they are. Columns that are NaN or constant
in the images given are marked, always.
"""

import os
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
from nibabel.cifti2 import Cifti2Image
from nibabel.spatialimages import SpatialImage
from nilearn.maskers import NiftiMasker, SurfaceMasker
from nilearn.surface import SurfaceImage
from scipy import sparse

from ..utils.advice import COMPLEX, advice
from ..utils.checks import (
    all_items,
    check_per_trial,
    counted,
    invalid,
    quoted,
    read_file,
)
from . import volumes
from .cifti import cifti_space, load_cifti_mask, load_ciftis, mask_ciftis
from .space import FeatureSpace, Space, SurfaceSpace, VolumeSpace
from .tables import read_text_table
from .trials import OF_IMAGES, make_trials

#: What parts the columns of a table, by the ending of its name.
_SEPARATORS = {".tsv": "\t", ".csv": ","}

#: How users say which labels are decoded, as which classes.
Label = str | int
Classes = Sequence[Label] | Mapping[str, Label | Sequence[Label]] | None

#: Labels that a message lists, and how it words classes with names.
_LISTED = 20
_NAMED = "a dict of name -> label or list of labels, such as {'animal': ['cat', 'dog']}"

#: Parameters that results do not record: the precision of images, and what was told.
_NOT_RECORDED = ("dtype", "slice_time_ref_from")
#: The drift model that a parameter is of.
_DRIFTS = {"high_pass": "cosine", "drift_order": "polynomial"}
#: The columns of a table by which runs and sessions are known as groups.
_GROUPS = ("run", "session")


@dataclass(frozen=True, eq=False, repr=False)
class Betas:
    """Single-trial estimates, from `single_trial_betas`.

    They can be passed directly to :func:`~mvpa_kfda.searchlight` and
    :func:`~mvpa_kfda.decode_regions`, whose results record how the estimates were made.

    Parameters
    ----------
    imgs : 4D image | SurfaceImage | Cifti2Image
        One image per trial; zeros outside the mask.
    table : DataFrame
        One row per trial: run, onset, duration, trial_type, and all further columns of
        the events.
    mask_img : 3D image | SurfaceImage | Cifti2Image | None
        The voxels, vertices or grayordinates with estimates; None for parcels.
    design_matrices : list of DataFrame
        For each run, the regressors of each trial and the nuisance regressors. With
        "lsa" they are the model; with "lss" the regressors of other trials are summed.
    parameters : dict
        How the estimates were made, including the ``t_r`` and ``slice_time_ref`` used,
        the origin of the latter (``slice_time_ref_from``: "given", "StartTime" or
        "default"), the numbers of scans in each run (``n_scans``) and of those left out
        (``n_scans_left_out``), and the names of confounds (``regressors``).

    Examples
    --------
    >>> import nibabel
    >>> import numpy as np
    >>> import pandas as pd
    >>> from mvpa_kfda import Betas
    >>> imgs = nibabel.Nifti1Image(np.zeros((2, 2, 2, 4), np.float32), np.eye(4))
    >>> table = pd.DataFrame({"trial_type": ["cat", "dog"] * 2, "run": [1, 1, 2, 2]})
    >>> designs = [pd.DataFrame({"cat": [1.0], "dog": [0.0]})] * 2
    >>> Betas(imgs, table, None, designs, {"method": "lss"})
    <Betas | 4 trials (cat 2, dog 2) of 2 runs, lss>
    """

    imgs: SpatialImage | SurfaceImage | Cifti2Image
    table: pd.DataFrame
    mask_img: SpatialImage | SurfaceImage | Cifti2Image | None
    design_matrices: list
    parameters: dict

    def __repr__(self):
        types = self.table["trial_type"].value_counts(sort=False).items()
        return (
            f"<Betas | {counted(len(self.table), 'trial')} "
            f"({', '.join(f'{name} {n}' for name, n in types)}) of "
            f"{counted(len(self.design_matrices), 'run')}, {self.parameters['method']}>"
        )

    def record(self) -> dict:
        """Return the record of how the estimates were made.

        Returns
        -------
        record : dict
            The value of ``parameters["recordings"]`` in a result.
        """
        drifts = self.parameters.get("drift_model")
        given = {
            "estimate" if name == "method" else name: value
            for name, value in self.parameters.items()
            if name not in _NOT_RECORDED and _DRIFTS.get(name, drifts) == drifts
        }
        if "signal_scaling" in given:  # 0 and False would be the same number
            scaled = given["signal_scaling"] is not False
            given["signal_scaling"] = "percent" if scaled else "none"
        n = len(self.parameters.get("regressors", []))
        runs = {"kind": "bold", "n_runs": len(self.design_matrices)}
        return runs | given | {"n_confound_regressors": n}


def opened(imgs, y, groups=None, mask_img=None):
    """Images, labels, a mask and what a result records of `Betas`, or nothing.

    The labels of `Betas` may be a column of their table, and their mask is the default.
    """
    if not isinstance(imgs, Betas):
        return imgs, y, mask_img, {}
    table = imgs.table
    same = [n for n in _GROUPS if n in table and np.array_equal(groups, table[n])]
    same = [n for n in _GROUPS if n == groups] if isinstance(groups, str) else same
    record = {"recordings": imgs.record() | {"group": same[0] if same else None}}
    y = (table, y) if isinstance(y, str) else y
    return imgs.imgs, y, imgs.mask_img if mask_img is None else mask_img, record


def read_labels(
    y, groups=None, confounds=None, train_on=None, classes=None, n_images=None
):
    """The `Trials` of some classes, by what is given as arrays or (table, column).

    Also labels and groups of all images, of which z-scores are, an index of those that
    are decoded, and what a result records of these. `classes` are labels, or a dict of
    name -> label or list of labels; None: all.
    """
    table = None
    if _is_reference(y):
        table = read_table(y[0], "y")
        y = _column(table, y[1], "y")
    elif isinstance(y, str | os.PathLike) or y is None:
        raise TypeError(
            f"y={y!r} holds no labels. Pass an array with one label per image, or "
            "(table, column) with a DataFrame or the path of a .tsv or .csv file."
        )
    if isinstance(groups, str) and table is None:
        raise TypeError(
            f"groups={groups!r} names a column, but y is not (table, column). Pass "
            "groups as an array, or as (table, column) too."
        )
    groups = (table, groups) if isinstance(groups, str) else groups
    if _is_reference(groups):
        groups = _column(read_table(groups[0], "groups"), groups[1], "groups")
    y, of_confounds = _plain(y, "y"), table
    if _is_reference(confounds):
        of_confounds, confounds = read_table(confounds[0], "confounds"), confounds[1]
    columns = partial(_column, of_confounds, name="confounds")
    trials = make_trials(
        y,
        len(y),
        None if groups is None else _plain(groups, "groups"),
        confounds,
        train_on,
        table,
        OF_IMAGES,
        column_of=None if of_confounds is None else columns,
    )
    trials = replace(trials, numbers=np.arange(len(y)))  # in time
    given, kept, record = (y, trials.groups), slice(None), {}
    if classes is not None:
        trials, kept, record = _of_classes(trials, classes, y)
    if n_images is not None:
        for name, values in zip(("y", "groups"), given, strict=True):
            if values is not None:
                check_per_trial(values, n_images, name)
    return trials, given, kept, record


def _of_classes(trials, classes, y):
    """The trials of some classes, which of all they are, and what a result records."""
    names = _named_labels(classes, y)
    name_of = {label: name for name, several in names.items() for label in several}
    kept = np.flatnonzero([label in name_of for label in y.tolist()])
    trials = trials.take(kept)
    if isinstance(classes, Mapping):
        labels = [name_of[label] for label in trials.y.tolist()]
        trials = replace(trials, y=np.array(labels))
    record = {str(name): list(map(str, several)) for name, several in names.items()}
    return trials, kept, {"classes": record, "selected": kept, "n_images": len(y)}


def _named_labels(classes, y):
    """The labels of each class by its name; each of them there, and once."""
    if isinstance(classes, str | bytes) or not isinstance(classes, Iterable):
        allowed = f"a list of two or more labels, or {_NAMED}"
        raise invalid("classes", classes, allowed, TypeError)
    if isinstance(classes, Mapping):
        listed = {name: _listed(several) for name, several in classes.items()}
        for name, several in listed.items():
            if not isinstance(name, str) or not several:
                given = f"{name!r}: {classes[name]!r}"
                raise TypeError(f"classes names {given}. Allowed: {_NAMED}.")
        names = {name.strip(): several for name, several in listed.items()}
        if len(names) < len(classes):
            raise ValueError(
                f"classes names {len(classes)} classes, some with the same name but "
                "for blanks. Put the labels of a class together."
            )
        labels = [label for several in names.values() for label in several]
    else:
        labels = _listed(all_items("classes", classes))
        names = {label: [label] for label in labels}
    there = set(y.tolist())
    for label in labels:
        if label not in there:
            raise ValueError(
                f"classes names {label!r}, which is no label in y. The labels are: "
                f"{quoted(sorted(there), _LISTED)}."
            )
        if labels.count(label) > 1:
            what = f"the label {label!r} twice. Put each into one class"
            raise ValueError(f"classes names {what}.")
    if len(names) < 2:
        what = f"{counted(len(names), 'class')}; decoding needs two or more"
        raise ValueError(f"classes names {what}.")
    return names


def _listed(labels):
    """A label, or several, as a list of plain values that can be looked up."""
    several = isinstance(labels, Iterable) and not isinstance(labels, str | bytes)
    plain = []
    for label in labels if several else [labels]:
        if hasattr(label, "item") and np.size(label) == 1:
            label = label.item()
        if not isinstance(label, Hashable):
            raise TypeError(f"classes names {label!r}. Allowed: labels that are in y.")
        plain.append(label.strip() if isinstance(label, str) else label)
    return plain


def _is_reference(value):
    """Whether a value is (table, column)."""
    kinds = (pd.DataFrame, str, os.PathLike)
    return isinstance(value, tuple) and len(value) == 2 and isinstance(value[0], kinds)


def read_table(table, name):
    """A DataFrame as it is, or the table in a file (.tsv, .csv, also .gz)."""
    if isinstance(table, pd.DataFrame):
        return table
    path = Path(table).expanduser()
    ending = Path(path.stem if path.suffix == ".gz" else path.name).suffix.lower()
    if ending not in _SEPARATORS:
        raise ValueError(
            f"The table of {name} must be a DataFrame or a file whose name ends in "
            f".tsv or .csv, also with .gz; got {str(table)!r}."
        )
    read = partial(read_text_table, separator=_SEPARATORS[ending])
    # No text, no columns, lines of other lengths, or no gzip data after all.
    errors = ValueError, OSError, EOFError
    return read_file(table, f"The table of {name}", read, "table", errors)


def _column(table, column, name):
    """A column of a table, without missing values."""
    if column not in table.columns or isinstance(table[column], pd.DataFrame):
        what = "is not a" if column not in table.columns else "names more than one"
        raise ValueError(
            f"{column!r}, given for {name}, {what} column of the table. The columns "
            f"are: {quoted(table.columns.tolist())}."
        )
    if (missing := table[column].isna().to_numpy()).any():
        raise ValueError(
            f"{name}: the column {column!r} is empty in {sum(missing)} of {len(table)} "
            f"rows (first: row {np.flatnonzero(missing)[0]}, counted from 0). Fill in "
            "the values, or drop these rows and their images."
        )
    return table[column]


def _plain(values, name):
    """Values of any 1-D container as an array of strings or numbers."""
    if isinstance(values, pd.DataFrame):
        raise TypeError(
            f"{name} is a DataFrame; pass one column of it, {name}=table[column], or "
            f"{name}=(table, column)."
        )
    if not np.ma.isMaskedArray(values) and hasattr(values, "dtype"):
        values = np.asarray(values)  # a Series by position, categories as values
    try:
        n = len(values)
    except TypeError:
        text = f"{name} must hold one value per image; got {values!r}."
        raise TypeError(text) from None
    return check_per_trial(values, n, name)


@dataclass(frozen=True, eq=False)
class Images:
    """Data of images, one row each."""

    X: np.ndarray  #: (n_images, n_features), as they were, NaN too
    space: Space  #: where the columns are: a volume, a surface or plain features
    #: Which columns are finite and not constant, (n_features,).
    usable: np.ndarray


def read_images(imgs, mask_img=None, mesh=None):
    """The `Images` of volumes, surfaces, CIFTI or an array, within a mask."""
    return open_images(imgs, mask_img, mesh)[1]()


def open_images(imgs, mask_img=None, mesh=None, whole=False):
    """The space of volumes, surfaces, CIFTI or an array, and what reads them.

    Without a mask all positions, but of volumes those that are no background, unless
    the whole of them is wanted. ``read(chosen)`` returns the `Images` at chosen
    positions (n_positions,) of bool; None: at all.
    """
    if is_masker(imgs):
        raise TypeError(
            f"imgs is a {type(imgs).__name__}; a masker holds no data. Pass the images "
            "as imgs, and the fitted masker as mask_img."
        )
    known, of_cifti = None, not is_table(imgs) and volumes.is_cifti(imgs)
    if mesh is not None and not of_cifti:
        raise TypeError(
            "mesh is for CIFTI images, whose files do not say where the cortex lies; "
            "these imgs are of another kind. Leave it out."
        )
    if is_table(imgs):
        known = _features(imgs)
        if mask_img is not None:
            raise TypeError(
                "mask_img is for images; imgs is an array. Use imgs[:, mask] instead."
            )
        space = known.space
    elif is_masker(mask_img) and not of_cifti:
        on_surface = volumes.is_surface(imgs)
        check_masker(mask_img, SurfaceMasker if on_surface else NiftiMasker)
        known = Images(*volumes.transformed(imgs, mask_img))
        space = known.space
    elif of_cifti:
        files = load_ciftis(imgs)
        space, data = cifti_space(files[0], mesh), partial(mask_ciftis, files)
    elif volumes.is_surface(imgs):
        images = volumes.load_surfaces(imgs)
        space = volumes.surface_space(images[0].mesh)
        data = partial(volumes.mask_surfaces, images)
    else:
        images = volumes.load_volumes(imgs)
        space = VolumeSpace(np.ones(images[0].shape[:3], bool), images[0].affine)
        data = partial(volumes.mask_volumes, images)
        if mask_img is not None:
            mask, affine = volumes.load_mask(mask_img, space)
            # Spheres are on the grid of the mask, to the last digit.
            space = VolumeSpace(mask, space.affine if whole else affine)
        elif not whole:
            space = replace(space, mask=volumes.background_mask(images))
    if known is None and mask_img is not None and not isinstance(space, VolumeSpace):
        space = masked(space, mask_img)

    def read(chosen=None):
        images, here = known, space if chosen is None else space.take(chosen)
        if images is None:
            X = data(here.mask)
            images = Images(X, here, volumes.usable_columns(X))
        elif chosen is not None:
            X = images.X[:, chosen].copy(order="F")
            images = Images(X, here, images.usable[chosen])
        if not images.usable.any():
            finite = np.isfinite(images.X)
            empty = np.flatnonzero(~finite.any(axis=1))
            n_broken = int((~finite.all(axis=0)).sum())
            hint = "Look whether the mask lies on the brain in these images."
            if 0 < len(empty) < len(finite):
                image = f"Image {empty[0]} (counted from 0)"
                hint = f"{image} holds no finite value: drop it."
            raise ValueError(
                f"None of the {here.describe()} can be decoded: {n_broken} hold NaN "
                f"or infinity and {finite.shape[1] - n_broken} are constant. {hint}"
            )
        return images

    return space, read


def masked(space, mask_img, name="mask_img"):
    """The space of the places that a mask selects, also of those outside of it."""
    if isinstance(space, VolumeSpace):
        mask, _ = volumes.load_mask(mask_img, space, name)
    elif isinstance(space, SurfaceSpace):
        like = space.to_img(np.zeros(space.n_positions))
        mask = volumes.load_surface_mask(mask_img, like, name)
    else:
        mask = load_cifti_mask(mask_img, space.axis(), name)
    return replace(space, mask=mask)


def is_masker(value):
    """Whether a value is one of nilearn's maskers."""
    return hasattr(value, "transform") and hasattr(value, "inverse_transform")


def is_table(imgs):
    """Whether images are given as a plain array or DataFrame."""
    if isinstance(imgs, np.ndarray) and imgs.ndim == 1:
        return imgs.dtype.kind not in "UO"  # else paths or images
    return isinstance(imgs, np.ndarray | pd.DataFrame) or sparse.issparse(imgs)


def _features(imgs):
    """The `Images` of a plain array or DataFrame."""
    if sparse.issparse(imgs) or np.ma.is_masked(imgs):
        raise TypeError(
            "imgs is a sparse or a masked array; pass a dense one, NaN for gaps."
        )
    names = imgs.columns.astype(str) if isinstance(imgs, pd.DataFrame) else None
    values = np.asarray(imgs)
    if values.ndim != 2 or 0 in values.shape:
        raise ValueError(
            "An array given as imgs must have shape (n_images, n_features); got "
            f"{values.shape}. Use nibabel.Nifti1Image(data, affine).{advice(values)}"
        )
    try:
        if values.dtype.kind not in "biufO" or len(values) < 2:
            raise ValueError
        X = np.array(values, dtype=np.float64, order="F")
    except (TypeError, ValueError):
        hint = COMPLEX if values.dtype.kind == "c" else "Pass only the features."
        raise ValueError(
            "An array given as imgs must hold real numbers alone, in two or more rows; "
            f"got shape {values.shape}, dtype {values.dtype}. {hint}"
        ) from None
    return Images(X, FeatureSpace(names, X.shape[1]), volumes.usable_columns(X))


def check_masker(masker, wanted):
    """Refuse maskers of other kinds, and those that are not fitted."""
    name = type(masker).__name__
    if not isinstance(masker, wanted):
        raise TypeError(
            f"mask_img is a {name}; for these images it must be a {wanted.__name__}, "
            "or a mask image. Regions of an atlas are for decode_regions."
        )
    if getattr(masker, "mask_img_", None) is None:
        raise ValueError(
            f"mask_img is a {name} that is not fitted; use mask_img.fit(imgs) first."
        )


def process_positions(images, process_mask_img=None):
    """The space of the centres of searchlights: a mask's, or the images'."""
    space = images.space
    if process_mask_img is None:
        return space
    # Centres may lie outside of the mask of the data, as in nilearn's SearchLight.
    name = "process_mask_img"
    if isinstance(space, FeatureSpace):
        raise TypeError(
            f"{name} is for images, of voxels or vertices; {space.noun}s have no "
            f"places. Leave it out: every {space.noun} is a centre."
        )
    return masked(space, process_mask_img, name)
