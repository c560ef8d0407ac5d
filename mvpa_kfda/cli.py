"""The command line: the public functions, from file to figure, table and result."""

import argparse
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from . import __version__
from .inference import CORRECTIONS, smallest_p_value
from .kernels import KERNELS
from .metrics import METRICS

ALPHA = 0.05

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
        "figure (.png), a table (.csv) and a result (.h5) named after the file.",
        epilog=f"Metrics: {', '.join(METRICS)}.",
    )
    _add_epochs_options(epochs)
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


def _run_demo(arguments):
    """Simulate, decode, write and report."""
    from . import decode_epochs, simulate_epochs  # loads MNE-Python

    start = time.perf_counter()
    _check_out(arguments.out)
    epochs = simulate_epochs(random_state=0)
    result = decode_epochs(
        epochs, n_permutations=1000, random_state=0, verbose=_progress()
    )
    _report(result, "simulated EEG", arguments.out / "demo", "max", start)


def _run_epochs(arguments):
    """Read, decode, write and report."""
    from . import decode_epochs  # loads MNE-Python

    start = time.perf_counter()
    epochs = _read_epochs(arguments.file)
    _check_out(arguments.out)
    result = decode_epochs(
        epochs,
        arguments.by,
        groups=arguments.groups,
        picks=_split_commas(arguments.picks),
        window=arguments.window,
        step=arguments.step,
        kernel=arguments.kernel,
        reg=arguments.reg,
        cv=arguments.cv,
        scoring=" ".join(arguments.scoring or ["accuracy"]).replace(",", " ").split(),
        n_permutations=arguments.permutations,
        random_state=arguments.seed,
        n_jobs=arguments.jobs,
        verbose=_progress(),
    )
    stem = arguments.out / _stem(arguments.file)
    _report(result, arguments.file.name, stem, arguments.correction, start)


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


def _report(result, name, stem, correction, start):
    """Write figure, table and result, and print what came out."""
    import matplotlib

    matplotlib.use("Agg")  # draws into files; needs no display
    import matplotlib.pyplot as plt

    files = [stem.with_name(stem.name + ending) for ending in (".png", ".csv", ".h5")]
    result.save(files[2], overwrite=True)  # first, as the others can be made from it
    corrections = [] if correction == "none" else [correction]
    result.to_dataframe(corrections).to_csv(files[1], index=False)
    figure = result.plot(correction=correction, alpha=ALPHA).figure
    figure.savefig(files[0], dpi=150)
    plt.close(figure)

    best = int(np.argmax(result.scores))
    n_channels = len(result.parameters["ch_names"])
    print(
        f"Decoded {name}: {len(result.y)} trials, {len(result.classes)} classes, "
        f"{n_channels} channels, {len(result.times)} time points, "
        f"{len(result.tests)} folds"
    )
    print(
        f"Best {result.scoring[0]}: {result.scores[best]:.3f} at "
        f"{result.times[best]:.3f} s (chance {result.chance:.3f})"
    )
    if result.n_permutations:
        spans = _word_spans(result.times, result.pvalues(correction) <= ALPHA)
        least = smallest_p_value(result.n_permutations, len(result.times), correction)
        if least > ALPHA:
            spans = "out of reach, more permutations are needed"
        print(
            f"Above chance: {spans} (p <= {ALPHA}, correction {correction!r}, "
            f"{result.n_permutations} permutations)"
        )
    print(f"Wrote {', '.join(map(str, files))}")
    print(f"Took {time.perf_counter() - start:.1f} s")


def _word_spans(times, significant):
    """Word the stretches of significant time points by their first and last."""
    index = np.flatnonzero(significant)
    if index.size == 0:
        return "at no time point"
    spans = np.split(index, np.flatnonzero(np.diff(index) > 1) + 1)
    return ", ".join(f"{times[s[0]]:.3f} to {times[s[-1]]:.3f} s" for s in spans)
