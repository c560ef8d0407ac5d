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

Each problem is a function that counts and compares with a threshold, and a text in
``problems.txt``.
"""

import warnings
from pathlib import Path

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
from ..metrics.auc import find_rare_class
from ..metrics.scores import (
    crowding,
    depends_on_frequencies,
    find_metric,
    metric_in_text,
)
from ..utils.advice import SIN_AND_COS
from ..utils.checks import angle_unit, counted, enumerated, quoted, some_of, warn
from ..utils.problems import Problem, read_texts

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

#: Metrics that hardly see that classes differ in variance.
_OF_RANKS = {"roc_auc"}


#: What is said of problems, with fields for what was seen.
TEXTS = read_texts(Path(__file__).with_suffix(".txt"))


def say(case, numbers=None, severity="warning", **words):
    """The `Problem` of a case, whose text `numbers` and other words fill."""
    numbers = numbers or {}
    text = TEXTS[case].format(**numbers | words)
    return Problem(case.partition(":")[0], text, numbers, severity)


def refusal(case, **words):
    """The error of a case, whose text words fill."""
    return ValueError(TEXTS[case].format(**words))


def warn_of(*problems):
    """Warn of problems, those that are None left out."""
    for problem in filter(None, problems):
        problem.warn()


def number_groups(groups, n):
    """The number of each trial's group (n,); all are in one where there are none."""
    if groups is None:
        return np.zeros(n, int)
    return np.unique(groups, return_inverse=True)[1].reshape(-1)


def count_by_group(codes, groups, n_classes):
    """The groups' names (g,), and the trials of every class in each, (g, c)."""
    names, group = np.unique(groups, return_inverse=True)
    counts = np.zeros((len(names), n_classes), int)
    np.add.at(counts, (group.reshape(-1), codes), 1)
    return names, counts


# --------------------------------------------------------------------- folds and groups


def find_absent_class(folds, codes, classes):
    """The `Problem` of a fold whose model has never seen a class, or None."""
    for number, (train, _) in enumerate(folds.pairs):
        absent = np.flatnonzero(np.bincount(codes[train], minlength=len(classes)) == 0)
        if len(absent):
            where = "All trials of class {!r} are in the test set"
            if folds.trains is not None:
                where = "No trial of class {!r} is in the training set"
            where = where.format(str(classes[absent[0]]))
            numbers = {"fold": number, "class": int(absent[0])}
            return say("absent", numbers, where=where, name=folds.name)
    return None


def find_leak(folds, groups):
    """The `Problem` of groups that are both trained with and tested, or None."""
    if groups is None:
        return None
    names, group = np.unique(groups, return_inverse=True)
    cut = [np.intersect1d(*(group[rows] for rows in pair)) for pair in folds.pairs]
    where = np.flatnonzero([len(each) for each in cut])
    if not len(where):
        return None
    first = cut[where[0]]
    return say(
        "leak",
        {"folds": len(where), "groups": len(first)},
        n_folds=counted(len(folds.tests), "fold"),
        name=folds.name,
        fold=where[0],
        n_groups=counted(len(first), "group"),
        group=names[first[0]].item(),
    )


def find_missing_class(codes, groups, classes):
    """The `Problem` of a class without a trial in some group, or None.

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
    words = {"group": names[group].item(), "label": str(classes[k]), "more": more}
    numbers = {"cells": len(missing), "class": int(k)}
    return say("missing", numbers, "note", **words)


def find_short_runs(y, groups):
    """The `Problem` of groups too small for z-scores within them, or None.

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
    numbers = {"groups": int(short.sum()), "images": int(np.median(sizes[short]))}
    why = TEXTS["two images" if numbers["images"] < _SHORT_RUN else "few images"]
    n_groups = counted(len(sizes), "group")
    return say("short_runs", numbers, n_groups=n_groups, why=why)


# ------------------------------------------------------------------- classes and scores


def find_unequal(codes, classes, metric="accuracy"):
    """The `Problem` of classes of which one has far more trials, or None."""
    counts = np.bincount(codes, minlength=len(classes))
    few, many = int(counts.argmin()), int(counts.argmax())
    if counts[many] <= _UNEQUAL * counts[few]:
        return None
    words = {"largest_class": str(classes[many]), "smallest_class": str(classes[few])}
    words |= {"share": counts[many] / counts.sum(), "metric": metric}
    numbers = {"smallest": int(counts[few]), "largest": int(counts[many])}
    return say("unequal", numbers, "note", **words)


def find_rare(tests, codes, classes, metric="roc_auc"):
    """The `Problem` of a class that most test sets do not hold, or None."""
    rare = find_rare_class(tests, codes)
    if rare is None:
        return None
    known = find_metric(metric)  # chosen pairs are not known by name
    pooled = ""
    if known is not None and known.of_ranks:
        pooled = "scoring='balanced_accuracy', which pools all test sets' trials, or "
    return say(
        "rare",
        {"sets": rare.n_sets, "trials": rare.n_trials},
        "note",
        n_all=rare.n_all,
        label=str(classes[rare.code]),
        n_trials=counted(rare.n_trials, "trial"),
        metric=metric,
        step=rare.step,
        pooled=pooled,
    )


def find_alike_names(codes, classes):
    """The `Problem` of classes that may be one, by their names, or None.

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
    pairs, (name, several) = "; ".join(alike), next(iter(alike.values()))
    joined = f" {TEXTS['slashes']}" * ("/" in "".join(alike))
    words = {"pairs": pairs, "joined": joined, "name": name, "several": several}
    return say("names", {"cases": len(alike)}, **words)


def check_sets(metrics, tests, codes, classes, n_repeats):
    """Refuse metrics that test sets do not allow, and warn where they mislead.

    Those that compare classes in test sets are refused where no set holds two, and
    warned of are pairs that are in none, scores that unequal classes move, and areas of
    few test sets.
    """
    held = [np.bincount(codes[test], minlength=len(classes)) > 0 for test in tests]
    together = np.any([np.outer(each, each) for each in held], axis=0)
    first, second = np.triu_indices(len(classes), 1)
    apart = np.flatnonzero(~together[first, second])
    for name, metric in metrics.items():
        if metric.pairs and np.isin(metric.numbers, apart).all():
            pairs = quoted(metric.pairs, 3)
            raise refusal("pairs apart", name=name, pairs=pairs)
    compared = [name for name, metric in metrics.items() if metric.within_sets]
    if compared and len(apart) == len(first):
        raise refusal("classes apart", metric=compared[0], n_sets=len(tests))
    if compared and len(apart):
        one, other = (str(classes[x[apart[0]]]) for x in (first, second))
        words = {"one": one, "other": other, "metric": compared[0]}
        n_pairs = counted(len(apart), "pair")
        warn(TEXTS["some pairs apart"].format(n_pairs=n_pairs, **words))
    once = tests[: len(tests) // n_repeats]  # stands for all repeats
    tested = codes[np.unique(np.concatenate(once))]
    moved = [x for x in metrics if depends_on_frequencies(x, len(classes))]
    of_sets = [x for x, of in metrics.items() if of.of_ranks or of.within_sets]
    if moved and crowding(tested, len(classes)) > _CROWDED:
        warn_of(find_unequal(tested, classes, metric_in_text(moved[0])))
    if of_sets:
        warn_of(find_rare(once, codes, classes, of_sets[0]))


def check_distances(metrics, reg, n_permutations):
    """Refuse p-values of chosen pairs that a penalty spoils, and warn of sizes.

    Distances are the smaller the larger the penalty is.
    """
    distances = [name for name, metric in metrics.items() if metric.within_sets]
    if not distances or not isinstance(reg, Auto | Tuned | str):
        return
    pairs = [name for name in distances if metrics[name].pairs]
    rule = name_of_rule(reg)
    if pairs and n_permutations and isinstance(reg, Tuned):
        raise refusal("pairs of tuned", metric=pairs[0], reg=rule)
    warn(TEXTS["sizes of distances"].format(reg=rule))


# ---------------------------------------------------------------------------- confounds


def measure_confounds(columns, codes, groups=None):
    r"""How far each confound follows the classes, and p, as two arrays (k,).

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
    """The share of variance (B,) of columns (n, m) between labels (B, n)."""
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
            numbers = {"eta_squared": float(share), "p": float(each)}
            yield say("confound", numbers, name=name)


def find_misread(confounds, groups, folds, others=None):
    """The problems of a `ConfoundTable` that may not take out what is meant.

    Without folds the test trials are `others`, whose confounds are known or not.
    """
    found = []
    for i, one in enumerate(() if confounds is None else confounds.each):
        found.append(_find_numbered(one, groups) or _find_angles(one))
        if not one.categories:
            continue
        if folds is None:
            other = None if others is None else others.each[i].columns
            pairs = [] if other is None else [(one.columns, other)]
        else:
            pairs = [(one.columns[a], one.columns[b]) for a, b in folds.pairs]
        found.append(_find_unseen(one, pairs, folds))
    return [problem for problem in found if problem]


def _find_numbered(one, groups):
    """The `Problem` of a number that seems to count runs, or None."""
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
    of_groups = False
    if groups is not None:  # the same number where the group is the same
        group = number_groups(groups, n)
        pairs = len(np.unique(np.stack([number, group]), axis=1).T)
        of_groups = pairs == number.max() + 1 == group.max() + 1
    if not one_stretch and not of_groups:
        return None
    where = "one for each group" if of_groups else "each in one stretch of trials"
    words = {"name": one.name, "where": where, "first": first, "last": last}
    return say("numbered", {"values": len(values)}, **words)


def _find_angles(one):
    """The `Problem` of a number that seems to be an angle, or None."""
    unit = None if one.categories else angle_unit(one.columns, one.label or "")
    if unit is None:
        return None
    numbers = {"low": float(one.columns.min()), "high": float(one.columns.max())}
    words = {"name": one.name, "unit": unit, "advice": SIN_AND_COS}
    return say("angles", numbers, **words)


def _find_unseen(one, pairs, folds):
    """The `Problem` of categories that are only tested, or None."""
    cases = []
    for number, (train, test) in enumerate(pairs):
        unseen = np.flatnonzero(test.any(axis=0) & ~train.any(axis=0))
        cases += [(number, k) for k in unseen]
    if not cases:
        return None
    fold, k = cases[0]
    where, more = "the training trials", ""
    if folds is not None:
        where = f"{where} of fold {fold} of {folds.name}"
        if len(cases) > 1:
            more = f" (and so in {counted(len(cases) - 1, 'more case')})"
    numbers = {"cases": len(cases), "category": one.categories[k]}
    return say("unseen", numbers, name=one.name, where=where, more=more)


# ------------------------------------------------------------------- data at positions


def some_positions(positions, most):
    """The numbers of some of the positions of a map, evenly spaced."""
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
        numbers = {"trial": far.trial, "times": float(far.times)}
        words = {"where": positions.where(number), "far": far.words(far.trial)}
        warn_of(say("far", numbers, **words))


def warn_of_spread(positions, analysis):
    """Warn where classes differ in variance, and scores of predicted labels are tested.

    At some positions of the map. Precomputed kernels are not looked at, and of several
    labels of a trial it is those trained with that count.
    """
    kernel = getattr(positions, "kernel", None)
    of_ranks = set(analysis.task.metrics) <= _OF_RANKS
    if of_ranks or (kernel is not None and needs_gram(kernel)):
        return
    some = some_positions(positions, _MOST_POSITIONS)
    if not len(some):
        return
    signals = [_thinned(positions.signal(number)) for number in some]
    codes, chosen = analysis.samples.codes, analysis.samples.train_mask
    if len(codes) != len(signals[0]):  # in repeats these are of averages, drawn later
        codes, chosen = analysis.trials.codes, analysis.trials.train_mask
    if chosen is not None:
        codes, signals = codes[chosen], [signal[chosen] for signal in signals]
    warn_of(find_spread(signals, codes, analysis.classes))


def find_spread(signals, codes, classes):
    """The `Problem` of classes whose trials vary more or less, or None.

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
    least, most = (str(classes[present[i]]) for i in (means.argmin(), means.argmax()))
    return say("spread", {"ratio": ratio}, least=least, most=most)


def _thinned(signal):
    """A signal (n, p) with not too many features, evenly spaced."""
    return signal[:, :: -(-signal.shape[1] // _MOST_FEATURES)]


def _squares(signal, codes):
    """The squared distance (n,) of each trial from the median of its class."""
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
