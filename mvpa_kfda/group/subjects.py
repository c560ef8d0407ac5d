"""The results of several subjects, or their files, gathered for the second level.

Files are loaded one after the other, compared with the first, and only what the group
needs is kept. Messages name a subject by what it is called and by its file. Also, what
scores of subjects are without an effect, and how much they can say.

Every field that a result records is compared, so that nobody has to think of a new one:
the tables here name what may differ, not what may not.
"""

import os
import re
from collections.abc import Mapping
from contextlib import suppress
from functools import partial
from itertools import combinations
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from ..inference.corrections import KeptTest
from ..inference.null import NullCentre, as_scores, centre_of, permuted_means
from ..metrics.auc import find_rare_class
from ..metrics.scores import (
    METRICS,
    NUMBER_METRICS,
    crowding,
    depends_on_frequencies,
    metric_limits,
)
from ..results.base import Result, SubjectResult
from ..results.load import load_result
from ..utils.advice import advice, is_foreign
from ..utils.checks import (
    all_items,
    check_count,
    check_flag,
    counted,
    invalid,
    keep_warning,
    quoted,
    some_of,
    warn,
)
from ..utils.plain import as_call, is_record, recorded
from ..utils.problems import who_was_told, word_told
from ..viz.style import DEFAULT_NAMES

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
_UNEQUAL, _TOO_UNEQUAL = 12 / 11 - 1e-9, 1.2 - 1e-9


class Subject:
    """What a group keeps of the result of one subject, in flat maps.

    `words` are what messages call it at the start of a sentence, such as "Subject
    sub-01 (a/b.h5)", and `first` is the first subject, None for itself.
    """

    def __init__(self, result, words, first, metric, need_nulls):
        self.words, self.metric = words, metric
        self.places, self.mode = result.places, _mode_of(result)
        self.chance, n_classes = result.chances[metric], len(result.classes)
        scores = np.ravel(result.metrics[metric]).astype(np.float64)
        kept = result.kept_tests(metric)
        #: A `KeptTest` for each test that has to reject, one or two; without its null
        #: where that is not needed.
        self.tests = [KeptTest(scores, None)]
        #: Means of permuted scores (V,), and where they lie on the whole, or None.
        self.permuted_means = None
        self.centre = centre_of(kept[0].null) if kept else None
        if need_nulls:
            _refuse_lack_of_nulls(result, kept, metric, words, first)
            self.tests = [
                KeptTest(
                    np.ravel(observed).astype(np.float64),
                    as_scores(null.reshape(len(null), -1)),
                    None if exempt is None else np.ravel(exempt),
                )
                for observed, null, exempt in kept
            ]
        elif kept and (means := permuted_means(kept[0].null)) is not None:
            whole = means.size == scores.size
            where = slice(None) if whole else ~np.isnan(scores)  # of summaries
            self.permuted_means = np.full(scores.size, np.nan)
            self.permuted_means[where] = np.ravel(means)
        #: How many times as frequent the largest class is as equal ones would be; 1
        #: where the metric does not depend on that.
        self.unbalanced = 1.0
        if n_classes and depends_on_frequencies(metric, n_classes):
            self.unbalanced = crowding(result.true_classes, n_classes)
        #: A class that most test sets lack, if scores are means over test sets.
        self.rare, known = None, METRICS.get(metric)
        if known is not None and (known.of_ranks or known.within_sets):
            sets = result.tests[: len(result.tests) // result.n_repeats]
            self.rare = find_rare_class(sets, result.y_tested)
        #: The smallest p-value that its permutations can give.
        self.smallest_p = result.smallest_p(metric=metric)
        self.scoring, self.warnings = list(result.scalar_metrics), result.warnings
        self.record, self.checksum = record_of(result), result.checksum
        # Times may be a fraction of a sample apart.
        if first and (apart := first.places.apart(self.places)):
            self.record["times"] = f"up to {apart:.2g} s apart"

    def keep(self, take):
        """Keep the positions that `take` takes of flat maps."""
        self.tests = [
            KeptTest(*(None if each is None else take(each) for each in test))
            for test in self.tests
        ]
        if self.permuted_means is not None:
            self.permuted_means = take(self.permuted_means)


def _mode_of(result):
    """Which trials a map of generalization tests; None for other results."""
    # The diagonal of such a map keeps its parameters, but is tested at each time alone.
    return result.mode if "test_times" in result.axes else None


def _refuse_lack_of_nulls(result, tests, metric, who, first):
    """Raise a ValueError unless the label permutations that a test needs are there."""
    again = f"run the analysis of {_inside(who)} again with n_permutations=100"
    lacks, n_permutations = "", len(result.null_of(metric))
    if n_permutations and first is not None and len(tests) != len(first.tests):
        lacks = (
            "and the first subject differ in whether the permutations of the second "
            f"test were kept; {again}, and likewise of the first subject."
        )
    elif n_permutations == 0 and tests:
        lacks = (
            "has only a summary of its label permutations "
            f"(null={result.parameters.get('null')!r}); {again} and null='full'."
        )
    elif n_permutations == 0 and "pairs_of" in result.parameters:
        lacks = (
            "has no label permutations of chosen pairs of classes, which this method "
            "needs; they are kept of pairs that are in scoring, such as scoring=["
            f"{result.parameters['pairs_of']!r}, {result.parameters['pairs']!r}]. Use "
            "method='sign-flip' or 't', or run the analysis again so."
        )
    elif n_permutations == 0:
        lacks = f"has no label permutations, which this method needs; {again}."
    if lacks:
        raise ValueError(f"{who} {lacks}")


class Subjects:
    """Results of S subjects at the same V positions, of which C count.

    `entries` are results or paths, at the positions of the first; the first list has
    `n_first` of them.
    """

    def __init__(
        self, entries, n_first, names, *, metric=None, need_nulls=False, resample=False
    ):
        self.n_first, self.names = n_first, names
        words = [_word_subject(*pair) for pair in zip(names, entries, strict=True)]
        _refuse_repeats(entries, words)
        self.members, seen, sums = [], {}, {}
        #: Classes of the tables of pairs, (c,) or None.
        self.classes = None
        for k, (entry, who) in enumerate(zip(entries, words, strict=True)):
            result, first = _load(entry, who), self.members[0] if k else None
            metric = _check_kind(result, who, first, metric, resample)
            _refuse_copy(result, entry, who, seen)
            subject = Subject(result, who, first, metric, need_nulls)
            matrices = {
                kind: np.reshape(values, (-1, values.shape[-1]))
                for kind, values in result.matrices.items()
            }
            # Of voxels of another grid, resampling was asked for.
            if k and first.places.difference(subject.places, within_sample=True):
                from ..data.volumes import nearest_voxels, take_voxels  # of nilearn

                nearest = nearest_voxels(result.places.geometry, first.places.geometry)
                if (nearest < 0).all():
                    raise ValueError(
                        f"The voxels of {_inside(who)} do not overlap with those of "
                        "the first subject; are both in the same space? Images have to "
                        "be warped to one space, such as MNI, before they are decoded."
                    )
                subject.keep(partial(take_voxels, nearest=nearest))
                matrices = {x: take_voxels(matrices[x].T, nearest).T for x in matrices}
            if k == 0:
                self.classes, sums = result.classes, dict.fromkeys(matrices, (0.0, 0))
            elif k < n_first and not np.array_equal(result.classes, self.classes):
                sums = {}
            if k < n_first:  # a pair that a subject has not tested is left out
                sums = {kind: sums[kind] for kind in sums if kind in matrices}
                for kind, (total, n) in sums.items():
                    defined = np.isfinite(matrices[kind])
                    total = total + np.where(defined, matrices[kind], 0.0)
                    sums[kind] = total, n + defined
            # All share the places of the first; meshes and masks of others are let go.
            subject.places = first.places if k else subject.places
            self.members.append(subject)
        self.first = first = self.members[0]

        texts = [one.warnings for one in self.members]
        #: What their runs warned of: text -> names of the subjects.
        self.warnings = who_was_told(dict(zip(names, texts, strict=True)), False)
        for text in word_told(self.warnings, len(names)):
            keep_warning(text)
        records = [one.record for one in self.members]
        #: In what some of them differ: field -> what is there instead -> their names.
        self.differences = differences(records, names, n_first)
        tell_differences(self.differences, dict(zip(names, words, strict=True)))
        #: How all of them were analysed, and their numbers of trials (S,).
        self.first_level = shared(records)
        self._warn_of_rare_classes()
        #: Positions (V,), in C order, where every subject has a score.
        self.counted = self._where_all_have_scores()
        # Without copies where all positions count.
        where = slice(None) if self.counted.all() else self.counted
        lowest, highest = metric_limits(first.metric)
        for one in self.members:
            one.keep(lambda maps: maps[..., where])
            for values in (x for test in one.tests for x in test[:2] if x is not None):
                low, high = values.min(), values.max()  # NaN if any is
                if not (lowest - _BEYOND <= low and high <= highest + _BEYOND) or (
                    np.isinf([low, high]).any()
                ):
                    raise ValueError(
                        f"{one.words} has scores of {one.metric!r}, observed or of "
                        f"permuted labels, that cannot be: they go from {low:.3g} to "
                        f"{high:.3g}. Its result is damaged; take it from a backup, or "
                        "run its analysis again."
                    )
        #: Means over the first list of pairs of classes (positions..., pairs) by kind,
        #: of the kinds that all of it have for the same classes; NaN where not counted.
        self.matrices = {}
        self.classes = self.classes if sums else None
        for kind, (total, n) in sums.items():
            with np.errstate(invalid="ignore"):
                mean = (total / n)[self.counted].T
            self.matrices[kind] = np.moveaxis(self.expand(mean), 0, -1)
        #: Scores (S, C), nulls, and where it does not count (C,), of each test.
        self.tests = []
        for tests in zip(*(one.tests for one in self.members), strict=True):
            scores, exempt = np.stack([test.scores for test in tests]), tests[0].exempt
            exempt = np.zeros(scores.shape[1], bool) if exempt is None else exempt
            nulls = tuple(test.null for test in tests if test.null is not None)
            self.tests.append((scores, nulls, exempt))
        #: Scores of the observed labels (S, C), and under permuted ones (P_s, C) by
        #: subject, if asked for.
        self.scores, self.nulls, _ = self.tests[0]
        #: How many times as frequent a class is as equal ones would be, at most.
        self.unbalanced = max(one.unbalanced for one in self.members)

    def expand(self, values, fill=np.nan):
        """Put values (..., C) of the positions that count into the shape of the map."""
        return self.first.places.expand(values, self.counted, fill)

    def _warn_of_rare_classes(self):
        """Warn of subjects whose score rests on few of their test sets."""
        rare = [one.rare for one in self.members]
        examples = [
            f"{name}: {of.n_sets} of {of.n_all} with {counted(of.n_trials, 'trial')}"
            for name, of in zip(self.names, rare, strict=True)
            if of is not None
        ]
        if not examples:
            return
        pooled = ""
        known = METRICS.get(self.first.metric)
        if known is not None and known.of_ranks:
            pooled = ", or use metric='balanced_accuracy', which pools all test sets"
        warn(
            f"{self.first.metric!r} of {len(examples)} of {len(rare)} subjects rests "
            "on fewer than half of their test sets, which alone hold the rarest class "
            f"({some_of(examples)}). It says little of these subjects and counts as "
            f"much as that of the others. Leave them out{pooled}."
        )

    def _where_all_have_scores(self):
        """Where every subject has a score (V,); refuse gaps of lattices, or none."""
        has_score = np.array([~np.isnan(one.tests[0].scores) for one in self.members])
        all_have, n_each = has_score.all(axis=0), np.count_nonzero(has_score, axis=1)
        places = self.first.places
        if places.pairs is None and all_have.any() and not all_have.all():
            subject, place = np.argwhere(~has_score)[0]
            at = ", ".join(
                f"{column} {values[place]:.6g}"
                for column, values in places.columns().items()
            )
            raise ValueError(
                f"{self.members[subject].words} has no score of {places.describe()} at "
                f"{at} (first of {np.count_nonzero(~has_score[subject])}), but maps "
                "without gaps are needed. Take another metric, or leave these "
                "positions out of the analysis of all subjects."
            )
        text = (
            "The subjects have scores at different positions: "
            f"{np.count_nonzero(all_have)} of {len(all_have)} are left, where every "
            f"subject has one. {self.members[np.argmin(n_each)].words} has fewest, "
            f"{min(n_each)}"
        )
        if not all_have.any():
            raise ValueError(f"{text}. Leave out subjects that have few.")
        if (has_score != all_have).any():
            warn(f"{text}.")
        return all_have


# ------------------------------------------------------------- the lists and the names


def join_lists(results, other=None, subjects=None, paired=False, labels=DEFAULT_NAMES):
    """All entries, how many are in the first list, and all names.

    `labels` are the names of the lists; that of the second is added to its subjects'.
    """
    if check_flag("paired", paired) and other is None:
        raise ValueError("paired=True compares with another list; pass other=[...].")
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
    joined = *names, *(f"{name} ({second})" for name in other_names)
    return [*entries, *others], len(entries), joined


def leave_out_small(entries, n_first, names, min_trials, paired=False):
    """Entries of subjects with enough trials in each class, as `join_lists` gives them.

    Also who is left out, as group results record it; of a pair both are.
    """
    least = check_count("min_trials", min_trials, minimum=1)
    gone, small, sums = set(), [], []
    for k, (name, entry) in enumerate(zip(names, entries, strict=True)):
        result = _load(entry, _word_subject(name, entry))
        sums.append(result.checksum)
        n, label = _smallest_class(result)
        if n < least:
            small.append(f"{name} ({n}{label})")
            gone |= {k, (k + n_first) % (2 * n_first) if paired else k}
    kept = [k for k in range(len(entries)) if k not in gone]
    n_kept = sum(k < n_first for k in kept)
    if n_kept < 2 or (len(entries) > n_first and len(kept) - n_kept < 2):
        raise ValueError(
            f"min_trials={least} leaves fewer than two subjects of a list: it leaves "
            f"out {some_of(small)}. Choose a smaller number."
        )
    parts = [entries[k] for k in kept], n_kept, tuple(names[k] for k in kept)
    checksums = [sums[k] for k in sorted(gone)]
    return *parts, {"left_out": small, "left_out_results": checksums}


def _smallest_class(result):
    """The number of trials in the smallest class, and its name; of values, of all.

    Where models are trained and tested on different trials, the smaller number.
    """
    r, parameters = result.n_repeats, result.parameters
    if len(result.classes) == 0:
        return result.n_tested // r, ""
    tested = np.bincount(result.true_classes, minlength=len(result.classes)) // r
    sizes = np.array(parameters.get("class_sizes", tested))
    if (parameters.get("average") or 1) == 1:  # else averages are tested
        trained = sizes - tested if parameters.get("train_on") is not None else sizes
        sizes = np.minimum(trained, tested)
    return int(sizes.min()), f" {result.classes[np.argmin(sizes)]}"


def check_list_names(labels, other):
    """The names of the two groups or conditions."""
    if labels is None:
        return DEFAULT_NAMES
    names = check_two_names(labels, "results and of other", ("patients", "controls"))
    if other is None:
        raise ValueError("labels name results and other; pass other=[...], too.")
    return names


def check_two_names(labels, whose, example):
    """Two different names as text."""
    names = tuple(map(str, labels)) if isinstance(labels, list | tuple) else ()
    if len(names) != 2 or names[0] == names[1] or not all(map(str.strip, names)):
        allowed = f"two different names, of {whose}, such as {example}"
        raise invalid("labels", labels, allowed)
    return names


def list_entries(results, name="results"):
    """The entries of a list of results, two or more."""
    given, mend = f"a {type(results).__name__}", ""
    if is_path(results):
        given = f"the text {os.fspath(results)!r}"
        mend = " Pass a list; for a pattern use sorted(glob.glob(pattern))."
    elif isinstance(results, Mapping):
        mend = " Pass list(results.values()) with subjects=list(results)."
    elif not isinstance(results, list | tuple | Result) and is_foreign(results):
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
    if len(entries) < 2:
        raise ValueError(
            f"{name} holds a single subject; a group needs two or more. "
            "result.pvalues() tests one subject."
            if entries
            else f"{name} is empty; pass two or more subjects. A pattern that matches "
            "no file gives an empty list."
        )
    return entries


def is_path(entry):
    """Whether an entry is a path, and no object."""
    return isinstance(entry, str | os.PathLike)


def name_subjects(subjects, entries):
    """The names of the subjects as a tuple of different strings."""
    if subjects is None:  # those in the paths; results that have none are counted
        numbers = [f"subject {i + 1}" for i in range(len(entries))]
        in_paths = iter(_names_in(filter(is_path, entries)))
        pairs = zip(entries, numbers, strict=True)
        names = [next(in_paths, i) if is_path(entry) else i for entry, i in pairs]
        return tuple(names if len(set(names)) == len(names) else numbers)
    several = np.iterable(subjects) and not isinstance(subjects, str)
    names = tuple(map(str, all_items("subjects", subjects))) if several else ()
    if len(names) != len(entries) or len(set(names)) < len(names):
        raise ValueError(
            f"subjects must name each of the {len(entries)} results once, all names "
            f"different; got {subjects!r}."
        )
    return names


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
    pairs = combinations(zip(entries, words, strict=True), 2)
    for (entry, who), (other, whom) in pairs:
        same = "object" if entry is other and not is_path(entry) else ""
        with suppress(OSError):  # loading complains of missing files
            if is_path(entry) and is_path(other) and os.path.samefile(entry, other):
                same = "file"
        if same:
            raise ValueError(
                f"{who} and {_inside(whom)} are the same {same}; list each subject "
                "once."
            )


def _word_subject(name, entry):
    """Word a subject at the start of a sentence, e.g. "Subject sub-01 (a/b.h5)"."""
    path = f" ({os.fspath(entry)})" if is_path(entry) else ""
    return f"Subject {name.removeprefix('subject ')}{path}"


def _inside(who):
    """Word a subject in the middle of a sentence."""
    return f"s{who[1:]}"


# -------------------------------------------------------------------------- one subject


def _load(entry, who):
    """The result of one subject, loaded from its file if need be."""
    try:
        result = load_result(entry) if is_path(entry) else entry
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
            again, known = "", METRICS if len(result.classes) else NUMBER_METRICS
            if isinstance(metric, str) and metric in {*known} - {*result.scoring}:
                scoring = [*result.scoring, metric]
                again = f" For other metrics decode again, with scoring={scoring}."
            raise ValueError(f"{who}: {error}{again}") from None
    difference = first.places.difference(places, within_sample=True)
    voxels, wrong = first.places.in_voxels and places.in_voxels, ""
    if difference and not (resample and voxels):
        advice = "Run its analysis again like the others, or leave it out"
        if voxels:
            advice = (
                "resample=True brings all maps onto the grid of the first subject, and "
                "keeps the voxels that every subject has"
            )
        elif resample:
            advice = f"resample=True is for searchlights in volumes only. {advice}"
        wrong = f"differs from the first subject: {difference}. {advice}."
    elif mode != first.mode:
        wrong = (
            f"has mode={mode!r}, but the first subject {first.mode!r}: other trials "
            "were tested. Run the same analysis for all subjects."
        )
    elif first.metric not in result.scoring:
        wrong = (
            f"has no metric {first.metric!r}, which the first subject has. It has "
            f"{quoted(result.scalar_metrics)}: pass a metric that all have, or run its "
            f"analysis again with scoring={first.metric!r}."
        )
    else:
        chance = result.chances[first.metric]
        if not np.isclose(chance, first.chance, 0, _SAME_CHANCE, equal_nan=True):
            wrong = (
                f"has another chance level of {first.metric!r} than the first subject: "
                f"{chance:.6g} instead of {first.chance:.6g}. All must have decoded "
                "the same number of classes; leave it out, or take another metric."
            )
    if wrong:
        raise ValueError(f"{who} {wrong}")
    return first.metric


def _refuse_copy(result, entry, who, seen):
    """Raise a ValueError if another subject has an equal result."""
    # Equal results have equal scores; only then are both compared as a whole.
    compared = result.scores, result.predicted
    key = hash(tuple(np.asarray(values, float).tobytes() for values in compared))
    alike = seen.setdefault(key, [])
    for other, whom in alike:
        if result == _load(other, whom):
            raise ValueError(
                f"{whom} and {_inside(who)} have equal results: one may be a copy of "
                "the other, or the same data was analysed twice. List each subject "
                "once."
            )
    alike.append((entry, who))


# --------------------------------------------------- what scores are without an effect


def level_to_test(subjects, alternative, also=""):
    """What scores (S, C) are tested against: chance, or permuted means (S, C).

    The latter are what each subject scores on average without an effect, and chance
    where classes are equal. `also` words what else the caller offers.
    """
    members, name = subjects.members, subjects.first.metric
    if np.isnan(chance := float(subjects.first.chance)):
        raise ValueError(
            f"The metric {name!r} has no chance level to test against. Choose another "
            "metric, or use method='prevalence' or 'bootstrap', which compare with "
            "permuted labels."
        )
    unequal = subjects.unbalanced > _UNEQUAL
    n_lacking = sum(one.permuted_means is None for one in members)
    if not n_lacking:
        exceeds, centres = False, [one.centre for one in members]
        if not unequal and None not in centres:  # would tests find them too often?
            centre = NullCentre.pooled(centres)
            above = centre.mean > chance
            # Equal classes are slightly below chance, which hardly matters.
            exceeds = alternative != ("less" if above else "greater") and (
                centre.is_off(chance, len(centres) if above else 1)
            )
        if unequal or exceeds:
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
        if subjects.unbalanced > _TOO_UNEQUAL:
            raise ValueError(f"{what}, and comparisons with that are wrong. {advice}")
        warn(f"{what}, and tests against that level reject too often. {advice}")
    return chance


def off_chance(subjects, tested):
    """The mean of permuted labels of each list, NaN if at chance; or nothing.

    Also at chance if it was `tested` against. Refuse, or if classes do not matter warn
    of, two lists that differ without an effect.
    """
    centres, n_first = [one.centre for one in subjects.members], subjects.n_first
    if None in centres:
        return []
    chance, name = subjects.first.chance, subjects.first.metric
    lists = [centres[:n_first], centres[n_first:]]
    pooled = [NullCentre.pooled(each) for each in lists if each]
    if len(pooled) == 2:
        first, second = pooled
        error = 4 * np.hypot(first.error, second.error)
        matters = 0.2 * first.spread / np.sqrt(n_first)
        text = (
            f"Permuted labels have a mean {name} of {first.mean:.3g} in the first list "
            f"and {second.mean:.3g} in the second. So much of the difference is there "
            "without any effect, because class sizes or numbers of trials differ."
        )
        differ = not abs(first.mean - second.mean) <= max(error, matters, 1e-6)
        if differ and subjects.unbalanced > _UNEQUAL:
            raise ValueError(
                f"{text} Use metric='balanced_accuracy' or 'roc_auc', which do not "
                "depend on class sizes (decode with scoring=['accuracy', "
                "'balanced_accuracy'])."
            )
        if differ:
            warn(text)
    found = [x.mean if tested or x.is_off(chance) else np.nan for x in pooled]
    return found if np.isfinite(found).any() else []


# ----------------------------------------------------- how subjects were analysed

#: Fields that may differ without a word: seeds, numerical precision, what was kept of
#: permutations, and what follows from the data or from fields that are compared.
MAY_DIFFER = frozenset(
    {
        *("random_state", "dtype", "null", "exact", "renamings", "selected"),
        *("recorded_order", "n_images", "class_sizes"),
        *("checkpoint", "n_jobs", "verbose"),
    }
)

#: Numbers that make scores more or less precise; they are told, and not warned of.
NUMBERS = (
    *("n_trials", "n_groups", "n_folds", "n_confounds", "n_permutations"),
    *("n_trained", "n_runs", "n_confound_regressors", "n_scans_left_out"),
    *("n_scans", "n_mask_voxels", "n_channels"),
)

#: Fields whose differences are told, and not warned of either.
TOLD = frozenset({"times"})

#: Numbers that differ by less, as a part of the first, are the same.
_SAME = 1e-6

#: Subjects, values of a field, and names of channels that a warning lists.
_NAMED = 3


def _splitter(cv, record):
    """What is recorded of a splitter, but for what may differ."""
    free = ("n_splits", "random_state")
    return {k: cv[k] for k in cv if k not in free} if isinstance(cv, dict) else cv


def _confounds(value, record):
    """Confounds by name, or whether there are some where they have no names."""
    unnamed = [isinstance(each, dict) and each["name"] is None for each in value or ()]
    return value if value and not any(unnamed) else bool(record.get("n_confounds"))


#: Fields whose names users never meet -> what they are called.
_CALLED = {"class_names": "classes", "ch_names": "channels"}

#: Field -> what is compared of it, of its value and of the whole record.
_COMPARED_AS = {
    "cv": _splitter,
    "ch_names": lambda names, record: None if names is None else sorted(names),
    "confounds": _confounds,
    # Metrics beside the first, which is the one that was to be tested, are free.
    "scoring": lambda names, record: names[0] if names else None,
    # The diagonal of such a map is what the same times give by themselves.
    "mode": lambda mode, record: None if mode == "plain" else mode,
}


def record_of(result):
    """Record how a result was made, and the numbers of its trials."""
    record = _fields_of(result.parameters)
    groups = result.groups
    record["groups"] = groups is not None
    record["class_names"] = list(map(str, result.classes))
    record["n_groups"] = None if groups is None else len(np.unique(groups))
    if record.get("train_on") is None:
        record["n_trials"] = result.n_tested // result.parameters.get("n_repeats", 1)
    if record.get("ch_names") is not None:  # in all, and by type where it is known
        known = result.places.info_fif is not None
        types = result.info.get_channel_types() if known else []
        record["n_channels"] = len(record["ch_names"])
        record |= {f"{kind}.n_channels": types.count(kind) for kind in types}
    return record


def _fields_of(record, before=""):
    """A record with the fields of nested ones beside the others, "a.b"."""
    fields = {}
    for name, value in record.items():
        if isinstance(value, dict) and not (is_record(value) or "function" in value):
            fields |= _fields_of(value, f"{before}{name}.")
        else:
            fields[f"{before}{name}"] = value
    return fields


def _compared(record):
    """The fields that have to be the same, as they are compared."""
    free = (*MAY_DIFFER, *NUMBERS)
    names = dict.fromkeys((*record, *_COMPARED_AS))
    given = {name: record.get(name) for name in names if _last(name) not in free}
    return given | {x: convert(given[x], record) for x, convert in _COMPARED_AS.items()}


def _last(name):
    """The name of a field within the record that holds it."""
    return name.rpartition(".")[2]


def shared(records):
    """The fields that all have alike, and the numbers (S,) of each subject."""
    alike = {
        name: value
        for name, value in records[0].items()
        if all(name in other and is_same(other[name], value) for other in records[1:])
    }
    for name in dict.fromkeys(x for each in records for x in each):
        if _last(name) in NUMBERS:
            alike.pop(name, None)
            if None not in (numbers := [each.get(name) for each in records]):
                alike[name] = numbers
    cv = [_splitter(each.get("cv"), each) for each in records]
    if cv[0] is not None and all(is_same(each, cv[0]) for each in cv):
        alike["cv"] = cv[0]
    return alike


# ------------------------------------------------------------------------- differences


def differences(records, names, n_first):
    """The fields that some subjects have otherwise than the first of their list.

    Field -> what they have in the place of what the first has -> their names.
    """
    found, compared = {}, [_compared(record) for record in records]
    for k, (who, fields) in enumerate(zip(names, compared, strict=True)):
        first = compared[0 if k < n_first else n_first]
        for name in dict.fromkeys((*first, *fields)):
            value, usual = fields.get(name), first.get(name)
            if not is_same(value, usual):
                text = value if name in TOLD else _instead(value, usual)
                found.setdefault(name, {}).setdefault(text, []).append(who)
    return found


def tell_differences(found, words):
    """Warn of subjects that were analysed otherwise than the first of their list.

    Of all subjects, the `words` by name stand for one at the start of a sentence.
    """
    found = {_CALLED.get(x, x): found[x] for x in found if x not in TOLD}
    differing = {who for of in found.values() for names in of.values() for who in names}
    told, of_one = [], len(differing) == 1
    for field, values in found.items():
        pairs = [f"{some_of(names)}: {value}" for value, names in values.items()]
        more = [f"and {len(pairs) - _NAMED} more"] if len(pairs) > _NAMED else []
        text = ", ".join(values) if of_one else "; ".join([*pairs[:_NAMED], *more])
        told.append(f"{field} ({text})")
    who = f"{len(differing)} of {len(words)} subjects were"
    who = f"{words[differing.pop()]} was" if of_one else who
    if told:
        warn(
            f"{who} analysed differently from the first: {', '.join(told)}. If this is "
            "not on purpose, run the analysis again."
        )


def is_same(value, other):
    """Whether two recorded values are the same, but for rounding."""
    pair = value, other
    if all(isinstance(each, float | int | np.number) for each in pair):
        return bool(np.isclose(value, other, rtol=_SAME, atol=0, equal_nan=True))
    if all(isinstance(each, list | tuple | np.ndarray) for each in pair):
        return len(value) == len(other) and all(map(is_same, value, other))
    if all(isinstance(each, dict) for each in pair):
        alike = value.keys() == other.keys()
        return alike and all(is_same(value[key], other[key]) for key in value)
    return _worded(value) == _worded(other)


def _instead(value, usual):
    """Word a value, and what the first has in its place."""
    if _are_names(value) and _are_names(usual) and 0 < len({*value} & {*usual}):
        lost = [name for name in usual if name not in value]
        new = [name for name in value if name not in usual]
        parts = {"without": lost, "with": new}
        return " and ".join(f"{k} {some_of(x)}" for k, x in parts.items() if x)
    return f"{_worded(value)} instead of {_worded(usual)}"


def _are_names(value):
    """Whether a value is a list of names."""
    return isinstance(value, list | tuple) and all(isinstance(x, str) for x in value)


def _worded(value):
    """Word a recorded value."""
    if isinstance(value, bool) or value is None:
        return {True: "yes", False: "no", None: "none"}[value]
    if isinstance(value, float):
        return f"{value:.6g}"
    if _are_names(value):
        return ", ".join(value) or "none"
    return value if isinstance(value, str) else as_call(recorded(value))
