"""Training and test trials of time generalization: who is trained with, who tested.

A second set of data may hold the same trials, at other times or processed otherwise, or
other ones, as the user says. Models must not be tested on trials that they were trained
on, so copies of trials are refused where they are said to be others.
"""

from dataclasses import dataclass, replace
from hashlib import blake2b

import mne
import numpy as np

from ..utils.checks import check_flag, check_per_trial, warn
from .classes import (
    Chosen,
    choose_classes,
    choose_epochs,
    choose_same,
    names_classes,
)
from .confounds import TrainOn, train_on_of_epochs
from .epochs import check_epochs, per_epoch, pick_channels, samples_first

#: So many equal trials may be chance, in spike counts for one, if the user says so.
_CHANCE = 0.1


def shared_trials(data, times, data_test, times_test):
    """Return pairs (n_pairs, 2) of trials with equal values at the common times."""
    digits = np.round(times, 6), np.round(times_test, 6)
    _, here, there = np.intersect1d(*digits, return_indices=True)
    if len(here) == 0:
        return np.empty((0, 2), int)
    keys = [_digest(trial) for trial in data[here].transpose(1, 0, 2)]
    first = {key: i for i, key in reversed(list(enumerate(keys)))}
    first.pop(None, None)
    pairs = []  # without trials that do not vary at all
    for j, trial in enumerate(data_test[there].transpose(1, 0, 2)):
        key = _digest(trial)
        if key in first:  # a trial that is there twice is first of all itself
            pairs.append((j if keys[j : j + 1] == [key] else first[key], j))
    return np.array(pairs, int).reshape(-1, 2)


def _digest(trial):
    """Return a short name for a trial's values, None without any variation."""
    if np.ptp(trial) == 0:
        return None
    return blake2b(np.ascontiguousarray(trial), digest_size=16).digest()


def check_no_same_trials(same_trials, test):
    """Refuse `same_trials` where there is no second set of data called `test`."""
    if same_trials is not None:
        raise ValueError(
            f"same_trials={same_trials!r} says how the trials of {test} relate to the "
            f"training trials, but no {test} is given. Leave it out, or pass {test}."
        )


def without_copy(data, times, data_test, times_test):
    """Return the test data, or the training data themselves if they are equal."""
    if np.array_equal(times, times_test) and np.array_equal(data, data_test):
        return data
    return data_test


def check_same_trials(same_trials, data, times, data_test, times_test, names):
    """Return whether the test trials are said to be the training trials, one by one.

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
            raise ValueError(
                "same_trials=True needs the same trials in both, in the same order; "
                f"{words}."
            )
        return True
    if len(pairs) == 0:
        return False
    i, j = pairs[0]
    message = (
        f"{len(pairs)} of the {n_test} trials of {test} are also in {train} (trial {j} "
        f"is trial {i} there): the models would be tested on what they were trained "
        "on. Leave these trials out of one of them, or use same_trials=True if both "
        "hold the same trials in the same order, to have them cross-validated"
    )
    if len(pairs) > _CHANCE * n_test:
        raise ValueError(f"{message}.")
    if same_trials is None:
        raise ValueError(f"{message}; same_trials=False if they are equal by chance.")
    warn(f"{message}. With same_trials=False they are treated as other trials.")
    return False


@dataclass(frozen=True)
class TrialSets:
    """The trials to train with and those to test on."""

    y: object  #: labels of the training trials
    groups: object  #: their groups, or None
    y_test: object  #: labels to be predicted; None for those of `y`
    n_other: int | None  #: number of other test trials; None to cross-validate
    info: mne.Info  #: of the channels used
    data: np.ndarray  #: the training trials, (n_times, n_trials, n_channels)
    times: np.ndarray  #: their sample times in seconds
    data_test: np.ndarray  #: the test trials; `data` itself if there are no others
    times_test: np.ndarray  #: their sample times
    record: dict  #: which epochs are decoded as which classes, where they are chosen
    numbers: np.ndarray | None  #: of the training trials in the recording, if known
    kept: np.ndarray  #: which of the given epochs the training trials are
    kept_test: np.ndarray | None = None  #: the same of what a choice leaves to test
    #: Which epochs were chosen to train with; all are in `data` if there are folds.
    train_on: TrainOn | None = None

    def part(self, values):
        """Return values (n_epochs, ...) of the given epochs, for those to train with.

        And for those that are tested without folds, as far as they are known.
        """
        if values is None:
            return None, None
        tested = None if self.kept_test is None else values[self.kept_test]
        return values[self.kept], tested


def gather_pairs(
    epochs, y, groups, test_epochs, y_test, train_on, same_trials, picks, with_folds
):
    """Return the :class:`TrialSets` of checked epochs, see `generalize_epochs`.

    `with_folds` says whether those of `train_on` are trained with fold by fold.
    """
    if test_epochs is None:
        check_no_same_trials(same_trials, "test_epochs")
    if train_on is not None:
        check_alone("epochs", test_epochs, y_test)
        chosen = choose_epochs(epochs, y, groups)
        train_on = train_on_of_epochs(epochs, train_on, chosen)
        return _gather_chosen(chosen, train_on, picks, with_folds)
    if test_epochs is None:
        chosen, test = choose_same(epochs, epochs, y, y_test, groups, "epochs")
        picks = pick_channels(epochs.info, picks)
        record = _record(chosen, test if y_test is not None else None)
        return _trial_sets(chosen, test.y, None, picks, record)
    test_epochs = check_epochs(test_epochs, "test_epochs")
    chosen, test = _choose_pair(epochs, test_epochs, y, y_test, groups, same_trials)
    record = _record(chosen, test)
    epochs, test_epochs = chosen.epochs, test.epochs
    names = _common_channels(epochs, test_epochs, picks)
    data = samples_first(epochs, names)
    data_test = samples_first(test_epochs, names, "test_epochs")
    same = check_same_trials(
        same_trials,
        data,
        epochs.times,
        data_test,
        test_epochs.times,
        ("epochs", "test_epochs"),
    )
    if same:
        data_test = without_copy(data, epochs.times, data_test, test_epochs.times)
    elif same_trials is None:
        _ask_if_the_same(epochs, test_epochs)
    labels = test.y
    if y_test is None:
        labels = None if same else _same_kind_of_labels(test, y)
    return TrialSets(
        chosen.y,
        chosen.groups,
        labels,
        None if same else len(test_epochs),
        mne.pick_info(epochs.info, [epochs.ch_names.index(name) for name in names]),
        data,
        epochs.times,
        data_test,
        test_epochs.times,
        record,
        chosen.numbers,
        chosen.kept,
    )


def _choose_pair(epochs, test_epochs, y, y_test, groups, same_trials):
    """Return the `Chosen` epochs to train with and those to test on."""
    if same_trials is True and len(epochs) == len(test_epochs):
        return choose_same(epochs, test_epochs, y, y_test, groups, "test_epochs")
    chosen, whose = choose_epochs(epochs, y, groups), ("y_test", "test_epochs")
    if y_test is not None:
        return chosen, choose_epochs(test_epochs, y_test, None, *whose)
    if names_classes(y, len(epochs)) and same_trials is not True:
        return chosen, choose_classes(test_epochs, y, None, *whose)
    return chosen, Chosen(test_epochs, None)


def _record(chosen, test):
    """Return what a result records of the epochs that were chosen by their classes."""
    tested = {} if test is None else test.record
    return chosen.record | {f"{name}_test": value for name, value in tested.items()}


def _trial_sets(chosen, y_test, other, picks, record):
    """Return the trial sets of epochs, tested on others that share their channels."""
    epochs = chosen.epochs
    data = samples_first(epochs, picks)
    return TrialSets(
        chosen.y,
        chosen.groups,
        y_test,
        None if other is None else len(other),
        mne.pick_info(epochs.info, picks),
        data,
        epochs.times,
        data if other is None else samples_first(other, picks, "the tested epochs"),
        epochs.times,
        record,
        chosen.numbers,
        chosen.kept,
    )


def check_alone(name, test, y_test):
    """Refuse other data or labels to be tested where `train_on` leaves some to test."""
    if test is not None or y_test is not None:
        other = "test_epochs" if name == "epochs" else "X_test"
        part = "epochs[query]" if name == "epochs" else "X[mask] and y[mask]"
        raise ValueError(
            f"train_on splits {name} into those to train with and those to test on; it "
            f"cannot be combined with {other} or y_test. To train on a part of {name}, "
            f"pass {part}."
        )


def _gather_chosen(chosen, train_on, picks, with_folds):
    """Train with some of the epochs and test on all others, or so in every fold."""
    epochs, groups, train = chosen.epochs, chosen.groups, train_on.mask
    picks = pick_channels(epochs.info, picks)
    if with_folds:
        sets = _trial_sets(chosen, None, None, picks, chosen.record)
        return replace(sets, train_on=train_on)
    y, y_test = train_on.split_labels(chosen.y)
    if groups is not None:
        groups = check_per_trial(groups, len(epochs), "groups")[train]
    trained = Chosen(epochs[train], y, groups)
    sets = _trial_sets(trained, y_test, epochs[~train], picks, chosen.record)
    kept, kept_test = chosen.kept[train], chosen.kept[~train]
    return replace(sets, kept=kept, kept_test=kept_test, train_on=train_on)


def _common_channels(epochs, test_epochs, picks):
    """Return the names of the good channels to use, once both sets fit together."""
    rates = [float(e.info["sfreq"]) for e in (epochs, test_epochs)]
    if not np.isclose(*rates, rtol=1e-6):
        raise ValueError(
            f"epochs has {rates[0]:g} samples per second and test_epochs {rates[1]:g}. "
            "Resample one of them, e.g. with epochs.resample."
        )
    picked = [epochs.ch_names[i] for i in pick_channels(epochs.info, picks)]
    missing = [name for name in picked if name not in test_epochs.ch_names]
    if missing:
        raise ValueError(
            f"test_epochs lacks {len(missing)} of the {len(picked)} channels, e.g. "
            f"{', '.join(missing[:5])}. Name the channels that both have in picks."
        )
    names = [name for name in picked if name not in test_epochs.info["bads"]]
    if not names:
        raise ValueError(
            "No channel is good in both epochs and test_epochs: "
            f"{', '.join(picked[:5])} are bad in test_epochs."
        )
    active = [
        {str(p["desc"]) for p in e.info["projs"] if p["active"]}
        for e in (epochs, test_epochs)
    ]
    if active[0] != active[1]:
        warn(
            "Different projections have been applied to epochs and test_epochs: "
            f"{sorted(active[0] ^ active[1])} to one of them only. Apply the same with "
            "add_proj and apply_proj, or the models meet other data than they know.",
            UserWarning,
        )
    types, types_test = (
        e.get_channel_types([e.ch_names.index(name) for name in names])
        for e in (epochs, test_epochs)
    )
    for name, kind, other in zip(names, types, types_test, strict=True):
        if kind != other:
            raise ValueError(
                f"Channel {name!r} is of type {kind} in epochs and {other} in "
                "test_epochs. Set the types with set_channel_types, or leave it out of "
                "picks."
            )
    return names


def _same_kind_of_labels(test, y):
    """Return the labels of other trials, found where those to train with were."""
    test_epochs = test.epochs
    if test.y is not None:
        return test.y
    if y is None or isinstance(y, str):
        return per_epoch(test_epochs, y, "y_test", "test_epochs")
    raise ValueError(
        "test_epochs are other trials than epochs, so their labels are needed: pass "
        f"y_test, one label for each of the {len(test_epochs)} test epochs (or "
        "same_trials=True, if they are the same trials in the same order)."
    )


def _ask_if_the_same(epochs, test_epochs):
    """Ask about trials that were, by their events, cut or processed in another way."""
    here, there = epochs.events, test_epochs.events
    common = np.intersect1d(epochs.times.round(6), test_epochs.times.round(6))
    shared = set(map(tuple, here.tolist())) & set(map(tuple, there.tolist()))
    length = np.ptp(epochs.times) * epochs.info["sfreq"]
    distances = np.diff(np.sort(here[:, 0]))
    # Made-up events are often one sample apart.
    recorded = len(distances) > 0 and np.median(distances) > length / 2
    alike = 2 * len(shared) >= len(there) or _overlap(epochs, test_epochs)
    if (recorded and alike) or (len(common) == 0 and shared):
        raise ValueError(
            f"The epochs of test_epochs have {len(shared)} of the events of epochs, or "
            "overlap with them in time one by one, as if the same trials were "
            "processed differently or cut around other events. If they are the same in "
            "the same order, use same_trials=True to have them cross-validated; if "
            "these are other trials, same_trials=False. Otherwise the models might be "
            "tested on what they were trained on."
        )


def _overlap(epochs, test_epochs):
    """Tell whether test epochs overlap with epochs one by one, more or less shifted."""
    if len(epochs) != len(test_epochs):
        return False
    sfreq = epochs.info["sfreq"]
    distance = test_epochs.events[:, 0] - epochs.events[:, 0]
    (first, last), ends = (
        np.rint(each.times[[0, -1]] * sfreq) for each in (epochs, test_epochs)
    )
    start, stop = (distance[:, None] + ends).T
    overlap = (first <= stop) & (start <= last)
    # A constant shift is more likely that of another recording with the same timing.
    return bool(overlap.all() and np.ptp(distance) > 0)
