"""The command for BIDS datasets: ``mvpa-kfda bids``.

Options are fields of classes, whose docstrings are their help, and the arguments of
functions. Those that are not given are looked up in the file of --config, and last
there.
"""

import re
from dataclasses import KW_ONLY, dataclass
from pathlib import Path
from typing import Literal

from ..inference.listed import CLUSTER_FDR, CorrectionName
from ..utils.text import tell
from .betas import Tuning
from .command import (
    Command,
    add_option,
    check_there,
    made,
    options_in,
    options_of,
    single,
    tell_of,
)
from .decoding import DEFAULTS

#: Corrections of both levels.
AnyCorrection = Literal[CorrectionName, CLUSTER_FDR]


@dataclass(kw_only=True)
class Selection:
    """What is decoded; both levels take these.

    Parameters
    ----------
    derivatives
        preprocessed data: output of fMRIPrep or MNE-BIDS-Pipeline (default: BIDS_DIR)
    participant_label
        subjects, with or without sub- (default: all)
    session
        sessions (default: all, with their runs decoded together)
    task
        tasks, decoded separately (default: all)
    space
        space of images, e.g. MNI152NLin2009cAsym:res-2; none: that of the scanner
    desc
        name of the analysis in file names (default: that of --analysis). Use different
        names to keep results of different settings
    correction
        corrections for multiple testing; cluster-fdr is for groups only (default: max;
        holm for i-test)
    """

    derivatives: Path | None = None
    participant_label: list[str] | None = None
    session: list[str] | None = None
    task: list[str] | None = None
    space: str | None = None
    desc: str | None = None
    correction: list[AnyCorrection] | None = None


@dataclass(kw_only=True)
class Data:
    """What is read, and how.

    Parameters
    ----------
    run_label
        runs (default: all)
    entity
        of several files of a run decode those named so, e.g. desc-denoised, echo-2, or
        echo-none for those without an echo (default for fMRI: desc-preproc)
    datatype
        type of data to decode if there are several; func is fMRI
    by
        classes: a column of the events, or an expression on columns such as
        "trial_type.str.startswith('face')". Events with n/a are left out
    where
        decode only events that match, e.g. "trial_type in ['face', 'house']"
    train_on
        train on events that match, and test on the others
    max_dropped
        largest percentage of lost events: without an onset, outside the recording,
        without signal, in tables without the column. With more, the subject fails.
        Events left out by --where and --reject are not counted
    analysis
        decode at each time, train at one time and test at others, decode around each
        voxel, or in regions (default: time for EEG and MEG, searchlight for fMRI)
    high_pass
        raw EEG and MEG: lower cut-off frequency of the filter in Hz; fMRI: cut-off
        frequency of drifts (default: 0.01)
    confounds
        EEG and MEG: columns of the events that are regressed out of the signals, with
        coefficients from the training trials of each fold; fMRI: confounds of the
        scans, as named by nilearn.interfaces.fmriprep.load_confounds, e.g. motion
        wm_csf scrub, or none (default: motion). compcor includes fMRIPrep's drift
        model, which replaces --high-pass
    """

    run_label: list[str] | None = None
    entity: list[str] | None = None
    datatype: Literal["eeg", "meg", "ieeg", "func"] | None = None
    by: str = "trial_type"
    where: str | None = None
    train_on: str | None = None
    max_dropped: float = 5.0
    analysis: Literal["time", "generalization", "searchlight", "regions"] | None = None
    high_pass: float | None = None
    confounds: list[str] | None = None


@dataclass(kw_only=True)
class Head:
    """Options of EEG and MEG.

    Parameters
    ----------
    low_pass
        raw recordings: upper cut-off frequency of the filter in Hz
    tmin
        start of epochs in seconds (default: -0.2, or that of saved epochs)
    tmax
        end of epochs in seconds (default: 0.5, or that of saved epochs)
    baseline
        raw recordings: start and end of the baseline in seconds, none for the start or
        end of the epoch, or a single none for no baseline (default: none 0)
    reject
        raw recordings: reject epochs with larger peak-to-peak amplitudes, TYPE=LIMIT,
        e.g. eeg=150e-6 (V; MEG: T)
    resample
        sampling rate in Hz to which epochs are resampled (default: that of the
        recording)
    picks
        channels, e.g. Cz,Pz (default: all good ones)
    sensors
        searchlight: decode each sensor with its neighbours
    scale
        auto: if there are several channel types, divide each type by its standard
        deviation; channel: divide each channel by its own; none: no scaling
    window
        window length in seconds (default: single samples)
    step
        step between windows in seconds
    window_mode
        average the samples of a window, or use all of them as features
    """

    low_pass: float | None = None
    tmin: float | None = None
    tmax: float | None = None
    baseline: list[str] | None = None
    reject: list[str] | None = None
    resample: float | None = None
    picks: list[str] | None = None
    sensors: bool = False
    scale: Literal["auto", "channel", "none"] = "auto"
    window: float | None = None
    step: float | None = None
    window_mode: Literal["mean", "concatenate"] = "mean"


@dataclass(kw_only=True)
class Func(Tuning):
    """Options of fMRI.

    Parameters
    ----------
    estimate
        image of each trial: least squares separate (lss) or all (lsa), mean over its
        scans (blocks), or existing images (*_betaseries.nii.gz with a table)
    slice_time_ref
        reference time of slices as a fraction of a scan, from 0 to 1 (default:
        StartTime in the .json file of each run, as written by fMRIPrep, otherwise 0)
    delay
        with --estimate blocks, haemodynamic delay in seconds
    block_gap
        with --estimate blocks, join events of one class into a block if they begin at
        most so many seconds after the previous one ended (default: each event is a
        block)
    smoothing_fwhm
        full width at half maximum in mm
    mask_img
        voxels to decode (default: the intersection of the brain masks of all runs)
    radius
        radius of the spheres in mm
    labels_img
        image with the region number of each voxel, or 4D image with a probability map
        per region; without it all voxels of the mask form one region
    lut
        names of the regions, a table (.tsv, .csv) with columns index and name
    keep_betas
        also save the single-trial images (*_betaseries.nii.gz), which other analyses of
        the same trials then reuse
    """

    estimate: Literal["lss", "lsa", "blocks", "images"] = "lss"
    slice_time_ref: float | None = None
    delay: float = 5.0
    block_gap: float | None = None
    smoothing_fwhm: float | None = None
    mask_img: Path | None = None
    radius: float = 8.0
    labels_img: Path | None = None
    lut: Path | None = None
    keep_betas: bool = False


@dataclass(kw_only=True)
class Name:
    """The option that tells tests of a group apart.

    Parameters
    ----------
    name
        name of the test, appended to that of the analysis in file names. Use different
        names to keep the results of different tests
    """

    name: str | None = None


#: Arguments of the functions: of all that decode, and of `group_inference`.
DECODING = (
    *("kernel", "reg", "approx", "preprocess", "cv", "scoring", "n_permutations"),
    *("random_state", "n_jobs", "n_components", "average", "n_repeats", "equalize"),
    "average_test",
)
TESTING = (
    *("method", "order", "hypothesis", "alternative", "metric", "n_permutations"),
    *("alpha", "threshold", "random_state"),
)
#: What every level takes, by the heading in the help: classes, and arguments of a
#: function with their defaults.
LEVELS = {
    "participant": {
        "data": Selection,
        "input": Data,
        "EEG and MEG": Head,
        "fMRI": Func,
        "decoding": ("decode_epochs", DEFAULTS, DECODING),
    },
    "group": {
        "data": Selection,
        "level group": Name,
        "tests": ("group_inference", {"random_state": 0}, TESTING),
    },
}
#: What is called otherwise than in the functions.
SHORT = {"run_label": "run"}
#: Options that are files.
_FILES = ("mask_img", "labels_img", "lut")
#: The page that links all others, as `bids.write` calls it.
OVERVIEW = "index.html"


def option_groups(level):
    """The options of a level by their keys, flags without dashes, in their groups."""
    groups = {}
    for title, kind in LEVELS[level].items():
        found = options_of(*kind) if isinstance(kind, tuple) else options_in(kind)
        keys = [SHORT.get(each.argument, each.argument) for each in found]
        keys = [key.replace("_", "-") for key in keys]
        groups[title] = dict(zip(keys, found, strict=True))
    return groups


def keys_of(level):
    """The options of a level by their keys."""
    return {
        k: each for group in option_groups(level).values() for k, each in group.items()
    }


def participant_options():
    """The options of the level participant, by what the functions call them."""
    return {option.argument: option for option in keys_of("participant").values()}


@dataclass
class Dataset:
    """A dataset.

    Parameters
    ----------
    bids_dir
        the dataset
    output_dir
        the derivative dataset
    level
        level of the analysis
    config
        TOML file of options; the command line takes precedence
    """

    bids_dir: Path
    output_dir: Path
    level: Literal["participant", "group"]
    _: KW_ONLY
    config: Path | None = None


class _Bids(Command):
    """The command, whose options are those of its levels."""

    def add_to(self, parser):
        """Add all that is given to a parser."""
        super().add_to(parser)
        known = set()
        for level in LEVELS:
            for title, options in option_groups(level).items():
                new = {key: x for key, x in options.items() if key not in known}
                known |= {*new}
                group = parser.add_argument_group(title) if new else None
                for key, option in new.items():
                    add_option(group, option, key)

    def __call__(self, arguments):
        """Run the command with what was parsed; return the exit status."""
        return self.run(vars(arguments))


def run_bids(given):
    """Decode the subjects of a BIDS dataset, then test the group.

    A derivative dataset is written: results (.h5), tables (.tsv), maps (.nii.gz) and
    reports (.html), each with a JSON file. Existing results are not computed again
    unless their input or options have changed. Runs are the groups of the
    cross-validation. The exit status is 1 if a subject failed and others did not, and 2
    if nothing could be done.
    """
    from ..bids import app

    level = given["level"]
    settled, config = _settle(level, given)
    if level == "participant":
        check_there(*(settled[name] for name in _FILES))
        if CLUSTER_FDR in settled["correction"]:
            raise ValueError(
                "--correction cluster-fdr is for the level group only. Use another one "
                "here."
            )
        method = {name: made(settled[name]) for name in DECODING}
        outcomes = app.participants(settled, method, config)
    else:
        method = {name: settled[name] for name in ("correction", *TESTING)}
        outcomes = app.group(settled, method, config)
    done = []
    try:
        for outcome in outcomes:
            done.append(outcome)
            if outcome.state == "failed":
                tell_of("error: ", f"{outcome.name}: {outcome.words}")
            else:
                tell(f"{outcome.name}: {outcome.words}")
    except KeyboardInterrupt:
        raise KeyboardInterrupt("stopped; run the same command to continue") from None
    finally:
        for text in _word_warnings(done):
            tell_of("warning: ", text)
    failed = sum(outcome.state == "failed" for outcome in done)
    words = f"{failed} of {len(done)} failed"
    if failed == len(done):
        tell(f"Wrote no result: {words}")
        return 2
    overview = settled["output_dir"] / OVERVIEW
    tell(f"Wrote {settled['output_dir']}{f'; {words}' if failed else ''}")
    tell(f"See {overview}")
    return 1 if failed else 0


def _settle(level, given):
    """All options of the level, and what is known of them for the file."""
    options = {name: keys_of(name) for name in LEVELS}
    own = options[level]
    arguments_of = {option.argument for option in own.values()}
    for other in LEVELS:
        for key, option in options[other].items():
            if option.argument in given and option.argument not in arguments_of:
                raise ValueError(
                    f"--{key} does not apply to the level {level}. Leave it out."
                )
    read = {}
    if "config" in given:
        from ..bids.config import read_config

        read = read_config(given["config"], level, options)
    settled = {o.argument: o.default for o in own.values()} | read
    settled |= {name: given[name] for name in arguments_of if name in given}
    for name in {*DECODING, *TESTING} & {*settled}:
        settled[name] = single(settled[name])
    by_default = "holm" if settled.get("method") == "i-test" else "max"
    settled["correction"] = settled["correction"] or [by_default]
    explicit = {*read, *given}
    config = {
        o.argument: (key, settled[o.argument], o.argument in explicit)
        for key, o in own.items()
    }
    places = {name: given[name] for name in ("bids_dir", "output_dir")}
    return settled | places, config


def _word_warnings(outcomes):
    """Every warning once, with those whom it is about; numbers may differ."""
    subjects = {each.subject for each in outcomes if each.subject is not None}
    alike = {}
    for outcome in outcomes:
        for text in outcome.warnings:
            key = re.sub(r"'[^']*'|\S*\d\S*", "#", text)
            alike.setdefault(key, {}).setdefault(text, []).append(outcome)
    for texts in alike.values():
        text, about = next(iter(texts.items()))
        concerned = [each for several in texts.values() for each in several]
        shared = {each.subject for each in concerned}
        if len(shared) < 2:
            for text, about in texts.items():
                yield f"{', '.join(dict.fromkeys(o.name for o in about))}: {text}"
            continue
        differ = (
            f" (The numbers are those of {about[0].name}.)" if len(texts) > 1 else ""
        )
        yield f"{len(shared)} of {len(subjects)} subjects: {text}{differ}"


COMMAND = _Bids(run_bids, Dataset)
