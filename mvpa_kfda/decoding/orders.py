r"""The order of trials, and whether time or the trial before would pass for an effect.

Whatever drifts in the course of a recording (fatigue, movement, electrodes) is alike in
trials that are near in time, and alike at the same position of every run; a slow
response is still there when the next trial begins. A design is asked by simulation:
recordings without an effect are drawn, of noise of each kind in `NOISE`, and decoded
with the folds of the analysis, once with the labels as they are and once with each of
many random orders, permuted by its scheme. Each model tells classes apart by their
means alone, which is KFDA with a large penalty: the score of labels :math:`Y` (n, w) in
features :math:`X` is the sum over folds of the products of test and training sums,

.. math:: \sum_f \mathrm{tr}(Y_{test}^T X_{test} X_{train}^T Y_{train}).

There is a problem if none of `_N_ORDERS` random orders has scores as large as the
labels have, and if these are significant in more recordings than `_RATE`. So of
randomised designs at most one in `_N_ORDERS` is a problem for each kind of noise. It
is a warning, and not a note, if a curve fitted to random orders says that fewer than
`_LEVEL` have scores as large [1]_.

References
----------
.. [1] Winkler, A. M., Ridgway, G. R., Douaud, G., Nichols, T. E., & Smith, S. M.
   (2016). Faster permutation inference in brain imaging. NeuroImage, 141, 502-516.
"""

import pickle
from dataclasses import dataclass, fields, replace
from hashlib import sha256

import numpy as np
from scipy.linalg import helmert
from scipy.stats import pearson3, skew

from ..inference.permutation import FEWEST, SCHEMES, arrangements_of
from ..kfda.folds import is_sorted, left_out_folds
from .problems import TEXTS, number_groups, say

#: Random orders, how many are compared first, and with how many schemes are compared.
_N_ORDERS, _FEW, _SOME = 299, 49, 99
#: Simulated recordings, and features of each.
_RECORDINGS, _FEATURES = 40, 4
#: Of so many trials all recordings are in memory at once, of others some.
_FEW_TRIALS = 500
#: Columns that stand for the classes, at most.
_CONTRASTS = 5
#: The share of recordings without an effect that may be significant.
_RATE = 0.08
#: Random orders that have scores as large, where there is a warning.
_LEVEL = 1e-3
#: The schemes that may mend it, the share of recordings up to which they do (6 %), and
#: how many recordings show it.
_MENDING, _MENDED, _MANY_RECORDINGS = ("transitions", "trend"), 0.065, 200
_PLURALS = {"class": "classes", "target": "targets"}
#: The correlation of lasting noise with that of the trial before.
_LASTING = 0.9
#: What was found in the last designs, so many of them, by the checksum of each: the
#: same trials are decoded region by region, or with another kernel.
_FOUND, _KEPT = {}, 128


@dataclass(frozen=True, eq=False)
class _Trials:
    """When trials were recorded."""

    #: The number of each in the recording (n,), of which some may be missing.
    time: np.ndarray
    #: The number of its group (n,), and of trials in the group before it.
    group: np.ndarray
    rank: np.ndarray

    @classmethod
    def of(cls, n, groups, numbers, chosen=None):
        """The trials by groups and numbers, where there are any.

        Those that are chosen to train with have an order of their own.
        """
        time = np.arange(n) if numbers is None else np.asarray(numbers)
        group, rank = number_groups(groups, n), np.empty(n, int)
        if chosen is not None:
            group = number_groups(2 * group + chosen, n)
        order = np.lexsort((time, group))
        first = np.flatnonzero(np.diff(group[order], prepend=-1))
        rank[order] = np.arange(n) - first[group[order]]
        return cls(time, group, rank)

    @property
    def place(self):
        """The place (n,) of each in its group, numbered, with gaps for dropped ones."""
        first = np.full(self.group.max() + 1, self.time.max())
        np.minimum.at(first, self.group, self.time)
        return np.unique(self.time - first[self.group], return_inverse=True)[1]

    @property
    def order(self):
        """The trials in the order of time."""
        return np.argsort(self.time, kind="stable")

    @property
    def gaps(self):
        """How much later each is than the one before, (n - 1,); inf in another run."""
        time, group = self.time[self.order], self.group[self.order]
        other = np.diff(group) != 0
        in_runs = np.count_nonzero(other) <= group.max()  # else groups come again
        return np.where(in_runs & other, np.inf, np.diff(time))


def _of_places(rng, trials, size):
    """Signals (n, size) of each place in the groups."""
    place = trials.place
    return rng.standard_normal((place.max() + 1, size))[place]


def _lasting(rng, trials, size):
    """Noise (n, size) that lasts from trial to trial, less over gaps."""
    order = trials.order
    noise = rng.standard_normal((len(order), size))
    for i, share in enumerate(_LASTING**trials.gaps, 1):
        noise[i] = share * noise[i - 1] + np.sqrt(1 - share**2) * noise[i]
    return noise[np.argsort(order)]


def _trend(rng, trials, size):
    """Curves (n, size) over the groups, the same in each."""
    last = np.bincount(trials.group)[trials.group] - 1
    time = 2 * trials.rank / np.maximum(last, 1) - 1
    powers = np.column_stack([time, time**2])
    powers = (powers - powers.mean(axis=0)) / np.maximum(powers.std(axis=0), 1e-9)
    return powers @ rng.standard_normal((2, size)) / np.sqrt(2)


def _drift(rng, trials, size):
    """Random walks (n, size) through the recording."""
    steps = rng.standard_normal((len(trials.time), size))
    walk = steps.cumsum(axis=0) * 2 / np.sqrt(len(steps))
    return walk[np.argsort(trials.order)]


#: What may be in a recording without an effect. "carry-over" is a response to the class
#: before, which is not said beside another: what lasts tells the next class, too.
_LAST = "carry-over"
NOISE = {
    "order": _of_places,
    "lasting": _lasting,
    "trend": _trend,
    "drift": _drift,
    _LAST: None,
}


def warn_of_order(analysis, numbers=None):
    """Warn of the problems in the order of labels that an analysis runs into."""
    trials, permutations = analysis.trials, analysis.permutations
    scheme = permutations.scheme if permutations.n_permutations else None
    about = trials.codes, trials.groups, trials.folds, scheme
    regression = analysis.classes is None
    for problem in find_in_order(*about, numbers=numbers, regression=regression):
        if problem.severity == "warning":
            problem.warn()


def find_in_order(
    targets, groups, folds, scheme=None, *, numbers=None, regression=False
):
    """The problems in the order of labels, or of numbers that are predicted.

    Parameters
    ----------
    targets : array, shape (n_trials,)
        Class of each trial, numbered from 0, or the number to be predicted.
    groups : array, shape (n_trials,) | None
        Runs, sessions or subjects.
    folds : Folds | None
        Those of the trials. None: other trials are tested, whose order is not known.
    scheme : str | None
        How labels are permuted; None: they are not.
    numbers : array of int, shape (n_trials,) | None
        The number of each trial in the recording, of which some may be missing. None:
        the trials are in order, as far as is known.
    regression : bool
        Whether numbers are predicted.

    Returns
    -------
    problems : list of Problem
        The one that is found most clearly, if any is.
    """
    design = targets, groups, folds, scheme, numbers, regression
    key = _checksum(*design)
    found = _FOUND.pop(key, None)
    found = _find(*design) if found is None else found
    _FOUND[key] = found  # now the last one
    for forgotten in list(_FOUND)[:-_KEPT]:
        _FOUND.pop(forgotten, None)
    return [replace(each, numbers=dict(each.numbers)) for each in found]


def _checksum(targets, groups, folds, *options):
    """A SHA-256 of all that problems depend on. Of groups that is their order alone."""
    targets = np.asarray(targets)
    group = None if groups is None else number_groups(groups, len(targets))
    sets = folds and [getattr(folds, each.name) for each in fields(folds)]
    return sha256(pickle.dumps((targets, group, sets, options))).digest()


def _find(targets, groups, folds, scheme, numbers, regression):
    """The problems of `find_in_order`."""
    targets, chosen = np.asarray(targets), None if folds is None else folds.train_mask
    rows = slice(None) if chosen is None else chosen
    alone = [
        None if each is None else each[rows] for each in (targets, groups, numbers)
    ]
    noun = "target" if regression else "class"
    if alone := _find_sorted(*alone, noun, chosen is None and folds):
        return alone
    if folds is None:
        return []
    trials = _Trials.of(len(targets), groups, numbers, chosen)
    found = dict.fromkeys(NOISE if trials.group.any() else [*NOISE][1:])
    for n_orders in (_FEW, _N_ORDERS):  # most designs are done with after a few
        orders = _random_orders(targets, groups, folds, scheme, n_orders, numbers)
        if orders is None:
            return []
        about = _columns(targets, orders, regression), trials, _pairs(folds, trials)
        found = {kind: _compare(kind, *about, scheme) for kind in found}
        found = {kind: seen for kind, seen in found.items() if seen is not None}
    found = {kind: seen for kind, seen in found.items() if seen[0] >= _RATE}
    if not found:
        return []
    p = min(each for _, each in found.values())
    sure = any(each <= _LEVEL for kind, (_, each) in found.items() if kind != _LAST)
    if sure or "lasting" in found:
        found.pop(_LAST, None)
    kind = min(found, key=lambda kind: found[kind][1])
    rate = found[kind][0]
    words = {"n_groups": trials.group.max() + 1, "of": noun, "each": _PLURALS[noun]}
    words |= _words(trials)
    one_of_each = kind == "order" and np.array_equal(targets, trials.rank)
    case = f"{kind}: one of each" if one_of_each else kind
    severity = "note" if one_of_each or p > _LEVEL else "warning"
    seen, words["mended"] = {"rate": rate, "p": p}, ""
    if severity == "warning" and scheme is not None and not regression:
        columns = {}
        for each in dict.fromkeys((scheme, *_MENDING)):
            orders = _random_orders(targets, groups, folds, each, _SOME, numbers)
            if orders is not None:
                columns[each] = _columns(targets, orders, regression)
        mending = _find_mending(kind, scheme, columns, *about[1:])
        seen["rate"], words["mended"] = mending.pop("now"), mending.pop("text")
        seen |= mending
    return [say(case, seen, severity, **words)]


def _find_mending(kind, scheme, columns, trials, pairs):
    """How many recordings are significant `now`, and a `text` on what mends it.

    By the columns of each scheme. Of carry-over, which none mends, also lasting noise.
    """
    found = {"text": f" {TEXTS['not mended']}"}
    for noise in dict.fromkeys((kind, "lasting" if kind == _LAST else kind)):
        about = trials, pairs, _MANY_RECORDINGS
        rates = {x: _rate(_scores(noise, columns[x], *about)) for x in columns}
        now = rates.pop(scheme)
        found.setdefault("now", now)
        if noise != kind:
            rates.pop("trend", None)  # which is for what drifts
        best = min(rates, key=rates.get, default=None)
        if best is not None and rates[best] <= _MENDED and now >= _RATE:
            numbers = {"mended_by": best, "mended_rate": rates[best]}
            approximate = " (approximate)" * SCHEMES[best].approximate
            text = TEXTS["mended" if noise == kind else "mended for lasting"]
            text = text.format(now=now, approximate=approximate, **numbers)
            return found | numbers | {"text": f" {text}"}
    return found


def _words(trials):
    """What texts say of the recording."""
    if trials.group.any():
        return {"one": "group", "other_order": TEXTS["other order"]}
    return {"one": "recording", "other_order": TEXTS["other rows"]}


def _find_sorted(values, groups, numbers, noun, folds):
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
    in_parts = folds and folds.balanced and groups is None
    return [say("sorted: in parts" if in_parts else "sorted", of=of, noun=noun)]


def _random_orders(targets, groups, folds, scheme, n_orders, numbers):
    """Codes (o + 1, n) of targets as they are and in random orders; None: only so.

    Those of trials that are only tested stay as they are, unless these are pairs with
    trials that are trained with: such pairs were drawn as one.
    """
    codes, mask = np.unique(targets, return_inverse=True)[1], folds.train_mask
    rows = np.arange(len(codes)) if mask is None else np.flatnonzero(mask)
    within = None
    if scheme == "within_folds":
        within = folds if mask is None else left_out_folds(folds)
    try:
        units = arrangements_of(
            codes[rows],
            0,
            folds=within,
            groups=None if groups is None else np.asarray(groups)[rows],
            permute=scheme or "auto",
            time=None if numbers is None else np.asarray(numbers)[rows],
        ).units
    except ValueError:  # of which the analysis speaks
        return None
    if scheme in _MENDING and units.count < FEWEST:
        return None
    drawn = units.draw(n_orders, np.random.default_rng(0))
    if mask is None:
        return drawn
    orders = np.tile(codes, (n_orders + 1, 1))
    orders[:, rows] = drawn
    pairs = _pairs_held(codes, groups, folds, numbers)
    if pairs is not None:
        orders[:, pairs[0]] = orders[:, pairs[1]]
    return orders


def _pairs_held(codes, groups, folds, numbers):
    """The tested trials, and of each the one before it that is trained with; or None.

    Where all pairs are of one class, and no fold tests a trial and trains with the
    other one of its pair.
    """
    trials, chosen = _Trials.of(len(codes), groups, numbers), folds.train_mask
    order = np.lexsort((trials.time, trials.group))
    rows = np.arange(len(order))
    last = np.maximum.accumulate(np.where(chosen[order], rows, 0))
    tested = ~chosen[order]
    pairs = order[tested], order[last[tested]]
    second, first = pairs
    held = chosen[first].all()
    for values in (codes, trials.group):
        held = held and np.array_equal(values[first], values[second])
    for train, test in folds.pairs:
        held = held and not np.isin(first[np.isin(second, test)], train).any()
    return pairs if held else None


def _columns(targets, orders, regression):
    """Columns (o, w, n) of mean 0 that stand for the targets in each order."""
    levels = np.unique(targets)
    if regression:
        numbers = levels[:, np.newaxis] / np.abs(levels).max()
    elif len(levels) > _CONTRASTS:
        numbers = np.random.default_rng(0).standard_normal((len(levels), _CONTRASTS))
    else:
        numbers = helmert(max(len(levels), 2)).T
    observed = numbers[orders[0]]
    numbers = numbers - observed.mean(axis=0)
    numbers = numbers / max(observed.std(axis=0).max(), 1e-300)
    return np.stack([each[orders] for each in numbers.T.astype(np.float32)], axis=1)


def _pairs(folds, trials):
    """Training and test rows; None for all others. Parts, if folds depend on labels."""
    tests = folds.tests
    if folds.sees_labels:
        tests = np.array_split(trials.order, min(len(tests), len(trials.time)))
    trains = None if folds.sees_labels else folds.trains
    return list(zip(trains or [None] * len(tests), tests, strict=True))


def _compare(kind, columns, trials, pairs, scheme):
    """The share of recordings that are significant, and p of the order as it is.

    None where a random order has scores as large.
    """
    about, carries = (kind, columns, trials, pairs), kind == _LAST
    found = _scores(*about, as_labelled=carries)
    # What lasts or drifts makes scores vary where labels do not; without permuted
    # labels, and of what is the same elsewhere, their mean matters.
    vary = scheme and kind not in ("order", _LAST)
    sizes = (found**2).mean(axis=1) if vary else found.mean(axis=1)
    if sizes[1:].max() >= sizes[0] - 1e-5 * abs(sizes[0]):
        return None
    rate = _rate(_scores(*about) if carries else found)
    sizes = np.log(np.maximum(sizes, 1e-300)) if vary else sizes
    moments = max(skew(sizes[1:]), 0), sizes[1:].mean(), max(sizes[1:].std(), 1e-300)
    return rate, float(pearson3.sf(sizes[0], *moments))


def _rate(scores):
    """The share of recordings in which the labels of row 0 are significant."""
    return float((scores[0] > np.quantile(scores[1:], 0.95, axis=0)).mean())


def _scores(kind, columns, trials, pairs, number=_RECORDINGS, as_labelled=False):
    """The scores (o, recordings) of each order in a number of recordings.

    These respond to the classes as they are, or to those of each order.
    """
    n, n_columns = len(trials.time), columns.shape[1]
    before = None
    if NOISE[kind] is None:
        order, follows = trials.order, trials.gaps == 1
        before = np.zeros_like(columns)
        before[:, :, order[1:][follows]] = columns[:, :, order[:-1][follows]]
        if not as_labelled:
            before = np.broadcast_to(before[:1], before.shape)

    def score(n_recordings):
        size = n_recordings * _FEATURES
        noise = 0 if kind == "lasting" else rng.standard_normal((n, size))
        if before is None:
            noise = noise + NOISE[kind](rng, trials, size)
        noise = noise.astype(np.float32)
        pattern = rng.standard_normal((n_columns, size), np.float32)

        def sums(rows):
            members = columns[:, :, rows]
            total = members.reshape(-1, members.shape[2]) @ noise[rows]
            total = total.reshape(len(columns), n_columns, -1)
            if before is None:
                return total
            return total + members @ before[:, :, rows].transpose(0, 2, 1) @ pattern

        total, products = sums(np.arange(n)), 0
        for train, test in pairs:
            tested = sums(test)
            trained = total - tested if train is None else sums(train)
            products = products + tested * trained
        shape = len(columns), n_columns, n_recordings, _FEATURES
        return products.reshape(shape).sum(axis=(1, 3))

    rng, n_parts = (
        np.random.default_rng(1),
        -(-n * number // (_FEW_TRIALS * _RECORDINGS)),
    )
    parts = np.array_split(np.arange(number), min(n_parts, number))
    return np.hstack([score(len(part)) for part in parts])
