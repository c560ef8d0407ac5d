"""When a group's time course starts and peaks, with confidence intervals."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from os import PathLike

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from scipy.stats import t as student

from ..inference.exchange import LEAST_VARIANCE
from ..inference.listed import OnsetName
from ..results.fields import keeps_warnings
from ..results.group import GroupResult
from ..results.latency import Latency
from ..results.load import load_result
from ..utils.checks import (
    Seed,
    check_array,
    check_count,
    check_flag,
    check_option,
    check_positive,
    check_share,
    draw_seed,
    invalid,
    warn,
)
from ..utils.memory import batches, check_many
from ..utils.plain import versions
from .subjects import (
    ResultOrPath,
    Subjects,
    check_list_names,
    is_path,
    join_lists,
    level_to_test,
)

#: What an onset is, for the methods section, by the names of the criteria.
ONSETS = {
    "peak-fraction": (
        "The onset was the first time at which the mean across subjects exceeded "
        "{fraction} % of its peak height above {base} for at least {duration} s"
    ),
    "t": (
        "The onset was the first time at which the mean across subjects exceeded "
        "{base} in Student's *t*-test at a level of {level} for at least {duration} s"
    ),
}

#: An onset that lasts at all has to last for so many samples.
FEWEST_SAMPLES = 3

#: Times that differ by less, in seconds, are the same.
_ROUNDING = 1e-6

#: Means that differ by less, as a part of the largest score, are the same.
_TIE = 1e-10

#: Resamples that are enough for an interval.
_ENOUGH = 10_000

#: Windows this many times as far from 0 s as the times must be in another unit.
_OTHER_UNIT = 10


def draw_subjects(rng, n_subjects, n_bootstraps):
    """How often every subject is in every resample, (n_bootstraps, S)."""
    check_many(
        n_bootstraps,
        _ENOUGH,
        8 * n_subjects,
        f"{n_bootstraps:,} resamples",
        f"a smaller n_bootstraps; {_ENOUGH:,} are enough for an interval",
    )
    shares = np.full(n_subjects, 1 / n_subjects)
    return rng.multinomial(n_subjects, shares, n_bootstraps)


def locate(times, scores, chance, counts, rule, levels=None):
    """Find onsets, peaks, and where noise may be the onset, (m,) each.

    The rule has what `bootstrap_latency` is asked: what an onset is, and where to look
    for it. The `levels` (S, 1) of subjects take the place of chance.
    """
    tie = _TIE * np.abs(scores).max()
    if rule["baseline"] is not None:  # of each, so that errors are those of both
        base = _within("baseline", times, rule["baseline"])
        levels = scores[:, base].mean(axis=1, keepdims=True)
    if levels is not None:
        scores, chance = scores - levels, 0.0
    window = _within("window", times, rule["window"])
    at, min_duration = times[window], rule["min_duration"]
    step = np.median(np.diff(at)) if len(at) > 1 else np.inf
    # Samples in a row that last for the duration; each lasts one step.
    least = FEWEST_SAMPLES if min_duration > 0 else 1
    n_stay = max(least, int(np.ceil(min_duration / step - _ROUNDING)))
    if n_stay > len(at):
        raise ValueError(
            f"min_duration={min_duration} s, here {n_stay} samples, is longer "
            f"than the time to search, {at[0]:.3f} to {at[-1]:.3f} s with {len(at)}."
        )

    before = slice(0, min(window.start, np.searchsorted(times, -_ROUNDING)))
    onsets, peaks, early = *np.empty((2, len(counts))), np.zeros(len(counts), bool)
    by_t, t = rule["criterion"] == "t", student.isf(rule["level"], len(scores) - 1)
    for rows in batches(len(counts), len(times)):
        mean, error = _mean_and_error(scores, counts[rows])
        top = mean[:, window].max(axis=1, keepdims=True)
        height, rise = mean - chance, top - chance
        if by_t:
            excess = height - t * error
        else:  # a course that never rises above chance has no onset
            excess = np.where(rise > tie, height - rule["fraction"] * rise, -1.0)
        stays = _stays(excess[:, window] > tie, n_stay)
        onsets[rows] = _first_stay(excess[:, window], stays, at)
        peaks[rows] = at[(mean[:, window] >= top - tie).argmax(axis=1)]
        # Noise may be the onset where the mean is above the level from the start of the
        # window on, or, of a part of the peak, at times before the window and 0 s.
        early[rows] = stays[:, 0]
        if not by_t:
            early[rows] |= _stays(excess[:, before] > tie, n_stay).any(axis=1)
    return onsets, peaks, early


def _mean_and_error(scores, counts):
    """Means (m, T) over resampled subjects, and their standard errors."""
    n, centre = len(scores), scores.mean(axis=0)
    deviations = scores - centre  # without the centre, squares keep their digits
    mean = counts @ deviations / n
    variance = counts @ np.square(deviations) / n - mean**2
    # Subjects that score equally by chance are no evidence, see `exchange`.
    least = LEAST_VARIANCE * variance.max(axis=1, keepdims=True).clip(min=0.0)
    return mean + centre, np.sqrt(np.maximum(least, variance) / (n - 1))


def _within(name, times, span):
    """A slice of the samples in a span of time."""
    first, last = np.searchsorted(times, (span[0] - _ROUNDING, span[1] + _ROUNDING))
    wrong = f"No sample lies in {name}={span}; the times" if first >= last else ""
    farthest = _OTHER_UNIT * max(1.0, np.abs(times).max())
    if any(farthest < abs(end) < np.inf for end in span):
        wrong = f"{name}={span} is far from the times, which"
    if wrong:
        raise ValueError(
            f"{wrong} are {times[0]:.3f} to {times[-1]:.3f} s. Times are in seconds: "
            "100 ms are 0.1."
        )
    return slice(first, last)


def _stays(above, n_stay):
    """From which samples on courses (m, T) stay above for so many samples."""
    if above.shape[1] < n_stay:
        return np.zeros((len(above), 1), dtype=bool)
    return sliding_window_view(above, n_stay, axis=1).all(axis=2)


def _first_stay(excess, stays, times):
    """When courses (m, T) first rise above zero to stay, NaN if never."""
    # The crossing is interpolated between the last sample below and the first above.
    first, rows = stays.argmax(axis=1), np.arange(len(excess))
    before = np.maximum(first - 1, 0)  # the same at the start of the window
    above, rise = excess[rows, first], excess[rows, first] - excess[rows, before]
    back = np.divide(above, rise, out=np.zeros(len(rows)), where=rise > 0)
    onset = times[first] - back * (times[first] - times[before])
    return np.where(stays.any(axis=1), onset, np.nan)


#: Fewer subjects make fewer than 40 different resamples (35 of 4, 126 of 5), and a tail
#: of 2.5 % would hold none.
FEWEST_SUBJECTS = 5

#: Above this share of resamples without an onset, its interval is of the others only;
#: above this share of onsets that may be those of noise, so may be the interval.
MOST_WITHOUT = 0.05


@keeps_warnings
def bootstrap_latency(
    results: Sequence[ResultOrPath] | GroupResult | str | PathLike[str],
    *,
    other: Sequence[ResultOrPath] | None = None,
    paired: bool = False,
    labels: Sequence[str] | None = None,
    metric: str | None = None,
    criterion: OnsetName = "peak-fraction",
    fraction: float = 0.5,
    level: float = 0.05,
    min_duration: float = 0.05,
    window: tuple[float, float] | None = None,
    baseline: tuple[float, float] | None = None,
    n_bootstraps: int = 10000,
    confidence: float = 0.95,
    subjects: Sequence[str] | None = None,
    random_state: Seed = None,
) -> Latency:
    r"""Bootstrap the onset and the peak latency of a group's time course.

    Subjects are resampled with replacement [1]_, and onset and peak are determined in
    the mean time course of each resample. Confidence intervals follow from the
    variability of these latencies.

    Parameters
    ----------
    results : sequence of TimeResult or paths | GroupResult or path
        One result per subject over the same times, or their files; or the result of
        `group_inference` for them, or its file. At least 5 subjects.
    other : sequence of TimeResult or paths, or None
        A second list over the same times, for the difference between the latencies of
        `results` and of `other`.
    paired : bool
        The second list has the same subjects in the same order, which are then
        resampled together. False: other subjects, resampled independently.
    labels : sequence of two str, or None
        Names of the two sides of the comparison, for figures and texts. None is
        ("first", "second").
    metric : str or None
        Name of the metric; None takes the first.
    criterion : "peak-fraction" | "t"
        The level that the mean must exceed from the onset on. ``"peak-fraction"``: a
        fraction of its peak height above chance. ``"t"``: chance, in a one-sample
        t-test across subjects at each time. See Notes.
    fraction : float
        The fraction for "peak-fraction", between 0 and 1.
    level : float
        Significance level of the t-test, one-sided and uncorrected.
    min_duration : float
        Minimum duration above the level in seconds, and never less than three samples;
        0 for a single sample.
    window : tuple of float or None
        First and last time in seconds in which to search for onset and peak. None: from
        0 s on if times before and after 0 s were decoded, else all times. For
        response-locked epochs, pass a window that begins before the response.
    baseline : tuple of float or None
        First and last time in seconds; heights are then measured from the mean score of
        each subject in that time instead of chance.
    n_bootstraps : int
        Number of resamples.
    confidence : float
        Confidence of the intervals, between 0 and 1.
    subjects : sequence of str or None
        Names of the subjects.
    random_state : int | Generator | RandomState | None
        Seed of the resamples. With None, intervals differ from call to call; set a
        number, such as 0, and report it.

    Returns
    -------
    latency : Latency
        ``.onset`` and ``.peak`` in seconds, ``.onset_interval``, ``.peak_interval``,
        ``.onsets`` and ``.peaks`` of the resamples, ``.n_without_onset``,
        ``.to_dataframe()`` and ``.plot()``. With `other` all of them are differences,
        `results` minus `other`, and ``.parts`` holds those of each list. ``.save()``
        writes a file for `load_result`.

    Raises
    ------
    ValueError, TypeError
        With fewer than 5 subjects, for maps that are not time courses, a window or
        baseline without samples, a metric without chance level and no baseline,
        incompatible lists and unequal classes without permutations (as in
        `group_inference`), and arguments that are not valid.

    Warns
    -----
    RuntimeWarning
        If the mean has no onset, or more than 5% of the resamples have none; if in more
        than 5% the onset may be noise: the mean is above the level from the start of
        the window or, with "peak-fraction", also before 0 s.

    Notes
    -----
    The onset is where the mean crosses the level, interpolated linearly between
    samples; the first time of the window, if the mean is above the level from there on.

    With "peak-fraction" the mean :math:`m` must exceed :math:`c + f (\max m - c)`, with
    chance (or baseline) c and fraction f. This time does not depend on the height of
    the effect, and little on the number of subjects and their noise, so groups and
    conditions can be compared; half of the peak is a common fraction [3]_. It is later
    than the true beginning of the effect. With unequal classes, the mean of the
    permuted labels of each subject takes the place of chance, as in `group_inference`.

    The time at which an effect becomes significant, "t", is not a property of the
    effect alone: with more subjects or less noise the same effect is significant
    earlier. It shows from when on there is evidence, but cannot be used to compare
    groups. Some subjects occur several times in a resample, which makes its t-values
    larger than those of the original sample.

    The interval of an **onset**, or of a difference between onsets, is :math:`o \pm
    t_{n-1} \, s \sqrt{n / (n - 1)}`, with the standard deviation s of the resampled
    onsets and Student's t, limited to the search window; between groups it is Welch's
    interval. The interval of a **peak** is a percentile interval, as is usual for
    decoding over time [2]_. Resamples without an onset are left out. In simulations of
    subjects with autocorrelated noise (0.8 between successive samples of 0.01 s), whose
    latencies had a standard deviation of 0.02 or 0.06 s, 95 % intervals covered the
    onset in 93 and 92 % with 6 subjects, 97 and 96 % with 8, 95 and 93 % with 12, 91
    and 91 % with 20 (of 300 each). Percentile intervals covered it in 70 to 84 %, BCa
    in 70 to 90 %, jackknife intervals in 66 to 80 %. Percentile intervals covered peaks
    in 93 to 99 %.

    **Onsets of noisy means are late**, since the maximum of a noisy mean is too high
    and so is half of it: in these simulations by 0.020, 0.013, 0.012 and 0.009 s with
    6, 8, 12 and 20 subjects, and by 0.042, 0.033, 0.027 and 0.020 s if their latencies
    vary strongly. The estimate is not corrected for that, as resamples are biased in
    the same way. **Use differences between conditions or groups of equal size and
    noise**, in which this cancels: without a difference, 95 % intervals excluded 0 in
    0.4 to 8 % of 250 simulations each (with little noise and 6 or 8 subjects in 3 to 6
    %, percentiles in 7 to 8 %). Do not compare the onset of a strong effect with that
    of a weak one, or of a large group with that of a small one.

    **Noise may be mistaken for an onset if the effect is weak**, which is why the
    search starts at 0 s and short excursions are ignored. In simulations of 12 subjects
    with smooth noise (standard deviation 0.065 of each), a true onset at 0.229 s, and
    peaks of 0.03, 0.05 and 0.08 above chance, the onset was still before 0.1 s in 6, 3
    and 0.3 % of 1000 repetitions. The 95 % intervals covered the true onset in 94, 93
    and 91 %, but were 0.43, 0.28 and 0.12 s wide. The warning about noise was given in
    61, 43 and 15 %; longer durations and narrower windows help.

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
    >>> y = rng.permutation(["face", "house"] * 20)
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
    check_option("criterion", criterion, ONSETS)
    rule = {
        "criterion": criterion,
        "fraction": check_share("fraction", fraction),
        "level": check_share("level", level, 0.5),
        "min_duration": check_positive("min_duration", min_duration, zero=True),
        "window": _check_span("window", window),
        "baseline": _check_span("baseline", baseline),
    }
    n_bootstraps = check_count("n_bootstraps", n_bootstraps, minimum=100)
    confidence = check_share("confidence", confidence)
    paired, labels = check_flag("paired", paired), check_list_names(labels, other)
    read = paired, metric, subjects, labels, baseline
    (times, metric, chance), lists = _read(results, other, *read)
    seed, start = draw_seed(random_state), 0.0 if times[0] < 0 < times[-1] else times[0]
    window = rule["window"] or (float(start), float(times[-1]))
    rng, parts, found, n_early = np.random.default_rng(seed), [], [], 0
    for scores, levels in lists:
        n = len(scores)
        if not (parts and paired):
            drawn = draw_subjects(rng, n, n_bootstraps)
        if baseline is None and np.isnan(chance):
            raise ValueError(
                f"The metric {metric!r} has no chance level that heights could be "
                "measured from. Pass baseline=, a period before the effect, e.g. "
                "(-0.2, 0)."
            )
        # The subjects themselves come first, each of them once.
        counts = np.concatenate([np.ones((1, n), drawn.dtype), drawn])
        asked = counts, rule | {"window": window}, levels
        onsets, peaks, early = locate(times, scores, chance, *asked)
        n_early = max(n_early, int(np.count_nonzero(early[1:])))
        found.append((onsets, peaks, n))
        part = Latency(
            **_located(onsets, peaks, confidence, [(onsets, n)], window),
            metric=metric,
            chance=chance,
            permuted_mean=np.nan if levels is None else float(levels.mean()),
            times=times,
            mean=scores.mean(axis=0),
            n_subjects=n,
            window=window,
            parameters={**rule, "random_state": seed, "paired": paired},
            versions=versions(),
        )
        parts.append(part)
    latency = parts[0]
    if len(parts) > 1:
        (onsets, peaks, n), (other_onsets, other_peaks, n_others) = found
        onset = onsets - other_onsets
        samples = [(onset, n)] if paired else [(onsets, n), (other_onsets, n_others)]
        latency = replace(
            latency,
            **_located(onset, peaks - other_peaks, confidence, samples),
            times=np.empty(0),
            mean=np.empty(0),
            n_subjects=sum(n for _, n in samples),
            parts=tuple(parts),
            labels=labels,
        )
    _warn(latency, n_early)
    return latency


# -------------------------------------------------------------------------- the input


def _read(results, other, paired, metric, subjects, labels, baseline):
    """Times, metric and chance level, and scores and levels of each list.

    Scores (S, T) are those of subjects, and levels (S, 1) the means of their permuted
    labels in place of chance, or None.
    """
    results = _loaded(results)
    if isinstance(results, GroupResult):
        if other is not None or subjects is not None or metric is not None:
            raise ValueError(
                "A GroupResult has its metric, its subjects and its second list with "
                "it; leave out metric, subjects and other, or pass lists of results."
            )
        # Of two lists only the chance level of their difference is known.
        if results.other_scores is not None:
            raise ValueError(
                "This GroupResult compares two lists of subjects. Pass the lists: "
                "bootstrap_latency(results, other=others)."
            )
        of_all, scores, parts = results, results.subject_scores, [slice(None)]
        levels, mean = results.permuted_means, results.permuted_mean()
        if levels is None and np.isfinite(mean):
            levels = np.full(scores.shape, mean)
        levels = levels if baseline is None else None
    else:
        if isinstance(_loaded(other), GroupResult):
            raise TypeError("other must be a list of results, not a GroupResult.")
        entries, n_first, names = join_lists(results, other, subjects, paired, labels)
        group = Subjects(entries, n_first, names, metric=metric)
        of_all, scores, levels = group.first, group.expand(group.scores), None
        if baseline is None and np.isfinite(of_all.chance):
            also = " Or pass baseline=, a period before the effect, e.g. (-0.2, 0)."
            levels = level_to_test(group, "greater", also)
            levels = group.expand(levels) if np.ndim(levels) else None
        parts = [slice(n_first), slice(n_first, None)][: 1 if other is None else 2]

    places, lists = of_all.places, []
    if tuple(places.axes) != ("times",):
        raise ValueError(
            "Latencies are for scores over time (decode_epochs, decode_arrays); these "
            f"results are of the kind {places.kind}, {places.describe()}. The diagonal "
            "of a generalization map is result.diagonal()."
        )
    if levels is not None:  # over times, as chance is one number
        levels = levels.mean(axis=1, keepdims=True)
    for part in parts:
        if len(scores[part]) < FEWEST_SUBJECTS:
            raise ValueError(
                f"A bootstrap over {len(scores[part])} subjects has too few different "
                f"resamples for an interval; it takes {FEWEST_SUBJECTS} subjects or "
                "more."
            )
        of_list = check_array(scores[part], "results")
        lists.append((of_list, None if levels is None else levels[part]))
    times = np.asarray(places.coordinates["times"], dtype=float)
    return (times, of_all.metric, float(of_all.chance)), lists


def _loaded(results):
    """The result of a group if this is its file, and all else as it is."""
    is_file = is_path(results) and os.path.isfile(results)
    result = load_result(results) if is_file else None
    return result if isinstance(result, GroupResult) else results


def _check_span(name, span):
    """First and last time as floats, or None."""
    try:
        first, last = (0.0, 0.0) if span is None else map(float, span)
    except (TypeError, ValueError):
        first, last = 1.0, 0.0
    if not first <= last:
        allowed = "None, or a tuple of first and last time in seconds"
        raise invalid(name, span, allowed)
    return None if span is None else (first, last)


# ---------------------------------------------------------------------- the latencies


def _located(onsets, peaks, confidence, samples, window=(-np.inf, np.inf)):
    """The fields of a `Latency`; onsets and peaks of the subjects come first.

    The interval of a peak are percentiles, and that of t around an onset is within the
    window. Of a difference between groups there are two `samples`, the onsets and the
    number of subjects of each, which have the degrees of freedom of Welch.
    """
    onset, peak, tail = float(onsets[0]), float(peaks[0]), (1 - confidence) / 2
    ends, resampled = np.full((2, 2), np.nan), peaks[1:][~np.isnan(peaks[1:])]
    if not np.isnan(peak) and len(resampled):
        ends[1] = np.quantile(resampled, [tail, 1 - tail])
    errors, dofs = np.empty((2, len(samples)))
    for k, (of_sample, n) in enumerate(samples):
        some = of_sample[1:][~np.isnan(of_sample[1:])]
        # A bootstrap takes the spread of n subjects for that of the population.
        errors[k] = some.var() * n / (n - 1) if len(some) else np.nan
        dofs[k] = n - 1
    total, dof = errors.sum(), dofs.sum()
    if len(samples) > 1 and total > 0:
        dof = total**2 / (errors**2 / dofs).sum()
    if not np.isnan(onset):
        half = student.isf(tail, dof) * np.sqrt(total)
        ends[0] = np.clip(onset + half * np.array([-1, 1]), *window)
    return {
        "onset": onset,
        "peak": peak,
        "onset_interval": ends[0],
        "peak_interval": ends[1],
        "onsets": onsets[1:],
        "peaks": peaks[1:],
        "confidence": confidence,
    }


def _warn(latency, n_early):
    """Warn where onsets are missing, and where noise may be that of many resamples."""
    n, n_without = len(latency.onsets), latency.n_without_onset
    if np.isnan(latency.onset):
        warn(
            "The mean over subjects has no onset: it does not exceed the level "
            "of the criterion for min_duration. The onset and its interval "
            "are NaN; the peak may be noise."
        )
    elif n_without > MOST_WITHOUT * n:
        warn(
            f"{n_without} of {n} resamples have no onset and are left out; the "
            "interval is based on the others and too narrow. The effect is not in all "
            "subjects, or too short: see min_duration, window and criterion."
        )
    if (share := n_early / len(latency.onsets)) <= MOST_WITHOUT:
        return
    first = max(part.window[0] for part in latency.parts or (latency,))
    before, advice = ", or before 0 s, where it can only be noise", "a larger fraction"
    if latency.parameters["criterion"] == "t":
        before, advice = "", "a smaller level"
    warn(
        f"In {100 * share:.0f} % of the resamples the mean is already above the level "
        f"of the onset at the start of the window, {first:.3f} s{before}: onset and "
        f"interval may be due to noise. Use window=..., a longer min_duration, or "
        f"{advice}."
    )
