"""The commands for brain images: ``mvpa-kfda searchlight`` and ``regions``.

The packages that read images are imported inside functions: ``--help`` needs none.
"""

import math
import time
from contextlib import contextmanager
from pathlib import Path

from ..utils.text import tell
from .common import (
    ANALYSIS_OPTIONS,
    CLUSTER_LEVEL,
    CORRECTION,
    LABEL_COLUMN,
    METRICS,
    NULL,
    Option,
    add_options,
    add_out,
    analysis_arguments,
    check_course,
    check_null_options,
    check_out,
    check_penalty,
    check_there,
    given,
    needs_all_maps,
    one_line,
    split_classes,
    split_scoring,
)
from .reading import as_word, read_volumes

#: Options of both commands.
IMAGES_OPTIONS = (
    Option(
        "--labels",
        "labels",
        "TABLE",
        "table (.tsv, .csv) with one row per volume; for several images, one table for "
        "all volumes or one table per image",
        Path,
        several=True,
        required=True,
    ),
    LABEL_COLUMN,
    Option(
        "--drop",
        "drop",
        "LABEL",
        "leave out volumes with these labels before anything else; n/a: volumes "
        "without a label",
        several=True,
    ),
    Option(
        "--classes",
        "classes",
        "LABEL",
        "labels to decode, e.g. face house; or NAME=LABEL,LABEL ... for classes of "
        "several labels; other volumes are used for z-scores only",
        several=True,
    ),
    Option(
        "--groups",
        "groups",
        "COLUMN",
        "column with the groups, e.g. runs; file: each image is a group",
    ),
    Option(
        "--confounds",
        "confounds",
        "COLUMN",
        "columns to regress out of the voxels, with coefficients estimated on the "
        "training volumes of each fold; with --average-blocks their means over blocks",
        several=True,
    ),
    Option(
        "--train-on",
        "train_on",
        "QUERY",
        "train on the volumes selected by a query on --labels, e.g. "
        "\"task == 'seen'\", and test on the others; with --groups or --cv in each "
        "fold. Only the training labels are permuted",
    ),
    Option(
        "--standardize",
        "standardize",
        ("zscore_sample", "none"),
        "z-score each voxel, within groups if there are any",
        default="zscore_sample",
    ),
    Option(
        "--dtype",
        "dtype",
        ("float64", "float32"),
        "floating-point precision of the computations with labels",
        default="float64",
    ),
    Option(
        "--threshold",
        "threshold",
        "P",
        "cluster-forming p-level, for --correction cluster; values other than the "
        "default keep all maps",
        float,
        CLUSTER_LEVEL,
    ),
    NULL,
)
MESH = Option(
    "--mesh",
    "mesh",
    "SURFACE",
    "cortical surfaces for CIFTI files: .surf.gii files of the left and the right "
    "hemisphere, in this order",
    Path,
    several=True,
)
SEARCHLIGHT_OPTIONS = (
    Option(
        "--mask",
        "mask_img",
        "MASK",
        "voxels to use (default: computed from the images)",
        Path,
    ),
    Option(
        "--process-mask",
        "process_mask_img",
        "MASK",
        "centres of spheres (default: all voxels)",
        Path,
    ),
    Option("--radius", "radius", "MM", "radius of the spheres in mm", float, 8.0),
    MESH,
)
REGIONS_OPTIONS = (
    Option(
        "--atlas",
        "labels_img",
        "ATLAS",
        "image with the region number of each voxel, or 4D image with a probability "
        "map per region; for CIFTI files a .dlabel.nii; without it all voxels of the "
        "mask form one region",
        Path,
    ),
    Option(
        "--atlas-names",
        "lut",
        "TABLE",
        "names of the regions, a table (.tsv, .csv) with columns index and name",
        Path,
    ),
    Option(
        "--mask",
        "mask_img",
        "MASK",
        "voxels outside belong to no region; without --atlas and --mask the mask is "
        "computed from the images",
        Path,
    ),
    MESH,
)

#: What stands before .nii in the names of CIFTI files.
CIFTI_ENDINGS = (".dscalar", ".dtseries", ".pscalar", ".ptseries")

#: What an image is, for both commands.
ONE_PER_TRIAL = (
    "There must be one image per trial or block; volumes of a time series must not be "
    "permuted one by one, see --average-blocks."
)
EPILOG = (
    f"Metrics: {', '.join(METRICS)}. An interrupted run is continued by the same "
    "command with --resume: until all files are written, finished parts are kept in a "
    "file whose name ends in .checkpoint."
)


def add_searchlight(commands):
    """Add the command that decodes spheres of voxels to the parser of commands."""
    parser = commands.add_parser(
        "searchlight",
        help="decode images around each voxel",
        usage="%(prog)s IMAGE [IMAGE ...] --labels TABLE [options]",
        description="Decode the volumes of an image from the voxels in a sphere around "
        "every voxel, and write maps (.nii.gz; for CIFTI files .dscalar.nii), tables "
        "(.csv), figures (.png) and a "
        f"result (.h5), their names beginning with IMAGE_searchlight. {ONE_PER_TRIAL}",
        epilog=EPILOG,
    )
    _add_arguments(parser, SEARCHLIGHT_OPTIONS)
    parser.set_defaults(run=_run_searchlight, command="searchlight")


def add_regions(commands):
    """Add the command that decodes regions of an atlas to the parser of commands."""
    parser = commands.add_parser(
        "regions",
        help="decode images from atlas regions, or from the whole mask",
        usage="%(prog)s IMAGE [IMAGE ...] --labels TABLE [--atlas ATLAS] [options]",
        description="Decode the volumes of an image from all voxels of each region, or "
        "of the whole mask, and write maps (.nii.gz; for CIFTI files .dscalar.nii), "
        "tables (.csv), figures (.png) and a result (.h5), their names beginning with "
        f"IMAGE_regions. {ONE_PER_TRIAL}",
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
        help="3D or 4D images on one grid, or CIFTI files with the same columns, e.g. "
        "one per run; their volumes or rows in this order",
    )
    add_options(parser, (*IMAGES_OPTIONS, *options, *ANALYSIS_OPTIONS, CORRECTION))
    parser.add_argument(
        "--average-blocks",
        action="store_true",
        help="for time series in blocks: average consecutive volumes with the same "
        "label, group and image, and decode these means",
    )
    parser.add_argument(
        "--resume",
        action="store_true",
        help="resume an interrupted run with the same arguments",
    )
    add_out(parser, ".")


def _run_searchlight(arguments):
    """Decode spheres."""
    _check(arguments, arguments.process_mask_img)
    from .. import searchlight

    _run(arguments, searchlight, "sphere", SEARCHLIGHT_OPTIONS)


def _run_regions(arguments):
    """Decode regions."""
    _check(arguments, arguments.labels_img, arguments.lut)
    from .. import decode_regions

    _run(arguments, decode_regions, "region", REGIONS_OPTIONS)


def _check(arguments, *paths):
    """Check what does not need the images, before they are read."""
    arguments.start = time.perf_counter()
    check_null_options(arguments.null, arguments.correction)
    check_course(arguments.correction, "images have positions in space")
    check_penalty(arguments)
    _check_level(arguments)
    mesh = arguments.mesh or ()
    if len(mesh) not in (0, 2):
        raise ValueError(
            "--mesh takes two files, of the left hemisphere and then of the right one; "
            f"got {len(mesh)}."
        )
    check_there(*arguments.images, *arguments.labels, arguments.mask_img, *mesh, *paths)
    checkpoint = _checkpoint(arguments)
    if checkpoint.exists() and _is_begun(checkpoint) and not arguments.resume:
        raise ValueError(
            f"{checkpoint} is from an interrupted run. Add --resume to continue that "
            "run, or delete the file to start again."
        )


def _check_level(arguments):
    """Refuse p-levels that form no clusters, or without clusters."""
    level = arguments.threshold
    if not 0 < level < 1:
        raise ValueError(
            f"--threshold {level:g} is not a p-level. Use a number between 0 and 1, "
            "e.g. 0.01."
        )
    if level == CLUSTER_LEVEL:
        return
    if arguments.correction not in ("cluster", "cluster-size"):
        raise ValueError(
            "--threshold is for clusters. Add --correction cluster, or leave it out."
        )
    if arguments.null == "stream":
        raise ValueError(
            f"--null stream forms clusters at p <= {CLUSTER_LEVEL}. With "
            f"--threshold {level:g} use --null full, or leave --null out."
        )


def output_of(arguments):
    """Return the files of the output, without their endings."""
    name = arguments.images[0].name
    for ending in (".gz", ".nii", ".img", ".hdr", *CIFTI_ENDINGS):
        name = name.removesuffix(ending)
    part = "_train_on" if getattr(arguments, "train_on", None) else ""
    return arguments.out / f"{name or 'images'}_{arguments.command}{part}"


def _checkpoint(arguments):
    """Return the file that keeps what is finished."""
    stem = output_of(arguments)
    return stem.with_name(f"{stem.name}.checkpoint")


def _run(arguments, decode, unit, options):
    """Read, decode, write and report; continue if that was begun before."""
    from .output import write_images

    images, table, name = read_volumes(
        arguments.images,
        arguments.labels,
        arguments.label_column,
        arguments.drop or (),
        arguments.groups,
        arguments.confounds or (),
        arguments.train_on,
        arguments.average_blocks,
    )
    check_out(arguments.out, output_of(arguments).name)
    checkpoint, standardize = _checkpoint(arguments), arguments.standardize
    if arguments.resume:
        doing = "Continuing" if checkpoint.exists() else "Starting, there is no"
        tell(f"{doing} {checkpoint}")
    with _kept_until_written(checkpoint):
        result = decode(
            images,
            (table, arguments.label_column),
            groups=arguments.groups,
            classes=_read_classes(arguments.classes, table[arguments.label_column]),
            confounds=arguments.confounds,
            train_on=arguments.train_on,
            standardize=False if standardize == "none" else standardize,
            null=_null(arguments, images),
            dtype=arguments.dtype,
            checkpoint=checkpoint,
            **given(arguments, options),
            **analysis_arguments(arguments),
        )
        lines = write_images(
            result,
            name,
            unit,
            output_of(arguments),
            arguments.correction,
            arguments.threshold,
        )
    # At the end, so that a reader who goes away, as `head` does, spoils no file.
    tell(*lines, f"Took {time.perf_counter() - arguments.start:.1f} s")


def _read_classes(names, labels):
    """Return the classes of labels as the functions take them, or None."""
    if names is None:
        return None
    names = split_classes(names, "LABEL")
    labels = {as_word(label): label for label in labels.unique()}
    if isinstance(names, list):
        return [labels.get(name, name) for name in names]
    return {key: [labels.get(x, x) for x in several] for key, several in names.items()}


def _null(arguments, images):
    """Return what to keep of the permutations' maps, as the functions want it."""
    null = arguments.null or "auto"
    maps, entirely = needs_all_maps(arguments.correction)
    if null != "auto" or not maps:
        return null
    if arguments.command == "regions" or entirely:
        return "full"  # an atlas has few maps' worth of regions; the others need all
    if arguments.threshold != CLUSTER_LEVEL:
        return "full"  # clusters are formed afterwards
    from ..decoding.sizes import FULL_NULL_BYTES

    # The maxima would not do, and all maps may be too much.
    n_maps = arguments.n_permutations * len(split_scoring(arguments.scoring))
    n_bytes = 4 * n_maps * _count_centres(arguments, images[0])
    return "full" if n_bytes <= FULL_NULL_BYTES else "stream"


def _count_centres(arguments, image):
    """Return the number of centres of searchlights, or one that is larger."""
    from ..data.cifti import is_cifti
    from ..data.volumes import load_mask

    if is_cifti(image):
        return image.shape[1]
    if arguments.process_mask_img or arguments.mask_img:
        name = "process_mask_img" if arguments.process_mask_img else "mask_img"
        return load_mask(getattr(arguments, name), image, name)[0].sum()
    return math.prod(image.shape[:3])


@contextmanager
def _kept_until_written(path):
    """Delete a checkpoint at the end; keep that of a run which can be continued."""
    try:
        yield
    except KeyboardInterrupt:
        if not _worth_keeping(path):
            raise
        raise KeyboardInterrupt(
            "stopped; run the same command with --resume to continue"
        ) from None
    except (OSError, RuntimeError, MemoryError) as error:
        from ..utils.parallel import WorkersLostError

        if not _worth_keeping(path):
            raise
        if isinstance(error.__cause__, WorkersLostError):
            error = error.__cause__  # without how to go on in Python
        raise RuntimeError(
            f"{one_line(error)} (Run the same command with --resume to continue.)"
        ) from error
    except BaseException:
        _worth_keeping(path)
        raise
    path.unlink(missing_ok=True)


def _worth_keeping(path):
    """Tell whether a checkpoint can be continued; delete one that holds nothing."""
    try:
        return path.exists() and _is_begun(path)
    except (OSError, RuntimeError, ValueError):
        return False  # not ours: foreign, or another run's


def _is_begun(path):
    """Tell whether a checkpoint, which must be ours, holds anything; else delete it."""
    from ..utils.checkpoint import Checkpoint

    with Checkpoint(path) as checkpoint:
        if checkpoint.finished:
            return True
    path.unlink()
    return False
