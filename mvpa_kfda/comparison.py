"""Comparing two results of one subject: two decoders, or two conditions."""

import os

import numpy as np
from scipy.stats import norm

from ._checks import check_count, check_option, warn
from ._group.exchange import draw_signs
from ._group.request import check_alpha, check_corrections, check_threshold
from ._inference.corrections import ADJUSTMENTS
from ._inference.null import ALTERNATIVES, FullNull, level_of_side
from ._inference.paired import (
    Flips,
    check_accuracy,
    count_right,
    groups_of_both,
    null_differences,
    other_trials,
    shared_metric,
    sum_within,
    where_both,
    worded_trials,
)
from ._results.base import _Result
from ._results.places import Places
from ._setup import draw_seed, versions
from .comparison_results import ComparisonResult
from .inference import correct, smallest_p_value
from .map_results import GeneralizationResult
from .results import load_result

METHODS = ("permutation", "sign-flip", "both")
#: What changes its sign at a time.
UNITS = ("trials", "groups")

#: The warning of "sign-flip" alone, with numbers of the table in `compare`.
_LIBERAL = (
    "method='sign-flip' finds too many differences where there is little to decode: "
    "with p <= 0.05 between equally good decoders in 25 % of simulations with an "
    "accuracy of 0.50, and 22, 14 and 7 % with 0.56, 0.66 and 0.81. Use "
    "method='both', which also needs the difference to be larger than with permuted "
    "labels."
)


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
    method : {"permutation", "sign-flip", "both"}
        How the difference is tested, see Notes. To claim that one decoder is better
        wherever both stand: "both".
    correction : str or sequence of str
        Correction for testing many positions: "none", "max", "max-step-down",
        "bonferroni", "fdr", "fdr-by", "cluster" (mass), "cluster-size" or "tfce",
        described in `mvpa_kfda.inference`. The first is the default of the result.
    metric : str or None
        Name of the metric; None takes the first of `result_a`. "sign-flip" and "both"
        compare accuracies and take no other.
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
        ("permutation", "both"), have no predicted classes or no groups ("sign-flip",
        "both"), or if an argument is not valid.

    Warns
    -----
    RuntimeWarning
        If "sign-flip" is used alone, if so few permutations cannot give p <= `alpha`,
        or if two runs of different versions may have drawn different permutations.

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

    Predictions of a cross-validation are not independent, as trials share classifiers
    and training sets overlap, so "sign-flip" is approximate [2]_ and **finds too many
    differences, most where there is little to decode**.

    *both*: the larger p-value of the two at every position and for every correction,
    so that both tests have to find a difference (intersection-union [3]_), and the
    same one: two-sided p-values are twice the smaller of those of either side. Where
    neither decodes, "permutation" holds the level; where both decode well, "sign-flip"
    nearly does. This is an argument and no proof. How often differences were found
    where there were none (p <= 0.05, "max"; 160 trials, 20 time points, 600 pairs of
    equally good decoders of different channels; last column: half of the times each):

    =============  ====  ====  ====  ====  =============
    Mean accuracy  0.50  0.56  0.66  0.81  0.50 and 0.81
    =============  ====  ====  ====  ====  =============
    "sign-flip"    0.25  0.22  0.14  0.07  0.16
    "permutation"  0.05  0.05  0.01  0.00  0.03
    "both"         0.05  0.05  0.01  0.00  0.03
    =============  ====  ====  ====  ====  =============

    The last row is of the larger two-sided p-value, which is seldom larger than that
    of "both". Flipping groups instead of trials helped little. The level came from
    "permutation" here, to which "sign-flip" adds the hypothesis that is meant. The
    statistic is the difference of the scores, ``null_max`` and ``observed_max`` are
    those of "permutation", and "fdr" adjusts the larger of the uncorrected p-values.

    Of time generalization within one data set, which has two hypotheses to reject (see
    :meth:`GeneralizationResult.pvalues`), "permutation" takes the larger p-value.

    References
    ----------
    .. [1] McNemar, Q. (1947). Note on the sampling error of the difference between
       correlated proportions or percentages. Psychometrika, 12(2), 153-157.
    .. [2] Dietterich, T. G. (1998). Approximate statistical tests for comparing
       supervised classification learning algorithms. Neural Computation, 10(7),
       1895-1923.
    .. [3] Berger, R. L. (1982). Multiparameter hypothesis testing and acceptance
       sampling. Technometrics, 24(4), 295-300.

    Examples
    --------
    >>> from sklearn.datasets import make_circles
    >>> from mvpa_kfda import compare, cross_validate
    >>> X, y = make_circles(200, noise=0.1, factor=0.7, random_state=0)
    >>> linear = cross_validate(X, y, n_permutations=99, random_state=0)
    >>> rbf = cross_validate(X, y, kernel="rbf", n_permutations=99, random_state=0)
    >>> comparison = compare(rbf, linear, "both", random_state=0)
    >>> comparison.scores > 0.2, comparison.pvalues() <= 0.05
    (True, True)
    """
    check_option("method", method, METHODS)
    corrections = check_corrections(correction, method)
    check_option("alternative", alternative, ALTERNATIVES)
    check_option("flip", flip, UNITS)
    check_alpha(alpha)
    check_threshold(threshold)
    n_permutations = check_count("n_permutations", n_permutations, minimum=1)
    a, b = _read(result_a, "result_a"), _read(result_b, "result_b")
    places = _check_comparable(a, b)
    asked = {"alternative": alternative, "threshold": float(threshold)}
    if method != "permutation":
        metric = check_accuracy(a, b, metric, method)
        asked |= {"n_permutations": n_permutations, "flip": flip}
        asked["random_state"] = draw_seed(random_state)
    if method != "sign-flip":
        metric = shared_metric(a, b, metric)
    names = {"none", "max", *corrections}.difference(ADJUSTMENTS)
    scores, tested = _run(a, b, method, metric, places, names, asked)
    counted = np.isfinite(tested["p_maps"]["none"])
    chance = a.chances[metric] if metric in a.chances else 1 / len(a.classes)
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
        n_permutations=len(tested["null_max"]),
        parameters=asked
        | {"trials": worded_trials(a), "a": a.parameters, "b": b.parameters},
        versions=versions(),
        **tested,
    )
    if method == "sign-flip":
        warn(_LIBERAL)
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
    other = Places.of(b)
    difference = places.difference(other)
    if difference:
        verb = "has" if places.kind == other.kind else "is"
        raise ValueError(
            "The results must be of one kind and have the same positions, but result_b "
            f"{verb} {difference}."
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


# --------------------------------------------------------------------- the two tests


def _run(a, b, method, metric, places, names, asked):
    """Return both maps of scores, and what the test of a method gave, or both tests."""
    found, exempt = [], _exempt(a)
    if method != "sign-flip":
        found.append(null_differences(a, b, metric))
    if method != "permutation":
        scores, null = _flipped(a, b, asked)
        found.append((scores, [null]))
        asked["n_flips"] = len(null)

    def test(number, names, alternative, threshold):
        scores, nulls = found[number]
        return _test(nulls, places, scores, names, alternative, threshold, exempt)

    scores, _ = found[0]
    alternative, threshold = asked["alternative"], asked["threshold"]
    if len(found) == 1:
        return scores, test(0, names, alternative, threshold)
    tested = test(0, {"none"}, alternative, threshold)
    # Both have to find the same decoder better, and so are tested on either side.
    sides = ("greater", "less") if alternative == "two-sided" else (alternative,)
    level, p_maps = level_of_side(threshold, alternative), {}
    for side in sides:
        one, two = (test(k, names, side, level)["p_maps"] for k in (0, 1))
        for name in names:  # positions without a score in one of them have NaN
            p = np.minimum(1.0, len(sides) * np.maximum(one[name], two[name]))
            p_maps[name] = np.minimum(p_maps.get(name, 1.0), p)
    return scores, tested | {"p_maps": p_maps}


def _flipped(a, b, asked):
    """Return both maps of accuracies, and the null of sign flips."""
    right, n_both = count_right(a.predicted, b.predicted, getattr(a, "y_test", a.y))
    if asked["flip"] == "groups":
        units = groups_of_both(a, b)
    else:
        units = np.arange(right.shape[-1])
    with np.errstate(invalid="ignore"):  # NaN where there are no trials
        scores = right.sum(axis=-1) / n_both
    counted = where_both(scores)
    first, second = right[:, counted]  # (C, n)
    differences = sum_within(first.astype(np.int8) - second, units)  # (U, C)
    n_flips, seed = asked["n_permutations"], asked["random_state"]
    signs = draw_signs(len(differences), n_flips, seed)
    shape = counted.shape if counted.all() else (np.count_nonzero(counted),)
    level = level_of_side(asked["threshold"], asked["alternative"])
    height = float(norm.isf(level))
    return scores, Flips(differences, signs, shape, height)


def _exempt(result):
    """Return where the second null of a generalization map does not count."""
    if isinstance(result, GeneralizationResult):
        return result._exempt()
    return np.zeros(result.shape, dtype=bool)


def _test(nulls, places, scores, names, alternative, threshold, exempt):
    """Return the p-values of all corrections, the largest over all nulls."""
    counted = np.ravel(where_both(scores))
    adjacency = places.adjacency(counted)
    p_maps, null_max, observed_max = {}, [], []
    for k, null in enumerate(nulls):
        full = FullNull(
            null.observed,
            null,
            adjacency,
            threshold,
            alternative,
            height=null.height,
        )
        null_max.append(full.maximum)
        observed_max.append(full.values.max())
        for name in sorted(names):
            p = places.expand(np.ravel(correct(full, name)), counted)
            if k > 0:
                p = np.maximum(p_maps[name], np.where(exempt, 0.0, p))
            p_maps[name] = p
    return {
        "statistic": places.expand(np.ravel(nulls[0].observed), counted),
        "p_maps": p_maps,
        "observed_max": max(observed_max),
        "null_max": np.max(null_max, axis=0),
    }


def _warn_if_out_of_reach(comparison):
    """Warn if no p-value can be as small as alpha, whatever the scores."""
    n, n_counted = comparison.n_permutations, np.count_nonzero(comparison.counted)
    n_flips, drawn = comparison.parameters.get("n_flips", np.inf), "permutations"
    if n_flips <= n:  # with "both", the fewer of the two
        n, drawn = n_flips, "sign flips"
    for name in comparison.correction:
        least = smallest_p_value(n, int(n_counted), name)
        if comparison.method == "both" and comparison.alternative == "two-sided":
            least = min(1.0, 2 * least)
        if least > comparison.alpha:
            warn(
                f"With {n} {drawn} the smallest p-value that correction {name!r} can "
                f"give is {least:.3g}, above alpha={comparison.alpha:g}: nothing "
                "can be significant. Use more permutations, more trials or groups to "
                "flip, or another correction."
            )
