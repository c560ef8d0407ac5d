"""The results of several subjects, or their files, gathered for the second level.

Files are loaded one after the other, compared with the first, and only what the group
needs is kept. Messages name a subject by what it is called and by its file. Also, what
scores of subjects are without an effect, and how much they can say.
"""

import hashlib
import os
import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import combinations
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from ..data.volumes import nearest_voxels, take_voxels
from ..inference.corrections import KeptTest
from ..inference.null import NullCentre, centre_of, permuted_means
from ..metrics.auc import find_rare_class
from ..metrics.classes import METRICS, crowding, depends_on_frequencies
from ..metrics.names import metric_limits
from ..metrics.regression import REGRESSION_METRICS
from ..results.base import Result, SubjectResult
from ..results.epochs import GeneralizationResult
from ..results.load import load_result
from ..utils.advice import advice, is_foreign
from ..utils.checks import (
    all_items,
    check_flag,
    counted,
    keep_warning,
    quoted,
    some_of,
    warn,
)
from ..utils.problems import who_was_told, word_told
from ..viz.common import DEFAULT_NAMES
from .records import differences, record_of, shared, tell_differences

#: What users may give as one result of a list.
ResultOrPath = SubjectResult[Any] | str | PathLike[str]

#: Scores in single precision go beyond the range of their metric by less.
_BEYOND = 1e-6

#: The name of a subject in a path, as BIDS has it.
_BIDS_SUBJECT = re.compile(r"(?<![A-Za-z0-9])sub-[A-Za-z0-9]+")

#: Objects without names are counted.
_COUNTED = re.compile(r"subject \d+")

#: Chance levels that are closer than this are equal.
_SAME_CHANCE = 1e-9

#: Scores that depend on class frequencies are tested against permuted labels where the
#: largest class is so many times as frequent as equal ones would be, and without
#: permutations not at all from the second number on: of two classes, at 1.2 and 1.5.
_UNEQUAL, _TOO_UNEQUAL = 12 / 11, 1.2


class Subject:
    """What a group keeps of the result of one subject, in flat maps.

    `words` are what messages call it at the start of a sentence, such as "Subject
    sub-01 (a/b.h5)", and `first` is the first subject, None for itself.
    """

    def __init__(self, result, name, words, first, metric, need_nulls):
        self.name, self.words, self.metric = name, words, metric
        self.places, self.mode = result.places, _mode_of(result)
        self.chance, n_classes = result.chances[metric], len(result.classes)
        scores = np.ravel(result.metrics[metric]).astype(np.float64)
        #: A `KeptTest` for each test that has to reject, one or two; without its null
        #: where that is not needed.
        self.tests = [KeptTest(scores, None)]
        if need_nulls:
            self.tests = _tests_with_nulls(result, scores, metric, words, first)
        kept = result.kept_tests(metric)
        #: Means of permuted scores (V,), and where they lie on the whole, or None.
        self.permuted_means = None
        if kept and not need_nulls:
            self.permuted_means = _flat_means(kept[0].null, scores)
        self.centre = centre_of(kept[0].null) if kept else None
        #: How many times as frequent the largest class is as equal ones would be; 1
        #: where the metric does not depend on that.
        self.unbalanced = 1.0
        if n_classes and depends_on_frequencies(metric, n_classes):
            self.unbalanced = crowding(result.true_classes, n_classes)
        #: A class that most test sets lack, if scores are means over test sets.
        self.rare, known = None, METRICS.get(metric)
        if known is not None and (metric == "roc_auc" or known.within_sets):
            sets = result.tests[: len(result.tests) // result.n_repeats]
            self.rare = find_rare_class(sets, result.y_tested)
        #: The smallest p-value that its permutations can give.
        self.smallest_p = result.smallest_p(metric=metric)
        self.scoring, self.warnings = list(result.scalar_metrics), result.warnings
        self.record, self.checksum = record_of(result), result.checksum
        # Times may be a fraction of a sample apart.
        apart = first.places.apart(self.places) if first else 0.0
        if apart:
            self.record["times"] = f"up to {apart:.2g} s apart"

    def keep(self, take):
        """Keep the positions that `take` takes of flat maps."""
        self.tests = [
            KeptTest(*(None if each is None else take(each) for each in test))
            for test in self.tests
        ]
        if self.permuted_means is not None:
            self.permuted_means = take(self.permuted_means)


def _flat_means(null, scores):
    """The means (V,) of permuted scores, or None if they were not kept."""
    means = permuted_means(null)
    if means is None or means.size == scores.size:
        return None if means is None else np.ravel(means)
    every = np.full(scores.size, np.nan)  # summaries leave out gaps
    every[~np.isnan(scores)] = np.ravel(means)
    return every


@dataclass(frozen=True, eq=False)
class Subjects:
    """Results of S subjects at the same V positions, of which C count."""

    #: Each `Subject`, at the positions that count; the first list has `n_first`.
    members: list
    n_first: int
    #: Positions (V,), in C order, where every subject has a score.
    counted: np.ndarray
    #: How all of them were analysed, and their numbers of trials (S,).
    first_level: dict
    #: In what some of them differ: field -> what is there instead -> their names.
    differences: dict
    #: What their runs warned of: text -> names of the subjects.
    warnings: dict
    #: Means over the first list of pairs of classes (positions..., pairs) by kind, and
    #: these classes, (c,) or None.
    matrices: dict
    classes: np.ndarray | None

    @property
    def first(self):
        """The first subject, to which all are compared."""
        return self.members[0]

    @property
    def names(self):
        """Names of the subjects."""
        return tuple(one.name for one in self.members)

    @cached_property
    def tests(self):
        """Scores (S, C), nulls, and where it does not count (C,), of each test."""
        tests = []
        for kept in zip(*(one.tests for one in self.members), strict=True):
            scores = np.stack([test.scores for test in kept])
            nulls = tuple(test.null for test in kept if test.null is not None)
            exempt = kept[0].exempt
            if exempt is None:
                exempt = np.zeros(scores.shape[1], bool)
            tests.append((scores, nulls, exempt))
        return tests

    @property
    def scores(self):
        """Scores of the observed labels (S, C)."""
        return self.tests[0][0]

    @property
    def nulls(self):
        """Scores under permuted labels (P_s, C) by subject, if asked for."""
        return self.tests[0][1]

    @property
    def unbalanced(self):
        """How many times as frequent a class is as equal ones would be, at most."""
        return max(one.unbalanced for one in self.members)

    def expand(self, values, fill=np.nan):
        """Put values (..., C) of the positions that count into the shape of the map."""
        return self.first.places.expand(values, self.counted, fill)


class MeanMatrices:
    """Means over subjects, of the kinds that all of them have for the same classes.

    A pair that a subject has not tested is left out of the mean, where there are
    others.
    """

    def __init__(self):
        self.classes, self._sums = None, None

    def add(self, classes, matrices):
        """Add a subject's matrices (V, pairs) by kind."""
        if self._sums is None:
            self.classes, self._sums = classes, dict.fromkeys(matrices, (0.0, 0))
        same = np.array_equal(classes, self.classes)
        kinds = self._sums.keys() & matrices.keys() if same else ()
        self._sums = {kind: self._sums[kind] for kind in self._sums if kind in kinds}
        for kind, (total, n) in self._sums.items():
            defined = np.isfinite(matrices[kind])
            total = total + np.where(defined, matrices[kind], 0.0)
            self._sums[kind] = total, n + defined

    def means(self, places, counted):
        """Return means (positions..., pairs) by kind; NaN at positions not counted."""
        found = {}
        for kind, (total, n) in (self._sums or {}).items():
            with np.errstate(invalid="ignore"):
                mean = (total / n)[counted].T
            found[kind] = np.moveaxis(places.expand(mean, counted), 0, -1)
        return found


def gather_subjects(
    results,
    *,
    metric=None,
    subjects=None,
    need_nulls=False,
    resample=False,
    n_first=None,
):
    """Gather `Subjects` of results or paths, at the positions of the first."""
    entries = list_entries(results)
    names = name_subjects(subjects, entries)
    n_first = len(entries) if n_first is None else n_first
    words = [_word_subject(*pair) for pair in zip(names, entries, strict=True)]
    _refuse_repeats(entries, words)
    members, seen, mean = [], {}, MeanMatrices()
    for entry, name, who in zip(entries, names, words, strict=True):
        first = members[0] if members else None
        asked = first, metric, need_nulls, resample, seen
        subject, classes, matrices = _read(entry, name, who, *asked)
        members.append(subject)
        if len(members) <= n_first:
            mean.add(classes, matrices)

    told = who_was_told({one.name: one.warnings for one in members}, numbers=False)
    for text in word_told(told, len(names)):
        keep_warning(text)
    records = [one.record for one in members]
    found = differences(records, n_first)
    tell_differences(found, names, words)
    _warn_of_rare_classes(members)
    all_have = _where_all_have_scores(members)
    # Without copies where all positions count.
    where = slice(None) if all_have.all() else all_have
    for one in members:
        one.keep(lambda maps: maps[..., where])
        _refuse_damage(one)
    matrices = mean.means(members[0].places, all_have)
    return Subjects(
        members=members,
        n_first=n_first,
        counted=all_have,
        first_level=shared(records),
        differences={
            field: {text: [names[k] for k in who] for text, who in values.items()}
            for field, values in found.items()
        },
        warnings=told,
        matrices=matrices,
        classes=mean.classes if matrices else None,
    )


# ------------------------------------------------------------- the lists and the names


def join_lists(results, other, subjects, paired, labels):
    """All entries, how many are in the first list, and all names.

    `labels` are the names of the lists; that of the second is added to its subjects'.
    """
    check_flag("paired", paired)
    entries = list_entries(results)
    names = name_subjects(subjects, entries)
    if other is None:
        return entries, len(entries), names
    others = list_entries(other, "other")
    other_names = name_subjects(subjects if paired else None, others)
    same = [x for x in names if x in other_names and not _COUNTED.fullmatch(x)]
    if same and not paired:
        more = f" and {len(same) - 3} more" if len(same) > 3 else ""
        warn(
            f"{quoted(same[:3])}{more} are in both lists, and are treated as "
            "different people. If they are the same in two conditions, use paired=True."
        )
    if paired and len(others) != len(entries):
        raise ValueError(
            f"Paired comparisons need the same subjects in both lists; results has "
            f"{len(entries)} and other {len(others)}. Leave out who is in one only, or "
            "use paired=False for two groups."
        )
    if paired and names != other_names:
        k = next(i for i, name in enumerate(names) if name != other_names[i])
        raise ValueError(
            "The subjects of other are not those of results, in the same order: "
            f"number {k + 1} is {other_names[k]!r} instead of {names[k]!r}. Sort both "
            "lists in the same way; if the names are wrong, pass subjects=[...]."
        )
    second = "other" if labels == DEFAULT_NAMES else labels[1]
    joined = [*names, *(f"{name} ({second})" for name in other_names)]
    return [*entries, *others], len(entries), joined


def list_entries(results, name="results"):
    """The entries of a list of results, two or more."""
    given, mend = f"a {type(results).__name__}", ""
    if is_path(results):
        given = f"the text {os.fspath(results)!r}"
        mend = " Pass a list; for a pattern use sorted(glob.glob(pattern))."
    elif isinstance(results, Mapping):
        mend = " Pass list(results.values()) with subjects=list(results)."
    elif is_foreign(results) and not isinstance(results, list | tuple | Result):
        mend = advice(results)
    else:
        try:
            entries = all_items(name, results)
        except TypeError:
            mend = " Pass a list of two or more."
    if mend:
        raise TypeError(
            f"{name} must be a list with one result, or path of a saved one, for every "
            f"subject; got {given}.{mend}"
        )
    for entry in filter(is_path, entries):
        is_pattern = any(sign in os.fspath(entry) for sign in "*?[")
        if is_pattern and not os.path.exists(entry):
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


def name_subjects(subjects, entries):
    """The names of the subjects as a tuple of different strings."""
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
    """What tells paths apart: a name as in BIDS, or the shortest ends."""
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
    """Whether paths lead to one file; loading complains of missing ones."""
    with suppress(OSError):
        return os.path.samefile(path, other)
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


def _read(entry, name, who, first, metric, need_nulls, resample, seen):
    """Load a `Subject`, at the positions of the first; its classes and matrices, too.

    Matrices (V, pairs) of pairs of classes are not kept for each subject.
    """
    result = _load(entry, who)
    metric = _check_kind(result, who, first, metric, resample)
    _refuse_copy(result, entry, who, seen)
    subject = Subject(result, name, who, first, metric, need_nulls)
    matrices = {
        kind: np.reshape(values, (-1, values.shape[-1]))
        for kind, values in result.matrices.items()
    }
    if first is None:
        return subject, result.classes, matrices
    # Of voxels of another grid, resampling was asked for.
    if first.places.difference(subject.places, within_sample=True):
        nearest = nearest_voxels(subject.places.geometry, first.places.geometry)
        if (nearest < 0).all():
            raise ValueError(
                f"The voxels of {_inside(who)} do not overlap with those of the first "
                "subject; are both in the same space? Images have to be warped to one "
                "space, such as MNI, before they are decoded."
            )
        subject.keep(partial(take_voxels, nearest=nearest))
        matrices = {k: take_voxels(v.T, nearest).T for k, v in matrices.items()}
    # All share the places of the first; meshes and masks of the others are let go.
    subject.places = first.places
    return subject, result.classes, matrices


def _mode_of(result):
    """Tell which trials a map of generalization tests; None of other results."""
    # The diagonal of such a map keeps its parameters, but is tested at each time alone.
    return result.mode if isinstance(result, GeneralizationResult) else None


def _load(entry, who):
    """The result of one subject, loaded from its file if need be."""
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


def _check_kind(result, who, first, metric, resample):
    """The metric; raise unless a subject has what the first one has."""
    places, mode = result.places, _mode_of(result)
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


def _tests_with_nulls(result, scores, metric, who, first):
    """Each `KeptTest` of a result, with scores under permuted labels (P, V)."""
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
    if first is not None and len(tests) != len(first.tests):
        raise ValueError(
            f"{who} and the first subject differ in whether the permutations of the "
            f"second test were kept; {again}, and likewise of the first subject."
        )
    flat = [KeptTest(scores, _flat(null))]
    for second in tests[1:]:
        exempt = None if second.exempt is None else np.ravel(second.exempt)
        scores = np.ravel(second.scores).astype(np.float64)
        flat.append(KeptTest(scores, _flat(second.null), exempt))
    return flat


def _flat(null):
    """A null (P, positions...) as (P, V), in its own precision."""
    dtype = null.dtype if null.dtype in (np.float32, np.float64) else np.float64
    return null.reshape(len(null), -1).astype(dtype, copy=False)


# ------------------------------------------------------------------------- all subjects


def _warn_of_rare_classes(members):
    """Warn of subjects whose score rests on few of their test sets."""
    told, metric = [one for one in members if one.rare is not None], members[0].metric
    if not told:
        return
    examples = [
        f"{one.name}: {one.rare.n_sets} of {one.rare.n_all} with "
        f"{counted(one.rare.n_trials, 'trial')}"
        for one in told
    ]
    pooled = ""
    if metric == "roc_auc":
        pooled = ", or use metric='balanced_accuracy', which pools all test sets"
    warn(
        f"{metric!r} of {len(told)} of {len(members)} subjects rests on "
        "fewer than half of their test sets, which alone hold the rarest class "
        f"({some_of(examples)}). It says little of these subjects and counts as much "
        f"as that of the others. Leave them out{pooled}."
    )


def _where_all_have_scores(members):
    """Where every subject has a score (V,); refuse gaps of lattices, or none."""
    has_score = np.array([~np.isnan(one.tests[0].scores) for one in members])
    all_have, n_each = has_score.all(axis=0), np.count_nonzero(has_score, axis=1)
    places = members[0].places
    if places.pairs is None and all_have.any() and not all_have.all():
        subject, place = np.argwhere(~has_score)[0]
        at = ", ".join(
            f"{column} {values[place]:.6g}"
            for column, values in places.columns().items()
        )
        raise ValueError(
            f"{members[subject].words} has no score of {places.describe()} at {at} "
            f"(first of {np.count_nonzero(~has_score[subject])}), but maps without "
            "gaps are needed. Take another metric, or leave these positions out of the "
            "analysis of all subjects."
        )
    text = (
        "The subjects have scores at different positions: "
        f"{np.count_nonzero(all_have)} of {len(all_have)} are left, where every "
        f"subject has one. {members[np.argmin(n_each)].words} has fewest, {min(n_each)}"
    )
    if not all_have.any():
        raise ValueError(f"{text}. Leave out subjects that have few.")
    if (has_score != all_have).any():
        warn(f"{text}.")
    return all_have


def _refuse_damage(subject):
    """Raise a ValueError on values that a score or a permuted score never has."""
    lowest, highest = metric_limits(subject.metric)
    for values in (x for test in subject.tests for x in test[:2] if x is not None):
        low, high = values.min(), values.max()  # NaN if any is
        finite = np.isfinite([low, high]).all()
        if not (finite and lowest - _BEYOND <= low and high <= highest + _BEYOND):
            raise ValueError(
                f"{subject.words} has scores of {subject.metric!r}, observed or of "
                f"permuted labels, that cannot be: they go from {low:.3g} to "
                f"{high:.3g}. Its result is damaged; take it from a backup, or run its "
                "analysis again."
            )


# --------------------------------------------------- what scores are without an effect


def level_to_test(subjects, alternative, also=""):
    """What scores (S, C) are tested against: chance, or permuted means (S, C).

    The latter are what each subject scores on average without an effect, and chance
    where classes are equal. `also` words what else the caller offers.
    """
    members, name = subjects.members, subjects.first.metric
    chance = float(subjects.first.chance)
    if np.isnan(chance):
        raise ValueError(
            f"The metric {name!r} has no chance level to test against. Choose another "
            "metric, or use method='prevalence' or 'bootstrap', which compare with "
            "permuted labels."
        )
    unequal = subjects.unbalanced > _UNEQUAL - 1e-9
    n_lacking = sum(one.permuted_means is None for one in members)
    if not n_lacking:
        if unequal or _exceeds(subjects, chance, alternative):
            return np.stack([one.permuted_means for one in members])
    elif unequal:
        what = (
            "Subjects have classes of different sizes (the largest up to "
            f"{subjects.unbalanced:.3g} times as frequent as equal ones): without any "
            f"effect {name} is then off its chance level {chance:.3g}"
        )
        advice = (
            "Use metric='balanced_accuracy' (decode with scoring='balanced_accuracy'), "
            f"or 'roc_auc' likewise; or decode with n_permutations=100: {name} is then "
            "tested against the mean of each subject's permuted labels, which "
            f"{n_lacking} of {len(members)} subjects lack.{also}"
        )
        if subjects.unbalanced > _TOO_UNEQUAL - 1e-9:
            raise ValueError(f"{what}, and comparisons with that are wrong. {advice}")
        warn(f"{what}, and tests against that level reject too often. {advice}")
    return chance


def _exceeds(subjects, chance, alternative):
    """Whether tests against chance would find permuted labels too often."""
    centres = [one.centre for one in subjects.members]
    if None in centres:
        return False
    centre = NullCentre.pooled(centres)
    above = centre.mean > chance
    if alternative == ("less" if above else "greater"):
        return False
    # Equal classes are slightly below chance, which hardly matters.
    return centre.is_off(chance, len(centres) if above else 1)


def off_chance(subjects, tested):
    """The mean of permuted labels of each list, NaN if at chance; or nothing.

    Also at chance if it was `tested` against. Refuse, or if classes do not matter warn
    of, two lists that differ without an effect.
    """
    centres, n_first = [one.centre for one in subjects.members], subjects.n_first
    if None in centres:
        return []
    lists = [centres[:n_first], centres[n_first:]]
    pooled = [NullCentre.pooled(each) for each in lists if each]
    if len(pooled) == 2:
        unequal = subjects.unbalanced > _UNEQUAL - 1e-9
        _check_lists(subjects.first.metric, unequal, *pooled, n_first)
    found = [
        centre.mean if tested or centre.is_off(subjects.first.chance) else np.nan
        for centre in pooled
    ]
    return found if np.isfinite(found).any() else []


def _check_lists(name, unequal, first, second, n):
    """Refuse two lists whose permuted labels score differently, or warn of them."""
    error = 4 * np.hypot(first.error, second.error)
    matters = 0.2 * first.spread / np.sqrt(n)
    if abs(first.mean - second.mean) <= max(error, matters, 1e-6):
        return
    text = (
        f"Permuted labels have a mean {name} of {first.mean:.3g} in the first list "
        f"and {second.mean:.3g} in the second. So much of the difference is there "
        "without any effect, because class sizes or numbers of trials differ."
    )
    if unequal:
        raise ValueError(
            f"{text} Use metric='balanced_accuracy' or 'roc_auc', which do not depend "
            "on class sizes (decode with scoring=['accuracy', 'balanced_accuracy'])."
        )
    warn(text)
