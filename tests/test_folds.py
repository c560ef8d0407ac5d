"""From `cv` to explicit folds."""

import warnings

import numpy as np
import pytest
from sklearn import model_selection as ms

from mvpa_kfda.kfda.folds import make_folds

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
    assert folds.sees_labels is sees_labels
    assert folds.is_partition is partition
    assert type(cv).__name__ in folds.name


def test_defaults_are_scikit_learns():
    default = make_folds(None, CODES)
    assert [list(t) for t in default.tests] == [
        list(test) for _, test in ms.StratifiedKFold(10).split(CODES, CODES)
    ]
    assert len(make_folds(None, CODES, GROUPS).tests) == 4
    five = make_folds(5, CODES)
    assert [list(t) for t in five.tests] == [
        list(test) for _, test in ms.StratifiedKFold(5).split(CODES, CODES)
    ]


def test_iterables():
    pairs = list(ms.KFold(3).split(CODES))
    masks = [(~np.isin(range(24), test), np.isin(range(24), test)) for _, test in pairs]
    for cv in (pairs, iter(pairs), masks, [tuple(map(list, pair)) for pair in pairs]):
        folds = make_folds(cv, CODES)
        assert [list(t) for t in folds.tests] == [list(test) for _, test in pairs]
        assert folds.sees_labels is None
    one_out = make_folds(list(ms.LeaveOneOut().split(CODES)), CODES)
    assert one_out.sees_labels is False


def test_blocks_number_rows_that_share_their_test_sets():
    partition = make_folds(ms.KFold(4), CODES).blocks
    np.testing.assert_array_equal(partition, np.repeat([0, 1, 2, 3], 6))
    hold_out = make_folds([(range(10), range(10, 24))], CODES).blocks
    np.testing.assert_array_equal(hold_out, np.repeat([0, 1], [10, 14]))
    overlap = make_folds(
        [(range(8), range(8, 24)), (range(16), range(16, 24))], CODES
    ).blocks
    np.testing.assert_array_equal(overlap, np.repeat([0, 1, 2], 8))


def test_as_many_test_rows_as_trials_are_not_yet_a_partition():
    overlap = [(range(12, 24), range(12)), (np.r_[:6, 18:24], range(6, 18))]
    assert not make_folds(overlap, CODES).is_partition


def test_splits_that_do_not_train_on_all_other_rows_are_refused():
    with pytest.raises(
        ValueError,
        match=r"Fold 0 of cv=TimeSeriesSplit.* trains on 4 of the 20 .*KernelFDA",
    ):
        make_folds(ms.TimeSeriesSplit(5), CODES)
    cv = ms.ShuffleSplit(2, test_size=0.2, train_size=0.5, random_state=0)
    with pytest.raises(
        ValueError, match=r"Fold 0 of cv=ShuffleSplit.* trains on 12 of"
    ):
        make_folds(cv, CODES)
    with pytest.raises(ValueError, match=r"Fold 0 .* its own test trials"):
        make_folds([(range(24), range(4))], CODES)
    train = np.arange(4, 24)
    with pytest.raises(ValueError, match="Fold 1 of the given cv iterable trains"):
        make_folds([(train, range(4)), (train[1:], range(4))], CODES)


def test_too_few_trials_or_groups():
    codes = np.repeat([0, 1], [21, 3])
    for cv in (None, 5, ms.RepeatedStratifiedKFold(n_splits=5)):
        with pytest.raises(ValueError, match="Class 'face' has 3 trials, fewer than"):
            make_folds(cv, codes, classes=["car", "face"])
    for cv in (ms.GroupKFold(5), ms.StratifiedGroupKFold(5)):
        with pytest.raises(ValueError, match="at least 5 groups; got 4 groups"):
            make_folds(cv, CODES, GROUPS)
    with pytest.raises(ValueError, match="at least 2 groups; got 1"):
        make_folds(None, CODES, np.zeros(24))
    with pytest.raises(ValueError, match=r"cv=LeaveOneGroupOut.* cannot split"):
        make_folds(ms.LeaveOneGroupOut(), CODES)
    with pytest.raises(ValueError, match=r"cv=KFold.* cannot split these 24"):
        make_folds(ms.KFold(25), CODES)


def test_an_int_ignores_groups_and_says_so():
    with pytest.warns(UserWarning, match=r"without regard to the groups.*GroupKFold"):
        folds = make_folds(3, CODES, GROUPS)
    assert folds.sees_labels is True


@pytest.mark.parametrize(
    ("cv", "error", "match"),
    [
        (1, ValueError, "'cv': 1.*at least 2"),
        (True, ValueError, "'cv': True"),
        ("loo", TypeError, "'cv': 'loo'"),
        (2.5, TypeError, "'cv': 2.5"),
        ([], ValueError, "yields no folds"),
        ([3], ValueError, "not a pair"),
        ([(range(20), range(20, 30))], ValueError, r"outside 0\.\.23"),
        ([(range(20), [])], ValueError, "test set of fold 0 .* non-empty"),
        ([(range(20), [20, 20, 21, 22])], ValueError, "names a trial twice"),
        ([(range(20), [20.5, 21.0])], ValueError, "must be a non-empty array of row"),
    ],
)
def test_bad_cv(cv, error, match):
    with pytest.raises(error, match=match):
        make_folds(cv, CODES)


def test_a_class_absent_from_a_training_set_is_pointed_out():
    codes = np.repeat([0, 1, 2], 8)
    with pytest.warns(UserWarning, match="class 'b' are in the test set of fold 1 of"):
        make_folds(
            [(range(2, 24), [0, 1]), (np.r_[:8, 16:24], range(8, 16))],
            codes,
            classes=["a", "b", "c"],
        )
    with pytest.warns(UserWarning, match=r"class '0' .* fold 0 of cv=KFold"):
        make_folds(ms.KFold(3), codes)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        make_folds(ms.StratifiedKFold(3), codes)


def test_a_splitter_class_is_no_splitter():
    with pytest.raises(TypeError, match=r"'cv': <class .*KFold'>"):
        make_folds(ms.KFold, CODES)
