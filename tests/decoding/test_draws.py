"""Trials averaged in groupings, folds drawn many times: against a plain loop.

The loop groups trials by the same seeds, averages their kernel values (of a linear
kernel: averages features), and trains the oracle of `reference` anew in every fold of
every repeat of every permutation.
"""

import pickle
from dataclasses import dataclass
from functools import cache, partial
from itertools import combinations

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.stats import kstest
from sklearn.linear_model import LinearRegression
from sklearn.metrics import roc_auc_score
from sklearn.metrics.pairwise import linear_kernel, rbf_kernel
from sklearn.model_selection import (
    GroupKFold,
    KFold,
    LeaveOneGroupOut,
    LeaveOneOut,
    PredefinedSplit,
    RepeatedKFold,
    ShuffleSplit,
    StratifiedKFold,
)
from sklearn.preprocessing import StandardScaler

from mvpa_kfda import (
    RBF,
    Linear,
    Polynomial,
    Ridge,
    Tuned,
    compare,
    cross_validate,
    decode_arrays,
    generalize_arrays,
    group_inference,
    load_result,
)
from mvpa_kfda.decoding import draws
from mvpa_kfda.decoding import run as loop
from mvpa_kfda.decoding.draws import (
    average_trials,
    count_cells,
    find_left_out,
)
from mvpa_kfda.decoding.run import AveragedKernel, Draw
from mvpa_kfda.inference.permutation import permute_labels
from mvpa_kfda.kfda import direct
from mvpa_kfda.kfda.folds import make_folds
from mvpa_kfda.kfda.hat import make_hat
from mvpa_kfda.kfda.kernels import Callable
from mvpa_kfda.metrics.pairs import TABLES
from tests import build, reference
from tests.entries import ENTRIES

# ----------------------------------------------------------------------------- averages


def problem(c=3, p=5, seed=0):
    """Return features, unbalanced codes and groups of trials in mixed order."""
    rng = np.random.default_rng(seed)
    codes = rng.permutation(np.repeat(np.arange(c), np.linspace(15, 40, c).astype(int)))
    codes = codes[:70]
    X = rng.standard_normal((len(codes), p)) + rng.standard_normal((c, p))[codes]
    return X, codes, np.array(["b", "a", "c"])[rng.integers(3, size=len(codes))]


@pytest.mark.parametrize(
    ("k", "grouped"), [(1, True), (2, False), (2, True), (3, True), (5, False)]
)
def test_averages_never_mix_test_sets_classes_or_groups(k, grouped):
    _, codes, groups = problem(c=2)
    groups = groups if grouped else None
    pairs = make_folds(KFold(3, shuffle=True, random_state=0), codes).pairs[::-1]
    folds = make_folds(pairs, codes)
    made = average_trials(k, folds, codes, groups, seed=1)
    assert made.members.shape == (len(made.codes), k)
    rows = made.members.ravel()
    assert len(np.unique(rows)) == len(rows)  # no trial is in two averages
    assert (np.diff(made.members[:, 0]) > 0).all()
    assert (np.diff(made.members, axis=1) > 0).all()
    assert made.folds.is_partition
    assert made.folds.n == len(made.codes) == sum(map(len, made.folds.tests))
    fold_of = np.full(folds.n, -1)
    for number, test in enumerate(folds.tests):
        fold_of[test] = number
    for number, test in enumerate(made.folds.tests):
        assert_array_equal(fold_of[made.members[test]], number)
    assert_array_equal(codes[made.members], np.repeat(made.codes[:, None], k, axis=1))
    if grouped:
        assert (groups[made.members] == made.groups[:, None]).all()
    else:
        assert made.groups is None
    # As many as there can be of every kind.
    kinds = list(zip(fold_of, groups if grouped else codes, codes, strict=True))
    assert len(made.codes) == sum(kinds.count(kind) // k for kind in set(kinds))
    # Data of any shape are averaged.
    data = np.random.default_rng(0).integers(100, size=(2, len(codes), 4)).astype("i1")
    expected = np.stack([data[:, m].mean(axis=1) for m in made.members], axis=1)
    assert_allclose(made.apply(data, 1), expected, rtol=1e-14, atol=0)


@pytest.mark.parametrize(
    "cv",
    [PredefinedSplit(np.arange(70) % 3 - 1), [(np.arange(20, 70), np.arange(20))]],
    ids=["predefined", "listed"],
)
def test_trials_that_are_never_tested_are_averaged_too(cv):
    X, codes, _ = problem()
    X += 2 * np.random.default_rng(9).standard_normal(X.shape)  # so that some are wrong
    folds = make_folds(cv, codes)
    made = average_trials(2, folds, codes, seed=3)
    tested = np.isin(made.members, np.concatenate(folds.tests))
    assert (tested[:, 0] == tested[:, 1]).all()
    assert 0 < tested[:, 0].sum() < len(tested)
    result = cross_validate(X, codes, cv=cv, average=2, reg=Ridge(2.0), random_state=3)
    Z = X[made.members].mean(axis=1)
    tests = [np.flatnonzero(np.isin(made.members[:, 0], t)) for t in folds.tests]
    pairs = [(np.setdiff1d(np.arange(len(Z)), test), test) for test in tests]
    expected = reference.reference_cross_validate(Z @ Z.T, made.codes, pairs, 2.0)
    right = expected.predictions[0] == made.codes[expected.rows]
    assert result.scores == pytest.approx(right.mean(), abs=1e-12)


def test_grouping_is_random_and_repeatable():
    codes = np.repeat([0, 1], 8)
    folds = make_folds(KFold(2, shuffle=True, random_state=0), codes)
    one, again, other = (average_trials(2, folds, codes, seed=s) for s in (5, 5, 6))
    assert_array_equal(one.members, again.members)
    assert (one.members != other.members).any()
    # Every pair of trials of a kind is as likely to be averaged as any other.
    zeros, n_seeds = folds.tests[0][codes[folds.tests[0]] == 0], 600
    together = dict.fromkeys(combinations(zeros.tolist(), 2), 0)
    assert len(together) >= 3
    for seed in range(n_seeds):
        for pair in average_trials(2, folds, codes, seed=seed).members.tolist():
            if tuple(pair) in together:
                together[tuple(pair)] += 1
    expected = n_seeds * (len(zeros) // 2) / len(together)
    assert_allclose(list(together.values()), expected, rtol=0, atol=5 * expected**0.5)


def test_labels_are_exchanged_among_averages_where_they_shaped_these():
    _, codes, _ = problem(c=2)
    folds = make_folds(KFold(3, shuffle=True, random_state=0), codes)
    assert folds.sees_labels is False
    made = average_trials(3, folds, codes, seed=0)
    assert made.folds.balanced
    drawn = permute_labels(made.codes, 20, folds=made.folds, random_state=0)
    assert drawn.scheme == "within_folds"
    assert not average_trials(1, folds, codes).folds.balanced
    # Who is left out, and what is put together, depends on labels, unless these are
    # constant within groups.
    assert average_trials(1, folds, codes, equalize=True).folds.balanced
    groups = np.repeat(np.arange(12), 5)
    codes, folds = groups % 2, make_folds(KFold(3), groups % 2)
    assert average_trials(2, folds, codes).folds.balanced
    made = average_trials(2, folds, codes, groups, seed=0)
    assert not made.folds.balanced
    assert average_trials(2, folds, codes, groups // 2, seed=0).folds.balanced
    drawn = permute_labels(made.codes, 20, folds=made.folds, groups=made.groups)
    assert drawn.scheme == "groups"


@pytest.mark.parametrize("k", [1, 2])
def test_classes_are_made_equal_in_every_test_set_and_group(k):
    codes, groups = np.repeat([0, 1, 0, 1], [9, 4, 5, 6]), np.repeat([0, 1], [13, 11])
    folds = make_folds(LeaveOneGroupOut(), codes, groups)
    made = average_trials(k, folds, codes, groups, equalize=True)
    for group, smallest in ((0, 4), (1, 5)):
        assert_array_equal(np.bincount(made.codes[made.groups == group]), smallest // k)
    # A class of no trials at all is not missed.
    codes = np.tile([0, 2], 12)
    made = average_trials(2, make_folds(KFold(3), codes), codes)
    assert_array_equal(np.bincount(made.codes), [6, 0, 6])


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:All averages of class")
def test_p_values_are_uniform_on_noise():
    p, differences = [], []
    for seed in range(400):
        rng = np.random.default_rng(seed)
        X, codes = rng.normal(size=(60, 4)), rng.permutation(np.repeat([0, 1], 30))
        made = average_trials(4, make_folds(KFold(4), codes), codes, seed=seed)
        drawn = permute_labels(made.codes, 99, folds=made.folds, random_state=seed)
        plan = direct.prepare(make_hat(made.apply(X), Linear(), 0.3), made.folds)
        scored = direct.apply(plan, drawn.labels, 2)
        accuracy = (scored.predicted == scored.true).mean(axis=0)
        above, tied = accuracy > accuracy[0], accuracy == accuracy[0]
        p.append((above.sum() + rng.random() * tied.sum()) / len(accuracy))
        differences.append(accuracy[0] - accuracy[1:].mean())
    assert kstest(p, "uniform").pvalue > 1e-3
    standard_error = np.std(differences) / len(differences) ** 0.5
    assert abs(np.mean(differences)) < 3.5 * standard_error


MEMBERS = np.array([[0, 3], [1, 2], [4, 7]])
PAIRS = Draw((MEMBERS,))


class Pairs(Linear):
    """A linear kernel that tells what it was asked for."""

    def take(self, columns):
        return Polynomial(2, coef0=len(columns))

    def repeated(self, times):
        return Polynomial(times)


@pytest.mark.parametrize(
    "kernel",
    [Linear(), RBF("median"), RBF(None), Polynomial(2), Callable(rbf_kernel)],
    ids=build.words,
)
def test_the_kernel_averages_the_kernel_of_single_trials(kernel):
    X, Y = np.random.default_rng(0).standard_normal((2, 9, 4))
    S = np.zeros((3, 9))
    S[np.arange(3)[:, None], MEMBERS] = 0.5
    averaged = AveragedKernel(kernel, PAIRS)
    fitted, single = averaged.fit(X), kernel.fit(X)  # the width is single trials'
    close = {"rtol": 1e-13, "atol": 1e-13}
    assert_allclose(fitted(X), S @ single(X) @ S.T, **close)
    assert_allclose(fitted(X, Y), S @ single(X, Y) @ S.T, **close)
    assert_array_equal(pickle.loads(pickle.dumps(fitted))(X), fitted(X))
    for name in ("shift_free", "assumes_unit_scale", "is_linear", "low_rank"):
        assert getattr(averaged, name) == getattr(kernel, name)
    assert repr(averaged) == f"AveragedKernel({kernel!r}, 2 trials each)"
    if kernel == Linear():
        assert_allclose(averaged.features(X), S @ X, **close)
    columns = AveragedKernel(Pairs(), PAIRS)
    assert columns.take([0, 1]).kernel == Polynomial(2, coef0=2)
    assert columns.repeated(4).kernel == Polynomial(4)
    assert columns.take([0, 1]).draw is columns.repeated(4).draw is PAIRS


def cells_of(k, codes, cv, groups=None, **options):
    codes = np.asarray(codes)
    folds = make_folds(cv, codes, groups)
    classes = ["cat", "dog", "house"]
    return count_cells(k, folds, codes, groups, classes, **options)


ROWS, TWO = np.arange(60), np.tile([0, 1], 30)
LAST = [(ROWS[12:16], ROWS[:12]), (ROWS[:12], ROWS[12:16])]
RARE = np.repeat([0, 2, 1], [40, 32, 9])


def from_20(*tests):
    """Return folds that all train on the first 20 trials."""
    return [(ROWS[:20], ROWS[slice(*test)]) for test in tests]


#: Averages of one trial too many, by labels and folds, and what is said.
TOO_MANY = [
    (
        (4, RARE, StratifiedKFold(3)),
        r"average=4 leaves class 'dog' without samples: .* of 4 trials of one class "
        r"and test set, .* no test set holds more than 3 of the 9 trials of this "
        r"class\. Use average=3 or less",
    ),
    (
        (3, TWO[:24], LeaveOneGroupOut(), ROWS[:24] // 4),
        "average=3 leaves class 'cat' without samples: .* no group in a test set",
    ),
    (
        (3, np.repeat([0, 1, 0, 1], [6, 6, 2, 2]), LAST),
        "average=3 leaves fold 1 of the given cv iterable without .* 4 test trials",
    ),
    # Trials that are never tested do not help, nor those of a set around the second.
    ((3, TWO, from_20((20, 24), (24, 40), (40, 60))), "fold 0 .* 4 test .* at most 2 "),
    ((3, TWO, from_20((20, 40), (24, 34), (40, 44))), "fold 2 .* 4 test .* at most 2 "),
    ((3, TWO, from_20((20, 40), (24, 28), (40, 60))), "fold 1 .* 4 test .* at most 2 "),
    (
        (3, TWO, [(ROWS[:10], ROWS[10:20]), (ROWS[26:30], ROWS[10:20])]),
        "fold 1 .* 4 training trials have",
    ),
]


@pytest.mark.parametrize(("given", "message"), TOO_MANY)
def test_averages_of_too_many_trials_are_refused(given, message):
    k, *rest = given
    with pytest.raises(ValueError, match=message):
        cells_of(*given)
    assert cells_of(k - 1, *rest).k == k - 1
    if "at most" in message:  # single trials there are
        assert cells_of(*given, average_test=False).k == k
    if "training" in message:
        with pytest.raises(ValueError, match=message):
            cells_of(*given, average_test=False)


@pytest.mark.parametrize("n_repeats", [1, 2])
def test_no_test_set_is_left_empty_by_equal_classes(n_repeats):
    groups, y = np.repeat(np.arange(4), 8), np.tile([0, 1], 16)
    y[:8] = np.arange(8) == 7  # a single trial of a class
    X = np.random.default_rng(0).standard_normal((32, 3))
    message = (
        r"^average=2 with equalize=True leaves fold 0 of .* without samples: each "
        r"group in a test set has .* none for the 8 test trials of this fold\. "
        r"Use fewer, larger test sets\. Or leave equalize out\.$"
    )
    given = {"groups": groups, "average": 2, "equalize": True, "n_repeats": n_repeats}
    with pytest.raises(ValueError, match=message):
        cross_validate(X, y, **given)
    result = cross_validate(X, y, average_test=False, **given)  # of single trials
    assert 0 <= result.scores <= 1


@pytest.mark.filterwarnings("ignore:Some training set")
@pytest.mark.parametrize(
    ("few", "place"),
    [
        ([0, 1], "in the trials that the given cv iterable never tests, with 2"),
        ([20, 21], "in test set 0 of the given cv iterable, with 2 of"),
        ([34, 35], "in what test sets 0, 1 of the given cv iterable share"),
    ],
)
def test_who_is_left_out_is_said_by_the_sets_that_share_the_trials(few, place):
    folds, codes = make_folds(from_20((20, 40), (34, 60)), TWO), (ROWS >= 50) * 1
    codes[few] = 1
    cells = count_cells(3, folds, codes)
    problem = find_left_out(cells, folds, None, ["cat", "dog"])
    assert place in problem.text
    assert problem.text.endswith("Use average=2 or less, or average='max'.")


def test_averages_of_a_class_in_one_test_set_only_are_warned_of(recwarn):
    codes = np.array([0, 0, 0, 0, 1, 1, 0, 0, 0, 0, 1, 0])
    halves = [(range(6, 12), range(6)), (range(6), range(6, 12))]
    with pytest.warns(
        UserWarning, match=r"Some training set of .* no average of class 'dog'"
    ):
        cells_of(2, codes, halves)
    # Not of a class that is in one test set anyway, or in trials that none tests.
    recwarn.clear()
    cells_of(2, np.repeat([0, 1, 0], [3, 3, 6]), halves)
    codes = np.where(ROWS < 20, TWO, np.isin(ROWS, [20, 40]))  # too few to be averaged
    cells_of(2, codes * 1, from_20((20, 40), (40, 60)))
    assert not len(recwarn)


# ----------------------------------------------------------------------- the plain loop


R, PERMUTATIONS, SEED = 2, 2, 4
#: Unequal classes: in a fold of three, 9 or 10, 5 and 4 trials.
COUNTS = (28, 15, 12)
DATA, CODES = build.trials(COUNTS, 5, 3, seed=2)
N, C = len(CODES), len(COUNTS)
NAMES = build.NAMES[CODES]
#: Test sets, the last one of four trials, of which no three can be averaged.
FEW = np.where(np.arange(N) < 4, 2, np.arange(N) % 2)
SCORING = ["accuracy", "roc_auc", "f1", "pairwise_accuracy", "crossnobis"]
SCORING += ["confusion_matrix", *TABLES.values()]


def of_trials(name):
    """Tell whether an entry classifies trials that are cross-validated."""
    return ENTRIES[name].predicts == "classes" and not ENTRIES[name].tests_others


def two_ways(ways):
    """Parametrise by entries, each with one of the ways, by turns."""
    names = filter(of_trials, ENTRIES)
    pairs = [(n, ways[i % len(ways)]) for i, n in enumerate(names)]
    return pytest.mark.parametrize(("name", "how"), pairs)


#: Kernels, by hand.
BY_HAND = {"linear": linear_kernel, RBF(0.05): partial(rbf_kernel, gamma=0.05)}


@dataclass(frozen=True)
class Procedure:
    """What is done with the trials, as one would write it down in a paper."""

    cv: object = StratifiedKFold(3)
    groups: np.ndarray | None = None
    k: int | None = None
    equalize: bool = False
    average_test: bool = True
    kernels: tuple = ("linear",)
    regs: tuple = (0.3,)
    zscored: bool = False
    noise_scaled: bool = False
    confounds: np.ndarray | None = None
    rank: int | None = None

    @property
    def learns(self):
        return self.zscored or self.noise_scaled or self.confounds is not None

    @property
    def options(self):
        """The options of the package for it."""
        # Of averages the folds are given once and for all.
        folds = None if self.k is None else split(self.cv, CODES, self.groups)
        return {
            "cv": folds or self.cv,
            "groups": self.groups,
            "average": self.k,
            "equalize": self.equalize,
            "average_test": self.average_test,
            "kernel": self.kernels[0] if len(self.kernels) == 1 else self.kernels,
            "reg": self.regs[0] if len(self.regs) == 1 else Tuned(self.regs),
            "preprocess": ["zscore"] * self.zscored
            + ["noise_scale"] * self.noise_scaled,
            "confounds": self.confounds,
            "n_components": self.rank,
        }


def shuffled(procedure, j):
    """Return the splitter of a repeat."""
    seeds = np.random.SeedSequence(SEED, spawn_key=(3,)).generate_state(R)
    options = {"shuffle": True} if hasattr(procedure.cv, "shuffle") else {}
    options["random_state"] = int(seeds[j])
    if isinstance(procedure.cv, ShuffleSplit):
        return ShuffleSplit(procedure.cv.n_splits, test_size=0.3, **options)
    return type(procedure.cv)(procedure.cv.n_splits, **options)


def split(cv, labels, groups):
    return list(cv.split(np.zeros(N), labels, groups))


def drawn(procedure, labels, folds, b, j):
    """Return averages by hand, [(trials, class, number of the test set)]."""
    key = np.random.SeedSequence(SEED, spawn_key=(2, b, j))
    draws = np.random.default_rng(key).random(N)
    group = np.zeros(N) if procedure.groups is None else procedure.groups
    averages = []
    for number, (_, test) in enumerate(folds):
        for g in np.unique(group[test]):
            of_class = [
                test[(group[test] == g) & (labels[test] == c)] for c in range(C)
            ]
            m = [len(trials) // procedure.k for trials in of_class]
            if procedure.equalize:
                m = [min(m)] * C
            for c, trials in enumerate(of_class):
                trials = trials[np.argsort(draws[trials])]
                for i in range(m[c]):
                    some = trials[i * procedure.k : (i + 1) * procedure.k]
                    averages.append((some, c, number))
    return averages


@dataclass(frozen=True)
class Side:
    """Samples to be trained with, or to be tested."""

    #: The trials in each.
    members: list
    codes: np.ndarray
    #: The number of the test set of each.
    fold: np.ndarray

    @classmethod
    def of(cls, averages):
        members, codes, numbers = zip(*averages, strict=True)
        return cls(members, np.array(codes), np.array(numbers))

    @property
    def S(self):
        S = np.zeros((len(self.members), N))
        for row, trials in zip(S, self.members, strict=True):
            row[trials] = 1 / len(trials)
        return S


def sides(procedure, labels, folds, b, j, tested_as=None):
    """Return the samples that are trained with and those that are tested."""
    single = np.empty(N, int)
    for number, (_, test) in enumerate(folds):
        single[test] = number
    trials = Side([[i] for i in range(N)], labels[b], single)
    if procedure.k is None:
        return trials, trials
    trained = Side.of(drawn(procedure, labels[b], folds, b, j))
    if tested_as is None:
        return trained, trained if procedure.average_test else trials
    if procedure.average_test:
        averages = drawn(procedure, labels[tested_as], folds, tested_as, j)
        return trained, Side.of(averages)
    return trained, Side(trials.members, labels[tested_as], single)


def scale_of(K):
    return np.trace(K - K.mean(axis=0)) / len(K)


def learned(procedure, cell, trained, tested, train):
    """Return features of training and test samples, by what the fold has learned."""
    A, B = trained.S @ cell.X, tested.S @ cell.X_test
    if procedure.confounds is not None:
        C_A, C_B = trained.S @ procedure.confounds, tested.S @ procedure.confounds
        model = LinearRegression().fit(C_A[train], A[train])
        A, B = A - model.predict(C_A), B - model.predict(C_B)
    if procedure.zscored:
        model = StandardScaler().fit(A[train])
        A, B = model.transform(A), model.transform(B)
    if procedure.noise_scaled:
        model = reference.NoiseScaling().fit(A[train], trained.codes[train])
        A, B = model.transform(A), model.transform(B)
    return A, B


def kernels_of(procedure, cell, trained, tested, train):
    """Return kernel matrices (m, m) and (m_test, m) for every kernel to choose from."""
    kernels = [BY_HAND[each] for each in procedure.kernels]
    if procedure.learns:
        A, B = learned(procedure, cell, trained, tested, train)
        return [(k(A, A), k(B, A)) for k in kernels]
    X, Z, S, S_test = cell.X, cell.X_test, trained.S, tested.S
    return [(S @ k(X, X) @ S.T, S_test @ k(Z, X) @ S.T) for k in kernels]


def predict_fold(procedure, cell, trained, tested, train, test):
    """Train in a fold; return predictions and class scores of its test samples."""
    pairs = kernels_of(procedure, cell, trained, tested, train)
    grams, crosses = zip(*pairs, strict=True)
    two_sided = procedure.k is not None and not procedure.average_test
    own = procedure.learns or two_sided
    used = [K[np.ix_(train, train)] if own else K for K in grams]
    lambdas = [[reg * scale_of(K) for reg in procedure.regs] for K in used]
    i, lam = 0, lambdas[0][0]
    if len(procedure.regs) > 1:
        splits = list(LeaveOneOut().split(train))
        y = trained.codes
        i, lam = reference.choose(grams, lambdas, y, train, splits, C)[:2]
    model = reference.fit(grams[i][np.ix_(train, train)], trained.codes[train], lam, C)
    rows = crosses[i][np.ix_(test, train)]
    if procedure.rank is not None:
        found, scores = reference.reduced(model, rows, procedure.rank)
        return found, len(train) * scores
    return model.predict(rows), len(train) * model.class_scores(rows)


def once(procedure, cell, trained, tested, folds):
    """Cross-validate; return predictions by sample, scores, and class scores."""
    predicted, areas, sets = [], [], []
    true = []
    for number, (train, test) in enumerate(folds):
        if procedure.k is not None:
            train = np.flatnonzero(trained.fold != number)
            test = np.flatnonzero(tested.fold == number)
        found, scores = predict_fold(procedure, cell, trained, tested, train, test)
        predicted += found.tolist()
        true += tested.codes[test].tolist()
        areas.append(reference.area(tested.codes[test], scores))
        sets.append((tested.codes[test], scores / len(train), len(train)))
    table = np.zeros((C, C))
    np.add.at(table, (true, predicted), 1)
    return {
        "accuracy": np.mean(np.equal(predicted, true)),
        "roc_auc": np.mean(areas),
        "f1": np.mean(2 * np.diag(table) / (table.sum(axis=0) + table.sum(axis=1))),
        "confusion_matrix": table,
        **reference.pairs_of_scores(sets, C),
    }


def repeated(procedure, cell, labels, b=0, stay=False, r=R):
    """Return the scores of every repeat of label vector b, by name.

    Where tested labels stay, the models are tested on what was observed.
    """
    found = []
    for j in range(r):
        tested_as = 0 if stay else None
        if procedure.k is None:
            folds = split(shuffled(procedure, j), labels[b], procedure.groups)
            trained, tested = sides(procedure, labels, folds, b, j)
            if stay:
                tested = Side(tested.members, labels[0], tested.fold)
        else:
            folds = split(procedure.cv, labels[0], procedure.groups)
            trained, tested = sides(procedure, labels, folds, b, j, tested_as)
        found.append(once(procedure, cell, trained, tested, folds))
    return {name: np.stack([each[name] for each in found]) for name in found[0]}


def labels_of(procedure):
    """Return the label vectors of trials, (P + 1, n)."""
    options = {"groups": procedure.groups, "seed": SEED}
    if procedure.k is not None:
        cv, permute = procedure.options["cv"], "within_folds"
    else:
        # Folds are drawn anew: nothing but the groups is in the way of a label.
        cv, permute = None, "auto"
    return build.permuted(CODES, PERMUTATIONS, cv, permute=permute, **options)


def assert_equals_loop(result, procedure, cells, rtol=1e-7):
    """Assert observed and permuted scores at a middle and the last cell."""
    labels, cells = labels_of(procedure), list(cells.items())
    assert len(cells) == np.size(result.scores)
    close, kinds = {"rtol": rtol, "atol": 1e-9}, {TABLES[k]: k for k in TABLES}
    for index, cell in (cells[i] for i in sorted({len(cells) // 3, len(cells) - 1})):
        ours = repeated(procedure, cell, labels)
        for name in result.scoring:
            observed = np.asarray(result.metrics[name])[index]
            if name == "confusion_matrix":
                assert_array_equal(observed, ours[name].sum(axis=0))
            elif name in kinds:
                observed = result.rdm(kinds[name])[index]
                assert_allclose(observed, ours[name].mean(axis=0), **close)
            else:
                assert_allclose(result.repeats[name][index], ours[name], **close)
                assert_allclose(observed, ours[name].mean(), **close)
        nulls = [(result.nulls, False)]
        if getattr(result, "second_nulls", {}):
            nulls.append((result.second_nulls, True))
        for null, stay in nulls:
            for b in range(1, PERMUTATIONS + 1):
                ours = repeated(procedure, cell, labels, b, stay)
                for name, values in null.items():
                    assert_allclose(values[(b - 1, *index)], ours[name].mean(), **close)


def run(name, procedure, **options):
    """Run an entry on the trials."""
    asked = {"n_repeats": R, "n_permutations": PERMUTATIONS, "random_state": SEED}
    asked |= {"scoring": SCORING, **procedure.options}
    return ENTRIES[name](DATA, NAMES, **asked | options)


RUNS = np.arange(N) % 3
CONFOUND = np.random.default_rng(5).standard_normal((N, 1))
REGS = (3.0, 0.3, 0.03)
WIDE = (RBF(0.05),)
IN_RUNS = {"groups": RUNS, "cv": LeaveOneGroupOut()}
SINGLE = {"k": 2, "average_test": False}
HOW = {
    "averages": Procedure(k=2),
    "equal": Procedure(k=2, equalize=True),
    "undersampled": Procedure(k=1, equalize=True),
    "single": Procedure(**SINGLE),
    "equal, single": Procedure(**SINGLE, equalize=True),
    "runs": Procedure(k=2, **IN_RUNS),
    "runs, single": Procedure(**SINGLE, **IN_RUNS),
    "kernel, single": Procedure(**SINGLE, kernels=WIDE),
    "tuned": Procedure(k=2, regs=REGS),
    "tuned, single": Procedure(**SINGLE, regs=REGS),
    "steps": Procedure(k=2, zscored=True),
    "few, single": Procedure(PredefinedSplit(FEW), k=3, average_test=False),
    "steps, single": Procedure(**SINGLE, zscored=True),
    "steps, tuned": Procedure(k=2, zscored=True, regs=REGS),
    "confounds": Procedure(k=2, confounds=CONFOUND),
    "confounds, single": Procedure(**SINGLE, confounds=CONFOUND, zscored=True),
    "reduced": Procedure(k=2, rank=1),
    # Folds are drawn anew.
    "stratified": Procedure(),
    "blind": Procedure(KFold(3)),
    "held out": Procedure(ShuffleSplit(2, test_size=0.3)),
    "groups kept": Procedure(GroupKFold(3), np.arange(N) % 6),
    "kernel again": Procedure(kernels=WIDE),
    "tuned again": Procedure(regs=REGS),
    "steps again": Procedure(zscored=True),
    "by labels": Procedure(k=2, noise_scaled=True),
    "by labels, single": Procedure(**SINGLE, noise_scaled=True),
    "by labels again": Procedure(noise_scaled=True),
    "confounds again": Procedure(KFold(3), confounds=CONFOUND),
    "ten": Procedure(KFold(10)),
}


# --------------------------------------------------------------- against the plain loop


@pytest.mark.parametrize("how", HOW)
def test_the_plain_loop_gives_the_same(how):
    procedure = HOW[how]
    # Without folds given every repeat draws ten.
    options = {"cv": None, "scoring": "accuracy"} if how == "ten" else {}
    result = run("cross_validate", procedure, **options)
    assert_equals_loop(result, procedure, ENTRIES["cross_validate"].cells(DATA))


@pytest.mark.parametrize("average_test", [True, False])
def test_one_model_of_averages_is_that_of_the_plain_loop(average_test):
    """Trained with averages of the chosen trials, whose labels move freely."""
    procedure = Procedure(k=2, average_test=average_test)
    chosen = np.arange(N) % 2 == 0
    others = np.flatnonzero(~chosen)
    parts = [(None, others), (None, np.flatnonzero(chosen))]
    result = run("cross_validate", procedure, cv=None, train_on=chosen)
    assert result.parameters["permute"] == "free"
    labels = np.tile(CODES, (PERMUTATIONS + 1, 1))
    labels[:, chosen] = build.permuted(
        CODES[chosen], PERMUTATIONS, None, permute="free", seed=SEED
    )
    (cell,) = ENTRIES["cross_validate"].cells(DATA).values()
    for b in range(PERMUTATIONS + 1):
        found = []
        for j in range(R):
            averages = drawn(procedure, labels[b], parts, b, j)
            trained = Side.of([each for each in averages if each[2] == 1])
            tested = Side.of([each for each in averages if each[2] == 0])
            if not average_test:
                tested = Side([[i] for i in others], CODES[others], 0 * others)
            found.append(once(procedure, cell, trained, tested, [(None, None)]))
        for name in ("accuracy", "roc_auc", "f1"):
            ours = [each[name] for each in found]
            if b == 0:
                assert_allclose(result.repeats[name], ours, rtol=1e-7, atol=1e-9)
            else:
                at = result.nulls[name][b - 1]
                assert_allclose(at, np.mean(ours), rtol=1e-7, atol=1e-9)


#: What times share and what they do not: averages, folds, test sets, what is learned.
BETWEEN_TIMES = ["averages", "equal, single", "runs, single", "steps, single"]


@pytest.mark.parametrize("how", BETWEEN_TIMES)
def test_the_plain_loop_gives_the_same_between_times(how):
    # For both nulls: tested labels move along, or stay.
    procedure = HOW[how]
    result = run("map", procedure, scoring=["accuracy", "roc_auc"])
    assert result.second_nulls
    assert_equals_loop(result, procedure, ENTRIES["map"].cells(DATA))


@pytest.mark.some(5)
@two_ways(["averages", "equal, single", "steps", "stratified"])
def test_the_plain_loop_gives_the_same_everywhere(name, how):
    procedure = HOW[how]
    result = run(name, procedure)
    assert_equals_loop(result, procedure, ENTRIES[name].cells(DATA))


def test_once_is_enough_to_test_single_trials():
    procedure = HOW["equal, single"]
    labels = labels_of(procedure)
    result = run("cross_validate", procedure, n_repeats=1)
    (cell,) = ENTRIES["cross_validate"].cells(DATA).values()
    for b, score in enumerate([result.scores, *result.null]):
        ours = repeated(procedure, cell, labels, b, r=1)
        assert_allclose(score, ours["accuracy"][0], rtol=1e-12, atol=0)


def test_as_many_as_there_can_be_are_averaged():
    found, asked = (decode("arrays", average=k) for k in ("max", 4))
    assert found.parameters["average"] == 4  # the smallest class has 12 trials
    assert found == asked


# -------------------------------------------------------------------- what results hold


MANY = {
    "averages": {"average": 2},
    "equal": {"average": 2, "equalize": True},
    "single": {"average": 2, "average_test": False},
    "folds": {},
}


#: With a penalty that many tests afford; one that labels choose has its own test.
REPEATED = {"n_repeats": R, "n_permutations": 9, "random_state": SEED, "reg": 0.3}


many = pytest.mark.parametrize("options", MANY.values(), ids=MANY)


#: Stratified once and for all, so that every test set holds every class.
EVEN = list(StratifiedKFold(3).split(DATA, CODES))


def asked(options):
    """Return what is repeated how."""
    cv = EVEN if options.get("average") else StratifiedKFold(3)
    return REPEATED | {"cv": cv} | options


def decode(name="arrays", **options):
    return ENTRIES[name](DATA, NAMES, **asked(options))


@cache
def made(name, how):
    """What an entry gives, computed once."""
    return decode(name, **MANY[how])


@pytest.mark.some(5)
@two_ways([*MANY])
def test_neither_workers_nor_batches_nor_files_change_a_bit(
    name, how, tmp_path, monkeypatch
):
    options, one = MANY[how], made(name, how)
    with monkeypatch.context() as batches:
        build.in_batches(2, batches)
        assert decode(name, **options) == one
    if name == "table":
        assert decode(name, n_jobs=2, **options) == one
    one.save(tmp_path / "result.h5")
    loaded = load_result(tmp_path / "result.h5")
    assert loaded == one
    assert_array_equal(loaded.repeats["accuracy"], one.repeats["accuracy"])
    other = decode(name, **options | {"random_state": SEED + 1})
    assert (other.null != one.null).any()


@many
@pytest.mark.some(2)
def test_interrupted_runs_go_on(options, tmp_path, monkeypatch):
    whole = decode("voxels", **options)
    # Blocks of positions are those of one.
    monkeypatch.setattr("mvpa_kfda.decoding.positions._LONGEST", 2)
    options = options | {"checkpoint": tmp_path / "run.h5"}
    done, run_block = [], loop._run_block

    def stop_later(*arguments):
        done.append(arguments)
        if len(done) == 4:
            raise KeyboardInterrupt("after three blocks")
        return run_block(*arguments)

    monkeypatch.setattr(loop, "_run_block", stop_later)
    with pytest.raises(KeyboardInterrupt, match="after three blocks"):
        decode("voxels", **options)
    assert decode("voxels", **options) == whole


@many
def test_predictions_folds_and_scores_belong_together(options):
    result = decode("cross_validate", scoring=["accuracy", "roc_auc"], **options)
    n, m = len(result.y), len(result.y) // R
    assert len(result.folds) == 3 * R == result.fold_scores.size
    assert result.parameters["n_folds"] == 3
    right = result.predictions == result.classes[result.y]
    for j in range(R):
        mine = slice(j * m, (j + 1) * m)
        assert right[mine].mean() == pytest.approx(result.repeats["accuracy"][j])
    for (train, test), score in zip(result.folds, result.fold_scores, strict=True):
        assert right[test].mean() == pytest.approx(score)
        assert not np.intersect1d(train, test).size
        assert len(np.unique(np.append(train, test) // m)) == 1  # of one repeat
    if result.members is not None:
        y = CODES[result.members]
        assert_array_equal(y, np.repeat(result.y[:, np.newaxis], 2, axis=1))
        assert result.members.shape == (n, 2)
    p = result.probabilities()[:, 1]
    assert result.roc("bee").auc == pytest.approx(roc_auc_score(result.y == 1, p))
    assert_array_equal(np.argmax(result.class_scores, axis=1), result.predicted)


@pytest.mark.parametrize("how", ["averages", "folds"])
def test_probabilities_are_those_of_refitted_models(how):
    result, X, y = made("cross_validate", how), DATA[:, :, 0], CODES
    train, test = result.folds[4]  # in the second repeat
    m = len(result.y) // R
    if how == "averages":
        X, y = X[result.members[m : 2 * m]].mean(axis=1), result.y[:m]
    A, B = X[train - m], X[test - m]
    model = reference.fit(A @ A.T, y[train - m], 0.3 * scale_of(X @ X.T), C)
    p = result.probabilities()[test]
    assert_allclose(p, model.posterior(B @ A.T), rtol=1e-6, atol=1e-9)


def test_every_repeat_has_the_penalty_of_its_averages():
    result = decode("cross_validate", average=2, reg="auto", n_permutations=0)
    m = len(result.y) // R
    assert len(np.unique(result.lambdas)) == R
    for j, lam in enumerate(result.lambdas):
        averages = DATA[result.members[j * m : (j + 1) * m], :, 0].mean(axis=1)
        options = {"cv": result.folds[:3], "reg": Ridge(lam)}
        once = cross_validate(averages, result.y[:m], **options)
        assert result.repeats["accuracy"][j] == once.scores
        K = linear_kernel(averages - averages.mean(axis=0))
        assert_allclose(lam, reference.label_free(K, 5).like_noise, rtol=1e-8)


def test_patterns_are_means_over_repeats():
    options = {"average": 2, "n_permutations": 0}
    result = decode("epochs", **options)
    m = len(result.y) // R
    once = decode("epochs", **options | {"n_repeats": 1, "average_test": False})
    pattern = result.patterns()["ant"]
    assert pattern.nave == np.sum(result.y[:m] == 0)
    assert pattern.data.shape == (5, 3)
    each = []
    for j in range(R):
        averages = DATA[result.members[j * m : (j + 1) * m]].mean(axis=1)
        options = {"cv": result.folds[:3], "reg": 0.3}
        each.append(ENTRIES["epochs"](averages, result.y[:m], **options))
    maps = [one.pattern_maps["class"] for one in each]
    assert_allclose(result.pattern_maps["class"], np.mean(maps, axis=0), rtol=1e-9)
    with pytest.raises(ValueError, match="Each repeat has its own averages"):
        result.patterns("discriminant")
    assert len(once.patterns("discriminant")) == C - 1
    # Folds drawn anew: the model of all trials is the same in every repeat.
    assert len(decode("epochs", n_permutations=0).patterns("discriminant")) == C - 1


def test_the_diagonal_has_repeats():
    for how in ("single", "folds"):
        whole, diagonal = made("arrays", how), made("map", how).diagonal()
        assert_array_equal(diagonal.scores, whole.scores)
        # In single precision.
        assert_allclose(diagonal.null, whole.null, rtol=0, atol=1e-7)
        assert_array_equal(diagonal.repeats["accuracy"], whole.repeats["accuracy"])
        assert (diagonal.members is None) == (whole.members is None)
        assert repr(diagonal) == repr(whole)


WORDS = {
    "averages": "25 averages of 2 trials (50), 3 classes, 3 folds, 2 repeats, 9 perm",
    "equal": "18 averages of 2 trials (36), 3 classes, 3 folds, 2 repeats, 9 perm",
    "single": "55 trials (trained on averages of 2), 3 classes, 3 folds, 2 repeats",
    "folds": "55 trials, 3 classes, 3 folds, 2 repeats, 9 permutations",
}


@pytest.mark.parametrize("how", MANY)
def test_words_count_trials_of_one_repeat(how):
    result = made("arrays", how)
    assert WORDS[how] in repr(result)
    facts = result._repr_html_()
    assert WORDS[how].partition(",")[0] in facts
    assert "3 folds, 2 repeats" in facts


def test_one_repeat_is_none():
    once = decode("arrays", average=1, n_repeats=1)
    assert once.repeats == {}
    assert once.parameters["n_repeats"] == 1
    assert "| 55 trials, 3 classes, 3 folds, 9 perm" in repr(once)


def test_results_of_repeats_are_compared_and_make_a_group():
    options = {"average": 2, "n_permutations": 39}
    one, other = (decode("arrays", reg=reg, **options) for reg in (0.3, 30.0))
    comparison = compare(one, other)
    assert_allclose(comparison.scores, one.scores - other.scores, rtol=0, atol=1e-12)
    null = one.null - other.null
    p = (1 + (np.abs(null) >= np.abs(comparison.scores) - 1e-9).sum(axis=0)) / 40
    # Two-sided p-values are twice those of one side at most.
    assert (comparison.pvalues("none") <= 2 * p + 1e-12).all()
    once = decode("arrays", n_repeats=1, **options)
    with pytest.raises(ValueError, match=r"been repeated 2 and 1 times \(n_repeats\)"):
        compare(one, once)
    subjects = [decode("arrays", average=2, random_state=seed) for seed in range(4)]
    group = group_inference(subjects, random_state=0)
    assert_allclose(group.scores, np.mean([s.scores for s in subjects], axis=0))
    with pytest.warns(RuntimeWarning, match=r"n_repeats \(1 instead of 2\)"):
        group_inference([*subjects, once], random_state=0)


# ---------------------------------------------------------------------------- bad input


#: Groups of one class.
ONE_EACH = {"groups": CODES * 10 + np.arange(N) % 2, "cv": GroupKFold(2)}
LISTED = [(np.arange(30), np.arange(30, N))]
EVERY = " needs every class in every group in a test set, and one of .* has no trial"
REFUSED = [
    ({"n_repeats": 0}, "'n_repeats': 0. Allowed: a whole number of at least 1"),
    ({"average": "most"}, "'average': 'most'. Allowed: a whole number of at least 1, "),
    ({"average": "max"} | ONE_EACH, f"average='max'{EVERY}"),
    ({"average": 2, "equalize": True} | ONE_EACH, f"equalize=True{EVERY}"),
    ({"average": 2} | ONE_EACH, "none of these holds trials of two classes. Leave n_r"),
    ({"equalize": True}, "equalize=True says how .* average is None. Pass average=k"),
    ({"average_test": False}, "average_test=False says how .* average is None"),
    ({"average": 2, "equalize": "yes"}, "'equalize': 'yes'. Allowed: True or False"),
    ({"average": 2, "average_test": 0}, "'average_test': 0. Allowed: True or False"),
    ({"cv": LISTED}, "and the given cv iterable has no random folds.*Use a number"),
    ({"cv": RepeatedKFold(n_splits=3)}, "cv=RepeatedKFold.* or repeats them itself"),
    ({"groups": RUNS, "cv": None}, "has no random folds.* Use GroupKFold or Gr"),
    ({"average": 2, "permute": "free"}, "permute='free' cannot be .* regrouped"),
    ({"permute": "within_folds"}, "each repeat has new folds. Leave permute out"),
]


@pytest.mark.parametrize(("options", "message"), REFUSED)
def test_what_cannot_be_repeated_is_refused(options, message):
    # A number of the wrong type is a TypeError, where bools are asked for.
    with pytest.raises((ValueError, TypeError), match=message):
        decode("cross_validate", **options)


@pytest.mark.parametrize("options", [{"average": 2}, {}], ids=repr)
def test_other_trials_and_numbers_are_not_repeated(options):
    for name in ("others", "other epochs"):
        with pytest.raises(ValueError, match="combined with tests on other trials"):
            decode(name, **options)
    with pytest.raises(ValueError, match="cannot be combined with y_test"):
        decode("map", y_test=NAMES[::-1], **options)
    values = build.values_of(DATA)
    for given, value in ({"n_repeats": 3, "average_test": False} | options).items():
        with pytest.raises(ValueError, match=f"task='regression' has no {given}"):
            ENTRIES["values"](DATA, values, **{given: value})


def test_who_is_left_out_is_warned_of():
    groups = np.where(CODES == 2, np.arange(N) % 2, RUNS)
    groups[np.flatnonzero(CODES == 2)[:9]] = 0
    message = r"average=4 leaves no average of class 'cat' in group '1' in test set 1"
    with pytest.warns(UserWarning, match=message):
        decode("cross_validate", average=4, groups=groups, cv=LeaveOneGroupOut())


def test_maps_without_permutations():
    result, with_null = (
        decode("map", average=2, n_permutations=n_permutations)
        for n_permutations in (0, 3)
    )
    assert result.nulls == {}
    assert_array_equal(result.scores, with_null.scores)


# ------------------------------------------------------ what the draws of a block share


IN_FIVE = np.repeat(np.arange(5), [8, 10, 6, 4, 8])
THREE_SETS = PredefinedSplit(np.repeat([0, 1, 2], [18, 6, 12]))


OPTIONS = {
    "reg": 0.3,
    "cv": 3,
    "average": 2,
    "n_repeats": 5,
    "n_permutations": 3,
    "random_state": 0,
}


def two_classes(n_times=6, n_features=20):
    """Return trials (36, features, times) of two classes, and their labels."""
    rng = np.random.default_rng(0)
    y = rng.permutation(np.repeat([0, 1], [16, 20]))
    noise = rng.standard_normal((36, n_features, n_times))
    return noise + 0.2 * y[:, None, None], y


CASES = {
    "times": (decode_arrays, {}),
    "averaged kernels": (decode_arrays, {"kernel": RBF(0.1)}),
    "confounds": (decode_arrays, {"confounds": two_classes()[0][:, :2, 0]}),
    "single trials tested": (decode_arrays, {"average_test": False}),
    "generalization": (generalize_arrays, {}),
}


@pytest.mark.some(6)
@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("limit", ["MATRIX_BYTES", "DRAWN_BYTES"])
def test_memory_for_repeats_changes_nothing(name, limit, monkeypatch):
    decode, options = CASES[name]
    expected = decode(*two_classes(), **OPTIONS, **options)
    monkeypatch.setattr(draws, limit, 0)
    found = decode(*two_classes(), **OPTIONS, **options)
    assert len(np.unique(found.null)) > 2
    assert_array_equal(found.scores, expected.scores)
    assert_array_equal(found.null, expected.null)


def spread(true, predicted, scores):
    """Return a score that no two penalties share."""
    return np.abs(scores - scores.mean(axis=1, keepdims=True)).mean()


@pytest.mark.parametrize(
    ("n_features", "options", "n_grams"),
    [
        (60, {}, 6),
        (60, {"reg": "ledoit_wolf"}, 6),
        (60, {"reg": "ledoit_wolf", "average_test": False}, 0),
        (60, {"reg": "auto"}, 6),
        # The largest fold comes first, and is handled last.
        (20, {"reg": "auto", "groups": IN_FIVE, "cv": THREE_SETS}, 0),
        (20, {"reg": "ledoit_wolf"}, 0),
        (20, {"kernel": RBF(0.1)}, 6),
        (20, {"average": None, "cv": StratifiedKFold(3)}, 0),
        (60, {"average": None, "cv": StratifiedKFold(3), "reg": "auto"}, 0),
    ],
)
def test_shared_matrices_change_nothing(n_features, options, n_grams, monkeypatch):
    """Those of a block of positions, against a model of its own for every repeat."""
    X, y = two_classes(n_features=n_features)
    options = OPTIONS | {"scoring": ["accuracy", "roc_auc", spread]} | options
    made = []

    def counted(name, function):
        return lambda *args: made.append(name) or function(*args)

    with monkeypatch.context() as patch:
        patch.setattr(draws, "gram_of", counted("gram", draws.gram_of))
        of_block = counted("block", draws.BlockHats.of)
        patch.setattr(draws.BlockHats, "of", of_block)
        together = decode_arrays(X + 5, y, **options)
    assert [made.count(each) for each in ("gram", "block")] == [n_grams, 2]
    monkeypatch.setattr(draws.BlockHats, "of", staticmethod(lambda *_: None))
    apart = decode_arrays(X + 5, y, **options)
    assert_allclose(together.lambdas, apart.lambdas, rtol=1e-10, atol=0)
    for name, null in apart.nulls.items():
        assert len(np.unique(null)) > 5
        rtol = 1e-7 if name == "spread" else 1e-12
        assert_allclose(together.metrics[name], apart.metrics[name], rtol=rtol, atol=0)
        assert_allclose(together.nulls[name], null, rtol=rtol, atol=0)


def test_few_matrices_are_held_at_once(monkeypatch):
    X, y = two_classes()
    held = []
    prepare_sorted = draws.prepare_sorted

    def counted(hats, *settings, **options):
        held.append(len(hats))
        return prepare_sorted(hats, *settings, **options)

    monkeypatch.setattr(draws, "prepare_sorted", counted)
    options = OPTIONS | {"cv": list(StratifiedKFold(3).split(X[:, :, 0], y))}
    decode_arrays(X, y, **options)
    assert held == [4 * 15, 2 * 15]  # 5 repeats of 3 permutations, of 4 and of 2 times
    # Of one time they hold a matrix (16, 16) of 8 bytes, and blocks of folds twice.
    each = 8 * (16**2 + 2 * (6**2 + 6**2 + 4**2))
    monkeypatch.setattr(draws, "MATRIX_BYTES", 2 * 4 * each)
    held.clear()
    decode_arrays(X, y, **options)
    assert max(held) == 8


def test_what_fails_in_a_permutation_is_located(monkeypatch):
    X, y = two_classes()
    calls = []

    def fails(hats, *settings, **options):
        calls.append(len(hats))
        raise ValueError("some of them")  # one by one they are in order

    expected = decode_arrays(X, y, **OPTIONS)
    monkeypatch.setattr(draws, "prepare_sorted", fails)
    found = decode_arrays(X, y, **OPTIONS)
    assert calls == [4 * 15, 2 * 15]
    assert len(np.unique(found.null)) > 2
    assert_array_equal(found.null, expected.null)

    def kernel(A, B):
        if A[0, 0] == X[0, 0, 4]:
            raise ValueError("my kernel")
        return A @ B.T

    with pytest.raises(ValueError, match=r"^At 0\.400 s: kernel .* my kernel$"):
        decode_arrays(X, y, kernel=kernel, sfreq=10.0, **OPTIONS)
