"""Label permutations: which labels may change places, and the shuffled labels.

A permutation test compares the observed score with the scores of shuffled labels. It is
valid only when the trials that swap labels are exchangeable, which is a rule about
*blocks*: labels change places inside a block and never leave it. And only when observed
and shuffled labels go through the same. Folds that were drawn without the labels are
the same for all of them. Folds that were drawn from the labels are not: other labels
would have had others. To shuffle within such folds does not mend it, since they say
where in time which label is: only noise that is independent from trial to trial leaves
no trace of that. So a splitter that looks at labels has to be shown the shuffled ones.
"""

import math
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, get_args

import numpy as np
from scipy.special import gammaln

from ..utils.checks import check_count, check_option, check_per_trial, generator
from ..utils.memory import batches, check_permutations
from ..utils.problems import Problem, read_texts
from .listed import Permute

#: With fewer rearrangements than this, no p-value can reach 0.05.
FEWEST = 20

#: What is said of permuted labels.
_TEXTS = read_texts(Path(__file__).with_suffix(".txt"))
#: Splitters that do not look at the labels, for messages.
BLIND = _TEXTS["blind"]

#: Of so many labellings that are drawn, the smallest part that has to be accepted.
_FEWEST_ACCEPTED, _PILOT = 0.01, 1000
#: How often the labels are in memory while they are drawn.
_COPIES = 3


@dataclass(frozen=True, eq=False)
class Permutations:
    """Permuted labels of one decoding problem.

    Attributes
    ----------
    labels : array of int, shape (n_permutations + 1, n_trials)
        Class codes. Row 0 holds the observed labels.
    scheme : str
        How the labels were permuted: "within_folds", "within_groups", "groups" or
        "free".
    exact : bool
        True if the rows are all distinct rearrangements, each once. A p-value from them
        is exact, not a Monte Carlo estimate.
    renamings : int
        If the rows are all distinct rearrangements: how many of them, including the
        observed labels, differ from these only in the names of classes and thus have
        the same score. See `count_renamings`. Otherwise 1.
    """

    labels: np.ndarray
    scheme: str
    exact: bool
    renamings: int = 1

    @property
    def n_permutations(self):
        """Number of permuted rows, not counting the observed one."""
        return len(self.labels) - 1


def permute_labels(
    codes,
    n_permutations,
    *,
    folds,
    groups=None,
    permute="auto",
    random_state=None,
    check=None,
    classes=None,
    alike=True,
):
    r"""Permute labels in a way that is valid for the given folds and groups.

    Parameters
    ----------
    codes : array of int, shape (n_trials,)
        Class of each trial, numbered from 0.
    n_permutations : int
        Number of permutations P. With 0 only the observed labels are returned.
    folds : Folds | None
        The cross-validation folds, see :func:`mvpa_kfda.kfda.folds.make_folds`. None:
        the labels train one model, which is tested on separate trials, whose labels are
        not permuted.
    groups : array, shape (n_trials,) or None, default=None
        Exchangeability groups, such as runs, sessions or subjects.
    permute : str, default="auto"
        "within_folds": among trials that share exactly the same training and test sets
        (and the same group, if groups are given). Valid if the folds were drawn without
        the labels; else for noise alone that is independent from trial to trial.
        "within_groups": among the trials of a group.
        "groups": across whole groups, for a factor that is constant within
        each group, such as patients and controls.
        "free": among all trials.
        "auto": see Notes.
    random_state : int, Generator or None, default=None
        Seed, as taken by :func:`numpy.random.default_rng`.
    check : callable or None, default=None
        Called with the number of permutations before they are drawn, to refuse more
        than the caller has room for.
    classes : array of int, shape (n_codes,) or None, default=None
        The class that is trained with for each code, where codes stand for more than
        that. None: the codes themselves.
    alike : bool, default=True
        Whether scores stay as they are when classes are renamed: not if only the
        labels that are trained on are shuffled, and not if these are numbers.

    Returns
    -------
    permutations : Permutations
        Labels (P + 1, n_trials), the observed ones first, and the scheme used. Fewer
        rows, if fewer distinct rearrangements exist.

    Raises
    ------
    ValueError
        If the scheme does not apply, if only one rearrangement is possible, if "auto"
        finds no valid scheme, or if the labels would not fit into memory.

    Warns
    -----
    RuntimeWarning
        If a scheme is requested by name although the splitter used the labels, which
        biases the test.

    Notes
    -----
    Let :math:`m_{bk}` be the number of class-k labels in block b. There are

    .. math:: W = \prod_b \frac{(\sum_k m_{bk})!}{\prod_k m_{bk}!}

    distinct rearrangements. If W is at most P + 1 all of them are listed, otherwise P
    are drawn at random with replacement.

    "auto" depends only on folds and groups, never on the number of requested or
    possible permutations:

    1. Folds that were drawn without the labels, or none: "groups" if labels are
       constant within every group, else "within_groups" if groups are given, else
       "free".
    2. Folds of which that is not known, such as a list of index arrays, averages of
       trials, and folds of sorted rows: "within_folds", if it leaves 20 rearrangements
       or more. Otherwise a ValueError says what can be done.
    3. Folds that were drawn from the labels: a ValueError. The decoding functions show
       such splitters every labelling, and shuffle without folds, as in 1.

    Where there are few rearrangements p-values are coarse: none is smaller than 1 / W,
    and of scores that treat classes alike none than the share of `count_renamings`.

    Shuffling freely over fixed stratified folds is biased: the observed labels are
    spread evenly over the folds and the shuffled ones are not. A fold rich in one class
    is then predicted from trials poor in it, which lowers the permuted scores.
    Shuffling within them is biased where noise lasts or drifts.
    Exchangeability blocks follow [1]_.

    References
    ----------
    .. [1] Winkler, A. M., Webster, M. A., Vidaurre, D., Nichols, T. E., & Smith, S. M.
       (2015). Multi-level block permutation. NeuroImage, 123, 253-268.

    Examples
    --------
    >>> import numpy as np
    >>> from mvpa_kfda.kfda.folds import make_folds
    >>> codes = np.array([0, 1, 0, 1, 0, 1])
    >>> folds = make_folds(3, codes)  # of neighbours, whatever the codes
    >>> permuted = permute_labels(codes, 7, folds=folds, permute="within_folds")
    >>> permuted.labels
    array([[0, 1, 0, 1, 0, 1],
           [0, 1, 0, 1, 1, 0],
           [0, 1, 1, 0, 0, 1],
           [0, 1, 1, 0, 1, 0],
           [1, 0, 0, 1, 0, 1],
           [1, 0, 0, 1, 1, 0],
           [1, 0, 1, 0, 0, 1],
           [1, 0, 1, 0, 1, 0]], dtype=int8)
    >>> permuted.exact
    True
    """
    found = arrangements_of(
        codes, n_permutations, folds=folds, groups=groups, permute=permute, alike=alike
    )
    units, scheme, rng = found.units, found.scheme, generator(random_state)
    if n_permutations == 0:
        return Permutations(found.codes[np.newaxis].copy(), scheme, exact=False)
    count, renamings = units.count, found.renamings
    n_rows = 1 + found.check(n_permutations)
    if biased := find_biased(permute, folds):
        biased.warn(RuntimeWarning)
    dependent = folds is not None and folds.sees_labels and not folds.balanced
    if permute == "auto" and dependent:
        raise ValueError(_TEXTS["to be shown"].format(folds=folds))
    if check is not None:
        check(n_rows - 1)
    exact = n_rows == count
    labels = units.all() if exact else units.draw(n_permutations, rng)
    if folds is not None and folds.rule is not None and scheme != "within_folds":
        labels = _of_same_folds(labels, found, classes, exact, rng)
        count = len(labels) if exact else count
    # Renamed classes are as many in every training set: the rule keeps all or none.
    few = find_few(count, n_permutations, scheme, renamings)
    if few and few.severity == "warning":
        few.warn()
    return Permutations(labels, scheme, exact, renamings if exact else 1)


def _of_same_folds(labels, found, classes, exact, rng):
    """The labels (P + 1, n) that would all have had the same folds, by their rule.

    The others are left out if the rows are all there are, and else drawn again.
    """
    folds, scheme = found.folds, found.scheme

    def keeps(labels):
        labels = labels if classes is None else classes[labels]
        if len(labels) and scheme != "groups" and not folds.rule.may_fail(labels[0]):
            return np.ones(len(labels), bool)  # whatever their order
        return folds.rule.keeps(labels)

    def draw(n):
        return found.units.draw(n, rng)[1:]

    wrong = 1 + np.flatnonzero(~keeps(labels[1:]))
    if exact:
        if len(wrong) == len(labels) - 1:
            raise found.only_one()
        return np.delete(labels, wrong, axis=0)
    if len(wrong) == len(labels) - 1 and keeps(draw(_PILOT)).mean() < _FEWEST_ACCEPTED:
        # Random orders need more folds so rarely that it does not matter for the
        # level of a test what becomes of them, and no order lacks a class now.
        if not folds.rule.as_asked:
            return labels
        raise ValueError(_TEXTS["hardly any"].format(folds=folds))
    while len(wrong):
        drawn = draw(len(wrong))
        kept = keeps(drawn)
        labels[wrong[kept]] = drawn[kept]
        wrong = wrong[~kept]
    return labels


def find_biased(permute, folds):
    """The `Problem` of a scheme asked for that does not fit the folds."""
    within, asked = permute == "within_folds", permute != "auto" and folds is not None
    if not asked or not (folds.sees_labels or (folds.balanced and not within)):
        return None
    name = "lasting" if within else "biased"
    return Problem(name, _TEXTS[name].format(permute=permute, folds=folds))


def find_price(folds):
    """The `Problem` of a splitter that has to be shown every labelling."""
    return Problem("price", _TEXTS["price"].format(folds=folds))


def find_few(count, n_permutations, scheme, renamings=1):
    """The `Problem` of fewer arrangements than are asked for, or None.

    It is worth a warning where no p-value reaches 0.05. So many `renamings` of classes
    are among the arrangements, with one and the same score.
    """
    coarse, drawn = count < FEWEST * renamings, count > n_permutations + 1
    if drawn and not (n_permutations and coarse):
        return None
    numbers = {"arrangements": count, "n_permutations": n_permutations}
    numbers["renamings"] = renamings
    smallest = _TEXTS["luck" if drawn else "no p-value"].format(**numbers)
    if renamings > 1:
        words = {"smallest": smallest, "share": renamings / count}
        smallest = _TEXTS["renamed"].format(**numbers, **words)
    text = _TEXTS["coarse" if coarse else "exact"]
    text = text.format(scheme=scheme, smallest=smallest, **numbers)
    return Problem("few", text, numbers, "warning" if coarse else "note")


def count_renamings(codes, blocks):
    """Count the rearrangements of labels within blocks that only rename classes.

    Classes may be renamed into each other if they have equal numbers in each block:
    the product of c! over all sets of c such classes, the labels as they are among
    them. A score that treats classes alike, such as accuracy, is the same for all of
    these.

    Examples
    --------
    >>> codes = np.array([0, 0, 0, 1, 1, 1])  # 2 of 20 arrangements
    >>> count_renamings(codes, np.zeros(6, int))
    2
    >>> count_renamings(codes, np.array([0, 0, 1, 0, 1, 1]))  # 2 + 1 and 1 + 2
    1
    """
    n_classes = int(codes.max(initial=0)) + 1
    cells, counts = np.unique(blocks * n_classes + codes, return_counts=True)
    numbers = [[] for _ in range(n_classes)]
    for cell, count in zip(cells.tolist(), counts.tolist(), strict=True):
        block, code = divmod(cell, n_classes)
        numbers[code].append((block, count))
    sets = Counter(tuple(each) for each in numbers if each)
    return math.prod(math.factorial(n) for n in sets.values())


@dataclass(frozen=True, eq=False)
class Arrangements:
    """Which labels may change places, and how many arrangements that allows."""

    #: How the labels are shuffled, as in `Permutations`.
    scheme: str
    #: The code of each trial, and what changes places.
    codes: np.ndarray
    units: "Units"
    folds: Any
    #: Arrangements with the score of the labels as they are, as in `Permutations`.
    renamings: int

    @property
    def blocks(self):
        """The block (n,) that the label of each trial never leaves."""
        return self.units.blocks[self.units.of_trial]

    def check(self, n_permutations):
        """How many of so many permutations there are; refuse none and too many."""
        if self.units.count == 1:
            raise self.only_one()
        n, each = min(n_permutations, self.units.count - 1), _COPIES * self.codes.nbytes
        check_permutations(n, each, f" for {len(self.codes)} trials")
        return n

    def only_one(self):
        """The error of a scheme that allows the observed labels only."""
        name = "" if self.folds is None else self.folds.name
        alike = SCHEMES[self.scheme].alike.format(name=name)
        return ValueError(_TEXTS["only one"].format(scheme=self.scheme, alike=alike))


def arrangements_of(
    codes, n_permutations, *, folds, groups=None, permute="auto", alike=True
):
    """The `Arrangements` of `permute_labels`, whose arguments are checked."""
    check_option("permute", permute, get_args(Permute))
    n_permutations = check_count("n_permutations", n_permutations)
    codes = np.asarray(codes)
    if codes.ndim != 1 or codes.dtype.kind not in "iu" or codes.min(initial=0) < 0:
        raise ValueError(_TEXTS["codes"].format(codes=codes))
    if folds is not None and len(codes) != folds.n:
        raise ValueError(_TEXTS["other folds"].format(n=len(codes), folds=folds))
    # Signed: a caller may mark trials with -1. min_scalar_type(-c) holds 0..c-1.
    codes = codes.astype(np.min_scalar_type(-int(codes.max(initial=0)) - 1))
    if groups is not None:
        groups = check_per_trial(groups, len(codes), "groups")
    auto = permute == "auto"
    scheme = _choose(codes, folds, groups, n_permutations > 0) if auto else permute
    if groups is None and SCHEMES[scheme].needs_groups:
        raise ValueError(_TEXTS["no groups"].format(scheme=scheme))
    units = SCHEMES[scheme].units(codes, folds, groups)
    # Without folds, other trials are tested, whose labels stay as they are.
    renamings = units.renamings() if alike and folds is not None else 1
    return Arrangements(scheme, codes, units, folds, renamings)


# ---------------------------------------------------------------- the four schemes


@dataclass(frozen=True, eq=False)
class Units:
    """What changes places inside blocks, trials or whole groups, and in which ways.

    A scheme with other ways has units of another class, with the same methods.
    """

    #: Class of each unit (u,), which changes places inside blocks (u,).
    codes: np.ndarray
    blocks: np.ndarray
    #: Which unit holds a trial (n,); by default every trial is one.
    of_trial: Any = ...

    @cached_property
    def count(self):
        """The number of distinct rearrangements, inf when past a float's range."""
        n_classes = int(self.codes.max()) + 1
        cells = self.blocks * n_classes + self.codes
        # Counted by sorting: a table of blocks x classes may be as large as n x n.
        same = np.unique(cells, return_counts=True)[1]
        # Logarithms: the factorials themselves overflow at 171 trials.
        total = gammaln(np.bincount(self.blocks) + 1).sum()
        log_count = float(total - gammaln(same + 1).sum())
        return math.inf if log_count > 700 else round(math.exp(log_count))

    def renamings(self):
        """The number of rearrangements that only rename classes."""
        return count_renamings(self.codes, self.blocks)

    def draw(self, n_permutations, rng):
        """Labels (P + 1, n) of rearrangements at random, the observed ones first."""
        labels = np.tile(self.codes, (n_permutations + 1, 1))
        shuffled = labels[1:]
        for members in self._members():
            # The same numbers as all at once, but an interrupt need not wait for long.
            for rows in batches(n_permutations, len(members)):
                shuffled[rows, members] = rng.permuted(shuffled[rows, members], axis=1)
        return np.ascontiguousarray(labels[:, self.of_trial])

    def all(self):
        """Labels (W, n) of every rearrangement once, the observed ones first."""
        choices = [(each, _orders(self.codes[each])) for each in self._members()]
        choices = [(each, orders) for each, orders in choices if len(orders) > 1]
        sizes = [len(orders) for _, orders in choices]
        labels = np.tile(self.codes, (math.prod(sizes), 1))
        # Row r of the list takes order index[b][r] of block b.
        index = np.unravel_index(np.arange(len(labels)), sizes)
        for (members, orders), pick in zip(choices, index, strict=True):
            labels[:, members] = orders[pick]
        return np.ascontiguousarray(labels[:, self.of_trial])

    def _members(self):
        """The unit indices of every block in which labels can change places."""
        order = np.argsort(self.blocks, kind="stable")
        parts = np.split(order, np.cumsum(np.bincount(self.blocks))[:-1])
        return [part for part in parts if len(part) > 1]


def _orders(codes):
    """The distinct orders of `codes`, (w, m), the given order first."""
    # Prefixes grow by one position at a time: each is continued with every class that
    # still has labels left.
    left = np.bincount(codes)[np.newaxis]  # (w, c)
    rows = np.empty((1, 0), dtype=codes.dtype)
    for _ in codes:
        prefix, chosen = np.nonzero(left)
        rows = np.column_stack([rows[prefix], chosen.astype(codes.dtype)])
        left = left[prefix]
        left[np.arange(len(left)), chosen] -= 1
    given = np.argmax((rows == codes).all(axis=1))
    return np.concatenate([rows[given : given + 1], np.delete(rows, given, axis=0)])


def _within_folds(codes, folds, groups):
    """The trials, in blocks that share exactly the same sets and group."""
    if folds is None:
        raise ValueError(_TEXTS["no folds"])
    blocks = _number(folds.blocks)
    if groups is not None:
        group = _number(groups)
        blocks = _number(blocks * (group.max() + 1) + group)
    return Units(codes, blocks)


def _groups(codes, folds, groups):
    """The groups, all in one block."""
    names, first, unit = np.unique(groups, return_index=True, return_inverse=True)
    if len(names) < 2:
        raise ValueError(_TEXTS["one group"].format(group=names[0].item()))
    unit_codes = codes[first]
    if len(mixed := groups[unit_codes[unit] != codes]):
        raise ValueError(_TEXTS["mixed groups"].format(group=mixed[0].item()))
    return Units(unit_codes, np.zeros(len(names), dtype=np.intp), unit)


@dataclass(frozen=True)
class Scheme:
    """Which labels may change places."""

    #: The units that do, of codes, folds and groups.
    units: Callable
    #: Among which {trials} they are permuted.
    words: str
    #: Which trials have the same label if only one arrangement is possible.
    alike: str = "given"
    needs_groups: bool = False


#: The schemes by name.
SCHEMES = {
    "within_folds": Scheme(
        _within_folds,
        "among {trials} of the same training and test sets{and_group}",
        "that share a fold of {name} (and a group, if given)",
    ),
    "within_groups": Scheme(
        lambda codes, folds, groups: Units(codes, _number(groups)),
        "among {trials} of the same group",
        "of a group",
        needs_groups=True,
    ),
    "groups": Scheme(_groups, "across whole groups", needs_groups=True),
    "free": Scheme(
        lambda codes, folds, groups: Units(codes, np.zeros(len(codes), np.intp)),
        "among all {trials}",
    ),
}


def _number(values):
    """The values as numbers 0, 1, ... in sorted order."""
    return np.unique(values, return_inverse=True)[1].reshape(-1)


# -------------------------------------------------------------- choice of a scheme


def _choose(codes, folds, groups, permuted):
    """Choose the scheme for "auto"; the notes of `permute_labels` give the rules."""
    loose = "free"
    if groups is not None:
        group = _number(groups)
        pairs = np.unique(group * (int(codes.max()) + 1) + codes)
        loose = "groups" if len(pairs) == group.max() + 1 else "within_groups"
    if folds is None or (folds.sees_labels is not None and not folds.balanced):
        return loose
    count = _within_folds(codes, folds, groups).count
    if count >= FEWEST or not permuted:
        return "within_folds"
    text = _TEXTS[f"no good way: {'balanced' if folds.balanced else 'unknown'}"]
    raise ValueError(text.format(folds=folds, count=count, fewest=FEWEST, loose=loose))
