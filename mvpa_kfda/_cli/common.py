"""What all commands have in common: options, the folder of the output, errors.

Nothing here or in the commands loads more than NumPy before there is work to do, so
that ``--help`` answers at once. Hence the names of kernels, metrics and corrections
stand here once more.
"""

import argparse
import os
import re
import sys
import tempfile
from pathlib import Path

KERNELS = ("linear", "rbf", "polynomial")
CORRECTIONS = ("none", "max", "fdr", "bonferroni", "cluster", "tfce")
NULLS = ("auto", "full", "max", "stream")
METRICS = (
    *("accuracy", "balanced_accuracy", "roc_auc", "recall", "precision", "f1"),
    *("recall_macro", "precision_macro", "f1_macro", "kappa", "confusion_matrix"),
)

#: Corrections that need every permutation's map.
CLUSTER_CORRECTIONS = ("cluster", "tfce")

#: The p-level that forms clusters, the only one for ``--null stream``.
CLUSTER_LEVEL = 0.05

#: Options of every analysis: flag, what it takes, type, default, help.
ANALYSIS_OPTIONS = (
    ("--reg", "R", float, 0.3, "ridge penalty relative to the variance of a trial"),
    ("--cv", "K", int, None, "number of folds; else one per group, or 10"),
    ("--scoring", "M", str, None, "metrics, the first is tested; else accuracy"),
    ("--permutations", "P", int, 1000, "number of label permutations"),
    ("--seed", "S", int, 0, "seed of the permutations"),
    ("--jobs", "N", int, None, "number of parallel jobs; else 1"),
)

#: Options that take one value or more. If given again, they add to what is there.
PLURAL = ("--picks", "--scoring", "--labels", "--drop")

#: Advice for Python, by pattern, and what it is on the command line.
REWORDED = (
    (r"standardize=False", "--standardize none"),
    (r"null='(\w+)'( instead of '\w+')?", r"--null \1"),
    (r"n_permutations=(\d+)", r"--permutations \1"),
    (r"([Gg]ive|or) another path", r"\1 another folder with --out"),
    (r"(the mean of each block),", r"\1 (use --average-blocks),"),
    # As names, but not within the calls of functions that some messages advise.
    (r"(?<![\w(=.])process_mask_img(?![\w=)])", "--process-mask"),
    (r"(?<![\w(=.])mask_img(?![\w=)])", "--mask"),
    (r"(?<![\w(=.])labels_img(?![\w=)])", "--atlas"),
)

#: Options that a command cannot do without.
REQUIRED = ("--labels", "--atlas")


def add_options(parser, options):
    """Add options of one value each, or several, to a parser.

    Parameters
    ----------
    parser : ArgumentParser
        It gets the options.
    options : sequence of tuple
        Flag, what it takes, type, default and help of every option.
    """
    for flag, metavar, kind, default, text in options:
        plural = flag in PLURAL
        parser.add_argument(
            flag,
            metavar=metavar,
            type=kind,
            default=default,
            nargs="+" if plural else None,
            action="extend" if plural else "store",
            required=flag in REQUIRED,
            help=text if default is None else f"{text} (default: {default})",
        )


def add_analysis(parser):
    """Add the options of every analysis, and those with a choice of names."""
    add_options(parser, ANALYSIS_OPTIONS)
    for flag, choices, default in (
        ("--kernel", KERNELS, "linear"),
        ("--correction", CORRECTIONS, "max"),
    ):
        parser.add_argument(
            flag, choices=choices, default=default, help="(default: %(default)s)"
        )


def analysis_arguments(arguments):
    """Return what was given for these options, by the names of the functions."""
    return {
        "kernel": arguments.kernel,
        "reg": arguments.reg,
        "cv": arguments.cv,
        "scoring": split_scoring(arguments.scoring),
        "n_permutations": arguments.permutations,
        "random_state": arguments.seed,
        "n_jobs": _limit_jobs(arguments.jobs),
        "verbose": progress(),
    }


def _limit_jobs(jobs):
    """Return no more jobs than there are processors, and say so."""
    try:
        most = len(os.sched_getaffinity(0))  # those that this process may use
    except AttributeError:  # not on this system
        most = os.cpu_count() or 1
    if jobs is None or jobs <= most:
        return jobs
    processors = "1 processor" if most == 1 else f"{most} processors"
    print(f"mvpa-kfda: --jobs {most}, as there are {processors}", file=sys.stderr)
    return most


def split_scoring(scoring):
    """Take the names of metrics apart at spaces and commas."""
    return " ".join(scoring or ["accuracy"]).replace(",", " ").split()


def add_null(parser):
    """Add the option of what to keep of the permutations' maps."""
    parser.add_argument(
        "--null",
        choices=NULLS,
        help="what to keep of the permutations' maps; cluster and tfce need full or "
        "stream (default: auto, which is one of these with these two)",
    )


def check_null(null, correction):
    """Refuse to keep less of the permutations' maps than a correction needs."""
    if null == "max" and correction in CLUSTER_CORRECTIONS:
        raise ValueError(
            f"--correction {correction} needs more than the maxima. Take --null full "
            "or --null stream, or leave --null out."
        )


def add_out(parser, default):
    """Add the option of the folder of the output."""
    parser.add_argument(
        "--out",
        metavar="DIR",
        type=Path,
        default=Path(default),
        help="folder for the output, made if need be (default: %(default)s). Files of "
        "an earlier run with the same names are replaced.",
    )


def check_out(folder):
    """Make the folder and see that it takes files, before anything is computed."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except (FileExistsError, NotADirectoryError):
        file = next(path for path in (folder, *folder.parents) if path.exists())
        raise NotADirectoryError(
            f"--out {folder}: {file} is a file, not a folder. Give another folder."
        ) from None
    except OSError as error:
        raise OSError(
            f"--out {folder}: no files can be written into this folder "
            f"({error.strerror}). Change its permissions, or give another folder."
        ) from error


def check_there(*paths):
    """Refuse files that do not exist, before anything is read."""
    for path in paths:
        if path is not None and not path.exists():
            raise FileNotFoundError(f"no such file: {path}")


def progress():
    """Leave the progress bar to the length of the run, but only on a terminal."""
    return None if sys.stderr.isatty() else False


def one_line(error):
    """Word an error or warning without line breaks, with options for arguments."""
    if isinstance(error, OSError) and error.strerror and error.filename:
        return f"{error.strerror}: {error.filename}"
    text = " ".join(str(error).split()) or type(error).__name__
    for pattern, words in REWORDED:
        text = re.sub(pattern, words, text)
    return text


class Parser(argparse.ArgumentParser):
    """A parser whose errors `main` reports like all others, in one line."""

    def error(self, message):
        """Hand the message on instead of printing the usage and leaving."""
        if "required: IMAGE" in message:  # an option with several values took them
            message += ". Put the images first, before the options."
        raise ValueError(message)
