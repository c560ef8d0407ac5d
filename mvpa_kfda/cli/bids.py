"""The command for BIDS datasets: ``mvpa-kfda bids``.

Options stand in tables, one for each level, of which the parser is made. Those that are
not given are looked up in the file of --config, and last in the tables.
"""

import argparse
from pathlib import Path

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
        "name of the analysis in the names of files; else that of --analysis. Give "
        "another for every question to the same data",
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
        "--analysis",
        "analysis",
        ANALYSES,
        "at every time, trained at one time and tested at others, around every voxel, "
        "or in regions; else time or searchlight",
    ),
)
#: Of EEG and MEG.
HEAD_OPTIONS = (
    Option(
        "--high-pass",
        "high_pass",
        "HZ",
        "of raw recordings: lower edge of the filter; of fMRI: drifts are slower "
        "(default there: 0.01)",
        float,
    ),
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
        "--picks",
        "picks",
        "P",
        "channels, e.g. Cz,Pz; else all good ones",
        several=True,
    ),
    Option(
        "--window",
        "window",
        "S",
        "window length in seconds; else single samples",
        float,
    ),
    Option("--step", "step", "S", "step from window to window in seconds", float),
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
    Option(
        "--confounds",
        "confounds",
        "STRATEGY",
        "confounds of fMRIPrep, as nilearn.interfaces.fmriprep.load_confounds names "
        "them, e.g. motion wm_csf scrub; or none (default: motion)",
        several=True,
    ),
    Option(
        "--delay",
        "delay",
        "S",
        "with --estimate blocks, seconds by which the response is late",
        float,
        5.0,
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
    (*CORRECTIONS, "cluster-fdr"),
    "corrections for testing many positions; cluster-fdr is for the group only "
    "(default: max)",
    several=True,
)
TESTING_OPTIONS = tuple(
    option for option in GROUP_OPTIONS if option.argument not in ("other", "correction")
)
#: The options of every level, in the groups of the help.
LEVELS = {
    "participant": {
        "data": (*CHOICE_OPTIONS, *DATA_OPTIONS),
        "EEG and MEG": HEAD_OPTIONS,
        "fMRI": FUNC_OPTIONS,
        "decoding": (*DECODING_OPTIONS, CORRECTION),
    },
    "group": {
        "data": CHOICE_OPTIONS,
        "level group": (CORRECTION, *TESTING_OPTIONS),
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
        "cross-validation. The exit status is 1 if a subject failed.",
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
    failed = n = 0
    try:
        for outcome in outcomes:
            n, failed = n + 1, failed + (outcome.state == "failed")
            for text in outcome.warnings:
                arguments.say("warning: ", f"{outcome.name}: {text}")
            if outcome.state == "failed":
                arguments.say("error: ", f"{outcome.name}: {outcome.words}")
            else:
                print(f"{outcome.name}: {outcome.words}", flush=True)
    except KeyboardInterrupt:
        raise KeyboardInterrupt("stopped; the same command continues") from None
    print(
        f"Wrote {settled['output_dir']}{f'; {failed} of {n} failed' if failed else ''}"
    )
    return 1 if failed else 0


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
    if "cluster-fdr" in settled["correction"]:
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
