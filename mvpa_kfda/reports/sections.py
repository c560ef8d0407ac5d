"""The sections of a page about a result, in their order.

A new section is one entry of SECTIONS: a function that yields pieces of HTML, none for
results that have nothing to show there.
"""

import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np
import pandas as pd

from ..decoding.design import design_of
from ..inference.corrections import is_of_clusters, is_of_maximum
from ..metrics.scores import mean_of_permuted
from ..results.base import SubjectResult
from ..results.finding import Finding
from ..results.group import TestedMap
from ..results.latency import Latency
from ..utils.plain import as_call, is_record
from ..utils.rounding import percent
from ..viz.brains import fits_glass_brain, kinds_of, part_to_draw
from ..viz.confusion import find_confusion, plot_confusion, plot_recall
from ..viz.diagnostics import plot_predictions, plot_roc
from ..viz.interactive import views_of
from ..viz.style import (
    BOUND,
    CORRECTION_LABELS,
    draw_apart,
    label_of,
    names_of_two,
)
from .claims import claims_of
from .figures import plot_channel_patterns
from .findings import named_first
from .html import (
    SCORES,
    facts_html,
    figure_html,
    folded,
    joined,
    paragraph,
    part,
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
    #: Result and what it needs -> pieces of HTML.
    make: Callable[..., Iterable[str]]
    #: What it needs besides: the corrections whose p-values are shown, a tuple, or the
    #: path of the file that a result was read from, or None.
    needs: str = ""
    #: Whether it is left out of pages about many results.
    is_large: bool = False

    def html(self, result, corrections, path=None):
        """What the section has of a result."""
        more = {"": (), "corrections": (corrections,), "path": (path,)}[self.needs]
        return joined(self.make(result, *more))


def _draw(plot, alternative, caption="", **options):
    """What a function or method plots."""
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
    """What was asked, what was found, and what of it can be claimed."""
    yield paragraph(word_question(result))
    yield paragraph(word_answer(result, *corrections[:1]), "lead")
    if words := "" if isinstance(result, Latency) else named_first(result):
        yield paragraph(words)
    table = pd.DataFrame(claims_of(result, corrections))
    said = table[table["statement"] != ""].drop(columns="missing")
    missing = table[table["statement"] == ""][["claim", "missing"]]
    said["confidence"] = [
        "" if np.isnan(each) else f"{100 * each:g} %" for each in said["confidence"]
    ]
    if len(said):
        yield paragraph("What can be claimed:")
        yield table_html(said.drop(columns="bound"))
    if len(missing):
        yield folded("What cannot be claimed, and why", table_html(missing))


def _warnings(result):
    """What the run warned of, and what the runs of subjects of a group did."""
    return (paragraph(text, "warning") for text in result.warnings)


# ----------------------------------------------------------------------------- figures


def _scores(result, corrections):
    """The figures of the scores, for every correction."""
    if not isinstance(result, Latency):
        if not has_scores(result) or not (result.axes or result.has_p):
            return  # or a number without permutations: there is nothing to draw
    kinds = {None: ""} if result.geometry is None else _brain_views(result)
    for name in corrections or (None,):
        answer = word_answer(result, name)
        for kind, view in kinds.items():
            options = {
                "correction": name if name and result.axes else None,
                "kind": kind,
            }
            options = {key: value for key, value in options.items() if value}
            alternative = f"{heading(result)}{view and f', {view}'}. {answer}"
            yield _draw(result.plot, alternative, **options)


def _view(result):
    """An interactive view of the scores in a brain, if there is one."""
    space = result.geometry
    if space is None or not views_of(space) or not has_scores(result):
        return
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of many views in one process
            yield view_html(result.view())
    except ImportError as error:  # of plotly
        yield paragraph(f"{error}")
    except Exception as error:  # of nilearn: all else is worth showing
        yield paragraph(f"There is no interactive view: {error}", "warning")


def _brain_views(result):
    """The figures of a map in a brain: kind -> what it shows."""
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
    """The other maps of a group: of its statistic, and of its prevalence."""
    if not isinstance(result, TestedMap) or not result.axes:
        return
    names = ["statistic", BOUND] if result.axes != {"times": "time"} else ["statistic"]
    for name in names:
        if name in result.metrics:
            words = f"{label_of(result, name)} over positions."
            yield _draw(result.plot, words, metric=name)


_HIGHEST = "Each permutation contributes the highest score of its map."


def _null(result, corrections):
    """The null distribution that the whole map is tested against."""
    if isinstance(result, Latency) or not result.has_p:
        return
    is_single = result.places.n_positions == 1
    if not is_single and not any(map(is_of_maximum, corrections)):
        return  # it is not the one that the p-values of the page come from
    of_all = "the largest value of {} over all positions"
    words = (
        f"Histogram of {'{}' if is_single else of_all}, one for each permutation, with "
        "that of the data as a line."
    )
    if isinstance(result, TestedMap):
        if len(result.null_max):
            yield _draw(result.plot_null, words.format("the tested statistic"))
    elif result.axes and result.scalar_metrics:  # else the null is drawn already
        metric = result.scalar_metrics[0]
        yield _draw(
            result.plot_null,
            words.format(label_of(result, metric)),
            "" if is_single else _HIGHEST,
            metric=metric,
            alpha=result.significance_level,
        )


def _trials(result):
    """The figures of single trials' predictions."""
    if "plot_roc" in result.trial_figures and len(result.classes) <= 2:
        words = "ROC curve: true positive rate against false positive rate."
        yield _draw(plot_roc, words, result=result)
    if "plot_predictions" in result.trial_figures:
        words = "Predicted against true values of all trials."
        yield _draw(plot_predictions, words, result=result)


def _confusion(result):
    """What was taken for what where scores are highest, and recall over time."""
    if not isinstance(result, SubjectResult) or not len(result.classes):
        return
    if not has_scores(result) or result.parameters.get("warped"):
        return
    found = find_confusion(result)
    shares = (
        f"{name} {percent(share)}"
        for name, share in zip(result.classes, found.recall, strict=True)
    )
    where = f" {found.where[:1].lower()}{found.where[1:]}" if found.where else ""
    words = f"Confusion matrix{where}. Recall: {', '.join(shares)}."
    yield _draw(plot_confusion, words, result=result)
    if [*result.axes] == ["times"]:
        yield _draw(plot_recall, "Recall of each class over time.", result=result)


def _patterns(result):
    """The activation patterns where the scores are highest, or those of regions."""
    if not result.has_patterns or not result.scalar_metrics:
        return
    signal = (
        "Difference between the signal of each class and the mean of all trials, as "
        "represented in the model"
    )
    if result.geometry is not None:
        if part_to_draw(result.geometry.base)[0] is not None:
            yield _draw(
                result.plot_patterns,
                "Activation pattern of each class in the brain.",
                f"{signal} of each region. Only patterns of regions with scores above "
                "chance can be interpreted.",
            )
    elif result.places.info_fif is not None:
        yield _draw(
            plot_channel_patterns,
            "Activation pattern of each class at the position with the highest score.",
            f"{signal}, at the highest score.",
            result=result,
        )


def _penalty(result):
    """How the penalty was chosen, where it was."""
    if result.is_tuned:
        words = "Selection of the penalty within the training sets."
        yield _draw(result.plot_tuning, words)


# ------------------------------------------------------------------------------ tables


def _peaks(result, corrections):
    """The highest scores, and the peaks or clusters of what is significant."""
    if isinstance(result, Latency):
        names = {"low": "from (s)", "high": "to (s)", "without": "resamples without"}
        yield table_html(result.to_dataframe().rename(columns=names))
    elif not result.axes:
        yield table_html(result.to_dataframe())
    elif has_scores(result):
        noun = "difference" if result.is_difference else "score"
        yield paragraph(f"The {Finding(result).worded(noun)} of the map.")
        yield table_html(_best_of_metrics(result, *corrections[:1]))
        for correction in corrections:
            yield from _significant(result, correction)


def _best_of_metrics(result, correction=None):
    """A table with the highest score of every metric, and where it is."""
    correction = correction or result.default_correction
    of_one = isinstance(result, TestedMap)
    rows = []
    for name in [result.metric] if of_one else result.scalar_metrics:
        chance = result.chances[name]
        options = {} if of_one else {"metric": name}
        peak = result.peak(correction, **options)
        p = {key: value for key, value in peak.items() if _is_p(key)}
        place = {k: value for k, value in peak.items() if k not in (name, *p)}
        best = {"metric": label_of(result, name), "score": peak[name], "chance": chance}
        best[mean_of_permuted(name)] = result.permuted_mean(name)
        rows.append(best | place | p)
    table = pd.DataFrame(rows)
    # What there is no level of chance for has no such column, nor what is at chance.
    levels = [x for x in table if x in SCORES and table[x].isna().all()]
    return table.drop(columns=levels)


def _is_p(column):
    """Whether a column holds p-values."""
    return column == "p" or column.startswith("p_")


def _significant(result, correction):
    """The peaks in a brain, or else the clusters, of what is significant."""
    alpha, test = result.significance_level, CORRECTION_LABELS[correction]
    noun, in_brain = result.places.noun(2), result.geometry is not None
    try:
        if in_brain:
            what = f"Peaks of the {noun} with p ≤ {alpha:g}"
            table = result.peaks(correction, alpha=alpha)
        else:
            what = f"Connected {noun} with p ≤ {alpha:g}"
            what = "Clusters" if is_of_clusters(correction) else what
            table = result.clusters(correction)
            table = table.rename(columns={x: f"{x} (s)" for x in ("from", "to")})
    except ValueError as error:  # a score of the permutations is NaN, for example
        yield paragraph(f"No test was possible: {error}", "warning")
        return
    if table.empty:
        yield paragraph(f"No {result.places.noun(1)} is significant ({test}).")
    else:
        yield paragraph(f"{what} ({test}).")
        yield table_html(table)


#: Numbers that a group keeps of each subject, which make scores more or less precise.
_NUMBERS = ("trials", "groups", "folds", "confounds", "permutations")


def _subjects(result):
    """The scores of every subject where those of the group are highest."""
    if not result.has_subjects:
        return
    best = result.best_position(result.metric)
    lists = [(result.subjects, result.subject_scores)]
    names = names_of_two(result) if result.other_scores is not None else [None]
    if result.other_scores is not None:
        lists.append((result.other_subjects, result.other_scores))
    tables = []
    for name, (subjects, scores) in zip(names, lists, strict=True):
        columns = {} if name is None else {"list": name}
        columns |= {"subject": subjects}
        columns |= {"score": scores.reshape(len(subjects), -1)[:, best]}
        tables.append(pd.DataFrame(columns))
    table = pd.concat(tables, ignore_index=True)
    shared = result.parameters.get("first_level") or {}
    for column in _NUMBERS:
        if np.any(shared.get(f"n_{column}")):
            table[column] = shared[f"n_{column}"]
    where = f" {result.places.at(best)}" if result.axes else ""
    yield folded(f"Scores of each subject{where}", table_html(table))


def _design(result):
    """The trials by group, class and fold, and what was exchanged."""
    if not isinstance(result, SubjectResult):
        return
    design = design_of(result)
    yield _draw(
        design.plot,
        "Trials by group, class and fold, and the sets within which labels are "
        f"permuted: {design.facts['Trials']}.",
    )
    yield folded("Trials in numbers", table_html(design.table.reset_index()))
    for problem in design.problems:
        if problem.text not in result.warnings:
            yield paragraph(problem.text, "warning")


def _methods(result, corrections):
    """The paragraphs for a paper, and what they cite."""
    options = {"correction": corrections[0]} if corrections and result.axes else {}
    text = methods_text(result, **options)
    text, _, references = text.partition("\n\nReferences\n\n")
    yield from map(paragraph, text.split("\n\n"))
    yield folded("References", joined(map(paragraph, references.split("\n\n"))))
    yield folded("BibTeX", part("code", methods_text(result, "bibtex", **options)))


def _verification(result, path):
    yield verification_html(result, path)


def _details(result):
    """The parameters, and the versions of the packages."""
    if parameters := dict(_flat(result.parameters)):
        yield folded("Parameters", facts_html(parameters))
    if result.versions:
        yield folded("Versions of the packages", facts_html(result.versions))


def _flat(parameters, before=""):
    """The names and values of nested parameters, in pairs."""
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
    Section("Summary", "summary", _summary, needs="corrections"),
    Section("Warnings of the run", "warnings", _warnings),
    Section("Scores", "scores", _scores, needs="corrections"),
    Section("Interactive view", "scores", _view, is_large=True),
    Section("Statistic", "scores", _maps),
    Section("Null distribution", "inference", _null, needs="corrections"),
    Section("Peaks", "inference", _peaks, needs="corrections"),
    Section("Subjects", "scores", _subjects),
    Section("Predictions", "predictions", _trials),
    Section("Confusion", "predictions", _confusion),
    Section("Activation patterns", "patterns", _patterns),
    Section("Design", "design", _design),
    Section("Penalty", "methods", _penalty),
    Section("Methods", "methods", _methods, needs="corrections"),
    Section("Verification", "methods", _verification, needs="path"),
    Section("Parameters and versions", "methods", _details),
)
