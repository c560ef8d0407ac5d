"""A result computed again by the package, from the data and what its file records.

A file is not trusted: it names one of the functions here, and options of that function
that neither run anything nor write; counts are bounded by what the file holds.
"""

import inspect
import math
import warnings
from contextlib import closing
from dataclasses import dataclass, field, replace
from time import monotonic

import numpy as np
from sklearn import decomposition, feature_selection, preprocessing

from ..decoding import analysis, epochs, images
from ..decoding.run import MapStore, reduce_part
from ..group.second_level import group_inference
from ..results.procedure import SPLITTERS, revived
from ..utils.fingerprints import PROJECTIONS, kept_inputs
from ..utils.parallel import count_workers, run_in_parallel
from ..utils.plain import as_call, is_record, recorded
from .distance import distance, rounding, spread

#: The functions that a file may name.
FUNCTIONS = {
    each.__name__: each
    for each in (
        *(analysis.cross_validate, analysis.regress, epochs.decode_arrays),
        *(epochs.decode_epochs, epochs.decode_sources, images.searchlight),
        *(images.decode_regions, epochs.generalize_arrays),
        epochs.generalize_epochs,
    )
}
#: The transformers of scikit-learn that can be steps, by the names of their classes.
_STEPS = {
    name: each
    for module in (preprocessing, decomposition, feature_selection)
    for name, each in vars(module).items()
    if name in module.__all__ and inspect.isclass(each) and hasattr(each, "transform")
}
#: What no file decides.
_OF_THE_RUN = ("n_jobs", "verbose", "checkpoint")
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


def bounded(result, options):
    """Options with no more permutations than are drawn for a result."""
    asked, most = options.get("n_permutations"), most_permutations(result)
    if isinstance(asked, int) and asked > most:
        return options | {"n_permutations": most}
    return options


# ---------------------------------------------------------------------- its options


@dataclass
class Call:
    """What a result says that was called, and what is known of it."""

    result: object
    function: object
    options: dict
    notes: list = field(default_factory=list)
    #: Names of recorded parameters that other words of the same call have changed.
    reworded: set = field(default_factory=set)


def call_of(result, given):
    """The `Call` that returned a result, with what is `given` again."""
    if not result.inputs or not result.options:
        raise NotCovered(
            "it does not say of what data it was made (no decoding function returned "
            "it, or another result was made of it)"
        )
    name = result.inputs["function"]
    if name not in FUNCTIONS:
        raise NotCovered(f"results of {name} are not computed again")
    function = FUNCTIONS[name]
    call = Call(result, function, {})
    options = {k: v for k, v in result.options.items() if k not in _OF_THE_RUN}
    known = [*inspect.signature(function).parameters][2:]
    if unknown := sorted({*options} - ({*known} - {*_DATA})):
        raise NotCovered(f"{', '.join(unknown)} are no options of {name}")
    said = recorded(options)
    for each in _GIVEN_AGAIN:
        if each in given and each in said and recorded(given[each]) != said[each]:
            raise NotCovered(f"{each} is not the recorded one; pass the same {each}")
    named = [each for each in _OF_TRIALS if options.get(each) is not None]
    call.reworded = {*named} & {*given}
    options = {k: v for k, v in options.items() if k not in given}
    if "cv" in options:
        options["cv"] = _folds_of(call, options["cv"])
    if options.get("preprocess") is not None:
        options["preprocess"] = _steps_of(options["preprocess"])
    for each, value in options.items():
        try:
            call.options |= revived({each: value})
        except ValueError:
            words = as_call(value) if is_record(value) else repr(value)
            raise NotCovered(
                f"{each}={words} is not in the file; pass the same {each} again"
            ) from None
    if {"test_epochs", "X_test"} & {*given} and "same_trials" not in given:
        call.options["same_trials"] = result.parameters["cv"] is not None
    call.options |= given
    return call


def _folds_of(call, cv):
    """The folds that an option stands for; those in the file where nobody can tell."""
    result, record = call.result, recorded(cv)
    if cv is None:
        unnamed = result.groups is not None and result.parameters["cv"]
        named = result.options.get("groups") is not None
        return SPLITTERS["LeaveOneGroupOut"]() if unnamed and not named else None
    if isinstance(cv, list | tuple) and not is_record(cv[0][0]):
        return cv
    splitter = None
    if is_record(record) and record["name"] in SPLITTERS:
        given = {name: value for name, value in record.items() if name != "name"}
        splitter = SPLITTERS[record["name"]](**given)
        n = len(result.y)
        n_splits = getattr(splitter, "n_splits", 0)
        if not n_splits and result.groups is None:
            n_splits = splitter.get_n_splits(np.zeros((n, 1)), result.y)
        if n_splits > _MOST_SPLITS * n:
            raise NotCovered(f"{splitter} makes {n_splits:,} splits of {n} trials")
        is_random = getattr(splitter, "shuffle", True) and "random_state" in record
        if not is_random or record["random_state"] is not None:
            return splitter
    elif isinstance(cv, int):
        return cv
    parameters = result.parameters
    if parameters.get("n_repeats", 1) > 1 and splitter is not None:
        return splitter  # which gets seeds of its own
    if parameters.get("average") is not None:
        raise NotCovered(
            "folds were given as a list, and averages drawn from them; pass the same "
            "cv again"
        )
    if parameters.get("folds_by_labels") and result.n_permutations:
        raise NotCovered("the splitter draws other folds every time")
    call.notes.append(
        "The folds are those that the file lists; the options do not say how they were "
        "drawn."
    )
    call.reworded.add("cv")
    everything, trains = np.arange(len(result.y)), result.trains
    if trains is None:
        trains = [np.setdiff1d(everything, test) for test in result.tests]
    return list(zip(trains, result.tests, strict=True))


def _steps_of(steps):
    """Steps with objects in the place of records; texts and objects as they are."""
    if isinstance(steps, list | tuple):
        return [_steps_of(each) for each in steps]
    if not is_record(steps):
        return steps
    step = step_of(steps)
    if step is None:
        raise NotCovered(f"the step {as_call(steps)} is not in the file")
    return step


def step_of(record, seed=None):
    """The transformer of scikit-learn that a record is of; None if of none."""
    given = {name: v for name, v in record.items() if name not in ("name", "n_jobs")}
    if record["name"] not in _STEPS or any(isinstance(v, dict) for v in given.values()):
        return None
    if given.get("random_state", 0) is None:
        given["random_state"] = seed
    try:
        return _STEPS[record["name"]](**given)
    except TypeError:  # arguments that it does not have
        return None


# ----------------------------------------------------------------------- its inputs


@dataclass
class Inputs:
    """What was read, beside what is recorded of it."""

    result: object
    #: Name -> values and their record.
    kept: dict
    #: How far inputs are from those recorded, where they are nearly the same.
    apart: dict = field(default_factory=dict)
    notes: list = field(default_factory=list)
    unverified: list = field(default_factory=list)

    def compare(self):
        """Which inputs are other ones than those that are recorded, in words."""
        found = []
        for name, words in _INPUTS.items():
            said = self.result.inputs.get(name)
            values, seen = self.kept.get(name, (None, None))
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
        if name == "y" and self.result.parameters.get("task") == "regression":
            values, of_file = values.astype(float), np.asarray(self.result.y, float)
            apart = np.inf
            if of_file.shape == values.shape:  # tables of programs have some digits
                apart = np.sqrt(np.mean((values - of_file) ** 2)) / spread(values)
        elif values.dtype.kind in "biuf" and values.ndim > 1:
            apart = distance(values, self.result.inputs.get(PROJECTIONS, {}).get(name))
        else:
            return [f"{words} are other ones than those recorded"]
        if apart is None:  # of an earlier version
            self.apart[name] = rounding(values, np.float32)
            self.unverified.append(
                f"{words} are not those recorded, and the result does not say by how "
                "much they differ"
            )
            return []
        size = f"about {apart:.1g} of their standard deviation"
        if not apart <= _MOST_APART:
            return [f"{words} are other ones than those recorded, and differ by {size}"]
        self.apart[name] = float(apart)
        single = np.array_equal(values, values.astype(np.float32))
        self.notes.append(
            f"{words[0].upper()}{words[1:]} differ from those recorded by {size}"
            f"{', as after saving in single precision' if single else ''}."
        )
        return []

    def blamed(self, error):
        """What an error is due to: other inputs, or else the file."""
        try:
            found = self.compare()
        except OF_FILES as wrong:
            return NotCovered(incoherent(wrong))
        return Different(found) if found else NotCovered(incoherent(error))

    @property
    def other_ones(self):
        """What is said of inputs that are nearly the same, if nothing fits."""
        return [f"{_INPUTS[n]} are other ones than those recorded" for n in self.apart]

    def noise(self, sees_offsets):
        """By how much of their deviation features may differ from those decoded.

        For rounding alone, that of values far from 0 where it bears on anything.
        """
        data = (self.kept[n][0] for n in ("data", "data_test") if n in self.kept)
        own = max(rounding(each, float) for each in data)
        counts = own > (1e-14 if sees_offsets else 1e-10)
        return max([own * counts, *(v for k, v in self.apart.items() if k != "y")])


# ------------------------------------------------------------------------ it is run


@dataclass
class Runner:
    """Runs an analysis, as long as there is time, and keeps what it was of."""

    result: object
    inputs: Inputs
    budget: float | None
    rng: np.random.Generator
    #: What the function is given beside the recorded options.
    given: dict
    positions: object = None
    task: object = None
    #: Which positions were run (*shape,), and whether all that have features.
    done: np.ndarray | None = None
    is_complete: bool = False
    #: How many were run, of how many.
    extent: tuple = (0, 0)
    #: Scores under permuted labels (P, cells) of positions, where files hold none.
    nulls: dict = field(default_factory=dict)
    #: What was kept of the nulls of some positions only, by kind.
    part: dict = field(default_factory=dict)
    #: Which of the cells that have features were run.
    among: np.ndarray | None = None
    #: Names of parameters that this run records otherwise.
    reworded: set = field(default_factory=set)

    def __call__(self, positions, task, n_jobs, *_):
        """Run the block of the peak, and of the others as many as there is time for."""
        if different := self.inputs.compare():
            raise Different(different)
        if "y" in self.inputs.apart and self.task is None:
            self.positions, self.task = positions, task
            raise _RoundedError
        shape, stored = (*positions.shape, *positions.row), self.result.shape
        if shape != stored:
            sizes = [" x ".join(map(str, each)) or "1" for each in (stored, shape)]
            raise Different(
                [f"the map has {sizes[0]} positions, and should have {sizes[1]}"]
            )
        if "X_test" in self.given and "tmin_test" not in self.given:
            times, said = positions.test.windows.times, self.result.test_times
            if not np.allclose(times, said) and np.ptp(times - said) < 1e-9:
                raise NotCovered("tmin_test is not in the file; pass it again")
        n, held = len(task.labels) - 1, self.result.n_permutations
        if n != held:
            more = " or more" if n == most_permutations(self.result) else ""
            words = f"the file has {held} scores under permuted labels, and the options"
            raise Different([f"{words} make {n}{more}"])
        kept = self.result.parameters.get("null")
        if {kept, task.null} == {"full", "stream"}:  # as another version decides
            task, self.reworded = replace(task, null=kept), {"null"}
        self.positions, self.task = positions, task
        return self._run(self._ordered(positions.blocks()), n_jobs)

    def _ordered(self, blocks):
        """The blocks in the order that they are run in, that of the peak first."""
        name = self.result.scalar_metrics[0]
        scores = np.asarray(self.result.metrics[name], float)
        apart = np.abs(scores - self.result.chances.get(name, 0.0))
        apart = apart.reshape(math.prod(self.positions.shape), -1)
        apart = np.nan_to_num(apart, nan=-1.0).max(axis=1)
        first = max(
            range(len(blocks)), key=lambda i: apart[np.asarray(blocks[i])].max()
        )
        others = [i for i in self.rng.permutation(len(blocks)) if i != first]
        return [blocks[i] for i in (first, *others)]

    def _run(self, blocks, n_jobs):
        """The outcome of as many blocks as there is time for."""
        task, began = self.task, monotonic()

        def parts_of(some, n_jobs):
            shared = self.positions, task, blocks[:2]
            return run_in_parallel(_run_block, shared, some, n_jobs)

        parts = [*parts_of(blocks[:1], 1)]
        took = (monotonic() - began) * len(blocks) / count_workers(n_jobs)
        is_short = self.budget is None or len(blocks) == 1 or took <= self.budget
        if not is_short:
            if task.null == "stream":  # which is made of all positions
                task = replace(task, null="max")
                parts = [*parts_of(blocks[:1], 1)]
            if not hasattr(self.positions, "windows"):  # those of windows share data
                cuts = np.cumsum([len(each) for each in blocks[1:]])[:-1]
                numbers = self.rng.permutation(np.concatenate(blocks[1:]))
                blocks[1:] = np.split(numbers, cuts)
        with closing(parts_of(blocks[1:], n_jobs)) as others:
            for part in others:
                parts.append(part)
                if not is_short and monotonic() - began > self.budget:
                    break
        self.is_complete = len(parts) == len(blocks) and task is self.task
        return self._outcome(blocks, parts, task)

    def _outcome(self, blocks, parts, task):
        """The outcome of the blocks that were run."""
        run = blocks[: len(parts)]
        store = MapStore(self.positions, run, task)
        self.done = np.zeros(math.prod(self.positions.shape), bool)
        for block, (part, nulls) in zip(run, parts, strict=True):
            store.add(block, part)
            self.done[np.asarray(block)] = True
            if nulls is not None and task.null not in ("all", "full"):
                self.nulls |= _by_position(block, nulls)
        n = sum(map(len, blocks))
        width = math.prod(self.positions.row)
        self.extent = int(self.done.sum()) * width, n * width
        filled = self._cells(np.sort(np.concatenate(blocks)))
        run = self._cells(np.flatnonzero(self.done))
        self.among = np.searchsorted(filled, run)
        self.done = self.done.reshape(self.positions.shape)
        outcome = store.outcome()
        if self.is_complete:
            return outcome
        kinds = "null_summaries", "second_summaries"
        self.part = {kind: getattr(outcome, kind) for kind in kinds}
        outcome = replace(outcome, **{kind: {} for kind in kinds})
        return self.filled(outcome, MAPS.keys() - {"penalty"})

    def filled(self, outcome, kinds):
        """An outcome, or a result, with what the file says of positions not run."""
        row, done, new = self.positions.row, self.done, {}
        width = [1] * len(row)
        every = np.broadcast_to(done.reshape(*done.shape, *width), self.result.shape)
        for kind in kinds:
            found, said = (getattr(each, kind, None) for each in (outcome, self.result))
            if kind == "second_scores":
                said = self.result.metrics | (said or {})
            if found is None or said is None:
                continue
            maps = dict(found) if isinstance(found, dict) else {"": found}
            said = said if isinstance(found, dict) else {"": said}
            for name, values in maps.items():
                if np.shape(said.get(name)) != np.shape(values):
                    continue
                left = ~(done if kind in ("penalty", "class_scores") else every)
                left = (slice(None),) * MAPS.get(kind, 0) + (left,)
                if kind == "pattern_maps":
                    left = np.isnan(values)
                maps[name] = np.array(values)
                maps[name][left] = np.asarray(said[name])[left]
            new[kind] = maps if isinstance(found, dict) else maps[""]
        return replace(outcome, **new)

    def _cells(self, numbers):
        """The numbers of the cells that some positions fill."""
        width = math.prod(self.positions.row)
        return np.add.outer(numbers * width, np.arange(width)).ravel()


def _run_block(positions, task, kept, block):
    """The part of some positions, and the whole nulls of those blocks that are kept."""
    part, nulls = task.run_block(positions, block), None
    if any(each is block or np.array_equal(each, block) for each in kept):
        kinds = "nulls", "second"
        nulls = {k: v for k, v in part.items() if k.partition("/")[0] in kinds}
    return reduce_part(part, task.null), nulls


def _by_position(block, nulls):
    """Scores under permuted labels (P, cells) by kind and name, of each position."""
    found = {}
    for i, position in enumerate(block):
        for key, values in nulls.items():
            width = values.shape[1] // len(block)
            kept = found.setdefault(int(position), {})
            kept[key] = values[:, i * width : (i + 1) * width]
    return found


def recompute(result, data, y, given, budget, rng):
    """The result again, as far as there was time: (result, `Runner`, `Call`)."""
    with kept_inputs() as kept:
        inputs = Inputs(result, kept)
        runner = Runner(result, inputs, budget, rng, given)
        try:
            if different := differences_of_counts(result):
                raise Different(different)
            call = call_of(result, given)
            options = bounded(result, call.options)
        except OF_FILES as error:
            raise NotCovered(incoherent(error)) from error
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                options = options | {"run_by": runner}
                try:
                    again = call.function(data, y, **options)
                except _RoundedError:
                    again = call.function(data, np.asarray(result.y), **options)
        except OF_FILES as error:
            if "data" in kept and "y" in kept:
                raise inputs.blamed(error) from error
            raise ValueError(
                f"The result was made by {call.function.__name__}, which does not take "
                f"{type(data).__name__} with these ({type(error).__name__}: {error}). "
                "Pass the same data to verify, by the same argument names."
            ) from error
    return again, runner, call


def incoherent(error):
    """What is said of a file that was edited."""
    return (
        "what the file says of the analysis does not hold together "
        f"({type(error).__name__}: {error})"
    )


def recompute_group(group, results, **more):
    """The result of a group again, from those of its subjects in its order."""
    options = bounded(group, group.procedure)
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
