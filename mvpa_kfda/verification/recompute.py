"""A result computed again by the package, from the data and what its file records.

A file is not trusted: it names a decoding function, and options of that function that
neither run anything nor write; counts are bounded by what the file holds.
"""

import inspect
import math
import warnings
from contextlib import closing
from dataclasses import replace
from time import monotonic

import numpy as np
from sklearn import decomposition, feature_selection, preprocessing

from ..decoding import epochs, images  # noqa: F401 which fill FUNCTIONS
from ..decoding.procedure import FUNCTIONS
from ..decoding.run import MapStore, reduce_part
from ..group.second_level import group_inference
from ..kfda.preprocess import NoiseScaler
from ..results.procedure import OF_THE_RUN, SPLITTERS, revived
from ..utils.fingerprints import PROJECTIONS, kept_inputs, projections
from ..utils.parallel import count_workers, run_in_parallel
from ..utils.plain import as_call, is_record, recorded

#: The transformers of scikit-learn that can be steps, by the names of their classes.
_STEPS = {
    name: each
    for module in (preprocessing, decomposition, feature_selection)
    for name, each in vars(module).items()
    if name in module.__all__ and inspect.isclass(each) and hasattr(each, "transform")
} | {NoiseScaler.__name__: NoiseScaler}
#: What is data, which a file neither holds nor names.
_DATA = ("X_test", "y_test", "test_epochs", "same_trials", "tmin_test", "mask_img")
_DATA += ("process_mask_img", "mesh", "src")
#: What files hold no more of than a name or a checksum.
_GIVEN_AGAIN = ("kernel", "cv", "reg", "scoring", "preprocess")
#: Data that may be given in other words than before: as values, or by their names.
_OF_TRIALS = ("train_on", "confounds")
#: So many permutations are drawn in a second or two, and so many splits mean anything.
_FEW_PERMUTATIONS, _MOST_SPLITS = 10**5, 1000
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
#: Inputs that differ by a larger part of their standard deviation are other ones: what
#: single precision, or 16 bits, leave of them differs by less. More would make so many
#: predictions ties that edited ones hide among them.
_MOST_APART = 1e-4
#: Maps whose numbers ties may change, and how many axes are before those of the map.
MAPS = dict.fromkeys(("metrics", "repeats", "predicted", "fold_metrics"), 0)
MAPS |= {"second_scores": 0, "nulls": 1, "second_nulls": 1}
MAPS |= {"penalty": 0, "class_scores": 0}
#: What errors of a file that was edited are.
OF_FILES = (ArithmeticError, AttributeError, LookupError, TypeError, ValueError)


class NotCovered(Exception):
    """What cannot be verified; the text continues "cannot be verified because"."""


class Different(Exception):
    """What differs before anything is computed, a list of texts."""


class NotTaken(Exception):
    """Data that the function does not take."""


class _RoundedError(Exception):
    """Values to be predicted that have lost digits, which the file has."""


def differences_of_counts(result):
    """Which counts a result states that it has no scores for, in words."""
    held = {np.shape(scores)[-1] for scores in result.repeats.values()} or {1}
    stated = [each.get("n_repeats", 1) for each in (result.parameters, result.options)]
    return [
        f"{said} repeats are asked for, and the file has scores of {max(held)}"
        for said in dict.fromkeys(map(repr, stated))
        if {said} != {*map(repr, held)}
    ]


def most_permutations(result):
    """How many permutations are drawn for a result, whatever it asks for.

    There may be fewer than asked for, and a rule of the folds may leave few of these;
    but a file may ask for any number.
    """
    return max(_FEW_PERMUTATIONS, 100 * (result.n_permutations + 1))


def _bounded(result, options):
    """Options with no more permutations than are drawn for a result."""
    asked, most = options.get("n_permutations"), most_permutations(result)
    if isinstance(asked, int) and asked > most:
        return options | {"n_permutations": most}
    return options


def incoherent(error):
    """What cannot be verified of a file that was edited."""
    return NotCovered(
        "what the file says of the analysis does not hold together "
        f"({type(error).__name__}: {error})"
    )


class Recomputation:
    """A result that is computed again, as far as there is time, and what it was of.

    Attributes
    ----------
    again : result
        The result, where it was not run as the file says it.
    apart : dict of str -> float
        How far inputs are from those recorded, where they are nearly the same.
    notes, unverified : list of str
        What to know of it, and what cannot be verified.
    reworded : set of str
        Recorded parameters that the same call has in other words.
    positions, task
        What was run.
    done : ndarray of bool, shape positions.shape
        Where it was run.
    extent : tuple of int
        At how many positions it was run, of how many.
    """

    def __init__(self, result, given, budget, rng):
        self.result, self.given, self.budget, self.rng = result, given, budget, rng
        self.apart, self.notes, self.unverified, self.reworded = {}, [], [], set()

    def compute(self, data, y):
        """Run the function that the file names."""
        result = self.result
        if different := differences_of_counts(result):
            raise Different(different)
        function, options = self._call()
        options = _bounded(result, options)
        try:
            with kept_inputs() as self._kept, warnings.catch_warnings():
                warnings.simplefilter("ignore")
                options = options | {"run_by": self}
                try:
                    self.again = function(data, y, **options)
                except _RoundedError:
                    self.again = function(data, np.asarray(result.y), **options)
        except OF_FILES as error:
            if not {"data", "y"} <= self._kept.keys():
                labels = inspect.signature(function).parameters["y"]
                if y is None and labels.default is labels.empty:
                    raise NotTaken(
                        f"The result was made by {function.__name__} of data and "
                        "labels: pass y, the labels that it was given, too."
                    ) from error
                raise NotTaken(
                    f"The result was made by {function.__name__}, which does not take "
                    f"{type(data).__name__} with these ({type(error).__name__}: "
                    f"{error}). Pass the same data to verify, by the same argument "
                    "names."
                ) from error
            if found := self._compare_inputs():
                raise Different(found) from error
            raise
        if self._summaries is not None:
            again = self._filled(self.again, ("penalty", "pattern_maps"))
            self.again = replace(again, **self._filled_summaries())

    # ------------------------------------------------------------------ what was called

    def _call(self):
        """The function that returned the result, and its options."""
        result, given = self.result, self.given
        if not result.inputs or not result.options:
            raise NotCovered(
                "it does not say of what data it was made (no decoding function "
                "returned it, or another result was made of it)"
            )
        name = result.inputs["function"]
        if name not in FUNCTIONS:
            raise NotCovered(f"results of {name} are not computed again")
        options = {k: v for k, v in result.options.items() if k not in OF_THE_RUN}
        known = [*inspect.signature(FUNCTIONS[name]).parameters][2:]
        if unknown := sorted({*options} - ({*known} - {*_DATA})):
            raise NotCovered(f"{', '.join(unknown)} are no options of {name}")
        said = recorded(options)
        for each in {*given} & {*said} & {*_GIVEN_AGAIN}:
            if recorded(given[each]) != said[each]:
                words = f"{each} is not the recorded one; pass the same {each}"
                raise NotCovered(words)
        named = {each for each in _OF_TRIALS if options.get(each) is not None}
        self.reworded |= named & {*given}
        options = {k: v for k, v in options.items() if k not in given}
        if "cv" in options:
            options["cv"] = self._folds(options["cv"])
        if "preprocess" in options:
            options["preprocess"] = _steps_of(options["preprocess"])
        for each, value in options.items():
            try:
                options |= revived({each: value})
            except ValueError:
                words = as_call(value) if is_record(value) else repr(value)
                raise NotCovered(
                    f"{each}={words} is not in the file; pass the same {each} again"
                ) from None
        if {"test_epochs", "X_test"} & {*given}:
            options["same_trials"] = result.parameters["cv"] is not None
        return FUNCTIONS[name], options | given

    def _folds(self, cv):
        """The folds that an option stands for; those in the file if nobody can tell."""
        result, record, splitter = self.result, recorded(cv), None
        parameters = result.parameters
        if cv is None:
            unnamed = result.groups is not None and parameters["cv"]
            named = result.options.get("groups") is not None
            return SPLITTERS["LeaveOneGroupOut"]() if unnamed and not named else None
        if isinstance(cv, int):
            return cv
        if isinstance(cv, list | tuple) and not is_record(cv[0][0]):
            return cv
        if is_record(record) and record["name"] in SPLITTERS:
            drawn = {name: value for name, value in record.items() if name != "name"}
            splitter, n = SPLITTERS[record["name"]](**drawn), len(result.y)
            n_splits = getattr(splitter, "n_splits", 0)
            if not n_splits and result.groups is None:
                n_splits = splitter.get_n_splits(np.zeros((n, 1)), result.y)
            if n_splits > _MOST_SPLITS * n:
                raise NotCovered(f"{splitter} makes {n_splits:,} splits of {n} trials")
            is_random = getattr(splitter, "shuffle", True) and "random_state" in record
            has_seeds = parameters.get("n_repeats", 1) > 1  # of its own
            if not is_random or record["random_state"] is not None or has_seeds:
                return splitter
        if parameters.get("average") is not None:
            raise NotCovered(
                "folds were given as a list, and averages drawn from them; pass the "
                "same cv again"
            )
        if parameters.get("folds_by_labels") and result.n_permutations:
            raise NotCovered("the splitter draws other folds every time")
        self.notes.append(
            "The folds are those that the file lists; the options do not say how they "
            "were drawn."
        )
        self.reworded.add("cv")
        everything, trains = np.arange(len(result.y)), result.trains
        if trains is None:
            trains = [np.setdiff1d(everything, test) for test in result.tests]
        return list(zip(trains, result.tests, strict=True))

    # ---------------------------------------------------------------------- its inputs

    def _compare_inputs(self):
        """Which inputs are other ones than those that are recorded, in words."""
        found = []
        for name, words in _INPUTS.items():
            said = self.result.inputs.get(name)
            values, seen = self._kept.get(name, (None, None))
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
                found += self._words_if_apart(name, words, values)
        return found

    def _words_if_apart(self, name, words, values):
        """What is said of an input, unless it is another one by rounding only."""
        projected = self.result.inputs.get(PROJECTIONS, {}).get(name)
        if name == "y" and self.result.parameters.get("task") == "regression":
            values, of_file = values.astype(float), np.asarray(self.result.y, float)
            apart = np.inf
            if of_file.shape == values.shape:  # tables of programs have some digits
                apart = np.sqrt(np.mean((values - of_file) ** 2)) / _spread(values)
        elif values.dtype.kind not in "biuf" or values.ndim < 2:
            return [f"{words} are other ones than those recorded"]
        elif np.shape(projected) != (len(values),):  # of an earlier version
            self.apart[name] = _rounding(values, np.float32)
            self.unverified.append(
                f"{words} are not those recorded, and the result does not say by how "
                "much they differ"
            )
            return []
        else:
            # Squared differences of sums are those of all values, in the mean.
            square = np.mean((projections(values) - projected) ** 2)
            apart = np.sqrt(square * len(values) / values.size) / _spread(values)
        size = f"about {apart:.1g} of their standard deviation"
        if not apart <= _MOST_APART:
            return [f"{words} are other ones than those recorded, and differ by {size}"]
        self.apart[name] = float(apart)
        single = np.array_equal(values, values.astype(np.float32))
        self.notes.append(
            f"{words[0].upper()}{words[1:]} differ from those recorded by {size}"
            f"{', as after saving in single precision' if single else ''}."
        )
        if name == "y":
            raise _RoundedError
        return []

    @property
    def other_ones(self):
        """What is said of inputs that are nearly the same, if nothing fits."""
        return [f"{_INPUTS[n]} are other ones than those recorded" for n in self.apart]

    def noise(self, sees_offsets):
        """By how much of their deviation features may differ from those decoded.

        For rounding alone, that of values far from 0 where it bears on anything.
        """
        data = (self._kept[n][0] for n in ("data", "data_test") if n in self._kept)
        own = max(_rounding(each, float) for each in data)
        counts = own > (1e-14 if sees_offsets else 1e-10)
        return max([own * counts, *(v for k, v in self.apart.items() if k != "y")])

    # ---------------------------------------------------------------------- it is run

    def __call__(self, positions, task, n_jobs, *_):
        """Run the block of the peak, and of the others as many as there is time for."""
        self._compare_run(positions, task)
        kept = self.result.parameters.get("null")
        if {kept, task.null} == {"full", "stream"}:  # as another version decides
            task = replace(task, null=kept)
            self.reworded.add("null")
        self.positions, self.task = positions, task
        blocks, began = self._ordered(positions.blocks()), monotonic()
        first = task.run_block(positions, blocks[0])
        took = (monotonic() - began) * len(blocks) / count_workers(n_jobs)
        is_short = self.budget is not None and len(blocks) > 1 and took > self.budget
        if is_short and task.null == "stream":  # which is made of all positions
            task = replace(task, null="max")
        if is_short and not hasattr(positions, "windows"):  # which share data
            cuts = np.cumsum([len(each) for each in blocks[1:]])[:-1]
            numbers = self.rng.permutation(np.concatenate(blocks[1:]))
            blocks[1:] = np.split(numbers, cuts)
        parts, shared = [reduce_part(first, task.null)], (positions, task)
        with closing(run_in_parallel(_part, shared, blocks[1:], n_jobs)) as others:
            for part in others:
                parts.append(part)
                if is_short and monotonic() - began > self.budget:
                    break
        store, run = MapStore(positions, blocks[: len(parts)], task), []
        for block, part in zip(blocks, parts, strict=False):
            store.add(block, part)
            run.extend(block)
        n, width = math.prod(positions.shape), math.prod(positions.row)
        self.done = np.isin(np.arange(n), run).reshape(positions.shape)
        self.extent = len(run) * width, sum(map(len, blocks)) * width
        filled = np.sort(np.concatenate(blocks))
        #: Which of the cells of summaries were run, (n_run,).
        self._among = np.flatnonzero(np.repeat(np.isin(filled, run), width))
        #: Scores under permuted labels (P, positions of the first block, cells).
        self._first, self._nulls = list(blocks[0]), first
        outcome, self._summaries = store.outcome(), None
        if len(parts) < len(blocks) or task is not self.task:
            kinds = "null_summaries", "second_summaries"
            self._summaries = {kind: getattr(outcome, kind) for kind in kinds}
            outcome = replace(outcome, **{kind: {} for kind in kinds})
            outcome = self._filled(outcome, MAPS.keys() - {"penalty"})
        return outcome

    def _compare_run(self, positions, task):
        """Raise what differs, or is missing, before anything is computed."""
        result = self.result
        if different := self._compare_inputs():
            raise Different(different)
        shape, stored = (*positions.shape, *positions.row), result.shape
        if shape != stored:
            sizes = [" x ".join(map(str, each)) or "1" for each in (stored, shape)]
            raise Different(
                [f"the map has {sizes[0]} positions, and should have {sizes[1]}"]
            )
        if "X_test" in self.given and "tmin_test" not in self.given:
            times, said = positions.test.windows.times, result.test_times
            if not np.allclose(times, said) and np.ptp(times - said) < 1e-9:
                raise NotCovered("tmin_test is not in the file; pass it again")
        n, held = len(task.labels) - 1, result.n_permutations
        if n != held:
            more = " or more" if n == most_permutations(result) else ""
            words = f"the file has {held} scores under permuted labels, and the options"
            raise Different([f"{words} make {n}{more}"])

    def _ordered(self, blocks):
        """The blocks in the order that they are run in, that of the peak first."""
        name = self.result.scalar_metrics[0]
        scores = np.asarray(self.result.metrics[name], float)
        apart = np.abs(scores - self.result.chances.get(name, 0.0))
        peak = np.nan_to_num(apart, nan=-1.0).argmax() // math.prod(self.positions.row)
        order = self.rng.permutation(len(blocks))
        return [blocks[i] for i in sorted(order, key=lambda i: peak not in blocks[i])]

    # ------------------------------------------------------------- what was not run

    def _filled(self, found, kinds):
        """An outcome, or a result, of which the file says what was not run."""
        new = {}
        for kind in kinds:
            maps, said = (getattr(each, kind, None) for each in (found, self.result))
            if kind == "second_scores":  # or those of the first test
                said = self.result.metrics | (said or {})
            if maps is None or said is None:
                continue
            is_dict = isinstance(maps, dict)
            maps, said = (maps, said) if is_dict else ({"": maps}, {"": said})
            filled = {}
            for name, values in maps.items():
                run = ~np.isnan(values)
                if kind in MAPS:
                    before = (1,) * MAPS[kind] + self.done.shape
                    after = np.ndim(values) - len(before)
                    run = self.done.reshape(before + (1,) * after)
                fits = np.shape(said.get(name)) == np.shape(values)
                filled[name] = np.where(run, values, said[name]) if fits else values
            new[kind] = filled if is_dict else filled[""]
        return replace(found, **new)

    def _filled_summaries(self):
        """What is kept of nulls, of the positions that were run."""
        new = {}
        for kind in (kind for kind, each in self._summaries.items() if each):
            new[kind] = {}
            for name, part in self._summaries[kind].items():
                summary = dict(getattr(self.result, kind)[name])
                for what in ("exceedances", "permuted_moments"):
                    values, run = np.array(summary[what]), getattr(part, what)
                    cells = values.reshape(*np.shape(run)[:-1], -1)
                    cells[..., self._among] = run.reshape(*cells.shape[:-1], -1)
                    summary[what] = values
                # The largest of some positions are no larger than those of all.
                summary["maximum"] = np.fmax(summary["maximum"], part.maximum)
                new[kind][name] = summary
            self.unverified.append(
                f"the largest scores of the permutations ({kind}) are of all "
                "positions, which budget=None computes"
            )
        return new

    def number(self, position):
        """The number of the position that a cell of the map is of."""
        shape = self.positions.shape
        return int(np.ravel_multi_index(position[: len(shape)], shape)) if shape else 0

    def permuted(self, name, position, b, second=False):
        """The score of a cell under permuted labels, None where it is not known.

        As the file says it; where it holds none, as of the positions run first.
        """
        nulls = self.result.second_nulls if second else self.result.nulls
        if name in nulls:
            return nulls[name][b - 1][position]
        if (number := self.number(position)) not in self._first:
            return None
        values = self._nulls[f"{'second' if second else 'nulls'}/{name}"][b - 1]
        values = values.reshape(len(self._first), -1)[self._first.index(number)]
        return values[position[-1] if self.positions.row else 0]


def _part(positions, task, block):
    """What is kept of the positions of a block."""
    return reduce_part(task.run_block(positions, block), task.null)


def _steps_of(steps):
    """Steps with objects in the place of records; texts and objects as they are."""
    if isinstance(steps, list | tuple):
        return [_steps_of(each) for each in steps]
    if not is_record(steps):
        return steps
    given = {name: v for name, v in steps.items() if name not in ("name", "n_jobs")}
    try:
        if not any(isinstance(value, dict) for value in given.values()):
            return _STEPS[steps["name"]](**given)
    except (KeyError, TypeError):  # another class, or arguments that it does not have
        pass
    raise NotCovered(f"the step {as_call(steps)} is not in the file")


def _spread(values):
    """The standard deviation of values (n, ...) over trials, of all features."""
    return np.sqrt(np.mean(np.var(values, axis=0, dtype=float)))


def _rounding(values, dtype):
    """How far values are from others that a floating type rounds to them."""
    size = np.sqrt(np.mean(np.square(values, dtype=float)))
    return float(np.finfo(dtype).eps * size / _spread(values))


def recompute_group(group, results, **more):
    """The result of a group again, from those of its subjects in its order."""
    options = _bounded(group, group.procedure)
    known = {*inspect.signature(group_inference).parameters} - {"results"}
    of_data = {"other", "subjects"}
    if unknown := sorted({*options} - (known - of_data)):
        raise NotCovered(f"{', '.join(unknown)} are no options of group_inference")
    n = len(group.subjects)
    if len(results) > n:
        more = more | {"other": results[n:]}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        again = group_inference(results[:n], **options, **more, subjects=group.subjects)
    if again.other_subjects is None or group.other_subjects is None:
        return again
    # Files that were called otherwise have other names.
    names = dict(zip(again.other_subjects, group.other_subjects, strict=True))
    fields = ("subject_warnings", "parameters", "warnings")
    new = {name: _renamed(getattr(again, name), names) for name in fields}
    return replace(again, **new | {"other_subjects": group.other_subjects})


def _renamed(value, names):
    """Texts, also those in lists and dicts, with other names."""
    if isinstance(value, str):
        for old, new in names.items():
            value = value.replace(str(old), str(new))
    elif isinstance(value, dict):
        return {key: _renamed(each, names) for key, each in value.items()}
    elif isinstance(value, list | tuple):
        return type(value)(_renamed(each, names) for each in value)
    return value
