"""The methods of group inference: from the scores of subjects to p-values."""

import math
from dataclasses import dataclass

import numpy as np
from scipy.stats import norm, t

from .._checks import warn
from .._inference.corrections import ADJUSTMENTS, correct, smallest_p_value
from .._inference.null import FullNull
from .exchange import LabelExchange, SignFlips, draw_labels, draw_signs
from .flips import OnLattice
from .library import flip_with_mne, flip_with_nilearn
from .parametric import parametric_p
from .recombined import Recombined, draw_recombinations
from .request import CLUSTER_FDR, METHODS
from .stelzer import cluster_size_p

#: What the field's libraries do themselves for sign flips. The maximum comes from the
#: flips that give the uncorrected p-values, so that no corrected one is smaller.
_LIBRARY = ("cluster", "tfce")

#: Metrics that rise above their chance level when a classifier prefers large classes,
#: and from which ratio of the largest class to the smallest this matters.
_PREFERRING, _UNBALANCED = ("accuracy", "recall"), 1.2


@dataclass(frozen=True)
class Tested:
    """What a method found.

    Attributes
    ----------
    statistic : array, shape (C,)
        What was tested.
    p : dict of str -> array, shape (C,)
        Correction -> p-values.
    null_max : array, shape (P,)
        The most extreme statistic of each second-level permutation.
    observed_max : float
        The most extreme statistic, turned as the alternative turns `null_max`.
    """

    statistic: np.ndarray
    p: dict
    null_max: np.ndarray
    observed_max: float


def recombine(subjects, request, statistic):
    """Test against first-level permutations, recombined over subjects.

    Parameters
    ----------
    subjects : Subjects
        Scores and nulls of the subjects.
    request : Request
        What is asked for.
    statistic : {"min", "mean"}
        What is computed over subjects.

    Returns
    -------
    tested : Tested
        Where a map has two nulls, its p-values are the larger ones.
    """
    n_maps = np.array([1 + len(null) for null in subjects.nulls])
    draws = draw_recombinations(n_maps, request.n_permutations, request.seed)
    null = Recombined(subjects.scores, subjects.nulls, draws, statistic)
    tested = _test(null, subjects, request, {"none", "max"})
    if not subjects.second_nulls:
        return tested
    second = Recombined(subjects.scores, subjects.second_nulls, draws, statistic)
    other = _test(second, subjects, request, {"none", "max"})
    p = {
        name: np.maximum(each, np.where(subjects.exempt, 0.0, other.p[name]))
        for name, each in tested.p.items()
    }
    null_max = np.maximum(tested.null_max, other.null_max)
    observed_max = max(tested.observed_max, other.observed_max)
    return Tested(tested.statistic, p, null_max, observed_max)


def one_sample(subjects, differences, request, statistic, library):
    """Test differences by flipping their signs, or by their distribution.

    Parameters
    ----------
    subjects : Subjects
        Where the differences are.
    differences : array, shape (S, C)
        Scores minus chance, or of one condition minus another.
    request : Request
        What is asked for.
    statistic : {"t", "wilcoxon"}
        Student's t, or the standardised signed-rank sum.
    library : bool
        Sign flips by MNE-Python or nilearn; otherwise uncorrected p-values are those
        of the distribution, and signs are flipped for the other corrections.

    Returns
    -------
    tested : Tested
        What was found.
    """
    signs = draw_signs(len(differences), request.n_permutations, request.seed)
    null = SignFlips(differences, signs, statistic)
    by_library = set(_LIBRARY) & set(request.corrections) if library else set()
    parametric = None if library else (differences,)
    height = _height(statistic, len(differences) - 1, request.level)
    tested = _test(null, subjects, request, {"none"}, by_library, height, parametric)
    for name in sorted(by_library):
        tested.p[name] = _flip_by_library(subjects, differences, request, name)
    return tested


def two_samples(subjects, scores, others, request, statistic, exchange):
    """Test the difference of two groups by exchanging who belongs to which.

    Parameters
    ----------
    subjects : Subjects
        Where the scores are.
    scores, others : array, shape (S, C) and (S2, C)
        Scores of the two groups.
    request : Request
        What is asked for.
    statistic : {"t", "wilcoxon"}
        Student's t, or the standardised rank sum.
    exchange : bool
        Uncorrected p-values by exchange, too; otherwise those of the distribution.

    Returns
    -------
    tested : Tested
        What was found.
    """
    n, n_others = len(scores), len(others)
    labels = draw_labels(n, n_others, request.n_permutations, request.seed)
    null = LabelExchange(np.concatenate([scores, others]), labels, statistic)
    height = _height(statistic, n + n_others - 2, request.level)
    parametric = None if exchange else (scores, others)
    return _test(null, subjects, request, {"none"}, set(), height, parametric)


def _test(null, subjects, request, always, never=(), height=None, parametric=None):
    """Compute the p-values that a lazy null gives."""
    asked = {name for name in request.corrections if name not in ADJUSTMENTS}
    names = (asked | always) - set(never)
    adjacency = subjects.places.adjacency(subjects.counted)
    shape = null.observed.shape
    if adjacency is None:
        shape = subjects.places.shape
    p = {}
    if parametric is not None:
        how = {"statistic": null.statistic, "alternative": request.alternative}
        p["none"] = parametric_p(*parametric, **how)
        names.discard("none")
    if CLUSTER_FDR in names:
        where = adjacency, subjects.places.shape
        p[CLUSTER_FDR] = cluster_size_p(null, request.threshold, *where).p_values
        names.discard(CLUSTER_FDR)
    null_max, observed_max = np.empty(0), np.nan
    if names or parametric is None:
        full = FullNull(
            null.observed.reshape(shape),
            OnLattice(null, shape),
            adjacency,
            request.threshold,
            request.alternative,
            height=height,
        )
        p |= {name: correct(full, name).reshape(-1) for name in sorted(names)}
        null_max, observed_max = full.maximum, float(full.values.max())
    return Tested(null.observed, p, null_max, observed_max)


def _flip_by_library(subjects, differences, request, correction):
    """Return the p-values of sign flips by MNE-Python or, for voxels, nilearn."""
    options = {
        "threshold": request.threshold,
        "alternative": request.alternative,
        "n_permutations": request.n_permutations,
        "random_state": request.seed,
        "n_jobs": request.n_jobs,
        "verbose": request.verbose,
    }
    places = subjects.places
    if places.in_voxels:
        where = places.geometry, subjects.counted
        return flip_with_nilearn(differences, *where, correction, **options)[0]
    adjacency = places.adjacency(subjects.counted)
    where = places.shape if adjacency is None else adjacency
    return flip_with_mne(differences, where, correction, **options)[0]


def _height(statistic, df, level):
    """Return the statistic that a p-level stands for."""
    return float(t.isf(level, df) if statistic == "t" else norm.isf(level))


# ------------------------------------------------------------------- what can come out


def warn_if_unbalanced(subjects):
    """Warn if scores are above their chance level without any effect."""
    if subjects.metric not in _PREFERRING or subjects.unbalanced < _UNBALANCED:
        return
    name, ratio = subjects.metric, subjects.unbalanced
    warn(
        f"Subjects have classes of different sizes (up to {ratio:.3g} to 1): without "
        f"any effect {name} is then above its chance level "
        f"{subjects.chances[0]:.3g}, and tests against that level reject too often. "
        "Use metric='balanced_accuracy' (decode with scoring=['accuracy', "
        "'balanced_accuracy']), or method='prevalence' or 'bootstrap'."
    )


def warn_if_out_of_reach(result, majority):
    """Warn if no p-value can be as small as alpha, whatever the scores.

    Parameters
    ----------
    result : GroupResult
        What came out.
    majority : float
        The prevalence of a majority.
    """
    n, alpha = result.n_permutations, result.alpha
    of_permutations = f" and {n} second-level permutations" if n else ""
    sizes = f"With {result.n_subjects} subjects{of_permutations} the"
    told = False
    for name in result.correction:
        least = _smallest_p(result, name)
        if least > alpha:
            told = True
            advice = f"Use n_permutations={10 * int(np.ceil(1 / alpha))} or more."
            if n < result.parameters["n_permutations"]:
                advice = "These are all there are; more subjects have more."
            if _of_distribution(result, name):
                advice = "More subjects make it smaller."
            warn(
                f"{sizes} smallest p-value that correction {name!r} can give is "
                f"{least:.3g}, above alpha={alpha:g}: nothing can be significant. "
                f"{advice}"
            )
    if result.method != "prevalence" or told:
        return
    largest = np.nan_to_num(result.largest_gamma_0)
    if largest < majority:
        warn(
            f"{sizes} prevalence bound cannot exceed {largest:.2f}, so an effect in "
            f"the majority cannot be shown at alpha={alpha:g}. More subjects or more "
            "permutations raise it."
        )


def _of_distribution(result, correction):
    """Tell whether p-values come from a distribution and not from permutations."""
    return result.method in ("t", "wilcoxon") and correction in ("none", *ADJUSTMENTS)


def _smallest_p(result, correction):
    """Return the smallest p-value that a correction can give; 0 if that is open."""
    if correction == CLUSTER_FDR:
        return 0.0
    n_counted = int(np.count_nonzero(result.counted))
    n, n_others = result.n_subjects, 0
    if result.other_scores is not None and not result.paired:
        n_others = len(result.other_subjects)
    n_exchanges = math.comb(n + n_others, n) if n_others else 2**n
    if _of_distribution(result, correction):
        if result.method == "t":
            return 0.0
        two_sided = result.alternative == "two-sided"
        least = max((2 if two_sided else 1) / n_exchanges, np.finfo(float).tiny)
        if n_others:
            # With ties the rank sum is tested by an approximation, which goes lowest
            # where all subjects of a group are equal.
            apart = np.ones((n, 1)), np.zeros((n_others, 1)), "wilcoxon"
            how = "two-sided" if two_sided else "greater"
            least = min(least, float(parametric_p(*apart, how)[0]))
        return smallest_p_value(1 / least - 1, n_counted, correction)
    least = smallest_p_value(result.n_permutations, n_counted, correction)
    # Of all sign flips, and of all exchanges between equal groups, two are equally far
    # out: the observed one and its mirror image.
    mirrored = not METHODS[result.method] and n_others in (0, n)
    exact = result.n_permutations < result.parameters["n_permutations"]
    if mirrored and exact and result.alternative == "two-sided":
        least = min(1.0, 2 * least)
    return least
