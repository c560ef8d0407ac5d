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
from scipy.linalg import eigh, solve
from sklearn.base import clone
from sklearn.covariance import ledoit_wolf_shrinkage, oas
from sklearn.decomposition import KernelPCA
from sklearn.linear_model import LinearRegression, Ridge

from .kernels import LINEAR, kernel_values, whitened

#: Two numbers that are nearer than this, relative to what they are made of, are equal.
ROUNDING = 1e-9
#: What ``reg="tuned"`` stands for.
TUNED = {"name": "Tuned", "grid": "auto"}


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
    most: float | None = None  #: the largest `reg` there may be, unless labels choose


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

    everybody: Sample  #: the trials that a relative penalty is relative to
    trained: Sample  #: those of them that some model is trained with
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


def refit(train, test, recipe, known=None, chosen=None, seen=None):
    """Train on some trials, and predict others.

    What penalties and kernels take from trials without their labels is `known`; None:
    it is that of the training trials, once the steps are done, but for widths of
    kernels by those that are `seen`. Kernel and lambda may have been `chosen`.
    """
    X, X_test = without_confounds(train, test)
    for step in recipe.steps:
        step = clone(step).fit(X)
        X, X_test = step.transform(X), step.transform(X_test)
    train = replace(train, X=X)
    if known is None:
        known = Known(train, train, X if seen is None else seen, recipe.gram)
    kernel, lam, unsure = chosen or choose_penalty(train, recipe, known)
    Z, Z_test = coordinates(kernel, X, X_test, known)
    if recipe.n_classes is None:
        values = Ridge(alpha=lam).fit(Z, train.labels).predict(Z_test)
        return Prediction(values, None, np.full(len(values), unsure), lam)
    scores, size = class_scores(Z, train.labels, Z_test, lam, recipe)
    best, second = np.sort(scores, axis=1)[:, :-3:-1].T
    # Relative to what they are differences of, and to labels, whose rounding remains
    # where a strong penalty leaves little else.
    doubt = recipe.rounding * (size + 0.1)
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


def is_tuned(recipe):
    """Whether labels choose the penalty; values have a size to choose it by."""
    is_rule = isinstance(recipe.reg, dict) and recipe.reg["name"] == "Tuned"
    return is_rule or (recipe.reg == "auto" and recipe.n_classes is None)


def choose_penalty(train, recipe, known):
    """The kernel, lambda, and whether rounding may have decided on them."""
    if is_tuned(recipe):
        return tuned(train, recipe, known)
    (kernel,) = recipe.kernels
    if recipe.reg == "auto":
        lam = label_free(kernel, known)[0]
    else:
        lam = without_labels(recipe.reg, kernel, known)
    if recipe.most is not None:
        lam = min(lam, without_labels(recipe.most, kernel, known))
    return kernel, lam, False


def without_labels(reg, kernel, known):
    """Return the lambda of a rule that looks at no labels, by a centred kernel matrix.

    Only linear kernels have a number of features.
    """
    X = known.everybody.X
    K = gram_of(kernel, X, known)
    p = n_features_of(kernel, X) or len(K)
    scale = np.trace(K) / len(K)
    if isinstance(reg, int | float):
        return reg * scale
    if isinstance(reg, dict) and reg["name"] == "Ridge":
        return reg["lam"]
    if isinstance(reg, dict) and reg["name"] == "DegreesOfFreedom":
        return lambda_of_freedom(reg["df"], np.linalg.eigvalsh(K))
    if isinstance(reg, dict) and reg["name"] == "Shrinkage":
        return shrunk(reg["gamma"], K, p)
    X = whitened(innermost(kernel), X - X.mean(axis=0))
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


def label_free(kernel, known):
    """Return two lambdas that no label has a part in, by new trials and new groups.

    With the first, which is that of ``reg="auto"``, the effects that are needed are the
    smallest if they are like noise, with the second if they lie anywhere (see the page
    on the method). Of lambdas that are four to a decade.
    """
    X, groups = known.trained.X, known.trained.groups
    K = gram_of(kernel, X, known)
    n, m, p = len(K), len(K) - 1, n_features_of(kernel, X)
    w, axes = eigh((K + K.T) / 2)
    w, axes = w[::-1], axes[:, ::-1]  # the largest first
    is_null = w <= 10 * n * np.finfo(float).eps * w[0]
    w = np.where(is_null, 0, w)
    # One trial that is far away has the largest alone, and kernels that are not linear
    # have many small ones.
    most, least = 10 * w[0], (w[0] if is_null[1] else w[1]) * (1e-6 if p else 1e-2)
    steps = np.arange(np.ceil(4 * np.log10(most / least)) + 1)
    lambdas = most / 10 ** (steps / 4)
    if n < 4:
        return lambdas[0], lambdas[0]
    parts = groups_of_several(groups)
    needed = []
    for lam in lambdas:
        trace = np.sum(1 / (w + lam)[~is_null])
        if np.sum(~is_null) >= m:  # there are directions that no trial is in
            trace += max(p - m, 0) / lam
        h, sizes = w[:m] / (w[:m] + lam), w[:m] / (w[:m] + lam) ** 2
        views = [(h.mean(), h.var() / (m - 1), sizes.mean())]
        if len(parts) > 2:
            views += between_groups(w, axes, lam, parts)
        needed.append(sum(np.log(effects_needed(*each, trace, n)) for each in views))
    return tuple(lowest(lambdas, each) for each in np.transpose(needed))


def groups_of_several(groups):
    """Return the rows of each group that has several trials."""
    if groups is None:
        return []
    parts = [np.flatnonzero(groups == g) for g in np.unique(groups)]
    return [rows for rows in parts if len(rows) > 1]


def between_groups(w, axes, lam, parts):
    """Return what groups explain, and what they have in common, by the hat matrix.

    That is, of trials less their group's mean: the share of each that is explained, the
    mean square of the entries that two trials of different groups share and of what
    those of single trials differ from their expectation, and the squared length of a
    trial's projection A x. Nothing if trials of a group are the same.
    """
    f = sum(len(rows) - 1 for rows in parts)
    C = np.zeros((len(axes), len(axes)))  # takes out the means of groups
    between = np.ones_like(C)
    for rows in parts:
        C[np.ix_(rows, rows)] = np.eye(len(rows)) - 1 / len(rows)
        between[np.ix_(rows, rows)] = 0
    if np.trace(C @ (axes * (w > 0)) @ axes.T) < 1e-14 * f:
        return []
    H, E = (C @ (axes * w / (w + lam) ** power) @ axes.T @ C for power in (1, 2))
    mean = np.trace(H) / f
    alone = np.diag(H) - mean * np.diag(C)
    n_products = f**2 - sum((len(rows) - 1) ** 2 for rows in parts)
    common = (np.sum(between * H**2) + np.sum(alone**2)) / n_products
    return [(mean, common, np.trace(E) / f)]


def effects_needed(explained, common, size, trace, n):
    """Return how large effects have to be: if they are like noise, and anywhere.

    By the shares that are explained of seen trials; unseen ones move by more.
    """
    left = 1 - explained
    like_noise = max(common / (explained * left) ** 2, 1e-14)  # rounding, if all alike
    moves, noise, error = trace + size / left, size / left**2, common / left**4 / n
    # The t for which t^2 moves^2 = t noise + error.
    root = np.sqrt(noise**2 + 4 * moves**2 * error)
    return like_noise, (noise + root) / (2 * moves**2)


def lowest(lambdas, values):
    """Return where a parabola by the lowest value and those beside it is lowest.

    A decade less has to be better by a thousandth.
    """
    values = values + 1e-3 * np.log10(lambdas[0] / lambdas)
    i = np.argmin(values)
    if i in (0, len(values) - 1):
        return lambdas[i]
    before, after = values[i - 1] - values[i], values[i + 1] - values[i]
    shift = (before - after) / (before + after) / 2
    return lambdas[i] * (lambdas[i + 1] / lambdas[i]) ** shift


def innermost(kernel):
    """Return a kernel, or that which it approximates."""
    return innermost(kernel["kernel"]) if kernel["name"] == "LowRank" else kernel


def n_features_of(kernel, X):
    """Return how many features a linear kernel has; 0 for other kernels."""
    return X.shape[-1] if innermost(kernel)["name"] in LINEAR else 0


def tuned(train, recipe, known):
    """The kernel and lambda that predict training trials best when left out."""
    best, chosen, unsure = np.inf, None, False
    reg = TUNED if recipe.reg == "auto" else recipe.reg
    groups = known.everybody.groups
    alone = groups is None or len(np.unique(groups)) == len(groups)
    for kernel in recipe.kernels:
        lambdas = grid_of(reg["grid"], kernel, recipe, known)
        if alone and reg == TUNED:
            Z, _ = coordinates(kernel, train.X, train.X, known)
            wanted = wanted_of(train.labels, recipe)
            losses = [generalized_loss(lam, Z, wanted) for lam in lambdas]
        else:
            losses = left_out_losses(lambdas, kernel, train, recipe, known)
        for lam, loss in zip(lambdas, losses, strict=True):
            if chosen == (kernel, lam):
                continue
            unsure |= abs(loss - best) <= recipe.rounding * best
            if loss < best * (1 - ROUNDING):
                best, chosen, unsure = loss, (kernel, lam), False
    return *chosen, unsure


def grid_of(grid, kernel, recipe, known):
    """The lambdas that a tuned penalty is chosen from, the largest first."""
    are_linear = all(innermost(each)["name"] in LINEAR for each in recipe.kernels)
    if grid != "auto":
        lambdas = [without_labels(reg, kernel, known) for reg in grid]
    elif are_linear and recipe.n_classes is not None:
        lambdas = label_free(kernel, known)
    else:
        K = gram_of(kernel, known.everybody.X, known)
        values = np.linalg.eigvalsh(K)
        positive = values[values > 10 * len(K) * np.finfo(float).eps * values[-1]]
        least = max(1e-3 * positive.min(), 1e-7 * values[-2:][0])
        lambdas = np.geomspace(values[-1], least, 13)
    return sorted(lambdas, reverse=True)


def generalized_loss(lam, Z, wanted):
    """Return the loss by generalized cross-validation (Golub et al., 1979).

    The squared residuals of the training trials over the squared trace of the matrix M
    that makes them.
    """
    n, p = Z.shape
    H = 1 / n + Z @ solve(Z.T @ Z + lam * np.eye(p), Z.T, assume_a="pos")
    M = np.eye(n) - H
    return np.sum((M @ wanted) ** 2) / np.trace(M) ** 2


def left_out_losses(lambdas, kernel, train, method, known):
    """Return what models with each lambda lose on a training trial that is left out."""
    losses, n_left_out = np.zeros(len(lambdas)), 0
    if method.n_classes is None and len(np.unique(train.groups)) == 1:
        train = replace(train, groups=None)  # it cannot be left out: trials are
    n = len(train.labels)
    groups = np.arange(n) if train.groups is None else train.groups
    for group in np.unique(groups):
        left_out, rows = np.flatnonzero(groups == group), groups != group
        part, others = train[rows], train[left_out]
        Z, Z_test = coordinates(kernel, part.X, others.X, known)
        how = Z, part.labels, Z_test, others.labels, method
        losses += [loss_of(lam, *how) for lam in lambdas]
        n_left_out += len(left_out)
    return losses / n_left_out


def wanted_of(labels, method):
    """Return what is regressed: values, or the indicators of classes."""
    return labels if method.n_classes is None else np.eye(method.n_classes)[labels]


def loss_of(lam, Z, labels, Z_test, true, method):
    """Return what a model with one lambda loses on the trials that are left out."""
    known, wanted = (wanted_of(each, method) for each in (labels, true))
    offset = known.mean(axis=0)
    penalised = Z.T @ Z + lam * np.eye(Z.shape[1])
    weights = solve(penalised, Z.T @ (known - offset), assume_a="pos")
    return np.sum((wanted - Z_test @ weights - offset) ** 2)
