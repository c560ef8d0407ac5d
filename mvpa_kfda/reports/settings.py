"""Sentences on what a record holds, of one subject or of what many share."""

from __future__ import annotations

import re

from ..kfda.kernels import Kernel, LowRank
from ..kfda.penalties import N_OVER_SPECTRUM, Tuned, penalty_words
from ..utils.plain import is_record, known, recorded
from .citations import outside_names
from .templating import Record, all_of, written

#: What groups of trials are called where they are neither runs nor sessions.
_GROUP = re.compile(r"\bgroup(?=s?\b)")


def _recording(parameters):
    """What is recorded of recordings, with None for what is not."""
    prefix = "recordings."
    of_group = {k.removeprefix(prefix): v for k, v in parameters.items() if prefix in k}
    return Record((parameters.get("recordings") or {}) | of_group)


def recordings_of(parameters):
    """How the BIDS command made trials, as far as a record tells."""
    r = _recording(parameters)
    if r["kind"] is None:
        return ""
    cosines = [x for x in r["regressors"] or () if x.startswith("cosine")]
    return "".join(written("recordings.txt", r=r, cosines=cosines))


def named_groups(texts, parameters):
    """Texts with runs or sessions in the place of groups, but not in names."""
    record = _recording(parameters)
    noun = record.get("group", "run") if record else None
    if noun is None:
        return texts
    return [outside_names(x, lambda part: _GROUP.sub(noun, part)) for x in texts]


def model_of(parameters, has_groups=None, of_folds=False):
    """The sentences on a model.

    `has_groups` tells whether some trials are of the same group (None: unknown), and
    `of_folds` whether each fold has a matrix of its own by the trials it trains with.
    """
    if "kernel" not in parameters:
        return []
    p = Record(parameters)
    reg, of_classes = p["reg"], p["task"] != "regression"
    tuned = reg if is_tuned(p) and is_record(reg) else recorded(Tuned())
    kernels = p["kernels"] or [p["kernel"]]
    is_linear = all(map(_is_linear, kernels))
    confounds = p["confounds"]  # of groups, the number in each subject
    if not isinstance(confounds, list) or None in [one["name"] for one in confounds]:
        confounds = []
    return written(
        "model.txt",
        p=p,
        has_groups=has_groups,
        of_folds=of_folds or is_foldwise(p),
        of_classes=of_classes,
        confounds=[
            one | {"taken_as": one["taken_as"].replace("a number", "linear")}
            for one in confounds
        ],
        kernels=kernels,
        is_linear=is_linear,
        by_features=of_classes and is_linear,
        tuned=tuned if is_tuned(p) else None,
        n_grid=N_OVER_SPECTRUM,
        penalty=None if reg in (None, "auto") or is_tuned(p) else penalty_words(reg),
    )


def is_tuned(p):
    """Whether a penalty was chosen in each training set."""
    reg = p.get("reg")
    if reg == "auto" and p.get("task") == "regression":
        return True
    return is_record(reg) and reg["name"] == "Tuned"


def _is_linear(kernel):
    """Whether a kernel as it is recorded is linear, or approximates one."""
    if kernel["name"] == LowRank.__name__:
        return _is_linear(kernel["kernel"])
    return (known(kernel, Kernel) or Kernel).is_linear


def is_foldwise(p):
    """Whether each fold has a matrix of its own, as far as parameters tell."""
    of_some = p.get("train_on") is not None or p.get("average_test") is False
    return of_some or bool(p.get("preprocess") or any(all_of(p.get("n_confounds"))))
