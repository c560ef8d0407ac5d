"""Sentences on groups of subjects, on comparisons, and on latencies."""

from __future__ import annotations

import numpy as np

from ..group.latency import ONSETS
from ..group.second_level import METHODS
from ..inference.corrections import ADJUSTMENTS
from ..kfda.penalties import MOST_OF_SECOND
from ..metrics.scores import mean_of_permuted
from ..utils.checks import check_option, counted, plural, some_of
from ..viz.style import DEFAULT_NAMES, DEFAULT_RESULTS
from .citations import name
from .findings import corrected, found_of, named_first, positions_of, software_of
from .settings import model_of, named_groups, recordings_of
from .templating import Record, written
from .vocabulary import SETTING_WORDS, channels_words, metric_words, splitter_words


def _tested_map(template, result, asked, metric, label, score, **values):
    """The paragraphs on a map of differences, or of scores over subjects."""
    asked.refuse(("threshold", "alternative"), "was tested with one of its own")
    correction = asked.correction
    if correction is None and not result.axes:
        correction = "none"
    correction = result.correction_name(correction)
    alpha = result.alpha if asked.alpha is None else asked.alpha
    of_t = result.method in ("sign-flip", "t", "wilcoxon")
    return written(
        template,
        result=result,
        p=Record(result.parameters),
        metric=metric,
        alpha=alpha,
        at=positions_of(result.places),
        is_single=correction in ("none", *ADJUSTMENTS),
        corrected=corrected(
            result,
            correction,
            alpha,
            threshold=result.parameters["threshold"],
            n=int(np.count_nonzero(result.counted)),
            n_tests=result.parameters.get("n_tests", 1),
            score=score,
            draw=result.draw_noun,
            mass="the statistic" if of_t else f"standardised {score}s",
        ),
        exploratory=named_first(result, correction),
        found=found_of(result, correction, alpha, label),
        software=software_of(result.versions, result),
        **values,
        **_majority(result, alpha),
    )


def _metric(result):
    return metric_words(result.metric.removesuffix("_difference"))[1]


# ----------------------------------------------------------------------------- groups


def group_paragraphs(result, asked):
    """The paragraphs of a group of subjects."""
    metric, means = _metric(result), result.permuted_means
    label = f"difference in mean {metric}" if result.is_difference else f"mean {metric}"
    found = dict(result.parameters.get("first_level_differences") or {})
    times = found.pop("times", {})
    who = {
        field: [name(each) for names in values.values() for each in names]
        for field, values in found.items()
    }
    return _tested_map(
        "group.txt",
        result,
        asked,
        metric,
        label,
        "statistic",
        s=Record(result.parameters.get("first_level") or {}),
        of_two=result.other_scores is not None,
        first_level=_first_level(result),
        times=times,
        differing=[f"{_setting(field)} ({some_of(who[field])})" for field in who],
        mean_of_means=None if means is None else np.nanmean(means),
        method=METHODS[result.method],
        most_of_second=MOST_OF_SECOND,
    )


def _setting(field):
    """The words for a field of the record, also of one that holds fields of its own."""
    first = field.partition(".")[0]
    return SETTING_WORDS.get(field) or SETTING_WORDS.get(first) or name(field)


def _first_level(result):
    """How all subjects were analysed, as far as they were alike."""
    s, places = Record(result.parameters.get("first_level") or {}), result.places
    names, ending = s["ch_names"], ".n_channels"
    n = s.get("n_channels", [len(names)] if names else None)
    by_type = {k.removesuffix(ending): v for k, v in s.items() if k.endswith(ending)}
    sentences = written(
        "first_level.txt",
        s=s,
        recordings=recordings_of(s),
        channels=None if n is None else channels_words(n, by_type),
        columns=tuple(places.axes.values()),
        noun="sources" if places.geometry is None else plural(places.geometry.noun),
        model=" ".join(model_of(s, s["groups"])),
        splitter=splitter_words(s["cv"], s["n_folds"]) if s["cv"] else None,
    )
    return " ".join(named_groups(sentences, s))


def _majority(result, alpha):
    """How many of the population have an effect, where that is known."""
    if result.method != "prevalence":
        return {"bound": None}
    correction = "max" if result.axes else "none"
    bound = np.ravel(result.prevalence_bound(correction, alpha))
    if not np.isfinite(bound).any():
        return {"bound": None}
    p = np.ravel(result.pvalues(correction, hypothesis="majority"))
    return {
        "bound": f"{int(100 * np.nanmax(bound))}",  # rounded down: it is a bound
        "n_of_majority": int(np.count_nonzero(p <= alpha)),
        "p_of_majority": p[0],
    }


# ------------------------------------------------------------------------ comparisons


def comparison_paragraphs(result, asked):
    """The paragraphs of the comparison of two results of one subject."""
    is_named = tuple(result.labels) != DEFAULT_RESULTS
    names = [*map(name, result.labels)] if is_named else ["first", "second"]
    metric = _metric(result)
    return _tested_map(
        "comparison.txt",
        result,
        asked,
        metric,
        f"difference in {metric}, {' minus '.join(names)},",
        "difference",
        is_named=is_named,
        of_a=_analysis(result.parameters.get("a") or {}),
        of_b=_analysis(result.parameters.get("b") or {}),
    )


def _analysis(p):
    """The sentences on one of two analyses."""
    sentences = []
    if "ch_names" in p:
        n = counted(len(p["ch_names"]), "channel")
        sentences.append(f"The data were those of {n}.")
    elif "n_features" in p:
        sentences.append(f"There were {counted(p['n_features'], 'feature')}.")
    sentences += model_of(p)
    if p.get("cv"):
        words = splitter_words(p["cv"], p.get("n_folds"))
        sentences.append(f"Scores were estimated by {words}.")
    return sentences


# -------------------------------------------------------------------------- latencies


def latency_paragraphs(result, asked):
    """The paragraphs of the latencies of a group."""
    names = ("correction", "alpha", "threshold", "alternative")
    asked.refuse(names, "has intervals of its own confidence and no p-values")
    p = Record(result.parameters)
    if "criterion" in p:
        check_option("criterion", p["criterion"], ONSETS)
    return written(
        "latency.txt",
        result=result,
        p=p,
        metric=metric_words(result.metric)[1],
        is_named=tuple(result.labels) != DEFAULT_NAMES,
        onset=ONSETS[p["criterion"]] if "criterion" in p else None,
        mean_of_permuted=mean_of_permuted(result.metric),
        software=software_of(result.versions, result),
    )
