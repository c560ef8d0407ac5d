"""Training and test trials of time generalization: who is trained with, who tested.

A second set of data may hold the same trials, at other times or processed otherwise, or
other ones, as the user says. Models must not be tested on trials that they were trained
on, so copies of trials are refused where they are said to be others.
"""

from collections.abc import Mapping
from dataclasses import replace
from hashlib import blake2b

import numpy as np

from ..utils.checks import check_flag, warn
from .epochs import (
    check_epochs,
    label_epochs,
    names_classes,
    pick_channels,
    read_epoch_data,
    samples_first,
)

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
