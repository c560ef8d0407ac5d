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
from .cells import Cells
from .recompute import MAPS, OF_FILES, Different, NotCovered, NotTaken, incoherent
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
        computed, as many as there is time for. Without the others, the largest scores
        of a map's permutations cannot be verified. None: all of them.
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
        run = recompute.Recomputation(result, given, budget, rng)
        try:
            run.compute(data, y)
            return _verify_subject(result, run, n_cells, rng)
        except OF_FILES as error:
            raise incoherent(error) from error
    except Different as found:
        return Verification(differences=tuple(found.args[0]))
    except NotCovered as reason:
        return Verification(unverified=(str(reason),))
    except NotTaken as error:
        raise ValueError(str(error)) from error.__cause__


def _verify_subject(result, run, n_cells, rng):
    """The `Verification` of a result with what was computed again."""
    cells = Cells(result, run)
    differences = list(_words_of_differences(cells))
    drawn, samples = _drawn(cells, n_cells, rng)
    try:
        table = pd.DataFrame([cells.row(*cell)[0] for cell in drawn])
    except OF_FILES:
        if not differences:
            raise
        return Verification(differences=tuple(differences))
    if len(table) and not table["ok"].all():
        differences = [*run.other_ones, *differences]
    if cells.left_out:
        words = " and ".join(cells.left_out)
        run.unverified.append(f"{words} can be computed again, but not refitted")
    return Verification(
        table if len(table) else Verification().cells,
        *(tuple(dict.fromkeys(x)) for x in (differences, run.unverified, run.notes)),
        samples,
        run.extent,
    )


# ------------------------------------------------------------------- computed again


def _words_of_differences(cells):
    """Word what differs, but for what rounding may have decided."""
    result, run = cells.result, cells.run
    tolerance = cells.tolerance if run.apart else cells.exact
    is_exact = not run.apart and result.parameters["dtype"] == "float64"
    run.notes += compare.notes_on_words(result, run.again)
    for found in compare.differences(result, run.again, tolerance, not is_exact):
        if found.path[0] == "parameters" and {*found.path[1:2]} & run.reworded:
            continue
        try:
            is_undecided = _is_undecided(cells, found, is_exact)
        except OF_FILES:  # of a file whose parts do not fit
            is_undecided = False
        if not is_undecided:
            yield found.word()


def _is_undecided(cells, found, is_exact):
    """Whether rounding may have decided on what differs, by refitted models."""
    (kind, *names), where = found.path, found.where
    if where is None or not (kind in MAPS or kind.endswith("_summaries")):
        return False
    apart = np.abs(np.subtract(found.stored, found.again, dtype=float))[tuple(where.T)]
    if kind not in MAPS:  # no more than some ties may change
        most = 2 / len(cells.result.y)
        if names[-1] == "exceedances":
            most = max(1, cells.result.n_permutations // 100)
        few = max(1, np.size(found.stored) / 20)
        return not is_exact and apart.max() <= most and len(apart) <= few
    lead, n_axes, positions = MAPS[kind], len(cells.result.shape), cells.run.positions
    of_positions = kind in ("penalty", "class_scores") and positions.row
    end = lead + (len(positions.shape) if of_positions else n_axes)
    sizes = {}
    for index, size in zip(map(tuple, where.tolist()), apart, strict=True):
        place = index[lead:end] + (0,) * (n_axes + lead - end)
        fold = index[end] if kind == "fold_metrics" else None
        cell = place, fold, index[0] + 1 if lead else 0
        sizes.setdefault(cell, []).append(np.nan_to_num(size, nan=np.inf))
    largest = sorted(sizes, key=lambda cell: -max(sizes[cell]))[:_MOST_DECIDED]
    return all(_is_of_rounding(cells, kind, names, c, sizes[c]) for c in largest)


def _is_of_rounding(cells, kind, names, cell, sizes):
    """Whether what differs in a cell by these sizes is within rounding."""
    row, slacks = cells.row(*cell)
    n_ties, second = row["n_ties"], kind.startswith("second")
    slack = slacks.get((names[0], second)) if names else None
    if not row["ok"] or not (n_ties or any(np.any(x) for x in slacks.values())):
        return False
    if kind == "predicted" and cells.n_classes is not None:
        return len(sizes) <= n_ties
    if names[:1] == ["confusion_matrix"]:
        return sum(sizes) <= 2 * n_ties
    if kind in ("penalty", "class_scores", "predicted") or slack is None:
        return True
    times = cells.n_repeats if kind == "repeats" else 1
    return max(sizes) <= times * np.max(slack) + 2 * cells.tolerance


# ----------------------------------------------------------------------- refitted


def _drawn(cells, n_cells, rng):
    """(position, fold, permutation) of cells, of folds None is all; and the samples.

    About half of a sample is of permuted labels. Of the first position all folds are
    looked at, which is one draw.
    """
    name, n = cells.result.scalar_metrics[0], cells.result.n_permutations
    scores = np.asarray(cells.result.metrics[name])
    positions = [i for i in cells.places if not np.isnan(scores[i])]
    known = [i for i in positions if n and cells.run.permuted(name, i, 1) is not None]
    n_folds, n_permuted = len(cells.folds), n * len(known)
    if n_cells is None:
        observed = [(i, f, 0) for i in positions for f in (None, *cells.folds)]
        permuted, n_observed = range(n_permuted), len(positions) * n_folds
    else:
        n_permuted = min(n_cells // 2, n_permuted)
        permuted = rng.choice(n * len(known), n_permuted, replace=False)
        first = positions[rng.integers(len(positions))]
        others = [i for i in positions if i != first] or positions
        most = min(n_cells - n_permuted - 1, len(others) * n_folds)
        numbers = rng.choice(len(others) * n_folds, most, replace=False)
        observed = [(first, None, 0)]
        observed += [(others[k // n_folds], int(k % n_folds), 0) for k in numbers]
        n_observed = len(observed)
        if len(positions) == 1 or most == len(others) * n_folds:  # all there are
            n_observed = len(positions) * n_folds
    drawn = observed + [(known[k // n], None, 1 + int(k % n)) for k in permuted]
    samples = [
        ("cell of the observed labels", n_observed, len(positions) * n_folds),
        ("cell of permuted labels", n_permuted, len(positions) * n),
    ]
    return drawn, tuple(samples[: 1 + bool(n)])


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
        return _compare_groups(group, results, n_cells, rng)
    except OF_FILES as error:
        raise incoherent(error) from error


def _compare_groups(group, results, n_cells, rng):
    """The `Verification` of a group's result with those of its subjects, in order."""
    again = recompute.recompute_group(group, results)
    found = list(compare.differences(group, again, 1e-6))
    differences = tuple(each.word() for each in found)
    if any(each.where is None for each in found):  # numbers have no places
        return Verification(differences=differences)
    table, sizes = _table_of_group(group, again, n_cells, rng)
    notes = compare.notes_on_words(group, again)
    if len(table) < sum(sizes):
        notes.append("The table shows a random sample.")
    nouns = zip(("position", "permutation"), sizes, strict=True)
    samples = tuple((noun, n, n) for noun, n in nouns if n)
    return Verification(table, differences, notes=tuple(notes), samples=samples)


def _table_of_group(group, again, n_cells, rng):
    """Some positions and permutations, and how many of these there are."""
    counted = np.argwhere(~np.isnan(np.asarray(again.statistic)))
    n, both = len(again.null_max), (group, again)
    name = next((x for x in (*again.correction, "none") if x in again.p_maps), None)
    at, numbers = np.arange(len(counted)), np.arange(n)
    if n_cells is not None:
        n_permuted = min(n_cells // 2, n)
        at = np.sort(rng.permutation(at)[: n_cells - n_permuted])
        numbers = np.sort(rng.permutation(numbers)[:n_permuted])
    rows = []
    for place in map(tuple, counted[at].tolist()):
        scores = [float(np.asarray(x.statistic)[place]) for x in both]
        p = [float(np.asarray(x.p_maps.get(name, np.nan))[place]) for x in both]
        rows.append((place[0] if len(place) == 1 else place, 0, *scores, *p))
    for b in numbers.tolist():
        scores = [float(x.null_max[b]) for x in both]
        rows.append(("largest", b + 1, *scores, np.nan, np.nan))
    columns = ["position", "permutation", "score", "score_refitted", "p", "p_refitted"]
    table = pd.DataFrame(rows, columns=columns)
    pairs = (("score", "score_refitted"), ("p", "p_refitted"))
    same = [np.isclose(table[x], table[y], 1e-6, 1e-12, True) for x, y in pairs]
    return table.assign(ok=np.logical_and(*same)), (len(counted), n)
