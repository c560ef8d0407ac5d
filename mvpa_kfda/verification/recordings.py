"""The features of every position of epochs and of source estimates."""

import mne
import numpy as np

from ..data.epochs import find_neighbours, read_epoch_data
from ..data.pairs import read_pairs
from ..data.sources import SourceReader, find_source_neighbours
from .reading import NotCovered, Reading, in_window, pairs_of_times, window_starts


def reread_epochs(result, epochs, y, given):
    """Return the `Reading` of `decode_epochs`."""
    parameters, options = result.parameters, result.options
    names = ("groups", "confounds", "train_on")
    known = {name: given.get(name, options.get(name)) for name in names}
    read = read_epoch_data(epochs, y, parameters["ch_names"], power=True, **known)
    info, data = read.info, np.moveaxis(read.data, (-2, -1), (0, 1))
    reading = Reading(None, np.shape(result.scores), np.asarray(read.trials.y))
    reading.note(data=data)
    keep_known(reading, read.trials)
    scaled = rescaled(data, info, parameters["scale"], given, reading.train_on, result)
    starts, width = window_starts(parameters, data.shape[-1])
    near = None
    if given.get("sensors", options.get("sensors")) is not None:
        pairs = find_neighbours(info, given.get("sensors", options.get("sensors")))
        near = [neighbours_of(i, pairs) for i in range(len(info["ch_names"]))]
        reading.columns = lambda position: near[position[0]]

    def train(position):
        *row, window = position
        of_row = scaled
        if data.ndim == 4:  # a frequency
            of_row = scaled[:, :, row[0]]
        elif near is not None:  # a sensor, and its neighbours
            of_row = scaled[:, near[row[0]]]
        return in_window(of_row, starts[window], width, parameters["window_mode"])

    reading.train = train
    return reading


def keep_known(reading, trials):
    """Keep what is known of `Trials` beside their labels."""
    reading.groups = None if trials.groups is None else np.asarray(trials.groups)
    reading.numbers, reading.confounds = trials.numbers, trials.confounds
    reading.train_on = None if trials.train_on is None else trials.train_on.mask


def neighbours_of(i, pairs):
    """Return a sensor and those next to it, by pairs (2, n_pairs)."""
    first, second = pairs
    return np.unique(np.concatenate([[i], second[first == i], first[second == i]]))


def rescaled(data, info, scale, given, train_on, result, others=None):
    """Return data (n, channels, ..., times) with all channels on one scale.

    Standard deviations are those of the trials that are trained with, and of each
    frequency by itself; `others` are brought to the same scale.
    """
    if scale == "covariance":
        if "scale" not in given:
            raise NotCovered("scale= was a noise covariance; pass it again")
        whitener = mne.cov.compute_whitener(given["scale"], info, verbose=False)[0]
        return np.einsum("ij,njt->nit", whitener, data if others is None else others)
    types, kernel = np.array(info.get_channel_types()), result.parameters["kernel"]
    kernels = result.parameters.get("kernels") or [kernel]
    unit = any(each.get("gamma", 0) is None for each in kernels)
    known = data if train_on is None else data[train_on]
    scaled = np.array(data if others is None else others, float)
    if scale == "channel":
        parts = [[i] for i in range(len(types))]
    elif scale == "auto" and (len(set(types)) > 1 or unit):
        parts = [np.flatnonzero(types == kind) for kind in sorted(set(types))]
    else:
        return scaled
    for part in parts:
        rows = [np.s_[:, part]]
        if data.ndim == 4:
            rows = [np.s_[:, part, f] for f in range(data.shape[2])]
        for at in rows:
            deviation = known[at].std()
            if deviation > 1e-12 * np.abs(known[at]).max():
                scaled[at] /= deviation
    return scaled


def reread_pairs_of_epochs(result, epochs, y, given):
    """Return the `Reading` of `generalize_epochs`."""
    parameters, options = result.parameters, result.options

    def was(name):
        return given.get(name, options.get(name))

    names = ("groups", "confounds", "train_on")
    others = {
        name: given.get(name) for name in ("test_epochs", "y_test", "same_trials")
    }
    two_sets = others["test_epochs"] is not None
    if others["same_trials"] is None and two_sets:
        others["same_trials"] = parameters["cv"] is not None
    known = others | {name: was(name) for name in names}
    read, data_test, _ = read_pairs(epochs, y, parameters["ch_names"], **known)
    trials, data = read.trials, read.data
    no_folds = known["groups"] is None and options.get("cv") is None
    is_split = trials.train_on is not None and no_folds
    if is_split:
        mask, trials = trials.train_on.mask, trials.parted()
        data, data_test = data[:, mask], data[:, ~mask]
    data, data_test = (np.moveaxis(each, (0, 1), (2, 0)) for each in (data, data_test))
    mask = None if trials.train_on is None else trials.train_on.mask
    how = read.info, parameters["scale"], given, mask, result
    X, X_test = rescaled(data, *how), rescaled(data, *how, others=data_test)
    reading = pairs_of_times(X, X_test, parameters, trials.y)
    keep_known(reading, trials)
    reading.is_split, y_test = is_split, trials.y_test
    if trials.test is not None:
        reading.other_trials, y_test = True, trials.test.y
        reading.confounds_test = trials.test.confounds
    reading.y_test = None if y_test is None else np.asarray(y_test)
    reading.note(data=data, data_test=data_test if two_sets or is_split else None)
    return reading


def reread_sources(result, stcs, y, given):
    """Return the `Reading` of `decode_sources`."""
    parameters = result.parameters
    reader = SourceReader(stcs, y)
    data = np.moveaxis(reader.read(), (0, 1), (2, 0))  # (trials, features, times)
    kernel, n_values = parameters["kernel"], reader.form.n_values
    scaled = data.astype(float)
    if kernel.get("gamma", 0) is None:
        known = given.get("train_on")
        scaled /= scaled[slice(None) if known is None else np.asarray(known)].std()
    starts, width = window_starts(parameters, data.shape[2])
    near = None
    if given.get("src") is not None:
        radius = result.options["radius"]
        _, members, _ = find_source_neighbours(reader.form, given["src"], radius)
        columns = [members[[i]].indices for i in range(len(result.scores))]
        values = np.arange(n_values)
        near = [np.add.outer(each * n_values, values).ravel() for each in columns]
    elif "radius" in parameters:
        raise NotCovered("src= was given, which says where sources are; pass it again")

    def train(position):
        *row, window = position
        of_row = scaled[:, near[row[0]]] if near else scaled
        return in_window(of_row, starts[window], width, parameters["window_mode"])

    reading = Reading(train, np.shape(result.scores), np.asarray(y))
    if near:
        reading.columns = lambda position: near[position[0]]
    reading.note(data=np.moveaxis(data, 1, 2))
    return reading


#: How the data of a decoding function are read, by its name.
READERS = {
    "decode_epochs": reread_epochs,
    "generalize_epochs": reread_pairs_of_epochs,
    "decode_sources": reread_sources,
}
