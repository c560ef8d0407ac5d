"""How trials are compared, for everybody to read.

A kernel is what a result records of it, ``{"name": "RBF", "gamma": 0.1}``, with what a
file does not hold put in: the function itself of a function, the matrix of a penalty.

Some kernels have numbers of their own, that they take from trials without their labels:
a width, landmarks, a basis. These trials are called `seen`.
"""

import warnings

import numpy as np
from scipy.linalg import block_diag, eigh
from sklearn.cluster import KMeans
from sklearn.metrics.pairwise import (
    euclidean_distances,
    polynomial_kernel,
    rbf_kernel,
)

#: Kernels that compare features by a product with some matrix, mostly the identity.
LINEAR = ("Linear", "Penalty", "GraphSmooth")
#: More trials than these do not add to what an approximated kernel takes from them.
_MANY = 2000


def sees_offsets(kernel):
    """Tell whether an offset of all trials changes more than the mean in feature space.

    Of a map of a linear kernel, the values between trial and basis are features.
    """
    inner = kernel.get("kernel")
    if inner is None:
        return kernel["name"] not in (*LINEAR, "RBF")
    of_values = kernel["name"] == "EmpiricalMap" and inner["name"] in LINEAR
    return of_values or sees_offsets(inner)


def kernel_values(kernel, A, B, seen, gram=None):
    """Return the kernel's values between trials A (n_a, p) and B (n_b, p).

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
    """Return the kernel's values between trials."""
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
    """Return the inverse squared width of a Gaussian kernel, maybe by the median."""
    if gamma != "median":
        return gamma  # None is one over the number of features, as in scikit-learn
    distances = euclidean_distances(seen - seen.mean(axis=0), squared=True)
    return 1 / np.median(distances[np.triu_indices(len(distances), k=1)])


# ------------------------------------------------------------- penalties on differences


def whitened(kernel, X):
    """Return features (n, p) for which a penalty w' Omega w is a ridge.

    With Omega = L L' these are X L^-T. A window may have many samples side by side,
    each with the same penalty.
    """
    if kernel["name"] == "Linear":
        return X
    omega = penalty_matrix(kernel)
    omega = block_diag(*[omega] * (X.shape[1] // len(omega)))
    return np.linalg.solve(np.linalg.cholesky(omega), X.T).T


def penalty_matrix(kernel):
    """Return Omega: as it was given, or the Laplacian of a graph and some identity."""
    if kernel["name"] == "Penalty":
        return kernel["Omega"]
    edges = kernel["adjacency"]
    laplacian = np.diag(edges.sum(axis=1)) - edges
    return kernel["strength"] * laplacian + kernel["eps"] * np.eye(len(edges))


# -------------------------------------------------------------------------- landmarks


def _approximated(kernel, approx, A, B, seen):
    """Return K_AZ K_ZZ^+ K_ZB, with landmarks Z: the Nystrom approximation."""
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
