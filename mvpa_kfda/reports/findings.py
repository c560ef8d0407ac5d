"""Sentences on corrections, on what was found and where, and on versions."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..inference.corrections import CORRECTIONS, NAMED, check_correction, is_of_clusters
from ..inference.null import ALTERNATIVES
from ..results.base import SubjectResult
from ..results.finding import Finding
from ..utils.axes import AXES
from ..utils.checks import capital, check_option, enumerated
from ..utils.rounding import number, p_words
from .citations import name
from .words import metric_words

#: Package -> what it is called, and what is cited for it.
PACKAGES = {
    "mvpa_kfda": ("mvpa_kfda", ""),
    "numpy": ("NumPy", " [@Harris2020]"),
    "scipy": ("SciPy", " [@Virtanen2020]"),
    "scikit-learn": ("scikit-learn", " [@Pedregosa2011]"),
    "mne": ("MNE-Python", " [@Gramfort2013]"),
    "nilearn": ("Nilearn", " [@Abraham2014]"),
}


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
    places = result.places.noun(2)
    words["threshold"] = number(words["threshold"])
    how = {"places": places, "Places": capital(places), **words}
    how["n"] = f"{n:,} {result.places.noun(n)}"
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


def found_of(result, correction, alpha, label=None, **options):
    """Say how high scores were, and how many were significant.

    `label` is what the score is called, if there is one that a name is not enough for.
    """
    sentences = []
    for metric in result.scalar_metrics if label is None else [result.metric]:
        found = Finding(result, correction, alpha, metric, name, **options)
        if found.has_scores:
            sentences += _found(found, label or metric_words(metric)[1])
    return sentences


def _found(found, label):
    """Say where a map peaks, and where it is significant."""
    tested, places = not found.untested, found.result.places
    if found.result.has_p and not tested:
        raise ValueError(found.untested)
    p = p_words(found.p[found.position], "*p*") if tested else ""
    if not found.result.axes:
        return [f"The {label} was {found.score}{f' ({p})' if tested else ''}."]
    beside = f" ({p}, {NAMED[found.correction].tag})" if tested else ""
    peak = f"The {found.worded(label)} was {found.score},{found.place}{beside}."
    if not tested:
        return [peak]
    n, level = found.n_tested, f"*p* ≤ {number(found.alpha)}"
    noun, of_clusters = places.noun(n), is_of_clusters(found.correction)
    if not found.n:
        what = "No cluster" if of_clusters else f"None of the {n:,} {noun}"
        words = f"The only {noun} was not" if n == 1 else f"{what} was"
        return [peak, f"{words} significant ({level})."]
    lead = f"In all, {found.n:,} of the {n:,} {noun}"
    if found.n == n:
        lead = f"The only {noun}" if n == 1 else f"All {n:,} {noun}"
    how = "part of significant clusters" if of_clusters else "significant"
    were, spans = "was" if found.n == 1 else "were", found.spans and f": {found.spans}"
    sentences = [peak, f"{lead} {were} {how} ({level}{spans})."]
    if of_clusters:
        sentences.append(
            "Such a *p*-value is of a cluster as a whole and does not show when or "
            "where an effect begins and ends [@Sassenhagen2019]."
        )
    elif found.correction in CORRECTIONS and CORRECTIONS[found.correction].of_courses:
        sentences.append(
            f"Such a *p*-value is of a single {places.noun(1)}, of the signal as it "
            "was analysed: filters and windows spread an effect over time."
        )
    return sentences


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
