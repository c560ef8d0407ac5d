"""The entry points of the package, and small data as each of them takes it.

A new entry point is one line in ENTRIES; tests of all entries then ask it as well. The
methods that they are asked with are in METHODS, with kernels and penalties by hand.
"""

import inspect
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import pytest
from scipy.optimize import brentq
from scipy.spatial.distance import pdist
from sklearn.covariance import ledoit_wolf_shrinkage, oas
from sklearn.metrics.pairwise import (
    laplacian_kernel,
    linear_kernel,
    polynomial_kernel,
    rbf_kernel,
)
from sklearn.model_selection import KFold, LeaveOneOut, StratifiedKFold

from mvpa_kfda import (
    RBF,
    DegreesOfFreedom,
    EmpiricalMap,
    GraphSmooth,
    Nystrom,
    Penalty,
    Polynomial,
    Ridge,
    Shrinkage,
    Tuned,
    cross_validate,
    decode_arrays,
    decode_epochs,
    decode_regions,
    decode_sources,
    generalize_arrays,
    generalize_epochs,
    regress,
    searchlight,
)
from tests import build, reference

N, P, T, SEED = 36, 5, 3, 4
DATA, CODES = build.trials((12, 12, 12), P, T)
NAMES, VALUES = build.NAMES[CODES], build.values_of(DATA)
OTHERS, OTHER_CODES = build.trials((5, 7, 6), P, 2, seed=1)
OTHER_NAMES = build.NAMES[OTHER_CODES]
NEAR = build.chain(P) | np.eye(P, dtype=bool)
REGIONS = np.array([1, 1, 2, 2, 2])


# ------------------------------------------------------------- data, as entries take it


def as_it_is(X):
    return X


def first_time(X):
    return X[:, :, 0]


def epochs(X):
    return build.epochs(X, units={})


def in_a_row(X):
    """Return source estimates of points whose neighbours are 10 mm away."""
    return build.estimates(X, ROW, tmin=0.0, subject=None)


def on_a_grid(X):
    """Return an image with the trials in its first slice and zeros in the second."""
    return build.volume(np.stack([X, np.zeros_like(X)], axis=3))


def on_a_mesh(X):
    return build.surface(X[:, :, 0], X[:, :, 1])


def on_grayordinates(X):
    return build.cifti(X)


ROW = build.points(10.0 * np.arange(P)[:, None] * [1, 0, 0])
IN_MASK = build.mask(np.stack([np.ones((P, T)), np.zeros((P, T))], axis=2))
LABELS = np.repeat([[1, 2, 2]], P, axis=0)
ATLAS = build.mask(np.stack([LABELS, np.zeros((P, T))], axis=2))
CIFTI_ATLAS = build.dlabel(LABELS.T.ravel(), build.cifti(DATA).header.get_axis(1))


# ---------------------------------------- positions, by hand: what is decoded at each


@dataclass(frozen=True)
class Cell:
    """Features (n, p) that a position is trained with, and (n_test, p) to be tested.

    Columns number the features, so that a graph links those whose numbers differ by 1.
    """

    X: np.ndarray
    X_test: np.ndarray
    columns: np.ndarray = field(default_factory=lambda: np.arange(P))


def same(X, columns=None):
    columns = np.arange(X.shape[1]) if columns is None else np.asarray(columns)
    return Cell(X, X, columns)


def one_cell(X):
    return {(): same(X[:, :, 0])}


def times(X):
    return {(t,): same(X[:, :, t]) for t in range(X.shape[2])}


def windows(X):
    columns = np.append(np.arange(P), 10 + np.arange(P))
    pairs = [np.hstack([X[:, :, t], X[:, :, t + 1]]) for t in range(X.shape[2] - 1)]
    return {(t,): same(pair, columns) for t, pair in enumerate(pairs)}


def pairs_of_times(X, X_test=None):
    X_test = X if X_test is None else X_test
    shape = X.shape[2], X_test.shape[2]
    return {(t, u): Cell(X[:, :, t], X_test[:, :, u]) for t, u in np.ndindex(shape)}


def other_times(X):
    return pairs_of_times(X, OTHERS)


def bands(X):
    power = build.power(X).data
    return {(f, t): same(power[:, :, f, t]) for f, t in np.ndindex(power.shape[2:])}


def sensors_and_times(X):
    near = [np.flatnonzero(row) for row in NEAR]
    shape = P, X.shape[2]
    return {(i, t): same(X[:, near[i], t], near[i]) for i, t in np.ndindex(shape)}


def at_each(table, members):
    """Return a cell of some columns (p,) for each row of `members` (cells, p)."""
    columns = [np.flatnonzero(row) for row in members]
    return {(i,): same(table[:, at], at) for i, at in enumerate(columns)}


def neighbours(X):
    return at_each(X[:, :, 0], NEAR)


def regions(X):
    return at_each(X[:, :, 0], REGIONS == [[1], [2]])


def z_scored(X):
    X = X.reshape(len(X), -1)
    return (X - X.mean(axis=0)) / X.std(axis=0, ddof=1)


def spheres(X):
    """Return the voxels at most 3 mm away: those that share a face."""
    at = np.argwhere(np.ones(X.shape[1:]))
    return at_each(z_scored(X), np.abs(at[:, None] - at).sum(axis=2) <= 1)


def paths(X):
    """Return the vertices an edge away, in each hemisphere."""
    near = np.abs(np.subtract.outer(np.arange(P), np.arange(P))) <= 2
    both = np.hstack([X[:, :, 0], X[:, :, 1]])
    return at_each(z_scored(both), np.kron(np.eye(2), near))


def structures(X):
    """Return grayordinates and those next to them, in each of three structures."""
    near = build.chain(P) | np.eye(P, dtype=bool)
    return at_each(z_scored(np.moveaxis(X, 2, 1)), np.kron(np.eye(3), near))


def parts(X):
    return at_each(z_scored(np.moveaxis(X, 2, 1)), LABELS.T.ravel() == [[1], [2]])


def slabs(X):
    return at_each(z_scored(X), LABELS.ravel() == [[1], [2]])


def whole_mask(X):
    return {(0,): same(z_scored(X))}


# ------------------------------------------------------------------------- the registry


@dataclass(frozen=True, eq=False)
class Entry:
    """An entry point: a function, data as it takes them, and its positions by hand."""

    function: Callable
    convert: Callable
    cells: Callable
    options: dict = field(default_factory=dict)
    predicts: str = "classes"
    lacks: tuple = ()  # arguments of the function that mean nothing here

    def __call__(self, X=DATA, y=None, **options):
        y = self.y if y is None else y
        options = {"cv": self.cv} | self.options | options
        if self.tests_others:
            del options["cv"]  # there are no folds
        return self.function(self.convert(X), y, **options)

    def has(self, argument):
        """Tell whether the entry has an argument, and a use for it."""
        known = inspect.signature(self.function).parameters
        return argument in known and argument not in self.lacks

    @property
    def y(self):
        return NAMES if self.predicts == "classes" else VALUES

    @property
    def cv(self):
        # Stratified once and for all, so that every test set holds every class.
        cv = StratifiedKFold(3) if self.predicts == "classes" else KFold(3)
        return list(cv.split(CODES, CODES))

    @property
    def tests_others(self):
        return "y_test" in self.options

    @property
    def holder(self):
        """What holds the data: "array", "table" of features, "epochs" or "image"."""
        if self.convert in (as_it_is, first_time):
            images = self.function in (searchlight, decode_regions)
            return "table" if images else "array"
        if self.convert is in_a_row:
            return "sources"
        return "epochs" if self.convert in (epochs, build.power) else "image"

    @property
    def n_features(self):
        """How many features a penalty on their weights is for."""
        images = {on_a_grid: P * T, on_a_mesh: 2 * P, on_grayordinates: P * T}
        return images.get(self.convert, P)


WIDE = {"window": 2, "window_mode": "concatenate"}
RAW = {"scale": None}
REGRESS = {"task": "regression"}
NO_CLASSES = ("n_components", "average", "keep_class_scores")
OTHER_VALUES = build.values_of(OTHERS)
OTHER = {"y_test": OTHER_NAMES, "same_trials": False}
OTHER_ARRAYS, OTHER_EPOCHS = {"X_test": OTHERS}, {"test_epochs": epochs(OTHERS)}
NO_FOLDS = ("cv", "average", "confounds")
TABLE = {"standardize": False}
NO_PLACES = ("radius", "process_mask_img", "mask_img")
BALLS, EDGES = {"mask_img": IN_MASK, "radius": 3}, {"radius": 1, "distance": "edges"}
CORTEX = {"mesh": on_a_mesh(DATA).mesh, "radius": 3.5}
IN_CIFTI = {"labels_img": CIFTI_ATLAS}
ENTRIES = {
    "cross_validate": Entry(cross_validate, first_time, one_cell),
    "regress": Entry(regress, first_time, one_cell, {}, "numbers"),
    "arrays": Entry(decode_arrays, as_it_is, times),
    "windows": Entry(decode_arrays, as_it_is, windows, WIDE),
    "values": Entry(decode_arrays, as_it_is, times, REGRESS, "numbers", NO_CLASSES),
    "epochs": Entry(decode_epochs, epochs, times, RAW),
    "rated": Entry(
        decode_epochs, epochs, times, RAW | REGRESS, "numbers", (*NO_CLASSES, "sensors")
    ),
    "rated sensors": Entry(
        decode_epochs,
        epochs,
        sensors_and_times,
        RAW | REGRESS | {"sensors": NEAR},
        "numbers",
        NO_CLASSES,
    ),
    "rated map": Entry(
        generalize_arrays, as_it_is, pairs_of_times, REGRESS, "numbers", NO_CLASSES
    ),
    "rated others": Entry(
        generalize_arrays,
        as_it_is,
        other_times,
        REGRESS | {"y_test": OTHER_VALUES, "same_trials": False, "X_test": OTHERS},
        "numbers",
        (*NO_CLASSES, "cv", "confounds"),
    ),
    "rated voxels": Entry(
        searchlight, on_a_grid, spheres, BALLS | REGRESS, "numbers", NO_CLASSES
    ),
    "rated regions": Entry(
        decode_regions,
        first_time,
        regions,
        TABLE | REGRESS | {"labels_img": REGIONS},
        "numbers",
        NO_CLASSES,
    ),
    "rated power": Entry(
        decode_epochs,
        build.power,
        bands,
        RAW | REGRESS,
        "numbers",
        (*NO_CLASSES, "sensors"),
    ),
    "rated sources": Entry(
        decode_sources,
        in_a_row,
        times,
        REGRESS,
        "numbers",
        (*NO_CLASSES, "radius", "null", "src"),
    ),
    "rated source map": Entry(
        decode_sources,
        in_a_row,
        sensors_and_times,
        REGRESS | {"src": ROW, "radius": 10.0},
        "numbers",
        NO_CLASSES,
    ),
    "power": Entry(decode_epochs, build.power, bands, RAW, lacks=("sensors",)),
    "sensors": Entry(decode_epochs, epochs, sensors_and_times, RAW | {"sensors": NEAR}),
    "sources": Entry(decode_sources, in_a_row, times, lacks=("radius", "null", "src")),
    "source map": Entry(
        decode_sources, in_a_row, sensors_and_times, {"src": ROW, "radius": 10.0}
    ),
    "map": Entry(generalize_arrays, as_it_is, pairs_of_times),
    "map of epochs": Entry(generalize_epochs, epochs, pairs_of_times, RAW),
    "others": Entry(
        generalize_arrays, as_it_is, other_times, OTHER | OTHER_ARRAYS, lacks=NO_FOLDS
    ),
    "other epochs": Entry(
        generalize_epochs,
        epochs,
        other_times,
        OTHER | OTHER_EPOCHS | RAW,
        lacks=NO_FOLDS,
    ),
    "table": Entry(
        searchlight,
        first_time,
        neighbours,
        TABLE | {"adjacency": NEAR},
        lacks=NO_PLACES,
    ),
    "voxels": Entry(searchlight, on_a_grid, spheres, BALLS),
    "vertices": Entry(searchlight, on_a_mesh, paths, EDGES),
    "regions": Entry(
        decode_regions, first_time, regions, TABLE | {"labels_img": REGIONS}
    ),
    "atlas": Entry(decode_regions, on_a_grid, slabs, {"labels_img": ATLAS}),
    "whole mask": Entry(decode_regions, on_a_grid, whole_mask, {"mask_img": IN_MASK}),
    "grayordinates": Entry(searchlight, on_grayordinates, structures, CORTEX),
    "labels": Entry(decode_regions, on_grayordinates, parts, IN_CIFTI),
}
everywhere = pytest.mark.parametrize("entry", ENTRIES.values(), ids=ENTRIES)


def entries_with(argument):
    """Parametrise by the entries that have an argument."""
    chosen = {name: entry for name, entry in ENTRIES.items() if entry.has(argument)}
    return pytest.mark.parametrize("entry", chosen.values(), ids=chosen)


# ------------------------------------------------------- kernels and penalties by hand


@dataclass(frozen=True)
class Method:
    """Options, and kernel matrices k(A, B) by hand given the trials (n, p) of a cell.

    `lam` are the penalties for classes, the largest first, given (X, K), `of_numbers`
    those for numbers, where these are others. One of several is chosen within training
    sets of so many trials by `splits`.
    """

    options: Callable  # of the entry
    kernels: tuple
    lam: Callable = lambda X, K: [0.3 * scale_of(K)]
    of_numbers: Callable | None = None
    splits: Callable = lambda n: list(LeaveOneOut().split(np.zeros(n)))

    def penalties(self, X, K, predicts):
        """Return the penalties for classes, or for numbers."""
        others = predicts == "numbers" and self.of_numbers
        return (self.of_numbers if others else self.lam)(X, K)


def scale_of(K):
    return np.trace(K - K.mean(axis=0)) / len(K)


def linear(X, columns):
    return linear_kernel


def rbf(gamma=None):
    def fit(X, columns):
        width = 1 / np.median(pdist(X, "sqeuclidean")) if gamma is None else gamma
        return lambda A, B: rbf_kernel(A, B, gamma=width)

    return fit


def by_sklearn(function, **options):
    return lambda X, columns: lambda A, B: function(A, B, **options)


def weighted(omega_of):
    def fit(X, columns):
        inverse = np.linalg.inv(omega_of(columns))
        return lambda A, B: A @ inverse @ B.T

    return fit


def links(columns):
    return (np.abs(np.subtract.outer(columns, columns)) == 1).astype(float)


def laplacian(columns):
    """Return the penalty of differences between neighbours, for a graph that is cut."""
    A = links(columns)
    return 2.0 * (np.diag(A.sum(axis=1)) - A) + 0.5 * np.eye(len(A))


def banded(columns):
    return 2.0 * np.eye(len(columns)) + 0.5 * links(columns)


def map_of_trials(X, columns):
    k = by_sklearn(rbf_kernel, gamma=0.05)(X, columns)
    return lambda A, B: k(A, X) @ k(X, B)


NINE = Nystrom(9, "uniform")


def nine_landmarks(X, columns):
    features = NINE.approximate(RBF(0.05)).fit(X).features
    return lambda A, B: features(A) @ features(B).T


FIXED = {"reg": 0.3}


def kernel(*kernels, **options):
    """Return a method of the same options at every entry, with a fixed penalty."""
    return Method(lambda entry: FIXED | options, kernels)


def penalty(reg, lam):
    return Method(lambda entry: {"reg": reg}, (linear,), lam)


def auto(by_hand, **options):
    """Return a method whose penalty features set; numbers choose one in closed form."""
    return Method(
        lambda entry: {"reg": "auto"} | options,
        (by_hand,),
        lambda X, K: [
            reference.label_free(K, by_hand is linear and X.shape[1]).like_noise
        ],
        lambda X, K: reference.lambdas_over_spectrum(K),
        lambda n: None,
    )


def shrunk(gamma, X):
    """Return the penalty of a share, which is bounded where an estimated one is 1."""
    scale = np.square(X - X.mean(axis=0)).sum()
    return scale * min(gamma / max(1 - gamma, 1e-9) / X.shape[1], 1e3 / len(X))


def solve_df(df, K):
    s = np.linalg.eigvalsh(K - K.mean(axis=0) - K.mean(axis=1)[:, None] + K.mean())
    return np.exp(brentq(lambda log: 1 + (s / (s + np.exp(log))).sum() - df, -20, 20))


TUNING = [3.0, 0.3, 0.03]
METHODS = {
    "linear": kernel(linear),
    "rbf": kernel(rbf(), kernel="rbf"),
    "RBF(0.05)": kernel(rbf(0.05), kernel=RBF(0.05)),
    "polynomial": kernel(
        by_sklearn(polynomial_kernel, degree=2, gamma=0.1, coef0=2.0),
        kernel=Polynomial(2, 0.1, 2.0),
    ),
    "function": kernel(by_sklearn(laplacian_kernel), kernel=laplacian_kernel),
    "empirical map": kernel(map_of_trials, kernel=EmpiricalMap(RBF(0.05))),
    "landmarks": kernel(nine_landmarks, kernel=RBF(0.05), approx=NINE),
    "graph": Method(
        lambda entry: (
            FIXED | {"kernel": GraphSmooth(build.chain(entry.n_features), 2.0, 0.5)}
        ),
        (weighted(laplacian),),
    ),
    "weights": Method(
        lambda entry: FIXED | {"kernel": Penalty(banded(np.arange(entry.n_features)))},
        (weighted(banded),),
    ),
    "Ridge": penalty(Ridge(7.0), lambda X, K: [7.0]),
    "Shrinkage": penalty(Shrinkage(0.2), lambda X, K: [shrunk(0.2, X)]),
    "df": penalty(DegreesOfFreedom(2.5), lambda X, K: [solve_df(2.5, K)]),
    "ledoit_wolf": penalty(
        "ledoit_wolf", lambda X, K: [shrunk(ledoit_wolf_shrinkage(X), X)]
    ),
    "oas": penalty("oas", lambda X, K: [shrunk(oas(X)[1], X)]),
    "tuned": Method(
        lambda entry: {"kernel": ["linear", RBF(0.05)], "reg": Tuned(TUNING)},
        (linear, rbf(0.05)),
        lambda X, K: [reg * scale_of(K) for reg in TUNING],
    ),
    "auto": auto(linear),
    "auto, rbf": auto(rbf(), kernel="rbf"),
    "auto, landmarks": auto(nine_landmarks, kernel=RBF(0.05), approx=NINE),
}


def pick(kernels, lambdas, y, rows, n_classes, splits=None):
    """Return number and penalty of the kernel that is best within a training set."""
    if np.size(lambdas) == 1:
        return 0, lambdas[0][0]
    splits = METHODS["tuned"].splits if splits is None else splits
    return reference.choose(kernels, lambdas, y, rows, splits(len(rows)), n_classes)[:2]
