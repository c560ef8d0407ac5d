"""Comparing two results of one subject: two decoders, or two conditions.

A map of differences is tested against the differences under the same permuted labels,
or against these and flipped signs. The nulls are lazy: rows of differences, worked
out whenever they are asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Literal, NamedTuple

import numpy as np
from scipy import sparse
from scipy.stats import norm

from ..inference.corrections import (
    ADJUSTMENTS,
    CORRECTIONS,
    CorrectionNames,
    correct,
    nearest_to_zero,
    smallest_p_value,
)
from ..inference.exchange import draw_signs
from ..inference.null import (
    ALTERNATIVES,
    Alternative,
    FullNull,
    as_precise_as,
    level_of_side,
)
from ..results.base import Result, SubjectResult
from ..results.comparison import COMPARISON_TESTS, ComparisonResult
from ..results.kinds import keeps_warnings
from ..results.load import load_result
from ..utils.advice import advice
from ..utils.checks import (
    Seed,
    check_count,
    check_option,
    counted,
    draw_seed,
    quoted,
    warn,
)
from ..utils.record import as_call, versions
from ..viz.common import DEFAULT_RESULTS
from .arguments import (
    N_PERMUTATIONS,
    check_alpha,
    check_corrections,
    check_threshold,
    check_two_names,
    warn_if_above,
)
from .listed import ComparisonName
from .statistics import MapTest
from .subjects import ResultOrPath, is_path

#: What changes its sign at a time.
UNITS = ("trials", "groups")

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
    n_permutations: int | None = None,
    flip: Literal["trials", "groups"] | None = None,
    random_state: Seed = None,
) -> ComparisonResult:
    r"""Test the difference between two results of one subject at each position.

    Two decoders of the same trials are compared, for example two kernels or two sets
    of sensors, or the same decoder in two conditions.

    Parameters
    ----------
    result_a, result_b : result or path
        Two results of the same kind with the same positions, or the files that their
        ``save`` wrote.
    method : {"permutation", "both"}
        How the difference is tested, see Notes. Use "both" to claim that one decoder is
        better, whatever their accuracies.
    correction : str or sequence of str
        Correction for testing many positions: "none", "max", "max-step-down",
        "bonferroni", "holm", "fdr", "fdr-by", "cluster" (mass), "cluster-size",
        "cluster-depth" (time courses only) or "tfce", described in
        `mvpa_kfda.inference.corrections`. The first is the default of the result.
    labels : sequence of two str, or None
        Names of the two sides of the comparison, for figures and texts.
    metric : str or None
        Name of the metric; None takes the first. "permutation" takes that of
        `result_a`; "both" compares accuracies and takes no other.
    alternative : {"two-sided", "greater", "less"}
        Direction of the test: "greater" if `result_a` scores higher, "less" if
        `result_b` does, "two-sided" for both.
    alpha : float
        Significance level of the figures.
    threshold : float
        Cluster-forming p-level, above 0 and below 0.5, for cluster corrections;
        one-sided unless the test is two-sided.
    n_permutations : int or None
        Number of sign flips for "both". If no more than that exist, all of them are
        used; p-values are then exact if, without a difference, either result is right
        equally often where only one is. None is 10,000. "permutation" uses the
        permutations of the results, and neither this nor the next two arguments.
    flip : {"trials", "groups"} or None
        Units of the sign flips in "both": single trials, or all trials of a group (run,
        session) together. Use groups if the trials of a group are dependent. None is
        "trials".
    random_state : int, Generator, RandomState or None
        Seed of the sign flips. With None, p differs from call to call; set a number,
        such as 0, and report it.

    Returns
    -------
    comparison : ComparisonResult
        ``.scores`` (the difference), ``.scores_a``, ``.scores_b``, ``.pvalues()``,
        ``.plot()``, ``.to_dataframe()``, ``.to_img()``, ``.save()``.

    Raises
    ------
    ValueError, TypeError
        If the results differ in kind, positions, trials or permutations, are identical,
        have no permutations, no predicted classes or no groups ("both"), or if an
        argument is not valid.

    Warns
    -----
    RuntimeWarning
        If there are too few permutations for p <= `alpha`, or if two analyses with
        different versions may have drawn different permutations.

    Notes
    -----
    *permutation*: the difference of scores is compared with the difference of the
    scores under the same label permutations. Both analyses must have been run with
    the same labels, groups, folds, ``permute``, ``n_permutations`` and
    ``random_state`` (a number: with None, each run draws its own). The null hypothesis
    is that **neither result has information about the labels**. It is rejected if one
    decodes and the other does not; it cannot distinguish two decoders that both perform
    well, because the scores of permuted labels vary around chance, not around the
    observed scores.

    *both*: the difference must also be significant in a second test, with random signs.
    Its null hypothesis is that both decoders are correct equally often. With
    :math:`d_i` the difference (1, 0 or -1) in correctness on trial i, or its sum over
    the trials of a group, and random signs :math:`s_i`, the statistic is

    .. math:: z = \sum_i s_i d_i \Big/ \sqrt{\sum_i d_i^2},

    with all signs equal to 1 for the observed data: for single trials the statistic of
    McNemar's test [1]_, here with all positions flipped together, so that they may be
    correlated. It only uses trials for which both results have predictions; for a trial
    in several test sets, the prediction from its mean class scores, and the sum over
    repeats.

    Predictions of a cross-validation are not independent, as trials share classifiers
    and training sets overlap. Flips alone are therefore approximate [2]_ and **too
    liberal, most of all at low accuracies**; they are not available as a separate
    method. The larger p-value of the two tests is reported at each position and for
    each correction (intersection-union [3]_), and both tests must agree on the
    direction: two-sided p-values are twice the smaller of the two one-sided ones. A
    cluster is where both tests exceed the threshold, with the larger of the p-values of
    its mass or size in either; with "tfce", the height of a position is the lower of
    the two. "permutation" controls the error rate where neither decodes; flips nearly
    do where both decode well. This is an argument, not a proof. False-positive rates
    without a difference (p <= 0.05, "max"; 160 trials, 20 time points, 600 pairs of
    equally good decoders of different channels; last column: half of the times each):

    =============  ====  ====  ====  ====  =============
    Mean accuracy  0.50  0.56  0.66  0.81  0.50 and 0.81
    =============  ====  ====  ====  ====  =============
    flips alone    0.25  0.22  0.14  0.07  0.16
    "permutation"  0.05  0.05  0.01  0.00  0.03
    "both"         0.05  0.05  0.01  0.00  0.03
    =============  ====  ====  ====  ====  =============

    The last row is that of the larger two-sided p-value, which is seldom larger than
    that of "both". Flipping groups instead of trials helped little. Here "permutation"
    controlled the error rate, and flips add the intended hypothesis. The statistic is
    the difference of the scores, ``null_max`` and ``observed_max`` are those of
    "permutation", and "fdr" adjusts the larger of the uncorrected p-values.

    For temporal generalization within one data set, with two hypotheses to reject (see
    :meth:`GeneralizationResult.pvalues`), "permutation" reports the larger p-value, and
    clusters are areas in which both tests exceed the threshold.

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
    check_option("method", method, COMPARISON_TESTS)
    corrections = check_corrections(correction, method)
    check_option("alternative", alternative, ALTERNATIVES)
    unit = check_option("flip", "trials" if flip is None else flip, UNITS)
    check_alpha(alpha)
    check_threshold(threshold)
    if labels is not None:
        whose = "result_a and of result_b"
        labels = check_two_names(labels, whose, ("linear", "RBF"))
    n_flips = N_PERMUTATIONS if n_permutations is None else n_permutations
    n_flips = check_count("n_permutations", n_flips, minimum=1)
    drawn = {"n_permutations": n_permutations, "flip": flip}
    _refuse_unused(method, drawn | {"random_state": random_state})
    a, b = _read(result_a, "result_a"), _read(result_b, "result_b")
    places = _check_comparable(a, b)
    asked = {"alternative": alternative, "threshold": float(threshold)}
    if method != "permutation":
        metric = _check_accuracy(a, b, metric, method)
        asked |= {"n_permutations": n_flips, "flip": unit}
        asked["random_state"] = draw_seed(random_state)
    metric = _shared_metric(a, b, metric)
    names = {"none", "max", *corrections}.difference(ADJUSTMENTS)
    scores, tested = _run(a, b, method, metric, places, names, asked)
    counted = np.isfinite(tested.p["none"])
    off = [each.permuted_mean(metric) for each in (a, b)]
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
        score_chance=a.chances[metric],
        statistic=tested.statistic,
        p_maps=tested.p,
        observed_max=tested.observed_max,
        null_max=tested.null_max,
        n_permutations=len(tested.null_max),
        cluster_scores=tested.cluster_scores,
        cluster_height=tested.cluster_height,
        labels=labels or DEFAULT_RESULTS,
        null_differences=_kept_differences(a, b, metric),
        parameters=asked
        | {"trials": _worded_trials(a), "a": a.parameters, "b": b.parameters}
        | {"n_tests": tested.n_tests, "scoring": a.scalar_metrics}
        | ({"permuted_mean": off} if np.isfinite(off).any() else {}),
        versions=versions(),
    )
    _warn_if_out_of_reach(comparison)
    return comparison


def _refuse_unused(method, drawn):
    """Refuse what is said of sign flips where there are none."""
    for name, value in drawn.items():
        if method == "permutation" and value is not None:
            raise ValueError(
                f"{name}={value!r} is for sign flips, and method='permutation' takes "
                "the label permutations that both results have. Leave it out, or use "
                "method='both'."
            )


# ---------------------------------------------------------------------- the two results


def _read(result, name):
    """Return a result, loaded if it is a path."""
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
    """Return the places of two results; refuse results that do not belong together."""
    places, other = a.places, b.places
    difference = places.difference(other)
    if difference:
        verb = "has" if places.kind == other.kind else "is"
        raise ValueError(
            "The results must be of one kind and have the same positions, but result_b "
            f"{verb} {difference}."
        )
    trials = _other_trials(a, b)
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


def _other_trials(a, b):
    """Word how the tested trials of two results differ; empty if they do not."""
    if len(a.classes) != len(b.classes):
        return f"{len(a.classes)} and {len(b.classes)} classes"
    if a.n_repeats != b.n_repeats:
        return f"been repeated {a.n_repeats} and {b.n_repeats} times (n_repeats)"
    pairs = {
        "y": (a.y, b.y),
        "y_test": (a.y_tested, b.y_tested),
        "members": (a.members, b.members),
    }
    for name, (of_a, of_b) in pairs.items():
        if np.array_equal(of_a, of_b):
            continue
        if name == "members":
            return "other averages of trials, or averages in one only"
        n, n_other = len(of_a), len(of_b)
        if n != n_other:
            return f"{name} of {n} and {n_other} trials"
        return f"another {name} for {np.count_nonzero(of_a != of_b)} of {n} trials"
    if not np.isin(np.concatenate(a.tests), np.concatenate(b.tests)).any():
        return "no tested trial in common"
    return ""


def _worded_trials(result):
    """Word how many trials were tested."""
    if result.tests_other_trials:
        return counted(len(result.y_tested), "trial")
    return result.worded_trials()


def _shared_metric(a, b, metric):
    """Return the name of a metric that both results have for every position."""
    shared = [name for name in a.scalar_metrics if name in b.scalar_metrics]
    if not shared:
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


def _check_accuracy(a, b, metric, method):
    """Return "accuracy", which sign flips compare; refuse what has none."""
    if len(a.classes) == 0:
        raise ValueError(
            f"method={method!r} compares which trials are classified correctly, and "
            "these are results of regression. Use method='permutation'."
        )
    if metric is not None and not (isinstance(metric, str) and metric == "accuracy"):
        raise ValueError(
            f"method={method!r} compares accuracies; got metric={metric!r}. Leave "
            "metric out, or use method='permutation'."
        )
    for name, result in (("result_a", a), ("result_b", b)):
        if "accuracy" not in result.scoring:
            raise ValueError(
                f"method='both' compares accuracies, and {name} has {result.scoring}. "
                "Run both analyses with 'accuracy' in scoring, or use "
                "method='permutation'."
            )
    return "accuracy"


def _where_all(kinds):
    """Return where both maps of scores of all kinds of tests have scores."""
    maps = [np.isfinite(each) for kind in kinds for each in kind.scores]
    counted = np.asarray(np.all(maps, axis=0))
    if not counted.any():
        raise ValueError("There is no position at which both results have a score.")
    return counted


# ------------------------------------------------------------------------ the two tests


class _Kind(NamedTuple):
    """A kind of test: both maps of scores, and how nulls of their difference come."""

    scores: tuple
    #: Returns the nulls at positions that count, bool like the map, and the positions
    #: that are exempt from each, or None.
    make: Callable


def _run(a, b, method, metric, places, names, asked):
    """Return both maps of scores, and the `MapTest` of a method, or of both methods."""
    kinds = [_permuted(a, b, metric)]
    kinds += [_flipped(a, b, asked)] if method == "both" else []
    counted = _where_all(kinds)
    which, adjacency = np.ravel(counted), places.adjacency(np.ravel(counted))
    nulls = [
        (null, mask if mask is None or counted.all() else mask[counted])
        for kind in kinds
        for null, mask in kind.make(counted)
    ]
    if method == "both":
        tested = _test_both(nulls, adjacency, names, asked)
    else:
        how = adjacency, asked["threshold"], asked["alternative"]
        tested = MapTest.of(_compared(nulls, *how), names)
    maps = {"statistic": tested.statistic, "cluster_scores": tested.cluster_scores}
    maps = {k: v if v is None else places.expand(v, which) for k, v in maps.items()}
    p_maps = {name: places.expand(p, which) for name, p in tested.p.items()}
    return kinds[0].scores, replace(tested, p=p_maps, **maps)


def _test_both(nulls, adjacency, names, asked):
    """Return the `MapTest` of the permutations, with p-values of these and of flips."""
    # All have to find the same decoder better, and so are tested on either side.
    alternative, threshold = asked["alternative"], asked["threshold"]
    sides = ("greater", "less") if alternative == "two-sided" else (alternative,)
    level, p_maps = level_of_side(threshold, alternative), {}
    for side in sides:
        tests = _compared(nulls, adjacency, level, side)
        for name in sorted(names):
            p = np.minimum(1.0, len(sides) * np.ravel(correct(tests, name)))
            p_maps[name] = np.minimum(p_maps.get(name, 1.0), p)
    permuted = _compared(nulls[:-1], adjacency, threshold, alternative)
    tested, of_clusters = MapTest.of(permuted, {"none"}), None
    if any(CORRECTIONS[name].standardised for name in names):
        of_clusters = nearest_to_zero(tests).ravel()  # the same on either side
    n_tests = len(nulls)
    return replace(tested, p=p_maps, cluster_scores=of_clusters, n_tests=n_tests)


def _compared(nulls, adjacency, threshold, alternative):
    """Return how differences are compared with nulls, pairs of these and exempt."""
    return [
        FullNull(
            null.observed,
            null,
            adjacency,
            threshold,
            alternative,
            height=null.height,
            exempt=exempt,
        )
        for null, exempt in nulls
    ]


def _warn_if_out_of_reach(comparison):
    """Warn if no p-value can be as small as alpha, whatever the scores."""
    n, n_counted = comparison.n_permutations, np.count_nonzero(comparison.counted)
    n_flips, drawn = comparison.parameters.get("n_flips", np.inf), "permutations"
    if n_flips <= n:  # with "both", the fewer of the two
        n, drawn = n_flips, "sign flips"
    advice = "Use more permutations, or more trials or groups to flip."
    for name in comparison.correction:
        # Renamed classes have the same difference, as all that is compared is.
        renamings = comparison.parameters["a"].get("renamings", 1)
        n_distinct = (n + 1) / (renamings if drawn == "permutations" else 1) - 1
        least = smallest_p_value(n_distinct, int(n_counted), name)
        if comparison.method == "both" and comparison.alternative == "two-sided":
            least = min(1.0, 2 * least)
        warn_if_above(comparison.alpha, least, name, f"{n} {drawn}", advice)


# ------------------------------------------------ differences under permuted labels


def _permuted(a, b, metric):
    """Return the test of the difference under permuted labels."""
    for name, result in (("result_a", a), ("result_b", b)):
        if len(result.nulls.get(metric, ())) == 0:
            raise ValueError(
                f"{name} has no scores of permuted labels. Run both analyses again "
                "with n_permutations=1000 or so and random_state=0 (maps with "
                "null='full', which keeps them)."
            )
    differ = _other_permutations(a, b)
    if differ:
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
    scores = np.asarray(a.metrics[metric]), np.asarray(b.metrics[metric])
    n = sum(map(len, a.tests)) if metric == "accuracy" else None

    def make(counted):
        found = []
        both = zip(a.kept_tests(metric), b.kept_tests(metric), strict=True)
        for (of_a, null_a, exempt), (of_b, null_b, _) in both:
            pairs = (of_a, of_b), (null_a, null_b)
            found.append((Differences(*pairs, counted, n), exempt))
        return found

    return _Kind(scores, make)


def _other_permutations(a, b):
    """Word what makes label permutations of the same trials differ, a list."""
    words = []
    if not np.array_equal(a.groups, b.groups):
        words.append("groups")
    if not _same_folds(a.folds, b.folds):
        words.append(f"folds (cv: {_worded_folds(a)} and {_worded_folds(b)})")
    if not np.array_equal(a.train_rows, b.train_rows):
        words.append("trials to train with (train_on)")
    of_a, of_b = ({"mode": "plain", **result.parameters} for result in (a, b))
    names = [*_RECORDED]
    if of_a.get("exact") and of_b.get("exact"):
        names.remove("random_state")  # all permutations there are, in the same order
    elif "random_state" not in of_a or "random_state" not in of_b:
        words.append("random_state (not recorded)")
    for name in names:
        if of_a.get(name) != of_b.get(name):
            words.append(f"{name} ({of_a.get(name)!r} and {of_b.get(name)!r})")
    return words


def _same_folds(one, other):
    """Tell whether two lists of (train, test) are alike."""
    return len(one) == len(other) and all(
        np.array_equal(*sets)
        for pair in zip(one, other, strict=True)
        for sets in zip(*pair, strict=True)
    )


def _worded_folds(result):
    """Word the folds of a result."""
    cv = as_call(result.parameters.get("cv"))
    return f"{cv}, {counted(len(result.tests), 'fold')}"


def _kept_differences(a, b, metric):
    """Return the permuted differences (P, positions...); None of too many."""
    null, other = (result.kept_tests(metric)[0].null for result in (a, b))
    if np.size(null) > _MOST_KEPT:
        return None
    return np.subtract(null, other, dtype=np.float32)


class Differences:
    """Differences of two nulls from the same permutations, without a copy of either."""

    # Of pairs of `scores` (positions...) and of `nulls` (P, positions...), of which C
    # `counted` positions count, the object stands for the array (P, C), or
    # (P, positions...) if all count. `n_predictions` is what scores are counts divided
    # by, or None: that makes differences exact, so that 0.7 minus 0.6 is 0.5 minus 0.4,
    # also in single precision.

    #: Differences of scores have no scale of their own.
    height = None

    def __init__(self, scores, nulls, counted, n_predictions):
        self._nulls, self._n = nulls, n_predictions
        self._where = None if np.all(counted) else np.flatnonzero(counted)
        single = any(null.dtype == np.float32 for null in nulls)
        exact = n_predictions is not None
        self.dtype = np.dtype(np.float32 if single and not exact else np.float64)
        # Observed scores with the digits of the permuted ones, so that ties stay ties.
        pairs = zip(nulls, scores, strict=True)
        self.observed = self._subtract(
            *(as_precise_as(null.dtype, score)[np.newaxis] for null, score in pairs)
        )[0]
        self.shape = (len(nulls[0]), *self.observed.shape)
        self.ndim = len(self.shape)

    def __len__(self):
        """Return the number of permutations."""
        return self.shape[0]

    def __getitem__(self, rows):
        """Return the differences of some permutations."""
        return self._subtract(*(null[rows] for null in self._nulls))

    def _subtract(self, first, second):
        """Return differences of scores (m, positions...)."""
        if self._where is not None:
            first, second = (
                np.reshape(scores, (len(scores), -1))[:, self._where]
                for scores in (first, second)
            )
        first, second = np.asarray(first, float), np.asarray(second, float)
        if self._n is None:
            return (first - second).astype(self.dtype)
        return (np.rint(first * self._n) - np.rint(second * self._n)) / self._n


# ---------------------------------------------- differences with flipped signs


def _flipped(a, b, asked):
    """Return the test of the difference with flipped signs."""
    right, n_both = count_right(a.predicted, b.predicted, a.y_tested)
    if asked["flip"] == "groups":
        units = _groups_of_both(a, b)
    else:
        units = _trials_of_both(a, right.shape[-1])
    with np.errstate(invalid="ignore"):  # NaN where there are no trials
        scores = right.sum(axis=-1) / n_both
    level = level_of_side(asked["threshold"], asked["alternative"])
    height = float(norm.isf(level))

    def make(counted):
        first, second = right[:, counted]  # (C, n)
        differences = sum_within(first.astype(np.int8) - second, units)  # (U, C)
        n_flips, seed = asked["n_permutations"], asked["random_state"]
        signs = draw_signs(len(differences), n_flips, seed)
        shape = counted.shape if counted.all() else (np.count_nonzero(counted),)
        asked["n_flips"] = len(signs)
        return [(Flips(differences, signs, shape, height), None)]

    return _Kind(scores, make)


def count_right(a, b, true):
    """Return where a, b (..., n) are right, (2, ..., n), and how many both have."""
    both = (a >= 0) & (b >= 0)
    return np.stack([(a == true) & both, (b == true) & both]), both.sum(axis=-1)


def _trials_of_both(a, n):
    """Return the trial, a number, behind each of n tested samples of all repeats."""
    if a.n_repeats > 1 and a.members is not None:
        raise ValueError(
            "flip='trials' needs tested samples that are independent, and the averages "
            f"of {a.n_repeats} repeats share their trials. Use flip='groups' with "
            "results that have groups, average_test=False or n_repeats=1; "
            "method='permutation' takes any."
        )
    return np.arange(n) % (n // a.n_repeats)


def _groups_of_both(a, b):
    """Return the groups of the tested trials as numbers."""
    if (
        a.groups is None
        or a.tests_other_trials
        or not np.array_equal(a.groups, b.groups)
    ):
        raise ValueError(
            "flip='groups' needs results with the same groups of the tested trials; "
            "pass groups= to both analyses, or use flip='trials'."
        )
    return np.unique(a.groups, return_inverse=True)[1].reshape(-1)


def sum_within(differences, units):
    """Sum differences (C, n) of trials within units (n,), numbers from 0: (U, C)."""
    # Units without any difference are left out, as their sign changes nothing.
    n = len(units)
    member = sparse.csr_array((np.ones(n, np.float32), (units, np.arange(n))))
    sums = member @ np.ascontiguousarray(differences.T, dtype=np.float32)
    differ = sums.any(axis=1)
    differ[0] |= not differ.any()  # one unit has to be left
    return sums[differ]


class Flips:
    """Sums of differences with random signs, in units of their standard deviation."""

    # `differences` (U, C) are whole numbers: how many more trials of each unit the
    # first result has right; `signs` (P, U) are those of each flip. The object stands
    # for an array (P, *shape), `shape` being that of maps of C positions, 0 where no
    # unit differs. `height` is the normal deviate that a cluster's positions pass.

    dtype = np.dtype(np.float64)

    def __init__(self, differences, signs, shape, height):
        # Sums of whole numbers are exact in single precision, however they are added.
        self._differences = np.asarray(differences, dtype=np.float32)
        self._signs, self.height = signs, height
        norm = np.sqrt(np.square(differences, dtype=float).sum(axis=0))
        self._norm = np.where(norm > 0, norm, 1.0)
        self.shape, self.ndim = (len(signs), *shape), 1 + len(shape)
        self.observed = self._rows(np.ones((1, signs.shape[1])))[0]

    def __len__(self):
        """Return the number of flips."""
        return self.shape[0]

    def __getitem__(self, rows):
        """Return the statistics of some flips."""
        return self._rows(self._signs[rows])

    def _rows(self, signs):
        """Return the statistics (m, positions...) of signs (m, U)."""
        sums = np.asarray(signs, dtype=np.float32) @ self._differences
        return (sums / self._norm).reshape(len(sums), *self.shape[1:])
