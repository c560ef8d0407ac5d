"""Everything that has a name in the package has words of its own."""

import inspect
from functools import partial

import numpy as np
import sklearn.model_selection as ms

from mvpa_kfda import DegreesOfFreedom, Ridge, Shrinkage
from mvpa_kfda.group.latency import ONSETS
from mvpa_kfda.group.second_level import METHODS as GROUP_METHODS
from mvpa_kfda.inference.corrections import NAMED as ALL_CORRECTIONS
from mvpa_kfda.inference.permutation import SCHEMES
from mvpa_kfda.kfda import kernels, penalties
from mvpa_kfda.kfda.folds import GIVEN, PARTS, SPLITTERS
from mvpa_kfda.kfda.penalties import penalty_words
from mvpa_kfda.kfda.preprocess import STEPS
from mvpa_kfda.metrics.scores import METRICS
from mvpa_kfda.reports.citations import REFERENCES, cited_in
from mvpa_kfda.reports.summary import HEADINGS
from mvpa_kfda.reports.templating import macro
from mvpa_kfda.reports.vocabulary import (
    channels_words,
    metric_words,
    splitter_words,
)
from mvpa_kfda.results.fields import RESULTS
from mvpa_kfda.utils.axes import AXES
from mvpa_kfda.utils.plain import recorded

# ------------------------------------------------------------ words for all there is


def classes_of(module, base):
    """Return the names of the classes of a module that are of a kind."""
    found = inspect.getmembers(module, inspect.isclass)
    return {name for name, kind in found if issubclass(kind, base) and kind is not base}


INNER_KERNELS = "Kernel", "ScaledKernel", "KernelMap", "InnerProducts", "AveragedKernel"
#: A rule of every class.
RULES = Ridge(0.1), Shrinkage(0.1), DegreesOfFreedom(3)
#: Class of a kernel -> how one is recorded.
RECORDED = {
    type(each).__name__: recorded(each)
    for each in (
        *(kernels.Linear(), kernels.RBF(), kernels.Polynomial()),
        *(kernels.Precomputed(), kernels.Callable(len), kernels.EmpiricalMap()),
        kernels.approximated(kernels.RBF(), kernels.Nystrom(5)),
        *(kernels.Penalty(np.eye(2)), kernels.GraphSmooth(1 - np.eye(2))),
    )
}


def named_entries():
    """Map everything that has a name to its words."""
    words, written = {}, partial(macro, "kernels.txt")
    for name in classes_of(kernels, kernels.Kernel):
        # Inside only: results record the linear kernel that it stands for.
        if name not in INNER_KERNELS:
            words[name] = written("kernel")(RECORDED[name])
    for rule in (*RULES, *penalties.ESTIMATED):
        words[str(rule)] = penalty_words(recorded(rule))
    for name, step in STEPS.items():
        words[name] = written("step")(recorded(step))
    words |= {name: each.words for name, each in ALL_CORRECTIONS.items()}
    words |= {f"group {name}": each.words for name, each in GROUP_METHODS.items()}
    words |= {f"onset {name}": each for name, each in ONSETS.items()}
    words |= {f"{name} of schemes": each.words for name, each in SCHEMES.items()}
    for each in kernels.SAMPLING:
        approximated = kernels.approximated(kernels.Linear(), kernels.Nystrom(5, each))
        words[each] = written("kernel")(recorded(approximated))
    return words


def test_everything_that_has_a_name_has_words_of_its_own():
    words = named_entries()
    assert all(words.values())
    for correction in ALL_CORRECTIONS.values():
        assert correction.label
        assert correction.tag
    for method in GROUP_METHODS.values():
        assert bool(method.words_of_two) != method.by_labels
    assert len({*words.values()}) == len(words)
    assert not [text for text in words.values() if "custom kernel" == text]
    assert {key for text in words.values() for key in cited_in(text)} <= {*REFERENCES}
    rules = {type(each).__name__ for each in RULES}
    # "auto" is worded with the trials that set it, and a bound with the test it is for.
    assert rules | {"Auto", "AtMost"} == classes_of(penalties, penalties._Rule)
    axes = [getattr(kind, "axes", None) for kind in RESULTS.values()]
    names = {name for of in axes if isinstance(of, dict) for name in of}
    assert names - {"positions"} == set(AXES)
    assert set(HEADINGS) == set(RESULTS)


# ------------------------------------------------------------------ folds and metrics


def test_splitters_of_scikit_learn_have_words():
    split = {name for name in ms.__all__ if hasattr(getattr(ms, name), "split")}
    abstract = {name for name in split if name.startswith("Base")}
    assert split - abstract == set(SPLITTERS) - {GIVEN, PARTS}
    for given in (
        *(ms.KFold(3), ms.GroupKFold(3), ms.StratifiedGroupKFold(3), ms.LeavePOut(2)),
        *(ms.LeavePGroupsOut(1), ms.ShuffleSplit(3), ms.GroupShuffleSplit(3)),
        *(ms.TimeSeriesSplit(3), ms.PredefinedSplit([0, 1, 2]), ms.RepeatedKFold()),
    ):
        words = splitter_words(recorded(given), 20)
        assert words
        assert "=" not in words
    assert splitter_words("Own").startswith("cross-validation with the splitter")


def test_numbers_of_folds_and_what_is_shuffled_are_named():
    how = {"shuffle": True, "random_state": 0}
    for splitter, numbers, words in (
        (ms.KFold(), [4, 6], "cross-validation in 4 to 6 contiguous folds"),
        (ms.KFold(7), None, "cross-validation in 7 contiguous folds"),
        (ms.StratifiedKFold(), [4, 6], "stratified 4- to 6-fold cross-validation"),
        (ms.LeaveOneGroupOut(), None, "leave-one-group-out cross-validation"),
        (ms.RepeatedKFold(n_repeats=2), [8, 10], "4- to 5-fold cross-validation, rep"),
        (ms.GroupShuffleSplit(), [3, 4], "3 to 4 random splits of groups"),
        (ms.KFold(3, **how), 3, "3-fold cross-validation, trials in random order"),
    ):
        assert splitter_words(recorded(splitter), numbers).startswith(words)
    in_order, shuffled = (
        splitter_words(recorded(ms.StratifiedGroupKFold(3, **more)), 3)
        for more in ({}, how)
    )
    assert in_order.endswith("intact")
    assert shuffled.endswith("intact, groups in random order")
    unknown = {"name": "KFold", "shuffle": False}
    assert splitter_words(unknown) == "cross-validation in contiguous folds"
    kept = splitter_words({"name": "GroupKFold"})
    assert kept.startswith("k-fold cross-validation with")
    assert splitter_words({"name": "ShuffleSplit"}) == "random splits"


def test_metrics_and_channels_have_words():
    for metric, entry in METRICS.items():
        long, short = metric_words(metric)
        assert entry.label in (long, short) or (entry.words, entry.short) == (
            long,
            short,
        )
    assert "custom metric" in metric_words("mine")[1]
    assert metric_words("mine")[0].startswith("the custom metric")
    two = {"eeg": [2, 3], "mag": [1, 1]}
    assert channels_words([3, 4], two) == (
        "3 to 4 channels (2 to 3 EEG channels and 1 magnetometer)"
    )
    assert channels_words([2, 3], {"eeg": [2, 3]}) == "2 to 3 EEG channels"
    assert channels_words([5, 4], two) == "4 to 5 channels"  # of which some have others
