"""The paragraphs of a paper that say what was done and found, from a result alone.

Every sentence is made of what the result records; where that is not known, there is no
sentence. What is called how stands in `mvpa_kfda.reports.words`, what is cited in
`mvpa_kfda.reports.citations`; groups, comparisons and latencies are the matter of
`mvpa_kfda.reports.groups`.
"""

from __future__ import annotations

from typing import Any, Literal

import numpy as np

from ..inference.corrections import CorrectionName
from ..inference.null import Alternative, check_level
from ..inference.permutation import SCHEMES
from ..metrics.names import find_metric, is_of_one_class
from ..results.base import Result, SubjectResult
from ..results.comparison import ComparisonResult
from ..results.group import GroupResult
from ..results.latency import Latency
from ..utils.advice import advice
from ..utils.checks import (
    check_option,
    check_share,
    counted,
    enumerated,
    ranged,
    times_words,
)
from ..utils.plain import is_record
from ..utils.rounding import number
from .citations import STYLES, name, render
from .findings import (
    Asked,
    found_of,
    inference_of,
    named_first,
    positions_of,
    software_of,
)
from .groups import comparison_paragraphs, group_paragraphs, latency_paragraphs
from .model import folds_of, model_of, sample_noun, windows_of
from .recordings import named_groups, recordings_of
from .words import channels_words, features_of_channels, metric_words, second_test

#: Classes that are named one by one; of more only the range of their counts is told.
_MOST_NAMED = 8


def methods_text(
    result: Result,
    style: Literal["apa", "markdown", "bibtex"] = "apa",
    *,
    correction: CorrectionName | None = None,
    alpha: float | None = None,
    threshold: float | None = None,
    alternative: Alternative | None = None,
) -> str:
    """Write methods and results paragraphs for a paper.

    They cover data, features, model, penalty, folds, metric, permutations, correction,
    results and versions, in the order in which a reviewer asks for them. All
    information comes from the result; add what it does not contain, such as how the
    data were recorded and filtered. Read the text before you publish it.

    Parameters
    ----------
    result : result
        A result of any kind: one subject, a group, a comparison, or a latency.
    style : {"apa", "markdown", "bibtex"}
        Plain text with citations and a list of references, the same with links for
        Markdown, or the BibTeX entries of the cited works.
    correction : str or None
        Correction of the reported p-values, as in the result's `pvalues`. None takes
        that of its figures: the first requested one for a group or comparison, else
        "max". A latency has none.
    alpha : float or None
        Significance level to report. None takes that of a group or comparison, else
        0.05.
    threshold : float or None
        Cluster-forming threshold (a p-value), as in the `pvalues` of one subject's
        result. None is 0.05. Groups and comparisons have their own.
    alternative : {"greater", "less", "two-sided"} or None
        Alternative hypothesis, as in the `pvalues` of one subject's result. None is
        "greater". Groups and comparisons have their own.

    Returns
    -------
    text : str
        Paragraphs separated by empty lines.

    Raises
    ------
    TypeError
        If `result` is not a result.
    ValueError
        If the style is unknown, if `alpha` is not between 0 and 1, if a correction,
        threshold or alternative does not apply to the result, or as in `pvalues`.

    Examples
    --------
    >>> from mvpa_kfda import decode_epochs, methods_text, simulate_epochs
    >>> epochs = simulate_epochs(n_classes=2, random_state=0)
    >>> result = decode_epochs(epochs, n_permutations=100, random_state=0)
    >>> print(methods_text(result).partition(" (")[0])
    Multivariate pattern analysis was applied to 180 trials of 2 classes
    """
    check_option("style", style, STYLES)
    if alpha is not None:
        check_share("alpha", alpha)
    if threshold is not None:
        check_level(threshold)
    for kind, write in WRITERS.items():
        if isinstance(result, kind):
            asked = Asked(correction, alpha, threshold, alternative)
            return render(write(result, asked), style)
    raise TypeError(
        f"result must be a result of mvpa_kfda; got a {type(result).__name__}."
        f"{advice(result)} A saved one is read by load_result(path)."
    )


def _subject_paragraphs(result, asked):
    """Return the paragraphs of the result of one subject."""
    if not result.has_p:
        names = ("correction", "alpha", "threshold", "alternative")
        asked.refuse(names, "has no label permutations, so no p-values")
    asked = asked.completed("max" if result.axes else "none")
    paragraphs = [
        [
            *_data(result),
            *_named_classes(result.parameters),
            *recordings_of(result.parameters),
            *_features(result),
            *_scaling(result),
            *_averaging(result),
        ],
        [*model_of(result.parameters, _has_groups(result), _has_subsets(result))],
        [*folds_of(result), *_metrics(result), *named_first(result)],
        [*_permutations(result, asked.alternative), *inference_of(result, asked)],
        found_of(result, asked.correction, asked.alpha, **asked.options),
        [*software_of(result.versions, result), *_numerics(result.parameters)],
    ]
    texts = [" ".join(sentences) for sentences in paragraphs if sentences]
    return named_groups(texts, result.parameters)


def _has_groups(result):
    """Tell whether some trials are of the same group."""
    groups = result.groups
    return groups is not None and len(np.unique(groups)) < len(groups)


def _has_subsets(result):
    """Tell whether folds train with less than all trials that they do not test."""
    if result.tests_other_trials:
        return False
    n = len(result.y) // result.n_repeats
    parts = [len(train) + len(test) for train, test in result.folds]
    return set(parts) != {n}


#: Kind of result -> its paragraphs, the first that fits.
WRITERS: dict[type[Any], Any] = {
    SubjectResult: _subject_paragraphs,
    GroupResult: group_paragraphs,
    ComparisonResult: comparison_paragraphs,
    Latency: latency_paragraphs,
}


def _numerics(p):
    """Say how numbers were drawn, and how precisely computed."""
    sentences = []
    if p.get("random_state") is not None:
        sentences.append(f"Random numbers had the seed {p['random_state']}.")
    if p.get("dtype") == "float32":
        sentences.append("Permutations were computed in single precision.")
    return sentences


#: Alternative -> the scores of permutations that speak against it.
_AS_EXTREME = {
    "greater": "at least as high as the observed one",
    "less": "at least as low as the observed one",
    "two-sided": "at least as far from the mean of all scores as the observed one",
}


# ------------------------------------------------------------------------ what came in


def _data(result):
    """Say how many trials of which classes were trained with and tested."""
    what = "Multivariate pattern analysis was applied to"
    if result.parameters.get("task") == "regression":
        low, high = float(result.y.min()), float(result.y.max())
        return [
            f"{what} {counted(len(result.y), 'trial')}, to predict a continuous value "
            f"for each (range {number(low)} to {number(high)})."
        ]
    trained, tested = _trained_and_tested(result)
    trained_words = _of_classes(result, trained)
    if tested is None:
        return [f"{what} {trained_words}."]
    return [
        f"{what} {_count(trained + tested)} of {_n_classes(result)}. Models were "
        f"trained on {trained_words} and tested on {_of_classes(result, tested)}, none "
        "of which was used for training."
    ]


def _named_classes(p):
    """Say which events made up a class, where classes were named."""
    sentences = []
    for field, of in (("classes", ""), ("classes_test", " of the test data")):
        for label, events in (p.get(field) or {}).items():
            several = [events] if isinstance(events, str) else list(events)
            if [*map(str, several)] != [str(label)]:
                made = enumerated(map(name, several))
                sentences.append(f"Class {name(label)}{of} was made up of {made}.")
    return sentences


def _trained_and_tested(result):
    """Return the trials of each class that are trained with and, if others, tested."""
    c, r = len(result.classes), result.n_repeats
    if result.tests_other_trials:
        return _counts(result.y, c, r), _counts(result.y_test, c, 1)
    if result.train_rows is None:
        return _counts(result.y, c, r), None
    return _counts(result.y[result.train_rows], c, r), _counts(
        result.true_classes, c, r
    )


def _counts(codes, c, r):
    return np.bincount(codes, minlength=c) // r


def _count(counts, noun="trial"):
    return counted(int(counts.sum()), noun)


def _n_classes(result):
    return counted(len(result.classes), "class")


def _of_classes(result, counts):
    """Word trials by their classes."""
    noun = sample_noun(result)
    if len(counts) > _MOST_NAMED:
        low, high = counts.min(), counts.max()
        each = f"{low}" if low == high else f"{low} to {high}"
        return f"{_count(counts, noun)} of {_n_classes(result)} ({each} of each)"
    pairs = zip(counts, result.classes, strict=True)
    named = ", ".join(f"{n} {name(label)}" for n, label in pairs)
    return f"{_count(counts, noun)} of {_n_classes(result)} ({named})"


def _averaging(result):
    """Say which trials were averaged, or left out for equal classes."""
    p = result.parameters
    k, within = p.get("average"), "class and test set"
    if result.groups is not None:
        within = "class, test set and group"
    sentences = []
    if result.members is not None and k != 1:
        n = result.members.size // result.n_repeats
        sentences.append(
            f"Each pseudo-trial was the average of {k} of {n} trials, drawn at random "
            f"within {within}."
        )
    elif k not in (None, 1):
        sentences.append(
            f"Models were trained on averages of {k} trials, drawn at random within "
            f"{within}, and tested on single trials."
        )
    if p.get("equalize"):
        noun = "trials" if k == 1 else "averages"
        sizes = zip(result.classes, p.get("class_sizes", ()), strict=False)
        there = enumerated(f"{n} {name(label)}" for label, n in sizes)
        there = f" (there were {there})" if there else ""
        sentences.append(
            f"Numbers of {noun} were equalised across classes by leaving out {noun} of "
            f"the larger classes at random{there}."
        )
    return sentences


def _features(result):
    """Say what the features of a trial were, and where they were decoded."""
    p = result.parameters
    at = positions_of(result.places)
    columns = tuple(result.axes.values())
    if columns == ("position",):
        return _features_of_images(result)
    if result.places.sources is not None:
        return [f"{_features_of_sources(result)}, at {at}.", *windows_of(p)]
    if "ch_names" in p:
        features = features_of_channels(columns, _channels(result))
    elif "n_features" in p:
        features = counted(p["n_features"], "feature")
        if columns == ():
            return [f"Each trial had {features}."]
    else:
        return [f"This was done at {at}."]
    verb = "Features were" if "ch_names" in p else "Each trial had"
    features = f"{verb} {features}, at {at}."
    return [features, *_left_out(p), *windows_of(p), *_generalization(result)]


def _left_out(p):
    """Say how many channels were left out, and why."""
    kinds = p.get("channels_left_out") or {}
    parts = [counted(n, f"{kind} channel") for kind, n in kinds.items()]
    verb = "was" if sum(kinds.values()) == 1 else "were"
    return [f"{enumerated(parts)} {verb} left out."] if parts else []


def _features_of_sources(result):
    """Say which sources were decoded together."""
    kind, radius = result.sources["kind"], result.parameters.get("radius")
    n = sum(map(len, result.sources["vertices"]))
    space = {"surface": "cortical"}.get(kind, kind)
    sources = f"{counted(n, 'source', ',')} in a {space} source space"
    features = f"the estimates of {sources}"
    if radius is not None:
        near = f"the estimates of all sources within {number(radius)} mm of a vertex"
        features = f"{near}, among {sources}"
    if result.places.sources["vector"]:
        features += ", in three orientations"
    return f"Features were {features}"


def _channels(result):
    """Word the channels, with their types where these are known."""
    types = _channel_types(result)
    by_type = {kind: [types.count(kind)] for kind in types}
    return channels_words([len(result.parameters["ch_names"])], by_type)


def _presumes_unit_scale(kernel):
    """Tell whether a recorded kernel, or one within it, has no width of its own."""
    if isinstance(kernel, list):
        return any(map(_presumes_unit_scale, kernel))
    return is_record(kernel) and (
        kernel.get("gamma", 1) is None
        or any(map(_presumes_unit_scale, kernel.values()))
    )


def _channel_types(result):
    """Return the types of channels, none where they are not known."""
    known = result.places.info_fif is not None
    return result.info.get_channel_types() if known else []


def _generalization(result):
    """Say what generalization over time means."""
    if tuple(result.axes.values()) != ("train_time", "test_time"):
        return []
    more = {
        "other_labels": " The labels to be predicted differed from the labels used for "
        "training.",
        "same_trials": " Training and test data were two sets of data from the same "
        "trials.",
    }.get(result.mode, "")
    return [
        "Following the temporal generalization method [@King2014], the model trained "
        f"at each training time was tested at every test time.{more}"
    ]


def _features_of_images(result):
    """Say which voxels, vertices or features were decoded together."""
    p, noun, decoded = result.parameters, result.places.noun(2), result.decoded
    sizes = result.n_features[decoded]
    if not len(sizes):
        return []
    base = result.geometry.base.noun
    many = ranged(sizes, base)
    n = counted(int(decoded.sum()), result.places.noun(1), ",")
    if base != "feature":
        many = f"{many} as features"
    if result.geometry.kind == "regions" or ("radius" not in p):
        return [f"Each of {n} was decoded separately, using {many}."]
    radius = p["radius"]
    if radius is None:
        area = "its neighbours"
    elif p.get("distance") == "edges":
        area = f"all {noun} within {counted(int(radius), 'edge')}"
    elif p.get("distance") == "geodesic":
        area = f"all {noun} within {number(radius)} mm along the surface"
    else:
        area = f"all {noun} within {number(radius)} mm"
    return [
        f"A searchlight [@Kriegeskorte2006] was centred on each of {n} and comprised "
        f"{area} ({many})."
    ]


def _plural(noun):
    return counted(2, noun).partition(" ")[2]


def _scaling(result):
    """Say how features were brought to one scale."""
    p = result.parameters
    if "standardize" in p:
        if not p["standardize"]:
            return []
        where = (
            "within each group of trials" if _has_runs(result) else "across all trials"
        )
        noun, more = _plural(result.geometry.base.noun), ""
        if p.get("n_images"):
            more = (
                f", using the means and standard deviations of all {p['n_images']} "
                f"images, of which {len(p['selected'])} were decoded"
            )
        return [
            f"Feature values ({noun}) were z-scored {where}{more}, without using the "
            "labels."
        ]
    each = " at each frequency" if "freq" in result.axes.values() else ""
    others = p.get("train_on") or result.tests_other_trials
    trials = "the training trials" if others else "all trials"
    scale = p.get("scale")
    if scale == "covariance":
        return ["Channels were whitened with a noise covariance [@Guggenmos2018]."]
    if scale == "channel":
        return [
            "Data of each channel were divided by their standard deviation across "
            f"{trials} and time points{each}."
        ]
    several = len(set(_channel_types(result))) > 1
    if scale == "auto" and (several or _presumes_unit_scale(p.get("kernel"))):
        return [
            "Data of each channel type were divided by their standard deviation across "
            f"{trials}, channels and time points{each}."
        ]
    return []


def _has_runs(result):
    """Tell whether z-scores were those of groups: some group holds several classes."""
    if result.groups is None:
        return False
    of_groups = (result.y[result.groups == each] for each in np.unique(result.groups))
    return any(len(np.unique(codes)) > 1 for codes in of_groups)


# ----------------------------------------------------------------- metric and labels


def _metrics(result):
    """Say what was scored, and what chance is."""
    parts, n_classes = [], len(result.classes)
    for metric in result.scoring:
        words = _auc(result) if metric == "roc_auc" else metric_words(metric)[0]
        if metric in result.parameters.get("pairs", {}):
            words = _of_pairs(result, metric)
        if is_of_one_class(metric) and n_classes == 2:
            words += f" of class {name(result.classes[1])}"
        elif is_of_one_class(metric):
            words += ", averaged over classes"
        chance = result.worded_chance(metric, number).replace("chance", "chance level")
        words += f" ({chance})" if chance else ""
        parts.append(words)
    what = "Performance was quantified as"
    mean = ""
    if result.n_repeats > 1:
        r, how = times_words(result.n_repeats), "new random folds"
        average = result.parameters.get("average")
        if average is not None:
            how = "trials regrouped at random"
        if average == 1:  # to equalise the classes
            how = "other trials left out at random"
        mean = (
            f" The whole procedure was run {r}, each time with {how}, and the scores "
            "were averaged."
        )
    return [f"{what} {enumerated(parts)}.{mean}"]


def _of_pairs(result, metric):
    """Word the mean over chosen pairs of classes."""
    pairs = result.parameters["pairs"][metric]
    whole = find_metric(find_metric(result.parameters["pairs_of"]).summary)
    cited = whole.words[whole.words.index("[@") :]
    if len(pairs) == 1:
        of = " and ".join(name(label) for label in pairs[0])
        return f"the {whole.label} of {of} {cited}"
    many = counted(len(pairs), "pair")
    return f"{name(metric)}, the mean {whole.label} of {many} of classes {cited}"


def _auc(result):
    """Word the area under the ROC curve: of which curves it is the mean."""
    words = metric_words("roc_auc")[0]
    over = ["classes, each against the rest,"] if len(result.classes) > 2 else []
    # Test sets of a class alone have no area: all are then ranked together.
    codes = result.y_tested
    if any(len(np.unique(codes[test])) > 1 for test in result.tests):
        over.append("test sets")
    return f"{words}, averaged over {enumerated(over)}" if over else words


def _permutations(result, alternative):
    """Say how labels were permuted, and how often."""
    n, p = result.n_permutations, result.parameters
    if not n:
        return []
    labels = "values" if p.get("task") == "regression" else "labels"
    noun, scored = "trials", f"trained and tested on the permuted {labels}"
    if result.n_repeats == 1:
        noun = f"{sample_noun(result)}s"
    if result.tests_other_trials or p.get("train_on"):
        noun = f"training {noun}"
        scored = "trained on the permuted labels and tested on the true ones"
    group = " (and the same group)" if result.groups is not None else ""
    scheme = f" {SCHEMES[p['permute']].words}" if "permute" in p else ""
    scheme = scheme.format(trials=noun, and_group=group)
    drawn = f" at random {times_words(n)}{scheme}"
    if p.get("exact"):
        ways = "the only other way" if n == 1 else f"all {n:,} other ways"
        drawn = f"{scheme} in {ways} possible, which makes the test exact"
    sentences = [
        f"To obtain a null distribution, the {labels} were permuted{drawn}, and models "
        f"were {scored} in the same way."
    ]
    if p.get("folds_by_labels"):
        sentences.append(
            f"Folds depended on the {labels} and were redrawn for each permutation."
        )
    if result.n_repeats > 1 and p.get("average"):
        sentences.append(
            "Labels were permuted at the level of single trials, before averaging."
        )
    sentences.append(
        "*p*-values were computed as (*b* + 1) / (*P* + 1), where *b* is the number of "
        f"the *P* permutations (*P* = {n:,}) whose score was "
        f"{_AS_EXTREME[alternative]} [@Phipson2010]."
    )
    if result.axes:
        places = result.places.noun(2)
        sentences.append(f"The same permutations were used at all {places}.")
    return sentences + _second_test(result)


def _second_test(result):
    """Say what is tested twice in time generalization."""
    if not result.is_tested_twice:
        return []
    but = ""
    if result.mode == "plain":
        but = (
            ", except at equal training and test times, where only the first test "
            "applies"
        )
    return [f"{second_test(result.parameters)}{but}."]
