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
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, get_args

import numpy as np
from scipy.special import expit, gammaln, log_softmax, softmax

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
#: Steps of the pairwise sampler, as in its paper; those of Newton's method, and the
#: penalty of squared slopes that keeps them finite.
_STEPS, _NEWTON, _RIDGE = 50, 30, 0.1


@dataclass(frozen=True, eq=False)
class Permutations:
    """Permuted labels of one decoding problem.

    Attributes
    ----------
    labels : array of int, shape (n_permutations + 1, n_trials)
        Class codes. Row 0 holds the observed labels.
    scheme : str
        How the labels were permuted, one of `SCHEMES`.
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
    time=None,
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
        "transitions", "trend": within groups, if given, for labels that nobody
        randomised, see `Stretches` and `Trending`.
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
    time : array of int, shape (n_trials,) or None, default=None
        When trials were recorded. None: they are in that order.

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
    options = {"groups": groups, "permute": permute, "alike": alike, "time": time}
    found = arrangements_of(codes, n_permutations, folds=folds, **options)
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
    exact = n_rows == count and units.uniform
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
    coarse = count < FEWEST * renamings
    drawn = count > n_permutations + 1 or SCHEMES[scheme].approximate
    if drawn and not (n_permutations and coarse):
        return None
    numbers = {"arrangements": count, "n_permutations": n_permutations}
    numbers["renamings"] = renamings
    smallest = _TEXTS["luck" if drawn else "no p-value"].format(**numbers)
    if renamings > 1:
        words = {"smallest": smallest, "share": renamings / count}
        smallest = _TEXTS["renamed"].format(**numbers, **words)
    text = _TEXTS["coarse" if coarse else "exact"]
    more = SCHEMES[scheme].more
    text = text.format(scheme=scheme, smallest=smallest, more=more, **numbers)
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

    def check(self, n_permutations):
        """How many of so many permutations there are; refuse none and too many."""
        if self.units.count == 1:
            raise self.only_one()
        most = self.units.count - 1 if self.units.uniform else n_permutations
        n, each = min(n_permutations, most), _COPIES * self.codes.nbytes
        check_permutations(n, each, f" for {len(self.codes)} trials")
        return n

    def only_one(self):
        """The error of a scheme that allows the observed labels only."""
        name = "" if self.folds is None else self.folds.name
        why = SCHEMES[self.scheme].only_one.format(name=name)
        return ValueError(_TEXTS["only one"].format(scheme=self.scheme, why=why))


def arrangements_of(
    codes, n_permutations, *, folds, groups=None, permute="auto", alike=True, time=None
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
    if SCHEMES[scheme].in_time:
        units = _in_time(scheme, codes, folds, groups, time)
    else:
        units = SCHEMES[scheme].units(codes, folds, groups)
    # Without folds, other trials are tested, whose labels stay as they are.
    renamings = units.renamings() if alike and folds is not None else 1
    return Arrangements(scheme, codes, units, folds, renamings)


# --------------------------------------------------------------------- the schemes


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
    #: Whether all rearrangements are equally likely, so that they may be listed.
    uniform: ClassVar[bool] = True

    @property
    def trial_blocks(self):
        """The block (n,) that the label of each trial never leaves."""
        return self.blocks[self.of_trial]

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
        orders = np.tile(self.codes, (n_permutations + 1, 1))
        shuffled = orders[1:]
        for members in self._members():
            # The same numbers as all at once, but an interrupt need not wait for long.
            for rows in batches(n_permutations, len(members)):
                shuffled[rows, members] = rng.permuted(shuffled[rows, members], axis=1)
        return np.ascontiguousarray(orders[:, self.of_trial])

    def all(self):
        """Labels (W, n) of every rearrangement once, the observed ones first."""
        choices = [(each, _orders(self.codes[each])) for each in self._members()]
        choices = [(each, ways) for each, ways in choices if len(ways) > 1]
        sizes = [len(ways) for _, ways in choices]
        orders = np.tile(self.codes, (math.prod(sizes), 1))
        # Row r of the list takes way index[b][r] of block b.
        index = np.unravel_index(np.arange(len(orders)), (*sizes, 1))
        for (members, ways), pick in zip(choices, index, strict=False):
            orders[:, members] = ways[pick]
        return np.ascontiguousarray(orders[:, self.of_trial])

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


@dataclass(frozen=True, eq=False)
class Stretches:
    r"""Stretches of equal labels, which change places in their group.

    The lengths of stretches do, among those of a class, and the rounds from one stretch
    of the class that the group begins with to its next one, as wholes: of two classes
    all rounds are alike. The last round stays, which does not return.

    The test is exact for the labels of a Markov chain, in noise of any kind. Such
    labels have the probability

    .. math:: P(y) = p(y_1) \prod_t p(y_{t+1} | y_t),

    a function of the first label and of the numbers of transitions [1]_. Either
    exchange leaves both as they are, in each group, and all exchanges together are a
    group that acts on labellings. So the labels are as likely as all others that they
    lead to, whatever the noise is that does not depend on them, and each of these is
    drawn equally often. More generally the test is exact wherever lengths of a class
    are exchangeable, as of blocks in random order; chains may differ between groups.

    References
    ----------
    .. [1] Diaconis, P., & Freedman, D. (1980). De Finetti's theorem for Markov chains.
       The Annals of Probability, 8(1), 115-130.
    """

    #: Lengths (u,) in blocks of one group and class, one after the other.
    lengths: Units
    #: The kinds of rounds, in blocks of one group, and the classes of each kind.
    rounds: Units
    kinds: list
    #: The group of each stretch (u,), and the block of each trial (n,).
    group: np.ndarray
    trial_blocks: np.ndarray
    #: The trials (n,), group by group and in the order of time.
    order: np.ndarray
    uniform: ClassVar[bool] = True

    @classmethod
    def of(cls, codes, groups, order, _):
        """Those of codes (n,) in groups (n,), in the order of groups and time."""
        n, code, group = len(codes), codes[order], groups[order]
        first = np.flatnonzero(np.diff(group, prepend=-1) | np.diff(code, prepend=-1))
        lengths = np.diff(first, append=n).astype(np.min_scalar_type(-n))
        code, group = code[first], group[first]
        block = _number(group * (int(codes.max()) + 1) + code)
        by_block = np.argsort(block, kind="stable")
        begins = np.flatnonzero(np.diff(group, prepend=-1))
        begins = np.flatnonzero(code == code[begins][group])  # of every round
        rounds = [tuple(each) for each in np.split(code, begins[1:])]
        kinds = [*dict.fromkeys(rounds)]
        round_group = 2 * group[begins]
        round_group[np.diff(round_group, append=-1) != 0] += 1  # the last one stays
        round_kinds = np.array([kinds.index(each) for each in rounds])
        return cls(
            Units(lengths[by_block], block[by_block]),
            Units(round_kinds, _number(round_group)),
            *([np.array(each, codes.dtype) for each in kinds], group, groups, order),
        )

    @property
    def count(self):
        """The number of distinct labellings, inf when past a float's range."""
        return self.lengths.count * self.rounds.count

    def renamings(self):
        """One: the first class of each group stays what it is."""
        return 1

    def draw(self, n_permutations, rng):
        """Labels (P + 1, n) of rearrangements at random, the observed ones first."""
        drawn = (x.draw(n_permutations, rng) for x in (self.lengths, self.rounds))
        return self._labels(*drawn)

    def all(self):
        """Labels (W, n) of every rearrangement once, the observed ones first."""
        lengths, rounds = self.lengths.all(), self.rounds.all()
        of_each = lengths.repeat(len(rounds), axis=0)
        return self._labels(of_each, np.tile(rounds, (len(lengths), 1)))

    def _labels(self, lengths, rounds):
        """Labels (m, n) of the trials, of lengths (m, u) and rounds (m, v)."""
        labels = np.empty((len(lengths), len(self.order)), self.kinds[0].dtype)
        for part in batches(*labels.shape):
            code = [[self.kinds[kind] for kind in row] for row in rounds[part]]
            code = np.array([np.concatenate(each) for each in code])
            block = self.group * (int(code.max()) + 1) + code
            by_block = np.argsort(block, axis=1, kind="stable")
            in_time = np.empty_like(lengths[part])
            np.put_along_axis(in_time, by_block, lengths[part], axis=1)
            in_order = np.repeat(code, in_time.ravel()).reshape(len(code), -1)
            labels[part, self.order] = in_order
        return labels


@dataclass(frozen=True, eq=False)
class Trending(Units):
    r"""Trials whose labels change places in their group, by the odds of a trend.

    A permutation has the probability that a logistic regression on the place in the
    group and in the recording, and on the squares of both, gives its labels, among all
    that leave the numbers of each group as they are. They are drawn by the pairwise
    sampler of Berrett et al. [1]_: trials in random pairs exchange labels :math:`y_i,
    y_j` with the probability :math:`o / (1 + o)`, where

    .. math:: o = \frac{q_i(y_j) q_j(y_i)}{q_i(y_i) q_j(y_j)},

    in `_STEPS` steps. These are run backwards first, to one labelling from which all
    others start: then those drawn and the observed one are exchangeable, however many
    steps there are, if :math:`q` is true. As :math:`q` is fitted to the same labels,
    the test is approximate.

    References
    ----------
    .. [1] Berrett, T. B., Wang, Y., Barber, R. F., & Samworth, R. J. (2020). The
       conditional permutation test for independence while controlling for confounders.
       Journal of the Royal Statistical Society: Series B, 82(1), 175-197.
    """

    #: The logarithm of q, (n, c).
    log_q: np.ndarray = None
    #: The pairs of every step, and the labelling where all start, once they are drawn.
    start: list = field(default_factory=list)
    uniform: ClassVar[bool] = False

    @classmethod
    def of(cls, codes, groups, order, time):
        """Those of codes (n,) in groups (n,), in the order of groups and time."""
        names, n = np.unique(groups, return_counts=True)
        places = np.empty((4, len(codes)))
        places[0, order] = np.concatenate([np.linspace(-1, 1, each) for each in n])
        places[1, np.argsort(time)] = np.linspace(-1, 1, len(codes))
        places[2:] = places[:2] ** 2
        columns = np.column_stack([groups[:, np.newaxis] == names, places.T])
        return cls(codes, groups, ..., _fit_logistic(columns, codes))

    def draw(self, n_permutations, rng):
        """Labels (P + 1, n) of rearrangements at random, the observed ones first."""
        if not self.start:
            steps = [self._draw_pairs(rng) for _ in range(_STEPS)]
            hub = self.codes[:, np.newaxis].copy()
            for pairs in steps[::-1]:
                self._exchange(hub, pairs, rng)
            self.start.extend((steps, hub))
        steps, hub = self.start
        labels = np.empty((n_permutations + 1, len(self.codes)), self.codes.dtype)
        labels[0] = self.codes
        # A stream of random numbers for each step, so that batches change nothing.
        streams = [*map(generator, rng.integers(2**63, size=len(steps)).tolist())]
        for rows in batches(n_permutations, len(self.codes)):
            drawn = np.repeat(hub, rows.stop - rows.start, axis=1)  # (n, m), fast
            for pairs, stream in zip(steps, streams, strict=True):
                self._exchange(drawn, pairs, stream)
            labels[1:][rows] = drawn.T
        return labels

    def _draw_pairs(self, rng):
        """Two arrays of trials: random pairs, each in one group."""
        order = np.lexsort((rng.random(len(self.codes)), self.blocks))
        first, second = order[:-1], order[1:]
        together = self.blocks[first] == self.blocks[second]
        # Every other one of a group: an odd one is left.
        starts = np.flatnonzero(np.diff(self.blocks[order], prepend=-1))
        rank = np.arange(len(order)) - np.repeat(starts, np.bincount(self.blocks))
        together &= rank[:-1] % 2 == 0
        return first[together], second[together]

    def _exchange(self, labels, pairs, rng):
        """Let labels (n, m) change places in pairs, as the odds have it."""
        i, j = pairs
        a, b = labels[i], labels[j]
        gain = self.log_q[i] - self.log_q[j]
        chance = expit(gain[:, np.newaxis] - gain[:, :, np.newaxis])  # (pairs, a, b)
        random = rng.random(a.T.shape, np.float32).T
        swap = random < chance[np.arange(len(i))[:, np.newaxis], a, b]
        labels[i], labels[j] = np.where(swap, b, a), np.where(swap, a, b)


def _fit_logistic(columns, codes):
    """Log-probabilities (n, c) of classes by columns (n, k), with a slight ridge."""
    # By Newton's method, to the last digits: what it says does not depend on a version.
    targets = np.eye(int(codes.max()) + 1)[codes]
    (n, k), c = columns.shape, targets.shape[1]
    weights = np.zeros((k, c))
    products = (columns[:, :, np.newaxis] * columns[:, np.newaxis]).reshape(n, -1)
    for _ in range(_NEWTON):
        q = softmax(columns @ weights, axis=1)
        gradient = columns.T @ (targets - q) - _RIDGE * weights
        spread = q[:, :, np.newaxis] * (np.eye(c) - q[:, np.newaxis])
        curved = (products.T @ spread.reshape(n, -1)).reshape(k, k, c, c)
        curved = curved.swapaxes(1, 2).reshape(k * c, -1) + _RIDGE * np.eye(k * c)
        weights += np.linalg.solve(curved, gradient.ravel()).reshape(k, c)
    return log_softmax(columns @ weights, axis=1)


def _in_time(scheme, codes, folds, groups, time):
    """The units of a scheme that takes labels in the order of time."""
    group = np.zeros(len(codes), np.intp) if groups is None else _number(groups)
    time = np.arange(len(codes)) if time is None else time
    about = codes, group, np.lexsort((time, group)), time
    if np.bincount(Stretches.of(*about).lengths.blocks).max() == 1:
        raise ValueError(_TEXTS["no order"].format(scheme=scheme))
    if folds is not None and folds.balanced:
        raise ValueError(_TEXTS["averages"].format(scheme=scheme))
    return SCHEMES[scheme].units(*about)


@dataclass(frozen=True)
class Scheme:
    """Which labels may change places."""

    #: The units that do, of codes, folds and groups; if it takes trials in time, of
    #: codes, groups, the order of trials by groups and time, and time.
    units: Callable
    #: Among which {trials} they are permuted, or how.
    words: str
    #: Why only one arrangement is possible, where it is.
    only_one: str = "the trials given all have the same label"
    #: What to do for more arrangements.
    more: str = "Use larger folds or more groups"
    needs_groups: bool = False
    in_time: bool = False
    #: Whether labels are as likely as the observed ones only by an estimate.
    approximate: bool = False
    #: What a text cites.
    source: str = ""


#: The schemes by name.
SCHEMES = {
    "within_folds": Scheme(
        _within_folds,
        "among {trials} of the same training and test sets{and_group}",
        "the trials that share a fold of {name} (and a group, if given) all have the "
        "same label",
    ),
    "within_groups": Scheme(
        lambda codes, folds, groups: Units(codes, _number(groups)),
        "among {trials} of the same group",
        "the trials of a group all have the same label",
        needs_groups=True,
    ),
    "groups": Scheme(_groups, "across whole groups", needs_groups=True),
    "free": Scheme(
        lambda codes, folds, groups: Units(codes, np.zeros(len(codes), np.intp)),
        "among all {trials}",
    ),
    "transitions": Scheme(
        Stretches.of,
        "by exchanging the lengths of stretches of equal labels, among those of the "
        "same class{and_group}, and rounds of stretches between those of one class, "
        "which keeps the number of transitions of each kind",
        "in each group, stretches of a class are equally long, and rounds of classes "
        "alike",
        "Stretches have to be many, and of different lengths: decode more trials, or "
        "use another scheme",
        in_time=True,
        source="Diaconis1980",
    ),
    "trend": Scheme(
        Trending.of,
        "among {trials}{of_group}, with probabilities from a logistic regression of "
        "the labels on the position of trials and its square (an approximate test)",
        more="Decode more trials",
        in_time=True,
        approximate=True,
        source="Berrett2020",
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
