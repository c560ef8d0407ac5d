"""What is done with the trials of a subject: one entry for each analysis."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from ..decoding.epochs import decode_epochs, generalize_epochs
from ..decoding.images import decode_regions, searchlight
from ..inference.corrections import CORRECTIONS
from .epochs import picks_of
from .find import HEAD
from .trials import LABEL

#: Options that only some analyses have a use for; some mean one thing to EEG and
#: another to fMRI, and are in neither list.
_EPOCHS = (
    *("low_pass", "tmin", "tmax", "baseline", "reject", "resample", "picks", "scale"),
    *("window", "step", "window_mode"),
)
#: Options of all that makes images of trials.
_IMAGES = (
    *("estimate", "delay", "block_gap", "slice_time_ref", "smoothing_fwhm"),
    *("fd_threshold", "std_dvars_threshold", "n_compcor", "mask_img", "keep_betas"),
)


@dataclass(frozen=True)
class NamedAnalysis:
    """An analysis that ``--analysis`` names."""

    decode: Callable  #: (trials, options, method, checkpoint) -> result
    images: bool  #: of images, else of epochs
    own: tuple  #: options that not all analyses have a use for
    maps: bool = False  #: whether its positions are voxels, in maps

    def desc(self, name, options):
        """Return what the analysis is called in the names of files."""
        return "sensors" if "sensors" in self.own and options["sensors"] else name

    def unused(self):
        """Return the options that are for other analyses only."""
        return {n for each in ANALYSES.values() for n in each.own} - {*self.own}

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
            if self.decode is not _decode_times or config["sensors"][1]:
                raise ValueError(
                    f"--correction {correction} is for time courses, which --analysis "
                    "time makes without --sensors. Take max, cluster or tfce."
                )
        for option in sorted(self.unused()):
            key, _, given = config[option]
            if given:
                raise ValueError(
                    f"--{key} is not for --analysis {name} of {unit.datatype} data. "
                    "Leave it out."
                )


def _labels(trials):
    """Return the labels of trials as an array."""
    return np.array(trials.table[LABEL].tolist())


def _of_epochs(trials, options, method):
    """Return the arguments of the functions that decode epochs."""
    same = ("train_on", "confounds", "window", "step", "window_mode")
    return {
        "groups": trials.groups,
        "picks": picks_of(options),
        "scale": None if options["scale"] == "none" else options["scale"],
        **{name: options[name] for name in same},
        **method,
    }


def _decode_times(trials, options, method, checkpoint):
    """Decode at every time."""
    arguments = _of_epochs(trials, options, method)
    sensors = "adjacency" if options["sensors"] else None
    return decode_epochs(trials.data, _labels(trials), sensors=sensors, **arguments)


def _null(options):
    """Return what to keep of the permutations' maps, enough for all corrections."""
    needs = {CORRECTIONS[name].needs for name in options["correction"]}
    return "full" if None in needs else "auto"


def _generalize(trials, options, method, checkpoint):
    """Train at every time and test at every other."""
    arguments = _of_epochs(trials, options, method) | {"null": _null(options)}
    return generalize_epochs(trials.data, _labels(trials), **arguments)


def _of_images(trials, options, method):
    """Return the arguments of the functions that decode images."""
    return {
        "groups": trials.groups,
        "train_on": options["train_on"],
        "mask_img": trials.mask_img,
        "null": _null(options),
        **method,
    }


def _decode_spheres(trials, options, method, checkpoint):
    """Decode around every voxel."""
    arguments = _of_images(trials, options, method)
    return searchlight(
        trials.data,
        (trials.table, LABEL),
        radius=options["radius"],
        checkpoint=checkpoint,
        **arguments,
    )


def _decode_atlas(trials, options, method, checkpoint):
    """Decode in every region of an atlas, or in the whole mask."""
    arguments = _of_images(trials, options, method)
    return decode_regions(
        trials.data,
        (trials.table, LABEL),
        labels_img=options["labels_img"],
        lut=options["lut"],
        checkpoint=checkpoint,
        **arguments,
    )


#: The analyses by name; the first of each kind of data is the default.
ANALYSES = {
    "time": NamedAnalysis(_decode_times, False, (*_EPOCHS, "sensors")),
    "generalization": NamedAnalysis(_generalize, False, _EPOCHS),
    "searchlight": NamedAnalysis(
        _decode_spheres, True, (*_IMAGES, "radius"), maps=True
    ),
    "regions": NamedAnalysis(_decode_atlas, True, (*_IMAGES, "labels_img", "lut")),
}
