"""Problems of a design: what lets something else pass for what is decoded.

A class may be absent from what a model is trained on, or from a group; classes may be
unequal; folds may cut through groups; runs may be too short for z-scores; a confound
may follow the classes, be a number that stands for something else, or have a category
that no training trial has. What concerns the order of trials has a module of its own,
and what concerns folds, permutations or averages alone is found where these are made.

Classes may also vary unequally, which permutations take for information: labels are
exchanged as if classes were alike in everything, not in their means alone. Where one
class varies more, exchanged labels spread its trials over both classes. Then predicted
labels of the observed classes are not distributed as those of the exchanged ones,
though no mean differs.
"""

import warnings

import numpy as np
from scipy.stats import f_oneway

from ..inference.corrections import corrected_p_values
from ..inference.permutation import permute_labels
from ..kfda.kernels import (
    LEAST_SQUARE,
    LEAST_SQUARE_SINGLE,
    Polynomial,
    Precomputed,
    innermost,
    kernels_of,
    needs_gram,
    out_of_range,
)
from ..kfda.penalties import Auto, Farthest, Tuned, name_of_rule
from ..metrics.areas import find_rare_class
from ..metrics.classes import crowding, depends_on_frequencies
from ..metrics.names import PairsMetric, metric_in_text
from ..utils.advice import SIN_AND_COS
from ..utils.checks import angle_unit, counted, enumerated, quoted, some_of, warn
from ..utils.problems import Problem

#: With more than so many times the trials of the smallest class, the largest is a
#: problem.
_UNEQUAL = 1.5

#: Scores of predicted labels mislead where the largest class is so many times as
#: frequent as equal ones would be: of two classes, at the ratio above.
_CROWDED = 1.2

#: A confound that follows the classes by chance no more often than this is a problem,
#: and how many permutations tell.
CONFOUND_LEVEL, _CONFOUND_PERMUTATIONS = 0.005, 999

#: Runs of so many images are too short for z-scores within them, if as large a share
#: of all runs is.
_SHORT_RUN, _SHARE_SHORT = 3, 0.5

#: What takes out what a run or session has of its own.
_Z_SCORES = "z-scores within runs remove it (standardize='zscore_sample' for images)"

#: Distinct whole numbers that may number runs, and of what share of all from the first
#: to the last there have to be some.
_FEWEST_RUNS, _NUMBERED = 3, 0.5

#: How many positions of a map are looked at, and features of each, at most; and where
#: every position sees to itself when it is decoded.
_MOST_POSITIONS, _MOST_FEATURES, _FEW_POSITIONS = 16, 200, 4

#: Ratios of distances that matter, if equal classes have one as large no more often.
_SPREAD, _SPREAD_LEVEL = 1.4, 1e-4

#: A trial this many times as far from the others as they are is a problem: simulations
#: lose most of their effect from there on.
_FAR = 100

#: Fewer trials of a class say nothing about how they vary.
_FEWEST_TRIALS = 4

#: Squared distances below this part of their mean are taken for it: logarithms of what
#: is next to nothing are no measure of it.
_NEAR_ZERO = 1e-2

#: Metrics that compare ranks and not predicted labels.
_OF_RANKS = {"roc_auc"}


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
                f"{folds.name}: its model is not trained on this class and cannot "
                "predict it. Use a number of folds, shuffled folds, or groups that "
                "contain several classes."
            )
            return Problem("absent", text, {"fold": number, "class": int(absent[0])})
    return None


def warn_of_absent_classes(folds, codes, classes):
    """Warn where the model of a fold has never seen a class of the observed labels."""
    problem = find_absent_class(folds, codes, classes)
    if problem:
        problem.warn()


def check_sets(metrics, tests, codes, classes, n_repeats):
    """Refuse metrics that test sets do not allow, and warn where they mislead."""
    _check_within_sets(metrics, tests, codes, classes)
    once = tests[: len(tests) // n_repeats]  # stands for all repeats
    _warn_of_unequal(metrics, once, codes, classes)


def _check_within_sets(metrics, tests, codes, classes):
    """Refuse metrics that compare classes in test sets, where no set holds two.

    And warn of pairs that are in none.
    """
    held = [np.bincount(codes[test], minlength=len(classes)) > 0 for test in tests]
    together = np.any([np.outer(each, each) for each in held], axis=0)
    first, second = np.triu_indices(len(classes), 1)
    apart = np.flatnonzero(~together[first, second])
    for name, metric in metrics.items():
        if isinstance(metric, PairsMetric) and np.isin(metric.numbers, apart).all():
            raise ValueError(
                f"No test set holds both classes of any pair of {name!r} "
                f"({quoted(metric.pairs, 3)}). Use larger test sets, such as cv=5 or "
                "runs as groups, or take the pair out of scoring."
            )
    compared = [name for name, metric in metrics.items() if metric.within_sets]
    if not compared:
        return
    if len(apart) == len(first):
        raise ValueError(
            f"{compared[0]!r} compares classes within test sets, and none of the "
            f"{len(tests)} test sets holds two classes. Use larger test sets, such as "
            "cv=5 or runs as groups, or scoring='pairwise_accuracy', which pools all "
            "test sets."
        )
    if len(apart):
        one, other = (str(classes[x[apart[0]]]) for x in (first, second))
        warn(
            f"No test set holds both classes of {counted(len(apart), 'pair')}, such as "
            f"{one!r} and {other!r}: these have no distance (NaN), and are left out of "
            f"{compared[0]!r}. Use larger test sets, such as cv=5 or runs as groups."
        )


def check_distances(metrics, reg, n_permutations):
    """Refuse p-values of chosen pairs that a penalty spoils, and warn of sizes.

    Distances are the smaller the larger the penalty is.
    """
    distances = [name for name, metric in metrics.items() if metric.within_sets]
    if not distances or not isinstance(reg, Auto | Tuned | str):
        return
    pairs = [name for name in distances if isinstance(metrics[name], PairsMetric)]
    if pairs and n_permutations and isinstance(reg, Tuned):
        raise ValueError(
            f"{pairs[0]!r} has no valid p-value with reg={name_of_rule(reg)!r}: "
            "permuted labels, of which no class differs, select larger penalties than "
            "the observed labels, so their distances vary less than those of a pair "
            "that is equal while other classes differ. Use reg='auto' or a fixed "
            "penalty, such as reg=0.1, which are the same for all labels, or "
            "n_permutations=0."
        )
    warn(
        "Crossnobis distances are the smaller the larger the penalty is, and "
        f"reg={name_of_rule(reg)!r} chooses it from the data, for each position anew: "
        "do not compare the sizes of distances between times, places or subjects. For "
        "sizes that can be compared use a fixed penalty, such as reg=0.1."
    )


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
        "trials from groups that were also used for training (fold "
        f"{where[0]}: {counted(len(first), 'group')}, for example "
        f"{names[first[0]].item()!r}). Trials of one run or subject share variance "
        "unrelated to the class, so scores can be inflated. Use cv=None (leave one "
        "group out) or GroupKFold."
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
        f"{more}. Its scores say little about this class, and group membership alone "
        "rules the class out. Include all classes in each run, leave the group out, or "
        "look at balanced accuracy and recall."
    )
    numbers = {"cells": len(missing), "class": int(k)}
    return Problem("missing", text, numbers, "note")


def count_by_group(codes, groups, n_classes):
    """Return the groups' names (g,), and the trials of every class in each, (g, c)."""
    names, group = np.unique(groups, return_inverse=True)
    counts = np.zeros((len(names), n_classes), int)
    np.add.at(counts, (group.reshape(-1), codes), 1)
    return names, counts


def find_unequal(codes, classes, metric="accuracy"):
    """Return the `Problem` of classes of which one has far more trials, or None."""
    counts = np.bincount(codes, minlength=len(classes))
    few, many = int(counts.argmin()), int(counts.argmax())
    if counts[many] <= _UNEQUAL * counts[few]:
        return None
    share = counts[many] / counts.sum()
    text = (
        f"Class {str(classes[many])!r} has {counts[many]} trials, "
        f"{str(classes[few])!r} {counts[few]}: always guessing {str(classes[many])!r} "
        f"is right in {share:.0%} of trials, so {metric} is off its chance level even "
        "without an effect (p-values by permutation account for this). Use "
        "scoring='balanced_accuracy' or 'roc_auc', or leave out trials at random until "
        "class sizes are equal: average=1, equalize=True, n_repeats=20."
    )
    numbers = {"smallest": int(counts[few]), "largest": int(counts[many])}
    return Problem("unequal", text, numbers, "note")


def find_alike_names(codes, classes):
    """Return the `Problem` of classes that may be one, by their names, or None.

    Names that differ in case alone, and those of which one has all tags, the parts
    between slashes, of the other.
    """
    names = classes.tolist()
    if not all(isinstance(name, str) for name in names):
        return None
    counts = np.bincount(codes, minlength=len(names))
    listed = {
        name: f"{name!r} ({counted(n, 'trial')})"
        for name, n in zip(names, counts, strict=True)
    }
    tags, of_case, alike = {name: {*name.split("/")} for name in names}, {}, {}
    for name in names:
        of_case.setdefault(name.lower(), []).append(name)
    for several in of_case.values():
        if len(several) > 1:
            words = f"{enumerated(map(listed.get, several))} differ in case only"
            alike[words] = several[-1], several
    for name in names:
        longer = [other for other in names if tags[name] < tags[other]]
        if longer:
            others = some_of(map(listed.get, longer))
            alike[f"{listed[name]} is also a part of {others}"] = name, [name, *longer]
    if not alike:
        return None
    name, several = next(iter(alike.values()))
    joined = " MNE-Python joins the names of events that occur together by slashes."
    text = (
        f"Some classes have similar names: {'; '.join(alike)}. They are decoded as "
        f"different classes.{joined * ('/' in ''.join(alike))} If they are one, merge "
        f"them with a dict of classes, {{{name!r}: {several!r}, ...}} (y for the "
        "events of epochs, classes for images), or rename the labels."
    )
    return Problem("names", text, {"cases": len(alike)})


def warn_of_alike_names(codes, classes):
    """Warn of classes that may be one, by their names."""
    problem = find_alike_names(codes, classes)
    if problem:
        problem.warn()


def _warn_of_unequal(metrics, tests, codes, classes):
    """Warn of scores that unequal classes move, and of areas of few test sets."""
    tested = codes[np.unique(np.concatenate(tests))]
    moved = [x for x in metrics if depends_on_frequencies(x, len(classes))]
    of_sets = [x for x in metrics if x in _OF_RANKS or metrics[x].within_sets]
    found = []
    if moved and crowding(tested, len(classes)) > _CROWDED:
        found.append(find_unequal(tested, classes, metric_in_text(moved[0])))
    if of_sets:
        found.append(find_rare(tests, codes, classes, of_sets[0]))
    for problem in filter(None, found):
        problem.warn()


def find_rare(tests, codes, classes, metric="roc_auc"):
    """Return the `Problem` of a class that most test sets do not hold, or None."""
    rare = find_rare_class(tests, codes)
    if rare is None:
        return None
    pooled = "scoring='balanced_accuracy', which pools the trials of all test sets, or "
    text = (
        f"Only {rare.n_sets} of {rare.n_all} test sets hold class "
        f"{str(classes[rare.code])!r} ({counted(rare.n_trials, 'trial')}) beside "
        f"another class, and {metric!r} is the mean over these alone: it changes in "
        f"steps of up to {rare.step:.2g} and says little. Use "
        f"{pooled if metric in _OF_RANKS else ''}so few folds that most test sets hold "
        "all classes, such as cv=3."
    )
    numbers = {"sets": rare.n_sets, "trials": rare.n_trials}
    return Problem("rare", text, numbers, "note")


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
        if each <= CONFOUND_LEVEL:
            text = (
                f"Confounds: {name} covaries with the classes, which explain "
                f"{share:.0%} of its variance (eta squared, p = {each:.2g} by "
                "permutation). The confound may be decoded instead of the classes. "
                "confounds= removes its linear effects, and with them variance shared "
                "with the classes; balancing it in the design, or by leaving out "
                "trials, is safer."
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
        f"{where}, like run or session numbers. It is treated as continuous, so only a "
        f"linear trend from {first:g} to {last:g} is removed, not the specific effect "
        "of each run. To remove these, pass strings, such as 'run1', which are treated "
        "as categories. The specific effect of a left-out run or session cannot be "
        f"estimated from the others; {_Z_SCORES}. If you do want to remove a trend, "
        "subtract the mean of the column."
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
        f"but is treated as linear, so both ends are far apart. {SIN_AND_COS}"
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
        f"not among {where}{more}. Its effect cannot be estimated there, so the mean "
        "effect of the other categories is removed from its trials, and the rest "
        f"remains in the data. If it is a run or session, {_Z_SCORES}; otherwise leave "
        "the confound out, or use folds that train on all categories."
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
        "The fewer images there are, the more of their difference is removed: with "
        "three categories of a real recording, one image of each per run, 44 of 530 "
        "spheres were significant, compared with 85 with z-scores of all eight "
        "categories"
    )
    if size < _SHORT_RUN:
        why = (
            "With two images, the z-scores of one are the negative of the other, so a "
            "model classifies both correctly or neither, and hardly anything survives "
            "correction over a map: with faces and houses of a real recording, one "
            "image of each per run, none of 530 spheres was significant, compared with "
            "101 with z-scores of all eight categories"
        )
    text = (
        f"{short.sum()} of {counted(len(sizes), 'group')} hold {size} images or fewer, "
        "and searchlight and decode_regions z-score images within groups "
        f"(standardize='zscore_sample'). {why}. Pass the images of all conditions of a "
        "run, and select those to be decoded with classes=['face', 'house']. If there "
        "are no others, use standardize=False, preprocess='zscore' (109 spheres for "
        "faces and houses)."
    )
    return Problem("short_runs", text, {"groups": int(short.sum()), "images": size})


# ------------------------------------------------------------------- data at positions


def some_positions(positions, most):
    """Return the numbers of some of the positions of a map, evenly spaced."""
    numbers = [number for block in positions.blocks() for number in block]
    if not numbers:
        return []
    at = np.linspace(0, len(numbers) - 1, most).astype(int)
    return np.array(numbers, np.intp)[np.unique(at)]


def check_sizes(positions, dtype):
    """Refuse data whose squares are no numbers; warn of a trial that hides the others.

    At some positions of the map. Trials count where the kernel grows with the features.
    """
    found, least, precision = [], LEAST_SQUARE, "double precision"
    if dtype == np.float32:
        least, precision = LEAST_SQUARE_SINGLE, "dtype='float32'"
    for number in some_positions(positions, _FEW_POSITIONS):
        X, kernel = positions.samples(number)
        kinds = [innermost(each) for each in kernels_of(kernel)]
        if any(isinstance(kind, Precomputed) for kind in kinds):
            means = X.mean(axis=0)
            squares = np.diagonal(X) - 2 * means + means.mean()
        else:
            X = _thinned(X)
            X = X - X.mean(axis=0)
            squares = np.einsum("np,np->n", X, X)
            if not least < squares.max() < 1 / least and X.any():
                text = out_of_range(squares.max(), precision)
                raise ValueError(f"{positions.where(number)}{text}")
            if not any(
                kind.is_linear or isinstance(kind, Polynomial) for kind in kinds
            ):
                continue
        found.append((Farthest.of(squares), number))
    far, number = max(found, key=lambda each: each[0].times, default=(None, None))
    if far and far.times > _FAR:
        text = (
            f"{positions.where(number)}{far.words(far.trial)}. It sets the penalty and "
            "the mean, so that the others can hardly be discriminated. Check the trial "
            "for artefacts and for its unit; repair it, or leave it out."
        )
        Problem("far", text, {"trial": far.trial, "times": float(far.times)}).warn()


# ---------------------------------------------------------- classes that vary unequally


def warn_of_spread(positions, analysis):
    """Warn where classes differ in variance, and scores of predicted labels are tested.

    At some positions of the map. Precomputed kernels are not looked at, and of several
    labels of a trial it is those trained with that count.
    """
    kernel = getattr(positions, "kernel", None)
    of_ranks = set(analysis.task.scoring) <= _OF_RANKS
    if of_ranks or (kernel is not None and needs_gram(kernel)):
        return
    some = some_positions(positions, _MOST_POSITIONS)
    if not len(some):
        return
    signals = [_thinned(positions.signal(number)) for number in some]
    codes, chosen = analysis.codes, analysis.chosen
    if len(codes) != len(signals[0]):  # in repeats these are of averages, drawn later
        codes, chosen = analysis.trials.codes, analysis.trained_trials
    if chosen is not None:
        codes, signals = codes[chosen], [signal[chosen] for signal in signals]
    problem = find_spread(signals, codes, analysis.classes)
    if problem:
        problem.warn()


def find_spread(signals, codes, classes):
    """Return the `Problem` of classes whose trials vary more or less, or None.

    Of signals (n, p), by the distances of trials from the median of their class, in
    standard deviations of each feature, and by logarithms of these: single trials that
    are far out decide nothing.
    """
    present = np.flatnonzero(np.bincount(codes) >= _FEWEST_TRIALS)
    kept = np.isin(codes, present)
    if len(present) < 2:
        return None
    codes = codes[kept]
    squares = np.mean([_squares(signal[kept], codes) for signal in signals], axis=0)
    logs = np.log(np.maximum(squares, _NEAR_ZERO * squares.mean())) / 2
    of_classes = [logs[codes == k] for k in present]
    means = np.array([each.mean() for each in of_classes])
    ratio = float(np.exp(np.ptp(means)))
    if ratio < _SPREAD or f_oneway(*of_classes).pvalue >= _SPREAD_LEVEL:
        return None
    least, most = present[means.argmin()], present[means.argmax()]
    text = (
        f"Trials of class {str(classes[most])!r} vary {ratio:.1f} times as much as "
        f"those of {str(classes[least])!r} (distances from the median of their class). "
        "Permuting labels makes the classes alike in every respect, so unequal "
        "variance counts as information: accuracy and other scores of predicted labels "
        "can exceed the permutations although all means are equal, especially if the "
        "more variable class is rare. A small p-value shows that the classes differ, "
        "not how. For claims about means, test scoring='roc_auc' with equal numbers of "
        "trials."
    )
    return Problem("spread", text, {"ratio": ratio})


def _thinned(signal):
    """Return a signal (n, p) with not too many features, evenly spaced."""
    return signal[:, :: -(-signal.shape[1] // _MOST_FEATURES)]


def _squares(signal, codes):
    """Return the squared distance (n,) of each trial from the median of its class."""
    rest = np.array(signal, dtype=np.float64)
    size = np.abs(rest).max(axis=0)
    for k, count in zip(*np.unique(codes, return_counts=True), strict=True):
        rest[codes == k] -= np.median(rest[codes == k], axis=0)
        # Trials are near to a median that few of them make.
        rest[codes == k] *= np.sqrt(count / (count - 1))
    scale = np.sqrt(np.mean(rest**2, axis=0))
    varies = scale > np.finfo(float).eps * size
    if not varies.any():
        return np.ones(len(rest))
    return np.mean((rest[:, varies] / scale[varies]) ** 2, axis=1)
