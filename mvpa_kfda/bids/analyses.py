"""What is done with the trials of a subject: one entry for each analysis.

Options of an analysis are the arguments of the public function that makes it.
"""

import inspect
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from ..decoding.epochs import decode_epochs, generalize_epochs
from ..decoding.images import decode_regions, searchlight
from ..inference.corrections import CORRECTIONS
from .epochs import picks_of
from .events import LABEL
from .find import HEAD

#: Options of reading epochs and images of trials; some mean one thing to EEG and
#: another to fMRI, and are in neither list.
_OF_EPOCHS = ("low_pass", "tmin", "tmax", "baseline", "reject", "resample")
_OF_IMAGES = (
    *("estimate", "delay", "block_gap", "slice_time_ref", "smoothing_fwhm"),
    *("fd_threshold", "std_dvars_threshold", "n_compcor", "keep_betas"),
)
#: Arguments of functions, and options of that name that are something else.
_OTHERS = ("task", "confounds")


@dataclass(frozen=True)
class NamedAnalysis:
    """An analysis that ``--analysis`` names."""

    function: Callable  #: the public one
    images: bool = False  #: of images, else of epochs
    maps: bool = False  #: whether its positions are voxels, in maps

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
        values = {n: x for n, x in (options | method).items() if n != "task"}
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
    "searchlight": NamedAnalysis(searchlight, images=True, maps=True),
    "regions": NamedAnalysis(decode_regions, images=True),
}
