"""From data as users give them to the features of every position, by plain loops.

A `Reading` is what a decoding function decodes: labels, groups, and for every position
the features (n, p) of the trials. What reads files, masks and events is the package's
own reading (`mvpa_kfda.data`); the fingerprints tell whether the same was read.
"""

from collections.abc import Callable
from contextlib import contextmanager
from dataclasses import dataclass, field

import numpy as np

from ..data.trials import read_train_on
from ..utils.fingerprints import Fingerprint


class NotCovered(Exception):
    """What cannot be refitted here; the text continues "cannot be verified because"."""


@contextmanager
def of_the_file():
    """Make errors of what a file says, which somebody may have edited, `NotCovered`."""
    try:
        yield
    except (
        ArithmeticError,
        AttributeError,
        LookupError,
        TypeError,
        ValueError,
    ) as error:
        raise NotCovered(
            "what the file says of the analysis does not hold together "
            f"({type(error).__name__}: {error})"
        ) from error


@dataclass
class Reading:
    """What is decoded."""

    #: Position -> features (n, p) to train with, and to test with.
    train: Callable
    #: The shape of the map.
    shape: tuple
    #: One label for each trial, and its group.
    y: np.ndarray
    groups: np.ndarray | None = None
    #: Position -> features (n_test, p) that are tested; None: those trained with.
    test: Callable | None = None
    #: Labels to be predicted, where they are others.
    y_test: np.ndarray | None = None
    #: Position -> which of all features these are; None: all of them.
    columns: Callable | None = None
    #: The numbers of the trials in the recording, where they are known.
    numbers: np.ndarray | None = None
    #: Columns (n, k) that are taken out, of the trials trained with and of others.
    confounds: np.ndarray | None = None
    confounds_test: np.ndarray | None = None
    #: Which trials are trained with; all others are tested.
    train_on: np.ndarray | None = None
    #: Whether `train_on` has done its part, since there are no folds.
    is_split: bool = False
    #: Whether other trials are tested, so that there are no folds.
    other_trials: bool = False
    #: What was read, and what a result records of it.
    noted: dict = field(default_factory=dict)
    prints: dict = field(default_factory=dict)

    def note(self, **values):
        """Keep what was read, and its fingerprints."""
        for name, each in values.items():
            if each is not None:
                self.noted[name] = each
                self.prints[name] = Fingerprint.of(each).record()


def window_starts(parameters, n_times):
    """Return the first samples of the windows, and how many samples are in each."""
    with of_the_file():
        sfreq = parameters["sfreq"]
        width, step = (round(parameters[name] * sfreq) for name in ("window", "step"))
        return list(range(0, n_times - width + 1, step)), width


def in_window(data, start, width, mode):
    """Return the features (n, p) of data (n, p, n_times) in a window."""
    samples = data[:, :, start : start + width]
    if mode == "mean":
        return samples.mean(axis=2)
    return np.concatenate([samples[:, :, i] for i in range(width)], axis=1)


def reread_table(result, data, y, given):
    """Return the `Reading` of `cross_validate` and `regress`."""
    X = np.asarray(data, float)
    reading = Reading(lambda position: X, (), np.asarray(y))
    if result.parameters["kernel"].get("name") == "Precomputed":
        numbers = np.arange(len(X))[:, np.newaxis]
        reading.train = lambda position: numbers
        reading.gram = X
    reading.note(data=X)
    return reading


def reread_arrays(result, data, y, given):
    """Return the `Reading` of `decode_arrays`."""
    X, parameters = np.asarray(data, float), result.parameters
    starts, width = window_starts(parameters, X.shape[2])
    mode = parameters["window_mode"]

    def train(position):
        return in_window(X, starts[position[0]], width, mode)

    reading = Reading(train, (len(starts),), np.asarray(y))
    reading.note(data=X)
    return reading


def reread_pairs(result, data, y, given):
    """Return the `Reading` of `generalize_arrays`."""
    X, parameters = np.asarray(data, float), result.parameters
    other, y, y_test = given.get("X_test"), np.asarray(y), given.get("y_test")
    X_test = X if other is None else np.asarray(other, float)
    whole = {"data": X, "data_test": None if other is None else X_test}
    is_split = given.get("train_on") is not None and parameters["cv"] is None
    if is_split:
        chosen = read_train_on(given["train_on"], len(y)).mask
        y_test = y[~chosen] if y_test is None else np.asarray(y_test)[~chosen]
        X, X_test, y, other = X[chosen], X_test[~chosen], y[chosen], X_test
    reading = pairs_of_times(X, X_test, parameters, y)
    reading.y_test = None if y_test is None else np.asarray(y_test)
    reading.is_split = is_split
    reading.other_trials = other is not None and parameters["cv"] is None
    reading.note(**whole)
    return reading


def pairs_of_times(X, X_test, parameters, y):
    """Return the `Reading` of pairs of windows of two data (n, p, n_times)."""
    mode = parameters["window_mode"]
    starts, width = window_starts(parameters, X.shape[2])
    tested, _ = window_starts(parameters, X_test.shape[2])

    def train(position):
        return in_window(X, starts[position[0]], width, mode)

    def test(position):
        return in_window(X_test, tested[position[1]], width, mode)

    return Reading(train, (len(starts), len(tested)), np.asarray(y), test=test)


#: How the data of a decoding function are read, by its name.
READERS = {
    "cross_validate": reread_table,
    "regress": reread_table,
    "decode_arrays": reread_arrays,
    "generalize_arrays": reread_pairs,
}
