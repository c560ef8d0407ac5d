"""The command that makes a page about saved results: ``mvpa-kfda report``."""

from pathlib import Path

from ..utils.text import tell
from .common import CORRECTIONS, check_there


def add_report(commands):
    """Add the command to the parser of commands."""
    parser = commands.add_parser(
        "report",
        help="create an HTML report of saved results",
        usage="%(prog)s RESULT [RESULT ...] [options]",
        description="Create a report (.html) of one or several saved results (.h5) of "
        "subjects, groups, comparisons or latencies: summary, figures, "
        "tables, design, methods paragraph, warnings and parameters. The "
        "report is a single, self-contained file. The data are not needed.",
    )
    parser.add_argument("files", metavar="RESULT", nargs="+", help="saved results, .h5")
    parser.add_argument(
        "--output",
        metavar="FILE",
        type=Path,
        help="output file (default: next to the result, with the ending .html; for "
        "several results, report.html in the current folder)",
    )
    parser.add_argument(
        "--title", metavar="T", help="title of the report (default: what was analysed)"
    )
    parser.add_argument(
        "--correction",
        nargs="+",
        choices=CORRECTIONS,
        metavar="C",
        help="corrections of the p-values of single subjects, with a figure and a "
        f"table each, of {', '.join(CORRECTIONS)} (default: max); for groups, "
        "those they were tested with are shown",
    )
    parser.add_argument(
        "--overwrite", action="store_true", help="overwrite an existing report"
    )
    parser.set_defaults(run=_run_report)


def _run_report(arguments):
    """Load the results, make the page, and say where it is."""
    from ..reports.page import check_page, report
    from ..utils.checks import expand_pattern

    paths = [path for name in arguments.files for path in expand_pattern(name)]
    check_there(*paths)
    output = arguments.output
    if output is None:
        output = paths[0].with_suffix(".html") if len(paths) == 1 else "report.html"
    options = {"title": arguments.title, "overwrite": arguments.overwrite}
    options["correction"] = arguments.correction
    check_page(output, arguments.overwrite)  # before large files are read
    report(dict(zip(_names(paths), paths, strict=True)), output, **options)
    tell(f"Wrote {output}")


def _names(paths):
    """Name results after their files, and after their paths where names repeat."""
    stems = [path.stem for path in paths]
    if len(set(stems)) == len(stems):
        return stems
    names = list(map(str, paths))
    twice = [name for name in names if names.count(name) > 1]
    if twice:
        raise ValueError(f"{twice[0]} is listed twice. List each result once.")
    return names
