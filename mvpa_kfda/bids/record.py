"""What a result records of the recordings that its trials were made of."""

from .epochs import window_of
from .find import entities_of

#: Options of the kinds of recordings that results record as they were given.
_OPTIONS = {
    "raw": ("high_pass", "low_pass", "baseline", "reject", "resample"),
    "epochs": ("resample",),
    "images": (),
}
#: Facts of trials -> fields of the record.
_FACTS = {
    "Estimate": "estimate",
    "HrfModel": "hrf_model",
    "RepetitionTime": "t_r",
    "SliceTimeRef": "slice_time_ref",
    "SmoothingFWHM": "smoothing_fwhm",
    "Delay": "delay",
    "BlockGap": "block_gap",
    "MaskFrom": "mask",
    "MaskVoxels": "n_mask_voxels",
}


def with_recordings(result_parameters, inputs, trials, options):
    """Return the parameters of a result with those of its recordings."""
    about, kind = trials.about, inputs.kind
    record = {
        "kind": kind,
        "n_runs": len(about["TrialsPerRun"]),
        "by": options["by"],
        "where": options["where"],
        "space": entities_of(inputs.runs[0].path).get("space"),
        **{name: options[name] for name in _OPTIONS.get(kind, ())},
        **{
            to: trials.about[fact]
            for fact, to in _FACTS.items()
            if fact in trials.about
        },
    }
    if kind == "raw":
        record["tmin"], record["tmax"] = window_of(options)
    if kind == "bold":
        record |= _of_scans(about, options)
    return result_parameters | {"recordings": record}


def _of_scans(about, options):
    """Return what was taken out of scans, and how many were left out."""
    given = about["HighPass"]
    return {
        "high_pass": None if isinstance(given, str) else given,
        "confounds": options["confounds"] or ["motion"],
        **{n: options[n] for n in ("fd_threshold", "std_dvars_threshold", "n_compcor")},
        "n_confound_regressors": len(about["Confounds"]),
        "n_scans_left_out": sum(about["ScansLeftOut"].values()),
    }
