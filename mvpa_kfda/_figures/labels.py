"""Words of figures: what the scores are called and what they come from."""

import math

from ..metrics import METRICS
from ..regression_metrics import REGRESSION_METRICS

#: What is tested over subjects, by method; {} is the metric.
STATISTICS = {
    "prevalence": "{}, lowest of all subjects",
    "bootstrap": "{}, mean over subjects",
    "sign-flip": "t over subjects",
    "t": "t over subjects",
    "wilcoxon": "z of Wilcoxon's test",
}

#: The map of the largest share of people that surely have the effect.
BOUND = "gamma_0"

#: Why there is none somewhere. Corrected, this is a little stricter than what rejects
#: the global null hypothesis.
NO_BOUND = "a prevalence of 0 is not rejected"

#: What tests of groups are called, by method.
TESTS = {
    "prevalence": "Prevalence test",
    "bootstrap": "Bootstrap of permuted means",
    "sign-flip": "Sign-flip test",
    "t": "t-test",
    "wilcoxon": "Signed-rank test",
}

#: The same for two groups of different people.
TESTS_OF_GROUPS = {
    "sign-flip": "Permutation test of two groups",
    "t": "t-test of two groups",
    "wilcoxon": "Rank-sum test of two groups",
}

#: What comparisons of two results of a subject are called.
TESTS_OF_RESULTS = {
    "permutation": "Permutation test of a difference",
    "sign-flip": "Sign-flip test of a difference",
    "both": "Permutation and sign-flip tests of a difference",
}

#: The smallest and the largest value of metrics; those of all others are 0 and 1.
LIMITS = {
    "kappa": (-1, 1),
    "r2": (-math.inf, 1),
    "pearsonr": (-1, 1),
    "neg_mean_squared_error": (-math.inf, 0),
}

#: The names of two lists of results that nobody gave others.
DEFAULT_NAMES = ("first", "second")


def metric_label(metric):
    """Return the name of a metric as an axis shows it.

    Parameters
    ----------
    metric : str
        Name of the metric.

    Returns
    -------
    label : str
        Its name in plain words.

    Examples
    --------
    >>> metric_label("balanced_accuracy")
    'Balanced accuracy'
    """
    known = METRICS.get(metric) or REGRESSION_METRICS.get(metric)
    return known.label if known else metric.replace("_", " ").capitalize()


def label_of(result, metric):
    """Return the name of a result's map as an axis shows it."""
    if metric == BOUND:
        return "Prevalence bound γ₀"
    if metric == "statistic" and metric in result.metrics:
        return _statistic_label(result)
    if not is_difference(result):
        return metric_label(metric)
    for ending in ("_a", "_b"):
        if metric.endswith(ending) and metric != result.metric:
            return f"{metric_label(metric[:-2])} of {ending[1:]}"
    return difference_label(result)


def score_label(result):
    """Return the name of the scores, also where the result is of differences."""
    return metric_label(result.metric.removesuffix("_difference"))


def difference_label(result):
    """Return the name of differences, which says of what."""
    first, second = ("a", "b") if hasattr(result, "scores_b") else result.labels
    return f"{score_label(result)}, {first} - {second}"


def names_of_two(result):
    """Return what the two groups or conditions are called in legends."""
    if tuple(result.labels) != DEFAULT_NAMES:
        return tuple(result.labels)
    noun = "condition" if result.paired else "group"
    return tuple(f"{name} {noun}" for name in DEFAULT_NAMES)


def with_null(result, words):
    """Add the null hypothesis to words about p-values, where there are several."""
    several = getattr(result, "method", None) == "prevalence"
    return f"{words}, global null" if several else words


def limits_of(result):
    """Return the smallest and the largest value that scores can have."""
    unknown = (0, 1) if result.metric in METRICS else (-math.inf, math.inf)
    return LIMITS.get(result.metric, unknown)


def _statistic_label(result):
    """Return the name of what was tested."""
    if hasattr(result, "scores_b"):
        in_units = ", in standard deviations" if result.method == "sign-flip" else ""
        return f"{difference_label(result)}{in_units}"
    return STATISTICS[result.method].format(score_label(result))


def level_of(result, metric):
    """Return what the level is called at which there is no effect."""
    if metric == "statistic":
        return "no effect"
    about_both = is_difference(result) and metric == result.metric
    return "no difference" if about_both else "chance"


def is_difference(result):
    """Tell whether the scores are differences: of two results, or of two groups."""
    others = getattr(result, "scores_b", None), getattr(result, "other_scores", None)
    return any(scores is not None for scores in others)


def describe(result):
    """Word what the scores were computed from."""
    if hasattr(result, "subjects"):
        return _describe_group(result)
    if hasattr(result, "scores_b"):
        return _describe_comparison(result)
    parts = [result._worded_trials()]
    others = result.parameters.get("mode") == "other_trials"
    if others and hasattr(result, "y_test"):
        parts[0] = f"trained on {parts[0]}, tested on {len(result.y_test)} others"
    if len(result.classes):  # none in regression
        names = ", ".join(str(name) for name in result.classes)
        named = f" ({names})" if len(names) <= 25 else ""
        parts.append(f"{len(result.classes)} classes{named}")
    if not others:
        parts.append(f"{len(result.tests)} folds")
    if result.n_permutations:
        parts.append(f"{result.n_permutations:,} permutations")
    return ", ".join(parts)


def draws_of(result):
    """Return what is drawn for the null distribution of a group or a comparison."""
    if hasattr(result, "scores_b"):
        return "sign flips" if result.method == "sign-flip" else "permutations"
    two_groups = result.other_scores is not None and not result.paired
    combined = result.method in ("prevalence", "bootstrap")
    return "permutations" if two_groups or combined else "sign flips"


def _describe_group(result):
    """Word the test of a group, its subjects, and how often it drew."""
    others, n = result.other_scores, len(result.subjects)
    subjects = f"{n} subjects"
    test = TESTS[result.method]
    if others is not None and result.paired:
        subjects = f"{subjects} in two conditions"
    elif others is not None:
        test, subjects = (
            TESTS_OF_GROUPS[result.method],
            f"{n} and {len(others)} subjects",
        )
    parts = [test, subjects]
    if result.n_permutations:
        parts.append(f"{result.n_permutations:,} {draws_of(result)}")
    return ", ".join(parts)


def _describe_comparison(result):
    """Word the test of two results, the trials, and how often it drew."""
    trials, n_flips = (result.parameters.get(k) for k in ("trials", "n_flips"))
    parts = [TESTS_OF_RESULTS[result.method]]
    parts += [trials] if trials else []
    if result.method != "sign-flip":
        parts.append(f"{result.n_permutations:,} permutations")
    if result.method != "permutation":
        parts.append(f"{n_flips or result.n_permutations:,} sign flips")
    return ", ".join(parts)
