"""Is a result right? It is computed again, and some of its models are refitted."""

from __future__ import annotations

from os import PathLike
from typing import Any

import numpy as np
import pandas as pd

from ..results.base import SubjectResult
from ..results.group import GroupResult
from ..results.load import load_result
from ..utils.checks import check_count, check_positive, draw_seed
from . import compare, recompute
from .cells import Cells, completed
from .kernels import sees_offsets
from .recompute import MAPS, Different, NotCovered
from .subjects import find_members
from .verdict import Verification

#: So many cells that differ are refitted, to see whether rounding decides there.
_MOST_DECIDED = 40


def verify(
    result: Any | str | PathLike[str],
    data: Any,
    y: Any = None,
    *,
    n_cells: int | None = 20,
    random_state: int | None = None,
    budget: float | None = 60.0,
    **given: Any,
) -> Verification:
    """Check a result against the data: compute it again, and refit some of its models.

    The result is computed again with the options and the seed that it records, and
    everything is compared: scores, scores under permuted labels, predictions, folds,
    penalties, patterns, chance levels, times, places, warnings. Then cells are drawn at
    random, a position, a fold and a permutation each, whose models are trained anew by
    scikit-learn and NumPy, without any of the shortcuts by which results are made.

    The result of a group is computed again from those of its subjects, which are
    identified by checksums.

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
        others of permuted ones. None: all there are, which may take long. Of a group it
        is the number of rows of the table.
    random_state : int | None
        Seed of the draw of cells. None draws others every time, so that nobody can
        know beforehand which will be checked.
    budget : float | None
        Seconds that computing the result again may take. If the whole map would take
        longer, the position with the most extreme score and others drawn at random are
        computed, as many as there is time for. None: all of them.
    **given
        What else the function was given that is data, by the same names: ``groups``,
        ``confounds``, ``train_on``, ``X_test``, ``tmin_test``, ``test_epochs``,
        ``y_test``, ``mask_img``, ``labels_img``, ``adjacency``, ``sensors``, ``src``,
        ``mesh``.
        Of a file also what files hold only the name or the checksum of: ``kernel``, if
        it is a function, a graph or a matrix, ``scoring``, if it is a function, and
        ``cv``, if it is a list of folds and trials are averaged. ``n_jobs`` workers
        compute the result again.
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
    Computing again finds any number that was edited, and uses the package itself; the
    refitted models, which share no code with it, tell whether the package is right. The
    verdict says how many positions and cells there are, and which share of them may
    differ all the same, with 95 % confidence. See :doc:`/checking`.

    Predictions may differ where two classes score the same but for rounding. Such ties
    are counted, and are no difference. Data that differ by rounding, as after saving
    in single precision, are decoded all the same, and a note tells by how much they
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
    if budget is not None:
        check_positive("budget", budget, hint=" It is in seconds.")
    rng = np.random.default_rng(draw_seed(random_state))
    try:
        if isinstance(result, GroupResult):
            return _verify_group(result, data, y, given, n_cells, rng)
        again, runner, call = recompute.recompute(result, data, y, given, budget, rng)
        try:
            return _Check(result, again, runner, call).verification(n_cells, rng)
        except recompute.OF_FILES as error:
            raise NotCovered(recompute.incoherent(error)) from error
    except Different as found:
        return Verification(differences=tuple(found.args[0]))
    except NotCovered as reason:
        return Verification(unverified=(str(reason),))


class _Check:
    """A result, and the same computed again."""

    def __init__(self, result, again, runner, call):
        self.result, self.runner = result, runner
        self.inputs = runner.inputs
        self.notes = [*call.notes, *self.inputs.notes]
        self.unverified = list(self.inputs.unverified)
        self.again = again
        if not runner.is_complete:  # which have been given units of their own since
            self.again = runner.filled(again, ("penalty", "pattern_maps"))
        self.reworded = call.reworded | runner.reworded
        kernels = _kernels_of(result, call)
        noise = self.inputs.noise(any(map(sees_offsets, kernels)))
        self.cells = Cells(result, runner, kernels, noise, self.notes)
        self.is_exact = not self.inputs.apart and self._dtype == "float64"

    @property
    def _dtype(self):
        return self.result.parameters["dtype"]

    def verification(self, n_cells, rng):
        """What is found."""
        differences = [*self._differences(), *self._differences_of_part()]
        try:
            rows = [self.cells.row(*cell)[0] for cell in self._drawn(n_cells, rng)]
        except recompute.OF_FILES:
            if not differences:
                raise
            return Verification(differences=tuple(differences))
        table = pd.DataFrame(rows)
        if len(table) and not table["ok"].all():
            differences = [*self.inputs.other_ones, *differences]
        if self.cells.left_out:
            words = " and ".join(self.cells.left_out)
            self.unverified.append(f"{words} can be computed again, but not refitted")
        return Verification(
            table if len(table) else Verification().cells,
            tuple(dict.fromkeys(differences)),
            tuple(self.unverified),
            tuple(self.notes),
            tuple(self._samples()),
            self.runner.extent,
        )

    # ------------------------------------------------------------- computed again

    def _differences(self):
        """Word what differs, but for what rounding may have decided."""
        tolerance = self.cells.tolerance()
        if self.inputs.apart:
            tolerance = max(tolerance, min(1e-2, 1e4 * self.cells.noise))
        pair = self.result, self.again
        # Of a part there are no summaries, which are compared by themselves.
        without = [kind for kind, each in self.runner.part.items() if each]
        rounded = {"rounded": not self.is_exact}
        for found in compare.differences(*pair, tolerance, without, **rounded):
            if found.path[0] == "parameters" and {*found.path[1:2]} & self.reworded:
                continue
            try:
                is_undecided = self._is_undecided(found)
            except recompute.OF_FILES:  # of a file whose parts do not fit
                is_undecided = False
            if not is_undecided:
                yield found.word()

    def _is_undecided(self, found):
        """Whether rounding may have decided on what differs, by refitted models."""
        kind, *names = found.path
        if found.where is None:
            return False
        if kind.endswith("_summaries"):
            return not self.is_exact and self._is_near(found)
        if kind not in MAPS:
            return False
        lead, n_axes = MAPS[kind], len(self.result.shape)
        of_positions = kind in ("penalty", "class_scores") and self.runner.positions.row
        end = lead + (len(self.runner.positions.shape) if of_positions else n_axes)
        apart = np.abs(np.subtract(found.stored, found.again, dtype=float))
        sizes = {}
        for index in map(tuple, found.where.tolist()):
            place = index[lead:end] + (0,) * (n_axes + lead - end)
            fold = index[end] if kind == "fold_metrics" else None
            cell = place, fold, index[0] + 1 if lead else 0
            sizes.setdefault(cell, []).append(np.nan_to_num(apart[index], nan=np.inf))
        largest = sorted(sizes, key=lambda cell: -max(sizes[cell]))[:_MOST_DECIDED]
        return all(self._decides(kind, names, c, sizes[c]) for c in largest)

    def _decides(self, kind, names, cell, sizes):
        """Whether what differs in a cell by these sizes is within rounding."""
        row, slacks = self.cells.row(*cell)
        n_ties, second = row["n_ties"], kind.startswith("second")
        slack = slacks.get((names[0], second)) if names else None
        if not row["ok"] or not (n_ties or any(np.any(x) for x in slacks.values())):
            return False
        if kind == "predicted" and self.cells.n_classes is not None:
            return len(sizes) <= n_ties
        if names[:1] == ["confusion_matrix"]:
            return sum(sizes) <= 2 * n_ties
        if kind in ("penalty", "class_scores", "predicted") or slack is None:
            return True
        times = self.cells.n_repeats if kind == "repeats" else 1
        return max(sizes) <= times * np.max(slack) + 2 * self.cells.tolerance()

    def _is_near(self, found):
        """Whether summaries of a null differ by no more than some ties may change."""
        n, n_trials = self.result.n_permutations, len(self.result.y)
        at = tuple(found.where.T)
        apart = np.abs(np.subtract(found.stored, found.again, dtype=float)[at])
        most = max(1, n // 100) if found.path[-1] == "exceedances" else 2 / n_trials
        return apart.max() <= most and len(apart) <= max(1, np.size(found.stored) / 20)

    def _differences_of_part(self):
        """Word what differs in summaries of nulls, of which only a part was run."""
        tolerance, runner = self.cells.tolerance(), self.runner
        for kind, summaries in runner.part.items():
            for name, part in summaries.items():
                stored = getattr(self.result, kind)[name]
                for what in ("exceedances", "permuted_moments"):
                    one, two = stored[what], getattr(part, what)
                    one = np.reshape(one, (*np.shape(two)[:-1], -1))[..., runner.among]
                    two = np.reshape(two, one.shape)
                    path = kind, name, what
                    for found in compare.compared(one, two, path, tolerance):
                        if self.is_exact or not self._is_near(found):
                            yield found.word()
                if (stored["maximum"] < part.maximum * (1 - tolerance) - 1e-12).any():
                    yield f"{kind}.{name}.maximum is less than a score that it is of"
                self.unverified.append(
                    f"the largest scores of the permutations ({kind}) are of all "
                    "positions, which budget=None computes"
                )

    # ------------------------------------------------------------------- refitted

    def _drawn(self, n_cells, rng):
        """(position, fold, permutation) of cells; of folds None is all."""
        cells, places = self.cells, self.cells.places
        name = self.result.scalar_metrics[0]
        scores = np.asarray(self.result.metrics[name])
        positions = [i for i in places if not np.isnan(scores[i])]
        known = [i for i in positions if self._has_nulls(name, i)]
        n_permutations, folds = self.result.n_permutations, cells.folds
        if n_cells is None:
            observed = [(i, fold, 0) for i in positions for fold in (None, *folds)]
            permuted = range(1, n_permutations + 1)
            drawn = observed + [(i, None, b) for i in known for b in permuted]
        else:
            drawn = self._some(n_cells, positions, known, n_permutations, rng)
        self._n_permuted = sum(b > 0 for *_, b in drawn)
        self._looked_at = drawn
        self._sizes = len(positions) * len(folds), len(positions) * n_permutations
        return drawn

    def _has_nulls(self, name, position):
        """Whether the scores of a position under permuted labels are known."""
        if not self.result.n_permutations:
            return False
        return self.cells.permuted(name, position, 1) is not None

    def _some(self, n_cells, positions, known, n_permutations, rng):
        """So many cells at random, about half of them of permuted labels."""

        def draw(values):
            return values[rng.integers(len(values))]

        folds = self.cells.folds
        n_permuted = min(n_cells // 2, n_permutations * len(known))
        first = draw(positions)  # of which all folds are looked at
        cells = {(first, None, 0): None}  # kept in order, each once
        others = [i for i in positions if i != first] or positions
        most = len(others) * len(folds)
        while len(cells) < min(n_cells - n_permuted, most + 1):
            cells[draw(others), draw(folds), 0] = None
        n_observed = len(cells)
        while len(cells) < n_observed + n_permuted:
            cells[draw(known), None, 1 + int(rng.integers(n_permutations))] = None
        return list(cells)

    def _samples(self):
        """How many cells are refitted, of how many: observed and permuted."""
        drawn, n_folds = self._looked_at, len(self.cells.folds)
        whole = {i for i, fold, b in drawn if fold is None and b == 0}
        single = {(i, fold) for i, fold, b in drawn if fold is not None}
        left = {each for each in single if each[0] not in whole}
        n_observed, n_permuted = self._sizes
        # A whole position counts as one draw, which it is.
        is_complete = len(whole) * n_folds + len(left) == n_observed
        n_looked_at = n_observed if is_complete else len(whole) + len(left)
        yield "cell of the observed labels", n_looked_at, n_observed
        if n_permuted:
            yield "cell of permuted labels", self._n_permuted, n_permuted


def _kernels_of(result, call):
    """The records of a result's kernels, with what files do not hold put in."""
    parameters = result.parameters
    several = parameters["kernel"].get("kernels")
    several = parameters.get("kernels") or several or [parameters["kernel"]]
    again = call.options.get("kernel")
    again = again if isinstance(again, list | tuple) else [again] * len(several)
    names = parameters.get("ch_names")
    return tuple(completed(*each, names) for each in zip(several, again, strict=True))


# --------------------------------------------------------------------------- groups


def _verify_group(group, subjects, y, given, n_cells, rng):
    """The `Verification` of a group's result with those of its subjects."""
    wrong = ["y"] * (y is not None) + sorted(set(given) - {"other"})
    if wrong:
        raise TypeError(
            "A group is verified with the results of its subjects, and those of the "
            f"other list as other=; got {', '.join(wrong)}."
        )
    if not group.inputs or not group.options:
        raise NotCovered("it does not say of which results it was made")
    _, results, differences = find_members(group, subjects, given.get("other"))
    if differences:
        raise Different(differences)
    try:
        again = recompute.recompute_group(group, results)
        found = list(compare.differences(group, again, 1e-6))
        differences = [each.word() for each in found]
        if any(each.where is None for each in found):  # numbers have no places
            return Verification(differences=tuple(differences))
        rows, sizes = _rows_of_group(group, again, n_cells, rng)
    except recompute.OF_FILES as error:
        raise NotCovered(recompute.incoherent(error)) from error
    nouns = zip(("position", "permutation"), sizes, strict=True)
    notes = ("The table shows a random sample.",) if len(rows) < sum(sizes) else ()
    return Verification(
        cells=pd.DataFrame(rows),
        differences=tuple(differences),
        notes=notes,
        samples=tuple((noun, n, n) for noun, n in nouns if n),
    )


def _rows_of_group(group, again, n_cells, rng):
    """Rows of some positions and permutations, and how many of these there are."""
    counted = np.argwhere(~np.isnan(np.asarray(again.statistic)))
    n = len(again.null_max)
    name = next((x for x in (*again.correction, "none") if x in again.p_maps), None)
    at, numbers = np.arange(len(counted)), np.arange(n)
    if n_cells is not None:
        n_permuted = min(n_cells // 2, n)
        at = np.sort(rng.permutation(at)[: n_cells - n_permuted])
        numbers = np.sort(rng.permutation(numbers)[:n_permuted])
    rows = []
    for place in map(tuple, counted[at].tolist()):
        pair = [np.asarray(x.statistic)[place] for x in (group, again)]
        p = [np.asarray(x.p_maps.get(name, np.nan))[place] for x in (group, again)]
        where = place[0] if len(place) == 1 else place
        rows.append(_row_of_group(where, 0, pair, p))
    for b in numbers.tolist():
        pair = [x.null_max[b] for x in (group, again)]
        rows.append(_row_of_group("largest", b + 1, pair, (np.nan, np.nan)))
    return rows, (len(counted), n)


def _row_of_group(position, permutation, scores, p):
    """A row of the table of a group."""
    pairs = np.isclose(*np.transpose([scores, p]).astype(float), 1e-6, 1e-12, True)
    return {
        "position": position,
        "permutation": permutation,
        **dict(zip(("score", "score_refitted"), map(float, scores), strict=True)),
        **dict(zip(("p", "p_refitted"), map(float, p), strict=True)),
        "ok": bool(pairs.all()),
    }
