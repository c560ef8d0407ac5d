"""Single models of a result, refitted, against what the file says of them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from itertools import combinations

import numpy as np
from scipy.sparse import issparse

from ..utils.plain import recorded
from .compare import OF_SINGLE, TOLERANCES
from .refit import (
    LINEAR,
    Known,
    Recipe,
    Sample,
    chosen_without_labels,
    refit,
    sees_offsets,
)
from .scoring import OF_ORDER, OF_PROBABILITIES, PAIRS, is_covered, score

#: Scores of classes that are nearer than this are ties, relative to their size.
_ROUNDING = {"float64": 1e-9, "float32": 1e-4}
#: By how much more than features differ, relative to their size, scores of classes may
#: differ, and metrics and penalties.
_OF_SCORES, _OF_METRICS = 10, 1e4
#: The largest penalty in the second test of time generalization.
_MOST_OF_SECOND = 0.3
_UNDECIDED = (
    "In some cells rounding may have decided between penalties, so that their scores "
    "were not compared."
)


def _completed(kernel):
    """The record of a kernel, with the function or matrix that a file does not hold."""
    record = recorded(kernel)
    if record["name"] == "AveragedKernel":  # averages are drawn here
        return _completed(kernel.kernel)
    for name in {"Omega", "adjacency"} & {*dir(kernel)}:
        matrix = getattr(kernel, name)
        record[name] = matrix.toarray() if issparse(matrix) else matrix
    if "function" in record:
        record["function"] = kernel.function
    if "kernel" in record:  # an approximation, or a map, of another kernel
        record["kernel"] = _completed(kernel.kernel)
    return record


class Cells:
    """The cells of a result, refitted with what the package decoded.

    Trials, labels and folds are those that were read and drawn when the result was
    computed again, by a `Recomputation`; models, predictions and scores are not.
    """

    def __init__(self, result, run):
        self.result, self.run, self.notes = result, run, run.notes
        parameters = result.parameters
        self.is_regression = parameters.get("task") == "regression"
        self.n_classes = None if self.is_regression else len(result.classes)
        #: The length of the circle that values lie on.
        self.period = parameters.get("period")
        self.n_repeats = parameters.get("n_repeats", 1)
        self.folds = range(len(result.tests))
        self.tested_once = np.bincount(np.concatenate(result.tests)).max() == 1
        self.is_tested_twice = run.task.second is not None
        self.is_averaged = parameters.get("average") is not None
        #: By how much features may differ from those that were decoded.
        self.noise = run.noise(any(map(sees_offsets, self.kernels(0))))
        #: How nearly scores agree, that may be kept in single precision, and how nearly
        #: those of features that differ.
        self.exact = TOLERANCES[parameters["dtype"]]
        if parameters.get("null"):
            self.exact = max(self.exact, OF_SINGLE)
        self.tolerance = max(self.exact, min(1e-2, _OF_METRICS * self.noise))
        #: Metrics of pairs of classes by name: the table, and which of its entries.
        self.chosen_pairs = {}
        for name, pairs in parameters.get("pairs", {}).items():
            of_all = enumerate(combinations(map(str, result.classes), 2))
            at = {frozenset(pair): i for i, pair in of_all}
            numbers = [at[frozenset(map(str, pair))] for pair in pairs]
            self.chosen_pairs[name] = parameters["pairs_of"], numbers
        some = self.n_classes, self.chosen_pairs
        self.metrics = [x for x in result.scalar_metrics if is_covered(x, *some)]
        self.tables = [name for name in PAIRS.values() if name in result.metrics]
        #: The positions that were run, as tuples of indices along the map.
        self.places = [
            (*map(int, i), *cell)
            for i in np.argwhere(run.done)
            for cell in np.ndindex(*run.positions.row)
        ]
        #: What has been refitted, by position, fold, permutation and so on.
        self.known = {}

    @property
    def left_out(self):
        """The metrics that nothing here computes."""
        known = [*self.metrics, *PAIRS.values(), "confusion_matrix"]
        return [name for name in self.result.metrics if name not in known]

    def kernels(self, number):
        """The records of a position's kernel, or of those to choose from."""
        kernel = self.run.positions.samples(number)[1]
        return tuple(map(_completed, getattr(kernel, "kernels", [kernel])))

    def once(self, key, made):
        """What is made once."""
        if key not in self.known:
            self.known[key] = made()
        return self.known[key]

    # -------------------------------------------------------------------- the table

    def row(self, position, fold, b):
        """What is said of a cell and refitted, and the slack of its scores."""
        key = position, fold, b
        return self.once(key, lambda: self._row(*key))

    def _row(self, position, fold, b):
        cell, folds = Cell(self, position, b), self.folds if fold is None else [fold]
        models = [cell.model(i) for i in folds]
        fine, n_differ, compared, slacks = True, 0, [], {}
        if b == 0:
            for i, model in zip(folds, models, strict=True):
                fine &= self._agrees_on_penalty(position, i, model)
                n_differ += self._count_differences(position, i, model)
        tables = self.tables if b == 0 and fold is None else []
        for name in [*self.metrics, *tables]:
            for stored, second in self._stored(name, position, fold, b):
                some = [cell.model(i, True) for i in folds] if second else models
                again = cell.score(name, folds, some, second)
                slack = slacks[name, second] = cell.slack(name, some)
                near = self.tolerance * np.maximum(1, np.abs(again)) + slack
                same = np.isnan(stored) & np.isnan(again)
                fine &= bool(np.all(same | (np.abs(stored - again) <= near)))
                compared.append((stored, again))
        if any(np.isinf(each).any() for each in slacks.values()):
            if _UNDECIDED not in self.notes:
                self.notes.append(_UNDECIDED)
        stored, again = compared[0] if self.metrics and compared else (np.nan, np.nan)
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

    def _stored(self, name, position, fold, b):
        """Yield the scores of a cell, and whether of the second test."""
        result, tests = self.result, (False, True)[: 1 + self.is_tested_twice]
        if b:
            for second in tests:
                found = self.run.permuted(name, position, b, second)
                if found is not None:
                    yield found, second
        elif name in self.tables:
            kind = "accuracy" if name == "pairwise_accuracies" else "crossnobis"
            yield np.asarray(result.rdm(kind))[position], False
        elif fold is None:
            for second in tests:
                scores = result.metrics | (result.second_scores if second else {})
                yield np.asarray(scores[name])[position], second
        else:
            of_fold = result.fold_metrics[name][(*position, fold)]
            if not np.isnan(of_fold):  # else of a single class, say
                yield of_fold, False

    def _agrees_on_penalty(self, position, fold, model):
        """Whether the lambda of a fold is the stored one."""
        stored = self.result.penalty.get("lambda")
        if stored is None:
            return True
        if self.run.positions.row:  # it is one of the training time
            position = position[:1]
        stored = np.asarray(stored)[position]
        if np.ndim(stored):
            each = len(self.folds) // len(stored)  # folds, or those of a repeat
            stored = stored[fold // each]
        rtol = max(1e-5, self.tolerance * bool(self.noise))
        near = np.isclose(stored, model.lam, rtol=rtol, atol=0)
        return bool(near or np.isnan(stored) or model.ties.all())

    def _count_differences(self, position, fold, model):
        """Count the stored predictions of a fold that differ, ties left out."""
        if not self.tested_once:
            return 0
        stored = np.asarray(self.result.predicted)[position][self.result.tests[fold]]
        differ = stored != model.predicted
        if self.is_regression:
            apart, size = stored - model.predicted, np.ptp(self.result.y)
            if self.period:
                size = self.period
                apart -= size * np.round(apart / size)
            differ = np.abs(apart) > self.tolerance * size
        return int(np.sum(differ & ~model.ties))


@dataclass(frozen=True)
class Cell:
    """A position under one labelling, whose folds are refitted."""

    cells: Cells
    position: tuple
    permutation: int

    # ------------------------------------------------------------------ its trials

    @cached_property
    def _number(self):
        """The number of the position that the cell is of."""
        return self.cells.run.number(self.position)

    @cached_property
    def _features(self):
        """Features (n, p) to train with, and to test with."""
        positions = self.cells.run.positions
        if self._recipe.gram is not None:
            return (np.arange(len(positions.X))[:, np.newaxis],) * 2
        X = np.asarray(positions.samples(self._number)[0], float)
        if not positions.row:
            return X, X
        return X, np.asarray(positions.test.features(self.position[-1]), float)

    @cached_property
    def _recipe(self):
        """How models are trained."""
        cells, parameters = self.cells, self.cells.result.parameters
        kernels, steps = cells.kernels(self._number), cells.run.task.learned.steps
        is_gram = kernels[0]["name"] == "Precomputed"
        return Recipe(
            *(kernels, parameters["reg"], cells.n_classes, steps),
            parameters.get("n_components"),
            cells.run.positions.X if is_gram else None,
            max(_ROUNDING[parameters["dtype"]], _OF_SCORES * cells.noise),
            period=cells.period,
        )

    def _draw(self, fold, second=False):
        """What is trained with, what is tested, and the two sets of a fold.

        (members, labels, groups) of both sides; members are None where trials are not
        averaged.
        """
        cells, b = self.cells, self.permutation
        task, positions = cells.run.task, cells.run.positions
        repeat, number = divmod(fold, len(cells.folds) // cells.n_repeats)
        if task.draws is None:
            labels = task.labels[b]
            members = cells.result.members if self._inside else None
            tested = getattr(positions, "test_labels", None)
            if task.folds is None:
                pair = np.arange(len(labels)), np.arange(len(tested))
            else:
                pair = task.folds.pairs[number]
                if tested is None:
                    tested = task.second[0] if second else labels
                elif not second and task.second is not None and len(task.second) > 1:
                    tested = task.second[b]
            groups, sides = cells.result.groups, (members, members)
        else:
            averaged = task.draws.cells is not None
            draw = task.draws.draw(b, repeat, 0 if second and averaged else None)
            labels, groups, pair = draw.codes, draw.groups, draw.folds.pairs[number]
            sides = draw.sides or (None,)
            tested = task.draws.labels[0] if second and not averaged else labels
            if len(sides) == 2:
                first = len(sides[0])
                labels, tested = labels[:first], labels[first:]
                groups = None if groups is None else groups[:first]
                pair = pair[0], pair[1] - first
            sides = sides[0], sides[-1]
        if cells.is_regression:
            labels, tested = (task.mean + task.scale * x for x in (labels, tested))
        return sides, (labels, groups), tested, pair

    @property
    def _inside(self):
        """Whether averages are means in the feature space of a kernel."""
        kernels = self._recipe.kernels
        return self.cells.is_averaged and any(x["name"] not in LINEAR for x in kernels)

    # ----------------------------------------------------------------------- its models

    def model(self, fold, second=False):
        """The prediction of a fold's test trials, maybe for the second test."""
        key = self.position, self.permutation, fold, second, "model"
        return self.cells.once(key, lambda: self._model(fold, second))

    def _model(self, fold, second):
        cells, recipe, task = self.cells, self._recipe, self.cells.run.task
        (X, X_test), learned = self._features, task.learned
        (members, of_tested), (labels, groups), true, pair = self._draw(fold, second)
        confounds = learned.confounds
        others = learned.others if task.folds is None else confounds
        everybody = Sample(_side(X, members, self._inside), labels, groups)
        trained = replace(everybody, confounds=_side(confounds, members))[pair[0]]
        X_test = _side(X_test, of_tested, self._inside)
        tested = Sample(X_test, true, None, _side(others, of_tested))[pair[1]]
        seen, known, chosen = X if self._inside else None, None, None
        if second:
            recipe = replace(recipe, most=_MOST_OF_SECOND)
        folds = task.folds if task.draws is None else task.draws.folds
        in_folds = bool(learned) or (folds is not None and folds.trains is not None)
        if not in_folds and cells.result.parameters.get("average_test") is not False:
            n_folds = len(cells.folds) // cells.n_repeats
            trains = [self._draw(i, second)[3][0] for i in range(n_folds)]
            rows = np.unique(np.concatenate(trains))
            everybody = replace(everybody, labels=None)
            seen = everybody.X if seen is None else seen
            known = Known(everybody, everybody[rows], seen, recipe.gram)
            draw = task.draws and (self.permutation, fold // n_folds)
            key, of_all = (self._number, second, draw), (recipe, known)
            chosen = cells.once(key, lambda: chosen_without_labels(*of_all))
        return refit(trained, tested, recipe, known, chosen, seen)

    def score(self, name, folds, models, second=False):
        """A metric of some folds by their models; the mean over repeats."""
        sets, each = {}, len(self.cells.folds) // self.cells.n_repeats
        for fold, model in zip(folds, models, strict=True):
            _, _, true, (train, test) = self._draw(fold, second)
            found = true[test], model.predicted, model.scores, len(train)
            sets.setdefault(fold // each, []).append(found)
        cells = self.cells
        some = cells.n_classes, cells.chosen_pairs, cells.period
        return np.mean([score(name, found, *some) for found in sets.values()], axis=0)

    def slack(self, name, models):
        """By how much ties may change a metric."""
        n_classes, cells = self.cells.n_classes, self.cells
        share = np.mean(np.concatenate([model.ties for model in models]))
        if name in cells.tables:
            return 0.0
        of_scores = ("crossnobis", *OF_PROBABILITIES, *cells.chosen_pairs)
        if n_classes is None or name in of_scores:
            # Of values, or of scores, which another penalty that is as good may change.
            return np.inf if share else 0.0
        if name in OF_ORDER:
            share = _undecided_pairs(models)
            return share if name == "roc_auc" or not share else np.inf
        # One prediction is of a class, which may be small.
        return share if name == "accuracy" else share * 2 * n_classes


def _side(values, members, inside=False):
    """Values (n, ...) of trials, or their means over each average.

    Where means are those in the feature space of a kernel, the trials of each average,
    (m, k, ...), which the kernel is the mean over.
    """
    if members is None or values is None:
        return values
    each = values[members]
    return each if inside else each.mean(axis=1)


def _undecided_pairs(models):
    """The share of pairs of trials whose order rounding may have changed."""
    found = []
    for model in models:
        scores = np.where(np.isfinite(model.scores), model.scores, 0.0)
        doubt = np.add.outer(model.doubt, model.doubt)
        for k in range(scores.shape[1]):
            apart = scores[:, k] - np.delete(scores, k, axis=1).max(axis=1)
            near = np.abs(np.subtract.outer(apart, apart)) <= doubt
            np.fill_diagonal(near, False)
            found.append(near.sum() / max(1, near.size - len(near)))
    return 4 * float(np.mean(found))
