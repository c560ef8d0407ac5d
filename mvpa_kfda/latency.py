"""When a group's time course starts and peaks, with confidence intervals."""

from dataclasses import dataclass, replace

import numpy as np

from ._checks import (
    check_array,
    check_count,
    check_option,
    check_positive,
    check_share,
    warn,
)
from ._group.subjects import gather
from ._onsets import CRITERIA, Rule, draw_subjects, locate
from ._setup import draw_seed
from .group_results import GroupResult
from .latency_results import Latency

#: Fewer subjects make fewer than 40 different resamples (35 of 4, 126 of 5), and a tail
#: of 2.5 % would hold none.
FEWEST_SUBJECTS = 5

#: Above this share of resamples without an onset, its interval is of the others only.
MOST_WITHOUT = 0.05


@dataclass(frozen=True)
class _Courses:
    """Time courses of subjects.

    Parameters
    ----------
    names : sequence of str
        Subjects.
    times : array, shape (T,)
        Time points in seconds.
    scores : array, shape (S, T)
        Scores of every subject.
    metric : str
        What they are.
    chance : float
        Their chance level.
    """

    names: tuple
    times: np.ndarray
    scores: np.ndarray
    metric: str
    chance: float


def bootstrap_latency(
    results,
    *,
    other=None,
    paired=False,
    metric=None,
    criterion="peak-fraction",
    fraction=0.5,
    level=0.05,
    min_duration=0.02,
    window=None,
    baseline=None,
    n_bootstraps=10000,
    confidence=0.95,
    subjects=None,
    random_state=None,
):
    r"""Bootstrap the onset and the peak latency of a group's time course.

    Subjects are drawn with replacement [1]_, the mean time course of every such
    resample is searched for its onset and its peak, and the middle part of these
    latencies is the confidence interval, as is usual for decoding over time [2]_.

    Parameters
    ----------
    results : sequence of TimeResult or paths | GroupResult
        One result per subject over the same times, or files of them; or what
        `group_inference` made of them. At least 5 subjects.
    other : sequence of TimeResult or paths, or None
        A second list, for the difference between the latencies of `results` and of
        `other`.
    paired : bool
        The second list is of the same subjects in the same order, who are then drawn
        together. False: other subjects, drawn by themselves.
    metric : str or None
        Name of the metric; None takes the first.
    criterion : "peak-fraction" | "t"
        What the mean has to exceed from the onset on. ``"peak-fraction"``: a fraction
        of the height of its peak above chance. ``"t"``: chance, by a one-sample t-test
        over subjects at every time. See Notes.
    fraction : float
        That fraction, between 0 and 1.
    level : float
        p-level of the t-test, one-sided and uncorrected.
    min_duration : float
        How long the mean has to stay there in seconds, at least one sample.
    window : tuple of float or None
        First and last time in seconds in which to search for onset and peak. None: all
        times.
    baseline : tuple of float or None
        First and last time in seconds; heights are then measured from the mean score
        in that time (of every resample) and not from chance.
    n_bootstraps : int
        Number of resamples.
    confidence : float
        Confidence of the intervals, between 0 and 1.
    subjects : sequence of str or None
        Names of the subjects.
    random_state : int | Generator | RandomState | None
        Seed of the resamples.

    Returns
    -------
    latency : Latency
        ``.onset`` and ``.peak`` in seconds, ``.onset_interval``, ``.peak_interval``,
        ``.onsets`` and ``.peaks`` of the resamples, ``.n_without_onset``,
        ``.to_dataframe()`` and ``.plot()``. With `other` all of them are differences,
        `results` minus `other`, and ``.parts`` has either list's.

    Raises
    ------
    ValueError, TypeError
        With fewer than 5 subjects, on maps that are no time courses, a window or
        baseline without samples, a metric without chance level and no baseline, on
        lists that cannot be paired, and on arguments that are not valid.

    Warns
    -----
    RuntimeWarning
        If the mean has no onset, or more than 5 % of the resamples have none.

    Notes
    -----
    The onset is where the mean crosses the level, interpolated linearly between
    samples; the first time of the window, if the mean is above the level from there on.

    With "peak-fraction" the mean :math:`m` has to exceed :math:`c + f (\max m - c)`,
    with chance (or baseline) c and fraction f. This time does not depend on the
    height of the effect, and little on the number of subjects and their noise, so that
    groups and conditions can be compared; half of the peak is a usual fraction [3]_. It
    is later than the first moment of the effect.

    The time at which an effect becomes significant, "t", is no property of the effect
    alone: with more subjects or less noise the same effect is significant earlier. It
    answers from when on there is evidence, and does not compare groups. In a resample
    some subjects occur several times, which makes its t-values larger than those of
    the subjects themselves.

    Intervals are of percentiles. Corrected ones (BCa) need the onset of all subjects
    but one, which may not exist. Resamples without an onset are left out. With few
    subjects such intervals are somewhat too narrow, as the bootstrap takes the spread
    of n subjects for that of the population, without the factor n / (n - 1).

    References
    ----------
    .. [1] Efron, B., & Tibshirani, R. J. (1993). An introduction to the bootstrap.
       Chapman & Hall.
    .. [2] Cichy, R. M., Pantazis, D., & Oliva, A. (2014). Resolving human object
       recognition in space and time. Nature Neuroscience, 17(3), 455-462.
    .. [3] Miller, J., Patterson, T., & Ulrich, R. (1998). Jackknife-based method for
       measuring LRP onset latency differences. Psychophysiology, 35(1), 99-115.

    Examples
    --------
    >>> import numpy as np
    >>> from mvpa_kfda import bootstrap_latency, decode_arrays
    >>> rng = np.random.default_rng(0)
    >>> y = np.repeat(["face", "house"], 20)
    >>> effect = 2 * np.exp(-np.square(np.arange(-0.1, 0.5, 0.02) - 0.2) / 0.01)
    >>> results = []
    >>> for subject in range(8):
    ...     X = rng.normal(size=(40, 3, 30))  # trials, channels, times
    ...     X[y == "house"] += effect
    ...     results.append(decode_arrays(X, y, sfreq=50, tmin=-0.1))
    >>> latency = bootstrap_latency(results, n_bootstraps=1000, random_state=0)
    >>> 0.05 < latency.onset < latency.peak
    True
    >>> latency.to_dataframe()["latency"].tolist()
    ['onset', 'peak']
    """
    check_option("criterion", criterion, CRITERIA)
    rule = Rule(
        criterion,
        check_share("fraction", fraction),
        check_share("level", level, 0.5),
        0.0 if min_duration == 0 else check_positive("min_duration", min_duration),
        _check_span("window", window),
        _check_span("baseline", baseline),
    )
    n_bootstraps = check_count("n_bootstraps", n_bootstraps, minimum=100)
    confidence = check_share("confidence", confidence)
    first, second, paired = _read(results, other, paired, metric, subjects)
    rng = np.random.default_rng(draw_seed(random_state))
    drawn = draw_subjects(rng, len(first.names), n_bootstraps)
    latency = _bootstrap(first, drawn, rule, confidence)
    if second is not None:
        if not paired:
            drawn = draw_subjects(rng, len(second.names), n_bootstraps)
        parts = latency, _bootstrap(second, drawn, rule, confidence)
        latency = _subtract(*parts, paired)
    _warn_of_missing(latency)
    return latency


# -------------------------------------------------------------------------- the input


def _read(results, other, paired, metric, subjects):
    """Return the courses of one or two lists, and whether they are paired."""
    if isinstance(results, GroupResult):
        if other is not None or subjects is not None or metric is not None:
            raise ValueError(
                "A GroupResult has its metric, its subjects and its second list with "
                "it; leave out metric, subjects and other, or give lists of results."
            )
        # Of two lists only the chance level of their difference is known.
        if results.other_scores is not None:
            raise ValueError(
                "This GroupResult compares two lists of subjects. Give the lists: "
                "bootstrap_latency(results, other=others)."
            )
        rest = results.places, results.metric, results.chance
        first = _courses(results.subjects, results.subject_scores, *rest)
        return first, None, False
    first = _gathered(gather(results, metric=metric, subjects=subjects))
    if other is None:
        if paired:
            raise ValueError("paired=True needs a second list of results; give other=.")
        return first, None, False
    if isinstance(other, GroupResult):
        raise TypeError("other must be a list of results, not a GroupResult.")
    names = subjects if paired else None
    second = _gathered(gather(other, metric=first.metric, subjects=names))
    if paired:
        _check_pairs(first.names, second.names)
    return first, second, bool(paired)


def _gathered(found):
    """Return the courses of gathered subjects."""
    rest = found.places, found.metric, found.chances[0]
    return _courses(found.names, found.expand(found.scores), *rest)


def _courses(names, scores, places, metric, chance):
    """Return time courses; refuse other maps, and too few subjects."""
    if tuple(places.axes) != ("times",):
        raise ValueError(
            "Latencies are for scores over time (decode_epochs, decode_arrays); these "
            f"results are of the kind {places.kind}, {places.describe()}. The diagonal "
            "of a generalization map is result.diagonal()."
        )
    if len(names) < FEWEST_SUBJECTS:
        raise ValueError(
            f"A bootstrap over {len(names)} subjects has too few different resamples "
            f"for an interval; it takes {FEWEST_SUBJECTS} subjects or more."
        )
    times = np.asarray(places.coordinates["times"], dtype=float)
    scores = check_array(scores, "results")
    return _Courses(tuple(map(str, names)), times, scores, metric, float(chance))


def _check_pairs(names, others):
    """Refuse lists that cannot be of the same subjects in the same order."""
    if len(names) != len(others):
        raise ValueError(
            f"paired=True needs the same subjects in both lists; got {len(names)} and "
            f"{len(others)}. Leave the others out, or use paired=False."
        )
    if names != others and sorted(names) == sorted(others):
        i = next(i for i, name in enumerate(names) if name != others[i])
        raise ValueError(
            "paired=True needs the subjects of both lists in the same order; number "
            f"{i + 1} is {names[i]!r} in the first and {others[i]!r} in the second. "
            "Sort both lists."
        )


def _check_span(name, span):
    """Return first and last time as floats, or None."""
    if span is None:
        return None
    try:
        first, last = map(float, span)
    except (TypeError, ValueError):
        first, last = 1.0, 0.0
    if not first <= last:
        raise ValueError(
            f"Invalid value for {name!r}: {span!r}. Allowed: None, or a tuple of first "
            "and last time in seconds."
        )
    return first, last


# ---------------------------------------------------------------------- the latencies


def _bootstrap(courses, drawn, rule, confidence):
    """Return the latencies of courses and of resamples of their subjects."""
    if rule.baseline is None and np.isnan(courses.chance):
        raise ValueError(
            f"The metric {courses.metric!r} has no chance level that heights could be "
            "measured from. Give baseline=, a time before the effect, e.g. (-0.2, 0)."
        )
    # The subjects themselves come first, each of them once.
    counts = np.concatenate([np.ones((1, drawn.shape[1]), drawn.dtype), drawn])
    onsets, peaks = locate(courses.times, courses.scores, courses.chance, counts, rule)
    return Latency(
        onset=float(onsets[0]),
        peak=float(peaks[0]),
        onset_interval=_interval(onsets, confidence),
        peak_interval=_interval(peaks, confidence),
        onsets=onsets[1:],
        peaks=peaks[1:],
        confidence=confidence,
        metric=courses.metric,
        chance=courses.chance,
        times=courses.times,
        mean=courses.scores.mean(axis=0),
        n_subjects=len(courses.names),
        window=rule.window,
    )


def _interval(latencies, confidence):
    """Return the percentiles of resampled latencies; the first one is the observed."""
    found = latencies[1:][~np.isnan(latencies[1:])]
    if np.isnan(latencies[0]) or len(found) == 0:
        return np.full(2, np.nan)
    tail = (1 - confidence) / 2
    return np.quantile(found, [tail, 1 - tail])


def _subtract(first, second, paired):
    """Return the difference between two latencies."""
    onsets, peaks = first.onsets - second.onsets, first.peaks - second.peaks
    onset, peak = first.onset - second.onset, first.peak - second.peak
    more = 0 if paired else second.n_subjects
    return replace(
        first,
        onset=onset,
        peak=peak,
        onset_interval=_interval(np.append(onset, onsets), first.confidence),
        peak_interval=_interval(np.append(peak, peaks), first.confidence),
        onsets=onsets,
        peaks=peaks,
        times=np.empty(0),
        mean=np.empty(0),
        n_subjects=first.n_subjects + more,
        parts=(first, second),
    )


def _warn_of_missing(latency):
    """Warn where onsets are missing."""
    n, n_without = len(latency.onsets), latency.n_without_onset
    if np.isnan(latency.onset):
        warn(
            "The mean over subjects has no onset: it does not exceed what the "
            "criterion asks for as long as min_duration. The onset and its interval "
            "are NaN; the peak may be one of noise."
        )
    elif n_without > MOST_WITHOUT * n:
        warn(
            f"{n_without} of {n} resamples have no onset and are left out; the "
            "interval is of the others, and too narrow. The effect is not in all "
            "subjects, or too short: see min_duration, window and criterion."
        )
