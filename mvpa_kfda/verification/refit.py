"""One model of a result, refitted from the data, for everybody to read.

Nothing here is fast, and nothing is shared with what made the result: NumPy, SciPy and
scikit-learn, and the definitions. A *cell* of a result is what one model says of one
test set: at a position, in a fold, for the observed labels or for permuted ones.

A model is trained like this. Steps, such as z-scores, are learned from the training
trials. A kernel compares trials; in the coordinates of its feature space (the principal
components of the training trials, all of them) the method is a linear one. With the
class means m_k of the training trials, the scatter S within classes, and the penalty
lambda, the score of class k for a trial x is

    x' (S + lambda I)^-1 m_k  -  m_k' (S + lambda I)^-1 m_k / 2

and the highest score wins: linear discriminant analysis with equal priors and a ridge.
Regression is scikit-learn's Ridge in the same coordinates.
"""

from dataclasses import dataclass, replace

import numpy as np
from scipy.linalg import eigh, helmert, solve
from sklearn.base import clone
from sklearn.covariance import ledoit_wolf_shrinkage, oas
from sklearn.decomposition import KernelPCA
from sklearn.linear_model import LinearRegression, Ridge
from sklearn.model_selection import KFold

from .kernels import LINEAR, kernel_values, whitened

#: Two numbers that are nearer than this, relative to what they are made of, are equal.
ROUNDING = 1e-9


@dataclass(frozen=True)
class Recipe:
    """How a model is trained, as the result says it.

    `kernels` and `reg` are a result's records: ``{"name": "RBF", "gamma": 0.1}``.
    """

    kernels: tuple  #: one, or several to choose from
    reg: object  #: a number, a name, or a record
    n_classes: int | None  #: None for regression
    steps: tuple = ()  #: transformers of scikit-learn
    n_components: int | None = None  #: discriminants to classify by, None for all
    gram: np.ndarray | None = None  #: a precomputed kernel matrix
    rounding: float = ROUNDING  #: scores that are nearer are ties


@dataclass(frozen=True)
class Sample:
    """Some trials: features, labels (class numbers or values), groups, confounds."""

    X: np.ndarray
    labels: np.ndarray
    groups: np.ndarray | None = None
    confounds: np.ndarray | None = None

    def __getitem__(self, rows):
        """Return some of the trials."""
        parts = (self.X, self.labels, self.groups, self.confounds)
        return Sample(*(None if part is None else part[rows] for part in parts))


@dataclass(frozen=True)
class Known:
    """What is known without labels, by which kernels and penalties are set."""

    X: np.ndarray  #: the trials that a relative penalty is relative to
    seen: np.ndarray  #: single trials, of which kernels take a width or landmarks
    gram: np.ndarray | None  #: a precomputed kernel matrix


@dataclass(frozen=True)
class Prediction:
    """What a model says of its test trials."""

    predicted: np.ndarray  #: class numbers, or values
    scores: np.ndarray | None  #: (n_test, c), -inf for classes not trained with
    ties: np.ndarray  #: whether rounding may have decided, (n_test,)
    lam: float  #: the penalty
    doubt: np.ndarray | None = None  #: what rounding may do to scores, (n_test,)
    lam_doubt: float = 0.0  #: what it may do to the penalty, relative to it


def refit(train, test, method, everybody=None, seen=None):
    """Train on some trials, and predict others.

    Penalties that no label has a part in are those of `everybody`, as features without
    labels; None: of the training trials, once the steps are done. Widths of kernels are
    those of the trials that are `seen`; None: of the same.
    """
    X, X_test = without_confounds(train, test)
    for step in method.steps:
        step = clone(step).fit(X)
        X, X_test = step.transform(X), step.transform(X_test)
    train = replace(train, X=X)
    everybody = X if everybody is None else everybody
    known = Known(everybody, everybody if seen is None else seen, method.gram)
    kernel, lam, unsure = choose_penalty(train, method, known)
    Z, Z_test = coordinates(kernel, X, X_test, known)
    if method.n_classes is None:
        values = Ridge(alpha=lam).fit(Z, train.labels).predict(Z_test)
        return Prediction(values, None, np.full(len(values), unsure), lam)
    scores, size = class_scores(Z, train.labels, Z_test, lam, method)
    best, second = np.sort(scores, axis=1)[:, :-3:-1].T
    # Relative to what they are differences of, and to labels, whose rounding remains
    # where a strong penalty leaves little else.
    doubt = method.rounding * (size + 0.1)
    near = best - second <= doubt
    return Prediction(scores.argmax(axis=1), scores, near | unsure, lam, doubt)


def class_scores(Z, labels, Z_test, lam, method):
    """Return the score of every class for test trials, (n_test, c).

    And the size of what these are differences of, (n_test,): where class means are
    the same but for rounding, scores are rounding too.
    """
    present = np.unique(labels)
    means = np.array([Z[labels == k].mean(axis=0) for k in present])
    apart = Z - means[np.searchsorted(present, labels)]
    penalised = apart.T @ apart + lam * np.eye(Z.shape[1])
    weights = solve(penalised, means.T, assume_a="pos")
    if method.n_components is not None:
        # The first discriminants: W' (S + lambda I) W = I, and most between classes.
        between = sum(
            np.sum(labels == k) * np.outer(mean, mean)
            for k, mean in zip(present, means, strict=True)
        )
        W = eigh(between, penalised)[1][:, ::-1][:, : method.n_components]
        weights = W @ (W.T @ means.T)
    scores = np.full((len(Z_test), method.n_classes), -np.inf)
    scores[:, present] = Z_test @ weights - np.sum(means.T * weights, axis=0) / 2
    size = np.abs(Z_test @ solve(penalised, Z.T, assume_a="pos")).max(axis=1)
    return scores, size


def without_confounds(train, test):
    """Return features less what confounds explain, by the training trials."""
    if train.confounds is None:
        return train.X, test.X
    fitted = LinearRegression().fit(train.confounds, train.X)
    mean = train.confounds.mean(axis=0)  # features keep their own mean
    left = [each.X - (each.confounds - mean) @ fitted.coef_.T for each in (train, test)]
    size = np.abs(train.X - train.X.mean(axis=0)).max(axis=0)
    kept = np.abs(left[0] - train.X.mean(axis=0)).max(axis=0) > ROUNDING * size
    return left[0] * kept, left[1] * kept


# -------------------------------------------------------------------------- coordinates


def centred(K):
    """Return a kernel matrix of trials less their mean in feature space."""
    return K - K.mean(axis=0) - K.mean(axis=1, keepdims=True) + K.mean()


def gram_of(kernel, X, known):
    """Return the centred kernel matrix of trials."""
    return centred(kernel_values(kernel, X, X, known.seen, known.gram))


def coordinates(kernel, X, X_test, known):
    """Return training and test trials in the kernel's feature space, less the mean."""
    if kernel["name"] == "Linear" and X.ndim == 2 and X.shape[1] < len(X):
        mean = X.mean(axis=0)
        return X - mean, X_test - mean
    components = KernelPCA(kernel="precomputed", eigen_solver="dense")
    components.fit(kernel_values(kernel, X, X, known.seen, known.gram))
    return (
        components.transform(kernel_values(kernel, each, X, known.seen, known.gram))
        for each in (X, X_test)
    )


# ---------------------------------------------------------------------------- penalties


def choose_penalty(train, method, known):
    """Return the kernel, lambda, and whether rounding may have decided on them."""
    reg = method.reg
    if isinstance(reg, dict) and reg["name"] == "Tuned":
        return tuned(train, method, known)
    (kernel,) = method.kernels
    if reg == "auto":
        K = gram_of(kernel, train.X, known)
        return kernel, *automatic(K, train, method.n_classes, method.rounding)
    return (
        kernel,
        without_labels(reg, gram_of(kernel, known.X, known), kernel, known),
        False,
    )


def without_labels(reg, K, kernel, known):
    """Return the lambda of a rule that looks at no labels, by a centred kernel matrix.

    Only linear kernels have a number of features.
    """
    while kernel["name"] == "LowRank":  # an approximation of one
        kernel = kernel["kernel"]
    p = known.X.shape[-1] if kernel["name"] in LINEAR else len(K)
    scale = np.trace(K) / len(K)
    if isinstance(reg, int | float):
        return reg * scale
    if isinstance(reg, dict) and reg["name"] == "Ridge":
        return reg["lam"]
    if isinstance(reg, dict) and reg["name"] == "DegreesOfFreedom":
        return lambda_of_freedom(reg["df"], np.linalg.eigvalsh(K))
    if isinstance(reg, dict) and reg["name"] == "Shrinkage":
        return shrunk(reg["gamma"], K, p)
    X = whitened(kernel, known.X - known.X.mean(axis=0))
    gamma = ledoit_wolf_shrinkage(X) if reg == "ledoit_wolf" else oas(X)[1]
    if is_white(X):  # rounding would decide
        gamma = 1.0
    return float(np.clip(shrunk(gamma, K, p), 1e-8 * scale, 1e3 * scale))


def is_white(X):
    """Tell whether features have one variance and no correlations, but for rounding."""
    covariance, p = np.cov(X.T), X.shape[1]
    if p == 1:
        return False  # there is nothing to shrink towards
    apart = covariance - np.trace(covariance) / p * np.eye(p)
    return np.sum(apart**2) <= 1e-12 * np.sum(covariance**2)


def shrunk(gamma, K, p):
    """Return lambda where (1 - gamma) C + gamma tr(C) / p I is like C + lambda I."""
    with np.errstate(divide="ignore"):
        return float(np.divide(gamma, 1 - gamma) * np.trace(K) / p)


def lambda_of_freedom(df, values):
    """Return the lambda for which 1 + sum s / (s + lambda) = df, by bisection."""
    values = values[values > 10 * len(values) * np.finfo(float).eps * values.max()]
    low, high = np.log(values.min()) - 50, np.log(values.max()) + 50
    for _ in range(200):
        middle = (low + high) / 2
        more = 1 + np.sum(values / (values + np.exp(middle))) > df
        low, high = (middle, high) if more else (low, middle)
    return np.exp(middle)


def automatic(K, train, n_classes, rounding=ROUNDING):
    """Return the lambda of ``reg="auto"`` by a training set's centred kernel matrix.

    Of a grid of 13 the largest that predicts trials that are left out about as well as
    the best does, as estimated by generalized cross-validation (see the page on the
    method). Where there are groups, it is groups that are left out.
    """
    n = len(K)
    T = train.labels.astype(float)[:, np.newaxis]  # what is predicted: values,
    if n_classes is not None:
        T = helmert(n_classes).T[train.labels]  # or contrasts between classes
    T = T - T.mean(axis=0)
    groups = groups_within(train.groups)
    values, axes = eigh((K + K.T) / 2)
    lambdas = values[-1] * 10.0 ** (np.arange(3, -22, -2) * 7 / 24)
    if not T.any():  # of one class alone
        return lambdas[0], False
    errors = []
    for lam in lambdas:
        left = lam / (np.maximum(values, 0) + lam)  # the share that is not explained
        M = (axes * left) @ axes.T  # T less its prediction is M T
        if groups is None:
            residual = (left.sum() - 1) / (n - 1)
        else:
            own = within = 0.0
            for g in np.unique(groups):
                rows = np.flatnonzero(groups == g)
                block = M[np.ix_(rows, rows)]
                own += np.sum(T[rows] * (block @ T[rows]))
                within += np.trace(block) - block.sum() / len(rows)
            R = groups.max() + 1
            between = R / (R - 1) * (own - np.sum(T * (M @ T)) / R) / np.sum(T**2)
            residual = np.sqrt(between * within / (n - R))
        P = T - M @ T / residual  # what would be predicted of left-out trials
        scale, size = 1.0, np.sum(P**2)
        if n_classes is not None and size > ROUNDING * np.sum(T**2):
            scale = max(np.sum(T * P) / size, 1)  # a discriminant may have any scale
        errors.append(np.sum((T - scale * P) ** 2) / np.sum(T**2))
    errors = np.array(errors)
    margin = 0.1 / n * (1 if n_classes is not None else errors.min())
    excess = errors - errors.min() - margin
    near = np.abs(excess) <= rounding * errors.min()
    return lambdas[np.flatnonzero(excess <= 0)[0]], bool(near.any())


def groups_within(groups):
    """Return numbers of groups; None where every trial, or all, are one group."""
    if groups is None:
        return None
    names, numbers = np.unique(groups, return_inverse=True)
    return numbers if 1 < len(names) < len(groups) else None


def tuned(train, method, known):
    """Return the kernel and lambda that predict training trials best when left out."""
    tuning, best, chosen, unsure = method.reg, np.inf, None, False
    splits = list(inner_splits(tuning["cv"], train))
    for kernel in method.kernels:
        lambdas = grid_of(tuning["grid"], kernel, known)
        losses, n_left_out = np.zeros(len(lambdas)), 0
        for rows, left_out in splits:
            part, others = train[rows], train[left_out]
            Z, Z_test = coordinates(kernel, part.X, others.X, known)
            how = Z, part.labels, Z_test, others.labels, method, tuning["criterion"]
            losses += [loss_of(lam, *how) for lam in lambdas]
            n_left_out += len(left_out)
        for lam, loss in zip(lambdas, losses / n_left_out, strict=True):
            unsure |= abs(loss - best) <= method.rounding * best
            if loss < best * (1 - ROUNDING):
                best, chosen, unsure = loss, (kernel, lam), False
    return *chosen, unsure


def grid_of(grid, kernel, known):
    """Return the lambdas that a tuned penalty is chosen from, the largest first."""
    K = gram_of(kernel, known.X, known)
    if grid != "auto":
        each = (without_labels(reg, K, kernel, known) for reg in grid)
        return sorted(each, reverse=True)
    values = np.linalg.eigvalsh(K)
    smallest = values[values > 10 * len(K) * np.finfo(float).eps * values[-1]].min()
    return np.geomspace(values[-1], max(1e-3 * smallest, 1e-7 * values[-1]), 20)


def inner_splits(cv, train):
    """Yield the training trials that are left out together, and all others."""
    n = len(train.labels)
    if cv is None:  # one at a time, or one group
        groups = np.arange(n) if train.groups is None else train.groups
        tests = [np.flatnonzero(groups == g) for g in np.unique(groups)]
    elif isinstance(cv, int):
        splitter = KFold(cv, shuffle=True, random_state=0)
        tests = [test for _, test in splitter.split(np.zeros(n))]
    else:
        labels = train.labels
        tests = [test for _, test in cv.split(np.zeros((n, 1)), labels, train.groups)]
    for test in tests:
        yield np.delete(np.arange(n), test), test


def loss_of(lam, Z, labels, Z_test, true, method, criterion):
    """Return what a model with one lambda loses on the trials that are left out."""
    if criterion == "squared_error":
        known, wanted = labels, true
        if method.n_classes is not None:  # the indicators of the classes
            known, wanted = (np.eye(method.n_classes)[each] for each in (labels, true))
        offset = known.mean(axis=0)
        penalised = Z.T @ Z + lam * np.eye(Z.shape[1])
        weights = solve(penalised, Z.T @ (known - offset), assume_a="pos")
        return np.sum((wanted - Z_test @ weights - offset) ** 2)
    scores, _ = class_scores(Z, labels, Z_test, lam, method)
    if criterion == "accuracy":
        return np.sum(scores.argmax(axis=1) != true)
    logs = len(Z) * (scores - scores.max(axis=1, keepdims=True))
    shares = np.exp(logs) / np.exp(logs).sum(axis=1, keepdims=True)
    shares = shares[np.arange(len(shares)), true]
    return -np.sum(np.log(np.maximum(shares, np.finfo(float).eps)))
