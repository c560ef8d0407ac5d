r"""Procedures that are repeated: trials grouped anew, or folds drawn anew, r times.

A score is then the mean over repeats, and so is every permuted one. Repeats of the same
trials share them: they differ less than independent data would. A null is right only if
its means do so too. So a permutation moves the labels of *trials*, once for all of its
repeats, and the whole procedure runs on what comes out of it, all regroupings included.

- :class:`Regrouped`: trials of a test set (and group) are grouped at random within
  classes. Labels move within test sets and groups, so that every labelling has the same
  number of averages of each class there; only who is averaged differs.
- :class:`Reshuffled`: a splitter draws other folds in every repeat. One that looks at
  labels is shown the permuted ones, as it was shown the observed ones, be it for one
  repeat only.
"""

from copy import copy
from dataclasses import dataclass, fields, replace
from functools import cached_property
from itertools import product
from sys import getsizeof

import numpy as np

from ..kfda.direct import Plan, prepare_sorted
from ..kfda.folds import Folds, make_folds
from ..kfda.models import Stack
from ..kfda.penalties import MOST_OF_SECOND
from ..metrics.classes import METRICS
from .averaging import Cells, Grouping, folds_of_averages
from .grouped import BlockHats, GramPositions
from .run import Task, models_of, score_models

#: Bytes of groupings that are kept, so that they are not drawn anew in every block.
_DRAWN_BYTES = 2**25
#: Bytes that the matrices of several repeats may take, to be handled together.
_MATRIX_BYTES = 2**24


@dataclass(frozen=True, kw_only=True)
class RepeatedTask(Task):
    """What is asked at every position, several times over."""

    #: The procedure once, for the samples of one repeat.
    single: Task
    #: How it is repeated.
    repeats: object

    @property
    def n_folds(self):
        """The number of folds, in one repeat."""
        return self.single.n_folds

    def run_block(self, positions, block):
        """Decode the positions of one block; return its part, with whole nulls."""
        return self.repeats.run_block(self, positions, block)


def _repeated(repeats, single, labels, samples):
    """Return the task of a procedure that is repeated."""
    own = {each.name: getattr(single, each.name) for each in fields(Task)}
    own |= {"labels": labels, "folds": samples.folds}
    return RepeatedTask(**own, single=single, repeats=repeats)


@dataclass(frozen=True, eq=False)
class Regrouped:
    """Trials averaged within test sets (and groups), grouped anew r times.

    Attributes
    ----------
    n_repeats : int
        How often, r.
    cells : Cells
        How many trials there are to be averaged where.
    labels : ndarray of int, shape (P + 1, n)
        The classes of the trials, observed and permuted.
    seed : int
        Of the random order of trials.
    folds : Folds
        Of the trials.
    groups : ndarray, shape (n,) | None
        Of the trials.
    average_test : bool
        Whether averages are tested, or single trials.
    """

    n_repeats: int
    cells: Cells
    labels: np.ndarray
    seed: int
    folds: Folds
    groups: np.ndarray | None
    average_test: bool = True

    @property
    def sampled(self):
        """Labels (1, m), folds, classes and groups of the samples of a repeat."""
        sides, codes = self.sides(0, 0)
        folds = self.sample_folds(two_sided=not self.average_test)
        groups = None
        if self.groups is not None:
            groups = self.groups[np.concatenate([side[:, 0] for side in sides])]
        return codes[None], folds, codes, groups

    def tasks(self, single, inner):
        """Return the task of all repeats, of the task of one, and the `Samples`."""
        r, (_, folds, codes, groups) = self.n_repeats, self.sampled
        members = [self.members(0, j) for j in range(r)]
        all_folds = [folds] * r
        if not self.average_test:
            codes, groups = self.labels[0], self.groups
            all_folds = [self._tested_singly(each) for each in members]
            members = None
        several = None if groups is None else [groups] * r
        samples = join_samples([codes] * r, several, all_folds, members)
        return _repeated(self, single, self.labels, samples), samples

    @cached_property
    def _slots(self):
        return self.cells.slots()

    def members(self, b, j):
        """Return the trials of every average (m, k), in repeat j of label vector b."""
        members = self._drawn.get((b, j))
        if members is None:
            key = np.random.SeedSequence(self.seed, spawn_key=(2, b, j))
            order = self.cells.draw(self.labels[b], np.random.default_rng(key))
            members = order[self._slots]
            if (len(self._drawn) + 1) * members.nbytes <= _DRAWN_BYTES:
                self._drawn[b, j] = members
        return members

    @cached_property
    def _drawn(self):
        """What was drawn for one block of positions, kept for the others."""
        return {}

    @cached_property
    def codes(self):
        """The classes of the averages (m,), the same whatever the labelling."""
        return self.labels[0][self.members(0, 0)[:, 0]]

    @property
    def k(self):
        """How many trials make an average."""
        return self.cells.k

    @property
    def n_averages(self):
        """The number of averages m."""
        return len(self._slots)

    def sample_folds(self, two_sided):
        """Return the folds of a repeat's samples.

        These are averages, or where it is `two_sided` averages to train with, and
        behind them those to be tested.
        """
        members = self.members(0, 0)
        folds = folds_of_averages(self.folds, members[:, 0])
        if not two_sided:
            return folds
        tests = self.folds if not self.average_test else folds
        m = self.n_averages
        trained = np.ones(m, bool) if folds.chosen is None else folds.chosen
        return replace(
            folds,
            tests=tuple(m + test for test in tests.tests),
            n=m + tests.n,
            trains=tuple(train for train, _ in folds.pairs),
            chosen=np.append(trained, np.zeros(tests.n, bool)),
        )

    def _tested_singly(self, members):
        """Return the folds of the trials, trained with those in some average."""
        trains = [train for train, _ in self.sample_folds(two_sided=False).pairs]
        trains = tuple(np.sort(members[train], axis=None) for train in trains)
        return replace(self.folds, trains=trains)

    def sides(self, b, j, tested_as=None):
        """Return the trials of all samples of a repeat, and the samples' classes.

        Tested averages may be those of another label vector.
        """
        trained = self.members(b, j)
        if not self.average_test:
            singles = np.arange(self.folds.n)[:, np.newaxis]
            tested = self.labels[b if tested_as is None else tested_as]
            return (trained, singles), np.append(self.codes, tested)
        if tested_as is None:
            return (trained,), self.codes
        return (trained, self.members(tested_as, j)), np.tile(self.codes, 2)

    def run_block(self, task, positions, block):
        """Decode the positions of one block; return its part, with whole nulls."""
        parts, with_patterns = [], task.single.with_patterns
        observed = GramPositions.of(positions, block, task.single, with_patterns)
        for j in range(self.n_repeats):
            single, grouping = self._single(task.single, 0, j)
            part = single.run_block(observed.grouped(grouping, block), block)
            parts.append(self._of_tested(part))
        part = _mean_of(parts)
        if self.n_repeats > 1:  # every repeat has discriminants of its own
            part.pop("patterns/discriminant", None)
        if len(self.labels) > 1:
            part |= self._nulls(task, positions, block)
        return part

    def _nulls(self, task, positions, block):
        """Return the nulls of one block, mean scores (P, cells) over repeats."""
        single = task.single
        means = self._means(single, positions, block, range(1, len(self.labels)))
        found = {f"nulls/{name}": values for name, values in means.items()}
        if task.second is not None:
            single = replace(single, at_most=MOST_OF_SECOND)
            means = self._means(single, positions, block, range(len(self.labels)), 0)
            for name, values in means.items():
                found |= {f"second_scores/{name}": values[0]}
                found |= {f"second/{name}": values[1:]}
        return found

    def _means(self, single, positions, block, numbers, tested_as=None):
        """Return mean scores (., cells) over repeats of some label vectors, by name."""
        positions = GramPositions.of(positions, block, single)
        hats = BlockHats.of(positions, block, single)
        step = self._n_together(single, positions, block, hats)
        pairs, how = list(product(numbers, range(self.n_repeats))), (hats, tested_as)
        scores = [
            self._scores(pairs[start : start + step], single, positions, block, *how)
            for start in range(0, len(pairs), step)
        ]
        found = {}
        for name in scores[0]:
            values = np.concatenate([each[name] for each in scores])
            values = values.reshape(-1, self.n_repeats, values.shape[1])
            found[name] = values.mean(axis=1)
        return found

    def _n_together(self, single, positions, block, hats):
        """Return how many repeats of label vectors to handle at a time, by memory."""
        if positions.row:
            return 1  # their models hold what they are tested with
        if hats is None:
            n_bytes = 16 * single.folds.n**2 * len(block)
            return int(np.clip(_MATRIX_BYTES // n_bytes, 1, self.n_repeats))
        return max(1, _MATRIX_BYTES // hats.n_bytes(single.folds))

    def _scores(self, pairs, single, positions, block, hats, tested_as):
        """Return the scores (pairs, cells) of pairs of a label vector and a repeat."""
        models, task = None, replace(single, labels=self.codes[None])
        if hats is not None:
            layout = task.folds.layout
            members = np.stack([self.members(*pair) for pair in pairs])
            models = _stack(
                lambda: hats.of_averages(members, layout.order), layout, task
            )
        if models is None:
            models = []
            for pair in pairs:
                task, each = self._regrouped(single, pair, positions, block, tested_as)
                models += models_of(each, block, task)
        return _of_repeats(models, task, len(pairs))[0]

    def _regrouped(self, single, pair, positions, block, tested_as):
        """Return the task and the positions of one repeat of a label vector."""
        # Averages that are tested elsewhere take the places of those trained with, fold
        # by fold; only what folds learn needs to know both.
        both = tested_as if single.is_foldwise else None
        task, grouping = self._single(single, *pair, both)
        tested = {}
        if tested_as is not None and both is None:
            tested = {"tested": Grouping((self.members(tested_as, pair[1]),))}
        return task, positions.grouped(grouping, block, **tested)

    def _single(self, single, b, j, tested_as=None):
        """Return the task of one repeat of a label vector, and its grouping."""
        sides, codes = self.sides(b, j, tested_as)
        grouping = Grouping(sides)
        folds = single.folds
        if tested_as is not None:
            folds = self.sample_folds(two_sided=True)
        learned = single.learned.averaged(grouping)
        task = replace(single, labels=codes[None], folds=folds, learned=learned)
        return task, grouping

    def _of_tested(self, part):
        """Return a part with the predictions of tested samples only."""
        if self.average_test:
            return part
        tested = slice(self.n_averages, None)
        return {
            key: values[:, tested] if key in ("predicted", "class_scores") else values
            for key, values in part.items()
        }


@dataclass(frozen=True, eq=False)
class Reshuffled:
    """Folds of the same trials, drawn anew r times.

    Attributes
    ----------
    draws : tuple of callable
        ``draw(labels)``: the folds for labels (n,), one of these for every repeat.
    labels : ndarray of int, shape (P + 1, n)
        The classes of the trials, observed and permuted.
    groups : ndarray, shape (n,) | None
        What the splitters are given as groups.
    singles : tuple of Task
        The task of every repeat, with all labels, or if splitters look at the labels
        with the observed ones only.
    inner : callable | None
        ``inner(codes, groups, folds)``: the folds within the training sets.
    """

    draws: tuple
    labels: np.ndarray
    groups: np.ndarray | None
    singles: tuple = ()
    inner: object = None

    @cached_property
    def folds(self):
        """The folds of every repeat, of the observed labels."""
        return [draw(self.labels[0]) for draw in self.draws]

    @property
    def sees_labels(self):
        """Whether other labels have other folds."""
        alike = [getattr(draw, "are_alike", False) for draw in self.draws]
        sees = [folds.sees_labels is not False for folds in self.folds]
        return bool((np.array(sees) & ~np.array(alike)).any())

    @property
    def sampled(self):
        """Labels (., n), folds, classes and groups of the trials in a repeat."""
        labels = self.labels[:1] if self.sees_labels else self.labels
        return labels, self.folds[0], self.labels[0], self.groups

    def tasks(self, single, inner):
        """Return the task of all repeats, of the task of one, and the `Samples`."""
        singles = []
        for folds in self.folds:
            within = inner(self.labels[0], self.groups, folds)
            singles.append(replace(single, folds=folds, inner=within))
        samples = Samples(self.labels[0], self.groups, self.folds[0])
        r = len(self.folds)
        if r > 1:
            groups = None if self.groups is None else [self.groups] * r
            samples = join_samples([self.labels[0]] * r, groups, self.folds)
        repeats = replace(self, singles=tuple(singles), inner=inner)
        return _repeated(repeats, single, self.labels, samples), samples

    def run_block(self, task, positions, block):
        """Decode the positions of one block; return its part, with whole nulls."""
        second = None if task.second is None else self.labels[:1]
        singles = [replace(single, second=second) for single in self.singles]
        parts = [single.run_block(positions, block) for single in singles]
        part = parts[0] if len(parts) == 1 else _mean_of(parts)
        if len(singles[0].labels) == len(self.labels):
            return part
        hats = BlockHats.of(positions, block, singles[0])
        found = [
            self._scores(singles, b, positions, block, hats)
            for b in range(1, len(self.labels))
        ]
        for number, kind in enumerate(("nulls", "second")[: len(found[0])]):
            for name in found[0][number]:
                part[f"{kind}/{name}"] = np.stack([e[number][name] for e in found])
        return part

    def _scores(self, singles, b, positions, block, hats):
        """Return a list of mean scores (cells,) over repeats, of permuted labels."""
        found = []
        for j, single in enumerate(singles):
            labels, folds = self.labels[b], self._redrawn(b, j)
            within = self.inner(labels, self.groups, folds)
            task = replace(single, labels=labels[None], folds=folds, inner=within)
            models = None
            if hats is not None and hats.serve(folds):
                order = folds.layout.order
                models = _stack(
                    lambda order=order: [each.reordered(order) for each in hats.alone],
                    folds.layout,
                    task,
                )
            if models is None:
                models = models_of(positions, block, task)
            found.append(_of_repeats(list(models), task))
        return [
            {
                name: np.mean([each[name][0] for each in kind], axis=0)
                for name in kind[0]
            }
            for kind in zip(*found, strict=True)
        ]

    def _redrawn(self, b, j):
        """Return the folds of repeat j that a permuted label vector has."""
        folds = self._drawn.get((b, j))
        if folds is None:
            folds = self.draws[j](self.labels[b])
            n_bytes = sum(map(getsizeof, folds.tests))
            if (len(self._drawn) + 1) * n_bytes <= _DRAWN_BYTES:
                self._drawn[b, j] = folds
        return replace(folds)  # without the layout that it will have, which is larger

    @cached_property
    def _drawn(self):
        """What was drawn for one block of positions, kept for the others."""
        return {}


def _stack(hats, layout, task):
    """Return the one model of hats in the layout's order, made here; None if any fails.

    It is for the task's single label vector.
    """
    try:
        plans = prepare_sorted(hats(), layout, task.dtype, task.rank)
    except ValueError:  # one by one they say where it is
        return None
    return [Stack(tuple(plans))]


def _of_repeats(models, task, n_repeats=1):
    """Return a list of the scores (n_repeats, cells) of models, repeat after repeat."""
    plans = [each for model in models for each in getattr(model, "plans", (model,))]
    if all(isinstance(plan, Plan) for plan in plans):
        models = [Stack(tuple(plans))]  # as one they take a fraction of the time
    return [
        {name: values.reshape(n_repeats, -1) for name, values in scores.items()}
        for scores in score_models(models, task)
    ]


def _mean_of(parts):
    """Return one part of those of all repeats of the observed labels.

    Scores are averaged and kept one by one, tables joined as they can be; predictions
    and what is recorded of test sets and penalties follow each other.
    """
    joined = {}
    for key in parts[0]:
        kind, _, name = key.partition("/")
        values = [part[key] for part in parts]
        if kind == "metrics" and values[0].ndim > 1:
            joined[key] = METRICS[name].join(values, axis=0)
        elif kind == "metrics":
            joined[key] = np.mean(values, axis=0)
            joined[f"repeats/{name}"] = np.stack(values, axis=-1)
        elif kind in ("nulls", "second", "second_scores", "patterns"):
            joined[key] = np.mean(values, axis=0)
        elif kind == "penalty":
            flat = [v.reshape(len(v), -1) if v.ndim < 3 else v for v in values]
            joined[key] = np.concatenate(flat, axis=1)
        else:  # predictions, class scores and test sets, along trials or sets
            joined[key] = np.concatenate(values, axis=1)
    return joined


@dataclass(frozen=True, eq=False)
class Samples:
    """What a result is about: the tested samples, one repeat after the other."""

    codes: np.ndarray
    groups: np.ndarray | None
    folds: Folds
    #: The trials in each, (n, k), where they are averages.
    members: np.ndarray | None = None


def join_samples(codes, groups, folds, members=None):
    """Return the `Samples` of the repeats' classes, groups, folds and members."""
    n, pairs = np.cumsum([0, *map(len, codes)]), []
    for start, each in zip(n, folds, strict=False):
        pairs += [(start + train, start + test) for train, test in each.pairs]
    trains, tests = zip(*pairs, strict=True)
    chosen = folds[0].chosen
    if chosen is not None:
        chosen = np.concatenate([each.chosen for each in folds])
    joined = replace(folds[0], tests=tests, n=int(n[-1]), trains=trains, chosen=chosen)
    return Samples(
        np.concatenate(codes),
        None if groups is None else np.concatenate(groups),
        joined,
        None if members is None else np.concatenate(members),
    )


# ------------------------------------------------------------------ folds that differ


@dataclass(frozen=True, eq=False)
class Shown:
    """A splitter that may look at labels, to be shown those of every permutation.

    Attributes
    ----------
    cv : splitter
        As it was given.
    folds : Folds
        Those of the observed classes.
    groups : ndarray, shape (n,) | None
        What the splitter is given as groups.
    classes : ndarray, shape (c,)
        The labels of the classes.
    """

    cv: object
    folds: Folds
    groups: np.ndarray | None
    classes: np.ndarray

    def shown(self, labels):
        """Return what gives the folds of any of labels (P + 1, n), by these.

        They are drawn here, once: the splitter may draw others the next time.
        """
        drawn = {labels[0].tobytes(): self.folds}
        for each in labels[1:]:
            key = each.tobytes()
            if key not in drawn:
                drawn[key] = make_folds(self.cv, each, self.groups, self.classes)
        return Drawn(drawn)


@dataclass(frozen=True, eq=False)
class Drawn:
    """Folds that were drawn for labels, the observed ones first, by their bytes."""

    folds: dict

    def __call__(self, labels):
        """Return the folds for labels (n,) of those."""
        return self.folds[labels.tobytes()]

    @cached_property
    def are_alike(self):
        """Whether all labels have the folds of the observed ones."""
        first, *others = self.folds.values()
        return all(each.is_same(first) for each in others)


def seeded_splitters(cv, folds, groups, n_repeats, seed):
    """Return a splitter with a seed of its own for every repeat."""
    if not hasattr(cv, "random_state") or hasattr(cv, "n_repeats"):
        advice = "Use a number of folds, KFold or ShuffleSplit"
        if groups is not None:  # a number of folds would part them
            advice = "Use GroupKFold or GroupShuffleSplit"
        raise ValueError(
            f"n_repeats={n_repeats} draws other folds in every repeat, and "
            f"{folds.name} has no random folds, or repeats them itself. {advice}; with "
            "average=k trials are regrouped within the same folds."
        )
    seeds = np.random.SeedSequence(seed, spawn_key=(3,)).generate_state(n_repeats)
    splitters = [copy(cv) for _ in seeds]
    for splitter, each in zip(splitters, seeds, strict=True):
        splitter.random_state = int(each)
        if hasattr(splitter, "shuffle"):
            splitter.shuffle = True
    return tuple(splitters)
