"""Pseudo-trials: which trials are averaged, and the kernel between averages."""

import pickle

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.stats import kstest
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.model_selection import (
    KFold,
    LeaveOneGroupOut,
    PredefinedSplit,
    ShuffleSplit,
    StratifiedKFold,
)

from mvpa_kfda import RBF, Linear, Polynomial, Ridge, cross_validate
from mvpa_kfda.decoding.draws import (
    Cells,
    average_trials,
    count_cells,
    find_left_out,
)
from mvpa_kfda.decoding.run import AveragedKernel, Draw
from mvpa_kfda.inference.permutation import permute_labels
from mvpa_kfda.kfda import direct
from mvpa_kfda.kfda.folds import make_folds
from mvpa_kfda.kfda.hat import make_hat
from mvpa_kfda.kfda.kernels import Callable, Precomputed
from tests import build
from tests.reference import reference_cross_validate

N = 70


def problem(c=3, p=5, seed=0):
    """Return features, unbalanced codes and groups of trials in mixed order."""
    rng = np.random.default_rng(seed)
    codes = rng.permutation(np.repeat(np.arange(c), np.linspace(15, 40, c).astype(int)))
    codes = codes[:N]
    X = rng.standard_normal((len(codes), p)) + rng.standard_normal((c, p))[codes]
    return X, codes, np.array(["b", "a", "c"])[rng.integers(3, size=len(codes))]


# ------------------------------------------------------------------------- membership


@pytest.mark.parametrize(
    ("k", "grouped"), [(1, True), (2, False), (2, True), (3, True), (5, False)]
)
def test_averages_never_mix_test_sets_classes_or_groups(k, grouped):
    _, codes, groups = problem(c=2)
    groups = groups if grouped else None
    folds = make_folds(KFold(3, shuffle=True, random_state=0), codes)
    made = average_trials(k, folds, codes, groups, seed=1)
    assert made.members.shape == (len(made.codes), k)
    rows = made.members.ravel()
    assert len(np.unique(rows)) == len(rows)  # no trial is in two averages
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
    counts = [kinds.count(kind) // k for kind in set(kinds)]
    assert len(made.codes) == sum(counts)


def test_the_test_sets_are_a_partition_in_their_order():
    _, codes, _ = problem()
    pairs = make_folds(KFold(4), codes).pairs[::-1]  # the last trials come first
    folds = make_folds(pairs, codes)
    made = average_trials(2, folds, codes, seed=0)
    assert made.folds.is_partition
    assert made.folds.n == len(made.codes) == sum(map(len, made.folds.tests))
    for test, single in zip(made.folds.tests, folds.tests, strict=True):
        assert np.isin(made.members[test], single).all()
    assert (np.diff(made.members[:, 0]) > 0).all()
    assert (np.diff(made.members, axis=1) > 0).all()


@pytest.mark.parametrize(
    "cv",
    [
        ShuffleSplit(1, test_size=0.3, random_state=0),
        PredefinedSplit(np.arange(N) % 3 - 1),
        [(np.arange(20, N), np.arange(20))],
    ],
    ids=["shuffled", "predefined", "listed"],
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
    expected = reference_cross_validate(Z @ Z.T, made.codes, pairs, 2.0)
    right = expected.predictions[0] == made.codes[expected.rows]
    assert result.scores == pytest.approx(right.mean(), abs=1e-12)


def test_grouping_is_random_and_repeatable():
    _, codes, _ = problem()
    folds = make_folds(2, codes)
    one, again, other = (average_trials(3, folds, codes, seed=s) for s in (5, 5, 6))
    assert_array_equal(one.members, again.members)
    assert (one.members != other.members).any()
    # Every pair of trials of a kind is as likely to be averaged as any other.
    codes = np.repeat([0, 1], 8)
    folds = make_folds(KFold(2, shuffle=True, random_state=0), codes)
    zeros = folds.tests[0][codes[folds.tests[0]] == 0]
    assert len(zeros) >= 3
    together = dict.fromkeys((i, j) for i in zeros for j in zeros if i < j)
    together = dict.fromkeys(together, 0)
    n_seeds = 600
    for seed in range(n_seeds):
        for pair in average_trials(2, folds, codes, seed=seed).members:
            if tuple(pair) in together:
                together[tuple(pair)] += 1
    m = len(zeros)
    expected = n_seeds * (m // 2) / (m * (m - 1) / 2)
    assert_allclose(list(together.values()), expected, rtol=0, atol=5 * expected**0.5)


def test_grouping_takes_other_random_numbers_than_permutations():
    codes = np.zeros(20, int)
    cells = Cells(2, codes, np.array([[20]]), np.array([[10]]))
    for seed in range(5):
        pairs = np.random.default_rng(seed).permutation(20).reshape(-1, 2)
        pairs = {tuple(sorted(pair)) for pair in pairs.tolist()}
        members = cells.group(codes, seed)
        assert {tuple(pair) for pair in members.tolist()} != pairs


def test_an_average_of_one_is_the_trial():
    X, codes, groups = problem()
    folds = make_folds(StratifiedKFold(5), codes)
    made = average_trials(1, folds, codes, groups)
    assert_array_equal(made.members[:, 0], np.arange(len(codes)))
    assert_array_equal(made.apply(X), X)
    assert_array_equal(made.groups, groups)
    for test, single in zip(made.folds.tests, folds.tests, strict=True):
        assert_array_equal(test, np.sort(single))


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_data_of_any_shape_are_averaged(axis):
    _, codes, _ = problem()
    made = average_trials(3, make_folds(3, codes), codes, seed=0)
    data = np.random.default_rng(0).integers(100, size=(len(codes), 2, 4)).astype("i1")
    expected = np.array([np.mean(data[m], axis=0) for m in made.members])
    averaged = made.apply(np.moveaxis(data, 0, axis), axis)
    assert_allclose(np.moveaxis(averaged, axis, 0), expected, rtol=1e-14, atol=0)


# ---------------------------------------------------------------------- permutations


def test_permutations_stay_within_test_sets():
    _, codes, _ = problem(c=2)
    label_free = KFold(3, shuffle=True, random_state=0)
    folds = make_folds(label_free, codes)
    assert folds.sees_labels is False
    made = average_trials(3, folds, codes, seed=0)
    assert made.folds.balanced
    drawn = permute_labels(made.codes, 20, folds=made.folds, random_state=0)
    assert drawn.scheme == "within_folds"
    assert not average_trials(1, folds, codes).folds.balanced


def test_labels_constant_within_groups_do_not_shape_the_averages():
    groups = np.repeat(np.arange(12), 5)
    codes = groups % 2
    folds = make_folds(KFold(3), codes)
    assert average_trials(2, folds, codes).folds.balanced
    made = average_trials(2, folds, codes, groups, seed=0)
    assert not made.folds.balanced
    drawn = permute_labels(made.codes, 20, folds=made.folds, groups=made.groups)
    assert drawn.scheme == "groups"


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


# ----------------------------------------------------------------------------- kernel

MEMBERS = np.array([[0, 3], [1, 2], [4, 7]])
PAIRS = Draw((MEMBERS,))


@pytest.mark.parametrize(
    "kernel",
    [Linear(), RBF("median"), RBF(None), Polynomial(2), Callable(rbf_kernel)],
    ids=build.words,
)
def test_the_kernel_averages_the_kernel_of_single_trials(kernel):
    rng = np.random.default_rng(0)
    X, Y = rng.standard_normal((2, 9, 4))
    S = np.zeros((3, 9))
    S[np.arange(3)[:, None], MEMBERS] = 0.5
    averaged = AveragedKernel(kernel, PAIRS)
    fitted, single = averaged.fit(X), kernel.fit(X)  # the width is single trials'
    close = {"rtol": 1e-13, "atol": 1e-13}
    assert_allclose(fitted(X), S @ single(X) @ S.T, **close)
    assert_allclose(fitted(X, Y), S @ single(X, Y) @ S.T, **close)
    assert_allclose(fitted(2 * Y), S @ single(2 * Y) @ S.T, **close)
    for name in ("shift_free", "assumes_unit_scale", "is_linear", "low_rank"):
        assert getattr(averaged, name) == getattr(kernel, name)


def test_the_linear_kernel_averages_features():
    X = np.random.default_rng(0).standard_normal((9, 4))
    kernel = AveragedKernel(Linear(), PAIRS)
    averaged = X[MEMBERS].mean(axis=1)
    assert_allclose(kernel(X), averaged @ averaged.T, rtol=1e-13, atol=1e-13)
    assert_allclose(kernel.features(X), averaged, rtol=1e-13, atol=1e-13)
    other = AveragedKernel(RBF(0.3), PAIRS)
    assert np.abs(other(X) - RBF(0.3)(averaged)).max() > 0.1


def test_a_given_matrix_is_averaged():
    X = np.random.default_rng(0).standard_normal((9, 4))
    averaged = X[MEMBERS].mean(axis=1)
    kernel = AveragedKernel(Precomputed(), PAIRS)
    assert_allclose(kernel(X @ X.T), averaged @ averaged.T, rtol=1e-13, atol=1e-13)


class Pairs(Linear):
    """A linear kernel that tells what it was asked for."""

    def take(self, columns):
        return Polynomial(2, coef0=len(columns))

    def repeated(self, times):
        return Polynomial(times)


def test_columns_are_the_inner_kernels():
    kernel = AveragedKernel(Pairs(), PAIRS)
    taken, repeated = kernel.take([0, 1]), kernel.repeated(4)
    assert taken.kernel == Polynomial(2, coef0=2)
    assert repeated.kernel == Polynomial(4)
    assert taken.draw is repeated.draw is PAIRS


def test_the_kernel_is_described_and_pickled():
    kernel = AveragedKernel(RBF(0.5), PAIRS)
    assert repr(kernel) == "AveragedKernel(RBF(gamma=0.5), 2 trials each)"
    X = np.random.default_rng(0).standard_normal((9, 4))
    assert_array_equal(pickle.loads(pickle.dumps(kernel))(X), kernel(X))


@pytest.mark.parametrize("k", [1, 2])
def test_classes_are_made_equal_in_every_test_set_and_group(k):
    codes, groups = np.repeat([0, 1, 0, 1], [9, 4, 5, 6]), np.repeat([0, 1], [13, 11])
    folds = make_folds(LeaveOneGroupOut(), codes, groups)
    averaging = average_trials(k, folds, codes, groups, equalize=True)
    for group, smallest in ((0, 4), (1, 5)):
        counts = np.bincount(averaging.codes[averaging.groups == group])
        assert_array_equal(counts, smallest // k)
    # Who is left out depends on the labels, so that these may not move freely.
    assert averaging.folds.balanced
    assert not average_trials(1, folds, codes, groups).folds.balanced


# -------------------------------------------------------------------------- bad input


def test_a_class_too_small_is_named():
    codes = np.repeat([0, 2, 1], [40, 32, 9])  # in no order
    folds = make_folds(StratifiedKFold(3), codes)
    message = (
        r"average=4 leaves class 'dog' without samples: .* of 4 trials of one class "
        r"and test set, .* no test set holds more than 3 of the 9 trials of this "
        r"class\. "
        r"Use average=3 or less"
    )
    with pytest.raises(ValueError, match=message):
        average_trials(4, folds, codes, classes=["cat", "dog", "house"])
    average_trials(3, folds, codes)


def test_a_class_of_no_trials_at_all_is_not_missed():
    codes = np.tile([0, 2], 12)
    averaging = average_trials(2, make_folds(KFold(3), codes), codes)
    assert_array_equal(np.bincount(averaging.codes), [6, 0, 6])


def test_groups_count_too():
    codes, groups = np.tile([0, 1], 12), np.arange(24) // 4
    folds = make_folds(LeaveOneGroupOut(), codes, groups)
    message = "average=3 leaves class '0' without samples: .* no group in a test set"
    with pytest.raises(ValueError, match=message):
        average_trials(3, folds, codes, groups)
    assert len(average_trials(2, folds, codes, groups).codes) == 12


def test_no_test_set_is_left_empty():
    codes = np.repeat([0, 1, 0, 1], [6, 6, 2, 2])
    tests = [np.arange(12), np.arange(12, 16)]
    folds = make_folds([(np.setdiff1d(np.arange(16), t), t) for t in tests], codes)
    message = (
        r"average=3 leaves fold 1 of the given cv iterable without .* 4 test trials"
    )
    with pytest.raises(ValueError, match=message):
        average_trials(3, folds, codes)
    average_trials(2, folds, codes)


@pytest.mark.parametrize("n_repeats", [1, 2])
@pytest.mark.parametrize("cv", [None, 4])
def test_no_test_set_is_left_empty_by_equal_classes(cv, n_repeats):
    groups, y = np.repeat(np.arange(4), 8), np.tile([0, 1], 16)
    y[:8] = np.arange(8) == 7  # a single trial of a class
    X = np.random.default_rng(0).standard_normal((32, 3))
    message = (
        r"^average=2 with equalize=True leaves fold 0 of .* without samples: each "
        r"group in a test set has .* none for the 8 test trials of this fold\. "
        r"Use fewer, larger test sets\. Or leave equalize out\.$"
    )
    given = {"groups": groups, "cv": cv, "average": 2, "equalize": True}
    with pytest.raises(ValueError, match=message):
        cross_validate(X, y, n_repeats=n_repeats, **given)
    given["average_test"] = False  # single trials there are
    result = cross_validate(X, y, n_repeats=n_repeats, **given)
    assert 0 <= result.scores <= 1


def overlapping(*tests):
    """Return folds of alternating classes that all train on the first 20 of 60."""
    rows, codes = np.arange(60), np.tile([0, 1], 30)
    return make_folds([(rows[:20], rows[slice(*test)]) for test in tests], codes), codes


@pytest.mark.parametrize(
    ("tests", "fold"),
    [
        ([(20, 24), (24, 40), (40, 60)], 0),  # trials that are never tested do not help
        ([(20, 40), (24, 34), (40, 44)], 2),  # the second one is within the first
        ([(20, 40), (24, 28), (40, 60)], 1),
    ],
)
def test_no_test_set_is_left_empty_where_training_sets_are_given(tests, fold):
    folds, codes = overlapping(*tests)
    message = rf"average=3 leaves fold {fold} of .* its 4 test trials have at most 2 "
    with pytest.raises(ValueError, match=message):
        count_cells(3, folds, codes)
    count_cells(2, folds, codes)
    count_cells(3, folds, codes, average_test=False)  # single trials there are


def test_no_training_set_is_left_empty():
    codes, rows = np.tile([0, 1], 15), np.arange(30)
    folds = make_folds([(rows[:10], rows[10:20]), (rows[26:], rows[10:20])], codes)
    for average_test in (True, False):
        with pytest.raises(ValueError, match=r"fold 1 .* 4 training trials have"):
            count_cells(3, folds, codes, average_test=average_test)


@pytest.mark.filterwarnings("ignore:Some training set")
def test_who_is_left_out_is_said_by_the_sets_that_share_the_trials():
    folds, codes = overlapping((20, 40), (34, 60))
    for few, place in [
        (slice(0, 2), "in the trials that the given cv iterable never tests, with 2"),
        (slice(20, 22), "in test set 0 of the given cv iterable, with 2 of"),
        (
            slice(34, 36),
            "in what test sets 0, 1 of the given cv iterable share",
        ),
    ]:
        now = np.zeros_like(codes)
        now[50:60], now[few] = 1, 1
        cells = count_cells(3, folds, now)
        problem = find_left_out(cells, folds, None, ["cat", "dog"])
        assert place in problem.text
        assert problem.text.endswith("Use average=2 or less, or average='max'.")


def test_averages_of_a_class_in_one_test_set_only_are_warned_of():
    codes = np.array([0, 0, 0, 0, 1, 1, 0, 0, 0, 0, 1, 0])
    folds = make_folds([(range(6, 12), range(6)), (range(6), range(6, 12))], codes)
    with pytest.warns(
        UserWarning, match=r"Some training set of .* no average of class 'dog'"
    ):
        average_trials(2, folds, codes, classes=["cat", "dog"])


def test_a_class_in_one_test_set_anyway_is_not_warned_of_here(recwarn):
    codes = np.repeat([0, 1, 0], [3, 3, 6])
    folds = make_folds([(range(6, 12), range(6)), (range(6), range(6, 12))], codes)
    average_trials(2, folds, codes)
    assert not len(recwarn)


def test_a_class_averaged_among_trials_that_are_never_tested_is_not_warned_of(recwarn):
    folds, codes = overlapping((20, 40), (40, 60))
    codes[20:] = 0
    codes[[20, 40]] = 1  # too few to be averaged
    count_cells(2, folds, codes)
    assert not len(recwarn)


# ---------------------------------------------------------------------------- repeats


def test_patterns_are_of_as_many_averages_as_one_repeat_has():
    for n_repeats in (1, 3):
        options = {"average": 2, "n_repeats": n_repeats}
        result = build.result("TimeResult", n_permutations=0, **options)
        m = len(result.y) // n_repeats
        counts = np.bincount(result.y[:m])
        assert [each.nave for each in result.patterns().values()] == counts.tolist()
        assert m < 12
