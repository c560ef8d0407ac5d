"""The command line: the public functions, from file to figure, table and result."""

import argparse
import signal
import sys
import time
import warnings
from pathlib import Path

from .. import __version__
from ..utils.signals import interrupting_signals
from ..utils.text import tell
from .again import add_rerun, add_verify
from .betas import add_betas
from .bids import add_bids
from .common import (
    ANALYSIS_OPTIONS,
    CORRECTION,
    METRICS,
    NULL,
    REGRESSION_METRICS,
    WINDOWS,
    Option,
    Parser,
    add_options,
    add_out,
    analysis_arguments,
    check_course,
    check_out,
    check_penalty,
    check_there,
    null_for,
    one_line,
    reword,
    split_classes,
    split_commas,
)
from .group import add_group
from .images import add_regions, add_searchlight
from .page import add_report

#: Options of the epochs command besides those of every analysis.
EPOCHS_OPTIONS = (
    Option(
        "--by", "y", "COLUMN", "metadata column with the classes (default: event names)"
    ),
    Option(
        "--classes",
        "classes",
        "EVENT",
        "events or tags used as classes, e.g. face house for face/left, face/right and "
        "house; or NAME=EVENT,EVENT ...; other epochs are left out",
        several=True,
    ),
    Option("--groups", "groups", "COLUMN", "metadata column with groups, e.g. runs"),
    Option(
        "--confounds",
        "confounds",
        "COLUMN",
        "metadata columns to regress out of the signals, with coefficients estimated "
        "on the training trials of each fold",
        several=True,
    ),
    Option(
        "--train-on",
        "train_on",
        "QUERY",
        'train on the epochs selected by a query on the metadata, e.g. "block < 4", '
        "and test on the others; with --groups or --cv in each fold. Only the training "
        "labels are permuted",
    ),
    Option(
        "--picks",
        "picks",
        "P",
        "channels, e.g. Cz,Pz or misc (default: all good data channels)",
        several=True,
    ),
    *WINDOWS,
    Option(
        "--smooth",
        "strength",
        "S",
        "smooth weights over neighbouring sensors: strength of the penalty on their "
        "differences, e.g. 1",
        float,
    ),
)

#: Options that --generalize has to come with.
GENERALIZE_OPTIONS = (
    Option(
        "--test-file",
        "test_epochs",
        "FILE",
        "test on these epochs; only the labels of the training epochs are permuted",
        Path,
    ),
    NULL,
)

#: Options of the methods command, which all go to `methods_text`.
METHODS_OPTIONS = (
    Option(
        "--style",
        "style",
        ("apa", "markdown", "bibtex"),
        "plain text, Markdown with links, or BibTeX entries of the references",
        default="apa",
    ),
    Option(
        "--correction",
        "correction",
        "C",
        "correction of the p-values that you report (default: that of the figures)",
    ),
    Option("--alpha", "alpha", "A", "significance level (default: 0.05)", float),
    Option("--threshold", "threshold", "A", "p-level that forms clusters", float),
)

#: Warnings about the data. Others are about programs, of interest to nobody here.
SHOWN_WARNINGS = (UserWarning, RuntimeWarning)


def main(argv=None):
    """Run the ``mvpa-kfda`` command.

    Parameters
    ----------
    argv : list of str or None, default=None
        The arguments after the command's name; None takes the process' own.

    Returns
    -------
    status : int
        0, or 2 after an error, which is one line on the standard error stream; 1 if
        some subjects of a dataset failed, and others did not, or if a result differs
        from what is refitted; or what a shell says of a
        program that was stopped: 130 by Ctrl-C, 143 by SIGTERM, 129 by SIGHUP.

    Examples
    --------
    The error goes to the standard error stream.

    >>> main(["epochs", "no-such-file-epo.fif"])
    2
    """
    parser, arguments = _make_parser(), argparse.Namespace(command=None)

    def say(what, message):
        # A command that is known has no other options than its own.
        command = arguments.command
        options = parser.options(command, alone=command is not None)
        text = reword(one_line(message), options)
        tell(f"mvpa-kfda: {what}{text}", file=sys.stderr)

    with warnings.catch_warnings(), interrupting_signals() as caught:
        warnings.simplefilter("ignore")
        for category in SHOWN_WARNINGS:
            warnings.simplefilter("default", category)
        # In one line, without a place in a program.
        warnings.showwarning = lambda message, *place, **_: say("warning: ", message)
        try:
            arguments = parser.parse_args(argv)  # from here on, by their names there
            arguments.say = say
            status = arguments.run(arguments)
        except (ValueError, TypeError, OSError, RuntimeError, MemoryError) as error:
            say("error: ", error)
            return 2
        except KeyboardInterrupt as stop:
            say("", stop if stop.args else "stopped")
            return 128 + (caught or [signal.SIGINT])[0]
    return status or 0


def _make_parser():
    """Describe the commands and their options."""
    parser = Parser(
        prog="mvpa-kfda",
        description="Decode brain recordings using kernel Fisher discriminant "
        "analysis, with exact cross-validation and label permutations without "
        "retraining.",
    )
    parser.add_argument(
        "--version", action="version", version=f"%(prog)s {__version__}"
    )
    commands = parser.add_subparsers(
        title="commands", required=True, metavar="COMMAND", dest="command"
    )

    demo = commands.add_parser(
        "demo",
        help="simulate three-class EEG and decode it",
        description="Simulate three-class EEG, decode it at every time point with 1000 "
        "label permutations, and write demo.png, demo.csv and demo.h5. Nothing is "
        "downloaded.",
    )
    add_out(demo, "mvpa_kfda_demo")
    demo.set_defaults(run=_run_demo)
    add_bids(commands)  # first: where options differ, messages have the others' names

    epochs = commands.add_parser(
        "epochs",
        help="decode an epochs file",
        description="Decode the epochs of a file at every time point, and write a "
        "figure (.png), a table (.csv) and a result (.h5) named after the file. The "
        "names of maps end in _generalization or _sensors, those of regression in "
        "_regression.",
        epilog=f"Metrics: {', '.join(METRICS)}; of regression: "
        f"{', '.join(REGRESSION_METRICS)}.",
    )
    _add_epochs_options(epochs)
    _add_generalize_options(epochs)
    add_out(epochs, ".")
    epochs.set_defaults(run=_run_epochs)
    add_searchlight(commands)
    add_regions(commands)
    add_betas(commands)
    add_group(commands)
    add_report(commands)
    _add_methods(commands)
    add_verify(commands)
    add_rerun(commands)

    system = commands.add_parser(
        "sys-info",
        help="print version information for bug reports",
        description="Print the versions of this package and its dependencies, the "
        "system, processors, memory and linear algebra libraries.",
    )
    system.set_defaults(run=_run_sys_info)
    return parser


def _add_methods(commands):
    """Add the command that prints paragraphs for a paper."""
    methods = commands.add_parser(
        "methods",
        help="describe methods and results for a paper",
        description="Print a description of the methods and findings of a saved result "
        "(.h5) for a paper, with references.",
    )
    methods.add_argument(
        "file", metavar="RESULT", type=Path, help="a saved result, .h5"
    )
    add_options(methods, METHODS_OPTIONS)
    methods.set_defaults(run=_run_methods)


def _add_epochs_options(parser):
    """Add the file and the options of decode_epochs."""
    parser.add_argument(
        "file",
        metavar="FILE",
        type=Path,
        help="epochs saved by MNE-Python (-epo.fif), EEGLAB (.set) or FieldTrip (.mat)",
    )
    add_options(parser, (*EPOCHS_OPTIONS, *ANALYSIS_OPTIONS, CORRECTION))
    parser.add_argument(
        "--sensors",
        action="store_const",
        const="adjacency",
        help="searchlight: decode each sensor with its neighbours",
    )
    parser.add_argument(
        "--task",
        choices=("classification", "regression"),
        default="classification",
        help="regression: predict the values in the column of --by (default: "
        "%(default)s)",
    )


def _add_generalize_options(parser):
    """Add the options of generalize_epochs."""
    group = parser.add_argument_group(
        "time generalization", "Train at each time and test at all times."
    )
    group.add_argument(
        "--generalize",
        action="store_true",
        help="train at each time and test at all times (accepts all options above "
        "except --sensors and --task)",
    )
    add_options(group, GENERALIZE_OPTIONS)
    group.add_argument(
        "--same-trials",
        action=argparse.BooleanOptionalAction,
        help="the test file has the same trials in the same order, so cross-validate",
    )


def _run_sys_info(arguments):
    """Print what a report of a bug has to say."""
    from ..utils.system import sys_info

    sys_info()


def _run_demo(arguments):
    """Simulate, decode, write and report."""
    from .. import decode_epochs, simulate_epochs  # loads MNE-Python
    from .output import write_and_print

    start = time.perf_counter()
    check_out(arguments.out, "demo")
    epochs = simulate_epochs(random_state=0)
    result = decode_epochs(epochs, n_permutations=1000, random_state=0)
    write_and_print(result, "simulated EEG", arguments.out / "demo", "max", start)


def _run_epochs(arguments):
    """Read, decode, write and report."""
    start = time.perf_counter()
    _check_generalize(arguments)
    _check_method(arguments)
    y = _read_classes(arguments)
    check_there(arguments.file, arguments.test_epochs)
    from ..data.epochs import read_epochs_file
    from .output import write_and_print  # loads most of the package

    epochs = read_epochs_file(arguments.file)
    test_epochs = arguments.test_epochs and read_epochs_file(arguments.test_epochs)
    check_out(arguments.out, _stem(arguments.file))
    options = {
        "groups": arguments.groups,
        "confounds": arguments.confounds,
        "train_on": arguments.train_on,
        "picks": split_commas(arguments.picks),
        "window": arguments.window,
        "step": arguments.step,
        **analysis_arguments(arguments),
    }
    if arguments.strength is not None:
        kernel = _smooth_kernel(epochs, options["picks"], arguments.strength)
        options["kernel"] = kernel
    result, ending, more = _decode(arguments, epochs, y, test_epochs, options)
    name = f"{arguments.file.name}{more}"
    stem = arguments.out / f"{_stem(arguments.file)}{ending}"
    write_and_print(result, name, stem, arguments.correction, start)


def _run_methods(arguments):
    """Print the paragraphs of a saved result."""
    check_there(arguments.file)
    from .. import load_result, methods_text

    options = {o.argument: getattr(arguments, o.argument) for o in METHODS_OPTIONS}
    tell(*methods_text(load_result(arguments.file), **options).split("\n"))


def _decode(arguments, epochs, y, test_epochs, options):
    """Return the result, the ending of its files, and what was done to the file."""
    from .. import decode_epochs, generalize_epochs  # loads MNE-Python

    part = more = ""
    if arguments.train_on:
        part, more = "_train_on", f", trained on {arguments.train_on}"
    if arguments.generalize:
        result = generalize_epochs(
            epochs,
            y,
            test_epochs=test_epochs,
            same_trials=arguments.same_trials,
            null=null_for(arguments.correction, arguments.null),
            **options,
        )
        if arguments.test_epochs:
            part = f"_to_{_stem(arguments.test_epochs)}"
            more = f" with {arguments.test_epochs.name}"
        return result, f"{part}_generalization", more
    ending = ""
    if arguments.sensors:
        options["sensors"], ending = arguments.sensors, "_sensors"
    elif arguments.task == "regression":
        options["task"], ending = arguments.task, "_regression"
        if not arguments.scoring:
            options["scoring"] = "r2"
    return decode_epochs(epochs, y, **options), f"{part}{ending}", more


def _check_generalize(arguments):
    """Refuse options that do not go together, before anything is read."""
    values = {o.flag: getattr(arguments, o.argument) for o in GENERALIZE_OPTIONS}
    values["--same-trials"] = arguments.same_trials
    flags = [flag for flag, value in values.items() if value is not None]
    if flags and not arguments.generalize:
        verb = "belongs" if len(flags) == 1 else "belong"
        raise ValueError(
            f"{', '.join(flags)} {verb} to time generalization. Add --generalize, or "
            f"leave {flags[0]} out."
        )
    if arguments.generalize and arguments.sensors:
        raise ValueError("Use either --generalize or --sensors, not both.")
    if arguments.same_trials is not None and arguments.test_epochs is None:
        raise ValueError(
            "--same-trials describes a test file. Add --test-file, or leave "
            "--same-trials out."
        )
    null_for(arguments.correction, arguments.null)
    if arguments.generalize:
        check_course(arguments.correction, "--generalize makes a map of two times")
    if arguments.sensors:
        check_course(arguments.correction, "--sensors makes a map of sensors and times")


def _check_method(arguments):
    """Refuse options of kernel, penalty and task that do not go together."""
    check_penalty(arguments)
    if arguments.strength is not None and arguments.kernel != "linear":
        raise ValueError(
            "--smooth sets a linear kernel and cannot be combined with --kernel "
            f"{arguments.kernel}. Leave one of them out."
        )
    if arguments.task == "classification":
        return
    if arguments.y is None:
        raise ValueError(
            "--task regression needs --by COLUMN, the metadata column with the numbers "
            "to predict."
        )
    of_classes = {
        "--generalize": arguments.generalize,
        "--sensors": arguments.sensors,
        "--components": arguments.n_components,
        "--average": arguments.average,
        "--train-on": arguments.train_on,
        "--repeats": arguments.n_repeats != 1,
        "--equalize": arguments.equalize,
        "--no-average-test": not arguments.average_test,
    }
    flags = [flag for flag, value in of_classes.items() if value]
    if flags:
        raise ValueError(
            f"{', '.join(flags)} cannot be combined with --task regression, which has "
            "no classes. Leave one of them out."
        )


def _read_classes(arguments):
    """Return y: a metadata column, names of events, a dict of these, or None."""
    if arguments.classes is None:
        return arguments.y
    if arguments.y is not None or arguments.task == "regression":
        other = "--by" if arguments.y is not None else "--task regression"
        raise ValueError(
            f"--classes names events, and so cannot be combined with {other}. Leave "
            "one of them out."
        )
    return split_classes(arguments.classes, "EVENT")


def _smooth_kernel(epochs, picks, strength):
    """Return the kernel that smooths weights over neighbours among the channels."""
    import mne
    import numpy as np
    from scipy.sparse import coo_array

    from .. import GraphSmooth
    from ..data.epochs import find_neighbours, pick_channels

    info = mne.pick_info(epochs.info, pick_channels(epochs.info, picks))
    try:
        pairs = find_neighbours(info, "adjacency")
    except ValueError as error:
        text = str(error).replace("sensors='adjacency'", "--smooth")
        raise ValueError(text) from error
    n = len(info["ch_names"])
    edges = coo_array((np.ones(pairs.shape[1]), tuple(pairs)), shape=(n, n))
    return GraphSmooth((edges + edges.T, info["ch_names"]), strength)


def _stem(path):
    """Name the output after the input, without the endings that its readers ask for."""
    name = path.name.removesuffix(".gz")
    for ending in (".fif", ".set", ".mat"):
        name = name.removesuffix(ending)
    return name.removesuffix("-epo").removesuffix("_epo") or "epochs"


if __name__ == "__main__":
    sys.exit(main())
