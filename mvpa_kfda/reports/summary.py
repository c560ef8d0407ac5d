"""What was asked and what was found, in a sentence each, for every kind of result.

A new kind of result registers its sentences with `word_question` and `word_answer`, and
gets its heading in HEADINGS.
"""

from collections.abc import Mapping, Sequence
from functools import singledispatch
from os import PathLike

import numpy as np

from ..inference.corrections import is_of_clusters
from ..metrics.names import metric_in_text
from ..results.base import Result, SubjectResult
from ..results.comparison import ComparisonResult
from ..results.fields import RESULTS
from ..results.group import GroupResult, TestedMap
from ..results.latency import Latency
from ..utils.axes import noun_of_axes
from ..utils.checks import counted
from ..viz.common import (
    CORRECTION_LABELS,
    DEFAULT_NAMES,
    metric_label,
    names_of_results,
    names_of_two,
    score_in_text,
)
from .findings import most_extreme
from .html import equal_p
from .words import capital, enumerated

#: Significance level of a subject's results; those of groups have one of their own.
ALPHA = 0.05

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


def level(result):
    """Return the significance level of a result."""
    return result.alpha if isinstance(result, TestedMap) else ALPHA


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
    a, b = names_of_results(result)
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
def _(result: SubjectResult, correction=None):
    if not result.scalar_metrics:
        return "The metrics are tables, which have no maximum and no p-value."
    if not has_scores(result):
        return "Nothing could be decoded."
    metric = result.scalar_metrics[0]
    what = f"{metric_label(metric)} is"
    return f"{what} {_found(result, metric, _above(result), correction)}."


@word_answer.register
def _(result: TestedMap, correction=None):
    label, metric = score_in_text(result), result.metric
    what = f"Mean {label} is" if result.has_subjects else f"{capital(label)} is"
    if result.is_difference:
        what = f"The difference in {label} is"
    words = f"{what} {_found(result, metric, 'significant', correction)}"
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


def _found(result, metric, significant, correction):
    """Word the highest score of a map, and where it is significant."""
    best = result.worded_peak(metric)
    if not result.axes:
        p = result.has_p and smallest_p(result, metric, "none")
        return f"{best}, {equal_p(p)}" if result.has_p and p is not None else best
    most = most_extreme(result).format(noun="").strip()
    where = _where_significant(result, metric, significant, correction)
    return f"{most} at {best}, {where}"


def _where_significant(result, metric, significant, correction):
    """Word at how many positions a map is significant, and the smallest p-value."""
    if not result.has_p:
        return "and was not tested, as there are no permutations"
    correction, alpha = correction or result.default_correction, level(result)
    try:
        p = np.asarray(result.p_of_map(correction, metric))
    except ValueError:  # a score of the permutations is NaN, for example
        return "and has no p-values"
    p = p[~np.isnan(p)]
    if not p.size:
        return "and has no p-values"
    n, noun = np.count_nonzero(p <= alpha), position_noun(result)
    of_all = f"{n:,} of {counted(p.size, noun, ',')}"
    where = f"{significant} at {of_all}" if n else f"{significant} at no {noun}"
    if n and is_of_clusters(correction):  # p is of a cluster as a whole
        where = f"significant clusters cover {of_all}"
    test = f"p ≤ {alpha:g}, {CORRECTION_LABELS[correction]}"
    words = f"and {where} ({test}; smallest {equal_p(p.min())})"
    n_drawn = result.n_permutations
    if n_drawn and result.smallest_p(correction, p.size, metric) > alpha:
        words += " (too few permutations to reach this level)"
    return words


def smallest_p(result, metric, correction):
    """Return the smallest p-value of a map; None without any."""
    try:
        p = np.asarray(result.p_of_map(correction, metric))
    except ValueError:  # a score of the permutations is NaN, for example
        return None
    return None if np.isnan(p).all() else float(np.nanmin(p))


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


def _above(result):
    """Word which side the scores of a subject are tested for."""
    return "above that of permuted " + ("labels" if len(result.classes) else "values")


def position_noun(result):
    """Return what one position of a map is called."""
    if result.geometry is not None:
        return result.geometry.noun
    return noun_of_axes(result.axes)


def _where(result):
    """Word the positions of a map."""
    return result.places.describe().replace(" x ", " by ")


def _at(result):
    """Word where scores are, as the end of a question; nothing for a single one."""
    if not result.axes:
        return ""
    return f"{' in' if position_noun(result) == 'region' else ' at'} {_where(result)}"


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
