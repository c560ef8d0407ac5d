"""The results of several subjects, gathered for the second level.

Files are loaded one after the other, and of each only what the group needs is kept.
"""

import hashlib
from dataclasses import dataclass, replace

import numpy as np

from .._checks import quoted, warn
from .._results.places import Places
from ..map_results import GeneralizationResult
from .checking import (
    largest_ratio,
    recorded,
    refuse_damage,
    refuse_gap,
    tell_differences,
)
from .entries import (
    inside,
    listed,
    load_subject,
    name_subjects,
    refuse_repeats,
    word_subject,
)
from .resampling import nearest_voxels, take_voxels

#: Chance levels that are closer than this are equal.
_SAME_CHANCE = 1e-9


@dataclass(frozen=True, eq=False)
class Subjects:
    """Scores of S subjects at the same V positions, of which C count.

    Parameters
    ----------
    names : tuple of str
        Names of the subjects.
    places : Places
        The positions of the map.
    metric : str
        Name of the metric of the scores.
    chances : array, shape (S,)
        Chance levels, NaN where there is none.
    counted : array of bool, shape (V,)
        Positions, in C order, where every subject has a score.
    scores : array, shape (S, C)
        Scores of the observed labels.
    nulls : tuple of array, shape (P_s, C)
        Scores under permuted labels, by subject; empty if not asked for.
    second_nulls : tuple of array, shape (P_s, C)
        The same for the second test of cross-validated time generalization, see
        `GeneralizationResult.pvalues`; empty if there is none.
    exempt : array of bool, shape (C,)
        Positions where the second test does not count.
    one_sided : bool
        Whether the nulls are good for high scores only, see
        `GeneralizationResult.diagonal`.
    unbalanced : float
        The largest ratio between the numbers of tested trials of two classes, of all
        subjects; 1 where they are equal, or without classes.
    """

    names: tuple
    places: Places
    metric: str
    chances: np.ndarray
    counted: np.ndarray
    scores: np.ndarray
    nulls: tuple
    second_nulls: tuple
    exempt: np.ndarray
    one_sided: bool = False
    unbalanced: float = 1.0

    def expand(self, values, fill=np.nan):
        """Put values of the positions that count into the shape of the map.

        Parameters
        ----------
        values : array, shape (..., C)
            Values of the positions that count.
        fill : float or bool
            The value of all others.

        Returns
        -------
        maps : array, shape (..., positions...)
            The values in place.
        """
        return self.places.expand(values, self.counted, fill)


@dataclass(frozen=True, eq=False)
class _Kept:
    """What is kept of the result of one subject, at all positions of its map."""

    places: Places
    mode: str | None
    metric: str
    chance: float
    scores: np.ndarray
    null: np.ndarray | None
    second: np.ndarray | None
    exempt: np.ndarray
    one_sided: bool
    unbalanced: float
    analysis: dict


def gather(
    results,
    *,
    metric=None,
    subjects=None,
    need_nulls=False,
    resample=False,
    n_first=None,
):
    """Gather the results of several subjects.

    Parameters
    ----------
    results : sequence of result or path
        A result, or the file of a saved one, for every subject; two or more.
    metric : str or None
        The metric to gather; None takes the first metric of the first result.
    subjects : sequence of str or None
        Names of the subjects, all different. None takes them from the paths: the part
        "sub-..." if it tells them apart, else the end of the path; or counts.
    need_nulls : bool
        Gather the scores under permuted labels as well.
    resample : bool
        Bring searchlight maps of voxels onto the grid of the first subject, nearest
        neighbour, and keep the voxels that every subject has.
    n_first : int or None
        Number of results of a first list, which the results of a second one follow;
        their analyses may differ. None: there is one list.

    Returns
    -------
    gathered : Subjects
        The scores of all subjects at the positions of the first.

    Raises
    ------
    TypeError
        If `results` is no list, or holds anything but results and paths.
    FileNotFoundError
        If there is no such file.
    ValueError
        If a file is damaged, if a subject comes twice, or if what the subjects have
        differs: the kind of map, its positions, the metric, or its chance level; if
        permutations are missing, if no position is left that all subjects have, or if
        one is missing of a lattice, such as times.

    Warns
    -----
    RuntimeWarning
        If subjects have scores at different positions, or were analysed differently.

    Examples
    --------
    >>> import numpy as np
    >>> from mvpa_kfda import decode_arrays
    >>> rng = np.random.default_rng(0)
    >>> y = np.repeat(["face", "house"], 10)
    >>> data = rng.normal(size=(3, 20, 4, 6))  # subjects, trials, features, times
    >>> options = {"n_permutations": 20, "random_state": 0}
    >>> results = [decode_arrays(X, y, **options) for X in data]
    >>> gathered = gather(results, need_nulls=True)
    >>> gathered.names
    ('subject 1', 'subject 2', 'subject 3')
    >>> gathered.scores.shape, gathered.nulls[0].shape
    ((3, 6), (20, 6))
    """
    entries = listed(results)
    names = name_subjects(subjects, entries)
    words = [word_subject(*each) for each in zip(names, entries, strict=True)]
    refuse_repeats(entries, words)
    kept, seen = [], {}
    for entry, who in zip(entries, words, strict=True):
        first = kept[0] if kept else None
        kept.append(_keep(entry, who, first, metric, need_nulls, resample, seen))
    analyses = [each.analysis for each in kept]
    tell_differences(words, analyses, len(words) if n_first is None else n_first)
    return _joined(names, words, kept)


def _keep(entry, who, first, metric, need_nulls, resample, seen):
    """Load a subject's result, compare it with the first, keep what is needed of it."""
    result = load_subject(entry, who)
    places = Places.of(result)
    # The diagonal of such a map keeps its parameters, but is tested at each time alone.
    general = isinstance(result, GeneralizationResult)
    mode = result.parameters.get("mode") if general else None
    metric = _same_kind(result, places, mode, who, first, metric, resample)
    _refuse_copy(result, entry, who, seen)
    null, second = _nulls_of(result, metric, who, first) if need_nulls else (None, None)
    exempt = result._exempt() if general else np.zeros(places.shape, dtype=bool)
    scores = np.ravel(result.metrics[metric]).astype(np.float64)
    chance, exempt = result.chances[metric], exempt.ravel()
    one_sided = bool(result.parameters.get("larger_of_two"))
    kept = _Kept(
        places,
        mode,
        metric,
        chance,
        scores,
        null,
        second,
        exempt,
        one_sided,
        largest_ratio(result),
        recorded(result),
    )
    if first is None:
        return kept
    if first.places.difference(places):  # of voxels, and resampling was asked for
        nearest = nearest_voxels(places.geometry, first.places.geometry)
        if (nearest < 0).all():
            raise ValueError(
                f"The voxels of {inside(who)} do not overlap with those of the first "
                "subject; are both in the same space? Images have to be warped to one "
                "space, such as MNI, before they are decoded."
            )
        if null is not None:
            null = take_voxels(null, nearest)
        kept = replace(kept, scores=take_voxels(scores, nearest), null=null)
    # All share the places of the first; meshes and masks of the others are let go.
    return replace(kept, places=first.places, exempt=first.exempt)


def _same_kind(result, places, mode, who, first, metric, resample):
    """Raise unless a subject has what the first one has; return the metric."""
    if first is None:
        try:
            return result._scalar_metric(metric)
        except ValueError as error:
            again = ""
            if metric not in result.scoring:
                again = (
                    " For other metrics decode again, with "
                    f"scoring={[*result.scoring, metric]}."
                )
            raise ValueError(f"{who}: {error}{again}") from None
    words = first.places.difference(places)
    voxels = first.places.in_voxels and places.in_voxels
    if words and not (resample and voxels):
        advice = "Run its analysis again like the others, or leave it out"
        if voxels:
            advice = (
                "resample=True brings all maps onto the grid of the first subject, and "
                "keeps the voxels that every subject has"
            )
        elif resample:
            advice = f"resample=True is for searchlights in volumes only. {advice}"
        raise ValueError(f"{who} differs from the first subject: {words}. {advice}.")
    if mode != first.mode:
        raise ValueError(
            f"{who} has mode={mode!r}, but the first subject {first.mode!r}: other "
            "trials were tested. Run the same analysis for all subjects."
        )
    if first.metric not in result.scoring:
        raise ValueError(
            f"{who} has no metric {first.metric!r}, which the first subject has. It "
            f"has {quoted(result.scoring)}: pass a metric that all have, or run its "
            f"analysis again with scoring={first.metric!r}."
        )
    chance = result.chances[first.metric]
    near = {"rtol": 0, "atol": _SAME_CHANCE, "equal_nan": True}
    if not np.isclose(chance, first.chance, **near):
        raise ValueError(
            f"{who} has another chance level of {first.metric!r} than the first "
            f"subject: {chance:.6g} instead of {first.chance:.6g}. All must have "
            "decoded the same number of classes; leave it out, or take another metric."
        )
    return first.metric


def _refuse_copy(result, entry, who, seen):
    """Raise a ValueError if another subject has an equal result."""
    digest = hashlib.blake2b()
    for values in (result.scores, result.predicted):
        digest.update(np.ascontiguousarray(values, dtype=np.float64))
    # Equal results have equal scores; only then are both compared as a whole.
    alike = seen.setdefault(digest.digest(), [])
    for other, whom in alike:
        if result == load_subject(other, whom):
            raise ValueError(
                f"{whom} and {inside(who)} have equal results: one may be a copy of "
                "the other, or the same data was analysed twice. Give each subject "
                "once."
            )
    alike.append((entry, who))


def _nulls_of(result, metric, who, first):
    """Return the scores under permuted labels (P, V), and those of the second test."""
    null = result.nulls.get(metric, ())
    again = f"run the analysis of {inside(who)} again with n_permutations=100"
    if len(null) == 0 and metric in getattr(result, "null_summaries", {}):
        raise ValueError(
            f"{who} has only a summary of its label permutations "
            f"(null={result.parameters.get('null')!r}); {again} and null='full'."
        )
    if len(null) == 0:
        raise ValueError(
            f"{who} has no label permutations, which this method needs; {again}."
        )
    second = getattr(result, "second_nulls", {}).get(metric)
    if first is not None and (second is None) != (first.second is None):
        raise ValueError(
            f"{who} and the first subject differ in whether the permutations of the "
            f"second test were kept; {again}, and likewise of the first subject."
        )
    return _flat(null), None if second is None else _flat(second)


def _flat(null):
    """Return a null (P, positions...) as (P, V), in its own precision."""
    dtype = null.dtype if null.dtype in (np.float32, np.float64) else np.float64
    return null.reshape(len(null), -1).astype(dtype, copy=False)


def _joined(names, words, kept):
    """Put together what was kept of the subjects, at the positions that count."""
    first, chances = kept[0], np.array([each.chance for each in kept])
    has_score = np.array([~np.isnan(each.scores) for each in kept])
    counted = has_score.all(axis=0)
    if first.places.pairs is None and counted.any() and not counted.all():
        refuse_gap(has_score, first.places, words)
    _check_counted(has_score, counted, words)
    one_sided = any(each.one_sided for each in kept)
    unbalanced = max(each.unbalanced for each in kept)
    scores, nulls, second_nulls = [], [], []
    for who in words:
        each = kept.pop(0)  # let go before the next is copied
        scores.append(each.scores[counted])
        if each.null is not None:
            nulls.append(_where(each.null, counted))
        if each.second is not None:
            second_nulls.append(_where(each.second, counted))
        for values in (scores[-1], *nulls[-1:], *second_nulls[-1:]):
            refuse_damage(values, first.metric, who)
    return Subjects(
        names=names,
        places=first.places,
        metric=first.metric,
        chances=chances,
        counted=counted,
        scores=np.stack(scores),
        nulls=tuple(nulls),
        second_nulls=tuple(second_nulls),
        exempt=first.exempt[counted],
        one_sided=one_sided,
        unbalanced=unbalanced,
    )


def _where(null, counted):
    """Return a null at the positions that count; no copy where all do."""
    return null if counted.all() else null[:, counted]


def _check_counted(has_score, counted, words):
    """Warn where subjects have scores at different positions; refuse none at all."""
    n_counted, n_each = np.count_nonzero(counted), np.count_nonzero(has_score, axis=1)
    fewest = words[np.argmin(n_each)]
    text = (
        f"The subjects have scores at different positions: {n_counted} of "
        f"{len(counted)} are left, where every subject has one. {fewest} has fewest, "
        f"{min(n_each)}"
    )
    if n_counted == 0:
        raise ValueError(f"{text}. Leave out subjects that have few.")
    if (has_score != counted).any():
        warn(f"{text}.")
