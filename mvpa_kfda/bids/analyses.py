"""What is done with a subject: trials are read, decoded, and what they are is recorded.

There is one entry for each kind of recordings, and one for each analysis, whose options
are the arguments of the public function that makes it.
"""

import inspect
from collections.abc import Callable
from dataclasses import dataclass, replace
from importlib import import_module

import numpy as np

from ..data.bold import tuning_of
from ..decoding.epochs import decode_epochs, generalize_epochs
from ..decoding.images import decode_regions, searchlight
from ..inference.corrections import CORRECTIONS
from .bold import OF_ESTIMATES, OF_MODELS, read_bold, read_series, unused_by
from .epochs import (
    BASELINE,
    picks_of,
    read_epochs,
    read_raw,
    window_of,
)
from .events import LABEL
from .find import HEAD, entities_of

#: Kinds of recordings -> what reads their trials.
READERS = {
    "epochs": read_epochs,
    "raw": read_raw,
    "bold": read_bold,
    "images": read_series,
}
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
#: Options of reading epochs and images of trials; some mean one thing to EEG and
#: another to fMRI, and are in neither list.
_OF_EPOCHS = ("low_pass", "tmin", "tmax", "baseline", "reject", "resample")
_OF_IMAGES = {"estimate", *OF_ESTIMATES} - {"confounds", "high_pass"}
#: Arguments of functions, and options of that name that are something else.
_OTHERS = ("task", "confounds")


def check_readers(units):
    """Refuse recordings that nothing here can read, before any is read."""
    if any(unit.kind == "raw" for unit in units):
        try:
            import_module("mne_bids")
        except ImportError:
            raise ValueError(
                "Raw recordings are read by MNE-BIDS, which is not installed: "
                'pip install "mvpa-kfda[bids]"'
            ) from None


def read_trials(inputs, options):
    """The `TrialInputs` of the `Inputs` of a unit, of which nothing else is read."""
    trials = READERS[inputs.kind](inputs, options)
    inputs.check_unchanged()
    return trials


@dataclass(frozen=True)
class NamedAnalysis:
    """An analysis that ``--analysis`` names."""

    function: Callable  #: the public one
    images: bool = False  #: of images, else of epochs

    @property
    def own(self):
        """Arguments, and options of reading, that not all analyses have a use for."""
        arguments = {*inspect.signature(self.function).parameters} - {*_OTHERS}
        return arguments.union(_OF_IMAGES if self.images else _OF_EPOCHS)

    def unused(self):
        """What is for other analyses only."""
        return set().union(*(each.own for each in ANALYSES.values())) - self.own

    def check(self, name, unit, config):
        """Refuse data of the other kind, and options of other analyses.

        `config` maps options to their keys, their values, and whether they were given.
        """
        if self.images == (unit.datatype in HEAD):
            fitting = [n for n, each in ANALYSES.items() if each.images != self.images]
            raise ValueError(
                f"--analysis {name} is not for {unit.datatype} data. For these take "
                f"{' or '.join(fitting)}."
            )
        of_courses = {name for name, x in CORRECTIONS.items() if x.of_courses}
        for correction in sorted({*config["correction"][1]} & of_courses):
            if name != "time" or config["sensors"][1]:
                raise ValueError(
                    f"--correction {correction} is for time courses, which --analysis "
                    "time makes without --sensors. Take max, cluster or tfce."
                )
        for option in sorted(self.unused() & {*config}):
            key, _, given = config[option]
            if given:
                raise ValueError(
                    f"--{key} is not for --analysis {name} of {unit.datatype} data. "
                    "Leave it out."
                )

    def decode(self, trials, options, method, checkpoint):
        """The result of trials; `method` has the arguments of all that decodes."""
        # Of the permutations' maps what is enough for all corrections is kept.
        needs = {CORRECTIONS[name].needs for name in options["correction"]}
        values = options | method
        values["task"] = "regression" if options["regression"] else "classification"
        values |= {"null": "full" if None in needs else "auto"}
        values |= {"groups": trials.groups, "checkpoint": checkpoint}
        if self.images:
            labels = trials.table, LABEL
            values["mask_img"] = trials.mask_img
            del values["confounds"]  # of scans
        else:
            labels = np.array(trials.table[LABEL].tolist())
            values["picks"] = picks_of(options)
            values["scale"] = None if options["scale"] == "none" else options["scale"]
            values["sensors"] = "adjacency" if options["sensors"] else None
        arguments = inspect.signature(self.function).parameters
        given = {name: values[name] for name in arguments if name in values}
        return self.function(trials.data, labels, **given)


#: The analyses by name; the first of each kind of data is the default.
ANALYSES = {
    "time": NamedAnalysis(decode_epochs),
    "generalization": NamedAnalysis(generalize_epochs),
    "searchlight": NamedAnalysis(searchlight, images=True),
    "regions": NamedAnalysis(decode_regions, images=True),
}


def unused_options(options):
    """The options of which neither the analysis nor the way to its images has use."""
    if "analysis" not in options:  # of a group
        return set()
    analysis = ANALYSES[options["analysis"]]
    return analysis.unused().union(
        unused_by(options["estimate"]) if analysis.images else ()
    )


def with_recordings(result, inputs, trials, options):
    """A result that records what its trials were made of."""
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
    return replace(result, parameters=result.parameters | {"recordings": record})
