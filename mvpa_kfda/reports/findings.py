"""Sentences on corrections, on what was found and where, and on versions."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..inference.corrections import CORRECTIONS, NAMED, check_correction, is_of_clusters
from ..inference.null import ALTERNATIVES
from ..results.base import SubjectResult
from ..utils.axes import AXES, BY_COLUMN, point_of_axes
from ..utils.checks import check_option, plural
from ..utils.rounding import number, rounded
from .citations import name
from .words import (
    capital,
    enumerated,
    metric_words,
    p_words,
)

#: Package -> what it is called, and what is cited for it.
PACKAGES = {
    "mvpa_kfda": ("mvpa_kfda", ""),
    "numpy": ("NumPy", " [@Harris2020]"),
    "scipy": ("SciPy", " [@Virtanen2020]"),
    "scikit-learn": ("scikit-learn", " [@Pedregosa2011]"),
    "mne": ("MNE-Python", " [@Gramfort2013]"),
    "nilearn": ("Nilearn", " [@Abraham2014]"),
}


def place_noun(places, n):
    """Return what so many positions of a map are called, without the number."""
    if places.geometry is not None:
        return plural(places.geometry.noun, n)
    return point_of_axes(places.axes, n)


def positions_of(places):
    """Word all positions of a map, "100 time points from -0.2 to 0.79 s"."""
    if places.geometry is not None:
        return f"each of {places.geometry.describe()}"
    parts = []
    for axis in map(AXES.get, places.axes):
        noun, unit = axis.point or axis.noun, axis.end
        values = places.coordinates[axis.field]
        words = axis.count(len(values))
        if unit and len(values) > 1:
            words += f" from {number(values[0])} to {number(values[-1])}{unit}"
        elif unit:
            words = f"one {noun} ({number(values[0])}{unit})"
        parts.append(words)
    return f"each of {enumerated(parts)}".replace("each of one", "one")


def word_place(row):
    """Word one position, from the columns of a table that say where it is."""
    if "region" in row:
        return f"in region {name(row['region'])}"
    for noun in ("feature", "parcel"):
        if noun in row:
            return f"at {noun} {name(row[noun])}"
    if "structure" in row:
        return _word_grayordinate(row)
    if "hemisphere" in row:
        return f"at vertex {row['vertex']} of the {row['hemisphere']} hemisphere"
    if "x" in row:
        return f"at {_coordinates(row)}"
    axes = [BY_COLUMN[column] for column in row]
    values = [
        number(x) if axis.unit else name(x)
        for axis, x in zip(axes, row.values(), strict=True)
    ]
    parts = [axis.place.format(x) for axis, x in zip(axes, values, strict=True)]
    return f"at {enumerated(parts)}"


def _word_grayordinate(row):
    """Word one vertex or voxel of a CIFTI file."""
    parts = [name(row["structure"])]
    if row.get("vertex", -1) >= 0:
        parts = [f"vertex {row['vertex']} of {parts[0]}"]
    if "x" in row and np.isfinite(row["x"]):
        parts.append(_coordinates(row))
    return f"at {', '.join(parts)}"


def _coordinates(row):
    """Word where a position is in mm."""
    return f"x, y, z = {', '.join(number(row[axis], 4) for axis in 'xyz')} mm"


def row_of(places, position):
    """Return the columns of one position, counted along the whole map."""
    return {column: values[position] for column, values in places.columns().items()}


# -------------------------------------------------------------------------- inference


class Asked(NamedTuple):
    """What p-values are reported; None where nothing was said."""

    correction: str | None
    alpha: float | None
    threshold: float | None
    alternative: str | None

    def refuse(self, names, what):
        """Raise a ValueError for what was said and has no use."""
        for argument in names:
            value = getattr(self, argument)
            if value is not None:
                raise ValueError(
                    f"{argument}={value!r}, but this result {what}. Leave {argument} "
                    "out."
                )

    def completed(self, correction):
        """Return the same with what figures of one subject's result have."""
        correction = correction if self.correction is None else self.correction
        alternative = "greater" if self.alternative is None else self.alternative
        return Asked(
            check_correction(correction),
            0.05 if self.alpha is None else self.alpha,
            0.05 if self.threshold is None else self.threshold,
            check_option("alternative", alternative, ALTERNATIVES),
        )

    @property
    def options(self):
        """What `pvalues` is given besides the correction."""
        return {"threshold": self.threshold, "alternative": self.alternative}


def inference_of(result, asked):
    """Say how many positions were corrected for, and the level."""
    if not result.has_p or not result.scalar_metrics:
        return []
    level = f"The significance level was {number(asked.alpha)}."
    if not result.axes:
        return [level]
    metric = result.scalar_metrics[0]
    sentence = correction_sentence(
        result,
        asked.correction,
        int(np.isfinite(result.metrics[metric]).sum()),
        len(result.kept_tests(metric)),
        score="score",
        draw="permutation",
        mass="standardised scores",
        threshold=asked.threshold,
    )
    return [sentence, level]


def correction_sentence(result, correction, n, n_tests=1, **words):
    """Say how p-values were corrected for n positions, by tests that all reject."""
    places = place_noun(result.places, 2)
    words["threshold"] = number(words["threshold"])
    how = {"places": places, "Places": capital(places), **words}
    how["n"] = f"{n:,} {place_noun(result.places, n)}"
    named = NAMED[correction]
    shared = f" {named.shared}" if named.shared and n_tests > 1 else ""
    return named.words.format(**how) + shared


def named_first(result, correction=None):
    """Say which of several metrics or corrections was tested, and which explore."""
    if isinstance(result, SubjectResult):
        metrics, metric = (result.scalar_metrics if result.has_p else []), None
        corrections = ()
    else:
        metrics = result.parameters.get("scoring", [])
        metric = result.metric.removesuffix("_difference")
        corrections = result.correction if result.axes else ()
    sentences = []
    if len(metrics) > 1:
        first = metric_words(metrics[0])[1]
        if metric in (None, metrics[0]):
            sentences.append(
                f"The first metric, {first}, was tested; tests of others are "
                "exploratory."
            )
        else:
            sentences.append(
                f"The first metric was {first}; tests of {metric_words(metric)[1]} are "
                "exploratory."
            )
    if correction not in (None, *corrections[:1]) and corrections:
        label = NAMED[corrections[0]].tag
        sentences.append(
            f"The correction named first was another ({label}); results with this one "
            "are exploratory."
        )
    elif len(corrections) > 1:
        label = NAMED[corrections[0]].tag
        sentences.append(
            f"Of {len(corrections)} corrections the first ({label}) was tested; "
            "results with others are exploratory."
        )
    return sentences


# ------------------------------------------------------------------------------ found


def found_of(result, asked):
    """Say how high scores were, and how many were significant."""
    sentences, places = [], result.places
    for metric in result.scalar_metrics:
        scores, p, middle = np.asarray(result.metrics[metric]), None, 0
        if result.has_p:
            p = result.pvalues(asked.correction, metric=metric, **asked.options)
            p = np.asarray(p)
        side, chance = asked.alternative, result.chances[metric]
        if side == "two-sided":
            side = side if np.isfinite(chance) else "greater"
            middle = result.null_level(metric)
        how = metric_words(metric)[1], asked.correction, asked.alpha, side, middle
        sentences += found(places, scores, p, *how)
    return sentences


#: Alternative -> what the score is called that speaks most for it, and the difference.
_EXTREMES = {
    "greater": ("highest {noun}", "largest {noun}"),
    "less": ("lowest {noun}", "smallest {noun}"),
    "two-sided": ("{noun} furthest from chance", "largest {noun}"),
}


def most_extreme(result):
    """Return what the score is called that speaks most for what a result tests."""
    metric = result.scalar_metrics[0]
    side = result.side_of(metric)
    if not np.isfinite(result.chances[metric]):
        side = "greater" if side == "two-sided" else side
    return _EXTREMES[side][result.is_difference]


def found(places, scores, p, noun, correction, alpha, alternative="greater", middle=0):
    """Say where scores (positions...) peak, and where they are significant.

    Differences have a `noun` that says so, and their sign.
    """
    tag, signed = NAMED[correction].tag, noun.startswith("difference")
    sign = "+" if signed else ""
    if scores.ndim == 0:
        beside = "" if p is None else f" ({p_words(float(p))})"
        return [f"The {noun} was {rounded(scores, sign=sign)}{beside}."]
    flat = np.ravel(scores)
    if not np.isfinite(flat).any():
        return []
    favour = {"less": -flat, "two-sided": np.abs(flat - middle)}.get(alternative, flat)
    best, names = int(np.nanargmax(favour)), _EXTREMES[alternative]
    place = word_place(row_of(places, best))
    beside = "" if p is None else f" ({p_words(np.ravel(p)[best])}, {tag})"
    which = names[signed].format(noun=noun)
    peak = f"The {which} was {rounded(flat[best], sign=sign)}, {place}{beside}."
    if p is None:
        return [peak]
    return [peak, significant(places, np.ravel(p), correction, alpha)]


def significant(places, p, correction, alpha):
    """Say how many positions are significant, and from when to when."""
    n, marked = int(np.isfinite(p).sum()), np.flatnonzero(p <= alpha)
    noun, level = place_noun(places, n), f"*p* ≤ {number(alpha)}"
    of_clusters = is_of_clusters(correction)
    if len(marked) == 0:
        what = "No cluster" if of_clusters else f"None of the {n:,} {noun}"
        if n == 1:
            what = f"The only {noun}"
            return f"{what} was not significant ({level})."
        return f"{what} was significant ({level})."
    were = "was" if len(marked) == 1 else "were"
    lead = f"In all, {len(marked):,} of the {n:,} {noun}"
    if len(marked) == n:
        lead = f"The only {noun}" if n == 1 else f"All {n:,} {noun}"
    how = "part of significant clusters" if of_clusters else "significant"
    sentence = f"{lead} {were} {how} ({level}{_span(places, marked)})."
    if of_clusters:
        sentence += (
            " Such a *p*-value is of a cluster as a whole and does not show when or "
            "where an effect begins and ends [@Sassenhagen2019]."
        )
    elif correction in CORRECTIONS and CORRECTIONS[correction].of_courses:
        sentence += (
            f" Such a *p*-value is of a single {place_noun(places, 1)}, of the signal "
            "as it was analysed: filters and windows spread an effect over time."
        )
    return sentence


def _span(places, marked):
    """Word the first and the last of the marked times of a time course."""
    if tuple(places.axes) != ("times",):
        return ""
    times = places.columns()["time"][marked]
    if len(times) == 1:
        return f", at {number(times[0])} s"
    return f", the first at {number(times[0])} s and the last at {number(times[-1])} s"


# --------------------------------------------------------------------------- software


def _is_of_epochs(result):
    """Tell whether what was decoded came from MNE-Python."""
    known = result.places.info_fif is not None or result.places.sources is not None
    return known or "ch_names" in result.parameters


def software_of(versions, result):
    """Name the versions of packages that took part."""
    used = ["mvpa_kfda", "numpy", "scipy", "scikit-learn"]
    places = result.places  # a latency has none
    if places is not None and _is_of_epochs(result):
        used.append("mne")
    if places is not None and places.geometry is not None:
        if places.geometry.base.kind in ("volume", "surface"):
            used.append("nilearn")
    named = [
        f"{PACKAGES[package][0]} {versions[package]}{PACKAGES[package][1]}"
        for package in used
        if package in versions
    ]
    if not named:
        return []
    python = f" in Python {versions['python']}" if "python" in versions else ""
    return [f"The analysis was run{python} with {enumerated(named)}."]
