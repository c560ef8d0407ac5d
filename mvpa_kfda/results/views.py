"""Maps of results as images, as source estimates, and in interactive views."""

import numpy as np
from scipy.stats import norm

from ..data.sources import unpack_form
from ..metrics.scores import mean_of_permuted
from ..utils.checks import check_option, warn
from ..utils.rounding import rounded
from ..viz.style import shown_metric

#: Maps of p-values, which every result with permutations has.
OF_P = ("p", "neglog10p", "z")

#: What is recorded of the penalty at every position, or in its folds.
PENALTY_MAPS = ("lambda", "degrees_of_freedom")

#: The maps of a subject's result besides those of the metrics.
MAPS = (*OF_P, "chance_difference", *PENALTY_MAPS)

#: What stands outside of the brain, and the type of the numbers, if not 0 and float32.
#: p is exact: in single precision, 0.05 is more than 0.05.
_OUTSIDE = {"p": 1.0}
_TYPES = {"p": np.float64, "n_features": np.int32}


def make_image(result, name, values):
    """A map as an image, with the numbers and the background that its name needs."""
    outside, dtype = _OUTSIDE.get(name, 0.0), _TYPES.get(name, np.float32)
    return result.geometry.to_img(values, outside, dtype, name)


def make_source_estimate(result, values):
    """A map (n_vertices, n_times) of a result as a source estimate."""
    sources, tmin = result.sources, result.times[0]
    return unpack_form(sources).make(np.asarray(values), tmin, sources["tstep"])


def map_of(result, name, method, maps, also=(), **tested):
    """The name and the values (positions...) of one of the maps of a result.

    `method` is what the user calls; `maps` are there besides those of metrics, and
    `also` words what else there is. `tested` are the options of the p-values.
    """
    if name is not None and not isinstance(name, str):
        check_option("name", name, (*result.scoring, *maps))
    metric = tested.get("metric")
    if name in result.metrics and metric not in (None, name):
        raise ValueError(
            f"{method}({name!r}) shows the metric of that name and takes no metric="
            f"{metric!r}; pass only one of the two."
        )
    if name is None or name in result.metrics:
        name = shown_metric(result, name or metric)
        return name, result.metrics[name]
    check_option("name", name, (*result.scalar_metrics, *maps), also)
    if name == "n_features":
        return name, result.n_features
    folds = (*result.shape, -1)
    if name == "degrees_of_freedom":
        return name, result.degrees_of_freedom.reshape(folds).mean(axis=-1)
    if name == "lambda":  # the geometric mean
        return name, np.exp(np.log(result.lambdas).reshape(folds).mean(axis=-1))
    if "metric" in tested:
        metric = tested["metric"] = shown_metric(result, metric)
    if name == "chance_difference":
        return name, _above_chance(result, metric, method)
    p = np.asarray(result.pvalues(**tested))
    return name, map_of_p(name, p, result.n_permutations)


def _above_chance(result, metric, method):
    """Scores minus their chance level; warns where that is not that of no effect."""
    if np.isnan(result.chances[metric]):
        raise ValueError(
            f"There is no difference from chance for {metric!r}, which has no "
            f"chance level. Use {method}({metric!r})."
        )
    permuted = result.permuted_mean(metric)
    if np.isfinite(permuted):
        warn(
            f"This map is the score minus chance, {rounded(result.chances[metric])}"
            f", but the {mean_of_permuted(metric)} is {rounded(permuted)}: it is "
            "above or below zero without any effect. For tests over subjects use "
            "group_inference, or decode with scoring='balanced_accuracy'.",
            UserWarning,
            of_result=False,
        )
    return result.metrics[metric] - result.chances[metric]


def map_of_p(name, p, n_permutations):
    """What a map shows of p-values: of "p", of "neglog10p" or of "z"."""
    if name == "p":
        return p
    if name == "neglog10p":
        return -np.log10(p)
    # p = 1, which has no normal deviate, is taken as P / (P + 1); without permutations
    # p may be as close to 1 as it likes.
    most = 1 - 1 / (1 + n_permutations) if n_permutations else 1 - 1e-10
    return norm.isf(np.minimum(p, most))
