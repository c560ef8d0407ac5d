"""The results of several subjects, or their files, gathered for the second level.

Files are loaded one after the other, compared with the first, and of each only what the
group needs is kept. Messages name a subject by what it is called and by its file.
"""

import hashlib
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import combinations
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from ..data.volumes import nearest_voxels, take_voxels
from ..inference.corrections import KeptTest
from ..inference.null import NullCentre, centre_of
from ..metrics.areas import RareClass
from ..metrics.classes import METRICS, depends_on_frequencies
from ..metrics.names import metric_limits
from ..metrics.numbers import REGRESSION_METRICS
from ..results.base import Result, SubjectResult
from ..results.epochs import GeneralizationResult
from ..results.load import load_result
from ..results.places import Places
from ..utils.advice import advice, is_foreign
from ..utils.checks import all_items, keep_warning, quoted, warn
from ..utils.problems import who_was_told, word_told
from .levels import crowding_of, means_of, rare_class_of, warn_of_rare_classes
from .records import (
    differences,
    record_of,
    shared,
    tell_differences,
)

#: What users may give as one result of a list.
ResultOrPath = SubjectResult[Any] | str | PathLike[str]

#: Scores in single precision go beyond the range of their metric by less.
_BEYOND = 1e-6

#: The name of a subject in a path, as BIDS has it.
_BIDS_SUBJECT = re.compile(r"(?<![A-Za-z0-9])sub-[A-Za-z0-9]+")

#: Chance levels that are closer than this are equal.
_SAME_CHANCE = 1e-9


@dataclass(frozen=True, eq=False)
class Subjects:
    """Scores of S subjects at the same V positions, of which C count."""

    names: tuple
    places: Places
    metric: str
    #: Chance levels (S,), NaN where there is none.
    chances: np.ndarray
    #: Positions (V,), in C order, where every subject has a score.
    counted: np.ndarray
    #: Scores of the observed labels (S, C).
    scores: np.ndarray
    #: Scores under permuted labels (P_s, C) by subject, if asked for, and those of the
    #: second test of cross-validated time generalization, if there is one, with the
    #: scores (S, C) that it tests.
    nulls: tuple
    second_nulls: tuple
    second_scores: np.ndarray | None
    #: Positions (C,) where the second test does not count.
    exempt: np.ndarray
    #: How many times as frequent the largest class is as equal ones would be, at most
    #: over subjects, and whether the metric then leaves its chance level.
    unbalanced: float
    of_frequencies: bool
    #: Where permuted scores lie on the whole, a `NullCentre` or None, and their means
    #: (C,) at each position, or None; of each subject.
    centres: tuple
    permuted_means: tuple
    #: The smallest p-values (S,) that the subjects' permutations can give.
    smallest_p: tuple
    #: The metrics of the first subject, in the order they were asked for.
    scoring: tuple
    #: How all of them were analysed, and their numbers of trials (S,).
    first_level: dict
    #: In what some of them differ: field -> what is there instead -> their names.
    differences: dict
    #: What their runs warned of: text -> names of the subjects.
    warnings: dict
    #: Means over the first group of pairs of classes (positions..., pairs) by kind, and
    #: these classes, (c,) or None.
    matrices: dict
    classes: np.ndarray | None
    #: Checksums of their results (S,).
    checksums: tuple = ()

    @property
    def tests(self):
        """Scores, nulls, and where it does not count, of each test by permutations."""
        tests = [(self.scores, self.nulls, np.zeros_like(self.exempt))]
        if self.second_nulls:
            tests.append((self.second_scores, self.second_nulls, self.exempt))
        return tests

    def expand(self, values, fill=np.nan):
        """Put values (..., C) of the positions that count into the shape of the map."""
        return self.places.expand(values, self.counted, fill)


@dataclass(frozen=True, eq=False)
class _SubjectMaps:
    """What is kept of the result of one subject, at all positions of its map."""

    places: Places
    mode: str | None
    metric: str
    chance: float
    scores: np.ndarray
    null: np.ndarray | None
    #: Of the second test, if there is one.
    second: KeptTest | None
    unbalanced: float
    of_frequencies: bool
    centre: NullCentre | None
    permuted_means: np.ndarray | None
    rare: RareClass | None
    smallest_p: float
    scoring: tuple
    record: dict
    warnings: tuple
    #: Of pairs of classes (V, pairs) by kind, and these classes.
    matrices: dict
    classes: np.ndarray | None
    checksum: str


class MeanMatrices:
    """Means over subjects, of the kinds that all of them have for the same classes.

    A pair that a subject has not tested is left out of the mean, where there are
    others.
    """

    def __init__(self):
        self._classes, self._sums, self._counts = None, None, {}

    def add(self, classes, matrices):
        """Add a subject's matrices (V, pairs) by kind."""
        if self._sums is None:
            self._classes = classes
            self._sums = {kind: 0.0 for kind in matrices}
            self._counts = dict.fromkeys(matrices, 0)
        same = np.array_equal(classes, self._classes)
        kinds = self._sums.keys() & matrices.keys() if same else ()
        self._sums = {kind: each for kind, each in self._sums.items() if kind in kinds}
        for kind in self._sums:
            defined = np.isfinite(matrices[kind])
            self._sums[kind] += np.where(defined, matrices[kind], 0.0)
            self._counts[kind] = self._counts[kind] + defined

    def means(self, places, counted):
        """Return means (positions..., pairs) by kind; NaN at positions not counted."""
        found = {}
        for kind, total in (self._sums or {}).items():
            with np.errstate(invalid="ignore"):
                mean = (total / self._counts[kind])[counted].T
            found[kind] = np.moveaxis(places.expand(mean, counted), 0, -1)
        return found

    @property
    def classes(self):
        """The labels of the classes; None without matrices."""
        return self._classes if self._sums else None


def gather_subjects(
    results,
    *,
    metric=None,
    subjects=None,
    need_nulls=False,
    resample=False,
    n_first=None,
):
    """Return the `Subjects` of results or paths, at the positions of the first."""
    entries = list_entries(results)
    names = name_subjects(subjects, entries)
    words = [_word_subject(*pair) for pair in zip(names, entries, strict=True)]
    _refuse_repeats(entries, words)
    subject_maps, seen, mean = [], {}, MeanMatrices()
    for number, (entry, who) in enumerate(zip(entries, words, strict=True)):
        first = subject_maps[0] if subject_maps else None
        maps = _read(entry, who, first, metric, need_nulls, resample, seen)
        if n_first is None or number < n_first:
            mean.add(maps.classes, maps.matrices)
        subject_maps.append(replace(maps, matrices={}))
    warnings = {n: maps.warnings for n, maps in zip(names, subject_maps, strict=True)}
    told = who_was_told(warnings, numbers=False)
    for text in word_told(told, len(names)):
        keep_warning(text)
    records = [maps.record for maps in subject_maps]
    found = differences(records, len(words) if n_first is None else n_first)
    tell_differences(found, names, words)
    warn_of_rare_classes(
        subject_maps[0].metric, [maps.rare for maps in subject_maps], names
    )
    about = {
        "checksums": tuple(maps.checksum for maps in subject_maps),
        "first_level": shared(records),
        "differences": {each.name: each.of(names) for each in found},
        "warnings": told,
    }
    return _join(names, words, subject_maps, about, mean)


# --------------------------------------------------------------- the list and the names


def list_entries(results, name="results"):
    """Return the entries of a list of results, two or more."""
    wanted = f"{name} must be a list with one result, or path of a saved one, for every"
    if isinstance(results, str | os.PathLike):
        raise TypeError(
            f"{wanted} subject; got the text {os.fspath(results)!r}. Pass a list; for "
            "a pattern use sorted(glob.glob(pattern))."
        )
    if isinstance(results, Mapping):
        raise TypeError(
            f"{wanted} subject; got a {type(results).__name__}. Pass "
            "list(results.values()) with subjects=list(results)."
        )
    if is_foreign(results) and not isinstance(results, list | tuple | Result):
        raise TypeError(
            f"{wanted} subject; got a {type(results).__name__}.{advice(results)}"
        )
    try:
        entries = all_items(name, results)
    except TypeError:
        raise TypeError(
            f"{wanted} subject; got a {type(results).__name__}. Pass a list of two or "
            "more."
        ) from None
    for entry in filter(is_path, entries):
        if _is_pattern(entry):
            raise FileNotFoundError(
                f"There is no file {os.fspath(entry)!r} in {name}; a pattern has to be "
                f"expanded: sorted(glob.glob({os.fspath(entry)!r}))."
            )
    if not entries:
        raise ValueError(
            f"{name} is empty; pass two or more subjects. A pattern that matches no "
            "file gives an empty list."
        )
    if len(entries) == 1:
        raise ValueError(
            f"{name} holds a single subject; a group needs two or more. "
            "result.pvalues() tests one subject."
        )
    return entries


def is_path(entry):
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
    names = tuple(map(str, all_items("subjects", subjects))) if several else ()
    if len(names) != len(entries) or len(set(names)) < len(names):
        raise ValueError(
            f"subjects must name each of the {len(entries)} results once, all names "
            f"different; got {subjects!r}."
        )
    return names


def _default_names(entries):
    """Take the names from the paths; results that have none are counted."""
    numbers = [f"subject {number}" for number, _ in enumerate(entries, start=1)]
    in_paths = iter(_names_in([entry for entry in entries if is_path(entry)]))
    names = [
        next(in_paths, number) if is_path(entry) else number
        for entry, number in zip(entries, numbers, strict=True)
    ]
    return names if len(set(names)) == len(names) else numbers


def _names_in(paths):
    """Return what tells paths apart: a name as in BIDS, or the shortest ends."""
    paths = [Path(os.path.abspath(path)) for path in paths]
    named = [_BIDS_SUBJECT.findall(str(path)) for path in paths]
    if all(named) and len({names[-1] for names in named}) == len(paths):
        return [names[-1] for names in named]
    parts = [(p.with_suffix("") if p.suffix == ".h5" else p).parts for p in paths]
    for depth in range(1, max(map(len, parts), default=0) + 1):
        ends = ["/".join(part[-depth:]) for part in parts]
        if len(set(ends)) == len(ends):
            return ends
    return []


def _refuse_repeats(entries, words):
    """Raise a ValueError if a file or an object is there twice."""
    for (entry, who), (other, whom) in combinations(
        zip(entries, words, strict=True), 2
    ):
        same = ""
        if entry is other and not is_path(entry):
            same = "object"
        elif is_path(entry) and is_path(other) and _is_same_file(entry, other):
            same = "file"
        if same:
            raise ValueError(
                f"{who} and {_inside(whom)} are the same {same}; list each subject "
                "once."
            )


def _is_same_file(path, other):
    """Tell whether paths lead to one file; loading complains of missing ones."""
    try:
        return os.path.samefile(path, other)
    except OSError:
        return False


def _word_subject(name, entry):
    """Word a subject at the start of a sentence, e.g. "Subject sub-01 (a/b.h5)"."""
    words = name if name.startswith("subject ") else f"subject {name}"
    path = f" ({os.fspath(entry)})" if is_path(entry) else ""
    return f"S{words[1:]}{path}"


def _inside(who):
    """Word a subject in the middle of a sentence."""
    return f"s{who[1:]}"


# -------------------------------------------------------------------------- one subject


def _read(entry, who, first, metric, need_nulls, resample, seen):
    """Load a subject's result and keep what is needed, at the first one's places."""
    result = _load(entry, who)
    places = result.places
    # The diagonal of such a map keeps its parameters, but is tested at each time alone.
    general = isinstance(result, GeneralizationResult)
    mode = result.mode if general else None
    metric = _check_kind(result, places, mode, who, first, metric, resample)
    _refuse_copy(result, entry, who, seen)
    null, second = _nulls_of(result, metric, who, first) if need_nulls else (None, None)
    tests = result.kept_tests(metric)
    maps = _SubjectMaps(
        places=places,
        mode=mode,
        metric=metric,
        chance=result.chances[metric],
        scores=np.ravel(result.metrics[metric]).astype(np.float64),
        null=null,
        second=second,
        unbalanced=crowding_of(result),
        of_frequencies=depends_on_frequencies(metric, len(result.classes)),
        centre=centre_of(tests[0].null) if tests else None,
        permuted_means=means_of(*tests[0][:2]) if tests and not need_nulls else None,
        rare=rare_class_of(result, metric),
        smallest_p=result.smallest_p(metric=metric),
        scoring=tuple(result.scalar_metrics),
        record=record_of(result) | _timing(places, first),
        warnings=result.warnings,
        matrices={
            kind: np.reshape(values, (-1, values.shape[-1]))
            for kind, values in result.matrices.items()
        },
        classes=result.classes,
        checksum=result.checksum,
    )
    if first is None:
        return maps
    if first.places.difference(
        places, within_sample=True
    ):  # of voxels, and resampling was asked for
        nearest = nearest_voxels(places.geometry, first.places.geometry)
        if (nearest < 0).all():
            raise ValueError(
                f"The voxels of {_inside(who)} do not overlap with those of the first "
                "subject; are both in the same space? Images have to be warped to one "
                "space, such as MNI, before they are decoded."
            )
        if null is not None:
            null = take_voxels(null, nearest)
        matrices = {k: take_voxels(v.T, nearest).T for k, v in maps.matrices.items()}
        scores, means = (
            None if values is None else take_voxels(values, nearest)
            for values in (maps.scores, maps.permuted_means)
        )
        maps = replace(maps, scores=scores, null=null, matrices=matrices)
        maps = replace(maps, permuted_means=means)
    # All share the places of the first; meshes and masks of the others are let go.
    return replace(maps, places=first.places)


def _timing(places, first):
    """Return how far times are from those of the first subject, for the record."""
    apart = 0.0 if first is None else first.places.apart(places)
    return {"times": f"up to {apart:.2g} s apart"} if apart else {}


def _load(entry, who):
    """Return the result of one subject, loaded from its file if need be."""
    result = entry
    if is_path(entry):
        try:
            result = load_result(entry)
        except (OSError, ValueError) as error:
            raise type(error)(f"{who}: {error}") from error
    kind = type(result).__name__
    if isinstance(result, SubjectResult):
        return result
    if isinstance(result, Result):
        raise TypeError(
            f"{who} is a {kind}, which already compares or combines results. Pass the "
            "results of the single subjects."
        )
    raise TypeError(
        f"{who} is no result but a {kind}. Allowed: results, such as decode_epochs and "
        f"searchlight return, and paths of saved ones.{advice(result)}"
    )


def _check_kind(result, places, mode, who, first, metric, resample):
    """Return the metric; raise unless a subject has what the first one has."""
    if first is None:
        try:
            return result.check_metric(metric)
        except ValueError as error:
            again = ""
            known = METRICS if len(result.classes) else REGRESSION_METRICS
            if isinstance(metric, str) and metric in {*known} - {*result.scoring}:
                again = (
                    " For other metrics decode again, with "
                    f"scoring={[*result.scoring, metric]}."
                )
            raise ValueError(f"{who}: {error}{again}") from None
    difference = first.places.difference(places, within_sample=True)
    voxels = first.places.in_voxels and places.in_voxels
    if difference and not (resample and voxels):
        advice = "Run its analysis again like the others, or leave it out"
        if voxels:
            advice = (
                "resample=True brings all maps onto the grid of the first subject, and "
                "keeps the voxels that every subject has"
            )
        elif resample:
            advice = f"resample=True is for searchlights in volumes only. {advice}"
        raise ValueError(
            f"{who} differs from the first subject: {difference}. {advice}."
        )
    if mode != first.mode:
        raise ValueError(
            f"{who} has mode={mode!r}, but the first subject {first.mode!r}: other "
            "trials were tested. Run the same analysis for all subjects."
        )
    if first.metric not in result.scoring:
        raise ValueError(
            f"{who} has no metric {first.metric!r}, which the first subject has. It "
            f"has {quoted(result.scalar_metrics)}: pass a metric that all have, or run "
            f"its analysis again with scoring={first.metric!r}."
        )
    chance = result.chances[first.metric]
    near = {"rtol": 0, "atol": _SAME_CHANCE, "equal_nan": True}
    if not np.isclose(chance, first.chance, **near):
        raise ValueError(
            f"{who} has another chance level of {first.metric!r} than the first "
            f"subject: {chance:.6g} instead of {first.chance:.6g}. All must have "
            "decoded the same number of classes; leave it out, or take another metric."
        )
    return first.metric


def _refuse_copy(result, entry, who, seen):
    """Raise a ValueError if another subject has an equal result."""
    digest = hashlib.blake2b()
    for values in (result.scores, result.predicted):
        digest.update(np.ascontiguousarray(values, dtype=np.float64))
    # Equal results have equal scores; only then are both compared as a whole.
    alike = seen.setdefault(digest.digest(), [])
    for other, whom in alike:
        if result == _load(other, whom):
            raise ValueError(
                f"{whom} and {_inside(who)} have equal results: one may be a copy of "
                "the other, or the same data was analysed twice. List each subject "
                "once."
            )
    alike.append((entry, who))


def _nulls_of(result, metric, who, first):
    """Return the scores under permuted labels (P, V), and the second test if any."""
    null, tests = result.null_of(metric), result.kept_tests(metric)
    again = f"run the analysis of {_inside(who)} again with n_permutations=100"
    if len(null) == 0 and tests:
        raise ValueError(
            f"{who} has only a summary of its label permutations "
            f"(null={result.parameters.get('null')!r}); {again} and null='full'."
        )
    if len(null) == 0 and "pairs_of" in result.parameters:
        raise ValueError(
            f"{who} has no label permutations of chosen pairs of classes, which this "
            "method needs; they are kept of pairs that are in scoring, such as "
            f"scoring=[{result.parameters['pairs_of']!r}, "
            f"{result.parameters['pairs']!r}]. Use method='sign-flip' or 't', or run "
            "the analysis again so."
        )
    if len(null) == 0:
        raise ValueError(
            f"{who} has no label permutations, which this method needs; {again}."
        )
    second = tests[1] if len(tests) > 1 else None
    if first is not None and (second is None) != (first.second is None):
        raise ValueError(
            f"{who} and the first subject differ in whether the permutations of the "
            f"second test were kept; {again}, and likewise of the first subject."
        )
    if second is not None:
        scores, exempt = np.ravel(second.scores).astype(np.float64), second.exempt
        exempt = np.zeros(len(scores), bool) if exempt is None else np.ravel(exempt)
        second = KeptTest(scores, _flat(second.null), exempt)
    return _flat(null), second


def _flat(null):
    """Return a null (P, positions...) as (P, V), in its own precision."""
    dtype = null.dtype if null.dtype in (np.float32, np.float64) else np.float64
    return null.reshape(len(null), -1).astype(dtype, copy=False)


# ------------------------------------------------------------------------- all subjects


def _join(names, words, subject_maps, about, mean):
    """Put together the maps of the subjects, at the positions that count."""
    first, chances = subject_maps[0], np.array([maps.chance for maps in subject_maps])
    has_score = np.array([~np.isnan(maps.scores) for maps in subject_maps])
    counted = has_score.all(axis=0)
    if first.places.pairs is None and counted.any() and not counted.all():
        _refuse_gap(has_score, first.places, words)
    _check_counted(has_score, counted, words)
    unbalanced = max(maps.unbalanced for maps in subject_maps)
    smallest_p = tuple(maps.smallest_p for maps in subject_maps)
    where = slice(None) if counted.all() else counted  # no copies where all count
    centres = tuple(maps.centre for maps in subject_maps)
    scores, nulls, second_scores, second_nulls, means = [], [], [], [], []
    exempt = np.zeros(counted.sum(), bool)
    if first.second is not None:
        exempt = first.second.exempt[counted]
    for who in words:
        maps = subject_maps.pop(0)  # let go before the next is copied
        scores.append(maps.scores[where])
        known = maps.permuted_means is not None
        means.append(maps.permuted_means[where] if known else None)
        if maps.null is not None:
            nulls.append(maps.null[:, where])
        if maps.second is not None:
            second_scores.append(maps.second.scores[where])
            second_nulls.append(maps.second.null[:, where])
        of_second = *second_scores[-1:], *second_nulls[-1:]
        for values in (scores[-1], *nulls[-1:], *of_second):
            _refuse_damage(values, first.metric, who)
    return Subjects(
        names=names,
        places=first.places,
        metric=first.metric,
        chances=chances,
        counted=counted,
        scores=np.stack(scores),
        nulls=tuple(nulls),
        second_nulls=tuple(second_nulls),
        second_scores=np.stack(second_scores) if second_scores else None,
        exempt=exempt,
        unbalanced=unbalanced,
        of_frequencies=first.of_frequencies,
        centres=centres,
        permuted_means=tuple(means),
        smallest_p=smallest_p,
        scoring=first.scoring,
        matrices=mean.means(first.places, counted),
        classes=mean.classes,
        **about,
    )


def _refuse_gap(has_score, places, words):
    """Raise a ValueError that names a subject and a place without a score."""
    subject, place = np.argwhere(~has_score)[0]
    at = ", ".join(
        f"{column} {values[place]:.6g}" for column, values in places.columns().items()
    )
    raise ValueError(
        f"{words[subject]} has no score of {places.describe()} at {at} (first of "
        f"{np.count_nonzero(~has_score[subject])}), but maps without gaps are needed. "
        "Take another metric, or leave these positions out of the analysis of all "
        "subjects."
    )


def _check_counted(has_score, counted, words):
    """Warn where subjects have scores at different positions; refuse none at all."""
    n_counted, n_each = np.count_nonzero(counted), np.count_nonzero(has_score, axis=1)
    fewest = words[np.argmin(n_each)]
    text = (
        f"The subjects have scores at different positions: {n_counted} of "
        f"{len(counted)} are left, where every subject has one. {fewest} has fewest, "
        f"{min(n_each)}"
    )
    if n_counted == 0:
        raise ValueError(f"{text}. Leave out subjects that have few.")
    if (has_score != counted).any():
        warn(f"{text}.")


def _refuse_damage(values, metric, who):
    """Raise a ValueError on values that a score or a permuted score never has."""
    lowest, highest = metric_limits(metric)
    low, high = values.min(), values.max()  # NaN if any is
    if np.isfinite([low, high]).all() and (
        lowest - _BEYOND <= low and high <= highest + _BEYOND
    ):
        return
    raise ValueError(
        f"{who} has scores of {metric!r}, observed or of permuted labels, that cannot "
        f"be: they go from {low:.3g} to {high:.3g}. Its result is damaged; take it "
        "from a backup, or run its analysis again."
    )
