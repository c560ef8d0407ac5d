"""What speaks against the results of a group: damage, gaps, and other analyses."""

import re

import numpy as np

from .._checks import warn
from ..metrics import METRICS

#: Lowest and highest value of metrics; finite numbers for all others.
_RANGES = {
    **dict.fromkeys(METRICS, (0.0, 1.0)),
    "kappa": (-1.0, 1.0),
    "pearsonr": (-1.0, 1.0),
}

#: Scores in single precision go beyond the range of their metric by less.
_BEYOND = 1e-6

#: What defines an analysis, of what results record in their parameters. Left out is
#: what differs between subjects for good reasons: seeds, numbers of permutations and
#: of trials, channels, and folds that follow from the data.
_DEFINING = (
    "task",
    "kernel",
    "reg",
    "kernels",
    "criterion",
    "n_components",
    "average",
    "permute",
    "standardize",
    "radius",
    "distance",
    "scale",
    "window",
    "step",
    "window_mode",
    "sfreq",
    "train_on",
)

#: Numbers that differ by less, as a part of the first, are the same.
_SAME = 1e-6

#: Subjects that a warning names.
_NAMED = 3


def recorded(result):
    """Return what a result records of how it was made, and its classes."""
    analysis = {n: result.parameters[n] for n in _DEFINING if n in result.parameters}
    if len(result.classes):
        analysis["classes"] = ", ".join(map(str, result.classes))
    return analysis


def tell_differences(words, analyses, n_first):
    """Warn of subjects that were analysed differently from the first of their list.

    Parameters
    ----------
    words : sequence of str
        How to word each subject at the start of a sentence.
    analyses : sequence of dict
        From `recorded`.
    n_first : int
        How many are in the first list; all others are in the second.
    """
    found = {}
    for k, (who, analysis) in enumerate(zip(words, analyses, strict=True)):
        first = analyses[0 if k < n_first else n_first]
        differ = [
            f"{name} ({_worded(analysis[name])} instead of {_worded(first[name])})"
            for name in first
            if name in analysis and not _same(analysis[name], first[name])
        ]
        if differ:
            found[who] = ", ".join(differ)
    if found:
        named = [f"{who}: {differ}" for who, differ in list(found.items())[:_NAMED]]
        (who, differ), more = next(iter(found.items())), len(found) - len(named)
        text = f"{who} was analysed differently from the first: {differ}"
        if len(found) > 1:
            rest = f"; and {more} more" if more else ""
            text = (
                f"{len(found)} subjects were analysed differently from the first. "
                f"{'; '.join(named)}{rest}"
            )
        warn(f"{text}. If this is not on purpose, run the analysis again.")


def _same(value, other):
    """Tell whether two recorded values are the same, but for rounding."""
    numbers = [isinstance(each, float | int | np.number) for each in (value, other)]
    if all(numbers):
        return bool(np.isclose(value, other, rtol=_SAME, atol=0, equal_nan=True))
    return _worded(value) == _worded(other)


def _worded(value):
    """Word a recorded value; a place in memory is no part of what a function is."""
    if isinstance(value, float):
        return f"{value:.6g}"
    return re.sub(r" at 0x[0-9a-fA-F]+", "", str(value))


def largest_ratio(result):
    """Return the largest ratio between the tested trials of two classes; 1 without."""
    if len(result.classes) == 0:
        return 1.0
    counts = np.unique(getattr(result, "y_test", result.y), return_counts=True)[1]
    return float(counts.max() / counts.min())


def refuse_damage(values, metric, who):
    """Raise a ValueError on values that a score or a permuted score never has."""
    lowest, highest = _RANGES.get(metric, (-np.inf, np.inf))
    low, high = values.min(), values.max()  # NaN if any is
    if np.isfinite([low, high]).all() and (
        lowest - _BEYOND <= low and high <= highest + _BEYOND
    ):
        return
    raise ValueError(
        f"{who} has scores of {metric!r}, observed or of permuted labels, that cannot "
        f"be: they go from {low:.3g} to {high:.3g}. Its result is damaged; take it "
        "from a backup, or run its analysis again."
    )


def refuse_gap(has_score, places, words):
    """Raise a ValueError that names a subject and a place without a score."""
    subject, place = np.argwhere(~has_score)[0]
    at = ", ".join(
        f"{column} {values[place]:.6g}" for column, values in places.columns().items()
    )
    raise ValueError(
        f"{words[subject]} has no score of {places.describe()} at {at} (first of "
        f"{np.count_nonzero(~has_score[subject])}), but maps without gaps are needed. "
        "Take another metric, or leave these positions out of the analysis of all "
        "subjects."
    )
