"""The command line: the public functions, from file to figure, table and result."""

import argparse
import sys
import tempfile
import time
from pathlib import Path

from . import __version__
from ._report import report
from .inference import CORRECTIONS
from .kernels import KERNELS
from .metrics import METRICS

#: Options of the epochs command: flag, what it takes, type, default, help.
EPOCHS_OPTIONS = (
    ("--by", "COLUMN", str, None, "metadata column of the classes; else event names"),
    ("--groups", "COLUMN", str, None, "metadata column of the groups, e.g. runs"),
    (
        "--picks",
        "P",
        str,
        None,
        "channels, e.g. Cz,Pz or misc; else all good data channels",
    ),
    ("--window", "S", float, None, "window length in seconds; else single samples"),
    ("--step", "S", float, None, "step from window to window in seconds"),
    ("--reg", "R", float, 0.3, "ridge penalty relative to the variance of a trial"),
    ("--cv", "K", int, None, "number of folds; else one per group, or 10"),
    ("--scoring", "M", str, None, "metrics, the first is tested; else accuracy"),
    ("--permutations", "P", int, 1000, "number of label permutations"),
    ("--seed", "S", int, 0, "seed of the permutations"),
    ("--jobs", "N", int, None, "number of parallel jobs; else 1"),
)

#: Corrections that need every permutation's map.
CLUSTER_CORRECTIONS = ("cluster", "tfce")

#: Options that --generalize has to come with.
GENERALIZE_OPTIONS = ("--test-file", "--train-on", "--same-trials", "--null")


class _Parser(argparse.ArgumentParser):
    """A parser whose errors `main` reports like all others, in one line."""

    def error(self, message):
        """Hand the message on instead of printing the usage and leaving."""
        raise ValueError(message)


def main(argv=None):
    """Run the ``mvpa-kfda`` command.

    Parameters
    ----------
    argv : list of str or None, default=None
        The arguments after the command's name; None takes the process' own.

    Returns
    -------
    status : int
        0, or 2 after an error, which is one line on the standard error stream.

    Examples
    --------
    The error goes to the standard error stream.

    >>> main(["epochs", "no-such-file-epo.fif"])
    2
    """
    try:
        arguments = _make_parser().parse_args(argv)
        arguments.run(arguments)
    except (ValueError, TypeError, OSError) as error:
        print(f"mvpa-kfda: error: {_one_line(error)}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("mvpa-kfda: stopped", file=sys.stderr)
        return 130
    return 0


def _one_line(error):
    """Word an error without line breaks."""
    if isinstance(error, OSError) and error.strerror and error.filename:
        return f"{error.strerror}: {error.filename}"
    return " ".join(str(error).split()) or type(error).__name__


def _make_parser():
    """Describe the commands and their options."""
    parser = _Parser(
        prog="mvpa-kfda",
        description="Decode brain recordings by kernel Fisher discriminant analysis, "
        "cross-validated exactly without retraining, with label permutations.",
    )
    parser.add_argument(
        "--version", action="version", version=f"%(prog)s {__version__}"
    )
    commands = parser.add_subparsers(title="commands", required=True, metavar="COMMAND")

    demo = commands.add_parser(
        "demo",
        help="simulate three-class EEG and decode it",
        description="Simulate three-class EEG, decode it at every time point with 1000 "
        "label permutations, and write demo.png, demo.csv and demo.h5. Nothing is "
        "downloaded.",
    )
    _add_out(demo, "mvpa_kfda_demo")
    demo.set_defaults(run=_run_demo)

    epochs = commands.add_parser(
        "epochs",
        help="decode a file of epochs",
        description="Decode the epochs of a FIF file at every time point, and write a "
        "figure (.png), a table (.csv) and a result (.h5) named after the file. The "
        "names of maps end in _generalization or _sensors.",
        epilog=f"Metrics: {', '.join(METRICS)}.",
    )
    _add_epochs_options(epochs)
    _add_generalize_options(epochs)
    _add_out(epochs, ".")
    epochs.set_defaults(run=_run_epochs)
    return parser


def _add_out(parser, default):
    """Add the option for the folder of the output."""
    parser.add_argument(
        "--out",
        metavar="DIR",
        type=Path,
        default=Path(default),
        help="folder for the output, made if need be (default: %(default)s). Files of "
        "an earlier run with the same names are replaced.",
    )


def _add_epochs_options(parser):
    """Add the file and the options of decode_epochs."""
    parser.add_argument(
        "file", metavar="FILE", type=Path, help="epochs saved by MNE-Python, -epo.fif"
    )
    for flag, metavar, kind, default, text in EPOCHS_OPTIONS:
        parser.add_argument(
            flag,
            metavar=metavar,
            type=kind,
            default=default,
            nargs="+" if flag in ("--picks", "--scoring") else None,
            help=text if default is None else f"{text} (default: {default})",
        )
    kernels = [name for name in KERNELS if name != "precomputed"]
    for flag, choices, default in (
        ("--kernel", kernels, "linear"),
        ("--correction", list(CORRECTIONS), "max"),
    ):
        parser.add_argument(
            flag, choices=choices, default=default, help="(default: %(default)s)"
        )
    parser.add_argument(
        "--sensors",
        action="store_true",
        help="searchlight: decode every sensor with its neighbours",
    )


def _add_generalize_options(parser):
    """Add the options of generalize_epochs."""
    group = parser.add_argument_group(
        "time generalization", "Train at every time and test at every other one."
    )
    group.add_argument(
        "--generalize",
        action="store_true",
        help="do so, with all options above but --sensors",
    )
    group.add_argument(
        "--test-file",
        metavar="FILE",
        type=Path,
        help="test on these epochs; they keep their labels, and those of the epochs "
        "trained with are permuted",
    )
    group.add_argument(
        "--train-on",
        metavar="QUERY",
        help="train with the epochs that a query on the metadata selects, e.g. "
        '"block < 4", and test on all others',
    )
    group.add_argument(
        "--same-trials",
        action=argparse.BooleanOptionalAction,
        help="the test file has the same trials in the same order, so cross-validate "
        "(default: found out, where the files have times in common)",
    )
    group.add_argument(
        "--null",
        choices=("auto", "full", "max", "stream"),
        help="what to keep of the permutations' maps; cluster and tfce need full or "
        "stream (default: auto, which is full with these two)",
    )


def _run_demo(arguments):
    """Simulate, decode, write and report."""
    from . import decode_epochs, simulate_epochs  # loads MNE-Python

    start = time.perf_counter()
    _check_out(arguments.out)
    epochs = simulate_epochs(random_state=0)
    result = decode_epochs(
        epochs, n_permutations=1000, random_state=0, verbose=_progress()
    )
    report(result, "simulated EEG", arguments.out / "demo", "max", start)


def _run_epochs(arguments):
    """Read, decode, write and report."""
    from . import decode_epochs, generalize_epochs  # loads MNE-Python

    start = time.perf_counter()
    _check_generalize(arguments)
    epochs = _read_epochs(arguments.file)
    test_epochs = arguments.test_file and _read_epochs(arguments.test_file)
    _check_out(arguments.out)
    scoring = " ".join(arguments.scoring or ["accuracy"]).replace(",", " ").split()
    options = {
        "groups": arguments.groups,
        "picks": _split_commas(arguments.picks),
        "window": arguments.window,
        "step": arguments.step,
        "kernel": arguments.kernel,
        "reg": arguments.reg,
        "cv": arguments.cv,
        "scoring": scoring,
        "n_permutations": arguments.permutations,
        "random_state": arguments.seed,
        "n_jobs": arguments.jobs,
        "verbose": _progress(),
    }
    stem, name = _stem(arguments.file), arguments.file.name
    if arguments.generalize:
        null = arguments.null or "auto"
        if null == "auto" and arguments.correction in CLUSTER_CORRECTIONS:
            null = "full"  # the maxima would not do
        result = generalize_epochs(
            epochs,
            arguments.by,
            test_epochs=test_epochs,
            train_on=arguments.train_on,
            same_trials=arguments.same_trials,
            null=null,
            **options,
        )
        if arguments.test_file:
            stem += f"_to_{_stem(arguments.test_file)}"
            name += f" with {arguments.test_file.name}"
        elif arguments.train_on:
            stem += "_train_on"
            name += f", trained on {arguments.train_on}"
        stem += "_generalization"
    elif arguments.sensors:
        result = decode_epochs(epochs, arguments.by, sensors="adjacency", **options)
        stem += "_sensors"
    else:
        result = decode_epochs(epochs, arguments.by, **options)
    report(result, name, arguments.out / stem, arguments.correction, start)


def _check_generalize(arguments):
    """Refuse options that do not go together, before anything is read."""
    given = [
        flag
        for flag in GENERALIZE_OPTIONS
        if getattr(arguments, flag.strip("-").replace("-", "_")) is not None
    ]
    if given and not arguments.generalize:
        raise ValueError(
            f"{', '.join(given)} belongs to time generalization. Add --generalize, or "
            f"leave {given[0]} out."
        )
    if arguments.generalize and arguments.sensors:
        raise ValueError("Give either --generalize or --sensors, not both.")
    if arguments.same_trials is not None and arguments.test_file is None:
        raise ValueError(
            "--same-trials says something about a test file. Add --test-file, or leave "
            "--same-trials out."
        )
    if arguments.null == "max" and arguments.correction in CLUSTER_CORRECTIONS:
        raise ValueError(
            f"--correction {arguments.correction} needs more than the maxima. Take "
            "--null full or --null stream, or leave --null out."
        )


def _split_commas(picks):
    """Take names apart at commas; a name may hold spaces."""
    if picks is None:
        return None
    return [name.strip() for item in picks for name in item.split(",")]


def _progress():
    """Leave the progress bar to the length of the run, but only on a terminal."""
    return None if sys.stderr.isatty() else False


def _read_epochs(path):
    """Read epochs, with one kind of error for all that is wrong with a file."""
    import mne

    if not path.exists():
        raise FileNotFoundError(f"no such file: {path}")
    try:
        return mne.read_epochs(path, verbose="error")
    except Exception as error:  # a reader of foreign bytes fails in many ways
        raise ValueError(
            f"{path} is not a file of epochs that MNE-Python can read "
            f"({_one_line(error)}). Give a file written by mne.Epochs.save."
        ) from error


def _stem(path):
    """Name the output after the input, without the endings MNE-Python asks for."""
    name = path.name.removesuffix(".gz").removesuffix(".fif")
    return name.removesuffix("-epo").removesuffix("_epo") or "epochs"


def _check_out(folder):
    """Make the folder and see that it takes files, before anything is computed."""
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryFile(dir=folder):
        pass


if __name__ == "__main__":
    sys.exit(main())
