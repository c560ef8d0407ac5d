"""What a result records of the recordings that its trials were made of."""

from ..data.bold import tuning_of
from .bold import OF_MODELS
from .epochs import BASELINE, window_of
from .find import entities_of

#: Options of the kinds of recordings that results record as they were given.
_OPTIONS = {
    "raw": ("high_pass", "low_pass", "reject", "resample"),
    "epochs": ("resample",),
}
#: Facts of trials -> fields of the record.
_FACTS = {
    "Estimate": "estimate",
    **OF_MODELS,
    "RepetitionTime": "t_r",
    "SliceTimeRef": "slice_time_ref",
    "ScansPerRun": "n_scans",
    "SmoothingFWHM": "smoothing_fwhm",
    "Echo": "echo",
    "Delay": "delay",
    "BlockGap": "block_gap",
    "MaskFrom": "mask",
    "MaskVoxels": "n_mask_voxels",
}


def with_recordings(result_parameters, inputs, trials, options):
    """The parameters of a result with those of its recordings."""
    about, kind = trials.about, inputs.kind
    entities = [entities_of(run.path) for run in inputs.runs]
    group = None
    if trials.groups is not None:  # sessions where each has one run
        single = len({each.get("ses") for each in entities}) == len(entities)
        group = "session" if single else "run"
    record = {
        "kind": kind,
        "n_runs": len(about["TrialsPerRun"]),
        "group": group,
        "by": options["by"],
        "where": options["where"],
        "space": entities[0].get("space"),
        **({"entity": options["entity"]} if options["entity"] else {}),
        **{name: options[name] for name in _OPTIONS.get(kind, ())},
        **{to: about[fact] for fact, to in _FACTS.items() if fact in about},
    }
    if kind == "raw":
        record["tmin"], record["tmax"] = window_of(options)
        record["baseline"] = options["baseline"] or list(BASELINE)
    if kind == "bold":
        given, strategy = about["HighPass"], options["confounds"] or ["motion"]
        of_fmriprep = isinstance(given, str)
        own_model = "filter" if options["estimate"] == "blocks" else "cosine"
        record |= {
            "drift_model": "fMRIPrep" if of_fmriprep else own_model,
            **({} if of_fmriprep else {"high_pass": given}),
            "confounds": strategy,
            **tuning_of(strategy, options),
            "n_confound_regressors": len(about["Confounds"]),
            "n_scans_left_out": sum(about["ScansLeftOut"].values()),
        }
    return result_parameters | {"recordings": record}
