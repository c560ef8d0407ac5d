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
CORRECTIONS = (
    *("none", "max", "max-step-down", "bonferroni", "fdr", "fdr-by"),
    *("cluster", "cluster-size", "tfce"),
)
NULLS = ("auto", "full", "max", "stream")
METRICS = (
    *("accuracy", "balanced_accuracy", "roc_auc", "recall", "precision", "f1"),
    *("recall_macro", "precision_macro", "f1_macro", "kappa", "confusion_matrix"),
)
REGRESSION_METRICS = ("r2", "pearsonr", "neg_mean_squared_error")
#: What ``--reg`` takes beside a number, and by what ``--reg tuned`` chooses.
PENALTIES = ("tuned", "ledoit_wolf", "oas")
CRITERIA = ("squared_error", "accuracy", "log_loss")

#: Corrections that need every permutation's map, and those for which ``--null stream``
#: keeps too little of them.
CLUSTER_CORRECTIONS = ("cluster", "tfce", "cluster-size", "max-step-down")
FULL_CORRECTIONS = ("cluster-size", "max-step-down")

#: The p-level that forms clusters, the only one for ``--null stream``.
CLUSTER_LEVEL = 0.05


def _penalty(text):
    """Return the number or the name that ``--reg`` was given."""
    if text in PENALTIES:
        return text
    try:
        return float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(
            f"{text!r} is neither a number nor one of {', '.join(PENALTIES)}"
        ) from None


#: Options of every analysis: flag, what it takes, type, default, help.
ANALYSIS_OPTIONS = (
    (
        "--reg",
        "R",
        _penalty,
        None,
        "ridge penalty relative to the variance of a trial; tuned: chosen inside every "
        "training fold, which takes 10 to 40 times as long; ledoit_wolf, oas: "
        "estimated, as fast as a number (default: 0.3)",
    ),
    (
        "--df",
        "DF",
        float,
        None,
        "instead, the penalty that leaves DF degrees of freedom",
    ),
    ("--cv", "K", int, None, "number of folds; else one per group, or 10"),
    ("--scoring", "M", str, None, "metrics, the first is tested; else accuracy"),
    ("--permutations", "P", int, 1000, "number of label permutations"),
    ("--seed", "S", int, 0, "seed of the permutations"),
    ("--jobs", "N", int, None, "number of parallel jobs; else 1"),
    ("--components", "N", int, None, "classify by the first N discriminants only"),
    ("--average", "K", int, None, "average K trials of a class within test sets"),
    ("--nystrom", "R", int, None, "approximate the kernel with R landmarks"),
)

#: Options that take one value or more. If given again, they add to what is there.
PLURAL = ("--picks", "--scoring", "--labels", "--drop")

#: Advice for Python, by pattern, and what it is on the command line.
REWORDED = (
    (r"standardize=False", "--standardize none"),
    (r"null='(\w+)'( instead of '\w+')?", r"--null \1"),
    (r"n_permutations=(\d+)", r"--permutations \1"),
    (r"reg='(tuned|ledoit_wolf|oas)'", r"--reg \1"),
    (r"Use a larger reg\b", "Use a larger --reg"),
    (
        r" A float is relative to trace.*'oas'\.",
        " Or tuned, ledoit_wolf, oas; or --df.",
    ),
    (
        r"Use a float, DegreesOfFreedom or Tuned",
        "Use --reg tuned, a number, or --df DF",
    ),
    (r"Invalid value for 'df'", "Invalid value for --df"),
    (r"\bdf=", "--df "),
    (r"Tuned\(cv=5\), Tuned\(cv=LeaveOneOut\(\)\)", "another --reg, or --df"),
    (r"Nystrom\(n_components=(\d+)\) has", r"--nystrom \1 has"),
    (r"an n_components of at most", "--nystrom at most"),
    (r"'n_components'", "--components"),
    (r"\baverage=(\d+)", r"--average \1"),
    (r"'average'", "--average"),
    (r"task='regression'", "--task regression"),
    (r"([Gg]ive|or) another path", r"\1 another folder with --out"),
    (r"(the mean of each block),", r"\1 (use --average-blocks),"),
    (
        r"in regression a penalty is .*'squared_error'\)",
        "for --task regression leave --criterion out",
    ),
    (r"\bcriterion='(\w+)'", r"--criterion \1"),
    (
        r"y must hold numbers for regression; got dtype (.*?)\. For class labels.*",
        r"--task regression needs a column of numbers; that of --by has dtype \1. Name "
        "another one, or leave --task out to decode classes.",
    ),
    (r"Invalid value for 'strength': (\S+)\.", r"Invalid value for --smooth: \1."),
    (r" To choose among several, .*?--reg tuned\.", ""),
    (r" \(train_on, test_epochs, X_test\)", " (--train-on, --test-file)"),
    (r"\bLeave average out\b", "Leave --average out"),
    (r"\be\.g\. cv=5", "e.g. --cv 5"),
    (r"leave out approx\b", "leave --nystrom out"),
    (
        r"LowRank\(.*?approx=Nystrom\(n_components=(\d+).*?\)\)",
        r"landmarks, --nystrom \1",
    ),
    (r", or give sensors a matrix of your own", ""),
    (r"Pick others, or give sensors a matrix of your own\.", "Pick others."),
    # Of groups.
    (
        r"Invalid value for '(alpha|threshold|metric|alternative)'",
        r"Invalid value for --\1",
    ),
    (r"Invalid value for 'n_(permutations|jobs)'", r"Invalid value for --\1"),
    (r"\b(method|metric|alternative|scoring)='([\w-]+)'", r"--\1 \2"),
    (r"\b(alpha|threshold)=(\d)", r"--\1 \2"),
    (r"\bscoring=\['(\w+)', '(\w+)'\]", r"--scoring \1 \2"),
    (r"\b(resample|paired)=True", r"--\1"),
    (r"\buse paired=False", "leave --paired out"),
    (r"; if the names are wrong, pass subjects=\[\.\.\.\]", ""),
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
    parser.add_argument(
        "--criterion",
        choices=CRITERIA,
        help="by what --reg tuned chooses (default: squared_error; the others take "
        "several times as long)",
    )


def analysis_arguments(arguments):
    """Return what was given for these options, by the names of the functions."""
    return {
        "kernel": arguments.kernel,
        "reg": _reg(arguments),
        "n_components": arguments.components,
        "average": arguments.average,
        "approx": _approx(arguments.nystrom),
        "cv": arguments.cv,
        "scoring": split_scoring(arguments.scoring),
        "n_permutations": arguments.permutations,
        "random_state": arguments.seed,
        "n_jobs": _limit_jobs(arguments.jobs),
        "verbose": progress(),
    }


def check_penalty(arguments):
    """Refuse options of the penalty that do not go together."""
    if arguments.df is not None and arguments.reg is not None:
        raise ValueError("Give either --reg or --df, not both: each sets the penalty.")
    if arguments.criterion and arguments.reg != "tuned":
        raise ValueError(
            "--criterion says by what a penalty is tuned. Add --reg tuned, or leave "
            "--criterion out."
        )


def _reg(arguments):
    """Return the penalty as the functions take it."""
    from .. import DegreesOfFreedom, Tuned

    if arguments.df is not None:
        return DegreesOfFreedom(arguments.df)
    if arguments.criterion:
        return Tuned(criterion=arguments.criterion)
    return 0.3 if arguments.reg is None else arguments.reg


def _approx(n_landmarks):
    """Return what approximates the kernel, if anything is to."""
    if n_landmarks is None:
        return None
    if n_landmarks < 1:
        raise ValueError(
            f"--nystrom {n_landmarks} is no number of landmarks. Give 1 or more, such "
            "as 200."
        )
    from .. import Nystrom

    return Nystrom(n_landmarks)


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
        "stream, cluster-size and max-step-down need full (default: auto, which keeps "
        "what is needed)",
    )


def check_null_options(null, correction):
    """Refuse to keep less of the permutations' maps than a correction needs."""
    if null == "stream" and correction in FULL_CORRECTIONS:
        raise ValueError(
            f"--correction {correction} needs every permutation's map. Take --null "
            "full, or leave --null out."
        )
    if null == "max" and correction in CLUSTER_CORRECTIONS:
        others = "" if correction in FULL_CORRECTIONS else " or --null stream"
        raise ValueError(
            f"--correction {correction} needs more than the maxima. Take --null full"
            f"{others}, or leave --null out."
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
