"""Scores of predicted numbers, computed for all permutations at once.

A metric is an entry of :data:`REGRESSION_METRICS`. All are the higher the better.
"""

import numpy as np

from .classes import Metric, always

#: A spread of predictions below this many units of rounding is none.
_ROUNDING = 64


def _sum_products(left, right):
    """The sums of products over rows, (n_test, B) twice to (B,)."""
    return np.einsum("nb,nb->b", left, right)


def _neg_mean_squared_error(true, predicted):
    error = true - predicted
    return -_sum_products(error, error) / len(true)


def _r2(true, predicted):
    error, spread = true - predicted, true - true.mean(axis=0)
    left, total = _sum_products(error, error), _sum_products(spread, spread)
    # Of equal numbers nothing is to be explained: 1 if they are hit exactly, else 0.
    flat = total == 0
    return np.where(flat, left == 0, 1 - left / np.where(flat, 1, total))


def _pearsonr(true, predicted):
    size = _sum_products(true, true) + _sum_products(predicted, predicted)
    true, predicted = true - true.mean(axis=0), predicted - predicted.mean(axis=0)
    variance, spread = _sum_products(true, true), _sum_products(predicted, predicted)
    smallest = (_ROUNDING * np.finfo(float).eps) ** 2 * size
    flat = (spread <= smallest) | (variance <= smallest)
    scale = np.sqrt(variance) * np.sqrt(spread)
    return np.where(flat, 0, _sum_products(true, predicted) / np.where(flat, 1, scale))


#: The metrics of regression known by name.
REGRESSION_METRICS = {
    "r2": Metric(
        _r2,
        always(np.nan),
        "R²",
        "the coefficient of determination (R²)",
        lowest=-np.inf,
        needs_spread=True,
    ),
    "pearsonr": Metric(
        _pearsonr,
        always(0.0),
        "Pearson correlation",
        "the Pearson correlation",
        lowest=-1.0,
        needs_spread=True,
    ),
    "neg_mean_squared_error": Metric(
        _neg_mean_squared_error,
        always(np.nan),
        "negative mean squared error",
        "the negative mean squared error",
        lowest=-np.inf,
        highest=0.0,
        power=2,
    ),
}


def evaluate_regression(scoring, true, predicted):
    r"""Compute several metrics of the same predictions.

    With the true values :math:`y_i` of the n rows of all test sets, the predictions
    :math:`\hat y_i` and means :math:`\bar y, m`:

    .. math::

        R^2 = 1 - \frac{\sum_i (y_i - \hat y_i)^2}{\sum_i (y_i - \bar y)^2}, \qquad
        r = \frac{\sum_i (y_i - \bar y)(\hat y_i - m)}
                 {\sqrt{\sum_i (y_i - \bar y)^2 \sum_i (\hat y_i - m)^2}}

    and the mean squared error :math:`\sum_i (y_i - \hat y_i)^2 / n`, taken negative.

    Parameters
    ----------
    scoring : list of str
        Metric names: "r2", "pearsonr", "neg_mean_squared_error".
    true, predicted : ndarray, shape (n_test, B)
        One column per permutation. Of about unit size: predictions that vary less
        than rounding would have them vary do not correlate with anything.

    Returns
    -------
    scores : dict of str to ndarray, shape (B,)
        Each metric, finite throughout. A constant prediction has a correlation of 0.
        True values that are all equal have the correlation 0 and, as in scikit-learn,
        :math:`R^2 = 1` if they are predicted exactly, else 0.

    Examples
    --------
    >>> import numpy as np
    >>> true = np.array([[1.0], [2.0], [3.0]])
    >>> evaluate_regression(["r2", "pearsonr"], true, true / 2)
    {'r2': array([-0.75]), 'pearsonr': array([1.])}
    """
    true, predicted = np.asarray(true, float), np.asarray(predicted, float)
    return {name: REGRESSION_METRICS[name].score(true, predicted) for name in scoring}
