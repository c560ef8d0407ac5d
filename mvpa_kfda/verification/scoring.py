"""Scores of refitted predictions, by scikit-learn where it has them."""

from itertools import combinations

import numpy as np
from scipy.special import logsumexp
from scipy.stats import norm
from sklearn import metrics


def _kappa(true, predicted):
    """Cohen's kappa, 0 where it is 0 / 0."""
    by_chance = sum(np.mean(true == k) * np.mean(predicted == k) for k in set(true))
    return (np.mean(true == predicted) - by_chance) / (1 - by_chance or np.inf)


def _d_prime(true, predicted):
    """The mean sensitivity of classes, each against the rest."""
    found = []
    for k in set(true):
        hits = (np.sum(predicted[true == k] == k) + 0.5) / (np.sum(true == k) + 1)
        alarms = (np.sum(predicted[true != k] == k) + 0.5) / (np.sum(true != k) + 1)
        if np.any(true != k):
            found.append(norm.ppf(hits) - norm.ppf(alarms))
    return np.mean(found) if found else 0.0


#: Metrics of predicted classes, pooled over all test sets.
POOLED = {
    "accuracy": metrics.accuracy_score,
    "balanced_accuracy": lambda y, p: np.mean(
        [np.mean(p[y == k] == k) for k in set(y)]
    ),
    "kappa": _kappa,
    "matthews_corrcoef": metrics.matthews_corrcoef,
    "d_prime": _d_prime,
    "recall": metrics.recall_score,
    "precision": metrics.precision_score,
    "f1": metrics.f1_score,
}
#: Metrics of the order of scores in test sets, and of probabilities.
OF_ORDER = {
    "roc_auc": metrics.roc_auc_score,
    "average_precision": metrics.average_precision_score,
}
OF_PROBABILITIES = ("neg_log_loss", "neg_brier_score")
#: Metrics of predicted numbers.
OF_NUMBERS = {
    "r2": metrics.r2_score,
    "neg_mean_squared_error": lambda y, p: -metrics.mean_squared_error(y, p),
    "pearsonr": lambda y, p: (
        np.corrcoef(y, p)[0, 1] if np.ptp(p) and np.ptp(y) else 0.0
    ),
}
#: Metrics that are means over pairs of classes, and the table of each.
PAIRS = {
    "pairwise_accuracy": "pairwise_accuracies",
    "crossnobis": "crossnobis_distances",
}


def _of_angles(name, true, predicted, period):
    """A metric of values on a circle, in their unit."""
    apart = (predicted - true) / period
    if name == "mean_cosine":
        return np.mean(np.cos(2 * np.pi * apart))
    return -period * np.mean(np.abs(apart - np.round(apart)))


#: Metrics of values on a circle.
OF_ANGLES = ("mean_cosine", "neg_mean_absolute_error")


def is_covered(name, n_classes, chosen=()):
    """Whether a metric can be computed here."""
    if n_classes is None:
        return name in (*OF_NUMBERS, *OF_ANGLES)
    known = (*OF_ORDER, *OF_PROBABILITIES, *POOLED, *PAIRS, *chosen)
    return name in known or name.removesuffix("_macro") in POOLED


def score(name, sets, n_classes, chosen, period=None):
    """One metric of several test sets, each (true, predicted, scores, n_train).

    Values may lie on a circle, whose length is the period. Some metrics are means over
    `chosen` pairs of classes: (table, which of its entries), by name.
    """
    true, predicted = (np.concatenate([each[i] for each in sets]) for i in (0, 1))
    if period is not None and name in OF_ANGLES:
        return _of_angles(name, true, predicted, period)
    if n_classes is None:
        return OF_NUMBERS[name](true, predicted)
    if name in OF_ORDER:
        return _areas(sets, n_classes, OF_ORDER[name])
    if name in OF_PROBABILITIES:
        logs = np.concatenate([n_train * each for _, _, each, n_train in sets])
        p = np.exp(logs - logsumexp(logs, axis=1, keepdims=True))
        if name == "neg_log_loss":
            eps = np.finfo(float).eps
            return np.mean(np.log(np.clip(p[np.arange(len(p)), true], eps, 1 - eps)))
        # Of two classes the second alone.
        error = (p - np.eye(n_classes)[true]) ** 2
        return -error.sum(axis=1).mean() / (2 if n_classes == 2 else 1)
    if name in PAIRS.values():
        return pairs_of_classes(name, sets, n_classes)
    if name in PAIRS or name in chosen:
        table, some = chosen.get(name, (PAIRS.get(name), slice(None)))
        values = pairs_of_classes(table, sets, n_classes)[some]
        return np.nan_to_num(_mean(values), nan=0.5 if "accura" in table else 0.0)
    stem = name.removesuffix("_macro")
    if stem not in ("recall", "precision", "f1"):
        return POOLED[name](true, predicted)
    mean = "binary" if n_classes == 2 and stem == name else "macro"
    return POOLED[stem](true, predicted, average=mean, zero_division=0)


def pairs_of_classes(table, sets, n_classes):
    """The accuracy or the distance of each pair of classes; NaN if not tested.

    The share of the trials of i whose score of i is above that of j, and of those of j
    the other way round: their mean is the accuracy. The difference of these two scores,
    in its mean over trials of i less its mean over those of j, times the degrees of
    freedom within classes, is the squared distance.
    """
    found = []
    for i, j in combinations(range(n_classes), 2):
        wins, distances = {i: [], j: []}, []
        for true, _, scores, n_train in sets:
            seen = np.isfinite(scores).all(axis=0)
            known = np.where(seen, scores, -1e300)  # no trial is of an unseen class
            further = known[:, i] - known[:, j]
            for k, sign in ((i, 1), (j, -1)):
                wins[k] += ((1 + np.sign(sign * further[true == k])) / 2).tolist()
            if seen[i] and seen[j] and {i, j} <= set(true):
                apart = further[true == i].mean() - further[true == j].mean()
                distances.append((n_train - seen.sum()) * apart)
        accuracy = (_mean(wins[i]) + _mean(wins[j])) / 2
        found.append(accuracy if "accura" in table else _mean(distances))
    return np.array(found)


def _mean(values):
    """The mean of what is defined; NaN of nothing."""
    values = np.asarray(values, float)
    values = values[~np.isnan(values)]
    return values.mean() if len(values) else np.nan


def _areas(sets, n_classes, area):
    """The mean area over test sets, and over classes against the rest."""
    means = []
    for k in [1] if n_classes == 2 else range(n_classes):
        each = [(true == k, _odds(scores, k, n)) for true, _, scores, n in sets]
        # None of single classes; as in leave-one-out, then all sets together.
        together = [tuple(map(np.concatenate, zip(*each, strict=True)))]
        areas = _areas_of(each, area) or _areas_of(together, area)
        means += [np.mean(areas)] if areas else []
    return np.mean(means) if means else 0.5


def _areas_of(pairs, area):
    """The areas under the curves of flags and odds; of infinite odds by order."""
    return [
        area(flags, np.unique(odds, return_inverse=True)[1])
        for flags, odds in pairs
        if 0 < flags.sum() < len(flags)
    ]


def _odds(scores, k, n_train):
    """The log odds of a class; its log posterior is n_train times its score."""
    logs = n_train * scores
    with np.errstate(invalid="ignore"):
        odds = logs[:, k] - logsumexp(np.delete(logs, k, axis=1), axis=1)
    return np.nan_to_num(odds, nan=0.0, posinf=1e300, neginf=-1e300)
