"""Which epochs are decoded as which class: chosen by events and tags, or all of them.

Names of events are matched as MNE-Python does in ``epochs["face"]``: parts between
slashes are tags, and a name stands for all events that have its tags in any order.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import mne
import numpy as np
from numpy.typing import ArrayLike

from ..utils.checks import check_per_trial, quoted
from .epochs import per_epoch

#: How users say what class an epoch is of.
EpochLabels = ArrayLike | Mapping[str, str | Sequence[str]] | None

#: Events and tags that a message lists.
_LISTED = 20


@dataclass(frozen=True, eq=False)
class Chosen:
    """The epochs that are decoded, and what is known of each."""

    epochs: object  #: mne.Epochs or EpochsTFR, a part of those given or all
    y: object  #: one label for each, as given or by its event
    groups: object = None  #: the group of each, or None
    #: Events by class, and which epochs they are; empty where all are decoded.
    record: dict = field(default_factory=dict)

    @property
    def kept(self):
        """Which of the given epochs these are, (n,)."""
        return self.record.get("selected", np.arange(len(self.epochs)))

    @property
    def numbers(self):
        """Their numbers in the order of recording (n,), None if not known.

        Those of the events, of which some were dropped, if events are in order; they
        may have been put together by condition.
        """
        numbers, samples = self.epochs.selection, self.epochs.events[:, 0]
        steps, distances = np.diff(numbers), np.diff(samples)
        # Epochs made from an array are evenly spaced, in whatever order the rows are.
        if (distances * steps[:1] == steps * distances[:1]).all():
            return None
        if (np.diff(samples[np.argsort(numbers)]) > 0).all():
            return numbers
        group = np.zeros(len(samples), int)
        if self.groups is not None:
            group = np.unique(self.groups, return_inverse=True)[1].reshape(-1)
        order = _in_time(samples, group)
        if order is None or (np.diff(numbers[order]) > 0).all():
            return None if order is None else numbers
        return np.argsort(order)

    def narrow(self, kept, name="y"):
        """Return the part of these epochs that is also in `kept`, as indices (m,)."""
        at = np.flatnonzero(np.isin(self.kept, kept))
        if len(at) == len(self.epochs):
            return self
        n = len(self.epochs)
        y = None if self.y is None else check_per_trial(self.y, n, name)[at]
        groups = self.groups
        if groups is not None:
            groups = check_per_trial(groups, n, "groups")[at]
        record = {**self.record, "selected": self.kept[at]}
        return Chosen(self.epochs[at], y, groups, record)


def _in_time(samples, group):
    """Return the order (n,) of samples within groups, one group after the other.

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
    """Tell whether labels are given by the names of events: no one label per epoch."""
    if isinstance(y, Mapping):
        return True
    # As many labels as epochs are labels; as classes they would have an epoch each.
    texts = isinstance(y, list | tuple) and all(isinstance(each, str) for each in y)
    return texts and len(y) != n_epochs


def choose_epochs(epochs, y, groups=None, name="y", owner="epochs"):
    """Return the `Chosen` of checked epochs, by labels or by names of classes."""
    groups = per_epoch(epochs, groups, "groups", owner)
    if names_classes(y, len(epochs)):
        return choose_classes(epochs, y, groups, name, owner)
    return Chosen(epochs, per_epoch(epochs, y, name, owner), groups)


def choose_classes(epochs, y, groups=None, name="y", owner="epochs"):
    """Return the `Chosen` epochs of some classes; all others are left out."""
    labels, events = classes_of(epochs, y, name, owner)
    chosen = Chosen(epochs, labels, groups).narrow(np.flatnonzero(labels != ""), name)
    return replace(chosen, record={"classes": events, "selected": chosen.kept})


def choose_same(epochs, test_epochs, y, y_test, groups, owner):
    """Return two `Chosen` with the same epochs, one by one, those of two labellings."""
    train = choose_epochs(epochs, y, groups)
    test = Chosen(test_epochs, None)
    if y_test is not None:
        test = choose_epochs(test_epochs, y_test, name="y_test", owner=owner)
    both = np.intersect1d(train.kept, test.kept)
    if len(both) == 0:
        raise ValueError(
            "y and y_test name classes that have no epoch in common, and are to be two "
            "labellings of the same epochs. To train on some and test on others, pass "
            "test_epochs=epochs."
        )
    train, test = train.narrow(both), test.narrow(both, "y_test")
    for chosen, name in ((train, "y"), (test, "y_test")):
        classes = chosen.record.get("classes", ())
        gone = set(classes) - set(chosen.y.tolist()) if classes else ()
        if gone:
            raise ValueError(
                f"{name} names the class {min(gone)!r}, but its epochs have no class "
                "in the other of y and y_test. Leave the class out."
            )
    return train, test


def classes_of(epochs, given, name="y", owner="epochs"):
    """Return the class of every epoch (n,), "" for none, and the events by class."""
    names = _named(given, len(epochs), name)
    events = {
        label: _match(epochs.event_id, texts, len(epochs), name, owner)
        for label, texts in names.items()
    }
    labels = np.full(len(epochs), "", dtype=f"<U{max(map(len, names))}")
    codes = epochs.events[:, 2]
    for label, matched in events.items():
        own = np.isin(codes, [epochs.event_id[event] for event in matched])
        if not own.any():
            raise ValueError(
                f"{name} names the class {label!r}, but {owner} has no epoch of its "
                f"events {quoted(matched, _LISTED)}. {owner}.drop_log tells why epochs "
                "were dropped; else leave the class out."
            )
        twice = np.flatnonzero(own & (labels != ""))
        if len(twice):
            event = next(e for e in matched if epochs.event_id[e] == codes[twice[0]])
            raise ValueError(
                f"{name} names the event {event!r} in two classes, "
                f"{str(labels[twice[0]])!r} and {label!r}. Use separate tags or events "
                "for each class."
            )
        labels[own] = label
    return labels, events


def _named(given, n_epochs, name):
    """Return the texts that stand for each class, by its name; two or more."""
    if isinstance(given, Mapping):
        names = {}
        for label, texts in given.items():
            names[label.strip()] = _texts(label, texts, name)
        if len(names) < len(given):
            raise ValueError(
                f"{name} names {len(given)} classes, of which some have the same name "
                "but for blanks. Put the events of a class together."
            )
    else:
        given = [label.strip() for label in given]
        names = {label: [label] for label in given}
        if len(names) < len(given):
            twice = next(label for label in given if given.count(label) > 1)
            raise ValueError(
                f"{name} names {twice!r} twice among {len(given)} names, for "
                f"{n_epochs} epochs. Name each class once, or pass one label for each "
                "epoch."
            )
    if len(names) < 2:
        raise ValueError(
            f"{name} names {len(names)} class{'es' * (not names)}; decoding needs two "
            "or more. Name the tags or events of each."
        )
    return names


def _texts(label, texts, name):
    """Return the tags or events of a class of a dict as a list."""
    texts = [texts] if isinstance(texts, str) else texts
    right = isinstance(texts, list | tuple) and all(isinstance(t, str) for t in texts)
    if not right or not texts or not isinstance(label, str) or not label.strip():
        raise TypeError(
            f"{name} names classes by a dict of name -> tag or event, or a list of "
            f"these; got {label!r}: {texts!r}. For example: "
            "{'animate': ['face', 'body'], 'inanimate': 'house'}."
        )
    return list(texts)


def _match(event_id, texts, n_epochs, name, owner):
    """Return the events that have the tags of any of some texts, in their order."""
    found = []
    trimmed = {event: event.strip() for event in event_id}
    for text in texts:
        matched = mne.event.match_event_names(
            list(trimmed.values()), text.strip(), on_missing="ignore"
        )
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
