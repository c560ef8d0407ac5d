"""The entry points of the package, and small data as each of them takes it.

A new entry point is one line in ENTRIES; tests of all entries then ask it as well.
"""

import inspect
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import pytest
from sklearn.model_selection import KFold, StratifiedKFold

from mvpa_kfda import (
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
from tests import build

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
