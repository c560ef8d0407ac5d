"""Label permutations: which labels change places, and which scheme is chosen."""

import itertools
import warnings

import numpy as np
import pytest
from scipy.ndimage import gaussian_filter
from scipy.stats import kstest
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

from mvpa_kfda import generalize_arrays, searchlight
from mvpa_kfda.inference.corrections import p_values
from mvpa_kfda.inference.permutation import (
    Permutations,
    count_renamings,
    permute_labels,
)
from mvpa_kfda.kfda.folds import Folds, make_folds
from tests import build
from tests.build import PROBLEMS, p_without_ties, simulate

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


RUNS = np.repeat(["run 1", "run 2"], 40)


@pytest.mark.filterwarnings("ignore:permute='within_folds' .*independent from trial")
@pytest.mark.parametrize(
    ("permute", "cv", "groups", "within", "across"),
    [
        ("within_folds", StratifiedKFold(5, shuffle=True), None, ["folds"], ["runs"]),
        ("within_folds", KFold(4), RUNS, ["folds", "runs", "both"], []),
        ("auto", "hold out", None, ["folds"], ["runs"]),
        ("within_groups", KFold(8), RUNS, ["runs"], ["folds"]),
        ("free", KFold(4), RUNS, [], ["folds", "runs"]),
    ],
)
def test_labels_change_places_within_blocks_and_no_others(
    permute, cv, groups, within, across
):
    codes = np.random.default_rng(0).integers(0, 3, 80)
    cv = [(np.arange(12, 80), np.arange(12))] if cv == "hold out" else cv
    folds = make_folds(cv, codes)
    options = {"groups": groups, "permute": permute, "random_state": SEED}
    found = permute_labels(codes, 50, folds=folds, **options)
    assert found.scheme == ("within_folds" if permute == "auto" else permute)
    assert (found.exact, found.n_permutations) == (False, 50)
    assert len(set(rows(found.labels))) == 51
    of_fold = np.stack([np.isin(np.arange(80), test) for test in folds.tests])
    blocks = {"folds": of_fold.argmax(axis=0) + of_fold.any(axis=0), "runs": RUNS}
    blocks["both"] = np.char.add(RUNS, blocks["folds"].astype(str))
    for name in within:
        assert_stays_in_blocks(found.labels, blocks[name])
    for name in across:
        counts = counts_by_block(found.labels, blocks[name])
        assert (counts != counts[0]).any()


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
    asked = {"folds": make_folds(LeaveOneOut(), codes), "permute": "free"}
    drawn = [
        permute_labels(codes, 58, random_state=seed, **asked) for seed in range(200)
    ]
    assert not drawn[0].exact
    many = np.concatenate([found.labels[1:] for found in drawn])
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
    asked = {"folds": folds, "groups": needed, "permute": permute, "random_state": SEED}
    found = permute_labels(codes, n_distinct - 1, **asked)
    assert found.exact
    assert (found.labels[0] == codes).all()
    assert len(found.labels) == n_distinct
    assert set(rows(found.labels)) == rearrangements(codes, blocks)
    assert len(set(rows(found.labels))) == n_distinct
    # More permutations than there are change nothing; one fewer is drawn at random.
    more = permute_labels(codes, 5000, **asked)
    np.testing.assert_array_equal(more.labels, found.labels)
    fewer = permute_labels(codes, n_distinct - 2, **asked)
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
    found.labels[:] = 0  # which does not change the input
    np.testing.assert_array_equal(codes, balanced(4 * n_classes, n_classes))
    codes = balanced(3000, 7)  # whose arrangements are too many for a number
    options = {"permute": "within_folds", "random_state": SEED}
    many = permute_labels(codes, 5, folds=make_folds(10, codes), **options)
    assert not many.exact


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
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # no splitter could have looked at the labels
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
    found = permute_labels(np.zeros(3, int), 0, folds=None)
    np.testing.assert_array_equal(found.labels, [[0, 0, 0]])


# ----------------------------------------------------------------------------- choices


BLIND = [3, KFold(2), LeaveOneOut(), TimeSeriesSplit(3), None]
BLIND += [ShuffleSplit(30, test_size=0.3), RepeatedKFold(n_splits=2, n_repeats=2)]


@pytest.mark.parametrize("n_permutations", [9, 100_000])
@pytest.mark.parametrize("cv", BLIND, ids=repr)
@pytest.mark.parametrize("scheme", ["free", "within_groups", "groups"])
@pytest.mark.filterwarnings("ignore:The labels have only")
def test_auto_goes_by_the_groups_where_folds_are_blind(scheme, cv, n_permutations):
    codes, groups = np.tile([0, 1], 9), None
    if scheme == "within_groups":
        groups = np.repeat([0, 1, 2], 6)
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


TWENTY, HALVES = balanced(20), np.repeat([0, 1], 10)
NAMED, QUARTERS = np.repeat([["anna", "ben", "eva", "tom"], list("abcd")], 5, axis=1)


@pytest.mark.parametrize(
    ("permute", "codes", "cv", "groups", "message"),
    [
        ("within_groups", TWENTY, 5, None, "permute='within_groups' needs groups"),
        ("groups", TWENTY, 5, None, "permute='groups' needs groups"),
        ("within_groups", TWENTY, None, None, "^permute='within_groups' needs groups"),
        ("groups", TWENTY, None, None, "^permute='groups' needs groups"),
        ("within_folds", TWENTY, None, None, "^permute='within_folds' needs folds, "),
        ("auto", TWENTY, 5, [1, 2, 3], r"shape \(20,\); got shape \(3,\)"),
        ("groups", TWENTY, 5, NAMED, "group 'anna' holds several"),
        ("groups", TWENTY, 5, ["anna"] * 20, "one group only.*anna"),
        ("within_folds", HALVES, KFold(2), None, "only one arrangement.*fold of"),
        (
            "within_groups",
            HALVES,
            KFold(2),
            QUARTERS,
            "only one arrangement.*of a group.*permute='groups'",
        ),
        ("within_folds", TWENTY, LeaveOneOut(), None, "only one arrangement"),
        ("within_groups", HALVES, None, QUARTERS, "^permute='within_groups' allows on"),
    ],
)
def test_what_cannot_be_permuted(permute, codes, cv, groups, message):
    folds = None if cv is None else make_folds(cv, codes)
    with pytest.raises(ValueError, match=message):
        permute_labels(codes, 10, folds=folds, groups=groups, permute=permute)


def test_bad_codes():
    folds = Folds((np.arange(2),), 4)
    with pytest.raises(ValueError, match=r"codes holds 3 trials .* made for 4"):
        permute_labels([0, 1, 0], 2, folds=folds)
    for codes in ([0.0, 1, 0, 1], [[0, 1], [0, 1]], [-1, 0, 1, 0]):
        with pytest.raises(ValueError, match="class numbers 0, 1"):
            permute_labels(codes, 2, folds=folds)


@pytest.mark.parametrize("cv", [GroupKFold(4), LeaveOneGroupOut()])
def test_group_folds_are_blind(cv):
    codes, groups = np.repeat([0, 1] * 6, 3), np.repeat(np.arange(12), 3)
    folds = make_folds(cv, codes, groups)
    found = permute_labels(codes, 50, folds=folds, groups=groups)
    assert (found.scheme, found.exact) == ("groups", False)


# ------------------------------------------------ whether p-values of noise are uniform


def stratified_wide(rng):
    return rng.normal(size=(40, 60)), np.arange(40) % 2, {"cv": StratifiedKFold(10)}


@pytest.mark.slow
@pytest.mark.parametrize(("problem", "scheme"), PROBLEMS.values(), ids=PROBLEMS)
@pytest.mark.parametrize("scoring", ["accuracy", "roc_auc"])
# As random orders of labels may be.
@pytest.mark.filterwarnings("ignore:(Successive|The class)")
@pytest.mark.filterwarnings("ignore:No trial of class")
def test_p_values_are_uniform_on_noise(problem, scheme, scoring):
    results = simulate(problem, 400, 99, scoring=scoring)
    assert {result.parameters["permute"] for result in results} == {scheme}
    assert kstest(p_without_ties(results), "uniform").pvalue > 0.01
    p = np.array([result.pvalues() for result in results])
    for alpha in (0.05, 0.1, 0.2, 0.5):
        margin = 3 * np.sqrt(alpha * (1 - alpha) / len(p))
        assert (p <= alpha).mean() < alpha + margin


@pytest.mark.slow
@pytest.mark.parametrize("permute", ["free", "within_folds"])
def test_stratified_folds_that_follow_the_labels_are_not_biased(permute):
    # With 60 features free shuffling over fixed folds would show a gap of 0.010.
    results = simulate(stratified_wide, 1500, 40, permute=permute)
    gaps = [result.scores - result.null.mean() for result in results]
    error = np.std(gaps) / np.sqrt(len(gaps))
    assert error < 0.003
    assert abs(np.mean(gaps)) < 2 * error


def generalization_maps(strength, autocorrelation, n_maps=300):
    """Yield maps of two classes that differ in the second half of the times only."""
    rng = np.random.default_rng(0)
    y, half = np.arange(60) % 2, 3
    for seed in range(n_maps):
        X = rng.standard_normal((60, 20, 2 * half))
        for t in range(1, X.shape[2]):
            keep = np.sqrt(1 - autocorrelation**2)
            X[:, :, t] = autocorrelation * X[:, :, t - 1] + keep * X[:, :, t]
        pattern = rng.standard_normal((2, 20))
        X[:, :, half:] += strength * pattern[y][:, :, None]
        yield generalize_arrays(
            X, y, cv=5, scoring="roc_auc", n_permutations=99, random_state=seed
        )


def share(flags):
    """Return the share of true cells, averaged over maps."""
    return np.mean([np.mean(flag) for flag in flags])


@pytest.mark.slow
def test_a_classifier_of_noise_does_not_count_as_generalizing_to_a_signal():
    maps = list(generalization_maps(strength=1.0, autocorrelation=0.0))
    noise_to_signal = np.s_[:3, 3:]
    joint = [p_values(m.scores, m.nulls["roc_auc"]) for m in maps]
    assert share([p[noise_to_signal] <= 0.05 for p in joint]) > 0.15
    assert share([m.pvalues()[noise_to_signal] <= 0.05 for m in maps]) < 0.07
    corrected = [m.pvalues("max") <= 0.05 for m in maps]
    assert share([p[noise_to_signal].any() for p in corrected]) < 0.08
    assert share([p[3:, 3:] for p in corrected]) > 0.9  # not with a larger penalty


@pytest.mark.slow
def test_maps_of_noise_that_lasts_are_calibrated():
    maps = list(generalization_maps(strength=0.0, autocorrelation=0.9))
    tests = [m.kept_tests("roc_auc")[1] for m in maps]
    fixed = [p_values(test.scores, test.null) for test in tests]
    assert share([np.diag(p) <= 0.05 for p in fixed]) > 0.065
    assert share([np.diag(m.pvalues()) <= 0.05 for m in maps]) < 0.055
    assert share([m.pvalues() <= 0.05 for m in maps]) < 0.055
    for correction in ("max", "cluster", "tfce"):
        assert share([(m.pvalues(correction) <= 0.05).any() for m in maps]) < 0.088


@pytest.mark.slow
@pytest.mark.parametrize("cv", [None, LeaveOneOut()], ids=["runs", "leave one out"])
def test_searchlights_of_noise_are_calibrated(cv):
    """Smooth noise with drifting runs: any sphere, and the best of them."""
    n_maps, groups, affine = 300, np.repeat(np.arange(4), 6), np.diag([3.0, 3, 3, 1])
    found = {"none": [], "max": [], "cluster": [], "tfce": []}
    options = {"mask_img": build.mask(np.ones((6, 6, 6)), affine), "radius": 4.5}
    options |= {"groups": groups, "n_permutations": 99, "cv": cv}
    for seed in range(n_maps):
        rng = np.random.default_rng(seed)
        y = np.concatenate([rng.permutation([0, 0, 0, 1, 1, 1]) for _ in range(4)])
        noise = gaussian_filter(rng.normal(size=(24, 6, 6, 6)), (0, 1, 1, 1))
        drift = gaussian_filter(rng.normal(size=(4, 6, 6, 6)), (0, 1, 1, 1))
        image = build.volume(noise + drift[groups], affine)
        result = searchlight(image, y, random_state=seed, **options)
        for correction, rates in found.items():
            rates.append(np.mean(result.pvalues(correction) <= 0.05))
    # Accuracies are discrete, so that a test may be conservative.
    assert 0.01 < np.mean(found.pop("none")) < 0.06
    for rates in found.values():
        wrong = np.mean(np.array(rates) > 0)
        assert wrong < 0.05 + 3 * np.sqrt(0.05 * 0.95 / n_maps)
