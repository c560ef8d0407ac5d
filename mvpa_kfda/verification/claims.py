"""What a result claims, and what of it can be worked out without a model."""

from __future__ import annotations

import inspect
import warnings
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
from sklearn import decomposition, feature_selection, preprocessing

from ..data.trials import read_confounds, read_train_on
from ..results.epochs import GeneralizationResult
from ..results.summaries import SummariesMixin
from ..utils.checks import trimmed
from ..utils.plain import as_call, is_record, recorded
from . import imaging, recordings
from . import reading as arrays
from .differences import DifferencesMixin, most_permutations
from .drawing import (
    DrawnFolds,
    cut_folds,
    redraw_folds,
    redraw_labels,
)
from .kernels import LINEAR, completed, for_columns
from .reading import NotCovered, of_the_file
from .refit import Recipe
from .rounds import Round, regrouped, reshuffled
from .scoring import PAIRS, is_covered

#: How nearly numbers must agree, by the precision of the run.
TOLERANCES = {"float64": 1e-6, "float32": 1e-3}
#: Scores of classes that are nearer than this are ties, relative to their size.
ROUNDING = {"float64": 1e-9, "float32": 1e-4}
#: The transformers of scikit-learn that can be steps, by the names of their classes.
_STEPS = {
    name: each
    for module in (preprocessing, decomposition, feature_selection)
    for name, each in vars(module).items()
    if name in module.__all__ and inspect.isclass(each) and hasattr(each, "transform")
}
#: How data are read, by the function that decoded them.
READERS = arrays.READERS | recordings.READERS | imaging.READERS


@dataclass
class Claims(DifferencesMixin):
    """A result, and what was given to check it by."""

    result: object
    reading: object
    options: dict
    given: dict = field(default_factory=dict)
    unverified: list = field(default_factory=list)
    notes: list = field(default_factory=list)
    #: How far inputs are from those recorded, where they are nearly the same.
    apart: dict = field(default_factory=dict)

    @classmethod
    def of(cls, result, data, y, given):
        """Read the data as the function did that returned the result."""
        inputs = result.inputs
        if not inputs or not result.options:
            raise NotCovered(
                "it does not say of what data it was made (no decoding function "
                "returned it, or another result was made of it)"
            )
        with of_the_file():
            if inputs["function"] not in READERS:
                raise NotCovered(f"results of {inputs['function']} are not refitted")
            claims = cls(result, None, recorded(result.options), given)
            claims._check_covered()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            claims._read(data, y, given)
        return claims

    def _read(self, data, y, given):
        """Read the data as the function did."""
        function = self.result.inputs["function"]
        try:
            self.reading = READERS[function](self.result, data, y, given)
            self._read_rest(given)
        except (AttributeError, IndexError, KeyError, TypeError) as error:
            raise ValueError(
                f"The result was made by {function}, which is given other data than "
                f"{type(data).__name__} with these ({type(error).__name__}: {error}). "
                "Pass the same data to verify, by the same argument names."
            ) from error

    def _read_rest(self, given):
        """Read what all functions are given in the same way, where it was not yet."""
        read, n = self.reading, len(self.reading.y)
        if read.groups is None and given.get("groups") is not None:
            read.groups = np.asarray(given["groups"])
        table = given.get("confounds")
        if read.confounds is None and table is not None:
            read.confounds = read_confounds(table, n)
        asked = given.get("train_on") if not read.is_split else None
        if read.train_on is None and asked is not None:
            read.train_on = read_train_on(asked, n).mask
        read.note(y=read.y, groups=read.groups, y_test=read.y_test)
        for name in ("y", "groups", "y_test"):
            if getattr(read, name) is not None:
                setattr(read, name, trimmed(getattr(read, name)))
        read.note(train_on=read.train_on)
        for name in ("confounds", "confounds_test"):
            table = getattr(read, name)
            read.note(**{name: None if table is None else table.columns})

    # ------------------------------------------------------------------- the method

    def _check_covered(self):
        """Refuse what `refit` does not have."""
        parameters = self.result.parameters
        n_classes = None if self.is_regression else len(self.result.classes)
        missing = [
            name
            for name in self.result.metrics
            if not is_covered(name, n_classes, self.chosen_pairs)
            and name not in ("confusion_matrix", *PAIRS.values())
        ]
        if missing:
            self.unverified.append(f"{' and '.join(missing)} are not computed here yet")
        for step in parameters.get("preprocess") or ():
            if _step_of(step) is None:
                raise NotCovered(f"the step {as_call(step)} is not in the file")

    @property
    def is_regression(self):
        """Whether values are predicted, and no classes."""
        return self.result.parameters.get("task") == "regression"

    @property
    def _kernels(self):
        parameters = self.result.parameters
        several = parameters["kernel"].get("kernels")
        several = parameters.get("kernels") or several or [parameters["kernel"]]
        again = self.given.get("kernel", self.result.options.get("kernel"))
        again = again if isinstance(again, list | tuple) else [again] * len(several)
        names = parameters.get("ch_names")
        return tuple(
            completed(*each, names) for each in zip(several, again, strict=True)
        )

    def method_at(self, position):
        """Return how models are trained at a position, maybe of some features only."""
        if self.reading.columns is None:
            return self.method
        columns = self.reading.columns(position)
        kernels = [for_columns(each, columns) for each in self.method.kernels]
        return replace(self.method, kernels=tuple(kernels))

    @property
    def averages_in_feature_space(self):
        """Whether averages are means in the feature space of a kernel."""
        if self.result.parameters.get("average") is None:
            return False
        return not all(kernel["name"] in LINEAR for kernel in self._kernels)

    @property
    def chosen_pairs(self):
        """Metrics of pairs of classes by name: the table, and which of its entries."""
        parameters, labels = self.result.parameters, list(map(str, self.result.classes))
        numbers = np.zeros((len(labels),) * 2, int)
        first, second = np.triu_indices(len(labels), 1)
        numbers[first, second] = numbers[second, first] = np.arange(len(first))
        return {
            name: (
                parameters["pairs_of"],
                [numbers[tuple(labels.index(str(x)) for x in pair)] for pair in pairs],
            )
            for name, pairs in parameters.get("pairs", {}).items()
        }

    @cached_property
    def method(self):
        """How models are trained."""
        parameters = self.result.parameters
        seed = parameters["random_state"] % 2**32
        return Recipe(
            self._kernels,
            parameters["reg"],
            None if self.is_regression else len(self.classes),
            tuple(_step_of(step, seed) for step in parameters.get("preprocess") or ()),
            parameters.get("n_components"),
            getattr(self.reading, "gram", None),
            ROUNDING[parameters["dtype"]],
        )

    @property
    def learns_in_folds(self):
        """Whether penalties and widths are those of each training set."""
        folds = self.drawn_folds
        own = folds is not None and (
            folds.chosen is not None or not folds.are_complements(len(self.codes))
        )
        own = own or self.result.parameters.get("average_test") is False
        return own or bool(self.method.steps) or self.reading.confounds is not None

    # ---------------------------------------------------------- trials, folds, labels

    @cached_property
    def single(self):
        """The classes, or distinct values, and which of them every trial has."""
        y = self.reading.y
        if self.is_regression:
            y = y.astype(float)
        return np.unique(y, return_inverse=True)

    @property
    def classes(self):
        """The sorted labels, or values."""
        return self.single[0]

    @cached_property
    def codes(self):
        """The class, or the number of the value, of every trial or average."""
        return self._first(self.single[1])

    @cached_property
    def groups(self):
        """The group of every trial, or average."""
        return self._first(self.reading.groups)

    @cached_property
    def confounds(self):
        """The columns that are taken out, in a unit of their own, of every trial."""
        return self._in_unit(self.reading.confounds)

    @cached_property
    def confounds_test(self):
        """The same of other trials that are tested."""
        if not self.reading.other_trials:
            return self.confounds
        return self._in_unit(self.reading.confounds_test)

    def _in_unit(self, table):
        if table is None:
            return None
        centre, spread = self.reading.confounds.unit
        return (table.columns - centre) / spread

    @property
    def n_repeats(self):
        """How often the procedure is repeated."""
        return self.result.parameters.get("n_repeats", 1)

    @property
    def regroups(self):
        """Whether every labelling has averages, or folds, of its own."""
        parameters = self.result.parameters
        own = parameters.get("average") and self.result.trains is not None
        return self.n_repeats > 1 or parameters.get("average_test") is False or own

    @property
    def _members(self):
        """The trials in each average, where they are grouped once."""
        return None if self.regroups else self.result.members

    def _first(self, values):
        """Return values of trials, or those of the first trial of each average."""
        members = self._members
        return values if members is None or values is None else values[members[:, 0]]

    def round(self, permutation, repeat=0):
        """Return the samples and folds of one repeat under some labels."""
        if (permutation, repeat) not in self._rounds:
            self._rounds[permutation, repeat] = self._make_round(permutation, repeat)
        return self._rounds[permutation, repeat]

    def of_samples(self, values, made):
        """Return values of a repeat's samples; averages made once have theirs here."""
        return made.first(values) if self.regroups else values

    def of_tested(self, values, made):
        """Return values of what a repeat tests."""
        return made.first_tested(values) if self.regroups else values

    @cached_property
    def _rounds(self):
        return {}

    def _make_round(self, permutation, repeat):
        parameters = self.result.parameters
        if not self.regroups:
            return Round(self._members, self._folds_of(permutation))
        codes, groups = self._drawn[0][permutation], self.groups
        if parameters["average"] is not None:
            made = parameters, codes, self.drawn_folds, groups
            return regrouped(*made, permutation, repeat)
        seed, asked = parameters["random_state"], self.options.get("cv")
        return reshuffled(asked, codes, groups, seed, self.n_repeats, repeat)

    @cached_property
    def drawn_folds(self):
        """The folds that the options stand for; those of the file if nobody knows."""
        reading, asked = self.reading, self.options.get("cv")
        if reading.other_trials:
            return None
        codes, groups, chosen = self.single[1], reading.groups, reading.train_on
        values = None
        if self.is_regression:
            values, codes = self.single[1], np.zeros(len(codes), int)
        if asked is None and groups is None and chosen is not None:
            return self._average_folds(cut_folds(None, chosen))
        if self.n_repeats > 1 and self.result.parameters["average"] is None:
            return DrawnFolds(self.round(0).pairs)
        folds = redraw_folds(asked, codes, groups, reading.numbers, chosen, values)
        if folds is None:
            folds = self._folds_given_again
        if folds is None and self.regroups:
            raise NotCovered(
                "folds were given as a list, and averages drawn from them; pass the "
                "same cv again"
            )
        if folds is None:
            self.notes.append(
                "The folds are those that the file lists; the options do not say how "
                "they were drawn."
            )
            return DrawnFolds(self.listed, chosen=chosen)
        if chosen is not None:
            folds = cut_folds(folds, chosen)
        return self._average_folds(folds)

    @property
    def _folds_given_again(self):
        """The folds of a list that is the one that is recorded."""
        again = self.given.get("cv", self.result.options.get("cv"))
        if not isinstance(again, list | tuple) or is_record(again[0][0]):
            return None  # a file has no more than checksums of them
        if recorded(list(again)) != self.options["cv"]:
            raise NotCovered("cv is another list of folds than that recorded")
        return DrawnFolds([tuple(map(np.asarray, pair)) for pair in again])

    def _average_folds(self, folds):
        """Return the folds of averages, where trials are averaged."""
        members = self._members
        if members is None:
            return folds
        first = members[:, 0]
        pairs = [
            tuple(np.flatnonzero(np.isin(first, rows)) for rows in pair)
            for pair in folds.pairs
        ]
        chosen = None if folds.chosen is None else folds.chosen[first]
        return DrawnFolds(pairs, chosen=chosen)

    @property
    def listed(self):
        """The folds that the file lists."""
        tests, trains = self.result.tests, self.result.trains
        if trains is None:
            everything = np.arange(len(self.result.y))
            trains = [np.setdiff1d(everything, test) for test in tests]
        return list(zip(trains, tests, strict=True))

    @cached_property
    def folds(self):
        """Training and test sets, repeat after repeat, as the file lists them."""
        pairs, start = [], 0
        for repeat in range(self.n_repeats):
            made = self.round(0, repeat)
            pairs += [(start + train, start + test) for train, test in made.listed()]
            start += made.n_tested(len(self.codes)) if self.regroups else 0
        return pairs

    @property
    def n_folds(self):
        """The number of folds in one repeat."""
        return len(self.round(0).pairs)

    def _folds_of(self, permutation):
        """Return training and test sets under some labels, of a single repeat.

        The same for all, unless the splitter looks at the labels.
        """
        if self.drawn_folds is None:
            return [(np.arange(len(self.codes)), np.arange(len(self._tested)))]
        if not permutation or not self._folds_see_labels:
            return self.drawn_folds.pairs
        codes = self._drawn[0][permutation]
        drawn = redraw_folds(self.options["cv"], codes, self.reading.groups)
        if drawn is None:
            raise NotCovered("the splitter draws other folds every time")
        return drawn.pairs

    @property
    def _folds_see_labels(self):
        return self.result.parameters.get("folds_by_labels", False)

    @cached_property
    def _tested(self):
        """The classes to be predicted."""
        if self.reading.y_test is None:
            return self.codes
        return np.searchsorted(self.classes, self.reading.y_test)

    @cached_property
    def _drawn(self):
        """Trained and tested codes, (P + 1, n) each, drawn anew."""
        parameters, options = self.result.parameters, self.options
        if not parameters["n_permutations"]:
            return self.codes[np.newaxis], self._tested[np.newaxis]
        tested = None if self.reading.other_trials else self._tested
        asked = min(options["n_permutations"], most_permutations(self.result))
        redrawn = self.n_repeats > 1 and parameters["average"] is None
        folds = None if redrawn or self._folds_see_labels else self.drawn_folds
        labels, moved = redraw_labels(
            self.codes, parameters, asked, folds, self.groups, tested
        )
        if self.reading.other_trials:
            moved = np.tile(self._tested, (len(labels), 1))
        return labels, moved

    @cached_property
    def labels(self):
        """What is trained with, (P + 1, n): codes, or values."""
        return self._as_labels(self._drawn[0])

    def _as_labels(self, codes):
        return codes if self.method.n_classes is not None else self.classes[codes]

    def true(self, permutation, second=False):
        """Return what is to be predicted (n_test,), under some permutation.

        In the second test of time generalization it stays.
        """
        return self._as_labels(self._drawn[1][0 if second else permutation])

    # --------------------------------------------------------------------- the scores

    @property
    def metrics(self):
        """The metrics that are compared."""
        return [
            name
            for name in self.result.scalar_metrics
            if is_covered(name, self.method.n_classes, self.chosen_pairs)
        ]

    @property
    def tables(self):
        """The tables of pairs of classes."""
        return [name for name in PAIRS.values() if name in self.result.metrics]

    def agrees_on_table(self, position, name, again, change=0.0):
        """Tell whether a table of pairs is the stored one."""
        kind = "accuracy" if name == "pairwise_accuracies" else "crossnobis"
        stored = np.asarray(self.result.rdm(kind))[position]
        tolerance = TOLERANCES[self.result.parameters["dtype"]]
        most = tolerance * (1 + np.abs(again)) + change
        same = (np.abs(stored - again) <= most) | (np.isnan(stored) & np.isnan(again))
        return bool(same.all())

    @cached_property
    def is_decoded(self):
        """Which positions have a score."""
        return ~np.isnan(np.asarray(self.result.metrics[self.result.scalar_metrics[0]]))

    @property
    def n_nulls(self):
        """How many permutations have scores in the file."""
        nulls = self.result.nulls
        return len(next(iter(nulls.values()))) if nulls else 0

    @property
    def summaries(self):
        """What is kept of other nulls: (metric, whether the second test's, summary)."""
        result, kept = self.result, []
        if isinstance(result, SummariesMixin):
            kept.append(result.null_summaries)
        if isinstance(result, GeneralizationResult):
            kept.append(result.second_summaries)
        return [
            (name, second, summary)
            for second, summaries in enumerate(kept)
            for name, summary in summaries.items()
            if name in self.metrics
        ]

    def stored(self, name, position, fold, b):
        """Yield the stored scores of a cell, and whether of the second test."""
        result = self.result
        if b:
            yield result.nulls[name][b - 1][position], False
            if result.is_tested_twice:
                yield result.second_nulls[name][b - 1][position], True
        elif fold is None:
            yield self.observed(name)[position], False
            if result.is_tested_twice:
                yield self.observed(name, second=True)[position], True
        else:
            of_fold = result.fold_metrics[name][(*position, fold)]
            if not np.isnan(of_fold):  # else of a single class, say
                yield of_fold, False

    def observed(self, name, second=False):
        """Return the stored scores of observed labels, perhaps in the second test."""
        scores = self.result.metrics
        if second:
            scores = scores | self.result.second_scores
        return np.asarray(scores[name])

    def agrees(self, stored, again, slack=0.0, single=False):
        """Tell whether two scores are the same, but for rounding and what ties do."""
        if np.isnan(stored):
            return False
        tolerance = self.tolerance(single)
        return bool(abs(stored - again) <= tolerance * max(1, abs(again)) + slack)

    def say_if_undecided(self, slacks):
        """Say where scores are not compared, as ties may change them by any amount."""
        words = (
            "In some cells rounding may have decided between penalties, so that their "
            "scores were not compared."
        )
        if np.isinf(slacks).any() and words not in self.notes:
            self.notes.append(words)

    def tolerance(self, single=False):
        """Return how nearly scores agree, that may be kept in single precision."""
        tolerance = TOLERANCES[self.result.parameters["dtype"]]
        single = single or self.result.parameters.get("null") == "full"
        return max(tolerance, 2e-6) if single else tolerance

    def agrees_on_penalty(self, position, fold, model):
        """Tell whether the lambda of a fold is the stored one."""
        stored = self.result.penalty.get("lambda")
        if stored is None:
            return True
        if self.reading.test is not None:  # it is one of the training time
            position = position[:1]
        stored = np.asarray(stored)[position]
        if np.ndim(stored):
            each = len(self.folds) // len(stored)  # folds, or those of a repeat
            stored = stored[fold // each]
        near = np.isclose(stored, model.lam, rtol=max(1e-5, model.lam_doubt), atol=0)
        return bool(near or np.isnan(stored))

    def count_differences(self, position, fold, model):
        """Count the stored predictions of a fold that differ, ties left out."""
        if not self.tested_once:
            return 0
        rows = self.folds[fold][1]
        stored = np.asarray(self.result.predicted)[position][rows]
        if self.method.n_classes is None:
            spread = np.ptp(self.classes)
            share = max(TOLERANCES[self.result.parameters["dtype"]], self.noise)
            tolerance = share * spread
            tolerance = tolerance if model.doubt is None else tolerance + model.doubt
            differ = np.abs(stored - model.predicted) > tolerance
        else:
            differ = stored != model.predicted
        return int(np.sum(differ & ~model.ties))

    @cached_property
    def tested_once(self):
        """Whether every trial is in one test set at most."""
        rows = np.concatenate([test for _, test in self.folds])
        return np.bincount(rows).max() == 1


def _step_of(record, seed=0):
    """Return the transformer of scikit-learn that a record is of, None if of none."""
    given = {name: v for name, v in record.items() if name not in ("name", "n_jobs")}
    if record["name"] not in _STEPS or any(isinstance(v, dict) for v in given.values()):
        return None
    if given.get("random_state", 0) is None:
        given["random_state"] = seed
    try:
        return _STEPS[record["name"]](**given)
    except TypeError:  # arguments that it does not have
        return None
