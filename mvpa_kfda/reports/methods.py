"""The paragraphs of a paper that say what was done and found, from a result alone.

Every sentence is made of what the result records; where that is not known, there is no
sentence. The sentences stand in the folder `templates`; what is called how stands in
`mvpa_kfda.reports.vocabulary`, what is cited in `mvpa_kfda.reports.citations`; groups,
comparisons and latencies are the matter of `mvpa_kfda.reports.groups`.
"""

from __future__ import annotations

from typing import Any, Literal

import numpy as np

from ..inference.corrections import CorrectionName
from ..inference.null import Alternative, check_level
from ..inference.permutation import SCHEMES
from ..kfda.penalties import MOST_OF_SECOND
from ..metrics.scores import find_metric, is_of_one_class
from ..results.base import Result, SubjectResult
from ..results.group import ComparisonResult, GroupResult
from ..results.latency import Latency
from ..utils.advice import advice
from ..utils.checks import check_option, check_share, counted, enumerated
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
from .settings import is_foldwise, is_tuned, model_of, named_groups, recordings_of
from .templating import Record, written
from .vocabulary import channels_words, metric_words, splitter_words


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
    """The paragraphs of the result of one subject."""
    if not result.has_p:
        names = ("correction", "alpha", "threshold", "alternative")
        asked.refuse(names, "has no label permutations, so no p-values")
    asked = asked.completed("none" if result.places.n_positions == 1 else "max")
    p, repeats = Record(result.parameters), result.n_repeats
    averaged = result.members is not None and np.shape(result.members)[1] > 1
    noun = "pseudo-trial" if averaged else "trial"
    n_folds = len(result.tests) // repeats
    sizes = [[*map(len, fold)] for fold in result.folds]
    trained, tested = _trained_and_tested(result)
    groups = np.empty(0) if result.groups is None else result.groups
    of_groups = [result.y[groups == each] for each in np.unique(groups)]
    has_groups = len(of_groups) < len(groups)
    used = {*map(sum, sizes)}  # trials of training and test sets
    has_subsets = not result.tests_other_trials and used != {len(result.y) // repeats}
    types, channels = [], ""
    if result.places.info_fif is not None:
        types = result.info.get_channel_types()
    if "ch_names" in p:
        by_type = {kind: [types.count(kind)] for kind in types}
        channels = channels_words([len(p["ch_names"])], by_type)
    texts = written(
        "subject.txt",
        result=result,
        p=p,
        alternative=asked.alternative,
        places=result.places,
        at=positions_of(result.places),
        columns=tuple(result.axes.values()),
        noun=noun,
        trained=trained,
        tested=tested,
        recordings=recordings_of(p),
        channels=channels,
        has_runs=any(len(np.unique(codes)) > 1 for codes in of_groups),
        is_scaled=len({*types}) > 1 or _presumes_unit_scale(p["kernel"]),
        model=" ".join(model_of(p, has_groups, has_subsets)),
        splitter=splitter_words(p["cv"], n_folds) if p["cv"] else None,
        n_folds=n_folds,
        training_sizes=[train for train, _ in sizes[:n_folds]],
        test_sizes=[test for _, test in sizes[:n_folds]],
        n_groups=len(of_groups),
        is_foldwise=is_foldwise(p),
        is_tuned=is_tuned(p),
        metrics=[_measured(result, metric) for metric in result.scoring],
        exploratory=named_first(result),
        scheme=_scheme(result, noun),
        most_of_second=MOST_OF_SECOND,
        corrected=inference_of(result, asked),
        found=found_of(result, asked.correction, asked.alpha, **asked.options),
        software=software_of(result.versions, result),
    )
    return named_groups(texts, p)


#: Kind of result -> its paragraphs, the first that fits.
WRITERS: dict[type[Any], Any] = {
    SubjectResult: _subject_paragraphs,
    GroupResult: group_paragraphs,
    ComparisonResult: comparison_paragraphs,
    Latency: latency_paragraphs,
}


def _trained_and_tested(result):
    """The trials of each class that are trained with and, if others, tested."""
    if result.parameters.get("task") == "regression":
        return None, None

    def counts(codes, repeats=result.n_repeats):
        return np.bincount(codes, minlength=len(result.classes)) // repeats

    if result.tests_other_trials:
        return counts(result.y), counts(result.y_test, 1)
    if result.train_rows is None:
        return counts(result.y), None
    return counts(result.y[result.train_rows]), counts(result.true_classes)


def _presumes_unit_scale(kernel):
    """Whether a recorded kernel, or one within it, has no width of its own."""
    if isinstance(kernel, list):
        return any(map(_presumes_unit_scale, kernel))
    return is_record(kernel) and (
        kernel.get("gamma", 1) is None
        or any(map(_presumes_unit_scale, kernel.values()))
    )


def _scheme(result, noun):
    """The words on what labels were permuted among."""
    p = result.parameters
    if "permute" not in p:
        return ""
    trials = f"{noun}s" if result.n_repeats == 1 else "trials"
    if result.tests_other_trials or p.get("train_on"):
        trials = f"training {trials}"
    scheme, grouped = SCHEMES[p["permute"]], result.groups is not None
    words = scheme.words.format(
        trials=trials,
        and_group=" (and the same group)" if grouped else "",
        of_group=" of the same group" if grouped else "",
    )
    return f" {words}" + (f" [@{scheme.source}]" if scheme.source else "")


def _measured(result, metric):
    """The words on a metric, what it is the mean over, and its chance level."""
    n_classes, words = len(result.classes), metric_words(metric)[0]
    entry = find_metric(metric)
    one, over = is_of_one_class(metric), []
    if one and n_classes == 2:
        words += f" of class {name(result.classes[1])}"
    elif one:
        over.append("classes")
    if entry is not None and entry.of_ranks:
        over = ["classes, each against the rest,"] if n_classes > 2 else []
        # Test sets of a class alone have no area: all are then ranked together.
        codes = result.y_tested
        if any(len(np.unique(codes[test])) > 1 for test in result.tests):
            over.append("test sets")
    words += f", averaged over {enumerated(over)}" if over else ""
    if metric in result.parameters.get("pairs", {}):
        words = _of_pairs(result, metric)
    chance = result.worded_chance(metric, number).replace("chance", "chance level")
    return words + (f" ({chance})" if chance else "")


def _of_pairs(result, metric):
    """The words on the mean over chosen pairs of classes."""
    pairs = result.parameters["pairs"][metric]
    whole = find_metric(find_metric(result.parameters["pairs_of"]).summary)
    cited = whole.words[whole.words.index("[@") :]
    if len(pairs) == 1:
        return f"the {whole.label} of {' and '.join(map(name, pairs[0]))} {cited}"
    many = counted(len(pairs), "pair")
    return f"{name(metric)}, the mean {whole.label} of {many} of classes {cited}"
