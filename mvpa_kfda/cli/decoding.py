"""The commands on data of a subject: epochs, generalize, searchlight, regions, betas.

The packages that read data are imported inside functions: ``--help`` needs none.
"""

import re
import time
from contextlib import contextmanager, suppress
from pathlib import Path

from ..inference.listed import OF_COURSES
from ..utils.text import tell
from .command import Command, Out, check_out, check_there, one_line

#: The p-level that forms clusters, the only one where not all maps are kept.
CLUSTER_LEVEL = 0.05
#: In Python none are drawn unless asked for; the files of a command have p-values, and
#: the same command writes the same files.
DEFAULTS = {"n_permutations": 1000, "random_state": 0}


class Corrected:
    """How results are shown.

    Parameters
    ----------
    correction : correction, default=max
        correction of the p-values in figures, tables and maps
    """


def _null_for(correction, made, null=None, level=CLUSTER_LEVEL):
    """Refuse corrections for time courses, or without what they need of permutations.

    `made` words what is a map, if it is one. What has to be kept is returned.
    """
    from ..inference.corrections import CORRECTIONS

    needs = CORRECTIONS[correction].needs
    if made and correction in OF_COURSES:
        raise ValueError(
            f"--correction {correction} is for time courses, and {made}. Use "
            "--correction max for single positions, or cluster or tfce."
        )
    if null == "max" and needs != "maximum":
        raise ValueError(
            f"--correction {correction} needs more than the maxima. Use --null full, "
            "or leave --null out."
        )
    # At another level clusters are formed afterwards.
    whole = needs is None or level != CLUSTER_LEVEL
    return "full" if null in (None, "auto") and whole else null or "auto"


# ------------------------------------------------------------------------------ epochs


class EpochsFile:
    """A file of epochs.

    Parameters
    ----------
    FILE : path
        epochs saved by MNE-Python (-epo.fif), EEGLAB (.set) or FieldTrip (.mat)
    smooth : float, optional
        smooth weights over neighbouring sensors (GraphSmooth): strength of the penalty
        on their differences, e.g. 1
    """


def run_epochs(given, options):
    """Decode an epochs file at each time.

    A figure (.png), a table (.csv) and a result (.h5) are named after the file. The
    names of maps end in _sensors, those of regression in _regression. Columns are those
    of the metadata.
    """
    is_map = options.get("sensors") is not None
    made = "with --sensors there is a map of sensors and times" if is_map else ""
    _null_for(given.correction, made)
    ending = f"{'_sensors' * is_map}{_of_values(options)}"
    _decode_epochs(given, options, "decode_epochs", ending)


def run_generalize(given, options):
    """Train at each time and test at all times.

    A figure (.png), a table (.csv) and a result (.h5) have names that end in
    _generalization. --test-epochs is the name of a file.
    """
    made = "generalize makes a map of two times"
    null = options.get("null")
    options["null"] = _null_for(given.correction, made, null)
    ending = f"_generalization{_of_values(options)}"
    _decode_epochs(given, options, "generalize_epochs", ending)


def _of_values(options):
    """What names end in where values are predicted."""
    return "_regression" if options.get("task") == "regression" else ""


def _decode_epochs(given, options, name, ending):
    """Read, decode by a function, write and report."""
    start, test = time.perf_counter(), options.get("test_epochs")
    if given.smooth is not None and "kernel" in options:
        raise ValueError(
            "--smooth sets a linear kernel and cannot be combined with --kernel. "
            "Leave one of them out."
        )
    check_there(given.file, test)
    import mvpa_kfda

    from ..data.epochs import read_epochs_file
    from .output import write_and_print  # loads most of the package

    epochs, words = read_epochs_file(given.file), given.file.name
    if test is not None:
        options["test_epochs"] = read_epochs_file(test)
        ending = f"_to_{_stem(Path(test))}{ending}"
        words += f" with {Path(test).name}"
    elif options.get("train_on") is not None:
        ending = f"_train_on{ending}"
        words += f", trained on {options['train_on']}"
    check_out(given.out, _stem(given.file))
    if given.smooth is not None:
        options["kernel"] = _smooth_kernel(epochs, options, given.smooth)
    result = getattr(mvpa_kfda, name)(epochs, **options)
    stem = given.out / f"{_stem(given.file)}{ending}"
    write_and_print(result, words, stem, given.correction, start)


def _smooth_kernel(epochs, options, strength):
    """The kernel that smooths weights over neighbours among the channels."""
    import mne
    import numpy as np
    from scipy.sparse import coo_array

    from .. import GraphSmooth
    from ..data.epochs import find_neighbours, pick_channels

    info = mne.pick_info(epochs.info, pick_channels(epochs.info, options.get("picks")))
    try:
        pairs = find_neighbours(info, "adjacency")
    except ValueError as error:
        text = str(error).replace("sensors='adjacency'", "--smooth")
        raise ValueError(text) from error
    n = len(info["ch_names"])
    edges = coo_array((np.ones(pairs.shape[1]), tuple(pairs)), shape=(n, n))
    return GraphSmooth((edges + edges.T, info["ch_names"]), strength)


def _stem(path):
    """The output is named after the input, without the endings that readers ask for."""
    name = re.sub(r"(\.fif|\.set|\.mat)?(\.gz)?$", "", path.name)
    return re.sub(r"[-_]epo$", "", name) or "epochs"


# ------------------------------------------------------------------------------ images


class Volumes:
    """How the volumes of images are read, and which.

    Parameters
    ----------
    labels : list of path
        table (.tsv, .csv) with one row per volume; for several images, one table for
        all volumes or one table per image
    label_column : str, default=label
        its column with the classes
    drop : list of str, default=()
        leave out volumes with these labels before anything else; n/a: volumes without a
        label
    average_blocks : bool, default=False
        for time series in blocks: average consecutive volumes with the same label,
        group and image, and decode these means
    """


class ImageFiles:
    """Images, and how their results are shown.

    Parameters
    ----------
    IMAGES : list of path
        3D or 4D images on one grid, or CIFTI files with the same columns, e.g. one per
        run; their volumes or rows in this order
    threshold : float, default=0.05
        cluster-forming p-level, for --correction cluster; values other than the default
        keep all maps
    resume : bool, default=False
        resume an interrupted run with the same arguments: until all files are written,
        finished parts are kept in a file whose name ends in .checkpoint
    """


def output_of(given, ending):
    """The files of the output, without their endings."""
    kinds = r"(\.[dp](scalar|tseries))?(\.nii|\.img|\.hdr)?(\.gz)?$"
    name = re.sub(kinds, "", given.images[0].name, count=1)
    return given.out / f"{name or 'images'}{ending}"


def run_searchlight(given, options):
    """Decode images around each voxel.

    Maps (.nii.gz; for CIFTI files .dscalar.nii), tables (.csv), figures (.png) and a
    result (.h5) are named after the first image. There must be one image per trial or
    block; volumes of a time series must not be permuted one by one, see
    --average-blocks. Columns are those of --labels; with --groups file each image is a
    group.
    """
    from .. import searchlight

    _decode_images("searchlight", searchlight, "sphere", given, options)


def run_regions(given, options):
    """Decode images from atlas regions, or from the whole mask.

    Maps (.nii.gz; for CIFTI files .dscalar.nii), tables (.csv), figures (.png) and a
    result (.h5) are named after the first image. There must be one image per trial or
    block; volumes of a time series must not be permuted one by one, see
    --average-blocks. Columns are those of --labels; with --groups file each image is a
    group.
    """
    from .. import decode_regions

    _decode_images("regions", decode_regions, "region", given, options)


def _decode_images(command, decode, unit, given, options):
    """Read, decode, write and report; continue if that was begun before."""
    start, level = time.perf_counter(), given.threshold
    correction, null = given.correction, options.get("null")
    made = "images have positions in space"
    options["null"] = _null_for(correction, made, null, level)
    if level != CLUSTER_LEVEL and correction not in ("cluster", "cluster-size"):
        raise ValueError(
            "--threshold is for clusters. Add --correction cluster, or leave it out."
        )
    if not 0 < level < 1:
        raise ValueError(
            f"--threshold {level:g} is not a p-level. Use a number between 0 and 1, "
            "e.g. 0.01."
        )
    check_there(given.images, given.labels)
    part = "_train_on" if options.get("train_on") is not None else ""
    stem = output_of(given, f"_{command}{part}{_of_values(options)}")
    checkpoint = stem.with_name(f"{stem.name}.checkpoint")
    if _is_begun(checkpoint) and not given.resume:
        raise ValueError(
            f"{checkpoint} is from an interrupted run. Add --resume to continue that "
            "run, or delete the file to start again."
        )
    from .output import write_images
    from .reading import read_volumes

    images, table, words = read_volumes(
        given.images, given, *map(options.get, ("groups", "confounds", "train_on"))
    )
    check_out(given.out, stem.name)
    if given.resume:
        doing = "Continuing" if checkpoint.exists() else "Starting, there is no"
        tell(f"{doing} {checkpoint}")
    with _kept_until_written(checkpoint):
        result = decode(
            images, (table, given.label_column), checkpoint=checkpoint, **options
        )
        lines = write_images(result, words, unit, stem, correction, level)
    # At the end, so that a reader who goes away, as `head` does, spoils no file.
    tell(*lines, f"Took {time.perf_counter() - start:.1f} s")


@contextmanager
def _kept_until_written(path):
    """Delete a checkpoint at the end; keep that of a run which can be continued."""
    try:
        yield
    except BaseException as error:
        begun = False
        with suppress(OSError, RuntimeError, ValueError):  # of a file that is not ours
            begun = _is_begun(path)
        if not begun or isinstance(error, ValueError | TypeError):
            raise
        if isinstance(error, KeyboardInterrupt):
            raise KeyboardInterrupt(
                "stopped; run the same command with --resume to continue"
            ) from None
        if not isinstance(error, OSError | RuntimeError | MemoryError):
            raise
        from ..utils.parallel import WorkersLostError

        if isinstance(error.__cause__, WorkersLostError):
            error = error.__cause__  # without how to go on in Python
        raise RuntimeError(
            f"{one_line(error)} (Run the same command with --resume to continue.)"
        ) from error
    path.unlink(missing_ok=True)


def _is_begun(path):
    """Whether a checkpoint, which must be ours, holds anything; else it is deleted."""
    from ..utils.checkpoint import Checkpoint

    if not path.exists():
        return False
    with Checkpoint(path) as checkpoint:
        if checkpoint.finished:
            return True
    path.unlink()
    return False


# ------------------------------------------------------------------------------- betas


class Tuning:
    """How confounds of fMRIPrep are tuned.

    Parameters
    ----------
    fd_threshold : float, optional
        with scrub: framewise displacement in mm above which scans are excluded
        (default: 0.5, as in nilearn)
    std_dvars_threshold : float, optional
        with scrub: standardised DVARS above which scans are excluded (default: 1.5, as
        in nilearn)
    n_compcor : int, optional
        with compcor: number of components (default: all that fMRIPrep kept)
    """


class Runs:
    """BOLD runs, and what they come with.

    Parameters
    ----------
    IMAGES : list of path
        4D images on one grid, or .dtseries.nii files, one per run
    events : list of path
        one table (.tsv, .csv) per image, with columns onset, duration, trial_type
    confound_columns : list of str, optional
        columns of the tables of --confounds (default: all)
    fmriprep : list of str, optional
        instead of --confounds, use fMRIPrep's, stored next to the images, e.g. motion
        wm_csf scrub; see nilearn.interfaces.fmriprep.load_confounds. compcor and
        high_pass include fMRIPrep's drift model, which replaces --drift-model
    """


def run_betas(given, options):
    """Estimate one image per trial from BOLD runs.

    The models are nilearn's. Images (.nii.gz; .dscalar.nii for CIFTI files), their
    table (.tsv) and the mask are written, with names beginning with BOLD_betas, for use
    with the commands searchlight and regions.
    """
    start = time.perf_counter()
    confounds = options.get("confounds")
    confounds = confounds if isinstance(confounds, list) else [confounds]
    tables = [name for name in confounds if isinstance(name, str)]
    check_there(given.images, given.events, tables)
    stem = output_of(given, "_betas")
    check_out(given.out, stem.name)
    from .. import single_trial_betas
    from ..utils.checks import counted
    from .output import write_betas
    from .reading import check_volumes, confounds_of_fmriprep, confounds_of_tables

    check_volumes(given.images)
    read = confounds_of_fmriprep if given.fmriprep else confounds_of_tables
    options |= read(given, tables, options)
    betas = single_trial_betas(given.images, given.events, **options)
    files, advice = write_betas(betas, stem)
    types = betas.table["trial_type"].value_counts().sort_index().items()
    timing = betas.parameters
    model, drifts = timing["drift_model"], "no drift model other than confounds"
    if model is not None:
        drifts = f"{model} drifts"
    if model == "cosine":
        drifts = f"drifts slower than {timing['high_pass']:g} Hz"
    tell(
        f"Estimated {counted(len(betas.table), 'trial')} of "
        f"{counted(len(given.images), 'run')} by {options.get('method', 'lss')}: "
        f"{', '.join(f'{name} {n}' for name, n in types)}",
        f"TR {timing['t_r']:g} s, slice times at {timing['slice_time_ref']:g} of the "
        f"TR ({timing['slice_time_ref_from']}); {drifts}",
        f"Wrote {', '.join(map(str, files))}",
        f"Decode them: {advice}",
        f"Took {time.perf_counter() - start:.1f} s",
    )


# ------------------------------------------------------------------------------- table

_EPOCHS = (Out, Corrected, EpochsFile)
_IMAGES = (Out, Corrected, Volumes, ImageFiles)
COMMANDS = {
    "epochs": Command(run_epochs, _EPOCHS, "decode_epochs", DEFAULTS),
    "generalize": Command(run_generalize, _EPOCHS, "generalize_epochs", DEFAULTS),
    "searchlight": Command(run_searchlight, _IMAGES, "searchlight", DEFAULTS),
    "regions": Command(run_regions, _IMAGES, "decode_regions", DEFAULTS),
    "betas": Command(run_betas, (Out, Tuning, Runs), "single_trial_betas"),
}
