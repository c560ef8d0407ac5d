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
        "subjects, with or without sub-; else all",
        several=True,
    ),
    Option(
        "--session",
        "session",
        "LABEL",
        "sessions; else all, of which the runs are decoded together",
        several=True,
    ),
    Option(
        "--task", "task", "LABEL", "tasks, each decoded alone; else all", several=True
    ),
    Option(
        "--space",
        "space",
        "SPACE",
        "space of the images, as fMRIPrep is asked for it: MNI152NLin2009cAsym:res-2",
    ),
    Option(
        "--desc",
        "desc",
        "NAME",
        "name of the analysis in the names of files; else that of --analysis. With "
        "another name for other settings both results stay, side by side",
    ),
)
#: What is read, and how.
DATA_OPTIONS = (
    Option("--run", "run_label", "LABEL", "runs; else all", several=True),
    Option(
        "--datatype",
        "datatype",
        ("eeg", "meg", "ieeg", "func"),
        "what to decode where there is more than one; func is fMRI",
    ),
    Option(
        "--by",
        "by",
        "COLUMN",
        "classes: a column of the events, or an expression on columns such as "
        "\"trial_type.str.split('/').str[0]\". Events where it is n/a are left out",
        default="trial_type",
    ),
    Option(
        "--where",
        "where",
        "QUERY",
        "decode only the events for which this is true, e.g. "
        "\"trial_type in ['face', 'house']\"",
    ),
    Option(
        "--train-on",
        "train_on",
        "QUERY",
        "train with the events for which this is true, and test on the others",
    ),
    Option(
        "--max-dropped",
        "max_dropped",
        "PERCENT",
        "of the events to decode, how many may be lost: without an onset, outside of "
        "the recording, without signal, in tables without the column. With more the "
        "subject fails. What --where and --reject leave out does not count",
        float,
        5.0,
    ),
    Option(
        "--analysis",
        "analysis",
        ANALYSES,
        "at every time, trained at one time and tested at others, around every voxel, "
        "or in regions; else time or searchlight",
    ),
)
#: Of both kinds of data, each with a meaning of its own.
BOTH_OPTIONS = (
    Option(
        "--high-pass",
        "high_pass",
        "HZ",
        "of raw EEG and MEG: lower edge of the filter; of fMRI: drifts are slower "
        "(default there: 0.01)",
        float,
    ),
    Option(
        "--confounds",
        "confounds",
        "NAME",
        "of EEG and MEG: columns of the events whose effect is taken out of the "
        "signals, in every fold by a regression on its training trials; of fMRI: "
        "confounds of the scans, as nilearn.interfaces.fmriprep.load_confounds names "
        "those of fMRIPrep, e.g. motion wm_csf scrub, or none (default there: motion). "
        "compcor brings fMRIPrep's model of drifts, in the place of --high-pass",
        several=True,
    ),
)
#: Of EEG and MEG.
HEAD_OPTIONS = (
    Option(
        "--low-pass",
        "low_pass",
        "HZ",
        "of raw recordings: upper edge of the filter",
        float,
    ),
    Option(
        "--tmin",
        "tmin",
        "S",
        "begin of epochs (default: -0.2, or that of epochs on file)",
        float,
    ),
    Option(
        "--tmax", "tmax", "S", "end of epochs (default: 0.5, or that on file)", float
    ),
    Option(
        "--baseline",
        "baseline",
        "S",
        "of raw recordings: first and last second of the baseline, or none (default: "
        "none 0, from the first sample to 0)",
        several=True,
    ),
    Option(
        "--reject",
        "reject",
        "TYPE=LIMIT",
        "of raw recordings: reject epochs with larger peak-to-peak amplitudes, e.g. "
        "eeg=150e-6 (volt; MEG: tesla)",
        several=True,
    ),
    Option(
        "--resample",
        "resample",
        "HZ",
        "sampling rate to which epochs are brought; else that of the recording",
        float,
    ),
    Option(
        "--picks",
        "picks",
        "P",
        "channels, e.g. Cz,Pz; else all good ones",
        several=True,
    ),
    Option(
        "--sensors",
        "sensors",
        "",
        "searchlight: decode every sensor with its neighbours",
        bool,
        False,
    ),
    Option(
        "--scale",
        "scale",
        ("auto", "channel", "none"),
        "auto: where there are several types of channels, divide each type by its "
        "standard deviation; channel: divide each channel by its own; none: nothing",
        default="auto",
    ),
    Option(
        "--window",
        "window",
        "S",
        "window length in seconds; else single samples",
        float,
    ),
    Option("--step", "step", "S", "step from window to window in seconds", float),
    Option(
        "--window-mode",
        "window_mode",
        ("mean", "concatenate"),
        "average the samples in a window, or take all of them as features",
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
        "an image for every trial: estimated with a model of each or one of all, the "
        "mean over its scans, or there already (*_betaseries.nii.gz with a table)",
        default="lss",
    ),
    *TUNING_OPTIONS,
    SLICE_TIME_REF,
    Option(
        "--delay",
        "delay",
        "S",
        "with --estimate blocks, seconds by which the response is late",
        float,
        5.0,
    ),
    Option(
        "--block-gap",
        "block_gap",
        "S",
        "with --estimate blocks, events of one class that begin at most S seconds "
        "after the one before has ended are one block; else every event is one",
        float,
    ),
    Option(
        "--smoothing", "smoothing_fwhm", "MM", "full width at half maximum in mm", float
    ),
    Option(
        "--mask",
        "mask_img",
        "MASK",
        "voxels to decode; else those that are in the brain masks of all runs",
        Path,
    ),
    *(_OF_IMAGES[name] for name in _FROM_IMAGES),
    Option(
        "--keep-betas",
        "keep_betas",
        "",
        "write the images of trials, too (*_betaseries.nii.gz). Other analyses with "
        "the same trials read them instead of making them anew",
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
    "corrections for testing many positions; cluster-fdr is for the group only "
    "(default: max)",
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
    "name of the test, behind that of the analysis in the names of files. With another "
    "name for another test both stay, side by side",
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
        "number of label permutations (default: 1000), or at the level group of "
        "second-level ones (default: see mvpa-kfda group --help)",
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
    "preprocessed data: output of fMRIPrep or MNE-BIDS-Pipeline; else BIDS_DIR",
    Path,
)


def _options_of(level):
    """Return the options of a level by their keys, which are flags without dashes."""
    options = [DERIVATIVES, *(o for group in LEVELS[level].values() for o in group)]
    return {option.flag.removeprefix("--"): option for option in options}


def add_bids(commands):
    """Add the command to the parser of commands."""
    parser = commands.add_parser(
        "bids",
        help="decode a BIDS dataset, every subject and then the group",
        usage="%(prog)s BIDS_DIR OUTPUT_DIR participant|group [options]",
        description="Decode every subject of a BIDS dataset, or test the group of "
        "them, and write a derivative dataset: results (.h5), tables (.tsv), maps "
        "(.nii.gz), pages (.html), with a JSON file for each. What is there already is "
        "not computed again, unless its input or options changed.",
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
        help="a TOML file of options; those of the command line come first",
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
        add_options(parser.add_argument_group(title), new)
    # As the other commands call it, whose messages have that name.
    parser.add_argument("--jobs", dest="n_jobs", type=int, help=argparse.SUPPRESS)
    given = {o.argument for level in LEVELS for o in _options_of(level).values()}
    for action in parser._actions:
        if action.dest in given:
            action.default = argparse.SUPPRESS  # what is given can be told by this
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
        raise KeyboardInterrupt("stopped; the same command continues") from None
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
        r"Set the positions with epochs\.set_montage\.?",
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
        r"\S*t.r is not given, and not all headers of imgs .*?beside them\.",
        "Neither the headers of all images nor .json files tell the time from scan to "
        "scan.",
    ),
    (r"Give t_r, the seconds .*", "Add RepetitionTime to the .json files of the runs."),
)
_REWORDED_OF_IMAGES = (
    (
        r"Decode the mean of each block,.*?as groups\.",
        "Decode the mean of each block: --estimate blocks, with --block-gap if events "
        "are parts of a block.",
    ),
    (r"with those before the stimulus and with those from", "with those from"),
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
        differ = f" (The numbers are of {about[0].name}.)" if len(texts) > 1 else ""
        yield f"{len(shared)} of {len(subjects)} subjects: {text}{differ}"


def _settle(arguments):
    """Return all options of the level, and what is known of them for the file."""
    level, given = arguments.level, vars(arguments)
    own = _options_of(level)
    arguments_of = {option.argument for option in own.values()}
    for other in LEVELS:
        for key, option in _options_of(other).items():
            if option.argument in given and option.argument not in arguments_of:
                raise ValueError(f"--{key} is not for the level {level}. Leave it out.")
    read = {}
    if arguments.config is not None:
        from ..bids.config import read_config

        read = read_config(
            arguments.config, level, {name: _options_of(name) for name in LEVELS}
        )
    settled = {o.argument: o.default for o in own.values()} | read
    settled |= {name: given[name] for name in arguments_of if name in given}
    settled["correction"] = settled["correction"] or ["max"]
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
            "--correction cluster-fdr is for the level group. Take another here."
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
