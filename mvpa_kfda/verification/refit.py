"""One model of a result, refitted from the data, for everybody to read.

Nothing here is fast, and nothing is shared with what made the result: NumPy, SciPy and
scikit-learn, and the definitions. A *cell* of a result is what one model says of one
test set: at a position, in a fold, for the observed labels or for permuted ones.

A model is trained like this. Steps, such as z-scores, are learned from the training
trials, some with their labels. A kernel compares trials; in the coordinates of its
feature space (the principal components of the training trials, all of them) the method
is a linear one. With the class means m_k of the training trials, the scatter S within
classes, and the penalty lambda, the score of class k for a trial x is

    x' (S + lambda I)^-1 m_k  -  m_k' (S + lambda I)^-1 m_k / 2

and the highest score wins: linear discriminant analysis with equal priors and a ridge.
Regression is scikit-learn's Ridge in the same coordinates; of values on a circle, of
sine and cosine, whose angle is the prediction.

A kernel is what a result records of it, ``{"name": "RBF", "gamma": 0.1}``, with what a
file does not hold put in: the function itself of a function, the matrix of a penalty.
Some kernels have numbers of their own, that they take from trials without their labels:
a width, landmarks, a basis. These trials are called `seen`.
"""

import warnings
from dataclasses import dataclass, replace

import numpy as np
from scipy.linalg import block_diag, eigh, solve
from sklearn.base import clone
from sklearn.cluster import KMeans
from sklearn.covariance import ledoit_wolf_shrinkage, oas
from sklearn.decomposition import KernelPCA
from sklearn.linear_model import LinearRegression, Ridge
from sklearn.metrics.pairwise import (
    euclidean_distances,
    polynomial_kernel,
    rbf_kernel,
)

#: Kernels that compare features by a product with some matrix, mostly the identity.
LINEAR = ("Linear", "Penalty", "GraphSmooth")
#: More trials than these do not add to what an approximated kernel takes from them.
_MANY = 2000
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
    period: float | None = None  #: the length of the circle that values lie on


@dataclass(frozen=True)
class Sample:
    """Some trials: features, labels (class numbers or values), groups, confounds."""

    X: np.ndarray
    labels: np.ndarray
    groups: np.ndarray | None = None
    confounds: np.ndarray | None = None

    def __getitem__(self, rows):
        """Some of the trials."""
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
        step = clone(step).fit(X, None if recipe.n_classes is None else train.labels)
        X, X_test = step.transform(X), step.transform(X_test)
    train = replace(train, X=X)
    if known is None:
        known = Known(train, train, X if seen is None else seen, recipe.gram)
    chosen = chosen or chosen_without_labels(recipe, known)
    kernel, lam, unsure = chosen or tuned(train, recipe, known)
    Z, Z_test = coordinates(kernel, X, X_test, known)
    if recipe.n_classes is None:
        values = Ridge(alpha=lam).fit(Z, regressed(train, recipe)).predict(Z_test)
        if recipe.period:
            angles = np.arctan2(*values.T) % (2 * np.pi)
            values = angles / (2 * np.pi) * recipe.period
        return Prediction(values, None, np.full(len(values), unsure), lam)
    scores, size = class_scores(Z, train.labels, Z_test, lam, recipe)
    best, second = np.sort(scores, axis=1)[:, :-3:-1].T
    # Relative to what they are differences of, and to labels, whose rounding remains
    # where a strong penalty leaves little else.
    doubt = recipe.rounding * (size + 0.1)
    near = best - second <= doubt
    return Prediction(scores.argmax(axis=1), scores, near | unsure, lam, doubt)


def regressed(train, recipe):
    """What is regressed: values, sine and cosine, or the indicators of classes."""
    if recipe.n_classes is not None:
        return np.eye(recipe.n_classes)[train.labels]
    if not recipe.period:
        return train.labels
    angles = 2 * np.pi * train.labels / recipe.period
    return np.column_stack([np.sin(angles), np.cos(angles)])


def class_scores(Z, labels, Z_test, lam, recipe):
    """The score of every class for test trials, (n_test, c).

    And the size of what these are differences of, (n_test,): where class means are
    the same but for rounding, scores are rounding too.
    """
    present = np.unique(labels)
    means = np.array([Z[labels == k].mean(axis=0) for k in present])
    apart = Z - means[np.searchsorted(present, labels)]
    penalised = apart.T @ apart + lam * np.eye(Z.shape[1])
    weights = solve(penalised, means.T, assume_a="pos")
    if recipe.n_components is not None:
        # The first discriminants: W' (S + lambda I) W = I, and most between classes.
        between = sum(
            np.sum(labels == k) * np.outer(mean, mean)
            for k, mean in zip(present, means, strict=True)
        )
        W = eigh(between, penalised)[1][:, ::-1][:, : recipe.n_components]
        weights = W @ (W.T @ means.T)
    scores = np.full((len(Z_test), recipe.n_classes), -np.inf)
    scores[:, present] = Z_test @ weights - np.sum(means.T * weights, axis=0) / 2
    size = np.abs(Z_test @ solve(penalised, Z.T, assume_a="pos")).max(axis=1)
    return scores, size


def without_confounds(train, test):
    """Features less what confounds explain, by the training trials."""
    if train.confounds is None:
        return train.X, test.X
    fitted = LinearRegression().fit(train.confounds, train.X)
    mean = train.confounds.mean(axis=0)  # features keep their own mean
    left = [each.X - (each.confounds - mean) @ fitted.coef_.T for each in (train, test)]
    size = np.abs(train.X - train.X.mean(axis=0)).max(axis=0)
    kept = np.abs(left[0] - train.X.mean(axis=0)).max(axis=0) > ROUNDING * size
    return left[0] * kept, left[1] * kept


# ------------------------------------------------------------------- trials compared


def sees_offsets(kernel):
    """Whether an offset of all trials changes more than the mean in feature space.

    Of a map of a linear kernel, the values between trial and basis are features.
    """
    inner = kernel.get("kernel")
    if inner is None:
        return kernel["name"] not in (*LINEAR, "RBF")
    of_values = kernel["name"] == "EmpiricalMap" and inner["name"] in LINEAR
    return of_values or sees_offsets(inner)


def kernel_values(kernel, A, B, seen, gram=None):
    """The kernel's values between trials A (n_a, p) and B (n_b, p).

    Or between averages in feature space, of k trials (n_a, k, p) each: the means of the
    values of all their trials. Where an offset changes nothing, the mean of B, the
    training trials, is taken out first: products of features far from 0 lose digits.
    """
    if not sees_offsets(kernel):
        mean = B.reshape(-1, B.shape[-1]).mean(axis=0)
        A, B, seen = A - mean, B - mean, seen - mean
    if A.ndim == 2:
        return _of_trials(kernel, A, B, seen, gram)
    a, b = A.reshape(-1, A.shape[2]), B.reshape(-1, B.shape[2])
    values = _of_trials(kernel, a, b, seen, gram)
    return values.reshape(*A.shape[:2], *B.shape[:2]).mean(axis=(1, 3))


def _of_trials(kernel, A, B, seen, gram):
    """The kernel's values between trials."""
    name = kernel["name"]
    if name in LINEAR:
        return whitened(kernel, A) @ whitened(kernel, B).T
    if name == "Precomputed":  # features are the numbers of the trials
        return gram[np.ix_(A[:, 0], B[:, 0])]
    if name == "RBF":
        return rbf_kernel(A, B, gamma=width(kernel["gamma"], seen))
    if name == "Polynomial":
        degree, gamma, coef0 = (kernel[each] for each in ("degree", "gamma", "coef0"))
        return polynomial_kernel(A, B, degree=degree, gamma=gamma, coef0=coef0)
    if name == "Callable":
        return np.asarray(kernel["function"](A, B), float)
    inner = kernel["kernel"]
    if name == "EmpiricalMap":  # features are the values between trial and basis
        a, b = (_of_trials(inner, each, seen, seen, gram) for each in (A, B))
        return a @ b.T
    assert name == "LowRank"
    return _approximated(inner, kernel["approx"], A, B, seen)


def width(gamma, seen):
    """The inverse squared width of a Gaussian kernel, maybe by the median."""
    if gamma != "median":
        return gamma  # None is one over the number of features, as in scikit-learn
    distances = euclidean_distances(seen - seen.mean(axis=0), squared=True)
    return 1 / np.median(distances[np.triu_indices(len(distances), k=1)])


# ------------------------------------------------------------- penalties on differences


def whitened(kernel, X):
    """Features (n, p) for which a penalty w' Omega w is a ridge.

    With Omega = L L' these are X L^-T. A window may have many samples side by side,
    each with the same penalty.
    """
    if kernel["name"] == "Linear":
        return X
    omega = penalty_matrix(kernel)
    omega = block_diag(*[omega] * (X.shape[1] // len(omega)))
    return np.linalg.solve(np.linalg.cholesky(omega), X.T).T


def penalty_matrix(kernel):
    """Omega: as it was given, or the Laplacian of a graph and some identity."""
    if kernel["name"] == "Penalty":
        return kernel["Omega"]
    edges = kernel["adjacency"]
    laplacian = np.diag(edges.sum(axis=1)) - edges
    return kernel["strength"] * laplacian + kernel["eps"] * np.eye(len(edges))


# -------------------------------------------------------------------------- landmarks


def _approximated(kernel, approx, A, B, seen):
    """K_AZ K_ZZ^+ K_ZB, with landmarks Z: the Nystrom approximation."""
    if kernel["name"] in LINEAR:  # of which landmarks span directions, from the mean
        A, B, seen = (each - seen.mean(axis=0) for each in (A, B, seen))
    rng = np.random.default_rng(approx["random_state"])
    n, r = len(seen), approx["n_components"]
    some = seen if n <= _MANY else seen[rng.choice(n, _MANY, replace=False)]
    if r == n:
        Z = seen
    elif approx["sampling"] == "uniform":
        Z = seen[rng.choice(n, r, replace=False)]
    else:  # k-means, begun by a seed
        seed = int(rng.integers(2**31))
        means = KMeans(r, init="random", n_init=1, max_iter=10, random_state=seed)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # that it has not converged
            Z = means.fit(seen).cluster_centers_
    values, vectors = eigh(_of_trials(kernel, Z, Z, some, None))
    kept = values > r * np.finfo(float).eps * values[-1]
    root = vectors[:, kept] / np.sqrt(values[kept])
    a, b = (_of_trials(kernel, each, Z, some, None) @ root for each in (A, B))
    return a @ b.T


# -------------------------------------------------------------------------- coordinates


def gram_of(kernel, X, known):
    """The kernel matrix of trials, less their mean in feature space."""
    K = kernel_values(kernel, X, X, known.seen, known.gram)
    return K - K.mean(axis=0) - K.mean(axis=1, keepdims=True) + K.mean()


def coordinates(kernel, X, X_test, known):
    """Training and test trials in the kernel's feature space, less the mean."""
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


def chosen_without_labels(recipe, known):
    """The kernel, lambda, and False for no doubt; None if labels choose them.

    Values have a size to choose by.
    """
    reg = recipe.reg
    if isinstance(reg, dict) and reg["name"] == "Tuned":
        return None
    if reg == "auto" and recipe.n_classes is None:
        return None
    (kernel,) = recipe.kernels
    lam = without_labels(reg, kernel, known)
    if recipe.most is not None:
        lam = min(lam, without_labels(recipe.most, kernel, known))
    return kernel, lam, False


def without_labels(reg, kernel, known):
    """The lambda of a rule that looks at no labels, by a centred kernel matrix.

    Only linear kernels have a number of features.
    """
    if reg == "auto":
        return label_free(kernel, known)[0]
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
    """Whether features have one variance and no correlations, but for rounding."""
    covariance, p = np.cov(X.T), X.shape[1]
    if p == 1:
        return False  # there is nothing to shrink towards
    apart = covariance - np.trace(covariance) / p * np.eye(p)
    return np.sum(apart**2) <= 1e-12 * np.sum(covariance**2)


def shrunk(gamma, K, p):
    """Lambda where (1 - gamma) C + gamma tr(C) / p I is like C + lambda I."""
    with np.errstate(divide="ignore"):
        return float(np.divide(gamma, 1 - gamma) * np.trace(K) / p)


def lambda_of_freedom(df, values):
    """The lambda for which 1 + sum s / (s + lambda) = df, by bisection."""
    values = values[values > 10 * len(values) * np.finfo(float).eps * values.max()]
    low, high = np.log(values.min()) - 50, np.log(values.max()) + 50
    for _ in range(200):
        middle = (low + high) / 2
        more = 1 + np.sum(values / (values + np.exp(middle))) > df
        low, high = (middle, high) if more else (low, middle)
    return np.exp(middle)


def label_free(kernel, known):
    """Two lambdas that no label has a part in, by new trials and new groups.

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
    groups = np.arange(n) if groups is None else groups
    parts = [np.flatnonzero(groups == g) for g in np.unique(groups)]
    parts = [rows for rows in parts if len(rows) > 1]
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


def between_groups(w, axes, lam, parts):
    """What groups explain, and what they have in common, by the hat matrix.

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
    """How large effects have to be: if they are like noise, and anywhere.

    By the shares that are explained of seen trials; unseen ones move by more.
    """
    left = 1 - explained
    like_noise = max(common / (explained * left) ** 2, 1e-14)  # rounding, if all alike
    moves, noise, error = trace + size / left, size / left**2, common / left**4 / n
    # The t for which t^2 moves^2 = t noise + error.
    root = np.sqrt(noise**2 + 4 * moves**2 * error)
    return like_noise, (noise + root) / (2 * moves**2)


def lowest(lambdas, values):
    """Where a parabola by the lowest value and those beside it is lowest.

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
    """A kernel, or that which it approximates."""
    return innermost(kernel["kernel"]) if kernel["name"] == "LowRank" else kernel


def n_features_of(kernel, X):
    """How many features a linear kernel has; 0 for other kernels."""
    return X.shape[-1] if innermost(kernel)["name"] in LINEAR else 0


def tuned(train, recipe, known):
    """The kernel and lambda that predict training trials best when left out."""
    best, chosen, unsure = np.inf, None, False
    reg = TUNED if recipe.reg == "auto" else recipe.reg
    groups = known.everybody.groups
    alone = groups is None or len(np.unique(groups)) == len(groups)
    wanted = regressed(train, recipe)
    for kernel in recipe.kernels:
        lambdas = grid_of(reg["grid"], kernel, recipe, known)
        if alone and reg == TUNED:
            Z, _ = coordinates(kernel, train.X, train.X, known)
            losses = [generalized_loss(lam, Z, wanted) for lam in lambdas]
        else:
            losses = left_out_losses(lambdas, kernel, train, wanted, known)
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
    """The loss by generalized cross-validation (Golub et al., 1979).

    The squared residuals of the training trials over the squared trace of the matrix M
    that makes them.
    """
    n, p = Z.shape
    H = 1 / n + Z @ solve(Z.T @ Z + lam * np.eye(p), Z.T, assume_a="pos")
    M = np.eye(n) - H
    return np.sum((M @ wanted) ** 2) / np.trace(M) ** 2


def left_out_losses(lambdas, kernel, train, wanted, known):
    """What models with each lambda lose on a training trial that is left out."""
    losses, groups = np.zeros(len(lambdas)), train.groups
    if groups is None or (len(np.unique(groups)) == 1 and np.ndim(wanted) == 1):
        groups = np.arange(len(wanted))  # one group cannot be left out
    for group in np.unique(groups):
        rows = groups != group
        Z, Z_test = coordinates(kernel, train.X[rows], train.X[~rows], known)
        offset = wanted[rows].mean(axis=0)
        for i, lam in enumerate(lambdas):
            penalised = Z.T @ Z + lam * np.eye(Z.shape[1])
            weights = solve(penalised, Z.T @ (wanted[rows] - offset), assume_a="pos")
            losses[i] += np.sum((wanted[~rows] - Z_test @ weights - offset) ** 2)
    return losses / len(wanted)
