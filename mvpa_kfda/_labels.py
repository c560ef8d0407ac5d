"""Words of figures: what the scores are called and what they come from."""

from .metrics import METRICS
from .regression_metrics import REGRESSION_METRICS

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

#: Why there is none somewhere.
NO_BOUND = "global null hypothesis not rejected"


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
    return f"{score_label(result)}, difference"


def score_label(result):
    """Return the name of the scores, also where the result is of differences."""
    return metric_label(result.metric.removesuffix("_difference"))


def _statistic_label(result):
    """Return the name of what was tested."""
    if hasattr(result, "scores_b"):
        in_units = ", in standard deviations" if result.method == "sign-flip" else ""
        return f"{score_label(result)}, difference{in_units}"
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
    if hasattr(result, "_description"):  # of a group, or a comparison
        return ", ".join(result._description())
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
        parts.append(f"{result.n_permutations} permutations")
    return ", ".join(parts)
