"""The command for single trials of BOLD runs: ``mvpa-kfda betas``.

The packages that read images are imported inside functions: ``--help`` needs none.
"""

import time

from ..utils.text import tell
from .command import Command, Out, check_out, check_there
from .decoding import output_of


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
    from .reading import check_volumes

    check_volumes(given.images)
    read = _fmriprep if given.fmriprep else _confounds
    options |= read(given, tables, options)
    betas = single_trial_betas(given.images, given.events, **options)
    files, advice = _write(betas, stem)
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


def _fmriprep(given, paths, options):
    """Confounds of fMRIPrep and the scans to keep, without drifts if it models them."""
    from ..data.bold import TUNES, models_drifts, read_fmriprep

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


def _confounds(given, paths, _):
    """Regressors of no interest that are read from tables."""
    from ..data.bold import TUNES
    from ..data.images import read_table

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
        more = f" --mask-img {files[-1]}"
    command = "regions" if ending == ".pscalar.nii" else "searchlight"
    return files, (
        f"mvpa-kfda {command} {image} --labels {table} --label-column trial_type "
        f"--groups run{more}"
    )


COMMAND = Command(run_betas, (Out, Tuning, Runs), "single_trial_betas")
