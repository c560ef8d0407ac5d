"""A plain kernel Fisher discriminant, refitted for every fold and permutation.

This is the oracle of the test suite. It is written to be believed by reading,
not to be fast: nothing is shared between folds or permutations, and no result
of the package is used.

The model lives in the feature space of the kernel. With ``mu`` the mean of the
training rows, ``mu_k`` and ``n_k`` the mean and size of class ``k``,

    S_b = sum_k n_k (mu_k - mu)(mu_k - mu)'          between-class scatter
    S_w = sum_k sum_{i in k} (x_i - mu_k)(x_i - mu_k)'    within-class scatter
    S_b w = alpha (S_w + lambda I) w,      W'(S_w + lambda I) W = I

(Mika et al. 1999 and Baudat & Anouar 2000 give the kernel form.) Scatter
matrices are sums, not averages.

Two routes lead to the answers. Discriminant scores and nearest centroids take
all rows to an orthonormal basis of the centred training rows, found from the
eigenvectors of their Gram matrix, and solve the eigenproblem above there. Class
scores solve one linear system in dual coefficients and need no eigenvectors.
The two share nothing but the centred kernel, so each checks the other.

Time generalization and tests on other trials train the same models and hand them
the kernel between other data and the training rows.
"""

from dataclasses import dataclass

import numpy as np
from scipy.linalg import eigh, solve
from sklearn.base import BaseEstimator


def center(K_rows, K_train):
    """Kernel of rows with training rows, both minus the training mean.

    ``K_rows`` is (n_rows, n_train). Only training means are used, also for test
    rows.
    """
    return (
        K_rows
        - K_rows.mean(axis=1, keepdims=True)
        - K_train.mean(axis=0, keepdims=True)
        + K_train.mean()
    )


def training_basis(K_c):
    """Dual coefficients of an orthonormal basis of the centred training rows.

    ``K_c`` (n_train, n_train) is the centred training Gram matrix. Returns ``B``
    of shape (n_train, r) with ``B' K_c B = I``.
    """
    values, vectors = eigh((K_c + K_c.T) / 2)
    # Directions in which the training rows do not vary, but for rounding, carry
    # no information.
    keep = values > 1e-13 * values[-1]
    return vectors[:, keep] / np.sqrt(values[keep])


def scatters(Z, codes):
    """Between and within class scatter of ``Z`` (n, r): two (r, r) matrices."""
    between = np.zeros((Z.shape[1], Z.shape[1]))
    within = np.zeros_like(between)
    for k in np.unique(codes):
        members = Z[codes == k]
        offset = members.mean(axis=0) - Z.mean(axis=0)
        between += len(members) * np.outer(offset, offset)
        spread = members - members.mean(axis=0)
        within += spread.T @ spread
    return between, within


def class_weights(K_c, codes, lam):
    """Dual coefficients of (S_w + lambda I)^-1 m_k and half their product with m_k.

    With ``X_c`` the centred training rows, a class mean minus the training mean
    is ``m_k = X_c' b_k``, ``b_k`` being 1 / n_k for the members of the class and
    else zero. With ``S_w = X_c' C X_c``, ``C`` the projection that takes out class
    means,

        (S_w + lambda I) X_c' a = X_c' (C K_c + lambda I) a

    so ``a_k`` solves ``(C K_c + lambda I) a_k = b_k``. Returns the coefficients
    (n, c_present) and the halved products (c_present,).
    """
    n = len(codes)
    C = np.eye(n)
    b = []
    for k in np.unique(codes):
        member = (codes == k).astype(float)
        C -= np.outer(member, member) / member.sum()
        b.append(member / member.sum())
    b = np.array(b).T
    a = solve(C @ K_c + lam * np.eye(n), b)
    return a, np.sum(b * (K_c @ a), axis=0) / 2


@dataclass(frozen=True)
class Model:
    """One trained discriminant.

    Attributes
    ----------
    present : (c_present,) classes of the training rows
    n_classes : all classes, also those absent from the training rows
    K_train : (n_train, n_train) training Gram matrix, not centred
    B : (n_train, r) dual coefficients of the basis
    penalized : (r, r) S_w + lambda I in the basis
    W : (r, d) discriminant directions in the basis, d = min(c_present - 1, r)
    centroids : (c_present, d) class means of the discriminant scores
    weights : (n_train, c_present) dual coefficients of the class scores
    offsets : (c_present,) what the class scores subtract
    """

    present: np.ndarray
    n_classes: int
    K_train: np.ndarray
    B: np.ndarray
    penalized: np.ndarray
    W: np.ndarray
    centroids: np.ndarray
    weights: np.ndarray
    offsets: np.ndarray

    def transform(self, K_rows):
        """Discriminant scores of rows, shape (n_rows, d)."""
        return center(K_rows, self.K_train) @ self.B @ self.W

    def predict(self, K_rows):
        """Class of the nearest class centroid in discriminant space, (n_rows,)."""
        scores = self.transform(K_rows)
        distances = np.zeros((len(scores), len(self.centroids)))
        for j, centroid in enumerate(self.centroids):
            distances[:, j] = np.sum((scores - centroid) ** 2, axis=1)
        # argmin takes the first of equal distances, so the first class wins ties.
        return self.present[np.argmin(distances, axis=1)]

    def class_scores(self, K_rows):
        """Linear score of every class, shape (n_rows, n_classes).

        x_c'(S_w + lambda I)^-1 m_k - m_k'(S_w + lambda I)^-1 m_k / 2, with the
        row ``x_c`` and the class mean ``m_k`` both relative to the training
        mean; -inf for a class that the training rows do not have.
        """
        out = np.full((len(K_rows), self.n_classes), -np.inf)
        products = center(K_rows, self.K_train) @ self.weights
        out[:, self.present] = products - self.offsets
        return out

    def posterior(self, K_rows):
        """Probability of every class under equal priors, (n_rows, n_classes).

        The classes are Gaussian with the common covariance
        (S_w + lambda I) / n_train.
        """
        exponent = len(self.K_train) * self.class_scores(K_rows)
        likelihood = np.exp(exponent - exponent.max(axis=1, keepdims=True))
        return likelihood / likelihood.sum(axis=1, keepdims=True)


def fit(K_train, codes, lam, n_classes):
    """Train on one Gram matrix (n_train, n_train) and integer codes (n_train,)."""
    K_c = center(K_train, K_train)
    present = np.unique(codes)
    B = training_basis(K_c)
    Z = K_c @ B  # the training rows in the basis, (n_train, r)
    between, within = scatters(Z, codes)
    penalized = within + lam * np.eye(len(within))
    # eigh scales its vectors so that W'(S_w + lambda I) W = I, smallest first.
    vectors = eigh(between, penalized)[1][:, ::-1]
    W = vectors[:, : len(present) - 1]
    weights, offsets = class_weights(K_c, codes, lam)
    return Model(
        present=present,
        n_classes=n_classes,
        K_train=K_train,
        B=B,
        penalized=penalized,
        W=W,
        centroids=np.array([(Z[codes == k] @ W).mean(axis=0) for k in present]),
        weights=weights,
        offsets=offsets,
    )


@dataclass(frozen=True)
class CrossValidation:
    """Out-of-sample results of every (fold, test row) instance.

    Instances follow the folds in order, and the test rows in each fold's order.

    Attributes
    ----------
    rows : (m,) the row tested in each instance
    labels : (P, n) the labels used, one labelling per line
    predictions : (P, m) predicted codes
    class_scores : (P, m, c) class scores
    """

    rows: np.ndarray
    labels: np.ndarray
    predictions: np.ndarray
    class_scores: np.ndarray

    def accuracy(self):
        """Share of correct instances for each labelling, (P,)."""
        return np.mean(self.predictions == self.labels[:, self.rows], axis=1)

    def mean_class_scores(self, i=0):
        """Class scores of labelling ``i`` averaged over instances, (n, c).

        Rows that no fold tests are NaN.
        """
        n, c = self.labels.shape[1], self.class_scores.shape[2]
        out = np.full((n, c), np.nan)
        for row in np.unique(self.rows):
            out[row] = self.class_scores[i, self.rows == row].mean(axis=0)
        return out


def reference_cross_validate(K, codes, folds, lam, labels=None):
    """Cross-validate by training anew for every fold and every labelling.

    Parameters
    ----------
    K : (n, n) array
        Gram matrix, not centred.
    codes : (n,) array of int
        Observed classes, 0 to c - 1.
    folds : list of (train, test) arrays of row numbers
    lam : float
        Absolute penalty lambda.
    labels : (P, n) array of int, optional
        The labellings to run; only the observed one when left out.

    Returns
    -------
    CrossValidation
    """
    n_classes = int(np.max(codes)) + 1
    labels = np.asarray([codes] if labels is None else labels)
    predictions, class_scores = [], []
    for labelling in labels:
        predicted, scored = [], []
        for train, test in folds:
            model = fit(K[np.ix_(train, train)], labelling[train], lam, n_classes)
            predicted.append(model.predict(K[np.ix_(test, train)]))
            scored.append(model.class_scores(K[np.ix_(test, train)]))
        predictions.append(np.concatenate(predicted))
        class_scores.append(np.concatenate(scored))
    return CrossValidation(
        rows=np.concatenate([test for _, test in folds]),
        labels=labels,
        predictions=np.array(predictions),
        class_scores=np.array(class_scores),
    )


@dataclass(frozen=True)
class Generalization:
    """Results of models trained at every time t and tested at every time u.

    Instances are the (fold, test trial) pairs, in the order of `CrossValidation`.

    Attributes
    ----------
    rows : (m,) the tested trial of each instance
    predictions : (P, n_train_times, n_test_times, m) predicted codes
    class_scores : (P, n_train_times, n_test_times, m, c) class scores
    """

    rows: np.ndarray
    predictions: np.ndarray
    class_scores: np.ndarray

    def accuracy(self, truth):
        """Share of correct instances, (P, n_train_times, n_test_times).

        ``truth`` holds the codes of the tested trials: (n_tested,), or one line
        for each labelling, (P, n_tested).
        """
        truth = np.atleast_2d(truth)[:, None, None, self.rows]
        return np.mean(self.predictions == truth, axis=-1)


def reference_generalize(K, K_cross, codes, folds, lam, labels=None):
    """Train anew for every time, fold and labelling; test at every other time.

    Parameters
    ----------
    K : list of (n, n) arrays, one per training time
        Gram matrices of the training trials, not centred.
    K_cross : nested list of (n_tested, n) arrays
        ``K_cross[t][u]``: rows are the tested trials at test time ``u``, columns
        the training trials at training time ``t``. Tested trials are the training
        trials themselves, seen at another time or in other epochs, in the same
        order.
    codes : (n,) array of int
        Observed classes of the training trials, 0 to c - 1.
    folds : list of (train, test) arrays
        Row numbers of training trials, and of tested trials.
    lam : sequence of float
        Absolute penalty lambda of each training time.
    labels : (P, n) array of int, optional
        The labellings to train on; only the observed one when left out.

    Returns
    -------
    Generalization
    """
    n_classes = int(np.max(codes)) + 1
    labels = np.asarray([codes] if labels is None else labels)
    shape = (len(labels), len(K), len(K_cross[0]))
    m = sum(len(test) for _, test in folds)
    predictions = np.full((*shape, m), -1)
    class_scores = np.full((*shape, m, n_classes), np.nan)
    for i, t in np.ndindex(shape[:2]):
        models = []
        for train, _ in folds:
            K_train = K[t][np.ix_(train, train)]
            models.append(fit(K_train, labels[i][train], lam[t], n_classes))
        for u, K_rows in enumerate(K_cross[t]):
            predicted, scored = [], []
            for model, (train, test) in zip(models, folds, strict=True):
                predicted.append(model.predict(K_rows[np.ix_(test, train)]))
                scored.append(model.class_scores(K_rows[np.ix_(test, train)]))
            predictions[i, t, u] = np.concatenate(predicted)
            class_scores[i, t, u] = np.concatenate(scored)
    return Generalization(
        rows=np.concatenate([test for _, test in folds]),
        predictions=predictions,
        class_scores=class_scores,
    )


def reference_transfer(K, K_cross, codes, lam, labels=None):
    """Train on all trials and test on all trials of other data.

    As `reference_generalize`, without folds: the rows of ``K_cross[t][u]`` are
    other trials, in any number.
    """
    everything = (np.arange(len(codes)), np.arange(len(K_cross[0][0])))
    return reference_generalize(K, K_cross, codes, [everything], lam, labels)


# ------------------------------------------------------------------ pairs of classes


def pairs_of_scores(sets, n_classes):
    """Accuracies and distances of pairs by the class scores of test sets.

    Parameters
    ----------
    sets : list of (codes (m,), class scores (m, c), n_train)
        Scores as `Model.class_scores` gives them.
    n_classes : int

    Returns
    -------
    dict of the two tables (pairs,), NaN where a pair was not tested, and their means
    """
    accuracies, distances = [], []
    for i in range(n_classes):
        for j in range(i + 1, n_classes):
            wins, apart = {i: [], j: []}, []
            for codes, scores, n_train in sets:
                with np.errstate(invalid="ignore"):  # two absent classes: inf - inf
                    further = scores[:, i] - scores[:, j]
                for k, other in ((i, j), (j, i)):
                    mine, theirs = scores[codes == k, k], scores[codes == k, other]
                    wins[k] += (0.5 * (mine > theirs) + 0.5 * (mine >= theirs)).tolist()
                seen = np.isfinite(scores[0]).sum()
                if np.isfinite(further).all() and np.isin([i, j], codes).all():
                    apart.append(
                        (n_train - seen)
                        * (further[codes == i].mean() - further[codes == j].mean())
                    )
            both = wins[i] and wins[j]
            accuracies.append(
                (np.mean(wins[i]) + np.mean(wins[j])) / 2 if both else np.nan
            )
            distances.append(np.mean(apart) if apart else np.nan)
    return {
        "pairwise_accuracy": mean_or(accuracies, 0.5),
        "pairwise_accuracies": np.array(accuracies),
        "crossnobis": mean_or(distances, 0.0),
        "crossnobis_distances": np.array(distances),
    }


def area(codes, scores):
    """Return the mean area under the ROC curve of each class against the rest.

    By probabilities: scores are times the number of training trials.
    """
    if len(np.unique(codes)) < scores.shape[1] or not np.isfinite(scores).all():
        return np.nan
    areas = []
    for k in range(scores.shape[1]):
        others = np.delete(scores, k, axis=1)
        odds = scores[:, k] - np.logaddexp.reduce(others, axis=1)
        above = np.subtract.outer(odds[codes == k], odds[codes != k])
        areas.append(np.mean(above > 0) + np.mean(above == 0) / 2)
    return np.mean(areas)


def mean_or(values, chance):
    """The mean of what is not NaN, or chance."""
    values = np.array(values)
    values = values[~np.isnan(values)]
    return values.mean() if len(values) else chance


def distances_by_definition(F_train, codes, F_test, test_codes, lam, n_classes):
    """Cross-validated squared Mahalanobis distances of one test set, (pairs,).

    (m_i - m_j)' ((W + lambda I) / (n - c))^-1 (t_i - t_j) of features (n, p), with
    class means m and within-class scatter W of the training rows, means t of the
    test rows. NaN where a class is in one of them only, or in none.
    """
    present = np.unique(codes)
    within = scatters(F_train, codes)[1]
    freedom = len(codes) - len(present)
    inverse = np.linalg.inv((within + lam * np.eye(len(within))) / freedom)
    out = []
    for i in range(n_classes):
        for j in range(i + 1, n_classes):
            rows = [
                F[labels == k]
                for F, labels in ((F_train, codes), (F_test, test_codes))
                for k in (i, j)
            ]
            if not all(map(len, rows)):
                out.append(np.nan)
                continue
            m_i, m_j, t_i, t_j = (each.mean(axis=0) for each in rows)
            out.append((m_i - m_j) @ inverse @ (t_i - t_j))
    return np.array(out)


# ------------------------------------------- a penalty chosen in every training set


def regress(K_train, K_rows, T, lam):
    """Ridge regression with a free intercept: predictions (n_rows, q) of ``T``."""
    K_c = center(K_train, K_train)
    mean = T.mean(axis=0)
    dual = np.linalg.solve(K_c + lam * np.eye(len(K_c)), T - mean)
    return center(K_rows, K_train) @ dual + mean


def reduced(model, K_rows, rank):
    """Predictions and class scores of the first ``rank`` discriminants.

    The score of a class is z'm_k - m_k'm_k / 2, with the discriminant scores ``z`` of
    the row and ``m_k`` of the class mean.
    """
    m = model.centroids[:, :rank]
    scores = np.full((len(K_rows), model.n_classes), -np.inf)
    z = model.transform(K_rows)[:, :rank]
    scores[:, model.present] = z @ m.T - np.sum(m**2, axis=1) / 2
    return scores.argmax(axis=1), scores


def predict_rows(K, labels, train, test, lam, n_classes, rank=None):
    """Train on some rows of ``K``; predictions and class scores of others."""
    model = fit(K[np.ix_(train, train)], labels[train], lam, n_classes)
    K_rows = K[np.ix_(test, train)]
    if rank is not None:
        return reduced(model, K_rows, rank)
    return model.predict(K_rows), model.class_scores(K_rows)


def targets(labels, n_classes):
    """What is regressed: indicators of classes, or values where there are none."""
    return labels[:, None] if n_classes is None else np.eye(n_classes)[labels]


def loss_of_all(K, T, lam):
    """Summed error of n left-out rows by GCV: ||R||^2 / (tr(I - G) / n)^2."""
    s = np.linalg.eigvalsh(center(K, K))
    left = 1 - (1 + np.sum(s / (s + lam))) / len(K)
    return np.sum((T - regress(K, K, T, lam)) ** 2) / left**2


def loss_of_rows(K, labels, train, test, lam, n_classes):
    """Summed squared error of some rows when trained on others."""
    T = targets(labels, n_classes)
    K_train, K_rows = K[np.ix_(train, train)], K[np.ix_(test, train)]
    return np.sum((T[test] - regress(K_train, K_rows, T[train], lam)) ** 2)


def choose(grams, lambdas, labels, rows, splits, n_classes):
    """Choose kernel and penalty on some rows.

    Parameters
    ----------
    grams : list of (n, n) arrays
        Gram matrices to choose from.
    lambdas : (n_kernels, L) array
        Penalties to choose from, the largest first.
    labels : (n,) array of int
    rows : (n_rows,) array of int
        The rows that may be looked at.
    splits : list of (train, test) arrays | None
        Indices into ``rows``; None: by generalized cross-validation.
    n_classes : int | None
        None for values in the place of labels.

    Returns
    -------
    (kernel, lam, criteria) : int, float, (n_kernels, L) array
        Of equally good ones the first.
    """
    criteria = np.full(np.shape(lambdas), np.nan)
    best, choice = np.inf, None
    for i, j in np.ndindex(*criteria.shape):
        total, count, lam = 0.0, 0, lambdas[i][j]
        if splits is None:
            T = targets(labels[rows], n_classes)
            total, count = loss_of_all(grams[i][np.ix_(rows, rows)], T, lam), len(rows)
        for train, test in splits or ():
            parts = rows[train], rows[test]
            total += loss_of_rows(grams[i], labels, *parts, lam, n_classes)
            count += len(test)
        criteria[i, j] = total / count
        if criteria[i, j] < best * (1 - 1e-9):
            best, choice = criteria[i, j], (i, lam)
    return *choice, criteria


@dataclass(frozen=True)
class Nested:
    """Results of a nested cross-validation, in the order of the folds.

    Attributes
    ----------
    kernels, lambdas : (P, k) what was chosen for each labelling and fold
    criteria : (P, k, n_kernels, L) what it was chosen by
    predictions : list over folds of (P, m) arrays of predicted codes
    class_scores : list over folds of (P, m, c) arrays
    """

    kernels: np.ndarray
    lambdas: np.ndarray
    criteria: np.ndarray
    predictions: list
    class_scores: list


def reference_nested(grams, lambdas, codes, folds, inner, labels=None, rank=None):
    """Choose kernel and penalty anew inside every training set, then train anew.

    Parameters
    ----------
    grams, lambdas
        As in `choose`.
    codes : (n,) array of int
        Observed classes, 0 to c - 1.
    folds : list of (train, test) arrays of row numbers
    inner : callable
        ``inner(train) -> list of (train, test)``, indices into the training rows; or
        None, as in `choose`.
    labels : (P, n) array of int, optional
        The labellings to run; only the observed one when left out.
    rank : int, optional
        How many discriminants predictions use; all when left out.

    Returns
    -------
    Nested
    """
    n_classes = int(np.max(codes)) + 1
    labels = np.asarray([codes] if labels is None else labels)
    shape = len(labels), len(folds)
    kernels, chosen = np.empty(shape, int), np.empty(shape)
    criteria = np.empty((*shape, *np.shape(lambdas)))
    predictions, class_scores = [], []
    for number, (train, test) in enumerate(folds):
        predicted, scored = [], []
        for i, labelling in enumerate(labels):
            kernel, lam, criteria[i, number] = choose(
                grams,
                lambdas,
                labelling,
                train,
                inner(train),
                n_classes,
            )
            kernels[i, number], chosen[i, number] = kernel, lam
            found = predict_rows(
                grams[kernel], labelling, train, test, lam, n_classes, rank
            )
            predicted.append(found[0])
            scored.append(found[1])
        predictions.append(np.array(predicted))
        class_scores.append(np.array(scored))
    return Nested(kernels, chosen, criteria, predictions, class_scores)


# ----------------------------------------------------- penalties that look at no label


@dataclass(frozen=True)
class LabelFree:
    """Lambdas of trials without their labels, and the effects that they need.

    Attributes
    ----------
    grid : (L,) lambdas that were tried, the largest first
    like_noise, anywhere : the best lambda for effects that lie where noise lies, and
        for effects in any direction
    needed : (2, L) logarithms of the effects' variances, of either kind
    """

    grid: np.ndarray
    like_noise: float
    anywhere: float
    needed: np.ndarray


def label_free(K, n_features=None, groups=None):
    """Penalties of the Gram matrix (n, n) of trials, perhaps in groups (n,).

    ``n_features`` is the number of features of a linear kernel.

    With ``A = (S + lambda I)^-1`` and S the scatter matrix of the trials, trials that A
    has not seen have

        tr(AC) = h / (1 - h),    tr(ACAC) = v / (1 - h)^4,    x'A^2x = e / (1 - h)^2

    where h is the mean share that is explained of the m = n - 1 directions, v the mean
    square of what two trials have in common, and e = tr(X_c A^2 X_c') / m. With groups
    all three are of the trials less the means of their groups, and v is that of two
    groups, and of how far the trials' own shares are from h.
    """
    n, K_c = len(K), center(K, K)
    if groups is None:
        groups = np.arange(n)
    parts = [np.flatnonzero(groups == g) for g in np.unique(groups)]
    parts = [rows for rows in parts if len(rows) > 1]
    m = n - 1
    w = eigh(K_c)[0][::-1][:m]
    exists = w > 1e-13 * n * w[0]  # but for rounding
    w = np.where(exists, w, 0)
    second = w[1] if exists[1] else w[0]
    grid = [10 * w[0]]
    # Small eigenvalues of other kernels than linear ones are details of the kernel.
    least = second * (1e-6 if n_features else 1e-2)
    while grid[-1] > least * (1 + 1e-9):
        grid.append(10 * w[0] * 10 ** (-len(grid) / 4))
    needed = np.zeros((2, len(grid)))
    for number, lam in enumerate(grid):
        shares = w / (w + lam)
        # As many features as there are beyond the trials are directions not seen.
        unseen = max((n_features or 0) - m, 0) if exists.all() else 0
        tr_A = np.sum(1 / (w[exists] + lam)) + unseen / lam
        energy = np.sum(w / (w + lam) ** 2) / m
        views = [(shares.mean(), np.var(shares) / (m - 1), energy)]
        if len(parts) > 2:
            views.append(view_of_groups(K_c, lam, parts))
        for h, v, e in views:
            tr_ACAC, noise = v / (1 - h) ** 4, e / (1 - h) ** 2
            needed[0, number] += np.log(tr_ACAC / (h / (1 - h)) ** 2)
            # The variance t of an effect with (t move)^2 = t noise + tr(ACAC) / n.
            move = tr_A + e / (1 - h)
            roots = np.roots([move**2, -noise, -tr_ACAC / n])
            needed[1, number] += np.log(roots.max())
    best = [float(vertex(np.array(grid), each)) for each in needed]
    return LabelFree(np.array(grid), *best, needed)


def lambdas_over_spectrum(K):
    """The penalties that are tried for values, and for kernels that are not linear."""
    s = np.linalg.eigvalsh(center(K, K))
    smallest = s[s > 1e-13 * len(s) * s[-1]][0]
    return np.geomspace(s[-1], max(1e-3 * smallest, 1e-7 * s[-2:][0]), 13)


def view_of_groups(K_c, lam, parts):
    """The terms h, v and e of trials less the means of their groups.

    The hat matrix is I - M, of which blocks of two groups (rows in ``parts``) are those
    of M but for their sign.
    """
    n = len(K_c)
    M = lam * np.linalg.inv(K_c + lam * np.eye(n))
    energy = (np.eye(n) - M) @ np.linalg.pinv(K_c, rcond=1e-13 * n) @ (np.eye(n) - M)
    energies = squares = freedom = pairs = 0.0
    own = []
    for one in parts:
        C = np.eye(len(one)) - 1 / len(one)
        own.append(1 - 1 / len(one) - np.diag(C @ M[np.ix_(one, one)] @ C))
        energies += np.trace(C @ energy[np.ix_(one, one)])
        freedom += len(one) - 1
        for other in parts:
            if other is not one:
                D = np.eye(len(other)) - 1 / len(other)
                squares += np.sum((C @ M[np.ix_(one, other)] @ D) ** 2)
                pairs += (len(one) - 1) * (len(other) - 1)
    h = sum(map(np.sum, own)) / freedom
    squares += sum(np.sum((each - h * (1 - 1 / len(each))) ** 2) for each in own)
    return h, squares / pairs, energies / freedom


def vertex(lambdas, values):
    """The vertex of a parabola in log lambda at the smallest of values.

    A decade less has to be better by a thousandth.
    """
    values = values + 1e-3 * np.log10(lambdas[0] / lambdas)
    i = int(np.argmin(values))
    if i in (0, len(values) - 1):
        return lambdas[i]
    x = np.log(lambdas[i - 1 : i + 2])
    a, b, _ = np.polyfit(x - x[1], values[i - 1 : i + 2], 2)
    return lambdas[i] * np.exp(-b / (2 * a))


class NoiseScaling(BaseEstimator):
    """Division by standard deviations within classes, of their pooled variance."""

    def fit(self, X, y):
        """Learn from rows X (n, p) and labels y (n,)."""
        classes, counts = np.unique(y, return_counts=True)
        variances = [np.var(X[y == k], axis=0) for k in classes]
        pooled = np.dot(counts, variances) / (len(y) - len(classes))
        self.scale_ = np.sqrt(pooled)
        return self

    def transform(self, X):
        """Return rows in units of what they vary within classes."""
        return X / self.scale_


class PenalizedClassCovariance(BaseEstimator):
    """Covariance of one class, ``scale * scatter + ridge * I``.

    scikit-learn adds up ``prior_k * covariance_k``. With equal priors 1 / c,
    ``scale = c / n`` and ``ridge = lambda / n`` the sum is (S_w + lambda I) / n
    for any class sizes. Without a scale it is one over the number of rows.
    """

    def __init__(self, scale=None, ridge=0.0):
        self.scale = scale
        self.ridge = ridge

    def fit(self, X, y=None):
        """Store the penalised covariance of X."""
        spread = X - X.mean(axis=0)
        identity = np.eye(X.shape[1])
        scale = 1 / len(X) if self.scale is None else self.scale
        self.covariance_ = scale * spread.T @ spread + self.ridge * identity
        return self
