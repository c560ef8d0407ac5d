"""Sentences on what subjects of a group have in common, and in what they differ."""

from __future__ import annotations

from ..utils.checks import counted, enumerated, plural, ranged, some_of, times_words
from ..utils.rounding import number
from .citations import name
from .model import model_of, windows_of
from .recordings import named_groups, recordings_of
from .words import SETTING_WORDS, channels_words, features_of_channels, splitter_words


def first_level_of(result):
    """Say how all subjects were analysed, as far as they were alike."""
    shared = result.parameters.get("first_level") or {}
    sentences = []
    if "n_trials" in shared:
        trials = ranged(shared["n_trials"], "trial")
        classes = shared.get("class_names", ())
        of = f" of the classes {enumerated(map(name, classes))}" if len(classes) else ""
        groups = shared.get("n_groups")
        runs = f" that were in {ranged(groups, 'group')}" if groups else ""
        sentences.append(f"Each subject's scores were those of {trials}{of}{runs}.")
    sentences += [*recordings_of(shared), *_features(shared, result.places)]
    sentences += model_of(shared, shared.get("groups"))
    if shared.get("cv"):
        words = _shared_folds(shared["cv"], shared.get("n_folds"))
        sentences.append(f"Each subject's scores were estimated by {words}.")
    return named_groups(sentences, shared)


def _features(shared, places):
    """Say what all subjects' trials consisted of, and how they were prepared."""
    sentences = []
    names, ending = shared.get("ch_names"), ".n_channels"
    n = shared.get("n_channels", [len(names)] if names else None)
    if n is not None:
        by_type = {
            field.removesuffix(ending): numbers
            for field, numbers in shared.items()
            if field.endswith(ending)
        }
        channels = channels_words(n, by_type)
        features = features_of_channels(places.axes.values(), channels)
        sentences.append(f"Features were {features}.")
    elif shared.get("n_features"):
        features = counted(shared["n_features"], "feature")
        sentences.append(f"Each trial had {features}.")
    sentences += windows_of(shared) if "window" in shared else []
    if shared.get("radius") is not None:
        sentences.append(_searchlight(shared, places))
    if shared.get("standardize"):
        sentences.append(
            "Values of each feature were z-scored, without using the labels."
        )
    return [*sentences, *_averages(shared)]


def _searchlight(shared, places):
    """Say what was decoded together around each position."""
    radius, unit = number(shared["radius"]), "mm"
    if shared.get("distance") == "edges":
        unit = plural("edge", shared["radius"])
    along = " along the surface" if shared.get("distance") == "geodesic" else ""
    noun = "sources" if places.geometry is None else plural(places.geometry.noun)
    return (
        f"Searchlights [@Kriegeskorte2006] comprised all {noun} within {radius} "
        f"{unit}{along}."
    )


def _averages(shared):
    """Say what was done to trials before they were decoded, and how often."""
    sentences = []
    if (k := shared.get("average")) not in (None, 1):
        words = f"Averages of {k} trials were decoded."
        if not shared.get("average_test", True):
            words = f"Models were trained on averages of {k} trials and tested on"
            words += " single trials."
        sentences.append(words)
    if shared.get("equalize"):
        sentences.append(
            "Numbers of samples were equalised across classes by leaving out samples "
            "of the larger classes at random."
        )
    if (r := shared.get("n_repeats") or 1) > 1:
        sentences.append(
            f"The procedure was run {times_words(r)}, and the scores were averaged."
        )
    if shared.get("train_on"):
        sentences.append(
            f"Models were trained on selected trials ({name(shared['train_on'])}) and "
            "tested on the others."
        )
    return sentences


def _worded_field(field):
    """Word a field of the record, also of one that holds fields of its own."""
    first = field.partition(".")[0]
    return SETTING_WORDS.get(field) or SETTING_WORDS.get(first) or name(field)


def differing(result):
    """Say which subjects were analysed otherwise than the first, and in what."""
    found = dict(result.parameters.get("first_level_differences") or {})
    sentences = []
    for apart, names in found.pop("times", {}).items():
        sentences.append(
            f"Times of {some_of([*map(name, names)])} differed from those of the first "
            f"subject, {apart}, by less than half a sample."
        )
    if found:
        parts = []
        for field, values in found.items():
            names = [name(each) for who in values.values() for each in who]
            parts.append(f"{_worded_field(field)} ({some_of(names)})")
        sentences.append(
            f"Some subjects were analysed differently from the first, in "
            f"{enumerated(parts)}."
        )
    return sentences


def _shared_folds(recorded, n_folds):
    """Word the folds of all subjects, and how many there are if that tells more."""
    words = splitter_words(recorded, n_folds)
    if n_folds is None or f"{max(n_folds)}" in words:
        return words
    return f"{words} ({ranged(n_folds, 'fold')})"
