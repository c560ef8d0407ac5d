"""The command for BIDS datasets: ``mvpa-kfda bids``.

Options stand in tables, one for each level, of which the parser is made. Those that are
not given are looked up in the file of --config, and last in the tables.
"""

import argparse
import re
from pathlib import Path

from ..inference.listed import CLUSTER_FDR
from ..utils.text import tell
from .betas import SLICE_TIME_REF, TUNING_OPTIONS
from .common import (
    ANALYSIS_OPTIONS,
    CORRECTIONS,
    METRICS,
    WINDOWS,
    Option,
    add_options,
    analysis_arguments,
    check_penalty,
    check_there,
)
from .group import GROUP_OPTIONS
from .images import REGIONS_OPTIONS, SEARCHLIGHT_OPTIONS

ANALYSES = ("time", "generalization", "searchlight", "regions")

#: What is decoded; both levels take these.
CHOICE_OPTIONS = (
    Option(
        "--participant-label",
        "participant_label",
        "LABEL",
        "subjects, with or without sub- (default: all)",
        several=True,
    ),
    Option(
        "--session",
        "session",
        "LABEL",
        "sessions (default: all, with their runs decoded together)",
        several=True,
    ),
    Option(
        "--task",
        "task",
        "LABEL",
        "tasks, decoded separately (default: all)",
        several=True,
    ),
    Option(
        "--space",
        "space",
        "SPACE",
        "space of images, e.g. MNI152NLin2009cAsym:res-2; none: that of the scanner",
    ),
    Option(
        "--desc",
        "desc",
        "NAME",
        "name of the analysis in file names (default: that of --analysis). Use "
        "different names to keep results of different settings",
    ),
)
#: What is read, and how.
DATA_OPTIONS = (
    Option("--run", "run_label", "LABEL", "runs (default: all)", several=True),
    Option(
        "--entity",
        "entity",
        "NAME-VALUE",
        "of several files of a run decode those named so, e.g. desc-denoised, echo-2, "
        "or echo-none for those without an echo (default for fMRI: desc-preproc)",
        several=True,
    ),
    Option(
        "--datatype",
        "datatype",
        ("eeg", "meg", "ieeg", "func"),
        "type of data to decode if there are several; func is fMRI",
    ),
    Option(
        "--by",
        "by",
        "COLUMN",
        "classes: a column of the events, or an expression on columns such as "
        "\"trial_type.str.startswith('face')\". Events with n/a are left out",
        default="trial_type",
    ),
    Option(
        "--where",
        "where",
        "QUERY",
        "decode only events that match, e.g. \"trial_type in ['face', 'house']\"",
    ),
    Option(
        "--train-on",
        "train_on",
        "QUERY",
        "train on events that match, and test on the others",
    ),
    Option(
        "--max-dropped",
        "max_dropped",
        "PERCENT",
        "largest percentage of lost events: without an onset, outside the recording, "
        "without signal, in tables without the column. With more, the subject fails. "
        "Events left out by --where and --reject are not counted",
        float,
        5.0,
    ),
    Option(
        "--analysis",
        "analysis",
        ANALYSES,
        "decode at each time, train at one time and test at others, decode around each "
        "voxel, or in regions (default: time for EEG and MEG, searchlight for fMRI)",
    ),
)
#: Of both kinds of data, each with a meaning of its own.
BOTH_OPTIONS = (
    Option(
        "--high-pass",
        "high_pass",
        "HZ",
        "raw EEG and MEG: lower cut-off frequency of the filter; fMRI: cut-off "
        "frequency of drifts (default: 0.01)",
        float,
    ),
    Option(
        "--confounds",
        "confounds",
        "NAME",
        "EEG and MEG: columns of the events that are regressed out of the signals, "
        "with coefficients from the training trials of each fold; fMRI: confounds of "
        "the scans, as named by nilearn.interfaces.fmriprep.load_confounds, e.g. "
        "motion wm_csf scrub, or none (default: motion). compcor includes fMRIPrep's "
        "drift model, which replaces --high-pass",
        several=True,
    ),
)
#: Of EEG and MEG.
HEAD_OPTIONS = (
    Option(
        "--low-pass",
        "low_pass",
        "HZ",
        "raw recordings: upper cut-off frequency of the filter",
        float,
    ),
    Option(
        "--tmin",
        "tmin",
        "S",
        "start of epochs (default: -0.2, or that of saved epochs)",
        float,
    ),
    Option(
        "--tmax",
        "tmax",
        "S",
        "end of epochs (default: 0.5, or that of saved epochs)",
        float,
    ),
    Option(
        "--baseline",
        "baseline",
        "S",
        "raw recordings: start and end of the baseline in seconds, none for the start "
        "or end of the epoch, or a single none for no baseline (default: none 0)",
        several=True,
    ),
    Option(
        "--reject",
        "reject",
        "TYPE=LIMIT",
        "raw recordings: reject epochs with larger peak-to-peak amplitudes, e.g. "
        "eeg=150e-6 (V; MEG: T)",
        several=True,
    ),
    Option(
        "--resample",
        "resample",
        "HZ",
        "sampling rate to which epochs are resampled (default: that of the recording)",
        float,
    ),
    Option(
        "--picks",
        "picks",
        "P",
        "channels, e.g. Cz,Pz (default: all good ones)",
        several=True,
    ),
    Option(
        "--sensors",
        "sensors",
        "",
        "searchlight: decode each sensor with its neighbours",
        bool,
        False,
    ),
    Option(
        "--scale",
        "scale",
        ("auto", "channel", "none"),
        "auto: if there are several channel types, divide each type by its standard "
        "deviation; channel: divide each channel by its own; none: no scaling",
        default="auto",
    ),
    *WINDOWS,
    Option(
        "--window-mode",
        "window_mode",
        ("mean", "concatenate"),
        "average the samples of a window, or use all of them as features",
        default="mean",
    ),
)
#: What a trial of fMRI is.
ESTIMATES = ("lss", "lsa", "blocks", "images")
_FROM_IMAGES = ("radius", "labels_img", "lut")
_OF_IMAGES = {
    option.argument: option._replace(required=False)
    for option in (*SEARCHLIGHT_OPTIONS, *REGIONS_OPTIONS)
}
#: Of fMRI.
FUNC_OPTIONS = (
    Option(
        "--estimate",
        "estimate",
        ESTIMATES,
        "image of each trial: least squares separate (lss) or all (lsa), mean over its "
        "scans (blocks), or existing images (*_betaseries.nii.gz with a table)",
        default="lss",
    ),
    *TUNING_OPTIONS,
    SLICE_TIME_REF,
    Option(
        "--delay",
        "delay",
        "S",
        "with --estimate blocks, haemodynamic delay in seconds",
        float,
        5.0,
    ),
    Option(
        "--block-gap",
        "block_gap",
        "S",
        "with --estimate blocks, join events of one class into a block if they begin "
        "at most S seconds after the previous one ended (default: each event is a "
        "block)",
        float,
    ),
    Option(
        "--smoothing", "smoothing_fwhm", "MM", "full width at half maximum in mm", float
    ),
    Option(
        "--mask",
        "mask_img",
        "MASK",
        "voxels to decode (default: the intersection of the brain masks of all runs)",
        Path,
    ),
    *(_OF_IMAGES[name] for name in _FROM_IMAGES),
    Option(
        "--keep-betas",
        "keep_betas",
        "",
        "also save the single-trial images (*_betaseries.nii.gz), which other analyses "
        "of the same trials then reuse",
        bool,
        False,
    ),
)
#: The flag of the number of jobs that BIDS apps have.
_JOBS = "--n-jobs"
DECODING_OPTIONS = tuple(
    option._replace(flag=_JOBS) if option.argument == "n_jobs" else option
    for option in ANALYSIS_OPTIONS
)
CORRECTION = Option(
    "--correction",
    "correction",
    (*CORRECTIONS, CLUSTER_FDR),
    "corrections for multiple testing; cluster-fdr is for groups only (default: max; "
    "holm for i-test)",
    several=True,
)
#: Without a second group, whose option others' help names.
TESTING_OPTIONS = tuple(
    option._replace(help="(default: greater)")
    if option.argument == "alternative"
    else option
    for option in GROUP_OPTIONS
    if option.argument not in ("other", "correction")
)
NAME = Option(
    "--name",
    "name",
    "NAME",
    "name of the test, appended to that of the analysis in file names. Use different "
    "names to keep the results of different tests",
)
#: The options of every level, in the groups of the help.
LEVELS = {
    "participant": {
        "data": (*CHOICE_OPTIONS, *DATA_OPTIONS, *BOTH_OPTIONS),
        "EEG and MEG": HEAD_OPTIONS,
        "fMRI": FUNC_OPTIONS,
        "decoding": (*DECODING_OPTIONS, CORRECTION),
    },
    "group": {
        "data": CHOICE_OPTIONS,
        "level group": (CORRECTION, *TESTING_OPTIONS, NAME),
    },
}
#: Options that mean something of their own to each level.
_OF_BOTH = {
    "--permutations": Option(
        "--permutations",
        "n_permutations",
        "P",
        "number of label permutations (default: 1000); at the group level, of "
        "second-level permutations (default: see mvpa-kfda group --help)",
        int,
    )
}
#: Options that are files, by level.
_FILES_OF = {"participant": ("mask_img", "labels_img", "lut"), "group": ()}
#: What stands at the top of the help of both levels.
DERIVATIVES = Option(
    "--derivatives",
    "derivatives",
    "DIR",
    "preprocessed data: output of fMRIPrep or MNE-BIDS-Pipeline (default: BIDS_DIR)",
    Path,
)


def _options_of(level):
    """Return the options of a level by their keys, which are flags without dashes."""
    options = [DERIVATIVES, *(o for group in LEVELS[level].values() for o in group)]
    return {option.flag.removeprefix("--"): option for option in options}


def participant_options():
    """Return the options of the level participant, by what the functions call them."""
    options = _options_of("participant").values()
    return {option.argument: option for option in options}


def add_bids(commands):
    """Add the command to the parser of commands."""
    parser = commands.add_parser(
        "bids",
        help="decode the subjects of a BIDS dataset, then test the group",
        usage="%(prog)s BIDS_DIR OUTPUT_DIR participant|group [options]",
        description="Decode each subject of a BIDS dataset, or test the group, and "
        "write a derivative dataset: results (.h5), tables (.tsv), maps "
        "(.nii.gz) and reports (.html), each with a JSON file. Existing "
        "results are not computed again unless their input or options have "
        "changed.",
        epilog=f"Metrics: {', '.join(METRICS)}. Runs are the groups of the "
        "cross-validation. The exit status is 1 if a subject failed and others did "
        "not, and 2 if nothing could be done.",
    )
    parser.add_argument("bids_dir", metavar="BIDS_DIR", type=Path, help="the dataset")
    parser.add_argument(
        "output_dir", metavar="OUTPUT_DIR", type=Path, help="the derivative dataset"
    )
    parser.add_argument("level", choices=tuple(LEVELS), help="level of the analysis")
    parser.add_argument(
        "--config",
        type=Path,
        metavar="FILE",
        help="TOML file of options; the command line takes precedence",
    )
    known = set()
    for title, options in [
        ("input", (DERIVATIVES,)),
        *(item for level in LEVELS.values() for item in level.items()),
    ]:
        new = [o for o in options if o.flag not in known]
        known |= {option.flag for option in new}
        if not new:
            continue
        new = [_OF_BOTH.get(option.flag, option) for option in new]
        for action in add_options(parser.add_argument_group(title), new):
            action.default = argparse.SUPPRESS  # what is given can be told by this
    # As the other commands call it, whose messages have that name.
    hidden = {"default": argparse.SUPPRESS, "help": argparse.SUPPRESS}
    parser.add_argument("--jobs", dest="n_jobs", type=int, **hidden)
    # A message that names options of other commands is no help with a whole dataset.
    parser.set_defaults(run=_run_bids, command="bids")


def _run_bids(arguments):
    """Decode or test, report every subject; return the exit status."""
    from ..bids import app

    level = arguments.level
    settled, config = _settle(arguments)
    check_there(*(settled[n] for n in _FILES_OF[level] if settled[n] is not None))
    if level == "participant":
        outcomes = _participants(app, settled, config)
    else:
        outcomes = _group(app, settled, config)
    done = []
    try:
        for outcome in outcomes:
            done.append(outcome)
            if outcome.state == "failed":
                arguments.say(
                    "error: ",
                    f"{outcome.name}: {_fitted(outcome.words, outcome.images)}",
                )
            else:
                tell(f"{outcome.name}: {outcome.words}")
    except KeyboardInterrupt:
        raise KeyboardInterrupt("stopped; run the same command to continue") from None
    finally:
        for text in _word_warnings(done):
            arguments.say("warning: ", text)
    failed = sum(outcome.state == "failed" for outcome in done)
    words = f"{failed} of {len(done)} failed"
    if failed == len(done):
        tell(f"Wrote no result: {words}")
        return 2
    overview = settled["output_dir"] / OVERVIEW
    tell(f"Wrote {settled['output_dir']}{f'; {words}' if failed else ''}")
    tell(f"See {overview}")
    return 1 if failed else 0


#: The page that links all others, as `bids.pages` calls it.
OVERVIEW = "index.html"

#: What others advise, by pattern, and what this command has for it: of all data, and of
#: images alone.
_REWORDED = (
    (
        r"Set the positions with epochs\.set_montage"
        r"(, or pass your own matrix as sensors)?\.?",
        "The dataset has to hold their positions, in electrodes.tsv or in the files.",
    ),
    (r"Drop (it|them) from events(, or [^.]*)?\.", r"Leave \1 out by --where."),
    (r"(mostly noise): drop them\.", r"\1: leave them out by --where."),
    (
        r"Fill in (these values), or drop the trials first\.",
        r"Fill in \1, or leave the "
        "trials out by --where.",
    ),
    (
        r"a dict of classes, \{('.*?'): .*?\} \(y for [^)]*\), or rename the labels",
        "--by, such as --by \"trial_type.replace('OTHER', \\1)\"",
    ),
    (
        r"\S*t.r is not given, and not all headers of imgs .*?beside them\.",
        "Neither the headers of all images nor .json files tell the time from scan to "
        "scan.",
    ),
    (r"Pass t_r, the seconds .*", "Add RepetitionTime to the .json files of the runs."),
)
_REWORDED_OF_IMAGES = (
    (
        r"Decode the mean of each block,.*?as groups\.",
        "Decode the mean of each block: --estimate blocks, with --block-gap if events "
        "are parts of a block.",
    ),
    (r"( and, for epochs, with those| \(in epochs even) before the stimulus\)?", ""),
)


def _fitted(text, images):
    """Put what this command has in the place of what others advise."""
    for pattern, words in (*_REWORDED, *(_REWORDED_OF_IMAGES if images else ())):
        text = re.sub(pattern, words, text)
    return text


def _word_warnings(outcomes):
    """Yield every warning once, with those whom it is about; numbers may differ."""
    subjects = {each.subject for each in outcomes if each.subject is not None}
    alike = {}
    for outcome in outcomes:
        for text in outcome.warnings:
            text = _fitted(text, outcome.images)
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


def _settle(arguments):
    """Return all options of the level, and what is known of them for the file."""
    level, given = arguments.level, vars(arguments)
    own = _options_of(level)
    arguments_of = {option.argument for option in own.values()}
    for other in LEVELS:
        for key, option in _options_of(other).items():
            if option.argument in given and option.argument not in arguments_of:
                raise ValueError(
                    f"--{key} does not apply to the level {level}. Leave it out."
                )
    read = {}
    if arguments.config is not None:
        from ..bids.config import read_config

        read = read_config(
            arguments.config, level, {name: _options_of(name) for name in LEVELS}
        )
    settled = {o.argument: o.default for o in own.values()} | read
    settled |= {name: given[name] for name in arguments_of if name in given}
    by_default = "holm" if settled.get("method") == "i-test" else "max"
    settled["correction"] = settled["correction"] or [by_default]
    explicit = {*read, *given}
    config = {
        o.argument: (key, settled[o.argument], o.argument in explicit)
        for key, o in own.items()
    }
    places = {"bids_dir": arguments.bids_dir, "output_dir": arguments.output_dir}
    return settled | places, config


def _participants(app, settled, config):
    """Decode every subject."""
    if CLUSTER_FDR in settled["correction"]:
        raise ValueError(
            "--correction cluster-fdr is for the level group only. Use another one "
            "here."
        )
    arguments = argparse.Namespace(**settled)
    check_penalty(arguments)
    method = analysis_arguments(arguments)
    settled["scoring"] = method["scoring"]
    return app.participants(settled, method, config)


def _group(app, settled, config):
    """Test the group."""
    names = ("correction", *(option.argument for option in TESTING_OPTIONS))
    method = {name: settled[name] for name in names}
    return app.group(settled, method, config)
