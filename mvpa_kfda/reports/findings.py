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
from ..utils.rounding import number
from .citations import name
from .templating import written
from .vocabulary import metric_words

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
    """All positions of a map, "100 time points from -0.2 to 0.79 s"."""
    if places.geometry is not None:
        return f"each of {places.geometry.describe()}".replace("each of 1 ", "one ")
    parts = []
    for axis in map(AXES.get, places.axes):
        noun, unit = axis.point or axis.noun, axis.end
        values = places.coordinates[axis.field]
        words = axis.count(len(values)) if len(values) > 1 else f"one {noun}"
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
        """The same with what figures of one subject's result have."""
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
    """How many positions were corrected for, and the level, of one subject."""
    if not result.has_p or not result.scalar_metrics:
        return ""
    metric = result.scalar_metrics[0]
    words = {"score": "score", "draw": "permutation", "mass": "standardised scores"}
    return corrected(
        result,
        asked.correction,
        asked.alpha,
        threshold=asked.threshold,
        n=int(np.isfinite(result.metrics[metric]).sum()),
        n_tests=len(result.kept_tests(metric)),
        **words,
    )


def corrected(result, correction, alpha, *, threshold, n, n_tests, **words):
    """How p-values were corrected for n positions, by tests that all reject."""
    level = f"The significance level was {number(alpha)}."
    if not result.axes or (n == 1 and not is_of_clusters(correction)):
        return level
    places, named = result.places.noun(2), NAMED[correction]
    words |= {"places": places, "Places": capital(places)}
    words |= {"n": f"{n:,} {result.places.noun(n)}", "threshold": number(threshold)}
    shared = f" {named.shared}" if named.shared and n_tests > 1 else ""
    return f"{named.words.format(**words)}{shared} {level}"


def named_first(result, correction=None):
    """Which of several metrics or corrections was tested, and which explore."""
    if isinstance(result, SubjectResult):
        metrics, metric = (result.scalar_metrics if result.has_p else []), None
        corrections = ()
    else:
        metrics = result.parameters.get("scoring", [])
        metric = result.metric.removesuffix("_difference")
        corrections = result.correction if result.axes else ()
    parts = written(
        "exploratory.txt",
        first=metric_words(metrics[0])[1] if len(metrics) > 1 else "",
        metric=None if metric in (None, *metrics[:1]) else metric_words(metric)[1],
        tags=[NAMED[each].tag for each in corrections],
        is_other=correction not in (None, *corrections[:1]),
    )
    return "".join(parts)


def found_of(result, correction, alpha, label=None, **options):
    """How high scores were, and how many were significant.

    `label` is what the score is called, if there is one that a name is not enough for.
    """
    correction, several = correction if result.axes else "none", []
    for metric in result.scalar_metrics if label is None else [result.metric]:
        found = Finding(result, correction, alpha, metric, name, **options)
        if found.has_scores:
            if result.has_p and found.untested:
                raise ValueError(found.untested)
            several.append((found, label or metric_words(metric)[1]))
    known = CORRECTIONS.get(correction)
    parts = written(
        "found.txt",
        several=several,
        of_courses=known is not None and known.of_courses,
        of_clusters=is_of_clusters(correction),
        tag=NAMED[correction].tag,
    )
    return "".join(parts)


# --------------------------------------------------------------------------- software


def _is_of_epochs(result):
    """Whether what was decoded came from MNE-Python."""
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
        return ""
    python = f" in Python {versions['python']}" if "python" in versions else ""
    return f"The analysis was run{python} with {enumerated(named)}."
