"""What all commands have in common: options, the folder of the output, errors.

An option is a row of a table: its flag, and what the functions call it. The parser, the
arguments of the functions and the wording of their errors are made of these rows.

Nothing here or in the commands loads much before there is work to do, so that
``--help`` answers at once. Hence the names of what there is come from modules that list
them and load nothing.
"""

import argparse
import os
import re
import sys
import tempfile
from collections import namedtuple
from difflib import get_close_matches
from pathlib import Path
from typing import get_args

from ..inference.listed import OF_COURSES, CorrectionName
from ..metrics.listed import ClassMetric, NumberMetric
from ..utils.text import tell

CORRECTIONS = get_args(CorrectionName)
NULLS = ("auto", "full", "max")
METRICS, REGRESSION_METRICS = get_args(ClassMetric), get_args(NumberMetric)
#: What ``--reg`` takes beside numbers.
PENALTIES = ("auto", "tuned", "ledoit_wolf", "oas")
#: Steps that every fold learns.
STEPS = ("zscore", "pca", "whiten")
#: Files hold features, and no kernel matrices.
KERNELS = ("linear", "rbf", "polynomial")

#: The p-level that forms clusters, the only one where not all maps are kept.
CLUSTER_LEVEL = 0.05


def number_or_name(number, names, words):
    """Return what reads one of some names, or else a number of a type."""

    def read(text):
        if text in names:
            return text
        try:
            return number(text)
        except ValueError:
            hint = ". Put files before the options" if Path(text).exists() else ""
            raise argparse.ArgumentTypeError(
                f"{text!r} is neither {words}{hint}"
            ) from None

    return read


#: An option: its flag; what the functions call it; what stands for its value in the
#: help, or a tuple of choices; the help; type and default; whether it takes one value
#: or more, which add to those before if it is given again; whether a command needs it.
#: One of type bool takes no value; if it is true by default, it has a --no- form.
Option = namedtuple(
    "Option",
    "flag argument takes help type default several required",
    defaults=(str, None, False, False),
)

#: Options of time courses.
WINDOWS = (
    Option(
        "--window",
        "window",
        "S",
        "window length in seconds (default: single samples)",
        float,
    ),
    Option("--step", "step", "S", "step between windows in seconds", float),
)
#: Option of tables of images.
LABEL_COLUMN = Option(
    "--label-column",
    "label_column",
    "COLUMN",
    "column with the classes",
    default="label",
)

#: Options of every analysis.
ANALYSIS_OPTIONS = (
    Option("--kernel", "kernel", KERNELS, "", default="linear"),
    Option(
        "--reg",
        "reg",
        "R",
        "auto: the ridge penalty is set by the features, without labels (default; to "
        "predict numbers the same as tuned); a number: relative to the variance of a "
        "trial; several numbers: labels select one of them on each training set, which "
        "takes about as many times as long; tuned: they select one of those that the "
        "features suggest, two to four times as long; ledoit_wolf, oas: estimated",
        number_or_name(float, PENALTIES, f"a number nor one of {', '.join(PENALTIES)}"),
        several=True,
    ),
    Option(
        "--df",
        "df",
        "DF",
        "instead of --reg, the penalty that gives DF degrees of freedom",
        float,
    ),
    Option("--cv", "cv", "K", "number of folds (default: one per group, or 10)", int),
    Option(
        "--scoring",
        "scoring",
        "M",
        "metrics, of which the first is tested (default: accuracy); A:B or NAME=A:B,C:D"
        " are distances of pairs of classes",
        several=True,
    ),
    Option(
        "--permutations",
        "n_permutations",
        "P",
        "number of label permutations; in Python none are drawn unless asked for, but "
        "the files of a command have p-values",
        int,
        1000,
    ),
    Option(
        "--seed",
        "random_state",
        "S",
        "random seed, so that the same command writes the same files (in Python the "
        "default is None)",
        int,
        0,
    ),
    Option("--jobs", "n_jobs", "N", "number of parallel jobs (default: 1)", int),
    Option(
        "--components",
        "n_components",
        "N",
        "classify with the first N discriminants only",
        int,
    ),
    Option(
        "--average",
        "average",
        "K",
        "number of trials of one class averaged into a pseudo-trial, within test sets; "
        "max: the size of the smallest class there",
        number_or_name(int, ("max",), "a number of trials nor max"),
    ),
    Option(
        "--repeats",
        "n_repeats",
        "R",
        "number of repeats, whose scores are averaged: with --average trials are "
        "regrouped at random, else new random folds are drawn",
        int,
        1,
    ),
    Option(
        "--equalize",
        "equalize",
        "",
        "with --average, make equal numbers of averages of all classes in each test "
        "set; with --average 1 trials of larger classes are left out at random",
        bool,
        False,
    ),
    Option(
        "--average-test",
        "average_test",
        "",
        "--no-average-test: with --average, test on single trials",
        bool,
        True,
    ),
    Option("--nystrom", "approx", "R", "approximate the kernel with R landmarks", int),
    Option(
        "--preprocess",
        "preprocess",
        STEPS,
        "steps fitted to the training trials of each fold, in this order: zscore of "
        "each feature, pca with 99 %% of the variance, whiten: the same with unit "
        "variance",
        several=True,
    ),
)

#: The correction, which results take and the functions do not.
CORRECTION = Option("--correction", "correction", CORRECTIONS, "", default="max")

#: What to keep of the permutations' maps.
NULL = Option(
    "--null",
    "null",
    NULLS,
    "what to keep of the permuted maps; cluster and tfce need auto or full, "
    "cluster-size, cluster-depth and max-step-down need full (default: auto, which "
    "keeps what is needed)",
)


def add_options(parser, options):
    """Add options to a parser, or to a group of one; return what was added."""
    added = []
    for option in options:
        shown = option.default is not None and option.type is not bool
        default = f"(default: {option.default})" if shown else ""
        keywords = {"required": option.required, "default": option.default}
        keywords["help"] = " ".join(filter(None, [option.help, default]))
        if option.type is bool:
            both = argparse.BooleanOptionalAction
            keywords["action"] = both if option.default else "store_true"
        elif isinstance(option.takes, tuple):
            keywords["choices"] = option.takes
        else:
            keywords |= {"metavar": option.takes, "type": option.type}
        if option.several:
            keywords |= {"nargs": "+", "action": "extend"}
        action = parser.add_argument(option.flag, dest=option.argument, **keywords)
        added.append(action)
    return added


def given(arguments, options):
    """Return what was given for options, by the arguments of the functions."""
    return {option.argument: getattr(arguments, option.argument) for option in options}


def analysis_arguments(arguments):
    """Return the arguments of every analysis, as the functions take them."""
    values = given(arguments, ANALYSIS_OPTIONS)
    del values["df"]  # it is part of the penalty
    return values | {
        "reg": _reg(arguments),
        "approx": _approx(arguments.approx),
        "scoring": split_scoring(arguments.scoring),
        "n_jobs": _limit_jobs(arguments.n_jobs),
    }


def check_penalty(arguments):
    """Refuse options of the penalty that do not go together."""
    if arguments.df is not None and arguments.reg is not None:
        raise ValueError("Use either --reg or --df, not both: each sets the penalty.")
    regs = arguments.reg or ["auto"]
    names = [each for each in regs if isinstance(each, str)]
    if names and len(regs) > 1:
        raise ValueError(
            f"--reg {' '.join(map(str, regs))} is not one penalty, nor several numbers "
            f"to select from. Use several numbers, or {names[0]} alone."
        )


def _reg(arguments):
    """Return the penalty as the functions take it."""
    from .. import DegreesOfFreedom

    if arguments.df is not None:
        return DegreesOfFreedom(arguments.df)
    regs = arguments.reg or ["auto"]
    return regs[0] if len(regs) == 1 else regs


def _approx(n_landmarks):
    """Return what approximates the kernel, if anything is to."""
    if n_landmarks is None:
        return None
    if n_landmarks < 1:
        raise ValueError(
            f"--nystrom {n_landmarks} is not a number of landmarks. Use 1 or more, "
            "such as 200."
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
    from ..utils.checks import counted

    are = "is" if most == 1 else "are"
    processors = counted(most, "processor")
    tell(f"mvpa-kfda: --jobs {most}, as there {are} {processors}", file=sys.stderr)
    return most


def split_scoring(scoring):
    """Take the names of metrics apart at spaces and commas; pairs are A:B,C:D."""
    found = []
    for item in scoring or ["accuracy"]:
        if isinstance(item, str) and ":" in item:
            found.append(_split_pairs(item))
        else:
            found += item.replace(",", " ").split()
    return found


def _split_pairs(item):
    """Return pairs of classes, [NAME=]A:B,C:D, by the name of the mean over them."""
    name, is_named, words = item.rpartition("=")
    pairs = [tuple(split_commas([pair.replace(":", ",")])) for pair in words.split(",")]
    if not all(len(pair) == 2 and all(pair) for pair in pairs):
        raise ValueError(
            f"--scoring {item} is not a list of pairs of classes. Write A:B, or "
            "NAME=A:B,C:D for the mean over several."
        )
    return {name.strip() if is_named else ", ".join(map(" / ".join, pairs)): pairs}


def split_commas(names):
    """Take names apart at commas; a name may hold spaces."""
    if names is None:
        return None
    return [name.strip() for item in names for name in item.split(",")]


def split_classes(items, what):
    """Return the names of --classes, or these by class where classes have a name."""
    named = ["=" in item for item in items]
    if not any(named):
        return split_commas(items)
    if not all(named):
        raise ValueError(
            f"--classes {' '.join(items)} names some classes but not others. Write "
            f"NAME={what},{what} for each, or list the {what.lower()}s without names."
        )
    pairs = [item.split("=", 1) for item in items]
    classes = {name.strip(): split_commas([names]) for name, names in pairs}
    if len(classes) < len(pairs):
        raise ValueError(
            f"--classes gives two classes the same name. Put the {what.lower()}s of a "
            f"class together: NAME={what},{what}."
        )
    return classes


def null_for(correction, null=None):
    """Return what to keep of the permutations' maps, enough for a correction."""
    from ..inference.corrections import CORRECTIONS

    needs = CORRECTIONS[correction].needs
    if null == "max" and needs != "maximum":
        raise ValueError(
            f"--correction {correction} needs more than the maxima. Use --null full, "
            "or leave --null out."
        )
    if null in (None, "auto"):
        return "full" if needs is None else "auto"
    return null


def check_course(correction, made):
    """Refuse a correction for time courses where `made`, in words, is a map."""
    if correction in OF_COURSES:
        raise ValueError(
            f"--correction {correction} is for time courses, and {made}. Use "
            "--correction max for single positions, or cluster or tfce."
        )


def add_out(parser, default):
    """Add the option of the folder of the output."""
    parser.add_argument(
        "--out",
        metavar="DIR",
        type=Path,
        default=Path(default),
        help="output folder, created if needed (default: %(default)s). Existing files "
        "with the same names are overwritten.",
    )


def check_out(folder, stem):
    """Make the folder and see that it takes files, before anything is computed.

    What is there by names that begin with `stem` must be files.
    """
    from ..utils.files import check_target

    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except (FileExistsError, NotADirectoryError):
        file = next(path for path in (folder, *folder.parents) if path.exists())
        raise NotADirectoryError(
            f"--out {folder}: {file} is a file, not a folder. Choose another folder."
        ) from None
    except OSError as error:
        raise OSError(
            f"--out {folder}: no files can be written into this folder "
            f"({error.strerror}). Change its permissions, or choose another folder."
        ) from error
    for path in folder.iterdir():
        if path.name.startswith(stem) and not path.is_dir():
            check_target(path)


def check_there(*paths):
    """Refuse files that do not exist, before anything is read."""
    for path in paths:
        if path is not None and not path.exists():
            raise FileNotFoundError(f"no such file: {path}")


#: So much of the name of a file is printed in errors.
_LONG_NAME = 300


def one_line(error):
    """Word an error or warning without line breaks."""
    if isinstance(error, OSError) and error.strerror and error.filename:
        name = str(error.filename)
        name = name if len(name) <= _LONG_NAME else f"{name[:_LONG_NAME]}..."
        return f"{error.strerror}: {name}"
    return " ".join(str(error).split()) or type(error).__name__


#: What Python alone has, by pattern, and what there is for it on the command line.
REWORDED = (
    (
        r"imgs holds values of vertices, but not .*",
        "GIFTI files hold values of vertices without a mesh. Commands decode volumes "
        "(.nii.gz) and CIFTI files; surface images are decoded in Python.",
    ),
    (
        r" Pass a mask instead: .*| To train on whole runs and test on others, pass "
        r"cv=\[.*",
        "",
    ),
    (
        r" To choose among several.*?(tuned'|\])\)?\."
        r"|; if the names are wrong, pass subjects=\[\.\.\.\]"
        r"|,? or pass your own matrix as sensors|, X_test\b| or y_test\b"
        r"| or cv=GroupKFold\(\d+\)",
        "",
    ),
    (
        r" \(X_test, test_epochs\)(, whose confounds are not\. Leave confounds out),.*",
        r" (test_epochs)\1.",
    ),
    (
        r"GraphSmooth\(.*\) (knows .*) the step PCA\(.*?\) in preprocess makes others"
        r".*",
        r"--smooth \1 pca and whiten make others of them. Leave --smooth out, or take "
        "--preprocess zscore.",
    ),
    (
        r" A float is relative to trace.*? choose from\.",
        " Or auto, tuned, ledoit_wolf, oas, or several numbers to select from, or "
        "--df.",
    ),
    (r"'grid'(: .*?) Or a Ridge object, but no other penalty\.", r"--reg\1"),
    (
        "a penalty that is not tuned, such as reg='auto'",
        "set the penalty by another --reg, or by --df",
    ),
    (r"\bUse a float, 'auto',", "Use a number, --reg auto,"),
    (r"\bmesh=\(left, right\)", "--mesh LEFT RIGHT"),
    (r"\bTuned\b", "--reg tuned"),
    (r"\bDegreesOfFreedom\b", "--df"),
    (r"(LowRank\(.*?=)?Nystrom\(n_components=(\d+)[^()]*\)+", r"--nystrom \2"),
    (r"\ban n_components of at most", "--nystrom of at most"),
    (
        r"\by must hold (numbers for regression; .*?) For class labels .*",
        r"--by must name a column of \1 For class labels leave --task out.",
    ),
    (r"\by(_test)? names\b", "--classes names"),
    (
        r"a dict of classes, \{.*?\} \(y for [^)]*\)",
        "--classes NAME=LABEL,LABEL ...",
    ),
    (r" Pass \w+ as an array with one value per epoch\.", ""),
    (r" If these are labels, pass one for each of the \d+ epochs\.", ""),
    (r" Use GroupKFold [^;]*; with average=k", " With --average K"),
    (r" Use a number of folds, [^;]*; with", " Use --cv, a number of folds; with"),
    (r" \(cv=5\), random ones \(cv=KFold\([^()]*\)\)", ""),
    (r"\baverage=k\b", "--average K"),
    (r"\bbut average is None", "but --average is not set"),
    (r"([Uu]se|or) another path", r"\1 another folder with --out"),
    (r"(the mean of each block),", r"\1 (use --average-blocks),"),
)

# Arguments stand in messages with a value, as in n_jobs=2; after "Invalid value for" or
# "leave"; or bare, which needs no other words if the option has the same name. In the
# calls of functions, which some messages advise, they stay as they are.

#: What an argument may be set to in a message: strings, numbers, truth, nothing.
_VALUE = (
    r"""'[^']*'|"[^"]*"|\['[^\]]*'\]|-?\d+(?:\.\d+)?(?:e[-+]?\d+)?|True|False|None"""
)


def reword(text, options):
    """Put options (argument -> argparse action) in the place of arguments in a text."""
    from ast import literal_eval  # only messages need it

    there = {flag for option in options.values() for flag in option.option_strings}
    for pattern, words in REWORDED:
        if there.issuperset(re.findall(r"--[a-z][a-z-]*", words)):
            text = re.sub(pattern, words, text)
    names = "|".join(options)
    others = "|".join(
        name
        for name, option in options.items()
        if len(name) > 1 and option.option_strings[0] != f"--{name}"
    )
    patterns = (
        r"\w\([^()]*\)",
        rf"(?<![-\w.'\"])(?P<given>{names})=(?P<value>{_VALUE})",
        rf"(?<=Invalid value for )'(?P<wrong>{names})'",
        rf"(?:(?<=[Ll]eave out )|(?<=[Ll]eave )(?!out\b))(?P<left>{names})\b",
        rf"(?<![-\w.='\"/])(?P<bare>{others})(?![\w='\"/(\[]|\.\w)",
    )

    def words(match):
        name = next(filter(None, match.group("given", "wrong", "left", "bare")), None)
        if name is None:
            return match[0]
        if match["given"] is None:
            return options[name].option_strings[0]
        return _word_value(options[name], literal_eval(match["value"]))

    # A function is passed an argument; an option is used.
    text = re.sub("|".join(patterns), words, text)
    return re.sub(r"\b(?:P|(p))ass (?=--)", lambda m: "use " if m[1] else "Use ", text)


def _quote(text):
    """Quote a value as one would type it in a shell."""
    from shlex import quote  # only messages need it

    plain = "'" in text and not set(text) & set('"$`\\!')
    return f'"{text}"' if plain else quote(text)


def _word_value(option, value):
    """Word an option with a value of Python's, e.g. "--null max" for null='max'."""
    flag, *opposite = option.option_strings
    if value is None or value is False:
        if "none" in (option.choices or ()):
            return f"{flag} none"
        return opposite[0] if opposite else f"no {flag}"
    if option.nargs == 0:
        return flag
    values = value if isinstance(value, list) else [value]
    return " ".join([flag, *(_quote(str(value)) for value in values)])


class Parser(argparse.ArgumentParser):
    """A parser whose errors `main` reports like all others, in one line."""

    def error(self, message):
        """Hand the message on instead of printing the usage and leaving."""
        if "required: IMAGE" in message:  # an option with several values took them
            message += ". Put the images first, before the options."
        raise ValueError(message)

    def parse_args(self, args=None, namespace=None):
        """Parse all arguments; of an option that there is not, name the nearest."""
        parsed, left = self.parse_known_args(args, namespace)
        if left:
            options = self.options(getattr(parsed, "command", None), alone=True)
            flags = [flag for each in options.values() for flag in each.option_strings]
            wrong = next((each for each in left if each.startswith("-")), "")
            near = get_close_matches(wrong.split("=")[0], flags, n=1)
            hint = f". Did you mean {near[0]}?" if near else ""
            self.error(f"unrecognized arguments: {' '.join(left)}{hint}")
        return parsed

    def options(self, command=None, alone=False):
        """Return all options by what functions call them, those of a command first.

        With `alone` they are those of the command only.
        """
        own, others = {}, {}
        for action in self._actions:
            if isinstance(action.choices, dict):
                for name, parser in action.choices.items():
                    (own if name == command else others).update(parser.options())
            elif action.option_strings and action.dest != "help":  # a word, not -h
                if action.help is not argparse.SUPPRESS:
                    others[action.dest] = action
        return own if alone else others | own
