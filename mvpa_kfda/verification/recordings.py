"""The features of every position of epochs and of source estimates."""

import mne
import numpy as np
from mne.time_frequency import EpochsTFR

from ..data.classes import choose_epochs
from ..data.confounds import confounds_of_epochs, train_on_of_epochs
from ..data.epochs import find_neighbours
from ..data.pairs import gather_pairs
from ..data.sources import SourceReader, find_source_neighbours
from .reading import NotCovered, Reading, in_window, pairs_of_times, window_starts


def reread_epochs(result, epochs, y, given):
    """Return the `Reading` of `decode_epochs`."""
    parameters, options = result.parameters, result.options
    chosen = choose_epochs(epochs, y, given.get("groups", options.get("groups")))
    confounds = given.get("confounds", options.get("confounds"))
    train_on = given.get("train_on", options.get("train_on"))
    info = chosen.epochs.info
    picks = [info["ch_names"].index(name) for name in parameters["ch_names"]]
    info = mne.pick_info(info, picks)
    if isinstance(epochs, EpochsTFR):
        data = chosen.epochs.data[:, picks]
    else:
        data = chosen.epochs.get_data(picks=picks)
    reading = Reading(None, np.shape(result.scores), np.asarray(chosen.y))
    reading.note(data=data)
    reading.numbers = chosen.numbers
    if chosen.groups is not None:
        reading.groups = np.asarray(chosen.groups)
    if confounds is not None:
        reading.confounds = confounds_of_epochs(epochs, confounds)[chosen.kept]
    if train_on is not None:
        reading.train_on = train_on_of_epochs(epochs, train_on, chosen).mask
    scaled = rescaled(data, info, parameters["scale"], given, reading.train_on, result)
    starts, width = window_starts(parameters, data.shape[-1])
    near = None
    if given.get("sensors", options.get("sensors")) is not None:
        pairs = find_neighbours(info, given.get("sensors", options.get("sensors")))
        near = [neighbours_of(i, pairs) for i in range(len(picks))]
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

    groups = was("groups")
    others = [given.get("test_epochs"), given.get("y_test"), was("train_on")]
    with_folds = groups is not None or options.get("cv") is not None
    names, same = parameters["ch_names"], given.get("same_trials")
    if same is None and others[0] is not None:
        same = parameters["cv"] is not None
    sets = gather_pairs(epochs, y, groups, *others, same, names, with_folds)
    data, data_test = (
        np.moveaxis(each, (0, 1), (2, 0)) for each in (sets.data, sets.data_test)
    )
    mask = sets.train_on.mask if sets.train_on is not None and with_folds else None
    how = sets.info, parameters["scale"], given, mask, result
    X, X_test = rescaled(data, *how), rescaled(data, *how, others=data_test)
    reading = pairs_of_times(X, X_test, parameters, sets.y)
    reading.other_trials = sets.n_other is not None
    reading.groups = None if sets.groups is None else np.asarray(sets.groups)
    reading.y_test = None if sets.y_test is None else np.asarray(sets.y_test)
    reading.numbers, reading.train_on = sets.numbers, mask
    reading.is_split = sets.train_on is not None and not with_folds
    confounds = confounds_of_epochs(epochs, was("confounds"))
    reading.confounds, reading.confounds_test = sets.part(confounds)
    other = others[0] is not None or sets.data_test is not sets.data
    reading.note(data=data, data_test=data_test if other else None)
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
        found = find_source_neighbours(
            reader.form, given["src"], result.options["radius"]
        )
        columns = [found.members[[i]].indices for i in range(len(result.scores))]
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
