"""The list of results that a group analysis is given: objects, files, and their names.

Messages name a subject by what it is called and by its file.
"""

import os
import re
from collections.abc import Mapping
from itertools import combinations
from pathlib import Path

import numpy as np

from .._results.base import _Result
from .._results.saved import Saved
from ..results import load_result

#: The name of a subject in a path, as BIDS has it.
_BIDS_SUBJECT = re.compile(r"(?<![A-Za-z0-9])sub-[A-Za-z0-9]+")


def listed(results, name="results"):
    """Return the entries of a list of results, two or more."""
    wanted = f"{name} must be a list with one result, or path of a saved one, for every"
    if isinstance(results, str | os.PathLike):
        raise TypeError(
            f"{wanted} subject; got the text {os.fspath(results)!r}. Give a list; for "
            "a pattern use sorted(glob.glob(pattern))."
        )
    if isinstance(results, Mapping):
        raise TypeError(
            f"{wanted} subject; got a {type(results).__name__}. Give "
            "list(results.values()) with subjects=list(results)."
        )
    try:
        entries = list(results)
    except TypeError:
        raise TypeError(
            f"{wanted} subject; got a {type(results).__name__}. Give a list of two or "
            "more."
        ) from None
    for entry in filter(_is_path, entries):
        if _is_pattern(entry):
            raise FileNotFoundError(
                f"There is no file {os.fspath(entry)!r} in {name}; a pattern has to be "
                f"expanded: sorted(glob.glob({os.fspath(entry)!r}))."
            )
    if not entries:
        raise ValueError(
            f"{name} is empty; give two or more subjects. A pattern that matches no "
            "file gives an empty list."
        )
    if len(entries) == 1:
        raise ValueError(
            f"{name} holds a single subject; a group needs two or more. "
            "result.pvalues() tests one subject."
        )
    return entries


def _is_path(entry):
    """Tell paths from objects."""
    return isinstance(entry, str | os.PathLike)


def _is_pattern(path):
    """Tell a pattern of glob from the path of a file."""
    return any(sign in os.fspath(path) for sign in "*?[") and not os.path.exists(path)


def name_subjects(subjects, entries):
    """Return the names of the subjects as a tuple of different strings."""
    if subjects is None:
        return tuple(_default_names(entries))
    several = np.iterable(subjects) and not isinstance(subjects, str)
    names = tuple(map(str, subjects)) if several else ()
    if len(names) != len(entries) or len(set(names)) < len(names):
        raise ValueError(
            f"subjects must name each of the {len(entries)} results once, all names "
            f"different; got {subjects!r}."
        )
    return names


def _default_names(entries):
    """Take the names from the paths; results that have none are counted."""
    numbers = [f"subject {number}" for number, _ in enumerate(entries, start=1)]
    found = iter(_names_in([entry for entry in entries if _is_path(entry)]))
    names = [
        next(found, number) if _is_path(entry) else number
        for entry, number in zip(entries, numbers, strict=True)
    ]
    return names if len(set(names)) == len(names) else numbers


def _names_in(paths):
    """Return what tells paths apart: a name as in BIDS, or the shortest ends."""
    paths = [Path(os.path.abspath(path)) for path in paths]
    named = [_BIDS_SUBJECT.findall(str(path)) for path in paths]
    if all(named) and len({found[-1] for found in named}) == len(paths):
        return [found[-1] for found in named]
    parts = [(p.with_suffix("") if p.suffix == ".h5" else p).parts for p in paths]
    for depth in range(1, max(map(len, parts), default=0) + 1):
        ends = ["/".join(part[-depth:]) for part in parts]
        if len(set(ends)) == len(ends):
            return ends
    return []


def word_subject(name, entry):
    """Word a subject at the start of a sentence, e.g. "Subject sub-01 (a/b.h5)"."""
    words = name if name.startswith("subject ") else f"subject {name}"
    path = f" ({os.fspath(entry)})" if _is_path(entry) else ""
    return f"S{words[1:]}{path}"


def refuse_repeats(entries, words):
    """Raise a ValueError if a file or an object is there twice."""
    for (one, who), (other, whom) in combinations(zip(entries, words, strict=True), 2):
        same = ""
        if one is other and not _is_path(one):
            same = "object"
        elif _is_path(one) and _is_path(other) and _is_same_file(one, other):
            same = "file"
        if same:
            raise ValueError(
                f"{who} and {inside(whom)} are the same {same}; give each subject once."
            )


def _is_same_file(path, other):
    """Tell whether paths lead to one file; loading complains of missing ones."""
    try:
        return os.path.samefile(path, other)
    except OSError:
        return False


def inside(who):
    """Word a subject in the middle of a sentence."""
    return f"s{who[1:]}"


def load_subject(entry, who):
    """Return the result of one subject, loaded from its file if need be."""
    result = entry
    if _is_path(entry):
        try:
            result = load_result(entry)
        except (OSError, ValueError) as error:
            raise type(error)(f"{who}: {error}") from error
    kind = type(result).__name__
    if isinstance(result, _Result):
        return result
    if isinstance(result, Saved):
        raise TypeError(
            f"{who} is a {kind}, which already compares or combines results. Give the "
            "results of the single subjects."
        )
    raise TypeError(
        f"{who} is no result but a {kind}. Allowed: results, such as decode_epochs and "
        "searchlight return, and paths of saved ones."
    )
