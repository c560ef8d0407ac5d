r"""Pseudo-trials and repeats: which rows, labels and folds a procedure runs on.

A :class:`Draw` answers: labelling b, repeat j, which rows, labels, folds? Rows are
trials or pseudo-trials, averages of k trials of one class. Averaging divides the
variance of the noise by k and leaves the class means as they are [1]_. Every average is
made of trials of one test set (and of one group), so that no average mixes trained and
tested trials, and of equally many trials, so that all have the same noise and their
labels can be exchanged. A remainder of fewer than k trials is left out.

With the averaging matrix S (m x n, each row 1/k at the members of an average), the
kernel between averages of the kernel's features is

.. math:: \bar K = S K S^\top,

for a linear kernel that of averaged features, for others that of the mean embeddings of
the k trials, which differs from a kernel of averaged features.

With repeats, a score is the mean over them, and so is every permuted one. Repeats of
the same trials share them: they differ less than independent data would. A null is
right only if its means do so too. So a permutation moves the labels of *trials*, once
for all of its repeats, and the whole procedure runs on what comes out of it, all draws
included.

- Averages: trials of a test set (and group) are grouped at random within classes.
  Labels move within test sets and groups, so that every labelling has the same number
  of averages of each class there; only who is averaged differs.
- Folds: a splitter draws other folds in every repeat. One that looks at labels is shown
  the permuted ones, as it was shown the observed ones, be it for one repeat only.

What the draws of a block of positions have in common is worked out once: kernel
matrices, where these are smaller than the features or cannot do without
(:class:`GramPositions`), and what hat matrices are made of (:class:`BlockHats`).

References
----------
.. [1] Isik, Meyers, Leibo & Poggio (2014). The dynamics of invariant object
   recognition in the human visual system. Journal of Neurophysiology 111(1), 91-102.
"""

from copy import copy
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import product

import numpy as np
from sklearn import config_context

from ..inference.permutation import find_price
from ..kfda.direct import Plan, Stack, prepare_sorted
from ..kfda.folds import Folds, left_out_folds
from ..kfda.hat import make_hat
from ..kfda.kernels import (
    InnerProducts,
    KernelChoice,
    Precomputed,
    gram_of,
    needs_gram,
)
from ..kfda.penalties import MOST_OF_SECOND, Auto, of_trials
from ..metrics.scores import METRICS
from ..utils.checks import check_count
from .positions import Positions
from .problems import number_groups, refusal, say
from .run import Draw, average, models_of, score_models

#: Bytes of draws that are kept, so that they are not drawn again in every block.
DRAWN_BYTES = 2**25
#: Bytes that the matrices of several draws may take, to be handled together.
MATRIX_BYTES = 2**24


def seeded_splitters(cv, folds, groups, n_repeats, seed):
    """A splitter with a seed of its own for every repeat."""
    if not hasattr(cv, "random_state") or hasattr(cv, "n_repeats"):
        advice = "Use a number of folds, KFold or ShuffleSplit"
        if groups is not None:  # a number of folds would part them
            advice = "Use GroupKFold or GroupShuffleSplit"
        words = {"n_repeats": n_repeats, "name": folds.name, "advice": advice}
        raise refusal("repeats: same folds", **words)
    seeds = np.random.SeedSequence(seed, spawn_key=(3,)).generate_state(n_repeats)
    splitters = [copy(cv) for _ in seeds]
    for splitter, each in zip(splitters, seeds, strict=True):
        splitter.random_state = int(each)
        if hasattr(splitter, "shuffle"):
            splitter.shuffle = True
    return tuple(splitters)


# ----------------------------------------------------------------------- pseudo-trials


@dataclass(frozen=True, eq=False)
class Cells:
    """The trials of each class where they may be averaged together."""

    #: The number of trials in an average.
    k: int
    #: The number of the test set (and group) of every trial, (n,).
    unit: np.ndarray
    #: Trials and averages of every class in every unit, (n_units, c).
    counts: np.ndarray
    n_averages: np.ndarray

    @cached_property
    def slots(self):
        """Where averages (m, k) find their trials, sorted by unit and class."""
        counts, n_averages = self.counts.ravel(), self.n_averages.ravel()
        starts = np.cumsum(counts) - counts
        return np.concatenate(
            [
                start + np.arange(n * self.k).reshape(n, self.k)
                for start, n in zip(starts, n_averages, strict=True)
            ]
        )

    def of(self, codes):
        """The number of each trial's cell, its unit and class."""
        return self.unit * self.counts.shape[1] + codes

    def draw(self, codes, rng):
        """The trials (n,), sorted as `slots` wants, at random within cells."""
        cell = self.of(codes)
        return np.argsort(cell + rng.random(len(cell)))

    def group(self, codes, seed):
        """Averages (m, k) of random trials of one cell each, sorted by first trial."""
        rng = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(1,)))
        order = rng.permutation(len(codes))
        order = order[np.argsort(self.of(codes)[order], kind="stable")]
        members = np.sort(order[self.slots], axis=1)
        return members[np.argsort(members[:, 0])]


def count_cells(
    k, folds, codes, groups=None, classes=None, equalize=False, average_test=True
):
    """The `Cells` of averages of k trials, "max" for as many as there can be.

    Refused are averages that leave a class or a fold without samples, and test sets
    that overlap, where each fold trains on all other trials.
    """
    if folds.trains is None and np.bincount(np.concatenate(folds.tests)).max() > 1:
        raise refusal("average: overlap", k=k, name=folds.name)
    if isinstance(k, str) and k != "max":
        raise refusal("average: not a number", k=k)
    if not isinstance(k, str):
        k = check_count("average", k, minimum=1)
    group, n_classes = number_groups(groups, len(codes)), int(codes.max()) + 1
    names = np.arange(n_classes) if classes is None else classes
    shared = "test set" if groups is None else "group in a test set"
    pairs, unit = np.unique([folds.blocks, group], axis=1, return_inverse=True)
    unit = unit.reshape(-1)
    counts = np.bincount(unit * n_classes + codes, minlength=len(pairs.T) * n_classes)
    counts = counts.reshape(-1, n_classes)

    def refused(case, code=0, most=0, **words):
        fewer = f"average={most} or less, or " if most > 1 else ""
        such = ", e.g. cv=5" if len(folds.tests) > 5 else ""
        advice = f"Use {fewer}fewer, larger test sets{such}."
        known = {"k": k, "name": folds.name, "shared": shared, "most": most}
        words |= known | {"label": str(names[code]), "advice": advice}
        return refusal(f"average: {case}", **words)

    def check_all_present(given):
        missing = np.argwhere(counts == 0)
        if len(missing):
            raise refused("all classes", missing[0][1], given=given)

    if isinstance(k, str):
        check_all_present("average='max'")
        k = int(counts.min())
    largest = np.where(counts.any(axis=0), counts.max(axis=0), k)
    if largest.min() < k:
        code = largest.argmin()
        raise refused("class", code, largest.min(), n=counts[:, code].sum())
    if equalize:
        check_all_present("equalize=True")
    smallest = np.repeat(counts.min(axis=1, keepdims=True), n_classes, 1)
    n_averages = (smallest if equalize else counts) // k
    trains, tests = zip(*folds.pairs, strict=True)
    sets = [("test", tests)] if average_test else []
    for kind, each in [*sets, ("training", trains)]:
        for fold, rows in enumerate(each):
            words = {"fold": fold, "n": len(rows), "kind": kind}
            for case, sizes in (("fold", counts), ("equal fold", smallest)):
                most = sizes[unit[rows]].max()
                if most < k and (equalize or case == "fold"):
                    raise refused(case, most=most, **words)
    lost = np.zeros(n_classes, bool)  # some model has trials and no average of them
    for train in trains:
        units = np.unique(unit[train])
        lost |= counts[units].any(axis=0) & ~n_averages[units].any(axis=0)
    for code in np.flatnonzero(lost):
        words = {"name": folds.name, "label": str(names[code]), "k": k}
        say("absent: averages", {"class": int(code)}, **words).warn()
    return Cells(k, unit, counts, n_averages)


def average_trials(k, folds, codes, groups=None, seed=None, classes=None, **options):
    """The `Draw` of k trials of one class within test sets (and groups), by a seed."""
    codes = np.asarray(codes)
    cells = count_cells(k, folds, codes, groups, classes, **options)
    members, group = cells.group(codes, seed), number_groups(groups, len(codes))
    first = members[:, 0]
    constant = len(np.unique(group)) == len(np.unique([group, codes], axis=1)[0])
    label_free = cells.k == 1 or (groups is not None and constant)
    label_free &= not options.get("equalize")
    new = replace(
        folds_of_averages(folds, first),
        balanced=folds.balanced or not label_free,
        name=f"{folds.name} with average={cells.k}",
    )
    groups = None if groups is None else np.asarray(groups)[first]
    return Draw((members,), codes[first], groups, new)


def folds_of_averages(folds, first):
    """The folds of averages, of each of which one trial is given, (m,)."""

    def among(sets):
        return tuple(np.flatnonzero(np.isin(first, rows)) for rows in sets)

    trains = None if folds.trains is None else among(folds.trains)
    mask = None if folds.train_mask is None else folds.train_mask[first]
    sets = {"tests": among(folds.tests), "trains": trains, "train_mask": mask}
    return replace(folds, **sets, n=len(first), rule=None)


def find_left_out(cells, folds, groups, classes):
    """The `Problem` of a class too small somewhere to be averaged, or None."""
    few = np.argwhere((cells.counts > 0) & (cells.counts < cells.k))
    if not len(few):
        return None
    unit, code = few[0]
    trial = np.flatnonzero(cells.unit == unit)[0]
    tests = [str(f) for f, test in enumerate(folds.tests) if trial in test]
    where = f"what test sets {', '.join(tests)} of {folds.name} share"
    if len(tests) < 2:
        where = f"test set {tests[0]} of {folds.name}" if tests else ""
        where = where or f"the trials that {folds.name} never tests"
    if groups is not None:
        where = f"group {str(groups[trial])!r} in {where}"
    n = int(cells.counts[unit, code])
    words = {"k": cells.k, "label": str(classes[code]), "where": where, "n": n}
    numbers = {"class": int(code), "n_trials": n}
    return say("left_out", numbers, or_less=" or less" * (n > 1), **words)


# ------------------------------------------------------------------------------- draws


@dataclass(frozen=True, eq=False)
class Draws:
    """The draws of all labellings and repeats: other averages, or other folds.

    Attributes
    ----------
    folds : Folds
        Of the trials, by the observed labels.
    groups : ndarray, shape (n,) | None
        Of the trials.
    seed : int
        Of the random order of trials.
    n_repeats : int
        The number of repeats, r.
    labels : ndarray of int, shape (P + 1, n)
        The classes of the trials, observed and permuted.
    cells : Cells | None
        The trials to be averaged; None: other folds are drawn.
    average_test : bool
        Whether averages are tested, or single trials.
    split : tuple of callable
        ``split[j](labels)``: the folds of repeat j for labels (n,).
    shown : bool | list of Folds
        Whether a splitter is shown all labels, for one repeat; the folds of each.
    """

    folds: Folds
    groups: np.ndarray | None
    seed: int
    n_repeats: int
    labels: np.ndarray
    cells: Cells | None = None
    average_test: bool = True
    split: tuple = ()
    shown: bool | list = False

    # --------------------------------------------------------- what is permuted, drawn

    def exchange(self, permute):
        """The folds that all permutations share, if any, and the scheme for these."""
        if self.cells is None:
            if permute == "within_folds":
                raise refusal("repeats: scheme")
            return None, permute
        if permute not in ("auto", "within_folds"):
            raise refusal("regrouped: scheme", permute=permute)
        chosen = self.folds.train_mask is not None
        one_model = chosen and left_out_folds(self.folds) is None
        return self.folds, "free" if one_model else "within_folds"

    def of(self, labels):
        """The same for label vectors (P + 1, n)."""
        if not self.shown:
            return replace(self, labels=labels)
        # Drawn here, once: the splitter may draw others the next time.
        drawn = {labels[0].tobytes(): self.folds}
        for each in labels[1:]:
            if each.tobytes() not in drawn:
                drawn[each.tobytes()] = self.split[0](each)
        shown = [drawn[each.tobytes()] for each in labels]
        draws = replace(self, labels=labels, shown=shown)
        if draws.sees_labels:
            find_price(self.folds).warn()
        return draws

    @cached_property
    def sees_labels(self):
        """Whether other labels have other folds."""
        if self.cells is not None:
            return False
        if self.shown and all(each.is_same(self.folds) for each in self.shown):
            return False
        return any(each.sees_labels is not False for each in self._observed_folds)

    @cached_property
    def _observed_folds(self):
        """Folds of all repeats, by the observed labels."""
        if self.shown:
            return [self.folds]
        return [split(self.labels[0]) for split in self.split]

    @property
    def observed(self):
        """The draws of all repeats of the observed labels."""
        return [self.draw(0, j) for j in range(self.n_repeats)]

    def samples(self):
        """The `Draw` that a result is about: tested rows, repeat after repeat."""
        draws, members = self.observed, None
        if self.cells is None and len(draws) == 1:
            return draws[0]
        if not self.average_test:  # trials, trained with those in some average
            trials = Draw(None, self.labels[0], self.groups)
            for j, draw in enumerate(draws):
                each = (draw.members[rows] for rows in draw.folds.trains)
                trains = tuple(np.sort(trained, axis=None) for trained in each)
                folds = replace(self.folds, trains=trains)
                draws[j] = replace(trials, folds=folds)
        elif self.cells is not None:
            members = (np.concatenate([draw.members for draw in draws]),)
        first, r, pairs = draws[0], len(draws), []
        n = len(first.codes)
        for j, draw in enumerate(draws):
            pairs += [(j * n + train, j * n + test) for train, test in draw.folds.pairs]
        trains, tests = zip(*pairs, strict=True)
        groups, mask = (
            None if values is None else np.tile(values, r)
            for values in (first.groups, first.train_mask)
        )
        sets = {"tests": tests, "trains": trains, "train_mask": mask, "n": r * n}
        folds = replace(first.folds, **sets)
        return Draw(members, np.tile(first.codes, r), groups, folds)

    def draw(self, b, j, tested_as=None):
        """The `Draw` of labelling b, repeat j.

        Tested averages may be those of another labelling, behind those trained with.
        """
        if self.cells is None:
            return Draw(None, self.labels[b], self.groups, self._folds(b, j))
        sides = (self.members(b, j),)
        codes = self.labels[b][sides[0][:, 0]]  # the same whatever the labelling
        if not self.average_test:
            sides += (np.arange(self.folds.n)[:, np.newaxis],)
            tested = self.labels[b if tested_as is None else tested_as]
            codes = np.append(codes, tested)
        elif tested_as is not None:
            sides, codes = (*sides, self.members(tested_as, j)), np.tile(codes, 2)
        folds = self._folds_of_one if len(sides) == 1 else self._folds_of_two
        groups = self.groups
        if groups is not None:
            groups = groups[np.concatenate([side[:, 0] for side in sides])]
        return Draw(sides, codes, groups, folds)

    @cached_property
    def _kept(self):
        """What was drawn for one block of positions, kept for the others."""
        return {}

    def _once(self, b, j, draw):
        """What is drawn in repeat j of labelling b, kept if memory allows."""
        drawn = self._kept.get((b, j))
        if drawn is None:
            drawn = draw()
            if len(self._kept) < DRAWN_BYTES // (8 * self.folds.n):
                self._kept[b, j] = drawn
        return drawn

    def members(self, b, j):
        """The trials of every average (m, k), in repeat j of labelling b."""

        def draw():
            key = np.random.SeedSequence(self.seed, spawn_key=(2, b, j))
            order = self.cells.draw(self.labels[b], np.random.default_rng(key))
            return order[self.cells.slots]

        return self._once(b, j, draw)

    @cached_property
    def _folds_of_one(self):
        """Folds of averages."""
        return folds_of_averages(self.folds, self.members(0, 0)[:, 0])

    @cached_property
    def _folds_of_two(self):
        """Folds of averages to train with, and behind them what is tested."""
        trained = self._folds_of_one
        tested = trained if self.average_test else self.folds
        m, mask = len(self.cells.slots), trained.train_mask
        mask = np.ones(m, bool) if mask is None else mask
        return replace(
            trained,
            tests=tuple(m + test for test in tested.tests),
            n=m + tested.n,
            trains=tuple(train for train, _ in trained.pairs),
            train_mask=np.append(mask, np.zeros(tested.n, bool)),
        )

    def _folds(self, b, j):
        """The folds of repeat j that a label vector has."""
        if b == 0:
            return self._observed_folds[j]
        if self.shown:
            folds = self.shown[b]
        else:
            folds = self._once(b, j, lambda: self.split[j](self.labels[b]))
        return replace(folds)  # without the order that they will have, which is larger

    # ------------------------------------------------------------------------ the loop

    def run_block(self, task, positions, block):
        """Decode the positions of one block; return its part, with whole nulls."""
        averaged, r, n = self.cells is not None, self.n_repeats, len(self.labels)
        alike = not averaged and not self.sees_labels  # all labels have the same folds
        second = task.second is not None
        task = replace(task, draws=None, second=None, folds=self.draw(0, 0).folds)
        shared = with_grams(positions, block, task) if averaged else positions
        if second and not averaged:  # predictions serve both tests
            task = replace(task, second=self.labels[:1])
        parts = []
        for draw in self.observed:
            single = self._task(task, draw)
            if alike:
                single = replace(single, labels=self.labels)
            each = positions
            if averaged:
                each = positions if task.with_patterns else shared
                each = each.grouped(draw, block)
            parts.append(single.run_block(each, block))
            if not self.average_test:
                tested = slice(len(self.cells.slots), None)
                for key in {"predicted", "class_scores"} & parts[-1].keys():
                    parts[-1][key] = parts[-1][key][:, tested]
        part = parts[0] if r == 1 and not averaged else _mean_of(parts)
        if averaged and r > 1:  # every repeat has discriminants of its own
            part.pop("pattern_maps/discriminant", None)
        if alike or n == 1:
            return part
        means = self._means(task, shared, block, range(1, n))
        for kind, values in zip(("nulls", "second"), means, strict=False):
            part |= {f"{kind}/{name}": each for name, each in values.items()}
        if second and averaged:
            task = replace(task, at_most=MOST_OF_SECOND)
            (values,) = self._means(task, shared, block, range(n), 0)
            for name, each in values.items():
                part |= {f"second_scores/{name}": each[0], f"second/{name}": each[1:]}
        return part

    def _task(self, task, draw):
        """The task of a draw."""
        learned = task.learned if draw.sides is None else task.learned.averaged(draw)
        own = {"folds": draw.folds, "groups": draw.groups, "learned": learned}
        return replace(task, labels=draw.codes[np.newaxis], **own)

    def _means(self, task, positions, block, numbers, tested_as=None):
        """Mean scores (., cells) over repeats of some labellings, by name.

        A list of these, one for each test.
        """
        first = self._task(task, self.draw(0, 0))
        hats = BlockHats.of(positions, block, first)
        pairs, step = list(product(numbers, range(self.n_repeats))), 1
        if self.cells is not None and not positions.row:
            # Of rows, models hold what they are tested with.
            if hats is None:
                n_bytes = 16 * first.folds.n**2 * len(block)
                step = int(np.clip(MATRIX_BYTES // n_bytes, 1, self.n_repeats))
            else:
                step = max(1, MATRIX_BYTES // hats.n_bytes(first.folds))
        scores = [
            self._scores(pairs[i : i + step], task, positions, block, hats, tested_as)
            for i in range(0, len(pairs), step)
        ]
        shape, found = (len(numbers), self.n_repeats, -1), []
        for kind in zip(*scores, strict=True):
            joined = {name: np.concatenate([x[name] for x in kind]) for name in kind[0]}
            found.append({k: v.reshape(shape).mean(axis=1) for k, v in joined.items()})
        return found

    def _scores(self, pairs, task, positions, block, hats, tested_as):
        """Scores (pairs, cells) of pairs of a labelling and a repeat, for each test."""
        # Averages that are tested elsewhere take the places of those trained with, fold
        # by fold; only what folds learn needs to know both.
        both = tested_as if task.is_foldwise else None
        draws = [self.draw(*pair, both) for pair in pairs]
        models, first = None, draws[0]
        if hats is not None and hats.serve(first.folds):
            models = hats.stack(draws, task)
        if models is None:
            models = []
            for draw, (_, j) in zip(draws, pairs, strict=True):
                each, tested = positions, {}
                if tested_as is not None and both is None:
                    tested = {"tested": self.draw(tested_as, j)}
                if draw.sides is not None:
                    each = positions.grouped(draw, block, **tested)
                models += models_of(each, block, self._task(task, draw))
        plans = [each for model in models for each in getattr(model, "plans", (model,))]
        if all(isinstance(plan, Plan) for plan in plans):
            models = [Stack(tuple(plans))]  # as one they take a fraction of the time
        task = replace(task, labels=first.codes[np.newaxis])
        return [
            {name: values.reshape(len(pairs), -1) for name, values in scores.items()}
            for scores in score_models(models, task)
        ]


def _mean_of(parts):
    """One part of those of all repeats of the observed labels.

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
        elif kind in ("nulls", "second", "second_scores", "pattern_maps"):
            joined[key] = np.mean(values, axis=0)
        elif kind == "penalty":
            flat = [v.reshape(len(v), -1) if v.ndim < 3 else v for v in values]
            joined[key] = np.concatenate(flat, axis=1)
        else:  # predictions, class scores and test sets, along trials or sets
            joined[key] = np.concatenate(values, axis=1)
    return joined


# ------------------------------------------------- what the draws of a block may share


def with_grams(positions, block, task):
    """A block's positions by their kernel matrices; as they are if that is better.

    It is with linear kernels of not more features than trials, and features are needed
    for steps and in other windows.
    """
    kernel = positions.kernel
    if positions.row or isinstance(kernel, KernelChoice) or kernel.low_rank:
        return positions
    if kernel.is_linear:
        sizes = [np.shape(positions.samples(each)[0]) for each in block]
        if task.learned or any(p <= n for n, p in sizes):
            return positions
    grams = {}
    for position in block:
        X, kernel = positions.samples(position)
        if kernel.shift_free:
            X = X - X.mean(axis=0)
        try:
            with config_context(assume_finite=True, skip_parameter_validation=True):
                K = gram_of(X, kernel.fit(X))
        except ValueError as error:  # of the user's own kernel
            raise ValueError(f"{positions.where(position)}{error}") from error
        of_gram = InnerProducts(X.shape[1]) if kernel.is_linear else Precomputed()
        grams[position] = K, of_gram
    return GramPositions(grams, positions.reg, positions.where)


@dataclass(frozen=True)
class GramPositions(Positions):
    """Some positions of a map by their kernel matrices, worked out once."""

    #: The matrices (n, n), and the kernels that say of what they are, by position.
    grams: dict
    reg: object
    #: Returns how to begin a message about a position.
    where: object

    def samples(self, position):
        """The matrix of a position, and the kernel that says of what it is."""
        return self.grams[position]

    def grouped(self, draw, block):
        """The same positions of pseudo-trials."""
        grams = {
            position: (draw.apply(draw.apply(K), axis=1), kernel)
            for position, (K, kernel) in self.grams.items()
        }
        return replace(self, grams=grams)


@dataclass(frozen=True)
class BlockHats:
    """What the hats of a block's positions are made of, where one serves all folds."""

    #: Of every position features (n, p) or a kernel matrix, and the kernel for them.
    samples: tuple
    reg: object

    @classmethod
    def of(cls, positions, block, task):
        """Those of a block; None where a position needs more than a hat."""
        if positions.row or task.is_foldwise or task.inner is not None:
            return None
        samples = tuple(positions.samples(position) for position in block)
        if any(kernel.low_rank for _, kernel in samples):
            return None
        return cls(samples, task.penalty(positions.reg))

    def serve(self, folds):
        """Whether they are those of other folds, too."""
        is_auto = isinstance(self.reg, Auto)
        return not is_auto or np.array_equal(self.reg.rows, folds.trained)

    def n_bytes(self, folds):
        """What the hats of all positions take, with blocks of folds, for each draw."""
        n, blocks = folds.n, sum(len(test) ** 2 for test in folds.tests)
        sizes = [n * min(n, np.shape(X)[1] + 1) + 2 * blocks for X, _ in self.samples]
        return 8 * sum(sizes)

    def stack(self, draws, task):
        """The one model of draws that share their folds, in a list; None if any fails.

        It is for a single label vector.
        """
        folds = draws[0].folds
        try:
            plans = prepare_sorted(
                self._hats(draws, folds.order), folds, task.dtype, task.rank
            )
        except ValueError:  # one by one they say where it is
            return None
        return [Stack(tuple(plans))]

    @cached_property
    def alone(self):
        """Hats of the trials as they are, by position."""
        return [make_hat(X, kernel, self.reg) for X, kernel in self.samples]

    def _hats(self, draws, order):
        """The hats by draw and position, of rows in an order of their own."""
        if draws[0].sides is None:
            return [hat.reordered(order) for hat in self.alone]
        members = np.stack([draw.members for draw in draws])[:, order]
        (r, m, k), reg = members.shape, of_trials(self.reg, order)
        hats = []
        for X, kernel in self.samples:
            if needs_gram(kernel):
                data = (average(average(X, each), each, axis=1) for each in members)
            else:
                data = average(X, members.reshape(r * m, k)).reshape(r, m, -1)
            hats.append([make_hat(each, kernel, reg) for each in data])
        return [hat for of_draw in zip(*hats, strict=True) for hat in of_draw]
