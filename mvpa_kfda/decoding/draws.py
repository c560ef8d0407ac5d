r"""Pseudo-trials and repeats: which rows, labels and folds a procedure runs on.

A :class:`~mvpa_kfda.decoding.averaging.Draw` answers: labelling b, repeat j, which
rows, labels, folds? Rows are trials or means of trials. A score is the mean over
repeats, and so is every permuted one. Repeats of the same trials share them: they
differ less than independent data would. A null is right only if its means do so too.
So a permutation moves the labels of *trials*, once for all of its repeats, and the
whole procedure runs on what comes out of it, all draws included.

- Averages: trials of a test set (and group) are grouped at random within classes.
  Labels move within test sets and groups, so that every labelling has the same number
  of averages of each class there; only who is averaged differs.
- Folds: a splitter draws other folds in every repeat. One that looks at labels is shown
  the permuted ones, as it was shown the observed ones, be it for one repeat only.

What the draws of a block of positions have in common is worked out once: kernel
matrices, where these are smaller than the features or cannot do without
(:class:`GramPositions`), and what hat matrices are made of (:class:`BlockHats`).
"""

from copy import copy
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import product
from numbers import Integral
from typing import get_args

import numpy as np
from sklearn import config_context
from sklearn.model_selection import KFold

from ..inference.permutation import BLIND, Permute, find_price
from ..kfda.direct import Plan, prepare_sorted
from ..kfda.folds import (
    DEFAULT_FOLDS,
    Folds,
    find_cut_groups,
    left_out_folds,
    make_folds,
    may_see_labels,
)
from ..kfda.hat import make_hat
from ..kfda.kernels import InnerProducts, KernelChoice, Precomputed, gram_of, needs_gram
from ..kfda.models import Stack, plan_of_features
from ..kfda.penalties import MOST_OF_SECOND, Auto, of_trials
from ..metrics.classes import METRICS
from ..utils.checks import check_count, check_flag, check_option
from ..utils.memory import check_many
from .averaging import (
    Cells,
    Draw,
    average,
    average_trials,
    check_disjoint,
    count_cells,
    find_left_out,
    folds_of_averages,
)
from .positions import Positions
from .run import models_of, score_models
from .sizes import DRAWN_BYTES, MATRIX_BYTES

#: Repeats that are enough for a mean score.
_ENOUGH = 100


@dataclass(frozen=True)
class Repeating:
    """The samples that trials are made into, and how the procedure is repeated.

    Parameters
    ----------
    average : int | "max" | None
        Number of trials of one class that are averaged, within test sets (and groups),
        into one pseudo-trial; pseudo-trials replace trials in the result. They are
        drawn with `random_state`; remaining trials are left out. ``"max"``: the size of
        the smallest class in any test set (and group).
    n_repeats : int
        Number of repeats, whose scores are averaged: with `average`, trials are
        regrouped at random, without it new random folds are drawn (`cv` is a number, or
        a splitter with random folds). All repeats of a permutation use the same
        permuted labels of trials. ``result.repeats`` has the score of each repeat.
    equalize : bool
        With `average`, make equal numbers of pseudo-trials of all classes in each test
        set (and group), as many as the smallest class allows; each repeat leaves out
        different trials. With ``average=1`` this is random undersampling: trials are
        left out at random until class sizes are equal.
    average_test : bool
        With `average`, test on averages; False tests models trained on averages on
        single trials.
    """

    average: int | str | None = None
    n_repeats: int = 1
    equalize: bool = False
    average_test: bool = True

    def splitter(self, cv, groups, n_test=None, train_on=None):
        """`cv`, or for a number of folds that are drawn again and again a splitter."""
        n_repeats = check_count("n_repeats", self.n_repeats, minimum=1)
        once = n_repeats == 1 or self.average is not None
        if once or n_test is not None or train_on is not None:
            return cv
        if cv is None and groups is None:
            cv = DEFAULT_FOLDS
        if not isinstance(cv, Integral):
            return cv
        leak = find_cut_groups(cv, groups)
        if leak:
            leak.warn()
        n_folds = check_count("cv", cv, minimum=2)
        return KFold(n_folds, shuffle=True, random_state=0)

    def check(self, folds, y_test, kernel):
        """Refuse what cannot be repeated; folds are None for tests on other trials."""
        r = check_count("n_repeats", self.n_repeats, minimum=1)
        check_many(
            r,
            _ENOUGH,
            8 * (1 if folds is None else folds.n),
            f"n_repeats={r:,} times other folds or averages",
            f"fewer repeats; with {_ENOUGH} the mean score hardly changes any more",
        )
        for name in ("equalize", "average_test"):
            check_flag(name, getattr(self, name))
        given = f"average={self.average!r}"
        advice = "average out, and average such trials before you decode them"
        if self.average is None:
            if self.equalize or not self.average_test:
                given = "equalize=True" if self.equalize else "average_test=False"
                raise ValueError(
                    f"{given} says how trials are averaged, but average is None. Pass "
                    "average=k; with average=1 no trials are averaged, and "
                    "equalize=True leaves out trials at random until classes are equal."
                )
            if r > 1 and folds is not None and folds.train_mask is not None:
                raise ValueError(
                    f"n_repeats={r} without average draws new folds in each repeat, "
                    "and cannot be combined with train_on. Pass average=k, which "
                    "regroups the trials, or leave n_repeats out."
                )
            given, advice = f"n_repeats={r}", "n_repeats out"
        what = "y_test, a second label for each trial"
        if folds is None:
            what = (
                "tests on other trials (test_epochs, X_test, in time generalization "
                "train_on without groups or cv)"
            )
        repeated = r > 1 or self.average is not None
        if repeated and (folds is None or y_test is not None):
            raise ValueError(
                f"{given} works within the test sets of a cross-validation, and cannot "
                f"be combined with {what}. Leave {advice}."
            )
        chooses = isinstance(kernel, KernelChoice) and not kernel.is_linear
        if self.is_two_sided(folds) and chooses:
            raise ValueError(
                f"average={self.average!r} with average_test=False or train_on cannot "
                "choose among kernels that are not linear. Use one kernel."
            )

    def is_two_sided(self, folds):
        """Whether trained and tested samples differ, or folds have training sets."""
        parted = not self.average_test or (folds is not None and folds.trains)
        return self.average is not None and bool(parted)

    def is_shown(self, cv, folds, permute, y_test):
        """Whether a splitter is shown the permuted labels, which may be refused.

        It is if it may look at labels. Of repeats with other folds each is shown them
        anyway.
        """
        check_option("permute", permute, get_args(Permute))
        kept = permute == "within_folds" or not may_see_labels(cv)
        if kept or folds is None or folds.sees_labels is False:
            return False
        if self.n_repeats > 1 and self.average is None:
            return False
        given = None if self.average is None else f"average={self.average!r}"
        if folds.train_mask is not None:
            given = "train_on"
        if y_test is not None:
            given = "y_test, a second label for each trial"
        if given is not None:
            looks = "looks" if folds.sees_labels else "may look"
            raise ValueError(
                f"{folds.name} {looks} at the labels, so that permuted labels would "
                f"have other folds, which cannot be combined with {given}. Use a "
                f"splitter that does not look at the labels ({BLIND}), or "
                "n_permutations=0."
            )
        return True

    def prepare(self, cv, folds, codes, groups, seed, classes, permuted, shown):
        """The `Draw` of averages, if there is one, and the `Draws`, if there are any.

        With `permuted` labels, some cells of averages must hold several classes.
        """
        if self.n_repeats == 1 and not self.is_two_sided(folds) and not shown:
            if self.average is None:
                return None, None
            options = {"equalize": self.equalize}
            trials = folds, codes, groups, seed, classes
            return average_trials(self.average, *trials, **options), None
        draws = Draws(folds, groups, seed, self.n_repeats, codes[np.newaxis])
        if self.average is None:
            splitters = (cv,)
            if self.n_repeats > 1:
                splitters = seeded_splitters(cv, folds, groups, self.n_repeats, seed)
            options = {"groups": groups, "classes": classes}
            split = tuple(partial(make_folds, each, **options) for each in splitters)
            return None, replace(draws, split=split, shown=shown)
        check_disjoint(self.average, folds)
        options = {"equalize": self.equalize, "average_test": self.average_test}
        cells = count_cells(self.average, folds, codes, groups, classes, **options)
        if permuted and (cells.counts > 0).sum(axis=1).max() < 2:
            raise ValueError(
                "Regrouped trials (n_repeats, average_test=False) have "
                "their labels permuted within test sets and groups, and none of these "
                "holds trials of two classes. Leave n_repeats and average_test out, or "
                "use n_permutations=0. Where rows are sorted by class, "
                "cv=KFold(5, shuffle=True, random_state=0) mixes them."
            )
        left_out = find_left_out(cells, folds, groups, classes)
        if left_out:
            left_out.warn()
        return None, replace(draws, cells=cells, average_test=self.average_test)

    def record(self, averages, draws):
        """What a result records of it."""
        k = self.average  # maybe "max"
        if averages is not None:
            k = averages.members.shape[1]
        elif draws is not None:
            k = draws.cells and draws.cells.k
        return {
            "average": k,
            "n_repeats": self.n_repeats,
            "equalize": self.equalize,
            "average_test": self.average_test,
            "folds_by_labels": draws is not None and draws.sees_labels,
        }


def seeded_splitters(cv, folds, groups, n_repeats, seed):
    """A splitter with a seed of its own for every repeat."""
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
    inner : callable | None
        ``inner(codes, groups, folds)``: the folds within the training sets.
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
    inner: object = None

    # --------------------------------------------------------- what is permuted, drawn

    @property
    def kept_folds(self):
        """Folds that all permutations share, None where there are none."""
        return None if self.cells is None else self.folds

    def scheme(self, permute):
        """What may be exchanged, for `permute`."""
        if self.cells is None:
            if permute == "within_folds":
                raise ValueError(
                    "permute='within_folds' cannot be combined with n_repeats: each "
                    "repeat has new folds. Leave permute out, or pass "
                    "'within_groups' or 'free'."
                )
            return permute
        if permute not in ("auto", "within_folds"):
            raise ValueError(
                f"permute={permute!r} cannot be combined with regrouped trials "
                "(n_repeats, average_test=False): their labels are permuted within "
                "test sets and groups, so that each permutation has the same number of "
                "averages of each class there. Leave permute out."
            )
        chosen = self.folds.train_mask is not None
        one_model = chosen and left_out_folds(self.folds) is None
        return "free" if one_model else "within_folds"

    def of(self, labels, inner):
        """The same for label vectors (P + 1, n), and folds within training sets."""
        if not self.shown:
            return replace(self, labels=labels, inner=inner)
        # Drawn here, once: the splitter may draw others the next time.
        drawn = {labels[0].tobytes(): self.folds}
        for each in labels[1:]:
            if each.tobytes() not in drawn:
                drawn[each.tobytes()] = self.split[0](each)
        shown = [drawn[each.tobytes()] for each in labels]
        draws = replace(self, labels=labels, shown=shown, inner=inner)
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

    @cached_property
    def inner_folds(self):
        """What `inner` returns for every repeat of the observed labels."""
        if self.cells is not None:
            first = self.draw(0, 0)
            return [self.inner(first.codes, first.groups, first.folds)] * self.n_repeats
        trials = self.labels[0], self.groups
        return [self.inner(*trials, folds) for folds in self._observed_folds]

    def samples(self):
        """The `Draw` that a result is about: tested rows, repeat after repeat."""
        r, codes, groups = self.n_repeats, self.labels[0], self.groups
        if self.cells is None:
            all_folds, members = self._observed_folds, None
            if r == 1:
                return Draw(None, codes, groups, all_folds[0])
        else:
            members = [self.members(0, j) for j in range(r)]
            first = self.draw(0, 0)
            codes, groups, all_folds = first.codes, first.groups, [first.folds] * r
        if not self.average_test:  # trials, trained with those in some average
            codes, groups, trained = self.labels[0], self.groups, self._folds_of_one
            all_folds = []
            for each in members:
                trains = (np.sort(each[rows], axis=None) for rows, _ in trained.pairs)
                all_folds.append(replace(self.folds, trains=tuple(trains)))
            members = None
        n, pairs, first = len(codes), [], all_folds[0]
        for j, folds in enumerate(all_folds):
            pairs += [(j * n + train, j * n + test) for train, test in folds.pairs]
        trains, tests = zip(*pairs, strict=True)
        mask = first.train_mask
        if mask is not None:
            mask = np.concatenate([each.train_mask for each in all_folds])
        return Draw(
            None if members is None else (np.concatenate(members),),
            np.tile(codes, r),
            None if groups is None else np.tile(groups, r),
            replace(first, tests=tests, n=r * n, trains=trains, train_mask=mask),
        )

    def draw(self, b, j, tested_as=None):
        """The `Draw` of labelling b, repeat j.

        Tested averages may be those of another labelling, behind those trained with.
        """
        if self.cells is None:
            return Draw(None, self.labels[b], self.groups, self._folds(b, j))
        sides, codes = (self.members(b, j),), self._codes
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

    def _keep(self, key, drawn, n_bytes):
        """Keep what was drawn if memory allows, and return it."""
        if (len(self._kept) + 1) * n_bytes <= DRAWN_BYTES:
            self._kept[key] = drawn
        return drawn

    @cached_property
    def _slots(self):
        return self.cells.slots()

    def members(self, b, j):
        """The trials of every average (m, k), in repeat j of labelling b."""
        members = self._kept.get((b, j))
        if members is None:
            key = np.random.SeedSequence(self.seed, spawn_key=(2, b, j))
            order = self.cells.draw(self.labels[b], np.random.default_rng(key))
            members = order[self._slots]
            self._keep((b, j), members, members.nbytes)
        return members

    @cached_property
    def _codes(self):
        """Classes of the averages (m,), the same whatever the labelling."""
        return self.labels[0][self.members(0, 0)[:, 0]]

    @cached_property
    def _folds_of_one(self):
        """Folds of averages."""
        return folds_of_averages(self.folds, self.members(0, 0)[:, 0])

    @cached_property
    def _folds_of_two(self):
        """Folds of averages to train with, and behind them what is tested."""
        trained = self._folds_of_one
        tested = trained if self.average_test else self.folds
        m, mask = len(self._slots), trained.train_mask
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
        folds = self.shown[b] if self.shown else self._kept.get((b, j))
        if folds is None:
            folds = self.split[j](self.labels[b])
            self._keep((b, j), folds, sum(test.nbytes for test in folds.tests))
        return replace(folds)  # without the layout that it will have, which is larger

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
        for j in range(r):
            draw = self.draw(0, j)
            single = self._task(task, draw, self.inner_folds[j])
            if alike:
                single = replace(single, labels=self.labels)
            each = positions
            if averaged:
                each = positions if task.with_patterns else shared
                each = each.grouped(draw, block)
            parts.append(single.run_block(each, block))
            if not self.average_test:
                tested = slice(len(self._slots), None)
                for key in {"predicted", "class_scores"} & parts[-1].keys():
                    parts[-1][key] = parts[-1][key][:, tested]
        part = parts[0] if r == 1 and not averaged else _mean_of(parts)
        if averaged and r > 1:  # every repeat has discriminants of its own
            part.pop("patterns/discriminant", None)
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

    def _task(self, task, draw, inner):
        """The task of a draw."""
        learned = task.learned if draw.sides is None else task.learned.averaged(draw)
        labels = draw.codes[np.newaxis]
        own = {"folds": draw.folds, "groups": draw.groups, "inner": inner}
        return replace(task, labels=labels, learned=learned, **own)

    def _means(self, task, positions, block, numbers, tested_as=None):
        """Mean scores (., cells) over repeats of some labellings, by name.

        A list of these, one for each test.
        """
        first = self._task(task, self.draw(0, 0), self.inner_folds[0])
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
        found = []
        for kind in zip(*scores, strict=True):
            found.append({})
            for name in kind[0]:
                values = np.concatenate([each[name] for each in kind])
                values = values.reshape(-1, self.n_repeats, values.shape[1])
                found[-1][name] = values.mean(axis=1)
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
                if draw.sides is None:
                    inner = self.inner(draw.codes, draw.groups, draw.folds)
                    single, each = self._task(task, draw, inner), positions
                else:
                    single = self._task(task, draw, self.inner_folds[0])
                    tested = {}
                    if tested_as is not None and both is None:
                        tested = {"tested": self.draw(tested_as, j)}
                    each = positions.grouped(draw, block, **tested)
                models += models_of(each, block, single)
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
        elif kind in ("nulls", "second", "second_scores", "patterns"):
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
    grams = {position: gram_at(positions, position) for position in block}
    return GramPositions(grams, positions.reg, positions)


def gram_at(positions, position):
    """The kernel matrix of a position, and a kernel for it."""
    X, kernel = positions.samples(position)
    if kernel.shift_free:
        X = X - X.mean(axis=0)
    try:
        with config_context(assume_finite=True, skip_parameter_validation=True):
            K = gram_of(X, kernel.fit(X))
    except ValueError as error:  # of the user's own kernel
        raise ValueError(f"{positions.where(position)}{error}") from error
    return K, InnerProducts(X.shape[1]) if kernel.is_linear else Precomputed()


@dataclass(frozen=True)
class GramPositions(Positions):
    """Some positions of a map by their kernel matrices, worked out once."""

    #: The matrices (n, n), and the kernels that say of what they are, by position.
    grams: dict
    reg: object
    #: The positions they are of.
    positions: Positions

    def where(self, position):
        """How to begin a message about a position."""
        return self.positions.where(position)

    def models(self, block, task):
        """Yield the model of every position in a block."""
        for position in block:
            yield plan_of_features(*self.grams[position], self.reg, task)

    def samples(self, position):
        """The matrix of a position, and the kernel that says of what it is."""
        return self.grams[position]

    def grouped(self, draw, block):
        """The same positions of pseudo-trials."""
        grams = {}
        for position in block:
            K, kernel = self.grams[position]
            grams[position] = draw.apply(draw.apply(K), axis=1), kernel
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
        layout = draws[0].folds.layout
        try:
            plans = prepare_sorted(
                self._hats(draws, layout.order), layout, task.dtype, task.rank
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
