"""The command for single trials of BOLD runs: ``mvpa-kfda betas``.

The packages that read images are imported inside functions: ``--help`` needs none.
"""

import time
from pathlib import Path

from ..utils.text import tell
from .common import Option, add_options, add_out, check_out, check_there, given
from .images import output_of

#: How single trials are estimated.
METHODS = ("lss", "lsa")
NOISE_MODELS = ("ols", "ar1")
HRF_MODELS = tuple(
    f"{name}{ending}"
    for name in ("glover", "spm")
    for ending in ("", " + derivative", " + derivative + dispersion")
)
#: When the slices of a scan were taken.
SLICE_TIME_REF = Option(
    "--slice-time-ref",
    "slice_time_ref",
    "SHARE",
    "reference time of slices as a fraction of a scan, from 0 to 1 (default: StartTime "
    "in the .json file of each run, as written by fMRIPrep, otherwise 0)",
    float,
)
#: Slow drifts; what is not given is as the functions have it.
DRIFT_OPTIONS = (
    Option(
        "--drift-model",
        "drift_model",
        ("cosine", "polynomial", "none"),
        "model of slow drifts (default: cosine; none if --fmriprep models them)",
    ),
    Option(
        "--high-pass",
        "high_pass",
        "HZ",
        "cut-off frequency of drifts (default: 0.01)",
        float,
    ),
    Option(
        "--drift-order",
        "drift_order",
        "N",
        "order of polynomial drifts (default: 1)",
        int,
    ),
)
#: How confounds of fMRIPrep are tuned, as nilearn's load_confounds calls it.
TUNING_OPTIONS = (
    Option(
        "--fd-threshold",
        "fd_threshold",
        "MM",
        "with scrub: framewise displacement above which scans are excluded (default: "
        "0.5, as in nilearn)",
        float,
    ),
    Option(
        "--std-dvars-threshold",
        "std_dvars_threshold",
        "D",
        "with scrub: standardised DVARS above which scans are excluded (default: 1.5, "
        "as in nilearn)",
        float,
    ),
    Option(
        "--n-compcor",
        "n_compcor",
        "N",
        "with compcor: number of components (default: all that fMRIPrep kept)",
        int,
    ),
)
BETAS_OPTIONS = (
    Option(
        "--method",
        "method",
        METHODS,
        "least squares separate (one model per trial), or all (one model)",
        str,
        "lss",
    ),
    Option(
        "--conditions",
        "conditions",
        "TYPE",
        "trial types to estimate (default: all). Others have one regressor each",
        several=True,
    ),
    Option(
        "--t-r",
        "t_r",
        "S",
        "repetition time in seconds (default: RepetitionTime in the .json file of each "
        "image, or from image headers)",
        float,
    ),
    SLICE_TIME_REF,
    Option(
        "--hrf-model",
        "hrf_model",
        HRF_MODELS,
        "model of the haemodynamic response",
        str,
        "glover",
    ),
    Option(
        "--mask",
        "mask_img",
        "MASK",
        "voxels to estimate (default: computed by nilearn)",
        Path,
    ),
    Option(
        "--smoothing", "smoothing_fwhm", "MM", "full width at half maximum in mm", float
    ),
    Option(
        "--noise-model",
        "noise_model",
        NOISE_MODELS,
        "ols: independent noise; ar1: autocorrelated noise, slow",
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
        "one table (.tsv, .csv) per image, with columns onset, duration, trial_type",
        Path,
        several=True,
        required=True,
    ),
    Option(
        "--confounds",
        "confounds",
        "TABLE",
        "one table (.tsv, .csv) of nuisance regressors per image",
        Path,
        several=True,
    ),
    Option(
        "--confound-columns",
        "confound_columns",
        "COLUMN",
        "columns of these tables (default: all)",
        several=True,
    ),
    Option(
        "--fmriprep",
        "strategy",
        "STRATEGY",
        "instead of --confounds, use fMRIPrep's, stored next to the images, e.g. "
        "motion wm_csf scrub; see nilearn.interfaces.fmriprep.load_confounds. compcor "
        "and high_pass include fMRIPrep's drift model, which replaces --drift-model",
        several=True,
    ),
    *TUNING_OPTIONS,
)


def add_betas(commands):
    """Add the command that estimates single trials to the parser of commands."""
    parser = commands.add_parser(
        "betas",
        help="estimate one image per trial from BOLD runs",
        usage="%(prog)s BOLD [BOLD ...] --events TABLE [TABLE ...] [options]",
        description="Estimate the response to each trial of BOLD runs with nilearn's "
        "models, and write one image per trial (.nii.gz; .dscalar.nii for "
        "CIFTI files), their table (.tsv) and the mask, with names "
        "beginning with BOLD_betas, for use with the commands searchlight "
        "and regions.",
    )
    parser.add_argument(
        "images",
        metavar="BOLD",
        type=Path,
        nargs="+",
        help="4D images on one grid, or .dtseries.nii files, one per run",
    )
    add_options(parser, (*RUNS_OPTIONS, *BETAS_OPTIONS, *DRIFT_OPTIONS))
    parser.add_argument(
        "--raw-units",
        dest="signal_scaling",
        action="store_const",
        const=False,
        default=0,
        help="estimates in the units of the data instead of per cent of a voxel's mean",
    )
    add_out(parser, ".")
    parser.set_defaults(run=_run_betas, command="betas")


def _run_betas(arguments):
    """Estimate single trials, write and report."""
    start = time.perf_counter()
    tables = *arguments.events, *(arguments.confounds or ())
    check_there(*arguments.images, *tables, arguments.mask_img)
    check_out(arguments.out, output_of(arguments).name)
    from .. import single_trial_betas
    from ..utils.checks import counted

    options = given(arguments, BETAS_OPTIONS) | _drifts(arguments)
    confounds, sample_masks = _confounds(arguments)
    betas = single_trial_betas(
        arguments.images,
        arguments.events,
        confounds=confounds,
        sample_masks=sample_masks,
        signal_scaling=arguments.signal_scaling,
        **options,
    )
    files, advice = _write(betas, output_of(arguments))
    types = betas.table["trial_type"].value_counts().sort_index().items()
    timing = betas.parameters
    tell(
        f"Estimated {counted(len(betas.table), 'trial')} of "
        f"{counted(len(arguments.images), 'run')} by {arguments.method}: "
        f"{', '.join(f'{name} {n}' for name, n in types)}",
        f"TR {timing['t_r']:g} s, slice times at {timing['slice_time_ref']:g} of the "
        f"TR ({timing['slice_time_ref_from']}); {_word_drifts(timing)}",
        f"Wrote {', '.join(map(str, files))}",
        f"Decode them: {advice}",
        f"Took {time.perf_counter() - start:.1f} s",
    )


def _drifts(arguments):
    """Return the model of drifts, none where confounds of fMRIPrep model them."""
    options = {
        name: value
        for name, value in given(arguments, DRIFT_OPTIONS).items()
        if value is not None
    }
    from ..data.bold import models_drifts

    if arguments.strategy and models_drifts(arguments.strategy):
        flags = [
            option.flag
            for option in DRIFT_OPTIONS
            if options.get(option.argument, "none") != "none"
        ]
        if flags:
            raise ValueError(
                f"--fmriprep {' '.join(arguments.strategy)} uses fMRIPrep's drift "
                f"model, and {' and '.join(flags)} would add another. Leave one of "
                "them out."
            )
        options["drift_model"] = "none"
    none = options.get("drift_model") == "none"
    return options | ({"drift_model": None} if none else {})


def _word_drifts(parameters):
    """Word the drift model."""
    model = parameters["drift_model"]
    if model == "cosine":
        return f"drifts slower than {parameters['high_pass']:g} Hz"
    return "no drift model other than confounds" if model is None else f"{model} drifts"


def _write(betas, stem):
    """Write images, their table and the mask; return files, and how to decode them."""
    from nibabel.cifti2 import Cifti2Image, ParcelsAxis

    from ..utils.files import write_whole
    from .output import save_table

    ending, more = ".nii.gz", ""
    if isinstance(betas.imgs, Cifti2Image):
        parcels = isinstance(betas.imgs.header.get_axis(1), ParcelsAxis)
        ending = ".pscalar.nii" if parcels else ".dscalar.nii"
    image, table = (stem.with_name(stem.name + e) for e in (ending, ".tsv"))
    write_whole(image, betas.imgs.to_filename)
    save_table(betas.table, table, sep="\t", na_rep="n/a")
    files = [image, table]
    if betas.mask_img is not None:
        files.append(stem.with_name(f"{stem.name}_mask{ending}"))
        write_whole(files[-1], betas.mask_img.to_filename)
        more = f" --mask {files[-1]}"
    command = "regions" if ending == ".pscalar.nii" else "searchlight"
    return files, (
        f"mvpa-kfda {command} {image} --labels {table} --label-column trial_type "
        f"--groups run{more}"
    )


def _confounds(arguments):
    """Return regressors of no interest and the scans to keep, or None, for each run."""
    columns, paths = arguments.confound_columns, arguments.confounds
    if arguments.strategy:
        if paths or columns:
            raise ValueError(
                "Use either --fmriprep or --confounds, not both: each says which "
                "regressors of no interest there are."
            )
        from ..data.bold import read_fmriprep

        tuned = given(arguments, TUNING_OPTIONS)
        strategy = arguments.strategy
        return read_fmriprep(arguments.images, strategy, tuned, "--fmriprep")
    for option in TUNING_OPTIONS:
        if getattr(arguments, option.argument) is not None:
            raise ValueError(
                f"{option.flag} tunes confounds of fMRIPrep. Add --fmriprep STRATEGY, "
                "or leave it out."
            )
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
        table.attrs["file"] = str(path)  # what messages call it
    return [table[columns] for table in tables], None
