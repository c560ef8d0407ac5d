"""Images of the scores and p-values of a volume result."""

import numpy as np
from scipy.stats import norm

from .._checks import check_option

#: What is recorded of the penalty at every position, or in its folds.
PENALTY_MAPS = ("lambda", "degrees_of_freedom")

#: The images that there are besides those of the metrics.
MAPS = ("p", "neglog10p", "z", "chance_difference", "n_features", *PENALTY_MAPS)

#: What stands outside of the brain, and the type of the numbers, if not 0 and float32.
#: p is exact: in single precision, 0.05 is more than 0.05.
_OUTSIDE = {"p": 1.0}
_TYPES = {"p": np.float64, "n_features": np.int32}


def make_image(result, name, metric, correction, threshold):
    """Make an image, see `VolumeResult.to_img`."""
    if name in result.metrics and metric not in (None, name):
        raise ValueError(
            f"to_img({name!r}) shows the metric of that name and takes no metric="
            f"{metric!r}; give one of the two."
        )
    if name is None or name in result.metrics:
        name = shown_metric(result, name or metric)
        values = result.metrics[name]
    else:
        values = _values(result, name, metric, correction, threshold)
    return _image(result.geometry, name, values)


def image_of_p(geometry, name, p, n_permutations):
    """Make an image of p-values: of "p", of "neglog10p" or of "z".

    The normal deviate of p = 1, which has none, is that of P / (P + 1).
    """
    return _image(geometry, name, _from_p(name, p, n_permutations))


def _image(geometry, name, values):
    """Make an image with the numbers and the background that its name needs."""
    outside, dtype = _OUTSIDE.get(name, 0.0), _TYPES.get(name, np.float32)
    return geometry.to_img(values, outside, dtype)


def shown_metric(result, metric):
    """Return the name of a metric with one number per position, the first if None."""
    known = [name for name in result.scoring if result._is_scalar(name)]
    return result._scalar_metric(metric or (known or result.scoring)[0])


def _values(result, name, metric, correction, threshold):
    """Return the values of an image that is none of a metric's scores."""
    also = ()
    if name in ("null", "null_max"):
        also = ("result.geometry.to_img(result.null[0]) for one permutation's scores",)
    known = [name for name in result.scoring if result._is_scalar(name)]
    check_option("name", name, (*known, *MAPS), also)
    if name == "n_features":
        return result.n_features
    if name in PENALTY_MAPS:
        return _mean_over_folds(result, name)
    metric = shown_metric(result, metric)
    if name == "chance_difference":
        if np.isnan(result.chances[metric]):
            raise ValueError(
                f"There is no difference from chance for {metric!r}, which has no "
                f"chance level. Use to_img({metric!r})."
            )
        return result.metrics[metric] - result.chances[metric]
    p = result.pvalues(correction, metric=metric, threshold=threshold)
    return _from_p(name, p, result.n_permutations)


def _from_p(name, p, n_permutations):
    """Return what an image shows of p-values."""
    if name == "p":
        return p
    if name == "neglog10p":
        return -np.log10(p)
    # Without permutations p may be as close to 1 as it likes.
    most = 1 - 1 / (1 + n_permutations) if n_permutations else 1 - 1e-10
    return norm.isf(np.minimum(p, most))


def _mean_over_folds(result, name):
    """Return the mean degrees of freedom (V,), or the geometric mean of lambda."""
    df, lambdas = result.degrees_of_freedom, result.lambdas
    if name == "degrees_of_freedom":
        return df.reshape(len(df), -1).mean(axis=1)
    return np.exp(np.log(lambdas).reshape(len(lambdas), -1).mean(axis=1))
