"""From `cv` to explicit folds, and splitters that look at labels."""

import warnings

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn import model_selection as ms
from sklearn.model_selection import KFold, StratifiedKFold

from mvpa_kfda import check_design, cross_validate, decode_arrays, generalize_arrays
from mvpa_kfda.kfda import folds as folds_module
from mvpa_kfda.kfda.folds import is_sorted, make_folds
from tests import build

CODES = np.arange(24) % 2
GROUPS = np.repeat(np.arange(4), 6)


@pytest.mark.parametrize(
    ("cv", "sees_labels", "partition"),
    [
        (ms.KFold(4), False, True),
        (ms.StratifiedKFold(4, shuffle=True, random_state=0), True, True),
        (ms.RepeatedStratifiedKFold(n_splits=3, random_state=0), True, False),
        (ms.LeaveOneOut(), False, True),
        (ms.LeavePOut(2), False, False),
        (ms.LeaveOneGroupOut(), False, True),
        (ms.GroupKFold(2), False, True),
        (ms.StratifiedGroupKFold(2), True, True),
        (ms.ShuffleSplit(5, test_size=0.2, random_state=0), False, False),
        (ms.ShuffleSplit(5, test_size=6, train_size=9, random_state=0), False, False),
        (ms.TimeSeriesSplit(3, gap=1), False, False),
        (ms.PredefinedSplit(np.repeat([0, 1, -1], 8)), None, False),
    ],
)
def test_splitters(cv, sees_labels, partition):
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # groups may be there for the permutations only
        folds = make_folds(cv, CODES, GROUPS)
    groups = GROUPS if "Group" in type(cv).__name__ else None
    expected = list(cv.split(np.zeros((24, 1)), CODES, groups))
    assert len(folds.tests) == len(expected)
    for (train, test), (want_train, want_test) in zip(
        folds.pairs, expected, strict=True
    ):
        assert set(train) == set(want_train)
        np.testing.assert_array_equal(test, want_test)
    assert (folds.trains is None) is all(len(a) + len(b) == 24 for a, b in expected)
    assert folds.sees_labels is sees_labels
    assert folds.is_partition is partition
    assert type(cv).__name__ in folds.name


def test_the_folds_of_the_batches_have_the_numbers_that_they_were_given():
    # By the sizes of test sets, and where these are equal by those of training sets.
    sizes = [(4, 7), (2, 9), (4, 3), (2, 8), (3, 1)]
    pairs = [
        (np.arange(12, 12 + b), np.arange(i, i + a)) for i, (a, b) in enumerate(sizes)
    ]
    folds = make_folds(pairs, CODES)
    numbers = folds.numbers
    np.testing.assert_array_equal(numbers, [3, 1, 4, 2, 0])
    np.testing.assert_array_equal([batch.m for batch in folds.batches], [2, 2, 3, 4, 4])
    for number, batch in zip(numbers, folds.batches, strict=True):
        np.testing.assert_array_equal(folds.rows[batch.rows], folds.tests[number])
        np.testing.assert_array_equal(batch.trains[0], folds.trains[number])


def test_defaults_are_folds_of_neighbours():
    for cv, n_folds in ((None, 10), (np.int64(5), 5)):
        folds = make_folds(cv, CODES)
        assert [list(t) for t in folds.tests] == [
            list(test) for _, test in ms.KFold(n_folds).split(CODES)
        ]
        assert folds.sees_labels is False
        assert folds.name == f"cv={ms.KFold(n_folds)}"
    assert len(make_folds(None, CODES, GROUPS).tests) == 4


def test_neighbours_are_those_in_the_recording():
    numbers = np.random.default_rng(0).permutation(100)[:24]
    folds = make_folds(4, CODES, numbers=numbers)
    in_order = np.argsort(numbers)
    for fold, test in enumerate(folds.tests):
        np.testing.assert_array_equal(np.sort(in_order[6 * fold :][:6]), test)
    # Numbers that several trials have are no order.
    alike = make_folds(4, CODES, numbers=numbers % 5)
    assert alike.is_same(make_folds(4, CODES))


@pytest.mark.parametrize(
    ("codes", "asked", "n_folds"),
    [
        (np.repeat([0, 1, 0], [6, 12, 6]), 10, 10),  # fold after fold leaves some
        (np.repeat([0, 1, 0], [2, 8, 14]), 2, 4),  # of 6, fewer than 8
        (np.repeat([0, 1, 0], [6, 3, 6]), 5, 8),  # of 2 or 1
        (np.repeat([0, 2, 1, 0], [5, 2, 8, 5]), 4, 20),
        (np.r_[1, np.zeros(22, int), 1], 2, 2),
    ],
)
def test_there_are_as_many_folds_as_leave_every_class_to_every_training_set(
    codes, asked, n_folds
):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        folds = make_folds(asked, codes)
    assert len(folds.tests) == n_folds
    said = [str(each.message) for each in caught]
    assert len(said) == (n_folds > asked)
    assert all(f"cv={asked} leaves" in s and f"{n_folds} folds" in s for s in said)
    for order in (codes, np.sort(codes), np.sort(codes)[::-1]):
        for train, _ in folds.pairs:
            missing = set(codes) - set(order[train])
            assert not missing or (order is not codes and n_folds == asked)


@pytest.mark.parametrize(
    ("kinds", "order"), [([0, 1], 1), ([2, 0, 1], 1), ([1, 0], -1), ([0, 1, 2], -1)]
)
def test_folds_of_sorted_rows_take_the_same_part_of_each_class(kinds, order):
    codes = np.repeat(kinds, 20)[::order]
    folds = make_folds(5, codes)
    part = np.tile(np.arange(20) * 5 // 20, len(kinds))
    for number, test in enumerate(folds.tests):
        np.testing.assert_array_equal(test, np.flatnonzero(part == number))
    assert folds.balanced
    assert folds.splitter == {"name": "Parts", "n_splits": 5, "of": "class"}
    # The order that counts is that of the recording, where it is known.
    mixed = np.random.default_rng(0).permutation(len(codes))
    in_time = make_folds(5, codes, numbers=mixed)
    assert not in_time.balanced
    moved = make_folds(5, codes[mixed], numbers=mixed)
    for one, other in zip(folds.tests, moved.tests, strict=True):
        np.testing.assert_array_equal(one, np.sort(mixed[other]))


def test_folds_of_sorted_rows_are_as_many_as_classes_allow():
    codes = np.repeat([0, 1], [40, 7])
    for asked, n_folds in ((None, 3), (7, 7)):
        counts = [np.bincount(codes[t]) for t in make_folds(asked, codes).tests]
        assert len(counts) == n_folds
        assert np.min(counts) >= 7 // n_folds
    # More would hold labels of one class, which have nothing to be exchanged with.
    with pytest.warns(UserWarning, match=r"cv=20 would leave .* 7 folds are used"):
        assert len(make_folds(20, codes).tests) == 7
    with pytest.warns(UserWarning, match=r"cv=16 would leave .* 11 folds are used"):
        assert len(make_folds(16, codes[:23], values=np.arange(23.0)).tests) == 11
    for values in (None, np.arange(47.0)):
        each = make_folds(47, codes, values=values)  # every trial is left out
        assert not each.balanced
        assert [list(test) for test in each.tests] == [[i] for i in range(47)]
    with pytest.raises(ValueError, match="more folds than there are trials"):
        make_folds(48, codes)
    # Trials that are trained with and others, of two classes each, are four kinds.
    codes, trained = np.repeat([0, 1, 0, 1], 20), np.arange(80) < 40
    for test in make_folds(5, codes, trained=trained).tests:
        np.testing.assert_array_equal(np.bincount(2 * codes[test] + trained[test]), 4)


@pytest.mark.parametrize("step", [1, -1])
def test_folds_of_sorted_targets_take_every_kth(step):
    values, nothing = np.linspace(0, 1, 23)[::step] ** 2, np.zeros(23, int)
    folds = make_folds(None, nothing, values=values)
    assert len(folds.tests) == 23 // 3
    assert folds.splitter["of"] == "target"
    for number, test in enumerate(folds.tests):
        every_kth = np.arange(23)[::step][number::7]
        np.testing.assert_array_equal(test, np.sort(every_kth))
    in_order = make_folds(None, nothing)
    values[3] = values[10]
    assert make_folds(None, nothing, values=values).is_same(in_order)


def test_what_is_sorted():
    for yes in ([0, 0, 1, 1], [1, 1, 0, 0, 2, 2], [3.0, 2.0, 2.0], [0, 1]):
        assert is_sorted(np.array(yes))
    # One value, blocks that come again, and a value that occurs twice by chance.
    for no in ([1, 1, 1], [0, 1, 1, 0], [1, 1, 0, 2], [3, 1, 1, 2, 5]):
        assert not is_sorted(np.array(no))


def test_only_what_is_trained_with_has_to_hold_every_class():
    codes = np.tile([0, 1], 12)
    trained = np.ones(24, bool)
    trained[(codes == 1) & (np.arange(24) > 4)] = False  # leaves trials 1 and 3
    with pytest.warns(UserWarning, match="cv=4 leaves some training set"):
        folds = make_folds(4, codes, trained=trained)
    assert len(folds.tests) == 24


def test_a_class_of_one_trial_has_no_folds():
    codes = np.r_[np.zeros(9, int), 1]
    with pytest.raises(
        ValueError, match=r"Class 'b' has 1 trial .* Leave the class ou"
    ):
        make_folds(3, codes, classes=["a", "b"])
    with pytest.raises(
        ValueError, match=r"cv=11 asks for more folds than .* trials, 10"
    ):
        make_folds(11, codes)


def test_iterables():
    pairs = list(ms.KFold(3).split(CODES))
    masks = [(~np.isin(range(24), test), np.isin(range(24), test)) for _, test in pairs]
    for cv in (pairs, iter(pairs), masks, [tuple(map(list, pair)) for pair in pairs]):
        folds = make_folds(cv, CODES)
        assert [list(t) for t in folds.tests] == [list(test) for _, test in pairs]
        assert folds.sees_labels is None
    one_out = make_folds(list(ms.LeaveOneOut().split(CODES)), CODES)
    assert one_out.sees_labels is False
    # Where fewer are trained with, they may have been chosen by their labels.
    balanced = [(train[:-1], test) for train, test in ms.LeaveOneOut().split(CODES)]
    assert make_folds(balanced, CODES).sees_labels is None


def test_blocks_number_rows_that_share_all_their_sets():
    for cv, sizes in (
        (ms.KFold(4), [6, 6, 6, 6]),
        ([(range(10), range(10, 24))], [10, 14]),
        ([(range(8), range(8, 24)), (range(16), range(16, 24))], [8, 8, 8]),
        ([(range(10), range(16, 24))], [10, 6, 8]),
        (ms.TimeSeriesSplit(3), [6, 6, 6, 6]),
    ):
        expected = np.repeat(np.arange(len(sizes)), sizes)
        np.testing.assert_array_equal(make_folds(cv, CODES).blocks, expected)


#: Test sets that are a partition, and training sets of several sizes.
PURGED = [
    (np.r_[8:24], np.arange(6)),
    (np.r_[:4, 14:24], np.arange(6, 12)),
    (np.r_[:10, 20:24], np.arange(12, 18)),
    (np.r_[:16], np.arange(18, 24)),
]


def test_folds_with_training_sets_of_their_own_are_sorted_into_batches():
    folds = make_folds(PURGED, CODES)
    assert folds.is_partition
    np.testing.assert_array_equal(folds.numbers, [1, 2, 0, 3])
    np.testing.assert_array_equal(folds.order, np.arange(24))
    found = [
        (train, test)
        for batch in folds.batches
        for train, test in zip(batch.trains, batch.index(24), strict=True)
    ]
    assert [batch.k for batch in folds.batches] == [2, 2]
    for (train, test), number in zip(found, folds.numbers, strict=True):
        np.testing.assert_array_equal(train, PURGED[number][0])
        np.testing.assert_array_equal(test, PURGED[number][1])
    np.testing.assert_array_equal(
        folds.rows, np.concatenate([test for _, test in found])
    )


def test_training_sets_are_kept_only_where_some_is_not_all_others():
    whole = [(np.setdiff1d(np.arange(24), test), test) for _, test in PURGED]
    assert make_folds(whole, CODES).trains is None
    pairs = [*whole[:3], PURGED[3]]
    folds = make_folds(pairs, CODES)
    assert [len(train) for train in folds.trains] == [18, 18, 18, 16]
    for found, expected in zip(folds.pairs, pairs, strict=True):
        np.testing.assert_array_equal(found[0], expected[0])
        np.testing.assert_array_equal(found[1], expected[1])
    # As many test rows as trials are not yet a partition.
    overlap = [(range(12, 24), range(12)), (np.r_[:6, 18:24], range(6, 18))]
    assert not make_folds(overlap, CODES).is_partition


# ---------------------------------------------------------------------- without an end


def endless():
    """Hold-outs that never stop."""
    rng = np.random.default_rng(0)
    while True:
        rows = rng.permutation(24)
        yield rows[6:], rows[:6]


class Endless:
    """A splitter that does not say how often it splits, or says something else."""

    def __init__(self, n_splits=None):
        self.n_splits = n_splits

    def split(self, X, y=None, groups=None):
        return endless()

    def get_n_splits(self, X=None, y=None, groups=None):
        return self.n_splits or {}["unknown"]


@pytest.mark.parametrize(
    "cv",
    [
        ms.ShuffleSplit(10**9),
        ms.RepeatedKFold(n_splits=4, n_repeats=10**6),
        ms.LeavePOut(12),
    ],
    ids=repr,
)
def test_too_many_folds_are_refused_before_the_first(cv, monkeypatch):
    seen, check = [], folds_module._check_rows

    def counting(*arguments):
        seen.append(arguments)
        return check(*arguments)

    monkeypatch.setattr(folds_module, "_check_rows", counting)
    n_splits = cv.get_n_splits(np.zeros((24, 1)))
    message = rf"makes {n_splits:,} folds or more of 24 trials, .* Use fewer folds\.$"
    with pytest.raises(ValueError, match=message):
        make_folds(cv, CODES)
    assert seen == []


@pytest.mark.parametrize("cv", [endless(), Endless(), Endless(5)])
def test_folds_without_end_are_refused(cv, monkeypatch):
    monkeypatch.setattr(folds_module, "_MOST_TESTED", 600)
    with pytest.raises(ValueError, match=r"makes 105 folds or more of 24 trials"):
        make_folds(cv, CODES)


def test_many_folds_are_taken(monkeypatch):
    monkeypatch.setattr(folds_module, "_MOST_TESTED", 600)
    folds = make_folds(ms.ShuffleSplit(104, test_size=6, random_state=0), CODES)
    assert len(folds.tests) == 104
    with pytest.raises(ValueError, match="105 folds"):
        make_folds(ms.ShuffleSplit(105, test_size=6, random_state=0), CODES)
    # A partition is never too much, also if its first test set is the largest.
    monkeypatch.setattr(folds_module, "_MOST_TESTED", 0)
    split = ms.PredefinedSplit(np.repeat(np.arange(5), [12, 4, 4, 2, 2]))
    assert len(make_folds(split, CODES).tests) == 5
    assert len(make_folds(ms.LeaveOneOut(), CODES).tests) == 24


# ---------------------------------------------------- splitters that look at the labels


X, LABELS = build.trials((14, 12), 5, 3)
ASKED = {"n_permutations": 9, "random_state": 0}


class Blind(KFold):
    """A splitter that nobody knows."""


def test_an_unknown_splitter_that_looks_at_nothing_costs_no_more():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        unknown = decode_arrays(X, LABELS, cv=Blind(4), **ASKED)
    known = decode_arrays(X, LABELS, cv=ms.KFold(4), **ASKED)
    assert unknown.parameters["permute"] == known.parameters["permute"] == "free"
    assert_array_equal(unknown.null, known.null)
    problems = check_design(LABELS).problems
    assert check_design(LABELS, cv=Blind(4)).problems == problems
    design = check_design(LABELS, cv=ms.StratifiedKFold(4))
    assert "price" in [problem.name for problem in design.problems]


def test_every_time_is_decoded_in_the_same_folds():
    cv = StratifiedKFold(4, shuffle=True, random_state=1)
    with pytest.warns(UserWarning, match=r"looks at the labels, .* a model each"):
        whole = decode_arrays(X, LABELS, cv=cv, **ASKED)
    assert whole.repeats == {}
    assert whole.trains is None
    for t in range(3):
        one = cross_validate(X[:, :, t], LABELS, cv=cv, **ASKED)
        assert_array_equal(whole.null[:, t], one.null)
        assert_array_equal(whole.predicted[t], one.predicted)


def test_workers_see_the_folds_that_were_drawn():
    class Drawn(StratifiedKFold):
        """Draws other folds every time."""

        calls = 0

        def split(self, *arguments):
            Drawn.calls += 1
            self.random_state = Drawn.calls
            return super().split(*arguments)

    def run(**options):
        Drawn.calls = 0
        cv = Drawn(3, shuffle=True, random_state=0)
        return decode_arrays(X, LABELS, cv=cv, **ASKED, **options)

    one, two = run(), run(n_jobs=2)
    assert_array_equal(one.null, two.null)
    assert Drawn.calls <= 10  # the observed labels and each permutation, once


@pytest.mark.parametrize(
    ("function", "options", "given"),
    [
        (cross_validate, {"average": 2}, "average=2"),
        (cross_validate, {"train_on": np.arange(26) % 2 == 0}, "train_on"),
        (generalize_arrays, {"y_test": LABELS[::-1]}, "y_test"),
    ],
)
def test_where_labels_cannot_be_shown_the_blind_splitter_is_named(
    function, options, given
):
    data = X if function is generalize_arrays else X[:, :, 0]
    message = rf"StratifiedKFold.* cannot be combined with {given}.*an integer, KFold"
    with pytest.raises(ValueError, match=message):
        function(data, LABELS, cv=StratifiedKFold(3), **options, **ASKED)
    function(data, LABELS, cv=StratifiedKFold(3), **options)
    with pytest.warns(RuntimeWarning, match="within_folds.*independent from trial"):
        function(
            data,
            LABELS,
            cv=StratifiedKFold(3),
            permute="within_folds",
            **options,
            **ASKED,
        )


def precise(true, predicted, scores):
    """Return NaN of trials that are of one class."""
    return np.nan if np.ptp(true) == 0 else np.mean(true == predicted)


def test_a_function_may_be_undefined_for_test_sets_of_one_class():
    y = np.r_[np.zeros(10, int), np.tile([0, 1], 8)]
    result = cross_validate(X[:, :, 0], y, cv=4, scoring=precise, **ASKED)
    sets = [test for _, test in result.folds if np.ptp(y[test])]
    hits = [np.mean(result.predictions[test] == y[test]) for test in sets]
    assert 0 < len(sets) < 4
    assert_allclose(result.scores, np.mean(hits), rtol=1e-12)
    with pytest.raises(ValueError, match="NaN for every test set"):
        cross_validate(X[:, :, 0], y, cv=26, scoring=precise)
