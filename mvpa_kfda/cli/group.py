"""The command for groups of subjects: ``mvpa-kfda group``."""

import argparse
import time
from functools import partial
from pathlib import Path
from typing import get_args

from ..inference.listed import CLUSTER_FDR, Alternative, CorrectionName, MethodName
from ..utils.text import tell
from .common import (
    Option,
    add_options,
    add_out,
    check_out,
    given,
    number_or_name,
)

METHODS = get_args(MethodName)
CORRECTIONS = (*get_args(CorrectionName), CLUSTER_FDR)
ALTERNATIVES = get_args(Alternative)

#: Options of the command, which all go to `group_inference`.
GROUP_OPTIONS = (
    Option(
        "--method",
        "method",
        METHODS,
        "statistical test across subjects",
        default="prevalence",
    ),
    Option(
        "--correction",
        "correction",
        CORRECTIONS,
        "corrections for multiple testing, one figure each (default: max; holm for "
        "i-test)",
        several=True,
    ),
    Option(
        "--order",
        "order",
        "I",
        "i-test: rank of the tested score, counted from the lowest and chosen "
        "beforehand (default: 1)",
        int,
    ),
    Option(
        "--hypothesis",
        "hypothesis",
        "SHARE",
        "i-test: global, majority or a proportion, chosen beforehand (default: "
        "majority)",
        number_or_name(
            float,
            ("global", "majority"),
            "a share from 0 to 1 nor 'global' or 'majority'",
        ),
    ),
    Option(
        "--alternative",
        "alternative",
        ALTERNATIVES,
        "(default: greater; two-sided with --other)",
    ),
    Option("--metric", "metric", "M", "metric to test (default: the first one)"),
    Option(
        "--permutations",
        "n_permutations",
        "P",
        "number of second-level permutations (default: 10000)",
        int,
    ),
    Option("--alpha", "alpha", "A", "significance level", float, 0.05),
    Option(
        "--threshold",
        "threshold",
        "A",
        "cluster-forming p-level (default: 0.001 for images, else 0.05)",
        float,
    ),
    Option("--seed", "random_state", "S", "seed of the permutations", int, 0),
    Option(
        "--other",
        "other",
        "RESULT",
        "results of another group, or of another condition with --paired",
        several=True,
    ),
)

#: Peaks and time spans are printed up to this many.
_MOST = 5


def add_group(commands):
    """Add the command to the parser of commands."""
    parser = commands.add_parser(
        "group",
        help="test the results of several subjects",
        usage="%(prog)s RESULT [RESULT ...] [options]",
        description="Test the saved results of several subjects, one file (.h5) each, "
        "and write a table (.csv), figures (.png), a result (.h5) and, for "
        "images, maps (.nii.gz) and peaks, with names beginning with "
        "group_METHOD. The data are not needed.",
        epilog="prevalence, i-test and bootstrap need results with label permutations.",
    )
    parser.add_argument(
        "files", metavar="RESULT", nargs="+", help="results of the subjects, .h5"
    )
    add_options(parser, GROUP_OPTIONS)
    parser.add_argument(
        "--paired",
        action=argparse.BooleanOptionalAction,
        default=False,
        help="the others are results of the same subjects, in the same order",
    )
    parser.add_argument(
        "--resample",
        action=argparse.BooleanOptionalAction,
        default=False,
        help="resample maps on other grids to the grid of the first subject",
    )
    add_out(parser, ".")
    parser.set_defaults(run=_run_group, command="group")


def _run_group(arguments):
    """Load, test, write and report."""
    from ..group.second_level import group_inference

    start = time.perf_counter()
    if arguments.paired and arguments.other is None:
        raise ValueError("--paired compares two lists; add the second with --other.")
    files = _expand(arguments.files)
    other = None if arguments.other is None else _expand(arguments.other)
    stem = f"group_{arguments.method}"
    check_out(arguments.out, stem)
    options = given(arguments, GROUP_OPTIONS)
    options |= {"correction": arguments.correction, "other": other}
    result = group_inference(
        files,
        paired=arguments.paired,
        resample=arguments.resample,
        **options,
    )
    written = _write(result, arguments.out, stem)
    for line in _word(result):
        tell(line)
    tell(f"Wrote {', '.join(map(str, written))}")
    tell(f"Took {time.perf_counter() - start:.1f} s")


def _expand(patterns):
    """Return files in order; shells that leave patterns alone need it done here."""
    from ..utils.checks import expand_pattern

    return [str(path) for pattern in patterns for path in expand_pattern(pattern)]


def _write(result, folder, stem):
    """Write result, table, figures and maps; return their paths."""
    from ..inference.corrections import is_of_maximum
    from .output import save_figure, save_table

    name = folder / stem
    result.save(f"{name}.h5", overwrite=True)  # first: all else can be made from it
    save_table(result.to_dataframe(), f"{name}.csv")
    written = [Path(f"{name}.h5"), Path(f"{name}.csv")]
    figures = {"": result.plot}
    for other in result.correction[1:] if result.axes else ():
        figures[f"_{other}"] = partial(result.plot, correction=other)
    if len(result.null_max) and (
        not result.axes or any(map(is_of_maximum, result.correction))
    ):
        figures["_null"] = result.plot_null
    for ending, plot in figures.items():
        written.append(Path(f"{name}{ending}.png"))
        save_figure(written[-1], plot)
    return written + _write_images(result, name)


def _write_images(result, name):
    """Write the maps of a result in a brain; return their paths."""
    if not _in_brain(result):
        return []
    from ..utils.files import write_whole
    from .output import save_table

    written = []
    for shown in (*result.scoring, "p", "neglog10p"):
        # Of a metric as "scores", which is what other tools look for.
        word = "scores" if shown == result.metric else shown
        path = Path(f"{name}_{word}{result.geometry.base.ending}")
        write_whole(path, result.to_img(shown).to_filename)
        written.append(path)
    peaks = Path(f"{name}_peaks.csv")
    save_table(result.peaks().round(dict.fromkeys("xyz", 3)), peaks)
    return [*written, peaks]


def _in_brain(result):
    """Tell whether the positions are such that one file holds their image."""
    return result.geometry is not None and result.geometry.base.ending is not None


def _word(result):
    """Word what was tested and what came out, in lines."""
    from ..results.finding import Finding

    yield f"Tested {result.places.describe()}: {', '.join(result.description())}"
    yield f"Found: {Finding(result).headline}"
    for correction in result.correction if result.axes else result.correction[:1]:
        yield f"Test: {Finding(result, correction).test}"
    if result.method == "prevalence":
        yield _word_prevalence(result)
    for text in result.worded_subject_warnings:
        yield f"Warning: {text}"
    if _in_brain(result) and (result.pvalues() <= result.alpha).any():
        yield result.peaks().head(_MOST).to_string(index=False)


def _word_prevalence(result):
    """Word the largest bound of the prevalence, and where it is a majority."""
    import numpy as np

    from ..utils.checks import counted
    from ..utils.rounding import rounded_down

    bound, largest = np.asarray(result.gamma_0), result.largest_gamma_0
    if not np.isfinite(bound).any():
        return "Prevalence: no bound, as a prevalence of 0 is not rejected anywhere"
    shown, most = rounded_down(np.nanmax(bound)), rounded_down(largest)
    return (
        f"Prevalence: more than {shown} of the population have an effect somewhere (no "
        f"data could show more than {most}), and the majority at "
        f"{counted(np.count_nonzero(bound >= 0.5), 'position')}"
    )
