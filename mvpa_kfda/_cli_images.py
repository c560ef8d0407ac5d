"""The commands for brain images: ``mvpa-kfda searchlight`` and ``mvpa-kfda regions``.

The packages that read images are imported inside functions: ``--help`` needs none.
"""

import math
import time
from contextlib import contextmanager
from pathlib import Path

from ._cli_common import (
    CLUSTER_CORRECTIONS,
    METRICS,
    add_analysis,
    add_null,
    add_options,
    add_out,
    analysis_arguments,
    check_null,
    check_out,
    check_there,
    one_line,
    split_scoring,
)

#: Options of both commands: flag, what it takes, type, default, help.
TABLE_OPTIONS = (
    (
        "--labels",
        "TABLE",
        Path,
        None,
        "table (.tsv, .csv) with one row per volume; for several images one table of "
        "all their volumes, or as many tables as images",
    ),
    ("--label-column", "COLUMN", str, "label", "column of the classes"),
    (
        "--drop",
        "LABEL",
        str,
        None,
        "leave out the volumes with these labels before anything else; n/a: those "
        "without a label",
    ),
    (
        "--groups",
        "COLUMN",
        str,
        None,
        "column of the groups, e.g. runs; file: every image is a group",
    ),
)
SEARCHLIGHT_OPTIONS = (
    ("--mask", "MASK", Path, None, "voxels to use; else computed from the images"),
    ("--process-mask", "MASK", Path, None, "centres of spheres; else all voxels"),
    ("--radius", "MM", float, 8.0, "radius of the spheres in mm"),
)
REGIONS_OPTIONS = (
    ("--atlas", "ATLAS", Path, None, "image with the number of every voxel's region"),
    (
        "--atlas-names",
        "TABLE",
        Path,
        None,
        "names of the regions, a table (.tsv, .csv) with columns index and name",
    ),
    ("--mask", "MASK", Path, None, "voxels outside belong to no region"),
)

#: Labels that a message lists before it breaks off.
MOST_LISTED = 20

EPILOG = (
    f"Metrics: {', '.join(METRICS)}. A run that was stopped is continued by the same "
    "command with --resume: until all is written, what is finished is kept in a file "
    "whose name ends in .checkpoint."
)


def add_searchlight(commands):
    """Add the command that decodes spheres of voxels to the parser of commands."""
    parser = commands.add_parser(
        "searchlight",
        help="decode images around every voxel",
        description="Decode the volumes of an image from the voxels in a sphere around "
        "every voxel, and write maps (.nii.gz), tables (.csv), figures (.png) and a "
        "result (.h5), their names beginning with IMAGE_searchlight.",
        epilog=EPILOG,
    )
    _add_arguments(parser, SEARCHLIGHT_OPTIONS)
    parser.set_defaults(run=_run_searchlight, command="searchlight")


def add_regions(commands):
    """Add the command that decodes regions of an atlas to the parser of commands."""
    parser = commands.add_parser(
        "regions",
        help="decode images from every region of an atlas",
        description="Decode the volumes of an image from all voxels of each region, "
        "and write maps (.nii.gz), tables (.csv), figures (.png) and a result (.h5), "
        "their names beginning with IMAGE_regions.",
        epilog=EPILOG,
    )
    _add_arguments(parser, REGIONS_OPTIONS)
    parser.set_defaults(run=_run_regions, command="regions")


def _add_arguments(parser, options):
    """Add what both commands take, and the options of one of them."""
    parser.add_argument(
        "images",
        metavar="IMAGE",
        type=Path,
        nargs="+",
        help="4D images on one grid, e.g. one per run; their volumes in this order",
    )
    add_options(parser, (*TABLE_OPTIONS, *options))
    add_analysis(parser)
    for flag, choices, default, text in (
        (
            "--standardize",
            ("zscore_sample", "none"),
            "zscore_sample",
            "z-score every voxel, within each group where there are groups",
        ),
        (
            "--dtype",
            ("float64", "float32"),
            "float64",
            "precision in which labels are processed",
        ),
    ):
        parser.add_argument(
            flag, choices=choices, default=default, help=f"{text} (default: {default})"
        )
    add_null(parser)
    parser.add_argument(
        "--resume",
        action="store_true",
        help="continue a run with the same arguments that was stopped",
    )
    add_out(parser, ".")


def _run_searchlight(arguments):
    """Decode spheres."""
    _check(arguments, arguments.process_mask)
    from . import searchlight

    near = {"process_mask_img": arguments.process_mask, "radius": arguments.radius}
    _run(arguments, searchlight, "sphere", near)


def _run_regions(arguments):
    """Decode regions."""
    _check(arguments, arguments.atlas, arguments.atlas_names)
    from . import decode_regions

    atlas = {"labels_img": arguments.atlas, "lut": arguments.atlas_names}
    _run(arguments, decode_regions, "region", atlas)


def _check(arguments, *paths):
    """Check what does not need the images, before they are read."""
    arguments.start = time.perf_counter()
    check_null(arguments.null, arguments.correction)
    check_there(*arguments.images, *arguments.labels, arguments.mask, *paths)
    checkpoint = _checkpoint(arguments)
    if checkpoint.exists() and not arguments.resume:
        raise ValueError(
            f"{checkpoint} is there, from a run that was stopped. Add --resume to "
            "continue that run, or delete the file to start anew."
        )


def _output(arguments):
    """Return the files of the output, without their endings."""
    name = arguments.images[0].name
    for ending in (".gz", ".nii", ".img", ".hdr"):
        name = name.removesuffix(ending)
    return arguments.out / f"{name or 'images'}_{arguments.command}"


def _checkpoint(arguments):
    """Return the file that keeps what is finished."""
    stem = _output(arguments)
    return stem.with_name(f"{stem.name}.checkpoint")


def _run(arguments, decode, unit, where):
    """Read, decode, write and report; continue if that was begun before."""
    from ._report_images import report_images

    images, table, name = _read(arguments)
    check_out(arguments.out)
    standardize = arguments.standardize
    checkpoint = _checkpoint(arguments)
    if arguments.resume:
        there = checkpoint.exists()
        print(f"Continuing {checkpoint}" if there else f"Starting: no {checkpoint}")
    with _kept_until_written(checkpoint):
        result = decode(
            images,
            (table, arguments.label_column),
            groups=arguments.groups,
            mask_img=arguments.mask,
            standardize=False if standardize == "none" else standardize,
            null=_null(arguments, images),
            dtype=arguments.dtype,
            checkpoint=checkpoint,
            **where,
            **analysis_arguments(arguments),
        )
        report_images(
            result,
            name,
            unit,
            _output(arguments),
            arguments.correction,
            arguments.start,
        )


def _null(arguments, images):
    """Return what to keep of the permutations' maps, as the functions want it."""
    null = arguments.null or "auto"
    if null != "auto" or arguments.correction not in CLUSTER_CORRECTIONS:
        return null
    if arguments.command == "regions":
        return "full"  # an atlas has few of them
    from . import _memory
    from ._volume_input import load_mask

    # The maxima would not do, and all maps may be too much.
    path, n_centres = arguments.process_mask or arguments.mask, images[0].shape[:3]
    n_centres = math.prod(n_centres) if path is None else load_mask(path, images[0])[0].sum()
    n_scores = n_centres * arguments.permutations * len(split_scoring(arguments.scoring))
    return "full" if 4 * n_scores <= _memory.FULL_NULL_BYTES else "stream"


# ------------------------------------------------------------------ images and tables


def _read(arguments):
    """Return the images and the table of the volumes to decode, and their name."""
    from ._volume_input import load_volumes, n_volumes

    images = load_volumes(arguments.images)
    counts = [n_volumes(image) for image in images]
    table = _read_table(arguments.labels, arguments.images, counts)
    _check_column(table, arguments.label_column, "--label-column")
    if arguments.groups is not None:
        _check_column(table, arguments.groups, "--groups")
    keep = _kept(table[arguments.label_column], arguments.drop or [])
    table = table[keep]
    _check_filled(table, arguments.label_column, ", or leave them out by --drop n/a")
    if arguments.groups is not None:
        _check_filled(table, arguments.groups, "")
    name = arguments.images[0].name
    if len(images) > 1:
        name += f" and {len(images) - 1} more"
    name += f": {len(table)} of {len(keep)} volumes" if arguments.drop else ""
    return _select(images, keep, arguments.images), table, name


def _read_table(paths, files, counts):
    """Return a table with one row per volume, and the column file if it has none."""
    import numpy as np
    import pandas as pd

    from ._tables import read_table

    tables = [read_table(path, "--labels") for path in paths]
    if len(tables) == 1:
        expected = [(files[0].name if len(files) == 1 else "the images", sum(counts))]
    elif len(tables) == len(files):
        expected = list(zip([file.name for file in files], counts, strict=True))
    else:
        raise ValueError(
            f"--labels got {len(tables)} tables for {len(files)} images. Give one "
            "table for all volumes, or one for each image in the same order."
        )
    for path, table, (name, count) in zip(paths, tables, expected, strict=True):
        if len(table) != count:
            has = "has" if name in [file.name for file in files] else "have"
            raise ValueError(
                f"{path.name} has {len(table)} rows, but {name} {has} {count} volumes. "
                "A table needs one row per volume, in the same order."
            )
    table = pd.concat(tables, ignore_index=True)
    if "file" not in table.columns:
        table["file"] = np.repeat(np.arange(1, len(files) + 1), counts)
    return table


def _check_column(table, column, flag):
    """Refuse a column that does not exist."""
    from ._checks import quoted

    if column not in table.columns:
        raise ValueError(
            f"{flag}: {column!r} is no column of --labels. The columns are: "
            f"{quoted(table.columns.tolist())}."
        )


def _check_filled(table, column, advice):
    """Refuse a column with empty rows."""
    missing = table.index[table[column].isna()]
    if len(missing):
        raise ValueError(
            f"The column {column!r} of --labels is empty for {len(missing)} volumes "
            f"(first: volume {missing[0] + 1}). Fill them in{advice}."
        )


def _kept(labels, drop):
    """Mark the volumes (n_volumes,) that are not left out."""
    import numpy as np

    words = np.array([_word(label) for label in labels])
    unknown = [name for name in drop if name not in words]
    if unknown:
        known = [repr(str(name)) for name in np.unique(words)]
        more = ", ..." if len(known) > MOST_LISTED else ""
        raise ValueError(
            f"--drop: no volume has the label {unknown[0]!r}. The labels are: "
            f"{', '.join(known[:MOST_LISTED])}{more}."
        )
    keep = ~np.isin(words, drop)
    if not keep.any():
        raise ValueError("--drop leaves no volume. Name fewer labels.")
    return keep


def _word(label):
    """Return a label as it stands in a table; whole numbers may have become floats."""
    if isinstance(label, float):
        return "n/a" if math.isnan(label) else f"{label:g}"
    return str(label)


def _select(images, keep, paths):
    """Return the images without the volumes that are not kept."""
    from ._volume_input import n_volumes, on_grid, read

    selected, start = [], 0
    for image, path in zip(images, paths, strict=True):
        own = keep[start : start + n_volumes(image)]
        start += len(own)
        if own.all():
            selected.append(image)
        elif own.any():
            selected.append(on_grid(read(image, path.name)[..., own], image))
    return selected


# ----------------------------------------------------------------------- checkpoints


@contextmanager
def _kept_until_written(path):
    """Delete a checkpoint at the end of the block that this opens.

    It stays if the block is left by an error or by the keyboard, and there is something
    to be continued.
    """
    try:
        yield
    except KeyboardInterrupt:
        if not _worth_keeping(path):
            raise
        raise KeyboardInterrupt(
            "stopped; the same command with --resume continues the run"
        ) from None
    except (OSError, RuntimeError, MemoryError) as error:
        if not _worth_keeping(path):
            raise
        raise RuntimeError(
            f"{one_line(error)} (The same command with --resume continues the run.)"
        ) from error
    except BaseException:
        _worth_keeping(path)
        raise
    path.unlink(missing_ok=True)


def _worth_keeping(path):
    """Tell whether a checkpoint can be continued; delete one that holds nothing."""
    from ._checkpoint import Checkpoint

    if not path.exists():
        return False
    try:
        with Checkpoint(path) as checkpoint:
            if checkpoint.finished:
                return True
    except (OSError, RuntimeError, ValueError):
        return False  # not ours: foreign, or another run's
    path.unlink()
    return False
