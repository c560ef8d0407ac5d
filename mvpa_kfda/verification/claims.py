"""What a result claims, and what of it can be worked out without a model."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from sklearn import decomposition, feature_selection, preprocessing

from ..data.confounds import read_confounds, read_train_on
from ..results.epochs import GeneralizationResult
from ..utils.record import as_call, is_record, recorded
from . import imaging, recordings
from . import reading as arrays
from .drawing import DrawnFolds, cut_folds, redraw_folds, redraw_labels, splitter_of
from .reading import NotCovered
from .refit import Recipe
from .scoring import is_covered, score

#: The kernels and penalties that `refit` has.
KERNELS = ("Linear", "RBF", "Polynomial", "Precomputed")
#: How nearly numbers must agree, by the precision of the run.
TOLERANCES = {"float64": 1e-6, "float32": 1e-3}
#: Scores of classes that are nearer than this are ties, relative to their size.
ROUNDING = {"float64": 1e-9, "float32": 1e-4}
#: Where scikit-learn's steps come from.
_STEPS = (preprocessing, decomposition, feature_selection)
#: How data are read, by the function that decoded them.
READERS = arrays.READERS | recordings.READERS | imaging.READERS
#: What is said of inputs by their names.
_INPUTS = {
    "data": "the data",
    "data_test": "the test data",
    "y": "the labels",
    "y_test": "the test labels",
    "groups": "the groups",
    "confounds": "the confounds",
    "confounds_test": "the confounds of the test data",
    "train_on": "the trials of train_on",
}


@dataclass
class Claims:
    """A result, and what was given to check it by."""

    result: object
    reading: object
    options: dict
    unverified: list = field(default_factory=list)
    notes: list = field(default_factory=list)

    @classmethod
    def of(cls, result, data, y, given):
        """Read the data as the function did that returned the result."""
        inputs = result.inputs
        if not inputs or not result.options:
            raise NotCovered(
                "it does not say of what data it was made (no decoding function "
                "returned it, or another result was made of it)"
            )
        if inputs["function"] not in READERS:
            raise NotCovered(f"results of {inputs['function']} are not refitted yet")
        options = recorded(result.options)
        claims = cls(result, None, options)
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
                "Give verify what it was given, by the same names."
            ) from error

    def _read_rest(self, given):
        """Read what all functions are given in the same way, where it was not yet."""
        read, n = self.reading, len(self.reading.y)
        if read.groups is None and given.get("groups") is not None:
            read.groups = np.asarray(given["groups"])
        table = given.get("confounds")
        if read.confounds is None and table is not None:
            read.confounds = read_confounds(table, n)
        if read.train_on is None and given.get("train_on") is not None:
            read.train_on = read_train_on(given["train_on"], n).mask
        read.note(y=read.y, groups=read.groups, y_test=read.y_test)
        read.note(train_on=read.train_on)
        for name in ("confounds", "confounds_test"):
            table = getattr(read, name)
            read.note(**{name: None if table is None else table.columns})

    # ------------------------------------------------------------------- the method

    def _check_covered(self):
        """Refuse what `refit` does not have."""
        parameters = self.result.parameters
        for kernel in self._kernels:
            if kernel["name"] not in KERNELS or kernel.get("approx") is not None:
                raise NotCovered(f"kernel {as_call(kernel)} is not refitted yet")
        if parameters.get("n_repeats", 1) > 1:
            raise NotCovered("procedures that are repeated are not refitted yet")
        if parameters.get("average_test") is False:
            raise NotCovered("average_test=False is not refitted yet")
        if parameters.get("average") and not self._is_linear:
            raise NotCovered("averages in feature space are not refitted yet")
        regression = parameters.get("task") == "regression"
        n_classes = None if regression else len(self.result.classes)
        missing = [m for m in self.result.metrics if not is_covered(m, n_classes)]
        if missing:
            self.unverified.append(f"{' and '.join(missing)} are not computed here yet")
        for step in parameters.get("preprocess") or ():
            if _step_of(step) is None:
                raise NotCovered(f"the step {as_call(step)} is not in the file")

    @property
    def _kernels(self):
        parameters = self.result.parameters
        several = parameters["kernel"].get("kernels")
        return tuple(parameters.get("kernels") or several or [parameters["kernel"]])

    @property
    def _is_linear(self):
        return all(kernel["name"] == "Linear" for kernel in self._kernels)

    @cached_property
    def method(self):
        """How models are trained."""
        parameters, reg = self.result.parameters, self.result.parameters["reg"]
        if is_record(reg) and is_record(reg.get("cv")):
            reg = reg | {"cv": splitter_of(reg["cv"])}
        seed = parameters["random_state"] % 2**32
        regression = parameters.get("task") == "regression"
        return Recipe(
            self._kernels,
            reg,
            None if regression else len(self.classes),
            tuple(_step_of(step, seed) for step in parameters.get("preprocess") or ()),
            parameters.get("n_components"),
            getattr(self.reading, "gram", None),
            ROUNDING[parameters["dtype"]],
        )

    @property
    def learns_in_folds(self):
        """Whether penalties and widths are those of each training set."""
        folds = self._folds
        own = folds is not None and (
            folds.chosen is not None or not folds.are_complements(len(self.codes))
        )
        return own or bool(self.method.steps) or self.reading.confounds is not None

    # ---------------------------------------------------------- trials, folds, labels

    @cached_property
    def _single(self):
        """The classes, or distinct values, and which of them every trial has."""
        y = self.reading.y
        if self.result.parameters.get("task") == "regression":
            y = y.astype(float)
        return np.unique(y, return_inverse=True)

    @property
    def classes(self):
        """The sorted labels, or values."""
        return self._single[0]

    @cached_property
    def codes(self):
        """The class, or the number of the value, of every trial or average."""
        return self._first(self._single[1])

    @cached_property
    def groups(self):
        """The group of every trial, or average."""
        return self._first(self.reading.groups)

    @cached_property
    def confounds(self):
        """The columns that are taken out, in a unit of their own, of every trial."""
        return self.averaged(self._in_unit(self.reading.confounds))

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

    def _first(self, values):
        """Return values of trials, or those of the first trial of each average."""
        members = self.result.members
        return values if members is None or values is None else values[members[:, 0]]

    def averaged(self, values):
        """Return values (n, ...) of trials, or their means over each average."""
        members = self.result.members
        if members is None or values is None:
            return values
        return values[members].mean(axis=1)

    def features(self, read, position):
        """Return the features of a position, of trials or averages."""
        return self.averaged(read(position))

    @cached_property
    def _folds(self):
        """The folds that the options stand for; those of the file if nobody knows."""
        reading, asked = self.reading, self.options.get("cv")
        if reading.other_trials:
            return None
        codes, groups, chosen = self._single[1], reading.groups, reading.train_on
        if self.result.parameters.get("task") == "regression":
            codes = np.zeros(len(codes), int)
        if asked is None and groups is None and chosen is not None:
            return self._average_folds(cut_folds(None, chosen))
        folds = redraw_folds(asked, codes, groups, reading.numbers, chosen)
        if folds is None:
            self.notes.append(
                "The folds are those that the file lists; the options do not say how "
                "they were drawn."
            )
            return DrawnFolds(self._listed, chosen=chosen)
        if chosen is not None:
            folds = cut_folds(folds, chosen)
        return self._average_folds(folds)

    def _average_folds(self, folds):
        """Return the folds of averages, where trials are averaged."""
        members = self.result.members
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
    def _listed(self):
        """The folds that the file lists."""
        tests, trains = self.result.tests, self.result.trains
        if trains is None:
            everything = np.arange(len(self.result.y))
            trains = [np.setdiff1d(everything, test) for test in tests]
        return list(zip(trains, tests, strict=True))

    @property
    def folds(self):
        """Training and test sets."""
        if self._folds is None:
            n_test = len(self._tested)
            return [(np.arange(len(self.codes)), np.arange(n_test))]
        return self._folds.pairs

    def folds_of(self, permutation):
        """Return training and test sets under some labels.

        The same for all, unless the splitter looks at the labels.
        """
        if not permutation or not self._folds_see_labels:
            return self.folds
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
        asked = options["n_permutations"]
        folds = None if self._folds_see_labels else self._folds
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
        """Return what is to be predicted (n_test,), under some permutation."""
        moves = not second
        if self.reading.y_test is not None and not self.reading.other_trials:
            moves = second  # labels of their own stay, and move for the second null
        return self._as_labels(self._drawn[1][permutation if moves else 0])

    # --------------------------------------------------------------------- the scores

    @property
    def metrics(self):
        """The metrics that are compared."""
        return [
            name
            for name in self.result.scalar_metrics
            if is_covered(name, self.method.n_classes)
        ]

    @cached_property
    def is_decoded(self):
        """Which positions have a score."""
        return ~np.isnan(np.asarray(self.result.metrics[self.result.scalar_metrics[0]]))

    @property
    def n_nulls(self):
        """How many permutations have scores in the file."""
        nulls = self.result.nulls
        n = len(next(iter(nulls.values()))) if nulls else 0
        if self.result.parameters["n_permutations"] and not n:
            words = (
                "the scores under permuted labels are not in the file (null="
                f"{self.result.parameters.get('null')!r})"
            )
            if words not in self.unverified:
                self.unverified.append(words)
        return n

    def stored(self, name, position, fold, b):
        """Yield the stored scores of a cell, and whether of the second null."""
        result = self.result
        if b:
            yield result.nulls[name][b - 1][position], False
            if isinstance(result, GeneralizationResult) and name in result.second_nulls:
                yield result.second_nulls[name][b - 1][position], True
        elif fold is None:
            yield np.asarray(result.metrics[name])[position], False
        else:
            yield result.fold_metrics[name][(*position, fold)], False

    def agrees(self, stored, again, slack=0.0):
        """Tell whether two scores are the same, but for rounding and what ties do."""
        if np.isnan(stored):  # undefined: a single class is tested
            return True
        tolerance = TOLERANCES[self.result.parameters["dtype"]]
        if self.result.parameters.get("null") == "full":
            tolerance = max(tolerance, 1e-6)
        return bool(abs(stored - again) <= tolerance * max(1, abs(again)) + slack)

    def agrees_on_penalty(self, position, fold, lam):
        """Tell whether a lambda is the stored one."""
        stored = self.result.penalty.get("lambda")
        if stored is None:
            return True
        if self.reading.test is not None:  # it is one of the training time
            position = position[:1]
        stored = np.asarray(stored)[position]
        if np.ndim(stored):
            stored = stored[fold] if len(stored) == len(self.folds) else lam
        return bool(np.isclose(stored, lam, rtol=1e-5, atol=0) or np.isnan(stored))

    def count_differences(self, position, fold, model):
        """Count the stored predictions of a fold that differ, ties left out."""
        if not self._tested_once:
            return 0
        rows = self.folds[fold][1]
        stored = np.asarray(self.result.predicted)[position][rows]
        if self.method.n_classes is None:
            spread = np.ptp(self.classes)
            tolerance = TOLERANCES[self.result.parameters["dtype"]] * spread
            differ = np.abs(stored - model.predicted) > tolerance
        else:
            differ = stored != model.predicted
        return int(np.sum(differ & ~model.ties))

    @cached_property
    def _tested_once(self):
        """Whether every trial is in one test set at most."""
        rows = np.concatenate([test for _, test in self.folds])
        return np.bincount(rows).max() == 1

    # ---------------------------------------------------------------- the differences

    def differences(self):
        """Return what differs before anything is refitted, in words."""
        found = self._differences_of_inputs()
        return found or [*self._differences_of_trials(), *self._differences_of_folds()]

    def _differences_of_inputs(self):
        """Return which inputs are other ones than those that are recorded."""
        noted, found = self.reading.prints, []
        for name, words in _INPUTS.items():
            said, seen = self.result.inputs.get(name), noted.get(name)
            if said == seen:
                continue
            if seen is None:
                found.append(f"{words} are not given, and were when it was made")
            elif said is None:
                found.append(f"{words} are given, and were not when it was made")
            elif said[1] != seen[1]:
                found.append(f"{words} are {seen[1]}, and {said[1]} are recorded")
            elif said[3] == seen[3]:
                found.append(f"{words} are in another order than those recorded")
            else:
                found.append(f"{words} are other ones than those recorded")
        return found

    def _differences_of_trials(self):
        """Compare what the file says of trials with what was given."""
        result = self.result
        if self.method.n_classes is None:
            if not np.allclose(result.y, self.classes[self.codes], rtol=1e-12):
                yield "the values to be predicted are other ones in the file"
            return
        names = [list(map(str, each)) for each in (result.classes, self.classes)]
        if names[0] != names[1]:
            yield (
                f"the classes are {', '.join(names[1])}, and the file calls them "
                f"{', '.join(names[0])}"
            )
        elif not np.array_equal(result.y, self.codes):
            yield "the file has other labels of the trials"
        if result.members is not None:
            yield from self._differences_of_averages()

    def _differences_of_averages(self):
        """Check who is averaged with whom."""
        members, (_, codes) = self.result.members, self._single
        if len(np.unique(members)) < members.size:
            yield "a trial is in two averages"
        if (codes[members] != codes[members[:, :1]]).any():
            yield "averages are made of trials of several classes"
        folds = self._listed
        for train, test in folds:
            if np.intersect1d(members[train], members[test]).size:
                yield "averages that are tested hold trials that are trained with"

    def _differences_of_folds(self):
        """Compare the folds of the file with those that the options stand for."""
        if self._folds is None:
            return
        listed, drawn = self._listed, self.folds
        if len(listed) != len(drawn):
            yield f"the file has {len(listed)} folds, and the options make {len(drawn)}"
            return
        for number, (one, two) in enumerate(zip(listed, drawn, strict=True)):
            if any(
                not np.array_equal(np.sort(a), np.sort(b))
                for a, b in zip(one, two, strict=True)
            ):
                yield f"fold {number} holds other trials than the options say"
                return
        for train, test in listed:
            if np.intersect1d(train, test).size and not self.reading.other_trials:
                yield "a fold is tested on trials that it is trained with"
                return

    def differences_of_scores(self):
        """Work out scores again from the predictions in the file, at all positions."""
        if self.method.n_classes is None or not self._tested_once:
            return
        rows = np.concatenate([test for _, test in self.folds])
        true, predicted = (
            self.true(0)[rows],
            np.asarray(self.result.predicted)[..., rows],
        )
        for name in self.metrics:
            if name == "roc_auc":
                continue
            stored = np.asarray(self.result.metrics[name])
            for position in map(tuple, np.argwhere(self.is_decoded)):
                one = (true, predicted[position], None, 0)
                again = score(name, [one], self.method.n_classes)
                if not self.agrees(stored[position], again):
                    yield (
                        f"{name} is {stored[position]:.4g} at position "
                        f"{', '.join(map(str, position)) or 0}, and {again:.4g} by the "
                        "predictions in the file"
                    )
                    return


def _step_of(record, seed=0):
    """Return the transformer of scikit-learn that a record is of, None if of none."""
    given = {name: value for name, value in record.items() if name != "name"}
    if any(isinstance(value, dict) for value in given.values()):
        return None
    if given.get("random_state", 0) is None:
        given["random_state"] = seed
    for module in _STEPS:
        if hasattr(module, record["name"]):
            return getattr(module, record["name"])(**given)
    return None
