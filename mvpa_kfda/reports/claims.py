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
from ..metrics.scores import mean_of_permuted, metric_in_text
from ..results.base import Result, SubjectResult
from ..results.finding import Finding
from ..results.group import ComparisonResult
from ..results.latency import Latency
from ..utils.checks import capital
from ..utils.rounding import brief, p_words, rounded
from ..viz.style import (
    CORRECTION_LABELS,
    limits_of,
    score_in_text,
)
from .citations import REFERENCES, cited_in
from .summary import by_name, corrections_of, has_scores, two_names

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
    #: The confidence, if it is not that of the significance level; NaN for none.
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
    """The rows of a result, tested with the first of some corrections."""
    rows = []
    for claim, find in LADDER.items():
        said = _out_of_reach(result, claim) or find(result, *corrections[:1])
        row = dict.fromkeys(COLUMNS, "") | {"bound": np.nan, "confidence": np.nan}
        row["claim"] = claim
        if isinstance(said, str):
            row["missing"] = said
        else:
            works = [REFERENCES[key] for key in said.keys]
            row |= {
                "statement": said.statement,
                "bound": float(said.bound),
                "confidence": said.confidence,
                "method": said.method,
                "source": "; ".join(f"{w.families} ({w.year})" for w in works),
            }
            if said.confidence is None:
                row["confidence"] = 1 - result.significance_level
        rows.append(row)
    return rows


#: What results of one subject do not allow, and what does.
_ASK_PEOPLE = 'group_inference(results, method="i-test", order=...)'
_OF_SEVERAL = {
    "how many": f"This is one subject. Of several, {_ASK_PEOPLE} says how many.",
    "how large": "Of one subject there is no interval, as folds share their training "
    "trials. Of several, group_inference(...).interval() has one.",
}


def _out_of_reach(result, claim):
    """Why no result of its kind allows a claim, or this one has no p-values."""
    if isinstance(result, SubjectResult) and claim in _OF_SEVERAL:
        return _OF_SEVERAL[claim]
    if isinstance(result, ComparisonResult) and claim == "how many":
        return "This compares results of the same trials, not people."
    if isinstance(result, Latency):
        what = "A latency is of when only; take the results that it was made of."
        return "" if claim == "from when" else what
    if claim == "how large":
        return ""
    if not result.scalar_metrics:
        return "The metrics are tables, which are not tested."
    if not has_scores(result):
        return "Nothing was decoded."
    if not result.has_p:
        return "The analysis had no permutations; run it with n_permutations=1000."
    return ""


# ------------------------------------------------------------------------ what to say


def _effect(result):
    """What a position with an effect has, as a clause."""
    if isinstance(result, SubjectResult):
        permuted = "labels" if len(result.classes) else "values"
        metric = metric_in_text(result.scalar_metrics[0])
        metric = f"the {metric}" if " of the " in metric else metric
        return f"{metric} is above that of permuted {permuted}"
    label, side = score_in_text(result), result.alternative
    if result.is_difference:
        first, second = two_names(result)
        mean = "" if isinstance(result, ComparisonResult) else "mean "
        if side == "two-sided":
            return f"{mean}{label} differs between {first} and {second}"
        more = "higher" if side == "greater" else "lower"
        return f"{mean}{label} is {more} in {first} than in {second}"
    if result.method in ("i-test", "prevalence", "bootstrap"):
        share = 100 * (result.parameters.get("hypothesis") or 0)
        who = {
            "i-test": f"more than {share:g} % of the population have",
            "prevalence": "at least one person of the population has",
            "bootstrap": "at least one of these subjects has",
        }
        return f"{who[result.method]} an effect"
    where = {"greater": "above", "less": "below"}.get(side, "different from")
    return f"mean {label} over the population is {where} {result.worded_level}"


def _none_significant(result):
    """That nothing was found, which is not that there is nothing."""
    what = f"No {result.places.noun(1)} is" if result.axes else "The score is not"
    return (
        f"{what} significant, which does not show that there is no effect. An upper "
        "bound would: see how large."
    )


def _method(result, name):
    """What a test, corrected so, is called."""
    if isinstance(result, SubjectResult):
        test = "label permutations" if len(result.classes) else "permutations of values"
    else:
        test = result.title_parts()[0]
    is_single = result.places.n_positions == 1
    return test if is_single else f"{test}, {CORRECTION_LABELS[name]}"


# ------------------------------------------------------------------------------ where


def _where(result, name):
    """Where there is an effect."""
    is_single = result.places.n_positions == 1
    if not is_single and name == "none":
        return (
            "The p-values are not corrected for testing many positions; choose a "
            'correction, such as correction="max".'
        )
    found, alpha = Finding(result, name), result.significance_level
    if found.untested or not found.n:
        return found.untested or _none_significant(result)
    n, of_all, effect = found.n, found.of_all, _effect(result)
    method, keys = _method(result, name), cited_in(NAMED[name].words)
    known = CORRECTIONS.get(name)
    if is_single:
        p, place = p_words(found.smallest_p), found.place.strip()
        effect = f"{place}, {effect}" if place else effect
        return Said(f"{capital(effect)} ({p}).", np.nan, method)
    if known is None or known.false_discovery:
        what = f"{of_all} are {'in the clusters that are ' if known is None else ''}"
        statement = (
            f"{capital(what)}marked; of those marked, {100 * alpha:g} % are expected "
            "to be false at most."
        )
        return Said(statement, n, method, keys, confidence=np.nan)
    if known.of_positions:
        at = "In" if result.places.noun(1) == "region" else "At"
        each = "" if n == 1 else "each of "
        return Said(f"{at} {each}{of_all}, {effect}.", n, method, keys)
    n_regions = np.count_nonzero(result.clusters(name)["p"] <= alpha)
    what = "cluster" if known.of_clusters else "connected region"
    if n_regions > 1:
        what = "clusters" if known.of_clusters else "regions"
    each = f"one {what}" if n_regions == 1 else f"each of {n_regions} {what}"
    statement = (
        f"In {each}, {effect} somewhere; at which of the {n:,} "
        f"{result.places.noun(n)} marked is not shown."
    )
    return Said(statement, n_regions, method, keys)


# -------------------------------------------------------------------------- from when


def _from_when(result, name=None):
    """By when there is an effect."""
    if isinstance(result, Latency):
        return _of_latency(result)
    if "times" not in result.axes:
        return "This result is not over time."
    known, is_single = CORRECTIONS.get(name), result.places.n_positions == 1
    if not is_single and (known is None or not known.of_positions):
        return (
            f"With correction={name!r} no single time is shown to have an effect. Test "
            'with correction="cluster-depth" (of time courses) or correction="max".'
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
    return Said(statement, first, _method(result, name), cited_in(NAMED[name].words))


def _of_latency(result):
    """Between which times an onset lies."""
    onset, (low, high) = result.when("onset")
    if not np.isfinite([onset, low, high]).all():
        return "There is no onset, or too few resamples have one."
    metric, sign = metric_in_text(result.metric), "+" if result.parts else ""
    first, last = rounded(low, sign=sign), rounded(high, sign=sign)
    statement = f"The onset of mean {metric} lies between {first} and {last} s."
    if result.parts:
        statement = f"The onsets of mean {metric} are {first} to {last} s apart."
    return Said(statement, low, "bootstrap over subjects", (), result.confidence)


# --------------------------------------------------------------------------- how much


def _how_much(result, _=None):
    """How many positions have an effect, at least."""
    if result.places.n_positions == 1:
        return "This result has a single position."
    try:
        found = result.true_discoveries(alpha=result.significance_level)
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


def _how_many(result, name=None):
    """How many people have an effect."""
    if result.method == "i-test":
        found = Finding(result)
        if not found.n:
            return _none_significant(result)
        at = f"At each of {found.of_all}, " if result.axes else ""
        method = f"i-test of order {result.order}"
        method += f", {CORRECTION_LABELS[name]}" if result.axes else ""
        share = result.parameters["hypothesis"]
        return Said(capital(f"{at}{_effect(result)}."), share, method, ("Hirose2021",))
    if result.method == "prevalence":
        if np.isnan(result.gamma_0).all():
            return "No share of the population is shown to have an effect."
        best = int(np.nanargmax(result.gamma_0))
        share = float(np.ravel(result.gamma_0)[best])
        at = f" {result.places.at(best)}" if result.axes else ""
        statement = (
            f"More than {int(100 * share)} % of the population have an effect{at}."
        )
        method = "prevalence bound by the product over subjects"
        method += ", Bonferroni-corrected" if result.axes else ""
        return Said(statement, share, method, ("Allefeld2016",))
    return (
        "This test does not show how many people have an effect: a few may carry it. "
        f"Use {_ASK_PEOPLE}, with the order chosen before scores are seen."
    )


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
    """Between which bounds a mean is."""
    confidence = 1 - result.significance_level
    try:
        found = result.interval(confidence, simultaneous=bool(result.axes))
    except ValueError as error:
        return str(error)
    # Outwards: no more is claimed than there is.
    low, high = np.floor(1e3 * found.low) / 1e3, np.ceil(1e3 * found.high) / 1e3
    low, high = np.ravel(low), np.ravel(high)
    least, most = (-np.inf, np.inf) if result.is_difference else limits_of(result)
    low, high = np.maximum(low, least), np.minimum(high, most)
    if np.isnan(high).all():
        return "No position has an interval."
    what = f"mean {score_in_text(result)} over the population"
    if result.is_difference:
        what = f"the difference in {score_in_text(result)}"
    best = result.best_position(result.metric)
    statement = f"{what} is between {rounded(low[best])} and {rounded(high[best])}"
    if not result.is_difference and np.isfinite(permuted := result.permuted_mean()):
        statement += f" ({mean_of_permuted(result.metric)} {rounded(permuted)})"
    if result.axes:
        statement = f"{result.places.at(best)} {statement}"
        if np.nanmax(high) < most:
            statement += f", and nowhere above {rounded(np.nanmax(high))}"
    method, keys = "permuted differences", ()
    if not isinstance(result, ComparisonResult):
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
