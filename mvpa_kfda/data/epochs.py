"""Epochs and power as decoding takes them: trials, channels, scales, neighbours.

`read_epoch_data` makes `EpochData` of what users give, `read_pairs` two of them for
generalization, and nobody behind them sees epochs again. Names of events are matched as
MNE-Python does in ``epochs["face"]``: parts between slashes are tags, and a name stands
for all events that have its tags in any order. Files are read by MNE-Python: its own,
EEGLAB's and FieldTrip's.
"""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from hashlib import blake2b
from numbers import Integral
from pathlib import Path

import h5py
import mne
import numpy as np
from mne.time_frequency import EpochsTFR
from numpy.typing import ArrayLike
from scipy.io import whosmat

from ..utils.advice import COMPLEX, advice, described
from ..utils.checks import (
    check_array,
    check_flag,
    check_option,
    counted,
    quoted,
    warn,
    warn_of_angles,
)
from ..utils.fingerprints import note_input
from .neighbours import check_adjacency
from .trials import OF_EPOCHS, Trials, make_trials

#: How users say what class an epoch is of.
EpochLabels = ArrayLike | Mapping[str, str | Sequence[str]] | None

#: Events and tags that a message lists.
_LISTED = 20


@dataclass(frozen=True, eq=False)
class EpochData:
    """What is decoded of epochs or power."""

    trials: Trials
    #: Of the channels that are used.
    info: mne.Info
    #: ([n_freqs,] n_times, n_trials, n_channels), a new array.
    data: np.ndarray
    #: Sample times (s), and samples per second.
    times: np.ndarray
    sfreq: float
    #: Frequencies of power (Hz).
    freqs: np.ndarray | None
    #: Which of the given epochs the trials are, (n_trials,).
    kept: np.ndarray
    #: What a result records: events by class, which epochs, channels left out.
    record: dict


def read_epoch_data(epochs, y=None, picks=None, *, names=None, power=False, **known):
    """The `EpochData` of epochs, or of power if that will do; the given stay.

    `known` is what `label_epochs` takes; `names` are those of the picked channels to be
    used, where that is settled.
    """
    epochs = check_epochs(epochs, power=power)
    trials, kept, record = label_epochs(epochs, y, **known)
    used = pick_channels(epochs.info, picks if names is None else names)
    sfreq, distances = float(epochs.info["sfreq"]), np.diff(epochs.times)
    # A decomposition made from an array may have other times than its info says.
    if not np.allclose(distances, 1 / sfreq, rtol=1e-3, atol=0) and is_even(distances):
        sfreq = float(1 / distances.mean())
    chosen, references = _picked(epochs.info, picks)
    bad = len({*chosen} & {*epochs.info["bads"]})
    counts = ("bad", bad), ("reference", len(references))
    if left_out := {reason: n for reason, n in counts if n}:
        record |= {"channels_left_out": left_out}
    return EpochData(
        trials,
        mne.pick_info(epochs.info, used),
        samples_first(epochs, used, kept),
        epochs.times,
        sfreq,
        epochs.freqs if isinstance(epochs, EpochsTFR) else None,
        kept,
        record,
    )


def check_epochs(epochs, name="epochs", power=False):
    """Loaded, non-empty epochs, or power if that will do; the given stay."""
    if not isinstance(epochs, (mne.BaseEpochs, EpochsTFR) if power else mne.BaseEpochs):
        allowed = "mne.Epochs or EpochsTFR" if power else "mne.Epochs"
        given = f"{described(epochs)}.{advice(epochs)}"
        raise TypeError(f"{name} must be an {allowed} object; got {given}")
    if not epochs.preload:
        with mne.use_log_level("WARNING"):
            epochs = epochs.copy().load_data()
    if len(epochs) == 0:
        why = f"{name}.drop_log tells why epochs were dropped"
        raise ValueError(f"{name} is empty: no epoch is left to decode. {why}.")
    return epochs


# ------------------------------------------------------------------------------ trials


def label_epochs(
    epochs, y, groups=None, confounds=None, train_on=None, second=None, owner="epochs"
):
    """The `Trials` of the epochs with a class, which epochs these are, and a record.

    A `second` labelling of the same trials is given by epochs, labels and whose these
    are; only what has a class in both is kept.
    """
    n, name = len(epochs), "y" if owner == "epochs" else "y_test"
    column_of = partial(_metadata_column, epochs, name="confounds", owner="epochs")
    labels, kept, record = _classes_of(epochs, y, name, owner)
    if isinstance(groups, str):
        groups = _metadata_column(epochs, groups, "groups", owner).to_numpy()
    given = groups, confounds, train_on, epochs.metadata, OF_EPOCHS
    trials = make_trials(labels, n, *given, column_of=column_of)
    if second is not None:
        trials, kept, record = _in_both(trials, kept, record, *second)
    if len(kept) < n:
        trials = trials.take(kept)
    numbers = _numbers(epochs.selection[kept], epochs.events[kept, 0], trials.groups)
    return replace(trials, numbers=numbers), kept, record


def _in_both(trials, kept, record, epochs, y, owner):
    """The trials with their second labels, those with a class in both, and a record."""
    labels, kept_test, record_test = None, np.arange(len(epochs)), {}
    if y is not None:
        labels, kept_test, record_test = _classes_of(epochs, y, "y_test", owner)
    if len(both := np.intersect1d(kept, kept_test)) == 0:
        raise ValueError(
            "y and y_test name classes that have no epoch in common, and are to label "
            "the same epochs. To test on others, pass test_epochs=epochs."
        )
    sides = ("y", trials.y, record, kept), ("y_test", labels, record_test, kept_test)
    for name, of_all, each, known in sides:
        if each and (gone := {*each["classes"]} - {*of_all[both].tolist()}):
            raise ValueError(
                f"{name} names the class {min(gone)!r}, but its epochs have no class "
                "in the other of y and y_test. Leave the class out."
            )
        if len(both) < len(known):
            each["selected"] = both
    record |= {f"{name}_test": value for name, value in record_test.items()}
    return replace(trials, y_test=labels), both, record


def _numbers(numbers, samples, groups):
    """The numbers of trials in the order of recording (n,), None if not known.

    Those of the events, of which some were dropped, if events are in order; they may
    have been put together by condition.
    """
    steps, distances = np.diff(numbers), np.diff(samples)
    # Epochs made from an array are evenly spaced, in whatever order the rows are.
    if (distances * steps[:1] == steps * distances[:1]).all():
        return None
    if (np.diff(samples[np.argsort(numbers)]) > 0).all():
        return numbers
    groups = np.zeros(len(samples), int) if groups is None else groups
    order = _in_time(samples, np.unique(groups, return_inverse=True)[1].reshape(-1))
    if order is None or (np.diff(numbers[order]) > 0).all():
        return None if order is None else numbers
    return np.argsort(order)


def _in_time(samples, group):
    """The order (n,) of samples within groups, one group after the other.

    None if two events of a group have one sample: they are of several recordings.
    """
    order = np.lexsort((samples, group))
    starts = np.flatnonzero(np.diff(group[order], prepend=-1))
    together = np.diff(group[order]) == 0
    if not np.diff(samples[order])[together].all():
        return None
    first, last = samples[order[starts]], samples[order[np.r_[starts[1:] - 1, -1]]]
    by_time = np.argsort(first, kind="stable")
    if (last[by_time][:-1] >= first[by_time][1:]).any():
        # Samples of several recordings, which follow each other as the rows do.
        first = np.unique(group, return_index=True)[1]
    return order[np.argsort(first[group[order]], kind="stable")]


def names_classes(y, n_epochs):
    """Whether labels are given by the names of events: no one label per epoch."""
    if isinstance(y, Mapping):
        return True
    # As many labels as epochs are labels; as classes they would have an epoch each.
    texts = isinstance(y, list | tuple) and all(isinstance(each, str) for each in y)
    return texts and len(y) != n_epochs


def _classes_of(epochs, y, name, owner):
    """Labels, which epochs have one, and a record of the events of classes.

    The labels are the events' names, a column of the metadata, as given, or the names
    of classes, "" for none.
    """
    everybody, codes = np.arange(len(epochs)), epochs.events[:, 2]
    if y is None:
        names = {code: event for event, code in epochs.event_id.items()}
        if unknown := sorted({*codes.tolist()} - {*names}):
            raise ValueError(
                f"{owner}.event_id has no name for the event codes {unknown} in "
                f"{owner}.events. Name every code there, or pass {name}."
            )
        return np.array([names[code] for code in codes]), everybody, {}
    if isinstance(y, str):
        return _metadata_column(epochs, y, name, owner).to_numpy(), everybody, {}
    if not names_classes(y, len(epochs)):
        return y, everybody, {}
    events = {
        label: _match(epochs.event_id, texts, len(epochs), name, owner)
        for label, texts in _named(y, len(epochs), name).items()
    }
    labels = np.full(len(epochs), "", dtype=f"<U{max(map(len, events))}")
    for label, matched in events.items():
        of_class = np.isin(codes, [epochs.event_id[event] for event in matched])
        if not of_class.any():
            its = f"its events {quoted(matched, _LISTED)}. See {owner}.drop_log"
            raise ValueError(
                f"{name} names the class {label!r}, but {owner} has no epoch of {its}, "
                "or leave the class out."
            )
        if len(twice := np.flatnonzero(of_class & (labels != ""))):
            event = next(e for e in matched if epochs.event_id[e] == codes[twice[0]])
            both = f"{str(labels[twice[0]])!r} and {label!r}"
            raise ValueError(
                f"{name} names the event {event!r} in two classes, {both}. Use "
                "separate tags or events for each class."
            )
        labels[of_class] = label
    kept = np.flatnonzero(labels != "")
    return labels, kept, {"classes": events, "selected": kept}


def _metadata_column(epochs, column, name, owner):
    """A column of the metadata."""
    of = "" if owner == "epochs" else f" of {owner}"
    if epochs.metadata is None:
        whose = "these epochs have" if owner == "epochs" else f"{owner} has"
        raise ValueError(
            f"{name}={column!r} names a metadata column, but {whose} no metadata. Pass "
            f"{name} as an array with one value per epoch."
        )
    if column not in epochs.metadata.columns:
        there = quoted(map(str, epochs.metadata.columns))
        raise ValueError(
            f"{name}={column!r} is not a metadata column{of}. The columns are: {there}."
        )
    return epochs.metadata[column]


def _named(given, n_epochs, name):
    """The texts that stand for each class, by its name; two or more."""
    names, by_dict = {}, isinstance(given, Mapping)
    for label, texts in given.items() if by_dict else zip(given, given, strict=True):
        texts = [texts] if isinstance(texts, str) else texts
        right = isinstance(texts, list | tuple) and texts
        right = right and all(isinstance(text, str) for text in [label, *texts])
        if not right or not label.strip():
            raise TypeError(
                f"{name} names classes by a dict of name -> tag or event, or a list of "
                f"these; got {label!r}: {texts!r}. For example: "
                "{'animate': ['face', 'body'], 'inanimate': 'house'}."
            )
        if label.strip() in names:
            raise ValueError(
                f"{name} names {label.strip()!r} twice among {len(given)} names, for "
                f"{n_epochs} epochs. Put the events together, or pass one label for "
                "each epoch."
            )
        names[label.strip()] = [text.strip() for text in texts]
    if len(names) < 2:
        what = f"{counted(len(names), 'class')}; decoding needs two or more"
        raise ValueError(f"{name} names {what}. Name the tags or events of each.")
    return names


def _match(event_id, texts, n_epochs, name, owner):
    """The events that have the tags of any of some texts, in their order."""
    found, trimmed = [], {event: event.strip() for event in event_id}
    for text in texts:
        names = list(trimmed.values())
        matched = mne.event.match_event_names(names, text, on_missing="ignore")
        matched = [e for name in matched for e in event_id if trimmed[e] == name]
        if not matched:
            tags = sorted({tag for event in event_id for tag in event.split("/")})
            only = [tag for tag in tags if tag not in event_id]
            also = f"; tags in them: {quoted(only, _LISTED)}" if only else ""
            raise ValueError(
                f"{name} names {text!r}, which is no event or tag of {owner}. The "
                f"events are: {quoted(event_id, _LISTED)}{also}. If these are labels, "
                f"pass one for each of the {n_epochs} epochs."
            )
        found += [event for event in matched if event not in found]
    return found


# ---------------------------------------------------------------------------- channels


def _picked(info, picks):
    """The names of picked channels, and of the references left out of all."""
    # Picking from a one-sample stand-in leaves the rules to MNE and copies no data.
    stand_in = mne.EvokedArray(np.zeros((len(info["ch_names"]), 1)), info.copy())
    stand_in.pick("data" if picks is None else picks, verbose=False)
    names = stand_in.ch_names
    everything = isinstance(picks, str | list) and picks in ("data", ["data"])
    if picks is not None and not everything:
        return names, []
    # They record the noise of the room. For MNE-Python they are data, too.
    kinds = zip(names, stand_in.get_channel_types(), strict=True)
    references = [name for name, kind in kinds if kind == "ref_meg"]
    return [name for name in names if name not in references], references


def picked_channels(info, picks):
    """The names of picked channels, bad ones too; none if there are none."""
    try:
        return _picked(info, picks)[0]
    except ValueError:
        return []


def data_channels(info):
    """The indices of the good data channels; reference channels are none."""
    good = [x for x in picked_channels(info, None) if x not in info["bads"]]
    return [info["ch_names"].index(name) for name in good]


def pick_channels(info, picks):
    """The indices of the channels to use; bad ones stay out."""
    good, why = [], ""
    try:
        # MNE-Python keeps bad channels that are named one by one.
        good = [name for name in _picked(info, picks)[0] if name not in info["bads"]]
    except (IndexError, TypeError, ValueError) as error:
        why = "" if picks is None else f" MNE-Python says: {error}"
    if not good:
        types = sorted(set(info.get_channel_types()))
        raise ValueError(
            f"No good channels for picks={picks!r}; the channel types are: "
            f"{', '.join(types)}; bad channels: {info['bads']}. Name the channels or "
            f"types to use in picks, e.g. picks={types[0]!r}.{why}"
        )
    return [info["ch_names"].index(name) for name in good]


def samples_first(epochs, picks, kept, name="epochs"):
    """Data of some channels and trials, ([n_freqs,] n_times, n_trials, n_channels)."""
    role = "data" if name == "epochs" else "data_test"
    # The features of a time point are contiguous then.
    if isinstance(epochs, EpochsTFR):
        of, power = f"The data of {name}", epochs.data
        if power.ndim == 5:
            raise ValueError(
                f"{name} has an axis of tapers, shape {power.shape}. Power is summed "
                "over them: compute it with output='power'."
            )
        if np.iscomplexobj(power):
            raise ValueError(
                f"{of} holds complex data; real numbers are needed. For power, use "
                f"output='power'; for the rest, decode_arrays. {COMPLEX}"
            )
        sines = "decode_arrays(np.concatenate([np.sin(z), np.cos(z)], axis=1), y, ...)"
        one = f"of one frequency, z = {name}.data[:, :, i], "
        warn_of_angles(power, of, one + sines)
        data = power[:, picks]
        data = check_array(data if len(kept) == len(data) else data[kept], of, 4)
        note_input(role, data)
        return np.array(np.moveaxis(data, (0, 1), (-2, -1)), order="C")
    given = epochs.get_data(copy=False)  # nothing is copied, but trials one by one
    data = np.empty((given.shape[2], len(kept), len(picks)), given.dtype)
    for number, trial in enumerate(kept):
        data[:, number] = given[trial, picks].T
    trials = check_array(data.transpose(1, 2, 0), f"The data of {name}", 3)
    note_input(role, trials)
    return trials.transpose(2, 0, 1)


def is_even(distances):
    """Whether times are evenly spaced, by the distances between them."""
    return np.allclose(distances, distances.mean(), rtol=1e-3, atol=0)


def fit_scaling(info, data, scale, kernel):
    """What brings data (..., n_channels) to one scale, and patterns to their units.

    Two functions, linear maps that are the same for all epochs: the first may use up
    the data, of which these are ([n_freqs,] n_samples, n_epochs, n_channels).
    """
    if isinstance(scale, mne.Covariance) and data.ndim == 3:
        names, data_names = info["ch_names"], pick_channels(info, None)
        if missing := [name for name in names if name not in scale.ch_names]:
            raise ValueError(
                f"The noise covariance in scale lacks {len(missing)} of the "
                f"{len(names)} channels, e.g. {missing[0]!r}. Pick those it has, or "
                "compute it again."
            )
        if others := [name for i, name in enumerate(names) if i not in data_names]:
            raise ValueError(
                "A noise covariance in scale whitens data channels only, not "
                f"{', '.join(others)}. Leave them out of picks, or use scale='auto'."
            )
        whitener = mne.cov.compute_whitener(scale, info, verbose=False)[0]
        return (
            lambda data: data @ whitener.T,
            lambda patterns: patterns @ np.linalg.pinv(whitener).T,
        )
    divisors = _divisors(info, data, scale, kernel)
    if divisors is None:
        return lambda data: data, lambda patterns: patterns

    def divide(data):
        data /= divisors
        return data

    return divide, lambda patterns: patterns * divisors


def _divisors(info, data, scale, kernel):
    """What channels are divided by, (n_channels,) or (n_freqs, 1, 1, n_channels)."""
    types = np.array(info.get_channel_types())
    by_type = scale == "auto" and (len(set(types)) > 1 or kernel.assumes_unit_scale)
    if scale != "channel" and not by_type:
        return None
    if data.ndim == 4:
        # Power differs by orders of magnitude between frequencies.
        found = [_divisors(info, power, scale, kernel) for power in data]
        return np.stack(found)[:, None, None]
    if scale == "channel":
        return _deviation(data, axis=(0, 1))
    divisors = np.ones(len(types))
    for kind in set(types):
        divisors[types == kind] = _deviation(data[:, :, types == kind])
    return divisors


def _deviation(data, axis=None):
    """Standard deviations, and 1 for what is flat up to rounding."""
    deviation = data.std(axis=axis)
    rounding = 1e-12 * np.abs(data).max(axis=axis)
    return np.where(deviation > rounding, deviation, 1.0)


def progress_wanted(verbose):
    """MNE's verbose as yes, no or None."""
    if isinstance(verbose, str):
        levels = ("DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL")
        verbose = getattr(logging, check_option("verbose", verbose.upper(), levels))
    if verbose is None or isinstance(verbose, bool | np.bool_):
        return None if verbose is None else bool(verbose)
    if not isinstance(verbose, Integral):
        raise TypeError(
            f"Invalid value for 'verbose': {verbose!r}. Allowed: True, False, None, or "
            "a level of logging, such as 'INFO', or its number."
        )
    return verbose <= logging.INFO


def find_neighbours(info, sensors):
    """Which picked channels are neighbours, each pair once, (2, n_pairs)."""
    names, known = info["ch_names"], None
    if sensors is True or isinstance(sensors, str):
        also = ("an adjacency matrix", "(matrix, ch_names)")
        check_option("sensors", sensors, ("adjacency", True), also)
        types, n = sorted(set(info.get_channel_types())), len(names)
        if len(types) > 1 or types[0] == "misc" or n < 4:
            raise ValueError(
                "sensors='adjacency' needs four or more channels of one type, which "
                f"have places on the head; picked are {n} of type {', '.join(types)}. "
                "Pick others, or pass your own matrix as sensors."
            )
        try:
            with mne.use_log_level("ERROR"):
                sensors = mne.channels.find_ch_adjacency(info, types[0])
        # No positions, positions for another type, or too few channels for triangles.
        except (LookupError, RuntimeError, ValueError) as error:
            raise ValueError(
                f"MNE-Python finds no neighbours of the {n} {types[0]} channels: "
                f"{str(error).splitlines()[0]} Set the positions with "
                "epochs.set_montage, or pass your own matrix as sensors."
            ) from error
    if isinstance(sensors, tuple) and len(sensors) == 2:
        sensors, known = sensors[0], [str(name) for name in sensors[1]]
    rows, noun = (names, "picked channel") if known is None else (known, "channel name")
    mend = " Pass (matrix, ch_names) to match channels by name, or 'adjacency'."
    matrix = check_adjacency(sensors, len(rows), "sensors", noun, mend).toarray()
    if not np.isin(matrix, (0, 1)).all():
        raise ValueError(
            "The adjacency in sensors must hold zeros and ones; got values from "
            f"{matrix.min():g} to {matrix.max():g}. From distances: distances < 0.04."
        )
    if (matrix != matrix.T).any():
        i, j = np.argwhere(matrix != matrix.T)[0]
        raise ValueError(
            "The adjacency in sensors must be symmetric; it differs for the pair "
            f"({i}, {j}). Make it so: (matrix + matrix.T) > 0."
        )
    if missing := [name for name in names if name not in rows]:
        raise ValueError(
            f"The adjacency in sensors lacks {len(missing)} of the {len(names)} "
            f"picked channels: {quoted(missing[:5])}. It has, for example, "
            f"{quoted(rows[:3])}. Rename or pick channels so that they match."
        )
    order = [rows.index(name) for name in names]
    return np.stack(np.nonzero(np.triu(matrix[np.ix_(order, order)], k=1)))


# -------------------------------------------------- training and test trials, in pairs
#
# A second set of data may hold the same trials, at other times or processed otherwise,
# or other ones, as the user says. Models must not be tested on trials that they were
# trained on, so copies of trials are refused where they are said to be others.

#: So many equal trials may be chance, in spike counts for one, if the user says so.
_CHANCE = 0.1


def shared_trials(data, times, data_test, times_test):
    """Pairs (n_pairs, 2) of trials with equal values at the common times."""
    digits = np.round(times, 6), np.round(times_test, 6)
    _, here, there = np.intersect1d(*digits, return_indices=True)
    if len(here) == 0:
        return np.empty((0, 2), int)

    def digest(trial):
        if np.ptp(trial) != 0:  # those that do not vary at all are no copies
            return blake2b(np.ascontiguousarray(trial), digest_size=16).digest()

    keys = [digest(trial) for trial in data[here].transpose(1, 0, 2)]
    test = [digest(trial) for trial in data_test[there].transpose(1, 0, 2)]
    first = {key: i for i, key in reversed(list(enumerate(keys))) if key is not None}
    common = [(j, key) for j, key in enumerate(test) if key in first]
    # A trial that is there twice is first of all itself.
    pairs = [(j if keys[j : j + 1] == [key] else first[key], j) for j, key in common]
    return np.array(pairs, int).reshape(-1, 2)


def check_no_same_trials(same_trials, test):
    """Refuse `same_trials` where there is no second set of data called `test`."""
    if same_trials is not None:
        raise ValueError(
            f"same_trials={same_trials!r} is for {test}, which is not given. Drop it."
        )


def without_copy(data, times, data_test, times_test):
    """The test data, or the training data themselves if they are equal."""
    if np.array_equal(times, times_test) and np.array_equal(data, data_test):
        return data
    return data_test


def check_same_trials(same_trials, data, times, data_test, times_test, names):
    """Whether the test trials are said to be the training trials, one by one.

    Copies of trials must agree with what is said.
    """
    check_flag("same_trials", same_trials, also=(None,))
    n, n_test = data.shape[1], data_test.shape[1]
    train, test = names
    pairs = shared_trials(data, times, data_test, times_test)
    if same_trials:
        moved = pairs[pairs[:, 0] != pairs[:, 1]]
        if n != n_test or len(moved) > _CHANCE * n:
            words = f"{train} has {n} and {test} has {n_test}"
            if len(moved) > _CHANCE * n_test:
                i, j = moved[0]
                words = f"trial {j} of {test} is trial {i} of {train}"
            needed = "same_trials=True needs the same trials in both, in the same order"
            raise ValueError(f"{needed}; {words}.")
        return True
    if len(pairs) == 0:
        return False
    i, j = pairs[0]
    message = (
        f"{len(pairs)} of the {n_test} trials of {test} are also in {train} (trial {j} "
        f"is trial {i} there): models would be tested on their training trials. Leave "
        "these out of one of them, or use same_trials=True if both hold the same "
        "trials in the same order, to have them cross-validated"
    )
    if len(pairs) > _CHANCE * n_test:
        raise ValueError(f"{message}.")
    if same_trials is None:
        raise ValueError(f"{message}; same_trials=False if they are equal by chance.")
    warn(f"{message}. With same_trials=False they are treated as other trials.")
    return False


def read_pairs(
    epochs, y, picks, *, test_epochs=None, y_test=None, same_trials=None, **known
):
    """The `EpochData` to train with, and data and times that it is tested on.

    These are its own, or of other epochs, see `generalize_epochs`: of the same trials,
    which are cross-validated, or of other ones, which the `Trials` then know. `known`
    is what `label_epochs` takes.
    """
    if known.get("train_on") is not None:
        check_alone("epochs", test_epochs, y_test)
    if test_epochs is None:
        check_no_same_trials(same_trials, "test_epochs")
        if y_test is not None:
            epochs = check_epochs(epochs)
            known["second"] = epochs, y_test, "epochs"
        train = read_epoch_data(epochs, y, picks, **known)
        return train, train.data, train.times
    epochs, owner = check_epochs(epochs), "test_epochs"
    test_epochs = check_epochs(test_epochs, owner)
    names = _common_channels(epochs, test_epochs, picks)
    test, kept_test, record = None, np.arange(len(test_epochs)), {}
    if same_trials is True and len(epochs) == len(test_epochs):
        known["second"] = test_epochs, y_test, owner
    elif y_test is not None:
        test, kept_test, record = label_epochs(test_epochs, y_test, owner=owner)
    elif same_trials is not True:  # found where those to train with are
        labels = y
        if names_classes(y, len(epochs)):
            labels = y if isinstance(y, Mapping) else {name: name for name in y}
        elif y is not None and not isinstance(y, str):
            raise ValueError(
                "test_epochs are other trials than epochs, so their labels are needed: "
                f"pass y_test, one label for each of the {len(test_epochs)} test "
                "epochs (or same_trials=True if they are the same, in the same order)."
            )
        test, kept_test, record = label_epochs(test_epochs, labels, owner=owner)
    train = read_epoch_data(epochs, y, picks, names=names, **known)
    kept_test = train.kept if "second" in known else kept_test
    picked = [test_epochs.ch_names.index(name) for name in names]
    data_test = samples_first(test_epochs, picked, kept_test, owner)
    trials, times = train.trials, test_epochs.times
    sides = train.data, epochs.times, data_test, times
    if check_same_trials(same_trials, *sides, ("epochs", owner)):
        data_test = without_copy(*sides)
        trials = trials if test is None else replace(trials, y_test=test.y)
    else:
        trials = replace(trials, test=test)
        if same_trials is None:
            _ask_if_the_same(epochs, test_epochs, train.kept, kept_test)
    record = {f"{name}_test": value for name, value in record.items()}
    train = replace(train, trials=trials, record=train.record | record)
    return train, data_test, times


def check_alone(name, test, y_test):
    """Refuse other data or labels to be tested where `train_on` leaves some to test."""
    if test is not None or y_test is not None:
        other = "test_epochs" if name == "epochs" else "X_test"
        raise ValueError(
            f"train_on splits {name} into those to train on and those to test on; it "
            f"cannot be combined with {other} or y_test. To train on a part, pass only "
            f"that part of {name} and y."
        )


def _common_channels(epochs, test_epochs, picks):
    """The names of the good channels to use, once both sets fit together."""
    rates = [float(e.info["sfreq"]) for e in (epochs, test_epochs)]
    if not np.isclose(*rates, rtol=1e-6):
        raise ValueError(
            f"epochs has {rates[0]:g} samples per second and test_epochs {rates[1]:g}. "
            "Resample one of them with epochs.resample."
        )
    picked = [epochs.ch_names[i] for i in pick_channels(epochs.info, picks)]
    if missing := [name for name in picked if name not in test_epochs.ch_names]:
        raise ValueError(
            f"test_epochs lacks {len(missing)} of the {len(picked)} channels, e.g. "
            f"{', '.join(missing[:5])}. Name the channels that both have in picks."
        )
    names = [name for name in picked if name not in test_epochs.info["bads"]]
    if not names:
        bad = f"{', '.join(picked[:5])} are bad in test_epochs"
        raise ValueError(f"No channel is good in both epochs and test_epochs: {bad}.")
    applied, types = [], []
    for e in (epochs, test_epochs):
        applied.append({str(p["desc"]) for p in e.info["projs"] if p["active"]})
        types.append(e.get_channel_types([e.ch_names.index(name) for name in names]))
    if only := sorted(applied[0] ^ applied[1]):
        warn(
            "Different projections have been applied to epochs and test_epochs: "
            f"{only} to one of them only. Apply the same with add_proj and apply_proj, "
            "or the models meet other data than they know.",
            UserWarning,
        )
    for name, kind, other in zip(names, *types, strict=True):
        if kind != other:
            raise ValueError(
                f"Channel {name!r} is of type {kind} in epochs and {other} in "
                "test_epochs. Use set_channel_types, or leave it out of picks."
            )
    return names


def _ask_if_the_same(epochs, test_epochs, kept, kept_test):
    """Ask about trials that were, by their events, cut or processed in another way."""
    here, there = epochs.events[kept], test_epochs.events[kept_test]
    common = np.intersect1d(epochs.times.round(6), test_epochs.times.round(6))
    shared = set(map(tuple, here.tolist())) & set(map(tuple, there.tolist()))
    length = np.ptp(epochs.times) * epochs.info["sfreq"]
    distances = np.diff(np.sort(here[:, 0]))
    # Made-up events are often one sample apart.
    recorded = len(distances) > 0 and np.median(distances) > length / 2
    alike = 2 * len(shared) >= len(there)
    if not alike and len(here) == len(there):
        # Do they overlap one by one, more or less shifted? A constant shift is more
        # likely that of another recording with the same timing.
        distance = there[:, 0] - here[:, 0]
        times = [each.times[[0, -1]] for each in (epochs, test_epochs)]
        (first, last), ends = np.rint(np.array(times) * epochs.info["sfreq"])
        start, stop = (distance[:, None] + ends).T
        overlap = (first <= stop) & (start <= last)
        alike = overlap.all() and np.ptp(distance) > 0
    if (recorded and alike) or (len(common) == 0 and shared):
        raise ValueError(
            f"The epochs of test_epochs have {len(shared)} of the events of epochs, or "
            "overlap with them in time one by one, as if the same trials were "
            "processed differently or cut around other events. Use same_trials=True if "
            "they are the same, in the same order, to have them cross-validated, else "
            "same_trials=False."
        )


# ------------------------------------------------------------------------------- files


def read_epochs_file(path):
    """The epochs of a file, with one kind of error for all that is wrong."""
    path = Path(path)
    try:
        return _READERS.get(path.suffix, mne.read_epochs)(path, verbose="error")
    except Exception as error:  # a reader of foreign bytes fails in many ways
        text = " ".join(str(error).split()).rstrip(".") or type(error).__name__
        words = (
            f"is not a file of epochs that MNE-Python can read ({text}). Use epochs "
            "of mne.Epochs.save (-epo.fif), EEGLAB epochs (.set) or FieldTrip's (.mat)."
        )
        # SciPy, which MNE-Python uses without it for EEGLAB, reads no version 7.3.
        if "pymatreader" in text or isinstance(error, NotImplementedError):
            words = (
                "cannot be read without the package pymatreader. Install it, or save "
                "the epochs by mne.Epochs.save (-epo.fif)."
            )
        elif "read_raw_eeglab" in text:
            words = (
                "holds no epochs, or only one: for EEGLAB it is a continuous recording."
                " Cut it first, by Tools > Extract epochs in EEGLAB or by mne.Epochs."
            )
        raise ValueError(f"{path} {words}") from error


def _read_fieldtrip(path, verbose):
    """The data structure of FieldTrip, whose columns of trialinfo are numbered."""
    if h5py.is_hdf5(path):
        with h5py.File(path, "r") as file:
            names = [name for name in file if not name.startswith("#")]
    else:
        names = [name for name, *_ in whosmat(path)]
    if len(names) > 1 and "data" not in names:
        raise ValueError(f"it holds several variables, {quoted(names, 5)}; save one")
    name = "data" if "data" in names else names[0]
    with mne.use_log_level(verbose):
        epochs = mne.read_epochs_fieldtrip(path, info=None, data_name=name)
        if epochs.metadata is not None:
            epochs.metadata = epochs.metadata.rename(columns=str)
    return epochs


#: Endings -> readers; everything else is read as MNE-Python's own.
_READERS = {
    # Channels named EOG or EYE are none of the brain.
    ".set": partial(mne.read_epochs_eeglab, eog="auto"),
    ".mat": _read_fieldtrip,
}
