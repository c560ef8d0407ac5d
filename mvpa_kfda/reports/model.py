"""Sentences on the model and its cross-validation."""

from __future__ import annotations

import numpy as np

from ..kfda.kernels import Kernel, kernel_words
from ..kfda.penalties import Tuned, penalty_words
from ..kfda.preprocess import step_words
from ..kfda.rowmaps import LowRank
from ..utils.checks import capital, counted, enumerated, ranged
from ..utils.plain import is_record, known, recorded
from ..utils.rounding import number
from .citations import name
from .words import auto_words, splitter_words, tuning_words


def model_of(parameters, has_groups=None, of_folds=False):
    """Say what a model was, of the parameters that a result records.

    `has_groups` tells whether some trials are of the same group (None: unknown), and
    `of_folds` whether each fold has a matrix of its own by the trials it trains with.
    """
    if "kernel" not in parameters:
        return []
    return [
        *_steps(parameters),
        *_classifier(parameters),
        *_penalty(parameters, has_groups, of_folds or _is_foldwise(parameters)),
    ]


def _classifier(p):
    """Name the model and its kernel."""
    what = (
        "Classes were discriminated using kernel Fisher discriminant analysis "
        "[@Mika1999]"
    )
    if p.get("task") == "regression":
        what = "Values were predicted using kernel ridge regression"
    if p["kernel"]["name"] == "KernelChoice":  # the penalty's sentence names them
        return [f"{what}."]
    sentences = [f"{what} with {kernel_words(p['kernel'])}."]
    if p.get("n_components"):
        n = counted(p["n_components"], "discriminant")
        first = "the first of the discriminants"
        n = first if p["n_components"] == 1 else f"the first {n}"
        sentences.append(f"Only {n} {'was' if n == first else 'were'} used.")
    return sentences


def _penalty(p, has_groups, of_folds):
    """Say how the model was regularised."""
    if "reg" not in p:
        return []
    trials = "all trials that were used for training in any fold"
    if of_folds:
        trials = "the trials of each training set"
    elif "cv" in p and p["cv"] is None:
        trials = "the training trials"
    tuned, of_classes = _tuned(p), p.get("task") != "regression"
    kernels = p.get("kernels") or [p["kernel"]]
    are_linear = all(map(_is_linear, kernels))
    if tuned:
        by_features = of_classes and are_linear
        if not by_features and not of_folds:
            trials = "all trials"
        return [
            tuning_words(tuned, kernels, has_groups, trials, of_classes, are_linear)
        ]
    if p["reg"] == "auto":
        return [auto_words(trials, has_groups, are_linear)]
    return [f"Models were regularised with {penalty_words(p['reg'])}."]


def _tuned(p):
    """Return the record of a penalty that is tuned; None of any other."""
    reg = p.get("reg")
    if reg == "auto" and p.get("task") == "regression":
        return recorded(Tuned())
    return reg if is_record(reg) and reg["name"] == "Tuned" else None


def _is_linear(kernel):
    """Tell whether a kernel as it is recorded is linear, or approximates one."""
    if kernel["name"] == LowRank.__name__:
        return _is_linear(kernel["kernel"])
    return (known(kernel, Kernel) or Kernel).is_linear


def _is_foldwise(p):
    """Tell whether each fold has a matrix of its own, as far as parameters tell."""
    of_some = p.get("train_on") is not None or p.get("average_test") is False
    return of_some or bool(p.get("preprocess") or np.any(p.get("n_confounds") or 0))


def _worded_step(recorded):
    """Word a step, that of a user by its name."""
    kind = recorded["name"] if is_record(recorded) else recorded
    return step_words(recorded) or f"the transformer {name(kind)}"


def _steps(p):
    """Say what every fold learned from its training trials before the model."""
    sentences, of, tested = [], "the training trials of each fold", "its test trials"
    if "cv" in p and p["cv"] is None:
        of, tested = "the training trials", "the test trials"
    if np.any(p.get("n_confounds") or 0):
        sentences.append(
            f"The {_confounds(p)} removed from the features by linear regression, with "
            f"coefficients estimated on {of} [@Snoek2019]."
        )
    if p.get("preprocess"):
        steps = list(map(_worded_step, p["preprocess"]))
        were = "was" if len(steps) == 1 else "were"
        sentences.append(
            f"{capital(enumerated(steps))} {were} fitted to {of} and applied to "
            f"{tested}."
        )
    return sentences


def _confounds(p):
    """Word the confounds: by name and how they were taken, where they had names."""
    each = p.get("confounds")  # groups know how many, of each subject
    if not isinstance(each, list) or None in [one["name"] for one in each]:
        n = ranged(np.atleast_1d(p["n_confounds"]), "confound regressor")
        return f"effect of {n} was"
    kinds = {"a number": "linear"}
    words = [
        f"{one['name']} ({kinds.get(one['taken_as'], one['taken_as'])})" for one in each
    ]
    s, were = ("", "was") if len(words) == 1 else ("s", "were")
    return f"effect{s} of {enumerated(words)} {were}"


def windows_of(p):
    """Say how samples were averaged or joined in windows; nothing for single ones."""
    width, step, sfreq = (p.get(key) for key in ("window", "step", "sfreq"))
    if None in (width, step, sfreq):
        return []
    rate = []
    if sfreq != 1:  # what arrays have unless it is given
        rate = [f"The sampling rate was {number(sfreq)} Hz."]
    if round(width * sfreq) <= 1:
        if round(step * sfreq) <= 1:
            return rate
        return [*rate, f"Single samples were decoded, {number(step)} s apart."]
    how = (
        "All samples within each sliding window were concatenated into one feature "
        "vector"
    )
    if p.get("window_mode") == "mean":
        how = "Samples were averaged within sliding windows"
    words = f"{how} (window length {number(width)} s, step {number(step)} s)."
    return [*rate, words]


def sample_noun(result):
    """Return what is trained with: trials, or averages of several."""
    averaged = result.members is not None and np.shape(result.members)[1] > 1
    return "pseudo-trial" if averaged else "trial"


def folds_of(result):
    """Say how trials were parted into training and test sets."""
    p = result.parameters
    if result.tests_other_trials or ("cv" in p and p["cv"] is None):
        return ["One model was trained on all trials of the training set."]
    if "cv" not in p:
        return []
    n_folds = len(result.tests) // result.n_repeats
    folds = result.folds[:n_folds]
    trains = ranged([len(train) for train, _ in folds], "training trial")
    tests = ranged([len(test) for _, test in folds], "test trial")
    noun = sample_noun(result)
    trains, tests = (each.replace("trial", noun) for each in (trains, tests))
    words = splitter_words(p["cv"], n_folds)
    sizes = f"{counted(n_folds, 'fold')}, each with {trains} and {tests}"
    if n_folds == 1:
        sizes = f"{trains} and {tests}"
    groups = ""
    if result.groups is not None:
        n = len(np.unique(result.groups))
        groups = f"; trials were in {counted(n, 'group')}"
    sentences = [f"Performance was estimated by {words} ({sizes}{groups})."]
    if p.get("train_on"):
        sentences.append(
            "In each fold, models were trained on the selected trials of the training "
            "set and tested on the remaining trials of the test set."
        )
        if p["train_on"] != "mask":
            sentences.append(
                f"Trials with {name(p['train_on'])} were selected for training."
            )
    if result.trains is None and not _is_foldwise(p):
        sentences.append(_closed_form(result))
    return sentences


def _closed_form(result):
    """Say how predictions follow without training a model for each fold."""
    p = result.parameters
    if _tuned(p):
        again = ", again for each permutation," if result.has_p else ""
        return (
            f"Given the penalty selected in each training set{again} out-of-sample "
            "predictions were computed in closed form, from matrix decompositions that "
            "do not depend on the labels."
        )
    by = "[@Treder2018; @Cawley2003]"
    if p.get("task") == "regression":
        by = "[@Pahikkala2006]"
    return (
        "Out-of-sample predictions of all folds were computed in closed form, without "
        f"retraining {by}."
    )
