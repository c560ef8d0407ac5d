"""What was asked and what was found, in a sentence each, for every kind of result.

A new kind of result registers its sentences with `word_question` and `word_answer`, and
gets its heading in HEADINGS.
"""

from collections.abc import Mapping, Sequence
from functools import singledispatch
from os import PathLike

import numpy as np

from ..metrics.names import metric_in_text
from ..results.base import Result, ScoreMap, SubjectResult
from ..results.comparison import ComparisonResult
from ..results.fields import RESULTS
from ..results.finding import Finding
from ..results.group import GroupResult, TestedMap
from ..results.latency import Latency
from ..utils.checks import capital, counted, enumerated
from ..viz.style import (
    DEFAULT_NAMES,
    names_of_two,
    score_in_text,
)

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

#: Classes are named up to so many.
_MOST_NAMES = 8


def heading(result):
    """Return what the analysis of a result is called."""
    return HEADINGS[type(result).__name__]


def by_name(results, function):
    """Return the results by name, or refuse what are none."""
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
    """Tell whether some position of a map has a score."""
    names = result.scalar_metrics[:1]
    return any(np.isfinite(result.metrics[name]).any() for name in names)


def corrections_of(result, asked=None):
    """Return the corrections whose p-values are shown of a result, the first one first.

    Those that a group was tested with; of a subject those that are asked for, a list,
    and none of a result without p-values.
    """
    if not result.has_p or not result.scalar_metrics:
        return ()
    if not result.axes:
        return ("none",)
    own = result.correction if isinstance(result, TestedMap) else None
    return own or asked or (result.default_correction,)


# ------------------------------------------------------------------ what was asked


@singledispatch
def word_question(result):
    """Word what an analysis asked."""
    raise TypeError(f"There is no question for a {type(result).__name__}.")


@word_question.register
def _(result: SubjectResult):
    details = ", ".join([result.worded_trials(), *_folds(result)])
    if [*result.axes] == ["train_times", "test_times"]:
        what = (
            f"Does a classifier of {_classes(result)} trained at one time generalize "
            "to others"
        )
        return f"{what}, over {_where(result)}? ({capital(details)}.)"
    if len(result.classes):
        what = f"Can {_classes(result)} be discriminated"
    else:
        low, high = np.min(result.y), np.max(result.y)
        what = f"Can values from {low:.3g} to {high:.3g} be predicted"
    return f"{what}{_at(result)}? ({capital(details)}.)"


@word_question.register
def _(result: GroupResult):
    label, details = score_in_text(result), ", ".join(result.title_parts())
    if result.is_difference:
        first, second = names_of_two(result)
        verb = {"greater": "higher in", "less": "lower in"}.get(result.alternative)
        what = f"Is mean {label} {verb} {first} than {second}"
        if verb is None:
            what = f"Does mean {label} differ between {first} and {second}"
    elif result.method == "prevalence":
        level = result.worded_level
        what = f"Does anyone in the population have {label} above {level}{_at(result)}"
        return f"{what}, and how many people do? ({details}.)"
    else:
        side = {"greater": "above", "less": "below"}.get(result.alternative, "unlike")
        what = f"Is mean {label} over the population {side} {result.worded_level}"
    return f"{what}{_at(result)}? ({details}.)"


@word_question.register
def _(result: ComparisonResult):
    label, details = score_in_text(result), ", ".join(result.title_parts())
    a, b = names_of_two(result)
    verb = {"greater": "higher", "less": "lower"}.get(result.alternative)
    what = f"Is {label} of {a} {verb} than of {b}" if verb else ""
    what = what or f"Does {label} differ between {a} and {b}"
    return f"{what}{_at(result)}? ({details}.)"


@word_question.register
def _(result: Latency):
    label, n = metric_in_text(result.metric), result.n_subjects
    if result.parts:
        names = [f"the {each}" for each in result.labels]
        if tuple(result.labels) != DEFAULT_NAMES:
            names = result.labels
        return (
            f"By how much do onset and peak of mean {label} differ between "
            f"{' and '.join(names)}? ({counted(n, 'subject')}.)"
        )
    return f"When does mean {label} rise, and when does it peak? " + (
        f"({counted(n, 'subject')}.)"
    )


# ------------------------------------------------------------------ what was found


@singledispatch
def word_answer(result, correction=None):
    """Word what an analysis found, with p-values under a correction."""
    raise TypeError(f"There is no answer for a {type(result).__name__}.")


@word_answer.register
def _(result: ScoreMap, correction=None):
    if not result.scalar_metrics:
        return "The metrics are tables, which have no maximum and no p-value."
    found = Finding(result, correction)
    if not found.has_scores:
        return "Nothing could be decoded."
    label = found.worded(found.label)
    words = f"The {label} is {found.best}; {found.test}"
    return f"{words}{_bound(result)}."


@word_answer.register
def _(result: Latency, correction=None):
    words = []
    for which in ("onset", "peak"):
        time, (low, high) = result.when(which)
        interval = f"{100 * result.confidence:g} % interval {low:.3f} to {high:.3f} s"
        if np.isnan(time):
            words.append(f"there is no {which}")
        elif result.parts:
            words.append(f"the {which}s are {time:+.3f} s apart ({interval})")
        else:
            words.append(f"the {which} is at {time:.3f} s ({interval})")
    return f"{capital(' and '.join(words))}."


def _bound(result):
    """Word the largest bound of the prevalence, if there is one."""
    if not result.is_prevalence:
        return ""
    bound = np.asarray(result.gamma_0)
    if np.isnan(bound).all():
        return "; no lower bound on the prevalence could be established"
    where = " somewhere" if result.axes else ""
    share = int(100 * np.nanmax(bound))  # rounded down: it is a bound
    return f"; more than {share} % of the population have an effect{where}"


def _where(result):
    """Word the positions of a map."""
    return result.places.describe().replace(" x ", " by ")


def _at(result):
    """Word where scores are, as the end of a question; nothing for a single one."""
    if not result.axes:
        return ""
    return f"{' in' if result.places.noun(1) == 'region' else ' at'} {_where(result)}"


def _classes(result):
    """Name the classes, or say how many there are."""
    if len(result.classes) > _MOST_NAMES:
        return f"{len(result.classes)} classes"
    return enumerated(map(str, result.classes))


def _folds(result):
    """Word the folds of a result, if it has any."""
    if result.tests_other_trials:
        return []
    return [*result.worded_folds(), counted(result.n_permutations, "permutation", ",")]
