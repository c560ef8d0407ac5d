"""Results of a few runs, to be verified, and what is given to `verify` again."""

from functools import cache

import numpy as np

from mvpa_kfda import decode_arrays

#: What of a function's options are data, which have to be given again.
GIVEN = (
    *("X_test", "y_test", "test_epochs", "same_trials", "mask_img", "labels_img"),
    *("adjacency", "sensors", "src", "mesh", "confounds"),
)
#: Kinds of results of a subject, as `build.result` makes them.
KINDS = [
    *("DecodingResult", "RegressionResult", "TimeResult", "TimeRegressionResult"),
    *("TimeFrequencyResult", "SensorTimeResult", "GeneralizationResult"),
    *("VolumeResult", "regions", "SourceResult", "SourceTimeResult"),
]
RUNS = np.repeat(np.arange(4), 10)
WHOLE = {"n_cells": None, "groups": RUNS}


def trials(seed=0):
    """Return data (n, p, n_times), and labels in random order within runs."""
    rng = np.random.default_rng(seed)
    y = np.concatenate([rng.permutation(np.repeat(["cat", "dog"], 5)) for _ in "1234"])
    X = rng.normal(size=(40, 6, 3))
    X[:, :2] += 0.8 * (y == "dog")[:, np.newaxis, np.newaxis]
    return X, y


def decode(X, y, **options):
    options = {"n_permutations": 9, "random_state": 0, "groups": RUNS} | options
    return decode_arrays(X, y, **options)


X, Y = trials()
#: Few trials, in blocks, and times, for what takes long.
FEW, FEW_Y, BLOCKS = X[:20, :, :2], Y[:20], np.repeat(np.arange(4), 5)


@cache
def honest():
    """Return a result that holds, made once."""
    return decode(X, Y)


def edited(values, index, by):
    """Return a copy of an array in which one number is another one."""
    values = np.array(values, float)
    values[index] += by
    return values
