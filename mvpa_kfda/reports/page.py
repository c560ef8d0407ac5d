"""The page about one or several results: `report`."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from ..inference.corrections import CorrectionNames, known_corrections
from ..results.base import Result
from ..results.finding import Finding
from ..results.load import load_result
from ..utils.checks import check_path, some_of
from ..utils.files import check_target, write_whole
from ..utils.problems import who_was_told
from .html import paragraph, part, table_html
from .sections import SECTIONS
from .summary import by_name, corrections_of, heading, word_answer

if TYPE_CHECKING:
    import mne

ResultOrPath = Result | str | PathLike[str]

#: Results whose interactive views a page has, at most.
_MOST_LARGE = 4


def report(
    results: ResultOrPath | Sequence[ResultOrPath] | Mapping[str, ResultOrPath],
    fname: str | PathLike[str] | None = None,
    title: str | None = None,
    *,
    correction: CorrectionNames | None = None,
    overwrite: bool = False,
) -> mne.Report:
    """Create a self-contained report on one or several results.

    It summarises the question and the finding in two sentences, shows the scores with
    chance level and corrected p-values, the null distribution, patterns and tables of
    peaks, and lists warnings, parameters and package versions. The report is a single
    HTML file that loads nothing from the network.

    Parameters
    ----------
    results : result, path, sequence of these, or dict of str -> result or path
        Results of any function of this package, or the files that their ``save`` wrote,
        including groups, comparisons and latencies. Several results get an overview
        table and a part each, named by the keys of a dict. Of a file, the page also
        says how to verify it, and what :meth:`Verification.record` kept.
    fname : path-like or None
        The file to write, with the extension .html; None writes no file.
    title : str or None
        The title of the report; None takes the name of the analysis.
    correction : str, sequence of str, or None
        Corrections of the p-values in figures, tables and text for the maps of single
        subjects, as in their `pvalues`: each has a figure and a table, and the first is
        used in the text. None takes "max". Groups and comparisons are shown with all
        corrections they were tested with.
    overwrite : bool
        Overwrite an existing file.

    Returns
    -------
    report : mne.Report
        The report, to which more can be added, e.g. with ``add_figure``.

    Raises
    ------
    TypeError
        If an object is not a result, or the title is not text.
    ValueError
        If there are no results, if a correction is unknown or needs more of the
        permutations than a result has kept, or if the file name does not end in .html.
    FileExistsError
        If the file exists and `overwrite` is false.
    FileNotFoundError
        If the folder of the file does not exist.

    Examples
    --------
    >>> from mvpa_kfda import decode_epochs, report, simulate_epochs
    >>> epochs = simulate_epochs(n_classes=2, random_state=0)
    >>> result = decode_epochs(epochs, n_permutations=99, random_state=0)
    >>> page = report(result, title="Faces and houses")
    >>> page.save("page.html", overwrite=True, open_browser=False)  # doctest: +SKIP
    """
    named, paths = _read(results)
    title = _check_title(title, named)
    if correction is not None:
        correction = _check_correction(correction, named)
    if fname is not None:
        check_page(check_path(fname, "fname"), overwrite)
    from .frame import Page  # MNE-Python is slow to import

    page = Page(title)
    sections = [x for x in SECTIONS if len(named) <= _MOST_LARGE or not x.is_large]
    texts = who_was_told({name: result.warnings for name, result in named.items()})
    shared = {text: names for text, names in texts.items() if len(names) > 1}
    if len(named) > 1:
        words = f"{len(named)} results."
        in_brains = (getattr(x, "geometry", None) is not None for x in named.values())
        if len(sections) < len(SECTIONS) and any(in_brains):
            words += (
                " Interactive views are left out of pages about more than "
                f"{_MOST_LARGE} results; result.view() makes them."
            )
        html = paragraph(words) + table_html(_overview(named, correction))
        for text, names in shared.items():
            html += paragraph(f"{some_of(names)}: {text}", "warning")
        page.add_html(part("wrapped", html), title="All results", tags=("summary",))
    for name, result in named.items():
        corrections = corrections_of(result, correction)
        # Selectors, by which the page finds its parts, begin with no digit.
        of_name = f"Result {name}" if re.match(r"[^A-Za-z]", name) else name
        place = {"section": of_name if len(named) > 1 else None}
        for section in sections:
            html = section.html(result, corrections, paths.get(name))
            for text in shared:
                html = html.replace(paragraph(text, "warning"), "")
            if html:
                place |= {"title": section.title, "tags": (section.tag,)}
                page.add_html(part("wrapped", html), **place)
    if fname is not None:
        options = {"open_browser": False, "overwrite": True, "verbose": "error"}
        write_whole(fname, lambda draft: page.save(draft, **options))
    return page


def _read(results):
    """The results by name, and the paths of those that are read from files."""
    if isinstance(results, str | PathLike):
        results = [results]
    if not isinstance(results, Mapping | Sequence):
        return by_name(results, "report"), {}
    given = [*(results.values() if isinstance(results, Mapping) else results)]
    is_path = [isinstance(entry, str | PathLike) for entry in given]
    read = [load_result(x) if of else x for x, of in zip(given, is_path, strict=True)]
    if isinstance(results, Mapping):
        read = dict(zip(results, read, strict=True))
    named = by_name(read, "report")
    of_files = zip(named, given, is_path, strict=True)
    return named, {name: path for name, path, of in of_files if of}


def _check_title(title, named):
    """The title of the page."""
    if title is None:
        kinds = dict.fromkeys(map(heading, named.values()))
        return "Decoding results" if len(kinds) > 1 else next(iter(kinds))
    if not isinstance(title, str):
        raise TypeError(
            f"Invalid value for 'title': {title!r}. Allowed: text, or None for what "
            "the analysis is called."
        )
    return title


def _check_correction(correction, named):
    """The corrections that are asked for, which all results must have."""
    correction = tuple(known_corrections(correction, "correction"))
    for name, result in named.items():
        for each in corrections_of(result, correction):
            try:
                result.p_of_map(each, result.scalar_metrics[0])
            except ValueError as error:
                raise ValueError(f"{name}: {error}") from None
    return correction


def check_page(path, overwrite):
    """Refuse a file that cannot be written, before anything is drawn."""
    if Path(path).suffix.lower() not in (".html", ".htm"):
        raise ValueError(f"{path} is not an HTML page; use a name that ends in .html.")
    check_target(path)
    if Path(path).exists() and not overwrite:
        raise FileExistsError(
            f"{path} exists already; pass overwrite=True to replace it, or choose "
            "another name."
        )


def _overview(named, asked):
    """A table with a row for every result."""
    rows = []
    for name, result in named.items():
        p, corrections = np.nan, corrections_of(result, asked)
        if corrections:
            p = Finding(result, corrections[0]).smallest_p
        row = {"result": name, "analysis": heading(result)}
        row["what was found"] = word_answer(result, *corrections[:1])
        rows.append(row | {"p": p, "warnings": len(result.warnings)})
    return pd.DataFrame(rows)
