"""Which permutation scheme is chosen, refused or warned about."""

import math
import warnings

import numpy as np
import pytest
from sklearn.model_selection import (
    GroupKFold,
    KFold,
    LeaveOneGroupOut,
    LeaveOneOut,
    RepeatedKFold,
    RepeatedStratifiedKFold,
    ShuffleSplit,
    StratifiedGroupKFold,
    StratifiedKFold,
)

from mvpa_kfda.inference.permutation import permute_labels
from mvpa_kfda.kfda.folds import Folds, make_folds

SEED = 3


def balanced(n):
    return np.arange(n) % 2


# ----------------------------------------------------------------------------- choices


def test_auto_wants_far_more_rearrangements_than_permutations():
    codes = np.tile([0, 1], 10)  # 2 folds of 5 + 5: 252^2 = 63504 rearrangements
    folds = make_folds(KFold(2), codes)
    few = permute_labels(codes, 635, folds=folds, random_state=SEED)
    many = permute_labels(codes, 636, folds=folds, random_state=SEED)
    assert (few.scheme, many.scheme) == ("within_folds", "free")


@pytest.mark.parametrize(
    ("cv", "scheme"),
    [
        (KFold(6), "within_folds"),  # folds of 10
        (KFold(7), "free"),  # of 8 or 9
        (LeaveOneOut(), "free"),
        (ShuffleSplit(30, test_size=0.3, random_state=0), "free"),
        (RepeatedKFold(n_splits=2, n_repeats=2, random_state=0), "free"),
        (StratifiedKFold(15), "within_folds"),  # which must not be shuffled freely
    ],
)
def test_auto_does_not_shuffle_within_small_folds_without_need(cv, scheme):
    codes = np.tile([0, 1], 30)
    folds = make_folds(cv, codes)
    assert permute_labels(codes, 9, folds=folds, random_state=SEED).scheme == scheme


@pytest.mark.parametrize(("n_pairs", "warns"), [(2, True), (3, False)])
def test_few_arrangements_are_pointed_out(n_pairs, warns):
    codes = np.tile([0, 1], n_pairs)  # 6 or 20 arrangements
    folds = make_folds(LeaveOneOut(), codes)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        permuted = permute_labels(codes, 1000, folds=folds)
    assert permuted.exact
    messages = [str(warning.message) for warning in caught]
    expected = ["only 6 distinct arrangements"] if warns else []
    assert len(messages) == len(expected)
    assert all(map(str.__contains__, messages, expected))


def test_auto_stays_within_folds_when_the_labels_were_seen():
    codes = np.tile([0, 1], 8)
    folds = make_folds(StratifiedKFold(4), codes)
    coarse = permute_labels(codes, 1000, folds=folds, random_state=SEED)
    assert (coarse.scheme, coarse.exact) == ("within_folds", False)
    listed = permute_labels(codes, 1295, folds=folds, random_state=SEED)
    assert (listed.scheme, listed.exact) == ("within_folds", True)


def test_auto_refuses_when_no_p_value_could_be_small():
    codes = np.tile([0, 1], 4)  # 4 folds of 1 + 1: 2^4 = 16 rearrangements
    folds = make_folds(StratifiedKFold(4), codes)
    with pytest.raises(ValueError, match=r"StratifiedKFold.*looks at .* leaves 16 "):
        permute_labels(codes, 100, folds=folds)
    codes = np.tile([0, 1], 5)
    folds = make_folds(StratifiedKFold(5), codes)  # 32
    assert permute_labels(codes, 100, folds=folds).exact


def test_auto_refuses_overlapping_stratified_folds():
    codes = balanced(40)
    cv = RepeatedStratifiedKFold(n_splits=5, n_repeats=20, random_state=0)
    folds = make_folds(cv, codes)
    with pytest.raises(ValueError, match="splitter that does not look at the labels"):
        permute_labels(codes, 100, folds=folds)


def test_auto_refuses_unknown_folds_that_leave_nothing():
    codes = balanced(10)
    pairs = [(np.r_[:i, i + 2 : 10], np.r_[i : i + 2]) for i in range(9)]
    folds = make_folds(pairs, codes)
    with pytest.raises(ValueError, match=r"not known whether .* permute='free' by nam"):
        permute_labels(codes, 100, folds=folds)
    named = permute_labels(codes, 100, folds=folds, permute="free")
    assert named.scheme == "free"


def test_auto_refuses_a_group_factor_with_label_dependent_folds():
    codes = np.repeat([0, 1] * 4, 3)
    groups = np.repeat(np.arange(8), 3)
    folds = make_folds(StratifiedGroupKFold(4), codes, groups)
    assert folds.sees_labels
    with pytest.raises(ValueError, match=r"GroupKFold.* permute='groups' by name"):
        permute_labels(codes, 100, folds=folds, groups=groups)


@pytest.mark.parametrize("permute", ["free", "within_groups", "groups"])
def test_a_biased_scheme_by_name_warns_at_the_caller(permute):
    groups = np.repeat(np.arange(10), 4)
    codes = groups % 2 if permute == "groups" else balanced(40)
    folds = make_folds(StratifiedKFold(4), codes)
    with pytest.warns(RuntimeWarning, match=f"{permute}.*Strat.*biased") as record:
        found = permute_labels(codes, 20, folds=folds, groups=groups, permute=permute)
    assert found.scheme == permute
    assert record[0].filename == __file__


# --------------------------------------------------------------------------- bad input


def fails(match, codes=None, n_permutations=10, cv=5, error=ValueError, **options):
    codes = balanced(20) if codes is None else codes
    folds = make_folds(cv, codes)
    with pytest.raises(error, match=match):
        permute_labels(codes, n_permutations, folds=folds, **options)


def test_bad_groups():
    fails("permute='within_groups' needs groups", permute="within_groups")
    fails("permute='groups' needs groups", permute="groups")
    fails(r"shape \(20,\); got shape \(3,\)", groups=[1, 2, 3])
    groups = np.repeat(["anna", "ben", "eva", "tom"], 5)
    fails("group 'anna' holds several", groups=groups, permute="groups")
    fails("one group only.*anna", groups=["anna"] * 20, permute="groups")


def test_only_one_arrangement():
    codes = np.repeat([0, 1], 10)
    groups = np.repeat(["a", "b", "c", "d"], 5)
    blind = KFold(2)
    fails("only one arrangement.*fold of", codes, cv=blind, permute="within_folds")
    fails(
        "only one arrangement.*of a group.*permute='groups'",
        codes,
        cv=blind,
        groups=groups,
        permute="within_groups",
    )
    fails("only one arrangement", cv=LeaveOneOut(), permute="within_folds")


def test_bad_codes():
    folds = Folds((np.arange(2),), 4)
    with pytest.raises(ValueError, match=r"codes holds 3 trials .* made for 4"):
        permute_labels([0, 1, 0], 2, folds=folds)
    for codes in ([0.0, 1, 0, 1], [[0, 1], [0, 1]], [-1, 0, 1, 0]):
        with pytest.raises(ValueError, match="class numbers 0, 1"):
            permute_labels(codes, 2, folds=folds)


def test_group_folds_that_are_blind_permute_whole_groups():
    codes = np.repeat([0, 1] * 6, 3)
    groups = np.repeat(np.arange(12), 3)
    for cv in (GroupKFold(4), LeaveOneGroupOut(), KFold(4)):
        folds = make_folds(cv, codes, groups)
        found = permute_labels(codes, 50, folds=folds, groups=groups)
        assert found.scheme == "groups"
        assert not found.exact
    assert math.comb(12, 6) > 51
