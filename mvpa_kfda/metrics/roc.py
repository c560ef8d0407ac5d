"""The ROC curve of a result."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import expit
from sklearn.metrics import auc, roc_curve

from ..utils.checks import check_option, quoted
from ..utils.rounding import rounded
from .areas import log_odds, merge_near_ties


@dataclass(frozen=True, eq=False, repr=False)
class Roc:
    """A receiver operating characteristic, see :meth:`DecodingResult.roc`.

    A trial is classified as positive if its score is at or above the threshold.

    Parameters
    ----------
    fpr : ndarray of shape (n_thresholds,)
        False positive rate: the proportion of other trials at or above each threshold.
    tpr : ndarray of shape (n_thresholds,)
        True positive rate: the same for trials of the positive class.
    thresholds : ndarray of shape (n_thresholds,)
        Decreasing thresholds, infinite first, as in scikit-learn. They apply to the
        difference of class scores with two classes, else to the posterior probability.
    auc : float
        The area under the curve.
    positive : object
        The label of the positive class.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from mvpa_kfda import cross_validate
    >>> X, y = load_iris(return_X_y=True)
    >>> cross_validate(X, y).roc(positive=1)
    <Roc: 1, AUC 0.999>
    """

    fpr: np.ndarray
    tpr: np.ndarray
    thresholds: np.ndarray
    auc: float
    positive: Any

    def __repr__(self):
        """Name the positive class and the area."""
        return f"<Roc: {self.positive}, AUC {rounded(self.auc)}>"


def make_roc(result, positive=None):
    """Return the ROC curve of one class against the rest.

    Parameters
    ----------
    result : DecodingResult
        With class scores.
    positive : label | None
        The positive class. None: the second of two classes.

    Returns
    -------
    roc : Roc
        Over all tested trials.

    Raises
    ------
    ValueError
        If `positive` is not a class, or is omitted with more than two classes, or if
        all or none of the tested trials belong to the positive class.
    """
    classes = result.classes.tolist()
    if positive is None and len(classes) > 2:
        raise ValueError(
            f"This result has {len(classes)} classes; say which one is positive, the "
            f"others being the rest: result.roc(positive=...), one of "
            f"{quoted(classes)}. plot_roc() draws them all."
        )
    label = classes[1] if positive is None else positive
    number = classes.index(check_option("positive", label, classes))
    tested = ~np.isnan(result.class_scores).any(axis=1)
    is_positive = result.y[tested] == number
    if is_positive.all() or not is_positive.any():
        raise ValueError(
            f"The ROC curve of {classes[number]!r} needs tested trials both of this "
            f"class and of others; of {tested.sum()} tested trials {is_positive.sum()} "
            "are of this class."
        )
    scores = _scores_of(result, number)[tested]
    ranks, lowest = _rank(scores)
    fpr, tpr, thresholds = roc_curve(is_positive, ranks)
    thresholds[1:] = lowest[thresholds[1:].astype(int)]
    if len(classes) > 2:
        thresholds[1:] = expit(thresholds[1:])
    return Roc(fpr, tpr, thresholds, float(auc(fpr, tpr)), classes[number])


def _scores_of(result, number):
    """Return every trial's score for one class: a difference, or its log odds.

    Log odds order trials as posterior probabilities do, and do not saturate.
    """
    scores = result.class_scores
    if scores.shape[1] == 2:
        return scores[:, number] - scores[:, 1 - number]
    n_train = count_trained(result, len(scores))
    odds = log_odds(scores[:, :, None], [(1, 1, size) for size in n_train])
    return odds[number, :, 0]


def count_trained(result, n):
    """Return how many samples the models of each of n tested ones were trained with."""
    times, total = np.zeros((2, n))
    for train, test in result.folds:
        times[test] += 1
        total[test] += len(train)
    if not result.parameters.get("average_test", True):
        total /= result.parameters["average"]  # single trials are listed, all of them
    return total / np.maximum(times, 1)


def _rank(scores):
    """Return ranks of scores, alike where they are up to rounding, and their lowest.

    Ranks are finite where the score of an absent class is not.
    """
    merged = merge_near_ties(scores[None, :, None])[0, :, 0]
    values, ranks = np.unique(merged, return_inverse=True)
    lowest = np.full(len(values), np.inf)
    np.minimum.at(lowest, ranks, scores)
    return ranks, lowest
