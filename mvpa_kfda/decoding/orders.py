"""The order of trials: what lets time, or the trial before, pass for a class.

Whatever drifts in the course of a recording (fatigue, movement, electrodes) is alike in
trials that are near in time, and alike at the same position of every run; a slow
response is still there when the next trial begins. A check compares the order of the
labels with random orders within groups, drawn with a fixed seed. It finds a problem
only where none of `_MOST` goes as far, a curve fitted to them says that fewer than
`_LEVEL` do [1]_, and what is seen is large enough to matter, so that a randomised
design is hardly ever warned of.

- Sorted: each class in one block, or groups of one class each in blocks, always.
- Order: pairs of trials of two groups at the same position that are of one class.
- Blocks, repeats: changes of the class from one trial of a group to the next.
- Transitions: the same, too many of them, or a class that tells which one follows.
- Trend: the mean position of a class in the groups, or in the recording.
- Parts: the share of a class in parts of the recording, where there are no groups.
- Subjects: rows that pass through all groups several times, of one class each time.
- Pairs: trained and tested trials next to each other that are of one class.

Of numbers that are predicted: whether they last from trial to trial, whether they have
a trend, and whether all groups have the same order.

References
----------
.. [1] Winkler, A. M., Ridgway, G. R., Douaud, G., Nichols, T. E., & Smith, S. M.
   (2016). Faster permutation inference in brain imaging. NeuroImage, 141, 502-516.
"""

from dataclasses import dataclass

import numpy as np
from scipy.stats import pearson3, rankdata, skew

from ..kfda.folds import is_sorted
from ..utils.problems import Problem
from .problems import CONFOUND_LEVEL, measure_confounds

#: Random orders that are drawn at most, and at a time.
_MOST, _AT_A_TIME = 999, 20

#: What is seen is a problem if random orders go as far less often than this.
_LEVEL = 2e-5

#: Standard deviations from which on no more orders need to be drawn, but this many.
_FAR, _ENOUGH = 15.0, 100

#: How alike the order has to be in different groups: 0 as by chance, 1 the same.
_ALIKE = 0.15
#: The same where classes come in blocks: few blocks are often alike by chance.
_ALIKE_BLOCKS = 0.5

#: Blocks have fewer changes of the class, as a part of those in random order; so have
#: labels that repeat.
_BLOCKS, _FEW_CHANGES = 0.7, 0.9

#: Repeats that are less than this part of those in random order are few. Besides, how
#: much the class before tells: squared Cramér's V, beyond chance.
_FEW_REPEATS, _TELLS = 0.8, 0.02

#: The share of the variance of the position that is between classes, or of a number
#: that a line in time explains.
_TREND = 0.02

#: Into how many parts a recording is divided, and the fewest trials in each.
_PARTS, _PART = (3, 4, 6, 8, 12, 16, 24, 32), 6

#: Trials beyond the first in each passage through the groups.
_PASSED = 16

#: The correlation of numbers with those of the trial before that counts as lasting.
_LASTING = 0.1


@dataclass(frozen=True, eq=False)
class _Trials:
    """Trials in the order of time within groups, one group after the other."""

    codes: np.ndarray  #: the class of each, or its number, (n,)
    group: np.ndarray  #: the number of its group, (n,)
    #: Its position in the group, (n,): its rank, and the number that it was given.
    ranks: np.ndarray
    numbers: np.ndarray

    @property
    def n_groups(self):
        """The number of groups."""
        return int(self.group[-1]) + 1

    @property
    def together(self):
        """Mark trials (n - 1,) that the next one of their group follows."""
        return self.group[1:] == self.group[:-1]

    @property
    def time(self):
        """Return the position (n,) in the group, from -1 to 1, of mean 0."""
        sizes = np.bincount(self.group)[self.group]
        return (2 * self.ranks - (sizes - 1)) / np.maximum(sizes - 1, 1)

    @property
    def positions(self):
        """Return positions (n,) in the groups, numbered: by rank, and as recorded.

        Where trials were dropped, those that are left have their place by the numbers.
        """
        dropped = not np.array_equal(self.ranks, self.numbers)
        for position in (self.ranks, self.numbers)[: 1 + dropped]:
            position = np.unique(position, return_inverse=True)[1].reshape(-1)
            if np.bincount(position).max() > 1:
                yield position

    def changes(self, labels):
        """Count changes of the class, (B,), in labels (B, n)."""
        return np.count_nonzero((labels[:, 1:] != labels[:, :-1])[:, self.together], 1)

    def agreements(self, labels, position):
        """Count pairs at one position that are of one class, (B,), in labels (B, n)."""
        n_classes = int(self.codes.max()) + 1
        counts = _count(position * n_classes + labels)
        return _pairs(counts).sum(axis=1)

    def windows(self):
        """Return numbers (n,) of the smallest windows that hold the same classes each.

        They are as long as a group where classes are not balanced in less.
        """
        longest = int(np.gcd.reduce(np.bincount(self.group)))
        for size in range(2, longest + 1):
            if longest % size:
                continue
            window = np.arange(len(self.codes)) // size
            counts = np.zeros((window[-1] + 1, int(self.codes.max()) + 1), int)
            np.add.at(counts, (window, self.codes), 1)
            if (counts == counts[0]).all():
                return window
        return self.group


def _pairs(counts):
    """Return how many pairs there are in so many."""
    return counts * (counts - 1) // 2


def _count(cells):
    """Count how often each number occurs in every row (B, n)."""
    n_cells = int(cells.max()) + 1
    rows = n_cells * np.arange(len(cells))[:, np.newaxis]
    counts = np.bincount((rows + cells).ravel(), minlength=n_cells * len(cells))
    return counts.reshape(len(cells), n_cells)


# ------------------------------------------------------------------------ what is asked


def warn_of_order(analysis, folds, numbers=None):
    """Warn of the problems in the order of labels that an analysis runs into.

    The `folds` are those of the trials, as the labels are, averaged or not.
    """
    given, chosen = analysis.trials, analysis.trained_trials
    permutations = analysis.permutations
    one_by_one = permutations.n_permutations and permutations.scheme != "groups"
    trials = given.codes, given.groups, chosen, numbers
    for problem in find_in_order(*trials, folds, one_by_one):
        if problem.severity == "warning":
            problem.warn()


def warn_of_order_of_values(values, groups, numbers=None, folds=None):
    """Warn of the problems in the order of numbers that are predicted."""
    for problem in find_in_values(values, groups, numbers, folds):
        problem.warn()


def find_in_order(codes, groups, chosen, numbers, folds, one_by_one):
    """Return the problems in the order of labels that are some for these folds.

    Blocks are none where labels are not exchanged `one_by_one`, and folds regard groups
    or there are none. Where only `chosen` trials are trained with, their labels count.
    """
    cut, pairs = groups is None and folds is not None, []
    if chosen is not None:  # the others' labels are never trained with
        cut = cut and len(folds.tests) > 1
        pairs = _find_pairs(codes, groups, chosen, numbers, folds)
        codes, groups, numbers = (
            None if each is None else each[chosen] for each in (codes, groups, numbers)
        )
    found = find_problems(codes, groups, numbers, folds)
    lasting = one_by_one or cut
    return pairs + [x for x in found if lasting or x.name not in ("blocks", "repeats")]


def find_problems(codes, groups=None, numbers=None, folds=None):
    """Look for problems in the order of labels.

    Parameters
    ----------
    codes : array of int, shape (n_trials,)
        Class of each trial, numbered from 0.
    groups : array, shape (n_trials,) | None
        Runs, sessions or subjects.
    numbers : array of int, shape (n_trials,) | None
        The number of each trial in the recording, of which some may be missing. None:
        the trials are in order, as far as is known.
    folds : Folds | None
        Those that are used, where they are known.

    Returns
    -------
    problems : list of Problem
        Those that were found.
    """
    codes = np.asarray(codes, np.intp)
    about = codes, groups, numbers
    alone = _find_sorted(*about, folds=folds) or _find_subjects(*about)
    if alone:
        return alone
    trials = _in_time(codes, groups, numbers)
    blocks = _find_blocks(trials)
    lasting = [each for each in blocks if each.name == "blocks"]
    order = _find_order(trials, _ALIKE_BLOCKS if lasting else _ALIKE)
    if order or lasting:
        return [*order, *blocks]
    found = blocks or _find_transitions(trials)
    found += _find_trend(trials, groups is None)
    return found or (_find_parts(trials) if groups is None else [])


def find_in_values(values, groups=None, numbers=None, folds=None):
    """Return the problems in the order of numbers (n,) that are predicted.

    Groups, numbers of trials and folds are those of `find_problems`.
    """
    if found := _find_sorted(values, groups, numbers, "target", folds):
        return found
    trials = _in_time(rankdata(values), groups, numbers)
    means = np.bincount(trials.group, trials.codes) / np.bincount(trials.group)
    centred = trials.codes - means[trials.group]  # also in every order within groups
    total = np.sum(centred**2)
    if not total:
        return []
    trend = _find_trend_of_values(trials, centred, total, groups is None)
    line = trials.time * (centred @ trials.time) / max(trials.time @ trials.time, 1)
    rest = centred - line
    return trend + (
        _find_order_of_values(trials, rest) or _find_lasting(trials, rest, total)
    )


def _in_time(codes, groups, numbers):
    """Return the `_Trials` in the order of their numbers."""
    n = len(codes)
    numbers = np.arange(n) if numbers is None else np.asarray(numbers)
    group = np.zeros(n, int)
    if groups is not None:
        group = np.unique(groups, return_inverse=True)[1].reshape(-1)
    order = np.lexsort((numbers, group))
    numbers, group = numbers[order], group[order]
    first = np.flatnonzero(np.diff(group, prepend=-1))[group]
    return _Trials(
        np.asarray(codes)[order],
        group,
        np.arange(n) - first,
        numbers - numbers[first],
    )


def _beyond_chance(statistic, codes, windows):
    """Return what random orders give on average, and whether hardly any gives as much.

    Labels are shuffled within windows (n,), numbered from 0 in ascending order.
    """
    rng, drawn = np.random.default_rng(0), np.empty(0)
    observed = statistic(codes[np.newaxis])[0]
    while len(drawn) < _MOST:
        keys = windows + rng.random((min(_AT_A_TIME, _MOST - len(drawn)), len(codes)))
        drawn = np.append(drawn, statistic(codes[np.argsort(keys, axis=1)]))
        if drawn.max() >= observed:
            return drawn.mean(), False
        far = observed - drawn.mean() > _FAR * drawn.std()
        if len(drawn) >= _ENOUGH and far:
            return drawn.mean(), True
    # A tail to the left says little about the right one: there, at least a normal one.
    moments = max(skew(drawn), 0), drawn.mean(), drawn.std()
    return drawn.mean(), bool(pearson3.sf(observed, *moments) < _LEVEL)


# ------------------------------------------------------------------ one block a class


def _find_sorted(values, groups, numbers, noun="class", folds=None):
    """Find one block of rows for each class, or of groups of one class each."""
    order = np.arange(len(values)) if numbers is None else np.argsort(numbers)
    values, of = values[order], "rows"
    if groups is not None:
        group = np.asarray(groups)[order]
        first, number = np.unique(group, return_index=True, return_inverse=True)[1:]
        number = number.reshape(-1)
        if (values == values[first][number]).all():
            values, of = values[np.sort(first)], "groups"
        elif np.count_nonzero(np.diff(number)) >= len(first):
            return []  # groups that come again are not in the order of recording
    if not is_sorted(values):
        return []
    text = (
        f"The {of} are sorted by {noun}: time and {noun} cannot be told apart if this "
        "is the order of recording, and anything that drifts or changes between "
        "recordings can be decoded. Neither folds nor permutations prevent this. If "
        f"the {of} were sorted afterwards, pass them in the order of recording."
    )
    if folds is not None and folds.balanced and groups is None:
        part = f"the i-th part of each {noun}"
        text += (
            f" As they are, the i-th fold holds {part}, and p-values are approximate."
        )
    return [Problem("sorted", text)]


def _word_other_order(single):
    """Say what to do about an order that is not that of the recording."""
    if single:
        return (
            "If the rows were recorded in another order, pass them in that order: by "
            "default, folds are neighbouring rows."
        )
    return (
        "If the rows were merely sorted this way within groups, and were recorded in "
        "another order, you can ignore this warning."
    )


# --------------------------------------------------------------------- the same in runs


def _find_order(trials, alike):
    """Find labels that come in the same order in every group."""
    if trials.n_groups == 1:
        return []
    windows = trials.windows()
    for position in trials.positions:
        n_pairs = _pairs(np.bincount(position)).sum()

        def agreements(labels, position=position):
            return trials.agreements(labels, position)

        # Designs that are balanced within windows are compared with others that are.
        chance, found = _beyond_chance(agreements, trials.codes, windows)
        observed = agreements(trials.codes[np.newaxis])[0]
        if found and observed - chance >= alike * (n_pairs - chance):
            shares = float(observed / n_pairs), float(chance / n_pairs)
            numbers = {"n_groups": trials.n_groups, "agreement": shares[0]}
            numbers["by_chance"] = shares[1]
            if np.array_equal(trials.codes, trials.ranks):
                return [Problem("order", _ONE_OF_EACH, numbers, "note")]
            return [Problem("order", _word_order(trials.n_groups, *shares), numbers)]
    return []


#: Of groups that list each class once, as the images of a model of whole runs do.
_ONE_OF_EACH = (
    "Each group holds its classes once, in the order of their names. For estimates of "
    "whole runs, such as one image per condition, this order says nothing about time. "
    "If it is that in which trials or blocks were recorded, position predicts class, "
    "and anything that changes over the course of a group can be decoded."
)


def _word_order(n_groups, share, by_chance):
    """Say that the order is the same in all groups."""
    return (
        f"The order of the classes is similar across the {n_groups} groups: trials at "
        f"the same position in two groups belong to the same class in {share:.0%} of "
        f"cases, compared with {by_chance:.0%} in random order. Position therefore "
        "predicts class, and anything that changes over the course of a group, such as "
        "fatigue or drift, can be decoded. Neither leaving groups out nor permuting "
        "labels prevents this. In future recordings, draw a new random order for each "
        "group. For these data, compare the scores with those from position alone and, "
        "for epochs, with those before the stimulus. If each position is a subject of "
        "one class, such as patients and controls, pass the subjects as groups. "
        f"{_word_other_order(False)}"
    )


def _find_order_of_values(trials, centred):
    """Find numbers that are alike at the same position of every group."""
    if trials.n_groups == 1:
        return []
    for position in trials.positions:
        counts = np.bincount(position)
        shares = (counts - 1)[position] @ centred**2  # of all pairs, were they alike
        rows = np.argsort(position, kind="stable")
        starts = np.cumsum(counts) - counts

        def alike(values, rows=rows, starts=starts):
            sums = np.add.reduceat(values[:, rows], starts, axis=1)
            return (sums**2).sum(axis=1) - (values**2).sum(axis=1)

        _, found = _beyond_chance(alike, centred, trials.group)
        share = float(alike(centred[np.newaxis])[0] / shares)
        if found and share >= _ALIKE:
            text = (
                f"The targets are similar across the {trials.n_groups} groups: at the "
                "same position in two groups they have a correlation of "
                f"{share:.2f}. Position therefore predicts the target, and anything "
                "that changes over the course of a group can be decoded. Neither "
                "leaving groups out nor permutations prevent this. In future "
                "recordings, draw a new random order for each group. For these data, "
                "pass the position and its square as confounds, which removes slow "
                f"changes. {_word_other_order(False)}"
            )
            numbers = {"n_groups": trials.n_groups, "correlation": share}
            return [Problem("order", text, numbers)]
    return []


# --------------------------------------------------------- from one trial to the next


def _find_blocks(trials):
    """Find labels that last for many trials, or repeat more often than by chance."""
    lasting, found = _beyond_chance(
        lambda labels: -trials.changes(labels), trials.codes, trials.group
    )
    observed, by_chance = int(_of(trials, trials.changes)), -float(lasting)
    if not found or observed >= _FEW_CHANGES * by_chance:
        return []
    numbers = {"changes": observed, "by_chance": by_chance}
    few = observed < _BLOCKS * by_chance
    name, word = ("blocks", _word_blocks) if few else ("repeats", _word_repeats)
    text = word(observed, by_chance, trials.n_groups == 1)
    return [Problem(name, text, numbers)]


def _of(trials, statistic):
    """Return a statistic of the observed labels."""
    return statistic(trials.codes[np.newaxis])[0]


def _word_changes(changes, by_chance):
    """Say how often the label changes, and would in random order."""
    times = "once" if changes == 1 else f"{changes} times"
    return (
        f"The label changes {times} between successive trials; in random order about "
        f"{by_chance:.0f} changes are expected."
    )


def _word_blocks(changes, by_chance, single):
    """Say that labels come in blocks."""
    return (
        f"{_word_changes(changes, by_chance)} Trials close in time are correlated "
        "(volumes of a time series most of all), so trials within a block are not "
        "independent: permuting them one by one gives p-values that are too small, and "
        "without groups they are in both training and test sets. Decode the mean of "
        "each block, or one estimate per trial, with runs as groups. "
        f"{_word_other_order(single)}"
    )


def _word_repeats(changes, by_chance, single):
    """Say that labels repeat, though not in blocks."""
    joined = (
        " If subjects, sessions or runs with different class proportions were "
        "concatenated, pass them as groups: labels are then permuted within each."
    )
    return (
        f"{_word_changes(changes, by_chance)} If noise is correlated from trial to "
        "trial, trials with repeated labels are not independent: permuting them one by "
        "one gives p-values that are too small." + joined * single + " Randomise the "
        "order. If labels depend on the previous trial, as responses do, and cannot be "
        "randomised, decode the mean of each stretch of one class, with runs as "
        "groups, and do not trust p-values of single trials just below the level. "
        f"{_word_other_order(single)}"
    )


def _find_transitions(trials):
    """Find a class that tells which one follows, most often another one."""
    together = np.flatnonzero(trials.together)
    if not len(together):
        return []
    chance, found = _beyond_chance(trials.changes, trials.codes, trials.group)
    repeats = len(together) - int(_of(trials, trials.changes))
    by_chance = len(together) - float(chance)
    few = found and repeats < _FEW_REPEATS * by_chance
    if not few and not _tells(trials, together):
        return []
    said = (
        f"The class of a trial equals that of the previous trial {repeats} times; in "
        f"random order about {by_chance:.0f} times are expected."
    )
    if not few:
        said = "The class of a trial predicts the class of the next one."
    text = (
        f"{said} Carry-over from a trial (a slow response, adaptation, eye movements, "
        "the haemodynamic response) therefore predicts the class of the next, and can "
        "be decoded (in epochs even before the stimulus); neither folds nor "
        "permutations prevent this. Randomise the order without balancing pairs of "
        "trials or excluding repeats, or balance all transitions, including repeats. "
        "For these data, pass the class of the previous trial (as strings) as a "
        "confound, which removes its mean effect. "
        f"{_word_other_order(trials.n_groups == 1)}"
    )
    numbers = {"repeats": repeats, "by_chance": by_chance}
    return [Problem("transitions", text, numbers)]


def _tells(trials, before):
    """Tell whether the class of a trial, repeated or not, tells which one follows."""
    n_classes = int(trials.codes.max()) + 1
    if n_classes == 2:  # whether it is the same one is all
        return False
    shares = np.bincount(trials.codes) / len(trials.codes)
    expected = len(before) * np.outer(shares, shares).ravel()

    def deviation(labels):
        cells = labels[:, before] * n_classes + labels[:, before + 1]
        cells = np.column_stack([cells, np.full(len(cells), n_classes**2 - 1)])
        counts = _count(cells)
        counts[:, -1] -= 1  # which was added to have all cells
        return ((counts - expected) ** 2 / expected).sum(axis=1)

    chance, found = _beyond_chance(deviation, trials.codes, trials.group)
    most = len(before) * (n_classes - 1)
    return found and _of(trials, deviation) - chance >= _TELLS * most


def _find_lasting(trials, centred, total):
    """Find numbers that last from trial to trial, beyond what rises or falls."""
    together = trials.together

    def products(values):
        return (values[:, 1:] * values[:, :-1])[:, together].sum(axis=1)

    chance, found = _beyond_chance(products, centred, trials.group)
    correlation = float((products(centred[np.newaxis])[0] - chance) / total)
    if not found or correlation < _LASTING:
        return []
    text = (
        "The targets are correlated from trial to trial: their correlation with the "
        f"previous trial is {correlation:.2f}, more than in any random order. Signals "
        "are correlated, too, so trials are not independent: permuting targets one by "
        "one gives p-values that are too small. Predict the difference from the "
        "previous target, or the mean over stretches of trials that are longer than "
        "the correlation lasts. If subjects, sessions or runs were concatenated, pass "
        f"them as groups. {_word_other_order(trials.n_groups == 1)}"
    )
    return [Problem("lasting", text, {"correlation": correlation})]


# ------------------------------------------------------------- in the course of time


def _find_trend(trials, single):
    """Find classes of which one comes earlier in the groups, or in the recording."""
    time = trials.time
    counts = np.bincount(trials.codes)
    present = np.flatnonzero(counts)

    def between(labels):
        sums = ((labels == k) @ time for k in present)
        return sum(s**2 / counts[k] for s, k in zip(sums, present, strict=True))

    _, found = _beyond_chance(between, trials.codes, trials.group)
    share = float(_of(trials, between) / max(time @ time, 1))
    if not found or share < _TREND:
        return []
    text = (
        "The classes have a trend over the "
        f"{'recording' if single else 'groups'}: some come earlier than others, as "
        "errors, choices and ratings do when subjects learn or tire. Classes explain "
        f"{share:.1%} of the variance of the position, more than in any random order. "
        f"{_word_time(single)}"
    )
    return [Problem("trend", text, {"eta_squared": share})]


def find_weak_trend(codes, groups=None, numbers=None):
    """Return the `Problem`, a note, of labels that seem to follow the time, or None.

    Of labels that nobody dealt out in equal numbers, as those that subjects give: what
    is too weak for a warning, at the level of confounds.
    """
    codes = np.asarray(codes, np.intp)
    trials = _in_time(codes, groups, numbers)
    counts = _count((trials.group * (codes.max() + 1) + trials.codes)[np.newaxis])
    if len(np.unique(counts)) == 1 or not trials.time.any():
        return None
    within = None if groups is None else trials.group
    time = trials.time[:, np.newaxis]
    (share,), (p,) = measure_confounds([time], trials.codes, within)
    if p > CONFOUND_LEVEL:
        return None
    text = (
        "The classes may have a trend over the "
        f"{'recording' if groups is None else 'groups'}: they explain {share:.1%} of "
        f"the variance of the position (p = {p:.2g} by permutation), and their numbers "
        "are unequal, as with labels given by subjects (errors, choices, ratings). "
        f"{_word_time(groups is None)}"
    )
    return Problem("trend", text, {"eta_squared": float(share)}, "note")


def _word_time(single):
    """Say what a trend does, and what to do."""
    where = "recording" if single else "group"
    return (
        "Any drift can therefore be decoded, and neither folds nor permutations "
        f"prevent this. Pass the position in the {where} and its square as confounds, "
        "which removes their linear effects; compare the scores with those from "
        "position alone and, for epochs, with those before the stimulus. "
        f"{_word_other_order(single)}"
    )


def _find_trend_of_values(trials, centred, total, single):
    """Find numbers that rise or fall in the groups, or in the recording."""
    time = trials.time
    _, found = _beyond_chance(lambda x: (x @ time) ** 2, centred, trials.group)
    r = float(centred @ time / np.sqrt(total * (time @ time)))
    if not found or r**2 < _TREND:
        return []
    text = (
        f"The targets have a trend over the {'recording' if single else 'groups'}: "
        f"they have a correlation of {r:.2f} with the position, more than in any "
        f"random order. {_word_time(single)}"
    )
    return [Problem("trend", text, {"correlation": r})]


def _find_parts(trials):
    """Find shares of the classes that differ between parts of the recording."""
    n = len(trials.codes)
    shares = np.bincount(trials.codes) / n
    kept = np.flatnonzero(shares)
    divided = [np.arange(n) * m // n for m in _PARTS if n >= m * _PART]
    if not divided:
        return []

    def differ(labels):
        members = (labels == kept[:, np.newaxis, np.newaxis]) - shares[
            kept, np.newaxis, np.newaxis
        ]
        each = [_chi_square(members, part, shares[kept]) for part in divided]
        return np.max(each, axis=0)

    _, found = _beyond_chance(differ, trials.codes, trials.group)
    if not found:
        return []
    text = (
        "Class proportions differ between parts of the rows, more than in any random "
        "order. If these parts are subjects, sessions or runs that were concatenated, "
        "they also differ for reasons unrelated to the classes, so a model that "
        "distinguishes them predicts classes, and p-values are too small. Pass them as "
        "groups: they are then left out as wholes, and labels are permuted within "
        "each. If this is a single recording, any drift can be decoded: randomise the "
        f"order, or balance the classes in each part. {_word_other_order(True)}"
    )
    return [Problem("parts", text)]


def _chi_square(members, part, shares):
    """Return how far classes differ between parts, (B,), about normal by chance.

    Of members (c, B, n) less their share; by the cube root of chi-square.
    """
    starts = np.flatnonzero(np.diff(part, prepend=-1))
    sums = np.add.reduceat(members, starts, axis=2)  # (c, B, m)
    sizes = np.bincount(part)
    chi_square = (sums**2 / (sizes * shares[:, np.newaxis, np.newaxis])).sum((0, 2))
    freedom = (len(sizes) - 1) * max(len(shares) - 1, 1)
    unit = 2 / (9 * freedom)
    return (np.cbrt(chi_square / freedom) - (1 - unit)) / np.sqrt(unit)


# ------------------------------------------------------------------- what goes together


def _find_subjects(codes, groups, numbers):
    """Find rows that pass through all groups repeatedly, of one class each time."""
    if groups is None:
        return []
    order = np.arange(len(codes)) if numbers is None else np.argsort(numbers)
    codes = codes[order]
    group = np.unique(groups, return_inverse=True)[1].reshape(-1)[order]
    starts, seen = [0], {group[0]}
    for i in np.flatnonzero(np.diff(group)) + 1:
        if group[i] in seen:
            starts.append(i)
            seen = set()
        seen.add(group[i])
    first = codes[starts]
    sizes = np.diff([*starts, len(codes)])
    n_passages = np.bincount(first, minlength=codes.max() + 1)[np.unique(codes)]
    if min(n_passages) < 2 or not np.array_equal(np.repeat(first, sizes), codes):
        return []
    if len(codes) - len(starts) < _PASSED:
        return []
    text = (
        f"The rows cycle {len(starts)} times through the {group.max() + 1} groups, "
        "each time with trials of a single class, as if each cycle were a subject, "
        "such as a patient or a control, and the groups its runs. Each subject is then "
        "in both training and test sets, so scores may reflect the identity of "
        "subjects, and p-values are far too small. Pass the subjects as groups: they "
        "are then left out as wholes, and labels of whole subjects are permuted. If "
        "the rows were merely sorted by class and belong to one subject, you can "
        "ignore this warning."
    )
    return [Problem("subjects", text, {"passages": len(starts)})]


def _find_pairs(codes, groups, chosen, numbers, folds):
    """Find tested trials that go with one trained with, which is of their class."""
    n = len(codes)
    order = np.arange(n) if numbers is None else np.argsort(numbers)
    trained, tested = order[chosen[order]], order[~chosen[order]]
    if groups is None and numbers is None and is_sorted(codes[trained]):
        return []  # of which nothing is known
    place = np.empty(n, int)
    place[order] = np.arange(n)
    after = np.searchsorted(place[trained], place[tested])
    partners = [after - 1, after]  # the one before, and the one that follows
    if len(trained) == len(tested):
        partners.append(np.arange(len(tested)))  # of one set after the other
    group = np.zeros(n, int)
    if groups is not None:
        group = np.unique(groups, return_inverse=True)[1].reshape(-1)
    for partner in partners:
        valid = (partner >= 0) & (partner < len(trained))
        pairs = np.stack([tested[valid], trained[partner[valid]]])
        pairs = pairs[:, _are_met(folds, pairs, n)]
        pairs = pairs[:, np.argsort(group[pairs[0]], kind="stable")]
        if pairs.shape[1] < 2:
            continue
        windows = np.unique(group[pairs[0]], return_inverse=True)[1].reshape(-1)
        mates = codes[pairs[1]]
        chance, found = _beyond_chance(
            lambda labels, mates=mates: np.count_nonzero(labels == mates, axis=1),
            codes[pairs[0]],
            windows,
        )
        same = np.count_nonzero(codes[pairs[0]] == mates)
        if found and same - chance >= _ALIKE * (len(mates) - chance):
            return [_pairs_problem(same / len(mates), chance / len(mates))]
    return []


def _are_met(folds, pairs, n):
    """Tell of pairs (2, k) whether a fold tests the first and trains with the other."""
    met = np.zeros(pairs.shape[1], bool)
    for train, test in folds.pairs if folds else ():
        inside = np.zeros((2, n), bool)
        inside[0, test], inside[1, train] = True, True
        met |= inside[0, pairs[0]] & inside[1, pairs[1]]
    return met


def _pairs_problem(share, by_chance):
    """Return the `Problem` of trials that go with those they are tested with."""
    text = (
        "Test trials have the same class as a neighbouring training trial in "
        f"{share:.0%} of cases, compared with {by_chance:.0%} in random order. Trials "
        "close in time are correlated, such as one that is seen and one that is "
        "imagined next, so the noise of the neighbour predicts the class, and p-values "
        "are too small. Pass groups that contain both, such as runs or the pair "
        "number, so that no model is tested next to its training trials. If "
        "neighbouring rows were not neighbours in the recording, you can ignore this "
        "warning."
    )
    numbers = {"agreement": float(share), "by_chance": float(by_chance)}
    return Problem("pairs", text, numbers)
