"""The sections of a page about a result, in their order.

A new section is one entry of SECTIONS: a function that returns HTML, or "" for results
that have nothing to show there.
"""

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from html import escape

import numpy as np
import pandas as pd

from ..decoding.design import design_of
from ..inference.corrections import is_of_clusters, is_of_maximum
from ..metrics.names import mean_of_permuted
from ..results.base import SubjectResult
from ..results.finding import Finding
from ..results.group import TestedMap
from ..results.latency import Latency
from ..utils.plain import as_call, is_record
from ..utils.rounding import percent
from ..viz.brains import fits_glass_brain, kinds_of
from ..viz.common import (
    BOUND,
    CORRECTION_LABELS,
    draw_apart,
    label_of,
    names_of_two,
)
from ..viz.confusion import find_confusion, plot_confusion, plot_recall
from ..viz.diagnostics import plot_predictions, plot_roc
from ..viz.interactive import views_of
from ..viz.patterns import part_to_draw
from .claims import claims_of
from .figures import plot_channel_patterns
from .findings import named_first
from .html import (
    SCORES,
    facts_html,
    figure_html,
    folded,
    paragraph,
    table_html,
    view_html,
)
from .methods import methods_text
from .summary import (
    has_scores,
    heading,
    word_answer,
    word_question,
)
from .verified import verification_html


@dataclass(frozen=True)
class Section:
    """A part of a page."""

    title: str
    #: What it is filtered by, a word.
    tag: str
    #: Result -> HTML, "" without anything to show.
    make: Callable[..., str]
    #: Whether that also takes the corrections whose p-values are shown, a tuple.
    by_correction: bool = False
    #: Whether it is left out of pages about many results.
    is_large: bool = False
    #: Whether that also takes the file that a result was read from, or None.
    by_file: bool = False

    def html(self, result, corrections, path=None):
        """Return what the section has of a result."""
        more = (corrections,) if self.by_correction else ()
        return self.make(result, *more, *((path,) if self.by_file else ()))


def _draw(plot, alternative, caption="", **options):
    """Return the HTML of what a function or method plots."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of fonts without some letter
            figure = draw_apart(plot, **options)
            return figure_html(figure, alternative, caption)
    # Names from data may be what matplotlib cannot draw; all else is worth showing.
    except Exception as error:
        return paragraph(f"This figure could not be drawn: {error}", "warning")


# ------------------------------------------------------------- what was asked, found


def _summary(result, corrections):
    """Return what was asked, what was found, and what of it can be claimed."""
    words = "" if isinstance(result, Latency) else " ".join(named_first(result))
    answer = word_answer(result, *corrections[:1])
    lead = paragraph(word_question(result)) + paragraph(answer, "lead")
    return lead + (paragraph(words) if words else "") + _claims(result, corrections)


def _claims(result, corrections):
    """Return what can be claimed, and below it what cannot."""
    table = pd.DataFrame(claims_of(result, corrections))
    said = table[table["statement"] != ""].drop(columns="missing")
    missing = table[table["statement"] == ""][["claim", "missing"]]
    said["confidence"] = [
        "" if np.isnan(each) else f"{100 * each:g} %" for each in said["confidence"]
    ]
    html = ""
    if len(said):
        shown = table_html(said.drop(columns="bound"))
        html = paragraph("What can be claimed:") + shown
    if len(missing):
        html += folded("What cannot be claimed, and why", table_html(missing))
    return html


def _warnings(result):
    """Return what the run warned of, and what the runs of subjects of a group did."""
    return "".join(paragraph(text, "warning") for text in result.warnings)


# ----------------------------------------------------------------------------- figures


def _scores(result, corrections):
    """Return the figures of the scores, for every correction."""
    if not isinstance(result, Latency):
        if not has_scores(result) or not (result.axes or result.has_p):
            return ""  # or a number without permutations: there is nothing to draw
    views = {None: ""}
    if result.geometry is not None:
        views = _brain_views(result)
    found = []
    for name in corrections or (None,):
        answer, options = word_answer(result, name), {}
        if name is not None and result.axes:
            options["correction"] = name
        for kind, view in views.items():
            options |= {} if kind is None else {"kind": kind}
            alternative = f"{heading(result)}{view and f', {view}'}. {answer}"
            found.append(_draw(result.plot, alternative, **options))
    return "".join(found)


def _view(result):
    """Return an interactive view of the scores in a brain, if there is one."""
    space = result.geometry
    if space is None or not views_of(space) or not has_scores(result):
        return ""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of many views in one process
            return view_html(result.view())
    except ImportError as error:  # of plotly
        return paragraph(f"{error}")
    except Exception as error:  # of nilearn: all else is worth showing
        return paragraph(f"There is no interactive view: {error}", "warning")


def _brain_views(result):
    """Return the figures of a map in a brain: kind -> what it shows."""
    space = result.geometry
    words = {
        "bar": f"one row per {space.noun}",
        "stat_map": "slices",
        "surface": "surfaces",
        "glass_brain": "through a glass brain",
    }
    kinds = list(kinds_of(space))
    if "glass_brain" in kinds and not fits_glass_brain(space.base):
        kinds.remove("glass_brain")
    # One row for each of many voxels is worth showing only where nothing else is.
    return {kind: words[kind] for kind in kinds if kind != "bar" or kind == kinds[0]}


def _maps(result):
    """Return the other maps of a group: of its statistic, and of its prevalence."""
    if not isinstance(result, TestedMap) or len(result.axes) == 0:
        return ""
    names = ["statistic", BOUND] if result.axes != {"times": "time"} else ["statistic"]
    return "".join(
        _draw(result.plot, f"{label_of(result, name)} over positions.", metric=name)
        for name in names
        if name in result.metrics
    )


def _null(result, corrections):
    """Return the null distribution that the whole map is tested against."""
    if isinstance(result, Latency) or not result.has_p:
        return ""
    if result.axes and not any(map(is_of_maximum, corrections)):
        return ""  # it is not the one that the p-values of the page come from
    if isinstance(result, TestedMap):
        if not len(result.null_max):
            return ""
        return _draw(result.plot_null, _NULL_WORDS.format("the tested statistic"))
    if not result.axes or not result.scalar_metrics:
        return ""  # a single number is drawn on its null already
    metric = result.scalar_metrics[0]
    return _draw(
        result.plot_null,
        _NULL_WORDS.format(label_of(result, metric)),
        "Each permutation contributes the highest score of its map.",
        metric=metric,
        alpha=result.significance_level,
    )


_NULL_WORDS = (
    "Histogram of the largest value of {} over all positions, one for each "
    "permutation, with that of the data as a line."
)

#: Name of a figure of single trials -> what draws it, and what it shows.
_MORE_FIGURES = {
    "plot_roc": (
        plot_roc,
        "ROC curve: true positive rate against false positive rate.",
    ),
    "plot_predictions": (
        plot_predictions,
        "Predicted against true values of all trials.",
    ),
}


def _trials(result):
    """Return the figures of single trials' predictions."""
    found = []
    for name in result.trial_figures:
        draw, alternative = _MORE_FIGURES[name]
        if name == "plot_roc" and len(result.classes) > 2:
            continue
        found.append(_draw(draw, alternative, result=result))
    return "".join(found)


def _confusion(result):
    """Return what was taken for what where scores are highest, and recall over time."""
    if not isinstance(result, SubjectResult) or not len(result.classes):
        return ""
    if not has_scores(result):
        return ""
    found = find_confusion(result)
    shares = (
        f"{name} {percent(share)}"
        for name, share in zip(result.classes, found.recall, strict=True)
    )
    where = f" {found.where[:1].lower()}{found.where[1:]}" if found.where else ""
    words = f"Confusion matrix{where}. Recall: {', '.join(shares)}."
    html = _draw(plot_confusion, words, result=result)
    if [*result.axes] == ["times"]:
        html += _draw(plot_recall, "Recall of each class over time.", result=result)
    return html


def _patterns(result):
    """Return the activation patterns where the scores are highest."""
    if not result.has_patterns or not result.scalar_metrics:
        return ""
    if result.geometry is not None:
        return _region_patterns(result)
    if result.places.info_fif is None:
        return ""
    return _draw(
        plot_channel_patterns,
        "Activation pattern of each class at the position with the highest score.",
        "Difference between the signal of each class and the mean of all trials, as "
        "represented in the model, at the highest score.",
        result=result,
    )


def _region_patterns(result):
    """Return the activation patterns of regions, if they have a place in a brain."""
    if part_to_draw(result.geometry.base)[0] is None:
        return ""
    return _draw(
        result.plot_patterns,
        "Activation pattern of each class in the brain.",
        "Difference between the signal of each class and the mean of all trials, as "
        "represented in the model of each region. Only patterns of regions with scores "
        "above chance can be interpreted.",
    )


def _penalty(result):
    """Return how the penalty was chosen, where it was."""
    if not result.is_tuned:
        return ""
    return _draw(
        result.plot_tuning, "Selection of the penalty within the training sets."
    )


# ------------------------------------------------------------------------------ tables


def _peaks(result, corrections):
    """Return the highest scores, and the peaks or clusters of what is significant."""
    if isinstance(result, Latency):
        names = {"low": "from (s)", "high": "to (s)", "without": "resamples without"}
        return table_html(result.to_dataframe().rename(columns=names))
    if not result.axes:
        return table_html(result.to_dataframe())
    if not has_scores(result):
        return ""
    noun = "difference" if result.is_difference else "score"
    html = [paragraph(f"The {Finding(result).worded(noun)} of the map.")]
    html.append(table_html(_best_of_metrics(result, *corrections[:1])))
    html += [_tested(result, correction) for correction in corrections]
    return "".join(html)


def _tested(result, correction):
    """Return the peaks or clusters of what is significant under a correction."""
    try:
        table, what = _significant(result, correction)
    except ValueError as error:  # a score of the permutations is NaN, for example
        return paragraph(f"No test was possible: {error}", "warning")
    test = CORRECTION_LABELS[correction]
    if table.empty:
        return paragraph(f"No {result.places.noun(1)} is significant ({test}).")
    return paragraph(f"{what} ({test}).") + table_html(table)


def _best_of_metrics(result, correction=None):
    """Return a table with the highest score of every metric, and where it is."""
    correction = correction or result.default_correction
    of_one = isinstance(result, TestedMap)
    rows = []
    for name in [result.metric] if of_one else result.scalar_metrics:
        chance = result.chances[name]
        options = {} if of_one else {"metric": name}
        peak = result.peak(correction, **options)
        place = {key: value for key, value in peak.items() if not _is_value(key, name)}
        p = {key: value for key, value in peak.items() if _is_p(key)}
        best = {"metric": label_of(result, name), "score": peak[name], "chance": chance}
        best[mean_of_permuted(name)] = result.permuted_mean(name)
        rows.append(best | place | p)
    table = pd.DataFrame(rows)
    # What there is no level of chance for has no such column, nor what is at chance.
    levels = [x for x in table if x in SCORES and table[x].isna().all()]
    return table.drop(columns=levels)


def _is_p(column):
    """Tell whether a column holds p-values."""
    return column == "p" or column.startswith("p_")


def _is_value(column, metric):
    """Tell what was found from where it was found."""
    return _is_p(column) or column == metric


def _significant(result, correction):
    """Return the table of peaks in a brain, or else of clusters, and what it is of."""
    alpha = result.significance_level
    if result.geometry is not None:
        noun = result.places.noun(2)
        what = f"Peaks of the {noun} with p ≤ {alpha:g}"
        return result.peaks(correction, alpha=alpha), what
    of_clusters = is_of_clusters(correction)
    connected = f"Connected {result.places.noun(2)} with p ≤ {alpha:g}"
    unit = "s" if result.geometry is None else "mm"
    table = result.clusters(correction).rename(
        columns={name: f"{name} ({unit})" for name in ("from", "to")}
    )
    return table, "Clusters" if of_clusters else connected


def _subjects(result):
    """Return the scores of every subject where those of the group are highest."""
    if not result.has_subjects:
        return ""
    best = result.best_position(result.metric)
    lists = {None: (result.subjects, result.subject_scores)}
    if result.other_scores is not None:
        first, second = names_of_two(result)
        lists = {first: lists[None]}
        lists[second] = (result.other_subjects, result.other_scores)
    tables = []
    for name, (subjects, scores) in lists.items():
        table = pd.DataFrame({"subject": subjects})
        table["score"] = scores.reshape(len(subjects), -1)[:, best]
        if name is not None:
            table.insert(0, "list", name)
        tables.append(table)
    where = f" {result.places.at(best)}" if result.axes else ""
    table = pd.concat(tables, ignore_index=True).assign(**_numbers(result))
    html = table_html(table)
    return folded(f"Scores of each subject{where}", html)


#: Numbers that a group keeps of each subject -> their column.
_NUMBERS = {
    "n_trials": "trials",
    "n_groups": "groups",
    "n_folds": "folds",
    "n_confounds": "confounds",
    "n_permutations": "permutations",
}


def _numbers(result):
    """Return numbers of each subject, which make scores more or less precise."""
    shared = result.parameters.get("first_level") or {}
    numbers = {column: shared.get(name) for name, column in _NUMBERS.items()}
    return {column: values for column, values in numbers.items() if np.any(values)}


def _design(result):
    """Return the trials by group, class and fold, and what was exchanged."""
    if not isinstance(result, SubjectResult):
        return ""
    design = design_of(result)
    alternative = (
        "Trials by group, class and fold, and the sets within which labels are "
        f"permuted: {design.facts['Trials']}."
    )
    new = [each.text for each in design.problems if each.text not in result.warnings]
    return (
        _draw(design.plot, alternative)
        + folded("Trials in numbers", table_html(design.table.reset_index()))
        + "".join(paragraph(text, "warning") for text in new)
    )


def _methods(result, corrections):
    """Return the paragraphs for a paper, and what they cite."""
    options = {}
    if corrections and result.axes:
        options["correction"] = corrections[0]
    text, _, references = methods_text(result, **options).partition(
        "\n\nReferences\n\n"
    )
    cited = folded("References", _paragraphs(references))
    bibtex = f"<pre>{escape(methods_text(result, style='bibtex', **options))}</pre>"
    return _paragraphs(text) + cited + folded("BibTeX", bibtex)


def _paragraphs(text):
    """Return a text of paragraphs as HTML."""
    return "".join(map(paragraph, text.split("\n\n")))


def _details(result):
    """Return the parameters, and the versions of the packages."""
    parameters = dict(_flat(result.parameters))
    made = facts_html(parameters) if parameters else ""
    versions = facts_html(result.versions) if result.versions else ""
    return folded("Parameters", made) * bool(made) + (
        folded("Versions of the packages", versions) * bool(versions)
    )


def _flat(parameters, before=""):
    """Return the names and values of nested parameters, in pairs."""
    for name, value in parameters.items():
        words = f"{before}{name}"
        if is_record(value):
            yield words, as_call(value)
        elif isinstance(value, list) and any(map(is_record, value)):
            yield words, ", ".join(map(as_call, value))
        elif isinstance(value, dict) and value:
            yield from _flat(value, f"{words}: ")
        else:
            yield words, value


#: The sections of a page, in their order.
SECTIONS = (
    Section("Summary", "summary", _summary, by_correction=True),
    Section("Warnings of the run", "warnings", _warnings),
    Section("Scores", "scores", _scores, by_correction=True),
    Section("Interactive view", "scores", _view, is_large=True),
    Section("Statistic", "scores", _maps),
    Section("Null distribution", "inference", _null, by_correction=True),
    Section("Peaks", "inference", _peaks, by_correction=True),
    Section("Subjects", "scores", _subjects),
    Section("Predictions", "predictions", _trials),
    Section("Confusion", "predictions", _confusion),
    Section("Activation patterns", "patterns", _patterns),
    Section("Design", "design", _design),
    Section("Penalty", "methods", _penalty),
    Section("Methods", "methods", _methods, by_correction=True),
    Section("Verification", "methods", verification_html, by_file=True),
    Section("Parameters and versions", "methods", _details),
)
