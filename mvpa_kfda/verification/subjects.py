"""The results that a group was made of, found by their checksums."""

from __future__ import annotations

import os
import re
from pathlib import Path

from ..group.subjects import is_path
from ..results.base import SubjectResult
from ..results.load import load_result


def find_members(group, entries, other=None):
    """The entries and results of a group, and what is not as it records.

    Entries and results come in the order of the group, those of the other list last.
    """
    if (group.other_subjects is None) != (other is None):
        given = "not given, and were" if other is None else "given, and were not"
        wrong = f"the results of the other list are {given} when it was made"
        return [], [], [wrong]
    lists = [("subjects", entries, map(str, group.subjects), "results")]
    if other is not None:
        names = (str(x).removesuffix(" (other)") for x in group.other_subjects)
        names = (x.removesuffix(f" ({group.labels[1]})") for x in names)
        lists.append(("other", other, names, "other"))
    found, results, wrong = [], [], []
    for argument, given, names, key in lists:
        if isinstance(given, str | os.PathLike | SubjectResult):
            raise TypeError(
                "A group is verified with the results of its subjects: "
                f"{argument} must be a list of results or paths; got "
                f"{type(given).__name__}."
            )
        given = list(given)
        loaded = [load_result(x) if is_path(x) else x for x in given]
        for each in loaded:
            if not isinstance(each, SubjectResult):
                raise TypeError(
                    "A group is verified with the results of its subjects; got "
                    f"{type(each).__name__} among them."
                )
        gone = group.inputs.get("left_out_results", ())  # for min_trials
        there = [i for i, one in enumerate(loaded) if one.checksum not in gone]
        given, loaded = ([each[i] for i in there] for each in (given, loaded))
        sums = group.inputs.get(key)
        sums = list(map(str, sums)) if isinstance(sums, list | tuple) else []
        order, differ = _in_order(given, loaded, list(names), sums)
        found += [given[i] for i in order]
        results += [loaded[i] for i in order]
        wrong += differ
    return found, results, wrong


def _in_order(entries, results, names, sums):
    """The order of results in a group, and in words what is not as recorded.

    `names` and `sums` are what the group records of its subjects.
    """
    found = [result.checksum for result in results]
    places = _named(entries, names)
    if places is None and len(found) == len(names) and sorted(found) != sorted(sums):
        places = range(len(names))
    if places is None:  # no name tells which they are
        places = [sums.index(each) if each in sums else None for each in found]
    given = {place: i for i, place in enumerate(places) if place is not None}
    taken = {k: sums.index(found[i]) for k, i in given.items() if found[i] in sums}
    wrong = []
    for k, name in enumerate(names):
        if k not in given:
            wrong.append(f"the result of {name} is not given")
        elif k not in taken:
            wrong.append(f"the result of {name} is another one than recorded")
        elif taken[k] != k and taken.get(taken[k]) == k:
            if k < taken[k]:
                wrong.append(f"the results of {name} and {names[taken[k]]} are swapped")
        elif taken[k] != k:
            wrong.append(f"the result given as {name} is that of {names[taken[k]]}")
    for i, place in enumerate(places):
        if place is None or given[place] != i:
            who = os.fspath(entries[i]) if is_path(entries[i]) else f"number {i + 1}"
            wrong.append(f"{who} is none of the results of the group")
    return [] if wrong else [given[k] for k in range(len(names))], wrong


def _named(entries, names):
    """Which subject each path is of by its name; None where names do not tell.

    The name is a word in the path, with "sub-" before it or by itself.
    """
    if not all(map(is_path, entries)):
        return None
    paths = [Path(os.path.abspath(entry)).as_posix() for entry in entries]
    for before in ("sub-", ""):
        words = [re.escape(f"{before}{name.removeprefix(before)}") for name in names]
        words = [rf"(?<![A-Za-z0-9]){word}(?![A-Za-z0-9])" for word in words]
        found = [[k for k, x in enumerate(words) if re.search(x, p)] for p in paths]
        places = [k for each in found for k in each]
        if all(found) and len({*places}) == len(places) == len(paths):
            return places
    return None
