"""Single models of a result, refitted, against what the file says of them."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
from scipy.sparse import issparse

from .compare import OF_SINGLE, TOLERANCES
from .distance import moved, moved_gram
from .kernels import LINEAR, for_columns
from .recompute import step_of
from .refit import Recipe, Sample, refit
from .scoring import PAIRS, is_covered, score

#: Scores of classes that are nearer than this are ties, relative to their size.
_ROUNDING = {"float64": 1e-9, "float32": 1e-4}
#: How many twins of a cell have features that are moved at random, and how much more
#: than these other data, that are as far away, may change.
_TWINS, _OF_TWINS = 4, 10
#: The largest penalty in the second test of time generalization.
_MOST_OF_SECOND = 0.3
_UNDECIDED = (
    "In some cells rounding may have decided between penalties, so that their scores "
    "were not compared."
)


def completed(record, again, ch_names=None):
    """The record of a kernel with what a file does not hold put in.

    `again` is the kernel as it was given to the function that returned the result; a
    graph of channels by their names is cut to those that were decoded.
    """
    if "kernel" in record:  # an approximation, or a map, of another kernel
        inner = again if record["name"] == "LowRank" else getattr(again, "kernel", None)
        return record | {"kernel": completed(record["kernel"], inner, ch_names)}
    if record["name"] == "Callable":
        return record | {"function": getattr(again, "function", again)}
    if record["name"] not in ("Penalty", "GraphSmooth"):
        return record
    if ch_names is not None and getattr(again, "names", None) is not None:
        again = again.for_channels(ch_names)
    name = "Omega" if record["name"] == "Penalty" else "adjacency"
    matrix = getattr(again, name)
    return record | {name: matrix.toarray() if issparse(matrix) else matrix}


@dataclass
class Cells:
    """The cells of a result, refitted with what the package decoded.

    Trials, labels and folds are those that were read and drawn when the result was
    computed again; models, predictions and scores are not.
    """

    result: object
    #: The `Runner` that computed the result again.
    runner: object
    #: The records of the kernels, with what files do not hold.
    kernels: tuple
    #: By how much features may differ from those that were decoded.
    noise: float
    notes: list = field(default_factory=list)
    #: What has been refitted, by position, fold, permutation and so on.
    known: dict = field(default_factory=dict)

    # -------------------------------------------------------------------- what there is

    @cached_property
    def is_regression(self):
        """Whether values are predicted, and no classes."""
        return self.result.parameters.get("task") == "regression"

    @cached_property
    def n_classes(self):
        """How many classes there are; None of values."""
        return None if self.is_regression else len(self.result.classes)

    @cached_property
    def recipe(self):
        """How models are trained."""
        parameters, steps = self.result.parameters, self.runner.task.learned.steps
        dtype, seed = parameters["dtype"], parameters["random_state"] % 2**32
        records = parameters.get("preprocess") or ()
        steps = [
            step_of(record, seed) or step
            for record, step in zip(records, steps, strict=True)
        ]
        return Recipe(
            *(self.kernels, parameters["reg"], self.n_classes, tuple(steps)),
            parameters.get("n_components"),
            self.runner.positions.X if self.is_precomputed else None,
            _ROUNDING[dtype],
        )

    @cached_property
    def is_precomputed(self):
        """Whether the data are a kernel matrix."""
        return self.kernels[0]["name"] == "Precomputed"

    @cached_property
    def chosen_pairs(self):
        """Metrics of pairs of classes by name: the table, and which of its entries."""
        if self.is_regression:
            return {}
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
    def metrics(self):
        """The metrics that are refitted."""
        some = self.n_classes, self.chosen_pairs
        return [x for x in self.result.scalar_metrics if is_covered(x, *some)]

    @cached_property
    def tables(self):
        """The tables of pairs of classes."""
        return [name for name in PAIRS.values() if name in self.result.metrics]

    @cached_property
    def left_out(self):
        """The metrics that nothing here computes."""
        known = [*self.metrics, *PAIRS.values(), "confusion_matrix"]
        return [name for name in self.result.metrics if name not in known]

    @cached_property
    def places(self):
        """The positions that were run, as tuples of indices along the map."""
        done = self.runner.done
        row = self.runner.positions.row
        return [
            (*(int(k) for k in i), *map(int, cell))
            for i in np.argwhere(done)
            for cell in np.ndindex(*row)
        ]

    @cached_property
    def n_repeats(self):
        """How often the procedure is repeated."""
        return self.result.parameters.get("n_repeats", 1)

    @cached_property
    def folds(self):
        """The numbers of the folds of all repeats."""
        return range(len(self.result.tests))

    @cached_property
    def tested_once(self):
        """Whether every trial is in one test set at most."""
        return np.bincount(np.concatenate(self.result.tests)).max() == 1

    def number(self, position):
        """The number of the position that a cell of the map is of."""
        shape = self.runner.positions.shape
        return int(np.ravel_multi_index(position[: len(shape)], shape)) if shape else 0

    # -------------------------------------------------------- what a file says of it

    def permuted(self, name, position, b, second=False):
        """The score of a cell under permuted labels, None where it is not known."""
        result = self.result
        nulls = result.second_nulls if second else result.nulls
        if name in nulls:
            return nulls[name][b - 1][position]
        kept = self.runner.nulls.get(self.number(position))
        if kept is None:
            return None
        kind = "second" if second else "nulls"
        cell = position[-1] if self.runner.positions.row else 0
        return kept[f"{kind}/{name}"][b - 1][cell]

    @property
    def is_tested_twice(self):
        """Whether there is a second test, in which labels stay."""
        return self.runner.task.second is not None

    def stored(self, name, position, fold, b):
        """Yield the scores of a cell, and whether of the second test."""
        result = self.result
        if b:
            for second in (False, True)[: 1 + self.is_tested_twice]:
                found = self.permuted(name, position, b, second)
                if found is not None:
                    yield found, second
        elif fold is None:
            yield np.asarray(result.metrics[name])[position], False
            if self.is_tested_twice:
                scores = result.metrics | result.second_scores
                yield np.asarray(scores[name])[position], True
        else:
            of_fold = result.fold_metrics[name][(*position, fold)]
            if not np.isnan(of_fold):  # else of a single class, say
                yield of_fold, False

    def tolerance(self):
        """How nearly scores agree, that may be kept in single precision."""
        least = TOLERANCES[self.result.parameters["dtype"]]
        return max(least, OF_SINGLE) if self.result.parameters.get("null") else least

    # -------------------------------------------------------------------- the table

    def row(self, position, fold, b):
        """What is said of a cell and refitted, and the slack of its scores."""
        key = position, fold, b
        if key not in self.known:
            self.known[key] = self._row(*key)
        return self.known[key]

    def _row(self, position, fold, b):
        cell, folds = Cell(self, position, b), self.folds if fold is None else [fold]
        models = [cell.model(i) for i in folds]
        fine, n_differ, compared, slacks = True, 0, [], {}
        if b == 0:
            for i, model in zip(folds, models, strict=True):
                fine &= self._agrees_on_penalty(position, i, model)
                n_differ += self._count_differences(position, i, model)
        for name in self.metrics:
            for stored, second in self.stored(name, position, fold, b):
                some = [cell.model(i, True) for i in folds] if second else models
                again = cell.score(name, folds, some, second)
                slack = cell.slack(name, folds, some, second)
                slacks[name, second] = slack
                near = self.tolerance() * max(1, abs(again)) + slack
                fine &= bool(abs(stored - again) <= near)
                compared.append((stored, again))
        if np.isinf([*slacks.values()]).any() and _UNDECIDED not in self.notes:
            self.notes.append(_UNDECIDED)
        if b == 0 and fold is None:
            for name in self.tables:
                again = cell.score(name, folds, models)
                slacks[name, False] = cell.change(name, folds, models)
                fine &= self._agrees_on_table(
                    position, name, again, slacks[name, False]
                )
        stored, again = compared[0] if compared else (np.nan, np.nan)
        row = {
            "position": position if len(position) != 1 else position[0],
            "fold": "all" if fold is None else fold,
            "permutation": b,
            "n_trials": sum(len(model.predicted) for model in models),
            "n_differ": n_differ,
            "n_ties": sum(int(model.ties.sum()) for model in models),
            "score": stored,
            "score_refitted": again,
            "ok": bool(fine and n_differ == 0),
        }
        return row, slacks

    def _agrees_on_table(self, position, name, again, change):
        """Whether a table of pairs is the stored one."""
        kind = "accuracy" if name == "pairwise_accuracies" else "crossnobis"
        stored = np.asarray(self.result.rdm(kind))[position]
        most = (
            TOLERANCES[self.result.parameters["dtype"]] * (1 + np.abs(again)) + change
        )
        same = (np.abs(stored - again) <= most) | (np.isnan(stored) & np.isnan(again))
        return bool(same.all())

    def _agrees_on_penalty(self, position, fold, model):
        """Whether the lambda of a fold is the stored one."""
        stored = self.result.penalty.get("lambda")
        if stored is None:
            return True
        if self.runner.positions.row:  # it is one of the training time
            position = position[:1]
        stored = np.asarray(stored)[position]
        if np.ndim(stored):
            each = len(self.folds) // len(stored)  # folds, or those of a repeat
            stored = stored[fold // each]
        near = np.isclose(stored, model.lam, rtol=max(1e-5, model.lam_doubt), atol=0)
        return bool(near or np.isnan(stored) or model.ties.all())

    def _count_differences(self, position, fold, model):
        """Count the stored predictions of a fold that differ, ties left out."""
        if not self.tested_once:
            return 0
        stored = np.asarray(self.result.predicted)[position][self.result.tests[fold]]
        if self.n_classes is None:
            share = max(TOLERANCES[self.result.parameters["dtype"]], self.noise)
            near = share * np.ptp(self.result.y)
            near = near if model.doubt is None else near + model.doubt
            differ = np.abs(stored - model.predicted) > near
        else:
            differ = stored != model.predicted
        return int(np.sum(differ & ~model.ties))


@dataclass(frozen=True)
class Cell:
    """A position under one labelling, whose folds are refitted."""

    cells: Cells
    position: tuple
    permutation: int
    #: The number of a twin, whose features are moved as far as they may be from those
    #: decoded; 0: as they are.
    twin: int = 0

    # ------------------------------------------------------------------ its trials

    @cached_property
    def twins(self):
        """Cells of moved features; none if data are those that were decoded."""
        if self.twin or not self.cells.noise:
            return []
        return [replace(self, twin=1 + i) for i in range(_TWINS)]

    @cached_property
    def _features(self):
        """Features (n, p) to train with, and to test with."""
        positions, number = (
            self.cells.runner.positions,
            self.cells.number(self.position),
        )
        if self.cells.is_precomputed:
            numbers = np.arange(len(positions.X))[:, np.newaxis]
            return numbers, numbers
        X = self._moved(np.asarray(positions.samples(number)[0], float))
        if not positions.row:
            return X, X
        test = positions.test.features(self.position[-1])
        return X, self._moved(np.asarray(test, float), 1)

    def _moved(self, values, which=0):
        """Features, or confounds, of a twin; others as they are."""
        if not self.twin or values is None:
            return values
        rng = np.random.default_rng([self.twin, which])
        return moved(values, self.cells.noise, rng)

    @cached_property
    def _recipe(self):
        """How models are trained, perhaps with some of the features only."""
        cells, recipe = self.cells, self.cells.recipe
        positions, number = cells.runner.positions, cells.number(self.position)
        columns = None
        if hasattr(positions, "indptr"):
            columns = positions.indices[slice(*positions.indptr[number : number + 2])]
        elif getattr(positions, "channels", None):
            columns = positions.channels[number // positions.n_windows]
        if columns is not None:
            kernels = tuple(for_columns(each, columns) for each in recipe.kernels)
            recipe = replace(recipe, kernels=kernels)
        if self.twin and recipe.gram is not None:
            rng = np.random.default_rng(self.twin)
            recipe = replace(recipe, gram=moved_gram(recipe.gram, cells.noise, rng))
        return recipe

    def _draw(self, fold, second=False):
        """What is trained with, what is tested, and the two sets of a fold.

        (members, labels, groups) of both sides; members are None where trials are not
        averaged.
        """
        cells, b = self.cells, self.permutation
        task, positions = cells.runner.task, cells.runner.positions
        repeat, number = divmod(fold, len(cells.folds) // cells.n_repeats)
        if task.draws is None:
            labels, members = task.labels[b], None
            if self._inside:
                members = cells.result.members
            tested = getattr(positions, "test_labels", None)
            if task.folds is None:
                pair = np.arange(len(labels)), np.arange(len(tested))
            else:
                pair = task.folds.pairs[number]
                of_second = task.second
                if tested is None:
                    tested = labels if not second else of_second[0]
                elif not second and of_second is not None and len(of_second) > 1:
                    tested = of_second[b]
            groups, sides = cells.result.groups, (members, members)
        else:
            averaged = task.draws.cells is not None
            draw = task.draws.draw(b, repeat, 0 if second and averaged else None)
            labels, groups, pair = draw.codes, draw.groups, draw.folds.pairs[number]
            sides = (None, None) if draw.sides is None else draw.sides
            tested = task.draws.labels[0] if second and not averaged else labels
            if len(sides) == 2 and draw.sides is not None:
                first = len(sides[0])
                labels, tested = labels[:first], labels[first:]
                groups = None if groups is None else groups[:first]
                pair = pair[0], pair[1] - first
            sides = sides[0], sides[-1]
        if cells.is_regression:
            labels, tested = (task.mean + task.scale * x for x in (labels, tested))
        return sides, (labels, groups), tested, pair

    @cached_property
    def _inside(self):
        """Whether averages are means in the feature space of a kernel."""
        if self.cells.result.parameters.get("average") is None:
            return False
        return not all(kernel["name"] in LINEAR for kernel in self.cells.kernels)

    def _learns_in_folds(self):
        """Whether penalties and widths are those of each training set."""
        task = self.cells.runner.task
        folds = task.folds if task.draws is None else task.draws.folds
        parts = folds is not None and folds.trains is not None
        parts = parts or self.cells.result.parameters.get("average_test") is False
        return parts or bool(task.learned)

    # ----------------------------------------------------------------------- its models

    def model(self, fold, second=False):
        """The prediction of a fold's test trials, maybe for the second test.

        What data that are as far from those decoded may change is in doubt.
        """
        key = self.position, self.permutation, self.twin, fold, second, "model"
        known = self.cells.known
        if key not in known:
            found = self._refitted(fold, second)
            if self.twins:
                twins = [twin.model(fold, second) for twin in self.twins]
                noise = self.cells.noise / self._recipe.rounding
                found = with_doubt(found, twins, noise)
            known[key] = found
        return known[key]

    def _refitted(self, fold, second):
        """The prediction of a fold's test trials."""
        (X, X_test), learned = self._features, self.cells.runner.task.learned
        (members, of_tested), (labels, groups), true, pair = self._draw(fold, second)
        seen = X if self._inside else None
        confounds = self._moved(learned.confounds)
        others = confounds
        if self.cells.runner.task.folds is None:
            others = self._moved(learned.others)
        train, test = pair
        everybody = Sample(_side(X, members, self._inside), labels, groups)
        trained = replace(everybody, confounds=_side(confounds, members))[train]
        X_test = _side(X_test, of_tested, self._inside)
        tested = Sample(X_test, true, None, _side(others, of_tested))[test]
        recipe = self._recipe
        if second:
            recipe = replace(recipe, most=_MOST_OF_SECOND)
        if self._learns_in_folds():
            return refit(trained, tested, recipe, seen=seen)
        pairs = [self._draw(i, second)[3] for i in self.cells.folds]
        pairs = pairs[: len(pairs) // self.cells.n_repeats]
        rows = np.unique(np.concatenate([train for train, _ in pairs]))
        everybody = replace(everybody, labels=None)
        return refit(trained, tested, recipe, everybody, rows, seen)

    def score(self, name, folds, models, second=False):
        """A metric of some folds by their models; the mean over repeats."""
        sets, each = {}, len(self.cells.folds) // self.cells.n_repeats
        for fold, model in zip(folds, models, strict=True):
            _, _, true, (train, test) = self._draw(fold, second)
            found = true[test], model.predicted, model.scores, len(train)
            sets.setdefault(fold // each, []).append(found)
        some = self.cells.n_classes, self.cells.chosen_pairs
        return np.mean([score(name, found, *some) for found in sets.values()], axis=0)

    # ------------------------------------------------------------------ its doubts

    def slack(self, name, folds, models, second=False):
        """By how much ties, and data that are as near, may change a metric."""
        n_classes, chosen = self.cells.n_classes, self.cells.chosen_pairs
        share = np.mean(np.concatenate([model.ties for model in models]))
        if n_classes is None or name == "crossnobis" or name in chosen:
            # Of values, or of scores, which another penalty that is as good may change.
            return np.inf if share else self.change(name, folds, models, second)
        if name == "accuracy":
            return share
        if name == "pairwise_accuracy":
            return share * 2 * n_classes + self.change(name, folds, models, second)
        if name != "roc_auc":  # one prediction is of a class, which may be small
            return share * 2 * n_classes
        return undecided_pairs(models)

    def change(self, name, folds, models, second=False):
        """By how much data that are as near may change a metric."""
        if not self.twins:
            return 0.0
        again = self.score(name, folds, models, second)
        others = [
            twin.score(name, folds, [twin.model(i, second) for i in folds], second)
            for twin in self.twins
        ]
        change = np.abs(np.subtract(others, again)).max(axis=0)
        # No less than the distance itself, as all four may be small by chance.
        return _OF_TWINS * change + self.cells.noise * np.maximum(1, np.abs(again))


def _side(values, members, inside=False):
    """Values (n, ...) of trials, or their means over each average.

    Where means are those in the feature space of a kernel, the trials of each average,
    (m, k, ...), which the kernel is the mean over.
    """
    if members is None or values is None:
        return values
    each = values[members]
    return each if inside else each.mean(axis=1)


def with_doubt(model, twins, noise):
    """A prediction in doubt where those of twins, of moved data, differ.

    Other data that are as far away differ as much in size, but not in direction. Their
    distance, `noise`, is in units of rounding.
    """
    lam_doubt = max(abs(twin.lam / model.lam - 1) for twin in twins)
    if model.scores is None:
        change = max(np.abs(twin.predicted - model.predicted).max() for twin in twins)
        doubt, near = np.full(len(model.predicted), _OF_TWINS * change), False
    else:
        seen = np.isfinite(model.scores)
        change = max(np.abs((twin.scores - model.scores)[seen]).max() for twin in twins)
        doubt = model.doubt * (1 + noise) + _OF_TWINS * change
        best, second = np.sort(model.scores, axis=1)[:, :-3:-1].T
        near = best - second <= doubt
    return replace(
        model,
        ties=model.ties | near | (lam_doubt > 0.1),  # where another one is chosen
        doubt=doubt,
        lam_doubt=_OF_TWINS * lam_doubt,
    )


def undecided_pairs(models):
    """The share of pairs of trials whose order rounding may have changed."""
    found = []
    for model in models:
        scores = np.where(np.isfinite(model.scores), model.scores, 0.0)
        doubt = np.add.outer(model.doubt, model.doubt)
        for k in range(scores.shape[1]):
            apart = scores[:, k] - np.delete(scores, k, axis=1).max(axis=1)
            near = np.abs(np.subtract.outer(apart, apart)) <= doubt
            found.append(
                near[~np.eye(len(near), dtype=bool)].mean() if len(near) > 1 else 0
            )
    return 4 * float(np.mean(found))
