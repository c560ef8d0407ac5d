"""Sentences on groups of subjects, on comparisons, and on latencies."""

from __future__ import annotations

import numpy as np

from ..group.latency import ONSETS
from ..group.second_level import METHODS
from ..inference.corrections import ADJUSTMENTS
from ..metrics.names import mean_of_permuted
from ..results.comparison import COMPARISON_TESTS
from ..results.group import GroupResult
from ..utils.checks import check_option, counted, enumerated, ranged, times_words
from ..utils.rounding import number, p_words
from ..viz.style import DEFAULT_NAMES, DEFAULT_RESULTS
from .citations import name
from .findings import (
    correction_sentence,
    found_of,
    named_first,
    positions_of,
    software_of,
)
from .model import model_of
from .subjects import differing, first_level_of
from .words import metric_words, second_test, splitter_words

#: What scores are compared with, by the alternative.
_SIDES = {
    "greater": "one-sided, for {higher}",
    "less": "one-sided, for {lower}",
    "two-sided": "two-sided",
}


def _chosen(result, asked):
    """Return correction and level: those asked for, or those of the result."""
    asked.refuse(("threshold", "alternative"), "was tested with one of its own")
    correction = asked.correction
    if correction is None and not result.axes:
        correction = "none"
    correction = result.correction_name(correction)
    return correction, result.alpha if asked.alpha is None else asked.alpha


def _joined(paragraphs):
    return [" ".join(sentences) for sentences in paragraphs if sentences]


# ----------------------------------------------------------------------------- groups


def group_paragraphs(result, asked):
    """Return the paragraphs of a group of subjects."""
    correction, alpha = _chosen(result, asked)
    return _joined(
        [
            [_subjects(result), *first_level_of(result), *differing(result)],
            [
                *_group_test(result),
                *_raised_variances(result),
                *_group_draws(result, correction),
                *_corrected(result, correction, alpha),
                *named_first(result, correction),
            ],
            [*_group_found(result, correction, alpha), *_prevalence(result, alpha)],
            software_of(result.versions, result),
            _to_consider(result),
        ]
    )


def _to_consider(result):
    """Tell authors what the runs of subjects warned of."""
    texts = result.worded_subject_warnings
    lead = (
        "Not for publication, but to be considered: the analyses of subjects gave "
        "warnings."
    )
    return [lead, *map(name, texts)] if texts else []


def _metric(result):
    return metric_words(result.metric.removesuffix("_difference"))[1]


def _subjects(result):
    """Say whose scores were analysed, and where."""
    n, at = result.n_subjects, positions_of(result.places)
    where = f" at {at}" if result.axes else ""
    what = f"Decoding results ({_metric(result)}) of"
    if result.other_scores is None:
        return (
            f"{what} {counted(n, 'subject')} were combined in a group analysis{where}."
        )
    first, second = map(name, result.labels)
    if result.paired:
        return (
            f"{what} {counted(n, 'subject')} in two conditions ({first} and {second}) "
            f"were compared{where}."
        )
    m = len(result.other_subjects)
    return (
        f"{what} two groups of subjects, {first} ({n}) and {second} ({m}), were "
        f"compared{where}."
    )


def _group_test(result):
    """Say what was tested over subjects, and against what."""
    method = METHODS[result.method]
    words, metric = method.words, _metric(result)
    what = f"The mean {metric}"
    if np.isfinite(result.score_chance):
        what += f" minus its chance level ({number(result.score_chance)})"
    level = result.worded_level
    if result.permuted_means is not None:
        mean = number(np.nanmean(result.permuted_means))
        what = f"The mean {metric} minus {level} of each subject ({mean} on average)"
    higher, lower = (f"scores {way} {level}" for way in ("above", "below"))
    if result.other_scores is not None:
        first, second = map(name, result.labels)
        what = f"The difference in {metric}, {first} minus {second},"
        higher, lower = (f"{way} scores of {first}" for way in ("higher", "lower"))
        words = method.words if result.paired else method.words_of_two
    if result.method == "bootstrap":
        higher, lower = "high scores", "low scores"
    side = _SIDES[result.alternative].format(higher=higher, lower=lower)
    null = {"order": result.order, "share": _null_share(result)}
    sentences = [words.format(metric=metric, what=what, side=side, **null)]
    if result.permuted_means is not None:
        sentences.append(
            "Without an effect, the expected score of a subject is the mean of its "
            f"permuted labels, not the chance level ({number(result.score_chance)})."
        )
    return sentences


def _null_share(result):
    """Word the largest share that the null hypothesis of an i-test grants."""
    share = result.parameters.get("hypothesis")
    if not share:
        return "nobody"
    return "half of them or less" if share == 0.5 else f"{100 * share:g} % or less"


def _raised_variances(result):
    """Say where subjects scored so much alike that t was given a larger variance."""
    n = result.parameters.get("n_alike")
    if not n or not result.axes:
        return []
    return [
        "Variances across subjects below a thousandth of the largest one, here at "
        f"{n:,} {result.places.noun(n)}, were raised to that [@Ridgway2012]."
    ]


#: The same where there may be two tests.
_FORMULA = (
    "A *p*-value is (*b* + 1) / (*P* + 1), where *b* of the *P* {draws} were at "
    "least as extreme as the observed difference [@Phipson2010]."
)
#: What was drawn -> on what condition all that there are make a test exact.
_EXACT_IF = {
    "sign flip": "if, without an effect, {what} distributed symmetrically around "
    "{around}",
    "permutation": "if, without an effect, scores had the same distribution in both "
    "groups",
}
#: How a p-value follows from what was drawn.
_P = (
    "The *p*-value is (*b* + 1) / (*P* + 1), where *b* of the *P* {draws} (*P* = "
    "{n:,}) "
    "were at least as extreme as the observed {what} [@Phipson2010]."
)


def _group_draws(result, correction):
    """Say what the null distribution over subjects is made of."""
    n, p, method = result.n_permutations, result.parameters, METHODS[result.method]
    if method.parametric and correction in ("none", *ADJUSTMENTS):
        return [
            "Uncorrected *p*-values come from the theoretical distribution of the "
            "statistic."
        ]
    if result.method == "i-test":
        first = ranged(p["first_level_permutations"], "label permutation")
        return [
            "The uncorrected *p*-value is the exact probability that so few subjects "
            f"score lower, where (*b* + 1) / (*P* + 1), *b* of {first} of a subject "
            "that reached this score, is its probability without an effect."
        ]
    if not n:
        return []
    if method.by_labels:
        first = p.get("first_level_permutations") or []
        of_subjects = p.get("first_level") or {}
        of = f" of {ranged(first, 'label permutation')}" if len(first) else ""
        if result.method == "prevalence" and correction in ("none", *ADJUSTMENTS):
            return [
                "The uncorrected *p*-value is the product over subjects of (*b* + 1) / "
                f"(*P* + 1), where *b*{of} of a subject reached this lowest score: "
                "the limit of many second-level permutations [@Allefeld2016]."
            ]
        return [
            "Each second-level permutation combined one randomly chosen map per "
            f"subject: the observed map or one{of}.",
            _P.format(draws="second-level permutations", n=n, what="maps"),
            *([f"{second_test(of_subjects)}."] if p.get("n_tests", 1) > 1 else []),
        ]
    sentences = [_P.format(draws=f"{result.draw_noun}s", n=n, what="statistic")]
    if "n_permutations" in p and n < p["n_permutations"]:
        if_ = _EXACT_IF[result.draw_noun].format(
            what="scores were" if result.other_scores is None else "differences were",
            around=result.worded_level if result.other_scores is None else "zero",
        )
        sentences.append(
            f"All possible {result.draw_noun}s were used. The test is exact {if_}."
        )
    return sentences


def _corrected(result, correction, alpha):
    """Say how many positions were corrected for, and the level."""
    level = f"The significance level was {number(alpha)}."
    if not result.axes:
        return [level]
    score = "difference" if isinstance(result, GroupResult) is False else "statistic"
    of_t = result.method in ("sign-flip", "t", "wilcoxon")
    mass = "the statistic" if of_t else f"standardised {score}s"
    sentence = correction_sentence(
        result,
        correction,
        int(np.count_nonzero(result.counted)),
        result.parameters.get("n_tests", 1),
        score=score,
        draw=result.draw_noun,
        mass=mass,
        threshold=result.parameters["threshold"],
    )
    return [sentence, level]


def _group_found(result, correction, alpha):
    """Say where the scores over subjects peak, and where they are significant."""
    label = f"mean {_metric(result)}"
    label = f"difference in {label}" if result.is_difference else label
    return found_of(result, correction, alpha, label)


def _prevalence(result, alpha):
    """Say how many of the population have an effect, where that is known."""
    if result.method != "prevalence":
        return []
    bound = np.ravel(result.prevalence_bound("max" if result.axes else "none", alpha))
    if not np.isfinite(bound).any():
        return []
    share = int(100 * np.nanmax(bound))  # rounded down: it is a bound
    where = "At its maximum, the" if result.axes else "The"
    corrected = ", for all positions at once by Bonferroni's method"
    sentence = (
        f"{where} lower bound on the proportion of the population with an effect was "
        f"{share} % (level {number(alpha)}{corrected if result.axes else ''}). A "
        "proportion *g* was rejected by the product over subjects of *g* + (1 - *g*) "
        "*p*, where *p* of a subject is (*b* + 1) / (*P* + 1); if it is the same for "
        "all subjects, this is the *p*-value of prevalence inference [@Allefeld2016]."
    )
    p = np.ravel(
        result.pvalues("max" if result.axes else "none", hypothesis="majority")
    )
    n = int(np.count_nonzero(p <= alpha))
    if not n:
        return [sentence]
    if not result.axes:
        return [
            f"{sentence} That half of the population or less has an effect was "
            f"rejected ({p_words(p[0], '*p*')})."
        ]
    at = f"{n:,} {result.places.noun(n)}"
    return [
        f"{sentence} That half of the population or less has an effect was rejected at "
        f"{at}, corrected by Holm's method [@Holm1979]."
    ]


# ------------------------------------------------------------------------ comparisons


def comparison_paragraphs(result, asked):
    """Return the paragraphs of the comparison of two results of one subject."""
    correction, alpha = _chosen(result, asked)
    noun = f"difference in {_metric(result)}, {' minus '.join(_two(result))},"
    return _joined(
        [
            [*_compared(result), *_two_models(result)],
            [
                *_comparison_test(result),
                *_corrected(result, correction, alpha),
                *named_first(result, correction),
            ],
            found_of(result, correction, alpha, noun),
            software_of(result.versions, result),
        ]
    )


def _has_names(result):
    """Tell whether the two results were given names of their own."""
    return tuple(result.labels) != DEFAULT_RESULTS


def _two(result):
    """Return what the two analyses are called."""
    return [*map(name, result.labels)] if _has_names(result) else ["first", "second"]


def _analyses(result):
    """Return the same as parts of a sentence."""
    words = "{} analysis" if not _has_names(result) else "analysis “{}”"
    return [f"the {words.format(each)}" for each in _two(result)]


def _compared(result):
    """Say what was compared, and where."""
    where = f" at {positions_of(result.places)}" if result.axes else ""
    trials = result.parameters.get("trials")
    of = f" ({trials})" if trials else ""
    named = f", {' and '.join(_two(result))}," if _has_names(result) else ""
    return [
        f"Two analyses{named} of the same trials{of} were compared in "
        f"{_metric(result)}{where}."
    ]


def _two_models(result):
    """Say what two analyses have in common, and in what they differ."""
    p = result.parameters
    a, b = p.get("a") or {}, p.get("b") or {}
    of_a, of_b = (
        [*_of_channels(each), *model_of(each), *_folds(each)] for each in (a, b)
    )
    shared = [sentence for sentence in of_a if sentence in of_b]
    sentences = list(shared)
    for which, of in zip(_analyses(result), (of_a, of_b), strict=True):
        own = [sentence for sentence in of if sentence not in shared]
        if own:
            sentences.append(f"In {which}: {' '.join(own)}")
    return sentences


def _of_channels(p):
    if "ch_names" in p:
        return [f"The data were those of {counted(len(p['ch_names']), 'channel')}."]
    if "n_features" in p:
        return [f"There were {counted(p['n_features'], 'feature')}."]
    return []


def _folds(p):
    if not p.get("cv"):
        return []
    return [f"Scores were estimated by {splitter_words(p['cv'], p.get('n_folds'))}."]


def _comparison_test(result):
    """Say what the difference was compared with."""
    test = COMPARISON_TESTS[result.method]
    n = counted(result.n_permutations, "permutation", ",")
    words = test.words.format(permutations=n)
    first, second = _analyses(result)
    sides = {
        "higher": f"higher scores in {first}",
        "lower": f"higher scores in {second}",
    }
    return [
        words,
        f"Tests were {_SIDES[result.alternative].format(**sides)}.",
        _FORMULA.format(draws=test.draws),
    ]


# -------------------------------------------------------------------------- latencies


def latency_paragraphs(result, asked):
    """Return the paragraphs of the latencies of a group."""
    names = ("correction", "alpha", "threshold", "alternative")
    asked.refuse(names, "has intervals of its own confidence and no p-values")
    return _joined(
        [
            [*_latency_of(result), *_onset(result), *_resamples(result)],
            [*_latencies(result)],
            software_of(result.versions, result),
        ]
    )


def _latency_of(result):
    """Say whose time courses were analysed."""
    metric = metric_words(result.metric)[1]
    n = counted(result.n_subjects, "subject")
    if not result.parts:
        return [
            f"Onset and peak of the mean time course of {metric} of {n} were located."
        ]
    kind, of = "two groups of subjects", ""
    if result.parameters.get("paired"):
        kind = "two conditions of the same subjects"
    if tuple(result.labels) != DEFAULT_NAMES:
        of = f", {' and '.join(map(name, result.labels))}"
    return [
        f"Onset and peak of the mean time courses of {metric} were located and "
        f"compared between {kind}{of} ({n} in all)."
    ]


def _onset(result):
    """Say what an onset is."""
    p = result.parameters
    if "criterion" not in p:
        return []
    check_option("criterion", p["criterion"], ONSETS)
    base = "chance"
    if p.get("baseline") is not None:
        first, last = map(number, p["baseline"])
        base = f"the mean from {first} to {last} s"
    elif np.isfinite(result.permuted_mean):
        mean = number(result.permuted_mean)
        base = f"the {mean_of_permuted(result.metric)} of each subject (mean {mean})"
    elif np.isfinite(result.chance):
        base = f"chance ({number(result.chance)})"
    sentence = ONSETS[p["criterion"]].words.format(
        base=base,
        fraction=number(100 * p["fraction"]),
        level=number(p["level"]),
        duration=number(p["min_duration"]),
    )
    window = result.window
    within = ""
    if window is not None:
        within = (
            f"; times from {number(window[0])} to {number(window[1])} s were searched"
        )
    return [f"{sentence}{within}."]


def _resamples(result):
    """Say what the intervals are of."""
    n = len(result.onsets)
    if not n:
        return []
    share = number(100 * result.confidence)
    drawn = f"Subjects were resampled with replacement {times_words(n)} [@Efron1993]."
    return [
        f"{drawn} {share} % confidence intervals are based on Student's *t* and the "
        "standard error of the resamples for the onset, and on percentiles for the "
        "peak."
    ]


def _with_interval(time, interval, share):
    """Word a time and its interval, if it has one."""
    words = f"{number(time)} s"
    if np.isfinite(interval).all():
        low, high = map(number, interval)
        words += f" ({share} % interval {low} to {high} s)"
    return words


def _of_parts(result, which, share):
    """Say which of two is later, if the interval shows it, and both latencies."""
    names = [*map(name, result.labels)]
    times = [part.when(which) for part in result.parts]
    both = enumerated(
        f"at {_with_interval(*each, share)} in {of}"
        for each, of in zip(times, names, strict=True)
    )
    low, high = result.when(which)[1]
    if low > 0 or high < 0:
        later = names if low > 0 else names[::-1]
        return f", later in {later[0]} than in {later[1]}: {both}."
    order = f" The interval includes 0: no order of the two {which}s is shown."
    return f": {both}.{order if np.isfinite([low, high]).all() else ''}"


def _latencies(result):
    """Say when onset and peak were."""
    share = number(100 * result.confidence)
    sentences = []
    for which in ("onset", "peak"):
        time, interval = result.when(which)
        if np.isnan(time):
            sentences.append(f"There was no {which}.")
            continue
        of = f"The {which} was at"
        if result.parts:
            order = " minus ".join(map(name, result.labels))
            of = f"The difference in {which}, {order}, was"
        words = f"{of} {_with_interval(time, interval, share)}"
        if result.parts:
            sentences.append(f"{words}{_of_parts(result, which, share)}")
        else:
            sentences.append(f"{words}.")
    if result.n_without_onset and len(result.onsets):
        n = result.n_without_onset
        verb, were = ("had", "was") if n == 1 else ("had", "were")
        sentences.append(
            f"Of the {counted(len(result.onsets), 'resample', ',')}, {n:,} {verb} no "
            f"onset and {were} excluded from its interval."
        )
    return sentences
