"""What a result says against what is refitted: the cells, and the verdict."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property, partial
from os import PathLike
from typing import Any

import numpy as np
import pandas as pd

from ..results.base import SubjectResult
from ..results.group import GroupResult
from ..results.load import load_result
from ..utils.checks import check_count, draw_seed
from .claims import Claims
from .differences import differences_of_counts
from .distance import moved, moved_gram
from .groups import verify_group
from .kept import Kept
from .reading import NotCovered, of_the_file
from .refit import Sample, refit
from .scoring import score
from .verdict import Verification

#: How many twins of a cell have features that are moved at random, and how much more
#: than these other data, that are as far away, may change.
_TWINS, _OF_TWINS = 4, 10
#: The largest penalty in the second test of time generalization.
_MOST_OF_SECOND = 0.3


def verify(
    result: Any | str | PathLike[str],
    data: Any,
    y: Any = None,
    *,
    n_cells: int | None = 20,
    random_state: int | None = None,
    **given: Any,
) -> Verification:
    """Check a result against the data, by refitting some of its models.

    A cell of a result is a position, a fold and a permutation. Cells are drawn at
    random, and the models of each are trained anew from the data, by scikit-learn and
    NumPy and without any of the shortcuts by which the result was made. Then every
    prediction, the score of the fold, the penalty, and under permuted labels the score
    in the null distribution are compared with those in the result. Before that, folds
    and permuted labels are drawn anew, and scores are worked out again from the
    predictions that the result holds, at all positions.

    The result of a group is checked against those of its subjects, which are
    identified by checksums: second-level permutations are drawn anew, and statistics
    and p-values are worked out again.

    Parameters
    ----------
    result : result | str | path-like
        What a decoding function or `group_inference` returned, or a file that its
        ``save`` wrote.
    data : array_like | mne.Epochs | images | list
        The data that the function was given, its first argument, such as a list of
        source estimates. For a group, the list of its subjects' results, or paths.
    y : array_like | str | list | dict | tuple | None
        The labels that it was given, its second argument.
    n_cells : int | None
        How many cells to refit. About half of them are of the observed labels, the
        others of permuted ones. None: all there are, which may take long. Of a group
        with no more than 8 million numbers (permutations times positions) everything
        is compared, whatever this says, and it is the number of rows of the table.
    random_state : int | None
        Seed of the draw of cells. None draws others every time, so that nobody can
        know beforehand which will be checked.
    **given
        What else the function was given that is data, by the same names: ``groups``,
        ``confounds``, ``train_on``, ``X_test``, ``test_epochs``, ``y_test``,
        ``mask_img``, ``labels_img``, ``adjacency``, ``sensors``, ``src``, ``mesh``.
        Of a file also what files hold only the name or the checksum of: ``kernel``, if
        it is a function, a graph or a matrix, and ``cv``, if it is a list of folds and
        trials are averaged.
        For a group, ``other``, the results of the other group or condition.

    Returns
    -------
    verification : Verification
        ``.ok`` is True only if all that was looked at agrees and everything could be
        looked at. The verdict says how much was.
        ``.cells`` is a DataFrame of the cells, ``.differences`` and ``.unverified`` say
        in words what differs, and what could not be looked at.

    Raises
    ------
    TypeError
        If what is given is no result, or no data that a decoding function takes, or for
        a group anything but results of subjects.
    ValueError
        If the file is not a result file, or is damaged.

    See Also
    --------
    load_result : Loads a result from its file.

    Notes
    -----
    What is done with data before a decoding function is given them, such as filters and
    the rejection of trials, is not checked, nor what else was tried and not reported.
    One edited score under permuted labels is found if its cell is drawn; the
    observed scores are worked out again everywhere. The verdict says how many cells
    there are, and which share of them may differ all the same, with 95 % confidence.
    See :doc:`/checking`.

    Predictions may differ where two classes score the same but for rounding. Such ties
    are counted, and are no difference. Data that differ by rounding, as after saving
    in single precision, are refitted all the same, and a note tells by how much they
    differ; what such a difference may change counts as a tie.

    Examples
    --------
    >>> import numpy as np
    >>> from mvpa_kfda import decode_arrays, verify
    >>> rng = np.random.default_rng(0)
    >>> X, y = rng.normal(size=(40, 5, 3)), rng.permutation(np.repeat(["a", "b"], 20))
    >>> result = decode_arrays(X, y, n_permutations=20)
    >>> verify(result, X, y).ok
    True
    >>> print(verify(result, X[::-1], y))
    The result does NOT hold: the data are in another order than those recorded.
    """
    if isinstance(result, str | PathLike):
        result = load_result(result)
    if not isinstance(result, SubjectResult | GroupResult):
        raise TypeError(
            "verify checks what decoding functions and group_inference return; got "
            f"{type(result).__name__}. Pass the results that it was made of."
        )
    if n_cells is not None:
        n_cells = check_count("n_cells", n_cells, minimum=1)
    rng = np.random.default_rng(draw_seed(random_state))
    try:
        if isinstance(result, GroupResult):
            _refuse_labels(y, given)
            return verify_group(result, data, given.get("other"), n_cells, rng)
        with of_the_file():
            differences = differences_of_counts(result)
        if differences:
            return Verification(differences=tuple(differences))
        claims = Claims.of(result, data, y, given)
        with of_the_file():
            return _compared(claims, n_cells, rng)
    except NotCovered as reason:
        return Verification(unverified=(str(reason),))


def _compared(claims, n_cells, rng):
    """Return what is found of a result, once its data are read."""
    differences = claims.differences()
    if differences:
        return Verification(differences=tuple(differences))
    cells, samples = _Cells(claims).refitted(n_cells, rng)
    others = () if cells["ok"].all() else claims.inputs_apart
    return Verification(
        cells=cells,
        differences=(*others, *claims.differences_of_scores()),
        unverified=tuple(claims.unverified),
        notes=tuple(claims.notes),
        samples=samples,
    )


def _refuse_labels(y, given):
    """Refuse what is data of subjects, where their results are given."""
    wrong = ["y"] * (y is not None) + sorted(set(given) - {"other"})
    if wrong:
        raise TypeError(
            "A group is verified with the results of its subjects, and those of the "
            f"other list as other=; got {', '.join(wrong)}."
        )


@dataclass(frozen=True)
class _Cells:
    """The cells of a result, to be drawn from."""

    claims: Claims

    def refitted(self, n_cells, rng):
        """Return a table of cells that were drawn, and refitted, and of how many."""
        drawn = self._drawn(n_cells, rng)
        kept = Kept(self.claims, partial(Cell, self.claims))
        rows = [self._row(*cell) for cell in drawn] + kept.rows(n_cells, rng)
        return pd.DataFrame(rows), (*self._samples(drawn), *kept.samples)

    def _samples(self, drawn):
        """Return how many cells are looked at, of how many: observed and permuted."""
        claims, n = self.claims, int(self.claims.is_decoded.sum())
        whole = {i for i, fold, b in drawn if fold is None and b == 0}
        single = {(i, fold) for i, fold, b in drawn if fold is not None}
        left = {each for each in single if each[0] not in whole}
        n_folds = len(claims.folds)
        n_observed = n * n_folds
        # A whole position counts as one draw, which it is.
        is_complete = len(whole) * n_folds + len(left) == n_observed
        n_looked_at = n_observed if is_complete else len(whole) + len(left)
        n_permuted = sum(b > 0 for *_, b in drawn)
        yield "cell of the observed labels", n_looked_at, n_observed
        if claims.n_nulls:
            yield "cell of permuted labels", n_permuted, n * claims.n_nulls

    def _drawn(self, n_cells, rng):
        """Return (position, fold, permutation) of cells; of folds None is all."""
        claims = self.claims
        positions = [tuple(i.tolist()) for i in np.argwhere(claims.is_decoded)]
        folds, n_permutations = range(len(claims.folds)), claims.n_nulls
        if n_cells is None:
            observed = [(i, fold, 0) for i in positions for fold in (None, *folds)]
            permuted = range(1, n_permutations + 1)
            return observed + [(i, None, b) for i in positions for b in permuted]

        def draw(values):
            return values[rng.integers(len(values))]

        n_permuted = min(n_cells // 2, n_permutations * len(positions))
        first = draw(positions)  # of which all folds are looked at
        cells = {(first, None, 0): None}  # kept in order, each once
        others = [i for i in positions if i != first] or positions
        most = len(others) * len(folds)
        while len(cells) < min(n_cells - n_permuted, most + 1):
            cells[draw(others), draw(folds), 0] = None
        n_observed = len(cells)
        while len(cells) < n_observed + n_permuted:
            cells[draw(positions), None, 1 + int(rng.integers(n_permutations))] = None
        return list(cells)

    def _row(self, position, fold, b):
        """Return what is said of a cell, and what is refitted."""
        claims = self.claims
        folds = range(len(claims.folds)) if fold is None else [fold]
        cell = Cell(claims, position, b)
        models = [cell.models[i] if fold is None else cell.model(i) for i in folds]
        n_differ, n_ties = 0, sum(int(model.ties.sum()) for model in models)
        fine, names = True, claims.metrics
        if b == 0:
            for i, model in zip(folds, models, strict=True):
                fine &= claims.agrees_on_penalty(position, i, model)
                n_differ += claims.count_differences(position, i, model)
        compared, slacks = [], []
        for name in names:
            for stored, second in claims.stored(name, position, fold, b):
                how = name, folds, cell.second_models if second else models, second
                compared.append((name, (stored, cell.score(*how))))
                slacks.append(cell.slack(*how))
        fine &= n_differ == 0
        claims.say_if_undecided(slacks)
        fine &= all(
            claims.agrees(*each, slack)
            for (_, each), slack in zip(compared, slacks, strict=True)
        )
        if b == 0 and fold is None:
            for name in claims.tables:
                again = cell.score(name, folds, models)
                change = cell.change(name, folds, models)
                fine &= claims.agrees_on_table(position, name, again, change)
        where = position if len(position) != 1 else position[0]
        stored, again = compared[0][1] if compared else (np.nan, np.nan)
        return {
            "position": where,
            "fold": "all" if fold is None else fold,
            "permutation": b,
            "n_trials": sum(len(model.predicted) for model in models),
            "n_differ": n_differ,
            "n_ties": n_ties,
            "score": stored,
            "score_refitted": again,
            "ok": bool(fine),
        }


@dataclass(frozen=True)
class Cell:
    """A position under one labelling, whose folds are refitted."""

    claims: Claims
    position: tuple
    permutation: int
    #: The number of a twin, whose features are moved as far as they may be from those
    #: decoded; 0: as they are.
    number: int = 0

    @cached_property
    def twins(self):
        """Cells of moved features; none if data are those that were decoded."""
        if self.number or not self.claims.noise:
            return []
        return [replace(self, number=1 + i) for i in range(_TWINS)]

    @cached_property
    def _features(self):
        reading = self.claims.reading
        X = self._moved(reading.train(self.position))
        test = reading.test
        return X, X if test is None else self._moved(test(self.position), 1)

    def _moved(self, values, which=0):
        """Return features, or confounds, of a twin; others as they are."""
        if not self.number or values is None or values.dtype.kind != "f":
            return values  # the numbers of trials, of a precomputed kernel
        rng = np.random.default_rng([self.number, which])
        return moved(values, self.claims.noise, rng)

    @cached_property
    def _method(self):
        """How models are trained."""
        method = self.claims.method_at(self.position)
        if not self.number or method.gram is None:
            return method
        how = self.claims.noise, np.random.default_rng(self.number)
        return replace(method, gram=moved_gram(method.gram, *how))

    def _place(self, fold):
        """Return the repeat that a fold is in, and its training and test sets."""
        repeat, number = divmod(fold, self.claims.n_folds)
        made = self.claims.round(self.permutation, repeat)
        return made, *made.pairs[number]

    def _tested(self, fold, second=False):
        """Return the repeat whose samples a fold tests, and what is true of them.

        Labels that stay have their own averages, in the places of the others.
        """
        claims = self.claims
        b = 0 if second else self.permutation
        made = claims.round(
            b if claims.regroups else self.permutation, fold // claims.n_folds
        )
        return made, claims.of_tested(claims.true(self.permutation, second), made)

    def model(self, fold, second=False):
        """Return the prediction of a fold's test trials, maybe for the second test.

        What data that are as far from those decoded may change is in doubt.
        """
        found = self._refitted(fold, second)
        if not self.twins:
            return found
        twins = [twin.model(fold, second) for twin in self.twins]
        return with_doubt(found, twins, self.claims.noise / self._method.rounding)

    def _refitted(self, fold, second):
        """Return the prediction of a fold's test trials."""
        claims, (X, X_test) = self.claims, self._features
        made, train, test = self._place(fold)
        labels = claims.of_samples(claims.labels[self.permutation], made)
        groups = claims.of_samples(claims.groups, made)
        inside = claims.averages_in_feature_space
        seen = X if inside else None
        elsewhere, true = self._tested(fold, second)
        X, X_test = made.trained(X, inside), elsewhere.tested(X_test, inside)
        confounds = made.trained(self._moved(claims.confounds))
        trained = Sample(X, labels, groups, confounds)[train]
        confounds = elsewhere.tested(self._moved(claims.confounds_test))
        tested = Sample(X_test, true, None, confounds)
        method = self._method
        if second:
            method = replace(method, most=_MOST_OF_SECOND)
        if claims.learns_in_folds:
            return refit(trained, tested[test], method, seen=seen)
        everybody = Sample(X, None, groups)
        rows = np.unique(np.concatenate([rows for rows, _ in made.pairs]))
        return refit(trained, tested[test], method, everybody, rows, seen)

    @cached_property
    def models(self):
        """The predictions of all folds."""
        return [self.model(fold) for fold in range(len(self.claims.folds))]

    @cached_property
    def second_models(self):
        """The predictions of all folds in the second test."""
        return [self.model(fold, True) for fold in range(len(self.claims.folds))]

    def score(self, name, folds, models, second=False):
        """Return a metric of some folds by their models, perhaps in the second test.

        The mean over repeats.
        """
        sets = {}
        for fold, model in zip(folds, models, strict=True):
            _, train, test = self._place(fold)
            true = self._tested(fold, second)[1][test]
            each = true, model.predicted, model.scores, len(train)
            sets.setdefault(fold // self.claims.n_folds, []).append(each)
        how = self.claims.method.n_classes, self.claims.chosen_pairs
        return np.mean([score(name, each, *how) for each in sets.values()], axis=0)

    def slack(self, name, folds, models, second=False):
        """Return by how much ties, and data that are as near, may change a metric."""
        n_classes, chosen = self.claims.method.n_classes, self.claims.chosen_pairs
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
        """Return by how much data that are as near may change a metric."""
        if not self.twins:
            return 0.0
        score = self.score(name, folds, models, second)
        others = [
            twin.score(name, folds, [twin.model(i, second) for i in folds], second)
            for twin in self.twins
        ]
        change = np.abs(np.subtract(others, score)).max(axis=0)
        # No less than the distance itself, as all four may be small by chance.
        return _OF_TWINS * change + self.claims.noise * np.maximum(1, np.abs(score))


def with_doubt(model, twins, noise):
    """Return a prediction in doubt where those of twins, of moved data, differ.

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
    """Return the share of pairs of trials whose order rounding may have changed."""
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
