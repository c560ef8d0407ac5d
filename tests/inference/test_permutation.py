"""Label permutations: which labels change places, and which scheme is chosen."""

import itertools
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
    StratifiedKFold,
    TimeSeriesSplit,
)

from mvpa_kfda.inference.permutation import (
    Permutations,
    count_renamings,
    permute_labels,
)
from mvpa_kfda.kfda.folds import Folds, make_folds

SEED = 3


def rearrangements(codes, blocks):
    """List all distinct rearrangements within blocks, one by one."""
    codes, blocks = np.asarray(codes), np.asarray(blocks)
    found = set()
    for order in itertools.permutations(range(len(codes))):
        if (blocks[list(order)] == blocks).all():
            found.add(tuple(codes[list(order)].tolist()))
    return found


def rows(labels):
    return [tuple(row) for row in labels.tolist()]


def counts_by_block(labels, blocks):
    """Return the class counts (rows, blocks, classes)."""
    cells = [
        [np.bincount(row[blocks == b], minlength=labels.max() + 1) for row in labels]
        for b in np.unique(blocks)
    ]
    return np.swapaxes(np.array(cells), 0, 1)


def assert_stays_in_blocks(labels, blocks):
    counts = counts_by_block(labels, np.asarray(blocks))
    assert (counts == counts[0]).all()


def balanced(n, n_classes=2):
    return np.arange(n) % n_classes


# ------------------------------------------------------------------------- the schemes


def test_within_folds_keeps_every_folds_class_counts():
    codes = np.random.default_rng(0).integers(0, 3, 90)
    folds = make_folds(StratifiedKFold(5, shuffle=True, random_state=0), codes)
    options = {"permute": "within_folds", "random_state": SEED}
    with pytest.warns(RuntimeWarning, match="independent from trial to trial"):
        found = permute_labels(codes, 50, folds=folds, **options)
    assert found.scheme == "within_folds"
    assert not found.exact
    assert found.n_permutations == 50
    for test in folds.tests:
        inside = np.isin(np.arange(90), test).astype(int)
        assert_stays_in_blocks(found.labels, inside)
    assert len(set(rows(found.labels))) == 51


def test_within_folds_and_groups_stays_within_both():
    codes = balanced(80)
    groups = np.repeat(["run 1", "run 2"], 40)
    folds = make_folds(KFold(4), codes)
    options = {"permute": "within_folds", "random_state": SEED}
    found = permute_labels(codes, 50, folds=folds, groups=groups, **options)
    assert found.scheme == "within_folds"
    assert_stays_in_blocks(found.labels, folds.blocks)
    assert_stays_in_blocks(found.labels, groups)
    both = [f"{group} {fold}" for group, fold in zip(groups, folds.blocks, strict=True)]
    assert_stays_in_blocks(found.labels, both)


def test_within_folds_of_a_hold_out_has_two_halves():
    codes = balanced(40)
    test = np.arange(12)
    folds = make_folds([(np.arange(12, 40), test)], codes)
    found = permute_labels(codes, 30, folds=folds, random_state=SEED)
    assert found.scheme == "within_folds"
    assert_stays_in_blocks(found.labels, np.arange(40) < 12)
    # Labels do move inside both halves.
    assert (found.labels[1:, :12] != codes[:12]).any()
    assert (found.labels[1:, 12:] != codes[12:]).any()


def test_within_groups_stays_in_groups_and_crosses_folds():
    codes = np.random.default_rng(0).integers(0, 2, 60)
    groups = np.repeat([7, 1, 3], 20)
    folds = make_folds(KFold(6), codes)
    found = permute_labels(
        codes,
        50,
        folds=folds,
        groups=groups,
        permute="within_groups",
        random_state=SEED,
    )
    assert found.scheme == "within_groups"
    assert_stays_in_blocks(found.labels, groups)
    in_folds = counts_by_block(found.labels, folds.blocks)
    assert (in_folds != in_folds[0]).any()


def test_groups_exchange_their_labels_as_wholes():
    sizes = [3, 5, 4, 6, 2, 5, 3, 4, 4, 5]
    groups = np.repeat(list("jihgfedcba"), sizes)
    patient = np.repeat([0, 1, 0, 1, 0, 1, 0, 1, 0, 1], sizes)
    folds = make_folds(LeaveOneGroupOut(), patient, groups)
    found = permute_labels(patient, 40, folds=folds, groups=groups, random_state=SEED)
    assert found.scheme == "groups"
    by_group = np.array([found.labels[:, groups == g].T for g in "abcdefghij"], object)
    for labels in by_group:  # (trials of the group, rows)
        assert (labels == labels[0]).all()
    of_group = np.array([labels[0] for labels in by_group]).T.astype(int)  # (rows, 10)
    assert (of_group.sum(axis=1) == 5).all()
    assert len(set(rows(of_group))) > 35


def test_free_gives_every_arrangement_the_same_chance():
    codes = np.array([0, 0, 1, 1, 1, 2])
    folds = make_folds(LeaveOneOut(), codes)
    found = permute_labels(codes, 5, folds=folds, permute="free", random_state=SEED)
    assert not found.exact
    many = np.concatenate(
        [
            permute_labels(
                codes, 58, folds=folds, permute="free", random_state=seed
            ).labels[1:]
            for seed in range(200)
        ]
    )
    counts = np.unique(many, axis=0, return_counts=True)[1]
    assert len(counts) == 60  # 6! / (2! 3! 1!)
    expected = len(many) / 60
    chi2 = ((counts - expected) ** 2 / expected).sum()
    assert 30 < chi2 < 100  # 59 degrees of freedom


# ------------------------------------------------------------------------- enumeration


@pytest.mark.parametrize(
    ("codes", "permute", "n_distinct"),
    [
        ([0, 1, 2, 0, 1, 2], "within_folds", 36),
        ([0, 0, 1, 2, 1, 0, 1], "within_folds", 36),
        ([1, 0, 1, 0, 0, 2, 1], "within_groups", 3 * 12),
        ([0, 1, 0, 1, 2, 2, 1], "free", 210),
    ],
)
def test_enumeration_equals_brute_force(codes, permute, n_distinct):
    codes = np.array(codes)
    n = len(codes)
    groups = np.array([5, 5, 5, 2, 2, 2, 2])[:n]
    cuts = [np.arange(3), np.arange(3, n)]
    folds = make_folds([(np.setdiff1d(np.arange(n), c), c) for c in cuts], codes)
    blocks = {
        "within_folds": np.repeat([0, 1], [3, n - 3]),
        "within_groups": groups,
        "free": np.zeros(n, int),
    }[permute]
    needed = groups if permute == "within_groups" else None
    found = permute_labels(
        codes, n_distinct - 1, folds=folds, groups=needed, permute=permute
    )
    assert found.exact
    assert (found.labels[0] == codes).all()
    assert len(found.labels) == n_distinct
    assert set(rows(found.labels)) == rearrangements(codes, blocks)
    assert len(set(rows(found.labels))) == n_distinct
    # More permutations than there are change nothing; one fewer is drawn at random.
    more = permute_labels(codes, 5000, folds=folds, groups=needed, permute=permute)
    np.testing.assert_array_equal(more.labels, found.labels)
    fewer = permute_labels(
        codes,
        n_distinct - 2,
        folds=folds,
        groups=needed,
        permute=permute,
        random_state=SEED,
    )
    assert not fewer.exact
    assert len(fewer.labels) == n_distinct - 1
    assert set(rows(fewer.labels)) < set(rows(found.labels))


def test_enumeration_of_groups():
    groups = np.repeat([3, 1, 2, 0], [2, 3, 1, 2])
    codes = np.repeat([0, 1, 1, 0], [2, 3, 1, 2])
    folds = make_folds(LeaveOneGroupOut(), codes, groups)
    found = permute_labels(codes, 1000, folds=folds, groups=groups)
    assert found.exact
    expected = {
        tuple(np.repeat(order, [2, 3, 1, 2]).tolist())
        for order in itertools.permutations([0, 1, 1, 0])
    }
    assert len(expected) == 6
    assert sorted(rows(found.labels)) == sorted(expected)


def test_many_blocks_that_allow_one_order_only():
    codes = np.zeros(200, int)
    codes[[3, 150]] = 1
    groups = np.repeat(np.arange(100), 2)
    folds = make_folds(LeaveOneOut(), codes)
    found = permute_labels(codes, 10, folds=folds, groups=groups)
    assert found.exact
    assert sorted(map(tuple, np.argwhere(found.labels).tolist())) == [
        (0, 3), (0, 150), (1, 3), (1, 151), (2, 2), (2, 150), (3, 2), (3, 151)
    ]  # fmt: skip


def test_count_of_large_problems_does_not_overflow():
    codes = balanced(3000, 7)
    folds = make_folds(10, codes)
    options = {"permute": "within_folds", "random_state": SEED}
    assert not permute_labels(codes, 5, folds=folds, **options).exact


# --------------------------------------------------------------------- seeds and layout


def test_layout_and_type():
    for n_classes, dtype in [(2, np.int8), (128, np.int8), (129, np.int16)]:
        codes = balanced(4 * n_classes, n_classes)
        folds = make_folds(LeaveOneOut(), codes)
        for n_permutations in (0, 3):
            found = permute_labels(codes, n_permutations, folds=folds)
            assert isinstance(found, Permutations)
            assert found.labels.shape == (n_permutations + 1, len(codes))
            assert found.labels.dtype == dtype
            assert found.labels.flags.c_contiguous
            np.testing.assert_array_equal(found.labels[0], codes)


def test_the_input_is_not_changed():
    codes = balanced(30)
    before = codes.copy()
    found = permute_labels(codes, 5, folds=make_folds(5, codes), random_state=SEED)
    found.labels[:] = 0
    np.testing.assert_array_equal(codes, before)


# --------------------------------------------------------- without folds: other trials


@pytest.mark.parametrize(
    ("groups", "scheme"),
    [
        (None, "free"),
        (np.arange(24) % 4, "within_groups"),  # each group holds every class
        (np.arange(24) // 6, "within_groups"),
        (np.arange(24) % 12, "groups"),  # trials i and i + 12 have one class
    ],
)
def test_without_folds_auto_asks_the_groups(groups, scheme):
    codes = np.arange(24) % 3
    found = permute_labels(codes, 40, folds=None, groups=groups, random_state=SEED)
    assert found.scheme == scheme
    assert found.n_permutations == 40
    assert not found.exact
    np.testing.assert_array_equal(found.labels[0], codes)
    np.testing.assert_array_equal(np.sort(found.labels, axis=1), [np.sort(codes)] * 41)
    assert len(set(rows(found.labels))) > 35
    if scheme == "within_groups":
        assert_stays_in_blocks(found.labels, groups)
    if scheme == "groups":
        np.testing.assert_array_equal(found.labels[:, :12], found.labels[:, 12:])
    named = permute_labels(
        codes, 40, folds=None, groups=groups, permute=scheme, random_state=SEED
    )
    np.testing.assert_array_equal(named.labels, found.labels)


def test_without_folds_any_scheme_but_one_may_be_named():
    codes = np.arange(24) % 3
    groups = np.arange(24) % 12
    free = permute_labels(codes, 40, folds=None, groups=groups, permute="free")
    assert free.scheme == "free"
    assert (free.labels[:, :12] != free.labels[:, 12:]).any()
    with pytest.raises(ValueError, match=r"^permute='within_folds' needs folds, but"):
        permute_labels(codes, 40, folds=None, permute="within_folds")
    for scheme in ("within_groups", "groups"):
        with pytest.raises(ValueError, match=f"^permute='{scheme}' needs groups"):
            permute_labels(codes, 40, folds=None, permute=scheme)


def test_without_folds_nothing_is_biased():
    """There is no splitter that could have looked at the labels."""
    codes = np.arange(24) % 3
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for scheme in ("free", "auto"):
            permute_labels(codes, 40, folds=None, permute=scheme)


def test_without_folds_few_arrangements_are_listed():
    codes = np.array([0, 0, 1, 1, 2])
    found = permute_labels(codes, 100, folds=None)
    assert found.exact
    blocks = np.zeros(5, int)
    assert sorted(rows(found.labels)) == sorted(rearrangements(codes, blocks))
    with pytest.warns(UserWarning, match=r"only 2 distinct arrangements \(permute='gr"):
        found = permute_labels(
            np.array([0, 0, 1, 1]), 100, folds=None, groups=np.array([5, 5, 2, 2])
        )
    assert rows(found.labels) == [(0, 0, 1, 1), (1, 1, 0, 0)]


def test_without_folds_one_arrangement_is_refused():
    with pytest.raises(ValueError, match=r"^permute='within_groups' allows only one"):
        permute_labels(
            np.array([0, 0, 1, 1]),
            10,
            folds=None,
            groups=np.array([5, 5, 2, 2]),
            permute="within_groups",
        )
    found = permute_labels(np.zeros(3, int), 0, folds=None)
    np.testing.assert_array_equal(found.labels, [[0, 0, 0]])


# ----------------------------------------------------------------------------- choices


@pytest.mark.parametrize("n_permutations", [9, 100_000])
@pytest.mark.parametrize(
    "cv",
    [
        3,
        KFold(2),
        LeaveOneOut(),
        ShuffleSplit(30, test_size=0.3, random_state=0),
        RepeatedKFold(n_splits=2, n_repeats=2, random_state=0),
        TimeSeriesSplit(3),
        None,
    ],
    ids=repr,
)
@pytest.mark.parametrize(
    ("groups", "scheme"),
    [
        (None, "free"),
        (np.repeat([0, 1, 2], 6), "within_groups"),
        (np.tile([0, 1], 9), "groups"),
    ],
)
@pytest.mark.filterwarnings("ignore:The labels have only")
def test_auto_goes_by_the_groups_where_folds_are_blind(
    groups, scheme, cv, n_permutations
):
    codes = np.tile([0, 1], 9)
    if scheme == "groups":  # 924 arrangements
        codes, groups = np.repeat(np.tile([0, 1], 6), 2), np.repeat(np.arange(12), 2)
    folds = None if cv is None else make_folds(cv, codes)
    options = {"folds": folds, "groups": groups, "random_state": SEED}
    found = permute_labels(codes, n_permutations, **options)
    assert found.scheme == scheme
    assert found.exact == (n_permutations > 9)


@pytest.mark.parametrize(("n_pairs", "warns"), [(2, True), (3, True), (4, False)])
def test_few_arrangements_are_pointed_out(n_pairs, warns):
    codes = np.tile([0, 1], n_pairs)  # 2 of 6, of 20 or of 70 have all scores alike
    folds = make_folds(LeaveOneOut(), codes)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        permuted = permute_labels(codes, 1000, folds=folds)
    assert permuted.exact
    messages = [str(warning.message) for warning in caught]
    words = {2: "only 6 distinct", 3: "can be below 2/20 = 0.1. Use larger"}
    expected = [words[n_pairs]] if warns else []
    assert len(messages) == len(expected)
    assert all(map(str.__contains__, messages, expected))


def test_few_renamed_classes_are_pointed_out_however_many_arrangements():
    """7! arrangements of a single block have one and the same score."""
    codes = np.arange(7)
    folds = make_folds(LeaveOneOut(), codes)
    with pytest.warns(
        UserWarning, match=r"5040 distinct.* luck .* below 5040/5040 = 1\."
    ):
        found = permute_labels(codes, 100, folds=folds)
    assert (found.exact, found.renamings) == (False, 1)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        permute_labels(codes, 100, folds=folds, alike=False)  # numbers
        permute_labels(codes, 100, folds=None)  # tested labels stay


@pytest.mark.parametrize(
    ("codes", "blocks"),
    [
        ([0, 0, 0, 1, 1, 1], [0] * 6),
        ([0, 0, 1, 1, 1, 0], [0, 0, 0, 1, 1, 1]),
        ([0, 1, 0, 1, 0, 1, 0, 1], [0, 0, 1, 1, 2, 2, 3, 3]),
        ([0, 1, 2, 2, 0, 1, 2, 2], [0, 0, 0, 0, 1, 1, 1, 1]),
        ([0, 1, 2, 0, 1, 2], [0, 0, 0, 1, 1, 1]),
        ([0, 1, 2, 3, 3, 2, 1, 0], [0, 0, 1, 1, 1, 1, 0, 0]),
        ([0, 3, 3, 0], [0, 0, 1, 1]),  # classes that no label has
    ],
)
def test_renamings_are_the_arrangements_of_one_partition(codes, blocks):
    codes, blocks = np.array(codes), np.array(blocks)
    alike = 0
    for labels in rearrangements(codes, blocks):
        pairs = {*zip(codes.tolist(), labels, strict=True)}
        alike += len(pairs) == len({a for a, _ in pairs}) == len({b for _, b in pairs})
    assert count_renamings(codes, blocks) == alike


def test_auto_stays_within_folds_that_may_come_from_labels():
    codes = np.tile([0, 1], 8)
    folds = make_folds(list(KFold(4).split(codes)), codes)
    coarse = permute_labels(codes, 1000, folds=folds, random_state=SEED)
    assert (coarse.scheme, coarse.exact) == ("within_folds", False)
    listed = permute_labels(codes, 1295, folds=folds, random_state=SEED)
    assert (listed.scheme, listed.exact) == ("within_folds", True)


@pytest.mark.parametrize(
    "cv", [StratifiedKFold(4), RepeatedStratifiedKFold(n_splits=4, n_repeats=2)]
)
def test_auto_refuses_folds_that_other_labels_would_not_have(cv):
    codes = balanced(40)
    folds = make_folds(cv, codes)
    with pytest.raises(ValueError, match=r"looks at the labels.*an integer, KFold"):
        permute_labels(codes, 100, folds=folds)
    assert permute_labels(codes, 0, folds=folds).scheme == "free"


#: A rare class of two: in the same one of 10 folds, or not.
RARE = {"as asked": [20, 70], "more": [20, 21]}


@pytest.mark.parametrize("which", RARE)
@pytest.mark.parametrize("n_permutations", [500, 10_000])
@pytest.mark.filterwarnings("ignore:cv=10 leaves some", "ignore:The labels have only")
def test_permuted_labels_would_have_had_the_same_folds(which, n_permutations):
    codes = np.zeros(100, int)
    codes[RARE[which]] = 1
    folds = make_folds(10, codes)
    assert len(folds.tests) == (10 if which == "as asked" else 100)
    found = permute_labels(codes, n_permutations, folds=folds, random_state=SEED)
    np.testing.assert_array_equal(found.labels[0], codes)
    together = np.ptp(np.nonzero(found.labels)[1].reshape(-1, 2) // 10, axis=1) == 0
    assert (together == (which == "more")).all()
    if found.exact:  # 45 pairs in each of 10 folds
        assert len(found.labels) == (450 if which == "more" else 4950 - 450)
    for labels in found.labels[::10]:
        assert (make_folds(10, labels).is_same(folds)) or which == "more"


def test_labels_that_go_with_the_trained_ones_leave_their_classes_to_training_sets():
    codes = np.zeros(60, int)
    codes[[3, 40]] = 1
    folds = make_folds(2, codes)
    tested = np.arange(60) % 3
    options = {"folds": folds, "classes": np.array([0, 0, 0, 1, 1, 1])}
    found = permute_labels(3 * codes + tested, 200, random_state=SEED, **options)
    assert found.n_permutations == 200
    assert ((found.labels[:, :30] >= 3).sum(axis=1) == 1).all()


@pytest.mark.filterwarnings("ignore:cv=2 leaves some")
def test_orders_of_labels_that_hardly_ever_come_about():
    """One class in one half, and small classes of which every half has one trial."""
    codes = np.repeat([0, 1, 0], [1, 50, 51])
    folds = make_folds(2, codes)
    assert len(folds.tests) == 3
    assert permute_labels(codes, 20, folds=folds, random_state=SEED).scheme == "free"
    codes = np.tile(np.arange(20), 2)
    with pytest.raises(ValueError, match=r"Hardly any order .*within_folds"):
        permute_labels(codes, 20, folds=make_folds(2, codes), random_state=SEED)


def test_auto_refuses_unknown_folds_that_leave_nothing():
    codes = balanced(10)
    pairs = [(np.r_[:i, i + 2 : 10], np.r_[i : i + 2]) for i in range(9)]
    folds = make_folds(pairs, codes)
    with pytest.raises(ValueError, match=r"not known whether .* permute='free' by nam"):
        permute_labels(codes, 100, folds=folds)
    named = permute_labels(codes, 100, folds=folds, permute="free")
    assert named.scheme == "free"


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
