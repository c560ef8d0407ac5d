"""What results allow to be claimed: where, from when, how much, how many, how large.

Each claim has a guarantee of its own, and a result that gives one need not give the
next. A rung of the LADDER looks for its guarantee in a result: it returns what is
`Said`, or in words what is missing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ..inference.corrections import CORRECTIONS, NAMED
from ..metrics.names import mean_of_permuted, metric_in_text
from ..results.base import ALPHA, Result, SubjectResult
from ..results.comparison import ComparisonResult
from ..results.finding import Finding
from ..results.latency import Latency
from ..utils.checks import capital
from ..utils.rounding import brief, p_words
from ..viz.style import (
    CORRECTION_LABELS,
    limits_of,
    names_of_two,
    score_in_text,
)
from .citations import REFERENCES, cited_in
from .summary import by_name, corrections_of, has_scores

if TYPE_CHECKING:
    from pandas import DataFrame

#: The columns of the table; with several results, their names come first.
COLUMNS = ("claim", "statement", "bound", "confidence", "method", "source", "missing")


class Said(NamedTuple):
    """A claim that a result allows."""

    statement: str
    #: The number in it that is a bound; NaN without one.
    bound: float
    method: str
    #: Keys of the references.
    keys: Sequence[str] = ()
    #: Whether it is wrong with a probability of the level at most.
    has_confidence: bool = True
    #: The confidence, where it is not that of the level.
    confidence: float | None = None


def claims(
    results: Result | Sequence[Result] | Mapping[str, Result],
) -> DataFrame:
    """Return a table of the claims that one or several results support or do not.

    Papers make five claims, each requiring its own guarantee: **where** there is an
    effect, **from when**, **how much** of a map has one, **how many** people have one,
    and **how large** it is (at most). Statements refer to the tested data, at the
    significance level of a group, or 0.05 for results of single subjects. Unsupported
    claims are listed too, with what they would require.

    Parameters
    ----------
    results : result, sequence of results, or dict of str -> result
        Results of any function of this package or of `load_result`. Several results
        have separate rows.

    Returns
    -------
    table : pandas.DataFrame
        One row per claim, in the order above, printed with whole sentences. The
        columns are

        * ``result``: the name, only with several results,
        * ``claim``: "where", "from when", "how much", "how many" or "how large",
        * ``statement``: the sentence to report; empty if there is none,
        * ``bound``: the bound stated in it (number of positions, seconds, a proportion,
          or a score), NaN without one,
        * ``confidence``: the confidence level of the statement; NaN if a false
          discovery rate is controlled, which gives none,
        * ``method`` and ``source``: the method and its reference,
        * ``missing``: why an unsupported claim cannot be made, and what it requires.

    Raises
    ------
    TypeError, ValueError
        If an object is not a result, or if there are none.

    See Also
    --------
    report : A report on results, which begins with this table.

    Notes
    -----
    The confidence is that of each row alone, not of several rows or results jointly.
    Only the first metric, and the first correction of a group, are used, as those
    assumed to be planned. No statement claims that there is *no* effect, except the
    upper bound of "how large".

    Examples
    --------
    >>> from mvpa_kfda import claims, decode_epochs, simulate_epochs
    >>> epochs = simulate_epochs(n_classes=2, random_state=0)
    >>> result = decode_epochs(epochs, n_permutations=99, random_state=0)
    >>> table = claims(result)
    >>> table["claim"].tolist()
    ['where', 'from when', 'how much', 'how many', 'how large']
    """
    from .claims_table import ClaimsTable  # imports pandas, which is slow

    named = by_name(results, "claims")
    rows = [
        {"result": name, **row}
        for name, each in named.items()
        for row in claims_of(each, corrections_of(each))
    ]
    columns = COLUMNS if len(named) == 1 else ("result", *COLUMNS)
    return ClaimsTable(rows, columns=[*columns])


def claims_of(result, corrections):
    """Return the rows of a result, tested with the first of some corrections."""
    rows = []
    for claim, find in LADDER.items():
        said = find(result, *corrections[:1])
        row = dict.fromkeys(COLUMNS, "") | {"bound": np.nan, "confidence": np.nan}
        if isinstance(said, str):
            rows.append(row | {"claim": claim, "missing": said})
            continue
        confidence = 1 - _level(result) if said.has_confidence else np.nan
        rows.append(
            row
            | {
                "claim": claim,
                "statement": said.statement,
                "bound": float(said.bound),
                "confidence": said.confidence or confidence,
                "method": said.method,
                "source": _source(said.keys),
            }
        )
    return rows


def _source(keys):
    """Return authors and year of references."""
    works = (REFERENCES[key] for key in keys)
    return "; ".join(f"{work.families} ({work.year})" for work in works)


def _level(result):
    """Return the significance level of a result."""
    return ALPHA if isinstance(result, Latency) else result.significance_level


# ------------------------------------------------------------------------ what to say


def _effect(result):
    """Word what a position with an effect has, as a clause."""
    if isinstance(result, SubjectResult):
        permuted = "labels" if len(result.classes) else "values"
        metric = metric_in_text(result.scalar_metrics[0])
        return f"{metric} is above that of permuted {permuted}"
    label, side = score_in_text(result), result.alternative
    if result.is_difference:
        is_comparison = isinstance(result, ComparisonResult)
        first, second = names_of_two(result)
        mean, verb = "" if is_comparison else "mean ", {"greater": "higher"}.get(side)
        if side == "two-sided":
            return f"{mean}{label} differs between {first} and {second}"
        return f"{mean}{label} is {verb or 'lower'} in {first} than in {second}"
    if result.method == "i-test":
        share = 100 * result.parameters["hypothesis"]
        return f"more than {share:g} % of the population have an effect"
    if result.method == "prevalence":
        return "at least one person of the population has an effect"
    if result.method == "bootstrap":
        return "at least one of these subjects has an effect"
    where = {"greater": "above", "less": "below"}.get(side, "different from")
    return f"mean {label} over the population is {where} {result.worded_level}"


def _none_significant(result):
    """Say that nothing was found, which is not that there is nothing."""
    noun = result.places.noun(1) if result.axes else ""
    what = f"No {noun} is" if noun else "The score is not"
    return (
        f"{what} significant, which does not show that there is no effect. An upper "
        "bound would: see how large."
    )


def _untested(result):
    """Say why a result has no p-values; nothing if it has some."""
    if isinstance(result, Latency):
        return "A latency is of when only; take the results that it was made of."
    if not result.scalar_metrics:
        return "The metrics are tables, which are not tested."
    if not has_scores(result):
        return "Nothing was decoded."
    if not result.has_p:
        return "The analysis had no permutations; run it with n_permutations=1000."
    return ""


# ------------------------------------------------------------------------------ where


def _where(result, name=None):
    """Say where there is an effect."""
    untested = _untested(result)
    if untested:
        return untested
    keys = cited_in(NAMED[name].words)
    if result.axes and name == "none":
        return (
            "The p-values are not corrected for testing many positions; choose a "
            'correction, such as correction="max".'
        )
    found = Finding(result, name)
    if found.untested or not found.n:
        return found.untested or _none_significant(result)
    n, of_all, effect = found.n, found.of_all, _effect(result)
    if not result.axes:
        p = p_words(found.smallest_p)
        return Said(f"{capital(effect)} ({p}).", np.nan, _test_of(result))
    method = f"{_test_of(result)}, {CORRECTION_LABELS[name]}"
    known = CORRECTIONS.get(name)
    if known is None or known.false_discovery:
        what = f"{of_all} are marked"
        if known is None:
            what = f"{of_all} are in the clusters that are marked"
        at_most = f"{100 * result.significance_level:g} %"
        statement = (
            f"{capital(what)}; of those marked, {at_most} are expected to be false "
            "at most."
        )
        return Said(statement, n, method, keys, has_confidence=False)
    if known.of_positions:
        return Said(f"At each of {of_all}, {effect}.", n, method, keys)
    n_regions = len(_regions(result, name))
    each = "one connected region" if n_regions == 1 else f"each of {n_regions} regions"
    if known.of_clusters:
        each = "one cluster" if n_regions == 1 else f"each of {n_regions} clusters"
    statement = (
        f"In {each}, {effect} somewhere; at which of the {n:,} "
        f"{result.places.noun(n)} marked is not shown."
    )
    return Said(statement, n_regions, method, keys)


def _regions(result, correction):
    """Return the table of the significant clusters, or regions of a correction."""
    table = result.clusters(correction)
    return table[table["p"] <= result.significance_level]


def _test_of(result):
    """Return what the test is called."""
    if isinstance(result, SubjectResult):
        return "label permutations"
    return result.title_parts()[0]


# -------------------------------------------------------------------------- from when

#: What shows single times of a group.
_SINGLE_TIMES = 'correction="cluster-depth" (of time courses) or correction="max"'


def _from_when(result, name=None):
    """Say by when there is an effect."""
    if isinstance(result, Latency):
        return _of_latency(result)
    untested = _untested(result)
    if untested:
        return untested
    if "times" not in result.axes:
        return "This result is not over time."
    known = CORRECTIONS.get(name)
    if known is None or not known.of_positions:
        return (
            f"With correction={name!r} no single time is shown to have an effect. Test "
            f"with {_SINGLE_TIMES}."
        )
    found = Finding(result, name)
    if found.untested:
        return found.untested
    others = tuple(k for k, axis in enumerate(result.axes) if axis != "times")
    times = result.times[found.marked.reshape(result.shape).any(axis=others)]
    if not len(times):
        return "No single time is significant."
    first = float(times.min())
    statement = (
        f"By {brief(first)} s, {_effect(result)}. That this begins then is not shown: "
        "more data may show it earlier, and filters and windows move it."
    )
    method = f"{_test_of(result)}, {CORRECTION_LABELS[name]}"
    return Said(statement, first, method, cited_in(NAMED[name].words))


def _of_latency(result):
    """Say between which times an onset lies."""
    onset, (low, high) = result.when("onset")
    if not np.isfinite([onset, low, high]).all():
        return "There is no onset, or too few resamples have one."
    metric = metric_in_text(result.metric)
    what = f"The onset of mean {metric} lies between {low:.3f} and {high:.3f} s"
    if result.parts:
        what = f"The onsets of mean {metric} are {low:+.3f} to {high:+.3f} s apart"
    return Said(
        f"{what}.", low, "bootstrap over subjects", (), confidence=result.confidence
    )


# --------------------------------------------------------------------------- how much


def _how_much(result, _=None):
    """Say how many positions have an effect, at least."""
    untested = _untested(result)
    if untested:
        return untested
    if not result.axes:
        return "This result has a single position."
    alpha = result.significance_level
    try:
        found = result.true_discoveries(alpha=alpha)
    except ValueError as error:
        return str(error)
    if not found.n_true:
        return (
            "No number of positions is shown to have an effect. The bound rises with "
            "more data, and with more permutations where these are fewer than "
            "positions."
        )
    keys = ("Blanchard2020", "Andreella2023")
    return Said(str(found), found.n_true, "true discoveries of the whole map", keys)


# --------------------------------------------------------------------------- how many

_ASK_PEOPLE = 'group_inference(results, method="i-test", order=...)'


def _how_many(result, _=None):
    """Say how many people have an effect."""
    if isinstance(result, SubjectResult):
        return f"This is one subject. Of several, {_ASK_PEOPLE} says how many."
    if isinstance(result, ComparisonResult):
        return "This compares results of the same trials, not people."
    untested = _untested(result)
    if untested:
        return untested
    if result.method == "i-test":
        return _by_order(result)
    if result.method == "prevalence":
        return _by_minimum(result)
    return (
        "This test does not show how many people have an effect: a few may carry it. "
        f"Use {_ASK_PEOPLE}, with the order chosen before scores are seen."
    )


def _by_order(result):
    """Say what an i-test found."""
    share = result.parameters["hypothesis"]
    found = Finding(result)
    if not found.n:
        return _none_significant(result)
    at = f"At each of {found.of_all}, " if result.axes else ""
    method = f"i-test of order {result.order}"
    if result.axes:
        method += f", {CORRECTION_LABELS[corrections_of(result)[0]]}"
    return Said(capital(f"{at}{_effect(result)}."), share, method, ("Hirose2021",))


def _by_minimum(result):
    """Say how many people have an effect by the prevalence bound."""
    bound = np.asarray(result.gamma_0)
    if np.isnan(bound).all():
        return "No share of the population is shown to have an effect."
    best = int(np.nanargmax(bound))
    share = float(np.ravel(bound)[best])
    at = f" {result.places.at(best)}" if result.axes else ""
    statement = f"More than {int(100 * share)} % of the population have an effect{at}."
    method = "prevalence bound by the product over subjects"
    if result.axes:
        method += ", Bonferroni-corrected"
    return Said(statement, share, method, ("Allefeld2016",))


# -------------------------------------------------------------------------- how large

#: Whether there are two groups -> what is inverted for an interval of the mean, on what
#: condition it holds, and whose method it is.
_INVERTED = {
    False: (
        "sign flips",
        "people vary symmetrically about their mean",
        "Hartigan1969",
    ),
    True: (
        "permutations of group labels",
        "people vary equally about the mean of either group",
        "Garthwaite1996",
    ),
}


def _how_large(result, _=None):
    """Say between which bounds a mean is."""
    if isinstance(result, SubjectResult):
        return (
            "Of one subject there is no interval, as folds share their training "
            "trials. Of several, group_inference(...).interval() has one."
        )
    if isinstance(result, Latency):
        return _untested(result)
    try:
        found = result.interval(1 - _level(result), simultaneous=bool(result.axes))
    except ValueError as error:
        return str(error)
    # Outwards: no more is claimed than there is.
    low, high = np.floor(1e3 * found.low) / 1e3, np.ceil(1e3 * found.high) / 1e3
    low, high = np.ravel(low), np.ravel(high)
    least, most = (-np.inf, np.inf) if result.is_difference else limits_of(result)
    low, high = np.maximum(low, least), np.minimum(high, most)
    if np.isnan(high).all():
        return "No position has an interval."
    is_comparison = isinstance(result, ComparisonResult)
    what = f"mean {score_in_text(result)} over the population"
    if result.is_difference:
        what = f"the difference in {score_in_text(result)}"
    best = result.best_position(result.metric)
    statement = f"{what} is between {low[best]:.3f} and {high[best]:.3f}"
    if not result.is_difference and np.isfinite(permuted := result.permuted_mean()):
        statement += f" ({mean_of_permuted(result.metric)} {permuted:.3f})"
    if result.axes:
        statement = f"{result.places.at(best)} {statement}"
        if np.nanmax(high) < most:
            statement += f", and nowhere above {np.nanmax(high):.3f}"
    method, keys = "permuted differences", ()
    if not is_comparison:
        draws, condition, key = _INVERTED[result.is_difference and not result.paired]
        method, keys = f"inverted {draws}", (key,)
        if result.axes:
            method, keys = f"largest t under {draws}", ("Nichols2002",)
        statement += f", if {condition}"
    if result.axes:
        method += ", all positions at once"
    return Said(capital(f"{statement}."), np.nanmax(high), method, keys)


#: Claim -> what looks for its guarantee, in the order of the ladder.
LADDER: dict[str, Callable[..., Said | str]] = {
    "where": _where,
    "from when": _from_when,
    "how much": _how_much,
    "how many": _how_many,
    "how large": _how_large,
}
