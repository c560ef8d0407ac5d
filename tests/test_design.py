"""The order of trials: what a design lets pass for a difference of classes."""

import warnings
from itertools import pairwise

import numpy as np
import pytest
from sklearn.model_selection import KFold, StratifiedKFold

import build
from mvpa_kfda import cross_validate, decode_arrays, decode_epochs, generalize_epochs
from mvpa_kfda.decoding import orders as in_order
from mvpa_kfda.decoding.orders import find_problems


def in_groups(draw, n_groups):
    """Return codes that are drawn for each group, and the groups."""
    codes = [draw() for _ in range(n_groups)]
    return np.concatenate(codes), np.repeat(np.arange(n_groups), len(codes[0]))


def shuffled(rng, n, n_groups, n_classes=2):
    """Return codes (n_groups * n,) in random order in each group."""
    return in_groups(lambda: rng.permutation(np.arange(n) % n_classes), n_groups)


def balanced_in_pairs(rng, n, n_groups):
    """Return codes in which every two trials hold both classes in random order."""
    pairs = np.array([0, 1])
    return in_groups(
        lambda: np.concatenate([rng.permutation(pairs) for _ in range(n // 2)]),
        n_groups,
    )


def in_blocks(rng, n_blocks, length, n_groups, n_classes=2):
    """Return codes in blocks, whose order is random in each group."""
    order = np.arange(n_blocks) % n_classes
    return in_groups(lambda: np.repeat(rng.permutation(order), length), n_groups)


def drifting(rng, n, n_groups, p=10, memory=0.7):
    """Return noise (n_groups * n, p), alike in neighbouring trials of a group."""
    X = rng.standard_normal((n_groups, n, p))
    for i in range(1, n):
        X[:, i] = memory * X[:, i - 1] + np.sqrt(1 - memory**2) * X[:, i]
    return X.reshape(-1, p)


def names(problems):
    return [problem.name for problem in problems]


# ------------------------------------------------------------------ what is looked for


@pytest.mark.parametrize(
    ("share", "found"), [(0.92, []), (0.8, ["repeats"]), (0.55, ["blocks"])]
)
def test_blocks_have_clearly_fewer_changes_than_by_chance(share, found):
    """In long series slightly fewer are no blocks, though no random order has them."""
    n = 4000
    changes = np.zeros(n, int)
    at = np.random.default_rng(0).permutation(n - 1)[: int(share * n / 2)]
    changes[1 + at] = 1
    assert names(find_problems(changes.cumsum() % 2, numbers=np.arange(n))) == found


def test_counts_are_those_of_plain_loops():
    rng = np.random.default_rng(0)
    codes, groups = rng.integers(3, size=40), rng.integers(4, size=40)
    numbers = rng.permutation(80)[:40]
    trials = in_order._in_time(codes, groups, numbers)
    changes = agreements = of_numbers = 0
    runs = [
        sorted((numbers[i], codes[i]) for i in np.flatnonzero(groups == group))
        for group in range(4)
    ]
    for run in runs:
        changes += sum(a[1] != b[1] for a, b in pairwise(run))
    for i, run in enumerate(runs):
        for other in runs[:i]:
            pairs = zip(run, other, strict=False)
            agreements += sum(a[1] == b[1] for a, b in pairs)
            of_numbers += sum(
                a[1] == b[1] and a[0] - run[0][0] == b[0] - other[0][0]
                for a in run
                for b in other
            )
    labels = trials.codes[np.newaxis]
    assert trials.changes(labels) == changes
    assert trials.agreements(labels, trials.ranks) == agreements
    assert trials.agreements(labels, trials.numbers) == of_numbers


def test_what_is_expected_is_that_of_shuffled_labels():
    codes, groups = in_groups(lambda: np.repeat([0, 0, 1], 12), 3)
    order, blocks = find_problems(codes, groups)
    assert (order.name, blocks.name) == ("order", "blocks")
    # Pairs of two trials are of one class with 2/3 * 2/3 + 1/3 * 1/3; a neighbour is
    # of another class with 2 * 24 * 12 / (36 * 35).
    assert order.numbers["agreement"] == 1
    assert order.numbers["by_chance"] == pytest.approx(5 / 9, abs=0.02)
    assert blocks.numbers["changes"] == 3
    assert blocks.numbers["by_chance"] == pytest.approx(3 * 35 * 16 / 35, rel=0.03)


@pytest.mark.parametrize("order", ["random", "alternating", "drawn in pairs"])
def test_the_same_order_in_every_group_is_a_problem(order):
    rng = np.random.default_rng(1)
    codes = {
        "random": rng.permutation(np.arange(24) % 2),
        "alternating": np.arange(24) % 2,
        "drawn in pairs": balanced_in_pairs(rng, 24, 1)[0],
    }[order]
    (problem,) = find_problems(*in_groups(lambda: codes, 4))
    assert problem.name == "order"
    assert "in two groups belong to the same class in 100% of cases" in problem.text
    assert "compared with 50% in random order" in problem.text
    # In a single group, or between trials of no group, there is nothing to compare.
    if order == "random":
        assert find_problems(codes) == []


def test_an_order_of_two_versions_is_a_problem():
    rng = np.random.default_rng(0)
    one, other = (rng.permutation(np.arange(30) % 2) for _ in range(2))
    versions = iter([one, other] * 3)
    (problem,) = find_problems(*in_groups(lambda: next(versions), 6))
    assert problem.name == "order"


def test_rows_may_come_in_any_order():
    rng = np.random.default_rng(2)
    codes, groups = in_groups(lambda: np.repeat([0, 1, 0, 1], 6), 4)
    found = find_problems(codes, groups)
    rows = rng.permutation(len(codes))
    again = find_problems(codes[rows], groups[rows], np.arange(len(codes))[rows])
    assert names(found) == ["order", "blocks"]
    assert found == again


def test_dropped_trials_do_not_hide_the_order():
    rng = np.random.default_rng(3)
    order = rng.permutation(np.arange(40) % 2)
    codes, groups = in_groups(lambda: order, 4)
    kept = np.sort(rng.permutation(160)[:130])
    kept = np.union1d(kept, np.arange(0, 160, 40))
    numbers = np.arange(160)[kept]
    assert find_problems(codes[kept], groups[kept]) == []
    assert names(find_problems(codes[kept], groups[kept], numbers)) == ["order"]


def test_blocks_are_a_problem():
    rng = np.random.default_rng(4)
    for length in (2, 4, 8):
        codes, groups = in_blocks(rng, 48 // length, length, 6)
        assert names(find_problems(codes, groups)) == ["blocks"]
        assert names(find_problems(codes)) == ["blocks"]
    # One estimate of each block is a trial in random order.
    assert find_problems(*in_blocks(rng, 24, 1, 6)) == []
    assert find_problems(*in_blocks(rng, 8, 1, 12, n_classes=8)) == []


def test_few_trials_and_whole_groups_are_no_problem():
    # By chance alone 2 of 36 designs have the same order and as few changes.
    assert find_problems(np.tile([0, 0, 1, 1], 2), np.repeat([0, 1], 4)) == []
    # Subjects of one class: nothing is exchanged within them.
    subjects = np.repeat(np.arange(20), 5)
    assert find_problems(subjects % 2, subjects) == []


def test_the_answer_does_not_depend_on_chance():
    rng = np.random.default_rng(5)
    codes, groups = in_blocks(rng, 12, 2, 3)
    np.random.seed(0)  # noqa: NPY002
    assert find_problems(codes, groups) == find_problems(codes, groups)


# ----------------------------------------------------------- why it is worth a warning


def share_significant(draw, seeds, **options):
    """Return how often noise that drifts is decoded, with p <= 0.05."""
    found = []
    for seed in seeds:
        rng = np.random.default_rng([seed, 5])
        codes, groups = draw(rng)
        X = drifting(rng, len(codes) // 6, 6)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            result = cross_validate(
                X,
                codes,
                groups=groups,
                n_permutations=39,
                random_state=seed,
                **options,
            )
        found.append(result.pvalues() <= 0.05)
    return np.mean(found)


def test_p_values_are_wrong_where_there_is_a_warning():
    seeds = range(60)
    assert share_significant(lambda rng: in_blocks(rng, 6, 8, 6), seeds) > 0.1
    assert share_significant(lambda rng: shuffled(rng, 48, 6), seeds) < 0.09


def test_the_number_of_a_trial_decodes_an_order_that_is_always_the_same():
    rng = np.random.default_rng(0)
    order = rng.permutation(np.arange(20) % 2)
    codes, runs = in_groups(lambda: order, 5)
    number = np.tile(np.eye(20), (5, 1))
    options = {"groups": runs, "n_permutations": 999, "random_state": 0}
    with pytest.warns(UserWarning, match="Position therefore predicts class"):
        result = cross_validate(number, codes, **options)
    assert result.scores == 1
    assert result.pvalues() == 0.001
    codes, runs = shuffled(rng, 20, 5)
    result = cross_validate(number, codes, **options)
    assert result.pvalues() > 0.05


# ------------------------------------------------------------------- who warns, of what


def test_a_class_absent_from_a_training_set_is_pointed_out():
    X = np.random.default_rng(0).standard_normal((24, 3))
    y = np.repeat(["a", "b", "c"], 8)
    cv = [(range(2, 24), [0, 1]), (np.r_[:8, 16:24], range(8, 16))]
    message = r"class 'b' are in the test set of fold 1 of the given cv iterable"
    with pytest.warns(UserWarning, match=message):
        cross_validate(X, y, cv=cv)
    with pytest.warns(UserWarning, match=r"class 'a' .* fold 0 of cv=KFold"):
        cross_validate(X, y, cv=KFold(3))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.filterwarnings("ignore", "The rows are sorted")
        cross_validate(X, y, cv=StratifiedKFold(3))


def test_arrays_and_epochs_are_warned_of_once():
    rng = np.random.default_rng(6)
    X = rng.standard_normal((80, 3, 4))
    codes, groups = in_groups(lambda: np.repeat([0, 1, 0, 1, 0], 4), 4)
    epochs = build.epochs(X, codes)
    for run in (
        lambda: decode_arrays(X, codes, groups=groups, n_permutations=9),
        lambda: decode_epochs(epochs, codes, groups=groups, n_permutations=9),
        lambda: generalize_epochs(epochs, codes, groups=groups, n_permutations=9),
    ):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            run()
        order, blocks = (str(each.message) for each in caught)
        assert order.startswith(
            "The order of the classes is similar across the 4 groups"
        )
        assert blocks.startswith("The label changes 16 times")
        assert {each.filename for each in caught} == {__file__}


def test_blocks_matter_where_single_trials_are_exchanged_or_folds_cut_them():
    rng = np.random.default_rng(7)
    codes, runs = in_blocks(rng, 6, 6, 4)
    X, blocks = rng.standard_normal((144, 3)), np.arange(144) // 6
    with pytest.warns(UserWarning, match="in random order about 72 changes"):
        cross_validate(X, codes, groups=runs, n_permutations=9)
    with pytest.warns(UserWarning, match="label changes"):
        cross_validate(X, codes)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        cross_validate(X, codes, groups=runs)
        cross_validate(X, codes, groups=blocks, n_permutations=9)


def test_epochs_are_in_the_order_of_their_events():
    rng = np.random.default_rng(8)
    X, codes = rng.standard_normal((60, 3, 2)), np.repeat([0, 1], 30)
    # Rows of an array, evenly spaced: they may be sorted by class.
    for epochs in (build.epochs(X, codes), build.jittered(build.epochs(X, codes))):
        with pytest.warns(UserWarning, match="rows are sorted by class"):
            decode_epochs(epochs)
    mixed = build.epochs(X, rng.permutation(codes))
    recorded = build.jittered(mixed)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        decode_epochs(recorded)
        # Sorted by class after the recording.
        decode_epochs(recorded[np.argsort(recorded.events[:, 2], kind="stable")])
