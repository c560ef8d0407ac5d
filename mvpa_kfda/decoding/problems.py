"""Problems of a design: what lets something else pass for what is decoded.

The order of trials is one. Whatever drifts in the course of a recording (fatigue,
movement, electrodes) is alike in trials that are near in time, and alike at the same
position of every run. A check compares the order of the labels with `_MOST` random
orders within groups, drawn with a fixed seed. It finds a problem only where none of
them goes as far and what is seen is large enough to matter, so that a randomised design
is hardly ever warned of.

- Order: pairs of trials of two groups at the same position that are of one class.
- Blocks: changes of the class from one trial of a group to the next.

Besides, a class may be absent from what a model is trained on, or from a group; classes
may be unequal; folds may cut through groups; runs may be too short for z-scores; a
confound may follow the classes, be a number that stands for something else, or have a
category that no training trial has. What concerns folds, permutations or averages alone
is found where these are made.
"""

import warnings
from dataclasses import dataclass

import numpy as np

from ..inference.corrections import corrected_p_values
from ..inference.permutation import permute_labels
from ..utils.advice import SIN_AND_COS
from ..utils.checks import angle_unit, counted
from ..utils.problems import Problem

#: Random orders that are drawn at most, and at a time.
_MOST, _AT_A_TIME = 9999, 20

#: Standard deviations from which on no more orders need to be drawn, but this many.
_FAR, _ENOUGH = 10.0, 100

#: How alike the order has to be in different groups: 0 as by chance, 1 the same.
_ALIKE = 0.15
#: The same where classes come in blocks: few blocks are often alike by chance.
_ALIKE_BLOCKS = 0.5

#: Blocks have fewer changes of the class, as a part of those in random order.
_FEW_CHANGES = 0.7

#: With more than so many times the trials of the smallest class, the largest is a
#: problem.
_UNEQUAL = 1.5

#: A confound that follows the classes by chance no more often than this is a problem,
#: and how many permutations tell.
_CONFOUND_LEVEL, _CONFOUND_PERMUTATIONS = 0.005, 999


#: Runs of so many images are too short for z-scores within them, if as large a share
#: of all runs is.
_SHORT_RUN, _SHARE_SHORT = 3, 0.5

#: What takes out what a run or session has of its own.
_Z_SCORES = "z-scores within runs remove it (standardize='zscore_sample' for images)"

#: Distinct whole numbers that may number runs, and of what share of all from the first
#: to the last there have to be some.
_FEWEST_RUNS, _NUMBERED = 3, 0.5


@dataclass(frozen=True, eq=False)
class _Trials:
    """Trials in the order of time within groups, one group after the other."""

    codes: np.ndarray  #: the class of each, (n,)
    group: np.ndarray  #: the number of its group, (n,)
    #: Its position in the group, (n,): its rank, and the number that it was given.
    ranks: np.ndarray
    numbers: np.ndarray

    @property
    def together(self):
        """Mark trials (n - 1,) that the next one of their group follows."""
        return self.group[1:] == self.group[:-1]

    def changes(self, labels):
        """Count changes of the class, (B,), in labels (B, n)."""
        return np.count_nonzero((labels[:, 1:] != labels[:, :-1])[:, self.together], 1)

    def agreements(self, labels, position):
        """Count pairs at one position that are of one class, (B,), in labels (B, n)."""
        n_classes = int(self.codes.max()) + 1
        n_cells = n_classes * (int(position.max()) + 1)
        cells = position * n_classes + labels
        cells = cells + n_cells * np.arange(len(labels))[:, np.newaxis]
        counts = np.bincount(cells.ravel(), minlength=n_cells * len(labels))
        return _pairs(counts.reshape(len(labels), n_cells)).sum(axis=1)

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


def find_problems(codes, groups=None, numbers=None):
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

    Returns
    -------
    problems : list of Problem
        Those that were found.
    """
    trials = _in_time(codes, groups, numbers)
    blocks = _find_blocks(trials, numbers is not None or groups is not None)
    alike = _ALIKE_BLOCKS if blocks else _ALIKE
    return [*_find_order(trials, alike), *blocks]


def warn_of_design(analysis, numbers=None):
    """Warn of the problems in the order of labels that an analysis runs into."""
    codes, groups, chosen = analysis.single
    permutations = analysis.permutations
    one_by_one = permutations.n_permutations and permutations.scheme != "groups"
    trials = codes, groups, chosen, numbers
    for problem in find_in_order(*trials, analysis.folds, one_by_one):
        problem.warn()


def find_in_order(codes, groups, chosen, numbers, folds, one_by_one):
    """Return the problems in the order of labels that are some for these folds.

    Blocks are none where labels are not exchanged `one_by_one`, and folds regard groups
    or there are none. Where only `chosen` trials are trained with, their labels count.
    """
    cut = groups is None and folds is not None
    if chosen is not None:  # the others' labels are never trained with
        cut = cut and len(folds.tests) > 1
        codes, groups, numbers = (
            None if each is None else each[chosen] for each in (codes, groups, numbers)
        )
    found = find_problems(codes, groups, numbers)
    return [each for each in found if each.name != "blocks" or one_by_one or cut]


def find_absent_class(folds, codes, classes):
    """Return the `Problem` of a fold whose model has never seen a class, or None."""
    for number, (train, _) in enumerate(folds.pairs):
        absent = np.flatnonzero(np.bincount(codes[train], minlength=len(classes)) == 0)
        if len(absent):
            where = "All trials of class {!r} are in the test set"
            if folds.trains is not None:
                where = "No trial of class {!r} is in the training set"
            text = (
                f"{where.format(str(classes[absent[0]]))} of fold {number} of "
                f"{folds.name}: its model has never seen the class and cannot predict "
                "it. Use shuffled or stratified folds, or groups that hold several "
                "classes."
            )
            return Problem("absent", text, {"fold": number, "class": int(absent[0])})
    return None


def warn_of_absent_classes(folds, codes, classes):
    """Warn where the model of a fold has never seen a class of the observed labels."""
    problem = find_absent_class(folds, codes, classes)
    if problem:
        problem.warn()


def find_leak(folds, groups):
    """Return the `Problem` of groups that are both trained with and tested, or None."""
    if groups is None:
        return None
    names, group = np.unique(groups, return_inverse=True)
    cut = [np.intersect1d(*(group[rows] for rows in pair)) for pair in folds.pairs]
    where = np.flatnonzero([len(each) for each in cut])
    if not len(where):
        return None
    first = cut[where[0]]
    text = (
        f"{len(where)} of {counted(len(folds.tests), 'fold')} of {folds.name} test "
        "trials of groups that their models were trained with (fold "
        f"{where[0]}: {counted(len(first), 'group')}, {names[first[0]].item()!r} for "
        "one). Trials of one run or subject are alike for reasons of their own, so "
        "that scores can be too high. Use cv=None (leave one group out) or GroupKFold."
    )
    return Problem("leak", text, {"folds": len(where), "groups": len(first)})


def find_missing_class(codes, groups, classes):
    """Return the `Problem` of a class without a trial in some group, or None.

    Groups of one class each, such as patients, are a design of their own.
    """
    if groups is None:
        return None
    names, counts = count_by_group(codes, groups, len(classes))
    missing = np.argwhere(counts == 0)
    if not len(missing) or ((counts > 0).sum(axis=1) == 1).all():
        return None
    group, k = missing[0]
    more = f", and so in {len(missing) - 1} more cases" if len(missing) > 1 else ""
    text = (
        f"Group {names[group].item()!r} has no trial of class {str(classes[k])!r}"
        f"{more}. Its scores tell little of this class, and that a trial is of the "
        "group tells which class it is not. Have every class in every run, leave the "
        "group out, or look at balanced accuracy and recall."
    )
    numbers = {"cells": len(missing), "class": int(k)}
    return Problem("missing", text, numbers, "note")


def count_by_group(codes, groups, n_classes):
    """Return the groups' names (g,), and the trials of every class in each, (g, c)."""
    names, group = np.unique(groups, return_inverse=True)
    counts = np.zeros((len(names), n_classes), int)
    np.add.at(counts, (group.reshape(-1), codes), 1)
    return names, counts


def find_unequal(codes, classes):
    """Return the `Problem` of classes of which one has far more trials, or None."""
    counts = np.bincount(codes, minlength=len(classes))
    few, many = int(counts.argmin()), int(counts.argmax())
    if counts[many] <= _UNEQUAL * counts[few]:
        return None
    share = counts[many] / counts.sum()
    text = (
        f"Class {str(classes[many])!r} has {counts[many]} trials, "
        f"{str(classes[few])!r} {counts[few]}: who always says {str(classes[many])!r} "
        f"is right in {share:.0%}. Look at scoring='balanced_accuracy' or 'roc_auc', "
        "or leave out trials at random until classes are equal: average=1, "
        "equalize=True, n_repeats=20."
    )
    numbers = {"smallest": int(counts[few]), "largest": int(counts[many])}
    return Problem("unequal", text, numbers, "note")


def measure_confounds(columns, codes, groups=None):
    r"""Return how far each confound follows the classes, and p, as two arrays (k,).

    Columns (n, m) are one number or the indicators of one variable. The first array is
    :math:`\eta^2`, the share of the (total) variance between classes; of indicators of
    all categories it is Goodman and Kruskal's tau. Labels are permuted as they would be
    without folds, with a fixed seed; p is corrected for the number of confounds. It is
    1 where labels can have one arrangement only.
    """
    many = _CONFOUND_PERMUTATIONS
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of few arrangements, which p shows
            options = {"folds": None, "groups": groups, "random_state": 0}
            labels = permute_labels(codes, many, **options).labels
    except ValueError:  # one arrangement only
        labels = codes[np.newaxis]
    shares = np.stack([_shares(column, labels) for column in columns], axis=1)
    if len(labels) == 1:
        return shares[0], np.ones(len(columns))
    return shares[0], corrected_p_values(shares[0], shares[1:], "max")


def _shares(column, labels):
    """Return the share of variance (B,) of columns (n, m) between labels (B, n)."""
    column = column - column.mean(axis=0)
    between = np.zeros(len(labels))
    for k in range(int(labels.max()) + 1):
        members = (labels == k).astype(np.float64)
        sums = members @ column  # (B, m)
        between += (sums**2).sum(axis=1) / members.sum(axis=1)
    return between / (column**2).sum()


def find_confounded(names, shares, p):
    """Yield the `Problem` of every confound that follows the classes."""
    for name, share, each in zip(names, shares, p, strict=True):
        if each <= _CONFOUND_LEVEL:
            text = (
                f"Confounds: {name} follows the classes: they explain {share:.0%} of "
                f"its variance (eta squared, p = {each:.2g} by permutation). What is "
                "decoded may be the confound. confounds= takes out what is linear in "
                "it, and with it what the classes share; balancing it in the design, "
                "or by leaving out trials, is safer."
            )
            numbers = {"eta_squared": float(share), "p": float(each)}
            yield Problem("confound", text, numbers)


def warn_of_confounds(confounds, groups, folds, others=None):
    """Warn of a `ConfoundTable` that may not take out what is meant.

    Without folds the test trials are `others`, whose confounds are known or not.
    """
    for problem in find_misread(confounds, groups, folds, others):
        problem.warn()


def find_misread(confounds, groups, folds, others=None):
    """Return the problems of a `ConfoundTable` that may not take out what is meant."""
    if confounds is None:
        return []
    found = []
    for i, one in enumerate(confounds.each):
        found.append(_find_numbered(one, groups) or _find_angles(one))
        if folds is not None:
            found.append(_find_unseen(one, folds))
        elif others is not None:
            found.append(_find_unseen_in_others(one, others.each[i]))
    return [problem for problem in found if problem]


def _find_numbered(one, groups):
    """Return the `Problem` of a number that seems to count runs, or None."""
    if one.categories:
        return None
    values, number = np.unique(one.columns[:, 0], return_inverse=True)
    number, n = number.reshape(-1), len(one.columns)
    first, last = values[0], values[-1]
    counts = (values == np.rint(values)).all() and first >= 0
    if not counts or not _FEWEST_RUNS <= len(values) <= n // 2:
        return None
    if len(values) < _NUMBERED * (last - first + 1):
        return None
    one_stretch = np.count_nonzero(np.diff(number)) == len(values) - 1
    of_groups = groups is not None and _are_alike(number, groups)
    if not one_stretch and not of_groups:
        return None
    where = "one for each group" if of_groups else "each in one stretch of trials"
    text = (
        f"Confounds: {one.name} holds the whole numbers {first:g} to {last:g}, "
        f"{where}, as if they numbered runs or sessions. It is taken as a number, so "
        f"only a linear trend from {first:g} to {last:g} is removed, not what each of "
        "them has of its own. For that, give them as text, such as 'run1', which makes "
        "categories. What a run or session that is left out has of its own cannot be "
        f"known from the others; {_Z_SCORES}. If a trend is what you mean, subtract "
        "the mean of the column."
    )
    return Problem("numbered", text, {"values": len(values)})


def _are_alike(number, groups):
    """Tell whether trials have the same number where they have the same group."""
    group = np.unique(groups, return_inverse=True)[1].reshape(-1)
    pairs = len(np.unique(np.stack([number, group]), axis=1).T)
    return pairs == number.max() + 1 == group.max() + 1


def _find_angles(one):
    """Return the `Problem` of a number that seems to be an angle, or None."""
    unit = None if one.categories else angle_unit(one.columns, one.label or "")
    if unit is None:
        return None
    low, high = one.columns.min(), one.columns.max()
    text = (
        f"Confounds: {one.name} looks like angles in {unit} ({low:.3g} to {high:.3g}) "
        f"and is taken as a number, for which both ends are far apart. {SIN_AND_COS}"
    )
    return Problem("angles", text, {"low": float(low), "high": float(high)})


def _find_unseen(one, folds):
    """Return the `Problem` of categories that some fold only tests, or None."""
    cases = []
    for number, (train, test) in enumerate(folds.pairs if one.categories else ()):
        found = _unseen(one.columns[train], one.columns[test])
        cases += [(number, k) for k in found]
    if not cases:
        return None
    fold, k = cases[0]
    where = f"the training trials of fold {fold} of {folds.name}"
    more = f" (and so in {counted(len(cases) - 1, 'more case')})" * (len(cases) > 1)
    return _unseen_problem(one, k, where, more, len(cases))


def _find_unseen_in_others(one, other):
    """Return the same of trials that are tested without folds."""
    found = _unseen(one.columns, other.columns) if one.categories else []
    if not len(found):
        return None
    return _unseen_problem(one, found[0], "the training trials", "", len(found))


def _unseen(train, test):
    """Return which columns of indicators only the test trials have."""
    return np.flatnonzero(test.any(axis=0) & ~train.any(axis=0))


def _unseen_problem(one, k, where, more, n_cases):
    """Word that no training trial has a category that is tested."""
    text = (
        f"Confounds: category {one.categories[k]!r} of {one.name} is tested, but is "
        f"not among {where}{more}. Its effect cannot be learned there, so its trials "
        "are taken to have the mean effect of the other categories, and the rest of "
        f"the effect stays in the data. If it is a run or session, {_Z_SCORES}; "
        "otherwise leave the confound out, or use folds that train on every category."
    )
    return Problem("unseen", text, {"cases": n_cases, "category": one.categories[k]})


def warn_of_short_runs(y, groups):
    """Warn of groups too small for z-scores within them."""
    problem = find_short_runs(y, groups)
    if problem:
        problem.warn()


def find_short_runs(y, groups):
    """Return the `Problem` of groups too small for z-scores within them, or None.

    Of all images that z-scores are made of, also of those that are not decoded. Groups
    of one class each are not z-scored one by one.
    """
    if groups is None:
        return None
    labels, codes = np.unique(y, return_inverse=True)
    counts = count_by_group(codes.reshape(-1), groups, len(labels))[1]
    sizes = counts.sum(axis=1)
    short = sizes <= _SHORT_RUN
    if short.mean() < _SHARE_SHORT or ((counts > 0).sum(axis=1) == 1).all():
        return None
    size = int(np.median(sizes[short]))
    why = (
        "The fewer there are, the more of their difference goes: with three categories "
        "of a real recording, one image of each per run, 44 of 530 spheres were "
        "significant, against 85 with z-scores of all its eight categories"
    )
    if size < _SHORT_RUN:
        why = (
            "The z-scores of two images are each other's negative, so a model is right "
            "about both or about neither and hardly anything survives a correction "
            "over a map: with faces and houses of a real recording, one image of each "
            "per run, no sphere of 530 was significant, against 101 with z-scores of "
            "all its eight categories"
        )
    text = (
        f"{short.sum()} of {counted(len(sizes), 'group')} hold {size} images or fewer, "
        "and searchlight and decode_regions z-score images within groups "
        f"(standardize='zscore_sample'). {why}. Give the images of all conditions of a "
        "run, and name those to be decoded, classes=['face', 'house']. If there are no "
        "others, use standardize=False, preprocess='zscore' (109 spheres of faces and "
        "houses)."
    )
    return Problem("short_runs", text, {"groups": int(short.sum()), "images": size})


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
        np.asarray(codes, np.intp)[order],
        group,
        np.arange(n) - first,
        numbers - numbers[first],
    )


def _beyond_chance(statistic, codes, windows):
    """Return what random orders give on average, and whether none gives as much.

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
            break
    return drawn.mean(), True


def _find_order(trials, alike):
    """Find labels that come in the same order in every group."""
    n_groups = int(trials.group[-1]) + 1
    if n_groups == 1:
        return []
    windows = trials.windows()
    # Where trials were dropped, those that are left have their place by the numbers.
    dropped = not np.array_equal(trials.ranks, trials.numbers)
    for position in (trials.ranks, trials.numbers)[: 1 + dropped]:
        position = np.unique(position, return_inverse=True)[1].reshape(-1)
        n_pairs = _pairs(np.bincount(position)).sum()
        if n_pairs == 0:
            continue

        def agreements(labels, position=position):
            return trials.agreements(labels, position)

        # Designs that are balanced within windows are compared with others that are.
        chance, found = _beyond_chance(agreements, trials.codes, windows)
        observed = agreements(trials.codes[np.newaxis])[0]
        if found and observed - chance >= alike * (n_pairs - chance):
            shares = float(observed / n_pairs), float(chance / n_pairs)
            numbers = {"n_groups": n_groups, "agreement": shares[0]}
            text = _word_order(n_groups, *shares)
            return [Problem("order", text, numbers | {"by_chance": shares[1]})]
    return []


def _word_order(n_groups, share, by_chance):
    """Say that the order is the same in all groups."""
    return (
        f"The order of the classes is alike in the {n_groups} groups: trials at the "
        f"same position of two groups are of one class in {share:.0%} of the cases; in "
        f"random order it would be {by_chance:.0%}. So the position tells the class, "
        "and whatever changes in the course of a group can be decoded. Neither folds "
        "that leave groups out nor permutations help against it. Randomise the order "
        "in every group anew. In recorded data compare with what is decoded before the "
        "stimulus, or from the position alone. If the rows are only sorted so, and "
        "were recorded in other orders, nothing is wrong."
    )


def _find_blocks(trials, in_time):
    """Find labels that last for many trials."""
    observed = trials.changes(trials.codes[np.newaxis])[0]
    if not in_time and observed == trials.codes.max():
        return []  # a table that is sorted by class says nothing about time
    lasting, found = _beyond_chance(
        lambda labels: -trials.changes(labels), trials.codes, trials.group
    )
    by_chance = -float(lasting)
    if not found or observed >= _FEW_CHANGES * by_chance:
        return []
    numbers = {"changes": int(observed), "by_chance": by_chance}
    return [Problem("blocks", _word_blocks(observed, by_chance), numbers)]


def _word_blocks(changes, by_chance):
    """Say that labels come in blocks."""
    times = "once" if changes == 1 else f"{changes} times"
    return (
        f"The label changes {times} from one trial to the next; in random order it "
        f"would change about {by_chance:.0f} times. Trials that are near in time are "
        "alike, volumes of a time series most of all, so that those of a block are not "
        "independent: permuting them one by one gives p-values that are too small, and "
        "without groups they are both trained with and tested. Decode the mean of each "
        "block, or one estimate per trial, with runs as groups, or give the number of "
        "each block as groups. If the rows are only sorted by class, and were recorded "
        "in another order, nothing is wrong."
    )
