"""What the command line reads: volumes, their labels, confounds, and data of results.

Imported inside functions of other modules: ``--help`` needs none of these packages.
"""

import math

import numpy as np
import pandas as pd
from pandas.api.types import is_bool_dtype, is_numeric_dtype

from ..data.bold import TUNES, models_drifts, read_fmriprep
from ..data.cifti import Cifti, load_ciftis
from ..data.epochs import read_epochs_file
from ..data.images import read_table
from ..data.space import cifti_image
from ..data.trials import OF_IMAGES, read_train_on
from ..data.volumes import is_cifti, load_volumes, n_volumes, on_grid, read
from ..results.group import GroupResult
from ..utils.checks import counted, quoted
from .command import check_there

#: Labels that a message lists before it breaks off.
MOST_LISTED = 20
_CONFOUNDS = "--confounds"


def check_volumes(paths):
    """Refuse files of values on surfaces without the surfaces."""
    if any(path.name.endswith((".gii", ".gii.gz")) for path in paths):
        raise ValueError(
            "GIFTI files hold values of vertices without a mesh. Commands decode "
            "volumes (.nii.gz) and CIFTI files; surface images are decoded in Python."
        )


def read_volumes(paths, given, groups=None, confounds=None, train_on=None):
    """Images and the table of their volumes, and words for both."""
    drop = given.drop
    check_volumes(paths)
    if is_cifti(paths):
        images = load_ciftis(paths)
        counts = [len(file.rows) for file in images]
    else:
        images = load_volumes(paths)
        counts = [n_volumes(image) for image in images]
    table = _read_tables(given.labels, paths, counts)
    confounds = confounds if isinstance(confounds, list) else [confounds]
    flags = [("--label-column", given.label_column), ("--groups", groups)]
    flags += [(_CONFOUNDS, name) for name in confounds]
    named = [(flag, name) for flag, name in flags if name is not None]
    for flag, name in named:
        if name not in table.columns.tolist():
            raise ValueError(
                f"{flag}: {name!r} is not a column of --labels. The columns are: "
                f"{quoted(table.columns.tolist())}."
            )
    keep = _mark_kept(table[given.label_column], drop)
    table = table[keep]
    for flag, name in named:
        missing = table.index[table[name].isna()]
        if len(missing):
            how = " (--drop n/a)" if flag == "--label-column" else ""
            raise ValueError(
                f"The column {name!r} of --labels is empty for {len(missing)} volumes "
                f"(first: volume {missing[0] + 1}). Fill in the values, or leave out "
                f"these volumes{how}."
            )
    words = paths[0].name
    if len(paths) > 1:
        words += f" and {len(paths) - 1} more"
    words += f": {len(table)} of {counted(len(keep), 'volume')}" if drop else ""
    # Volumes that are left out belong to no block.
    of_volume = np.where(keep, 0, -1)
    if given.average_blocks:
        chosen = read_train_on(train_on, len(table), table, OF_IMAGES)
        values = [table[name].to_numpy() for flag, name in named if flag != _CONFOUNDS]
        if chosen is not None:
            values.append(chosen.mask)  # no block is both trained with and tested
        # A block ends with an equal label and group, before volumes that are left out,
        # and with its image.
        volume = table.index.to_numpy()
        values.append(volume - np.arange(len(volume)))
        values.append(np.repeat(np.arange(len(counts)), counts)[volume])
        starts = np.any([each[1:] != each[:-1] for each in values], axis=0)
        blocks = np.concatenate([[0], np.cumsum(starts)])
        words += f"{';' if drop else ':'} {counted(len(table), 'volume')}"
        words += f" averaged to {counted(blocks.max() + 1, 'block')}"
        of_volume[keep] = blocks
        averaged = [name for flag, name in named if flag == _CONFOUNDS]
        table = _average_rows(table, blocks, averaged)
    parts = np.split(of_volume, np.cumsum(counts)[:-1])
    of_images = zip(images, paths, parts, strict=True)
    chosen = [_choose(*each, given.average_blocks) for each in of_images]
    return [image for image in chosen if image is not None], table, words


def _read_tables(paths, files, counts):
    """The table with one row per volume, and the column file if it has none."""
    tables = [read_table(path, "--labels") for path in paths]
    if len(tables) == 1:
        expected = [(files[0].name if len(files) == 1 else "all images", sum(counts))]
    elif len(tables) == len(files):
        expected = list(zip([file.name for file in files], counts, strict=True))
    else:
        raise ValueError(
            f"--labels got {len(tables)} tables for {len(files)} images. Use one table "
            "for all volumes, or one for each image in the same order."
        )
    for path, table, (name, count) in zip(paths, tables, expected, strict=True):
        if len(table) != count:
            raise ValueError(
                f"{path.name} has {len(table)} rows for the {count} volumes of {name}. "
                "A table needs one row per volume, in the same order."
            )
    table = pd.concat(tables, ignore_index=True)
    if "file" not in table.columns:
        table["file"] = np.repeat(np.arange(1, len(files) + 1), counts)
    return table


def _mark_kept(labels, drop):
    """Which volumes (n_volumes,) are not left out."""
    words = np.array([_as_word(label) for label in labels])
    unknown = [name for name in drop if name not in words]
    if unknown:
        raise ValueError(
            f"--drop: no volume has the label {unknown[0]!r}. The labels are: "
            f"{quoted(np.unique(words).tolist(), MOST_LISTED)}."
        )
    keep = ~np.isin(words, drop)
    if not keep.any():
        raise ValueError("--drop leaves no volume. Name fewer labels.")
    return keep


def _as_word(label):
    """A label as it stands in a table; whole numbers may have become floats."""
    if isinstance(label, float):
        return "n/a" if math.isnan(label) else f"{label:g}"
    return str(label)


def _average_rows(table, blocks, confounds):
    """A row for every block of a table: its first, with the mean confounds."""
    rows = table.iloc[np.searchsorted(blocks, np.arange(blocks.max() + 1))].copy()
    for name in confounds:
        by_block = table[name].groupby(blocks)
        if is_numeric_dtype(table[name]) and not is_bool_dtype(table[name]):
            rows[name] = by_block.mean().to_numpy()
        elif (by_block.nunique() > 1).any():
            raise ValueError(
                f"The column {name!r} of --confounds has several values within a "
                "block that are not numbers and cannot be averaged. Use a numeric "
                "column, or leave out --average-blocks."
            )
    return rows


def _choose(image, path, of_volume, average):
    """The image of the volumes that are kept, or of the mean of every block, if any.

    `of_volume` (n_volumes,) is -1 for volumes that are not kept.
    """
    keep, of_cifti = of_volume >= 0, isinstance(image, Cifti)
    if not keep.any():
        return None
    if keep.all() and not average:
        return image.image if of_cifti else image
    if of_cifti:
        rows = read(image.image, path.name)
    else:
        data = read(image, path.name).reshape(*image.shape[:3], -1)
        rows = np.moveaxis(data, -1, 0)
    if average:
        blocks = [np.flatnonzero(of_volume == n) for n in np.unique(of_volume[keep])]
        parts = [rows[block[0] : block[-1] + 1] for block in blocks]  # views
        # Sums of whole numbers in the type of the file would overflow.
        means = [part.mean(axis=0, dtype=np.float64) for part in parts]
        rows = np.moveaxis(np.stack(means, axis=-1), -1, 0)
    else:
        rows = rows[keep]
    if of_cifti:
        return cifti_image(rows, image.columns)
    return on_grid(np.moveaxis(rows, 0, -1), image)


# ------------------------------------------------------------------ confounds of runs


def confounds_of_fmriprep(given, paths, options):
    """Confounds of fMRIPrep and the scans to keep, without drifts if it models them."""
    if paths or given.confound_columns:
        raise ValueError(
            "Use either --fmriprep or --confounds, not both: each says which "
            "regressors of no interest there are."
        )
    tuned = {name: getattr(given, name) for name in TUNES}
    found = read_fmriprep(given.images, given.fmriprep, tuned, "--fmriprep")
    found = dict(zip(("confounds", "sample_masks"), found, strict=True))
    if not models_drifts(given.fmriprep):
        return found
    others = [
        f"--{name.replace('_', '-')}"
        for name in ("drift_model", "high_pass", "drift_order")
        if options.get(name) is not None
    ]
    if others:
        raise ValueError(
            f"--fmriprep {' '.join(given.fmriprep)} uses fMRIPrep's drift model, and "
            f"{' and '.join(others)} would add another. Leave one of them out."
        )
    return found | {"drift_model": None}


def confounds_of_tables(given, paths, _):
    """Regressors of no interest that are read from tables."""
    columns = given.confound_columns
    for name in TUNES:
        if getattr(given, name) is not None:
            raise ValueError(
                f"--{name.replace('_', '-')} tunes confounds of fMRIPrep. Add "
                "--fmriprep STRATEGY, or leave it out."
            )
    if columns is None:
        return {"confounds": paths} if paths else {}
    if not paths:
        raise ValueError(
            "--confound-columns names columns of tables. Add --confounds TABLE, or "
            "leave it out."
        )
    tables = [read_table(path, "--confounds") for path in paths]
    for path, table in zip(paths, tables, strict=True):
        missing = [name for name in columns if name not in table.columns]
        if missing:
            raise ValueError(
                f"{path} has no column {', '.join(map(repr, missing))}, which "
                "--confound-columns names."
            )
        table.attrs["file"] = str(path)  # what messages call it
    return {"confounds": [table[columns] for table in tables]}


# ------------------------------------------------------------- data of a saved result

#: Names of arrays in a file of NumPy's, beside X and y.
ARRAYS = (
    *("groups", "confounds", "train_on", "X_test", "y_test", "adjacency"),
    *("labels_img", "sensors"),
)
#: Files that the functions were given, by their arguments.
PLACES = (
    *("test_epochs", "mask_img", "process_mask_img", "labels_img", "lut", "mesh"),
    "other",
)


def read_data(result, given, y):
    """Data and labels as the functions take them, and what else they are given."""
    more = {name: getattr(given, name) for name in PLACES}
    more = {name: x for name, x in more.items() if x is not None}
    check_there(*more.values())
    if isinstance(result, GroupResult):
        return given.data, None, {k: x for k, x in more.items() if k == "other"}
    if "other" in more:
        raise ValueError(f"--other is for groups; {given.file.name} is of one subject.")
    first = given.data[0]
    if first.suffix == ".npz":
        with np.load(first, allow_pickle=False) as file:
            arrays = {name: file[name] for name in file.files}
        missing = [name for name in ("X", "y") if name not in arrays]
        unknown = sorted(set(arrays) - {"X", "y", *ARRAYS})
        if missing or unknown:
            what = f"has no array {missing[0]!r}" if missing else f"has {unknown[0]!r}"
            raise ValueError(
                f"{first} {what}. It must contain X and y, and may contain "
                f"{', '.join(ARRAYS)}."
            )
        return arrays.pop("X"), arrays.pop("y"), arrays
    if first.name.endswith((".fif", ".fif.gz", ".set", ".mat")):
        if "test_epochs" in more:
            more["test_epochs"] = read_epochs_file(more["test_epochs"])
        return read_epochs_file(first), y, more
    if given.labels is None:
        raise ValueError(
            f"{first.name} is read as images, which need a table of labels. Add "
            "--labels TABLE."
        )
    # Blocks end where a run does, if the result knows the column of the runs.
    runs = result.options.get("groups") if given.average_blocks else None
    groups = runs if isinstance(runs, str) else None
    images, table, _ = read_volumes(given.data, given, groups)
    return images, (table, given.label_column), more
