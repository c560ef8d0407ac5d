"""The command for single trials of BOLD runs: ``mvpa-kfda betas``.

The packages that read images are imported inside functions: ``--help`` needs none.
"""

import time
from pathlib import Path

from .common import Option, add_options, add_out, check_out, check_there, given
from .images import output_of

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
    stem = output_of(arguments)
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
