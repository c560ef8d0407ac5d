"""The results that a group was made of, found by their checksums."""

from __future__ import annotations

import os
import re
from pathlib import Path

from ..results.base import SubjectResult
from ..results.load import load_result


def load_all(entries, name):
    """Results, of those that are given as paths too."""
    if isinstance(entries, str | os.PathLike | SubjectResult):
        raise TypeError(
            f"A group is verified with the results of its subjects: {name} must be a "
            f"list of results or paths; got {type(entries).__name__}."
        )
    found = [load_result(x) if _is_path(x) else x for x in entries]
    for each in found:
        if not isinstance(each, SubjectResult):
            raise TypeError(
                "A group is verified with the results of its subjects; got "
                f"{type(each).__name__} among them."
            )
    return found


def _is_path(entry):
    return isinstance(entry, str | os.PathLike)


def find_members(group, entries, other=None):
    """The entries and results of a group, and what is not as it records.

    Entries and results come in the order of the group, those of the other list last.
    """
    second = group.other_subjects is not None
    if second != (other is not None):
        given = "not given, and were" if second else "given, and were not"
        wrong = f"the results of the other list are {given} when it was made"
        return [], [], [wrong]
    lists = [("subjects", entries, group.subjects, "results")]
    if second:
        lists.append(("other", other, group.other_subjects, "other"))
    found, results, wrong = [], [], []
    for argument, given, names, key in lists:
        loaded = load_all(given, argument)
        given = list(given)
        names = [str(name) for name in names]
        if key == "other":
            names = [_without_list(name, group) for name in names]
        sums = group.inputs.get(key)
        sums = list(map(str, sums)) if isinstance(sums, list | tuple) else []
        order, differ = in_order(given, loaded, names, sums)
        found += [given[i] for i in order]
        results += [loaded[i] for i in order]
        wrong += differ
    return found, results, wrong


def _without_list(name, group):
    """The name of a subject of the second list without that of the list."""
    return name.removesuffix(" (other)").removesuffix(f" ({group.labels[1]})")


def in_order(entries, results, names, sums):
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
            who = os.fspath(entries[i]) if _is_path(entries[i]) else f"number {i + 1}"
            wrong.append(f"{who} is none of the results of the group")
    return [] if wrong else [given[k] for k in range(len(names))], wrong


def _named(entries, names):
    """Which subject each path is of by its name; None where names do not tell.

    The name is a word in the path, with "sub-" before it or by itself.
    """
    if not all(map(_is_path, entries)):
        return None
    paths = [Path(os.path.abspath(entry)).as_posix() for entry in entries]
    for before in ("sub-", ""):
        words = [f"{before}{name.removeprefix(before)}" for name in names]
        ends = r"(?<![A-Za-z0-9]){}(?![A-Za-z0-9])"
        found = [
            [
                k
                for k, x in enumerate(words)
                if re.search(ends.format(re.escape(x)), path)
            ]
            for path in paths
        ]
        places = [k for each in found for k in each]
        if all(found) and len({*places}) == len(places) == len(paths):
            return places
    return None
