"""What was asked and what was found, in a sentence each, for every kind of result.

A new kind of result gets a question in `question.txt`, an answer in `word_answer`, and
a heading in HEADINGS.
"""

from collections.abc import Mapping, Sequence
from os import PathLike

import numpy as np

from ..results.base import Result, SubjectResult
from ..results.fields import RESULTS
from ..results.finding import Finding
from ..results.group import ComparisonResult, TestedMap
from ..results.latency import Latency
from ..utils.checks import capital, counted
from ..utils.rounding import rounded
from ..viz.style import (
    DEFAULT_NAMES,
    names_of_two,
    score_in_text,
)
from .templating import written

#: Class of a result -> what its analysis is called.
HEADINGS = {
    "DecodingResult": "Decoding",
    "RegressionResult": "Regression",
    "TimeResult": "Decoding over time",
    "TimeRegressionResult": "Regression over time",
    "TimeFrequencyResult": "Decoding over frequencies and time",
    "SensorTimeResult": "Decoding over sensors and time",
    "SourceResult": "Decoding of sources over time",
    "SourceTimeResult": "Decoding over sources and time",
    "GeneralizationResult": "Time generalization",
    "VolumeResult": "Decoding over the brain",
    "GroupResult": "Group analysis",
    "ComparisonResult": "Comparison",
    "Latency": "Latency",
}


def heading(result):
    """What the analysis of a result is called."""
    words = HEADINGS[type(result).__name__]
    if isinstance(result, SubjectResult) and not len(result.classes):
        return words.replace("Decoding", "Regression")
    return words


def by_name(results, function):
    """The results by name; what are none is refused."""
    if isinstance(results, Result):
        results = [results]
    if isinstance(results, (str, PathLike)):
        raise TypeError(
            f"{str(results)!r} is a path; read the result first: "
            f"{function}(load_result(path))."
        )
    if not isinstance(results, (Mapping, Sequence)):
        raise TypeError(
            f"{function}() takes a result, a list of results, or a dict of them by "
            f"name; got {type(results).__name__}."
        )
    if not isinstance(results, Mapping):
        results = {f"Result {i + 1}": each for i, each in enumerate(results)}
    if not results:
        raise ValueError("There are no results; pass one or more.")
    for name, result in results.items():
        if not isinstance(name, str) or not name.strip():
            raise TypeError(f"A result's name must be text; got {name!r}.")
        if type(result).__name__ not in RESULTS:
            raise TypeError(
                f"{name} is no result but of type {type(result).__name__}. Allowed: "
                "what the functions of this package return, or load_result reads."
            )
    return dict(results)


def has_scores(result):
    """Whether some position of a map has a score."""
    names = result.scalar_metrics[:1]
    return any(np.isfinite(result.metrics[name]).any() for name in names)


def corrections_of(result, asked=None):
    """The corrections whose p-values are shown of a result, the first one first.

    Those that a group was tested with; of a subject those that are asked for, a list,
    and none of a result without p-values.
    """
    if not result.has_p or not result.scalar_metrics:
        return ()
    is_single = result.places.n_positions == 1
    if not result.axes or (is_single and isinstance(result, SubjectResult)):
        return ("none",)
    tested = result.correction if isinstance(result, TestedMap) else None
    return tested or asked or (result.default_correction,)


def two_names(result):
    """What the two sides of a difference are called; nothing of a single list."""
    if isinstance(result, ComparisonResult):
        return names_of_two(result)
    if isinstance(result, Latency):
        default = tuple(result.labels or ()) == DEFAULT_NAMES
        return [f"the {each}" if default else each for each in result.labels or ()]
    return names_of_two(result) if result.is_difference else ()


def word_question(result):
    """What an analysis asked."""
    at, words = "", {}
    if isinstance(result, SubjectResult):
        kind, details = "subject", [result.worded_trials()]
        words = {"classes": [*map(str, result.classes)]}
        if not result.tests_other_trials:
            n = counted(result.n_permutations, "permutation", ",")
            details += [*result.worded_folds(), n]
    else:
        words = {"label": score_in_text(result), "names": two_names(result)}
        kind = "comparison" if isinstance(result, ComparisonResult) else "group"
        if isinstance(result, Latency):
            kind, details = "latency", [counted(result.n_subjects, "subject")]
        else:
            details = result.title_parts()
    if kind != "latency" and result.axes:
        where = result.places.describe().replace(" x ", " by ")
        at = f" {'in' if result.places.noun(1) == 'region' else 'at'} {where}"
        if result.places.n_positions == 1:
            at = f" {result.places.at(0)}"
    words |= {"result": result, "kind": kind, "at": at, "details": ", ".join(details)}
    return "".join(written("question.txt", **words))


# ------------------------------------------------------------------ what was found


def word_answer(result, correction=None):
    """What an analysis found, with p-values under a correction."""
    if isinstance(result, Latency):
        return _answer_of_latency(result)
    if not result.scalar_metrics:
        return "The metrics are tables, which have no maximum and no p-value."
    found = Finding(result, correction)
    if not found.has_scores:
        return "Nothing could be decoded."
    words = f"The {found.worded(found.label)} is {found.best}; {found.test}"
    if result.is_prevalence:
        if np.isnan(result.gamma_0).all():
            return f"{words}; no lower bound on the prevalence could be established."
        where = " somewhere" if result.axes else ""
        share = int(100 * np.nanmax(result.gamma_0))  # rounded down: it is a bound
        words += f"; more than {share} % of the population have an effect{where}"
    return f"{words}."


def _answer_of_latency(result):
    """When onset and peak were, or by how much they are apart."""
    words = []
    for which in ("onset", "peak"):
        time, interval = result.when(which)
        low, high = map(rounded, interval)
        share = f"{100 * result.confidence:g} % interval {low} to {high} s"
        if np.isnan(time):
            words.append(f"there is no {which}")
        elif result.parts:
            apart = rounded(time, sign="+")
            words.append(f"the {which}s are {apart} s apart ({share})")
        else:
            words.append(f"the {which} is at {rounded(time)} s ({share})")
    return f"{capital(' and '.join(words))}."
