"""Comparing two results of one subject: two decoders, or two conditions."""

import os

import numpy as np
from scipy.stats import norm

from ._checks import check_count, check_option, warn
from ._corrections import ADJUSTMENTS
from ._group.exchange import draw_signs
from ._group.request import ALTERNATIVES, check_corrections, check_share
from ._null import FullNull, check_level
from ._paired import (
    Differences,
    Flips,
    count_right,
    other_permutations,
    other_trials,
    sum_within,
)
from ._results.base import _Result
from ._results.places import Places
from ._setup import draw_seed, versions
from .comparison_results import ComparisonResult
from .inference import correct, smallest_p_value
from .map_results import GeneralizationResult
from .results import load_result

METHODS = ("permutation", "sign-flip")
#: What changes its sign at a time.
UNITS = ("trials", "groups")
#: The packages that draw the permutations.
_DRAWN_BY = ("mvpa_kfda", "numpy")


def compare(
    result_a,
    result_b,
    method="permutation",
    correction="max",
    *,
    metric=None,
    alternative="two-sided",
    alpha=0.05,
    threshold=0.05,
    n_permutations=10_000,
    flip="trials",
    random_state=None,
):
    r"""Test the difference between two results of one subject at every position.

    Two decoders of the same trials are compared, for example two kernels or two sets
    of sensors, or the same decoder in two conditions.

    Parameters
    ----------
    result_a, result_b : result or path
        Two results of the same kind with the same positions, or the files that their
        ``save`` wrote.
    method : {"permutation", "sign-flip"}
        How the difference is tested, see Notes.
    correction : str or sequence of str
        Correction for testing many positions: "none", "max", "max-step-down",
        "bonferroni", "fdr", "fdr-by", "cluster" (mass), "cluster-size" or "tfce",
        described in `mvpa_kfda.inference`. The first is the default of the result.
    metric : str or None
        Name of the metric; None takes the first of `result_a`. "sign-flip" compares
        accuracies and takes no other.
    alternative : {"two-sided", "greater", "less"}
        "greater": `result_a` scores higher.
    alpha : float
        Significance level of the figures.
    threshold : float
        p-level that a position passes to be in a cluster, one-sided unless the test is
        two-sided; for the corrections by clusters.
    n_permutations : int
        Number of sign flips. If there are no more than that, all of them are taken,
        and the test is exact. "permutation" takes the permutations of the results.
    flip : {"trials", "groups"}
        What changes its sign at a time in "sign-flip": single trials, or all trials of
        a group (run, session). Groups if the trials of a group depend on each other.
    random_state : int, Generator, RandomState or None
        Seed of the sign flips.

    Returns
    -------
    comparison : ComparisonResult
        ``.scores`` (the difference), ``.scores_a``, ``.scores_b``, ``.pvalues()``,
        ``.plot()``, ``.to_dataframe()``, ``.to_img()``, ``.save()``.

    Raises
    ------
    ValueError, TypeError
        If the results are not of one kind with the same positions, are equal, are not
        of the same trials, have not the same permutations or none at all
        ("permutation"), have no predicted classes or no groups ("sign-flip"), or if an
        argument is not valid.

    Warns
    -----
    RuntimeWarning
        If so few permutations cannot give p <= `alpha`, or if two runs of different
        versions may have drawn different permutations.

    Notes
    -----
    *permutation*: the difference of scores is compared with the difference of the
    scores under the same label permutations. Both analyses must have been run with
    the same labels, groups, folds, ``permute``, ``n_permutations`` and
    ``random_state`` (a number: with None, each run draws its own). The null hypothesis
    is that **neither result has information about the labels**. It is rejected if one
    decodes and the other does not; it does not tell apart two decoders that are both
    good, because the scores of permuted labels spread around chance and not around
    what the decoders achieve.

    *sign-flip*: the null hypothesis is that both decoders are right equally often. With
    :math:`d_i` the difference (1, 0 or -1) of being right about trial i, or its sum
    over the trials of a group, and random signs :math:`s_i`, the statistic is

    .. math:: z = \sum_i s_i d_i \Big/ \sqrt{\sum_i d_i^2},

    where all signs of the data are 1: for single trials that of McNemar's test [1]_,
    here with all positions flipped together, so that they may depend on each other. It
    only counts trials that both results have predictions for; where a trial is in
    several test sets, that of its mean class scores.

    Predictions of a cross-validation are not independent, as training sets overlap, so
    "sign-flip" is approximate [2]_. Between two decoders that are equally good, and
    well above chance, it was at its level (3 to 5 % of p-values up to 0.05 in
    simulations of 60 and 200 trials). Where **neither decodes** the models follow the
    noise of the training trials, right and wrong come in common, and it found a
    difference in 9 to 11 % of the cases. The two methods complement each other: to
    claim that one decoder is better wherever both stand, have both of them reject.

    Of time generalization within one data set, which has two hypotheses to reject (see
    :meth:`GeneralizationResult.pvalues`), "permutation" takes the larger p-value.

    References
    ----------
    .. [1] McNemar, Q. (1947). Note on the sampling error of the difference between
       correlated proportions or percentages. Psychometrika, 12(2), 153-157.
    .. [2] Dietterich, T. G. (1998). Approximate statistical tests for comparing
       supervised classification learning algorithms. Neural Computation, 10(7),
       1895-1923.

    Examples
    --------
    >>> from sklearn.datasets import make_circles
    >>> from mvpa_kfda import compare, cross_validate
    >>> X, y = make_circles(200, noise=0.1, factor=0.7, random_state=0)
    >>> linear = cross_validate(X, y, n_permutations=99, random_state=0)
    >>> rbf = cross_validate(X, y, kernel="rbf", n_permutations=99, random_state=0)
    >>> comparison = compare(rbf, linear, "sign-flip", random_state=0)
    >>> comparison.scores > 0.2, comparison.pvalues() < 0.001
    (True, True)
    """
    check_option("method", method, METHODS)
    corrections = check_corrections(correction, method)
    check_option("alternative", alternative, ALTERNATIVES)
    check_option("flip", flip, UNITS)
    check_share("alpha", alpha)
    check_level(threshold)
    n_permutations = check_count("n_permutations", n_permutations, minimum=1)
    a, b = _read(result_a, "result_a"), _read(result_b, "result_b")
    places = _check_comparable(a, b)
    asked = {"alternative": alternative, "threshold": float(threshold)}
    if method == "permutation":
        metric = _shared_metric(a, b, metric)
        scores, nulls = _permuted(a, b, metric)
        chance = a.chances[metric]
    else:
        metric = _check_accuracy(a, b, metric)
        asked |= {"n_permutations": n_permutations, "flip": flip}
        asked["random_state"] = draw_seed(random_state)
        scores, nulls = _flipped(a, b, asked)
        chance = 1 / len(a.classes)
    counted = _counted(scores)
    names = {"none", "max", *corrections}.difference(ADJUSTMENTS)
    tested = _test(nulls, places, counted, names, asked, _exempt(a))
    comparison = ComparisonResult(
        metric=f"{metric}_difference",
        method=method,
        correction=corrections,
        alternative=alternative,
        alpha=alpha,
        places=places,
        chance=0.0,
        scores_a=np.where(counted, scores[0], np.nan),
        scores_b=np.where(counted, scores[1], np.nan),
        score_chance=chance,
        n_permutations=len(nulls[0]),
        parameters=asked | {"a": a.parameters, "b": b.parameters},
        versions=versions(),
        **tested,
    )
    _warn_if_out_of_reach(comparison)
    return comparison


# -------------------------------------------------------------------------- the input


def _read(result, name):
    """Return a result, loaded if it is a path."""
    if isinstance(result, str | os.PathLike):
        result = load_result(result)
    if not isinstance(result, _Result):
        raise TypeError(
            f"{name} must be a result of decoding or regression, or the path of a "
            f"saved one; got a {type(result).__name__}. To compare groups use "
            "group_inference(results, other=others)."
        )
    return result


def _check_comparable(a, b):
    """Return the places of two results; refuse results that do not belong together."""
    places = Places.of(a)
    difference = places.difference(Places.of(b))
    if difference:
        raise ValueError(
            "The results must be of one kind and have the same positions, but result_b "
            f"has {difference}."
        )
    trials = other_trials(a, b)
    if trials:
        raise ValueError(
            "The results must be of the same trials in the same order, but they have "
            f"{trials}. Different trials of several subjects can be compared with "
            "group_inference(results, other=others, paired=True)."
        )
    if a == b:
        raise ValueError(
            "result_a and result_b are equal, so there is nothing to compare. Is it "
            "the same result or file twice?"
        )
    return places


def _shared_metric(a, b, metric):
    """Return the name of a metric that both results have for every position."""
    metric = a._scalar_metric(metric)
    if metric not in b.scoring:
        shared = [name for name in a.scoring if name in b.scoring]
        raise ValueError(
            f"result_b has no metric {metric!r}; both results have {shared}. Choose "
            "one with metric=, or run the analyses with the same scoring."
        )
    return metric


def _check_accuracy(a, b, metric):
    """Return "accuracy", which sign flips compare; refuse what has none."""
    if len(a.classes) == 0:
        raise ValueError(
            "method='sign-flip' compares which trials are classified correctly, and "
            "these are results of regression. Use method='permutation'."
        )
    if metric not in (None, "accuracy"):
        raise ValueError(
            f"method='sign-flip' compares accuracies; got metric={metric!r}. Leave "
            "metric out, or use method='permutation'."
        )
    return "accuracy"


def _counted(scores):
    """Return where both maps have scores."""
    counted = np.isfinite(scores[0]) & np.isfinite(scores[1])
    if not counted.any():
        raise ValueError("There is no position at which both results have a score.")
    return counted


# --------------------------------------------------------------------- the two methods


def _permuted(a, b, metric):
    """Return both maps of scores, and the nulls of their difference."""
    for name, result in (("result_a", a), ("result_b", b)):
        if len(result.nulls.get(metric, ())) == 0:
            raise ValueError(
                f"{name} has no scores of permuted labels. Run both analyses again "
                "with n_permutations=1000 or so and random_state=0 (maps with "
                "null='full', which keeps them), or use method='sign-flip'."
            )
    differ = other_permutations(a, b)
    if differ:
        raise ValueError(
            "method='permutation' needs the same label permutations in both results, "
            f"but they differ in: {'; '.join(differ)}. Run both analyses with the same "
            "groups, cv, permute and n_permutations and with random_state=0, or use "
            "method='sign-flip'."
        )
    packages = [f"{n} {a.versions.get(n)} and {b.versions.get(n)}" for n in _DRAWN_BY]
    if any(a.versions.get(name) != b.versions.get(name) for name in _DRAWN_BY):
        warn(
            "The results come from different versions, which may have drawn different "
            f"permutations from the same seed ({', '.join(packages)}). If they did, "
            "the p-values are wrong; run both analyses with the same versions."
        )
    scores = np.asarray(a.metrics[metric]), np.asarray(b.metrics[metric])
    n = sum(map(len, a.tests)) if metric == "accuracy" else None
    counted = _counted(scores)
    nulls = [Differences(scores, (a.nulls[metric], b.nulls[metric]), counted, n)]
    second = [getattr(each, "second_nulls", {}).get(metric, ()) for each in (a, b)]
    if all(map(len, second)):
        nulls.append(Differences(scores, second, counted, n))
    return scores, nulls


def _flipped(a, b, asked):
    """Return both maps of accuracies, and the null of sign flips."""
    right, n_both = count_right(a.predicted, b.predicted, getattr(a, "y_test", a.y))
    if asked["flip"] == "groups":
        units = _groups(a, b)
    else:
        units = np.arange(right.shape[-1])
    with np.errstate(invalid="ignore"):  # NaN where there are no trials
        scores = right.sum(axis=-1) / n_both
    counted = _counted(scores)
    first, second = right[:, counted]  # (C, n)
    differences = sum_within(first.astype(np.int8) - second, units)  # (U, C)
    n_flips, seed = asked["n_permutations"], asked["random_state"]
    signs = draw_signs(len(differences), n_flips, seed)
    shape = counted.shape if counted.all() else (np.count_nonzero(counted),)
    sides = 2 if asked["alternative"] == "two-sided" else 1
    height = float(norm.isf(asked["threshold"] / sides))
    return scores, [Flips(differences, signs, shape, height)]


def _groups(a, b):
    """Return the groups of the tested trials as numbers."""
    own = a.parameters.get("mode") != "other_trials"
    if a.groups is None or not own or not np.array_equal(a.groups, b.groups):
        raise ValueError(
            "flip='groups' needs results with the same groups of the tested trials; "
            "give groups= to both analyses, or use flip='trials'."
        )
    return np.unique(a.groups, return_inverse=True)[1].reshape(-1)


def _exempt(result):
    """Return where the second null of a generalization map does not count."""
    exempt = np.zeros(result.shape, dtype=bool)
    if isinstance(result, GeneralizationResult):
        exempt[result._diagonal()] = result.parameters.get("mode") == "plain"
    return exempt


def _test(nulls, places, counted, names, asked, exempt):
    """Return the p-values of all corrections, the largest over both nulls."""
    adjacency = places.adjacency(counted.ravel())
    p_maps, null_max, observed_max = {}, [], []
    for k, null in enumerate(nulls):
        full = FullNull(
            null.observed,
            null,
            adjacency,
            asked["threshold"],
            asked["alternative"],
            height=null.height,
        )
        null_max.append(full.maximum)
        observed_max.append(full.values.max())
        for name in sorted(names):
            p = _expand(correct(full, name), counted)
            if k > 0:
                p = np.maximum(p_maps[name], np.where(exempt, 0.0, p))
            p_maps[name] = p
    return {
        "statistic": _expand(nulls[0].observed, counted),
        "p_maps": p_maps,
        "observed_max": max(observed_max),
        "null_max": np.max(null_max, axis=0),
    }


def _expand(values, counted):
    """Return a map with NaN at positions that do not count."""
    full = np.full(counted.shape, np.nan)
    full[counted] = np.ravel(values)
    return full


def _warn_if_out_of_reach(comparison):
    """Warn if no p-value can be as small as alpha, whatever the scores."""
    n, n_counted = comparison.n_permutations, np.count_nonzero(comparison.counted)
    for name in comparison.correction:
        least = smallest_p_value(n, int(n_counted), name)
        if least > comparison.alpha:
            warn(
                f"With {n} permutations the smallest p-value that correction {name!r} "
                f"can give is {least:.3g}, above alpha={comparison.alpha:g}: nothing "
                "can be significant. Use more permutations, more trials or groups to "
                "flip, or another correction."
            )
