"""Orders of trials that let time or the trial before be decoded, and those that do not.

Every kind of design that gives wrong p-values is warned of, with what to do; hardly any
sound design of a kind is.
"""

import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.model_selection import KFold, StratifiedKFold

from mvpa_kfda import (
    check_design,
    cross_validate,
    decode_arrays,
    decode_epochs,
    decode_regions,
    generalize_arrays,
    generalize_epochs,
    regress,
)
from mvpa_kfda.decoding.orders import NOISE, find_in_order
from mvpa_kfda.kfda.folds import make_folds
from tests import build

RUNS, N_RUN = 6, 48


def find(y, groups=None, numbers=None, regression=False, scheme="auto"):
    """Return what is found in an order of labels, or of numbers."""
    several = None if groups is None or len(np.unique(groups)) < 2 else groups
    kinds = np.zeros(len(y), int) if regression else y
    folds = make_folds(5 if several is None else None, kinds, groups=several)
    options = {"numbers": numbers, "regression": regression}
    return find_in_order(y, groups, folds, scheme, **options)


def names(problems):
    return [problem.name for problem in problems]


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


def behaving(rng, n=N_RUN, n_groups=RUNS, first=0.3, last=0.7):
    """Return labels of which one comes more and more often in every run."""
    share = np.linspace(first, last, n)
    return in_groups(lambda: (rng.random(n) < share).astype(int), n_groups)


def in_windows(rng, size, n, n_groups, n_classes=2):
    """Return labels of which every so many trials hold the same number of each."""
    window = np.arange(size) % n_classes
    return in_groups(
        lambda: np.concatenate([rng.permutation(window) for _ in range(n // size)]),
        n_groups,
    )


def without_repeats(rng, n_classes, n=N_RUN, n_groups=RUNS):
    """Return labels that never repeat."""

    def draw():
        steps = rng.integers(1, n_classes, n)
        return steps.cumsum() % n_classes

    return in_groups(draw, n_groups)


def repeating(rng, share, n=N_RUN, n_groups=RUNS):
    """Return labels of two classes that repeat with a probability."""
    return in_groups(lambda: (rng.random(n) > share).cumsum() % 2, n_groups)


def followed(rng, n_classes=4, n=N_RUN, n_groups=RUNS):
    """Return labels that repeat as by chance, and else are often followed by one."""
    steps = [0, 1, *range(1, n_classes)]
    shares = [1, 1, *[(n_classes - 2) / (n_classes - 1)] * (n_classes - 1)]
    shares = np.array(shares) / n_classes

    def draw():
        return rng.choice(steps, n, p=shares).cumsum() % n_classes

    return in_groups(draw, n_groups)


def put_together(rng, n_subjects=12, n=40, low=0.3, high=0.7):
    """Return labels of subjects with unequal shares, without groups."""
    shares = rng.permutation(np.resize([low, high], n_subjects))
    codes = [(rng.random(n) < share).astype(int) for share in shares]
    return np.concatenate(codes), None


def patients(rng, n_subjects=12, n_runs=4, n=3):
    """Return patients and controls, one after the other, with runs as groups."""
    kinds = rng.permutation(np.arange(n_subjects) % 2)
    runs = np.tile(np.repeat(np.arange(n_runs), n), n_subjects)
    return np.repeat(kinds, n_runs * n), runs


def balanced_in_parts(rng, n=240):
    """Return labels of runs of equal classes, without groups."""
    return shuffled(rng, 24, n // 24)[0], None


def second_order(rng, n_groups=RUNS, n_classes=4, times=3):
    """Return sequences in which every class follows each, itself too, equally often."""

    def draw():
        # An Eulerian circuit through a graph with so many edges between all classes.
        followers = np.tile(np.arange(n_classes), times)
        left = [list(rng.permutation(followers)) for _ in range(n_classes)]
        stack, path = [0], []
        while stack:
            if left[stack[-1]]:
                stack.append(left[stack[-1]].pop())
            else:
                path.append(stack.pop())
        return np.roll(path[1:], rng.integers(len(path)))

    return in_groups(draw, n_groups)


#: Labels with a trend are also alike in neighbours, and at a position of runs.
TRENDS = "trend lasting order drift"

#: Draws, and the kinds of noise of which one is found.
BAD = {
    "share from .3 to .7 in runs": (behaving, TRENDS),
    "the same, half as many": (lambda rng: behaving(rng, 24), TRENDS),
    "the same, twice as many": (lambda rng: behaving(rng, 96), TRENDS),
    "share from .2 to .8 in runs": (
        lambda rng: behaving(rng, first=0.2, last=0.8),
        TRENDS,
    ),
    "share from .3 to .7 in a recording": (
        lambda rng: (behaving(rng, RUNS * N_RUN, 1)[0], None),
        "trend",
    ),
    "balanced in pairs": (
        lambda rng: balanced_in_pairs(rng, N_RUN, RUNS),
        "carry-over",
    ),
    "balanced in fours": (lambda rng: in_windows(rng, 4, N_RUN, RUNS), "carry-over"),
    "two classes in turn": (
        lambda rng: (np.arange(rng.integers(24, 48)) % 2, None),
        "carry-over",
    ),
    "no repeats, 3 classes": (lambda rng: without_repeats(rng, 3), "carry-over order"),
    "no repeats, 4 classes": (lambda rng: without_repeats(rng, 4), "carry-over"),
    "no repeats, 8 classes": (lambda rng: without_repeats(rng, 8), "carry-over"),
    "one class follows another": (followed, "carry-over"),
    "repeats at .6": (lambda rng: repeating(rng, 0.6), "lasting carry-over"),
    "repeats at .65": (lambda rng: repeating(rng, 0.65), "lasting carry-over"),
    "subjects put together, .3 or .7": (put_together, "lasting"),
    "the same, 20 trials each": (
        lambda rng: put_together(rng, n=20),
        "lasting carry-over",
    ),
    "patients and controls, groups are runs": (patients, "order lasting"),
}

SOUND = {
    "two classes": lambda rng: shuffled(rng, 40, 8),
    "short runs": lambda rng: shuffled(rng, 10, 4),
    "long runs": lambda rng: shuffled(rng, 200, 4),
    "three classes": lambda rng: shuffled(rng, 48, 6, 3),
    "eight classes, one each": lambda rng: shuffled(rng, 8, 12, 8),
    "eight classes": lambda rng: shuffled(rng, 48, 6, 8),
    "no groups": lambda rng: (shuffled(rng, 200, 1)[0], None),
    "no groups, runs of equal classes": balanced_in_parts,
    "coins": lambda rng: (rng.integers(2, size=288), np.arange(288) // 48),
    "coins, no groups": lambda rng: (rng.integers(2, size=300), None),
    "unequal classes": lambda rng: (
        (rng.random(288) < 0.2).astype(int),
        np.arange(288) // 48,
    ),
    "what follows what is balanced": second_order,
    "groups that come again": lambda rng: (
        rng.permutation(np.arange(240) % 2),
        np.arange(240) // 5 % 4,
    ),
}


def lasting_values(rng, memory, n=N_RUN, n_groups=RUNS):
    """Return numbers that last from trial to trial of a group."""
    noise = rng.standard_normal((n_groups, n))
    for i in range(1, n):
        noise[:, i] = memory * noise[:, i - 1] + np.sqrt(1 - memory**2) * noise[:, i]
    return noise.ravel(), np.repeat(np.arange(n_groups), n)


def same_values(rng):
    """Return numbers in one order for all groups, some of which differ a little."""
    values = np.tile(rng.standard_normal(20), RUNS)
    return values + rng.standard_normal(len(values)), np.repeat(np.arange(RUNS), 20)


def rising_values(rng):
    """Return numbers that rise in every group."""
    y, groups = lasting_values(rng, 0)
    return y + np.tile(np.linspace(-1, 1, N_RUN), RUNS), groups


#: What else may be found first in numbers that last.
LASTS = "lasting carry-over trend drift order"

BAD_VALUES = {
    "lasting, .3": (lambda rng: lasting_values(rng, 0.3), LASTS),
    "lasting, .5": (lambda rng: lasting_values(rng, 0.5), LASTS),
    "lasting, .5, 60 trials": (lambda rng: lasting_values(rng, 0.5, 60, 1), LASTS),
    "lasting, .7, 60 trials": (lambda rng: lasting_values(rng, 0.7, 60, 1), LASTS),
    "lasting, .5, no groups": (
        lambda rng: (lasting_values(rng, 0.5, 240, 1)[0], None),
        LASTS,
    ),
    "rising in groups": (rising_values, "trend order lasting"),
    "the same in all groups": (same_values, "order trend"),
    "subjects put together": (
        lambda rng: (
            rng.standard_normal(240) + np.repeat(rng.standard_normal(12), 20),
            None,
        ),
        "lasting",
    ),
}

SOUND_VALUES = {
    "normal": lambda rng: lasting_values(rng, 0),
    "heavy tails": lambda rng: (rng.exponential(size=240) ** 3, np.arange(240) // 40),
    "no groups": lambda rng: (rng.standard_normal(100), None),
    "ratings": lambda rng: (rng.integers(1, 6, 240), np.arange(240) // 40),
    "levels of each run": lambda rng: (
        rng.standard_normal(240) + 3 * np.repeat(rng.standard_normal(6), 40),
        np.arange(240) // 40,
    ),
    "few": lambda rng: (rng.standard_normal(16), np.arange(16) // 4),
}


def seen_and_imagined(rng, n_pairs=60, grouped=False, stacked=False, paired=True):
    """Return labels, groups, and which trials are seen; the others are imagined."""
    seen = rng.permutation(np.arange(n_pairs) % 2)
    imagined = seen if paired else rng.permutation(seen)
    codes, chosen = np.concatenate([seen, imagined]), np.arange(2 * n_pairs) < n_pairs
    groups = np.tile(np.arange(n_pairs) * 5 // n_pairs, 2)
    if not stacked:
        order = np.arange(2 * n_pairs).reshape(2, n_pairs).T.ravel()
        codes, chosen, groups = codes[order], chosen[order], groups[order]
    return codes, groups if grouped else None, chosen


#: Whether pairs are one after the other, groups hold them, and are of one class.
PAIRS = {
    "one after the other": ({}, True),
    "30 of them": ({"n_pairs": 30}, True),
    "one set after the other": ({"stacked": True}, True),
    "groups hold them": ({"grouped": True}, False),
    "groups hold them, sets": ({"grouped": True, "stacked": True}, False),
    "orders of their own": ({"paired": False}, False),
    "orders of their own, sets": ({"paired": False, "stacked": True}, False),
}


def cases():
    """Yield the name, what finds problems in a drawn design, and what it may be."""
    for name, (draw, expected) in BAD.items():
        yield name, lambda rng, draw=draw: find(*draw(rng)), expected
    for name, draw in SOUND.items():
        yield name, lambda rng, draw=draw: find(*draw(rng)), ""
    numbers = [(name, draw, "") for name, draw in SOUND_VALUES.items()]
    for name, draw, expected in [(k, *v) for k, v in BAD_VALUES.items()] + numbers:

        def find_in_numbers(rng, draw=draw):
            return find(*draw(rng), regression=True)

        yield f"numbers, {name}", find_in_numbers, expected
    for name, (options, bad) in PAIRS.items():

        def find_pairs(rng, options=options):
            y, groups, chosen = seen_and_imagined(rng, **options)
            return check_design(y, groups, train_on=chosen).problems

        yield f"pairs, {name}", find_pairs, "order lasting" if bad else ""


CASES = {name: case for name, *case in cases()}
#: The share of designs that are warned of, where it is less than nine in ten.
WEAK = {
    "share from .3 to .7 in runs": 0.5,
    "the same, half as many": 0.2,
    "share from .3 to .7 in a recording": 0.3,
    "numbers, lasting, .5, 60 trials": 0.5,
    "numbers, lasting, .5": 0.8,
    "numbers, lasting, .7, 60 trials": 0.8,
    "numbers, the same in all groups": 0.7,
    "numbers, lasting, .5, no groups": 0.8,
    "balanced in fours": 0.6,
    "no repeats, 8 classes": 0.2,
    "repeats at .6": 0.3,
    "repeats at .65": 0.6,
    "the same, 20 trials each": 0.5,
}


def found_in(find, seeds, study):
    """Return what is found in each of so many designs, as "name severity" or ""."""
    found = (find(np.random.default_rng([seed, study])) for seed in seeds)
    return [
        " ".join(f"{x.name} {x.severity}" for x in each if x.name in NOISE)
        for each in found
    ]


# ------------------------------------------------------------------ what is warned of


@pytest.mark.parametrize("name", CASES)
def test_what_can_be_decoded_from_the_order_is_warned_of_and_nothing_else(name):
    find_in, expected = CASES[name]
    found = found_in(find_in, range(10), 1 if expected else 2)
    if not expected:
        assert sum(map(bool, found)) <= 1
    elif name not in WEAK:
        assert sum("warning" in each for each in found) >= 8
        assert {each.split()[0] for each in found if each} <= {*expected.split()}


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_of_400_sound_designs_hardly_any_is_warned_of(name):
    """Found are at most 2 in 100, warned of 1 in 100; of 400, 16 and 10 are beyond."""
    find_in, expected = CASES[name]
    if not expected:
        found = found_in(find_in, range(400), 8)
        assert sum(map(bool, found)) <= 16
        assert sum("warning" in each for each in found) <= 10
    else:
        found = found_in(find_in, range(200), 7)
        assert sum("warning" in x for x in found) >= 200 * WEAK.get(name, 0.9) - 20


@pytest.mark.parametrize(
    ("name", "advice"),
    [
        ("the same, twice as many", "Pass the position in the group and its square"),
        ("share from .3 to .7 in a recording", "Pass the position in the recording"),
        ("no repeats, 4 classes", "pass the class of the previous trial"),
        ("repeats at .65", "decode the mean of each stretch"),
        ("subjects put together, .3 or .7", "pass groups that hold them"),
        ("patients and controls, groups are runs", "pass the subjects as groups"),
        ("pairs, one after the other", "so position predicts the class"),
        ("numbers, rising in groups", "The target has a trend"),
        ("numbers, the same in all groups", "draw a new random order for each group"),
    ],
)
def test_a_warning_says_what_to_do(name, advice):
    find_in, _ = CASES[name]
    found = (find_in(np.random.default_rng(seed)) for seed in range(20))
    texts = [x.text for each in found for x in each if x.severity == "warning"]
    assert any(advice in text for text in texts)


@pytest.mark.parametrize("kind", ["trend", "lasting", "carry-over"])
def test_what_is_said_of_simulated_recordings_is_true(kind):
    """Noise of the kind is decoded as often as is said, and else one time in twenty."""
    draw = {
        "trend": lambda rng: behaving(rng, first=0.1, last=0.9),
        "lasting": lambda rng: in_blocks(rng, 6, 8, 6),
        "carry-over": lambda rng: balanced_in_pairs(rng, N_RUN, RUNS),
    }[kind]
    rng = np.random.default_rng(0)
    found = [find(*draw(rng), scheme="within_groups") for _ in range(8)]
    problem = next(x for each in found for x in each if x.name == kind)
    significant = []
    for seed in range(40):
        rng = np.random.default_rng([seed, 5])
        y, groups = draw(rng)
        X = rng.standard_normal((len(y), 4))
        weights = rng.standard_normal(4)
        if kind == "trend":
            X += np.tile(np.linspace(-1, 1, N_RUN), RUNS)[:, np.newaxis] * weights
        elif kind == "lasting":
            X = drifting(rng, N_RUN, RUNS, 4, 0.9)
        else:
            X += np.roll(y, 1)[:, np.newaxis] * weights
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            options = {"groups": groups, "n_permutations": 39, "random_state": seed}
            p = cross_validate(X, y, scoring="roc_auc", **options).pvalues()
        significant.append(p <= 0.05)
    assert abs(np.mean(significant) - problem.numbers["rate"]) < 0.3
    assert np.mean(significant) > 0.1


@pytest.mark.parametrize(
    ("codes", "groups"),
    [
        (np.repeat([0, 1, 2], 20), None),
        (np.repeat([1, 0], 20), None),
        # Runs of one class each, one class after the other; and blocks that runs cut.
        (np.repeat([0, 1], 30), np.repeat(np.arange(6), 10)),
        (np.repeat([1, 0], [33, 27]), np.repeat(np.arange(6), 10)),
    ],
)
def test_one_block_for_each_class_is_always_warned_of(codes, groups):
    for noun in (False, True):
        found = find_in_order(codes, groups, None, regression=noun)
        assert names(found) == ["sorted"]
    mixed = np.random.default_rng(0).permutation(len(codes))
    moved = None if groups is None else groups[mixed]
    found = find_in_order(codes[mixed], moved, None, numbers=mixed)
    assert names(found) == ["sorted"]
    if groups is None:
        assert find(codes, numbers=mixed) == []


def test_sorted_rows_of_runs_and_sets_are_told_apart():
    sets, chosen = np.repeat([0, 1, 0, 1], 20), np.arange(80) < 40
    (found,) = check_design(sets, train_on=chosen).problems
    assert found.name == "sorted"
    # Runs of one class in turn, and rows put together by class of runs that have both.
    runs = np.repeat(np.arange(6), 10)
    assert "sorted" not in names(find(runs % 2, runs))
    kinds, each = np.repeat([0, 1], 30), np.tile(np.repeat(np.arange(6), 5), 2)
    assert "sorted" not in names(find(kinds, each))
    values = np.sort(np.random.default_rng(0).normal(size=80))
    for sorted_values in (values, values[::-1], np.repeat([1.0, 3.0, 2.0], 10)):
        (found,) = find(sorted_values, regression=True)
        assert found.name == "sorted"
    values[[3, 40]] = values[[40, 3]]
    assert names(find(values, regression=True)) != ["sorted"]


def drift(seed, n=80, p=6, n_times=30):
    """Return labels in random order, and data without an effect that drift."""
    rng = np.random.default_rng(seed)
    steps = rng.standard_normal((n, p, n_times)).cumsum(axis=0)
    return build.NAMES[rng.permutation(np.arange(n) % 2)], (
        rng.standard_normal(steps.shape) + 0.5 * steps
    )


def _of_epochs(X, y, rows, **options):
    epochs = build.epochs(X[rows])
    epochs.events[:, 0] = build.jittered(build.epochs(X)).events[rows, 0]
    return decode_epochs(epochs, y[rows], **options)


#: Layouts of a recording whose rows were put together by condition.
LAYOUTS = {
    "arrays": lambda X, y, rows, **o: decode_arrays(X[rows], y[rows], **o),
    "averages": lambda X, y, rows, **o: decode_arrays(
        X[rows], y[rows], average=2, cv=5, **o
    ),
    "epochs": _of_epochs,
    "generalization": lambda X, y, rows, **o: generalize_arrays(
        X[rows][:, :, :6], y[rows], **o
    ),
    "table": lambda X, y, rows, **o: decode_regions(
        X[rows].reshape(80, -1),
        (pd.DataFrame({"label": y[rows]}), "label"),
        labels_img=np.tile(np.arange(1, 31), 6),
        standardize=False,
        **o,
    ),
    "targets": lambda X, y, rows, **o: decode_arrays(
        X[np.argsort(rating(y))],
        np.sort(rating(y)),
        task="regression",
        scoring="pearsonr",
        **o,
    ),
}


def rating(y):
    """Return numbers in the place of labels, as ratings are."""
    return np.random.default_rng(3).permutation(len(y)) / len(y)


@pytest.mark.filterwarnings("ignore:The rows are sorted")
@pytest.mark.parametrize("layout", LAYOUTS)
def test_noise_that_drifts_is_at_chance_in_sorted_rows(layout):
    """Folds of neighbouring rows gave 0.22, and p-values of nearly 1."""
    scores, p = [], []
    for seed in (2, 3):
        y, X = drift(seed)
        options = {"reg": 0.3, "n_permutations": 99, "random_state": seed}
        rows = np.argsort(y, kind="stable")
        result = LAYOUTS[layout](X, y, rows, **options)
        scores.append(np.mean(result.scores))
        p.append(np.mean(result.pvalues()))
    assert abs(np.mean(scores) - result.chance) < 0.08
    assert 0.3 < np.mean(p) < 0.7


# ------------------------------------------------------------------ what is looked for


@pytest.mark.parametrize("order", ["random", "drawn in pairs"])
def test_the_same_order_in_every_group_is_a_problem(order):
    rng = np.random.default_rng(1)
    codes = {
        "random": rng.permutation(np.arange(24) % 2),
        "drawn in pairs": balanced_in_pairs(rng, 24, 1)[0],
    }[order]
    (problem,) = find(*in_groups(lambda: codes, 4))
    assert problem.name == "order"
    assert "is similar across the 4 groups" in problem.text
    # In a single group, or between trials of no group, there is nothing to compare.
    assert "order" not in names(find(codes))


def test_an_order_of_two_versions_is_a_problem():
    rng = np.random.default_rng(1)
    one, other = (rng.permutation(np.arange(30) % 2) for _ in range(2))
    versions = iter([one, other] * 3)
    assert names(find(*in_groups(lambda: next(versions), 6))) == ["order"]


def test_rows_may_come_in_any_order():
    rng = np.random.default_rng(2)
    codes, groups = in_blocks(rng, 6, 4, 4)
    found = find(codes, groups)
    rows = rng.permutation(len(codes))
    again = find(codes[rows], groups[rows], np.arange(len(codes))[rows])
    assert names(found) == names(again) == ["lasting"]


def test_dropped_trials_do_not_hide_the_order():
    rng = np.random.default_rng(3)
    order = rng.permutation(np.arange(40) % 2)
    codes, groups = in_groups(lambda: order, 4)
    kept = np.sort(rng.permutation(160)[:130])
    kept = np.union1d(kept, np.arange(0, 160, 40))
    numbers = np.arange(160)[kept]
    assert find(codes[kept], groups[kept]) == []
    assert names(find(codes[kept], groups[kept], numbers)) == ["order"]


def test_blocks_are_a_problem():
    rng = np.random.default_rng(4)
    for length in (4, 8):
        codes, groups = in_blocks(rng, 48 // length, length, 6)
        assert names(find(codes, groups)) == ["lasting"]
        assert names(find(codes)) == ["lasting"]
    # One estimate of each block is a trial in random order.
    assert find(*in_blocks(rng, 24, 1, 6)) == []
    assert find(*in_blocks(rng, 8, 1, 12, n_classes=8)) == []


def test_few_trials_and_whole_groups_are_no_problem():
    # By chance alone 2 of 36 designs have the same order and as few changes.
    assert find(np.tile([0, 0, 1, 1], 2), np.repeat([0, 1], 4)) == []
    # Subjects of one class: nothing is exchanged within them.
    subjects = np.repeat(np.random.default_rng(0).permutation(20), 5)
    assert find(subjects % 2, subjects) == []


def test_the_answer_does_not_depend_on_chance():
    codes, groups = in_blocks(np.random.default_rng(5), 12, 2, 3)
    np.random.seed(0)  # noqa: NPY002
    assert find(codes, groups) == find(codes, groups)


def test_scores_are_those_of_plain_loops():
    """The share of recordings in which the labels as they are beat 95 in 100 orders."""
    y, groups = behaving(np.random.default_rng(4), 24, 4, 0.1, 0.9)
    (problem,) = find(y, groups, scheme="within_groups")
    assert problem.name == "trend"
    rng, n_found = np.random.default_rng(7), 0
    time = np.tile(np.linspace(-1, 1, 24), 4)
    powers = np.column_stack([time, time**2])
    powers = (powers - powers.mean(axis=0)) / powers.std(axis=0)
    for _ in range(60):
        X = powers @ rng.standard_normal((2, 4)) / np.sqrt(2)
        X = X + rng.standard_normal(X.shape)
        scores = []
        for b in range(40):
            labels = (
                y
                if not b
                else np.concatenate([rng.permutation(y[groups == g]) for g in range(4)])
            )
            labels = labels - y.mean()
            score = 0
            for g in range(4):
                test = groups == g
                score += (labels[test] @ X[test]) @ (labels[~test] @ X[~test])
            scores.append(score)
        n_found += sum(score >= scores[0] for score in scores) <= 2
    assert abs(n_found / 60 - problem.numbers["rate"]) < 0.2


# ----------------------------------------------------------- why it is worth a warning


def test_the_number_of_a_trial_decodes_an_order_that_is_always_the_same():
    rng = np.random.default_rng(0)
    order = rng.permutation(np.arange(20) % 2)
    codes, runs = in_groups(lambda: order, 5)
    number = np.tile(np.eye(20), (5, 1))
    options = {"groups": runs, "n_permutations": 999, "random_state": 0}
    with pytest.warns(UserWarning, match="so position predicts the class"):
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
        (told,) = caught
        assert "is similar across the 4 groups" in str(told.message)
        assert told.filename == __file__


def test_blocks_matter_but_where_they_are_exchanged_as_wholes():
    rng = np.random.default_rng(7)
    codes, runs = in_blocks(rng, 6, 6, 4)
    X, blocks = rng.standard_normal((144, 3)), np.arange(144) // 6
    with pytest.warns(UserWarning, match="Successive trials are alike"):
        cross_validate(X, codes, groups=runs, n_permutations=9)
    with pytest.warns(UserWarning, match="of the next one"):
        cross_validate(X, codes)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
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


def test_every_decoding_function_warns_in_the_words_of_the_list():
    rng = np.random.default_rng(0)
    seen, _, chosen = seen_and_imagined(rng)
    kinds, runs = patients(rng)
    pairs, groups = balanced_in_pairs(rng, N_RUN, RUNS)
    for y, options in (
        (seen, {"train_on": chosen}),
        (kinds, {"groups": runs}),
        (pairs, {"groups": groups}),
    ):
        X = rng.standard_normal((len(y), 3))
        listed = {each.text for each in check_design(y, **options).problems}
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            cross_validate(X, y, n_permutations=9, **options)
        assert {str(each.message) for each in caught} == listed
        assert len(listed) == 1


def test_regression_is_warned_of_numbers_that_last_in_the_order_of_events():
    rng = np.random.default_rng(0)
    y, groups = lasting_values(rng, 0.6)
    X = rng.standard_normal((len(y), 3, 2))
    with pytest.warns(UserWarning, match="Of simulated recordings"):
        result = regress(X[:, :, 0], y, groups=groups)
    assert any("Of simulated recordings" in each for each in result.warnings)
    epochs = build.jittered(build.epochs(X))
    order = np.argsort(y)
    with pytest.warns(UserWarning, match="Of simulated recordings"):
        decode_epochs(epochs[order], y[order], task="regression", cv=KFold(4))


def test_a_confound_takes_out_what_the_trial_before_left():
    """Pairs of trials hold both classes, and features know the class before only."""
    p = []
    for seed in range(12):
        rng = np.random.default_rng(seed)
        y, groups = balanced_in_pairs(rng, N_RUN, RUNS)
        before = np.roll(y, 1)
        before[::N_RUN] = 2  # none
        X = rng.standard_normal((len(y), 6)) + 0.5 * rng.standard_normal((3, 6))[before]
        options = {"groups": groups, "n_permutations": 39, "random_state": seed}
        with pytest.warns(UserWarning, match="that of the next one"):
            found = cross_validate(X, y, **options)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            names = np.array(["a", "b", "none"])[before]
            cleaned = cross_validate(X, y, confounds=names, **options)
        p.append([found.pvalues(), cleaned.pvalues()])
    found, cleaned = (np.array(p) <= 0.05).sum(axis=0)
    assert found >= 9
    assert cleaned <= 3  # of 12 at 0.05, four or more in 2 of 1000 such tests
