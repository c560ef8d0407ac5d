"""Comparing two results of one subject: two decoders, or two conditions.

A map of differences is tested against the differences under the same permuted labels.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import get_args

import numpy as np

from ..inference.corrections import ADJUSTMENTS, CorrectionNames, smallest_p_value
from ..inference.listed import ComparisonName
from ..inference.null import ALTERNATIVES, Alternative, as_precise_as
from ..results.base import Result, SubjectResult
from ..results.fields import keeps_warnings
from ..results.group import ComparisonResult
from ..results.load import load_result
from ..utils.advice import advice
from ..utils.checks import check_option, check_share, counted, quoted, warn
from ..utils.memory import LazyRows
from ..utils.plain import as_call, versions
from ..viz.style import DEFAULT_RESULTS
from .second_level import MapTest, check_corrections, check_threshold, warn_if_above
from .subjects import ResultOrPath, check_two_names, is_path

#: The packages that draw the permutations.
_DRAWN_BY = ("mvpa_kfda", "numpy")

#: So many permuted differences are kept at most, for intervals.
_MOST_KEPT = 2**25

#: What label permutations depend on, of what results record in their parameters.
_RECORDED = ("mode", "permute", "n_permutations", "exact", "random_state")


@keeps_warnings
def compare(
    result_a: ResultOrPath,
    result_b: ResultOrPath,
    method: ComparisonName = "permutation",
    correction: CorrectionNames = "max",
    *,
    labels: Sequence[str] | None = None,
    metric: str | None = None,
    alternative: Alternative = "two-sided",
    alpha: float = 0.05,
    threshold: float = 0.05,
) -> ComparisonResult:
    r"""Test the difference between two results of one subject at each position.

    Two decoders of the same trials are compared, for example two kernels or two sets
    of sensors, or the same decoder in two conditions.

    Parameters
    ----------
    result_a, result_b : result or path
        Two results of the same kind with the same positions, or the files that their
        ``save`` wrote.
    method : {"permutation"}
        How the difference is tested, see Notes.
    correction : str or sequence of str
        Correction for testing many positions: "none", "max", "max-step-down",
        "bonferroni", "holm", "fdr", "fdr-by", "cluster" (mass), "cluster-size",
        "cluster-depth" (time courses only) or "tfce", described in
        `mvpa_kfda.inference.corrections`. The first is the default of the result.
    labels : sequence of two str, or None
        Names of the two sides of the comparison, for figures and texts.
    metric : str or None
        Name of the metric; None takes the first. That of `result_a`.
    alternative : {"two-sided", "greater", "less"}
        Direction of the test: "greater" if `result_a` scores higher, "less" if
        `result_b` does, "two-sided" for both.
    alpha : float
        Significance level of the figures.
    threshold : float
        Cluster-forming p-level, above 0 and below 0.5, for cluster corrections;
        one-sided unless the test is two-sided.

    Returns
    -------
    comparison : ComparisonResult
        ``.scores`` (the difference), ``.scores_a``, ``.scores_b``, ``.pvalues()``,
        ``.plot()``, ``.to_dataframe()``, ``.to_img()``, ``.save()``.

    Raises
    ------
    ValueError, TypeError
        If the results differ in kind, positions, trials or permutations, are identical
        or have no permutations, or if an argument is not valid.

    Warns
    -----
    RuntimeWarning
        If there are too few permutations for p <= `alpha`, or if two analyses with
        different versions may have drawn different permutations.

    Notes
    -----
    The difference of scores is compared with the difference of the scores under the
    same label permutations. Both analyses must have been run with the same labels,
    groups, folds, ``permute``, ``n_permutations`` and ``random_state`` (a number: with
    None, each run draws its own). The null hypothesis is that **neither result has
    information about the labels**. It is rejected if one decodes and the other does
    not. For two decoders that both perform well it says little by itself: the scores of
    permuted labels vary around chance, not around the observed scores. As scores vary
    most at chance, the test is then conservative. Rates of p <= 0.05 ("max") without a
    difference (160 trials, 20 time points, 600 pairs of equally good decoders of
    different channels; last column: half of the times each):

    =============  ====  ====  ====  ====  =============
    Mean accuracy  0.50  0.56  0.66  0.81  0.50 and 0.81
    =============  ====  ====  ====  ====  =============
    Rate           0.05  0.05  0.01  0.00  0.03
    =============  ====  ====  ====  ====  =============

    :meth:`ComparisonResult.interval` is an interval of the difference itself. To claim
    that one decoder is better for people in general, compare them across subjects:
    ``group_inference(results, "sign-flip", other=others, paired=True)``.

    For temporal generalization within one data set, with two hypotheses to reject (see
    :meth:`GeneralizationResult.pvalues`), the larger p-value is reported, and clusters
    are areas in which both tests exceed the threshold.

    Examples
    --------
    >>> from sklearn.datasets import make_circles
    >>> from mvpa_kfda import compare, cross_validate
    >>> X, y = make_circles(200, noise=0.1, factor=0.7, random_state=0)
    >>> linear = cross_validate(X, y, n_permutations=99, random_state=0)
    >>> rbf = cross_validate(X, y, kernel="rbf", n_permutations=99, random_state=0)
    >>> comparison = compare(rbf, linear)
    >>> comparison.scores > 0.2, comparison.pvalues() <= 0.05
    (True, True)
    """
    check_option("method", method, get_args(ComparisonName))
    corrections = check_corrections(correction, method)
    check_option("alternative", alternative, ALTERNATIVES)
    check_share("alpha", alpha, such_as=", such as 0.05")
    check_threshold(threshold)
    if labels is not None:
        whose = "result_a and of result_b"
        labels = check_two_names(labels, whose, ("linear", "RBF"))
    a, b = _read(result_a, "result_a"), _read(result_b, "result_b")
    _check_comparable(a, b)
    metric, places = _shared_metric(a, b, metric), a.places
    _check_permutations(a, b, metric)
    scores = [np.asarray(each.metrics[metric]) for each in (a, b)]
    if not (shown := np.asarray(np.isfinite(scores).all(axis=0))).any():
        raise ValueError("There is no position at which both results have a score.")

    which, tests = np.ravel(shown), []
    n_predictions = sum(map(len, a.tests)) if metric == "accuracy" else None
    kept = zip(a.kept_tests(metric), b.kept_tests(metric), strict=True)
    for (of_a, null_a, exempt), (of_b, null_b, _) in kept:
        pairs = (of_a, of_b), (null_a, null_b)
        exempt = None if exempt is None else exempt[shown]
        tests.append((subtract(*pairs, which, n_predictions), exempt))
    names = {"none", "max", *corrections}.difference(ADJUSTMENTS)
    tested = MapTest.of(tests, names, places, which, threshold, alternative)
    differences, nulls = None, [each.nulls[metric] for each in (a, b)]
    if nulls[0].size <= _MOST_KEPT:
        differences = np.subtract(*nulls, dtype=np.float32)
    trials = a.worded_trials()
    if a.tests_other_trials:
        trials = counted(len(a.y_tested), "trial")
    off = [each.permuted_mean(metric) for each in (a, b)]
    comparison = ComparisonResult(
        metric=f"{metric}_difference",
        method=method,
        correction=corrections,
        alternative=alternative,
        alpha=alpha,
        places=places,
        chance=0.0,
        scores_a=np.where(shown, scores[0], np.nan),
        scores_b=np.where(shown, scores[1], np.nan),
        score_chance=a.chances[metric],
        **tested.fields(lambda values: places.expand(values, which)),
        labels=labels or DEFAULT_RESULTS,
        null_differences=differences,
        parameters={
            "alternative": alternative,
            "threshold": float(threshold),
            "trials": trials,
            "a": a.parameters,
            "b": b.parameters,
            "n_tests": tested.n_tests,
            "scoring": a.scalar_metrics,
        }
        | ({"permuted_mean": off} if np.isfinite(off).any() else {}),
        versions=versions(),
    )
    # Renamed classes have the same difference, as all that is compared is.
    n, renamings = comparison.n_permutations, a.parameters.get("renamings", 1)
    advice = f"{n} permutations", "Use more permutations."
    for name in corrections:
        least = smallest_p_value((n + 1) / renamings - 1, int(which.sum()), name)
        warn_if_above(alpha, least, name, *advice)
    return comparison


# ---------------------------------------------------------------------- the two results


def _read(result, name):
    """Load a result if it is a path; refuse all else."""
    if is_path(result):
        result = load_result(result)
    if not isinstance(result, SubjectResult):
        groups = " To compare groups use group_inference(results, other=others)."
        results = isinstance(result, list | tuple | Result)
        raise TypeError(
            f"{name} must be a result of decoding or regression, or the path of a "
            f"saved one; got a {type(result).__name__}."
            f"{groups if results else advice(result) or groups}"
        )
    return result


def _check_comparable(a, b):
    """Refuse results that do not belong together."""
    if difference := a.places.difference(b.places):
        verb = "has" if a.places.kind == b.places.kind else "is"
        raise ValueError(
            "The results must be of one kind and have the same positions, but result_b "
            f"{verb} {difference}."
        )
    n, n_other = len(a.classes), len(b.classes)
    trials = f"{n} and {n_other} classes" if n != n_other else ""
    if not trials and a.n_repeats != b.n_repeats:
        trials = f"been repeated {a.n_repeats} and {b.n_repeats} times (n_repeats)"
    pairs = {"y": (a.y, b.y), "y_test": (a.y_tested, b.y_tested)}
    for name, (of_a, of_b) in pairs.items():
        if trials or np.array_equal(of_a, of_b):
            continue
        n, n_other = len(of_a), len(of_b)
        trials = f"{name} of {n} and {n_other} trials"
        if n == n_other:
            differ = np.count_nonzero(of_a != of_b)
            trials = f"another {name} for {differ} of {n} trials"
    if not trials and not np.array_equal(a.members, b.members):
        trials = "other averages of trials, or averages in one only"
    tested = (np.concatenate(each.tests) for each in (a, b))
    if not (trials or np.isin(*tested).any()):
        trials = "no tested trial in common"
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


def _shared_metric(a, b, metric):
    """The name of a metric, which both results need for every position."""
    if not (shared := [name for name in a.scalar_metrics if name in b.scalar_metrics]):
        raise ValueError(
            "The results have no metric in common: result_a has "
            f"{quoted(a.scalar_metrics)}, result_b {quoted(b.scalar_metrics)}. Run "
            "both analyses with the same scoring."
        )
    metric = a.check_metric(metric)
    if metric not in b.scoring:
        raise ValueError(
            f"result_b has no metric {metric!r}; both results have {quoted(shared)}. "
            "Choose one with metric=, or run the analyses with the same scoring."
        )
    return metric


# --------------------------------------------- differences under permuted labels


def _check_permutations(a, b, metric):
    """Refuse results without the same label permutations of the same trials."""
    for name, result in (("result_a", a), ("result_b", b)):
        if len(result.nulls.get(metric, ())) == 0:
            raise ValueError(
                f"{name} has no scores of permuted labels. Run both analyses again "
                "with n_permutations=1000 or so and random_state=0 (maps with "
                "null='full', which keeps them)."
            )
    if differ := _other_permutations(a, b):
        raise ValueError(
            "Both results need scores of the same label permutations, but they differ "
            f"in: {'; '.join(differ)}. Run both analyses with the same groups, cv, "
            "permute and n_permutations and with random_state=0."
        )
    packages = [f"{n} {a.versions.get(n)} and {b.versions.get(n)}" for n in _DRAWN_BY]
    if any(a.versions.get(name) != b.versions.get(name) for name in _DRAWN_BY):
        warn(
            "The results come from different versions, which may have drawn different "
            f"permutations from the same seed ({', '.join(packages)}). If they did, "
            "the p-values are wrong; run both analyses with the same versions."
        )


def _other_permutations(a, b):
    """Word what makes label permutations of the same trials differ, in a list."""
    words = []
    if not np.array_equal(a.groups, b.groups):
        words.append("groups")
    sets = [[rows for fold in each.folds for rows in fold] for each in (a, b)]
    if len(sets[0]) != len(sets[1]) or not all(map(np.array_equal, *sets)):
        cv = (
            f"{as_call(each.parameters.get('cv'))}, {counted(len(each.tests), 'fold')}"
            for each in (a, b)
        )
        words.append(f"folds (cv: {' and '.join(cv)})")
    if not np.array_equal(a.train_rows, b.train_rows):
        words.append("trials to train with (train_on)")
    of_a, of_b = ({"mode": "plain", **result.parameters} for result in (a, b))
    names = [*_RECORDED]
    if of_a.get("exact") and of_b.get("exact"):
        names.remove("random_state")  # all permutations there are, in the same order
    elif "random_state" not in of_a or "random_state" not in of_b:
        words.append("random_state (not recorded)")
    return words + [
        f"{name} ({of_a.get(name)!r} and {of_b.get(name)!r})"
        for name in names
        if of_a.get(name) != of_b.get(name)
    ]


def subtract(scores, nulls, counted, n_predictions):
    """Differences (P, C) of two nulls from the same permutations, copying neither.

    Of pairs of `scores` (positions...) and of `nulls` (P, positions...), of which C
    `counted` positions (V,) count. `n_predictions` is what scores are counts divided
    by, or None: that makes differences exact, so that 0.7 minus 0.6 is 0.5 minus 0.4,
    also in single precision.
    """
    where = slice(None) if np.all(counted) else np.flatnonzero(counted)
    single = any(null.dtype == np.float32 for null in nulls)
    dtype = np.float32 if single and n_predictions is None else np.float64

    def difference(pair):
        pair = [np.reshape(rows, (len(rows), -1))[:, where] for rows in pair]
        pair = [np.asarray(rows, float) for rows in pair]
        if n_predictions is None:
            return np.subtract(*pair).astype(dtype)
        counts = [np.rint(rows * n_predictions) for rows in pair]
        return np.subtract(*counts) / n_predictions

    # Observed scores with the digits of the permuted ones, so that ties stay ties.
    pairs = zip(nulls, scores, strict=True)
    observed = [as_precise_as(null.dtype, score)[np.newaxis] for null, score in pairs]
    observed = difference(observed)[0]
    return LazyRows(
        len(nulls[0]),
        observed.shape,
        dtype,
        lambda rows: difference([null[rows] for null in nulls]),
        observed,
    )
