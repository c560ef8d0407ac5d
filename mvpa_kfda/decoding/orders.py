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
from .problems import CONFOUND_LEVEL, TEXTS, measure_confounds, number_groups, say

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
        """The position (n,) in the group, from -1 to 1, of mean 0."""
        sizes = np.bincount(self.group)[self.group]
        return (2 * self.ranks - (sizes - 1)) / np.maximum(sizes - 1, 1)

    @property
    def positions(self):
        """Positions (n,) in the groups, numbered: by rank, and as recorded.

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
        return _pairs(_count(position * n_classes + labels)).sum(axis=1)

    def windows(self):
        """Numbers (n,) of the smallest windows that hold the same classes each.

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

    def compare(self, statistic, windows=None, values=None):
        """A statistic that is seen, its mean in random orders, whether it is beyond."""
        values = self.codes if values is None else values
        windows = self.group if windows is None else windows
        return beyond_chance(statistic, values, windows)

    @property
    def words(self):
        """What texts say of the recording."""
        where, one, other = "groups", "group", "other order"
        if self.n_groups == 1:
            where, one, other = "recording", "recording", "other rows"
        return {"where": where, "one": one, "other_order": TEXTS[other]}


def _pairs(counts):
    """The number of pairs there are in so many."""
    return counts * (counts - 1) // 2


def _count(cells):
    """Count how often each number occurs in every row (B, n)."""
    n_cells = int(cells.max()) + 1
    rows = n_cells * np.arange(len(cells))[:, np.newaxis]
    counts = np.bincount((rows + cells).ravel(), minlength=n_cells * len(cells))
    return counts.reshape(len(cells), n_cells)


def _in_time(codes, groups, numbers):
    """The `_Trials` in the order of their numbers."""
    n = len(codes)
    numbers = np.arange(n) if numbers is None else np.asarray(numbers)
    group = number_groups(groups, n)
    order = np.lexsort((numbers, group))
    numbers, group = numbers[order], group[order]
    first = np.flatnonzero(np.diff(group, prepend=-1))[group]
    ranks = np.arange(n) - first
    return _Trials(np.asarray(codes)[order], group, ranks, numbers - numbers[first])


def beyond_chance(statistic, codes, windows):
    """A statistic, its mean in random orders, and whether hardly any gives as much.

    Labels are shuffled within windows (n,), numbered from 0 in ascending order.
    """
    rng, drawn = np.random.default_rng(0), np.empty(0)
    observed = statistic(codes[np.newaxis])[0]
    while len(drawn) < _MOST:
        keys = windows + rng.random((min(_AT_A_TIME, _MOST - len(drawn)), len(codes)))
        drawn = np.append(drawn, statistic(codes[np.argsort(keys, axis=1)]))
        if drawn.max() >= observed:
            return observed, drawn.mean(), False
        far = observed - drawn.mean() > _FAR * drawn.std()
        if len(drawn) >= _ENOUGH and far:
            return observed, drawn.mean(), True
    # A tail to the left says little about the right one: there, at least a normal one.
    moments = max(skew(drawn), 0), drawn.mean(), drawn.std()
    found = bool(pearson3.sf(observed, *moments) < _LEVEL)
    return observed, drawn.mean(), found


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


def find_in_order(codes, groups, chosen, numbers, folds, one_by_one):
    """The problems in the order of labels that are some for these folds.

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
    found = (blocks or _find_transitions(trials)) + _find_trend(trials)
    return found or (_find_parts(trials) if groups is None else [])


def find_in_values(values, groups=None, numbers=None, folds=None):
    """The problems in the order of numbers (n,) that are predicted.

    Groups, numbers of trials and folds are those of `find_problems`.
    """
    if found := _find_sorted(values, groups, numbers, "target", folds):
        return found
    trials = _in_time(rankdata(values), groups, numbers)
    means = np.bincount(trials.group, trials.codes) / np.bincount(trials.group)
    centred = trials.codes - means[trials.group]  # also in every order within groups
    total, time, found = np.sum(centred**2), trials.time, []
    if not total:
        return []
    *_, rare = trials.compare(lambda x: (x @ time) ** 2, values=centred)
    r = float(centred @ time / np.sqrt(total * (time @ time)))
    if rare and r**2 >= _TREND:
        found.append(say("trend: values", {"correlation": r}, **trials.words))
    rest = centred - time * (centred @ time) / max(time @ time, 1)
    order = _find_order_of_values(trials, rest)
    return found + (order or _find_lasting(trials, rest, total))


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
    in_parts = folds is not None and folds.balanced and groups is None
    return [say("sorted: in parts" if in_parts else "sorted", of=of, noun=noun)]


# --------------------------------------------------------------------- the same in runs


def _find_order(trials, alike):
    """Find labels that come in the same order in every group."""
    if trials.n_groups == 1:
        return []
    windows = trials.windows()
    for position in trials.positions:
        n_pairs = _pairs(np.bincount(position)).sum()
        # Designs that are balanced within windows are compared with others that are.
        observed, chance, rare = trials.compare(
            lambda labels, position=position: trials.agreements(labels, position),
            windows,
        )
        if rare and observed - chance >= alike * (n_pairs - chance):
            numbers = {"n_groups": trials.n_groups}
            numbers["agreement"] = float(observed / n_pairs)
            numbers["by_chance"] = float(chance / n_pairs)
            if np.array_equal(trials.codes, trials.ranks):
                return [say("order: one of each", numbers, "note")]
            return [say("order", numbers, **trials.words)]
    return []


def _find_order_of_values(trials, centred):
    """Find numbers that are alike at the same position of every group."""
    for position in trials.positions if trials.n_groups > 1 else ():
        counts = np.bincount(position)
        shares = (counts - 1)[position] @ centred**2  # of all pairs, were they alike
        rows = np.argsort(position, kind="stable")
        starts = np.cumsum(counts) - counts

        def alike(values, rows=rows, starts=starts):
            sums = np.add.reduceat(values[:, rows], starts, axis=1)
            return (sums**2).sum(axis=1) - (values**2).sum(axis=1)

        observed, _, rare = trials.compare(alike, values=centred)
        share = float(observed / shares)
        if rare and share >= _ALIKE:
            numbers = {"n_groups": trials.n_groups, "correlation": share}
            return [say("order: values", numbers, **trials.words)]
    return []


# --------------------------------------------------------- from one trial to the next


def _find_blocks(trials):
    """Find labels that last for many trials, or repeat more often than by chance."""
    observed, chance, rare = trials.compare(lambda labels: -trials.changes(labels))
    changes, by_chance = -int(observed), -float(chance)
    if not rare or changes >= _FEW_CHANGES * by_chance:
        return []
    name = "blocks" if changes < _BLOCKS * by_chance else "repeats"
    words = {"times": "once" if changes == 1 else f"{changes} times"}
    words["joined"] = f" {TEXTS['concatenated']}" * (trials.n_groups == 1)
    numbers = {"changes": changes, "by_chance": by_chance}
    return [say(name, numbers, **words, **trials.words)]


def _find_transitions(trials):
    """Find a class that tells which one follows, most often another one."""
    before = np.flatnonzero(trials.together)
    if not len(before):
        return []
    observed, chance, rare = trials.compare(trials.changes)
    repeats, by_chance = len(before) - int(observed), len(before) - float(chance)
    few = rare and repeats < _FEW_REPEATS * by_chance
    if not few and not _tells(trials, before):
        return []
    numbers = {"repeats": repeats, "by_chance": by_chance}
    name = "transitions: few repeats" if few else "transitions"
    return [say(name, numbers, **trials.words)]


def _tells(trials, before):
    """Whether the class of a trial, repeated or not, tells which one follows."""
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

    observed, chance, rare = trials.compare(deviation)
    return rare and observed - chance >= _TELLS * len(before) * (n_classes - 1)


def _find_lasting(trials, centred, total):
    """Find numbers that last from trial to trial, beyond what rises or falls."""
    together = trials.together

    def products(values):
        return (values[:, 1:] * values[:, :-1])[:, together].sum(axis=1)

    observed, chance, rare = trials.compare(products, values=centred)
    correlation = float((observed - chance) / total)
    if not rare or correlation < _LASTING:
        return []
    return [say("lasting", {"correlation": correlation}, **trials.words)]


# ------------------------------------------------------------- in the course of time


def _find_trend(trials):
    """Find classes of which one comes earlier in the groups, or in the recording."""
    time, present = trials.time, np.unique(trials.codes, return_counts=True)

    def between(labels):
        return sum(
            ((labels == k) @ time) ** 2 / n for k, n in zip(*present, strict=True)
        )

    observed, _, rare = trials.compare(between)
    share = float(observed / max(time @ time, 1))
    if not rare or share < _TREND:
        return []
    return [say("trend", {"eta_squared": share}, **trials.words)]


def find_weak_trend(codes, groups=None, numbers=None):
    """The `Problem`, a note, of labels that seem to follow the time, or None.

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
    numbers = {"eta_squared": float(share)}
    return say("trend: weak", numbers, "note", p=p, **trials.words)


def _find_parts(trials):
    """Find shares of the classes that differ between parts of the recording."""
    n = len(trials.codes)
    divided = [np.arange(n) * m // n for m in _PARTS if n >= m * _PART]
    if not divided:
        return []
    classes, counts = np.unique(trials.codes, return_counts=True)
    shares = counts / n

    def differ(labels):
        members = labels == classes[:, np.newaxis, np.newaxis]
        members = members - shares[:, np.newaxis, np.newaxis]
        return np.max([_chi_square(members, part, shares) for part in divided], axis=0)

    *_, rare = trials.compare(differ)
    return [say("parts", **trials.words)] if rare else []


def _chi_square(members, part, shares):
    """How far classes differ between parts, (B,), about normal by chance.

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
    codes, group = codes[order], number_groups(groups, len(codes))[order]
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
    return [say("subjects", {"passages": len(starts)}, n_groups=group.max() + 1)]


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
    group = number_groups(groups, n)
    for partner in partners:
        valid = (partner >= 0) & (partner < len(trained))
        pairs = np.stack([tested[valid], trained[partner[valid]]])
        met = np.zeros(pairs.shape[1], bool)  # a fold tests one, and trains the other
        for train, test in folds.pairs if folds else ():
            met |= np.isin(pairs[0], test) & np.isin(pairs[1], train)
        pairs = pairs[:, met]
        pairs = pairs[:, np.argsort(group[pairs[0]], kind="stable")]
        if pairs.shape[1] < 2:
            continue
        kinds, mates = codes[pairs]
        same, chance, rare = beyond_chance(
            lambda labels, mates=mates: np.count_nonzero(labels == mates, axis=1),
            kinds,
            number_groups(group[pairs[0]], None),
        )
        if rare and same - chance >= _ALIKE * (len(mates) - chance):
            numbers = {"agreement": float(same / len(mates))}
            numbers["by_chance"] = float(chance / len(mates))
            return [say("pairs", numbers)]
    return []
