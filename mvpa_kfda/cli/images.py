"""The commands for brain images: ``mvpa-kfda searchlight``, ``regions`` and ``betas``.

The packages that read images are imported inside functions: ``--help`` needs none.
"""

import math
import time
from contextlib import contextmanager
from pathlib import Path

from .common import (
    ANALYSIS_OPTIONS,
    CLUSTER_CORRECTIONS,
    CLUSTER_LEVEL,
    CORRECTION,
    FULL_CORRECTIONS,
    METRICS,
    NULL,
    Option,
    add_options,
    add_out,
    analysis_arguments,
    check_null_options,
    check_out,
    check_penalty,
    check_there,
    given,
    one_line,
    split_scoring,
)
from .reading import read_volumes

#: Options of both commands.
IMAGES_OPTIONS = (
    Option(
        "--labels",
        "labels",
        "TABLE",
        "table (.tsv, .csv) with one row per volume; for several images one table of "
        "all their volumes, or as many tables as images",
        Path,
        several=True,
        required=True,
    ),
    Option(
        "--label-column",
        "label_column",
        "COLUMN",
        "column of the classes",
        default="label",
    ),
    Option(
        "--drop",
        "drop",
        "LABEL",
        "leave out the volumes with these labels before anything else; n/a: those "
        "without a label",
        several=True,
    ),
    Option(
        "--groups",
        "groups",
        "COLUMN",
        "column of the groups, e.g. runs; file: every image is a group",
    ),
    Option(
        "--confounds",
        "confounds",
        "COLUMN",
        "columns whose effect is taken out of the voxels, in every fold by a "
        "regression on its training volumes; with --average-blocks their means over "
        "blocks",
        several=True,
    ),
    Option(
        "--train-on",
        "train_on",
        "QUERY",
        "train with the volumes that a query on --labels selects, e.g. "
        "\"task == 'seen'\", and test on the others; with --groups or --cv in every "
        "fold. Only labels trained with are permuted",
    ),
    Option(
        "--standardize",
        "standardize",
        ("zscore_sample", "none"),
        "z-score every voxel, within each group where there are groups",
        default="zscore_sample",
    ),
    Option(
        "--dtype",
        "dtype",
        ("float64", "float32"),
        "precision in which labels are processed",
        default="float64",
    ),
    Option(
        "--cluster-threshold",
        "cluster_threshold",
        "P",
        "p-level that forms clusters, for --correction cluster; with any other than "
        "the default all maps are kept",
        float,
        CLUSTER_LEVEL,
    ),
    NULL,
)
SEARCHLIGHT_OPTIONS = (
    Option(
        "--mask",
        "mask_img",
        "MASK",
        "voxels to use; else computed from the images",
        Path,
    ),
    Option(
        "--process-mask",
        "process_mask_img",
        "MASK",
        "centres of spheres; else all voxels",
        Path,
    ),
    Option("--radius", "radius", "MM", "radius of the spheres in mm", float, 8.0),
)
REGIONS_OPTIONS = (
    Option(
        "--atlas",
        "labels_img",
        "ATLAS",
        "image with the number of every voxel's region",
        Path,
        required=True,
    ),
    Option(
        "--atlas-names",
        "lut",
        "TABLE",
        "names of the regions, a table (.tsv, .csv) with columns index and name",
        Path,
    ),
    Option("--mask", "mask_img", "MASK", "voxels outside belong to no region", Path),
)

#: How single trials are estimated.
METHODS = ("lss", "lsa")
OTHERS = ("together", "by_type")
NOISE_MODELS = ("ols", "ar1")
HRF_MODELS = tuple(
    f"{name}{ending}"
    for name in ("glover", "spm")
    for ending in ("", " + derivative", " + derivative + dispersion")
)
BETAS_OPTIONS = (
    Option(
        "--method", "method", METHODS, "a model per trial, or one of all", str, "lss"
    ),
    Option(
        "--others",
        "others",
        OTHERS,
        "with lss, regressors of the other trials",
        default="together",
    ),
    Option(
        "--conditions",
        "conditions",
        "TYPE",
        "trial types that are estimated; else all. Others have one regressor each",
        several=True,
    ),
    Option("--t-r", "t_r", "S", "seconds from scan to scan; else from headers", float),
    Option(
        "--slice-time-ref",
        "slice_time_ref",
        "SHARE",
        "when in a scan its slices are, from 0 to 1",
        float,
        0.0,
    ),
    Option(
        "--hrf-model", "hrf_model", HRF_MODELS, "haemodynamic response", str, "glover"
    ),
    Option(
        "--drift-model",
        "drift_model",
        ("cosine", "polynomial", "none"),
        "slow drifts",
        str,
        "cosine",
    ),
    Option(
        "--high-pass", "high_pass", "HZ", "drifts are slower than this", float, 0.01
    ),
    Option("--drift-order", "drift_order", "N", "order of polynomial drifts", int, 1),
    Option(
        "--mask", "mask_img", "MASK", "voxels to estimate; else found by nilearn", Path
    ),
    Option(
        "--smoothing", "smoothing_fwhm", "MM", "full width at half maximum in mm", float
    ),
    Option(
        "--noise-model",
        "noise_model",
        NOISE_MODELS,
        "ar1: noise that lasts from scan to scan, which takes long",
        str,
        "ols",
    ),
    Option(
        "--dtype", "dtype", ("float64", "float32"), "type of the images", str, "float64"
    ),
)
#: What the scans of every run come with.
RUNS_OPTIONS = (
    Option(
        "--events",
        "events",
        "TABLE",
        "for every image a table (.tsv, .csv) with columns onset, duration, trial_type",
        Path,
        several=True,
        required=True,
    ),
    Option(
        "--confounds",
        "confounds",
        "TABLE",
        "for every image a table (.tsv, .csv) of regressors of no interest",
        Path,
        several=True,
    ),
    Option(
        "--confound-columns",
        "confound_columns",
        "COLUMN",
        "columns of these tables; else all",
        several=True,
    ),
    Option(
        "--fmriprep",
        "strategy",
        "STRATEGY",
        "instead of --confounds, those of fMRIPrep beside the images, e.g. motion "
        "wm_csf scrub; see nilearn.interfaces.fmriprep.load_confounds",
        several=True,
    ),
)

#: What an image is, for both commands.
ONE_PER_TRIAL = (
    "There must be one image per trial or block; volumes of a time series must not be "
    "permuted one by one, see --average-blocks."
)
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
        usage="%(prog)s IMAGE [IMAGE ...] --labels TABLE [options]",
        description="Decode the volumes of an image from the voxels in a sphere around "
        "every voxel, and write maps (.nii.gz), tables (.csv), figures (.png) and a "
        f"result (.h5), their names beginning with IMAGE_searchlight. {ONE_PER_TRIAL}",
        epilog=EPILOG,
    )
    _add_arguments(parser, SEARCHLIGHT_OPTIONS)
    parser.set_defaults(run=_run_searchlight, command="searchlight")


def add_regions(commands):
    """Add the command that decodes regions of an atlas to the parser of commands."""
    parser = commands.add_parser(
        "regions",
        help="decode images from every region of an atlas",
        usage="%(prog)s IMAGE [IMAGE ...] --labels TABLE --atlas ATLAS [options]",
        description="Decode the volumes of an image from all voxels of each region, "
        "and write maps (.nii.gz), tables (.csv), figures (.png) and a result (.h5), "
        f"their names beginning with IMAGE_regions. {ONE_PER_TRIAL}",
        epilog=EPILOG,
    )
    _add_arguments(parser, REGIONS_OPTIONS)
    parser.set_defaults(run=_run_regions, command="regions")


def add_betas(commands):
    """Add the command that estimates single trials to the parser of commands."""
    parser = commands.add_parser(
        "betas",
        help="estimate one image per trial from BOLD runs",
        usage="%(prog)s BOLD [BOLD ...] --events TABLE [TABLE ...] [options]",
        description="Estimate the response to every single trial of BOLD runs by "
        "nilearn's models, and write one image per trial (.nii.gz), their table (.tsv) "
        "and the mask, their names beginning with BOLD_betas. They are what the "
        "commands searchlight and regions take.",
    )
    parser.add_argument(
        "images",
        metavar="BOLD",
        type=Path,
        nargs="+",
        help="4D images on one grid, one for each run",
    )
    add_options(parser, (*RUNS_OPTIONS, *BETAS_OPTIONS))
    parser.add_argument(
        "--raw-units",
        dest="signal_scaling",
        action="store_const",
        const=False,
        default=0,
        help="estimates in the unit of the data; else in percent of a voxel's mean",
    )
    add_out(parser, ".")
    parser.set_defaults(run=_run_betas, command="betas")


def _add_arguments(parser, options):
    """Add what both commands take, and the options of one of them."""
    parser.add_argument(
        "images",
        metavar="IMAGE",
        type=Path,
        nargs="+",
        help="3D or 4D images on one grid, e.g. one per run; their volumes in this "
        "order",
    )
    add_options(parser, (*IMAGES_OPTIONS, *options, *ANALYSIS_OPTIONS, CORRECTION))
    parser.add_argument(
        "--average-blocks",
        action="store_true",
        help="the volumes are a time series in blocks: take the mean of consecutive "
        "volumes with the same label, group and image, and decode these means",
    )
    parser.add_argument(
        "--resume",
        action="store_true",
        help="continue a run with the same arguments that was stopped",
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
    check_penalty(arguments)
    _check_level(arguments)
    check_there(*arguments.images, *arguments.labels, arguments.mask_img, *paths)
    checkpoint = _checkpoint(arguments)
    if checkpoint.exists() and _is_begun(checkpoint) and not arguments.resume:
        raise ValueError(
            f"{checkpoint} is there, from a run that was stopped. Add --resume to "
            "continue that run, or delete the file to start anew."
        )


def _check_level(arguments):
    """Refuse p-levels that form no clusters, or without clusters."""
    level = arguments.cluster_threshold
    if not 0 < level < 1:
        raise ValueError(
            f"--cluster-threshold {level:g} is no p-level. Give a number between 0 and "
            "1, e.g. 0.01."
        )
    if level == CLUSTER_LEVEL:
        return
    if arguments.correction not in ("cluster", "cluster-size"):
        raise ValueError(
            "--cluster-threshold is for clusters. Add --correction cluster, or leave "
            "it out."
        )
    if arguments.null == "stream":
        raise ValueError(
            f"--null stream forms clusters at p <= {CLUSTER_LEVEL}. With "
            f"--cluster-threshold {level:g} take --null full, or leave --null out."
        )


def _output(arguments):
    """Return the files of the output, without their endings."""
    name = arguments.images[0].name
    for ending in (".gz", ".nii", ".img", ".hdr"):
        name = name.removesuffix(ending)
    part = "_train_on" if arguments.train_on else ""
    return arguments.out / f"{name or 'images'}_{arguments.command}{part}"


def _checkpoint(arguments):
    """Return the file that keeps what is finished."""
    stem = _output(arguments)
    return stem.with_name(f"{stem.name}.checkpoint")


def _run(arguments, decode, unit, options):
    """Read, decode, write and report; continue if that was begun before."""
    from .report import report_images

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
    check_out(arguments.out)
    checkpoint, standardize = _checkpoint(arguments), arguments.standardize
    if arguments.resume:
        doing = "Continuing" if checkpoint.exists() else "Starting, there is no"
        print(doing, checkpoint, flush=True)
    with _kept_until_written(checkpoint):
        result = decode(
            images,
            (table, arguments.label_column),
            groups=arguments.groups,
            confounds=arguments.confounds,
            train_on=arguments.train_on,
            standardize=False if standardize == "none" else standardize,
            null=_null(arguments, images),
            dtype=arguments.dtype,
            checkpoint=checkpoint,
            **given(arguments, options),
            **analysis_arguments(arguments),
        )
        text = report_images(
            result,
            name,
            unit,
            _output(arguments),
            arguments.correction,
            arguments.cluster_threshold,
        )
    # At the end, so that a reader who goes away, as `head` does, spoils no file.
    print(f"{text}\nTook {time.perf_counter() - arguments.start:.1f} s")


def _null(arguments, images):
    """Return what to keep of the permutations' maps, as the functions want it."""
    null = arguments.null or "auto"
    if null != "auto" or arguments.correction not in CLUSTER_CORRECTIONS:
        return null
    if arguments.command == "regions" or arguments.correction in FULL_CORRECTIONS:
        return "full"  # an atlas has few maps' worth of regions; the others need all
    if arguments.cluster_threshold != CLUSTER_LEVEL:
        return "full"  # clusters are formed afterwards
    from ..data.volumes import load_mask
    from ..decoding.sizes import FULL_NULL_BYTES

    # The maxima would not do, and all maps may be too much.
    n_centres = math.prod(images[0].shape[:3])
    if arguments.process_mask_img or arguments.mask_img:
        name = "process_mask_img" if arguments.process_mask_img else "mask_img"
        path = getattr(arguments, name)
        n_centres = load_mask(path, images[0], name)[0].sum()
    n_maps = arguments.n_permutations * len(split_scoring(arguments.scoring))
    return "full" if 4 * n_centres * n_maps <= FULL_NULL_BYTES else "stream"


@contextmanager
def _kept_until_written(path):
    """Delete a checkpoint at the end; keep that of a run which can be continued."""
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


def _run_betas(arguments):
    """Estimate single trials, write and report."""
    start = time.perf_counter()
    tables = *arguments.events, *(arguments.confounds or ())
    check_there(*arguments.images, *tables, arguments.mask_img)
    check_out(arguments.out)
    from .. import single_trial_betas
    from ..utils.checks import counted

    options = given(arguments, BETAS_OPTIONS)
    if options["drift_model"] == "none":
        options["drift_model"] = None
    confounds, sample_masks = _confounds(arguments)
    betas = single_trial_betas(
        arguments.images,
        arguments.events,
        confounds=confounds,
        sample_masks=sample_masks,
        signal_scaling=arguments.signal_scaling,
        **options,
    )
    stem = _output(arguments)
    files = [stem.with_name(stem.name + e) for e in (".nii.gz", ".tsv", "_mask.nii.gz")]
    betas.imgs.to_filename(files[0])
    betas.table.to_csv(files[1], sep="\t", index=False, na_rep="n/a")
    betas.mask_img.to_filename(files[2])
    types = betas.table["trial_type"].value_counts().sort_index().items()
    image, table, mask = files
    print(
        f"Estimated {counted(len(betas.table), 'trial')} of "
        f"{counted(len(arguments.images), 'run')} by {arguments.method}: "
        f"{', '.join(f'{name} {n}' for name, n in types)}\n"
        f"Wrote {', '.join(map(str, files))}\n"
        f"Decode them: mvpa-kfda searchlight {image} --labels {table} --label-column "
        f"trial_type --groups run --mask {mask}\n"
        f"Took {time.perf_counter() - start:.1f} s"
    )


def _confounds(arguments):
    """Return regressors of no interest and the scans to keep, or None, for each run."""
    columns, paths = arguments.confound_columns, arguments.confounds
    if arguments.strategy:
        if paths or columns:
            raise ValueError(
                "Give either --fmriprep or --confounds, not both: each says which "
                "regressors of no interest there are."
            )
        from nilearn.interfaces.fmriprep import load_confounds

        names = [str(path) for path in arguments.images]
        return load_confounds(names, strategy=arguments.strategy)
    if columns is None:
        return paths, None
    if paths is None:
        raise ValueError(
            "--confound-columns names columns of tables. Add --confounds TABLE, or "
            "leave it out."
        )
    from ..data.images import read_table

    tables = [read_table(path, "--confounds") for path in paths]
    for path, table in zip(paths, tables, strict=True):
        missing = [name for name in columns if name not in table.columns]
        if missing:
            raise ValueError(
                f"{path} has no column {', '.join(map(repr, missing))}, which "
                "--confound-columns names."
            )
    return [table[columns] for table in tables], None
